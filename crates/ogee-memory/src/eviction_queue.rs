//! Pages in the order in which they were last unpinned, without a lock.
//!
//! Unpinning a page for good appends an entry of the page and its sequence; pinning it again removes nothing, it makes the entry
//! stale (the page's next unpin has another sequence). Stale entries are skipped when they come out; when they are more than
//! half of the queue, they are purged: a purge looks at each entry once and follows at least half as many unpins.
//!
//! An entry keeps the few words of a page's state alive, not its memory: a page that is destroyed gives up frame or slot
//! at once.
//!
//! Not here: claiming a page. An entry that comes out says which page to try.
//! After "Robust external hash aggregation in the solid state age", ICDE 2024, section III.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::SegQueue;
use parking_lot::Mutex;

use crate::counter::ShardedCounter;
use crate::page::Page;

/// A shard of the count of pushes asks for a purge check every so many of them.
const CHECK_EVERY: isize = 1024;

/// A page as it was when it was unpinned.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) page: Arc<Page>,
    pub(crate) sequence: u64,
}

impl Entry {
    pub(crate) fn is_live(&self) -> bool {
        self.page.state.is_evictable(self.sequence)
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct EvictionQueue {
    entries: SegQueue<Entry>,
    pushes: ShardedCounter,
    /// Entries left by the last purge: twice as many and some are a reason for the next.
    live_len: AtomicUsize,
    purging: Mutex<()>,
}

impl EvictionQueue {
    pub(crate) fn new() -> Self {
        Self {
            entries: SegQueue::new(),
            pushes: ShardedCounter::new(),
            live_len: AtomicUsize::new(0),
            purging: Mutex::new(()),
        }
    }

    /// Appends a page. True if the queue has grown so much that [`purge`](Self::purge) should be called.
    #[inline]
    pub(crate) fn push(&self, page: Arc<Page>, sequence: u64) -> bool {
        self.entries.push(Entry { page, sequence });
        let shard = self.pushes.own_shard();
        let pushes = shard.fetch_add(1, Ordering::Relaxed) + 1;
        pushes % CHECK_EVERY == 0 && self.is_overgrown()
    }

    #[cold]
    fn is_overgrown(&self) -> bool {
        self.entries.len() > 2 * self.live_len.load(Ordering::Relaxed) + 4 * CHECK_EVERY as usize
    }

    /// The least recently unpinned page; its entry may be stale.
    pub(crate) fn pop(&self) -> Option<Entry> {
        self.entries.pop()
    }

    /// Entries, stale ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Drops stale entries. One thread at a time; others return at once. Live ones go to the end in their old order, so those
    /// pushed meanwhile come before some of them.
    pub(crate) fn purge(&self) {
        let Some(_purging) = self.purging.try_lock() else { return };
        let mut live = 0;
        for _ in 0..self.entries.len() {
            let Some(entry) = self.entries.pop() else { break };
            if entry.is_live() {
                live += 1;
                self.entries.push(entry);
            }
        }
        self.live_len.store(live, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{BufferManager, MemoryConfig, PAGE_SIZE};

    #[test]
    fn pinning_again_and_again_does_not_grow_the_queue() {
        let config = MemoryConfig { limit: 16 * PAGE_SIZE, counts_process: false, ..MemoryConfig::default() };
        let manager = BufferManager::new(config).unwrap();
        let pages: Vec<_> = (0..4).map(|_| manager.allocate("test").unwrap().into_handle()).collect();
        for _ in 0..100_000 {
            drop(pages[1].pin().unwrap());
        }
        let queue = &pages[0].0.pool.queue;
        assert!(queue.entries.len() < 10_000, "{}", queue.entries.len());
        // The order of the others is kept: the page pinned all the time comes last.
        let live = std::iter::from_fn(|| queue.pop()).filter(Entry::is_live);
        let order: Vec<_> = live.map(|entry| Arc::as_ptr(&entry.page)).collect();
        let expected: Vec<_> = [0, 2, 3, 1].map(|index: usize| Arc::as_ptr(&pages[index].0.page)).to_vec();
        assert_eq!(order, expected);
    }
}
