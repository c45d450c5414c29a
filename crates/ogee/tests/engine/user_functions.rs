//! Functions of the program: where they may stand, what goes wrong in them, little memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray},
    datatypes::{DataType, Int64Type},
};
use ogee::{AggregateFunction, AggregateState, Connection, ScalarFunction, ScalarValue, UserError, binary, unary};

use crate::common::{connect, error_of, hostile, open, query, query_sorted};

/// The values that it has seen, in their order.
#[derive(Default)]
struct Seen(Vec<Option<i64>>);

impl AggregateState for Seen {
    fn update(&mut self, arguments: &[ArrayRef]) -> Result<(), UserError> {
        for value in arguments[0].as_primitive::<Int64Type>() {
            match value {
                Some(-1) => return Err("a value that is none".into()),
                Some(-2) => panic!("of purpose"),
                value => self.0.push(value),
            }
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ScalarValue>, UserError> {
        Ok(vec![self.finish()?])
    }

    fn merge(&mut self, states: &[ArrayRef]) -> Result<(), UserError> {
        for state in states[0].as_string::<i32>().iter().flatten() {
            self.0.extend(state.split_whitespace().map(|value| value.parse::<i64>().ok()));
        }
        Ok(())
    }

    fn finish(&self) -> Result<ScalarValue, UserError> {
        let texts = self.0.iter().map(|value| value.map_or("NULL".to_owned(), |value| value.to_string()));
        Ok(texts.collect::<Vec<_>>().join(" ").into())
    }

    fn size(&self) -> usize {
        self.0.capacity() * size_of::<Option<i64>>()
    }
}

/// A sum that takes any order, and a product.
#[derive(Default)]
struct Total(i64);

impl AggregateState for Total {
    fn update(&mut self, arguments: &[ArrayRef]) -> Result<(), UserError> {
        let (values, weights) = (arguments[0].as_primitive::<Int64Type>(), arguments[1].as_primitive::<Int64Type>());
        self.0 +=
            values.iter().zip(weights).map(|(value, weight)| value.unwrap_or(0) * weight.unwrap_or(0)).sum::<i64>();
        Ok(())
    }

    fn state(&self) -> Result<Vec<ScalarValue>, UserError> {
        Ok(vec![self.0.into()])
    }

    fn merge(&mut self, states: &[ArrayRef]) -> Result<(), UserError> {
        self.0 += states[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        Ok(())
    }

    fn finish(&self) -> Result<ScalarValue, UserError> {
        Ok(self.0.into())
    }
}

fn add_aggregates(connection: &Connection) {
    let seen = || AggregateFunction::new("seen", [DataType::Int64], DataType::Utf8, [DataType::Utf8], Seen::default);
    connection.create_aggregate_function(seen()).unwrap();
    let all = AggregateFunction::new("SEEN_all", [DataType::Int64], DataType::Utf8, [DataType::Utf8], Seen::default);
    connection.create_aggregate_function(all.sees_nulls()).unwrap();
    let types = [DataType::Int64, DataType::Int64];
    let total = AggregateFunction::new("total", types, DataType::Int64, [DataType::Int64], Total::default);
    connection.create_aggregate_function(total).unwrap();
}

#[test]
fn scalar_functions_stand_wherever_those_of_sql_do() {
    for config in hostile() {
        let connection = open(config).connect();
        connection.create_scalar_function(unary::<i64, i64>("Twice", |x| 2 * x)).unwrap();
        connection.create_scalar_function(binary::<str, i64, String>("times", |s, n| s.repeat(n as usize))).unwrap();
        connection
            .create_scalar_function(unary::<i64, Option<bool>>("is_even", |x| (x >= 0).then_some(x % 2 == 0)))
            .unwrap();
        query(
            &connection,
            "CREATE TABLE t AS SELECT value - 5 AS i, CASE WHEN value % 3 = 0 THEN NULL ELSE 's' || value END AS s FROM range(10000)",
        );
        for (sql, expected) in [
            ("SELECT twice(21), TWICE(NULL), times('ab', 2)", "42|NULL|abab"),
            ("SELECT sum(twice(i)), count(*) FROM t", "99890000|10000"),
            ("SELECT count(times(s, 2)), max(length(times(s, 3))) FROM t", "6666|15"),
            ("SELECT count(*) FROM t WHERE is_even(i)", "4998"),
            ("SELECT count(*) FROM t WHERE is_even(i) IS NULL", "5"),
            ("SELECT count(*) FROM t a JOIN t b ON twice(a.i) = b.i", "5000"),
            ("SELECT max(twice(i)) OVER () FROM t LIMIT 1", "19988"),
            ("SELECT twice(i) AS g FROM t GROUP BY twice(i) ORDER BY twice(i) DESC LIMIT 1", "19988"),
            ("SELECT twice(2.0), twice(3::TINYINT), times('x'::VARCHAR, 2::UTINYINT)", "4|6|xx"),
            ("SELECT sum(twice(i)) FROM (SELECT i FROM t WHERE false)", "NULL"),
        ] {
            assert_eq!(query(&connection, sql), [expected], "{sql}");
        }
        query(&connection, "CREATE VIEW v AS SELECT twice(i) AS d FROM t");
        assert_eq!(query(&connection, "SELECT max(d) FROM v"), ["19988"]);
        query(&connection, "UPDATE t SET i = twice(i) WHERE i = 7");
        assert_eq!(query(&connection, "SELECT count(*) FROM t WHERE i = 14"), ["2"]);
    }
}

#[test]
fn what_a_scalar_function_gives_is_checked() {
    for config in hostile() {
        let connection = open(config).connect();
        query(&connection, "CREATE TABLE t AS SELECT value AS i FROM range(10000)");
        let add = |name: &str, body: fn(&[ArrayRef]) -> Result<ArrayRef, UserError>| {
            let function = ScalarFunction::new(name, [DataType::Int64], DataType::Int64, body);
            connection.create_scalar_function(function).unwrap();
        };
        add("short", |columns| Ok(columns[0].slice(0, columns[0].len() - 1)));
        add("other", |columns| Ok(Arc::new(Float64Array::from(vec![1.0; columns[0].len()]))));
        add("fails", |columns| match columns[0].as_primitive::<Int64Type>().iter().any(|value| value == Some(7777)) {
            true => Err("there is a seven too many".into()),
            false => Ok(Arc::clone(&columns[0])),
        });
        add("panics", |columns| match columns[0].as_primitive::<Int64Type>().iter().any(|value| value == Some(7777)) {
            true => panic!("of purpose"),
            false => Ok(Arc::clone(&columns[0])),
        });
        for (sql, said) in [
            ("SELECT short(i) FROM t", "function 'short' gave"),
            ("SELECT short(1)", "function 'short' gave 0 values for 1 rows"),
            (
                "SELECT other(i) FROM t",
                "function 'other' gave values of type DOUBLE, and it was declared to give BIGINT",
            ),
            ("SELECT sum(fails(i)) FROM t", "function 'fails': there is a seven too many"),
            ("SELECT i FROM t WHERE panics(i) >= 0", "function 'panics' panicked: of purpose"),
            ("SELECT panics(7777)", "function 'panics' panicked: of purpose"),
            (
                "CREATE TABLE u AS SELECT panics(i) AS p, count(*) FROM t GROUP BY p",
                "function 'panics' panicked: of purpose",
            ),
            ("UPDATE t SET i = panics(i)", "function 'panics' panicked: of purpose"),
        ] {
            let (code, message) = error_of(connection.execute(sql));
            assert_eq!((code, message.starts_with(said)), ("OGEE_Q007", true), "{sql}: {message}");
        }
        for (sql, said) in [
            ("SELECT fails('x')", "function 'fails' takes (BIGINT), not (VARCHAR); cast the arguments"),
            ("SELECT fails(1, 2)", "function 'fails' takes (BIGINT), not (BIGINT, BIGINT); cast the arguments"),
            ("SELECT fails()", "fails"),
        ] {
            let (code, message) = error_of(connection.execute(sql));
            assert_eq!((code, message.contains(said)), ("OGEE_Q002", true), "{sql}: {message}");
        }
        assert_eq!(query(&connection, "SELECT sum(fails(i)) FROM t WHERE i < 7000"), ["24496500"]);
        assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["10000"]);
    }
}

#[test]
fn volatile_functions_are_called_for_each_row() {
    let connection = connect();
    let calls = Arc::new(AtomicUsize::new(0));
    let next = |calls: &Arc<AtomicUsize>| {
        let calls = Arc::clone(calls);
        move |_: &[ArrayRef]| -> Result<ArrayRef, UserError> {
            Ok(Arc::new(Int64Array::from(vec![calls.fetch_add(1, Ordering::Relaxed) as i64])))
        }
    };
    let counter = ScalarFunction::new("counter", [], DataType::Int64, next(&calls));
    connection.create_scalar_function(counter.clone().volatile()).unwrap();
    assert_eq!(query(&connection, "SELECT count(DISTINCT counter()) FROM range(1000)"), ["1000"]);
    assert_eq!(calls.load(Ordering::Relaxed), 1000);
    connection.create_scalar_function(counter).unwrap();
    assert_eq!(query(&connection, "SELECT count(DISTINCT counter()) FROM range(1000)"), ["1"]);
    let shown = ScalarFunction::new("shown", [DataType::Int64], DataType::Utf8, |columns| {
        let values = columns[0].as_primitive::<Int64Type>().iter();
        Ok(Arc::new(
            values.map(|value| Some(value.map_or("?".to_owned(), |value| value.to_string()))).collect::<StringArray>(),
        ))
    });
    connection.create_scalar_function(shown.clone()).unwrap();
    assert_eq!(query(&connection, "SELECT shown(x) FROM (VALUES (1), (NULL)) t(x)"), ["1", "NULL"]);
    connection.create_scalar_function(shown.sees_nulls()).unwrap();
    assert_eq!(query(&connection, "SELECT shown(x) FROM (VALUES (1), (NULL)) t(x)"), ["1", "?"]);
    assert_eq!(query(&connection, "SELECT shown(NULL)"), ["?"]);
}

#[test]
fn aggregates_stand_wherever_those_of_sql_do() {
    for config in hostile() {
        let connection = open(config).connect();
        add_aggregates(&connection);
        query(&connection, "CREATE TABLE t (k INTEGER, i INTEGER)");
        query(&connection, "INSERT INTO t VALUES (1, 3), (2, 5), (1, 1), (2, NULL), (1, 3), (3, NULL)");
        for (sql, expected) in [
            ("SELECT k, seen(i ORDER BY i) FROM t GROUP BY k", vec!["1|1 3 3", "2|5", "3|"]),
            ("SELECT k, seen(i ORDER BY i DESC) FROM t GROUP BY k", vec!["1|3 3 1", "2|5", "3|"]),
            ("SELECT k, seen_all(i ORDER BY i NULLS FIRST) FROM t GROUP BY k", vec!["1|1 3 3", "2|NULL 5", "3|NULL"]),
            ("SELECT k, seen(DISTINCT i ORDER BY i) FROM t GROUP BY k", vec!["1|1 3", "2|5", "3|"]),
            ("SELECT seen(DISTINCT i ORDER BY i), count(*) FROM t", vec!["1 3 5|6"]),
            ("SELECT k, seen(i ORDER BY i) FILTER (WHERE i > 1) FROM t GROUP BY k", vec!["1|3 3", "2|5", "3|"]),
            ("SELECT seen(i ORDER BY i) FROM t WHERE false", vec![""]),
            ("SELECT total(i, k), count(*) FROM t", vec!["17|6"]),
            ("SELECT k, total(i, 10) FROM t GROUP BY k", vec!["1|70", "2|50", "3|0"]),
            ("SELECT total(DISTINCT i, k) FROM t", vec!["14"]),
            ("SELECT k, total(i, 1) FROM t GROUP BY ROLLUP(k)", vec!["1|7", "2|5", "3|0", "NULL|12"]),
            ("SELECT k, total(i, 1) FROM t GROUP BY k HAVING total(i, 1) > 5", vec!["1|7"]),
            ("SELECT k, total(i, 1) OVER (PARTITION BY k) FROM t", vec!["1|7", "1|7", "1|7", "2|5", "2|5", "3|0"]),
            (
                "SELECT i, seen(i) OVER (ORDER BY k, i ROWS UNBOUNDED PRECEDING) FROM t WHERE k = 1",
                vec!["1|1", "3|1 3", "3|1 3 3"],
            ),
            (
                "SELECT i, seen(i) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t WHERE k = 1",
                vec!["1|1", "3|1 3", "3|3 3"],
            ),
            (
                "SELECT i, (SELECT total(u.i, 1) FROM t u WHERE u.k = t.k + 2) FROM t WHERE k < 3 AND i > 2",
                vec!["3|0", "3|0", "5|0"],
            ),
        ] {
            assert_eq!(query_sorted(&connection, sql), expected, "{sql}");
        }
        let (code, message) = error_of(connection.execute("SELECT seen('x') FROM t"));
        assert_eq!(
            (code, message.contains("function 'seen' takes (BIGINT), not (VARCHAR)")),
            ("OGEE_Q002", true),
            "{message}"
        );
        for (value, said) in
            [(-1, "function 'seen': a value that is none"), (-2, "function 'seen' panicked: of purpose")]
        {
            for sql in [
                format!("SELECT seen({value})"),
                format!("SELECT k, seen(CASE WHEN i = 5 THEN {value} ELSE i END) FROM t GROUP BY k"),
                format!("SELECT seen(CASE WHEN i = 5 THEN {value} ELSE i END) OVER () FROM t"),
            ] {
                assert_eq!(error_of(connection.execute(&sql)), ("OGEE_Q007", said.to_owned()), "{sql}");
            }
        }
        assert_eq!(query(&connection, "SELECT total(i, 1) FROM t"), ["12"]);
    }
}

#[test]
fn aggregates_of_many_groups_and_rows() {
    for config in hostile() {
        let connection = open(config).connect();
        add_aggregates(&connection);
        query(&connection, "CREATE TABLE t AS SELECT value % 5000 AS k, value AS i FROM range(200000)");
        let sql = "SELECT count(*), sum(a), sum(b) FROM (SELECT k, total(i, 2) AS a, sum(i) AS b FROM t GROUP BY k)";
        assert_eq!(query(&connection, sql), ["5000|39999800000|19999900000"]);
        let sql = "SELECT max(length(s)), min(s) FROM (SELECT k, seen(i ORDER BY i DESC) AS s FROM t WHERE k < 100 GROUP BY k)";
        let first = (0..40).rev().map(|n| (n * 5000).to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(query(&connection, sql)[0].split('|').nth(1).unwrap(), first);
    }
}

#[test]
fn states_that_grow_are_counted() {
    let config = ogee::Config::default().threads(2).memory_limit(48 << 20).counts_process(false);
    let connection = open(config).connect();
    add_aggregates(&connection);
    // 160 MB of values in one state.
    let result = error_of(connection.execute("SELECT length(seen(value)) FROM range(10000000)"));
    assert!(result.0.starts_with("OGEE_M") || result.0 == "OGEE_Q006", "{result:?}");
    assert_eq!(query(&connection, "SELECT total(value, 1) FROM range(10)"), ["45"]);
}

#[test]
fn names_of_functions() {
    let connection = connect();
    let one = |name: &str| unary::<i64, i64>(name, |x| x);
    for name in ["abs", "SUM", "row_number", "range", "list_transform"] {
        let message = connection.create_scalar_function(one(name)).unwrap_err().message().to_owned();
        assert_eq!(message, format!("there is a function '{}' already; use another name", name.to_lowercase()));
    }
    for name in ["", "two words", "1st", "a-b", "é"] {
        assert_eq!(connection.create_scalar_function(one(name)).unwrap_err().code(), "OGEE_Q002", "{name}");
    }
    connection.create_scalar_function(one("mine")).unwrap();
    // One of another kind takes its place.
    let total = AggregateFunction::new(
        "mine",
        [DataType::Int64, DataType::Int64],
        DataType::Int64,
        [DataType::Int64],
        Total::default,
    );
    connection.create_aggregate_function(total).unwrap();
    assert_eq!(query(&connection, "SELECT mine(value, 1) FROM range(4)"), ["6"]);
    assert!(connection.functions().iter().any(|function| function.name == "mine" && function.is_of_program));
    assert_eq!(
        connection.drop_function("mines").unwrap_err().message(),
        "the program gave no function 'mines'; did you mean mine?"
    );
    assert_eq!(connection.drop_function("abs").unwrap_err().code(), "OGEE_Q002");
    connection.drop_function("MINE").unwrap();
    assert_eq!(error_of(connection.execute("SELECT mine(1, 1)")).0, "OGEE_Q002");
    let none = AggregateFunction::new("none", [], DataType::Int64, [DataType::Int64], Total::default);
    assert!(connection.create_aggregate_function(none).unwrap_err().message().contains("no arguments"));
}

#[test]
fn a_slow_function_is_interrupted() {
    let connection = connect();
    connection
        .create_scalar_function(unary::<i64, i64>("slow", |x| {
            thread::sleep(Duration::from_micros(100));
            x
        }))
        .unwrap();
    let handle = connection.interrupt_handle();
    let interrupt = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        handle.interrupt();
    });
    assert_eq!(error_of(connection.execute("SELECT sum(slow(value)) FROM range(100000000)")).0, "OGEE_X004");
    interrupt.join().unwrap();
    assert_eq!(query(&connection, "SELECT slow(1)"), ["1"]);
}
