//! What a scheduler runs: pipelines made executable.
//!
//! Not here: how their morsels are cut; [`MorselRanges`](crate::MorselRanges) is one way.

use crate::{Cancellation, JobWaker};

/// An error of a job: ends its query and reaches the submitter as [`QueryError::Failed`](crate::QueryError::Failed).
pub type JobError = Box<dyn std::error::Error + Send + Sync>;

/// What a worker did when it was given a lane of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Ran one morsel; there may be more. Never returned without progress: the lane is run again at once.
    Again,
    /// This lane finds no more morsels (others may still run theirs). The lane is not run again.
    Exhausted,
    /// Cannot go on until [`JobWaker::wake`] is called (output full, input not there yet); the worker does something
    /// else meanwhile. A wake that came since the start of this run counts.
    Blocked,
}

/// What a job is told about the worker that runs it.
#[derive(Debug)]
pub struct TaskContext<'a> {
    /// Number of the worker, from 0. Not an index of state: that follows the lane.
    pub worker: usize,
    /// The marker of the query.
    pub cancelled: &'a Cancellation,
}

impl TaskContext<'_> {
    /// Whether the query is to stop, for long loops inside a morsel. A job that sees it may return anything: the cause
    /// that raised the marker is what the query ends with.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}

/// A pipeline made executable: run by up to [`lanes`](Job::lanes) workers at once.
///
/// A *lane* owns the thread-local state of the pipeline, so that state follows the lane, not the thread, and the number
/// of workers on a job can change at any morsel boundary. Lanes are started in order from 0, each once; a started lane is
/// run until it is exhausted, even if `lanes()` has fallen below its number meanwhile, since it may hold rows. Every lane
/// below `lanes()` is started before the job finishes, if only to find itself exhausted: acquire a lane's state after its
/// first morsel, not before.
///
/// The job is dropped when it has finished or its query has ended, on a worker.
///
/// After "Morsel-driven parallelism", SIGMOD 2014, section 2.
pub trait Job: Send + Sync {
    /// Name for errors and traces; asked once, when the query is submitted.
    fn name(&self) -> &str;

    /// At most this many lanes run at once; 0 counts as 1. Asked when the job becomes executable and again at each morsel
    /// boundary, so that it can shrink with the memory grant and grow again. At most 65,535 lanes are used.
    fn lanes(&self) -> usize;

    /// Runs one morsel on `lane`. Never called concurrently for the same lane; what the last call on the lane wrote is
    /// visible to this one.
    ///
    /// # Errors
    /// Any error ends the query with [`QueryError::Failed`](crate::QueryError::Failed), as a panic does with
    /// [`QueryError::Panicked`](crate::QueryError::Panicked).
    fn run(&self, lane: usize, ctx: &TaskContext) -> Result<Step, JobError>;

    /// Called once, by the worker that found that every lane is exhausted, before the jobs that depend on this one become
    /// executable. Not called when the query failed or was cancelled.
    ///
    /// # Errors
    /// As for [`run`](Job::run).
    fn finish(&self, ctx: &TaskContext) -> Result<(), JobError>;

    /// Called once, when the query is submitted and before any of its jobs runs: gives the job the waker of its own lanes.
    fn attach(&self, waker: JobWaker) {
        drop(waker);
    }
}
