//! Making sorted runs within a grant of memory.
//!
//! Rows are appended to pages as they come. When they have filled the grant, they are sorted, and written in order to new pages, which are
//! unpinned as they fill. Rows that never filled the grant are sorted where they are, and none moves. When all runs are there and they are more than
//! can be merged at once, as many of them as must be are merged into longer ones, the shortest first.
//!
//! Of rows that are wanted only up to a limit so many are kept: each time there are twice as many, they are sorted and the worse half is dropped.

use std::sync::Arc;

use ogee_memory::PAGE_SIZE;
use ogee_row::PartitionedRows;

use super::{
    Cancelled,
    entries::{ENTRY_BYTES, PAGES_MAX},
    merge::pages_pinned,
    plan::SortPlan,
    run::{Leading, Run, RunWriter, sorted_first, unsorted},
};
use crate::{ExecContext, ExecError};

/// Rows beyond the limit that are kept at least before they are sorted: few sorts for small limits.
const SPARE_ROWS: usize = 4096;
/// Runs that a lane may leave in any case: memory where they could not be merged at once has one lane only.
const RUNS_MIN: usize = 4;
/// Rows among which those that are not wanted of each partition are looked for.
const PRUNE_ROWS: usize = 1 << 16;

/// Rows on their way into runs.
pub(crate) struct RunMaker {
    plan: Arc<SortPlan>,
    ctx: ExecContext,
    /// Bytes that may be pinned.
    grant: usize,
    /// Lanes that make runs, and then merge those of all of them, each within such a grant.
    lanes: usize,
    /// Rows wanted.
    fetch: Option<usize>,
    /// Rows wanted of each partition.
    leading: Option<Leading>,
    rows: PartitionedRows,
    runs: Vec<Run>,
    /// Rows at which those that are not wanted of each partition are dropped.
    prune_at: usize,
    addresses: Vec<*mut u8>,
}

// SAFETY: addresses are not used across calls.
unsafe impl Send for RunMaker {}

impl RunMaker {
    /// Without rows. `grant`: bytes that each of `lanes` lanes may pin. Of all rows only the first `fetch` are wanted, of partitions those that are `leading`.
    pub(crate) fn new(
        plan: &Arc<SortPlan>,
        ctx: &ExecContext,
        (grant, lanes): (usize, usize),
        fetch: Option<usize>,
        leading: Option<Leading>,
    ) -> Self {
        Self {
            rows: unsorted(plan, &ctx.memory),
            plan: Arc::clone(plan),
            ctx: ctx.clone(),
            grant,
            lanes,
            fetch,
            leading,
            runs: Vec::new(),
            prune_at: PRUNE_ROWS,
            addresses: Vec::new(),
        }
    }

    /// Appends the rows at `sources`. What comes back, if it is known, is a prefix such that rows with greater ones are not wanted.
    ///
    /// # Safety
    /// They are rows of the plan's layout, staged or pinned, with their strings.
    pub(crate) unsafe fn append(
        &mut self,
        sources: impl Iterator<Item = *const u8>,
        cancelled: Cancelled<'_>,
    ) -> Result<Option<u128>, ExecError> {
        // SAFETY: the caller vouches for the rows.
        unsafe { self.rows.append(sources, &mut self.addresses)? };
        self.make_room(cancelled)
    }

    /// Takes runs of rows that came before all others.
    pub(crate) fn put_first(&mut self, runs: Vec<Run>) {
        self.runs.splice(0..0, runs);
    }

    /// The runs of all rows, in the order in which equal rows came.
    pub(crate) fn finish(mut self, cancelled: Cancelled<'_>) -> Result<Vec<Run>, ExecError> {
        if self.rows.rows() > 0 {
            if self.runs.is_empty() {
                let rows = self.take_rows();
                self.runs.push(Run::unmoved(&self.plan, &self.ctx.memory, rows, cancelled)?);
            } else {
                self.flush(cancelled)?;
            }
        }
        self.merge_runs(cancelled)?;
        Ok(self.runs)
    }

    fn take_rows(&mut self) -> PartitionedRows {
        std::mem::replace(&mut self.rows, unsorted(&self.plan, &self.ctx.memory))
    }

    fn make_room(&mut self, cancelled: Cancelled<'_>) -> Result<Option<u128>, ExecError> {
        let rows = self.rows.rows();
        if let Some(fetch) = self.fetch
            && rows >= fetch.saturating_add(fetch.max(SPARE_ROWS))
            // No use if they fill the grant again at once.
            && self.rows.allocated_bytes() / rows * fetch < self.grant / 2
        {
            return self.keep_first(fetch, cancelled);
        }
        if self.leading.is_some() && rows >= self.prune_at {
            self.keep_first(usize::MAX, cancelled)?;
            let kept = self.rows.rows();
            // Where most are wanted there is nothing to win.
            self.prune_at = if kept > rows / 4 * 3 { usize::MAX } else { PRUNE_ROWS.max(2 * kept) };
            return Ok(None);
        }
        // While a run is being written, its rows, its entries and what it is written to are in memory.
        let spare = 4 * PAGE_SIZE;
        if self.rows.allocated_bytes() + rows * ENTRY_BYTES + spare >= self.grant
            || self.rows.row_pages() + 1 >= PAGES_MAX
        {
            return self.flush(cancelled);
        }
        Ok(None)
    }

    /// Drops all rows but the first `fetch`, and those that are not wanted of their partitions.
    fn keep_first(&mut self, fetch: usize, cancelled: Cancelled<'_>) -> Result<Option<u128>, ExecError> {
        let rows = self.take_rows();
        let kept = &mut self.rows;
        let addresses = &mut self.addresses;
        let last = sorted_first(&self.plan, &self.ctx.memory, rows, fetch, self.leading, cancelled, |rows| {
            // SAFETY: rows of pinned pages.
            unsafe { kept.append(rows.iter().copied(), addresses) }
        })?;
        Ok(last)
    }

    /// Makes a run of the rows at hand.
    fn flush(&mut self, cancelled: Cancelled<'_>) -> Result<Option<u128>, ExecError> {
        let rows = self.take_rows();
        let limit = self.fetch.unwrap_or(usize::MAX);
        let mut writer = RunWriter::new(&self.plan, &self.ctx.memory);
        let last = sorted_first(&self.plan, &self.ctx.memory, rows, limit, self.leading, cancelled, |rows| {
            // SAFETY: rows of pinned pages, in order.
            unsafe { writer.append(rows) }
        })?;
        self.runs.push(writer.finish());
        Ok(last)
    }

    /// Merges the shortest runs if there are more than can be merged at once by those who read them.
    fn merge_runs(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let page_bytes = self.runs.iter().map(Run::page_bytes).max().unwrap_or(PAGE_SIZE).max(PAGE_SIZE);
        let pages = self.grant / page_bytes;
        // As many as let all lanes merge those of all, but not so few that rows would be moved again and again for it.
        let for_all = (2..).take_while(|&runs| pages_pinned(runs * self.lanes) <= pages).last().unwrap_or(0);
        // Two pages to write to.
        let at_once = (2..).take_while(|&runs| pages_pinned(runs) + 2 <= pages).last().unwrap_or(2);
        let most = for_all.max(at_once.min(RUNS_MIN));
        let limit = self.fetch.unwrap_or(usize::MAX);
        while self.runs.len() > most {
            // Neighbours: of equal rows, those of earlier runs go on to come first.
            let take = (self.runs.len() - most + 1).min(at_once);
            let lengths: Vec<usize> = self.runs.iter().map(Run::len).collect();
            let first = (0..=lengths.len() - take)
                .min_by_key(|&first| lengths[first..first + take].iter().sum::<usize>())
                .expect("at least as many runs as are taken");
            let shortest: Vec<Run> = self.runs.drain(first..first + take).collect();
            let merged = Run::merged(&self.plan, &self.ctx.memory, shortest, limit, cancelled)?;
            self.runs.insert(first, merged);
            self.ctx.counters.note_strategy("sort: several passes".to_owned());
        }
        Ok(())
    }
}
