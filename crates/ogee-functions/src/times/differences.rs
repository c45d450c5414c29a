//! How far apart two moments are: `date_diff`, `date_sub` and `age`.
//!
//! `date_diff` counts the borders of a unit between them, `date_sub` the whole units, and `age` is years, months, days and a time, where a month has the days of
//! the month that it begins in. Of instants, units of days and more are those of clocks in the session's zone, smaller ones pass everywhere alike.
//!
//! Not here: `-` of two moments (`intervals`, `instants`).

use std::{collections::HashMap, sync::Arc};

use chrono::{Datelike, NaiveDate};
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray},
        compute::cast,
        datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit},
    },
    common::{Result, exec_datafusion_err, exec_err},
    logical_expr::ScalarUDF,
};

use super::{
    Zone,
    infinite::finite,
    instants::{LOCAL, Micros, instant, is_instant, local_array, micros},
    intervals::{INTERVAL, MICROS_OF_DAY},
    parts::part_named,
    zones::naive,
};
use crate::{
    arguments::{refused, texts},
    function::Function,
};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    let returns = |_: &[DataType]| Ok(DataType::Int64);
    let borders = |args: &[ArrayRef], zone: &Zone| counted(args, zone, "date_diff", borders_between);
    let wholes = |args: &[ArrayRef], zone: &Zone| counted(args, zone, "date_sub", wholes_between);
    let functions = [
        Function::of("date_diff", |given| part_and_two("date_diff", given), returns, borders).also(&["datediff"]),
        Function::of("date_sub", |given| part_and_two("date_sub", given), returns, wholes).also(&["datesub"]),
        Function::of("age", two_moments, |_| Ok(INTERVAL), ages),
    ];
    functions.map(|function| function.zoned().registered()).into()
}

/// The one type of moments that are given as these: times of a day, instants if one is, or local times.
pub(super) fn moments_taken(given: &[DataType], takes_times: bool) -> Option<DataType> {
    const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);
    let is_time = |given: &DataType| matches!(given, DataType::Time32(_) | DataType::Time64(_));
    let is_date = |given: &DataType| matches!(given, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..));
    let all = |is: &dyn Fn(&DataType) -> bool| given.iter().all(|given| given.is_null() || is(given));
    match () {
        () if all(&is_date) => Some(if given.iter().any(is_instant) { instant() } else { LOCAL }),
        () if takes_times && all(&is_time) => Some(TIME),
        () => None,
    }
}

/// The same where one of them may be a text, which is read as what the other is.
fn two_taken(given: &[DataType], takes_times: bool) -> Option<DataType> {
    let moments: Vec<DataType> = given.iter().filter(|given| !given.is_string()).cloned().collect();
    let is_read = moments.len() < given.len();
    if is_read && moments.iter().all(DataType::is_null) {
        return None;
    }
    moments_taken(&moments, takes_times)
}

fn part_and_two(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [part, moments @ ..] if moments.len() == 2 && (part.is_string() || part.is_null()) => {
            match two_taken(moments, true) {
                Some(both) => Ok(vec![DataType::Utf8View, both.clone(), both]),
                None => refused(name, given),
            }
        }
        _ => refused(name, given),
    }
}

fn two_moments(given: &[DataType]) -> Result<Vec<DataType>> {
    match two_taken(given, false).filter(|_| given.len() == 2) {
        Some(both) => Ok(vec![both.clone(), both]),
        None => refused("age", given),
    }
}

/// What two moments are apart in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Months(i64),
    /// Years of weeks.
    IsoYears,
    Weeks,
    Days,
    /// So many microseconds.
    Micros(i64),
}

impl Unit {
    fn named(name: &str, is_time: bool) -> Result<Self> {
        let part = part_named(name);
        Ok(match part.as_str() {
            "hour" => Self::Micros(3_600_000_000),
            "minute" => Self::Micros(60_000_000),
            "second" | "epoch" => Self::Micros(1_000_000),
            "millisecond" => Self::Micros(1000),
            "microsecond" => Self::Micros(1),
            part if is_time => return exec_err!("a time has no part '{part}'"),
            "millennium" => Self::Months(12_000),
            "century" => Self::Months(1200),
            "decade" => Self::Months(120),
            "year" => Self::Months(12),
            "quarter" => Self::Months(3),
            "month" => Self::Months(1),
            "isoyear" => Self::IsoYears,
            "week" | "yearweek" => Self::Weeks,
            "day" | "dow" | "isodow" | "doy" | "julian" => Self::Days,
            _ => return exec_err!("two moments are not apart in '{name}'"),
        })
    }
}

/// Two moments: as clocks show them, and the time that passes between them in microseconds.
struct Pair {
    from: i64,
    to: i64,
    passed: i64,
}

/// Moments as clocks show them, and as they follow each other everywhere; NULL for those that are infinite, from which nothing is so many units away.
fn clocks(array: &ArrayRef, zone: &Zone) -> Result<(Micros, Micros)> {
    if let DataType::Time64(_) = array.data_type() {
        let times = cast(array, &DataType::Time64(TimeUnit::Microsecond))?;
        let times: Micros = times.as_primitive::<Time64MicrosecondType>().unary(|micros| micros);
        return Ok((times.clone(), times));
    }
    let passing = micros(&finite(array)?)?;
    let shown = if is_instant(array.data_type()) { local_array(&passing, zone)? } else { passing.clone() };
    Ok((shown, passing))
}

fn counted(args: &[ArrayRef], zone: &Zone, name: &str, count: fn(Unit, &Pair) -> Result<i64>) -> Result<ArrayRef> {
    let parts = texts(&args[0])?;
    let is_time = matches!(args[1].data_type(), DataType::Time64(_));
    let ((from, from_passing), (to, to_passing)) = (clocks(&args[1], zone)?, clocks(&args[2], zone)?);
    let mut known: HashMap<&str, Unit> = HashMap::new();
    let mut counts = Vec::with_capacity(from.len());
    for row in 0..from.len() {
        if parts.is_null(row) || from.is_null(row) || to.is_null(row) {
            counts.push(None);
            continue;
        }
        let part = parts.value(row);
        let unit = match known.get(part) {
            Some(unit) => *unit,
            None => {
                let unit = Unit::named(part, is_time)?;
                known.insert(part, unit);
                unit
            }
        };
        let passed = to_passing.value(row).checked_sub(from_passing.value(row));
        let passed = passed.ok_or_else(|| exec_datafusion_err!("{name}: the moments are too far apart"))?;
        counts.push(Some(count(unit, &Pair { from: from.value(row), to: to.value(row), passed })?));
    }
    Ok(Arc::new(Int64Array::from(counts)))
}

/// Days since 1970.
fn day(micros: i64) -> i64 {
    micros.div_euclid(MICROS_OF_DAY)
}

fn borders_between(unit: Unit, pair: &Pair) -> Result<i64> {
    let &Pair { from, to, passed } = pair;
    let of_dates = |of: &dyn Fn(NaiveDate) -> i64| Ok(of(naive(to)?.date()) - of(naive(from)?.date()));
    match unit {
        // Centuries begin with their year 0 here.
        Unit::Months(months) if months >= 12 => of_dates(&|date| i64::from(date.year()) / (months / 12)),
        Unit::Months(months) => {
            of_dates(&|date| (i64::from(date.year()) * 12 + i64::from(date.month0())).div_euclid(months))
        }
        Unit::IsoYears => of_dates(&|date| date.iso_week().year().into()),
        Unit::Weeks => Ok((day(to) - day(from)) / 7),
        Unit::Days => Ok(day(to) - day(from)),
        Unit::Micros(micros) => {
            // A border of clocks is one of time if zones are whole units ahead.
            let begin = from.rem_euclid(micros);
            let passed = i128::from(begin) + i128::from(passed);
            i64::try_from(passed.div_euclid(micros.into()))
                .map_err(|_| exec_datafusion_err!("the moments are too far apart"))
        }
    }
}

fn wholes_between(unit: Unit, pair: &Pair) -> Result<i64> {
    let &Pair { from, to, passed } = pair;
    Ok(match unit {
        Unit::Months(each) => months_between(from, to)? / each,
        Unit::IsoYears => months_between(from, to)? / 12,
        Unit::Weeks => (to - from) / MICROS_OF_DAY / 7,
        Unit::Days => (to - from) / MICROS_OF_DAY,
        Unit::Micros(micros) => passed / micros,
    })
}

/// Whole months; the last day of a month is a month after a day that it has not.
fn months_between(from: i64, to: i64) -> Result<i64> {
    if from > to {
        return Ok(-months_between(to, from)?);
    }
    let end = naive(to)?.date();
    let begin = naive(from)?.date();
    let last = days_of_month(end);
    let mut from = from;
    if end.day() == last && begin.day() > last {
        from -= i64::from(begin.day() - last) * MICROS_OF_DAY;
    }
    Ok(age(to, from)?.months.into())
}

fn days_of_month(date: NaiveDate) -> u32 {
    u32::from(date.num_days_in_month())
}

fn ages(args: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let ((to, _), (from, _)) = (clocks(&args[0], zone)?, clocks(&args[1], zone)?);
    let ages = to.iter().zip(&from).map(|(to, from)| to.zip(from).map(|(to, from)| age(to, from)).transpose());
    Ok(Arc::new(ages.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?))
}

/// `to - from` in years, months, days and a time, all of one sign. What lacks of a month is taken from that which the earlier moment is in.
fn age(to: i64, from: i64) -> Result<IntervalMonthDayNano> {
    let (later, earlier, sign) = if to < from { (from, to, -1) } else { (to, from, 1) };
    let (later_date, earlier_date) = (naive(later)?.date(), naive(earlier)?.date());
    let mut micros = later.rem_euclid(MICROS_OF_DAY) - earlier.rem_euclid(MICROS_OF_DAY);
    let mut days = i64::from(later_date.day()) - i64::from(earlier_date.day());
    let month = |date: NaiveDate| i64::from(date.year()) * 12 + i64::from(date.month0());
    let mut months = month(later_date) - month(earlier_date);
    if micros < 0 {
        micros += MICROS_OF_DAY;
        days -= 1;
    }
    while days < 0 {
        days += i64::from(days_of_month(earlier_date));
        months -= 1;
    }
    let (months, days) = (months as i32 * sign, days as i32 * sign);
    Ok(IntervalMonthDayNano::new(months, days, micros * 1000 * i64::from(sign)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use chrono::NaiveDateTime;

    use super::*;

    fn at(text: &str) -> i64 {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap().and_utc().timestamp_micros()
    }

    #[test]
    fn ages_are_those_of_postgresql() {
        for (to, from, (months, days, hours)) in [
            ("2001-04-10 00:00", "1957-06-13 00:00", (43 * 12 + 9, 27, 0)),
            ("2024-03-31 10:00", "2024-02-29 12:00", (1, 1, 22)),
            ("2024-01-31 10:00", "2024-03-01 00:00", (-1, 0, -14)),
            ("2000-02-29 00:00", "2001-03-30 00:00", (-13, -1, 0)),
        ] {
            let expected = IntervalMonthDayNano::new(months, days, hours * 3_600_000_000_000);
            assert_eq!(age(at(to), at(from)).unwrap(), expected, "{to} {from}");
        }
    }

    #[test]
    fn months_end_with_their_last_day() {
        for (from, to, months) in [
            ("2024-01-31 00:00", "2024-02-29 00:00", 1),
            ("2024-01-31 12:00", "2024-02-29 11:00", 0),
            ("2024-03-30 00:00", "2024-02-29 00:00", -1),
            ("2024-02-29 00:00", "2024-03-28 00:00", 0),
            ("2020-02-29 00:00", "2021-02-28 00:00", 12),
        ] {
            assert_eq!(months_between(at(from), at(to)).unwrap(), months, "{from} {to}");
        }
    }

    #[test]
    fn units_below_days_are_counted_from_before_1970() {
        let pair = |from: i64, to: i64| Pair { from, to, passed: to - from };
        assert_eq!(borders_between(Unit::Micros(1_000_000), &pair(-100_000, 100_000)).unwrap(), 1);
        assert_eq!(wholes_between(Unit::Micros(1_000_000), &pair(-100_000, 100_000)).unwrap(), 0);
        assert_eq!(borders_between(Unit::Weeks, &pair(at("2024-01-08 00:00"), at("2024-01-07 00:00"))).unwrap(), 0);
    }
}
