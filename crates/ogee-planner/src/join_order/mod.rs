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
mod expected;
mod foresee;
mod graph;
mod greedy;
mod lookup;
mod pieces;
mod plans;
mod profile;
mod rebuild;
mod region;
mod relation_set;
mod sample;
mod selectivity;
mod tree;
mod weigh;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use datafusion::{
    common::JoinType,
    config::ConfigOptions,
    error::Result,
    physical_optimizer::{PhysicalOptimizerRule, join_selection::JoinSelection},
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        filter::FilterExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode},
        replace_children_if_necessary,
    },
};

pub use self::{
    estimate::ROWS_UNKNOWN,
    expected::{Estimates, Expected},
    foresee::begin as foresee,
    sample::Samples,
};
use self::{
    estimate::{Estimator, Known},
    plans::Plans,
    profile::Profile,
    region::Region,
};

/// Orders joins, unless `datafusion.optimizer.join_reordering` is off. Takes the place of DataFusion's `JoinSelection`.
#[derive(Debug)]
pub struct JoinOrder {
    samples: Arc<Samples>,
}

impl JoinOrder {
    /// The rule, with samples of tables from `samples`.
    pub fn new(samples: Arc<Samples>) -> Self {
        Self { samples }
    }

    /// Orders all joins in `plan`.
    fn order(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(region) = Region::of(plan)? {
            return self.order_region(region, plan);
        }
        let children = self.order_all(&plan.children())?;
        let plan = replace_children_if_necessary(Arc::clone(plan), children)?;
        // Joins that stay where they are may still build the other side.
        match plan.downcast_ref::<HashJoinExec>() {
            Some(join) if *join.join_type() == JoinType::Full => {
                let mut known = Known::new();
                let mut estimator = Estimator::with(&self.samples, true, &mut known);
                if estimator.rows(join.left()) > estimator.rows(join.right()) {
                    return join.swap_inputs(PartitionMode::CollectLeft);
                }
                Ok(plan)
            }
            _ => Ok(plan),
        }
    }

    /// Orders all joins in each of `plans`, by two threads if the engine has as many and several of them have joins: nothing else of the statement
    /// can be done meanwhile.
    fn order_all(&self, plans: &[&Arc<dyn ExecutionPlan>]) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let next = AtomicUsize::new(0);
        let ordered: Vec<OnceLock<Result<Arc<dyn ExecutionPlan>>>> = plans.iter().map(|_| OnceLock::new()).collect();
        let work = || {
            while let Some((number, plan)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|number| Some((number, plans.get(number)?)))
            {
                assert!(ordered[number].set(self.order(plan)).is_ok(), "each is taken once");
            }
        };
        std::thread::scope(|scope| {
            if self.samples.threads() > 1 && plans.iter().filter(|plan| has_join(plan)).count() > 1 {
                // Plans may be deep. Without the thread there is only one.
                drop(std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work));
            }
            work();
        });
        ordered.into_iter().map(|plan| plan.into_inner().expect("all were taken")).collect()
    }

    /// What each relation of `region` gives. Samples are read, and predicates tried on them, by two threads if the engine has as many: until the
    /// order is known, all others wait.
    fn profiles(&self, region: &Region, may_read: bool) -> Vec<Profile> {
        if may_read {
            let mut columns = Vec::new();
            region.relations.iter().for_each(|relation| self.filtered_columns(&relation.plan, &mut columns));
            self.samples.read(columns);
        }
        let next = AtomicUsize::new(0);
        let profiles: Vec<OnceLock<Profile>> = region.relations.iter().map(|_| OnceLock::new()).collect();
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(relation) = region.relations.get(number) else { break };
                let mut known = Known::new();
                let profile = Estimator::with(&self.samples, may_read, &mut known).profile(&relation.plan);
                assert!(profiles[number].set(profile).is_ok(), "each is taken once");
            }
        };
        let filtered = region.relations.iter().filter(|relation| has_filter(&relation.plan)).count();
        std::thread::scope(|scope| {
            if may_read && filtered > 1 && self.samples.threads() > 1 {
                scope.spawn(work);
            }
            work();
        });
        profiles.into_iter().map(|profile| profile.into_inner().expect("all were taken")).collect()
    }

    /// The sampled columns on which the filters of tables in `plan` will be tried.
    fn filtered_columns(&self, plan: &Arc<dyn ExecutionPlan>, columns: &mut Vec<sample::Columns>) {
        match plan.downcast_ref::<FilterExec>() {
            Some(filter) if filter.input().children().is_empty() => {
                let mut known = Known::new();
                let input = Estimator::with(&self.samples, false, &mut known).profile(filter.input());
                columns.extend(input.sampled(filter.predicate()));
            }
            _ => plan.children().into_iter().for_each(|child| self.filtered_columns(child, columns)),
        }
    }

    fn order_region(&self, mut region: Region, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let ordered = self.order_all(&region.relations.iter().map(|relation| &relation.plan).collect::<Vec<_>>())?;
        for (relation, plan) in region.relations.iter_mut().zip(ordered) {
            relation.plan = plan;
        }
        region.settle()?;
        // Which of two whole tables is larger is known without looking into them.
        let may_read = region.relations.len() > 2 || region.relations.iter().any(|relation| has_filter(&relation.plan));
        let profiles = self.profiles(&region, may_read);
        if may_read {
            self.samples.read(weigh::compared(&region, &profiles));
        }
        let graph = weigh::weigh(&region, &profiles);
        let mut plans = Plans::new(&graph);
        if !enumerate::enumerate(&mut plans, enumerate::PAIRS_MAX) {
            greedy::greedy(&mut plans);
        }
        rebuild::rebuild(&region, &plans.tree(graph.all()), &plan.schema())
    }
}

/// Bytes of the stack of a thread that orders joins, as much as the threads that plan have.
const STACK_BYTES: usize = 8 << 20;

fn has_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.children().into_iter().any(has_join)
}

fn has_filter(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<FilterExec>() || plan.children().into_iter().any(has_filter)
}

/// Whether there is one partition everywhere in `plan`, which ends.
fn is_settled(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_partitioning().partition_count() == 1
        && !plan.boundedness().is_unbounded()
        && plan.children().into_iter().all(is_settled)
}

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = if config.optimizer.join_reordering { self.order(&plan)? } else { plan };
        // What is left of DataFusion's rule: how joins are partitioned, should somebody have asked for several partitions, and which ones can do with
        // inputs that do not end. It builds every plan anew, twice.
        if is_settled(&plan) {
            return Ok(plan);
        }
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
