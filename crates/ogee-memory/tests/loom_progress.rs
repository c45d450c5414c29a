//! Model checks of the event count: nobody waits for what has happened.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p ogee-memory --release --test 'loom_*'`.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "tests")]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use ogee_memory::progress::Progress;

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(test);
}

#[test]
fn one_who_waits_is_woken() {
    model(|| {
        let shared = Arc::new((Progress::new(), AtomicUsize::new(1)));
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.fetch_sub(1, Ordering::SeqCst);
                shared.0.advance();
            })
        };
        loop {
            let epoch = shared.0.epoch();
            if shared.1.load(Ordering::SeqCst) == 0 {
                break;
            }
            shared.0.wait_past(epoch);
        }
        writer.join().unwrap();
        assert_eq!(shared.0.waiters(), 0);
    });
}

#[test]
fn two_who_wait_for_two_are_woken() {
    model(|| {
        let shared = Arc::new((Progress::new(), AtomicUsize::new(1)));
        let waiter = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let epoch = shared.0.epoch();
                if shared.1.load(Ordering::SeqCst) > 0 {
                    shared.0.wait_past(epoch);
                }
            })
        };
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.fetch_sub(1, Ordering::SeqCst);
                shared.0.advance();
            })
        };
        let epoch = shared.0.epoch();
        if shared.1.load(Ordering::SeqCst) > 0 {
            shared.0.wait_past(epoch);
        }
        waiter.join().unwrap();
        writer.join().unwrap();
    });
}
