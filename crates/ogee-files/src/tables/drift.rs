//! Parquet files of one table whose columns have other types: each column has a type that takes the values of all files.
//!
//! Not here: reading, which casts what a file has to what the table has (`ogee-scan`).

use std::{slice, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef},
    catalog::Session,
    datasource::file_format::FileFormat,
    error::Result,
    logical_expr::type_coercion::binary::type_union_coercion,
    object_store::{ObjectMeta, ObjectStore},
};
use ogee_functions::{Error, type_names::sql_name};

/// The columns of `files`.
///
/// # Errors
/// Those of reading them, and where no type takes the values of all files.
pub(super) async fn columns(
    format: &dyn FileFormat,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    let all = format.infer_schema(state, store, files).await;
    if all.is_ok() || files.len() < 2 {
        return all;
    }
    let mut columns: Vec<FieldRef> = Vec::new();
    for file in files {
        let of_file = format.infer_schema(state, store, slice::from_ref(file)).await?;
        for field in of_file.fields() {
            let Some(known) = columns.iter_mut().find(|known| known.name() == field.name()) else {
                columns.push(Arc::clone(field));
                continue;
            };
            let Some(both) = common_field(known, field) else {
                let [before, here] = [&*known, field].map(|field| sql_name(field.data_type()));
                return Err(Error::Source(format!(
                    "'/{}' has column '{}' as {here}, and files before it as {before}, of which no type takes both; read them apart",
                    file.location,
                    field.name(),
                ))
                .into());
            };
            *known = both;
        }
    }
    Ok(Arc::new(Schema::new(columns)))
}

/// A field that takes the values of both.
fn common_field(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    let both = common_type(one.data_type(), other.data_type())?;
    let field = Field::new(one.name(), both, one.is_nullable() || other.is_nullable());
    // What is said of values holds where it is said of all.
    let said = if one.metadata() == other.metadata() { one.metadata().clone() } else { Default::default() };
    Some(Arc::new(field.with_metadata(said)))
}

/// A type that takes the values of both.
fn common_type(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Date32, FixedSizeList, LargeList, List, Map, Null, Struct, Timestamp, Utf8View};
    let is_text = |data_type: &DataType| data_type.is_string();
    match (one, other) {
        (one, other) if one == other => Some(one.clone()),
        (Null, other) | (other, Null) => Some(other.clone()),
        (Struct(fields), Struct(others)) => common_fields(fields, others).map(Struct),
        (
            List(one) | LargeList(one) | FixedSizeList(one, _),
            List(other) | LargeList(other) | FixedSizeList(other, _),
        ) => common_field(one, other).map(List),
        (Map(one, sorted), Map(other, _)) => Some(Map(common_field(one, other)?, *sorted)),
        (one, other) if one.is_nested() || other.is_nested() => None,
        (one, other) if is_text(one) || is_text(other) => Some(Utf8View),
        // In the unit of the timestamps: nanoseconds, which the planner takes, leave out most years.
        (Date32, times @ Timestamp(..)) | (times @ Timestamp(..), Date32) => Some(times.clone()),
        (one, other) => type_union_coercion(one, other),
    }
}

/// The fields of both, by their names.
fn common_fields(fields: &Fields, others: &Fields) -> Option<Fields> {
    let mut all: Vec<FieldRef> = Vec::with_capacity(fields.len());
    for field in fields {
        all.push(match others.find(field.name()) {
            Some((_, other)) => common_field(field, other)?,
            None => Arc::new(field.as_ref().clone().with_nullable(true)),
        });
    }
    let new = others.iter().filter(|other| fields.find(other.name()).is_none());
    all.extend(new.map(|other| Arc::new(other.as_ref().clone().with_nullable(true))));
    Some(all.into())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn types_take_the_values_of_both() {
        use DataType::{Binary, Boolean, Date32, Float64, Int32, Int64, Timestamp, Utf8View};
        let micros = Timestamp(TimeUnit::Microsecond, None);
        for (one, other, both) in [
            (Int32, Int64, Some(Int64)),
            (Int64, Float64, Some(Float64)),
            (Date32, micros.clone(), Some(micros)),
            (Int64, Utf8View, Some(Utf8View)),
            (Boolean, Date32, None),
            (Int64, Binary, None),
        ] {
            assert_eq!(common_type(&one, &other), both, "{one} and {other}");
            assert_eq!(common_type(&other, &one), both, "{other} and {one}");
        }
        let of = |fields: &[(&str, DataType)]| {
            DataType::Struct(fields.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect())
        };
        let both = common_type(&of(&[("x", Int32)]), &of(&[("y", Int32), ("x", Int64)])).unwrap();
        assert_eq!(both, of(&[("x", Int64), ("y", Int32)]));
    }
}
