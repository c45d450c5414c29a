//! Casts to JSON and from it, and JSON in one form: `json`, `json_valid`, `json_pretty`.
//!
//! A text that is cast to JSON stays as it is written, if it is JSON; other values become what `to_json` makes of them. JSON that is cast to a text stays so, too; to other
//! types it is read as `json_transform` reads it, and what does not fit is an error. Lists, structs and maps that have JSON in them are cast part by part.
//!
//! Not here: which casts of a plan are these (`ogee-sql`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, BooleanBuilder, FixedSizeListArray, ListArray, MapArray, StringViewArray,
            StringViewBuilder, StructArray,
        },
        compute::{CastOptions, cast, cast_with_options},
        datatypes::{DataType, Field, FieldRef},
    },
    common::{ExprSchema, Result, ScalarValue, exec_err, metadata::FieldMetadata, plan_err},
    logical_expr::{Expr, ExprSchemable, ReturnFieldArgs, ScalarUDF, expr::ScalarFunction},
};
use ogee_memory::BufferManager;

use super::{
    building::{documents, to_json},
    field, is_document, is_json,
    keeping::kept,
    reading::{Place, check},
    transforming::{Manner, values},
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
/// The function that a cast is of which the value or the type has JSON in it: of the value, and NULL of the type.
pub const FROM_JSON: &str = "ogee_from_json";
/// [`FROM_JSON`] for `TRY_CAST`.
pub const TRY_FROM_JSON: &str = "ogee_try_from_json";

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

fn cast_functions(memory: &Arc<BufferManager>) -> [Function; 6] {
    let any = |given: &[DataType]| Ok(given.to_vec());
    [
        Function::of_fields(TO_JSON, any, |_| Ok(json()), |call| cast_to_json(call, false), memory),
        Function::of_fields(TRY_TO_JSON, any, |_| Ok(json()), |call| cast_to_json(call, true), memory),
        Function::of_fields(AS_JSON, any, |_| Ok(json()), |call| Ok(Arc::new(texts(&call.args[0])?)), memory),
        Function::of_fields(TEXT, any, |_| Ok(text()), |call| Ok(Arc::new(texts(&call.args[0])?)), memory),
        Function::of_fields(FROM_JSON, any, second, |call| cast_from_json(call, Manner::Cast), memory),
        Function::of_fields(TRY_FROM_JSON, any, second, |call| cast_from_json(call, Manner::Lenient), memory),
    ]
    .map(|function| function.zoned().shown(Shown::Argument))
}

fn json() -> FieldRef {
    Arc::new(field(""))
}

fn text() -> FieldRef {
    Arc::new(Field::new("", DataType::Utf8View, true))
}

/// The field of the second argument, a NULL of the type that is wanted.
fn second(args: &ReturnFieldArgs<'_>) -> Result<FieldRef> {
    match args.arg_fields {
        [_, wanted] => Ok(Arc::new(wanted.as_ref().clone().with_nullable(true))),
        _ => plan_err!("a cast of JSON has a value and a type"),
    }
}

/// Whether values of `field` are JSON, or have JSON within.
pub fn has_json(field: &Field) -> bool {
    is_json(field)
        || match field.data_type() {
            DataType::List(of)
            | DataType::LargeList(of)
            | DataType::FixedSizeList(of, _)
            | DataType::ListView(of)
            | DataType::LargeListView(of)
            | DataType::Map(of, _) => has_json(of),
            DataType::Struct(fields) => fields.iter().any(|field| has_json(field)),
            _ => false,
        }
}

/// Casts to JSON and from it, for plans.
#[derive(Clone, Debug)]
pub struct Casts {
    /// In the order of [`cast_functions`].
    functions: [Arc<ScalarUDF>; 6],
}

impl Casts {
    /// Casts that are promised memory of `memory`.
    pub fn new(memory: &Arc<BufferManager>) -> Self {
        Self { functions: cast_functions(memory).map(|function| Arc::new(function.registered())) }
    }

    fn call(&self, function: usize, args: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.functions[function]), args))
    }

    /// `expr`, of field `from`, as values of `to`; `None` where neither has anything to do with JSON. `tries`: what is none is NULL.
    ///
    /// # Errors
    /// If there is no NULL of the type.
    pub fn cast(&self, expr: &Expr, from: &Field, to: &Field, tries: bool) -> Result<Option<Expr>> {
        if !has_json(from) && !has_json(to) {
            return Ok(None);
        }
        let expr = expr.clone();
        Ok(Some(if is_json(to) {
            self.call(usize::from(tries), vec![expr])
        } else if is_json(from) && to.data_type().is_string() {
            self.call(3, vec![expr])
        } else {
            let metadata = (!to.metadata().is_empty()).then(|| FieldMetadata::from(to.metadata().clone()));
            let null = Expr::Literal(ScalarValue::try_from(to.data_type())?, metadata);
            self.call(4 + usize::from(tries), vec![expr, null])
        }))
    }
}

impl Casts {
    /// `expr`, of which `schema` has the columns, as the JSON that it keeps; `None` where that is known, or nothing.
    ///
    /// # Errors
    /// If there is no NULL of the type.
    pub fn kept(&self, expr: &Expr, schema: &dyn ExprSchema) -> Result<Option<Expr>> {
        let Some(to) = kept(expr, schema) else { return Ok(None) };
        match expr.to_field(schema) {
            Ok((_, from)) if !has_json(&from) => self.cast(expr, &from, &to, false),
            _ => Ok(None),
        }
    }
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
fn checked(values: &StringViewArray, tries: bool) -> Result<StringViewArray> {
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

fn cast_from_json(call: &mut Call<'_, '_>, manner: Manner) -> Result<ArrayRef> {
    let (array, from, to) = (Arc::clone(&call.args[0]), Arc::clone(&call.fields[0]), Arc::clone(call.returns));
    parts(&array, &from, &to, manner, call)
}

/// The values of `array`, of field `from`, as those of `to`. Types are no deeper than statements are.
fn parts(array: &ArrayRef, from: &Field, to: &FieldRef, manner: Manner, call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let is_lenient = manner == Manner::Lenient;
    if is_json(to) {
        if is_json(from) {
            return Ok(Arc::new(texts(array)?));
        }
        if super::is_text(array.data_type()) || array.data_type().is_null() {
            return Ok(Arc::new(checked(&texts(array)?, is_lenient)?));
        }
        let fields = [Arc::new(from.clone())];
        let arrays = [Arc::clone(array)];
        let none = call.promises.of_none();
        let promises = std::mem::replace(&mut call.promises, none);
        let mut inner =
            Call { args: &arrays, fields: &fields, returns: to, zone: call.zone, promises, rows: array.len() };
        let json = to_json(&mut inner);
        call.promises = inner.promises;
        return json;
    }
    if is_json(from) {
        return match to.data_type().is_string() {
            true => Ok(cast(&texts(array)?, to.data_type())?),
            false => values(&texts(array)?, to, manner, call),
        };
    }
    match (array.data_type(), to.data_type()) {
        (DataType::List(from), DataType::List(of)) => {
            let lists = array.as_list::<i32>();
            let values = parts(lists.values(), from, of, manner, call)?;
            Ok(Arc::new(ListArray::try_new(Arc::clone(of), lists.offsets().clone(), values, lists.nulls().cloned())?))
        }
        (DataType::FixedSizeList(from, length), DataType::FixedSizeList(of, wanted)) if length == wanted => {
            let lists = array.as_fixed_size_list();
            let values = parts(lists.values(), from, of, manner, call)?;
            Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(of), *length, values, lists.nulls().cloned())?))
        }
        (DataType::Struct(from), DataType::Struct(of)) if from.len() == of.len() => {
            let structs = array.as_struct();
            let have_names = of.iter().all(|field| from.iter().any(|from| from.name() == field.name()));
            let mut columns = Vec::with_capacity(of.len());
            for (nth, field) in of.iter().enumerate() {
                let at = if have_names { from.iter().position(|from| from.name() == field.name()) } else { Some(nth) };
                let at = at.unwrap_or(nth);
                columns.push(parts(structs.column(at), &from[at], field, manner, call)?);
            }
            let nulls = structs.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(of.clone(), columns, nulls, array.len())?))
        }
        (DataType::Map(from, _), DataType::Map(of, sorted)) => {
            let (DataType::Struct(from), DataType::Struct(fields)) = (from.data_type(), of.data_type()) else {
                return exec_err!("entries of a map are no structs");
            };
            let map = array.as_map();
            let keys = parts(map.keys(), &from[0], &fields[0], manner, call)?;
            let values = parts(map.values(), &from[1], &fields[1], manner, call)?;
            let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
            let nulls = map.nulls().cloned();
            Ok(Arc::new(MapArray::try_new(Arc::clone(of), map.offsets().clone(), entries, nulls, *sorted)?))
        }
        (_, to) => {
            let options = CastOptions { safe: is_lenient, ..CastOptions::default() };
            Ok(cast_with_options(array, to, &options)?)
        }
    }
}
