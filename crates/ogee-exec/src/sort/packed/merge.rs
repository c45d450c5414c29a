//! Merging runs of packed rows a batch at a time: so many rows as a cache holds are taken from the runs, up to a row that all of them have reached,
//! and merged pair by pair.
//!
//! A tree of losers takes a branch that nobody can foretell for each of its levels; merging two sequences takes none.

use std::sync::Arc;

use ogee_memory::{BufferManager, MemoryError};

use super::{
    kernel,
    run::{Buffer, KeyRange, PackedRun, PinnedRun, RunWriter},
};
use crate::{ExecError, sort::Cancelled};

/// Rows that a batch takes of each run, at least: those of small buffers and many runs.
const SHARE_MIN: usize = 16;

/// Room for a batch, twice.
pub(super) struct Batch {
    rows: Buffer,
    spare: Buffer,
    ends: Vec<usize>,
    /// Words of the batch, and whether they are in `spare`.
    len: usize,
    in_spare: bool,
}

impl Batch {
    /// Bytes of a batch for merging `runs` runs of rows of `words` words, given that about `wanted` are to be had for each of its two halves.
    pub(super) fn bytes(wanted: usize, runs: usize, words: usize) -> usize {
        wanted.max(SHARE_MIN * runs.max(1) * 8 * words)
    }

    pub(super) fn new(memory: &Arc<BufferManager>, bytes: usize) -> Result<Self, MemoryError> {
        let (rows, spare) = (Buffer::new(memory, bytes)?, Buffer::new(memory, bytes)?);
        Ok(Self { rows, spare, ends: Vec::new(), len: 0, in_spare: false })
    }

    /// The rows of the batch, in order.
    pub(super) fn rows(&self) -> &[u64] {
        let all = if self.in_spare { &self.spare } else { &self.rows };
        &all.words()[..self.len]
    }
}

/// Where a run is being read.
struct Cursor {
    run: usize,
    page: Option<PinnedRun>,
    /// Words of the page: the next, and where those of the range end.
    at: usize,
    end: usize,
    /// The page at hand is the one before.
    next: usize,
    page_end: usize,
}

impl Cursor {
    /// The next rows, at most `words` words of them.
    fn offered(&self, words: usize) -> &[u64] {
        let page = self.page.as_ref().map_or(&[][..], PinnedRun::rows);
        &page[self.at..self.end.min(self.at + words)]
    }
}

/// The rows of a key range of some runs.
pub(super) struct PackedMerge {
    memory: Arc<BufferManager>,
    runs: Arc<[PackedRun]>,
    high: Option<Vec<u64>>,
    words: usize,
    cursors: Vec<Cursor>,
}

impl PackedMerge {
    /// The rows of `range`, and how many come before them. The range is one that the runs were told of ([`PackedRun::set_readers`]).
    pub(super) fn new(
        memory: &Arc<BufferManager>,
        runs: &Arc<[PackedRun]>,
        range: KeyRange<'_>,
    ) -> Result<(Self, usize), MemoryError> {
        let mut merge = Self {
            memory: Arc::clone(memory),
            runs: Arc::clone(runs),
            high: range.high.map(<[u64]>::to_vec),
            words: runs.first().map_or(1, |run| run.words),
            cursors: Vec::with_capacity(runs.len()),
        };
        for (number, run) in runs.iter().enumerate() {
            let pages = run.pages_of(range);
            merge.cursors.push(Cursor {
                run: number,
                page: None,
                at: 0,
                end: 0,
                next: pages.start,
                page_end: pages.end,
            });
        }
        let mut before = 0;
        for number in 0..merge.cursors.len() {
            let run = &runs[number];
            let first = merge.cursors[number].next;
            before += run.rows_until(first);
            if merge.load(number)? {
                let cursor = &mut merge.cursors[number];
                let page = cursor.page.as_ref().expect("just loaded");
                let skipped = range.low.map_or(0, |low| kernel::rows_before(page.rows(), run.words, low, false));
                before += skipped;
                cursor.at = (skipped * run.words).min(cursor.end);
            }
        }
        Ok((merge, before))
    }

    /// Has the next page of run `number`'s range at hand; false: there is none.
    fn load(&mut self, number: usize) -> Result<bool, MemoryError> {
        let Self { memory, runs, high, words, cursors } = self;
        let cursor = &mut cursors[number];
        let run = &runs[cursor.run];
        if cursor.page.take().is_some() {
            run.done_with(cursor.next - 1);
        }
        if cursor.next == cursor.page_end {
            return Ok(false);
        }
        let page = run.pin(cursor.next, cursor.page_end, memory)?;
        cursor.next += 1;
        cursor.at = 0;
        cursor.end = match high.as_ref().filter(|_| cursor.next == cursor.page_end) {
            Some(high) => kernel::rows_before(page.rows(), *words, high, false) * *words,
            None => page.rows().len(),
        };
        cursor.page = Some(page);
        Ok(true)
    }

    /// The next rows, into `batch`; how many there are, none at the end. They are only counted if they are at most `skip`.
    pub(super) fn next_batch(&mut self, batch: &mut Batch, skip: usize) -> Result<usize, MemoryError> {
        let words = self.words;
        batch.len = 0;
        batch.in_spare = false;
        batch.ends.clear();
        let mut number = 0;
        while number < self.cursors.len() {
            let Cursor { at, end, .. } = self.cursors[number];
            if at < end {
                number += 1;
            } else if !self.load(number)? {
                self.cursors.swap_remove(number);
            }
        }
        if self.cursors.is_empty() {
            return Ok(0);
        }
        let share = (batch.rows.words().len() / words / self.cursors.len()).max(1) * words;
        // The least of the rows with which what the runs offer ends: whatever comes up to it is among that.
        let bounds = self.cursors.iter().map(|cursor| {
            let rows = cursor.offered(share);
            &rows[rows.len() - words..]
        });
        let bound = bounds.min().expect("there is a cursor");
        let target = batch.rows.words_mut();
        let mut counted = 0;
        for cursor in &self.cursors {
            let rows = cursor.offered(share);
            counted += kernel::rows_before(rows, words, bound, true) * words;
            batch.ends.push(counted);
        }
        if counted / words > skip {
            let mut start = 0;
            for (cursor, &end) in self.cursors.iter().zip(&batch.ends) {
                target[start..end].copy_from_slice(&cursor.offered(share)[..end - start]);
                start = end;
            }
        }
        let mut start = 0;
        for (cursor, &end) in self.cursors.iter_mut().zip(&batch.ends) {
            cursor.at += end - start;
            start = end;
        }
        if counted / words > skip {
            batch.len = counted;
            let (rows, spare) = (batch.rows.words_mut(), batch.spare.words_mut());
            batch.in_spare = kernel::merge(&mut rows[..counted], spare, &mut batch.ends, words);
        }
        Ok(counted / words)
    }
}

impl Drop for PackedMerge {
    fn drop(&mut self) {
        for cursor in &mut self.cursors {
            let at_hand = usize::from(cursor.page.take().is_some());
            (cursor.next - at_hand..cursor.page_end).for_each(|page| self.runs[cursor.run].done_with(page));
        }
    }
}

/// One run of the rows of `runs`, with about `batch` bytes for each half of a batch.
pub(super) fn merged(
    memory: &Arc<BufferManager>,
    runs: Vec<PackedRun>,
    batch: usize,
    cancelled: Cancelled<'_>,
) -> Result<PackedRun, ExecError> {
    let runs: Arc<[PackedRun]> = runs.into();
    let words = runs[0].words;
    runs.iter().for_each(|run| run.set_readers(std::iter::once(KeyRange::ALL)));
    let mut batch = Batch::new(memory, Batch::bytes(batch, runs.len(), words))?;
    let (mut merge, _) = PackedMerge::new(memory, &runs, KeyRange::ALL)?;
    let mut writer = RunWriter::new(memory, words, runs.iter().map(|run| run.rows).sum());
    while merge.next_batch(&mut batch, 0)? > 0 {
        if cancelled() {
            return Err(ExecError::Cancelled);
        }
        writer.append(batch.rows())?;
    }
    Ok(writer.finish())
}
