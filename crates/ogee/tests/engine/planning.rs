//! Planning: long and deep statements are planned, or refused by name, and planning hears interrupts.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::common::{connect, query, try_query};

fn table() -> ogee::Connection {
    let connection = connect();
    query(
        &connection,
        "CREATE TABLE t AS SELECT value AS x, CAST(value AS DOUBLE) AS f, CAST(value AS VARCHAR) AS s FROM range(4)",
    );
    connection
}

fn chain(each: impl Fn(usize) -> String, of: &str, terms: usize) -> String {
    (0..terms).map(each).collect::<Vec<_>>().join(of)
}

/// `inner` in so many of `open` and `close`.
fn nested(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("{}{inner}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn long_expressions_are_planned() {
    let connection = table();
    let x = |_: usize| "x".to_owned();
    let s = |_: usize| "s".to_owned();
    for (expr, of_three) in [
        (chain(x, " + ", 400), "1200"),
        (chain(|i| ["x", "f", "2", "0.5"][i % 4].to_owned(), " + ", 200), "425.0"),
        (format!("length({})", chain(s, " || ", 300)), "300"),
        (nested("(", "x", ")", 400), "3"),
        (nested("(1 + ", "x", ")", 300), "303"),
        (nested("abs(", "x", ")", 300), "3"),
        (nested("CASE WHEN x = 1 THEN 1 / 0 ELSE ", "x + 1", " END", 200), "4"),
        (format!("CASE {} END", chain(|i| format!("WHEN x = {i} THEN {i} + 5"), " ", 1000)), "8"),
        (format!("CASE WHEN {} THEN 1 END", chain(|i| format!("x <> {}", i + 10), " AND ", 20_000)), "1"),
        (format!("CASE WHEN {} THEN 1 END", chain(|i| format!("x > {} AND f < {i}", i + 10), " OR ", 500)), "NULL"),
        (format!("CASE WHEN x IN ({}) THEN 1 END", chain(|i| i.to_string(), ", ", 5000)), "1"),
    ] {
        let rows = query(&connection, &format!("SELECT {expr} FROM t WHERE x = 3"));
        assert_eq!(rows, [of_three], "{}", &expr[..expr.len().min(60)]);
    }
    // Where expressions are keys, arguments and conditions.
    let sum = chain(x, " + ", 100);
    assert_eq!(
        query(&connection, &format!("SELECT {sum} AS k, count(*), sum({sum}) FROM t GROUP BY k ORDER BY {sum} DESC")),
        ["300|1|300", "200|1|200", "100|1|100", "0|1|0"]
    );
    let other = chain(|_| "u.x".to_owned(), " + ", 100);
    let own = chain(|_| "t.x".to_owned(), " + ", 100);
    assert_eq!(
        query(&connection, &format!("SELECT count(*) FROM t JOIN t AS u ON {own} = {other} WHERE {own} > 100")),
        ["2"]
    );
    assert_eq!(
        query(&connection, &format!("SELECT count(*) FROM t WHERE {}", chain(|i| format!("x = {i}"), " OR ", 20_000))),
        ["4"]
    );
    // Overflow is told within a piece, too.
    let error = try_query(&connection, &format!("SELECT {sum} + 9223372036854775807 FROM t")).unwrap_err();
    assert_eq!(error.code(), "OGEE_X001");
    let error = try_query(&connection, &format!("SELECT {sum} + nope FROM t")).unwrap_err();
    assert_eq!(error.code(), "OGEE_Q002");
}

#[test]
fn what_is_too_deep_is_refused_by_name() {
    let connection = table();
    for expr in [
        chain(|_| "x".to_owned(), " + ", 50_000),
        chain(|_| "s".to_owned(), " || ", 50_000),
        nested("(", "x", ")", 50_000),
        nested("abs(", "x", ")", 50_000),
        nested("[", "x", "]", 50_000),
        nested("(SELECT ", "x", ")", 50_000),
        nested("CASE WHEN x = 1 THEN 1 ELSE ", "x", " END", 50_000),
        format!("{}x", "NOT ".repeat(50_000)),
        format!("{}x", "- ".repeat(50_000)),
        format!("x{}", "::INT".repeat(50_000)),
    ] {
        let error = try_query(&connection, &format!("SELECT {expr} FROM t")).unwrap_err();
        assert_eq!(error.code(), "OGEE_Q003", "{error}");
        assert!(error.message().contains("more than 1000 levels deep"), "{error}");
    }
    let error = try_query(&connection, &chain(|i| format!("SELECT {i}"), " UNION ALL ", 50_000)).unwrap_err();
    assert!(error.message().contains("more than 1000 queries"), "{error}");
    assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["4"]);
}

#[test]
fn interrupts_are_heard_while_a_statement_is_planned() {
    let connection = table();
    let handle = connection.interrupt_handle();
    let windows = chain(|i| format!("sum(x) OVER (ORDER BY f + {i})"), ", ", 600);
    for sql in [
        format!("SELECT {windows} FROM t"),
        format!("CREATE TABLE made AS SELECT {windows} FROM t"),
        "EXPLAIN ANALYZE SELECT count(*) FROM range(1000000) AS a(v), range(1000000) AS b(w) WHERE v * w % 7 = 3"
            .to_owned(),
        // One partition, each of whose frames is put together anew.
        "SELECT string_agg(v::varchar, ',') OVER (ORDER BY v ROWS 500000 PRECEDING) FROM range(1000000) AS t(v)"
            .to_owned(),
    ] {
        let asked = thread::scope(|scope| {
            let asked = scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                handle.interrupt();
                Instant::now()
            });
            let error = try_query(&connection, &sql).unwrap_err();
            assert_eq!(error.code(), "OGEE_X004", "{error}");
            asked.join().unwrap()
        });
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["4"]);
    }
    // What was left in the middle has no effect later.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(try_query(&connection, "SELECT count(*) FROM made").unwrap_err().code(), "OGEE_Q002");
}
