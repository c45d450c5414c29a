//! Rows that are put together value by value, as record batches.

use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, Int32Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

/// A value of any column.
pub enum Value<'a> {
    /// NULL
    Null,
    /// An integer of 32 or 64 bits
    Number(i64),
    /// A string
    Text(&'a str),
    /// A string made for this row
    Owned(String),
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(value: Option<&'a str>) -> Self {
        value.map_or(Self::Null, Self::Text)
    }
}

impl From<Option<String>> for Value<'_> {
    fn from(value: Option<String>) -> Self {
        value.map_or(Self::Null, Self::Owned)
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Number)
    }
}

enum Column {
    Int(Int32Builder),
    Long(Int64Builder),
    Text(StringBuilder),
}

/// A batch under way.
pub struct Rows {
    schema: SchemaRef,
    columns: Vec<Column>,
}

impl Rows {
    /// No rows yet. `schema` has integers and strings.
    pub fn new(schema: &SchemaRef) -> Self {
        let column = |field: &Arc<Field>| match field.data_type() {
            DataType::Int32 => Column::Int(Int32Builder::new()),
            DataType::Int64 => Column::Long(Int64Builder::new()),
            _ => Column::Text(StringBuilder::new()),
        };
        Self { schema: Arc::clone(schema), columns: schema.fields().iter().map(column).collect() }
    }

    /// One row, in the order of the schema.
    ///
    /// # Panics
    /// If it does not follow the schema.
    pub fn push<const N: usize>(&mut self, row: [Value<'_>; N]) {
        assert_eq!(self.columns.len(), N);
        for (column, value) in self.columns.iter_mut().zip(row) {
            match (column, value) {
                (Column::Int(values), Value::Number(number)) => {
                    values.append_value(i32::try_from(number).expect("numbers of the column's width"));
                }
                (Column::Int(values), Value::Null) => values.append_null(),
                (Column::Long(values), Value::Number(number)) => values.append_value(number),
                (Column::Long(values), Value::Null) => values.append_null(),
                (Column::Text(values), Value::Text(text)) => values.append_value(text),
                (Column::Text(values), Value::Owned(text)) => values.append_value(text),
                (Column::Text(values), Value::Null) => values.append_null(),
                _ => panic!("a row that does not follow the schema"),
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |column| match column {
            Column::Int(values) => values.len(),
            Column::Long(values) => values.len(),
            Column::Text(values) => values.len(),
        })
    }

    /// The batch.
    pub fn finish(self) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.into_iter().map(|column| -> ArrayRef {
            match column {
                Column::Int(mut values) => Arc::new(values.finish()),
                Column::Long(mut values) => Arc::new(values.finish()),
                Column::Text(mut values) => Arc::new(values.finish()),
            }
        });
        RecordBatch::try_new(self.schema, arrays.collect())
    }
}

/// A schema of columns that are never NULL, or may be.
pub fn schema<'a>(columns: impl IntoIterator<Item = (&'a str, DataType, bool)>) -> SchemaRef {
    let fields = columns.into_iter().map(|(name, data_type, nullable)| Field::new(name, data_type, nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
