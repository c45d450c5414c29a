//! Statements that change tables: of several connections, larger than memory, interrupted, within transactions.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::common::{connect, open, query, try_query};
use ogee::{Config, Connection};

fn refused(connection: &Connection, sql: &str) -> String {
    match try_query(connection, sql) {
        Ok(rows) => panic!("{sql} gave {rows:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_transaction_is_of_one_connection() {
    let database = open(Config::default().threads(2));
    let (first, second) = (database.connect(), database.connect());
    query(&first, "CREATE TABLE t (a INTEGER PRIMARY KEY)");
    query(&first, "BEGIN");
    query(&first, "INSERT INTO t VALUES (1)");
    // What is not committed is read, and nothing is changed beside it.
    assert_eq!(query(&second, "SELECT * FROM t"), ["1"]);
    for sql in ["INSERT INTO t VALUES (2)", "DROP TABLE t", "CREATE VIEW v AS SELECT 1", "BEGIN"] {
        assert!(refused(&second, sql).contains("another connection is in a transaction"), "{sql}");
    }
    assert!(refused(&second, "COMMIT").contains("without a transaction"));
    query(&first, "ROLLBACK");
    query(&second, "INSERT INTO t VALUES (1), (2)");
    // A connection that is gone has not committed.
    query(&first, "BEGIN");
    query(&first, "TRUNCATE t");
    drop(first);
    assert_eq!(query(&second, "SELECT * FROM t ORDER BY a"), ["1", "2"]);
    assert!(refused(&second, "INSERT INTO t VALUES (2)").contains("PRIMARY KEY"));
    query(&second, "BEGIN");
    query(&second, "COMMIT");
}

#[test]
fn temporary_tables_go_with_their_connection() {
    let database = open(Config::default().threads(2));
    let (first, second) = (database.connect(), database.connect());
    query(&first, "CREATE TEMP TABLE t AS SELECT 1 AS a");
    query(&first, "CREATE TEMP TABLE u AS SELECT 2 AS a");
    query(&first, "CREATE OR REPLACE TABLE u AS SELECT 3 AS a");
    assert_eq!(query(&second, "SELECT a FROM t"), ["1"]);
    drop(first);
    refused(&second, "SELECT a FROM t");
    assert_eq!(query(&second, "SELECT a FROM u"), ["3"]);
}

#[test]
fn a_failed_statement_fails_its_transaction_and_a_text_that_is_no_sql_does_not() {
    let connection = connect();
    query(&connection, "CREATE TABLE t (a INTEGER)");
    query(&connection, "BEGIN");
    query(&connection, "INSERT INTO t VALUES (1)");
    refused(&connection, "SELEC 1");
    assert_eq!(query(&connection, "SELECT * FROM t"), ["1"]);
    refused(&connection, "SELECT a / 0 FROM t");
    assert!(refused(&connection, "SELECT * FROM t").contains("use ROLLBACK"));
    query(&connection, "ROLLBACK");
    assert!(query(&connection, "SELECT * FROM t").is_empty());
}

#[test]
fn a_table_larger_than_memory_is_changed() {
    let connection = open(Config::default().threads(2).memory_limit(64 << 20).counts_process(false)).connect();
    query(
        &connection,
        "CREATE TABLE t AS SELECT i AS k, 'a text that takes some room in memory, number ' || i AS s \
         FROM generate_series(1, 1500000) AS g(i)",
    );
    query(&connection, "UPDATE t SET s = s || '!' WHERE k % 3 = 0");
    query(&connection, "DELETE FROM t WHERE k % 3 = 1");
    assert_eq!(
        query(&connection, "SELECT count(*), sum(k), count(*) FILTER (WHERE s LIKE '%!') FROM t"),
        ["1000000|750001000000|500000"]
    );
    query(
        &connection,
        "MERGE INTO t USING (SELECT i AS k, 'new' AS s FROM generate_series(1, 300000) AS g(i)) AS n ON t.k = n.k \
         WHEN MATCHED THEN UPDATE SET s = n.s WHEN NOT MATCHED THEN INSERT",
    );
    assert_eq!(query(&connection, "SELECT count(*), count(*) FILTER (WHERE s = 'new') FROM t"), ["1100000|300000"]);
}

#[test]
fn an_interrupted_change_leaves_the_table_as_it_was() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT i AS k, 0 AS n FROM generate_series(1, 1000000) AS g(i)");
    for sql in [
        "UPDATE t SET n = (SELECT count(*) FROM range(2000000000) AS r(i) WHERE i % 7 = 3)",
        "DELETE FROM t USING range(100000) AS r(i) WHERE t.k * r.i % 1000003 = 5",
    ] {
        let handle = connection.interrupt_handle();
        let begun = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                handle.interrupt();
            });
            assert!(refused(&connection, sql).contains("interrupted"), "{sql}");
        });
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        assert_eq!(query(&connection, "SELECT count(*), sum(n) FROM t"), ["1000000|0"]);
    }
}

#[test]
fn of_two_changes_of_the_same_rows_at_once_one_is_refused_or_none_is_lost() {
    let database = open(Config::default().threads(2));
    let connection = database.connect();
    query(&connection, "CREATE TABLE t AS SELECT i AS k, 0 AS n FROM generate_series(1, 200000) AS g(i)");
    let done: usize = thread::scope(|scope| {
        let update = || {
            let connection = database.connect();
            (0..5).filter(|_| try_query(&connection, "UPDATE t SET n = n + 1").is_ok()).count()
        };
        let both = [scope.spawn(update), scope.spawn(update)];
        both.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(done >= 5, "{done}");
    assert_eq!(query(&connection, "SELECT count(*), min(n), max(n) FROM t"), [format!("200000|{done}|{done}")]);
}
