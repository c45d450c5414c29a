//! Keys of an aggregate's order that repeat earlier ones, left out.
//!
//! `first(i ORDER BY i, i DESC)` has one key: rows that tie in it tie in the other. DataFusion's plans leave the second one out in some places only, and its
//! kernels panic on it.
//!
//! Not here: orders of queries and windows.

use std::collections::HashSet;

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    logical_expr::{Expr, LogicalPlan, expr_rewriter::NamePreserver},
    optimizer::AnalyzerRule,
};

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

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let repeats = match &plan {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.aggr_expr.iter().any(|expr| matches!(expr.exists(|expr| Ok(repeats(expr))), Ok(true)))
        }
        _ => false,
    };
    if !repeats {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        expr.transform_up(rewrite).map(|rewritten| rewritten.update_data(|expr| name.restore(expr)))
    })
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
