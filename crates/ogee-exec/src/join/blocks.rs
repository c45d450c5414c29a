//! Join of one partition: its build rows are a block, or several where they do not fit.
//!
//! A partition is divided until it fits, and then there is one block. Rows of one hot key cannot be divided; they are joined block by block, and
//! the probe rows pass by once for each. What a probe row has found is noted in it in between.

use std::sync::Arc;

use ogee_memory::{BufferManager, PageHandle};
use ogee_row::{HeapBuffers, PinnedRows, PinnedSerial, RowPartition, RowStage, SerialPartition, SerialPlace};
use ogee_vector::Chunk;

use super::{
    matches::Matcher,
    ranges::RangeTable,
    rest::{AbsentPartition, given_rows},
    spec::JoinPlan,
    state::{build_rows, pinned, table_bytes},
    table::{Lookup, Mates, TaggedTable},
};
use crate::{
    ExecError,
    cancel::{Cancelled, obey},
};

/// Build rows that are in memory at once.
struct Block {
    table: TaggedTable,
    sorted: Option<RangeTable>,
    heap: Option<HeapBuffers>,
    pages: Vec<PinnedRows>,
    /// Whose pages these are; destroyed with the block.
    _part: RowPartition,
}

impl Block {
    fn mates(&self) -> Mates<'_> {
        let lookup = self.sorted.as_ref().map_or(Lookup::Hashed(&self.table), Lookup::Sorted);
        Mates { lookup, heap: self.heap.as_ref() }
    }
}

/// Pages of rows that are read before it is their turn.
const PAGES_AHEAD: usize = 12;

/// Which pages of a part, taken from the last on, have been asked for: those from here on.
#[derive(Default)]
struct Ahead(Option<usize>);

impl Ahead {
    /// Page `index` of a part is next: has it read, and those that follow. `pages` gives what is read for a page.
    fn read<I: IntoIterator<Item = PageHandle>>(
        &mut self,
        memory: &Arc<BufferManager>,
        index: usize,
        pages: impl FnMut(usize) -> I,
    ) {
        let asked = self.0.unwrap_or(index + 1);
        let from = index.saturating_sub(PAGES_AHEAD);
        if from < asked {
            memory.prefetch((from..asked).rev().flat_map(pages));
            self.0 = Some(from);
        }
    }
}

/// Where in the probe rows: parts and their pages from the last on.
#[derive(Default)]
struct Position {
    part: usize,
    page: usize,
    ahead: Ahead,
    pinned: Option<ProbePage>,
}

/// A page of probe rows, and where on it the next one is.
struct ProbePage {
    rows: PinnedSerial,
    place: SerialPlace,
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
    build: Vec<SerialPartition>,
    probe: Vec<SerialPartition>,
    share: usize,
    capacity: usize,
    phase: Phase,
    blocks: usize,
    scratch: Scratch,
}

/// What one join after the other uses.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The table of the last block, for its memory.
    table: Option<TaggedTable>,
    /// Rows that the matcher is at; where they are, and their marks on the page.
    stage: RowStage,
    batch: Vec<*const u8>,
    marks: Vec<*mut u8>,
    found: Vec<bool>,
}

// SAFETY: the addresses are of rows in `stage`, and on the page that the join's `Position` keeps pinned; who has one has both.
unsafe impl Send for Scratch {}

impl BlockJoin {
    pub(crate) fn new(
        plan: Arc<JoinPlan>,
        memory: Arc<BufferManager>,
        partition: AbsentPartition,
        share: usize,
        capacity: usize,
        scratch: Scratch,
    ) -> Self {
        let AbsentPartition { build, probe, .. } = partition;
        Self { plan, memory, build, probe, share, capacity, phase: Phase::Loading, blocks: 0, scratch }
    }

    /// What the next join may use.
    pub(crate) fn into_scratch(self) -> Scratch {
        self.scratch
    }

    /// Whether the block in memory is the last one.
    fn is_last(&self) -> bool {
        self.build.is_empty()
    }

    /// Takes as many pages of build rows as fit, from the end, at least one, and makes a table of their rows.
    fn load(&mut self, cancelled: Cancelled<'_>) -> Result<Block, ExecError> {
        let mut block = build_rows(&self.memory, &self.plan, true);
        let (mut rows, mut bytes) = (0, 0);
        let mut ahead = Ahead::default();
        while let Some(part) = self.build.last_mut() {
            obey(cancelled)?;
            let Some(index) = part.num_pages().checked_sub(1) else {
                ahead = Ahead::default();
                self.build.pop();
                continue;
            };
            ahead.read(&self.memory, index, |page| [part.page(page)]);
            let page = part.pin_page(index)?;
            (rows, bytes) = (rows + page.rows(), bytes + page.loose_bytes());
            if bytes + table_bytes(rows) > self.share && block.rows() > 0 {
                // The probe rows pass by again: where nothing is noted in them, they need not be written again for that.
                if !self.plan.kind().marks_probe() {
                    self.probe.iter().for_each(SerialPartition::seal);
                }
                break;
            }
            block.append_serial(&page)?;
            drop(page);
            part.pop_page();
        }
        let (part, pages) = pinned(block, cancelled)?;
        let sorted = match self.plan.spec.ranges {
            Some(_) => Some(RangeTable::new(&self.plan, &self.memory, &pages, cancelled)?),
            None => None,
        };
        let hashed = if sorted.is_none() { &pages[..] } else { &[] };
        let rows = hashed.iter().map(PinnedRows::len).sum();
        let table = TaggedTable::renewed(self.scratch.table.take(), &self.memory, rows, self.plan.next)?;
        for page in hashed {
            obey(cancelled)?;
            // SAFETY: the pages stay pinned as long as the table; nobody else knows them.
            unsafe { table.insert(page) };
        }
        self.blocks += 1;
        let heap = self.plan.heap_buffers(&pages);
        Ok(Block { table, sorted, heap, pages, _part: part })
    }

    /// Begins with the next rows of the probe side; false when there are none.
    fn begin_batch(&mut self, matcher: &mut Matcher, block: &Block, at: &mut Position) -> Result<bool, ExecError> {
        // Nobody comes back to rows that have met the last block.
        let is_last = self.is_last();
        let page = loop {
            let Some(number) = self.probe.len().checked_sub(at.part + 1) else { return Ok(false) };
            let part = &mut self.probe[number];
            let mut page = match (at.pinned.take(), part.num_pages().checked_sub(at.page + 1)) {
                (Some(page), _) => page,
                (None, Some(index)) => {
                    at.ahead.read(&self.memory, index, |page| [part.page(page)]);
                    let rows = part.pin_page(index)?;
                    ProbePage { heap: HeapBuffers::of_serial(&rows), place: SerialPlace::default(), rows }
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
            let Scratch { stage, marks, .. } = &mut self.scratch;
            // SAFETY: `place` was made with `rows`, and is moved only here.
            if unsafe { page.rows.read(&mut page.place, self.capacity, stage, marks) } {
                break page;
            }
            drop(page);
            match is_last {
                true => part.pop_page(),
                false => at.page += 1,
            }
        };
        self.scratch.batch.clear();
        self.scratch.batch.extend((0..self.scratch.stage.rows()).map(|row| self.scratch.stage.row(row)));
        let page = at.pinned.insert(page);
        let marks = self.plan.kind().marks_probe();
        self.scratch.found.clear();
        if marks {
            // SAFETY: the page is pinned.
            self.scratch.found.extend(self.scratch.marks.iter().map(|mark| unsafe { **mark } != 0));
        }
        // SAFETY: the rows stay staged, and their strings' page pinned in `at`, until the next batch begins.
        unsafe {
            matcher.begin_rows(
                block.mates(),
                &self.scratch.batch,
                page.heap.as_ref(),
                marks.then_some(&self.scratch.found),
            )?
        };
        if !self.is_last() {
            matcher.postpone();
        }
        Ok(true)
    }

    /// Notes in the rows of the batch what they have found so far.
    fn end_batch(&mut self, matcher: &Matcher) {
        self.scratch.batch.clear();
        for (mark, found) in self.scratch.marks.drain(..).zip(matcher.found()) {
            // SAFETY: the page is pinned and only this lane has it.
            unsafe { *mark = u8::from(*found) };
        }
    }

    /// The next chunk of the join's output, until there is none.
    pub(crate) fn next(&mut self, matcher: &mut Matcher, cancelled: Cancelled<'_>) -> Result<Option<Chunk>, ExecError> {
        loop {
            obey(cancelled)?;
            match std::mem::replace(&mut self.phase, Phase::Done) {
                Phase::Done => return Ok(None),
                Phase::Loading => {
                    let block = self.load(cancelled)?;
                    let mut at = Position::default();
                    if let Some(part) = self.probe.last().filter(|part| part.num_pages() > 0) {
                        at.ahead.read(&self.memory, part.num_pages() - 1, |page| [part.page(page)]);
                    }
                    self.phase = Phase::Probing(block, at);
                }
                Phase::Probing(block, mut at) => {
                    // SAFETY: block and batch are pinned.
                    if let Some(chunk) = unsafe { matcher.next(block.mates())? } {
                        self.phase = Phase::Probing(block, at);
                        return Ok(Some(chunk));
                    }
                    if !self.is_last() && self.plan.kind().marks_probe() {
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
                    _ => {
                        self.scratch.table = Some(block.table);
                        self.phase = if self.build.is_empty() { Phase::Done } else { Phase::Loading };
                    }
                },
            }
        }
    }
}
