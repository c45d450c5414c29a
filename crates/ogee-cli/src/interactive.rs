//! The prompt: lines are read until a statement is complete, run, and remembered.
//!
//! An error is printed and the prompt comes back; so does Ctrl-C, which at the prompt forgets what was typed. History is
//! kept in the user's data directory, as far as that can be written.
//!
//! Not here: when a statement is complete (`splitter`).

use std::io::Write;
use std::path::PathBuf;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use signal_hook::consts::SIGTERM;

use crate::session::{RunError, Session};
use crate::splitter::{Piece, Splitter};

/// `$XDG_DATA_HOME/ogee/history` or the place the platform has for it.
fn history_path() -> Option<PathBuf> {
    let base =
        std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(|| {
            let home = PathBuf::from(std::env::var_os("HOME")?);
            Some(home.join(if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" }))
        })?;
    Some(base.join("ogee").join("history"))
}

/// Runs the prompt until the end of input; gives the exit code.
pub fn run(session: &mut Session) -> i32 {
    let mut editor = match DefaultEditor::new() {
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
    let code = prompt(session, &mut editor);
    if let Some(path) = &history {
        let saved = path.parent().map_or(Ok(()), std::fs::create_dir_all).is_ok() && editor.save_history(path).is_ok();
        if !saved {
            eprintln!("The history could not be saved to {}", path.display());
        }
    }
    code
}

fn prompt(session: &mut Session, editor: &mut DefaultEditor) -> i32 {
    let mut splitter = Splitter::default();
    let mut pieces = Vec::new();
    loop {
        match editor.readline(if splitter.is_empty() { "ogee> " } else { " ...> " }) {
            Ok(line) => splitter.push_line(&line, &mut pieces),
            Err(ReadlineError::Interrupted) => {
                splitter.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return 0,
            Err(error) => {
                eprintln!("Error: cannot read the terminal: {error}");
                return 1;
            }
        }
        for piece in pieces.drain(..) {
            let entry = match &piece {
                Piece::Statement(sql) => format!("{sql};"),
                Piece::Command(line) => line.clone(),
            };
            // Only a full disk or a closed file can refuse an entry; the next save reports it.
            let _ = editor.add_history_entry(entry);
            match session.run(&piece) {
                Ok(()) => {}
                Err(error @ (RunError::Quit | RunError::Closed | RunError::Interrupted(SIGTERM))) => {
                    return error.exit_code();
                }
                Err(RunError::Interrupted(_)) => {
                    eprintln!("Interrupted");
                    break;
                }
                Err(error) => {
                    let _ = session.sink.flush();
                    eprintln!("{error}");
                    break;
                }
            }
        }
    }
}
