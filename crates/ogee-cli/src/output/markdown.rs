//! A table in Markdown, unaligned, since aligning would need all rows first.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::cells;
use super::{ResultWriter, Style};

pub struct Markdown {
    style: Style,
}

impl Markdown {
    pub fn new(style: Style) -> Self {
        Self { style }
    }
}

fn cell(value: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, " {} |", value.replace('|', "\\|").replace('\n', "<br>"))
}

impl ResultWriter for Markdown {
    /// A table in Markdown has a header; without headers its names are empty.
    fn begin(&mut self, schema: &SchemaRef, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "|")?;
        for field in schema.fields() {
            cell(if self.style.headers { field.name() } else { "" }, out)?;
        }
        write!(out, "\n|")?;
        for field in schema.fields() {
            let numeric = field.data_type().is_numeric();
            write!(out, "{}|", if numeric { "---:" } else { "---" })?;
        }
        writeln!(out)
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let null = self.style.null_text();
        for cells in cells(batch, &self.style.zone) {
            let cells = cells?;
            for row in 0..cells.rows() {
                write!(out, "|")?;
                for index in 0..batch.num_columns() {
                    cell(cells.get(row, index).unwrap_or(&null), out)?;
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
