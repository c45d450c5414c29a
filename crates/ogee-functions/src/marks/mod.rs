//! Types that are text with a mark: JSON, `UUID`, `ENUM` and `BIT`.
//!
//! A value is text, and its field says what that is by the name of an extension type of Arrow's. Where a value comes from elsewhere it is checked, and written in one
//! form, so that equal values are equal texts: a UUID has small letters and dashes, bits are zeros and ones. The field of an `ENUM` has its values, too, in their order.
//!
//! Not here: what is done with JSON (`json`), and where casts stand in a plan (`ogee-sql`).

pub mod bits;
pub(crate) mod casting;
mod enums;
mod keeping;
mod leaves;
mod reading;
pub(crate) mod uuids;

use std::{collections::HashMap, fmt::Write, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields},
    logical_expr::ScalarUDF,
};
use ogee_memory::BufferManager;

pub(crate) use self::keeping::field_of;
pub use self::{
    casting::{Casts, of_texts},
    keeping::CHOOSING_AGGREGATES,
};
use crate::exported;

/// Where a field says what its values are, beyond their type.
const EXTENSION: &str = "ARROW:extension:name";
/// Where it says more of them.
const MORE: &str = "ARROW:extension:metadata";

/// What marked text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A document.
    Json,
    /// 128 bits as `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    Uuid,
    /// Zeros and ones.
    Bit,
    /// One of the values of a type.
    Enum,
}

impl Mark {
    /// What the values of `field` are, if they are marked text.
    pub fn of(field: &Field) -> Option<Self> {
        let name = field.metadata().get(EXTENSION)?;
        let mark = [Self::Json, Self::Uuid, Self::Bit, Self::Enum].into_iter().find(|mark| mark.extension() == name)?;
        is_text(field.data_type()).then_some(mark)
    }

    /// The name in the metadata. Others know JSON by theirs; that of a UUID is of 16 bytes to them.
    fn extension(self) -> &'static str {
        match self {
            Self::Json => "arrow.json",
            Self::Uuid => "ogee.uuid",
            Self::Bit => "ogee.bit",
            Self::Enum => "ogee.enum",
        }
    }

    /// A field of values with this mark.
    pub fn field(self, name: &str) -> Field {
        let metadata = HashMap::from([(EXTENSION.to_owned(), self.extension().to_owned())]);
        Field::new(name, DataType::Utf8View, true).with_metadata(metadata)
    }
}

/// The field of an `ENUM` of `values`.
pub fn enum_field(values: &[String]) -> Field {
    let field = Mark::Enum.field("");
    let mut metadata = field.metadata().clone();
    metadata.insert(MORE.to_owned(), values.iter().fold(String::new(), |text, value| text + value + "\0"));
    field.with_metadata(metadata)
}

/// The values of the `ENUM` that `field` is of, in their order; none if it is of no such type.
pub fn enum_values(field: &Field) -> Vec<&str> {
    match (Mark::of(field), field.metadata().get(MORE)) {
        (Some(Mark::Enum), Some(values)) => values.split_terminator('\0').collect(),
        _ => Vec::new(),
    }
}

/// Whether values of both fields are the same kind of marked text, or both are plain.
pub fn is_same(left: &Field, right: &Field) -> bool {
    Mark::of(left) == Mark::of(right)
        && (Mark::of(left) != Some(Mark::Enum) || left.metadata().get(MORE) == right.metadata().get(MORE))
}

/// Whether values of `field` are marked text, or have some within.
pub fn has_mark(field: &Field) -> bool {
    Mark::of(field).is_some()
        || match field.data_type() {
            DataType::List(of)
            | DataType::LargeList(of)
            | DataType::FixedSizeList(of, _)
            | DataType::ListView(of)
            | DataType::LargeListView(of)
            | DataType::Map(of, _) => has_mark(of),
            DataType::Struct(fields) => fields.iter().any(|field| has_mark(field)),
            _ => false,
        }
}

/// Whether values of `field` have those of an `ENUM` within, but are none.
pub fn has_enum_within(field: &Field) -> bool {
    let has = |field: &Field| Mark::of(field) == Some(Mark::Enum) || has_enum_within(field);
    match field.data_type() {
        DataType::List(of)
        | DataType::LargeList(of)
        | DataType::FixedSizeList(of, _)
        | DataType::ListView(of)
        | DataType::LargeListView(of)
        | DataType::Map(of, _) => has(of),
        DataType::Struct(fields) => fields.iter().any(|field| has(field)),
        _ => false,
    }
}

/// Whether values of both types have the same marks at the same places.
pub fn is_alike(left: &Field, right: &Field) -> bool {
    let all_alike = |left: &Fields, right: &Fields| {
        left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_alike(left, right))
    };
    is_same(left, right)
        && match (left.data_type(), right.data_type()) {
            (DataType::List(left), DataType::List(right))
            | (DataType::LargeList(left), DataType::LargeList(right))
            | (DataType::FixedSizeList(left, _), DataType::FixedSizeList(right, _))
            | (DataType::Map(left, _), DataType::Map(right, _)) => is_alike(left, right),
            (DataType::Struct(left), DataType::Struct(right)) => all_alike(left, right),
            _ => true,
        }
}

/// Writes the name that SQL has for the type of `field`, if that is marked text, or a state of an aggregate. Gives whether it is.
pub(crate) fn write_name(field: &Field, name: &mut String) -> Result<bool, std::fmt::Error> {
    match Mark::of(field) {
        None if exported::is_state(field) => name.push_str("AGGREGATE_STATE"),
        None => return Ok(false),
        Some(Mark::Json) => name.push_str("JSON"),
        Some(Mark::Uuid) => name.push_str("UUID"),
        Some(Mark::Bit) => name.push_str("BIT"),
        Some(Mark::Enum) => {
            name.push_str("ENUM(");
            for (nth, value) in enum_values(field).into_iter().enumerate() {
                write!(name, "{}'{}'", if nth == 0 { "" } else { ", " }, value.replace('\'', "''"))?;
            }
            name.push(')');
        }
    }
    Ok(true)
}

/// The functions that statements may name, and those of casts.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    let functions = casting::functions(memory).into_iter().chain(uuids::functions(memory));
    let functions = functions.chain(enums::functions(memory)).chain(bits::functions(memory));
    functions.map(|function| function.registered()).collect()
}

/// A list whose elements are as those of `of`.
pub(crate) fn list_of(of: &FieldRef) -> DataType {
    DataType::List(Arc::new(of.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME).with_nullable(true)))
}

pub(crate) fn is_text(given: &DataType) -> bool {
    match given {
        DataType::Dictionary(_, values) => values.is_string(),
        given => given.is_string(),
    }
}
