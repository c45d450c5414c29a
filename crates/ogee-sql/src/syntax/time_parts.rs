//! Functions of times in other words: `date_trunc` to parts that DataFusion has by another name or not at all, `date_part` with a list of parts, and the local time.
//!
//! Not here: parts that are functions by themselves, as in `year(d)`.

use datafusion::sql::sqlparser::{
    ast::{
        BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
        TimezoneInfo, Value,
    },
    parser::Parser,
};

use ogee_functions::times::INTERVAL_UNITS;

use crate::{dialect::OgeeDialect, names::call};

use super::text;

/// What `function`, called `name`, is in other words, if it is one of those.
pub(super) fn in_function(name: &str, function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return of_name(name) };
    let args: Vec<&Expr> = list
        .args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect::<Option<_>>()?;
    match (name, &args[..]) {
        ("date_trunc" | "datetrunc", [part, of]) => truncated(&text_of(part)?, of),
        ("date_part" | "datepart", [Expr::Array(parts), of]) => {
            let fields = parts.elem.iter().map(|part| Some((part, text_of(part)?))).collect::<Option<Vec<_>>>()?;
            let fields = fields.into_iter().flat_map(|(part, name)| {
                [text(&name.to_ascii_lowercase()), call("date_part", vec![part.clone(), (*of).clone()])]
            });
            Some(call("named_struct", fields.collect()))
        }
        ("current_localtime", []) => Some(local_time()),
        ("current_localtimestamp", []) => Some(local_timestamp()),
        _ => None,
    }
}

/// What a name without quotes is that stands for the local time.
pub(super) fn of_name(name: &str) -> Option<Expr> {
    match name {
        name if name.eq_ignore_ascii_case("localtime") => Some(local_time()),
        name if name.eq_ignore_ascii_case("localtimestamp") => Some(local_timestamp()),
        _ => None,
    }
}

fn local_timestamp() -> Expr {
    cast(call("now", Vec::new()), DataType::Timestamp(Some(6), TimezoneInfo::None))
}

fn local_time() -> Expr {
    cast(local_timestamp(), DataType::Time(None, TimezoneInfo::None))
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn number(number: u32) -> Expr {
    Expr::value(Value::Number(number.to_string(), false))
}

fn interval(unit: &str) -> Option<Expr> {
    Parser::new(&OgeeDialect).try_with_sql(&format!("INTERVAL '{unit}'")).ok()?.parse_expr().ok()
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
}

/// `of` without what is smaller than `part`, where DataFusion does not do that.
fn truncated(part: &str, of: &Expr) -> Option<Expr> {
    let truncated = |part: &str| call("date_trunc", vec![text(part), of.clone()]);
    let part_of = |part: &str| call("date_part", vec![text(part), of.clone()]);
    let back = |part: &str, unit: &str, count: Expr| {
        let units = call(INTERVAL_UNITS, vec![interval(unit)?, count]);
        Some(binary(truncated(part), BinaryOperator::Minus, units))
    };
    // Infinite moments have no parts, and stay where they are.
    let or_none = |count: Expr| call("coalesce", vec![count, number(0)]);
    let years =
        |count: u32| back("year", "1 year", or_none(binary(part_of("year"), BinaryOperator::Modulo, number(count))));
    let known = match part.to_ascii_lowercase().as_str() {
        "decade" | "decades" | "dec" | "decs" => return years(10),
        "century" | "centuries" | "cent" | "c" => return years(100),
        "millennium" | "millennia" | "millenium" | "mil" | "mils" => return years(1000),
        "isoyear" => {
            let weeks = binary(part_of("week"), BinaryOperator::Minus, number(1));
            return back("week", "7 days", or_none(weeks));
        }
        "milliseconds" | "ms" | "msec" | "msecs" => "millisecond",
        "microseconds" | "us" | "usec" | "usecs" => "microsecond",
        "seconds" | "sec" | "secs" | "s" | "epoch" => "second",
        "minutes" | "min" | "mins" | "m" => "minute",
        "hours" | "hr" | "hrs" | "h" => "hour",
        "days" | "d" | "dayofmonth" | "dow" | "dayofweek" | "weekday" | "isodow" | "doy" | "dayofyear" | "julian" => {
            "day"
        }
        "weeks" | "w" | "weekofyear" | "yearweek" => "week",
        "months" | "mon" | "mons" => "month",
        "quarters" => "quarter",
        "years" | "yr" | "yrs" | "y" => "year",
        _ => return None,
    };
    Some(truncated(known))
}
