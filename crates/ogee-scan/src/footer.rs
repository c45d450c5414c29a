//! Files: opened and their footers loaded once, when a lane comes to them.
//!
//! An [`OpenFile`] is shared by the row groups that wait or are being read, and goes with the last of them. At most one file
//! per lane is open beyond those, however many there are.
//!
//! Not here: which file comes next (`work`).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use ogee_exec::ExecError;
use ogee_memory::{BufferManager, Reservation};
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    errors::ParquetError,
    file::{
        metadata::{
            PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
            RowGroupMetaData,
        },
        reader::ChunkReader,
    },
};

use crate::{
    columns::FileColumns,
    error::ScanError,
    filter::ScanFilter,
    layouts,
    library::caught,
    pages::FileBytes,
    restrict::RestrictedColumn,
    spec::{ParquetFile, ParquetScanSpec, RowGroupAccess},
    thrift::{self, Order},
    work::{RowGroupWork, Work},
};

/// Bytes of decoded metadata for each byte of it in the file, at most: a column chunk takes 60 bytes there, without
/// statistics, and about 500 in memory. While it is decoded both are held.
const DECODED_PER_BYTE: usize = 10;

/// The end of a file: length of the metadata, 4 bytes, and the magic number.
const TAIL: usize = 8;

/// Structs and lists within one another in metadata, at most: statistics are in metadata of a column chunk of a row group.
const DEPTH_MAX: usize = 16;

/// The footer of the file at `path`, which had `size` bytes when it was listed, with its page index: for those who plan a query. What it takes
/// while it is read is reserved in `memory`; what is given is the caller's.
///
/// # Errors
/// When the file cannot be read, is shorter than it was, is no Parquet file, or contradicts itself; when there is no memory for its footer.
pub fn read_footer(memory: &Arc<BufferManager>, path: &Path, size: u64) -> Result<Arc<ParquetMetaData>, ExecError> {
    let file = ParquetFile { path: path.to_owned(), size, rows: None, row_groups: None, partition_values: Vec::new() };
    let bytes = open(&file)?;
    let (footer, _memory) = footer(memory, &file, &bytes)?;
    let metadata = decode(&file, &bytes, &footer, Wanted { statistics: true, page_index: true })?;
    for row_group in metadata.row_groups() {
        check(&file, &bytes, row_group)?;
    }
    Ok(Arc::new(metadata))
}

/// Whether `file`, all its bytes, ends with a footer that is whole: the library may be busy for hours with one that is not.
pub fn has_whole_footer(file: &[u8]) -> bool {
    let footer = || {
        let (rest, tail) = file.split_at_checked(file.len().checked_sub(TAIL)?)?;
        let len = u32::from_le_bytes(*tail.first_chunk()?) as usize;
        thrift::struct_len(rest.get(rest.len().checked_sub(len)?..)?, DEPTH_MAX, layouts::FILE, Order::Any)
    };
    footer().is_some()
}

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
    let (metadata, reservation) = self::metadata(memory, file, &bytes, Wanted::by(spec, !restricted.is_empty()))?;
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
        (rows > 0).then_some(Work { of, rows: 0..rows, needed: 0, range: None })
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
    wanted: Wanted,
) -> Result<(ArrowReaderMetadata, Reservation), ExecError> {
    let (footer, mut reservation) = footer(memory, file, bytes)?;
    let metadata = Arc::new(decode(file, bytes, &footer, wanted)?);
    drop(footer);
    let metadata = caught(|| ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new()))
        .map_err(|error| ScanError::parquet(&file.path, &error))?;
    reservation.resize(metadata.metadata().memory_size())?;
    Ok((metadata, reservation))
}

/// The metadata of `file` as they are written, a whole struct, and memory in which they can be decoded.
fn footer(
    memory: &Arc<BufferManager>,
    file: &ParquetFile,
    bytes: &FileBytes,
) -> Result<(Bytes, Reservation), ExecError> {
    let damaged = |why: &str| ScanError::parquet(&file.path, &why);
    let start = bytes.len().checked_sub(TAIL as u64).ok_or_else(|| damaged("it has less than eight bytes"))?;
    let read = |start, len| bytes.get_bytes(start, len).map_err(|error| ScanError::parquet(&file.path, &error));
    let tail = read(start, TAIL)?;
    if !tail.ends_with(b"PAR1") {
        return match tail.ends_with(b"PARE") {
            true => Err(damaged("its footer is encrypted, which is not supported").into()),
            false => Err(damaged("it does not end as Parquet files do").into()),
        };
    }
    let len = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    let start = start.checked_sub(u64::from(len)).ok_or_else(|| damaged("its footer is longer than the file"))?;
    let len = len as usize;
    let reservation = memory.reserve("parquet footer", DECODED_PER_BYTE * len)?;
    let footer = read(start, len)?;
    if thrift::struct_len(&footer, DEPTH_MAX, layouts::FILE, Order::Any).is_none() {
        return Err(damaged("its footer is not understood").into());
    }
    Ok((footer, reservation))
}

/// What is decoded of the metadata of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) statistics: bool,
    pub(crate) page_index: bool,
}

impl Wanted {
    fn by(spec: &ParquetScanSpec, is_restricted: bool) -> Self {
        let pruner = spec.pruner.as_ref();
        // If nobody looks at them, they are half of a footer.
        Self {
            statistics: pruner.is_some() || is_restricted,
            page_index: pruner.is_some_and(|pruner| pruner.needs_page_index()),
        }
    }
}

/// The metadata of `file`, out of its [`footer`].
fn decode(file: &ParquetFile, bytes: &FileBytes, footer: &[u8], wanted: Wanted) -> Result<ParquetMetaData, ScanError> {
    let damaged = |error| ScanError::parquet(&file.path, &error);
    let mut options = ParquetMetaDataOptions::new();
    if !wanted.statistics {
        options = options.with_column_stats_policy(ParquetStatisticsPolicy::SkipAll);
    }
    let metadata = caught(|| ParquetMetaDataReader::decode_metadata_with_options(footer, Some(&options)));
    let metadata = metadata.map_err(damaged)?;
    if !wanted.page_index {
        return Ok(metadata);
    }
    check_page_index(file, bytes, &metadata)?;
    let with_index = || {
        let mut reader = ParquetMetaDataReader::new_with_metadata(metadata)
            .with_metadata_options(Some(options))
            .with_page_index_policy(PageIndexPolicy::Optional);
        reader.read_page_indexes(bytes)?;
        reader.finish()
    };
    caught(with_index).map_err(damaged)
}

/// Refuses a page index that is not where the metadata have it: the library takes memory for as many pages as it says.
fn check_page_index(file: &ParquetFile, bytes: &FileBytes, metadata: &ParquetMetaData) -> Result<(), ScanError> {
    let damaged = || ScanError::parquet(&file.path, &"its page index is not understood");
    let mut parts = Vec::new();
    for column in metadata.row_groups().iter().flat_map(RowGroupMetaData::columns) {
        let offsets = column.offset_index_offset().zip(column.offset_index_length());
        let values = column.column_index_offset().zip(column.column_index_length());
        let offsets = offsets.map(|place| (place, layouts::OFFSET_INDEX));
        let values = values.map(|place| (place, layouts::COLUMN_INDEX));
        for ((start, len), layout) in offsets.into_iter().chain(values) {
            let start = u64::try_from(start).map_err(|_| damaged())?;
            let end = u64::try_from(len).ok().and_then(|len| start.checked_add(len)).ok_or_else(damaged)?;
            parts.push((start..end, layout));
        }
    }
    let first = parts.iter().map(|(part, _)| part.start).min().unwrap_or(0);
    let end = parts.iter().map(|(part, _)| part.end).max().unwrap_or(0);
    let place = |position: u64| usize::try_from(position - first).map_err(|_| damaged());
    // The library reads them at once, too.
    let index = bytes.get_bytes(first, place(end)?).map_err(|error| ScanError::parquet(&file.path, &error))?;
    for (part, layout) in parts {
        let (start, end) = (place(part.start)?, place(part.end)?);
        thrift::struct_len(&index[start..end], DEPTH_MAX, layout, Order::Any).ok_or_else(damaged)?;
    }
    Ok(())
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
