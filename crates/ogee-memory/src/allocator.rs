//! An allocator that counts what is allocated through it and refuses nothing.
//!
//! The shell and the Python module install it, so that the process account knows of memory that has been allocated but not
//! touched yet, and of memory that came and went between two looks at the resident size.
//!
//! Each thread has a count of its own (`thread_counts`), or where there are many threads a shard that it shares; one that has 64 KiB to tell tells
//! it to the sum, where the peak is kept. What is not told yet is part of [`live`]; the peak is exact to 64 KiB a count, 4 MiB in all.
//!
//! Not here: a limit. Callers of an allocator cannot be refused without aborting; they reserve before they allocate.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicIsize, Ordering};

use crate::counter::ShardedCounter;
use crate::thread_counts::ThreadCounts;

/// A count tells the sum when it has this many bytes to tell.
const FLUSH_BYTES: isize = 64 << 10;

static COUNTS: ThreadCounts = ThreadCounts::new();
static SHARDS: ShardedCounter = ShardedCounter::new();
static FLUSHED: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

#[inline]
fn count(amount: isize) {
    let Some(own) = COUNTS.own() else { return count_in_shard(amount) };
    let total = own.add(amount);
    if total.abs() >= FLUSH_BYTES {
        own.clear();
        tell(total);
    }
}

#[cold]
fn count_in_shard(amount: isize) {
    let shard = SHARDS.own_shard();
    let total = shard.fetch_add(amount, Ordering::Relaxed) + amount;
    if total.abs() >= FLUSH_BYTES {
        tell(shard.swap(0, Ordering::Relaxed));
    }
}

#[cold]
fn tell(amount: isize) {
    let total = FLUSHED.fetch_add(amount, Ordering::Relaxed) + amount;
    PEAK.fetch_max(total, Ordering::Relaxed);
}

/// Bytes allocated and not freed through every [`CountingAllocator`] of the process; zero if none is installed.
pub(crate) fn live() -> usize {
    usize::try_from(FLUSHED.load(Ordering::Relaxed) + COUNTS.sum() + SHARDS.signed_sum()).unwrap_or(0)
}

/// The most that was live at once since the last [`reset_peak`].
pub(crate) fn peak() -> usize {
    usize::try_from(PEAK.load(Ordering::Relaxed)).unwrap_or(0).max(live())
}

/// Starts the peak anew.
pub(crate) fn reset_peak() {
    PEAK.store(FLUSHED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// A global allocator that counts bytes and passes every call on to `A`. The counts are of the process, in
/// [`process_account`](crate::process_account).
#[derive(Debug, Default, Clone, Copy)]
pub struct CountingAllocator<A>(A);

impl<A> CountingAllocator<A> {
    /// Counts what goes through `inner`.
    pub const fn new(inner: A) -> Self {
        Self(inner)
    }
}

/// A layout is never larger than `isize::MAX`.
#[inline]
fn signed(bytes: usize) -> isize {
    bytes as isize
}

#[expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait; every call is passed on as it came")]
// SAFETY: every method hands its arguments to `A` unchanged and returns what `A` returns, so `A`'s guarantees are ours; the
// counting neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`, which is the same for `A`.
        let pointer = unsafe { self.0.alloc(layout) };
        if !pointer.is_null() {
            count(signed(layout.size()));
        }
        pointer
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller got `pointer` from this allocator with this layout, so from `A`.
        unsafe { self.0.dealloc(pointer, layout) };
        count(-signed(layout.size()));
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        let pointer = unsafe { self.0.alloc_zeroed(layout) };
        if !pointer.is_null() {
            count(signed(layout.size()));
        }
        pointer
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`; the caller guarantees that `size` makes a valid layout.
        let moved = unsafe { self.0.realloc(pointer, layout, size) };
        if !moved.is_null() {
            count(signed(size) - signed(layout.size()));
        }
        moved
    }
}
