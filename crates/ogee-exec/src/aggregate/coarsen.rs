//! Coarsen: groups of one grouping set on their way become the groups of coarser sets, too.
//!
//! Chunks pass unchanged: keys, the set's id, states. Those of the groups that the operator takes are also rows of an aggregation of its
//! own, whose groups come as the operator's [rest](Operator::rest), when all others have passed. An operator behind may take those again. So no
//! group is kept but in the tables of the sets that are made of it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ogee_scheduler::TaskContext;
use ogee_vector::{Chunk, Domain};

use super::sink::{AggregateLocal, AggregateSink};
use crate::{ExecContext, ExecError, Expr, Operator, OperatorLocal, OperatorStep, Sink, Source};

/// The groups of a set of which others are made.
pub(crate) struct Taken {
    /// True for them.
    pub(crate) is: Expr,
    /// Gives each of them once for every set that is made of it. None if one set is all that is made.
    pub(crate) expand: Option<Arc<dyn Operator>>,
}

/// Aggregates those of the groups that pass that are of some sets.
pub(crate) struct Coarsen {
    takes: Arc<[Taken]>,
    /// Those have begun to come.
    begun: Arc<AtomicBool>,
    /// Those that it makes have.
    finished: Arc<AtomicBool>,
    sink: Arc<AggregateSink>,
    rest: Arc<dyn Source>,
    /// Columns that are keys; they come first.
    keys: usize,
}

impl Coarsen {
    /// Groups that it `takes` go into `sink`, and what they become comes out of `rest`. `begun` says when the first of them may come: what an earlier
    /// operator makes comes when [it has finished](Self::finished).
    pub(crate) fn new(
        takes: Vec<Taken>,
        begun: Arc<AtomicBool>,
        sink: AggregateSink,
        rest: Arc<dyn Source>,
        keys: usize,
    ) -> Self {
        Self { takes: takes.into(), begun, finished: Arc::default(), sink: Arc::new(sink), rest, keys }
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

    fn local(&self, ctx: &ExecContext, lane: usize) -> Box<dyn OperatorLocal> {
        Box::new(CoarsenLocal {
            ctx: ctx.clone(),
            takes: Arc::clone(&self.takes),
            rows: Vec::new(),
            expand: self
                .takes
                .iter()
                .map(|taken| taken.expand.as_ref().map(|expand| expand.local(ctx, lane)))
                .collect(),
            sink: Arc::clone(&self.sink),
            groups: None,
            passes: None,
        })
    }

    /// What there is memory for is decided when the first group comes, and not before: by then others have given theirs back.
    fn lanes(&self, threads: usize) -> usize {
        match self.begun.load(Ordering::Acquire) {
            true => self.sink.granted_lanes().min(threads),
            false => threads,
        }
    }

    fn rest(&self) -> Option<Arc<dyn Source>> {
        Some(Arc::clone(&self.rest))
    }

    fn finish(&self, ctx: &ExecContext, task: &TaskContext) -> Result<(), ExecError> {
        self.sink.finish(ctx, task)?;
        self.finished.store(true, Ordering::Release);
        Ok(())
    }
}

struct CoarsenLocal {
    ctx: ExecContext,
    takes: Arc<[Taken]>,
    rows: Vec<u32>,
    /// Of those that are taken, in order.
    expand: Vec<Option<Box<dyn OperatorLocal>>>,
    sink: Arc<AggregateSink>,
    /// The lane's part of the aggregation, once a group came.
    groups: Option<AggregateLocal>,
    /// The chunk that was taken from, on its way.
    passes: Option<Chunk>,
}

impl OperatorLocal for CoarsenLocal {
    fn begin(&mut self, chunk: Chunk, cancelled: &dyn Fn() -> bool) -> Result<(), ExecError> {
        for (taken, expand) in self.takes.iter().zip(&mut self.expand) {
            taken.is.select(&chunk, &mut self.rows)?;
            if self.rows.is_empty() {
                continue;
            }
            let groups = self.groups.get_or_insert_with(|| self.sink.lane(&self.ctx));
            let rows = if self.rows.len() == chunk.len() { chunk.clone() } else { chunk.select(&self.rows) };
            let Some(expand) = expand else {
                groups.add(&rows, cancelled)?;
                continue;
            };
            // The lane's own tables take all of it at once.
            expand.begin(rows, cancelled)?;
            while let OperatorStep::Chunk(rows) = expand.next()? {
                groups.add(&rows, cancelled)?;
            }
        }
        self.passes = Some(chunk);
        Ok(())
    }

    fn next(&mut self) -> Result<OperatorStep, ExecError> {
        Ok(self.passes.take().map_or(OperatorStep::Done, OperatorStep::Chunk))
    }

    fn drain(&mut self) -> Result<(), ExecError> {
        if let Some(groups) = self.groups.take() {
            groups.hand_over();
        }
        Ok(())
    }
}
