//! Casts of values that have no others in them, where they stand in lists, structs and maps: as the same casts of values alone.
//!
//! Not here: casts of values alone, which rules put into plans (`ogee-sql`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Float64Array, PrimitiveArray, StringViewArray},
        compute::{CastOptions, cast, cast_with_options},
        datatypes::{DataType, Decimal128Type, IntervalMonthDayNanoType, TimestampMicrosecondType},
    },
    common::{Result, exec_err},
};

use crate::{
    arguments::texts,
    nested_text::singles,
    numbers::{fitting, is_beyond_quotients, nearest_double, rounded},
    text_casts::cast_texts,
    times::{
        Zone,
        infinite::cast_moments,
        instants::{instant, instant_array, instants, is_instant, local_array, micros},
        intervals::parse_interval,
        moments::instant_of,
        moved::is_moment_cast,
    },
    type_names::sql_name,
};

use super::is_text;

fn has_fraction(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, 1..))
}

fn narrows(from: &DataType, to: &DataType) -> bool {
    (from, to) == (&DataType::Float64, &DataType::Float32)
}

/// Whether Arrow's cast would give another answer.
pub(super) fn differs(from: &DataType, to: &DataType) -> bool {
    to.is_integer() && has_fraction(from)
        || narrows(from, to)
        || *to == DataType::Float64 && is_beyond_quotients(from)
        || is_text(from) != is_text(to) && !from.is_null()
        || is_instant(from) != is_instant(to)
        || is_moment_cast(from, to)
}

/// The values of `array` as those of `to`; `tries`: what is none is NULL.
pub(super) fn cast_leaves(array: &ArrayRef, to: &DataType, tries: bool, zone: &Zone) -> Result<ArrayRef> {
    let options = CastOptions { safe: tries, ..CastOptions::default() };
    let from = array.data_type();
    let cast_as = |array: &dyn Array| -> Result<ArrayRef> {
        match datafusion::arrow::compute::can_cast_types(array.data_type(), to) {
            true => Ok(cast_with_options(array, to, &options)?),
            false => exec_err!("{} cannot be cast to {}", sql_name(array.data_type()), sql_name(to)),
        }
    };
    match (from, to) {
        (from, to) if from == to => Ok(Arc::clone(array)),
        (from, to) if is_text(from) && !is_text(to) => of_texts(&texts(array)?, to, tries, zone),
        (from, to) if is_text(to) && !is_text(from) => cast_as(&singles(array, zone)?),
        (from, to) if to.is_integer() && has_fraction(from) => cast_as(&rounded(array)?),
        (from, to) if narrows(from, to) => cast_as(&fitting(array, tries)?),
        (DataType::Decimal128(_, scale), DataType::Float64) if is_beyond_quotients(from) => {
            let decimals = array.as_primitive::<Decimal128Type>();
            let doubles: Float64Array =
                decimals.iter().map(|digits| digits.map(|digits| nearest_double(digits, *scale))).collect();
            Ok(Arc::new(doubles))
        }
        (from, to) if is_instant(from) && !is_instant(to) => {
            let local: ArrayRef = Arc::new(local_array(&micros(array)?, zone)?);
            match is_moment_cast(local.data_type(), to) {
                true => cast_moments(&local, to, tries),
                false => cast_as(&local),
            }
        }
        (from, to) if is_instant(to) && !is_instant(from) && from.is_temporal() => {
            let instants: ArrayRef = instants(instant_array(&micros(array)?, zone)?);
            cast_moments(&instants, to, tries)
        }
        (from, to) if is_moment_cast(from, to) => cast_moments(array, to, tries),
        _ => cast_as(array),
    }
}

/// The values that the texts are, as if they were cast alone.
fn of_texts(texts: &StringViewArray, to: &DataType, tries: bool, zone: &Zone) -> Result<ArrayRef> {
    match to {
        DataType::Interval(_) => {
            let mut parsed = Vec::with_capacity(texts.len());
            for text in texts {
                parsed.push(match text.map(parse_interval) {
                    Some(Err(_)) if tries => None,
                    parsed => parsed.transpose()?,
                });
            }
            Ok(cast(&PrimitiveArray::<IntervalMonthDayNanoType>::from(parsed), to)?)
        }
        to if is_instant(to) => {
            let mut parsed = Vec::with_capacity(texts.len());
            for text in texts {
                parsed.push(match text.map(|text| instant_of(text, zone)) {
                    Some(Err(_)) if tries => None,
                    parsed => parsed.transpose()?,
                });
            }
            let parsed = PrimitiveArray::<TimestampMicrosecondType>::from(parsed).with_data_type(instant());
            let parsed: ArrayRef = Arc::new(parsed);
            cast_moments(&parsed, to, tries)
        }
        to => cast_texts(texts, to, tries),
    }
}
