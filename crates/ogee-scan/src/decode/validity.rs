//! Which rows have a value: a bit for each, as validity is in memory, and nearly as files have it.
//!
//! Levels of a column that is not nested are bits already. They are copied by words, counted by words, and values are put in their places by words: where
//! all of 64 rows have a value, or none has, nobody looks at a row.
//!
//! Not here: runs of levels (`hybrid`).

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

/// A bit for each of some rows, set if it has a value.
#[derive(Debug, Default)]
pub(super) struct Validity {
    /// Bits behind the last row are not set.
    words: Vec<u64>,
    rows: usize,
}

const WORD: usize = u64::BITS as usize;

/// The lowest `count` bits, of a word at most.
#[inline(always)]
fn lowest(count: usize) -> u64 {
    if count >= WORD { u64::MAX } else { (1 << count) - 1 }
}

impl Validity {
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.rows = 0;
    }

    /// Rows that have a value.
    pub(super) fn values(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Appends `count` rows, a word's at most, from the lowest bit of `bits` on.
    #[inline(always)]
    pub(super) fn append(&mut self, bits: u64, count: usize) {
        let bits = bits & lowest(count);
        match self.rows % WORD {
            0 if count > 0 => self.words.push(bits),
            offset => {
                if let Some(last) = self.words.last_mut().filter(|_| offset > 0) {
                    *last |= bits << offset;
                }
                if offset + count > WORD {
                    self.words.push(bits >> (WORD - offset));
                }
            }
        }
        self.rows += count;
    }

    /// Appends `count` rows that are alike.
    #[inline(always)]
    pub(super) fn append_n(&mut self, valid: bool, mut count: usize) {
        let bits = if valid { u64::MAX } else { 0 };
        while count > 0 {
            let here = count.min(WORD);
            self.append(bits, here);
            count -= here;
        }
    }

    /// The rows as Arrow has them.
    pub(super) fn to_nulls(&self) -> NullBuffer {
        NullBuffer::new(BooleanBuffer::new(Buffer::from_slice_ref(&self.words), 0, self.rows))
    }

    /// Of the rows `rows`, ascending and counted from `base`, which ones have a value, into `picked`, and which of all values it is, into `values`.
    pub(super) fn pick(&self, rows: &[u32], base: u32, picked: &mut Self, values: &mut Vec<u32>) {
        let (mut word, mut before) = (0, 0);
        values.clear();
        picked.clear();
        for rows in rows.chunks(WORD) {
            let mut bits = 0;
            for (index, row) in rows.iter().enumerate() {
                let row = (row - base) as usize;
                while word < row / WORD {
                    before += self.words[word].count_ones();
                    word += 1;
                }
                let rest = self.words[word];
                if rest >> (row % WORD) & 1 == 1 {
                    bits |= 1 << index;
                    values.push(before + (rest & lowest(row % WORD)).count_ones());
                }
            }
            picked.append(bits, rows.len());
        }
    }

    /// Moves the values from `start` on, one for each row that has one, to the places of their rows; the other places get defaults.
    pub(super) fn spread<T: Copy + Default>(&self, values: &mut Vec<T>, start: usize) {
        // Values that are not in their places yet, and the rows they are for.
        let (mut left, mut rows) = (values.len() - start, self.rows);
        values.resize(start + rows, T::default());
        let values = &mut values[start..];
        for (index, &word) in self.words.iter().enumerate().rev() {
            // All rows up to here have a value.
            if left == rows {
                return;
            }
            let first = index * WORD;
            let here = rows - first;
            if word == lowest(here) {
                left -= here;
                values.copy_within(left..left + here, first);
            } else {
                // From the last on: the places of values that are yet to be moved lie before those that are written.
                for row in (0..here).rev() {
                    let valid = word >> row & 1 == 1;
                    left -= usize::from(valid);
                    let value = values[left];
                    values[first + row] = if valid { value } else { T::default() };
                }
            }
            rows = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether row `row` has a value, for rows of which few, some, most or all have one.
    fn is_valid(row: usize, one_in: usize) -> bool {
        let mixed = (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match one_in {
            0 => true,
            1 => false,
            2..=9 => mixed.is_multiple_of(one_in as u64),
            // Long stretches of both kinds.
            _ => row / one_in % 2 == 1 || mixed.is_multiple_of(64),
        }
    }

    fn validity(rows: usize, one_in: usize, piece: usize) -> Validity {
        let mut validity = Validity::default();
        for start in (0..rows).step_by(piece) {
            let count = piece.min(rows - start);
            let bits = (0..count).fold(0, |bits, row| bits | u64::from(is_valid(start + row, one_in)) << row);
            // Bits behind the last one are not looked at.
            validity.append(if count < WORD { bits | u64::MAX << count } else { bits }, count);
        }
        validity
    }

    #[test]
    fn values_come_to_the_places_of_their_rows() {
        for rows in [0, 1, 63, 64, 65, 128, 1000] {
            for one_in in [0, 1, 2, 9, 100] {
                for piece in [1, 7, 56, 64] {
                    let validity = validity(rows, one_in, piece);
                    let valid = (0..rows).filter(|&row| is_valid(row, one_in)).collect::<Vec<_>>();
                    assert_eq!(validity.values(), valid.len());
                    let mut values = vec![7];
                    values.extend(valid.iter().map(|row| row + 1));
                    validity.spread(&mut values, 1);
                    let expected = (0..rows).map(|row| if is_valid(row, one_in) { row + 1 } else { 0 });
                    assert!(values[1..].iter().copied().eq(expected), "{rows} rows, one in {one_in}");
                    assert_eq!(values[0], 7);
                    assert!(validity.to_nulls().valid_indices().eq(valid));
                }
            }
        }
    }

    #[test]
    fn rows_that_are_picked_know_their_values() {
        for one_in in [0, 1, 2, 9, 100] {
            let validity = validity(1000, one_in, 56);
            for step in [1, 3, 70, 400] {
                let rows = (0..1000).step_by(step).collect::<Vec<u32>>();
                let from_base = rows.iter().map(|row| row + 5).collect::<Vec<_>>();
                let (mut picked, mut values) = (Validity::default(), Vec::new());
                validity.pick(&from_base, 5, &mut picked, &mut values);
                let valid = rows.iter().filter(|&&row| is_valid(row as usize, one_in));
                let before = |row: &u32| (0..*row).filter(|&row| is_valid(row as usize, one_in)).count() as u32;
                assert!(valid.map(before).eq(values.iter().copied()), "one in {one_in}, step {step}");
                assert_eq!(picked.values(), values.len());
                let valid = picked.to_nulls();
                assert!(rows.iter().zip(valid.iter()).all(|(&row, valid)| valid == is_valid(row as usize, one_in)));
            }
        }
    }

    #[test]
    fn rows_alike_are_appended_at_once() {
        let mut validity = Validity::default();
        for (valid, count) in [(true, 3), (false, 130), (true, 200), (false, 0), (true, 64)] {
            validity.append_n(valid, count);
        }
        assert_eq!(validity.values(), 267);
        assert_eq!(validity.to_nulls().null_count(), 130);
        assert_eq!(validity.to_nulls().len(), 397);
    }
}
