//! The allocator of the shell: mimalloc under the engine's counter, tuned to give memory back.
//!
//! The memory limit covers the whole process, so what the heap keeps cached counts as used. Freed ranges are therefore returned at the end of a
//! statement, and below a limit of 2 GB after a few milliseconds instead of a second.
//!
//! The heap takes small pages (feature `no_thp`): each thread begins in ranges of its own, and a huge page of which it uses a tenth is cleared
//! as a whole. That was half the time of a query of 20 ms, and two thirds of its memory. The pool asks for huge pages itself.
//!
//! Not here: the counting itself (`ogee_memory::CountingAllocator`).
#![expect(unsafe_code, reason = "an allocator is an unsafe trait, and the functions of mimalloc are C's")]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long, c_void};

use libmimalloc_sys::{mi_collect, mi_malloc, mi_option_set, mi_realloc, mi_zalloc};
use mimalloc::MiMalloc;
use ogee_memory::CountingAllocator;

#[global_allocator]
static GLOBAL: CountingAllocator<Heap> = CountingAllocator::new(Heap);

/// [`MiMalloc`], without its look at the alignment where any block will do: nearly all that planning takes is small and aligned to a word.
struct Heap;

/// Every block of mimalloc is aligned to a word.
const fn any_block_will_do(layout: Layout) -> bool {
    layout.align() <= size_of::<usize>()
}

// SAFETY: all of it is `MiMalloc`'s heap, whose blocks are freed and grown by one function whichever call has made them; a block is as large as
// asked for, and aligned as asked for, by mimalloc's word for alignments up to a word and by its aligned calls above.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if any_block_will_do(layout) {
            // SAFETY: any size may be asked for.
            return unsafe { mi_malloc(layout.size()) }.cast();
        }
        // SAFETY: the caller upholds the contract of `alloc`, which is the same for `MiMalloc`.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if any_block_will_do(layout) {
            // SAFETY: any size may be asked for.
            return unsafe { mi_zalloc(layout.size()) }.cast();
        }
        // SAFETY: as for `alloc`.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller got `pointer` from this allocator, so from mimalloc.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if any_block_will_do(layout) {
            // SAFETY: as for `dealloc`; any size may be asked for.
            return unsafe { mi_realloc(pointer.cast::<c_void>(), size) }.cast();
        }
        // SAFETY: as for `dealloc`; the caller guarantees that `size` makes a valid layout.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }
}

/// `mi_option_purge_delay` of mimalloc 3: milliseconds between the release of a range and its return to the system.
const PURGE_DELAY: c_int = 15;
/// `mi_option_arena_purge_mult`: the same for whole arenas, as a multiple of the delay.
const ARENA_PURGE_MULTIPLIER: c_int = 24;
/// `mi_option_minimal_purge_size`, KiB: below this a range is kept. With huge pages the default would be 2 MiB.
const MINIMAL_PURGE_SIZE: c_int = 43;

/// Milliseconds that a freed range is kept where memory is plenty. Scans free and take megabytes for each row group; what went back in between comes
/// again as pages of 4 KiB, each of which is a fault.
const KEPT: c_long = 1000;
/// Where it is not.
const KEPT_SHORTLY: c_long = 10;

/// From this limit on memory is plenty, in bytes.
const PLENTY: usize = 2_000_000_000;

/// Sets the options. To be called first thing in `main`, while there is one thread.
pub fn configure() {
    // SAFETY: the options are plain integers inside mimalloc, set by an atomic store; the numbers are those of the
    // version that Cargo.lock pins, and a number out of range is ignored.
    unsafe {
        mi_option_set(PURGE_DELAY, KEPT);
        mi_option_set(ARENA_PURGE_MULTIPLIER, 1);
        mi_option_set(MINIMAL_PURGE_SIZE, 64);
    }
    // The C library still allocates for itself, a few bytes a thread, for which it would map 128 MiB of addresses each: too much where these are limited.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer, and there is one thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// Gives back what the heap holds but nobody uses.
pub fn release() {
    // SAFETY: takes no pointer; mimalloc collects the calling thread's heap and purges its arenas under its own locks.
    unsafe { mi_collect(true) }
}

/// Below this limit the pool does without huge pages, and so should the heap where the system gives them unasked: a thread that has a few small
/// objects would hold 2 MiB.
const HUGE_PAGE_LIMIT: usize = 512_000_000;

/// Fits the heap to a memory limit, in bytes, before threads start.
pub fn fit_to_limit(limit: usize) {
    if limit < PLENTY {
        // SAFETY: as in `configure`.
        unsafe { mi_option_set(PURGE_DELAY, KEPT_SHORTLY) };
    }
    #[cfg(target_os = "linux")]
    if limit < HUGE_PAGE_LIMIT {
        // A kernel that has no huge pages has none to turn off.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = limit < HUGE_PAGE_LIMIT;
}
