//! Pages by number: what is kept about each of them is memory too, and is promised.
//!
//! A page of 256 KiB takes [`PAGE_RECORD_BYTES`] of the heap wherever it is: 1.3 GB for a terabyte that was spilled. They are reserved for
//! [`BLOCK_PAGES`] pages at a time, so that making a page costs one addition; the pages beyond the last whole block, with which every small
//! pool begins, are not.
//!
//! 1. `blocks` are reserved, or being reserved by one thread: at least those of the pages that have been counted, but for what other threads
//!    count meanwhile.
//!
//! Not here: the records. The heap that they are on is seen by the process account, which does not count them twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::MemoryError;
use crate::page::{OwnedPage, Page};
use crate::pool::{Need, Pool};
use crate::reservation::Booked;

/// Bytes of the heap for a page: the page and its state, what its handles share, its entries in a partition, a segment and the eviction queue, its
/// slot, and what the allocator adds to each.
pub(crate) const PAGE_RECORD_BYTES: usize = 320;

/// Reference counts of two allocations, and twice 64 bytes for entries elsewhere.
const _: () = assert!(size_of::<Page>() + size_of::<OwnedPage>() + 2 * 16 + 128 <= PAGE_RECORD_BYTES);

/// Pages whose records are reserved together: 256 MiB of pages.
const BLOCK_PAGES: usize = 1024;
const BLOCK_BYTES: usize = BLOCK_PAGES * PAGE_RECORD_BYTES;

/// Who holds them.
const CONSUMER: &str = "records of pages";

/// The pages of a pool.
#[derive(Debug, Default)]
pub(crate) struct PageCount {
    pages: AtomicUsize,
    blocks: AtomicUsize,
}

/// A page that is counted, and not made yet: it is not counted any more if this is dropped.
pub(crate) struct Counted<'a>(&'a Pool);

impl Counted<'_> {
    /// The page is made, and counted until it is destroyed.
    pub(crate) fn made(self) {
        std::mem::forget(self);
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.uncount_page();
    }
}

impl Pool {
    /// Counts a page that is to be made.
    ///
    /// # Errors
    /// Out of memory for the records of pages.
    pub(crate) fn count_page(&self) -> Result<Counted<'_>, MemoryError> {
        let pages = self.page_count.pages.fetch_add(1, Ordering::Relaxed) + 1;
        let counted = Counted(self);
        if pages / BLOCK_PAGES > self.page_count.blocks.load(Ordering::Relaxed) {
            self.reserve_block()?;
        }
        Ok(counted)
    }

    #[cold]
    fn reserve_block(&self) -> Result<(), MemoryError> {
        let PageCount { pages, blocks } = &self.page_count;
        let before = blocks.load(Ordering::Relaxed);
        if pages.load(Ordering::Relaxed) / BLOCK_PAGES <= before
            || blocks.compare_exchange(before, before + 1, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            // Another thread does.
            return Ok(());
        }
        /// Taken back on an error and on unwinding.
        struct Begun<'a>(&'a AtomicUsize);
        impl Drop for Begun<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let begun = Begun(blocks);
        let booked = Booked::new(&self.ledger, BLOCK_BYTES);
        let fits = || Ok((self.ledger.excess() == 0).then_some(()));
        self.acquire(CONSUMER, Need::Promise, BLOCK_BYTES, fits)?;
        self.consumers.add(self.consumers.intern(CONSUMER), BLOCK_BYTES);
        std::mem::forget((begun, booked));
        Ok(())
    }

    /// A page was destroyed, or was not made.
    pub(crate) fn uncount_page(&self) {
        let PageCount { pages, blocks } = &self.page_count;
        let left = pages.fetch_sub(1, Ordering::Relaxed) - 1;
        let before = blocks.load(Ordering::Relaxed);
        // Half a block later than one was reserved, lest pages that come and go there do so each time.
        if (left + BLOCK_PAGES / 2) / BLOCK_PAGES < before
            && blocks.compare_exchange(before, before - 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.consumers.sub(self.consumers.intern(CONSUMER), BLOCK_BYTES);
            self.ledger.sub_reserved(BLOCK_BYTES);
            self.memory_freed();
        }
    }
}
