//! A table in Markdown, unaligned, since aligning would need all rows first.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::{ResultWriter, formatters};

pub struct Markdown;

fn cell(value: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, " {} |", value.replace('|', "\\|").replace('\n', "<br>"))
}

impl ResultWriter for Markdown {
    fn begin(&mut self, schema: &SchemaRef, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "|")?;
        for field in schema.fields() {
            cell(field.name(), out)?;
        }
        write!(out, "\n|")?;
        for field in schema.fields() {
            let numeric = field.data_type().is_numeric();
            write!(out, "{}|", if numeric { "---:" } else { "---" })?;
        }
        writeln!(out)
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let columns = formatters(batch, "NULL")?;
        for row in 0..batch.num_rows() {
            write!(out, "|")?;
            for column in &columns {
                cell(&column.value(row).to_string(), out)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
