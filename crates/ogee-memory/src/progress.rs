//! An event count: wait until something has happened since one last looked, without a lock on the side that makes it happen.
//!
//! The one who waits reads [`epoch`](Progress::epoch), looks at the state it cares about, and only then calls
//! [`wait_past`](Progress::wait_past) with what it read. The other side changes the state and then calls
//! [`advance`](Progress::advance). No wake-up is lost: either the look saw the change, or the epoch has moved.
//!
//! Not here: what has happened.

use std::time::Duration;

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock, wait};

/// An epoch that can be waited for.
#[derive(Debug)]
pub struct Progress {
    epoch: AtomicU64,
    waiters: AtomicU64,
    gate: Mutex<()>,
    moved: Condvar,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// An event count at epoch zero with nobody waiting.
    pub fn new() -> Self {
        Self { epoch: AtomicU64::new(0), waiters: AtomicU64::new(0), gate: Mutex::new(()), moved: Condvar::new() }
    }

    /// The present epoch; to be read before the state that decides whether to wait.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// How many wait at the moment.
    pub fn waiters(&self) -> u64 {
        self.waiters.load(Ordering::Relaxed)
    }

    /// Moves on and wakes those who wait; to be called after the state was changed.
    pub fn advance(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        // A read-modify-write, so that it is ordered with the one in `wait_past`: whichever comes second sees the other's
        // side. If ours is first, the waiter's acquires it and sees the new epoch; if second, we see the waiter.
        if self.waiters.fetch_add(0, Ordering::SeqCst) > 0 {
            drop(lock(&self.gate));
            self.moved.notify_all();
        }
    }

    /// Blocks until the epoch is another than `epoch`.
    pub fn wait_past(&self, epoch: u64) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut gate = lock(&self.gate);
        while self.epoch.load(Ordering::SeqCst) == epoch {
            gate = wait(&self.moved, gate);
        }
        drop(gate);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Blocks until the epoch is another than `epoch`, or for about `limit`, or for no reason: the caller looks again.
    #[cfg(not(loom))]
    pub fn wait_past_for(&self, epoch: u64, limit: Duration) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut gate = lock(&self.gate);
        if self.epoch.load(Ordering::SeqCst) == epoch {
            self.moved.wait_for(&mut gate, limit);
        }
        drop(gate);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// The same where time does not pass.
    #[cfg(loom)]
    pub fn wait_past_for(&self, epoch: u64, _limit: Duration) {
        self.wait_past(epoch);
    }
}
