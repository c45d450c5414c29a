//! Structs whose fields are named arguments: `struct_pack(a := 1)`, `struct_insert(s, b := 2)`.
//!
//! Not here: structs in braces, which the parser knows.

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::text;
use crate::names::{call, normal_name};

/// What `function`, which is called `name`, is in other words, if it is such a one.
pub(super) fn in_function(name: &str, function: &Function) -> Option<Expr> {
    if !matches!(name, "struct_pack" | "struct_insert" | "struct_update") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let (mut first, mut fields) = (None, Vec::new());
    for (nth, arg) in list.args.iter().enumerate() {
        match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                fields.extend([text(&name.value), value.clone()]);
            }
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                fields.extend([text(&name.value), value.clone()]);
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(of)) if nth == 0 && name != "struct_pack" => {
                first = Some(of.clone());
            }
            // A column is a field of its name.
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(column))) => {
                fields.extend([text(&normal_name(column)), Expr::Identifier(column.clone())]);
            }
            _ => return None,
        }
    }
    let packed = (!fields.is_empty()).then(|| call("named_struct", fields));
    match (name, first, packed) {
        ("struct_pack", None, Some(packed)) => Some(packed),
        (name, Some(first), Some(packed)) => Some(call(name, vec![first, packed])),
        _ => None,
    }
}
