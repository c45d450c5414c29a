//! What the arguments of a function may be, as an error says it, and their values row by row.
//!
//! Not here: functions.

use std::fmt::Write;

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, Float64Array, Int64Array, StringViewArray},
        compute::cast,
        datatypes::{DataType, Float64Type, Int64Type},
    },
    common::{Result, plan_err},
};

use crate::type_names::sql_name;

/// What an argument may be; NULL always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A text.
    Text,
    /// A text, or bytes.
    TextOrBytes,
    /// A whole number that 64 bits with a sign have room for.
    Whole,
    /// A number, taken as a double.
    Double,
    /// A number, as it is.
    Number,
    /// Whatever it is.
    Any,
}

impl Argument {
    /// The type that a value of type `given` is taken as.
    fn taken(self, given: &DataType) -> Option<DataType> {
        let is_bytes = |of: &DataType| {
            matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
        };
        let given = match given {
            DataType::Dictionary(_, values) => values,
            given => given,
        };
        Some(match self {
            Self::Text | Self::TextOrBytes if given.is_string() || given.is_null() => DataType::Utf8View,
            Self::TextOrBytes if is_bytes(given) => DataType::BinaryView,
            Self::Whole if given.is_integer() || given.is_null() => DataType::Int64,
            Self::Double if given.is_numeric() || given.is_null() => DataType::Float64,
            Self::Number if given.is_numeric() => given.clone(),
            Self::Number if given.is_null() => DataType::Float64,
            Self::Any => given.clone(),
            _ => return None,
        })
    }
}

/// The types that function `name` takes, of which the last `optional` may be left out, where `given` are those of its arguments.
///
/// # Errors
/// If it takes no such arguments.
pub fn taken(name: &str, takes: &[Argument], optional: usize, given: &[DataType]) -> Result<Vec<DataType>> {
    if given.len() + optional >= takes.len() && given.len() <= takes.len() {
        let each = takes.iter().zip(given).map(|(argument, given)| argument.taken(given));
        if let Some(taken) = each.collect() {
            return Ok(taken);
        }
    }
    refused(name, given)
}

/// The error of arguments that function `name` does not take.
pub fn refused<T>(name: &str, given: &[DataType]) -> Result<T> {
    let mut types = String::new();
    for (nth, given) in given.iter().enumerate() {
        write!(types, "{}{}", if nth == 0 { "" } else { ", " }, sql_name(given))?;
    }
    match given {
        [] => plan_err!("{name} takes arguments"),
        _ => plan_err!("{name} does not take arguments of the types ({types}); cast them"),
    }
}

/// `array` as texts.
pub fn texts(array: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone())
}

/// `array` as whole numbers of 64 bits.
pub fn wholes(array: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// `array` as doubles.
pub fn doubles(array: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}
