//! Integer arithmetic that never wraps silently: functions that go by the operators' names.
//!
//! DataFusion's `+`, `-`, `*` and unary `-` on integers wrap. These report overflow. They are called as the operators are, so that column names do not change.
//!
//! Not here: sums (see `checked_sum`), arithmetic of decimals (`decimals`) and shifts (`bits`).

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{
        compute::kernels::numeric,
        datatypes::{DataType, Field, FieldRef},
    },
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, type_coercion::binary::type_union_coercion,
    },
    physical_expr_common::datum::apply,
};

/// The function that stands for `op` between integers of one type, if it may wrap.
pub fn checked(op: Operator) -> Option<&'static Arc<ScalarUDF>> {
    match op {
        Operator::Plus => Some(&ADD),
        Operator::Minus => Some(&SUBTRACT),
        Operator::Multiply => Some(&MULTIPLY),
        _ => None,
    }
}

/// The function that stands for the minus sign before an integer.
pub fn negate() -> &'static Arc<ScalarUDF> {
    &NEGATE
}

static ADD: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("+", 2));
static SUBTRACT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("-", 2));
static MULTIPLY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("*", 2));
static NEGATE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("-", 1));

fn function(operator: &'static str, args: usize) -> Arc<ScalarUDF> {
    let signature = Signature::any(args, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(CheckedFunction { operator, args, signature }))
}

/// The field of what `function` gives, which may be NULL if an argument may: as that of the operator or cast that it stands for. Schemas of nodes above were made with
/// that, and DataFusion refuses a plan that differs from them.
pub fn as_nullable_as_args(function: &impl ScalarUDFImpl, args: &ReturnFieldArgs) -> Result<FieldRef> {
    let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
    let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
    Ok(Arc::new(Field::new(function.name(), function.return_type(&types)?, nullable)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedFunction {
    operator: &'static str,
    args: usize,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedFunction {
    fn name(&self) -> &str {
        self.operator
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The type of both: of two only while the type of a lambda's parameter is still sought.
    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [left, right] if left != right => Ok(type_union_coercion(left, right).unwrap_or_else(|| left.clone())),
            _ => Ok(arg_types[0].clone()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        as_nullable_as_args(self, &args)
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("{left} {} {right}", self.operator),
            args => format!("(- {})", args[0]),
        })
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("{} {} {}", left.schema_name(), self.operator, right.schema_name()),
            args => format!("(- {})", args[0].schema_name()),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.operator, args.args.as_slice()) {
            ("+", [left, right]) => apply(left, right, numeric::add),
            ("-", [left, right]) => apply(left, right, numeric::sub),
            ("*", [left, right]) => apply(left, right, numeric::mul),
            (_, [ColumnarValue::Array(array)]) => Ok(ColumnarValue::Array(numeric::neg(array)?)),
            (_, [ColumnarValue::Scalar(scalar)]) => {
                let negated = numeric::neg(&scalar.to_array_of_size(1)?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&negated, 0)?))
            }
            _ => unreachable!("the signature fixes the number of arguments"),
        }
    }
}
