//! `TRY(expr)`, which is a function of a lambda: its arguments are not evaluated before it is called.
//!
//! Not here: the function (`ogee_functions::tried`), and that functions which vary are refused in it (`checked`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction, LambdaFunctionParameter,
    LambdaSyntax, OneOrManyWithParens, Query, Value, Visitor,
};
use ogee_functions::tried::TRY;

use crate::{names::call, visitors};

use super::outer_aggregates::is_aggregate;

/// The parameter of the lambda, which nothing is named by.
const PARAMETER: &str = "ogee_try_row";

/// Whether `function` is `TRY`.
fn is_try(function: &Function) -> bool {
    let [name] = function.name.0.as_slice() else { return false };
    name.as_ident().is_some_and(|name| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("try"))
}

/// The one argument of it.
fn argument(function: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] if list.clauses.is_empty() => Some(expr),
        _ => None,
    }
}

/// What is wrong with `function`, if it is `TRY` of what cannot be tried.
pub(super) fn check(function: &Function) -> ControlFlow<String> {
    if !is_try(function) {
        return ControlFlow::Continue(());
    }
    match argument(function) {
        Some(expr) => visitors::visit(expr, &mut Untried),
        None => ControlFlow::Break("TRY takes one expression, as in TRY(CAST(x AS INT))".to_owned()),
    }
}

/// Stops at what the rows of a query are not evaluated by one by one.
struct Untried;

impl Visitor for Untried {
    type Break = String;

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<String> {
        ControlFlow::Break("a subquery in TRY is not supported; put TRY in the subquery".to_owned())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        match expr {
            Expr::Function(function) if function.over.is_some() => {
                ControlFlow::Break("a window function in TRY is not supported; put TRY in its arguments".to_owned())
            }
            Expr::Function(function) if is_aggregate(function) => {
                ControlFlow::Break("an aggregate in TRY is not supported; put TRY in its arguments".to_owned())
            }
            Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("unnest") => {
                ControlFlow::Break("unnest in TRY is not supported; put TRY in its argument".to_owned())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// `function` as one of a lambda, if it is `TRY`.
pub(super) fn in_function(function: &Function) -> Option<Expr> {
    let expr = argument(function).filter(|_| is_try(function))?;
    let parameter = LambdaFunctionParameter { name: Ident::new(PARAMETER), data_type: None };
    let params = OneOrManyWithParens::One(parameter);
    let lambda = LambdaFunction { params, body: Box::new(expr.clone()), syntax: LambdaSyntax::Arrow };
    Some(call(TRY, vec![Expr::value(Value::Boolean(true)), Expr::Lambda(lambda)]))
}
