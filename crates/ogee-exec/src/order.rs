//! Order across lanes: rows that lanes make in ranges of an order, side by side, come out in that order.
//!
//! A source that has an order cuts its rows into ranges and numbers them; lanes take them in turn. The output (`output`) hands out the rows of
//! the first range that has not ended, and keeps those of later ranges until their turn comes. How much it keeps is bounded: a lane that is far
//! ahead is blocked.
//!
//! Some orders are made, by sorts; others are those in which rows lie in files and tables ([`Source::keep_order`](crate::Source::keep_order)). There a range is a
//! morsel, numbered when a lane takes it, under the lock under which lanes take them: so the ranges of several sources that are read one after the other
//! follow each other, too, however many they turn out to be.
//!
//! Where the rows go to a sink to which no order matters, nothing is attached, and nobody waits.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::output::RangedOutput;

/// The order of a pipeline's rows, shared by its source and the output; or of the rows of one of several sources, whose ranges are among those of the others.
#[derive(Debug, Default)]
pub struct RowOrder {
    ranges: Arc<Ranges>,
    serial: Serial,
    /// The number of the first of this source's ranges, where it claimed all of them at once.
    first: OnceLock<usize>,
}

/// The ranges of all sources.
#[derive(Debug, Default)]
struct Ranges {
    /// Where each lane is.
    lanes: OnceLock<Box<[LaneAt]>>,
    output: OnceLock<Arc<dyn RangedOutput>>,
    /// Ranges that have a number.
    claimed: AtomicUsize,
    serial: Serial,
}

/// Where a lane is; only that lane writes it.
#[derive(Debug, Default)]
struct LaneAt {
    range: AtomicUsize,
    row: AtomicUsize,
}

/// Where a lane entered a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LanePlace {
    /// The number of the range.
    pub(crate) range: usize,
    /// No fewer than the rows that others have made of it.
    pub(crate) row: usize,
}

/// Whether one lane makes all rows, and which: the first that asks.
#[derive(Debug, Default)]
struct Serial {
    is_set: AtomicBool,
    lane: OnceLock<usize>,
}

impl Serial {
    fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    fn admits(&self, lane: usize) -> bool {
        !self.is_set() || *self.lane.get_or_init(|| lane) == lane
    }
}

impl RowOrder {
    /// The order of the rows of one source of those whose rows have this order, as they are read one after the other. `is_serial`: whether one lane makes
    /// all of them.
    pub(crate) fn of_part(&self, is_serial: bool) -> Arc<Self> {
        let part = Self { ranges: Arc::clone(&self.ranges), serial: Serial::default(), first: OnceLock::new() };
        if is_serial {
            part.serialize_source();
        }
        Arc::new(part)
    }

    /// Has one lane make all rows, for operators that count them in their order.
    pub fn serialize(&self) {
        self.ranges.serial.set();
    }

    /// Has one lane make all rows of this source.
    pub fn serialize_source(&self) {
        self.serial.set();
    }

    /// Whether one lane makes all rows of this source.
    pub fn is_serial(&self) -> bool {
        self.serial.is_set() || self.ranges.serial.is_set()
    }

    /// Whether `lane` may make rows: where one lane makes all of them, only the first that asks may.
    pub(crate) fn admits(&self, lane: usize) -> bool {
        self.ranges.serial.admits(lane) && self.serial.admits(lane)
    }

    /// Has `output` keep the order, for at most `lanes` lanes. Sources were told of the order before.
    ///
    /// # Panics
    /// If another output does already.
    pub fn attach(&self, output: Arc<dyn RangedOutput>, lanes: usize) {
        self.follow(lanes);
        assert!(self.ranges.output.set(output).is_ok(), "a pipeline has one output");
    }

    /// Has at most `lanes` lanes note where they are.
    pub(crate) fn follow(&self, lanes: usize) {
        self.ranges.lanes.get_or_init(|| (0..lanes.max(1)).map(|_| LaneAt::default()).collect());
    }

    /// Whether an output keeps the order.
    pub(crate) fn is_kept(&self) -> bool {
        self.ranges.output.get().is_some()
    }

    /// Claims numbers for `ranges` ranges, which are all that this source has. Only the first call counts.
    pub(crate) fn claim_all(&self, ranges: usize) {
        self.first.get_or_init(|| self.ranges.claimed.fetch_add(ranges, Ordering::Relaxed));
    }

    /// Claims the number of the next range. Ranges are claimed in their order.
    fn claim(&self) -> usize {
        self.ranges.claimed.fetch_add(1, Ordering::Relaxed)
    }

    fn number(&self, range: usize) -> usize {
        self.first.get().copied().unwrap_or(0) + range
    }

    /// The number of the range that `lane` is at.
    pub(crate) fn range(&self, lane: usize) -> usize {
        self.place(lane).range
    }

    /// Where `lane` is.
    pub(crate) fn place(&self, lane: usize) -> LanePlace {
        self.ranges.lanes.get().map_or_else(LanePlace::default, |lanes| LanePlace {
            range: lanes[lane].range.load(Ordering::Relaxed),
            row: lanes[lane].row.load(Ordering::Relaxed),
        })
    }

    /// `lane` goes on with `range`.
    pub(crate) fn enter(&self, lane: usize, range: usize) {
        self.enter_at(lane, range, 0);
    }

    fn enter_at(&self, lane: usize, range: usize, row: usize) {
        if let Some(lanes) = self.ranges.lanes.get() {
            lanes[lane].range.store(self.number(range), Ordering::Relaxed);
            lanes[lane].row.store(row, Ordering::Relaxed);
        }
    }

    /// All rows of `range` are in the output.
    pub(crate) fn leave(&self, range: usize) {
        if let Some(output) = self.ranges.output.get() {
            output.end_range(self.number(range));
        }
    }

    /// Whether rows of `range` may be made now; if not, the source's lanes are woken when that may have changed.
    pub(crate) fn may_emit(&self, range: usize) -> bool {
        self.ranges.output.get().is_none_or(|output| output.has_room(self.number(range)))
    }

    /// Sets how many rows of ranges whose turn has not come the output may keep.
    pub(crate) fn set_ahead(&self, rows: usize) {
        if let Some(output) = self.ranges.output.get() {
            output.set_ahead(rows);
        }
    }
}

/// One lane's way through the ranges of a source that numbers them as lanes take them. Without an order it does nothing.
#[derive(Debug)]
pub struct LaneOrder {
    order: Option<Arc<RowOrder>>,
    lane: usize,
    range: Option<usize>,
}

impl LaneOrder {
    /// The way of `lane`.
    pub fn new(order: Option<Arc<RowOrder>>, lane: usize) -> Self {
        Self { order, lane, range: None }
    }

    /// The number of the range at hand.
    pub fn range(&self) -> Option<usize> {
        self.range
    }

    /// Whether the lane may take rows at all; if not, another lane makes all of them. That one is then in their range, so that ranges which others claim come behind it: it is
    /// asked where no other lane can take rows meanwhile.
    pub fn is_admitted(&mut self) -> bool {
        let Some(order) = &self.order else { return true };
        let is_admitted = order.admits(self.lane);
        if is_admitted && order.is_serial() {
            self.begin();
        }
        is_admitted
    }

    /// Goes on with a range behind all that were begun. Called where no other lane can take rows meanwhile; where one lane makes all rows, they are one range.
    pub fn begin(&mut self) {
        let Some(order) = &self.order else { return };
        if self.range.is_some() && order.is_serial() {
            return;
        }
        let range = order.claim();
        self.enter(range, 0);
    }

    /// Goes on with a range that a lane has [set aside](Self::set_aside) after it made at most `row` rows.
    pub fn enter(&mut self, range: usize, row: usize) {
        if self.range != Some(range) {
            self.end();
        }
        if let Some(order) = &self.order {
            order.enter_at(self.lane, range, row);
            self.range = Some(range);
        }
    }

    /// The range at hand is not over: another lane goes on with it, or this one later, as it does in any case where one lane makes all rows.
    pub fn set_aside(&mut self) {
        if self.order.as_ref().is_some_and(|order| !order.is_serial()) {
            self.range = None;
        }
    }

    /// The range at hand is over, unless one lane makes all rows.
    pub fn leave(&mut self) {
        if self.order.as_ref().is_some_and(|order| !order.is_serial()) {
            self.end();
        }
    }

    fn end(&mut self) {
        if let (Some(order), Some(range)) = (&self.order, self.range.take()) {
            order.leave(range);
        }
    }

    /// Whether the lane may make rows now; if not, it is woken when that may have changed.
    pub fn may_emit(&self) -> bool {
        match (&self.order, self.range) {
            (Some(order), Some(range)) => order.may_emit(range),
            _ => true,
        }
    }

    /// Whether the lane may begin with another range now, which has to be asked where no other lane can take rows meanwhile.
    pub fn may_begin(&self) -> bool {
        let Some(order) = &self.order else { return true };
        match self.range {
            Some(range) if order.is_serial() => order.may_emit(range),
            _ => order.may_emit(order.ranges.claimed.load(Ordering::Relaxed)),
        }
    }
}

/// A lane that ends, however it does, makes no more rows of the range that it was at.
impl Drop for LaneOrder {
    fn drop(&mut self) {
        self.end();
    }
}
