//! `time_bucket`: the beginning of the stretch of time that a moment is in, where all stretches are as long as an interval says.
//!
//! Stretches of months begin with the first month of the year 2000, others with Monday, the 3rd of January 2000, or where a third argument says: a moment, or an
//! interval by which all of them are moved. Stretches of instants are those of UTC, whatever the session's zone is; if the third argument is the name of a zone,
//! those of days and months are as clocks there show them.
//!
//! Not here: `date_trunc`, whose units are those of the calendar.

use std::sync::Arc;

use chrono::{Datelike, NaiveDate, NaiveTime};
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, PrimitiveArray, StringViewArray},
        datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64NanosecondType, TimeUnit},
    },
    common::{Result, exec_datafusion_err, exec_err},
    logical_expr::ScalarUDF,
};

use super::{
    Zone,
    differences::moments_taken,
    infinite::{cast_moments, finite, is_infinite},
    instants::{LOCAL, Micros, instants, is_instant, micros, moved_by},
    intervals::{INTERVAL, MICROS_OF_DAY, intervals},
    zones::naive,
};
use crate::{
    arguments::{refused, texts},
    function::Function,
};

/// The function that statements may name.
pub fn time_bucket() -> ScalarUDF {
    Function::of("time_bucket", types, |args| Ok(args[1].clone()), buckets).registered()
}

const TIME: DataType = DataType::Time64(TimeUnit::Nanosecond);

fn types(given: &[DataType]) -> Result<Vec<DataType>> {
    let is_interval =
        |given: &DataType| matches!(given, DataType::Interval(_) | DataType::Duration(_)) || given.is_null();
    let [width, moment, others @ ..] = given else { return refused("time_bucket", given) };
    if !is_interval(width) {
        return refused("time_bucket", given);
    }
    if matches!(moment, DataType::Time32(_) | DataType::Time64(_)) && others.is_empty() {
        return Ok(vec![INTERVAL, TIME]);
    }
    let Some(both) = moments_taken(std::slice::from_ref(moment), false) else { return refused("time_bucket", given) };
    // Dates stay dates.
    let kept = match moment {
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        _ => both,
    };
    match others {
        [] => Ok(vec![INTERVAL, kept]),
        [other] if is_interval(other) => Ok(vec![INTERVAL, kept, INTERVAL]),
        [zone] if zone.is_string() && is_instant(&kept) => Ok(vec![INTERVAL, kept, DataType::Utf8View]),
        [other] => match moments_taken(&[moment.clone(), other.clone()], false) {
            Some(both) if is_instant(&both) => Ok(vec![INTERVAL, both.clone(), both]),
            Some(_) => Ok(vec![INTERVAL, kept, LOCAL]),
            None => refused("time_bucket", given),
        },
        _ => refused("time_bucket", given),
    }
}

/// How long a stretch is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Width {
    Months(i64),
    /// Microseconds; `of_days`: whole days.
    Micros {
        length: i64,
        of_days: bool,
    },
}

impl Width {
    fn of(interval: IntervalMonthDayNano) -> Result<Self> {
        let micros = interval.nanoseconds / 1000;
        if interval.months != 0 {
            if interval.days != 0 || micros != 0 {
                return exec_err!("an interval of months in time_bucket has neither days nor a time beside them");
            }
            return match interval.months {
                months @ 1.. => Ok(Self::Months(months.into())),
                _ => exec_err!("the interval of time_bucket must be greater than 0"),
            };
        }
        let length = i64::from(interval.days).checked_mul(MICROS_OF_DAY).and_then(|days| days.checked_add(micros));
        match length {
            Some(length @ 1..) => Ok(Self::Micros { length, of_days: micros == 0 }),
            Some(_) => exec_err!("the interval of time_bucket must be greater than 0"),
            None => exec_err!("the interval of time_bucket is too long"),
        }
    }
}

fn out_of_range() -> datafusion::error::DataFusionError {
    exec_datafusion_err!("timestamp out of range")
}

/// Monday, the 3rd of January 2000, in microseconds since 1970.
const MONDAY: i64 = 10_959 * MICROS_OF_DAY;
/// Months from the year 0 to 2000.
const MONTH_2000: i64 = 2000 * 12;

fn month_of(local: i64) -> Result<i64> {
    let date = naive(local)?.date();
    Ok(i64::from(date.year()) * 12 + i64::from(date.month0()))
}

/// Where the stretch begins that `at` is in, both as clocks show them.
fn begin(width: Width, at: i64, origin: Option<i64>) -> Result<i64> {
    match width {
        Width::Months(months) => {
            let origin = origin.map_or(Ok(MONTH_2000), month_of)?;
            let month = origin + (month_of(at)? - origin).div_euclid(months) * months;
            let (year, month) = (month.div_euclid(12), month.rem_euclid(12));
            let first = || NaiveDate::from_ymd_opt(year.try_into().ok()?, month as u32 + 1, 1);
            Ok(first().ok_or_else(out_of_range)?.and_time(NaiveTime::MIN).and_utc().timestamp_micros())
        }
        Width::Micros { length, .. } => {
            let origin = i128::from(origin.unwrap_or(MONDAY));
            let since = i128::from(at) - origin;
            let begin = origin + since.div_euclid(length.into()) * i128::from(length);
            i64::try_from(begin).map_err(|_| out_of_range())
        }
    }
}

/// As [`begin`], of an instant in `zone`.
fn begin_in_zone(width: Width, at: i64, zone: &Zone) -> Result<i64> {
    match width {
        // Time passes everywhere alike.
        Width::Micros { of_days: false, .. } => begin(width, at, Some(zone.to_instant(MONDAY)?)),
        _ => zone.to_instant(begin(width, zone.to_local(at)?, None)?),
    }
}

/// What the third argument says.
enum Third {
    Nothing,
    Offsets(PrimitiveArray<IntervalMonthDayNanoType>),
    Origins(Micros),
    Zones(StringViewArray),
}

impl Third {
    fn of(array: Option<&ArrayRef>) -> Result<Self> {
        Ok(match array {
            None => Self::Nothing,
            Some(array) if *array.data_type() == INTERVAL => Self::Offsets(intervals(array)?),
            Some(array) if array.data_type().is_string() => Self::Zones(texts(array)?),
            Some(array) => Self::Origins(micros(&finite(array)?)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::Offsets(offsets) => offsets.is_null(row),
            Self::Origins(origins) => origins.is_null(row),
            Self::Zones(zones) => zones.is_null(row),
        }
    }
}

fn buckets(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let widths = intervals(&args[0])?;
    if *args[1].data_type() == TIME {
        let times = args[1].as_primitive::<Time64NanosecondType>();
        let begins = widths.iter().zip(times).map(|(width, time)| {
            let Some((width, time)) = width.zip(time) else { return Ok(None) };
            match Width::of(width)? {
                Width::Months(_) => exec_err!("a time has no months to be in"),
                width => Ok(Some(begin(width, time / 1000, Some(0))? * 1000)),
            }
        });
        return Ok(Arc::new(begins.collect::<Result<PrimitiveArray<Time64NanosecondType>>>()?));
    }
    let (moments, third) = (micros(&args[1])?, Third::of(args.get(2))?);
    let begins = (0..moments.len()).map(|row| {
        if widths.is_null(row) || moments.is_null(row) || third.is_null(row) {
            return Ok(None);
        }
        let (width, at) = (Width::of(widths.value(row))?, moments.value(row));
        if is_infinite(at) {
            return Ok(Some(at));
        }
        let begin = match &third {
            Third::Nothing => begin(width, at, None),
            Third::Origins(origins) => begin(width, at, Some(origins.value(row))),
            Third::Zones(zones) => begin_in_zone(width, at, &Zone::named(zones.value(row))?),
            Third::Offsets(offsets) => {
                let by = offsets.value(row);
                let moved = moved_by(at, by, true, &Zone::UTC)?;
                moved_by(begin(width, moved, None)?, by, false, &Zone::UTC)
            }
        };
        begin.map(Some)
    });
    let begins = begins.collect::<Result<Micros>>()?;
    Ok(match args[1].data_type() {
        DataType::Date32 => cast_moments(&(Arc::new(begins) as ArrayRef), &DataType::Date32, false)?,
        instant if is_instant(instant) => instants(begins),
        _ => Arc::new(begins),
    })
}
