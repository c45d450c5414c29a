//! The salted hash table of aggregation: 64-bit entries, linear probing (paper B, section on the hash table).
//!
//! An entry is empty (0) or holds 16 bits of salt, from the top of the hash, over a 48-bit reference. The salt is compared
//! before the key, so that a row is touched only when it very likely matches. References are addresses of rows, or, with
//! [`STAGED`] set, numbers of rows that are still staged: user-space addresses leave that bit free.

use std::sync::Arc;

use ogee_memory::{BufferManager, MemoryError, NonPaged};
use ogee_row::{RowLayout, RowStage, keys_equal};

/// Entries of the thread-local table of the first phase.
pub(crate) const LOCAL_ENTRIES: usize = 1 << 17;

const SALT: u64 = 0xffff << 48;
/// Bit 47 of a reference: the number of a staged row, not an address.
const STAGED: u64 = 1 << 47;
const REFERENCE: u64 = STAGED - 1;

/// A table of references to rows, without an own copy of the keys.
pub(crate) struct SaltedTable {
    entries: NonPaged,
    capacity: usize,
    mask: u64,
    len: usize,
}

impl SaltedTable {
    /// An empty table of `capacity` entries, a power of two.
    pub(crate) fn new(
        memory: &Arc<BufferManager>,
        consumer: &'static str,
        capacity: usize,
    ) -> Result<Self, MemoryError> {
        assert!(capacity.is_power_of_two(), "slots are chosen by a mask");
        let entries = memory.allocate_non_paged(consumer, capacity * 8)?;
        Ok(Self { entries, capacity, mask: capacity as u64 - 1, len: 0 })
    }

    /// Entries that the table's memory can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of groups in the table.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Addresses of the rows in the table, in no order; none is staged.
    pub(crate) fn rows(&mut self) -> impl Iterator<Item = *mut u8> {
        let entries = &self.entries.as_u64_slice_mut()[..=self.mask as usize];
        entries.iter().filter(|entry| **entry != 0).map(|entry| (entry & REFERENCE) as usize as *mut u8)
    }

    /// Empties the table and uses only its first `capacity` entries from now on.
    pub(crate) fn reset(&mut self, capacity: usize) {
        assert!(capacity.is_power_of_two() && capacity <= self.capacity, "within the table's memory");
        self.entries.as_u64_slice_mut()[..capacity].fill(0);
        self.mask = capacity as u64 - 1;
        self.len = 0;
    }

    /// Looks up staged rows `0 .. hashes.len()`. `found[r]` becomes the address of the row's group, or a reference to the first
    /// staged row of a new group; those rows are appended to `new`, with their slots in `slots`. The caller appends them to
    /// pages and calls [`settle`](Self::settle).
    ///
    /// # Safety
    /// All rows that the table refers to must be on pinned pages, and the table must have more empty entries than rows are looked up.
    pub(crate) unsafe fn find_or_claim(
        &mut self,
        layout: &RowLayout,
        stage: &RowStage,
        hashes: &[u64],
        found: &mut Vec<u64>,
        new: &mut Vec<u32>,
        slots: &mut Vec<u32>,
    ) {
        found.clear();
        new.clear();
        slots.clear();
        let mask = self.mask;
        let entries = &mut self.entries.as_u64_slice_mut()[..=mask as usize];
        for (row, &hash) in hashes.iter().enumerate() {
            let mut slot = hash & mask;
            let salt = hash & SALT;
            let reference = loop {
                // SAFETY: the slot was masked.
                let entry = unsafe { entries.get_unchecked_mut(slot as usize) };
                if *entry == 0 {
                    let reference = STAGED | row as u64;
                    *entry = salt | reference;
                    new.push(row as u32);
                    slots.push(slot as u32);
                    break reference;
                }
                if *entry & SALT == salt {
                    let reference = *entry & !SALT;
                    let candidate = if reference & STAGED != 0 {
                        stage.row((reference & REFERENCE) as usize)
                    } else {
                        reference as usize as *const u8
                    };
                    // SAFETY: staged rows and the rows of the table are readable, as the caller vouches.
                    if unsafe { keys_equal(layout, stage.row(row), candidate) } {
                        break reference;
                    }
                }
                slot = (slot + 1) & mask;
            };
            found.push(reference);
        }
        self.len += new.len();
    }

    /// Gives the groups claimed by the last lookup their rows' addresses, in the table and in `found`.
    pub(crate) fn settle(&mut self, new: &[u32], slots: &[u32], addresses: &[*mut u8], found: &mut [u64]) {
        assert!(new.len() == addresses.len() && slots.len() == new.len());
        if new.is_empty() {
            return;
        }
        let entries = self.entries.as_u64_slice_mut();
        for ((&row, &slot), &address) in new.iter().zip(slots).zip(addresses) {
            let entry = &mut entries[slot as usize];
            *entry = *entry & SALT | address as u64;
            // A group's first row refers to itself; the rows that follow it are resolved through it.
            found[row as usize] = address as u64;
        }
        for row in 0..found.len() {
            if found[row] & STAGED != 0 {
                found[row] = found[(found[row] & REFERENCE) as usize];
            }
        }
    }

    /// Points the entry of the group that staged row `row` belongs to, to `address`: the group was materialized once more.
    ///
    /// # Safety
    /// As [`find_or_claim`](Self::find_or_claim); no reference to a staged row may be left in the table.
    pub(crate) unsafe fn redirect(&mut self, layout: &RowLayout, row: *const u8, address: *mut u8) {
        // SAFETY: the caller vouches for the row.
        let hash = unsafe { layout.hash(row) };
        let salt = hash & SALT;
        let mut slot = hash & self.mask;
        let entries = self.entries.as_u64_slice_mut();
        loop {
            let entry = &mut entries[slot as usize];
            assert!(*entry != 0, "the group is in the table");
            // SAFETY: the caller vouches for the rows of the table.
            if *entry & SALT == salt && unsafe { keys_equal(layout, row, (*entry & REFERENCE) as usize as *const u8) } {
                *entry = salt | address as u64;
                return;
            }
            slot = (slot + 1) & self.mask;
        }
    }

    /// The group of `row`: an equal row seen before, or `row` itself, which then stands for it.
    ///
    /// # Safety
    /// `row` and all rows of the table must be on pinned pages; the table must have an empty entry.
    #[inline(always)]
    pub(crate) unsafe fn find_or_insert(&mut self, layout: &RowLayout, row: *mut u8) -> *mut u8 {
        // SAFETY: the caller vouches for the row.
        let hash = unsafe { layout.hash(row) };
        let salt = hash & SALT;
        let mask = self.mask;
        let entries = &mut self.entries.as_u64_slice_mut()[..=mask as usize];
        let mut slot = hash & mask;
        loop {
            // SAFETY: the slot was masked.
            let entry = unsafe { entries.get_unchecked_mut(slot as usize) };
            if *entry == 0 {
                *entry = salt | row as u64;
                self.len += 1;
                return row;
            }
            if *entry & SALT == salt {
                let candidate = (*entry & REFERENCE) as usize as *mut u8;
                // SAFETY: the caller vouches for both rows.
                if unsafe { keys_equal(layout, row, candidate) } {
                    return candidate;
                }
            }
            slot = (slot + 1) & mask;
        }
    }
}
