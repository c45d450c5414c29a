//! Files that SQL does not write: odd text, odd names, odd types.

use std::{fs, path::Path, sync::Arc};

use crate::{
    common::{batch, column, connect, open, query, query_sorted, try_query, write_parquet},
    differential::Random,
};
use datafusion::arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use ogee::{Config, Connection};

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
        self.csv_error_of("'$/t.csv'", text, parts);
    }

    /// The error of what `from` reads, where the file has this text.
    fn csv_error_of(&self, from: &str, text: &str, parts: &[&str]) {
        self.write("t.csv", text);
        let error = self.error(&format!("SELECT * FROM {from}"));
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
    let quoted = "read_csv('$/t.csv', quote = '\"')";
    files.csv_error_of(quoted, "id,s\n1,\"abc\n2,def\n", &["line 2", "not closed"]);
    files.csv_error_of(quoted, "id,s\n1,\"x\"y\n", &["line 2", "closing quote"]);
    // Where quotes fit no record, they are letters as others.
    assert_eq!(files.csv("id,s\n1,\"abc\n2,def\n"), ["1|\"abc", "2|def"]);
    assert_eq!(files.csv("id,s\n1,\"x\"y\n"), ["1|\"x\"y"]);
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
fn arrow_columns_of_impossible_types_are_refused() {
    use datafusion::arrow::ipc::writer::{FileWriter, StreamWriter};

    let files = Files::new();
    let field = |kind: DataType| Arc::new(Field::new("item", kind, true));
    for (kind, word) in [
        (DataType::Map(field(DataType::Struct(vec![field(DataType::Utf8)].into())), false), "map"),
        (DataType::Map(field(DataType::Utf8), false), "map"),
        (DataType::FixedSizeBinary(-1), "binary"),
        (DataType::FixedSizeList(field(DataType::Utf8), -1), "list"),
        (DataType::Decimal64(30, 2), "decimal"),
        (DataType::RunEndEncoded(field(DataType::Utf8), field(DataType::Utf8)), "run-end"),
    ] {
        let schema = Schema::new(vec![Field::new("i", DataType::Int64, true), Field::new("x", kind, true)]);
        let path = |name: &str| fs::File::create(files.directory.path().join(name)).unwrap();
        FileWriter::try_new(path("a.arrow"), &schema).unwrap().finish().unwrap();
        StreamWriter::try_new(path("b.arrow"), &schema).unwrap().finish().unwrap();
        for name in ["a.arrow", "b.arrow"] {
            let error = files.error(&format!("SELECT * FROM '$/{name}'"));
            assert!(error.contains("\"x\"") && error.contains(name) && error.contains(word), "{error}");
        }
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

#[test]
fn dictionaries_are_no_longer_than_their_pages() {
    // It says that it has 2147483614 values.
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/kept/c9f1125955a506a4.parquet");
    let files = Files::new();
    let error = files.error(&format!("SELECT * FROM '{kept}'"));
    assert!(error.contains("values does not fit in its page"), "{error}");
}

/// A statement about damaged files: rows or an error, but no bug.
fn no_bug(files: &Files, sql: &str) {
    let sql = files.sql(sql);
    if let Err(error) = try_query(&files.connection, &sql) {
        assert_ne!(error.code(), "OGEE_Q008", "{error}");
        assert!(!error.message().is_empty());
    }
}

/// `bytes` with a few of them changed, from `first` on.
fn damaged(bytes: &[u8], first: usize, random: &mut Random) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..=random.below(3) {
        let at = first + random.below((damaged.len() - first) as u64) as usize;
        match random.below(4) {
            0 => damaged[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            1 => damaged[at] ^= 1 << random.below(8),
            2 => damaged[at] = random.below(256) as u8,
            _ => {
                let end = damaged.len().min(at + 4);
                damaged[at..end].fill(0xff);
            }
        }
    }
    damaged
}

const ODD_ROWS: &str = "SELECT i, 'text number ' || i AS s, [i, NULL, i] AS l, {'a': i, 'b': 'x' || i} AS r, i::DECIMAL(9, 2) AS d, \
                        arrow_cast('v' || i % 3, 'Dictionary(Int32, Utf8)') AS k, i % 2 = 0 AS b, DATE '2024-01-01' + i::INT AS t FROM range(100) AS t(i)";

#[test]
fn damaged_arrow_files_are_errors() {
    let files = Files::new();
    files.query(&format!("COPY ({ODD_ROWS}) TO '$/whole.arrow'"));
    let whole = fs::read(files.directory.path().join("whole.arrow")).unwrap();
    assert_eq!(
        files.query("SELECT count(*), sum(i), max(s), sum(r.a), max(k) FROM '$/whole.arrow'"),
        ["100|4950|text number 99|4950|v2"]
    );
    for end in (1..whole.len()).step_by(97) {
        files.write("cut.arrow", &whole[..end]);
        let error = files.error("SELECT * FROM '$/cut.arrow'");
        assert!(error.contains("cut.arrow"), "{error}");
    }
    let mut random = Random::new(1);
    for round in 0..300 {
        // Half of them in the footer.
        let first = if round % 2 == 0 { 8 } else { whole.len() - 400 };
        files.write("damaged.arrow", damaged(&whole, first, &mut random));
        no_bug(&files, "SELECT * FROM '$/damaged.arrow'");
    }
}

#[test]
fn arrow_files_and_streams_of_all_compressions_are_read() {
    use datafusion::arrow::{
        array::{DictionaryArray, StringArray, StringViewArray},
        datatypes::Int32Type,
        ipc::{
            CompressionType, MetadataVersion,
            writer::{FileWriter, IpcWriteOptions, StreamWriter},
        },
    };

    let files = Files::new();
    let batch = |first: i64| {
        let numbers = Int64Array::from_iter((first..first + 20_000).map(|i| (i % 7 != 0).then_some(i)));
        let texts: StringArray = (first..first + 20_000).map(|i| Some(format!("text number {}", i % 100))).collect();
        let views: StringViewArray =
            (first..first + 20_000).map(|i| Some(format!("a longer text number {i}"))).collect();
        let codes: DictionaryArray<Int32Type> =
            (first..first + 20_000).map(|i| ["one", "two", "three"][i as usize % 3]).collect();
        RecordBatch::try_from_iter([
            ("i", column(numbers)),
            ("s", column(texts)),
            ("v", column(views)),
            ("k", column(codes)),
        ])
        .unwrap()
    };
    let batches = [batch(0), batch(20_000)];
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let options =
            IpcWriteOptions::try_new(8, false, MetadataVersion::V5).unwrap().try_with_compression(compression).unwrap();
        let path = |name: &str| fs::File::create(files.directory.path().join(name)).unwrap();
        let mut file =
            FileWriter::try_new_with_options(path("a.arrow"), &batches[0].schema(), options.clone()).unwrap();
        // A file has one dictionary of a column, a stream may have others later.
        file.write(&batches[0]).unwrap();
        file.finish().unwrap();
        let mut stream = StreamWriter::try_new_with_options(path("b.arrow"), &batches[0].schema(), options).unwrap();
        batches.iter().for_each(|batch| stream.write(batch).unwrap());
        stream.finish().unwrap();
        let of = "count(*), sum(i), max(s), max(v), count(DISTINCT k), max(k) FROM";
        assert_eq!(
            files.query(&format!("SELECT {of} '$/a.arrow'")),
            ["20000|171411429|text number 99|a longer text number 9999|3|two"],
            "{compression:?}"
        );
        assert_eq!(
            files.query(&format!("SELECT {of} '$/b.arrow'")),
            ["40000|685685715|text number 99|a longer text number 9999|3|two"],
            "{compression:?}"
        );
        assert_eq!(files.query("SELECT count(*) FROM '$/b.arrow'"), ["40000"]);
        assert_eq!(files.query("SELECT k, i FROM '$/b.arrow' WHERE i = 39999"), ["one|39999"]);
    }
}

#[test]
fn damaged_footers_of_parquet_files_are_errors() {
    let files = Files::new();
    files.query(&format!("COPY ({ODD_ROWS}) TO '$/whole.parquet'"));
    let whole = fs::read(files.directory.path().join("whole.parquet")).unwrap();
    let tail = whole.len() - 8;
    let footer = tail - u32::from_le_bytes(whole[tail..tail + 4].try_into().unwrap()) as usize;
    let mut random = Random::new(2);
    for _ in 0..300 {
        files.write("damaged.parquet", damaged(&whole, footer, &mut random));
        no_bug(&files, "SELECT * FROM '$/damaged.parquet'");
    }
    // Those that CREATE EXTERNAL TABLE reads.
    for length in [0xffff_ffff_u32, 0x7fff_ffff, tail as u32 + 1] {
        let mut long = whole.clone();
        long[tail..tail + 4].copy_from_slice(&length.to_le_bytes());
        files.write("long.parquet", long);
        let error = files.error("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '$/long.parquet'");
        assert!(error.contains("long.parquet") && error.contains("longer than the file"), "{error}");
    }
}

#[test]
fn long_lines_are_read_within_the_limit_or_refused() {
    let files = Files {
        connection: open(Config::default().threads(2).memory_limit(96 << 20).counts_process(false)).connect(),
        directory: tempfile::tempdir().unwrap(),
    };
    // A record of 70 MB, and a value of 60 MB which is there twice: as it was read, and in an array.
    files.write("long.csv", format!("a,b\n1,{}\n", "x".repeat(70_000_000)));
    let error = files.error("SELECT a, length(b) FROM '$/long.csv'");
    assert!(error.contains("long.csv', line 2") && error.contains("64 MiB"), "{error}");
    files.write("long.ndjson", format!("{{\"a\": 1}}\n{{\"a\": 2, \"b\": \"{}\"}}\n", "x".repeat(60_000_000)));
    let error = files.error("SELECT a, length(b) FROM '$/long.ndjson'");
    assert!(error.contains("long.ndjson', line 2") && error.contains("no memory for th"), "{error}");
    // 8 MB whose parts take 60 times as much.
    files.write("parts.ndjson", format!("{{\"a\": [{}1]}}\n", "1,".repeat(4_000_000)));
    let error = files.error("SELECT length(a) FROM '$/parts.ndjson'");
    assert!(error.contains("parts.ndjson', line 1") && error.contains("no memory for th"), "{error}");
    // Shorter ones are read, and so is what comes behind.
    files.write("short.csv", format!("a,b\n1,{}\n2,y\n", "x".repeat(5_000_000)));
    assert_eq!(files.query("SELECT a, length(b) FROM '$/short.csv'"), ["1|5000000", "2|1"]);
    files.write("short.ndjson", format!("{{\"a\": [{}1]}}\n{{\"a\": [2]}}\n", "1,".repeat(100_000)));
    assert_eq!(files.query("SELECT length(a) FROM '$/short.ndjson'"), ["100001", "1"]);
}

#[test]
fn wide_files_are_read() {
    let files = Files::new();
    let columns = 600;
    let line = |row: usize| (0..columns).map(|c| (row * c).to_string()).collect::<Vec<_>>().join(",");
    let header = (0..columns).map(|c| format!("c{c}")).collect::<Vec<_>>().join(",");
    let rows = (0..2000).map(line).collect::<Vec<_>>().join("\n");
    files.write("wide.csv", format!("{header}\n{rows}\n"));
    assert_eq!(
        files.query("SELECT count(*), sum(c0), sum(c1), sum(c599) FROM '$/wide.csv'"),
        ["2000|0|1999000|1197401000"]
    );
    files.write("many.csv", format!("{}\n", ",".repeat(200_000)));
    let error = files.error("SELECT * FROM '$/many.csv'");
    assert!(error.contains("many.csv") && error.contains("131072 values"), "{error}");
    // Keys in another order, and objects that do not have all of them.
    let object = |keys: &mut dyn Iterator<Item = usize>| {
        format!("{{{}}}\n", keys.map(|key| format!("\"k{key}\": {key}")).collect::<Vec<_>>().join(", "))
    };
    let mut text = object(&mut (0..columns));
    text += &object(&mut (0..columns).rev());
    text += &object(&mut (0..columns).filter(|key| key % 3 != 0));
    text += &object(&mut (columns - 2..columns + 2));
    files.write("wide.ndjson", &text);
    assert_eq!(
        files.query("SELECT count(*), sum(k0), sum(k3), sum(k4), sum(k599), sum(k601) FROM '$/wide.ndjson'"),
        ["4|0|6|12|2396|601"]
    );
    // The same within a struct.
    let nested: String = text.lines().map(|object| format!("{{\"s\": {object}}}\n")).collect();
    files.write("nested.ndjson", nested);
    assert_eq!(
        files
            .query("SELECT count(*), sum(s.k0), sum(s.k3), sum(s.k4), sum(s.k599), sum(s.k601) FROM '$/nested.ndjson'"),
        ["4|0|6|12|2396|601"]
    );
}
