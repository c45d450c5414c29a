//! Columns of instants: to local times and back, to texts and back, moved by intervals.
//!
//! Each function here has the zone of the session in it, but for [`timezone`], which is given one.
//!
//! Not here: one instant (`zones`, `moments`).

use std::{collections::HashMap, sync::Arc};

use chrono::{Days, Months};
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray, StringViewBuilder},
        datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType},
    },
    common::{Result, exec_datafusion_err, plan_err},
    logical_expr::{Expr, ScalarUDF},
};

use crate::{
    arguments::texts,
    function::{Function, Shown},
};

use super::{
    TIMEZONE,
    infinite::{cast_moments, finite, is_infinite},
    intervals::{INTERVAL, each_pair, infinitely_long, intervals},
    moments::{instant_of, write_instant},
    zones::{Zone, naive},
};

/// The type of local times.
pub const LOCAL: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The type of instants.
pub fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn an_instant(_: &[DataType]) -> Result<DataType> {
    Ok(instant())
}

/// Whether values of the type are instants.
pub fn is_instant(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)))
}

/// Moments, whichever they are.
pub(crate) type Micros = PrimitiveArray<TimestampMicrosecondType>;

/// Microseconds since 1970: of instants in UTC, of others as they are.
pub(crate) fn micros(array: &ArrayRef) -> Result<Micros> {
    let data_type = match array.data_type() {
        DataType::Timestamp(_, Some(zone)) => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::clone(zone))),
        _ => LOCAL,
    };
    let array =
        if *array.data_type() == data_type { Arc::clone(array) } else { cast_moments(array, &data_type, false)? };
    Ok(array.as_primitive::<TimestampMicrosecondType>().clone().with_data_type(LOCAL))
}

/// `values`, which are instants, as such.
pub(crate) fn instants(values: Micros) -> ArrayRef {
    Arc::new(values.with_data_type(instant()))
}

/// What clocks in `zone` show at each of the instants `values`.
pub(crate) fn local_array(values: &Micros, zone: &Zone) -> Result<Micros> {
    match zone {
        Zone::Fixed(0) => Ok(values.clone()),
        zone => values.try_unary(|value| zone.to_local(value)),
    }
}

/// When clocks in `zone` show each of the times `values`.
pub(crate) fn instant_array(values: &Micros, zone: &Zone) -> Result<Micros> {
    match zone {
        Zone::Fixed(0) => Ok(values.clone()),
        zone => values.try_unary(|value| zone.to_instant(value)),
    }
}

/// What clocks in `zone` show at an instant.
pub fn to_local(moment: Expr, zone: &Zone) -> Expr {
    fn body(args: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
        Ok(Arc::new(local_array(&micros(&args[0])?, zone)?))
    }
    Function::new("ogee_local_time", 1, |_| Ok(LOCAL), body).in_zone(zone).call(vec![moment])
}

/// The instant at which clocks in `zone` show a date or timestamp.
pub fn to_instant(local: Expr, zone: &Zone) -> Expr {
    fn body(args: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
        Ok(instants(instant_array(&micros(&args[0])?, zone)?))
    }
    Function::new("ogee_instant", 1, an_instant, body).in_zone(zone).call(vec![local])
}

/// The instant that a text names, in `zone` unless it says which. NULL for one that names none where that is wanted.
pub fn instant_of_text(text: Expr, zone: &Zone, null_if_none: bool) -> Expr {
    fn parsed(args: &[ArrayRef], zone: &Zone, null_if_none: bool) -> Result<ArrayRef> {
        let of = |text: Option<&str>| match text.map(|text| instant_of(text, zone)) {
            Some(Err(_)) if null_if_none => Ok(None),
            parsed => parsed.transpose(),
        };
        let values = texts(&args[0])?.iter().map(of).collect::<Result<Vec<_>>>()?;
        Ok(instants(Micros::from(values)))
    }
    let function = match null_if_none {
        true => Function::new("ogee_try_instant_of", 1, an_instant, |args, zone| parsed(args, zone, true)),
        false => Function::new("ogee_instant_of", 1, an_instant, |args, zone| parsed(args, zone, false)),
    };
    function.in_zone(zone).call(vec![text])
}

/// The text of an instant, as clocks in `zone` show it, with the offset.
pub fn text_of_instant(moment: Expr, zone: &Zone) -> Expr {
    let body = |args: &[ArrayRef], zone: &Zone| instant_texts(&args[0], zone);
    let function = Function::new("ogee_instant_text", 1, |_| Ok(DataType::Utf8View), body);
    function.in_zone(zone).call(vec![moment])
}

/// The texts of `array`'s instants, as clocks in `zone` show them.
pub fn instant_texts(array: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    let values = micros(array)?;
    let mut texts = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for value in values.iter() {
        let Some(value) = value else {
            texts.append_null();
            continue;
        };
        text.clear();
        write_instant(value, zone, &mut text)?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// Seconds that clocks in `zone` are ahead of UTC at an instant, in units of `unit` seconds, below the next larger one.
pub fn offset_part(moment: Expr, part: &str, zone: &Zone) -> Option<Expr> {
    fn offsets(args: &[ArrayRef], zone: &Zone, of: fn(i64) -> i64) -> Result<ArrayRef> {
        let offsets: Int64Array = micros(&finite(&args[0])?)?.try_unary(|value| zone.offset_at(value).map(of))?;
        Ok(Arc::new(offsets))
    }
    let returns = |_: &[DataType]| Ok(DataType::Int64);
    let function = match part {
        "timezone" => Function::new("ogee_offset", 1, returns, |args, zone| offsets(args, zone, |value| value)),
        "timezone_hour" => {
            Function::new("ogee_offset_hour", 1, returns, |args, zone| offsets(args, zone, |value| value / 3600))
        }
        "timezone_minute" => {
            Function::new("ogee_offset_minute", 1, returns, |args, zone| offsets(args, zone, |value| value / 60 % 60))
        }
        _ => return None,
    };
    Some(function.in_zone(zone).call(vec![moment]))
}

/// An instant moved by an interval: by months and days as clocks in `zone` count them, by the rest as time passes.
pub fn move_instant(moment: Expr, interval: Expr, back: bool, zone: &Zone) -> Expr {
    fn moved(args: &[ArrayRef], zone: &Zone, back: bool) -> Result<ArrayRef> {
        let of = |value: i64, interval| moved_by(value, interval, back, zone);
        let values = each_pair(micros(&args[0])?.iter(), intervals(&args[1])?.iter(), of)?;
        Ok(instants(Micros::from(values)))
    }
    let function = match back {
        true => Function::new("ogee_instant_minus", 2, an_instant, |args, zone| moved(args, zone, true))
            .shown(Shown::Operator("-")),
        false => Function::new("ogee_instant_plus", 2, an_instant, |args, zone| moved(args, zone, false))
            .shown(Shown::Operator("+")),
    };
    function.in_zone(zone).call(vec![moment, interval])
}

/// An instant, or in UTC a local time, moved by an interval.
pub(super) fn moved_by(value: i64, interval: IntervalMonthDayNano, back: bool, zone: &Zone) -> Result<i64> {
    let out_of_range = || exec_datafusion_err!("timestamp out of range");
    if is_infinite(value) {
        return Ok(value);
    }
    let sign = if back { -1 } else { 1 };
    let mut value = value;
    let (months, days) = (i64::from(interval.months) * sign, i64::from(interval.days) * sign);
    if months != 0 || days != 0 {
        let mut local = naive(zone.to_local(value)?)?;
        let by_months = Months::new(u32::try_from(months.unsigned_abs()).map_err(|_| out_of_range())?);
        let by_days = Days::new(days.unsigned_abs());
        local = if months < 0 { local.checked_sub_months(by_months) } else { local.checked_add_months(by_months) }
            .ok_or_else(out_of_range)?;
        local = if days < 0 { local.checked_sub_days(by_days) } else { local.checked_add_days(by_days) }
            .ok_or_else(out_of_range)?;
        value = zone.to_instant(local.and_utc().timestamp_micros())?;
    }
    let moved = value.checked_add(sign * (interval.nanoseconds / 1000));
    moved.filter(|moved| !is_infinite(*moved)).ok_or_else(out_of_range)
}

/// The time between two instants, in days as clocks in `zone` count them, and the rest.
pub fn instant_difference(left: Expr, right: Expr, zone: &Zone) -> Expr {
    fn body(args: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
        let of = |left: i64, right: i64| between(left, right, zone);
        let values = each_pair(micros(&args[0])?.iter(), micros(&args[1])?.iter(), of)?;
        Ok(Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::from_iter(values)))
    }
    let function = Function::new("ogee_instant_difference", 2, |_| Ok(INTERVAL), body);
    function.shown(Shown::Operator("-")).in_zone(zone).call(vec![left, right])
}

fn between(left: i64, right: i64, zone: &Zone) -> Result<IntervalMonthDayNano> {
    if is_infinite(left) || is_infinite(right) {
        return infinitely_long();
    }
    let out_of_range = || exec_datafusion_err!("interval out of range");
    let clocks = zone.to_local(left)?.checked_sub(zone.to_local(right)?).ok_or_else(out_of_range)?;
    // Whole days that do not go past `left`, then what is left of it.
    let mut days = super::intervals::days_and_time(clocks)?.days;
    let by = |days| IntervalMonthDayNano::new(0, days, 0);
    let mut near = moved_by(right, by(days), false, zone)?;
    if (left > right && near > left) || (left < right && near < left) {
        days -= days.signum();
        near = moved_by(right, by(days), false, zone)?;
    }
    let rest = left.checked_sub(near).and_then(|micros| micros.checked_mul(1000)).ok_or_else(out_of_range)?;
    Ok(IntervalMonthDayNano::new(0, days, rest))
}

/// `timezone(zone, moment)`: of an instant what clocks there show, of a local time the instant when they show it.
pub fn timezone() -> ScalarUDF {
    fn returns(args: &[DataType]) -> Result<DataType> {
        if !(args[0].is_string() || args[0].is_null()) {
            return plan_err!("AT TIME ZONE takes the name of a zone, not {}", args[0]);
        }
        match &args[1] {
            DataType::Timestamp(_, Some(_)) => Ok(LOCAL),
            DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64 => Ok(instant()),
            DataType::Null => Ok(LOCAL),
            other => plan_err!("AT TIME ZONE takes a timestamp, not {other}; cast it to TIMESTAMP or TIMESTAMPTZ"),
        }
    }
    fn body(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
        let to_local = is_instant(args[1].data_type());
        let names = texts(&args[0])?;
        let values = micros(&args[1])?;
        let mut known: HashMap<String, Zone> = HashMap::new();
        let mut moved = Vec::with_capacity(values.len());
        for (name, value) in names.iter().zip(values.iter()) {
            let (Some(name), Some(value)) = (name, value) else {
                moved.push(None);
                continue;
            };
            let zone = match known.get(name) {
                Some(zone) => *zone,
                None => {
                    let zone = by_name(name)?;
                    known.insert(name.to_owned(), zone);
                    zone
                }
            };
            moved.push(Some(if to_local { zone.to_local(value)? } else { zone.to_instant(value)? }));
        }
        let moved = Micros::from(moved);
        Ok(if to_local || args[1].data_type().is_null() { Arc::new(moved) } else { instants(moved) })
    }
    ScalarUDF::new_from_impl(Function::new(TIMEZONE, 2, returns, body))
}

/// A zone that a statement names. An offset alone is refused: PostgreSQL and ISO 8601 count it in opposite directions.
fn by_name(name: &str) -> Result<Zone> {
    match super::zones::offset_of(name) {
        Some(_) => Err(exec_datafusion_err!("unknown time zone '{name}'; for an offset write 'UTC{name}'")),
        None => Zone::named(name),
    }
}
