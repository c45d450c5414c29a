//! `(a, b) IN (SELECT x, y ...)`, a row among the rows of a query, as `EXISTS`.
//!
//! Where only rows count for which it is true, as in `WHERE`, one `EXISTS` tells. As a value it is NULL where that cannot be told: no row is equal, but some row might be, if
//! NULLs in it or in the row that is looked for were known.
//!
//! Not here: single values among the rows of a query (`subqueries`).

use datafusion::sql::sqlparser::{
    ast::{BinaryOperator, Expr, Query, UnaryOperator},
    parser::Parser,
};

use crate::dialect::OgeeDialect;

/// Rewrites those conjuncts of a condition that are such a test: only where it is true matters.
pub(super) fn in_condition(condition: &mut Expr) {
    match condition {
        Expr::Nested(inner) => in_condition(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            in_condition(left);
            in_condition(right);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            let inner = match &mut **expr {
                Expr::Nested(inner) => inner,
                _ => expr,
            };
            if let Expr::InSubquery { negated, .. } = &mut **inner {
                *negated = !*negated;
                if let Some(exists) = where_true(inner) {
                    *condition = exists;
                } else if let Expr::InSubquery { negated, .. } = &mut **inner {
                    *negated = !*negated;
                }
            }
        }
        _ => {
            if let Some(exists) = where_true(condition) {
                *condition = exists;
            }
        }
    }
}

/// True where `expr`, a row among rows, is.
fn where_true(expr: &Expr) -> Option<Expr> {
    let (values, subquery, negated) = row_among(expr)?;
    let rows = Rows::of(values, subquery);
    if negated { parsed(&format!("NOT {}", rows.that("IS NOT FALSE"))) } else { parsed(&rows.that("")) }
}

/// The value of `expr`, if that is a row among rows.
pub(super) fn value_of(expr: &Expr) -> Option<Expr> {
    let (values, subquery, negated) = row_among(expr)?;
    let rows = Rows::of(values, subquery);
    let (equal, unknown) = (rows.that(""), rows.that("IS NULL"));
    parsed(&format!("CASE WHEN {equal} THEN {} WHEN {unknown} THEN NULL ELSE {negated} END", !negated))
}

fn row_among(expr: &Expr) -> Option<(&[Expr], &Query, bool)> {
    let Expr::InSubquery { expr, subquery, negated } = expr else { return None };
    let values = match &**expr {
        Expr::Tuple(values) => values,
        _ => return None,
    };
    Some((values, subquery, *negated))
}

fn parsed(text: &str) -> Option<Expr> {
    Parser::new(&OgeeDialect).try_with_sql(text).ok()?.parse_expr().ok()
}

/// A query whose rows a row is compared with, as text.
struct Rows {
    query: String,
    equal: String,
}

impl Rows {
    fn of(values: &[Expr], subquery: &Query) -> Self {
        let columns: Vec<String> = (1..=values.len()).map(|column| format!("ogee_column_{column}")).collect();
        let equal: Vec<String> =
            values.iter().zip(&columns).map(|(value, column)| format!("{column} = ({value})")).collect();
        let query = format!("SELECT 1 FROM ({subquery}) AS ogee_row({})", columns.join(", "));
        Self { query, equal: equal.join(" AND ") }
    }

    /// Whether there is a row whose equality holds `that`.
    fn that(&self, that: &str) -> String {
        let Self { query, equal } = self;
        format!("EXISTS ({query} WHERE ({equal}) {that})")
    }
}
