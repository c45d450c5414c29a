//! Functions that are called without brackets, `current_date` and `user`, beside columns of the same names.
//!
//! The column is meant where there is one, as in DuckDB. So where a query reads tables, such a call is written as a name; if the planner finds no column of that name, it is written as a call again.
//!
//! Not here: the functions.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::{
        ast::{Expr, Function, FunctionArguments, Ident, Query, Select, SetExpr, VisitorMut},
        keywords::Keyword,
        parser::Parser,
        tokenizer::{Token, TokenWithSpan, Word},
    },
};

use super::{for_each_outside_queries, time_parts, visit};
use crate::names::call;

const NAMES: &[&str] = &[
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "user",
];

/// Quotes those that are columns of a table that is named before them, which the parser takes for calls.
pub(crate) fn in_tokens(tokens: &mut [TokenWithSpan]) {
    let mut is_behind = false;
    for at in 0..tokens.len() {
        let calls = matches!(tokens.get(at + 1), Some(next) if next.token == Token::LParen);
        if let Token::Word(word) = &mut tokens[at].token
            && is_behind
            && !calls
            && word.quote_style.is_none()
            && NAMES.iter().any(|name| word.value.eq_ignore_ascii_case(name))
        {
            *word =
                Word { value: word.value.to_ascii_lowercase(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
        }
        is_behind = tokens[at].token == Token::Period;
    }
}

/// The call of one of the two that the parser does not know, if it is next.
pub(crate) fn parse_prefix(parser: &mut Parser) -> Option<Expr> {
    let [name, next] = parser.peek_tokens_ref::<2>().map(|token| &token.token);
    let Token::Word(word) = name else { return None };
    let is_one = word.quote_style.is_none()
        && ["current_role", "current_schema"].iter().any(|name| word.value.eq_ignore_ascii_case(name));
    if !is_one || matches!(next, Token::LParen | Token::Period) {
        return None;
    }
    let name = word.value.clone();
    parser.advance_token();
    let Expr::Function(mut function) = call(&name, Vec::new()) else { unreachable!("a call is a function") };
    function.args = FunctionArguments::None;
    Some(Expr::Function(function))
}

/// Whether `select` has columns that such a name may be of.
pub(super) fn reads_tables(select: &Select) -> bool {
    !select.from.is_empty()
}

/// The name that `function` is instead, if it is called without brackets.
pub(super) fn name_of(function: &Function) -> Option<Expr> {
    let [name] = &function.name.0[..] else { return None };
    let name = name.as_ident().filter(|name| name.quote_style.is_none())?.value.to_ascii_lowercase();
    let is_one = matches!(function.args, FunctionArguments::None) && NAMES.contains(&name.as_str());
    is_one.then(|| Expr::Identifier(Ident::with_quote('"', name)))
}

/// Makes names of such calls in what `query` is ordered by, if it reads tables.
pub(super) fn in_order(query: &mut Query) {
    if !matches!(&*query.body, SetExpr::Select(select) if reads_tables(select)) {
        return;
    }
    for_each_outside_queries(&mut query.order_by, |expr| {
        if let Expr::Function(function) = &*expr
            && let Some(name) = name_of(function)
        {
            *expr = name;
        }
    });
}

/// Calls the function for the column `name`, which there is not; whether it is one of those.
pub(crate) fn write_out(statement: &mut Parsed, name: &str) -> bool {
    struct Calls<'a> {
        name: &'a str,
        any: bool,
    }

    impl VisitorMut for Calls<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if matches!(expr, Expr::Identifier(name) if name.quote_style.is_some() && name.value == self.name) {
                *expr = time_parts::of_name(self.name).unwrap_or_else(|| call(self.name, Vec::new()));
                self.any = true;
            }
            ControlFlow::Continue(())
        }
    }

    if !NAMES.contains(&name) {
        return false;
    }
    let mut calls = Calls { name, any: false };
    let visited = visit(statement, &mut calls);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    calls.any
}
