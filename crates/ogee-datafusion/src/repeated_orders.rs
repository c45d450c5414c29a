//! Keys of the order of an aggregate, or of `DISTINCT ON`, that repeat earlier ones, left out.
//!
//! `first(i ORDER BY i, i DESC)` has one key: rows that tie in it tie in the other. DataFusion's plans leave the second one out in some places only, and its
//! kernels panic on it. Keys that are equal when they are simplified go when they are.
//!
//! Not here: orders of queries and windows.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    logical_expr::{Distinct, Expr, LogicalPlan},
    optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::kept_names;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RepeatedOrders;

impl AnalyzerRule for RepeatedOrders {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite_plan).data()
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
            aggregate.aggr_expr.iter().any(|expr| matches!(expr.exists(|expr| Ok(repeats(expr))), Ok(true)))
        }
        _ => false,
    };
    if !repeats {
        return Ok(Transformed::no(plan));
    }
    kept_names::map_expressions(plan, |expr| expr.transform_up(rewrite))
}

fn repeats(expr: &Expr) -> bool {
    let Expr::AggregateFunction(call) = expr else { return false };
    let mut keys = HashSet::new();
    !call.params.order_by.iter().all(|key| keys.insert(&key.expr))
}

fn rewrite(expr: Expr) -> Result<Transformed<Expr>> {
    if !repeats(&expr) {
        return Ok(Transformed::no(expr));
    }
    let Expr::AggregateFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let mut keys = HashSet::new();
    call.params.order_by.retain(|key| keys.insert(key.expr.clone()));
    Ok(Transformed::yes(Expr::AggregateFunction(call)))
}
