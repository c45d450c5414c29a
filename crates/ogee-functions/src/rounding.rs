//! `round`, `trunc`, `floor` and `ceil` that give the number nearest to what they are asked for, or an error.
//!
//! DataFusion's `round` and `trunc` multiply by a power of ten that may be infinite, `trunc` turns whole numbers to floats, and `floor` and `ceil` of decimals fail where the
//! result has a digit more. As in DuckDB: whole numbers stay such, halves go away from zero, and decimals keep the digits that are asked for.
//!
//! Not here: casts, which round as well (`numbers`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray},
        compute::{cast, unary},
        datatypes::{
            DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type, Int8Type,
            Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
        },
    },
    common::{Result, ScalarValue, internal_err, plan_err},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};
use ogee_exec::ExecError;

use crate::{error::to_datafusion, type_names::sql_name};

/// The functions to register in a session.
pub fn functions() -> Vec<ScalarUDF> {
    let function = |way, name, aliases: &[&str]| {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Rounding { way, name, aliases, signature })
    };
    vec![
        function(Way::Nearest, "round", &[]),
        function(Way::Zero, "trunc", &[]),
        function(Way::Down, "floor", &[]),
        function(Way::Up, "ceil", &["ceiling"]),
    ]
}

/// Where a number goes that has too many digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// To the nearest one, halves away from zero.
    Nearest,
    Zero,
    Down,
    Up,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounding {
    way: Way,
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

/// `10^38` has a digit too many.
const LIMIT: u128 = 10u128.pow(DECIMAL128_MAX_PRECISION as u32);

impl ScalarUDFImpl for Rounding {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name;
        let takes_digits = matches!(self.way, Way::Nearest | Way::Zero);
        let (value, digits) = match arg_types {
            [value] => (value, None),
            [value, digits] if takes_digits => (value, Some(digits)),
            _ if takes_digits => return plan_err!("{name} takes a number and how many digits it is to have"),
            _ => return plan_err!("{name} takes one number"),
        };
        let mut coerced = vec![match value {
            value if value.is_integer() && takes_digits => value.clone(),
            DataType::Decimal128(..) | DataType::Float32 | DataType::Float64 => value.clone(),
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                DataType::Decimal128(*precision, *scale)
            }
            value if value.is_numeric() || value.is_null() => DataType::Float64,
            value => {
                return plan_err!("{name} takes numbers, not values of type {}; cast the argument", sql_name(value));
            }
        }];
        coerced.extend(match digits {
            Some(digits) if digits.is_integer() || digits.is_null() => Some(DataType::Int64),
            Some(digits) => {
                return plan_err!("{name} takes a whole number of digits, not a value of type {digits}");
            }
            None => None,
        });
        Ok(coerced)
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type depends on the digits")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let data_type = match args.arg_fields[0].data_type() {
            DataType::Decimal128(precision, scale) => {
                let digits = match args.scalar_arguments.get(1) {
                    None => Some(0),
                    Some(digits) => digits.and_then(whole_number),
                };
                let (precision, scale) = self.decimal(*precision, *scale, digits);
                DataType::Decimal128(precision, scale)
            }
            other => other.clone(),
        };
        Ok(Arc::new(Field::new(self.name, data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let output = args.return_field.data_type();
        if let [ColumnarValue::Scalar(value), rest @ ..] = args.args.as_slice()
            && rest.iter().all(|digits| matches!(digits, ColumnarValue::Scalar(_)))
        {
            let digits = match rest {
                [digits] => Some(digits.to_array(1)?),
                _ => None,
            };
            let rounded = self.rounded(&value.to_array_of_size(1)?, digits.as_ref(), output)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?));
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        Ok(ColumnarValue::Array(self.rounded(&arrays[0], arrays.get(1), output)?))
    }
}

/// The number that `value` is, if it is a whole one.
fn whole_number(value: &ScalarValue) -> Option<i64> {
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(number)) if value.data_type().is_integer() => number,
        _ => None,
    }
}

impl Rounding {
    /// Precision and scale of decimals of those that were asked for `digits` after the point, if that is known.
    fn decimal(&self, precision: u8, scale: i8, digits: Option<i64>) -> (u8, i8) {
        let kept = match digits {
            Some(digits) => digits.clamp(0, i64::from(scale.max(0))) as i8,
            None => scale,
        };
        // 9.9 is rounded to 10.
        let carry = u8::from(self.way != Way::Zero);
        let precision = i16::from(precision) - i16::from(scale) + i16::from(kept) + i16::from(carry);
        (precision.clamp(i16::from(kept).max(1), i16::from(DECIMAL128_MAX_PRECISION)) as u8, kept)
    }

    fn rounded(&self, values: &ArrayRef, digits: Option<&ArrayRef>, output: &DataType) -> Result<ArrayRef> {
        let digits = match digits {
            Some(digits) => Some(cast(digits, &DataType::Int64)?),
            None => None,
        };
        let digits = digits.as_ref().map(|digits| digits.as_primitive::<Int64Type>());
        macro_rules! whole {
            ($t:ty) => {
                self.each::<$t, $t>(values, digits, |value, digits| {
                    let rounded = self.whole(i128::from(value), digits)?;
                    <$t as ArrowPrimitiveType>::Native::try_from(rounded).ok()
                })
            };
        }
        match values.data_type() {
            DataType::Float64 if digits.is_none() => {
                Ok(Arc::new(unary::<_, _, Float64Type>(values.as_primitive::<Float64Type>(), |v| self.float(v))))
            }
            DataType::Float32 if digits.is_none() => {
                let round = |value: f32| self.float(f64::from(value)) as f32;
                Ok(Arc::new(unary::<_, _, Float32Type>(values.as_primitive::<Float32Type>(), round)))
            }
            DataType::Float64 => {
                self.each::<Float64Type, Float64Type>(values, digits, |value, digits| Some(self.digits(value, digits)))
            }
            DataType::Float32 => self.each::<Float32Type, Float32Type>(values, digits, |value, digits| {
                Some(self.digits(f64::from(value), digits) as f32)
            }),
            DataType::Int8 => whole!(Int8Type),
            DataType::Int16 => whole!(Int16Type),
            DataType::Int32 => whole!(Int32Type),
            DataType::Int64 => whole!(Int64Type),
            DataType::UInt8 => whole!(UInt8Type),
            DataType::UInt16 => whole!(UInt16Type),
            DataType::UInt32 => whole!(UInt32Type),
            DataType::UInt64 => whole!(UInt64Type),
            DataType::Decimal128(_, scale) => {
                let DataType::Decimal128(_, kept) = *output else { return internal_err!("{output} of decimals") };
                let (scale, kept) = (i64::from(*scale), i64::from(kept));
                let rounded = self.each::<Decimal128Type, Decimal128Type>(values, digits, |value, digits| {
                    // Digits without the point: so many are dropped, and so many zeros put behind what is left.
                    let dropped = (scale - digits).max(0);
                    let rounded = self.without(value, dropped)?;
                    let zeros = u32::try_from(kept - scale + dropped).ok()?;
                    let padded = if rounded == 0 { 0 } else { rounded.checked_mul(10i128.checked_pow(zeros)?)? };
                    (padded.unsigned_abs() < LIMIT).then_some(padded)
                })?;
                let rounded = rounded.as_primitive::<Decimal128Type>().clone();
                Ok(Arc::new(rounded.with_data_type(output.clone())))
            }
            other => internal_err!("{} of {other}", self.name),
        }
    }

    /// `round` of each value and the digits asked for; 0 if nothing was. `None` is a value that does not fit.
    fn each<T: ArrowPrimitiveType, O: ArrowPrimitiveType>(
        &self,
        values: &ArrayRef,
        digits: Option<&Int64Array>,
        round: impl Fn(T::Native, i64) -> Option<O::Native>,
    ) -> Result<ArrayRef> {
        let values = values.as_primitive::<T>();
        let digits_of = |row: usize| match digits {
            Some(digits) => digits.is_valid(row).then(|| digits.value(row)),
            None => Some(0),
        };
        let rounded = values.iter().enumerate().map(|(row, value)| match (value, digits_of(row)) {
            (Some(value), Some(digits)) => round(value, digits).map(Some).ok_or_else(|| {
                let data_type = values.data_type().to_string();
                to_datafusion(ExecError::Overflow { operation: self.name, data_type })
            }),
            _ => Ok(None),
        });
        Ok(Arc::new(rounded.collect::<Result<PrimitiveArray<O>>>()?))
    }

    fn float(&self, value: f64) -> f64 {
        match self.way {
            Way::Nearest => value.round(),
            Way::Zero => value.trunc(),
            Way::Down => value.floor(),
            Way::Up => value.ceil(),
        }
    }

    /// `value` with so many digits after its point, or zeros before it where these are negative.
    fn digits(&self, value: f64, digits: i64) -> f64 {
        let power = 10f64.powi(digits.unsigned_abs().min(1000) as i32);
        if !value.is_finite() {
            return value;
        }
        if digits < 0 {
            let rounded = self.float(value / power) * power;
            return if rounded.is_finite() { rounded } else { 0.0 };
        }
        // A float has no more digits than that.
        let rounded = self.float(value * power) / power;
        if rounded.is_finite() { rounded } else { value }
    }

    fn whole(&self, value: i128, digits: i64) -> Option<i128> {
        if digits >= 0 {
            return Some(value);
        }
        let zeros = digits.checked_neg()?;
        let rounded = self.without(value, zeros)?;
        if rounded == 0 { Some(0) } else { rounded.checked_mul(10i128.checked_pow(u32::try_from(zeros).ok()?)?) }
    }

    /// `value` without its last digits, so many.
    fn without(&self, value: i128, dropped: i64) -> Option<i128> {
        if dropped == 0 {
            return Some(value);
        }
        let power = u32::try_from(dropped).ok().and_then(|dropped| 10i128.checked_pow(dropped));
        let (whole, away) = match power {
            Some(power) => {
                let (whole, rest) = (value / power, value % power);
                let away = match self.way {
                    Way::Nearest => rest.abs() >= power - rest.abs(),
                    Way::Zero => false,
                    Way::Down => rest < 0,
                    Way::Up => rest > 0,
                };
                (whole, away)
            }
            // The power is more than twice as large as any value.
            None => {
                let away = match self.way {
                    Way::Nearest | Way::Zero => false,
                    Way::Down => value < 0,
                    Way::Up => value > 0,
                };
                (0, away)
            }
        };
        whole.checked_add(if away { value.signum() } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounding(way: Way) -> Rounding {
        Rounding { way, name: "round", aliases: Vec::new(), signature: Signature::any(1, Volatility::Immutable) }
    }

    #[test]
    fn halves_go_away_from_zero() {
        let round = rounding(Way::Nearest);
        assert_eq!([25, -25, 24, -24, 0].map(|value| round.without(value, 1)), [3, -3, 2, -2, 0].map(Some));
        assert_eq!(round.without(i128::MAX, 38), Some(2));
        assert_eq!(round.without(i128::MAX, 39), Some(0));
        assert_eq!(
            (round.whole(155, -1), round.whole(155, -1000), round.whole(155, 1000)),
            (Some(160), Some(0), Some(155))
        );
    }

    #[test]
    fn floors_and_ceilings_keep_their_side() {
        let [down, up, zero] = [Way::Down, Way::Up, Way::Zero].map(rounding);
        assert_eq!([25, -25, 20].map(|value| down.without(value, 1)), [2, -3, 2].map(Some));
        assert_eq!([25, -25, 20].map(|value| up.without(value, 1)), [3, -2, 2].map(Some));
        assert_eq!([25, -25, 20].map(|value| zero.without(value, 1)), [2, -2, 2].map(Some));
        assert_eq!((down.without(-1, 50), up.without(1, 50)), (Some(-1), Some(1)));
    }

    #[test]
    fn floats_with_fewer_digits_than_asked_for_stay() {
        let round = rounding(Way::Nearest);
        assert_eq!([1000, -1000, 1, -1].map(|digits| round.digits(15.55, digits)), [15.55, 0.0, 15.6, 20.0]);
        assert_eq!(round.digits(1e308, 5), 1e308);
        assert_eq!(round.digits(f64::NEG_INFINITY, -2), f64::NEG_INFINITY);
    }

    #[test]
    fn decimals_have_room_for_the_carry() {
        assert_eq!(rounding(Way::Nearest).decimal(4, 2, Some(1)), (4, 1));
        assert_eq!(rounding(Way::Up).decimal(1, 1, Some(0)), (1, 0));
        assert_eq!(rounding(Way::Zero).decimal(38, 0, Some(0)), (38, 0));
        assert_eq!(rounding(Way::Nearest).decimal(10, 3, None), (11, 3));
    }
}
