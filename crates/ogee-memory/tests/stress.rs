//! Several threads allocate, pin, change, unpin and destroy pages at random under a small limit; every page must hold what was
//! written last, and at the end nothing may be left.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "pages are raw memory")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ogee_memory::{
    BufferManager, FaultPlan, FaultyIo, MemoryConfig, MemoryError, PAGE_SIZE, PageHandle, PinnedPage, TempCompression,
};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// First word: the stamp; every 1024th word after it: the stamp and the position.
fn stamp(page: &PinnedPage, stamp: u64) {
    // SAFETY: the page is pinned, and the caller holds the only right to write it.
    let words = unsafe { std::slice::from_raw_parts_mut(page.as_ptr().cast::<u64>(), page.len() / 8) };
    words[0] = stamp;
    words.iter_mut().enumerate().skip(511).step_by(512).for_each(|(index, word)| *word = stamp ^ index as u64);
}

fn verify(page: &PinnedPage, stamp: u64, seed: u64) {
    // SAFETY: the page is pinned, and the caller knows that nobody writes it.
    let words = unsafe { std::slice::from_raw_parts(page.as_ptr().cast::<u64>(), page.len() / 8) };
    assert_eq!(words[0], stamp, "seed {seed}");
    for (index, &word) in words.iter().enumerate().skip(511).step_by(512) {
        assert_eq!(word, stamp ^ index as u64, "seed {seed}, word {index}");
    }
}

/// A write of a page that was destroyed meanwhile may still be on its way.
fn wait_for_writes(manager: &BufferManager) {
    for _ in 0..2000 {
        let stats = manager.stats();
        if stats.temp_bytes == 0 && stats.consumers.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Setup {
    threads: u64,
    limit_pages: usize,
    io_threads: usize,
    steps: u64,
    seed: u64,
    plan: FaultPlan,
    spill_always: bool,
    temp_compression: TempCompression,
}

/// What most tests have in common.
fn base() -> Setup {
    Setup {
        threads: 4,
        limit_pages: 24,
        io_threads: 2,
        steps: 400,
        seed: 0,
        plan: FaultPlan::default(),
        spill_always: false,
        temp_compression: TempCompression::Auto,
    }
}

fn run(setup: &Setup) {
    let directory = tempfile::tempdir().unwrap();
    let io = FaultyIo::new(setup.seed);
    io.set(setup.plan.clone());
    let manager = BufferManager::new(MemoryConfig {
        limit: setup.limit_pages * PAGE_SIZE,
        temp_directory: Some(directory.path().to_path_buf()),
        io: Arc::new(io.clone()),
        counts_process: false,
        io_threads: setup.io_threads,
        spill_always: setup.spill_always,
        temp_compression: setup.temp_compression,
        ..MemoryConfig::default()
    })
    .unwrap();
    // Pages that all threads share: the mutex is the right to write.
    let shared: Vec<(PageHandle, Mutex<u64>)> = (0..6)
        .map(|number| {
            let page = manager.allocate("shared").unwrap();
            stamp(&page, number);
            (page.into_handle(), Mutex::new(number))
        })
        .collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..setup.threads {
            let (manager, shared, over) = (&manager, &shared, &over);
            scope.spawn(move || {
                let mut random = Random((setup.seed + thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                // The page, its stamp, whether it is sealed.
                let mut own: Vec<(PageHandle, u64, bool)> = Vec::new();
                for step in 0..setup.steps {
                    let next = (thread << 32) | step;
                    match random.below(10) {
                        0..=3 if own.len() < 20 => {
                            let page = if random.below(8) == 0 {
                                manager.allocate_variable("variable", 1 + random.below(600_000) as usize).unwrap()
                            } else {
                                manager.allocate("fixed").unwrap()
                            };
                            stamp(&page, next);
                            own.push((page.into_handle(), next, false));
                        }
                        4 if !own.is_empty() => {
                            own.swap_remove(random.below(own.len() as u64) as usize);
                        }
                        5 => {
                            let promise = manager.try_reserve("promise", random.below(PAGE_SIZE as u64) as usize);
                            std::hint::black_box(promise);
                        }
                        6 => {
                            let (page, value) = &shared[random.below(shared.len() as u64) as usize];
                            let mut value = value.lock().unwrap();
                            let page = page.pin().unwrap();
                            verify(&page, *value, setup.seed);
                            *value = next;
                            stamp(&page, next);
                        }
                        7 => manager.prefetch(own.iter().take(4).map(|(page, ..)| page.clone())),
                        _ if !own.is_empty() => {
                            let index = random.below(own.len() as u64) as usize;
                            let page = own[index].0.pin().unwrap();
                            verify(&page, own[index].1, setup.seed);
                            if random.below(2) == 0 && !own[index].2 {
                                stamp(&page, next);
                                own[index].1 = next;
                            }
                            if random.below(6) == 0 {
                                own[index].0.seal();
                                own[index].2 = true;
                            }
                        }
                        _ => {}
                    }
                    if step % 64 == 0 {
                        manager.revise();
                        if random.below(16) == 0 {
                            manager.trim();
                        }
                    }
                    over.fetch_or(manager.stats().used > setup.limit_pages * PAGE_SIZE, Ordering::Relaxed);
                }
                for (page, value, _) in &own {
                    verify(&page.pin().unwrap(), *value, setup.seed);
                }
            });
        }
    });
    for (page, value) in &shared {
        verify(&page.pin().unwrap(), *value.lock().unwrap(), setup.seed);
    }
    assert!(!over.load(Ordering::Relaxed), "the limit was exceeded, seed {}", setup.seed);
    let stats = manager.stats();
    assert!(stats.peak_used <= setup.limit_pages * PAGE_SIZE);
    assert!(stats.evictions > 50, "too little happened: {stats:?}");
    drop(shared);
    wait_for_writes(&manager);
    let stats = manager.stats();
    assert_eq!((stats.pinned, stats.reserved, stats.temp_bytes, stats.consumers.len()), (0, 0, 0, 0), "{stats:?}");
    manager.trim();
    assert!(manager.stats().used <= 16 << 20);
    drop(manager);
    assert_eq!(io.open_files(), 0);
}

#[test]
fn random_work_with_background_threads() {
    for seed in 0..4 {
        let plan = FaultPlan { short_transfers: true, ..FaultPlan::default() };
        let temp_compression = if seed % 2 == 0 { TempCompression::Auto } else { TempCompression::Always };
        run(&Setup { steps: 1200, seed, plan, temp_compression, ..base() });
    }
}

#[test]
fn random_work_with_a_slow_disk() {
    let plan = FaultPlan { delay: Duration::from_micros(400), ..FaultPlan::default() };
    run(&Setup { limit_pages: 20, seed: 77, plan, ..base() });
}

#[test]
fn random_work_without_background_threads() {
    let temp_compression = TempCompression::Always;
    run(&Setup { limit_pages: 16, io_threads: 0, steps: 1200, seed: 5, temp_compression, ..base() });
}

#[test]
fn random_work_with_everything_spilled() {
    run(&Setup { threads: 3, limit_pages: 32, steps: 500, seed: 9, spill_always: true, ..base() });
}

#[test]
fn a_disk_that_fills_up_under_load_fails_requests_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let io = FaultyIo::new(3);
    let manager = BufferManager::new(MemoryConfig {
        limit: 16 * PAGE_SIZE,
        temp_directory: Some(directory.path().to_path_buf()),
        max_temp_bytes: Some(40 * PAGE_SIZE as u64),
        temp_compression: TempCompression::Off,
        io: Arc::new(io.clone()),
        counts_process: false,
        ..MemoryConfig::default()
    })
    .unwrap();
    for round in 0..6u64 {
        if round % 2 == 1 {
            io.set(FaultPlan { fail_writes_from: Some(10), ..FaultPlan::default() });
        } else {
            io.set(FaultPlan::default());
        }
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let manager = &manager;
                scope.spawn(move || {
                    let mut own = Vec::new();
                    let error = loop {
                        match manager.allocate("test") {
                            Ok(page) => {
                                let value = (thread << 32) | own.len() as u64;
                                stamp(&page, value);
                                own.push((page.into_handle(), value));
                            }
                            Err(error) => break error,
                        }
                        assert!(own.len() < 100, "16 pages of memory and 40 of disk");
                    };
                    assert!(
                        matches!(error, MemoryError::DiskFull { .. } | MemoryError::TempSpaceExhausted { .. }),
                        "{error}"
                    );
                    // Reading back needs a frame, for which another page must go: free some first.
                    for (page, value) in own.iter().filter(|(page, _)| page.is_resident()) {
                        if let Ok(page) = page.pin() {
                            verify(&page, *value, round);
                        }
                    }
                });
            }
        });
        wait_for_writes(&manager);
        let stats = manager.stats();
        assert_eq!((stats.pinned, stats.temp_bytes, stats.consumers.len()), (0, 0, 0), "{stats:?}");
    }
}
