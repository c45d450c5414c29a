//! Moments made of numbers, and numbers of moments: `make_timestamp`, `make_time`, `epoch_ms`, `last_day` and their like.
//!
//! Not here: parts of the calendar (`parts`), formats (`formats`).

use std::sync::Arc;

use chrono::{Datelike, NaiveDate};
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Date32Array, Int64Array, PrimitiveArray},
        compute::cast,
        datatypes::{
            DataType, Date32Type, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
            TimestampNanosecondType,
        },
    },
    common::{Result, exec_datafusion_err, exec_err},
    logical_expr::ScalarUDF,
};

use super::{
    Zone,
    differences::moments_taken,
    infinite::{finite, in_range},
    instants::{LOCAL, Micros, instant, instants, is_instant, local_array, micros},
    intervals::{DAYS_OF_MONTH, INTERVAL, MICROS_OF_DAY, intervals},
    zones::naive,
};
use crate::{
    arguments::{Argument, doubles, refused, taken, texts, wholes},
    function::{Function, Taken},
};

const NANOS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const TIME: DataType = DataType::Time64(TimeUnit::Nanosecond);

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    fn whole(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
        taken(name, &[Argument::Whole], 0, given)
    }
    type Body = fn(&[ArrayRef], &Zone) -> Result<ArrayRef>;
    let number =
        |name: &'static str, taken: Taken, body: Body| Function::of(name, taken, |_| Ok(DataType::Int64), body);
    let functions = [
        Function::of("make_timestamp", timestamp_taken, |_| Ok(LOCAL), timestamps),
        Function::of("to_timestamp", seconds_taken, |_| Ok(instant()), |args, _| of_seconds(&args[0])),
        Function::of("make_timestamptz", instant_taken, |_| Ok(instant()), zoned_timestamps).zoned(),
        Function::of(
            "make_timestamp_ms",
            |given| whole("make_timestamp_ms", given),
            |_| Ok(LOCAL),
            |args, _| of_millis(&args[0]),
        ),
        Function::of(
            "make_timestamp_ns",
            |given| whole("make_timestamp_ns", given),
            |_| Ok(NANOS),
            |args, _| in_range(Arc::new(wholes(&args[0])?.reinterpret_cast::<TimestampNanosecondType>())),
        ),
        Function::of("make_date", date_taken, |_| Ok(DataType::Date32), dates),
        Function::of("make_time", time_taken, |_| Ok(TIME), times),
        Function::of("last_day", last_day_taken, |_| Ok(DataType::Date32), last_days).zoned(),
        Function::of("epoch_ms", epoch_ms_taken, epoch_ms_type, |args, _| match args[0].data_type() {
            DataType::Int64 => of_millis(&args[0]),
            DataType::Interval(_) | DataType::Time32(_) | DataType::Time64(_) => {
                each_epoch(&args[0], |nanos| nanos / 1_000_000)
            }
            // To the nearest.
            _ => each_epoch(&args[0], |nanos| (nanos + nanos.signum() * 500_000) / 1_000_000),
        }),
        number(
            "epoch_us",
            |given| epoch_taken("epoch_us", given),
            |args, _| each_epoch(&args[0], |nanos| nanos.div_euclid(1000)),
        ),
        number("epoch_ns", |given| epoch_taken("epoch_ns", given), |args, _| each_epoch(&args[0], |nanos| nanos)),
        number(
            "nanosecond",
            |given| epoch_taken("nanosecond", given),
            |args, _| each_epoch(&args[0], |nanos| nanos.rem_euclid(60_000_000_000)),
        ),
    ];
    functions.into_iter().map(Function::registered).collect()
}

const DATE_AND_TIME: [Argument; 6] =
    [Argument::Whole, Argument::Whole, Argument::Whole, Argument::Whole, Argument::Whole, Argument::Double];

fn timestamp_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    match given.len() {
        1 => taken("make_timestamp", &[Argument::Whole], 0, given),
        _ => taken("make_timestamp", &DATE_AND_TIME, 0, given),
    }
}

fn seconds_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    let is_whole = matches!(given, [seconds] if seconds.is_integer() && *seconds != DataType::UInt64);
    taken("to_timestamp", &[if is_whole { Argument::Whole } else { Argument::Double }], 0, given)
}

/// The instants so many seconds after 1970.
fn of_seconds(seconds: &ArrayRef) -> Result<ArrayRef> {
    let out = || exec_datafusion_err!("timestamp out of range");
    let micros: Micros = match seconds.data_type() {
        DataType::Float64 => doubles(seconds)?.try_unary(|seconds| {
            let micros = (seconds * 1e6).round();
            if micros.abs() < i64::MAX as f64 { Ok(micros as i64) } else { Err(out()) }
        })?,
        _ => wholes(seconds)?.try_unary(|seconds| seconds.checked_mul(1_000_000).ok_or_else(out))?,
    };
    in_range(instants(micros))
}

fn instant_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    let name = "make_timestamptz";
    match given {
        [_] => taken(name, &[Argument::Whole], 0, given),
        [parts @ .., zone] if parts.len() == DATE_AND_TIME.len() && (zone.is_string() || zone.is_null()) => {
            let mut types = taken(name, &DATE_AND_TIME, 0, parts)?;
            types.push(DataType::Utf8View);
            Ok(types)
        }
        _ => taken(name, &DATE_AND_TIME, 0, given),
    }
}

fn date_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    const PARTS: [Argument; 3] = [Argument::Whole; 3];
    match given {
        [DataType::Struct(fields)] => {
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
            let are_parts = names.iter().map(|name| name.to_ascii_lowercase()).eq(["year", "month", "day"]);
            if !are_parts || taken("make_date", &PARTS, 0, &types).is_err() {
                return refused("make_date", given);
            }
            Ok(given.to_vec())
        }
        [_] => taken("make_date", &PARTS[..1], 0, given),
        _ => taken("make_date", &PARTS, 0, given),
    }
}

/// Of days since 1970, or of a year, a month and a day, which may be the fields of a struct.
fn dates(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let out_of_range = |date: &str| exec_datafusion_err!("Date out of range: {date}");
    let nulls = args[0].logical_nulls();
    let parts = match args {
        [parts] if parts.data_type().is_nested() => parts.as_struct().columns().to_vec(),
        [days] => {
            let dates: Date32Array = wholes(days)?
                .try_unary(|days| i32::try_from(days).map_err(|_| out_of_range(&format!("{days} days since 1970"))))?;
            return Ok(Arc::new(dates));
        }
        parts => parts.to_vec(),
    };
    let parts = parts.iter().map(wholes).collect::<Result<Vec<_>>>()?;
    let dates = (0..args[0].len()).map(|row| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) || parts.iter().any(|part| part.is_null(row)) {
            return Ok(None);
        }
        let [year, month, day] = [0, 1, 2].map(|part: usize| parts[part].value(row));
        let date = || NaiveDate::from_ymd_opt(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
        let date = date().ok_or_else(|| out_of_range(&format!("{year}-{month}-{day}")))?;
        Ok(Some(date.to_epoch_days()))
    });
    Ok(Arc::new(dates.collect::<Result<Date32Array>>()?))
}

fn timestamps(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    Ok(Arc::new(local_times(args)?))
}

/// In the zone that the last argument names, or the session's.
fn zoned_timestamps(args: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let local = local_times(args)?;
    if args.len() == 1 {
        return Ok(instants(local));
    }
    let names = args.get(DATE_AND_TIME.len()).map(texts).transpose()?;
    let made = (0..local.len()).map(|row| {
        if local.is_null(row) || names.as_ref().is_some_and(|names| names.is_null(row)) {
            return Ok(None);
        }
        let zone = names.as_ref().map_or(Ok(*zone), |names| Zone::named(names.value(row)))?;
        zone.to_instant(local.value(row)).map(Some)
    });
    Ok(instants(made.collect::<Result<Micros>>()?))
}

/// Of microseconds since 1970, or of a date's and a time's parts.
fn local_times(args: &[ArrayRef]) -> Result<Micros> {
    if let [since] = args {
        let since = wholes(since)?.reinterpret_cast::<TimestampMicrosecondType>();
        return Ok(in_range(Arc::new(since))?.as_primitive().clone());
    }
    let parts = args[..5].iter().map(wholes).collect::<Result<Vec<_>>>()?;
    let seconds = doubles(&args[5])?;
    let made = (0..seconds.len()).map(|row| {
        if seconds.is_null(row) || parts.iter().any(|part| part.is_null(row)) {
            return Ok(None);
        }
        let [year, month, day, hour, minute] = [0, 1, 2, 3, 4].map(|part: usize| parts[part].value(row));
        let date = || NaiveDate::from_ymd_opt(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
        let date = date().ok_or_else(|| exec_datafusion_err!("Date out of range: {year}-{month}-{day}"))?;
        let micros = micros_of(hour, minute, seconds.value(row))?;
        let midnight = date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_micros();
        midnight.checked_add(micros).map(Some).ok_or_else(|| exec_datafusion_err!("timestamp out of range"))
    });
    made.collect()
}

/// Microseconds of a day, of which a 24th hour begins the next one.
fn micros_of(hour: i64, minute: i64, second: f64) -> Result<i64> {
    let ends_day = hour == 24 && minute == 0 && second == 0.0;
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..61.0).contains(&second);
    if !is_time && !ends_day {
        return exec_err!("Time out of range: {hour}:{minute}:{second:?}");
    }
    Ok((hour * 60 + minute) * 60_000_000 + (second * 1e6).round() as i64)
}

fn of_millis(array: &ArrayRef) -> Result<ArrayRef> {
    let out_of_range = || exec_datafusion_err!("timestamp out of range");
    let times: Micros = wholes(array)?.try_unary(|millis| millis.checked_mul(1000).ok_or_else(out_of_range))?;
    Ok(Arc::new(times))
}

fn time_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    match given.len() {
        1 => taken("make_time", &[Argument::Whole], 0, given),
        _ => taken("make_time", &[Argument::Whole, Argument::Whole, Argument::Double], 0, given),
    }
}

/// Of nanoseconds of a day, or of hours, minutes and seconds.
fn times(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    const NANOS_OF_DAY: i64 = MICROS_OF_DAY * 1000;
    let checked = |nanos: i64| match (0..NANOS_OF_DAY).contains(&nanos) {
        true => Ok(nanos),
        false => exec_err!("a time is within a day"),
    };
    if let [nanos] = args {
        let times: PrimitiveArray<Time64NanosecondType> = wholes(nanos)?.try_unary(checked)?;
        return Ok(Arc::new(times));
    }
    let (hours, minutes, seconds) = (wholes(&args[0])?, wholes(&args[1])?, doubles(&args[2])?);
    let rows = hours.iter().zip(&minutes).zip(&seconds);
    let times = rows.map(|((hour, minute), second)| match (hour, minute, second) {
        (Some(hour), Some(minute), Some(second)) => checked(micros_of(hour, minute, second)? * 1000).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(times.collect::<Result<PrimitiveArray<Time64NanosecondType>>>()?))
}

fn last_day_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    match moments_taken(given, false).filter(|_| given.len() == 1) {
        Some(moment) => Ok(vec![moment]),
        None => refused("last_day", given),
    }
}

fn last_days(args: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let moments = micros(&finite(&args[0])?)?;
    let local = if is_instant(args[0].data_type()) { local_array(&moments, zone)? } else { moments };
    let days: Date32Array = local.try_unary::<_, Date32Type, _>(|micros| {
        let date = naive(micros)?.date();
        let last = date.with_day(date.num_days_in_month().into()).unwrap_or(date);
        Ok::<_, datafusion::error::DataFusionError>(Date32Type::from_naive_date(last))
    })?;
    Ok(Arc::new(days))
}

fn epoch_ms_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [given] if given.is_integer() => Ok(vec![DataType::Int64]),
        _ => epoch_taken("epoch_ms", given),
    }
}

fn epoch_ms_type(args: &[DataType]) -> Result<DataType> {
    Ok(if args[0] == DataType::Int64 { LOCAL } else { DataType::Int64 })
}

/// Moments, times of a day and intervals. Nanoseconds stay what they are.
fn epoch_taken(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [DataType::Interval(_) | DataType::Duration(_)] => Ok(vec![INTERVAL]),
        [DataType::Timestamp(TimeUnit::Nanosecond, _)] => Ok(given.to_vec()),
        [DataType::Time32(_) | DataType::Time64(_)] => Ok(vec![TIME]),
        [_] => match moments_taken(given, true) {
            Some(moment) => Ok(vec![moment]),
            None => refused(name, given),
        },
        _ => refused(name, given),
    }
}

/// `of` the nanoseconds since 1970, since midnight, or of an interval with months of 30 days.
fn each_epoch(array: &ArrayRef, of: impl Fn(i128) -> i128) -> Result<ArrayRef> {
    let array = &finite(array)?;
    let number = |nanos: i128| {
        i64::try_from(of(nanos)).map_err(|_| exec_datafusion_err!("the moment has too many units for a BIGINT"))
    };
    let epochs: Int64Array = match array.data_type() {
        DataType::Interval(_) => intervals(array)?.try_unary(|interval| {
            let days = i64::from(interval.months) * DAYS_OF_MONTH + i64::from(interval.days);
            number(i128::from(days) * i128::from(MICROS_OF_DAY) * 1000 + i128::from(interval.nanoseconds))
        })?,
        DataType::Time64(TimeUnit::Nanosecond) => {
            array.as_primitive::<Time64NanosecondType>().try_unary(|nanos| number(nanos.into()))?
        }
        DataType::Time64(_) => {
            let times = cast(array, &DataType::Time64(TimeUnit::Microsecond))?;
            times.as_primitive::<Time64MicrosecondType>().try_unary(|micros| number(i128::from(micros) * 1000))?
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive::<TimestampNanosecondType>().try_unary(|nanos| number(nanos.into()))?
        }
        _ => micros(array)?.try_unary(|micros| number(i128::from(micros) * 1000))?,
    };
    Ok(Arc::new(epochs))
}
