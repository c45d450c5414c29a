//! Sorted runs: rows in order on pages of their own, which spill, or rows where they are and their order.

use std::sync::{Arc, OnceLock};

use ogee_memory::{BufferManager, MemoryError, PAGE_SIZE};
use ogee_row::{PartitionedRows, PinnedRows, RadixBits, RowPartition};
use parking_lot::Mutex;

use super::{
    CONSUMER, Cancelled,
    bound::{Bound, Sample},
    entries::{ENTRY_BYTES, Entries, RowBases},
    key::KeyCopy,
    merge::{Merge, partition_point},
    plan::SortPlan,
};
use crate::{ExecError, cancel::pin_all};

/// Rows that are moved between two looks at cancellation.
const BATCH_ROWS: usize = 2048;

/// Bytes of the copy of a page's first row, at most: a sixty-fourth of the page.
const FIRST_BYTES_MAX: usize = PAGE_SIZE / 64;

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
        /// The first row of each page, where the prefix is not all of its key and it is not too large: to find rows without reading pages.
        copies: Vec<Option<KeyCopy>>,
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

/// Appends rows in order.
pub(crate) struct RunWriter<'a> {
    plan: &'a SortPlan,
    rows: PartitionedRows,
    firsts: Vec<u128>,
    starts: Vec<usize>,
    copies: Vec<Option<KeyCopy>>,
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
            copies: Vec::new(),
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
                self.copies.push(match self.plan.keys.fits_entry() {
                    true => None,
                    // SAFETY: as above.
                    false => unsafe { self.plan.keys.copy(row, width, FIRST_BYTES_MAX) },
                });
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
        let order = Order::Pages { pages, firsts: self.firsts, starts: self.starts, copies: self.copies, page_bytes };
        Run { order, len }
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
    let pages = pin_all(&mut rows, cancelled)?;
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
        cancelled: Cancelled<'_>,
    ) -> Result<Self, ExecError> {
        let mut rows = only_partition(rows);
        let entries = Entries::sorted(plan, memory, &pin_all(&mut rows, cancelled)?)?;
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
        cancelled: Cancelled<'_>,
    ) -> Result<Self, ExecError> {
        let pages = pin_all(&mut rows, cancelled)?;
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

    /// Some rows of this run, which is number `run`, in order, with how many each stands for: for choosing where to cut. Of rows that did not move, each
    /// `step`th.
    pub(crate) fn samples(&self, plan: &SortPlan, run: usize, step: usize, samples: &mut Vec<Sample>) {
        match &self.order {
            Order::Pages { firsts, starts, copies, .. } => {
                for (page, (&prefix, &row)) in firsts.iter().zip(starts).enumerate() {
                    let (stands_for, address) =
                        (self.rows_until(page + 1) - row, copies[page].as_ref().map(KeyCopy::row));
                    // A page of which only a part of the first key is known goes with the one before it, where that begins alike.
                    let unknown = address.is_none() && !plan.keys.fits_entry();
                    match samples.last_mut() {
                        Some(last) if page > 0 && unknown && last.prefix == prefix => {
                            last.stands_for += stands_for;
                        }
                        _ => samples.push(Sample { prefix, run, row, stands_for, address }),
                    }
                }
            }
            Order::Entries { entries, pinned, .. } => {
                let bases = pinned.get().map(|unmoved| &unmoved.bases);
                let entries = entries.slice().iter().enumerate().step_by(step);
                samples.extend(entries.map(|(row, &entry)| Sample {
                    prefix: entry >> 32 << 32,
                    run,
                    row,
                    stands_for: step.min(self.len - row),
                    address: bases.map(|bases| bases.row(entry)),
                }));
            }
        }
    }

    /// Row number `row`, if it is there without reading a page: pinned, or as a copy to compare with.
    pub(crate) fn known_row(&self, row: usize) -> Option<*const u8> {
        match &self.order {
            Order::Pages { starts, copies, .. } => {
                let page = starts.binary_search(&row).ok()?;
                copies[page].as_ref().map(KeyCopy::row)
            }
            Order::Entries { entries, pinned, .. } => {
                pinned.get().map(|unmoved| unmoved.bases.row(entries.slice()[row]))
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
                let pages = (0..rows.num_pages()).map(|page| rows.pin_page(page)).collect::<Result<Vec<_>, _>>()?;
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

    /// How many rows of this run, number `run` of `runs`, come before `bound`, at least and at most, as far as that is known without reading a page.
    pub(crate) fn rows_before(&self, plan: &SortPlan, runs: &[Self], run: usize, bound: Bound) -> (usize, usize) {
        if let Bound::Row { run: of, row, .. } = bound
            && of == run
        {
            return (row, row);
        }
        // Where a row is not known, all that begins like the bound may come before it, or after.
        match &self.order {
            Order::Pages { firsts, copies, .. } => {
                let page_where = |unknown: bool| {
                    partition_point(firsts.len(), |page| {
                        let address = copies[page].as_ref().map(KeyCopy::row);
                        // SAFETY: the copy is of a row of the plan's.
                        unsafe { bound.is_after(plan, runs, run, firsts[page], address) }.unwrap_or(unknown)
                    })
                };
                let (least, most) = (page_where(false), page_where(true));
                (self.rows_until(least.saturating_sub(1)).min(self.rows_until(least)), self.rows_until(most))
            }
            Order::Entries { entries, pinned, .. } => {
                let bases = pinned.get().map(|unmoved| &unmoved.bases);
                let rows_where = |unknown: bool| {
                    entries.slice().partition_point(|&entry| {
                        let address = bases.map(|bases| bases.row(entry));
                        // SAFETY: the row is pinned.
                        unsafe { bound.is_after(plan, runs, run, entry >> 32 << 32, address) }.unwrap_or(unknown)
                    })
                };
                (rows_where(false), rows_where(true))
            }
        }
    }

    /// The first page, of this run, number `run` of `runs`, that begins with a row that does not come before `bound`. Pages are pinned only if their first
    /// rows must be looked at and were too large to be copied.
    pub(crate) fn page_from(
        &self,
        plan: &SortPlan,
        runs: &[Self],
        run: usize,
        bound: Bound,
    ) -> Result<usize, MemoryError> {
        let Order::Pages { pages, firsts, starts, copies, .. } = &self.order else { return Ok(0) };
        if let Bound::Row { run: of, row, .. } = bound
            && of == run
        {
            return Ok(starts.partition_point(|&start| start < row));
        }
        let (mut low, mut high) = (0, firsts.len());
        while low < high {
            let middle = (low + high) / 2;
            let copy = copies[middle].as_ref().map(KeyCopy::row);
            // SAFETY: the copy is of a row of the plan's.
            let before = match unsafe { bound.is_after(plan, runs, run, firsts[middle], copy) } {
                Some(before) => before,
                None => {
                    let page = pages[middle].lock().pin_page(0)?;
                    // SAFETY: the row is pinned.
                    let before =
                        unsafe { bound.is_after(plan, runs, run, firsts[middle], Some(page.row(0).cast_const())) };
                    before.expect("the row is there")
                }
            };
            if before { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Number of pages, where rows are in order on these.
    pub(crate) fn num_pages(&self) -> usize {
        match &self.order {
            Order::Pages { pages, .. } => pages.len(),
            Order::Entries { .. } => 0,
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
