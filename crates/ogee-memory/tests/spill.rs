//! Pages go out and come back, and every way in which that can fail leaves the manager usable.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "pages are raw memory")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ogee_memory::{
    Access, BufferManager, FaultPlan, FaultyIo, LIMIT_MIN, MemoryConfig, MemoryError, PAGE_SIZE, PageHandle,
    PinnedPage, SimulatedDevice, SpareMemory, TempCompression,
};

struct Fixture {
    manager: Arc<BufferManager>,
    io: FaultyIo,
    directory: tempfile::TempDir,
}

fn fixture(pages: usize, change: impl FnOnce(&mut MemoryConfig)) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let io = FaultyIo::new(11);
    let mut config = MemoryConfig {
        limit: pages * PAGE_SIZE,
        temp_directory: Some(directory.path().join("spill")),
        io: Arc::new(io.clone()),
        counts_process: false,
        io_threads: 0,
        // Bytes on disk are counted exactly here.
        temp_compression: TempCompression::Off,
        ..MemoryConfig::default()
    };
    change(&mut config);
    Fixture { manager: BufferManager::new(config).unwrap(), io, directory }
}

fn fill(page: &PinnedPage, seed: u64) {
    // SAFETY: the page is pinned, and only this thread has it.
    let words = unsafe { std::slice::from_raw_parts_mut(page.as_ptr().cast::<u64>(), page.len() / 8) };
    for (index, word) in words.iter_mut().enumerate() {
        *word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64;
    }
}

fn check(page: &PinnedPage, seed: u64) {
    // SAFETY: the page is pinned, and nobody writes it.
    let words = unsafe { std::slice::from_raw_parts(page.as_ptr().cast::<u64>(), page.len() / 8) };
    for (index, &word) in words.iter().enumerate() {
        assert_eq!(word, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64, "page {seed}, word {index}");
    }
}

fn write_pages(manager: &Arc<BufferManager>, count: u64) -> Vec<PageHandle> {
    (0..count)
        .map(|seed| {
            let page = manager.allocate("test").unwrap();
            fill(&page, seed);
            page.into_handle()
        })
        .collect()
}

fn spilled_names(fixture: &Fixture) -> usize {
    std::fs::read_dir(fixture.directory.path().join("spill")).map_or(0, Iterator::count)
}

#[test]
fn sealed_pages_are_written_once() {
    for spill_always in [false, true] {
        let fixture = fixture(8, |config| config.spill_always = spill_always);
        let pages = write_pages(&fixture.manager, 40);
        let read_all = || {
            for (seed, page) in pages.iter().enumerate() {
                check(&page.pin().unwrap(), seed as u64);
            }
        };
        let written = || fixture.manager.stats().spilled_bytes;
        read_all();
        let before = written();
        read_all();
        assert!(written() > before, "a page that may have changed is written again");
        pages.iter().for_each(PageHandle::seal);
        // Those that are in memory have no copy yet.
        (0..2).for_each(|_| read_all());
        let (before, read_before) = (written(), fixture.manager.stats().read_back_bytes);
        (0..3).for_each(|_| read_all());
        assert_eq!(written(), before);
        let stats = fixture.manager.stats();
        assert!(stats.read_back_bytes >= read_before + 3 * 32 * PAGE_SIZE as u64);
        assert!(stats.temp_bytes <= 40 * PAGE_SIZE as u64);
        drop(pages);
        let stats = fixture.manager.stats();
        assert!(stats.temp_bytes == 0 && stats.consumers.is_empty(), "{stats:?}");
    }
}

#[test]
fn what_does_not_fit_goes_out_and_comes_back() {
    for io_threads in [0, 2] {
        let fixture = fixture(8, |config| config.io_threads = io_threads);
        let pages = write_pages(&fixture.manager, 40);
        let stats = fixture.manager.stats();
        assert!(stats.used <= 8 * PAGE_SIZE && stats.peak_used <= 8 * PAGE_SIZE, "{stats:?}");
        assert!(stats.temp_bytes >= 32 * PAGE_SIZE as u64, "{stats:?}");
        assert_eq!(spilled_names(&fixture), 0, "temporary files have no name");
        for (seed, page) in pages.iter().enumerate() {
            check(&page.pin().unwrap(), seed as u64);
        }
        let stats = fixture.manager.stats();
        assert!(stats.read_back_bytes >= 32 * PAGE_SIZE as u64);
        drop(pages);
        // A page that a background thread was writing is freed when the write is over.
        wait_until(|| fixture.manager.stats().temp_bytes == 0 && fixture.manager.stats().consumers.is_empty());
        assert_eq!(fixture.manager.stats().pinned, 0);
        assert_eq!(fixture.io.length(), 0, "the file is cut when it is empty");
        fixture.manager.trim();
        assert_eq!(fixture.io.open_files(), 0);
    }
}

#[test]
fn the_least_recently_unpinned_page_goes_first() {
    let fixture = fixture(8, |_| {});
    let pages = write_pages(&fixture.manager, 8);
    drop(pages[0].pin().unwrap());
    let more = write_pages(&fixture.manager, 3);
    let resident: Vec<bool> = pages.iter().map(PageHandle::is_resident).collect();
    assert_eq!(resident, [true, false, false, false, true, true, true, true]);
    drop(more);
}

#[test]
fn variable_pages_have_files_of_their_own() {
    let fixture = fixture(8, |_| {});
    let pages: Vec<PageHandle> = (0..20u64)
        .map(|seed| {
            let page = fixture.manager.allocate_variable("test", 1 + seed as usize * 50_000).unwrap();
            assert!(page.len() > seed as usize * 50_000 && page.len().is_multiple_of(4096));
            fill(&page, seed);
            page.into_handle()
        })
        .collect();
    assert!(fixture.manager.stats().used <= 8 * PAGE_SIZE);
    let spilled = pages.iter().filter(|page| !page.is_resident()).count() as u64;
    assert!(spilled > 10);
    assert_eq!(fixture.io.open_files(), spilled);
    for (seed, page) in pages.iter().enumerate() {
        check(&page.pin().unwrap(), seed as u64);
    }
    drop(pages);
    assert_eq!((fixture.io.open_files(), fixture.manager.stats().used, fixture.manager.stats().temp_bytes), (0, 0, 0));
}

#[test]
fn a_limit_that_is_all_pinned_is_an_error_with_names_and_amounts() {
    for io_threads in [0, 2] {
        let fixture = fixture(8, |config| config.io_threads = io_threads);
        let pinned: Vec<PinnedPage> = (0..8).map(|_| fixture.manager.allocate("hash join").unwrap()).collect();
        assert_eq!(fixture.manager.available(), 0);
        let error = fixture.manager.allocate("sort").unwrap_err();
        assert_eq!(error.code(), "OGEE_M001");
        assert_eq!(
            error.to_string(),
            "sort needs 256 KiB more; 2 MiB of 2 MiB held, 0 B outside the pool; largest: hash join 2 MiB. \
             Raise memory_limit or lower threads"
        );
        assert!(matches!(fixture.manager.reserve("scan", 1), Err(MemoryError::OutOfMemory { .. })));
        assert!(fixture.manager.try_reserve("scan", 1).is_none());
        assert!(matches!(fixture.manager.allocate_non_paged("table", 1), Err(MemoryError::OutOfMemory { .. })));
        assert_eq!(fixture.manager.stats().reserved, 0);
        drop(pinned);
        drop(fixture.manager.allocate("sort").unwrap());
    }
}

#[test]
fn too_small_a_limit_is_named() {
    let config = MemoryConfig { limit: LIMIT_MIN - 1, ..MemoryConfig::default() };
    let error = BufferManager::new(config).unwrap_err();
    assert_eq!(error.code(), "OGEE_M002");
    assert!(error.to_string().contains("1 MiB"), "{error}");
}

#[test]
fn a_full_disk_is_an_error_and_all_is_well_when_it_is_not_full_any_more() {
    for io_threads in [0, 2] {
        let fixture = fixture(8, |config| config.io_threads = io_threads);
        fixture.io.set(FaultPlan { fail_writes_from: Some(2), ..FaultPlan::default() });
        let mut pages = Vec::new();
        let error = loop {
            assert!(pages.len() < 20, "the disk was full after two pages");
            match fixture.manager.allocate("test") {
                Ok(page) => {
                    fill(&page, pages.len() as u64);
                    pages.push(page.into_handle());
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), "OGEE_M004", "{error}");
        assert!(error.to_string().contains("spill"), "{error}");
        // Only what was written is counted; a background thread may be trying another page.
        wait_until(|| fixture.manager.stats().temp_bytes == 2 * PAGE_SIZE as u64);
        fixture.io.set(FaultPlan::default());
        let more = write_pages(&fixture.manager, 20);
        for (seed, page) in pages.iter().enumerate() {
            check(&page.pin().unwrap(), seed as u64);
        }
        for (seed, page) in more.iter().enumerate() {
            check(&page.pin().unwrap(), seed as u64);
        }
        drop((pages, more));
        wait_until(|| fixture.manager.stats().temp_bytes == 0);
    }
}

#[test]
fn other_errors_of_the_disk_are_told_as_such() {
    let fixture = fixture(4, |_| {});
    fixture.io.set(FaultPlan { fail_writes_from: Some(0), write_error: Some(5), ..FaultPlan::default() });
    let pages = write_pages(&fixture.manager, 4);
    let error = fixture.manager.allocate("test").unwrap_err();
    assert!(matches!(error, MemoryError::TempIo { operation: "write", .. }), "{error}");
    fixture.io.set(FaultPlan { fail_open: true, ..FaultPlan::default() });
    fixture.manager.trim();
    let error = fixture.manager.allocate("test").unwrap_err();
    assert!(matches!(error, MemoryError::TempIo { operation: "open", .. }), "{error}");
    fixture.io.set(FaultPlan::default());
    drop(fixture.manager.allocate("test").unwrap());

    let evicted = pages.iter().position(|page| !page.is_resident()).unwrap();
    fixture.io.set(FaultPlan { fail_reads_from: Some(0), ..FaultPlan::default() });
    let error = pages[evicted].pin().unwrap_err();
    assert!(matches!(error, MemoryError::TempIo { operation: "read", .. }), "{error}");
    fixture.io.set(FaultPlan::default());
    check(&pages[evicted].pin().unwrap(), evicted as u64);
}

/// What `work` gives, on a thread of its own; a hang is a failure.
fn within_a_minute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || drop(sender.send(work())));
    let result = receiver.recv_timeout(Duration::from_secs(60)).expect("nobody waits forever, nor panics");
    thread.join().unwrap();
    result
}

#[test]
fn a_panic_while_a_page_is_written_leaves_it_where_it_was() {
    for io_threads in [0, 2] {
        let fixture = fixture(8, |config| config.io_threads = io_threads);
        let mut pages = write_pages(&fixture.manager, 8);
        // As many times as there are pages in memory: none of them is lost to eviction.
        for _ in 0..12 {
            fixture.io.set(FaultPlan { panic_write: Some(0), ..FaultPlan::default() });
            let manager = Arc::clone(&fixture.manager);
            let seed = pages.len() as u64;
            let page = within_a_minute(move || {
                let allocated =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| manager.allocate("test").unwrap()));
                let page = allocated.unwrap_or_else(|_| manager.allocate("test").unwrap());
                fill(&page, seed);
                page.into_handle()
            });
            pages.push(page);
            wait_until(|| fixture.io.writes() > 0 || io_threads > 0);
        }
        fixture.io.set(FaultPlan::default());
        for (seed, page) in pages.iter().enumerate() {
            check(&page.pin().unwrap(), seed as u64);
        }
        drop(pages);
        wait_until(|| fixture.manager.stats().temp_bytes == 0 && fixture.manager.stats().consumers.is_empty());
        assert_eq!(fixture.manager.available(), 8 * PAGE_SIZE);
    }
}

#[test]
fn a_panic_while_a_page_is_read_back_wakes_those_who_wait_for_it() {
    let fixture = fixture(8, |_| {});
    let pages = write_pages(&fixture.manager, 16);
    let seed = pages.iter().position(|page| !page.is_resident()).unwrap();
    fixture.io.set(FaultPlan { panic_read: Some(0), delay: Duration::from_millis(5), ..FaultPlan::default() });
    let pins: Vec<_> = (0..4)
        .map(|_| {
            let page = pages[seed].clone();
            std::thread::spawn(move || {
                within_a_minute(move || {
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| page.pin().unwrap())).ok()
                })
            })
        })
        .collect();
    let pins: Vec<_> = pins.into_iter().map(|pin| pin.join().unwrap()).collect();
    assert_eq!(pins.iter().filter(|pin| pin.is_none()).count(), 1, "the others load it themselves");
    pins.iter().flatten().for_each(|page| check(page, seed as u64));
    drop(pins);
    fixture.io.set(FaultPlan::default());
    for (seed, page) in pages.iter().enumerate() {
        check(&page.pin().unwrap(), seed as u64);
    }
    drop(pages);
    assert_eq!(fixture.manager.stats().temp_bytes, 0);
    assert_eq!(fixture.manager.available(), 8 * PAGE_SIZE);
}

#[test]
fn the_cap_on_temporary_space_holds() {
    for max_temp_bytes in [Some(3 * PAGE_SIZE as u64 + 5), None] {
        let fixture = fixture(4, |config| config.max_temp_bytes = max_temp_bytes);
        // Without a cap it is 90 % of what is free: 3.6 pages.
        fixture.io.set(FaultPlan { free_space: Some(4 * PAGE_SIZE as u64), ..FaultPlan::default() });
        let pages = write_pages(&fixture.manager, 7);
        let error = fixture.manager.allocate("test").unwrap_err();
        assert_eq!(error.code(), "OGEE_M003", "{error}");
        let stats = fixture.manager.stats();
        assert_eq!((stats.temp_bytes, stats.temp_peak), (3 * PAGE_SIZE as u64, 3 * PAGE_SIZE as u64));
        assert!(matches!(fixture.manager.set_temp_directory(None), Err(MemoryError::InUse { .. })));
        fixture.manager.set_max_temp_bytes(Some(4 * PAGE_SIZE as u64));
        drop(fixture.manager.allocate("test").unwrap());
        drop(pages);
        fixture.manager.set_max_temp_bytes(Some(u64::MAX));
        fixture.manager.set_temp_directory(Some(fixture.directory.path().join("elsewhere"))).unwrap();
        drop(write_pages(&fixture.manager, 20));
        assert!(fixture.directory.path().join("elsewhere").exists());
    }
}

#[test]
fn a_page_that_comes_back_changed_is_told_and_never_handed_out() {
    let fixture = fixture(4, |_| {});
    let pages = write_pages(&fixture.manager, 8);
    fixture.io.set(FaultPlan { corrupt_read: Some(0), ..FaultPlan::default() });
    let error = pages[0].pin().unwrap_err();
    assert_eq!(error.code(), "OGEE_M006", "{error}");
    // Only the transfer was at fault: the second attempt is good, and so are the other pages.
    for (seed, page) in pages.iter().enumerate() {
        check(&page.pin().unwrap(), seed as u64);
    }
}

#[test]
fn spilling_everything_changes_nothing_but_the_time() {
    let fixture = fixture(64, |config| config.spill_always = true);
    let pages = write_pages(&fixture.manager, 6);
    assert!(pages.iter().all(|page| !page.is_resident()));
    for (seed, page) in pages.iter().enumerate() {
        check(&page.pin().unwrap(), seed as u64);
        assert!(!page.is_resident());
    }
    assert!(fixture.manager.stats().evictions >= 12);
}

#[test]
fn non_paged_memory_is_zero_and_evicts() {
    let fixture = fixture(16, |_| {});
    let pages = write_pages(&fixture.manager, 16);
    let mut table = fixture.manager.allocate_non_paged("table", 10 * PAGE_SIZE + 100).unwrap();
    assert_eq!(table.len(), 10 * PAGE_SIZE + 100);
    assert!(table.as_u64_slice_mut().iter().all(|&word| word == 0));
    table.as_u64_slice_mut().fill(7);
    assert_eq!(table.as_atomic_u64_slice()[5].load(std::sync::atomic::Ordering::Relaxed), 7);
    let stats = fixture.manager.stats();
    assert_eq!(stats.non_paged, 10 * PAGE_SIZE + 4096);
    assert!(stats.used <= 16 * PAGE_SIZE && stats.evictions >= 11, "{stats:?}");
    assert_eq!(stats.consumers[0].0, "table");
    drop(table);
    assert_eq!(fixture.manager.stats().non_paged, 0);
    for (seed, page) in pages.iter().enumerate() {
        check(&page.pin().unwrap(), seed as u64);
    }
}

#[test]
fn non_paged_memory_may_be_touched_while_it_is_used() {
    // Huge pages, or not.
    for frames in [16, 3000] {
        let fixture = fixture(frames, |_| ());
        let table = fixture.manager.allocate_non_paged("table", 9 * PAGE_SIZE + 100).unwrap();
        let words = table.as_atomic_u64_slice();
        words[7].store(1, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(table.num_pieces(), 2);
        for access in [Access::InOrder, Access::Scattered] {
            (0..table.num_pieces()).for_each(|piece| table.touch(piece, access));
        }
        let sum: u64 = words.iter().map(|word| word.load(std::sync::atomic::Ordering::Relaxed)).sum();
        assert_eq!(sum, 1, "what was there stays, the rest is zero");
    }
}

#[test]
fn reservations_take_room_from_the_pool_and_give_it_back() {
    let fixture = fixture(16, |_| {});
    let pages = write_pages(&fixture.manager, 16);
    let mut promise = fixture.manager.reserve("scan", 6 * PAGE_SIZE).unwrap();
    let stats = fixture.manager.stats();
    assert_eq!((stats.budget, stats.reserved), (10 * PAGE_SIZE, 6 * PAGE_SIZE));
    assert!(stats.used <= 10 * PAGE_SIZE, "{stats:?}");
    promise.resize(10 * PAGE_SIZE).unwrap();
    assert!(fixture.manager.stats().used <= 6 * PAGE_SIZE);
    assert!(promise.resize(17 * PAGE_SIZE).is_err());
    assert_eq!(promise.bytes(), 10 * PAGE_SIZE);
    assert!(promise.resize(usize::MAX).is_err());
    promise.resize(PAGE_SIZE).unwrap();
    assert_eq!(fixture.manager.budget(), 15 * PAGE_SIZE);
    drop(promise);
    assert_eq!((fixture.manager.budget(), fixture.manager.stats().reserved), (16 * PAGE_SIZE, 0));
    for (seed, page) in pages.iter().enumerate() {
        check(&page.pin().unwrap(), seed as u64);
    }
}

#[test]
fn records_of_pages_are_reserved_by_the_thousand() {
    let fixture = fixture(128, |_| {});
    let stats = || fixture.manager.stats();
    let small = || fixture.manager.allocate_variable("test", 1);
    let mut pages: Vec<_> = (0..1000).map(|_| small().unwrap()).collect();
    assert_eq!(stats().reserved, 0, "a small pool has all of its limit");
    // 4 KiB each, and 320 bytes.
    pages.extend((0..4000).map(|_| small().unwrap()));
    let block = 1024 * 320;
    assert_eq!(stats().reserved, 4 * block);
    assert!(stats().consumers.contains(&("records of pages", 4 * block)));
    // Pages that come and go at an edge do not reserve each time.
    pages.truncate(4096 - 100);
    assert_eq!(stats().reserved, 4 * block);
    pages.truncate(4096 - 600);
    assert_eq!(stats().reserved, 3 * block);
    // All that is pinned and the records fit the limit, and what does not is refused.
    let error = loop {
        match small() {
            Ok(page) => pages.push(page),
            Err(error) => break error,
        }
        let stats = stats();
        assert!(stats.used + stats.reserved <= stats.limit, "{stats:?}");
    };
    assert_eq!(error.code(), "OGEE_M001");
    assert!(pages.len() > 7000 && stats().reserved >= pages.len() / 1024 * block);
    let threads: Vec<_> = (0..4).map(|_| pages.split_off(pages.len() - 1000)).collect();
    std::thread::scope(|scope| threads.into_iter().for_each(|pages| drop(scope.spawn(move || drop(pages)))));
    drop(pages);
    let stats = stats();
    assert!(stats.reserved == 0 && stats.consumers.is_empty(), "{stats:?}");
}

#[test]
fn a_lower_limit_evicts_and_a_higher_one_is_used() {
    for io_threads in [0, 2] {
        let fixture = fixture(32, |config| config.io_threads = io_threads);
        let pages = write_pages(&fixture.manager, 32);
        fixture.manager.set_limit(8 * PAGE_SIZE).unwrap();
        assert!(fixture.manager.stats().used <= 8 * PAGE_SIZE, "{:?}", fixture.manager.stats());
        fixture.manager.set_limit(64 * PAGE_SIZE).unwrap();
        let pinned: Vec<PinnedPage> = pages.iter().map(|page| page.pin().unwrap()).collect();
        pinned.iter().enumerate().for_each(|(seed, page)| check(page, seed as u64));
        assert_eq!(fixture.manager.stats().pinned, 32 * PAGE_SIZE);
        assert!(matches!(fixture.manager.set_limit(LIMIT_MIN - 1), Err(MemoryError::LimitTooSmall { .. })));
        assert_eq!(fixture.manager.limit(), 64 * PAGE_SIZE);
        fixture.manager.set_limit(LIMIT_MIN).unwrap();
        drop(pinned);
        assert!(fixture.manager.allocate("test").is_ok(), "what is unpinned can be evicted");
        assert!(fixture.manager.stats().used <= LIMIT_MIN);
    }
}

#[test]
fn trim_gives_memory_back() {
    let fixture = fixture(512, |_| {});
    drop(write_pages(&fixture.manager, 512));
    assert_eq!(fixture.manager.stats().used, 512 * PAGE_SIZE, "free frames are kept for reuse");
    fixture.manager.trim();
    assert!(fixture.manager.stats().used <= 16 << 20, "{}", fixture.manager.stats().used);
    let kept = write_pages(&fixture.manager, 512);
    for (seed, page) in kept.iter().enumerate() {
        check(&page.pin().unwrap(), seed as u64);
    }
}

#[test]
fn pages_are_read_ahead_into_free_room_only() {
    let fixture = fixture(16, |config| config.io_threads = 2);
    let pages = write_pages(&fixture.manager, 16);
    let pinned: Vec<PinnedPage> = (0..16).map(|_| fixture.manager.allocate("other").unwrap()).collect();
    assert!(pages.iter().all(|page| !page.is_resident()));
    fixture.manager.prefetch(pages.iter().cloned());
    std::thread::sleep(Duration::from_millis(20));
    assert!(pages.iter().all(|page| !page.is_resident()), "nothing was evicted for it");
    drop(pinned);
    fixture.manager.trim();
    fixture.manager.prefetch(pages.iter().cloned());
    wait_until(|| pages.iter().all(PageHandle::is_resident));
    let reads = fixture.io.reads();
    for (seed, page) in pages.iter().enumerate() {
        check(&page.pin().unwrap(), seed as u64);
    }
    assert_eq!(fixture.io.reads(), reads, "nothing had to be read again");
}

#[test]
fn a_destroyed_page_frees_its_memory_at_once_also_while_it_is_written() {
    let fixture = fixture(8, |config| config.io_threads = 1);
    fixture.io.set(FaultPlan { delay: Duration::from_millis(5), ..FaultPlan::default() });
    for _ in 0..20 {
        let pages = write_pages(&fixture.manager, 12);
        drop(pages);
    }
    wait_until(|| fixture.manager.stats().temp_bytes == 0);
    let all: Vec<PinnedPage> = (0..8).map(|_| fixture.manager.allocate("test").unwrap()).collect();
    assert_eq!(fixture.manager.stats().pinned, 8 * PAGE_SIZE);
    drop(all);
}

#[test]
fn pages_outlive_their_manager() {
    let Fixture { manager, io, directory } = fixture(4, |config| config.io_threads = 2);
    let pages = write_pages(&manager, 12);
    drop(manager);
    for (seed, page) in pages.iter().enumerate() {
        check(&page.pin().unwrap(), seed as u64);
    }
    drop(pages);
    assert_eq!(io.open_files(), 0);
    drop(directory);
}

#[test]
fn a_directory_in_memory_is_warned_about() {
    let fixture = fixture(4, |_| {});
    assert!(fixture.manager.warnings().is_empty());
    fixture.io.set(FaultPlan { in_memory: true, ..FaultPlan::default() });
    assert!(fixture.manager.warnings()[0].contains("in memory"));
}

#[test]
fn pins_are_counted_and_a_clone_is_a_pin() {
    let fixture = fixture(4, |_| {});
    let page = fixture.manager.allocate("test").unwrap();
    let clone = page.clone();
    let third = page.handle().pin().unwrap();
    drop(page);
    assert_eq!((clone.as_ptr(), fixture.manager.stats().pinned), (third.as_ptr(), PAGE_SIZE));
    let others: Vec<_> = (0..3).map(|_| fixture.manager.allocate("test").unwrap()).collect();
    assert!(fixture.manager.allocate("test").is_err(), "a pinned page is not evicted");
    drop(third);
    assert!(fixture.manager.allocate("test").is_err());
    drop(clone);
    assert!(fixture.manager.allocate("test").is_ok());
    drop(others);
}

fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited for too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn pages_go_through_the_page_cache_while_there_is_memory_to_spare() {
    let page = PAGE_SIZE as u64;
    let fixture = fixture(8, |_| {});
    let manager = &fixture.manager;
    // The clock moves on with each look, so that the machine is asked for each page.
    let look = Duration::from_millis(200);
    let simulated = Some(SimulatedDevice { look, bytes_per_second: 1 << 30 });
    // Spills 40 pages and reads them back: how many of them went through the cache.
    let cached = |spare: u64, unwritten: u64| {
        let spare_memory = SpareMemory { bytes: spare, unwritten };
        fixture.io.set(FaultPlan { spare_memory, simulated, ..FaultPlan::default() });
        let before = manager.stats();
        let pages = write_pages(manager, 48);
        let after = manager.stats();
        assert_eq!(after.spilled_bytes - before.spilled_bytes, 40 * page);
        for (seed, handle) in pages.iter().enumerate() {
            check(&handle.pin().unwrap(), seed as u64);
        }
        (after.temp_cached_bytes - before.temp_cached_bytes) / page
    };
    for _ in 0..2 {
        assert_eq!(cached(0, u64::MAX), 0);
        assert_eq!(cached(u64::MAX, 0), 0);
        // Half of it; what is read back makes room again.
        assert_eq!(cached(2 * 10 * page, u64::MAX), 10);
        assert_eq!(cached(u64::MAX, page), 40);
    }
    // Compressed pages are asked for to spare the device's space.
    manager.set_temp_compression(TempCompression::Always);
    assert_eq!(cached(u64::MAX, u64::MAX), 0);
}

#[test]
fn what_a_process_may_still_take_is_not_spare() {
    let page = PAGE_SIZE as u64;
    // Pages go out although nothing is short, so that the limit of 64 pages is not used up.
    let fixture = fixture(64, |config| config.spill_always = true);
    for (bytes, all) in [(64 * page, false), ((64 + 4 * 40) * page, true)] {
        let spare_memory = SpareMemory { bytes, unwritten: u64::MAX };
        fixture.io.set(FaultPlan { spare_memory, ..FaultPlan::default() });
        let before = fixture.manager.stats();
        drop(write_pages(&fixture.manager, 4));
        let after = fixture.manager.stats();
        let cached = after.temp_cached_bytes - before.temp_cached_bytes;
        assert_eq!(cached, if all { after.spilled_bytes - before.spilled_bytes } else { 0 });
        assert!(after.spilled_bytes > before.spilled_bytes);
        // The machine is asked again after a while.
        std::thread::sleep(Duration::from_millis(150));
    }
}

#[test]
fn a_page_cache_that_fails_to_open_is_as_if_nothing_had_been_asked() {
    let fixture = fixture(8, |_| {});
    let spare_memory = SpareMemory { bytes: 4 * 20 * PAGE_SIZE as u64, unwritten: u64::MAX };
    fixture.io.set(FaultPlan { spare_memory, fail_open: true, ..FaultPlan::default() });
    for _ in 0..30 {
        let pages = std::iter::repeat_with(|| fixture.manager.allocate("test").map(PinnedPage::into_handle));
        assert!(pages.take(10).collect::<Result<Vec<_>, _>>().is_err());
    }
    fixture.io.set(FaultPlan { spare_memory, ..FaultPlan::default() });
    drop(write_pages(&fixture.manager, 20));
    assert_eq!(fixture.manager.stats().temp_cached_bytes, 12 * PAGE_SIZE as u64);
}
