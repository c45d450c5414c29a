//! A counter that many threads change and few read: one cache line a shard.
//!
//! Not here: exact reads. A sum taken while others count is some value the counter might have had.

use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

/// Shards of a counter. Threads beyond this many share.
pub(crate) const SHARDS: usize = 32;

thread_local! {
    /// A `Cell` without a destructor: it can be read to the very end of a thread, also by an allocator.
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);

/// The shard of the calling thread, the same for its whole life.
#[inline]
pub(crate) fn shard() -> usize {
    SHARD
        .try_with(|cell| {
            let shard = cell.get();
            if shard != usize::MAX {
                return shard;
            }
            let shard = NEXT_SHARD.fetch_add(1, Ordering::Relaxed) % SHARDS;
            cell.set(shard);
            shard
        })
        .unwrap_or(0)
}

/// A sum over shards.
#[derive(Debug)]
pub(crate) struct ShardedCounter([CachePadded<AtomicIsize>; SHARDS]);

impl ShardedCounter {
    pub(crate) const fn new() -> Self {
        Self([const { CachePadded::new(AtomicIsize::new(0)) }; SHARDS])
    }

    #[inline]
    pub(crate) fn add(&self, amount: isize) {
        self.0[shard()].fetch_add(amount, Ordering::Relaxed);
    }

    /// The shard of the calling thread, for a count that acts when a shard is full.
    #[inline]
    pub(crate) fn own_shard(&self) -> &AtomicIsize {
        &self.0[shard()]
    }

    /// The sum, negative where it is a part of another.
    pub(crate) fn signed_sum(&self) -> isize {
        self.0.iter().map(|shard| shard.load(Ordering::Relaxed)).sum()
    }

    /// The sum, zero where reading between two changes makes it negative.
    pub(crate) fn sum(&self) -> usize {
        usize::try_from(self.signed_sum()).unwrap_or(0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let counter = ShardedCounter::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(3)));
            }
        });
        assert_eq!(counter.sum(), 24_000);
        counter.add(-24_001);
        assert_eq!(counter.sum(), 0);
    }
}
