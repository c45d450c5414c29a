//! How much of the temporary space may lie in the system's page cache.
//!
//! What is spilled frees memory only if it leaves it, so temporary files go past the page cache. But where the machine has memory that nobody
//! wants, the cache takes pages several times as fast as a disk and gives them back ten times as fast. So pages go through it while
//!
//! ```text
//! bytes of them there  <  (memory there is to be had - what this process may still take of its limit) / 2
//! ```
//!
//! and as long as the system has so little to write that it does not begin to: most of these pages are given up before they would have been
//! written, and a system that writes stops those who put more into its cache, down to less than what the disk takes past it. All other pages go past
//! the cache; so memory and disk work side by side. What is known of the machine is looked at again as it changes: one that fills up gets its cache
//! back as the pages are read.
//!
//! Not here: the files (`temp_space`), how memory is told (`defaults`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::io::{Io, SpareMemory};

/// Of the memory that is to be had, one part in so many may hold what was spilled.
const SHARE: u64 = 2;

/// The machine is asked again after so long: what a query spills meanwhile is less than a gigabyte, and asking takes some 50 us.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Counts the bytes that lie in the page cache, and says whether more may.
#[derive(Debug)]
pub(crate) struct TempCache {
    io: Arc<dyn Io>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: u64,
    spare: SpareMemory,
    /// When the machine was asked for that; `None`: never.
    looked: Option<Duration>,
    /// Bytes that were put there since.
    added: u64,
}

impl TempCache {
    pub(crate) fn new(io: Arc<dyn Io>) -> Self {
        Self { io, state: Mutex::default() }
    }

    /// Counts `bytes` if they may go to the page cache. `claim` is what this process may still take of its limit.
    pub(crate) fn take(&self, bytes: u64, claim: u64) -> bool {
        let now = self.io.now();
        let mut state = self.state.lock();
        if state.looked.is_none_or(|looked| now.saturating_sub(looked) >= LOOK_EVERY) {
            state.spare = self.io.spare_memory();
            state.looked = Some(now);
            state.added = 0;
        }
        let (held, added) = (state.held + bytes, state.added + bytes);
        if held > state.spare.bytes.saturating_sub(claim) / SHARE || added > state.spare.unwritten {
            return false;
        }
        (state.held, state.added) = (held, added);
        true
    }

    /// Uncounts bytes that are gone.
    pub(crate) fn give(&self, bytes: u64) {
        let mut state = self.state.lock();
        debug_assert!(state.held >= bytes, "more is taken from the page cache than was put there");
        state.held -= bytes;
    }
}
