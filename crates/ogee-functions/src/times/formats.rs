//! `strftime` and `strptime`: formats with DuckDB's specifiers, of which some mean other things elsewhere (`%f` microseconds, `%g` milliseconds, `%n` nanoseconds).
//!
//! Not here: texts of times in their own format (`moments`).

use std::sync::Arc;

use chrono::{Datelike, Days, NaiveDate, Timelike, Weekday};
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, PrimitiveArray, StringViewBuilder},
        compute::cast,
        datatypes::{DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType},
    },
    common::{Result, ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};

use crate::{arguments::texts, function::Function};

use super::{
    infinite::{infinite_count, is_infinite, text_of},
    instants::{LOCAL, instant, is_instant, micros},
    zones::{Zone, naive, offset_of, offset_text},
};

/// The name of the function that writes moments.
pub const STRFTIME: &str = "strftime";

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    let reading = |name, null_if_none| {
        let signature = Signature::any(2, Volatility::Immutable);
        ScalarUDF::new_from_impl(Strptime { name, null_if_none, signature })
    };
    vec![ScalarUDF::new_from_impl(strftime()), reading("strptime", false), reading("try_strptime", true)]
}

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Item {
    /// Text between specifiers.
    Text(String),
    /// A specifier; `bare` numbers have no zeros before them.
    Field { field: u8, bare: bool },
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The parts of `format`.
///
/// # Errors
/// If it is empty, or has a specifier that is none.
fn parse_format(format: &str) -> Result<Vec<Item>> {
    if format.is_empty() {
        return exec_err!("the format is empty");
    }
    let mut items = Vec::new();
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(char) = rest.next() {
        if char != '%' {
            text.push(char);
            continue;
        }
        let mut next = rest.next();
        let bare = next == Some('-');
        if bare {
            next = rest.next();
        }
        let Some(field) = next else { return exec_err!("the format '{format}' ends within a specifier") };
        if field == '%' && !bare {
            text.push('%');
            continue;
        }
        if !text.is_empty() {
            items.push(Item::Text(std::mem::take(&mut text)));
        }
        match (bare, field) {
            (false, 'c') => items.extend(parse_format("%Y-%m-%d %H:%M:%S")?),
            (false, 'x') => items.extend(parse_format("%Y-%m-%d")?),
            (false, 'X' | 'T') => items.extend(parse_format("%H:%M:%S")?),
            (true, 'd' | 'm' | 'y' | 'H' | 'I' | 'M' | 'S' | 'j')
            | (false, 'a' | 'A' | 'w' | 'u' | 'd' | 'b' | 'h')
            | (false, 'B' | 'm' | 'y' | 'Y' | 'H' | 'I' | 'p' | 'M' | 'S' | 'f' | 'g' | 'n' | 'z' | 'Z' | 'j')
            | (false, 'U' | 'W' | 'G' | 'V') => items.push(Item::Field { field: field as u8, bare }),
            _ => {
                let dash = if bare { "-" } else { "" };
                return exec_err!("'%{dash}{field}' in the format '{format}' is no specifier of strftime and strptime");
            }
        }
    }
    if !text.is_empty() {
        items.push(Item::Text(text));
    }
    Ok(items)
}

/// A format by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MomentFormat {
    text: String,
    items: Vec<Item>,
}

impl MomentFormat {
    /// The format that `text` is.
    ///
    /// # Errors
    /// If it is empty, or has a specifier that is none.
    pub fn of(text: &str) -> Result<Self> {
        Ok(Self { text: text.to_owned(), items: parse_format(text)? })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The microseconds since 1970-01-01 that `moment` stands for; `None` if it is not written so.
    pub fn read(&self, moment: &str) -> Option<i64> {
        read_moment(&self.items, moment, false).ok()
    }

    /// `moments`, dates or timestamps, as texts; instants as clocks in `zone` show them.
    ///
    /// # Errors
    /// If a moment is beyond the calendar.
    pub fn written(&self, moments: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
        let formats = vec![self.text.as_str(); moments.len()];
        let formats: ArrayRef = Arc::new(datafusion::arrow::array::StringViewArray::from(formats));
        write_all(moments, &formats, zone)
    }
}

/// A moment as clocks show it, with the zone they are in if they are in one.
struct Shown<'a> {
    local: i64,
    nanos: i64,
    offset: i64,
    zone: Option<&'a Zone>,
}

fn write(items: &[Item], moment: &Shown<'_>, text: &mut String) -> Result<()> {
    use std::fmt::Write;
    let time = naive(moment.local)?;
    let hour12 = match time.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    let nanos = moment.local.rem_euclid(1_000_000) * 1000 + moment.nanos;
    // Weeks that begin on Sundays, or Mondays, before the first of which is week 0.
    let week = |first_day: u32| (time.ordinal0() + 7 - first_day) / 7;
    for item in items {
        let (field, bare) = match item {
            Item::Text(literal) => {
                text.push_str(literal);
                continue;
            }
            Item::Field { field, bare } => (*field, *bare),
        };
        let (value, width) = match field {
            b'a' => {
                text.push_str(&WEEKDAYS[time.weekday().num_days_from_sunday() as usize][..3]);
                continue;
            }
            b'A' => {
                text.push_str(WEEKDAYS[time.weekday().num_days_from_sunday() as usize]);
                continue;
            }
            b'b' | b'h' => {
                text.push_str(&MONTHS[time.month0() as usize][..3]);
                continue;
            }
            b'B' => {
                text.push_str(MONTHS[time.month0() as usize]);
                continue;
            }
            b'p' => {
                text.push_str(if time.hour() < 12 { "AM" } else { "PM" });
                continue;
            }
            b'z' => {
                text.push_str(&offset_text(moment.offset));
                continue;
            }
            b'Z' => {
                text.push_str(&moment.zone.map(Zone::name).unwrap_or_default());
                continue;
            }
            b'Y' | b'G' => {
                let year = if field == b'Y' { time.year() } else { time.iso_week().year() };
                if year < 0 {
                    write!(text, "{year}")?
                } else {
                    write!(text, "{year:04}")?
                }
                continue;
            }
            b'w' => (time.weekday().num_days_from_sunday(), 1),
            b'u' => (time.weekday().number_from_monday(), 1),
            b'd' => (time.day(), 2),
            b'm' => (time.month(), 2),
            b'y' => (time.year().rem_euclid(100).unsigned_abs(), 2),
            b'H' => (time.hour(), 2),
            b'I' => (hour12, 2),
            b'M' => (time.minute(), 2),
            b'S' => (time.second(), 2),
            b'j' => (time.ordinal(), 3),
            b'U' => (week(time.weekday().num_days_from_sunday()), 2),
            b'W' => (week(time.weekday().num_days_from_monday()), 2),
            b'V' => (time.iso_week().week(), 2),
            b'f' => ((nanos / 1000) as u32, 6),
            b'g' => ((nanos / 1_000_000) as u32, 3),
            b'n' => (nanos as u32, 9),
            other => return internal_err!("no specifier '{}'", other as char),
        };
        if bare { write!(text, "{value}")? } else { write!(text, "{value:0width$}")? }
    }
    Ok(())
}

/// Each of `moments` in the format beside it.
fn write_all(moments: &ArrayRef, formats: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    let zoned = is_instant(moments.data_type());
    let nanos_of = |array: &ArrayRef| match array.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let nanos = cast(array, &DataType::Timestamp(TimeUnit::Nanosecond, None))?;
            Ok::<_, datafusion::error::DataFusionError>(Some(nanos.as_primitive::<TimestampNanosecondType>().clone()))
        }
        _ => Ok(None),
    };
    let nanos = nanos_of(moments)?;
    let (micros, formats) = (micros(moments)?, texts(formats)?);
    let mut written = StringViewBuilder::with_capacity(micros.len());
    let mut text = String::new();
    let mut known: Option<(String, Vec<Item>)> = None;
    for row in 0..micros.len() {
        if micros.is_null(row) || formats.is_null(row) {
            written.append_null();
            continue;
        }
        let value = micros.value(row);
        if is_infinite(value) {
            written.append_value(text_of(value > 0));
            continue;
        }
        let format = formats.value(row);
        let items = match &mut known {
            Some((last, items)) if last == format => items,
            known => &mut known.insert((format.to_owned(), parse_format(format)?)).1,
        };
        let below = nanos.as_ref().map_or(0, |nanos| nanos.value(row).rem_euclid(1000));
        let moment = match zoned {
            true => {
                Shown { local: zone.to_local(value)?, nanos: below, offset: zone.offset_at(value)?, zone: Some(zone) }
            }
            false => Shown { local: value, nanos: below, offset: 0, zone: None },
        };
        text.clear();
        write(items, &moment, &mut text)?;
        written.append_value(&text);
    }
    Ok(Arc::new(written.finish()))
}

/// `strftime(moment, format)`, or the other way round.
fn strftime() -> Function {
    fn is_moment(data_type: &DataType) -> bool {
        matches!(data_type, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
    }
    fn returns(args: &[DataType]) -> Result<DataType> {
        let is_text = |data_type: &DataType| data_type.is_string() || data_type.is_null();
        match args {
            [moment, format] if (is_moment(moment) || moment.is_null()) && is_text(format) => Ok(DataType::Utf8View),
            [format, moment] if is_text(format) && is_moment(moment) => Ok(DataType::Utf8View),
            _ => plan_err!("strftime takes a date or timestamp and a format, not {} and {}", args[0], args[1]),
        }
    }
    fn body(args: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
        let [first, second] = args else { return internal_err!("strftime has two arguments") };
        let (moments, formats) = if is_moment(second.data_type()) { (second, first) } else { (first, second) };
        write_all(moments, formats, zone)
    }
    Function::new(STRFTIME, 2, returns, body)
}

/// `strftime` of an instant, in the zone of the session.
pub fn strftime_in_zone(args: Vec<Expr>, zone: &Zone) -> Expr {
    strftime().in_zone(zone).call(args)
}

/// `strptime(text, format)`; of several formats in a list the first that fits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Strptime {
    name: &'static str,
    null_if_none: bool,
    signature: Signature,
}

/// The formats in a constant; none if it is NULL.
fn constant_formats(value: &ScalarValue) -> Result<Vec<String>> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    if let Some(format) = value.try_as_str() {
        return Ok(format.map(str::to_owned).into_iter().collect());
    }
    match value {
        ScalarValue::List(list) => {
            let formats = texts(&list.value(0))?;
            Ok(formats.iter().flatten().map(str::to_owned).collect())
        }
        other => plan_err!("strptime takes a format or a list of them, not {}", other.data_type()),
    }
}

fn is_zoned(items: &[Item]) -> bool {
    items.iter().any(|item| matches!(item, Item::Field { field: b'z' | b'Z', .. }))
}

fn has_nanos(items: &[Item]) -> bool {
    items.iter().any(|item| matches!(item, Item::Field { field: b'n', .. }))
}

/// The type of what formats give.
fn read_type(formats: &[Vec<Item>]) -> DataType {
    if formats.iter().any(|items| is_zoned(items)) {
        instant()
    } else if formats.iter().any(|items| has_nanos(items)) {
        DataType::Timestamp(TimeUnit::Nanosecond, None)
    } else {
        LOCAL
    }
}

impl ScalarUDFImpl for Strptime {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of strptime follows from its format")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let (text, format) = (args.arg_fields[0].data_type(), args.arg_fields[1].data_type());
        if !(text.is_string() || text.is_null()) {
            return plan_err!("{} takes a text, not {text}", self.name);
        }
        let data_type = match (args.scalar_arguments, format) {
            ([_, Some(format)], _) => {
                let formats =
                    constant_formats(format)?.iter().map(|format| parse_format(format)).collect::<Result<Vec<_>>>();
                read_type(&formats?)
            }
            // A list is a constant only after it was put together.
            (_, DataType::List(_)) => LOCAL,
            _ => return plan_err!("the format of {} must be a constant", self.name),
        };
        Ok(Arc::new(Field::new(self.name, data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, ColumnarValue::Scalar(format)] = args.args.as_slice() else {
            return exec_err!("the format of {} must be a constant", self.name);
        };
        let names = constant_formats(format)?;
        let formats = names.iter().map(|format| parse_format(format)).collect::<Result<Vec<_>>>()?;
        let result = args.return_field.data_type();
        if !formats.is_empty() && read_type(&formats) != *result {
            return exec_err!("{} takes a list of formats only without %z, %Z and %n", self.name);
        }
        let constant = matches!(text, ColumnarValue::Scalar(_));
        let array = text.clone().into_array(if constant { 1 } else { args.number_rows })?;
        let values = texts(&array)?;
        let mut read: Vec<Option<i64>> = Vec::with_capacity(values.len());
        let in_nanos = matches!(result, DataType::Timestamp(TimeUnit::Nanosecond, _));
        for text in values.iter() {
            let Some(text) = text.filter(|_| !formats.is_empty()) else {
                read.push(None);
                continue;
            };
            // Short for it is not.
            let found = infinite_count(text.as_bytes()).filter(|_| text.trim().len() > "-inf".len());
            let found = found.or_else(|| formats.iter().find_map(|items| read_moment(items, text, in_nanos).ok()));
            if found.is_none() && !self.null_if_none {
                return exec_err!(
                    "could not parse string \"{text}\" according to format specifier \"{}\"",
                    names.join("\", \"")
                );
            }
            read.push(found);
        }
        let array: ArrayRef = match in_nanos {
            true => Arc::new(PrimitiveArray::<TimestampNanosecondType>::from(read)),
            false => Arc::new(PrimitiveArray::<TimestampMicrosecondType>::from(read).with_data_type(result.clone())),
        };
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

/// What was read so far of a moment.
#[derive(Default)]
struct Read {
    year: Option<i64>,
    iso_year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    ordinal: Option<i64>,
    week_from_sunday: Option<i64>,
    week_from_monday: Option<i64>,
    iso_week: Option<i64>,
    /// Days since Sunday.
    weekday: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: i64,
    afternoon: Option<bool>,
    /// Whether the hour is one of twelve.
    hour_of_12: bool,
    zone: Option<Zone>,
}

/// A number of at most `digits` digits at the beginning of `text`, and how many it has.
fn number(text: &mut &str, digits: usize) -> Option<(i64, usize)> {
    let len = text.bytes().take(digits).take_while(u8::is_ascii_digit).count();
    let value = text.get(..len)?.parse().ok()?;
    *text = &text[len..];
    Some((value, len))
}

/// Which of `names`, whole or cut to `len` letters, `text` begins with, in any case.
fn name_of(text: &mut &str, names: &[&str], len: Option<usize>) -> Option<i64> {
    let found = names.iter().position(|name| {
        let name = &name[..len.unwrap_or(name.len())];
        text.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
    })?;
    *text = &text[len.unwrap_or(names[found].len())..];
    i64::try_from(found).ok()
}

fn read_moment(items: &[Item], text: &str, in_nanos: bool) -> Result<i64> {
    let refuse = || exec_datafusion_err!("no moment");
    let mut rest = text.trim_start();
    let mut read = Read::default();
    for item in items {
        read_item(item, &mut rest, &mut read).ok_or_else(refuse)?;
    }
    if !rest.trim_end().is_empty() {
        return Err(refuse());
    }
    match read.afternoon {
        Some(_) if read.hour > 12 => return Err(refuse()),
        Some(true) if read.hour < 12 => read.hour += 12,
        Some(false) | None if read.hour == 12 && (read.afternoon.is_some() || read.hour_of_12) => read.hour = 0,
        _ => {}
    }
    let seconds = read.hour * 3600 + read.minute * 60 + read.second;
    let midnight = date(&read).and_then(|date| date.and_hms_opt(0, 0, 0)).ok_or_else(refuse)?;
    let local = midnight.and_utc().timestamp_micros() + seconds * 1_000_000;
    if in_nanos {
        return local.checked_mul(1000).and_then(|nanos| nanos.checked_add(read.nanos)).ok_or_else(refuse);
    }
    let local = local + read.nanos / 1000;
    match read.zone {
        Some(zone) => zone.to_instant(local),
        None => Ok(local),
    }
}

/// The day that was read.
fn date(read: &Read) -> Option<NaiveDate> {
    let year = i32::try_from(read.year.unwrap_or(1900)).ok()?;
    let first = NaiveDate::from_ymd_opt(year, 1, 1)?;
    let part = |part: Option<i64>| u32::try_from(part.unwrap_or(1)).ok();
    // A month or a day of it tells all, whatever week is said beside it.
    if read.month.is_some() || read.day.is_some() {
        return NaiveDate::from_ymd_opt(year, part(read.month)?, part(read.day)?);
    }
    let weeks = [read.ordinal, read.week_from_sunday, read.week_from_monday, read.iso_week];
    if weeks.iter().flatten().count() > 1 || read.iso_year.is_some() && read.year.is_some() {
        return None;
    }
    let later = |days: i64| u64::try_from(days).ok().and_then(|days| first.checked_add_days(Days::new(days)));
    if read.iso_week.is_some() || read.iso_year.is_some() {
        let (week, year) = (read.iso_week.unwrap_or(1), i32::try_from(read.iso_year?).ok()?);
        // Sunday is the last day of a week of ISO 8601.
        let weekday = read.weekday.map_or(Weekday::Mon, |day| {
            [Weekday::Sun, Weekday::Mon, Weekday::Tue, Weekday::Wed, Weekday::Thu, Weekday::Fri, Weekday::Sat]
                [day as usize]
        });
        return NaiveDate::from_isoywd_opt(year, u32::try_from(week).ok()?, weekday);
    }
    if let Some(ordinal) = read.ordinal {
        return later(ordinal - 1);
    }
    if let Some(week) = read.week_from_sunday {
        let first_sunday = (7 - i64::from(first.weekday().num_days_from_sunday())) % 7;
        return at(first, first_sunday + (week - 1) * 7 + read.weekday.unwrap_or(0));
    }
    if let Some(week) = read.week_from_monday {
        let first_monday = (7 - i64::from(first.weekday().num_days_from_monday())) % 7;
        let weekday = read.weekday.map_or(0, |day| (day + 6) % 7);
        return at(first, first_monday + (week - 1) * 7 + weekday);
    }
    Some(first)
}

fn at(first: NaiveDate, days: i64) -> Option<NaiveDate> {
    first.checked_add_signed(chrono::TimeDelta::try_days(days)?)
}

fn read_item(item: &Item, rest: &mut &str, read: &mut Read) -> Option<()> {
    let field = match item {
        Item::Text(literal) => {
            let mut literal = literal.as_str();
            while let Some(char) = literal.chars().next() {
                if char.is_ascii_whitespace() {
                    // One stands for many, in both.
                    *rest = rest.trim_start();
                    literal = literal.trim_start();
                } else {
                    *rest = rest.strip_prefix(char)?;
                    literal = &literal[char.len_utf8()..];
                }
            }
            return Some(());
        }
        Item::Field { field, .. } => *field,
    };
    let within = |rest: &mut &str, digits: usize, least: i64, most: i64| {
        number(rest, digits).map(|(value, _)| value).filter(|value| (least..=most).contains(value))
    };
    // Digits after a point.
    let fraction = |rest: &mut &str, digits: usize| {
        let (value, len) = number(rest, digits)?;
        Some(value * 10i64.pow(u32::try_from(9 - len).ok()?))
    };
    match field {
        b'a' => read.weekday = Some(name_of(rest, &WEEKDAYS, Some(3))?),
        b'A' => read.weekday = Some(name_of(rest, &WEEKDAYS, None)?),
        b'b' | b'h' => read.month = Some(name_of(rest, &MONTHS, Some(3))? + 1),
        b'B' => read.month = Some(name_of(rest, &MONTHS, None)? + 1),
        b'p' => read.afternoon = Some(name_of(rest, &["AM", "PM"], None)? == 1),
        b'Y' => read.year = Some(within(rest, 4, 0, 9999)?),
        b'G' => read.iso_year = Some(within(rest, 4, 0, 9999)?),
        b'y' => {
            let year = within(rest, 2, 0, 99)?;
            read.year = Some(if year < 69 { 2000 + year } else { 1900 + year });
        }
        b'm' => read.month = Some(within(rest, 2, 1, 12)?),
        b'd' => read.day = Some(within(rest, 2, 1, 31)?),
        b'j' => read.ordinal = Some(within(rest, 3, 1, 366)?),
        b'U' => read.week_from_sunday = Some(within(rest, 2, 0, 53)?),
        b'W' => read.week_from_monday = Some(within(rest, 2, 0, 53)?),
        b'V' => read.iso_week = Some(within(rest, 2, 1, 53)?),
        b'w' => read.weekday = Some(within(rest, 1, 0, 6)?),
        b'u' => read.weekday = Some(within(rest, 1, 1, 7)? % 7),
        b'H' => read.hour = within(rest, 2, 0, 23)?,
        b'I' => {
            read.hour = within(rest, 2, 1, 12)?;
            read.hour_of_12 = true;
        }
        b'M' => read.minute = within(rest, 2, 0, 59)?,
        b'S' => read.second = within(rest, 2, 0, 59)?,
        b'f' => read.nanos = fraction(rest, 6)?,
        b'g' => read.nanos = fraction(rest, 3)?,
        b'n' => read.nanos = fraction(rest, 9)?,
        b'z' => {
            let len = rest.find(|char: char| !char.is_ascii_digit() && !matches!(char, '+' | '-' | ':'));
            let (offset, after) = rest.split_at(len.unwrap_or(rest.len()));
            read.zone = Some(Zone::Fixed(offset_of(offset)?));
            *rest = after;
        }
        b'Z' => {
            let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '/' | '_' | '+' | '-');
            let (name, after) = rest.split_at(rest.find(|char| !is_name(char)).unwrap_or(rest.len()));
            read.zone = Some(Zone::named(name).ok()?);
            *rest = after;
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::times::moments::write_moment;

    fn moment(format: &str, text: &str) -> Option<String> {
        let value = read_moment(&parse_format(format).unwrap(), text, false).ok()?;
        let mut written = String::new();
        write_moment(value, &mut written);
        Some(written)
    }

    #[test]
    fn reads_what_duckdb_reads() {
        for (format, text, read) in [
            ("%Y-%m-%d %H:%M:%S.%f", "2024-05-07 10:11:12.345", "2024-05-07 10:11:12.345"),
            ("%Y-%m-%d %H:%M:%S.%g", "2024-05-07 10:11:12.34", "2024-05-07 10:11:12.34"),
            ("%Y-%m-%d %H:%M:%S %z", "2024-05-07 10:00:00 +0230", "2024-05-07 07:30:00"),
            ("%Y-%m-%d %H:%M:%S %Z", "2024-05-07 10:00:00 EST", "2024-05-07 15:00:00"),
            ("%Y-%m-%d", "  2024-5-7  ", "2024-05-07 00:00:00"),
            ("%Y-%m-%d %H", "2024-05-07   10", "2024-05-07 10:00:00"),
            ("%y", "68", "2068-01-01 00:00:00"),
            ("%y", "69", "1969-01-01 00:00:00"),
            ("%H:%M", "10:11", "1900-01-01 10:11:00"),
            ("%I:%M %p", "12:11 AM", "1900-01-01 00:11:00"),
            ("%I:%M %p", "12:11 pm", "1900-01-01 12:11:00"),
            ("%H:%M %p", "10:11 PM", "1900-01-01 22:11:00"),
            ("%b %-d %Y", "MAY 7 2024", "2024-05-07 00:00:00"),
            ("%G %V %u", "2024 19 2", "2024-05-07 00:00:00"),
            ("%Y %W %w", "2024 19 2", "2024-05-07 00:00:00"),
            ("%Y %U %w", "2024 19 2", "2024-05-14 00:00:00"),
            ("%Y %j", "2023 366", "2024-01-01 00:00:00"),
            ("%Y-%m-%d %U", "2021-05-12 19", "2021-05-12 00:00:00"),
            ("%j %m %Y", "132 7 2021", "2021-07-01 00:00:00"),
            ("%G", "2021", "2021-01-04 00:00:00"),
            ("%Y%m%d%H%M%S", "20240507101112", "2024-05-07 10:11:12"),
            ("%c", "2024-05-07 10:11:12", "2024-05-07 10:11:12"),
        ] {
            assert_eq!(moment(format, text).as_deref(), Some(read), "{format} {text}");
        }
        for (format, text) in [
            ("%Y-%m-%d", "2024-05-07 x"),
            ("%Y-%m-%d", "2024-02-30"),
            ("%Y-%m-%d", "12024-05-07"),
            ("%H:%M:%S.%f", "10:11:12.3456789"),
            ("%I:%M %p", "13:11 pm"),
            ("%B", "Mayo"),
            ("%H", "24"),
            ("%Y", ""),
            ("%Y %U %W", "2021 19 20"),
            ("%Y %j %U", "2021 132 19"),
            ("%Y %V", "2021 19"),
        ] {
            assert_eq!(moment(format, text), None, "{format} {text}");
        }
        for format in ["%q", "%", "", "%-w", "%-g", "%e", "%F"] {
            assert!(parse_format(format).is_err(), "{format}");
        }
    }
}
