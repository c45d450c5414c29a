//! First phase: rows into sorted runs, each as large as the lane's grant.
//!
//! Rows are appended to pages as they come. When they have filled the grant, they are sorted, and written in order to new pages, which are
//! unpinned as they fill. A lane whose rows never filled its grant sorts them where they are, and moves none. Runs are merged into longer ones
//! when there are more of them than one lane could merge in the second phase.
//!
//! Of rows that are wanted only up to a limit, a lane keeps so many: each time it has twice as many, it sorts them and drops the worse half. The
//! key of the last that it kept is a threshold for all lanes: rows beyond it are dropped before they are staged.

use std::sync::{Arc, OnceLock};

use ogee_memory::PAGE_SIZE;
use ogee_row::{PartitionedRows, RowStage};
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;
use parking_lot::Mutex;

use super::{
    Cancelled,
    entries::{ENTRY_BYTES, PAGES_MAX},
    merge::pages_pinned,
    plan::{KeyScratch, SortPlan},
    run::{Leading, Run, RunWriter, sorted_first, unsorted},
    source::SortedRows,
};
use crate::{ExecContext, ExecError, Flow, Sink, SinkLocal};

/// Pages of a run at least, where memory is so short that lanes are given up for it.
const RUN_PAGES_MIN: usize = 32;
/// Rows beyond the limit that a lane keeps at least before it sorts: few sorts for small limits.
const SPARE_ROWS: usize = 4096;
/// Rows among which those that are not wanted of each partition are looked for.
const PRUNE_ROWS: usize = 1 << 16;

/// First phase of a sort.
pub(crate) struct SortSink {
    plan: Arc<SortPlan>,
    ctx: ExecContext,
    shared: Arc<Shared>,
    sorted: Arc<SortedRows>,
}

struct Shared {
    /// Rows wanted.
    fetch: Option<usize>,
    /// Rows wanted of each partition.
    leading: Option<Leading>,
    /// Lanes, and what each may pin; decided when first asked.
    grant: OnceLock<Grant>,
    /// Rows with a greater prefix are not wanted.
    threshold: Mutex<u128>,
    done: Mutex<Vec<Run>>,
}

#[derive(Clone, Copy)]
struct Grant {
    lanes: usize,
    lane_bytes: usize,
}

impl SortSink {
    pub(crate) fn new(
        plan: Arc<SortPlan>,
        ctx: ExecContext,
        fetch: Option<usize>,
        leading: Option<Leading>,
        sorted: Arc<SortedRows>,
    ) -> Self {
        let shared =
            Shared { fetch, leading, grant: OnceLock::new(), threshold: Mutex::new(u128::MAX), done: Mutex::default() };
        Self { plan, ctx, shared: Arc::new(shared), sorted }
    }

    /// Half of the memory that is to be had is for runs in the making; the other half is for those who feed them, and for the pages to which a
    /// run is written.
    fn grant(&self, threads: usize) -> Grant {
        *self.shared.grant.get_or_init(|| {
            let half = self.ctx.memory.available() / 2;
            let pages = self.plan.layout.open_pages();
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

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        let grant = self.grant(ctx.settings.threads.max(1));
        Ok(Box::new(SortLocal {
            rows: unsorted(&self.plan, &ctx.memory),
            plan: Arc::clone(&self.plan),
            ctx: ctx.clone(),
            shared: Arc::clone(&self.shared),
            grant: grant.lane_bytes,
            runs: Vec::new(),
            prune_at: PRUNE_ROWS,
            scratch: Scratch::default(),
        }))
    }

    fn finish(&self, ctx: &ExecContext) -> Result<(), ExecError> {
        let runs = std::mem::take(&mut *self.shared.done.lock());
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
struct Scratch {
    keys: KeyScratch,
    stage: RowStage,
    addresses: Vec<*mut u8>,
    selected: Vec<u32>,
}

/// One lane of the first phase.
struct SortLocal {
    plan: Arc<SortPlan>,
    ctx: ExecContext,
    shared: Arc<Shared>,
    /// Bytes that the lane may keep pinned.
    grant: usize,
    rows: PartitionedRows,
    runs: Vec<Run>,
    /// Rows at which those that are not wanted of each partition are dropped.
    prune_at: usize,
    scratch: Scratch,
}

// SAFETY: addresses in the scratch are not used across calls.
unsafe impl Send for SortLocal {}

impl SinkLocal for SortLocal {
    fn consume(&mut self, chunk: Chunk, task: &TaskContext) -> Result<Flow, ExecError> {
        let Scratch { keys, stage, addresses, selected } = &mut self.scratch;
        self.plan.evaluate(&chunk, self.ctx.settings.hash, keys)?;
        let mut chunk = chunk;
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
        let _held = self.plan.stage(&chunk, keys, stage)?;
        // SAFETY: staged rows, whose strings are in arrays that are held.
        unsafe { self.rows.append((0..chunk.len()).map(|row| stage.row(row)), addresses)? };
        self.make_room(&|| task.is_cancelled())?;
        Ok(Flow::Continue)
    }

    fn combine(mut self: Box<Self>) -> Result<(), ExecError> {
        if self.rows.rows() > 0 {
            if self.runs.is_empty() {
                let rows = self.take_rows();
                self.runs.push(Run::unmoved(&self.plan, &self.ctx.memory, rows)?);
            } else {
                self.flush(&|| false)?;
            }
        }
        self.shared.done.lock().append(&mut self.runs);
        Ok(())
    }
}

impl SortLocal {
    fn take_rows(&mut self) -> PartitionedRows {
        std::mem::replace(&mut self.rows, unsorted(&self.plan, &self.ctx.memory))
    }

    fn make_room(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let rows = self.rows.rows();
        if let Some(fetch) = self.shared.fetch
            && rows >= fetch.saturating_add(fetch.max(SPARE_ROWS))
            // No use if they fill the grant again at once.
            && self.rows.allocated_bytes() / rows * fetch < self.grant / 2
        {
            return self.keep_first(fetch, cancelled);
        }
        if self.shared.leading.is_some() && rows >= self.prune_at {
            self.keep_first(usize::MAX, cancelled)?;
            let kept = self.rows.rows();
            // Where most are wanted there is nothing to win.
            self.prune_at = if kept > rows / 4 * 3 { usize::MAX } else { PRUNE_ROWS.max(2 * kept) };
            return Ok(());
        }
        // While a run is being written, its rows, its entries and what it is written to are in memory.
        let spare = 4 * PAGE_SIZE;
        if self.rows.allocated_bytes() + rows * ENTRY_BYTES + spare >= self.grant
            || self.rows.rows() / self.rows.rows_per_page() + 2 >= PAGES_MAX
        {
            self.flush(cancelled)?;
        }
        Ok(())
    }

    /// Drops all rows but the first `fetch`, and those that are not wanted of their partitions.
    fn keep_first(&mut self, fetch: usize, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let rows = self.take_rows();
        let kept = &mut self.rows;
        let addresses = &mut self.scratch.addresses;
        let last = sorted_first(&self.plan, &self.ctx.memory, rows, fetch, self.shared.leading, cancelled, |rows| {
            // SAFETY: rows of pinned pages.
            unsafe { kept.append(rows.iter().copied(), addresses) }
        })?;
        self.lower_threshold(last);
        Ok(())
    }

    fn lower_threshold(&self, last: Option<u128>) {
        if let Some(last) = last.filter(|_| self.shared.fetch.is_some()) {
            let mut threshold = self.shared.threshold.lock();
            *threshold = last.min(*threshold);
        }
    }

    /// Makes a run of the rows at hand.
    fn flush(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let rows = self.take_rows();
        let limit = self.shared.fetch.unwrap_or(usize::MAX);
        let mut writer = RunWriter::new(&self.plan, &self.ctx.memory);
        let last = sorted_first(&self.plan, &self.ctx.memory, rows, limit, self.shared.leading, cancelled, |rows| {
            // SAFETY: rows of pinned pages, in order.
            unsafe { writer.append(rows) }
        })?;
        self.runs.push(writer.finish());
        self.lower_threshold(last);
        self.merge_runs(cancelled)
    }

    /// Merges the shortest runs if there are more than can be merged at once.
    fn merge_runs(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let page_bytes = self.runs.iter().map(Run::page_bytes).max().unwrap_or(PAGE_SIZE);
        // Two pages to write to.
        let pages = (self.grant / page_bytes).saturating_sub(2);
        if pages_pinned(self.runs.len() + 1) <= pages || self.runs.len() < 3 {
            return Ok(());
        }
        // The shortest neighbours: of equal rows, those of earlier runs go on to come first.
        let take = (self.runs.len() / 2).max(2);
        let lengths: Vec<usize> = self.runs.iter().map(Run::len).collect();
        let first = (0..=lengths.len() - take)
            .min_by_key(|&first| lengths[first..first + take].iter().sum::<usize>())
            .expect("at least as many runs as are taken");
        let shortest: Vec<Run> = self.runs.drain(first..first + take).collect();
        let limit = self.shared.fetch.unwrap_or(usize::MAX);
        let merged = Run::merged(&self.plan, &self.ctx.memory, shortest, limit, cancelled)?;
        self.runs.insert(first, merged);
        self.ctx.counters.note_strategy("sort: several passes".to_owned());
        Ok(())
    }
}
