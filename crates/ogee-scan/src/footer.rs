//! Files: opened and their footers loaded once, when a lane comes to them.
//!
//! An [`OpenFile`] is shared by the row groups that wait or are being read, and goes with the last of them. At most one file
//! per lane is open beyond those, however many there are.
//!
//! Not here: which file comes next (`work`).

use std::{path::PathBuf, sync::Arc};

use ogee_exec::ExecError;
use ogee_memory::{BufferManager, Reservation};
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    errors::ParquetError,
    file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetStatisticsPolicy, RowGroupMetaData},
};

use crate::{
    columns::FileColumns,
    error::ScanError,
    filter::ScanFilter,
    library::caught,
    pages::FileBytes,
    restrict::RestrictedColumn,
    spec::{ParquetFile, ParquetScanSpec, RowGroupAccess},
    work::{RowGroupWork, Work},
};

/// Bytes of decoded metadata for each byte of it in the file, at most: a column chunk takes 60 bytes there, without
/// statistics, and about 500 in memory. While it is decoded both are held.
const DECODED_PER_BYTE: usize = 10;

/// The end of a file: length of the metadata, 4 bytes, and the magic number.
const TAIL: usize = 8;

/// A file whose metadata is at hand.
pub(crate) struct OpenFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: FileBytes,
    pub(crate) metadata: Arc<ParquetMetaData>,
    pub(crate) columns: FileColumns,
    /// Covers `metadata`, unless somebody else does.
    pub(crate) _memory: Option<Reservation>,
}

/// Opens `file` and finds what is to be read of it.
pub(crate) fn load(
    memory: &Arc<BufferManager>,
    spec: &ParquetScanSpec,
    file: &ParquetFile,
    restricted: &[RestrictedColumn],
    filter: &ScanFilter,
) -> Result<Vec<Work>, ExecError> {
    let bytes = open(file)?;
    let (metadata, reservation) = self::metadata(memory, file, &bytes, options(spec, !restricted.is_empty()))?;
    let row_groups = metadata.metadata().row_groups();
    for row_group in row_groups {
        check(file, &bytes, row_group)?;
    }
    let mut accesses = match &spec.pruner {
        Some(pruner) => pruner.prune(&file.path, &metadata)?,
        None => vec![RowGroupAccess::Scan; row_groups.len()],
    };
    assert_eq!(accesses.len(), row_groups.len(), "a pruner decides about every row group");
    if let Some(range) = &file.row_groups {
        for (access, row_group) in accesses.iter_mut().zip(row_groups) {
            if row_group.columns().first().is_some_and(|column| !range.contains(&column.byte_range().0)) {
                *access = RowGroupAccess::Skip;
            }
        }
    }
    for admits in restricted.iter().filter_map(|column| column.admits(&metadata)) {
        for (access, _) in accesses.iter_mut().zip(admits).filter(|(_, admits)| !admits) {
            *access = RowGroupAccess::Skip;
        }
    }
    let open = Arc::new(OpenFile {
        path: file.path.clone(),
        bytes,
        metadata: Arc::clone(metadata.metadata()),
        columns: columns(spec, file, &metadata, filter)?,
        _memory: Some(reservation),
    });
    let work = accesses.into_iter().enumerate().filter_map(|(row_group, access)| {
        let (rows, selection) = match access {
            RowGroupAccess::Skip => (0, None),
            RowGroupAccess::Scan => (rows_of(row_groups.get(row_group)?), None),
            RowGroupAccess::Selection(selection) => (selection.row_count(), Some(selection.iter().copied().collect())),
        };
        let of = RowGroupWork { file: Arc::clone(&open), row_group, selection };
        (rows > 0).then_some(Work { of, rows: 0..rows, needed: 0 })
    });
    Ok(work.collect())
}

/// What is read of `file`, and how.
pub(crate) fn columns(
    spec: &ParquetScanSpec,
    file: &ParquetFile,
    metadata: &ArrowReaderMetadata,
    filter: &ScanFilter,
) -> Result<FileColumns, ExecError> {
    caught(|| Ok::<_, ParquetError>(FileColumns::new(spec, file, metadata, filter)))
        .map_err(|error| ScanError::parquet(&file.path, &error))?
}

/// Opens `file`, and sees whether it is all there.
pub(crate) fn open(file: &ParquetFile) -> Result<FileBytes, ScanError> {
    let bytes = FileBytes::open(&file.path)?;
    if bytes.len() < file.size {
        return Err(ScanError::Truncated { path: file.path.clone(), found: bytes.len(), expected: file.size });
    }
    Ok(bytes)
}

/// The metadata of `file`, and the memory that it takes.
pub(crate) fn metadata(
    memory: &Arc<BufferManager>,
    file: &ParquetFile,
    bytes: &FileBytes,
    options: ArrowReaderOptions,
) -> Result<(ArrowReaderMetadata, Reservation), ExecError> {
    let mut reservation = memory.reserve("parquet footer", DECODED_PER_BYTE * metadata_len(bytes))?;
    let metadata =
        caught(|| ArrowReaderMetadata::load(bytes, options)).map_err(|error| ScanError::parquet(&file.path, &error))?;
    reservation.resize(metadata.metadata().memory_size())?;
    Ok((metadata, reservation))
}

/// Bytes of the metadata, as far as the file looks like Parquet; the library finds out what is wrong otherwise.
fn metadata_len(bytes: &FileBytes) -> usize {
    let Some(start) = bytes.len().checked_sub(TAIL as u64) else {
        return 0;
    };
    match parquet::file::reader::ChunkReader::get_bytes(bytes, start, TAIL) {
        Ok(tail) if tail.ends_with(b"PAR1") => {
            let len = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]) as usize;
            len.min(usize::try_from(start).unwrap_or(usize::MAX))
        }
        _ => 0,
    }
}

fn options(spec: &ParquetScanSpec, is_restricted: bool) -> ArrowReaderOptions {
    let options = ArrowReaderOptions::new();
    match &spec.pruner {
        // Nobody looks at them, and they are half of a footer.
        None if !is_restricted => options.with_column_stats_policy(ParquetStatisticsPolicy::SkipAll),
        Some(pruner) if pruner.needs_page_index() => options.with_page_index_policy(PageIndexPolicy::Optional),
        _ => options,
    }
}

/// Refuses metadata whose numbers make no sense, before anything is computed with them.
pub(crate) fn check(file: &ParquetFile, bytes: &FileBytes, row_group: &RowGroupMetaData) -> Result<(), ScanError> {
    if row_group.num_rows() < 0 {
        return Err(ScanError::parquet(&file.path, &"a row group has a negative number of rows"));
    }
    for column in row_group.columns() {
        if column.data_page_offset() < 0 || column.num_values() < 0 {
            return Err(ScanError::parquet(&file.path, &"a column chunk has a negative position or number of values"));
        }
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = u64::try_from(start)
            .ok()
            .zip(u64::try_from(column.compressed_size()).ok())
            .and_then(|(start, len)| start.checked_add(len));
        match end {
            Some(end) if end <= bytes.len() => {}
            Some(expected) => {
                return Err(ScanError::Truncated { path: file.path.clone(), found: bytes.len(), expected });
            }
            None => return Err(ScanError::parquet(&file.path, &"a column chunk has a negative position or size")),
        }
    }
    Ok(())
}

/// Rows of a row group that [`check`] let pass.
fn rows_of(row_group: &RowGroupMetaData) -> usize {
    usize::try_from(row_group.num_rows()).expect("not negative: checked")
}
