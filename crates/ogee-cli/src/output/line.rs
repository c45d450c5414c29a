//! One value a line, `name = value`, with a blank line between rows.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::cells;
use super::escapes::width;
use super::{ResultWriter, Style};

pub struct Line {
    style: Style,
    names: Vec<String>,
    started: bool,
}

impl Line {
    pub fn new(style: Style) -> Self {
        Self { style, names: Vec::new(), started: false }
    }
}

impl ResultWriter for Line {
    fn begin(&mut self, schema: &SchemaRef, _: &mut dyn Write) -> io::Result<()> {
        let widest = schema.fields().iter().map(|field| width(field.name())).max().unwrap_or(0);
        let name = |name: &String| format!("{}{name}", " ".repeat(widest - width(name)));
        self.names = schema.fields().iter().map(|field| name(field.name())).collect();
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let null = self.style.null_text();
        for cells in cells(batch, &self.style.zone) {
            let cells = cells?;
            for row in 0..cells.rows() {
                if std::mem::replace(&mut self.started, true) {
                    writeln!(out)?;
                }
                for (index, name) in self.names.iter().enumerate() {
                    writeln!(out, "{name} = {}", cells.get(row, index).unwrap_or(&null))?;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
