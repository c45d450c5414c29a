//! `FILTER` of aggregates over windows, as a `CASE` around the argument.
//!
//! Plans do not tell the filter of a window aggregate, so that the engine could not run it. Aggregates that take no notice of NULL need none: a row that does not
//! pass has NULL for an argument.
//!
//! Not here: filters of aggregates that keep NULLs, which stay DataFusion's.

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition, expr_rewriter::NamePreserver, when},
    optimizer::AnalyzerRule,
};

use crate::trees::{Nodes, Tree};

/// Aggregates of one argument that leave NULLs out, and have kernels.
const LEAVE_OUT_NULLS: &[&str] = &["avg", "count", "max", "min", "sum"];

/// Moves filters into arguments.
#[derive(Debug, Default)]
pub(crate) struct WindowFilters;

impl AnalyzerRule for WindowFilters {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(|node| matches!(node, LogicalPlan::Window(_)), rewrite_plan).data()
    }

    fn name(&self) -> &str {
        "window_filters"
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.with_expressions(|expr| {
        let name = names.save(&expr);
        expr.up(rewrite).map(|rewritten| rewritten.update_data(|expr| name.restore(expr)))
    })
}

fn rewrite(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let leaves_out = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(function) => LEAVE_OUT_NULLS.contains(&function.name()),
        WindowFunctionDefinition::WindowUDF(_) => false,
    };
    let params = &mut call.params;
    if !leaves_out || params.args.len() != 1 || params.filter.is_none() {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    }
    let filter = params.filter.take().expect("asked for above");
    let arg = params.args.swap_remove(0);
    params.args.push(when(*filter, arg).end()?);
    Ok(Transformed::yes(Expr::WindowFunction(call)))
}
