//! Tables of all rows with aligned columns: `box`, `table` and `column`.
//!
//! How wide columns are is known once their values are. Rows wait until they take [`WAITING_BYTES_MAX`] or are all there; then widths are
//! settled, and a later value that is wider sticks out of its column. A table of any length takes so much memory and no more.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::cells;
use super::escapes::{one_line, width};
use super::{Mode, ResultWriter, Style};

/// Bytes of rows that wait for the widths of their columns.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// What tables are drawn with.
struct Lines {
    /// Left, between and right of the values of a row.
    row: [&'static str; 3],
    /// What stands for a character of a line.
    dash: &'static str,
    /// The line above the header, if there is one.
    top: Option<[&'static str; 3]>,
    /// The line below the header.
    middle: [&'static str; 3],
    /// The line at the end.
    bottom: Option<[&'static str; 3]>,
}

const BOX: Lines = Lines {
    row: ["│ ", " │ ", " │"],
    dash: "─",
    top: Some(["┌─", "─┬─", "─┐"]),
    middle: ["├─", "─┼─", "─┤"],
    bottom: Some(["└─", "─┴─", "─┘"]),
};

const TABLE: Lines = Lines {
    row: ["| ", " | ", " |"],
    dash: "-",
    top: Some(["+-", "-+-", "-+"]),
    middle: ["+-", "-+-", "-+"],
    bottom: Some(["+-", "-+-", "-+"]),
};

const COLUMN: Lines = Lines { row: ["", "  ", ""], dash: "-", top: None, middle: ["", "  ", ""], bottom: None };

/// See the module.
pub struct Aligned {
    style: Style,
    lines: &'static Lines,
    names: Vec<String>,
    right: Vec<bool>,
    /// The widths that were asked for, where some were.
    asked: Vec<Option<usize>>,
    waiting: Vec<Vec<Box<str>>>,
    waiting_bytes: usize,
    widths: Option<Vec<usize>>,
}

impl Aligned {
    pub fn new(style: Style) -> Self {
        let lines = match style.mode {
            Mode::Box => &BOX,
            Mode::Table => &TABLE,
            _ => &COLUMN,
        };
        Self {
            style,
            lines,
            names: Vec::new(),
            right: Vec::new(),
            asked: Vec::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            widths: None,
        }
    }

    fn line(&self, [left, between, right]: [&str; 3], widths: &[usize], out: &mut dyn Write) -> io::Result<()> {
        let dashes: Vec<String> = widths.iter().map(|width| self.lines.dash.repeat(*width)).collect();
        writeln!(out, "{left}{}{right}", dashes.join(between))
    }

    fn row(&self, cells: &[impl AsRef<str>], widths: &[usize], out: &mut dyn Write) -> io::Result<()> {
        let [left, between, right] = self.lines.row;
        let mut line = String::from(left);
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                line.push_str(between);
            }
            let cell = cell.as_ref();
            let room = " ".repeat(widths[at].saturating_sub(width(cell)));
            match self.right[at] {
                true => line.extend([room.as_str(), cell]),
                false => line.extend([cell, room.as_str()]),
            }
        }
        line.push_str(right);
        writeln!(out, "{}", line.trim_end())
    }

    /// Settles the widths, and writes the header and what waits.
    fn settle(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut widths: Vec<usize> =
            self.names.iter().map(|name| if self.style.headers { width(name) } else { 0 }).collect();
        for row in &self.waiting {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell));
            }
        }
        for (width, asked) in widths.iter_mut().zip(&self.asked) {
            *width = asked.unwrap_or(*width);
        }
        if let Some(top) = self.lines.top {
            self.line(top, &widths, out)?;
        }
        if self.style.headers {
            self.row(&self.names, &widths, out)?;
            self.line(self.lines.middle, &widths, out)?;
        }
        for row in std::mem::take(&mut self.waiting) {
            self.row(&row, &widths, out)?;
        }
        self.widths = Some(widths);
        Ok(())
    }
}

impl ResultWriter for Aligned {
    fn begin(&mut self, schema: &SchemaRef, _: &mut dyn Write) -> io::Result<()> {
        let asked = |at: usize| self.style.widths.get(at).copied().filter(|width| *width != 0);
        let count = schema.fields().len();
        self.asked = (0..count).map(|at| asked(at).map(|width| width.unsigned_abs() as usize)).collect();
        self.right = (0..count)
            .map(|at| asked(at).map_or(schema.field(at).data_type().is_numeric(), |width| width < 0))
            .collect();
        self.names = schema
            .fields()
            .iter()
            .zip(&self.asked)
            .map(|(field, asked)| one_line(field.name(), asked.unwrap_or(usize::MAX)))
            .collect();
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let null = self.style.null_text().into_owned();
        let zone = self.style.zone;
        for cells in cells(batch, &zone) {
            let cells = cells?;
            for row in 0..cells.rows() {
                let cell = |(at, asked): (usize, &Option<usize>)| {
                    let text = cells.get(row, at).unwrap_or(&null);
                    one_line(text, asked.unwrap_or(usize::MAX)).into_boxed_str()
                };
                let row: Vec<Box<str>> = self.asked.iter().enumerate().map(cell).collect();
                match &self.widths {
                    Some(widths) => self.row(&row, widths, out)?,
                    None => {
                        self.waiting_bytes += row.iter().map(|cell| cell.len() + size_of::<Box<str>>()).sum::<usize>();
                        self.waiting.push(row);
                        if self.waiting_bytes > WAITING_BYTES_MAX {
                            self.settle(out)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.widths.is_none() {
            self.settle(out)?;
        }
        match (self.lines.bottom, &self.widths) {
            (Some(bottom), Some(widths)) => self.line(bottom, widths, out),
            _ => Ok(()),
        }
    }
}
