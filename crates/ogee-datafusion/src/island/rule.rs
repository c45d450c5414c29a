//! The rule that places islands.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::FieldRef,
    config::ConfigOptions,
    datasource::source::DataSourceExec,
    error::Result,
    physical_expr::{LexOrdering, PhysicalExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, Partitioning,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        filter::{FilterExec, FilterExecBuilder},
        limit::{GlobalLimitExec, LocalLimitExec},
        memory::LazyMemoryExec,
        projection::{ProjectionExec, ProjectionExpr},
        repartition::RepartitionExec,
        replace_children_if_necessary,
        scalar_subquery::ScalarSubqueryExec,
        sorts::{partial_sort::PartialSortExec, sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
        union::UnionExec,
        unnest::UnnestExec,
    },
};
use ogee_functions::{floats::in_one_form, growing};
use ogee_planner::{
    eager::{StepExec, with_step_below},
    join_order::{Estimates, Samples},
    node::{properties, properties_of},
    operators::{Aggregate, Join, ParquetScan, Series, Sort, TextScan, Unnest, Window, upper_bounds},
    order::{is_ordered, take_asked},
    table::TableExec,
};

use super::{
    IslandExec, UseOfRows,
    operator::{Op, OperatorExec},
};
use crate::{
    asof::AsofExec,
    engine::Engine,
    recursion::{Bound, RecursionExec, RecursionTerms, WorkScanExec},
};

/// Who relies on the order of rows, if they have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reliance {
    /// Somebody above.
    Some,
    /// Nobody above, but a limit would: what it gives is then what it is because of the order.
    Limits,
    /// Nobody, not even limits: the statement asks for no order that could reach them. What order there is windows have left.
    None,
}

impl Reliance {
    /// That on rows that a limit takes, given that on those it gives.
    fn below_limit(self) -> Self {
        if self == Self::None { Self::None } else { Self::Some }
    }

    /// The same, where `plan` may have no order to rely on.
    fn on(self, plan: &Arc<dyn ExecutionPlan>) -> Self {
        if self == Self::Some && !is_ordered(plan) { Self::Limits } else { self }
    }
}

/// Replaces what the engine has operators for. The last rule of all.
#[derive(Debug)]
pub(crate) struct OgeeRule {
    engine: Arc<Engine>,
    samples: Arc<Samples>,
}

impl OgeeRule {
    /// The rule whose islands run on `engine`; estimates rest on `samples`.
    pub(crate) fn new(engine: Arc<Engine>, samples: Arc<Samples>) -> Self {
        Self { engine, samples }
    }

    /// Places islands in `plan`, whose rows have an order that is relied on as `reliance` says, if they have one, and are used as `used` says.
    fn place(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        reliance: Reliance,
        used: UseOfRows,
        estimates: &Arc<Estimates>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let needed = reliance.on(plan);
        if (is_worthwhile(plan) || used.as_stored && is_union(plan))
            && let Some(root) = self.operator(plan, needed, used.as_stored, estimates)?
        {
            let properties = match needed {
                Reliance::Some => properties_of(plan.properties().equivalence_properties().clone()),
                _ => properties(plan.schema()),
            };
            let engine = Arc::clone(&self.engine);
            return Ok(Arc::new(IslandExec::new(root, engine, Arc::clone(plan), used, properties)));
        }
        self.place_below(plan, reliance, used.as_stored, estimates)
    }

    /// `plan` itself, with islands below it. `as_stored`: whether its rows are wanted as they lie where they come from.
    fn place_below(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        reliance: Reliance,
        as_stored: bool,
        estimates: &Arc<Estimates>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(terms) = plan.downcast_ref::<RecursionTerms>() {
            let used = UseOfRows { to_operator: true, as_stored: false };
            let mut bound = Bound::of(terms, self.engine.memory())?;
            for plan in &mut bound.plans {
                *plan = self.place(plan, Reliance::Limits, used, estimates)?;
            }
            return Ok(Arc::new(RecursionExec::new(bound, plan.schema())));
        }
        let requires = plan.required_input_ordering();
        let maintains = plan.maintains_input_order();
        let children = plan
            .children()
            .into_iter()
            .enumerate()
            .map(|(i, child)| {
                // The rows of a limit, and those that EXPLAIN ANALYZE counts, are what they are because of their order.
                let reliance = if requires[i].is_some() || plan.name() == "AnalyzeExec" {
                    Reliance::Some
                } else if plan.fetch().is_some() || is_limit(plan) {
                    reliance.below_limit()
                } else if maintains[i] {
                    reliance
                } else {
                    Reliance::Limits
                };
                let keeps =
                    maintains[i] || is_limit(plan) || plan.is::<CoalescePartitionsExec>() || plan.is::<UnnestExec>();
                let used = UseOfRows { to_operator: true, as_stored: as_stored && keeps };
                self.place(child, reliance, used, estimates)
            })
            .collect::<Result<Vec<_>>>()?;
        with_floats_in_one_form(replace_children_if_necessary(Arc::clone(plan), children)?)
    }

    /// `plan` as an operator of an island, whose rows come in the order of `plan` if somebody relies on it; `None` if the engine has no operator
    /// that does this. `as_stored`: whether its rows are wanted as they lie where they come from.
    fn operator(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        reliance: Reliance,
        as_stored: bool,
        estimates: &Arc<Estimates>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if reliance != Reliance::Some
            && let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
            && let Some(steps) =
                with_step_below(of_both(aggregate).map_or(aggregate, |(first, _)| first), &plan.schema(), estimates)
            && let Some(operator) = self.operator(&steps, reliance, as_stored, estimates)?
        {
            return Ok(Some(operator));
        }
        let Some((ops, inputs)) = operators(plan) else { return Ok(None) };
        let ordered = reliance == Reliance::Some;
        if ordered && ops.iter().any(|op| !op.keeps_order() && !op.makes_order()) {
            // The order is lost; it can be made again if it is known.
            let order = plan.properties().output_ordering();
            let again = order.filter(|_| !inputs.is_empty()).and_then(|by| Sort::of(by, None, &plan.schema()));
            // Of groups without an order, all that anybody may rely on is constant.
            let needs_none = order.is_none() && ops.iter().any(|op| matches!(op, Op::Aggregate(_)));
            if again.is_none() && !needs_none {
                return Ok(None);
            }
            let Some(unordered) = self.operator(plan, Reliance::Limits, false, estimates)? else { return Ok(None) };
            let Some(again) = again else { return Ok(Some(unordered)) };
            let sort = OperatorExec::new(Op::Sort(Box::new(again)), vec![unordered], plan.schema(), estimates.of(plan));
            return Ok(Some(Arc::new(sort)));
        }
        let sorts_itself = ops.iter().any(|op| matches!(op, Op::Aggregate(aggregate) if aggregate.orders_values()));
        let makes_order = ops.iter().any(Op::makes_order);
        let below = if makes_order || !ordered && !ops.iter().all(Op::keeps_order) {
            Reliance::Limits
        } else if ops.iter().any(|op| matches!(op, Op::Limit { .. })) {
            reliance.below_limit()
        } else {
            reliance
        };
        // Limits take the first rows as they lie there, whoever wants them.
        let below_as_stored = ops.iter().any(|op| matches!(op, Op::Limit { .. }))
            || as_stored && ops.iter().all(|op| op.keeps_order() || matches!(op, Op::Unnest(_) | Op::Union));
        let mut children = Vec::with_capacity(inputs.len());
        for child in inputs {
            let child = match child.downcast_ref::<SortExec>() {
                Some(sort) if sorts_itself && sort.fetch().is_none() => sort.input(),
                _ => child,
            };
            let Some(child) = self.input(child, below.on(child), below_as_stored, estimates)? else { return Ok(None) };
            children.push(child);
        }
        for op in ops {
            // What DataFusion runs would begin before the values are there.
            if matches!(op, Op::Scalars { .. }) && !children.iter().all(is_whole) {
                return Ok(None);
            }
            if let Op::Filter { predicate, .. } = &op {
                for (column, most) in upper_bounds(predicate) {
                    let limited = children[0].downcast_ref::<OperatorExec>().and_then(|op| op.limited(column, most));
                    if let Some(limited) = limited {
                        children = vec![Arc::new(limited)];
                    }
                }
            }
            let passes = match &op {
                Op::Pass => true,
                // Nobody asks for the order.
                Op::Sort(sort) => !ordered && sort.fetch().is_none(),
                _ => false,
            };
            if !passes {
                let schema = match &op {
                    Op::Window(window) => Arc::clone(window.schema()),
                    _ => plan.schema(),
                };
                children = vec![Arc::new(OperatorExec::new(op, children, schema, estimates.of(plan)))];
            }
        }
        Ok(Some(children.swap_remove(0)))
    }

    /// `plan` as the input of an operator: another operator, or a DataFusion node that feeds it. `None` if it is to come in an order that only the
    /// latter would have: what goes through the channel to an island is read by several lanes.
    fn input(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        reliance: Reliance,
        as_stored: bool,
        estimates: &Arc<Estimates>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(operator) = self.operator(plan, reliance, as_stored, estimates)? {
            return Ok(Some(operator));
        }
        if reliance == Reliance::Some {
            return Ok(None);
        }
        let feed = self.place_below(plan, reliance, as_stored, estimates)?;
        Ok(Some(match feed.output_partitioning().partition_count() {
            1 => feed,
            _ => Arc::new(CoalescePartitionsExec::new(feed)),
        }))
    }
}

impl PhysicalOptimizerRule for OgeeRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let reliance = if take_asked() { Reliance::Some } else { Reliance::None };
        let used = UseOfRows { to_operator: false, as_stored: self.engine.settings().keeps_order };
        self.place(&plan, reliance, used, &Arc::new(Estimates::new(Arc::clone(&self.samples))))
    }

    fn name(&self) -> &str {
        "ogee_islands"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan`, which DataFusion runs, with comparisons of floats in the engine's order.
fn with_floats_in_one_form(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let input = projection.input();
        let exprs = projection.expr().iter().map(|of| {
            let expr = in_one_form(Arc::clone(&of.expr), &input.schema())?;
            Ok(ProjectionExpr { expr, alias: of.alias.clone() })
        });
        return Ok(Arc::new(ProjectionExec::try_new(exprs.collect::<Result<Vec<_>>>()?, Arc::clone(input))?));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let predicate = in_one_form(Arc::clone(filter.predicate()), &filter.input().schema())?;
        if !Arc::ptr_eq(&predicate, filter.predicate()) {
            return Ok(Arc::new(FilterExecBuilder::from(filter).with_predicate(predicate).build()?));
        }
    }
    Ok(plan)
}

fn is_limit(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>()
}

/// Whether `plan` gives the rows of a union, of which an island gives those of one input after those of another.
fn is_union(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let passes = || plan.is::<CoalescePartitionsExec>() || plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>();
    plan.is::<UnionExec>() || passes() && plan.children().into_iter().all(is_union)
}

/// Whether an island at `plan` does more than pass on what a DataFusion node made: reads files, groups, sorts or computes windows, or makes values that have to be made in
/// parts.
fn is_worthwhile(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some((ops, inputs)) = operators(plan) else { return false };
    ops.iter().any(|op| {
        matches!(
            op,
            Op::Scan(_)
                | Op::TextScan(_)
                | Op::Table(_)
                | Op::WorkTable(_)
                | Op::Aggregate(_)
                | Op::Join(_)
                | Op::Asof(_)
                | Op::Sort(_)
                | Op::Window(_)
        ) || match op {
            Op::Project(exprs) => exprs.iter().any(|(expr, _)| growing::has_growing(expr)),
            Op::Filter { predicate, .. } => growing::has_growing(predicate),
            _ => false,
        }
    }) || inputs.into_iter().any(is_worthwhile)
}

/// The plans whose rows an operator takes.
type Inputs<'p> = Vec<&'p Arc<dyn ExecutionPlan>>;

/// The aggregation whose states `last` goes on with, and what both do, if the two can be one step.
fn of_both(last: &AggregateExec) -> Option<(&AggregateExec, Aggregate)> {
    let passes = |plan: &Arc<dyn ExecutionPlan>| {
        plan.fetch().is_none()
            && (plan.is::<CoalescePartitionsExec>() || plan.is::<CooperativeExec>() || plan.is::<RepartitionExec>())
    };
    let mut below = last.input();
    while passes(below) {
        below = below.children().into_iter().next()?;
    }
    let first = below.downcast_ref::<AggregateExec>()?;
    Some((first, Aggregate::of_both(first, last)?))
}

/// What `last` does, and to which inputs: also those of the aggregation whose states it goes on with, if the two can be one step.
fn aggregation(last: &AggregateExec) -> Option<(Aggregate, Inputs<'_>)> {
    match of_both(last) {
        Some((first, both)) => Some((both, first.children())),
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
        let scan = ParquetScan::of(source).map(Op::Scan).or_else(|| TextScan::of(source).map(Op::TextScan))?;
        return Some((vec![scan], inputs));
    } else if let Some(table) = plan.downcast_ref::<TableExec>() {
        ops.push(Op::Table(table.work().as_ref().clone()));
    } else if let Some(rows) = plan.downcast_ref::<WorkScanExec>() {
        ops.push(Op::WorkTable(rows.work().as_ref().clone()));
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
    } else if let Some(step) = plan.downcast_ref::<StepExec>() {
        ops.push(Op::Aggregate(Box::new(step.work().aggregate.clone())));
    } else if let Some(join) = Join::of(plan) {
        ops.push(Op::Join(Box::new(join)));
    } else if let Some(join) = plan.downcast_ref::<AsofExec>() {
        ops.push(Op::Asof(Arc::clone(join.work())));
    } else if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return Some((vec![Op::Limit { skip: limit.skip(), fetch: limit.fetch() }], inputs));
    } else if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return Some((vec![Op::Limit { skip: 0, fetch: Some(limit.fetch()) }], inputs));
    } else if let Some(subqueries) = plan.downcast_ref::<ScalarSubqueryExec>() {
        let indexes = subqueries.subqueries().iter().map(|link| link.index).collect();
        ops.push(Op::Scalars { results: subqueries.results().clone(), indexes });
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        // Its own limit is part of the sort.
        return Some((vec![sorting(sort.expr(), sort.fetch(), sort.input())?], inputs));
    } else if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        return Some((vec![sorting(merge.expr(), merge.fetch(), merge.input())?], inputs));
    } else if let Some(sort) = plan.downcast_ref::<PartialSortExec>() {
        return Some((vec![sorting(sort.expr(), sort.fetch(), sort.input())?], inputs));
    } else if let Some((window, columns, input)) = Window::of(plan) {
        let schema = Arc::clone(window.schema());
        ops.push(Op::Window(Box::new(window)));
        if let Some(columns) = columns {
            let column = |(column, field): (usize, &FieldRef)| {
                let expr = Arc::new(Column::new(schema.field(column).name(), column)) as Arc<dyn PhysicalExpr>;
                (expr, field.name().clone())
            };
            ops.push(Op::Project(columns.into_iter().zip(plan.schema().fields()).map(column).collect()));
        }
        inputs = vec![input];
    } else if let Some(unnest) = plan.downcast_ref::<UnnestExec>() {
        ops.push(Op::Unnest(Box::new(Unnest::of(unnest)?)));
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
    if let Some(fetch) = plan.fetch() {
        ops.push(Op::Limit { skip: 0, fetch: Some(fetch) });
    }
    Some((ops, inputs))
}

/// Whether nothing of DataFusion's is below `plan`, an operator of an island.
fn is_whole(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<OperatorExec>() && plan.children().into_iter().all(is_whole)
}

fn sorting(by: &LexOrdering, fetch: Option<usize>, input: &Arc<dyn ExecutionPlan>) -> Option<Op> {
    Some(Op::Sort(Box::new(Sort::of(by, fetch, &input.schema())?)))
}
