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
    physical_optimizer::pruning::PruningPredicateBuilder,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use ogee_exec::ExecError;
use ogee_scan::{RowGroupAccess, RowPruner};

/// Prunes by a predicate over the files' columns.
#[derive(Debug)]
pub struct PredicatePruner {
    predicate: Arc<dyn PhysicalExpr>,
    file_schema: SchemaRef,
    /// What pruning evaluates, for `EXPLAIN`.
    description: String,
    uses_pages: bool,
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
            description: pruning.predicate_expr().to_string(),
            uses_pages: pages.filter_number() > 0,
            predicate,
            file_schema: Arc::clone(file_schema),
        })
    }
}

impl fmt::Display for PredicatePruner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "predicate={}, pruning={}", self.predicate, self.description)
    }
}

impl RowPruner for PredicatePruner {
    fn prune(&self, path: &Path, metadata: &ArrowReaderMetadata) -> Result<Vec<RowGroupAccess>, ExecError> {
        let parquet = metadata.metadata();
        let groups = parquet.row_groups();
        let everything = || groups.iter().map(|_| RowGroupAccess::Scan).collect();
        // The file's own types and missing columns, as DataFusion's reader treats them.
        let physical = metadata.schema();
        let adapted = DefaultPhysicalExprAdapterFactory
            .create(Arc::clone(&self.file_schema), Arc::clone(physical))
            .and_then(|adapter| adapter.rewrite(Arc::clone(&self.predicate)));
        // A predicate that does not fit this file (say, a type that cannot be cast) prunes nothing; reading reports what is wrong.
        let Ok(predicate) = adapted else { return Ok(everything()) };
        let metrics = ParquetFileMetrics::new(0, &path.to_string_lossy(), &ExecutionPlanMetricsSet::new());
        let mut by_group = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(groups.len()));
        if let Ok(pruning) =
            PruningPredicateBuilder::new().with_file_schema(Arc::clone(physical)).try_build(Arc::clone(&predicate))
        {
            by_group.prune_by_statistics(physical, metadata.parquet_schema(), groups, &pruning, &metrics);
        }
        let mut plan = by_group.build();
        if self.uses_pages {
            plan = PagePruningAccessPlanFilter::new(&predicate, Arc::clone(physical)).prune_plan_with_page_index(
                plan,
                physical,
                metadata.parquet_schema(),
                parquet,
                &metrics,
            );
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
