//! Values as text, as `CAST(.. AS VARCHAR)` writes them.
//!
//! Rows are taken a few at a time, so that a batch of long values does not stand in memory twice.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use ogee_functions::nested_text;
use ogee_functions::times::Zone;

use super::to_io;

/// Bytes of rows of which the texts are made at a time.
const BYTES: usize = 1 << 20;

/// How many rows of `batch` those are: enough to share what a slice costs, and no more than a few if they are long.
pub fn rows_at_a_time(batch: &RecordBatch) -> usize {
    let each = batch.get_array_memory_size() / batch.num_rows().max(1);
    (BYTES / each.max(1)).clamp(8, 1024)
}

/// The texts of the values of an array.
pub struct Texts(StringViewArray);

impl Texts {
    /// Those of `array`, with instants as in `zone`.
    pub fn of(array: &ArrayRef, zone: &Zone) -> io::Result<Self> {
        texts(array, zone).map(Self)
    }

    /// One of them; none is NULL.
    pub fn get(&self, row: usize) -> Option<&str> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// The texts of a few rows.
pub struct Cells {
    columns: Vec<Texts>,
    rows: usize,
}

impl Cells {
    /// Of the columns `columns` of the rows from `start` on.
    fn new(
        batch: &RecordBatch,
        columns: impl Iterator<Item = usize>,
        (start, rows): (usize, usize),
        zone: &Zone,
    ) -> io::Result<Self> {
        let columns = columns
            .map(|column| Texts::of(&batch.column(column).slice(start, rows), zone))
            .collect::<io::Result<_>>()?;
        Ok(Self { columns, rows })
    }

    /// How many rows these are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The text of a value; none is NULL.
    pub fn get(&self, row: usize, column: usize) -> Option<&str> {
        self.columns[column].get(row)
    }
}

/// The texts of `columns` of the rows `range` of `batch`, a few rows at a time.
pub fn cells_of<'a>(
    batch: &'a RecordBatch,
    columns: &'a [usize],
    range: std::ops::Range<usize>,
    zone: &'a Zone,
) -> impl Iterator<Item = io::Result<Cells>> + 'a {
    let (end, step) = (range.end, rows_at_a_time(batch));
    range
        .step_by(step)
        .map(move |start| Cells::new(batch, columns.iter().copied(), (start, step.min(end - start)), zone))
}

/// The texts of all of `batch`, a few rows at a time.
pub fn cells<'a>(batch: &'a RecordBatch, zone: &'a Zone) -> impl Iterator<Item = io::Result<Cells>> + 'a {
    let (rows, step) = (batch.num_rows(), rows_at_a_time(batch));
    (0..rows)
        .step_by(step)
        .map(move |start| Cells::new(batch, 0..batch.num_columns(), (start, step.min(rows - start)), zone))
}

/// The texts of the values of `array`.
fn texts(array: &ArrayRef, zone: &Zone) -> io::Result<StringViewArray> {
    if let DataType::Dictionary(_, values) = array.data_type() {
        return texts(&arrow_cast::cast(array, values).map_err(to_io)?, zone);
    }
    if let Some(bytes) = bytes_of(array)? {
        return Ok(bytes);
    }
    match nested_text::texts(array, zone) {
        Ok(texts) => Ok(texts),
        // Of types that SQL has no text of, and values that no calendar has.
        Err(_) => {
            let options = FormatOptions::default().with_null("NULL").with_display_error(true);
            let formatter = ArrayFormatter::try_new(array.as_ref(), &options).map_err(to_io)?;
            let text = |row| array.is_valid(row).then(|| formatter.value(row).to_string());
            Ok((0..array.len()).map(text).collect())
        }
    }
}

/// Bytes as text: `\xAB` for what is no printable ASCII character. None if `array` has no bytes.
fn bytes_of(array: &ArrayRef) -> io::Result<Option<StringViewArray>> {
    let array = match array.data_type() {
        DataType::BinaryView => Arc::clone(array),
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
            arrow_cast::cast(array, &DataType::BinaryView).map_err(to_io)?
        }
        _ => return Ok(None),
    };
    Ok(Some(array.as_binary_view().iter().map(|bytes| bytes.map(escaped_bytes)).collect()))
}

/// `bytes` as SQL takes them in a text.
fn escaped_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' | b'\'' | b'"' | 0..=0x1f | 0x7f.. => {
                // A text takes what is written.
                let _ = write!(text, "\\x{byte:02X}");
            }
            byte => text.push(char::from(*byte)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_escaped() {
        assert_eq!(escaped_bytes(b"a\\b\xff\n"), "a\\x5Cb\\xFF\\x0A");
    }
}
