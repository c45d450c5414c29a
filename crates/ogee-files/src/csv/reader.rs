//! From the text of a CSV file to batches of columns, piece by piece.
//!
//! Not here: which columns are wanted, what the file looks like, where pieces end.

use std::{borrow::Cow, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions},
        compute::filter_record_batch,
        datatypes::{DataType, SchemaRef},
    },
    error::Result,
};
use ogee_functions::{Error, error::to_datafusion, times::Zone};
use ogee_memory::BufferManager;
use ogee_vector::gather_array;

use super::{
    columns::{Column, Misfits, Records},
    fields::{Most, Wrong, read},
    records::{FIELDS_MAX, Incomplete, Record},
    sniff::{Given, Look},
    values::Kind,
};
use crate::{
    cells::Cells,
    pieces::{Choice, Piece, PieceReader, Taken, lines},
    text_memory::{BATCH_BYTES, Part, TextMemory, text_block_bytes},
};

/// Values of a batch, at most, unless that is less than [`BATCH_ROWS_MIN`] rows: each takes 16 bytes before it is known.
const BATCH_VALUES: usize = 1 << 18;

/// Rows of a batch, at least, however many columns there are: an array takes some hundred bytes, whatever is in it.
const BATCH_ROWS_MIN: usize = 16;

/// More than this is reserved for by itself: the records of a batch, and what is noted of their fields.
const LONG: usize = 1 << 20;

/// Reads one file.
pub(super) struct Reader {
    plan: Plan,
    buffer: Vec<u8>,
    /// Where the piece ends in it, and what was not read yet begins.
    end: usize,
    at: usize,
    /// Number of the line that the piece begins in.
    line: u64,
    is_first: bool,
    /// Texts are among the columns.
    has_texts: bool,
    cells: Cells,
    memory: TextMemory,
}

/// What is read in which way.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) look: Arc<Look>,
    pub(super) columns: Vec<Column>,
    /// Of the columns.
    pub(super) schema: SchemaRef,
    pub(super) batch_rows: usize,
    pub(super) given: Given,
    /// That of the session.
    pub(super) zone: Zone,
    pub(super) manager: Arc<BufferManager>,
}

impl Reader {
    pub(super) fn new(mut plan: Plan, memory: TextMemory) -> Self {
        // A record has all fields, whichever are wanted.
        let values = plan.look.names.len().max(plan.columns.len()).max(1);
        plan.batch_rows = plan.batch_rows.min((BATCH_VALUES / values).max(BATCH_ROWS_MIN));
        let has_texts = plan.columns.iter().any(|column| matches!(column.kind, None | Some(Kind::Text)));
        Self {
            plan,
            buffer: Vec::new(),
            end: 0,
            at: 0,
            line: 1,
            is_first: false,
            has_texts,
            cells: Cells::default(),
            memory,
        }
    }

    /// Of the record at `at`.
    fn error(&self, at: usize, what: impl std::fmt::Display) -> Error {
        let line = self.line + lines(&self.buffer[..at]);
        Error::Source(format!("'{}', line {line}: {what}", self.plan.name))
    }

    /// Passes over what comes before the records of the file.
    fn begin(&mut self) -> Result<()> {
        let look = &self.plan.look;
        self.at = look.skip.min(self.end);
        if look.has_header {
            // The header is the first record that is not blank.
            let mut record = Record::default();
            while self.at < self.end {
                let read = record.read(&self.buffer[self.at..self.end], &look.marks, true);
                read.map_err(|why| self.wrong(self.at, Wrong::Record(why)))?;
                self.at += record.bytes;
                if !record.is_blank() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What is wrong with the record at `at`.
    fn wrong(&self, at: usize, wrong: Wrong) -> Error {
        match wrong {
            Wrong::Record(Incomplete::More | Incomplete::Open) => self.error(at, "a quote is opened and not closed"),
            Wrong::Record(Incomplete::Wide) => self.error(at, format!("a record of more than {FIELDS_MAX} values")),
            Wrong::Record(Incomplete::AfterQuote) => {
                let what = "something follows a closing quote; quotes within quotes are written twice";
                self.error(at, what)
            }
            Wrong::Long(bytes) => {
                let most = self.plan.given.line_max.unwrap_or_default();
                self.error(at, format!("a record of {bytes} bytes, and max_line_size is {most}"))
            }
            Wrong::Width(fields) => {
                let width = self.plan.look.names.len();
                let values = if fields == 1 { "value" } else { "values" };
                let columns = if width == 1 { "column" } else { "columns" };
                let first = if self.plan.look.has_header { "the header" } else { "the first line" };
                self.error(at, format!("{fields} {values}, but {first} has {width} {columns}"))
            }
        }
    }

    /// The next batch of the piece.
    fn batch(&mut self, mut choice: Option<&mut dyn Choice>) -> Result<Option<Taken>> {
        // What the last one took is no longer the reader's.
        self.memory.set(Part::Batch, 0).map_err(Error::from)?;
        if std::mem::take(&mut self.is_first) {
            self.begin()?;
        }
        let Plan { look, schema, batch_rows, given, .. } = &self.plan;
        let text = &self.buffer[..self.end];
        let most = Most { rows: *batch_rows, bytes: BATCH_BYTES };
        loop {
            if self.at == self.end {
                return Ok(None);
            }
            let begin = self.at;
            let found = read(&mut self.cells, text, begin, (&look.marks, given), look.names.len(), most);
            self.at = found.map_err(|(at, wrong)| self.wrong(at, wrong))?;
            // A text is there as it was read, and as a part of the batch.
            let bytes = [self.at - begin, self.cells.bytes()].into_iter().filter(|bytes| *bytes > LONG).sum();
            let batch = self.memory.set(Part::Batch, bytes);
            batch.map_err(|error| self.error(begin, format!("no memory for the record that begins here: {error}")))?;
            let valid = if self.has_texts { std::str::from_utf8(&text[begin..self.at]).ok() } else { None };
            let mut known: Vec<Option<ArrayRef>> = vec![None; self.plan.columns.len()];
            // Where records are passed over that are wrong in any column, all columns are looked at first.
            let is_chosen = !given.ignores_errors;
            if let Some(choice) = choice.as_deref_mut().filter(|_| is_chosen)
                && self.cells.rows() > 0
            {
                let columns = choice.columns().to_vec();
                let (arrays, _) = self.arrays(&columns, begin, valid)?;
                let kept = choice.rows(&arrays, self.cells.rows())?;
                for (column, array) in columns.into_iter().zip(arrays) {
                    known[column] = Some(match kept {
                        Some(rows) => gather_array(&array, rows).map_err(to_datafusion)?,
                        None => array,
                    });
                }
                if let Some(rows) = kept {
                    self.cells.keep(rows);
                }
            }
            let rows = self.cells.rows();
            if rows == 0 {
                continue;
            }
            let others: Vec<usize> = (0..known.len()).filter(|&column| known[column].is_none()).collect();
            let (arrays, kept) = self.arrays(&others, begin, valid)?;
            others.into_iter().zip(arrays).for_each(|(column, array)| known[column] = Some(array));
            let arrays = known.into_iter().flatten().collect();
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?;
            let batch = match kept {
                Some(kept) => filter_record_batch(&batch, &BooleanArray::from(kept))?,
                None => batch,
            };
            return Ok(Some(Taken { batch, is_chosen }));
        }
    }

    /// The arrays of `columns`, of records from `begin` on, which are `valid`; and which rows are kept, if wrong ones are passed over.
    fn arrays(
        &self,
        columns: &[usize],
        begin: usize,
        valid: Option<&str>,
    ) -> Result<(Vec<ArrayRef>, Option<Vec<bool>>)> {
        let Plan { look, given, .. } = &self.plan;
        let records = Records {
            text: &self.buffer[..self.end],
            begin,
            valid,
            cells: &self.cells,
            marks: &look.marks,
            given,
            block: text_block_bytes(self.plan.columns.len()),
            zone: &self.plan.zone,
            memory: &self.plan.manager,
        };
        let mut kept = given.ignores_errors.then(|| vec![true; self.cells.rows()]);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        let mut first: Option<(usize, &Column)> = None;
        for column in columns.iter().map(|&column| &self.plan.columns[column]) {
            let mut misfits = Misfits::new(kept.as_deref_mut());
            arrays.push(records.array(column, &mut misfits));
            // Of several, that of the first record is told.
            first = first.into_iter().chain(misfits.first().map(|row| (row, column))).min_by_key(|(row, _)| *row);
        }
        match first {
            Some((row, column)) => {
                let what = not_taken(column, &records.text(column, row));
                Err(self.error(self.cells.record(row), what).into())
            }
            None => Ok((arrays, kept)),
        }
    }
}

impl PieceReader for Reader {
    fn take(&mut self, piece: &mut Piece) {
        std::mem::swap(&mut self.buffer, &mut piece.bytes);
        (self.at, self.end, self.line, self.is_first) = (0, piece.end, piece.line, piece.place.is_first);
    }

    fn give_back(&mut self, piece: &mut Piece) {
        std::mem::swap(&mut self.buffer, &mut piece.bytes);
        (self.at, self.end, self.is_first) = (0, 0, false);
    }

    fn next(&mut self, choice: Option<&mut dyn Choice>) -> Result<Option<Taken>> {
        self.batch(choice)
    }
}

/// Why a value cannot be read, and what to do.
fn not_taken(column: &Column, field: &[u8]) -> String {
    if std::str::from_utf8(field).is_err() {
        return format!("column '{}' has a text that is not UTF-8; convert the file, e.g. with iconv", column.name);
    }
    let text = String::from_utf8_lossy(field);
    let shown: String = text.chars().take(60).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    let kind = type_name(column.data_type());
    let why = match column.is_found {
        true => format!("column '{}' is {kind} by what comes before", column.name),
        false => format!("column '{}' is declared as {kind}", column.name),
    };
    format!(
        "{why}, and '{shown}{more}' is not; \
         declare its type with CREATE EXTERNAL TABLE name (.., \"{}\" VARCHAR, ..) STORED AS CSV",
        column.name
    )
}

fn type_name(data_type: &DataType) -> Cow<'static, str> {
    Cow::Borrowed(match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int64 => "BIGINT",
        DataType::Float64 => "DOUBLE",
        DataType::Date32 => "DATE",
        DataType::Time64(_) => "TIME",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Decimal128(38, 0) => "HUGEINT",
        other => return Cow::Owned(other.to_string()),
    })
}
