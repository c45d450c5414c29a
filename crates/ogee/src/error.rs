//! The error that users see: a code that stays and a message that says what to do.

/// Failure of a statement or a setting. The handle stays usable.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    code: &'static str,
    message: String,
}

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Stable code of the error, e.g. `OGEE_M001`.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What happened and what to do about it, on one line where possible.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same, with what `told` makes of the message, if it is of what was written.
    pub(crate) fn told(self, told: impl FnOnce(&str) -> String) -> Self {
        match self.code {
            "OGEE_Q001" | "OGEE_Q002" => Self { message: told(&self.message), ..self },
            _ => self,
        }
    }

    /// The same for one of text that is not run, of which no more is known than `sql`.
    pub(crate) fn in_text(self, sql: &str) -> Self {
        self.told(|message| ogee_datafusion::told(message, sql, Vec::new))
    }

    /// A value that a setting does not take, or a setting that does not exist.
    pub(crate) fn setting(message: String) -> Self {
        ogee_datafusion::Error::Setting(message).into()
    }
}

impl From<ogee_datafusion::Error> for Error {
    fn from(error: ogee_datafusion::Error) -> Self {
        Self { code: error.code(), message: error.to_string() }
    }
}

impl From<ogee_memory::MemoryError> for Error {
    fn from(error: ogee_memory::MemoryError) -> Self {
        ogee_datafusion::Error::from(error).into()
    }
}
