//! Arrow rows of the program as tables: all types, readers that fail, names, joins, little memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use datafusion::arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float16Array, Float64Array,
        Int32Array, Int64Array, LargeStringArray, ListArray, NullArray, RecordBatch, RecordBatchIterator,
        RecordBatchOptions, RecordBatchReader, RunArray, StringArray, StringViewArray, StructArray,
        Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
    },
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, Int32Type, Schema, SchemaRef},
    error::ArrowError,
};
use ogee::ArrowData;

use crate::common::{batch, column, connect, error_of, explain, hostile, open, query, query_sorted};

fn ints(rows: std::ops::Range<i64>) -> RecordBatch {
    batch([("i", column(Int64Array::from_iter_values(rows)))])
}

fn of(data_type: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("i", data_type, true)]))
}

/// A reader that does what it is told for each batch.
struct Told<F>(SchemaRef, F);

impl<F: FnMut() -> Option<Result<RecordBatch, ArrowError>>> Iterator for Told<F> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.1()
    }
}

impl<F: FnMut() -> Option<Result<RecordBatch, ArrowError>>> RecordBatchReader for Told<F> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }
}

#[test]
fn batches_are_tables() {
    for config in hostile() {
        let connection = open(config).connect();
        let batches = (0..5).map(|number| ints(number * 200_000..(number + 1) * 200_000).slice(0, 150_000)).collect();
        connection.register("Numbers", ArrowData::batches(of(DataType::Int64), batches)).unwrap();
        query(&connection, "CREATE TABLE small AS SELECT value * 1000 AS i, 'x' || value AS s FROM range(1000)");
        for (sql, expected) in [
            ("SELECT count(*), min(i), max(i) FROM numbers", "750000|0|949999"),
            ("SELECT count(*) FROM NUMBERS WHERE i % 10 = 3", "75000"),
            ("SELECT count(*), max(s) FROM numbers JOIN small USING (i)", "750|x99"),
            ("SELECT count(*) FROM numbers a JOIN numbers b ON a.i = b.i", "750000"),
            ("SELECT count(DISTINCT i % 1000) FROM numbers", "1000"),
            ("SELECT i FROM numbers ORDER BY i DESC LIMIT 1", "949999"),
            ("SELECT sum(i) FROM (SELECT i FROM numbers LIMIT 10)", "45"),
            ("SELECT i FROM numbers OFFSET 150000 LIMIT 1", "200000"),
        ] {
            assert_eq!(query(&connection, sql), [expected], "{sql}");
        }
        let plan = explain(&connection, "SELECT sum(i) FROM numbers");
        assert!(plan.contains("registered, rows=750000"), "{plan}");
        let made = connection.execute("CREATE TABLE kept AS SELECT * FROM numbers").unwrap();
        assert_eq!(made.affected_rows(), Some(750_000));
        // As they lie there.
        assert_eq!(query(&connection, "SELECT i FROM kept LIMIT 2 OFFSET 149999"), ["149999", "200000"]);
    }
}

/// A column of each type, sliced and with NULLs.
fn all_types() -> RecordBatch {
    let texts = || (0..100).map(|row| (row % 3 != 0).then(|| format!("a longer text {}", row % 10)));
    let numbers = || (0..100).map(|row| (row % 4 != 0).then_some(row));
    let dictionary: DictionaryArray<Int32Type> = texts().map(|text| text.map(|text| &*text.leak())).collect();
    let runs: RunArray<Int32Type> = (0..100).map(|row| Some(if row < 60 { "a" } else { "b" })).collect();
    let list = {
        let offsets = OffsetBuffer::from_lengths((0..100).map(|row| row % 3));
        let field = Arc::new(Field::new_list_field(DataType::Int64, true));
        ListArray::new(field, offsets, Arc::new(Int64Array::from_iter_values(0..99)), None)
    };
    let structs = StructArray::from(vec![
        (Arc::new(Field::new("a", DataType::Int32, true)), column(numbers().collect::<Int32Array>())),
        (Arc::new(Field::new("b", DataType::Utf8, true)), column(texts().collect::<StringArray>())),
    ]);
    let decimals = numbers().map(|row| row.map(i128::from)).collect::<Decimal128Array>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("nothing", column(NullArray::new(100))),
        ("truth", column((0..100).map(|row| (row % 5 != 0).then_some(row % 2 == 0)).collect::<BooleanArray>())),
        ("int", column(numbers().collect::<Int32Array>())),
        ("big", column((0..100_u64).map(|row| Some(u64::MAX - row)).collect::<UInt64Array>())),
        ("double", column(numbers().map(|row| row.map(f64::from)).collect::<Float64Array>())),
        ("dec", column(decimals.with_precision_and_scale(12, 2).unwrap())),
        ("text", column(texts().collect::<StringArray>())),
        ("large", column(texts().collect::<LargeStringArray>())),
        ("view", column(texts().collect::<StringViewArray>())),
        ("dict", column(dictionary)),
        ("runs", column(runs)),
        ("bytes", column(BinaryArray::from_iter(texts().map(|text| text.map(String::into_bytes))))),
        ("day", column(numbers().collect::<Date32Array>())),
        ("clock", column(numbers().map(|row| row.map(i64::from)).collect::<Time64MicrosecondArray>())),
        ("moment", column(numbers().map(|row| row.map(i64::from)).collect::<TimestampMicrosecondArray>())),
        ("list", column(list)),
        ("record", column(structs)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

#[test]
fn all_types_come_as_they_are() {
    let all = all_types();
    for config in hostile() {
        let connection = open(config).connect();
        for data in [
            ArrowData::from(all.slice(10, 80)),
            ArrowData::reader(RecordBatchIterator::new([Ok(all.slice(10, 40)), Ok(all.slice(50, 40))], all.schema())),
        ] {
            connection.register("all_types", data).unwrap();
            query(&connection, "CREATE OR REPLACE TABLE kept AS SELECT * FROM all_types");
            assert_eq!(query(&connection, "SELECT count(*) FROM kept"), ["80"]);
            let names: Vec<_> = all.schema().fields().iter().map(|field| field.name().clone()).collect();
            for name in &names {
                let kept = query(&connection, &format!("SELECT {name} FROM kept"));
                let expected: Vec<_> = crate::common::batch_rows(
                    &all.slice(10, 80).project(&[all.schema().index_of(name).unwrap()]).unwrap(),
                );
                assert_eq!(kept, expected, "{name}");
            }
        }
        connection.register("all_types", all.slice(10, 80)).unwrap();
        for name in ["truth", "int", "text", "dict", "view", "runs", "day", "dec"] {
            let group = |table: &str| {
                query_sorted(&connection, &format!("SELECT {name}, count(*) FROM {table} GROUP BY {name}"))
            };
            assert_eq!(group("all_types"), group("kept"), "{name}");
        }
        assert_eq!(
            query(&connection, "SELECT sum(record.a), max(record.b) FROM all_types"),
            query(&connection, "SELECT sum(record.a), max(record.b) FROM kept")
        );
        let described = query(&connection, "DESCRIBE all_types").join("\n");
        assert!(described.contains("dict|VARCHAR") && described.contains("dec|DECIMAL(12,2)"), "{described}");
    }
}

#[test]
fn tables_may_have_no_rows_or_no_columns() {
    let connection = connect();
    connection.register("empty", ArrowData::batches(all_types().schema(), Vec::new())).unwrap();
    assert_eq!(query(&connection, "SELECT count(*), max(text), sum(int) FROM empty"), ["0|NULL|NULL"]);
    assert_eq!(query(&connection, "SELECT * FROM empty"), [""; 0]);
    let reader = RecordBatchIterator::new([Ok(all_types().slice(0, 0))], all_types().schema());
    connection.register("empty", ArrowData::reader(reader)).unwrap();
    assert_eq!(query(&connection, "SELECT count(*) FROM empty"), ["0"]);
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let no_columns = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).unwrap();
    connection.register("bare", no_columns).unwrap();
    assert_eq!(query(&connection, "SELECT count(*) FROM bare"), ["7"]);
    assert_eq!(query(&connection, "SELECT count(*) FROM bare a, bare b"), ["49"]);
}

#[test]
fn names_are_found_in_any_case_and_kept_apart() {
    let connection = connect();
    let two = || batch([("Id", column(Int32Array::from(vec![1]))), ("ID", column(Int32Array::from(vec![2])))]);
    connection.register("My Table", two()).unwrap();
    let result = connection.execute("SELECT * FROM \"my table\"").unwrap();
    let names: Vec<_> = result.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["Id", "ID_1"]);
    assert_eq!(query(&connection, "SELECT id + iD_1 FROM \"MY TABLE\""), ["3"]);
    // Others see it, it can be replaced, and it does not take the name of a table.
    connection.register("MY TABLE", ints(0..5)).unwrap();
    assert_eq!(query(&connection, "SELECT count(*) FROM \"my table\""), ["5"]);
    query(&connection, "CREATE TABLE t AS SELECT 1 AS a");
    query(&connection, "CREATE VIEW v AS SELECT 1 AS a");
    for name in ["t", "V"] {
        assert!(error_of_unit(connection.register(name, two())).contains("exists already"));
        assert!(error_of_unit(connection.unregister(name)).contains("was not registered"));
    }
    assert!(error_of_unit(connection.register("", two())).contains("empty"));
    assert!(error_of_unit(connection.unregister("nothing")).contains("does not exist"));
    query(&connection, "CREATE VIEW over AS SELECT sum(i) AS s FROM \"my table\"");
    assert_eq!(query(&connection, "SELECT s FROM over"), ["10"]);
    connection.unregister("my table").unwrap();
    assert_eq!(error_of(connection.execute("SELECT * FROM over")).0, "OGEE_Q002");
    assert_eq!(error_of(connection.execute("SELECT * FROM \"my table\"")).0, "OGEE_Q002");
    // It is no table to write to.
    connection.register("r", ints(0..5)).unwrap();
    for sql in ["INSERT INTO r VALUES (1)", "DELETE FROM r", "UPDATE r SET i = 1", "ALTER TABLE r ADD COLUMN x INT"] {
        error_of(connection.execute(sql));
    }
    assert_eq!(query(&connection, "SELECT count(*) FROM r"), ["5"]);
    query(&connection, "DROP TABLE r");
    assert!(connection.unregister("r").is_err());
}

fn error_of_unit(result: ogee::Result<()>) -> String {
    result.unwrap_err().message().to_owned()
}

#[test]
fn batches_of_other_columns_are_refused() {
    let connection = connect();
    let other = batch([("i", column(StringArray::from(vec!["x"])))]);
    let more = batch([("i", column(Int64Array::from(vec![1]))), ("j", column(Int64Array::from(vec![1])))]);
    let nulls = batch([("i", column(Int64Array::from(vec![None])))]);
    let strict: SchemaRef = Arc::new(Schema::new(vec![Field::new("i", DataType::Int64, false)]));
    for (schema, wrong, said) in [
        (of(DataType::Int64), &other, "column 'i' of batch 2 of 'r' is VARCHAR"),
        (of(DataType::Int64), &more, "batch 2 of 'r' has 2 columns, and its schema has 1"),
        (strict, &nulls, "batch 2 of 'r'"),
    ] {
        let batches = vec![ints(0..5), wrong.clone()];
        let registered = connection.register("r", ArrowData::batches(schema.clone(), batches.clone()));
        assert!(error_of_unit(registered).contains(said), "{said}");
        assert_eq!(error_of(connection.execute("SELECT * FROM r")).0, "OGEE_Q002", "nothing is left behind");
        // Of a reader it is found when it is read.
        let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
        connection.register("feed", ArrowData::reader(reader)).unwrap();
        let (code, message) = error_of(connection.execute("SELECT sum(i) FROM feed"));
        assert_eq!((code, message.contains(&said.replace("'r'", "'feed'"))), ("OGEE_Q002", true), "{message}");
    }
    let half = batch([("h", column(Float16Array::new_null(1)))]);
    let registered = connection.register("half", half);
    if let Err(error) = registered {
        assert_eq!(error.code(), "OGEE_Q003");
    }
    assert_eq!(query(&connection, "SELECT 1"), ["1"]);
}

#[test]
fn readers_give_their_rows_once() {
    for config in hostile() {
        let connection = open(config).connect();
        let reader = |batches: i64| {
            let batches = (0..batches).map(|number| Ok(ints(number * 1000..(number + 1) * 1000)));
            ArrowData::reader(RecordBatchIterator::new(batches.collect::<Vec<_>>(), ints(0..0).schema()))
        };
        connection.register("feed", reader(100)).unwrap();
        // Planning, and looking at it, reads nothing.
        explain(&connection, "SELECT * FROM feed");
        query(&connection, "DESCRIBE feed");
        assert_eq!(query(&connection, "SELECT count(*), sum(i % 7) FROM feed WHERE i % 2 = 0"), ["50000|149998"]);
        let (code, message) = error_of(connection.execute("SELECT * FROM feed"));
        assert_eq!((code, message.contains("have been read")), ("OGEE_Q007", true), "{message}");
        connection.register("feed", reader(3)).unwrap();
        assert!(
            error_of(connection.execute("SELECT * FROM feed a JOIN feed b USING (i)")).1.contains("have been read")
        );
        connection.register("feed", reader(1000)).unwrap();
        assert_eq!(query(&connection, "SELECT count(*) FROM (SELECT * FROM feed LIMIT 5)"), ["5"]);
        // As often as one likes.
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let make = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(RecordBatchIterator::new([Ok(ints(0..10)), Ok(ints(10..20))], ints(0..0).schema()))
        };
        connection.register("again", ArrowData::readers(ints(0..0).schema(), make)).unwrap();
        for _ in 0..3 {
            assert_eq!(query(&connection, "SELECT count(*) FROM again a JOIN again b USING (i)"), ["20"]);
        }
        assert_eq!(made.load(Ordering::Relaxed), 6);
        assert_eq!(query(&connection, "SELECT i FROM again"), (0..20).map(|i| i.to_string()).collect::<Vec<_>>());
    }
}

#[test]
fn what_goes_wrong_in_a_reader_ends_its_statement() {
    for config in hostile() {
        let connection = open(config).connect();
        let after = |batches: usize, last: fn() -> Option<Result<RecordBatch, ArrowError>>| {
            let mut given = 0;
            ArrowData::reader(Told(ints(0..0).schema(), move || {
                given += 1;
                if given > batches { last() } else { Some(Ok(ints(0..5000))) }
            }))
        };
        for (last, code, said) in [
            (
                (|| Some(Err(ArrowError::ParseError("the line is cut".to_owned())))) as fn() -> _,
                "OGEE_Q005",
                "the reader of 'feed' failed: Parser error: the line is cut",
            ),
            (|| panic!("of purpose"), "OGEE_Q007", "the reader of 'feed' panicked: of purpose"),
        ] {
            for batches in [0, 20] {
                for sql in ["SELECT * FROM feed", "CREATE TABLE t AS SELECT i, count(*) FROM feed GROUP BY i"] {
                    connection.register("feed", after(batches, last)).unwrap();
                    assert_eq!(error_of(connection.execute(sql)), (code, said.to_owned()), "{sql}");
                }
            }
        }
        assert_eq!(error_of(connection.execute("SELECT * FROM t")).0, "OGEE_Q002");
        let fails = || {
            Err::<RecordBatchIterator<Vec<Result<RecordBatch, ArrowError>>>, _>(ArrowError::ComputeError("no".into()))
        };
        connection.register("never", ArrowData::readers(ints(0..0).schema(), fails)).unwrap();
        assert!(error_of(connection.execute("SELECT * FROM never")).1.contains("failed: Compute error: no"));
        assert_eq!(query(&connection, "SELECT count(*) FROM range(10)"), ["10"]);
    }
}

#[test]
fn a_reader_is_left_in_the_middle() {
    let connection = connect();
    let given = Arc::new(AtomicUsize::new(0));
    let endless = |given: &Arc<AtomicUsize>| {
        let given = Arc::clone(given);
        ArrowData::reader(Told(ints(0..0).schema(), move || {
            given.fetch_add(1, Ordering::Relaxed);
            Some(Ok(ints(0..8192)))
        }))
    };
    connection.register("endless", endless(&given)).unwrap();
    let mut rows = connection.execute("SELECT i FROM endless").unwrap();
    rows.next().unwrap().unwrap();
    // Nobody takes more: it is not asked for more.
    thread::sleep(Duration::from_millis(200));
    let asked = given.load(Ordering::Relaxed);
    thread::sleep(Duration::from_millis(200));
    assert!(given.load(Ordering::Relaxed) == asked && asked < 200, "{asked} batches");
    drop(rows);
    // Interrupted while the reader itself waits.
    let slow = Told(ints(0..0).schema(), || {
        thread::sleep(Duration::from_secs(3));
        Some(Ok(ints(0..10)))
    });
    connection.register("slow", ArrowData::reader(slow)).unwrap();
    let (handle, begun) = (connection.interrupt_handle(), Instant::now());
    let interrupt = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        handle.interrupt();
    });
    assert_eq!(error_of(connection.execute("SELECT sum(i) FROM slow")).0, "OGEE_X004");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    interrupt.join().unwrap();
    assert_eq!(query(&connection, "SELECT 1"), ["1"]);
}

#[test]
fn a_reader_of_more_than_the_memory_streams() {
    let connection = open(ogee::Config::default().threads(2).memory_limit(64 << 20).counts_process(false)).connect();
    // A gigabyte, 8 MiB at a time.
    let batches = (0..128_i64).map(|number| Ok(ints(number << 20..(number + 1) << 20)));
    let reader = RecordBatchIterator::new(batches, ints(0..0).schema());
    connection.register("feed", ArrowData::reader(reader)).unwrap();
    let mut rows = connection.execute("SELECT count(*), sum(i) FROM feed").unwrap();
    let batch = rows.next().unwrap().unwrap();
    assert_eq!(crate::common::batch_rows(&batch), ["134217728|9007199187632128"]);
    assert!(rows.next().is_none());
    assert!(rows.stats().peak_pool_bytes < 64 << 20);
}

#[test]
fn transactions_and_registered_tables() {
    let database = open(ogee::Config::default().threads(2));
    let (one, other) = (database.connect(), database.connect());
    one.register("before", ints(0..3)).unwrap();
    query(&one, "BEGIN");
    assert!(error_of_unit(other.register("r", ints(0..3))).contains("transaction"));
    assert!(error_of_unit(other.unregister("before")).contains("transaction"));
    one.register("r", ints(0..3)).unwrap();
    query(&one, "CREATE TABLE t AS SELECT * FROM r");
    query(&one, "ROLLBACK");
    assert_eq!(query(&one, "SELECT count(*) FROM before"), ["3"]);
    assert_eq!(error_of(one.execute("SELECT * FROM t")).0, "OGEE_Q002");
    drop(other);
    assert_eq!(database.connect().tables().unwrap()[0].kind, ogee::TableKind::Registered);
}
