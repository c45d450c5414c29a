//! Samples of tables: a few runs of neighbouring rows, the same for all columns, read once a version of the table.
//!
//! A predicate is evaluated on the sample, so that columns that depend on each other need no model. Runs cost one page of a column each, and
//! a dictionary; small tables are taken whole. Columns are read when somebody asks for them ([`TableSample::columns`]), or together before
//! that ([`Samples::read`]), by one thread each ([`Claim`]).
//!
//! Not here: reading (`pieces`), what is concluded from a sample (`profile`).

use std::{
    collections::{HashMap, hash_map::Entry},
    ops::Range,
    path::PathBuf,
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef},
        datatypes::{DataType, FieldRef},
    },
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileGroup, FileScanConfig, parquet::metadata::CachedParquetMetaData},
    },
    execution::cache::cache_manager::FileMetadataCache,
    object_store::ObjectMeta,
    parquet::file::metadata::ParquetMetaData,
    scalar::ScalarValue,
};
use ogee_exec::ExecSettings;
use ogee_memory::BufferManager;
use parking_lot::{Condvar, Mutex, RwLock};

use super::pieces;
use crate::table::BlockScan;

/// Runs of a table that is not small. A run decodes about one page per column, of strings a megabyte: a millisecond at most. With eight runs
/// the queries of the join order benchmark waited twice as long for samples, and their plans were no better.
const RUNS: usize = 4;

/// Rows of a run.
const RUN_ROWS: usize = 1024;

/// Tables up to so many rows, a row group of a usual file, are taken whole: about a millisecond for a column.
const WHOLE_ROWS: u64 = 1 << 17;

/// Rows of which distinct values are counted, not estimated.
const COUNTED_ROWS: usize = 1 << 14;

/// Bytes of samples that are kept, at least, at most, and as a part of the limit; heap memory outside the pool. Those of one statement should all
/// have room: what goes while it is planned is read again, or is not known to later rules. Small tables, which are taken whole, are megabytes each.
const CACHE_BYTES_MIN: usize = 8 << 20;
const CACHE_BYTES_MAX: usize = 32 << 20;
const CACHE_PART: usize = 64;

/// Versions of tables that are known at a time, also those of which nothing was read.
const TABLES_MAX: usize = 256;

/// Which rows a sample was taken of; a table that has changed has another version.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    /// Path, size, nanoseconds of the last modification.
    Files(Vec<(PathBuf, u64, i64)>),
    /// Numbers of blocks.
    Blocks(Vec<u64>),
}

impl Version {
    fn of_files<'a>(files: impl Iterator<Item = &'a ObjectMeta>) -> Self {
        let modified = |file: &ObjectMeta| file.last_modified.timestamp_nanos_opt().unwrap_or_default();
        Self::Files(files.map(|file| (path(file), file.size, modified(file))).collect())
    }
}

fn path(file: &ObjectMeta) -> PathBuf {
    PathBuf::from("/").join(file.location.as_ref())
}

/// Samples of the tables that a session planned with, least recently used first.
#[derive(Debug)]
pub struct Samples {
    memory: Arc<BufferManager>,
    settings: Arc<RwLock<ExecSettings>>,
    /// Footers that listing has read.
    footers: Arc<FileMetadataCache>,
    tables: Mutex<Vec<Arc<TableSample>>>,
}

/// Columns of a sample.
pub(super) type Columns = (Arc<TableSample>, Vec<FieldRef>);

impl Samples {
    /// No samples yet; they are read in `memory`, by at most as many threads as `settings` say by then. `footers` has those of files that were
    /// listed.
    pub fn new(
        memory: Arc<BufferManager>,
        settings: Arc<RwLock<ExecSettings>>,
        footers: Arc<FileMetadataCache>,
    ) -> Self {
        Self { memory, settings, footers, tables: Mutex::default() }
    }

    /// Threads that the engine uses.
    pub(super) fn threads(&self) -> usize {
        self.settings.read().threads
    }

    /// The sample of the Parquet files of a scan. `None` where they are not on this machine's file systems, or rows are not counted.
    pub(super) fn of_files(&self, config: &FileScanConfig) -> Option<Arc<TableSample>> {
        if !config.object_store_url.as_str().starts_with("file://") || config.expr_adapter_factory.is_some() {
            return None;
        }
        let files = config.file_groups.iter().flat_map(FileGroup::iter).collect::<Vec<_>>();
        if files.iter().any(|file| file.range.is_some()) {
            return None;
        }
        self.table(Version::of_files(files.iter().map(|file| &file.object_meta)), || {
            let rows =
                |file: &&PartitionedFile| file.statistics.as_ref()?.num_rows.get_value().map(|&rows| rows as u64);
            let rows = files.iter().map(rows).collect::<Option<Vec<u64>>>()?;
            let names = config.table_partition_cols().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            let files = files.iter().map(|file| SampledFile {
                path: path(&file.object_meta),
                size: file.object_meta.size,
                partitions: names.iter().cloned().zip(file.partition_values.iter().cloned()).collect(),
                footer: Mutex::new(self.footer(&file.object_meta)),
            });
            Some((Rows::Files(files.collect()), rows))
        })
    }

    /// The sample of a table whose rows are pages of the pool. `None` where they are not there.
    pub(super) fn of_table(&self, scan: &Arc<dyn BlockScan>) -> Option<Arc<TableSample>> {
        if scan.planned_rows().is_some() {
            return None;
        }
        let (numbers, rows): (Vec<u64>, Vec<u64>) = scan.blocks().into_iter().unzip();
        self.table(Version::Blocks(numbers), || Some((Rows::Blocks(Arc::clone(scan)), rows)))
    }

    /// The footer of `file`, if listing has read it.
    fn footer(&self, file: &ObjectMeta) -> Option<Arc<ParquetMetaData>> {
        let known = self.footers.get(&file.location).filter(|known| known.is_valid_for(file))?;
        let footer = known.file_metadata.as_any().downcast_ref::<CachedParquetMetaData>()?;
        Some(Arc::clone(footer.parquet_metadata()))
    }

    /// Reads columns of several samples, those that have not been. What cannot be read is said by whoever runs the query.
    pub(super) fn read(&self, columns: Vec<Columns>) {
        let claimed = columns.iter().filter_map(|(table, fields)| Claim::new(table, fields)).collect::<Vec<_>>();
        pieces::read(&claimed, self.threads());
        drop(claimed);
        columns.iter().for_each(|(table, fields)| table.wait(fields));
    }

    /// The sample of the Parquet files `files`, of a table that is not partitioned, if listing has read the footers of all of them.
    pub(super) fn of_known_files(&self, files: &[ObjectMeta]) -> Option<Arc<TableSample>> {
        let footers = files.iter().map(|file| self.footer(file)).collect::<Option<Vec<_>>>()?;
        self.table(Version::of_files(files.iter()), || {
            let rows = |footer: &Arc<ParquetMetaData>| u64::try_from(footer.file_metadata().num_rows()).ok();
            let rows = footers.iter().map(rows).collect::<Option<Vec<_>>>()?;
            let files = files.iter().zip(footers).map(|(file, footer)| SampledFile {
                path: path(file),
                size: file.size,
                partitions: Vec::new(),
                footer: Mutex::new(Some(footer)),
            });
            Some((Rows::Files(files.collect()), rows))
        })
    }

    fn table(&self, version: Version, make: impl FnOnce() -> Option<(Rows, Vec<u64>)>) -> Option<Arc<TableSample>> {
        let mut tables = self.tables.lock();
        if let Some(at) = tables.iter().position(|table| table.version == version) {
            let table = tables.remove(at);
            tables.push(Arc::clone(&table));
            return Some(table);
        }
        let (rows, counts) = make()?;
        // Samples that are in use stay alive; those beyond the limit are just not found again.
        let mut bytes: usize = tables.iter().map(|table| table.bytes()).sum();
        let kept = (self.memory.limit() / CACHE_PART).clamp(CACHE_BYTES_MIN, CACHE_BYTES_MAX);
        while bytes > kept || tables.len() >= TABLES_MAX {
            bytes -= tables.remove(0).bytes();
        }
        let table = Arc::new(TableSample::new(version, rows, &counts, self));
        tables.push(Arc::clone(&table));
        Some(table)
    }
}

/// Where sampled rows are.
pub(super) enum Rows {
    Files(Vec<SampledFile>),
    Blocks(Arc<dyn BlockScan>),
}

pub(super) struct SampledFile {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    /// Columns that the file's directory tells.
    pub(super) partitions: Vec<(String, ScalarValue)>,
    pub(super) footer: Mutex<Option<Arc<ParquetMetaData>>>,
}

/// Some rows next to each other: of file or block `part`, from row `start` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) part: usize,
    pub(super) start: u64,
    pub(super) rows: usize,
}

/// The sampled rows of a column.
enum Sampled {
    /// Somebody reads them.
    Claimed,
    /// `None` if they cannot be read.
    Read(Option<ArrayRef>),
}

/// Columns of a sample that one thread is to read: all others wait for it to do so or give up.
pub(super) struct Claim<'a> {
    pub(super) table: &'a Arc<TableSample>,
    pub(super) fields: Vec<FieldRef>,
}

impl<'a> Claim<'a> {
    /// Those of `fields` that nobody has read or is reading.
    pub(super) fn new(table: &'a Arc<TableSample>, fields: &[FieldRef]) -> Option<Self> {
        let mut columns = table.columns.lock();
        let mut claim = |field: &&FieldRef| match columns.entry(key(field)) {
            Entry::Vacant(vacant) => matches!(vacant.insert(Sampled::Claimed), Sampled::Claimed),
            Entry::Occupied(_) => false,
        };
        let fields: Vec<FieldRef> = fields.iter().filter(&mut claim).cloned().collect();
        drop(columns);
        // Made only if there is something to claim: a claim takes the lock when it goes.
        if fields.is_empty() { None } else { Some(Self { table, fields }) }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut columns = self.table.columns.lock();
        for field in &self.fields {
            if let Entry::Occupied(entry) = columns.entry(key(field))
                && matches!(entry.get(), Sampled::Claimed)
            {
                entry.remove();
            }
        }
        self.table.done.notify_all();
    }
}

/// The sample of one version of a table.
pub(super) struct TableSample {
    pub(super) memory: Arc<BufferManager>,
    settings: Arc<RwLock<ExecSettings>>,
    version: Version,
    pub(super) rows: Rows,
    rows_all: u64,
    pub(super) runs: Vec<Run>,
    columns: Mutex<HashMap<(String, DataType), Sampled>>,
    /// Whoever read a column is done with it.
    done: Condvar,
    /// Distinct values of columns together among so many rows (the bits of a float), as far as somebody asked.
    distinct: Mutex<HashMap<(Vec<String>, u64), f64>>,
}

impl TableSample {
    fn new(version: Version, rows: Rows, counts: &[u64], samples: &Samples) -> Self {
        let rows_all: u64 = counts.iter().sum();
        let mut runs: Vec<Run> = if rows_all <= WHOLE_ROWS && counts.len() <= 4 * RUNS {
            let part = |(part, &rows): (usize, &u64)| Run { part, start: 0, rows: rows as usize };
            counts.iter().enumerate().map(part).filter(|run| run.rows > 0).collect()
        } else {
            runs(counts, rows_all)
        };
        if let Rows::Blocks(_) = rows {
            // The first batch of a block is found without decoding others.
            runs.iter_mut().for_each(|run| run.start = 0);
            runs.dedup_by_key(|run| run.part);
        }
        Self {
            memory: Arc::clone(&samples.memory),
            settings: Arc::clone(&samples.settings),
            version,
            rows,
            rows_all,
            runs,
            columns: Mutex::default(),
            done: Condvar::new(),
            distinct: Mutex::default(),
        }
    }

    /// Rows of the table.
    pub(super) fn rows_all(&self) -> f64 {
        self.rows_all as f64
    }

    /// Rows of the sample.
    pub(super) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.rows).sum()
    }

    /// Whether the sample is the table.
    pub(super) fn is_whole(&self) -> bool {
        self.len() as u64 == self.rows_all
    }

    /// Distinct values of the columns of these names together, among `rows` rows like those of the sample: as `count` finds them the first time.
    pub(super) fn distinct(&self, names: Vec<String>, rows: f64, count: impl FnOnce() -> Option<f64>) -> Option<f64> {
        let key = (names, rows.to_bits());
        if let Some(&known) = self.distinct.lock().get(&key) {
            return Some(known);
        }
        let distinct = count()?;
        self.distinct.lock().insert(key, distinct);
        Some(distinct)
    }

    /// The number of the run of each row.
    pub(super) fn run_numbers(&self) -> Vec<u32> {
        let numbers = self.runs.iter().enumerate();
        numbers.flat_map(|(number, run)| std::iter::repeat_n(number as u32, run.rows)).collect()
    }

    /// Runs of the sample, first row and length, if it is so large that some of it will do.
    pub(super) fn runs_of_sample(&self) -> Option<Vec<(usize, usize)>> {
        Some(some_of(self.len())?.into_iter().map(|run| (run.start, run.len())).collect())
    }

    /// The sampled rows of `fields`, if these can be read and, unless `may_read`, have been.
    pub(super) fn columns(self: &Arc<Self>, fields: &[FieldRef], may_read: bool) -> Option<Vec<ArrayRef>> {
        if may_read {
            let claimed = Claim::new(self, fields);
            pieces::read(claimed.as_slice(), self.settings.read().threads);
            drop(claimed);
            self.wait(fields);
        }
        let known = self.columns.lock();
        let read = |field: &FieldRef| match known.get(&key(field))? {
            Sampled::Claimed => None,
            Sampled::Read(column) => column.clone(),
        };
        fields.iter().map(read).collect()
    }

    /// Waits until nobody reads any of `fields`.
    fn wait(&self, fields: &[FieldRef]) {
        let mut columns = self.columns.lock();
        while fields.iter().any(|field| matches!(columns.get(&key(field)), Some(Sampled::Claimed))) {
            self.done.wait(&mut columns);
        }
    }

    /// Learns the sampled rows of `field`; `None` if it cannot be read.
    pub(super) fn learn(&self, field: &FieldRef, column: Option<ArrayRef>) {
        self.columns.lock().insert(key(field), Sampled::Read(column));
    }

    /// Bytes of a row group of `fields`, about: what reading them may have to go through.
    pub(super) fn bytes_of(&self, fields: &[FieldRef]) -> u64 {
        let Rows::Files(files) = &self.rows else { return 0 };
        let footer = files.first().and_then(|file| file.footer.lock().clone());
        let group = footer.as_ref().and_then(|footer| footer.row_groups().first());
        group.map_or(0, |group| pieces::bytes_in(group, fields))
    }

    fn bytes(&self) -> usize {
        let footers = match &self.rows {
            Rows::Files(files) => {
                files.iter().filter_map(|file| Some(file.footer.lock().as_ref()?.memory_size())).sum()
            }
            Rows::Blocks(_) => 0,
        };
        let columns = self.columns.lock();
        let read = columns.values().filter_map(|column| match column {
            Sampled::Read(column) => column.as_ref(),
            Sampled::Claimed => None,
        });
        footers + read.map(|column| column.get_array_memory_size()).sum::<usize>()
    }
}

impl std::fmt::Debug for TableSample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableSample").field("version", &self.version).field("runs", &self.runs).finish_non_exhaustive()
    }
}

fn key(field: &FieldRef) -> (String, DataType) {
    (field.name().clone(), field.data_type().clone())
}

/// Runs of so many rows, if these are so many that some of them will do.
pub(super) fn some_of(rows: usize) -> Option<Vec<Range<usize>>> {
    let few = (rows > COUNTED_ROWS).then(|| runs(&[rows as u64], rows as u64))?;
    Some(few.into_iter().map(|run| run.start as usize..run.start as usize + run.rows).collect())
}

/// Runs in the middle of equally large parts of all rows.
fn runs(counts: &[u64], rows_all: u64) -> Vec<Run> {
    let mut runs = Vec::with_capacity(RUNS);
    let (mut part, mut before) = (0, 0);
    for number in 0..RUNS as u64 {
        let middle = rows_all * (2 * number + 1) / (2 * RUNS as u64);
        while before + counts[part] <= middle {
            before += counts[part];
            part += 1;
        }
        let rows = (RUN_ROWS as u64).min(counts[part]);
        let start = (middle - before).saturating_sub(rows / 2).min(counts[part] - rows);
        let overlaps = runs.last().is_some_and(|last: &Run| last.part == part && last.start + last.rows as u64 > start);
        if !overlaps {
            runs.push(Run { part, start, rows: rows as usize });
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_lie_apart_and_within_their_parts() {
        for counts in [vec![1_000_000], vec![10_000, 0, 5, 900_000, 3], vec![1; 20_000], vec![700; 30]] {
            let rows_all = counts.iter().sum();
            let runs = runs(&counts, rows_all);
            assert!(!runs.is_empty() && runs.len() <= RUNS);
            for run in &runs {
                assert!(run.rows > 0 && run.start + run.rows as u64 <= counts[run.part], "{run:?} of {counts:?}");
            }
            let ends = |run: &Run| (run.part, run.start + run.rows as u64);
            assert!(runs.windows(2).all(|pair| ends(&pair[0]) <= (pair[1].part, pair[1].start)), "{runs:?}");
        }
    }
}
