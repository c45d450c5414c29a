//! Results that are taller than the screen, a page at a time.
//!
//! What is written is kept until it is more than a screen takes. Then the pager is started, and gets all of it and what follows; a result that
//! fits is written as it is. The pager may be left at any time, which ends the statement.
//!
//! Not here: when there is a pager (`session`).

use std::io::{self, ErrorKind, Write};
use std::process::{Child, Command, Stdio};

use crate::output::width;
use crate::terminal;

/// What is run where neither `OGEE_PAGER` nor `PAGER` says: quits at once where all fits, leaves colours and the screen, and wraps nothing.
const DEFAULT: &str = "less -SRFX";

/// The command that shows pages.
pub fn command() -> String {
    let named = |name: &str| std::env::var(name).ok().filter(|command| !command.trim().is_empty());
    named("OGEE_PAGER").or_else(|| named("PAGER")).unwrap_or_else(|| DEFAULT.to_owned())
}

enum State {
    /// Less than a screen, so far, and the lines that it takes.
    Waiting(Vec<u8>, usize),
    /// The pager runs.
    Running(Child),
    /// There is none to be had.
    Without,
}

/// Writes to a pager as soon as one is needed.
pub struct Pager<'a, W: Write> {
    out: &'a mut W,
    command: String,
    state: State,
}

impl<'a, W: Write> Pager<'a, W> {
    /// In front of `out`, which is a terminal.
    pub fn new(out: &'a mut W, command: String) -> Self {
        Self { out, command, state: State::Waiting(Vec::new(), 0) }
    }

    /// Ends the result: writes what is short, or waits until the pager is left.
    pub fn finish(mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Without) {
            State::Waiting(bytes, _) => self.out.write_all(&bytes),
            State::Running(mut child) => {
                drop(child.stdin.take());
                child.wait().map(drop)
            }
            State::Without => Ok(()),
        }
    }

    fn start(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.flush()?;
        let started = Command::new("sh").arg("-c").arg(&self.command).stdin(Stdio::piped()).spawn();
        match started {
            Ok(mut child) => {
                let written = child.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(bytes));
                self.state = State::Running(child);
                written
            }
            Err(error) => {
                eprintln!("Error: the pager {:?} cannot be started: {error}", self.command);
                self.state = State::Without;
                self.out.write_all(bytes)
            }
        }
    }
}

/// Lines of a screen that `bytes` take, where lines longer than `columns` take several.
fn lines(bytes: &[u8], columns: usize) -> usize {
    let text = String::from_utf8_lossy(bytes);
    text.split_inclusive('\n').map(|line| width(line.trim_end_matches('\n')).div_ceil(columns).max(1)).sum()
}

impl<W: Write> Write for Pager<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.state {
            State::Waiting(waiting, taken) => {
                waiting.extend_from_slice(bytes);
                let Some((screen, columns)) = terminal::size() else {
                    let waiting = std::mem::take(waiting);
                    self.state = State::Without;
                    return self.out.write_all(&waiting).map(|()| bytes.len());
                };
                *taken += lines(bytes, columns);
                // A piece of a line counts as one, so that it is counted again before it is believed.
                if *taken >= screen {
                    *taken = lines(waiting, columns);
                }
                // The last line is the prompt's.
                if *taken >= screen {
                    let waiting = std::mem::take(waiting);
                    self.start(&waiting)?;
                }
                Ok(bytes.len())
            }
            State::Running(child) => match &mut child.stdin {
                Some(stdin) => stdin.write(bytes),
                None => Err(ErrorKind::BrokenPipe.into()),
            },
            State::Without => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Waiting(..) => Ok(()),
            State::Running(child) => child.stdin.as_mut().map_or(Ok(()), Write::flush),
            State::Without => self.out.flush(),
        }
    }
}

impl<W: Write> Drop for Pager<'_, W> {
    /// The terminal is the pager's until it has ended.
    fn drop(&mut self) {
        if let State::Running(child) = &mut self.state {
            drop(child.stdin.take());
            // There is nobody to tell.
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_take_several() {
        assert_eq!(lines(b"a\nb\n", 80), 2);
        assert_eq!(lines(b"\n\nabc", 80), 3);
        assert_eq!(lines("é".repeat(161).as_bytes(), 80), 3);
    }
}
