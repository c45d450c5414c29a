//! Last phase: absent partitions one by one, and rows of the build side that nothing matched.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_schema::SchemaRef;
use ogee_memory::PAGE_SIZE;
use ogee_row::{PinnedRows, RadixBits, RowPartition, SerialForm, SerialPartition, SerialRows};
use ogee_scheduler::{JobWaker, TaskContext};
use ogee_vector::Chunk;
use parking_lot::Mutex;

use super::{
    CONSUMER,
    blocks::{BlockJoin, Scratch},
    matches::{Matcher, build_rows, is_given},
    spec::JoinPlan,
    state::{Built, JoinState, OPEN_BYTES, footprint},
};
use crate::{
    ExecContext, ExecError, Source, SourceLocal, SourceStep,
    cancel::{Cancelled, obey},
};

/// Bits by which a partition is divided at most: 64 open pages.
const SPLIT_BITS: u32 = 6;
/// Partitions smaller than this are not divided: 16 pages.
const SPLIT_BYTES_MIN: usize = 16 * PAGE_SIZE;

/// Blocks that are joined one after the other rather than divided.
const BLOCKS: usize = 2;

/// Rows of both sides that may match each other.
pub(crate) struct AbsentPartition {
    pub(crate) build: Vec<SerialPartition>,
    pub(crate) probe: Vec<SerialPartition>,
    /// The bits that all of them share.
    radix: RadixBits,
    /// Bytes that joining it takes.
    footprint: usize,
    /// A page has rows of one hash only: further bits would only move them.
    indivisible: bool,
}

/// What a lane may take.
enum Work {
    /// A page of rows that were in the table.
    Unmatched(Arc<Built>, PinnedRows),
    /// Rows that could not match anything.
    Unmatchable(RowPartition),
    Absent(AbsentPartition),
}

/// What is left to do, in order, with the sizes of the absent partitions among it: lanes ask for the largest whenever they have done one thing, of
/// which there are as many as pages.
#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// How many absent partitions there are of each footprint.
    footprints: BTreeMap<usize, usize>,
}

impl Queue {
    fn push_back(&mut self, work: Work) {
        self.count(&work);
        self.work.push_back(work);
    }

    fn push_front(&mut self, work: Work) {
        self.count(&work);
        self.work.push_front(work);
    }

    fn count(&mut self, work: &Work) {
        if let Work::Absent(partition) = work {
            *self.footprints.entry(partition.footprint).or_default() += 1;
        }
    }

    fn pop_front(&mut self) -> Option<Work> {
        let work = self.work.pop_front()?;
        if let Work::Absent(partition) = &work
            && let Some(count) = self.footprints.get_mut(&partition.footprint)
        {
            *count -= 1;
            if *count == 0 {
                self.footprints.remove(&partition.footprint);
            }
        }
        Some(work)
    }

    fn front(&self) -> Option<&Work> {
        self.work.front()
    }

    fn len(&self) -> usize {
        self.work.len()
    }

    /// Bytes that joining the largest absent partition takes.
    fn largest(&self) -> Option<usize> {
        self.footprints.last_key_value().map(|(&footprint, _)| footprint)
    }

    fn clear(&mut self) {
        self.work.clear();
        self.footprints.clear();
    }
}

/// Of the bytes that a join may have, those of the partitions that are joined: the rest has the pages of the probe side that pass by, and those
/// of the next partition.
fn pinned(available: usize) -> usize {
    available / 4 * 3
}

/// What is left to do when all rows of the probe side have been seen.
pub(crate) struct Rest {
    plan: Arc<JoinPlan>,
    ctx: ExecContext,
    queue: Mutex<Queue>,
    /// Lanes that are dividing a partition and will put parts back.
    dividing: AtomicUsize,
    /// Bytes that one lane may pin.
    share: OnceLock<usize>,
    waker: OnceLock<JobWaker>,
}

impl Rest {
    pub(crate) fn new(plan: Arc<JoinPlan>, ctx: ExecContext) -> Self {
        Self {
            plan,
            ctx,
            queue: Mutex::default(),
            dividing: AtomicUsize::new(0),
            share: OnceLock::new(),
            waker: OnceLock::new(),
        }
    }

    pub(crate) fn add_unmatchable(&self, parts: Vec<RowPartition>) {
        let mut queue = self.queue.lock();
        parts.into_iter().filter(|part| part.rows() > 0).for_each(|part| queue.push_back(Work::Unmatchable(part)));
    }

    pub(crate) fn drop_unmatchable(&self) {
        self.queue.lock().clear();
    }

    pub(crate) fn give_nothing(&self) {
        self.queue.lock().clear();
    }

    /// Takes what the probe left: the build side, and rows of the probe side by lane and partition.
    pub(crate) fn fill(&self, built: Arc<Built>, kept: Vec<Vec<SerialPartition>>) {
        let kind = self.plan.kind();
        let mut queue = self.queue.lock();
        if kind.marks_build() {
            let pages = std::mem::take(&mut built.resident.lock().pages);
            pages.into_iter().for_each(|page| queue.push_back(Work::Unmatched(Arc::clone(&built), page)));
        }
        let Some(absent) = &built.absent else { return };
        let mut probe: Vec<Vec<SerialPartition>> = absent.is_absent.iter().map(|_| Vec::new()).collect();
        for parts in kept {
            parts.into_iter().enumerate().filter(|(_, part)| part.rows() > 0).for_each(|(p, part)| probe[p].push(part));
        }
        for (build, probe) in absent.build.lock().drain(..).zip(probe) {
            let partition = AbsentPartition::new(build, probe, absent.radix);
            if partition.matters(&self.plan) {
                queue.push_back(Work::Absent(partition));
            }
        }
    }

    /// Bytes that one lane may pin, decided when the first partition is taken out of `queue`, which still has it.
    fn share(&self, queue: &Queue) -> usize {
        let lanes = || self.lanes_for(queue, self.ctx.settings.threads).max(1);
        *self.share.get_or_init(|| pinned(self.ctx.share.claim()) / lanes())
    }

    /// As many lanes as there are things to do, and as partitions fit into memory at once.
    fn lanes_for(&self, queue: &Queue, threads: usize) -> usize {
        let Some(largest) = queue.largest() else { return threads.min(queue.len()) };
        let available = self.ctx.share.claim();
        let need = largest.clamp(PAGE_SIZE, (available / 4).max(SPLIT_BYTES_MIN));
        (pinned(available) / need).clamp(1, threads.max(1)).min(queue.len())
    }

    /// Divides both sides of `partition` by further bits of their hashes, as many as open pages fit into `share`.
    fn divide(
        &self,
        mut partition: AbsentPartition,
        share: usize,
        cancelled: Cancelled<'_>,
    ) -> Result<Vec<AbsentPartition>, ExecError> {
        if has_one_hash(&partition.build, cancelled)? {
            partition.indivisible = true;
            return Ok(vec![partition]);
        }
        let allowed = (share / 2 / OPEN_BYTES).max(2).ilog2();
        let wanted = (partition.footprint * 2 / share).next_power_of_two().ilog2().max(1);
        let radix = partition.radix.below(allowed.min(wanted).min(SPLIT_BITS)).expect("checked by the caller");
        let divide = |form: &Arc<SerialForm>, parts: Vec<SerialPartition>| -> Result<Vec<SerialPartition>, ExecError> {
            let mut divided = SerialRows::new(form, Arc::clone(&self.ctx.memory), CONSUMER, radix, None);
            for mut part in parts {
                loop {
                    obey(cancelled)?;
                    if !divided.append_last_page(&mut part)? {
                        break;
                    }
                }
            }
            Ok(divided.into_partitions())
        };
        let build = divide(&self.plan.build_form, partition.build)?;
        let probe = divide(&self.plan.probe_form, partition.probe)?;
        self.ctx.counters.note_strategy("hash join: divided partitions again".to_owned());
        let rows = |part: SerialPartition| if part.rows() > 0 { vec![part] } else { Vec::new() };
        let parts =
            build.into_iter().zip(probe).map(|(build, probe)| AbsentPartition::new(rows(build), rows(probe), radix));
        Ok(parts.filter(|part| part.matters(&self.plan)).collect())
    }

    /// Puts the parts of a divided partition first in the list, and wakes lanes that found it empty.
    fn put_back(&self, parts: Result<Vec<AbsentPartition>, ExecError>) -> Result<(), ExecError> {
        {
            let mut queue = self.queue.lock();
            self.dividing.fetch_sub(1, Ordering::AcqRel);
            parts?.into_iter().for_each(|part| queue.push_front(Work::Absent(part)));
        }
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
        Ok(())
    }
}

impl AbsentPartition {
    fn new(build: Vec<SerialPartition>, probe: Vec<SerialPartition>, radix: RadixBits) -> Self {
        let footprint = footprint(&build);
        Self { build, probe, radix, footprint, indivisible: false }
    }

    /// Whether rows can come of it.
    fn matters(&self, plan: &JoinPlan) -> bool {
        let (build, probe) = (!self.build.is_empty(), !self.probe.is_empty());
        let kind = plan.kind();
        match (build, probe) {
            (true, true) => true,
            (true, false) => kind.keeps_build(),
            (false, true) => kind.keeps_probe(),
            (false, false) => false,
        }
    }

    /// Whether it is to be divided further. Two blocks are cheaper where nothing is noted in the probe rows: these are read twice then, as they are when
    /// they are divided, but not written.
    fn must_divide(&self, plan: &JoinPlan, share: usize) -> bool {
        let bytes = self.footprint;
        let blocks = if plan.kind().marks_probe() { 1 } else { BLOCKS };
        bytes > share * blocks && bytes > SPLIT_BYTES_MIN && !self.indivisible && self.radix.below(SPLIT_BITS).is_some()
    }
}

/// The rows that a join gives last.
pub(crate) struct RestSource {
    state: Arc<JoinState>,
}

impl RestSource {
    pub(crate) fn new(state: Arc<JoinState>) -> Self {
        Self { state }
    }
}

impl Source for RestSource {
    fn name(&self) -> &str {
        "join rest"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.state.plan.spec.schema)
    }

    /// As many lanes as there are things to do, and as partitions fit into memory at once.
    fn lanes(&self, threads: usize) -> usize {
        let rest = &self.state.rest;
        rest.lanes_for(&rest.queue.lock(), threads)
    }

    fn attach(&self, waker: JobWaker) {
        drop(self.state.rest.waker.set(waker));
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        let plan = Arc::clone(&self.state.plan);
        Ok(Box::new(RestLocal {
            rest: Arc::clone(&self.state.rest),
            matcher: Matcher::new(plan, ctx),
            capacity: ctx.settings.chunk_capacity,
            doing: Doing::Nothing,
            scratch: Scratch::default(),
        }))
    }

    fn stop(&self) {
        self.state.rest.queue.lock().clear();
    }
}

/// What a lane has taken.
enum Doing {
    Nothing,
    /// Rows of a page, from a row on. The build side's pages live as long as `Built`.
    Page(PinnedRows, usize, #[expect(dead_code, reason = "keeps the pages")] Arc<Built>),
    /// Rows that could not match anything, page by page from the last, with the row on the page.
    Unmatchable(RowPartition, Option<(PinnedRows, usize)>),
    Blocks(Box<BlockJoin>),
}

struct RestLocal {
    rest: Arc<Rest>,
    matcher: Matcher,
    capacity: usize,
    doing: Doing,
    scratch: Scratch,
}

/// The rows of `page` from `row` on that are given although, or because, all rows of the probe side have been seen: at most `capacity`.
pub(crate) fn given_rows(
    plan: &JoinPlan,
    page: &PinnedRows,
    row: &mut usize,
    capacity: usize,
) -> Result<Option<Chunk>, ExecError> {
    let mut rows = Vec::with_capacity(capacity);
    while *row < page.len() && rows.len() < capacity {
        let address = page.row(*row).cast_const();
        // SAFETY: the page is pinned.
        if unsafe { is_given(plan, address) } {
            rows.push(address);
        }
        *row += 1;
    }
    if rows.is_empty() {
        return Ok(None);
    }
    // SAFETY: as above.
    unsafe { build_rows(plan, &rows).map(Some) }
}

impl RestLocal {
    /// Takes something to do.
    fn take(&mut self, cancelled: Cancelled<'_>) -> Result<Option<SourceStep>, ExecError> {
        let rest = Arc::clone(&self.rest);
        let (partition, share, divide) = {
            let mut queue = rest.queue.lock();
            let share = match queue.front() {
                Some(Work::Absent(_)) => rest.share(&queue),
                _ => 0,
            };
            match queue.pop_front() {
                None => {
                    // Parts may still come from a lane that divides.
                    return Ok(Some(match rest.dividing.load(Ordering::Acquire) {
                        0 => SourceStep::Exhausted,
                        _ => SourceStep::Blocked,
                    }));
                }
                Some(Work::Unmatched(built, page)) => {
                    self.doing = Doing::Page(page, 0, built);
                    return Ok(None);
                }
                Some(Work::Unmatchable(part)) => {
                    self.doing = Doing::Unmatchable(part, None);
                    return Ok(None);
                }
                Some(Work::Absent(partition)) => {
                    let divide = partition.must_divide(&rest.plan, share);
                    if divide {
                        rest.dividing.fetch_add(1, Ordering::AcqRel);
                    } else if let Some(Work::Absent(next)) = queue.front()
                        // The lane's part of all that there is has room for both.
                        && next.footprint + partition.footprint <= share / 3 * 4
                    {
                        rest.ctx.memory.prefetch(next.build.iter().flat_map(SerialPartition::pages));
                    }
                    (partition, share, divide)
                }
            }
        };
        if divide {
            let parts = rest.divide(partition, share, cancelled);
            rest.put_back(parts)?;
            return Ok(None);
        }
        let (plan, memory) = (Arc::clone(&rest.plan), Arc::clone(&rest.ctx.memory));
        let scratch = std::mem::take(&mut self.scratch);
        let join = BlockJoin::new(plan, memory, partition, share, self.capacity, scratch);
        self.doing = Doing::Blocks(Box::new(join));
        Ok(None)
    }
}

impl SourceLocal for RestLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        let cancelled: Cancelled<'_> = &|| task.is_cancelled();
        loop {
            obey(cancelled)?;
            let chunk = match &mut self.doing {
                Doing::Nothing => match self.take(cancelled)? {
                    Some(step) => return Ok(step),
                    None => continue,
                },
                Doing::Page(page, row, _) => given_rows(&self.rest.plan, page, row, self.capacity)?,
                Doing::Unmatchable(part, at) => loop {
                    obey(cancelled)?;
                    let (page, row) = match at {
                        Some(at) => at,
                        None if part.num_pages() == 0 => break None,
                        None => at.insert((part.pin_page(part.num_pages() - 1)?, 0)),
                    };
                    if let Some(chunk) = given_rows(&self.rest.plan, page, row, self.capacity)? {
                        break Some(chunk);
                    }
                    *at = None;
                    part.pop_page();
                },
                Doing::Blocks(join) => join.next(&mut self.matcher, cancelled)?,
            };
            match chunk {
                Some(chunk) => return Ok(SourceStep::Chunk(chunk)),
                None => {
                    if let Doing::Blocks(join) = std::mem::replace(&mut self.doing, Doing::Nothing) {
                        self.scratch = join.into_scratch();
                    }
                    self.matcher.release();
                    return Ok(SourceStep::MorselEnd);
                }
            }
        }
    }
}

/// Whether all rows of all lanes have one hash.
fn has_one_hash(parts: &[SerialPartition], cancelled: Cancelled<'_>) -> Result<bool, ExecError> {
    let mut seen = None;
    for part in parts {
        for page in 0..part.num_pages() {
            obey(cancelled)?;
            if !part.page_has_one_hash(page, &mut seen)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use ogee_memory::{BufferManager, MemoryConfig};

    use super::*;
    use crate::{
        ExecSettings,
        join::{JoinKind, JoinSpec, state::FOOTPRINTS},
    };

    fn rest() -> Rest {
        let spec = JoinSpec::of_numbers(JoinKind::ProbeAnti);
        let memory = BufferManager::new(MemoryConfig { counts_process: false, ..MemoryConfig::default() }).unwrap();
        Rest::new(Arc::new(JoinPlan::new(spec).unwrap()), ExecContext::new(memory, ExecSettings::default()))
    }

    #[test]
    fn each_partition_is_measured_once_however_often_lanes_are_counted() {
        const PARTITIONS: usize = 256;
        let rest = rest();
        let before = FOOTPRINTS.get();
        {
            let mut queue = rest.queue.lock();
            for _ in 0..PARTITIONS {
                let partition = AbsentPartition::new(Vec::new(), Vec::new(), RadixBits::new(8));
                queue.push_back(Work::Absent(partition));
            }
        }
        for left in (1..=PARTITIONS).rev() {
            let mut queue = rest.queue.lock();
            assert_eq!((queue.len(), rest.lanes_for(&queue, 4)), (left, left.min(4)));
            queue.pop_front().unwrap();
        }
        assert_eq!(FOOTPRINTS.get() - before, PARTITIONS);
    }

    #[test]
    fn the_largest_partition_is_that_of_those_that_are_left() {
        let mut queue = Queue::default();
        let partition = |footprint| {
            let partition = AbsentPartition::new(Vec::new(), Vec::new(), RadixBits::new(8));
            Work::Absent(AbsentPartition { footprint, ..partition })
        };
        assert_eq!(queue.largest(), None);
        [7, 9, 9, 3].into_iter().for_each(|bytes| queue.push_back(partition(bytes)));
        queue.push_front(partition(8));
        let mut seen = Vec::new();
        while let Some(largest) = queue.largest() {
            seen.push(largest);
            drop(queue.pop_front());
        }
        assert_eq!(seen, [9, 9, 9, 9, 3]);
        queue.push_back(partition(5));
        queue.clear();
        assert_eq!((queue.len(), queue.largest()), (0, None));
    }
}
