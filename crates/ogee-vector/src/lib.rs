//! Vectors, chunks and hashing: the form in which data flows between operators.
//!
//! A [`Chunk`] holds at most [`CHUNK_CAPACITY`] rows. Its columns are Arrow arrays, each of which belongs to a *group*; a
//! group may have an extended [selection vector](Selection) that says which positions of the group's arrays make up the
//! rows of the chunk. Selections are dense, need not be sorted and may repeat, so that a filter or a join probe changes
//! selections instead of copying columns ("Data chunk compaction in vectorized execution", SIGMOD 2025, section 3).
//!
//! 1. Every selection of a chunk has exactly `chunk.len()` entries.
//! 2. A group without a selection has arrays of exactly `chunk.len()` rows.
//! 3. Strings and binary values are views (`Utf8View`, `BinaryView`); see [`normalize_type`].
//!
//! Not here: operators, memory accounting, row layout.
#![expect(unsafe_code, reason = "typed kernels read Arrow buffers without a bounds check per row")]

mod chunk;
mod dispatch;
mod domain;
mod floats;
mod hash;
mod integers;
mod marks;
mod physical;
mod selection;

pub use chunk::{Chunk, Column, ColumnRef};
pub use dispatch::{Kernel, Level, dispatch, dispatch_at};
pub use domain::{Domain, integer_range};
pub use floats::{canonical_floats, has_floats, is_less, is_nan, is_same};
pub use hash::{HashSeed, hash_bytes, hash_column, integer_values};
pub use integers::{BitsUsed, Distances, Integer, Offset, Widened};
pub use marks::{BLOCK, Marks, marks};
pub use physical::{PhysicalType, normalize_array, normalize_schema, normalize_type, row_width};
pub use selection::{Selection, gather_array, keep_rows};

/// Rows of a chunk, at most (SIGMOD 2025, section 2).
pub const CHUNK_CAPACITY: usize = 2048;

/// Failure to bring a value into the form that vectors have.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// A type that has no vector form.
    #[error("values of type {0} are not supported; cast them to a type that is")]
    UnsupportedType(arrow_schema::DataType),
    /// Rows that operators keep would not fit on a page: too many columns, or states that are too large.
    #[error(
        "rows of {width} bytes do not fit on a page, which has room for {most}; select, group or join by fewer columns"
    )]
    RowTooWide {
        /// Bytes of a row, without its strings.
        width: usize,
        /// Bytes of a row, at most.
        most: usize,
    },
    /// Arrow refused an operation on the data.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
}

impl VectorError {
    /// Stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnsupportedType(_) => "OGEE_V001",
            Self::Arrow(_) => "OGEE_V002",
            Self::RowTooWide { .. } => "OGEE_V003",
        }
    }
}
