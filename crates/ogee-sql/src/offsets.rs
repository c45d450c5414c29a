//! What `lag`, `lead` and `nth_value` are told beside their value, looked at before DataFusion casts one to another.
//!
//! DataFusion takes a NULL for no distance at all, where it is no row's, and casts any default to the type of the value: a date to a number of days. It drops the `DISTINCT` of
//! functions of windows.
//!
//! Not here: the functions.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::{DFSchema, Result, ScalarValue, plan_err},
    logical_expr::{
        Expr, ExprSchemable, WindowFunctionDefinition, expr::WindowFunction, lit, simplify::SimplifyContext,
    },
    optimizer::simplify_expressions::ExprSimplifier,
};
use ogee_functions::numbers::rounded;

/// `call` with a default of the type of its value, and with what its distance comes to; an error where the default is of another type, or the distance no whole number.
pub(crate) fn checked(call: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let name = call.fun.name().to_owned();
    if call.params.distinct && matches!(call.fun, WindowFunctionDefinition::WindowUDF(_)) {
        return plan_err!("{name} is of rows, and takes no DISTINCT");
    }
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
    let mut changed = false;
    if let [value, distance, ..] = call.params.args.as_mut_slice() {
        match distance.get_type(schema) {
            Ok(of) if !of.is_integer() && !of.is_null() => {
                return plan_err!("{name} takes a whole number of rows, not a value of type {of}");
            }
            _ => {}
        }
        match constant(distance) {
            // No row is so far away, not even one that a default stands for.
            Some(known) if known.is_null() => {
                let of = value.get_type(schema).unwrap_or(DataType::Null);
                call.params.args = vec![lit(ScalarValue::try_new_null(&of)?)];
                return Ok(true);
            }
            Some(known) if !matches!(distance, Expr::Literal(..)) => {
                *distance = lit(known);
                changed = true;
            }
            _ => {}
        }
    }
    let [value, _, default] = call.params.args.as_mut_slice() else { return Ok(changed) };
    let (Ok(of), Ok(from)) = (value.get_type(schema), default.get_type(schema)) else { return Ok(changed) };
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
    Ok(changed)
}

/// What `expr` is for all rows, as far as it can be told.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    if expr.any_column_refs() {
        return None;
    }
    let schema = Arc::new(DFSchema::empty());
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(Arc::clone(&schema)).build());
    let coerced = simplifier.coerce(expr.clone(), &schema).ok()?;
    match simplifier.simplify(coerced).ok()? {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}
