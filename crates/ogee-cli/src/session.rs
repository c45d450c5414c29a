//! One connection with the settings of the shell around it: runs statements, writes results, reports.
//!
//! Not here: where statements come from (`script`, `interactive`), and the commands that start with a dot (`dot`).

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_schema::{DataType, SchemaRef};
use ogee::{Config, Connection, Database, QueryResult, StatementStats};
use ogee_functions::times::Zone;
use serde_json::Value;

use crate::args::Limits;
use crate::errors::RunError;
use crate::output::{self, Mode, Sink, Style};
use crate::pager::{self, Pager};
use crate::progress::ProgressLine;
use crate::signals::Interrupts;
use crate::splitter::Piece;
use crate::terminal;

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

/// What of an error ends a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bail {
    /// An error of a statement does, one of a command does not.
    #[default]
    Statements,
    /// Every error does.
    On,
    /// None does.
    Off,
}

impl Bail {
    /// Whether `error` ends the script.
    pub fn ends(self, error: &RunError) -> bool {
        match error {
            RunError::Failed(_) => self != Self::Off,
            RunError::Command(_) => self == Self::On,
            RunError::Interrupted(_) | RunError::Closed | RunError::Quit(_) => true,
        }
    }
}

/// What the shell does around statements.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Whether the time of each statement is printed.
    pub timer: bool,
    /// Whether a line of JSON about each statement is printed.
    pub stats: bool,
    /// Whether statements and commands are printed before they run.
    pub echo: bool,
    pub bail: Bail,
    /// Whether the rows that a statement changed are counted.
    pub changes: bool,
    /// The command that shows tall results, if one shall.
    pub pager: Option<String>,
    /// Whether a long statement shows how far it is.
    pub progress: bool,
    /// Whether statements that change something are refused.
    pub read_only: bool,
    /// Whether a person types.
    pub interactive: bool,
    /// Most characters of a line of a duckbox; 0 is the width of the terminal.
    pub width_max: usize,
}

/// See the module.
pub struct Session {
    pub limits: Limits,
    pub database: Database,
    pub connection: Arc<Connection>,
    pub interrupts: Interrupts,
    pub sink: Sink,
    /// Where the next result goes, in place of `sink`.
    pub once: Option<Sink>,
    pub style: Style,
    pub settings: Settings,
    /// Rows changed by all statements.
    pub changes_total: u64,
    /// Whether there was an error that did not end the script.
    pub has_failed: bool,
    /// Files that read each other at the moment.
    pub read_depth: usize,
}

impl Session {
    /// A session over a database in memory.
    pub fn new(limits: &Limits, interrupts: Interrupts, sink: Sink) -> Result<Self, ogee::Error> {
        let database = open(limits)?;
        let connection = Arc::new(database.connect());
        Ok(Self {
            limits: limits.clone(),
            database,
            connection,
            interrupts,
            sink,
            once: None,
            style: Style::of(Mode::Duckbox),
            settings: Settings { progress: true, ..Settings::default() },
            changes_total: 0,
            has_failed: false,
            read_depth: 0,
        })
    }

    /// Starts over with an empty database.
    pub fn reopen(&mut self) -> Result<(), RunError> {
        self.database = open(&self.limits)?;
        self.connection = Arc::new(self.database.connect());
        Ok(())
    }

    /// Runs one piece of a script.
    pub fn run(&mut self, piece: &Piece) -> Result<(), RunError> {
        if self.settings.echo {
            writeln!(self.sink, "{piece}")?;
            self.sink.flush()?;
        }
        match piece {
            Piece::Statement(sql) => self.statement(sql),
            Piece::Command(line) => crate::dot::run(self, line),
        }
    }

    /// Prints `error` where the script goes on behind it; gives it back where it does not.
    pub fn report(&mut self, error: RunError) -> Result<(), RunError> {
        if self.settings.bail.ends(&error) {
            return Err(error);
        }
        self.sink.flush()?;
        eprintln!("{error}");
        self.has_failed = true;
        Ok(())
    }

    /// Runs one statement and writes its result.
    pub fn statement(&mut self, sql: &str) -> Result<(), RunError> {
        // What is no SQL says so when it is run.
        if self.settings.read_only && matches!(ogee::only_reads(sql), Ok(false)) {
            return Err(RunError::Failed(
                "Error: the shell was started with -readonly, and this statement changes something".to_owned(),
            ));
        }
        let started = Instant::now();
        let handle = self.connection.interrupt_handle();
        self.interrupts.attach(move || handle.interrupt());
        let once = self.once.take();
        let result = match once {
            Some(mut sink) => self.results(sql, &mut sink).and_then(|stats| {
                sink.flush()?;
                Ok(stats)
            }),
            None => {
                let mut sink = std::mem::replace(&mut self.sink, Sink::stdout());
                let result = self.results(sql, &mut sink);
                self.sink = sink;
                result
            }
        };
        self.interrupts.detach();
        let flushed = self.sink.flush();
        if let Some(signal) = self.interrupts.take() {
            return Err(RunError::Interrupted(signal));
        }
        let (stats, changed) = result?;
        flushed?;
        if let Some(changed) = changed {
            self.changes_total += changed;
        }
        if self.settings.changes {
            writeln!(self.sink, "changes: {}   total_changes: {}", changed.unwrap_or(0), self.changes_total)?;
            self.sink.flush()?;
        }
        if self.settings.timer {
            eprintln!("Run time: {:.3} s", started.elapsed().as_secs_f64());
        }
        if self.settings.stats {
            eprintln!("{}", stats_line(&stats));
        }
        Ok(())
    }

    /// Writes the result of `sql` to `sink`; gives what it took, and how many rows it changed.
    fn results(&mut self, sql: &str, sink: &mut Sink) -> Result<(StatementStats, Option<u64>), RunError> {
        let shows_progress = self.settings.interactive && self.settings.progress && io::stderr().is_terminal();
        let limit = self.database.memory_stats().limit;
        let progress = shows_progress.then(|| ProgressLine::start(self.connection.progress_handle(), limit));
        let mut result = self.connection.execute(sql)?;
        let schema = result.schema();
        // DDL has no columns, and nothing to say.
        if schema.fields().is_empty() {
            for batch in &mut result {
                batch?;
            }
            return Ok((result.stats(), result.affected_rows()));
        }
        let style = self.style_for(sink, &schema)?;
        let rows = Rows { result: &mut result, schema, is_terminal: sink.is_terminal(), progress };
        match self.settings.pager.clone().filter(|_| self.settings.interactive && sink.is_terminal()) {
            None => rows.write(style, sink)?,
            Some(command) => {
                let mut pager = Pager::new(sink, command);
                let written = rows.write(style, &mut pager);
                // From here on signals are the pager's.
                self.interrupts.ignore();
                let finished = pager.finish();
                match written {
                    // Whoever leaves the pager has seen enough.
                    Err(RunError::Closed) => {}
                    written => written.and(finished.map_err(RunError::from))?,
                }
            }
        }
        Ok((result.stats(), result.affected_rows()))
    }

    /// The style of a result of these columns that goes to `sink`.
    fn style_for(&self, sink: &Sink, schema: &SchemaRef) -> Result<Style, RunError> {
        let terminal = || terminal::size().filter(|_| sink.is_terminal()).map(|(_, columns)| columns);
        let width = match self.settings.width_max {
            0 => terminal(),
            width => Some(width),
        };
        let zone = match schema.fields().iter().any(|field| has_instants(field.data_type())) {
            true => self.zone()?,
            false => Zone::UTC,
        };
        Ok(Style { width, zone, ..self.style.clone() })
    }

    /// The zone that the session shows instants in.
    fn zone(&self) -> Result<Zone, RunError> {
        let names = self.texts("SHOW timezone")?;
        let name = names.into_iter().flatten().last().flatten();
        Ok(name.and_then(|name| Zone::named(&name).ok()).unwrap_or(Zone::UTC))
    }

    /// The rows of `sql`, which are few, as texts.
    pub fn texts(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, RunError> {
        texts(&self.connection, sql)
    }

    /// The command that shows pages, as `.pager on` sets it.
    pub fn default_pager() -> String {
        pager::command()
    }
}

/// The rows of `sql`, which are few, as texts.
pub fn texts(connection: &Connection, sql: &str) -> Result<Vec<Vec<Option<String>>>, RunError> {
    let mut rows = Vec::new();
    for batch in connection.execute(sql)? {
        let batch = batch?;
        let columns: Result<Vec<_>, _> =
            batch.columns().iter().map(|column| arrow_cast::cast(column, &DataType::Utf8View)).collect();
        let columns = columns.map_err(|error| RunError::Failed(format!("Error: {error}")))?;
        let columns: Vec<_> = columns.iter().map(|column| column.as_string_view().iter().collect::<Vec<_>>()).collect();
        let row = |row: usize| columns.iter().map(|column| column[row].map(str::to_owned)).collect();
        rows.extend((0..batch.num_rows()).map(row));
    }
    Ok(rows)
}

/// Whether values of the type are shown as the zone of the session has it.
fn has_instants(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, Some(_)) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_instants(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_instants(field.data_type())),
        _ => false,
    }
}

/// Rows of a statement on their way.
struct Rows<'a> {
    result: &'a mut QueryResult,
    schema: SchemaRef,
    is_terminal: bool,
    progress: Option<ProgressLine>,
}

impl Rows<'_> {
    /// Writes them. The line of progress is gone before anything is written to its terminal, which begins when there is something to write.
    fn write(mut self, style: Style, out: &mut dyn Write) -> Result<(), RunError> {
        // A table is drawn at its end.
        let waits = style.mode == Mode::Duckbox || style.mode == Mode::Trash;
        let mut writer = output::writer(style);
        let mut has_begun = false;
        for batch in &mut *self.result {
            let batch = batch?;
            if self.is_terminal && !waits {
                self.progress = None;
            }
            if !std::mem::replace(&mut has_begun, true) {
                writer.begin(&self.schema, out)?;
            }
            writer.batch(&batch, out)?;
        }
        self.progress = None;
        if !has_begun {
            writer.begin(&self.schema, out)?;
        }
        writer.end(out)?;
        Ok(())
    }
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
