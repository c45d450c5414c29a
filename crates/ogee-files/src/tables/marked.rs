//! Columns of Parquet files whose values are more than their types say: JSON and UUIDs, and bytes of one length, which are bytes.
//!
//! JSON is text with a mark, which its field has. UUIDs are 16 bytes in files and marked text here, so that a view of the table has them.
//!
//! Not here: reading.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef},
    catalog::TableProvider,
    common::Column,
    datasource::{ViewTable, provider_as_source},
    error::Result,
    logical_expr::{Expr, LogicalPlanBuilder, cast},
};
use ogee_functions::marks::{Casts, Mark};
use ogee_memory::BufferManager;

use super::checks::Said;

/// What the field of a column of UUIDs says, as Arrow names them.
const EXTENSION: &str = "ARROW:extension:name";
const UUID: &str = "arrow.uuid";

/// `schema` with what is `said` of its columns.
pub(super) fn schema(schema: SchemaRef, said: &Said) -> SchemaRef {
    if said.uuids.is_empty() && said.documents.is_empty() {
        return schema;
    }
    let field = |field: &FieldRef| {
        let mut metadata = field.metadata().clone();
        if said.documents.contains(field.name()) && field.data_type().is_string() {
            metadata.extend(Mark::Json.field("").metadata().clone());
        } else if said.uuids.contains(field.name()) {
            metadata.insert(EXTENSION.to_owned(), UUID.to_owned());
        }
        Arc::new(field.as_ref().clone().with_metadata(metadata))
    };
    let fields: Vec<FieldRef> = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// `table` with UUIDs where its files have their bytes, and with bytes where those are of one length.
///
/// # Errors
/// Those of the planner.
pub(super) fn table(table: Arc<dyn TableProvider>, memory: &Arc<BufferManager>) -> Result<Arc<dyn TableProvider>> {
    let schema = table.schema();
    if !schema.fields().iter().any(|field| has_bytes_of_one_length(field.data_type())) {
        return Ok(table);
    }
    let casts = Casts::new(memory);
    let mut outputs = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let column = Expr::Column(Column::new_unqualified(field.name()));
        if !has_bytes_of_one_length(field.data_type()) {
            outputs.push(column);
            continue;
        }
        let is_uuid = field.metadata().get(EXTENSION).is_some_and(|name| name == UUID);
        let to = of_any_length(field, is_uuid);
        let made = match casts.cast(&column, field, &to, false)? {
            Some(made) => made,
            None => cast(column, to.data_type().clone()),
        };
        outputs.push(made.alias(field.name()));
    }
    let plan = LogicalPlanBuilder::scan("files", provider_as_source(table), None)?.project(outputs)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

fn has_bytes_of_one_length(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(_) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_bytes_of_one_length(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_bytes_of_one_length(field.data_type())),
        _ => false,
    }
}

/// `field` with bytes of any length, and UUIDs for those of 16 if they are.
fn of_any_length(field: &Field, is_uuid: bool) -> Field {
    let part = |field: &FieldRef| Arc::new(of_any_length(field, is_uuid));
    let mut metadata = field.metadata().clone();
    metadata.remove(EXTENSION);
    let data_type = match field.data_type() {
        DataType::FixedSizeBinary(16) if is_uuid => {
            let uuid = Mark::Uuid.field(field.name());
            metadata.extend(uuid.metadata().clone());
            uuid.data_type().clone()
        }
        DataType::FixedSizeBinary(_) => DataType::BinaryView,
        DataType::List(of) => DataType::List(part(of)),
        DataType::LargeList(of) => DataType::LargeList(part(of)),
        DataType::FixedSizeList(of, length) => DataType::FixedSizeList(part(of), *length),
        DataType::Map(of, sorted) => DataType::Map(part(of), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect::<Fields>()),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type).with_metadata(metadata)
}
