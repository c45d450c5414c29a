//! Limits that are no numbers: `LIMIT 10%`, `LIMIT (SELECT ..)`, and what is computed of constants.
//!
//! The planner takes whole numbers. So what the expression comes to is asked before, and of a percentage how many rows the query has without it, which is then run twice. NULL is no limit.
//!
//! Not here: parameters of prepared statements, which are known when they are run.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, Query, SelectItem, SetExpr,
    TableFactor, Value, Visitor,
};
use ogee_functions::{Error, Result};

use crate::{
    asked::{self, Answers},
    pivots::to_text,
    syntax::limits::PERCENT,
    visitors,
};

/// Whether the limit or offset of `query` has to be asked.
pub(crate) fn is_asked(query: &Query) -> bool {
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause else { return false };
    limit.as_ref().is_some_and(is_computed) || offset.as_ref().is_some_and(|offset| is_computed(&offset.value))
}

/// Whether `expr` is a query, a percentage or a call, or a constant that is no whole number.
fn is_computed(expr: &Expr) -> bool {
    struct Computed;

    impl Visitor for Computed {
        type Break = bool;

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<bool> {
            match expr {
                Expr::Subquery(_) | Expr::Function(_) | Expr::Cast { .. } | Expr::Case { .. } => {
                    ControlFlow::Break(true)
                }
                Expr::Value(value) => match &value.value {
                    Value::Placeholder(_) => ControlFlow::Break(false),
                    Value::Number(number, _) if number.contains(['.', 'e', 'E']) => ControlFlow::Break(true),
                    Value::SingleQuotedString(_) => ControlFlow::Break(true),
                    _ => ControlFlow::Continue(()),
                },
                _ => ControlFlow::Continue(()),
            }
        }
    }

    if let Expr::Value(value) = expr
        && let Value::Number(number, _) = &value.value
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        return false;
    }
    visitors::visit(expr, &mut Computed).break_value().unwrap_or(false)
}

/// The part of all rows that `expr` is.
fn percentage(expr: &Expr) -> Option<&Expr> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return None };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(amount))] if name.to_string() == PERCENT => Some(amount),
        _ => None,
    }
}

/// Puts numbers in the place of the limit and the offset of `query`.
///
/// # Errors
/// Those of asking for them; [`Error::Plan`] for numbers that are no limits.
pub(crate) async fn write_out(query: &mut Query, answers: &Answers<'_>) -> Result<()> {
    let mut all = query.clone();
    (all.limit_clause, all.order_by) = (None, None);
    let own = query.with.clone();
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else { return Ok(()) };
    let number = |count: u64| Expr::value(Value::Number(count.to_string(), false));
    if let Some(expr) = limit.take() {
        *limit = match percentage(&expr) {
            Some(amount) => part(amount, all, answers).await?.map(number),
            None if is_computed(&expr) => count(expr, own.clone(), answers).await?.map(number),
            None => Some(expr),
        };
    }
    if let Some(mut written) = offset.take() {
        *offset = match is_computed(&written.value) {
            true => count(written.value.clone(), own, answers).await?.map(number).map(|value| {
                written.value = value;
                written
            }),
            false => Some(written),
        };
    }
    if let Some(LimitClause::LimitOffset { limit: None, offset: None, limit_by }) = &query.limit_clause
        && limit_by.is_empty()
    {
        query.limit_clause = None;
    }
    Ok(())
}

/// `SELECT CAST(CAST(expr AS data_type) AS VARCHAR)`, where the queries of `with` are known.
async fn value(
    expr: Expr,
    with: Option<datafusion::sql::sqlparser::ast::With>,
    data_type: &str,
    answers: &Answers<'_>,
) -> Result<Option<String>> {
    let mut asked = asked::query(&format!("SELECT CAST(0 AS {data_type})"))?;
    asked.with = with;
    if let SetExpr::Select(select) = &mut *asked.body
        && let SelectItem::UnnamedExpr(cast @ Expr::Cast { .. }) = &mut select.projection[0]
    {
        if let Expr::Cast { expr: inner, .. } = cast {
            **inner = Expr::Nested(Box::new(expr));
        }
        select.projection[0] = SelectItem::UnnamedExpr(to_text(cast.clone()));
    }
    Ok(answers.rows(asked).await?.pop().and_then(|mut row| row.pop()).flatten())
}

/// How many rows `expr` comes to; `None` if that is NULL.
async fn count(
    expr: Expr,
    with: Option<datafusion::sql::sqlparser::ast::With>,
    answers: &Answers<'_>,
) -> Result<Option<u64>> {
    let shown = expr.to_string();
    // Halves go to the even number, as DuckDB rounds here, but for those of decimals that are written out.
    let is_decimal = matches!(&expr, Expr::Value(value) if matches!(&value.value, Value::Number(number, _) if !number.contains(['e', 'E'])));
    let rounded = if is_decimal { f64::round } else { f64::round_ties_even };
    let Some(number) = value(expr, with, "DOUBLE", answers).await? else { return Ok(None) };
    match number.parse::<f64>().map(rounded) {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(Some(number as u64)),
        _ => Err(Error::Plan(format!("LIMIT and OFFSET are not negative, and {shown} is {number}"))),
    }
}

/// How many rows `amount` percent of those of `all` are; `None` if that is NULL.
async fn part(amount: &Expr, all: Query, answers: &Answers<'_>) -> Result<Option<u64>> {
    let percent = match amount {
        Expr::Value(constant) => match &constant.value {
            Value::Number(number, _) => Some(number.clone()),
            _ => None,
        },
        _ => None,
    };
    let percent = match percent {
        Some(number) => Some(number),
        None => value(amount.clone(), all.with.clone(), "DOUBLE", answers).await?,
    };
    let Some(percent) = percent else { return Ok(None) };
    let in_range = percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let Some(in_range) = in_range else {
        return Err(Error::Plan(format!("a LIMIT is of 0 to 100 percent of the rows, not of {percent}")));
    };
    let mut counting = asked::query("SELECT CAST(count(*) AS VARCHAR) FROM (SELECT 0)")?;
    if let SetExpr::Select(select) = &mut *counting.body
        && let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation
    {
        **subquery = all;
    }
    let rows = answers.rows(counting).await?.pop().and_then(|mut row| row.pop()).flatten();
    let rows: u64 = rows.and_then(|rows| rows.parse().ok()).unwrap_or(0);
    Ok(Some((rows as f64 * in_range / 100.0) as u64))
}
