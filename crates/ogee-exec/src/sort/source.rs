//! Second phase: ranges of the order, each merged by one lane from all runs.
//!
//! The order is cut between any two rows, of which equal ones come by their runs (`bound`): however many bytes keys begin with alike, ranges have about as
//! many rows each, and are merged without a word between lanes (Morsel-driven parallelism, section 4.5). Where to cut is known from the first
//! rows of all pages of all runs.

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
    bound::{self, Bound},
    guesses::SortPlans,
    merge::{Merge, pages_pinned},
    plan::{Codes, SortPlan},
    run::Run,
    slice::RowSlice,
};
use crate::{ExecContext, ExecError, RowOrder, Source, SourceLocal, SourceStep, cancel::obey};

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
    separators: Vec<Bound>,
    lanes: usize,
    /// For rows that wait for their turn.
    _ahead: Option<Reservation>,
}

/// How ranges may be cut, and who reads them.
pub(crate) struct Cut<'a> {
    pub(crate) plan: &'a SortPlan,
    /// The order that the output keeps.
    pub(crate) order: Option<&'a RowOrder>,
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

    /// The next range for `lane`: its number and a merge of its rows. `None`: there is none left.
    pub(crate) fn next_range(
        &self,
        ctx: &ExecContext,
        cut: &Cut<'_>,
        plan: &Arc<SortPlan>,
        lane: usize,
    ) -> Result<Option<(usize, Merge)>, ExecError> {
        let ranges = self.ranges(ctx, ctx.settings.threads.max(1), cut);
        if let Some(order) = cut.order {
            // Before a lane that is not admitted goes on to what comes behind.
            order.claim_all(ranges.separators.len() + 1);
            if !order.admits(lane) {
                return Ok(None);
            }
        }
        loop {
            let range = self.next.fetch_add(1, Ordering::Relaxed);
            let separators = &ranges.separators;
            if range > separators.len() || self.stopped.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let low = range.checked_sub(1).map(|before| separators[before]);
            let high = separators.get(range).copied();
            if self.is_left_out(cut, low, high) {
                cut.order.iter().for_each(|order| order.leave(range));
                continue;
            }
            return Ok(Some((range, Merge::new(plan, &ctx.memory, self.runs(), low, high)?)));
        }
    }

    /// Whether no row between the bounds is among those wanted, as far as that is known without reading pages.
    fn is_left_out(&self, cut: &Cut<'_>, low: Option<Bound>, high: Option<Bound>) -> bool {
        let all = self.runs();
        let runs = all.iter().enumerate();
        let before = |number: usize, run: &Run, bound| run.rows_before(cut.plan, all, number, bound);
        cut.wanted.leaves_out(|| {
            let first = runs.clone().map(|(number, run)| low.map_or(0, |low| before(number, run, low).0)).sum();
            first..runs.map(|(number, run)| high.map_or(run.len(), |high| before(number, run, high).1)).sum()
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
            // Of rows that did not move it costs nothing to take some more.
            let step = per_page.min(1 << 12).min((range_rows / 16).max(1));
            runs.iter().enumerate().for_each(|(number, run)| run.samples(cut.plan, number, step, &mut samples));
            separators = bound::cut(cut.plan, samples, rows / range_rows);
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
    order: Mutex<Arc<RowOrder>>,
    wanted: Mutex<RowSlice>,
}

impl SortSource {
    pub(crate) fn new(plans: Arc<SortPlans>, ctx: ExecContext, sorted: Arc<SortedRows>, order: Arc<RowOrder>) -> Self {
        Self { plans, ctx, sorted, order: Mutex::new(order), wanted: Mutex::new(RowSlice::ALL) }
    }
}

fn cut<'a>(plan: &'a SortPlan, order: &'a RowOrder, wanted: RowSlice) -> Cut<'a> {
    Cut { plan, order: Some(order), wanted }
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

    fn has_order(&self) -> bool {
        true
    }

    fn keep_order(&self, order: &Arc<RowOrder>) {
        *self.order.lock() = Arc::clone(order);
    }

    fn lanes(&self, threads: usize) -> usize {
        let order = Arc::clone(&self.order.lock());
        self.sorted.lanes(&self.ctx, threads, &cut(&self.plans.latest(), &order, *self.wanted.lock()))
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(SortSourceLocal {
            plans: Arc::clone(&self.plans),
            codes: Codes::default(),
            ctx: ctx.clone(),
            sorted: Arc::clone(&self.sorted),
            order: Arc::clone(&self.order.lock()),
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
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        loop {
            obey(&|| task.is_cancelled())?;
            let Some((range, merge)) = &mut self.range else {
                let plan = self.plans.latest();
                let cut = cut(&plan, &self.order, self.wanted);
                self.range = self.sorted.next_range(&self.ctx, &cut, &plan, self.lane)?;
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::time::Duration;

    use arrow_array::{Array, ArrayRef, Decimal256Array, Int64Array, StringViewArray, cast::AsArray, types::Int64Type};
    use arrow_buffer::i256;
    use arrow_schema::{Field, Schema};
    use ogee_memory::{BufferManager, FaultPlan, FaultyIo, MemoryConfig, TempCompression};
    use ogee_scheduler::Cancellation;
    use ogee_vector::Chunk;

    use super::*;
    use crate::{
        ExecSettings, Expr, Sink,
        cancel::is_cancelled,
        sort::{RunMaker, Scratch, SortKey, SortSink},
    };

    const LANES: usize = 4;

    /// Runs of rows that have `keys`, the row's number, and 256 bytes.
    struct Sorted {
        ctx: ExecContext,
        plan: Arc<SortPlan>,
        rows: SortedRows,
    }

    impl Sorted {
        /// By `makers`, each of which writes runs to pages when it has `grant` bytes.
        fn new(keys: &ArrayRef, makers: usize, grant: usize) -> Self {
            Self::with_memory(MemoryConfig::default(), keys, makers, grant)
        }

        fn with_memory(config: MemoryConfig, keys: &ArrayRef, makers: usize, grant: usize) -> Self {
            let len = keys.len();
            let wide: ArrayRef = Arc::new(Decimal256Array::from(vec![i256::ZERO; len]));
            let mut columns = vec![Arc::clone(keys), Arc::new((0..len as i64).collect::<Int64Array>()) as ArrayRef];
            columns.extend((0..8).map(|_| Arc::clone(&wide)));
            let fields = columns.iter().enumerate();
            let fields = fields.map(|(at, array)| Field::new(at.to_string(), array.data_type().clone(), true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let data_type = keys.data_type().clone();
            let key = SortKey { expr: Expr::Column(0), data_type, descending: false, nulls_first: false };
            let memory = BufferManager::new(MemoryConfig { limit: 128 << 20, counts_process: false, ..config });
            let ctx = ExecContext::new(memory.unwrap(), ExecSettings { threads: LANES, ..ExecSettings::default() });
            let plan = Arc::new(SortPlan::new(schema, &[key], Vec::new()).unwrap());
            let mut runs = Vec::new();
            let chunk = Chunk::new(columns, len);
            for part in 0..makers {
                let mut maker = RunMaker::new(&plan, &ctx, (grant, 1), None, None);
                let Scratch { keys, stage, .. } = &mut Scratch::default();
                for from in (part * len / makers..(part + 1) * len / makers).step_by(1000) {
                    let rows = 1000.min((part + 1) * len / makers - from);
                    let chunk = chunk.slice(from, rows);
                    plan.evaluate(&chunk, ctx.settings.hash, keys).unwrap();
                    let _held = plan.stage(&chunk, keys, stage).unwrap();
                    // SAFETY: staged rows, whose strings are held.
                    unsafe { maker.append((0..rows).map(|row| stage.row(row)), &|| false).unwrap() };
                }
                runs.extend(maker.finish(&|| false).unwrap());
            }
            let rows = SortedRows::default();
            rows.fill(runs);
            Self { ctx, plan, rows }
        }

        /// The numbers of the rows of `merge`.
        fn numbers(&self, mut merge: Merge) -> Vec<i64> {
            let (mut numbers, mut rows) = (Vec::new(), Vec::new());
            loop {
                merge.next_rows(2048, &mut rows).unwrap();
                if rows.is_empty() {
                    return numbers;
                }
                // SAFETY: the merge keeps the rows pinned.
                let chunk = unsafe { self.plan.gather_fixed(&rows).unwrap() };
                numbers.extend(chunk.column(1).array.as_primitive::<Int64Type>().values());
            }
        }

        /// The ranges that have some of the rows `wanted`: how many rows come before, and the rows' numbers.
        fn ranges(&self, wanted: RowSlice) -> Vec<(usize, Vec<i64>)> {
            let cut = Cut { plan: &self.plan, order: None, wanted };
            self.rows.next.store(0, Ordering::Relaxed);
            let next = || self.rows.next_range(&self.ctx, &cut, &self.plan, 0).unwrap();
            std::iter::from_fn(next).map(|(_, merge)| (merge.before(), self.numbers(merge))).collect()
        }

        /// All rows in order.
        fn whole(&self) -> Chunk {
            let mut merge = Merge::new(&self.plan, &self.ctx.memory, self.rows.runs(), None, None).unwrap();
            let mut rows = Vec::new();
            merge.next_rows(usize::MAX, &mut rows).unwrap();
            // SAFETY: the merge keeps the rows pinned.
            unsafe { self.plan.gather_fixed(&rows).unwrap() }
        }

        fn check(&self, what: &str) {
            let all = Merge::new(&self.plan, &self.ctx.memory, self.rows.runs(), None, None).unwrap();
            let expected = self.numbers(all);
            let ranges = self.ranges(RowSlice::ALL);
            let lengths: Vec<usize> = ranges.iter().map(|(_, rows)| rows.len()).collect();
            assert_eq!(ranges.iter().flat_map(|(_, rows)| rows).copied().collect::<Vec<_>>(), expected, "{what}");
            assert!(lengths.len() >= LANES, "{what}: {lengths:?}");
            assert!(
                lengths.iter().max() <= lengths.iter().min().map(|least| 2 * least).as_ref(),
                "{what}: {lengths:?}"
            );
            let mut before = 0;
            for (start, rows) in &ranges {
                assert_eq!(*start, before, "{what}");
                before += rows.len();
            }
            // Ranges that are left out are not merged: at most a page of each run is not known to be of one range or of another.
            let wanted = RowSlice { from: expected.len() / 2, to: expected.len() / 2 + 10 };
            let found = self.ranges(wanted);
            assert!(found.len() <= 3, "{what}: {} ranges", found.len());
            let of_found = found.iter().flat_map(|(start, rows)| (*start..).zip(rows));
            let of_found: Vec<i64> =
                of_found.filter(|(at, _)| (wanted.from..wanted.to).contains(at)).map(|(_, &row)| row).collect();
            assert_eq!(of_found, expected[wanted.from..wanted.to], "{what}");
        }
    }

    /// Rows that are moved to runs on pages, and rows that stay where they are, as the grant has it.
    fn check(what: &str, keys: ArrayRef) {
        for (makers, grant) in [(1, 6 << 20), (3, 32 << 20), (2, 6 << 20)] {
            let sorted = Sorted::new(&keys, makers, grant);
            let moved = sorted.rows.runs().iter().filter(|run| run.page_bytes() > 0).count();
            assert_eq!(moved > 0, grant < 32 << 20, "{what}");
            sorted.check(&format!("{what}, {moved} runs on pages"));
        }
    }

    /// A permutation.
    fn scrambled(rows: i64) -> impl Iterator<Item = i64> {
        (0..rows).map(move |row| row * 7919 % rows)
    }

    #[test]
    fn each_page_that_is_sorted_is_an_occasion_to_end() {
        let keys: ArrayRef = Arc::new(scrambled(20_000).collect::<Int64Array>());
        let sorted = Sorted::new(&keys, 1, 64 << 20);
        let pages = 20_000_usize.div_ceil(PAGE_SIZE / sorted.plan.layout.width()) as u64;
        let chunk = sorted.whole();
        for (checks, ends) in [(0, true), (1, true), (pages - 1, true), (10 * pages, false)] {
            let never = Cancellation::new(false);
            let sink = SortSink::fixed(&sorted.plan, sorted.ctx.clone(), None, Arc::default());
            let mut lane = sink.local(&sorted.ctx, 0).unwrap();
            for from in (0..chunk.len()).step_by(1000) {
                let task = TaskContext { worker: 0, cancelled: &never };
                lane.consume(chunk.slice(from, 1000), &task).unwrap();
            }
            let ended = lane.combine(&TaskContext { worker: 0, cancelled: &Cancellation::after(checks) });
            assert_eq!(is_cancelled(&ended), ends, "{checks} of {pages}");
        }
    }

    #[test]
    fn lanes_read_pages_of_one_run_at_the_same_time() {
        let io = FaultyIo::new(1);
        let keys: ArrayRef = Arc::new(scrambled(20_000).collect::<Int64Array>());
        // Pages leave memory as soon as nobody has them pinned, and are read by those who pin them.
        let config = MemoryConfig {
            spill_always: true,
            io_threads: 0,
            temp_compression: TempCompression::Off,
            io: Arc::new(io.clone()),
            ..MemoryConfig::default()
        };
        let sorted = Sorted::with_memory(config, &keys, 1, 3 << 20);
        let run = sorted.rows.runs().iter().max_by_key(|run| run.num_pages()).unwrap();
        assert!(run.num_pages() >= 4, "{}", run.num_pages());
        io.set(FaultPlan { pair_reads: Some(Duration::from_secs(20)), ..FaultPlan::default() });
        std::thread::scope(|scope| {
            let memory = &sorted.ctx.memory;
            let lanes = [0, 2].map(|page| scope.spawn(move || run.pin_page(page, memory).map(|rows| rows.len())));
            lanes.into_iter().for_each(|lane| assert!(lane.join().unwrap().unwrap() > 0));
        });
        assert_eq!(io.reads_alone(), 0);
    }

    #[test]
    fn keys_that_begin_with_24_equal_bytes_make_ranges_of_equal_length() {
        let keys = scrambled(60_000).map(|key| format!("https://a.example/index/{key:08}"));
        check("equal beginnings", Arc::new(StringViewArray::from_iter_values(keys)));
    }

    #[test]
    fn equal_keys_make_ranges_of_equal_length() {
        check(
            "one string",
            Arc::new(StringViewArray::from_iter_values((0..60_000).map(|_| "the one key of all rows"))),
        );
        check("two numbers", Arc::new(scrambled(60_000).map(|key| key / 30_000).collect::<Int64Array>()));
        check("one number", Arc::new(Int64Array::from(vec![7; 60_000])));
    }

    #[test]
    fn keys_that_are_too_long_to_be_kept_beside_their_pages_are_found_on_them() {
        let pad = "x".repeat(5_000);
        let pad = |key: i64| if key % 40 == 0 { pad.as_str() } else { "" };
        let keys = scrambled(60_000).map(|key| format!("https://a.example/index/{key:08}/{}", pad(key)));
        check("some long keys", Arc::new(StringViewArray::from_iter_values(keys)));
    }
}
