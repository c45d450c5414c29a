//! Second phase: partition by partition, each aggregated by one lane and pushed onward while it is warm (paper B).
//!
//! Partitions are exchanged through one list; a lane takes the next, pins its pages, combines equal groups through an exactly
//! sized table at a load of at most one half, and emits what is left. A partition that is larger than a lane may pin is split by
//! further hash bits and put back. One that no bits split (a few keys, many rows) is combined in place, page by page.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_schema::SchemaRef;
use ogee_memory::{MemoryError, PAGE_SIZE};
use ogee_row::{PartitionedRows, PinnedRows, RadixBits, RowPartition};
use ogee_scheduler::{JobWaker, TaskContext};
use parking_lot::Mutex;

use super::{
    plan::AggregatePlan,
    sink::{CONSUMER, append_partition},
    table::SaltedTable,
};
use crate::{ExecContext, ExecError, Source, SourceLocal, SourceStep};

/// Bits by which a partition is split at most: 64 open pages (128 with strings) at once.
const SPLIT_BITS: u32 = 6;
/// Partitions smaller than this are not split: 16 pages.
const SPLIT_BYTES_MIN: usize = 16 * PAGE_SIZE;

/// Rows of one partition, from all lanes of the first phase.
struct Partition {
    parts: Vec<RowPartition>,
    /// The bits that all its rows share.
    radix: RadixBits,
    /// No group occurs twice.
    distinct: bool,
}

impl Partition {
    fn rows(&self) -> usize {
        self.parts.iter().map(RowPartition::rows).sum()
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(RowPartition::bytes).sum()
    }

    /// Bytes that aggregating it takes: pages and table.
    fn footprint(&self) -> usize {
        self.bytes() + if self.distinct { 0 } else { table_capacity(self.rows()) * 8 }
    }
}

/// Entries for a table of `rows` rows: a power of two, at least twice as many.
fn table_capacity(rows: usize) -> usize {
    (rows * 2).next_power_of_two().max(64)
}

/// The partitions that are left to be aggregated.
#[derive(Default)]
pub(crate) struct Partitions {
    state: Mutex<State>,
    /// Lanes that are splitting a partition and will put parts back.
    splitting: AtomicUsize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Partition>,
    waker: Option<JobWaker>,
    /// Bytes that one lane may pin.
    share: usize,
}

impl Partitions {
    /// Takes what the first phase left, by partition.
    pub(crate) fn fill(&self, partitions: Vec<Vec<RowPartition>>, radix: RadixBits, distinct: bool) {
        let mut state = self.state.lock();
        let filled = partitions.into_iter().filter(|parts| !parts.is_empty());
        state.queue.extend(filled.map(|parts| Partition { parts, radix, distinct }));
    }
}

impl Partitions {
    /// Puts the parts of a split partition first in the list, and wakes lanes that found it empty.
    fn put_back(&self, split: Result<Vec<Partition>, ExecError>) -> Result<(), ExecError> {
        let waker = {
            let mut state = self.state.lock();
            self.splitting.fetch_sub(1, Ordering::AcqRel);
            for part in split? {
                state.queue.push_front(part);
            }
            state.waker.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

/// The groups of a hash aggregation.
pub(crate) struct AggregateSource {
    plan: Arc<AggregatePlan>,
    ctx: ExecContext,
    partitions: Arc<Partitions>,
    lanes: std::sync::OnceLock<usize>,
}

impl AggregateSource {
    pub(crate) fn new(plan: Arc<AggregatePlan>, ctx: ExecContext, partitions: Arc<Partitions>) -> Self {
        Self { plan, ctx, partitions, lanes: std::sync::OnceLock::new() }
    }
}

impl Source for AggregateSource {
    fn name(&self) -> &str {
        "groups"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    /// As many lanes as partitions, and as partitions fit into memory at once.
    fn lanes(&self, threads: usize) -> usize {
        *self.lanes.get_or_init(|| {
            let mut state = self.partitions.state.lock();
            let available = self.ctx.memory.available();
            let largest = state.queue.iter().map(Partition::footprint).max().unwrap_or(0);
            // A lane that must split needs its open pages; any other its partition. Half is left for what flows onward.
            let need = largest.clamp(PAGE_SIZE, (available / 4).max(SPLIT_BYTES_MIN));
            let lanes = (available / 2 / need).clamp(1, threads).min(state.queue.len().max(1));
            state.share = available / 2 / lanes;
            lanes
        })
    }

    fn attach(&self, waker: JobWaker) {
        self.partitions.state.lock().waker = Some(waker);
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(AggregateSourceLocal {
            plan: Arc::clone(&self.plan),
            ctx: ctx.clone(),
            partitions: Arc::clone(&self.partitions),
            table: None,
            phase: Phase::Taking,
            scratch: Scratch::default(),
        }))
    }

    fn stop(&self) {
        self.partitions.state.lock().queue.clear();
    }
}

/// What a lane is doing with its partition.
enum Phase {
    /// It has none.
    Taking,
    /// It hands out the groups.
    Emitting(Emitting),
}

/// A partition whose equal groups were combined: rows with a hash of [`GROUP`] are the groups, others are merged away.
struct Emitting {
    pages: Vec<PinnedRows>,
    /// Keeps the pages until the last group is out.
    _parts: Vec<RowPartition>,
    distinct: bool,
    page: usize,
    row: usize,
}

/// Written over the hash of a row that stands for its group.
const GROUP: u64 = 1;
/// Written over the hash of a row that was combined into another.
const MERGED: u64 = 0;

#[derive(Default)]
struct Scratch {
    addresses: Vec<*const u8>,
    sources: Vec<*const u8>,
    targets: Vec<*mut u8>,
}

struct AggregateSourceLocal {
    plan: Arc<AggregatePlan>,
    ctx: ExecContext,
    partitions: Arc<Partitions>,
    table: Option<SaltedTable>,
    phase: Phase,
    scratch: Scratch,
}

// SAFETY: addresses in the scratch point into pages that the lane keeps pinned, and are not used across calls.
unsafe impl Send for AggregateSourceLocal {}

impl SourceLocal for AggregateSourceLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        loop {
            if task.is_cancelled() {
                return Err(ExecError::Cancelled);
            }
            if let Phase::Emitting(emitting) = &mut self.phase {
                self.scratch.addresses.clear();
                emitting.collect(&self.plan, self.ctx.settings.chunk_capacity, &mut self.scratch.addresses);
                if self.scratch.addresses.is_empty() {
                    self.phase = Phase::Taking;
                    return Ok(SourceStep::MorselEnd);
                }
                // SAFETY: the addresses are of rows on pages that `emitting` keeps pinned.
                return Ok(SourceStep::Chunk(unsafe { self.plan.gather(&self.scratch.addresses)? }));
            }
            let (partition, work) = {
                let mut state = self.partitions.state.lock();
                let Some(partition) = state.queue.pop_front() else {
                    // Parts may still come from a lane that splits.
                    return Ok(match self.partitions.splitting.load(Ordering::Acquire) {
                        0 => SourceStep::Exhausted,
                        _ => SourceStep::Blocked,
                    });
                };
                let share = state.share.max(SPLIT_BYTES_MIN);
                let work = Work::of(&partition, share);
                if let Work::Split { .. } = work {
                    self.partitions.splitting.fetch_add(1, Ordering::AcqRel);
                } else if let Some(next) = state.queue.front().filter(|next| next.footprint() <= share) {
                    self.ctx.memory.prefetch(next.parts.iter().flat_map(RowPartition::pages));
                }
                (partition, work)
            };
            match work {
                Work::Split { share } => {
                    let split = self.split(partition, share);
                    self.partitions.put_back(split)?;
                }
                Work::Compact => self.phase = Phase::Emitting(self.compact(partition, task)?),
                Work::Combine => self.phase = Phase::Emitting(self.combine(partition)?),
            }
        }
    }
}

/// What must be done with a partition.
enum Work {
    /// It fits: pin it and combine equal groups.
    Combine,
    /// It does not fit into `share` bytes: distribute its rows by further bits.
    Split { share: usize },
    /// It does not fit, and there are no further bits: its rows have few different hashes.
    Compact,
}

impl Work {
    fn of(partition: &Partition, share: usize) -> Self {
        if partition.footprint() <= share || partition.bytes() <= SPLIT_BYTES_MIN {
            Self::Combine
        } else if partition.radix.below(SPLIT_BITS).is_some() {
            Self::Split { share }
        } else {
            Self::Compact
        }
    }
}

impl AggregateSourceLocal {
    /// Distributes the rows of `partition` by further bits of their hashes, as many as open pages fit into `share`.
    fn split(&self, partition: Partition, share: usize) -> Result<Vec<Partition>, ExecError> {
        let pages = if self.plan.layout.has_heap() { 2 } else { 1 };
        let allowed = (share / 2 / (pages * PAGE_SIZE)).max(2).ilog2();
        let wanted = (partition.footprint() * 2 / share).next_power_of_two().ilog2().max(1);
        let radix = partition.radix.below(allowed.min(wanted).min(SPLIT_BITS)).expect("checked by `Work::of`");
        let layout = Arc::clone(&self.plan.layout);
        let mut target = PartitionedRows::new(layout, Arc::clone(&self.ctx.memory), CONSUMER, radix, false);
        for part in partition.parts {
            append_partition(part, &mut target)?;
        }
        self.ctx.counters.note_strategy("aggregate: split partitions".to_owned());
        let parts = target.into_partitions().into_iter().filter(|part| part.rows() > 0);
        Ok(parts.map(|part| Partition { parts: vec![part], radix, distinct: partition.distinct }).collect())
    }

    /// An empty table for `rows` rows; its memory is kept from one partition to the next.
    fn table(&mut self, rows: usize) -> Result<&mut SaltedTable, MemoryError> {
        let capacity = table_capacity(rows);
        if self.table.as_ref().is_none_or(|table| table.capacity() < capacity) {
            self.table = None;
            self.table = Some(SaltedTable::new(&self.ctx.memory, CONSUMER, capacity)?);
        }
        let table = self.table.as_mut().expect("made above");
        table.reset(capacity);
        Ok(table)
    }

    /// Pins the partition and combines the rows of each group into one.
    fn combine(&mut self, mut partition: Partition) -> Result<Emitting, ExecError> {
        let rows = partition.rows();
        let pages = pin_all(&mut partition.parts)?;
        if !partition.distinct {
            let plan = Arc::clone(&self.plan);
            self.table(rows)?;
            let Self { table, scratch, .. } = self;
            let table = table.as_mut().expect("made above");
            for page in &pages {
                // SAFETY: all pages of the partition are pinned, and no other lane has them.
                unsafe { combine_page(&plan, table, page, scratch) };
            }
        }
        Ok(Emitting { pages, _parts: partition.parts, distinct: partition.distinct, page: 0, row: 0 })
    }

    /// Combines a partition that is too large to pin, page by page: only its groups are kept, on new pages.
    fn compact(&mut self, partition: Partition, task: &TaskContext) -> Result<Emitting, ExecError> {
        self.ctx.counters.note_strategy("aggregate: combined in place".to_owned());
        let plan = Arc::clone(&self.plan);
        let layout = &plan.layout;
        let memory = Arc::clone(&self.ctx.memory);
        let mut groups =
            PartitionedRows::new(Arc::clone(layout), Arc::clone(&memory), CONSUMER, RadixBits::new(0), true);
        let mut table = SaltedTable::new(&memory, CONSUMER, 1 << 12)?;
        let mut addresses = Vec::new();
        for mut part in partition.parts {
            while part.num_pages() > 0 {
                if task.is_cancelled() {
                    return Err(ExecError::Cancelled);
                }
                let page = part.pin_page(part.num_pages() - 1)?;
                if (table.len() + page.len()) * 2 > table.capacity() {
                    let grown = table_capacity(table.len() + page.len()) * 2;
                    let mut larger = SaltedTable::new(&memory, CONSUMER, grown)?;
                    // SAFETY: the table's rows are on retained pages of `groups`.
                    table.rows().for_each(|row| unsafe {
                        larger.find_or_insert(layout, row);
                    });
                    table = larger;
                }
                // The rows of a page one by one: each is a new group, or is combined into its group. Where a long string of the
                // group would change, the group moves: strings cannot stay on the page that goes.
                for row in 0..page.len() {
                    let row = page.row(row);
                    // SAFETY: the page is pinned and groups are on retained pages; nobody else has either.
                    unsafe {
                        let group = table.find_or_insert(layout, row);
                        let scratch = &mut self.scratch;
                        if group != row {
                            let moves =
                                plan.extrema.iter().any(|b| b.extremum.takes_string(layout, row, group.cast_const()));
                            let (source, target) = if moves { (group, row) } else { (row, group) };
                            scratch.sources.push(source);
                            scratch.targets.push(target);
                            combine_rows(&plan, scratch);
                            if !moves {
                                continue;
                            }
                        }
                        groups.append(std::iter::once(row.cast_const()), &mut addresses)?;
                        table.redirect(layout, row, addresses[0]);
                    }
                }
                drop(page);
                part.pop_page();
            }
        }
        // Of the rows that were appended, those in the table are the groups.
        groups.for_each_row(|row| {
            // SAFETY: the row is on a retained page.
            unsafe { row.add(layout.hash_offset()).cast::<u64>().write_unaligned(MERGED) };
        })?;
        for row in table.rows() {
            // SAFETY: as above.
            unsafe { row.add(layout.hash_offset()).cast::<u64>().write_unaligned(GROUP) };
        }
        drop(table);
        let mut parts = groups.into_partitions();
        let pages = pin_all(&mut parts)?;
        Ok(Emitting { pages, _parts: parts, distinct: false, page: 0, row: 0 })
    }
}

/// Pins all pages of `parts`.
fn pin_all(parts: &mut [RowPartition]) -> Result<Vec<PinnedRows>, MemoryError> {
    let mut pages = Vec::with_capacity(parts.iter().map(RowPartition::num_pages).sum());
    for part in parts {
        for page in 0..part.num_pages() {
            pages.push(part.pin_page(page)?);
        }
    }
    Ok(pages)
}

/// Enters the rows of `page` into the table; rows of known groups are combined into those.
///
/// # Safety
/// The page and all pages of rows in the table are pinned and owned by the caller.
unsafe fn combine_page(plan: &AggregatePlan, table: &mut SaltedTable, page: &PinnedRows, scratch: &mut Scratch) {
    let layout = &*plan.layout;
    scratch.sources.clear();
    scratch.targets.clear();
    for row in 0..page.len() {
        let row = page.row(row);
        // SAFETY: the caller vouches for the rows; the hash is within them and not needed once the row is in the table.
        unsafe {
            let group = table.find_or_insert(layout, row);
            let mark = if group == row {
                GROUP
            } else {
                scratch.sources.push(row);
                scratch.targets.push(group);
                MERGED
            };
            row.add(layout.hash_offset()).cast::<u64>().write_unaligned(mark);
        }
    }
    // SAFETY: as above.
    unsafe { combine_rows(plan, scratch) };
}

/// Combines each source row into its target, and clears both lists.
///
/// # Safety
/// As [`combine_page`].
unsafe fn combine_rows(plan: &AggregatePlan, scratch: &mut Scratch) {
    if !scratch.sources.is_empty() {
        // SAFETY: the caller vouches for the rows.
        unsafe {
            for bound in &plan.kernels {
                bound.kernel.combine(&scratch.sources, &scratch.targets);
            }
            for bound in &plan.extrema {
                bound.extremum.combine(&plan.layout, &scratch.sources, &scratch.targets);
            }
        }
    }
    scratch.sources.clear();
    scratch.targets.clear();
}

impl Emitting {
    /// The next groups, at most `limit`.
    fn collect(&mut self, plan: &AggregatePlan, limit: usize, addresses: &mut Vec<*const u8>) {
        let hash_offset = plan.layout.hash_offset();
        while let Some(page) = self.pages.get(self.page) {
            while self.row < page.len() {
                if addresses.len() == limit {
                    return;
                }
                let row = page.row(self.row);
                self.row += 1;
                // SAFETY: the page is pinned; the hash is within the row.
                let mark = unsafe { row.add(hash_offset).cast::<u64>().read_unaligned() };
                if self.distinct || mark == GROUP {
                    addresses.push(row);
                }
            }
            self.page += 1;
            self.row = 0;
        }
    }
}
