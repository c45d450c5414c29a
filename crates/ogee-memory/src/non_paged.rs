//! Memory of the pool that is not paged: arrays of hash tables. It may evict pages and is never evicted itself.
//!
//! It comes zeroed and is touched by its users, so that it lies where they run; it is charged in full from the start. From 2 MiB on
//! it is backed by huge pages unless the limit is small, or they are dear to touch and the user lets it be touched piece by piece.
//!
//! Not here: growth. A larger array is another one.
#![expect(unsafe_code, reason = "raw memory is given out as slices of integers")]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::PIECE_SIZE;
use crate::account::process_account;
use crate::backing::Access;
use crate::consumers::ConsumerId;
use crate::error::MemoryError;
use crate::frame::HUGE_PAGE_LIMIT;
use crate::mapping::{Backing, MAPPING_UNIT, Mapping};
use crate::pool::{Need, Pool};
use crate::statements::{self, Statement};

/// Zeroed memory, freed on drop.
#[derive(Debug)]
pub struct NonPaged {
    pool: Arc<Pool>,
    consumer: ConsumerId,
    /// The statement that holds it.
    owner: Option<Arc<Statement>>,
    /// Always there until `drop`, which must unmap before it lowers the charge.
    mapping: Option<Mapping>,
    start: NonNull<u8>,
    len: usize,
    /// It may have huge pages.
    huge: bool,
}

// SAFETY: plain memory with one owner; shared access is by atomics or through raw pointers, whose users see to exclusion.
unsafe impl Send for NonPaged {}
// SAFETY: as for `Send`.
unsafe impl Sync for NonPaged {}

impl NonPaged {
    pub(crate) fn new(pool: &Arc<Pool>, consumer: &'static str, bytes: usize) -> Result<Self, MemoryError> {
        assert!(bytes > 0, "memory of no bytes has no address");
        let charge = bytes.next_multiple_of(MAPPING_UNIT);
        let huge = charge >= PIECE_SIZE && pool.ledger.limit() >= HUGE_PAGE_LIMIT;
        let (align, backing) = if huge { (PIECE_SIZE, Backing::Huge) } else { (MAPPING_UNIT, Backing::Small) };
        let map = || -> io::Result<Option<Mapping>> {
            if !pool.ledger.try_charge(charge) {
                return Ok(None);
            }
            Mapping::new(charge, align, backing).map(Some).inspect_err(|_| pool.ledger.uncharge(charge))
        };
        let mapping = pool.acquire(consumer, Need::Bytes(charge), charge, map)?;
        let start = mapping.start();
        process_account().add_lazy(start, charge);
        pool.ledger.add_non_paged(charge);
        let consumer = pool.consumers.intern(consumer);
        pool.consumers.add(consumer, charge);
        let owner = statements::current();
        if let Some(owner) = &owner {
            owner.add_held(charge);
        }
        Ok(Self { pool: Arc::clone(pool), consumer, owner, mapping: Some(mapping), start, len: bytes, huge })
    }

    /// The first byte; aligned to 4 KiB.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// The first byte, for writing.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes asked for.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: memory of no bytes is not given out.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Pieces of 2 MiB, the last one perhaps smaller.
    pub fn num_pieces(&self) -> usize {
        self.len.div_ceil(PIECE_SIZE)
    }

    /// Touches a piece before its first use, of huge pages or of small ones, whichever have been cheaper to touch. What is in it stays, so others
    /// may use it meanwhile. Where that is not possible, its users touch it.
    ///
    /// # Panics
    /// If there is no such piece.
    pub fn touch(&self, piece: usize, access: Access) {
        assert!(piece < self.num_pieces(), "a piece of the memory");
        let mapping = self.mapping.as_ref().expect("there until `drop`");
        let start = piece * PIECE_SIZE;
        let bytes = (mapping.len() - start).min(PIECE_SIZE);
        let costs = self.pool.frames.costs();
        let backing = if self.huge { costs.choose(access) } else { Backing::Small };
        if self.huge && backing == Backing::Small {
            mapping.advise_part(start, bytes, backing);
        }
        let _ = costs.measured(backing, bytes, || mapping.populate_part(start, bytes));
    }

    /// The whole as 64-bit words; bytes beyond the last whole word are left out.
    #[inline]
    pub fn as_u64_slice_mut(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is initialized (zero), aligned to 4 KiB, at least `len` bytes long and lives as long as `self`,
        // which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 8) }
    }

    /// The whole as atomic 64-bit words, for several threads at once.
    #[inline]
    pub fn as_atomic_u64_slice(&self) -> &[AtomicU64] {
        // SAFETY: as for `as_u64_slice_mut`; through a shared reference the bytes are given out as atomics and as a raw pointer
        // only, whose users answer for plain accesses.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 8) }
    }
}

impl Drop for NonPaged {
    fn drop(&mut self) {
        process_account().remove_lazy(self.start);
        let mapping = self.mapping.take().expect("taken only here");
        let charge = mapping.len();
        drop(mapping);
        if let Some(owner) = &self.owner {
            owner.sub_held(charge);
        }
        self.pool.consumers.sub(self.consumer, charge);
        self.pool.ledger.sub_non_paged(charge);
        self.pool.ledger.uncharge(charge);
        self.pool.memory_freed();
    }
}
