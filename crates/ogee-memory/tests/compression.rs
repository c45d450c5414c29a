//! Pages are compressed on their way to the temporary space when that is asked for, or pays, or saves space; and come back as they were.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "pages are raw memory")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use ogee_memory::{
    BufferManager, FaultPlan, FaultyIo, MemoryConfig, PAGE_SIZE, PageHandle, PinnedPage, SimulatedDevice,
    TempCompression,
};

/// Compressing a page takes 100 microseconds by the simulated clock, and so does a transfer at least.
const LOOK: Duration = Duration::from_micros(100);
const SLOW: SimulatedDevice = SimulatedDevice { look: LOOK, bytes_per_second: 100_000_000 };
const FAST: SimulatedDevice = SimulatedDevice { look: LOOK, bytes_per_second: 100_000_000_000 };

struct Fixture {
    manager: Arc<BufferManager>,
    io: FaultyIo,
    _directory: tempfile::TempDir,
}

fn fixture(temp_compression: TempCompression, change: impl FnOnce(&mut MemoryConfig)) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let io = FaultyIo::new(5);
    let mut config = MemoryConfig {
        limit: 8 * PAGE_SIZE,
        temp_directory: Some(directory.path().to_path_buf()),
        temp_compression,
        io: Arc::new(io.clone()),
        counts_process: false,
        io_threads: 0,
        ..MemoryConfig::default()
    };
    change(&mut config);
    Fixture { manager: BufferManager::new(config).unwrap(), io, _directory: directory }
}

fn numbers(page: &PinnedPage) -> &[u64] {
    // SAFETY: the page is pinned, and only this thread has it.
    unsafe { std::slice::from_raw_parts(page.as_ptr().cast::<u64>(), page.len() / 8) }
}

fn fill(page: &PinnedPage, mut value: impl FnMut(usize) -> u64) {
    for index in 0..page.len() / 8 {
        // SAFETY: within the page, which is pinned, and only this thread has it.
        unsafe { page.as_ptr().cast::<u64>().add(index).write(value(index)) };
    }
}

/// Numbers that rise, of which LZ4 leaves five bytes in eight.
fn value(seed: u64, index: usize) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64
}

fn check(page: &PageHandle, seed: u64) {
    let page = page.pin().unwrap();
    assert!(numbers(&page).iter().enumerate().all(|(index, word)| *word == value(seed, index)), "page {seed}");
}

fn write_pages(manager: &Arc<BufferManager>, count: u64) -> Vec<PageHandle> {
    (0..count)
        .map(|seed| {
            let page = manager.allocate("test").unwrap();
            fill(&page, |index| value(seed, index));
            page.into_handle()
        })
        .collect()
}

/// Bytes written for each byte spilled while `pages` pages are.
fn share_written(fixture: &Fixture, pages: u64) -> f64 {
    let before = fixture.manager.stats();
    drop(write_pages(&fixture.manager, pages + 8));
    let after = fixture.manager.stats();
    let spilled = after.spilled_bytes - before.spilled_bytes;
    assert!(spilled >= pages * PAGE_SIZE as u64);
    (after.temp_written_bytes - before.temp_written_bytes) as f64 / spilled as f64
}

#[test]
fn compressed_pages_take_less_and_come_back_as_they_were() {
    for io_threads in [0, 2] {
        let fixture = fixture(TempCompression::Always, |config| config.io_threads = io_threads);
        fixture.io.set(FaultPlan { short_transfers: true, ..FaultPlan::default() });
        let pages = write_pages(&fixture.manager, 40);
        let stats = fixture.manager.stats();
        assert!(stats.temp_written_bytes * 3 < stats.spilled_bytes * 2, "{stats:?}");
        // A slot of 192 KiB for each page.
        assert!(stats.temp_bytes * 4 <= 40 * 3 * PAGE_SIZE as u64, "{stats:?}");
        assert!(fixture.io.length() * 4 <= 40 * 3 * PAGE_SIZE as u64);
        (0..2).for_each(|_| pages.iter().enumerate().for_each(|(seed, page)| check(page, seed as u64)));
        drop(pages);
        drop(fixture.manager);
        assert_eq!(fixture.io.open_files(), 0);
    }
}

#[test]
fn off_means_off_also_for_a_slow_device_and_short_space() {
    let fixture = fixture(TempCompression::Off, |config| config.max_temp_bytes = Some(100 * PAGE_SIZE as u64));
    fixture.io.set(FaultPlan { simulated: Some(SLOW), ..FaultPlan::default() });
    assert_eq!(share_written(&fixture, 90), 1.0);
    fixture.manager.set_temp_compression(TempCompression::Always);
    assert_eq!(fixture.manager.temp_compression(), TempCompression::Always);
    assert!(share_written(&fixture, 90) < 0.7);
}

#[test]
fn the_speed_of_the_device_decides_while_it_changes() {
    let fixture = fixture(TempCompression::Auto, |_| {});
    let set = |device| fixture.io.set(FaultPlan { simulated: Some(device), ..FaultPlan::default() });
    for _ in 0..2 {
        set(FAST);
        // Until the slow transfers are forgotten.
        share_written(&fixture, 400);
        let share = share_written(&fixture, 150);
        assert!(share > 0.97 && share < 1.0, "only probes are compressed: {share}");
        set(SLOW);
        let share = share_written(&fixture, 150);
        assert!(share < 0.7, "{share}");
    }
}

#[test]
fn what_does_not_shrink_is_written_as_it_is() {
    let fixture = fixture(TempCompression::Always, |_| {});
    fixture.io.set(FaultPlan { simulated: Some(SLOW), ..FaultPlan::default() });
    let noise = || {
        let mut state = 1u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    };
    let mut next = noise();
    let pages: Vec<PageHandle> = (0..20)
        .map(|_| {
            let page = fixture.manager.allocate("test").unwrap();
            fill(&page, |_| next());
            page.into_handle()
        })
        .collect();
    let stats = fixture.manager.stats();
    assert!(stats.spilled_bytes > 0 && stats.temp_written_bytes == stats.spilled_bytes, "{stats:?}");
    let mut next = noise();
    for page in &pages {
        assert!(numbers(&page.pin().unwrap()).iter().all(|&word| word == next()));
    }
}

#[test]
fn pages_are_compressed_when_temporary_space_is_short() {
    // 64 pages of space for 84 that do not fit into memory.
    let fixture = fixture(TempCompression::Auto, |config| config.max_temp_bytes = Some(64 * PAGE_SIZE as u64));
    fixture.io.set(FaultPlan { simulated: Some(FAST), ..FaultPlan::default() });
    let pages = write_pages(&fixture.manager, 72);
    let stats = fixture.manager.stats();
    assert!(stats.temp_written_bytes > 48 * PAGE_SIZE as u64, "not before: {stats:?}");
    assert!(stats.temp_bytes < 64 * PAGE_SIZE as u64, "{stats:?}");
    pages.iter().enumerate().for_each(|(seed, page)| check(page, seed as u64));
    fixture.manager.set_temp_compression(TempCompression::Off);
    drop(pages);
    let refused = (0..80).map(|_| fixture.manager.allocate("test").map(PinnedPage::into_handle)).collect::<Vec<_>>();
    let error = refused.into_iter().find_map(Result::err).unwrap();
    assert_eq!(error.code(), "OGEE_M003", "{error}");
}

#[test]
fn a_compressed_page_that_comes_back_changed_is_told() {
    let fixture = fixture(TempCompression::Always, |_| {});
    let pages = write_pages(&fixture.manager, 16);
    for (seed, page) in pages.iter().enumerate().take(8) {
        fixture.io.set(FaultPlan { corrupt_read: Some(0), ..FaultPlan::default() });
        assert_eq!(page.pin().unwrap_err().code(), "OGEE_M006");
        check(page, seed as u64);
    }
}

#[test]
fn pages_in_memory_give_way_rather_than_their_copies_when_temporary_space_is_full() {
    // 16 pages in memory, 12 on disk. Six sealed ones end up in both, and are younger than ten others, which cannot go.
    let fixture = fixture(TempCompression::Off, |config| {
        config.limit = 16 * PAGE_SIZE;
        config.max_temp_bytes = Some(12 * PAGE_SIZE as u64);
    });
    let check_all = |pages: &[PageHandle]| pages.iter().enumerate().for_each(|(seed, page)| check(page, seed as u64));
    let sealed = write_pages(&fixture.manager, 6);
    let others = write_pages(&fixture.manager, 16);
    sealed.iter().for_each(PageHandle::seal);
    check_all(&sealed);
    assert!(sealed.iter().all(PageHandle::is_resident));
    let before = fixture.manager.stats();
    assert_eq!(before.temp_bytes, 12 * PAGE_SIZE as u64);
    let more = write_pages(&fixture.manager, 5);
    assert_eq!(fixture.manager.stats().spilled_bytes, before.spilled_bytes, "nothing had to be written");
    for pages in [&sealed, &others, &more, &sealed] {
        check_all(pages);
    }
    let count = |pages: Vec<PageHandle>| pages.iter().filter(|page| page.is_resident()).count();
    assert_eq!(count(sealed) + count(others) + count(more), 16);
    assert_eq!(fixture.manager.stats().temp_bytes, 0);
}
