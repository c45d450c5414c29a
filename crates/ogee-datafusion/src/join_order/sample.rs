//! Samples of tables: a few runs of neighbouring rows, the same for all columns, read once a version of the table.
//!
//! A predicate is evaluated on the sample, so that columns that depend on each other need no model. Runs cost one page of a column each, and
//! a dictionary; small tables are taken whole. Columns are read when somebody asks for them ([`TableSample::columns`]), or together before
//! that ([`Samples::read`]).
//!
//! Not here: reading (`pieces`), what is concluded from a sample (`profile`).

use std::{collections::HashMap, ops::Range, path::PathBuf, sync::Arc};

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
    parquet::file::metadata::ParquetMetaData,
    scalar::ScalarValue,
};
use parking_lot::Mutex;

use super::pieces;
use crate::{engine::Engine, table::TableScan};

/// Runs of a table that is not small. A run decodes about one page per column, of strings a megabyte: a millisecond at most. With eight runs
/// the queries of the join order benchmark waited twice as long for samples, and their plans were no better.
const RUNS: usize = 4;

/// Rows of a run.
const RUN_ROWS: usize = 1024;

/// Tables up to so many rows, a row group of a usual file, are taken whole: about a millisecond for a column.
const WHOLE_ROWS: u64 = 1 << 17;

/// Rows of which distinct values are counted, not estimated.
const COUNTED_ROWS: usize = 1 << 14;

/// Bytes of samples that are kept; heap memory outside the pool.
const CACHE_BYTES: usize = 8 << 20;

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

/// Samples of the tables that a session planned with, least recently used first.
#[derive(Debug)]
pub(crate) struct Samples {
    engine: Arc<Engine>,
    /// Footers that listing has read.
    footers: Arc<FileMetadataCache>,
    tables: Mutex<Vec<Arc<TableSample>>>,
}

/// Columns of a sample.
pub(super) type Columns = (Arc<TableSample>, Vec<FieldRef>);

impl Samples {
    /// No samples yet; they are read in the memory of `engine`, by at most as many threads as it uses. `footers` has those of files that were
    /// listed.
    pub(crate) fn new(engine: Arc<Engine>, footers: Arc<FileMetadataCache>) -> Self {
        Self { engine, footers, tables: Mutex::default() }
    }

    /// Threads that the engine uses.
    pub(super) fn threads(&self) -> usize {
        self.engine.settings().threads
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
        let path = |file: &PartitionedFile| PathBuf::from("/").join(file.object_meta.location.as_ref());
        let version = files.iter().map(|file| {
            let meta = &file.object_meta;
            (path(file), meta.size, meta.last_modified.timestamp_nanos_opt().unwrap_or_default())
        });
        let version = Version::Files(version.collect());
        self.table(version, || {
            let rows =
                |file: &&PartitionedFile| file.statistics.as_ref()?.num_rows.get_value().map(|&rows| rows as u64);
            let rows = files.iter().map(rows).collect::<Option<Vec<u64>>>()?;
            let names = config.table_partition_cols().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            let files = files.iter().map(|file| SampledFile {
                path: path(file),
                size: file.object_meta.size,
                partitions: names.iter().cloned().zip(file.partition_values.iter().cloned()).collect(),
                footer: Mutex::new(self.footer(file)),
            });
            Some((Rows::Files(files.collect()), rows))
        })
    }

    /// The sample of a table whose rows are pages of the pool.
    pub(super) fn of_table(&self, scan: &TableScan) -> Option<Arc<TableSample>> {
        let (numbers, rows): (Vec<u64>, Vec<u64>) = scan.blocks().unzip();
        self.table(Version::Blocks(numbers), || Some((Rows::Blocks(scan.clone()), rows)))
    }

    /// The footer of `file`, if listing has read it.
    fn footer(&self, file: &PartitionedFile) -> Option<Arc<ParquetMetaData>> {
        let known = self.footers.get(&file.object_meta.location)?;
        let footer = known.file_metadata.as_any().downcast_ref::<CachedParquetMetaData>()?;
        known.is_valid_for(&file.object_meta).then(|| Arc::clone(footer.parquet_metadata()))
    }

    /// Reads columns of several samples, those that have not been. What cannot be read is said by whoever runs the query.
    pub(super) fn read(&self, columns: Vec<Columns>) {
        let mut missing: Vec<Columns> = Vec::new();
        for (table, fields) in columns {
            let fields = table.missing(&fields);
            if fields.is_empty() {
                continue;
            }
            match missing.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &table)) {
                Some((_, known)) => {
                    known.extend(fields.into_iter().filter(|field| !known.contains(field)).collect::<Vec<_>>())
                }
                None => missing.push((table, fields)),
            }
        }
        pieces::read(&missing, self.threads());
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
        while bytes > CACHE_BYTES || tables.len() >= TABLES_MAX {
            bytes -= tables.remove(0).bytes();
        }
        let table = Arc::new(TableSample::new(version, rows, &counts, Arc::clone(&self.engine)));
        tables.push(Arc::clone(&table));
        Some(table)
    }
}

/// Where sampled rows are.
pub(super) enum Rows {
    Files(Vec<SampledFile>),
    Blocks(TableScan),
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

/// The sample of one version of a table.
pub(super) struct TableSample {
    pub(super) engine: Arc<Engine>,
    version: Version,
    pub(super) rows: Rows,
    rows_all: u64,
    pub(super) runs: Vec<Run>,
    /// Columns that were read; `None` for those that cannot be.
    columns: Mutex<HashMap<(String, DataType), Option<ArrayRef>>>,
    /// Distinct values of columns together among so many rows (the bits of a float), as far as somebody asked.
    distinct: Mutex<HashMap<(Vec<String>, u64), f64>>,
}

impl TableSample {
    fn new(version: Version, rows: Rows, counts: &[u64], engine: Arc<Engine>) -> Self {
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
        Self { engine, version, rows, rows_all, runs, columns: Mutex::default(), distinct: Mutex::default() }
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
        let missing = self.missing(fields);
        if !missing.is_empty() {
            if !may_read {
                return None;
            }
            pieces::read(&[(Arc::clone(self), missing)], self.engine.settings().threads);
        }
        let known = self.columns.lock();
        fields.iter().map(|field| known.get(&key(field))?.clone()).collect()
    }

    /// Learns the sampled rows of `field`; `None` if it cannot be read.
    pub(super) fn learn(&self, field: &FieldRef, column: Option<ArrayRef>) {
        self.columns.lock().insert(key(field), column);
    }

    /// Those of `fields` that nobody has read.
    fn missing(&self, fields: &[FieldRef]) -> Vec<FieldRef> {
        let known = self.columns.lock();
        fields.iter().filter(|field| !known.contains_key(&key(field))).cloned().collect()
    }

    fn bytes(&self) -> usize {
        let footers = match &self.rows {
            Rows::Files(files) => {
                files.iter().filter_map(|file| Some(file.footer.lock().as_ref()?.memory_size())).sum()
            }
            Rows::Blocks(_) => 0,
        };
        footers + self.columns.lock().values().flatten().map(|column| column.get_array_memory_size()).sum::<usize>()
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
