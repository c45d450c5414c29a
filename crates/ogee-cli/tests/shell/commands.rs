//! Commands that start with a dot.

use crate::place::{Place, assert_success, stderr, stdout};

#[test]
fn standard_input_is_a_script_with_commands() {
    let place = Place::new();
    let script = ".mode csv\nCREATE TABLE t AS SELECT 1 AS a;\n.tables\nSELECT a + 1\n  AS b FROM t;\n.output other.csv\nSELECT 'x' AS y;\n";
    let output = place.script(&[], script);
    assert_success(&output);
    assert_eq!(stdout(&output), "t\nb\n2\n");
    assert_eq!(std::fs::read_to_string(place.path("other.csv")).unwrap(), "y\nx\n");
}

/// What a script of commands and statements writes, without an error.
#[track_caller]
fn answers(script: &str, expected: &str) {
    let place = Place::new();
    let output = place.script(&["-csv"], script);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), (expected, ""), "{script}");
    assert_eq!(output.status.code(), Some(0), "{script}");
}

/// The script goes on behind a command that is wrong, and the shell ends with 1.
#[track_caller]
fn refuses(command: &str, message: &str) {
    let place = Place::new();
    let output = place.script(&["-csv"], &format!("{command}\n.print on\n"));
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("on\n", format!("Error: {message}\n").as_str()));
    assert_eq!(output.status.code(), Some(1), "{command}");
    let output = place.script(&["-csv", "-bail"], &format!("{command}\n.print on\n"));
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(1)), "{command}");
}

#[test]
fn wrong_commands_are_explained() {
    refuses(".tabels", "no command .tabels; did you mean .tables?");
    refuses(".frobnicate", "no command .frobnicate; .help lists them");
    refuses(".headers perhaps", ".headers takes on or off, not \"perhaps\"");
    refuses(".headers on off", "usage: .headers on|off");
    refuses(".nullvalue", "usage: .nullvalue TEXT");
    refuses(".once", "usage: .once FILE");
    refuses(".once no/such/file", "cannot write no/such/file: No such file or directory (os error 2)");
    refuses(".output no/such/file", "cannot write no/such/file: No such file or directory (os error 2)");
    refuses(".cd no/such", "cannot change to no/such: No such file or directory (os error 2)");
    refuses(".width 3 wide", ".width takes numbers up to 10000, not \"wide\"");
    refuses(".maxrows 0", ".maxrows takes a number above 0, not \"0\"");
    refuses(".maxwidth few", ".maxwidth takes a number, not \"few\"");
    refuses(".mode csv t", "usage: .mode ?MODE? ?TABLE?");
    refuses(
        ".mode xml",
        "no mode \"xml\"; there are duckbox, box, table, column, line, list, tabs, csv, json, jsonlines, markdown, html, insert, quote, trash",
    );
    refuses(".import a.csv", "usage: .import ?--csv? ?--skip N? FILE TABLE");
    refuses(".print 'a", ".print: a ' is not closed");
    refuses(".shell exit 3", "the command ended with exit status: 3");
    refuses(".exit many", ".exit takes a code from 0 to 255, not \"many\"");
    refuses(".open x.db", "database files come later; .open starts over in memory");
    refuses(".databases x", "usage: .databases ");
}

#[test]
fn help_has_a_line_for_each_command() {
    let place = Place::new();
    let text = stdout(&place.script(&[], ".help\n"));
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    for name in [
        ".bail",
        ".cd",
        ".changes",
        ".databases",
        ".echo",
        ".exit",
        ".headers",
        ".help",
        ".import",
        ".maxrows",
        ".maxwidth",
        ".memory",
        ".mode",
        ".nullvalue",
        ".once",
        ".open",
        ".output",
        ".pager",
        ".print",
        ".progress",
        ".quit",
        ".read",
        ".schema",
        ".separator",
        ".shell",
        ".show",
        ".stats",
        ".system",
        ".tables",
        ".timer",
        ".version",
        ".width",
    ] {
        assert!(names.contains(&name), "{name} is not in {text}");
    }
    answers(
        ".help mode\n.help .cd",
        "\
.mode ?MODE? ?TABLE?                     How results are written; TABLE is that of INSERT statements
.cd DIRECTORY                            Change the directory that files are looked for in
",
    );
}

#[test]
fn results_are_written_as_it_was_set() {
    answers(
        ".headers off\nSELECT 1 AS a, NULL AS b;\n.headers on\n.nullvalue 'is null'\nSELECT 1 AS a, NULL AS b;",
        "1,\na,b\n1,is null\n",
    );
    answers(".separator ; \"|\\n\"\nSELECT 'a;b' AS a, 'c,d' AS b;", "a;b|\n\"a;b\";c,d|\n");
    answers(".separator '\\t'\nSELECT 1 AS a, 2 AS b;\n.mode csv\nSELECT 1 AS a, 2 AS b;", "a\tb\n1\t2\na,b\n1,2\n");
    answers(".mode\n.mode LIST\n.mode", "csv\nlist\n");
    answers(".mode column\n.width 3 -4\nSELECT 'abcdef' AS a, 'x' AS b;", "a       b\n---  ----\nab…     x\n");
    answers(".maxrows\n.maxwidth\n.maxrows 3\n.maxwidth 50\n.maxrows\n.maxwidth", "40\n0\n3\n50\n");
    answers(".pager\n.pager cat\n.pager\n.pager off\n.pager", "off\non: cat\noff\n");
}

#[test]
fn a_duckbox_has_its_largest_size() {
    answers(
        ".mode duckbox\n.maxrows 2\n.maxwidth 30\nSELECT i::INTEGER AS i, repeat('x', 40) AS t FROM range(9) r(i);",
        "\
┌───────┬────────────────────┐
│   i   │         t          │
│ int32 │      varchar       │
├───────┼────────────────────┤
│     0 │ xxxxxxxxxxxxxxxxx… │
│     · │         ·          │
│     · │         ·          │
│     · │         ·          │
│     8 │ xxxxxxxxxxxxxxxxx… │
└───────┴────────────────────┘
  9 rows           2 columns
  (2 shown)
",
    );
}

#[test]
fn output_goes_where_it_was_sent() {
    let place = Place::new();
    let script = "\
.once 'one file.csv'
SELECT 1 AS a;
SELECT 2 AS a;
.output all.csv
SELECT 3 AS a;
.print four
.output
SELECT 5 AS a;
.output all.csv
.output stdout
SELECT 6 AS a;
";
    let output = place.script(&["-csv"], script);
    assert_success(&output);
    assert_eq!(stdout(&output), "a\n2\na\n5\na\n6\n");
    assert_eq!(std::fs::read_to_string(place.path("one file.csv")).unwrap(), "a\n1\n");
    assert_eq!(std::fs::read_to_string(place.path("all.csv")).unwrap(), "");
    // An error leaves the place where results go.
    let output = place.script(&["-csv"], ".bail off\n.once x.csv\nSELECT nothing;\nSELECT 1 AS a;\n");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("a\n1\n", Some(1)));
}

#[test]
fn files_become_tables() {
    let place = Place::new();
    std::fs::write(place.path("rows.csv"), "a,b\n1,x\n2,y\n").unwrap();
    std::fs::write(place.path("more.txt"), "# a comment\n3;z\n").unwrap();
    let script = "\
.import rows.csv t
.import --csv --skip 1 rows.csv u
.separator ;
.import --skip 1 more.txt v
.mode csv
COPY (SELECT 9 AS a, 'p' AS b) TO 'other.parquet' (FORMAT parquet);
.import other.parquet t
SELECT * FROM t;
SELECT count(*) AS n FROM u;
SELECT * FROM v;
";
    let output = place.script(&["-csv"], script);
    assert_eq!(stderr(&output), "");
    let text = stdout(&output);
    assert!(text.starts_with("a,b\n1,x\n2,y\n9,p\nn\n"), "{text}");
    assert!(text.ends_with("3,z\n") || text.contains("3,z"), "{text}");
    // What SQL refuses is its error.
    let output = place.script(&[], ".import no.csv t\n.print on\n");
    assert!(stderr(&output).starts_with("Error [OGEE_") && stdout(&output).is_empty(), "{output:?}");
}

const CATALOG: &str = "\
CREATE TABLE orders (id INTEGER PRIMARY KEY, \"Placed On\" DATE NOT NULL, kind VARCHAR DEFAULT 'web', code INTEGER UNIQUE);
CREATE TABLE parts (a INTEGER, b INTEGER, PRIMARY KEY (a, b));
CREATE VIEW recent AS SELECT id FROM orders;
CREATE SCHEMA s;
CREATE TABLE s.\"Other\" (x DOUBLE);
ATTACH ':memory:' AS more;
CREATE TABLE more.t (y BLOB);
";

#[test]
fn tables_are_listed() {
    answers(&format!("{CATALOG}.tables"), "orders   parts    recent   s.other  more.t\n");
    answers(&format!("{CATALOG}.tables %OR%\n.tables none"), "orders\n");
    answers(&format!("{CATALOG}.databases"), "memory\nmore\n");
    answers(".tables\n.databases", "memory\n");
}

#[test]
fn schemas_are_statements() {
    let orders = "CREATE TABLE orders (id INTEGER PRIMARY KEY, \"Placed On\" DATE NOT NULL, kind VARCHAR DEFAULT 'web', code INTEGER UNIQUE);\n";
    let parts = "CREATE TABLE parts (a INTEGER, b INTEGER, PRIMARY KEY (a, b));\n";
    answers(&format!("{CATALOG}.schema orders\n.schema pa%"), &format!("{orders}{parts}"));
    answers(&format!("{CATALOG}.schema recent"), "CREATE VIEW recent AS SELECT id FROM orders;\n");
    answers(
        &format!("{CATALOG}.schema other\n.schema t"),
        "CREATE TABLE s.other (x DOUBLE);\nCREATE TABLE more.t (y BLOB);\n",
    );
    // They make the tables again.
    answers(&format!("{orders}{parts}.schema"), &format!("{orders}{parts}"));
}

#[test]
fn scripts_read_scripts() {
    let place = Place::new();
    std::fs::write(place.path("inner file.sql"), "SELECT 2 AS a;\n").unwrap();
    std::fs::write(place.path("outer.sql"), "SELECT 1 AS a;\n.read 'inner file.sql'\nSELECT 3 AS a").unwrap();
    std::fs::write(place.path("endless.sql"), ".read endless.sql\n").unwrap();
    let output = place.script(&["-csv"], ".read outer.sql\n");
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("a\n1\na\n2\na\n3\n", ""));
    let output = place.script(&[], ".read endless.sql\n");
    assert_eq!(
        (stderr(&output).as_str(), output.status.code()),
        ("Error: files read each other more than 16 deep\n", Some(1))
    );
    let output = place.script(&[], ".read none.sql\n");
    assert_eq!(stderr(&output), "Error: cannot read none.sql: No such file or directory (os error 2)\n");
}

#[test]
fn errors_end_a_script_as_it_was_set() {
    let place = Place::new();
    let outcome = |script: &str| {
        let output = place.script(&["-csv"], script);
        (
            stdout(&output),
            stderr(&output).lines().filter(|line| line.starts_with("Error")).count(),
            output.status.code(),
        )
    };
    let script = "SELECT nothing;\n.nothing\nSELECT 1 AS a;\n";
    assert_eq!(outcome(script), (String::new(), 1, Some(1)));
    assert_eq!(outcome(&format!(".bail on\n{script}")), (String::new(), 1, Some(1)));
    assert_eq!(outcome(&format!(".bail off\n{script}")), ("a\n1\n".to_owned(), 2, Some(1)));
    assert_eq!(outcome(".nothing\nSELECT 1 AS a;\n"), ("a\n1\n".to_owned(), 1, Some(1)));
}

#[test]
fn the_system_is_at_hand() {
    let place = Place::new();
    std::fs::create_dir(place.path("below")).unwrap();
    std::fs::write(place.path("below/t.csv"), "a\n5\n").unwrap();
    let output = place.script(&["-csv"], ".cd below\nSELECT a FROM 't.csv';\n.shell cat t.csv | tr 5 6\n.system echo \"a  b\";\n.print a 'b  c' \"d\\te\"\n");
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("a\n5\na\n6\na  b\na b  c d\te\n", ""));
}

#[test]
fn the_shell_is_left_with_a_code() {
    let place = Place::new();
    for (script, code) in [
        ("exit\nSELECT 1;", 0),
        ("QUIT;\nSELECT 1;", 0),
        (".quit\nSELECT 1;", 0),
        (".exit 7\nSELECT 1;", 7),
        (".q 8\nSELECT 1;", 8),
    ] {
        let output = place.script(&[], script);
        assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(code)), "{script}");
    }
}

#[test]
fn statements_are_echoed_and_counted() {
    answers(".echo on\nSELECT 1\nAS a;\n.print x\n.echo off", "SELECT 1\nAS a;\na\n1\n.print x\nx\n.echo off\n");
    answers(
        "CREATE TABLE t (a INTEGER);\n.changes on\nINSERT INTO t VALUES (1), (2);\nDELETE FROM t WHERE a = 1;\n.changes off\nSELECT * FROM t;",
        "changes: 2   total_changes: 2\nchanges: 1   total_changes: 3\na\n2\n",
    );
}

#[test]
fn time_and_statistics_are_switched() {
    let place = Place::new();
    let output = place.script(
        &["-csv"],
        ".timer on\nSELECT 1 AS a;\n.timer off\n.stats on\nSELECT 2 AS a;\n.stats off\nSELECT 3 AS a;\n",
    );
    let text = stderr(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("Run time: ") && lines[1].starts_with("{\"elapsed_s\""), "{text}");
}

#[test]
fn settings_are_shown() {
    let place = Place::new();
    let script = ".mode list\n.headers off\n.nullvalue -\n.width 3 4\n.changes on\n.progress off\nSET threads = 3;\n.changes off\n.show\n";
    let text = stdout(&place.script(&["-readonly"], script));
    let (changes, text) = text.split_once('\n').unwrap();
    assert_eq!(changes, "changes: 0   total_changes: 0");
    let expected = "            mode: list
         headers: off
       nullvalue: \"-\"
       separator: \"|\" \"\\n\"
           width: 3 4
         maxrows: 40
        maxwidth: 0
          output: stdout
            bail: at statements
         changes: off
            echo: off
           pager: off
        progress: off
        readonly: on
           stats: off
           timer: off
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("         threads: 3\n") && text.contains("    memory_limit: "), "{text}");
}

#[test]
fn memory_is_shown() {
    let place = Place::new();
    let text = stdout(&place.script(
        &["--memory-limit", "300MiB"],
        "CREATE TABLE t AS SELECT i FROM range(100000) r(i);\n.memory\n.version\n",
    ));
    for name in [
        "limit: 300.0 MiB",
        "process: ",
        "pool: ",
        "pool at most: ",
        "spilled: 0 B",
        "read back: 0 B",
        "temporary files: 0 B",
    ] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
    assert!(text.ends_with(&format!("ogee {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
}

#[test]
fn a_database_is_left_behind() {
    answers("CREATE TABLE t (a INTEGER);\n.open\n.tables\n.open :memory:\nSELECT 1 AS a;", "a\n1\n");
}

#[cfg(unix)]
#[test]
fn copies_leave_links_and_devices_where_they_are() {
    let place = Place::new();
    std::fs::write(place.path("real.csv"), "old\n").unwrap();
    std::os::unix::fs::symlink("real.csv", place.path("link.csv")).unwrap();
    let device = std::fs::symlink_metadata("/dev/stdout").map(|found| found.file_type());
    let script = "SELECT 1 AS a;\nCOPY (SELECT 2 AS b) TO '/dev/stdout' (FORMAT csv);\nSELECT 3 AS c;\nCOPY (SELECT 4 AS d) TO 'link.csv';\n";
    let output = place.script(&["-csv"], script);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("a\n1\nb\n2\nc\n3\n", ""));
    assert!(place.path("link.csv").is_symlink());
    assert_eq!(std::fs::read_to_string(place.path("real.csv")).unwrap(), "d\n4\n");
    // Into a file, too, whose text before it stays.
    let file = std::fs::File::create(place.path("out.txt")).unwrap();
    let mut command =
        place.command(&["-csv", "-c", "SELECT 1 AS a", "-c", "COPY (SELECT 2 AS b) TO '/dev/stdout' (FORMAT csv)"]);
    assert!(command.stdout(file).status().unwrap().success());
    assert_eq!(std::fs::read_to_string(place.path("out.txt")).unwrap(), "a\n1\nb\n2\n");
    assert_eq!(std::fs::symlink_metadata("/dev/stdout").map(|found| found.file_type()).ok(), device.ok());
    assert!(
        std::fs::read_dir(place.path(".")).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains("copying"))
    );
}
