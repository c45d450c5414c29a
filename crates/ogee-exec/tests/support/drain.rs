//! Results of a query, without an executor.

use std::{
    task::{Context, Poll, Waker},
    time::Duration,
};

use ogee_exec::{ExecError, OpenPipeline, Query};
use ogee_scheduler::Scheduler;
use ogee_vector::Chunk;

/// All that `open` gives, flat.
pub fn drain(query: Query, open: OpenPipeline, threads: usize) -> Result<Vec<Chunk>, ExecError> {
    let scheduler = Scheduler::new(threads);
    let mut stream = query.stream(open, &scheduler, 4);
    let mut context = Context::from_waker(Waker::noop());
    let mut chunks = Vec::new();
    loop {
        match stream.poll_next(&mut context) {
            Poll::Ready(Some(chunk)) => chunks.push(chunk?.flatten()?),
            Poll::Ready(None) => return Ok(chunks),
            Poll::Pending => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}
