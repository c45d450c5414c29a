//! Columns of values that are told, one for each of a list of things.
//!
//! Not here: which.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            ArrayRef, BooleanArray, Int32Array, Int64Array, Int64Builder, ListBuilder, MapBuilder, MapFieldNames,
            RecordBatch, StringViewArray, StringViewBuilder,
        },
        datatypes::{Field, Schema},
    },
    error::Result,
};

/// The rows of these columns, by their names.
pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect())?)
}

pub(crate) fn texts<T: AsRef<str>>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.collect::<StringViewArray>())
}

/// A text that each has.
pub(super) fn text<T>(of: &[T], value: &str) -> ArrayRef {
    texts(of.iter().map(|_| Some(value)))
}

/// No text for any.
pub(super) fn no_text<T>(of: &[T]) -> ArrayRef {
    texts(of.iter().map(|_| None::<&str>))
}

pub(super) fn numbers(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

pub(super) fn small_numbers(values: impl Iterator<Item = Option<i32>>) -> ArrayRef {
    Arc::new(values.collect::<Int32Array>())
}

pub(super) fn truths(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

/// The same truth for each.
pub(super) fn truth<T>(of: &[T], value: bool) -> ArrayRef {
    truths(of.iter().map(|_| value))
}

pub(super) fn lists<T: AsRef<str>>(values: impl Iterator<Item = Vec<T>>) -> ArrayRef {
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for texts in values {
        texts.iter().for_each(|text| lists.values().append_value(text));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

pub(super) fn number_lists(values: impl Iterator<Item = Vec<i64>>) -> ArrayRef {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for numbers in values {
        numbers.into_iter().for_each(|number| lists.values().append_value(number));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// Tags, of which nothing has any.
pub(super) fn tags<T>(of: &[T]) -> Result<ArrayRef> {
    let names = MapFieldNames { entry: "entries".to_owned(), key: "key".to_owned(), value: "value".to_owned() };
    let mut maps = MapBuilder::new(Some(names), StringViewBuilder::new(), StringViewBuilder::new());
    for _ in of {
        maps.append(true)?;
    }
    Ok(Arc::new(maps.finish()))
}
