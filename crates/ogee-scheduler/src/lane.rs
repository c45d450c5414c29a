//! States of lanes, and waking the blocked ones without a lock.
//!
//! Workers change states under the dispatcher's lock, or alone while they run the lane; wakers change them at any time:
//! `Running -> RunningWoken` and `Blocked -> Idle`, by compare-and-swap.
//!
//! No wake-up is lost. The waker publishes (queue not full, input there), fences, then reads the lane's state; the worker
//! writes `Running`, fences, then lets the job look. Of the two fences one is first in the single total order: either the
//! waker sees `Running` or what follows it, or the job sees what was published. A plain acquire and release pair would
//! allow both to miss.
//!
//! Not here: which lane runs next, and telling a parked worker; both are the dispatcher's.

use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU8, Ordering, fence};

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const RUNNING_WOKEN: u8 = 2;
const BLOCKED: u8 = 3;
const EXHAUSTED: u8 = 4;

/// State of one lane.
#[derive(Debug)]
pub(crate) struct LaneState(AtomicU8);

impl LaneState {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// Whether the lane could be started. Only the dispatcher starts lanes, so under its lock this stays true.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) == IDLE
    }

    /// `Idle -> Running`, before a run of a lane that another worker may have run last.
    pub(crate) fn start(&self) {
        let before = self.0.swap(RUNNING, Ordering::AcqRel);
        assert!(before == IDLE, "a lane is started only when idle, not in state {before}");
        fence(Ordering::SeqCst);
    }

    /// `Running | RunningWoken -> Running`, before the same worker runs the lane again.
    pub(crate) fn rearm(&self) {
        self.0.swap(RUNNING, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// `Running | RunningWoken -> Idle`: the lane may have more morsels.
    pub(crate) fn pause(&self) {
        self.0.store(IDLE, Ordering::Release);
    }

    /// `Running -> Blocked`, or `RunningWoken -> Idle` when a wake came during the run. Tells whether it is blocked.
    pub(crate) fn block(&self) -> bool {
        let blocked = self.0.compare_exchange(RUNNING, BLOCKED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !blocked {
            // Woken: no waker changes this state any more, so a store cannot overwrite one.
            self.0.store(IDLE, Ordering::Release);
        }
        blocked
    }

    /// `Running | RunningWoken -> Exhausted`.
    pub(crate) fn exhaust(&self) {
        self.0.store(EXHAUSTED, Ordering::Release);
    }

    /// Wakes the lane; tells whether it was blocked and is idle now, so that a worker must hear of it. The caller has
    /// executed a sequentially consistent fence after publishing.
    fn wake(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let woken = match seen {
                RUNNING => RUNNING_WOKEN,
                BLOCKED => IDLE,
                _ => return false,
            };
            match self.0.compare_exchange_weak(seen, woken, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return seen == BLOCKED,
                Err(now) => seen = now,
            }
        }
    }
}

/// Buckets of 1, 2, 4, ... lanes: grows without moving a state that a waker may be reading.
const BUCKETS: usize = 16;

/// Most lanes of a job: 2^16 - 1, far above the threads of any machine.
pub(crate) const LANES_MAX: usize = (1 << BUCKETS) - 1;

/// States of all lanes of one job.
#[derive(Debug, Default)]
pub(crate) struct LaneTable {
    // Padded: each state is written at every boundary of its lane by another worker.
    buckets: [OnceLock<Box<[CachePadded<LaneState>]>>; BUCKETS],
}

impl LaneTable {
    /// The state of `lane`, made when it is asked for first.
    pub(crate) fn lane(&self, lane: usize) -> &LaneState {
        let (bucket, at) = place(lane);
        &self.buckets[bucket]
            .get_or_init(|| (0..1usize << bucket).map(|_| CachePadded::new(LaneState::new())).collect())[at]
    }

    /// Wakes every lane; returns how many were blocked and are idle now. One fence and one load per lane when none is
    /// running or blocked.
    pub(crate) fn wake(&self) -> usize {
        fence(Ordering::SeqCst);
        // A bucket not yet made has no lane that ran before the fence, by the same argument as for a state.
        self.buckets.iter().map_while(OnceLock::get).flatten().filter(|lane| lane.wake()).count()
    }
}

/// Bucket of a lane and its place in it.
fn place(lane: usize) -> (usize, usize) {
    assert!(lane < LANES_MAX, "lane {lane} of at most {LANES_MAX}");
    let bucket = (lane + 1).ilog2() as usize;
    (bucket, lane + 1 - (1 << bucket))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_lane_has_its_own_place() {
        let mut expected = (0, 0);
        for lane in 0..LANES_MAX {
            assert_eq!(place(lane), expected);
            expected.1 += 1;
            if expected.1 == 1 << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(expected, (BUCKETS, 0));
    }

    #[test]
    fn a_wake_during_the_run_unblocks() {
        let lane = LaneState::new();
        assert!(!lane.wake());
        lane.start();
        assert!(lane.block());
        assert!(!lane.is_idle());
        assert!(lane.wake());
        assert!(lane.is_idle());
        lane.start();
        assert!(!lane.wake());
        assert!(!lane.block());
        assert!(lane.is_idle());
    }

    #[test]
    fn a_wake_before_the_run_is_forgotten_by_the_next() {
        let lane = LaneState::new();
        lane.start();
        assert!(!lane.wake());
        lane.rearm();
        assert!(lane.block());
    }

    #[test]
    fn an_exhausted_lane_stays_so() {
        let table = LaneTable::default();
        for lane in 0..5 {
            table.lane(lane).start();
        }
        table.lane(0).exhaust();
        for lane in 1..5 {
            assert!(table.lane(lane).block());
        }
        assert_eq!(table.wake(), 4);
        assert_eq!(table.wake(), 0);
        assert!(!table.lane(0).is_idle());
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::atomic::AtomicUsize;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// The dispatcher around one job with one lane, reduced to its lock, condition and the count of items published.
    struct Model {
        table: LaneTable,
        published: AtomicUsize,
        lock: Mutex<()>,
        work: Condvar,
    }

    impl Model {
        fn new() -> Arc<Self> {
            let model = Arc::new(Self {
                table: LaneTable::default(),
                published: AtomicUsize::new(0),
                lock: Mutex::new(()),
                work: Condvar::new(),
            });
            model.table.lane(0);
            model
        }

        fn publish(&self) {
            // Relaxed on purpose: the protocol itself must order it.
            self.published.fetch_add(1, Ordering::Relaxed);
            if self.table.wake() > 0 {
                let guard = self.lock.lock().expect("no panic under it");
                self.work.notify_one();
                drop(guard);
            }
        }

        /// What a worker does until the job has seen `items`; parks when the lane is not idle, as a worker does.
        fn consume(&self, items: usize) {
            let lane = self.table.lane(0);
            loop {
                let mut guard = self.lock.lock().expect("no panic under it");
                while !lane.is_idle() {
                    guard = self.work.wait(guard).expect("no panic under it");
                }
                lane.start();
                drop(guard);
                let seen = self.published.load(Ordering::Relaxed);
                let guard = self.lock.lock().expect("no panic under it");
                if seen == items {
                    lane.exhaust();
                    return;
                }
                lane.block();
                drop(guard);
            }
        }
    }

    /// Three preemptions: enough that each fence is missed when taken out, and few enough for every run of the tests.
    fn bounded() -> loom::model::Builder {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder
    }

    // A lost wake-up leaves the consumer waiting for ever, which loom reports as a deadlock.

    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let model = Model::new();
            let waker = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.publish();
                    model.publish();
                })
            };
            model.consume(2);
            waker.join().expect("no panic");
        });
    }

    #[test]
    fn no_wake_up_of_two_wakers_is_lost() {
        bounded().check(|| {
            let model = Model::new();
            let wakers = [(); 2].map(|()| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.publish())
            });
            model.consume(2);
            for waker in wakers {
                waker.join().expect("no panic");
            }
        });
    }

    #[test]
    fn no_wake_up_is_lost_when_the_worker_keeps_its_lane() {
        bounded().check(|| {
            let model = Model::new();
            let waker = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.publish();
                    model.publish();
                })
            };
            let lane = model.table.lane(0);
            lane.start();
            // A first morsel that finds something else to do, then one that needs all that is published: the second
            // wake must not take the mark that the first one left on the run before for one on this run.
            lane.rearm();
            if model.published.load(Ordering::Relaxed) < 2 {
                let guard = model.lock.lock().expect("no panic under it");
                lane.block();
                drop(guard);
                model.consume(2);
            }
            waker.join().expect("no panic");
        });
    }
}
