//! Dates and timestamps of years below 1 and above 9999, which the libraries read only in part: as far as the types go.
//!
//! Days are counted in the calendar that goes on beyond all years, as the standard has it: 400 years have as many days as any other 400.
//!
//! Not here: moments in other years, infinite ones (`infinite`), and how moments are written (`written`).

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Int64Array},
        compute::cast,
        datatypes::{DataType, Int64Type},
    },
    common::{Result, ScalarValue},
};

use super::infinite::{is_infinite, is_infinite_day, units_of_second};

/// 0001-01-01 and the day behind 9999-12-31, in days since 1970.
const FIRST: i64 = -719_162;
const LAST: i64 = 2_932_896;
pub(super) const SECONDS_OF_DAY: i64 = 86_400;

/// The days from 1970-01-01 to that of `year`; `None` if the year has no such day.
pub(super) fn days_of(year: i64, month: u32, day: u32) -> Option<i64> {
    let leaps = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    let length = match month {
        2 => 28 + u32::from(leaps),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Years that begin in March end with the day that some have.
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * i64::from((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468)
}

/// The year, month and day so many days after 1970-01-01.
pub(super) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The number of days or units since 1970 that `text` stands for, which is written `±year-month-day hours:minutes:seconds` as `text_casts` does it; `None` if it is not, or there is no such moment of type `to`.
pub fn count_of(text: &str, to: &DataType) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ if text.starts_with("0000-") => (1, text),
        _ => return None,
    };
    let (day, time) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut parts = day.split('-');
    let mut part = || parts.next().filter(|part| part.bytes().all(|digit| digit.is_ascii_digit()));
    let (year, month, day) = (part()?.parse::<i64>().ok()?, part()?.parse().ok()?, part()?.parse().ok()?);
    let days = days_of(sign * year, month, day)?;
    let unit = match to {
        DataType::Date32 => {
            return i32::try_from(days).ok().filter(|days| !is_infinite_day(*days)).map(i64::from);
        }
        DataType::Timestamp(unit, None) => *unit,
        _ => return None,
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let seconds = match time.is_empty() {
        true => 0,
        false => {
            let mut parts = time.split(':').map(|part| part.parse::<i64>().ok());
            let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
            let is_time = hours < 24 && minutes < 60 && seconds < 60;
            is_time.then_some(hours * 3600 + minutes * 60 + seconds)?
        }
    };
    let nanos: i64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let units = i128::from(units_of_second(unit));
    let whole = (i128::from(days) * i128::from(SECONDS_OF_DAY) + i128::from(seconds)) * units;
    let count = whole + i128::from(nanos) * units / 1_000_000_000;
    i64::try_from(count).ok().filter(|count| !is_infinite(*count))
}

/// The moment of type `to` that `text` stands for, if it is one of those.
pub fn value_of(text: &str, to: &DataType) -> Option<ScalarValue> {
    let count = Int64Array::from(vec![count_of(text, to)?]);
    ScalarValue::try_from_array(&of_counts(&count, to).ok()?, 0).ok()
}

/// Moments of type `to` of their numbers.
pub fn of_counts(counts: &Int64Array, to: &DataType) -> Result<ArrayRef> {
    Ok(match to {
        DataType::Date32 => cast(&cast(counts, &DataType::Int32)?, to)?,
        _ => cast(counts, to)?,
    })
}

/// The numbers of `moments`, dates or timestamps, and how many units a day has; `None` if they are something else.
pub fn counts(moments: &ArrayRef) -> Result<Option<(Int64Array, i64)>> {
    let (counts, of_day) = match moments.data_type() {
        DataType::Date32 => (cast(&cast(moments, &DataType::Int32)?, &DataType::Int64)?, 1),
        DataType::Timestamp(unit, _) => (cast(moments, &DataType::Int64)?, SECONDS_OF_DAY * units_of_second(*unit)),
        _ => return Ok(None),
    };
    Ok(Some((counts.as_primitive::<Int64Type>().clone(), of_day)))
}

/// The numbers of those of `moments` that are finite and far; `None` if there is none.
pub fn far(moments: &ArrayRef) -> Result<Option<Int64Array>> {
    let Some((counts, of_day)) = counts(moments)? else { return Ok(None) };
    let is_date = of_day == 1;
    let is_far = |count: &i64| {
        let infinite = if is_date { i32::try_from(*count).is_ok_and(is_infinite_day) } else { is_infinite(*count) };
        !infinite && !(FIRST..=LAST).contains(&count.div_euclid(of_day))
    };
    if !counts.iter().flatten().any(|count| is_far(&count)) {
        return Ok(None);
    }
    Ok(Some(counts.iter().map(|count| count.filter(is_far)).collect()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        for days in (-107_004_730..107_004_730).step_by(9973).chain([FIRST - 1, FIRST, LAST, LAST + 1, 0, 59, 60]) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month.try_into().unwrap(), day.try_into().unwrap()), Some(days), "{days}");
        }
        assert_eq!((date_of(FIRST), date_of(LAST)), ((1, 1, 1), (9999, 12, 31)));
        assert_eq!((days_of(-3, 2, 29), days_of(-4, 2, 29).is_some(), days_of(2024, 13, 1)), (None, true, None));
    }

    #[test]
    fn texts_and_counts_are_inverse() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        for (text, of, expected) in [
            ("-0043-03-15", &DataType::Date32, "0044-03-15 (BC)"),
            ("0000-01-01", &DataType::Date32, "0001-01-01 (BC)"),
            ("+291000-01-01", &DataType::Date32, "291000-01-01"),
            ("-0043-03-15 10:20:30.000001", &micros, "0044-03-15 (BC) 10:20:30.000001"),
            ("+12000-02-29", &micros, "12000-02-29 00:00:00"),
        ] {
            let mut written = String::new();
            crate::times::written::write(count_of(text, of).unwrap(), of, &mut written);
            assert_eq!(written, expected);
        }
        assert_eq!(count_of("+294248-01-01", &micros), None);
        assert_eq!(count_of("2020-01-01", &micros), None);
        assert_eq!(count_of("-0043-02-30", &micros), None);
    }
}
