//! Maps as JSON objects: keys become text, whatever they are.
//!
//! The library writes maps with text keys only.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, MapArray, RecordBatch, StringArray, StructArray,
    cast::AsArray,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};

/// `batch` with all keys of maps as text.
pub fn with_text_keys(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.schema_ref().fields().iter().any(|field| has_other_keys(field.data_type())) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(rekeyed).collect::<Result<Vec<_>, _>>()?;
    let fields = batch.schema_ref().fields().iter().zip(&columns).map(|(field, column)| retyped(field, column));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns)
}

fn retyped(field: &FieldRef, column: &ArrayRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(column.data_type().clone()))
}

/// Whether there is a map without text keys in values of `data_type`.
fn has_other_keys(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                !fields[0].data_type().is_string() || fields.iter().any(|field| has_other_keys(field.data_type()))
            }
            _ => false,
        },
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            has_other_keys(field.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| has_other_keys(field.data_type())),
        _ => false,
    }
}

fn rekeyed(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_other_keys(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    let nulls = array.nulls().cloned();
    Ok(match array.data_type() {
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let keys = rekeyed(map.keys())?;
            let keys: ArrayRef = match keys.data_type().is_string() {
                true => keys,
                false => {
                    let formatter = ArrayFormatter::try_new(&keys, &FormatOptions::default())?;
                    let texts = (0..keys.len()).map(|row| formatter.value(row).try_to_string());
                    Arc::new(StringArray::from(texts.collect::<Result<Vec<_>, _>>()?))
                }
            };
            let values = rekeyed(map.values())?;
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(ArrowError::InvalidArgumentError("entries of a map are no structs".to_owned()));
            };
            let fields = vec![
                Arc::new(Field::new(fields[0].name(), keys.data_type().clone(), false)),
                retyped(&fields[1], &values),
            ];
            let structs = StructArray::try_new(fields.into(), vec![keys, values], None)?;
            let entries = Arc::new(entries.as_ref().clone().with_data_type(structs.data_type().clone()));
            Arc::new(MapArray::try_new(entries, map.offsets().clone(), structs, nulls, *sorted)?)
        }
        DataType::List(field) => {
            let list = array.as_list::<i32>();
            let values = rekeyed(list.values())?;
            Arc::new(ListArray::try_new(retyped(field, &values), list.offsets().clone(), values, nulls)?)
        }
        DataType::LargeList(field) => {
            let list = array.as_list::<i64>();
            let values = rekeyed(list.values())?;
            Arc::new(LargeListArray::try_new(retyped(field, &values), list.offsets().clone(), values, nulls)?)
        }
        DataType::FixedSizeList(field, size) => {
            let values = rekeyed(array.as_fixed_size_list().values())?;
            Arc::new(FixedSizeListArray::try_new(retyped(field, &values), *size, values, nulls)?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(rekeyed).collect::<Result<Vec<_>, _>>()?;
            let fields: Vec<FieldRef> =
                fields.iter().zip(&columns).map(|(field, column)| retyped(field, column)).collect();
            Arc::new(StructArray::try_new(fields.into(), columns, nulls)?)
        }
        _ => Arc::clone(array),
    })
}
