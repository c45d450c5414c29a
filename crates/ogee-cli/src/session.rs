//! One connection with the settings of the shell around it: runs statements, writes results, reports.
//!
//! Not here: where statements come from (`main`, `interactive`), and the commands that start with a dot (`commands`).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Instant;

use ogee::{Config, Connection, Database, StatementStats};
use serde_json::Value;

use crate::args::{Limits, ShellArgs};
use crate::output::{self, Sink, Style};
use crate::signals::{self, Interrupts};
use crate::splitter::{Piece, Splitter};

/// Rows that a table shows unless `.maxrows` says otherwise.
pub const TABLE_ROWS_MAX: usize = 40;
/// Files may `.read` each other this deep.
const READ_DEPTH_MAX: usize = 16;

/// Why running stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A statement or a command failed; the message says all.
    #[error("{0}")]
    Failed(String),
    /// A signal arrived.
    #[error("interrupted")]
    Interrupted(i32),
    /// Whoever read the results has gone.
    #[error("the output was closed")]
    Closed,
    /// `.quit`
    #[error("quit")]
    Quit,
}

impl RunError {
    /// The exit code of a shell that ends because of this.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Failed(_) => 1,
            Self::Interrupted(signal) => signals::exit_code(*signal),
            Self::Closed | Self::Quit => 0,
        }
    }
}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::Closed
        } else {
            Self::Failed(format!("Error: cannot write results: {error}"))
        }
    }
}

impl From<ogee::Error> for RunError {
    fn from(error: ogee::Error) -> Self {
        Self::Failed(format!("Error [{}]: {error}", error.code()))
    }
}

/// A handle with the limits that the command line asks for.
pub fn open(limits: &Limits) -> Result<Database, ogee::Error> {
    let mut config = Config::default().release_memory(crate::allocator::release);
    if let Some(size) = &limits.memory_limit {
        let limit = ogee::parse_memory_limit(size)?;
        crate::allocator::fit_to_limit(limit);
        config = config.memory_limit(limit);
    }
    if let Some(size) = &limits.max_temp_size {
        config = config.max_temp_size(ogee::parse_size(size)?);
    }
    if let Some(threads) = limits.threads {
        config = config.threads(threads as usize);
    }
    if let Some(directory) = &limits.temp_directory {
        config = config.temp_directory(directory.clone());
    }
    Database::open_in_memory(config)
}

/// See the module.
pub struct Session {
    limits: Limits,
    database: Database,
    connection: Connection,
    interrupts: Interrupts,
    pub sink: Sink,
    pub style: Style,
    pub timer: bool,
    pub stats: bool,
    read_depth: usize,
}

impl Session {
    /// A session over a database in memory, with the settings of the command line.
    pub fn new(args: &ShellArgs, interrupts: Interrupts, sink: Sink) -> Result<Self, ogee::Error> {
        let database = open(&args.limits)?;
        let connection = database.connect();
        Ok(Self {
            limits: args.limits.clone(),
            database,
            connection,
            interrupts,
            sink,
            style: Style { format: args.format, rows_max: TABLE_ROWS_MAX, width: None },
            timer: args.timer,
            stats: args.stats,
            read_depth: 0,
        })
    }

    /// Starts over with an empty database.
    pub fn reopen(&mut self) -> Result<(), RunError> {
        self.database = open(&self.limits)?;
        self.connection = self.database.connect();
        Ok(())
    }

    /// Runs one piece of a script.
    pub fn run(&mut self, piece: &Piece) -> Result<(), RunError> {
        match piece {
            Piece::Statement(sql) => self.statement(sql),
            Piece::Command(line) => crate::commands::run(self, line),
        }
    }

    /// Runs all of a script, statement by statement as it is read, up to the first error.
    pub fn script(&mut self, text: impl Read) -> Result<(), RunError> {
        let mut reader = BufReader::new(text);
        let mut splitter = Splitter::default();
        let mut pieces = Vec::new();
        let mut line = String::new();
        loop {
            line.clear();
            let read = reader
                .read_line(&mut line)
                .map_err(|error| RunError::Failed(format!("Error: cannot read the script: {error}")))?;
            if read == 0 {
                splitter.finish(&mut pieces);
            } else {
                splitter.push_line(line.trim_end_matches(['\n', '\r']), &mut pieces);
            }
            for piece in pieces.drain(..) {
                self.run(&piece)?;
            }
            if read == 0 {
                return Ok(());
            }
        }
    }

    /// Runs a file.
    pub fn script_file(&mut self, path: &Path) -> Result<(), RunError> {
        let file = File::open(path)
            .map_err(|error| RunError::Failed(format!("Error: cannot read {}: {error}", path.display())))?;
        if self.read_depth == READ_DEPTH_MAX {
            return Err(RunError::Failed(format!("Error: files read each other more than {READ_DEPTH_MAX} deep")));
        }
        self.read_depth += 1;
        let result = self.script(file);
        self.read_depth -= 1;
        result
    }

    /// Runs one statement and writes its result.
    pub fn statement(&mut self, sql: &str) -> Result<(), RunError> {
        let started = Instant::now();
        let handle = self.connection.interrupt_handle();
        self.interrupts.attach(move || handle.interrupt());
        let result = self.results(sql);
        self.interrupts.detach();
        let flushed = self.sink.flush();
        if let Some(signal) = self.interrupts.take() {
            return Err(RunError::Interrupted(signal));
        }
        let stats = result?;
        flushed?;
        if self.timer {
            eprintln!("Run time: {:.3} s", started.elapsed().as_secs_f64());
        }
        if self.stats {
            eprintln!("{}", stats_line(&stats));
        }
        Ok(())
    }

    fn results(&mut self, sql: &str) -> Result<StatementStats, RunError> {
        let mut result = self.connection.execute(sql)?;
        let schema = result.schema();
        // DDL has no columns, and nothing to say.
        let mut writer = (!schema.fields().is_empty()).then(|| {
            let width = self.sink.is_terminal().then(terminal_width).flatten();
            output::writer(&Style { width, ..self.style.clone() })
        });
        if let Some(writer) = &mut writer {
            writer.begin(&schema, &mut self.sink)?;
        }
        for batch in &mut result {
            let batch = batch?;
            if let Some(writer) = &mut writer {
                writer.batch(&batch, &mut self.sink)?;
            }
        }
        if let Some(writer) = &mut writer {
            writer.end(&mut self.sink)?;
        }
        Ok(result.stats())
    }
}

/// Columns of the terminal on standard output, unless it does not know or is too narrow to fold a table into.
fn terminal_width() -> Option<u16> {
    comfy_table::Table::new().width().filter(|width| *width >= 20)
}

/// The statistics of a statement as one line of JSON; its keys are an interface.
fn stats_line(stats: &StatementStats) -> String {
    let strategies = Value::from(stats.strategies.clone());
    format!(
        "{{\"elapsed_s\":{:.6},\"rows\":{},\"threads\":{},\"memory_limit_bytes\":{},\"peak_pool_bytes\":{},\
         \"peak_rss_bytes\":{},\"spilled_bytes\":{},\"temp_written_bytes\":{},\"temp_cached_bytes\":{},\
         \"temp_peak_bytes\":{},\"strategies\":{strategies}}}",
        stats.elapsed.as_secs_f64(),
        stats.rows,
        stats.threads,
        stats.memory_limit_bytes,
        stats.peak_pool_bytes,
        stats.peak_rss_bytes,
        stats.spilled_bytes,
        stats.temp_written_bytes,
        stats.temp_cached_bytes,
        stats.temp_peak_bytes,
    )
}
