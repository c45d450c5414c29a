//! Collations where they decide something: both sides of a comparison, and the keys of an order, are compared by what they make of a text.
//!
//! `NOCASE` compares `lower(..)`, `NOACCENT` `strip_accents(..)`, `NFC` `nfc_normalize(..)`; `NOCASE.NOACCENT` is both. Anywhere else a collation is refused by name (`refusals`): an output, a key of a
//! group or a column that had one would have to be compared so by whatever uses it.
//!
//! Not here: collations that compare bytes, as everything does without one.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        BinaryOperator, Expr, Function, FunctionArgumentClause, FunctionArguments, NamedWindowExpr, ObjectName,
        OrderByExpr, OrderByKind, Query, Select, VisitorMut, WindowType,
    },
};

use crate::names::call;

/// Puts what collations decide in `statement` in other words.
pub(crate) fn write_out(statement: &mut Parsed) {
    let visited = super::visit(statement, &mut Collations);
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// The functions that a collation compares by, if it is one of those.
fn functions(collation: &ObjectName) -> Option<Vec<&'static str>> {
    let mut functions = Vec::new();
    for part in &collation.0 {
        // In quotes, several are one name.
        for name in part.as_ident()?.value.split('.') {
            functions.push(match name.to_ascii_lowercase().as_str() {
                "nocase" => "lower",
                "noaccent" => "strip_accents",
                "nfc" => "nfc_normalize",
                _ => return None,
            });
        }
    }
    Some(functions)
}

fn null() -> Expr {
    Expr::value(datafusion::sql::sqlparser::ast::Value::Null)
}

/// `expr` by these functions.
fn compared(expr: Expr, functions: &[&str]) -> Expr {
    functions.iter().fold(expr, |expr, function| call(function, vec![expr]))
}

/// The functions of the collation that `expr` has, which is taken off it.
fn taken(expr: &mut Expr) -> Option<Vec<&'static str>> {
    match expr {
        Expr::Nested(inner) => taken(inner),
        Expr::Collate { expr: inner, collation } => {
            let functions = functions(collation)?;
            *expr = std::mem::replace(&mut **inner, null());
            Some(functions)
        }
        _ => None,
    }
}

/// Compares all of `sides` by the collation that one of them has.
fn together(mut sides: Vec<&mut Expr>) {
    let mut found = None;
    for side in &mut sides {
        found = taken(side).or(found);
    }
    let Some(functions) = found else { return };
    for side in sides {
        *side = compared(std::mem::replace(side, null()), &functions);
    }
}

fn in_order(order: &mut [OrderByExpr]) {
    order.iter_mut().for_each(|by| together(vec![&mut by.expr]));
}

struct Collations;

impl Collations {
    fn in_function(function: &mut Function) {
        in_order(&mut function.within_group);
        if let FunctionArguments::List(list) = &mut function.args {
            for clause in &mut list.clauses {
                if let FunctionArgumentClause::OrderBy(order) = clause {
                    in_order(order);
                }
            }
        }
        if let Some(WindowType::WindowSpec(window)) = &mut function.over {
            in_order(&mut window.order_by);
        }
    }
}

impl VisitorMut for Collations {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|order| &mut order.kind) {
            in_order(order);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for window in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = &mut window.1 {
                in_order(&mut window.order_by);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        use BinaryOperator as B;
        match expr {
            Expr::BinaryOp { left, op: B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq, right } => {
                together(vec![left, right]);
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => together(vec![left, right]),
            Expr::Between { expr, low, high, .. } => together(vec![expr, low, high]),
            Expr::InList { expr, list, .. } => together(std::iter::once(&mut **expr).chain(list).collect()),
            Expr::Function(function) => Self::in_function(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn what_is_compared_is_written_out() {
        for (sql, usual) in [
            ("SELECT 'a' COLLATE NOCASE = b FROM t", "SELECT lower('a') = lower(b) FROM t"),
            ("SELECT a FROM t ORDER BY a COLLATE NOCASE DESC", "SELECT a FROM t ORDER BY lower(a) DESC"),
            (
                "SELECT a FROM t WHERE a COLLATE NOCASE.NOACCENT BETWEEN 'a' AND 'b'",
                "SELECT a FROM t WHERE strip_accents(lower(a)) BETWEEN strip_accents(lower('a')) AND strip_accents(lower('b'))",
            ),
        ] {
            assert_eq!(parse(sql).unwrap().pop().unwrap().to_string(), usual, "{sql}");
        }
    }
}
