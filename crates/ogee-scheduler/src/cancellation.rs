//! The marker that tells the workers of a query to stop.
//!
//! After "Morsel-driven parallelism", section 3.2: cancellation is a marker that every worker checks at each morsel, so
//! that each cleans up after itself instead of being killed.
//!
//! Not here: the reason; the query keeps it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Marker of one query: raised when it was cancelled or when one of its jobs failed.
///
/// Workers check it between morsels; a job needs to look at it only inside loops that are long within one morsel.
#[derive(Debug, Default)]
pub struct Cancellation(AtomicU64);

/// What the marker is when it is raised. Above: so many checks, and one more, before it is.
const RAISED: u64 = 1;

impl Cancellation {
    /// A marker that is `raised` from the start or not: for running a job by hand, without a scheduler.
    pub fn new(raised: bool) -> Self {
        Self(AtomicU64::new(if raised { RAISED } else { 0 }))
    }

    /// A marker that is raised once `checks` have found that it is not: for seeing how often a job looks.
    pub fn after(checks: u64) -> Self {
        Self(AtomicU64::new(RAISED + checks))
    }

    /// Whether the query is to stop: one relaxed load, cheap enough for every few thousand rows.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        // Relaxed: nothing is published with the marker; the reason lies under the dispatcher's lock.
        match self.0.load(Ordering::Relaxed) {
            0 => false,
            RAISED => true,
            _ => self.count_down(),
        }
    }

    #[cold]
    fn count_down(&self) -> bool {
        let next = |left: u64| (left > RAISED).then(|| left - 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_err()
    }

    pub(crate) fn raise(&self) {
        self.0.store(RAISED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_raised_after_so_many_checks_and_stays_so() {
        for checks in 0..3 {
            let marker = Cancellation::after(checks);
            let seen: Vec<bool> = (0..5).map(|_| marker.is_cancelled()).collect();
            assert_eq!(seen, (0..5).map(|check| check >= checks).collect::<Vec<_>>());
        }
        let marker = Cancellation::after(10);
        marker.raise();
        assert!(marker.is_cancelled());
        assert!(!Cancellation::default().is_cancelled() && !Cancellation::new(false).is_cancelled());
        assert!(Cancellation::new(true).is_cancelled());
    }
}
