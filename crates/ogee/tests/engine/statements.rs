//! Statements: tables in memory, files as tables, settings, errors, interruption.

use std::{
    fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::common::{batch, batch_rows, column, connect, explain, open, query, query_sorted, try_query, write_parquet};
use datafusion::{
    arrow::{
        array::{Int64Array, StringArray},
        datatypes::DataType,
    },
    logical_expr::{ColumnarValue, Volatility, create_udf},
};
use ogee::{Config, Connection, TempCompression};

fn code_of(connection: &Connection, sql: &str) -> &'static str {
    match try_query(connection, sql) {
        Ok(rows) => panic!("{sql} gave {rows:?}"),
        Err(error) => error.code(),
    }
}

#[test]
fn tables_in_memory_are_made_filled_replaced_and_dropped() {
    let connection = connect();
    let made = connection
        .execute("CREATE TABLE t AS SELECT value AS id, 'name ' || value AS name, value % 3 = 0 AS third FROM generate_series(1, 300000)")
        .unwrap();
    assert_eq!(made.affected_rows(), Some(300_000));
    assert!(made.schema().fields().is_empty());
    assert_eq!(
        query(&connection, "SELECT count(*), sum(id), min(name), max(name) FROM t"),
        ["300000|45000150000|name 1|name 99999"]
    );
    assert_eq!(
        query(&connection, "SELECT third, count(*) FROM t GROUP BY third ORDER BY third"),
        ["false|200000", "true|100000"]
    );
    let inserted = connection.execute("INSERT INTO t SELECT id + 300000, NULL, NULL FROM t WHERE id <= 5").unwrap();
    assert_eq!(inserted.affected_rows(), Some(5));
    assert_eq!(query(&connection, "SELECT count(*), count(name), max(id) FROM t"), ["300005|300000|300005"]);
    assert!(explain(&connection, "SELECT max(id) FROM t").contains("OgeeTable: rows=300005"));
    assert_eq!(code_of(&connection, "CREATE TABLE t (a INT)"), "OGEE_Q002");
    query(&connection, "CREATE TABLE IF NOT EXISTS t (a INT)");
    query(&connection, "CREATE OR REPLACE TABLE t AS SELECT 1 AS a");
    assert_eq!(query(&connection, "SELECT * FROM t"), ["1"]);
    query(&connection, "CREATE TABLE empty (a BIGINT, b VARCHAR)");
    query(&connection, "INSERT INTO empty VALUES (1, 'x'), (2, NULL)");
    query(&connection, "INSERT INTO empty (b) VALUES ('only b')");
    assert_eq!(query(&connection, "SELECT * FROM empty ORDER BY a"), ["1|x", "2|NULL", "NULL|only b"]);
    query(&connection, "DROP TABLE t");
    assert_eq!(code_of(&connection, "SELECT * FROM t"), "OGEE_Q002");
    query(&connection, "CREATE TABLE two AS SELECT 1 AS a, 2 AS a");
    assert_eq!(query(&connection, "SELECT a, a_1 FROM two"), ["1|2"]);
    query(&connection, "CREATE TABLE twice AS SELECT a, a, count(*), count(*) FROM empty GROUP BY a");
    assert_eq!(query(&connection, "SELECT a, a_1 FROM twice ORDER BY a"), ["1|1", "2|2", "NULL|NULL"]);
}

#[test]
fn a_statement_that_fails_leaves_the_table_as_it_was() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 10)");
    assert_eq!(code_of(&connection, "INSERT INTO t SELECT v + 9223372036854775800 FROM t"), "OGEE_X001");
    assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["10"]);
    assert_eq!(code_of(&connection, "CREATE TABLE u AS SELECT 1 / (v - 5) AS q FROM t"), "OGEE_Q007");
    assert_eq!(code_of(&connection, "SELECT * FROM u"), "OGEE_Q002");
    query(&connection, "CREATE TABLE u AS SELECT v FROM t");
}

#[test]
fn integers_never_wrap() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2)) AS v(x)");
    for sql in [
        "SELECT 9223372036854775807 + x FROM t",
        "SELECT -9223372036854775807 - x - 1 FROM t",
        "SELECT 4611686018427387904 * (x + 1) FROM t",
        "SELECT 9223372036854775807 + 1",
        "SELECT -(-9223372036854775807 - x) FROM t",
        "SELECT sum(9223372036854775807 - x) FROM t",
        "SELECT x, sum(9223372036854775800) OVER () FROM t",
        "SELECT sum(y) OVER (ORDER BY y ROWS 1 PRECEDING) FROM (SELECT 9223372036854775800 + x AS y FROM t)",
        "SELECT a.x FROM t a JOIN t b ON a.x + 9223372036854775806 = b.x",
        "SELECT x FROM t ORDER BY x * 9223372036854775807",
        "SELECT x FROM t WHERE x + 9223372036854775806 > 0",
    ] {
        assert_eq!(code_of(&connection, sql), "OGEE_X001", "{sql}");
    }
    assert_eq!(query(&connection, "SELECT 9223372036854775806 + x - 1 FROM t WHERE x = 1"), ["9223372036854775806"]);
    // What is not evaluated does not fail, and names are as they would be.
    assert_eq!(
        query(&connection, "SELECT CASE WHEN x > 5 THEN x + 9223372036854775807 ELSE x END FROM t ORDER BY 1"),
        ["1", "2"]
    );
    let result = connection.execute("SELECT x + 1, -x FROM t").unwrap();
    let schema = result.schema();
    assert_eq!(schema.field(0).name(), "x + 1");
    assert_eq!(query(&connection, "SELECT x + 1 FROM t GROUP BY x + 1 HAVING x + 1 > 2"), ["3"]);
    assert_eq!(query(&connection, "SELECT DATE '2024-02-28' + INTERVAL '2 days'"), ["2024-03-01"]);
}

#[test]
fn literals_with_a_point_are_decimals_and_nulls_sort_as_the_greatest() {
    let connection = connect();
    assert_eq!(query(&connection, "SELECT 0.1 + 0.2 = 0.3, arrow_typeof(1.5)"), ["true|Decimal128(2, 1)"]);
    query(&connection, "CREATE TABLE t AS SELECT * FROM (VALUES (2), (NULL), (1)) AS v(x)");
    assert_eq!(query(&connection, "SELECT x FROM t ORDER BY x"), ["1", "2", "NULL"]);
    assert_eq!(query(&connection, "SELECT x FROM t ORDER BY x DESC"), ["NULL", "2", "1"]);
}

#[test]
fn files_globs_directories_and_partitions_are_tables() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().display().to_string();
    for (year, city) in [(2023, "Berlin"), (2024, "São Paulo"), (2024, "Berlin")] {
        let rows = batch([("v", column(Int64Array::from_iter_values(0..100)))]);
        let path = directory.path().join(format!("hive/year={year}/city={city}/part-0.parquet"));
        write_parquet(&path, &rows, 40, None);
        write_parquet(&directory.path().join(format!("flat/{year}-{city}.parquet")), &rows, 1000, None);
    }
    fs::write(directory.path().join("rows.csv"), "a,b\n1,x\n2,y\n").unwrap();
    fs::write(directory.path().join("rows.tsv"), "a\tb\n1\tx\n2\ty\n3\tz\n").unwrap();
    fs::write(directory.path().join("rows.ndjson"), "{\"a\": 1}\n{\"a\": 5}\n").unwrap();

    let connection = connect();
    assert_eq!(
        query(&connection, &format!("SELECT count(*), sum(v) FROM '{root}/flat/2023-Berlin.parquet'")),
        ["100|4950"]
    );
    assert_eq!(query(&connection, &format!("SELECT count(*), sum(v) FROM '{root}/flat/2024*.parquet'")), ["200|9900"]);
    assert_eq!(query(&connection, &format!("SELECT count(*) FROM '{root}/flat'")), ["300"]);
    assert_eq!(query(&connection, &format!("SELECT count(*) FROM '{root}/flat/'")), ["300"]);
    let hive = format!("'{root}/hive'");
    assert_eq!(
        query(
            &connection,
            &format!("SELECT year, city, count(*), max(v) FROM {hive} GROUP BY year, city ORDER BY year, city")
        ),
        ["2023|Berlin|100|99", "2024|Berlin|100|99", "2024|São Paulo|100|99"]
    );
    assert_eq!(query(&connection, &format!("SELECT sum(year) FROM {hive} WHERE year > 2023 AND v < 10")), ["40480"]);
    assert_eq!(query(&connection, &format!("SELECT a, b FROM '{root}/rows.csv' ORDER BY a")), ["1|x", "2|y"]);
    assert_eq!(query(&connection, &format!("SELECT sum(a), max(b) FROM '{root}/rows.tsv'")), ["6|z"]);
    assert_eq!(query(&connection, &format!("SELECT sum(a) FROM '{root}/rows.ndjson'")), ["6"]);
    // A file that is added or changed between two statements is seen.
    let rows = batch([("v", column(Int64Array::from_iter_values(0..7)))]);
    write_parquet(&directory.path().join("flat/more.parquet"), &rows, 1000, None);
    assert_eq!(query(&connection, &format!("SELECT count(*) FROM '{root}/flat'")), ["307"]);
    thread::sleep(Duration::from_millis(20));
    let rows = batch([("v", column(Int64Array::from_iter_values(0..8)))]);
    write_parquet(&directory.path().join("flat/more.parquet"), &rows, 1000, None);
    assert_eq!(query(&connection, &format!("SELECT count(*), sum(v) FROM '{root}/flat/more.parquet'")), ["8|28"]);

    for (sql, part) in [
        (format!("SELECT * FROM '{root}/none.parquet'"), "no file"),
        (format!("SELECT * FROM '{root}/flat/*.csv'"), "no file"),
        (format!("SELECT missing FROM '{root}/rows.csv'"), "missing"),
    ] {
        let error = try_query(&connection, &sql).unwrap_err();
        assert_eq!(error.code(), "OGEE_Q002");
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn copy_writes_what_can_be_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().display().to_string();
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT value AS id, 'é' || value AS name FROM generate_series(1, 20000)");
    for extension in ["parquet", "csv", "json", "arrow"] {
        let file = format!("{root}/t.{extension}");
        let copied = connection.execute(&format!("COPY (SELECT * FROM t ORDER BY id) TO '{file}'")).unwrap();
        assert_eq!(copied.affected_rows(), Some(20000), "{extension}");
        assert_eq!(
            query(&connection, &format!("SELECT count(*), sum(id), max(name) FROM '{file}'")),
            ["20000|200010000|é9999"],
            "{extension}"
        );
    }
}

#[test]
fn external_tables_and_views() {
    let directory = tempfile::tempdir().unwrap();
    let rows = batch([
        ("k", column(StringArray::from_iter_values((0..1000).map(|i| format!("key {}", i % 7))))),
        ("v", column(Int64Array::from_iter_values(0..1000))),
    ]);
    write_parquet(&directory.path().join("t/1.parquet"), &rows, 100, None);
    let connection = connect();
    let location = directory.path().join("t").display().to_string();
    query(&connection, &format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}/'"));
    query(&connection, "CREATE VIEW totals AS SELECT k, sum(v) AS total FROM t GROUP BY k");
    assert_eq!(query(&connection, "SELECT count(*), sum(total) FROM totals WHERE k <> 'key 0'"), ["6|428429"]);
    assert!(explain(&connection, "SELECT * FROM totals").contains("OgeeScan"));
    assert_eq!(
        query(&connection, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY 1"),
        ["t", "totals"]
    );
    query(&connection, "DROP VIEW totals");
    query(&connection, "DROP TABLE t");
}

#[test]
fn settings_are_set_shown_and_reset() {
    let database = open(Config::default().threads(3).memory_limit(512_000_000));
    let connection = database.connect();
    assert_eq!(query(&connection, "SHOW memory_limit"), ["memory_limit|512MB"]);
    assert_eq!(query(&connection, "SHOW threads"), ["threads|3"]);
    query(&connection, "SET memory_limit = '1GiB'");
    query(&connection, "SET threads = 2");
    query(&connection, "SET max_temp_size TO '10GB'");
    // All connections of a handle have the same settings.
    let other = database.connect();
    assert_eq!(query(&other, "SHOW memory_limit"), ["memory_limit|1GiB"]);
    assert_eq!(query(&other, "SHOW max_temp_size"), ["max_temp_size|10GB"]);
    let mut result = other.execute("SELECT count(*) FROM generate_series(1, 10)").unwrap();
    assert_eq!(result.by_ref().count(), 1);
    let stats = result.stats();
    assert_eq!((stats.threads, stats.memory_limit_bytes, stats.rows), (2, 1 << 30, 1));
    query(&connection, "SET memory_limit = '50%'");
    query(&connection, "RESET memory_limit");
    let all = query(&connection, "SHOW ALL");
    assert_eq!(all.iter().filter(|row| ["max_temp_size|10GB", "threads|2"].contains(&row.as_str())).count(), 2);
    assert!(all.iter().any(|row| row.starts_with("datafusion.execution.batch_size|")));
    for sql in [
        "SET memory_limit = 'much'",
        "SET memory_limit = '-1GB'",
        "SET threads = 0",
        "SET threads = 'many'",
        "SET max_temp_size = '80%'",
        "SET datafusion.runtime.memory_limit = '1G'",
        "SET no_such_setting = 1",
    ] {
        let error = try_query(&connection, sql).unwrap_err();
        assert!(["OGEE_Q004", "OGEE_Q002"].contains(&error.code()), "{sql}: [{}] {error}", error.code());
    }
    assert_eq!(code_of(&connection, "SET memory_limit = '1KB'"), "OGEE_M002");
    assert_eq!(query(&connection, "SELECT 1"), ["1"]);
}

#[test]
fn errors_say_what_and_leave_the_handle_usable() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT value AS v, 'x' || value AS s FROM generate_series(1, 100)");
    for (sql, code, part) in [
        ("SELEC 1", "OGEE_Q001", "SELEC"),
        ("SELECT 1; SELECT 2", "OGEE_Q001", "2 statements"),
        ("SELECT w FROM t", "OGEE_Q002", "fields are v, s"),
        ("SELECT v FROM tt", "OGEE_Q002", "tt"),
        ("SELECT nosuchfunction(v) FROM t", "OGEE_Q002", "nosuchfunction"),
        ("SELECT CAST(s AS BIGINT) FROM t", "OGEE_Q007", "x1"),
        ("SELECT 1 / (v - v) FROM t", "OGEE_Q007", "division by zero"),
        ("SELECT v, count(*) FROM t", "OGEE_Q002", "GROUP BY"),
    ] {
        let error = try_query(&connection, sql).unwrap_err();
        assert_eq!(error.code(), code, "{sql}: {error}");
        assert!(error.message().contains(part), "{sql}: {error}");
        assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["100"]);
    }
    assert!(query(&connection, "-- nothing").is_empty());
    assert_eq!(Connection::statements("SELECT 1; ; CREATE TABLE a (b INT);").unwrap().len(), 2);
}

#[test]
fn a_panic_fails_its_statement_and_nothing_else() {
    let database = open(Config::default().threads(2));
    let boom = create_udf(
        "boom",
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Volatile,
        Arc::new(|_: &[ColumnarValue]| panic!("boom")),
    );
    database.session().context().register_udf(boom);
    let connection = database.connect();
    query(&connection, "CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 100000)");
    for sql in [
        // In a worker, in a DataFusion node above an island, and in one that feeds an island.
        "SELECT count(*) FROM t WHERE boom(v) > 0",
        "SELECT row_number() OVER (ORDER BY boom(v)) FROM t",
        "SELECT x, count(*) FROM (SELECT boom(value) AS x FROM generate_series(1, 10) ORDER BY 1 LIMIT 5) GROUP BY x",
    ] {
        let error = try_query(&connection, sql).unwrap_err();
        assert!(["OGEE_X005", "OGEE_Q008"].contains(&error.code()), "{sql}: [{}] {error}", error.code());
        assert!(error.message().contains("boom"), "{error}");
        assert_eq!(query(&connection, "SELECT count(v) FROM t WHERE v > 50000"), ["50000"]);
    }
}

#[test]
fn an_interrupt_ends_the_statement_soon() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 2000)");
    let handle = connection.interrupt_handle();
    handle.interrupt();
    // An interrupt with nothing running interrupts nothing.
    assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["2000"]);
    // Eight billion rows of a cross join, in a DataFusion operator, feeding an aggregation.
    let sql = "SELECT max(a.v + b.v + c.v), count(*) FROM t a, t b, t c WHERE a.v + b.v + c.v > 10";
    let started = Instant::now();
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            handle.interrupt();
        });
        try_query(&connection, sql).unwrap_err()
    });
    assert_eq!(error.code(), "OGEE_X004");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(query(&connection, "SELECT count(*) FROM t"), ["2000"]);
}

#[test]
fn a_result_that_is_dropped_ends_its_statement() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT value AS v, value % 1000 AS k FROM generate_series(1, 500000)");
    for _ in 0..20 {
        let mut result = connection.execute("SELECT * FROM t").unwrap();
        assert!(result.next().unwrap().unwrap().num_rows() > 0);
    }
    assert_eq!(query_sorted(&connection, "SELECT count(*) FROM t"), ["500000"]);
}

#[test]
fn a_group_larger_than_memory_is_ranked_in_passes() {
    let sql = "SELECT median(v), quantile_disc(v, 0.9), quantile_cont(f, 0.25), mode(v % 9973), count(*) FROM (
        SELECT value * 7919 % 3000017 AS v, CAST(value * 104729 % 1299709 AS DOUBLE) / 8 AS f FROM range(3000000)) AS t";
    let narrow = open(Config::default().threads(2).memory_limit(48 << 20).counts_process(false));
    assert_eq!(query(&narrow.connect(), sql), query(&connect(), sql));
    assert!(narrow.memory_stats().spilled_bytes > 0, "the values do not fit");
}

#[test]
fn spilled_pages_are_compressed_as_it_is_set() {
    let sql = "SELECT count(*), sum(n), max(s) FROM (
        SELECT value % 1000003 AS k, count(*) AS n, max(CAST(value AS VARCHAR) || ' spills softly over the crest') AS s
        FROM range(1500000) GROUP BY k) AS t";
    let config = Config::default().threads(2).memory_limit(24 << 20).counts_process(false);
    let database = open(config.temp_compression(TempCompression::Always));
    let connection = database.connect();
    assert_eq!(query(&connection, "SHOW temp_compression"), ["temp_compression|always"]);
    let expected = query(&connect(), sql);
    let mut shares = Vec::new();
    for setting in ["off", "always"] {
        query(&connection, &format!("SET temp_compression = '{setting}'"));
        assert_eq!(query(&connection, "SHOW temp_compression"), [format!("temp_compression|{setting}")]);
        let mut result = connection.execute(sql).unwrap();
        let batches = result.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(batches.iter().flat_map(batch_rows).collect::<Vec<_>>(), expected);
        let stats = result.stats();
        assert!(stats.spilled_bytes > 10_000_000, "{stats:?}");
        shares.push(stats.temp_written_bytes as f64 / stats.spilled_bytes as f64);
    }
    assert!(shares[0] == 1.0 && shares[1] < 0.8, "{shares:?}");
    query(&connection, "RESET temp_compression");
    assert_eq!(query(&connection, "SHOW temp_compression"), ["temp_compression|auto"]);
    assert_eq!(code_of(&connection, "SET temp_compression = 'zip'"), "OGEE_Q004");
}

#[test]
fn statements_run_side_by_side() {
    let database = open(Config::default().threads(2));
    let connection = database.connect();
    query(&connection, "CREATE TABLE t AS SELECT value AS v, value % 1000 AS k FROM generate_series(1, 200000)");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let connection = database.connect();
                for _ in 0..5 {
                    let sql = "SELECT count(*), sum(s) FROM (SELECT k, sum(v) AS s FROM t GROUP BY k)";
                    assert_eq!(query(&connection, sql), ["1000|20000100000"]);
                }
            });
        }
    });
}

#[test]
fn columns_that_were_declared_so_refuse_null() {
    let connection = connect();
    query(&connection, "CREATE TABLE t (a BIGINT NOT NULL, b BIGINT)");
    query(&connection, "INSERT INTO t VALUES (1, NULL)");
    let error = try_query(&connection, "INSERT INTO t VALUES (NULL, 1)").unwrap_err();
    assert!(error.message().contains("non-nullable"), "[{}] {error}", error.code());
    query(&connection, "CREATE TABLE u AS SELECT a FROM t");
    query(&connection, "INSERT INTO u VALUES (NULL)");
    assert_eq!(query(&connection, "SELECT count(*), count(a) FROM u"), ["2|1"]);
}

#[test]
fn a_with_query_that_is_computed_once_is_explained_once() {
    let connection = connect();
    query(&connection, "CREATE TABLE t AS SELECT value % 10 AS k, value AS i FROM generate_series(1, 1000)");
    let inner = "WITH v AS (SELECT k, i FROM t WHERE i > 5), w AS (SELECT k, sum(i) AS total FROM v GROUP BY k)";
    let sql = format!("{inner} SELECT a.k FROM w AS a JOIN w AS b ON a.total = b.total");
    let times = |text: &str, part: &str| text.matches(part).count();
    let shown = explain(&connection, &sql);
    for (part, count) in [
        ("with w|With w, computed once:", 1),
        ("with v", 0),
        ("OgeeTable: rows=1000", 1),
        ("OgeeTable: with=w, projection=[k, total]", 1),
        ("OgeeTable: with=w, projection=[total]", 1),
    ] {
        assert_eq!(times(&shown, part), count, "{part} in {shown}");
    }
    let expected =
        shown.split("as total], estimated_rows=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    assert_eq!(
        times(&shown, &format!("total], estimated_rows={expected}")),
        3,
        "those who read it expect its rows: {shown}"
    );
    let analyzed = query(&connection, &format!("EXPLAIN ANALYZE {sql}")).join("\n");
    for (part, count) in
        [("With w, computed once:", 1), ("OgeeTable: with=w, rows=10, blocks=1", 2), ("output_rows=10", 7)]
    {
        assert_eq!(times(&analyzed, part), count, "{part} in {analyzed}");
    }
    let tree = explain(&connection, &format!("FORMAT tree {sql}"));
    assert_eq!((times(&tree, "With w, computed once:"), times(&tree, "OgeeAggregate")), (1, 1), "{tree}");
    // What programs read has one plan.
    let graph = explain(&connection, &format!("FORMAT graphviz {sql}"));
    assert_eq!((times(&graph, "computed once"), times(&graph, "Aggregate") > 1), (0, true), "{graph}");
    assert_eq!(query(&connection, &sql).len(), 10);
}
