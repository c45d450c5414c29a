//! Orders that a plan relies on.
//!
//! Morsels keep no order. So sources declare none ([`ClearOrderings`], before any other rule): otherwise DataFusion, at one partition, drops
//! sorts and picks operators that need sorted input. What order is left in a plan comes from sorts (and a few sources in memory), and
//! [`is_ordered`] tells where it reaches. Limits belong to the sort below them ([`LimitsOnSorts`]). DataFusion's rule that makes what operators rely
//! on, in seven passes that build the plan anew, is applied to plans in which something is missing ([`Requirements`]).
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
    physical_expr::OrderingRequirements,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        limit::GlobalLimitExec,
        projection::ProjectionExec,
        replace_children_if_necessary,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
    },
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

/// Puts limits and offsets on the sorts that they count the rows of, below projections. A projection that drops a column of the order has none, and
/// DataFusion then takes the sort below an offset for one that nobody needs.
#[derive(Debug, Default)]
pub(crate) struct LimitsOnSorts;

/// Whether rows of `plan` are sorted but for projections on top.
fn is_projected_sort(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<SortExec>() || plan.downcast_ref::<ProjectionExec>().is_some_and(|above| is_projected_sort(above.input()))
}

impl PhysicalOptimizerRule for LimitsOnSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let lowered = plan.transform_down(|node| {
            let limit = node.downcast_ref::<GlobalLimitExec>().filter(|limit| is_projected_sort(limit.input()));
            let Some(limit) = limit.filter(|limit| limit.input().is::<ProjectionExec>()) else {
                return Ok(Transformed::no(node));
            };
            let projection = limit.input();
            let below = Arc::clone(projection.children()[0]);
            let limit = Arc::new(GlobalLimitExec::new(below, limit.skip(), limit.fetch()));
            Ok(Transformed::yes(replace_children_if_necessary(Arc::clone(projection), vec![limit])?))
        });
        lowered.data()
    }

    fn name(&self) -> &str {
        "limits_on_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// DataFusion's rule that adds what operators require of their inputs, for plans that lack some of it.
#[derive(Debug)]
pub(crate) struct Requirements {
    ensure: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl Requirements {
    /// Spares `ensure` plans that need nothing.
    pub(crate) fn new(ensure: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { ensure }
    }
}

/// Whether all operators in `plan` have what they require: one partition everywhere, and orders that are there. No order is made twice, or
/// merged out of several.
fn has_requirements(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let inputs = plan.children();
    // A sort may have its place below a projection, which then computes fewer rows.
    let stays = |_: &SortExec| !inputs[0].is::<ProjectionExec>() && inputs[0].properties().output_ordering().is_none();
    plan.output_partitioning().partition_count() == 1
        && plan.downcast_ref::<SortExec>().is_none_or(stays)
        && !plan.is::<SortPreservingMergeExec>()
        && plan.required_input_ordering().into_iter().zip(&inputs).all(|(required, input)| {
            let met = |required: OrderingRequirements| {
                input.equivalence_properties().ordering_satisfy_requirement(required.into_single())
            };
            required.is_none_or(|required| met(required).unwrap_or(false))
        })
        && inputs.into_iter().all(has_requirements)
}

impl PhysicalOptimizerRule for Requirements {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if has_requirements(&plan) { Ok(plan) } else { self.ensure.optimize(plan, config) }
    }

    fn name(&self) -> &str {
        self.ensure.name()
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
