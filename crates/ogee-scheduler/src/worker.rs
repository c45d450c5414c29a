//! What a worker thread does: asks the dispatcher, runs morsels, finishes jobs, ends queries.
//!
//! All code of jobs that is not run by the submitter is run from here, outside the dispatcher's lock and with panics
//! caught.
//!
//! After "Morsel-driven parallelism", SIGMOD 2014, section 3.1.
//!
//! Not here: any choice between lanes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::dispatcher::{Boundary, Dispatcher, EndedQuery, JobCell, LaneId, Morsel, Task};
use crate::{JobError, QueryError, Step, TaskContext};

/// Works until the dispatcher says to leave.
pub(crate) fn work(dispatcher: &Dispatcher, worker: usize) {
    let mut last = None;
    while let Some(task) = dispatcher.next(worker, last) {
        match task {
            Task::Morsel(morsel) => {
                last = Some(morsel.at);
                run_lane(dispatcher, worker, morsel);
            }
            Task::End(ended) => end(ended),
        }
    }
}

/// Runs code of a job; its errors and panics become the query's.
fn guarded<T>(name: &str, code: impl FnOnce() -> Result<T, JobError>) -> Result<T, QueryError> {
    // A job that panicked is dropped and never run again, so no one sees a state it left half-changed.
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(QueryError::Failed(Arc::from(error))),
        Err(payload) => Err(QueryError::panicked(name, &*payload)),
    }
}

/// Runs morsels on the lane as long as the worker would be given it again, then gives it back.
fn run_lane(dispatcher: &Dispatcher, worker: usize, morsel: Morsel) {
    let at = morsel.at;
    let outcome = {
        let cell = &morsel.cell;
        let ctx = TaskContext { worker, cancelled: &cell.control.cancellation };
        guarded(&cell.name, || {
            loop {
                let step = cell.job.run(morsel.lane(), &ctx)?;
                let lanes = cell.ask_lanes();
                let keeps = step == Step::Again
                    // The first tells a worker that is now one too many, the second one that missed a change which parked others.
                    && lanes == morsel.lanes
                    && lanes == cell.lanes()
                    && !dispatcher.interrupts()
                    && !ctx.is_cancelled();
                if !keeps {
                    return Ok((step, lanes));
                }
                cell.lane(morsel.lane()).rearm();
            }
        })
    };
    drop(morsel);
    let boundary = match dispatcher.release(at, outcome) {
        Boundary::Finish(cell) => finish(dispatcher, worker, at, cell),
        boundary => boundary,
    };
    if let Boundary::End(ended) = boundary {
        end(ended);
    }
}

/// Finishes a job whose lanes are all exhausted and makes the jobs that waited only for it executable.
fn finish(dispatcher: &Dispatcher, worker: usize, at: LaneId, cell: Arc<JobCell>) -> Boundary {
    let finished =
        guarded(&cell.name, || cell.job.finish(&TaskContext { worker, cancelled: &cell.control.cancellation }));
    let ready = finished.and_then(|()| {
        let (last, ready) = dispatcher.job_finished(at);
        drop(cell);
        last.map_or(Ok(()), drop_job)?;
        ready
            .into_iter()
            .map(|cell| {
                let lanes = guarded(&cell.name, || Ok(cell.ask_lanes()))?;
                Ok((cell, lanes))
            })
            .collect()
    });
    dispatcher.release_finished(at, ready)
}

/// Drops a job; it may hold much, and panic in its destructors.
fn drop_job(cell: Arc<JobCell>) -> Result<(), QueryError> {
    let name = cell.name.clone();
    guarded(&name, || {
        drop(cell);
        Ok(())
    })
}

/// Frees what the query holds, reports, then releases those who wait.
pub(crate) fn end(ended: EndedQuery) {
    let EndedQuery { control, jobs, failure, on_done } = ended;
    let mut outcome = failure.map_or(Ok(()), Err);
    for job in jobs {
        let dropped = drop_job(job);
        outcome = outcome.and(dropped);
    }
    let reported = outcome.clone();
    // A panic in it has no query left to fail; the panic hook has told of it.
    let _ = catch_unwind(AssertUnwindSafe(move || on_done(reported)));
    control.publish(outcome);
}
