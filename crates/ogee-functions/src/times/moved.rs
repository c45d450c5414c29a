//! Casts between dates and timestamps, and moments without a zone moved by intervals and days, where some of them may be infinite.
//!
//! A cast tells which values it makes one of: filters on it become filters on what is cast, which statistics of files are asked about.
//!
//! Not here: instants (`instants`), and where a plan needs these functions (`ogee_sql`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Date32Array},
        compute::{
            cast,
            kernels::numeric::{add, sub},
        },
        datatypes::{DataType, Date32Type, Field, FieldRef, Int64Type, TimeUnit},
    },
    common::{Result, ScalarValue, exec_datafusion_err},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction, interval_arithmetic::Interval, preimage::PreimageResult, simplify::SimplifyContext,
    },
};

use super::{
    Zone,
    infinite::{cast_moments, in_range, is_infinite_day, is_infinite_value, kept, units_of_second},
};
use crate::function::{Function, Shown};

/// Whether casts from one of the types to the other are [`moment_cast`]s.
pub fn is_moment_cast(from: &DataType, to: &DataType) -> bool {
    let is_moment = |of: &DataType| matches!(of, DataType::Date32 | DataType::Timestamp(..));
    let is_time = matches!(to, DataType::Time32(_) | DataType::Time64(_));
    from != to && is_moment(from) && (is_moment(to) || is_time && *from != DataType::Date32)
}

/// The cast of `expr`, a date or timestamp, to another type of them; both with a zone, or none. `tries`: what is out of range is NULL.
pub fn moment_cast(expr: Expr, to: &DataType, tries: bool) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = ScalarUDF::new_from_impl(MomentCast { to: to.clone(), tries, signature });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MomentCast {
    to: DataType,
    tries: bool,
    signature: Signature,
}

/// How many of a unit a day has.
fn units_of_day(unit: TimeUnit) -> i64 {
    86_400 * units_of_second(unit)
}

fn timestamp(count: i64, unit: TimeUnit) -> ScalarValue {
    match unit {
        TimeUnit::Second => ScalarValue::TimestampSecond(Some(count), None),
        TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(Some(count), None),
        TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(Some(count), None),
        TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(Some(count), None),
    }
}

fn count_of(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampSecond(count, None)
        | ScalarValue::TimestampMillisecond(count, None)
        | ScalarValue::TimestampMicrosecond(count, None)
        | ScalarValue::TimestampNanosecond(count, None) => *count,
        _ => None,
    }
}

/// Values of type `from` that are cast to `value` of type `to`: from the first on, and before the second. `None` if there are none.
fn cast_from(from: &DataType, to: &DataType, value: &ScalarValue) -> Option<(ScalarValue, ScalarValue)> {
    if is_infinite_value(value) {
        return None;
    }
    match (from, to) {
        (DataType::Date32, DataType::Timestamp(unit, None)) => {
            let (count, day) = (count_of(value)?, units_of_day(*unit));
            let day = i32::try_from(count / day).ok().filter(|_| count % day == 0)?;
            Some((ScalarValue::Date32(Some(day)), ScalarValue::Date32(Some(day.checked_add(1)?))))
        }
        (DataType::Timestamp(unit, None), DataType::Date32) => {
            let ScalarValue::Date32(Some(day)) = value else { return None };
            let first = i64::from(*day).checked_mul(units_of_day(*unit))?;
            Some((timestamp(first, *unit), timestamp(first.checked_add(units_of_day(*unit))?, *unit)))
        }
        _ => None,
    }
}

impl ScalarUDFImpl for MomentCast {
    fn name(&self) -> &str {
        if self.tries { "ogee_try_moment_cast" } else { "ogee_moment_cast" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = self.tries || args.arg_fields[0].is_nullable();
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), is_nullable)))
    }

    fn preimage(&self, args: &[Expr], lit_expr: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        let ([expr], Expr::Literal(value, _)) = (args, lit_expr) else { return Ok(PreimageResult::None) };
        let from = info.get_data_type(expr)?;
        Ok(match cast_from(&from, &self.to, value).filter(|_| !self.tries) {
            Some((first, end)) => {
                PreimageResult::Range { expr: expr.clone(), interval: Box::new(Interval::try_new(first, end)?) }
            }
            None => PreimageResult::None,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = |array: &ArrayRef| match array.data_type().is_null() {
            true => Ok(cast(array, &self.to)?),
            false => cast_moments(array, &self.to, self.tries),
        };
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(of(array)?),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&of(&value.to_array()?)?, 0)?)
            }
        })
    }
}

/// `moment + interval`, or `moment - interval`, of a date or a timestamp without a zone.
pub fn move_moment(moment: Expr, interval: Expr, back: bool) -> Expr {
    fn moved(args: &[ArrayRef], back: bool) -> Result<ArrayRef> {
        if args.iter().any(|arg| arg.data_type().is_null()) {
            return Ok(datafusion::arrow::array::new_null_array(args[0].data_type(), args[0].len()));
        }
        let by = &args[1];
        kept(&args[0], |moments| {
            let moved = if back { sub(moments, by)? } else { add(moments, by)? };
            in_range(moved)
        })
    }
    fn returns(args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }
    let function = match back {
        true => Function::new("ogee_moment_minus", 2, returns, |args, _| moved(args, true)).shown(Shown::Operator("-")),
        false => {
            Function::new("ogee_moment_plus", 2, returns, |args, _| moved(args, false)).shown(Shown::Operator("+"))
        }
    };
    function.call(vec![moment, interval])
}

/// The day that is `count` days behind `date`, or before it if `back`.
pub fn move_days(date: Expr, count: Expr, back: bool) -> Expr {
    fn moved(args: &[ArrayRef], sign: i64) -> Result<ArrayRef> {
        let days = cast(&args[0], &DataType::Date32)?;
        let counts = cast(&args[1], &DataType::Int64)?;
        let out_of_range = || exec_datafusion_err!("date out of range");
        let of = |day: i32, count: i64| {
            if is_infinite_day(day) {
                return Ok(day);
            }
            let moved = count.checked_mul(sign).and_then(|count| i64::from(day).checked_add(count));
            let moved = moved.and_then(|day| i32::try_from(day).ok()).filter(|day| !is_infinite_day(*day));
            moved.ok_or_else(out_of_range)
        };
        let days = days.as_primitive::<Date32Type>().iter().zip(counts.as_primitive::<Int64Type>());
        let days = days.map(|(day, count)| day.zip(count).map(|(day, count)| of(day, count)).transpose());
        Ok(Arc::new(days.collect::<Result<Date32Array>>()?))
    }
    let returns = |_: &[DataType]| Ok(DataType::Date32);
    let body = |args: &[ArrayRef], _: &Zone| moved(args, 1);
    let function = match back {
        true => Function::new("ogee_day_minus", 2, returns, |args, _| moved(args, -1)).shown(Shown::Operator("-")),
        false => Function::new("ogee_day_plus", 2, returns, body).shown(Shown::Operator("+")),
    };
    function.call(vec![date, count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_know_what_they_are_of() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let date = |day| ScalarValue::Date32(Some(day));
        let at = |count| ScalarValue::TimestampMicrosecond(Some(count), None);
        let day = 86_400_000_000;
        assert_eq!(cast_from(&DataType::Date32, &micros, &at(-day)), Some((date(-1), date(0))));
        assert_eq!(cast_from(&DataType::Date32, &micros, &at(1)), None);
        assert_eq!(cast_from(&micros, &DataType::Date32, &date(-1)), Some((at(-day), at(0))));
        assert_eq!(cast_from(&micros, &DataType::Date32, &date(i32::MAX)), None);
        assert_eq!(cast_from(&micros, &DataType::Date32, &date(i32::MAX - 1)), None);
        assert_eq!(cast_from(&DataType::Date32, &micros, &at(i64::MAX)), None);
    }
}
