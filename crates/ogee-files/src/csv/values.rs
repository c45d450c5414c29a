//! Values of text files: which types a column of texts can have, and the value that a text stands for.
//!
//! The kinds are DuckDB's, in its order: the first that takes every value of the sample is the column's. A number with
//! leading zeros or a plus sign is a text: it would not print as it was written (postal codes, telephone numbers).
//!
//! 1. What [`Kinds::narrow`] leaves, [`Kind`]'s parser takes: both ask the same functions.
//!
//! Not here: arrays.

use std::borrow::Cow;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use ogee_functions::times::{
    formats::MomentFormat,
    infinite::{infinite_count, infinite_day, is_infinite_day},
};

/// The zone of columns whose values have one.
pub(crate) const UTC: &str = "+00:00";

/// What the texts of a column stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Time,
    Date(Order),
    /// In the format that is said, and so below.
    FormattedDate,
    FormattedTimestamp,
    /// A date and a time of day, and whether it needs more than microseconds.
    Timestamp(Order, bool),
    /// With a zone.
    Instant,
    Integer,
    /// Integers of more than 64 bits.
    LargeInteger,
    Double,
    Text,
}

/// The order in which a date names its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    YearMonthDay,
    DayMonthYear,
    MonthDayYear,
    /// Years of two digits, and so below.
    ShortYearMonthDay,
    DayMonthShortYear,
    MonthDayShortYear,
}

impl Order {
    fn has_short_year(self) -> bool {
        matches!(self, Self::ShortYearMonthDay | Self::DayMonthShortYear | Self::MonthDayShortYear)
    }

    /// In DuckDB's letters, `separator` between the parts.
    pub(crate) fn format(self, separator: char) -> String {
        let parts = match self {
            Self::YearMonthDay => ["%Y", "%m", "%d"],
            Self::DayMonthYear => ["%d", "%m", "%Y"],
            Self::MonthDayYear => ["%m", "%d", "%Y"],
            Self::ShortYearMonthDay => ["%y", "%m", "%d"],
            Self::DayMonthShortYear => ["%d", "%m", "%y"],
            Self::MonthDayShortYear => ["%m", "%d", "%y"],
        };
        parts.join(&separator.to_string())
    }
}

/// How numbers and moments are written, where that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Manner {
    pub(crate) date: Option<MomentFormat>,
    pub(crate) timestamp: Option<MomentFormat>,
    /// A comma is before the fraction of a number.
    pub(crate) has_decimal_comma: bool,
    /// Between the digits of a number.
    pub(crate) thousands: Option<u8>,
    /// The kinds that a column may have, besides text; all, if nothing is said.
    pub(crate) candidates: Option<Vec<DataType>>,
}

impl Manner {
    /// Whether numbers are not written as everywhere.
    pub(crate) fn has_numbers(&self) -> bool {
        self.has_decimal_comma || self.thousands.is_some()
    }

    /// `value`, as a number is written everywhere; `None` if it is written as none is here.
    pub(crate) fn number<'a>(&self, value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if !self.has_numbers() {
            return Some(Cow::Borrowed(value));
        }
        let is_between = |byte: u8| self.thousands == Some(byte);
        let trimmed = trim(value);
        if is_between(*trimmed.first()?) || self.has_decimal_comma && trimmed.contains(&b'.') && !is_between(b'.') {
            return None;
        }
        let digits = trimmed.iter().copied().filter(|byte| !is_between(*byte));
        let digits = digits.map(|byte| if byte == b',' && self.has_decimal_comma { b'.' } else { byte });
        Some(Cow::Owned(digits.collect()))
    }

    /// The kinds of a column without values.
    pub(crate) fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::any();
        kinds.keep(|kind| match kind {
            Kind::Date(_) => self.date.is_none(),
            Kind::FormattedDate => self.date.is_some(),
            Kind::Timestamp(..) => self.timestamp.is_none(),
            Kind::FormattedTimestamp => self.timestamp.is_some(),
            _ => true,
        });
        if let Some(candidates) = &self.candidates {
            kinds.keep(|kind| candidates.contains(&kind.data_type()));
        }
        kinds
    }

    /// Days since 1970-01-01 of a date in the format that is said.
    pub(crate) fn formatted_date(&self, value: &[u8]) -> Option<i32> {
        let format = self.date.as_ref()?;
        if let Some(infinite) = infinite_day(value) {
            return Some(infinite);
        }
        let moment = format.read(std::str::from_utf8(value).ok()?)?;
        i32::try_from(moment.div_euclid(86_400_000_000)).ok()
    }

    /// Microseconds since 1970-01-01 of a timestamp in the format that is said.
    pub(crate) fn formatted_timestamp(&self, value: &[u8]) -> Option<i64> {
        let format = self.timestamp.as_ref()?;
        infinite_count(value).or_else(|| format.read(std::str::from_utf8(value).ok()?))
    }
}

impl Kind {
    /// The type of the column.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Date(_) | Self::FormattedDate => DataType::Date32,
            Self::Timestamp(_, false) | Self::FormattedTimestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Timestamp(_, true) => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Self::Instant => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
            Self::Integer => DataType::Int64,
            Self::LargeInteger => DataType::Decimal128(38, 0),
            Self::Double => DataType::Float64,
            Self::Text => DataType::Utf8View,
        }
    }
}

/// The kinds that a column can still be, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(u32);

/// In the order of preference. That a day comes before the month where a date can be read in both ways is DuckDB's
/// choice.
const PREFERENCE: [Kind; 20] = [
    Kind::Boolean,
    Kind::Time,
    Kind::FormattedDate,
    Kind::Date(Order::YearMonthDay),
    Kind::Date(Order::DayMonthYear),
    Kind::Date(Order::MonthDayYear),
    Kind::Date(Order::ShortYearMonthDay),
    Kind::Date(Order::DayMonthShortYear),
    Kind::Date(Order::MonthDayShortYear),
    Kind::FormattedTimestamp,
    Kind::Timestamp(Order::YearMonthDay, false),
    Kind::Timestamp(Order::DayMonthYear, false),
    Kind::Timestamp(Order::MonthDayYear, false),
    Kind::Timestamp(Order::ShortYearMonthDay, false),
    Kind::Timestamp(Order::DayMonthShortYear, false),
    Kind::Timestamp(Order::MonthDayShortYear, false),
    Kind::Instant,
    Kind::Integer,
    Kind::LargeInteger,
    Kind::Double,
];

/// Set where a timestamp has more than six digits behind the second.
const NANOSECONDS: u32 = 1 << 31;

/// Set where there was a value.
const SEEN: u32 = 1 << 30;

impl Kinds {
    /// Those of a column without values.
    pub(crate) fn any() -> Self {
        Self((1 << PREFERENCE.len()) - 1)
    }

    /// Text and nothing else.
    pub(crate) fn none() -> Self {
        Self(0)
    }

    /// Dates and times, and nothing else but text.
    pub(crate) fn times() -> Self {
        let mut kinds = Self::any();
        kinds.keep(|kind| match kind {
            Kind::Date(order) | Kind::Timestamp(order, _) => order == Order::YearMonthDay,
            Kind::Time | Kind::Instant => true,
            _ => false,
        });
        kinds
    }

    /// Takes away what `value` is not, which is written as everywhere.
    pub(crate) fn narrow(&mut self, value: &[u8]) {
        self.narrow_as(value, &Manner::default());
    }

    /// Takes away what `value` is not.
    pub(crate) fn narrow_as(&mut self, value: &[u8], manner: &Manner) {
        self.0 |= SEEN;
        let left = self.0 & ((1 << PREFERENCE.len()) - 1);
        if left == 0 {
            return;
        }
        let number = manner.number(value);
        let number = number.as_deref();
        let is_formatted = manner.date.is_some() || manner.timestamp.is_some();
        // Integers are most frequent, and nothing but numbers, unless a format says otherwise.
        if !is_formatted && number.and_then(integer).is_some() {
            self.keep(|kind| matches!(kind, Kind::Integer | Kind::LargeInteger | Kind::Double));
            return;
        }
        let mut nanoseconds = false;
        self.keep(|kind| match kind {
            Kind::Boolean => boolean(value).is_some(),
            Kind::Time => time(value).is_some(),
            Kind::Date(order) => date(value, order).is_some(),
            Kind::FormattedDate => manner.formatted_date(value).is_some(),
            Kind::FormattedTimestamp => manner.formatted_timestamp(value).is_some(),
            Kind::Timestamp(order, _) => timestamp(value, order).is_some_and(|found| {
                nanoseconds |= found.1 % 1000 != 0;
                true
            }),
            Kind::Instant => instant(value).is_some(),
            Kind::Integer => number.and_then(integer).is_some(),
            Kind::LargeInteger => number.and_then(large_integer).is_some(),
            Kind::Double => number.and_then(double).is_some(),
            Kind::Text => true,
        });
        if nanoseconds {
            self.0 |= NANOSECONDS;
        }
    }

    fn keep(&mut self, mut is: impl FnMut(Kind) -> bool) {
        for (bit, kind) in PREFERENCE.iter().enumerate() {
            if self.0 & (1 << bit) != 0 && !is(*kind) {
                self.0 &= !(1 << bit);
            }
        }
    }

    /// What both are.
    pub(crate) fn and(self, other: Self) -> Self {
        let flags = (self.0 | other.0) & (NANOSECONDS | SEEN);
        Self(self.0 & other.0 & !(NANOSECONDS | SEEN) | flags)
    }

    /// The kind of the column; text if there was no value, so that a late one is seen whatever it is.
    pub(crate) fn kind(self) -> Kind {
        if self.0 & SEEN == 0 {
            return Kind::Text;
        }
        let kind = PREFERENCE.iter().enumerate().find(|(bit, _)| self.0 & (1 << bit) != 0).map(|(_, kind)| *kind);
        match kind {
            Some(Kind::Timestamp(order, _)) => Kind::Timestamp(order, self.0 & NANOSECONDS != 0),
            Some(kind) => kind,
            None => Kind::Text,
        }
    }

    /// Whether `value` is what the column is.
    pub(crate) fn takes(self, value: &[u8], manner: &Manner) -> bool {
        let mut narrowed = self;
        narrowed.narrow_as(value, manner);
        narrowed.kind() == self.kind()
    }
}

/// A number without the spaces around it.
fn trim(value: &[u8]) -> &[u8] {
    value.trim_ascii()
}

/// Whether digits are written as a number prints: no plus sign, no zeros in front.
fn is_plain(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    match digits {
        [b'0'] => true,
        [b'0', next, ..] => !next.is_ascii_digit(),
        [first, ..] => first.is_ascii_digit() || *first == b'.',
        [] => false,
    }
}

pub(crate) fn boolean(value: &[u8]) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()));
    if is(["true", "t", "yes"]) {
        Some(true)
    } else if is(["false", "f", "no"]) {
        Some(false)
    } else {
        None
    }
}

pub(crate) fn integer(value: &[u8]) -> Option<i64> {
    let value = trim(value);
    let (negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 19 || digits[0] == b'0' && digits.len() > 1 {
        return None;
    }
    // Nineteen digits fit into 64 bits without a sign.
    let mut number = 0_u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    if negative { 0_i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() }
}

/// An integer of at most 38 digits.
pub(crate) fn large_integer(value: &[u8]) -> Option<i128> {
    let value = trim(value);
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    if !is_plain(value) || digits.len() > 38 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Powers of ten that a float has exactly, as far as they are needed here.
const TENS: [f64; SHORT_DIGITS + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// A whole number of so many digits is a float exactly.
const SHORT_DIGITS: usize = 15;

/// A number of few digits, as most are: their whole number by a power of ten, which is rounded once and so is the float next to it (Clinger's fast path, "How to read
/// floating point numbers accurately", 1990).
#[inline]
fn short_double(value: &[u8]) -> Option<f64> {
    let (is_negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // With the point.
    if digits.len() > SHORT_DIGITS + 1 || !is_plain(digits) {
        return None;
    }
    let (mut number, mut point, mut count) = (0_u64, None, 0);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            (number, count) = (number * 10 + u64::from(digit), count + 1);
        } else if *byte == b'.' && point.is_none() {
            point = Some(count);
        } else {
            return None;
        }
    }
    if count == 0 || count > SHORT_DIGITS {
        return None;
    }
    let value = number as f64 / TENS[point.map_or(0, |point| count - point)];
    Some(if is_negative { -value } else { value })
}

pub(crate) fn double(value: &[u8]) -> Option<f64> {
    let value = trim(value);
    if let Some(short) = short_double(value) {
        return Some(short);
    }
    let unsigned = value.strip_prefix(b"-").unwrap_or(value);
    let text = std::str::from_utf8(value).ok()?;
    if unsigned.eq_ignore_ascii_case(b"nan") || unsigned.eq_ignore_ascii_case(b"inf") {
        return text.parse().ok();
    }
    // An integer that is too long for an integer would lose its digits without a word, and 1e999 its value.
    let is_number = unsigned.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let is_long_integer = unsigned.len() > 38 && unsigned.iter().all(u8::is_ascii_digit);
    if !is_number || !is_plain(value) || is_long_integer {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Digits at the front of `value` as a number, at least one and at most `most`, and what comes behind.
fn digits(value: &[u8], most: usize) -> Option<(u32, usize, &[u8])> {
    let count = value.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let number = value[..count].iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    Some((number, count, &value[count..]))
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar, or `None` if there is no such date.
fn days(year: u32, month: u32, day: u32) -> Option<i32> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    if day == 0 || day > length {
        return None;
    }
    // Years begin in March, so that the leap day is the last; 400 of them have 146,097 days, and 719,468 days are
    // before 1970.
    let year = i64::from(year) - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    i32::try_from(days).ok()
}

/// A date at the front of `value`, and what comes behind it.
fn date_part(value: &[u8], order: Order) -> Option<(i32, &[u8])> {
    let separated = |rest: &'_ [u8], by: u8| rest.first() == Some(&by);
    let first = digits(value, 4)?;
    let by = *first.2.first().filter(|by| SEPARATORS.contains(by))?;
    let second = digits(&first.2[1..], 2)?;
    if !separated(second.2, by) {
        return None;
    }
    let third = digits(&second.2[1..], 4)?;
    let (year, month, day) = match order {
        Order::YearMonthDay | Order::ShortYearMonthDay => (&first, &second, &third),
        Order::DayMonthYear | Order::DayMonthShortYear => (&third, &second, &first),
        Order::MonthDayYear | Order::MonthDayShortYear => (&third, &first, &second),
    };
    let (year, digits_of_year) = (year.0, year.1);
    if month.1 > 2 || day.1 > 2 || digits_of_year != if order.has_short_year() { 2 } else { 4 } {
        return None;
    }
    let year = match (order.has_short_year(), year) {
        (false, year) => year,
        (true, year @ 0..69) => 2000 + year,
        (true, year) => 1900 + year,
    };
    Some((days(year, month.0, day.0)?, third.2))
}

/// What stands between the parts of a date.
pub(crate) const SEPARATORS: [u8; 5] = *b"-/.\\ ";

/// A time of day at the front of `value`, in nanoseconds, and what comes behind it. `seconds`: they may not be left
/// out.
fn time_part(value: &[u8], seconds: bool) -> Option<(i64, &[u8])> {
    let (hour, _, rest) = digits(value, 2)?;
    let (minute, 2, mut rest) = digits(rest.strip_prefix(b":")?, 2)? else { return None };
    let (mut second, mut fraction) = (0, 0_i64);
    match rest.strip_prefix(b":") {
        Some(behind) => {
            let (found, 2, behind) = digits(behind, 2)? else { return None };
            (second, rest) = (found, behind);
            if let Some(behind) = rest.strip_prefix(b".") {
                let (found, count, behind) = digits(behind, 9)?;
                fraction = i64::from(found) * 10_i64.pow(9 - u32::try_from(count).ok()?);
                rest = behind;
            }
        }
        None if seconds => return None,
        None => {}
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some((i64::from(hour * 3600 + minute * 60 + second) * 1_000_000_000 + fraction, rest))
}

/// Days since 1970-01-01.
pub(crate) fn date(value: &[u8], order: Order) -> Option<i32> {
    let day = date_part(trim(value), order).filter(|(_, rest)| rest.is_empty()).map(|(days, _)| days);
    day.or_else(|| infinite_day(value))
}

/// Microseconds since midnight.
pub(crate) fn time(value: &[u8]) -> Option<i64> {
    time_part(trim(value), false).filter(|(_, rest)| rest.is_empty()).map(|(nanoseconds, _)| nanoseconds / 1000)
}

/// Nanoseconds of an hour.
const HOUR: i64 = 3600 * 1_000_000_000;

/// Days since 1970-01-01 and nanoseconds since midnight, and what comes behind.
fn timestamp_part(value: &[u8], order: Order) -> Option<((i32, i64), &[u8])> {
    let (days, rest) = date_part(value, order)?;
    let rest = rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"T"))?;
    let (nanoseconds, rest) = time_part(rest, order != Order::YearMonthDay)?;
    let is_half = |half: &[u8]| matches!(half, [b' ', a, b'M' | b'm'] if matches!(a, b'A' | b'a' | b'P' | b'p'));
    if matches!(order, Order::MonthDayYear | Order::MonthDayShortYear) && is_half(rest) {
        let hour = nanoseconds / HOUR;
        let is_afternoon = rest[1].eq_ignore_ascii_case(&b'p');
        let moved = match (hour, is_afternoon) {
            (0 | 13.., _) => return None,
            (12, false) => nanoseconds - 12 * HOUR,
            (1..12, true) => nanoseconds + 12 * HOUR,
            _ => nanoseconds,
        };
        return Some(((days, moved), b""));
    }
    Some(((days, nanoseconds), rest))
}

/// Days since 1970-01-01 and nanoseconds since midnight.
pub(crate) fn timestamp(value: &[u8], order: Order) -> Option<(i32, i64)> {
    let found = timestamp_part(trim(value), order).filter(|(_, rest)| rest.is_empty()).map(|(timestamp, _)| timestamp);
    found.or_else(|| infinite_day(value).map(|day| (day, 0)))
}

/// The same in microseconds since 1970-01-01.
pub(crate) fn microseconds((days, nanoseconds): (i32, i64)) -> i64 {
    if is_infinite_day(days) {
        return i64::MAX * i64::from(days.signum());
    }
    i64::from(days) * 86_400_000_000 + nanoseconds.div_euclid(1000)
}

/// The same in nanoseconds, if they fit into 64 bits.
pub(crate) fn nanoseconds((days, nanoseconds): (i32, i64)) -> Option<i64> {
    if is_infinite_day(days) {
        return Some(i64::MAX * i64::from(days.signum()));
    }
    (i64::from(days)).checked_mul(86_400_000_000_000)?.checked_add(nanoseconds)
}

/// A timestamp with a zone, in microseconds since 1970-01-01 UTC.
pub(crate) fn instant(value: &[u8]) -> Option<i64> {
    let Some((timestamp, rest)) = timestamp_part(trim(value), Order::YearMonthDay) else {
        return infinite_count(value);
    };
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let offset = match rest {
        b"Z" | b"z" | b"UTC" => 0,
        [sign @ (b'+' | b'-'), behind @ ..] => {
            let (hours, 2, rest) = digits(behind, 2)? else { return None };
            let minutes = match rest.strip_prefix(b":").unwrap_or(rest) {
                [] => 0,
                rest => match digits(rest, 2)? {
                    (minutes, 2, []) => minutes,
                    _ => return None,
                },
            };
            let minutes = i64::from(hours * 60 + minutes);
            if hours > 15 {
                return None;
            }
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    Some(microseconds(timestamp) - offset * 60_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(values: &[&str]) -> Kind {
        let mut kinds = Kinds::any();
        values.iter().for_each(|value| kinds.narrow(value.as_bytes()));
        kinds.kind()
    }

    #[test]
    fn the_first_kind_that_takes_all_values_is_the_columns() {
        assert_eq!(kind(&["1", "-5", "0", " 7"]), Kind::Integer);
        assert_eq!(kind(&["1", "2.5"]), Kind::Double);
        assert_eq!(kind(&["12345678901234567890", "1"]), Kind::LargeInteger);
        assert_eq!(kind(&["12345678901234567890", "1.5"]), Kind::Double);
        assert_eq!(kind(&["NaN", "-inf", "1e5", ".5", "5."]), Kind::Double);
        assert_eq!(kind(&["true", "F", "no"]), Kind::Boolean);
        assert_eq!(kind(&["2024-02-29", "0001-01-01"]), Kind::Date(Order::YearMonthDay));
        assert_eq!(kind(&["25/12/2024", "01/02/2024"]), Kind::Date(Order::DayMonthYear));
        assert_eq!(kind(&["12/25/2024", "01/02/2024"]), Kind::Date(Order::MonthDayYear));
        assert_eq!(kind(&["01/02/2024"]), Kind::Date(Order::DayMonthYear));
        assert_eq!(kind(&["2024.02.29", "2000 1 5"]), Kind::Date(Order::YearMonthDay));
        assert_eq!(kind(&["01-02-03"]), Kind::Date(Order::ShortYearMonthDay));
        assert_eq!(kind(&["05-01-99"]), Kind::Date(Order::DayMonthShortYear));
        assert_eq!(kind(&["12/31/99"]), Kind::Date(Order::MonthDayShortYear));
        assert_eq!(kind(&["12/31/2003 10:11:12 PM"]), Kind::Timestamp(Order::MonthDayYear, false));
        assert_eq!(kind(&["2024-01-05 10:11", "2024-01-05T10:11:12.5"]), Kind::Timestamp(Order::YearMonthDay, false));
        assert_eq!(kind(&["2024-01-05 10:11:12.123456789"]), Kind::Timestamp(Order::YearMonthDay, true));
        assert_eq!(kind(&["2024-01-05T10:11:12Z", "2024-01-05 10:11:12+02:00"]), Kind::Instant);
        assert_eq!(kind(&["10:11:12", "9:00"]), Kind::Time);
        assert_eq!(kind(&["Infinity", "-inf"]), Kind::Date(Order::YearMonthDay));
        assert_eq!(kind(&["2024-01-05 10:11", "infinity"]), Kind::Timestamp(Order::YearMonthDay, false));
        assert_eq!(kind(&["Infinity", "1.5"]), Kind::Text);
    }

    #[test]
    fn short_floats_are_those_next_to_their_digits() {
        for text in ["0", "-0", "0.1", "1.5", "-2.675", ".5", "5.", "123456789012345", "12345678901234.5", "99999.99"] {
            let expected: f64 = text.parse().unwrap_or(f64::NAN);
            assert_eq!(short_double(text.as_bytes()).map(f64::to_bits), Some(expected.to_bits()), "{text}");
        }
        for text in
            ["", "-", ".", "1e5", "1.2.3", "01", "00.5", "+1", "1234567890123456", "1 ", "--1", "0.000000000000001"]
        {
            assert_eq!(short_double(text.as_bytes()), None, "{text}");
        }
        assert_eq!(double(b"."), None);
    }

    #[test]
    fn what_would_not_print_as_it_was_written_is_text() {
        for values in [
            &["01234", "99999"][..],
            &["0", "00"],
            &["-01"],
            &["+1"],
            &["01.5"],
            &["1_000"],
            &["2023-02-29"],
            &["24:00:00"],
            &["1e999"],
            &["1", "x"],
            &["true", "1"],
            &["2024-01-05", "2024-01-05 10:00:00"],
            &["123456789012345678901234567890123456789012"],
            &[],
        ] {
            assert_eq!(kind(values), Kind::Text, "{values:?}");
        }
    }

    #[test]
    fn values_are_read_in_the_manner_that_is_said() {
        let manner = Manner { has_decimal_comma: true, thousands: Some(b'.'), ..Manner::default() };
        let number = |text: &'static str| manner.number(text.as_bytes()).map(Cow::into_owned);
        assert_eq!(number("1.234,5").as_deref(), Some(&b"1234.5"[..]));
        assert_eq!(number(".5"), None);
        assert_eq!(Manner { thousands: None, ..manner.clone() }.number(b"1.5"), None);
        let format = MomentFormat::of("%d.%m.%Y").ok();
        let manner = Manner { date: format.clone(), timestamp: format, ..Manner::default() };
        assert_eq!(manner.formatted_date(b"02.01.1970"), Some(1));
        assert_eq!(manner.formatted_timestamp(b"02.01.1970"), Some(86_400_000_000));
        let mut kinds = manner.kinds();
        kinds.narrow_as(b"02.01.1970", &manner);
        assert_eq!(kinds.kind(), Kind::FormattedDate);
        assert_eq!(timestamp(b"1/2/1970 12:00:01 AM", Order::MonthDayYear), Some((1, 1_000_000_000)));
    }

    #[test]
    fn values_are_those_of_the_calendar() {
        assert_eq!(date(b"1970-01-01", Order::YearMonthDay), Some(0));
        assert_eq!(date(b"2000-03-01", Order::YearMonthDay), Some(11_017));
        assert_eq!(date(b"1969-12-31", Order::YearMonthDay), Some(-1));
        assert_eq!(date(b"0001-01-01", Order::YearMonthDay), Some(-719_162));
        assert_eq!(instant(b"1970-01-01 01:30:00+01:30"), Some(0));
        assert_eq!(time(b"00:00:01.5"), Some(1_500_000));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"9223372036854775808"), None);
        assert_eq!(nanoseconds((0, 7)), Some(7));
        let infinite = timestamp(b"-infinity", Order::YearMonthDay);
        assert_eq!(infinite.map(microseconds), Some(-i64::MAX));
        assert_eq!(infinite.and_then(nanoseconds), Some(-i64::MAX));
        assert_eq!(instant(b"inf"), Some(i64::MAX));
    }
}
