//! The commands that start with a dot.
//!
//! Not here: SQL; what a command wants to know it asks through `information_schema` like everybody else.

use std::io::Write;
use std::path::Path;

use clap::ValueEnum;

use crate::args::Format;
use crate::output::Sink;
use crate::session::{RunError, Session};

const HELP: &str = "\
.help                 This text
.maxrows [N]          Rows a table shows
.mode [FORMAT]        table, csv, ndjson, json, markdown or line
.open [:memory:]      Start over with an empty database
.output [FILE]        Write results to a file, or to standard output again
.quit                 Leave
.read FILE            Run the statements of a file
.schema [TABLE]       Columns of all tables, or of one
.show                 Settings of the shell and of the engine
.stats on|off         One line of JSON about each statement on standard error
.tables               Names of all tables and views
.timer on|off         Time of each statement on standard error
";

const TABLES: &str = "SELECT table_name AS name, table_type AS type FROM information_schema.tables \
    WHERE table_schema <> 'information_schema' ORDER BY table_name";

fn failed<T>(message: impl Into<String>) -> Result<T, RunError> {
    Err(RunError::Failed(format!("Error: {}", message.into())))
}

fn switch(command: &str, argument: Option<&str>, current: bool) -> Result<bool, RunError> {
    match argument {
        None => Ok(!current),
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => failed(format!("{command} takes on or off, not {other:?}")),
    }
}

/// Runs one command, given as its whole line.
pub fn run(session: &mut Session, line: &str) -> Result<(), RunError> {
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim().trim_end_matches(';').trim_end();
    let unquoted = [('\'', '\''), ('"', '"')]
        .iter()
        .find_map(|(open, close)| rest.strip_prefix(*open)?.strip_suffix(*close))
        .unwrap_or(rest);
    let argument = (!unquoted.is_empty()).then_some(unquoted);
    match (command, argument) {
        (".help", _) => session.sink.write_all(HELP.as_bytes())?,
        (".quit" | ".exit", _) => return Err(RunError::Quit),
        (".mode", None) => {
            let name = format_name(session.style.format);
            writeln!(session.sink, "{name}")?;
        }
        (".mode", Some(name)) => match Format::from_str(name, true) {
            Ok(format) => session.style.format = format,
            Err(_) => return failed(format!("no format {name:?}; there are table, csv, ndjson, json, markdown, line")),
        },
        (".maxrows", None) => writeln!(session.sink, "{}", session.style.rows_max)?,
        (".maxrows", Some(text)) => match text.parse::<usize>() {
            Ok(rows) if rows > 0 => session.style.rows_max = rows,
            _ => return failed(format!(".maxrows takes a number above 0, not {text:?}")),
        },
        (".timer", argument) => session.timer = switch(command, argument, session.timer)?,
        (".stats", argument) => session.stats = switch(command, argument, session.stats)?,
        (".tables", _) => session.statement(TABLES)?,
        (".schema", None) => session.statement(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns \
             WHERE table_schema <> 'information_schema' ORDER BY table_name, ordinal_position",
        )?,
        (".schema", Some(table)) => {
            let table = table.replace('\'', "''");
            session.statement(&format!(
                "SELECT column_name, data_type, is_nullable FROM information_schema.columns \
                 WHERE table_name = '{table}' AND table_schema <> 'information_schema' ORDER BY ordinal_position",
            ))?;
        }
        (".show", _) => {
            let format = format_name(session.style.format);
            let on = |value| if value { "on" } else { "off" };
            let (rows, timer, stats) = (session.style.rows_max, on(session.timer), on(session.stats));
            writeln!(session.sink, "mode: {format}\nmaxrows: {rows}\ntimer: {timer}\nstats: {stats}")?;
            for name in ["memory_limit", "threads", "temp_directory", "temp_compression", "max_temp_size"] {
                session.statement(&format!("SHOW {name}"))?;
            }
        }
        (".read", Some(file)) => return session.script_file(Path::new(file)),
        (".read", None) => return failed(".read takes a file"),
        (".output", None | Some("stdout")) => session.sink = Sink::stdout(),
        (".output", Some(file)) => match Sink::file(Path::new(file)) {
            Ok(sink) => session.sink = sink,
            Err(error) => return failed(format!("cannot write {file}: {error}")),
        },
        (".open", None | Some(":memory:")) => session.reopen()?,
        (".open", Some(_)) => return failed("database files come later; .open starts over in memory"),
        _ => return failed(format!("no command {command}; .help lists them")),
    }
    session.sink.flush()?;
    Ok(())
}

fn format_name(format: Format) -> String {
    format.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
