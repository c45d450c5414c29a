//! Casts of constants that fail: an error of the rows that they are of, if there are any, not of the statement.
//!
//! DataFusion finds out while it plans, and refuses `CASE WHEN i > 0 THEN i ELSE 'none'::INT END` over rows that never come to it. An analyzer rule hides the constant from it; the cast
//! then fails where it is evaluated.
//!
//! Not here: what `CASE`, `coalesce`, `AND` and `OR` leave out (`ogee_exec`).

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{Cast, Expr, LogicalPlan},
    optimizer::AnalyzerRule,
};

use ogee_functions::tried::TRY;

use crate::{
    kept_names,
    subqueries::maybe,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FailingCasts;

impl AnalyzerRule for FailingCasts {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut any = false;
        plan.each_node(|node| {
            node.each_expression(|expr| {
                any |= expr.has(|expr| Ok(fails(expr)))?;
                Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        if !any {
            return Ok(plan);
        }
        plan.nodes_up(|node| {
            // Rows of constants are computed while the statement is planned.
            if matches!(node, LogicalPlan::Values(_)) {
                // What fails there is not known before.
                return kept_names::map_expressions(node, |expr| expr.up(in_try));
            }
            kept_names::map_expressions(node, |expr| expr.up(|expr| Ok(hidden(expr))))
        })
        .data()
    }

    fn name(&self) -> &str {
        "failing_casts"
    }
}

/// Whether `expr` is the cast of a constant that fails.
fn fails(expr: &Expr) -> bool {
    let Expr::Cast(Cast { expr, field }) = expr else { return false };
    matches!(&**expr, Expr::Literal(value, _) if value.cast_to(field.data_type()).is_err())
}

/// `expr`, of which the casts are hidden if it is `TRY` of them.
fn in_try(expr: Expr) -> Result<Transformed<Expr>> {
    match &expr {
        Expr::HigherOrderFunction(call) if call.func.name() == TRY => expr.up(|expr| Ok(hidden(expr))),
        _ => Ok(Transformed::no(expr)),
    }
}

fn hidden(expr: Expr) -> Transformed<Expr> {
    if !fails(&expr) {
        return Transformed::no(expr);
    }
    let Expr::Cast(Cast { expr, field }) = expr else { unreachable!("told above") };
    Transformed::yes(Expr::Cast(Cast { expr: Box::new(maybe().call(vec![*expr])), field }))
}
