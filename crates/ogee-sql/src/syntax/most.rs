//! The greatest or least few values: `max(x, 3)`, `arg_min(x, y, 3)` are the first elements of a list in order.
//!
//! Over windows, and where the number is no constant, they are functions of their own (`ogee_functions`, `tops`).
//!
//! Not here: one value.

use datafusion::sql::sqlparser::{
    ast::{Expr, Function, FunctionArguments, Ident, ObjectName, Value},
    parser::Parser,
};

use crate::{dialect::OgeeDialect, names::call};

/// What `function`, which is called `name`, is in other words, if it is such a one, of a group.
pub(super) fn in_function(name: &str, function: &Function) -> Option<Expr> {
    let (descends, args, several) = match name {
        "max" => (true, 2, "ogee_max_n"),
        "min" => (false, 2, "ogee_min_n"),
        "arg_max" | "argmax" | "max_by" => (true, 3, "ogee_arg_max_n"),
        "arg_min" | "argmin" | "min_by" => (false, 3, "ogee_arg_min_n"),
        "arg_max_nulls_last" => (true, 3, "ogee_arg_max_nulls_last_n"),
        "arg_min_nulls_last" => (false, 3, "ogee_arg_min_nulls_last_n"),
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    if list.args.len() != args {
        return None;
    }
    let sorted = if name.ends_with("nulls_last") { None } else { in_order(function, descends) };
    let named = || Function { name: ObjectName::from(vec![Ident::new(several)]), ..function.clone() };
    Some(sorted.unwrap_or_else(|| Expr::Function(named())))
}

/// The first elements of a list in order, if `function` asks for a constant number of values of a group.
fn in_order(function: &Function, descends: bool) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    if function.over.is_some() || !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
        return None;
    }
    let args = super::unnamed(&list.args)?;
    let [value, .., count] = args.as_slice() else { return None };
    let is_count =
        |value: &Value| matches!(value, Value::Number(number, _) if number.parse::<u32>().is_ok_and(|n| n > 0));
    if !matches!(count, Expr::Value(value) if is_count(&value.value)) {
        return None;
    }
    let by = &args[args.len() - 2];
    let order = if descends { "DESC" } else { "ASC" };
    let filter = function.filter.as_ref().map_or_else(String::new, |filter| format!("({filter}) AND "));
    let text = format!(
        "array_agg({value} ORDER BY {by} {order}) FILTER (WHERE {filter}({value}) IS NOT NULL AND ({by}) IS NOT NULL)"
    );
    let list = Parser::new(&OgeeDialect).try_with_sql(&text).ok()?.parse_expr().ok()?;
    let first = Parser::new(&OgeeDialect).try_with_sql("1").ok()?.parse_expr().ok()?;
    Some(call("array_slice", vec![list, first, count.clone()]))
}
