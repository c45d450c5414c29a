//! How results are written.

use serde_json::Value;

use crate::place::{Place, assert_success, stderr, stdout};

const TWO_ROWS: &str = "SELECT * FROM (VALUES (1, 'a,b', 1.50), (2, NULL, -3.25)) AS t(n, s, d) ORDER BY n";

#[test]
fn every_format_writes_its_form() {
    let place = Place::new();
    let run = |format: &str| {
        let output = place.run(&["--format", format, "-c", TWO_ROWS]);
        assert_success(&output);
        stdout(&output)
    };
    assert_eq!(run("csv"), "n,s,d\n1,\"a,b\",1.50\n2,,-3.25\n");
    assert_eq!(run("markdown"), "| n | s | d |\n|---:|---|---:|\n| 1 | a,b | 1.50 |\n| 2 | NULL | -3.25 |\n");
    assert_eq!(run("line"), "n = 1\ns = a,b\nd = 1.50\n\nn = 2\ns = NULL\nd = -3.25\n");
    let lines: Vec<Value> = run("ndjson").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1], serde_json::json!({"n": 2, "s": null, "d": -3.25}));
    let array: Value = serde_json::from_str(&run("json")).unwrap();
    assert_eq!(array, Value::from(lines));
}

#[test]
fn maps_are_json_objects_whatever_their_keys() {
    let place = Place::new();
    let sql =
        "SELECT map([1, 2], ['a', NULL]) m, [map([DATE '2024-01-02'], [map([1.5], [2])])] n, {'s': map([[1]], [2])} s";
    let row = serde_json::json!({
        "m": {"1": "a", "2": null}, "n": [{"2024-01-02": {"1.5": 2}}], "s": {"s": {"[1]": 2}}
    });
    let run = |format: &str| stdout(&place.run(&["--format", format, "-c", sql]));
    assert_eq!(serde_json::from_str::<Value>(&run("ndjson")).unwrap(), row);
    assert_eq!(serde_json::from_str::<Value>(&run("json")).unwrap(), serde_json::json!([row]));
}

#[test]
fn infinite_moments_are_words_in_all_modes() {
    let place = Place::new();
    let sql = "SELECT * FROM (VALUES (DATE 'infinity', TIMESTAMP '-infinity'), ('2024-01-02'::DATE, NULL)) t(d, t)";
    let nested = "SELECT [DATE '-infinity', '2024-01-02'::DATE] l, {'t': TIMESTAMPTZ 'infinity'} s, map([DATE 'infinity'], [1]) m";
    for mode in ["duckbox", "box", "table", "column", "line", "list", "tabs", "csv", "markdown", "html", "insert"] {
        let output = place.run(&["--format", mode, "-c", sql]);
        assert_success(&output);
        let text = stdout(&output);
        assert!(
            text.matches("infinity").count() == 2 && text.contains("-infinity") && text.contains("2024-01-02"),
            "{mode}: {text}"
        );
    }
    let rows = serde_json::json!([{"d": "infinity", "t": "-infinity"}, {"d": "2024-01-02", "t": null}]);
    let json =
        |sql: &str| serde_json::from_str::<Value>(&stdout(&place.run(&["--format", "json", "-c", sql]))).unwrap();
    assert_eq!(json(sql), rows);
    let row = serde_json::json!({"l": ["-infinity", "2024-01-02"], "s": {"t": "infinity"}, "m": {"infinity": 1}});
    assert_eq!(json(nested), serde_json::json!([row]));
}

#[test]
fn results_without_rows_have_their_form_too() {
    let place = Place::new();
    let run = |format: &str| stdout(&place.run(&["--format", format, "-c", "SELECT 1 AS a WHERE false"]));
    assert_eq!(run("csv"), "a\n");
    assert_eq!(run("json"), "[]\n");
    assert_eq!(run("ndjson"), "");
    assert!(run("duckbox").ends_with("  0 rows\n"));
    assert_eq!(run("box"), "┌───┐\n│ a │\n├───┤\n└───┘\n");
    assert_eq!(run("insert"), "");
}

#[test]
fn a_table_shows_the_ends_of_a_long_result() {
    let place = Place::new();
    let output = place.run(&["-c", "SELECT i FROM generate_series(1, 100000) AS g(i) ORDER BY i"]);
    assert_success(&output);
    let text = stdout(&output);
    assert!(
        text.contains("│     ·  │") && text.contains("│ 100000 │") && text.contains("  100000 rows (40 shown)\n"),
        "{text}"
    );
    assert!(text.lines().count() < 60);
}

#[test]
fn other_formats_write_everything() {
    let place = Place::new();
    let output = place.run(&["--format", "csv", "-c", "SELECT i FROM generate_series(1, 100000) AS g(i)"]);
    assert_success(&output);
    let sum: u64 = stdout(&output).lines().skip(1).map(|line| line.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 100_000 * 100_001 / 2);
}

#[test]
fn json_has_each_key_once() {
    let sql = "SELECT * FROM (SELECT 1 AS a) AS x, (SELECT 2 AS a, 3 AS a_1) AS y, (SELECT 4 AS a) AS z";
    let expected = serde_json::json!({"a": 1, "a_2": 2, "a_1": 3, "a_3": 4});
    let place = Place::new();
    for format in ["json", "ndjson"] {
        let text = stdout(&place.run(&["--format", format, "-c", sql]));
        let value: Value = serde_json::from_str(text.trim_start_matches('[').trim_end().trim_end_matches(']')).unwrap();
        assert_eq!(value, expected, "{text}");
    }
}

/// Values of all kinds.
const KINDS: &str = "SELECT 1::TINYINT AS i, 1.5::DOUBLE AS x, 'it''s' AS t, DATE '2024-02-29' AS d, TIMESTAMP '2024-02-29 12:30:00' AS ts, \
    TIMESTAMPTZ '2024-02-29 12:30:00+00' AS tz, INTERVAL 1 DAY AS v, true AS b, [1, NULL]::INTEGER[] AS l, {'a': 1::INTEGER, 'b': 'x y'} AS s, \
    map(['k'], [2::INTEGER]) AS m, '\\xAB'::BLOB AS y, NULL AS z, 'nan'::DOUBLE AS n";

fn mode(mode: &str, sql: &str) -> String {
    let place = Place::new();
    let output = place.run(&["--format", mode, "-c", sql]);
    assert_success(&output);
    stdout(&output)
}

#[test]
fn values_are_written_as_sql_casts_them() {
    let expected = "1|1.5|it's|2024-02-29|2024-02-29 12:30:00|2024-02-29 12:30:00+00|1 day|true|[1, NULL]|{'a': 1, 'b': x y}|{k=2}|\\xAB|NULL|nan";
    assert_eq!(mode("list", KINDS).lines().nth(1), Some(expected));
    let types = mode("duckbox", KINDS);
    let types: Vec<&str> =
        types.lines().nth(2).unwrap().split('│').map(str::trim).filter(|name| !name.is_empty()).collect();
    assert_eq!(
        types,
        [
            "int8",
            "double",
            "varchar",
            "date",
            "timestamp",
            "timestamp with time zone",
            "interval",
            "boolean",
            "int32[]",
            "struct(a integer, b varchar)",
            "map(varchar, integer)",
            "blob",
            "\"null\"",
            "double",
        ]
    );
    let place = Place::new();
    let output =
        place.run(&["-csv", "-c", "SET timezone = 'Asia/Tokyo'; SELECT TIMESTAMPTZ '2024-02-29 12:30:00+00' AS tz"]);
    assert_eq!(stdout(&output), "tz\n2024-02-29 21:30:00+09\n");
}

#[test]
fn literals_make_the_values_again() {
    let place = Place::new();
    let insert = place.run(&["-c", &format!(".mode insert copies\n{KINDS}")]);
    assert_success(&insert);
    let insert = stdout(&insert);
    assert!(insert.starts_with("INSERT INTO copies(i, x, t, d, ts, tz, v, b, l, s, m, y, z, n) VALUES (1, 1.5, 'it''s', DATE '2024-02-29', "), "{insert}");
    let script = format!("CREATE TABLE copies AS {KINDS} WHERE false;\n{insert}SELECT * FROM copies;");
    let copies = place.script(&["-list"], &script);
    assert_eq!(stderr(&copies), "");
    assert_eq!(stdout(&copies), mode("list", KINDS));
    assert_eq!(mode("quote", "SELECT 'a''b' AS \"it's\", 1 AS n"), "'it''s','n'\n'a''b',1\n");
}

#[test]
fn drawn_tables_have_one_line_a_row() {
    let sql = "SELECT E'a\\n\\tb' AS \"x\\y\", '漢字' AS k, 7::BIGINT AS n UNION ALL SELECT chr(27) || '[1m', 'é', 10";
    let expected = "\
┌─────────┬─────────┬───────┐
│   x\\y   │    k    │   n   │
│ varchar │ varchar │ int64 │
├─────────┼─────────┼───────┤
│ a\\n\\tb  │ 漢字    │     7 │
│ \\e[1m   │ é       │    10 │
└─────────┴─────────┴───────┘
";
    assert_eq!(mode("duckbox", sql), expected);
    let expected = "\
┌────────┬──────┬────┐
│ x\\y    │ k    │  n │
├────────┼──────┼────┤
│ a\\n\\tb │ 漢字 │  7 │
│ \\e[1m  │ é    │ 10 │
└────────┴──────┴────┘
";
    assert_eq!(mode("box", sql), expected);
}

#[test]
fn plans_are_texts() {
    let text = mode("duckbox", "EXPLAIN SELECT 1");
    assert!(!text.contains('│') && text.lines().count() > 1, "{text}");
}

#[test]
fn wide_and_long_values_take_little_memory() {
    let place = Place::new();
    let columns: Vec<String> = (0..5000).map(|at| format!("{at} AS c{at}")).collect();
    let wide = format!("SELECT {}", columns.join(", "));
    std::fs::write(place.path("wide.sql"), wide).unwrap();
    for mode in ["duckbox", "box", "line", "csv", "insert"] {
        let output = place.run(&["--format", mode, "-f", "wide.sql"]);
        assert_success(&output);
        assert!(stdout(&output).contains("c4999"), "{mode}");
    }
    // 200 texts of a megabyte, which nothing has to hold.
    let long = "SELECT i, repeat('x', 1000000) AS t FROM range(200) r(i)";
    for mode in ["duckbox", "box", "csv", "json"] {
        let output =
            place.run(&["--format", mode, "--memory-limit", "100MB", "--stats", "-o", "/dev/null", "-c", long]);
        assert_success(&output);
        let stats: Value = serde_json::from_str(stderr(&output).trim()).unwrap();
        let excess = stats["peak_rss_bytes"].as_i64().unwrap() - 100_000_000;
        assert!(excess < 64 << 20, "{mode}: {excess} bytes beyond the limit");
    }
}

#[test]
fn a_long_table_is_aligned_as_its_beginning() {
    let text =
        mode("box", "SELECT i, CASE WHEN i = 199999 THEN 'a long text' ELSE 'x' END AS t FROM range(200000) r(i)");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 200_004);
    assert_eq!(lines[3], "│      0 │ x │");
    assert_eq!(lines[200_002], "│ 199999 │ a long text │");
}
