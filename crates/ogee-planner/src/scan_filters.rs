//! Filters handed to scans, which skip row groups and pages by them.
//!
//! DataFusion's rule pushes filters through projections and joins by the names of columns, and takes one column for another where two have
//! the same name. The logical optimizer has put filters next to the scans already, so the rule is applied there and nowhere else.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    config::ConfigOptions,
    datasource::source::DataSourceExec,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, filter::FilterExec},
};

/// DataFusion's pushdown of filters, for filters that stand right above a scan.
#[derive(Debug)]
pub struct ScanFilters {
    pushdown: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl ScanFilters {
    /// Confines `pushdown`.
    pub fn new(pushdown: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { pushdown }
    }
}

impl PhysicalOptimizerRule for ScanFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let above_scan =
                node.downcast_ref::<FilterExec>().is_some_and(|filter| filter.input().is::<DataSourceExec>());
            if above_scan {
                Ok(Transformed::yes(self.pushdown.optimize(node, config)?))
            } else {
                Ok(Transformed::no(node))
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "scan_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
