//! The order of joins, by cost.
//!
//! A rule on the physical plan, where columns are numbers and filters are at the tables already. For each [`region`](region::Region) of joins
//! that may change places it estimates how many rows each relation and each set of them has ([`weigh`]: `estimate`, `profile` and
//! `selectivity`, on statistics of the tables and on samples of them, `sample`), looks for the cheapest tree ([`enumerate`], with too many
//! relations [`greedy`]) and puts it in the place of the old one ([`rebuild`]). The side that is built, the left one of DataFusion's joins, is
//! part of the choice, also for outer, semi, anti and mark joins.
//!
//! An estimate is never more than a reason to choose: no answer depends on one.
//!
//! Not here: running joins.

mod cost;
mod distinct;
mod enumerate;
mod estimate;
mod graph;
mod greedy;
mod lookup;
mod plans;
mod profile;
mod rebuild;
mod region;
mod relation_set;
mod sample;
mod selectivity;
mod tree;
mod weigh;

use std::sync::Arc;

use datafusion::{
    common::JoinType,
    config::ConfigOptions,
    error::Result,
    physical_optimizer::{PhysicalOptimizerRule, join_selection::JoinSelection},
    physical_plan::{
        ExecutionPlan,
        filter::FilterExec,
        joins::{HashJoinExec, PartitionMode},
        replace_children_if_necessary,
    },
};

pub(crate) use self::{estimate::Estimator, sample::Samples};
use self::{plans::Plans, region::Region};

/// Orders joins, unless `datafusion.optimizer.join_reordering` is off. Takes the place of DataFusion's `JoinSelection`.
#[derive(Debug)]
pub(crate) struct JoinOrder {
    samples: Arc<Samples>,
}

impl JoinOrder {
    /// The rule, with samples of tables from `samples`.
    pub(crate) fn new(samples: Arc<Samples>) -> Self {
        Self { samples }
    }

    /// Orders all joins in `plan`.
    fn order(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(region) = Region::of(plan)? {
            return self.order_region(region, plan);
        }
        let children = plan.children().into_iter().map(|child| self.order(child)).collect::<Result<Vec<_>>>()?;
        let plan = replace_children_if_necessary(Arc::clone(plan), children)?;
        // Joins that stay where they are may still build the other side.
        match plan.downcast_ref::<HashJoinExec>() {
            Some(join) if *join.join_type() == JoinType::Full => {
                let mut estimator = Estimator::new(&self.samples, true);
                if estimator.rows(join.left()) > estimator.rows(join.right()) {
                    return join.swap_inputs(PartitionMode::CollectLeft);
                }
                Ok(plan)
            }
            _ => Ok(plan),
        }
    }

    fn order_region(&self, mut region: Region, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        for relation in &mut region.relations {
            relation.plan = self.order(&relation.plan)?;
        }
        region.settle()?;
        // Which of two whole tables is larger is known without looking into them.
        let may_read = region.relations.len() > 2 || region.relations.iter().any(|relation| has_filter(&relation.plan));
        let graph = weigh::weigh(&region, &mut Estimator::new(&self.samples, may_read));
        let mut plans = Plans::new(&graph);
        if !enumerate::enumerate(&mut plans, enumerate::PAIRS_MAX) {
            greedy::greedy(&mut plans);
        }
        rebuild::rebuild(&region, &plans.tree(graph.all()), &plan.schema())
    }
}

fn has_filter(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<FilterExec>() || plan.children().into_iter().any(has_filter)
}

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = if config.optimizer.join_reordering { self.order(&plan)? } else { plan };
        // What is left of DataFusion's rule: how joins are partitioned, should somebody have asked for several partitions.
        let mut config = config.clone();
        config.optimizer.join_reordering = false;
        JoinSelection::new().optimize(plan, &config)
    }

    fn name(&self) -> &str {
        "ogee_join_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
