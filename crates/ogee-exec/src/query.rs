//! A query: its pipelines, what each waits for, and the run.

use std::sync::Arc;

use ogee_scheduler::{QueryBuilder, QueryError, QueryHandle, Scheduler};
use ogee_vector::Domain;

use crate::{
    ExecContext, ExecError, Expr, Filter, Limit, Mark, Operator, OperatorProfile, OutputStream, Pipeline, RowOrder,
    Sink, Source, output::output_channel, places::Places, sort::RowSlice,
};

/// A pipeline under construction: rows come from `source` through `operators`, once the pipelines `deps` have finished.
#[derive(Clone)]
pub struct OpenPipeline {
    /// Where the rows come from.
    pub source: Arc<dyn Source>,
    /// What happens to them on the way.
    pub operators: Vec<Arc<dyn Operator>>,
    /// Pipelines of the query (numbers that [`Query::add`] gave) that fill what `source` reads.
    pub deps: Vec<usize>,
    /// The order of the rows, if they have one that an output is to keep.
    pub order: Option<Arc<RowOrder>>,
    /// Whose rows the source gives, in groups, if each of them can be left out before it is made.
    pub groups: Option<Groups>,
}

/// Rows that are made of the rows of another pipeline, group by group: of those with equal values in some columns.
#[derive(Clone, Debug)]
pub struct Groups {
    /// The number of that pipeline.
    pub pipeline: usize,
    /// For each column, that one of the columns that go into the other pipeline's sink which has the same value in all rows of the group. If rows with
    /// a value of it were missing there, all rows with that value would be missing here, and no other row would change.
    pub columns: Vec<Option<usize>>,
}

impl OpenPipeline {
    /// The rows of `source`, which waits for nothing.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self { source, operators: Vec::new(), deps: Vec::new(), order: None, groups: None }
    }

    /// Columns of the chunks that come out.
    pub fn columns(&self) -> usize {
        self.operators.iter().fold(self.source.schema().fields().len(), |columns, op| op.columns(columns))
    }

    /// Keeps the rows for which `predicate` is true; the source does if it can.
    pub fn filter(&mut self, predicate: Expr) {
        let mut columns = Vec::new();
        predicate.columns(&mut columns);
        // From the last operator on: the numbers of columns are those before it only where it leaves them as they are.
        let is_kept = |operator: &Arc<dyn Operator>, column| operator.origin(column) == Some(column);
        let passes = |&column: &usize| self.operators.iter().rev().all(|operator| is_kept(operator, column));
        // What reads no columns is true of all rows or of none, also of those that an operator makes in the end.
        let has_rest = columns.is_empty() && self.operators.iter().any(|operator| operator.rest().is_some());
        let stays = predicate.is_volatile() || has_rest || !columns.iter().all(passes);
        if stays || !self.source.filter(&predicate) {
            self.operators.push(Arc::new(Filter::new(predicate)));
        }
    }

    /// Keeps rows `skip .. skip + fetch`, or all from `skip` on, of those that come, by their order if they have one. The source does if it can.
    pub fn limit(&mut self, skip: u64, fetch: Option<u64>) {
        let is_whole = self.operators.iter().all(|operator| operator.keeps_rows());
        if self.order.is_some() && is_whole && self.source.limit(skip, fetch) {
            return;
        }
        self.operators.push(Arc::new(Limit::new(skip, fetch)));
    }

    /// Whether its rows have an order, or can have the one in which they lie where they come from.
    pub fn has_order(&self) -> bool {
        self.operators.iter().all(|operator| operator.keeps_order())
            && (self.order.is_some() || self.source.has_order())
    }

    /// Has rows come in the order in which they lie where they come from, if they have no other, and if that one is not lost on the way.
    pub fn keep_order(&mut self) {
        if self.order.is_none() && self.has_order() {
            let order = Arc::new(RowOrder::default());
            self.source.keep_order(&order);
            self.order = Some(order);
        }
    }

    /// Appends the place of each row in the order in which they lie where they come from, or in the one that they have, for at most `lanes` lanes. The number of the
    /// column; `None` if there is no such order.
    pub(crate) fn number_rows(&mut self, lanes: usize) -> Option<usize> {
        // Rows that come of one row have one place.
        let is_numbered = self.operators.iter().all(|operator| operator.keeps_order() && !operator.multiplies());
        if !is_numbered || !self.source.has_order() {
            return None;
        }
        self.keep_order();
        let order = self.order.as_ref()?;
        order.follow(lanes);
        self.operators.push(Arc::new(Places::new(Arc::clone(order))));
        Some(self.columns() - 1)
    }

    /// Whether a limit on the way has to see rows in their order: those of one lane.
    pub(crate) fn is_serial(&self) -> bool {
        self.order.is_some() && self.operators.iter().any(|operator| operator.limit().is_some())
    }

    /// Takes out a limit behind which nothing changes what rows there are, if it is the only one: the rows that it passes. What fails of rows that nobody wants is then no
    /// error.
    fn take_limit(&mut self) -> RowSlice {
        let limits = self.operators.iter().filter(|operator| operator.limit().is_some()).count();
        let last = self.operators.iter().rposition(|operator| !operator.keeps_rows());
        match last.map(|at| (at, self.operators[at].limit())) {
            Some((at, Some((skip, fetch)))) if limits == 1 => {
                self.operators.remove(at);
                RowSlice::ALL.limited(skip, fetch)
            }
            _ => RowSlice::ALL,
        }
    }

    /// What statistics say about the columns that come out; see [`Source::domains`].
    pub fn domains(&self) -> Vec<Domain> {
        self.operators.iter().fold(self.source.domains(), |domains, op| op.domains(domains))
    }
}

/// A pipeline with its sink.
struct Closed {
    open: OpenPipeline,
    sink: Arc<dyn Sink>,
    owner: Option<Arc<OperatorProfile>>,
}

/// Pipelines with their dependencies, ready to be started.
pub struct Query {
    ctx: ExecContext,
    pipelines: Vec<Closed>,
    /// The operators of a plan whose pipelines are added now, the innermost last.
    owners: Vec<Arc<OperatorProfile>>,
    /// Pipelines that all those wait for that are added now.
    before: Vec<usize>,
}

impl Query {
    /// A query without pipelines.
    pub fn new(ctx: ExecContext) -> Self {
        Self { ctx, pipelines: Vec::new(), owners: Vec::new(), before: Vec::new() }
    }

    /// Has the rows of `open`, whose order somebody relies on, come in the order in which they lie where they come from, if it can be had and is not done
    /// without.
    pub fn keep_order(&self, open: &mut OpenPipeline) {
        if self.ctx.settings.keeps_order {
            open.keep_order();
        }
    }

    /// What its operators may use.
    pub fn ctx(&self) -> &ExecContext {
        &self.ctx
    }

    /// Closes `open` with `sink`; returns the number of the pipeline, for others to depend on.
    pub fn add(&mut self, mut open: OpenPipeline, sink: Arc<dyn Sink>) -> usize {
        open.deps.extend(&self.before);
        if let Some(order) = open.order.as_ref().filter(|_| open.is_serial()) {
            order.serialize();
        }
        self.pipelines.push(Closed { open, sink, owner: self.owner() });
        self.pipelines.len() - 1
    }

    /// Counts what `of` adds, and the pipeline that it leaves open from where its inputs end, as parts of `profile`, an operator of a plan.
    ///
    /// # Errors
    /// Those of `of`.
    pub fn owned(
        &mut self,
        profile: &Arc<OperatorProfile>,
        of: impl FnOnce(&mut Self) -> Result<OpenPipeline, ExecError>,
    ) -> Result<OpenPipeline, ExecError> {
        self.owners.push(Arc::clone(profile));
        let open = of(self);
        self.owners.pop();
        let mut open = open?;
        open.operators.push(Arc::new(Mark::new(Arc::clone(profile))));
        Ok(open)
    }

    /// The operator of a plan that pipelines are added for now.
    pub fn owner(&self) -> Option<Arc<OperatorProfile>> {
        self.owners.last().cloned()
    }

    /// Pipeline `number`, of those that were added.
    pub(crate) fn pipeline(&self, number: usize) -> &OpenPipeline {
        &self.pipelines[number].open
    }

    /// The same, to be changed.
    pub(crate) fn pipeline_mut(&mut self, number: usize) -> &mut OpenPipeline {
        &mut self.pipelines[number].open
    }

    /// Has all pipelines that `of` adds, and the one that it leaves open, wait for the pipelines `before`, whose results their expressions read.
    ///
    /// # Errors
    /// Those of `of`.
    pub fn after(
        &mut self,
        before: &[usize],
        of: impl FnOnce(&mut Self) -> Result<OpenPipeline, ExecError>,
    ) -> Result<OpenPipeline, ExecError> {
        let known = self.before.len();
        self.before.extend(before);
        let open = of(self);
        self.before.truncate(known);
        let mut open = open?;
        open.deps.extend(before);
        Ok(open)
    }

    /// The pipelines' names, in the order in which they were added.
    pub fn pipeline_names(&self) -> Vec<String> {
        let name = |closed: &Closed| Pipeline::name_of(&*closed.open.source, &closed.open.operators, &closed.sink);
        self.pipelines.iter().map(name).collect()
    }

    /// The pipelines, each after those that it waits for, and otherwise as they were added.
    fn in_order(&self) -> Vec<usize> {
        /// Whether a pipeline has its place, or its place is being looked for.
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Waiting,
            Placed,
        }
        fn place(query: &Query, number: usize, states: &mut [State], order: &mut Vec<usize>) {
            match states[number] {
                State::Placed => return,
                State::Waiting => panic!("pipelines wait for each other"),
                State::New => states[number] = State::Waiting,
            }
            query.pipelines[number].open.deps.iter().for_each(|&dep| place(query, dep, states, order));
            states[number] = State::Placed;
            order.push(number);
        }
        let mut states = vec![State::New; self.pipelines.len()];
        let mut order = Vec::with_capacity(states.len());
        (0..states.len()).for_each(|number| place(self, number, &mut states, &mut order));
        order
    }

    /// Hands the pipelines to the scheduler.
    pub fn start(self, scheduler: &Arc<Scheduler>) -> RunningQuery {
        self.start_with(scheduler, |_| ())
    }

    /// Closes `open` with an output that buffers about `capacity` chunks, and starts the query. Dropping the stream cancels it.
    pub fn stream(mut self, mut open: OpenPipeline, scheduler: &Arc<Scheduler>, capacity: usize) -> OutputStream {
        // What an operator gives when it has seen all rows belongs to no range, and comes when all of them have ended.
        let order = open.order.clone().filter(|_| open.operators.iter().all(|operator| operator.rest().is_none()));
        // Operators that are watched show how many rows a limit passes.
        let counts = order.is_some() && !self.ctx.takes_times;
        let wanted = if counts { open.take_limit() } else { RowSlice::ALL };
        let (sink, closer, mut stream) = output_channel(capacity, order, wanted, &self.ctx);
        self.add(open, sink);
        let running = self.start_with(scheduler, move |result| closer.close(result));
        stream.cancels(running);
        stream
    }

    fn start_with(
        self,
        scheduler: &Arc<Scheduler>,
        on_done: impl FnOnce(Result<(), ExecError>) + Send + 'static,
    ) -> RunningQuery {
        let mut builder = QueryBuilder::new();
        let order = self.in_order();
        let mut pipelines: Vec<_> = self.pipelines.into_iter().map(Some).collect();
        let mut ids = vec![None; pipelines.len()];
        for number in order {
            let Closed { open, sink, owner } = pipelines[number].take().expect("each has one place");
            let deps: Vec<_> = open.deps.iter().map(|&dep| ids[dep].expect("placed before")).collect();
            let pipeline = Pipeline::new(open.source, open.operators, sink, owner);
            ids[number] = Some(builder.add_job(Arc::new(pipeline.into_job(self.ctx.clone())), &deps));
        }
        let share = Arc::clone(&self.ctx.share);
        share.begin(ids.len());
        let on_done = move |result: Result<(), QueryError>| {
            share.end();
            on_done(result.map_err(|error| ExecError::from_query(&error)));
        };
        let handle = scheduler.submit(builder, Box::new(on_done));
        RunningQuery { handle }
    }
}

/// A query that was started. Clones speak of the same query.
#[derive(Clone)]
pub struct RunningQuery {
    handle: QueryHandle,
}

impl RunningQuery {
    /// Asks the query to end; lanes obey at the next chunk.
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// Waits until all lanes have ended and released what they held.
    ///
    /// # Errors
    /// Those of the query.
    pub fn wait(&self) -> Result<(), ExecError> {
        self.handle.wait().map_err(|error| ExecError::from_query(&error))
    }
}

impl ExecError {
    fn from_query(error: &QueryError) -> Self {
        match error {
            QueryError::Cancelled => Self::Cancelled,
            QueryError::Panicked { message, job } => Self::Panicked { job: job.clone(), message: message.clone() },
            QueryError::NoWorkers { .. } => Self::Foreign(error.to_string().into()),
            QueryError::Failed(error) => Self::Shared(Arc::clone(error)),
        }
    }
}
