//! Columns of `USING` that subqueries of the `SELECT` with the join use.
//!
//! A name there is that of a column of the subquery's own tables, where they have one: what these have is asked first (`stars`).
//!
//! Not here: what the columns are (`using`).

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::sql::sqlparser::{
    ast::{
        Expr, GroupByExpr, Ident, JoinConstraint, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
        Value, VisitMut, VisitorMut,
    },
    parser::Parser,
};

use super::using::{constraint, using};
use crate::{dialect::OgeeDialect, names::normal_name, visitors};

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
    let visited = visitors::visit_mut(select, &mut Within { use_of: &mut use_of, scopes: Vec::new(), outer: true });
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
            let may_have = |columns: &Vec<String>| columns.iter().any(|name| name == UNKNOWN) && !scope.beside;
            columns.is_none_or(|columns| columns.contains(&own) || may_have(columns))
                || scope.aliases.contains(&own) && !scope.beside
        };
        if scopes.iter().any(is_own) { None } else { column(name) }
    };
    let visited = visitors::visit_mut(clause, &mut Within::queries(&mut use_of));
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// A query around a place, or a `SELECT` with what it selects from.
pub(super) struct Scope {
    /// The place is in a query that this selects from, and not `LATERAL`: of its columns it may see those before it, if any.
    beside: bool,
    /// What it selects from.
    pub(super) source: Option<String>,
    /// Names of outputs.
    pub(super) aliases: HashSet<String>,
}

/// Shows names in the `SELECT`s of subqueries.
pub(super) struct Within<'a> {
    use_of: &'a mut dyn FnMut(&Ident, &[Scope]) -> Option<Expr>,
    scopes: Vec<Scope>,
    /// The next `SELECT` is the one whose subqueries they are.
    outer: bool,
}

impl<'a> Within<'a> {
    /// Shows `use_of` the names in a query, with the queries within which they are; what it gives is put in their place.
    pub(super) fn queries(use_of: &'a mut dyn FnMut(&Ident, &[Scope]) -> Option<Expr>) -> Self {
        Self { use_of, scopes: Vec::new(), outer: false }
    }

    fn set_beside(&mut self, factor: &TableFactor, beside: bool) {
        if let (TableFactor::Derived { lateral: false, .. }, Some(scope)) = (factor, self.scopes.last_mut()) {
            scope.beside = beside;
        }
    }
}

impl VisitorMut for Within<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.scopes.push(Scope { beside: false, source: None, aliases: HashSet::new() });
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
            self.scopes.push(Scope { beside: false, source: Some(text(&select.from)), aliases: aliases.collect() });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.set_beside(factor, true);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.set_beside(factor, false);
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

/// What gives columns of the same names as `from`, and little else: by itself `from` may use columns around it. None if `from` has neither queries nor conditions.
pub(crate) fn names_alone(from: &str) -> Option<String> {
    let mut parser = Parser::new(&OgeeDialect).try_with_sql(from).ok()?;
    let mut from = parser.parse_comma_separated(Parser::parse_table_and_joins).ok()?;
    let mut any = false;
    for table in &mut from {
        any |= only_names_from(table);
    }
    any.then(|| text(&from))
}

fn only_names_from(table: &mut TableWithJoins) -> bool {
    let mut any = false;
    for join in &mut table.joins {
        if let Some(JoinConstraint::On(condition)) = constraint(join) {
            any = true;
            *condition = Expr::value(Value::Boolean(true));
        }
    }
    for relation in std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation)) {
        match relation {
            TableFactor::Derived { subquery, .. } => {
                any = true;
                (subquery.order_by, subquery.limit_clause, subquery.fetch) = (None, None, None);
                only_names(&mut subquery.body);
            }
            TableFactor::NestedJoin { table_with_joins, .. } => any |= only_names_from(table_with_joins),
            _ => {}
        }
    }
    any
}

fn only_names(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            (select.distinct, select.selection, select.having, select.qualify) = (None, None, None, None);
            select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
            let mut stars = false;
            for item in &mut select.projection {
                let alias = match item {
                    SelectItem::ExprWithAlias { alias, .. } | SelectItem::UnnamedExpr(Expr::Identifier(alias)) => {
                        alias.clone()
                    }
                    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) if let Some(last) = parts.last() => {
                        last.clone()
                    }
                    SelectItem::UnnamedExpr(expr) => Ident::with_quote('"', expr.to_string()),
                    _ => {
                        stars = true;
                        continue;
                    }
                };
                *item = SelectItem::ExprWithAlias { expr: Expr::value(Value::Null), alias };
            }
            if stars {
                for table in &mut select.from {
                    only_names_from(table);
                }
            } else {
                select.from.clear();
            }
        }
        SetExpr::Query(query) => {
            (query.order_by, query.limit_clause, query.fetch) = (None, None, None);
            only_names(&mut query.body);
        }
        SetExpr::SetOperation { left, right, .. } => {
            only_names(left);
            only_names(right);
        }
        _ => {}
    }
}

fn text(from: &[TableWithJoins]) -> String {
    from.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
