//! Window functions with an order among their arguments, `rank(ORDER BY k) OVER w`; `lag` and `lead` by what is computed; `fill`.
//!
//! Over a whole partition the order of the arguments takes the place of the window's. Where there is a frame, and for the first, last and nth value, which always have one, it is a function of its own
//! (`ogee_functions::ordered_windows`), which is told the keys. `fill` is told the key that its values lie along.
//!
//! Not here: aggregates, which have an order of their own.

use datafusion::{
    arrow::compute::SortOptions,
    sql::sqlparser::{
        ast::{
            Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, ObjectName,
            OrderByExpr, UnaryOperator, Value, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowType,
        },
        tokenizer::{Token, TokenWithSpan},
    },
};
use ogee_functions::{
    fill::FILL,
    ordered_windows::{Ordered, order_text, shifted_name},
};

use super::{
    parts::{Parts, space},
    text,
};
use crate::names::normal_name;

/// What stands where a function with an order has no argument.
pub(super) const NOTHING: &str = "ogee_no_argument";

/// `tokens` in the order that the parser knows: something before `ORDER BY` in brackets, and `IGNORE NULLS` behind them.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_over = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("over"))
    };
    if !tokens.iter().any(is_over) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let ranks = ["ROW_NUMBER", "RANK", "DENSE_RANK", "RANK_DENSE", "PERCENT_RANK", "CUME_DIST"];
    let mut replaced = Vec::new();
    for nth in 0..parts.len() {
        if parts.is_word(nth, &ranks) && parts.is(nth + 1, &Token::LParen) && parts.is_word(nth + 2, &["ORDER"]) {
            replaced.push((nth + 2..nth + 2, vec![Token::make_word(NOTHING, None)]));
        }
        if parts.is_word(nth, &["IGNORE", "RESPECT"])
            && parts.is_word(nth + 1, &["NULLS"])
            && parts.is(nth + 2, &Token::RParen)
        {
            let behind = parts.text(nth..nth + 2);
            replaced.push((nth..nth + 3, [Token::RParen, space()].into_iter().chain(behind).collect()));
        }
    }
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}

/// Puts a call over a window in words that are planned.
pub(super) fn in_function(function: &mut Function) {
    let Some(WindowType::WindowSpec(spec)) = &mut function.over else { return };
    let [name] = &function.name.0[..] else { return };
    let Some(name) = name.as_ident().map(normal_name) else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    list.args.retain(|arg| {
        !matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name))) if name.value == NOTHING)
    });
    let is_order = |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    let of = Ordered::of(&name);
    let order = match list.clauses.iter().position(is_order) {
        Some(at) if of.is_some() || name == "fill" => match list.clauses.remove(at) {
            FunctionArgumentClause::OrderBy(order) => Some(order),
            _ => None,
        },
        _ => None,
    };
    let named = |name: &str| ObjectName::from(vec![Ident::new(name)]);
    let unnamed = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    if name == "fill" {
        if let Some(order) = order {
            spec.order_by = order;
        }
        list.args.extend(spec.order_by.iter().map(|key| unnamed(key.expr.clone())));
        function.name = named(FILL);
        return;
    }
    let Some(of) = of else { return };
    let follows_frame = matches!(of, Ordered::First | Ordered::Last | Ordered::Nth);
    let shifts = matches!(of, Ordered::Lag | Ordered::Lead);
    let is_null = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) if value.value == Value::Null);
    let counts = match of {
        Ordered::Nth => list.args.get(1),
        Ordered::Ntile => list.args.first(),
        _ => None,
    };
    // Numbers that differ by row are taken by the functions that look at all rows of the frame: in the order of the window.
    let order = match counts {
        Some(number) if order.is_none() && (is_null(number) || !is_constant(number)) => {
            if of == Ordered::Ntile {
                spec.window_frame = Some(WindowFrame {
                    units: WindowFrameUnits::Rows,
                    start_bound: WindowFrameBound::Preceding(None),
                    end_bound: Some(WindowFrameBound::Following(None)),
                });
            }
            let constant =
                || OrderByExpr { expr: Expr::value(Value::Null), options: Default::default(), with_fill: None };
            let keys = spec.order_by.clone();
            Some(if keys.is_empty() { vec![constant()] } else { keys })
        }
        _ => order,
    };
    let mut in_frame = None;
    if let Some(order) = order {
        // Where the window has an order, its frame goes up to the current row.
        let is_whole = spec.window_frame.is_none() && spec.order_by.is_empty() && !follows_frame;
        match is_whole {
            true => spec.order_by = order,
            false => in_frame = Some(order),
        }
    }
    let is_computed = shifts && list.args.iter().skip(1).any(|arg| !is_constant(arg));
    if in_frame.is_none() && !is_computed {
        return;
    }
    if shifts {
        // The distance and the default that are meant.
        if list.args.len() == 1 {
            list.args.push(unnamed(Expr::value(Value::Number("1".to_owned(), false))));
        }
        if list.args.len() == 2 {
            list.args.push(unnamed(Expr::value(Value::Null)));
        }
    }
    match in_frame {
        Some(order) if list.args.len() == of.arguments() => {
            list.args.push(unnamed(text(&order_text(&order.iter().map(options).collect::<Vec<_>>()))));
            list.args.extend(order.into_iter().map(|key| unnamed(key.expr)));
            function.name = named(of.function_name());
        }
        // What is wrong with it is told by the planner.
        Some(order) => list.clauses.push(FunctionArgumentClause::OrderBy(order)),
        None => function.name = named(shifted_name(of).unwrap_or_default()),
    }
}

pub(super) fn options(key: &OrderByExpr) -> SortOptions {
    let descending = key.options.asc == Some(false);
    SortOptions { descending, nulls_first: key.options.nulls_first.unwrap_or(descending) }
}

/// Whether `arg` is written out.
fn is_constant(arg: &FunctionArg) -> bool {
    matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_value(expr))
}

/// Whether `expr` is a value that is written out.
pub(super) fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } | Expr::Cast { expr, .. } => {
            is_value(expr)
        }
        Expr::Nested(expr) => is_value(expr),
        _ => false,
    }
}
