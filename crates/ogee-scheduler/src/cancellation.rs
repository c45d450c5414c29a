//! The marker that tells the workers of a query to stop.
//!
//! After "Morsel-driven parallelism", section 3.2: cancellation is a marker that every worker checks at each morsel, so
//! that each cleans up after itself instead of being killed.
//!
//! Not here: the reason; the query keeps it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Marker of one query: raised when it was cancelled or when one of its jobs failed.
///
/// Workers check it between morsels; a job needs to look at it only inside loops that are long within one morsel.
#[derive(Debug, Default)]
pub struct Cancellation(AtomicBool);

impl Cancellation {
    /// A marker that is `raised` from the start or not: for running a job by hand, without a scheduler.
    pub fn new(raised: bool) -> Self {
        Self(AtomicBool::new(raised))
    }

    /// Whether the query is to stop: one relaxed load, cheap enough for every few thousand rows.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        // Relaxed: nothing is published with the marker; the reason lies under the dispatcher's lock.
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
