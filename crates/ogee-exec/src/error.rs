//! What can go wrong while a query runs.

use ogee_memory::{MemoryError, format_bytes};
use ogee_vector::VectorError;

/// Failure of a running query. The handle stays usable and nothing stays behind.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// Memory or temporary space ran out, or temporary data could not be read back.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A value that has no vector form.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// Integer or decimal arithmetic left the range of its type; nothing wraps silently.
    #[error("{operation} overflows {data_type}; cast the argument to a wider type")]
    Overflow {
        /// The operation, e.g. `sum`.
        operation: &'static str,
        /// The type whose range was left.
        data_type: String,
    },
    /// A file could not be read.
    #[error("{path}: {message}")]
    Source {
        /// The source's own code for it.
        code: &'static str,
        /// The file.
        path: String,
        /// What was wrong, and what to do.
        message: String,
    },
    /// An expression or source that comes from elsewhere failed; its own error is kept.
    #[error("{0}")]
    Foreign(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The error that failed the query, seen once more through another handle of it.
    #[error("{0}")]
    Shared(std::sync::Arc<dyn std::error::Error + Send + Sync>),
    /// Values of several rows would take so much that they are made of fewer rows at a time. Who evaluates the expression does that.
    #[error("values of an expression would take {}; take fewer rows at a time", format_bytes(*bytes))]
    Grown {
        /// Bytes of all values.
        bytes: usize,
    },
    /// A subquery that stands for a value has several rows.
    #[error("a scalar subquery returned more than one row; aggregate its rows, or add LIMIT 1")]
    ManyRows,
    /// The query was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// A worker panicked: a bug. The query failed, the handle lives.
    #[error("internal error in {job}: {message}; please report it")]
    Panicked {
        /// The pipeline.
        job: String,
        /// The panic's message.
        message: String,
    },
}

impl ExecError {
    /// Stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Memory(e) => e.code(),
            Self::Vector(e) => e.code(),
            Self::Overflow { .. } => "OGEE_X001",
            Self::Source { code, .. } => code,
            Self::Foreign(_) => "OGEE_X003",
            Self::Shared(error) => error.downcast_ref::<Self>().map_or("OGEE_X003", Self::code),
            Self::Cancelled => "OGEE_X004",
            Self::Panicked { .. } => "OGEE_X005",
            Self::ManyRows => "OGEE_X006",
            Self::Grown { .. } => "OGEE_X007",
        }
    }
}

impl From<arrow_schema::ArrowError> for ExecError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Vector(VectorError::Arrow(error))
    }
}
