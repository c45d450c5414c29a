//! What the tests share: a directory of its own for each, and the shell in it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory of a test.
pub struct Place {
    pub directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("spill")).unwrap();
        Self { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ogee"));
        command.current_dir(self.directory.path()).args(arguments).args([
            "--temp-directory",
            "spill",
            "--threads",
            "2",
        ]);
        // Nobody's settings.
        command.env("HOME", self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        self.assert_nothing_left();
        output
    }

    /// What the shell answers to a script on standard input.
    pub fn script(&self, arguments: &[&str], script: &str) -> Output {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        self.assert_nothing_left();
        output
    }

    pub fn assert_nothing_left(&self) {
        let left: Vec<_> = std::fs::read_dir(self.path("spill")).unwrap().collect();
        assert!(left.is_empty(), "left in the temporary directory: {left:?}");
    }

    /// A Parquet file of `rows` rows with a text column.
    pub fn parquet(&self, name: &str, rows: usize) {
        let sql = format!(
            "COPY (SELECT i, i % 10 AS k, 'a text of some length, number ' || CAST(i AS VARCHAR) AS t \
             FROM generate_series(1, {rows}) AS g(i)) TO '{name}'"
        );
        assert_success(&self.run(&["-c", &sql]));
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
pub fn assert_success(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
}

/// The statement fails with code 1 and a message of one line that has a stable code and all of `words`.
#[track_caller]
pub fn assert_query_error(output: &Output, words: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("Error [OGEE_"), "no code: {message}");
    for word in words {
        assert!(message.to_lowercase().contains(&word.to_lowercase()), "{word:?} is not in: {message}");
    }
}
