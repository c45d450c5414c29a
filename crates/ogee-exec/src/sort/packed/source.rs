//! Second phase: ranges of the order, each merged by one lane from all runs, in parallel with others also where an output keeps the order.
//!
//! Ranges are cut at the first rows of the runs' pages. How many rows come before a range is known exactly when it is begun, and within a page
//! of each run before: ranges that an offset or a limit leaves out are not even looked at.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use arrow_schema::SchemaRef;
use ogee_memory::{PAGE_SIZE, Reservation};
use ogee_scheduler::TaskContext;
use parking_lot::Mutex;

use super::{
    super::{slice::RowSlice, source::Shares},
    PackedPlan,
    merge::{Batch, PackedMerge},
    run::{KeyRange, PackedRun, rows_per_page},
};
use crate::{ExecContext, ExecError, RowOrder, Source, SourceLocal, SourceStep, cancel::obey};

/// Chunks that a lane makes between two looks at what else there is to do.
const MORSEL_CHUNKS: usize = 64;
/// Bytes of a batch: both halves fit the cache of a core.
const BATCH_BYTES: usize = 512 << 10;
const BATCH_BYTES_MIN: usize = 32 << 10;

/// What the first phase leaves to the second.
#[derive(Default)]
pub(super) struct PackedRows {
    runs: OnceLock<Runs>,
    ranges: OnceLock<Ranges>,
    next: AtomicUsize,
    stopped: AtomicBool,
}

struct Runs {
    wide: bool,
    runs: Arc<[PackedRun]>,
}

/// How the rows are shared out.
struct Ranges {
    /// Where a range ends and the next begins, ascending: rows, one after the other.
    separators: Vec<u64>,
    words: usize,
    lanes: usize,
    /// Bytes of a half of a batch.
    batch: usize,
    /// For rows that wait for their turn.
    _ahead: Option<Reservation>,
}

impl PackedRows {
    pub(super) fn fill(&self, wide: bool, runs: Vec<PackedRun>) {
        let runs = runs.into_iter().filter(|run| run.rows > 0).collect();
        assert!(self.runs.set(Runs { wide, runs }).is_ok(), "a sort has one first phase");
    }

    fn runs(&self) -> &Runs {
        self.runs.get().expect("the second phase begins after the first")
    }
}

impl Ranges {
    fn new(ctx: &ExecContext, runs: &Arc<[PackedRun]>, threads: usize, order: &RowOrder) -> Self {
        let words = runs.first().map_or(1, |run| run.words);
        let width = 8 * words;
        let rows: usize = runs.iter().map(|run| run.rows).sum();
        let available = ctx.share.claim();
        let wanted = (available / 8 / threads).clamp(BATCH_BYTES_MIN, BATCH_BYTES);
        let batch = Batch::bytes(wanted, runs.len(), words);
        let pins = runs.len() * PAGE_SIZE + 2 * batch;
        // Values in arrays take more than packed ones.
        let Shares { lanes, range_rows, ahead } = Shares::new(ctx, Some(order), rows, 2 * width, pins, threads);
        // Each range has a page of each run pinned once: no less than two pages of each.
        let per_page = rows_per_page(words);
        let range_rows = range_rows.max(2 * runs.len() * per_page);
        let mut separators = Vec::new();
        if lanes > 1 {
            let firsts = runs.iter().flat_map(|run| (0..run.num_pages()).map(|page| run.first(page)));
            let mut samples: Vec<&[u64]> = firsts.collect();
            samples.sort_unstable();
            let mut since = 0;
            let mut last = samples.first().copied().unwrap_or(&[]);
            for sample in samples {
                if since >= range_rows && sample > last {
                    separators.extend_from_slice(sample);
                    last = sample;
                    since = 0;
                }
                since += per_page;
            }
        }
        let lanes = lanes.min(separators.len() / words + 1);
        let ranges = Self { separators, words, lanes, batch, _ahead: ahead };
        runs.iter().for_each(|run| run.set_readers((0..ranges.len()).map(|range| ranges.range(range))));
        ranges
    }

    fn len(&self) -> usize {
        self.separators.len() / self.words + 1
    }

    fn range(&self, range: usize) -> KeyRange<'_> {
        let mut separators = self.separators.chunks_exact(self.words);
        match range.checked_sub(1) {
            None => KeyRange { low: None, high: separators.next() },
            Some(before) => KeyRange { low: separators.nth(before), high: separators.next() },
        }
    }
}

/// The rows of a sort, in order.
pub(super) struct PackedSource {
    shared: Arc<Shared>,
}

struct Shared {
    plan: Arc<PackedPlan>,
    ctx: ExecContext,
    sorted: Arc<PackedRows>,
    order: Mutex<Arc<RowOrder>>,
    wanted: Mutex<RowSlice>,
}

impl PackedSource {
    pub(super) fn new(plan: Arc<PackedPlan>, ctx: ExecContext, sorted: Arc<PackedRows>, order: Arc<RowOrder>) -> Self {
        Self {
            shared: Arc::new(Shared { plan, ctx, sorted, order: Mutex::new(order), wanted: Mutex::new(RowSlice::ALL) }),
        }
    }
}

impl Shared {
    fn order(&self) -> Arc<RowOrder> {
        Arc::clone(&self.order.lock())
    }

    fn ranges(&self, threads: usize) -> &Ranges {
        let runs = &self.sorted.runs().runs;
        self.sorted.ranges.get_or_init(|| Ranges::new(&self.ctx, runs, threads, &self.order()))
    }

    /// Whether no row of `range` is wanted, as far as that is known without looking at it.
    fn is_unwanted(&self, range: KeyRange<'_>, wanted: RowSlice) -> bool {
        let runs = &self.sorted.runs().runs;
        let rows_at = |end: bool| -> usize {
            let rows = runs.iter().map(|run| {
                let pages = run.pages_of(range);
                run.rows_until(if end { pages.end } else { pages.start })
            });
            rows.sum()
        };
        wanted.leaves_out(|| rows_at(false)..rows_at(true))
    }
}

impl Source for PackedSource {
    fn name(&self) -> &str {
        "sorted"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.plan.schema)
    }

    fn limit(&self, skip: u64, fetch: Option<u64>) -> bool {
        let mut wanted = self.shared.wanted.lock();
        *wanted = wanted.limited(skip, fetch);
        true
    }

    fn has_order(&self) -> bool {
        true
    }

    fn keep_order(&self, order: &Arc<RowOrder>) {
        *self.shared.order.lock() = Arc::clone(order);
    }

    fn lanes(&self, threads: usize) -> usize {
        if self.shared.sorted.runs.get().is_some() { self.shared.ranges(threads).lanes } else { threads }
    }

    fn local(&self, _ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        let wanted = *self.shared.wanted.lock();
        Ok(Box::new(PackedLocal {
            shared: Arc::clone(&self.shared),
            order: self.shared.order(),
            wanted,
            lane,
            range: None,
            batch: None,
            chunks: 0,
        }))
    }

    fn stop(&self) {
        self.shared.sorted.stopped.store(true, Ordering::Relaxed);
    }
}

struct PackedLocal {
    shared: Arc<Shared>,
    order: Arc<RowOrder>,
    wanted: RowSlice,
    lane: usize,
    range: Option<OpenRange>,
    batch: Option<Batch>,
    /// Chunks since the last end of a morsel.
    chunks: usize,
}

struct OpenRange {
    number: usize,
    merge: PackedMerge,
    /// The number in the order of the row after the batch, and the words of the batch that are still to be given out.
    row: usize,
    left: std::ops::Range<usize>,
}

impl PackedLocal {
    /// Begins the next range; false: there is none.
    fn next_range(&mut self) -> Result<bool, ExecError> {
        let Shared { ctx, sorted, .. } = &*self.shared;
        let order = &self.order;
        let ranges = self.shared.ranges(ctx.settings.threads.max(1));
        // Before a lane that is not admitted goes on to what comes behind.
        order.claim_all(ranges.len());
        if !order.admits(self.lane) {
            return Ok(false);
        }
        let runs = &sorted.runs().runs;
        if self.batch.is_none() {
            self.batch = Some(Batch::new(&ctx.memory, ranges.batch)?);
        }
        loop {
            let number = sorted.next.fetch_add(1, Ordering::Relaxed);
            if number >= ranges.len() || sorted.stopped.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let range = ranges.range(number);
            if self.shared.is_unwanted(range, self.wanted) {
                for run in runs.iter() {
                    run.pages_of(range).for_each(|page| run.done_with(page));
                }
                order.leave(number);
                continue;
            }
            order.enter(self.lane, number);
            let (merge, row) = PackedMerge::new(&ctx.memory, runs, range)?;
            self.range = Some(OpenRange { number, merge, row, left: 0..0 });
            return Ok(true);
        }
    }
}

impl SourceLocal for PackedLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        loop {
            obey(&|| task.is_cancelled())?;
            let Some(open) = &mut self.range else {
                if self.next_range()? {
                    continue;
                }
                self.batch = None;
                return Ok(SourceStep::Exhausted);
            };
            let Shared { plan, ctx, sorted, .. } = &*self.shared;
            let order = &self.order;
            if !order.may_emit(open.number) {
                return Ok(SourceStep::Blocked);
            }
            if self.chunks == MORSEL_CHUNKS {
                self.chunks = 0;
                return Ok(SourceStep::MorselEnd);
            }
            let wide = sorted.runs().wide;
            let words = plan.layout(wide).words();
            let batch = self.batch.as_mut().expect("made with the first range");
            if open.left.is_empty() {
                let before = self.wanted.from.saturating_sub(open.row);
                let rows = if open.row < self.wanted.to { open.merge.next_batch(batch, before)? } else { 0 };
                if rows == 0 {
                    order.leave(open.number);
                    self.range = None;
                    continue;
                }
                let left = self.wanted.of(open.row, rows);
                open.left = left.start * words..left.end * words;
                open.row += rows;
                if open.left.is_empty() {
                    // Rows that are skipped make no chunk, but take time.
                    self.chunks += 1;
                    continue;
                }
            }
            self.chunks += 1;
            let end = open.left.end.min(open.left.start + ctx.settings.chunk_capacity.max(1) * words);
            let rows = &batch.rows()[open.left.start..end];
            open.left.start = end;
            return Ok(SourceStep::Chunk(plan.decode(wide, rows)?));
        }
    }
}
