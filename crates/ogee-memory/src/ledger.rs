//! What the pool of one handle may hold and what it holds.
//!
//! `budget = limit - outside`, where outside is, for a handle that counts the process,
//! `max(other, baseline + reservations) + pools of other handles`, and otherwise the reservations alone. *Other* is the memory of the
//! process that belongs to no pool; *baseline* is what it was when nothing was reserved, so that a promise and the allocation
//! it covers are not counted twice.
//!
//! 1. `used` is raised by compare-and-swap against the budget and checked again afterwards, so that a reservation that shrinks the
//!    budget in between is either seen or sees the new `used`.
//!
//! Not here: eviction. A charge that does not fit is refused.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use crate::account::process_account;
use crate::counter::ShardedCounter;

#[derive(Debug)]
pub(crate) struct Ledger {
    counts_process: bool,
    limit: AtomicUsize,
    reserved: AtomicUsize,
    used: CachePadded<AtomicUsize>,
    used_peak: AtomicUsize,
    non_paged: AtomicUsize,
    pinned: ShardedCounter,
}

impl Ledger {
    pub(crate) fn new(limit: usize, counts_process: bool) -> Self {
        Self {
            counts_process,
            limit: AtomicUsize::new(limit),
            reserved: AtomicUsize::new(0),
            used: CachePadded::new(AtomicUsize::new(0)),
            used_peak: AtomicUsize::new(0),
            non_paged: AtomicUsize::new(0),
            pinned: ShardedCounter::new(),
        }
    }

    pub(crate) fn counts_process(&self) -> bool {
        self.counts_process
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::SeqCst)
    }

    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::SeqCst);
    }

    /// Bytes the pool may hold. Computed anew each time (five loads), so that no stale value can be stored over a newer one.
    #[inline]
    pub(crate) fn budget(&self) -> usize {
        self.limit().saturating_sub(self.outside())
    }

    /// Bytes the pool holds.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    pub(crate) fn used_peak(&self) -> usize {
        self.used_peak.load(Ordering::Relaxed)
    }

    pub(crate) fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    pub(crate) fn non_paged(&self) -> usize {
        self.non_paged.load(Ordering::Relaxed)
    }

    pub(crate) fn pinned(&self) -> usize {
        self.pinned.sum()
    }

    pub(crate) fn reset_peak(&self) {
        self.used_peak.store(self.used(), Ordering::Relaxed);
    }

    /// Bytes of the limit that are not the pool's to use.
    #[inline]
    pub(crate) fn outside(&self) -> usize {
        if self.counts_process {
            process_account().outside_of(self.used())
        } else {
            self.reserved.load(Ordering::SeqCst)
        }
    }

    /// Whether the budget is smaller than it would be if nobody outside took more than was promised.
    pub(crate) fn is_beyond_promises(&self) -> bool {
        self.counts_process && process_account().is_beyond_promises()
    }

    /// How far the pool and the outside together are over the limit.
    pub(crate) fn excess(&self) -> usize {
        (self.used() + self.outside()).saturating_sub(self.limit())
    }

    /// Takes `bytes` if the budget has them.
    #[must_use]
    pub(crate) fn try_charge(&self, bytes: usize) -> bool {
        let mut used = self.used.load(Ordering::SeqCst);
        loop {
            if used.saturating_add(bytes) > self.budget() {
                return false;
            }
            match self.used.compare_exchange_weak(used, used + bytes, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(now) => used = now,
            }
        }
        if used + bytes > self.budget() {
            self.used.fetch_sub(bytes, Ordering::SeqCst);
            return false;
        }
        process_account().add_pool(bytes);
        self.used_peak.fetch_max(used + bytes, Ordering::Relaxed);
        true
    }

    /// Gives back what was charged, after the memory has gone back to the system.
    pub(crate) fn uncharge(&self, bytes: usize) {
        process_account().sub_pool(bytes);
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        debug_assert!(before >= bytes, "more is given back than was charged");
    }

    /// Promises `bytes` to allocations outside the pool; the budget shrinks at once.
    pub(crate) fn add_reserved(&self, bytes: usize) {
        self.reserved.fetch_add(bytes, Ordering::SeqCst);
        process_account().add_reserved(bytes);
    }

    pub(crate) fn sub_reserved(&self, bytes: usize) {
        let before = self.reserved.fetch_sub(bytes, Ordering::SeqCst);
        debug_assert!(before >= bytes, "more is given back than was reserved");
        process_account().sub_reserved(bytes);
    }

    pub(crate) fn add_non_paged(&self, bytes: usize) {
        self.non_paged.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sub_non_paged(&self, bytes: usize) {
        self.non_paged.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn add_pinned(&self, bytes: usize) {
        self.pinned.add(bytes as isize);
    }

    #[inline]
    pub(crate) fn sub_pinned(&self, bytes: usize) {
        self.pinned.add(-(bytes as isize));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn charges_stop_at_the_budget_and_reservations_shrink_it() {
        let ledger = Ledger::new(1000, false);
        assert!(ledger.try_charge(600));
        assert!(!ledger.try_charge(401));
        ledger.add_reserved(300);
        assert!(!ledger.try_charge(200));
        assert!(ledger.try_charge(100));
        ledger.add_reserved(50);
        assert_eq!((ledger.excess(), ledger.budget()), (50, 650));
        ledger.sub_reserved(350);
        ledger.uncharge(700);
        assert_eq!((ledger.used(), ledger.used_peak(), ledger.budget()), (0, 700, 1000));
    }

    #[test]
    fn racing_charges_and_reservations_never_exceed_the_limit() {
        let ledger = Ledger::new(1000, false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        if ledger.try_charge(300) {
                            assert!(ledger.used() <= 1000);
                            ledger.uncharge(300);
                        }
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..20_000 {
                    ledger.add_reserved(500);
                    ledger.sub_reserved(500);
                }
            });
        });
        assert_eq!((ledger.used(), ledger.reserved()), (0, 0));
    }
}
