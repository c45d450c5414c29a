//! What to scan.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use ogee_exec::ExecError;
use ogee_vector::Domain;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};

/// A Parquet file, or the part of it that is to be read.
#[derive(Clone, Debug)]
pub struct ParquetFile {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes it had when it was listed; a shorter file is refused as truncated.
    pub size: u64,
    /// Rows that it has, if that was learnt when it was listed.
    pub rows: Option<u64>,
    /// Only row groups that begin at a byte in this range are read; `None` reads all.
    pub row_groups: Option<Range<u64>>,
    /// Values of the partition columns, one row each, in the order in which they follow the columns in files.
    pub partition_values: Vec<ArrayRef>,
}

/// What to read of a row group.
#[derive(Clone, Debug)]
pub enum RowGroupAccess {
    /// Nothing: no row can match.
    Skip,
    /// Every row.
    Scan,
    /// These rows, of all rows of the row group.
    Selection(RowSelection),
}

/// Knows which row groups and rows of a file can match.
pub trait RowPruner: Send + Sync {
    /// What to read of each row group of the file, one entry each. Called once per file, with its footer.
    ///
    /// # Errors
    /// As the evaluation of its predicates fails.
    fn prune(&self, path: &Path, metadata: &ArrowReaderMetadata) -> Result<Vec<RowGroupAccess>, ExecError>;

    /// Whether the column and offset indexes are to be loaded with the footer.
    fn needs_page_index(&self) -> bool;
}

/// A scan of Parquet files as one table.
#[derive(Clone)]
pub struct ParquetScanSpec {
    /// The files, read in about this order.
    pub files: Vec<ParquetFile>,
    /// Columns of the table that are in the files, found there by name, in the (normalized) types wanted. A file
    /// without one of them has NULL there.
    pub file_schema: SchemaRef,
    /// Columns to produce: positions in `file_schema` followed by the partition columns.
    pub projection: Vec<usize>,
    /// The produced columns.
    pub schema: SchemaRef,
    /// What is known of their values; columns that are missing at the end are unknown. A hint only.
    pub domains: Vec<Domain>,
    /// Excludes row groups and rows.
    pub pruner: Option<Arc<dyn RowPruner>>,
    /// At most this many rows are produced, any of them.
    pub limit: Option<u64>,
}
