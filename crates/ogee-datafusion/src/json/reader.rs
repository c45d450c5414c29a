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

use super::{
    build::{Builder, Misfit},
    parse::{Failure, Item, Value, parse},
};
use crate::Error;

/// Bytes read at a time. The buffer grows if a value is longer.
const READ_BYTES: usize = 1 << 20;

/// A longer value is refused.
const VALUE_BYTES_MAX: usize = 256 << 20;

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
}

impl<R: Read> Values<R> {
    pub(super) fn new(input: R, name: String) -> Self {
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
        }
    }

    fn error(&self, line: u64, what: impl std::fmt::Display) -> Error {
        Error::Source(format!("'{}', line {line}: {what}", self.name))
    }

    fn fill(&mut self) -> Result<()> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end >= VALUE_BYTES_MAX {
            return Err(self.error(self.line, "a value of more than 256 MiB begins here").into());
        }
        let wanted = (2 * self.end).max(READ_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
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

    /// Gives the next value to `take`, with its line, if there is one.
    pub(super) fn next<T>(&mut self, take: impl FnOnce(&Item<'_>, u64, &str) -> Result<T>) -> Result<Option<T>> {
        self.is_done = self.is_done || !self.advance()?;
        if self.is_done {
            return Ok(None);
        }
        loop {
            self.peek()?;
            let rest = &self.buffer[self.begin..self.end];
            match parse(rest, self.is_last) {
                Ok((item, bytes)) => {
                    let taken = take(&item, self.line, &self.name)?;
                    let lines = memchr::memchr_iter(b'\n', &rest[..bytes]).count() as u64;
                    self.begin += bytes;
                    self.line += lines;
                    return Ok(Some(taken));
                }
                Err(Failure::More) if self.is_last => {
                    return Err(self.error(self.line, "the file ends within a value that begins here").into());
                }
                Err(Failure::More) => self.fill()?,
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
        let mut rows = 0;
        let (columns, is_declared, is_whole) = (&mut self.columns, self.is_declared, self.is_whole);
        let mut seen = vec![false; columns.len()];
        while rows < self.batch_rows {
            let next = self.values.next(|item, line, file| {
                append(columns, item, is_declared, is_whole, &mut seen).map_err(|(column, misfit)| {
                    Error::Source(format!("'{file}', line {line}: {}", told(&column, misfit))).into()
                })
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

fn append(
    columns: &mut [Column],
    item: &Item<'_>,
    is_declared: bool,
    is_whole: bool,
    seen: &mut [bool],
) -> Result<(), (String, Misfit)> {
    if is_whole {
        let column = &mut columns[0];
        let Some(builder) = &mut column.builder else { return Ok(()) };
        return builder.append(item).map_err(|misfit| (column.name.clone(), misfit));
    }
    let Value::Object(fields) = &item.value else {
        let text = String::from_utf8_lossy(item.text).into_owned();
        return Err((String::new(), Misfit::Value("an object".to_owned(), text)));
    };
    seen.fill(false);
    for (number, (key, item)) in fields.iter().enumerate() {
        let place = match columns.get(number) {
            Some(column) if column.name == *key => Some(number),
            _ => columns.iter().position(|column| column.name == *key),
        };
        let Some(place) = place else {
            if is_declared {
                continue;
            }
            return Err((String::new(), Misfit::Key(key.clone().into_owned())));
        };
        seen[place] = true;
        if let Some(builder) = &mut columns[place].builder {
            builder.append(item).map_err(|misfit| (columns[place].name.clone(), misfit))?;
        }
    }
    let unseen = columns.iter_mut().zip(seen).filter(|(_, seen)| !**seen);
    unseen.filter_map(|(column, _)| column.builder.as_mut()).for_each(Builder::append_null);
    Ok(())
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
