//! JSON of values: `to_json`, `json_object`, `json_array`.
//!
//! Numbers are numbers, structs and maps objects, rows without names and lists are lists; dates and what else JSON has nothing for are texts. NULL within another value is null, and NULL
//! alone is NULL.
//!
//! Not here: JSON of texts that are JSON already (`casting`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, BooleanArray, Float64Array, RecordBatch, StringViewArray, StringViewBuilder,
        },
        buffer::{NullBuffer, OffsetBuffer},
        compute::cast,
        datatypes::{DataType, Field, FieldRef, Fields, Float64Type},
    },
    common::{Result, exec_err, plan_err},
};
use ogee_memory::BufferManager;

use super::{
    field, is_json,
    reading::Place,
    writing::{write_double, write_text, write_value},
};
use crate::{
    arguments::{doubles, refused, texts},
    function::{Call, Function, Shown},
    lists::is_list,
    nested_text::singles,
    times::Zone,
    type_names::sql_name,
};

/// The functions that statements may name.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    let one =
        |name: &'static str, taken| Function::of_fields(name, taken, |_| Ok(Arc::new(field(""))), to_json, memory);
    let built = |name, taken, body| {
        Function::of_fields(name, taken, |_| Ok(Arc::new(field("").with_nullable(false))), body, memory)
    };
    vec![
        one("to_json", |given| any_one("to_json", given)).zoned(),
        one("json_quote", |given| any_one("json_quote", given)).zoned(),
        one("row_to_json", |given| match given {
            [DataType::Struct(_) | DataType::Null] => Ok(given.to_vec()),
            _ => plan_err!("row_to_json takes a struct; write to_json for other values"),
        })
        .zoned(),
        one("array_to_json", |given| match given {
            [given] if is_list(given) || given.is_null() => Ok(vec![given.clone()]),
            _ => plan_err!("array_to_json takes a list; write to_json for other values"),
        })
        .zoned(),
        built("json_array", |given: &[DataType]| Ok(given.to_vec()), json_array).zoned(),
        built("json_object", pairs, json_object).zoned(),
        Function::of_fields(KEY, |given| any_one(KEY, given), |_| Ok(text_field()), keys, memory)
            .zoned()
            .shown(Shown::Argument),
        Function::of_fields(VALUE, |given| any_one(VALUE, given), |_| Ok(text_field()), values_or_null, memory)
            .zoned()
            .shown(Shown::Argument),
    ]
}

/// The function that gives a key of an object as it is written, with a colon.
pub const KEY: &str = "ogee_json_key";
/// The function that gives the JSON of a value, of NULL too.
pub const VALUE: &str = "ogee_json_value";

fn text_field() -> FieldRef {
    Arc::new(Field::new("", DataType::Utf8View, false))
}

fn any_one(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    if given.len() == 1 { Ok(given.to_vec()) } else { refused(name, given) }
}

fn pairs(given: &[DataType]) -> Result<Vec<DataType>> {
    if !given.len().is_multiple_of(2) {
        return plan_err!("json_object takes keys and values in turn: json_object('a', 1, 'b', 2)");
    }
    match given.iter().step_by(2).find(|key| !super::is_text(key)) {
        Some(key) => plan_err!("a key of json_object is a text, not {}; cast it to VARCHAR", sql_name(key)),
        None => Ok(given.to_vec()),
    }
}

/// The argument at `at` as texts that may be JSON: lists, structs and maps as what they are written as.
pub(super) fn documents(call: &mut Call<'_, '_>, at: usize) -> Result<StringViewArray> {
    match call.args[at].data_type().is_nested() {
        true => written(call, at),
        false => texts(&call.args[at]),
    }
}

/// The argument at `at` as JSON.
pub(super) fn written(call: &mut Call<'_, '_>, at: usize) -> Result<StringViewArray> {
    let values = Values::of(&call.args[at], &call.fields[at], call.zone)?;
    let mut json = StringViewBuilder::with_capacity(call.rows);
    let mut text = String::new();
    for row in 0..call.args[at].len() {
        if values.is_null(row) {
            json.append_null();
            continue;
        }
        text.clear();
        values.write(row, &mut text)?;
        call.promises.add(row, text.len() as u128)?;
        json.try_append_value(&text)?;
    }
    Ok(json.finish())
}

/// The first argument as JSON.
pub(crate) fn to_json(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    Ok(Arc::new(written(call, 0)?))
}

/// Writes each row of `batch` as an object in a line of its own. Instants are shown in `zone`.
///
/// # Errors
/// A value that has no JSON.
pub fn write_rows(batch: &RecordBatch, zone: &Zone, lines: &mut Vec<u8>) -> Result<()> {
    let schema = batch.schema();
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (array, of) in batch.columns().iter().zip(schema.fields()) {
        let values = match array.data_type() {
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Values::Texts(crate::nested_text::texts(array, zone)?)
            }
            _ => Values::of(array, of, zone)?,
        };
        let mut key = String::new();
        write_text(of.name(), &mut key);
        columns.push((key, values));
    }
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        text.clear();
        for (nth, (key, values)) in columns.iter().enumerate() {
            text.push(if nth == 0 { '{' } else { ',' });
            text.push_str(key);
            text.push(':');
            values.write(row, &mut text)?;
        }
        text.push_str(if columns.is_empty() { "{}\n" } else { "}\n" });
        lines.extend_from_slice(text.as_bytes());
    }
    Ok(())
}

/// Each row's arguments from `args`, written by `write`.
fn of_rows(call: &mut Call<'_, '_>, write: impl Fn(&[Values], usize, &mut String) -> Result<()>) -> Result<ArrayRef> {
    let values = call.args.iter().zip(call.fields).map(|(array, field)| Values::of(array, field, call.zone));
    let values = values.collect::<Result<Vec<_>>>()?;
    let mut json = StringViewBuilder::with_capacity(call.rows);
    let mut text = String::new();
    for row in 0..call.rows {
        text.clear();
        write(&values, row, &mut text)?;
        call.promises.add(row, text.len() as u128)?;
        json.try_append_value(&text)?;
    }
    Ok(Arc::new(json.finish()))
}

fn json_array(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    of_rows(call, |values, row, text| {
        text.push('[');
        for (nth, value) in values.iter().enumerate() {
            text.push_str(if nth == 0 { "" } else { "," });
            value.write(row, text)?;
        }
        text.push(']');
        Ok(())
    })
}

fn json_object(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let keys = call.args.iter().step_by(2).map(texts).collect::<Result<Vec<_>>>()?;
    of_rows(call, |values, row, text| {
        text.push('{');
        for (nth, keys) in keys.iter().enumerate() {
            text.push_str(if nth == 0 { "" } else { "," });
            if keys.is_null(row) {
                return no_key();
            }
            write_text(keys.value(row), text);
            text.push(':');
            values[2 * nth + 1].write(row, text)?;
        }
        text.push('}');
        Ok(())
    })
}

fn no_key<T>() -> Result<T> {
    exec_err!("a key of a JSON object cannot be NULL; leave such rows out, or write coalesce(key, '')")
}

fn keys(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let keys = key_texts(&call.args[0], call.zone)?;
    of_rows(call, |_, row, text| {
        if keys.is_null(row) {
            return no_key();
        }
        write_text(keys.value(row), text);
        text.push(':');
        Ok(())
    })
}

fn values_or_null(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    of_rows(call, |values, row, text| values[0].write(row, text))
}

/// Values about to be written.
enum Values {
    Null,
    Booleans(BooleanArray),
    /// As they are.
    Numbers(StringViewArray),
    Doubles(Float64Array),
    Texts(StringViewArray),
    /// In one form.
    Json(StringViewArray),
    List {
        offsets: OffsetBuffer<i32>,
        elements: Box<Self>,
        nulls: Option<NullBuffer>,
    },
    /// `names`: none for a row.
    Struct {
        names: Option<Vec<String>>,
        fields: Vec<Self>,
        nulls: Option<NullBuffer>,
    },
    Map {
        offsets: OffsetBuffer<i32>,
        keys: StringViewArray,
        values: Box<Self>,
        nulls: Option<NullBuffer>,
    },
}

/// Digits of a decimal that a double has room for.
const DOUBLE_DIGITS: u8 = 15;

impl Values {
    fn of(array: &ArrayRef, field: &Field, zone: &Zone) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Booleans(array.as_boolean().clone()),
            DataType::Dictionary(_, values) => Self::of(&cast(array, values)?, field, zone)?,
            DataType::RunEndEncoded(_, values) => Self::of(&cast(array, values.data_type())?, field, zone)?,
            given if given.is_string() => match is_json(field) {
                true => Self::Json(texts(array)?),
                false => Self::Texts(texts(array)?),
            },
            given if given.is_floating() => Self::Doubles(doubles(array)?),
            given if given.is_integer() => Self::Numbers(texts(array)?),
            DataType::Decimal32(digits, _)
            | DataType::Decimal64(digits, _)
            | DataType::Decimal128(digits, _)
            | DataType::Decimal256(digits, _) => match *digits <= DOUBLE_DIGITS {
                // From the text: no digit is lost on the way.
                true => {
                    Self::Doubles(cast(&texts_of(array)?, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
                }
                false => Self::Numbers(texts(array)?),
            },
            DataType::Struct(of) => {
                let array = array.as_struct();
                let fields = array.columns().iter().zip(of).map(|(column, field)| Self::of(column, field, zone));
                Self::Struct {
                    names: names_of(of),
                    fields: fields.collect::<Result<_>>()?,
                    nulls: array.nulls().cloned(),
                }
            }
            DataType::Map(entries, _) => {
                let map = array.as_map();
                let (offsets, from, length) = visible(map.offsets());
                let keys = key_texts(&map.keys().slice(from, length), zone)?;
                let DataType::Struct(of) = entries.data_type() else {
                    return exec_err!("entries of a map are no structs");
                };
                let values = Self::of(&map.values().slice(from, length), &of[1], zone)?;
                Self::Map { offsets, keys, values: Box::new(values), nulls: map.nulls().cloned() }
            }
            DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
                let lists = cast(array, &DataType::List(Arc::clone(of)))?;
                let lists = lists.as_list::<i32>();
                let (offsets, from, length) = visible(lists.offsets());
                let elements = Self::of(&lists.values().slice(from, length), of, zone)?;
                Self::List { offsets, elements: Box::new(elements), nulls: lists.nulls().cloned() }
            }
            _ => Self::Texts(single_texts(array, zone)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Null => true,
            Self::Booleans(values) => values.is_null(row),
            Self::Doubles(values) => values.is_null(row),
            Self::Numbers(texts) | Self::Texts(texts) | Self::Json(texts) => texts.is_null(row),
            Self::List { nulls, .. } | Self::Struct { nulls, .. } | Self::Map { nulls, .. } => {
                nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
            }
        }
    }

    /// Writes the value of `row`. Types are no deeper than statements are.
    fn write(&self, row: usize, text: &mut String) -> Result<()> {
        if self.is_null(row) {
            text.push_str("null");
            return Ok(());
        }
        match self {
            Self::Null => {}
            Self::Booleans(values) => text.push_str(if values.value(row) { "true" } else { "false" }),
            Self::Doubles(values) => write_double(values.value(row), text),
            Self::Numbers(texts) => text.push_str(texts.value(row)),
            Self::Texts(texts) => write_text(texts.value(row), text),
            Self::Json(texts) => write_value(Place::of(texts.value(row))?, text),
            Self::List { offsets, elements, .. } => {
                text.push('[');
                for (nth, element) in within(offsets, row).enumerate() {
                    text.push_str(if nth == 0 { "" } else { "," });
                    elements.write(element, text)?;
                }
                text.push(']');
            }
            Self::Struct { names, fields, .. } => {
                text.push(if names.is_some() { '{' } else { '[' });
                for (nth, field) in fields.iter().enumerate() {
                    text.push_str(if nth == 0 { "" } else { "," });
                    if let Some(names) = names {
                        text.push_str(&names[nth]);
                    }
                    field.write(row, text)?;
                }
                text.push(if names.is_some() { '}' } else { ']' });
            }
            Self::Map { offsets, keys, values, .. } => {
                text.push('{');
                for (nth, entry) in within(offsets, row).enumerate() {
                    text.push_str(if nth == 0 { "" } else { "," });
                    write_text(keys.value(entry), text);
                    text.push(':');
                    values.write(entry, text)?;
                }
                text.push('}');
            }
        }
        Ok(())
    }
}

/// `"name":` for each of `fields`; `None` for those of a row, which have the names that DataFusion gives them.
fn names_of(fields: &Fields) -> Option<Vec<String>> {
    if fields.iter().enumerate().all(|(nth, field)| *field.name() == format!("c{nth}")) {
        return None;
    }
    let name = |field: &FieldRef| {
        let mut name = String::new();
        write_text(field.name(), &mut name);
        name.push(':');
        name
    };
    Some(fields.iter().map(name).collect())
}

fn texts_of(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(Arc::new(texts(array)?))
}

/// Keys of objects: values as they are alone.
fn key_texts(array: &ArrayRef, zone: &Zone) -> Result<StringViewArray> {
    match array.data_type().is_nested() {
        true => Ok(crate::nested_text::written(array, zone)?.as_string_view().clone()),
        false => single_texts(array, zone),
    }
}

/// Values that JSON has nothing for, as they are alone.
fn single_texts(array: &ArrayRef, zone: &Zone) -> Result<StringViewArray> {
    match array.data_type() {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let bytes = cast(array, &DataType::BinaryView)?;
            Ok(bytes.as_binary_view().iter().map(|bytes| bytes.map(blob_text)).collect())
        }
        _ => singles(array, zone),
    }
}

/// Bytes that are no plain letters as `\xAA`.
fn blob_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b' '..=b'~' if !matches!(byte, b'\\' | b'\'' | b'"') => text.push(char::from(byte)),
            other => text.push_str(&format!("\\x{other:02X}")),
        }
    }
    text
}

/// `offsets` from 0 on, and where the values that they are into begin and how many there are.
fn visible(offsets: &OffsetBuffer<i32>) -> (OffsetBuffer<i32>, usize, usize) {
    let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
    (OffsetBuffer::from_lengths(offsets.lengths()), first, last - first)
}

fn within(offsets: &OffsetBuffer<i32>, row: usize) -> std::ops::Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}
