//! JSON: its type, and functions of it, as DuckDB has them.
//!
//! A value is text, and its field says that it is JSON, by the name of Arrow's extension type ([`field`]). Functions take any text, and read it anew each time; none
//! makes a tree of it. Lists, structs and maps are taken for the JSON that they are written as.
//!
//! Not here: operators and types in the text of statements, and where casts stand (`ogee-sql`); files (`ogee-files`).

mod access;
mod building;
mod casting;
mod changing;
mod combining;
mod extracting;
mod keeping;
mod paths;
mod reading;
mod rows;
mod structures;
mod transforming;
mod writing;

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef},
    logical_expr::ScalarUDF,
};
use ogee_memory::BufferManager;

pub use self::{
    access::JsonAccess,
    building::{KEY, VALUE, write_rows},
    casting::{AS_JSON, Casts, TO_JSON, TRY_TO_JSON, has_json},
    extracting::{ARROW, FIELD, LONG_ARROW},
    rows::{EACH, TREE},
};

/// Where a field says what its values are, beyond their type.
const EXTENSION: &str = "ARROW:extension:name";
/// What the field of JSON says there.
const JSON: &str = "arrow.json";

/// The field `name` of JSON.
pub fn field(name: &str) -> Field {
    let metadata = HashMap::from([(EXTENSION.to_owned(), JSON.to_owned())]);
    Field::new(name, DataType::Utf8View, true).with_metadata(metadata)
}

/// Whether values of `field` are JSON.
pub fn is_json(field: &Field) -> bool {
    field.metadata().get(EXTENSION).is_some_and(|name| name == JSON) && is_text(field.data_type())
}

/// The functions that statements may name, and those that are written for operators and casts.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    let functions = extracting::functions(memory).into_iter().chain(building::functions(memory));
    let functions = functions.chain(casting::functions(memory)).chain(combining::functions(memory));
    let functions = functions.chain(changing::functions(memory));
    let functions = functions.chain(structures::functions(memory)).chain(transforming::functions(memory));
    functions.chain(rows::functions(memory)).map(|function| function.registered()).collect()
}

fn is_text(given: &DataType) -> bool {
    match given {
        DataType::Dictionary(_, values) => values.is_string(),
        given => given.is_string(),
    }
}

/// Whether values of the type are taken for JSON.
fn is_document(given: &DataType) -> bool {
    is_text(given) || given.is_nested() || given.is_null()
}

/// A list whose elements are as those of `of`.
fn list_of(of: &FieldRef) -> DataType {
    DataType::List(Arc::new(of.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME).with_nullable(true)))
}
