//! How many readers may be at work at once: as many as memory is granted for, and always one.
//!
//! A lane is refused when the readers of the source together would exceed half of the pool's budget, so that operators keep the
//! other half, or when the pool has nothing to give. It then waits for a reader to end. The first reader has to do with that
//! half too, but is never refused what it needs at least: it gets that, after eviction, or the query fails with the pool's
//! error.
//!
//! ```text
//!  none at work ── comfortable, else half, else least ──> first reader, or error
//!  some at work ── comfortable within half ─────────────> one more reader, or refused: wait until one ends
//! ```
//!
//! Not here: what a reader needs (`estimate`), and what it holds (`grant`).

use std::sync::Arc;

use ogee_memory::{BufferManager, MemoryError, Reservation};
use ogee_scheduler::JobWaker;
use parking_lot::Mutex;

/// The consumer's name in errors and statistics.
pub(crate) const CONSUMER: &str = "parquet scan";

#[derive(Default)]
struct State {
    readers: usize,
    /// Bytes reserved by them.
    held: usize,
    /// Readers at work when the last lane was refused; forgotten when one ends.
    full_at: Option<usize>,
    /// Readers that fit by the last estimate.
    expected: Option<usize>,
    waker: Option<JobWaker>,
}

/// Admission to read.
pub(crate) struct Admission {
    memory: Arc<BufferManager>,
    state: Mutex<State>,
}

impl Admission {
    pub(crate) fn new(memory: Arc<BufferManager>) -> Arc<Self> {
        Arc::new(Self { memory, state: Mutex::default() })
    }

    pub(crate) fn memory(&self) -> &Arc<BufferManager> {
        &self.memory
    }

    pub(crate) fn attach(&self, waker: JobWaker) {
        self.state.lock().waker = Some(waker);
    }

    /// Wakes lanes that wait for a reader to end or a footer to be loaded.
    pub(crate) fn wake(&self) {
        let waker = self.state.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Learns what a reader needs, before the first one is opened.
    pub(crate) fn expect(&self, comfortable: usize) {
        let mut state = self.state.lock();
        state.expected = Some((self.share(&state) / comfortable.max(1)).max(1));
    }

    /// What the readers may hold together: half of what the pool would have without them.
    fn share(&self, state: &State) -> usize {
        (self.memory.budget() + state.held) / 2
    }

    /// Lanes of `wanted` that need not wait.
    pub(crate) fn lanes(&self, wanted: usize) -> usize {
        let state = self.state.lock();
        let most = state.full_at.unwrap_or(usize::MAX).min(state.expected.unwrap_or(usize::MAX));
        wanted.min(most.max(state.readers))
    }

    /// Room for a reader that works well with `comfortable` bytes and not at all without `least`. `None`: wait.
    ///
    /// # Errors
    /// When no reader is at work and there is no room for this one.
    pub(crate) fn admit(self: &Arc<Self>, comfortable: usize, least: usize) -> Result<Option<Permit>, MemoryError> {
        loop {
            let (first, share) = {
                let mut state = self.state.lock();
                let first = state.readers == 0;
                let share = self.share(&state);
                let full = state.full_at.is_some_and(|full| state.readers >= full)
                    || state.held.saturating_add(comfortable) > share;
                if full && !first {
                    state.full_at = Some(state.readers);
                    return Ok(None);
                }
                // Counted before it has memory, so that only one can be the first.
                state.readers += 1;
                (first, share)
            };
            let reservation = match self.memory.try_reserve(CONSUMER, comfortable.min(share.max(least))) {
                Some(reservation) => Ok(Some(reservation)),
                None if first => self.memory.reserve(CONSUMER, least).map(Some),
                None => Ok(None),
            };
            let mut state = self.state.lock();
            if let Ok(Some(reservation)) = reservation {
                state.held += reservation.bytes();
                return Ok(Some(Permit { reservation: Some(reservation), admission: Arc::clone(self) }));
            }
            state.readers -= 1;
            reservation?;
            if state.readers > 0 {
                state.full_at = Some(state.readers);
                return Ok(None);
            }
            // All others ended meanwhile, and none is left to wake this lane: it is the first now.
        }
    }
}

/// The memory of one admitted reader.
pub(crate) struct Permit {
    /// `Some` until dropped.
    reservation: Option<Reservation>,
    admission: Arc<Admission>,
}

impl Permit {
    pub(crate) fn bytes(&self) -> usize {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    /// Reserves `bytes` instead of what it has.
    ///
    /// # Errors
    /// When the pool has no more to give; the permit is unchanged.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), MemoryError> {
        let before = self.bytes();
        if let Some(reservation) = &mut self.reservation {
            reservation.resize(bytes)?;
        }
        let mut state = self.admission.state.lock();
        state.held = state.held + self.bytes() - before;
        Ok(())
    }

    /// Whether no other reader is at work, whose end could make room.
    pub(crate) fn is_alone(&self) -> bool {
        self.admission.state.lock().readers == 1
    }

    pub(crate) fn limit(&self) -> usize {
        self.admission.memory.limit()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let bytes = self.bytes();
        self.reservation = None;
        let mut state = self.admission.state.lock();
        state.readers -= 1;
        state.held -= bytes;
        state.full_at = None;
        drop(state);
        self.admission.wake();
    }
}
