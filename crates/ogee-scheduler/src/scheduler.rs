//! The scheduler as others see it: its threads, and submitting to it.
//!
//! Not here: what the threads do.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use crate::dispatcher::{Dispatcher, OnDone};
use crate::{QueryBuilder, QueryError, QueryHandle, worker};

/// Starts a named thread; given from outside so that a refusal can be tested.
type Spawn = fn(String, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

fn spawn_thread(name: String, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(body)
}

/// A pool of workers and the dispatcher that they share, for any number of queries at once.
///
/// Workers are started by the first query and parked while there is nothing to do. Dropping the scheduler cancels what is
/// still active and waits until every query has ended and every worker has left.
pub struct Scheduler {
    dispatcher: Arc<Dispatcher>,
    /// Also the lock under which workers are started.
    workers: Mutex<Vec<JoinHandle<()>>>,
    spawn: Spawn,
}

impl Scheduler {
    /// A scheduler that will use `threads` workers (0 counts as 1), named `ogee-worker-0` and so on.
    pub fn new(threads: usize) -> Arc<Self> {
        Self::with_spawn(threads, spawn_thread)
    }

    fn with_spawn(threads: usize, spawn: Spawn) -> Arc<Self> {
        Arc::new(Self { dispatcher: Arc::new(Dispatcher::new(threads)), workers: Mutex::new(Vec::new()), spawn })
    }

    /// Number of workers, as set last.
    pub fn threads(&self) -> usize {
        self.dispatcher.threads()
    }

    /// Sets the number of workers (0 counts as 1). Workers too many leave at their next morsel boundary, missing ones are
    /// started now; if the operating system refuses one, the query submitted next tries again.
    pub fn set_threads(&self, threads: usize) {
        if self.dispatcher.set_threads(threads) {
            // Fewer than wanted is what the next query meets too; only it can tell if there are none.
            let _ = self.start_missing();
        }
    }

    /// Makes the query active and returns at once. [`Job::attach`](crate::Job::attach), then `name` and `lanes` are
    /// called for its jobs on this thread, before anything runs; a panic in them goes to the caller.
    ///
    /// `on_done` is called exactly once, on a worker, after all jobs of the query have been dropped. It should be short and
    /// must not wait for this or another query of the same scheduler. A panic in it is caught and has no effect.
    pub fn submit(self: &Arc<Self>, query: QueryBuilder, on_done: OnDone) -> QueryHandle {
        let handle = self.dispatcher.submit(query.jobs, on_done);
        if let Err(source) = self.start_missing() {
            let failure = QueryError::NoWorkers { threads: self.threads(), source: Arc::new(source) };
            if let Some(ended) = self.dispatcher.withdraw(&handle, failure) {
                worker::end(ended);
            }
        }
        handle
    }

    /// Starts the workers that are missing; an error only if none is alive then.
    fn start_missing(&self) -> io::Result<()> {
        let mut workers = self.workers.lock();
        let mut refused = None;
        let missing = self.dispatcher.claim_missing();
        if missing.is_empty() {
            return Ok(());
        }
        workers.retain(|worker| !worker.is_finished());
        for worker in missing {
            let dispatcher = Arc::clone(&self.dispatcher);
            let body = Box::new(move || worker::work(&dispatcher, worker));
            match (self.spawn)(format!("ogee-worker-{worker}"), body) {
                Ok(handle) => workers.push(handle),
                Err(error) => {
                    let others = self.dispatcher.unclaim(worker);
                    refused = (!others).then_some(error);
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.dispatcher.shut_down();
        let this = thread::current().id();
        for worker in self.workers.get_mut().drain(..) {
            // A job or an `on_done` may hold the last reference: that worker leaves after it, and cannot wait for itself.
            if worker.thread().id() != this {
                // Code of jobs cannot unwind a worker; if one has panicked, its message is out and the others still leave.
                let _ = worker.join();
            }
        }
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheduler").field(&self.dispatcher).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::mpsc;

    use super::*;
    use crate::{Job, JobError, Step, TaskContext};

    struct Nothing;

    impl Job for Nothing {
        fn name(&self) -> &str {
            "nothing"
        }

        fn lanes(&self) -> usize {
            1
        }

        fn run(&self, _: usize, _: &TaskContext) -> Result<Step, JobError> {
            Ok(Step::Exhausted)
        }

        fn finish(&self, _: &TaskContext) -> Result<(), JobError> {
            Ok(())
        }
    }

    fn nothing() -> QueryBuilder {
        let mut query = QueryBuilder::new();
        query.add_job(Arc::new(Nothing), &[]);
        query
    }

    fn refuse(_: String, _: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        Err(io::Error::new(io::ErrorKind::WouldBlock, "no threads left"))
    }

    fn second_only(name: String, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        if name == "ogee-worker-1" { spawn_thread(name, body) } else { refuse(name, body) }
    }

    #[test]
    fn without_any_worker_the_query_says_so() {
        let scheduler = Scheduler::with_spawn(3, refuse);
        for _ in 0..2 {
            let (sender, receiver) = mpsc::channel();
            let on_done = Box::new(move |outcome| sender.send(outcome).unwrap());
            let handle = scheduler.submit(nothing(), on_done);
            let error = handle.wait().unwrap_err();
            assert_eq!(error.code(), "OGEE_W004");
            assert!(error.to_string().contains("none of 3 worker"), "{error}");
            assert!(receiver.recv().unwrap().is_err());
        }
    }

    #[test]
    fn with_fewer_workers_than_wanted_queries_run() {
        let scheduler = Scheduler::with_spawn(3, second_only);
        for _ in 0..3 {
            scheduler.submit(nothing(), Box::new(drop)).wait().unwrap();
        }
    }

    #[test]
    fn threads_are_started_by_the_first_query() {
        let scheduler = Scheduler::new(2);
        scheduler.set_threads(3);
        assert!(scheduler.workers.lock().is_empty());
        scheduler.submit(nothing(), Box::new(drop)).wait().unwrap();
        assert_eq!(scheduler.workers.lock().len(), 3);
    }
}
