//! Outputs that are used by name where DataFusion knows columns only: in `WHERE`, and in outputs behind them.
//!
//! A column of that name goes first, as in DuckDB. So this is done when a statement was refused since there is none. In queries within outputs behind them, a column of what these read goes first, and
//! the output is only written out where the names in it are not those of such columns. `alias.x` is an output whatever columns there are.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{AccessExpr, Expr, Ident, Select, SelectItem, VisitorMut},
};

use super::{
    for_each_outside_queries,
    lambdas::{Bound, keep_apart},
};
use crate::{names::normal_name, visitors};

/// What a query may select from, and the column of it that is asked for.
pub(crate) type Source = (String, String);

/// Where the `SELECT`s of `statement` that use their output `name` select from.
pub(crate) fn alias_sources(statement: &mut Parsed, name: &str) -> HashSet<Source> {
    let mut selects = Selects { name, columns: &HashSet::new(), write: false, used: HashSet::new() };
    let visited = super::visit(statement, &mut selects);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    selects.used
}

/// Puts what output `name` is where its name stands in `statement`, but for `SELECT`s from the sources in `columns`, which have such a column; false if that is nowhere.
pub(crate) fn write_out_alias(statement: &mut Parsed, name: &str, columns: &HashSet<Source>) -> bool {
    let mut selects = Selects { name, columns, write: true, used: HashSet::new() };
    let visited = super::visit(statement, &mut selects);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    !selects.used.is_empty()
}

/// Puts outputs where `alias` names them.
pub(super) fn qualified(select: &mut Select) {
    let is_alias = |name: &Ident| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("alias");
    let mut any = false;
    let mut look = |expr: &mut Expr| any |= matches!(expr, Expr::CompoundIdentifier(parts) if is_alias(&parts[0]));
    for_each_outside_queries(&mut select.projection, &mut look);
    for_each_outside_queries(&mut select.having, &mut look);
    for_each_outside_queries(&mut select.selection, &mut look);
    for_each_outside_queries(&mut select.qualify, &mut look);
    for_each_outside_queries(&mut select.group_by, &mut look);
    let has_table = select.from.iter().flat_map(super::factors).filter_map(super::name_of).any(|name| is_alias(&name));
    if !any || has_table {
        return;
    }
    let mut outputs: HashMap<String, Expr> = HashMap::new();
    fn write(outputs: &HashMap<String, Expr>, expr: &mut Expr, is_alias: impl Fn(&Ident) -> bool) {
        let Expr::CompoundIdentifier(parts) = &*expr else { return };
        let [alias, name, fields @ ..] = &parts[..] else { return };
        let Some(output) = outputs.get(&normal_name(name)).filter(|_| is_alias(alias)) else { return };
        let root = Box::new(Expr::Nested(Box::new(output.clone())));
        let access_chain: Vec<AccessExpr> =
            fields.iter().map(|field| AccessExpr::Dot(Expr::Identifier(field.clone()))).collect();
        *expr = if access_chain.is_empty() { *root } else { Expr::CompoundFieldAccess { root, access_chain } };
    }
    for item in &mut select.projection {
        for_each_outside_queries(item, |expr| write(&outputs, expr, is_alias));
        if let SelectItem::ExprWithAlias { expr, alias } = item {
            outputs.insert(normal_name(alias), expr.clone());
        }
    }
    for_each_outside_queries(&mut select.having, |expr| write(&outputs, expr, is_alias));
    for_each_outside_queries(&mut select.selection, |expr| write(&outputs, expr, is_alias));
    for_each_outside_queries(&mut select.qualify, |expr| write(&outputs, expr, is_alias));
    for_each_outside_queries(&mut select.group_by, |expr| write(&outputs, expr, is_alias));
}

struct Selects<'a> {
    name: &'a str,
    columns: &'a HashSet<Source>,
    write: bool,
    used: HashSet<Source>,
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
        let from = (from_of(select), self.name.to_owned());
        if of_itself || self.columns.contains(&from) {
            return ControlFlow::Continue(());
        }
        let mut names = HashSet::new();
        for_each_outside_queries(&mut expr, &mut |used: &mut Expr| {
            if let Expr::Identifier(name) = used {
                names.insert(normal_name(name));
            }
        });
        // With the name of the only table, what is in it is no column of another.
        let table = match &select.from[..] {
            [from] if from.joins.is_empty() => super::name_of(&from.relation),
            _ => None,
        };
        let qualified = table.map(|table| {
            let mut qualified = expr.clone();
            for_each_outside_queries(&mut qualified, |used| {
                if let Expr::Identifier(name) = &*used {
                    *used = Expr::CompoundIdentifier(vec![table.clone(), name.clone()]);
                }
            });
            (normal_name(&table), Expr::Nested(Box::new(qualified)))
        });
        let expr = Expr::Nested(Box::new(expr));
        if self.write {
            select.projection[at + 1..].iter_mut().for_each(|item| keep_apart(item, self.name, &names));
            select.selection.iter_mut().for_each(|selection| keep_apart(selection, self.name, &names));
        }
        let mut within = Within {
            qualified: qualified.as_ref(),
            tables: Vec::new(),
            name: self.name,
            names: &names,
            expr: &expr,
            columns: self.columns,
            write: self.write,
            sources: Vec::new(),
            named: 0,
            used: &mut self.used,
            bound: Bound::default(),
        };
        for item in &mut select.projection[at + 1..] {
            let visited = visitors::visit_mut(item, &mut within);
            debug_assert!(visited.is_continue(), "the visitor never stops");
        }
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

fn from_of(select: &Select) -> String {
    select.from.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Puts an output where its name stands in queries within others.
struct Within<'a> {
    name: &'a str,
    /// Names without a table's in the output.
    names: &'a HashSet<String>,
    expr: &'a Expr,
    /// The only table that it reads, and the output with the name of that.
    qualified: Option<&'a (String, Expr)>,
    /// The tables of the queries around.
    tables: Vec<HashSet<String>>,
    columns: &'a HashSet<Source>,
    write: bool,
    /// What the queries around select from.
    sources: Vec<String>,
    /// How many of them have an output of this name, which goes first.
    named: usize,
    used: &'a mut HashSet<Source>,
    bound: Bound,
}

impl Within<'_> {
    fn has_output(&self, select: &Select) -> bool {
        let is_one = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if normal_name(alias) == self.name);
        select.projection.iter().any(is_one)
    }
}

impl VisitorMut for Within<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.sources.push(from_of(select));
        self.named += usize::from(self.has_output(select));
        let tables = select.from.iter().flat_map(super::factors).filter_map(super::name_of);
        self.tables.push(tables.map(|table| normal_name(&table)).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.sources.pop();
        self.named -= usize::from(self.has_output(select));
        self.tables.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.bound.enter(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.bound.leave(expr);
        let is_it = |name: &Ident| normal_name(name) == self.name && !self.bound.has(name);
        if self.sources.is_empty() || self.named > 0 || !matches!(expr, Expr::Identifier(name) if is_it(name)) {
            return ControlFlow::Continue(());
        }
        let names = std::iter::once(self.name).chain(self.names.iter().map(String::as_str));
        let sources = self.sources.iter().filter(|from| !from.is_empty());
        let asked: Vec<Source> =
            names.flat_map(|name| sources.clone().map(move |from| (from.clone(), name.to_owned()))).collect();
        let is_hidden = asked.iter().any(|source| self.columns.contains(source));
        let has_name = |(table, _): &&(String, Expr)| !self.tables.iter().any(|tables| tables.contains(table));
        let is_own = |(_, name): &&Source| *name == self.name;
        let written = match self.qualified.filter(has_name) {
            Some((_, qualified)) if is_hidden => {
                let is_column = asked.iter().filter(is_own).any(|source| self.columns.contains(source));
                (!is_column).then_some(qualified)
            }
            _ => (!is_hidden).then_some(self.expr),
        };
        let Some(written) = written.cloned() else { return ControlFlow::Continue(()) };
        self.used.extend(asked);
        // Where it reads nothing, there is nothing to ask.
        self.used.insert((String::new(), self.name.to_owned()));
        if self.write {
            *expr = written;
        }
        ControlFlow::Continue(())
    }
}
