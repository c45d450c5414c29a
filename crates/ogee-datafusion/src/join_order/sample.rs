//! Samples of tables: a few runs of neighbouring rows, the same for all columns, read once a version of the table.
//!
//! A predicate is evaluated on the sample, so that columns that depend on each other need no model. Runs cost one page of a column each;
//! small tables are taken whole. Columns are read when somebody asks for them.
//!
//! Not here: what is concluded from a sample (`profile`).

use std::{collections::HashMap, fs::File, ops::Range, path::PathBuf, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, RecordBatch, new_null_array},
        compute::{cast, concat, concat_batches},
        datatypes::{DataType, FieldRef},
    },
    datasource::physical_plan::{FileGroup, FileScanConfig},
    error::Result,
    parquet::{
        arrow::{
            ProjectionMask,
            arrow_reader::{
                ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
            },
        },
        file::metadata::ColumnChunkMetaData,
    },
    scalar::ScalarValue,
};
use parking_lot::Mutex;

use crate::{engine::Engine, table::TableScan};

/// Runs of a table that is not small. A run decodes about one page per column: half a millisecond at most.
const RUNS: usize = 8;

/// Rows of a run.
const RUN_ROWS: usize = 512;

/// Tables up to so many rows, a row group of a usual file, are taken whole: about a millisecond for a column.
const WHOLE_ROWS: u64 = 1 << 17;

/// Rows of which distinct values are counted, not estimated.
const COUNTED_ROWS: usize = 1 << 14;

/// Bytes of column chunks, uncompressed, from which on two threads read the runs that lie in them: a thread is begun in a tenth of a millisecond.
const APART_BYTES: i64 = 4 << 20;

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
    tables: Mutex<Vec<Arc<TableSample>>>,
}

impl Samples {
    /// No samples yet; they are read by as many threads as `engine` uses, two at most.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine, tables: Mutex::default() }
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
        let path = |file: &datafusion::datasource::listing::PartitionedFile| {
            PathBuf::from("/").join(file.object_meta.location.as_ref())
        };
        let version = files.iter().map(|file| {
            let meta = &file.object_meta;
            (path(file), meta.size, meta.last_modified.timestamp_nanos_opt().unwrap_or_default())
        });
        let version = Version::Files(version.collect());
        self.table(version, || {
            let rows = |file: &&datafusion::datasource::listing::PartitionedFile| {
                file.statistics.as_ref()?.num_rows.get_value().map(|&rows| rows as u64)
            };
            let rows = files.iter().map(rows).collect::<Option<Vec<u64>>>()?;
            let names = config.table_partition_cols().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            let files = files.iter().map(|file| SampledFile {
                path: path(file),
                partitions: names.iter().cloned().zip(file.partition_values.iter().cloned()).collect(),
                footer: Mutex::default(),
            });
            Some((Rows::Files(files.collect()), rows))
        })
    }

    /// The sample of a table whose rows are pages of the pool.
    pub(super) fn of_table(&self, scan: &TableScan) -> Option<Arc<TableSample>> {
        let (numbers, rows): (Vec<u64>, Vec<u64>) = scan.blocks().unzip();
        self.table(Version::Blocks(numbers), || Some((Rows::Blocks(scan.clone()), rows)))
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
#[derive(Debug)]
enum Rows {
    Files(Vec<SampledFile>),
    Blocks(TableScan),
}

#[derive(Debug)]
struct SampledFile {
    path: PathBuf,
    /// Columns that the file's directory tells.
    partitions: Vec<(String, ScalarValue)>,
    footer: Mutex<Option<ArrowReaderMetadata>>,
}

/// Some rows next to each other: of file or block `part`, from row `start` on.
#[derive(Clone, Copy, Debug)]
struct Run {
    part: usize,
    start: u64,
    rows: usize,
}

/// The sample of one version of a table.
#[derive(Debug)]
pub(super) struct TableSample {
    engine: Arc<Engine>,
    version: Version,
    rows: Rows,
    rows_all: u64,
    runs: Vec<Run>,
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
    pub(super) fn columns(&self, fields: &[FieldRef], may_read: bool) -> Option<Vec<ArrayRef>> {
        let key = |field: &FieldRef| (field.name().clone(), field.data_type().clone());
        let mut known = self.columns.lock();
        let missing: Vec<FieldRef> = fields.iter().filter(|field| !known.contains_key(&key(field))).cloned().collect();
        if !missing.is_empty() {
            if !may_read {
                return None;
            }
            // Whatever is wrong with a file is said by whoever runs the query.
            match self.read(&missing) {
                Ok(arrays) => known.extend(missing.iter().map(key).zip(arrays.into_iter().map(Some))),
                Err(_) => known.extend(missing.iter().map(|field| (key(field), None))),
            }
        }
        fields.iter().map(|field| known[&key(field)].clone()).collect()
    }

    fn read(&self, fields: &[FieldRef]) -> Result<Vec<ArrayRef>> {
        let apart = self.engine.settings().threads > 1;
        let parts = self.runs.chunk_by(|a, b| a.part == b.part).map(|runs| match &self.rows {
            Rows::Files(files) => files[runs[0].part].read(runs, fields, apart),
            Rows::Blocks(scan) => read_block(scan, runs[0], fields),
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let column = |(index, field): (usize, &FieldRef)| {
            let arrays: Vec<&dyn Array> = parts.iter().map(|part| part[index].as_ref()).collect();
            match arrays.as_slice() {
                [] => Ok(new_null_array(field.data_type(), 0)),
                arrays => Ok(concat(arrays)?),
            }
        };
        fields.iter().enumerate().map(column).collect()
    }

    fn bytes(&self) -> usize {
        let footers = match &self.rows {
            Rows::Files(files) => {
                files.iter().filter_map(|file| Some(file.footer.lock().as_ref()?.metadata().memory_size()))
            }
            Rows::Blocks(_) => return self.column_bytes(),
        };
        footers.sum::<usize>() + self.column_bytes()
    }

    fn column_bytes(&self) -> usize {
        self.columns.lock().values().flatten().map(|column| column.get_array_memory_size()).sum()
    }
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

impl SampledFile {
    /// The rows of some runs, ascending, of this file; if `apart`, two threads may read them.
    fn read(&self, runs: &[Run], fields: &[FieldRef], apart: bool) -> Result<Vec<ArrayRef>> {
        let footer = self.footer()?;
        let (first, second) = runs.split_at(runs.len() / 2);
        if !apart || first.is_empty() || chunk_bytes(&footer, runs, fields) < APART_BYTES {
            return self.read_runs(&footer, runs, fields);
        }
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| self.read_runs(&footer, first, fields));
            let second = self.read_runs(&footer, second, fields);
            (first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), second)
        });
        let both = first?.into_iter().zip(second?);
        both.map(|(first, second)| Ok(concat(&[first.as_ref(), second.as_ref()])?)).collect()
    }

    fn footer(&self) -> Result<ArrowReaderMetadata> {
        let known = self.footer.lock().clone();
        match known {
            Some(footer) => Ok(footer),
            None => {
                let footer = ArrowReaderMetadata::load(&File::open(&self.path)?, ArrowReaderOptions::new())?;
                Ok(self.footer.lock().insert(footer).clone())
            }
        }
    }

    /// The rows of some runs: one reader for all, so that a dictionary is decoded once a row group.
    fn read_runs(&self, footer: &ArrowReaderMetadata, runs: &[Run], fields: &[FieldRef]) -> Result<Vec<ArrayRef>> {
        let file = File::open(&self.path)?;
        let index = |field: &FieldRef| footer.schema().index_of(field.name()).ok();
        let wanted: Vec<usize> = fields.iter().filter_map(index).collect();
        let mask = ProjectionMask::roots(footer.parquet_schema(), wanted);
        let rows: usize = runs.iter().map(|run| run.rows).sum();
        let (groups, selection) =
            selection(footer.metadata().row_groups().iter().map(|group| group.num_rows() as u64), runs);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.clone())
            .with_projection(mask)
            .with_row_groups(groups)
            .with_row_selection(RowSelection::from(selection))
            .with_batch_size(rows)
            .build()?;
        let schema = datafusion::arrow::array::RecordBatchReader::schema(&reader);
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        let batch = concat_batches(&schema, &batches)?;
        let column = |field: &FieldRef| match batch.column_by_name(field.name()) {
            Some(column) => Ok(cast(column, field.data_type())?),
            None => match self.partitions.iter().find(|(name, _)| name == field.name()) {
                Some((_, value)) => Ok(cast(&value.to_array_of_size(rows)?, field.data_type())?),
                None => Ok(new_null_array(field.data_type(), rows)),
            },
        };
        fields.iter().map(column).collect()
    }
}

/// Bytes of the column chunks, uncompressed, that the rows of `runs` lie in.
fn chunk_bytes(footer: &ArrowReaderMetadata, runs: &[Run], fields: &[FieldRef]) -> i64 {
    let groups = footer.metadata().row_groups();
    let (chosen, _) = selection(groups.iter().map(|group| group.num_rows() as u64), runs);
    let chunks = chosen.iter().flat_map(|&group| groups[group].columns());
    let read = chunks.filter(|chunk| {
        let name = chunk.column_path().parts().first();
        fields.iter().any(|field| Some(field.name()) == name)
    });
    read.map(ColumnChunkMetaData::uncompressed_size).sum()
}

/// The row groups that the rows of `runs`, ascending, are in, and where in those. `groups` has the rows of each row group of the file.
fn selection(groups: impl Iterator<Item = u64>, runs: &[Run]) -> (Vec<usize>, Vec<RowSelector>) {
    let (mut chosen, mut selectors) = (Vec::new(), Vec::new());
    let (mut runs, mut before) = (runs.iter().copied().peekable(), 0);
    for (group, rows) in groups.enumerate() {
        let (end, mut at) = (before + rows, before);
        while let Some(run) = runs.peek_mut().filter(|run| run.start < end) {
            if chosen.last() != Some(&group) {
                chosen.push(group);
            }
            let taken = (run.rows as u64).min(end - run.start);
            selectors.push(RowSelector::skip((run.start - at) as usize));
            selectors.push(RowSelector::select(taken as usize));
            at = run.start + taken;
            run.start = at;
            run.rows -= taken as usize;
            if run.rows == 0 {
                runs.next();
            }
        }
        if chosen.last() == Some(&group) {
            selectors.push(RowSelector::skip((end - at) as usize));
        }
        before = end;
    }
    (chosen, selectors)
}

/// The first rows of a block.
fn read_block(scan: &TableScan, run: Run, fields: &[FieldRef]) -> Result<Vec<ArrayRef>> {
    let mut parts: Vec<RecordBatch> = Vec::new();
    let mut left = run.rows;
    for batch in scan.batches(run.part, fields)? {
        let batch = batch?;
        let taken = batch.num_rows().min(left);
        parts.push(batch.slice(0, taken));
        left -= taken;
        if left == 0 {
            break;
        }
    }
    let column = |field: &FieldRef| {
        let parts: Vec<&dyn Array> =
            parts.iter().filter_map(|part| Some(part.column_by_name(field.name())?.as_ref())).collect();
        Ok(cast(&concat(&parts)?, field.data_type())?)
    };
    fields.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_their_row_groups() {
        for groups in [vec![1000], vec![100; 10], vec![7, 0, 300, 5, 688]] {
            for runs in [vec![(0, 1000)], vec![(3, 1)], vec![(0, 5), (5, 100), (600, 399)], vec![(99, 2), (305, 300)]] {
                let runs: Vec<Run> = runs.into_iter().map(|(start, rows)| Run { part: 0, start, rows }).collect();
                let (chosen, selectors) = selection(groups.iter().copied(), &runs);
                let starts = |group: usize| groups[..group].iter().sum::<u64>();
                let mut rows = chosen.iter().flat_map(|&group| starts(group)..starts(group) + groups[group]);
                let mut found = Vec::new();
                for selector in selectors {
                    let these = rows.by_ref().take(selector.row_count);
                    if selector.skip { these.for_each(drop) } else { found.extend(these) }
                }
                let expected: Vec<u64> = runs.iter().flat_map(|run| run.start..run.start + run.rows as u64).collect();
                assert_eq!(found, expected, "{runs:?} of {groups:?}");
                assert_eq!(rows.next(), None, "all rows of the row groups are told of");
            }
        }
    }

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
