//! How a query can end other than well.
//!
//! Not here: the errors of jobs; they pass through untouched.

use std::any::Any;
use std::error::Error;
use std::io;
use std::sync::Arc;

/// A job's error, shared between `on_done` and every waiting handle. `downcast_ref` gives the job's own type back.
pub type SharedJobError = Arc<dyn Error + Send + Sync>;

/// Why a query did not finish.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueryError {
    /// It was cancelled through its handle, or its scheduler was dropped.
    #[error("the query was cancelled")]
    Cancelled,
    /// A job panicked: a bug in that job. The scheduler and other queries go on.
    #[error("job `{job}` panicked: {message}; the query is given up, the engine stays usable; please report this bug")]
    Panicked {
        /// What the panic said.
        message: String,
        /// [`Job::name`](crate::Job::name) of the job.
        job: String,
    },
    /// A job returned this error. Its own type and code are found with `downcast_ref`.
    #[error("{0}")]
    Failed(SharedJobError),
    /// The operating system refused to start even one worker.
    #[error(
        "none of {threads} worker threads could be started: {source}; raise the limit on threads or lower the \
         number of threads"
    )]
    NoWorkers {
        /// How many workers were wanted.
        threads: usize,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
}

impl QueryError {
    /// Stable code of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Cancelled => "OGEE_W001",
            Self::Panicked { .. } => "OGEE_W002",
            Self::Failed(_) => "OGEE_W003",
            Self::NoWorkers { .. } => "OGEE_W004",
        }
    }

    pub(crate) fn panicked(job: &str, payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Self::Panicked { message, job: job.to_owned() }
    }
}
