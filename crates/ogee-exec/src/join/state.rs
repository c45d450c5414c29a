//! What the pipelines of a join share, from phase to phase.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ogee_memory::{BufferManager, NeededAt, PAGE_SIZE, PageHandle};
use ogee_row::{
    HeapBuffers, PartitionedRows, PinnedRows, RadixBits, RowPartition, SerialForm, SerialPartition, SerialRows,
};
use parking_lot::Mutex;

use super::{
    CONSUMER,
    insert::MORSEL_PAGES,
    ranges::RangeTable,
    reach::{KeyRanges, KeySets, Reaches},
    rest::Rest,
    spec::JoinPlan,
    table::{KeyOrder, Lookup, Mates, TaggedTable},
};
use crate::{
    ExecContext, ExecError, JoinStrategy,
    cancel::{Cancelled, obey, pin_all},
    keys::slots_for,
};

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
    /// Rows of the build side so far that were not divided, and bytes of their pages.
    whole_rows: AtomicUsize,
    whole_bytes: AtomicUsize,
    collected: Mutex<Collected>,
    built: Mutex<Option<Arc<Built>>>,
    /// Rows of the probe side that wait for absent partitions, by lane.
    kept: Mutex<Vec<Vec<SerialPartition>>>,
    /// Some row of the probe side was seen; one whose key is NULL.
    pub(crate) probe_seen: AtomicBool,
    pub(crate) probe_null_seen: AtomicBool,
    pub(crate) rest: Arc<Rest>,
}

/// The build side as its lanes leave it.
#[derive(Default)]
struct Collected {
    /// Rows that were not divided.
    whole: Vec<RowPartition>,
    /// Those that were, of each lane by partition.
    divided: Vec<Vec<SerialPartition>>,
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
    /// Not in the table yet, by morsels: a lane takes one and pins it while others pin theirs.
    pub(crate) waiting: VecDeque<RowPartition>,
    /// Nor these, which were divided before it was known that they may stay, and how many pages they have.
    pub(crate) serial: Vec<SerialPartition>,
    pub(crate) serial_pages: usize,
    /// Keep the pages from being destroyed.
    pub(crate) parts: Vec<RowPartition>,
    pub(crate) pages: Vec<PinnedRows>,
}

impl Resident {
    /// Rows that are not in the table yet.
    fn rows(&self) -> usize {
        let waiting = self.waiting.iter().map(RowPartition::rows);
        waiting.chain(self.serial.iter().map(SerialPartition::rows)).sum()
    }

    /// Their pages.
    fn pages(&self) -> impl Iterator<Item = PageHandle> + '_ {
        self.waiting.iter().flat_map(RowPartition::pages).chain(self.serial.iter().flat_map(SerialPartition::pages))
    }
}

/// Partitions that do not stay in memory.
pub(crate) struct Absent {
    pub(crate) radix: RadixBits,
    /// By partition.
    pub(crate) is_absent: Vec<bool>,
    /// Rows of the build side, by partition.
    pub(crate) build: Mutex<Vec<Vec<SerialPartition>>>,
}

/// Bytes of the pages that a partition of rows which wait keeps open while it is written to.
pub(crate) const OPEN_BYTES: usize = PAGE_SIZE * SerialRows::OPEN_PAGES;

/// Room for rows that wait, by partition. Those of the first are needed first, as partitions are joined one by one, so that they are to be in memory then.
pub(crate) fn waiting_rows(ctx: &ExecContext, form: &Arc<SerialForm>, radix: RadixBits) -> SerialRows {
    let needed = (radix.bits() > 0).then_some(NeededAt::LAST);
    SerialRows::new(form, Arc::clone(&ctx.memory), CONSUMER, radix, needed)
}

/// Room for rows of the build side, in the order in which they come.
pub(crate) fn build_rows(memory: &Arc<BufferManager>, plan: &JoinPlan, retain: bool) -> PartitionedRows {
    let layout = Arc::clone(&plan.build.layout);
    PartitionedRows::new(layout, Arc::clone(memory), CONSUMER, RadixBits::new(0), retain)
}

/// The one partition of `rows`, which retained their pages, pinned.
pub(crate) fn pinned(
    rows: PartitionedRows,
    cancelled: Cancelled<'_>,
) -> Result<(RowPartition, Vec<PinnedRows>), ExecError> {
    let (mut parts, _retained) = rows.into_retained();
    let mut part = parts.pop().expect("rows that are not divided are one partition");
    let pages = pin_all(&mut part, cancelled)?;
    Ok((part, pages))
}

#[cfg(test)]
thread_local! {
    /// How often this thread has looked at all parts of a partition.
    pub(crate) static FOOTPRINTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Bytes that joining with `parts` takes: rows and table.
pub(crate) fn footprint(parts: &[SerialPartition]) -> usize {
    #[cfg(test)]
    FOOTPRINTS.set(FOOTPRINTS.get() + 1);
    let rows = parts.iter().map(SerialPartition::rows).sum();
    parts.iter().map(SerialPartition::loose_bytes).sum::<usize>() + table_bytes(rows)
}

/// Bytes of a table of `rows` rows.
pub(crate) fn table_bytes(rows: usize) -> usize {
    slots_for(rows) * size_of::<u64>()
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
            whole_rows: AtomicUsize::new(0),
            whole_bytes: AtomicUsize::new(0),
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

    /// The bits that both sides are divided by, decided when it first matters. Each lane has a page open for each partition, which must not
    /// take more than half of the grant. A partition that is too large for a lane in the
    /// end costs more, as both sides' rows of it are read and written again.
    pub(crate) fn radix(&self) -> RadixBits {
        *self.radix.get_or_init(|| {
            let partitions = self.grant() / 2 / (OPEN_BYTES * self.ctx.settings.threads);
            RadixBits::new(partitions.max(1).ilog2().clamp(BITS_MIN, BITS_MAX))
        })
    }

    /// Counts rows of the build side that were not divided, and bytes of their pages. Whether all of them, and a table, are more than may stay.
    pub(crate) fn outgrows(&self, rows: usize, bytes: usize) -> bool {
        let rows = self.whole_rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let bytes = self.whole_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        bytes + table_bytes(rows) > self.grant()
    }

    /// Takes what a lane of the build side wrote.
    pub(crate) fn collect(
        &self,
        whole: PartitionedRows,
        divided: Option<SerialRows>,
        unmatchable: Option<PartitionedRows>,
        ranges: &KeyRanges,
    ) {
        let mut collected = self.collected.lock();
        collected.ranges.merge(ranges);
        collected.whole.extend(whole.into_partitions().into_iter().filter(|part| part.rows() > 0));
        collected.divided.extend(divided.map(SerialRows::into_partitions));
        collected.unmatchable.extend(unmatchable.into_iter().flat_map(PartitionedRows::into_partitions));
    }

    /// The build side is complete: decides what stays in memory, and makes the table for it.
    pub(crate) fn settle(&self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let Collected { whole, divided, unmatchable, ranges } = std::mem::take(&mut *self.collected.lock());
        self.rest.add_unmatchable(unmatchable);
        let serial = || divided.iter().flatten();
        let rows = whole.iter().map(RowPartition::rows).chain(serial().map(SerialPartition::rows)).sum::<usize>();
        let bytes = whole.iter().map(RowPartition::bytes).chain(serial().map(SerialPartition::loose_bytes));
        let bytes = bytes.sum::<usize>() + table_bytes(rows);
        let grant = self.grant();
        let mut key_sets = KeySets::new();
        let mut resident = Resident::default();
        let mut absent = None;
        let strategy = self.ctx.settings.join_strategy;
        if bytes <= grant && strategy.is_none() {
            key_sets = self.reaches.tell(&self.plan, &self.ctx, &ranges, rows, false);
            resident.waiting.extend(whole.into_iter().flat_map(|part| part.into_parts(MORSEL_PAGES)));
            resident.serial.extend(divided.into_iter().flatten().filter(|part| part.rows() > 0));
        } else {
            let radix = self.radix();
            let mut is_absent = vec![false; radix.fan_out()];
            let mut build: Vec<Vec<SerialPartition>> = is_absent.iter().map(|_| Vec::new()).collect();
            // Half for those that stay, the other for the pages of the probe side's rows that must wait.
            let mut left = grant / 2;
            let by_partition = self.by_partition(whole, divided, radix, cancelled)?;
            self.reaches.tell(&self.plan, &self.ctx, &ranges, rows, true);
            for (partition, parts) in by_partition.into_iter().enumerate() {
                let takes = footprint(&parts);
                let may_stay = match strategy {
                    None => true,
                    Some(JoinStrategy::Hybrid) => partition % 2 == 0,
                    Some(JoinStrategy::Partitioned) => false,
                };
                if may_stay && takes <= left {
                    left -= takes;
                    resident.serial.extend(parts);
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
        resident.serial_pages = resident.serial.iter().map(SerialPartition::num_pages).sum();
        let resident_rows = resident.rows();
        let hashed_rows = if self.plan.spec.ranges.is_some() { 0 } else { resident_rows };
        // A key that is NULL, where that is one like others, has no place among the values.
        let range = ranges.of_key(0).filter(|_| !self.plan.spec.nulls_equal);
        let order = KeyOrder::of(&self.plan.build.layout, range, hashed_rows);
        let table = TaggedTable::new(&self.ctx.memory, hashed_rows, order, self.plan.next)?;
        self.ctx.memory.prefetch(resident.pages());
        let resident = Mutex::new(resident);
        let (sorted, heap) = (OnceLock::new(), OnceLock::new());
        *self.built.lock() = Some(Arc::new(Built { table, sorted, heap, resident, rows, absent, key_sets }));
        self.ctx.pending_builds.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// All rows by partition. Those of lanes that ended before it was known that not all may stay are divided now.
    fn by_partition(
        &self,
        whole: Vec<RowPartition>,
        lanes: Vec<Vec<SerialPartition>>,
        radix: RadixBits,
        cancelled: Cancelled<'_>,
    ) -> Result<Vec<Vec<SerialPartition>>, ExecError> {
        let mut by_partition: Vec<Vec<SerialPartition>> = (0..radix.fan_out()).map(|_| Vec::new()).collect();
        let late = self.divide(whole, cancelled)?.into_partitions();
        for parts in lanes.into_iter().chain([late]) {
            by_partition.iter_mut().zip(parts).for_each(|(all, part)| all.push(part));
        }
        by_partition.iter_mut().for_each(|parts| parts.retain(|part| part.rows() > 0));
        Ok(by_partition)
    }

    /// Divides the rows of `parts`, whose keys were not told yet.
    pub(crate) fn divide(&self, parts: Vec<RowPartition>, cancelled: Cancelled<'_>) -> Result<SerialRows, ExecError> {
        let mut divided = waiting_rows(&self.ctx, &self.plan.build_form, self.radix());
        for mut part in parts {
            if !self.reaches.is_empty() {
                self.reaches.add_part(self.early_sets(), &self.plan.build.layout, &mut part, cancelled)?;
            }
            loop {
                obey(cancelled)?;
                if !divided.append_last_page_of_rows(&mut part)? {
                    break;
                }
            }
        }
        Ok(divided)
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
    pub(crate) fn keep(&self, rows: SerialRows) {
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
