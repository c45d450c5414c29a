//! A drawn table of the first and last rows of a result.
//!
//! At most `rows_max` rows are kept and shown: the first half, and the last half in a ring, so that a result of any length
//! streams through bounded memory. Of a batch only the rows that may be shown are formatted.

use std::collections::VecDeque;
use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_cast::display::ArrayFormatter;
use arrow_schema::SchemaRef;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table as Drawing};

use super::{ResultWriter, formatters};

/// Most characters of one value that are shown; more would drown the table.
const CELL_CHARACTERS_MAX: usize = 200;

/// See the module.
pub struct Table {
    head_max: usize,
    tail_max: usize,
    width: Option<u16>,
    schema: Option<SchemaRef>,
    head: Vec<Vec<String>>,
    tail: VecDeque<Vec<String>>,
    rows: usize,
}

impl Table {
    pub fn new(rows_max: usize, width: Option<u16>) -> Self {
        let tail_max = rows_max / 2;
        Self {
            head_max: rows_max - tail_max,
            tail_max,
            width,
            schema: None,
            head: Vec::new(),
            tail: VecDeque::new(),
            rows: 0,
        }
    }
}

/// Whether this is what `EXPLAIN` gives: text of many lines, which a table would only spoil.
fn is_plan(schema: &SchemaRef) -> bool {
    schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"])
}

fn shorten(mut value: String) -> String {
    if let Some((end, _)) = value.char_indices().nth(CELL_CHARACTERS_MAX) {
        value.truncate(end);
        value.push('…');
    }
    value
}

impl ResultWriter for Table {
    fn begin(&mut self, schema: &SchemaRef, _: &mut dyn Write) -> io::Result<()> {
        self.schema = Some(schema.clone());
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, _: &mut dyn Write) -> io::Result<()> {
        let columns = formatters(batch, "NULL")?;
        let count = batch.num_rows();
        let to_head = count.min(self.head_max - self.head.len());
        let whole = self.schema.as_ref().is_some_and(is_plan);
        let format = |row: usize| {
            let value = |column: &ArrayFormatter| column.value(row).to_string();
            columns.iter().map(|column| if whole { value(column) } else { shorten(value(column)) }).collect()
        };
        self.head.extend((0..to_head).map(format));
        for row in to_head.max(count.saturating_sub(self.tail_max))..count {
            if self.tail.len() == self.tail_max {
                self.tail.pop_front();
            }
            self.tail.push_back(format(row));
        }
        self.rows += count;
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(schema) = self.schema.take() else {
            return Ok(());
        };
        if is_plan(&schema) {
            return self.head.iter().chain(&self.tail).try_for_each(|row| writeln!(out, "{}", row[1].trim_end()));
        }
        let mut drawing = Drawing::new();
        drawing.load_style(UTF8_FULL_CONDENSED);
        match self.width {
            Some(width) => drawing.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
            None => drawing.set_content_arrangement(ContentArrangement::Disabled),
        };
        drawing.set_header(schema.fields().iter().map(|field| Cell::new(field.name())));
        let shown = self.head.len() + self.tail.len();
        for row in self.head.drain(..) {
            drawing.add_row(row);
        }
        if shown < self.rows {
            drawing.add_row(vec!["⋮"; schema.fields().len()]);
        }
        for row in self.tail.drain(..) {
            drawing.add_row(row);
        }
        for (index, field) in schema.fields().iter().enumerate() {
            if let Some(column) = drawing.column_mut(index).filter(|_| field.data_type().is_numeric()) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(out, "{drawing}")?;
        let noun = if self.rows == 1 { "row" } else { "rows" };
        if shown < self.rows {
            writeln!(out, "{} {noun} ({shown} shown)", self.rows)
        } else {
            writeln!(out, "{} {noun}", self.rows)
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array};

    use super::*;

    fn draw(rows_max: usize, batches: &[std::ops::Range<i32>]) -> String {
        let mut table = Table::new(rows_max, None);
        let mut out = Vec::new();
        for (index, range) in batches.iter().enumerate() {
            let column: ArrayRef = Arc::new(Int32Array::from_iter_values(range.clone()));
            let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
            if index == 0 {
                table.begin(&batch.schema(), &mut out).unwrap();
            }
            table.batch(&batch, &mut out).unwrap();
        }
        table.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn numbers(text: &str) -> Vec<i32> {
        text.lines().filter_map(|line| line.trim_matches(['│', ' ']).parse().ok()).collect()
    }

    #[test]
    fn shows_the_first_and_the_last_rows() {
        let text = draw(4, &[0..3, 3..5, 5..100, 100..101]);
        assert_eq!(numbers(&text), vec![0, 1, 99, 100]);
        assert!(text.contains('⋮') && text.ends_with("101 rows (4 shown)\n"), "{text}");
    }

    #[test]
    fn shows_all_of_a_short_result() {
        let text = draw(4, &[0..3, 3..4]);
        assert_eq!(numbers(&text), vec![0, 1, 2, 3]);
        assert!(!text.contains('⋮') && text.ends_with("4 rows\n"), "{text}");
        assert!(draw(4, std::slice::from_ref(&(0..0))).ends_with("0 rows\n"));
    }
}
