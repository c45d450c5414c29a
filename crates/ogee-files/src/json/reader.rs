//! From the text of a JSON file to batches of columns.
//!
//! Not here: which columns are wanted.

use std::{
    io::{ErrorKind, Read},
    ops::Range,
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch, RecordBatchOptions},
        datatypes::SchemaRef,
    },
    error::Result,
};
use ogee_functions::{Error, error::to_datafusion};
use ogee_memory::MemoryError;
use ogee_vector::gather_array;

use super::{
    build::{Builder, Misfit, Places, VALUE_BYTES},
    format::Layout,
    parse::{Failure, Item, parse},
    scan::{Keys, Object, Place, Seen},
};
use crate::{
    cells::Cells,
    pieces::{self, Choice, Mode, Piece, PieceReader},
    text_memory::{BATCH_BYTES, Part, TextMemory},
};

/// Bytes read at a time. The buffer grows if a value is longer.
const READ_BYTES: usize = 1 << 20;

/// A longer value is refused.
pub(super) const VALUE_BYTES_MAX: usize = 256 << 20;

/// What is wrong behind an array that is the file.
const FOLLOWS: &str = "something follows the array";

/// Bytes that the parts of a value may take before more are asked for.
pub(super) const PARTS_BYTES: usize = 1 << 20;

/// Values of a batch, at most, unless that is less than [`BATCH_ROWS_MIN`] rows.
const BATCH_VALUES: usize = 1 << 18;

/// Rows of a batch, at least, however many columns there are.
const BATCH_ROWS_MIN: usize = 16;

/// Longer values, and places of them, are reserved for by themselves.
const LONG: usize = 1 << 20;

/// The column of files whose values are no objects, or objects without keys.
pub(super) const WHOLE: &str = "json";

/// The values of a file, one after the other.
pub(super) struct Values<R> {
    input: R,
    name: String,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    is_last: bool,
    /// The number of the line at `counted` of the buffer, up to which ends of lines were counted.
    line: u64,
    counted: usize,
    /// Within an array that is the file.
    in_array: bool,
    is_begun: bool,
    is_done: bool,
    /// The text is a piece of a file that goes on.
    is_piece: bool,
    /// The text is behind the array that is the file.
    is_behind: bool,
    layout: Layout,
    memory: TextMemory,
    /// Bytes that the parts of a value may take.
    parts: usize,
}

impl<R: Read> Values<R> {
    pub(super) fn new(input: R, name: String, layout: Layout, memory: TextMemory) -> Self {
        let (begin, end, is_last, line) = (0, 0, false, 1);
        Self {
            input,
            name,
            buffer: Vec::new(),
            begin,
            end,
            is_last,
            line,
            counted: 0,
            in_array: false,
            is_begun: false,
            is_done: false,
            is_piece: false,
            is_behind: false,
            layout,
            memory,
            parts: PARTS_BYTES,
        }
    }

    /// The number of the line at `at` of the buffer.
    fn line_at(&self, at: usize) -> u64 {
        self.line + memchr::memchr_iter(b'\n', &self.buffer[self.counted..at]).count() as u64
    }

    /// The number of the line of the value that begins here.
    fn line_here(&self) -> u64 {
        self.line_at(self.begin)
    }

    fn error(&self, line: u64, what: impl std::fmt::Display) -> Error {
        Error::Source(format!("'{}', line {line}: {what}", self.name))
    }

    /// Of the value that begins here.
    fn too_long(&self, error: &MemoryError) -> Error {
        self.error(self.line_here(), format!("no memory for the value that begins here: {error}"))
    }

    fn fill(&mut self) -> Result<()> {
        (self.line, self.counted) = (self.line_here(), 0);
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end >= VALUE_BYTES_MAX {
            return Err(self.error(self.line_here(), "a value of more than 256 MiB begins here").into());
        }
        let wanted = (2 * self.end).clamp(READ_BYTES, VALUE_BYTES_MAX);
        let grown = self.memory.grow(&mut self.buffer, wanted);
        grown.map_err(|error| self.too_long(&error))?;
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
        Ok(())
    }

    /// The next byte that is no blank.
    fn peek(&mut self) -> Result<Option<u8>> {
        loop {
            let rest = &self.buffer[self.begin..self.end];
            let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.begin += blanks;
            if self.begin < self.end {
                return Ok(Some(self.buffer[self.begin]));
            }
            if self.is_last {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// Whether another value comes; what is between is passed over.
    fn advance(&mut self) -> Result<bool> {
        let is_first = !self.is_begun;
        if is_first {
            self.is_begun = true;
            self.fill()?;
            if self.buffer[..self.end].starts_with(b"\xef\xbb\xbf") {
                self.begin = 3;
            }
            match self.peek()? {
                Some(b'[') if self.layout != Layout::Values => {
                    self.in_array = true;
                    self.begin += 1;
                }
                Some(_) if self.layout == Layout::Array => {
                    return Err(self
                        .error(self.line_here(), "no array begins here, which format = 'array' says")
                        .into());
                }
                _ => {}
            }
        }
        if self.is_behind {
            return match self.peek()? {
                None => Ok(false),
                Some(_) => Err(self.error(self.line_here(), FOLLOWS).into()),
            };
        }
        if !self.in_array {
            return Ok(self.peek()?.is_some());
        }
        match self.peek()? {
            Some(b']') => {
                self.begin += 1;
                match self.peek()? {
                    None => Ok(false),
                    Some(_) => Err(self.error(self.line_here(), FOLLOWS).into()),
                }
            }
            Some(b',') if !is_first => {
                self.begin += 1;
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            Some(_) => Err(self.error(self.line_here(), "neither comma nor bracket after an item of the array").into()),
            None if self.is_piece => Ok(false),
            None => Err(self.error(self.line_here(), "the array is not closed").into()),
        }
    }

    /// What the batch that is built takes.
    fn set_batch(&mut self, bytes: usize) -> Result<()> {
        Ok(self.memory.set(Part::Batch, bytes).map_err(Error::from)?)
    }

    /// Whether another value comes, which then begins here.
    fn comes(&mut self) -> Result<bool> {
        self.is_done = self.is_done || !self.advance()?;
        if !self.is_done {
            self.peek()?;
        }
        Ok(!self.is_done)
    }

    /// Gives the next value to `take`, with its line and what it may take memory of, if there is one.
    pub(super) fn next_value<T>(
        &mut self,
        take: impl FnOnce(&Item<'_>, u64, &str, &mut TextMemory) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.comes()? { self.next(take) } else { Ok(None) }
    }

    /// Gives the value that begins here to `take`, as [`Self::next_value`] does.
    fn next<T>(&mut self, take: impl FnOnce(&Item<'_>, u64, &str, &mut TextMemory) -> Result<T>) -> Result<Option<T>> {
        loop {
            self.peek()?;
            (self.line, self.counted) = (self.line_here(), self.begin);
            let rest = &self.buffer[self.begin..self.end];
            match parse(rest, self.is_last, self.parts) {
                Ok((item, bytes)) => {
                    let taken = take(&item, self.line, &self.name, &mut self.memory)?;
                    self.begin += bytes;
                    return Ok(Some(taken));
                }
                Err(Failure::More) if !self.is_last => self.fill()?,
                Err(failure) => {
                    failed(&self.name, self.line, rest, failure)?;
                    let parts = 2 * self.parts;
                    self.memory.set(Part::Record, parts).map_err(|error| self.too_long(&error))?;
                    self.parts = parts;
                }
            }
        }
    }
}

/// A column of the file, and what is to be done with it.
pub(super) struct Column {
    pub(super) name: String,
    /// As it is mostly written before a value.
    written: String,
    /// `None` if it is not read.
    builder: Option<Builder>,
}

impl Column {
    pub(super) fn new(name: String, builder: Option<Builder>) -> Self {
        Self { written: format!("\"{name}\":"), name, builder }
    }
}

impl Values<std::io::Empty> {
    /// Goes on with the text of `piece`.
    fn take(&mut self, piece: &mut Piece) {
        std::mem::swap(&mut self.buffer, &mut piece.bytes);
        let pieces::Place { is_first, is_last, mode } = piece.place;
        (self.begin, self.end, self.is_last) = (0, piece.end, true);
        (self.line, self.counted) = (piece.line, 0);
        (self.is_begun, self.is_done, self.is_piece) = (!is_first, false, !is_last);
        (self.in_array, self.is_behind) = (mode == Mode::Items, mode == Mode::Behind);
    }

    fn give_back(&mut self, piece: &mut Piece) {
        std::mem::swap(&mut self.buffer, &mut piece.bytes);
        (self.begin, self.end, self.counted, self.is_done) = (0, 0, 0, true);
    }
}

impl PieceReader for Reader {
    fn take(&mut self, piece: &mut Piece) {
        self.values.take(piece);
    }

    fn give_back(&mut self, piece: &mut Piece) {
        self.values.give_back(piece);
    }

    fn next(&mut self, choice: Option<&mut dyn Choice>) -> Result<Option<pieces::Taken>> {
        self.batch(choice)
    }
}

/// Reads one file.
pub(super) struct Reader {
    pub(super) values: Values<std::io::Empty>,
    /// All columns of the table's files, in the table's order.
    pub(super) columns: Vec<Column>,
    /// Where they are.
    pub(super) places: Places,
    /// Keys that are no column are passed over: the table was declared without them.
    pub(super) is_declared: bool,
    /// The values are the column.
    pub(super) is_whole: bool,
    pub(super) schema: SchemaRef,
    pub(super) batch_rows: usize,
    pub(super) scratch: Scratch,
}

/// What is noted of the objects of a batch.
#[derive(Default)]
pub(super) struct Scratch {
    seen: Seen,
    /// Where the values of columns are that are read.
    cells: Cells,
}

impl Reader {
    /// The next batch of the piece.
    fn batch(&mut self, choice: Option<&mut dyn Choice>) -> Result<Option<pieces::Taken>> {
        // What the last one took is no longer the reader's.
        self.values.set_batch(0)?;
        let (arrays, rows) = match self.is_whole {
            true => self.of_values()?,
            false => self.of_objects(choice)?,
        };
        if rows == 0 {
            return Ok(None);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        Ok(Some(pieces::Taken { batch, is_chosen: !self.is_whole }))
    }

    /// The array of values that are the only column, and their number.
    fn of_values(&mut self) -> Result<(Vec<ArrayRef>, usize)> {
        let (mut rows, mut bytes) = (0, 0);
        let column = &mut self.columns[0];
        while rows < self.batch_rows && bytes < BATCH_BYTES {
            let taken = self.values.next_value(|item, line, file, memory| {
                let Some(builder) = &mut column.builder else { return Ok(()) };
                bytes += builder.bytes(item);
                reserve(memory, bytes).map_err(|error| no_memory(file, line, &error))?;
                let told = |misfit| Error::Source(format!("'{file}', line {line}: {}", told(&column.name, misfit)));
                Ok(builder.append(item).map_err(told)?)
            })?;
            if taken.is_none() {
                break;
            }
            rows += 1;
        }
        let arrays = column.builder.iter_mut().map(|builder| finished(&self.values.name, &column.name, builder));
        Ok((arrays.collect::<Result<_>>()?, rows))
    }

    /// The arrays of objects, of those that are chosen, and their number.
    fn of_objects(&mut self, mut choice: Option<&mut dyn Choice>) -> Result<(Vec<ArrayRef>, usize)> {
        loop {
            self.scan()?;
            if self.scratch.cells.rows() == 0 {
                return Ok((Vec::new(), 0));
            }
            let read: Vec<usize> = (0..self.columns.len()).filter(|&at| self.columns[at].builder.is_some()).collect();
            let mut known: Vec<Option<ArrayRef>> = vec![None; read.len()];
            let mut taken = 0;
            if let Some(choice) = choice.as_deref_mut() {
                let columns = choice.columns().to_vec();
                let mut arrays = Vec::with_capacity(columns.len());
                for &column in &columns {
                    arrays.push(self.array(read[column], column, &mut taken)?);
                }
                let kept = choice.rows(&arrays, self.scratch.cells.rows())?;
                for (column, array) in columns.into_iter().zip(arrays) {
                    known[column] = Some(match kept {
                        Some(rows) => gather_array(&array, rows).map_err(to_datafusion)?,
                        None => array,
                    });
                }
                if let Some(rows) = kept {
                    self.scratch.cells.keep(rows);
                }
            }
            let rows = self.scratch.cells.rows();
            if rows == 0 {
                continue;
            }
            let mut arrays = Vec::with_capacity(read.len());
            for (column, known) in known.into_iter().enumerate() {
                arrays.push(match known {
                    Some(array) => array,
                    None => self.array(read[column], column, &mut taken)?,
                });
            }
            return Ok((arrays, rows));
        }
    }

    /// Notes where the values of the next objects are.
    fn scan(&mut self) -> Result<()> {
        let Self { values, columns, places, is_declared, scratch: Scratch { seen, cells }, .. } = self;
        let keys = ColumnKeys { columns, places, is_declared: *is_declared };
        // The number of each column among those that are read.
        let mut number = 0;
        let numbers: Vec<Option<usize>> = columns
            .iter()
            .map(|column| {
                column.builder.as_ref()?;
                number += 1;
                Some(number - 1)
            })
            .collect();
        cells.clear(number);
        let most = self.batch_rows.min((BATCH_VALUES / number.max(1)).max(BATCH_ROWS_MIN));
        let begin = values.begin;
        while cells.rows() < most && values.begin - begin < BATCH_BYTES && values.comes()? {
            let at = values.begin;
            let text = &values.buffer[..values.end];
            let end = loop {
                cells.begin_record();
                let found = |place: usize, value: Range<usize>| {
                    if let Some(number) = numbers[place] {
                        cells.set(number, value);
                    }
                };
                let object = Object { text, begin: at, is_last: values.is_last, most: values.parts };
                match seen.object(object, &keys, found) {
                    Ok(Some(Ok(end))) => break end,
                    Ok(Some(Err(key))) => {
                        return Err(values.error(values.line_here(), told("", Misfit::Key(key))).into());
                    }
                    Ok(None) => {
                        let line = text[at..].split(|byte| *byte == b'\n').next().unwrap_or_default();
                        let misfit = Misfit::Value("an object".to_owned(), String::from_utf8_lossy(line).into_owned());
                        return Err(values.error(values.line_here(), told("", misfit)).into());
                    }
                    Err(failure) => {
                        failed(&values.name, values.line_here(), &text[at..], failure)?;
                        let parts = 2 * values.parts;
                        let reserved = values.memory.set(Part::Record, parts);
                        reserved.map_err(|error| values.too_long(&error))?;
                        values.parts = parts;
                    }
                }
            };
            cells.end_record(at);
            values.begin = end;
        }
        let bytes = cells.bytes();
        if bytes > LONG {
            let reserved = reserve(&mut values.memory, BATCH_BYTES + bytes);
            reserved.map_err(|error| values.too_long(&error))?;
        }
        Ok(())
    }

    /// The array of column `at`, number `number` of those that are read; `taken` is what the batch takes.
    fn array(&mut self, at: usize, number: usize, taken: &mut usize) -> Result<ArrayRef> {
        let Self { values, columns, scratch: Scratch { cells, .. }, .. } = self;
        let Column { name, builder, .. } = &mut columns[at];
        let Some(builder) = builder else {
            return Err(Error::Internal(format!("column {name} is not read")).into());
        };
        for (row, place) in cells.column(number).enumerate() {
            let Some((range, _)) = place else {
                *taken += builder.null_bytes();
                builder.append_null();
                continue;
            };
            if range.len() > LONG {
                let reserved = reserve(&mut values.memory, *taken + range.len());
                reserved.map_err(|error| no_memory(&values.name, values.line_at(cells.record(row)), &error))?;
            }
            let value = &values.buffer[range];
            let line = || values.line_at(cells.record(row));
            let misfit = |misfit| values.error(line(), told(name, misfit));
            if let Some(appended) = builder.append_plain(value) {
                appended.map_err(misfit)?;
                *taken += VALUE_BYTES + value.len();
                continue;
            }
            let item = match parse(value, true, values.parts) {
                Ok((item, _)) => item,
                Err(failure) => {
                    failed(&values.name, line(), value, failure)?;
                    return Err(values.error(line(), "no memory for a value").into());
                }
            };
            *taken += builder.bytes(&item);
            let reserved = reserve(&mut values.memory, *taken);
            reserved.map_err(|error| no_memory(&values.name, values.line_at(cells.record(row)), &error))?;
            builder
                .append(&item)
                .map_err(|misfit| values.error(values.line_at(cells.record(row)), told(name, misfit)))?;
        }
        reserve(&mut values.memory, *taken).map_err(|error| no_memory(&values.name, values.line, &error))?;
        finished(&values.name, name, builder)
    }
}

/// The keys that columns are of.
struct ColumnKeys<'c> {
    columns: &'c [Column],
    places: &'c Places,
    is_declared: bool,
}

impl Keys for ColumnKeys<'_> {
    fn places(&self) -> usize {
        self.columns.len()
    }

    fn written(&self, place: usize) -> &[u8] {
        self.columns[place].written.as_bytes()
    }

    fn find(&self, key: &[u8]) -> Place {
        match std::str::from_utf8(key).ok().and_then(|key| self.places.find(key, 0, None)) {
            Some(place) => Place::At(place),
            None if self.is_declared => Place::Nowhere,
            None => Place::Unknown,
        }
    }
}

/// What was built of a column.
fn finished(file: &str, column: &str, builder: &mut Builder) -> Result<ArrayRef> {
    Ok(builder.finish().map_err(|why| Error::Source(format!("'{file}': column \"{column}\": {why}")))?)
}

/// Reserves for a batch that takes `bytes`.
fn reserve(memory: &mut TextMemory, bytes: usize) -> Result<(), MemoryError> {
    if bytes <= BATCH_BYTES { Ok(()) } else { memory.set(Part::Batch, bytes) }
}

/// That there is none for the value in `line`.
fn no_memory(file: &str, line: u64, error: &MemoryError) -> Error {
    Error::Source(format!("'{file}', line {line}: no memory for this value: {error}"))
}

/// Whether a value at the front of `text` was not read since its parts take more memory than they may.
///
/// # Errors
/// What is wrong with it otherwise.
fn failed(file: &str, line: u64, text: &[u8], failure: Failure) -> Result<bool, Error> {
    let error = |line: u64, what: &dyn std::fmt::Display| Error::Source(format!("'{file}', line {line}: {what}"));
    match failure {
        Failure::More => Err(error(line, &"the file ends within a value that begins here")),
        Failure::Large => Ok(true),
        Failure::Wrong(what, left) => {
            let before = &text[..text.len() - left];
            let line = line + memchr::memchr_iter(b'\n', before).count() as u64;
            Err(error(line, &format!("not JSON: {what}")))
        }
    }
}

/// Why a value cannot be read, and what to do.
fn told(column: &str, misfit: Misfit) -> String {
    let sample = "or let more be looked at: CREATE EXTERNAL TABLE name STORED AS JSON LOCATION '..' \
                  OPTIONS ('format.schema_infer_max_rec' '100000000')";
    match misfit {
        Misfit::Key(key) => format!(
            "key \"{key}\" is in no object before, so the table has no column for it; \
             declare the columns with CREATE EXTERNAL TABLE, {sample}"
        ),
        Misfit::Value(kind, text) => {
            let shown: String = text.chars().take(60).collect();
            let more = if shown.len() < text.len() { "..." } else { "" };
            if column.is_empty() {
                return format!("{shown}{more} is no object, as all before");
            }
            format!(
                "column \"{column}\" is {kind} by what comes before, and {shown}{more} is not; \
                 declare it as VARCHAR with CREATE EXTERNAL TABLE, {sample}"
            )
        }
    }
}
