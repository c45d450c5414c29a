//! Result writers: one per format, each given the schema, then batches, then the end.
//!
//! Every format but `table` writes a batch as it comes and keeps nothing; `table` keeps as many rows as it will show.
//!
//! Not here: where the bytes go (`sink`).

mod csv;
mod json;
mod line;
mod map_keys;
mod markdown;
mod sink;
mod table;

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, SchemaRef};

pub use sink::Sink;

use crate::args::Format;

/// How much of a result is shown, and how.
#[derive(Clone, Debug)]
pub struct Style {
    pub format: Format,
    /// Most rows a table shows.
    pub rows_max: usize,
    /// Columns of the terminal, to fold wide tables; none when the output is not a terminal.
    pub width: Option<u16>,
}

/// Writes the result of one statement.
pub trait ResultWriter {
    /// Before the first batch.
    fn begin(&mut self, schema: &SchemaRef, out: &mut dyn Write) -> io::Result<()>;
    /// Some rows.
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()>;
    /// After the last batch.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// The writer for `style`.
pub fn writer(style: &Style) -> Box<dyn ResultWriter> {
    match style.format {
        Format::Table => Box::new(table::Table::new(style.rows_max, style.width)),
        Format::Csv => Box::new(csv::Csv),
        Format::Ndjson => Box::new(json::Ndjson::default()),
        Format::Json => Box::new(json::Json::default()),
        Format::Markdown => Box::new(markdown::Markdown),
        Format::Line => Box::new(line::Line::default()),
    }
}

/// An Arrow error as one of output; formatting fails only for values no calendar has.
fn to_io(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other.to_string()),
    }
}

/// One formatter per column; NULL is written as `null`.
fn formatters<'a>(batch: &'a RecordBatch, null: &'a str) -> io::Result<Vec<ArrayFormatter<'a>>> {
    let options = FormatOptions::default().with_null(null).with_display_error(true);
    batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).map_err(to_io)).collect()
}
