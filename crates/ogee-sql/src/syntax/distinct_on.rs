//! `DISTINCT ON (1)`, the first column, and `DISTINCT ON (a) .. ORDER BY b`.
//!
//! DataFusion takes the number for a value, of which all rows have the same. Of an order it asks that it begin with what rows are distinct by; the first row of each in another order is the one that a
//! window numbers 1.
//!
//! Not here: `DISTINCT ON` in an order that begins so, and positions in `ORDER BY` and `GROUP BY`, which DataFusion plans.

use datafusion::{
    common::{Result, plan_err},
    sql::sqlparser::ast::{
        BinaryOperator, Distinct, Expr, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
    },
};

use crate::names::normal_name;

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

/// Has a window find the first rows of the `SELECT` that `query` is, if its order does not begin with what they are distinct by.
pub(super) fn in_other_order(query: &mut Query) {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) else { return };
    let SetExpr::Select(select) = &mut *query.body else { return };
    let Some(Distinct::On(keys)) = &select.distinct else { return };
    let begins = keys.len() <= order.len() && keys.iter().zip(order).all(|(key, by)| *key == by.expr);
    if begins || select.qualify.is_some() || order.is_empty() || keys.iter().any(crate::columns_of::has_star) {
        return;
    }
    let order: Option<Vec<OrderByExpr>> = order
        .iter()
        .map(|by| Some(OrderByExpr { expr: output(&select.projection, &by.expr)?, ..by.clone() }))
        .collect();
    let Some(order) = order else { return };
    let texts = |parts: &mut dyn Iterator<Item = String>| parts.collect::<Vec<_>>().join(", ");
    let partition = texts(&mut keys.iter().map(ToString::to_string));
    let order = texts(&mut order.iter().map(ToString::to_string));
    let text = format!("SELECT row_number() OVER (PARTITION BY {partition} ORDER BY {order})");
    let Some(SetExpr::Select(made)) = super::query_of(&text).map(|query| *query.body) else { return };
    let Some(SelectItem::UnnamedExpr(number)) = made.projection.into_iter().next() else { return };
    select.distinct = None;
    select.qualify = Some(Expr::BinaryOp {
        left: Box::new(number),
        op: BinaryOperator::Eq,
        right: Box::new(Expr::value(Value::Number("1".to_owned(), false))),
    });
}

/// What `by`, in an order, is in `outputs`, where it is the name or the position of one; `None` if that is behind a star.
fn output(outputs: &[SelectItem], by: &Expr) -> Option<Expr> {
    let is_star = |item: &SelectItem| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    match by {
        Expr::Value(value) => {
            let Value::Number(position, _) = &value.value else { return Some(by.clone()) };
            let before = outputs.get(..position.parse().ok()?)?;
            match before.last()? {
                _ if before.iter().any(is_star) => None,
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
                _ => None,
            }
        }
        Expr::Identifier(name) => {
            let named = outputs.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if normal_name(alias) == normal_name(name) => Some(expr),
                _ => None,
            });
            Some(named.unwrap_or(by).clone())
        }
        _ => Some(by.clone()),
    }
}
