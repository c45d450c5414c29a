//! The salted hash table of aggregation: 64-bit entries, linear probing (paper B, section on the hash table).
//!
//! An entry is empty (0) or holds 16 bits of salt, from the top of the hash, over a 48-bit reference. The salt is compared
//! before the key, so that a row is touched only when it very likely matches. References are addresses of rows, or, below
//! [`STAGED_END`], numbers of rows that are still staged, counted from 1. All 48 bits may be an address, as on 64-bit ARM; but rows
//! lie on frames, and no frame begins below its own size.
//!
//! Rows keep 32 bits of their hash, of which a partition's rows share the top ones; [`spread`] makes slot and salt of them, so that a table
//! can be made anew, or larger, from the rows alone.

use std::sync::Arc;

use ogee_memory::{BufferManager, MemoryError, NonPaged, PAGE_SIZE};
use ogee_row::{RadixBits, RowLayout, RowStage, keys_equal, row_hash};

use crate::keys::{KeyEqual, spread, with_key_equal};

/// Entries that the thread-local table of the first phase grows to in any case.
pub(crate) const LOCAL_ENTRIES: usize = 1 << 17;

const SALT: u64 = 0xffff << 48;
const REFERENCE: u64 = !SALT;
/// References below are numbers of staged rows: a frame begins at a multiple of its size, which is not zero.
const STAGED_END: u64 = PAGE_SIZE as u64;

/// Rows whose slots are read at once: the rows that they refer to stay in the first-level cache until they are compared.
const BLOCK_ROWS: usize = 256;

/// Asks for the cache line at `address`, which may be any.
#[inline(always)]
fn prefetch(address: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address as *const i8);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A table of references to rows, without an own copy of the keys.
pub(crate) struct SaltedTable {
    entries: NonPaged,
    capacity: usize,
    mask: u64,
    len: usize,
}

/// What a lookup found; buffers that are reused.
#[derive(Default)]
pub(crate) struct Found {
    /// Address of each row's group.
    pub(crate) groups: Vec<u64>,
    /// Rows that are the first of a new group, and their slots.
    pub(crate) new: Vec<u32>,
    pub(crate) slots: Vec<u32>,
}

impl Found {
    /// Empty, with room for `rows` rows.
    pub(crate) fn clear(&mut self) {
        self.groups.clear();
        self.new.clear();
        self.slots.clear();
    }

    /// Notes `row` as the first of a new group at `slot`; its reference until it has an address.
    #[inline(always)]
    pub(crate) fn claim(&mut self, row: usize, slot: usize) -> u64 {
        self.new.push(row as u32);
        self.slots.push(slot as u32);
        row as u64 + 1
    }

    /// The staged row that `group` refers to, if it has no address yet.
    pub(crate) fn staged(group: u64) -> Option<usize> {
        (group < STAGED_END).then(|| group as usize - 1)
    }

    /// Gives new groups the addresses of their rows, which are written to `entries` by `write(slot, address)`.
    pub(crate) fn settle(&mut self, addresses: &[*mut u8], mut write: impl FnMut(usize, u64)) {
        assert!(self.new.len() == addresses.len() && self.slots.len() == self.new.len());
        if self.new.is_empty() {
            return;
        }
        assert!((self.groups.len() as u64) < STAGED_END, "no number of a staged row is taken for an address");
        for ((&row, &slot), &address) in self.new.iter().zip(&self.slots).zip(addresses) {
            write(slot as usize, address as u64);
            // A group's first row refers to itself; the rows that follow it are resolved through it.
            self.groups[row as usize] = address as u64;
        }
        for row in 0..self.groups.len() {
            if let Some(first) = Self::staged(self.groups[row]) {
                self.groups[row] = self.groups[first];
            }
        }
    }
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

    /// Entries in use, empty or not.
    pub(crate) fn entries(&self) -> usize {
        self.mask as usize + 1
    }

    /// The same groups in a table of `capacity` entries.
    ///
    /// # Safety
    /// All rows that the table refers to must be on pinned pages, and fewer than `capacity`.
    pub(crate) unsafe fn grown(
        &mut self,
        memory: &Arc<BufferManager>,
        consumer: &'static str,
        capacity: usize,
    ) -> Result<Self, MemoryError> {
        let mut larger = Self::new(memory, consumer, capacity)?;
        larger.reset(capacity);
        let entries = larger.entries.as_u64_slice_mut();
        let mut next = 0;
        while let Some((row, after)) = self.next_row(next) {
            next = after;
            // SAFETY: the caller vouches for the rows.
            let hash = spread(unsafe { row_hash(row) });
            let mut slot = hash & larger.mask;
            while entries[slot as usize] != 0 {
                slot = (slot + 1) & larger.mask;
            }
            entries[slot as usize] = hash & SALT | row as u64;
        }
        larger.len = self.len;
        Ok(larger)
    }

    /// Address of the row that the entry at or after `slot` refers to, and the slot after that. No row may be staged.
    pub(crate) fn next_row(&mut self, slot: usize) -> Option<(*mut u8, usize)> {
        let entries = &self.entries.as_u64_slice_mut()[..=self.mask as usize];
        let at = slot + entries.get(slot..)?.iter().position(|entry| *entry != 0)?;
        Some(((entries[at] & REFERENCE) as usize as *mut u8, at + 1))
    }

    /// Empties the table and uses only its first `capacity` entries from now on.
    pub(crate) fn reset(&mut self, capacity: usize) {
        assert!(capacity.is_power_of_two() && capacity <= self.capacity, "within the table's memory");
        self.entries.as_u64_slice_mut()[..capacity].fill(0);
        self.mask = capacity as u64 - 1;
        self.len = 0;
    }

    /// Looks up staged rows `0 .. hashes.len()`. `found.groups[r]` becomes the address of the row's group, or a reference to the first
    /// staged row of a new group; those rows are in `found.new`. The caller appends them to pages and calls
    /// [`settle`](Self::settle).
    ///
    /// # Safety
    /// All rows that the table refers to must be on pinned pages, and the table must have more empty entries than rows are looked up.
    pub(crate) unsafe fn find_or_claim(
        &mut self,
        layout: &RowLayout,
        stage: &RowStage,
        hashes: &[u64],
        found: &mut Found,
    ) {
        // SAFETY: the caller vouches for rows and room.
        with_key_equal!(layout, equal => unsafe { self.find_or_claim_by(equal, stage, hashes, found) });
    }

    /// In blocks of rows: first the entry of each row is found by its salt, and the group's row is prefetched, so that cache misses overlap;
    /// then keys are compared.
    unsafe fn find_or_claim_by(&mut self, equal: impl KeyEqual, stage: &RowStage, hashes: &[u64], found: &mut Found) {
        assert!((hashes.len() as u64) < STAGED_END, "numbers of staged rows are less than any address of a row");
        found.clear();
        let mask = self.mask;
        let entries = &mut self.entries.as_u64_slice_mut()[..=mask as usize];
        let mut last: Option<(*const u8, u64)> = None;
        let mut slots = [(0_u64, 0_u64); BLOCK_ROWS];
        for (block, hashes) in hashes.chunks(BLOCK_ROWS).enumerate() {
            for (place, &hash) in slots.iter_mut().zip(hashes) {
                let hash = spread(RadixBits::stored_hash(hash));
                let salt = hash & SALT;
                let mut slot = hash & mask;
                loop {
                    // SAFETY: the slot was masked.
                    let entry = unsafe { *entries.get_unchecked(slot as usize) };
                    if entry == 0 || entry & SALT == salt {
                        prefetch(entry & REFERENCE);
                        break;
                    }
                    slot = (slot + 1) & mask;
                }
                *place = (slot, salt);
            }
            for (row, &(mut slot, salt)) in slots[..hashes.len()].iter().enumerate() {
                let row = block * BLOCK_ROWS + row;
                let key = stage.row(row);
                // Clustered keys: rows of one group come together, and are looked up once.
                if let Some((last, reference)) = last
                    // SAFETY: both rows are staged.
                    && unsafe { equal.equal(last, key) }
                {
                    found.groups.push(reference);
                    continue;
                }
                let reference = loop {
                    // SAFETY: the slot was masked.
                    let entry = unsafe { entries.get_unchecked_mut(slot as usize) };
                    if *entry == 0 {
                        let reference = found.claim(row, slot as usize);
                        *entry = salt | reference;
                        break reference;
                    }
                    if *entry & SALT == salt {
                        let reference = *entry & REFERENCE;
                        let candidate = match Found::staged(reference) {
                            Some(first) => stage.row(first),
                            None => reference as usize as *const u8,
                        };
                        // SAFETY: staged rows and the rows of the table are readable, as the caller vouches.
                        if unsafe { equal.equal(key, candidate) } {
                            break reference;
                        }
                    }
                    slot = (slot + 1) & mask;
                };
                last = Some((key, reference));
                found.groups.push(reference);
            }
        }
        self.len += found.new.len();
    }

    /// Gives the groups claimed by the last lookup their rows' addresses, in the table and in `found`.
    pub(crate) fn settle(&mut self, found: &mut Found, addresses: &[*mut u8]) {
        let entries = self.entries.as_u64_slice_mut();
        found.settle(addresses, |slot, address| {
            let entry = &mut entries[slot];
            *entry = *entry & SALT | address;
        });
    }

    /// Points the entry of the group that `row` belongs to, to `address`: the group was materialized once more.
    ///
    /// # Safety
    /// As [`find_or_claim`](Self::find_or_claim); no reference to a staged row may be left in the table.
    pub(crate) unsafe fn redirect(&mut self, layout: &RowLayout, row: *const u8, address: *mut u8) {
        // SAFETY: the caller vouches for the rows.
        let entry = unsafe { self.entry(layout, row) };
        *entry = *entry & SALT | address as u64;
    }

    unsafe fn entry(&mut self, layout: &RowLayout, row: *const u8) -> &mut u64 {
        // SAFETY: the caller vouches for the row.
        let hash = spread(unsafe { row_hash(row) });
        let mask = self.mask;
        let entries = &mut self.entries.as_u64_slice_mut()[..=mask as usize];
        let mut slot = hash & mask;
        loop {
            let entry = entries[slot as usize];
            assert!(entry != 0, "the group is in the table");
            if entry & SALT == hash & SALT
                // SAFETY: the caller vouches for the rows of the table.
                && unsafe { keys_equal(layout, row, (entry & REFERENCE) as usize as *const u8) }
            {
                return &mut entries[slot as usize];
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The group of `row`: an equal row seen before, or `row` itself, which then stands for it.
    ///
    /// # Safety
    /// `row` and all rows of the table must be on pinned pages and of the layout that `equal` is for; the table must have an empty
    /// entry.
    #[inline(always)]
    pub(crate) unsafe fn find_or_insert(&mut self, equal: impl KeyEqual, row: *mut u8) -> *mut u8 {
        // SAFETY: the caller vouches for the row.
        let hash = spread(unsafe { row_hash(row) });
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
                if unsafe { equal.equal(row, candidate) } {
                    return candidate;
                }
            }
            slot = (slot + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_every_bit_of_a_reference() {
        let mut found = Found::default();
        for bits in 18..48 {
            let address = 1_u64 << bits;
            found.clear();
            // A group of the table, two new ones, and a row that follows the second.
            found.groups.push(address);
            for (row, slot) in [(1, 7), (2, 9)] {
                let reference = found.claim(row, slot);
                assert_eq!(Found::staged(reference), Some(row));
                found.groups.push(reference);
            }
            found.groups.push(found.groups[2]);
            assert_eq!(Found::staged(address), None, "bit {bits}");
            let rows = [address | 8, (1 << 48) - 8];
            let mut written = Vec::new();
            found.settle(&rows.map(|row| row as usize as *mut u8), |slot, row| written.push((slot, row)));
            assert_eq!(written, [(7, rows[0]), (9, rows[1])]);
            assert_eq!(found.groups, [address, rows[0], rows[1], rows[1]], "bit {bits}");
        }
    }
}
