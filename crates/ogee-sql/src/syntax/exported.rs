//! `sum(x) EXPORT_STATE`: the aggregate of the name that gives a state (`ogee_functions::exported`).
//!
//! The parser takes the word for the name of an output. Behind a call of another function it is one.
//!
//! Not here: what is done with states.

use datafusion::sql::sqlparser::{
    ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};
use ogee_functions::{Error, Result, exported::EXPORT};

use super::{
    keyword,
    outer_aggregates::{is_aggregate, is_aggregate_name},
    significant,
};

/// `tokens` in which an aggregate whose state is asked for has another name.
///
/// # Errors
/// The state of an aggregate over a window.
pub(crate) fn in_tokens(mut tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let is_export = |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("export_state"));
    if !tokens.iter().any(|token| is_export(&token.token)) {
        return Ok(tokens);
    }
    let places = significant(&tokens);
    let token = |nth: usize| &tokens[places[nth]].token;
    let mut changes = Vec::new();
    for nth in 1..places.len() {
        if !is_export(token(nth)) {
            continue;
        }
        let Some(name) = name_of_call(&token, nth - 1) else { continue };
        // A filter comes before the word.
        if places.get(nth + 1).is_some_and(|_| keyword(token(nth + 1)) == Keyword::FILTER) {
            continue;
        }
        if places.get(nth + 1).is_some_and(|_| keyword(token(nth + 1)) == Keyword::OVER) {
            let message = "EXPORT_STATE of an aggregate over a window is not supported; take it of a group";
            return Err(Error::Unsupported(message.to_owned()));
        }
        changes.push((places[name], places[nth]));
    }
    let mut dropped = vec![false; tokens.len()];
    for (name, export) in changes {
        if let Token::Word(word) = &mut tokens[name].token {
            word.value = format!("{EXPORT}{}", word.value.to_ascii_lowercase());
            word.keyword = Keyword::NoKeyword;
        }
        dropped[export] = true;
    }
    Ok(tokens.into_iter().zip(dropped).filter_map(|(token, dropped)| (!dropped).then_some(token)).collect())
}

/// Where the name of the aggregate is whose call, or the filter or the order behind it, ends at `end`.
fn name_of_call<'t>(token: &impl Fn(usize) -> &'t Token, end: usize) -> Option<usize> {
    if *token(end) != Token::RParen {
        return None;
    }
    let mut depth = 0_usize;
    let mut at = end;
    loop {
        match token(at) {
            Token::RParen => depth += 1,
            Token::LParen => depth -= 1,
            _ => {}
        }
        at = at.checked_sub(1)?;
        if depth == 0 {
            break;
        }
    }
    match keyword(token(at)) {
        Keyword::FILTER => name_of_call(token, at.checked_sub(1)?),
        Keyword::GROUP => name_of_call(token, at.checked_sub(2)?),
        _ => match token(at) {
            Token::Word(word) if word.quote_style.is_none() && is_aggregate_name(&word.value.to_ascii_lowercase()) => {
                Some(at)
            }
            _ => None,
        },
    }
}

/// `count(*)`, which counts rows, as `count(1)`.
fn of_rows(mut function: Function) -> Function {
    if function.name.to_string().eq_ignore_ascii_case("count")
        && let FunctionArguments::List(list) = &mut function.args
        && matches!(list.args.as_slice(), [] | [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
    {
        let one = Expr::value(Value::Number("1".to_owned(), false));
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(one))];
    }
    function
}

/// The name of the aggregate whose state `name` gives.
pub(super) fn aggregate(name: &str) -> Option<&str> {
    name.strip_prefix(EXPORT)
}

/// `function`, which gives the state of the aggregate `name`, in the planner's words for that; something else if the aggregate is several others.
pub(super) fn in_function(name: &str, function: &mut Function) -> Option<Expr> {
    let mut inner = function.clone();
    inner.name = ObjectName::from(vec![Ident::new(name)]);
    let inner = match super::in_function(&mut inner) {
        None => of_rows(inner),
        Some(Expr::Function(inner)) if is_aggregate(&inner) => inner,
        // What takes other arguments says so; of the others there is none of the name.
        Some(_) => return None,
    };
    let name = ObjectName::from(vec![Ident::new(format!("{EXPORT}{}", inner.name.to_string().to_ascii_lowercase()))]);
    *function = Function { name, ..inner };
    None
}
