//! Groupings that DataFusion's planner does not see: `GROUP BY ()`, `HAVING` that asks nothing of the rows, and `ROLLUP` and `CUBE` of keys that go together.
//!
//! The first two make one group of all rows, even of none. DataFusion tells a grouping by its keys and aggregates, so a select without either gets one: a condition on the
//! number of rows that always holds. `ROLLUP ((a, b), c)`, and what is within `GROUPING SETS`, becomes the sets that it stands for.
//!
//! Not here: other grouping sets, which DataFusion plans, and how many there may be (`grouping_limit`).

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, GroupByWithModifier,
    Ident, ObjectName, Select, SelectItem, Value, ValueWithSpan,
};

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::{for_each_outside_queries, keyword, significant};
use crate::names::call_star;

/// `tokens` in which `GROUPING SETS` that are among others are just those: the parser knows none within.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| keyword(&token.token) == Keyword::SETS) {
        return tokens;
    }
    let places = significant(&tokens);
    let token = |nth: usize| &tokens[places[nth]].token;
    let mut dropped = vec![false; tokens.len()];
    // Of the parentheses around a place: whether they are those of sets, and of sets that are dropped.
    let mut around: Vec<(bool, bool)> = Vec::new();
    let mut nth = 0;
    while nth < places.len() {
        let begins = nth + 2 < places.len()
            && keyword(token(nth)) == Keyword::GROUPING
            && keyword(token(nth + 1)) == Keyword::SETS
            && *token(nth + 2) == Token::LParen;
        if begins {
            let is_empty = nth + 3 < places.len() && *token(nth + 3) == Token::RParen;
            let is_within = around.last().is_some_and(|(of_sets, _)| *of_sets) && !is_empty;
            if is_within {
                (nth..nth + 3).for_each(|nth| dropped[places[nth]] = true);
            }
            around.push((true, is_within));
            nth += 3;
            continue;
        }
        match token(nth) {
            Token::LParen => around.push((false, false)),
            Token::RParen => {
                if let Some((_, true)) = around.pop() {
                    dropped[places[nth]] = true;
                }
            }
            _ => {}
        }
        nth += 1;
    }
    tokens.into_iter().zip(dropped).filter_map(|(token, dropped)| (!dropped).then_some(token)).collect()
}

/// Has `ROLLUP (..)` and `CUBE (..)` that are one of `GROUPING SETS` stand for sets: the parser takes them for calls.
pub(super) fn tidy(select: &mut Select) {
    let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by else { return };
    let of_modifiers = modifiers.iter_mut().filter_map(|modifier| match modifier {
        GroupByWithModifier::GroupingSets(sets) => Some(sets),
        _ => None,
    });
    for key in keys.iter_mut().chain(of_modifiers) {
        let Expr::GroupingSets(sets) = key else { continue };
        for set in sets {
            if let [Expr::Function(function)] = set.as_slice()
                && let Some(sets) = sets_of_call(function)
            {
                *set = vec![sets];
            }
        }
    }
}

fn sets_of_call(function: &Function) -> Option<Expr> {
    let [name] = function.name.0.as_slice() else { return None };
    let name = name.as_ident().filter(|name| name.quote_style.is_none())?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let keys = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Tuple(keys))) => Some(keys.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Nested(key))) => Some(vec![(**key).clone()]),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) => Some(vec![key.clone()]),
        _ => None,
    });
    match name.value.to_ascii_lowercase().as_str() {
        "rollup" => Some(Expr::Rollup(keys.collect::<Option<_>>()?)),
        "cube" => Some(Expr::Cube(keys.collect::<Option<_>>()?)),
        _ => None,
    }
}

/// Writes out the sets of `ROLLUP` and `CUBE` where they are not of one key each.
fn write_out(keys: &mut [Expr]) {
    for key in keys {
        match key {
            Expr::Rollup(parts) | Expr::Cube(parts)
                if parts.iter().any(|part| part.len() != 1)
                    || (1..parts.len()).any(|at| parts[..at].contains(&parts[at])) =>
            {
                *key = Expr::GroupingSets(sets_within(key));
            }
            Expr::GroupingSets(sets)
                if sets.iter().any(|set| matches!(set.as_slice(), [Expr::Rollup(_) | Expr::Cube(_)])) =>
            {
                *sets = std::mem::take(sets)
                    .into_iter()
                    .flat_map(|set| match set.as_slice() {
                        [one @ (Expr::Rollup(_) | Expr::Cube(_))] => sets_within(one),
                        _ => vec![set],
                    })
                    .collect();
            }
            _ => {}
        }
    }
}

/// The sets that a `ROLLUP` or `CUBE` stands for; there are no more than `grouping_limit` lets in.
fn sets_within(key: &Expr) -> Vec<Vec<Expr>> {
    let all = |parts: &mut dyn Iterator<Item = &Vec<Expr>>| {
        let mut set: Vec<Expr> = Vec::new();
        for key in parts.flatten() {
            if !set.contains(key) {
                set.push(key.clone());
            }
        }
        set
    };
    match key {
        Expr::Rollup(parts) => (0..=parts.len()).rev().map(|count| all(&mut parts[..count].iter())).collect(),
        Expr::Cube(parts) => {
            let with = |set: u64| {
                let among = parts.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1);
                all(&mut among.map(|(_, part)| part))
            };
            (0..1_u64 << parts.len()).rev().map(with).collect()
        }
        _ => Vec::new(),
    }
}

/// Puts the outputs of `select` in the place of their positions within grouping sets, which DataFusion takes for constants there.
fn at_positions(key: &mut Expr, outputs: &[SelectItem]) {
    let (Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets)) = key else { return };
    for key in sets.iter_mut().flatten() {
        let Expr::Value(ValueWithSpan { value: Value::Number(position, _), .. }) = key else {
            at_positions(key, outputs);
            continue;
        };
        let Some(at) = position.parse::<usize>().ok().and_then(|position| position.checked_sub(1)) else { continue };
        // What a star stands for is not known here.
        let before = outputs.get(..=at).unwrap_or_default();
        if !before.iter().all(|item| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })) {
            continue;
        }
        if let Some(SelectItem::UnnamedExpr(output) | SelectItem::ExprWithAlias { expr: output, .. }) = before.last() {
            *key = output.clone();
        }
    }
}

/// Has `grouping_id(..)` be `grouping(..)`, and what has no arguments be of all keys.
fn name_groupings(select: &mut Select) {
    let GroupByExpr::Expressions(exprs, _) = &select.group_by else { return };
    let mut keys: Vec<Expr> = Vec::new();
    for key in exprs {
        let parts: Vec<&Expr> = match key {
            Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets) => sets.iter().flatten().collect(),
            Expr::Tuple(parts) => parts.iter().collect(),
            key => vec![key],
        };
        for part in parts {
            if !keys.contains(part) {
                keys.push(part.clone());
            }
        }
    }
    let mut name = |expr: &mut Expr| {
        let Expr::Function(function) = expr else { return };
        let [called] = &function.name.0[..] else { return };
        let called = called.to_string().to_ascii_lowercase();
        if called != "grouping" && called != "grouping_id" {
            return;
        }
        if called == "grouping_id" {
            function.name = ObjectName::from(vec![Ident::new("grouping")]);
        }
        if let FunctionArguments::List(list) = &mut function.args
            && list.args.is_empty()
        {
            let arg = |key: &Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(key.clone()));
            list.args = keys.iter().map(arg).collect();
        }
    };
    for_each_outside_queries(&mut select.projection, &mut name);
    for_each_outside_queries(&mut select.having, &mut name);
    for_each_outside_queries(&mut select.qualify, &mut name);
}

/// Makes a grouping of `select` where it is one by its words only.
pub(super) fn in_select(select: &mut Select) {
    name_groupings(select);
    let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by else { return };
    keys.iter_mut().for_each(|key| at_positions(key, &select.projection));
    write_out(keys);
    // Beside other keys, no key is none.
    let is_none = |key: &Expr| matches!(key, Expr::Tuple(none) if none.is_empty());
    if !keys.iter().all(is_none) {
        keys.retain(|key| !is_none(key));
        *keys = std::mem::take(keys)
            .into_iter()
            .flat_map(|key| match key {
                Expr::Tuple(keys) => keys,
                key => vec![key],
            })
            .collect();
    }
    let of_all = matches!(keys.as_slice(), [Expr::Tuple(none)] if none.is_empty());
    if of_all {
        keys.clear();
    }
    if !of_all && (select.having.is_none() || !keys.is_empty() || !modifiers.is_empty()) {
        return;
    }
    let zero = Box::new(Expr::value(Value::Number("0".to_owned(), false)));
    let any = Expr::BinaryOp { left: Box::new(call_star("count")), op: BinaryOperator::GtEq, right: zero };
    select.having = Some(match select.having.take() {
        Some(having) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(having))),
            op: BinaryOperator::And,
            right: Box::new(any),
        },
        None => any,
    });
}
