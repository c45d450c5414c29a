//! Infinite dates and timestamps as JSON: their words, which the library does not know.
//!
//! Not here: all other modes, which show values as casts to text do.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, ListArray, MapArray, RecordBatch, StringViewArray, StructArray, cast::AsArray,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};
use ogee_functions::times::infinite::Infinite;

/// `batch` with texts for columns of moments, or the parts of such, of which some are infinite.
pub fn with_words(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(worded).collect::<Result<Vec<_>, _>>()?;
    if columns.iter().all(Option::is_none) {
        return Ok(batch.clone());
    }
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) =
        replaced(batch.schema_ref().fields(), batch.columns(), columns).unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// `columns`, of `fields`, with those of `worded` in the place of the others.
fn replaced<'a>(
    fields: &'a Fields,
    columns: &'a [ArrayRef],
    worded: Vec<Option<ArrayRef>>,
) -> impl Iterator<Item = (FieldRef, ArrayRef)> + 'a {
    fields.iter().zip(columns).zip(worded).map(|((field, column), worded)| match worded {
        Some(worded) => (retyped(field, &worded), worded),
        None => (Arc::clone(field), Arc::clone(column)),
    })
}

fn retyped(field: &Field, column: &ArrayRef) -> FieldRef {
    Arc::new(field.clone().with_data_type(column.data_type().clone()))
}

/// `array` with texts for what is infinite in it; `None` if there is nothing. Types are no deeper than statements are.
fn worded(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let nulls = array.nulls().cloned();
    Ok(match array.data_type() {
        DataType::Date32 | DataType::Timestamp(..) => match Infinite::of(array) {
            Some(infinite) => Some(texts(array, &infinite)?),
            None => None,
        },
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let worded = columns.iter().map(worded).collect::<Result<Vec<_>, _>>()?;
            if worded.iter().all(Option::is_none) {
                return Ok(None);
            }
            let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = replaced(fields, columns, worded).unzip();
            Some(Arc::new(StructArray::try_new(fields.into(), columns, nulls)?))
        }
        DataType::List(field) => {
            let list = array.as_list::<i32>();
            let Some(values) = worded(list.values())? else { return Ok(None) };
            Some(Arc::new(ListArray::try_new(retyped(field, &values), list.offsets().clone(), values, nulls)?))
        }
        DataType::FixedSizeList(field, length) => {
            let Some(values) = worded(array.as_fixed_size_list().values())? else { return Ok(None) };
            Some(Arc::new(FixedSizeListArray::try_new(retyped(field, &values), *length, values, nulls)?))
        }
        DataType::Map(field, sorted) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let Some(entries) = worded(&entries)? else { return Ok(None) };
            let field = retyped(field, &entries);
            let entries = entries.as_struct().clone();
            Some(Arc::new(MapArray::try_new(field, map.offsets().clone(), entries, nulls, *sorted)?))
        }
        _ => None,
    })
}

/// The values of `array` as the library writes them, and words for those that are `infinite`.
fn texts(array: &ArrayRef, infinite: &Infinite) -> Result<ArrayRef, ArrowError> {
    let of_functions = |error| ArrowError::ExternalError(Box::new(error));
    let finite = infinite.left_out(array).map_err(of_functions)?;
    let formatter = ArrayFormatter::try_new(&finite, &FormatOptions::default())?;
    let text = |row: usize| finite.is_valid(row).then(|| formatter.value(row).try_to_string()).transpose();
    let texts: ArrayRef = Arc::new((0..finite.len()).map(text).collect::<Result<StringViewArray, _>>()?);
    infinite.put_in(&texts).map_err(of_functions)
}
