//! `first(x)`, which may be NULL: the value of the first row, as in DuckDB.
//!
//! What stands for it, `first_value` without an order, prefers values to NULL where it groups. So the value is put in a struct, which is never NULL, and taken out again:
//! that of the first row stays. Outputs are named as they were written.
//!
//! Not here: `any_value`, which skips NULL, and first values of windows or in an order.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select, SelectItem, Value,
};

use super::outer_aggregates::has_call;
use crate::names::call;

const NAMES: &[&str] = &["arbitrary", "first", "first_value"];

/// The argument of `function`, if it is the first value of a group without an order.
fn argument(function: &Function) -> Option<&Expr> {
    let [name] = function.name.0.as_slice() else { return None };
    let name = name.as_ident().filter(|name| name.quote_style.is_none())?;
    if !NAMES.iter().any(|known| name.value.eq_ignore_ascii_case(known))
        || function.over.is_some()
        || function.null_treatment.is_some()
        || !function.within_group.is_empty()
    {
        return None;
    }
    match &function.args {
        FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none() => {
            match list.args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] => Some(arg),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What `function` is in other words, if it is such a one.
pub(super) fn in_other_words(function: &Function) -> Option<Expr> {
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let packed = call("named_struct", vec![text("v"), argument(function)?.clone()]);
    let Expr::Function(mut first) = call("first_value", vec![packed]) else { return None };
    first.filter = function.filter.clone();
    first.name = ObjectName::from(vec![Ident::new("first_value")]);
    Some(call("get_field", vec![Expr::Function(first), text("v")]))
}

/// Names the outputs of `select` that have such ones within.
pub(super) fn name_outputs(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && has_call(expr, |function| argument(function).is_some())
        {
            let alias = Ident::with_quote('"', expr.to_string());
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}
