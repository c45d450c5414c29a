//! Union of all rows of several inputs, as one source.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use arrow_schema::SchemaRef;
use ogee_scheduler::{JobWaker, TaskContext};
use ogee_vector::Domain;
use parking_lot::Mutex;

use crate::{
    ExecContext, ExecError, OperatorProfile, RowOrder, Source, SourceLocal, SourceStep,
    query::OpenPipeline,
    stages::{Moved, Stages, StagesLocal},
};

/// The rows of several inputs, one input after the other; lanes move on by themselves, so that none waits at the seam. A lane that finds nothing more in an input
/// has seen all ranges of its order claimed, so those of the next input follow them.
pub struct UnionSource {
    schema: SchemaRef,
    rows_estimate: Option<u64>,
    domains: Vec<Domain>,
    /// The inputs until the query begins: joins above may still put filters into them.
    open: Mutex<Vec<OpenPipeline>>,
    owner: Option<Arc<OperatorProfile>>,
    inputs: OnceLock<Arc<Vec<Input>>>,
}

struct Input {
    stages: Arc<Stages>,
    /// Lanes that found this input exhausted.
    exhausted: AtomicUsize,
}

impl UnionSource {
    /// The union of `inputs`, whose columns are all of `schema`. Rows come into `owner` out of them.
    pub fn open(schema: SchemaRef, inputs: Vec<OpenPipeline>, owner: Option<Arc<OperatorProfile>>) -> OpenPipeline {
        for input in inputs.iter().filter(|input| input.is_serial()) {
            input.order.iter().for_each(|order| order.serialize());
        }
        let mut deps: Vec<usize> = inputs.iter().flat_map(|input| input.deps.iter().copied()).collect();
        deps.sort_unstable();
        deps.dedup();
        let rows_estimate = inputs.iter().map(|input| input.source.rows_estimate()).sum();
        let known = inputs.iter().map(OpenPipeline::domains);
        let domains = known.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a.union(b)).collect()).unwrap_or_default();
        let source = Self { schema, rows_estimate, domains, open: Mutex::new(inputs), owner, inputs: OnceLock::new() };
        OpenPipeline { deps, ..OpenPipeline::new(Arc::new(source)) }
    }

    /// The inputs, now that they run.
    fn inputs(&self) -> &Arc<Vec<Input>> {
        self.inputs.get_or_init(|| {
            let input = |input: OpenPipeline| Input {
                stages: Stages::new(input.source, input.operators, self.owner.clone(), false),
                exhausted: AtomicUsize::new(0),
            };
            Arc::new(std::mem::take(&mut *self.open.lock()).into_iter().map(input).collect())
        })
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
        self.rows_estimate
    }

    fn domains(&self) -> Vec<Domain> {
        self.domains.clone()
    }

    fn parts(&self) -> Option<&Mutex<Vec<OpenPipeline>>> {
        Some(&self.open)
    }

    fn has_order(&self) -> bool {
        self.open.lock().iter().all(|input| input.has_order() && input.source.has_order())
    }

    fn keep_order(&self, order: &Arc<RowOrder>) {
        for input in &mut *self.open.lock() {
            let part = order.of_part(input.order.as_ref().is_some_and(|order| order.is_serial()));
            input.source.keep_order(&part);
            input.order = Some(part);
        }
    }

    fn lanes(&self, threads: usize) -> usize {
        let open = self.inputs().iter().filter(|input| input.exhausted.load(Ordering::Relaxed) == 0);
        open.map(|input| input.stages.lanes(threads)).sum::<usize>().min(threads)
    }

    fn attach(&self, waker: JobWaker) {
        self.inputs().iter().for_each(|input| input.stages.attach(&waker));
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(UnionLocal { inputs: Arc::clone(self.inputs()), ctx: ctx.clone(), lane, at: 0, open: None }))
    }

    fn stop(&self) {
        self.inputs().iter().for_each(|input| input.stages.stop());
    }
}

struct UnionLocal {
    inputs: Arc<Vec<Input>>,
    ctx: ExecContext,
    lane: usize,
    at: usize,
    open: Option<StagesLocal>,
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
            let Some(input) = self.inputs.get(self.at) else {
                return Ok(SourceStep::Exhausted);
            };
            let open = match &mut self.open {
                Some(open) => open,
                None => self.open.insert(input.stages.local(&self.ctx, self.lane)?),
            };
            let moved = open.advance(task)?;
            if !matches!(moved, Moved::Chunk(_)) {
                // The lane pauses, or leaves the input.
                open.report();
            }
            match moved {
                Moved::Chunk(chunk) => return Ok(SourceStep::Chunk(chunk)),
                Moved::MorselEnd => return Ok(SourceStep::MorselEnd),
                Moved::Blocked => return Ok(SourceStep::Blocked),
                Moved::Exhausted => self.advance(),
            }
        }
    }
}
