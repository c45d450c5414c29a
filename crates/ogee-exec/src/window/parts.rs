//! Rows divided by the hash of their partition keys, and sorted one part after the other: each is small enough to be sorted where it is, mostly in
//! cache, and is read from the temporary file once at most. A part that is not, because hashes fell badly or a partition is large, is
//! sorted in runs.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use ogee_memory::{BufferManager, NeededAt, PAGE_SIZE};
use ogee_row::{RadixBits, RowPartition};
use parking_lot::Mutex;

use super::divide::FillParts;
use crate::{
    ExecContext, ExecError, RowOrder,
    sort::{Cancelled, Cut, ENTRY_BYTES, Leading, Merge, RowSlice, Run, RunMaker, SortPlan, SortedRows},
};

/// Pages that a lane needs to sort a part in runs, at least.
const LANE_PAGES_MIN: usize = 16;

/// The rows of window functions in the order in which these read them, range by range.
#[derive(Clone)]
pub(super) enum Sorted {
    /// Without partitions: all of them.
    Whole(Arc<SortedRows>),
    /// By parts, each of which has whole partitions.
    Parts(Arc<Parts>),
}

impl Sorted {
    /// Lanes that have something to read, at most `threads`.
    pub(super) fn lanes(&self, ctx: &ExecContext, threads: usize, plan: &SortPlan, order: Option<&RowOrder>) -> usize {
        match self {
            Self::Whole(rows) => rows.lanes(ctx, threads, &Cut { plan, order, wanted: RowSlice::ALL }),
            Self::Parts(parts) => parts.lanes(ctx, threads),
        }
    }

    /// The next range, for `lane`; `None` if there is none left.
    pub(super) fn next(
        &self,
        ctx: &ExecContext,
        plan: &Arc<SortPlan>,
        order: Option<&RowOrder>,
        lane: usize,
        cancelled: Cancelled<'_>,
    ) -> Result<Option<Merge>, ExecError> {
        match self {
            Self::Whole(rows) => {
                let range = rows.next_range(ctx, &Cut { plan, order, wanted: RowSlice::ALL }, plan, lane)?;
                Ok(range.map(|(_, merge)| merge))
            }
            Self::Parts(parts) => parts.next(ctx, cancelled),
        }
    }

    pub(super) fn stop(&self) {
        match self {
            Self::Whole(rows) => rows.stop(),
            Self::Parts(parts) => parts.queue.stop(),
        }
    }
}

/// The parts, which lanes take one after the other.
pub(super) struct Parts {
    plan: Arc<SortPlan>,
    /// Bytes of the key that tell partitions apart.
    partition: usize,
    leading: Option<Leading>,
    queue: PartQueue<RowPartition>,
}

/// What the lanes that read parts may have.
#[derive(Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) lanes: usize,
    /// Bytes that a lane may pin.
    pub(crate) share: usize,
}

/// Parts that are complete before the first is read, each taken by one lane.
pub(crate) struct PartQueue<P> {
    parts: OnceLock<Vec<Mutex<Option<P>>>>,
    grant: OnceLock<Grant>,
    next: AtomicUsize,
    stopped: AtomicBool,
}

impl<P> Default for PartQueue<P> {
    fn default() -> Self {
        Self {
            parts: OnceLock::new(),
            grant: OnceLock::new(),
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }
}

impl<P> PartQueue<P> {
    /// Takes the parts, in the order in which they will be read.
    pub(crate) fn fill(&self, parts: Vec<P>) {
        let filled = self.parts.set(parts.into_iter().map(|part| Mutex::new(Some(part))).collect()).is_ok();
        assert!(filled, "rows are divided once");
    }

    /// What lanes may have, settled by the bytes that each part takes when it is first asked for; `None` before there are parts.
    pub(crate) fn grant(&self, bytes: impl Fn(&P) -> usize, settle: impl FnOnce(&[usize]) -> Grant) -> Option<Grant> {
        let parts = self.parts.get()?;
        Some(*self.grant.get_or_init(|| {
            let sizes: Vec<usize> = parts.iter().filter_map(|part| part.lock().as_ref().map(&bytes)).collect();
            settle(&sizes)
        }))
    }

    /// The next part and its number; `None` if there is none left, or no more is wanted.
    pub(crate) fn next(&self) -> Option<(usize, P)> {
        let parts = self.parts.get().expect("rows are divided before they are read");
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let part = parts.get(number).filter(|_| !self.stopped.load(Ordering::Relaxed))?;
        let part = part.lock().take().expect("each part is taken once");
        Some((number, part))
    }

    /// Shows part `number`, if it is there and was not taken.
    pub(crate) fn peek(&self, number: usize, see: impl FnOnce(&P)) {
        if let Some(part) = self.parts.get().and_then(|parts| parts.get(number)) {
            part.lock().as_ref().map(see);
        }
    }

    /// No more parts are wanted.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Bytes that sorting `rows` where they are takes.
pub(crate) fn footprint(rows: &RowPartition) -> usize {
    rows.bytes() + rows.rows() * ENTRY_BYTES
}

impl Parts {
    pub(super) fn new(plan: &Arc<SortPlan>, partition: usize, leading: Option<Leading>) -> Self {
        Self { plan: Arc::clone(plan), partition, leading, queue: PartQueue::default() }
    }

    /// Lanes that have something to do. A quarter of the memory that is to be had is theirs; the rest is for rows and values that
    /// wait, and for what flows onward. A lane that can
    /// sort what is most of the rows where they are is worth more than two that cannot.
    fn grant(&self, ctx: &ExecContext, threads: usize) -> Option<Grant> {
        self.queue.grant(footprint, |sizes| {
            let quarter = ctx.share.claim() / 4;
            let total: usize = sizes.iter().sum();
            let sortable = |lanes: usize| {
                let fitting = sizes.iter().filter(|&&size| size <= quarter / lanes);
                2 * fitting.sum::<usize>() >= total && quarter / lanes >= LANE_PAGES_MIN * PAGE_SIZE
            };
            let most = threads.min(sizes.len()).max(1);
            let lanes = (1..=most).rev().find(|&lanes| sortable(lanes)).unwrap_or(1);
            Grant { lanes, share: quarter / lanes }
        })
    }

    fn lanes(&self, ctx: &ExecContext, threads: usize) -> usize {
        self.grant(ctx, threads).map_or(threads, |grant| grant.lanes)
    }

    /// Has part `number` read back, if there is room.
    fn read_ahead(&self, number: usize, memory: &Arc<BufferManager>) {
        self.queue.peek(number, |rows| {
            if rows.bytes_evicted() <= memory.room() {
                memory.prefetch(rows.pages());
            }
        });
    }

    /// The rows of the next part, in order.
    fn next(&self, ctx: &ExecContext, cancelled: Cancelled<'_>) -> Result<Option<Merge>, ExecError> {
        let grant = self.grant(ctx, ctx.settings.threads.max(1)).expect("there are parts");
        let Some((number, rows)) = self.queue.next() else { return Ok(None) };
        let memory = &ctx.memory;
        let share = (footprint(&rows) > grant.share).then_some(grant.share);
        match share {
            None => {
                // Pins read what is missing at once; the parts after it are read meanwhile.
                memory.prefetch(rows.pages());
                self.read_ahead(number + grant.lanes, memory);
            }
            Some(_) => ctx.counters.note_strategy("window: partitions in runs".to_owned()),
        }
        let runs = sorted_part(ctx, &self.plan, rows, (self.partition, self.leading), share, cancelled)?;
        Ok(Some(Merge::new(&self.plan, memory, &runs.into(), None, None)?))
    }
}

impl FillParts for Parts {
    /// Takes the parts, in the order in which they will be read.
    fn fill(
        &self,
        _radix: RadixBits,
        parts: Vec<Option<RowPartition>>,
        _cancelled: Cancelled<'_>,
    ) -> Result<(), ExecError> {
        let parts: Vec<RowPartition> = parts.into_iter().flatten().filter(|part| part.rows() > 0).collect();
        let count = parts.len();
        let numbered = parts.iter().enumerate();
        numbered.for_each(|(number, part)| part.set_needed(NeededAt::new(number, count)));
        self.queue.fill(parts);
        Ok(())
    }
}

/// The rows of a part in order, of whose keys the first `partition` bytes tell partitions apart: sorted where they are, or, where they would take more than
/// a `share`, in runs of half of it; the other half is for merging these.
pub(crate) fn sorted_part(
    ctx: &ExecContext,
    plan: &Arc<SortPlan>,
    mut rows: RowPartition,
    (partition, leading): (usize, Option<Leading>),
    share: Option<usize>,
    cancelled: Cancelled<'_>,
) -> Result<Vec<Run>, ExecError> {
    let Some(share) = share else {
        return Ok(vec![Run::of_groups(plan, &ctx.memory, rows, partition, leading, cancelled)?]);
    };
    let mut maker = RunMaker::new(plan, ctx, (share / 2, 1), None, leading);
    while rows.num_pages() > 0 {
        if cancelled() {
            return Err(ExecError::Cancelled);
        }
        let page = rows.pin_page(rows.num_pages() - 1)?;
        // SAFETY: rows of a pinned page.
        unsafe { maker.append((0..page.len()).map(|row| page.row(row).cast_const()), cancelled)? };
        drop(page);
        rows.pop_page();
    }
    maker.finish(cancelled)
}
