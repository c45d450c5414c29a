//! Names in `ORDER BY` that an output shares with a column of the tables.
//!
//! A name by itself is the output's; within an expression, or behind a table's name, it is the column's, as in PostgreSQL and DuckDB: of `SELECT -a AS a FROM t ORDER BY a + 1` the rows come by
//! `t.a`. DataFusion takes the output there, and refuses `ORDER BY t.a` as ambiguous. Such an output gets a name of its own in a query within, and its name back around it.
//!
//! Not here: the columns of tables, which are known later (`stars`); names of outputs in `WHERE` (`aliases`) and `HAVING` (`having`).

use std::collections::{HashMap, HashSet};

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, SetQuantifier, Statement,
    TableFactor, Value,
};
use ogee_functions::{Error, Result};

use super::for_each_outside_queries;
use crate::{
    columns_of,
    names::{base_name, normal_name},
    statement::parse,
};

/// Puts positions in the place of names and expressions that the order of a set operation has from one of its branches: a name or an expression of any branch is its column, those of the
/// first branches before those of others, as in DuckDB. DataFusion knows the names of the first branch only, and takes an expression for one over the outputs.
pub(super) fn in_set_operation(query: &mut Query) {
    let (SetExpr::SetOperation { .. }, Some(order)) = (&*query.body, query.order_by.as_mut()) else { return };
    let OrderByKind::Expressions(order) = &mut order.kind else { return };
    let (mut names, mut exprs) = (HashMap::new(), HashMap::new());
    branches(&query.body, &mut names, &mut exprs);
    let by_name = is_by_name(&query.body);
    for by in order {
        let by = bare(&mut by.expr);
        if let Expr::CompoundIdentifier(_) = by
            && by_name
        {
            // The tables are those of a branch, and columns of one name one column.
            *by = Expr::Identifier(Ident::with_quote('"', base_name(by)));
            continue;
        }
        let position = match &*by {
            Expr::Value(_) => None,
            Expr::Identifier(name) => match name.value.strip_prefix('#').and_then(|nth| nth.parse().ok()) {
                Some(nth) if name.quote_style.is_none() => Some(nth),
                _ => names.get(&normal_name(name)).copied(),
            },
            // The tables are those of a branch.
            Expr::CompoundIdentifier(_) => exprs.get(&by.to_string()).or_else(|| names.get(&base_name(by))).copied(),
            expr => exprs.get(&expr.to_string()).copied(),
        };
        if let Some(position) = position {
            *by = Expr::value(Value::Number(position.to_string(), false));
        }
    }
}

/// Puts positions in the place of what `SELECT DISTINCT` selects and is ordered by, as an expression, which the planner looks for among the columns.
pub(super) fn in_distinct(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (&*query.body, query.order_by.as_mut()) else { return };
    let OrderByKind::Expressions(order) = &mut order.kind else { return };
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    let (mut names, mut exprs) = (HashMap::new(), HashMap::new());
    branches(&query.body, &mut names, &mut exprs);
    for by in order {
        let by = bare(&mut by.expr);
        if !matches!(by, Expr::Value(_) | Expr::Identifier(_))
            && let Some(position) = exprs.get(&by.to_string())
        {
            *by = Expr::value(Value::Number(position.to_string(), false));
        }
    }
}

/// Whether a branch is put beside another by the names of columns.
fn is_by_name(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { left, right, set_quantifier, .. } => {
            use SetQuantifier as Q;
            matches!(set_quantifier, Q::ByName | Q::AllByName | Q::DistinctByName)
                || is_by_name(left)
                || is_by_name(right)
        }
        SetExpr::Query(query) => is_by_name(&query.body),
        _ => false,
    }
}

/// Collects the positions of the outputs of `body` by name and by text; false if not all are known from the text.
fn branches(body: &SetExpr, names: &mut HashMap<String, usize>, exprs: &mut HashMap<String, usize>) -> bool {
    match body {
        SetExpr::Select(select) => select.projection.iter().enumerate().all(|(at, item)| {
            let (expr, name) = match item {
                SelectItem::ExprWithAlias { expr, alias } => (expr, normal_name(alias)),
                SelectItem::UnnamedExpr(expr) => (expr, base_name(expr)),
                _ => return false,
            };
            // It may be several.
            if columns_of::has_star(expr) || super::unnested(select, item).is_some() {
                return false;
            }
            names.entry(name).or_insert(at + 1);
            exprs.entry(expr.to_string()).or_insert(at + 1);
            true
        }),
        SetExpr::Query(query) => branches(&query.body, names, exprs),
        SetExpr::SetOperation { left, right, set_quantifier, .. } => {
            let is_by_name = matches!(
                set_quantifier,
                SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName
            );
            !is_by_name && branches(left, names, exprs) && branches(right, names, exprs)
        }
        _ => false,
    }
}

/// Whether the order of `query` has names that may be a column's and are an output's: `FROM` of its `SELECT` then tells.
pub(crate) fn has_shared_names(query: &mut Query) -> bool {
    let (SetExpr::Select(select), Some(order)) = (&*query.body, query.order_by.as_mut()) else { return false };
    let OrderByKind::Expressions(order) = &mut order.kind else { return false };
    if select.from.is_empty() || matches!(select.distinct, Some(Distinct::On(_))) {
        return false;
    }
    let used = columns_in(order, select);
    !used.is_empty() && outputs(select).is_some_and(|names| names.iter().flatten().any(|name| used.contains(name)))
}

/// Gives the outputs of `query` that the order's columns share a name with names of their own; `columns` are those of its tables. False if it stays as it is.
///
/// # Errors
/// [`Error::Internal`], if what the query becomes cannot be parsed.
pub(crate) fn tell_apart(query: &mut Query, columns: &[String]) -> Result<bool> {
    let (SetExpr::Select(select), Some(order)) = (&mut *query.body, query.order_by.as_mut()) else { return Ok(false) };
    let OrderByKind::Expressions(order) = &mut order.kind else { return Ok(false) };
    let mut used = columns_in(order, select);
    let Some(names) = outputs(select) else { return Ok(false) };
    used.retain(|name| names.iter().flatten().any(|output| output == name));
    let several: HashSet<&String> = used.iter().filter(|name| !columns.contains(name)).collect();
    let is_written = several.into_iter().fold(false, |any, name| write_out_last(order, select, name) | any);
    used.retain(|name| columns.contains(name));
    if used.is_empty() {
        return Ok(is_written);
    }
    let mut outer = Vec::with_capacity(select.projection.len());
    let aliases: Vec<Option<String>> = select.projection.iter().map(alias).collect();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let own = Ident::new(format!("ogee_output_{at}"));
        let name = &aliases[at];
        let is_last = !aliases[at + 1..].contains(name);
        let is_one = is_last && !aliases[..at].contains(name);
        let shown = match item {
            SelectItem::ExprWithAlias { alias, .. }
                if !is_one || names[at].as_ref().is_some_and(|name| used.contains(name)) =>
            {
                for by in order.iter_mut().filter(|_| is_last) {
                    let by = bare(&mut by.expr);
                    if matches!(&*by, Expr::Identifier(used) if Some(normal_name(used)) == *name) {
                        *by = Expr::Identifier(own.clone());
                    }
                }
                std::mem::replace(alias, own.clone())
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                outer.push(SelectItem::UnnamedExpr(Expr::Identifier(alias.clone())));
                continue;
            }
            SelectItem::UnnamedExpr(expr) => {
                let shown = Ident::with_quote('"', base_name(expr));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: own.clone() };
                shown
            }
            _ => return Err(Error::Internal("a star among outputs with names".to_owned())),
        };
        outer.push(SelectItem::ExprWithAlias { expr: Expr::Identifier(own), alias: shown });
    }
    let mut around = outputs_of_a_query()?;
    std::mem::swap(query, &mut around);
    query.with = around.with.take();
    if let SetExpr::Select(select) = &mut *query.body {
        select.projection = outer;
        if let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|table| &mut table.relation) {
            **subquery = around;
        }
    }
    Ok(true)
}

/// Puts the last of several outputs called `name` where the name stands in expressions of the order, as in DuckDB: DataFusion would take the first. False if there are not several.
fn write_out_last(order: &mut [OrderByExpr], select: &Select, name: &str) -> bool {
    let outputs = select.projection.iter().filter(|item| alias(item).as_deref() == Some(name));
    let outputs: Vec<&Expr> = outputs.filter_map(columns_of::output).collect();
    let [_, .., last] = outputs[..] else { return false };
    for by in order {
        let by = bare(&mut by.expr);
        if !matches!(by, Expr::Identifier(_)) {
            for_each_outside_queries(by, |expr| {
                if matches!(&*expr, Expr::Identifier(used) if normal_name(used) == name) {
                    *expr = Expr::Nested(Box::new(last.clone()));
                }
            });
        }
    }
    true
}

/// The name that `item` was given.
fn alias(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normal_name(alias)),
        _ => None,
    }
}

/// A `SELECT` from a query, both to be replaced.
fn outputs_of_a_query() -> Result<Query> {
    let statement = parse("SELECT 1 FROM (SELECT 1) AS ogee_outputs")?.pop();
    if let Some(datafusion::sql::parser::Statement::Statement(statement)) = statement.map(|statement| statement.0)
        && let Statement::Query(query) = *statement
    {
        return Ok(*query);
    }
    Err(Error::Internal("a query is no query".to_owned()))
}

/// The names that outputs have been given, `None` for those that have none or are a column of that name; nothing if a star is among them.
fn outputs(select: &Select) -> Option<Vec<Option<String>>> {
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let name = normal_name(alias);
            let is_column = match expr {
                Expr::Identifier(column) => normal_name(column) == name,
                Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|column| normal_name(column) == name),
                _ => false,
            };
            Some((!is_column).then_some(name))
        }
        SelectItem::UnnamedExpr(expr) => Some(cast_column(expr)),
        _ => None,
    };
    select.projection.iter().map(name).collect()
}

/// The name of the column that `expr` casts: to DataFusion the cast is called the same.
fn cast_column(expr: &Expr) -> Option<String> {
    let (mut of, mut is_cast) = (expr, false);
    loop {
        match of {
            Expr::Cast { expr, .. } => (of, is_cast) = (expr, true),
            Expr::Nested(inner) => of = inner,
            Expr::Identifier(column) => return is_cast.then(|| normal_name(column)),
            Expr::CompoundIdentifier(parts) => return parts.last().filter(|_| is_cast).map(normal_name),
            _ => return None,
        }
    }
}

/// The names that can only be those of columns, if there are such columns: in expressions, behind tables, and of columns that `SELECT DISTINCT` casts, where a name by itself would be
/// taken for the cast.
fn columns_in(order: &mut [OrderByExpr], select: &Select) -> HashSet<String> {
    let mut names = HashSet::new();
    for by in order {
        let by = bare(&mut by.expr);
        if let Expr::Identifier(name) = by {
            let name = normal_name(name);
            let is_cast = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(expr) if cast_column(expr).is_some_and(|column| column == name));
            if select.distinct.is_some() && select.projection.iter().any(is_cast) {
                names.insert(name);
            }
        } else {
            for_each_outside_queries(by, |expr| match expr {
                Expr::Identifier(name) => _ = names.insert(normal_name(name)),
                // Of a table, or a field of the first.
                Expr::CompoundIdentifier(parts) => names.extend(parts.iter().map(normal_name)),
                _ => {}
            });
        }
    }
    names
}

/// What is within brackets.
fn bare(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        expr => expr,
    }
}
