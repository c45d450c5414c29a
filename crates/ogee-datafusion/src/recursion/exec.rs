//! The iterations of a recursive query.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions},
        compute::cast,
        datatypes::{FieldRef, SchemaRef},
    },
    common::tree_node::TreeNodeRecursion,
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execute_stream,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        replace_children_if_necessary,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt, stream};
use ogee_planner::{node::properties, table::BlockScan};
use ogee_sql::recursions::PLACE;

use super::{Bound, Kept, KeyedTables, work_table::WorkTable};
use crate::table::{Block, BlockWriter};

/// Runs a recursive query.
#[derive(Debug)]
pub(crate) struct RecursionExec {
    /// See [`Bound`].
    plans: Vec<Arc<dyn ExecutionPlan>>,
    rows: Arc<WorkTable>,
    kept: Kept,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RecursionExec {
    /// The query `bound`, which gives rows of `schema`.
    pub(crate) fn new(bound: Bound, schema: SchemaRef) -> Self {
        let Bound { plans, rows, kept } = bound;
        Self { plans, rows, kept, properties: properties(schema), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for RecursionExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: name={}", self.name(), self.rows.name())?;
        match &self.kept {
            Kept::Rows { all } => write!(f, ", keeps all rows={}", all.is_some()),
            Kept::Keyed(tables) => write!(f, ", keeps a row for each key, reads changed rows={}", tables.only_changed),
        }
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
        self.plans.iter().collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            plans: children,
            rows: Arc::clone(&self.rows),
            kept: self.kept.clone(),
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
        let (schema, metrics) = (self.schema(), BaselineMetrics::new(&self.metrics, partition));
        self.rows.clear();
        let found = execute_stream(Arc::clone(&self.plans[0]), Arc::clone(&context))?;
        let (rows, term) = (Arc::clone(&self.rows), Arc::clone(&self.plans[1]));
        match &self.kept {
            Kept::Rows { all } => {
                all.iter().for_each(|all| all.clear());
                let (writer, all, schema_of_rows) = (rows.writer(), all.clone(), Arc::clone(&schema));
                let run = Run { found, writer, term, rows, all, schema: schema_of_rows, context, metrics };
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::try_unfold(run, Run::next))))
            }
            Kept::Keyed(tables) => {
                [&tables.all, &tables.history, &tables.found, &tables.new].into_iter().for_each(|table| table.clear());
                let plans = self.plans[2..].to_vec();
                let run = KeyedRun { found, term, plans, rows, tables: tables.clone(), context, next_place: 0 };
                let of_rows = Arc::clone(&schema);
                let rows = stream::once(run.all_rows()).try_flatten().map(move |batch| {
                    let batch = with_schema(&batch?, &of_rows)?;
                    (&batch).record_output(&metrics);
                    Ok(batch)
                });
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
            }
        }
    }
}

/// The columns of `batch` as those of `schema`, which may differ in whether they may be NULL, and in their types where two terms do.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let of_type = |(column, field): (&ArrayRef, &FieldRef)| match column.data_type() == field.data_type() {
        true => Ok(Arc::clone(column)),
        false => cast(column, field.data_type()),
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(of_type).collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// A recursive query in execution.
struct Run {
    /// The rows of the iteration at hand.
    found: SendableRecordBatchStream,
    /// Where they are kept for the next one.
    writer: BlockWriter,
    term: Arc<dyn ExecutionPlan>,
    rows: Arc<WorkTable>,
    all: Option<Arc<WorkTable>>,
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
                    let kept = with_schema(&batch, self.rows.schema())?;
                    self.writer.write(&kept)?;
                    // The rows that a term reads may be NULL as far as it knows, whether those that it gives may be or not.
                    let batch = with_schema(&kept, &self.schema)?;
                    (&batch).record_output(&self.metrics);
                    return Ok(Some((batch, self)));
                }
                None => {
                    let blocks = std::mem::replace(&mut self.writer, self.rows.writer()).finish()?;
                    if blocks.is_empty() {
                        self.rows.clear();
                        return Ok(None);
                    }
                    if let Some(all) = &self.all {
                        all.add(&blocks)?;
                    }
                    self.rows.set(blocks);
                    self.term = fresh(&self.term)?;
                    self.found = execute_stream(Arc::clone(&self.term), Arc::clone(&self.context))?;
                }
            }
        }
    }
}

/// A recursive query with keys in execution.
struct KeyedRun {
    /// The rows of the iteration at hand.
    found: SendableRecordBatchStream,
    term: Arc<dyn ExecutionPlan>,
    /// What groups, what has changed and what stays.
    plans: Vec<Arc<dyn ExecutionPlan>>,
    rows: Arc<WorkTable>,
    tables: KeyedTables,
    context: Arc<TaskContext>,
    next_place: i64,
}

impl KeyedRun {
    /// The row of each key, when no iteration finds more.
    async fn all_rows(mut self) -> Result<SendableRecordBatchStream> {
        while self.iterate().await? {
            self.term = fresh(&self.term)?;
            self.found = execute_stream(Arc::clone(&self.term), Arc::clone(&self.context))?;
        }
        self.rows.clear();
        self.tables.history.clear();
        Ok(self.tables.all.scan().stream())
    }

    /// Ends the iteration at hand; whether it left rows for another.
    async fn iterate(&mut self) -> Result<bool> {
        let tables = self.tables.clone();
        let (mut found, mut all_found) = (tables.found.writer(), self.rows.writer());
        while let Some(batch) = self.found.next().await.transpose()? {
            if batch.num_rows() == 0 {
                continue;
            }
            let batch = self.with_places(&with_schema(&batch, tables.found.schema())?)?;
            found.write(&batch)?;
            if !tables.only_changed {
                all_found.write(&self.as_rows(&batch)?)?;
            }
        }
        let found = found.finish()?;
        if found.is_empty() {
            return Ok(false);
        }
        tables.found.set(found.clone());
        match tables.only_last {
            true => tables.history.set(found),
            false => tables.history.add(&found)?,
        }
        let new = self.rows_of(0, &tables.new).await?;
        tables.new.set(new.clone());
        let next = match tables.only_changed {
            true => self.rows_of(1, &Arc::clone(&self.rows)).await?,
            false => all_found.finish()?,
        };
        let stays = self.rows_of(2, &tables.all).await?;
        tables.all.set(stays);
        tables.all.add(&new)?;
        let is_more = !next.is_empty();
        self.rows.set(next);
        Ok(is_more)
    }

    /// `batch` with the places of its rows among all that were found.
    fn with_places(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (schema, mut columns) = (batch.schema(), batch.columns().to_vec());
        let end = self.next_place + i64::try_from(batch.num_rows()).unwrap_or(i64::MAX);
        columns[schema.index_of(PLACE)?] = Arc::new(Int64Array::from_iter_values(self.next_place..end));
        self.next_place = end;
        Ok(RecordBatch::try_new(schema, columns)?)
    }

    /// Rows that were found as rows of the query.
    fn as_rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<usize> = (0..batch.num_columns()).collect();
        columns.remove(batch.schema().index_of(PLACE)?);
        with_schema(&batch.project(&columns)?, self.rows.schema())
    }

    /// What plan `nth` finds, as rows of `table`.
    async fn rows_of(&mut self, nth: usize, table: &Arc<WorkTable>) -> Result<Vec<Arc<Block>>> {
        self.plans[nth] = fresh(&self.plans[nth])?;
        let mut rows = execute_stream(Arc::clone(&self.plans[nth]), Arc::clone(&self.context))?;
        let mut writer = table.writer();
        while let Some(batch) = rows.next().await.transpose()? {
            if batch.num_rows() > 0 {
                writer.write(&with_schema(&batch, table.schema())?)?;
            }
        }
        writer.finish()
    }
}

/// `plan` as it is before it runs. Nodes of ours keep nothing of a run but what they count.
fn fresh(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children().into_iter().map(fresh).collect::<Result<Vec<_>>>()?;
    let plan = replace_children_if_necessary(Arc::clone(plan), children)?;
    if plan.name().starts_with("Ogee") { Ok(plan) } else { plan.reset_state() }
}
