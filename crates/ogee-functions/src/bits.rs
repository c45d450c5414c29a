//! Shifts that lose no bits, and operators on bits that take whole numbers only.
//!
//! DataFusion takes the distance of a shift modulo the width of the number, so that `1 << 64` is 1, and turns decimals and floats to whole numbers first. As in DuckDB,
//! what does not fit is an error, bits that are shifted out to the right leave nothing, and numbers with a fraction have no bits. `HUGEINT`, a decimal of 38
//! digits, is shifted as such.
//!
//! Not here: `^`, which is a power (`ogee_sql`, `syntax`).

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray},
        compute::cast as cast_array,
        datatypes::{
            DataType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
            UInt64Type,
        },
    },
    common::{DFSchema, Result, ScalarValue, exec_err, internal_err, plan_err},
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, cast,
        expr::ScalarFunction,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};
use ogee_exec::ExecError;

use crate::{
    error::to_datafusion,
    function::{Function, Shown},
    numbers::HUGEINT,
    times::Zone,
    type_names::sql_name,
};

/// Plans operators on bits.
#[derive(Debug)]
pub struct Bits;

impl ExprPlanner for Bits {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as Op;
        let shift = match expr.op {
            Op::PGBitwiseShiftLeft => Some(&*LEFT),
            Op::PGBitwiseShiftRight => Some(&*RIGHT),
            Op::BitwiseAnd | Op::BitwiseOr => None,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        for side in [&left, &right] {
            if side.is_floating() || matches!(side, DataType::Decimal128(_, 1..) | DataType::Decimal256(_, 1..)) {
                return plan_err!(
                    "{} takes whole numbers, not values of type {}; cast the argument",
                    expr.op,
                    sql_name(side)
                );
            }
        }
        let Some(shift) = shift else {
            let is_huge = |side: &DataType| matches!(side, DataType::Decimal128(_, 0));
            let is_whole = |side: &DataType| is_huge(side) || side.is_integer() || side.is_null();
            if !(is_huge(&left) || is_huge(&right)) || !is_whole(&left) || !is_whole(&right) {
                return Ok(PlannerResult::Original(expr));
            }
            let function = if expr.op == Op::BitwiseAnd { huge_and() } else { huge_or() };
            let sides = [(expr.left, left), (expr.right, right)];
            let sides = sides.map(|(side, from)| if from == HUGEINT { side } else { cast(side, HUGEINT) });
            return Ok(PlannerResult::Planned(function.call(sides.into())));
        };
        let to = match &left {
            left if left.is_integer() => left.clone(),
            DataType::Decimal128(_, 0) => HUGEINT,
            DataType::Null => DataType::Int64,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        if !right.is_integer() && !right.is_null() && !matches!(right, DataType::Decimal128(_, 0)) {
            return Ok(PlannerResult::Original(expr));
        }
        let typed = |expr: Expr, from: DataType, to: DataType| if from == to { expr } else { cast(expr, to) };
        let args = vec![typed(expr.left, left, to), typed(expr.right, right, DataType::Int64)];
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(shift), args))))
    }
}

/// `&` of `HUGEINT`.
fn huge_and() -> Function {
    let body = |args: &[ArrayRef], _: &Zone| of_huge(args, |left, right| left & right);
    Function::new("ogee_huge_and", 2, |_| Ok(HUGEINT), body).shown(Shown::Operator("&"))
}

/// `|` of `HUGEINT`.
fn huge_or() -> Function {
    let body = |args: &[ArrayRef], _: &Zone| of_huge(args, |left, right| left | right);
    Function::new("ogee_huge_or", 2, |_| Ok(HUGEINT), body).shown(Shown::Operator("|"))
}

fn of_huge(args: &[ArrayRef], of: impl Fn(i128, i128) -> i128) -> Result<ArrayRef> {
    let sides = [cast_array(&args[0], &HUGEINT)?, cast_array(&args[1], &HUGEINT)?];
    let [left, right] = [0, 1].map(|side: usize| sides[side].as_primitive::<Decimal128Type>());
    let pairs = left.iter().zip(right).map(|pair| match pair {
        (Some(left), Some(right)) => match of(left, right) {
            result if result.unsigned_abs() < 10_u128.pow(38) => Ok(Some(result)),
            result => exec_err!("{result} has more digits than HUGEINT, which has 38"),
        },
        _ => Ok(None),
    });
    Ok(Arc::new(pairs.collect::<Result<PrimitiveArray<Decimal128Type>>>()?.with_data_type(HUGEINT)))
}

/// The function that is `op`, of whole numbers, if that is a shift.
pub fn shift_of(op: Operator) -> Option<&'static Arc<ScalarUDF>> {
    match op {
        Operator::BitwiseShiftLeft => Some(&*LEFT),
        Operator::BitwiseShiftRight => Some(&*RIGHT),
        _ => None,
    }
}

static LEFT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| shift("<<"));
static RIGHT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| shift(">>"));

fn shift(operator: &'static str) -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Shift { operator, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    operator: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Shift {
    fn name(&self) -> &str {
        self.operator
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} {} {}", args[0], self.operator, args[1]))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} {} {}", args[0].schema_name(), self.operator, args[1].schema_name()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let shifted = self.shifted(&arrays[0], &arrays[1])?;
        Ok(if all_scalars {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&shifted, 0)?)
        } else {
            ColumnarValue::Array(shifted)
        })
    }
}

impl Shift {
    fn shifted(&self, values: &ArrayRef, by: &ArrayRef) -> Result<ArrayRef> {
        let by = cast_array(by, &DataType::Int64)?;
        let by = by.as_primitive::<Int64Type>();
        macro_rules! of_width {
            ($t:ty, $bits:expr) => {{
                let narrow = |value: i128| <$t as ArrowPrimitiveType>::Native::try_from(value).ok();
                self.each::<$t>(values.as_primitive::<$t>(), by, $bits, narrow)
            }};
        }
        match values.data_type() {
            DataType::Int8 => of_width!(Int8Type, 8),
            DataType::Int16 => of_width!(Int16Type, 16),
            DataType::Int32 => of_width!(Int32Type, 32),
            DataType::Int64 => of_width!(Int64Type, 64),
            DataType::UInt8 => of_width!(UInt8Type, 8),
            DataType::UInt16 => of_width!(UInt16Type, 16),
            DataType::UInt32 => of_width!(UInt32Type, 32),
            DataType::UInt64 => of_width!(UInt64Type, 64),
            DataType::Decimal128(..) => {
                let fits = |value: i128| (value.unsigned_abs() < 10u128.pow(38)).then_some(value);
                self.each::<Decimal128Type>(values.as_primitive::<Decimal128Type>(), by, 128, fits)
            }
            other => internal_err!("{other} has no bits"),
        }
    }

    fn each<T: ArrowPrimitiveType>(
        &self,
        values: &PrimitiveArray<T>,
        by: &PrimitiveArray<Int64Type>,
        bits: i64,
        narrow: impl Fn(i128) -> Option<T::Native>,
    ) -> Result<ArrayRef>
    where
        T::Native: Into<i128>,
    {
        let left = self.operator == "<<";
        let shifted = values.iter().zip(by).map(|(value, by)| {
            let (Some(value), Some(by)) = (value, by) else { return Ok(None) };
            let value: i128 = value.into();
            let overflow = || {
                let data_type = values.data_type().to_string();
                to_datafusion(ExecError::Overflow { operation: "<<", data_type })
            };
            let shifted = match left {
                true if value < 0 => return exec_err!("<< takes no negative number, such as {value}"),
                true if by < 0 => return exec_err!("<< takes no negative distance, such as {by}"),
                true if value == 0 => Some(0),
                // Bits that leave 128 come back where they went.
                true => u32::try_from(by)
                    .ok()
                    .filter(|_| by < bits)
                    .and_then(|by| value.checked_shl(by).filter(|shifted| *shifted >= 0 && shifted >> by == value)),
                false if (0..bits).contains(&by) => Some(value >> by),
                false => Some(0),
            };
            shifted.and_then(&narrow).map(Some).ok_or_else(overflow)
        });
        let shifted = shifted.collect::<Result<PrimitiveArray<T>>>()?;
        Ok(Arc::new(shifted.with_data_type(values.data_type().clone())))
    }
}
