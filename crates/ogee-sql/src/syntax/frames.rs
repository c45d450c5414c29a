//! Frames of windows whose bounds are written as DataFusion does not take them.
//!
//! * Distances that are computed of constants, `1 + 1 PRECEDING` and `2::BIGINT FOLLOWING`, are written out.
//! * A frame that ends before it starts, `ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING`, has no rows, as in DuckDB; DataFusion refuses it. It becomes one that starts further behind than any row is.
//! * `GROUPS` without an order are one group, of all rows.
//!
//! Not here: distances between values (`range_offsets`).

use datafusion::sql::sqlparser::{
    ast::{
        BinaryOperator, CastKind, DataType, Expr, NamedWindowExpr, Select, UnaryOperator, Value, WindowFrameBound,
        WindowFrameUnits, WindowSpec, WindowType,
    },
    tokenizer::{Token, TokenWithSpan},
};

use super::parts::{Parts, space};

/// Further than there are rows, and so that twice as much is still a number.
const BEYOND: i64 = 1 << 61;

/// `tokens` with brackets around distances that are the cast of a text, `'1 year'::INTERVAL PRECEDING`: the parser takes the text for the whole distance.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let ends = ["PRECEDING", "FOLLOWING"];
    let is_end = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && ends.iter().any(|end| word.value.eq_ignore_ascii_case(end)));
    if !tokens.iter().any(is_end) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced = Vec::new();
    for nth in 1..parts.len() {
        if !matches!(parts.token(nth), Some(Token::SingleQuotedString(_)))
            || !parts.is(nth + 1, &Token::DoubleColon)
            || !parts.is_word(nth - 1, &["ROWS", "RANGE", "GROUPS", "BETWEEN", "AND"])
        {
            continue;
        }
        let is_behind =
            |nth: usize| parts.is_word(nth, &["PRECEDING", "FOLLOWING", "AND"]) || parts.is(nth, &Token::RParen);
        let end = parts.find(nth + 2, is_behind);
        if parts.is_word(end, &ends) {
            replaced.push((nth..nth, vec![Token::LParen]));
            replaced.push((end..end, vec![Token::RParen, space()]));
        }
    }
    parts.replaced(replaced)
}

/// Writes out the frame of a window.
pub(super) fn in_spec(spec: &mut WindowSpec) {
    let Some(frame) = &mut spec.window_frame else { return };
    if let Some(end) = &mut frame.end_bound {
        computed(end);
    }
    computed(&mut frame.start_bound);
    if frame.units == WindowFrameUnits::Range {
        return;
    }
    let (start, end) = (distance(&frame.start_bound), frame.end_bound.as_ref().map_or(Some(0), distance));
    let (Some(start), Some(end)) = (start, end) else { return };
    if frame.units == WindowFrameUnits::Groups && spec.order_by.is_empty() && spec.window_name.is_none() {
        frame.units = WindowFrameUnits::Rows;
        if start <= 0 && end >= 0 {
            frame.start_bound = WindowFrameBound::Preceding(None);
            frame.end_bound = Some(WindowFrameBound::Following(None));
        } else {
            frame.start_bound = beyond();
            frame.end_bound = Some(beyond());
        }
    } else if start > end && (start < 0) == (end < 0) {
        frame.start_bound = beyond();
        frame.end_bound = Some(beyond());
    }
}

/// Whether a frame with these bounds, of which both are numbers that are written, ends before it starts.
pub(super) fn is_backward(start: &WindowFrameBound, end: &WindowFrameBound) -> bool {
    matches!((distance(start), distance(end)), (Some(start), Some(end)) if start > end && (start < 0) == (end < 0))
}

/// The same for the windows that `select` names.
pub(super) fn in_select(select: &mut Select) {
    for named in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = &mut named.1 {
            in_spec(spec);
        }
    }
}

/// The same for that of a call.
pub(super) fn in_window(window: &mut WindowType) {
    if let WindowType::WindowSpec(spec) = window {
        in_spec(spec);
    }
}

fn beyond() -> WindowFrameBound {
    WindowFrameBound::Following(Some(Box::new(number(BEYOND))))
}

fn number(value: i64) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}

/// Whether `distance` is written as DataFusion takes it.
pub(super) fn is_plain(distance: &Expr) -> bool {
    match distance {
        Expr::Value(value) => !matches!(&value.value, Value::Number(digits, _) if digits.contains(['e', 'E'])),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_plain(expr),
        Expr::Nested(inner) => is_plain(inner),
        Expr::Interval(_) => true,
        _ => false,
    }
}

/// How far behind the row of a window `bound` is; `None` where that is not a number that is written.
fn distance(bound: &WindowFrameBound) -> Option<i64> {
    match bound {
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Preceding(None) => Some(-BEYOND),
        WindowFrameBound::Following(None) => Some(BEYOND),
        WindowFrameBound::Preceding(Some(distance)) => value(distance).filter(|by| *by < BEYOND).map(|by| -by),
        WindowFrameBound::Following(Some(distance)) => value(distance).filter(|by| *by < BEYOND),
    }
}

/// Writes out the distance of `bound`, if it is computed of whole numbers.
fn computed(bound: &mut WindowFrameBound) {
    let (WindowFrameBound::Preceding(Some(distance)) | WindowFrameBound::Following(Some(distance))) = bound else {
        return;
    };
    if !matches!(**distance, Expr::Value(_))
        && let Some(value) = value(distance).filter(|value| *value >= 0)
    {
        **distance = number(value);
    }
}

/// The whole number that `expr` is, if that can be told from the text.
fn value(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => value(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => value(expr)?.checked_neg(),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => value(expr),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } if is_whole(data_type) => {
            value(expr)
        }
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (value(left)?, value(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_whole(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::TinyInt(_)
            | T::SmallInt(_)
            | T::Int(_)
            | T::Integer(_)
            | T::BigInt(_)
            | T::HugeInt
            | T::Int2(_)
            | T::Int4(_)
            | T::Int8(_)
            | T::UTinyInt
            | T::USmallInt
            | T::UBigInt
    )
}
