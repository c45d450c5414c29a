//! Expressions of a plan put in other words under the names that they have.
//!
//! What is above a node knows its outputs by name. A grouping has the names of what is in its sets; a name for the sets as a whole would hide that they are sets.
//!
//! Not here: names that users see (`names`).

use std::collections::HashMap;

use datafusion::{
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{Expr, LogicalPlan, expr_rewriter::NamePreserver, utils::merge_schema},
};

use crate::common_types::has_expressions;

/// `plan` with `rewrite` done to all parts, from the bottom, of those of its expressions that have a `wanted` one. It is told what is below `plan`.
pub(crate) fn rewrite_where(
    plan: LogicalPlan,
    wanted: impl Fn(&Expr) -> bool,
    rewrite: impl Fn(Expr, &DFSchema) -> Transformed<Expr>,
) -> Result<Transformed<LogicalPlan>> {
    if !has_expressions(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let inputs: Vec<_> = plan.inputs().into_iter().cloned().collect();
    let mut schema = None;
    map_expressions(plan, |expr| {
        if !expr.exists(|part| Ok(wanted(part)))? {
            return Ok(Transformed::no(expr));
        }
        let schema = schema.get_or_insert_with(|| merge_schema(&inputs.iter().collect::<Vec<_>>()));
        expr.transform_up(|part| Ok(rewrite(part, schema)))
    })
}

/// `plan` with `rewrite` done to each of its expressions, and to each of those within grouping sets; they keep their names.
pub(crate) fn map_expressions(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let mut named = |expr: Expr| {
        let name = names.save(&expr);
        rewrite(expr).map(|rewritten| rewritten.update_data(|expr| name.restore(expr)))
    };
    plan.map_expressions(|expr| {
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
