//! Order across lanes: rows that lanes make in ranges of an order, side by side, come out in that order.
//!
//! A source that has an order cuts its rows into ranges and numbers them; lanes take them in turn. The output (`output`) hands out the rows of
//! the first range that has not ended, and keeps those of later ranges until their turn comes. How much it keeps is bounded: a lane that is far
//! ahead is blocked.
//!
//! Where the rows go to a sink to which no order matters, nothing is attached, and nobody waits.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::output::RangedOutput;

/// The order of a pipeline's rows, shared by its source and the output.
#[derive(Debug, Default)]
pub struct RowOrder {
    /// The range that each lane is at.
    lanes: OnceLock<Box<[AtomicUsize]>>,
    output: OnceLock<Arc<dyn RangedOutput>>,
    serial: AtomicBool,
}

impl RowOrder {
    /// Has one lane make all rows, for operators that count them in their order.
    pub fn serialize(&self) {
        self.serial.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_serial(&self) -> bool {
        self.serial.load(Ordering::Relaxed)
    }

    /// Has `output` keep the order, for at most `lanes` lanes.
    pub(crate) fn attach(&self, output: Arc<dyn RangedOutput>, lanes: usize) {
        let made = self.lanes.set((0..lanes.max(1)).map(|_| AtomicUsize::new(0)).collect()).is_ok();
        assert!(made && self.output.set(output).is_ok(), "a pipeline has one output");
    }

    /// Whether an output keeps the order.
    pub(crate) fn is_kept(&self) -> bool {
        self.output.get().is_some()
    }

    /// The range that `lane` is at.
    pub(crate) fn range(&self, lane: usize) -> usize {
        self.lanes.get().map_or(0, |lanes| lanes[lane].load(Ordering::Relaxed))
    }

    /// `lane` goes on with `range`.
    pub(crate) fn enter(&self, lane: usize, range: usize) {
        if let Some(lanes) = self.lanes.get() {
            lanes[lane].store(range, Ordering::Relaxed);
        }
    }

    /// All rows of `range` are in the output.
    pub(crate) fn leave(&self, range: usize) {
        if let Some(output) = self.output.get() {
            output.end_range(range);
        }
    }

    /// Whether rows of `range` may be made now; if not, the source's lanes are woken when that may have changed.
    pub(crate) fn may_emit(&self, range: usize) -> bool {
        self.output.get().is_none_or(|output| output.has_room(range))
    }

    /// Sets how many rows of ranges whose turn has not come the output may keep.
    pub(crate) fn set_ahead(&self, rows: usize) {
        if let Some(output) = self.output.get() {
            output.set_ahead(rows);
        }
    }
}
