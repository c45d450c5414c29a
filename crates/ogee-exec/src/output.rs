//! The end of a query's last pipeline: a bounded output that its consumer drains, from a thread or as a future.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use ogee_scheduler::{JobWaker, TaskContext};
use ogee_vector::Chunk;
use parking_lot::Mutex;

use crate::{ExecContext, ExecError, Flow, RunningQuery, Sink, SinkLocal};

#[derive(Default)]
struct State {
    chunks: VecDeque<Chunk>,
    /// Set once, when the query has ended and its lanes hold nothing any more.
    ended: Option<Result<(), ExecError>>,
    /// The consumer is gone.
    abandoned: bool,
    consumer: Option<Waker>,
    producer: Option<JobWaker>,
}

struct Shared {
    capacity: usize,
    state: Mutex<State>,
}

/// A bounded output: its sink, what ends it, and its stream. A lane may overshoot `capacity` by the chunks that one chunk of its source becomes.
pub(crate) fn output_channel(capacity: usize) -> (Arc<OutputSink>, OutputCloser, OutputStream) {
    let shared = Arc::new(Shared { capacity, state: Mutex::default() });
    let sink = Arc::new(OutputSink { shared: Arc::clone(&shared) });
    let closer = OutputCloser { shared: Arc::clone(&shared) };
    (sink, closer, OutputStream { shared, running: None })
}

/// Ends the stream with the query's result.
pub(crate) struct OutputCloser {
    shared: Arc<Shared>,
}

impl OutputCloser {
    pub(crate) fn close(self, result: Result<(), ExecError>) {
        let waker = {
            let mut state = self.shared.state.lock();
            state.producer = None;
            state.ended = Some(result);
            state.consumer.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Sink of the bounded output.
pub struct OutputSink {
    shared: Arc<Shared>,
}

impl Sink for OutputSink {
    fn name(&self) -> &str {
        "output"
    }

    fn attach(&self, waker: JobWaker) {
        self.shared.state.lock().producer = Some(waker);
    }

    fn ready(&self) -> bool {
        let state = self.shared.state.lock();
        state.abandoned || state.chunks.len() < self.shared.capacity
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        Ok(Box::new(OutputLocal { shared: Arc::clone(&self.shared) }))
    }

    fn finish(&self, _ctx: &ExecContext) -> Result<(), ExecError> {
        Ok(())
    }
}

struct OutputLocal {
    shared: Arc<Shared>,
}

impl SinkLocal for OutputLocal {
    fn consume(&mut self, chunk: Chunk, _task: &TaskContext) -> Result<Flow, ExecError> {
        let waker = {
            let mut state = self.shared.state.lock();
            if state.abandoned {
                return Ok(Flow::Stop);
            }
            state.chunks.push_back(chunk);
            state.consumer.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(Flow::Continue)
    }

    fn combine(self: Box<Self>) -> Result<(), ExecError> {
        Ok(())
    }
}

/// The rows of a running query. Dropping it cancels the query.
pub struct OutputStream {
    shared: Arc<Shared>,
    running: Option<RunningQuery>,
}

impl OutputStream {
    pub(crate) fn cancels(&mut self, running: RunningQuery) {
        self.running = Some(running);
    }

    /// The next chunk. `None` comes only after all lanes have released their memory; before it an error if the query failed.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, ExecError>>> {
        let (poll, producer) = {
            let mut state = self.shared.state.lock();
            if let Some(chunk) = state.chunks.pop_front() {
                // Lanes that found the output full go on when half of it is drained, not at every chunk.
                let wake = state.chunks.len() == self.shared.capacity / 2;
                (Poll::Ready(Some(Ok(chunk))), state.producer.clone().filter(|_| wake))
            } else {
                match &mut state.ended {
                    Some(result) => match std::mem::replace(result, Ok(())) {
                        Ok(()) => (Poll::Ready(None), None),
                        Err(error) => (Poll::Ready(Some(Err(error))), None),
                    },
                    None => {
                        state.consumer = Some(cx.waker().clone());
                        (Poll::Pending, state.producer.clone())
                    }
                }
            }
        };
        if let Some(producer) = producer {
            producer.wake();
        }
        poll
    }

    /// Asks the query to end; the stream then ends with [`ExecError::Cancelled`].
    pub fn cancel(&self) {
        if let Some(running) = &self.running {
            running.cancel();
        }
    }
}

impl Drop for OutputStream {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.abandoned = true;
            state.chunks.clear();
            if state.ended.is_some() {
                return;
            }
        }
        self.cancel();
    }
}
