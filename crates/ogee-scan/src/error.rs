//! What can go wrong while files are read, and what to do about it.

use std::path::{Path, PathBuf};

use arrow_schema::DataType;
use ogee_exec::ExecError;
use ogee_memory::{MemoryError, format_bytes};

use crate::footer::OpenFile;

/// An error of a file or of reading it. Reaches the query as [`ExecError::Source`].
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The operating system refused.
    #[error("cannot {operation}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was attempted: a verb.
        operation: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is shorter than it was when it was listed, or than its own footer says.
    #[error("the file has {found} bytes where {expected} are needed; it is truncated or still being written")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes the file has.
        found: u64,
        /// Bytes it should have, at least.
        expected: u64,
    },
    /// The bytes are no Parquet, or their contents contradict the footer.
    #[error("cannot be read as Parquet: {message}; it may be truncated, damaged, or of another format")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        message: String,
    },
    /// Pages cannot be decoded, or contradict the footer.
    #[error("{} of row group {row_group} cannot be read: {message}; the file is damaged", column_of(column.as_deref()))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The column, where it is known.
        column: Option<String>,
        /// Number of the row group in the file, from 0 on.
        row_group: usize,
        /// What the decoder said.
        message: String,
    },
    /// A column of the file has a type that cannot become the table's.
    #[error("column '{column}' holds {from}, which cannot become {to}: {message}")]
    Cast {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Type in the file.
        from: DataType,
        /// Type in the table.
        to: DataType,
        /// What was wrong.
        message: String,
    },
    /// A single page does not fit, although no other reader is at work.
    #[error(
        "column '{column}' has a page that needs {}; its reader then needs {} at a limit of {}: {source}",
        format_bytes(*page), format_bytes(*needed), format_bytes(*limit)
    )]
    PageTooLarge {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Bytes of the page, compressed and not.
        page: usize,
        /// Bytes the reader would hold with it.
        needed: usize,
        /// The memory limit in bytes.
        limit: usize,
        /// Why no more was granted.
        source: Box<MemoryError>,
    },
    /// Not even one reader gets the memory it needs to start.
    #[error(
        "reading needs {} at a limit of {}, most of it ({}) for column '{column}': {source}",
        format_bytes(*needed), format_bytes(*limit), format_bytes(*column_bytes)
    )]
    ReaderTooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes the reader needs at least.
        needed: usize,
        /// The column that needs most.
        column: String,
        /// Bytes that column needs.
        column_bytes: usize,
        /// The memory limit in bytes.
        limit: usize,
        /// Why they were not granted.
        source: Box<MemoryError>,
    },
}

impl ScanError {
    /// The stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "OGEE_R001",
            Self::Truncated { .. } => "OGEE_R002",
            Self::Parquet { .. } => "OGEE_R003",
            Self::Cast { .. } => "OGEE_R004",
            Self::PageTooLarge { .. } => "OGEE_R005",
            Self::ReaderTooLarge { .. } => "OGEE_R006",
            Self::Damaged { .. } => "OGEE_R007",
        }
    }

    /// The file it is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::Truncated { path, .. }
            | Self::Parquet { path, .. }
            | Self::Cast { path, .. }
            | Self::Damaged { path, .. }
            | Self::PageTooLarge { path, .. }
            | Self::ReaderTooLarge { path, .. } => path,
        }
    }

    /// Of row group `row_group` of `file`, and leaf `column` of it if that is known.
    pub(crate) fn damaged(
        file: &OpenFile,
        row_group: usize,
        column: Option<usize>,
        error: &dyn std::fmt::Display,
    ) -> Self {
        let schema = file.metadata.file_metadata().schema_descr();
        // Of one that is read there is no doubt.
        let only = || match &file.columns.leaves[..] {
            [leaf] => Some(leaf.index),
            _ => None,
        };
        let column = column.or_else(only).map(|column| schema.column(column).path().string());
        Self::Damaged { path: file.path.clone(), column, row_group, message: error.to_string() }
    }

    pub(crate) fn parquet(path: &Path, error: &dyn std::fmt::Display) -> Self {
        Self::Parquet { path: path.to_owned(), message: error.to_string() }
    }
}

fn column_of(column: Option<&str>) -> String {
    column.map_or_else(|| "a column".to_owned(), |column| format!("column '{column}'"))
}

impl From<ScanError> for ExecError {
    fn from(error: ScanError) -> Self {
        Self::Source { code: error.code(), path: error.path().display().to_string(), message: error.to_string() }
    }
}
