//! What a session begins with: `~/.ogeerc`, and the settings of the command line, which come after it.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::args::ShellArgs;
use crate::dot::unescaped;
use crate::errors::RunError;
use crate::script;
use crate::session::{Bail, Session};

/// The file that every session begins with.
fn default_path() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join(".ogeerc")).filter(|path| path.is_file())
}

/// Runs what a session begins with. An error in a file says where it is, and what follows it there is left out; it ends the shell with
/// `-bail` alone.
pub fn run(session: &mut Session, args: &ShellArgs) -> Result<(), RunError> {
    let path = match &args.init {
        _ if args.no_init => None,
        Some(path) => Some(path.clone()),
        None => default_path(),
    };
    if let Some(path) = path {
        match file(session, &path) {
            Err(error @ (RunError::Failed(_) | RunError::Command(_))) if !args.bail => {
                eprintln!("{error}");
                session.has_failed |= args.init.is_some();
            }
            result => result?,
        }
    }
    apply(session, args);
    Ok(())
}

/// Runs `path` up to its first error.
fn file(session: &mut Session, path: &Path) -> Result<(), RunError> {
    let file = File::open(path)
        .map_err(|error| RunError::Failed(format!("Error: cannot read {}: {error}", path.display())))?;
    script::lines(session, file, true).map_err(|(line, error)| match error {
        RunError::Failed(message) => RunError::Failed(format!("{}:{line}: {message}", path.display())),
        RunError::Command(message) => RunError::Command(format!("{}:{line}: {message}", path.display())),
        other => other,
    })
}

fn apply(session: &mut Session, args: &ShellArgs) {
    let (style, settings) = (&mut session.style, &mut session.settings);
    if let Some(mode) = args.format {
        style.mode = mode;
    }
    if args.header || args.noheader {
        style.headers = args.header;
    }
    if let Some(separator) = &args.separator {
        style.separator = Some(unescaped(separator));
    }
    if let Some(newline) = &args.newline {
        style.row_separator = unescaped(newline);
    }
    if let Some(null) = &args.nullvalue {
        style.null = Some(null.clone());
    }
    if args.bail {
        settings.bail = Bail::On;
    }
    settings.timer |= args.timer;
    settings.stats |= args.stats;
    settings.echo |= args.echo;
    // From here on: the file may prepare tables.
    settings.read_only |= args.readonly;
}
