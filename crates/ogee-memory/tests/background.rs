//! The threads that write out and read ahead work side by side.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use ogee_memory::{BufferManager, FaultPlan, FaultyIo, MemoryConfig, PAGE_SIZE, PageHandle, TempCompression};

#[test]
fn one_kick_wakes_all_threads() {
    const ROUNDS: usize = 32;
    let io = FaultyIo::new(1);
    let manager = BufferManager::new(MemoryConfig {
        limit: 4 * ROUNDS * PAGE_SIZE,
        counts_process: false,
        io_threads: 2,
        io: Arc::new(io.clone()),
        temp_compression: TempCompression::Off,
        ..MemoryConfig::default()
    })
    .unwrap();
    let pages: Vec<PageHandle> = (0..8 * ROUNDS).map(|_| manager.allocate("test").unwrap().into_handle()).collect();
    let (evicted, resident): (Vec<_>, Vec<_>) = pages.into_iter().partition(|page| !page.is_resident());
    assert!(evicted.len() >= 2 * ROUNDS, "{}", evicted.len());
    // Room for what is read.
    drop(resident);
    manager.trim();
    io.set(FaultPlan { pair_reads: Some(Duration::from_secs(20)), ..FaultPlan::default() });
    for pair in evicted.chunks_exact(2).take(ROUNDS) {
        // Both sleep, as far as waiting can see to it.
        std::thread::sleep(Duration::from_millis(2));
        manager.prefetch(pair.iter().cloned());
        while pair.iter().any(|page| !page.is_resident()) {
            assert_eq!(io.reads_alone(), 0, "a thread read a page while the other slept");
            std::thread::yield_now();
        }
    }
}
