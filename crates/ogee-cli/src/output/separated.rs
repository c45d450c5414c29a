//! Values with a separator between: `csv` after RFC 4180, where NULL is nothing and the empty text is `""`, and `list` and `tabs` without quotes.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::cells;
use super::{Mode, ResultWriter, Style};

/// See the module.
pub struct Separated {
    style: Style,
}

impl Separated {
    pub fn new(style: Style) -> Self {
        Self { style }
    }

    /// Appends `value`, in quotes if the mode has some and it needs them.
    fn push(&self, value: &str, line: &mut String) {
        match self.style.mode {
            Mode::Csv => quoted(value, self.style.separator_text(), line),
            _ => line.push_str(value),
        }
    }
}

/// Whether `value` could be taken for something else without quotes. Looks at all bytes, many at once, since most values have none that matter.
fn needs_quotes(value: &str, separator: &str) -> bool {
    let first = separator.bytes().next().unwrap_or(b'"');
    let is_special = |byte: u8| (byte == b'"') | (byte == b'\n') | (byte == b'\r') | (byte == first);
    value.is_empty()
        || value.bytes().fold(false, |found, byte| found | is_special(byte))
            && (value.contains(['"', '\n', '\r']) || value.contains(separator))
}

/// Appends `value`, in quotes if it needs them.
fn quoted(value: &str, separator: &str, line: &mut String) {
    if needs_quotes(value, separator) {
        line.push('"');
        for part in value.split_inclusive('"') {
            line.push_str(part);
            if part.ends_with('"') {
                line.push('"');
            }
        }
        line.push('"');
    } else {
        line.push_str(value);
    }
}

impl ResultWriter for Separated {
    fn begin(&mut self, schema: &SchemaRef, out: &mut dyn Write) -> io::Result<()> {
        if !self.style.headers {
            return Ok(());
        }
        let mut line = String::new();
        for (index, field) in schema.fields().iter().enumerate() {
            if index > 0 {
                line.push_str(self.style.separator_text());
            }
            self.push(field.name(), &mut line);
        }
        line.push_str(&self.style.row_separator);
        out.write_all(line.as_bytes())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let (null, separator) = (self.style.null_text(), self.style.separator_text());
        let mut line = String::new();
        for cells in cells(batch, &self.style.zone) {
            let cells = cells?;
            for row in 0..cells.rows() {
                line.clear();
                for index in 0..batch.num_columns() {
                    if index > 0 {
                        line.push_str(separator);
                    }
                    match cells.get(row, index) {
                        Some(value) => self.push(value, &mut line),
                        None => line.push_str(&null),
                    }
                }
                line.push_str(&self.style.row_separator);
                out.write_all(line.as_bytes())?;
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_only_where_needed() {
        let mut line = String::new();
        for value in ["plain", "a,b", "say \"hi\"", "", "two\nlines"] {
            quoted(value, ",", &mut line);
            line.push('|');
        }
        assert_eq!(line, "plain|\"a,b\"|\"say \"\"hi\"\"\"|\"\"|\"two\nlines\"|");
    }
}
