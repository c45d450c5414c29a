//! Whether new pieces of memory are huge pages, decided by what touching them costs.
//!
//! A huge page that the system has at hand takes 0.1 ns a byte to touch first, small pages 0.4. But a machine that is virtual may have given free blocks
//! of that size back to its host, which then takes 1 to 10 ns a byte to bring them again, while small pages come out of blocks in parts that it
//! kept. So both are measured all the time, and pieces are of the kind that is cheaper. What spares misses later is worth a little more.
//!
//! Not here: limits below which there are no huge pages (`frame`).

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::mapping::Backing;

/// What small pages take before any were touched, in picoseconds per byte.
const SMALL_EXPECTED: u64 = 370;
/// What huge pages may take more: a row of 64 bytes is then found as much sooner as it was made later.
const HUGE_WORTH: u64 = 100;
/// The same where each 16 bytes are looked at twice at least, in no order: 7 ns each time.
const SCATTERED_WORTH: u64 = 900;
/// While pieces are of small pages, one in so many is not.
const TRIED_EVERY: u64 = 32;
/// The latest piece counts as one part in so many of the average.
const WEIGHT: u64 = 8;

/// How memory is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Mostly one part after the other.
    InOrder,
    /// Anywhere.
    Scattered,
}

/// What touching memory has cost, as moving averages in picoseconds per byte.
#[derive(Debug)]
pub(crate) struct TouchCosts {
    huge: AtomicU64,
    small: AtomicU64,
    /// Pieces of small pages since one of the other kind.
    passed_over: AtomicU64,
}

impl Default for TouchCosts {
    fn default() -> Self {
        Self { huge: AtomicU64::new(0), small: AtomicU64::new(SMALL_EXPECTED), passed_over: AtomicU64::new(0) }
    }
}

impl TouchCosts {
    /// Huge pages are chosen whatever they cost.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn huge_only() -> Self {
        Self { small: AtomicU64::new(u64::MAX / 16), ..Self::default() }
    }

    /// What the next piece is to be made of, if it may be of huge pages.
    pub(crate) fn choose(&self, access: Access) -> Backing {
        let worth = match access {
            Access::InOrder => HUGE_WORTH,
            Access::Scattered => SCATTERED_WORTH,
        };
        let worth = self.small.load(Ordering::Relaxed) + worth;
        let tried = || self.passed_over.fetch_add(1, Ordering::Relaxed) % TRIED_EVERY == TRIED_EVERY - 1;
        if self.huge.load(Ordering::Relaxed) <= worth || tried() { Backing::Huge } else { Backing::Small }
    }

    /// Touches `bytes` bytes by `touch` and notes what it took.
    ///
    /// # Errors
    /// Those of `touch`.
    pub(crate) fn measured(
        &self,
        backing: Backing,
        bytes: usize,
        touch: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let begin = Instant::now();
        touch()?;
        self.note(backing, bytes, begin.elapsed());
        Ok(())
    }

    fn note(&self, backing: Backing, bytes: usize, took: Duration) {
        let cost = match backing {
            Backing::Huge => &self.huge,
            Backing::Small => &self.small,
        };
        // Notes of several threads at once may be lost: they are many.
        let latest = u64::try_from(took.as_nanos() * 1000 / bytes as u128).unwrap_or(u64::MAX / WEIGHT);
        let average = cost.load(Ordering::Relaxed);
        cost.store((average * (WEIGHT - 1) + latest) / WEIGHT, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    fn note(costs: &TouchCosts, backing: Backing, picoseconds: u64) {
        costs.note(backing, BYTES, Duration::from_nanos(picoseconds * BYTES as u64 / 1000));
    }

    #[test]
    fn pieces_are_of_the_kind_that_is_cheaper_to_touch() {
        let costs = TouchCosts::default();
        for _ in 0..100 {
            assert_eq!(costs.choose(Access::InOrder), Backing::Huge);
            note(&costs, Backing::Huge, 140);
        }
        // Blocks that have to come from elsewhere.
        for _ in 0..4 {
            note(&costs, Backing::Huge, 2700);
        }
        let tried = (0..4 * TRIED_EVERY).filter(|_| costs.choose(Access::InOrder) == Backing::Huge).count();
        assert_eq!(tried, 4, "one in so many is tried again");
        // Misses are worth more than a row that is made later.
        (0..8).for_each(|_| note(&costs, Backing::Huge, 1000));
        assert_eq!(costs.choose(Access::Scattered), Backing::Huge);
        assert_eq!(costs.choose(Access::InOrder), Backing::Small);
        // They are there again.
        (0..16).for_each(|_| note(&costs, Backing::Huge, 90));
        assert_eq!(costs.choose(Access::InOrder), Backing::Huge);
        // Nor are small pages free.
        (0..8).for_each(|_| note(&costs, Backing::Huge, 1500));
        assert_eq!(costs.choose(Access::InOrder), Backing::Small);
        (0..64).for_each(|_| note(&costs, Backing::Small, 1600));
        assert_eq!(costs.choose(Access::InOrder), Backing::Huge);
    }
}
