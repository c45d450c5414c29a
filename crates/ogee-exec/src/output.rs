//! The end of a query's last pipeline: a bounded output that its consumer drains, from a thread or as a future.
//!
//! Rows come out as they come in, or, if the pipeline has an order (`order`), range by range. A limit above them counts them where they come out: lanes make
//! them side by side all the same.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use arrow_array::{ArrayRef, GenericByteViewArray, cast::AsArray, types::ByteViewType};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use ogee_memory::BufferManager;
use ogee_row::own_strings;
use ogee_scheduler::{JobWaker, TaskContext};
use ogee_vector::{Chunk, Column, PhysicalType};
use parking_lot::Mutex;

use crate::{
    ExecContext, ExecError, Flow, RowOrder, RunningQuery, Sink, SinkLocal,
    sort::RowSlice,
    waiting::{SHARE, Waiting, chunk_bytes},
};

/// Chunks of one range of an ordered pipeline.
#[derive(Default)]
struct Range {
    chunks: VecDeque<Waiting>,
    /// No more will come.
    ended: bool,
    /// What happened instead of the rows after them.
    error: Option<ExecError>,
}

#[derive(Default)]
struct State {
    /// The range whose turn it is, and those after it that have begun. Without an order there is one, which never ends.
    ranges: VecDeque<Range>,
    /// Number of the first of `ranges`.
    first: usize,
    /// Rows of ranges whose turn has not come, and how many there may be.
    ahead: usize,
    ahead_max: usize,
    /// Bytes of all chunks.
    bytes: usize,
    /// There was no memory for a chunk that waits: none but that whose turn it is may come until the consumer has nothing left to read.
    is_beyond_memory: bool,
    /// Set once, when the query has ended and its lanes hold nothing any more.
    ended: Option<Result<(), ExecError>>,
    /// The consumer is gone.
    abandoned: bool,
    consumer: Option<Waker>,
    producer: Option<JobWaker>,
}

impl State {
    fn range(&mut self, range: usize) -> &mut Range {
        let at = range.checked_sub(self.first).expect("a range whose turn is over has ended");
        if at >= self.ranges.len() {
            self.ranges.resize_with(at + 1, Range::default);
        }
        &mut self.ranges[at]
    }

    /// Chunks of the range whose turn it is.
    fn len(&self) -> usize {
        self.ranges.front().map_or(0, |range| range.chunks.len())
    }

    /// Whether a lane with rows of the range whose turn it is may go on.
    fn has_room(&self, shared: &Shared) -> bool {
        self.len() < if self.is_full(shared) { 1 } else { shared.capacity }
    }

    /// Whether chunks take so much that one at a time is enough.
    fn is_full(&self, shared: &Shared) -> bool {
        self.is_beyond_memory || self.bytes >= shared.memory.limit() / SHARE
    }

    /// Whether a lane with rows of a range whose turn has not come may go on. They leave room for some of the range whose turn it is.
    fn has_room_ahead(&self, shared: &Shared) -> bool {
        self.ahead < self.ahead_max && !self.is_beyond_memory && self.bytes < shared.memory.limit() / (2 * SHARE)
    }

    /// Passes the turn on from the first range, which has ended and has no chunks left.
    fn turn(&mut self) {
        self.ranges.pop_front();
        self.first += 1;
        let next = self.ranges.front();
        self.ahead -= next.map_or(0, |next| next.chunks.iter().map(|waiting| waiting.chunk.len()).sum());
    }

    /// The next chunk in order, or the error in its place, and whether another range's turn has come.
    fn pop(&mut self) -> (Option<Result<Chunk, ExecError>>, bool) {
        let mut turned = false;
        while let Some(range) = self.ranges.front_mut() {
            if let Some(waiting) = range.chunks.pop_front() {
                self.bytes -= waiting.bytes;
                return (Some(Ok(waiting.chunk)), turned);
            }
            if let Some(error) = range.error.take() {
                return (Some(Err(error)), turned);
            }
            // Of a query that is over no more rows come, of any range; of one that failed those of ranges behind are not next.
            if !range.ended && !matches!(self.ended, Some(Ok(()))) {
                break;
            }
            self.turn();
            turned = true;
        }
        (None, turned)
    }
}

struct Shared {
    capacity: usize,
    memory: Arc<BufferManager>,
    state: Mutex<State>,
}

/// Rows of ranges whose turn has not come that an output keeps for each lane, unless the source says how many: those of a morsel or two.
const AHEAD_ROWS: usize = 1 << 18;

/// Bytes of rows that an output takes at a time, unless a row has more.
const PIECE_BYTES: usize = 1 << 20;

/// Whom the memory of chunks in outputs is promised to.
const CONSUMER: &str = "output";

/// An output that keeps ranges in order.
pub trait RangedOutput: Send + Sync + std::fmt::Debug {
    /// No more rows of `range` will come.
    fn end_range(&self, range: usize);
    /// Whether rows of `range` may come now.
    fn has_room(&self, range: usize) -> bool;
    /// Sets how many rows may be kept of ranges whose turn has not come.
    fn set_ahead(&self, rows: usize);
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl RangedOutput for Shared {
    fn end_range(&self, range: usize) {
        let (consumer, producer) = {
            let mut state = self.state.lock();
            state.range(range).ended = true;
            // The consumer finds out that the next range's turn has come.
            match range == state.first {
                true => (state.consumer.take(), state.producer.clone()),
                false => (None, None),
            }
        };
        if let Some(consumer) = consumer {
            consumer.wake();
        }
        if let Some(producer) = producer {
            producer.wake();
        }
    }

    fn has_room(&self, range: usize) -> bool {
        let mut state = self.state.lock();
        // A range that ended without rows to wait for passes its turn on, so that nobody depends on the consumer for that.
        let is_over = |front: &Range| front.ended && front.chunks.is_empty() && front.error.is_none();
        while state.ranges.front().is_some_and(is_over) {
            state.turn();
        }
        state.abandoned || range == state.first || state.has_room_ahead(self)
    }

    fn set_ahead(&self, rows: usize) {
        self.state.lock().ahead_max = rows;
    }
}

/// A bounded output of a query in `ctx`, of the rows `wanted` of those that come in: its sink, what ends it, and its stream. Lanes may overshoot `capacity`,
/// or the one chunk that there is memory for, by a chunk each.
pub(crate) fn output_channel(
    capacity: usize,
    order: Option<Arc<RowOrder>>,
    wanted: RowSlice,
    ctx: &ExecContext,
) -> (Arc<OutputSink>, OutputCloser, OutputStream) {
    let state = State { ahead_max: AHEAD_ROWS * ctx.settings.threads, ..State::default() };
    let shared = Arc::new(Shared { capacity, memory: Arc::clone(&ctx.memory), state: Mutex::new(state) });
    if let Some(order) = &order {
        order.attach(Arc::clone(&shared) as Arc<dyn RangedOutput>, ctx.settings.threads);
    }
    let keeps_errors = wanted != RowSlice::ALL;
    let sink = Arc::new(OutputSink { shared: Arc::clone(&shared), order, keeps_errors });
    let closer = OutputCloser { shared: Arc::clone(&shared) };
    (sink, closer, OutputStream { shared, wanted, row: 0, failed: None, running: None })
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
    order: Option<Arc<RowOrder>>,
    /// Only the first rows are wanted, so that an error matters in the place of rows that are.
    keeps_errors: bool,
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
        state.abandoned || state.has_room(&self.shared)
    }

    fn failed(&self, lane: usize, error: ExecError) -> Result<(), ExecError> {
        let Some(order) = self.order.as_ref().filter(|_| self.keeps_errors) else { return Err(error) };
        let consumer = {
            let mut state = self.shared.state.lock();
            if state.abandoned {
                return Ok(());
            }
            let range = order.range(lane);
            // Between two ranges, such as while it opens a file, a lane has no place for it.
            if range < state.first || state.range(range).ended {
                return Err(error);
            }
            state.range(range).error = Some(error);
            state.consumer.take()
        };
        if let Some(consumer) = consumer {
            consumer.wake();
        }
        Ok(())
    }

    /// As many as an output may keep in a few chunks, and no matter how large a chunk of large values is.
    fn rows_at_a_time(&self, chunk: &Chunk) -> usize {
        let bytes = chunk_bytes(chunk);
        if bytes <= PIECE_BYTES {
            return chunk.len();
        }
        (chunk.len() as u128 * PIECE_BYTES as u128 / bytes as u128).max(1) as usize
    }

    fn local(&self, _ctx: &ExecContext, lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        Ok(Box::new(OutputLocal { shared: Arc::clone(&self.shared), order: self.order.clone(), lane }))
    }

    fn finish(&self, _ctx: &ExecContext, _task: &TaskContext) -> Result<(), ExecError> {
        Ok(())
    }
}

/// Bytes of buffers that the strings of a column may keep whatever they need of them.
const KEPT_BYTES: usize = 64 << 10;

/// `strings` in buffers of their own if those that they are in are more than four times as large: a few strings would keep those of many.
fn compacted<T: ByteViewType>(strings: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let kept: usize = strings.data_buffers().iter().map(Buffer::capacity).sum();
    (kept > KEPT_BYTES && kept / 4 > strings.total_buffer_bytes_used()).then(|| Arc::new(strings.gc()) as ArrayRef)
}

/// `chunk` without strings on pages, which it would keep pinned for as long as somebody outside has it, and without buffers that it hardly needs.
fn own(chunk: Chunk) -> Result<Chunk, ExecError> {
    let has_strings = |column: &Column| {
        matches!(PhysicalType::of(column.array.data_type()), Ok(PhysicalType::View | PhysicalType::Nested))
    };
    let columns: Vec<Column> = (0..chunk.num_columns()).map(|column| chunk.to_column(column)).collect();
    if !columns.iter().any(has_strings) {
        return Ok(chunk);
    }
    let own = |column: Column| {
        if !has_strings(&column) {
            return Ok(column);
        }
        let array = own_strings(column.flatten()?)?;
        let compact = match array.data_type() {
            DataType::Utf8View => compacted(array.as_string_view()),
            DataType::BinaryView => compacted(array.as_binary_view()),
            _ => None,
        };
        Ok(Column::flat(compact.unwrap_or(array)))
    };
    let columns = columns.into_iter().map(own).collect::<Result<_, ExecError>>()?;
    Ok(Chunk::from_columns(columns, chunk.len()))
}

struct OutputLocal {
    shared: Arc<Shared>,
    order: Option<Arc<RowOrder>>,
    lane: usize,
}

impl SinkLocal for OutputLocal {
    fn consume(&mut self, chunk: Chunk, _task: &TaskContext) -> Result<Flow, ExecError> {
        let waiting = Waiting::new(&self.shared.memory, CONSUMER, own(chunk)?);
        let waker = {
            let mut state = self.shared.state.lock();
            if state.abandoned {
                return Ok(Flow::Stop);
            }
            let range = self.order.as_ref().map_or(0, |order| order.range(self.lane));
            let ahead = range > state.first;
            if ahead {
                state.ahead += waiting.chunk.len();
            }
            state.is_beyond_memory |= waiting.is_beyond_memory();
            state.bytes += waiting.bytes;
            state.range(range).chunks.push_back(waiting);
            if ahead { None } else { state.consumer.take() }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(Flow::Continue)
    }

    fn combine(self: Box<Self>, _task: &TaskContext) -> Result<(), ExecError> {
        Ok(())
    }
}

/// The rows of a running query. Dropping it cancels the query.
pub struct OutputStream {
    shared: Arc<Shared>,
    /// Rows that are wanted of those that come, in their order.
    wanted: RowSlice,
    /// The number of the row that comes next.
    row: usize,
    /// What happened in the place of rows that are wanted.
    failed: Option<ExecError>,
    running: Option<RunningQuery>,
}

impl OutputStream {
    pub(crate) fn cancels(&mut self, running: RunningQuery) {
        self.running = Some(running);
    }

    /// The next chunk. `None` comes only after all lanes have released their memory; before it an error if the query failed.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, ExecError>>> {
        loop {
            let chunk = match ready!(self.poll_chunk(cx)) {
                Some(Ok(chunk)) => chunk,
                end => {
                    return Poll::Ready(match self.failed.take() {
                        Some(error) => Some(Err(error)),
                        // What happened on the way to rows that nobody wants is nobody's error.
                        None if self.row >= self.wanted.to => None,
                        None => end,
                    });
                }
            };
            let rows = self.wanted.of(self.row, chunk.len());
            self.row += chunk.len();
            if self.row >= self.wanted.to {
                self.abandon();
                self.cancel();
            }
            if rows.len() == chunk.len() {
                return Poll::Ready(Some(Ok(chunk)));
            }
            if !rows.is_empty() {
                return Poll::Ready(Some(Ok(chunk.slice(rows.start, rows.len()))));
            }
        }
    }

    /// Has lanes that come with more rows end.
    fn abandon(&self) {
        let producer = {
            let mut state = self.shared.state.lock();
            state.abandoned = true;
            state.ranges.clear();
            (state.ahead, state.bytes) = (0, 0);
            state.producer.clone()
        };
        if let Some(producer) = producer {
            producer.wake();
        }
    }

    /// The next chunk of those that come.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, ExecError>>> {
        let (poll, producer) = {
            let mut state = self.shared.state.lock();
            let was_full = state.is_full(&self.shared);
            let (next, turned) = state.pop();
            if let Some(Err(error)) = next {
                drop(state);
                // Other lanes may be at work: the error comes when they have ended.
                self.failed = Some(error);
                self.abandon();
                self.cancel();
                return self.poll_chunk(cx);
            }
            if let Some(Ok(chunk)) = next {
                state.is_beyond_memory &= state.len() > 0;
                let has_room = was_full && (state.len() == 0 || !state.is_full(&self.shared));
                // Lanes that found the output full go on when half of it is drained, not at every chunk.
                let wake = turned || has_room || state.len() == self.shared.capacity / 2;
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
        self.abandon();
        if self.shared.state.lock().ended.is_none() {
            self.cancel();
        }
    }
}
