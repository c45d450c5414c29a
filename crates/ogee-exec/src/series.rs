//! Integers in equal steps: `generate_series` and `range`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::SchemaRef;
use ogee_scheduler::TaskContext;
use ogee_vector::{Chunk, Domain};
use parking_lot::Mutex;

use crate::{ExecContext, ExecError, LaneOrder, RowOrder, Source, SourceLocal, SourceStep};

/// Values that a lane takes at once.
const MORSEL_ROWS: u64 = 1 << 17;

/// `first`, `first + step`, and so on. Lanes take morsels of them.
pub struct SeriesSource {
    schema: SchemaRef,
    first: i64,
    step: i64,
    count: u64,
    taken: Arc<Mutex<Taken>>,
}

/// What lanes have taken.
#[derive(Default)]
struct Taken {
    /// Index of the first value that no lane has taken.
    next: u64,
    order: Option<Arc<RowOrder>>,
}

impl SeriesSource {
    /// `count` values, the last of which fits into 64 bits, in a column of `schema`; or as many rows without any, if it has none.
    ///
    /// # Panics
    /// If the last value does not fit.
    pub fn new(schema: SchemaRef, first: i64, step: i64, count: u64) -> Arc<Self> {
        let last = i128::from(first) + i128::from(count.saturating_sub(1)) * i128::from(step);
        assert!(i64::try_from(last).is_ok() && count <= u64::MAX / 2, "the series ends within 64 bits");
        Arc::new(Self { schema, first, step, count, taken: Arc::default() })
    }

    fn value(first: i64, step: i64, index: u64) -> i64 {
        // The result fits, so what wraps in between does no harm.
        first.wrapping_add((index as i64).wrapping_mul(step))
    }
}

impl Source for SeriesSource {
    fn name(&self) -> &str {
        "series"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows_estimate(&self) -> Option<u64> {
        Some(self.count)
    }

    fn domains(&self) -> Vec<Domain> {
        let last = Self::value(self.first, self.step, self.count.saturating_sub(1));
        let ends = (self.first.min(last), self.first.max(last));
        vec![Domain { nulls: false, integers: Some(ends) }; self.schema.fields().len()]
    }

    fn has_order(&self) -> bool {
        true
    }

    fn keep_order(&self, order: &Arc<RowOrder>) {
        self.taken.lock().order = Some(Arc::clone(order));
    }

    fn lanes(&self, threads: usize) -> usize {
        let left = self.count - self.taken.lock().next;
        left.div_ceil(MORSEL_ROWS).min(threads as u64) as usize
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(SeriesLocal {
            columns: self.schema.fields().len(),
            first: self.first,
            step: self.step,
            count: self.count,
            taken: Arc::clone(&self.taken),
            order: LaneOrder::new(self.taken.lock().order.clone(), lane),
            morsel: 0..0,
            capacity: ctx.settings.chunk_capacity as u64,
        }))
    }

    fn stop(&self) {
        self.taken.lock().next = self.count;
    }
}

struct SeriesLocal {
    columns: usize,
    first: i64,
    step: i64,
    count: u64,
    taken: Arc<Mutex<Taken>>,
    order: LaneOrder,
    morsel: std::ops::Range<u64>,
    capacity: u64,
}

impl SourceLocal for SeriesLocal {
    fn next(&mut self, _task: &TaskContext) -> Result<SourceStep, ExecError> {
        if self.morsel.is_empty() {
            let ended = self.morsel.end > 0;
            self.order.leave();
            let mut taken = self.taken.lock();
            if taken.next == self.count || !self.order.is_admitted() {
                self.morsel = 0..0;
                return Ok(SourceStep::Exhausted);
            }
            self.morsel = taken.next..(taken.next + MORSEL_ROWS).min(self.count);
            taken.next = self.morsel.end;
            self.order.begin();
            if ended {
                return Ok(SourceStep::MorselEnd);
            }
        }
        if !self.order.may_emit() {
            return Ok(SourceStep::Blocked);
        }
        let start = self.morsel.start;
        let end = self.morsel.end.min(start + self.capacity);
        self.morsel.start = end;
        let columns = (0..self.columns).map(|_| {
            let values = (start..end).map(|index| SeriesSource::value(self.first, self.step, index));
            Arc::new(Int64Array::from_iter_values(values)) as ArrayRef
        });
        Ok(SourceStep::Chunk(Chunk::new(columns.collect(), (end - start) as usize)))
    }
}
