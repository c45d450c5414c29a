//! DataFusion's rule that takes aggregates from statistics, without its mistake.
//!
//! Below an aggregate with a `FILTER` it goes on looking, finds the partial form of another aggregate, and puts that one's value in the place of the upper:
//! `SELECT sum(m) FILTER (WHERE m > 1) FROM (SELECT max(x) AS m FROM t WHERE false)` is an internal error. Plans with such aggregates are left alone.
//!
//! Not here: statistics (`join_order`), and aggregates themselves.

use std::sync::Arc;

use datafusion::{
    common::tree_node::TreeNode,
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, aggregates::AggregateExec},
};

/// Runs `known` over plans whose aggregates take all rows.
#[derive(Debug)]
pub(crate) struct KnownAggregates {
    known: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl KnownAggregates {
    /// `known` is DataFusion's rule.
    pub(crate) fn new(known: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { known }
    }
}

fn has_filter(aggregate: &AggregateExec) -> bool {
    aggregate.filter_expr().iter().any(Option::is_some)
}

impl PhysicalOptimizerRule for KnownAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match plan.exists(|node| Ok(node.downcast_ref::<AggregateExec>().is_some_and(has_filter)))? {
            true => Ok(plan),
            false => self.known.optimize(plan, config),
        }
    }

    fn name(&self) -> &str {
        self.known.name()
    }

    fn schema_check(&self) -> bool {
        self.known.schema_check()
    }
}
