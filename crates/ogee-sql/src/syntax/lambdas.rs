//! Fields of the parameters of lambdas: in `lambda s: s.a`, where DataFusion looks for a table `s`, `s.a` is `s['a']`.
//!
//! Not here: lambdas themselves, which the parser knows.

use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, LambdaFunction, Subscript};

use crate::names::normal_name;

use super::{for_each_outside_queries, text};

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
