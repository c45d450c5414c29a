//! Second phase: ranges of the order, each merged by one lane from all runs.
//!
//! The key space is cut at prefixes of keys, so that equal keys, and keys that only later bytes tell apart, are in one range: ranges are merged
//! without a word between lanes (Morsel-driven parallelism, section 4.5). Where to cut is known from the first keys of all pages of all runs.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use arrow_schema::SchemaRef;
use ogee_memory::{PAGE_SIZE, Reservation};
use ogee_row::rows_of_chunk;
use ogee_scheduler::TaskContext;
use parking_lot::Mutex;

use super::{
    CONSUMER,
    guesses::SortPlans,
    merge::{Merge, pages_pinned},
    plan::{Codes, SortPlan},
    run::Run,
    slice::RowSlice,
};
use crate::{ExecContext, ExecError, RowOrder, Source, SourceLocal, SourceStep};

/// Chunks of a range, at least and at most, where lanes must keep what they make until its turn comes.
const RANGE_CHUNKS_MIN: usize = 4;
const RANGE_CHUNKS_MAX: usize = 128;
/// Chunks that a lane makes between two looks at what else there is to do.
const MORSEL_CHUNKS: usize = 64;

/// What the first phase leaves to the second.
#[derive(Default)]
pub(crate) struct SortedRows {
    runs: OnceLock<Arc<[Run]>>,
    ranges: OnceLock<Ranges>,
    next: AtomicUsize,
    stopped: AtomicBool,
}

/// What lanes may have that merge ranges.
pub(super) struct Shares {
    pub(super) lanes: usize,
    /// Rows of a range.
    pub(super) range_rows: usize,
    /// For rows that wait for their turn.
    pub(super) ahead: Option<Reservation>,
}

impl Shares {
    /// Shares of up to `threads` lanes in the merge of `rows` rows that keep `order`. A row that waits takes `width` bytes, a merge pins `pins`.
    pub(super) fn new(
        ctx: &ExecContext,
        order: Option<&RowOrder>,
        rows: usize,
        width: usize,
        pins: usize,
        threads: usize,
    ) -> Self {
        let available = ctx.share.claim();
        // Half for the pages that merges pin, a quarter for rows that wait for their turn.
        let serial = order.is_some_and(RowOrder::is_serial);
        let lanes = if serial { 1 } else { (available / 2 / pins.max(1)).clamp(1, threads) };
        let Some(order) = order.filter(|order| order.is_kept() && lanes > 1) else {
            return Self { lanes, range_rows: rows.div_ceil(4 * lanes).max(1), ahead: None };
        };
        let chunk = ctx.settings.chunk_capacity.max(1);
        let rows_ahead = (available / 4 / width).min(lanes * RANGE_CHUNKS_MAX * chunk).min(rows);
        let Some(ahead) = ctx.memory.try_reserve(CONSUMER, rows_ahead * width) else {
            return Self { lanes: 1, range_rows: rows.div_ceil(4 * lanes).max(1), ahead: None };
        };
        order.set_ahead(rows_ahead);
        let range_rows = (rows_ahead / lanes).clamp(RANGE_CHUNKS_MIN * chunk, RANGE_CHUNKS_MAX * chunk);
        Self { lanes, range_rows, ahead: Some(ahead) }
    }
}

/// How the rows are shared out.
pub(crate) struct Ranges {
    /// Where a range ends and the next begins, ascending.
    separators: Vec<u128>,
    lanes: usize,
    /// For rows that wait for their turn.
    _ahead: Option<Reservation>,
}

/// How ranges may be cut, and who reads them.
pub(crate) struct Cut<'a> {
    pub(crate) plan: &'a SortPlan,
    /// The order that the output keeps.
    pub(crate) order: Option<&'a RowOrder>,
    /// Bits of prefixes that ranges may be cut at.
    pub(crate) mask: u128,
    /// The rows that are wanted of the order.
    pub(crate) wanted: RowSlice,
}

impl SortedRows {
    /// Takes the runs, in the order in which equal rows are to come.
    pub(crate) fn fill(&self, runs: Vec<Run>) {
        let filled = self.runs.set(runs.into_iter().filter(|run| run.len() > 0).collect()).is_ok();
        assert!(filled, "a sort has one first phase");
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn runs(&self) -> &Arc<[Run]> {
        self.runs.get().expect("the second phase begins after the first")
    }

    /// Lanes of the second phase, at most `threads`.
    pub(crate) fn lanes(&self, ctx: &ExecContext, threads: usize, cut: &Cut<'_>) -> usize {
        match self.runs.get() {
            Some(_) => self.ranges(ctx, threads, cut).lanes,
            None => threads,
        }
    }

    fn ranges(&self, ctx: &ExecContext, threads: usize, cut: &Cut<'_>) -> &Ranges {
        self.ranges.get_or_init(|| Ranges::new(ctx, self.runs(), threads, cut))
    }

    /// The next range: its number and a merge of its rows. `None`: there is none left.
    pub(crate) fn next_range(
        &self,
        ctx: &ExecContext,
        cut: &Cut<'_>,
        plan: &Arc<SortPlan>,
    ) -> Result<Option<(usize, Merge)>, ExecError> {
        let ranges = self.ranges(ctx, ctx.settings.threads.max(1), cut);
        loop {
            let range = self.next.fetch_add(1, Ordering::Relaxed);
            let separators = &ranges.separators;
            if range > separators.len() || self.stopped.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let low = range.checked_sub(1).map(|before| separators[before]);
            let high = separators.get(range).copied();
            if self.is_left_out(low, high, cut.wanted) {
                cut.order.iter().for_each(|order| order.leave(range));
                continue;
            }
            return Ok(Some((range, Merge::new(plan, &ctx.memory, self.runs(), low, high)?)));
        }
    }

    /// Whether no row between the prefixes is among those `wanted`, as far as that is known without looking at rows.
    fn is_left_out(&self, low: Option<u128>, high: Option<u128>, wanted: RowSlice) -> bool {
        let runs = self.runs().iter();
        wanted.leaves_out(|| {
            let first = runs.clone().map(|run| low.map_or(0, |low| run.rows_before(low).0)).sum();
            first..runs.map(|run| high.map_or(run.len(), |high| run.rows_before(high).1)).sum()
        })
    }
}

impl Ranges {
    fn new(ctx: &ExecContext, runs: &[Run], threads: usize, cut: &Cut<'_>) -> Self {
        let rows: usize = runs.iter().map(Run::len).sum();
        let bytes: usize = runs.iter().map(Run::bytes).sum();
        let moved = runs.iter().filter(|run| run.page_bytes() > 0).count();
        let page_bytes = runs.iter().map(Run::page_bytes).max().unwrap_or(0);
        // Now, and not with the first row: the sink of this pipeline is asked next how much memory it may take. What cannot be pinned is
        // reported by the lane that needs it.
        runs.iter().for_each(|run| drop(run.by_entries(cut.plan.layout.width())));
        let width = (bytes / rows.max(1)).max(16);
        let pins = pages_pinned(moved) * page_bytes + PAGE_SIZE;
        let Shares { lanes, range_rows, ahead } = Shares::new(ctx, cut.order, rows, width, pins, threads);
        // Each range has a page of each run pinned once: no less than two pages of each.
        let per_page = PAGE_SIZE / cut.plan.layout.width();
        let range_rows = range_rows.max(2 * moved * per_page);
        let mut separators = Vec::new();
        if lanes > 1 {
            let mut samples = Vec::new();
            runs.iter().for_each(|run| run.samples(per_page, &mut samples));
            samples.sort_unstable();
            let mut since = 0;
            let mut last = 0;
            for (key, stands_for) in samples {
                let key = key & cut.mask;
                if since >= range_rows && key > last {
                    separators.push(key);
                    last = key;
                    since = 0;
                }
                since += stands_for;
            }
        }
        let lanes = lanes.min(separators.len() + 1);
        Self { separators, lanes, _ahead: ahead }
    }
}

/// The rows of a sort, in order.
pub(crate) struct SortSource {
    plans: Arc<SortPlans>,
    ctx: ExecContext,
    sorted: Arc<SortedRows>,
    order: Arc<RowOrder>,
    wanted: Mutex<RowSlice>,
}

impl SortSource {
    pub(crate) fn new(plans: Arc<SortPlans>, ctx: ExecContext, sorted: Arc<SortedRows>, order: Arc<RowOrder>) -> Self {
        Self { plans, ctx, sorted, order, wanted: Mutex::new(RowSlice::ALL) }
    }
}

fn cut<'a>(plan: &'a SortPlan, order: &'a RowOrder, wanted: RowSlice) -> Cut<'a> {
    Cut { plan, order: Some(order), mask: u128::MAX, wanted }
}

impl Source for SortSource {
    fn name(&self) -> &str {
        "sorted"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(self.plans.schema())
    }

    fn limit(&self, skip: u64, fetch: Option<u64>) -> bool {
        let mut wanted = self.wanted.lock();
        *wanted = wanted.limited(skip, fetch);
        true
    }

    fn lanes(&self, threads: usize) -> usize {
        self.sorted.lanes(&self.ctx, threads, &cut(&self.plans.latest(), &self.order, *self.wanted.lock()))
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(SortSourceLocal {
            plans: Arc::clone(&self.plans),
            codes: Codes::default(),
            ctx: ctx.clone(),
            sorted: Arc::clone(&self.sorted),
            order: Arc::clone(&self.order),
            wanted: *self.wanted.lock(),
            lane,
            range: None,
            row: 0,
            rows: Vec::new(),
            given: 0,
            chunks: 0,
        }))
    }

    fn stop(&self) {
        self.sorted.stop();
    }
}

struct SortSourceLocal {
    plans: Arc<SortPlans>,
    codes: Codes,
    ctx: ExecContext,
    sorted: Arc<SortedRows>,
    order: Arc<RowOrder>,
    wanted: RowSlice,
    lane: usize,
    range: Option<(usize, Merge)>,
    /// The number in the order of the next row of the range.
    row: usize,
    /// Rows of the range, and how many of them were handed out.
    rows: Vec<*const u8>,
    given: usize,
    /// Chunks since the last end of a morsel.
    chunks: usize,
}

// SAFETY: the merge keeps rows pinned until it is asked for more.
unsafe impl Send for SortSourceLocal {}

impl SourceLocal for SortSourceLocal {
    fn next(&mut self, _task: &TaskContext) -> Result<SourceStep, ExecError> {
        loop {
            let Some((range, merge)) = &mut self.range else {
                let plan = self.plans.latest();
                let cut = cut(&plan, &self.order, self.wanted);
                self.range = self.sorted.next_range(&self.ctx, &cut, &plan)?;
                let Some((range, merge)) = &self.range else { return Ok(SourceStep::Exhausted) };
                self.order.enter(self.lane, *range);
                self.row = merge.before();
                continue;
            };
            if !self.order.may_emit(*range) {
                return Ok(SourceStep::Blocked);
            }
            if self.chunks == MORSEL_CHUNKS {
                self.chunks = 0;
                return Ok(SourceStep::MorselEnd);
            }
            if self.given == self.rows.len() {
                self.given = 0;
                self.rows.clear();
                if self.row < self.wanted.to {
                    merge.next_rows(self.ctx.settings.chunk_capacity, &mut self.rows)?;
                }
            }
            if self.rows.is_empty() {
                self.order.leave(*range);
                self.range = None;
                continue;
            }
            self.chunks += 1;
            // SAFETY: the merge keeps the rows pinned until it is asked for more.
            let rows = unsafe { rows_of_chunk(&merge.plan().layout, &self.rows[self.given..]) };
            let rows = &self.rows[self.given..self.given + rows];
            self.given += rows.len();
            let wanted = self.wanted.of(self.row, rows.len());
            self.row += rows.len();
            if !wanted.is_empty() {
                // SAFETY: as above.
                return Ok(SourceStep::Chunk(unsafe { merge.plan().gather(&rows[wanted], &mut self.codes)? }));
            }
        }
    }
}
