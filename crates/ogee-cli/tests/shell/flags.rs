//! The command line.

use std::process::{Command, Stdio};

use crate::place::{Place, assert_success, stderr, stdout};

#[test]
fn scripts_run_in_the_order_of_the_command_line() {
    let place = Place::new();
    std::fs::write(place.path("script.sql"), "-- a comment; with a semicolon\nSELECT 2 AS a;\nSELECT 3 AS a").unwrap();
    let output = place.run(&[
        "--format",
        "csv",
        "-c",
        "SELECT 1 AS a",
        "-f",
        "script.sql",
        "-c",
        "SELECT 4 AS a; SELECT 5 AS a",
    ]);
    assert_success(&output);
    assert_eq!(stdout(&output), "a\n1\na\n2\na\n3\na\n4\na\n5\n");
}

#[test]
fn output_goes_to_a_file() {
    let place = Place::new();
    let output = place.run(&["--format", "csv", "-o", "out.csv", "-c", "SELECT 7 AS a"]);
    assert_success(&output);
    assert!(output.stdout.is_empty());
    assert_eq!(std::fs::read_to_string(place.path("out.csv")).unwrap(), "a\n7\n");
}

#[test]
fn the_timer_reports_every_statement() {
    let place = Place::new();
    let output = place.run(&["--timer", "-c", "SELECT 1; SELECT 2"]);
    assert_success(&output);
    assert_eq!(stderr(&output).lines().filter(|line| line.starts_with("Run time: ")).count(), 2);
}

#[test]
fn wrong_usage_has_code_2() {
    let place = Place::new();
    for arguments in [
        &["--no-such-flag"][..],
        &["--format", "xml"],
        &["file.db"],
        &["--threads", "0", "-c", "SELECT 1"],
        &["--memory-limit", "plenty", "-c", "SELECT 1"],
        &["-o", "no/such/directory/file", "-c", "SELECT 1"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogee"));
        let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
    }
    assert_success(&place.run(&[":memory:", "-c", "SELECT 1"]));
}

#[test]
fn modes_are_flags_with_one_dash_or_two() {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let output = place.run(&[arguments, &["-c", "SELECT 1 AS a, NULL AS b"]].concat());
        assert_success(&output);
        stdout(&output)
    };
    assert_eq!(run(&["-csv"]), "a,b\n1,\n");
    assert_eq!(run(&["--csv"]), "a,b\n1,\n");
    assert_eq!(run(&["-json"]), "[{\"a\":1,\"b\":null}]\n");
    assert_eq!(run(&["-csv", "-jsonlines"]), "{\"a\":1,\"b\":null}\n");
    assert_eq!(run(&["-line"]), "a = 1\nb = NULL\n");
    assert_eq!(run(&["-list", "-separator", "\\t", "-nullvalue", "-"]), "a\tb\n1\t-\n");
    assert_eq!(run(&["-tabs", "-noheader", "-newline", "!\\n"]), "1\tNULL!\n");
    assert_eq!(run(&["-noheader", "-header", "-markdown"]), "| a | b |\n|---:|---|\n| 1 | NULL |\n");
    assert_eq!(run(&["-html"]), "<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n<tr>\n<td>1</td>\n<td>NULL</td>\n</tr>\n");
    assert_eq!(run(&["-quote"]), "'a','b'\n1,NULL\n");
    assert_eq!(run(&["-column"]), "a  b\n-  ----\n1  NULL\n");
    assert_eq!(run(&["-table"]), "+---+------+\n| a | b    |\n+---+------+\n| 1 | NULL |\n+---+------+\n");
    assert_eq!(run(&["-box"]), "┌───┬──────┐\n│ a │ b    │\n├───┼──────┤\n│ 1 │ NULL │\n└───┴──────┘\n");
    assert_eq!(run(&["-trash"]), "");
    assert_eq!(run(&["-format", "csv", "--mode=list"]), "a|b\n1|NULL\n");
    assert!(run(&[]).starts_with("┌───────┬────────┐\n│   a   │   b    │\n"), "{}", run(&[]));
}

#[test]
fn a_shell_for_reading_changes_nothing() {
    let place = Place::new();
    let refused = |sql: &str| {
        let output = place.run(&["-csv", "-readonly", "-c", sql]);
        assert_eq!(output.status.code(), Some(1), "{sql}");
        assert_eq!(
            stderr(&output),
            "Error: the shell was started with -readonly, and this statement changes something\n",
            "{sql}"
        );
    };
    refused("CREATE TABLE t (a INTEGER)");
    refused("SELECT 1; COPY (SELECT 1) TO 'x.csv'");
    refused("EXPLAIN ANALYZE COPY (SELECT 1) TO 'x.csv'");
    refused("PREPARE p AS INSERT INTO t VALUES (1)");
    assert!(!place.path("x.csv").exists());
    let output = place.run(&["-csv", "-readonly", "-c", "SELEC 1"]);
    assert!(
        stderr(&output).starts_with("Error [OGEE_Q001]") && stderr(&output).contains("LINE 1: SELEC 1"),
        "{output:?}"
    );
    let output = place.run(&["-csv", "-readonly", "-c", "SET threads = 1; SELECT 1 AS a"]);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("a\n1\n", ""));
    // A file that a session begins with may prepare it.
    std::fs::write(place.path("init.sql"), "CREATE TABLE t AS SELECT 4 AS a;").unwrap();
    let output = place.run(&["-csv", "-readonly", "-init", "init.sql", "-c", "SELECT a FROM t"]);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("a\n4\n", ""));
}

#[test]
fn a_session_begins_with_a_file() {
    let place = Place::new();
    std::fs::write(place.path(".ogeerc"), ".mode csv\nCREATE TABLE t AS SELECT 1 AS a;\n").unwrap();
    let output = place.run(&["-c", "SELECT a FROM t"]);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("a\n1\n", ""));
    // The command line comes after it.
    assert_eq!(stdout(&place.run(&["-list", "-noheader", "-c", "SELECT a, a FROM t"])), "1|1\n");
    assert_eq!(place.run(&["-no-init", "-c", "SELECT a FROM t"]).status.code(), Some(1));
    // Another file in its place.
    std::fs::write(place.path("other"), ".mode list\nCREATE TABLE u AS SELECT 2 AS a;\n").unwrap();
    assert_eq!(stdout(&place.run(&["-init", "other", "-c", "SELECT a FROM u"])), "a\n2\n");
    // An error says where it is, and what follows it is left out.
    std::fs::write(place.path(".ogeerc"), ".mode csv\n\nSELECT\nnothing;\n.mode json\n").unwrap();
    let output = place.run(&["-c", "SELECT 1 AS a"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("a\n1\n", Some(0)));
    assert!(stderr(&output).contains("/.ogeerc:4: Error [OGEE_"), "{}", stderr(&output));
    let output = place.run(&["-bail", "-c", "SELECT 1 AS a"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(1)));
    let output = place.run(&["-init", "none", "-c", "SELECT 1 AS a"]);
    assert!(stderr(&output).starts_with("Error: cannot read none: "), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn statements_come_before_and_behind() {
    let place = Place::new();
    std::fs::write(place.path("one.sql"), "SELECT 1 AS a").unwrap();
    std::fs::write(place.path("two.sql"), "SELECT 2 AS a").unwrap();
    let output = place.run(&["-csv", "-f", "one.sql", "-file", "two.sql", "-cmd", "SELECT 0 AS a"]);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("a\n0\na\n1\na\n2\n", ""));
    // Statements of -cmd are followed by standard input.
    assert_eq!(stdout(&place.script(&["-csv", "-batch", "-cmd", ".headers off"], "SELECT 3 AS a")), "3\n");
    assert_eq!(stdout(&place.run(&["-csv", "-echo", "-c", "SELECT 4 AS a;"])), "SELECT 4 AS a;\na\n4\n");
}
