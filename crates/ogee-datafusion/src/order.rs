//! Orders that a plan relies on.
//!
//! Morsels keep no order. So sources declare none ([`ClearOrderings`], before any other rule): otherwise DataFusion, at one partition, drops
//! sorts and picks operators that need sorted input. What order is left in a plan comes from sorts (and a few sources in memory), and
//! [`is_ordered`] tells where it reaches.
//!
//! Not here: sorting.

use std::{cell::Cell, sync::Arc};

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    config::ConfigOptions,
    datasource::{
        physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder},
        source::DataSourceExec,
    },
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};

thread_local! {
    /// Whether the statement that is being planned asks for an order of its rows. All rules see a plan one after the other on one thread.
    static ASKED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Whether the plan that the rules are at was asked for in an order, and does not only happen to have one: windows leave one, and a sort that was
/// asked for is dropped where they do. Told once, to the last rule; true if it is not known.
pub(crate) fn take_asked() -> bool {
    ASKED.take().unwrap_or(true)
}

/// Makes scans of files one partition without a declared order.
#[derive(Debug, Default)]
pub(crate) struct ClearOrderings;

impl PhysicalOptimizerRule for ClearOrderings {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let cleared = plan.transform_up(|node| {
            let config = node
                .downcast_ref::<DataSourceExec>()
                .and_then(|source| source.data_source().downcast_ref::<FileScanConfig>())
                .filter(|config| {
                    !config.output_ordering.is_empty()
                        || config.output_partitioning.is_some()
                        || config.preserve_order
                        || config.file_groups.len() > 1
                });
            let Some(config) = config else { return Ok(Transformed::no(node)) };
            let files = config.file_groups.iter().flat_map(FileGroup::iter).cloned().collect();
            let cleared = FileScanConfigBuilder::from(config.clone())
                .with_output_ordering(Vec::new())
                .with_output_partitioning(None)
                .with_preserve_order(false)
                .with_file_groups(vec![FileGroup::new(files)])
                .build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(cleared) as Arc<dyn ExecutionPlan>))
        });
        let plan = cleared.data()?;
        // Nothing but the statement's own sorts makes an order yet.
        ASKED.set(Some(is_ordered(&plan)));
        Ok(plan)
    }

    fn name(&self) -> &str {
        "clear_orderings"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether the rows of `plan` come in an order that somebody may have asked for: it has one, or passes one on (a projection may have
/// dropped the columns it is by).
pub(crate) fn is_ordered(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.properties().output_ordering().is_some()
        || plan
            .maintains_input_order()
            .into_iter()
            .zip(plan.children())
            .any(|(maintains, child)| maintains && is_ordered(child))
}
