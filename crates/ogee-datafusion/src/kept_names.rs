//! Expressions of a plan put in other words under the names that they have.
//!
//! What is above a node knows its outputs by name. A grouping has the names of what is in its sets; a name for the sets as a whole would hide that they are sets.
//!
//! Not here: names that users see (`names`).

use std::collections::HashMap;

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{Expr, LogicalPlan, expr_rewriter::NamePreserver},
};

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
