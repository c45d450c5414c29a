//! `TRY(expr)`: what an expression gives, or NULL in the rows where it fails.
//!
//! The arguments of a function are evaluated before it is called, and fail there. So the expression is the body of a lambda that captures its columns, and the function evaluates it: all
//! rows at once, and where that fails by halves, until each row that fails is alone. What is no fault of a value, such as a lack of memory or an interrupt, is an error all the same.
//!
//! Not here: how it is written (`ogee-sql`).

use std::{ops::Range, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, BooleanArray, new_empty_array, new_null_array},
        compute::concat,
        datatypes::{DataType, Field, FieldRef},
    },
    common::{DataFusionError, Result, plan_err},
    logical_expr::{
        ColumnarValue, Expr, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF,
        HigherOrderUDFImpl, LambdaParametersProgress, ValueOrLambda, Volatility,
    },
};

use crate::error::Error;

/// The function that `TRY(expr)` becomes: of a constant, which is no concern of it, and the lambda.
pub const TRY: &str = "ogee_try";

/// The function to register in a session.
pub(crate) fn function() -> Arc<HigherOrderUDF> {
    let signature = HigherOrderSignature::variadic_any(Volatility::Immutable);
    Arc::new(HigherOrderUDF::new_from_impl(Try { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Try {
    signature: HigherOrderSignature,
}

/// The lambda among the arguments.
fn lambda<V, L>(args: &[ValueOrLambda<V, L>]) -> Result<&L> {
    match args {
        [ValueOrLambda::Value(_), ValueOrLambda::Lambda(lambda)] => Ok(lambda),
        _ => plan_err!("TRY takes one expression"),
    }
}

/// Whether `error` is one of the values that an expression was given.
fn is_of_values(error: &DataFusionError) -> bool {
    // Overflows, and what no function takes.
    matches!(Error::from(error).code(), "OGEE_X001" | "OGEE_Q002" | "OGEE_Q003" | "OGEE_Q007")
}

/// Appends what `evaluate` gives for `rows`, of type `data_type`, to `pieces`: NULL where it fails.
fn by_halves(
    rows: Range<usize>,
    evaluate: &dyn Fn(Range<usize>) -> Result<ArrayRef>,
    data_type: &DataType,
    pieces: &mut Vec<ArrayRef>,
) -> Result<()> {
    match evaluate(rows.clone()) {
        Ok(values) => pieces.push(values),
        Err(error) if !is_of_values(&error) => return Err(error),
        Err(_) if rows.len() == 1 => pieces.push(new_null_array(data_type, 1)),
        Err(_) => {
            let middle = rows.start + rows.len() / 2;
            by_halves(rows.start..middle, evaluate, data_type, pieces)?;
            by_halves(middle..rows.end, evaluate, data_type, pieces)?;
        }
    }
    Ok(())
}

/// What `evaluate` gives for so many rows.
fn tried(rows: usize, evaluate: &dyn Fn(Range<usize>) -> Result<ArrayRef>, data_type: &DataType) -> Result<ArrayRef> {
    if rows == 0 {
        return Ok(new_empty_array(data_type));
    }
    let mut pieces = Vec::new();
    by_halves(0..rows, evaluate, data_type, &mut pieces)?;
    if let [all] = &pieces[..] {
        return Ok(Arc::clone(all));
    }
    let pieces: Vec<&dyn Array> = pieces.iter().map(|piece| piece.as_ref()).collect();
    Ok(concat(&pieces)?)
}

impl HigherOrderUDFImpl for Try {
    fn name(&self) -> &str {
        TRY
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let body = args.get(1).map(|lambda| match lambda {
            Expr::Lambda(lambda) => lambda.body.schema_name().to_string(),
            other => other.schema_name().to_string(),
        });
        Ok(format!("try({})", body.unwrap_or_default()))
    }

    fn coerce_value_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        _fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let parameter = Arc::new(Field::new("", DataType::Boolean, true));
        Ok(LambdaParametersProgress::Complete(vec![vec![parameter]]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let field = lambda(args.arg_fields)?;
        Ok(Arc::new(field.as_ref().clone().with_name("").with_nullable(true)))
    }

    /// Parts of the expression that other expressions have, too, are not evaluated outside of it.
    fn short_circuits(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let lambda = lambda(&args.args)?;
        let evaluate = |rows: Range<usize>| {
            let parameter = || -> Result<ArrayRef> { Ok(Arc::new(BooleanArray::from(vec![true; rows.len()]))) };
            let captured = |captured: &[ArrayRef]| {
                Ok(captured.iter().map(|column| column.slice(rows.start, rows.len())).collect())
            };
            lambda.evaluate(&[&parameter], captured)?.into_array(rows.len())
        };
        Ok(ColumnarValue::Array(tried(args.number_rows, &evaluate, args.return_field.data_type())?))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::cell::Cell;

    use datafusion::{
        arrow::array::Int64Array,
        common::{exec_err, resources_err},
    };

    use super::*;

    #[test]
    fn rows_that_fail_are_null() {
        let calls = Cell::new(0);
        let evaluate = |rows: Range<usize>| -> Result<ArrayRef> {
            calls.set(calls.get() + 1);
            match rows.contains(&0) || rows.contains(&77) {
                true => exec_err!("no"),
                false => Ok(Arc::new(Int64Array::from_iter_values(rows.map(|row| row as i64)))),
            }
        };
        let values = tried(100, &evaluate, &DataType::Int64).unwrap();
        let expected: Int64Array = (0..100).map(|row| (row != 0 && row != 77).then_some(row)).collect();
        assert_eq!(values.as_ref(), &expected as &dyn Array);
        assert!(calls.get() < 40, "{}", calls.get());
        assert_eq!(tried(0, &evaluate, &DataType::Int64).unwrap().len(), 0);
    }

    #[test]
    fn a_lack_of_memory_is_an_error() {
        let evaluate = |_: Range<usize>| -> Result<ArrayRef> { resources_err!("no room") };
        assert!(tried(10, &evaluate, &DataType::Int64).is_err());
        let interrupted = |_: Range<usize>| -> Result<ArrayRef> { Err(Error::Interrupted.into()) };
        assert!(tried(10, &interrupted, &DataType::Int64).is_err());
    }
}
