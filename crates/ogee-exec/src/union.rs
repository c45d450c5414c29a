//! Union of all rows of several inputs, as one source.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_schema::SchemaRef;
use ogee_scheduler::{JobWaker, TaskContext};
use ogee_vector::{Chunk, Domain};

use crate::{
    ExecContext, ExecError, Flow, Source, SourceLocal, SourceStep,
    query::OpenPipeline,
    stages::{Moved, Stages, StagesLocal},
};

/// The rows of several inputs, one input after the other; lanes move on by themselves, so that none waits at the seam.
pub struct UnionSource {
    schema: SchemaRef,
    inputs: Arc<Vec<Input>>,
}

struct Input {
    stages: Arc<Stages>,
    rows_estimate: Option<u64>,
    domains: Vec<Domain>,
    /// Lanes that found this input exhausted.
    exhausted: AtomicUsize,
}

impl UnionSource {
    /// The union of `inputs`, whose columns are all of `schema`.
    pub fn open(schema: SchemaRef, inputs: Vec<OpenPipeline>) -> OpenPipeline {
        let mut deps: Vec<usize> = inputs.iter().flat_map(|input| input.deps.iter().copied()).collect();
        deps.sort_unstable();
        deps.dedup();
        let inputs = inputs
            .into_iter()
            .map(|input| Input {
                rows_estimate: input.source.rows_estimate(),
                domains: input.domains(),
                stages: Stages::new(input.source, input.operators, false),
                exhausted: AtomicUsize::new(0),
            })
            .collect();
        OpenPipeline { deps, ..OpenPipeline::new(Arc::new(Self { schema, inputs: Arc::new(inputs) })) }
    }
}

impl Source for UnionSource {
    fn name(&self) -> &str {
        "union"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows_estimate(&self) -> Option<u64> {
        self.inputs.iter().map(|input| input.rows_estimate).sum()
    }

    fn domains(&self) -> Vec<Domain> {
        let known = self.inputs.iter().map(|input| input.domains.clone());
        known.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a.union(b)).collect()).unwrap_or_default()
    }

    fn lanes(&self, threads: usize) -> usize {
        let open = self.inputs.iter().filter(|input| input.exhausted.load(Ordering::Relaxed) == 0);
        open.map(|input| input.stages.lanes(threads)).sum::<usize>().min(threads)
    }

    fn attach(&self, waker: JobWaker) {
        self.inputs.iter().for_each(|input| input.stages.attach(&waker));
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(UnionLocal {
            inputs: Arc::clone(&self.inputs),
            ctx: ctx.clone(),
            lane,
            at: 0,
            open: None,
            ready: VecDeque::new(),
        }))
    }

    fn stop(&self) {
        self.inputs.iter().for_each(|input| input.stages.stop());
    }
}

struct UnionLocal {
    inputs: Arc<Vec<Input>>,
    ctx: ExecContext,
    lane: usize,
    at: usize,
    open: Option<StagesLocal>,
    /// What the last chunk of the input became.
    ready: VecDeque<Chunk>,
}

impl UnionLocal {
    /// Leaves the current input for good.
    fn advance(&mut self) {
        self.inputs[self.at].exhausted.fetch_add(1, Ordering::Relaxed);
        self.open = None;
        self.at += 1;
    }
}

impl SourceLocal for UnionLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok(SourceStep::Chunk(chunk));
            }
            let Some(input) = self.inputs.get(self.at) else {
                return Ok(SourceStep::Exhausted);
            };
            let open = match &mut self.open {
                Some(open) => open,
                None => self.open.insert(input.stages.local(&self.ctx, self.lane)?),
            };
            let ready = &mut self.ready;
            let moved = open.advance(task, &mut |chunk| {
                ready.push_back(chunk);
                Ok(Flow::Continue)
            })?;
            match moved {
                Moved::Rows => {}
                Moved::MorselEnd => return Ok(SourceStep::MorselEnd),
                Moved::Blocked => return Ok(SourceStep::Blocked),
                Moved::Exhausted => self.advance(),
            }
        }
    }
}
