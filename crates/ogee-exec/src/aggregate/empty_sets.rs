//! Groups of the empty grouping set over no rows: there is one for each such set, whatever the keys of the other sets.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;

use super::sink::AggregateSink;
use crate::{
    ExecContext, ExecError, Operator, OperatorLocal, OperatorStep, Sink, Source,
    pipeline::{Map, Mapped},
};

/// Passes groups on; if there are none, its rest is the groups of an aggregation without keys over no rows.
pub(crate) struct EmptySets {
    seen: Arc<AtomicBool>,
    /// The groups of other empty sets come by as well: no rows are behind those.
    after_others: bool,
    sink: AggregateSink,
    rest: Arc<dyn Source>,
}

impl EmptySets {
    /// `sink` has no keys; its group comes out of `rest`. `before`: whether there are groups, from the empty set whose groups come by here.
    pub(crate) fn new(sink: AggregateSink, rest: Arc<dyn Source>, before: Option<Arc<AtomicBool>>) -> Self {
        Self { after_others: before.is_some(), seen: before.unwrap_or_default(), sink, rest }
    }

    /// Whether there are groups, once all have come by.
    pub(crate) fn seen(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.seen)
    }
}

impl Operator for EmptySets {
    fn name(&self) -> &str {
        "empty sets"
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Mapped::local(EmptySetsLocal((!self.after_others).then(|| Arc::clone(&self.seen))))
    }

    fn rest(&self) -> Option<Arc<dyn Source>> {
        Some(Arc::clone(&self.rest))
    }

    fn finish(&self, ctx: &ExecContext, task: &TaskContext) -> Result<(), ExecError> {
        match self.seen.load(Ordering::Relaxed) {
            true => self.sink.finish_without_groups(),
            false => self.sink.finish(ctx, task)?,
        }
        Ok(())
    }
}

struct EmptySetsLocal(Option<Arc<AtomicBool>>);

impl Map for EmptySetsLocal {
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError> {
        if let Some(seen) = &self.0 {
            seen.store(true, Ordering::Relaxed);
        }
        Ok(OperatorStep::Chunk(chunk))
    }
}
