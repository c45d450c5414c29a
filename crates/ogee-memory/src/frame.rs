//! Page frames: 256 KiB each, cut out of pieces of 2 MiB, kept for reuse.
//!
//! A frame is *touched* (resident, charged) or *untouched* (addresses only, not charged). Frames in use are touched. Free ones
//! of either kind wait in a lock-free list each; a frame that was used before is handed out before one that must be touched
//! first (14 ns per 200-byte row are saved), and any of them before a new piece is mapped.
//!
//! 1. The charge is `PAGE_SIZE` for each touched frame, whether in use or free.
//! 2. A piece of huge pages is charged and touched whole when it is mapped: one touched byte costs 2 MiB anyway. It goes back whole
//!    too; only when that is not enough is it split, and from then on its free frames go back one at a time.
//! 3. A free frame is in one of the lists, or in the hands of the one thread that holds `reclaim`.
//!
//! Not here: what is in a frame.
#![expect(unsafe_code, reason = "frames are touched and discarded by address")]

use std::collections::BTreeMap;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::SegQueue;
use parking_lot::Mutex;

use crate::backing::{Access, TouchCosts};
use crate::ledger::Ledger;
use crate::mapping::{Backing, Mapping, discard, populate};
use crate::{PAGE_SIZE, PIECE_SIZE};

const FRAMES_PER_PIECE: usize = PIECE_SIZE / PAGE_SIZE;

/// From this limit on pieces may be huge pages: 512 MB. Below, one touched page that costs 2 MiB is too much of the whole.
pub(crate) const HUGE_PAGE_LIMIT: usize = 512_000_000;

/// 256 KiB of memory with one owner, which must give it back to the [`FrameStore`] it came from.
#[derive(Debug)]
pub(crate) struct Frame(NonNull<u8>);

// SAFETY: a frame is an address with one owner.
unsafe impl Send for Frame {}

impl Frame {
    /// The frame at an address that `into_raw` gave.
    ///
    /// # Safety
    /// `start` comes from one `into_raw`, and this is the only frame made of it since.
    pub(crate) unsafe fn from_raw(start: NonNull<u8>) -> Self {
        Self(start)
    }

    pub(crate) fn into_raw(self) -> NonNull<u8> {
        self.0
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0
    }

    fn piece(&self) -> usize {
        self.0.as_ptr().addr() & !(PIECE_SIZE - 1)
    }
}

#[derive(Debug)]
struct Piece {
    mapping: Mapping,
    backing: Backing,
}

/// All frames of a manager.
#[derive(Debug, Default)]
pub(crate) struct FrameStore {
    touched: SegQueue<Frame>,
    /// Length of `touched`, raised before a push and lowered after a pop.
    touched_len: AtomicUsize,
    untouched: SegQueue<Frame>,
    pieces: Mutex<BTreeMap<usize, Piece>>,
    /// Held while the free lists are in the hands of one thread.
    reclaim: Mutex<()>,
    costs: TouchCosts,
}

impl FrameStore {
    /// Bytes of touched free frames.
    pub(crate) fn free_bytes(&self) -> usize {
        self.touched_len.load(Ordering::Relaxed) * PAGE_SIZE
    }

    /// A frame, if one is free or the budget has room for one. Its bytes are whatever they are.
    ///
    /// # Errors
    /// The system refuses memory that the budget allows.
    pub(crate) fn take(&self, ledger: &Ledger) -> io::Result<Option<Frame>> {
        // Over budget a free frame belongs to the system first.
        if ledger.used() <= ledger.budget()
            && let Some(frame) = self.pop_touched()
        {
            return Ok(Some(frame));
        }
        if !ledger.try_charge(PAGE_SIZE) {
            return Ok(None);
        }
        if let Some(frame) = self.untouched.pop() {
            // SAFETY: the frame is ours, in a piece that stays mapped while one of its frames is not free.
            let touched = self.costs.measured(Backing::Small, PAGE_SIZE, || unsafe { populate(frame.0, PAGE_SIZE) });
            return match touched {
                Ok(()) => Ok(Some(frame)),
                Err(error) => {
                    self.untouched.push(frame);
                    ledger.uncharge(PAGE_SIZE);
                    Err(error)
                }
            };
        }
        let rest = PIECE_SIZE - PAGE_SIZE;
        let may_be_huge = ledger.limit() >= HUGE_PAGE_LIMIT && self.costs.choose(Access::InOrder) == Backing::Huge;
        let huge = may_be_huge && ledger.try_charge(rest);
        self.map_piece(huge).map(Some).inspect_err(|_| ledger.uncharge(if huge { PIECE_SIZE } else { PAGE_SIZE }))
    }

    /// What touching memory costs.
    pub(crate) fn costs(&self) -> &TouchCosts {
        &self.costs
    }

    fn pop_touched(&self) -> Option<Frame> {
        let frame = self.touched.pop()?;
        self.touched_len.fetch_sub(1, Ordering::Relaxed);
        Some(frame)
    }

    fn push_touched(&self, frame: Frame) {
        self.touched_len.fetch_add(1, Ordering::Relaxed);
        self.touched.push(frame);
    }

    /// Maps a piece, of which the whole (huge) or one frame (small) has been charged; one frame is the caller's, the others
    /// are free.
    fn map_piece(&self, huge: bool) -> io::Result<Frame> {
        let backing = if huge { Backing::Huge } else { Backing::Small };
        let mapping = Mapping::new(PIECE_SIZE, PIECE_SIZE, backing)?;
        let bytes = if huge { PIECE_SIZE } else { PAGE_SIZE };
        // SAFETY: the mapping is new and ours.
        self.costs.measured(backing, bytes, || unsafe { populate(mapping.start(), bytes) })?;
        let start = mapping.start();
        self.pieces.lock().insert(start.as_ptr().addr(), Piece { mapping, backing });
        for index in 1..FRAMES_PER_PIECE {
            // SAFETY: within the piece.
            let frame = Frame(unsafe { start.add(index * PAGE_SIZE) });
            if huge {
                self.push_touched(frame);
            } else {
                self.untouched.push(frame);
            }
        }
        Ok(Frame(start))
    }

    /// Takes a frame back, for reuse.
    pub(crate) fn release(&self, frame: Frame) {
        self.push_touched(frame);
    }

    /// Waits until no other thread has the free lists in its hands.
    pub(crate) fn settle(&self) {
        drop(self.reclaim.lock());
    }

    /// Gives at least `wanted` bytes of free frames back to the system, if there are as many: whole pieces first, then, of small
    /// pages, single frames, then, if `split`, single frames of huge pieces. Pieces without any touched frame go in any case.
    /// Returns the bytes given back.
    pub(crate) fn give_back(&self, ledger: &Ledger, wanted: usize, split: bool) -> usize {
        let _reclaim = self.reclaim.lock();
        let mut free: Vec<(Frame, bool)> = Vec::with_capacity(self.touched_len.load(Ordering::Relaxed) + 64);
        while let Some(frame) = self.pop_touched() {
            free.push((frame, true));
        }
        while let Some(frame) = self.untouched.pop() {
            free.push((frame, false));
        }
        free.sort_unstable_by_key(|(frame, _)| frame.0);
        let mut given = 0;
        let mut rest = Vec::with_capacity(free.len());
        let mut frames = free.into_iter().peekable();
        while let Some((first, first_touched)) = frames.next() {
            let piece = first.piece();
            let begin = rest.len();
            rest.push((first, first_touched));
            while let Some(next) = frames.next_if(|(frame, _)| frame.piece() == piece) {
                rest.push(next);
            }
            let group = &rest[begin..];
            let touched = group.iter().filter(|(_, touched)| *touched).count();
            if group.len() == FRAMES_PER_PIECE && (given < wanted || touched == 0) {
                rest.truncate(begin);
                drop(self.pieces.lock().remove(&piece));
                ledger.uncharge(touched * PAGE_SIZE);
                given += touched * PAGE_SIZE;
            }
        }
        for (frame, touched) in rest {
            if touched && given < wanted && self.can_discard(&frame, split) {
                // SAFETY: the frame is free, so nobody uses its bytes; it lies in a mapped piece at a multiple of 256 KiB.
                if unsafe { discard(frame.0, PAGE_SIZE) }.is_ok() {
                    ledger.uncharge(PAGE_SIZE);
                    given += PAGE_SIZE;
                    self.untouched.push(frame);
                    continue;
                }
            }
            if touched {
                self.push_touched(frame);
            } else {
                self.untouched.push(frame);
            }
        }
        given
    }

    /// Whether a frame may go back on its own; turns a huge piece into one of small pages if `split`.
    fn can_discard(&self, frame: &Frame, split: bool) -> bool {
        let mut pieces = self.pieces.lock();
        let piece = pieces.get_mut(&frame.piece()).expect("a frame lies in a mapped piece");
        if piece.backing == Backing::Huge && split {
            piece.mapping.advise(Backing::Small);
            piece.backing = Backing::Small;
        }
        piece.backing == Backing::Small
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn small_pieces_are_charged_by_the_frame_and_reused() {
        let ledger = Ledger::new(3 * PAGE_SIZE, false);
        let store = FrameStore::default();
        let frames: Vec<Frame> = (0..3).map(|_| store.take(&ledger).unwrap().unwrap()).collect();
        assert_eq!(ledger.used(), 3 * PAGE_SIZE);
        assert!(store.take(&ledger).unwrap().is_none());
        assert!(frames.iter().all(|frame| frame.0.as_ptr().addr().is_multiple_of(PAGE_SIZE)));
        let addresses: Vec<_> = frames.iter().map(|frame| frame.0).collect();
        frames.into_iter().for_each(|frame| store.release(frame));
        let again = store.take(&ledger).unwrap().unwrap();
        assert!(addresses.contains(&again.0), "a used frame comes before a new one");
        assert_eq!(store.give_back(&ledger, PAGE_SIZE, false), PAGE_SIZE);
        assert_eq!((ledger.used(), store.free_bytes()), (2 * PAGE_SIZE, PAGE_SIZE));
        store.release(again);
        assert_eq!(store.give_back(&ledger, usize::MAX, false), 2 * PAGE_SIZE);
        assert_eq!((ledger.used(), store.pieces.lock().len()), (0, 0));
    }

    #[test]
    fn huge_pieces_go_whole_and_are_split_only_when_asked() {
        let ledger = Ledger::new(HUGE_PAGE_LIMIT, false);
        let store = FrameStore { costs: TouchCosts::huge_only(), ..FrameStore::default() };
        let mut frames: Vec<Frame> = (0..9).map(|_| store.take(&ledger).unwrap().unwrap()).collect();
        assert_eq!(ledger.used(), 2 * PIECE_SIZE);
        store.release(frames.remove(0));
        assert_eq!(store.give_back(&ledger, PAGE_SIZE, false), 0, "no piece is wholly free");
        assert_eq!(store.give_back(&ledger, PAGE_SIZE, true), PAGE_SIZE);
        assert_eq!(ledger.used(), 2 * PIECE_SIZE - PAGE_SIZE);
        frames.into_iter().for_each(|frame| store.release(frame));
        assert_eq!(store.give_back(&ledger, usize::MAX, false), 2 * PIECE_SIZE - PAGE_SIZE);
        assert_eq!((ledger.used(), store.pieces.lock().len()), (0, 0));
    }

    #[test]
    fn near_the_limit_a_huge_piece_is_not_waited_for() {
        let ledger = Ledger::new(HUGE_PAGE_LIMIT, false);
        let store = FrameStore { costs: TouchCosts::huge_only(), ..FrameStore::default() };
        assert!(ledger.try_charge(HUGE_PAGE_LIMIT - PIECE_SIZE + 1));
        let frame = store.take(&ledger).unwrap().unwrap();
        assert_eq!(ledger.used(), HUGE_PAGE_LIMIT - PIECE_SIZE + 1 + PAGE_SIZE);
        store.release(frame);
    }
}
