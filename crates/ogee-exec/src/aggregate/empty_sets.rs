//! Groups of the empty grouping set over no rows: there is one for each such set, whatever the keys of the other sets.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ogee_vector::Chunk;

use super::sink::AggregateSink;
use crate::{ExecContext, ExecError, Flow, Operator, OperatorLocal, Sink, Source};

/// Passes groups on; if there are none, its rest is the groups of an aggregation without keys over no rows.
pub(crate) struct EmptySets {
    seen: Arc<AtomicBool>,
    sink: AggregateSink,
    rest: Arc<dyn Source>,
}

impl EmptySets {
    /// `sink` has no keys; its group comes out of `rest`.
    pub(crate) fn new(sink: AggregateSink, rest: Arc<dyn Source>) -> Self {
        Self { seen: Arc::default(), sink, rest }
    }
}

impl Operator for EmptySets {
    fn name(&self) -> &str {
        "empty sets"
    }

    fn local(&self, _ctx: &ExecContext) -> Box<dyn OperatorLocal> {
        Box::new(EmptySetsLocal(Arc::clone(&self.seen)))
    }

    fn rest(&self) -> Option<Arc<dyn Source>> {
        Some(Arc::clone(&self.rest))
    }

    fn finish(&self, ctx: &ExecContext) -> Result<(), ExecError> {
        match self.seen.load(Ordering::Relaxed) {
            true => self.sink.finish_without_groups(),
            false => self.sink.finish(ctx)?,
        }
        Ok(())
    }
}

struct EmptySetsLocal(Arc<AtomicBool>);

impl OperatorLocal for EmptySetsLocal {
    fn push(
        &mut self,
        chunk: Chunk,
        emit: &mut dyn FnMut(Chunk) -> Result<Flow, ExecError>,
    ) -> Result<Flow, ExecError> {
        self.0.store(true, Ordering::Relaxed);
        emit(chunk)
    }
}
