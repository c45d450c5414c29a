//! Sorting entries whose prefixes are equal by what comes next in their keys.
//!
//! A group of such entries is given the next 12 bytes of its keys in the place of their prefix and sorted as integers again, and so on. Of a string
//! that the key has the beginning of only, those are the bytes after what all strings of the group share, and how many there are: a string that ends
//! comes before one that goes on, and one that is told apart by nothing is equal, so that the next column decides.
//!
//! Rows of neighbours in the order lie anywhere, so they are fetched ahead, and the strings behind them.

use super::{entries::RowBases, key::ENTRY_PREFIX, merge::prefetch, plan::SortPlan};

/// Groups smaller than this are compared row by row at once.
const SMALL: usize = 4;
/// How often a group is sorted again by what comes next, before rows are compared as a whole: a bound for the stack.
const LEVELS_MAX: usize = 64;
/// Bytes of a string that an entry holds, before how many there are.
const STRING_BYTES: usize = ENTRY_PREFIX - 1;
/// Entries between the one at hand and that whose row is fetched, and that whose string is.
const ROWS_AHEAD: usize = 32;
const STRINGS_AHEAD: usize = 16;
/// Entries of a group that are fetched before it is begun: what is fetched for longer ones would be gone when they are.
const GROUP_AHEAD: usize = 1024;

/// How far the keys of a group are known to be equal.
#[derive(Clone, Copy, Debug)]
struct Depth {
    /// The piece of the key that comes next, and where in the key.
    piece: usize,
    key: usize,
    /// Bytes of the piece's string, once the key has no more of it.
    string: usize,
    levels: usize,
}

/// Sorts what prefixes left open.
pub(super) struct Ties<'a> {
    plan: &'a SortPlan,
    bases: &'a RowBases,
}

impl<'a> Ties<'a> {
    pub(super) fn new(plan: &'a SortPlan, bases: &'a RowBases) -> Self {
        Self { plan, bases }
    }

    /// Sorts each group of entries with equal prefixes by what comes from byte `depth` of the keys on; they are equal before it. `column`: where in
    /// the key the column begins that this is in.
    pub(super) fn refine(&self, entries: &mut [u128], column: usize, depth: usize) {
        let Some((piece, end)) = self.plan.keys.piece_after(column) else { return };
        let depth = Depth { piece, key: depth.min(end), string: 0, levels: 0 };
        self.refine_with(entries, |_| Some(depth));
    }

    /// Sorts entries by comparing their rows.
    pub(super) fn compare_rows(&self, entries: &mut [u128]) {
        entries.sort_unstable_by(|&a, &b| {
            // SAFETY: rows of pinned pages.
            let order = unsafe { self.plan.keys.compare(self.bases.row(a), self.bases.row(b)) };
            order.then_with(|| (a as u32).cmp(&(b as u32)))
        });
    }

    /// Sorts each group of entries with equal upper bits from where `depth_of` its first says; `None`: they are equal.
    fn refine_with(&self, entries: &mut [u128], depth_of: impl Fn(u128) -> Option<Depth>) {
        let (mut rows, mut strings) = (0, 0);
        let mut start = 0;
        while start < entries.len() {
            let len = entries[start..].iter().take_while(|&&entry| entry >> 32 == entries[start] >> 32).count();
            let end = start + len;
            if len > 1
                && let Some(depth) = depth_of(entries[start])
            {
                let fetched = end.min(start + GROUP_AHEAD);
                self.fetch(entries, &mut rows, fetched + ROWS_AHEAD, false);
                self.fetch(entries, &mut strings, fetched + STRINGS_AHEAD, true);
                self.resolve(&mut entries[start..end], depth);
            }
            start = end;
        }
    }

    /// Fetches the rows of the entries from `from` to `to` that have the same upper bits as a neighbour, or their `strings`.
    fn fetch(&self, entries: &[u128], from: &mut usize, to: usize, strings: bool) {
        let to = to.min(entries.len());
        if strings && self.plan.keys.is_plain() {
            return;
        }
        while *from < to {
            let at = *from;
            let is = |other: Option<&u128>| other.is_some_and(|other| other >> 32 == entries[at] >> 32);
            if is(entries.get(at + 1)) || at > 0 && is(entries.get(at - 1)) {
                let row = self.bases.row(entries[at]);
                // SAFETY: a row of a pinned page.
                prefetch(if strings { unsafe { self.plan.keys.string_start(row) } } else { row });
            }
            *from += 1;
        }
    }

    /// Sorts a group whose keys are equal up to `depth`.
    fn resolve(&self, group: &mut [u128], mut depth: Depth) {
        if group.len() < SMALL || depth.levels == LEVELS_MAX {
            self.compare_rows(group);
            return;
        }
        let keys = &self.plan.keys;
        let prefix = group[0] >> 32 << 32;
        loop {
            // Rows that are equal have the order of their places already.
            let Some(piece) = keys.piece(depth.piece) else { return };
            if depth.key < piece.end() {
                for at in 0..group.len() {
                    self.fetch_in(group, at, false);
                    // SAFETY: a row of a pinned page.
                    let part = unsafe { keys.part(self.bases.row(group[at]), depth.key, piece.end()) };
                    group[at] = part | u128::from(group[at] as u32);
                }
                group.sort_unstable();
                let key = (depth.key + ENTRY_PREFIX).min(piece.end());
                let next = Depth { key, string: 0, levels: depth.levels + 1, ..depth };
                if key < piece.end() || !piece.is_last() || piece.string().is_some() {
                    self.refine_with(group, |_| Some(next));
                }
                break;
            }
            // SAFETY: rows of pinned pages, as long as the group is being sorted.
            let string = |entry: u128| unsafe { keys.string(self.bases.row(entry), depth.piece) };
            let after = Depth { piece: depth.piece + 1, key: piece.end(), string: 0, levels: depth.levels + 1 };
            let Some((first, in_key, descending)) = piece
                .string()
                // Of a group all are NULL or none.
                .and_then(|(in_key, descending)| Some((string(group[0])?, in_key, descending)))
            else {
                depth = Depth { levels: depth.levels, ..after };
                continue;
            };
            let known = depth.string.max(in_key);
            let mut shared = first.len();
            for at in 1..group.len() {
                self.fetch_in(group, at, true);
                let other = string(group[at]).unwrap_or_default();
                shared = shared.min(other.len());
                if shared > known {
                    shared = shared_bytes(first, other, known, shared);
                }
            }
            let flip = if descending { u128::MAX >> 32 << 32 } else { 0 };
            for at in 0..group.len() {
                self.fetch_in(group, at, true);
                let rest = &string(group[at]).unwrap_or_default()[shared..];
                group[at] = string_part(rest) ^ flip | u128::from(group[at] as u32);
            }
            group.sort_unstable();
            let goes_on = Depth { string: shared + STRING_BYTES, levels: depth.levels + 1, ..depth };
            let is_last = piece.is_last();
            self.refine_with(group, |entry| {
                let bytes = ((entry ^ flip) >> 32) as u8;
                if usize::from(bytes) > STRING_BYTES { Some(goes_on) } else { (!is_last).then_some(after) }
            });
            break;
        }
        group.iter_mut().for_each(|entry| *entry = prefix | u128::from(*entry as u32));
    }

    /// Fetches what a pass over a long group will come to.
    #[inline(always)]
    fn fetch_in(&self, group: &[u128], at: usize, strings: bool) {
        if group.len() <= GROUP_AHEAD {
            return;
        }
        if let Some(&entry) = group.get(at + ROWS_AHEAD) {
            prefetch(self.bases.row(entry));
        }
        if strings && let Some(&entry) = group.get(at + STRINGS_AHEAD) {
            // SAFETY: a row of a pinned page.
            prefetch(unsafe { self.plan.keys.string_start(self.bases.row(entry)) });
        }
    }
}

/// The first bytes of what is left of a string, zeroes where it ends, and how many there are, or one more than there is room for; above 32 bits that are
/// zero.
#[inline(always)]
fn string_part(rest: &[u8]) -> u128 {
    let mut bytes = [0_u8; 16];
    let len = rest.len().min(STRING_BYTES);
    bytes[..len].copy_from_slice(&rest[..len]);
    bytes[STRING_BYTES] = rest.len().min(ENTRY_PREFIX) as u8;
    u128::from_be_bytes(bytes)
}

/// How many of the first `most` bytes two strings share, `known` of them in any case.
#[inline(always)]
fn shared_bytes(a: &[u8], b: &[u8], known: usize, most: usize) -> usize {
    let (a, b) = (&a[known..most], &b[known..most]);
    let mut at = 0;
    while let (Some((x, _)), Some((y, _))) = (a[at..].split_first_chunk::<8>(), b[at..].split_first_chunk::<8>()) {
        let differs = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differs != 0 {
            return known + at + differs.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    known + at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_strings_have_their_order() {
        let strings: [&[u8]; 9] =
            [b"", b"\0", b"\0\0", b"a", b"a\0", b"aaaaaaaaaaa", b"aaaaaaaaaaa\0", b"aaaaaaaaaab", b"b"];
        for a in strings {
            for b in strings {
                assert_eq!(string_part(a).cmp(&string_part(b)), a.cmp(b), "{a:?} {b:?}");
            }
        }
        assert_eq!(string_part(b"aaaaaaaaaaa1"), string_part(b"aaaaaaaaaaa2"), "more than there is room for");
    }

    #[test]
    fn strings_share_what_they_begin_with() {
        let whole: Vec<u8> = (0..40).collect();
        for len in 0..40 {
            let mut other = whole.clone();
            other[len] = 99;
            for known in 0..=len {
                for most in known..=40 {
                    assert_eq!(shared_bytes(&whole, &other, known, most), len.min(most), "{len} {known} {most}");
                }
            }
        }
    }
}
