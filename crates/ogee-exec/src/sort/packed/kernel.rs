//! Sorting and merging packed rows: numbers of a few words that are compared and moved as a whole.
//!
//! Not here: where rows are kept.

use std::cmp::Ordering;

/// Words of a row, at most.
pub(super) const WORDS_MAX: usize = 8;

/// A row of `W` words, the most significant first.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
struct Row<const W: usize>([u64; W]);

impl<const W: usize> Ord for Row<W> {
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<const W: usize> PartialOrd for Row<W> {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    /// The first two words at once, without a branch; most rows differ there.
    #[inline(always)]
    fn lt(&self, other: &Self) -> bool {
        if W == 1 {
            return self.0[0] < other.0[0];
        }
        let first = |row: &Self| u128::from(row.0[0]) << 64 | u128::from(row.0[1]);
        let (a, b) = (first(self), first(other));
        if W == 2 || a != b { a < b } else { self.0[2..] < other.0[2..] }
    }
}

/// `$body` with `$width` being `$words` as a constant.
macro_rules! with_words {
    ($words:expr, $width:ident => $body:expr) => {{
        macro_rules! with {
            ($w:literal) => {{
                const $width: usize = $w;
                $body
            }};
        }
        match $words {
            1 => with!(1),
            2 => with!(2),
            3 => with!(3),
            4 => with!(4),
            5 => with!(5),
            6 => with!(6),
            7 => with!(7),
            8 => with!(8),
            _ => unreachable!("rows have at most {WORDS_MAX} words"),
        }
    }};
}

fn as_rows_mut<const W: usize>(words: &mut [u64]) -> &mut [Row<W>] {
    // SAFETY: a row is an array of words, and there are as many; the slice is borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() / W) }
}

/// Sorts rows of `words` words.
pub(super) fn sort(rows: &mut [u64], words: usize) {
    with_words!(words, W => as_rows_mut::<W>(rows).sort_unstable());
}

/// How many of `rows`, which are in order, come before `row`, or are equal to it where those are `included`.
pub(super) fn rows_before(rows: &[u64], words: usize, row: &[u64], included: bool) -> usize {
    let (mut low, mut high) = (0, rows.len() / words);
    while low < high {
        let middle = low.midpoint(high);
        let order = rows[middle * words..(middle + 1) * words].cmp(row);
        if order.is_lt() || included && order.is_eq() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Merges sorted segments of `rows`, which end at `ends` (in words, ascending, the last where the rows end), pair by pair; `spare` has as much room.
/// Whether the result is there and not in `rows`. `ends` is used up.
pub(super) fn merge(rows: &mut [u64], spare: &mut [u64], ends: &mut Vec<usize>, words: usize) -> bool {
    with_words!(words, W => merge_segments::<W>(as_rows_mut(rows), as_rows_mut(spare), ends))
}

fn merge_segments<const W: usize>(rows: &mut [Row<W>], spare: &mut [Row<W>], ends: &mut Vec<usize>) -> bool {
    assert!(rows.len() <= spare.len());
    assert_eq!(ends.last().copied().unwrap_or(0), rows.len() * W);
    let (mut from, mut to) = (rows, spare);
    let mut swapped = false;
    while ends.len() > 1 {
        let mut start = 0;
        let mut kept = 0;
        for pair in 0..ends.len().div_ceil(2) {
            let middle = ends[2 * pair] / W;
            let end = ends.get(2 * pair + 1).map_or(middle, |end| end / W);
            merge_two(&from[start..middle], &from[middle..end], &mut to[start..end]);
            start = end;
            ends[kept] = end * W;
            kept += 1;
        }
        ends.truncate(kept);
        std::mem::swap(&mut from, &mut to);
        swapped = !swapped;
    }
    swapped
}

/// Merges `a` and `b` into `out`, from both ends at once: two chains of steps that do not wait for one another, without a branch on what they find.
fn merge_two<'a, const W: usize>(mut a: &'a [Row<W>], mut b: &'a [Row<W>], out: &mut [Row<W>]) {
    assert_eq!(a.len() + b.len(), out.len());
    let (mut first, mut last) = (0, out.len());
    while !a.is_empty() && !b.is_empty() {
        if b[0] >= a[a.len() - 1] {
            break;
        }
        if b[b.len() - 1] <= a[0] {
            std::mem::swap(&mut a, &mut b);
            break;
        }
        // Either end takes so many steps before a side can be used up.
        let steps = (a.len().min(b.len()) / 2).max(1);
        if a.len().min(b.len()) == 1 {
            // One row among others.
            let (one, many) = if a.len() == 1 { (a[0], b) } else { (b[0], a) };
            let before = many.partition_point(|row| *row < one);
            out[first..first + before].copy_from_slice(&many[..before]);
            out[first + before] = one;
            out[first + before + 1..last].copy_from_slice(&many[before..]);
            return;
        }
        let (mut x, mut y) = (0, 0);
        let (mut x_end, mut y_end) = (a.len(), b.len());
        for step in 0..steps {
            // SAFETY: in so many steps from the front and as many from the back no more than twice as many rows are taken of one side, which has
            // them; `out` has room for the rows of both.
            unsafe {
                let (u, v) = (*a.get_unchecked(x), *b.get_unchecked(y));
                let second = v < u;
                *out.get_unchecked_mut(first + step) = if second { v } else { u };
                x += usize::from(!second);
                y += usize::from(second);
                let (u, v) = (*a.get_unchecked(x_end - 1), *b.get_unchecked(y_end - 1));
                let first_side = v < u;
                *out.get_unchecked_mut(last - 1 - step) = if first_side { u } else { v };
                x_end -= usize::from(first_side);
                y_end -= usize::from(!first_side);
            }
        }
        first += steps;
        last -= steps;
        a = &a[x..x_end];
        b = &b[y..y_end];
    }
    let (head, tail) = out[first..last].split_at_mut(a.len());
    head.copy_from_slice(a);
    tail.copy_from_slice(b);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u64, len: usize, below: u64) -> Vec<u64> {
        let mut state = seed | 1;
        let step = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        (0..len).map(step).collect()
    }

    #[test]
    fn rows_of_all_widths_are_sorted_and_merged() {
        for words in 1..=WORDS_MAX {
            for (segments, below) in [(1, 9), (2, 3), (3, 1 << 50), (7, 4), (16, 1 << 20), (33, 2)] {
                let mut rows = Vec::new();
                let mut ends = Vec::new();
                for segment in 0..segments {
                    let len = numbers(segment + 5, 1, 70)[0] as usize * usize::from(segment % 5 != 3);
                    let mut part = numbers(segment * 31 + below, len * words, below);
                    sort(&mut part, words);
                    assert!(part.chunks(words).is_sorted());
                    rows.extend(part);
                    ends.push(rows.len());
                }
                let mut expected: Vec<Vec<u64>> = rows.chunks(words).map(<[u64]>::to_vec).collect();
                expected.sort();
                let mut spare = vec![0; rows.len()];
                let in_spare = merge(&mut rows, &mut spare, &mut ends, words);
                let merged = if in_spare { &spare } else { &rows };
                assert_eq!(
                    merged.chunks(words).map(<[u64]>::to_vec).collect::<Vec<_>>(),
                    expected,
                    "{words} {segments}"
                );
                if let Some(row) = expected.get(expected.len() / 2) {
                    let before = expected.iter().filter(|other| *other < row).count();
                    let until = expected.iter().filter(|other| *other <= row).count();
                    assert_eq!(rows_before(merged, words, row, false), before);
                    assert_eq!(rows_before(merged, words, row, true), until);
                }
            }
        }
    }
}
