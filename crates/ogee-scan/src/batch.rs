//! Batches: columns that predicates and joins read are decoded first, all others only for the rows that are left.
//!
//! ```text
//!  8,192 rows ── columns of a conjunct ──> rows that pass ── columns of the next, for those ──> … ── all other columns, for those
//! ```
//!
//! Not here: predicates (`filter`), decoding a column (`decode`).

use arrow_array::RecordBatch;
use ogee_exec::ExecError;
use ogee_vector::{Column, Selection};
use parquet::{
    arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector},
    errors::ParquetError,
};

use crate::{
    columns::{FileColumns, Output},
    decode::{Decoders, Stretch, open_all},
    error::ScanError,
    filter::LaneFilter,
    footer::OpenFile,
    pages::RowGroupPages,
};

/// Why there is no batch.
pub(crate) enum BatchError {
    /// Pages cannot be read or decoded, of a column if it is known which one, or there is no memory for one.
    Pages { column: Option<usize>, error: ParquetError },
    /// Anything else.
    Other(ExecError),
}

impl From<ParquetError> for BatchError {
    fn from(error: ParquetError) -> Self {
        Self::Pages { column: None, error }
    }
}

impl From<ExecError> for BatchError {
    fn from(error: ExecError) -> Self {
        Self::Other(error)
    }
}

impl From<ScanError> for BatchError {
    fn from(error: ScanError) -> Self {
        Self::Other(error.into())
    }
}

/// Where the rows that are read lie among those of the row group.
#[derive(Default)]
struct Rows {
    /// What is to come, the next last.
    selectors: Vec<RowSelector>,
    skip: usize,
    take: usize,
    stretches: Vec<Stretch>,
}

impl Rows {
    fn new(selection: Option<RowSelection>) -> Self {
        match selection {
            None => Self { take: usize::MAX, ..Self::default() },
            Some(selection) => {
                let mut selectors: Vec<RowSelector> = selection.into();
                selectors.reverse();
                Self { selectors, ..Self::default() }
            }
        }
    }

    /// Goes on by `rows` rows.
    fn advance(&mut self, mut rows: usize) {
        self.stretches.clear();
        while rows > 0 {
            if self.take == 0 {
                let next = self.selectors.pop().expect("a span is within the selected rows");
                match next.skip {
                    true => self.skip += next.row_count,
                    false => self.take = next.row_count,
                }
                continue;
            }
            let take = rows.min(self.take);
            self.stretches.push(Stretch { skip: std::mem::take(&mut self.skip), take });
            self.take -= take;
            rows -= take;
        }
    }
}

/// Decodes the columns of one row group.
#[derive(Default)]
pub(crate) struct BatchDecoder {
    flat: Decoders,
    /// The columns that the library decodes.
    foreign: Option<ParquetRecordBatchReader>,
    rows: Rows,
}

/// A batch under way.
struct Batch {
    /// Rows that were read.
    read: usize,
    /// Rows that are left of them; `None` for all.
    picked: Option<Selection>,
    /// Number of rows that are left.
    left: usize,
    foreign: Option<RecordBatch>,
    /// The columns that are decoded, of the rows that are left.
    columns: Vec<Option<Column>>,
}

impl BatchDecoder {
    /// A decoder for files of which no column is read.
    pub(crate) fn counting() -> Self {
        Self { rows: Rows::new(None), ..Self::default() }
    }

    /// A decoder of `columns`, of the rows of `selection`, at most `batch_rows` at a time.
    pub(crate) fn new(
        columns: &FileColumns,
        pages: &RowGroupPages,
        batch_rows: usize,
        selection: Option<RowSelection>,
    ) -> Result<Self, ParquetError> {
        let foreign = columns.levels.as_ref().map(|levels| {
            ParquetRecordBatchReader::try_new_with_row_groups(levels, pages, batch_rows, selection.clone())
        });
        let wanted = selection.as_ref().map_or(usize::MAX, RowSelection::row_count);
        let flat = open_all(&columns.flat, pages, wanted)?;
        Ok(Self { flat, foreign: foreign.transpose()?, rows: Rows::new(selection) })
    }

    /// Reads `read` rows; the columns of those that pass `filter`, and their number.
    pub(crate) fn next(
        &mut self,
        file: &OpenFile,
        read: usize,
        filter: &mut LaneFilter,
        columns: &mut Vec<Column>,
    ) -> Result<usize, BatchError> {
        let outputs = &file.columns.outputs;
        self.rows.advance(read);
        let foreign = self.foreign.as_mut().map(|foreign| match foreign.next() {
            Some(Ok(batch)) if batch.num_rows() >= read => Ok(batch),
            Some(Ok(_)) | None => Err(ParquetError::General("a column has fewer rows than the footer says".into())),
            Some(Err(error)) => Err(ParquetError::from(error)),
        });
        let foreign = foreign.transpose()?;
        let mut batch = Batch { read, picked: None, left: read, foreign, columns: vec![None; outputs.len()] };
        filter.begin();
        while batch.left > 0
            && let Some(step) = filter.next()
        {
            for &column in filter.columns(step) {
                self.decode(file, &mut batch, column)?;
            }
            let is_coded = |column: usize| match outputs[column] {
                Output::Flat(flat) => file.columns.flat[flat].is_codes(),
                _ => false,
            };
            if let Some(keep) = filter.select(step, &batch.columns, batch.left, is_coded)? {
                batch.narrow(keep);
            }
        }
        if batch.left > 0 {
            (0..outputs.len()).try_for_each(|column| self.decode(file, &mut batch, column))?;
        }
        for (column, output) in batch.columns.iter().zip(outputs) {
            if let (None, Output::Flat(flat)) = (column, output) {
                self.flat[*flat].pass(self.rows.stretches.iter().map(|stretch| stretch.skip + stretch.take).sum());
            }
        }
        columns.clear();
        columns.extend(batch.columns.into_iter().flatten());
        Ok(batch.left)
    }

    /// Makes sure that a column is there.
    fn decode(&mut self, file: &OpenFile, batch: &mut Batch, column: usize) -> Result<(), BatchError> {
        if batch.columns[column].is_some() {
            return Ok(());
        }
        let decoded = match &file.columns.outputs[column] {
            Output::Flat(flat) => {
                let picked = batch.picked.as_ref().map(Selection::positions);
                let column = Some(file.columns.flat[*flat].leaf);
                let read = self.flat[*flat].read(&self.rows.stretches, picked);
                read.map_err(|error| BatchError::Pages { column, error })?
            }
            Output::Batch(position) => {
                let foreign = batch.foreign.as_ref().expect("a file with a column to read has batches");
                let array = file.columns.convert(&file.path, column, foreign.column(*position), batch.read)?;
                Column { array, selection: batch.picked.clone() }
            }
            Output::Constant(values) => Column::flat(values.slice(0, batch.left)),
        };
        batch.columns[column] = Some(decoded);
        Ok(())
    }
}

impl Batch {
    /// Leaves only the rows `keep` of those that are left, ascending.
    fn narrow(&mut self, keep: &[u32]) {
        self.left = keep.len();
        let kept = Selection::new(keep);
        let picked = self.picked.as_ref().map_or_else(|| kept.clone(), |picked| picked.compose(keep));
        // Columns that had one selection share the next.
        let mut composed: Vec<(Selection, Selection)> =
            self.picked.iter().map(|before| (before.clone(), picked.clone())).collect();
        for column in self.columns.iter_mut().flatten() {
            let Some(before) = &column.selection else {
                column.selection = Some(kept.clone());
                continue;
            };
            let same = |(other, _): &&(Selection, Selection)| std::ptr::eq(other.positions(), before.positions());
            let after = match composed.iter().find(same) {
                Some((_, after)) => after.clone(),
                None => {
                    let after = before.compose(keep);
                    composed.push((before.clone(), after.clone()));
                    after
                }
            };
            column.selection = Some(after);
        }
        self.picked = Some(picked);
    }
}
