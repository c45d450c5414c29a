//! DataFusion's `date_trunc`, `to_char` and `to_timestamp`, which know no infinite moments: truncated, these stay infinite, they have no text in a format, and numbers that are too great
//! are none.
//!
//! Not here: `strftime` (`formats`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, PrimitiveArray},
        datatypes::{
            ArrowTimestampType, DataType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit,
            TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
        },
    },
    common::{Result, ScalarValue, exec_err, internal_err},
    functions::datetime,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
        sort_properties::{ExprProperties, SortProperties},
    },
};

use crate::{arguments::texts, lists::coerced};

use super::{
    far::{SECONDS_OF_DAY, date_of, days_of},
    infinite::{Infinite, in_range, is_infinite_value, units_of_second},
    instants::instant,
    intervals::{INTERVAL, intervals},
    parts::{by_part, part_named},
};

/// `date_trunc(part, moment)`.
pub fn date_trunc() -> ScalarUDF {
    ScalarUDF::new_from_impl(OfFinite {
        function: datetime::date_trunc(),
        moment: 1,
        stays: true,
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// `to_char(moment, format)`.
pub fn to_char() -> ScalarUDF {
    ScalarUDF::new_from_impl(OfFinite {
        function: datetime::to_char(),
        moment: 0,
        stays: false,
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// `function`, which makes moments, without infinite ones.
pub fn in_range_only(function: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::new_from_impl(Moments { function, are: Are::InRange })
}

/// `now`, which is DataFusion's of nanoseconds, in microseconds, as all other instants are: beside it these would be ones in nanoseconds, in which there is no year 2300.
pub fn in_micros(now: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::new_from_impl(Moments { function: now, are: Are::InMicros })
}

/// What the moments are that a function makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Are {
    /// Finite.
    InRange,
    /// Instants of microseconds.
    InMicros,
}

/// A function of DataFusion that makes moments, but for what they are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moments {
    function: Arc<ScalarUDF>,
    are: Are,
}

impl ScalarUDFImpl for Moments {
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
        match self.are {
            Are::InRange => self.function.return_type(arg_types),
            Are::InMicros => Ok(instant()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = self.function.return_field_from_args(args)?;
        Ok(match self.are {
            Are::InRange => field,
            Are::InMicros => Arc::new(field.as_ref().clone().with_data_type(instant())),
        })
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(arg_types)
    }

    /// `now()` is when the statement began.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match self.function.simplify(args, info)? {
            ExprSimplifyResult::Simplified(Expr::Literal(value, metadata)) if self.are == Are::InMicros => {
                ExprSimplifyResult::Simplified(Expr::Literal(value.cast_to(&instant())?, metadata))
            }
            other => other,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.are, self.function.invoke_with_args(args)?) {
            (Are::InMicros, value) => value.cast_to(&instant(), None),
            (Are::InRange, ColumnarValue::Scalar(value)) if is_infinite_value(&value) => {
                exec_err!("timestamp out of range")
            }
            (Are::InRange, ColumnarValue::Scalar(value)) => Ok(ColumnarValue::Scalar(value)),
            (Are::InRange, ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(in_range(array)?)),
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
    signature: Signature,
}

impl OfFinite {
    /// Whether it is `date_trunc` of an interval, which DataFusion has not.
    fn is_of_interval(&self, arg_types: &[DataType]) -> bool {
        self.stays && matches!(arg_types, [_, DataType::Interval(_)])
    }
}

/// `interval` without its parts that are less than `part`.
///
/// # Errors
/// There is no such part.
fn truncated_interval(part: &str, interval: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    const SECOND: i64 = 1_000_000_000;
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let whole_months = |of: i32| IntervalMonthDayNano::new(months / of * of, 0, 0);
    let whole_nanos = |of: i64| IntervalMonthDayNano::new(months, days, nanoseconds / of * of);
    Ok(match part_named(part).as_str() {
        "millennium" => whole_months(12_000),
        "century" => whole_months(1200),
        "decade" => whole_months(120),
        "year" | "isoyear" => whole_months(12),
        "quarter" => whole_months(3),
        "month" => whole_months(1),
        "week" | "yearweek" => IntervalMonthDayNano::new(months, days / 7 * 7, 0),
        "day" | "dow" | "isodow" | "doy" | "julian" => IntervalMonthDayNano::new(months, days, 0),
        "hour" => whole_nanos(3600 * SECOND),
        "minute" => whole_nanos(60 * SECOND),
        "second" | "epoch" => whole_nanos(SECOND),
        "millisecond" => whole_nanos(SECOND / 1000),
        "microsecond" => whole_nanos(1000),
        _ => return exec_err!("date_trunc knows no part '{part}' of an interval"),
    })
}

/// How moments are truncated.
#[derive(Clone, Copy)]
enum Step {
    /// To multiples of so many units.
    Units(i64),
    Week,
    /// To the first of so many months of a year.
    Months(i64),
    /// To the first of so many years.
    Years(i64),
    /// To the Monday of the first week, most of whose days are in the year.
    WeekYear,
}

impl Step {
    /// That of `part`, of moments of which a second has `units`.
    fn of(part: &str, units: i64) -> Option<Self> {
        Some(match part_named(part).as_str() {
            "microsecond" => Self::Units((units / 1_000_000).max(1)),
            "millisecond" => Self::Units((units / 1000).max(1)),
            "second" | "epoch" => Self::Units(units),
            "minute" => Self::Units(60 * units),
            "hour" => Self::Units(3600 * units),
            "day" | "dow" | "isodow" | "doy" | "julian" => Self::Units(SECONDS_OF_DAY * units),
            "week" | "yearweek" => Self::Week,
            "month" => Self::Months(1),
            "quarter" => Self::Months(3),
            "year" => Self::Months(12),
            "decade" => Self::Years(10),
            "century" => Self::Years(100),
            "millennium" => Self::Years(1000),
            "isoyear" => Self::WeekYear,
            _ => return None,
        })
    }

    /// The day that `day` is truncated to, and the next one that is.
    fn around(self, day: i64) -> (i64, i64) {
        match self {
            // The first day of 1970 was a Thursday.
            Self::Units(_) | Self::Week => {
                let first = day - (day + 3).rem_euclid(7);
                (first, first + 7)
            }
            Self::Months(months) => {
                let (year, month, _) = date_of(day);
                let first = (month - 1) / months * months;
                let start = |month: i64| days_of(year + month / 12, (month % 12 + 1) as u32, 1).unwrap_or(day);
                (start(first), start(first + months))
            }
            Self::Years(years) => {
                // As in DuckDB: towards the year 0, and the first century that has its end begins there.
                let first = date_of(day).0 / years * years;
                let start = |year: i64| days_of(year, 1, 1).unwrap_or(day);
                (start(first), start(first + years).max(day + 1))
            }
            Self::WeekYear => {
                // The year of the week's Thursday.
                let year = date_of(day - (day + 3).rem_euclid(7) + 3).0;
                // The first week has the 4th of January.
                let start = |year: i64| {
                    let fourth = days_of(year, 1, 4).unwrap_or(day);
                    fourth - (fourth + 3).rem_euclid(7)
                };
                (start(year), start(year + 1))
            }
        }
    }
}

/// `moments`, of no zone, truncated to `part`; `None` if that is left to DataFusion, which knows fewer years.
fn truncated_moments(part: &str, moments: &ArrayRef) -> Option<ArrayRef> {
    fn of<T: ArrowTimestampType>(part: &str, moments: &ArrayRef) -> Option<ArrayRef> {
        let units = units_of_second(T::UNIT);
        let step = Step::of(part, units)?;
        let moments = moments.as_primitive::<T>();
        // Numbers below NULLs may be any.
        if let Step::Units(step) = step {
            let truncated: PrimitiveArray<T> = moments.unary(|count| count.wrapping_sub(count.rem_euclid(step)));
            return Some(Arc::new(truncated));
        }
        let of_day = SECONDS_OF_DAY * units;
        // Neighbours are often truncated to the same.
        let mut last = 0..0;
        let truncated = moments.values().iter().map(|&count| {
            if !last.contains(&count) {
                let (first, next) = step.around(count.div_euclid(of_day));
                last = first.wrapping_mul(of_day)..next.wrapping_mul(of_day);
            }
            last.start
        });
        Some(Arc::new(PrimitiveArray::<T>::new(truncated.collect(), moments.nulls().cloned())))
    }
    match moments.data_type() {
        DataType::Timestamp(TimeUnit::Second, None) => of::<TimestampSecondType>(part, moments),
        DataType::Timestamp(TimeUnit::Millisecond, None) => of::<TimestampMillisecondType>(part, moments),
        DataType::Timestamp(TimeUnit::Microsecond, None) => of::<TimestampMicrosecondType>(part, moments),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => of::<TimestampNanosecondType>(part, moments),
        _ => None,
    }
}

fn truncated_intervals(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let rows = args.number_rows;
    let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let parts = texts(&args.args[0].to_array(rows)?)?;
    let of = intervals(&args.args[1].to_array(rows)?)?;
    let pairs = parts.iter().zip(&of);
    let pairs = pairs.map(|pair| match pair {
        (Some(part), Some(interval)) => truncated_interval(part, interval).map(Some),
        _ => Ok(None),
    });
    let made: ArrayRef = Arc::new(pairs.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?);
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
        false => ColumnarValue::Array(made),
    })
}

impl ScalarUDFImpl for OfFinite {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if self.is_of_interval(arg_types) { Ok(INTERVAL) } else { self.function.return_type(arg_types) }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if let [_, of] = args.arg_fields
            && self.is_of_interval(&[DataType::Null, of.data_type().clone()])
        {
            return Ok(Arc::new(Field::new(self.name(), INTERVAL, true)));
        }
        let field = self.function.return_field_from_args(args)?;
        Ok(if self.stays { field } else { Arc::new(field.as_ref().clone().with_nullable(true)) })
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        if self.is_of_interval(arg_types) {
            return Ok(vec![DataType::Utf8View, INTERVAL]);
        }
        let micros = |of: &DataType| match of {
            DataType::Date32 | DataType::Date64 if self.stays => DataType::Timestamp(TimeUnit::Microsecond, None),
            other => other.clone(),
        };
        coerced(&arg_types.iter().map(micros).collect::<Vec<_>>(), &self.function)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let types = args.iter().map(|arg| info.get_data_type(arg)).collect::<Result<Vec<_>>>()?;
        match self.is_of_interval(&types) {
            true => Ok(ExprSimplifyResult::Original(args)),
            false => self.function.simplify(args, info),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        match inputs {
            [_, of] if matches!(of.range.data_type(), DataType::Interval(_)) => Ok(SortProperties::Unordered),
            _ => self.function.output_ordering(inputs),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.is_of_interval(&args.args.iter().map(ColumnarValue::data_type).collect::<Vec<_>>()) {
            return truncated_intervals(&args);
        }
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
            ColumnarValue::Scalar(value) => {
                let truncated = match &args.args[0] {
                    ColumnarValue::Scalar(part) if self.stays && !value.is_null() => {
                        let moments = value.to_array_of_size(1)?;
                        part.try_as_str().flatten().and_then(|part| truncated_moments(part, &moments))
                    }
                    _ => None,
                };
                return match truncated {
                    Some(moment) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&moment, 0)?)),
                    None => self.function.invoke_with_args(args),
                };
            }
            ColumnarValue::Array(moments) => Arc::clone(moments),
        };
        if let ColumnarValue::Scalar(part) = &args.args[0]
            && self.stays
            && let Some(part) = part.try_as_str().flatten()
            && let Some(truncated) = truncated_moments(part, &moments)
        {
            return Ok(ColumnarValue::Array(match Infinite::of(&moments) {
                Some(infinite) => infinite.put_in(&truncated)?,
                None => truncated,
            }));
        }
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use datafusion::arrow::array::TimestampMicrosecondArray;

    use super::*;
    use crate::times::far;

    #[test]
    fn moments_of_all_years_are_truncated() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        for (part, text, expected) in [
            ("month", "-0043-03-15 10:20:30", "0044-03-01 (BC) 00:00:00"),
            ("quarter", "+12000-12-31 23:59:59", "12000-10-01 00:00:00"),
            ("year", "-0043-03-15 10:20:30", "0044-01-01 (BC) 00:00:00"),
            ("week", "-0043-03-15 10:20:30", "0044-03-11 (BC) 00:00:00"),
            ("decade", "+2024-03-15 10:20:30", "2020-01-01 00:00:00"),
            ("century", "-0143-03-15 10:20:30", "0101-01-01 (BC) 00:00:00"),
            ("millennium", "-0143-03-15 10:20:30", "0001-01-01 (BC) 00:00:00"),
            ("isoyear", "+2027-01-03 10:20:30", "2025-12-29 00:00:00"),
            ("isoyear", "+2024-12-30 10:20:30", "2024-12-30 00:00:00"),
            ("hour", "-0043-03-15 10:20:30.5", "0044-03-15 (BC) 10:00:00"),
        ] {
            let count = far::count_of(text, &micros).unwrap();
            let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(count), None, Some(count)]));
            let truncated = truncated_moments(part, &moments).unwrap();
            let mut text = String::new();
            crate::times::written::write(
                truncated.as_primitive::<TimestampMicrosecondType>().value(2),
                &micros,
                &mut text,
            );
            assert_eq!((text.as_str(), truncated.null_count()), (expected, 1), "{part} of {text}");
        }
        assert!(
            truncated_moments("fortnight", &ScalarValue::TimestampMicrosecond(Some(0), None).to_array().unwrap())
                .is_none()
        );
    }
}
