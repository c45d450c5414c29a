//! How the first phase finds the group of a row.

use std::sync::Arc;

use ogee_memory::{BufferManager, MemoryError, NonPaged};
use ogee_row::{RowLayout, RowStage};

use super::table::{Found, LOCAL_ENTRIES, SaltedTable};

/// Lookups must leave empty entries: the table is reset at two thirds.
const RESET_LEN: usize = LOCAL_ENTRIES / 3 * 2;

/// Bytes of stored keys, validity included, that address a group directly.
const PERFECT_BYTES: usize = 2;

/// Where a lane looks rows up.
pub(crate) enum Lookup {
    /// By hash, in the thread-local table of paper B.
    Salted(SaltedTable),
    /// By the stored keys themselves: perfect aggregation of a small domain, no hash at all.
    Perfect(PerfectTable),
}

/// Groups by the bytes of their stored keys.
pub(crate) struct PerfectTable {
    /// Address of each group's row; 0: there is none.
    groups: NonPaged,
    /// Where in the row the keys are.
    offset: usize,
    bytes: usize,
    len: usize,
}

impl Lookup {
    /// An empty table for rows of `layout`: a perfect one if `may_be_perfect` and the keys are few bytes.
    pub(crate) fn new(
        layout: &RowLayout,
        memory: &Arc<BufferManager>,
        consumer: &'static str,
        may_be_perfect: bool,
    ) -> Result<Self, MemoryError> {
        Ok(match layout.key_bytes().filter(|keys| may_be_perfect && keys.len() <= PERFECT_BYTES) {
            Some(keys) => {
                let bytes = keys.len();
                let mut groups = memory.allocate_non_paged(consumer, 8 << (8 * bytes))?;
                groups.as_u64_slice_mut().fill(0);
                Self::Perfect(PerfectTable { groups, offset: keys.start, bytes, len: 0 })
            }
            None => Self::Salted(SaltedTable::new(memory, consumer, LOCAL_ENTRIES)?),
        })
    }

    /// Groups found so far.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Salted(table) => table.len(),
            Self::Perfect(table) => table.len,
        }
    }

    /// Whether `rows` rows may be looked up before the next reset.
    pub(crate) fn has_room_for(&self, rows: usize) -> bool {
        match self {
            Self::Salted(table) => table.len() + rows <= RESET_LEN,
            Self::Perfect(_) => true,
        }
    }

    /// Forgets all groups.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::Salted(table) => table.reset(LOCAL_ENTRIES),
            Self::Perfect(table) => {
                table.groups.as_u64_slice_mut().fill(0);
                table.len = 0;
            }
        }
    }

    /// Gives the groups claimed by the last lookup their rows' addresses.
    pub(crate) fn settle(&mut self, found: &mut Found, addresses: &[*mut u8]) {
        match self {
            Self::Salted(table) => table.settle(found, addresses),
            Self::Perfect(table) => {
                let groups = table.groups.as_u64_slice_mut();
                found.settle(addresses, |slot, address| groups[slot] = address);
            }
        }
    }

    /// Points the group of staged row `row`, of hash `hash`, to `address`: it was materialized once more.
    ///
    /// # Safety
    /// As [`SaltedTable::redirect`].
    pub(crate) unsafe fn redirect(&mut self, layout: &RowLayout, row: *const u8, hash: u64, address: *mut u8) {
        match self {
            // SAFETY: the caller vouches for the rows.
            Self::Salted(table) => unsafe { table.redirect(layout, row, hash, address) },
            Self::Perfect(table) => {
                // SAFETY: the caller vouches for the row.
                let slot = unsafe { table.slot(row) };
                table.groups.as_u64_slice_mut()[slot] = address as u64;
            }
        }
    }
}

impl PerfectTable {
    /// Slot of the group of `row`.
    ///
    /// # Safety
    /// `row` is a row of the table's layout.
    #[inline(always)]
    unsafe fn slot(&self, row: *const u8) -> usize {
        // SAFETY: the keys lie within the row, and two bytes can be read from where they begin: rows are multiples of 8.
        unsafe {
            match self.bytes {
                1 => usize::from(*row.add(self.offset)),
                2 => usize::from(row.add(self.offset).cast::<u16>().read_unaligned()),
                _ => 0,
            }
        }
    }

    /// Looks up staged rows `0 .. rows`, as [`SaltedTable::find_or_claim`] does.
    pub(crate) fn find_or_claim(&mut self, stage: &RowStage, rows: usize, found: &mut Found) {
        found.clear();
        for row in 0..rows {
            // SAFETY: the row is staged.
            let slot = unsafe { self.slot(stage.row(row)) };
            let group = &mut self.groups.as_u64_slice_mut()[slot];
            if *group == 0 {
                *group = found.claim(row, slot);
            }
            found.groups.push(*group);
        }
        self.len += found.new.len();
    }
}
