//! Reading sorted rows for window functions, and giving them out with their values.

use std::{collections::VecDeque, sync::Arc};

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use ogee_memory::Reservation;
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;

use super::{
    CONSUMER, WindowCall, WindowFunction, WindowSpec,
    parts::Sorted,
    results::Results,
    state::{Piece, WindowState, state},
};
use crate::{
    ExecContext, ExecError, RowOrder, Source, SourceLocal, SourceStep,
    cancel::{Cancelled, obey},
    sort::{Merge, Position, SortPlan},
};

/// Chunks that a lane makes between two looks at what else there is to do.
const MORSEL_CHUNKS: usize = 64;

/// Rows of a chunk, at first; more follow where they take less than [`CHUNK_BYTES`].
const FIRST_ROWS: usize = 64;

/// Bytes of a chunk that lanes try to stay below: its strings are copied.
const CHUNK_BYTES: usize = 2 << 20;

/// Rows with the values of window functions.
pub(crate) struct WindowSource {
    spec: Arc<WindowSpec>,
    plan: Arc<SortPlan>,
    ctx: ExecContext,
    sorted: Sorted,
    /// There are no partitions: rows come in order, from one lane.
    order: Option<Arc<RowOrder>>,
}

impl WindowSource {
    pub(crate) fn new(
        spec: WindowSpec,
        plan: Arc<SortPlan>,
        ctx: ExecContext,
        sorted: Sorted,
        order: Option<Arc<RowOrder>>,
    ) -> Self {
        Self { spec: Arc::new(spec), plan, ctx, sorted, order }
    }
}

impl Source for WindowSource {
    fn name(&self) -> &str {
        "window"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.spec.schema)
    }

    fn lanes(&self, threads: usize) -> usize {
        self.sorted.lanes(&self.ctx, threads, &self.plan, self.order.as_deref())
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        let threads = ctx.settings.threads.max(1);
        let lanes = self.sorted.lanes(ctx, threads, &self.plan, self.order.as_deref());
        let columns = |call: &WindowCall| match &call.function {
            WindowFunction::Foreign(function) => function.columns().to_vec(),
            _ => Vec::new(),
        };
        Ok(Box::new(WindowLocal {
            foreign_columns: self.spec.calls.iter().map(columns).collect(),
            spec: Arc::clone(&self.spec),
            plan: Arc::clone(&self.plan),
            sorted: self.sorted.clone(),
            order: self.order.clone(),
            lane,
            budget: ctx.share.claim() / 8 / lanes,
            reservation: ctx.memory.reserve(CONSUMER, 0)?,
            ctx: ctx.clone(),
            range: None,
            rows: Vec::new(),
            chunk_rows: FIRST_ROWS.min(ctx.settings.chunk_capacity),
            last_row: None,
            partitions: Vec::new(),
            chunks: 0,
        }))
    }

    fn stop(&self) {
        self.sorted.stop();
    }
}

/// Rows of a range that were read and wait for values.
enum Waiting {
    /// They are kept.
    Kept { chunks: VecDeque<Chunk>, bytes: usize },
    /// There are too many: they are read again.
    Behind(Box<Merge>),
}

/// A function, and its values that wait for rows.
struct Running {
    state: Box<dyn WindowState>,
    results: Results,
}

/// A range being read.
struct Range {
    merge: Merge,
    calls: Vec<Running>,
    waiting: Waiting,
    /// Where the first row that waits is, or one before it: so many rows before.
    from: Position,
    since: usize,
    /// Rows that were read, and that were given out.
    read: usize,
    emitted: usize,
    ended: bool,
}

struct WindowLocal {
    spec: Arc<WindowSpec>,
    plan: Arc<SortPlan>,
    ctx: ExecContext,
    sorted: Sorted,
    order: Option<Arc<RowOrder>>,
    lane: usize,
    foreign_columns: Vec<Vec<usize>>,
    /// Bytes of rows that may wait, and of a partition that a function may keep.
    budget: usize,
    reservation: Reservation,
    range: Option<Range>,
    rows: Vec<*const u8>,
    /// Rows of the next chunk: fewer where their strings are long.
    chunk_rows: usize,
    last_row: Option<*const u8>,
    partitions: Vec<usize>,
    chunks: usize,
}

// SAFETY: addresses of rows are of pages that the merge of the range keeps pinned, and are compared only before it is asked for more.
unsafe impl Send for WindowLocal {}

impl SourceLocal for WindowLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        loop {
            if task.is_cancelled() {
                return Err(ExecError::Cancelled);
            }
            let Some(range) = &mut self.range else {
                let cancelled = || task.is_cancelled();
                let next = self.sorted.next(&self.ctx, &self.plan, self.order.as_deref(), self.lane, &cancelled)?;
                let Some(merge) = next else {
                    return Ok(SourceStep::Exhausted);
                };
                self.range = Some(self.open(merge));
                continue;
            };
            if self.chunks == MORSEL_CHUNKS {
                self.chunks = 0;
                return Ok(SourceStep::MorselEnd);
            }
            let known = range.calls.iter().map(|call| call.results.rows()).min().unwrap_or(range.read - range.emitted);
            if known > 0 {
                self.chunks += 1;
                return Ok(SourceStep::Chunk(self.emit(known)?));
            }
            if range.ended {
                assert_eq!(range.read, range.emitted, "every row has its values at the end");
                self.range = None;
                self.last_row = None;
                continue;
            }
            self.read(&|| task.is_cancelled())?;
        }
    }
}

impl WindowLocal {
    fn open(&self, merge: Merge) -> Range {
        let running = |call: &WindowCall| Running {
            state: state(call, &self.ctx, self.budget / self.spec.calls.len().max(1)),
            results: Results::new(call.output.clone()),
        };
        Range {
            calls: self.spec.calls.iter().map(running).collect(),
            waiting: Waiting::Kept { chunks: VecDeque::new(), bytes: 0 },
            from: merge.position(),
            since: 0,
            merge,
            read: 0,
            emitted: 0,
            ended: false,
        }
    }

    /// Where the first `columns` columns of the key change, into `starts`.
    fn starts(&self, columns: usize, starts: &mut Vec<usize>) {
        starts.clear();
        let end = self.plan.keys.bytes_of(columns);
        let mut before = self.last_row;
        for (at, &row) in self.rows.iter().enumerate() {
            let equal = before.is_some_and(|before| {
                // SAFETY: these rows and the one before them are on pages that are pinned, with their strings.
                columns == 0 || unsafe { self.plan.keys.compare_until(before, row, end) }.is_eq()
            });
            if !equal {
                starts.push(at);
            }
            before = Some(row);
        }
    }

    /// Reads the next rows and hands them to the functions.
    fn read(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let mut range = self.range.take().expect("a range is being read");
        if range.read == range.emitted {
            range.from = range.merge.position();
            range.since = range.emitted;
        }
        range.merge.next_rows(self.chunk_rows, &mut self.rows)?;
        range.ended = self.rows.is_empty();
        let by = self.spec.partition_by.len();
        let mut partitions = std::mem::take(&mut self.partitions);
        self.starts(by, &mut partitions);
        // SAFETY: the merge keeps the rows pinned.
        let chunk = unsafe { self.plan.gather_fixed(&self.rows)? };
        let bytes = chunk_bytes(&chunk);
        if !range.ended {
            let fitting = CHUNK_BYTES * self.rows.len() / bytes.max(1);
            self.chunk_rows = (2 * self.chunk_rows).min(fitting).clamp(1, self.ctx.settings.chunk_capacity);
        }
        let mut peers: Vec<(usize, Vec<usize>)> = Vec::with_capacity(1);
        for (index, call) in self.spec.calls.iter().enumerate() {
            let keys = by + call.order_keys;
            if !peers.iter().any(|(of, _)| *of == keys) {
                let mut starts = Vec::new();
                self.starts(keys, &mut starts);
                peers.push((keys, starts));
            }
            let (_, starts) = peers.iter().find(|(of, _)| *of == keys).expect("added above");
            let mut columns: Vec<ArrayRef> = Vec::with_capacity(1);
            for (expr, _) in call.arg.iter().chain(&call.key) {
                columns.push(expr.evaluate_whole(&self.ctx.memory, &chunk)?.flatten()?);
            }
            for &column in &self.foreign_columns[index] {
                columns.push(Arc::clone(chunk.column(column).array));
            }
            let piece = Piece { rows: self.rows.len(), partitions: &partitions, peers: starts, last: range.ended };
            let Running { state, results } = &mut range.calls[index];
            state.push(&columns, &piece, results)?;
        }
        self.partitions = partitions;
        self.last_row = self.rows.last().copied();
        range.read += self.rows.len();
        if !range.ended {
            self.keep(&mut range, chunk, bytes, cancelled)?;
        }
        let waiting = match &range.waiting {
            Waiting::Kept { bytes, .. } => *bytes,
            Waiting::Behind(_) => 0,
        };
        let bytes = waiting + range.calls.iter().map(|call| call.state.bytes() + call.results.bytes()).sum::<usize>();
        // Small steps are not worth the trouble.
        if bytes > self.reservation.bytes() || bytes + (1 << 20) < self.reservation.bytes() {
            self.reservation.resize(bytes + bytes / 8)?;
        }
        self.range = Some(range);
        Ok(())
    }

    /// Keeps `chunk`, of `chunk_bytes` bytes, until its values are known, if it is not to be read again.
    fn keep(
        &self,
        range: &mut Range,
        chunk: Chunk,
        chunk_bytes: usize,
        cancelled: Cancelled<'_>,
    ) -> Result<(), ExecError> {
        let Waiting::Kept { chunks, bytes } = &mut range.waiting else { return Ok(()) };
        *bytes += chunk_bytes;
        chunks.push_back(chunk);
        if *bytes > self.budget {
            let mut behind = range.merge.resume(&range.from)?;
            let mut skip = range.emitted - range.since;
            let mut rows = Vec::new();
            while skip > 0 {
                obey(cancelled)?;
                behind.next_rows(skip.min(self.ctx.settings.chunk_capacity), &mut rows)?;
                assert!(!rows.is_empty(), "the rows are still there");
                skip -= rows.len();
            }
            self.ctx.counters.note_strategy("window: rows read twice".to_owned());
            range.waiting = Waiting::Behind(Box::new(behind));
        }
        Ok(())
    }

    /// The next rows, of `known` whose values are known.
    fn emit(&mut self, known: usize) -> Result<Chunk, ExecError> {
        let range = self.range.as_mut().expect("rows of a range are known");
        let limit = known.min(self.chunk_rows);
        let chunk = match &mut range.waiting {
            Waiting::Kept { chunks, bytes } => {
                let first = chunks.front_mut().expect("rows that are known were kept");
                if first.len() <= limit {
                    let chunk = chunks.pop_front().expect("there is one");
                    *bytes -= chunk_bytes(&chunk).min(*bytes);
                    chunk
                } else {
                    let chunk = first.slice(0, limit);
                    *bytes -= chunk_bytes(first).min(*bytes);
                    *first = first.slice(limit, first.len() - limit);
                    *bytes += chunk_bytes(first);
                    chunk
                }
            }
            Waiting::Behind(behind) => {
                let mut rows = Vec::with_capacity(limit);
                behind.next_rows(limit, &mut rows)?;
                // SAFETY: the merge keeps the rows pinned.
                unsafe { self.plan.gather_fixed(&rows)? }
            }
        };
        let rows = chunk.len();
        assert!(rows > 0, "rows that are known are still there");
        range.emitted += rows;
        if range.read == range.emitted && matches!(range.waiting, Waiting::Behind(_)) {
            range.waiting = Waiting::Kept { chunks: VecDeque::new(), bytes: 0 };
        }
        let mut columns: Vec<ArrayRef> =
            (0..chunk.num_columns()).map(|column| Arc::clone(chunk.column(column).array)).collect();
        for call in &mut range.calls {
            columns.push(call.results.take(rows)?);
        }
        Ok(Chunk::new(columns, rows))
    }
}

/// About what the rows of `chunk` take, flat as they were gathered.
fn chunk_bytes(chunk: &Chunk) -> usize {
    (0..chunk.num_columns()).map(|column| chunk.column(column).array.get_array_memory_size()).sum()
}
