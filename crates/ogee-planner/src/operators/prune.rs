//! Pruning: which row groups and pages of a Parquet file a predicate can be true on, by DataFusion's rules.
//!
//! Not here: evaluating the predicate on rows.

use std::{fmt, path::Path, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef,
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::physical_plan::parquet::{
        PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics, RowGroupAccess as Access,
        RowGroupAccessPlanFilter,
    },
    parquet::arrow::arrow_reader::ArrowReaderMetadata,
    physical_expr::{PhysicalExpr, conjunction, expressions::Column, split_conjunction},
    physical_expr_adapter::{DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory},
    physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder},
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use ogee_exec::ExecError;
use ogee_scan::{RowGroupAccess, RowPruner};
use parking_lot::Mutex;

/// Prunes by a predicate over the files' columns.
#[derive(Debug)]
pub struct PredicatePruner {
    predicate: Arc<dyn PhysicalExpr>,
    file_schema: SchemaRef,
    /// What pruning evaluates over the table's types, for `EXPLAIN`.
    pruning: Arc<dyn PhysicalExpr>,
    uses_pages: bool,
    /// What was made for the file before: most files of a table have the same types.
    latest: Mutex<Option<Arc<OfFile>>>,
}

/// What prunes files with columns of these types.
#[derive(Debug)]
struct OfFile {
    physical: SchemaRef,
    by_group: Option<PruningPredicate>,
    by_page: Option<PagePruningAccessPlanFilter>,
}

impl PredicatePruner {
    /// A pruner by those parts of `predicate` that read only columns of the files; `None` if none of them can prune.
    pub fn new(predicate: &Arc<dyn PhysicalExpr>, file_schema: &SchemaRef) -> Option<Self> {
        let in_files = |part: &Arc<dyn PhysicalExpr>| {
            let mut all = true;
            let visited = part.apply(|node| {
                if let Some(column) = node.downcast_ref::<Column>() {
                    all &= column.index() < file_schema.fields().len();
                }
                Ok(TreeNodeRecursion::Continue)
            });
            all && visited.is_ok()
        };
        let parts: Vec<_> = split_conjunction(predicate).into_iter().filter(|part| in_files(part)).cloned().collect();
        if parts.is_empty() {
            return None;
        }
        let predicate = conjunction(parts);
        let pruning = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(file_schema))
            .try_build(Arc::clone(&predicate))
            .ok()?;
        if pruning.always_true() {
            return None;
        }
        let pages = PagePruningAccessPlanFilter::new(&predicate, Arc::clone(file_schema));
        Some(Self {
            pruning: Arc::clone(pruning.predicate_expr()),
            uses_pages: pages.filter_number() > 0,
            predicate,
            file_schema: Arc::clone(file_schema),
            latest: Mutex::default(),
        })
    }

    /// What prunes a file whose columns have these types; `None` if the predicate does not fit them.
    fn of_file(&self, physical: &SchemaRef) -> Option<Arc<OfFile>> {
        if let Some(known) = self.latest.lock().as_ref().filter(|known| known.physical == *physical) {
            return Some(Arc::clone(known));
        }
        // The file's own types and missing columns, as DataFusion's reader treats them.
        let adapted = DefaultPhysicalExprAdapterFactory
            .create(Arc::clone(&self.file_schema), Arc::clone(physical))
            .and_then(|adapter| adapter.rewrite(Arc::clone(&self.predicate)));
        let predicate = adapted.ok()?;
        let by_group = PruningPredicateBuilder::new().with_file_schema(Arc::clone(physical));
        let by_page = self.uses_pages.then(|| PagePruningAccessPlanFilter::new(&predicate, Arc::clone(physical)));
        let made =
            Arc::new(OfFile { physical: Arc::clone(physical), by_group: by_group.try_build(predicate).ok(), by_page });
        *self.latest.lock() = Some(Arc::clone(&made));
        Some(made)
    }
}

impl fmt::Display for PredicatePruner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "predicate={}, pruning={}", self.predicate, self.pruning)
    }
}

impl RowPruner for PredicatePruner {
    fn prune(&self, path: &Path, metadata: &ArrowReaderMetadata) -> Result<Vec<RowGroupAccess>, ExecError> {
        let parquet = metadata.metadata();
        let groups = parquet.row_groups();
        let everything = || groups.iter().map(|_| RowGroupAccess::Scan).collect();
        let physical = metadata.schema();
        // A predicate that does not fit this file (say, a type that cannot be cast) prunes nothing; reading reports what is wrong.
        let Some(of_file) = self.of_file(physical) else { return Ok(everything()) };
        let metrics = ParquetFileMetrics::new(0, &path.to_string_lossy(), &ExecutionPlanMetricsSet::new());
        let mut by_group = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(groups.len()));
        if let Some(pruning) = &of_file.by_group {
            by_group.prune_by_statistics(physical, metadata.parquet_schema(), groups, pruning, &metrics);
        }
        let mut plan = by_group.build();
        if let Some(pages) = &of_file.by_page {
            plan = pages.prune_plan_with_page_index(plan, physical, metadata.parquet_schema(), parquet, &metrics);
        }
        Ok(plan
            .into_inner()
            .into_iter()
            .map(|access| match access {
                Access::Skip => RowGroupAccess::Skip,
                Access::Scan => RowGroupAccess::Scan,
                Access::Selection(rows) => RowGroupAccess::Selection(rows),
            })
            .collect())
    }

    fn needs_page_index(&self) -> bool {
        self.uses_pages
    }
}
