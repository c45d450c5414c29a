//! Sorted runs: rows in order on pages of their own, which spill, or rows where they are and their order.

use std::sync::{Arc, OnceLock};

use ogee_memory::{BufferManager, MemoryError, PAGE_SIZE};
use ogee_row::{PartitionedRows, PinnedRows, RadixBits, RowPartition};
use parking_lot::Mutex;

use super::{
    CONSUMER, Cancelled,
    entries::{ENTRY_BYTES, Entries, RowBases},
    merge::Merge,
    plan::SortPlan,
};
use crate::ExecError;

/// Rows that are moved between two looks at cancellation.
const BATCH_ROWS: usize = 2048;

/// Sorted rows.
pub(crate) struct Run {
    order: Order,
    len: usize,
}

enum Order {
    /// As on the pages.
    Pages {
        /// Each a partition of its own: lanes read pages of one run side by side.
        pages: Vec<Mutex<RowPartition>>,
        /// Prefix of the first key of each page, and how many rows come before it.
        firsts: Vec<u128>,
        starts: Vec<usize>,
        /// The most that pinning a page pins, strings included.
        page_bytes: usize,
    },
    /// That of the entries; all pages are pinned before the first row is asked for.
    Entries { rows: Mutex<RowPartition>, entries: Entries, pinned: OnceLock<Unmoved> },
}

/// Rows that stayed where they were appended.
pub(crate) struct Unmoved {
    pub(crate) bases: RowBases,
    _pages: Vec<PinnedRows>,
}

/// All pages of `rows`, pinned.
fn pin_all(rows: &mut RowPartition) -> Result<Vec<PinnedRows>, MemoryError> {
    (0..rows.num_pages()).map(|page| rows.pin_page(page)).collect()
}

/// Appends rows in order.
pub(crate) struct RunWriter<'a> {
    plan: &'a SortPlan,
    rows: PartitionedRows,
    firsts: Vec<u128>,
    starts: Vec<usize>,
    appended: usize,
    addresses: Vec<*mut u8>,
    /// The row that was appended last, and how many its page has with it.
    last: *mut u8,
    on_page: usize,
}

impl<'a> RunWriter<'a> {
    pub(crate) fn new(plan: &'a SortPlan, memory: &Arc<BufferManager>) -> Self {
        let mut rows = unsorted(plan, memory);
        // A merge pins one page of each run.
        rows.keep_strings_with_rows();
        Self {
            plan,
            rows,
            firsts: Vec::new(),
            starts: Vec::new(),
            appended: 0,
            addresses: Vec::new(),
            last: std::ptr::null_mut(),
            on_page: 0,
        }
    }

    /// # Safety
    /// `rows` are of the plan's layout, pinned with their strings, and do not come before those appended so far.
    pub(crate) unsafe fn append(&mut self, rows: &[*const u8]) -> Result<(), MemoryError> {
        // SAFETY: the caller vouches for the rows.
        unsafe { self.rows.append(rows.iter().copied(), &mut self.addresses)? };
        let (per_page, width) = (self.rows.rows_per_page(), self.plan.layout.width());
        for (&row, &address) in rows.iter().zip(&self.addresses) {
            // Pages end when they are full, or earlier, if their strings are long.
            if self.on_page == 0 || self.on_page == per_page || address != self.last.wrapping_add(width) {
                // SAFETY: the caller vouches for the rows.
                self.firsts.push(unsafe { self.plan.keys.prefix(row) });
                self.starts.push(self.appended);
                self.on_page = 0;
            }
            self.appended += 1;
            self.on_page += 1;
            self.last = address;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Run {
        let rows = only_partition(self.rows);
        rows.seal();
        let page_bytes = (0..rows.num_pages()).map(|page| rows.page_bytes(page)).max().unwrap_or(PAGE_SIZE);
        let len = rows.rows();
        assert_eq!(rows.num_pages(), self.firsts.len(), "one first key for each page");
        let pages = rows.into_parts(1).into_iter().map(Mutex::new).collect();
        Run { order: Order::Pages { pages, firsts: self.firsts, starts: self.starts, page_bytes }, len }
    }
}

/// Rows in the order in which they come, on pages that may leave memory as soon as they are full.
pub(crate) fn unsorted(plan: &SortPlan, memory: &Arc<BufferManager>) -> PartitionedRows {
    PartitionedRows::new(Arc::clone(&plan.layout), Arc::clone(memory), CONSUMER, RadixBits::new(0), false)
}

fn only_partition(rows: PartitionedRows) -> RowPartition {
    rows.into_partitions().pop().expect("no bits make one partition")
}

/// Which rows of each partition are wanted: those before which there are few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leading {
    /// Bytes of the key that tell partitions apart.
    pub(crate) partition: usize,
    /// Bytes of the key that tell peers apart.
    pub(crate) peers: usize,
    /// What there may be so many of, at least 1.
    pub(crate) rows: usize,
    pub(crate) wanted: Wanted,
}

/// Which rows of a partition are wanted, given how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// So many.
    Rows,
    /// Those and their peers.
    Peers,
    /// So many groups of peers.
    Groups,
}

impl Leading {
    /// Whether `row` is wanted, which comes next in order. `last` and `seen` are the row before it, and how many there were in its
    /// partition so far and before its first peer.
    ///
    /// # Safety
    /// All are rows of the plan's layout on pinned pages, with their strings.
    #[inline]
    unsafe fn wants(
        &self,
        plan: &SortPlan,
        row: *const u8,
        last: &mut Option<*const u8>,
        seen: &mut (usize, usize),
    ) -> bool {
        // SAFETY: the caller vouches for the rows.
        let same = |bytes| last.is_some_and(|last| unsafe { plan.keys.compare_until(last, row, bytes) }.is_eq());
        if !same(self.partition) {
            *seen = (0, 0);
        } else if self.wanted == Wanted::Rows || !same(self.peers) {
            seen.1 = match self.wanted {
                Wanted::Groups => seen.1 + 1,
                _ => seen.0,
            };
        }
        seen.0 += 1;
        *last = Some(row);
        seen.1 < self.rows
    }
}

/// The first `limit` of `rows` in order, and the prefix of the last of them if there are so many. With `leading`, only those that are wanted of
/// each partition.
pub(crate) fn sorted_first(
    plan: &SortPlan,
    memory: &Arc<BufferManager>,
    rows: PartitionedRows,
    limit: usize,
    leading: Option<Leading>,
    cancelled: Cancelled<'_>,
    mut append: impl FnMut(&[*const u8]) -> Result<(), MemoryError>,
) -> Result<Option<u128>, ExecError> {
    let mut rows = only_partition(rows);
    let pages = pin_all(&mut rows)?;
    let entries = Entries::sorted(plan, memory, &pages)?;
    let bases = RowBases::new(&pages, plan.layout.width());
    let first = &entries.slice()[..limit.min(entries.len())];
    let mut addresses = Vec::with_capacity(BATCH_ROWS);
    let (mut last_row, mut seen) = (None, (0, 0));
    for batch in first.chunks(BATCH_ROWS) {
        if cancelled() {
            return Err(ExecError::Cancelled);
        }
        addresses.clear();
        addresses.extend(batch.iter().map(|&entry| bases.row(entry)));
        if let Some(leading) = leading {
            // SAFETY: rows of pages that are pinned.
            addresses.retain(|&row| unsafe { leading.wants(plan, row, &mut last_row, &mut seen) });
        }
        append(&addresses)?;
    }
    Ok((first.len() == limit).then(|| first.last().map(|last| last >> 32 << 32)).flatten())
}

impl Run {
    /// `rows` sorted where they are.
    pub(crate) fn unmoved(
        plan: &SortPlan,
        memory: &Arc<BufferManager>,
        rows: PartitionedRows,
    ) -> Result<Self, MemoryError> {
        let mut rows = only_partition(rows);
        let entries = Entries::sorted(plan, memory, &pin_all(&mut rows)?)?;
        let len = entries.len();
        Ok(Self { order: Order::Entries { rows: Mutex::new(rows), entries, pinned: OnceLock::new() }, len })
    }

    /// `rows` sorted where they are, which have many groups of few rows: those with equal first `groups` bytes of the key, of which it begins with
    /// a hash. With `leading`, only the rows that are wanted. Entries hold something else than prefixes: it is no run to be merged with others.
    pub(crate) fn of_groups(
        plan: &SortPlan,
        memory: &Arc<BufferManager>,
        mut rows: RowPartition,
        groups: usize,
        leading: Option<Leading>,
    ) -> Result<Self, MemoryError> {
        let pages = pin_all(&mut rows)?;
        let mut entries = Entries::sorted_in_groups(plan, memory, &pages, groups)?;
        let unmoved = Unmoved { bases: RowBases::new(&pages, plan.layout.width()), _pages: pages };
        if let Some(leading) = leading {
            let (mut last_row, mut seen) = (None, (0, 0));
            // SAFETY: rows of pages that are pinned.
            entries.retain(|entry| unsafe { leading.wants(plan, unmoved.bases.row(entry), &mut last_row, &mut seen) });
        }
        let len = entries.len();
        Ok(Self { order: Order::Entries { rows: Mutex::new(rows), entries, pinned: unmoved.into() }, len })
    }

    /// One run of the rows of `runs`; of equal rows, those of earlier runs come first.
    pub(crate) fn merged(
        plan: &Arc<SortPlan>,
        memory: &Arc<BufferManager>,
        runs: Vec<Self>,
        limit: usize,
        cancelled: Cancelled<'_>,
    ) -> Result<Self, ExecError> {
        let runs: Arc<[Self]> = runs.into();
        let mut merge = Merge::new(plan, memory, &runs, None, None)?;
        let mut writer = RunWriter::new(plan, memory);
        let mut batch = Vec::with_capacity(BATCH_ROWS);
        let mut left = limit;
        while left > 0 {
            if cancelled() {
                return Err(ExecError::Cancelled);
            }
            merge.next_rows(BATCH_ROWS.min(left), &mut batch)?;
            if batch.is_empty() {
                break;
            }
            left -= batch.len();
            // SAFETY: the merge keeps the rows pinned until it is asked for more, and gives them in order.
            unsafe { writer.append(&batch)? };
        }
        Ok(writer.finish())
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What reading the run in order pins at a time; nothing if it is pinned as a whole anyway.
    pub(crate) fn page_bytes(&self) -> usize {
        match &self.order {
            Order::Pages { page_bytes, .. } => *page_bytes,
            Order::Entries { .. } => 0,
        }
    }

    /// Bytes of all rows.
    pub(crate) fn bytes(&self) -> usize {
        match &self.order {
            Order::Pages { pages, .. } => pages.iter().map(|page| page.lock().bytes()).sum(),
            Order::Entries { rows, entries, .. } => rows.lock().bytes() + entries.len() * ENTRY_BYTES,
        }
    }

    /// Prefixes of some keys, and about how many rows each stands for; for choosing where to cut.
    pub(crate) fn samples(&self, per_page: usize, samples: &mut Vec<(u128, usize)>) {
        match &self.order {
            Order::Pages { firsts, .. } => {
                let stands_for = self.len.div_ceil(firsts.len().max(1));
                samples.extend(firsts.iter().map(|&first| (first, stands_for)));
            }
            Order::Entries { entries, .. } => {
                let step = per_page.min(1 << 12);
                samples.extend(entries.slice().iter().step_by(step).map(|entry| (entry >> 32 << 32, step)));
            }
        }
    }

    /// The rows in the order of entries, with all pages pinned; `None` if they are in order on their pages.
    pub(crate) fn by_entries(&self, width: usize) -> Result<Option<(&[u128], &RowBases)>, MemoryError> {
        let Order::Entries { rows, entries, pinned } = &self.order else { return Ok(None) };
        if pinned.get().is_none() {
            let mut rows = rows.lock();
            // Another lane may have been first.
            if pinned.get().is_none() {
                let pages = pin_all(&mut rows)?;
                let unmoved = Unmoved { bases: RowBases::new(&pages, width), _pages: pages };
                assert!(pinned.set(unmoved).is_ok(), "set under the lock only");
            }
        }
        Ok(Some((entries.slice(), &pinned.get().expect("pinned above").bases)))
    }

    /// Rows before page `page`; all rows where there is none.
    pub(crate) fn rows_until(&self, page: usize) -> usize {
        match &self.order {
            Order::Pages { starts, .. } => starts.get(page).copied().unwrap_or(self.len),
            Order::Entries { .. } => self.len,
        }
    }

    /// How many rows have smaller prefixes than `key`, at least and at most, as far as that is known without looking at them.
    pub(crate) fn rows_before(&self, key: u128) -> (usize, usize) {
        match &self.order {
            Order::Pages { firsts, .. } => {
                let page = firsts.partition_point(|&first| first < key);
                (self.rows_until(page.saturating_sub(1)).min(self.rows_until(page)), self.rows_until(page))
            }
            Order::Entries { entries, .. } => {
                let rows = entries.slice().partition_point(|&entry| entry < key);
                (rows, rows)
            }
        }
    }

    /// Prefixes of the first key of each page.
    pub(crate) fn firsts(&self) -> &[u128] {
        match &self.order {
            Order::Pages { firsts, .. } => firsts,
            Order::Entries { .. } => &[],
        }
    }

    /// Pins page `page`, and has the next one read.
    pub(crate) fn pin_page(&self, page: usize, memory: &Arc<BufferManager>) -> Result<PinnedRows, MemoryError> {
        let Order::Pages { pages, .. } = &self.order else {
            unreachable!("rows that did not move are pinned as a whole")
        };
        let pinned = pages[page].lock().pin_page(0)?;
        // A lane that has the next one locked is reading it.
        if let Some(next) = pages.get(page + 1).and_then(Mutex::try_lock) {
            memory.prefetch(next.pages_of(0));
        }
        Ok(pinned)
    }
}
