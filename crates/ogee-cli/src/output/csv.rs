//! Comma-separated values after RFC 4180, with a header. NULL is nothing, the empty string is `""`.

use std::fmt::Write as _;
use std::io::{self, Write};

use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;

use super::{ResultWriter, formatters};

pub struct Csv;

/// Appends `value`, in quotes if it needs them.
fn quoted(value: &str, line: &mut String) {
    if value.is_empty() || value.contains([',', '"', '\n', '\r']) {
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

impl ResultWriter for Csv {
    fn begin(&mut self, schema: &SchemaRef, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        for (index, field) in schema.fields().iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            quoted(field.name(), &mut line);
        }
        line.push('\n');
        out.write_all(line.as_bytes())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        // A field that is NULL is empty; in lists and structs, NULL is written.
        let columns = formatters(batch, "NULL")?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let (mut line, mut value) = (String::new(), String::new());
        for row in 0..batch.num_rows() {
            line.clear();
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                if nulls[index].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    continue;
                }
                value.clear();
                write!(value, "{}", column.value(row)).map_err(io::Error::other)?;
                quoted(&value, &mut line);
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
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
            quoted(value, &mut line);
            line.push('|');
        }
        assert_eq!(line, "plain|\"a,b\"|\"say \"\"hi\"\"\"|\"\"|\"two\nlines\"|");
    }
}
