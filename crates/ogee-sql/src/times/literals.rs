//! Intervals in the text of a statement, put in the one form that DataFusion reads as it is meant: months, days and nanoseconds.
//!
//! Its own reading takes a unit's first letters for the unit, has no `01:02:03`, and applies a minus sign in front to the first part only.
//!
//! Not here: intervals that are known when the statement runs (`ogee_functions::times`).

use datafusion::{
    arrow::datatypes::IntervalMonthDayNano,
    sql::sqlparser::ast::{CastKind, DataType, DateTimeField, Expr, Interval, UnaryOperator, Value},
};
use ogee_functions::times::{
    INTERVAL_UNITS,
    intervals::{Unit, parse_interval},
};

use crate::names::call;

/// Puts an interval in the form that DataFusion reads.
pub(crate) fn in_interval(expr: &mut Expr) {
    let Expr::Interval(interval) = expr else { return };
    if interval.last_field.is_some()
        || interval.leading_precision.is_some()
        || interval.fractional_seconds_precision.is_some()
    {
        // Refused by name.
        return;
    }
    let value = std::mem::replace(&mut *interval.value, Expr::value(Value::Null));
    let field = interval.leading_field.take();
    *expr = match (literal(&value), field) {
        (Some(text), None) => match parse_interval(&text) {
            Ok(known) => written(known),
            Err(_) => to_interval(value),
        },
        (Some(text), Some(field)) => {
            let known = unit(&field).zip(text.trim().parse().ok()).map(|(unit, count): (Unit, f64)| unit.times(count));
            match known {
                Some(Ok(known)) => written(known),
                // Tells what is wrong when it is cast.
                _ => to_interval(Expr::value(Value::SingleQuotedString(format!("{text} {field}")))),
            }
        }
        (None, Some(field)) => match unit(&field).map(|unit| unit.times(1.0)) {
            Some(Ok(one)) => call(INTERVAL_UNITS, vec![written(one), value]),
            _ => to_interval(Expr::value(Value::SingleQuotedString(format!("1 {field}")))),
        },
        (None, None) => to_interval(value),
    };
}

/// Takes the minus sign before an interval into it.
pub(crate) fn in_minus(expr: &mut Expr) {
    let Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr else { return };
    let Expr::Interval(Interval { value, leading_field: None, .. }) = &**inner else { return };
    let known = literal(value).and_then(|text| read(&text));
    let negative = known.and_then(|known| {
        let (months, days) = (known.months.checked_neg()?, known.days.checked_neg()?);
        Some(IntervalMonthDayNano::new(months, days, known.nanoseconds.checked_neg()?))
    });
    if let Some(negative) = negative {
        *expr = written(negative);
    }
}

fn unit(field: &DateTimeField) -> Option<Unit> {
    Unit::named(&field.to_string())
}

/// The text of a constant: a string, or a number with its sign.
fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::Number(text, _) => Some(text.clone()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match &**expr {
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => Some(format!("-{text}")),
                _ => None,
            },
            _ => None,
        },
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

fn written(interval: IntervalMonthDayNano) -> Expr {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let text = format!("{months} months {days} days {nanoseconds} nanoseconds");
    Expr::Interval(Interval {
        value: Box::new(Expr::value(Value::SingleQuotedString(text))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}

/// What [`written`] wrote.
pub(super) fn read(text: &str) -> Option<IntervalMonthDayNano> {
    let mut words = text.split(' ');
    let (months, _, days, _, nanos) = (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    words.next().filter(|last| *last == "nanoseconds")?;
    Some(IntervalMonthDayNano::new(months.parse().ok()?, days.parse().ok()?, nanos.parse().ok()?))
}

fn to_interval(value: Expr) -> Expr {
    let data_type = DataType::Interval { fields: None, precision: None };
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(value), data_type, array: false, format: None }
}
