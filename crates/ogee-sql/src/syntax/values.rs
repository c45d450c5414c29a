//! `VALUES` with subqueries and columns, as a union of `SELECT`s.
//!
//! DataFusion's lists of values take nothing but constants: it neither computes a subquery before them nor has columns of outer queries in them.
//!
//! Not here: lists of constants, which stay as they are.

use std::{fmt::Write, ops::ControlFlow};

use datafusion::sql::sqlparser::{
    ast::{Expr, Query, SetExpr, Values, Visitor},
    parser::Parser,
};

use super::json;
use crate::{dialect::OgeeDialect, visitors};

/// Puts the lists of `query` in other words; not those of its subqueries.
pub(super) fn in_query(query: &mut Query) {
    in_set(&mut query.body);
}

fn in_set(set: &mut SetExpr) {
    match set {
        SetExpr::SetOperation { left, right, .. } => {
            in_set(left);
            in_set(right);
        }
        SetExpr::Values(values) => {
            json::in_values(values);
            if !is_constant(values)
                && let Some(selects) = selects(values)
            {
                *set = selects;
            }
        }
        _ => {}
    }
}

/// Whether nothing in `values` is a column or a subquery.
fn is_constant(values: &Values) -> bool {
    struct Constant;

    impl Visitor for Constant {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) if !name.value.eq_ignore_ascii_case("default") => ControlFlow::Break(()),
                Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }

    visitors::visit(values, &mut Constant).is_continue()
}

fn selects(values: &Values) -> Option<SetExpr> {
    let mut text = String::new();
    for (nth, row) in values.rows.iter().enumerate() {
        text.push_str(if nth == 0 { "SELECT " } else { " UNION ALL SELECT " });
        for (column, value) in row.content.iter().enumerate() {
            let comma = if column == 0 { "" } else { ", " };
            write!(text, "{comma}{value} AS column{}", column + 1).expect("strings take all");
        }
    }
    Some(*Parser::new(&OgeeDialect).try_with_sql(&text).ok()?.parse_query().ok()?.body)
}
