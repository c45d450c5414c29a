//! Outputs that are used by name where DataFusion knows columns only: in `WHERE`, and in outputs behind them.
//!
//! A column of that name goes first, as in DuckDB. So this is done when a statement was refused since there is none.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::{CopyToSource, Statement as Parsed},
    sqlparser::ast::{Expr, Select, SelectItem, VisitMut, VisitorMut},
};

use super::for_each_outside_queries;
use crate::names::normal_name;

/// Puts what output `name` is where its name stands in `statement`; false if that is nowhere.
pub(crate) fn write_out_alias(statement: &mut Parsed, name: &str) -> bool {
    let mut selects = Selects { name, any: false };
    let visited = match statement {
        Parsed::Statement(statement) => statement.visit(&mut selects),
        Parsed::Explain(explain) => return write_out_alias(&mut explain.statement, name),
        Parsed::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(&mut selects),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => ControlFlow::Continue(()),
    };
    debug_assert!(visited.is_continue(), "the visitor never stops");
    selects.any
}

struct Selects<'a> {
    name: &'a str,
    any: bool,
}

impl VisitorMut for Selects<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let named = select.projection.iter().enumerate().find_map(|(at, item)| match item {
            SelectItem::ExprWithAlias { expr, alias } if normal_name(alias) == self.name => Some((at, expr.clone())),
            _ => None,
        });
        let Some((at, expr)) = named else { return ControlFlow::Continue(()) };
        let expr = Expr::Nested(Box::new(expr));
        let mut write_out = |used: &mut Expr| {
            if matches!(&*used, Expr::Identifier(name) if normal_name(name) == self.name) {
                *used = expr.clone();
                self.any = true;
            }
        };
        if let Some(selection) = &mut select.selection {
            for_each_outside_queries(selection, &mut write_out);
        }
        for item in &mut select.projection[at + 1..] {
            for_each_outside_queries(item, &mut write_out);
        }
        ControlFlow::Continue(())
    }
}
