//! Statements that share memory wait for each other rather than fail, and never forever.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ogee_memory::{BufferManager, MemoryConfig, MemoryError, MemoryShare, PAGE_SIZE, PinnedPage, optional};

const PAGES: usize = 8;

fn manager() -> Arc<BufferManager> {
    let config =
        MemoryConfig { limit: PAGES * PAGE_SIZE, counts_process: false, io_threads: 0, ..MemoryConfig::default() };
    BufferManager::new(config).unwrap()
}

fn pin(memory: &Arc<BufferManager>, pages: usize) -> Vec<PinnedPage> {
    (0..pages).map(|_| memory.allocate("holder").unwrap()).collect()
}

/// Does `work` on a thread of its own; what comes of it, within a minute.
fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || drop(sender.send(work())));
    receiver
}

fn result<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(Duration::from_secs(60)).expect("nobody waits forever, nor panics")
}

/// Waits until a request has asked so many times whether it is cancelled: it waits.
fn until(asked: &AtomicUsize, times: usize) {
    while asked.load(Ordering::SeqCst) < times {
        std::thread::sleep(Duration::from_millis(1));
    }
}

type Request = fn(&Arc<BufferManager>) -> Result<(), MemoryError>;

/// Each way in which memory is had.
fn requests() -> [Request; 4] {
    [
        |memory| memory.allocate("test").map(drop),
        |memory| memory.allocate_variable("test", 3 * PAGE_SIZE).map(drop),
        |memory| memory.allocate_non_paged("test", 3 * PAGE_SIZE).map(drop),
        |memory| memory.reserve("test", 3 * PAGE_SIZE).map(drop),
    ]
}

#[test]
fn a_request_waits_for_what_another_statement_releases() {
    for (number, request) in requests().into_iter().enumerate() {
        for unpins in [false, true] {
            let memory = manager();
            let asked = Arc::new(AtomicUsize::new(0));
            let (begin, begun) = channel();
            let holder = {
                let (memory, asked) = (Arc::clone(&memory), Arc::clone(&asked));
                spawn(move || {
                    MemoryShare::new(Arc::clone(&memory)).run(&|| false, || {
                        let pages = pin(&memory, PAGES);
                        begin.send(()).unwrap();
                        until(&asked, 3);
                        // Either the pages go, or they may leave memory.
                        let kept = unpins.then(|| pages.iter().map(|page| page.handle().clone()).collect::<Vec<_>>());
                        drop(pages);
                        kept
                    })
                })
            };
            begun.recv().unwrap();
            let waiter = {
                let (memory, asked) = (Arc::clone(&memory), Arc::clone(&asked));
                let is_cancelled = move || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    false
                };
                spawn(move || MemoryShare::new(Arc::clone(&memory)).run(&is_cancelled, || request(&memory)))
            };
            let outcome = result(&waiter);
            assert!(outcome.is_ok(), "request {number}, unpins: {unpins}: {outcome:?}");
            drop(result(&holder));
        }
    }
}

#[test]
fn of_two_that_wait_for_each_other_the_younger_is_refused() {
    for request in requests() {
        let memory = manager();
        let both_hold = Arc::new(std::sync::Barrier::new(2));
        let outcomes = [(); 2].map(|()| {
            let (memory, both_hold) = (Arc::clone(&memory), Arc::clone(&both_hold));
            let share = MemoryShare::new(Arc::clone(&memory));
            spawn(move || {
                share.run(&|| false, || {
                    let pages = pin(&memory, PAGES / 2);
                    both_hold.wait();
                    let outcome = request(&memory);
                    drop(pages);
                    outcome
                })
            })
        });
        let [elder, younger] = outcomes.map(|outcome| result(&outcome));
        assert!(elder.is_ok(), "{elder:?}");
        let error = younger.unwrap_err();
        assert_eq!(error.code(), "OGEE_M001");
        assert!(error.to_string().contains("largest: holder"), "{error}");
    }
}

#[test]
fn whoever_cannot_be_helped_is_refused_at_once() {
    let memory = manager();
    let asked = AtomicUsize::new(0);
    let count = || {
        asked.fetch_add(1, Ordering::SeqCst);
        false
    };
    let share = MemoryShare::new(Arc::clone(&memory));
    let other = MemoryShare::new(Arc::clone(&memory));
    // All that is pinned is its own.
    let pages = share.run(&count, || pin(&memory, PAGES));
    for request in requests() {
        assert_eq!(share.run(&count, || request(&memory)).unwrap_err().code(), "OGEE_M001");
    }
    assert!(asked.load(Ordering::SeqCst) <= 8, "one look more for each");
    drop(pages);
    // Another holds it, but whoever asks is no statement, can do without, or is cancelled.
    let pages = other.run(&|| false, || pin(&memory, PAGES));
    other.run(&|| false, || {
        for request in requests() {
            let waiter = {
                let memory = Arc::clone(&memory);
                spawn(move || request(&memory))
            };
            assert_eq!(result(&waiter).unwrap_err().code(), "OGEE_M001");
            for is_cancelled in [false, true] {
                let waiter = {
                    let memory = Arc::clone(&memory);
                    spawn(move || {
                        let share = MemoryShare::new(Arc::clone(&memory));
                        share.run(&|| is_cancelled, || match is_cancelled {
                            true => request(&memory),
                            false => optional(|| request(&memory)),
                        })
                    })
                };
                assert_eq!(result(&waiter).unwrap_err().code(), "OGEE_M001");
            }
        }
        assert!(memory.try_reserve("test", PAGE_SIZE).is_none());
    });
    drop(pages);
}

#[test]
fn a_request_that_waits_hears_that_it_is_cancelled() {
    let memory = manager();
    let asked = Arc::new(AtomicUsize::new(0));
    let holder = MemoryShare::new(Arc::clone(&memory));
    holder.run(&|| false, || {
        let pages = pin(&memory, PAGES);
        let waiter = {
            let (memory, asked) = (Arc::clone(&memory), Arc::clone(&asked));
            let is_cancelled = move || asked.fetch_add(1, Ordering::SeqCst) >= 5;
            spawn(move || {
                MemoryShare::new(Arc::clone(&memory)).run(&is_cancelled, || memory.allocate("test").map(drop))
            })
        };
        assert_eq!(result(&waiter).unwrap_err().code(), "OGEE_M001");
        assert_eq!(asked.load(Ordering::SeqCst), 6);
        drop(pages);
    });
}
