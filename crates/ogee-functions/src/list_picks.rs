//! Elements of a list that another list picks: `list_where([1, 2, 3], [true, false, true])`, `list_select([1, 2, 3], [3, 1])`.
//!
//! Not here: one element, and slices.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt32Array},
        buffer::{NullBuffer, OffsetBuffer},
        compute::take,
        datatypes::{DataType, Field, Int64Type},
    },
    common::{Result, exec_err},
    logical_expr::ScalarUDF,
};

use crate::{arguments::refused, function::Function, lists::is_list, times::Zone};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    let functions = [
        Function::of(
            "list_where",
            |given| list_and("list_where", given, DataType::Boolean),
            |args| Ok(args[0].clone()),
            |args, _: &Zone| picked(args, where_true),
        )
        .also(&["array_where"]),
        Function::of(
            "list_select",
            |given| list_and("list_select", given, DataType::Int64),
            |args| Ok(args[0].clone()),
            |args, _: &Zone| picked(args, at_places),
        )
        .also(&["array_select"]),
    ];
    functions.into_iter().map(Function::registered).collect()
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

fn list_and(name: &str, given: &[DataType], picks: DataType) -> Result<Vec<DataType>> {
    let [list, other] = given else { return refused(name, given) };
    let of_list = match list {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            list_of(element.data_type().clone())
        }
        DataType::Null => list_of(DataType::Null),
        _ => return refused(name, given),
    };
    let fits = match other {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            let of = of.data_type();
            of.is_null() || *of == picks || picks == DataType::Int64 && of.is_integer()
        }
        other => other.is_null(),
    };
    if !fits || !(is_list(list) || list.is_null()) {
        return refused(name, given);
    }
    Ok(vec![of_list, list_of(picks)])
}

/// The elements of each list at the places that `places` gives, counted from 0, of how many there are and a list of picks.
fn picked(args: &[ArrayRef], places: fn(usize, &ArrayRef) -> Vec<Option<usize>>) -> Result<ArrayRef> {
    let (lists, picks) = (args[0].as_list::<i32>(), args[1].as_list::<i32>());
    let nulls = NullBuffer::union(lists.nulls(), picks.nulls());
    let (mut indices, mut lengths) = (Vec::new(), Vec::with_capacity(lists.len()));
    for row in 0..lists.len() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            lengths.push(0);
            continue;
        }
        let picks = picks.value(row);
        if picks.logical_null_count() > 0 {
            return exec_err!("the list that picks elements has a NULL");
        }
        let from = lists.value_offsets()[row] as u32;
        let length = lists.value_length(row) as usize;
        let places = places(length, &picks);
        lengths.push(places.len());
        let index = |place: Option<usize>| place.filter(|place| *place < length).map(|place| from + place as u32);
        indices.extend(places.into_iter().map(index));
    }
    let elements = take(lists.values(), &UInt32Array::from(indices), None)?;
    let DataType::List(field) = lists.data_type() else { return exec_err!("{} is no list", lists.data_type()) };
    let field = Arc::new(field.as_ref().clone().with_nullable(true));
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), elements, nulls)?))
}

fn where_true(_: usize, picks: &ArrayRef) -> Vec<Option<usize>> {
    let picks: &BooleanArray = picks.as_boolean();
    picks.values().set_indices().map(Some).collect()
}

/// What is at no place of the list is NULL.
fn at_places(length: usize, picks: &ArrayRef) -> Vec<Option<usize>> {
    let picks: &Int64Array = picks.as_primitive::<Int64Type>();
    let place = |pick: &i64| usize::try_from(*pick).ok().and_then(|pick| pick.checked_sub(1)).filter(|at| *at < length);
    picks.values().iter().map(place).collect()
}
