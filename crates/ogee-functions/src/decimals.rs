//! Sums, differences and products of decimals that may have more than 38 digits: an error, whoever evaluates them.
//!
//! Arrow keeps 128 bits, in which some numbers of 39 digits have room, and says nothing of them. The engine's kernels do (`ogee_exec::DecimalArithmetic`), but constants are
//! folded, and some nodes run, in DataFusion. Where the types of both sides leave room for an overflow, a function takes the place of the operator; the
//! engine knows it by [`operator`].
//!
//! Not here: whole numbers (`arithmetic`), quotients, which are floats (`ogee_sql`, `quotients`).

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray},
        compute::kernels::numeric,
        datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type},
        error::ArrowError,
    },
    common::Result,
    logical_expr::{
        ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        type_coercion::binary::BinaryTypeCoercer,
    },
    physical_expr::{PhysicalExpr, ScalarFunctionExpr},
    physical_expr_common::datum::apply,
};
use ogee_exec::ExecError;

use crate::error::to_datafusion;

/// The function that is `op` with a check, if both types are of decimals whose result may have a digit too many.
pub fn checked(op: Operator, left: &DataType, right: &DataType) -> Option<&'static Arc<ScalarUDF>> {
    let (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) = (left, right) else { return None };
    let [p1, s1, p2, s2] = [i32::from(*p1), i32::from(*s1), i32::from(*p2), i32::from(*s2)];
    let (function, digits) = match op {
        Operator::Plus => (&*ADD, s1.max(s2) + (p1 - s1).max(p2 - s2) + 1),
        Operator::Minus => (&*SUBTRACT, s1.max(s2) + (p1 - s1).max(p2 - s2) + 1),
        Operator::Multiply => (&*MULTIPLY, p1 + p2),
        _ => return None,
    };
    (digits > i32::from(DECIMAL128_MAX_PRECISION)).then_some(function)
}

/// What is left of an operator, the operator, and what is right of it.
pub type Sides<'a> = (&'a Arc<dyn PhysicalExpr>, Operator, &'a Arc<dyn PhysicalExpr>);

/// The sides and the operator, if `expr` is one with a check.
pub fn operator(expr: &Arc<dyn PhysicalExpr>) -> Option<Sides<'_>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let function = call.fun().inner().downcast_ref::<Checked>()?;
    let [left, right] = call.args() else { return None };
    Some((left, function.operator, right))
}

static ADD: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("+", Operator::Plus));
static SUBTRACT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("-", Operator::Minus));
static MULTIPLY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("*", Operator::Multiply));

fn function(name: &'static str, operator: Operator) -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Checked { name, operator, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    name: &'static str,
    operator: Operator,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        BinaryTypeCoercer::new(&arg_types[0], &self.operator, &arg_types[1]).get_result_type()
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} {} {}", args[0], self.name, args[1]))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} {} {}", args[0].schema_name(), self.name, args[1].schema_name()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type();
        let overflow = || to_datafusion(ExecError::Overflow { operation: self.name, data_type: data_type.to_string() });
        let fits = |result: ArrayRef| -> Result<ArrayRef, ArrowError> {
            let digits = result.as_primitive::<Decimal128Type>().validate_decimal_precision(DECIMAL128_MAX_PRECISION);
            digits.map_err(|_| ArrowError::ExternalError(Box::new(overflow())))?;
            Ok(result)
        };
        apply(&args.args[0], &args.args[1], |left, right| {
            fits(
                match self.operator {
                    Operator::Plus => numeric::add(left, right),
                    Operator::Minus => numeric::sub(left, right),
                    _ => numeric::mul(left, right),
                }
                .map_err(|error| match error {
                    ArrowError::ArithmeticOverflow(_) => ArrowError::ExternalError(Box::new(overflow())),
                    other => other,
                })?,
            )
        })
    }
}
