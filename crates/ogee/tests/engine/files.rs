//! Files that SQL does not write: odd text, odd names, odd types.

use std::{fs, path::Path, sync::Arc};

use crate::common::{batch, column, connect, query, query_sorted, try_query, write_parquet};
use datafusion::arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use ogee::Connection;

struct Files {
    connection: Connection,
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { connection: connect(), directory: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn sql(&self, sql: &str) -> String {
        sql.replace("$", &self.directory.path().display().to_string())
    }

    /// `$` is the directory.
    fn query(&self, sql: &str) -> Vec<String> {
        query(&self.connection, &self.sql(sql))
    }

    fn query_sorted(&self, sql: &str) -> Vec<String> {
        query_sorted(&self.connection, &self.sql(sql))
    }

    fn error(&self, sql: &str) -> String {
        let error = try_query(&self.connection, &self.sql(sql)).map(|rows| panic!("{sql} gave {rows:?}")).unwrap_err();
        assert_ne!(error.code(), "OGEE_Q008", "{error}");
        error.message().to_owned()
    }

    /// The rows of a CSV file with this text.
    fn csv(&self, text: &str) -> Vec<String> {
        self.write("t.csv", text);
        self.query("SELECT * FROM '$/t.csv'")
    }

    fn csv_error(&self, text: &str, parts: &[&str]) {
        self.write("t.csv", text);
        let error = self.error("SELECT * FROM '$/t.csv'");
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }

    fn json(&self, text: &str) -> Vec<String> {
        self.write("t.ndjson", text);
        self.query("SELECT * FROM '$/t.ndjson'")
    }
}

#[test]
fn csv_files_are_read_as_they_look() {
    let files = Files::new();
    assert_eq!(files.csv("id;x\n1;1,5\n2;2,5\n"), ["1|1,5", "2|2,5"]);
    assert_eq!(files.csv("id\tx\n1\t2\n"), ["1|2"]);
    assert_eq!(files.csv("id|x|s\n1|1.5|a\n"), ["1|1.5|a"]);
    assert_eq!(files.csv("1,2.5,a\n2,3.5,b\n"), ["1|2.5|a", "2|3.5|b"]);
    assert_eq!(files.query("SELECT sum(column0) FROM '$/t.csv'"), ["3"]);
    assert_eq!(files.csv("\u{feff}id,x\n1,2\n"), ["1|2"]);
    assert_eq!(files.query("SELECT id FROM '$/t.csv'"), ["1"]);
    assert_eq!(files.csv("id,x\r\n1,2\r\n\r\n3,4"), ["1|2", "3|4"]);
    assert_eq!(files.csv("id,x\r1,2\r3,4\r"), ["1|2", "3|4"]);
    assert_eq!(files.csv("# one\n# two\nid,x\n1,2\n"), ["1|2"]);
    assert_eq!(
        files.csv("id,s\n1,\"a, b\"\n2,\"he said \"\"hi\"\"\"\n3, \"c\" \n"),
        ["1|a, b", "2|he said \"hi\"", "3|c"]
    );
    assert_eq!(files.csv("id,s\n1,\"a \\\"q\\\" b\"\n"), ["1|a \"q\" b"]);
    assert_eq!(files.csv("x\n1\n\n3\n"), ["1", "NULL", "3"]);
    assert_eq!(files.csv("a,b,\n1,2,\n"), ["1|2|NULL"]);
    assert_eq!(files.csv("a,b\n1,2,\n"), ["1|2"]);
    assert_eq!(files.csv("a,,a\n1,2,3\n"), ["1|2|3"]);
    assert_eq!(files.query("SELECT a, column1, a_1 FROM '$/t.csv'"), ["1|2|3"]);
    assert_eq!(
        files.csv("t,b\n2024-01-05T10:00:00Z,yes\n2024-01-05 10:00:00+02:00,F\n"),
        ["2024-01-05T10:00:00Z|true", "2024-01-05T08:00:00Z|false"]
    );
    assert_eq!(files.csv(""), [] as [&str; 0]);
    assert_eq!(files.query("SELECT count(*), max(column0) FROM '$/t.csv'"), ["0|NULL"]);
}

#[test]
fn csv_records_that_do_not_fit_are_named() {
    let files = Files::new();
    files.csv_error("id,x,y\n1,2,3\n1,2\n", &["t.csv', line 3", "2 values", "3 columns"]);
    files.csv_error("id,x\n1,2\n3,4,5\n", &["line 3", "3 values"]);
    files.csv_error("id,s\n1,\"abc\n2,def\n", &["line 2", "not closed"]);
    files.csv_error("id,s\n1,\"x\"y\n", &["line 2", "closing quote"]);
    files.write("t.csv", b"id,s\n1,caf\xe9\n");
    let error = files.error("SELECT * FROM '$/t.csv'");
    assert!(error.contains("line 2") && error.contains("UTF-8"), "{error}");
    assert_eq!(files.query("SELECT id FROM '$/t.csv'"), ["1"]);
    files.write("t.csv", b"\xff\xfei\0d\0\n\x001\0");
    assert!(files.error("SELECT * FROM '$/t.csv'").contains("UTF-16"));
}

/// More than the sample: 8 MiB and 20,480 rows.
fn long(first: &str, row: impl Fn(usize) -> String, last: &str) -> String {
    let mut text = first.to_owned();
    let mut number = 0;
    while text.len() <= (8 << 20) || number < 20_480 {
        text.push_str(&row(number));
        number += 1;
    }
    text + last
}

#[test]
fn values_behind_the_sample_are_read_or_refused() {
    let files = Files::new();
    let pad = "p".repeat(200);
    files.write("null.csv", long("id,x,pad\n", |i| format!("{i},,{pad}\n"), "-1,7,end\n"));
    assert_eq!(files.query("SELECT count(x), max(x), min(id) FROM '$/null.csv'"), ["1|7|-1"]);
    assert_eq!(files.query("SELECT id FROM '$/null.csv' WHERE x = '7'"), ["-1"]);

    for (name, last) in [("text", "abc"), ("float", "1.5"), ("zero", "007"), ("large", "99999999999999999999")] {
        let text = long("id,x,pad\n", |i| format!("{i},{i},\"{pad}\n{pad}\"\n"), &format!("-1,{last},end\n"));
        let lines = text.lines().count();
        files.write(&format!("{name}.csv"), text);
        let error = files.error(&format!("SELECT max(x) FROM '$/{name}.csv'"));
        let parts = [format!("{name}.csv', line {lines}"), format!("'{last}'"), "'x' is BIGINT".to_owned()];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        // Who does not ask for the column does not mind.
        assert_eq!(files.query(&format!("SELECT min(id) FROM '$/{name}.csv'")), ["-1"]);
        // As the message says.
        files.query(&format!(
            "CREATE EXTERNAL TABLE {name}_t (id BIGINT, x VARCHAR, pad VARCHAR) STORED AS CSV LOCATION '$/{name}.csv'"
        ));
        assert_eq!(files.query(&format!("SELECT x FROM {name}_t WHERE id = -1")), [last]);
    }

    let row = |i: usize| format!("{{\"id\": {i}, \"pad\": \"{pad}{pad}\"}}\n");
    files.write("key.ndjson", long("", row, "{\"id\": -1, \"new\": 7}\n"));
    let error = files.error("SELECT max(id) FROM '$/key.ndjson'");
    assert!(error.contains("key.ndjson', line") && error.contains("key \"new\""), "{error}");
    files.query(
        "CREATE EXTERNAL TABLE keys STORED AS JSON LOCATION '$/key.ndjson' OPTIONS ('format.schema_infer_max_rec' '1000000')",
    );
    assert_eq!(files.query("SELECT max(new), count(new), min(id) FROM keys"), ["7|1|-1"]);
    files.write("type.ndjson", long("", row, "{\"id\": 1.5}\n"));
    let error = files.error("SELECT max(id) FROM '$/type.ndjson'");
    assert!(error.contains("\"id\" is BIGINT") && error.contains("1.5"), "{error}");
}

#[test]
fn declared_columns_are_read_by_name_or_by_place() {
    let files = Files::new();
    files.write("t.csv", "b,a\n1,x\n2,y\n");
    files.query("CREATE EXTERNAL TABLE named (a VARCHAR, b INT) STORED AS CSV LOCATION '$/t.csv'");
    assert_eq!(files.query("SELECT a, b FROM named"), ["x|1", "y|2"]);
    files.query("CREATE EXTERNAL TABLE placed (c INT, d VARCHAR) STORED AS CSV LOCATION '$/t.csv'");
    assert_eq!(files.query("SELECT c, d FROM placed"), ["1|x", "2|y"]);
    files.query("CREATE EXTERNAL TABLE wrong (c INT, d DATE) STORED AS CSV LOCATION '$/t.csv'");
    assert!(files.error("SELECT d FROM wrong").contains("line 2"));
    files.query("CREATE EXTERNAL TABLE few (c INT) STORED AS CSV LOCATION '$/t.csv'");
    assert!(files.error("SELECT * FROM few").contains("2 columns"));
    files.write("u.csv", "1;2\n3;4\n");
    files.query(
        "CREATE EXTERNAL TABLE plain STORED AS CSV LOCATION '$/u.csv' OPTIONS ('format.has_header' 'true', 'format.delimiter' ';')",
    );
    assert_eq!(files.query("SELECT \"1\", \"2\" FROM plain"), ["3|4"]);
}

#[test]
fn json_files_are_objects_in_any_arrangement() {
    let files = Files::new();
    for text in [
        "{\"z\":1,\"a\":\"x\"}\n{\"z\":2,\"a\":null}\n",
        "\u{feff}\n[{\"z\":1,\"a\":\"x\"},\n {\"a\":null,\"z\":2}]\n",
        "{\"z\":1,\n\"a\":\"x\"}{\"z\":2}",
    ] {
        assert_eq!(files.json(text), ["1|x", "2|NULL"], "{text}");
    }
    assert_eq!(files.json("{\"a\":12345678901234567890}\n{\"a\":1}\n"), ["12345678901234567890", "1"]);
    assert_eq!(
        files.json("{\"a\":1}\n{\"a\":\"x\",\"b\":2}\n{\"b\":[1,{\"d\":2}]}\n"),
        ["1|NULL", "\"x\"|2", "NULL|[1,{\"d\":2}]"]
    );
    assert_eq!(files.json("{\"a\":1,\"A\":2}\n"), ["1|2"]);
    assert_eq!(files.json("{\"a\":{\"x\":1}}\n{\"a\":{\"y\":[2]}}\n"), ["{x: 1, y: NULL}", "{x: NULL, y: [2]}"]);
    assert_eq!(files.json("{\"a\":\"\\u00e9\\ud83d\\ude00\\n\"}\n"), ["é😀\n"]);
    assert_eq!(files.json("1\n2\n"), ["1", "2"]);
    assert_eq!(files.json("{}\n{}\n"), ["{}", "{}"]);
    assert_eq!(files.json(""), [] as [&str; 0]);
    for (text, part) in [
        ("{\"a\":1}\n{\"a\":1,\"a\":2}\n", "line 2: not JSON: key \"a\" twice"),
        ("{\"a\":1}\n{\"a\":\n", "line 2: the file ends"),
        ("{\"a\":1}\nx\n", "line 2: not JSON"),
        ("[{\"a\":1}\n", "the array is not closed"),
    ] {
        files.write("t.ndjson", text);
        let error = files.error("SELECT * FROM '$/t.ndjson'");
        assert!(error.contains(part), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn directories_are_readable_whatever_is_in_them() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let files = Files::new();
    files.write("d/a.csv", "x\n1\n");
    files.write("d/b[1].csv", "x\n2\n");
    files.write("d/sub/c%20 #?*.csv", "x\n4\n");
    files.write("d/README", "");
    let root = files.directory.path();
    std::os::unix::fs::symlink(root.join("d"), root.join("d/sub/loop")).unwrap();
    fs::write(root.join("d").join(OsStr::from_bytes(b"caf\xe9.txt")), "x").unwrap();
    assert_eq!(files.query("SELECT sum(x), count(*) FROM '$/d'"), ["7|3"]);
    assert_eq!(files.query("SELECT sum(x) FROM '$/d/*.csv'"), ["3"]);
    assert_eq!(files.query("SELECT x FROM '$/d/b[1].csv'"), ["2"]);
    assert_eq!(files.query("SELECT x FROM '$/d/[b]*.csv'"), ["2"]);
    assert_eq!(files.query("SELECT sum(x) FROM '$/d/**/*.csv'"), ["7"]);
    assert_eq!(files.query("SELECT x FROM '$/d/sub/c%20 #?*.csv'"), ["4"]);
    // A name that would be read is told.
    fs::write(root.join("d").join(OsStr::from_bytes(b"caf\xe9.csv")), "x\n8\n").unwrap();
    assert!(files.error("SELECT sum(x) FROM '$/d'").contains("not UTF-8"));
    assert_eq!(files.query("SELECT sum(x) FROM '$/d/[ab]*.csv'"), ["3"]);
}

#[test]
fn a_table_has_files_of_one_kind() {
    let files = Files::new();
    let rows = batch([("x", column(Int64Array::from_iter_values(0..3)))]);
    files.write("d/a.csv", "x\n1\n");
    write_parquet(&files.directory.path().join("d/b.parquet"), &rows, 10, None);
    for path in ["$/d", "$/d/*"] {
        let error = files.error(&format!("SELECT * FROM '{path}'"));
        assert!(error.contains("CSV and Parquet") && error.contains("a.csv") && error.contains("b.parquet"), "{error}");
    }
    assert_eq!(files.query("SELECT count(*) FROM '$/d/*.parquet'"), ["3"]);
    files.write("e.parquet", "");
    assert!(files.error("SELECT * FROM '$/e.parquet'").contains("it is empty"));
    files.write("e.arrow", "");
    assert!(files.error("SELECT * FROM '$/e.arrow'").contains("it is empty"));
    assert!(files.error("SELECT * FROM '$/*.none'").contains("no file"));
}

#[test]
fn directories_name_columns() {
    let files = Files::new();
    let write = |path: &str, values: std::ops::Range<i64>| {
        let rows = batch([
            ("id", column(Int64Array::from_iter_values(values.clone()))),
            ("Part", column(Int64Array::from_iter_values(values.map(|v| v * 100)))),
        ]);
        write_parquet(&files.directory.path().join(path), &rows, 2, None);
    };
    write("h/year=2023/part=a/x.parquet", 0..3);
    write("h/year=2024/part=b/x.parquet", 3..4);
    write("h/year=__HIVE_DEFAULT_PARTITION__/part=__HIVE_DEFAULT_PARTITION__/x.parquet", 5..7);
    assert_eq!(
        files.query_sorted("SELECT * FROM '$/h'"),
        ["0|a|2023", "1|a|2023", "2|a|2023", "3|b|2024", "5|NULL|NULL", "6|NULL|NULL"]
    );
    assert_eq!(
        files.query("SELECT count(*), count(year), count(part), max(year) FROM '$/h/*/*/*.parquet'"),
        ["6|4|4|2024"]
    );
    assert_eq!(files.query_sorted("SELECT id FROM '$/h' WHERE year IS NULL"), ["5", "6"]);
    assert_eq!(files.query("SELECT count(*) FROM '$/h' WHERE year IS NOT NULL"), ["4"]);
    assert_eq!(files.query("SELECT count(*) FROM '$/h' WHERE year <> 2023"), ["1"]);
    assert_eq!(files.query("SELECT count(*) FROM '$/h' WHERE NOT (year = 2023) AND id > 1"), ["1"]);
    assert_eq!(files.query_sorted("SELECT year, sum(id) FROM '$/h' GROUP BY year"), ["2023|3", "2024|3", "NULL|11"]);
    assert_eq!(files.query("SELECT count(*) FROM '$/h' a JOIN '$/h' b ON a.year = b.year"), ["10"]);
    assert_eq!(files.query("SELECT part, year FROM '$/h/year=2024/part=b/x.parquet'"), ["b|2024"]);
    files.write("c/day=2024-01-01/t.csv", "id\n1\n");
    files.write("c/day=2024-01-02/t.csv", "id\n2\n");
    files.write("c/day=__HIVE_DEFAULT_PARTITION__/t.csv", "id\n3\n");
    assert_eq!(files.query("SELECT id FROM '$/c' WHERE day > DATE '2024-01-01'"), ["2"]);
    assert_eq!(files.query("SELECT id FROM '$/c' ORDER BY day NULLS FIRST LIMIT 1"), ["3"]);
}

#[test]
fn views_see_files_as_they_are() {
    let files = Files::new();
    files.write("v/1.csv", "x\n1\n");
    files.query("CREATE VIEW v AS SELECT * FROM '$/v/*.csv'");
    assert_eq!(files.query("SELECT sum(x) FROM v"), ["1"]);
    files.write("v/2.csv", "x\n20\n");
    assert_eq!(files.query("SELECT sum(x) FROM v"), ["21"]);
    files.write("v/1.csv", "y,x\n5,100\n");
    files.write("v/2.csv", "x,y\n20,6\n");
    assert_eq!(files.query("SELECT sum(x) FROM v"), ["120"]);
}

#[test]
fn parquet_columns_of_unknown_types_are_refused() {
    // Written by Polars 1: id Int64, x Int128.
    let files = Files::new();
    for (name, bytes) in [
        ("int128.parquet", include_bytes!("data/int128.parquet").as_slice()),
        ("int128.arrow", include_bytes!("data/int128.arrow").as_slice()),
    ] {
        files.write(name, bytes);
        let error = files.error(&format!("SELECT id FROM '$/{name}'"));
        assert!(error.contains("Int128") && error.contains("\"x\"") && error.contains(name), "{error}");
        let format = Path::new(name).extension().unwrap().to_str().unwrap();
        let error = files.error(&format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '$/{name}'"));
        assert!(error.contains("Int128"), "{error}");
    }
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let files = Files::new();
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int64, true),
        Field::new("a", DataType::Int64, true),
    ]);
    let columns = (0..3).map(|first| column(Int64Array::from_iter_values(first..first + 2))).collect();
    let rows = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    write_parquet(&files.directory.path().join("twice.parquet"), &rows, 10, None);
    let error = files.error("SELECT * FROM '$/twice.parquet'");
    assert!(error.contains("two columns named \"a\""), "{error}");
}

#[test]
fn columns_that_a_file_does_not_have_are_null() {
    let files = Files::new();
    let required = |name: &str, value: i64| {
        let schema =
            Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new(name, DataType::Int64, false)]);
        let columns = vec![column(Int64Array::from(vec![value])), column(Int64Array::from(vec![value * 10]))];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    };
    write_parquet(&files.directory.path().join("m/1.parquet"), &required("a", 1), 10, None);
    write_parquet(&files.directory.path().join("m/2.parquet"), &required("b", 2), 10, None);
    assert_eq!(files.query("SELECT id, a, b FROM '$/m' ORDER BY id"), ["1|10|NULL", "2|NULL|20"]);
    assert_eq!(files.query("SELECT count(*), count(a), count(b) FROM '$/m'"), ["2|1|1"]);
    assert_eq!(files.query("SELECT id FROM '$/m' WHERE a IS NULL"), ["2"]);
}

#[test]
fn arrow_files_of_other_columns_are_refused() {
    let files = Files::new();
    files.query("COPY (SELECT 1 AS a, 2 AS b) TO '$/w/1.arrow'");
    files.query("COPY (SELECT 20 AS b, 10 AS a) TO '$/w/2.arrow'");
    assert!(files.error("SELECT sum(a) FROM '$/w/*.arrow'").contains("2.arrow"));
    assert!(files.error("CREATE EXTERNAL TABLE w STORED AS ARROW LOCATION '$/w/'").contains("2.arrow"));
    assert_eq!(files.query("SELECT a, b FROM '$/w/2.arrow'"), ["10|20"]);
    files.query("COPY (SELECT 3 AS a, 4 AS b) TO '$/w/2.arrow'");
    assert_eq!(files.query("SELECT sum(a), sum(b) FROM '$/w/*.arrow'"), ["4|6"]);
}

#[test]
fn copy_writes_the_directories_of_null() {
    let files = Files::new();
    files.query(
        "COPY (SELECT * FROM (VALUES (1, NULL, 'x'), (2, 5, NULL), (3, 6, 'a/b c=d%'), (4, 0, '')) AS t(a, p, q)) \
         TO '$/out/' STORED AS PARQUET PARTITIONED BY (p, q)",
    );
    assert_eq!(
        files.query("SELECT a, p, q FROM '$/out/' ORDER BY a"),
        ["1|NULL|x", "2|5|NULL", "3|6|a/b c=d%", "4|0|"]
    );
    let error = files.error("CREATE EXTERNAL TABLE written STORED AS PARQUET PARTITIONED BY (p, q) LOCATION '$/out/'");
    assert!(error.contains("NULL") && error.contains("FROM '"), "{error}");
}

#[test]
fn copy_writes_dates_as_dates() {
    let files = Files::new();
    for extension in ["parquet", "csv", "json"] {
        files.query(&format!(
            "COPY (SELECT arrow_cast(DATE '2024-01-05', 'Date64') AS d, arrow_cast(TIMESTAMP '2024-01-05 10:00:00', 'Timestamp(s)') AS t) TO '$/d.{extension}'"
        ));
        assert_eq!(
            files.query(&format!("SELECT arrow_typeof(d), d - DATE '2024-01-01' = 4, t > TIMESTAMP '2024-01-05 09:59:59' FROM '$/d.{extension}'"))[0].split('|').next(),
            Some("Date32"),
            "{extension}"
        );
    }
}
