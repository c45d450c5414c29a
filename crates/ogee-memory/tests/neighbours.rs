//! Handles of one process give memory up to each other.
//!
//! One test, since the limit is that of the whole process.
#![cfg(all(not(loom), target_os = "linux"))]
#![expect(unsafe_code, reason = "pages are raw memory")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::alloc::System;
use std::sync::Arc;

use ogee_memory::{
    BufferManager, CountingAllocator, MemoryConfig, MemoryShare, PAGE_SIZE, PageHandle, process_account,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);

const MIB: usize = 1 << 20;
const PAGES: usize = 48 * MIB / PAGE_SIZE;

fn write_pages(manager: &Arc<BufferManager>, seed: u8) -> Vec<PageHandle> {
    (0..PAGES)
        .map(|number| {
            let page = manager.allocate("test").unwrap();
            // SAFETY: the page is pinned, and only this thread has it.
            unsafe { page.as_ptr().write_bytes(seed + number as u8 % 100, PAGE_SIZE) };
            page.into_handle()
        })
        .collect()
}

fn check(pages: &[PageHandle], seed: u8) {
    for (number, page) in pages.iter().enumerate() {
        let page = page.pin().unwrap();
        // SAFETY: the page is pinned, and nobody writes it.
        let bytes = unsafe { std::slice::from_raw_parts(page.as_ptr(), PAGE_SIZE) };
        assert!(bytes.iter().all(|&byte| byte == seed + number as u8 % 100), "page {number}");
    }
}

#[test]
fn unpinned_pages_of_one_handle_go_when_another_needs_memory() {
    let limit = process_account().anonymous_bytes() + 72 * MIB;
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = [0, 2].map(|io_threads| {
        let temp_directory = Some(directory.path().to_owned());
        BufferManager::new(MemoryConfig { limit, temp_directory, io_threads, ..MemoryConfig::default() }).unwrap()
    });
    let pages = write_pages(&first, 1);
    assert_eq!(first.stats().spilled_bytes, 0);
    // Whoever plans knows of it.
    assert!(second.available() > 60 * MIB, "{}", second.available());
    assert!(MemoryShare::new(Arc::clone(&second)).claim() > 60 * MIB);

    let pinned: Vec<_> = (0..PAGES).map(|_| second.allocate("test").unwrap()).collect();
    let left = first.stats();
    assert!(left.spilled_bytes > 0 && left.used <= 32 * MIB, "{left:?}");
    assert_eq!(second.stats().spilled_bytes, 0);
    assert!(left.used + second.stats().used <= 73 * MIB);
    drop(pinned);
    // The free frames of the second serve the first.
    check(&pages, 1);
    assert_eq!(second.stats().spilled_bytes, 0);

    let others = write_pages(&second, 101);
    check(&pages, 1);
    check(&others, 101);
    // Other kinds of memory.
    drop(second.allocate_non_paged("test", 56 * MIB).unwrap());
    drop(first.allocate_variable("test", 56 * MIB).unwrap());
    drop(second.reserve("test", 56 * MIB).unwrap());
    check(&others, 101);
    check(&pages, 1);
    // A handle that is gone leaves the rest to the other.
    drop((second, others));
    check(&pages, 1);
    let all: Vec<_> = (0..PAGES).map(|_| first.allocate("test").unwrap()).collect();
    // What is pinned stays with whoever has it.
    assert_eq!(first.allocate_non_paged("test", 48 * MIB).unwrap_err().code(), "OGEE_M001");
    drop(all);
}
