//! Shares of the pool for those who use it at once.
//!
//! What could be had by eviction ([`BufferManager::available`]) is the same for all who ask at the same time, and is gone only when they
//! pin. Someone who plans with it therefore says so: what a share was told is its *claim* until its next phase, and the others plan
//! without it. Those who are at work and have not asked yet count with an equal part, and nobody is told less than half of one:
//!
//! ```text
//! told = min(available, max(budget - Σ others max(claim, budget / n), budget / 2n))
//! ```
//!
//! Of both, the pages that other handles of the process have unpinned are a part. Whoever is alone is told all that is available. Shares follow
//! those who come and go at the next phase: claims larger than an equal part end by themselves, since nobody gives back what was pinned.
//!
//! Not here: what a claim is used for. Nothing is set aside; requests for memory are served whoever makes them, and wait for others (`statements`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::manager::BufferManager;
use crate::statements::{self, Statement};

/// All shares of a pool.
#[derive(Debug, Default)]
pub(crate) struct Governor {
    next: AtomicU64,
    tenants: Mutex<Vec<Tenant>>,
}

#[derive(Debug)]
struct Tenant {
    number: u64,
    /// Bytes that it plans with in its present phase.
    claim: usize,
    /// Phases that are still to end, but for the last, in which results flow out as fast as they are taken.
    phases: usize,
}

impl Tenant {
    fn is_at_work(&self) -> bool {
        self.claim > 0 || self.phases > 0
    }
}

impl Governor {
    fn with<T>(&self, number: u64, change: impl FnOnce(&mut Tenant) -> T) -> Option<T> {
        self.tenants.lock().iter_mut().find(|tenant| tenant.number == number).map(change)
    }

    /// What tenant `number` may plan with of `available` bytes of a budget.
    fn claim(&self, number: u64, budget: usize, available: usize) -> usize {
        let mut tenants = self.tenants.lock();
        let others = || tenants.iter().filter(|tenant| tenant.number != number && tenant.is_at_work());
        let equal = budget / (others().count() + 1);
        let theirs = others().map(|tenant| tenant.claim.max(equal)).sum();
        let told = available.min(budget.saturating_sub(theirs).max(equal / 2));
        if let Some(tenant) = tenants.iter_mut().find(|tenant| tenant.number == number) {
            tenant.claim = tenant.claim.max(told);
        }
        told
    }
}

/// One of those who share a pool, e.g. a query.
#[derive(Debug)]
pub struct MemoryShare {
    memory: Arc<BufferManager>,
    number: u64,
    statement: Arc<Statement>,
}

impl MemoryShare {
    /// A share of `memory`, not at work yet.
    pub fn new(memory: Arc<BufferManager>) -> Self {
        let governor = memory.governor();
        let number = governor.next.fetch_add(1, Ordering::Relaxed);
        governor.tenants.lock().push(Tenant { number, claim: 0, phases: 0 });
        let statement = memory.statements().add();
        Self { memory, number, statement }
    }

    /// Does `work` of the owner. What it pins, allocates or reserves is the owner's; where there is nothing to be had, it waits for others to
    /// release some, as long as they may, and until `is_cancelled`.
    pub fn run<T>(&self, is_cancelled: &dyn Fn() -> bool, work: impl FnOnce() -> T) -> T {
        statements::run(&self.statement, is_cancelled, work)
    }

    /// Bytes that the owner may plan to pin now; it is taken to do so until the phase ends.
    pub fn claim(&self) -> usize {
        self.memory.governor().claim(self.number, self.memory.budget_with_others(), self.memory.available())
    }

    /// The owner starts to work, in `phases`.
    pub fn begin(&self, phases: usize) {
        self.memory.governor().with(self.number, |tenant| tenant.phases = phases.saturating_sub(1));
    }

    /// A phase has ended, and what it pinned is free.
    pub fn end_phase(&self) {
        self.memory.governor().with(self.number, |tenant| {
            tenant.phases = tenant.phases.saturating_sub(1);
            tenant.claim = 0;
        });
    }

    /// The owner's work has ended.
    pub fn end(&self) {
        self.memory.governor().with(self.number, |tenant| (tenant.claim, tenant.phases) = (0, 0));
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.memory.statements().remove(&self.statement);
        self.memory.governor().tenants.lock().retain(|tenant| tenant.number != self.number);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::MemoryConfig;

    #[test]
    fn who_is_alone_has_all_and_several_share() {
        const MIB: usize = 1 << 20;
        let config = MemoryConfig { limit: 64 * MIB, counts_process: false, ..MemoryConfig::default() };
        let memory = BufferManager::new(config).expect("a limit large enough");
        let [a, b, c] = [(); 3].map(|()| MemoryShare::new(Arc::clone(&memory)));
        a.begin(2);
        assert_eq!(a.claim(), 64 * MIB);
        // Nothing is left, but everyone has half of an equal part.
        b.begin(3);
        assert_eq!(b.claim(), 16 * MIB);
        a.end_phase();
        assert_eq!(a.claim(), 32 * MIB);
        b.end_phase();
        assert_eq!(b.claim(), 32 * MIB);
        // One that is at work and has not asked yet counts.
        c.begin(2);
        b.end_phase();
        assert_eq!(b.claim(), (64 - 32) * MIB - 64 * MIB / 3);
        drop((a, c));
        b.end();
        assert_eq!(b.claim(), 64 * MIB);
        // What is pinned is had by nobody.
        let page = memory.allocate("test").expect("room for a page");
        assert_eq!(b.claim(), 64 * MIB - page.len());
    }
}
