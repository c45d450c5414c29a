//! The commands that start with a dot: one table says what each is called, takes and does.
//!
//! Not here: SQL; what a command wants to know it asks in SQL like everybody else.

mod catalog;
mod files;
mod memory;
mod process;
mod settings;
mod words;

use std::io::Write;

use strsim::damerau_levenshtein;

pub use words::unescaped;

use crate::errors::RunError;
use crate::session::Session;

/// One command.
pub struct Command {
    /// Its name, with the dot.
    pub name: &'static str,
    /// What it takes.
    pub arguments: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    run: fn(&mut Session, &Arguments) -> Result<(), RunError>,
}

/// What follows the name of a command.
pub struct Arguments<'a> {
    command: &'a Command,
    /// As it was written.
    rest: &'a str,
    words: Vec<String>,
}

impl Arguments<'_> {
    /// The error of wrong arguments.
    fn usage(&self) -> RunError {
        RunError::command(format_args!("usage: {} {}", self.command.name, self.command.arguments))
    }

    /// The one word, if there is one.
    fn optional(&self) -> Result<Option<&str>, RunError> {
        match self.words.as_slice() {
            [] => Ok(None),
            [word] => Ok(Some(word)),
            _ => Err(self.usage()),
        }
    }

    /// The one word.
    fn single(&self) -> Result<&str, RunError> {
        self.optional()?.ok_or_else(|| self.usage())
    }

    /// That there are none.
    fn none(&self) -> Result<(), RunError> {
        if self.words.is_empty() { Ok(()) } else { Err(self.usage()) }
    }

    /// What a switch is set to; without a word to what it is not.
    fn switch(&self, current: bool) -> Result<bool, RunError> {
        match self.optional()?.map(str::to_ascii_lowercase).as_deref() {
            None => Ok(!current),
            Some("on" | "yes" | "true" | "1") => Ok(true),
            Some("off" | "no" | "false" | "0") => Ok(false),
            Some(other) => Err(RunError::command(format_args!("{} takes on or off, not {other:?}", self.command.name))),
        }
    }
}

/// All commands, in the order of the alphabet.
pub const COMMANDS: &[Command] = &[
    command(".bail", "on|off", "Stop scripts at the first error, or at none", settings::bail),
    command(".cd", "DIRECTORY", "Change the directory that files are looked for in", process::cd),
    command(".changes", "on|off", "Print how many rows each statement changed", settings::changes),
    command(".databases", "", "Names of the databases", catalog::databases),
    command(".echo", "on|off", "Print statements and commands before they run", settings::echo),
    command(".exit", "?CODE?", "Leave, with an exit code", process::exit),
    command(".headers", "on|off", "Write the names of columns", settings::headers),
    command(".help", "?COMMAND?", "This list, or one command", help),
    command(
        ".import",
        "?--csv? ?--skip N? FILE TABLE",
        "Put the rows of a file into a table, which is made if there is none",
        files::import,
    ),
    command(".maxrows", "?N?", "Most rows that a duckbox shows", settings::maxrows),
    command(
        ".maxwidth",
        "?N?",
        "Most characters of a line of a duckbox; 0 is the width of the terminal",
        settings::maxwidth,
    ),
    command(".memory", "", "The memory limit, what is held, and what was spilled", memory::memory),
    command(".mode", "?MODE? ?TABLE?", "How results are written; TABLE is that of INSERT statements", settings::mode),
    command(".nullvalue", "TEXT", "What is written for NULL", settings::nullvalue),
    command(".once", "FILE", "Write the next result to a file", files::once),
    command(".open", "?:memory:?", "Start over with an empty database", files::open),
    command(".output", "?FILE?", "Write results to a file, or to standard output again", files::output),
    command(
        ".pager",
        "?on|off|COMMAND?",
        "Show results that are taller than the screen a page at a time",
        settings::pager,
    ),
    command(".print", "TEXT...", "Write a text", process::print),
    command(".progress", "on|off", "Show how far a statement is that takes more than a second", settings::progress),
    command(".quit", "?CODE?", "Leave, with an exit code", process::exit),
    command(".read", "FILE", "Run the statements of a file; - is standard input", files::read),
    command(
        ".schema",
        "?PATTERN?",
        "The statements that make tables and views, of those like PATTERN",
        catalog::schema,
    ),
    command(
        ".separator",
        "COLUMN ?ROW?",
        "What stands between values and behind rows of csv, list and tabs",
        settings::separator,
    ),
    command(".shell", "COMMAND...", "Run a command of the system", process::shell),
    command(".show", "", "Settings of the shell and of the engine", settings::show),
    command(".stats", "on|off", "One line of JSON about each statement on standard error", settings::stats),
    command(".system", "COMMAND...", "Run a command of the system", process::shell),
    command(".tables", "?PATTERN?", "Names of tables and views, of those like PATTERN", catalog::tables),
    command(".timer", "on|off", "Time of each statement on standard error", settings::timer),
    command(".version", "", "The version", process::version),
    command(
        ".width",
        "N1 N2 ...",
        "Widths of columns of box, table and column; 0 is as wide as its values, below 0 aligns to the right",
        settings::width,
    ),
];

const fn command(
    name: &'static str,
    arguments: &'static str,
    help: &'static str,
    run: fn(&mut Session, &Arguments) -> Result<(), RunError>,
) -> Command {
    Command { name, arguments, help, run }
}

/// Other names.
const ALIASES: [(&str, &str); 3] = [(".header", ".headers"), (".h", ".help"), (".q", ".quit")];

/// The command of this name, with or without its dot.
fn named(name: &str) -> Result<&'static Command, RunError> {
    let dotted = format!(".{}", name.trim_start_matches('.').to_ascii_lowercase());
    let name = ALIASES.iter().find(|(alias, _)| *alias == dotted).map_or(dotted.as_str(), |(_, name)| name);
    COMMANDS.iter().find(|command| command.name == name).ok_or_else(|| {
        let near = COMMANDS
            .iter()
            .map(|command| (damerau_levenshtein(command.name, name), command.name))
            .filter(|(distance, _)| *distance <= 2)
            .min();
        match near {
            Some((_, near)) => RunError::command(format_args!("no command {name}; did you mean {near}?")),
            None => RunError::command(format_args!("no command {name}; .help lists them")),
        }
    })
}

/// Runs one command, given as its whole line.
pub fn run(session: &mut Session, line: &str) -> Result<(), RunError> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let command = named(name.trim_end_matches(';'))?;
    let rest = rest.trim();
    // A semicolon at the end is a habit, unless it is part of a text.
    let is_text = [".print", ".shell", ".system", ".separator", ".nullvalue"].contains(&command.name);
    let rest = if is_text { rest } else { rest.trim_end_matches(';').trim_end() };
    let words = words::words(rest).map_err(|problem| RunError::command(format_args!("{}: {problem}", command.name)))?;
    (command.run)(session, &Arguments { command, rest, words })?;
    session.sink.flush()?;
    Ok(())
}

fn help(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    match arguments.optional()? {
        Some(name) => line(session, named(name)?),
        None => COMMANDS.iter().try_for_each(|command| line(session, command)),
    }
}

fn line(session: &mut Session, command: &Command) -> Result<(), RunError> {
    let usage = format!("{} {}", command.name, command.arguments);
    Ok(writeln!(session.sink, "{usage:<40} {}", command.help)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_order() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn a_name_that_is_near_is_suggested() {
        let message = |name| named(name).err().map(|error| error.to_string());
        assert_eq!(message(".tabels").as_deref(), Some("Error: no command .tabels; did you mean .tables?"));
        assert_eq!(message(".xyzzyx").as_deref(), Some("Error: no command .xyzzyx; .help lists them"));
        assert_eq!(message("header"), None);
    }
}
