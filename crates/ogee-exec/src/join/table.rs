//! The table of a join: tagged pointers to chains of rows (SIGMOD 2014, section 4.2).
//!
//! A slot holds the address of the first row of a chain in 48 bits, and above it 16 bits of tag: one bit for each row of the chain, chosen by
//! its hash. A probe whose bit is not set has no mate and looks at no row. Rows know the next one of their chain. Slots are filled by
//! compare-and-swap; there are at least twice as many as rows.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ogee_memory::{BufferManager, MemoryError, NonPaged};
use ogee_row::row_hash;

use super::{CONSUMER, ranges::RangeTable};
use crate::keys::{slots_for, spread};

/// The bits of a slot that are an address.
const ADDRESS: u64 = (1 << 48) - 1;

/// The tag's bit for a hash: four of the bits that do not choose the slot.
#[inline(always)]
fn tag(hash: u64) -> u64 {
    1 << (48 + (hash >> 60))
}

/// Where the mates of probe rows are looked up.
#[derive(Clone, Copy)]
pub(crate) enum Mates<'a> {
    /// By the hash of the keys.
    Hashed(&'a TaggedTable),
    /// By comparisons.
    Sorted(&'a RangeTable),
}

/// The table.
pub(crate) struct TaggedTable {
    slots: NonPaged,
    mask: u64,
    /// Offset in a row of the address of the next one.
    next: usize,
}

impl TaggedTable {
    /// An empty table for `rows` rows.
    ///
    /// # Errors
    /// When memory runs out.
    pub(crate) fn new(memory: &Arc<BufferManager>, rows: usize, next: usize) -> Result<Self, MemoryError> {
        let slots = slots_for(rows);
        let memory = memory.allocate_non_paged(CONSUMER, slots * size_of::<u64>())?;
        Ok(Self { slots: memory, mask: slots as u64 - 1, next })
    }

    /// Puts a row at the head of its chain. Any number of threads may do so at once.
    ///
    /// # Safety
    /// `row` is a row of the join's layout, on a page that stays pinned as long as anybody looks into the table, and nobody else inserts it.
    #[inline(always)]
    pub(crate) unsafe fn insert(&self, row: *mut u8) {
        // SAFETY: the caller vouches for the row.
        let hash = spread(unsafe { row_hash(row) });
        let slot: &AtomicU64 = &self.slots.as_atomic_u64_slice()[(hash & self.mask) as usize];
        let mut head = slot.load(Ordering::Relaxed);
        loop {
            // SAFETY: the row has room for an address, and is not seen by others before the exchange below.
            unsafe { row.add(self.next).cast::<u64>().write_unaligned(head & ADDRESS) };
            let new = row as u64 | (head & !ADDRESS) | tag(hash);
            match slot.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// The first row of the chain that a row with this stored hash could be in, or null.
    #[inline(always)]
    pub(crate) fn first(&self, stored: u32) -> *const u8 {
        let hash = spread(stored);
        // Filling the table happened before: probes depend on the pipeline that did.
        let head = self.slots.as_atomic_u64_slice()[(hash & self.mask) as usize].load(Ordering::Relaxed);
        let hit = if head & tag(hash) != 0 { ADDRESS } else { 0 };
        (head & hit) as *const u8
    }

    /// The row behind `row`, or null.
    ///
    /// # Safety
    /// `row` is in the table.
    #[inline(always)]
    pub(crate) unsafe fn next(&self, row: *const u8) -> *const u8 {
        // SAFETY: the caller vouches for the row; `insert` has written the address.
        unsafe { row.add(self.next).cast::<u64>().read_unaligned() as *const u8 }
    }
}
