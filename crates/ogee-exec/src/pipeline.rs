//! Pipelines: source, streaming operators, sink, and the job that runs them in morsels.

use std::{fmt, sync::Arc};

use arrow_schema::SchemaRef;
use ogee_scheduler::{Job, JobError, JobWaker, Step, TaskContext};
use ogee_vector::{Chunk, Domain};
use parking_lot::Mutex;

use crate::{
    ExecContext, ExecError, Expr, OpenPipeline, OperatorProfile, Restriction, RowOrder,
    parts::Parts,
    profile::Part,
    stages::{Moved, Stages, StagesLocal},
};

/// What a source's lane found.
#[derive(Debug)]
pub enum SourceStep {
    /// Rows, at most the chunk capacity.
    Chunk(Chunk),
    /// A morsel is done: the place where a worker may be given something else to do.
    MorselEnd,
    /// Nothing now; the waker passed to [`Source::attach`] is called when that changes.
    Blocked,
    /// This lane finds no more rows.
    Exhausted,
}

/// Where the rows of a pipeline come from. Lanes share it and take morsels from it.
pub trait Source: Send + Sync {
    /// Name for traces and errors.
    fn name(&self) -> &str;

    /// Columns of the chunks, in normalized types.
    fn schema(&self) -> SchemaRef;

    /// About how many rows will come, if that is known.
    fn rows_estimate(&self) -> Option<u64> {
        None
    }

    /// What statistics say about its columns, in order; columns that are missing at the end are unknown.
    fn domains(&self) -> Vec<Domain> {
        Vec::new()
    }

    /// Told before the query begins: rows need not be given that do not matter by `restriction`, which is about `columns`. Whether the source asks it
    /// about the rows that it gives; if not, it may still leave out what it knows not to matter.
    fn restrict(&self, columns: &[usize], restriction: &Arc<Restriction>) -> bool {
        let _ = (columns, restriction);
        false
    }

    /// The pipelines whose rows it gives, one after the other, if there are such. Until the query begins they may be changed.
    fn parts(&self) -> Option<&Mutex<Vec<OpenPipeline>>> {
        None
    }

    /// Told before the first morsel, at most once: only rows for which `predicate` is true are wanted. Whether the source leaves out all others; if
    /// not, it leaves out none. Nothing but its columns decides what `predicate` is.
    fn filter(&self, predicate: &Expr) -> bool {
        let _ = predicate;
        false
    }

    /// Told before the first morsel: of its rows in their order only those from number `skip` on are wanted, and of these the first `fetch`, or all.
    /// What was told before holds too, so that these are numbers of what was left. Whether it leaves out all others; if not, it leaves out none.
    fn limit(&self, skip: u64, fetch: Option<u64>) -> bool {
        let _ = (skip, fetch);
        false
    }

    /// Whether its rows have an order: that in which they lie where they come from, or one that it makes.
    fn has_order(&self) -> bool {
        false
    }

    /// Told before the query begins: rows are to come in their order, in ranges of `order`, and not in another one that it was told of before. Told to nobody but who
    /// [has one](Self::has_order).
    fn keep_order(&self, order: &Arc<RowOrder>) {
        let _ = order;
    }

    /// Lanes that have something to do, at most `threads`. Asked again at each morsel boundary.
    fn lanes(&self, threads: usize) -> usize {
        threads
    }

    /// Told once, before the first morsel, how to wake lanes that were blocked.
    fn attach(&self, waker: JobWaker) {
        drop(waker);
    }

    /// State of one lane, made when the lane first runs.
    ///
    /// # Errors
    /// As the source fails.
    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError>;

    /// Told that no more rows are wanted, e.g. since a limit is reached.
    fn stop(&self) {}
}

/// One lane's position in a source.
pub trait SourceLocal: Send {
    /// The next chunk or what else there is to know.
    ///
    /// # Errors
    /// As the source fails.
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError>;
}

/// Whether more rows are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// No rows are wanted any more, from any lane.
    Stop,
}

/// A column of what goes into the sink of another pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'o> {
    /// The number of that pipeline.
    pub pipeline: usize,
    /// The number of the column.
    pub column: usize,
    /// About how many rows there are.
    pub rows: &'o RowsExpected,
}

/// About how many rows there will be: found out when somebody asks.
#[derive(Clone)]
pub struct RowsExpected(Arc<dyn Fn() -> u64 + Send + Sync>);

impl RowsExpected {
    /// The number that `rows` finds.
    pub fn new(rows: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(rows))
    }

    /// The number.
    pub fn get(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for RowsExpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowsExpected")
    }
}

/// A streaming operator: keeps nothing beyond the chunk at hand, and may pause before each chunk that it gives.
pub trait Operator: Send + Sync {
    /// Name for traces and errors.
    fn name(&self) -> &str;

    /// Columns of the chunks that it emits, given those that it gets.
    fn columns(&self, input: usize) -> usize {
        input
    }

    /// What is known of its columns, given that of the columns it gets. As they are, unless it computes columns.
    fn domains(&self, input: Vec<Domain>) -> Vec<Domain> {
        input
    }

    /// The column of the input that column `column` of the output is, if what is given does not change but for the rows that come of an input
    /// row when that row is left out.
    fn origin(&self, column: usize) -> Option<usize> {
        let _ = column;
        None
    }

    /// A column of rows that were kept for it before: if no rows are wanted that have some values in column `column` of the output, it needs none that
    /// have them in that one.
    fn kept(&self, column: usize) -> Option<Kept<'_>> {
        let _ = column;
        None
    }

    /// Whether it gives a row for each row, in the order in which they come.
    fn keeps_rows(&self) -> bool {
        false
    }

    /// Whether what becomes of a row comes before what becomes of those after it.
    fn keeps_order(&self) -> bool {
        self.keeps_rows()
    }

    /// Whether a row may become several.
    fn multiplies(&self) -> bool {
        false
    }

    /// The rows that it skips and those that it passes then, if this is a [`Limit`](crate::Limit): what it does depends on the rows that come before, from whichever lane.
    fn limit(&self) -> Option<(u64, Option<u64>)> {
        None
    }

    /// Whether it does next to nothing to a row: counts it, moves its columns, compares some.
    fn is_light(&self) -> bool {
        false
    }

    /// Whether it evaluates what [`may_grow`](Expr::may_grow), which it does where a chunk begins, before anything else. A chunk then comes in parts.
    fn may_grow(&self) -> bool {
        false
    }

    /// Whose rows pass here, if this is no operator but a [`Mark`](crate::Mark).
    fn mark(&self) -> Option<&Arc<OperatorProfile>> {
        None
    }

    /// State of lane `lane`: scratch.
    fn local(&self, ctx: &ExecContext, lane: usize) -> Box<dyn OperatorLocal>;

    /// Lanes that it has memory for, at most `threads`. Asked again at each morsel boundary.
    fn lanes(&self, threads: usize) -> usize {
        threads
    }

    /// Where the rows come from that it gives only when it has seen all others, if it ever keeps rows back. They go to the
    /// operators behind it.
    fn rest(&self) -> Option<Arc<dyn Source>> {
        None
    }

    /// Called once after every lane has flushed and before the first row of [`Self::rest`] is asked for; never where there is no rest.
    ///
    /// # Errors
    /// As the operator fails.
    fn finish(&self, _ctx: &ExecContext, _task: &TaskContext) -> Result<(), ExecError> {
        Ok(())
    }
}

/// What one lane's part of an operator has of the chunk that it began with.
#[derive(Debug)]
pub enum OperatorStep {
    /// Rows, at most the chunk capacity; there may be more. None, if this was a part of the work that found none: an occasion to pause.
    Chunk(Chunk),
    /// There are no more; the next chunk may come.
    Done,
    /// There are no more, and no further rows are wanted, from any lane.
    Stop,
}

/// One lane's part of an operator: takes a chunk, and gives what becomes of it chunk by chunk.
///
/// Between two calls the lane may be parked for as long as it pleases the consumer of the rows, or dropped; other lanes go on meanwhile. What is kept
/// from one call to the next is a chunk and a place in it, whatever becomes of the chunk in the end.
pub trait OperatorLocal: Send {
    /// Takes `chunk`, which has rows. Called only when all that became of the chunk before was given. What may take long asks whether it is `cancelled`.
    ///
    /// # Errors
    /// As evaluation fails.
    fn begin(&mut self, chunk: Chunk, cancelled: &dyn Fn() -> bool) -> Result<(), ExecError>;

    /// The next rows of what becomes of the chunk.
    ///
    /// # Errors
    /// As evaluation fails.
    fn next(&mut self) -> Result<OperatorStep, ExecError>;

    /// Called when the lane has seen its last row: hands over what it kept back, and lets go of a chunk that nobody wants the rest of. Never called
    /// where there is no rest.
    ///
    /// # Errors
    /// As the operator fails.
    fn drain(&mut self) -> Result<(), ExecError> {
        Ok(())
    }
}

/// One lane's part of an operator that makes one chunk of each, or none.
pub(crate) trait Map: Send {
    /// What becomes of `chunk`.
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError>;
}

impl<F: FnMut(Chunk) -> Chunk + Send> Map for F {
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError> {
        Ok(OperatorStep::Chunk(self(chunk)))
    }
}

/// The same as an [`OperatorLocal`].
pub(crate) struct Mapped<M> {
    map: M,
    step: Option<OperatorStep>,
}

impl<M: Map + 'static> Mapped<M> {
    /// The lane's part of an operator that is `map`.
    pub(crate) fn local(map: M) -> Box<dyn OperatorLocal> {
        Box::new(Self { map, step: None })
    }
}

impl<M: Map> OperatorLocal for Mapped<M> {
    fn begin(&mut self, chunk: Chunk, _cancelled: &dyn Fn() -> bool) -> Result<(), ExecError> {
        self.step = Some(self.map.map(chunk)?);
        Ok(())
    }

    fn next(&mut self) -> Result<OperatorStep, ExecError> {
        Ok(self.step.take().unwrap_or(OperatorStep::Done))
    }

    fn drain(&mut self) -> Result<(), ExecError> {
        self.step = None;
        Ok(())
    }
}

/// Where the rows of a pipeline go.
pub trait Sink: Send + Sync {
    /// Name for traces and errors.
    fn name(&self) -> &str;

    /// Lanes that the memory grant allows, at most `threads`. Asked again at each morsel boundary.
    fn lanes(&self, threads: usize) -> usize {
        threads
    }

    /// Told once how to wake lanes that found the sink not ready.
    fn attach(&self, waker: JobWaker) {
        drop(waker);
    }

    /// Whether a chunk may be pushed now: false while a bounded output is full. The waker is called when that changes.
    fn ready(&self) -> bool {
        true
    }

    /// State of one lane, made when the lane first runs.
    ///
    /// # Errors
    /// When memory for it is not to be had.
    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SinkLocal>, ExecError>;

    /// Told that lane `lane` failed with `error`, and makes no more rows. Whether the sink takes the error for its own, to give it in the place of those rows.
    ///
    /// # Errors
    /// `error`, if it does not.
    fn failed(&self, lane: usize, error: ExecError) -> Result<(), ExecError> {
        let _ = lane;
        Err(error)
    }

    /// How many rows of `chunk` it takes at a time, at least one: the others wait in the lane until it is ready again.
    fn rows_at_a_time(&self, chunk: &Chunk) -> usize {
        chunk.len()
    }

    /// Whether it evaluates what [`may_grow`](Expr::may_grow), which it does before anything else. Chunks then come in parts.
    fn may_grow(&self) -> bool {
        false
    }

    /// Called once after every lane has combined. It looks at the cancellation for each page that it goes through.
    ///
    /// # Errors
    /// As the sink fails.
    fn finish(&self, ctx: &ExecContext, task: &TaskContext) -> Result<(), ExecError>;
}

/// One lane's part of a sink.
pub trait SinkLocal: Send {
    /// Takes the rows of `chunk`.
    ///
    /// # Errors
    /// When memory runs out, or evaluation fails.
    fn consume(&mut self, chunk: Chunk, task: &TaskContext) -> Result<Flow, ExecError>;

    /// Called when the lane has seen its last row: hands its state over to the sink. It looks at the cancellation for each page that it goes
    /// through.
    ///
    /// # Errors
    /// As the sink fails.
    fn combine(self: Box<Self>, _task: &TaskContext) -> Result<(), ExecError>;
}

/// A source, streaming operators and a sink: the unit that the scheduler runs.
pub struct Pipeline {
    name: String,
    source: Arc<dyn Source>,
    operators: Vec<Arc<dyn Operator>>,
    sink: Arc<dyn Sink>,
    owner: Option<Arc<OperatorProfile>>,
}

impl Pipeline {
    /// A pipeline from `source` through `operators` into `sink`, which counts as a part of `owner`.
    pub fn new(
        source: Arc<dyn Source>,
        operators: Vec<Arc<dyn Operator>>,
        sink: Arc<dyn Sink>,
        owner: Option<Arc<OperatorProfile>>,
    ) -> Self {
        let name = Self::name_of(&*source, &operators, &sink);
        Self { name, source, operators, sink, owner }
    }

    /// The name of a pipeline of these parts.
    pub(crate) fn name_of(source: &dyn Source, operators: &[Arc<dyn Operator>], sink: &Arc<dyn Sink>) -> String {
        let mut name = source.name().to_owned();
        let operators = operators.iter().filter(|operator| operator.mark().is_none());
        for step in operators.map(|operator| operator.name()).chain([sink.name()]) {
            name.push_str(" → ");
            name.push_str(step);
        }
        name
    }

    /// The names of its parts, joined by arrows.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn into_job(self, ctx: ExecContext) -> PipelineJob {
        let lanes = (0..ctx.settings.threads.max(1)).map(|_| Mutex::new(Lane::Fresh)).collect();
        PipelineJob {
            name: self.name,
            stages: Stages::new(self.source, self.operators, self.owner, true),
            sink: self.sink,
            ctx,
            lanes,
        }
    }
}

/// Chunks that a lane makes without asking whether its worker is wanted elsewhere: a morsel may be one row that is joined with millions.
const CHUNKS_BEFORE_YIELD: usize = 512;

/// State of one lane of a running pipeline.
enum Lane {
    Fresh,
    Running(Box<LaneState>),
    Done,
}

struct LaneState {
    stages: StagesLocal,
    sink: Box<dyn SinkLocal>,
    /// Of the chunk that the sink takes, if it evaluates what may grow.
    parts: Option<Parts>,
    /// The rows of the last chunk that the sink has not taken.
    left: Option<Chunk>,
}

impl LaneState {
    /// The next chunk for `sink`, and no more of it than it takes at a time.
    fn next(&mut self, sink: &dyn Sink, task: &TaskContext) -> Result<Moved, ExecError> {
        let chunk = match self.left.take() {
            Some(left) => left,
            None => match self.stages.advance(task)? {
                Moved::Chunk(chunk) if !chunk.is_empty() => chunk,
                moved => return Ok(moved),
            },
        };
        let rows = sink.rows_at_a_time(&chunk);
        if rows >= chunk.len() {
            return Ok(Moved::Chunk(chunk));
        }
        self.left = Some(chunk.slice(rows, chunk.len() - rows));
        Ok(Moved::Chunk(chunk.slice(0, rows)))
    }
}

/// Has `sink` take `chunk`, in `parts` if there are such.
fn consume(
    sink: &mut dyn SinkLocal,
    parts: Option<&mut Parts>,
    chunk: Chunk,
    task: &TaskContext,
) -> Result<Flow, ExecError> {
    let Some(parts) = parts else { return sink.consume(chunk, task) };
    parts.begin(chunk);
    while let Some(flow) = parts.take(|part| sink.consume(part, task))? {
        if task.is_cancelled() {
            return Err(ExecError::Cancelled);
        }
        if flow == Flow::Stop {
            parts.clear();
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

/// A pipeline in execution.
pub(crate) struct PipelineJob {
    name: String,
    stages: Arc<Stages>,
    sink: Arc<dyn Sink>,
    ctx: ExecContext,
    lanes: Vec<Mutex<Lane>>,
}

impl PipelineJob {
    fn start(&self, lane: usize) -> Result<LaneState, ExecError> {
        // The sink first: it may claim memory that the source must then do with less of.
        let sink = self.sink.local(&self.ctx, lane)?;
        let parts = self.sink.may_grow().then(|| Parts::new(&self.ctx.memory));
        Ok(LaneState { stages: self.stages.local(&self.ctx, lane)?, sink, parts, left: None })
    }

    /// Runs until the end of the morsel, or until so many chunks came out of it that others should have their turn.
    fn run_morsel(&self, state: &mut LaneState, task: &TaskContext) -> Result<Step, ExecError> {
        for _ in 0..CHUNKS_BEFORE_YIELD {
            // Before a chunk is made, wherever in the pipeline: nobody has to keep what the sink has no room for.
            if !self.sink.ready() {
                return Ok(Step::Blocked);
            }
            match state.next(&*self.sink, task)? {
                Moved::Chunk(chunk) => {
                    let LaneState { stages, sink, parts, left } = &mut *state;
                    let full = !chunk.is_empty()
                        && stages.profile.timed(Part::Sink, || consume(&mut **sink, parts.as_mut(), chunk, task))?
                            == Flow::Stop;
                    if full {
                        *left = None;
                        self.stages.stop();
                    }
                }
                Moved::MorselEnd => break,
                Moved::Blocked => return Ok(Step::Blocked),
                Moved::Exhausted => return Ok(Step::Exhausted),
            }
        }
        Ok(Step::Again)
    }

    fn run_lane(&self, lane: usize, task: &TaskContext) -> Result<Step, ExecError> {
        let mut slot = self.lanes[lane].lock();
        if let Lane::Fresh = *slot {
            *slot = Lane::Running(Box::new(self.start(lane)?));
        }
        let Lane::Running(state) = &mut *slot else {
            return Ok(Step::Exhausted);
        };
        self.ctx.memory.revise();
        let step = self.run_morsel(state, task);
        state.stages.report();
        let step = match step {
            Err(error) if !matches!(error, ExecError::Cancelled) => {
                self.sink.failed(lane, error)?;
                Step::Exhausted
            }
            step => step?,
        };
        if matches!(step, Step::Exhausted) {
            let Lane::Running(state) = std::mem::replace(&mut *slot, Lane::Done) else {
                unreachable!("matched above, and the lane is locked");
            };
            state.sink.combine(task)?;
        }
        Ok(step)
    }
}

impl Job for PipelineJob {
    fn name(&self) -> &str {
        &self.name
    }

    fn lanes(&self) -> usize {
        let threads = self.lanes.len();
        self.stages.lanes(threads).min(self.sink.lanes(threads)).clamp(1, threads)
    }

    fn attach(&self, waker: JobWaker) {
        self.stages.attach(&waker);
        self.sink.attach(waker);
    }

    fn run(&self, lane: usize, task: &TaskContext) -> Result<Step, JobError> {
        Ok(self.ctx.share.run(&|| task.is_cancelled(), || self.run_lane(lane, task))?)
    }

    fn finish(&self, task: &TaskContext) -> Result<(), JobError> {
        self.ctx.share.run(&|| task.is_cancelled(), || self.sink.finish(&self.ctx, task))?;
        self.ctx.share.end_phase();
        Ok(())
    }
}
