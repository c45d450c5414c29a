//! What the shell's settings say about results.

use std::borrow::Cow;

use ogee_functions::times::Zone;

use super::Mode;

/// Rows that a duckbox shows unless `.maxrows` says otherwise.
const ROWS_MAX: usize = 40;

/// How results are written, and how much of them.
#[derive(Clone, Debug)]
pub struct Style {
    pub mode: Mode,
    /// Whether the names of columns are written.
    pub headers: bool,
    /// What is written for NULL, if not what the mode has for it.
    pub null: Option<String>,
    /// Between two values of `csv`, `list` and `tabs`, if not what the mode has there.
    pub separator: Option<String>,
    /// Behind each row of `csv`, `list` and `tabs`.
    pub row_separator: String,
    /// Widths of the columns of `column`, `box` and `table`; 0 is as wide as the values, and a negative one aligns to the right.
    pub widths: Vec<i32>,
    /// The table of `insert`.
    pub table: String,
    /// Most rows that a duckbox shows.
    pub rows_max: usize,
    /// Most characters that a line of a duckbox has; without, it is as wide as its values.
    pub width: Option<usize>,
    /// Where instants are shown.
    pub zone: Zone,
}

impl Style {
    pub fn of(mode: Mode) -> Self {
        Self {
            mode,
            headers: true,
            null: None,
            separator: None,
            row_separator: "\n".to_owned(),
            widths: Vec::new(),
            table: "table".to_owned(),
            rows_max: ROWS_MAX,
            width: None,
            zone: Zone::UTC,
        }
    }

    /// What is written for NULL: nothing in `csv`, where the empty text has quotes, and `NULL` elsewhere.
    pub fn null_text(&self) -> Cow<'_, str> {
        match (&self.null, self.mode) {
            (Some(text), _) => Cow::Borrowed(text),
            (None, Mode::Csv) => Cow::Borrowed(""),
            (None, _) => Cow::Borrowed("NULL"),
        }
    }

    /// What stands between two values.
    pub fn separator_text(&self) -> &str {
        match (&self.separator, self.mode) {
            (Some(text), _) => text,
            (None, Mode::Tabs) => "\t",
            (None, Mode::List) => "|",
            (None, _) => ",",
        }
    }
}
