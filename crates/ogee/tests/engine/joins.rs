//! Joins through SQL: what the scan of the probe side learns, several at once in little memory.

use ogee::{Config, JoinStrategy};

use crate::common::{batch, column, open, query, write_parquet};
use datafusion::arrow::array::Int64Array;

/// `numbers.parquet`: `k` from 0 to 199,999 in order, `v` ten times as large, in row groups of 10,000.
fn numbers(directory: &std::path::Path) -> String {
    let path = directory.join("numbers.parquet");
    let keys = column(Int64Array::from_iter_values(0..200_000));
    let values = column(Int64Array::from_iter_values((0..200_000).map(|k| k * 10)));
    write_parquet(&path, &batch([("k", keys), ("v", values)]), 10_000, None);
    path.display().to_string()
}

#[test]
fn row_groups_beyond_the_keys_of_the_build_side_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = numbers(directory.path());
    let database = open(Config::default().threads(2));
    let connection = database.connect();
    query(&connection, "CREATE TABLE few AS SELECT 150000 + i AS k FROM generate_series(1, 30) AS g(i)");
    let scanned = |sql: &str, expected: &str| {
        let mut result = connection.execute(sql).unwrap();
        let rows: Vec<String> = result.by_ref().flat_map(|batch| crate::common::batch_rows(&batch.unwrap())).collect();
        assert_eq!(rows, [expected], "{sql}");
        result.stats().rows_scanned
    };
    // The 30 rows of the build side, one row group, and the one group that the aggregation gives.
    let inner = scanned(&format!("SELECT count(*), sum(v) FROM few JOIN '{file}' AS n ON few.k = n.k"), "30|45004650");
    assert!(inner <= 30 + 10_000 + 1, "{inner} rows");
    let filtered = format!(
        "SELECT count(*) FROM few JOIN (SELECT k + 0 AS z, k FROM '{file}' WHERE v % 20 = 0) AS n ON few.k = n.k"
    );
    assert!(scanned(&filtered, "15") <= 30 + 10_000 + 1);
    // Rows without a mate are given here.
    let outer =
        scanned(&format!("SELECT count(*), count(few.k) FROM '{file}' AS n LEFT JOIN few ON few.k = n.k"), "200000|30");
    assert!(outer >= 200_000, "{outer} rows");
}

#[test]
fn joins_larger_than_memory_at_once() {
    let database = open(Config::default().threads(4).memory_limit(40 << 20).counts_process(false));
    let sql = |shift: i64| {
        format!(
            "SELECT count(*), sum(a.k + b.v) FROM
             (SELECT value * 7919 % 400009 AS k, 'padding of a row ' || CAST(value AS VARCHAR) AS w FROM generate_series(1, 400000)) AS a
             JOIN (SELECT value * 104729 % 400009 AS k, value + {shift} AS v FROM generate_series(1, 400000)) AS b ON a.k = b.k WHERE length(a.w) > 3"
        )
    };
    let expected: Vec<Vec<String>> =
        (0..3).map(|shift| query(&open(Config::default().threads(2)).connect(), &sql(shift))).collect();
    std::thread::scope(|scope| {
        for (shift, expected) in expected.iter().enumerate() {
            let database = &database;
            scope.spawn(move || {
                for _ in 0..2 {
                    assert_eq!(&query(&database.connect(), &sql(shift as i64)), expected);
                }
            });
        }
    });
}

#[test]
fn a_strategy_changes_no_answer() {
    let sql = "SELECT count(*), sum(a.i), max(b.t) FROM (SELECT i, i % 77 AS k FROM generate_series(1, 20000) AS g(i)) AS a
               FULL JOIN (SELECT i % 91 AS k, 'text ' || CAST(i AS VARCHAR) AS t FROM generate_series(1, 500) AS g(i)) AS b ON a.k = b.k";
    let answers: Vec<_> = [None, Some(JoinStrategy::Hybrid), Some(JoinStrategy::Partitioned)]
        .into_iter()
        .map(|strategy| {
            let config = Config::default().threads(2);
            let config = if let Some(strategy) = strategy { config.join_strategy(strategy) } else { config };
            let connection = open(config).connect();
            let mut result = connection.execute(sql).unwrap();
            let rows: Vec<String> =
                result.by_ref().flat_map(|batch| crate::common::batch_rows(&batch.unwrap())).collect();
            let kept = result.stats().strategies.iter().any(|note| note.contains("joined later"));
            assert_eq!(kept, strategy.is_some(), "partitions wait if they are told to");
            rows
        })
        .collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}
