//! Sorting the rows of pinned pages without moving them: 16-byte entries, of which the upper 12 bytes are the first of the key and the
//! lower 4 say where the row is.
//!
//! An entry is one integer, so that most of the work is sorting integers without a branch. Entries that have equal prefixes are sorted again
//! (`ties`). Rows are numbered as they came, so equal rows keep their order.

use ogee_memory::{BufferManager, MemoryError, NonPaged, PAGE_SIZE};
use ogee_row::PinnedRows;
use std::sync::Arc;

use super::{CONSUMER, key::ENTRY_PREFIX, plan::SortPlan, ties::Ties};

/// Bits of a row's number on its page: rows have at least 16 bytes.
const ROW_BITS: u32 = 14;
/// Pages whose rows can be numbered: 64 GiB.
pub(crate) const PAGES_MAX: usize = 1 << (32 - ROW_BITS);
const _: () = assert!(PAGE_SIZE / 16 <= 1 << ROW_BITS);

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 16;

/// Where pinned pages are: from an entry to its row.
pub(crate) struct RowBases {
    pages: Vec<*const u8>,
    width: usize,
}

// SAFETY: addresses of pages that are pinned by whoever made this, which only reads them.
unsafe impl Send for RowBases {}
// SAFETY: as above.
unsafe impl Sync for RowBases {}

impl RowBases {
    pub(crate) fn new(pages: &[PinnedRows], width: usize) -> Self {
        let base = |page: &PinnedRows| if page.is_empty() { std::ptr::null() } else { page.row(0).cast_const() };
        Self { pages: pages.iter().map(base).collect(), width }
    }

    /// What an entry has in its lower bits for row `row` of page `page`.
    pub(crate) fn place(page: usize, row: usize) -> u32 {
        (page << ROW_BITS | row) as u32
    }

    /// The row of `entry`.
    #[inline(always)]
    pub(crate) fn row(&self, entry: u128) -> *const u8 {
        let id = entry as u32;
        let row = (id & ((1 << ROW_BITS) - 1)) as usize;
        self.pages[(id >> ROW_BITS) as usize].wrapping_add(row * self.width)
    }
}

/// Rows of some pages in the order of their keys.
pub(crate) struct Entries {
    memory: Option<NonPaged>,
    len: usize,
}

impl Entries {
    /// The rows of `pages`, sorted.
    ///
    /// # Errors
    /// When there is no memory for the entries.
    pub(crate) fn sorted(
        plan: &SortPlan,
        memory: &Arc<BufferManager>,
        pages: &[PinnedRows],
    ) -> Result<Self, MemoryError> {
        // SAFETY: rows of the plan's layout on pinned pages.
        let mut entries = Self::unsorted(memory, pages, |row| unsafe { plan.keys.prefix(row) })?;
        let bases = RowBases::new(pages, plan.layout.width());
        let slots = entries.slice_mut();
        slots.sort_unstable();
        if !plan.keys.fits_entry() {
            Ties::new(plan, &bases).refine(slots, 0, ENTRY_PREFIX);
        }
        Ok(entries)
    }

    /// The rows of `pages`, sorted, where keys begin with a hash of what is in their first `groups` bytes: entries have the hash and what comes
    /// after those bytes, so that hardly any row is compared but for a look at whether its hash is that of one group only.
    ///
    /// # Errors
    /// When there is no memory for the entries.
    pub(crate) fn sorted_in_groups(
        plan: &SortPlan,
        memory: &Arc<BufferManager>,
        pages: &[PinnedRows],
        groups: usize,
    ) -> Result<Self, MemoryError> {
        // SAFETY: rows of the plan's layout on pinned pages.
        let mut entries = Self::unsorted(memory, pages, |row| unsafe { plan.keys.hash_and_part(row, groups) })?;
        let bases = RowBases::new(pages, plan.layout.width());
        let slots = entries.slice_mut();
        slots.sort_unstable();
        let ties = Ties::new(plan, &bases);
        for group in slots.chunk_by_mut(|a, b| a >> 96 == b >> 96) {
            let first = bases.row(group[0]);
            // SAFETY: rows of pinned pages.
            let same = |&entry: &u128| unsafe { plan.keys.compare_until(first, bases.row(entry), groups) }.is_eq();
            if !group[1..].iter().all(same) {
                ties.compare_rows(group);
            } else if groups + 8 < plan.keys.len() || !plan.keys.is_plain() {
                ties.refine(group, groups, groups + 8);
            }
        }
        Ok(entries)
    }

    /// An entry for each row of `pages`, with what `prefix` says of it.
    fn unsorted(
        memory: &Arc<BufferManager>,
        pages: &[PinnedRows],
        prefix: impl Fn(*const u8) -> u128,
    ) -> Result<Self, MemoryError> {
        assert!(pages.len() <= PAGES_MAX);
        let len = pages.iter().map(PinnedRows::len).sum::<usize>();
        if len == 0 {
            return Ok(Self { memory: None, len });
        }
        let mut entries = Self { memory: Some(memory.allocate_non_paged(CONSUMER, len * ENTRY_BYTES)?), len };
        let mut slots = entries.slice_mut().iter_mut();
        for (page, rows) in pages.iter().enumerate() {
            for (row, slot) in (0..rows.len()).zip(&mut slots) {
                *slot = prefix(rows.row(row)) | (page << ROW_BITS | row) as u128;
            }
        }
        Ok(entries)
    }

    /// Leaves out those entries for which `wanted` does not hold, in order.
    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(u128) -> bool) {
        let slots = self.slice_mut();
        let mut kept = 0;
        for at in 0..slots.len() {
            let entry = slots[at];
            slots[kept] = entry;
            kept += usize::from(wanted(entry));
        }
        self.len = kept;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn slice(&self) -> &[u128] {
        // SAFETY: the memory has room for `len` entries, was zeroed when it was allocated, and is aligned to a page of the system.
        self.memory
            .as_ref()
            .map_or(&[], |memory| unsafe { std::slice::from_raw_parts(memory.as_ptr().cast(), self.len) })
    }

    fn slice_mut(&mut self) -> &mut [u128] {
        let len = self.len;
        // SAFETY: as for `slice`; nobody else has the memory.
        self.memory
            .as_mut()
            .map_or(&mut [], |memory| unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), len) })
    }
}
