//! Pin count, residence and eviction sequence of a page in one atomic word, and every transition of it.
//!
//! ```text
//! bit  63                          24 23   20 19                0
//!      +----------------------------+--------+------------------+
//!      |  sequence (40)             | state 4|  pins (20)       |
//!      +----------------------------+--------+------------------+
//! ```
//!
//! The sequence is raised whenever the pin count falls to zero: an entry of the eviction queue carries the sequence it was
//! made with and is stale when the page has another. Forty bits wrap after 10^12 unpins of one page.
//!
//! 1. Pins are positive only in Resident, Writing and (exactly one, the loader's) Loading.
//! 2. Only the thread that made a page Evicting or Loading takes it out of that state again, save for destruction.
//! 3. Evicting cannot be pinned: the evictor reads the bytes itself (checksum). Writing can be: there the kernel reads them,
//!    and whoever pins may change them, so `finish_write` gives the copy up if a pin was there at any time since.
//!
//! Not here: memory, slots, queues, waiting. The caller does what the returned value says.
//! After "Robust external hash aggregation in the solid state age", ICDE 2024, section III.

use crate::sync::{AtomicU64, Ordering};

const PINS_MASK: u64 = (1 << 20) - 1;
const STATE_SHIFT: u32 = 20;
const STATE_MASK: u64 = 0xf << STATE_SHIFT;
const SEQUENCE_SHIFT: u32 = 24;
const SEQUENCE_ONE: u64 = 1 << SEQUENCE_SHIFT;

const RESIDENT: u64 = 0;
const EVICTING: u64 = 1 << STATE_SHIFT;
const WRITING: u64 = 2 << STATE_SHIFT;
const EVICTED: u64 = 3 << STATE_SHIFT;
const LOADING: u64 = 4 << STATE_SHIFT;
const DESTROYED: u64 = 5 << STATE_SHIFT;

/// What came of an attempt to pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// The page is in memory and pinned; `first` if nobody else had it pinned.
    Done {
        /// Whether the pin count was zero before.
        first: bool,
    },
    /// The page is now Loading with the caller's pin on it: the caller must load it and call `finish_load` or `fail_load`.
    Load,
    /// Another thread is loading it or about to write it: wait for that thread and try again.
    Wait,
}

/// What the one who unpinned has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpin {
    /// Others have it pinned.
    StillPinned,
    /// The last pin is gone: queue the page for eviction with this sequence.
    Enqueue(u64),
    /// The last pin is gone while a write is on its way: the writer queues the page.
    WriterEnqueues,
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The page is evicted: its memory is the writer's to free.
    Evicted,
    /// The page stays resident: the writer gives the slot up, and queues the page if a sequence is given.
    Kept(Option<u64>),
    /// The page was destroyed meanwhile: the writer frees memory and slot.
    Destroyed,
}

/// What the one who destroys a page has to free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destroy {
    /// The page was in memory.
    Memory,
    /// The page was in the temporary space.
    Slot,
    /// A write is on its way: the writer frees both.
    ByWriter,
}

/// The word.
#[derive(Debug)]
pub struct PageState(AtomicU64);

impl PageState {
    /// A resident page with one pin, the creator's.
    pub fn new_pinned() -> Self {
        Self(AtomicU64::new(RESIDENT | 1))
    }

    /// Applies `change` atomically; the word before and after, or the word that `change` refused.
    fn update(&self, mut change: impl FnMut(u64) -> Option<u64>) -> Result<(u64, u64), u64> {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let Some(next) = change(word) else { return Err(word) };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok((word, next)),
                Err(now) => word = now,
            }
        }
    }

    /// Whether the page can be pinned without reading it back.
    pub fn is_resident(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire) & STATE_MASK, RESIDENT | EVICTING | WRITING)
    }

    /// Whether the page has to be waited for by one who wants to pin it.
    pub fn is_in_transition(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire) & STATE_MASK, EVICTING | LOADING)
    }

    /// Whether a queue entry made with `sequence` is still that of an evictable page.
    pub fn is_evictable(&self, sequence: u64) -> bool {
        self.0.load(Ordering::Acquire) == RESIDENT | sequence << SEQUENCE_SHIFT
    }

    /// Adds a pin, or takes the page into loading if it is evicted.
    ///
    /// # Panics
    /// If the page is destroyed (no handle can exist then) or pinned a million times.
    pub fn pin(&self) -> Pin {
        let mut outcome = Pin::Wait;
        let changed = self.update(|word| match word & STATE_MASK {
            RESIDENT | WRITING => {
                assert!(word & PINS_MASK < PINS_MASK, "a page is pinned too often: a pin leaks");
                outcome = Pin::Done { first: word & PINS_MASK == 0 };
                Some(word + 1)
            }
            EVICTED => {
                outcome = Pin::Load;
                Some((word & !STATE_MASK) | LOADING | 1)
            }
            EVICTING | LOADING => None,
            _ => unreachable!("a destroyed page has no handle to pin it by"),
        });
        if changed.is_ok() { outcome } else { Pin::Wait }
    }

    /// Adds a pin to a page that the caller has pinned already.
    pub fn pin_again(&self) {
        let before = self.0.fetch_add(1, Ordering::Relaxed) & PINS_MASK;
        assert!(before > 0 && before < PINS_MASK, "only a pinned page can be pinned again");
    }

    /// Removes a pin.
    pub fn unpin(&self) -> Unpin {
        let changed = self.update(|word| {
            assert!(word & PINS_MASK > 0, "unpin without a pin");
            Some(if word & PINS_MASK == 1 { (word - 1).wrapping_add(SEQUENCE_ONE) } else { word - 1 })
        });
        let (_, after) = changed.expect("every pinned page can be unpinned");
        match (after & PINS_MASK, after & STATE_MASK) {
            (0, RESIDENT) => Unpin::Enqueue(after >> SEQUENCE_SHIFT),
            (0, WRITING) => Unpin::WriterEnqueues,
            (0, _) => unreachable!("a pinned page is resident or being written"),
            _ => Unpin::StillPinned,
        }
    }

    /// Takes a resident page without pins, if the sequence is still `sequence`, for eviction. Nobody can pin it until
    /// `begin_write` or `abort_write`.
    pub fn claim(&self, sequence: u64) -> bool {
        let word = RESIDENT | sequence << SEQUENCE_SHIFT;
        let next = EVICTING | sequence << SEQUENCE_SHIFT;
        self.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The evictor has read the bytes: from here the page can be pinned while the kernel copies it. False if the page was destroyed:
    /// the evictor frees memory and slot.
    pub fn begin_write(&self) -> bool {
        self.update(|word| (word & STATE_MASK == EVICTING).then_some((word & !STATE_MASK) | WRITING)).is_ok()
    }

    /// The copy of the page claimed with `sequence` is complete, and where it is has been noted.
    pub fn finish_write(&self, sequence: u64) -> Written {
        let untouched = WRITING | sequence << SEQUENCE_SHIFT;
        let changed = self.update(|word| match word & STATE_MASK {
            WRITING if word == untouched => Some((word & !STATE_MASK) | EVICTED),
            WRITING => Some((word & !STATE_MASK) | RESIDENT),
            _ => None,
        });
        match changed {
            Ok((_, after)) if after & STATE_MASK == EVICTED => Written::Evicted,
            Ok((_, after)) => Written::Kept((after & PINS_MASK == 0).then_some(after >> SEQUENCE_SHIFT)),
            Err(_) => Written::Destroyed,
        }
    }

    /// The page claimed could not be written (called in Evicting or Writing): it stays resident, never `Evicted`.
    pub fn abort_write(&self) -> Written {
        let changed = self.update(|word| match word & STATE_MASK {
            EVICTING | WRITING if word & PINS_MASK == 0 => {
                Some(((word & !STATE_MASK) | RESIDENT).wrapping_add(SEQUENCE_ONE))
            }
            EVICTING | WRITING => Some((word & !STATE_MASK) | RESIDENT),
            _ => None,
        });
        match changed {
            Ok((_, after)) => Written::Kept((after & PINS_MASK == 0).then_some(after >> SEQUENCE_SHIFT)),
            Err(_) => Written::Destroyed,
        }
    }

    /// Takes an evicted page into loading without a pin (read-ahead). False if it is not evicted.
    pub fn load_ahead(&self) -> bool {
        self.update(|word| (word & STATE_MASK == EVICTED).then_some((word & !STATE_MASK) | LOADING)).is_ok()
    }

    /// The bytes are in memory. The sequence to queue the page with if the loader holds no pin (read-ahead).
    ///
    /// # Panics
    /// If the page was destroyed: a loader keeps a handle.
    pub fn finish_load(&self) -> Option<u64> {
        let changed = self.update(|word| {
            assert!(word & STATE_MASK == LOADING, "only a loading page can be loaded");
            let resident = (word & !STATE_MASK) | RESIDENT;
            Some(if word & PINS_MASK == 0 { resident.wrapping_add(SEQUENCE_ONE) } else { resident })
        });
        let (_, after) = changed.expect("the closure never refuses");
        (after & PINS_MASK == 0).then_some(after >> SEQUENCE_SHIFT)
    }

    /// The bytes could not be read: the page is evicted again, without the loader's pin.
    pub fn fail_load(&self) {
        let changed = self.update(|word| {
            assert!(word & STATE_MASK == LOADING, "only a loading page can fail to load");
            Some((word & !(STATE_MASK | PINS_MASK)) | EVICTED)
        });
        debug_assert!(changed.is_ok());
    }

    /// The last handle is gone.
    ///
    /// # Panics
    /// If the page is pinned or loading: a pin and a loader hold a handle.
    pub fn destroy(&self) -> Destroy {
        let changed = self.update(|word| {
            assert!(word & PINS_MASK == 0, "a pinned page has a handle");
            Some((word & !STATE_MASK) | DESTROYED)
        });
        let (before, _) = changed.expect("the closure never refuses");
        match before & STATE_MASK {
            RESIDENT => Destroy::Memory,
            EVICTED => Destroy::Slot,
            EVICTING | WRITING => Destroy::ByWriter,
            _ => unreachable!("a loader holds a handle, and a page is destroyed once"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_round() {
        let state = PageState::new_pinned();
        let Unpin::Enqueue(sequence) = state.unpin() else { panic!("the only pin") };
        assert!(!state.claim(sequence + 1), "another sequence is stale");
        assert!(state.claim(sequence));
        assert_eq!(state.pin(), Pin::Wait);
        assert!(state.begin_write());
        assert_eq!(state.finish_write(sequence), Written::Evicted);
        assert!(!state.is_resident());
        assert_eq!(state.pin(), Pin::Load);
        assert_eq!(state.pin(), Pin::Wait);
        assert_eq!(state.finish_load(), None);
        assert_eq!(state.pin(), Pin::Done { first: false });
        assert_eq!(state.unpin(), Unpin::StillPinned);
        assert!(matches!(state.unpin(), Unpin::Enqueue(_)));
        assert_eq!(state.destroy(), Destroy::Memory);
    }

    #[test]
    fn a_pin_during_the_write_keeps_the_page_even_when_it_is_gone_again() {
        let state = PageState::new_pinned();
        let Unpin::Enqueue(sequence) = state.unpin() else { panic!("the only pin") };
        assert!(state.claim(sequence) && state.begin_write());
        assert_eq!(state.pin(), Pin::Done { first: true });
        assert_eq!(state.unpin(), Unpin::WriterEnqueues);
        assert_eq!(state.finish_write(sequence), Written::Kept(Some(sequence + 1)));
        assert!(state.is_evictable(sequence + 1));
    }

    #[test]
    fn a_failed_write_makes_the_page_evictable_again() {
        let state = PageState::new_pinned();
        let Unpin::Enqueue(sequence) = state.unpin() else { panic!("the only pin") };
        assert!(state.claim(sequence) && state.begin_write());
        assert_eq!(state.abort_write(), Written::Kept(Some(sequence + 1)));
        assert!(state.claim(sequence + 1));
        assert_eq!(state.destroy(), Destroy::ByWriter);
        assert!(!state.begin_write());
    }

    #[test]
    fn a_failed_load_leaves_the_page_where_it_was() {
        let state = PageState::new_pinned();
        let Unpin::Enqueue(sequence) = state.unpin() else { panic!("the only pin") };
        assert!(state.claim(sequence) && state.begin_write());
        assert_eq!(state.finish_write(sequence), Written::Evicted);
        assert_eq!(state.pin(), Pin::Load);
        state.fail_load();
        assert!(state.load_ahead());
        let sequence = state.finish_load().expect("read ahead holds no pin");
        assert!(state.is_evictable(sequence));
    }
}
