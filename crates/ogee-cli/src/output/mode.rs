//! The forms in which results are written.
//!
//! Not here: the writers (a file for each).

use clap::ValueEnum;

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// A drawn table of the first and last rows, with types, cut to the terminal
    Duckbox,
    /// A drawn table of all rows
    Box,
    /// The same of ASCII characters
    Table,
    /// Aligned columns without lines
    Column,
    /// One value a line
    Line,
    /// Values with a separator between, as they are
    List,
    /// Values with a tab between
    Tabs,
    /// Comma-separated values
    Csv,
    /// One JSON array of objects
    Json,
    /// One JSON object a line
    #[value(alias = "ndjson")]
    Jsonlines,
    /// A Markdown table
    Markdown,
    /// An HTML table
    Html,
    /// INSERT statements
    Insert,
    /// SQL literals
    Quote,
    /// Nothing: the statement runs, and its rows are dropped
    Trash,
}

impl Mode {
    /// Its name on the command line and in `.mode`.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// All names, as they are listed.
    pub fn names() -> Vec<String> {
        Self::value_variants().iter().map(|mode| mode.name()).collect()
    }

    /// The mode of this name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        <Self as ValueEnum>::from_str(name, true).ok()
    }
}
