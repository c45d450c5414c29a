//! Model checks of a page's life: every interleaving of those who pin, evict, load and destroy it.
//!
//! A model page has one word of bytes, which the model checker watches for unordered accesses, and a place on disk under the
//! lock that the real page holds over the end of a write.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p ogee-memory --release --test 'loom_*'`.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "the bytes of a model page are a cell that the model checker watches")]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use ogee_memory::page_state::{Destroy, PageState, Pin, Unpin, Written};

/// What memory that was given back holds.
const FREED: u64 = u64::MAX;

struct ModelPage {
    state: PageState,
    bytes: UnsafeCell<u64>,
    place: Mutex<Option<u64>>,
    loads: AtomicUsize,
    freed: AtomicUsize,
}

impl ModelPage {
    /// A resident page that holds `value`, and the sequence to evict it with.
    fn resident(value: u64) -> (Arc<Self>, u64) {
        let state = PageState::new_pinned();
        let Unpin::Enqueue(sequence) = state.unpin() else { panic!("the only pin") };
        let page = Self {
            state,
            bytes: UnsafeCell::new(value),
            place: Mutex::new(None),
            loads: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
        };
        (Arc::new(page), sequence)
    }

    fn evicted(value: u64) -> Arc<Self> {
        let (page, sequence) = Self::resident(value);
        page.evict(sequence);
        page
    }

    fn read(&self) -> u64 {
        // SAFETY: the model checker fails the test if anybody writes at the same time.
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    fn write(&self, value: u64) {
        // SAFETY: the model checker fails the test if anybody else accesses the bytes at the same time.
        self.bytes.with_mut(|bytes| unsafe { *bytes = value });
    }

    fn free_memory(&self) {
        self.write(FREED);
        self.freed.fetch_add(1, Ordering::SeqCst);
    }

    /// What an evictor does with an entry of the queue, and with the entries that come of it.
    fn evict(&self, sequence: u64) {
        let mut next = Some(sequence);
        while let Some(sequence) = next.take() {
            if self.state.claim(sequence) {
                let copy = self.read();
                if !self.state.begin_write() {
                    self.free_memory();
                    return;
                }
                let mut place = self.place.lock().unwrap();
                assert!(place.replace(copy).is_none(), "a page with two places");
                match self.state.finish_write(sequence) {
                    Written::Evicted => self.free_memory(),
                    Written::Kept(requeue) => {
                        *place = None;
                        next = requeue;
                    }
                    Written::Destroyed => {
                        *place = None;
                        self.free_memory();
                    }
                }
            }
        }
    }

    fn load(&self) {
        let copy = self.place.lock().unwrap().take().expect("an evicted page has a place");
        self.write(copy);
        self.loads.fetch_add(1, Ordering::SeqCst);
    }

    fn pin(&self) {
        loop {
            match self.state.pin() {
                Pin::Done { .. } => return,
                Pin::Load => {
                    self.load();
                    assert_eq!(self.state.finish_load(), None);
                    return;
                }
                Pin::Wait => thread::yield_now(),
            }
        }
    }

    /// The sequence to evict the page with, if it is this thread's to queue.
    fn unpin(&self) -> Option<u64> {
        match self.state.unpin() {
            Unpin::Enqueue(sequence) => Some(sequence),
            Unpin::StillPinned | Unpin::WriterEnqueues => None,
        }
    }
}

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(test);
}

#[test]
fn pin_against_evict() {
    model(|| {
        let (page, sequence) = ModelPage::resident(1);
        let evictor = {
            let page = Arc::clone(&page);
            thread::spawn(move || page.evict(sequence))
        };
        page.pin();
        assert_eq!(page.read(), 1);
        page.write(2);
        let _ = page.unpin();
        evictor.join().unwrap();
        page.pin();
        assert_eq!(page.read(), 2);
    });
}

#[test]
fn write_back_against_pins_that_come_and_go_and_a_second_evictor() {
    model(|| {
        let (page, sequence) = ModelPage::resident(1);
        let evictor = {
            let page = Arc::clone(&page);
            thread::spawn(move || page.evict(sequence))
        };
        page.pin();
        page.write(page.read() + 1);
        if let Some(sequence) = page.unpin() {
            page.evict(sequence);
        }
        evictor.join().unwrap();
        // Whoever was to queue the page did, and nothing it held was lost.
        assert!(!page.state.is_resident());
        page.pin();
        assert_eq!(page.read(), 2);
        assert_eq!(*page.place.lock().unwrap(), None);
    });
}

#[test]
fn of_two_who_pin_an_evicted_page_one_loads() {
    model(|| {
        let page = ModelPage::evicted(7);
        let other = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                page.pin();
                assert_eq!(page.read(), 7);
            })
        };
        page.pin();
        assert_eq!(page.read(), 7);
        other.join().unwrap();
        assert_eq!(page.loads.load(Ordering::SeqCst), 1);
        assert_eq!(page.state.unpin(), Unpin::StillPinned);
        assert!(matches!(page.state.unpin(), Unpin::Enqueue(_)));
    });
}

#[test]
fn a_load_ahead_and_a_pin_load_once() {
    model(|| {
        let page = ModelPage::evicted(7);
        let ahead = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                if page.state.load_ahead() {
                    page.load();
                    // Without the pin of the other thread this queues the page, with it the other's unpin does.
                    let _ = page.state.finish_load();
                }
            })
        };
        page.pin();
        assert_eq!(page.read(), 7);
        page.write(8);
        ahead.join().unwrap();
        assert_eq!(page.loads.load(Ordering::SeqCst), 1);
        assert!(page.unpin().is_some(), "nobody else holds a pin");
    });
}

#[test]
fn a_load_that_fails_lets_the_next_one_try() {
    model(|| {
        let page = ModelPage::evicted(7);
        let failing = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                if page.state.load_ahead() {
                    page.state.fail_load();
                }
            })
        };
        page.pin();
        assert_eq!(page.read(), 7);
        failing.join().unwrap();
    });
}

#[test]
fn destroy_against_evict() {
    model(|| {
        let (page, sequence) = ModelPage::resident(1);
        let evictor = {
            let page = Arc::clone(&page);
            thread::spawn(move || page.evict(sequence))
        };
        match page.state.destroy() {
            Destroy::Memory => page.free_memory(),
            Destroy::Slot => {
                let place = page.place.lock().unwrap().take();
                assert_eq!(place, Some(1));
            }
            Destroy::ByWriter => {}
        }
        evictor.join().unwrap();
        assert_eq!(page.freed.load(Ordering::SeqCst), 1, "memory is freed once");
        assert_eq!(*page.place.lock().unwrap(), None, "and so is the place");
    });
}

#[test]
fn a_write_that_fails_against_a_pin_leaves_the_page_evictable() {
    model(|| {
        let (page, sequence) = ModelPage::resident(1);
        let evictor = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                if !page.state.claim(sequence) {
                    return None;
                }
                assert!(page.state.begin_write());
                match page.state.abort_write() {
                    Written::Kept(requeue) => requeue,
                    other => panic!("{other:?}"),
                }
            })
        };
        page.pin();
        page.write(2);
        let by_pinner = page.unpin();
        let by_writer = evictor.join().unwrap();
        let live = [by_pinner, by_writer].into_iter().flatten().filter(|&sequence| page.state.is_evictable(sequence));
        assert_eq!(live.count(), 1, "one of the two queues the page");
    });
}
