//! `unnest(l) WITH ORDINALITY`: the elements with their places, from 1, in a column `ordinality` behind them.
//!
//! Elements of a list are unnested beside a list of places; the rows of another table function are numbered as they come.
//!
//! Not here: tables, whose rows have no places.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, Ident, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, Value,
};

use super::{query_of, series};
use crate::names::call;

/// Puts the table functions of `select` that are numbered in words that are planned.
pub(super) fn in_select(select: &mut Select) {
    select.from.iter_mut().for_each(in_tables);
}

fn in_tables(tables: &mut TableWithJoins) {
    for factor in super::factors_mut(tables) {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            in_tables(table_with_joins);
        } else if let Some(numbered) = numbered(factor) {
            *factor = numbered;
        }
    }
}

/// What `factor` is in other words, if it is a function with places.
fn numbered(factor: &TableFactor) -> Option<TableFactor> {
    let (list, alias, is_lateral) = match factor {
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality: true, .. } => {
            let [list] = &array_exprs[..] else { return None };
            (list.clone(), alias, true)
        }
        TableFactor::Function { name, args, alias, lateral, with_ordinality: true, .. } => {
            let is_lateral = *lateral || args.iter().any(series::has_column);
            (list_of(&name.to_string(), args, is_lateral)?, alias, is_lateral)
        }
        TableFactor::Table { name, args: Some(args), alias, with_ordinality: true, .. } => {
            let is_lateral = args.args.iter().any(series::has_column);
            if !is_lateral && name.to_string().to_lowercase() != "unnest" {
                let mut rows = factor.clone();
                if let TableFactor::Table { alias, with_ordinality, .. } = &mut rows {
                    (*alias, *with_ordinality) = (None, false);
                }
                let mut query = query_of("SELECT *, row_number() OVER () AS ordinality FROM ogee")?;
                let SetExpr::Select(select) = &mut *query.body else { return None };
                select.from = vec![TableWithJoins { relation: rows, joins: Vec::new() }];
                let subquery = Box::new(query);
                return Some(TableFactor::Derived { lateral: false, subquery, alias: alias.clone(), sample: None });
            }
            (list_of(&name.to_string(), &args.args, is_lateral)?, alias, is_lateral)
        }
        _ => return None,
    };
    let first = Expr::value(Value::Number("1".to_owned(), false));
    let places = call("generate_series", vec![first, call("length", vec![list.clone()])]);
    let output =
        |list, name: &str| SelectItem::ExprWithAlias { expr: call("unnest", vec![list]), alias: Ident::new(name) };
    let mut query = query_of("SELECT 0")?;
    let SetExpr::Select(select) = &mut *query.body else { return None };
    select.projection = vec![output(list, "unnest"), output(places, "ordinality")];
    Some(TableFactor::Derived { lateral: is_lateral, subquery: Box::new(query), alias: alias.clone(), sample: None })
}

/// The list whose elements the function `name` of `args` gives as rows.
fn list_of(name: &str, args: &[FunctionArg], is_lateral: bool) -> Option<Expr> {
    let mut exprs = super::unnamed(args)?;
    match name.to_lowercase().as_str() {
        "unnest" if exprs.len() == 1 => exprs.pop(),
        name @ ("range" | "generate_series") if is_lateral => Some(call(name, exprs)),
        _ => None,
    }
}
