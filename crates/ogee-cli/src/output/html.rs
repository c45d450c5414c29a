//! Rows of a table in HTML, to be put between `<table>` and `</table>`.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::cells;
use super::{ResultWriter, Style};

pub struct Html {
    style: Style,
}

impl Html {
    pub fn new(style: Style) -> Self {
        Self { style }
    }
}

/// Writes one row; `tag` is what its cells are.
fn row<'a>(tag: &str, values: impl Iterator<Item = &'a str>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<tr>")?;
    for value in values {
        writeln!(out, "<{tag}>{}</{tag}>", escaped(value))?;
    }
    writeln!(out, "</tr>")
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '&' => text.push_str("&amp;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            other => text.push(other),
        }
    }
    text
}

impl ResultWriter for Html {
    fn begin(&mut self, schema: &SchemaRef, out: &mut dyn Write) -> io::Result<()> {
        match self.style.headers {
            true => row("th", schema.fields().iter().map(|field| field.name().as_str()), out),
            false => Ok(()),
        }
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let null = self.style.null_text();
        for cells in cells(batch, &self.style.zone) {
            let cells = cells?;
            for at in 0..cells.rows() {
                row("td", (0..batch.num_columns()).map(|column| cells.get(at, column).unwrap_or(&null)), out)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
