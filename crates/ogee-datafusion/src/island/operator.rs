//! Operators of an island, as nodes of the plan: what `EXPLAIN` shows and what pipelines are built from.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use datafusion::{
    arrow::{
        compute::cast,
        datatypes::{DataType, SchemaRef},
    },
    common::{ScalarValue, internal_err, tree_node::TreeNodeRecursion},
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex},
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        apply_expression_roots,
        metrics::{Count, Metric, MetricValue, MetricsSet, Time},
    },
};
use ogee_exec::{
    ChannelSender, ChannelSource, Counts, ExecError, OpenPipeline, Operator, OperatorProfile, Project, Query,
    RowsExpected, ScalarSink, UnionSource,
};
use ogee_planner::{
    expr::{translate, translate_predicate},
    join_order::Expected,
    node::{Work, properties},
    operators::{Aggregate, Join, ParquetScan, Series, Sort, TextScan, Unnest, Window},
    table::{BlockScan, TableScan},
};
use ogee_vector::{normalize_schema, row_width};

use crate::{asof::Asof, recursion::WorkTableScan};

/// What an operator of an island does.
#[derive(Debug)]
pub(crate) enum Op {
    /// Reads Parquet files.
    Scan(ParquetScan),
    /// Reads CSV or JSON files.
    TextScan(TextScan),
    /// Reads a table whose rows are pages of the pool.
    Table(TableScan),
    /// Reads the rows that the last iteration of a recursive query found.
    WorkTable(WorkTableScan),
    /// Counts in steps.
    Series(Series),
    /// Keeps the rows for which the predicate is true, then the columns of the projection.
    Filter { predicate: Arc<dyn PhysicalExpr>, projection: Option<Vec<usize>> },
    /// Computes expressions, with the names that they get.
    Project(Vec<(Arc<dyn PhysicalExpr>, String)>),
    /// Skips rows, then passes some or all.
    Limit { skip: usize, fetch: Option<usize> },
    /// Groups.
    Aggregate(Box<Aggregate>),
    /// Joins its first input, which is built, with its second.
    Join(Box<Join>),
    /// Joins each row of its first input with the last row before it of its second.
    Asof(Arc<Asof>),
    /// All rows of the first input, whose expressions read the values that the others give.
    Scalars { results: ScalarSubqueryResults, indexes: Vec<SubqueryIndex> },
    /// Sorts, all rows or for the first of them.
    Sort(Box<Sort>),
    /// Computes window functions.
    Window(Box<Window>),
    /// Gives a row for each element of lists, a column for each field of structs.
    Unnest(Box<Unnest>),
    /// All rows of all inputs.
    Union,
    /// Nothing: a node that only made sense between DataFusion's operators.
    Pass,
}

impl Op {
    /// Whether rows come out in the order in which they came in.
    pub(crate) fn keeps_order(&self) -> bool {
        matches!(self, Self::Filter { .. } | Self::Project(_) | Self::Limit { .. } | Self::Scalars { .. } | Self::Pass)
    }

    /// Whether rows come out in an order, whatever the one in which they came in.
    pub(crate) fn makes_order(&self) -> bool {
        match self {
            Self::Sort(_) => true,
            Self::Window(window) => window.makes_order(),
            _ => false,
        }
    }
}

/// An operator of an island. It runs only as part of the [`IslandExec`](super::IslandExec) above it.
#[derive(Debug)]
pub(crate) struct OperatorExec {
    op: Arc<Op>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    /// Rows that are expected to come out.
    expected: Expected,
    /// What its lanes have counted, in all runs.
    profile: Arc<OperatorProfile>,
    /// Rows of a join's probe side that were dropped before they came to it, in all runs.
    rows_dropped: Arc<AtomicU64>,
}

impl OperatorExec {
    /// `op` over `inputs`, with the columns that the replaced node declared, and about as many rows as `expected`.
    pub(crate) fn new(op: Op, inputs: Vec<Arc<dyn ExecutionPlan>>, schema: SchemaRef, expected: Expected) -> Self {
        Self::with(Arc::new(op), inputs, properties(schema), expected)
    }

    fn with(
        op: Arc<Op>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        properties: Arc<PlanProperties>,
        expected: Expected,
    ) -> Self {
        Self { op, inputs, properties, expected, profile: Arc::default(), rows_dropped: Arc::default() }
    }

    /// The same rows, without some for which column `column` is more than `most`, if a window below can leave them out.
    pub(crate) fn limited(&self, column: usize, most: u64) -> Option<Self> {
        let with = |op, inputs| Self::with(op, inputs, Arc::clone(&self.properties), self.expected.clone());
        match &*self.op {
            Op::Window(window) => {
                Some(with(Arc::new(Op::Window(Box::new(window.limited(column, most)?))), self.inputs.clone()))
            }
            Op::Project(exprs) => {
                let column = exprs.get(column)?.0.downcast_ref::<Column>()?.index();
                let input = self.inputs[0].downcast_ref::<Self>()?.limited(column, most)?;
                Some(with(Arc::clone(&self.op), vec![Arc::new(input)]))
            }
            _ => None,
        }
    }

    fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        match &*self.op {
            Op::Filter { predicate, .. } => vec![Arc::clone(predicate)],
            Op::Project(exprs) => exprs.iter().map(|(expr, _)| Arc::clone(expr)).collect(),
            Op::Aggregate(aggregate) => aggregate.expressions(),
            Op::Join(join) => join.expressions(),
            Op::Asof(asof) => asof.expressions(),
            Op::Scan(scan) => scan.expressions(),
            Op::TextScan(scan) => scan.expressions(),
            Op::Sort(sort) => sort.expressions(),
            Op::Window(window) => window.expressions(),
            Op::Table(_)
            | Op::WorkTable(_)
            | Op::Series(_)
            | Op::Limit { .. }
            | Op::Scalars { .. }
            | Op::Unnest(_)
            | Op::Union
            | Op::Pass => Vec::new(),
        }
    }
}

/// A DataFusion node below an island and where its rows go.
pub(super) struct Feed {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) sender: ChannelSender,
}

/// Chunks that may wait between a DataFusion node and the island it feeds. Few, since they are heap memory.
const FEED_CAPACITY: usize = 8;

/// Bytes of the widest row that `node`, an operator below it, or a node that feeds these gives, without long strings.
pub(super) fn widest_row(node: &Arc<dyn ExecutionPlan>) -> usize {
    let own = row_width(&node.schema());
    let inputs = node.downcast_ref::<OperatorExec>().map_or(&[][..], |operator| &operator.inputs);
    inputs.iter().map(widest_row).fold(own, usize::max)
}

/// Adds the pipelines of `node` and everything below it to `query`; what is left open is the one that ends in `node`.
pub(super) fn open(
    node: &Arc<dyn ExecutionPlan>,
    query: &mut Query,
    feeds: &mut Vec<Feed>,
) -> Result<OpenPipeline, ExecError> {
    let Some(operator) = node.downcast_ref::<OperatorExec>() else {
        let schema = normalize_schema(&node.schema());
        let (source, sender) = ChannelSource::new(node.name(), schema, FEED_CAPACITY, query.ctx());
        feeds.push(Feed { plan: Arc::clone(node), sender });
        query.ctx().counters.expect_rows(None);
        return Ok(OpenPipeline::new(source));
    };
    query.owned(&operator.profile, |query| open_operator(operator, query, feeds))
}

/// `scan`, whose rows are among those that the query is expected to read.
fn counted(query: &Query, scan: OpenPipeline) -> OpenPipeline {
    query.ctx().counters.expect_rows(scan.source.rows_estimate());
    scan
}

fn open_operator(operator: &OperatorExec, query: &mut Query, feeds: &mut Vec<Feed>) -> Result<OpenPipeline, ExecError> {
    let declared = || operator.inputs[0].schema();
    let planned = ogee_functions::error::to_exec;
    match &*operator.op {
        Op::Scan(scan) => Ok(counted(query, scan.open(query.ctx())?)),
        Op::TextScan(scan) => Ok(counted(query, scan.open(query.ctx())?)),
        Op::Table(scan) => Ok(counted(query, OpenPipeline::new(scan.0.source()))),
        Op::WorkTable(scan) => Ok(counted(query, OpenPipeline::new(scan.now().source()))),
        Op::Series(series) => {
            Ok(counted(query, OpenPipeline::new(series.source(normalize_schema(&operator.schema())))))
        }
        Op::Filter { predicate, projection } => {
            let mut pipeline = open(&operator.inputs[0], query, feeds)?;
            pipeline.filter(translate_predicate(predicate, &declared()).map_err(planned)?);
            if let Some(columns) = projection {
                let columns = columns.iter().map(|&column| ogee_exec::Expr::Column(column)).collect();
                pipeline.operators.push(Arc::new(Project::new(columns)));
            }
            Ok(pipeline)
        }
        Op::Project(exprs) => {
            let mut pipeline = open(&operator.inputs[0], query, feeds)?;
            let input = declared();
            let exprs =
                exprs.iter().map(|(expr, _)| translate(expr, &input)).collect::<Result<Vec<_>>>().map_err(planned)?;
            pipeline.operators.push(Arc::new(Project::new(exprs)) as Arc<dyn Operator>);
            Ok(pipeline)
        }
        Op::Unnest(unnest) => {
            let mut pipeline = open(&operator.inputs[0], query, feeds)?;
            pipeline.operators.extend(unnest.operators());
            Ok(pipeline)
        }
        Op::Limit { skip, fetch } => {
            let mut pipeline = open(&operator.inputs[0], query, feeds)?;
            query.keep_order(&mut pipeline);
            pipeline.limit(*skip as u64, fetch.map(|rows| rows as u64));
            Ok(pipeline)
        }
        Op::Aggregate(aggregate) => {
            let input = open(&operator.inputs[0], query, feeds)?;
            ogee_exec::aggregate::aggregate(query, input, aggregate.spec().clone())
        }
        Op::Join(join) => {
            let build = open(&operator.inputs[0], query, feeds)?;
            let probe = open(&operator.inputs[1], query, feeds)?;
            // Groups are worth waiting for if most of them may turn out not to be needed.
            let groups_wait = groups_of(&operator.inputs[1])
                .is_some_and(|groups| rows_of(&operator.inputs[0]).saturating_mul(2) <= groups);
            let dropped = Arc::clone(&operator.rows_dropped);
            let built = Arc::clone(&operator.inputs[0]);
            let build_rows = RowsExpected::new(move || rows_of(&built));
            let spec = join.spec(&build, build_rows, &operator.schema(), groups_wait, dropped).map_err(planned)?;
            ogee_exec::join::hash_join(query, build, probe, spec)
        }
        Op::Asof(asof) => {
            let left = open(&operator.inputs[0], query, feeds)?;
            let right = open(&operator.inputs[1], query, feeds)?;
            ogee_exec::asof::asof(query, left, right, asof.spec().map_err(planned)?)
        }
        Op::Scalars { results, indexes } => {
            // A plan may be executed again.
            results.clear();
            let (main, subqueries) = operator.inputs.split_first().expect("the rows, then the subqueries");
            let mut before = Vec::with_capacity(subqueries.len());
            for (subquery, &index) in subqueries.iter().zip(indexes) {
                let rows = open(subquery, query, feeds)?;
                let sink = scalar(results.clone(), index, subquery.schema().field(0).data_type().clone());
                before.push(query.add(rows, sink));
            }
            query.after(&before, |query| open(main, query, feeds))
        }
        Op::Sort(sort) => {
            let input = open(&operator.inputs[0], query, feeds)?;
            ogee_exec::sort::sort(query, input, sort.spec())
        }
        Op::Window(window) => {
            let input = open(&operator.inputs[0], query, feeds)?;
            ogee_exec::window::window(query, input, window.spec())
        }
        Op::Union => {
            let inputs =
                operator.inputs.iter().map(|input| open(input, query, feeds)).collect::<Result<Vec<_>, _>>()?;
            Ok(UnionSource::open(normalize_schema(&operator.schema()), inputs, query.owner()))
        }
        Op::Pass => open(&operator.inputs[0], query, feeds),
    }
}

/// Rows that are expected to come out of `plan`, an island or an operator of one.
pub(crate) fn expected_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    match plan.downcast_ref::<OperatorExec>() {
        Some(operator) => Some(operator.expected.rows()),
        None if plan.is::<super::IslandExec>() => expected_rows(plan.children()[0]),
        None => None,
    }
}

/// Rows that are expected to come out of `node`; as many as there can be if it is none of an island.
fn rows_of(node: &Arc<dyn ExecutionPlan>) -> u64 {
    node.downcast_ref::<OperatorExec>().map_or(u64::MAX, |operator| operator.expected.rows())
}

/// Groups that are expected to be made for `node`, before some of them are dropped, where its rows are groups; `None` where they
/// come right out of a table.
fn groups_of(node: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let operator = node.downcast_ref::<OperatorExec>()?;
    match (&*operator.op, &operator.inputs[..]) {
        (Op::Filter { .. } | Op::Project(_) | Op::Pass, [input]) | (Op::Join(_), [_, input]) => groups_of(input),
        (Op::Scan(_) | Op::TextScan(_) | Op::Table(_) | Op::WorkTable(_) | Op::Series(_), _) => None,
        _ => Some(operator.expected.rows()),
    }
}

/// Where a subquery's value goes, in the type that it was planned for; NULL if it has no row.
fn scalar(results: ScalarSubqueryResults, index: SubqueryIndex, data_type: DataType) -> Arc<ScalarSink> {
    ScalarSink::new(move |value| {
        let value = match value {
            Some(array) => ScalarValue::try_from_array(&cast(&array, &data_type)?, 0),
            None => ScalarValue::try_from(&data_type),
        };
        value.and_then(|value| results.set(index, value)).map_err(ogee_functions::error::to_exec)
    })
}

impl DisplayAs for OperatorExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            return match &*self.op {
                Op::Filter { predicate, .. } => writeln!(f, "predicate={predicate}"),
                Op::Aggregate(aggregate) => writeln!(f, "{aggregate}"),
                Op::Join(join) => writeln!(f, "{join}"),
                Op::Asof(asof) => writeln!(f, "{asof}"),
                Op::Sort(sort) => writeln!(f, "{sort}"),
                Op::Window(window) => writeln!(f, "{window}"),
                Op::Scan(scan) => writeln!(f, "files={}", scan.file_count()),
                Op::TextScan(scan) => writeln!(f, "files={}", scan.file_count()),
                _ => Ok(()),
            };
        }
        write!(f, "{}", self.name())?;
        self.fmt_operator(f)?;
        let separator = if matches!(&*self.op, Op::Union | Op::Pass) { ":" } else { "," };
        write!(f, "{separator} estimated_rows={}", self.expected.rows())
    }
}

impl OperatorExec {
    /// What is particular to the operator, after its name.
    fn fmt_operator(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &*self.op {
            Op::Scan(scan) => write!(f, ": {scan}"),
            Op::TextScan(scan) => write!(f, ": {scan}"),
            Op::Table(scan) => write!(f, ": {scan}"),
            Op::WorkTable(scan) => write!(f, ": {scan}"),
            Op::Series(series) => write!(f, ": {series}"),
            Op::Filter { predicate, projection } => {
                write!(f, ": {predicate}")?;
                if projection.is_some() {
                    let schema = self.schema();
                    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                    write!(f, ", projection=[{}]", names.join(", "))?;
                }
                Ok(())
            }
            Op::Project(exprs) => {
                let exprs: Vec<_> = exprs
                    .iter()
                    .map(|(expr, name)| {
                        let text = expr.to_string();
                        match text.rsplit_once('@') {
                            Some((column, _)) if column == name => text,
                            _ => format!("{text} as {name}"),
                        }
                    })
                    .collect();
                write!(f, ": [{}]", exprs.join(", "))
            }
            Op::Limit { skip, fetch } => match fetch {
                Some(fetch) => write!(f, ": skip={skip}, fetch={fetch}"),
                None => write!(f, ": skip={skip}"),
            },
            Op::Aggregate(aggregate) => write!(f, ": {aggregate}"),
            Op::Join(join) => write!(f, ": {join}"),
            Op::Asof(asof) => write!(f, ": {asof}"),
            Op::Scalars { indexes, .. } => write!(f, ": subqueries={}", indexes.len()),
            Op::Sort(sort) => write!(f, ": {sort}"),
            Op::Window(window) => write!(f, ": {window}"),
            Op::Unnest(unnest) => write!(f, ": {unnest}"),
            Op::Union | Op::Pass => Ok(()),
        }
    }
}

impl ExecutionPlan for OperatorExec {
    fn name(&self) -> &str {
        match &*self.op {
            Op::Scan(_) | Op::TextScan(_) => "OgeeScan",
            Op::Table(_) => "OgeeTable",
            Op::WorkTable(_) => "OgeeWorkTable",
            Op::Series(_) => "OgeeSeries",
            Op::Filter { .. } => "OgeeFilter",
            Op::Project(_) => "OgeeProject",
            Op::Limit { .. } => "OgeeLimit",
            Op::Aggregate(_) => "OgeeAggregate",
            Op::Join(_) => "OgeeJoin",
            Op::Asof(_) => "OgeeAsofJoin",
            Op::Scalars { .. } => "OgeeScalars",
            Op::Sort(sort) if sort.fetch().is_some() => "OgeeTopK",
            Op::Sort(_) => "OgeeSort",
            Op::Window(_) => "OgeeWindow",
            Op::Unnest(_) => "OgeeUnnest",
            Op::Union => "OgeeUnion",
            Op::Pass => "OgeePass",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::with(Arc::clone(&self.op), children, Arc::clone(&self.properties), self.expected.clone())))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.expressions(), f)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = MetricsSet::new();
        let mut push = |value| metrics.push(Arc::new(Metric::new(value, None)));
        let counted = |number: u64| {
            let count = Count::new();
            count.add(usize::try_from(number).unwrap_or(usize::MAX));
            count
        };
        let lanes = self.profile.lanes();
        let total = self.profile.total();
        push(MetricValue::OutputRows(counted(total.rows_out)));
        let named = |name: &'static str, number| MetricValue::Count { name: name.into(), count: counted(number) };
        push(named("output_chunks", total.chunks_out));
        if total.chunks_in > 0 {
            push(named("input_rows", total.rows_in));
            push(named("input_chunks", total.chunks_in));
        }
        let dropped = self.rows_dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            push(named("rows_dropped_early", dropped));
        }
        if !total.time.is_zero() {
            let timed = |name: &'static str, duration| {
                let time = Time::new();
                time.add_duration(duration);
                MetricValue::Time { name: name.into(), time }
            };
            push(timed("time", total.time));
            // Where one lane did most of the work the others waited for it.
            push(timed("longest_lane", lanes.iter().map(|lane| lane.time).max().unwrap_or_default()));
        }
        push(named("lanes", lanes.iter().filter(|lane| **lane != Counts::default()).count() as u64));
        Some(metrics)
    }

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("{} runs only within its island", self.name())
    }
}
