//! First phase: each lane packs rows into a buffer, and sorts it and writes it out as a run when it is full.
//!
//! A lane whose rows do not fit the layout that statistics promised goes on with the wide one. If there is such a lane, the runs of all become wide in
//! the end.

use std::sync::{Arc, OnceLock};

use arrow_array::ArrayRef;
use ogee_memory::PAGE_SIZE;
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;
use parking_lot::Mutex;

use super::{
    PackedPlan, kernel,
    merge::merged,
    run::{Buffer, PackedRun, RunWriter},
    source::PackedRows,
};
use crate::{ExecContext, ExecError, Flow, Sink, SinkLocal, sort::Cancelled};

/// Pages of a run at least, where memory is so short that lanes are given up for it.
const RUN_PAGES_MIN: usize = 32;
/// Bytes of a lane's buffer, at first and at most, and how it grows. Longer runs save less of the merge than touching memory for them costs.
const BUFFER_BYTES_MIN: usize = 1 << 20;
const BUFFER_BYTES_MAX: usize = 32 << 20;
const BUFFER_GROWTH: usize = 8;
/// Runs that a lane may leave in any case: memory where they could not be merged at once has one lane only.
const RUNS_MIN: usize = 4;

/// First phase of a sort of packed rows.
pub(super) struct PackedSink {
    plan: Arc<PackedPlan>,
    ctx: ExecContext,
    shared: Arc<Shared>,
    sorted: Arc<PackedRows>,
}

#[derive(Default)]
struct Shared {
    /// Lanes, and what each may take; decided when first asked.
    grant: OnceLock<Grant>,
    done: Mutex<Vec<LaneRuns>>,
}

#[derive(Clone, Copy)]
struct Grant {
    lanes: usize,
    lane_bytes: usize,
}

/// Runs of one layout.
struct LaneRuns {
    wide: bool,
    runs: Vec<PackedRun>,
}

impl PackedSink {
    pub(super) fn new(plan: Arc<PackedPlan>, ctx: ExecContext, sorted: Arc<PackedRows>) -> Self {
        Self { plan, ctx, shared: Arc::default(), sorted }
    }

    /// Half of the memory that is to be had is for buffers; the other half is for those who feed them, and for the pages to which runs are
    /// written.
    fn grant(&self, threads: usize) -> Grant {
        *self.shared.grant.get_or_init(|| {
            let half = self.ctx.share.claim() / 2;
            let lanes = (half / (RUN_PAGES_MIN * PAGE_SIZE)).clamp(1, threads);
            Grant { lanes, lane_bytes: half / lanes }
        })
    }
}

impl Sink for PackedSink {
    fn name(&self) -> &str {
        "sort"
    }

    fn lanes(&self, threads: usize) -> usize {
        self.grant(threads).lanes
    }

    fn may_grow(&self) -> bool {
        self.plan.may_grow()
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        Ok(Box::new(PackedLocal {
            plan: Arc::clone(&self.plan),
            grant: self.grant(ctx.settings.threads.max(1)),
            ctx: ctx.clone(),
            shared: Arc::clone(&self.shared),
            wide: false,
            buffer: None,
            used: 0,
            values: Vec::new(),
            narrow_runs: Vec::new(),
            runs: Vec::new(),
        }))
    }

    fn finish(&self, ctx: &ExecContext, task: &TaskContext) -> Result<(), ExecError> {
        let done = std::mem::take(&mut *self.shared.done.lock());
        let wide = done.iter().any(|lane| lane.wide);
        let mut runs = Vec::new();
        for lane in done {
            for run in lane.runs {
                runs.push(if lane.wide == wide {
                    run
                } else {
                    self.plan.widened(ctx, run, &|| task.is_cancelled())?
                });
            }
        }
        ctx.counters.note_strategy(format!("sort: {} runs of packed rows", runs.len()));
        self.sorted.fill(wide, runs);
        Ok(())
    }
}

/// One lane of the first phase.
struct PackedLocal {
    plan: Arc<PackedPlan>,
    grant: Grant,
    ctx: ExecContext,
    shared: Arc<Shared>,
    /// Whether rows do not fit the narrow layout.
    wide: bool,
    buffer: Option<Buffer>,
    /// Words of the buffer that are rows.
    used: usize,
    values: Vec<ArrayRef>,
    /// Runs from before a row did not fit, and those since.
    narrow_runs: Vec<PackedRun>,
    runs: Vec<PackedRun>,
}

impl PackedLocal {
    fn words(&self) -> usize {
        self.plan.layout(self.wide).words()
    }

    /// Room in the buffer for `rows` more; it grows as far as the grant allows, and is written out when it is full.
    fn make_room(&mut self, rows: usize) -> Result<(), ExecError> {
        let wanted = rows * self.words();
        let room = self.buffer.as_ref().map_or(0, |buffer| buffer.words().len());
        if self.used + wanted <= room {
            return Ok(());
        }
        // When a buffer is written out, so is a page.
        let most = self.grant.lane_bytes.saturating_sub(2 * PAGE_SIZE).clamp(PAGE_SIZE, BUFFER_BYTES_MAX) / 8;
        let grown = (BUFFER_GROWTH * room).max(BUFFER_BYTES_MIN / 8).min(most);
        // While it grows both are there.
        if self.used + wanted <= grown && (grown + room) * 8 <= self.grant.lane_bytes {
            let mut buffer = Buffer::new(&self.ctx.memory, grown * 8)?;
            if let Some(before) = &self.buffer {
                buffer.words_mut()[..self.used].copy_from_slice(&before.words()[..self.used]);
            }
            self.buffer = Some(buffer);
            return Ok(());
        }
        self.flush()?;
        if room < wanted.max(most) {
            self.buffer = None;
            self.buffer = Some(Buffer::new(&self.ctx.memory, wanted.max(most) * 8)?);
        }
        Ok(())
    }

    /// Writes the rows of the buffer out as a run.
    fn flush(&mut self) -> Result<(), ExecError> {
        let words = self.words();
        let used = std::mem::take(&mut self.used);
        let Some(buffer) = self.buffer.as_mut().filter(|_| used > 0) else { return Ok(()) };
        let rows = &mut buffer.words_mut()[..used];
        kernel::sort(rows, words);
        let mut writer = RunWriter::new(&self.ctx.memory, words, used / words);
        writer.append(rows)?;
        self.runs.push(writer.finish());
        Ok(())
    }

    /// Appends the rows whose values were evaluated. False: some do not fit the layout.
    fn append(&mut self, rows: usize) -> Result<bool, ExecError> {
        self.make_room(rows)?;
        let layout = self.plan.layout(self.wide);
        let buffer = self.buffer.as_mut().expect("there is room");
        let target = &mut buffer.words_mut()[self.used..self.used + rows * layout.words()];
        target.fill(0);
        if layout.encode(&self.values, target).is_err() {
            return Ok(false);
        }
        self.used += rows * layout.words();
        Ok(true)
    }

    /// Merges the shortest runs if there are more than can be merged at once by those who read them.
    fn merge_runs(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let pages = self.grant.lane_bytes / PAGE_SIZE;
        let batch = (self.grant.lane_bytes / 8).min(PAGE_SIZE);
        // Beside the batch, twice, and a page to write to.
        let at_once = pages.saturating_sub(2 + 2 * batch / PAGE_SIZE).max(2);
        let most = (at_once / self.grant.lanes).max(at_once.min(RUNS_MIN));
        while self.runs.len() > most {
            let take = (self.runs.len() - most + 1).min(at_once);
            self.runs.sort_by_key(|run| std::cmp::Reverse(run.rows));
            let shortest = self.runs.split_off(self.runs.len() - take);
            self.runs.push(merged(&self.ctx.memory, shortest, batch, cancelled)?);
            self.ctx.counters.note_strategy("sort: several passes".to_owned());
        }
        Ok(())
    }
}

impl SinkLocal for PackedLocal {
    fn consume(&mut self, chunk: Chunk, _task: &TaskContext) -> Result<Flow, ExecError> {
        let mut values = std::mem::take(&mut self.values);
        self.plan.evaluate(&chunk, &mut values)?;
        self.values = values;
        if !self.append(chunk.len())? {
            assert!(!self.wide, "the wide layout has room for every value");
            self.flush()?;
            self.wide = true;
            self.narrow_runs = std::mem::take(&mut self.runs);
            self.ctx.counters.note_strategy("sort: statistics do not hold".to_owned());
            assert!(self.append(chunk.len())?, "the wide layout has room for every value");
        }
        self.values.clear();
        Ok(Flow::Continue)
    }

    fn combine(mut self: Box<Self>, task: &TaskContext) -> Result<(), ExecError> {
        let cancelled: Cancelled<'_> = &|| task.is_cancelled();
        self.flush()?;
        self.buffer = None;
        for run in std::mem::take(&mut self.narrow_runs) {
            self.runs.push(self.plan.widened(&self.ctx, run, cancelled)?);
        }
        self.merge_runs(cancelled)?;
        let runs = std::mem::take(&mut self.runs);
        self.shared.done.lock().push(LaneRuns { wide: self.wide, runs });
        Ok(())
    }
}
