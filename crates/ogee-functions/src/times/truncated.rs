//! DataFusion's `date_trunc`, `to_char` and `to_timestamp`, which know no infinite moments: truncated, these stay infinite, they have no text in a format, and numbers that are too great
//! are none.
//!
//! Not here: `strftime` (`formats`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::Array,
        datatypes::{DataType, FieldRef},
    },
    common::{Result, ScalarValue, exec_err, internal_err},
    functions::datetime,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        simplify::{ExprSimplifyResult, SimplifyContext},
        sort_properties::{ExprProperties, SortProperties},
    },
};

use super::{
    infinite::{Infinite, in_range, is_infinite_value},
    parts::by_part,
};

/// `date_trunc(part, moment)`.
pub fn date_trunc() -> ScalarUDF {
    ScalarUDF::new_from_impl(OfFinite { function: datetime::date_trunc(), moment: 1, stays: true })
}

/// `to_char(moment, format)`.
pub fn to_char() -> ScalarUDF {
    ScalarUDF::new_from_impl(OfFinite { function: datetime::to_char(), moment: 0, stays: false })
}

/// `function`, which makes moments, without infinite ones.
pub fn in_range_only(function: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::new_from_impl(InRange(function))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InRange(Arc<ScalarUDF>);

impl ScalarUDFImpl for InRange {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.0.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(arg_types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.0.invoke_with_args(args)? {
            ColumnarValue::Scalar(value) if is_infinite_value(&value) => exec_err!("timestamp out of range"),
            ColumnarValue::Scalar(value) => Ok(ColumnarValue::Scalar(value)),
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(in_range(array)?)),
        }
    }
}

/// A function of moments that are finite.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfFinite {
    function: Arc<ScalarUDF>,
    /// The argument that is a moment.
    moment: usize,
    /// Whether it gives moments that are infinite for those that are; else NULL.
    stays: bool,
}

impl ScalarUDFImpl for OfFinite {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = self.function.return_field_from_args(args)?;
        Ok(if self.stays { field } else { Arc::new(field.as_ref().clone().with_nullable(true)) })
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(arg_types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.function.simplify(args, info)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.output_ordering(inputs)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Of `date_trunc`, whose unit differs from row to row.
        if let (1, ColumnarValue::Array(units)) = (self.moment, &args.args[0]) {
            let moments = args.args[1].clone().into_array(args.number_rows)?;
            let truncated = by_part(units, &moments, args.return_field.data_type(), |unit, moments| {
                let rows = moments.len();
                let of_unit = ScalarFunctionArgs {
                    args: vec![ColumnarValue::Scalar(ScalarValue::from(unit)), ColumnarValue::Array(moments)],
                    arg_fields: args.arg_fields.clone(),
                    number_rows: rows,
                    return_field: Arc::clone(&args.return_field),
                    config_options: Arc::clone(&args.config_options),
                };
                self.invoke_with_args(of_unit)?.into_array(rows)
            })?;
            return Ok(ColumnarValue::Array(truncated));
        }
        let moments = match &args.args[self.moment] {
            ColumnarValue::Scalar(value) if is_infinite_value(value) && self.stays => {
                return Ok(ColumnarValue::Scalar(value.clone()));
            }
            ColumnarValue::Scalar(value) if is_infinite_value(value) => {
                return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_field.data_type())?));
            }
            ColumnarValue::Scalar(_) => return self.function.invoke_with_args(args),
            ColumnarValue::Array(moments) => Arc::clone(moments),
        };
        // What is NULL is computed with, too, whatever number it is.
        let none = || (moments.null_count() > 0).then(|| Infinite::none(moments.len()));
        let Some(infinite) = Infinite::of(&moments).or_else(none) else { return self.function.invoke_with_args(args) };
        args.args[self.moment] = ColumnarValue::Array(infinite.left_out(&moments)?);
        match self.function.invoke_with_args(args)? {
            ColumnarValue::Array(array) if self.stays => Ok(ColumnarValue::Array(infinite.put_in(&array)?)),
            ColumnarValue::Scalar(_) if self.stays => internal_err!("a constant for a column of moments"),
            without => Ok(without),
        }
    }
}
