//! Limit and offset, counted over all lanes. Which rows pass is open, as SQL leaves it without an order.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ogee_vector::Chunk;

use crate::{ExecContext, ExecError, Flow, Operator, OperatorLocal};

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

    fn local(&self, _ctx: &ExecContext) -> Box<dyn OperatorLocal> {
        Box::new(LimitLocal(Arc::clone(&self.range)))
    }
}

struct LimitLocal(Arc<LimitRange>);

impl OperatorLocal for LimitLocal {
    fn push(
        &mut self,
        chunk: Chunk,
        emit: &mut dyn FnMut(Chunk) -> Result<Flow, ExecError>,
    ) -> Result<Flow, ExecError> {
        let LimitRange { offset, end, seen } = &*self.0;
        let rows = chunk.len() as u64;
        // This chunk's rows are numbers first .. first + rows of the whole.
        let first = seen.fetch_add(rows, Ordering::Relaxed);
        let from = first.max(*offset);
        let to = (first + rows).min(*end);
        let mut flow = Flow::Continue;
        if from < to {
            flow = if to - from == rows {
                emit(chunk)?
            } else {
                emit(chunk.slice((from - first) as usize, (to - from) as usize))?
            };
        }
        Ok(if first + rows >= *end { Flow::Stop } else { flow })
    }
}
