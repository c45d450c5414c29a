//! `SET VARIABLE x = ..` and `RESET VARIABLE x`, as queries of a call that the parser knows: `SELECT ogee_variable('x', (..))`.
//!
//! Not here: what the variable is then (`ogee-datafusion`).

use std::ops::Range;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::{
        ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, SelectItem, SetExpr, Statement, Value},
        tokenizer::{Token, TokenWithSpan},
    },
};

use super::parts::{Parts, call_of, space};

const FUNCTION: &str = "ogee_variable";

/// `tokens` with queries in the place of variables that are set.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_word = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("variable"))
    };
    if !tokens.iter().any(is_word) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced: Vec<(Range<usize>, Vec<Token>)> = Vec::new();
    for nth in 0..parts.len() {
        let begins = nth == 0 || parts.is(nth - 1, &Token::SemiColon);
        if !begins || !parts.is_word(nth + 1, &["VARIABLE"]) {
            continue;
        }
        let Some(Token::Word(name)) = parts.token(nth + 2) else { continue };
        let name = vec![Token::SingleQuotedString(name.value.clone())];
        let end = parts.find(nth, |nth| parts.is(nth, &Token::SemiColon));
        let args = if parts.is_word(nth, &["RESET"]) && end == nth + 3 {
            vec![name]
        } else if parts.is_word(nth, &["SET"])
            && end > nth + 4
            && (parts.is(nth + 3, &Token::Eq) || parts.is_word(nth + 3, &["TO"]))
        {
            let value = std::iter::once(Token::LParen).chain(parts.text(nth + 4..end)).chain([Token::RParen]);
            vec![name, value.collect()]
        } else {
            continue;
        };
        let select = [Token::make_keyword("SELECT"), space()].into_iter().chain(call_of(FUNCTION, args));
        replaced.push((nth..end, select.collect()));
    }
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}

/// A variable that a statement sets, or, without a value, takes away.
#[derive(Debug)]
pub struct SetVariable {
    /// Its name, in lower case.
    pub name: String,
    /// The query of its value: one row of one column.
    pub value: Option<Query>,
}

impl SetVariable {
    /// The one that `statement` sets, if that is what it does.
    pub fn of(statement: &Parsed) -> Option<Self> {
        let Parsed::Statement(statement) = statement else { return None };
        let Statement::Query(query) = &**statement else { return None };
        let SetExpr::Select(select) = &*query.body else { return None };
        let [SelectItem::UnnamedExpr(Expr::Function(function))] = &select.projection[..] else { return None };
        if function.name.to_string() != FUNCTION {
            return None;
        }
        let FunctionArguments::List(list) = &function.args else { return None };
        let mut args = list.args.iter().filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        });
        let Some(Expr::Value(name)) = args.next() else { return None };
        let Value::SingleQuotedString(name) = &name.value else { return None };
        let value = args.next().map(|value| {
            let mut query = (**query).clone();
            if let SetExpr::Select(select) = &mut *query.body {
                select.projection = vec![SelectItem::UnnamedExpr(value.clone())];
            }
            query
        });
        Some(Self { name: name.to_lowercase(), value })
    }
}
