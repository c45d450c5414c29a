//! The rule that places islands.

use std::sync::Arc;

use datafusion::{
    config::ConfigOptions,
    datasource::source::DataSourceExec,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, Partitioning,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        filter::FilterExec,
        limit::{GlobalLimitExec, LocalLimitExec},
        memory::LazyMemoryExec,
        projection::ProjectionExec,
        repartition::RepartitionExec,
        replace_children_if_necessary,
        scalar_subquery::ScalarSubqueryExec,
        sorts::sort::SortExec,
        statistics::{StatisticsArgs, StatisticsContext},
        union::UnionExec,
    },
};

use super::{
    IslandExec,
    aggregate::Aggregate,
    join::Join,
    operator::{Op, OperatorExec},
    scan::ParquetScan,
    series::Series,
};
use crate::{engine::Engine, order::is_ordered, table::TableExec};

/// Replaces what the engine has operators for. The last rule of all.
#[derive(Debug)]
pub(crate) struct OgeeRule {
    engine: Arc<Engine>,
}

impl OgeeRule {
    /// The rule whose islands run on `engine`.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Places islands in `plan`. `order_matters`: whether somebody above relies on the order of its rows, if they have one.
    ///
    /// `to_operator`: whether an operator of DataFusion's reads them, and not the user.
    fn place(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        order_matters: bool,
        to_operator: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !(order_matters && is_ordered(plan)) && is_worthwhile(plan) {
            let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
            let root = self.operator(plan)?;
            return Ok(Arc::new(IslandExec::new(root, Arc::clone(&self.engine), statistics, to_operator)));
        }
        let requires = plan.required_input_ordering();
        let maintains = plan.maintains_input_order();
        let children = plan
            .children()
            .into_iter()
            .enumerate()
            .map(|(i, child)| {
                // The rows of a limit, and those that EXPLAIN ANALYZE counts, are what they are because of their order.
                let matters = requires[i].is_some()
                    || plan.fetch().is_some()
                    || is_limit(plan)
                    || plan.name() == "AnalyzeExec"
                    || (maintains[i] && order_matters);
                self.place(child, matters, true)
            })
            .collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(Arc::clone(plan), children)
    }

    /// `plan`, whose order does not matter, as an operator of an island, or as a DataFusion node that feeds it.
    fn operator(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some((ops, inputs)) = operators(plan) else {
            let feed = self.place(plan, false, true)?;
            return Ok(match feed.output_partitioning().partition_count() {
                1 => feed,
                _ => Arc::new(CoalescePartitionsExec::new(feed)),
            });
        };
        let sorts_itself = ops.iter().any(|op| matches!(op, Op::Aggregate(aggregate) if aggregate.orders_values()));
        let children = inputs.into_iter().map(|child| match child.downcast_ref::<SortExec>() {
            Some(sort) if sorts_itself && sort.fetch().is_none() => sort.input(),
            _ => child,
        });
        let mut inputs = children.map(|child| self.operator(child)).collect::<Result<Vec<_>>>()?;
        for op in ops {
            if let Op::Pass = op {
                continue;
            }
            inputs = vec![Arc::new(OperatorExec::new(op, inputs, plan.schema()))];
        }
        Ok(inputs.swap_remove(0))
    }
}

impl PhysicalOptimizerRule for OgeeRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.place(&plan, true, false)
    }

    fn name(&self) -> &str {
        "ogee_islands"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_limit(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>()
}

/// Whether an island at `plan` does more than pass on what a DataFusion node made: reads files or groups.
fn is_worthwhile(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some((ops, inputs)) = operators(plan) else { return false };
    ops.iter().any(|op| matches!(op, Op::Scan(_) | Op::Table(_) | Op::Aggregate(_) | Op::Join(_)))
        || inputs.into_iter().any(is_worthwhile)
}

/// The plans whose rows an operator takes.
type Inputs<'p> = Vec<&'p Arc<dyn ExecutionPlan>>;

/// What `last` does, and to which inputs: also those of the aggregation whose states it goes on with, if the two can be one step.
fn aggregation(last: &AggregateExec) -> Option<(Aggregate, Inputs<'_>)> {
    let passes = |plan: &Arc<dyn ExecutionPlan>| {
        plan.fetch().is_none()
            && (plan.is::<CoalescePartitionsExec>() || plan.is::<CooperativeExec>() || plan.is::<RepartitionExec>())
    };
    let mut below = last.input();
    while passes(below) {
        below = below.children().into_iter().next()?;
    }
    let both = below.downcast_ref::<AggregateExec>().and_then(|first| Aggregate::of_both(first, last));
    match both {
        Some(aggregate) => Some((aggregate, below.children())),
        None => Some((Aggregate::of(last)?, last.children())),
    }
}

/// The operators that do what `plan` does, in the order in which rows pass them, and the inputs to which they do it; `None` where the engine
/// has none.
fn operators(plan: &Arc<dyn ExecutionPlan>) -> Option<(Vec<Op>, Inputs<'_>)> {
    let mut ops = Vec::with_capacity(2);
    let mut inputs = plan.children();
    if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        // Its own limit is part of the scan.
        return Some((vec![Op::Scan(ParquetScan::of(source)?)], inputs));
    } else if let Some(table) = plan.downcast_ref::<TableExec>() {
        ops.push(Op::Table(table.scan().clone()));
    } else if let Some(generators) = plan.downcast_ref::<LazyMemoryExec>() {
        ops.push(Op::Series(Series::of(generators)?));
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        ops.push(Op::Filter {
            predicate: Arc::clone(filter.predicate()),
            projection: filter.projection().as_ref().map(|columns| columns.to_vec()),
        });
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        ops.push(Op::Project(projection.expr().iter().map(|p| (Arc::clone(&p.expr), p.alias.clone())).collect()));
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let (aggregate, of) = aggregation(aggregate)?;
        ops.push(Op::Aggregate(Box::new(aggregate)));
        inputs = of;
    } else if let Some(join) = Join::of(plan) {
        ops.push(Op::Join(Box::new(join)));
    } else if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return unordered_input(plan, Op::Limit { skip: limit.skip(), fetch: limit.fetch() }).map(|ops| (ops, inputs));
    } else if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return unordered_input(plan, Op::Limit { skip: 0, fetch: Some(limit.fetch()) }).map(|ops| (ops, inputs));
    } else if let Some(subqueries) = plan.downcast_ref::<ScalarSubqueryExec>() {
        // What DataFusion runs would begin before the values are there.
        if !inputs.iter().all(|input| is_whole(input)) {
            return None;
        }
        let indexes = subqueries.subqueries().iter().map(|link| link.index).collect();
        ops.push(Op::Scalars { results: subqueries.results().clone(), indexes });
    } else if plan.is::<UnionExec>() {
        ops.push(Op::Union);
    } else if plan.is::<CoalescePartitionsExec>() || plan.is::<CooperativeExec>() {
        ops.push(Op::Pass);
    } else if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        if repartition.preserve_order()
            || !matches!(repartition.partitioning(), Partitioning::Hash(_, 1) | Partitioning::RoundRobinBatch(1))
        {
            return None;
        }
        ops.push(Op::Pass);
    } else {
        return None;
    }
    match plan.fetch() {
        None => Some((ops, inputs)),
        Some(fetch) => {
            ops.push(Op::Limit { skip: 0, fetch: Some(fetch) });
            (!plan.children().into_iter().any(is_ordered)).then_some((ops, inputs))
        }
    }
}

/// Whether the engine has operators for all of `plan`.
fn is_whole(plan: &Arc<dyn ExecutionPlan>) -> bool {
    operators(plan).is_some_and(|(_, inputs)| inputs.into_iter().all(is_whole))
}

/// A limit takes the first rows: over an ordered input it must stay where the order is.
fn unordered_input(plan: &Arc<dyn ExecutionPlan>, op: Op) -> Option<Vec<Op>> {
    (!plan.children().into_iter().any(is_ordered)).then(|| vec![op])
}
