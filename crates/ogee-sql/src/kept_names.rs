//! Expressions of a plan put in other words under the names that they have.
//!
//! What is above a node knows its outputs by name. A grouping has the names of what is in its sets; a name for the sets as a whole would hide that they are sets.
//!
//! Not here: names that users see (`names`).

use std::collections::HashMap;

use datafusion::{
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{Expr, LogicalPlan, expr_rewriter::NamePreserver, utils::merge_schema},
};

use crate::trees::{Nodes, Tree};

/// `plan` with `rewrite` done to all parts, from the bottom, of those of its expressions that have a `wanted` one. It is told what is below `plan`.
pub(crate) fn rewrite_where(
    plan: LogicalPlan,
    wanted: impl Fn(&Expr) -> bool,
    rewrite: impl Fn(Expr, &DFSchema) -> Transformed<Expr>,
) -> Result<Transformed<LogicalPlan>> {
    if !has_any(&plan, &wanted) {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    map_expressions_where(plan, wanted, |expr| expr.up(|part| Ok(rewrite(part, &schema))))
}

/// Whether an expression of `plan` has a `wanted` part.
pub(crate) fn has_any(plan: &LogicalPlan, wanted: impl Fn(&Expr) -> bool) -> bool {
    let mut any = false;
    let looked = plan.each_expression(|expr| {
        any = expr.has(|part| Ok(wanted(part)))?;
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    debug_assert!(looked.is_ok(), "nobody fails");
    any
}

/// `plan` with `rewrite` done to those of its expressions that have a `wanted` part, as [`map_expressions`] does it to all.
pub(crate) fn map_expressions_where(
    plan: LogicalPlan,
    wanted: impl Fn(&Expr) -> bool,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    named_expressions(plan, &wanted, &mut rewrite)
}

fn named_expressions(
    plan: LogicalPlan,
    wanted: &dyn Fn(&Expr) -> bool,
    rewrite: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    // Finding a name writes the expression out, which takes longer than most rules do.
    if !has_any(&plan, wanted) {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    let mut named = |expr: Expr| {
        if !expr.has(|part| Ok(wanted(part)))? {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        rewrite(expr).map(|rewritten| rewritten.update_data(|expr| name.restore(expr)))
    };
    plan.with_expressions(|expr| {
        if !matches!(expr, Expr::GroupingSet(_)) {
            return named(expr);
        }
        // A key that is in several sets stays one key.
        let mut done: HashMap<Expr, Expr> = HashMap::new();
        expr.map_children(|key| {
            if let Some(rewritten) = done.get(&key) {
                return Ok(Transformed::yes(rewritten.clone()));
            }
            let rewritten = named(key.clone())?;
            if rewritten.transformed {
                done.insert(key, rewritten.data.clone());
            }
            Ok(rewritten)
        })
    })
}

/// `plan` with `rewrite` done to each of its expressions, and to each of those within grouping sets; they keep their names.
pub(crate) fn map_expressions(
    plan: LogicalPlan,
    rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    map_expressions_where(plan, |_| true, rewrite)
}
