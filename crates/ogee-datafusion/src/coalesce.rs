//! Chunks put together into batches that own their values.
//!
//! Those who take batches for long, or write all of their buffers, need batches that refer to nothing else: a chunk may refer to a few strings of each of many pages.
//! Arrow's coalescer makes room for all rows of a batch, and a megabyte of strings for each column, with the first of them: gigabytes for some thousand
//! columns. Here the chunks wait as they are, but for strings of large buffers, and are copied when there are enough of them.
//!
//! Not here: how many rows are enough.

use std::{collections::VecDeque, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions},
        buffer::Buffer,
        compute::{concat, concat_batches},
        datatypes::{BinaryViewType, ByteViewType, DataType, SchemaRef, StringViewType},
    },
    error::Result,
};
use ogee_exec::value_bytes;

/// Puts batches together.
pub(crate) struct Coalescer {
    schema: SchemaRef,
    /// Rows of a batch that is made.
    rows: usize,
    /// Bytes of one, from which on it has enough rows.
    bytes: usize,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
    done: VecDeque<RecordBatch>,
}

impl Coalescer {
    /// Makes batches of `rows` rows of `schema`, or of fewer that take `bytes` bytes.
    pub(crate) fn new(schema: &SchemaRef, rows: usize, bytes: usize) -> Self {
        Self {
            schema: SchemaRef::clone(schema),
            rows: rows.max(1),
            bytes,
            waiting: Vec::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            done: VecDeque::new(),
        }
    }

    /// Adds the rows of `batch`.
    ///
    /// # Errors
    /// When Arrow cannot put rows together, e.g. strings of more than 2 GiB.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut first = 0;
        while first < batch.num_rows() {
            let rows = (self.rows - self.waiting_rows).min(batch.num_rows() - first);
            let piece = dense(&batch.slice(first, rows))?;
            first += rows;
            self.waiting_rows += rows;
            self.waiting_bytes += bytes_of(&piece);
            self.waiting.push(piece);
            if self.waiting_rows == self.rows || self.waiting_bytes >= self.bytes {
                self.finish()?;
            }
        }
        Ok(())
    }

    /// Makes a batch of the rows that wait, however few they are.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) fn finish(&mut self) -> Result<()> {
        let batch = match self.waiting.as_slice() {
            [] => return Ok(()),
            [only] => own(only)?,
            all => concat_batches(&self.schema, all)?,
        };
        self.waiting.clear();
        (self.waiting_rows, self.waiting_bytes) = (0, 0);
        self.done.push_back(batch);
        Ok(())
    }

    /// The next batch that is made.
    pub(crate) fn next(&mut self) -> Option<RecordBatch> {
        self.done.pop_front()
    }
}

/// Bytes of the values of `batch`, of strings only those that it has.
pub(crate) fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(value_bytes).sum()
}

/// `batch` without the strings that belong to other rows of its buffers, unless most are its own.
pub(crate) fn dense(batch: &RecordBatch) -> Result<RecordBatch> {
    fn strings<T: ByteViewType>(array: &ArrayRef) -> ArrayRef {
        let views = array.as_byte_view::<T>();
        let held: usize = views.data_buffers().iter().map(Buffer::len).sum();
        if held > 2 * views.total_buffer_bytes_used() { Arc::new(views.gc()) } else { ArrayRef::clone(array) }
    }
    with_columns(batch, |array| {
        Ok(match array.data_type() {
            DataType::Utf8View => strings::<StringViewType>(array),
            DataType::BinaryView => strings::<BinaryViewType>(array),
            _ => ArrayRef::clone(array),
        })
    })
}

/// A copy of `batch`, which may be a part of a larger one.
fn own(batch: &RecordBatch) -> Result<RecordBatch> {
    let half = batch.num_rows() / 2;
    with_columns(batch, |array| {
        Ok(match array.data_type() {
            // Those are dense.
            DataType::Utf8View | DataType::BinaryView => ArrayRef::clone(array),
            // Of one array there would be no copy.
            _ => concat(&[&*array.slice(0, half), &*array.slice(half, array.len() - half)])?,
        })
    })
}

fn with_columns(batch: &RecordBatch, of: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().iter().map(of).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use datafusion::arrow::{
        array::{Int64Array, StringViewArray},
        datatypes::{Field, Schema},
    };

    use super::*;

    fn batch(first: i64, rows: usize) -> RecordBatch {
        let schema =
            Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("s", DataType::Utf8View, false)]);
        let numbers = first..first + rows as i64;
        let texts = numbers.clone().map(|n| format!("a text too long for a view, number {n}"));
        let texts = StringViewArray::from_iter_values(texts);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from_iter_values(numbers)), Arc::new(texts)])
            .unwrap()
    }

    fn made(rows: usize, bytes: usize, pieces: &[usize]) -> Vec<RecordBatch> {
        let mut coalescer = Coalescer::new(&batch(0, 1).schema(), rows, bytes);
        let mut first = 0;
        for &piece in pieces {
            coalescer.push(&batch(first, piece)).unwrap();
            first += piece as i64;
        }
        coalescer.finish().unwrap();
        std::iter::from_fn(|| coalescer.next()).collect()
    }

    #[test]
    fn batches_have_so_many_rows_or_bytes_and_all_rows_in_order() {
        for (rows, bytes, pieces, sizes) in [
            (4, usize::MAX, &[1, 1, 1, 1, 1][..], &[4, 1][..]),
            (4, usize::MAX, &[10], &[4, 4, 2]),
            (4, usize::MAX, &[3, 3, 0, 3], &[4, 4, 1]),
            (4, usize::MAX, &[], &[]),
            (100, 1, &[5, 6], &[5, 6]),
        ] {
            let made = made(rows, bytes, pieces);
            assert_eq!(made.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), sizes);
            let all: usize = pieces.iter().sum();
            assert_eq!(concat_batches(&batch(0, 1).schema(), &made).unwrap(), batch(0, all));
        }
    }

    #[test]
    fn batches_own_their_values_and_nothing_else() {
        let large = batch(0, 1000);
        let mut coalescer = Coalescer::new(&large.schema(), 10, usize::MAX);
        coalescer.push(&large.slice(500, 3)).unwrap();
        coalescer.finish().unwrap();
        coalescer.push(&large.slice(500, 2)).unwrap();
        coalescer.push(&large.slice(700, 1)).unwrap();
        coalescer.finish().unwrap();
        for _ in 0..2 {
            let bytes = coalescer.next().unwrap().get_array_memory_size();
            assert!(bytes < 2000, "{bytes} bytes for three rows");
        }
    }
}
