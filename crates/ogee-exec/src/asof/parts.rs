//! Both sides, sorted: part by part, or as a whole.

use std::sync::Arc;

use ogee_memory::{NeededAt, PAGE_SIZE};
use ogee_row::{RadixBits, RowPartition};
use parking_lot::Mutex;

use super::AsofPlan;
use crate::{
    ExecContext, ExecError, RowOrder,
    sort::{Cancelled, Cut, Merge, RowSlice, SortPlan, SortedRows},
    window::{
        divide::{FillParts, redivided},
        parts::{Grant, PartQueue, footprint, sorted_part},
    },
};

/// Pages that a lane needs to sort the parts of both sides in runs, at least.
const LANE_PAGES_MIN: usize = 32;

/// The rows of both sides in the order in which they are joined.
pub(super) enum Sides {
    /// Without keys: all of them, for one lane.
    Whole { left: Arc<SortedRows>, right: Arc<SortedRows>, order: RowOrder },
    /// By parts, each of which has all rows with its keys.
    Parts(Arc<Parts>),
}

/// Rows of the left and of the right side that may meet, each in order.
pub(super) type Pair = (Merge, Merge);

impl Sides {
    /// Lanes that have something to join, at most `threads`.
    pub(super) fn lanes(&self, ctx: &ExecContext, threads: usize) -> usize {
        match self {
            Self::Whole { .. } => 1,
            Self::Parts(parts) => parts.grant(ctx, threads).map_or(threads, |grant| grant.lanes),
        }
    }

    /// The next rows, for one lane; `None` if there are none left.
    pub(super) fn next(
        &self,
        ctx: &ExecContext,
        plan: &AsofPlan,
        cancelled: Cancelled<'_>,
    ) -> Result<Option<Pair>, ExecError> {
        match self {
            Self::Whole { left, right, order } => {
                let whole = |rows: &SortedRows, plan: &Arc<SortPlan>| {
                    // There is one lane.
                    let cut = Cut { plan, order: Some(order), wanted: RowSlice::ALL };
                    let range = rows.next_range(ctx, &cut, plan, 0)?;
                    Ok::<_, ExecError>(range.map(|(_, merge)| merge))
                };
                Ok(whole(left, &plan.left)?.zip(whole(right, &plan.right)?))
            }
            Self::Parts(parts) => parts.next(ctx, cancelled),
        }
    }

    pub(super) fn stop(&self) {
        match self {
            Self::Whole { left, right, .. } => {
                left.stop();
                right.stop();
            }
            Self::Parts(parts) => parts.queue.stop(),
        }
    }
}

/// Rows of both sides with the same bits of the hash.
type Part = [Option<RowPartition>; 2];

/// The parts, which lanes take one after the other.
pub(super) struct Parts {
    plan: Arc<AsofPlan>,
    /// The right side, which comes first, and the bits that it was divided by.
    right: Mutex<Option<(RadixBits, Vec<Option<RowPartition>>)>>,
    queue: PartQueue<Part>,
}

/// Takes one of the sides.
pub(super) struct Filled {
    pub(super) parts: Arc<Parts>,
    pub(super) ctx: ExecContext,
    pub(super) is_left: bool,
}

impl FillParts for Filled {
    fn fill(
        &self,
        radix: RadixBits,
        parts: Vec<Option<RowPartition>>,
        cancelled: Cancelled<'_>,
    ) -> Result<(), ExecError> {
        match self.is_left {
            true => self.parts.fill(&self.ctx, radix, parts, cancelled),
            false => {
                *self.parts.right.lock() = Some((radix, parts));
                Ok(())
            }
        }
    }
}

impl Parts {
    pub(super) fn new(plan: &Arc<AsofPlan>) -> Self {
        Self { plan: Arc::clone(plan), right: Mutex::default(), queue: PartQueue::default() }
    }

    /// Takes the left side, when the right one is there.
    fn fill(
        &self,
        ctx: &ExecContext,
        radix: RadixBits,
        left: Vec<Option<RowPartition>>,
        cancelled: Cancelled<'_>,
    ) -> Result<(), ExecError> {
        let (by, mut right) = self.right.lock().take().expect("the right side is divided first");
        if by != radix {
            // It had too few rows to choose the bits.
            right = redivided(&self.plan.right, ctx, right.into_iter().flatten(), radix, cancelled)?
                .into_partitions()
                .into_iter()
                .map(Some)
                .collect();
        }
        let kind = self.plan.spec.kind;
        let has_rows = |side: &Option<RowPartition>| side.as_ref().is_some_and(|rows| rows.rows() > 0);
        let mut parts: Vec<Part> = left.into_iter().zip(right).map(|(left, right)| [left, right]).collect();
        parts.retain(|[left, right]| match (has_rows(left), has_rows(right)) {
            (true, true) => true,
            (true, false) => kind.gives_unmet(),
            (false, right) => right && kind.gives_unmet_right(),
        });
        let count = parts.len();
        for (number, part) in parts.iter().enumerate() {
            part.iter().flatten().for_each(|rows| rows.set_needed(NeededAt::new(number, count)));
        }
        self.queue.fill(parts);
        Ok(())
    }

    /// Lanes that have something to do, and what each may pin: together half of the memory that is to be had. The rest is for what flows onward.
    fn grant(&self, ctx: &ExecContext, threads: usize) -> Option<Grant> {
        let bytes = |part: &Part| part.iter().flatten().map(footprint).sum();
        self.queue.grant(bytes, |sizes| {
            let half = ctx.share.claim() / 2;
            let largest = sizes.iter().copied().max().unwrap_or(0).max(LANE_PAGES_MIN * PAGE_SIZE);
            let lanes = (half / largest).clamp(1, threads.min(sizes.len()).max(1));
            Grant { lanes, share: half / lanes }
        })
    }

    /// The rows of the next part, each side in order.
    fn next(&self, ctx: &ExecContext, cancelled: Cancelled<'_>) -> Result<Option<Pair>, ExecError> {
        let grant = self.grant(ctx, ctx.settings.threads.max(1)).expect("there are parts");
        let Some((_, sides)) = self.queue.next() else { return Ok(None) };
        let fits = sides.iter().flatten().map(footprint).sum::<usize>() <= grant.share;
        if !fits {
            ctx.counters.note_strategy("asof: sorted in runs".to_owned());
        }
        sides.iter().flatten().for_each(|rows| ctx.memory.prefetch(rows.pages()));
        let equal = self.plan.equal;
        let sorted = |rows: Option<RowPartition>, plan: &Arc<SortPlan>| {
            let runs = match rows.filter(|rows| rows.rows() > 0) {
                Some(rows) => {
                    sorted_part(ctx, plan, rows, (equal, None), (!fits).then_some(grant.share / 2), cancelled)?
                }
                None => Vec::new(),
            };
            Ok::<_, ExecError>(Merge::new(plan, &ctx.memory, &runs.into(), None, None)?)
        };
        let [left, right] = sides;
        Ok(Some((sorted(left, &self.plan.left)?, sorted(right, &self.plan.right)?)))
    }
}
