//! Names that stand for no column, and mean something all the same: `rowid`, `#2`, the name of a table, which is its row as a struct, and `value` of a series.
//!
//! A column of that name goes first, as in DuckDB. So this is done when a statement was refused since there is none: tables whose `rowid` is asked for are numbered as they lie there, `#2` becomes the
//! second column of what is selected from, `t` a struct of the columns of `t`; the columns are those of stars (`columns_of`).
//!
//! Not here: outputs that are used by name (`syntax::aliases`).

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        ExcludeSelectItem, Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
        SetExpr, Statement, TableAlias, TableFactor, Visitor, VisitorMut,
    },
};

use crate::{
    names::{call, normal_name},
    syntax::{
        self,
        columns::{COLUMNS, UNPACK},
    },
    visitors,
};

/// The number of a row of a table, from 0.
pub const ROWID: &str = "rowid";

/// What the column of a series was called once, which statements may still say.
const VALUE: &str = "value";

/// The column of `factor`, if that is a series.
fn column_of_series(factor: &TableFactor) -> Option<Expr> {
    let TableFactor::Table { args: Some(_), alias: Some(alias), .. } = factor else { return None };
    match &alias.columns[..] {
        [column] => Some(Expr::CompoundIdentifier(vec![alias.name.clone(), column.name.clone()])),
        _ => None,
    }
}

/// Writes out what `name`, which is no column of `relation`, stands for in `statement`; false if it means nothing.
pub(crate) fn write_out(statement: &mut Parsed, relation: Option<&str>, name: &str) -> bool {
    if name.eq_ignore_ascii_case(ROWID) {
        let mut numbered = Numbered { written: false };
        // It never stops.
        let _ = syntax::visit(statement, &mut numbered);
        return numbered.written;
    }
    if relation.is_some() {
        return false;
    }
    let mut names = Names { name, number: number(name), written: false };
    let _ = syntax::visit(statement, &mut names);
    names.written
}

/// The position that `#2` is.
fn number(name: &str) -> Option<&str> {
    name.strip_prefix('#').filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `COLUMNS(star)`, and what else it is called with.
fn columns(star: &str, nth: Option<&str>) -> Option<Expr> {
    let nth = nth.map_or_else(String::new, |nth| format!(", {nth}"));
    let query = syntax::query_of(&format!("SELECT {COLUMNS}(EXISTS (SELECT {star}){nth})"))?;
    let SetExpr::Select(select) = *query.body else { return None };
    match select.projection.into_iter().next()? {
        SelectItem::UnnamedExpr(expr) => Some(expr),
        _ => None,
    }
}

struct Names<'a> {
    name: &'a str,
    number: Option<&'a str>,
    written: bool,
}

impl Names<'_> {
    /// What the name is in `select`.
    fn meant(&self, select: &Select) -> Option<Expr> {
        if let Some(number) = self.number {
            return if select.from.is_empty() { None } else { columns("*", Some(number)) };
        }
        let factors = select.from.iter().flat_map(syntax::factors);
        if self.name == VALUE {
            return factors.clone().find_map(column_of_series);
        }
        let mut named = factors.filter_map(|factor| Some((syntax::name_of(factor)?, factor)));
        let (table, factor) = named.find(|(name, _)| normal_name(name).eq_ignore_ascii_case(self.name))?;
        // The number of a row is none of its columns.
        let without = if is_numbered(factor) { format!(" EXCLUDE ({ROWID})") } else { String::new() };
        let star = columns(&format!("{table}.*{without}"), None)?;
        Some(call("struct_pack", vec![call(UNPACK, vec![star])]))
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let Some(meant) = self.meant(select) else { return ControlFlow::Continue(()) };
        let is_it =
            |expr: &Expr| matches!(expr, Expr::Identifier(name) if normal_name(name).eq_ignore_ascii_case(self.name));
        for item in &mut select.projection {
            // An output keeps its name.
            if let SelectItem::UnnamedExpr(expr) = item
                && is_it(expr)
                && let Expr::Identifier(name) = &*expr
            {
                let alias = Ident::with_quote('"', name.value.clone());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        let mut written = false;
        let mut write = |expr: &mut Expr| {
            if is_it(expr) {
                *expr = meant.clone();
                written = true;
            }
        };
        syntax::for_each_outside_queries(&mut select.projection, &mut write);
        syntax::for_each_outside_queries(&mut select.selection, &mut write);
        syntax::for_each_outside_queries(&mut select.group_by, &mut write);
        syntax::for_each_outside_queries(&mut select.having, &mut write);
        syntax::for_each_outside_queries(&mut select.qualify, &mut write);
        self.written |= written;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = &*query.body else { return ControlFlow::Continue(()) };
        let Some(meant) = self.meant(select) else { return ControlFlow::Continue(()) };
        let (name, mut written) = (self.name, false);
        syntax::for_each_outside_queries(&mut query.order_by, |expr| {
            if matches!(expr, Expr::Identifier(of) if normal_name(of).eq_ignore_ascii_case(name)) {
                *expr = meant.clone();
                written = true;
            }
        });
        self.written |= written;
        ControlFlow::Continue(())
    }
}

/// Numbers the rows of tables of `SELECT`s that ask for it.
struct Numbered {
    written: bool,
}

impl VisitorMut for Numbered {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let in_order = asks(&query.order_by);
        if let SetExpr::Select(select) = &mut *query.body
            && (in_order || asks(&**select))
        {
            self.written |= number_tables(select);
        }
        ControlFlow::Continue(())
    }
}

/// Whether `rowid` is asked for in `part`, also in queries within, which may mean a table around.
fn asks(part: &impl datafusion::sql::sqlparser::ast::Visit) -> bool {
    struct Asks;

    impl Visitor for Asks {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let name = match expr {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(names) => names.last(),
                _ => None,
            };
            match name.is_some_and(|name| name.value.eq_ignore_ascii_case(ROWID)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }

    visitors::visit(part, &mut Asks).is_break()
}

/// Puts each table of `select` into a query that numbers its rows; its stars leave the numbers out. Whether there is one that was not numbered before.
fn number_tables(select: &mut Select) -> bool {
    let mut sides = Vec::new();
    for factor in select.from.iter_mut().flat_map(syntax::factors_mut) {
        sides.extend(number_rows(factor));
    }
    if sides.is_empty() {
        return false;
    }
    for item in &mut select.projection {
        let (options, of) = match item {
            SelectItem::Wildcard(options) => (options, None),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), options) => {
                (options, of.0.last().and_then(|part| part.as_ident()))
            }
            _ => continue,
        };
        if of.is_some_and(|of| !sides.iter().any(|side| side.value.eq_ignore_ascii_case(&of.value))) {
            continue;
        }
        let mut names: Vec<ObjectName> = match options.opt_exclude.take() {
            Some(ExcludeSelectItem::Single(name)) => vec![name],
            Some(ExcludeSelectItem::Multiple(names)) => names,
            None => Vec::new(),
        };
        names.push(ObjectName::from(vec![Ident::new(ROWID)]));
        options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
    }
    true
}

/// Whether `factor` is a table whose rows are numbered.
fn is_numbered(factor: &TableFactor) -> bool {
    let TableFactor::Derived { subquery, .. } = factor else { return false };
    let SetExpr::Select(select) = &*subquery.body else { return false };
    matches!(select.projection.last(), Some(SelectItem::ExprWithAlias { alias, .. }) if alias.value == ROWID)
}

/// Puts `factor`, if it is a table, into a query that numbers its rows, by the name that it has, which is given.
fn number_rows(factor: &mut TableFactor) -> Option<Ident> {
    let TableFactor::Table { name, args: None, alias, .. } = &mut *factor else { return None };
    let alias = match alias.take() {
        Some(alias) => alias,
        None => {
            let name = name.0.last().and_then(|part| part.as_ident()).cloned()?;
            TableAlias { explicit: true, name, columns: Vec::new(), at: None }
        }
    };
    let mut made = syntax::query_of(&format!("SELECT *, row_number() OVER () - 1 AS {ROWID} FROM r"))?;
    let known = alias.name.clone();
    if let SetExpr::Select(select) = &mut *made.body
        && let [from] = &mut select.from[..]
    {
        std::mem::swap(&mut from.relation, factor);
    }
    *factor = TableFactor::Derived { lateral: false, subquery: Box::new(made), alias: Some(alias), sample: None };
    Some(known)
}

/// Has stars beside other stars stand for their columns, of which those of one name get names of their own; false if there are none.
pub(crate) fn tell_stars_apart(statement: &mut Parsed) -> bool {
    struct Stars {
        written: bool,
    }

    impl VisitorMut for Stars {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            let is_star =
                |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            if select.from.is_empty() || select.projection.iter().filter(|item| is_star(item)).count() < 2 {
                return ControlFlow::Continue(());
            }
            for item in select.projection.iter_mut().filter(|item| is_star(item)) {
                if let Some(star) = columns(&item.to_string(), None) {
                    *item = SelectItem::UnnamedExpr(star);
                    self.written = true;
                }
            }
            ControlFlow::Continue(())
        }
    }

    let mut stars = Stars { written: false };
    // It never stops.
    let _ = syntax::visit(statement, &mut stars);
    stars.written
}

/// Has `rowid` in what changes a table, but for queries within, mean `row`; whether it is there.
pub fn in_change(statement: &mut Statement, row: &str) -> bool {
    let mut written = false;
    syntax::for_each_outside_queries(statement, |expr| {
        let name = match expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(names) => names.last_mut(),
            _ => None,
        };
        if let Some(name) = name.filter(|name| name.value.eq_ignore_ascii_case(ROWID)) {
            *name = Ident::new(row);
            written = true;
        }
    });
    written
}
