//! `ARRAY(SELECT ..)`: the rows of a query as a list, in their order; the empty list of none.

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArguments, SelectItem, SetExpr};

use super::query_of;
use crate::names::call;

/// What the column of the query is called.
const VALUE: &str = "ogee_value";

/// Whether `function` is one.
pub(super) fn is_of_query(function: &Function) -> bool {
    matches!(function.args, FunctionArguments::Subquery(_))
        && matches!(&function.name.0[..], [name] if name.to_string().eq_ignore_ascii_case("array"))
}

/// What it is in other words: an aggregate of the query, which NULL stands for where there are no rows.
pub(super) fn of_query(function: &Function) -> Option<Expr> {
    let FunctionArguments::Subquery(query) = &function.args else { return None };
    // With one name for its columns the first of several would be taken.
    if let SetExpr::Select(select) = &*query.body
        && select.projection.len() > 1
    {
        return query_of("SELECT error('ARRAY(..) takes a query of one column')")
            .map(|query| Expr::Subquery(Box::new(query)));
    }
    let list = query_of(&format!("SELECT array_agg({VALUE}) FROM ({query}) AS ogee_array({VALUE})"))?;
    let empty = query_of("SELECT make_array()")?;
    let SetExpr::Select(select) = *empty.body else { return None };
    let Some(SelectItem::UnnamedExpr(empty)) = select.projection.into_iter().next() else { return None };
    Some(call("coalesce", vec![Expr::Subquery(Box::new(list)), empty]))
}
