//! Predicates that a scan applies while it decodes: the rows are those of the scan without them, filtered.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs::{File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray, UInt32Array,
    cast::AsArray,
    types::{Int32Type, Int64Type},
};
use ogee_exec::{CompareOp, ExecContext, ExecError, ExecSettings, Expr, ForeignExpr, Source, SourceStep};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scan::{ParquetFile, ParquetScanSpec, ParquetSource, RowGroupAccess, RowPruner};
use ogee_scheduler::{Cancellation, TaskContext};
use ogee_vector::normalize_schema;
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection},
    },
    basic::{Compression, Encoding, ZstdLevel},
    file::{
        metadata::PageIndexPolicy,
        properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion},
    },
};

const ROWS: usize = 30_000;

fn context() -> ExecContext {
    let config = MemoryConfig { limit: 1 << 30, counts_process: false, ..MemoryConfig::default() };
    ExecContext::new(BufferManager::new(config).unwrap(), ExecSettings::default())
}

/// Numbers without order, the same for every run.
fn mixed(row: usize) -> usize {
    (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % 1_000_003
}

/// A column of each type that the scan decodes itself, and of some that it does not; with and without NULLs, of few values and of many.
fn table() -> RecordBatch {
    let rows = 0..ROWS;
    // In long runs, so that whole pages have none or nothing else.
    let is_null = |row: usize| row % 9_000 > 5_000 || row % 13 == 4;
    let long = |row: usize| format!("text number {} that is not a short one", mixed(row));
    let decimal = |values: Decimal128Array, precision| values.with_precision_and_scale(precision, 2).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64)))),
        (
            "few",
            Arc::new(Int32Array::from_iter(rows.clone().map(|row| (!is_null(row)).then(|| mixed(row) as i32 % 20)))),
        ),
        ("many", Arc::new(Int32Array::from_iter(rows.clone().map(|row| (!is_null(row)).then(|| mixed(row) as i32))))),
        ("sorted", Arc::new(Date32Array::from_iter_values(rows.clone().map(|row| row as i32 / 100)))),
        ("price", Arc::new(decimal(rows.clone().map(|row| Some(mixed(row) as i128 - 1_000)).collect(), 15))),
        ("rate", Arc::new(decimal(rows.clone().map(|row| (row % 7 > 0).then_some(row as i128 % 11)).collect(), 9))),
        ("double", Arc::new(Float64Array::from_iter_values(rows.clone().map(|row| mixed(row) as f64 / 7.0)))),
        ("single", Arc::new(Float32Array::from_iter(rows.clone().map(|row| (row % 3 > 0).then_some(row as f32))))),
        ("time", Arc::new(TimestampMicrosecondArray::from_iter_values(rows.clone().map(|row| mixed(row) as i64)))),
        (
            "word",
            Arc::new(rows.clone().map(|row| (!is_null(row)).then(|| format!("w{}", row % 5))).collect::<StringArray>()),
        ),
        ("text", Arc::new(rows.clone().map(|row| Some(long(row))).collect::<StringArray>())),
        ("flag", Arc::new(BooleanArray::from_iter(rows.map(|row| Some(mixed(row).is_multiple_of(2)))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| {
        let nullable = array.null_count() > 0;
        (name, array, nullable)
    }))
    .unwrap()
}

fn write(path: &Path, batch: &RecordBatch, properties: WriterPropertiesBuilder) -> ParquetFile {
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    let size = path.metadata().unwrap().len();
    ParquetFile { path: path.to_owned(), size, rows: None, row_groups: None, partition_values: Vec::new() }
}

fn spec(file: &ParquetFile, batch: &RecordBatch) -> ParquetScanSpec {
    let schema = normalize_schema(&batch.schema());
    ParquetScanSpec {
        files: vec![file.clone()],
        file_schema: Arc::clone(&schema),
        projection: (0..schema.fields().len()).collect(),
        schema,
        domains: Vec::new(),
        pruner: None,
        limit: None,
    }
}

/// The rows of a scan that passed, by their number, on two lanes.
fn scan(spec: ParquetScanSpec, predicate: &Expr) -> Result<RecordBatch, ExecError> {
    let ctx = context();
    let schema = Arc::clone(&spec.schema);
    let source = ParquetSource::new(&ctx, spec);
    assert!(source.filter(predicate));
    let cancelled = Cancellation::new(false);
    let mut lanes: Vec<_> = (0..2).map(|lane| (source.local(&ctx, lane).unwrap(), true)).collect();
    let mut batches = vec![RecordBatch::new_empty(Arc::clone(&schema))];
    while lanes.iter().any(|(_, runs)| *runs) {
        for (worker, (lane, runs)) in lanes.iter_mut().enumerate().filter(|(_, (_, runs))| *runs) {
            match lane.next(&TaskContext { worker, cancelled: &cancelled })? {
                SourceStep::Chunk(chunk) => {
                    assert!(!chunk.is_empty() && chunk.len() <= ctx.settings.chunk_capacity);
                    let chunk = chunk.flatten().unwrap();
                    let columns = (0..chunk.num_columns()).map(|column| chunk.column(column).flatten().unwrap());
                    batches.push(RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap());
                }
                SourceStep::Exhausted => *runs = false,
                SourceStep::MorselEnd | SourceStep::Blocked => {}
            }
        }
    }
    drop((lanes, source));
    assert_eq!(ctx.memory.stats().reserved, 0);
    let all = arrow_select::concat::concat_batches(&schema, &batches).unwrap();
    let ids = all.column(0).as_primitive::<Int64Type>();
    let mut order: Vec<u32> = (0..all.num_rows() as u32).collect();
    order.sort_by_key(|&row| ids.value(row as usize));
    Ok(arrow_select::take::take_record_batch(&all, &UInt32Array::from(order)).unwrap())
}

/// What comes out must be those rows of `batch` for which `passes`.
fn assert_rows(found: &RecordBatch, batch: &RecordBatch, passes: impl Fn(usize) -> bool, what: &str) {
    let rows: Vec<u32> = (0..batch.num_rows()).filter(|&row| passes(row)).map(|row| row as u32).collect();
    assert_eq!(found.num_rows(), rows.len(), "{what}");
    let expected = arrow_select::take::take_record_batch(batch, &UInt32Array::from(rows)).unwrap();
    for (index, column) in expected.columns().iter().enumerate() {
        let expected = ogee_vector::normalize_array(column).unwrap();
        assert_eq!(found.column(index), &expected, "{what}, column {index}");
    }
}

fn compare(batch: &RecordBatch, column: &str, op: CompareOp, literal: ArrayRef) -> Expr {
    Expr::Compare { op, column: batch.schema().index_of(column).unwrap(), literal }
}

fn int(value: i32) -> ArrayRef {
    Arc::new(Int32Array::from(vec![value]))
}

/// A function of one column that is no kernel, and counts the values that it was asked about.
#[derive(Debug)]
struct Function {
    columns: [usize; 1],
    asked: Arc<AtomicUsize>,
    of: fn(&ArrayRef) -> Result<BooleanArray, ExecError>,
}

impl ForeignExpr for Function {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn is_volatile(&self) -> bool {
        false
    }

    fn can_fail(&self) -> bool {
        true
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError> {
        assert_eq!(columns[0].len(), rows);
        self.asked.fetch_add(rows, Ordering::Relaxed);
        Ok(Arc::new((self.of)(&columns[0])?))
    }
}

fn function(
    batch: &RecordBatch,
    column: &str,
    of: fn(&ArrayRef) -> Result<BooleanArray, ExecError>,
) -> (Expr, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let columns = [batch.schema().index_of(column).unwrap()];
    (Expr::Foreign(Arc::new(Function { columns, asked: Arc::clone(&asked), of })), asked)
}

fn ends_in_two(words: &ArrayRef) -> Result<BooleanArray, ExecError> {
    Ok(words.as_string_view().iter().map(|word| word.map(|word| word.ends_with('2'))).collect())
}

/// Files of the table in every way that matters to a decoder.
fn files(dir: &Path, batch: &RecordBatch) -> Vec<(String, ParquetFile)> {
    let mut files = Vec::new();
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for compression in
            [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::try_new(1).unwrap())]
        {
            for (dictionary, page_rows) in
                [(None, 700), (Some(1 << 20), 3_000), (Some(4 << 10), 1_000), (Some(1 << 20), 50_000)]
            {
                let properties = WriterProperties::builder()
                    .set_writer_version(version)
                    .set_compression(compression)
                    .set_dictionary_enabled(dictionary.is_some())
                    .set_dictionary_page_size_limit(dictionary.unwrap_or(1 << 20))
                    // Version 2 has encodings of its own where there is no dictionary: plain ones are the scan's, others the library's.
                    .set_column_encoding("price".into(), Encoding::PLAIN)
                    .set_column_encoding("id".into(), Encoding::PLAIN)
                    .set_column_encoding("many".into(), Encoding::PLAIN)
                    .set_data_page_row_count_limit(page_rows)
                    .set_write_batch_size(100)
                    .set_max_row_group_row_count(Some(20_000));
                let name = format!("{version:?}-{compression:?}-{dictionary:?}-{page_rows}");
                files.push((name.clone(), write(&dir.join(name.replace(['(', ')'], "-")), batch, properties)));
            }
        }
    }
    files
}

#[test]
fn rows_that_pass_are_found_whatever_the_file_is_like() {
    let dir = tempfile::tempdir().unwrap();
    let batch = table();
    let few = batch.column(1).as_primitive::<Int32Type>();
    let sorted = |row: usize| row as i32 / 100;
    let few_at = |row: usize| few.is_valid(row).then(|| few.value(row));
    let word = |row: usize| few.is_valid(row).then_some(row % 5);
    let date = |value: i32| -> ArrayRef { Arc::new(Date32Array::from(vec![value])) };
    let price = |value: i128| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(15, 2).unwrap())
    };
    let text = |value: &str| -> ArrayRef { Arc::new(StringViewArray::from(vec![value])) };
    for (name, file) in files(dir.path(), &batch) {
        let check = |predicate: Expr, passes: &dyn Fn(usize) -> bool, what: &str| {
            let found = scan(spec(&file, &batch), &predicate).unwrap();
            assert_rows(&found, &batch, passes, &format!("{name}: {what}"));
        };
        let by = |column, op, literal| compare(&batch, column, op, literal);
        check(by("few", CompareOp::Lt, int(3)), &|row| few_at(row).is_some_and(|few| few < 3), "a few of everywhere");
        check(by("few", CompareOp::Lt, int(0)), &|_| false, "none");
        check(by("id", CompareOp::GtEq, Arc::new(Int64Array::from(vec![0]))), &|_| true, "all");
        check(by("sorted", CompareOp::Eq, date(123)), &|row| sorted(row) == 123, "neighbours");
        check(by("word", CompareOp::Eq, text("w3")), &|row| word(row) == Some(3), "a string");
        let range = Expr::And(vec![
            by("few", CompareOp::GtEq, int(5)),
            by("few", CompareOp::Lt, int(15)),
            by("price", CompareOp::Lt, price(500_000)),
            by("sorted", CompareOp::Gt, date(20)),
        ]);
        let in_range = |row: usize| {
            few_at(row).is_some_and(|few| (5..15).contains(&few)) && mixed(row) < 501_000 && sorted(row) > 20
        };
        check(range.clone(), &in_range, "of several columns");
        let (ends, _) = function(&batch, "word", ends_in_two);
        let (flagged, _) = function(&batch, "flag", |flags| Ok(flags.as_boolean().clone()));
        let all = Expr::And(vec![ends, range, flagged]);
        check(all, &|row| in_range(row) && word(row) == Some(2) && mixed(row).is_multiple_of(2), "with functions");
    }
}

/// Selects the same rows of each row group.
struct Selects(Vec<Range<usize>>);

impl RowPruner for Selects {
    fn prune(&self, _path: &Path, metadata: &ArrowReaderMetadata) -> Result<Vec<RowGroupAccess>, ExecError> {
        let of = |rows: usize| RowSelection::from_consecutive_ranges(self.0.iter().cloned(), rows);
        let groups = metadata.metadata().row_groups();
        Ok(groups.iter().map(|group| RowGroupAccess::Selection(of(group.num_rows() as usize))).collect())
    }

    fn needs_page_index(&self) -> bool {
        true
    }
}

#[test]
fn selected_rows_are_filtered_too() {
    let dir = tempfile::tempdir().unwrap();
    let batch = table();
    let few = batch.column(1).as_primitive::<Int32Type>().clone();
    let selected = vec![3..4, 10..700, 701..5_000, 8_500..8_501, 9_900..9_990];
    for (name, file) in files(dir.path(), &batch) {
        let pruner: Arc<dyn RowPruner> = Arc::new(Selects(selected.clone()));
        let spec = ParquetScanSpec { pruner: Some(pruner), ..spec(&file, &batch) };
        let found = scan(spec, &compare(&batch, "few", CompareOp::Eq, int(7))).unwrap();
        let passes = |row: usize| {
            selected.iter().any(|rows| rows.contains(&(row % 20_000))) && few.is_valid(row) && few.value(row) == 7
        };
        assert_rows(&found, &batch, passes, &name);
    }
}

#[test]
fn a_function_is_asked_once_about_each_value_of_a_dictionary() {
    let dir = tempfile::tempdir().unwrap();
    let batch = table();
    let file = write(&dir.path().join("file"), &batch, WriterProperties::builder());
    let (ends, asked) = function(&batch, "word", ends_in_two);
    assert_rows(
        &scan(spec(&file, &batch), &ends).unwrap(),
        &batch,
        |row| row % 5 == 2 && batch.column(9).is_valid(row),
        "by dictionary",
    );
    // Five values, and NULL, for each of two readers and each time that a batch without NULLs comes between.
    assert!(asked.load(Ordering::Relaxed) < 100, "{asked:?}");
}

#[test]
fn a_function_that_fails_fails_only_for_rows_that_come_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let batch = table();
    let file = write(&dir.path().join("file"), &batch, WriterProperties::builder());
    let fussy = |words: &ArrayRef| {
        let words = words.as_string_view();
        if words.iter().flatten().any(|word| word == "w4") {
            return Err(ExecError::Foreign("w4 is not for me".into()));
        }
        Ok(words.iter().map(|word| word.map(|word| word == "w1")).collect())
    };
    let (alone, _) = function(&batch, "word", fussy);
    assert!(scan(spec(&file, &batch), &alone).unwrap_err().to_string().contains("not for me"));
    // The value is in the dictionary, but no row with it is left.
    let w4: ArrayRef = Arc::new(StringViewArray::from(vec!["w4"]));
    let (guarded, _) = function(&batch, "word", fussy);
    let guarded = Expr::And(vec![guarded, compare(&batch, "word", CompareOp::NotEq, w4)]);
    let found = scan(spec(&file, &batch), &guarded).unwrap();
    assert_rows(&found, &batch, |row| row % 5 == 1 && batch.column(9).is_valid(row), "guarded");
}

#[test]
fn pages_of_which_no_row_passes_are_not_decompressed() {
    let dir = tempfile::tempdir().unwrap();
    let batch = table().project(&[0, 3, 4]).unwrap();
    let path = dir.path().join("file");
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(1_000)
        .set_write_batch_size(1_000);
    let file = write(&path, &batch, properties);
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let metadata = ArrowReaderMetadata::load(&File::open(&path).unwrap(), options).unwrap();
    let pages = metadata.metadata().offset_index().unwrap()[0][2].page_locations().clone();
    assert!(pages.len() > 20);
    // Of all prices but those of the first 10,000 rows nothing is left but the headers.
    let mut bytes = OpenOptions::new().write(true).open(&path).unwrap();
    for page in pages.iter().filter(|page| page.first_row_index >= 10_000) {
        bytes.seek(SeekFrom::Start(page.offset as u64 + 100)).unwrap();
        bytes.write_all(&vec![0xff; page.compressed_page_size as usize - 100]).unwrap();
    }
    let before = |day: i32| compare(&batch, "sorted", CompareOp::Lt, Arc::new(Date32Array::from(vec![day])));
    assert_rows(&scan(spec(&file, &batch), &before(100)).unwrap(), &batch, |row| row < 10_000, "whole pages");
    assert!(scan(spec(&file, &batch), &before(101)).is_err(), "they are damaged");
}

#[test]
fn a_limit_is_not_for_filtered_rows() {
    let dir = tempfile::tempdir().unwrap();
    let batch = table();
    let file = write(&dir.path().join("file"), &batch, WriterProperties::builder());
    let limited = ParquetSource::new(&context(), ParquetScanSpec { limit: Some(5), ..spec(&file, &batch) });
    assert!(!limited.filter(&compare(&batch, "few", CompareOp::Eq, int(1))), "whoever asks filters first");
    let source = ParquetSource::new(&context(), spec(&file, &batch));
    assert!(source.filter(&compare(&batch, "few", CompareOp::Eq, int(1))));
    assert!(!source.filter(&compare(&batch, "few", CompareOp::Eq, int(2))), "one predicate");
}
