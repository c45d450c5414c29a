//! Names of outputs that `UNION BY NAME` puts together.
//!
//! DataFusion compares the names that it gives to columns: `"A"` and `a` are two, and so are `max(s)` of one table and `max(s)` of another, which it calls `max(t.s)` and `max(u.s)`. Here every
//! output gets the name that it is written with, and those that differ in case the first one's.
//!
//! Not here: the columns that a star stands for.

use std::collections::{HashMap, HashSet};

use datafusion::sql::sqlparser::ast::{Ident, Query, Select, SelectItem, SetExpr, SetQuantifier};

use crate::{columns_of::has_star, names::base_name};

/// Names the outputs of the set operation that `query` is, if it is `BY NAME`.
pub(super) fn in_query(query: &mut Query) {
    if !is_by_name(&query.body) {
        return;
    }
    let mut selects = Vec::new();
    naming(&mut query.body, &mut selects);
    let mut spelled: HashMap<String, Ident> = HashMap::new();
    for item in selects.into_iter().flat_map(|select| &mut select.projection) {
        let Some(name) = name(item) else { continue };
        let first = spelled.entry(name.value.to_lowercase()).or_insert(name).clone();
        match item {
            SelectItem::UnnamedExpr(expr) => {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: first };
            }
            SelectItem::ExprWithAlias { alias, .. } => *alias = first,
            _ => {}
        }
    }
}

/// The name that one branch of a set operation `BY NAME` has twice.
pub(super) fn repeated(query: &Query) -> Option<String> {
    if !is_by_name(&query.body) {
        return None;
    }
    let mut body = query.body.clone();
    let mut selects = Vec::new();
    naming(&mut body, &mut selects);
    selects.into_iter().find_map(|select| {
        let mut seen = HashSet::new();
        let names = select.projection.iter().filter_map(name);
        names.map(|name| name.value).find(|name| !seen.insert(name.to_lowercase()))
    })
}

fn is_by_name(body: &SetExpr) -> bool {
    use SetQuantifier::{AllByName, ByName, DistinctByName};
    matches!(body, SetExpr::SetOperation { set_quantifier: ByName | AllByName | DistinctByName, .. })
}

/// The queries whose outputs name those of `body`.
fn naming<'q>(body: &'q mut SetExpr, found: &mut Vec<&'q mut Select>) {
    let both = is_by_name(body);
    match body {
        SetExpr::Select(select) => found.push(select),
        SetExpr::Query(query) => naming(&mut query.body, found),
        SetExpr::SetOperation { left, right, .. } => {
            naming(left, found);
            if both {
                naming(right, found);
            }
        }
        _ => {}
    }
}

fn name(item: &SelectItem) -> Option<Ident> {
    match item {
        // As those of a star, these columns bring names of their own.
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } if has_star(expr) => None,
        SelectItem::UnnamedExpr(expr) => Some(Ident::with_quote('"', base_name(expr))),
        SelectItem::ExprWithAlias { alias, .. } => Some(Ident::with_quote('"', crate::names::normal_name(alias))),
        _ => None,
    }
}
