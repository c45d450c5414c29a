//! Dates, moments and times of a day as text, digit by digit: `0044-03-15 (BC) 10:00:00.5`.
//!
//! Years have four digits or more, those before year 1 an era behind the day; fractions of seconds have no zeros at the end.
//!
//! Not here: formats that users give (`formats`), infinite moments (`infinite`), zones (`moments`).

use std::fmt::Write;

use datafusion::arrow::datatypes::DataType;

use super::{
    far::{SECONDS_OF_DAY, date_of},
    infinite::units_of_second,
};

/// Writes the moment of type `of` that has the number `count`, a date or a timestamp.
pub fn write(count: i64, of: &DataType, text: &mut String) {
    let DataType::Timestamp(unit, _) = of else {
        write_date(count, text);
        return;
    };
    let units = units_of_second(*unit);
    let of_day = SECONDS_OF_DAY * units;
    write_date(count.div_euclid(of_day), text);
    text.push(' ');
    write_time(count.rem_euclid(of_day), units, text);
}

/// Writes the day so many days after 1970-01-01.
fn write_date(days: i64, text: &mut String) {
    let (year, month, day) = date_of(days);
    let (year, is_before) = if year > 0 { (year, false) } else { (1 - year, true) };
    if year > 9999 {
        // A text takes what is written.
        let _ = write!(text, "{year}");
    } else {
        write_two(year / 100, text);
        write_two(year % 100, text);
    }
    text.push('-');
    write_two(month, text);
    text.push('-');
    write_two(day, text);
    if is_before {
        text.push_str(" (BC)");
    }
}

/// Writes the time so many units after midnight, of which a second has `units`.
fn write_time(count: i64, units: i64, text: &mut String) {
    let (seconds, fraction) = (count / units, count % units);
    write_two(seconds / 3600, text);
    text.push(':');
    write_two(seconds / 60 % 60, text);
    text.push(':');
    write_two(seconds % 60, text);
    write_fraction(fraction, units, text);
}

/// Writes so many units, of which a second has `units`, as the digits after a point, without zeros at the end.
pub fn write_fraction(fraction: i64, units: i64, text: &mut String) {
    if fraction != 0 {
        let digits = usize::try_from(units.ilog10()).unwrap_or(0);
        // A text takes what is written.
        let _ = write!(text, ".{fraction:0digits$}");
        text.truncate(text.trim_end_matches('0').len());
    }
}

/// Writes a number below 100 with two digits.
fn write_two(value: i64, text: &mut String) {
    for digit in [value / 10, value % 10] {
        text.push(char::from(b'0' + u8::try_from(digit).unwrap_or(0)));
    }
}
