//! Prepared statements and parameters: values of all types, in all places, again and again.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use ogee::{
    Connection, Date, Decimal, Interval, Null, ScalarValue, Time, Timestamp, TimestampTz, ToValue, Values,
    named_params, params,
};

use crate::common::{batch_rows, connect, error_of, hostile, open, query, try_query};

/// The rows of a statement with parameters, as text.
fn with(connection: &Connection, sql: &str, params: impl ogee::Params) -> Vec<String> {
    let rows = connection.execute_with(sql, params).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.flat_map(|batch| batch_rows(&batch.unwrap_or_else(|error| panic!("{sql}: {error}")))).collect()
}

#[test]
fn values_of_all_types_come_as_they_are() {
    let connection = connect();
    let long = "x'; DROP TABLE t; --\n\0'' \u{1F600}".repeat(100);
    let most = 10_i128.pow(38) - 1;
    let list = ScalarValue::List(ScalarValue::new_list_nullable(&[1_i64.into(), 2_i64.into()], &DataType::Int64));
    let cases: Vec<(&dyn ToValue, &str, &str)> = vec![
        (&true, "BOOLEAN", "true"),
        (&-5_i8, "TINYINT", "-5"),
        (&300_i16, "SMALLINT", "300"),
        (&i32::MIN, "INTEGER", "-2147483648"),
        (&i64::MIN, "BIGINT", "-9223372036854775808"),
        (&u8::MAX, "UTINYINT", "255"),
        (&u64::MAX, "UBIGINT", "18446744073709551615"),
        (&most, "HUGEINT", "99999999999999999999999999999999999999"),
        (&0.1_f32, "FLOAT", "0.1"),
        (&f64::MIN_POSITIVE, "DOUBLE", "2.2250738585072014e-308"),
        (&f64::NAN, "DOUBLE", "NaN"),
        (&-0.0_f64, "DOUBLE", "-0.0"),
        (&"it's", "VARCHAR", "it's"),
        (&b"\x00\xff'", "BLOB", "00ff27"),
        (&Date(19_783), "DATE", "2024-03-01"),
        (&Time(3_600_000_001), "TIME", "01:00:00.000001"),
        (&Timestamp(1), "TIMESTAMP", "1970-01-01T00:00:00.000001"),
        (&TimestampTz(0), "TIMESTAMP WITH TIME ZONE", "1970-01-01T00:00:00Z"),
        (&Decimal { value: -1999, scale: 2 }, "DECIMAL(38,2)", "-19.99"),
        (&Interval { months: 14, days: 3, nanos: 0 }, "INTERVAL", "14 mons 3 days"),
        (&list, "BIGINT[]", "[1, 2]"),
        (&None::<i32>, "\"NULL\"", "NULL"),
        (&Null, "\"NULL\"", "NULL"),
        (&Some(7), "INTEGER", "7"),
    ];
    for (value, data_type, text) in cases {
        let rows = with(&connection, "SELECT $1, typeof($1)", [value]);
        assert_eq!(rows, [format!("{text}|{data_type}")]);
    }
    assert_eq!(
        with(&connection, "SELECT $1 = $2, length($1)", params![long, long.clone()]),
        [format!("true|{}", long.chars().count())]
    );
}

#[test]
fn parameters_stand_wherever_values_do() {
    for config in hostile() {
        let connection = open(config).connect();
        query(&connection, "CREATE TABLE t AS SELECT i, i % 10 AS k, 'name ' || i AS s FROM range(1000) r(i)");
        for (sql, params, expected) in [
            ("SELECT count(*) FROM t WHERE k = ? AND i >= ?", params![3, 500], vec!["50"]),
            ("SELECT i FROM t ORDER BY i LIMIT ? OFFSET ?", params![2, 10], vec!["10", "11"]),
            ("SELECT i FROM t ORDER BY i LIMIT $1", params![2_i64], vec!["0", "1"]),
            (
                "SELECT k + $1 AS g, count(*) FROM t GROUP BY k + $1 HAVING k + $1 > $2 ORDER BY g",
                params![1, 9],
                vec!["10|100"],
            ),
            ("SELECT i FROM t WHERE s IN (?, ?, ?) ORDER BY i", params!["name 1", "name 22", "x"], vec!["1", "22"]),
            (
                "WITH a AS (SELECT $1 AS x), b AS (SELECT x FROM a UNION ALL SELECT x + $1 FROM a) SELECT sum(b.x) FROM b, b c",
                params![1],
                vec!["6"],
            ),
            ("SELECT (SELECT max(i) FROM t WHERE k = $1 AND i < $2)", params![4, 100], vec!["94"]),
            ("SELECT * FROM (VALUES ($1, $2), ($2, $1)) v(a, b) ORDER BY a", params![1, 2], vec!["1|2", "2|1"]),
            (
                "SELECT count(*) FROM range($1) a JOIN range($2) b ON a.value = b.value",
                params![100, 50_i64],
                vec!["50"],
            ),
            ("SELECT CASE WHEN $1 THEN $2 ELSE 'no' END", params![true, "yes"], vec!["yes"]),
            ("SELECT CAST($1 AS INTEGER) + 1", params!["41"], vec!["42"]),
            ("SELECT s LIKE $1 FROM t WHERE i = 7", params!["%7"], vec!["true"]),
            ("SELECT $1 || s FROM t WHERE i = $2::BIGINT", params!["my ", 7], vec!["my name 7"]),
            ("SELECT ([10, 20, 30])[$1]", params![2], vec!["20"]),
            ("SELECT DATE '2024-01-01' + $1", params![Interval { months: 1, days: 0, nanos: 0 }], vec!["2024-02-01"]),
        ] {
            assert_eq!(with(&connection, sql, params), expected, "{sql}");
        }
        let between = named_params! { "hi": 6, "LO": 5 };
        assert_eq!(with(&connection, "SELECT i FROM t WHERE i BETWEEN $lo AND $hi ORDER BY i", between), ["5", "6"]);
        let plan = with(&connection, "EXPLAIN SELECT * FROM t WHERE i = $1", params![5]).join("\n");
        assert!(plan.contains("OgeeTable"), "{plan}");
    }
}

#[test]
fn rows_are_changed_with_parameters() {
    let connection = connect();
    let directory = tempfile::tempdir().unwrap();
    query(&connection, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR DEFAULT 'x', c INTEGER CHECK (c > 0))");
    let affected = |sql: &str, params: &[&dyn ToValue]| {
        connection.execute_with(sql, params).unwrap_or_else(|error| panic!("{sql}: {error}")).affected_rows()
    };
    assert_eq!(
        affected("INSERT INTO t VALUES (?, ?, ?), (?, ?, ?)", params![1, "one", 1, 2, None::<&str>, 2]),
        Some(2)
    );
    assert_eq!(affected("INSERT INTO t (a, c) SELECT value, $1 FROM range($2, $3)", params![9, 10, 20]), Some(10));
    assert_eq!(
        affected("INSERT INTO t VALUES ($1, 'y', 1) ON CONFLICT DO UPDATE SET b = $2", params![1, "again"]),
        Some(1)
    );
    assert_eq!(affected("UPDATE t SET b = $1, c = c + $2 WHERE a > $3", params!["many", 1, 15]), Some(4));
    assert_eq!(affected("DELETE FROM t WHERE a = ? OR b = ?", params![2, "x"]), Some(7));
    let merge = "MERGE INTO t USING (SELECT $1 AS a, $2 AS c) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET c = s.c WHEN NOT MATCHED THEN INSERT (a, c) VALUES (s.a, s.c)";
    assert_eq!(affected(merge, params![16, 77]), Some(1));
    assert_eq!(affected(merge, params![50, 5]), Some(1));
    assert_eq!(
        query(&connection, "SELECT * FROM t ORDER BY a"),
        ["1|again|1", "16|many|77", "17|many|10", "18|many|10", "19|many|10", "50|x|5"]
    );
    assert_eq!(with(&connection, "INSERT INTO t VALUES ($1, 'r', 3) RETURNING a + $2", params![60, 1]), ["61"]);
    assert_eq!(affected("CREATE TABLE made AS SELECT $1 AS n, $2 AS s", params![5_i64, "text"]), Some(1));
    assert_eq!(query(&connection, "SELECT typeof(n), typeof(s), s FROM made"), ["BIGINT|VARCHAR|text"]);
    let path = directory.path().join("out.csv");
    let copy = format!("COPY (SELECT * FROM t WHERE a < $1 ORDER BY a) TO '{}'", path.display());
    assert_eq!(affected(&copy, params![17]), Some(2));
    let check = error_of(connection.execute_with("INSERT INTO t VALUES (?, ?, ?)", params![70, "z", -1]));
    assert!(check.1.contains("CHECK"), "{check:?}");
    let key = error_of(connection.execute_with("INSERT INTO t VALUES (?, ?, ?)", params![1, "z", 1]));
    assert_eq!(key.0, "OGEE_Q007", "{key:?}");
    assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["7"]);
}

#[test]
fn what_is_wrong_with_values_is_said() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT 1 AS a");
    let none: &[&dyn ToValue] = params![];
    for (sql, params, code, said) in [
        ("SELECT ?", none, "OGEE_Q002", "the statement has 1 parameter, and no value was given"),
        ("SELECT ?, ?", params![1], "OGEE_Q002", "the statement has 2 parameters, and 1 value was given"),
        ("SELECT 1", params![1, 2], "OGEE_Q002", "the statement has no parameters, and 2 values were given"),
        ("SELECT $a + $b", params![1], "OGEE_Q002", "the statement has 2 parameters ($a, $b), and 1 value was given"),
        (
            "SELECT $1 + $name",
            params![1],
            "OGEE_Q002",
            "the statement has parameters with numbers (? or $1) and with names ($name); use one of both",
        ),
        ("CREATE VIEW v AS SELECT $1", params![1], "OGEE_Q003", "parameters of CREATE VIEW are not supported"),
        ("SET threads = $1", params![1], "OGEE_Q003", "parameters of SET"),
        ("CREATE TABLE u (a INTEGER DEFAULT $1)", params![1], "OGEE_Q003", "parameters of CREATE TABLE"),
        ("SELECT a FROM t WHERE a = $1", params!["no number"], "OGEE_Q007", "no number"),
        ("SELECT a FROM t LIMIT $1", params![-1], "OGEE_Q002", ""),
        ("SELECT a FROM missing WHERE a = $1", params![1], "OGEE_Q002", "missing"),
    ] {
        let (found, message) = error_of(connection.execute_with(sql, params));
        assert_eq!((found, message.contains(said)), (code, true), "{sql}: {message}");
    }
    for (params, said) in [
        (named_params! { "a": 1, "c": 2 }, "there is no parameter $c; the statement has 2 parameters ($a, $b)"),
        (named_params! { "a": 1, "A": 2 }, "parameter $A is given two values"),
        (named_params! { "b": 1 }, "no value was given for $a"),
    ] {
        let (code, message) = error_of(connection.execute_with("SELECT $a + $b", params));
        assert_eq!((code, message.as_str()), ("OGEE_Q002", said));
    }
    let many = error_of(connection.execute_with("SELECT ?", params![i128::MAX]));
    assert!(many.1.contains("38 digits"), "{many:?}");
    assert_eq!(query(&connection, "SELECT a FROM t"), ["1"]);
}

#[test]
fn a_statement_runs_again_and_again() {
    let connection = connect();
    assert_eq!(connection.prepare("SELEC 1").unwrap_err().code(), "OGEE_Q001");
    assert_eq!(connection.prepare("SELECT 1; SELECT 2").unwrap_err().code(), "OGEE_Q001");
    let select = connection.prepare("SELECT * FROM t WHERE a = ?").unwrap();
    assert_eq!(error_of(select.execute(params![1])).0, "OGEE_Q002");
    query(&connection, "CREATE TABLE t (a INTEGER)");
    query(&connection, "INSERT INTO t VALUES (1), (2)");
    let rows = |params: &[&dyn ToValue]| -> Vec<String> {
        select.execute(params).unwrap().flat_map(|batch| batch_rows(&batch.unwrap())).collect()
    };
    // Values of other types.
    assert_eq!(rows(params![1]), ["1"]);
    assert_eq!(rows(params![2_i64]), ["2"]);
    assert_eq!(rows(params![2.0]), ["2"]);
    assert_eq!(rows(params!["1"]), ["1"]);
    assert_eq!(rows(params![None::<i32>]), [""; 0]);
    // The table changes.
    query(&connection, "ALTER TABLE t ADD COLUMN b VARCHAR DEFAULT 'b'");
    assert_eq!(rows(params![1]), ["1|b"]);
    query(&connection, "DROP TABLE t");
    assert_eq!(error_of(select.execute(params![1])).0, "OGEE_Q002");
    query(&connection, "CREATE TABLE t AS SELECT 'x' AS z, DATE '2024-01-01' AS a");
    assert_eq!(rows(params![Date::from_ymd(2024, 1, 1)]), ["x|2024-01-01"]);
    // Results at once, one of them left in the middle.
    let many = connection.prepare("SELECT * FROM range($1)").unwrap();
    let mut first = many.execute([i64::MAX]).unwrap();
    let second = many.execute([3_i64]).unwrap();
    assert!(first.next().unwrap().is_ok());
    drop(first);
    assert_eq!(second.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
    // An interrupted one.
    let mut endless = many.execute(vec![ScalarValue::from(i64::MAX)]).unwrap();
    connection.interrupt_handle().interrupt();
    assert!(endless.any(|batch| batch.is_err_and(|error| error.code() == "OGEE_X004")));
    assert_eq!(many.execute(Values::Named(vec![("1".to_owned(), 2_i64.into())])).unwrap().count(), 1);
    // Of nothing.
    assert_eq!(connection.prepare(" ; ").unwrap().execute(()).unwrap().count(), 0);
}

#[test]
fn prepared_statements_are_of_many_threads() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT value AS a FROM range(10000)");
    let select = connection.prepare("SELECT count(*) FROM t WHERE a < $1").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_i64 {
            let select = &select;
            scope.spawn(move || {
                for round in 0..5 {
                    let limit = thread * 1000 + round;
                    let rows: Vec<_> = select.execute([limit]).unwrap().map(Result::unwrap).collect();
                    assert_eq!(batch_rows(&rows[0]), [limit.to_string()]);
                }
            });
        }
    });
}

#[test]
fn deep_and_long_statements_are_prepared() {
    let connection = connect();
    let deep = format!("SELECT {}$1{}", "(".repeat(300), ")".repeat(300));
    for sql in [deep, format!("SELECT {}", vec!["?"; 400].join(" + "))] {
        let statement = connection.prepare(&sql).unwrap();
        let values = vec![1_i64; statement.parameter_count()];
        let rows: Vec<_> = statement.execute(&values).unwrap().map(Result::unwrap).collect();
        assert_eq!(batch_rows(&rows[0]), [values.len().to_string()]);
    }
}

#[test]
fn names_of_columns_do_not_depend_on_values() {
    let connection = connect();
    let named = |sql: &str, value: &dyn ToValue| {
        let schema = connection.execute_with(sql, [value]).unwrap().schema();
        schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };
    assert_eq!(named("SELECT $1", &1), ["$1"]);
    assert_eq!(named("SELECT ?", &"x"), ["$1"]);
    assert_eq!(named("SELECT $1 AS a, 2 AS b", &"x"), ["a", "b"]);
}

#[test]
fn prepare_of_sql_is_beside_it() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT value AS a FROM range(10)");
    query(&connection, "PREPARE p AS SELECT count(*) FROM t WHERE a < $1");
    assert_eq!(query(&connection, "EXECUTE p(4)"), ["4"]);
    assert!(try_query(&connection, "EXECUTE p").is_err());
    let prepare = connection.prepare("PREPARE q AS SELECT $1 + 1").unwrap();
    assert_eq!(prepare.parameter_count(), 0);
    prepare.execute(()).unwrap();
    assert_eq!(query(&connection, "EXECUTE q(41)"), ["42"]);
}

#[test]
fn values_may_be_long() {
    let connection = connect();
    let text: Arc<str> = "ö".repeat(1 << 20).into();
    assert_eq!(with(&connection, "SELECT length($1), octet_length($1)", params![&*text]), ["1048576|2097152"]);
    query(&connection, "CREATE TABLE t (s VARCHAR, b BLOB)");
    connection.execute_with("INSERT INTO t VALUES (?, ?)", params![&*text, vec![7_u8; 100_000]]).unwrap();
    let same = with(&connection, "SELECT length(s), b = $1 FROM t", [vec![7_u8; 100_000]]);
    assert_eq!(same, ["1048576|true"]);
}

#[test]
fn places_that_take_no_parameter_say_so() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT 1 AS a");
    let frame = "a parameter as the bound of a window frame is not supported; write the number there";
    let reader = "read_csv takes a path or a list of paths as text";
    for (sql, code, said) in [
        ("SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN $1 PRECEDING AND CURRENT ROW) FROM t", "OGEE_Q003", frame),
        ("SELECT sum(a) OVER (ROWS BETWEEN CURRENT ROW AND $1 FOLLOWING) FROM t", "OGEE_Q003", frame),
        ("SELECT * FROM read_csv($1)", "OGEE_Q002", reader),
        ("SELECT * FROM $1", "OGEE_Q001", "found: $1"),
        ("INSERT INTO $1 VALUES (1)", "OGEE_Q001", "found: $1"),
        ("SELECT CAST(a AS DECIMAL($1, 2)) FROM t", "OGEE_Q001", "found: $1"),
        ("SELECT * FROM t TABLESAMPLE ($1 PERCENT)", "OGEE_Q002", "a number expected, found $1"),
        ("COPY t TO $1", "OGEE_Q001", "found: $1"),
        ("EXECUTE p($1)", "OGEE_Q003", "parameters of EXECUTE p are not supported"),
    ] {
        let (found, message) = error_of(connection.execute_with(sql, params![1]));
        assert_eq!((found, message.contains(said)), (code, true), "{sql}: {message}");
    }
    for (sql, expected) in [
        ("SELECT '[1]'::JSON -> $1", "NULL"),
        ("SELECT list_transform([1, 2], x -> x + $1)", "[2, 3]"),
        ("SELECT a FROM t QUALIFY row_number() OVER (ORDER BY a) <= $1", "1"),
        ("SELECT exists(SELECT $1), a IN (SELECT $1) FROM t", "true|true"),
        ("SELECT quantile_cont(a, $1), lag(max(a), $1) OVER () FROM t", "1.0|NULL"),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n <= $1) SELECT count(*) FROM r", "2"),
    ] {
        assert_eq!(with(&connection, sql, params![1]), [expected], "{sql}");
    }
}
