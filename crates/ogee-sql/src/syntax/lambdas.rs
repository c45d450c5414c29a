//! Fields of the parameters of lambdas: in `lambda s: s.a`, where DataFusion looks for a table `s`, `s.a` is `s['a']`. Lambdas of elements and their places, which have functions
//! of their own.
//!
//! Not here: lambdas themselves, which the parser knows.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, LambdaFunction, Subscript,
};
use ogee_functions::list_places::{FILTER, TRANSFORM};

use crate::names::normal_name;

use super::{for_each_outside_queries, text};

/// The name of the function that `function`, called `name`, is if its lambda takes the place of an element besides it.
pub(super) fn of_places(name: &str, function: &Function) -> Option<&'static str> {
    let of_places = match name {
        "list_transform" | "array_transform" | "list_apply" | "array_apply" | "apply" => TRANSFORM,
        "list_filter" | "array_filter" | "filter" => FILTER,
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    match &list.args[..] {
        [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(lambda)))] if lambda.params.iter().count() == 2 => {
            Some(of_places)
        }
        _ => None,
    }
}

/// Puts the fields of its parameters in `lambda` in other words.
pub(super) fn in_lambda(lambda: &mut LambdaFunction) {
    let params: Vec<String> = lambda.params.iter().map(|param| normal_name(&param.name)).collect();
    for_each_outside_queries(&mut lambda.body, |expr| {
        let Expr::CompoundIdentifier(names) = expr else { return };
        let [first, fields @ ..] = names.as_slice() else { return };
        if fields.is_empty() || !params.contains(&normal_name(first)) {
            return;
        }
        let field = |name| AccessExpr::Subscript(Subscript::Index { index: text(&normal_name(name)) });
        let access_chain = fields.iter().map(field).collect();
        *expr = Expr::CompoundFieldAccess { root: Box::new(Expr::Identifier(first.clone())), access_chain };
    });
}
