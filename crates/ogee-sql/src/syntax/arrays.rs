//! `ARRAY(SELECT ..)`: the rows of a query as a list, in their order; the empty list of none. And slices with a step and no end, `l[::-1]`, `l[2:-:2]`, for which the parser wants one.

use datafusion::sql::sqlparser::{
    ast::{Expr, Function, FunctionArguments, SelectItem, SetExpr},
    tokenizer::{Token, TokenWithSpan},
};

use super::{parts::Parts, query_of};
use crate::names::call;

/// What the column of the query is called.
const VALUE: &str = "ogee_value";

/// `tokens` with an end in slices that have a step and none.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| token.token == Token::LBracket) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let number = |digits: &str| Token::Number(digits.to_owned(), false);
    let mut replaced = Vec::new();
    for nth in 1..parts.len() {
        let goes_back = |step: usize| parts.is(step, &Token::Minus);
        let is_step = |step: usize| goes_back(step) || matches!(parts.token(step), Some(Token::Number(..)));
        let end = |step: usize| if goes_back(step) { vec![number("1")] } else { vec![Token::Minus, number("1")] };
        // `x::-1` is no cast.
        if parts.is(nth, &Token::DoubleColon) && is_step(nth + 1) {
            let slice = [vec![Token::Colon], end(nth + 1), vec![Token::Colon]].concat();
            replaced.push((nth..nth + 1, slice));
        } else if parts.is(nth, &Token::Minus) && parts.is(nth - 1, &Token::Colon) && parts.is(nth + 1, &Token::Colon) {
            replaced.push((nth..nth + 1, end(nth + 2)));
        }
    }
    parts.replaced(replaced)
}

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
