//! `date_part` and `EXTRACT`: DataFusion's, for what it has and answers as SQL does, and the rest of the parts.
//!
//! Of an interval parts are counted one by one: 14 months are one year and two months. Its epoch counts years of 365.25 days, months of 30.
//!
//! Not here: parts of instants, which depend on the zone of the session (`instants`).

use std::{collections::BTreeMap, sync::Arc};

use chrono::Datelike;
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, UInt32Array, new_null_array},
        compute::{cast, interleave, take},
        datatypes::{
            DataType, Date32Type, Field, FieldRef, Int64Type, IntervalMonthDayNano, TimeUnit, TimestampMicrosecondType,
        },
    },
    common::{Result, ScalarValue, exec_err, internal_err, plan_err},
    functions::datetime::date_part as plain_date_part,
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
        expr::ScalarFunction,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
};

use super::{
    infinite::finite,
    instants::{LOCAL, is_instant},
    intervals::intervals,
    zones::naive,
};

/// The name of the function.
pub const DATE_PART: &str = "date_part";

/// The function that statements name.
pub fn date_part() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(DatePart { signature, aliases: vec!["datepart".to_owned()] })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DatePart {
    signature: Signature,
    aliases: Vec<String>,
}

fn in_nanos(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _))
}

/// The part of this name, in the one spelling that the rest of the module knows.
pub fn part_named(name: &str) -> String {
    let lower = name.trim_matches(['\'', '"']).to_ascii_lowercase();
    let known = match lower.as_str() {
        "millennia" | "millenniums" | "millenium" | "mil" | "mils" => "millennium",
        "centuries" | "cent" | "c" => "century",
        "decades" | "dec" | "decs" => "decade",
        "years" | "yr" | "yrs" | "y" => "year",
        "quarters" => "quarter",
        "months" | "mon" | "mons" => "month",
        "weeks" | "w" | "weekofyear" => "week",
        "days" | "d" | "dayofmonth" => "day",
        "hours" | "hr" | "hrs" | "h" => "hour",
        "minutes" | "min" | "mins" | "m" => "minute",
        "seconds" | "sec" | "secs" | "s" => "second",
        "milliseconds" | "ms" | "msec" | "msecs" => "millisecond",
        "microseconds" | "us" | "usec" | "usecs" => "microsecond",
        "dayofweek" | "weekday" => "dow",
        "dayofyear" => "doy",
        _ => return lower,
    };
    known.to_owned()
}

/// Whether DataFusion answers for this part of dates, times and timestamps.
fn is_plain(part: &str) -> bool {
    matches!(
        part,
        "year"
            | "quarter"
            | "month"
            | "week"
            | "day"
            | "hour"
            | "minute"
            | "second"
            | "millisecond"
            | "microsecond"
            | "nanosecond"
            | "dow"
            | "doy"
    )
}

/// What a part of a value of some type is computed by.
enum By {
    /// DataFusion's function, of the part by this name.
    Plain(String),
    Interval(String),
    Calendar(String),
}

fn by(part: &str, data_type: &DataType) -> Result<By> {
    let part = part_named(part);
    Ok(match data_type {
        DataType::Interval(_) => match part.as_str() {
            "millennium" | "century" | "decade" | "year" | "quarter" | "month" | "day" | "hour" | "minute"
            | "second" | "millisecond" | "microsecond" | "epoch" => By::Interval(part),
            _ => return plan_err!("an interval has no part '{part}'"),
        },
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => match part.as_str() {
            part if is_plain(part) => By::Plain(part.to_owned()),
            "epoch" => By::Calendar(part),
            "millennium" | "century" | "decade" | "era" | "isoyear" | "isodow" | "yearweek" | "julian" => {
                By::Calendar(part)
            }
            // What the zone of the session is put into.
            "timezone" | "timezone_hour" | "timezone_minute" if is_instant(data_type) => By::Calendar(part),
            "timezone" | "timezone_hour" | "timezone_minute" if matches!(data_type, DataType::Timestamp(..)) => {
                By::Calendar(part)
            }
            "timezone" | "timezone_hour" | "timezone_minute" => {
                return plan_err!("only a timestamp has the part '{part}'");
            }
            _ => return plan_err!("'{part}' is no part of a date or timestamp"),
        },
        _ => By::Plain(part),
    })
}

/// The part that the first argument names.
fn constant(name: &ScalarValue) -> Result<&str> {
    match name.try_as_str().flatten() {
        Some(name) => Ok(name),
        None => plan_err!("date_part takes the name of a part as a constant"),
    }
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        DATE_PART
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Texts are read as timestamps.
    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [part, value] = arg_types else { return plan_err!("date_part takes the name of a part and a value") };
        let value = match value {
            value if value.is_string() || value.is_null() => LOCAL,
            value if value.is_temporal() => value.clone(),
            other => return plan_err!("date_part takes a date, a time, a timestamp or an interval, not {other}"),
        };
        Ok(vec![part.clone(), value])
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of date_part follows from its part")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [Some(name), ..] = args.scalar_arguments else {
            // Whole numbers of each part that there may be.
            return Ok(Arc::new(Field::new(self.name(), DataType::Int64, true)));
        };
        let name = constant(name)?;
        let data_type = args.arg_fields[1].data_type();
        let (part, wide) = match by(name, data_type)? {
            By::Plain(part) => (part, false),
            By::Interval(part) | By::Calendar(part) => (part, true),
        };
        let result = match part.as_str() {
            "epoch" | "julian" => DataType::Float64,
            _ if wide => DataType::Int64,
            _ => DataType::Int32,
        };
        // Moments that are infinite have no parts.
        let is_moment = matches!(data_type, DataType::Date32 | DataType::Timestamp(..));
        Ok(Arc::new(Field::new(self.name(), result, is_moment || args.arg_fields[1].is_nullable())))
    }

    /// What DataFusion has it also knows more of: which dates are in a year. It takes parts of what is not NULL for not NULL.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [Expr::Literal(name, _), value] = args.as_slice() else { return Ok(ExprSimplifyResult::Original(args)) };
        let (Ok(name), Ok(data_type)) = (constant(name), value.get_type(info.schema())) else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let value_is_known = matches!(
            data_type,
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_)
        );
        match by(name, &data_type)? {
            // To DataFusion the last nanosecond is in 2262.
            By::Plain(part) if value_is_known && !in_nanos(&data_type) && info.nullable(value)? => {
                let args = vec![Expr::Literal(ScalarValue::Utf8(Some(part)), None), value.clone()];
                let plain = ScalarFunction::new_udf(plain_date_part(), args);
                Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(plain)))
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = match &args.args[0] {
            ColumnarValue::Scalar(name) => name,
            ColumnarValue::Array(names) => {
                let (names, rows) = (Arc::clone(names), args.number_rows);
                let values = args.args.swap_remove(1).into_array(rows)?;
                let parts =
                    by_part(&names, &values, &DataType::Int64, |part, values| self.of_part(part, values, &args))?;
                return Ok(ColumnarValue::Array(parts));
            }
        };
        let by = by(constant(name)?, &args.args[1].data_type())?;
        if let By::Plain(part) = by {
            args.args[0] = ColumnarValue::Scalar(ScalarValue::Utf8(Some(part)));
            if in_nanos(&args.args[1].data_type()) {
                args.args[1] = match &args.args[1] {
                    ColumnarValue::Scalar(value) => {
                        ColumnarValue::Scalar(ScalarValue::try_from_array(&finite(&value.to_array()?)?, 0)?)
                    }
                    ColumnarValue::Array(values) => ColumnarValue::Array(finite(values)?),
                };
            }
            return plain_date_part().invoke_with_args(args);
        }
        let constant = matches!(args.args[1], ColumnarValue::Scalar(_));
        let values = args.args.swap_remove(1).into_array(if constant { 1 } else { args.number_rows })?;
        let result = match by {
            By::Interval(part) => of_intervals(&part, &values)?,
            By::Calendar(part) | By::Plain(part) => of_days(&part, &values)?,
        };
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

impl DatePart {
    fn of_part(&self, part: &str, values: ArrayRef, args: &ScalarFunctionArgs) -> Result<ArrayRef> {
        let name = ScalarValue::from(part);
        let arg_fields = vec![
            Arc::new(Field::new("", DataType::Utf8, false)),
            Arc::new(Field::new("", values.data_type().clone(), true)),
        ];
        let fields = ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &[Some(&name), None] };
        let return_field = self.return_field_from_args(fields)?;
        let rows = values.len();
        let of_part = ScalarFunctionArgs {
            args: vec![ColumnarValue::Scalar(name.clone()), ColumnarValue::Array(values)],
            arg_fields,
            number_rows: rows,
            return_field,
            config_options: Arc::clone(&args.config_options),
        };
        self.invoke_with_args(of_part)?.into_array(rows)
    }
}

/// What `of_part` gives, as `data_type`, of the values whose rows name a part: those of each part at once. NULL where none is named.
pub(super) fn by_part(
    names: &ArrayRef,
    values: &ArrayRef,
    data_type: &DataType,
    of_part: impl Fn(&str, ArrayRef) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let names = cast(names, &DataType::Utf8View)?;
    let mut rows_of: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (row, name) in names.as_string_view().iter().enumerate() {
        if let Some(name) = name {
            rows_of.entry(name).or_default().push(u32::try_from(row).expect("a batch has fewer rows"));
        }
    }
    let mut parts = vec![new_null_array(data_type, 1)];
    let mut places = vec![(0, 0); values.len()];
    for (name, rows) in rows_of {
        for (at, &row) in rows.iter().enumerate() {
            places[row as usize] = (parts.len(), at);
        }
        let of_name = of_part(name, take(values, &UInt32Array::from(rows), None)?)?;
        parts.push(cast(&of_name, data_type)?);
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(interleave(&parts, &places)?)
}

/// Seconds since 1970, with their fraction.
fn epochs(values: &ArrayRef) -> Result<ArrayRef> {
    if *values.data_type() == DataType::Date32 {
        let seconds: Float64Array = values.as_primitive::<Date32Type>().unary(|days| f64::from(days) * 86_400.0);
        return Ok(Arc::new(seconds));
    }
    let of_second = match values.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => 1.0,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1e6,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1e9,
        _ => 1e3,
    };
    let counts = cast(values, &DataType::Int64)?;
    let seconds: Float64Array = counts.as_primitive::<Int64Type>().unary(|count| count as f64 / of_second);
    Ok(Arc::new(seconds))
}

fn of_intervals(part: &str, values: &ArrayRef) -> Result<ArrayRef> {
    let values = intervals(values)?;
    if part == "epoch" {
        let epochs: Float64Array = values.unary(epoch);
        return Ok(Arc::new(epochs));
    }
    let parts: Int64Array = values.try_unary(|value| of_interval(part, value))?;
    Ok(Arc::new(parts))
}

/// Seconds: years have 365.25 days, months 30.
fn epoch(value: IntervalMonthDayNano) -> f64 {
    let (years, months) = (value.months / 12, value.months % 12);
    let quarters_of_days = i64::from(years) * 1461 + (i64::from(months) * 30 + i64::from(value.days)) * 4;
    let micros = i128::from(quarters_of_days) * 21_600_000_000 + i128::from(value.nanoseconds / 1000);
    micros as f64 / 1e6
}

fn of_interval(part: &str, value: IntervalMonthDayNano) -> Result<i64> {
    let (months, micros) = (i64::from(value.months), value.nanoseconds / 1000);
    let of_minute = micros % 60_000_000;
    Ok(match part {
        "millennium" => months / 12_000,
        "century" => months / 1200,
        "decade" => months / 120,
        "year" => months / 12,
        "quarter" => months % 12 / 3 + 1,
        "month" => months % 12,
        "day" => value.days.into(),
        "hour" => micros / 3_600_000_000,
        "minute" => micros / 60_000_000 % 60,
        "second" => of_minute / 1_000_000,
        "millisecond" => of_minute / 1000,
        "microsecond" => of_minute,
        other => return exec_err!("an interval has no part '{other}'"),
    })
}

fn of_days(part: &str, values: &ArrayRef) -> Result<ArrayRef> {
    let values = finite(values)?;
    if part == "epoch" {
        return epochs(&values);
    }
    let moments = cast(&values, &LOCAL)?;
    let moments = moments.as_primitive::<TimestampMicrosecondType>();
    if part == "julian" {
        let days: Float64Array = moments.unary(|micros| micros as f64 / 86_400e6 + 2_440_588.0);
        return Ok(Arc::new(days));
    }
    let parts: Int64Array = moments.try_unary(|micros| {
        let day = naive(micros)?.date();
        let year = i64::from(day.year());
        // There is no year 0: the first century begins with the year 1.
        let counted = |each: i64| if year > 0 { (year - 1) / each + 1 } else { -((-year) / each) - 1 };
        let (iso_year, iso_week) = (i64::from(day.iso_week().year()), i64::from(day.iso_week().week()));
        Ok::<_, datafusion::error::DataFusionError>(match part {
            "millennium" => counted(1000),
            "century" => counted(100),
            "decade" => year / 10,
            "era" => i64::from(year > 0),
            "isoyear" => iso_year,
            "isodow" => day.weekday().number_from_monday().into(),
            "yearweek" => iso_year * 100 + if iso_year < 0 { -iso_week } else { iso_week },
            // Without a zone.
            "timezone" | "timezone_hour" | "timezone_minute" => 0,
            other => return exec_err!("'{other}' is no part of a date"),
        })
    })?;
    debug_assert_eq!(parts.len(), values.len());
    Ok(Arc::new(parts))
}
