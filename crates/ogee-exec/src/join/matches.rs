//! Finding the mates of probe rows, step by step down the chains, and making chunks of the pairs.
//!
//! All rows of a chunk take a step at once, so that their cache misses overlap. Pairs of successive steps are gathered until a chunk is
//! full: logical compaction (SIGMOD 2025, section 4). The probe side's columns are not copied, they get another selection vector; build
//! columns are gathered out of their rows once, their longer strings not at all: chunks refer to the pages that they are on.
//!
//! A [`Matcher`] gives one chunk after the other, so that a row with millions of mates takes no more memory than one with few.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use arrow_array::{ArrayRef, BooleanArray, new_null_array};
use arrow_buffer::BooleanBuffer;
use ogee_memory::BufferManager;
use ogee_row::{HeapBuffers, RadixBits, RowLayout, RowStage, row_hash};
use ogee_vector::{Chunk, Column, gather_array};

use super::{
    ranges::{RangeTable, Span},
    side::Keys,
    spec::{JoinColumn, JoinPlan, Residual},
    table::{AHEAD, Lookup, Mates, TaggedTable},
};
use crate::{
    ExecContext, ExecError,
    keys::{KeyEqual, with_key_equal},
};

/// Candidates of a row that are paired with it at once where one that matches is enough.
const FIRST_CANDIDATES: usize = 8;

/// Candidates that a lane compares without a pause, though none of them gives a row: well below a millisecond, whatever the cache misses.
const CANDIDATES_BEFORE_PAUSE: usize = 16 * 1024;

/// Rows that are compared with rows of their chains.
#[derive(Default)]
struct Candidates {
    /// Number of the row in the chunk.
    rows: Vec<u32>,
    /// Its key: a row of the probe side's layout, staged or on a page.
    keys: Vec<*const u8>,
    /// The row of the chain that is next.
    mates: Vec<*const u8>,
}

impl Candidates {
    /// Room for so many, or only the first so many.
    fn resize(&mut self, count: usize) {
        self.rows.resize(count, 0);
        self.keys.resize(count, std::ptr::null());
        self.mates.resize(count, std::ptr::null());
    }

    /// Only those of the rows for which `keep` is true.
    fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let mut kept = 0;
        for at in 0..self.rows.len() {
            (self.rows[kept], self.keys[kept], self.mates[kept]) = (self.rows[at], self.keys[at], self.mates[at]);
            kept += usize::from(keep(self.rows[at]));
        }
        self.resize(kept);
    }
}

/// Pairs of rows that match.
#[derive(Default)]
struct Pairs {
    rows: Vec<u32>,
    mates: Vec<*const u8>,
}

/// Where the columns of the chunk at hand are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A chunk of the probe side.
    Stream,
    /// Rows that were kept: their columns in the order of the side.
    Kept,
}

/// Joins chunk after chunk of the probe side with the rows of a table.
pub(crate) struct Matcher {
    plan: Arc<JoinPlan>,
    memory: Arc<BufferManager>,
    /// Rows of a chunk, at most.
    capacity: usize,
    chunk: Chunk,
    origin: Origin,
    active: Candidates,
    /// Slots of the table where chains of the chunk's rows begin.
    slots: Vec<usize>,
    /// Candidates that lie side by side.
    spans: Vec<Span>,
    pairs: Pairs,
    /// Of each row of the chunk: whether it has a mate.
    found: Vec<bool>,
    /// Rows of the chunk are given that have none, or those that have one, when all pairs have been seen.
    finishing: bool,
    stage: RowStage,
    keep: Vec<u32>,
}

// SAFETY: addresses are used only while a chunk is at hand, whose owner keeps the pages pinned, and the stage is the matcher's own.
unsafe impl Send for Matcher {}

impl Matcher {
    pub(crate) fn new(plan: Arc<JoinPlan>, ctx: &ExecContext) -> Self {
        Self {
            plan,
            memory: Arc::clone(&ctx.memory),
            capacity: ctx.settings.chunk_capacity,
            chunk: Chunk::default(),
            origin: Origin::Stream,
            active: Candidates::default(),
            slots: Vec::new(),
            spans: Vec::new(),
            pairs: Pairs::default(),
            found: Vec::new(),
            finishing: false,
            stage: RowStage::default(),
            keep: Vec::new(),
        }
    }

    fn begin(&mut self, chunk: Chunk, origin: Origin) {
        self.active.resize(0);
        self.spans.clear();
        self.pairs.rows.clear();
        self.pairs.mates.clear();
        self.found.clear();
        if self.plan.kind().marks_probe() {
            self.found.resize(chunk.len(), false);
        }
        self.chunk = chunk;
        self.origin = origin;
        self.finishing = true;
    }

    /// Begins with a chunk of the probe side whose keys were evaluated.
    pub(crate) fn begin_chunk(&mut self, mates: Mates<'_>, chunk: Chunk, keys: &Keys) -> Result<(), ExecError> {
        self.begin(chunk, Origin::Stream);
        let table = match mates.lookup {
            Lookup::Hashed(table) => table,
            Lookup::Sorted(sorted) => return self.look_up(sorted),
        };
        let rows = self.chunk.len();
        table.slots_of(keys, &mut self.slots)?;
        let Candidates { rows: candidates, mates, keys: staged } = &mut self.active;
        candidates.resize(rows, 0);
        mates.resize(rows, std::ptr::null());
        let mut count = 0;
        {
            let (hashes, slots) = (&keys.hashes[..rows], &self.slots[..rows]);
            let (candidates, mates) = (&mut candidates[..rows], &mut mates[..rows]);
            for row in 0..rows {
                if let Some(&ahead) = slots.get(row + AHEAD) {
                    table.prefetch_slot(ahead);
                }
                let first = table.first(slots[row], RadixBits::stored_hash(hashes[row]));
                candidates[count] = row as u32;
                mates[count] = first;
                count += usize::from(!first.is_null());
            }
        }
        candidates.truncate(count);
        mates.truncate(count);
        if !self.plan.spec.nulls_equal
            && let Some(valid) = keys.valid()
        {
            let mut kept = 0;
            for at in 0..count {
                (candidates[kept], mates[kept]) = (candidates[at], mates[at]);
                kept += usize::from(valid.is_valid(candidates[at] as usize));
            }
            count = kept;
            candidates.truncate(count);
            mates.truncate(count);
        }
        // Only the keys of rows that may have a mate are made comparable.
        let layout = &*self.plan.keys;
        self.stage.reset(layout, count);
        self.stage.write_stored_hashes(candidates.iter().map(|&row| RadixBits::stored_hash(keys.hashes[row as usize])));
        let mut positions = Vec::new();
        for (index, column) in keys.columns.iter().enumerate() {
            let array = match &column.selection {
                None if count == rows => ArrayRef::clone(&column.array),
                None => gather_array(&column.array, candidates)?,
                Some(selection) => {
                    let selected = selection.positions();
                    positions.clear();
                    positions.extend(candidates.iter().map(|&row| selected[row as usize]));
                    gather_array(&column.array, &positions)?
                }
            };
            self.stage.write_column(layout, index, &array, None);
        }
        staged.extend((0..count).map(|at| self.stage.row(at)));
        Ok(())
    }

    /// Begins with rows of the probe side that were kept, with strings on pages of `heap`; `found` says which of them are known to have a mate.
    ///
    /// # Safety
    /// `rows` are rows of the probe side's layout on pages that stay pinned until [`Self::next`] has given all chunks.
    pub(crate) unsafe fn begin_rows(
        &mut self,
        mates: Mates<'_>,
        rows: &[*const u8],
        heap: Option<&HeapBuffers>,
        found: Option<&[bool]>,
    ) -> Result<(), ExecError> {
        // SAFETY: the caller vouches for the rows.
        let chunk = unsafe { self.plan.probe.gather_kept(rows, heap)? };
        self.begin(chunk, Origin::Kept);
        if let Some(found) = found {
            self.found.copy_from_slice(found);
        }
        let table = match mates.lookup {
            Lookup::Hashed(table) => table,
            Lookup::Sorted(sorted) => return self.look_up(sorted),
        };
        let first_only = self.plan.kind().first_only();
        let Self { active, found, slots, .. } = self;
        // SAFETY: as above; both sides have the same keys.
        unsafe { table.slots_of_rows(rows, slots) };
        active.resize(rows.len());
        let mut count = 0;
        for (row, &key) in rows.iter().enumerate() {
            if let Some(&ahead) = slots.get(row + AHEAD) {
                table.prefetch_slot(ahead);
            }
            // SAFETY: as above.
            let first = table.first(slots[row], unsafe { row_hash(key) });
            let done = first_only && found[row];
            (active.rows[count], active.keys[count], active.mates[count]) = (row as u32, key, first);
            count += usize::from(!first.is_null() & !done);
        }
        active.resize(count);
        Ok(())
    }

    /// Finds where the candidates of the rows of the chunk are.
    fn look_up(&mut self, sorted: &RangeTable) -> Result<(), ExecError> {
        let mut spans = std::mem::take(&mut self.spans);
        let column = |index| self.chunk.to_column(self.probe_position(index));
        sorted.look_up(&self.plan, self.chunk.len(), column, &mut spans)?;
        self.spans = spans;
        Ok(())
    }

    /// Pairs rows of the chunk with their next candidates.
    fn step_spans(&mut self, sorted: &RangeTable) {
        let Self { plan, spans, pairs, found, .. } = self;
        let mut pair = |span: &mut Span, count: usize| {
            let end = span.end.min(span.at + count);
            pairs.rows.resize(pairs.rows.len() + end - span.at, span.row);
            pairs.mates.extend((span.at..end).map(|at| sorted.row(at)));
            span.at = end;
        };
        if plan.kind().first_only() {
            // A few of each, as one that matches makes all others needless.
            spans.retain(|span| !found[span.row as usize]);
            spans.iter_mut().for_each(|span| pair(span, FIRST_CANDIDATES));
            spans.retain(|span| span.at < span.end);
            return;
        }
        let mut room = self.capacity;
        while let Some(span) = spans.last_mut().filter(|_| room > 0) {
            let before = span.at;
            pair(span, room);
            room -= span.at - before;
            if span.at == span.end {
                spans.pop();
            }
        }
    }

    /// Whether rows of the chunk have a mate, if that matters to the join. Complete when [`Self::next`] has given all chunks.
    pub(crate) fn found(&self) -> &[bool] {
        &self.found
    }

    /// Lets go of the chunk, and of pages that it refers to.
    pub(crate) fn release(&mut self) {
        self.chunk = Chunk::default();
    }

    /// Rows of the chunk will meet further tables: those without a mate are not given yet.
    pub(crate) fn postpone(&mut self) {
        self.finishing = false;
    }

    /// The next chunk of the join's output, until there is none. It may be empty: after many candidates that gave nothing others may have a say.
    ///
    /// # Safety
    /// The rows of the table are pinned with their strings, and so is what the chunk at hand began with.
    pub(crate) unsafe fn next(&mut self, mates: Mates<'_>) -> Result<Option<Chunk>, ExecError> {
        // Most chunks are few steps: a pause after each would cost more than the step.
        let mut candidates = 0;
        while candidates < CANDIDATES_BEFORE_PAUSE {
            let pairs = self.pairs.rows.len();
            let is_done = self.active.rows.is_empty() && self.spans.is_empty();
            let chunk = if pairs >= self.capacity || (pairs > 0 && is_done) {
                candidates += pairs.min(self.capacity);
                // SAFETY: mates are rows of the table.
                unsafe { self.take_pairs(pairs.min(self.capacity), mates.heap)? }
            } else if !is_done {
                match mates.lookup {
                    Lookup::Hashed(table) => {
                        candidates += self.active.rows.len();
                        // SAFETY: the caller vouches for the rows of the table.
                        unsafe { self.step(table) };
                    }
                    Lookup::Sorted(sorted) => {
                        candidates += self.capacity;
                        self.step_spans(sorted);
                    }
                }
                None
            } else if std::mem::take(&mut self.finishing) && self.plan.kind().marks_probe() {
                self.finish_rows()
            } else {
                return Ok(None);
            };
            if chunk.is_some() {
                return Ok(chunk);
            }
        }
        Ok(Some(Chunk::default()))
    }

    /// Compares every candidate with its mate, and goes on to the next row of each chain.
    ///
    /// # Safety
    /// As [`Self::next`].
    unsafe fn step(&mut self, table: &TaggedTable) {
        let plan = Arc::clone(&self.plan);
        let layout: &RowLayout = &plan.build.layout;
        // SAFETY: the caller vouches for the rows.
        with_key_equal!(layout, equal => unsafe { self.step_with(&plan, table, equal) });
    }

    /// # Safety
    /// As [`Self::next`]; `equal` is for the join's keys.
    unsafe fn step_with(&mut self, plan: &JoinPlan, table: &TaggedTable, equal: impl KeyEqual) {
        let kind = plan.kind();
        let has_residual = plan.spec.residual.is_some();
        if kind.marks_build() && !kind.pairs() && !has_residual {
            // SAFETY: the caller vouches for the rows.
            unsafe { self.mark_with(plan.build_mark, table, equal) };
            return;
        }
        let Self { active, pairs, found, .. } = self;
        if kind.first_only() && has_residual {
            active.retain(|row| !found[row as usize]);
        }
        let count = active.rows.len();
        let known = pairs.rows.len();
        pairs.rows.resize(known + count, 0);
        pairs.mates.resize(known + count, std::ptr::null());
        let ends = kind.first_only() && !has_residual;
        let (mut matched, mut left) = (0, 0);
        {
            let (rows, keys) = (&mut active.rows[..count], &mut active.keys[..count]);
            let mates = &mut active.mates[..count];
            let (pair_rows, pair_mates) = (&mut pairs.rows[known..][..count], &mut pairs.mates[known..][..count]);
            // Without a branch on what is found, so that the cache misses of many rows overlap.
            for at in 0..count {
                if let Some(&ahead) = mates.get(at + AHEAD) {
                    table.prefetch_row(ahead);
                }
                let (row, key, mate) = (rows[at], keys[at], mates[at]);
                // SAFETY: the caller vouches for the rows.
                let (matches, following) = unsafe { (equal.equal(key, mate), table.next(mate, row_hash(key))) };
                pair_rows[matched] = row;
                pair_mates[matched] = mate;
                matched += usize::from(matches);
                (rows[left], keys[left], mates[left]) = (row, key, following);
                left += usize::from(!following.is_null() & !(matches & ends));
            }
        }
        matched += known;
        active.resize(left);
        if !has_residual {
            if kind.marks_probe() {
                pairs.rows[known..matched].iter().for_each(|&row| found[row as usize] = true);
            }
            if kind.marks_build() {
                for &mate in &pairs.mates[known..matched] {
                    // SAFETY: the caller vouches for the rows.
                    unsafe { mark(mate, plan.build_mark) };
                }
            }
            if !kind.pairs() {
                matched = known;
            }
        }
        pairs.rows.truncate(matched);
        pairs.mates.truncate(matched);
    }

    /// A step of joins that give build rows only, once: a match leaves nothing but a mark.
    ///
    /// # Safety
    /// As [`Self::next`]; `equal` is for the join's keys.
    unsafe fn mark_with(&mut self, offset: usize, table: &TaggedTable, equal: impl KeyEqual) {
        let mut left = 0;
        let Candidates { rows, keys, mates } = &mut self.active;
        for at in 0..rows.len() {
            let (row, key, mate) = (rows[at], keys[at], mates[at]);
            // SAFETY: the caller vouches for the rows. Whoever marked a row before goes down the chain and marks the others of its key.
            let (ends, following) =
                unsafe { (equal.equal(key, mate) && mark(mate, offset), table.next(mate, row_hash(key))) };
            (rows[left], keys[left], mates[left]) = (row, key, following);
            left += usize::from(!following.is_null() && !ends);
        }
        self.active.resize(left);
    }

    /// Takes the first `count` pairs: checks what else must be true, and makes a chunk of those that are left, if pairs are given.
    ///
    /// # Safety
    /// As [`Self::next`].
    unsafe fn take_pairs(&mut self, count: usize, heap: Option<&HeapBuffers>) -> Result<Option<Chunk>, ExecError> {
        let plan = Arc::clone(&self.plan);
        let kind = plan.kind();
        let mut rows: Vec<u32> = self.pairs.rows.drain(..count).collect();
        let mut mates: Vec<*const u8> = self.pairs.mates.drain(..count).collect();
        let mut probe = self.chunk.select(&rows);
        if let Some(Residual { predicate, columns }) = &plan.spec.residual {
            // SAFETY: the caller vouches for the mates.
            let pairs = unsafe { self.assemble(columns, &probe, &mates, heap)? };
            predicate.select_whole(&self.memory, &pairs, &mut self.keep)?;
            if self.keep.len() < count {
                rows = self.keep.iter().map(|&at| rows[at as usize]).collect();
                mates = self.keep.iter().map(|&at| mates[at as usize]).collect();
                probe = probe.select(&self.keep);
            }
            if kind.marks_probe() {
                rows.iter().for_each(|&row| self.found[row as usize] = true);
            }
            if kind.marks_build() {
                for &mate in &mates {
                    // SAFETY: the caller vouches for the mates.
                    unsafe { mark(mate, plan.build_mark) };
                }
            }
        }
        if rows.is_empty() || !kind.pairs() {
            return Ok(None);
        }
        // SAFETY: the caller vouches for the mates.
        unsafe { self.assemble(&plan.spec.output, &probe, &mates, heap).map(Some) }
    }

    /// A chunk of `columns` for pairs of the rows of `probe` with `mates`.
    ///
    /// # Safety
    /// As [`Self::next`].
    unsafe fn assemble(
        &self,
        columns: &[JoinColumn],
        probe: &Chunk,
        mates: &[*const u8],
        heap: Option<&HeapBuffers>,
    ) -> Result<Chunk, ExecError> {
        let columns = columns
            .iter()
            .map(|column| match *column {
                // SAFETY: the caller vouches for the mates.
                JoinColumn::Build(index) => Ok(Column::flat(unsafe { self.plan.build.gather(index, mates, heap)? })),
                JoinColumn::Probe(index) => Ok(probe.to_column(self.probe_position(index))),
                JoinColumn::Mark => unreachable!("pairs have no mark"),
            })
            .collect::<Result<_, ExecError>>()?;
        Ok(Chunk::from_columns(columns, mates.len()))
    }

    /// The rows of the chunk that are given whatever they are paired with, or because of it.
    fn finish_rows(&self) -> Option<Chunk> {
        use super::JoinKind::{FullOuter, ProbeAnti, ProbeMark, ProbeOuter, ProbeSemi};
        let kind = self.plan.kind();
        let chunk = match kind {
            ProbeMark => self.chunk.clone(),
            ProbeSemi | ProbeAnti | ProbeOuter | FullOuter => {
                let wanted = kind == ProbeSemi;
                let rows: Vec<u32> =
                    (0..self.found.len() as u32).filter(|&row| self.found[row as usize] == wanted).collect();
                match rows.len() {
                    0 => return None,
                    all if all == self.chunk.len() => self.chunk.clone(),
                    _ => self.chunk.select(&rows),
                }
            }
            _ => unreachable!("called where probe rows are marked"),
        };
        let column = |column: &JoinColumn| match *column {
            JoinColumn::Probe(index) => chunk.to_column(self.probe_position(index)),
            JoinColumn::Build(index) => Column::flat(new_null_array(self.plan.build.data_type(index), chunk.len())),
            JoinColumn::Mark => {
                let found = BooleanBuffer::from_iter(self.found.iter().copied());
                Column::flat(Arc::new(BooleanArray::new(found, None)))
            }
        };
        Some(Chunk::from_columns(self.plan.spec.output.iter().map(column).collect(), chunk.len()))
    }

    fn probe_position(&self, index: usize) -> usize {
        match self.origin {
            Origin::Stream => index,
            Origin::Kept => self.plan.probe.position(index),
        }
    }
}

/// Notes that a build row has a mate; whether that was known. It is read before it is written, so that the lines of rows with many mates
/// stay shared among the caches (SIGMOD 2014, section 4.1).
///
/// # Safety
/// `row` is a pinned row with a mark at `offset`, which is accessed in no other way meanwhile.
#[inline(always)]
unsafe fn mark(row: *const u8, offset: usize) -> bool {
    // SAFETY: the caller vouches for the byte.
    let mark = unsafe { AtomicU8::from_ptr(row.add(offset).cast_mut()) };
    let known = mark.load(Ordering::Relaxed) != 0;
    if !known {
        mark.store(1, Ordering::Relaxed);
    }
    known
}

/// Build rows, given on their own: without a match, or because they have one, or with whether.
///
/// # Safety
/// `rows` are rows of the build side's layout on pinned pages.
pub(crate) unsafe fn build_rows(plan: &JoinPlan, rows: &[*const u8]) -> Result<Chunk, ExecError> {
    let column = |column: &JoinColumn| -> Result<ArrayRef, ExecError> {
        Ok(match *column {
            // SAFETY: the caller vouches for the rows.
            JoinColumn::Build(index) => unsafe { plan.build.gather(index, rows, None)? },
            JoinColumn::Probe(index) => new_null_array(plan.probe.data_type(index), rows.len()),
            JoinColumn::Mark => {
                // SAFETY: as above.
                let marks = rows.iter().map(|row| unsafe { *row.add(plan.build_mark) } != 0);
                Arc::new(BooleanArray::new(BooleanBuffer::from_iter(marks), None))
            }
        })
    };
    Ok(Chunk::new(plan.spec.output.iter().map(column).collect::<Result<_, _>>()?, rows.len()))
}

/// Whether a build row is given when all rows of the probe side have been seen.
///
/// # Safety
/// `row` is a row of the build side's layout on a pinned page.
#[inline(always)]
pub(crate) unsafe fn is_given(plan: &JoinPlan, row: *const u8) -> bool {
    use super::JoinKind::{BuildMark, BuildSemi};
    match plan.kind() {
        BuildMark => true,
        // SAFETY: the caller vouches for the row; the pipeline's stage is over, and with it all writing.
        kind => unsafe { (*row.add(plan.build_mark) != 0) == (kind == BuildSemi) },
    }
}
