//! Stages of a pipeline: its source, then, operator by operator, the rows that operators kept back.
//!
//! A join gives some rows only when it has seen all others: those that nothing matched, those of partitions that were not in memory. They
//! flow through the operators behind it, so they are one more stage of the same pipeline: lanes meet at its beginning, and nowhere
//! else. Stage 0 is the source and feeds operator 0; the stage of the rest of operator `i` feeds operator `i + 1`.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use ogee_scheduler::{JobWaker, TaskContext};
use ogee_vector::Chunk;
use parking_lot::Mutex;

use crate::{
    ExecContext, ExecError, Operator, OperatorLocal, OperatorProfile, OperatorStep, Source, SourceLocal, SourceStep,
    cancel::Cancelled,
    parts::Parts,
    profile::{LaneProfile, Marks, Part},
};

/// A source with the operators behind it, and how far its lanes are.
pub(crate) struct Stages {
    /// Of each stage: the operator that it feeds first, and where its rows come from.
    stages: Vec<(usize, Arc<dyn Source>)>,
    operators: Vec<Arc<dyn Operator>>,
    marks: Marks,
    /// The source is made of stages, which take the time themselves.
    times_itself: bool,
    /// The source's rows are counted as scanned here, and not by a source that these stages are a part of.
    counts_rows: bool,
    progress: Mutex<Progress>,
    /// Stages that feed an operator before this one are over: somebody behind wants no more rows.
    stopped: AtomicUsize,
    waker: OnceLock<JobWaker>,
}

#[derive(Default)]
struct Progress {
    stage: usize,
    /// Lanes that have begun; each goes through all stages that are left.
    lanes: usize,
    /// Those of them that are through with the stage.
    arrived: usize,
}

impl Stages {
    /// `owner`: what the sink, or the source that these stages are a part of, belongs to.
    pub(crate) fn new(
        source: Arc<dyn Source>,
        operators: Vec<Arc<dyn Operator>>,
        owner: Option<Arc<OperatorProfile>>,
        counts_rows: bool,
    ) -> Arc<Self> {
        let (marks, operators) = Marks::taken_out(operators, owner);
        let times_itself = source.parts().is_some();
        let mut stages = vec![(0, source)];
        stages.extend(operators.iter().enumerate().filter_map(|(at, operator)| Some((at + 1, operator.rest()?))));
        let (progress, stopped) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self {
            stages,
            operators,
            marks,
            times_itself,
            counts_rows,
            progress,
            stopped,
            waker: OnceLock::new(),
        })
    }

    /// Tells the sources, and those who wait at the beginning of a stage, how to wake lanes.
    pub(crate) fn attach(&self, waker: &JobWaker) {
        self.stages.iter().for_each(|(_, source)| source.attach(waker.clone()));
        drop(self.waker.set(waker.clone()));
    }

    /// Lanes that have something to do in the stage at hand, at most `threads`.
    pub(crate) fn lanes(&self, threads: usize) -> usize {
        let stage = self.progress.lock().stage;
        let (feeds, source) = &self.stages[stage];
        self.operators[*feeds..].iter().fold(source.lanes(threads), |lanes, operator| operator.lanes(lanes))
    }

    /// No more rows are wanted, of any stage.
    pub(crate) fn stop(&self) {
        self.stop_before(self.operators.len() + 1);
    }

    /// No more rows are wanted by the operators before number `end`.
    fn stop_before(&self, end: usize) {
        self.stopped.fetch_max(end, Ordering::Relaxed);
        let stage = self.progress.lock().stage;
        let (feeds, source) = &self.stages[stage];
        if *feeds < end {
            source.stop();
            // Lanes that wait for rows learn that none will come.
            if let Some(waker) = self.waker.get() {
                waker.wake();
            }
        }
    }

    /// State of one lane.
    pub(crate) fn local(self: &Arc<Self>, ctx: &ExecContext, lane: usize) -> Result<StagesLocal, ExecError> {
        let stage = {
            let mut progress = self.progress.lock();
            progress.lanes += 1;
            progress.stage
        };
        let operators: Vec<_> = self.operators.iter().map(|operator| operator.local(ctx, lane)).collect();
        let profile = LaneProfile::new(operators.len(), ctx.takes_times);
        let (feeds, source) = &self.stages[stage];
        let (at, open) = (At::Running(source.local(ctx, lane)?), *feeds);
        let parts = self.operators.iter().map(|operator| operator.may_grow().then(|| Parts::new(&ctx.memory)));
        let parts = parts.collect();
        Ok(StagesLocal { stages: Arc::clone(self), ctx: ctx.clone(), lane, stage, at, operators, parts, open, profile })
    }
}

/// One lane's way through the stages.
pub(crate) struct StagesLocal {
    stages: Arc<Stages>,
    ctx: ExecContext,
    lane: usize,
    stage: usize,
    at: At,
    operators: Vec<Box<dyn OperatorLocal>>,
    /// Of the chunk that came last to an operator that evaluates what may grow: the rows that it has not begun with.
    parts: Vec<Option<Parts>>,
    /// The operators from the one that the stage feeds first up to this one, not included, have each begun with a chunk of the one before.
    open: usize,
    pub(crate) profile: LaneProfile,
}

enum At {
    Running(Box<dyn SourceLocal>),
    /// Through with the stage; others are not.
    Waiting,
}

/// What a lane did.
pub(crate) enum Moved {
    /// Rows have come through all operators; without any, the lane did a part of the work, and may pause.
    Chunk(Chunk),
    /// A morsel is done.
    MorselEnd,
    /// It cannot go on until it is woken.
    Blocked,
    /// It is through with all stages.
    Exhausted,
}

impl StagesLocal {
    /// The next chunk that comes through all operators, or an empty one. The operator that is farthest behind the source and has begun with a chunk is asked for its next
    /// rows, which the one behind it begins with; only when none has anything left, the source is.
    ///
    /// One row of a source may become millions: whatever an operator gives, an empty chunk included, is an occasion to obey a cancellation.
    pub(crate) fn advance(&mut self, task: &TaskContext) -> Result<Moved, ExecError> {
        loop {
            if task.is_cancelled() {
                return Err(ExecError::Cancelled);
            }
            if matches!(self.at, At::Waiting) && !self.enter()? {
                return Ok(Moved::Blocked);
            }
            let (feeds, _) = self.stages.stages[self.stage];
            let stopped = self.stages.stopped.load(Ordering::Relaxed);
            if self.open < stopped {
                // Somebody behind the last of them wants no more rows. What the one that said so has begun with it gives: others count on that.
                self.close(feeds);
            }
            let chunk = if self.open > feeds {
                let last = self.open - 1;
                match self.profile.timed(Part::Operator(last), || self.operators[last].next())? {
                    OperatorStep::Chunk(chunk) => chunk,
                    OperatorStep::Done => {
                        if !self.begin(last, None, task)? {
                            self.open = last;
                        }
                        continue;
                    }
                    OperatorStep::Stop => {
                        self.stages.stop_before(self.open);
                        self.close(last);
                        continue;
                    }
                }
            } else {
                let step = match &mut self.at {
                    At::Running(source) if feeds >= stopped => match self.stages.times_itself && feeds == 0 {
                        true => source.next(task)?,
                        false => self.profile.timed(Part::Before(feeds), || source.next(task))?,
                    },
                    _ => SourceStep::Exhausted,
                };
                match step {
                    SourceStep::Chunk(chunk) => chunk,
                    SourceStep::MorselEnd => return Ok(Moved::MorselEnd),
                    SourceStep::Blocked => return Ok(Moved::Blocked),
                    SourceStep::Exhausted if self.stage + 1 == self.stages.stages.len() => return Ok(Moved::Exhausted),
                    SourceStep::Exhausted => {
                        self.leave(task)?;
                        continue;
                    }
                }
            };
            self.profile.passes(self.open, chunk.len());
            if chunk.is_empty() || self.open == self.operators.len() {
                return Ok(Moved::Chunk(chunk));
            }
            self.begin(self.open, Some(chunk), task)?;
            self.open += 1;
        }
    }

    /// Has operator `at` begin with `chunk`, or with the next part of the chunk that came before. False if no part is left.
    fn begin(&mut self, at: usize, chunk: Option<Chunk>, task: &TaskContext) -> Result<bool, ExecError> {
        let cancelled: Cancelled<'_> = &|| task.is_cancelled();
        let (operator, profile) = (&mut self.operators[at], &mut self.profile);
        let Some(parts) = &mut self.parts[at] else {
            let Some(chunk) = chunk else { return Ok(false) };
            return profile.timed(Part::Operator(at), || operator.begin(chunk, cancelled)).map(|()| true);
        };
        if let Some(chunk) = chunk {
            parts.begin(chunk);
        }
        profile.timed(Part::Operator(at), || Ok(parts.take(|part| operator.begin(part, cancelled))?.is_some()))
    }

    /// Of the chunks that operators from number `end` on have begun with, nothing more is wanted.
    fn close(&mut self, end: usize) {
        self.parts[end..].iter_mut().flatten().for_each(Parts::clear);
        self.open = end;
    }

    /// Hands over what was counted: whenever the lane pauses.
    pub(crate) fn report(&mut self) {
        let scanned = self.profile.report(&self.stages.marks, self.lane);
        if scanned > 0 && self.stages.counts_rows {
            self.ctx.counters.add_rows(scanned);
        }
    }

    /// Ends the lane's part of the stage; the last lane begins the next one.
    fn leave(&mut self, task: &TaskContext) -> Result<(), ExecError> {
        let ended = self.stages.stages[self.stage + 1].0 - 1;
        self.operators[ended].drain()?;
        self.at = At::Waiting;
        let last = {
            let mut progress = self.stages.progress.lock();
            progress.arrived += 1;
            let last = progress.arrived == progress.lanes;
            if last {
                // Under the lock: a lane that begins now must find the rows of the stage that it begins with.
                self.stages.operators[ended].finish(&self.ctx, task)?;
                progress.arrived = 0;
                progress.stage += 1;
            }
            last
        };
        if let Some(waker) = self.stages.waker.get().filter(|_| last) {
            waker.wake();
        }
        Ok(())
    }

    /// Goes on with the next stage, if it has begun.
    fn enter(&mut self) -> Result<bool, ExecError> {
        if self.stages.progress.lock().stage == self.stage {
            return Ok(false);
        }
        self.stage += 1;
        let (feeds, source) = &self.stages.stages[self.stage];
        self.at = At::Running(source.local(&self.ctx, self.lane)?);
        self.open = *feeds;
        Ok(true)
    }
}
