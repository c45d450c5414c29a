//! Pages that are needed in a known order: those needed last leave memory, and only as many as do not fit.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ogee_memory::{BufferManager, MemoryConfig, NeededAt, PAGE_SIZE, PageHandle, TempCompression};

const PARTITIONS: usize = 8;
const PAGES: usize = 64;
const LIMIT: usize = 32;

fn manager(io_threads: usize) -> Arc<BufferManager> {
    BufferManager::new(MemoryConfig {
        limit: LIMIT * PAGE_SIZE,
        counts_process: false,
        io_threads,
        temp_compression: TempCompression::Off,
        ..MemoryConfig::default()
    })
    .unwrap()
}

/// Fills pages of all partitions in turn, then reads and destroys partition after partition. The partitions that were in memory when the second
/// phase began, and pages written and read.
fn two_phases(manager: &Arc<BufferManager>, ordered: bool) -> (Vec<usize>, u64, u64) {
    let mut partitions: Vec<Vec<PageHandle>> = vec![Vec::new(); PARTITIONS];
    for page in 0..PAGES {
        let pinned = manager.allocate("test").unwrap();
        if ordered {
            pinned.handle().set_needed(NeededAt::new(page % PARTITIONS, PARTITIONS));
        }
        partitions[page % PARTITIONS].push(pinned.into_handle());
    }
    let resident = |partition: &usize| partitions[*partition].iter().all(PageHandle::is_resident);
    let resident = (0..PARTITIONS).filter(resident).collect();
    for partition in partitions {
        let pinned: Vec<_> = partition.iter().map(|page| page.pin().unwrap()).collect();
        assert_eq!(pinned.len(), PAGES / PARTITIONS);
    }
    // A page that was destroyed while a background thread wrote it frees its slot when that is over.
    let begin = Instant::now();
    while manager.stats().temp_bytes > 0 && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let stats = manager.stats();
    assert_eq!((stats.temp_bytes, stats.pinned), (0, 0));
    (resident, stats.spilled_bytes / PAGE_SIZE as u64, stats.read_back_bytes / PAGE_SIZE as u64)
}

#[test]
fn only_what_does_not_fit_is_written_and_read_once() {
    let (resident, written, read) = two_phases(&manager(0), true);
    let excess = (PAGES - LIMIT) as u64;
    assert_eq!((written, read), (excess, excess));
    assert!(resident.starts_with(&[0, 1, 2]), "the first ones are all there: {resident:?}");
    // By age alone every partition has lost pages, and making room for those of the first evicts others.
    let (resident, written, read) = two_phases(&manager(0), false);
    assert!(resident.is_empty() && written > excess && read > excess, "{resident:?} {written} {read}");
}

#[test]
fn background_threads_keep_to_the_order() {
    let (resident, written, _) = two_phases(&manager(2), true);
    // They keep a reserve of an eighth, and write ahead of what is needed.
    assert!(resident.starts_with(&[0, 1]) && written <= 40, "{resident:?} {written}");
}
