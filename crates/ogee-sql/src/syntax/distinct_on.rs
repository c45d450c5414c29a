//! `DISTINCT ON (1)`, the first column: DataFusion takes the number for a value, of which all rows have the same.
//!
//! Not here: `DISTINCT ON` itself, and positions in `ORDER BY` and `GROUP BY`, which DataFusion plans.

use datafusion::{
    common::{Result, plan_err},
    sql::sqlparser::ast::{Distinct, Expr, Select, SelectItem, Value},
};

/// Writes the columns of `select` for their positions.
pub(super) fn in_select(select: &mut Select) -> Result<()> {
    let Some(Distinct::On(keys)) = &mut select.distinct else { return Ok(()) };
    for key in keys {
        let Expr::Value(value) = key else { continue };
        let Value::Number(digits, _) = &value.value else { continue };
        let columns = select.projection.len();
        let Some(position) = digits.parse::<usize>().ok().filter(|position| (1..=columns).contains(position)) else {
            return plan_err!("DISTINCT ON position {digits} is not in the select list, which has {columns} columns");
        };
        *key = match &select.projection[position - 1] {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
            _ => return plan_err!("DISTINCT ON position {position} is a star; name the column"),
        };
    }
    Ok(())
}
