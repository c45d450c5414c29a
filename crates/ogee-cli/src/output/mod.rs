//! Result writers: one per mode, each given the schema, then batches, then the end.
//!
//! Most modes write a batch as it comes and keep nothing. `duckbox` keeps the rows that it will show, `box`, `table` and `column` a few
//! megabytes until they know how wide their columns are. No result has to fit in memory.
//!
//! Not here: where the bytes go (`sink`).

mod aligned;
mod cells;
mod duckbox;
mod escapes;
mod fit;
mod html;
mod json;
mod line;
mod literals;
mod map_keys;
mod markdown;
mod mode;
mod separated;
mod sink;
mod style;
mod types;
mod words;

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

pub use escapes::{one_line, width};
pub use literals::{identifier, quoted};
pub use mode::Mode;
pub use sink::Sink;
pub use style::Style;

/// Writes the result of one statement.
pub trait ResultWriter {
    /// Before the first batch.
    fn begin(&mut self, schema: &SchemaRef, out: &mut dyn Write) -> io::Result<()>;
    /// Some rows.
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()>;
    /// After the last batch.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// Drops what it is given.
struct Trash;

impl ResultWriter for Trash {
    fn begin(&mut self, _: &SchemaRef, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn batch(&mut self, _: &RecordBatch, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The writer for `style`.
pub fn writer(style: Style) -> Box<dyn ResultWriter> {
    match style.mode {
        Mode::Duckbox => Box::new(duckbox::Duckbox::new(style)),
        Mode::Box | Mode::Table | Mode::Column => Box::new(aligned::Aligned::new(style)),
        Mode::Line => Box::new(line::Line::new(style)),
        Mode::List | Mode::Tabs | Mode::Csv => Box::new(separated::Separated::new(style)),
        Mode::Json => Box::new(json::Json::default()),
        Mode::Jsonlines => Box::new(json::JsonLines::default()),
        Mode::Markdown => Box::new(markdown::Markdown::new(style)),
        Mode::Html => Box::new(html::Html::new(style)),
        Mode::Insert | Mode::Quote => Box::new(literals::Literals::new(style)),
        Mode::Trash => Box::new(Trash),
    }
}

/// An Arrow error as one of output; formatting fails only for values no calendar has.
fn to_io(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other.to_string()),
    }
}
