//! Sorting the rows of pinned pages without moving them: 16-byte entries, of which the upper 12 bytes are the first of the key and the
//! lower 4 say where the row is.
//!
//! An entry is one integer, so that most of the work is sorting integers without a branch. Entries that have equal prefixes are sorted again by
//! the next 12 bytes of their keys, and so on; what strings decide is left to comparisons of rows. Rows are numbered as they came, so equal rows
//! keep their order.

use ogee_memory::{BufferManager, MemoryError, NonPaged, PAGE_SIZE};
use ogee_row::PinnedRows;
use std::sync::Arc;

use super::{CONSUMER, key::ENTRY_PREFIX, plan::SortPlan};

/// Bits of a row's number on its page: rows have at least 16 bytes.
const ROW_BITS: u32 = 14;
/// Pages whose rows can be numbered: 64 GiB.
pub(crate) const PAGES_MAX: usize = 1 << (32 - ROW_BITS);
const _: () = assert!(PAGE_SIZE / 16 <= 1 << ROW_BITS);

/// Groups smaller than this are compared row by row at once.
const SMALL: usize = 12;

/// How often a group is sorted again by what comes next in its strings, before they are compared as a whole: a bound for the stack.
const STRING_LEVELS_MAX: usize = 64;

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
            Ties { plan, bases: &bases }.refine(slots, ENTRY_PREFIX);
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
        let ties = Ties { plan, bases: &bases };
        for group in slots.chunk_by_mut(|a, b| a >> 96 == b >> 96) {
            let first = bases.row(group[0]);
            // SAFETY: rows of pinned pages.
            let same = |&entry: &u128| unsafe { plan.keys.compare_until(first, bases.row(entry), groups) }.is_eq();
            if !group[1..].iter().all(same) {
                ties.compare_rows(group);
            } else if groups + 8 < plan.keys.len() || !plan.keys.is_plain() {
                ties.refine(group, groups + 8);
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

/// Sorts what prefixes left open.
struct Ties<'a> {
    plan: &'a SortPlan,
    bases: &'a RowBases,
}

impl Ties<'_> {
    /// Sorts each group of entries with equal prefixes by what comes from byte `depth` of the keys on.
    fn refine(&self, entries: &mut [u128], depth: usize) {
        for group in entries.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
            if group.len() > 1 {
                self.resolve(group, depth);
            }
        }
    }

    /// Sorts entries by comparing their rows.
    fn compare_rows(&self, entries: &mut [u128]) {
        entries.sort_unstable_by(|&a, &b| {
            // SAFETY: rows of pinned pages.
            let order = unsafe { self.plan.keys.compare(self.bases.row(a), self.bases.row(b)) };
            order.then_with(|| (a as u32).cmp(&(b as u32)))
        });
    }

    fn resolve(&self, group: &mut [u128], depth: usize) {
        let plain = self.plan.keys.plain_bytes();
        if group.len() >= SMALL
            && (plain..plain + STRING_LEVELS_MAX).contains(&depth)
            && let Some(descending) = self.plan.keys.first_string()
            && self.resolve_strings(group, descending, depth + 1)
        {
            return;
        }
        if group.len() < SMALL || depth >= plain {
            self.compare_rows(group);
            return;
        }
        let prefix = group[0] >> 32 << 32;
        for entry in group.iter_mut() {
            // SAFETY: a row of a pinned page.
            let part = unsafe { self.plan.keys.part(self.bases.row(*entry), depth, plain) };
            *entry = part | u128::from(*entry as u32);
        }
        group.sort_unstable();
        if depth + ENTRY_PREFIX < plain || !self.plan.keys.is_plain() {
            self.refine(group, depth + ENTRY_PREFIX);
        }
        group.iter_mut().for_each(|entry| *entry = prefix | u128::from(*entry as u32));
    }

    /// Sorts a group whose keys are equal up to a string by what comes after the beginning that all of its strings share. False: one of them ends
    /// there, or they are NULL.
    fn resolve_strings(&self, group: &mut [u128], descending: bool, depth: usize) -> bool {
        // SAFETY: rows of pinned pages, as long as the group is being sorted.
        let string = |entry: u128| unsafe { self.plan.keys.string(self.bases.row(entry)) };
        let Some(first) = string(group[0]) else { return false };
        let mut shared = first.len();
        let mut shortest = first.len();
        for &entry in &group[1..] {
            let other = string(entry).unwrap_or_default();
            shortest = shortest.min(other.len());
            shared = first.iter().zip(other).take(shared).take_while(|(a, b)| a == b).count();
        }
        if shortest <= shared {
            return false;
        }
        let prefix = group[0] >> 32 << 32;
        for entry in group.iter_mut() {
            let rest = &string(*entry).unwrap_or_default()[shared..];
            let mut bytes = [0_u8; 16];
            let len = rest.len().min(ENTRY_PREFIX);
            bytes[..len].copy_from_slice(&rest[..len]);
            let part = u128::from_be_bytes(bytes);
            // The last four bytes stay free for the place.
            let part = if descending { !part >> 32 << 32 } else { part };
            *entry = part | u128::from(*entry as u32);
        }
        group.sort_unstable();
        // Those that are still equal share more, and are fewer.
        self.refine(group, depth);
        group.iter_mut().for_each(|entry| *entry = prefix | u128::from(*entry as u32));
        true
    }
}
