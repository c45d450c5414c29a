//! From the text of a CSV file to batches of columns.
//!
//! Not here: which columns are wanted, what the file looks like.

use std::{
    borrow::Cow,
    io::{ErrorKind, Read},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, BooleanArray, BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder,
            Int64Builder, RecordBatch, RecordBatchOptions, StringViewArray, StringViewBuilder,
            Time64MicrosecondBuilder, TimestampMicrosecondBuilder, TimestampNanosecondBuilder, new_null_array,
        },
        compute::{CastOptions, cast_with_options, filter_record_batch},
        datatypes::{DataType, SchemaRef},
    },
    error::Result,
};
use ogee_functions::Error;
use ogee_memory::MemoryError;

use super::{
    records::{FIELDS_MAX, Incomplete, Record},
    sniff::{Given, Look, is_comment},
    values::{self, Kind, UTC},
};
use crate::text_memory::{BATCH_BYTES, Part, TextMemory, text_block_bytes};

/// Bytes read at a time. The buffer grows if a record is longer.
const READ_BYTES: usize = 1 << 20;

/// A longer record is none: a quote was not closed.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Values of a batch, at most, unless that is less than [`BATCH_ROWS_MIN`] rows: each takes 16 bytes before it is known.
const BATCH_VALUES: usize = 1 << 18;

/// Rows of a batch, at least, however many columns there are: an array takes some hundred bytes, whatever is in it.
const BATCH_ROWS_MIN: usize = 16;

/// A longer record is reserved for by itself.
const LONG_RECORD: usize = 1 << 20;

/// How a column of the table comes from a file.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Its number in the file.
    pub(super) index: usize,
    pub(super) name: String,
    /// What its texts stand for; `None`: what a cast makes of them.
    pub(super) kind: Option<Kind>,
    pub(super) data_type: DataType,
}

/// Reads one file.
pub(super) struct Reader<R> {
    input: R,
    /// The file's name.
    name: String,
    look: Arc<Look>,
    columns: Vec<Column>,
    schema: SchemaRef,
    batch_rows: usize,
    given: Given,
    buffer: Vec<u8>,
    /// Read, but not yet part of a record: `buffer[begin..end]`.
    begin: usize,
    end: usize,
    is_last: bool,
    /// Number of the line at `begin`.
    line: u64,
    record: Record,
    memory: TextMemory,
    is_begun: bool,
    is_done: bool,
}

/// What is read in which way.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) look: Arc<Look>,
    pub(super) columns: Vec<Column>,
    /// Of the columns.
    pub(super) schema: SchemaRef,
    pub(super) batch_rows: usize,
    pub(super) given: Given,
    pub(super) memory: TextMemory,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(input: R, plan: Plan) -> Self {
        let Plan { name, look, columns, schema, batch_rows, given, memory } = plan;
        let batch_rows = batch_rows.min((BATCH_VALUES / columns.len().max(1)).max(BATCH_ROWS_MIN));
        Self {
            input,
            name,
            look,
            columns,
            schema,
            batch_rows,
            given,
            buffer: Vec::new(),
            begin: 0,
            end: 0,
            is_last: false,
            line: 1,
            record: Record::default(),
            memory,
            is_begun: false,
            is_done: false,
        }
    }

    fn error(&self, line: u64, what: impl std::fmt::Display) -> Error {
        Error::Source(format!("'{}', line {line}: {what}", self.name))
    }

    /// Of a record that begins in `line`.
    fn too_long(&self, line: u64, error: &MemoryError) -> Error {
        self.error(line, format!("no memory for the record that begins here: {error}"))
    }

    /// Reads on; whether there was more.
    fn fill(&mut self) -> Result<bool> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end >= RECORD_BYTES_MAX {
            let what = "a record of more than 64 MiB begins here; is a quote not closed?";
            return Err(self.error(self.line, what).into());
        }
        let wanted = (2 * self.end).clamp(READ_BYTES, RECORD_BYTES_MAX);
        let grown = self.memory.grow(&mut self.buffer, wanted);
        grown.map_err(|error| self.too_long(self.line, &error))?;
        let before = self.end;
        while self.end < self.buffer.len() {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.is_last = true;
                    break;
                }
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Source(format!("cannot read '{}': {error}", self.name)).into()),
            }
        }
        Ok(self.end > before)
    }

    /// Passes over what comes before the records.
    fn begin(&mut self) -> Result<()> {
        self.is_begun = true;
        while self.end - self.begin < self.look.skip && !self.is_last {
            self.fill()?;
        }
        self.begin += self.look.skip.min(self.end - self.begin);
        self.line += self.look.skip_lines;
        if self.look.has_header {
            // The header is the first record that is not blank.
            while self.record()?.is_some_and(|_| self.record.is_blank()) {}
        }
        Ok(())
    }

    /// Reads the next record into `self.record`; gives where it begins and its line.
    fn record(&mut self) -> Result<Option<(usize, u64)>> {
        loop {
            if self.begin < self.end {
                let buffer = &self.buffer[self.begin..self.end];
                match self.record.read(buffer, &self.look.marks, self.is_last) {
                    Ok(()) => {
                        let (begin, line) = (self.begin, self.line);
                        self.begin += self.record.bytes;
                        self.line += self.record.lines;
                        return Ok(Some((begin, line)));
                    }
                    Err(Incomplete::More) => {}
                    Err(Incomplete::Open) => {
                        return Err(self.error(self.line, "a quote is opened and not closed").into());
                    }
                    Err(Incomplete::Wide) => {
                        let what = format!("a record of more than {FIELDS_MAX} values");
                        return Err(self.error(self.line, what).into());
                    }
                    Err(Incomplete::AfterQuote) => {
                        let what = "something follows a closing quote; quotes within quotes are written twice";
                        return Err(self.error(self.line, what).into());
                    }
                }
            } else if self.is_last {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// The next batch.
    pub(super) fn batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.is_done {
            return Ok(None);
        }
        if !self.is_begun {
            self.begin()?;
        }
        // What the last one took is no longer the reader's.
        self.memory.set(Part::Batch, 0).map_err(Error::from)?;
        let look = Arc::clone(&self.look);
        let width = look.names.len();
        let mut builders: Vec<Builder> =
            self.columns.iter().map(|column| Builder::new(column, self.batch_rows, self.columns.len())).collect();
        let (mut rows, mut taken) = (0, 0);
        // Where the rows are, for those whose values are cast.
        let mut lines = Vec::new();
        let casts = self.columns.iter().any(|column| column.kind.is_none());
        while rows < self.batch_rows && taken < BATCH_BYTES {
            let Some((begin, line)) = self.record()? else {
                self.is_done = true;
                break;
            };
            let bytes = &self.buffer[begin..];
            if self.record.is_blank() && width > 1 || is_comment(bytes, self.given.comment) {
                continue;
            }
            let fields = self.record.len();
            if fields != width {
                let has_empty_end = || fields == width + 1 && self.record.field(bytes, width, &look.marks).is_empty();
                if !(has_empty_end() || fields < width && self.given.truncated) {
                    if self.given.ignores_errors {
                        continue;
                    }
                    let values = if fields == 1 { "value" } else { "values" };
                    let columns = if width == 1 { "column" } else { "columns" };
                    let first = if look.has_header { "the header" } else { "the first line" };
                    let what = format!("{fields} {values}, but {first} has {width} {columns}");
                    return Err(self.error(line, what).into());
                }
            }
            let field_of = |column: &Column| match column.index < fields {
                true => self.record.field(bytes, column.index, &look.marks),
                false => Cow::Borrowed(&[][..]),
            };
            // A part of a record is none.
            if self.given.ignores_errors
                && !self.columns.iter().all(|column| {
                    let field = field_of(column);
                    self.given.is_null(&field) || takes(column.kind, &field)
                })
            {
                continue;
            }
            // A text is there as it was read, and as a part of the batch.
            if self.record.bytes > LONG_RECORD {
                let batch = self.memory.set(Part::Batch, taken + self.record.bytes);
                batch.map_err(|error| self.too_long(line, &error))?;
            }
            taken += self.record.bytes;
            for (column, builder) in self.columns.iter().zip(&mut builders) {
                let field = field_of(column);
                if self.given.is_null(&field) || column.index >= fields {
                    builder.append_null();
                } else if !builder.append(&field, column.kind) {
                    return Err(self.error(line, not_taken(column, &field)).into());
                }
            }
            if casts {
                lines.push(line);
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let finish = |(column, builder): (&Column, Builder)| {
            builder.finish(column).map_err(|row| {
                let (row, text) = row;
                self.error(lines.get(row).copied().unwrap_or(0), not_taken(column, text.as_bytes())).into()
            })
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        if self.given.ignores_errors && casts {
            let mut kept = vec![true; rows];
            let columns = self.columns.iter().zip(builders);
            let arrays = columns.map(|(column, builder)| builder.finish_some(column, &mut kept));
            let arrays = arrays.collect::<Result<Vec<_>>>()?;
            let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
            return Ok(Some(filter_record_batch(&batch, &BooleanArray::from(kept))?));
        }
        let arrays = self.columns.iter().zip(builders).map(finish).collect::<Result<Vec<_>>>()?;
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?))
    }
}

/// Whether `field` is of `kind`, or is a text for a cast.
fn takes(kind: Option<Kind>, field: &[u8]) -> bool {
    match kind {
        None | Some(Kind::Text) => std::str::from_utf8(field).is_ok(),
        Some(Kind::Boolean) => values::boolean(field).is_some(),
        Some(Kind::Time) => values::time(field).is_some(),
        Some(Kind::Date(order)) => values::date(field, order).is_some(),
        Some(Kind::Timestamp(order, false)) => values::timestamp(field, order).is_some(),
        Some(Kind::Timestamp(order, true)) => values::timestamp(field, order).and_then(values::nanoseconds).is_some(),
        Some(Kind::Instant) => values::instant(field).is_some(),
        Some(Kind::Integer) => values::integer(field).is_some(),
        Some(Kind::LargeInteger) => values::large_integer(field).is_some(),
        Some(Kind::Double) => values::double(field).is_some(),
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
    let kind = type_name(&column.data_type);
    let why = match column.kind {
        Some(_) => format!("column '{}' is {kind} by what comes before", column.name),
        None => format!("column '{}' is declared as {kind}", column.name),
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

/// The array of a column while it is built.
enum Builder {
    Boolean(BooleanBuilder),
    Time(Time64MicrosecondBuilder),
    Date(Date32Builder),
    Microseconds(TimestampMicrosecondBuilder),
    Nanoseconds(TimestampNanosecondBuilder),
    Integer(Int64Builder),
    LargeInteger(Decimal128Builder),
    Double(Float64Builder),
    Text(StringViewBuilder),
}

impl Builder {
    /// For `rows` rows of `column`, one of `columns`.
    fn new(column: &Column, rows: usize, columns: usize) -> Self {
        let texts = || StringViewBuilder::with_capacity(rows).with_fixed_block_size(text_block_bytes(columns));
        let Some(kind) = column.kind else { return Self::Text(texts()) };
        match kind {
            Kind::Boolean => Self::Boolean(BooleanBuilder::with_capacity(rows)),
            Kind::Time => Self::Time(Time64MicrosecondBuilder::with_capacity(rows)),
            Kind::Date(_) => Self::Date(Date32Builder::with_capacity(rows)),
            Kind::Timestamp(_, false) => Self::Microseconds(TimestampMicrosecondBuilder::with_capacity(rows)),
            Kind::Timestamp(_, true) => Self::Nanoseconds(TimestampNanosecondBuilder::with_capacity(rows)),
            Kind::Instant => Self::Microseconds(TimestampMicrosecondBuilder::with_capacity(rows).with_timezone(UTC)),
            Kind::Integer => Self::Integer(Int64Builder::with_capacity(rows)),
            Kind::LargeInteger => {
                Self::LargeInteger(Decimal128Builder::with_capacity(rows).with_data_type(kind.data_type()))
            }
            Kind::Double => Self::Double(Float64Builder::with_capacity(rows)),
            Kind::Text => Self::Text(texts()),
        }
    }

    fn append_null(&mut self) {
        match self {
            Self::Boolean(builder) => builder.append_null(),
            Self::Time(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Microseconds(builder) => builder.append_null(),
            Self::Nanoseconds(builder) => builder.append_null(),
            Self::Integer(builder) => builder.append_null(),
            Self::LargeInteger(builder) => builder.append_null(),
            Self::Double(builder) => builder.append_null(),
            Self::Text(builder) => builder.append_null(),
        }
    }

    /// Whether `field` is of `kind`; appends it if so.
    fn append(&mut self, field: &[u8], kind: Option<Kind>) -> bool {
        let order = match kind {
            Some(Kind::Date(order) | Kind::Timestamp(order, _)) => order,
            _ => values::Order::default(),
        };
        let appended = match self {
            Self::Integer(builder) => values::integer(field).map(|value| builder.append_value(value)),
            Self::Double(builder) => values::double(field).map(|value| builder.append_value(value)),
            Self::Text(builder) => std::str::from_utf8(field).ok().map(|text| builder.append_value(text)),
            Self::Boolean(builder) => values::boolean(field).map(|value| builder.append_value(value)),
            Self::Time(builder) => values::time(field).map(|value| builder.append_value(value)),
            Self::Date(builder) => values::date(field, order).map(|value| builder.append_value(value)),
            Self::LargeInteger(builder) => values::large_integer(field).map(|value| builder.append_value(value)),
            Self::Microseconds(builder) if kind == Some(Kind::Instant) => {
                values::instant(field).map(|value| builder.append_value(value))
            }
            Self::Microseconds(builder) => {
                values::timestamp(field, order).map(|value| builder.append_value(values::microseconds(value)))
            }
            Self::Nanoseconds(builder) => {
                values::timestamp(field, order).and_then(values::nanoseconds).map(|value| builder.append_value(value))
            }
        };
        appended.is_some()
    }

    /// The array; rows whose text has no place in it are taken out of `kept`.
    fn finish_some(self, column: &Column, kept: &mut [bool]) -> Result<ArrayRef> {
        let texts = match self {
            Self::Text(mut builder) if column.kind.is_none() => builder.finish(),
            other => {
                // Nothing is cast.
                return other
                    .finish(column)
                    .map_err(|(_, text)| Error::Execution(not_taken(column, text.as_bytes())).into());
            }
        };
        let array =
            cast_with_options(&texts, &column.data_type, &CastOptions { safe: true, ..CastOptions::default() })?;
        for (row, kept) in kept.iter_mut().enumerate() {
            *kept &= texts.is_null(row) || array.is_valid(row);
        }
        Ok(array)
    }

    /// The array, or the row and the text that has no place in it.
    fn finish(self, column: &Column) -> std::result::Result<ArrayRef, (usize, String)> {
        Ok(match self {
            Self::Boolean(mut builder) => Arc::new(builder.finish()),
            Self::Time(mut builder) => Arc::new(builder.finish()),
            Self::Date(mut builder) => Arc::new(builder.finish()),
            Self::Microseconds(mut builder) => Arc::new(builder.finish()),
            Self::Nanoseconds(mut builder) => Arc::new(builder.finish()),
            Self::Integer(mut builder) => Arc::new(builder.finish()),
            Self::LargeInteger(mut builder) => Arc::new(builder.finish()),
            Self::Double(mut builder) => Arc::new(builder.finish()),
            Self::Text(mut builder) => {
                let texts = builder.finish();
                match column.kind {
                    Some(_) => Arc::new(texts),
                    None => return cast(&texts, &column.data_type),
                }
            }
        })
    }
}

/// `texts` in the type that a column was declared with, or the first that is none of it.
fn cast(texts: &StringViewArray, data_type: &DataType) -> std::result::Result<ArrayRef, (usize, String)> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    if *data_type == DataType::Null && texts.iter().all(|text| text.is_none()) {
        return Ok(new_null_array(data_type, texts.len()));
    }
    cast_with_options(texts, data_type, &strict).map_err(|_| {
        let mut rows = 0..texts.len();
        let row = rows.find(|&row| cast_with_options(&texts.slice(row, 1), data_type, &strict).is_err()).unwrap_or(0);
        let text = texts.iter().nth(row).flatten().unwrap_or_default();
        (row, text.to_owned())
    })
}
