//! Join of one partition: its build rows are a block, or several where they do not fit.
//!
//! A partition is divided until it fits, and then there is one block. Rows of one hot key cannot be divided; they are joined block by block, and
//! the probe rows pass by once for each. What a probe row has found is noted in it in between.

use std::sync::Arc;

use ogee_memory::BufferManager;
use ogee_row::{HeapBuffers, PinnedRows, RowPartition};
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;

use super::{
    matches::Matcher,
    ranges::RangeTable,
    rest::{AbsentPartition, given_rows},
    spec::JoinPlan,
    table::{Lookup, Mates, TaggedTable},
};
use crate::{ExecError, keys::slots_for};

/// Build rows that are in memory at once.
struct Block {
    table: TaggedTable,
    sorted: Option<RangeTable>,
    heap: Option<HeapBuffers>,
    pages: Vec<PinnedRows>,
    /// Pages of the last part that are among them.
    of_last: usize,
    /// Parts that are among them as a whole; destroyed with the block.
    _parts: Vec<RowPartition>,
}

impl Block {
    fn mates(&self) -> Mates<'_> {
        let lookup = self.sorted.as_ref().map_or(Lookup::Hashed(&self.table), Lookup::Sorted);
        Mates { lookup, heap: self.heap.as_ref() }
    }
}

/// Pages of rows that are read before it is their turn.
const PAGES_AHEAD: usize = 12;

/// Which row pages of a part, taken from the last on, have been asked for: those from here on.
#[derive(Default)]
struct Ahead(Option<usize>);

impl Ahead {
    /// Row page `index` of `part` is next: has it read, and those that follow.
    fn read(&mut self, memory: &Arc<BufferManager>, part: &RowPartition, index: usize) {
        let asked = self.0.unwrap_or(index + 1);
        let from = index.saturating_sub(PAGES_AHEAD);
        if from < asked {
            memory.prefetch((from..asked).rev().flat_map(|page| part.pages_of(page)));
            self.0 = Some(from);
        }
    }
}

/// Where in the probe rows: parts and their pages from the last on.
#[derive(Default)]
struct Position {
    part: usize,
    page: usize,
    row: usize,
    ahead: Ahead,
    pinned: Option<PinnedRows>,
    /// The strings of the page.
    heap: Option<HeapBuffers>,
}

enum Phase {
    /// No block is in memory.
    Loading,
    Probing(Block, Position),
    /// Rows that nothing matched, from a row of a page on.
    Unmatched(Block, usize, usize),
    Done,
}

/// The join of a partition, chunk by chunk.
pub(crate) struct BlockJoin {
    plan: Arc<JoinPlan>,
    memory: Arc<BufferManager>,
    build: Vec<RowPartition>,
    probe: Vec<RowPartition>,
    share: usize,
    capacity: usize,
    phase: Phase,
    blocks: usize,
    /// Rows that the matcher is at.
    batch: Vec<*const u8>,
    found: Vec<bool>,
}

// SAFETY: the addresses are of rows on the page that `Position` keeps pinned.
unsafe impl Send for BlockJoin {}

impl BlockJoin {
    pub(crate) fn new(
        plan: Arc<JoinPlan>,
        memory: Arc<BufferManager>,
        partition: AbsentPartition,
        share: usize,
        capacity: usize,
    ) -> Self {
        let AbsentPartition { build, probe, .. } = partition;
        let (phase, batch, found) = (Phase::Loading, Vec::new(), Vec::new());
        Self { plan, memory, build, probe, share, capacity, phase, blocks: 0, batch, found }
    }

    /// Whether the block in memory is the last one.
    fn is_last(&self, block: &Block) -> bool {
        match self.build.last() {
            None => true,
            Some(last) => self.build.len() == 1 && block.of_last == last.num_pages(),
        }
    }

    /// Pins as many pages of build rows as fit, from the end, at least one, and makes a table of them.
    fn load(&mut self) -> Result<Block, ExecError> {
        let mut pages = Vec::new();
        let mut parts = Vec::new();
        let (mut rows, mut bytes, mut of_last) = (0, 0, 0);
        let mut ahead = Ahead::default();
        while let Some(part) = self.build.last_mut() {
            if of_last == part.num_pages() {
                of_last = 0;
                ahead = Ahead::default();
                parts.extend(self.build.pop());
                continue;
            }
            // Strings of a page are on pages of their own; the part's average will do.
            let page_bytes = part.bytes().div_ceil(part.num_pages());
            let takes = bytes + page_bytes;
            let index = part.num_pages() - 1 - of_last;
            ahead.read(&self.memory, part, index);
            let page = part.pin_page(index)?;
            let table = slots_for(rows + page.len()) * size_of::<u64>();
            if takes + table > self.share && !pages.is_empty() {
                // The probe rows pass by again: where nothing is noted in them, they need not be written again for that.
                if !self.plan.kind().marks_probe() {
                    self.probe.iter().for_each(RowPartition::seal);
                }
                break;
            }
            of_last += 1;
            rows += page.len();
            bytes = takes;
            pages.push(page);
        }
        let sorted = match self.plan.spec.ranges {
            Some(_) => Some(RangeTable::new(&self.plan, &self.memory, &pages)?),
            None => None,
        };
        let hashed = if sorted.is_none() { &pages[..] } else { &[] };
        let rows = hashed.iter().map(PinnedRows::len).sum();
        let table = TaggedTable::new(&self.memory, rows, None, self.plan.next)?;
        // SAFETY: the pages stay pinned as long as the table; nobody else knows them.
        hashed.iter().for_each(|page| unsafe { table.insert(page) });
        self.blocks += 1;
        let heap = self.plan.heap_buffers(&pages);
        Ok(Block { table, sorted, heap, pages, of_last, _parts: parts })
    }

    /// Gives up the pages of a block that was joined.
    fn unload(&mut self, block: Block) {
        let of_last = block.of_last;
        drop(block);
        if let Some(last) = self.build.last_mut() {
            (0..of_last).for_each(|_| last.pop_page());
            if last.num_pages() == 0 {
                self.build.pop();
            }
        }
        self.phase = if self.build.is_empty() { Phase::Done } else { Phase::Loading };
    }

    /// Begins with the next rows of the probe side; false when there are none.
    fn begin_batch(&mut self, matcher: &mut Matcher, block: &Block, at: &mut Position) -> Result<bool, ExecError> {
        // Nobody comes back to rows that have met the last block.
        let is_last = self.is_last(block);
        let page = loop {
            let Some(number) = self.probe.len().checked_sub(at.part + 1) else { return Ok(false) };
            let part = &mut self.probe[number];
            let page = match (at.pinned.take(), part.num_pages().checked_sub(at.page + 1)) {
                (Some(page), _) => page,
                (None, Some(index)) => {
                    at.ahead.read(&self.memory, part, index);
                    let page = part.pin_page(index)?;
                    at.heap = HeapBuffers::of(std::iter::once(&page));
                    page
                }
                (None, None) if is_last => {
                    self.probe.pop();
                    at.ahead = Ahead::default();
                    continue;
                }
                (None, None) => {
                    *at = Position { part: at.part + 1, ..Position::default() };
                    continue;
                }
            };
            if at.row < page.len() {
                break page;
            }
            at.row = 0;
            drop(page);
            match is_last {
                true => part.pop_page(),
                false => at.page += 1,
            }
        };
        let end = page.len().min(at.row + self.capacity);
        self.batch.clear();
        self.batch.extend((at.row..end).map(|row| page.row(row).cast_const()));
        at.row = end;
        at.pinned = Some(page);
        let marks = self.plan.kind().marks_probe();
        self.found.clear();
        if marks {
            // SAFETY: the page is pinned.
            self.found.extend(self.batch.iter().map(|row| unsafe { *row.add(self.plan.probe_mark) } != 0));
        }
        // SAFETY: the page stays pinned in `at` until the next batch begins.
        unsafe { matcher.begin_rows(block.mates(), &self.batch, at.heap.as_ref(), marks.then_some(&self.found))? };
        if !self.is_last(block) {
            matcher.postpone();
        }
        Ok(true)
    }

    /// Notes in the rows of the batch what they have found so far.
    fn end_batch(&mut self, matcher: &Matcher) {
        for (row, found) in self.batch.drain(..).zip(matcher.found()) {
            // SAFETY: the page is pinned and only this lane has it.
            unsafe { *row.add(self.plan.probe_mark).cast_mut() = u8::from(*found) };
        }
    }

    /// The next chunk of the join's output, until there is none.
    pub(crate) fn next(&mut self, matcher: &mut Matcher, task: &TaskContext) -> Result<Option<Chunk>, ExecError> {
        loop {
            if task.is_cancelled() {
                return Err(ExecError::Cancelled);
            }
            match std::mem::replace(&mut self.phase, Phase::Done) {
                Phase::Done => return Ok(None),
                Phase::Loading => {
                    let block = self.load()?;
                    let mut at = Position::default();
                    if let Some(part) = self.probe.last().filter(|part| part.num_pages() > 0) {
                        at.ahead.read(&self.memory, part, part.num_pages() - 1);
                    }
                    self.phase = Phase::Probing(block, at);
                }
                Phase::Probing(block, mut at) => {
                    // SAFETY: block and batch are pinned.
                    if let Some(chunk) = unsafe { matcher.next(block.mates())? } {
                        self.phase = Phase::Probing(block, at);
                        return Ok(Some(chunk));
                    }
                    if !self.is_last(&block) && self.plan.kind().marks_probe() {
                        self.end_batch(matcher);
                    }
                    self.phase = match self.begin_batch(matcher, &block, &mut at)? {
                        true => Phase::Probing(block, at),
                        false => Phase::Unmatched(block, 0, 0),
                    };
                }
                Phase::Unmatched(block, page, mut row) => match block.pages.get(page) {
                    Some(rows) if self.plan.kind().marks_build() => {
                        let chunk = given_rows(&self.plan, rows, &mut row, self.capacity)?;
                        let (page, row) = if chunk.is_some() { (page, row) } else { (page + 1, 0) };
                        self.phase = Phase::Unmatched(block, page, row);
                        if chunk.is_some() {
                            return Ok(chunk);
                        }
                    }
                    _ => self.unload(block),
                },
            }
        }
    }
}
