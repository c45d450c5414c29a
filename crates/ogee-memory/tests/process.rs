//! The limit of the process: other memory shrinks the pool, an idle manager uses no CPU, memory comes back.
//!
//! One test, since resident memory and processor time are those of the whole process.
#![cfg(all(not(loom), target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::alloc::System;
use std::time::Duration;

use ogee_memory::{BufferManager, CountingAllocator, MemoryConfig, PAGE_SIZE, process_account};

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);

const MIB: usize = 1 << 20;

fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<u64> =
        stat.rsplit_once(')').unwrap().1.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // utime and stime, the 14th and 15th of the line, in hundredths of a second; state is no number.
    Duration::from_millis((fields[10] + fields[11]) * 10)
}

fn settle(manager: &BufferManager) {
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(3));
        manager.revise();
        if manager.stats().used <= manager.budget() {
            return;
        }
    }
    panic!("the pool stays over its budget: {:?}", manager.stats());
}

#[test]
fn the_limit_is_the_process() {
    let account = process_account();
    let before = account.anonymous_bytes();
    let limit = 256_000_000;
    let manager = BufferManager::new(MemoryConfig { limit, ..MemoryConfig::default() }).unwrap();
    assert!(manager.budget() < limit && manager.budget() > limit - 64 * MIB);

    // Fill the pool.
    let pages: Vec<_> = (0..2000)
        .map(|_| {
            manager.revise();
            manager.allocate("test").unwrap().into_handle()
        })
        .collect();
    assert!(account.anonymous_bytes() <= limit + 8 * MIB, "{}", account.anonymous_bytes());
    assert!(manager.stats().spilled_bytes > 200 * MIB as u64);

    // Other memory, allocated but not touched: the allocator has counted it.
    let live = account.allocator_bytes();
    let mut heap: Vec<u8> = Vec::with_capacity(100 * MIB);
    assert!(account.allocator_bytes() >= live + 100 * MIB);
    assert!(account.allocator_peak_bytes() >= 100 * MIB);
    settle(&manager);
    assert!(manager.budget() <= limit - 100 * MIB);
    heap.resize(100 * MIB, 1);
    settle(&manager);
    assert!(account.anonymous_bytes() <= limit + 8 * MIB, "{}", account.anonymous_bytes());
    drop(heap);
    settle(&manager);
    assert!(manager.budget() > limit - 64 * MIB, "{}", manager.budget());

    // A promise and the allocation it covers are counted once.
    let promise = manager.reserve("scan", 80 * MIB).unwrap();
    let budget = manager.budget();
    let covered = vec![1u8; 80 * MIB];
    settle(&manager);
    assert!(manager.budget() + 8 * MIB > budget, "{} {budget}", manager.budget());
    assert!(account.anonymous_bytes() <= limit + 8 * MIB);
    drop((covered, promise));

    // Non-paged memory that is not touched yet is not mistaken for room.
    let table = manager.allocate_non_paged("table", 100 * MIB).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    settle(&manager);
    assert!(manager.budget() + 24 * MIB > budget, "{} {budget}", manager.budget());
    assert!(manager.budget() < limit);
    drop(table);

    // Two handles share the process.
    let second = BufferManager::new(MemoryConfig { limit, ..MemoryConfig::default() }).unwrap();
    assert!(second.budget() + manager.stats().used <= limit);
    drop(second);

    // Idle threads use no time.
    std::thread::sleep(Duration::from_millis(50));
    let cpu = cpu_time();
    std::thread::sleep(Duration::from_millis(500));
    assert!(cpu_time() - cpu <= Duration::from_millis(20), "{:?}", cpu_time() - cpu);

    drop(pages);
    manager.trim();
    let after = account.anonymous_bytes();
    assert!(after <= before + 24 * MIB, "{before} {after}");
    assert!(manager.stats().used <= 16 * MIB);

    // Huge pages: pieces are accounted, filled and released whole.
    manager.set_limit(2_000_000_000).unwrap();
    let pages: Vec<_> = (0..1000).map(|_| manager.allocate("huge").unwrap()).collect();
    let used = manager.stats().used;
    assert!((1000 * PAGE_SIZE..=1000 * PAGE_SIZE + 18 * MIB).contains(&used), "{used}");
    assert!(account.anonymous_bytes().abs_diff(used + before) < 32 * MIB);
    drop(pages);
    manager.trim();
    assert!(manager.stats().used <= 16 * MIB);
    assert!(account.anonymous_bytes() <= before + 24 * MIB);
}
