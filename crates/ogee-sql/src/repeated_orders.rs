//! Keys of the order of an aggregate, a window, or `DISTINCT ON`, that repeat earlier ones, left out.
//!
//! `first(i ORDER BY i, i DESC)` has one key: rows that tie in it tie in the other. DataFusion's plans leave the second one out in some places only, and its
//! kernels panic on it. Keys that are equal when they are simplified go when they are.
//!
//! Windows over the same partitions whose sorts are the same are computed together, with the first keys of the sort for the peers of each: `PARTITION BY s ORDER BY s, g` beside
//! `PARTITION BY s ORDER BY g` had rows ranked by `s`. So a key that its partition has anyway goes, too, but for the last.
//!
//! Not here: orders of queries.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{Distinct, Expr, LogicalPlan, expr::WindowFunction},
    optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::{
    kept_names,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RepeatedOrders;

impl AnalyzerRule for RepeatedOrders {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up(rewrite_plan).data()
    }

    fn name(&self) -> &str {
        "repeated_orders"
    }
}

/// `rules`, with this one behind them.
pub(crate) fn with_single_keys(
    mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    rules.push(Arc::new(RepeatedOrders));
    rules
}

impl OptimizerRule for RepeatedOrders {
    fn name(&self) -> &str {
        "repeated_orders"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        rewrite_plan(plan)
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Distinct(Distinct::On(mut on)) = plan {
        let Some(order) = &mut on.sort_expr else {
            return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
        };
        let before = order.len();
        let mut keys = HashSet::new();
        order.retain(|key| keys.insert(key.expr.clone()));
        let changed = order.len() < before;
        let plan = LogicalPlan::Distinct(Distinct::On(on));
        return Ok(if changed { Transformed::yes(plan) } else { Transformed::no(plan) });
    }
    let repeats = match &plan {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.aggr_expr.iter().any(|expr| matches!(expr.has(|expr| Ok(repeats(expr))), Ok(true)))
        }
        LogicalPlan::Window(window) => {
            window.window_expr.iter().any(|expr| matches!(expr.has(|expr| Ok(repeats(expr))), Ok(true)))
        }
        _ => false,
    };
    if !repeats {
        return Ok(Transformed::no(plan));
    }
    kept_names::map_expressions(plan, |expr| expr.up(rewrite))
}

fn repeats(expr: &Expr) -> bool {
    let mut keys = HashSet::new();
    match expr {
        Expr::AggregateFunction(call) => {
            let order = &call.params.order_by;
            order.len() > 1 && !order.iter().all(|key| keys.insert(&key.expr))
        }
        Expr::WindowFunction(call) => {
            keys.extend(&call.params.partition_by);
            let order = &call.params.order_by;
            has_names(call) || order.len() > 1 && !order.iter().all(|key| keys.insert(&key.expr))
        }
        _ => false,
    }
}

/// Whether keys of a window have names of their own: what is computed once for several windows may have one in one of them, which then is not the same as the others.
fn has_names(call: &WindowFunction) -> bool {
    let is_named = |expr: &Expr| matches!(expr.has(|part| Ok(matches!(part, Expr::Alias(_)))), Ok(true));
    call.params.partition_by.iter().chain(call.params.order_by.iter().map(|key| &key.expr)).any(is_named)
}

fn rewrite(expr: Expr) -> Result<Transformed<Expr>> {
    if !repeats(&expr) {
        return Ok(Transformed::no(expr));
    }
    let mut keys = HashSet::new();
    Ok(match expr {
        Expr::AggregateFunction(mut call) => {
            call.params.order_by.retain(|key| keys.insert(key.expr.clone()));
            Transformed::yes(Expr::AggregateFunction(call))
        }
        Expr::WindowFunction(mut call) => {
            let order = call.params.order_by.iter_mut().map(|key| &mut key.expr);
            for key in call.params.partition_by.iter_mut().chain(order) {
                *key = std::mem::take(key).unalias_nested().data;
            }
            let last = call.params.order_by.last().cloned();
            keys.extend(call.params.partition_by.iter().cloned());
            call.params.order_by.retain(|key| keys.insert(key.expr.clone()));
            if call.params.order_by.is_empty() {
                call.params.order_by.extend(last);
            }
            Transformed::yes(Expr::WindowFunction(call))
        }
        other => Transformed::no(other),
    })
}
