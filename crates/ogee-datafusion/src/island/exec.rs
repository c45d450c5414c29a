//! The node of the plan that runs an island.

use std::{
    fmt,
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch, RecordBatchOptions},
        compute::cast,
        datatypes::SchemaRef,
    },
    common::{Statistics, assert_eq_or_internal_err, internal_err, tree_node::TreeNodeRecursion},
    error::{DataFusionError, Result},
    execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execute_stream,
        metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput, Time},
        statistics::{StatisticsArgs, StatisticsContext},
    },
};
use futures::{FutureExt, Stream, StreamExt};
use ogee_exec::{ChannelSender, ExecError, OutputStream, Query, QueryCounters};
use ogee_functions::error::{to_datafusion, to_exec};
use ogee_sql::{LiveIsland, StatementContext};
use ogee_vector::{Chunk, normalize_array};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::operator::{self, Feed, OperatorExec};
use crate::{coalesce::Coalescer, engine::Engine};

/// Runs the operators below it as one query of the engine.
#[derive(Debug)]
pub(crate) struct IslandExec {
    root: Arc<dyn ExecutionPlan>,
    engine: Arc<Engine>,
    properties: Arc<PlanProperties>,
    /// The subtree that is replaced: it is asked what statistics it has when somebody wants to know, which is after a while or never.
    replaced: Arc<dyn ExecutionPlan>,
    use_of_rows: UseOfRows,
    metrics: ExecutionPlanMetricsSet,
    /// Decisions of the latest run, for `EXPLAIN ANALYZE`.
    latest: Arc<Mutex<Option<Arc<QueryCounters>>>>,
}

/// What becomes of the rows of an island.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UseOfRows {
    /// An operator of DataFusion's reads them, and not the user.
    pub(crate) to_operator: bool,
    /// They are wanted in the order in which they lie where they come from, if nothing sorts them.
    pub(crate) as_stored: bool,
}

/// Chunks that may wait for the one who reads the island.
const OUTPUT_CAPACITY: usize = 16;

/// Bytes of a batch that is put together of chunks, unless one of them has more: DataFusion's writers have a hundred batches in hand.
const COMPACTED_BYTES: usize = 1 << 20;

impl IslandExec {
    /// The island whose topmost operator is `root`, in the place of `replaced`. `properties`: what is known of its rows, their order included.
    pub(crate) fn new(
        root: Arc<dyn ExecutionPlan>,
        engine: Arc<Engine>,
        replaced: Arc<dyn ExecutionPlan>,
        use_of_rows: UseOfRows,
        properties: Arc<PlanProperties>,
    ) -> Self {
        Self {
            properties,
            root,
            engine,
            replaced,
            use_of_rows,
            metrics: ExecutionPlanMetricsSet::new(),
            latest: Arc::default(),
        }
    }
}

impl DisplayAs for IslandExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let strategies = self.latest.lock().as_ref().map(|counters| counters.strategies()).unwrap_or_default();
        if matches!(format, DisplayFormatType::TreeRender) {
            return strategies.iter().try_for_each(|decision| writeln!(f, "{decision}"));
        }
        write!(f, "OgeeIsland")?;
        if !strategies.is_empty() {
            write!(f, ": strategies=[{}]", strategies.join("; "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for IslandExec {
    fn name(&self) -> &str {
        "OgeeIsland"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.root]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_eq_or_internal_err!(children.len(), 1, "an island has one topmost operator");
        Ok(Arc::new(Self::new(
            children.swap_remove(0),
            Arc::clone(&self.engine),
            Arc::clone(&self.replaced),
            self.use_of_rows,
            Arc::clone(&self.properties),
        )))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.replaced.as_ref(), &StatisticsArgs::new())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("an island has one partition, not {partition}");
        }
        let schema = self.schema();
        let rows = context.session_config().batch_size();
        // Batches that only count rows have nothing to compact.
        let compactor = (self.use_of_rows.to_operator && !schema.fields().is_empty())
            .then(|| Coalescer::new(&schema, rows, COMPACTED_BYTES));
        Ok(Box::pin(IslandStream {
            schema,
            compactor,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            spilled: MetricBuilder::new(&self.metrics).counter("spilled_bytes", partition),
            elapsed: MetricBuilder::new(&self.metrics).subset_time("elapsed", partition),
            engine: Arc::clone(&self.engine),
            state: State::Waiting(Start {
                root: Arc::clone(&self.root),
                as_stored: self.use_of_rows.as_stored,
                latest: Arc::clone(&self.latest),
                context,
            }),
        }))
    }
}

/// Whether all of `plan` is the engine's.
pub(crate) fn is_one_island(plan: &Arc<dyn ExecutionPlan>) -> bool {
    (plan.is::<IslandExec>() || plan.is::<OperatorExec>()) && plan.children().into_iter().all(is_one_island)
}

/// What it takes to start the query.
struct Start {
    root: Arc<dyn ExecutionPlan>,
    as_stored: bool,
    latest: Arc<Mutex<Option<Arc<QueryCounters>>>>,
    context: Arc<TaskContext>,
}

struct Run {
    output: OutputStream,
    live: LiveIsland,
    /// Tasks that run the DataFusion nodes below; dropping the set ends them.
    feeds: JoinSet<()>,
    spilled_before: u64,
    started: Instant,
}

/// An island starts when it is first polled, not when it is made: DataFusion makes all streams of a plan at once, long before some of them
/// are read, and a query that runs holds memory.
enum State {
    Waiting(Start),
    Running(Run),
    Ended,
}

struct IslandStream {
    schema: SchemaRef,
    /// Makes larger batches of chunks, with buffers of their own: DataFusion's operators account for all of the buffers that a batch
    /// refers to, and a chunk may refer to a few strings of each of many pages.
    compactor: Option<Coalescer>,
    metrics: BaselineMetrics,
    spilled: Count,
    /// From the first poll to the end.
    elapsed: Time,
    engine: Arc<Engine>,
    state: State,
}

impl Start {
    fn start(self, engine: &Arc<Engine>) -> Result<Run, ExecError> {
        let mut ctx = engine.context();
        ctx.expect_rows_of(operator::widest_row(&self.root));
        let statement = self.context.session_config().get_extension::<StatementContext>();
        ctx.takes_times = statement.as_ref().is_some_and(|statement| statement.analyzes());
        let live = statement.map_or_else(LiveIsland::unattended, |statement| statement.register(&ctx.counters));
        *self.latest.lock() = Some(Arc::clone(&ctx.counters));
        let spilled_before = ctx.memory.stats().spilled_bytes;
        let mut query = Query::new(ctx);
        let mut feeds = Vec::new();
        let mut open = operator::open(&self.root, &mut query, &mut feeds)?;
        if self.as_stored {
            query.keep_order(&mut open);
        }
        let output = query.stream(open, engine.scheduler(), OUTPUT_CAPACITY);
        let mut tasks = JoinSet::new();
        for Feed { plan, sender } in feeds {
            tasks.spawn_on(feed(plan, Arc::clone(&self.context), sender), engine.runtime());
        }
        Ok(Run { output, live, feeds: tasks, spilled_before, started: Instant::now() })
    }
}

/// Runs `plan` and hands its rows to the island.
async fn feed(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>, mut sender: ChannelSender) {
    let name = plan.name().to_owned();
    let rows = async {
        let mut stream = execute_stream(plan, context)?;
        while let Some(batch) = stream.next().await.transpose()? {
            let columns =
                batch.columns().iter().map(normalize_array).collect::<Result<Vec<_>, _>>().map_err(to_datafusion)?;
            if !sender.send(&Chunk::new(columns, batch.num_rows())).await {
                return Ok(());
            }
        }
        Ok::<(), DataFusionError>(())
    };
    let result = match AssertUnwindSafe(rows).catch_unwind().await {
        Ok(result) => result.map_err(to_exec),
        Err(panic) => Err(ExecError::Panicked { job: name, message: panic_message(&*panic) }),
    };
    sender.finish(result);
}

/// What a panic said.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

impl IslandStream {
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if matches!(self.state, State::Waiting(_)) {
            let State::Waiting(start) = std::mem::replace(&mut self.state, State::Ended) else {
                unreachable!("matched above");
            };
            match start.start(&self.engine) {
                Ok(run) => self.state = State::Running(run),
                Err(error) => return Poll::Ready(Some(Err(to_datafusion(error)))),
            }
        }
        loop {
            if let Some(batch) = self.compactor.as_mut().and_then(Coalescer::next) {
                return Poll::Ready(Some(Ok(batch)));
            }
            let batch = match ready!(self.poll_chunk(cx)) {
                Some(Ok(batch)) => batch,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    if let Some(compactor) = &mut self.compactor {
                        compactor.finish()?;
                    }
                    return Poll::Ready(self.compactor.as_mut().and_then(Coalescer::next).map(Ok));
                }
            };
            match &mut self.compactor {
                Some(compactor) => compactor.push(&batch)?,
                None => return Poll::Ready(Some(Ok(batch))),
            }
        }
    }

    /// The next chunk as a batch.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let State::Running(run) = &mut self.state else { return Poll::Ready(None) };
        match ready!(run.output.poll_next(cx)) {
            Some(Ok(chunk)) => Poll::Ready(Some(self.to_batch(&chunk))),
            end => {
                let spilled = self.engine.memory().stats().spilled_bytes - run.spilled_before;
                self.spilled.add(spilled as usize);
                self.elapsed.add_duration(run.started.elapsed());
                self.state = State::Ended;
                Poll::Ready(end.and_then(Result::err).map(|error| Err(to_datafusion(error))))
            }
        }
    }

    /// `chunk` in the types that the replaced nodes declared.
    fn to_batch(&self, chunk: &Chunk) -> Result<RecordBatch> {
        let columns = self
            .schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| {
                let column: ArrayRef = chunk.column(index).flatten().map_err(to_datafusion)?;
                Ok(if column.data_type() == field.data_type() { column } else { cast(&column, field.data_type())? })
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(chunk.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Whoever reads the island may leave in the middle. Its query then ends by itself, at the next chunk of each lane; the statement is over
/// only then.
impl Drop for IslandStream {
    fn drop(&mut self) {
        if let State::Running(Run { mut output, live, feeds, .. }) = std::mem::replace(&mut self.state, State::Ended) {
            drop(feeds);
            output.cancel();
            self.engine.runtime().spawn(async move {
                while let Some(Ok(_)) = poll_fn(|cx| output.poll_next(cx)).await {}
                drop(live);
            });
        }
    }
}

impl Stream for IslandStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let poll = self.poll_batch(cx);
        if let Poll::Ready(Some(Ok(batch))) = &poll {
            batch.record_output(&self.metrics);
        }
        poll
    }
}

impl RecordBatchStream for IslandStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
