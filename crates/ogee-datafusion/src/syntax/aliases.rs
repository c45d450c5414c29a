//! Outputs that are used by name where DataFusion knows columns only: in `WHERE`, and in outputs behind them.
//!
//! A column of that name goes first, as in DuckDB. So this is done when a statement was refused since there is none.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::{CopyToSource, Statement as Parsed},
    sqlparser::ast::{Expr, Query, Select, SelectItem, VisitMut, VisitorMut},
};

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
        let mut uses = Uses { name: self.name, expr: Expr::Nested(Box::new(expr)), queries: 0, any: false };
        if let Some(selection) = &mut select.selection {
            selection.visit(&mut uses)?;
        }
        for item in &mut select.projection[at + 1..] {
            item.visit(&mut uses)?;
        }
        self.any |= uses.any;
        ControlFlow::Continue(())
    }
}

struct Uses<'a> {
    name: &'a str,
    expr: Expr,
    /// How many subqueries deep the visitor is: names there are of their own.
    queries: usize,
    any: bool,
}

impl VisitorMut for Uses<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(&*expr, Expr::Identifier(name) if self.queries == 0 && normal_name(name) == self.name) {
            *expr = self.expr.clone();
            self.any = true;
        }
        ControlFlow::Continue(())
    }
}
