//! Functions that a program gives: scalar ones over columns, aggregates with a state of their own.
//!
//! 1. What a function gives is checked: its type, and how many rows.
//! 2. Errors and panics of the program's code are errors of the statement that calls it, which name the function.
//! 3. Rows with a NULL among the arguments are not shown to a function that did not ask for them.
//!
//! Not here: by which name they are known (`session::functions`).

mod aggregate;
mod scalar;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, BooleanArray},
        buffer::NullBuffer,
        compute::{can_cast_types, cast, filter},
        datatypes::DataType,
    },
    common::plan_err,
    error::Result as PlanResult,
};
use ogee_functions::{Error, Result, type_names::sql_name};
use ogee_vector::normalize_type;

pub use aggregate::{AggregateFunction, AggregateState};
pub use scalar::ScalarFunction;

use crate::registered::panic_message;

/// Why a function of a program gives nothing.
pub type UserError = Box<dyn std::error::Error + Send + Sync>;

/// A number that no other function has: which of them are the same.
fn new_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// What `call` of function `name` gives; its errors and panics are errors of the statement.
fn called<T>(name: &str, call: impl FnOnce() -> Result<T, UserError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(given) => given.map_err(|error| Error::Execution(format!("function '{name}': {error}"))),
        Err(panic) => Err(panicked(name, &*panic)),
    }
}

fn panicked(name: &str, panic: &(dyn Any + Send)) -> Error {
    Error::Execution(format!("function '{name}' panicked: {}", panic_message(panic)))
}

/// `array` as function `name`, whose values are of type `declared`, may give it.
///
/// # Errors
/// It is of another type.
fn of_type(name: &str, array: ArrayRef, declared: &DataType) -> Result<ArrayRef> {
    if array.data_type() == declared {
        return Ok(array);
    }
    // Forms of one type.
    if normalize_type(array.data_type()) == normalize_type(declared)
        && let Ok(array) = cast(&array, declared)
    {
        return Ok(array);
    }
    let (given, declared) = (sql_name(array.data_type()), sql_name(declared));
    Err(Error::Execution(format!(
        "function '{name}' gave values of type {given}, and it was declared to give {declared}"
    )))
}

/// Which rows have no NULL in `columns`, if some have one.
fn rows_without_null(columns: &[ArrayRef]) -> Option<BooleanArray> {
    let nulls = columns
        .iter()
        .fold(None, |all: Option<NullBuffer>, column| NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref()));
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0)?;
    Some(BooleanArray::new(nulls.into_inner(), None))
}

/// The rows of `columns` that `which` says.
fn some_rows(columns: &[ArrayRef], which: &BooleanArray) -> PlanResult<Vec<ArrayRef>> {
    Ok(columns.iter().map(|column| filter(column, which)).collect::<Result<_, _>>()?)
}

/// The types in which function `name` gets arguments of types `given`, where it takes `declared`: numbers become other numbers, and forms of a type that one.
fn coerced(name: &str, given: &[DataType], declared: &[DataType]) -> PlanResult<Vec<DataType>> {
    let is_number = |data_type: &DataType| data_type.is_numeric();
    let fits = |(given, declared): (&DataType, &DataType)| {
        given == declared
            || given.is_null()
            || normalize_type(given) == normalize_type(declared)
            || is_number(given) && is_number(declared)
            || matches!((given, declared), (DataType::Date32 | DataType::Timestamp(..), DataType::Timestamp(..)))
                && can_cast_types(given, declared)
            || given.is_nested() && can_cast_types(given, declared)
    };
    if given.len() == declared.len() && given.iter().zip(declared).all(fits) {
        return Ok(declared.to_vec());
    }
    let names = |types: &[DataType]| types.iter().map(sql_name).collect::<Vec<_>>().join(", ");
    plan_err!("function '{name}' takes ({}), not ({}); cast the arguments", names(declared), names(given))
}
