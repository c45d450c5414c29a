//! The prompt: what is typed is run once it is complete, and remembered.
//!
//! An error is printed and the prompt comes back; so does Ctrl-C, which at the prompt forgets what was typed. History is
//! kept in the user's data directory, as far as that can be written.
//!
//! Not here: when a statement is complete, completion and colours (`editor`).

use std::io::Write;
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use signal_hook::consts::SIGTERM;

use crate::editor::Assistant;
use crate::errors::RunError;
use crate::session::Session;
use crate::splitter::Splitter;

/// What is typed behind.
const PROMPT: &str = "ogee> ";

/// Statements that are remembered.
const HISTORY_MAX: usize = 10_000;

type LineEditor = Editor<Assistant, DefaultHistory>;

/// `$XDG_DATA_HOME/ogee/history` or the place the platform has for it.
fn history_path() -> Option<PathBuf> {
    let base =
        std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(|| {
            let home = PathBuf::from(std::env::var_os("HOME")?);
            Some(home.join(if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" }))
        })?;
    Some(base.join("ogee").join("history"))
}

fn editor() -> rustyline::Result<LineEditor> {
    let config = Config::builder()
        .max_history_size(HISTORY_MAX)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .build();
    let mut editor = LineEditor::with_config(config)?;
    editor.set_helper(Some(Assistant::default()));
    Ok(editor)
}

/// Runs the prompt until the end of input; gives the exit code.
pub fn run(session: &mut Session) -> i32 {
    let mut editor = match editor() {
        Ok(editor) => editor,
        Err(error) => {
            eprintln!("Error: the terminal cannot be used: {error}");
            return 1;
        }
    };
    let history = history_path();
    if let Some(path) = &history {
        // There is none the first time, and the shell works without.
        let _ = editor.load_history(path);
    }
    println!("ogee {}. \".help\" lists commands; statements end with ;", env!("CARGO_PKG_VERSION"));
    session.interrupts.stay();
    let code = prompt(session, &mut editor);
    if let Some(path) = &history {
        let saved = path.parent().map_or(Ok(()), std::fs::create_dir_all).is_ok() && editor.save_history(path).is_ok();
        if !saved {
            eprintln!("The history could not be saved to {}", path.display());
        }
    }
    code
}

fn prompt(session: &mut Session, editor: &mut LineEditor) -> i32 {
    loop {
        if let Some(assistant) = editor.helper_mut() {
            assistant.refresh(&session.connection);
        }
        let typed = match editor.readline(PROMPT) {
            Ok(typed) => typed,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return 0,
            Err(error) => {
                eprintln!("Error: cannot read the terminal: {error}");
                return 1;
            }
        };
        if typed.trim().is_empty() {
            continue;
        }
        // Only a full disk or a closed file can refuse an entry; the next save reports it.
        let _ = editor.add_history_entry(typed.trim_end());
        if let Some(code) = run_typed(session, &typed) {
            return code;
        }
    }
}

/// Runs what was typed, up to its first error; gives the exit code if it ends the shell.
fn run_typed(session: &mut Session, typed: &str) -> Option<i32> {
    let mut splitter = Splitter::default();
    let mut pieces = Vec::new();
    for line in typed.lines() {
        splitter.push_line(line, &mut pieces);
    }
    splitter.finish(&mut pieces);
    for piece in pieces {
        match session.run(&piece) {
            Ok(()) => {}
            Err(error @ (RunError::Quit(_) | RunError::Closed | RunError::Interrupted(SIGTERM))) => {
                return Some(error.exit_code());
            }
            Err(RunError::Interrupted(_)) => {
                eprintln!("Interrupted");
                return None;
            }
            Err(error) => {
                // What cannot be written is an error of the next statement, too.
                let _ = session.sink.flush();
                eprintln!("{error}");
                return None;
            }
        }
    }
    None
}
