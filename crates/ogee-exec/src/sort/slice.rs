//! Which rows of an order are wanted, by their numbers: what an offset and a limit leave of it.

use std::ops::Range;

/// Rows `from .. to` of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSlice {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl RowSlice {
    /// All rows.
    pub(crate) const ALL: Self = Self { from: 0, to: usize::MAX };

    /// Of these rows, those from number `skip` on, and of them the first `fetch`, or all.
    #[must_use]
    pub(crate) fn limited(self, skip: u64, fetch: Option<u64>) -> Self {
        let number = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let from = self.from.saturating_add(number(skip));
        Self { from, to: self.to.min(fetch.map_or(usize::MAX, |fetch| from.saturating_add(number(fetch)))) }
    }

    /// Whether none of the rows of these numbers is wanted. Where nothing is left out they are not asked for.
    pub(crate) fn leaves_out(self, rows: impl FnOnce() -> Range<usize>) -> bool {
        if self == Self::ALL {
            return false;
        }
        let rows = rows();
        rows.end <= self.from || rows.start >= self.to
    }

    /// Those that are wanted of `rows` rows, of which the first has number `first`.
    pub(crate) fn of(self, first: usize, rows: usize) -> Range<usize> {
        let end = rows.min(self.to.saturating_sub(first));
        self.from.saturating_sub(first).min(end)..end
    }
}
