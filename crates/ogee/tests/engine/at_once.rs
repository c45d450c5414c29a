//! Queries of every kind at once on one handle, in little memory: each finishes, with the answer that it has alone.

use ogee::Config;

use crate::common::{open, query};

/// Four of them keep more than the limits below in rows.
fn queries() -> Vec<String> {
    let rows = 300_000;
    let of = |mix: u64| {
        format!(
            "(SELECT value * {mix} % {rows} AS k, value AS v, 'padding of a row ' || CAST(value AS VARCHAR) AS w FROM generate_series(1, {rows}))"
        )
    };
    let (a, b) = (of(7919), of(104_729));
    vec![
        format!(
            "SELECT count(*), sum(n), max(w) FROM (SELECT k, count(*) AS n, max(w) AS w FROM {a} AS a GROUP BY k) AS g"
        ),
        format!("SELECT count(*), sum(a.v + b.v), max(a.w) FROM {a} AS a JOIN {b} AS b ON a.k = b.k"),
        format!(
            "SELECT count(*), sum(place * v) FROM (SELECT v, row_number() OVER (ORDER BY k, v) AS place FROM {b} AS b) AS s WHERE place % 1000 = 7"
        ),
        format!(
            "SELECT count(*), sum(x), max(w) FROM (SELECT w, sum(v) OVER (PARTITION BY k % 5000 ORDER BY v) AS x FROM {a} AS a) AS s"
        ),
        format!(
            "SELECT sum(m), count(*) FROM (SELECT k % 70000 AS k, median(v) AS m FROM {b} AS b GROUP BY k % 70000) AS g"
        ),
        format!("SELECT k, w FROM {a} AS a ORDER BY w DESC, k LIMIT 5"),
    ]
}

#[test]
fn queries_at_once_share_what_there_is() {
    let queries = queries();
    let alone = open(Config::default().threads(2)).connect();
    let expected: Vec<Vec<String>> = queries.iter().map(|sql| query(&alone, sql)).collect();
    for (threads, limit) in [(2, 24), (4, 32), (8, 64)] {
        let database = open(Config::default().threads(threads).memory_limit(limit << 20).counts_process(false));
        std::thread::scope(|scope| {
            for first in 0..4 {
                let (database, queries, expected) = (&database, &queries, &expected);
                scope.spawn(move || {
                    let connection = database.connect();
                    for at in (0..queries.len()).map(|at| (at + first * 2) % queries.len()) {
                        let rows = query(&connection, &queries[at]);
                        assert_eq!(rows, expected[at], "{threads} threads, {limit} MiB: {}", queries[at]);
                    }
                });
            }
        });
    }
}
