//! One value a line, `name = value`, with a blank line between rows.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::{ResultWriter, formatters};

#[derive(Default)]
pub struct Line {
    names: Vec<String>,
    started: bool,
}

impl ResultWriter for Line {
    fn begin(&mut self, schema: &SchemaRef, _: &mut dyn Write) -> io::Result<()> {
        let width = schema.fields().iter().map(|field| field.name().chars().count()).max().unwrap_or(0);
        self.names = schema.fields().iter().map(|field| format!("{:>width$}", field.name())).collect();
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let columns = formatters(batch, "NULL")?;
        for row in 0..batch.num_rows() {
            if std::mem::replace(&mut self.started, true) {
                writeln!(out)?;
            }
            for (name, column) in self.names.iter().zip(&columns) {
                writeln!(out, "{name} = {}", column.value(row))?;
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
