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
    ExecContext, ExecError, Flow, Operator, OperatorLocal, Source, SourceLocal, SourceStep, query::OpenPipeline,
};

/// The rows of several inputs, one input after the other; lanes move on by themselves, so that none waits at the seam.
pub struct UnionSource {
    schema: SchemaRef,
    inputs: Arc<Vec<Input>>,
}

struct Input {
    source: Arc<dyn Source>,
    operators: Vec<Arc<dyn Operator>>,
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
            .map(|i| Input { source: i.source, operators: i.operators, exhausted: AtomicUsize::new(0) })
            .collect();
        OpenPipeline { source: Arc::new(Self { schema, inputs: Arc::new(inputs) }), operators: Vec::new(), deps }
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
        self.inputs.iter().map(|input| input.source.rows_estimate()).sum()
    }

    fn domains(&self) -> Vec<Domain> {
        let known = self.inputs.iter().map(|input| {
            input.operators.iter().fold(input.source.domains(), |domains, operator| operator.domains(domains))
        });
        known.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a.union(b)).collect()).unwrap_or_default()
    }

    fn lanes(&self, threads: usize) -> usize {
        let open = self.inputs.iter().filter(|input| input.exhausted.load(Ordering::Relaxed) == 0);
        open.map(|input| input.source.lanes(threads)).sum::<usize>().min(threads)
    }

    fn attach(&self, waker: JobWaker) {
        self.inputs.iter().for_each(|input| input.source.attach(waker.clone()));
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
        self.inputs.iter().for_each(|input| input.source.stop());
    }
}

/// A lane's position in one input.
struct OpenInput {
    source: Box<dyn SourceLocal>,
    operators: Vec<Box<dyn OperatorLocal>>,
}

struct UnionLocal {
    inputs: Arc<Vec<Input>>,
    ctx: ExecContext,
    lane: usize,
    at: usize,
    open: Option<OpenInput>,
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
            if self.open.is_none() {
                let operators = input.operators.iter().map(|o| o.local(&self.ctx)).collect();
                self.open = Some(OpenInput { source: input.source.local(&self.ctx, self.lane)?, operators });
            }
            let OpenInput { source, operators } = self.open.as_mut().expect("opened above");
            match source.next(task)? {
                SourceStep::Chunk(chunk) => {
                    if collect(operators, chunk, &mut self.ready)? == Flow::Stop {
                        input.source.stop();
                        self.advance();
                    }
                }
                SourceStep::Exhausted => self.advance(),
                step => return Ok(step),
            }
        }
    }
}

/// Pushes `chunk` through `operators`; what comes out is kept in `ready`.
fn collect(
    operators: &mut [Box<dyn OperatorLocal>],
    chunk: Chunk,
    ready: &mut VecDeque<Chunk>,
) -> Result<Flow, ExecError> {
    match operators.split_first_mut() {
        None => {
            ready.push_back(chunk);
            Ok(Flow::Continue)
        }
        Some((first, rest)) => first.push(chunk, &mut |chunk| collect(rest, chunk, ready)),
    }
}
