//! Pages in the order in which they leave memory, without a lock: those needed last first, as far as their owners told, and by when they
//! were last unpinned.
//!
//! An owner that will come back to its pages in an order of its own, such as partition by partition, says so ([`NeededAt`]): then those needed
//! last leave first, and pages needed together leave together, so that the first are still there when their turn comes. Pages of which
//! nobody told anything go after those of a second half and before those of a first. There is a list for each of 64 positions and one for
//! the others; within a list it is the age that counts.
//!
//! Unpinning a page for good appends an entry of the page and its sequence; pinning it again removes nothing, it makes the entry
//! stale (the page's next unpin has another sequence). A page whose position was changed meanwhile stays in its list until it comes out, and
//! moves then, if it is needed sooner than the list says. Stale entries are skipped when they come out; when they are more than
//! half of the queue, they are purged: a purge looks at each entry once and follows at least half as many unpins.
//!
//! An entry keeps the few words of a page's state alive, not its memory: a page that is destroyed gives up frame or slot
//! at once.
//!
//! Not here: claiming a page. An entry that comes out says which page to try.
//! After "Robust external hash aggregation in the solid state age", ICDE 2024, section III.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crossbeam_queue::SegQueue;
use parking_lot::Mutex;

use crate::counter::ShardedCounter;
use crate::page::Page;

/// Positions that are told apart.
const POSITIONS: usize = 64;

/// Lists of positions, and the one of pages without.
const LISTS: usize = POSITIONS + 1;

/// The list of pages of which nobody told when they are needed.
const UNTOLD: u8 = (POSITIONS / 2) as u8;

/// A shard of the count of pushes asks for a purge check every so many of them.
const CHECK_EVERY: isize = 1024;

/// When a page will be needed, as one of the pages of an owner: early positions stay in memory, late ones leave it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeededAt(u8);

impl NeededAt {
    /// After all others.
    pub const LAST: Self = Self((POSITIONS - 1) as u8);

    /// As number `index` of `count`, counted from 0.
    pub fn new(index: usize, count: usize) -> Self {
        Self::LAST.split(index, count)
    }

    /// As number `index` of the `count` parts of what is needed at this position: before all that is needed later than this, as one that
    /// spreads over all positions that have passed.
    #[must_use]
    pub fn split(self, index: usize, count: usize) -> Self {
        debug_assert!(index < count, "the position is one of them");
        Self((index * (usize::from(self.0) + 1) / count.max(1)) as u8)
    }
}

/// The list that a page belongs to.
#[derive(Debug)]
pub(crate) struct Position(AtomicU8);

impl Position {
    pub(crate) fn untold() -> Self {
        Self(AtomicU8::new(UNTOLD))
    }

    pub(crate) fn set(&self, needed: NeededAt) {
        self.0.store(needed.0 + u8::from(needed.0 >= UNTOLD), Ordering::Relaxed);
    }

    fn list(&self) -> usize {
        usize::from(self.0.load(Ordering::Relaxed))
    }
}

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
    /// The last is emptied first.
    lists: [SegQueue<Entry>; LISTS],
    pushes: ShardedCounter,
    /// Entries left by the last purge: twice as many and some are a reason for the next.
    live_len: AtomicUsize,
    purging: Mutex<()>,
}

impl EvictionQueue {
    pub(crate) fn new() -> Self {
        Self {
            lists: std::array::from_fn(|_| SegQueue::new()),
            pushes: ShardedCounter::new(),
            live_len: AtomicUsize::new(0),
            purging: Mutex::new(()),
        }
    }

    /// Appends a page. True if the queue has grown so much that [`purge`](Self::purge) should be called.
    #[inline]
    pub(crate) fn push(&self, page: Arc<Page>, sequence: u64) -> bool {
        self.lists[page.position.list()].push(Entry { page, sequence });
        let shard = self.pushes.own_shard();
        let pushes = shard.fetch_add(1, Ordering::Relaxed) + 1;
        pushes % CHECK_EVERY == 0 && self.is_overgrown()
    }

    #[cold]
    fn is_overgrown(&self) -> bool {
        self.len() > 2 * self.live_len.load(Ordering::Relaxed) + 4 * CHECK_EVERY as usize
    }

    /// The least recently unpinned of the pages needed last; its entry may be stale.
    pub(crate) fn pop(&self) -> Option<Entry> {
        for (index, list) in self.lists.iter().enumerate().rev() {
            while let Some(entry) = list.pop() {
                let told = entry.page.position.list();
                if told >= index {
                    return Some(entry);
                }
                if entry.is_live() {
                    self.lists[told].push(entry);
                }
            }
        }
        None
    }

    /// Entries, stale ones included.
    pub(crate) fn len(&self) -> usize {
        self.lists.iter().map(SegQueue::len).sum()
    }

    /// Drops stale entries. One thread at a time; others return at once. Live ones go to the end in their old order, so those
    /// pushed meanwhile come before some of them.
    pub(crate) fn purge(&self) {
        let Some(_purging) = self.purging.try_lock() else { return };
        let mut live = 0;
        for list in &self.lists {
            for _ in 0..list.len() {
                let Some(entry) = list.pop() else { break };
                if entry.is_live() {
                    live += 1;
                    list.push(entry);
                }
            }
        }
        self.live_len.store(live, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{BufferManager, MemoryConfig, PAGE_SIZE, PageHandle};

    #[test]
    fn pinning_again_and_again_does_not_grow_the_queue() {
        let config = MemoryConfig { limit: 16 * PAGE_SIZE, counts_process: false, ..MemoryConfig::default() };
        let manager = BufferManager::new(config).unwrap();
        let pages: Vec<_> = (0..4).map(|_| manager.allocate("test").unwrap().into_handle()).collect();
        for _ in 0..100_000 {
            drop(pages[1].pin().unwrap());
        }
        let queue = &pages[0].0.pool.queue;
        assert!(queue.len() < 10_000, "{}", queue.len());
        // The order of the others is kept: the page pinned all the time comes last.
        let live = std::iter::from_fn(|| queue.pop()).filter(Entry::is_live);
        let order: Vec<_> = live.map(|entry| Arc::as_ptr(&entry.page)).collect();
        let expected: Vec<_> = [0, 2, 3, 1].map(|index: usize| Arc::as_ptr(&pages[index].0.page)).to_vec();
        assert_eq!(order, expected);
    }

    #[test]
    fn what_is_needed_last_leaves_first() {
        let config = MemoryConfig { limit: 64 * PAGE_SIZE, counts_process: false, ..MemoryConfig::default() };
        let manager = BufferManager::new(config).unwrap();
        let page = |needed: Option<NeededAt>| {
            let page = manager.allocate("test").unwrap();
            if let Some(needed) = needed {
                page.handle().set_needed(needed);
            }
            page.into_handle()
        };
        let order = |pages: &[PageHandle]| -> Vec<usize> {
            let queue = &pages[0].0.pool.queue;
            let live = std::iter::from_fn(|| queue.pop()).filter(Entry::is_live);
            live.map(|entry| pages.iter().position(|page| Arc::ptr_eq(&page.0.page, &entry.page)).unwrap()).collect()
        };
        // 0 to 7 are the two pages of each of four partitions, 8 and 9 are nobody's.
        let mut pages: Vec<_> = (0..8).map(|i| page(Some(NeededAt::new(i % 4, 4)))).collect();
        pages.extend([page(None), page(None)]);
        assert_eq!(order(&pages), [3, 7, 2, 6, 8, 9, 1, 5, 0, 4]);
        // The parts of partition 2 come before partition 3, one after the other.
        let pages: Vec<_> = [
            page(Some(NeededAt::new(3, 4))),
            page(Some(NeededAt::new(2, 4).split(0, 2))),
            page(Some(NeededAt::new(2, 4).split(1, 2))),
            page(None),
        ]
        .to_vec();
        assert_eq!(order(&pages), [0, 3, 2, 1]);
        // One that is needed sooner than it was said when it was unpinned moves; one that is needed later leaves with its list.
        let pages: Vec<_> = (0..4).map(|i| page((i != 3).then(|| NeededAt::new(i, 3)))).collect();
        pages[2].set_needed(NeededAt::new(0, 3));
        pages[3].set_needed(NeededAt::LAST);
        assert_eq!(order(&pages), [3, 1, 0, 2]);
    }
}
