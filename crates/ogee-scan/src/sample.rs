//! Few rows of a file, read by the calling thread: for those who plan a query and want to see some of its rows.
//!
//! One column of one row group at a time, so that several threads can share the work, decoded as the scan does it: pages without a row that
//! is wanted are skipped, and of the others only the rows wanted are looked at. Memory for reading is reserved as a scan's is; the
//! rows are small and the caller's.
//!
//! Not here: which rows are worth looking at.

use std::{path::PathBuf, sync::Arc};

use arrow_array::ArrayRef;
use arrow_schema::{FieldRef, Schema};
use arrow_select::concat::concat;
use ogee_exec::ExecError;
use ogee_memory::{BufferManager, Reservation};
use ogee_vector::normalize_schema;
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelector},
    file::metadata::ParquetMetaData,
};

use crate::{
    admission::Admission,
    batch::{BatchDecoder, BatchError},
    columns::BATCH_ROWS_MAX,
    error::ScanError,
    estimate::Estimate,
    filter::{LaneFilter, ScanFilter},
    footer::{self, OpenFile, Wanted},
    grant::Grant,
    library::caught,
    pages::{FileBytes, RowGroupPages},
    spec::{ParquetFile, ParquetScanSpec},
};

/// Bytes that are read ahead: most pages are passed over after a look at their header, and what comes behind those that are not is not wanted.
const READ_AHEAD: usize = 16 << 10;

/// A Parquet file of which a few rows are read.
pub struct RowReader {
    memory: Arc<BufferManager>,
    file: ParquetFile,
    bytes: FileBytes,
    metadata: ArrowReaderMetadata,
    /// Covers `metadata`, where it was loaded here.
    _footer: Option<Reservation>,
}

impl RowReader {
    /// Opens the file at `path`, which had `size` bytes when it was listed. Its metadata is loaded unless it is `known`, and reserved for then.
    ///
    /// # Errors
    /// When the file cannot be read, is shorter than it was, or contradicts itself; when there is no memory for its metadata.
    pub fn open(
        memory: Arc<BufferManager>,
        path: PathBuf,
        size: u64,
        known: Option<Arc<ParquetMetaData>>,
    ) -> Result<Self, ExecError> {
        let file = ParquetFile { path, size, rows: None, row_groups: None, partition_values: Vec::new() };
        let bytes = footer::open(&file)?;
        let damaged = |error| ScanError::parquet(&file.path, &error);
        let (metadata, reservation) = match known {
            Some(known) => {
                let metadata = caught(|| ArrowReaderMetadata::try_new(known, ArrowReaderOptions::new()));
                (metadata.map_err(damaged)?, None)
            }
            None => {
                let (metadata, reservation) =
                    footer::metadata(&memory, &file, &bytes, Wanted { statistics: true, page_index: false })?;
                (metadata, Some(reservation))
            }
        };
        for row_group in metadata.metadata().row_groups() {
            footer::check(&file, &bytes, row_group)?;
        }
        Ok(Self { memory, file, bytes, metadata, _footer: reservation })
    }

    /// What the footer says.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.metadata.metadata()
    }

    /// The rows of row group `row_group` that `selection` selects, of the column `field` of the table: found by name, NULL if the file has none, in
    /// the normalized form of its type.
    ///
    /// # Errors
    /// When pages cannot be read, or there is no memory for reading them.
    pub fn read(&self, field: &FieldRef, row_group: usize, selection: &[RowSelector]) -> Result<ArrayRef, ExecError> {
        let schema = normalize_schema(&Schema::new(vec![Arc::clone(field)]));
        let spec = ParquetScanSpec {
            files: Vec::new(),
            file_schema: Arc::clone(&schema),
            projection: vec![0],
            schema,
            domains: Vec::new(),
            pruner: None,
            limit: None,
        };
        let open = Arc::new(OpenFile {
            path: self.file.path.clone(),
            bytes: self.bytes.clone(),
            metadata: Arc::clone(self.metadata.metadata()),
            columns: footer::columns(&spec, &self.file, &self.metadata, &ScanFilter::default())?,
            _memory: None,
        });
        let mut left: usize =
            selection.iter().filter(|selector| !selector.skip).map(|selector| selector.row_count).sum();
        let mut filter = LaneFilter::new(&self.memory, Arc::default(), &[]);
        let mut parts: Vec<ArrayRef> = Vec::new();
        let mut columns = Vec::new();
        let mut next = |batches: &mut BatchDecoder, rows: usize| -> Result<(), BatchError> {
            caught(|| batches.next(&open, rows, &mut filter, &mut columns))?;
            let column = columns.pop().expect("one column is projected");
            parts.push(column.flatten().map_err(ExecError::from)?);
            Ok(())
        };
        if open.columns.is_empty() {
            while left > 0 {
                let rows = left.min(BATCH_ROWS_MAX);
                next(&mut BatchDecoder::counting(), rows)
                    .map_err(|error| Self::error(&open, row_group, error, None))?;
                left -= rows;
            }
        } else {
            let estimate = Estimate::new(&open, row_group, left.min(BATCH_ROWS_MAX));
            let (comfortable, least) = (estimate.comfortable.bytes, estimate.least.bytes);
            let permit = Admission::new(Arc::clone(&self.memory)).admit(comfortable, least)?;
            let permit = permit.expect("the only reader is not told to wait");
            let plan = if permit.bytes() < comfortable { &estimate.least } else { &estimate.comfortable };
            let grant = Arc::new(Grant::new(permit, plan.fixed, &open.columns.leaves));
            let pages =
                RowGroupPages::new(Arc::clone(&open), row_group, Arc::clone(&grant), plan.read_ahead.min(READ_AHEAD));
            let mut batches =
                caught(|| BatchDecoder::new(&open.columns, &pages, plan.batch_rows, Some(selection.to_vec().into())))
                    .map_err(|error| ScanError::damaged(&open, row_group, None, &error))?;
            while left > 0 {
                let rows = left.min(plan.batch_rows);
                next(&mut batches, rows).map_err(|error| Self::error(&open, row_group, error, Some(&grant)))?;
                grant.end_batch();
                left -= rows;
            }
        }
        match parts.as_slice() {
            [] => Ok(arrow_array::new_empty_array(spec.schema.field(0).data_type())),
            [part] => Ok(Arc::clone(part)),
            parts => Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?),
        }
    }

    fn error(file: &OpenFile, row_group: usize, error: BatchError, grant: Option<&Grant>) -> ExecError {
        match (error, grant.and_then(Grant::take_refused)) {
            (_, Some(refused)) => refused.source.into(),
            (BatchError::Other(error), None) => error,
            (BatchError::Pages { column, error }, None) => ScanError::damaged(file, row_group, column, &error).into(),
        }
    }
}
