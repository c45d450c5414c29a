//! Types of what `lag`, `lead` and `nth_value` are told beside their value, looked at before DataFusion casts one to another.
//!
//! DataFusion takes a NULL for no distance at all, and casts any default to the type of the value: a date to a number of days.
//!
//! Not here: the functions.

use datafusion::{
    arrow::datatypes::DataType,
    common::{DFSchema, Result, ScalarValue, plan_err},
    logical_expr::{Expr, ExprSchemable, expr::WindowFunction},
};

use crate::numbers::rounded;

/// `call` with a default of the type of its value; an error where it has none, or no whole number for a distance.
pub(crate) fn checked(call: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let name = call.fun.name().to_owned();
    // DataFusion counts from the end of the frame.
    if name == "nth_value"
        && let Some(Expr::Literal(nth @ ScalarValue::Int64(Some(..0)), _)) = call.params.args.get_mut(1)
    {
        *nth = ScalarValue::Int64(Some(0));
        return Ok(true);
    }
    if !matches!(name.as_str(), "lag" | "lead") {
        return Ok(false);
    }
    if let Some(distance) = call.params.args.get(1) {
        match distance.get_type(schema) {
            Ok(of) if !of.is_integer() => {
                return plan_err!("{name} takes a whole number of rows, not a value of type {of}");
            }
            _ => {}
        }
        if matches!(distance, Expr::Literal(value, _) if value.is_null()) {
            return plan_err!("{name} takes a whole number of rows, not NULL");
        }
    }
    let [value, _, default] = call.params.args.as_mut_slice() else { return Ok(false) };
    let (Ok(of), Ok(from)) = (value.get_type(schema), default.get_type(schema)) else { return Ok(false) };
    let same_kind = of == from
        || from.is_null()
        || (of.is_numeric() && from.is_numeric())
        || (of.is_temporal() && from.is_temporal())
        || from.is_string()
        || (of.is_nested() && from.is_nested());
    if !same_kind {
        return plan_err!("{name} of values of type {of} takes no default of type {from}; cast it");
    }
    let has_fraction = matches!(from, DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, 1..));
    if let Expr::Literal(literal, metadata) = default
        && of.is_integer()
        && has_fraction
    {
        let whole = rounded(&literal.to_array_of_size(1)?)?;
        *default = Expr::Literal(ScalarValue::try_from_array(&whole, 0)?.cast_to(&of)?, metadata.clone());
        return Ok(true);
    }
    Ok(false)
}
