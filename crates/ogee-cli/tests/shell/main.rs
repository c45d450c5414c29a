//! The shell from outside: formats, exit codes, statistics, errors, signals. Every test has a directory of its own, and the one
//! for spilled state must be empty after it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod commands;
mod flags;
mod modes;
mod place;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use place::{Place, assert_query_error, assert_success, stderr, stdout};
use serde_json::Value;

#[test]
fn statistics_are_one_line_of_json_per_statement() {
    let place = Place::new();
    place.parquet("t.parquet", 5000);
    let sql = "SELECT k, count(*) FROM 't.parquet' GROUP BY k; SELECT 1";
    let output = place.run(&["--stats", "--memory-limit", "700MB", "-c", sql]);
    assert_success(&output);
    let text = stderr(&output);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    let keys = [
        "elapsed_s",
        "rows",
        "threads",
        "memory_limit_bytes",
        "peak_pool_bytes",
        "peak_rss_bytes",
        "spilled_bytes",
        "temp_written_bytes",
        "temp_cached_bytes",
        "temp_peak_bytes",
        "strategies",
    ];
    for line in &lines {
        let mut found: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = keys.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
    assert_eq!(lines[0]["rows"], 10);
    assert_eq!(lines[1]["rows"], 1);
    assert_eq!(lines[0]["threads"], 2);
    assert_eq!(lines[0]["memory_limit_bytes"], 700_000_000);
    assert_eq!(lines[0]["spilled_bytes"], 0);
    assert!(lines[0]["elapsed_s"].as_f64().unwrap() > 0.0);
    assert!(lines[0]["peak_rss_bytes"].as_u64().unwrap() > 1_000_000);
    assert!(!lines[0]["strategies"].as_array().unwrap().is_empty());
}

#[test]
fn errors_in_sql_have_code_1_and_end_the_script() {
    let place = Place::new();
    for (sql, words) in [
        ("SELEC 1", &["SELEC"][..]),
        ("SELECT nothing FROM (SELECT 1 AS something)", &["nothing", "something"]),
        ("SELECT * FROM no_such_table", &["no_such_table"]),
        ("SELECT * FROM 'no_such_file.parquet'", &["no_such_file.parquet"]),
        ("SELECT 9223372036854775807 + i FROM generate_series(1, 2) AS g(i)", &["overflow"]),
    ] {
        let output = place.run(&["-c", &format!("{sql}; SELECT 'not reached' AS a")]);
        assert_query_error(&output, words);
        assert!(!stdout(&output).contains("not reached"));
    }
    let output = place.run(&["-f", "no_such_script.sql"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no_such_script.sql"));
}

#[test]
fn a_truncated_parquet_file_is_an_error_that_names_it() {
    let place = Place::new();
    place.parquet("whole.parquet", 20_000);
    let length = std::fs::metadata(place.path("whole.parquet")).unwrap().len();
    // Without its footer, and with a footer but without the middle.
    std::fs::copy(place.path("whole.parquet"), place.path("headless.parquet")).unwrap();
    OpenOptions::new().write(true).open(place.path("headless.parquet")).unwrap().set_len(length / 2).unwrap();
    let bytes = std::fs::read(place.path("whole.parquet")).unwrap();
    let mut torn = bytes[..1000].to_vec();
    torn.extend_from_slice(&bytes[bytes.len() - 3000..]);
    std::fs::write(place.path("torn.parquet"), torn).unwrap();
    for name in ["headless.parquet", "torn.parquet"] {
        let output = place.run(&["-c", &format!("SELECT t, count(*) FROM '{name}' GROUP BY t")]);
        assert_query_error(&output, &[name]);
    }
}

/// A grouping whose state is well above what a limit of 100 MB leaves.
const LARGE: &str =
    "SELECT count(*), max(n), min(t) FROM (SELECT t, i, count(*) AS n FROM 'large.parquet' GROUP BY t, i)";
const LARGE_ROWS: usize = 1_500_000;

#[test]
fn what_does_not_fit_is_spilled() {
    let place = Place::new();
    place.parquet("large.parquet", LARGE_ROWS);
    let output = place.run(&["--format", "csv", "--stats", "--memory-limit", "100MB", "-c", LARGE]);
    assert_success(&output);
    assert_eq!(stdout(&output).lines().nth(1), Some("1500000,1,\"a text of some length, number 1\""));
    let stats: Value = serde_json::from_str(stderr(&output).trim()).unwrap();
    assert!(stats["spilled_bytes"].as_u64().unwrap() > 10_000_000, "{stats}");
    assert!(stats["temp_peak_bytes"].as_u64().unwrap() > 10_000_000, "{stats}");
    let excess = stats["peak_rss_bytes"].as_i64().unwrap() - 100_000_000;
    assert!(excess < 64 << 20, "{excess} bytes beyond the limit");

    // The same with too little temporary space, and with none that can be had.
    let output = place.run(&["--memory-limit", "100MB", "--max-temp-size", "2MB", "-c", LARGE]);
    assert_query_error(&output, &["temp"]);
    std::fs::write(place.path("file"), "in the way").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogee"));
    command.current_dir(place.directory.path()).args(["--memory-limit", "100MB", "--temp-directory", "file/below"]);
    let output = command.args(["-c", LARGE]).stdin(Stdio::null()).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("file/below"), "{}", stderr(&output));

    // After such an error the handle is usable.
    let script = format!("{LARGE};\n");
    let mut child = place
        .command(&["--memory-limit", "100MB", "--max-temp-size", "2MB", "--format", "csv", "-f", "/dev/stdin"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert_query_error(&child.wait_with_output().unwrap(), &["temp"]);
}

/// Of numbers, and of texts that are few.
#[test]
fn wide_tables_are_grouped_within_the_limit() {
    const COLUMNS: usize = 2000;
    const ROWS: usize = 1500;
    const REPEATED: usize = 700;
    let place = Place::new();
    for (name, groups) in [("numbers.csv", ROWS), ("texts.csv", REPEATED)] {
        let value = |row: usize, column: usize| match name {
            "numbers.csv" => (row * 7919 + column).to_string(),
            _ => ["a", "few", "texts that are longer than a view"][row % REPEATED / (1 + column % 11) % 3].to_owned(),
        };
        let line = |of: &dyn Fn(usize) -> String| (0..COLUMNS).map(of).collect::<Vec<_>>().join(",") + "\n";
        let header = line(&|column| format!("c{column}"));
        let rows: String = (0..ROWS).map(|row| line(&|column| value(row, column))).collect();
        std::fs::write(place.path(name), header + &rows).unwrap();
        let sql = format!("SELECT count(*) FROM (SELECT DISTINCT * FROM '{name}')");
        let limit = ["--format", "csv", "--stats", "--memory-limit", "128MB", "-c"];
        let output = place.run(&[&limit[..], &[&sql]].concat());
        assert_success(&output);
        assert_eq!(stdout(&output).lines().nth(1).unwrap(), groups.to_string());
        let stats: Value = serde_json::from_str(stderr(&output).trim()).unwrap();
        let excess = stats["peak_rss_bytes"].as_i64().unwrap() - 128_000_000;
        assert!(excess < 64 << 20, "{name}: {excess} bytes beyond the limit");
    }
}

#[test]
fn a_limit_too_small_is_an_error_that_says_so() {
    let place = Place::new();
    place.parquet("t.parquet", 100_000);
    let output = place.run(&["--memory-limit", "1MB", "-c", "SELECT t, count(*) FROM 't.parquet' GROUP BY t"]);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{:?}", output.status);
    assert!(stderr(&output).contains("memory") && stderr(&output).starts_with("Error [OGEE_"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_leaves_ends_the_shell_quietly() {
    let place = Place::new();
    let mut child = place
        .command(&["--format", "csv", "-c", "SELECT i FROM generate_series(1, 100000000) AS g(i)"])
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "i\n");
    drop(reader);
    let (status, text) = wait(child, Duration::from_secs(30));
    assert_eq!((status, text.as_str()), (Some(0), ""));
}

fn wait(mut child: Child, patience: Duration) -> (Option<i32>, String) {
    let until = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("the shell did not end within {patience:?}");
        }
        thread::sleep(Duration::from_millis(10));
    };
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (status.code(), text)
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

/// Starts a query that never ends, waits until it has surely begun to spill, and sends a signal.
fn interrupt(place: &Place, name: &str) -> (Option<i32>, Duration) {
    let sql = "SELECT count(*) FROM (SELECT i, count(*) FROM generate_series(1, 100000000000) AS g(i) GROUP BY i)";
    let child = place.command(&["--memory-limit", "128MB", "-c", sql]).spawn().unwrap();
    thread::sleep(Duration::from_millis(2500));
    let sent = Instant::now();
    signal(&child, name);
    let (code, text) = wait(child, Duration::from_secs(20));
    assert_eq!(text, "Interrupted\n");
    place.assert_nothing_left();
    (code, sent.elapsed())
}

#[test]
fn signals_cancel_the_statement_and_leave_nothing() {
    let place = Place::new();
    let (code, took) = interrupt(&place, "-INT");
    assert_eq!(code, Some(130));
    assert!(took < Duration::from_secs(4), "it took {took:?}");
    assert_eq!(interrupt(&place, "-TERM").0, Some(143));
}

#[test]
fn data_for_the_demonstration_is_lineitem() {
    let place = Place::new();
    let output = Command::new(env!("CARGO_BIN_EXE_ogee"))
        .args(["demo-data", "--scale", "0.001", "--out"])
        .arg(place.path("data"))
        .output()
        .unwrap();
    assert_success(&output);
    let output = place.run(&[
        "--format",
        "csv",
        "-c",
        "SELECT count(*), count(DISTINCT l_orderkey), sum(l_quantity) FROM 'data/*.parquet'",
    ]);
    assert_success(&output);
    // TPC-H at scale factor 0.001 has 1,500 orders; the other two are what DuckDB finds in the files.
    assert_eq!(stdout(&output).lines().nth(1), Some("6005,1500,152398.00"));
    assert!(!Path::new(&place.path("data").join("lineitem-1.part")).exists());
}

impl Place {
    /// Runs the shell with what `limit`, a command of POSIX shells, leaves it.
    fn limited(&self, limit: &str, arguments: &[&str]) -> Output {
        let shell = self.command(arguments);
        let mut command = Command::new("sh");
        command.current_dir(self.directory.path()).args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")]);
        command.arg(shell.get_program()).args(shell.get_args()).stdin(Stdio::null());
        let output = command.output().unwrap();
        self.assert_nothing_left();
        output
    }
}

#[test]
#[cfg(target_os = "linux")]
fn little_address_space_is_an_error() {
    let place = Place::new();
    let sql = "SELECT count(*), sum(i) FROM range(1000000) AS t(i)";
    for kib in [600_000, 800_000, 1_200_000, 1_600_000, 2_000_000, 4_000_000] {
        for limit in [&["--memory-limit", "64MB"][..], &[]] {
            let output = place.limited(&format!("ulimit -v {kib}"), &[limit, &["-c", sql]].concat());
            // 2 is the code of a handle that cannot be opened.
            let is_refused = output.status.code() == Some(2) && stderr(&output).contains("(ulimit -v");
            assert!(output.status.success() || is_refused && kib < 4_000_000, "{kib} KiB, {limit:?}: {output:?}");
        }
    }
    let more = place.limited("ulimit -v 4000000", &["--memory-limit", "64MB", "-c", "SET memory_limit = '16GB'"]);
    assert_query_error(&more, &["OGEE_M009", "14.9 GiB", "Raise that limit"]);
}

#[test]
fn a_largest_size_of_files_is_an_error() {
    let place = Place::new();
    place.parquet("rows.parquet", 800_000);
    // Blocks of 512 bytes, or of 1024.
    let limit = "ulimit -f 4000";
    let copy = place.limited(limit, &["-c", "COPY (SELECT * FROM 'rows.parquet') TO 'rows.csv'"]);
    assert_query_error(&copy, &["File too large"]);
    assert!(!place.path("rows.csv").exists());
    let sort =
        "SELECT sum(length(t) * r) FROM (SELECT t, row_number() OVER (ORDER BY t DESC) AS r FROM 'rows.parquet')";
    let spilled = place.limited(limit, &["--memory-limit", "48MB", "-c", sort]);
    assert_query_error(&spilled, &["OGEE_M010", "ulimit -f", "memory_limit"]);
    assert_success(&place.limited("ulimit -f unlimited", &["--memory-limit", "48MB", "-c", sort]));
}
