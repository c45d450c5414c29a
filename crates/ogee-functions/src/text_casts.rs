//! Texts as people write numbers and moments, in the words that Arrow's casts read: `'2.5'::INT`, `'1e3'::DECIMAL`, `'2024/1/5'::DATE`, `'2024-01-05 10:00'::TIMESTAMP`.
//!
//! A function of each kind goes below casts of texts. A text that is written the usual way, and one that nobody understands, stays as it is, so that the cast is
//! what tells that it is wrong, in the words of the text.
//!
//! Not here: instants and intervals, which have casts of their own (`times`), texts of nested types (`list_casts`).

use std::{borrow::Cow, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray, StringViewBuilder},
        compute::{CastOptions, cast_with_options, is_not_null, kernels::zip::zip},
        datatypes::{DataType, TimeUnit},
    },
    common::{Result, exec_err},
    logical_expr::Expr,
};

use crate::{
    arguments::texts,
    function::Function,
    times::{
        far,
        infinite::{Infinite, cast_moments},
        moments::split_zone,
        zone_in_text,
    },
};

/// What a text is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// A whole number, which one with a fraction is rounded to, halves away from zero.
    Whole,
    /// A number without an exponent.
    Decimal,
    /// A day.
    Date,
    /// A time of a day.
    Time,
    /// A day and a time, without the zone that may follow.
    Moment,
}

impl Written {
    /// How a text is read that is cast to `data_type`; `None` where that is as it is written.
    pub fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            integer if integer.is_integer() => Some(Self::Whole),
            decimal if decimal.is_decimal() => Some(Self::Decimal),
            DataType::Date32 | DataType::Date64 => Some(Self::Date),
            DataType::Time32(_) | DataType::Time64(_) => Some(Self::Time),
            DataType::Timestamp(_, None) => Some(Self::Moment),
            _ => None,
        }
    }

    /// `text` in the usual words.
    pub fn usual(self, text: &str) -> Cow<'_, str> {
        if self.is_usual(text) {
            return Cow::Borrowed(text);
        }
        let usual = match self {
            Self::Whole => whole(text),
            Self::Decimal => decimal(text),
            Self::Date => date(text),
            Self::Time => time(text),
            Self::Moment => Some(moment(text)),
        };
        usual.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Whether `text` is written as Arrow reads it, at a glance.
    fn is_usual(self, text: &str) -> bool {
        let bytes = text.as_bytes();
        match self {
            Self::Whole => !bytes.is_empty() && bytes[usize::from(bytes[0] == b'-')..].iter().all(u8::is_ascii_digit),
            Self::Decimal => bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'.')),
            Self::Date => is_like(bytes, b"0000-00-00"),
            Self::Time => is_like(bytes, b"00:00:00") && bytes[6] < b'6',
            Self::Moment => {
                is_like(bytes, b"0000-00-00")
                    || bytes.len() >= 19
                        && is_like(&bytes[..10], b"0000-00-00")
                        && matches!(bytes[10], b' ' | b'T')
                        && is_like(&bytes[11..19], b"00:00:00")
                        && !bytes[11..].starts_with(b"24")
                        && bytes[17] < b'6'
                        && (bytes.len() == 19
                            || bytes[19] == b'.' && bytes.len() > 20 && bytes[20..].iter().all(u8::is_ascii_digit))
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Whole => "ogee_usual_whole",
            Self::Decimal => "ogee_usual_decimal",
            Self::Date => "ogee_usual_date",
            Self::Time => "ogee_usual_time",
            Self::Moment => "ogee_usual_moment",
        }
    }

    /// `text` in the usual words.
    pub fn usual_expr(self, text: Expr) -> Expr {
        let body = match self {
            Self::Whole => |args: &[ArrayRef], _: &_| each(args, Self::Whole),
            Self::Decimal => |args: &[ArrayRef], _: &_| each(args, Self::Decimal),
            Self::Date => |args: &[ArrayRef], _: &_| each(args, Self::Date),
            Self::Time => |args: &[ArrayRef], _: &_| each(args, Self::Time),
            Self::Moment => |args: &[ArrayRef], _: &_| each(args, Self::Moment),
        };
        Function::new(self.name(), 1, |_| Ok(DataType::Utf8View), body).call(vec![text])
    }
}

fn each(args: &[ArrayRef], written: Written) -> Result<ArrayRef> {
    let values = texts(&args[0])?;
    if values.iter().flatten().all(|text| written.is_usual(text)) {
        return Ok(Arc::new(values));
    }
    let mut usual = StringViewBuilder::with_capacity(values.len());
    values.iter().for_each(|text| usual.append_option(text.map(|text| written.usual(text))));
    Ok(Arc::new(usual.finish()))
}

/// Whether `bytes` are digits where `like` has a 0, and the same elsewhere.
fn is_like(bytes: &[u8], like: &[u8]) -> bool {
    let same = |(byte, like): (&u8, &u8)| if *like == b'0' { byte.is_ascii_digit() } else { byte == like };
    bytes.len() == like.len() && bytes.iter().zip(like).all(same)
}

/// A number: its sign, its digits, and how many of them are before the point.
struct Number {
    negative: bool,
    digits: Vec<u8>,
    point: i64,
}

/// Digits that a number is written out with, at most: no type has more.
const DIGITS_MAX: i64 = 80;

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = digits_of(whole)?;
        let point = digits.len() as i64 + i64::from(exponent);
        digits.extend(digits_of(fraction)?);
        (!digits.is_empty() && (-DIGITS_MAX..=DIGITS_MAX).contains(&point)).then_some(Self { negative, digits, point })
    }

    /// The digit at `place` behind the first.
    fn digit(&self, place: i64) -> u8 {
        usize::try_from(place).ok().and_then(|place| self.digits.get(place)).map_or(b'0', |digit| *digit)
    }

    fn sign(&self) -> &'static str {
        if self.negative { "-" } else { "" }
    }
}

/// Digits, with single underscores between them.
fn digits_of(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let ends_wrong = bytes.first() == Some(&b'_') || bytes.last() == Some(&b'_') || text.contains("__");
    let are_digits = bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'_');
    (are_digits && !ends_wrong).then(|| bytes.iter().copied().filter(u8::is_ascii_digit).collect())
}

fn whole(text: &str) -> Option<String> {
    let trimmed = text.trim();
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0b", 2), ("0B", 2)] {
        if let Some(digits) = trimmed.strip_prefix(prefix) {
            let is_number = digits.starts_with(|digit: char| digit.is_digit(radix));
            return u128::from_str_radix(digits, radix).ok().filter(|_| is_number).map(|value| value.to_string());
        }
    }
    let number = Number::parse(text)?;
    let mut digits: Vec<u8> = (0..number.point.max(0)).map(|place| number.digit(place)).collect();
    // A half is away from zero.
    if number.point >= 0 && number.digit(number.point) >= b'5' {
        let nines = digits.iter().rev().take_while(|digit| **digit == b'9').count();
        let kept = digits.len() - nines;
        digits[kept..].fill(b'0');
        match kept.checked_sub(1) {
            Some(last) => digits[last] += 1,
            None => digits.insert(0, b'1'),
        }
    }
    if digits.is_empty() {
        digits.push(b'0');
    }
    Some(format!("{}{}", number.sign(), String::from_utf8(digits).ok()?))
}

fn decimal(text: &str) -> Option<String> {
    let number = Number::parse(text)?;
    let places = number.digits.len() as i64;
    let before: Vec<u8> = (0..number.point.max(0)).map(|place| number.digit(place)).collect();
    let behind: Vec<u8> = (number.point.min(0)..places)
        .filter(|place| *place >= number.point)
        .map(|place| if place < 0 { b'0' } else { number.digit(place) })
        .collect();
    let (before, behind) = (String::from_utf8(before).ok()?, String::from_utf8(behind).ok()?);
    let before = if before.is_empty() { "0".to_owned() } else { before };
    let point = if behind.is_empty() { "" } else { "." };
    Some(format!("{}{before}{point}{behind}", number.sign()))
}

/// A number of `most` digits at most, and what follows.
fn number(text: &str, most: usize) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    (1..=most).contains(&end).then_some(())?;
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The day that `text` begins with, and what follows.
fn day(text: &str) -> Option<(String, &str)> {
    let (year, rest) = number(text, 7)?;
    let between = rest.chars().next().filter(|letter| matches!(letter, '-' | '/' | '\\' | ' '))?;
    let (month, rest) = number(rest.strip_prefix(between)?, 2)?;
    let (day, rest) = number(rest.strip_prefix(between)?, 2)?;
    if let Some((year, rest)) = before_christ(year, rest) {
        return Some((format!("{year}-{month:02}-{day:02}"), rest));
    }
    let sign = if year > 9999 { "+" } else { "" };
    Some((format!("{sign}{year:04}-{month:02}-{day:02}"), rest))
}

/// The year as it is counted on below 1, and what follows, if `rest` says that `year` is before Christ: there is no year 0 among those.
fn before_christ(year: u32, rest: &str) -> Option<(String, &str)> {
    let behind = rest.trim_start();
    let (said, rest) = behind.split_at_checked(4)?;
    let before = said.eq_ignore_ascii_case("(bc)").then(|| year.checked_sub(1))??;
    Some((if before == 0 { "0000".to_owned() } else { format!("-{before:04}") }, rest))
}

/// The time of a day that `text` is.
fn hours(text: &str) -> Option<String> {
    let (hour, rest) = number(text, 2)?;
    let (minute, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (second, fraction) = match rest.strip_prefix(':') {
        Some(rest) => {
            let (second, rest) = number(rest, 2).filter(|(second, _)| *second < 60)?;
            (second, rest.strip_prefix('.').map_or_else(|| rest.is_empty().then_some(""), Some)?)
        }
        None => (0, rest.is_empty().then_some("")?),
    };
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{hour:02}:{minute:02}:{second:02}{point}{fraction}"))
}

/// Days that have a name of their own.
const EPOCH: &str = "epoch";

/// A day, a time of it or none, and whether `text` is that and nothing else.
fn day_and_hours(text: &str) -> Option<(String, Option<String>)> {
    let text = text.trim();
    if text.eq_ignore_ascii_case(EPOCH) {
        return Some(("1970-01-01".to_owned(), None));
    }
    let (day, rest) = day(text)?;
    if rest.is_empty() {
        return Some((day, None));
    }
    let time = rest.strip_prefix(['T', 't']).or_else(|| rest.starts_with(' ').then(|| rest.trim_start()))?;
    Some((day, Some(hours(time)?)))
}

fn date(text: &str) -> Option<String> {
    // Arrow takes eight digits for a day.
    let number = || text.trim().bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("{} ", text.trim()));
    day_and_hours(without_known_zone(text)).map(|(day, _)| day).or_else(number)
}

fn time(text: &str) -> Option<String> {
    let text = text.trim();
    // A number alone is no time; Arrow would count nanoseconds. And it takes leap seconds, whose times it has no text for.
    let none = || match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Some(format!("{text} ")),
        false => text.contains(":60").then(|| format!("{text} (seconds end at 59)")),
    };
    let local = without_known_zone(text);
    hours(text).or_else(|| hours(local)).or_else(|| day_and_hours(local)?.1).or_else(none)
}

fn moment(text: &str) -> String {
    let text = without_known_zone(text);
    match day_and_hours(text) {
        // The end of a day is the beginning of the next.
        Some((day, Some(hours)))
            if hours.starts_with("24:00:00") && !hours[8..].contains(|digit| matches!(digit, '1'..='9')) =>
        {
            let next = day.parse::<chrono::NaiveDate>().ok().and_then(|day| day.succ_opt());
            next.map_or_else(|| text.to_owned(), |next| format!("{next} 00:00:00"))
        }
        Some((day, Some(hours))) => format!("{day} {hours}"),
        // Arrow takes a leap second for the one behind it.
        None if text.contains(":60") => format!("{text} (seconds end at 59)"),
        Some((day, None)) => day,
        None => text.to_owned(),
    }
}

/// `texts` as they are cast to `to`, where infinite moments are words. `tries`: what is no such value is NULL.
///
/// # Errors
/// If a text is no such value.
pub fn cast_texts(texts: &StringViewArray, to: &DataType, tries: bool) -> Result<ArrayRef> {
    if is_rounded(to) {
        let micros = cast_texts(texts, &DataType::Timestamp(TimeUnit::Microsecond, None), tries)?;
        return cast_moments(&micros, to, tries);
    }
    let options = CastOptions { safe: tries, ..CastOptions::default() };
    let is_moment = matches!(to, DataType::Date32 | DataType::Timestamp(..));
    let infinite = Infinite::of_texts(texts).filter(|_| is_moment);
    let texts: ArrayRef = match &infinite {
        Some(infinite) => infinite.left_out(texts)?,
        None => Arc::new(texts.clone()),
    };
    let usual = match Written::of(to) {
        Some(written) => each(&[texts], written)?,
        None => texts,
    };
    let values = match far_counts(&usual, to) {
        Some(far) => {
            let near = usual.as_string_view().iter().zip(&far).map(|(text, far)| text.filter(|_| far.is_none()));
            let near = cast_with_options(&near.collect::<StringViewArray>(), to, &options)?;
            zip(&is_not_null(&far)?, &far::of_counts(&far, to)?, &near)?
        }
        None => cast_with_options(&usual, to, &options)?,
    };
    infinite.map_or_else(|| Ok(Arc::clone(&values)), |infinite| infinite.put_in(&values))
}

/// Whether texts are read with more digits than values of type `to` have, and rounded to those; Arrow cuts them.
pub fn is_rounded(to: &DataType) -> bool {
    matches!(to, DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, None))
}

/// The numbers of those of `texts`, in the usual words, that are moments of far years; `None` if there are none.
fn far_counts(texts: &ArrayRef, to: &DataType) -> Option<Int64Array> {
    let texts = texts.as_string_view_opt().filter(|_| matches!(to, DataType::Date32 | DataType::Timestamp(_, None)))?;
    let counts: Int64Array = texts.iter().map(|text| far::count_of(text?, to)).collect();
    (counts.null_count() < counts.len()).then_some(counts)
}

/// The truth value that `text` is: DuckDB's words, fewer than Arrow's. `tries`: what is none is NULL.
pub fn truth_of_text(text: Expr, tries: bool) -> Expr {
    fn truths(args: &[ArrayRef], tries: bool) -> Result<ArrayRef> {
        let of = |text: &str| match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "1" => Ok(Some(true)),
            "false" | "f" | "no" | "n" | "0" => Ok(Some(false)),
            _ if tries => Ok(None),
            _ => exec_err!("'{text}' is no BOOLEAN; TRY_CAST gives NULL in its place"),
        };
        let truths = texts(&args[0])?.iter().map(|text| text.map_or(Ok(None), of)).collect::<Result<BooleanArray>>()?;
        Ok(Arc::new(truths))
    }
    let function = match tries {
        true => Function::new("ogee_try_truth_of", 1, |_| Ok(DataType::Boolean), |args, _| truths(args, true)),
        false => Function::new("ogee_truth_of", 1, |_| Ok(DataType::Boolean), |args, _| truths(args, false)),
    };
    function.call(vec![text])
}

/// The cast of `text` to `to`, dates or timestamps without a zone, where infinite moments are words. `tries`: what is no such value is NULL.
pub fn moment_of_text(text: Expr, to: &DataType, tries: bool) -> Option<Expr> {
    const TRIES: bool = true;
    let function = match to {
        DataType::Date32 if tries => moment_function::<0, TRIES>("ogee_try_date_of"),
        DataType::Date32 => moment_function::<0, false>("ogee_date_of"),
        DataType::Timestamp(TimeUnit::Second, None) if tries => moment_function::<1, TRIES>("ogee_try_timestamp_s_of"),
        DataType::Timestamp(TimeUnit::Second, None) => moment_function::<1, false>("ogee_timestamp_s_of"),
        DataType::Timestamp(TimeUnit::Millisecond, None) if tries => {
            moment_function::<2, TRIES>("ogee_try_timestamp_ms_of")
        }
        DataType::Timestamp(TimeUnit::Millisecond, None) => moment_function::<2, false>("ogee_timestamp_ms_of"),
        DataType::Timestamp(TimeUnit::Microsecond, None) if tries => {
            moment_function::<3, TRIES>("ogee_try_timestamp_of")
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => moment_function::<3, false>("ogee_timestamp_of"),
        DataType::Timestamp(TimeUnit::Nanosecond, None) if tries => {
            moment_function::<4, TRIES>("ogee_try_timestamp_ns_of")
        }
        DataType::Timestamp(TimeUnit::Nanosecond, None) => moment_function::<4, false>("ogee_timestamp_ns_of"),
        _ => return None,
    };
    Some(function.call(vec![text]))
}

/// The types that [`moment_of_text`] makes.
const MOMENTS: [DataType; 5] = [
    DataType::Date32,
    DataType::Timestamp(TimeUnit::Second, None),
    DataType::Timestamp(TimeUnit::Millisecond, None),
    DataType::Timestamp(TimeUnit::Microsecond, None),
    DataType::Timestamp(TimeUnit::Nanosecond, None),
];

/// The function that makes values of the type at `TO` of texts.
fn moment_function<const TO: usize, const TRIES: bool>(name: &'static str) -> Function {
    let body = |args: &[ArrayRef], _: &_| cast_texts(&texts(&args[0])?, &MOMENTS[TO], TRIES);
    Function::new(name, 1, |_| Ok(MOMENTS[TO].clone()), body)
}

/// `text` as it is if what ends it is no zone, for an error that shows all of it.
fn without_known_zone(text: &str) -> &str {
    let (moment, zone) = split_zone(text);
    if zone.is_empty() || zone_in_text(zone).is_err() { text } else { moment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_and_written_out() {
        for (text, expected) in [
            ("2.5", "3"),
            ("-0.5", "-1"),
            ("-0.4", "-0"),
            ("9.5", "10"),
            ("99.49", "99"),
            ("1e3", "1000"),
            ("1.25e1", "13"),
            ("5e-1", "1"),
            ("5e-2", "0"),
            ("1_000", "1000"),
            ("0x1F", "31"),
            ("5.", "5"),
            (".5", "1"),
            ("+5", "5"),
            (" 7 ", "7"),
            ("7", "7"),
            ("-7", "-7"),
            ("1.5.5", "1.5.5"),
            ("1,000", "1,000"),
            ("", ""),
            (".", "."),
            ("-", "-"),
            ("0x", "0x"),
            ("0x-1", "0x-1"),
            ("1__0", "1__0"),
            ("1e99999999999", "1e99999999999"),
            ("1e2147483647", "1e2147483647"),
        ] {
            assert_eq!(Written::Whole.usual(text), expected, "{text}");
        }
        for (text, expected) in
            [("1e3", "1000"), ("1.25e1", "12.5"), ("-2.5e-3", "-0.0025"), ("1.5", "1.5"), ("1e-1", "0.1"), ("x", "x")]
        {
            assert_eq!(Written::Decimal.usual(text), expected, "{text}");
        }
    }

    #[test]
    fn moments_are_written_out() {
        for (text, expected) in [
            ("2024-01-01 1:2:3", "2024-01-01 01:02:03"),
            ("2024-01-01 10:00", "2024-01-01 10:00:00"),
            ("2024-01-01T10:00Z", "2024-01-01 10:00:00"),
            ("2024/1/5", "2024-01-05"),
            (" 2024-01-05 10:00:00.5 ", "2024-01-05 10:00:00.5"),
            ("2024-01-01 10:00:00.", "2024-01-01 10:00:00"),
            ("2024-01-01 10:00:00+02", "2024-01-01 10:00:00"),
            ("2023-12-31 24:00:00", "2024-01-01 00:00:00"),
            ("2024-01-01 10", "2024-01-01 10"),
            ("2024-01/05", "2024-01/05"),
            ("epoch", "1970-01-01"),
            ("", ""),
            ("é", "é"),
        ] {
            assert_eq!(Written::Moment.usual(text), expected, "{text}");
        }
        for (text, expected) in [
            ("2024 01 05", "2024-01-05"),
            ("24-02-03", "0024-02-03"),
            ("2024-01-05 10:00", "2024-01-05"),
            ("2024-01-05T10:00:00Z", "2024-01-05"),
            ("12024-01-05", "+12024-01-05"),
            ("2024\\01\\05", "2024-01-05"),
            ("0044-03-15 (BC)", "-0043-03-15"),
            ("0001-03-15 (bc)", "0000-03-15"),
            ("2024-01-05x", "2024-01-05x"),
        ] {
            assert_eq!(Written::Date.usual(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1:2:3", "01:02:03"),
            ("10:00", "10:00:00"),
            ("2024-01-01 10:00:05", "10:00:05"),
            ("10", "10 "),
            ("x", "x"),
        ] {
            assert_eq!(Written::Time.usual(text), expected, "{text}");
        }
    }
}
