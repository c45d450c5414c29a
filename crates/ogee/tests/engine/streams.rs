//! Results of asynchronous programs: on several executors, dropped and interrupted in the middle, at once.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, executor::block_on, future::join_all};
use ogee::{AsyncResult, Config, Connection, Result, params};

use crate::common::{batch_rows, connect, hostile, open, query};

async fn rows_of(result: Result<AsyncResult>) -> Result<Vec<String>> {
    let batches: Vec<_> = result?.try_collect().await?;
    Ok(batches.iter().flat_map(batch_rows).collect())
}

async fn rows(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    rows_of(connection.execute_async(sql).await).await
}

#[test]
fn rows_are_those_of_other_results() {
    for config in hostile() {
        let connection = open(config).connect();
        for sql in [
            "CREATE TABLE t AS SELECT value AS i FROM range(50000)",
            "SELECT count(*), sum(i) FROM t",
            "SELECT i FROM t ORDER BY i DESC LIMIT 3",
            "SELECT 1 WHERE false",
            "SHOW threads",
            "SET threads = 2",
            "",
            "INSERT INTO t VALUES (1) RETURNING i + 1",
        ] {
            let result = block_on(async {
                let result = connection.execute_async(sql).await?;
                let affected = result.affected_rows();
                Ok::<_, ogee::Error>((affected, rows_of(Ok(result)).await?))
            });
            match sql {
                "SHOW threads" | "INSERT INTO t VALUES (1) RETURNING i + 1" => assert_eq!(result.unwrap().1.len(), 1),
                _ if sql.starts_with("CREATE") => assert_eq!(result.unwrap().0, Some(50_000)),
                _ => assert_eq!(result.unwrap().1, query(&connection, sql), "{sql}"),
            }
        }
        for (sql, code) in [
            ("SELEC", "OGEE_Q001"),
            ("SELECT * FROM missing", "OGEE_Q002"),
            ("SELECT 1 / (i - 40000) FROM t", "OGEE_Q007"),
            ("CREATE TABLE u AS SELECT 1 / (i - 40000) AS x FROM t", "OGEE_Q007"),
            ("SET thread = 1", "OGEE_Q004"),
        ] {
            assert_eq!(block_on(rows(&connection, sql)).unwrap_err().code(), code, "{sql}");
        }
        assert_eq!(block_on(rows(&connection, "SELECT 1")).unwrap(), ["1"]);
    }
}

#[test]
fn executors_of_any_kind_run_them() {
    let connection = connect();
    // One that has a single thread, where many statements run at once.
    let run_many = || async {
        let statements = (1..=20_i64).map(|n| {
            let connection = &connection;
            async move {
                let result = connection.execute_async_with("SELECT count(*) FROM range($1)", params![n * 10_000]).await;
                rows_of(result).await
            }
        });
        let all: Vec<_> = join_all(statements).await;
        for (n, rows) in (1..=20_i64).zip(all) {
            assert_eq!(rows.unwrap(), [(n * 10_000).to_string()]);
        }
    };
    block_on(run_many());
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run_many());
    // Within another that waits, a thread may wait for a statement.
    block_on(async { assert_eq!(query(&connection, "SELECT 1"), ["1"]) });
    // They are sent to other threads.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let count = runtime.block_on(async {
        let connection = connect();
        tokio::spawn(async move {
            let prepared = connection.prepare("SELECT * FROM range(?)").unwrap();
            let result = prepared.execute_async(params![10_000_i64]).await;
            rows_of(result).await.unwrap().len()
        })
        .await
        .unwrap()
    });
    assert_eq!(count, 10_000);
}

#[test]
fn nothing_runs_ahead_of_who_reads() {
    let connection = connect();
    let mut result = block_on(connection.execute_async("SELECT value FROM range(1000000000)")).unwrap();
    block_on(result.next()).unwrap().unwrap();
    thread::sleep(Duration::from_millis(200));
    let read = result.progress().rows_read;
    thread::sleep(Duration::from_millis(200));
    assert_eq!(result.progress().rows_read, read, "it waits");
    drop(result);
    let begun = Instant::now();
    while connection.progress_handle().progress().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_future_that_is_dropped_ends_its_statement() {
    let connection = connect();
    {
        let sql = "CREATE TABLE t AS SELECT count(*) AS c FROM range(1000000000000)";
        let mut running = pin!(connection.execute_async(sql));
        let mut context = Context::from_waker(Waker::noop());
        let begun = Instant::now();
        assert!(matches!(running.as_mut().poll(&mut context), Poll::Pending));
        assert!(begun.elapsed() < Duration::from_secs(1), "nobody waits");
    }
    assert_eq!(query(&connection, "SELECT 1"), ["1"]);
    assert!(connection.execute("SELECT * FROM t").is_err());
}

#[test]
fn interrupts_reach_streams() {
    for config in hostile() {
        let connection = open(config).connect();
        let handle = connection.interrupt_handle();
        let interrupt = thread::spawn(move || {
            thread::sleep(Duration::from_millis(150));
            handle.interrupt();
        });
        let error = block_on(rows(&connection, "SELECT count(*) FROM range(1000000000000)")).unwrap_err();
        assert_eq!(error.code(), "OGEE_X004");
        interrupt.join().unwrap();
        let mut result = block_on(connection.execute_async("SELECT * FROM range(1000000000)")).unwrap();
        block_on(result.next()).unwrap().unwrap();
        connection.interrupt_handle().interrupt();
        let error = block_on(async {
            while let Some(batch) = result.next().await {
                if let Err(error) = batch {
                    return error;
                }
            }
            panic!("it was interrupted")
        });
        assert_eq!(error.code(), "OGEE_X004");
        assert!(block_on(result.next()).is_none(), "it is over");
        assert_eq!(query(&connection, "SELECT 1"), ["1"]);
    }
}

#[test]
fn the_handle_may_go_before_the_result() {
    let result = {
        let connection = open(Config::default().threads(2)).connect();
        block_on(connection.execute_async("SELECT * FROM range(100000)")).unwrap()
    };
    let count: usize = block_on(async {
        result.map(|batch| batch.map_or(0, |batch| batch.num_rows())).collect::<Vec<_>>().await.iter().sum()
    });
    assert_eq!(count, 100_000);
}

#[test]
fn what_programs_hold_goes_to_other_threads() {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    fn is_sent<T: Send>(_: &T) {}
    is_send::<AsyncResult>();
    is_send::<ogee::QueryResult>();
    is_send::<ogee::ArrowData>();
    is_send::<ogee::Appender<'_>>();
    is_shared::<ogee::Database>();
    is_shared::<Connection>();
    is_shared::<ogee::Statement<'_>>();
    is_shared::<ogee::ProgressHandle>();
    is_shared::<ogee::InterruptHandle>();
    is_shared::<ogee::ScalarFunction>();
    is_shared::<ogee::AggregateFunction>();
    is_shared::<ogee::Error>();
    let connection = connect();
    is_sent(&connection.execute_async("SELECT 1"));
    is_sent(&connection.execute_async_with("SELECT ?", params![1, "x"]));
    is_sent(&connection.prepare("SELECT ?").unwrap().execute_async(params![1]));
}
