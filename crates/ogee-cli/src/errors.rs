//! Why running stopped.

use std::io;

use crate::signals;

/// Why running stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A statement failed; the message says all.
    #[error("{0}")]
    Failed(String),
    /// A command that starts with a dot was wrong, or could not do what it should.
    #[error("{0}")]
    Command(String),
    /// A signal arrived.
    #[error("interrupted")]
    Interrupted(i32),
    /// Whoever read the results has gone.
    #[error("the output was closed")]
    Closed,
    /// `.quit`, with the exit code.
    #[error("quit")]
    Quit(i32),
}

impl RunError {
    /// Of a command, with this message.
    pub fn command(message: impl std::fmt::Display) -> Self {
        Self::Command(format!("Error: {message}"))
    }

    /// The exit code of a shell that ends because of this.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Failed(_) | Self::Command(_) => 1,
            Self::Interrupted(signal) => signals::exit_code(*signal),
            Self::Closed => 0,
            Self::Quit(code) => *code,
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
