//! Filters that stay above an aggregation.
//!
//! DataFusion's rule sends a conjunct below an aggregation, or a window, if all of its columns are keys: one without columns too. But where there is a group of no keys, it has a
//! row though none comes in (`HAVING (SELECT max(id) FROM t) > 1000`, or the empty one of grouping sets), and a conjunct that is different for
//! each row that asks (`random() < 0.5`) would take rows out of the groups, the frames or the lists, in place of what is made of them. The rule sees the rest of the conjuncts only.
//!
//! Not here: what scans do with filters (`ogee-planner`).

use std::sync::Arc;

use datafusion::{
    common::tree_node::Transformed,
    error::Result,
    logical_expr::{
        Expr, Filter, LogicalPlan,
        utils::{conjunction, split_conjunction_owned},
    },
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule, push_down_filter::PushDownFilter},
};

/// DataFusion's rule, but for conjuncts that must not sink.
#[derive(Debug)]
pub(crate) struct FilterPushdown {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
}

/// `rules` with this one in the place of DataFusion's.
pub(crate) fn with_filters_above_groups(
    mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let name = PushDownFilter::new().name().to_owned();
    for rule in rules.iter_mut().filter(|rule| rule.name() == name) {
        *rule = Arc::new(FilterPushdown { rule: Arc::clone(rule) });
    }
    rules
}

/// What is below a filter, and the filters right below it.
fn below(filter: &Filter) -> &LogicalPlan {
    match &*filter.input {
        LogicalPlan::Filter(filter) => below(filter),
        input => input,
    }
}

/// Whether `conjunct` must stay above `input`.
fn stays(conjunct: &Expr, input: &LogicalPlan) -> bool {
    match input {
        LogicalPlan::Aggregate(aggregate) => {
            let may_be_of_none = aggregate.group_expr.is_empty()
                || aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
            may_be_of_none && !conjunct.any_column_refs() || conjunct.is_volatile()
        }
        LogicalPlan::Window(_) | LogicalPlan::Distinct(_) | LogicalPlan::Unnest(_) => conjunct.is_volatile(),
        _ => false,
    }
}

/// The conjuncts of `filter` and the filters right below it, those first.
fn conjuncts(filter: &Filter) -> Vec<Expr> {
    let mut all = match &*filter.input {
        LogicalPlan::Filter(below) => conjuncts(below),
        _ => Vec::new(),
    };
    all.extend(split_conjunction_owned(filter.predicate.clone()));
    all
}

impl OptimizerRule for FilterPushdown {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return self.rule.rewrite(plan, config) };
        let input = below(filter);
        let asks = matches!(
            input,
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(_) | LogicalPlan::Unnest(_)
        );
        if !asks {
            return self.rule.rewrite(plan, config);
        }
        let (kept, others): (Vec<Expr>, Vec<Expr>) =
            conjuncts(filter).into_iter().partition(|conjunct| stays(conjunct, input));
        let Some(kept) = conjunction(kept) else { return self.rule.rewrite(plan, config) };
        let Some(others) = conjunction(others) else { return Ok(Transformed::no(plan)) };
        let rest = LogicalPlan::Filter(Filter::try_new(others, Arc::new(input.clone()))?);
        let pushed = self.rule.rewrite(rest, config)?;
        if !pushed.transformed {
            return Ok(Transformed::no(plan));
        }
        pushed.map_data(|plan| Ok(LogicalPlan::Filter(Filter::try_new(kept, Arc::new(plan))?)))
    }
}
