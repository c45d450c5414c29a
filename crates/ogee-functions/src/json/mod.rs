//! JSON: its type, and functions of it, as DuckDB has them.
//!
//! A value is text, and its field says that it is JSON (`marks`). Functions take any text, and read it anew each time; none
//! makes a tree of it. Lists, structs and maps are taken for the JSON that they are written as.
//!
//! Not here: operators and types in the text of statements, and where casts stand (`ogee-sql`); files (`ogee-files`).

mod access;
mod building;
mod casting;
mod changing;
mod combining;
mod extracting;
mod paths;
mod reading;
mod rows;
mod structures;
mod transforming;
mod writing;

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field},
    logical_expr::ScalarUDF,
};
use ogee_memory::BufferManager;

pub(crate) use self::{
    building::to_json,
    casting::{casts, checked},
    transforming::{Manner, values},
};
use crate::marks::{Mark, is_text, list_of};

pub use self::{
    access::JsonAccess,
    building::{KEY, VALUE, write_rows},
    casting::AS_JSON,
    extracting::{ARROW, FIELD, LONG_ARROW},
    rows::{EACH, TREE},
};

/// The field `name` of JSON.
pub fn field(name: &str) -> Field {
    Mark::Json.field(name)
}

/// Whether values of `field` are JSON.
pub fn is_json(field: &Field) -> bool {
    Mark::of(field) == Some(Mark::Json)
}

/// The functions that statements may name, and those that are written for operators and casts.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    let functions = extracting::functions(memory).into_iter().chain(building::functions(memory));
    let functions = functions.chain(casting::functions(memory)).chain(combining::functions(memory));
    let functions = functions.chain(changing::functions(memory));
    let functions = functions.chain(structures::functions(memory)).chain(transforming::functions(memory));
    functions.chain(rows::functions(memory)).map(|function| function.registered()).collect()
}

/// Whether values of the type are taken for JSON.
fn is_document(given: &DataType) -> bool {
    is_text(given) || given.is_nested() || given.is_null()
}
