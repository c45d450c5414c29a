//! Merging runs through a tree of losers: one comparison for each level, between integers unless prefixes of keys are equal.
//!
//! Each run has one page pinned, so the number of runs that are merged at once follows from the memory at hand (`sink`).

use std::sync::Arc;

use ogee_memory::{BufferManager, MemoryError};
use ogee_row::PinnedRows;

use super::{bound::Bound, plan::SortPlan, run::Run};

/// The key of an exhausted run, above all others: cursors have smaller numbers than its lower 32 bits.
const END: u128 = u128::MAX;

/// Rows of a run between the one at hand and the one that is fetched.
const AHEAD: usize = 8;

/// The next row of a run.
#[derive(Clone, Copy)]
struct Head {
    /// Prefix of the key over the number of the cursor, or [`END`].
    key: u128,
    row: *const u8,
}

/// Where a run is being read.
enum Place {
    Entries {
        at: usize,
        end: usize,
    },
    Pages {
        page: Option<PinnedRows>,
        /// The row at hand, and where those of the range end on this page.
        row: usize,
        end: usize,
        /// The page to come.
        next: usize,
        page_end: usize,
        first_page: usize,
    },
}

struct Cursor {
    run: usize,
    place: Place,
}

/// Where a merge stands, for another one to go on from there.
#[derive(Clone)]
pub(crate) struct Position {
    /// For each run its next page and the row on it, or entry; `None`: at its start.
    runs: Vec<Option<(usize, usize)>>,
}

/// The rows of several runs between two bounds, in order.
pub(crate) struct Merge {
    plan: Arc<SortPlan>,
    memory: Arc<BufferManager>,
    runs: Arc<[Run]>,
    low: Option<Bound>,
    high: Option<Bound>,
    cursors: Vec<Cursor>,
    heads: Vec<Head>,
    /// The loser at each inner node; node `n` has children `2n` and `2n + 1`, leaf `i` is node `len + i`.
    losers: Vec<usize>,
    winner: usize,
    /// Pages that rows handed out last are on, and those before.
    retired: Vec<PinnedRows>,
    retired_before: Vec<PinnedRows>,
    /// The winner's page is exhausted; it is replaced when rows are asked for again.
    pending: bool,
    /// Rows of the runs before the range.
    before: usize,
}

// SAFETY: addresses of heads point into pages that the merge, or its runs, keep pinned; rows are only read.
unsafe impl Send for Merge {}

/// Pages that a merge of `runs` runs may have pinned at once.
pub(crate) fn pages_pinned(runs: usize) -> usize {
    runs + 2 * retired_max(runs)
}

fn retired_max(runs: usize) -> usize {
    runs / 8 + 2
}

impl Merge {
    /// The rows of `runs` from `low` up to `high`, not included.
    pub(crate) fn new(
        plan: &Arc<SortPlan>,
        memory: &Arc<BufferManager>,
        runs: &Arc<[Run]>,
        low: Option<Bound>,
        high: Option<Bound>,
    ) -> Result<Self, MemoryError> {
        let mut merge = Self {
            plan: Arc::clone(plan),
            memory: Arc::clone(memory),
            runs: Arc::clone(runs),
            low,
            high,
            cursors: Vec::new(),
            heads: Vec::new(),
            losers: Vec::new(),
            winner: 0,
            retired: Vec::new(),
            retired_before: Vec::new(),
            pending: false,
            before: 0,
        };
        for run in 0..runs.len() {
            merge.open(run, None)?;
        }
        merge.build();
        Ok(merge)
    }

    /// The plan that the rows are of.
    pub(super) fn plan(&self) -> &SortPlan {
        &self.plan
    }

    /// Rows of the runs that come before the first of these.
    pub(crate) fn before(&self) -> usize {
        self.before
    }

    /// Where the merge stands.
    pub(crate) fn position(&self) -> Position {
        // Runs without a cursor have no rows in the range.
        let mut runs = vec![Some((usize::MAX, 0)); self.runs.len()];
        for cursor in &self.cursors {
            runs[cursor.run] = Some(match &cursor.place {
                Place::Entries { at, .. } => (0, *at),
                Place::Pages { row, end, next, .. } if row < end => (next - 1, *row),
                Place::Pages { next, .. } => (*next, 0),
            });
        }
        Position { runs }
    }

    /// Another merge of the same rows, from `position` on.
    pub(crate) fn resume(&self, position: &Position) -> Result<Self, MemoryError> {
        let mut merge = Self {
            plan: Arc::clone(&self.plan),
            memory: Arc::clone(&self.memory),
            runs: Arc::clone(&self.runs),
            low: self.low,
            high: self.high,
            cursors: Vec::new(),
            heads: Vec::new(),
            losers: Vec::new(),
            winner: 0,
            retired: Vec::new(),
            retired_before: Vec::new(),
            pending: false,
            before: 0,
        };
        for (run, &at) in position.runs.iter().enumerate() {
            merge.open(run, at)?;
        }
        merge.build();
        Ok(merge)
    }

    /// Adds a cursor for run `run` if it has rows in the range, from page and row `from` on.
    fn open(&mut self, run: usize, from: Option<(usize, usize)>) -> Result<(), MemoryError> {
        if from.is_some_and(|(page, _)| page == usize::MAX) {
            return Ok(());
        }
        let runs = Arc::clone(&self.runs);
        let (plan, width) = (&self.plan, self.plan.layout.width());
        let place = match runs[run].by_entries(width)? {
            Some((entries, _)) => {
                // All rows are pinned, so it is known exactly.
                let rows_before = |bound: Bound| runs[run].rows_before(plan, &runs, run, bound).0;
                let at = from.map_or_else(|| self.low.map_or(0, rows_before), |(_, at)| at);
                Place::Entries { at, end: self.high.map_or(entries.len(), rows_before) }
            }
            None => {
                // Rows from `low` on may begin on the page before the first that begins with one.
                let first = match self.low {
                    Some(low) => runs[run].page_from(plan, &runs, run, low)?.saturating_sub(1),
                    None => 0,
                };
                let page_end = match self.high {
                    Some(high) => runs[run].page_from(plan, &runs, run, high)?,
                    None => runs[run].num_pages(),
                };
                let next = from.map_or(first, |(page, _)| page);
                Place::Pages { page: None, row: 0, end: 0, next, page_end, first_page: first }
            }
        };
        let number = self.cursors.len();
        self.cursors.push(Cursor { run, place });
        self.heads.push(Head { key: END, row: std::ptr::null() });
        self.load(number)?;
        if let (Some((_, from)), Place::Pages { row, end, .. }) = (from, &mut self.cursors[number].place)
            && from > *row
        {
            *row = from.min(*end);
            self.load(number)?;
        }
        self.before += match &self.cursors[number].place {
            Place::Entries { at, .. } => *at,
            Place::Pages { page: Some(_), row, next, .. } => runs[run].rows_until(next - 1) + row,
            Place::Pages { next, .. } => runs[run].rows_until(*next),
        };
        if self.heads[number].key == END {
            self.cursors.pop();
            self.heads.pop();
        }
        Ok(())
    }

    /// Reads the head of cursor `number` where it stands, from the next page if this one is exhausted.
    fn load(&mut self, number: usize) -> Result<(), MemoryError> {
        let runs = Arc::clone(&self.runs);
        let Cursor { run: number_of_run, place } = &mut self.cursors[number];
        let (number_of_run, run) = (*number_of_run, &runs[*number_of_run]);
        let (plan, keys) = (&self.plan, &self.plan.keys);
        let row = match place {
            Place::Entries { at, end } => {
                let (entries, bases) = run.by_entries(self.plan.layout.width())?.expect("as when it was opened");
                let end = *end;
                self.heads[number] = if *at < end {
                    // Rows are looked at when prefixes tie, and soon in any case.
                    prefetch(bases.row(entries[(*at + AHEAD).min(end - 1)]));
                    Head { key: entries[*at] >> 32 << 32 | number as u128, row: bases.row(entries[*at]) }
                } else {
                    Head { key: END, row: std::ptr::null() }
                };
                return Ok(());
            }
            Place::Pages { page, row, end, next, page_end, first_page } => {
                while *row == *end && *next < *page_end {
                    self.retired.extend(page.take());
                    let pinned = run.pin_page(*next, &self.memory)?;
                    let start = run.rows_until(*next);
                    let before = |bound: Bound| match bound {
                        Bound::Row { run, row, .. } if run == number_of_run => {
                            row.saturating_sub(start).min(pinned.len())
                        }
                        bound => partition_point(pinned.len(), |row| {
                            let row = pinned.row(row).cast_const();
                            // SAFETY: rows of a pinned page.
                            unsafe { bound.is_after(plan, &runs, number_of_run, keys.prefix(row), Some(row)) }
                                .expect("the row is there")
                        }),
                    };
                    *row = self.low.filter(|_| *next == *first_page).map_or(0, before);
                    *end = self.high.filter(|_| *next + 1 == *page_end).map_or(pinned.len(), before);
                    *end = (*end).max(*row);
                    *next += 1;
                    *page = Some(pinned);
                }
                page.as_ref().filter(|_| *row < *end).map(|page| page.row(*row).cast_const())
            }
        };
        self.heads[number] = match row {
            // SAFETY: a row of a pinned page.
            Some(row) => Head { key: unsafe { keys.prefix(row) } | number as u128, row },
            None => Head { key: END, row: std::ptr::null() },
        };
        Ok(())
    }

    #[inline(always)]
    fn less(&self, a: usize, b: usize) -> bool {
        let (x, y) = (self.heads[a], self.heads[b]);
        if x.key >> 32 != y.key >> 32 || self.plan.keys.fits_entry() || x.key == END || y.key == END {
            return x.key < y.key;
        }
        // SAFETY: heads that are not at the end are rows of pinned pages.
        let order = unsafe { self.plan.keys.compare(x.row, y.row) };
        order.then(a.cmp(&b)).is_lt()
    }

    fn build(&mut self) {
        let leaves = self.cursors.len();
        let mut winners = vec![0; 2 * leaves];
        winners.iter_mut().skip(leaves).enumerate().for_each(|(leaf, winner)| *winner = leaf);
        self.losers = vec![0; leaves];
        for node in (1..leaves).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], self.losers[node]) = if self.less(a, b) { (a, b) } else { (b, a) };
        }
        self.winner = winners.get(1).copied().unwrap_or(0);
    }

    #[inline(always)]
    fn replay(&mut self, leaf: usize) {
        let mut winner = leaf;
        let mut node = (self.losers.len() + leaf) / 2;
        while node > 0 {
            let loser = self.losers[node];
            if self.less(loser, winner) {
                self.losers[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.winner = winner;
    }

    /// The next rows, at most `limit`, into `rows`, which is cleared; none at the end. They stay pinned until this is called
    /// once more after the next time: the last row can be compared with the next.
    pub(crate) fn next_rows(&mut self, limit: usize, rows: &mut Vec<*const u8>) -> Result<(), MemoryError> {
        rows.clear();
        self.retired_before = std::mem::take(&mut self.retired);
        if self.cursors.is_empty() {
            return Ok(());
        }
        if self.pending {
            self.pending = false;
            self.load(self.winner)?;
            self.replay(self.winner);
        }
        if let [Cursor { run, place: Place::Entries { at, end } }] = self.cursors.as_mut_slice() {
            // Nothing to merge.
            let (entries, bases) =
                self.runs[*run].by_entries(self.plan.layout.width())?.expect("as when it was opened");
            let last = *end.min(&mut at.saturating_add(limit));
            rows.extend(entries[*at..last].iter().map(|&entry| bases.row(entry)));
            *at = last;
            return Ok(());
        }
        let width = self.plan.layout.width();
        let retired_max = retired_max(self.cursors.len());
        while rows.len() < limit {
            let number = self.winner;
            let head = self.heads[number];
            if head.key == END {
                break;
            }
            rows.push(head.row);
            match &mut self.cursors[number].place {
                Place::Entries { at, .. } => {
                    *at += 1;
                    self.load(number)?;
                }
                Place::Pages { row, end, .. } => {
                    *row += 1;
                    if *row < *end {
                        let next = head.row.wrapping_add(width);
                        // SAFETY: the row after it on the same pinned page.
                        let key = unsafe { self.plan.keys.prefix(next) } | number as u128;
                        self.heads[number] = Head { key, row: next };
                    } else if self.retired.len() < retired_max {
                        self.load(number)?;
                    } else {
                        self.pending = true;
                        break;
                    }
                }
            }
            self.replay(number);
        }
        Ok(())
    }
}

/// Fetches the beginning of a row that will be read soon.
#[inline(always)]
pub(super) fn prefetch(row: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which may name any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(row.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

/// How many of `0..len` come before the first for which `before` does not hold.
pub(super) fn partition_point(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = (low + high) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
