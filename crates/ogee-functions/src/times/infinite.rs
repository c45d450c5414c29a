//! Dates and timestamps that are before all others, or behind them: `-infinity` and `infinity`.
//!
//! They are the greatest number of the type, and that with a sign, as DuckDB has them in memory and in files: days for dates, and for timestamps whatever their unit counts. They compare
//! as the numbers do. What has no answer for them, such as a part of the calendar, is NULL; what moves them, or makes another type of them, leaves them infinite.
//!
//! Not here: infinite floats.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Int64Array, PrimitiveArray, StringViewArray,
        },
        buffer::BooleanBuffer,
        compute::{CastOptions, cast, cast_with_options, nullif},
        datatypes::{
            DataType, Date32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
            TimestampNanosecondType, TimestampSecondType,
        },
    },
    common::{Result, ScalarValue, exec_err, internal_err},
};

/// The text of the moment behind all others.
const INFINITY: &str = "infinity";
/// The text of the moment before all others.
const BEFORE: &str = "-infinity";

/// Whether a date of so many days since 1970 is infinite.
pub const fn is_infinite_day(day: i32) -> bool {
    day == i32::MAX || day == -i32::MAX
}

/// Whether a timestamp of so many units since 1970 is infinite.
pub const fn is_infinite(count: i64) -> bool {
    count == i64::MAX || count == -i64::MAX
}

/// The text of a moment that is infinite.
pub const fn text_of(is_positive: bool) -> &'static str {
    if is_positive { INFINITY } else { BEFORE }
}

/// Whether `text` is that of the moment behind all others; `None` if it is of a finite one, or of none.
pub fn infinite_text(text: &str) -> Option<bool> {
    let text = text.trim();
    let (is_positive, word) = text.strip_prefix('-').map_or((true, text), |word| (false, word));
    (word.eq_ignore_ascii_case(INFINITY) || word.eq_ignore_ascii_case("inf")).then_some(is_positive)
}

/// The same among bytes, with the number of days that it is.
pub fn infinite_day(text: &[u8]) -> Option<i32> {
    // Most dates begin with a digit.
    let is_word = text.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| !byte.is_ascii_digit());
    let is_positive = is_word.then(|| infinite_text(std::str::from_utf8(text).ok()?))??;
    Some(if is_positive { i32::MAX } else { -i32::MAX })
}

/// The same among bytes, with the number of units that it is.
pub fn infinite_count(text: &[u8]) -> Option<i64> {
    infinite_day(text).map(|day| i64::MAX * i64::from(day.signum()))
}

/// The infinite moment of type `to` that `text` names, if it names one.
pub fn infinite_value(text: &str, to: &DataType) -> Option<ScalarValue> {
    let is_positive = infinite_text(text)?;
    let count = Some(if is_positive { i64::MAX } else { -i64::MAX });
    Some(match to {
        DataType::Date32 => ScalarValue::Date32(Some(if is_positive { i32::MAX } else { -i32::MAX })),
        DataType::Timestamp(TimeUnit::Second, zone) => ScalarValue::TimestampSecond(count, zone.clone()),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => ScalarValue::TimestampMillisecond(count, zone.clone()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => ScalarValue::TimestampMicrosecond(count, zone.clone()),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => ScalarValue::TimestampNanosecond(count, zone.clone()),
        _ => return None,
    })
}

/// Whether a constant is an infinite moment.
pub fn is_infinite_value(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Date32(Some(day)) => is_infinite_day(*day),
        ScalarValue::TimestampSecond(Some(count), _)
        | ScalarValue::TimestampMillisecond(Some(count), _)
        | ScalarValue::TimestampMicrosecond(Some(count), _)
        | ScalarValue::TimestampNanosecond(Some(count), _) => is_infinite(*count),
        _ => false,
    }
}

/// `$then` with `$type` the one of the values of `$data_type`, if those are moments; else `$other`.
macro_rules! of_moments {
    ($data_type:expr, $type:ident => $then:expr, $other:expr) => {
        match $data_type {
            DataType::Date32 => {
                type $type = Date32Type;
                $then
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                type $type = TimestampSecondType;
                $then
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                type $type = TimestampMillisecondType;
                $then
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                type $type = TimestampMicrosecondType;
                $then
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                type $type = TimestampNanosecondType;
                $then
            }
            _ => $other,
        }
    };
}

/// Moments of an array that are infinite.
pub struct Infinite {
    /// Of each value: 0 if it is finite or NULL, else the sign.
    signs: Vec<i8>,
}

impl Infinite {
    /// Those of `array`; `None` if there is none.
    pub fn of(array: &dyn Array) -> Option<Self> {
        of_moments!(array.data_type(), T => Self::of_values(array.as_primitive::<T>()), None)
    }

    fn of_values<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Option<Self>
    where
        T::Native: Into<i64>,
    {
        let most: i64 = if size_of::<T::Native>() == size_of::<i32>() { i32::MAX.into() } else { i64::MAX };
        let sign = |value: T::Native| {
            let value: i64 = value.into();
            i8::from(value == most) - i8::from(value == -most)
        };
        // What is NULL may be any number.
        let any = array.values().iter().fold(false, |any, value| any | (sign(*value) != 0));
        let signs = || -> Vec<i8> { array.iter().map(|value| value.map_or(0, sign)).collect() };
        any.then(signs).filter(|signs| signs.iter().any(|sign| *sign != 0)).map(|signs| Self { signs })
    }

    /// None of `rows` moments.
    pub fn none(rows: usize) -> Self {
        Self { signs: vec![0; rows] }
    }

    /// Those that texts name; `None` if there is none.
    pub fn of_texts(texts: &StringViewArray) -> Option<Self> {
        let sign = |text: &str| infinite_text(text).map_or(0, |is_positive| if is_positive { 1 } else { -1 });
        let is_word = |text: &str| !text.starts_with(|first: char| first.is_ascii_digit());
        if !texts.iter().flatten().any(is_word) {
            return None;
        }
        let signs: Vec<i8> = texts.iter().map(|text| text.map_or(0, sign)).collect();
        signs.iter().any(|sign| *sign != 0).then_some(Self { signs })
    }

    /// `array` with NULL in their place.
    pub fn left_out(&self, array: &dyn Array) -> Result<ArrayRef> {
        // Numbers below a NULL are computed with, too, and the greatest overflow.
        fn left_out<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, signs: &[i8]) -> ArrayRef {
            let values = array.iter().zip(signs).map(|(value, sign)| value.filter(|_| *sign == 0));
            let values: PrimitiveArray<T> = values.collect();
            Arc::new(values.with_data_type(array.data_type().clone()))
        }
        of_moments!(
            array.data_type(),
            T => return Ok(left_out(array.as_primitive::<T>(), &self.signs)),
            {}
        );
        let are = BooleanBuffer::collect_bool(self.signs.len(), |row| self.signs[row] != 0);
        Ok(nullif(array, &BooleanArray::new(are, None))?)
    }

    /// `array`, of moments or of texts, with them in their place.
    pub fn put_in(&self, array: &ArrayRef) -> Result<ArrayRef> {
        fn put<T: ArrowPrimitiveType>(array: &ArrayRef, signs: &[i8], most: T::Native) -> ArrayRef
        where
            T::Native: std::ops::Neg<Output = T::Native>,
        {
            let values = array.as_primitive::<T>().iter().zip(signs).map(|(value, sign)| match sign {
                0 => value,
                1 => Some(most),
                _ => Some(-most),
            });
            let values: PrimitiveArray<T> = values.collect();
            Arc::new(values.with_data_type(array.data_type().clone()))
        }
        if let DataType::Utf8View = array.data_type() {
            let texts = array.as_string_view().iter().zip(&self.signs);
            let texts = texts.map(|(text, sign)| if *sign == 0 { text } else { Some(text_of(*sign > 0)) });
            return Ok(Arc::new(texts.collect::<StringViewArray>()));
        }
        of_moments!(
            array.data_type(),
            T => Ok(put::<T>(array, &self.signs, <<T as ArrowPrimitiveType>::Native>::MAX)),
            internal_err!("a value of type {} cannot be infinite", array.data_type())
        )
    }
}

/// The text of the moment at `row` of `array`, if it is infinite.
pub fn infinite_word(array: &dyn Array, row: usize) -> Option<&'static str> {
    let sign = Infinite::of(&array.slice(row, 1))?.signs[0];
    Some(text_of(sign > 0))
}

/// `array` with NULL where it is infinite.
pub fn finite(array: &ArrayRef) -> Result<ArrayRef> {
    Infinite::of(array).map_or_else(|| Ok(Arc::clone(array)), |infinite| infinite.left_out(array))
}

/// `of` the finite moments of `array`, and the others as infinite as they were.
pub fn kept(array: &ArrayRef, of: impl FnOnce(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
    match Infinite::of(array) {
        Some(infinite) => infinite.put_in(&of(&infinite.left_out(array)?)?),
        None => of(array),
    }
}

/// The cast of `array`, of moments, to other moments or to times of a day; `tries`: what has none is NULL.
///
/// # Errors
/// If a moment is out of the range of the type, or is to be a time of a day and infinite.
pub fn cast_moments(array: &ArrayRef, to: &DataType, tries: bool) -> Result<ArrayRef> {
    let options = CastOptions { safe: tries, ..CastOptions::default() };
    if !matches!(to, DataType::Date32 | DataType::Timestamp(..)) {
        return match Infinite::of(array) {
            Some(infinite) if tries => Ok(cast_with_options(&infinite.left_out(array)?, to, &options)?),
            Some(_) => exec_err!("an infinite timestamp has no time of day"),
            None => Ok(cast_with_options(array, to, &options)?),
        };
    }
    kept(array, |array| Ok(cast_with_options(&to_nearest(array, to)?, to, &options)?))
}

/// Whether timestamps of type `from` have a part that those of `to` have not.
pub fn is_coarser(from: &DataType, to: &DataType) -> bool {
    matches!((from, to), (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) if units_of_second(*from) > units_of_second(*to))
}

/// How many of a unit a second has.
pub(super) fn units_of_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The timestamps that are whole ones of `to` next to those of `array`; of two the one further from 1970, as in DuckDB.
fn to_nearest(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let (DataType::Timestamp(from, _), DataType::Timestamp(unit, _)) = (array.data_type(), to) else {
        return Ok(Arc::clone(array));
    };
    let parts = units_of_second(*from) / units_of_second(*unit);
    if parts <= 1 {
        return Ok(Arc::clone(array));
    }
    let nearest = |count: i64| count.saturating_add(count.signum() * (parts / 2)) / parts * parts;
    let counts = cast(array, &DataType::Int64)?;
    let counts: Int64Array = counts.as_primitive::<Int64Type>().unary(nearest);
    Ok(cast(&counts, array.data_type())?)
}

/// `array`, of moments that were computed.
///
/// # Errors
/// If one of them is a number that is kept for what is infinite.
pub fn in_range(array: ArrayRef) -> Result<ArrayRef> {
    match (Infinite::of(&array), array.data_type()) {
        (None, _) => Ok(array),
        (Some(_), DataType::Date32) => exec_err!("date out of range"),
        (Some(_), _) => exec_err!("timestamp out of range"),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use datafusion::arrow::array::{Date32Array, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn texts_are_words_alone() {
        for (text, expected) in [
            ("infinity", Some(true)),
            (" -Infinity ", Some(false)),
            ("INF", Some(true)),
            ("-inf", Some(false)),
            ("+inf", None),
            ("- inf", None),
            ("infinit", None),
            ("infinity 10:00", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(infinite_text(text), expected, "{text}");
        }
        assert_eq!(infinite_day(b" inf"), Some(i32::MAX));
        assert_eq!(infinite_count(b"-inf"), Some(-i64::MAX));
        assert_eq!(infinite_count(b"2020-01-01"), None);
    }

    #[test]
    fn casts_keep_what_is_infinite() {
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(i32::MAX), None, Some(1), Some(-i32::MAX)]));
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let moments = cast_moments(&days, &micros, false).unwrap();
        let expected = vec![Some(i64::MAX), None, Some(86_400_000_000), Some(-i64::MAX)];
        assert_eq!(moments.as_ref(), &TimestampMicrosecondArray::from(expected) as &dyn Array);
        let nanos = cast_moments(&moments, &DataType::Timestamp(TimeUnit::Nanosecond, None), false).unwrap();
        assert_eq!(cast_moments(&nanos, &DataType::Date32, false).unwrap().as_ref(), days.as_ref());
        let time = DataType::Time64(TimeUnit::Microsecond);
        assert!(cast_moments(&moments, &time, false).is_err());
        assert_eq!(cast_moments(&moments, &time, true).unwrap().null_count(), 3);
        // Greater than any number that is a timestamp, and yet no infinity.
        let far: ArrayRef = Arc::new(Date32Array::from(vec![i32::MAX - 1]));
        assert!(cast_moments(&far, &micros, false).is_err());
    }

    #[test]
    fn finite_moments_are_left_alone() {
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(0), None]));
        assert!(Infinite::of(&days).is_none());
        assert!(Arc::ptr_eq(&finite(&days).unwrap(), &days));
        assert!(in_range(Arc::new(Date32Array::from(vec![i32::MAX]))).is_err());
    }
}
