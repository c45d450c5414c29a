//! JSON that `COPY` writes: an object for each row, in a line of its own.
//!
//! Keys are there whatever their values are, NULL as null, so that all rows have all columns where they are read again.
//!
//! Not here: files (`text_sink`), and the JSON of values (`ogee_functions::json`).

use datafusion::{arrow::array::RecordBatch, error::Result};
use ogee_functions::{json::write_rows, times::Zone};

use crate::text_sink::RowText;

/// How JSON is written.
#[derive(Debug)]
pub(crate) struct JsonRows {
    /// That clocks show instants in.
    pub(crate) zone: Zone,
}

impl RowText for JsonRows {
    fn name(&self) -> &'static str {
        "JSON"
    }

    fn write(&self, batch: &RecordBatch, _first: bool, text: &mut Vec<u8>) -> Result<()> {
        write_rows(batch, &self.zone, text)
    }
}
