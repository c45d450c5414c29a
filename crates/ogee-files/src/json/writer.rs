//! JSON that `COPY` writes: an object for each row, in a line of its own.
//!
//! Keys are there whatever their values are, NULL as null, so that all rows have all columns where they are read again. Rows of an array have commas between them,
//! and a file of none is the array without any.
//!
//! Not here: files (`text_sink`), what ends an array (`copy_target`), and the JSON of values (`ogee_functions::json`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch},
        datatypes::{DataType, Field, Schema},
    },
    error::Result,
};
use ogee_functions::{
    json::write_rows,
    times::{Zone, formats::MomentFormat},
};

use crate::text_sink::RowText;

/// What is said of how JSON is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonManner {
    /// The rows are an array.
    pub(crate) is_array: bool,
    pub(crate) date: Option<MomentFormat>,
    pub(crate) timestamp: Option<MomentFormat>,
}

/// How JSON is written.
#[derive(Debug)]
pub(crate) struct JsonRows {
    /// That clocks show instants in.
    pub(crate) zone: Zone,
    pub(crate) manner: JsonManner,
}

impl JsonRows {
    /// `batch` with moments as texts where a format is said.
    fn formatted(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let format = |data_type: &DataType| match data_type {
            DataType::Date32 | DataType::Date64 => self.manner.date.as_ref(),
            DataType::Timestamp(..) => self.manner.timestamp.as_ref(),
            _ => None,
        };
        let schema = batch.schema();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
        let mut fields: Vec<Arc<Field>> = Vec::with_capacity(batch.num_columns());
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            match format(field.data_type()) {
                Some(format) => {
                    let texts = format.written(column, &self.zone)?;
                    fields.push(Arc::new(field.as_ref().clone().with_data_type(texts.data_type().clone())));
                    columns.push(texts);
                }
                None => {
                    fields.push(Arc::clone(field));
                    columns.push(Arc::clone(column));
                }
            }
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

impl RowText for JsonRows {
    fn name(&self) -> &'static str {
        "JSON"
    }

    fn begins_with_rows(&self) -> bool {
        self.manner.is_array
    }

    fn write(&self, batch: &RecordBatch, first: bool, text: &mut Vec<u8>) -> Result<()> {
        let is_formatted = self.manner.date.is_some() || self.manner.timestamp.is_some();
        let formatted = is_formatted.then(|| self.formatted(batch)).transpose()?;
        let batch = formatted.as_ref().unwrap_or(batch);
        if !self.manner.is_array {
            return write_rows(batch, &self.zone, text);
        }
        let mut rows = Vec::new();
        write_rows(batch, &self.zone, &mut rows)?;
        if first {
            text.extend_from_slice(b"[\n\t");
        }
        for (nth, row) in rows.split(|byte| *byte == b'\n').filter(|row| !row.is_empty()).enumerate() {
            if nth > 0 || !first {
                text.extend_from_slice(b",\n\t");
            }
            text.extend_from_slice(row);
        }
        Ok(())
    }
}
