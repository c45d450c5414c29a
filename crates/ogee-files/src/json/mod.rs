//! JSON files: objects on lines, one after the other or in an array.
//!
//! DataFusion's reader drops keys that come first behind its sample, makes floats of integers that are long, takes the
//! last of two values of one key, and has columns in the order of the alphabet.
//!
//! ```text
//! bytes ──ends──> pieces ──scan──> texts of values ──parse, build──> arrays
//!   └── the first 8 MiB: parse, shape ──> the table's columns
//! ```
//!
//! 1. A value is read as what the table says, or the statement fails and says where the value is.
//! 2. A key that is no column is an error, not nothing.
//!
//! Not here: writing (DataFusion's), which files a table has (`tables`).

mod build;
mod ends;
mod format;
mod parse;
mod reader;
mod scan;
mod shape;
mod source;
mod writer;

pub use format::JsonFormats;
pub(crate) use format::Reading as Json;
