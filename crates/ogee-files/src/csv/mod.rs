//! CSV files: what they look like is found out (`sniff`), and they are read as that and nothing else.
//!
//! DataFusion's reader takes the columns of all files in the order of the first, NULL for what comes late in a column
//! that was empty so far, numbers for postal codes, and each line that is not cut by a comma for one column
//! (<https://github.com/apache/datafusion/issues/4918>).
//!
//! ```text
//! bytes ──ends──> pieces ──fields──> places of fields ──columns, values──> arrays
//!   └── the first 8 MiB: records, sniff ──> names, kinds ──> the table's columns
//! ```
//!
//! 1. A value is read as what the table says, or the statement fails and says where the value is: file, line and
//!    column.
//! 2. Columns of several files are matched by name.
//! 3. A file with a header is a table of as many columns in every record; there is no NULL for what is not there.
//!
//! Not here: writing (DataFusion's), which files a table has (`tables`).

mod columns;
pub(crate) mod compression;
mod encoding;
mod ends;
mod fields;
mod format;
mod reader;
mod records;
mod sniff;
mod sniffed;
mod source;
pub(crate) mod values;
mod writer;

pub use format::CsvFormats;
pub(crate) use format::Reading as Csv;
pub(crate) use format::{BETWEEN_NULLS, OWN_OPTION, candidate, own_name};
pub(crate) use records::DELIMITER_MAX;
pub(crate) use sniffed::Sniffed;
