//! Recursive queries: each iteration runs the recursive term over the rows that the last one found.
//!
//! The rows of an iteration, the *working table*, are pages of the pool; they go to whoever reads the query as they are found, and are dropped
//! after the next iteration. `UNION` without `ALL` keeps only rows that are new: the term becomes a grouping of itself, joined against all rows so
//! far (an anti join for which NULL equals NULL). Both run in islands, so they spill as any other. All rows so far are kept in blocks each
//! of which has more rows than those behind it together, or is full: few pages, and a row is copied as many times as the number of rows
//! has doubled since.
//!
//! Not here: what a term does (islands).

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::{RecordBatch, RecordBatchOptions},
        datatypes::{Schema, SchemaRef},
    },
    common::{
        JoinType, NullEquality, internal_err,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy},
        execute_stream,
        joins::{HashJoinExec, PartitionMode},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        recursive_query::RecursiveQueryExec,
        replace_children_if_necessary,
        stream::RecordBatchStreamAdapter,
        work_table::WorkTableExec,
    },
};
use futures::{StreamExt, stream::try_unfold};
use ogee_memory::BufferManager;
use ogee_planner::node::{Node, Work, properties};
use ogee_planner::table::BlockScan;
use parking_lot::RwLock;

use crate::table::{BLOCK_ROWS, Block, BlockWriter, PagedScan, coalescer};

/// Rows that change from one iteration to the next.
#[derive(Debug)]
pub(crate) struct WorkTable {
    name: String,
    schema: SchemaRef,
    memory: Arc<BufferManager>,
    blocks: RwLock<Vec<Arc<Block>>>,
}

impl WorkTable {
    fn new(name: &str, schema: &SchemaRef, memory: &Arc<BufferManager>) -> Arc<Self> {
        let (schema, memory) = (Arc::clone(schema), Arc::clone(memory));
        Arc::new(Self { name: name.to_owned(), schema, memory, blocks: RwLock::default() })
    }

    /// Adds `blocks`, and makes one of the last ones as long as the one before is not larger than those behind it.
    fn add(&self, blocks: &[Arc<Block>]) -> Result<()> {
        let mut all = self.blocks.write();
        for block in blocks {
            let mut rows = block.rows();
            let mut first = all.len();
            while first > 0 && all[first - 1].rows() <= rows && rows + all[first - 1].rows() <= BLOCK_ROWS {
                first -= 1;
                rows += all[first].rows();
            }
            if first == all.len() {
                all.push(Arc::clone(block));
                continue;
            }
            let mut writer = BlockWriter::new(&self.schema, &self.memory);
            // Many small batches would take longer to read than their rows.
            let mut coalescer = coalescer(&self.schema);
            for block in all.drain(first..).chain([Arc::clone(block)]) {
                for batch in block.batches()? {
                    coalescer.push(&batch?)?;
                    while let Some(batch) = coalescer.next() {
                        writer.write(&batch)?;
                    }
                }
            }
            coalescer.finish()?;
            while let Some(batch) = coalescer.next() {
                writer.write(&batch)?;
            }
            all.extend(writer.finish()?);
        }
        Ok(())
    }
}

/// Some columns of a working table, whatever rows it has when it is read.
#[derive(Clone, Debug)]
pub(crate) struct WorkTableScan {
    table: Arc<WorkTable>,
    projection: Vec<usize>,
    schema: SchemaRef,
}

impl WorkTableScan {
    /// The scan of the rows that are there now.
    pub(crate) fn now(&self) -> PagedScan {
        let blocks = self.table.blocks.read().clone().into();
        PagedScan::new(blocks, self.projection.clone(), Arc::clone(&self.schema), Arc::clone(&self.table.memory))
    }
}

impl fmt::Display for WorkTableScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "name={}, projection=[{}]", self.table.name, names.join(", "))
    }
}

/// The scan as a node of a plan.
pub(crate) type WorkScanExec = Node<WorkTableScan>;

impl WorkTableScan {
    /// A node that reads the columns of `table` that `schema` has, found by name.
    fn node(table: &Arc<WorkTable>, schema: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = schema.fields().iter().map(|field| table.schema.index_of(field.name()));
        let projection = columns.collect::<Result<_, _>>()?;
        let scan = Self { table: Arc::clone(table), projection, schema: Arc::clone(schema) };
        Ok(Arc::new(WorkScanExec::new(scan, Vec::new(), Arc::clone(schema))))
    }
}

impl Work for WorkTableScan {
    const NAME: &'static str = "WorkScanExec";

    fn run(&self) -> Result<SendableRecordBatchStream> {
        Ok(self.now().stream())
    }
}

/// What a recursive query does, before its terms are made islands.
pub(crate) struct Recursion {
    /// The first rows.
    pub(crate) first: Arc<dyn ExecutionPlan>,
    /// What finds more of them.
    pub(crate) term: Arc<dyn ExecutionPlan>,
    /// What the term reads.
    pub(crate) rows: Arc<WorkTable>,
    /// All rows so far, where only new ones count.
    pub(crate) seen: Option<Arc<WorkTable>>,
}

impl Recursion {
    /// What `query` does; `None` if two of its columns have one name, since its terms find them by that.
    pub(crate) fn of(query: &RecursiveQueryExec, memory: &Arc<BufferManager>) -> Result<Option<Self>> {
        let schema = query.schema();
        let fields: Vec<_> =
            schema.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect();
        let mut names = std::collections::HashSet::new();
        if !fields.iter().all(|field| names.insert(field.name())) {
            return Ok(None);
        }
        let schema: SchemaRef = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let name = RecursiveQueryExec::name(query);
        let rows = WorkTable::new(name, &schema, memory);
        let term = Arc::clone(query.recursive_term())
            .transform_down(|node| match node.downcast_ref::<WorkTableExec>() {
                Some(work) if WorkTableExec::name(work) == name => {
                    Ok(Transformed::yes(WorkTableScan::node(&rows, &node.schema())?))
                }
                _ => Ok(Transformed::no(node)),
            })
            .data()?;
        let first = Arc::clone(query.static_term());
        if !query.is_distinct() {
            return Ok(Some(Self { first, term, rows, seen: None }));
        }
        let seen = WorkTable::new(&format!("{name}, all rows"), &schema, memory);
        let (first, term) = (distinct(first)?, unseen(distinct(term)?, WorkTableScan::node(&seen, &schema)?)?);
        Ok(Some(Self { first, term, rows, seen: Some(seen) }))
    }
}

fn columns(schema: &Schema) -> impl Iterator<Item = (Arc<dyn PhysicalExpr>, String)> {
    let column = |(index, name): (usize, &String)| (Arc::new(Column::new(name, index)) as _, name.clone());
    schema.fields().iter().map(|field| field.name()).enumerate().map(column).collect::<Vec<_>>().into_iter()
}

/// Each row of `plan` once.
fn distinct(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let keys = PhysicalGroupBy::new_single(columns(&schema).collect());
    Ok(Arc::new(AggregateExec::try_new(AggregateMode::Single, keys, Vec::new(), Vec::new(), plan, schema)?))
}

/// The rows of `plan` that `all` does not have.
fn unseen(plan: Arc<dyn ExecutionPlan>, all: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let on = columns(&plan.schema()).zip(columns(&all.schema())).map(|((left, _), (right, _))| (left, right)).collect();
    Ok(Arc::new(HashJoinExec::try_new(
        plan,
        all,
        on,
        None,
        &JoinType::LeftAnti,
        None,
        PartitionMode::CollectLeft,
        NullEquality::NullEqualsNull,
        false,
    )?))
}

/// Runs a recursive query.
#[derive(Debug)]
pub(crate) struct RecursionExec {
    /// The first rows, and what finds more of them.
    terms: [Arc<dyn ExecutionPlan>; 2],
    rows: Arc<WorkTable>,
    seen: Option<Arc<WorkTable>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RecursionExec {
    /// `recursion`, which gives rows of `schema`.
    pub(crate) fn new(recursion: Recursion, schema: SchemaRef) -> Self {
        Self {
            terms: [recursion.first, recursion.term],
            rows: recursion.rows,
            seen: recursion.seen,
            properties: properties(schema),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for RecursionExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: name={}, distinct={}", self.name(), self.rows.name, self.seen.is_some())
    }
}

impl ExecutionPlan for RecursionExec {
    fn name(&self) -> &str {
        "OgeeRecursion"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.terms.iter().collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok(terms) = <[_; 2]>::try_from(children) else { return internal_err!("a recursion has two terms") };
        Ok(Arc::new(Self {
            terms,
            rows: Arc::clone(&self.rows),
            seen: self.seen.clone(),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
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

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let run = Run {
            found: execute_stream(Arc::clone(&self.terms[0]), Arc::clone(&context))?,
            writer: BlockWriter::new(&self.rows.schema, &self.rows.memory),
            term: Arc::clone(&self.terms[1]),
            rows: Arc::clone(&self.rows),
            seen: self.seen.clone(),
            schema: Arc::clone(&schema),
            context,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        self.rows.blocks.write().clear();
        if let Some(seen) = &self.seen {
            seen.blocks.write().clear();
        }
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, try_unfold(run, Run::next))))
    }
}

/// A recursive query in execution.
struct Run {
    /// The rows of the iteration at hand.
    found: SendableRecordBatchStream,
    /// Where they are kept for the next one.
    writer: BlockWriter,
    term: Arc<dyn ExecutionPlan>,
    rows: Arc<WorkTable>,
    seen: Option<Arc<WorkTable>>,
    schema: SchemaRef,
    context: Arc<TaskContext>,
    metrics: BaselineMetrics,
}

impl Run {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            match self.found.next().await.transpose()? {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => {
                    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                    let columns = batch.columns().to_vec();
                    let kept = RecordBatch::try_new_with_options(Arc::clone(&self.rows.schema), columns, &options)?;
                    self.writer.write(&kept)?;
                    // The rows that a term reads may be NULL as far as it knows, whether those that it gives may be or not.
                    let columns = kept.columns().to_vec();
                    let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
                    (&batch).record_output(&self.metrics);
                    return Ok(Some((batch, self)));
                }
                None => {
                    let writer = BlockWriter::new(&self.rows.schema, &self.rows.memory);
                    let blocks = std::mem::replace(&mut self.writer, writer).finish()?;
                    if blocks.is_empty() {
                        self.rows.blocks.write().clear();
                        return Ok(None);
                    }
                    if let Some(seen) = &self.seen {
                        seen.add(&blocks)?;
                    }
                    *self.rows.blocks.write() = blocks;
                    self.term = fresh(&self.term)?;
                    self.found = execute_stream(Arc::clone(&self.term), Arc::clone(&self.context))?;
                }
            }
        }
    }
}

/// `plan` as it is before it runs. Nodes of ours keep nothing of a run but what they count.
fn fresh(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children().into_iter().map(fresh).collect::<Result<Vec<_>>>()?;
    let plan = replace_children_if_necessary(Arc::clone(plan), children)?;
    if plan.name().starts_with("Ogee") { Ok(plan) } else { plan.reset_state() }
}
