//! Casts to JSON and from it, and JSON in one form: `json`, `json_valid`, `json_pretty`.
//!
//! A text that is cast to JSON stays as it is written, if it is JSON; other values become what `to_json` makes of them. JSON that is cast to a text stays so, too; to other
//! types it is read as `json_transform` reads it, and what does not fit is an error.
//!
//! Not here: lists, structs and maps that have JSON in them (`marks`), and which casts of a plan are these (`ogee-sql`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, BooleanBuilder, StringViewArray, StringViewBuilder},
        datatypes::{DataType, Field, FieldRef},
    },
    common::Result,
};
use ogee_memory::BufferManager;

use super::{
    building::{documents, to_json},
    field, is_document, is_json,
    reading::{Place, check},
    writing::{write_pretty, write_value},
};
use crate::{
    arguments::{refused, texts},
    function::{Call, Function, Shown},
};

/// The function that a cast to JSON is.
pub const TO_JSON: &str = "ogee_to_json";
/// The function that `TRY_CAST` to JSON is.
pub const TRY_TO_JSON: &str = "ogee_try_to_json";
/// The function that takes a text for JSON, which it is.
pub const AS_JSON: &str = "ogee_as_json";
/// The function that takes JSON for a text.
pub const TEXT: &str = "ogee_json_text";
/// The functions that statements may name, and those of casts.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    let one = |given: &[DataType]| match given {
        [given] if is_document(given) => Ok(vec![given.clone()]),
        _ => refused("json", given),
    };
    let functions = vec![
        Function::of_fields("json", one, |_| Ok(json()), in_one_form, memory),
        Function::of_fields(
            "json_valid",
            one,
            |_| Ok(Arc::new(Field::new("", DataType::Boolean, true))),
            |call| {
                let documents = documents(call, 0)?;
                let mut valid = BooleanBuilder::with_capacity(documents.len());
                documents.iter().for_each(|text| valid.append_option(text.map(|text| check(text).is_ok())));
                Ok(Arc::new(valid.finish()))
            },
            memory,
        ),
        Function::of_fields("json_pretty", one, |_| Ok(text()), pretty, memory),
    ];
    functions.into_iter().chain(cast_functions(memory)).collect()
}

fn cast_functions(memory: &Arc<BufferManager>) -> [Function; 4] {
    let any = |given: &[DataType]| Ok(given.to_vec());
    [
        Function::of_fields(TO_JSON, any, |_| Ok(json()), |call| cast_to_json(call, false), memory),
        Function::of_fields(TRY_TO_JSON, any, |_| Ok(json()), |call| cast_to_json(call, true), memory),
        Function::of_fields(TEXT, any, |_| Ok(text()), |call| Ok(Arc::new(texts(&call.args[0])?)), memory),
        Function::of_fields(AS_JSON, any, |_| Ok(json()), |call| Ok(Arc::new(texts(&call.args[0])?)), memory),
    ]
    .map(|function| function.zoned().shown(Shown::Argument))
}

/// The functions that texts become JSON by, or NULL where they are none, and JSON texts.
pub(crate) fn casts(memory: &Arc<BufferManager>) -> [Function; 3] {
    let [to_json, try_to_json, text, _] = cast_functions(memory);
    [to_json, try_to_json, text]
}

fn json() -> FieldRef {
    Arc::new(field(""))
}

fn text() -> FieldRef {
    Arc::new(Field::new("", DataType::Utf8View, true))
}

/// Each document written by `write`.
fn each(call: &mut Call<'_, '_>, write: impl Fn(Place<'_>, &mut String)) -> Result<ArrayRef> {
    let documents = documents(call, 0)?;
    let mut written = StringViewBuilder::with_capacity(documents.len());
    let mut text = String::new();
    for (row, document) in documents.iter().enumerate() {
        let Some(document) = document else {
            written.append_null();
            continue;
        };
        // About as much is written as is read, but for blanks before lines.
        call.promises.add(row, document.len() as u128)?;
        text.clear();
        write(Place::of(document)?, &mut text);
        call.promises.add(row, text.len().saturating_sub(document.len()) as u128)?;
        written.try_append_value(&text)?;
    }
    Ok(Arc::new(written.finish()))
}

fn in_one_form(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    each(call, write_value)
}

fn pretty(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    each(call, write_pretty)
}

fn cast_to_json(call: &mut Call<'_, '_>, tries: bool) -> Result<ArrayRef> {
    if !super::is_text(call.args[0].data_type()) {
        return to_json(call);
    }
    let values = texts(&call.args[0])?;
    match is_json(&call.fields[0]) {
        true => Ok(Arc::new(values)),
        false => Ok(Arc::new(checked(&values, tries)?)),
    }
}

/// `values`, which are JSON; `tries`: those that are none are NULL.
pub(crate) fn checked(values: &StringViewArray, tries: bool) -> Result<StringViewArray> {
    let mut are_valid = true;
    for text in values.iter().flatten() {
        if let Err(malformed) = check(text) {
            if !tries {
                return Err(malformed.error(text));
            }
            are_valid = false;
        }
    }
    Ok(match are_valid {
        true => values.clone(),
        false => values.iter().map(|text| text.filter(|text| check(text).is_ok())).collect(),
    })
}
