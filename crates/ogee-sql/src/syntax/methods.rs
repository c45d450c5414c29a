//! Functions called as methods: `'x'.upper()` and `s.trim().upper()` are `upper('x')` and `upper(trim(s))`.
//!
//! The parser takes `s.upper()` for the function `upper` of schema `s`. No function has a schema, but those of these names.
//!
//! Not here: fields and elements, which are no calls (`fields`).

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::{
        ast::{
            AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
            ObjectName, VisitorMut,
        },
        keywords::Keyword,
        tokenizer::{Token, TokenWithSpan},
    },
};

use crate::names::normal_name;

/// Schemas that functions may be written with.
const SCHEMAS: &[&str] = &["main", "pg_catalog", "system"];

/// `tokens` in which a method is no keyword: `trim` and `substring` have a syntax of their own.
pub(crate) fn in_tokens(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for at in 1..tokens.len().saturating_sub(1) {
        let is_method = tokens[at - 1].token == Token::Period && tokens[at + 1].token == Token::LParen;
        if let Token::Word(word) = &mut tokens[at].token
            && is_method
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
    tokens
}

/// Writes the methods of `statement` as functions.
pub(crate) fn write_out(statement: &mut Parsed) {
    struct Methods;

    impl VisitorMut for Methods {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::CompoundFieldAccess { root, access_chain } => {
                    if let Some(other) = of_accesses(root, access_chain) {
                        *expr = other;
                    }
                }
                Expr::Function(function) => of_name(function),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }

    let visited = super::visit(statement, &mut Methods);
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// `root.f().g()[1]` as `g(f(root))[1]`, if there is a call in the chain.
fn of_accesses(root: &mut Expr, chain: &mut Vec<AccessExpr>) -> Option<Expr> {
    if !chain.iter().any(|access| matches!(access, AccessExpr::Dot(Expr::Function(_)))) {
        return None;
    }
    let with = |value: Expr, rest: &mut Vec<AccessExpr>| match rest.is_empty() {
        true => value,
        false => Expr::CompoundFieldAccess { root: Box::new(value), access_chain: std::mem::take(rest) },
    };
    let mut value = std::mem::replace(root, *super::null());
    let mut rest = Vec::new();
    for access in chain.drain(..) {
        match access {
            AccessExpr::Dot(Expr::Function(mut function)) => {
                first_argument(&mut function, with(value, &mut rest));
                value = Expr::Function(function);
            }
            other => rest.push(other),
        }
    }
    Some(with(value, &mut rest))
}

/// `s.f(x)` as `f(s, x)`.
fn of_name(function: &mut Function) {
    let parts: Option<Vec<Ident>> = function.name.0.iter().map(|part| part.as_ident().cloned()).collect();
    let Some((last, of)) = parts.as_ref().and_then(|parts| parts.split_last()) else { return };
    let [first, ..] = of else { return };
    if SCHEMAS.contains(&normal_name(first).as_str()) {
        function.name = ObjectName::from(vec![last.clone()]);
        return;
    }
    let value = match of {
        [column] => Expr::Identifier(column.clone()),
        parts => Expr::CompoundIdentifier(parts.to_vec()),
    };
    function.name = ObjectName::from(vec![last.clone()]);
    first_argument(function, value);
}

fn first_argument(function: &mut Function, value: Expr) {
    let value = FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
    match &mut function.args {
        FunctionArguments::List(list) => list.args.insert(0, value),
        args => {
            let list = FunctionArgumentList { duplicate_treatment: None, args: vec![value], clauses: Vec::new() };
            *args = FunctionArguments::List(list);
        }
    }
}
