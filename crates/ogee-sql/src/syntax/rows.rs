//! `(a, b) IN (SELECT x, y ...)`, a row among the rows of a query, as `EXISTS`.
//!
//! Where only rows count for which it is true, as in `WHERE`, one `EXISTS` tells. As a value it is NULL where that cannot be told: no row is equal, but some row might be, if
//! NULLs in it or in the row that is looked for were known. Comparisons with `ANY` and `ALL` of such rows (`(a, b) < ANY (SELECT x, y ...)`) are the same with another condition.
//!
//! Not here: single values among the rows of a query (`subqueries`).

use datafusion::sql::sqlparser::{
    ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, UnaryOperator},
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
    let rows = Rows::of(&values, subquery);
    if negated { parsed(&format!("NOT {}", rows.that("IS NOT FALSE"))) } else { parsed(&rows.that("")) }
}

/// The value of `expr`, if that is a row among rows.
pub(super) fn value_of(expr: &Expr) -> Option<Expr> {
    let (values, subquery, negated) = row_among(expr)?;
    let rows = Rows::of(&values, subquery);
    let (equal, unknown) = (rows.that(""), rows.that("IS NULL"));
    parsed(&format!("CASE WHEN {equal} THEN {} WHEN {unknown} THEN NULL ELSE {negated} END", !negated))
}

fn row_among(expr: &Expr) -> Option<(Vec<Expr>, &Query, bool)> {
    let Expr::InSubquery { expr, subquery, negated } = expr else { return None };
    let values = row(expr)?;
    // Its one column has rows.
    let is_column = values.len() != 1 && super::width(&subquery.body) == Some(1);
    (!is_column).then_some((values, subquery, *negated))
}

/// The value of `left op ANY(right)`, or `ALL` if `all`, if that compares a row with rows.
pub(super) fn quantified(left: &Expr, op: &BinaryOperator, right: &Expr, all: bool) -> Option<Expr> {
    let Expr::Subquery(subquery) = right else { return None };
    let values = row(left)?;
    // Its one column has rows.
    if values.len() != 1 && super::width(&subquery.body) == Some(1) {
        return None;
    }
    let rows = Rows::of(&values, subquery);
    let compared = match op {
        BinaryOperator::Eq => rows.equal.clone(),
        BinaryOperator::NotEq => format!("NOT ({})", rows.equal),
        BinaryOperator::Lt => rows.ordered(&values, ">"),
        BinaryOperator::LtEq => rows.ordered(&values, ">="),
        BinaryOperator::Gt => rows.ordered(&values, "<"),
        BinaryOperator::GtEq => rows.ordered(&values, "<="),
        _ => return None,
    };
    let rows = Rows { equal: compared, ..rows };
    let (decides, unknown) = (rows.that(if all { "IS FALSE" } else { "" }), rows.that("IS NULL"));
    parsed(&format!("CASE WHEN {decides} THEN {} WHEN {unknown} THEN NULL ELSE {all} END", !all))
}

/// The values of a row: `(a, b)`, `ROW(a, b)`.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    let function = match expr {
        Expr::Tuple(values) => return Some(values.clone()),
        Expr::Nested(inner) => return row(inner),
        Expr::Function(function) => function,
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    if !matches!(function.name.0.as_slice(), [name] if name.to_string().eq_ignore_ascii_case("row")) {
        return None;
    }
    let value = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    list.args.iter().map(value).collect()
}

fn parsed(text: &str) -> Option<Expr> {
    Parser::new(&OgeeDialect).try_with_sql(text).ok()?.parse_expr().ok()
}

/// A query whose rows a row is compared with, as text.
struct Rows {
    query: String,
    columns: Vec<String>,
    equal: String,
}

impl Rows {
    fn of(values: &[Expr], subquery: &Query) -> Self {
        let columns: Vec<String> = (1..=values.len()).map(|column| format!("ogee_column_{column}")).collect();
        let equal: Vec<String> =
            values.iter().zip(&columns).map(|(value, column)| format!("{column} = ({value})")).collect();
        let query = format!("SELECT 1 FROM ({subquery}) AS ogee_row({})", columns.join(", "));
        Self { query, columns, equal: equal.join(" AND ") }
    }

    /// Whether a row is before or behind `values`, by `sign`, in the order of rows, in which NULL is the greatest value.
    fn ordered(&self, values: &[Expr], sign: &str) -> String {
        let values: Vec<String> = values.iter().map(|value| format!("({value})")).collect();
        format!("ROW({}) {sign} ROW({})", self.columns.join(", "), values.join(", "))
    }

    /// Whether there is a row whose equality holds `that`.
    fn that(&self, that: &str) -> String {
        let Self { query, equal, .. } = self;
        format!("EXISTS ({query} WHERE ({equal}) {that})")
    }
}
