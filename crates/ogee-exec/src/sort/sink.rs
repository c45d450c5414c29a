//! First phase: rows into sorted runs, each as large as the lane's grant.
//!
//! Each lane makes runs of its own (`maker`). Of rows that are wanted only up to a limit, the key of the last that a lane kept is a threshold
//! for all lanes: rows beyond it are dropped before they are staged.

use std::sync::{Arc, OnceLock};

use ogee_memory::PAGE_SIZE;
use ogee_row::RowStage;
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;
use parking_lot::Mutex;

use super::{
    Cancelled,
    guesses::{SortPlans, turned},
    maker::RunMaker,
    plan::{KeyScratch, Misfits, SortPlan},
    run::{Leading, Run},
    source::SortedRows,
};
use crate::{ExecContext, ExecError, Flow, Sink, SinkLocal};

/// Pages of a run at least, where memory is so short that lanes are given up for it.
const RUN_PAGES_MIN: usize = 32;

/// First phase of a sort.
pub(crate) struct SortSink {
    ctx: ExecContext,
    shared: Arc<Shared>,
    sorted: Arc<SortedRows>,
    /// Sorts whose rows are all in memory at once.
    sorts: usize,
}

struct Shared {
    plans: Arc<SortPlans>,
    /// Rows wanted.
    fetch: Option<usize>,
    /// Rows wanted of each partition.
    leading: Option<Leading>,
    /// Lanes, and what each may pin; decided when first asked.
    grant: OnceLock<Grant>,
    /// Rows with a greater prefix are not wanted.
    threshold: Mutex<u128>,
    done: Mutex<Vec<PlannedRuns>>,
}

/// Runs of rows of one plan.
struct PlannedRuns {
    plan: Arc<SortPlan>,
    runs: Vec<Run>,
}

impl PlannedRuns {
    /// The runs as those of `latest`.
    fn into_runs(
        self,
        latest: &Arc<SortPlan>,
        ctx: &ExecContext,
        cancelled: Cancelled<'_>,
    ) -> Result<Vec<Run>, ExecError> {
        if Arc::ptr_eq(&self.plan, latest) {
            return Ok(self.runs);
        }
        let turn = |run| turned(&self.plan, latest, &ctx.memory, ctx.settings.hash, run, cancelled);
        self.runs.into_iter().map(turn).collect()
    }
}

#[derive(Clone, Copy)]
struct Grant {
    lanes: usize,
    lane_bytes: usize,
}

impl SortSink {
    pub(crate) fn new(
        plans: Arc<SortPlans>,
        ctx: ExecContext,
        fetch: Option<usize>,
        leading: Option<Leading>,
        sorted: Arc<SortedRows>,
    ) -> Self {
        let shared = Shared {
            plans,
            fetch,
            leading,
            grant: OnceLock::new(),
            threshold: Mutex::new(u128::MAX),
            done: Mutex::default(),
        };
        Self { ctx, shared: Arc::new(shared), sorted, sorts: 1 }
    }

    /// A sink for all rows of one plan, which has room for every value.
    pub(crate) fn fixed(
        plan: &Arc<SortPlan>,
        ctx: ExecContext,
        leading: Option<Leading>,
        sorted: Arc<SortedRows>,
    ) -> Self {
        Self::new(Arc::new(SortPlans::fixed(Arc::clone(plan))), ctx, None, leading, sorted)
    }

    /// The rows will be read side by side with those of other sorts, `sorts` in all.
    pub(crate) fn among(self, sorts: usize) -> Self {
        Self { sorts, ..self }
    }

    /// Half of the memory that is to be had is for runs in the making; the other half is for those who feed them, and for the pages to which a
    /// run is written.
    fn grant(&self, threads: usize) -> Grant {
        *self.shared.grant.get_or_init(|| {
            let half = self.ctx.share.claim() / 2 / self.sorts;
            let pages = self.shared.plans.latest().layout.open_pages();
            let lanes = (half / (RUN_PAGES_MIN * pages * PAGE_SIZE)).clamp(1, threads);
            Grant { lanes, lane_bytes: half / lanes }
        })
    }
}

impl Sink for SortSink {
    fn name(&self) -> &str {
        if self.shared.fetch.is_some() { "top-k" } else { "sort" }
    }

    fn lanes(&self, threads: usize) -> usize {
        self.grant(threads).lanes
    }

    fn may_grow(&self) -> bool {
        self.shared.plans.latest().may_grow()
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        let grant = self.grant(ctx.settings.threads.max(1));
        let plan = self.shared.plans.latest();
        Ok(Box::new(SortLocal {
            runs: self.shared.maker(&plan, ctx, grant),
            plan,
            grant,
            ctx: ctx.clone(),
            shared: Arc::clone(&self.shared),
            scratch: Scratch::default(),
            earlier: Vec::new(),
        }))
    }

    fn finish(&self, ctx: &ExecContext, task: &TaskContext) -> Result<(), ExecError> {
        let latest = self.shared.plans.latest();
        let mut runs = Vec::new();
        for done in std::mem::take(&mut *self.shared.done.lock()) {
            runs.append(&mut done.into_runs(&latest, ctx, &|| task.is_cancelled())?);
        }
        let moved = runs.iter().filter(|run| run.page_bytes() > 0).count();
        ctx.counters.note_strategy(match (self.shared.fetch, moved) {
            (Some(_), 0) => "sort: first rows only".to_owned(),
            (None, 0) => "sort: in place".to_owned(),
            (_, moved) => format!("sort: {moved} runs"),
        });
        self.sorted.fill(runs);
        Ok(())
    }
}

/// Buffers of a lane, reused for every chunk.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) keys: KeyScratch,
    pub(crate) stage: RowStage,
    pub(crate) selected: Vec<u32>,
}

impl Shared {
    fn maker(&self, plan: &Arc<SortPlan>, ctx: &ExecContext, grant: Grant) -> RunMaker {
        RunMaker::new(plan, ctx, (grant.lane_bytes, grant.lanes), self.fetch, self.leading)
    }
}

/// One lane of the first phase.
struct SortLocal {
    plan: Arc<SortPlan>,
    grant: Grant,
    ctx: ExecContext,
    shared: Arc<Shared>,
    runs: RunMaker,
    scratch: Scratch,
    /// Runs from before a value did not fit.
    earlier: Vec<PlannedRuns>,
}

impl SortLocal {
    /// Goes on with `plan`.
    fn turn_to(&mut self, plan: Arc<SortPlan>, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        if Arc::ptr_eq(&plan, &self.plan) {
            return Ok(());
        }
        let runs = self.shared.maker(&plan, &self.ctx, self.grant);
        let runs = std::mem::replace(&mut self.runs, runs).finish(cancelled)?;
        let plan = std::mem::replace(&mut self.plan, plan);
        if !runs.is_empty() {
            self.earlier.push(PlannedRuns { plan, runs });
        }
        Ok(())
    }

    fn widen(&mut self, misfits: &Misfits, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        self.ctx.counters.note_strategy("sort: guesses do not hold".to_owned());
        let plan = self.shared.plans.widen(&self.plan, misfits)?;
        self.turn_to(plan, cancelled)
    }
}

impl SinkLocal for SortLocal {
    fn consume(&mut self, chunk: Chunk, task: &TaskContext) -> Result<Flow, ExecError> {
        let cancelled = || task.is_cancelled();
        let mut chunk = chunk;
        if chunk.is_empty() {
            return Ok(Flow::Continue);
        }
        self.turn_to(self.shared.plans.plan_for(&chunk)?, &cancelled)?;
        let _held = loop {
            let Scratch { keys, stage, selected } = &mut self.scratch;
            if let Err(misfits) = self.plan.try_evaluate(&chunk, self.ctx.settings.hash, keys)? {
                self.widen(&misfits, &cancelled)?;
                continue;
            }
            if let Some(fetch) = self.shared.fetch {
                if fetch == 0 {
                    return Ok(Flow::Stop);
                }
                let threshold = *self.shared.threshold.lock();
                if threshold != u128::MAX {
                    self.plan.select(chunk.len(), threshold, keys, selected);
                    if selected.is_empty() {
                        return Ok(Flow::Continue);
                    }
                    if selected.len() < chunk.len() {
                        self.plan.narrow(selected, keys)?;
                        chunk = chunk.select(selected);
                    }
                }
            }
            match self.plan.try_stage(&chunk, keys, stage)? {
                Ok(held) => break held,
                Err(misfits) => self.widen(&misfits, &cancelled)?,
            }
        };
        let stage = &self.scratch.stage;
        // SAFETY: staged rows, whose strings are in arrays that are held.
        let last = unsafe { self.runs.append((0..chunk.len()).map(|row| stage.row(row)), &cancelled)? };
        if let Some(last) = last.filter(|_| self.shared.fetch.is_some()) {
            let mut threshold = self.shared.threshold.lock();
            *threshold = last.min(*threshold);
        }
        Ok(Flow::Continue)
    }

    fn combine(mut self: Box<Self>, task: &TaskContext) -> Result<(), ExecError> {
        let cancelled: Cancelled<'_> = &|| task.is_cancelled();
        let latest = self.shared.plans.latest();
        self.turn_to(Arc::clone(&latest), cancelled)?;
        let mut earlier = Vec::new();
        for runs in std::mem::take(&mut self.earlier) {
            earlier.append(&mut runs.into_runs(&latest, &self.ctx, cancelled)?);
        }
        self.runs.put_first(earlier);
        let runs = self.runs.finish(cancelled)?;
        self.shared.done.lock().push(PlannedRuns { plan: latest, runs });
        Ok(())
    }
}
