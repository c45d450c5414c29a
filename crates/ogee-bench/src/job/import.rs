//! The real tables, from the CSV files that the benchmark's authors give out: no header, strings in double quotes, a backslash before quotes and
//! backslashes within them, and nothing between commas for NULL.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_csv::ReaderBuilder;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};

use crate::files::{BATCH_ROWS, Batches};

/// What is nothing in the file is an empty string where a column has no NULLs.
fn fill(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| -> ArrayRef {
        match column.as_string_opt::<i32>() {
            Some(strings) if !field.is_nullable() && column.null_count() > 0 => {
                Arc::new(StringArray::from_iter_values(strings.iter().map(Option::unwrap_or_default)))
            }
            _ => Arc::clone(column),
        }
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect())
}

/// Schema and rows of `table`, from `DIRECTORY/table.csv`.
pub fn open(directory: &Path, table: &str) -> io::Result<(SchemaRef, Batches)> {
    let path = directory.join(format!("{table}.csv"));
    let context = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", path.display()));
    let file = File::open(&path).map_err(|error| context(&error))?;
    let schema = super::schema(table);
    let nullable: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let reader = ReaderBuilder::new(Arc::new(Schema::new(nullable)))
        .with_header(false)
        .with_escape(b'\\')
        .with_batch_size(BATCH_ROWS as usize)
        .build(BufReader::with_capacity(1 << 20, file))
        .map_err(|error| context(&error))?;
    let own = Arc::clone(&schema);
    Ok((schema, Box::new(reader.map(move |batch| fill(&batch?, &own)))))
}
