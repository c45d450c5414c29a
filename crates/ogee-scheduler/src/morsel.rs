//! Ranges of morsels, cut on demand, with stealing.
//!
//! Every lane starts with its own equal share of `0..total` on its own cache line and takes morsels from its front; when
//! its share is exhausted it takes from the fronts of the others, beginning with its neighbour. One `fetch_add` a morsel,
//! no lock.
//!
//! After "Morsel-driven parallelism", SIGMOD 2014, section 3.3.
//!
//! Not here: nearness. All other lanes are equally far.

use std::ops::Range;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Ordering};

/// The not yet handed out part of one lane's share.
#[derive(Debug)]
struct Share {
    /// First index not handed out. Passes `end` by at most one morsel for each lane that looks at the same time.
    next: AtomicUsize,
    end: usize,
}

impl Share {
    fn take(&self, morsel: usize) -> Option<Range<usize>> {
        // Relaxed: the indices are handed out by the atomicity of the addition; nothing is published with them. The
        // look before it keeps exhausted shares in the caches of all, and bounds how far `next` passes `end`.
        if self.next.load(Ordering::Relaxed) >= self.end {
            return None;
        }
        let start = self.next.fetch_add(morsel, Ordering::Relaxed);
        (start < self.end).then(|| start..self.end.min(start + morsel))
    }
}

/// Hands out `0..total` in morsels, each index exactly once.
#[derive(Debug)]
pub struct MorselRanges {
    shares: Box<[CachePadded<Share>]>,
    morsel: usize,
}

impl MorselRanges {
    /// Divides `0..total` (rows, row groups, partitions) into equal shares for `lanes` lanes, to be handed out in morsels
    /// of `morsel` indices or fewer at the end of a share. `lanes` and `morsel` of 0 count as 1. About 100,000 rows a
    /// morsel are good, and above 10,000 the overhead is small (paper, figure 6).
    ///
    /// # Panics
    /// If `total` exceeds `usize::MAX / 2`.
    pub fn new(total: usize, lanes: usize, morsel: usize) -> Self {
        assert!(total <= usize::MAX / 2, "{total} indices cannot be divided into morsels");
        let lanes = lanes.max(1);
        let (share, longer) = (total / lanes, total % lanes);
        let mut start = 0;
        let shares = (0..lanes)
            .map(|lane| {
                let end = start + share + usize::from(lane < longer);
                let next = AtomicUsize::new(start);
                start = end;
                CachePadded::new(Share { next, end })
            })
            .collect();
        Self {
            shares,
            // No more than a share: all lanes together then pass an end by at most `total` and a bit, without overflow.
            morsel: morsel.clamp(1, share + 1),
        }
    }

    /// The next morsel for `lane`: from its own share, else stolen from another, else none is left. A lane beyond the
    /// number of shares (a job that grew) begins at the share it maps to.
    pub fn next(&self, lane: usize) -> Option<Range<usize>> {
        let (before, from) = self.shares.split_at(lane % self.shares.len());
        from.iter().chain(before).find_map(|share| share.take(self.morsel))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn own_share_first_then_the_neighbours() {
        let ranges = MorselRanges::new(10, 3, 2);
        // Shares 0..4, 4..7, 7..10.
        let taken: Vec<_> = std::iter::from_fn(|| ranges.next(1)).collect();
        assert_eq!(taken, [4..6, 6..7, 7..9, 9..10, 0..2, 2..4]);
        assert_eq!(ranges.next(0), None);
        assert_eq!(ranges.next(2), None);
    }

    #[test]
    fn odd_numbers() {
        assert_eq!(MorselRanges::new(0, 4, 10).next(0), None);
        let ranges = MorselRanges::new(3, 0, 0);
        assert_eq!(std::iter::from_fn(|| ranges.next(7)).count(), 3);
        let ranges = MorselRanges::new(5, 2, usize::MAX);
        assert_eq!(std::iter::from_fn(|| ranges.next(0)).collect::<Vec<_>>(), [0..3, 3..5]);
        let ranges = MorselRanges::new(2, 8, 100);
        assert_eq!(std::iter::from_fn(|| ranges.next(5)).collect::<Vec<_>>(), [0..1, 1..2]);
    }

    #[test]
    fn every_index_once_under_stealing_threads() {
        let (total, lanes) = (1_000_003, 4);
        let ranges = MorselRanges::new(total, lanes, 17);
        let mut taken: Vec<Range<usize>> = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..lanes)
                .map(|lane| {
                    let ranges = &ranges;
                    scope.spawn(move || std::iter::from_fn(|| ranges.next(lane)).collect::<Vec<_>>())
                })
                .collect();
            lanes.into_iter().flat_map(|lane| lane.join().expect("no panic in a lane")).collect()
        });
        taken.sort_by_key(|range| range.start);
        let mut end = 0;
        for range in taken {
            assert_eq!(range.start, end);
            end = range.end;
        }
        assert_eq!(end, total);
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn every_index_once_under_stealing() {
        loom::model(|| {
            // Shares 0..3 and 3..5 in morsels of 2: each lane takes its own, and both meet in either share.
            let ranges = Arc::new(MorselRanges::new(5, 2, 2));
            let other = {
                let ranges = Arc::clone(&ranges);
                thread::spawn(move || std::iter::from_fn(|| ranges.next(1)).flatten().collect::<Vec<_>>())
            };
            let mut taken: Vec<_> = std::iter::from_fn(|| ranges.next(0)).flatten().collect();
            taken.extend(other.join().expect("no panic"));
            taken.sort_unstable();
            assert_eq!(taken, [0, 1, 2, 3, 4]);
        });
    }
}
