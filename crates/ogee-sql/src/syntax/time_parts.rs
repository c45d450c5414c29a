//! Functions of times in other words: `date_trunc` to parts by other names, `date_part` with a list of parts, and the local time.
//!
//! Not here: parts that are functions by themselves, as in `year(d)`.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, TimezoneInfo, Value,
};

use ogee_functions::times::parts::part_named;

use crate::names::call;

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

/// `of` without what is smaller than `part`, by the name that the function has for it.
fn truncated(part: &str, of: &Expr) -> Option<Expr> {
    let known = part_named(part);
    (known != part).then(|| call("date_trunc", vec![text(&known), of.clone()]))
}
