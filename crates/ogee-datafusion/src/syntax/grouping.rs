//! Groupings that DataFusion's planner does not see: `GROUP BY ()`, and `HAVING` that asks nothing of the rows.
//!
//! Both make one group of all rows, even of none. DataFusion tells a grouping by its keys and aggregates, so a select without either gets one: a condition on the
//! number of rows that always holds.
//!
//! Not here: grouping sets, which DataFusion plans.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, GroupByExpr, Select, Value};

use crate::names::call_star;

/// Makes a grouping of `select` where it is one by its words only.
pub(super) fn in_select(select: &mut Select) {
    let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by else { return };
    let of_all = matches!(keys.as_slice(), [Expr::Tuple(none)] if none.is_empty());
    if of_all {
        keys.clear();
    }
    if !of_all && (select.having.is_none() || !keys.is_empty() || !modifiers.is_empty()) {
        return;
    }
    let zero = Box::new(Expr::value(Value::Number("0".to_owned(), false)));
    let any = Expr::BinaryOp { left: Box::new(call_star("count")), op: BinaryOperator::GtEq, right: zero };
    select.having = Some(match select.having.take() {
        Some(having) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(having))),
            op: BinaryOperator::And,
            right: Box::new(any),
        },
        None => any,
    });
}
