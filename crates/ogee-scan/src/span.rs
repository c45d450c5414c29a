//! Spans: the rows one reader has still to read, which others may take the second half of.
//!
//! Rows are counted among the selected rows of the row group. The reader claims a batch at the front before it decodes it;
//! whoever is idle splits off the back. Both happen under a lock that is taken once per batch, so a row belongs to
//! exactly one of them.
//!
//! Splitting on demand instead of in advance: whoever starts in the middle of a row group decodes the dictionaries again
//! and part of a page per column, so that a split should happen only when a lane would be idle otherwise.
//!
//! After "Morsel-driven parallelism", SIGMOD 2014, section 3.3 (work stealing).
//!
//! Not here: files and pages.

use std::ops::Range;

use parking_lot::Mutex;

/// Rows left in either half of a split, at least: what opening another reader costs must be small against reading them.
pub(crate) const SPLIT_ROWS_MIN: usize = 1 << 15;

/// What is left to one reader.
#[derive(Debug)]
pub(crate) struct Span {
    rows: Mutex<Range<usize>>,
    /// Rows of a batch; splits are multiples of it after the start, so that no batch is cut.
    batch: usize,
}

impl Span {
    pub(crate) fn new(rows: Range<usize>, batch: usize) -> Self {
        Self { rows: Mutex::new(rows), batch: batch.max(1) }
    }

    /// Claims the next batch: the number of its rows, 0 at the end.
    pub(crate) fn claim(&self) -> usize {
        let mut rows = self.rows.lock();
        let claimed = self.batch.min(rows.len());
        rows.start += claimed;
        claimed
    }

    /// Takes back everything that is left, and the last `unread` claimed rows with it. Only the reader calls this.
    pub(crate) fn abandon(&self, unread: usize) -> Range<usize> {
        let mut rows = self.rows.lock();
        let left = rows.start - unread..rows.end;
        rows.start = rows.end;
        left
    }

    /// Rows not claimed.
    pub(crate) fn remaining(&self) -> usize {
        self.rows.lock().len()
    }

    /// Splits off the second half, if both halves are worth a reader.
    pub(crate) fn split(&self) -> Option<Range<usize>> {
        let mut rows = self.rows.lock();
        let kept = rows.len().div_ceil(2).next_multiple_of(self.batch);
        if kept < SPLIT_ROWS_MIN || rows.len() < kept + SPLIT_ROWS_MIN {
            return None;
        }
        let middle = rows.start + kept;
        let taken = middle..rows.end;
        rows.end = middle;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_and_splits_cover_every_row_once() {
        let total = 10 * SPLIT_ROWS_MIN + 77;
        let mut spans = vec![Span::new(5..total, 8192)];
        let mut seen = vec![];
        let mut at = vec![5];
        while !spans.is_empty() {
            for i in (0..spans.len()).rev() {
                let claimed = spans[i].claim();
                if claimed == 0 {
                    spans.swap_remove(i);
                    at.swap_remove(i);
                    continue;
                }
                seen.extend(at[i]..at[i] + claimed);
                at[i] += claimed;
                if let Some(taken) = spans[i].split() {
                    assert_eq!((taken.start - at[i]) % 8192, 0);
                    at.push(taken.start);
                    spans.push(Span::new(taken, 8192));
                }
            }
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(5..total));
    }

    #[test]
    fn small_rests_are_not_split() {
        let span = Span::new(0..2 * SPLIT_ROWS_MIN - 1, 8192);
        assert_eq!(span.split(), None);
        let span = Span::new(0..2 * SPLIT_ROWS_MIN, 8192);
        assert_eq!(span.split(), Some(SPLIT_ROWS_MIN..2 * SPLIT_ROWS_MIN));
        assert_eq!(span.remaining(), SPLIT_ROWS_MIN);
    }

    #[test]
    fn an_abandoned_batch_is_read_again() {
        let span = Span::new(0..20_000, 8192);
        assert_eq!(span.claim(), 8192);
        assert_eq!(span.claim(), 8192);
        assert_eq!(span.abandon(8192), 8192..20_000);
        assert_eq!(span.claim(), 0);
    }
}
