//! `ENUM`: values that are checked, their places in the order of the type, and functions of types.
//!
//! Not here: where comparisons and orders are those of places (`ogee-sql`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, ListArray, MapArray, StringViewArray, StringViewBuilder, UInt8Array, UInt16Array,
            UInt32Array,
        },
        buffer::{NullBuffer, OffsetBuffer},
        compute::take,
        datatypes::{DataType, Field, FieldRef},
    },
    common::{Result, ScalarValue, exec_err, metadata::FieldMetadata, plan_err},
    logical_expr::{Expr, ReturnFieldArgs},
};
use ogee_memory::BufferManager;

use super::{Mark, enum_values};
use crate::{
    arguments::{texts, wholes},
    function::{Call, Function, Shown},
};

/// The function that gives the place of a value.
const CODE: &str = "enum_code";
/// The same for orders, where it does not show in names.
const PLACE: &str = "ogee_enum_place";
/// The function that gives the value at a place.
const VALUE: &str = "ogee_enum_value";

/// The function that brings the entries of a map into the order of its keys.
const BY_PLACE: &str = "ogee_enum_by_place";

/// The functions that statements may name, and the one of orders.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    let any = |given: &[DataType]| Ok(given.to_vec());
    let text = |_: &ReturnFieldArgs<'_>| Ok(Arc::new(Field::new("", DataType::Utf8View, true)));
    let list = |_: &ReturnFieldArgs<'_>| {
        let element = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        Ok(Arc::new(Field::new("", DataType::List(element), true)))
    };
    vec![
        place_function(memory),
        value_function(memory),
        by_place_function(memory),
        Function::of_fields(CODE, any, code_field, places, memory),
        Function::of_fields("enum_first", any, text, |call| same(call, |values| values.first().copied()), memory),
        Function::of_fields("enum_last", any, text, |call| same(call, |values| values.last().copied()), memory),
        Function::of_fields(
            "enum_range",
            any,
            list,
            |call| {
                let values = values_of(call)?;
                let ranges = vec![Some((0, values.len())); call.rows];
                Ok(lists(&values, &ranges))
            },
            memory,
        ),
        Function::of_fields("enum_range_boundary", any, list, boundaries, memory),
    ]
}

fn place_function(memory: &Arc<BufferManager>) -> Function {
    let any = |given: &[DataType]| Ok(given.to_vec());
    Function::of_fields(PLACE, any, code_field, places, memory).shown(Shown::Argument)
}

/// The place of `expr`, a value of the `ENUM` that `field` is of, in the order of its type.
///
/// # Errors
/// If there is no NULL of the type.
pub(super) fn place(expr: Expr, field: &Field, memory: &Arc<BufferManager>) -> Result<Expr> {
    Ok(place_function(memory).call(vec![expr, null(field)?]))
}

/// The value at the place `expr`, in the `ENUM` that `field` is of.
///
/// # Errors
/// If there is no NULL of the type.
pub(super) fn value_at(expr: Expr, field: &Field, memory: &Arc<BufferManager>) -> Result<Expr> {
    Ok(value_function(memory).call(vec![expr, null(field)?]))
}

/// The map `expr`, whose keys are values of the `ENUM` that `field` is of, with its entries in the order of the type.
///
/// # Errors
/// If there is no NULL of the type.
pub(super) fn by_place(expr: Expr, field: &Field, memory: &Arc<BufferManager>) -> Result<Expr> {
    Ok(by_place_function(memory).call(vec![expr, null(field)?]))
}

/// NULL of the type of `field`, with its values.
fn null(field: &Field) -> Result<Expr> {
    let metadata = FieldMetadata::from(field.metadata().clone());
    Ok(Expr::Literal(ScalarValue::try_from(field.data_type())?, Some(metadata)))
}

fn value_function(memory: &Arc<BufferManager>) -> Function {
    let any = |given: &[DataType]| Ok(given.to_vec());
    let gives = |args: &ReturnFieldArgs<'_>| Ok(Arc::new(type_of(args.arg_fields)?.clone().with_nullable(true)));
    let body = |call: &mut Call<'_, '_>| {
        let places = wholes(&call.args[0])?;
        let values = values_of(call)?;
        let value = |place: i64| usize::try_from(place).ok().and_then(|place| values.get(place).copied());
        let found: StringViewArray = places.iter().map(|place| place.and_then(value)).collect();
        Ok(Arc::new(found) as ArrayRef)
    };
    Function::of_fields(VALUE, any, gives, body, memory).shown(Shown::Argument)
}

fn by_place_function(memory: &Arc<BufferManager>) -> Function {
    let any = |given: &[DataType]| Ok(given.to_vec());
    let gives = |args: &ReturnFieldArgs<'_>| Ok(Arc::clone(&args.arg_fields[0]));
    let body = |call: &mut Call<'_, '_>| {
        let Some(maps) = call.args[0].as_map_opt() else { return exec_err!("{BY_PLACE} takes maps") };
        let keys = texts(maps.keys())?;
        let place = places_of(&values_of(call)?);
        let place = |entry: &u32| keys.is_valid(*entry as usize).then(|| place.get(keys.value(*entry as usize)));
        let mut entries: Vec<u32> = Vec::with_capacity(keys.len());
        for ends in maps.value_offsets().windows(2) {
            let begin = entries.len();
            entries.extend(ends[0] as u32..ends[1] as u32);
            entries[begin..].sort_by_key(place);
        }
        let entries = take(maps.entries(), &UInt32Array::from(entries), None)?;
        let offsets =
            OffsetBuffer::from_lengths(maps.value_offsets().windows(2).map(|ends| (ends[1] - ends[0]) as usize));
        let DataType::Map(field, is_sorted) = maps.data_type() else { return exec_err!("{BY_PLACE} takes maps") };
        let entries = entries.as_struct().clone();
        Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, maps.nulls().cloned(), *is_sorted)?)
            as ArrayRef)
    };
    Function::of_fields(BY_PLACE, any, gives, body, memory).shown(Shown::Argument)
}

/// The type of the first argument that has one.
fn type_of(fields: &[FieldRef]) -> Result<&Field> {
    match fields.iter().find(|field| Mark::of(field) == Some(Mark::Enum)) {
        Some(field) => Ok(field),
        None => plan_err!("this function takes values of an ENUM"),
    }
}

fn values_of<'c>(call: &'c Call<'_, '_>) -> Result<Vec<&'c str>> {
    Ok(enum_values(type_of(call.fields)?))
}

/// Places are numbers as small as DuckDB's.
fn code_field(args: &ReturnFieldArgs<'_>) -> Result<FieldRef> {
    let count = enum_values(type_of(args.arg_fields)?).len();
    let data_type = match count {
        0..=0xff => DataType::UInt8,
        0x100..=0xffff => DataType::UInt16,
        _ => DataType::UInt32,
    };
    Ok(Arc::new(Field::new("", data_type, true)))
}

fn places_of<'v>(values: &[&'v str]) -> HashMap<&'v str, u32> {
    values.iter().zip(0..).map(|(value, at)| (*value, at)).collect()
}

fn places(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let given = texts(&call.args[0])?;
    let values = values_of(call)?;
    let place = places_of(&values);
    let places = given.iter().map(|value| value.and_then(|value| place.get(value).copied()));
    Ok(match call.returns.data_type() {
        DataType::UInt8 => Arc::new(places.map(|at| at.map(|at| at as u8)).collect::<UInt8Array>()),
        DataType::UInt16 => Arc::new(places.map(|at| at.map(|at| at as u16)).collect::<UInt16Array>()),
        _ => Arc::new(places.collect::<UInt32Array>()),
    })
}

/// One value of the type for all rows.
fn same(call: &mut Call<'_, '_>, pick: impl for<'v> Fn(&[&'v str]) -> Option<&'v str>) -> Result<ArrayRef> {
    let values = values_of(call)?;
    let picked = pick(&values);
    let all: StringViewArray = (0..call.rows).map(|_| picked).collect();
    Ok(Arc::new(all))
}

/// The values from one to another in each row, or NULL.
fn lists(values: &[&str], ranges: &[Option<(usize, usize)>]) -> ArrayRef {
    let mut elements = StringViewBuilder::new();
    let mut lengths = Vec::with_capacity(ranges.len());
    for range in ranges {
        let picked = range.and_then(|(from, to)| values.get(from..to)).unwrap_or_default();
        picked.iter().for_each(|value| elements.append_value(value));
        lengths.push(picked.len());
    }
    let nulls = NullBuffer::from(ranges.iter().map(Option::is_some).collect::<Vec<_>>());
    let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), Arc::new(elements.finish()), Some(nulls)))
}

/// The values between two, of which one may be NULL.
fn boundaries(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    if call.args.len() != 2 {
        return exec_err!("enum_range_boundary takes two values of an ENUM, or one and NULL");
    }
    let sides = [texts(&call.args[0])?, texts(&call.args[1])?];
    let values = values_of(call)?;
    let place = |text: &str| values.iter().position(|value| *value == text);
    let ranges: Vec<_> = (0..call.rows)
        .map(|row| {
            let side = |of: &StringViewArray| of.is_valid(row).then(|| place(of.value(row))).flatten();
            let (from, to) = (side(&sides[0]), side(&sides[1]));
            let end = to.map_or(values.len(), |to| to + 1);
            Some((from.unwrap_or(0).min(end), end))
        })
        .collect();
    Ok(lists(&values, &ranges))
}

/// `given`, if all are of the values. `tries`: those that are none are NULL.
pub(super) fn checked(given: &StringViewArray, values: &[&str], tries: bool) -> Result<StringViewArray> {
    let known: std::collections::HashSet<&str> = values.iter().copied().collect();
    match given.iter().flatten().find(|value| !known.contains(value)) {
        None => Ok(given.clone()),
        Some(_) if tries => Ok(given.iter().map(|value| value.filter(|value| known.contains(value))).collect()),
        Some(value) => {
            let mut name = String::new();
            for (nth, value) in values.iter().take(20).enumerate() {
                name.push_str(if nth == 0 { "" } else { ", " });
                name.push_str(&format!("'{}'", value.replace('\'', "''")));
            }
            name.push_str(if values.len() > 20 { ", .." } else { "" });
            exec_err!("'{value}' is no value of ENUM({name}); TRY_CAST gives NULL in its place")
        }
    }
}
