//! The command line of the shell, as typed values.
//!
//! Not here: what the flags do (`main`), and the syntax of sizes, which is that of `SET memory_limit`.

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::dashes;
use crate::output::Mode;

/// SQL over Parquet, CSV, JSON and Arrow files within a memory limit that holds for the whole process.
#[derive(Debug, Parser)]
#[command(name = "ogee", version, args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Long flags may have one dash. -duckbox, -box, -table, -column, -line, -list, -tabs, -csv, -json, \
    -jsonlines, -markdown, -html, -quote and -trash are short for --format.\nWithout -c and -f the shell is interactive \
    when standard input is a terminal, and reads SQL from it otherwise. ~/.ogeerc is run first.\nExit codes: 0 good, \
    1 a statement or a command failed, 2 wrong usage, 130 interrupted."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub shell: ShellArgs,
}

/// What is not the shell itself.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate TPC-H lineitem and group it at several memory limits
    Demo(DemoArgs),
    /// Write lineitem as Parquet (used by `demo`, in a process of its own since the generator keeps 300 MB)
    #[command(hide = true)]
    DemoData(DemoDataArgs),
}

/// Flags of the shell.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// Database file; nothing or ":memory:" for a database in memory
    #[arg(value_name = "DATABASE")]
    pub database: Option<String>,
    /// Run these statements; may be given several times
    #[arg(short = 'c', value_name = "SQL", allow_hyphen_values = true)]
    pub commands: Vec<String>,
    /// Run the statements of a file; may be given several times
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Run these statements before anything else, and go on; may be given several times
    #[arg(long, value_name = "SQL", allow_hyphen_values = true)]
    pub cmd: Vec<String>,
    /// Run this file first, in place of ~/.ogeerc
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// Run neither ~/.ogeerc nor what --init names
    #[arg(long)]
    pub no_init: bool,
    /// How results are written
    #[arg(long, visible_alias = "mode", value_enum, value_name = "MODE", overrides_with = "format")]
    pub format: Option<Mode>,
    /// Write the names of columns
    #[arg(long, overrides_with = "noheader")]
    pub header: bool,
    /// Write no names of columns
    #[arg(long, overrides_with = "header")]
    pub noheader: bool,
    /// What stands between two values of csv, list and tabs
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub separator: Option<String>,
    /// What stands behind each row of csv, list and tabs
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub newline: Option<String>,
    /// What is written for NULL
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub nullvalue: Option<String>,
    /// Write results to a file
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub limits: Limits,
    /// Print the time each statement took
    #[arg(long)]
    pub timer: bool,
    /// Print one line of JSON about each statement on standard error
    #[arg(long)]
    pub stats: bool,
    /// Refuse statements that change tables or files
    #[arg(long)]
    pub readonly: bool,
    /// Stop at the first error, also of a command
    #[arg(long)]
    pub bail: bool,
    /// Print each statement before it runs
    #[arg(long)]
    pub echo: bool,
    /// Never be interactive
    #[arg(long)]
    pub batch: bool,
    /// Be interactive after the statements of -c and -f, too
    #[arg(long, conflicts_with = "batch")]
    pub interactive: bool,
}

/// Flags that bound what the engine uses.
#[derive(Debug, Args, Clone, Default)]
pub struct Limits {
    /// Memory of the whole process, such as 512MB, 2GiB or 50% (default: 80 % of what there is)
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<String>,
    /// Worker threads (default: the cores this process may use)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Where state is spilled that does not fit
    #[arg(long, value_name = "DIR")]
    pub temp_directory: Option<PathBuf>,
    /// Most that may be spilled at a time (default: 90 % of the free space)
    #[arg(long, value_name = "SIZE")]
    pub max_temp_size: Option<String>,
}

/// Flags of `ogee demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Scale factor of TPC-H; 1 is 6 million rows
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    pub scale: f64,
    /// Where the data goes, or is from an earlier run (default: a temporary directory)
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Keep the generated data
    #[arg(long)]
    pub keep: bool,
    /// Worker threads
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Flags of the hidden `ogee demo-data`.
#[derive(Debug, Args)]
pub struct DemoDataArgs {
    #[arg(long, value_parser = scale)]
    pub scale: f64,
    #[arg(long)]
    pub out: PathBuf,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 1000.0 => Ok(scale),
        _ => Err("a number above 0 and up to 1000 is needed".to_owned()),
    }
}

/// Something to run, in the order of the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Script {
    /// `-c`
    Text(String),
    /// `-f`
    File(PathBuf),
}

/// The command line, and the scripts on it in their order. Exits with code 2 when it is wrong.
pub fn parse() -> (Cli, Vec<Script>) {
    let matches = Cli::command().get_matches_from(dashes::rewritten(&Cli::command(), std::env::args_os()));
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let mut scripts = Vec::new();
    if cli.command.is_none() {
        let indices = matches.indices_of("commands").into_iter().flatten();
        for (at, text) in indices.zip(&cli.shell.commands) {
            scripts.push((at, Script::Text(text.clone())));
        }
        let indices = matches.indices_of("files").into_iter().flatten();
        for (at, file) in indices.zip(&cli.shell.files) {
            scripts.push((at, Script::File(file.clone())));
        }
        scripts.sort_by_key(|(at, _)| *at);
    }
    (cli, scripts.into_iter().map(|(_, script)| script).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
