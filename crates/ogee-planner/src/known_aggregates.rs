//! DataFusion's rule that takes aggregates from statistics, without its mistakes.
//!
//! Below an aggregate that statistics do not know it goes on looking, through any node, finds the partial form of another aggregate, and puts that one's value in the place of the upper:
//! `SELECT sum(m) FILTER (WHERE m > 1) FROM (SELECT max(x) AS m FROM t WHERE false)` is an internal error. And it believes what joins say of their columns: these
//! pass on the sums of their inputs, however often their rows are in the result, so that `SELECT sum(y) FROM t JOIN (SELECT id, 3 AS y FROM u) AS v ON t.id = v.id` was three for each
//! row of `u`. So it is asked about aggregates over sources and what passes all of their rows on.
//!
//! Not here: statistics (`join_order`), and aggregates themselves.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateInputMode, AggregateMode},
        coalesce_partitions::CoalescePartitionsExec,
        joins::CrossJoinExec,
        limit::{GlobalLimitExec, LocalLimitExec},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        union::UnionExec,
    },
};

/// Runs `known` over aggregates of all rows.
#[derive(Debug)]
pub struct KnownAggregates {
    known: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl KnownAggregates {
    /// `known` is DataFusion's rule.
    pub fn new(known: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { known }
    }
}

/// Whether what statistics say of the rows of `plan` holds.
fn is_told(plan: &dyn ExecutionPlan) -> bool {
    let passes = plan.is::<ProjectionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<UnionExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.downcast_ref::<AggregateExec>().is_some_and(is_of_all);
    let children = plan.children();
    (passes || children.is_empty()) && children.into_iter().all(|child| is_told(child.as_ref()))
}

/// Whether there are neither groups nor filters.
fn is_of_all(aggregate: &AggregateExec) -> bool {
    aggregate.group_expr().is_empty() && aggregate.filter_expr().iter().all(Option::is_none)
}

/// Whether `plan` is an aggregate, in one form or in two, of rows that statistics know.
fn is_known(plan: &dyn ExecutionPlan) -> bool {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return false };
    let whole = matches!(aggregate.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned)
        || aggregate.mode().input_mode() == AggregateInputMode::Partial;
    whole && is_told(plan)
}

impl PhysicalOptimizerRule for KnownAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let told = plan.transform_down(|node| {
            if !is_known(node.as_ref()) {
                return Ok(Transformed::no(node));
            }
            let known = self.known.optimize(node, config)?;
            // It has been through all that is below.
            Ok(Transformed::new(known, true, TreeNodeRecursion::Jump))
        });
        told.data()
    }

    fn name(&self) -> &str {
        self.known.name()
    }

    fn schema_check(&self) -> bool {
        self.known.schema_check()
    }
}
