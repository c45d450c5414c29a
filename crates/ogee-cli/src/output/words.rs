//! Infinite dates and timestamps, and those of far years, as JSON: their words, which the library does not know.
//!
//! Not here: all other modes, which show values as casts to text do.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Int64Array, ListArray, MapArray, RecordBatch, StringViewArray, StructArray,
    cast::AsArray,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};
use ogee_functions::times::{far, infinite::Infinite, written};

/// `batch` with texts for columns of moments, or the parts of such, of which some are infinite or of far years.
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

/// `array` with texts for what is infinite in it or of far years; `None` if there is nothing. Types are no deeper than statements are.
fn worded(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let nulls = array.nulls().cloned();
    Ok(match array.data_type() {
        DataType::Date32 | DataType::Timestamp(..) => {
            let far = far::far(array).map_err(of_functions)?;
            match (Infinite::of(array), far) {
                (None, None) => None,
                (infinite, far) => Some(texts(array, infinite, far)?),
            }
        }
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

fn of_functions<E: std::error::Error + Send + Sync + 'static>(error: E) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// The values of `array` as the library writes them, but for those that are `infinite`, and those that are `far`, of which it has the numbers.
fn texts(array: &ArrayRef, infinite: Option<Infinite>, far: Option<Int64Array>) -> Result<ArrayRef, ArrowError> {
    let finite = match &infinite {
        Some(infinite) => infinite.left_out(array).map_err(of_functions)?,
        None => Arc::clone(array),
    };
    let formatter = ArrayFormatter::try_new(&finite, &FormatOptions::default())?;
    let text = |row: usize| match &far {
        Some(far) if far.is_valid(row) => {
            let mut text = String::new();
            written::write(far.value(row), finite.data_type(), &mut text);
            Ok(Some(text))
        }
        _ => finite.is_valid(row).then(|| formatter.value(row).try_to_string()).transpose(),
    };
    let texts: ArrayRef = Arc::new((0..finite.len()).map(text).collect::<Result<StringViewArray, ArrowError>>()?);
    infinite.map_or_else(|| Ok(Arc::clone(&texts)), |infinite| infinite.put_in(&texts).map_err(of_functions))
}
