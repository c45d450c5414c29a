//! A query as its submitter sees it: the plan of jobs, the handle, the wakers.
//!
//! Not here: the state machine that runs it; that is the dispatcher's.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use crate::dispatcher::Dispatcher;
use crate::lane::LaneTable;
use crate::{Cancellation, Job, QueryError};

/// A job of one query, as numbered by [`QueryBuilder::add_job`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub(crate) usize);

/// The jobs of a query with their dependencies, before it is submitted.
///
/// Jobs that do not depend on each other may run at the same time, and must when one feeds another through a channel.
#[derive(Default)]
pub struct QueryBuilder {
    pub(crate) jobs: Vec<PlannedJob>,
}

pub(crate) struct PlannedJob {
    pub(crate) job: Arc<dyn Job>,
    /// Sorted, each once.
    pub(crate) dependencies: Vec<usize>,
}

impl QueryBuilder {
    /// A query without jobs; submitted like this it ends at once, well.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a job that becomes executable when all of `deps` have finished.
    ///
    /// # Panics
    /// If a dependency is not a job added to this builder before, so that a cycle cannot be made.
    pub fn add_job(&mut self, job: Arc<dyn Job>, deps: &[JobId]) -> JobId {
        let id = self.jobs.len();
        let mut dependencies: Vec<usize> = deps.iter().map(|dep| dep.0).collect();
        dependencies.sort_unstable();
        dependencies.dedup();
        assert!(
            dependencies.last().is_none_or(|&last| last < id),
            "job {id} may depend only on jobs added before it, not on {dependencies:?}"
        );
        self.jobs.push(PlannedJob { job, dependencies });
        JobId(id)
    }
}

impl fmt::Debug for QueryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = self.jobs.iter().map(|planned| (planned.job.name(), &planned.dependencies));
        f.debug_map().entries(jobs).finish()
    }
}

/// What the handles of a query and the workers on it share; outlives the jobs.
#[derive(Debug)]
pub(crate) struct QueryControl {
    pub(crate) id: u64,
    pub(crate) cancellation: Cancellation,
    pub(crate) lanes: Vec<Arc<LaneTable>>,
    outcome: Mutex<Option<Result<(), QueryError>>>,
    ended: Condvar,
}

impl QueryControl {
    pub(crate) fn new(id: u64, jobs: usize) -> Self {
        Self {
            id,
            cancellation: Cancellation::default(),
            lanes: (0..jobs).map(|_| Arc::default()).collect(),
            outcome: Mutex::new(None),
            ended: Condvar::new(),
        }
    }

    pub(crate) fn publish(&self, outcome: Result<(), QueryError>) {
        let before = self.outcome.lock().replace(outcome);
        assert!(before.is_none(), "a query ends once");
        self.ended.notify_all();
    }
}

/// A submitted query. Clones stand for the same query; dropping the last one does not cancel it.
#[derive(Debug, Clone)]
pub struct QueryHandle {
    pub(crate) control: Arc<QueryControl>,
    pub(crate) dispatcher: Arc<Dispatcher>,
}

impl QueryHandle {
    /// Cancels the query at the next morsel boundary of each of its running lanes; returns at once. Blocked lanes do not
    /// hold it up. Without effect on a query that has failed already or ended.
    pub fn cancel(&self) {
        self.dispatcher.cancel(self.control.id);
    }

    /// Whether the query has ended: its jobs are dropped and its `on_done` has returned.
    pub fn is_finished(&self) -> bool {
        self.control.outcome.lock().is_some()
    }

    /// Blocks the calling thread until the query has ended, without helping. Not to be called from a job or from the
    /// query's own `on_done`: it would hold the worker, or wait for itself.
    ///
    /// # Errors
    /// What the query ended with; the same for every call, and for `on_done`.
    pub fn wait(&self) -> Result<(), QueryError> {
        let mut outcome = self.control.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            self.control.ended.wait(&mut outcome);
        }
    }

    /// The waker of a job of this query.
    ///
    /// # Panics
    /// If `job` is not a job of this query.
    pub fn waker(&self, job: JobId) -> JobWaker {
        JobWaker { lanes: Arc::clone(&self.control.lanes[job.0]), dispatcher: Arc::downgrade(&self.dispatcher) }
    }
}

/// Makes the blocked lanes of one job runnable. Holds neither the job nor the query.
#[derive(Debug, Clone)]
pub struct JobWaker {
    lanes: Arc<LaneTable>,
    dispatcher: Weak<Dispatcher>,
}

impl JobWaker {
    /// Makes every blocked lane of the job runnable, and every lane that is running now run once more if it ends its run
    /// blocked. To be called after what the lanes wait for has been made visible; without effect once the query has ended.
    ///
    /// Without a lock unless a lane was blocked; then takes the dispatcher's for a moment. May be called from any thread,
    /// from jobs too.
    pub fn wake(&self) {
        let woken = self.lanes.wake();
        if woken > 0
            && let Some(dispatcher) = self.dispatcher.upgrade()
        {
            dispatcher.lanes_woken(woken);
        }
    }
}
