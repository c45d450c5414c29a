//! Reads the rows of one span, batch by batch.
//!
//! ```text
//!  open ── admitted ──> Reader ── next ──> batch … ──> end
//!                         └── a page is refused while other readers are at work: the rest goes back to the work list
//! ```
//!
//! Not here: which span (`work`), how a batch is decoded (`batch`), and cutting batches into chunks (`source`).

use std::{ops::Range, sync::Arc};

use ogee_exec::ExecError;
use ogee_vector::Column;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use crate::{
    admission::Permit,
    batch::{BatchDecoder, BatchError},
    columns::BATCH_ROWS_MAX,
    error::ScanError,
    estimate::Plan,
    filter::LaneFilter,
    grant::{Grant, Refused},
    library::caught,
    pages::RowGroupPages,
    span::Span,
    work::{RowGroupWork, Work, WorkList},
};

/// A lane's reader.
pub(crate) struct Reader {
    work_list: Arc<WorkList>,
    pub(crate) of: RowGroupWork,
    span: Arc<Span>,
    /// The range of the order that the rows are.
    range: Option<usize>,
    batches: BatchDecoder,
    /// `None` where no column is read. Dropped last: it covers what the others hold.
    grant: Option<Arc<Grant>>,
}

/// What a reader found.
pub(crate) enum Read {
    /// So many rows were read, of which so many passed the filter.
    Rows {
        read: usize,
        passed: usize,
    },
    End,
    /// There is no room for the next page before another reader ends; what is left was put back.
    GaveUp,
}

impl Reader {
    /// A reader that only counts, or repeats what is known without the file.
    pub(crate) fn counting(work_list: &Arc<WorkList>, work: Work) -> Self {
        Self::new(work_list, work, BATCH_ROWS_MAX, BatchDecoder::counting(), None)
    }

    /// A reader of the columns, for which `permit` was given according to `plan`.
    pub(crate) fn decoding(
        work_list: &Arc<WorkList>,
        work: Work,
        permit: Permit,
        plan: &Plan,
    ) -> Result<Self, ScanError> {
        let file = &work.of.file;
        let grant = Arc::new(Grant::new(permit, plan.fixed, &file.columns.leaves));
        let meta = file.metadata.row_group(work.of.row_group);
        for leaf in &file.columns.leaves {
            let (start, len) = meta.column(leaf.index).byte_range();
            file.bytes.will_need(&(start..start + len.min(READ_AHEAD_MAX)));
        }
        let pages = RowGroupPages::new(Arc::clone(file), work.of.row_group, Arc::clone(&grant), plan.read_ahead);
        let selection = select(work.of.selection.as_deref(), &work.rows);
        let batches = caught(|| BatchDecoder::new(&file.columns, &pages, plan.batch_rows, selection))
            .map_err(|error| ScanError::damaged(file, work.of.row_group, None, &error))?;
        Ok(Self::new(work_list, work, plan.batch_rows, batches, Some(grant)))
    }

    fn new(
        work_list: &Arc<WorkList>,
        work: Work,
        batch_rows: usize,
        batches: BatchDecoder,
        grant: Option<Arc<Grant>>,
    ) -> Self {
        let span = Arc::new(Span::new(work.rows, batch_rows));
        work_list.start(&span, &work.of);
        Self { work_list: Arc::clone(work_list), of: work.of, span, range: work.range, batches, grant }
    }

    /// The next batch: of those rows that pass `filter`, all columns into `columns`. The batch before must be gone, or the pages that it
    /// points into are not accounted for.
    pub(crate) fn next(&mut self, filter: &mut LaneFilter, columns: &mut Vec<Column>) -> Result<Read, ExecError> {
        let read = self.span.claim();
        if read == 0 {
            return Ok(Read::End);
        }
        if let Some(grant) = &self.grant {
            grant.end_batch();
        }
        let file = &self.of.file;
        match caught(|| self.batches.next(file, read, filter, columns)) {
            Ok(passed) => Ok(Read::Rows { read, passed }),
            Err(BatchError::Other(error)) => Err(error),
            Err(BatchError::Pages { column, error }) => {
                match self.grant.as_ref().and_then(|grant| grant.take_refused()) {
                    None => Err(ScanError::damaged(file, self.of.row_group, column, &error).into()),
                    Some(refused) if refused.alone => Err(self.too_large(refused).into()),
                    Some(refused) => {
                        let rows = self.span.abandon(read);
                        self.work_list.put_back(Work {
                            of: self.of.clone(),
                            rows,
                            needed: refused.needed,
                            range: self.range,
                        });
                        Ok(Read::GaveUp)
                    }
                }
            }
        }
    }

    /// Ends, and puts back what it has not read, for whoever goes on with it. False: it has read all.
    pub(crate) fn give_up(self) -> bool {
        let rows = self.span.abandon(0);
        let is_left = !rows.is_empty();
        if is_left {
            self.work_list.put_back(Work { of: self.of.clone(), rows, needed: 0, range: self.range });
        }
        is_left
    }

    fn too_large(&self, refused: Refused) -> ScanError {
        ScanError::PageTooLarge {
            path: self.of.file.path.clone(),
            column: self.of.file.columns.leaves[refused.column].name.clone(),
            page: refused.page,
            needed: refused.needed,
            limit: refused.limit,
            source: Box::new(refused.source),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.work_list.end(&self.span);
    }
}

/// Bytes of each column chunk that the system is asked to read ahead of the reader.
const READ_AHEAD_MAX: u64 = 8 << 20;

/// The selected rows from position `rows.start` among them on; `None` for all rows. The end is the span's affair.
fn select(selection: Option<&[RowSelector]>, rows: &Range<usize>) -> Option<RowSelection> {
    let Some(selectors) = selection else {
        return (rows.start > 0)
            .then(|| vec![RowSelector::skip(rows.start), RowSelector::select(rows.end - rows.start)].into());
    };
    let mut before = rows.start;
    let mut rest = Vec::with_capacity(selectors.len() + 1);
    for selector in selectors {
        let passed = if selector.skip { 0 } else { before.min(selector.row_count) };
        before -= passed;
        if passed > 0 {
            rest.push(RowSelector::skip(passed));
        }
        if selector.row_count > passed {
            rest.push(RowSelector { row_count: selector.row_count - passed, skip: selector.skip });
        }
    }
    Some(rest.into())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn selections_begin_anywhere() {
        assert_eq!(select(None, &(0..10)), None);
        assert_eq!(select(None, &(4..10)).unwrap(), vec![RowSelector::skip(4), RowSelector::select(6)].into());
        let selectors = [RowSelector::skip(2), RowSelector::select(3), RowSelector::skip(1), RowSelector::select(5)];
        assert_eq!(select(Some(&selectors), &(0..8)).unwrap(), selectors.to_vec().into());
        let from_2 = vec![RowSelector::skip(4), RowSelector::select(1), RowSelector::skip(1), RowSelector::select(5)];
        assert_eq!(select(Some(&selectors), &(2..8)).unwrap(), from_2.into());
        let from_3 = vec![RowSelector::skip(6), RowSelector::select(5)];
        assert_eq!(select(Some(&selectors), &(3..8)).unwrap(), from_3.into());
    }
}
