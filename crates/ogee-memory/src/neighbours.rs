//! The pools of the handles of one process, which give memory up to each other.
//!
//! The limit is the process's, so what one handle keeps in memory without need is missing to another. A request that finds its own limit reached
//! first takes the free frames of other pools; then a page is evicted where most are unpinned, and its memory goes back to the system, whose the
//! room of both pools is.
//!
//! 1. No lock is held while a page of another pool is evicted.
//!
//! Not here: pools that do not count the process; they share nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::PAGE_SIZE;
use crate::pool::{Need, Pool};

static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// Length of `POOLS`: most processes have one handle, and need not look.
static POOLS_LEN: AtomicUsize = AtomicUsize::new(0);

/// Has others take memory from `pool`, which counts the process, until it goes.
pub(crate) fn enter(pool: &Arc<Pool>) {
    let mut pools = POOLS.lock();
    pools.retain(|other| other.strong_count() > 0);
    pools.push(Arc::downgrade(pool));
    POOLS_LEN.store(pools.len(), Ordering::Relaxed);
}

impl Pool {
    /// The other pools, if they share memory with this one.
    fn neighbours(&self) -> Vec<Arc<Self>> {
        if !self.ledger.counts_process() || POOLS_LEN.load(Ordering::Relaxed) < 2 {
            return Vec::new();
        }
        // Those that are not wanted are dropped when the lock is not held any more: they may be the last references.
        let mut pools: Vec<_> = POOLS.lock().iter().filter_map(Weak::upgrade).collect();
        pools.retain(|pool| !std::ptr::eq(&raw const **pool, self));
        pools
    }

    /// Bytes of pages that could be evicted.
    fn evictable(&self) -> usize {
        let kept = self.frames.free_bytes() + self.ledger.pinned() + self.ledger.non_paged();
        self.ledger.used().saturating_sub(kept)
    }

    /// Bytes that could be had from other pools, by evicting their pages too.
    pub(crate) fn lendable(&self) -> usize {
        self.neighbours().iter().map(|pool| pool.evictable() + pool.frames.free_bytes()).sum()
    }

    /// Has other pools give memory back to the system that `need` is short of: free frames, or, of the one with most unpinned pages, one of those,
    /// if it has more of them than this pool or `own_are_gone`. Whether one did.
    pub(crate) fn take_from_others(&self, need: Need, own_are_gone: bool) -> bool {
        let neighbours = self.neighbours();
        if neighbours.is_empty() {
            return false;
        }
        let wanted = match need {
            Need::Frame => self.shortfall(Need::Bytes(PAGE_SIZE)),
            need => self.shortfall(need),
        };
        if wanted == 0 {
            return false;
        }
        if neighbours.iter().any(|pool| pool.frames.give_back(&pool.ledger, wanted, true) > 0) {
            return true;
        }
        let own = if own_are_gone { 0 } else { self.evictable() };
        let richest = neighbours.iter().max_by_key(|pool| pool.evictable());
        richest.is_some_and(|pool| {
            // If its disk refuses, those who need its memory are told.
            pool.evictable() > own
                && matches!(pool.evict_one(), Ok(true))
                && pool.frames.give_back(&pool.ledger, PAGE_SIZE, true) > 0
        })
    }
}
