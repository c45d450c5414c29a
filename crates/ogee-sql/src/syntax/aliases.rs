//! Outputs that are used by name where DataFusion knows columns only: in `WHERE`, and in outputs behind them.
//!
//! A column of that name goes first, as in DuckDB. So this is done when a statement was refused since there is none.

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{Expr, Select, SelectItem, VisitorMut},
};

use super::for_each_outside_queries;
use crate::names::normal_name;

/// Where the `SELECT`s of `statement` that use their output `name` select from.
pub(crate) fn alias_sources(statement: &mut Parsed, name: &str) -> HashSet<String> {
    let mut selects = Selects { name, columns: &HashSet::new(), write: false, used: HashSet::new() };
    let visited = super::visit(statement, &mut selects);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    selects.used
}

/// Puts what output `name` is where its name stands in `statement`, but for `SELECT`s from the sources in `columns`, which have such a column; false if that is nowhere.
pub(crate) fn write_out_alias(statement: &mut Parsed, name: &str, columns: &HashSet<String>) -> bool {
    let mut selects = Selects { name, columns, write: true, used: HashSet::new() };
    let visited = super::visit(statement, &mut selects);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    !selects.used.is_empty()
}

struct Selects<'a> {
    name: &'a str,
    columns: &'a HashSet<String>,
    write: bool,
    used: HashSet<String>,
}

impl VisitorMut for Selects<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let named = select.projection.iter().enumerate().find_map(|(at, item)| match item {
            SelectItem::ExprWithAlias { expr, alias } if normal_name(alias) == self.name => Some((at, expr.clone())),
            _ => None,
        });
        let Some((at, mut expr)) = named else { return ControlFlow::Continue(()) };
        let is_used = |used: &Expr| matches!(used, Expr::Identifier(name) if normal_name(name) == self.name);
        // An output of itself is one of a column of its name.
        let mut of_itself = false;
        for_each_outside_queries(&mut expr, &mut |used: &mut Expr| of_itself |= is_used(used));
        let from = select.from.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if of_itself || self.columns.contains(&from) {
            return ControlFlow::Continue(());
        }
        let expr = Expr::Nested(Box::new(expr));
        let (write, mut any) = (self.write, false);
        let mut write_out = |used: &mut Expr| {
            if is_used(used) {
                any = true;
                if write {
                    *used = expr.clone();
                }
            }
        };
        if let Some(selection) = &mut select.selection {
            for_each_outside_queries(selection, &mut write_out);
        }
        for item in &mut select.projection[at + 1..] {
            for_each_outside_queries(item, &mut write_out);
        }
        if any {
            self.used.insert(from);
        }
        ControlFlow::Continue(())
    }
}
