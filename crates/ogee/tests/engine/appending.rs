//! Appenders: rows, batches, defaults and constraints, little memory, what goes wrong.

use datafusion::arrow::{
    array::{Int32Array, Int64Array, RecordBatch, StringArray},
    datatypes::DataType,
};
use ogee::{Config, Date, Decimal, Null, named_params, params};

use crate::common::{batch, column, connect, error_of, hostile, open, query};

#[test]
fn rows_are_appended_and_flushed() {
    for config in hostile() {
        let connection = open(config).connect();
        query(&connection, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, c DOUBLE)");
        let mut appender = connection.appender("T").unwrap();
        for a in 0..20_000 {
            appender.append_row(params![a, (a % 3 != 0).then(|| format!("text {a}")), f64::from(a) / 2.0]).unwrap();
        }
        assert_eq!(appender.rows(), 20_000);
        assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["0"], "nobody sees them yet");
        assert_eq!(appender.flush().unwrap(), 20_000);
        assert_eq!(appender.flush().unwrap(), 0);
        appender.append_row(params![20_000, Null, Null]).unwrap();
        drop(appender);
        let sql = "SELECT count(*), count(b), sum(a), sum(c), max(b) FROM t";
        assert_eq!(query(&connection, sql), ["20001|13333|200010000|99995000.0|text 9998"]);
        assert_eq!(query(&connection, "SELECT a FROM t LIMIT 3"), ["0", "1", "2"], "in their order");
    }
}

#[test]
fn defaults_and_computed_columns_are_those_of_insert() {
    let connection = connect();
    query(
        &connection,
        "CREATE TABLE t (id INTEGER DEFAULT 7, name VARCHAR DEFAULT 'none', twice INTEGER GENERATED ALWAYS AS (id * 2), j JSON)",
    );
    let mut appender = connection.appender("main.t").unwrap();
    let names: Vec<_> = appender.columns().iter().map(|column| column.name().clone()).collect();
    assert_eq!(names, ["id", "name", "j"]);
    appender.append_row(params![1, "one", "{\"a\": 1}"]).unwrap();
    appender.append_row(named_params! { "NAME": "two", "j": Null, "id": 2 }).unwrap();
    appender.finish().unwrap();
    let mut appender = connection.appender_of("\"t\"", &["Name"]).unwrap();
    appender.append_row(["three"]).unwrap();
    appender.finish().unwrap();
    assert_eq!(
        query(&connection, "SELECT id, name, twice, j ->> 'a' FROM t ORDER BY id"),
        ["1|one|2|1", "2|two|4|NULL", "7|three|14|NULL"]
    );
    for (columns, said) in [
        (vec!["nam"], "table 't' has no column 'nam'; did you mean name?"),
        (vec!["twice"], "column 'twice' of table 't' is computed of others"),
        (vec!["id", "ID"], "column 'ID' is named twice"),
        (vec![], "rows for table 't' have a value for one column at least"),
    ] {
        assert_eq!(connection.appender_of("t", &columns).unwrap_err().message(), said);
    }
    let mut appender = connection.appender("t").unwrap();
    appender.append_row(params![1, "x", "{no json"]).unwrap();
    assert!(appender.flush().is_err());
    assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["3"]);
}

#[test]
fn a_flush_is_done_wholly_or_not_at_all() {
    let connection = connect();
    query(&connection, "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER NOT NULL CHECK (b > 0))");
    query(&connection, "INSERT INTO t VALUES (5, 5)");
    for (a, b, said) in [(5, Some(1), "a"), (6, None, "NOT NULL"), (6, Some(-1), "CHECK")] {
        let mut appender = connection.appender("t").unwrap();
        for row in 100..5000 {
            appender.append_row(params![row, 1]).unwrap();
        }
        appender.append_row(params![a, b]).unwrap();
        let error = appender.flush().unwrap_err();
        assert!(error.message().contains(said), "{error}");
        assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["1"]);
        // It goes on without them.
        assert_eq!(appender.rows(), 0);
        appender.append_row(params![7, 7]).unwrap();
        assert_eq!(appender.flush().unwrap(), 1);
        query(&connection, "DELETE FROM t WHERE a = 7");
    }
    let mut appender = connection.appender("t").unwrap();
    appender.append_row(params![8, 8]).unwrap();
    appender.clear();
    assert_eq!(appender.finish().unwrap(), 0);
    // Dropped with an error that nobody hears.
    let mut appender = connection.appender("t").unwrap();
    appender.append_row(params![5, 1]).unwrap();
    drop(appender);
    assert_eq!(query(&connection, "SELECT * FROM t"), ["5|5"]);
    // In the middle of a panic nothing is flushed.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut appender = connection.appender("t").unwrap();
        appender.append_row(params![9, 9]).unwrap();
        panic!("of purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(query(&connection, "SELECT * FROM t"), ["5|5"]);
    assert!(connection.tables().unwrap().iter().all(|table| table.name == "t"));
}

#[test]
fn values_that_do_not_fit_name_their_column_and_row() {
    let connection = connect();
    query(&connection, "CREATE TABLE t (a INTEGER, b DECIMAL(5, 2), d DATE, s VARCHAR)");
    let mut appender = connection.appender("t").unwrap();
    appender.append_row(params![1_i64, "1.25", "2024-02-03", 5]).unwrap();
    appender.append_row(params![2.0, Decimal { value: 15, scale: 1 }, Date(0), "x"]).unwrap();
    for (row, said) in [
        (
            params![i64::MAX, 1, Null, Null],
            "row 3 for table 't': column 'a': '9223372036854775807' of type BIGINT is no INTEGER",
        ),
        (params![1.5, 1, Null, Null], "row 3 for table 't': column 'a': '1.5' of type DOUBLE is no INTEGER"),
        (params![1, 12345, Null, Null], "row 3 for table 't': column 'b': '12345' of type INTEGER is no DECIMAL(5,2)"),
        (params![1, 1, "2024-13-01", Null], "row 3 for table 't': column 'd': '2024-13-01' of type VARCHAR is no DATE"),
        (params![1, 1], "row 3 for table 't': it has 2 values, and there are 4 columns"),
        (params![], "row 3 for table 't': it has 0 values, and there are 4 columns"),
    ] {
        assert_eq!(appender.append_row(row).unwrap_err().message(), said);
    }
    assert_eq!(
        appender.append_row(named_params! { "a": 1 }).unwrap_err().message(),
        "row 3 for table 't': column 'b' has no value"
    );
    assert_eq!(appender.finish().unwrap(), 2);
    assert_eq!(query(&connection, "SELECT * FROM t ORDER BY a"), ["1|1.25|2024-02-03|5", "2|1.50|1970-01-01|x"]);
}

#[test]
fn batches_are_appended() {
    for config in hostile() {
        let connection = open(config).connect();
        query(&connection, "CREATE TABLE t (a INTEGER, s VARCHAR)");
        let mut appender = connection.appender("t").unwrap();
        let rows = |first: i64, count: i64| -> RecordBatch {
            let texts: StringArray =
                (first..first + count).map(|row| (row % 2 == 0).then(|| format!("row {row}"))).collect();
            batch([("x", column(Int64Array::from_iter_values(first..first + count))), ("y", column(texts))])
        };
        appender.append_row(params![-1, "first"]).unwrap();
        appender.append_batch(&rows(0, 100_000).slice(500, 50_000)).unwrap();
        appender.append_batch(&rows(0, 0)).unwrap();
        appender.append_row(params![-2, "last"]).unwrap();
        let wrong = batch([
            ("x", column(Int64Array::from(vec![1, i64::MAX]))),
            ("y", column(StringArray::from(vec!["a", "b"]))),
        ]);
        assert_eq!(
            appender.append_batch(&wrong).unwrap_err().message(),
            "row 50004 for table 't': column 'a': '9223372036854775807' of type BIGINT is no INTEGER"
        );
        let narrow = batch([("x", column(Int32Array::from(vec![1])))]);
        assert!(appender.append_batch(&narrow).unwrap_err().message().contains("has 1 columns, and there are 2"));
        assert_eq!(appender.finish().unwrap(), 50_002);
        assert_eq!(query(&connection, "SELECT count(*), count(s), min(a), max(a) FROM t"), ["50002|25002|-2|50499"]);
        assert_eq!(query(&connection, "SELECT a FROM t LIMIT 2"), ["-1", "500"]);
    }
}

#[test]
fn more_rows_than_memory_spill() {
    let database = open(Config::default().threads(2).memory_limit(32 << 20).counts_process(false));
    let connection = database.connect();
    query(&connection, "CREATE TABLE t (a BIGINT, s VARCHAR)");
    let mut appender = connection.appender("t").unwrap();
    let text = "x".repeat(100);
    let texts: StringArray = (0..10_000).map(|_| Some(&*text)).collect();
    for number in 0..100_i64 {
        let ids = Int64Array::from_iter_values(number * 10_000..(number + 1) * 10_000);
        appender.append_batch(&batch([("a", column(ids)), ("s", column(texts.clone()))])).unwrap();
    }
    assert_eq!(appender.finish().unwrap(), 1_000_000);
    assert!(database.memory_stats().spilled_bytes > 0);
    assert_eq!(
        query(&connection, "SELECT count(*), sum(a), sum(length(s)) FROM t"),
        ["1000000|499999500000|100000000"]
    );
}

#[test]
fn tables_that_are_none_are_refused() {
    let connection = connect();
    query(&connection, "CREATE VIEW v AS SELECT 1 AS a");
    connection.register("r", batch([("a", column(Int32Array::from(vec![1])))])).unwrap();
    for (table, code) in [
        ("missing", "OGEE_Q002"),
        ("v", "OGEE_Q003"),
        ("r", "OGEE_Q003"),
        ("two words", "OGEE_Q001"),
        ("t; DROP TABLE t", "OGEE_Q001"),
        ("t (a)", "OGEE_Q001"),
        ("", "OGEE_Q001"),
    ] {
        assert_eq!(connection.appender(table).unwrap_err().code(), code, "{table}");
    }
    // The table changes while rows wait.
    query(&connection, "CREATE TABLE t (a INTEGER)");
    let mut appender = connection.appender("t").unwrap();
    appender.append_row([1]).unwrap();
    query(&connection, "DROP TABLE t");
    assert_eq!(appender.flush().unwrap_err().code(), "OGEE_Q002");
    query(&connection, "CREATE TABLE t (a INTEGER, b VARCHAR)");
    assert!(appender.append_row([1]).is_err());
    appender.append_row(params![1, "b"]).unwrap();
    assert_eq!(appender.finish().unwrap(), 1);
    assert_eq!(query(&connection, "SELECT * FROM t"), ["1|b"]);
}

#[test]
fn transactions_hold_for_appenders() {
    let database = open(Config::default().threads(2));
    let (one, other) = (database.connect(), database.connect());
    query(&one, "CREATE TABLE t (a INTEGER)");
    query(&one, "BEGIN");
    let mut appender = one.appender("t").unwrap();
    appender.append_row([1]).unwrap();
    assert_eq!(appender.finish().unwrap(), 1);
    let mut elsewhere = other.appender("t").unwrap();
    elsewhere.append_row([2]).unwrap();
    assert!(elsewhere.flush().unwrap_err().message().contains("transaction"));
    query(&one, "ROLLBACK");
    assert_eq!(query(&one, "SELECT count(*) FROM t"), ["0"]);
    elsewhere.append_row([3]).unwrap();
    assert_eq!(elsewhere.finish().unwrap(), 1);
    assert_eq!(error_of(one.execute("SELECT * FROM ogee_appended_0")).0, "OGEE_Q002");
    assert_eq!(one.appender("t").unwrap().columns()[0].data_type(), &DataType::Int32);
}
