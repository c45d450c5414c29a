//! Sources that are no files: chunks at hand, and chunks that are pushed from outside.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Poll, Waker},
};

use arrow_schema::SchemaRef;
use ogee_memory::BufferManager;
use ogee_scheduler::{JobWaker, TaskContext};
use ogee_vector::Chunk;
use parking_lot::Mutex;

use crate::{
    ExecContext, ExecError, LaneOrder, RowOrder, Source, SourceLocal, SourceStep,
    waiting::{SHARE, Waiting},
};

/// Chunks that are at hand.
pub struct ChunksSource {
    schema: SchemaRef,
    shared: Arc<Chunks>,
}

struct Chunks {
    chunks: Vec<Chunk>,
    next: Mutex<usize>,
    order: Mutex<Option<Arc<RowOrder>>>,
}

impl ChunksSource {
    /// A source of `chunks`, each at most as large as the chunk capacity.
    pub fn new(schema: SchemaRef, chunks: Vec<Chunk>) -> Arc<Self> {
        Arc::new(Self { schema, shared: Arc::new(Chunks { chunks, next: Mutex::default(), order: Mutex::default() }) })
    }
}

impl Source for ChunksSource {
    fn name(&self) -> &str {
        "chunks"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows_estimate(&self) -> Option<u64> {
        Some(self.shared.chunks.iter().map(|chunk| chunk.len() as u64).sum())
    }

    fn has_order(&self) -> bool {
        true
    }

    fn keep_order(&self, order: &Arc<RowOrder>) {
        *self.shared.order.lock() = Some(Arc::clone(order));
    }

    fn lanes(&self, threads: usize) -> usize {
        threads.min(self.shared.chunks.len() - *self.shared.next.lock())
    }

    fn local(&self, _ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        let order = LaneOrder::new(self.shared.order.lock().clone(), lane);
        Ok(Box::new(ChunksLocal { shared: Arc::clone(&self.shared), order }))
    }

    fn stop(&self) {
        *self.shared.next.lock() = self.shared.chunks.len();
    }
}

struct ChunksLocal {
    shared: Arc<Chunks>,
    order: LaneOrder,
}

impl SourceLocal for ChunksLocal {
    fn next(&mut self, _task: &TaskContext) -> Result<SourceStep, ExecError> {
        self.order.leave();
        let mut next = self.shared.next.lock();
        let is_admitted = self.order.is_admitted();
        let Some(chunk) = self.shared.chunks.get(*next).filter(|_| is_admitted) else {
            return Ok(SourceStep::Exhausted);
        };
        if !self.order.may_begin() {
            return Ok(SourceStep::Blocked);
        }
        self.order.begin();
        *next += 1;
        Ok(SourceStep::Chunk(chunk.clone()))
    }
}

#[derive(Default)]
struct ChannelState {
    chunks: VecDeque<Waiting>,
    /// The sender has finished, and how; the error is taken by the lane that finds it.
    ended: Option<Result<(), ExecError>>,
    /// No rows are wanted any more.
    stopped: bool,
    order: Option<Arc<RowOrder>>,
    sender: Option<Waker>,
    lanes: Option<JobWaker>,
}

struct Channel {
    name: String,
    capacity: usize,
    /// Rows of a chunk.
    chunk_rows: usize,
    memory: Arc<BufferManager>,
    state: Mutex<ChannelState>,
}

/// Whom the memory of chunks in channels is promised to.
const CONSUMER: &str = "feed";

impl Channel {
    fn wake_lanes(&self) {
        let waker = self.state.lock().lanes.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn stop(&self) {
        let (waiting, sender, lanes) = {
            let mut state = self.state.lock();
            state.stopped = true;
            (std::mem::take(&mut state.chunks), state.sender.take(), state.lanes.take())
        };
        drop(waiting);
        if let Some(sender) = sender {
            sender.wake();
        }
        // Those that wait for a chunk leave.
        if let Some(lanes) = lanes {
            lanes.wake();
        }
    }
}

impl Channel {
    /// Waits for room and lets `waiting` in. False: nobody wants it.
    async fn push(&self, waiting: Waiting) -> bool {
        let capacity = if waiting.is_beyond_memory() { 1 } else { self.capacity };
        let mut waiting = Some(waiting);
        let open = std::future::poll_fn(|cx| {
            let mut state = self.state.lock();
            if state.stopped {
                return Poll::Ready(false);
            }
            let bytes: usize = state.chunks.iter().map(|waiting| waiting.bytes).sum();
            if state.chunks.len() >= capacity || bytes >= self.memory.limit() / SHARE && bytes > 0 {
                state.sender = Some(cx.waker().clone());
                return Poll::Pending;
            }
            state.chunks.extend(waiting.take());
            Poll::Ready(true)
        })
        .await;
        if open {
            self.wake_lanes();
        }
        open
    }
}

/// Rows pushed from outside, through a bounded channel.
pub struct ChannelSource {
    schema: SchemaRef,
    channel: Arc<Channel>,
}

impl ChannelSource {
    /// A source of a query in `ctx` and the sender that feeds it; at most `capacity` chunks wait in between, or fewer of many bytes, or one where there
    /// is no memory for more.
    pub fn new(name: &str, schema: SchemaRef, capacity: usize, ctx: &ExecContext) -> (Arc<Self>, ChannelSender) {
        let channel = Arc::new(Channel {
            name: name.to_owned(),
            capacity: capacity.max(1),
            chunk_rows: ctx.settings.chunk_capacity,
            memory: Arc::clone(&ctx.memory),
            state: Mutex::default(),
        });
        let source = Self { schema, channel: Arc::clone(&channel) };
        (Arc::new(source), ChannelSender { channel: Some(channel) })
    }
}

impl Source for ChannelSource {
    fn name(&self) -> &str {
        &self.channel.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn attach(&self, waker: JobWaker) {
        self.channel.state.lock().lanes = Some(waker);
    }

    fn has_order(&self) -> bool {
        true
    }

    fn keep_order(&self, order: &Arc<RowOrder>) {
        self.channel.state.lock().order = Some(Arc::clone(order));
    }

    fn local(&self, _ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        let order = LaneOrder::new(self.channel.state.lock().order.clone(), lane);
        Ok(Box::new(ChannelLocal { channel: Arc::clone(&self.channel), order }))
    }

    fn stop(&self) {
        self.channel.stop();
    }
}

impl Drop for ChannelSource {
    fn drop(&mut self) {
        self.channel.stop();
    }
}

struct ChannelLocal {
    channel: Arc<Channel>,
    order: LaneOrder,
}

impl SourceLocal for ChannelLocal {
    fn next(&mut self, _task: &TaskContext) -> Result<SourceStep, ExecError> {
        self.order.leave();
        let (step, sender) = {
            let mut state = self.channel.state.lock();
            if !self.order.is_admitted() {
                return Ok(SourceStep::Exhausted);
            }
            if !state.chunks.is_empty() && !self.order.may_begin() {
                return Ok(SourceStep::Blocked);
            }
            match state.chunks.pop_front() {
                Some(waiting) => {
                    self.order.begin();
                    (SourceStep::Chunk(waiting.chunk), state.sender.take())
                }
                None if state.stopped => (SourceStep::Exhausted, None),
                None => match &mut state.ended {
                    Some(result) => {
                        std::mem::replace(result, Ok(()))?;
                        (SourceStep::Exhausted, None)
                    }
                    None => (SourceStep::Blocked, None),
                },
            }
        };
        if let Some(sender) = sender {
            sender.wake();
        }
        Ok(step)
    }
}

/// Feeds a [`ChannelSource`]. Dropped before [`finish`](Self::finish), it fails the query: rows would be missing.
pub struct ChannelSender {
    channel: Option<Arc<Channel>>,
}

impl ChannelSender {
    /// Waits for room and hands over `rows`, of any number. False: nobody wants more.
    pub async fn send(&mut self, rows: &Chunk) -> bool {
        let Some(channel) = &self.channel else {
            return false;
        };
        for waiting in Waiting::pieces(&channel.memory, CONSUMER, rows, channel.chunk_rows) {
            if !channel.push(waiting).await {
                return false;
            }
        }
        true
    }

    /// Ends the source, well or with an error.
    pub fn finish(mut self, result: Result<(), ExecError>) {
        self.end(result);
    }

    fn end(&mut self, result: Result<(), ExecError>) {
        if let Some(channel) = self.channel.take() {
            channel.state.lock().ended = Some(result);
            channel.wake_lanes();
        }
    }
}

impl Drop for ChannelSender {
    fn drop(&mut self) {
        self.end(Err(ExecError::Foreign("the input of the query ended early".into())));
    }
}
