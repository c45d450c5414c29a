//! The order of a list's elements as the places that they would be taken from, and lists side by side: `list_grade_up([3, 1, 2])`, `list_zip([1, 2], ['a', 'b'])`.
//!
//! Not here: lists in order (`array_sort`), which DataFusion has.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, StructArray, UInt32Array, make_comparator,
        },
        buffer::{NullBuffer, OffsetBuffer},
        compute::{SortOptions, take},
        datatypes::{DataType, Field, Fields},
    },
    common::{Result, exec_err},
    logical_expr::ScalarUDF,
};
use ogee_vector::canonical_floats;

use crate::{
    arguments::{refused, texts},
    function::Function,
    times::Zone,
};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    let functions = [
        Function::of(GRADE_UP, graded, |_| Ok(list_of(DataType::Int64)), grade_up)
            .also(&["array_grade_up", "grade_up"]),
        Function::of(ZIP, zipped, zip_type, zip).also(&["array_zip"]),
    ];
    functions.into_iter().map(Function::registered).collect()
}

const GRADE_UP: &str = "list_grade_up";
const ZIP: &str = "list_zip";

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// The type of a list in its usual form.
fn usual(given: &DataType) -> Option<DataType> {
    match given {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            Some(DataType::List(Arc::new(of.as_ref().clone().with_nullable(true))))
        }
        DataType::Null => Some(list_of(DataType::Null)),
        _ => None,
    }
}

fn graded(given: &[DataType]) -> Result<Vec<DataType>> {
    let [list, orders @ ..] = given else { return refused(GRADE_UP, given) };
    let are_texts = orders.iter().all(|order| order.is_string() || order.is_null());
    match usual(list) {
        Some(list) if orders.len() <= 2 && are_texts => {
            Ok(std::iter::once(list).chain(orders.iter().map(|_| DataType::Utf8View)).collect())
        }
        _ => refused(GRADE_UP, given),
    }
}

/// Where the elements of each list are that come first, second and so on.
fn grade_up(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let lists = args[0].as_list::<i32>();
    let orders = args[1..].iter().map(texts).collect::<Result<Vec<_>>>()?;
    let values = canonical_floats(lists.values());
    // In each of the orders that there are.
    let comparators = [(false, false), (false, true), (true, false), (true, true)]
        .map(|(descending, nulls_first)| make_comparator(&values, &values, SortOptions { descending, nulls_first }));
    let (mut places, mut lengths) = (Vec::with_capacity(values.len()), Vec::with_capacity(lists.len()));
    for row in 0..lists.len() {
        if lists.is_null(row) {
            lengths.push(0);
            continue;
        }
        let mut which = 0;
        for (orders, (other, usual), bit) in
            orders.iter().zip([("DESC", "ASC"), ("NULLS FIRST", "NULLS LAST")]).zip([2, 1]).map(|((a, b), c)| (a, b, c))
        {
            let order = if orders.is_valid(row) { orders.value(row) } else { "NULL" };
            if order.eq_ignore_ascii_case(other) {
                which |= bit;
            } else if !order.eq_ignore_ascii_case(usual) {
                return exec_err!("{GRADE_UP} takes '{usual}' or '{other}', not '{order}'");
            }
        }
        let compare = match &comparators[which] {
            Ok(compare) => compare,
            Err(_) => return exec_err!("{GRADE_UP} cannot order elements of type {}", values.data_type()),
        };
        let from = lists.value_offsets()[row] as usize;
        let first = places.len();
        places.extend((from..from + lists.value_length(row) as usize).map(|at| at as i64));
        places[first..].sort_by(|&a, &b| compare(a as usize, b as usize));
        places[first..].iter_mut().for_each(|place| *place += 1 - from as i64);
        lengths.push(places.len() - first);
    }
    let field = Arc::new(Field::new_list_field(DataType::Int64, true));
    let places: ArrayRef = Arc::new(Int64Array::from(places));
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), places, lists.nulls().cloned())?))
}

/// Lists, and whether they end with the shortest.
fn zipped(given: &[DataType]) -> Result<Vec<DataType>> {
    let (lists, ends) = match given {
        [lists @ .., ends @ DataType::Boolean] if !lists.is_empty() => (lists, Some(ends.clone())),
        lists => (lists, None),
    };
    let types: Option<Vec<DataType>> = lists.iter().map(usual).collect();
    match types.filter(|types| !types.is_empty()) {
        Some(types) => Ok(types.into_iter().chain(ends).collect()),
        None => refused(ZIP, given),
    }
}

/// Rows without names of the elements of `lists`.
fn rows_of(lists: &[DataType]) -> Fields {
    let elements = lists.iter().filter_map(|list| match list {
        DataType::List(of) => Some(of),
        _ => None,
    });
    let named =
        elements.enumerate().map(|(nth, of)| of.as_ref().clone().with_name(format!("c{nth}")).with_nullable(true));
    named.collect()
}

fn zip_type(args: &[DataType]) -> Result<DataType> {
    Ok(list_of(DataType::Struct(rows_of(args))))
}

fn zip(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|arg| arg.data_type().clone()).collect();
    let ends: Option<&BooleanArray> = args.last().and_then(|arg| arg.as_boolean_opt());
    let lists: Vec<&ListArray> = args.iter().filter_map(|arg| arg.as_list_opt::<i32>()).collect();
    // A list that is NULL has no elements.
    let length = |list: &ListArray, row: usize| if list.is_valid(row) { list.value_length(row) as usize } else { 0 };
    let rows = args[0].len();
    let lengths: Vec<usize> = (0..rows)
        .map(|row| {
            let each = lists.iter().map(|list| length(list, row));
            let ends = ends.is_some_and(|ends| ends.is_valid(row) && ends.value(row));
            if ends { each.min() } else { each.max() }.unwrap_or(0)
        })
        .collect();
    let total: usize = lengths.iter().sum();
    if total > i32::MAX as usize {
        return exec_err!("{ZIP} would make lists of more than {} elements", i32::MAX);
    }
    let mut columns = Vec::with_capacity(lists.len());
    for list in &lists {
        let mut places = UInt32Array::builder(total);
        for (row, &wanted) in lengths.iter().enumerate() {
            let from = list.value_offsets()[row] as u32;
            let there = length(list, row).min(wanted);
            places.extend((0..there as u32).map(|nth| Some(from + nth)));
            places.append_nulls(wanted - there);
        }
        columns.push(take(list.values(), &places.finish(), None)?);
    }
    let fields = rows_of(&types);
    let field = Arc::new(Field::new_list_field(DataType::Struct(fields.clone()), true));
    let elements = StructArray::try_new_with_length(fields, columns, None::<NullBuffer>, total)?;
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), Arc::new(elements), None)?))
}
