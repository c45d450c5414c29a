//! A drawn table of the first and last rows of a result, with the types of its columns, as wide as the terminal.
//!
//! Rows of any number stream through bounded memory: the first half of the rows that are shown is kept, and the last half in a ring,
//! each up to [`KEPT_BYTES_MAX`]. Of columns only those are formatted that a line may have room for, and of values only what it may.
//!
//! Not here: which columns are shown (`fit`).

use std::collections::VecDeque;
use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::{Cells, cells_of};
use super::escapes::{CUT, one_line, width};
use super::fit::{Fit, fit};
use super::types::shown_type;
use super::{ResultWriter, Style};

/// Rows of dots, which take the room of as many rows that are not shown: so many more are shown instead.
const DOTS: usize = 3;

/// Most characters of one value where the table may be as wide as it likes; more would drown it.
const CELL_WIDTH_MAX: usize = 200;

/// Bytes that the first rows may take, and the last ones.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// The least that a column takes of a line: the name of a type has four letters, and there are three characters around it.
const COLUMN_WIDTH_MIN: usize = 7;

type Row = Vec<Box<str>>;

fn bytes(row: &Row) -> usize {
    row.iter().map(|cell| cell.len() + size_of::<Box<str>>()).sum()
}

/// See the module.
pub struct Duckbox {
    style: Style,
    head_max: usize,
    tail_max: usize,
    schema: Option<SchemaRef>,
    /// The columns that may be shown, first ones and last ones.
    candidates: Vec<usize>,
    cell_max: usize,
    head: Vec<Row>,
    head_bytes: usize,
    tail: VecDeque<Row>,
    tail_bytes: usize,
    rows: usize,
}

impl Duckbox {
    pub fn new(style: Style) -> Self {
        let tail_max = style.rows_max / 2;
        Self {
            head_max: style.rows_max - tail_max,
            // As many more as the dots would take the place of.
            tail_max: tail_max.saturating_add(DOTS),
            style,
            schema: None,
            candidates: Vec::new(),
            cell_max: CELL_WIDTH_MAX,
            head: Vec::new(),
            head_bytes: 0,
            tail: VecDeque::new(),
            tail_bytes: 0,
            rows: 0,
        }
    }

    fn row(&self, cells: &Cells, row: usize) -> Row {
        let null = self.style.null_text();
        let cell = |column| one_line(cells.get(row, column).unwrap_or(&null), self.cell_max).into_boxed_str();
        (0..self.candidates.len()).map(cell).collect()
    }

    fn push_tail(&mut self, row: Row) {
        self.tail_bytes += bytes(&row);
        self.tail.push_back(row);
        while self.tail.len() > self.tail_max || self.tail_bytes > KEPT_BYTES_MAX && self.tail.len() > 1 {
            if let Some(first) = self.tail.pop_front() {
                self.tail_bytes -= bytes(&first);
            }
        }
    }
}

/// Whether this is what `EXPLAIN` gives: text of many lines, which a table would only spoil.
fn is_plan(schema: &SchemaRef) -> bool {
    schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"])
}

impl ResultWriter for Duckbox {
    fn begin(&mut self, schema: &SchemaRef, _: &mut dyn Write) -> io::Result<()> {
        let count = schema.fields().len();
        let side = self.style.width.map_or(count, |width| width / COLUMN_WIDTH_MIN + 1);
        self.candidates = match count <= 2 * side {
            true => (0..count).collect(),
            false => (0..side).chain(count - side..count).collect(),
        };
        self.cell_max = self.style.width.unwrap_or(CELL_WIDTH_MAX);
        if is_plan(schema) {
            self.cell_max = usize::MAX;
        }
        self.schema = Some(schema.clone());
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let zone = self.style.zone;
        if self.schema.as_ref().is_some_and(is_plan) {
            for cells in super::cells::cells(batch, &zone) {
                let cells = cells?;
                for row in 0..cells.rows() {
                    writeln!(out, "{}", cells.get(row, 1).unwrap_or_default().trim_end())?;
                }
            }
            return Ok(());
        }
        let count = batch.num_rows();
        self.rows += count;
        let candidates = self.candidates.clone();
        let mut taken = 0;
        'head: for cells in cells_of(batch, &candidates, 0..count.min(self.head_max - self.head.len()), &zone) {
            let cells = cells?;
            for row in 0..cells.rows() {
                if self.head_bytes > KEPT_BYTES_MAX {
                    self.head_max = self.head.len();
                    break 'head;
                }
                let row = self.row(&cells, row);
                self.head_bytes += bytes(&row);
                self.head.push(row);
                taken += 1;
            }
        }
        let first = taken.max(count.saturating_sub(self.tail_max));
        for cells in cells_of(batch, &candidates, first..count, &zone) {
            let cells = cells?;
            for row in 0..cells.rows() {
                let row = self.row(&cells, row);
                self.push_tail(row);
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(schema) = self.schema.take().filter(|schema| !is_plan(schema)) else {
            return Ok(());
        };
        if self.head.len() + self.tail.len() < self.rows {
            // There are dots, and so fewer rows at the end.
            while self.tail.len() > (self.tail_max - DOTS).max(usize::from(self.head_max == 0)) {
                self.tail.pop_front();
            }
        }
        let count = schema.fields().len();
        let names: Vec<String> =
            self.candidates.iter().map(|at| one_line(schema.field(*at).name(), self.cell_max)).collect();
        let types: Vec<String> = self.candidates.iter().map(|at| shown_type(schema.field(*at))).collect();
        let mut natural: Vec<usize> = names.iter().zip(&types).map(|(name, of)| width(name).max(width(of))).collect();
        for row in self.head.iter().chain(&self.tail) {
            for (widest, cell) in natural.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell));
            }
        }
        let fitted = fit(&natural, self.candidates.len() < count, self.style.width);
        let shown: Vec<usize> =
            (0..fitted.front).chain(self.candidates.len() - fitted.back..self.candidates.len()).collect();
        let numeric: Vec<bool> =
            shown.iter().map(|at| schema.field(self.candidates[*at]).data_type().is_numeric()).collect();
        let drawing = Drawing { fit: &fitted, shown: &shown, numeric: &numeric };
        drawing.border(["┌", "┬", "┐"], out)?;
        if self.style.headers {
            drawing.centered(&names, out)?;
            drawing.centered(&types, out)?;
        }
        if self.style.headers && self.rows > 0 {
            drawing.border(["├", "┼", "┤"], out)?;
        }
        self.head.iter().try_for_each(|row| drawing.row(row, out))?;
        let rows_shown = self.head.len() + self.tail.len();
        if rows_shown < self.rows {
            drawing.dots(self.head.last(), self.tail.front(), out)?;
        }
        self.tail.iter().try_for_each(|row| drawing.row(row, out))?;
        drawing.border(["└", "┴", "┘"], out)?;
        footer((self.rows, rows_shown), (count, shown.len()), drawing.width(), out)
    }
}

/// The columns that are drawn.
struct Drawing<'a> {
    fit: &'a Fit,
    /// Their places among the candidates.
    shown: &'a [usize],
    /// Which of them hold numbers, and are aligned to the right.
    numeric: &'a [bool],
}

impl Drawing<'_> {
    fn width(&self) -> usize {
        1 + self.fit.widths.iter().map(|width| width + 3).sum::<usize>() + if self.fit.elided { 4 } else { 0 }
    }

    /// Writes the parts of a line, with the column of dots between.
    fn line(
        &self,
        [left, between, right]: [&str; 3],
        elided: &str,
        part: impl Fn(usize) -> String,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut line = String::from(left);
        for at in 0..self.shown.len() {
            if at > 0 {
                line.push_str(between);
            }
            line.push_str(&part(at));
            if self.fit.elided && at + 1 == self.fit.front {
                line.push_str(between);
                line.push_str(elided);
            }
        }
        writeln!(out, "{line}{right}")
    }

    fn border(&self, corners: [&str; 3], out: &mut dyn Write) -> io::Result<()> {
        self.line(corners, "───", |at| "─".repeat(self.fit.widths[at] + 2), out)
    }

    fn centered(&self, texts: &[String], out: &mut dyn Write) -> io::Result<()> {
        let part = |at: usize| {
            let text = one_line(&texts[self.shown[at]], self.fit.widths[at]);
            let room = self.fit.widths[at] - width(&text);
            format!(" {}{text}{} ", " ".repeat(room / 2), " ".repeat(room - room / 2))
        };
        self.line(["│", "│", "│"], &format!(" {CUT} "), part, out)
    }

    fn row(&self, row: &Row, out: &mut dyn Write) -> io::Result<()> {
        let part = |at: usize| {
            let text = one_line(&row[self.shown[at]], self.fit.widths[at]);
            let room = " ".repeat(self.fit.widths[at] - width(&text));
            if self.numeric[at] { format!(" {room}{text} ") } else { format!(" {text}{room} ") }
        };
        self.line(["│", "│", "│"], &format!(" {CUT} "), part, out)
    }

    /// In the middle of the shorter one of the rows before and behind.
    fn dots(&self, before: Option<&Row>, behind: Option<&Row>, out: &mut dyn Write) -> io::Result<()> {
        let part = |at: usize| {
            let length = |row: Option<&Row>| row.map_or(usize::MAX, |row| width(&row[self.shown[at]]));
            let room = self.fit.widths[at] - 1;
            let near = (length(before).min(length(behind)) / 2).min(room / 2);
            let (near, far) = (" ".repeat(near), " ".repeat(room - near));
            if self.numeric[at] { format!(" {far}·{near} ") } else { format!(" {near}·{far} ") }
        };
        (0..DOTS).try_for_each(|_| self.line(["│", "│", "│"], " · ", part, out))
    }
}

/// How many rows and columns there are, where that is not to be seen.
fn footer(rows: (usize, usize), columns: (usize, usize), width: usize, out: &mut dyn Write) -> io::Result<()> {
    let counted = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let shown = |(all, shown): (usize, usize)| if shown < all { format!("({shown} shown)") } else { String::new() };
    if rows == (0, 0) && columns.0 == columns.1 {
        return writeln!(out, "  0 rows");
    }
    let (rows_shown, columns_shown) = (shown(rows), shown(columns));
    if rows_shown.is_empty() && columns_shown.is_empty() {
        return Ok(());
    }
    let (rows, columns) = (counted(rows.0, "row"), counted(columns.0, "column"));
    let with = |all: &str, shown: &str| format!("{all} {shown}").trim_end().to_owned();
    let (left, right) = (with(&rows, &rows_shown), with(&columns, &columns_shown));
    // Two columns at both sides stay free, and two between.
    let room = width.saturating_sub(4);
    if left.len() + right.len() + 2 <= room {
        return writeln!(out, "  {left}{right:>rest$}", rest = room - left.len());
    }
    if rows.len() + columns.len() + 2 <= room {
        writeln!(out, "  {rows}{columns:>rest$}", rest = room - rows.len())?;
        return match (rows_shown.is_empty(), columns_shown.is_empty()) {
            (false, true) => writeln!(out, "  {rows_shown}"),
            (true, false) => writeln!(out, "  {columns_shown:>room$}"),
            _ => writeln!(out, "  {rows_shown}{columns_shown:>rest$}", rest = room.saturating_sub(rows_shown.len())),
        };
    }
    writeln!(out, "  {left}\n  {right}")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, StringArray};

    use super::*;
    use crate::output::Mode;

    fn style(rows_max: usize, width: Option<usize>) -> Style {
        Style { rows_max, width, ..Style::of(Mode::Duckbox) }
    }

    fn draw_batches(style: Style, batches: &[RecordBatch]) -> String {
        let mut duckbox = Duckbox::new(style);
        let mut out = Vec::new();
        duckbox.begin(&batches[0].schema(), &mut out).unwrap();
        for batch in batches {
            duckbox.batch(batch, &mut out).unwrap();
        }
        duckbox.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn draw(rows_max: usize, ranges: &[std::ops::Range<i32>]) -> String {
        let batch = |range: &std::ops::Range<i32>| {
            let column: ArrayRef = Arc::new(Int32Array::from_iter_values(range.clone()));
            RecordBatch::try_from_iter([("n", column)]).unwrap()
        };
        draw_batches(style(rows_max, None), &ranges.iter().map(batch).collect::<Vec<_>>())
    }

    fn numbers(text: &str) -> Vec<i32> {
        text.lines().filter_map(|line| line.trim_matches(['│', ' ']).parse().ok()).collect()
    }

    #[test]
    fn shows_the_first_and_the_last_rows() {
        let text = draw(4, &[0..3, 3..5, 5..100, 100..101]);
        let expected = "\
┌───────┐
│   n   │
│ int32 │
├───────┤
│     0 │
│     1 │
│     · │
│     · │
│     · │
│    99 │
│   100 │
└───────┘
  101 rows (4 shown)
  1 column
";
        assert_eq!(text, expected);
    }

    #[test]
    fn shows_all_of_a_result_that_the_dots_would_make_no_shorter() {
        assert_eq!(numbers(&draw(4, &[0..3, 3..7])), (0..7).collect::<Vec<_>>());
        assert!(!draw(4, &[0..3, 3..7]).contains('·'));
        assert_eq!(numbers(&draw(4, &[0..3, 3..8])), vec![0, 1, 6, 7]);
        assert!(draw(4, std::slice::from_ref(&(0..0))).ends_with("└───────┘\n  0 rows\n"));
        assert_eq!(numbers(&draw(1, &[0..3, 3..80])), vec![0]);
    }

    #[test]
    fn a_thousand_columns_are_elided() {
        let column = |at: usize| (format!("c{at}"), Arc::new(Int32Array::from(vec![1])) as ArrayRef);
        let batch = RecordBatch::try_from_iter((0..1000).map(column)).unwrap();
        let expected = "\
┌───────┬───────┬───┬───────┬───────┐
│  c0   │  c1   │ … │ c998  │ c999  │
│ int32 │ int32 │ … │ int32 │ int32 │
├───────┼───────┼───┼───────┼───────┤
│     1 │     1 │ … │     1 │     1 │
└───────┴───────┴───┴───────┴───────┘
  1 row      1000 columns (4 shown)
";
        assert_eq!(draw_batches(style(40, Some(40)), &[batch]), expected);
    }

    #[test]
    fn long_values_are_cut_to_the_width() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
        let batch = RecordBatch::try_from_iter([("t", text)]).unwrap();
        let drawn = draw_batches(style(40, Some(30)), &[batch]);
        assert!(drawn.lines().all(|line| width(line) == 30), "{drawn}");
        assert!(drawn.contains("│ xxxxxxxxxxxxxxxxxxxxxxxxx… │"), "{drawn}");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20); 30]));
        let batch = RecordBatch::try_from_iter([("t", text)]).unwrap();
        let mut duckbox = Duckbox::new(Style { width: Some(2 << 20), ..style(1_000_000, None) });
        let mut out = Vec::new();
        duckbox.begin(&batch.schema(), &mut out).unwrap();
        duckbox.batch(&batch, &mut out).unwrap();
        assert!(duckbox.head_bytes + duckbox.tail_bytes < 3 * KEPT_BYTES_MAX);
        assert_eq!(duckbox.rows, 30);
    }
}
