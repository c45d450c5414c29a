//! Columns of tables before them that queries in `FROM` of subqueries use, where the outer query has columns of the same name.
//!
//! DuckDB takes the neighbour's. DataFusion looks for such a name among the neighbours' and the outer query's columns at once, and finds none where both have it:
//! the neighbour's name is put before it.
//!
//! Not here: which queries are lateral (`laterals`), what sources have which columns (`plan`).

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{Expr, Ident, Select, TableFactor, VisitorMut},
};

use super::using_within::{Scope, Within};
use crate::{names::normal_name, visitors};

/// Whether sources, by their text, have a column; `None` where that is not known.
pub(crate) type Having = BTreeMap<String, Option<bool>>;

/// The sources that are to be asked whether they have column `name`: those that lateral queries in subqueries of `statement` use it in, and those before these.
pub(crate) fn sources_beside(statement: &mut Parsed, name: &str) -> BTreeSet<String> {
    let mut beside = Beside { name, having: None, depth: 0, asked: BTreeSet::new(), written: false };
    let visited = super::visit(statement, &mut beside);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    beside.asked
}

/// Puts the name of the neighbour that has column `name` before it; false if that is nowhere.
pub(crate) fn write_out_neighbours(statement: &mut Parsed, name: &str, having: &Having) -> bool {
    let mut beside = Beside { name, having: Some(having), depth: 0, asked: BTreeSet::new(), written: false };
    let visited = super::visit(statement, &mut beside);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    beside.written
}

struct Beside<'a> {
    name: &'a str,
    /// `None`: they are to be asked.
    having: Option<&'a Having>,
    /// How many subqueries are open.
    depth: usize,
    asked: BTreeSet<String>,
    written: bool,
}

/// What columns of `factor` may be called by.
fn alias_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Derived { alias: Some(alias), .. } | TableFactor::Table { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, alias: None, args: None, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

impl Beside<'_> {
    /// Asks about, or writes out, the name where `factor` uses it; `before` are the tables before it: what their columns may be called by, and their texts.
    fn look_into(&mut self, factor: &mut TableFactor, before: &[(Option<Ident>, String)]) {
        let TableFactor::Derived { lateral: true, subquery, .. } = factor else { return };
        if before.is_empty() {
            return;
        }
        let Self { name, having, asked, written, .. } = self;
        let mut use_of = |used: &Ident, scopes: &[Scope]| {
            if normal_name(used) != *name {
                return None;
            }
            let own = scopes.iter().filter_map(|scope| scope.source.as_ref());
            let Some(having) = having else {
                asked.extend(own.chain(before.iter().map(|(_, text)| text)).filter(|text| !text.is_empty()).cloned());
                return None;
            };
            let has = |text: &String| if text.is_empty() { Some(false) } else { having.get(text).copied().flatten() };
            let is_elsewhere = scopes.iter().all(|scope| !scope.aliases.contains(*name))
                && own.clone().all(|text| has(text) == Some(false))
                && before.iter().all(|(_, text)| has(text).is_some());
            let mut those = before.iter().filter(|(_, text)| has(text) == Some(true));
            match (is_elsewhere, those.next(), those.next()) {
                (true, Some((Some(neighbour), _)), None) => {
                    *written = true;
                    Some(Expr::CompoundIdentifier(vec![neighbour.clone(), used.clone()]))
                }
                _ => None,
            }
        };
        let visited = visitors::visit_mut(subquery, &mut Within::queries(&mut use_of));
        debug_assert!(visited.is_continue(), "the visitor never stops");
    }
}

impl VisitorMut for Beside<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(super::laterals::is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= usize::from(super::laterals::is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.depth == 0 {
            return ControlFlow::Continue(());
        }
        let mut before = Vec::new();
        for table in &mut select.from {
            for factor in
                std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation))
            {
                self.look_into(factor, &before);
                before.push((alias_of(factor), factor.to_string()));
            }
        }
        ControlFlow::Continue(())
    }
}
