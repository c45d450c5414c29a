//! Columns of `USING` that subqueries of the `SELECT` with the join use.
//!
//! A name there is that of a column of the subquery's own tables, where they have one: what these have is asked first (`stars`).
//!
//! Not here: what the columns are (`using`).

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, TableWithJoins, VisitMut, VisitorMut};

use super::using::using;
use crate::names::normal_name;

/// Instead of the names of columns that could not be told.
pub(crate) const UNKNOWN: &str = "*";

/// The columns of what subqueries select from, by its text.
pub(crate) type Sources = HashMap<String, Vec<String>>;

/// What subqueries select from that use a name of a column of `USING` of `select`.
pub(crate) fn sources(select: &mut Select) -> Vec<String> {
    let joins = select.from.iter_mut().flat_map(|table| &mut table.joins);
    let columns = joins.filter_map(|join| using(join).map(<[_]>::to_vec)).flatten();
    let names: HashSet<String> =
        columns.filter_map(|name| name.0.last().and_then(|part| part.as_ident()).map(normal_name)).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut use_of = |name: &Ident, scopes: &[Scope]| {
        if names.contains(&normal_name(name)) {
            for text in scopes.iter().filter_map(|scope| scope.source.as_ref()) {
                if !found.contains(text) {
                    found.push(text.clone());
                }
            }
        }
        None
    };
    let from = std::mem::take(&mut select.from);
    let visited = select.visit(&mut Within { use_of: &mut use_of, scopes: Vec::new(), outer: true });
    debug_assert!(visited.is_continue(), "the visitor never stops");
    select.from = from;
    found
}

/// Puts what `column` gives for a name in its place in subqueries of `clause` whose tables have no such column.
pub(super) fn write_out(clause: &mut impl VisitMut, sources: &Sources, column: impl Fn(&Ident) -> Option<Expr>) {
    if sources.is_empty() {
        return;
    }
    let mut use_of = |name: &Ident, scopes: &[Scope]| {
        let own = normal_name(name);
        let is_own = |scope: &Scope| {
            let Some(text) = &scope.source else { return false };
            let columns = sources.get(text);
            columns.is_none_or(|columns| columns.contains(&own) || columns.iter().any(|name| name == UNKNOWN))
                || scope.aliases.contains(&own)
        };
        if scopes.iter().any(is_own) { None } else { column(name) }
    };
    let visited = clause.visit(&mut Within { use_of: &mut use_of, scopes: Vec::new(), outer: false });
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// A query around a place, or a `SELECT` with what it selects from.
struct Scope {
    source: Option<String>,
    aliases: HashSet<String>,
}

/// Shows names in the `SELECT`s of subqueries.
struct Within<'a> {
    use_of: &'a mut dyn FnMut(&Ident, &[Scope]) -> Option<Expr>,
    scopes: Vec<Scope>,
    /// The next `SELECT` is the one whose subqueries they are.
    outer: bool,
}

impl VisitorMut for Within<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.scopes.push(Scope { source: None, aliases: HashSet::new() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !std::mem::take(&mut self.outer) {
            let aliases = select.projection.iter().filter_map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(normal_name(alias)),
                _ => None,
            });
            self.scopes.push(Scope { source: Some(text(&select.from)), aliases: aliases.collect() });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // The order of a query may be by its outputs.
        let within = self.scopes.last().is_some_and(|scope| scope.source.is_some());
        if within
            && let Expr::Identifier(name) = &*expr
            && let Some(other) = (self.use_of)(name, &self.scopes)
        {
            *expr = other;
        }
        ControlFlow::Continue(())
    }
}

fn text(from: &[TableWithJoins]) -> String {
    from.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
