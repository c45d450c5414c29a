//! Scans of files that the Parquet library wrote: every row once, in the table's types, within the memory granted.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::BTreeMap,
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array,
    Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray, UInt16Array,
    builder::{Int64Builder, ListBuilder, StringBuilder},
    cast::AsArray,
    types::{Int32Type, Int64Type},
};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use ogee_exec::{
    CompareOp, ExecContext, ExecError, ExecSettings, Expr, OpenPipeline, Query, RangedOutput, Restriction, RowOrder,
    Source, SourceStep, UnionSource,
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scan::{ParquetFile, ParquetScanSpec, ParquetSource, RowGroupAccess, RowPruner};
use ogee_scheduler::{Cancellation, Scheduler, TaskContext};
use ogee_vector::Chunk;
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_reader::{ArrowReaderMetadata, RowSelection, RowSelector},
    },
    basic::{Compression, Encoding},
    file::{
        metadata::{ParquetMetaDataBuilder, ParquetMetaDataWriter},
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder},
    },
};

fn context(limit: usize) -> ExecContext {
    let config = MemoryConfig { limit, counts_process: false, ..MemoryConfig::default() };
    ExecContext::new(BufferManager::new(config).unwrap(), ExecSettings::default())
}

fn roomy() -> ExecContext {
    context(1 << 30)
}

fn write(path: &Path, batches: &[RecordBatch], properties: WriterPropertiesBuilder) -> ParquetFile {
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batches[0].schema(), Some(properties.build())).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
    listed(path)
}

fn listed(path: &Path) -> ParquetFile {
    ParquetFile {
        path: path.to_owned(),
        size: path.metadata().unwrap().len(),
        rows: None,
        row_groups: None,
        partition_values: Vec::new(),
    }
}

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(fields.iter().map(|(name, t)| Field::new(*name, t.clone(), true)).collect::<Vec<_>>()))
}

/// A scan of all columns of `file_schema`.
fn spec(files: Vec<ParquetFile>, file_schema: &SchemaRef) -> ParquetScanSpec {
    ParquetScanSpec {
        files,
        file_schema: Arc::clone(file_schema),
        projection: (0..file_schema.fields().len()).collect(),
        schema: Arc::clone(file_schema),
        domains: Vec::new(),
        pruner: None,
        limit: None,
    }
}

/// What the lanes of a source did.
#[derive(Default)]
struct Outcome {
    chunks: Vec<Chunk>,
    blocked: usize,
}

/// Runs `lanes` lanes of a source, each on a thread of its own, without a scheduler.
fn drive(ctx: &ExecContext, spec: ParquetScanSpec, lanes: usize) -> Result<Outcome, ExecError> {
    drive_source(ctx, ParquetSource::new(ctx, spec), lanes)
}

fn drive_source(ctx: &ExecContext, source: Arc<ParquetSource>, lanes: usize) -> Result<Outcome, ExecError> {
    let schema = source.schema();
    let (blocked, chunks) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // A lane that fails stops the others, as the scheduler would.
    let failed = AtomicUsize::new(0);
    let lane = |lane: usize| -> Result<(), ExecError> {
        let cancelled = Cancellation::new(false);
        let task = TaskContext { worker: lane, cancelled: &cancelled };
        let mut local = source.local(ctx, lane)?;
        while failed.load(Ordering::Relaxed) == 0 {
            match local.next(&task).inspect_err(|_| failed.store(1, Ordering::Relaxed))? {
                SourceStep::Chunk(chunk) => {
                    assert!(!chunk.is_empty() && chunk.len() <= ctx.settings.chunk_capacity);
                    assert_eq!(chunk.num_columns(), schema.fields().len());
                    for (index, field) in schema.fields().iter().enumerate() {
                        assert_eq!(chunk.column(index).array.data_type(), field.data_type());
                    }
                    chunks.lock().unwrap().push(chunk);
                }
                SourceStep::MorselEnd => {}
                SourceStep::Blocked => {
                    blocked.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
                SourceStep::Exhausted => break,
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes)
            .map(|l| {
                scope.spawn({
                    let lane = &lane;
                    move || lane(l)
                })
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(Outcome { chunks: chunks.into_inner().unwrap(), blocked: blocked.into_inner() })
}

impl Outcome {
    fn rows(&self) -> usize {
        self.chunks.iter().map(Chunk::len).sum()
    }

    fn column(&self, index: usize) -> ArrayRef {
        let arrays: Vec<ArrayRef> = self.chunks.iter().map(|c| c.column(index).flatten().unwrap()).collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        arrow_select::concat::concat(&arrays).unwrap()
    }

    fn sorted_i64(&self, index: usize) -> Vec<i64> {
        let mut values: Vec<i64> = self.column(index).as_primitive::<Int64Type>().values().to_vec();
        values.sort_unstable();
        values
    }
}

/// `rows` rows: their number, and a string that goes with it.
fn numbered(rows: Range<i64>) -> RecordBatch {
    let text = StringArray::from_iter_values(rows.clone().map(|row| format!("row {row} of the file")));
    RecordBatch::try_from_iter([
        ("number", Arc::new(Int64Array::from_iter_values(rows)) as ArrayRef),
        ("text", Arc::new(text) as ArrayRef),
    ])
    .unwrap()
}

fn numbered_schema() -> SchemaRef {
    schema(&[("number", DataType::Int64), ("text", DataType::Utf8View)])
}

fn assert_numbered(outcome: &Outcome, expected: impl Iterator<Item = i64>) {
    assert!(outcome.sorted_i64(0).into_iter().eq(expected));
    for chunk in &outcome.chunks {
        let (numbers, texts) = (chunk.column(0).flatten().unwrap(), chunk.column(1).flatten().unwrap());
        for (number, text) in numbers.as_primitive::<Int64Type>().values().iter().zip(texts.as_string_view()) {
            assert_eq!(text, Some(format!("row {number} of the file").as_str()));
        }
    }
}

fn row_groups_of(rows: usize) -> WriterPropertiesBuilder {
    WriterProperties::builder().set_max_row_group_row_count(Some(rows)).set_compression(Compression::SNAPPY)
}

#[test]
fn every_type_comes_in_its_normalized_form_with_its_nulls() {
    let dir = tempfile::tempdir().unwrap();
    let mut lists = ListBuilder::new(Int64Builder::new());
    lists.append_value([Some(1), None]);
    lists.append_null();
    lists.append_value([]);
    let mut words = ListBuilder::new(StringBuilder::new());
    words.append_value([Some("a"), Some("a string that is too long to be inlined")]);
    words.append_value([None::<&str>]);
    words.append_null();
    let structs = StructArray::from(vec![
        (
            Arc::new(Field::new("x", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("y", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec![Some("p"), Some("q"), None])) as ArrayRef,
        ),
    ]);
    let dictionary: DictionaryArray<Int32Type> = vec![Some("red"), None, Some("red")].into_iter().collect();
    let lists: ListArray = lists.finish();
    let words: ListArray = words.finish();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("boolean", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("u16", Arc::new(UInt16Array::from(vec![Some(65_535), None, Some(0)]))),
        ("i32", Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(7)]))),
        ("i64", Arc::new(Int64Array::from(vec![None, Some(i64::MAX), Some(-1)]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(-0.0)]))),
        (
            "short",
            Arc::new(Decimal128Array::from(vec![Some(12_345), None, Some(-1)]).with_precision_and_scale(9, 2).unwrap()),
        ),
        (
            "long",
            Arc::new(
                Decimal128Array::from(vec![Some(i128::MAX / 10), None, Some(0)])
                    .with_precision_and_scale(38, 4)
                    .unwrap(),
            ),
        ),
        ("date", Arc::new(Date32Array::from(vec![Some(0), None, Some(20_000)]))),
        ("time", Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None, Some(-1)]).with_timezone("UTC"))),
        ("text", Arc::new(StringArray::from(vec![Some("short"), None, Some("longer than twelve bytes")]))),
        ("bytes", Arc::new(BinaryArray::from(vec![Some(&[0, 159, 146][..]), None, Some(b"")]))),
        ("dictionary", Arc::new(dictionary)),
        ("list", Arc::new(lists)),
        ("words", Arc::new(words)),
        ("struct", Arc::new(structs)),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.iter().map(|(n, a)| (*n, Arc::clone(a), true))).unwrap();
    let file = write(&dir.path().join("types.parquet"), std::slice::from_ref(&batch), WriterProperties::builder());
    let normalized = ogee_vector::normalize_schema(&batch.schema());
    assert_eq!(normalized.field(9).data_type(), &DataType::Utf8View);
    assert_eq!(normalized.field(11).data_type(), &DataType::Utf8View);

    let outcome = drive(&roomy(), spec(vec![file], &normalized), 1).unwrap();
    assert_eq!(outcome.rows(), 3);
    for (index, (name, array)) in columns.iter().enumerate() {
        let expected = ogee_vector::normalize_array(array).unwrap();
        assert_eq!(&outcome.column(index), &expected, "{name}");
    }
}

#[test]
fn codes_of_a_dictionary_are_the_selection() {
    let dir = tempfile::tempdir().unwrap();
    let word = |row: usize| (row % 11 != 3).then(|| format!("word {}{}", row % 7, " of many".repeat(row % 3)));
    let bytes = |row: usize| Some(vec![(row % 3) as u8; row % 3]);
    let columns = |rows: Range<usize>| {
        let few: StringArray = rows.clone().map(word).collect();
        let required = StringArray::from_iter_values(rows.clone().map(|row| format!("{}", row % 5)));
        // More than a dictionary page takes in the second row group.
        let many: StringArray = rows.clone().map(|row| Some(format!("{}", row.saturating_sub(9_000)))).collect();
        let none: StringArray = rows.clone().map(|_| None::<&str>).collect();
        let binary: BinaryArray = rows.map(bytes).collect();
        let arrays: Vec<(&str, ArrayRef)> = vec![
            ("few", Arc::new(few)),
            ("required", Arc::new(required)),
            ("many", Arc::new(many)),
            ("none", Arc::new(none)),
            ("binary", Arc::new(binary)),
        ];
        RecordBatch::try_from_iter(arrays).unwrap()
    };
    let properties = row_groups_of(10_000).set_dictionary_page_size_limit(4096);
    let path = dir.path().join("dictionaries.parquet");
    let file = write(&path, &[columns(0..25_000)], properties);
    let text = DataType::Utf8View;
    let schema = schema(&[
        ("few", text.clone()),
        ("required", text.clone()),
        ("many", text.clone()),
        ("none", text),
        ("binary", DataType::BinaryView),
    ]);
    let outcome = drive(&roomy(), spec(vec![file], &schema), 1).unwrap();
    for chunk in &outcome.chunks {
        let dictionary = |column: usize| chunk.column(column).selection.map(|_| chunk.column(column).array.len());
        assert!(dictionary(0).is_some_and(|values| values <= 22), "values and NULL, not rows");
        assert_eq!(dictionary(1), Some(5));
        assert_eq!(dictionary(2), None, "not all pages have codes");
        assert_eq!(dictionary(4), Some(3));
    }
    let expected = columns(0..25_000);
    for (index, column) in expected.columns().iter().enumerate() {
        let expected = ogee_vector::normalize_array(column).unwrap();
        assert_eq!(&outcome.column(index), &expected, "column {index}");
    }
}

#[test]
fn every_row_once_for_any_number_of_lanes_row_groups_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<ParquetFile> = (0..5)
        .map(|i| {
            let path = dir.path().join(format!("{i}.parquet"));
            write(&path, &[numbered(i * 10_000..(i + 1) * 10_000)], row_groups_of(3_000))
        })
        .collect();
    for lanes in 1..=8 {
        let outcome = drive(&roomy(), spec(files.clone(), &numbered_schema()), lanes).unwrap();
        assert_numbered(&outcome, 0..50_000);
    }
}

#[test]
fn one_huge_row_group_is_shared_by_all_lanes() {
    let dir = tempfile::tempdir().unwrap();
    let rows = 300_001;
    let path = dir.path().join("huge.parquet");
    // With and without an offset index that tells where pages begin.
    for offset_index in [false, true] {
        let properties = row_groups_of(1 << 20).set_offset_index_disabled(!offset_index);
        let properties = properties.set_statistics_enabled(EnabledStatistics::None);
        let file = write(&path, &[numbered(0..rows)], properties);
        for lanes in [1, 2, 3, 8] {
            let outcome = drive(&roomy(), spec(vec![file.clone()], &numbered_schema()), lanes).unwrap();
            assert_numbered(&outcome, 0..rows);
        }
    }
    // Lanes in lockstep: none has less than half of its share.
    let ctx = roomy();
    let source = ParquetSource::new(&ctx, spec(vec![listed(&path)], &numbered_schema()));
    let cancelled = Cancellation::new(false);
    let mut lanes: Vec<_> = (0..4).map(|lane| (source.local(&ctx, lane).unwrap(), 0, false)).collect();
    while lanes.iter().any(|(.., ended)| !ended) {
        for (worker, (lane, rows, ended)) in lanes.iter_mut().enumerate().filter(|(_, (.., ended))| !ended) {
            match lane.next(&TaskContext { worker, cancelled: &cancelled }).unwrap() {
                SourceStep::Chunk(chunk) => *rows += chunk.len(),
                SourceStep::Exhausted => *ended = true,
                SourceStep::MorselEnd | SourceStep::Blocked => {}
            }
        }
    }
    assert_eq!(lanes.iter().map(|(_, rows, _)| rows).sum::<usize>(), 300_001);
    assert!(lanes.iter().all(|&(_, found, _)| found > 300_001 / 8), "a lane was idle");
}

#[test]
fn lists_of_a_split_row_group_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let rows = 150_000i64;
    let mut lists = ListBuilder::new(Int64Builder::new());
    for row in 0..rows {
        (0..row % 4).for_each(|i| lists.values().append_value(row + i));
        lists.append(row % 5 != 0);
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("number", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef, false),
        ("list", Arc::clone(&lists), true),
    ])
    .unwrap();
    let table = ogee_vector::normalize_schema(&batch.schema());
    let file =
        write(&dir.path().join("lists.parquet"), &[batch], row_groups_of(1 << 20).set_offset_index_disabled(true));
    let outcome = drive(&roomy(), spec(vec![file], &table), 4).unwrap();
    assert!(outcome.sorted_i64(0).into_iter().eq(0..rows));
    let lists = lists.as_list::<i32>();
    for chunk in &outcome.chunks {
        let (numbers, found) =
            (chunk.column(0).array.as_primitive::<Int64Type>(), chunk.column(1).array.as_list::<i32>());
        for (i, &number) in numbers.values().iter().enumerate() {
            let row = usize::try_from(number).unwrap();
            assert_eq!(found.is_null(i), lists.is_null(row));
            assert!(found.is_null(i) || found.value(i) == lists.value(row));
        }
    }
}

#[test]
fn columns_are_found_by_name_cast_repeated_or_null() {
    let dir = tempfile::tempdir().unwrap();
    // In the table: a BIGINT, b text, c DOUBLE; partition p.
    let first = RecordBatch::try_from_iter([
        ("b", Arc::new(StringArray::from(vec!["x", "y"])) as ArrayRef),
        ("unknown", Arc::new(Int32Array::from(vec![0, 0])) as ArrayRef),
        ("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
    ])
    .unwrap();
    let second = RecordBatch::try_from_iter([("c", Arc::new(Float64Array::from(vec![0.5])) as ArrayRef)]).unwrap();
    let mut files = vec![
        write(&dir.path().join("1.parquet"), &[first], WriterProperties::builder()),
        write(&dir.path().join("2.parquet"), &[second], WriterProperties::builder()),
    ];
    files[0].partition_values = vec![Arc::new(StringArray::from(vec!["a partition beyond twelve"]))];
    files[1].partition_values = vec![Arc::new(StringArray::from(vec![None::<&str>]))];
    let table = schema(&[("a", DataType::Int64), ("b", DataType::Utf8View), ("c", DataType::Float64)]);
    let output = schema(&[
        ("p", DataType::Utf8View),
        ("c", DataType::Float64),
        ("a", DataType::Int64),
        ("b", DataType::Utf8View),
    ]);
    let mut scan = ParquetScanSpec { projection: vec![3, 2, 0, 1], schema: output, ..spec(files, &table) };
    let outcome = drive(&roomy(), scan.clone(), 1).unwrap();
    assert_eq!(
        outcome.column(0).as_string_view(),
        &StringViewArray::from(vec![Some("a partition beyond twelve"), Some("a partition beyond twelve"), None])
    );
    assert_eq!(*outcome.column(1), Float64Array::from(vec![None, None, Some(0.5)]));
    assert_eq!(*outcome.column(2), Int64Array::from(vec![Some(1), Some(2), None]));
    assert_eq!(outcome.column(3).as_string_view(), &StringViewArray::from(vec![Some("x"), Some("y"), None]));

    // No column of any file.
    scan.projection = vec![3];
    scan.schema = schema(&[("p", DataType::Utf8View)]);
    let outcome = drive(&roomy(), scan, 1).unwrap();
    assert_eq!(outcome.column(0).null_count(), 1);
    assert_eq!(outcome.rows(), 3);
}

#[test]
fn a_value_that_does_not_fit_the_table_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1 << 40])) as ArrayRef)]).unwrap();
    let file = write(&dir.path().join("big.parquet"), &[batch], WriterProperties::builder());
    let error = drive(&roomy(), spec(vec![file], &schema(&[("a", DataType::Int32)])), 1).err().unwrap().to_string();
    assert!(error.contains("big.parquet") && error.contains("column 'a' holds Int64"), "{error}");
}

/// Decides by the file's name and the row group's number.
struct Decisions {
    accesses: BTreeMap<&'static str, Vec<RowGroupAccess>>,
    page_index: bool,
    calls: Mutex<Vec<PathBuf>>,
}

impl Decisions {
    fn new(accesses: impl IntoIterator<Item = (&'static str, Vec<RowGroupAccess>)>, page_index: bool) -> Arc<Self> {
        Arc::new(Self { accesses: accesses.into_iter().collect(), page_index, calls: Mutex::default() })
    }
}

impl RowPruner for Decisions {
    fn prune(&self, path: &Path, metadata: &ArrowReaderMetadata) -> Result<Vec<RowGroupAccess>, ExecError> {
        assert_eq!(metadata.metadata().offset_index().is_some(), self.page_index);
        assert!(metadata.metadata().row_group(0).column(0).statistics().is_some());
        self.calls.lock().unwrap().push(path.to_owned());
        Ok(self.accesses[path.file_name().unwrap().to_str().unwrap()].clone())
    }

    fn needs_page_index(&self) -> bool {
        self.page_index
    }
}

#[test]
fn pruned_row_groups_and_rows_are_not_produced() {
    let dir = tempfile::tempdir().unwrap();
    let files = vec![
        write(&dir.path().join("0"), &[numbered(0..300_000)], row_groups_of(100_000)),
        write(&dir.path().join("1"), &[numbered(300_000..600_000)], row_groups_of(300_000)),
    ];
    let selection = |parts: &[(usize, bool)]| -> RowGroupAccess {
        let selectors =
            parts.iter().map(|&(rows, skip)| if skip { RowSelector::skip(rows) } else { RowSelector::select(rows) });
        RowGroupAccess::Selection(RowSelection::from(selectors.collect::<Vec<_>>()))
    };
    for page_index in [false, true] {
        let pruner = Decisions::new(
            [
                (
                    "0",
                    vec![
                        RowGroupAccess::Scan,
                        RowGroupAccess::Skip,
                        selection(&[(99_990, true), (3, false), (7, true)]),
                    ],
                ),
                ("1", vec![selection(&[(1, true), (250_000, false), (10, true), (9, false)])]),
            ],
            page_index,
        );
        let expected = || (0..100_000).chain(299_990..299_993).chain(300_001..550_001).chain(550_011..550_020);
        let scan = || ParquetScanSpec { pruner: Some(pruner.clone()), ..spec(files.clone(), &numbered_schema()) };
        for lanes in [1, 2, 8] {
            assert_numbered(&drive(&roomy(), scan(), lanes).unwrap(), expected());
        }
        // Only counted.
        let count = ParquetScanSpec { projection: vec![], schema: schema(&[]), ..scan() };
        assert_eq!(drive(&roomy(), count, 2).unwrap().rows(), expected().count());
        assert_eq!(pruner.calls.lock().unwrap().len(), 4 * 2, "once per file and scan");
    }
}

#[test]
fn rows_that_a_selection_scatters_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(&dir.path().join("0"), &[numbered(0..200_000)], row_groups_of(200_000));
    // Every seventh row: the library may turn this into a mask.
    let parts: Vec<RowSelector> =
        (0..200_000).map(|row| if row % 7 == 0 { RowSelector::select(1) } else { RowSelector::skip(1) }).collect();
    let pruner = Decisions::new([("0", vec![RowGroupAccess::Selection(parts.into())])], true);
    for lanes in [1, 2] {
        let scan = ParquetScanSpec { pruner: Some(pruner.clone()), ..spec(vec![file.clone()], &numbered_schema()) };
        assert_numbered(&drive(&roomy(), scan, lanes).unwrap(), (0..200_000).step_by(7));
    }
}

#[test]
fn byte_ranges_divide_the_row_groups_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(&dir.path().join("ranges"), &[numbered(0..50_000)], row_groups_of(7_000));
    let cut = file.size / 3;
    let part = |row_groups: Range<u64>| ParquetFile { row_groups: Some(row_groups), ..file.clone() };
    let parts = [part(0..cut), part(cut..2 * cut), part(2 * cut..file.size)];
    for one in &parts {
        let rows = drive(&roomy(), spec(vec![one.clone()], &numbered_schema()), 1).unwrap().rows();
        assert!(rows > 0 && rows < 50_000);
    }
    assert_numbered(&drive(&roomy(), spec(parts.to_vec(), &numbered_schema()), 3).unwrap(), 0..50_000);
}

#[test]
fn row_groups_beyond_a_restriction_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(&dir.path().join("restricted"), &[numbered(0..200_000)], row_groups_of(50_000));
    let cases = [(Some((60_000, 120_000)), 100_000), (Some((1, 0)), 0), (Some((-5, 0)), 50_000), (None, 200_000)];
    for (range, expected) in cases {
        let ctx = roomy();
        let source = ParquetSource::new(&ctx, spec(vec![file.clone()], &numbered_schema()));
        let restriction = Arc::new(Restriction::default());
        source.restrict(&[0], &restriction);
        if range.is_some() {
            restriction.set(vec![range]);
        }
        assert_eq!(drive_source(&ctx, source, 2).unwrap().rows(), expected, "{range:?}");
    }
    let limited = ParquetScanSpec { limit: Some(5), ..spec(vec![file], &numbered_schema()) };
    let ctx = roomy();
    let (source, nothing) = (ParquetSource::new(&ctx, limited), Arc::new(Restriction::default()));
    source.restrict(&[0], &nothing);
    nothing.set(vec![Some((1, 0))]);
    assert_eq!(drive_source(&ctx, source, 1).unwrap().rows(), 5, "any rows will do for a limit");
}

#[test]
fn a_limit_is_kept_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(&dir.path().join("limit"), &[numbered(0..200_000)], row_groups_of(50_000));
    for (limit, lanes) in [(0, 1), (1, 1), (5, 4), (8_192, 2), (123_456, 4), (200_000, 2), (300_000, 2)] {
        let scan = ParquetScanSpec { limit: Some(limit), ..spec(vec![file.clone()], &numbered_schema()) };
        let rows = drive(&roomy(), scan.clone(), lanes).unwrap().rows() as u64;
        assert_eq!(rows, limit.min(200_000));
        let count = ParquetScanSpec { projection: vec![], schema: schema(&[]), ..scan };
        assert_eq!(drive(&roomy(), count, lanes).unwrap().rows() as u64, limit.min(200_000));
    }
}

#[test]
fn counting_reads_no_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("count");
    let file = write(&path, &[numbered(0..100_000)], row_groups_of(30_000));
    // Pages overwritten with zeros; the footer stays.
    let mut bytes = std::fs::read(&path).unwrap();
    let footer = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let pages = bytes.len() - 8 - footer;
    bytes[4..pages].fill(0);
    std::fs::write(&path, bytes).unwrap();
    let count =
        ParquetScanSpec { projection: vec![], schema: schema(&[]), ..spec(vec![file.clone()], &numbered_schema()) };
    let outcome = drive(&roomy(), count, 2).unwrap();
    assert_eq!(outcome.rows(), 100_000);
    assert!(outcome.chunks.iter().all(|chunk| chunk.num_columns() == 0));
    // Reading is another matter.
    let error = drive(&roomy(), spec(vec![file], &numbered_schema()), 2).err().unwrap();
    assert!(matches!(&error, ExecError::Source { path, .. } if path.ends_with("count")), "{error}");
}

#[test]
fn damaged_files_are_errors_that_name_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.parquet");
    let file = write(&path, &[numbered(0..100_000)], row_groups_of(100_000));
    let bytes = std::fs::read(&path).unwrap();
    let attempt = |bytes: &[u8], listed_as: u64| {
        std::fs::write(&path, bytes).unwrap();
        let file = ParquetFile { size: listed_as, ..file.clone() };
        let error = drive(&roomy(), spec(vec![file], &numbered_schema()), 2).err().unwrap();
        assert!(error.code().starts_with("OGEE_R"), "{error}");
        let text = error.to_string();
        assert!(text.contains("damaged.parquet"), "{text}");
        text
    };
    let half = &bytes[..bytes.len() / 2];
    assert!(attempt(half, file.size).contains("truncated"));
    assert!(attempt(half, half.len() as u64).contains("truncated"));
    assert!(attempt(&[], 0).contains("cannot be read as Parquet"));
    assert!(attempt(b"PAR1", 4).contains("cannot be read as Parquet"));
    assert!(attempt(b"a,b\n1,2\n3,4\n5,6\n7,8\n", 20).contains("cannot be read as Parquet"));
    // The front is cut off: the footer is whole but points past the end.
    let tail = &bytes[bytes.len() * 3 / 4..];
    assert!(attempt(tail, tail.len() as u64).contains("truncated"));

    std::fs::remove_file(&path).unwrap();
    let error = drive(&roomy(), spec(vec![file.clone()], &numbered_schema()), 1).err().unwrap().to_string();
    assert!(error.contains("damaged.parquet") && error.contains("cannot open the file"), "{error}");
}

/// A file whose only column chunk has the pages of two, each with its dictionary, one behind the other.
fn two_dictionaries(path: &Path, batch: &RecordBatch) -> ParquetFile {
    let properties = row_groups_of(batch.num_rows()).set_dictionary_enabled(true);
    write(path, &[batch.clone(), batch.clone()], properties);
    let file = File::open(path).unwrap();
    let metadata = ArrowReaderMetadata::load(&file, Default::default()).unwrap().metadata().as_ref().clone();
    let groups = metadata.row_groups();
    let (first, second) = (groups[0].column(0), groups[1].column(0));
    let (start, len) = first.byte_range();
    assert_eq!(second.byte_range().0, start + len, "nothing is in between");
    let column = first
        .clone()
        .into_builder()
        .set_num_values(2 * first.num_values())
        .set_total_compressed_size(first.compressed_size() + second.compressed_size())
        .set_total_uncompressed_size(first.uncompressed_size() + second.uncompressed_size())
        .clear_statistics()
        .set_column_index_offset(None)
        .set_column_index_length(None)
        .set_offset_index_offset(None)
        .set_offset_index_length(None)
        .build()
        .unwrap();
    let group = groups[0].clone().into_builder().set_num_rows(2 * groups[0].num_rows());
    let group = group.set_column_metadata(vec![column]).build().unwrap();
    let pages_end = usize::try_from(second.byte_range().0 + second.byte_range().1).unwrap();
    let metadata = ParquetMetaDataBuilder::new(metadata.file_metadata().clone()).add_row_group(group).build();
    let mut bytes = std::fs::read(path).unwrap();
    bytes.truncate(pages_end);
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish().unwrap();
    std::fs::write(path, bytes).unwrap();
    listed(path)
}

#[test]
fn a_second_dictionary_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let texts = |rows: i64| (0..rows).map(|row| format!("a value that is not inlined, {}", row % 50));
    let columns: [ArrayRef; 2] = [
        Arc::new(StringViewArray::from_iter_values(texts(1000))),
        Arc::new(Int64Array::from_iter_values((0..1000).map(|row| row % 50))),
    ];
    for (at, column) in columns.into_iter().enumerate() {
        let batch = RecordBatch::try_from_iter([("column", column)]).unwrap();
        let file = two_dictionaries(&dir.path().join(format!("second{at}.parquet")), &batch);
        let error = drive(&roomy(), spec(vec![file], &batch.schema()), 1).err().unwrap().to_string();
        assert!(error.contains("second dictionary") && error.contains(&format!("second{at}.parquet")), "{error}");
    }
}

/// A number as page headers have it.
fn zigzag(number: i32) -> Vec<u8> {
    let mut rest = (number << 1 ^ number >> 31).cast_unsigned();
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// A field of a page header, of which the one before has the number before.
fn next_field(number: i32) -> Vec<u8> {
    [vec![0x15], zigzag(number)].concat()
}

/// A page of `values` values, plain, behind a header that says it has `uncompressed` bytes, and `more` at its end. `levels`: how its levels are encoded.
fn page(kind: i32, values: i32, uncompressed: i32, levels: i32, bytes: &[u8], more: &[u8]) -> Vec<u8> {
    let sizes = [next_field(kind), next_field(uncompressed), next_field(bytes.len() as i32)].concat();
    let of_kind = match kind {
        // Field 5, a struct: values, encoding, and those of levels.
        0 => [vec![0x2c], next_field(values), next_field(0), next_field(levels), next_field(3), vec![0]].concat(),
        // Field 7, a struct: values, encoding.
        _ => [vec![0x4c], next_field(values), next_field(0), vec![0]].concat(),
    };
    [&sizes, &of_kind, more, &[0], bytes].concat()
}

/// A file with `column`, whose pages are `pages` and are said to be compressed by `compression`. Those before `data` are a dictionary.
fn crafted(path: &Path, column: &ArrayRef, compression: Compression, pages: &[u8], data: usize) -> ParquetFile {
    crafted_of(path, column, compression, &[Encoding::PLAIN, Encoding::RLE], pages, data)
}

/// The same, whose footer says that its pages have these encodings.
fn crafted_of(
    path: &Path,
    column: &ArrayRef,
    compression: Compression,
    encodings: &[Encoding],
    pages: &[u8],
    data: usize,
) -> ParquetFile {
    let field = Field::new("column", column.data_type().clone(), column.is_nullable());
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(schema, vec![Arc::clone(column)]).unwrap();
    write(path, &[batch], row_groups_of(column.len()).set_dictionary_enabled(false));
    let metadata = ArrowReaderMetadata::load(&File::open(path).unwrap(), Default::default()).unwrap();
    let group = &metadata.metadata().row_groups()[0];
    let start = group.column(0).byte_range().0;
    let column = group.column(0).clone().into_builder().set_compression(compression);
    let column = column
        .set_dictionary_page_offset((data > 0).then_some(start as i64))
        .set_data_page_offset((start + data as u64) as i64)
        .set_total_compressed_size(pages.len() as i64)
        .set_encodings(encodings.to_vec())
        .clear_statistics()
        .set_column_index_offset(None)
        .set_column_index_length(None)
        .set_offset_index_offset(None)
        .set_offset_index_length(None)
        .build()
        .unwrap();
    let group = group.clone().into_builder().set_column_metadata(vec![column]).build().unwrap();
    let footer = metadata.metadata().file_metadata().clone();
    let metadata = ParquetMetaDataBuilder::new(footer).add_row_group(group).build();
    let mut bytes = std::fs::read(path).unwrap();
    bytes.truncate(usize::try_from(start).unwrap());
    bytes.extend(pages);
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish().unwrap();
    std::fs::write(path, bytes).unwrap();
    listed(path)
}

/// The rows of a crafted file, or what is wrong with it.
fn read_crafted(column: &ArrayRef, compression: Compression, pages: &[u8], data: usize) -> Result<usize, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = crafted(&dir.path().join("crafted.parquet"), column, compression, pages, data);
    read_file(column, file)
}

/// The rows of a file with that column, or what is wrong with it.
fn read_file(column: &ArrayRef, file: ParquetFile) -> Result<usize, String> {
    let schema = Arc::new(Schema::new(vec![Field::new("column", column.data_type().clone(), true)]));
    let ctx = context(64 << 20);
    let outcome = drive(&ctx, spec(vec![file], &schema), 1);
    assert_eq!(ctx.memory.stats().reserved, 0, "all is given back");
    outcome.map(|outcome| outcome.chunks.iter().map(Chunk::len).sum()).map_err(|error| {
        let error = error.to_string();
        assert!(error.contains("crafted.parquet"), "{error}");
        error
    })
}

#[test]
fn pages_that_lie_about_their_sizes_are_damaged() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let plain: Vec<u8> = (0..100i64).flat_map(i64::to_le_bytes).collect();
    let honest = page(0, 100, 800, 3, &plain, &[]);
    assert_eq!(read_crafted(&numbers, Compression::UNCOMPRESSED, &honest, 0), Ok(100));
    // The size once more, 2 GiB: the library believes it.
    let twice = page(0, 100, 800, 3, &plain, &[&[0x05, 0x04][..], &zigzag(i32::MAX)].concat());
    let error = read_crafted(&numbers, Compression::UNCOMPRESSED, &twice, 0).unwrap_err();
    assert!(error.contains("header not understood"), "{error}");
    // 64 MiB of zeros that are said to be 800 bytes, of a column that is decoded here and of one that the library decodes.
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let flags: ArrayRef = Arc::new(BooleanArray::from_iter((0..100).map(|_| Some(false))));
    for (column, size) in [(&numbers, 800), (&flags, 13)] {
        let compression = Compression::GZIP(Default::default());
        let honest = page(0, 100, size, 3, &gzip(&vec![0; size as usize]), &[]);
        assert_eq!(read_crafted(column, compression, &honest, 0), Ok(100));
        for real in [64 << 20, size as usize + 1, size as usize - 1] {
            let bomb = page(0, 100, size, 3, &gzip(&vec![0; real]), &[]);
            let error = read_crafted(column, compression, &bomb, 0).unwrap_err();
            assert!(error.contains("column 'column' of row group 0") && error.contains("size"), "{error}");
        }
    }
}

#[test]
fn lists_of_a_made_up_length_are_damaged() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let plain: Vec<u8> = (0..100i64).flat_map(i64::to_le_bytes).collect();
    // Two billion booleans in a field that nobody knows, which the library skips one by one, and as many lists of them.
    let booleans = [0x59, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    let lists = [&[0x59, 0xf9, 0xff, 0xff, 0xff, 0xff, 0x07][..], &[0xf1, 0xff, 0xff, 0xff, 0xff, 0x07].repeat(100)];
    for field in [booleans.to_vec(), lists.concat()] {
        let pages = page(0, 100, 800, 3, &plain, &field);
        let error = read_crafted(&numbers, Compression::UNCOMPRESSED, &pages, 0).unwrap_err();
        assert!(error.contains("header not understood"), "{error}");
    }
    // A field that nobody knows is no damage.
    let pages = page(0, 100, 800, 3, &plain, &[0x55, 0x02]);
    assert_eq!(read_crafted(&numbers, Compression::UNCOMPRESSED, &pages, 0), Ok(100));
}

#[test]
fn lengths_of_a_made_up_count_are_damaged() {
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..100).map(|_| "abc")));
    // A block of 128 equal numbers.
    let equal = |count: &[u8], number: i32| [&[0x80, 1, 4], count, &zigzag(number), &[0; 5]].concat();
    let bytes = "abc".repeat(100).into_bytes();
    let many: &[u8] = &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40];
    let read = |encoding: i32, lengths: &[Vec<u8>]| {
        let values = [lengths.concat(), bytes.clone()].concat();
        let size = values.len() as i32;
        let sizes = [next_field(0), next_field(size), next_field(size)].concat();
        let of_kind =
            [vec![0x2c], next_field(100), next_field(encoding), next_field(3), next_field(3), vec![0]].concat();
        let pages = [sizes, of_kind, vec![0], values].concat();
        let encodings = [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("crafted.parquet");
        read_file(&texts, crafted_of(&path, &texts, Compression::UNCOMPRESSED, &encodings, &pages, 0))
    };
    // Lengths alone; those of prefixes and of suffixes.
    assert_eq!(read(6, &[equal(&[100], 3)]), Ok(100));
    assert_eq!(read(7, &[equal(&[100], 0), equal(&[100], 3)]), Ok(100));
    for (encoding, lengths) in [
        (6, vec![equal(many, 3)]),
        (7, vec![equal(many, 0), equal(&[100], 3)]),
        (7, vec![equal(&[100], 0), equal(many, 3)]),
    ] {
        let error = read(encoding, &lengths).unwrap_err();
        assert!(error.contains("lengths are not those of the page's values"), "{error}");
    }
}

#[test]
fn footers_that_lie_are_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("footer.parquet");
    write(&path, &[numbered(0..100)], row_groups_of(100));
    let whole = std::fs::read(&path).unwrap();
    let tail = whole.len() - 8;
    let len = u32::from_le_bytes(whole[tail..tail + 4].try_into().unwrap()) as usize;
    let memory = roomy().memory;
    let read = |front: &[u8], footer: &[u8], len: u32| {
        let bytes = [front, footer, &len.to_le_bytes(), b"PAR1"].concat();
        std::fs::write(&path, &bytes).unwrap();
        ogee_scan::read_footer(&memory, &path, bytes.len() as u64).map_err(|error| error.to_string())
    };
    let (front, footer) = (&whole[..tail - len], &whole[tail - len..tail]);
    assert_eq!(read(front, footer, len as u32).unwrap().num_row_groups(), 1);
    let error = |front: &[u8], footer: &[u8], len| {
        let error = read(front, footer, len).unwrap_err();
        assert!(error.contains("footer.parquet") && error.contains("cannot be read as Parquet"), "{error}");
        error
    };
    assert!(error(front, footer, u32::MAX).contains("longer than the file"));
    for end in 0..len {
        error(front, &footer[..end], end as u32);
    }
    // Two billion booleans in a field that nobody knows.
    let booleans = [&footer[..len - 1], &[0xf9, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0]].concat();
    assert!(error(front, &booleans, booleans.len() as u32).contains("not understood"));
    // Page indexes of two billion pages, in the place of those that are there.
    let metadata = read(front, footer, len as u32).unwrap();
    let column = metadata.row_group(0).column(0);
    let place = usize::try_from(column.offset_index_offset().unwrap()).unwrap();
    let mut pages = front.to_vec();
    pages[place..place + 7].copy_from_slice(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]);
    assert!(error(&pages, footer, len as u32).contains("page index is not understood"));
    assert_eq!(memory.stats().reserved, 0, "all is given back");
}

#[test]
fn dictionaries_that_lie_about_their_values_are_damaged() {
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..100).map(|n| format!("text {n}"))));
    // Two billion values in eight bytes: room for them must not be asked for.
    let dictionary = page(2, i32::MAX, 8, 0, &[4, 0, 0, 0, b't', b'e', b'x', b't'], &[]);
    let plain: Vec<u8> = (0..100).flat_map(|_| [1, 0, 0, 0, b'x']).collect();
    let pages = [&dictionary[..], &page(0, 100, 500, 3, &plain, &[])].concat();
    let error = read_crafted(&texts, Compression::UNCOMPRESSED, &pages, dictionary.len()).unwrap_err();
    assert!(error.contains("fewer values than its header says"), "{error}");
}

#[test]
fn decimals_have_no_more_digits_than_their_type() {
    let of = |numbers: &[i64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let decimals = Decimal128Array::from_iter_values([1, 2, 3]).with_precision_and_scale(15, 2).unwrap();
    let decimals: ArrayRef = Arc::new(decimals);
    let most = 999_999_999_999_999;
    let read =
        |numbers: &[i64]| read_crafted(&decimals, Compression::UNCOMPRESSED, &page(0, 3, 24, 3, &of(numbers), &[]), 0);
    assert_eq!(read(&[most, -most, 0]), Ok(3));
    for wrong in [most + 1, -most - 1, i64::MAX, i64::MIN] {
        let error = read(&[1, wrong, 3]).unwrap_err();
        assert!(error.contains("more digits than its type"), "{error}");
    }
}

#[test]
fn levels_in_bits_are_refused() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..8).map(Some).chain([None])));
    let plain: Vec<u8> = (0..8i64).flat_map(i64::to_le_bytes).collect();
    // Levels of nine rows: a run of eight that have a value, and of one that has none.
    let levels = [4, 0, 0, 0, 8 << 1, 1, 1 << 1, 0];
    let bytes = [&levels[..], &plain].concat();
    assert_eq!(read_crafted(&numbers, Compression::UNCOMPRESSED, &page(0, 9, 72, 3, &bytes, &[]), 0), Ok(9));
    let error = read_crafted(&numbers, Compression::UNCOMPRESSED, &page(0, 9, 72, 4, &bytes, &[]), 0).unwrap_err();
    assert!(error.contains("BIT_PACKED"), "{error}");
    // A level of two in a column that has zero and one.
    let bytes = [&[4, 0, 0, 0, 8 << 1, 2, 1 << 1, 0], &plain[..]].concat();
    let error = read_crafted(&numbers, Compression::UNCOMPRESSED, &page(0, 9, 72, 3, &bytes, &[]), 0).unwrap_err();
    assert!(error.contains("a value of 1 bits is 2"), "{error}");
}

/// Strings that do not compress, in pages of about `page` bytes.
fn wide(path: &Path, rows: usize, width: usize, row_group: usize, page: usize) -> ParquetFile {
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + u8::try_from(seed >> 33 & 15).unwrap())
    };
    let text = StringArray::from_iter_values((0..rows).map(|_| (0..width).map(|_| random()).collect::<String>()));
    let batch = RecordBatch::try_from_iter([
        ("number", Arc::new(Int64Array::from_iter_values(0..rows as i64)) as ArrayRef),
        ("text", Arc::new(text) as ArrayRef),
    ])
    .unwrap();
    let properties = row_groups_of(row_group)
        .set_dictionary_enabled(false)
        .set_offset_index_disabled(true)
        .set_data_page_size_limit(page)
        .set_write_batch_size(64);
    write(path, &[batch], properties)
}

#[test]
fn scarce_memory_means_fewer_readers_and_all_rows() {
    let dir = tempfile::tempdir().unwrap();
    let file = wide(&dir.path().join("wide"), 60_000, 400, 5_000, 512 << 10);
    let scan = || spec(vec![file.clone()], &numbered_schema());
    let roomy = roomy();
    assert!(drive(&roomy, scan(), 4).unwrap().sorted_i64(0).into_iter().eq(0..60_000));
    assert_eq!(roomy.memory.stats().reserved, 0, "all is given back");

    for limit in [8 << 20, 12 << 20] {
        let scarce = context(limit);
        let outcome = drive(&scarce, scan(), 4).unwrap();
        assert!(outcome.sorted_i64(0).into_iter().eq(0..60_000));
        assert!(outcome.blocked > 0, "four readers do not fit in half of {limit} bytes");
        assert_eq!(scarce.memory.stats().reserved, 0);
    }
}

#[test]
fn a_page_beyond_the_limit_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    // The first pages are small, so that the large one is met while reading.
    let path = dir.path().join("page");
    let numbers: Vec<i64> = (0..3_000).collect();
    let text = numbers.iter().map(|&n| if n < 2_000 { "short".to_owned() } else { format!("{n:010}").repeat(1_000) });
    let batch = RecordBatch::try_from_iter([
        ("number", Arc::new(Int64Array::from(numbers.clone())) as ArrayRef),
        ("text", Arc::new(StringArray::from_iter_values(text)) as ArrayRef),
    ])
    .unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(1_000)
        .set_data_page_size_limit(64 << 20)
        .set_write_batch_size(1_000);
    let file = write(&path, &[batch], properties);
    let error = drive(&context(4 << 20), spec(vec![file.clone()], &numbered_schema()), 2).err().unwrap().to_string();
    assert!(
        error.contains("column 'text'") && error.contains("9.5 MiB") && error.contains("limit of 4 MiB"),
        "{error}"
    );
    // Only the column that needs it is refused.
    let numbers_only = ParquetScanSpec {
        projection: vec![0],
        schema: schema(&[("number", DataType::Int64)]),
        ..spec(vec![file.clone()], &numbered_schema())
    };
    assert_eq!(drive(&context(4 << 20), numbers_only, 2).unwrap().rows(), 3_000);
    assert_eq!(drive(&context(64 << 20), spec(vec![file], &numbered_schema()), 2).unwrap().rows(), 3_000);
}

/// Row groups of empty strings with `megabytes` of long ones at the end, which no estimate foresees.
fn growing(path: &Path, row_groups: i64, megabytes: usize) -> ParquetFile {
    let batches: Vec<RecordBatch> = (0..row_groups)
        .map(|group| {
            let numbers = group * 90_000..(group + 1) * 90_000;
            let text = |row| if row < 89_000 { String::new() } else { "long text ".repeat(100 * megabytes) };
            let text = numbers.clone().map(|number| text(number % 90_000));
            RecordBatch::try_from_iter([
                ("number", Arc::new(Int64Array::from_iter_values(numbers.clone())) as ArrayRef),
                ("text", Arc::new(StringArray::from_iter_values(text)) as ArrayRef),
            ])
            .unwrap()
        })
        .collect();
    let properties = row_groups_of(90_000)
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(1_000)
        .set_data_page_size_limit(64 << 20)
        .set_write_batch_size(1_000);
    write(path, &batches, properties)
}

#[test]
fn a_reader_that_meets_a_large_page_waits_for_the_others() {
    let dir = tempfile::tempdir().unwrap();
    // Two readers are admitted, but 17 MiB hold one large page with what else is read.
    let file = growing(&dir.path().join("grows"), 2, 8);
    let ctx = context(17 << 20);
    let source = ParquetSource::new(&ctx, spec(vec![file], &numbered_schema()));
    let cancelled = Cancellation::new(false);
    let mut lanes: Vec<_> = (0..2).map(|lane| (source.local(&ctx, lane).unwrap(), false)).collect();
    let (mut outcome, mut producing) = (Outcome::default(), [false; 2]);
    while lanes.iter().any(|(_, ended)| !ended) {
        for (worker, (lane, ended)) in lanes.iter_mut().enumerate().filter(|(_, (_, ended))| !ended) {
            match lane.next(&TaskContext { worker, cancelled: &cancelled }).unwrap() {
                SourceStep::Chunk(chunk) => {
                    producing[worker] = true;
                    outcome.chunks.push(chunk);
                }
                SourceStep::MorselEnd => {}
                SourceStep::Blocked => {
                    assert_eq!(producing, [true; 2], "both were admitted");
                    outcome.blocked += 1;
                }
                SourceStep::Exhausted => *ended = true,
            }
        }
    }
    assert!(outcome.blocked > 0, "one had to give up");
    assert!(outcome.sorted_i64(0).into_iter().eq(0..180_000));
    assert_eq!(ctx.memory.stats().reserved, 0);
}

#[test]
fn a_reader_that_can_never_start_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = wide(&dir.path().join("start"), 1_000, 20_000, 1_000, 64 << 20);
    let ctx = context(2 << 20);
    let error = drive(&ctx, spec(vec![file], &numbered_schema()), 2).err().unwrap().to_string();
    assert!(error.contains("start: reading needs") && error.contains("column 'text'"), "{error}");
    assert_eq!(ctx.memory.stats().reserved, 0);
}

/// The rows of a query through the scheduler.
fn run(ctx: &ExecContext, scan: ParquetScanSpec, threads: usize) -> Result<Vec<Chunk>, ExecError> {
    run_open(ctx, OpenPipeline::new(ParquetSource::new(ctx, scan)), threads)
}

fn run_open(ctx: &ExecContext, open: OpenPipeline, threads: usize) -> Result<Vec<Chunk>, ExecError> {
    let scheduler = Scheduler::new(threads);
    let mut stream = Query::new(ctx.clone()).stream(open, &scheduler, 4);
    let mut chunks = Vec::new();
    let (waker, mut task) = parked();
    loop {
        match stream.poll_next(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(Some(chunk)) => chunks.push(chunk?),
            std::task::Poll::Ready(None) => return Ok(chunks),
            std::task::Poll::Pending => task(),
        }
    }
}

/// A waker of this thread and what waits for it.
fn parked() -> (std::task::Waker, impl FnMut()) {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    (Arc::new(Unpark(std::thread::current())).into(), std::thread::park)
}

#[test]
fn blocked_lanes_are_woken_by_the_scheduler() {
    let dir = tempfile::tempdir().unwrap();
    let file = wide(&dir.path().join("wide"), 60_000, 400, 5_000, 512 << 10);
    for (limit, threads) in [(8 << 20, 4), (8 << 20, 8), (1 << 30, 1), (1 << 30, 4)] {
        let mut ctx = context(limit);
        ctx.settings = Arc::new(ExecSettings { threads, ..ExecSettings::default() });
        let chunks = run(&ctx, spec(vec![file.clone()], &numbered_schema()), threads).unwrap();
        let outcome = Outcome { chunks, ..Outcome::default() };
        assert!(outcome.sorted_i64(0).into_iter().eq(0..60_000));
        assert_eq!(ctx.memory.stats().reserved, 0);
    }
}

/// The numbers of rows that come as they lie in the files, of those for which `filter` is true.
fn in_order(limit: usize, scan: ParquetScanSpec, threads: usize, filter: Option<Expr>) -> Vec<i64> {
    let mut ctx = context(limit);
    ctx.settings = Arc::new(ExecSettings { threads, chunk_capacity: 500, ..ExecSettings::default() });
    let mut open = OpenPipeline::new(ParquetSource::new(&ctx, scan));
    open.keep_order();
    filter.into_iter().for_each(|filter| open.filter(filter));
    let chunks = run_open(&ctx, open, threads).unwrap();
    assert_eq!(ctx.memory.stats().reserved, 0, "all is given back");
    let numbers = |chunk: &Chunk| chunk.column(0).flatten().unwrap().as_primitive::<Int64Type>().values().to_vec();
    chunks.iter().flat_map(numbers).collect()
}

/// The numbers of rows that come as they lie in the files, of those that the `limits` leave.
fn sliced(scan: ParquetScanSpec, threads: usize, limits: &[(u64, Option<u64>)]) -> Vec<i64> {
    let mut ctx = context(1 << 30);
    ctx.settings = Arc::new(ExecSettings { threads, ..ExecSettings::default() });
    let mut open = OpenPipeline::new(ParquetSource::new(&ctx, scan));
    open.keep_order();
    limits.iter().for_each(|&(skip, fetch)| open.limit(skip, fetch));
    assert!(open.operators.is_empty(), "the source leaves out what is not wanted");
    let chunks = run_open(&ctx, open, threads).unwrap();
    let numbers = |chunk: &Chunk| chunk.column(0).flatten().unwrap().as_primitive::<Int64Type>().values().to_vec();
    chunks.iter().flat_map(numbers).collect()
}

#[test]
fn rows_come_as_they_lie_in_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<ParquetFile> = (0..5)
        .map(|i| {
            let path = dir.path().join(format!("{i}.parquet"));
            write(&path, &[numbered(i * 10_000..(i + 1) * 10_000)], row_groups_of(3_000))
        })
        .collect();
    let huge = write(&dir.path().join("huge"), &[numbered(0..300_001)], row_groups_of(1 << 20));
    let even = Expr::Compare { op: CompareOp::GtEq, column: 0, literal: Arc::new(Int64Array::from(vec![9_000])) };
    for threads in [1, 2, 5] {
        let many = || spec(files.clone(), &numbered_schema());
        assert!(in_order(1 << 30, many(), threads, None).into_iter().eq(0..50_000));
        assert!(in_order(1 << 30, many(), threads, Some(even.clone())).into_iter().eq(9_000..50_000));
        let limited = ParquetScanSpec { limit: Some(23_456), ..many() };
        assert!(in_order(1 << 30, limited, threads, None).into_iter().eq(0..23_456));
        let one = || spec(vec![huge.clone()], &numbered_schema());
        assert!(in_order(1 << 30, one(), threads, None).into_iter().eq(0..300_001));
        for (skip, fetch) in [(0, 7), (12_345, 5), (9_990, 20_020), (49_990, 100), (60_000, 1), (0, 0), (3, 49_997)] {
            let expected = || (skip as i64).min(50_000)..(skip as i64 + fetch as i64).min(50_000);
            let found = sliced(many(), threads, &[(skip, Some(fetch))]);
            assert!(found.into_iter().eq(expected()), "{skip} {fetch}");
            let limited = ParquetScanSpec { limit: Some(skip + fetch), ..many() };
            let found = sliced(limited, threads, &[(skip, None)]);
            assert!(found.into_iter().eq(expected()), "{skip} {fetch}");
        }
        let found = sliced(one(), threads, &[(100_000, Some(150_000)), (7, Some(100_000))]);
        assert!(found.into_iter().eq(100_007..200_007));
    }
}

#[test]
fn scarce_memory_keeps_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let wide = wide(&dir.path().join("wide"), 60_000, 400, 5_000, 512 << 10);
    for threads in [2, 6] {
        for limit in [8 << 20, 24 << 20] {
            let scan = spec(vec![wide.clone()], &numbered_schema());
            assert!(in_order(limit, scan, threads, None).into_iter().eq(0..60_000), "{threads} threads, {limit}");
        }
    }
}

#[test]
fn inputs_of_a_union_follow_each_other_whichever_lane_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<ParquetFile> = (0..3)
        .map(|i| {
            let path = dir.path().join(format!("{i}.parquet"));
            write(&path, &[numbered(i * 1_000..(i + 1) * 1_000)], row_groups_of(300))
        })
        .collect();
    let from =
        |least| Expr::Compare { op: CompareOp::GtEq, column: 0, literal: Arc::new(Int64Array::from(vec![least])) };
    for threads in [1, 2, 6] {
        for _ in 0..10 {
            let mut ctx = roomy();
            ctx.settings = Arc::new(ExecSettings { threads, chunk_capacity: 50, ..ExecSettings::default() });
            let input = |files: &[ParquetFile], least, limit: Option<(u64, u64)>| {
                let source = ParquetSource::new(&ctx, spec(files.to_vec(), &numbered_schema()));
                let mut open = OpenPipeline::new(source);
                open.keep_order();
                open.filter(from(least));
                limit.into_iter().for_each(|(skip, fetch)| open.limit(skip, Some(fetch)));
                open
            };
            let inputs = vec![input(&files, 250, Some((10, 1_000))), input(&files[1..], 1_990, None)];
            let mut open = UnionSource::open(numbered_schema(), inputs, None);
            open.keep_order();
            let chunks = run_open(&ctx, open, threads).unwrap();
            let found = Outcome { chunks, ..Outcome::default() }.column(0);
            let found = found.as_primitive::<Int64Type>().values().to_vec();
            assert!(found.into_iter().eq((260..1_260).chain(1_990..3_000)), "{threads} threads");
        }
    }
}

#[test]
fn a_file_that_cannot_be_opened_between_two_ranges_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let good = write(&dir.path().join("good"), &[numbered(0..1_000)], row_groups_of(300));
    std::fs::write(dir.path().join("bad"), vec![7; 4_000]).unwrap();
    let files = vec![good, listed(&dir.path().join("bad"))];
    let from = Expr::Compare { op: CompareOp::GtEq, column: 0, literal: Arc::new(Int64Array::from(vec![10])) };
    for threads in [1, 2, 4] {
        let mut ctx = roomy();
        ctx.settings = Arc::new(ExecSettings { threads, chunk_capacity: 50, ..ExecSettings::default() });
        let mut open = OpenPipeline::new(ParquetSource::new(&ctx, spec(files.clone(), &numbered_schema())));
        open.keep_order();
        open.filter(from.clone());
        open.limit(0, Some(5_000));
        let error = run_open(&ctx, open, threads).err().unwrap().to_string();
        assert!(error.contains("bad"), "{threads} threads: {error}");
    }
}

/// An output whose consumer has come to range `first`, and took a batch of range [`AHEAD`](Self::AHEAD) before its turn.
#[derive(Debug, Default)]
struct Turns {
    first: AtomicUsize,
    asked: AtomicUsize,
}

impl Turns {
    /// The first range of the second row group.
    const AHEAD: usize = 3;
}

impl RangedOutput for Turns {
    fn end_range(&self, range: usize) {
        assert_eq!(self.first.fetch_add(1, Ordering::Relaxed), range, "ranges end in their order");
    }

    fn has_room(&self, range: usize) -> bool {
        // It is asked before the reader is opened, and before each batch.
        self.first.load(Ordering::Relaxed) == range
            || range == Self::AHEAD && self.asked.fetch_add(1, Ordering::Relaxed) < 2
    }

    fn set_ahead(&self, _rows: usize) {}
}

#[test]
fn readers_make_way_for_rows_whose_turn_is_sooner() {
    let dir = tempfile::tempdir().unwrap();
    let file = growing(&dir.path().join("grows"), 2, 18);
    // Two readers are admitted, but there is no room for the large page beside another reader.
    let ctx = context(22 << 20);
    let source = ParquetSource::new(&ctx, spec(vec![file], &numbered_schema()));
    let (order, turns) = (Arc::new(RowOrder::default()), Arc::new(Turns::default()));
    source.keep_order(&order);
    order.attach(Arc::clone(&turns) as _, 2);
    let cancelled = Cancellation::new(false);
    let mut lanes: Vec<_> = (0..2).map(|lane| (source.local(&ctx, lane).unwrap(), false)).collect();
    let (mut outcome, mut blocked) = (Outcome::default(), 0);
    while lanes.iter().any(|(_, ended)| !ended) {
        for (worker, (lane, ended)) in lanes.iter_mut().enumerate().filter(|(_, (_, ended))| !ended) {
            match lane.next(&TaskContext { worker, cancelled: &cancelled }).unwrap() {
                SourceStep::Chunk(chunk) => outcome.chunks.push(chunk),
                SourceStep::Exhausted => *ended = true,
                SourceStep::MorselEnd => {}
                SourceStep::Blocked => blocked += 1,
            }
        }
        assert!(blocked < 100_000, "lanes wait for each other after {} rows", outcome.rows());
    }
    assert!(turns.asked.load(Ordering::Relaxed) > 2, "a lane was parked ahead of its turn");
    assert!(outcome.sorted_i64(0).into_iter().eq(0..180_000));
    assert_eq!(ctx.memory.stats().reserved, 0);
}

#[test]
fn lanes_follow_what_there_is_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = roomy();
    let one = write(&dir.path().join("one"), &[numbered(0..10)], row_groups_of(10));
    let source = ParquetSource::new(&ctx, spec(vec![one.clone(), one.clone(), one], &numbered_schema()));
    let cancelled = Cancellation::new(false);
    let task = TaskContext { worker: 0, cancelled: &cancelled };
    assert_eq!(source.lanes(8), 1, "until the first footer is read");
    let mut local = source.local(&ctx, 0).unwrap();
    assert!(matches!(local.next(&task).unwrap(), SourceStep::MorselEnd));
    assert_eq!(source.lanes(8), 3, "one row group and two files");
    assert_eq!(source.lanes(2), 2);
    while !matches!(local.next(&task).unwrap(), SourceStep::Exhausted) {}
    assert_eq!(source.lanes(8), 0);
}

#[test]
fn a_cancelled_lane_ends_and_gives_its_memory_back() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = roomy();
    let file = write(&dir.path().join("cancel"), &[numbered(0..100_000)], row_groups_of(100_000));
    let source = ParquetSource::new(&ctx, spec(vec![file], &numbered_schema()));
    let (no, yes) = (Cancellation::new(false), Cancellation::new(true));
    let mut local = source.local(&ctx, 0).unwrap();
    let running = TaskContext { worker: 0, cancelled: &no };
    assert!(matches!(local.next(&running).unwrap(), SourceStep::MorselEnd));
    assert!(matches!(local.next(&running).unwrap(), SourceStep::Chunk(_)));
    assert!(ctx.memory.stats().reserved > 0);
    let cancelled = TaskContext { worker: 0, cancelled: &yes };
    let mut after = 0;
    while let Ok(step) = local.next(&cancelled) {
        assert!(matches!(step, SourceStep::Chunk(_)));
        after += 1;
    }
    assert!(after <= 3, "at most the batch at hand");
    drop((local, source));
    assert_eq!(ctx.memory.stats().reserved, 0);
}

#[test]
fn a_stopped_source_ends_all_lanes() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = roomy();
    let file = write(&dir.path().join("stop"), &[numbered(0..100_000)], row_groups_of(50_000));
    let source = ParquetSource::new(&ctx, spec(vec![file.clone(), file], &numbered_schema()));
    let cancelled = Cancellation::new(false);
    let task = TaskContext { worker: 0, cancelled: &cancelled };
    let mut lanes: Vec<_> = (0..2).map(|lane| source.local(&ctx, lane).unwrap()).collect();
    for lane in &mut lanes {
        while !matches!(lane.next(&task).unwrap(), SourceStep::Chunk(_)) {}
    }
    source.stop();
    for lane in &mut lanes {
        let mut rest = 0;
        while let SourceStep::Chunk(chunk) = lane.next(&task).unwrap() {
            rest += chunk.len();
        }
        assert!(rest <= 8_192);
        assert!(matches!(lane.next(&task).unwrap(), SourceStep::Exhausted));
    }
    assert_eq!(source.lanes(8), 0);
}

#[test]
fn no_files_and_empty_files_have_no_rows() {
    let dir = tempfile::tempdir().unwrap();
    let empty = write(&dir.path().join("empty"), &[numbered(0..0)], WriterProperties::builder());
    let no_fields = Fields::empty();
    assert_eq!(drive(&roomy(), spec(vec![], &numbered_schema()), 2).unwrap().rows(), 0);
    assert_eq!(drive(&roomy(), spec(vec![empty.clone()], &numbered_schema()), 2).unwrap().rows(), 0);
    let counted = ParquetScanSpec {
        projection: vec![],
        schema: Arc::new(Schema::new(no_fields)),
        ..spec(vec![empty], &numbered_schema())
    };
    assert_eq!(drive(&roomy(), counted, 2).unwrap().rows(), 0);
}
