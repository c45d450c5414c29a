//! Scripts: statements and commands of a file, of standard input or of the command line, run as they are read.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::errors::RunError;
use crate::session::Session;
use crate::splitter::Splitter;

/// Files may `.read` each other this deep.
const READ_DEPTH_MAX: usize = 16;

/// Runs all of a script, piece by piece, up to the first error that ends it.
pub fn run(session: &mut Session, text: impl Read) -> Result<(), RunError> {
    lines(session, text, false).map_err(|(_, error)| error)
}

/// The same, up to any error if it is `strict`. The error comes with the line at which its statement ends.
pub fn lines(session: &mut Session, text: impl Read, strict: bool) -> Result<(), (usize, RunError)> {
    let mut reader = BufReader::new(text);
    let mut splitter = Splitter::default();
    let mut pieces = Vec::new();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        number += 1;
        let cannot = |error| (number, RunError::Failed(format!("Error: cannot read the script: {error}")));
        let read = reader.read_until(b'\n', &mut line).map_err(cannot)?;
        if read == 0 {
            number -= 1;
            splitter.finish(&mut pieces);
        } else {
            let text = std::str::from_utf8(&line).map_err(|_| {
                (number, RunError::Failed(format!("Error: line {number} of the script is not UTF-8 text")))
            })?;
            let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text };
            splitter.push_line(text.trim_end_matches(['\n', '\r']), &mut pieces);
        }
        for piece in pieces.drain(..) {
            let result = session.run(&piece);
            match result {
                Err(error) if !strict => session.report(error),
                result => result,
            }
            .map_err(|error| (number, error))?;
        }
        if read == 0 {
            return Ok(());
        }
    }
}

/// Runs a file; `-` is standard input.
pub fn file(session: &mut Session, path: &Path) -> Result<(), RunError> {
    if path == Path::new("-") {
        return nested(session, |session| run(session, std::io::stdin()));
    }
    let file = File::open(path)
        .map_err(|error| RunError::Failed(format!("Error: cannot read {}: {error}", path.display())))?;
    nested(session, |session| run(session, file))
}

fn nested(session: &mut Session, run: impl FnOnce(&mut Session) -> Result<(), RunError>) -> Result<(), RunError> {
    if session.read_depth == READ_DEPTH_MAX {
        return Err(RunError::Failed(format!("Error: files read each other more than {READ_DEPTH_MAX} deep")));
    }
    session.read_depth += 1;
    let result = run(session);
    session.read_depth -= 1;
    result
}
