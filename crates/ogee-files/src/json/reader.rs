//! From the text of a JSON file to batches of columns.
//!
//! Not here: which columns are wanted.

use std::{
    io::{ErrorKind, Read},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{RecordBatch, RecordBatchOptions},
        datatypes::SchemaRef,
    },
    error::Result,
};
use ogee_functions::Error;
use ogee_memory::MemoryError;

use super::{
    build::{Builder, Misfit, Places, VALUE_BYTES},
    parse::{Failure, Item, Value, parse},
};
use crate::text_memory::{BATCH_BYTES, Part, TextMemory};

/// Bytes read at a time. The buffer grows if a value is longer.
const READ_BYTES: usize = 1 << 20;

/// A longer value is refused.
const VALUE_BYTES_MAX: usize = 256 << 20;

/// Bytes that the parts of a value may take before more are asked for.
const PARTS_BYTES: usize = 1 << 20;

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
    line: u64,
    /// Within an array that is the file.
    in_array: bool,
    is_begun: bool,
    is_done: bool,
    memory: TextMemory,
    /// Bytes that the parts of a value may take.
    parts: usize,
}

impl<R: Read> Values<R> {
    pub(super) fn new(input: R, name: String, memory: TextMemory) -> Self {
        let (begin, end, is_last, line) = (0, 0, false, 1);
        Self {
            input,
            name,
            buffer: Vec::new(),
            begin,
            end,
            is_last,
            line,
            in_array: false,
            is_begun: false,
            is_done: false,
            memory,
            parts: PARTS_BYTES,
        }
    }

    fn error(&self, line: u64, what: impl std::fmt::Display) -> Error {
        Error::Source(format!("'{}', line {line}: {what}", self.name))
    }

    /// Of the value that begins here.
    fn too_long(&self, error: &MemoryError) -> Error {
        self.error(self.line, format!("no memory for the value that begins here: {error}"))
    }

    fn fill(&mut self) -> Result<()> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end >= VALUE_BYTES_MAX {
            return Err(self.error(self.line, "a value of more than 256 MiB begins here").into());
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
            self.line += memchr::memchr_iter(b'\n', &rest[..blanks]).count() as u64;
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
            if self.peek()? == Some(b'[') {
                self.in_array = true;
                self.begin += 1;
            }
        }
        if !self.in_array {
            return Ok(self.peek()?.is_some());
        }
        match self.peek()? {
            Some(b']') => {
                self.begin += 1;
                match self.peek()? {
                    None => Ok(false),
                    Some(_) => Err(self.error(self.line, "something follows the array").into()),
                }
            }
            Some(b',') if !is_first => {
                self.begin += 1;
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            Some(_) => Err(self.error(self.line, "neither comma nor bracket after an item of the array").into()),
            None => Err(self.error(self.line, "the array is not closed").into()),
        }
    }

    /// What the batch that is built takes.
    fn set_batch(&mut self, bytes: usize) -> Result<()> {
        Ok(self.memory.set(Part::Batch, bytes).map_err(Error::from)?)
    }

    /// Gives the next value to `take`, with its line and what it may take memory of, if there is one.
    pub(super) fn next<T>(
        &mut self,
        take: impl FnOnce(&Item<'_>, u64, &str, &mut TextMemory) -> Result<T>,
    ) -> Result<Option<T>> {
        self.is_done = self.is_done || !self.advance()?;
        if self.is_done {
            return Ok(None);
        }
        loop {
            self.peek()?;
            let rest = &self.buffer[self.begin..self.end];
            match parse(rest, self.is_last, self.parts) {
                Ok((item, bytes)) => {
                    let taken = take(&item, self.line, &self.name, &mut self.memory)?;
                    let lines = memchr::memchr_iter(b'\n', &rest[..bytes]).count() as u64;
                    self.begin += bytes;
                    self.line += lines;
                    return Ok(Some(taken));
                }
                Err(Failure::More) if self.is_last => {
                    return Err(self.error(self.line, "the file ends within a value that begins here").into());
                }
                Err(Failure::More) => self.fill()?,
                Err(Failure::Large) => {
                    let parts = 2 * self.parts;
                    self.memory.set(Part::Record, parts).map_err(|error| self.too_long(&error))?;
                    self.parts = parts;
                }
                Err(Failure::Wrong(what, left)) => {
                    let before = &rest[..rest.len() - left];
                    let line = self.line + memchr::memchr_iter(b'\n', before).count() as u64;
                    return Err(self.error(line, format!("not JSON: {what}")).into());
                }
            }
        }
    }
}

/// A column of the file, and what is to be done with it.
pub(super) struct Column {
    pub(super) name: String,
    /// `None` if it is not read.
    pub(super) builder: Option<Builder>,
}

/// Reads one file.
pub(super) struct Reader<R> {
    pub(super) values: Values<R>,
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
}

impl<R: Read> Reader<R> {
    /// The next batch.
    pub(super) fn batch(&mut self) -> Result<Option<RecordBatch>> {
        // What the last one took is no longer the reader's.
        self.values.set_batch(0)?;
        let (mut rows, mut bytes) = (0, 0);
        let Self { values, columns, places, is_declared, is_whole, batch_rows, .. } = self;
        let mut row = Row { columns, places, is_declared: *is_declared, is_whole: *is_whole, given: Vec::new() };
        while rows < *batch_rows && bytes < BATCH_BYTES {
            let next = values.next(|item, line, file, memory| {
                let told = |(column, misfit): (String, Misfit)| {
                    Error::Source(format!("'{file}', line {line}: {}", told(&column, misfit)))
                };
                bytes += row.bytes(item);
                if bytes > BATCH_BYTES {
                    let why =
                        |error| Error::Source(format!("'{file}', line {line}: no memory for this value: {error}"));
                    memory.set(Part::Batch, bytes).map_err(why)?;
                }
                Ok(row.append(item).map_err(told)?)
            })?;
            if next.is_none() {
                break;
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let name = &self.values.name;
        let finish = |column: &mut Column| {
            let array = column.builder.as_mut()?.finish();
            Some(array.map_err(|why| Error::Source(format!("'{name}': column \"{}\": {why}", column.name)).into()))
        };
        let arrays = self.columns.iter_mut().filter_map(finish).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?))
    }
}

/// The columns, where a value goes.
struct Row<'r> {
    columns: &'r mut [Column],
    places: &'r Places,
    is_declared: bool,
    is_whole: bool,
    /// Which of them the value has.
    given: Vec<bool>,
}

impl Row<'_> {
    /// Bytes that `item` takes in the arrays, at most.
    fn bytes(&self, item: &Item<'_>) -> usize {
        if self.is_whole {
            return self.columns[0].builder.as_ref().map_or(0, |builder| builder.bytes(item));
        }
        let Value::Object(fields) = &item.value else { return 0 };
        let (mut bytes, mut next) = (VALUE_BYTES * self.columns.len().saturating_sub(fields.len()), 0);
        for (key, item) in fields {
            let name = self.columns.get(next).map(|column| &column.name);
            let Some(place) = self.places.find(key, next, name) else { continue };
            bytes += self.columns[place].builder.as_ref().map_or(0, |builder| builder.bytes(item));
            next = place + 1;
        }
        bytes
    }

    fn append(&mut self, item: &Item<'_>) -> Result<(), (String, Misfit)> {
        let columns = &mut *self.columns;
        if self.is_whole {
            let column = &mut columns[0];
            let Some(builder) = &mut column.builder else { return Ok(()) };
            return builder.append(item).map_err(|misfit| (column.name.clone(), misfit));
        }
        let Value::Object(fields) = &item.value else {
            let text = String::from_utf8_lossy(item.text).into_owned();
            return Err((String::new(), Misfit::Value("an object".to_owned(), text)));
        };
        self.given.clear();
        self.given.resize(columns.len(), false);
        let mut next = 0;
        for (key, item) in fields {
            let Some(place) = self.places.find(key, next, columns.get(next).map(|column| &column.name)) else {
                if self.is_declared {
                    continue;
                }
                return Err((String::new(), Misfit::Key(key.clone().into_owned())));
            };
            self.given[place] = true;
            next = place + 1;
            if let Some(builder) = &mut columns[place].builder {
                builder.append(item).map_err(|misfit| (columns[place].name.clone(), misfit))?;
            }
        }
        let others = columns.iter_mut().zip(&self.given).filter(|(_, given)| !**given);
        others.filter_map(|(column, _)| column.builder.as_mut()).for_each(Builder::append_null);
        Ok(())
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
