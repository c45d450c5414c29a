//! Intervals: their texts, their length, and what they are multiplied and divided by.
//!
//! An interval is months, days and a time, of which arrays hold nanoseconds; those of SQL are whole microseconds. A part that is given with a fraction goes on
//! into smaller ones as in DuckDB: years and longer round to months, quarters to days.
//!
//! Not here: where they stand in for an operator (`ogee_sql`: `times::planner`, `times::order_rule`).

use std::{fmt::Write, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Decimal128Array, PrimitiveArray, StringViewBuilder},
        compute::cast,
        datatypes::{
            DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
            Time64NanosecondType, TimeUnit,
        },
    },
    common::{Result, exec_datafusion_err, exec_err, plan_err},
    logical_expr::{Expr, ScalarUDF},
};

use crate::{
    arguments::texts,
    function::{Function, Shown},
};

use super::{INTERVAL_UNITS, Zone, infinite::is_infinite, written::write_fraction};

/// The type of intervals.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The type of an interval's length.
pub const LENGTH: DataType = DataType::Decimal128(38, 0);

/// Days of a month, where intervals are compared.
pub const DAYS_OF_MONTH: i64 = 30;
/// Microseconds of a day of 24 hours.
pub const MICROS_OF_DAY: i64 = 86_400_000_000;
const NANOS_OF_DAY: i64 = MICROS_OF_DAY * 1000;

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(units()), normalized()]
}

/// `normalized_interval(i)`: the interval of the same length with as many months as there are in it, then as many days.
fn normalized() -> ScalarUDF {
    const NANOS_OF_MONTH: i128 = DAYS_OF_MONTH as i128 * NANOS_OF_DAY as i128;
    fn taken(given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [DataType::Interval(_) | DataType::Null] => Ok(vec![INTERVAL]),
            _ => crate::arguments::refused("normalized_interval", given),
        }
    }
    fn body(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
        let normalized: PrimitiveArray<IntervalMonthDayNanoType> = intervals(&args[0])?.try_unary(|interval| {
            let days = i128::from(interval.months) * i128::from(DAYS_OF_MONTH) + i128::from(interval.days);
            let nanos = days * i128::from(NANOS_OF_DAY) + i128::from(interval.nanoseconds);
            let (months, rest) = (nanos.div_euclid(NANOS_OF_MONTH), nanos.rem_euclid(NANOS_OF_MONTH));
            let Ok(months) = i32::try_from(months) else {
                return exec_err!("normalized_interval would have more months than an interval counts");
            };
            // Both are less than a month.
            let (days, nanos) = (rest / i128::from(NANOS_OF_DAY), rest % i128::from(NANOS_OF_DAY));
            Ok(IntervalMonthDayNano::new(months, days as i32, nanos as i64))
        })?;
        Ok(Arc::new(normalized))
    }
    Function::of("normalized_interval", taken, |_| Ok(INTERVAL), body).registered()
}

/// A length of time in the making, in microseconds below days.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Parts {
    months: i64,
    days: i64,
    micros: i64,
}

impl Parts {
    /// Adds `whole` and a `fraction` of it of a unit. `None` if that is too long.
    fn add(&mut self, unit: Unit, whole: i64, fraction: f64) -> Option<()> {
        let months = |parts: &mut Self, each: i64| {
            parts.months = parts.months.checked_add(whole.checked_mul(each)?)?;
            parts.months = parts.months.checked_add((fraction * each as f64).round() as i64)?;
            Some(())
        };
        match unit {
            Unit::Months(3) => {
                let rest = fraction * 3.0;
                self.months = self.months.checked_add(whole.checked_mul(3)?)?.checked_add(rest.trunc() as i64)?;
                self.days = self.days.checked_add((rest.fract() * DAYS_OF_MONTH as f64).round() as i64)?;
                Some(())
            }
            Unit::Months(1) => {
                self.months = self.months.checked_add(whole)?;
                self.add_days(0, fraction * DAYS_OF_MONTH as f64)
            }
            Unit::Months(each) => months(self, each),
            Unit::Days(each) => self.add_days(whole.checked_mul(each)?, fraction * each as f64),
            Unit::Micros(each) => {
                self.micros = self.micros.checked_add(whole.checked_mul(each)?)?;
                let rest = if each == 1 { 0.0 } else { (fraction * each as f64).round() };
                self.micros = self.micros.checked_add(rest as i64)?;
                Some(())
            }
        }
    }

    fn add_days(&mut self, whole: i64, more: f64) -> Option<()> {
        self.days = self.days.checked_add(whole)?.checked_add(more.trunc() as i64)?;
        self.micros = self.micros.checked_add((more.fract() * MICROS_OF_DAY as f64).round() as i64)?;
        Some(())
    }

    fn interval(self) -> Option<IntervalMonthDayNano> {
        let (months, days) = (i32::try_from(self.months).ok()?, i32::try_from(self.days).ok()?);
        Some(IntervalMonthDayNano::new(months, days, self.micros.checked_mul(1000)?))
    }
}

/// What a number in an interval counts.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// So many months.
    Months(i64),
    /// So many days.
    Days(i64),
    /// So many microseconds.
    Micros(i64),
}

impl Unit {
    /// The unit of this name, short or long, of one or many.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Some(match name.as_str() {
            "millennium" | "millennia" | "millenniums" | "mil" | "mils" => Self::Months(12_000),
            "century" | "centuries" | "cent" | "c" => Self::Months(1200),
            "decade" | "decades" | "dec" | "decs" => Self::Months(120),
            "year" | "years" | "yr" | "yrs" | "y" => Self::Months(12),
            "quarter" | "quarters" => Self::Months(3),
            "month" | "months" | "mon" | "mons" => Self::Months(1),
            "week" | "weeks" | "w" => Self::Days(7),
            "day" | "days" | "d" | "dayofmonth" => Self::Days(1),
            "hour" | "hours" | "hr" | "hrs" | "h" => Self::Micros(3_600_000_000),
            "minute" | "minutes" | "min" | "mins" | "m" => Self::Micros(60_000_000),
            "second" | "seconds" | "sec" | "secs" | "s" => Self::Micros(1_000_000),
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Self::Micros(1000),
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Self::Micros(1),
            _ => return None,
        })
    }

    /// `count` of them, without its fraction unless they are seconds or less.
    ///
    /// # Errors
    /// If that is too long.
    pub fn times(self, count: f64) -> Result<IntervalMonthDayNano> {
        let exact = matches!(self, Self::Micros(2..=1_000_000));
        let mut parts = Parts::default();
        let added = parts.add(self, count.trunc() as i64, if exact { count.fract() } else { 0.0 });
        let fits = count.is_finite() && count.abs() < 9.2e18;
        added
            .filter(|()| fits)
            .and_then(|()| parts.interval())
            .ok_or_else(|| exec_datafusion_err!("interval out of range"))
    }
}

/// The interval that `text` names: `1 year 2 days`, `-3 hours`, `2 months 01:02:03.5`, `4 days ago`; a number alone is of seconds.
///
/// # Errors
/// If it names none.
pub fn parse_interval(text: &str) -> Result<IntervalMonthDayNano> {
    let refuse = || exec_datafusion_err!("could not convert string '{text}' to INTERVAL");
    let mut rest = text.trim();
    rest = rest.strip_prefix('@').map_or(rest, str::trim_start);
    let mut parts = Parts::default();
    let mut any = false;
    while !rest.is_empty() {
        if any && rest.eq_ignore_ascii_case("ago") {
            parts = Parts { months: -parts.months, days: -parts.days, micros: -parts.micros };
            break;
        }
        let (sign, unsigned) = rest.strip_prefix('-').map_or((1, rest), |unsigned| (-1, unsigned));
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let whole_len = digits(unsigned);
        if whole_len == 0 {
            return Err(refuse());
        }
        let whole: i64 = unsigned[..whole_len].parse().map_err(|_| refuse())?;
        let after = &unsigned[whole_len..];
        if let Some(clock) = after.strip_prefix(':') {
            let micros = parse_time(whole, clock).ok_or_else(refuse)?;
            parts.micros = parts.micros.checked_add(sign * micros).ok_or_else(refuse)?;
            return parts.interval().ok_or_else(refuse);
        }
        let (fraction, after) = match after.strip_prefix('.') {
            Some(fraction) => {
                let len = digits(fraction);
                (format!("0.{}0", &fraction[..len]).parse::<f64>().map_err(|_| refuse())?, &fraction[len..])
            }
            None => (0.0, after),
        };
        let after = after.trim_start();
        let unit_len = after.find(|char: char| !char.is_alphabetic()).unwrap_or(after.len());
        let unit = match Unit::named(&after[..unit_len]) {
            Some(unit) => unit,
            // All of the text.
            None if after.is_empty() && !any => Unit::Micros(1_000_000),
            None => return exec_err!("'{}' is no unit of the interval '{text}'", &after[..unit_len]),
        };
        parts.add(unit, sign * whole, f64::from(sign as i32) * fraction).ok_or_else(refuse)?;
        any = true;
        rest = after[unit_len..].trim_start();
    }
    if !any {
        return Err(refuse());
    }
    parts.interval().ok_or_else(refuse)
}

/// Microseconds of `hours` and the rest of `01:02:03.5`.
fn parse_time(hours: i64, rest: &str) -> Option<i64> {
    let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let small = |text: &str| {
        let short = matches!(text.len(), 1 | 2) && text.bytes().all(|digit| digit.is_ascii_digit());
        text.parse::<i64>().ok().filter(|value| short && *value < 60)
    };
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let seconds = hours.checked_mul(3600)?.checked_add(small(minutes)? * 60 + small(seconds)?)?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// Writes an interval: `1 year 2 months 3 days 04:05:06.7`.
pub fn write_interval(interval: IntervalMonthDayNano, text: &mut String) -> Result<()> {
    let begin = text.len();
    let (years, months) = (interval.months / 12, interval.months % 12);
    for (count, unit) in [(years, "year"), (months, "month"), (interval.days, "day")] {
        if count != 0 {
            let (gap, many) =
                (if text.len() == begin { "" } else { " " }, if count.unsigned_abs() == 1 { "" } else { "s" });
            write!(text, "{gap}{count} {unit}{many}")?;
        }
    }
    let micros = interval.nanoseconds / 1000;
    if micros != 0 || text.len() == begin {
        let (gap, sign) = (if text.len() == begin { "" } else { " " }, if micros < 0 { "-" } else { "" });
        let seconds = micros.unsigned_abs() / 1_000_000;
        write!(text, "{gap}{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        write_fraction((micros % 1_000_000).abs(), 1_000_000, text);
    }
    Ok(())
}

/// Nanoseconds in `interval`, of which all that are equal have as many.
pub fn length(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * i128::from(DAYS_OF_MONTH) + i128::from(interval.days);
    days * i128::from(NANOS_OF_DAY) + i128::from(interval.nanoseconds)
}

/// The interval of so many nanoseconds, in days and a time; `None` if it has more days than intervals count.
pub fn of_length(nanoseconds: i128) -> Option<IntervalMonthDayNano> {
    let day = i128::from(NANOS_OF_DAY);
    let days = i32::try_from(nanoseconds / day).ok()?;
    // Less than a day.
    Some(IntervalMonthDayNano::new(0, days, (nanoseconds % day) as i64))
}

/// Of a day, as a part of one is counted.
const SECONDS_OF_DAY: f64 = 86_400.0;

/// `interval` times `factor`: parts of months become days, parts of days a time.
fn scaled(interval: IntervalMonthDayNano, factor: f64) -> Option<IntervalMonthDayNano> {
    if !factor.is_finite() {
        return None;
    }
    // Parts of each are rounded to millionths: sums of binary fractions miss whole numbers by a little. What is left of months and of days is put together as a time, as PostgreSQL does it.
    let rounded = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let (months, days) = (f64::from(interval.months) * factor, f64::from(interval.days) * factor);
    let days_of_months = rounded(months.fract() * DAYS_OF_MONTH as f64);
    let mut seconds = rounded((days.fract() + days_of_months.fract()) * SECONDS_OF_DAY);
    let mut days = days.trunc() + days_of_months.trunc();
    if seconds.abs() >= SECONDS_OF_DAY {
        days += (seconds / SECONDS_OF_DAY).trunc();
        seconds %= SECONDS_OF_DAY;
    }
    let micros = ((interval.nanoseconds / 1000) as f64 * factor + seconds * 1e6).round_ties_even();
    let fits = |value: f64, most: f64| value.abs() < most;
    if !fits(months, 2f64.powi(31)) || !fits(days, 2f64.powi(31)) || !fits(micros, 9.2e15) {
        return None;
    }
    Parts { months: months.trunc() as i64, days: days as i64, micros: micros as i64 }.interval()
}

/// The values of `array`, which are intervals of any kind, or NULL.
pub fn intervals(array: &ArrayRef) -> Result<PrimitiveArray<IntervalMonthDayNanoType>> {
    Ok(cast(array, &INTERVAL)?.as_primitive::<IntervalMonthDayNanoType>().clone())
}

/// `of` for each pair of values of which none is NULL.
pub fn each_pair<L, R, O>(
    left: impl Iterator<Item = Option<L>>,
    right: impl Iterator<Item = Option<R>>,
    of: impl Fn(L, R) -> Result<O>,
) -> Result<Vec<Option<O>>> {
    left.zip(right).map(|(left, right)| left.zip(right).map(|(left, right)| of(left, right)).transpose()).collect()
}

fn an_interval(_: &[DataType]) -> Result<DataType> {
    Ok(INTERVAL)
}

fn of_intervals(values: Vec<Option<IntervalMonthDayNano>>) -> ArrayRef {
    Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::from_iter(values))
}

fn too_long() -> datafusion::error::DataFusionError {
    exec_datafusion_err!("interval out of range")
}

/// `count` of the one unit that the interval is.
fn units() -> Function {
    fn body(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
        let counts = cast(&args[1], &DataType::Float64)?;
        let exact = args[1].data_type().is_integer().then(|| cast(&args[1], &DataType::Int64)).transpose()?;
        let of = |one: IntervalMonthDayNano, count: f64| match one {
            one if one.months != 0 => Unit::Months(one.months.into()).times(count),
            one if one.days != 0 => Unit::Days(one.days.into()).times(count),
            one => Unit::Micros(one.nanoseconds / 1000).times(count),
        };
        let ones = intervals(&args[0])?;
        Ok(of_intervals(match exact {
            Some(counts) => each_pair(ones.iter(), counts.as_primitive::<Int64Type>().iter(), times)?,
            None => each_pair(ones.iter(), counts.as_primitive::<Float64Type>().iter(), of)?,
        }))
    }
    fn returns(args: &[DataType]) -> Result<DataType> {
        if !(args[1].is_numeric() || args[1].is_null()) {
            return plan_err!("an interval has a number of units, not {}", args[1]);
        }
        Ok(INTERVAL)
    }
    Function::new(INTERVAL_UNITS, 2, returns, body)
}

fn times(interval: IntervalMonthDayNano, count: i64) -> Result<IntervalMonthDayNano> {
    let short = |value: i32| i64::from(value).checked_mul(count).and_then(|value| i32::try_from(value).ok());
    short(interval.months)
        .zip(short(interval.days))
        .zip(interval.nanoseconds.checked_mul(count))
        .map(|((months, days), nanos)| IntervalMonthDayNano::new(months, days, nanos))
        .ok_or_else(too_long)
}

/// `interval * count`; `count` is whole.
pub fn multiply(interval: Expr, count: Expr) -> Expr {
    fn body(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
        let counts = cast(&args[1], &DataType::Int64)?;
        Ok(of_intervals(each_pair(intervals(&args[0])?.iter(), counts.as_primitive::<Int64Type>().iter(), times)?))
    }
    let function = Function::new("ogee_interval_multiply", 2, an_interval, body);
    function.shown(Shown::Operator("*")).call(vec![interval, count])
}

/// `interval * factor`; `factor` may have a fraction.
pub fn scale(interval: Expr, factor: Expr) -> Expr {
    fn body(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
        let factors = cast(&args[1], &DataType::Float64)?;
        let of = |interval, factor| scaled(interval, factor).ok_or_else(too_long);
        Ok(of_intervals(each_pair(intervals(&args[0])?.iter(), factors.as_primitive::<Float64Type>().iter(), of)?))
    }
    let function = Function::new("ogee_interval_scale", 2, an_interval, body);
    function.shown(Shown::Operator("*")).call(vec![interval, factor])
}

/// `interval / divisor`.
pub fn divide(interval: Expr, divisor: Expr) -> Expr {
    fn body(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
        let divisors = cast(&args[1], &DataType::Float64)?;
        let of = |interval, divisor: f64| match divisor {
            0.0 => exec_err!("division of an interval by zero"),
            divisor => scaled(interval, divisor.recip()).ok_or_else(too_long),
        };
        Ok(of_intervals(each_pair(intervals(&args[0])?.iter(), divisors.as_primitive::<Float64Type>().iter(), of)?))
    }
    let function = Function::new("ogee_interval_divide", 2, an_interval, body);
    function.shown(Shown::Operator("/")).call(vec![interval, divisor])
}

/// `time + interval`, or `time - interval`: what a clock shows then.
pub fn move_time(time: Expr, interval: Expr, back: bool) -> Expr {
    fn moved(args: &[ArrayRef], sign: i64) -> Result<ArrayRef> {
        let times = cast(&args[0], &DataType::Time64(TimeUnit::Nanosecond))?;
        let of = |time: i64, interval: IntervalMonthDayNano| {
            Ok((time + sign * (interval.nanoseconds % NANOS_OF_DAY)).rem_euclid(NANOS_OF_DAY))
        };
        let times = times.as_primitive::<Time64NanosecondType>().iter();
        let values = each_pair(times, intervals(&args[1])?.iter(), of)?;
        Ok(Arc::new(PrimitiveArray::<Time64NanosecondType>::from_iter(values)))
    }
    fn returns(_: &[DataType]) -> Result<DataType> {
        Ok(DataType::Time64(TimeUnit::Nanosecond))
    }
    let function = match back {
        true => Function::new("ogee_time_minus", 2, returns, |args, _| moved(args, -1)).shown(Shown::Operator("-")),
        false => Function::new("ogee_time_plus", 2, returns, |args, _| moved(args, 1)).shown(Shown::Operator("+")),
    };
    function.call(vec![time, interval])
}

/// The name of [`difference`].
pub const DIFFERENCE: &str = "ogee_moment_difference";

/// The error of an interval between two moments of which one is infinite.
pub(super) fn infinitely_long<T>() -> Result<T> {
    exec_err!("infinite timestamps cannot be subtracted")
}

/// `left - right`, two moments without a zone, as days and a time.
pub fn difference(left: Expr, right: Expr) -> Expr {
    fn body(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
        // Clocks of different zones are compared where the zone of the session is known; until then only the type counts.
        let (left, right) = (super::instants::micros(&args[0])?, super::instants::micros(&args[1])?);
        let of = |left: i64, right: i64| match is_infinite(left) || is_infinite(right) {
            true => infinitely_long(),
            false => days_and_time(left.checked_sub(right).ok_or_else(too_long)?),
        };
        Ok(of_intervals(each_pair(left.iter(), right.iter(), of)?))
    }
    let function = Function::new(DIFFERENCE, 2, an_interval, body);
    function.shown(Shown::Operator("-")).call(vec![left, right])
}

/// So many microseconds as days and a time.
pub fn days_and_time(micros: i64) -> Result<IntervalMonthDayNano> {
    let days = i32::try_from(micros / MICROS_OF_DAY).map_err(|_| too_long())?;
    Ok(IntervalMonthDayNano::new(0, days, micros % MICROS_OF_DAY * 1000))
}

/// The interval that a text names, or NULL for one that names none where that is wanted.
pub fn interval_of_text(text: Expr, null_if_none: bool) -> Expr {
    fn parsed(args: &[ArrayRef], null_if_none: bool) -> Result<ArrayRef> {
        let of = |text: Option<&str>| match text.map(parse_interval) {
            Some(Err(_)) if null_if_none => Ok(None),
            parsed => parsed.transpose(),
        };
        Ok(of_intervals(texts(&args[0])?.iter().map(of).collect::<Result<_>>()?))
    }
    let function = match null_if_none {
        true => Function::new("ogee_try_interval", 1, an_interval, |args, _| parsed(args, true)),
        false => Function::new("ogee_interval", 1, an_interval, |args, _| parsed(args, false)),
    };
    function.call(vec![text])
}

/// The text of an interval.
pub fn text_of_interval(interval: Expr) -> Expr {
    let body = |args: &[ArrayRef], _: &Zone| interval_texts(&args[0]);
    let function = Function::new("ogee_interval_text", 1, |_| Ok(DataType::Utf8View), body);
    function.call(vec![interval])
}

/// The texts of `array`'s intervals.
pub fn interval_texts(array: &ArrayRef) -> Result<ArrayRef> {
    let intervals = intervals(array)?;
    let mut texts = StringViewBuilder::with_capacity(intervals.len());
    let mut text = String::new();
    for interval in intervals.iter() {
        let Some(interval) = interval else {
            texts.append_null();
            continue;
        };
        text.clear();
        write_interval(interval, &mut text)?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// The lengths of `array`'s intervals.
pub fn interval_lengths(array: &ArrayRef) -> Result<ArrayRef> {
    let lengths: Decimal128Array = intervals(array)?.unary(length);
    Ok(Arc::new(lengths.with_data_type(LENGTH)))
}

/// The length of an interval, by which it is compared.
pub fn length_of(interval: Expr) -> Expr {
    fn body(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
        interval_lengths(&args[0])
    }
    let function = Function::new("ogee_interval_length", 1, |_| Ok(LENGTH), body);
    function.call(vec![interval])
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn normal(text: &str) -> String {
        let mut written = String::new();
        write_interval(parse_interval(text).unwrap(), &mut written).unwrap();
        written
    }

    #[test]
    fn texts_of_intervals() {
        for (text, interval) in [
            ("47.210", "00:00:47.21"),
            ("-47.210", "-00:00:47.21"),
            ("0.05 year", "1 month"),
            ("0.04 year", "00:00:00"),
            ("1.05 years", "1 year 1 month"),
            ("1.99 decades", "19 years 11 months"),
            ("1.33 quarters", "3 months 30 days"),
            ("1.5 quarters", "4 months 15 days"),
            ("1.05 months", "1 month 1 day 12:00:00"),
            ("1.23456789 days", "1 day 05:37:46.665696"),
            ("1.99999 weeks", "13 days 23:59:53.952"),
            ("1.9999999999 seconds", "00:00:02"),
            ("1.1234567891 hours", "01:07:24.444441"),
            ("1.5 us", "00:00:00.000001"),
            ("-1.5 months", "-1 month -15 days"),
            ("1 day -3 hours", "1 day -03:00:00"),
            ("1 day 2 hours ago", "-1 day -02:00:00"),
            ("1y2mon3d", "1 year 2 months 3 days"),
            ("1 mon 2 w 3 d 4 h 5 m 6 s 7 ms 8 us", "1 month 17 days 04:05:06.007008"),
            ("1 day 01:02:03.123456789", "1 day 01:02:03.123456"),
            ("-01:02", "-01:02:00"),
            ("@ 1 day", "1 day"),
            ("999999999 seconds", "277777:46:39"),
        ] {
            assert_eq!(normal(text), interval, "{text}");
        }
        for text in [
            "",
            " ",
            "3 foo",
            "1 day 2",
            "1-2",
            "P1Y",
            "+1 day",
            ".5 days",
            "ago",
            "12:61:00",
            "99999999999 days",
            "9999999999 seconds",
            "1 é",
        ] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn multiples_go_on_into_smaller_parts() {
        let of = |text, factor| {
            let mut written = String::new();
            write_interval(scaled(parse_interval(text).unwrap(), factor).unwrap(), &mut written).unwrap();
            written
        };
        assert_eq!(of("1 month", 1.5), "1 month 15 days");
        assert_eq!(of("1 month 3 days", 0.3), "9 days 21:36:00");
        assert_eq!(of("1 year", 1.0 / 3.0), "4 months");
        assert_eq!(of("1 day", 1.0 / 7.0), "03:25:42.857143");
        assert_eq!(of("1 month 1 day 1 second", 0.25), "7 days 18:00:00.25");
        assert_eq!(of("-1 month", 0.25), "-7 days -12:00:00");
        assert_eq!(scaled(parse_interval("1 day").unwrap(), f64::NAN), None);
    }
}
