//! Aggregates and window functions where there are no groups or frames of rows: in `WHERE`, conditions of joins, keys of groups, `VALUES`.
//!
//! DataFusion looks for window functions in what is selected, in `ORDER BY` and in `QUALIFY`, and leaves the others for the planner of operators to stumble over.
//!
//! Not here: aggregates in `WHERE`, and calls within calls, which DataFusion refuses when it plans the text.

use datafusion::{
    common::{Result, plan_err, tree_node::TreeNodeRecursion},
    config::ConfigOptions,
    logical_expr::{Expr, LogicalPlan},
    optimizer::AnalyzerRule,
};

use crate::trees::{Nodes, Tree};

/// See the module; it changes nothing, and comes before what changes plans.
#[derive(Debug, Default)]
pub(crate) struct MisplacedCalls;

impl AnalyzerRule for MisplacedCalls {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.each_node(|node| match node {
            LogicalPlan::Window(_) => Ok(TreeNodeRecursion::Continue),
            LogicalPlan::Aggregate(aggregate) => {
                aggregate.group_expr.iter().try_for_each(|key| in_expression(key, node).map(drop))?;
                Ok(TreeNodeRecursion::Continue)
            }
            node => node.each_expression(|expr| in_expression(expr, node)),
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "misplaced_calls"
    }
}

/// # Errors
/// If `expr` of `node` calls a window function, or an aggregate.
fn in_expression(expr: &Expr, node: &LogicalPlan) -> Result<TreeNodeRecursion> {
    expr.each(|expr| match expr {
        Expr::WindowFunction(_) => plan_err!(
            "window functions are not allowed in {}; {}",
            place(node),
            match node {
                LogicalPlan::Filter(_) => "filter by them with QUALIFY",
                _ => "compute them in a query in FROM",
            }
        ),
        Expr::AggregateFunction(_) => {
            plan_err!("aggregates are not allowed in {}; compute them in a query in FROM", place(node))
        }
        _ => Ok(TreeNodeRecursion::Continue),
    })
}

/// What users call the place of `node`'s expressions.
fn place(node: &LogicalPlan) -> &'static str {
    match node {
        LogicalPlan::Filter(filter) if matches!(&*filter.input, LogicalPlan::Aggregate(_)) => "HAVING",
        LogicalPlan::Filter(_) => "WHERE",
        LogicalPlan::Join(_) => "the condition of a join",
        LogicalPlan::Aggregate(_) => "GROUP BY",
        LogicalPlan::Values(_) => "VALUES",
        LogicalPlan::Sort(_) => "ORDER BY",
        LogicalPlan::Limit(_) => "LIMIT",
        LogicalPlan::Projection(_) => "what is selected here",
        _ => "this place",
    }
}
