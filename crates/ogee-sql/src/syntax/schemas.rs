//! Tables of one name in several schemas: `FROM t, s1.t`.
//!
//! DataFusion finds the columns of a table by what is written of its name, and takes what is not written for anything: with `t` and `s1.t` in one query, `s1.t.i` may be a
//! column of either, and the first is taken. So where two tables of a statement go by one last name, those with more than one part in theirs get aliases, `ogee_s1_t`,
//! and so do the columns that are theirs. (An alias with a dot would be taken for a schema and a table again.) Before a star all of a name is written.
//!
//! Not here: which schema a bare name is of.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        Expr, Ident, JoinConstraint, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
        TableAlias, TableFactor, TableWithJoins, VisitorMut,
    },
};
use ogee_functions::{Error, Result};

use super::using;
use crate::names::normal_name;

/// Schemas that tables without a written one may be of.
pub(super) const DEFAULTS: &[&str] = &["public", "main"];

/// Gives aliases to the tables of `statement` that another one could be taken for.
///
/// # Errors
/// [`Error::Plan`] where a column says too little of its table.
pub(crate) fn tell_apart(statement: &mut Parsed) -> Result<()> {
    let mut names = Names::default();
    let collected = super::visit(statement, &mut names);
    debug_assert!(collected.is_continue(), "the visitor never stops");
    let clashing: HashSet<String> =
        names.shown.into_iter().filter(|(_, shown)| shown.len() > 1).map(|(last, _)| last).collect();
    if !names.qualified {
        return Ok(());
    }
    if clashing.is_empty() {
        let written = super::visit(statement, &mut Stars);
        debug_assert!(written.is_continue(), "the visitor never stops");
        return Ok(());
    }
    match super::visit(
        statement,
        &mut Aliases { clashing, given: HashMap::new(), scopes: Vec::new(), pushed: Vec::new() },
    ) {
        ControlFlow::Break(message) => Err(Error::Plan(message)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The parts of a name, if all of them are identifiers.
fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(normal_name)).collect()
}

/// What the columns of a table are called by: its alias, or all of its name that is written.
pub(super) fn shown(factor: &TableFactor) -> Option<Vec<String>> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(vec![normal_name(&alias.name)]),
        TableFactor::Table { name, alias: None, args: None, .. } => parts(name),
        _ => None,
    }
}

/// What each table of `from` is called by.
fn all_shown(from: &[TableWithJoins], all: &mut Vec<Vec<String>>) {
    for table in from {
        for factor in super::factors(table) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    all_shown(std::slice::from_ref(table_with_joins), all);
                }
                factor => all.extend(shown(factor)),
            }
        }
    }
}

/// Whether joins of `from` merge columns: their tables get aliases by their last names (`using`).
fn merge_columns(from: &mut [TableWithJoins]) -> bool {
    let merges = |on: &mut JoinConstraint| matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural);
    from.iter_mut().any(|table| {
        table.joins.iter_mut().any(|join| using::constraint(join).is_some_and(merges))
            || std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation)).any(
                |factor| match factor {
                    TableFactor::NestedJoin { table_with_joins, .. } => {
                        merge_columns(std::slice::from_mut(&mut **table_with_joins))
                    }
                    _ => false,
                },
            )
    })
}

/// Writes before a star what the planner finds of a table's name: all of it (`SELECT t.* FROM s1.t`), or its alias.
struct Stars;

impl VisitorMut for Stars {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut tables = Vec::new();
        all_shown(&select.from, &mut tables);
        let have_aliases = merge_columns(&mut select.from);
        for item in &mut select.projection {
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
                continue;
            };
            let Some(written) = parts(name) else { continue };
            let mut found = tables.iter().filter(|table| table.ends_with(&written));
            let (Some(table), None) = (found.next(), found.next()) else { continue };
            let wanted = if have_aliases { &table[table.len() - 1..] } else { table };
            if wanted.len() != written.len() {
                *name = ObjectName::from(wanted.iter().map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>());
            }
        }
        ControlFlow::Continue(())
    }
}

/// The names of all tables.
#[derive(Default)]
struct Names {
    /// By their last part.
    shown: HashMap<String, HashSet<Vec<String>>>,
    /// One has more parts.
    qualified: bool,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(shown) = shown(factor)
            && let Some(last) = shown.last().cloned()
        {
            self.qualified |= shown.len() > 1;
            self.shown.entry(last).or_default().insert(shown);
        }
        ControlFlow::Continue(())
    }
}

/// A table of a `FROM`.
struct Table {
    shown: Vec<String>,
    /// The alias that it got.
    alias: Option<String>,
}

struct Aliases {
    /// Last names that more than one table has.
    clashing: HashSet<String>,
    /// Aliases by what they stand for.
    given: HashMap<Vec<String>, String>,
    /// The tables of each `FROM` that a column may be of, the innermost last.
    scopes: Vec<Vec<Table>>,
    /// For each query and `SELECT`, whether it has a scope of its own.
    pushed: Vec<bool>,
}

impl Aliases {
    /// The alias of a table that is written like this.
    fn alias(&mut self, shown: &[String]) -> String {
        if let Some(alias) = self.given.get(shown) {
            return alias.clone();
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let base: String = format!("ogee_{}", shown.join("_")).chars().map(plain).collect();
        let number = self.given.values().filter(|given| given.starts_with(&base)).count();
        let alias = if number == 0 { base } else { format!("{base}_{number}") };
        self.given.insert(shown.to_vec(), alias.clone());
        alias
    }

    fn in_from(&mut self, from: &mut [TableWithJoins], tables: &mut Vec<Table>) {
        for table in from {
            let joined = table.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut table.relation).chain(joined) {
                if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
                    self.in_from(std::slice::from_mut(&mut **table_with_joins), tables);
                    continue;
                }
                let Some(shown) = shown(factor) else { continue };
                let clashes = shown.len() > 1 && shown.last().is_some_and(|last| self.clashing.contains(last));
                let alias = clashes.then(|| self.alias(&shown));
                if let (TableFactor::Table { alias: written, .. }, Some(alias)) = (factor, &alias) {
                    let name = Ident::with_quote('"', alias.clone());
                    *written = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                }
                tables.push(Table { shown, alias });
            }
        }
    }

    fn push(&mut self, select: &mut Select) {
        let mut tables = Vec::new();
        self.in_from(&mut select.from, &mut tables);
        self.scopes.push(tables);
    }

    /// What to write for the table that a column's name `written` begins with, and how many of its parts that is.
    fn table(&self, written: &[String], parts_max: usize) -> ControlFlow<String, Option<(usize, String)>> {
        for scope in self.scopes.iter().rev() {
            for count in (1..=parts_max.min(3)).rev() {
                let prefix = &written[..count];
                let found: Vec<&Table> = scope.iter().filter(|table| table.shown.ends_with(prefix)).collect();
                match found.as_slice() {
                    [] => {}
                    [table] => return ControlFlow::Continue(table.alias.clone().map(|alias| (count, alias))),
                    several => {
                        let names: Vec<String> = several.iter().map(|table| table.shown.join(".")).collect();
                        return ControlFlow::Break(format!(
                            "'{}' may be any of {}; give them aliases with AS",
                            prefix.join("."),
                            names.join(", ")
                        ));
                    }
                }
                // `public.t` for a table that is written `t`.
                if let [schema, last] = prefix
                    && DEFAULTS.contains(&schema.as_str())
                    && scope.iter().any(|table| table.shown.len() == 1 && table.shown[0] == *last)
                {
                    return ControlFlow::Continue(Some((count, last.clone())));
                }
            }
        }
        ControlFlow::Continue(None)
    }
}

impl VisitorMut for Aliases {
    type Break = String;

    // Its order and limit see the tables of a query that is one `SELECT`.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        let is_select = if let SetExpr::Select(select) = &mut *query.body {
            self.push(select);
            true
        } else {
            false
        };
        self.pushed.push(is_select);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<String> {
        if self.pushed.pop() == Some(true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<String> {
        // A part of a set operation has tables of its own.
        let own = self.pushed.last() != Some(&true);
        if own {
            self.push(select);
        }
        self.pushed.push(own);
        for item in &mut select.projection {
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
                continue;
            };
            if let Some(written) = parts(name)
                && let Some((_, alias)) = self.table(&written, written.len())?
            {
                *name = ObjectName::from(vec![Ident::with_quote('"', alias)]);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<String> {
        if self.pushed.pop() == Some(true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if let Expr::CompoundIdentifier(names) = expr {
            let written: Vec<String> = names.iter().map(normal_name).collect();
            if let Some((count, alias)) = self.table(&written, written.len() - 1)? {
                names.splice(..count, [Ident::with_quote('"', alias)]);
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn tables_of_one_name_get_aliases() {
        for (sql, named) in [
            ("SELECT * FROM t, s.u", "SELECT * FROM t, s.u"),
            ("SELECT t.i, s.t.i FROM s.t", "SELECT t.i, s.t.i FROM s.t"),
            ("SELECT t.*, u.* FROM s.t, u", "SELECT \"s\".\"t\".*, u.* FROM s.t, u"),
            (
                "SELECT t.* FROM s.t JOIN (s.u CROSS JOIN v) ON true",
                "SELECT \"s\".\"t\".* FROM s.t JOIN (s.u CROSS JOIN v) ON true",
            ),
            (
                "SELECT s1.t.i, s2.t.* FROM s1.t, s2.t WHERE s1.t.i = s2.t.i ORDER BY s2.t.i",
                "SELECT \"ogee_s1_t\".i, \"ogee_s2_t\".* FROM s1.t AS \"ogee_s1_t\", s2.t AS \"ogee_s2_t\" \
                 WHERE \"ogee_s1_t\".i = \"ogee_s2_t\".i ORDER BY \"ogee_s2_t\".i",
            ),
            ("SELECT public.t.i, s.t.i FROM t, s.t", "SELECT \"t\".i, \"ogee_s_t\".i FROM t, s.t AS \"ogee_s_t\""),
            (
                "SELECT (SELECT max(t.i) FROM t WHERE t.j = s.t.j) FROM s.t",
                "SELECT (SELECT max(t.i) FROM t WHERE t.j = \"ogee_s_t\".j) FROM s.t AS \"ogee_s_t\"",
            ),
            (
                "SELECT t.i FROM t UNION SELECT t.i FROM s.t",
                "SELECT t.i FROM t UNION SELECT \"ogee_s_t\".i FROM s.t AS \"ogee_s_t\"",
            ),
        ] {
            let statement = parse(sql).unwrap().pop().unwrap();
            assert_eq!(statement.to_string(), named, "{sql}");
        }
        let error = parse("SELECT t.i FROM t, s.t").unwrap_err();
        assert!(error.to_string().contains("'t' may be any of t, s.t"), "{error}");
    }
}
