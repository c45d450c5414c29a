//! Second phase: partition by partition, each aggregated by one lane and pushed onward while it is warm (paper B).
//!
//! Partitions are exchanged through one list; a lane takes the next, pins its pages, combines equal groups through an exactly
//! sized table at a load of at most one half, and emits what is left. A partition that is larger than a lane may pin is split by
//! further hash bits and put back. Pages of the partitions that come last leave memory first, and those that come next are read ahead. One that no bits split (a few keys, many rows) is combined in place, page by page.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_schema::SchemaRef;
use ogee_memory::{BufferManager, NeededAt, PAGE_SIZE, PinnedPage};
use ogee_row::{CodeCache, PartitionedRows, PinnedRows, RadixBits, RowPartition, rows_of_chunk};
use ogee_scheduler::{JobWaker, TaskContext};
use ogee_vector::Domain;
use parking_lot::Mutex;

use super::{
    collect::{CollectedGroups, Collector},
    combine::{GroupMarks, Pairs, combine_pages, combine_rows, pin_parts, table_for},
    generations::{Generations, turn},
    plan::AggregatePlan,
    sink::CONSUMER,
    table::SaltedTable,
};
use crate::{
    ExecContext, ExecError, Source, SourceLocal, SourceStep,
    cancel::{Cancelled, append_partition, obey},
    keys::{AnyKeys, slots_for},
};

/// Bits by which a partition is split at most: 64 open pages (128 with strings) at once.
const SPLIT_BITS: u32 = 6;
/// Of the memory that is to be had, this part may be taken by partitions that were read ahead: what flows onward needs some too.
const AHEAD_PART: usize = 4;
/// Partitions smaller than this are not split: 16 pages.
const SPLIT_BYTES_MIN: usize = 16 * PAGE_SIZE;
/// Rows of a part that another lane is worth waking for: combining them takes a fraction of a millisecond.
const SPREAD_ROWS_MIN: usize = 1 << 14;

/// Rows of one partition, from all lanes of the first phase.
pub(crate) struct Partition {
    parts: Vec<RowPartition>,
    /// Rows of earlier generations, with the plans they were made by.
    earlier: Vec<(Arc<AggregatePlan>, RowPartition)>,
    /// The bits that all its rows share.
    radix: RadixBits,
    /// No group occurs twice.
    distinct: bool,
    /// All rows have one hash: further bits would only move them.
    indivisible: bool,
    /// Its turn among all partitions.
    needed: NeededAt,
    /// Bytes of it that are to be read ahead, or were.
    ahead: usize,
}

impl Partition {
    /// Whether all rows of all lanes have one hash. Those of earlier generations are turned first, and looked at then.
    fn has_one_hash(&mut self, cancelled: Cancelled<'_>) -> Result<bool, ExecError> {
        if !self.earlier.is_empty() {
            return Ok(false);
        }
        let mut seen = None;
        for part in &mut self.parts {
            for page in 0..part.num_pages() {
                obey(cancelled)?;
                if !part.page_has_one_hash(page, &mut seen)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Without rows yet. `distinct` says whether a group can come from one lane only.
    pub(crate) fn new(radix: RadixBits, distinct: bool) -> Self {
        Self {
            parts: Vec::new(),
            earlier: Vec::new(),
            radix,
            distinct,
            indivisible: false,
            needed: NeededAt::LAST,
            ahead: 0,
        }
    }

    /// Adds the rows that a lane made by plan `made_by`, without repeated groups if `distinct`; `latest` is the last plan.
    pub(crate) fn push(
        &mut self,
        latest: &Arc<AggregatePlan>,
        made_by: &Arc<AggregatePlan>,
        rows: RowPartition,
        distinct: bool,
    ) {
        if rows.rows() == 0 {
            return;
        }
        self.distinct &= distinct;
        if Arc::ptr_eq(latest, made_by) {
            self.parts.push(rows);
        } else {
            self.distinct = false;
            self.earlier.push((Arc::clone(made_by), rows));
        }
    }

    fn all_rows(&self) -> impl Iterator<Item = &RowPartition> {
        self.parts.iter().chain(self.earlier.iter().map(|(_, rows)| rows))
    }

    fn rows(&self) -> usize {
        self.all_rows().map(RowPartition::rows).sum()
    }

    fn bytes(&self) -> usize {
        self.all_rows().map(RowPartition::bytes).sum()
    }

    /// Bytes of its pages that are not in memory.
    fn bytes_evicted(&self) -> usize {
        self.all_rows().map(RowPartition::bytes_evicted).sum()
    }

    fn set_needed(&mut self, needed: NeededAt) {
        self.needed = needed;
        self.all_rows().for_each(|rows| rows.set_needed(needed));
    }

    /// Bytes that aggregating it takes: pages and table.
    fn footprint(&self) -> usize {
        self.bytes() + if self.distinct { 0 } else { slots_for(self.rows()) * 8 }
    }
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
    /// The last plan, once the first phase is over.
    plan: Option<Arc<AggregatePlan>>,
    queue: VecDeque<Partition>,
    waker: Option<JobWaker>,
    /// Bytes that one lane may pin.
    share: usize,
    /// Bytes that may be read ahead, and how many of them are.
    ahead_max: usize,
    ahead: usize,
    /// Partitions, from the front of the queue, that were looked at for reading ahead.
    looked_at: usize,
    /// Bits by which each partition is split, whether it fits or not, so that no lane is idle; and those of partitions that were not split yet.
    spread: Option<(u32, RadixBits)>,
}

impl State {
    fn take(&mut self) -> Option<Partition> {
        let mut partition = self.queue.pop_front()?;
        self.ahead -= std::mem::take(&mut partition.ahead);
        self.looked_at = self.looked_at.saturating_sub(1);
        Some(partition)
    }

    fn put_back(&mut self, partition: Partition) {
        self.queue.push_front(partition);
        self.looked_at += 1;
    }

    /// Has the partitions that come next read back: the very next in any case, others as far as there is room. Partitions of more than
    /// `share` bytes are not: they will not be pinned as a whole.
    fn read_ahead(&mut self, share: usize, memory: &Arc<BufferManager>) {
        if let Some(next) = self.queue.front().filter(|next| next.ahead > 0 && next.footprint() <= share) {
            // Asked for before, but there may have been no room.
            memory.prefetch(next.all_rows().flat_map(RowPartition::pages));
        }
        let mut room = memory.room();
        while let Some(partition) = self.queue.get_mut(self.looked_at) {
            let evicted = partition.bytes_evicted();
            let affordable = evicted <= room && self.ahead + evicted <= self.ahead_max;
            if evicted > 0 && partition.footprint() <= share {
                if !affordable && self.looked_at > 0 {
                    return;
                }
                memory.prefetch(partition.all_rows().flat_map(RowPartition::pages));
                room = room.saturating_sub(evicted);
                partition.ahead = evicted;
                self.ahead += evicted;
            }
            self.looked_at += 1;
        }
    }
}

impl Partitions {
    /// Takes what the first phase left, by partition.
    pub(crate) fn fill(&self, plan: Arc<AggregatePlan>, mut partitions: Vec<Partition>) {
        let count = partitions.len();
        for (number, partition) in partitions.iter_mut().enumerate() {
            partition.set_needed(NeededAt::new(number, count));
        }
        let mut state = self.state.lock();
        // Without keys there is a group even if there are no rows.
        let keep_empty = plan.collected.is_some() && plan.layout.num_keys() == 0;
        let only = partitions.first().map(|first| Partition::new(first.radix, false));
        state.plan = Some(plan);
        state.queue.extend(partitions.into_iter().filter(|partition| partition.rows() > 0));
        if keep_empty && state.queue.is_empty() {
            state.queue.extend(only);
        }
    }
}

impl Partitions {
    /// Bits by which to split each of `queue`'s partitions so that there are as many as `lanes`: none unless they are so few that half of the lanes would
    /// have nothing to do, since splitting moves every row, nor where parts would become tiny.
    fn spread(queue: &VecDeque<Partition>, lanes: usize) -> Option<(u32, RadixBits)> {
        let first = queue.front()?;
        let rows = queue.iter().filter(|partition| !partition.distinct).map(Partition::rows).max()?;
        if queue.len() * 2 > lanes {
            return None;
        }
        let wanted = lanes.div_ceil(queue.len()).next_power_of_two().ilog2();
        let bits = wanted.min((rows / SPREAD_ROWS_MIN).max(1).ilog2()).min(SPLIT_BITS);
        (bits > 0).then_some((bits, first.radix))
    }

    /// Puts the parts of a split partition first in the list, and wakes lanes that found it empty.
    fn put_back(&self, split: Result<Vec<Partition>, ExecError>) -> Result<(), ExecError> {
        let waker = {
            let mut state = self.state.lock();
            self.splitting.fetch_sub(1, Ordering::AcqRel);
            split?.into_iter().rev().for_each(|part| state.put_back(part));
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
    schema: SchemaRef,
    domains: Vec<Domain>,
    ctx: ExecContext,
    partitions: Arc<Partitions>,
    lanes: std::sync::OnceLock<usize>,
}

impl AggregateSource {
    pub(crate) fn new(generations: &Generations, ctx: ExecContext, partitions: Arc<Partitions>) -> Self {
        let schema = Arc::clone(&generations.latest().schema);
        let domains = generations.key_domains();
        Self { schema, domains, ctx, partitions, lanes: std::sync::OnceLock::new() }
    }
}

impl Source for AggregateSource {
    fn name(&self) -> &str {
        "groups"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn domains(&self) -> Vec<Domain> {
        self.domains.clone()
    }

    /// As many lanes as partitions, or parts that these are split into, and as partitions fit into memory at once.
    fn lanes(&self, threads: usize) -> usize {
        *self.lanes.get_or_init(|| {
            let mut state = self.partitions.state.lock();
            let available = self.ctx.share.claim();
            let largest = state.queue.iter().map(Partition::footprint).max().unwrap_or(0);
            // A lane that must split needs its open pages; any other its partition. Half is left for what flows onward.
            let need = largest.clamp(PAGE_SIZE, (available / 4).max(SPLIT_BYTES_MIN));
            let lanes = (available / 2 / need).clamp(1, threads);
            state.spread = Partitions::spread(&state.queue, lanes);
            let parts = state.queue.len() << state.spread.map_or(0, |(bits, _)| bits);
            if state.spread.is_some() {
                let note = format!("aggregate: split {} partitions for {lanes} lanes", state.queue.len());
                self.ctx.counters.note_strategy(note);
            }
            let lanes = lanes.min(parts.max(1));
            state.share = available / 2 / lanes;
            state.ahead_max = available / AHEAD_PART;
            lanes
        })
    }

    fn attach(&self, waker: JobWaker) {
        self.partitions.state.lock().waker = Some(waker);
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        let plan = self.partitions.state.lock().plan.clone();
        Ok(Box::new(AggregateSourceLocal {
            plan: plan.expect("the second phase begins after the first"),
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

/// A partition whose equal groups were combined.
enum Emitting {
    /// Groups are rows of these pages.
    Pages {
        pages: Vec<PinnedRows>,
        /// Keeps the pages until the last group is out.
        _parts: Vec<RowPartition>,
        /// The rows that stand for their group. `None`: all do.
        marks: Option<GroupMarks>,
        page: usize,
        row: usize,
        /// Index into `marks` of the page's first word.
        word: usize,
    },
    /// Groups whose results are there already.
    Collected(CollectedGroups),
    /// Groups are the rows that the table refers to.
    Table { table: SaltedTable, slot: usize, _pages: Vec<PinnedPage>, _parts: Vec<RowPartition> },
}

#[derive(Default)]
struct Scratch {
    /// Groups that are handed out, and how many of them are.
    addresses: Vec<*const u8>,
    given: usize,
    pairs: Pairs,
    caches: Vec<CodeCache>,
}

struct AggregateSourceLocal {
    plan: Arc<AggregatePlan>,
    ctx: ExecContext,
    partitions: Arc<Partitions>,
    table: Option<SaltedTable>,
    phase: Phase,
    scratch: Scratch,
}

// SAFETY: addresses in the scratch point into pages that the lane keeps pinned as long as it emits their groups.
unsafe impl Send for AggregateSourceLocal {}

impl SourceLocal for AggregateSourceLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        let cancelled: Cancelled<'_> = &|| task.is_cancelled();
        loop {
            obey(cancelled)?;
            if let Phase::Emitting(emitting) = &mut self.phase {
                if let Emitting::Collected(groups) = emitting {
                    let chunk = groups.next(&self.plan, self.ctx.settings.chunk_capacity, &mut self.scratch.caches)?;
                    return Ok(match chunk {
                        Some(chunk) => SourceStep::Chunk(chunk),
                        None => {
                            self.phase = Phase::Taking;
                            SourceStep::MorselEnd
                        }
                    });
                }
                let Scratch { addresses, given, caches, .. } = &mut self.scratch;
                if *given == addresses.len() {
                    *given = 0;
                    addresses.clear();
                    emitting.collect(self.ctx.settings.chunk_capacity, addresses);
                }
                if addresses.is_empty() {
                    self.phase = Phase::Taking;
                    return Ok(SourceStep::MorselEnd);
                }
                let rows = &addresses[*given..];
                // SAFETY: the addresses are of rows on pages that `emitting` keeps pinned.
                let chunk = unsafe {
                    let rows = &rows[..rows_of_chunk(&self.plan.layout, rows)];
                    *given += rows.len();
                    self.plan.gather(rows, caches)?
                };
                return Ok(SourceStep::Chunk(chunk));
            }
            let (partition, work) = {
                let mut state = self.partitions.state.lock();
                let Some(partition) = state.take() else {
                    // Parts may still come from a lane that splits.
                    return Ok(match self.partitions.splitting.load(Ordering::Acquire) {
                        0 => SourceStep::Exhausted,
                        _ => SourceStep::Blocked,
                    });
                };
                // States of collected values take about as much as the values, and so do results.
                let parts = if self.plan.collected.is_some() { 3 } else { 1 };
                let share = (state.share / parts).max(SPLIT_BYTES_MIN);
                let work = Work::of(&partition, share, state.spread);
                if let Work::Split { .. } = work {
                    self.partitions.splitting.fetch_add(1, Ordering::AcqRel);
                } else {
                    state.read_ahead(share, &self.ctx.memory);
                }
                (partition, work)
            };
            match work {
                Work::Split { share, bits } => {
                    let split = self.split(partition, share, bits, cancelled);
                    self.partitions.put_back(split)?;
                }
                Work::Compact | Work::Combine if self.plan.collected.is_some() => {
                    let fits = matches!(work, Work::Combine);
                    let parts = self.parts(partition, cancelled)?;
                    let collector = Collector::new(&self.plan, &self.ctx)?;
                    let groups = collector.collect(parts, fits, task, &mut self.scratch.caches)?;
                    self.phase = Phase::Emitting(Emitting::Collected(groups));
                }
                Work::Compact => self.phase = Phase::Emitting(self.compact(partition, cancelled)?),
                Work::Combine => self.phase = Phase::Emitting(self.combine(partition, cancelled)?),
            }
        }
    }
}

/// What must be done with a partition.
enum Work {
    /// It fits: pin it and combine equal groups.
    Combine,
    /// It does not fit into `share` bytes, or other lanes have nothing to do: distribute its rows by further bits, at least so many if open pages
    /// for them fit.
    Split { share: usize, bits: u32 },
    /// It does not fit, and further bits do not help: its rows have few different hashes.
    Compact,
}

impl Work {
    fn of(partition: &Partition, share: usize, spread: Option<(u32, RadixBits)>) -> Self {
        let spread =
            spread.filter(|(_, radix)| *radix == partition.radix && !partition.distinct && !partition.indivisible);
        if let Some((bits, _)) = spread.filter(|_| partition.radix.below(SPLIT_BITS).is_some()) {
            Self::Split { share, bits }
        } else if partition.footprint() <= share || partition.bytes() <= SPLIT_BYTES_MIN {
            Self::Combine
        } else if !partition.indivisible && partition.radix.below(SPLIT_BITS).is_some() {
            Self::Split { share, bits: 1 }
        } else {
            Self::Compact
        }
    }
}

impl AggregateSourceLocal {
    /// Distributes the rows of `partition` by further bits of their hashes, at least `bits`, as many as open pages fit into `share`.
    fn split(
        &self,
        mut partition: Partition,
        share: usize,
        bits: u32,
        cancelled: Cancelled<'_>,
    ) -> Result<Vec<Partition>, ExecError> {
        if partition.has_one_hash(cancelled)? {
            partition.indivisible = true;
            return Ok(vec![partition]);
        }
        let allowed = (share / 2 / (self.plan.layout.open_pages() * PAGE_SIZE)).max(2).ilog2();
        let wanted = (partition.footprint() * 2 / share).next_power_of_two().ilog2().max(bits);
        let radix = partition.radix.below(allowed.min(wanted).min(SPLIT_BITS)).expect("checked by `Work::of`");
        let layout = Arc::clone(&self.plan.layout);
        let mut target = PartitionedRows::new(layout, Arc::clone(&self.ctx.memory), CONSUMER, radix, false);
        target.set_needed(Some(partition.needed));
        for (plan, part) in partition.earlier {
            turn(&plan, &self.plan, part, &mut target, cancelled)?;
        }
        for part in partition.parts {
            append_partition(&mut target, part, cancelled)?;
        }
        self.ctx.counters.note_strategy("aggregate: split partitions".to_owned());
        let (distinct, needed) = (partition.distinct, partition.needed);
        let parts = target.into_partitions().into_iter().enumerate().filter(|(_, part)| part.rows() > 0);
        let part = |(number, part)| {
            let needed = needed.split(number, radix.fan_out());
            Partition { parts: vec![part], needed, ..Partition::new(radix, distinct) }
        };
        Ok(parts.map(part).collect())
    }

    /// The parts of `partition`, those of earlier generations turned into rows of the last plan.
    fn parts(&self, partition: Partition, cancelled: Cancelled<'_>) -> Result<Vec<RowPartition>, ExecError> {
        let Partition { mut parts, earlier, .. } = partition;
        if !earlier.is_empty() {
            let layout = Arc::clone(&self.plan.layout);
            let memory = Arc::clone(&self.ctx.memory);
            let mut target = PartitionedRows::new(layout, memory, CONSUMER, RadixBits::new(0), false);
            for (plan, part) in earlier {
                turn(&plan, &self.plan, part, &mut target, cancelled)?;
            }
            parts.extend(target.into_partitions());
        }
        Ok(parts)
    }

    /// Pins the partition and combines the rows of each group into one.
    fn combine(&mut self, partition: Partition, cancelled: Cancelled<'_>) -> Result<Emitting, ExecError> {
        let rows = partition.rows();
        let distinct = partition.distinct;
        let mut parts = self.parts(partition, cancelled)?;
        let pages = pin_parts(&mut parts, cancelled)?;
        let mut marks = None;
        if !distinct {
            let table = table_for(&mut self.table, &self.ctx.memory, CONSUMER, rows)?;
            // SAFETY: all pages of the partition are pinned, and no other lane has them.
            marks = Some(unsafe { combine_pages(&self.plan, table, &pages, &mut self.scratch.pairs, cancelled)? });
        }
        Ok(Emitting::Pages { pages, _parts: parts, marks, page: 0, row: 0, word: 0 })
    }

    /// Combines a partition that is too large to pin, page by page: only its groups are kept, on new pages.
    fn compact(&mut self, partition: Partition, cancelled: Cancelled<'_>) -> Result<Emitting, ExecError> {
        self.ctx.counters.note_strategy("aggregate: combined in place".to_owned());
        let plan = Arc::clone(&self.plan);
        let layout = &plan.layout;
        let memory = Arc::clone(&self.ctx.memory);
        let mut groups =
            PartitionedRows::new(Arc::clone(layout), Arc::clone(&memory), CONSUMER, RadixBits::new(0), true);
        let mut table = SaltedTable::new(&memory, CONSUMER, 1 << 12)?;
        let mut addresses = Vec::new();
        for mut part in self.parts(partition, cancelled)? {
            while part.num_pages() > 0 {
                obey(cancelled)?;
                let page = part.pin_page(part.num_pages() - 1)?;
                if (table.len() + page.len()) * 2 > table.capacity() {
                    let grown = slots_for(table.len() + page.len()) * 2;
                    let mut larger = SaltedTable::new(&memory, CONSUMER, grown)?;
                    let mut slot = 0;
                    while let Some((row, next)) = table.next_row(slot) {
                        // SAFETY: the table's rows are on retained pages of `groups`.
                        unsafe { larger.find_or_insert(AnyKeys(layout), row) };
                        slot = next;
                    }
                    table = larger;
                }
                // The rows of a page one by one: each is a new group, or is combined into its group. Where a long string of the
                // group would change, the group moves: strings cannot stay on the page that goes.
                for row in 0..page.len() {
                    let row = page.row(row);
                    // SAFETY: the page is pinned and groups are on retained pages; nobody else has either.
                    unsafe {
                        let group = table.find_or_insert(AnyKeys(layout), row);
                        let pairs = &mut self.scratch.pairs;
                        if group != row {
                            let moves = plan.extrema.iter().any(|e| e.takes_string(layout, row, group.cast_const()))
                                || plan.arg_extrema.iter().any(|p| p.takes_string(layout, row, group.cast_const()));
                            let (source, target) = if moves { (group, row) } else { (row, group) };
                            pairs.sources.push(source);
                            pairs.targets.push(target);
                            combine_rows(&plan, pairs);
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
        let (parts, pages) = groups.into_retained();
        Ok(Emitting::Table { table, slot: 0, _pages: pages, _parts: parts })
    }
}

impl Emitting {
    /// The next groups, at most `limit`.
    fn collect(&mut self, limit: usize, addresses: &mut Vec<*const u8>) {
        match self {
            Self::Pages { pages, marks, page, row, word, .. } => {
                while let Some(rows) = pages.get(*page) {
                    while *row < rows.len() {
                        if addresses.len() == limit {
                            return;
                        }
                        let Some(marks) = marks else {
                            let end = rows.len().min(*row + limit - addresses.len());
                            addresses.extend((*row..end).map(|row| rows.row(row).cast_const()));
                            *row = end;
                            continue;
                        };
                        let Some(next) = marks.next(*word, rows, *row) else {
                            *row = rows.len();
                            continue;
                        };
                        addresses.push(rows.row(next));
                        *row = next + 1;
                    }
                    *word += GroupMarks::words(rows);
                    *page += 1;
                    *row = 0;
                }
            }
            Self::Collected(_) => unreachable!("hands out chunks of its own"),
            Self::Table { table, slot, .. } => {
                while addresses.len() < limit
                    && let Some((row, next)) = table.next_row(*slot)
                {
                    addresses.push(row);
                    *slot = next;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
    use arrow_schema::{DataType, Field, Schema};
    use ogee_memory::MemoryConfig;
    use ogee_scheduler::Cancellation;
    use ogee_vector::Chunk;

    use super::*;
    use crate::{
        AggregateStrategy, ExecSettings, Expr, Sink,
        aggregate::{AggregateCall, AggregateFunction, AggregateMode, AggregateSpec, GroupKey, sink::AggregateSink},
        cancel::is_cancelled,
    };

    fn spec() -> AggregateSpec {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        AggregateSpec {
            keys: vec![GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 }],
            grouping_sets: None,
            aggregates: vec![AggregateCall {
                function: AggregateFunction::CountStar,
                args: vec![],
                arg_types: vec![],
                filter: None,
                distinct: false,
                output: DataType::Int64,
            }],
            collected: None,
            mode: AggregateMode::Single,
            schema: Arc::new(Schema::new(vec![field("key"), field("count")])),
        }
    }

    /// The second phase of a grouping of `lanes` lanes, each of which saw the next `rows` keys, half of which the next one sees too.
    fn second_phase(threads: usize, lanes: i64, rows: i64) -> (ExecContext, Arc<Partitions>, AggregateSource) {
        let memory =
            BufferManager::new(MemoryConfig { limit: 1 << 30, counts_process: false, ..MemoryConfig::default() });
        let ctx = ExecContext::new(memory.unwrap(), ExecSettings { threads, ..ExecSettings::default() });
        let generations = Arc::new(Generations::new(spec(), &[Domain::UNKNOWN]).unwrap());
        let partitions = Arc::new(Partitions::default());
        let sink = AggregateSink::new(Arc::clone(&generations), ctx.clone(), None, Arc::clone(&partitions));
        for lane in 0..lanes {
            let mut local = sink.lane(&ctx);
            let first = lane * rows / 2;
            for from in (first..first + rows).step_by(2000) {
                let keys: ArrayRef = Arc::new((from..from + 2000).collect::<Int64Array>());
                local.add(&Chunk::new(vec![keys], 2000), &|| false).unwrap();
            }
            local.hand_over();
        }
        let never = Cancellation::new(false);
        let task = TaskContext { worker: 0, cancelled: &never };
        sink.finish(&ctx, &task).unwrap();
        let source = AggregateSource::new(&generations, ctx.clone(), Arc::clone(&partitions));
        (ctx, partitions, source)
    }

    #[test]
    fn a_grouping_that_never_resets_has_work_for_all_lanes() {
        // Tables never fill: the eight partitions that lanes begin with are what is left to combine. Where most lanes would be idle they are split,
        // unless there are few rows.
        for (threads, rows, lanes) in
            [(32, 60_000, 16), (16, 60_000, 16), (12, 60_000, 8), (8, 60_000, 8), (32, 6_000, 8)]
        {
            let (ctx, _, source) = second_phase(threads, 6, rows);
            assert!(ctx.counters.strategies().contains(&"aggregate: local, 8 partitions".to_owned()));
            assert_eq!(source.lanes(threads), lanes, "{threads} threads, {rows} rows");
            let never = Cancellation::new(false);
            let task = TaskContext { worker: 0, cancelled: &never };
            let mut locals: Vec<_> = (0..3).map(|lane| source.local(&ctx, lane).unwrap()).collect();
            let mut counts = vec![0; rows as usize / 2 * 7];
            while !locals.is_empty() {
                locals.retain_mut(|local| match local.next(&task).unwrap() {
                    SourceStep::Chunk(chunk) => {
                        let of = |column| chunk.column(column).array.as_primitive::<Int64Type>().values().clone();
                        of(0).iter().zip(&of(1)).for_each(|(&key, &count)| counts[key as usize] += count);
                        true
                    }
                    SourceStep::Exhausted => false,
                    _ => true,
                });
            }
            let expected = |key: i64| if (rows / 2..rows * 3).contains(&key) { 2 } else { 1 };
            assert_eq!(counts, (0..rows / 2 * 7).map(expected).collect::<Vec<i64>>());
        }
    }

    /// The pages of the first partition, and what comes of it if the query is to end after so many checks.
    fn first_partition(split: bool, checks: u64) -> (u64, Result<SourceStep, ExecError>) {
        let memory =
            BufferManager::new(MemoryConfig { limit: 256 << 20, counts_process: false, ..MemoryConfig::default() });
        let settings = ExecSettings {
            threads: 1,
            aggregate_strategy: Some(AggregateStrategy::PartitionOnly),
            ..ExecSettings::default()
        };
        let ctx = ExecContext::new(memory.unwrap(), settings);
        let generations = Arc::new(Generations::new(spec(), &[Domain::UNKNOWN]).unwrap());
        let partitions = Arc::new(Partitions::default());
        let sink = AggregateSink::new(Arc::clone(&generations), ctx.clone(), Some(1), Arc::clone(&partitions));
        let mut lane = sink.lane(&ctx);
        for from in (0..400_000).step_by(2000) {
            let keys: ArrayRef = Arc::new((from..from + 2000).collect::<Int64Array>());
            lane.add(&Chunk::new(vec![keys], 2000), &|| false).unwrap();
        }
        lane.hand_over();
        let never = Cancellation::new(false);
        sink.finish(&ctx, &TaskContext { worker: 0, cancelled: &never }).unwrap();
        let source = AggregateSource::new(&generations, ctx.clone(), Arc::clone(&partitions));
        source.lanes(1);
        let pages = {
            let mut state = partitions.state.lock();
            let radix = state.queue[0].radix;
            state.spread = split.then_some((1, radix));
            state.queue[0].parts.iter().map(RowPartition::num_pages).sum::<usize>() as u64
        };
        let mut local = source.local(&ctx, 0).unwrap();
        (pages, local.next(&TaskContext { worker: 0, cancelled: &Cancellation::after(checks) }))
    }

    #[test]
    fn each_page_of_a_partition_is_an_occasion_to_end() {
        let (pages, whole) = first_partition(false, 1000);
        assert!(pages > 3 && matches!(whole, Ok(SourceStep::Chunk(_))));
        // Before the partition is taken; while its pages are pinned; and while their rows are combined.
        for checks in [0, 1, pages, pages + 1, 2 * pages] {
            assert!(is_cancelled(&first_partition(false, checks).1), "{checks} of {pages}");
        }
        // The first page shows that there is more than one hash; then all are moved, and half of them combined.
        for checks in [1, 2, pages, pages + 1] {
            assert!(is_cancelled(&first_partition(true, checks).1), "{checks} of {pages}");
        }
    }
}
