//! What the pipelines of a join share, from phase to phase.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use ogee_memory::{NeededAt, PAGE_SIZE};
use ogee_row::{HeapBuffers, PartitionedRows, PinnedRows, RadixBits, RowPartition};
use parking_lot::Mutex;

use super::{
    CONSUMER,
    ranges::RangeTable,
    reach::{KeyRanges, KeySets, Reaches},
    rest::Rest,
    side::Side,
    spec::JoinPlan,
    table::{KeyOrder, Lookup, Mates, TaggedTable},
};
use crate::{ExecContext, ExecError, JoinStrategy, keys::slots_for};

/// Partitions of a build side that does not fit, at least: enough to keep some of them.
const BITS_MIN: u32 = 3;
/// And at most: 256 open pages for each lane are 64 MiB.
const BITS_MAX: u32 = 8;

/// Bytes of a set of keys that is begun before it is known whether it will be needed, at most.
const EARLY_BYTES_MAX: usize = 64 << 20;

/// Shared by the pipelines of one join.
pub(crate) struct JoinState {
    pub(crate) plan: Arc<JoinPlan>,
    pub(crate) ctx: ExecContext,
    /// Who is told which keys there are.
    pub(crate) reaches: Reaches,
    /// The bits that choose the partition, once the build side is large enough to be divided.
    radix: OnceLock<RadixBits>,
    collected: Mutex<Collected>,
    built: Mutex<Option<Arc<Built>>>,
    /// Rows of the probe side that wait for absent partitions, by lane.
    kept: Mutex<Vec<Vec<RowPartition>>>,
    /// Some row of the probe side was seen; one whose key is NULL.
    pub(crate) probe_seen: AtomicBool,
    pub(crate) probe_null_seen: AtomicBool,
    pub(crate) rest: Arc<Rest>,
}

/// The build side as its lanes leave it.
#[derive(Default)]
struct Collected {
    lanes: Vec<(RadixBits, Vec<RowPartition>)>,
    /// Rows that nothing can match, since their key has a NULL.
    unmatchable: Vec<RowPartition>,
    ranges: KeyRanges,
}

/// The build side when it is complete.
pub(crate) struct Built {
    pub(crate) table: TaggedTable,
    /// The rows that stay in memory, in order, where that is how they are looked up.
    pub(crate) sorted: OnceLock<RangeTable>,
    /// Their strings, where chunks have some.
    pub(crate) heap: OnceLock<HeapBuffers>,
    /// Rows in the table or to be put there.
    pub(crate) resident: Mutex<Resident>,
    /// Rows of the build side that could match something, resident or not.
    pub(crate) rows: usize,
    /// Where the rows are that did not fit.
    pub(crate) absent: Option<Absent>,
    /// Sets that the keys of the rows have yet to be added to.
    pub(crate) key_sets: KeySets,
}

impl Built {
    /// Where the rows that stay in memory are looked up.
    pub(crate) fn mates(&self) -> Mates<'_> {
        let lookup = self.sorted.get().map_or(Lookup::Hashed(&self.table), Lookup::Sorted);
        Mates { lookup, heap: self.heap.get() }
    }
}

/// Rows of the build side that stay in memory.
#[derive(Default)]
pub(crate) struct Resident {
    /// Not in the table yet, with the next page.
    pub(crate) waiting: VecDeque<(RowPartition, usize)>,
    /// Keep the pages from being destroyed.
    pub(crate) parts: Vec<RowPartition>,
    pub(crate) pages: Vec<PinnedRows>,
}

/// Partitions that do not stay in memory.
pub(crate) struct Absent {
    pub(crate) radix: RadixBits,
    /// By partition.
    pub(crate) is_absent: Vec<bool>,
    /// Rows of the build side, by partition.
    pub(crate) build: Mutex<Vec<Vec<RowPartition>>>,
}

/// Pages that a partition which is written to keeps open.
pub(crate) fn open_bytes(side: &Side) -> usize {
    PAGE_SIZE * side.layout.open_pages()
}

/// Room for rows of `side`, by partition. Those of the first are needed first when partitions are joined one by one, and are to be in memory then.
pub(crate) fn partitioned(ctx: &ExecContext, side: &Side, radix: RadixBits) -> PartitionedRows {
    let (layout, memory) = (Arc::clone(&side.layout), Arc::clone(&ctx.memory));
    let mut rows = PartitionedRows::new(layout, memory, CONSUMER, radix, false);
    rows.set_needed((radix.bits() > 0).then_some(NeededAt::LAST));
    rows
}

/// Bytes that joining with `parts` takes: pages and table.
pub(crate) fn footprint(parts: &[RowPartition]) -> usize {
    let rows = parts.iter().map(RowPartition::rows).sum();
    parts.iter().map(RowPartition::bytes).sum::<usize>() + slots_for(rows) * size_of::<u64>()
}

impl JoinState {
    pub(crate) fn new(plan: Arc<JoinPlan>, ctx: ExecContext, reaches: Reaches) -> Self {
        ctx.pending_builds.fetch_add(1, Ordering::Relaxed);
        let rest = Arc::new(Rest::new(Arc::clone(&plan), ctx.clone()));
        Self {
            plan,
            ctx,
            reaches,
            radix: OnceLock::new(),
            collected: Mutex::default(),
            built: Mutex::default(),
            kept: Mutex::default(),
            probe_seen: AtomicBool::new(false),
            probe_null_seen: AtomicBool::new(false),
            rest,
        }
    }

    /// Bytes that the build side may keep in memory: half of what there is, shared with the builds that are still to come. What those do not
    /// need is there for the others, and the other half for what the rows meet further on.
    pub(crate) fn grant(&self) -> usize {
        self.ctx.share.claim() / 2 / self.ctx.pending_builds.load(Ordering::Relaxed).max(1)
    }

    /// The sets of keys for a build side that may be too large to come back to: an eighth of the grant. Of rows of 32 bytes, which fill it four times,
    /// each key then has 8 bits. None where that is
    /// so much that each look at a set is a cache miss, as it is in the table: most sides that are divided then fit in the end.
    pub(crate) fn early_sets(&self) -> &KeySets {
        self.reaches.early(&self.ctx, || match self.grant() / 8 {
            bytes if bytes > EARLY_BYTES_MAX => None,
            bytes => Some(bytes / size_of::<u64>()),
        })
    }

    /// The bits that all lanes divide the build side by, decided when it first matters. Both sides have a page open for each partition and
    /// lane, which must not take more than half of the grant: a side that is divided waits on disk. A partition that is too large for a lane in the
    /// end costs more, as both sides' rows of it are read and written again.
    pub(crate) fn radix(&self) -> RadixBits {
        *self.radix.get_or_init(|| {
            let open = open_bytes(&self.plan.build).max(open_bytes(&self.plan.probe)) * self.ctx.settings.threads;
            let partitions = self.grant() / 2 / open;
            RadixBits::new(partitions.max(1).ilog2().clamp(BITS_MIN, BITS_MAX))
        })
    }

    /// Takes what a lane of the build side wrote.
    pub(crate) fn collect(&self, rows: PartitionedRows, unmatchable: Option<PartitionedRows>, ranges: &KeyRanges) {
        let radix = rows.radix();
        let mut collected = self.collected.lock();
        collected.ranges.merge(ranges);
        collected.lanes.push((radix, rows.into_partitions()));
        collected.unmatchable.extend(unmatchable.into_iter().flat_map(PartitionedRows::into_partitions));
    }

    /// The build side is complete: decides what stays in memory, and makes the table for it.
    pub(crate) fn settle(&self) -> Result<(), ExecError> {
        let Collected { lanes, unmatchable, ranges } = std::mem::take(&mut *self.collected.lock());
        self.rest.add_unmatchable(unmatchable);
        let all = || lanes.iter().flat_map(|(_, parts)| parts);
        let rows = all().map(RowPartition::rows).sum::<usize>();
        let bytes = all().map(RowPartition::bytes).sum::<usize>() + slots_for(rows) * size_of::<u64>();
        let grant = self.grant();
        let mut key_sets = KeySets::new();
        let mut resident: Vec<RowPartition> = Vec::new();
        let mut absent = None;
        let strategy = self.ctx.settings.join_strategy;
        if bytes <= grant && strategy.is_none() {
            key_sets = self.reaches.tell(&self.plan, &self.ctx, &ranges, rows, false);
            resident.extend(lanes.into_iter().flat_map(|(_, parts)| parts));
        } else {
            let radix = self.radix();
            let mut is_absent = vec![false; radix.fan_out()];
            let mut build: Vec<Vec<RowPartition>> = is_absent.iter().map(|_| Vec::new()).collect();
            // Half for those that stay, the other for the pages of the probe side's rows that must wait.
            let mut left = grant / 2;
            let divided = self.by_partition(lanes, radix)?;
            self.reaches.tell(&self.plan, &self.ctx, &ranges, rows, true);
            for (partition, parts) in divided.into_iter().enumerate() {
                let takes = footprint(&parts);
                let may_stay = match strategy {
                    None => true,
                    Some(JoinStrategy::Hybrid) => partition % 2 == 0,
                    Some(JoinStrategy::Partitioned) => false,
                };
                if may_stay && takes <= left {
                    left -= takes;
                    resident.extend(parts);
                } else {
                    is_absent[partition] = true;
                    build[partition] = parts;
                }
            }
            let waiting = is_absent.iter().filter(|absent| **absent).count();
            let note = format!("hash join: {waiting} of {} partitions are joined later", radix.fan_out());
            self.ctx.counters.note_strategy(note);
            absent = Some(Absent { radix, is_absent, build: Mutex::new(build) });
        }
        let resident_rows = resident.iter().map(RowPartition::rows).sum();
        let hashed_rows = if self.plan.spec.ranges.is_some() { 0 } else { resident_rows };
        // A key that is NULL, where that is one like others, has no place among the values.
        let range = ranges.of_key(0).filter(|_| !self.plan.spec.nulls_equal);
        let order = KeyOrder::of(&self.plan.build.layout, range, hashed_rows);
        let table = TaggedTable::new(&self.ctx.memory, hashed_rows, order, self.plan.next)?;
        self.ctx.memory.prefetch(resident.iter().flat_map(RowPartition::pages));
        let waiting = resident.into_iter().filter(|part| part.rows() > 0).map(|part| (part, 0)).collect();
        let resident = Mutex::new(Resident { waiting, ..Resident::default() });
        let (sorted, heap) = (OnceLock::new(), OnceLock::new());
        *self.built.lock() = Some(Arc::new(Built { table, sorted, heap, resident, rows, absent, key_sets }));
        self.ctx.pending_builds.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// The rows of all lanes by partition. Lanes with few rows have not divided them, and have not told their keys.
    fn by_partition(
        &self,
        lanes: Vec<(RadixBits, Vec<RowPartition>)>,
        radix: RadixBits,
    ) -> Result<Vec<Vec<RowPartition>>, ExecError> {
        let mut by_partition: Vec<Vec<RowPartition>> = (0..radix.fan_out()).map(|_| Vec::new()).collect();
        let mut divided = partitioned(&self.ctx, &self.plan.build, radix);
        for (lane_radix, parts) in lanes {
            if lane_radix == radix {
                by_partition.iter_mut().zip(parts).for_each(|(all, part)| all.push(part));
            } else {
                self.divide(parts, &mut divided)?;
            }
        }
        by_partition.iter_mut().zip(divided.into_partitions()).for_each(|(all, part)| all.push(part));
        by_partition.iter_mut().for_each(|parts| parts.retain(|part| part.rows() > 0));
        Ok(by_partition)
    }

    /// Moves the rows of `parts`, whose keys were not told yet, to `divided`.
    pub(crate) fn divide(&self, parts: Vec<RowPartition>, divided: &mut PartitionedRows) -> Result<(), ExecError> {
        for mut part in parts {
            if !self.reaches.is_empty() {
                self.reaches.add_part(self.early_sets(), &self.plan.build.layout, &mut part)?;
            }
            divided.append_partition(part)?;
        }
        Ok(())
    }

    /// The build side, complete.
    pub(crate) fn built(&self) -> Arc<Built> {
        Arc::clone(self.built.lock().as_ref().expect("probes depend on the pipeline that builds"))
    }

    /// Number of absent partitions, once that is known and if there are any.
    pub(crate) fn absent_partitions(&self) -> Option<usize> {
        let built = self.built.lock();
        let absent = built.as_ref()?.absent.as_ref()?;
        Some(absent.is_absent.iter().filter(|absent| **absent).count())
    }

    /// Takes the rows that a lane of the probe side has kept, by partition.
    pub(crate) fn keep(&self, rows: PartitionedRows) {
        self.kept.lock().push(rows.into_partitions());
    }

    /// All rows of the probe side have been seen: hands over what is left to do.
    pub(crate) fn finish_probe(&self) {
        let built = self.built.lock().take().expect("probed once");
        let kept = std::mem::take(&mut *self.kept.lock());
        let null_aware = self.plan.spec.null_aware;
        if null_aware && self.probe_null_seen.load(Ordering::Relaxed) {
            self.rest.give_nothing();
            return;
        }
        if null_aware && self.probe_seen.load(Ordering::Relaxed) {
            self.rest.drop_unmatchable();
        }
        self.rest.fill(built, kept);
    }
}
