//! Values for parameters: Rust's as those of SQL.
//!
//! Not here: which parameters a statement has (`prepared`).

use datafusion::common::ScalarValue;
use ogee_datafusion::{Error as StatementError, Parameters};

use crate::{Error, Result};

/// Something that a parameter, or a column of a row that is appended, can be.
///
/// Implemented for `bool`, whole numbers, floats, texts, bytes, [`Date`], [`Time`], [`Timestamp`], [`Decimal`], [`ScalarValue`], which can be all that Arrow has, and
/// for `Option` of each, whose `None` is NULL.
pub trait ToValue {
    /// The value.
    ///
    /// # Errors
    /// It is none that SQL has, such as a number of more than 38 digits.
    fn to_value(&self) -> Result<ScalarValue>;
}

/// NULL of no type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Null;

/// A day, as days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(pub i32);

/// A time of day, as microseconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// A moment, as microseconds since 1970-01-01 00:00:00, of no time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A moment, as microseconds since 1970-01-01 00:00:00 UTC: `TIMESTAMP WITH TIME ZONE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampTz(pub i64);

/// `value` divided by ten to the power of `scale`, with all of its digits: `Decimal { value: 1999, scale: 2 }` is 19.99.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// The digits.
    pub value: i128,
    /// How many of them are behind the point: 0 to 38.
    pub scale: u8,
}

/// A length of time, in the parts that SQL has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Nanoseconds.
    pub nanos: i64,
}

impl Date {
    /// The day of this year, month (1 to 12) and day (1 to 31) of the Gregorian calendar, if there is one.
    pub fn from_ymd(year: i32, month: u32, day: u32) -> Option<Self> {
        let is_leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
        let days = match month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 => 28 + u32::from(is_leap),
            _ => return None,
        };
        if !(1..=days).contains(&day) {
            return None;
        }
        // Years that begin in March end with the leap day; 400 of them have 146,097 days, and 1970-01-01 is day 719,468 of those from 0000-03-01.
        let (month, year) = (i64::from(month), i64::from(year) - i64::from(month <= 2));
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
        let of_era = year.rem_euclid(400);
        let days = year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        i32::try_from(days - 719_468).ok().map(Self)
    }
}

/// All digits that a decimal may have.
const DIGITS_MAX: u8 = 38;

/// `value` as a decimal of 38 digits.
fn decimal(value: i128, scale: u8) -> Result<ScalarValue> {
    if value.unsigned_abs() >= 10_u128.pow(u32::from(DIGITS_MAX)) {
        return Err(StatementError::Execution(format!("{value} has more than {DIGITS_MAX} digits")).into());
    }
    if scale > DIGITS_MAX {
        let why = format!("a decimal has {DIGITS_MAX} digits behind the point at most, not {scale}");
        return Err(StatementError::Execution(why).into());
    }
    Ok(ScalarValue::Decimal128(Some(value), DIGITS_MAX, scale as i8))
}

macro_rules! values {
    ($($of:ty: |$value:ident| $to:expr;)+) => {
        $(impl ToValue for $of {
            fn to_value(&self) -> Result<ScalarValue> {
                let $value = self;
                Ok($to)
            }
        })+
    };
}

values! {
    bool: |value| ScalarValue::Boolean(Some(*value));
    i8: |value| ScalarValue::Int8(Some(*value));
    i16: |value| ScalarValue::Int16(Some(*value));
    i32: |value| ScalarValue::Int32(Some(*value));
    i64: |value| ScalarValue::Int64(Some(*value));
    u8: |value| ScalarValue::UInt8(Some(*value));
    u16: |value| ScalarValue::UInt16(Some(*value));
    u32: |value| ScalarValue::UInt32(Some(*value));
    u64: |value| ScalarValue::UInt64(Some(*value));
    usize: |value| ScalarValue::UInt64(Some(*value as u64));
    isize: |value| ScalarValue::Int64(Some(*value as i64));
    f32: |value| ScalarValue::Float32(Some(*value));
    f64: |value| ScalarValue::Float64(Some(*value));
    i128: |value| decimal(*value, 0)?;
    str: |value| ScalarValue::Utf8(Some(value.to_owned()));
    String: |value| ScalarValue::Utf8(Some(value.clone()));
    [u8]: |value| ScalarValue::Binary(Some(value.to_vec()));
    Vec<u8>: |value| ScalarValue::Binary(Some(value.clone()));
    ScalarValue: |value| value.clone();
    Null: |_value| ScalarValue::Null;
    Date: |value| ScalarValue::Date32(Some(value.0));
    Time: |value| ScalarValue::Time64Microsecond(Some(value.0));
    Timestamp: |value| ScalarValue::TimestampMicrosecond(Some(value.0), None);
    TimestampTz: |value| ScalarValue::TimestampMicrosecond(Some(value.0), Some("UTC".into()));
    Decimal: |value| decimal(value.value, value.scale)?;
    Interval: |value| ScalarValue::new_interval_mdn(value.months, value.days, value.nanos);
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Result<ScalarValue> {
        self.as_slice().to_value()
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Result<ScalarValue> {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Result<ScalarValue> {
        self.as_ref().map_or(Ok(ScalarValue::Null), ToValue::to_value)
    }
}

impl<T: ToValue + ?Sized> ToValue for Box<T> {
    fn to_value(&self) -> Result<ScalarValue> {
        (**self).to_value()
    }
}

impl<T: ToValue + ToOwned + ?Sized> ToValue for std::borrow::Cow<'_, T> {
    fn to_value(&self) -> Result<ScalarValue> {
        (**self).to_value()
    }
}

/// Values for all parameters of a statement.
///
/// [`params!`](crate::params) makes them of values of any types, [`named_params!`](crate::named_params) with names. An array of values of one type, a list of [`ScalarValue`], and `()` for none
/// can be given as they are.
pub trait Params {
    /// The values.
    ///
    /// # Errors
    /// Those of [`ToValue::to_value`].
    fn to_values(&self) -> Result<Values>;
}

/// The values of parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// In the order of the parameters.
    Listed(Vec<ScalarValue>),
    /// By the names of the parameters, without the `$`.
    Named(Vec<(String, ScalarValue)>),
}

impl Values {
    pub(crate) fn none() -> Self {
        Self::Listed(Vec::new())
    }

    /// These, and what `variable` gives for the names among `parameters` that have no value.
    pub(crate) fn with_variables(
        self,
        parameters: &Parameters,
        variable: impl Fn(&str) -> Option<ScalarValue>,
    ) -> Self {
        let Parameters::Named(names) = parameters else { return self };
        let mut named = match self {
            Self::Listed(values) if values.is_empty() => Vec::new(),
            Self::Named(named) => named,
            listed => return listed,
        };
        let is_given = |name: &str| named.iter().any(|(given, _)| given.strip_prefix('$').unwrap_or(given) == name);
        let missing: Vec<_> = names
            .iter()
            .filter(|name| !is_given(name))
            .filter_map(|name| variable(name).map(|value| (name.clone(), value)))
            .collect();
        if named.is_empty() && missing.is_empty() {
            return Self::none();
        }
        named.extend(missing);
        Self::Named(named)
    }

    /// The values in the order of `parameters`.
    ///
    /// # Errors
    /// There are more or fewer of them, or they have other names.
    pub(crate) fn in_order(self, parameters: &Parameters) -> Result<Vec<ScalarValue>> {
        let wrong = |message: String| -> Error { StatementError::Plan(message).into() };
        match self {
            Self::Listed(values) if values.len() == parameters.len() => Ok(values),
            Self::Listed(values) => {
                let given = match values.len() {
                    0 => "no value was given".to_owned(),
                    1 => "1 value was given".to_owned(),
                    count => format!("{count} values were given"),
                };
                Err(wrong(format!("{}, and {given}", told(parameters))))
            }
            Self::Named(named) => {
                let mut values = vec![None; parameters.len()];
                for (name, value) in named {
                    let name = name.strip_prefix('$').unwrap_or(&name);
                    let Some(position) = parameters.position(name) else {
                        return Err(wrong(format!("there is no parameter ${name}; {}", told(parameters))));
                    };
                    if values[position].replace(value).is_some() {
                        return Err(wrong(format!("parameter ${name} is given two values")));
                    }
                }
                let names = names(parameters);
                let missing: Vec<&str> =
                    values.iter().zip(&names).filter(|(value, _)| value.is_none()).map(|(_, name)| &**name).collect();
                if !missing.is_empty() {
                    return Err(wrong(format!("no value was given for {}", missing.join(", "))));
                }
                Ok(values.into_iter().flatten().collect())
            }
        }
    }
}

/// What the parameters are called, with the `$`.
pub(crate) fn names(parameters: &Parameters) -> Vec<String> {
    match parameters {
        Parameters::Numbered(count) => (1..=*count).map(|number| format!("${number}")).collect(),
        Parameters::Named(names) => names.iter().map(|name| format!("${name}")).collect(),
    }
}

/// What parameters there are.
fn told(parameters: &Parameters) -> String {
    let named = match parameters {
        Parameters::Named(_) => format!(" ({})", names(parameters).join(", ")),
        Parameters::Numbered(_) => String::new(),
    };
    match parameters.len() {
        0 => "the statement has no parameters".to_owned(),
        1 => format!("the statement has 1 parameter{named}"),
        count => format!("the statement has {count} parameters{named}"),
    }
}

impl Params for () {
    fn to_values(&self) -> Result<Values> {
        Ok(Values::none())
    }
}

impl Params for Values {
    fn to_values(&self) -> Result<Values> {
        Ok(self.clone())
    }
}

impl<T: ToValue> Params for [T] {
    fn to_values(&self) -> Result<Values> {
        Ok(Values::Listed(self.iter().map(ToValue::to_value).collect::<Result<_>>()?))
    }
}

impl<T: ToValue, const N: usize> Params for [T; N] {
    fn to_values(&self) -> Result<Values> {
        self.as_slice().to_values()
    }
}

impl<T: ToValue> Params for Vec<T> {
    fn to_values(&self) -> Result<Values> {
        self.as_slice().to_values()
    }
}

impl Params for [(&str, &dyn ToValue)] {
    fn to_values(&self) -> Result<Values> {
        let named = self.iter().map(|(name, value)| Ok(((*name).to_owned(), value.to_value()?)));
        Ok(Values::Named(named.collect::<Result<_>>()?))
    }
}

impl<const N: usize> Params for [(&str, &dyn ToValue); N] {
    fn to_values(&self) -> Result<Values> {
        self.as_slice().to_values()
    }
}

impl<P: Params + ?Sized> Params for &P {
    fn to_values(&self) -> Result<Values> {
        (**self).to_values()
    }
}

/// Values for parameters, each of any type that is [`ToValue`]: `params![1, "two", 3.0, None::<i64>]`.
#[macro_export]
macro_rules! params {
    () => { &[] as &[&dyn $crate::ToValue] };
    ($($value:expr),+ $(,)?) => { &[$(&$value as &dyn $crate::ToValue),+] as &[&dyn $crate::ToValue] };
}

/// Values for parameters by their names: `named_params! { "id": 1, "name": "one" }`.
#[macro_export]
macro_rules! named_params {
    ($($name:literal : $value:expr),* $(,)?) => {
        &[$(($name, &$value as &dyn $crate::ToValue)),*] as &[(&str, &dyn $crate::ToValue)]
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted() {
        for ((year, month, day), days) in [
            ((1970, 1, 1), Some(0)),
            ((1969, 12, 31), Some(-1)),
            ((2000, 2, 29), Some(11_016)),
            ((2024, 3, 1), Some(19_783)),
            ((1, 1, 1), Some(-719_162)),
            ((0, 2, 29), Some(-719_469)),
            ((1900, 2, 29), None),
            ((2023, 13, 1), None),
            ((2023, 4, 31), None),
            ((2023, 4, 0), None),
            ((i32::MAX, 1, 1), None),
        ] {
            assert_eq!(Date::from_ymd(year, month, day).map(|date| date.0), days, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn numbers_that_are_too_long_are_refused() {
        let most = 10_i128.pow(38) - 1;
        assert!(most.to_value().is_ok() && (-most).to_value().is_ok());
        assert!((most + 1).to_value().is_err() && i128::MIN.to_value().is_err());
        assert!(Decimal { value: 1, scale: 39 }.to_value().is_err());
    }
}
