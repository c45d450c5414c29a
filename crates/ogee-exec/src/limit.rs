//! Limit and offset, counted over all lanes. Which rows pass is open, as SQL leaves it without an order.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ogee_vector::Chunk;

use crate::{ExecContext, ExecError, Operator, OperatorLocal, OperatorStep};

/// Passes rows `offset .. offset + fetch` of those that arrive, in the order in which they arrive.
#[derive(Debug)]
pub struct Limit {
    range: Arc<LimitRange>,
}

#[derive(Debug)]
struct LimitRange {
    offset: u64,
    end: u64,
    seen: AtomicU64,
}

impl Limit {
    /// A limit that skips `offset` rows and then passes `fetch`, or all.
    pub fn new(offset: u64, fetch: Option<u64>) -> Self {
        let end = fetch.map_or(u64::MAX, |fetch| offset.saturating_add(fetch));
        Self { range: Arc::new(LimitRange { offset, end, seen: AtomicU64::new(0) }) }
    }
}

impl Operator for Limit {
    fn name(&self) -> &str {
        "limit"
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn limit(&self) -> Option<(u64, Option<u64>)> {
        let LimitRange { offset, end, .. } = *self.range;
        Some((offset, (end < u64::MAX).then(|| end - offset)))
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Box::new(LimitLocal { range: Arc::clone(&self.range), passes: None, ends: false })
    }
}

/// One lane's part: the range, and the part of the chunk at hand that passes.
struct LimitLocal {
    range: Arc<LimitRange>,
    passes: Option<Chunk>,
    /// The last row that is wanted was in this chunk, or in one of another lane.
    ends: bool,
}

impl OperatorLocal for LimitLocal {
    fn begin(&mut self, chunk: Chunk, _cancelled: &dyn Fn() -> bool) -> Result<(), ExecError> {
        let LimitRange { offset, end, seen } = &*self.range;
        let rows = chunk.len() as u64;
        // This chunk's rows are numbers first .. first + rows of the whole.
        let first = seen.fetch_add(rows, Ordering::Relaxed);
        let from = first.max(*offset);
        let to = (first + rows).min(*end);
        self.passes = (from < to).then(|| match to - from == rows {
            true => chunk,
            false => chunk.slice((from - first) as usize, (to - from) as usize),
        });
        self.ends = first + rows >= *end;
        Ok(())
    }

    fn next(&mut self) -> Result<OperatorStep, ExecError> {
        Ok(match self.passes.take() {
            Some(chunk) => OperatorStep::Chunk(chunk),
            None if self.ends => OperatorStep::Stop,
            None => OperatorStep::Done,
        })
    }
}
