//! Where the values of records are in a text, row by row: so that columns can be read one after the other, of all records or of those that are wanted.
//!
//! Not here: how they are found (`csv/fields`, `json/scan`).

use std::ops::Range;

/// Where a value is: in the lower half where it begins, in the upper one where it ends.
type Cell = u64;

/// Set in the end of a value that has escaped characters.
const ESCAPED: u32 = 1 << 31;

/// That of a value that its record has not.
const MISSING: Cell = Cell::MAX;

/// Places of values.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    width: usize,
    cells: Vec<Cell>,
    /// Where records begin.
    records: Vec<u32>,
}

impl Cells {
    /// Forgets all; records have `width` values from now on.
    pub(crate) fn clear(&mut self, width: usize) {
        self.width = width;
        self.cells.clear();
        self.records.clear();
    }

    /// Number of records.
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.records.len()
    }

    /// Where record `row` begins.
    pub(crate) fn record(&self, row: usize) -> usize {
        self.records[row] as usize
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.cells.len() * size_of::<Cell>() + self.records.len() * size_of::<u32>()
    }

    /// The next value of the record at hand is at `begin..end`, of a text of less than 2 GiB.
    #[inline]
    pub(crate) fn push(&mut self, begin: usize, end: usize, is_escaped: bool) {
        let end = end as u32 | if is_escaped { ESCAPED } else { 0 };
        self.cells.push(begin as Cell | Cell::from(end) << 32);
    }

    /// Takes back the value that was pushed last.
    pub(crate) fn pop(&mut self) {
        self.cells.pop();
    }

    /// Takes back the record that ended last, if it begins at `begin`.
    pub(crate) fn drop_last(&mut self, begin: usize) {
        if self.records.pop_if(|last| *last as usize == begin).is_some() {
            self.drop_record();
        }
    }

    /// Whether value `nth` of the record at hand has nothing in it.
    pub(crate) fn is_empty(&self, nth: usize) -> bool {
        let cell = self.cells[self.records.len() * self.width + nth];
        cell as u32 == (cell >> 32) as u32
    }

    /// The record at hand, which begins at `begin`, has as many values as it should.
    #[inline]
    pub(crate) fn end_record(&mut self, begin: usize) {
        self.records.push(begin as u32);
    }

    /// The same, of one with others: those that come last are left out, and what there is not is missing.
    pub(crate) fn end_uneven_record(&mut self, begin: usize) {
        self.begin_record();
        self.end_record(begin);
    }

    /// The record at hand is none.
    pub(crate) fn drop_record(&mut self) {
        self.cells.truncate(self.records.len() * self.width);
    }

    /// The record at hand has all of its values, those that it has not yet wherever they will be.
    #[inline]
    pub(crate) fn begin_record(&mut self) {
        self.cells.resize((self.records.len() + 1) * self.width, MISSING);
    }

    /// Value `nth` of the record at hand, which was [begun](Self::begin_record), is at `range`.
    #[inline]
    pub(crate) fn set(&mut self, nth: usize, range: Range<usize>) {
        let at = self.records.len() * self.width + nth;
        self.cells[at] = range.start as Cell | (range.end as Cell) << 32;
    }

    /// Where value `column` of each record is, and whether there are escaped characters in it; `None` where a record has none.
    #[inline]
    pub(crate) fn column(&self, column: usize) -> impl Iterator<Item = Option<(Range<usize>, bool)>> {
        let cells = self.cells.get(column..).unwrap_or_default();
        cells.iter().step_by(self.width.max(1)).map(|&cell| {
            let end = (cell >> 32) as u32;
            let range = cell as u32 as usize..(end & !ESCAPED) as usize;
            (cell != MISSING).then_some((range, end & ESCAPED != 0))
        })
    }

    /// Leaves of the records those in `rows`, which are in order.
    pub(crate) fn keep(&mut self, rows: &[u32]) {
        for (to, &from) in rows.iter().enumerate() {
            let from = from as usize;
            self.cells.copy_within(from * self.width..(from + 1) * self.width, to * self.width);
            self.records[to] = self.records[from];
        }
        self.records.truncate(rows.len());
        self.drop_record();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_as_wide_as_all() {
        let mut cells = Cells::default();
        cells.clear(2);
        for (begin, values) in [(0, 2), (10, 1), (20, 3), (30, 2)] {
            (0..values).for_each(|nth| cells.push(begin + nth, begin + nth + 1, nth == 1));
            match begin {
                30 => cells.drop_record(),
                _ if values == 2 => cells.end_record(begin),
                _ => cells.end_uneven_record(begin),
            }
        }
        let column = |cells: &Cells, column| cells.column(column).collect::<Vec<_>>();
        assert_eq!(column(&cells, 1), [Some((1..2, true)), None, Some((21..22, true))]);
        cells.keep(&[0, 2]);
        assert_eq!((cells.rows(), cells.record(1)), (2, 20));
        assert_eq!(column(&cells, 0), [Some((0..1, false)), Some((20..21, false))]);
        cells.begin_record();
        cells.set(1, 7..9);
        cells.end_record(5);
        assert_eq!(column(&cells, 1)[2], Some((7..9, false)));
        assert_eq!(column(&cells, 0)[2], None);
    }
}
