//! Where islands stand, where they must not, and that orders survive them.

use std::path::PathBuf;

use crate::common::{batch, column, explain, open, query, query_sorted, write_parquet};
use datafusion::arrow::array::{Array, Int64Array, StringArray};
use ogee::{Config, Connection};
use tempfile::TempDir;

const ROWS: i64 = 20_000;

/// Two files of many row groups, ascending in `a` across and within them and declared to be so; `b` is scattered.
struct Sorted {
    _directory: TempDir,
    connection: Connection,
    location: PathBuf,
}

fn sorted(threads: usize) -> Sorted {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("t");
    for (file, range) in [(1, 0..ROWS / 2), (2, ROWS / 2..ROWS)] {
        let rows = batch([
            ("a", column(Int64Array::from_iter_values(range.clone()))),
            ("b", column(Int64Array::from_iter_values(range.clone().map(|a| a * 7919 % 10_007)))),
            ("c", column(StringArray::from_iter_values(range.map(|a| format!("c{}", a % 3))))),
        ]);
        write_parquet(&location.join(format!("{file}.parquet")), &rows, 500, Some(0));
    }
    let connection = open(Config::default().threads(threads).chunk_capacity(100)).connect();
    let at = location.display();
    query(&connection, &format!("CREATE EXTERNAL TABLE t STORED AS PARQUET WITH ORDER (a ASC) LOCATION '{at}/'"));
    Sorted { _directory: directory, connection, location }
}

fn numbers(rows: &[String]) -> Vec<i64> {
    rows.iter().map(|row| row.split('|').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_declared_order_is_no_reason_to_drop_a_sort() {
    let t = sorted(4);
    for from in ["t".to_owned(), format!("'{}/*.parquet'", t.location.display())] {
        let sql = format!("SELECT a FROM {from} ORDER BY a");
        assert!(explain(&t.connection, &sql).contains("OgeeSort"), "{sql}");
        let expected: Vec<i64> = (0..ROWS).collect();
        assert_eq!(numbers(&query(&t.connection, &sql)), expected, "{sql}");
        // The column it is by is not in the output.
        let sql = format!("SELECT b FROM {from} WHERE c <> 'c1' ORDER BY a");
        let expected: Vec<i64> = (0..ROWS).filter(|a| a % 3 != 1).map(|a| a * 7919 % 10_007).collect();
        assert_eq!(numbers(&query(&t.connection, &sql)), expected, "{sql}");
        let sql = format!("SELECT a, b FROM {from} ORDER BY a DESC LIMIT 3 OFFSET 2");
        assert_eq!(numbers(&query(&t.connection, &sql)), [ROWS - 3, ROWS - 4, ROWS - 5]);
    }
}

#[test]
fn operators_that_need_an_order_get_it() {
    let t = sorted(4);
    let connection = &t.connection;
    // Windows, which DataFusion would stream over sorted input.
    let sql = "SELECT a, sum(b) OVER (ORDER BY a ROWS 1 PRECEDING) AS s FROM t WHERE a % 2 = 0 ORDER BY a LIMIT 4";
    assert_eq!(
        query(connection, sql),
        ["0|0", "2|5831", "4|7487", "6|8947"].map(|row| {
            let (a, _) = row.split_once('|').unwrap();
            let a: i64 = a.parse().unwrap();
            let b = |a: i64| if a < 0 { 0 } else { a * 7919 % 10_007 };
            format!("{a}|{}", b(a) + b(a - 2))
        })
    );
    let sql = "SELECT count(*), sum(r) FROM (SELECT row_number() OVER (PARTITION BY c ORDER BY a DESC) AS r FROM t) WHERE r <= 2";
    assert_eq!(query(connection, sql), ["6|9"]);
    // Aggregation by the sorted column and ordered aggregates.
    let sql = "SELECT a / 1000 AS k, count(*), first_value(b ORDER BY a), array_agg(a ORDER BY a DESC)[1] FROM t GROUP BY k ORDER BY k LIMIT 2";
    let b = |a: i64| a * 7919 % 10_007;
    assert_eq!(query(connection, sql), [format!("0|1000|{}|999", b(0)), format!("1|1000|{}|1999", b(1000))]);
    // A merge join.
    query(connection, "SET datafusion.optimizer.prefer_hash_join = false");
    let sql = "SELECT count(*), sum(x.b) FROM t x JOIN t y ON x.a = y.a + 1";
    let expected: i64 = (1..ROWS).map(b).sum();
    assert_eq!(query(connection, sql), [format!("{}|{expected}", ROWS - 1)]);
    let sql = "SELECT DISTINCT ON (c) c, a FROM t ORDER BY c, a DESC";
    let last = |k: i64| (0..ROWS).rev().find(|a| a % 3 == k).unwrap();
    assert_eq!(
        query(connection, sql),
        [format!("c0|{}", last(0)), format!("c1|{}", last(1)), format!("c2|{}", last(2))]
    );
}

#[test]
fn limits_take_the_first_rows_of_an_order() {
    let t = sorted(4);
    let connection = &t.connection;
    let sql = "SELECT b FROM (SELECT a, b FROM t ORDER BY a DESC LIMIT 100) LIMIT 2 OFFSET 1";
    let b = |a: i64| a * 7919 % 10_007;
    assert_eq!(numbers(&query(connection, sql)), [b(ROWS - 2), b(ROWS - 3)]);
    let sql = "SELECT count(*), min(a) FROM (SELECT a FROM t ORDER BY a DESC LIMIT 100)";
    assert_eq!(query(connection, sql), [format!("100|{}", ROWS - 100)]);
    let sql =
        "SELECT sum(a) FROM (SELECT a + 1 AS a FROM (SELECT a FROM t ORDER BY a LIMIT 10 OFFSET 5) WHERE a % 2 = 1)";
    assert_eq!(query(connection, sql), ["50"]);
    assert_eq!(
        query(connection, "SELECT value FROM generate_series(1, 100000) WHERE value % 3 = 0 LIMIT 2"),
        ["3", "6"]
    );
    // Without an order, any rows will do, but as many.
    for (sql, rows) in [
        ("SELECT a FROM t LIMIT 7", 7),
        ("SELECT a FROM t WHERE c = 'c1' LIMIT 7", 7),
        ("SELECT a FROM t LIMIT 10 OFFSET 19995", 5),
        ("SELECT c, count(*) FROM t GROUP BY c LIMIT 2", 2),
        ("SELECT a FROM t LIMIT 0", 0),
        ("SELECT * FROM (SELECT a FROM t UNION ALL SELECT b FROM t) LIMIT 30001", 30001),
        ("SELECT a FROM t OFFSET 19000", 1000),
    ] {
        assert_eq!(query(connection, sql).len(), rows, "{sql}");
    }
}

#[test]
fn plans_show_islands_and_what_is_left_to_datafusion() {
    let t = sorted(2);
    let connection = &t.connection;
    let names = |sql: &str| -> Vec<String> {
        explain(connection, sql)
            .lines()
            .filter_map(|line| {
                let name = line.strip_prefix("physical_plan|").unwrap_or(line);
                let depth = (name.len() - name.trim_start().len()) / 2;
                let name: String = name.trim_start().chars().take_while(|c| c.is_alphanumeric()).collect();
                (!name.is_empty()).then(|| format!("{}{name}", ".".repeat(depth)))
            })
            .collect()
    };
    assert_eq!(
        names("SELECT c, sum(a) FROM t WHERE b > 5 GROUP BY c HAVING sum(a) > 3"),
        ["OgeeIsland", ".OgeeFilter", "..OgeeAggregate", "...OgeeFilter", "....OgeeScan",]
    );
    assert_eq!(
        names("SELECT x.c, count(*) FROM t x JOIN t y ON x.a = y.b GROUP BY x.c ORDER BY 2"),
        [
            "OgeeIsland",
            ".OgeeProject",
            "..OgeeSort",
            "...OgeeAggregate",
            "....OgeeJoin",
            ".....OgeeScan",
            ".....OgeeScan",
        ]
    );
    assert_eq!(
        names("SELECT u, count(*) FROM (SELECT unnest(make_array(a, b)) AS u FROM t) AS x GROUP BY u ORDER BY 2"),
        [
            "OgeeIsland",
            ".OgeeProject",
            "..OgeeSort",
            "...OgeeAggregate",
            "....OgeeProject",
            ".....OgeeUnnest",
            "......OgeeScan",
        ]
    );
    // What runs once for each iteration feeds an island, and is fed by islands.
    assert_eq!(
        names(
            "WITH RECURSIVE r(u) AS (SELECT a FROM t UNION ALL SELECT u - 9 FROM r WHERE u > 9) SELECT count(*) FROM r"
        ),
        [
            "OgeeIsland",
            ".OgeeProject",
            "..OgeeAggregate",
            "...OgeeProject",
            "....OgeeRecursion",
            ".....OgeeIsland",
            "......OgeeScan",
            ".....OgeeIsland",
            "......OgeeProject",
            ".......OgeeFilter",
            "........OgeeWorkTable",
        ]
    );
    // Functions of DataFusion's over values that the engine collects.
    assert_eq!(names("SELECT median(a) FROM t"), ["OgeeIsland", ".OgeeAggregate", "..OgeeScan"]);
    assert_eq!(
        names("SELECT c, string_agg(c, ',' ORDER BY b) FROM t GROUP BY c"),
        ["OgeeIsland", ".OgeeAggregate", "..OgeeScan"]
    );
    // Of whose groups sets are made, where states can be merged.
    let sets = |sql: &str| {
        let plan = explain(connection, sql);
        let (_, sets) = plan.split_once("sets=[").expect("there are sets");
        sets.split_once(']').expect("they end").0.to_owned()
    };
    assert_eq!(sets("SELECT c, b, sum(a) FROM t GROUP BY ROLLUP (c, b)"), "() of (c), (c) of (c, b), (c, b)");
    assert_eq!(sets("SELECT c, b, sum(DISTINCT a) FROM t GROUP BY ROLLUP (c, b)"), "(), (c), (c, b)");
    // Nothing to win: rows that DataFusion makes and only passes on.
    assert!(!explain(connection, "SELECT value + 1 FROM generate_series(1, 10) LIMIT 3").contains("Ogee"));
    let plan = explain(connection, "SELECT a FROM t WHERE a > 100 AND c = 'c1'");
    assert!(plan.contains("2 files") && plan.contains("predicate=") && plan.contains("pruning="), "{plan}");
    let analyzed = query(connection, "EXPLAIN ANALYZE SELECT c, count(*) FROM t GROUP BY c").join("\n");
    assert!(analyzed.contains("strategies=[aggregate") && analyzed.contains("output_rows=3"), "{analyzed}");
    // Each operator with what went in and came out, and the time that its lanes took.
    for line in analyzed.lines().filter(|line| line.trim_start().starts_with("Ogee") && !line.contains("OgeeIsland")) {
        for figure in ["output_rows=", "output_chunks=", "time=", "longest_lane=", "lanes="] {
            assert!(line.contains(figure), "{figure} in {line}");
        }
        let is_leaf = line.contains("OgeeScan") || line.contains("OgeeTable") || line.contains("OgeeSeries");
        assert!(is_leaf || line.contains("input_rows="), "{line}");
    }
}

#[test]
fn row_groups_and_pages_that_cannot_match_are_not_read() {
    let t = sorted(2);
    let scanned = |sql: &str| {
        let rows = query(&t.connection, sql);
        let mut result = t.connection.execute(&format!("EXPLAIN ANALYZE {sql}")).unwrap();
        assert!(result.next().unwrap().is_ok());
        rows
    };
    assert_eq!(scanned("SELECT count(*) FROM t WHERE a >= 15000 AND a < 15010"), ["10"]);
    assert_eq!(scanned("SELECT sum(a) FROM t WHERE a = 12345"), ["12345"]);
    assert_eq!(scanned("SELECT count(*) FROM t WHERE a > 1000000"), ["0"]);
    assert_eq!(scanned("SELECT count(*), max(b) FROM t WHERE a IN (1, 2, 19999)"), ["3|7919"]);
    assert_eq!(scanned("SELECT count(c) FROM t WHERE c LIKE 'c1%' AND a < 300"), ["100"]);
}

#[test]
fn plans_run_more_than_once() {
    let t = sorted(2);
    let connection = &t.connection;
    query(connection, "PREPARE q(BIGINT) AS SELECT count(*), sum(a) FROM t WHERE a < $1");
    assert_eq!(query(connection, "EXECUTE q(10)"), ["10|45"]);
    assert_eq!(query(connection, "EXECUTE q(100)"), ["100|4950"]);
    // The recursive term, an island over the working table, is run once for each level.
    let sql = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT max(t.a) + r.n + 1 FROM t JOIN r ON t.a < r.n AND r.n < 100 GROUP BY r.n) \
               SELECT n FROM r ORDER BY n";
    assert_eq!(numbers(&query(connection, sql)), [1, 2, 4, 8, 16, 32, 64, 128]);
    // Scalar subqueries are set before the island above them is built.
    let sql = "SELECT count(*) FROM t WHERE a > (SELECT avg(a) FROM t) AND b < (SELECT max(b) / 2 FROM t)";
    let expected = (10_000..ROWS).filter(|a| a * 7919 % 10_007 < 10_006 / 2).count();
    assert_eq!(query(connection, sql), [expected.to_string()]);
    let sql =
        "SELECT c, count(*) FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE y.a = x.a + 19000) GROUP BY c ORDER BY c";
    assert_eq!(query(connection, sql), ["c0|334", "c1|333", "c2|333"]);
}

#[test]
fn results_have_the_types_that_were_declared() {
    let t = sorted(2);
    let connection = &t.connection;
    let sql = "CREATE TABLE v AS SELECT a, arrow_cast(c, 'Utf8') AS u, arrow_cast(c, 'LargeUtf8') AS l, \
               arrow_cast(c, 'Dictionary(Int32, Utf8)') AS d, arrow_cast(c, 'Binary') AS y, [a, b] AS list, \
               {c: c, a: a} AS record, a::DECIMAL(20, 2) / 4 AS dec, to_timestamp(a) AS ts FROM t";
    query(connection, sql);
    for sql in [
        "SELECT * FROM v",
        "SELECT u, l, d, y, list, record, dec, ts, count(*) FROM v GROUP BY u, l, d, y, list, record, dec, ts",
        "SELECT min(u), max(l), min(d), max(y), count(DISTINCT d), first_value(list), sum(dec), max(ts) FROM v",
        "SELECT upper(u) || l, d = 'c1', u LIKE 'c%' FROM v WHERE u <> 'c0' AND l > 'c0' AND d IN ('c1', 'c2')",
    ] {
        let result = connection.execute(sql).unwrap();
        let schema = result.schema();
        let mut rows = 0;
        for batch in result {
            let batch = batch.unwrap();
            assert_eq!(batch.schema(), schema, "{sql}");
            for (column, field) in batch.columns().iter().zip(schema.fields()) {
                assert_eq!(column.data_type(), field.data_type(), "{sql}");
            }
            rows += batch.num_rows();
        }
        assert!(rows > 0, "{sql}");
    }
    assert_eq!(query(connection, "SELECT count(*) FROM v WHERE u = 'c1' AND l = 'c1' AND d = 'c1'"), ["6667"]);
}

#[test]
fn answers_do_not_depend_on_partitions_asked_of_datafusion() {
    let t = sorted(2);
    let connection = &t.connection;
    let sql = "SELECT c, count(*), sum(a), avg(b), count(DISTINCT b), round(stddev(a), 6) FROM t GROUP BY ROLLUP(c) ORDER BY c";
    let one = query(connection, sql);
    query(connection, "SET datafusion.execution.target_partitions = 4");
    query(connection, "SET datafusion.optimizer.repartition_aggregations = true");
    query(connection, "SET datafusion.optimizer.repartition_joins = true");
    assert_eq!(query(connection, sql), one);
    let join = "SELECT x.c, count(*) FROM t x JOIN t y ON x.a = y.a GROUP BY x.c";
    assert_eq!(query_sorted(connection, join), ["c0|6667", "c1|6667", "c2|6666"]);
}

#[test]
fn predicates_pushed_into_scans_are_applied_there() {
    let t = sorted(2);
    let connection = &t.connection;
    let hive = t.location.join("../hive");
    query(
        connection,
        &format!("COPY (SELECT a, b, a % 4 AS k FROM t) TO '{}' STORED AS PARQUET PARTITIONED BY (k)", hive.display()),
    );
    for pushed in [true, false] {
        query(connection, &format!("SET datafusion.execution.parquet.pushdown_filters = {pushed}"));
        let from = format!("'{}/'", hive.display());
        let sql = format!("SELECT count(*), sum(a + 1) FROM {from} WHERE b > 5000 AND k = 1 AND a % 3 = 0");
        let rows: Vec<i64> = (0..ROWS).filter(|a| a * 7919 % 10_007 > 5000 && a % 4 == 1 && a % 3 == 0).collect();
        let sum: i64 = rows.iter().map(|a| a + 1).sum();
        assert_eq!(query(connection, &sql), [format!("{}|{sum}", rows.len())]);
        // Columns that only the predicate reads, a limit that counts what passes, rows without columns.
        assert_eq!(query(connection, &format!("SELECT k FROM {from} WHERE b = 17 LIMIT 1")).len(), 1);
        assert_eq!(query(connection, &format!("SELECT a FROM {from} WHERE a >= 19990 LIMIT 7")).len(), 7);
        assert_eq!(query(connection, &format!("SELECT count(*) FROM {from} WHERE a >= 19990")), ["10"]);
        let plan = explain(connection, &sql);
        assert_eq!(plan.contains("filter="), pushed, "{plan}");
    }
}

#[test]
fn sorts_and_windows_take_more_rows_than_memory_holds() {
    const VALUES: i64 = 300_000;
    let connection = open(Config::default().threads(2).memory_limit(24 << 20).counts_process(false)).connect();
    let rows = format!(
        "(SELECT value AS i, value * 7919 % 300007 AS v, 'a string that is on a page of its own ' || value AS s FROM generate_series(1, {VALUES}))"
    );
    let v = |i: i64| i * 7919 % 300_007;
    let mut expected: Vec<i64> = (1..=VALUES).map(v).collect();
    expected.sort_unstable();
    assert!(numbers(&query(&connection, &format!("SELECT v, s FROM {rows} ORDER BY v, s"))) == expected);
    let analyzed = query(&connection, &format!("EXPLAIN ANALYZE SELECT v, s FROM {rows} ORDER BY v, s")).join("\n");
    assert!(analyzed.contains(" runs]"), "{analyzed}");
    // All rows in one partition, and a function that sees its end.
    let sql = format!(
        "SELECT count(*), sum(n), min(c), max(c), sum(length(s)) FROM (SELECT s, row_number() OVER (ORDER BY v) AS n, count(*) OVER () AS c FROM {rows})"
    );
    let digits: i64 = (1..=VALUES).map(|i| i.to_string().len() as i64 + 38).sum();
    assert_eq!(
        query(&connection, &sql),
        [format!("{VALUES}|{}|{VALUES}|{VALUES}|{digits}", VALUES * (VALUES + 1) / 2)]
    );
}
