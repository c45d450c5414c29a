//! The table of a join: tagged pointers to chains of rows (SIGMOD 2014, section 4.2).
//!
//! A slot holds the address of the first row of a chain in 48 bits, and above it 16 bits of tag: one bit for each row of the chain, chosen by
//! its hash. A probe whose bit is not set has no mate and looks at no row. Rows know the next one of their chain, and the tags of all behind them:
//! who has found its only mate looks at no other row. Slots are filled by compare-and-swap; there are at least twice as many as rows.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ogee_memory::{BufferManager, MemoryError, NonPaged};
use ogee_row::{HeapBuffers, row_hash};

use super::{CONSUMER, ranges::RangeTable};
use crate::keys::{slots_for, spread};

/// The bits of a slot that are an address.
const ADDRESS: u64 = (1 << 48) - 1;

/// The tag's bit for a hash: four of the bits that do not choose the slot.
#[inline(always)]
fn tag(hash: u64) -> u64 {
    1 << (48 + (hash >> 60))
}

/// Rows among which the mates of probe rows are looked up.
#[derive(Clone, Copy)]
pub(crate) struct Mates<'a> {
    pub(crate) lookup: Lookup<'a>,
    /// Where their strings are, if arrays may refer to them.
    pub(crate) heap: Option<&'a HeapBuffers>,
}

/// How they are looked up.
#[derive(Clone, Copy)]
pub(crate) enum Lookup<'a> {
    /// By the hash of the keys.
    Hashed(&'a TaggedTable),
    /// By comparisons.
    Sorted(&'a RangeTable),
}

/// The table.
pub(crate) struct TaggedTable {
    slots: NonPaged,
    mask: u64,
    /// Offset in a row of the address and the tags of those behind it.
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
            // SAFETY: the row has room for what a slot holds, and is not seen by others before the exchange below.
            unsafe { row.add(self.next).cast::<u64>().write_unaligned(head) };
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
        candidate(head, tag(hash))
    }

    /// Fetches the slot that [`first`](Self::first) will look at.
    #[inline(always)]
    pub(crate) fn prefetch_first(&self, stored: u32) {
        let slot = (spread(stored) & self.mask) as usize;
        prefetch(self.slots.as_ptr().wrapping_add(slot * size_of::<u64>()));
    }

    /// The next row behind `row` that a row with this stored hash could be equal to, or null.
    ///
    /// # Safety
    /// `row` is in the table.
    #[inline(always)]
    pub(crate) unsafe fn next(&self, row: *const u8, stored: u32) -> *const u8 {
        // SAFETY: the caller vouches for the row; `insert` has written what was in the slot.
        let behind = unsafe { row.add(self.next).cast::<u64>().read_unaligned() };
        candidate(behind, tag(spread(stored)))
    }

    /// Fetches what a comparison with `row` and [`next`](Self::next) will look at.
    #[inline(always)]
    pub(crate) fn prefetch_row(&self, row: *const u8) {
        prefetch(row);
        prefetch(row.wrapping_add(self.next));
    }
}

/// The row that a slot, or a row before it, names, if some row from there on has the tag.
#[inline(always)]
fn candidate(slot: u64, tag: u64) -> *const u8 {
    let hit = if slot & tag != 0 { ADDRESS } else { 0 };
    (slot & hit) as *const u8
}

#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which may name any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
