//! Coarsen: groups of one grouping set on their way become the groups of coarser sets, too.
//!
//! Chunks pass unchanged: keys, the set's id, states. Those of the groups that the operator takes are also rows of an aggregation of its
//! own, whose groups come as the operator's [rest](Operator::rest), when all others have passed. An operator behind may take those again. So no
//! group is kept but in the tables of the sets that are made of it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ogee_vector::{Chunk, Domain};

use super::sink::{AggregateLocal, AggregateSink};
use crate::{ExecContext, ExecError, Expr, Flow, Operator, OperatorLocal, SinkLocal, Source};

/// Aggregates the groups that pass and are of one set.
pub(crate) struct Coarsen {
    /// True for the groups that it takes.
    takes: Arc<Expr>,
    /// Those have begun to come.
    begun: Arc<AtomicBool>,
    /// Those that it makes have.
    finished: Arc<AtomicBool>,
    /// Gives each group once for every set that is made of it, if there are several.
    expand: Option<Arc<dyn Operator>>,
    sink: Arc<AggregateSink>,
    rest: Arc<dyn Source>,
    /// Columns that are keys; they come first.
    keys: usize,
}

impl Coarsen {
    /// Groups for which `takes` is true go through `expand` into `sink`, and come out of `rest`. `begun` says when the first of them may come: what an
    /// earlier operator makes comes when [it has finished](Self::finished).
    pub(crate) fn new(
        (takes, begun): (Expr, Arc<AtomicBool>),
        expand: Option<Arc<dyn Operator>>,
        sink: AggregateSink,
        rest: Arc<dyn Source>,
        keys: usize,
    ) -> Self {
        Self { takes: Arc::new(takes), begun, finished: Arc::default(), expand, sink: Arc::new(sink), rest, keys }
    }

    /// Becomes true when the groups that it makes begin to come.
    pub(crate) fn finished(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.finished)
    }
}

impl Operator for Coarsen {
    fn name(&self) -> &str {
        "coarsen"
    }

    fn domains(&self, mut input: Vec<Domain>) -> Vec<Domain> {
        input.iter_mut().take(self.keys).for_each(|key| key.nulls = true);
        input
    }

    fn local(&self, ctx: &ExecContext) -> Box<dyn OperatorLocal> {
        Box::new(CoarsenLocal {
            ctx: ctx.clone(),
            takes: Arc::clone(&self.takes),
            rows: Vec::new(),
            expand: self.expand.as_ref().map(|expand| expand.local(ctx)),
            sink: Arc::clone(&self.sink),
            groups: None,
        })
    }

    /// What there is memory for is decided when the first group comes, and not before: by then others have given theirs back.
    fn lanes(&self, threads: usize) -> usize {
        match self.begun.load(Ordering::Acquire) {
            true => crate::Sink::lanes(&*self.sink, threads),
            false => threads,
        }
    }

    fn rest(&self) -> Option<Arc<dyn Source>> {
        Some(Arc::clone(&self.rest))
    }

    fn finish(&self, ctx: &ExecContext) -> Result<(), ExecError> {
        crate::Sink::finish(&*self.sink, ctx)?;
        self.finished.store(true, Ordering::Release);
        Ok(())
    }
}

struct CoarsenLocal {
    ctx: ExecContext,
    takes: Arc<Expr>,
    rows: Vec<u32>,
    expand: Option<Box<dyn OperatorLocal>>,
    sink: Arc<AggregateSink>,
    /// The lane's part of the aggregation, once a group came.
    groups: Option<AggregateLocal>,
}

impl OperatorLocal for CoarsenLocal {
    fn push(
        &mut self,
        chunk: Chunk,
        emit: &mut dyn FnMut(Chunk) -> Result<Flow, ExecError>,
    ) -> Result<Flow, ExecError> {
        self.takes.select(&chunk, &mut self.rows)?;
        if !self.rows.is_empty() {
            let taken = if self.rows.len() == chunk.len() { chunk.clone() } else { chunk.select(&self.rows) };
            let groups = self.groups.get_or_insert_with(|| self.sink.lane(&self.ctx));
            let mut add = |chunk: Chunk| groups.add(&chunk).map(|()| Flow::Continue);
            match &mut self.expand {
                Some(expand) => expand.push(taken, &mut add)?,
                None => add(taken)?,
            };
        }
        emit(chunk)
    }

    fn flush(&mut self) -> Result<(), ExecError> {
        match self.groups.take() {
            Some(groups) => Box::new(groups).combine(),
            None => Ok(()),
        }
    }
}
