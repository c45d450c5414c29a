//! First phase of windows over partitions: rows are divided by the hash of their partition keys, so that whatever there is of them each is written
//! once at most, and sorted in a part that fits into memory (`parts`). Nothing is compared but where only the first rows of
//! partitions are wanted (`firsts`).

use std::sync::{Arc, OnceLock};

use ogee_memory::{NeededAt, PAGE_SIZE};
use ogee_row::{PartitionedRows, RadixBits, RowPartition};
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;
use parking_lot::Mutex;

use super::{CONSUMER, firsts::Firsts};
use crate::{
    ExecContext, ExecError, Flow, Sink, SinkLocal,
    cancel::{Cancelled, append_partition},
    sort::{Leading, Scratch, SortPlan},
};

/// Parts to start with, if there is memory for so many: the fewest that let eight lanes share the second phase.
const INITIAL_BITS: u32 = 3;
/// Parts at most: 1,024 row pages for each lane are 256 MiB.
const MAX_BITS: u32 = 10;
/// Parts that are worth giving up lanes for where memory is short.
const WANTED_PARTS: usize = 16;
/// Bytes of rows that a part should have: with its entries it fits the L2 cache of today's cores.
const PART_BYTES: usize = 1 << 20;
/// Rows to expect where the source cannot tell.
const UNKNOWN_ROWS: u64 = 1 << 24;
/// Rows of a lane before it decides how many parts there are to be.
const SETTLE_ROWS: usize = 1 << 16;

/// Who takes the parts when all rows are there.
pub(crate) trait FillParts: Send + Sync {
    /// Takes the parts by `radix`, in the order of its bits.
    ///
    /// # Errors
    /// When memory runs out, or the query is to end.
    fn fill(
        &self,
        radix: RadixBits,
        parts: Vec<Option<RowPartition>>,
        cancelled: Cancelled<'_>,
    ) -> Result<(), ExecError>;
}

/// First phase of windows over partitions.
pub(crate) struct DivideSink {
    plan: Arc<SortPlan>,
    ctx: ExecContext,
    /// Whose rows they are.
    purpose: &'static str,
    rows_estimate: Option<u64>,
    leading: Option<Leading>,
    shared: Arc<Shared>,
    parts: Arc<dyn FillParts>,
}

struct Shared {
    grant: OnceLock<Grant>,
    /// Decided by the first lane that has many rows, of any of those who share it.
    radix: Arc<OnceLock<RadixBits>>,
    done: Mutex<Vec<PartitionedRows>>,
}

#[derive(Clone, Copy)]
struct Grant {
    lanes: usize,
    /// Bytes that a lane may keep pinned.
    lane_bytes: usize,
    /// Bits by which rows are divided before it is known how many there are, and at most.
    initial_bits: u32,
    max_bits: u32,
}

impl DivideSink {
    /// For rows of `plan`, about `rows_estimate` of them, divided by the bits that `radix` will say.
    pub(crate) fn new(
        plan: &Arc<SortPlan>,
        ctx: &ExecContext,
        (purpose, leading): (&'static str, Option<Leading>),
        rows_estimate: Option<u64>,
        radix: Arc<OnceLock<RadixBits>>,
        parts: Arc<dyn FillParts>,
    ) -> Self {
        let shared = Arc::new(Shared { grant: OnceLock::new(), radix, done: Mutex::default() });
        Self { plan: Arc::clone(plan), ctx: ctx.clone(), purpose, rows_estimate, leading, shared, parts }
    }

    /// Half of the memory that is to be had is for the lanes, the other half for those who feed them.
    fn grant(&self, threads: usize) -> Grant {
        *self.shared.grant.get_or_init(|| {
            let half = self.ctx.share.claim() / 2;
            let lanes = (half / (WANTED_PARTS * PAGE_SIZE)).clamp(1, threads);
            let lane_bytes = half / lanes;
            // What only the first rows of partitions are chosen with takes as much as open pages do.
            let open_bytes = if self.leading.is_some() { lane_bytes / 2 } else { lane_bytes };
            let max_bits = (open_bytes / PAGE_SIZE).max(1).ilog2().min(MAX_BITS);
            Grant { lanes, lane_bytes, initial_bits: INITIAL_BITS.min(max_bits), max_bits }
        })
    }
}

impl Sink for DivideSink {
    fn name(&self) -> &str {
        if self.leading.is_some() { "top-k by partition" } else { "divide" }
    }

    fn lanes(&self, threads: usize) -> usize {
        self.grant(threads).lanes
    }

    fn may_grow(&self) -> bool {
        self.plan.may_grow()
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        let grant = self.grant(ctx.settings.threads.max(1));
        let firsts = match self.leading {
            Some(leading) => Firsts::new(&self.plan, ctx, leading, grant.lane_bytes / 2)?,
            None => None,
        };
        let divided = Divided {
            rows: open(&self.plan, ctx, RadixBits::new(grant.initial_bits)),
            settled: None,
            grant,
            rows_expected: self.rows_estimate.unwrap_or(UNKNOWN_ROWS),
            plan: Arc::clone(&self.plan),
            ctx: ctx.clone(),
            shared: Arc::clone(&self.shared),
        };
        Ok(Box::new(DivideLocal { divided, firsts, scratch: Scratch::default() }))
    }

    fn finish(&self, ctx: &ExecContext, task: &TaskContext) -> Result<(), ExecError> {
        let cancelled: Cancelled<'_> = &|| task.is_cancelled();
        let lanes = std::mem::take(&mut *self.shared.done.lock());
        let initial = RadixBits::new(self.grant(ctx.settings.threads.max(1)).initial_bits);
        let radix = *self.shared.radix.get().unwrap_or(&initial);
        let mut parts: Vec<Option<RowPartition>> = (0..radix.fan_out()).map(|_| None).collect();
        for mut rows in lanes {
            if rows.radix() != radix {
                rows = redivided(&self.plan, ctx, rows.into_partitions(), radix, cancelled)?;
            }
            for (part, rows) in parts.iter_mut().zip(rows.into_partitions()) {
                match part {
                    Some(part) => part.absorb(rows),
                    none => *none = Some(rows),
                }
            }
        }
        ctx.counters.note_strategy(format!("{}: divided by {}", self.purpose, radix.fan_out()));
        self.parts.fill(radix, parts, cancelled)
    }
}

fn open(plan: &SortPlan, ctx: &ExecContext, radix: RadixBits) -> PartitionedRows {
    let mut rows = PartitionedRows::new(Arc::clone(&plan.layout), Arc::clone(&ctx.memory), CONSUMER, radix, false);
    rows.set_needed(Some(NeededAt::LAST));
    rows.keep_strings_with_rows();
    rows
}

/// `rows` of `plan`'s layout, divided by `radix`.
pub(crate) fn redivided(
    plan: &SortPlan,
    ctx: &ExecContext,
    rows: impl IntoIterator<Item = RowPartition>,
    radix: RadixBits,
    cancelled: Cancelled<'_>,
) -> Result<PartitionedRows, ExecError> {
    let mut divided = open(plan, ctx, radix);
    for part in rows {
        append_partition(&mut divided, part, cancelled)?;
    }
    Ok(divided)
}

/// The rows of a lane, divided.
pub(super) struct Divided {
    plan: Arc<SortPlan>,
    ctx: ExecContext,
    shared: Arc<Shared>,
    rows: PartitionedRows,
    /// By what they are divided to the end, once that is decided.
    settled: Option<RadixBits>,
    grant: Grant,
    /// Rows that are expected of all lanes.
    rows_expected: u64,
}

impl Divided {
    /// Tells that of `seen` rows only `kept` have been appended, or will be.
    pub(super) fn expect(&mut self, kept: usize, seen: usize) {
        let rows = u128::from(self.rows_expected) * kept as u128 / seen.max(1) as u128;
        self.rows_expected = rows.min(u128::from(self.rows_expected)) as u64;
    }

    /// Appends the rows at `sources`.
    ///
    /// # Safety
    /// They are rows of the plan's layout, staged or pinned, with hashes and strings.
    pub(super) unsafe fn append(&mut self, sources: impl Iterator<Item = *const u8>) -> Result<(), ExecError> {
        // SAFETY: the caller vouches for the rows.
        unsafe { self.rows.scatter(sources)? };
        Ok(())
    }

    /// Decides how many parts there are to be, once there are many rows.
    fn settle(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        if self.settled.is_none() && self.rows.rows() >= SETTLE_ROWS {
            let radix = *self.shared.radix.get_or_init(|| {
                let bytes = self.rows_expected.saturating_mul(self.plan.layout.width() as u64);
                let bits = (bytes / PART_BYTES as u64).max(1).ilog2();
                RadixBits::new(bits.clamp(self.grant.initial_bits, self.grant.max_bits))
            });
            self.settled = Some(radix);
            if radix != self.rows.radix() {
                let few = std::mem::replace(&mut self.rows, open(&self.plan, &self.ctx, RadixBits::new(0)));
                self.rows = redivided(&self.plan, &self.ctx, few.into_partitions(), radix, cancelled)?;
            }
        }
        Ok(())
    }
}

struct DivideLocal {
    divided: Divided,
    firsts: Option<Firsts>,
    scratch: Scratch,
}

impl SinkLocal for DivideLocal {
    fn consume(&mut self, chunk: Chunk, task: &TaskContext) -> Result<Flow, ExecError> {
        let Self { divided, firsts, scratch: Scratch { keys, stage, selected } } = self;
        let plan = Arc::clone(&divided.plan);
        plan.evaluate(&chunk, divided.ctx.settings.hash, keys)?;
        let _held = plan.stage(&chunk, keys, stage)?;
        let rows = chunk.len();
        // SAFETY: staged rows, whose strings are in arrays that are held.
        unsafe {
            match firsts.as_mut().and_then(|firsts| firsts.is_worthwhile(rows).then_some(firsts)) {
                Some(firsts) => {
                    firsts.choose(stage, rows, selected, divided)?;
                    divided.append(selected.iter().map(|&row| stage.row(row as usize)))?;
                }
                None => divided.append((0..rows).map(|row| stage.row(row)))?,
            }
        }
        divided.settle(&|| task.is_cancelled())?;
        Ok(Flow::Continue)
    }

    fn combine(mut self: Box<Self>, _task: &TaskContext) -> Result<(), ExecError> {
        if let Some(firsts) = &mut self.firsts {
            firsts.settle(&mut self.divided)?;
        }
        let Divided { shared, rows, .. } = self.divided;
        shared.done.lock().push(rows);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{ArrayRef, Int64Array};
    use arrow_schema::{DataType, Field, Schema};
    use ogee_memory::{BufferManager, MemoryConfig};

    use super::*;
    use crate::{
        ExecSettings, Expr,
        cancel::{after, is_cancelled},
    };

    #[test]
    fn each_page_that_is_divided_anew_is_an_occasion_to_end() {
        let memory = BufferManager::new(MemoryConfig { limit: 64 << 20, counts_process: false, ..Default::default() });
        let ctx = ExecContext::new(memory.unwrap(), ExecSettings::default());
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let plan = SortPlan::new(schema, &[], vec![(Expr::Column(0), DataType::Int64)]).unwrap();
        let rows = || {
            let Scratch { keys, stage, .. } = &mut Scratch::default();
            let mut divided = open(&plan, &ctx, RadixBits::new(0));
            for from in (0..50_000).step_by(1000) {
                let column: ArrayRef = Arc::new((from..from + 1000).collect::<Int64Array>());
                let chunk = Chunk::new(vec![column], 1000);
                plan.evaluate(&chunk, ctx.settings.hash, keys).unwrap();
                let _held = plan.stage(&chunk, keys, stage).unwrap();
                // SAFETY: staged rows without strings.
                unsafe { divided.scatter((0..1000).map(|row| stage.row(row))).unwrap() };
            }
            divided.into_partitions()
        };
        let pages = rows()[0].num_pages();
        assert!(pages > 3);
        for checks in [0, 1, pages - 1] {
            assert!(is_cancelled(&redivided(&plan, &ctx, rows(), RadixBits::new(3), &after(checks))), "{checks}");
        }
        let divided = redivided(&plan, &ctx, rows(), RadixBits::new(3), &after(10 * pages)).unwrap();
        assert_eq!(divided.rows(), 50_000);
    }
}
