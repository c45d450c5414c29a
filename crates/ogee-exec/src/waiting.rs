//! Chunks that wait between two sides of a query, and the memory that is promised for them: in an output that is read slowly, in a feed
//! that is faster than its query.
//!
//! Not here: who is woken when there is room.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, GenericByteViewArray, cast::AsArray, types::ByteViewType};
use arrow_schema::DataType;
use ogee_memory::{BufferManager, Reservation};
use ogee_vector::{Chunk, ColumnRef};

/// Of the memory limit, what waits in one place may keep one part in so many, beside a chunk for each lane.
pub(crate) const SHARE: usize = 16;

/// Bytes of `values`: of what they refer to, the rest is somebody else's, such as that of the pages that they are slices of.
pub fn value_bytes(values: &ArrayRef) -> usize {
    match values.data_type() {
        DataType::Utf8View => size_of::<u128>() * values.len() + values.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => size_of::<u128>() * values.len() + values.as_binary_view().total_buffer_bytes_used(),
        other => match other.primitive_width() {
            Some(width) => width * values.len(),
            // Lists may share the elements of others: rather too much than too little.
            None => values.to_data().get_slice_memory_size().unwrap_or_else(|_| values.get_array_memory_size()),
        },
    }
}

/// Bytes of the values of `chunk`, of which each counts as often as there are rows that have it.
pub(crate) fn chunk_bytes(chunk: &Chunk) -> usize {
    let bytes = |column: ColumnRef<'_>| {
        let ColumnRef { array, selection } = column;
        let Some(rows) = selection else { return value_bytes(array) };
        match array.data_type() {
            DataType::Utf8View => bytes_of_rows(array.as_string_view(), rows),
            DataType::BinaryView => bytes_of_rows(array.as_binary_view(), rows),
            _ => (value_bytes(array) as u128 * rows.len() as u128).div_ceil(array.len().max(1) as u128) as usize,
        }
    };
    (0..chunk.num_columns()).map(|column| bytes(chunk.column(column))).sum()
}

fn bytes_of_rows<T: ByteViewType>(values: &GenericByteViewArray<T>, rows: &[u32]) -> usize {
    // The length of a value is what its view begins with.
    let of = |&row: &u32| size_of::<u128>() + values.views()[row as usize] as u32 as usize;
    rows.iter().map(of).sum()
}

/// A chunk that waits, with its memory or its share of it.
pub(crate) struct Waiting {
    pub(crate) chunk: Chunk,
    pub(crate) bytes: usize,
    promise: Option<Arc<Reservation>>,
}

impl Waiting {
    /// `chunk` with a promise of its memory, for which pages are evicted if need be.
    pub(crate) fn new(memory: &Arc<BufferManager>, consumer: &'static str, chunk: Chunk) -> Self {
        let bytes = chunk_bytes(&chunk);
        let promise = memory.try_reserve(consumer, bytes).map(Arc::new);
        Self { chunk, bytes, promise }
    }

    /// The rows of `chunk`, at most `rows` at a time, which wait for one another's memory.
    pub(crate) fn pieces(
        memory: &Arc<BufferManager>,
        consumer: &'static str,
        chunk: &Chunk,
        rows: usize,
    ) -> impl Iterator<Item = Self> {
        let bytes = chunk_bytes(chunk);
        let promise = memory.try_reserve(consumer, bytes).map(Arc::new);
        (0..chunk.len()).step_by(rows.max(1)).map(move |offset| Self {
            chunk: chunk.slice(offset, rows.min(chunk.len() - offset)),
            bytes: bytes / chunk.len().div_ceil(rows.max(1)),
            promise: promise.clone(),
        })
    }

    /// There was no memory to be had for it: it has to wait alone.
    pub(crate) fn is_beyond_memory(&self) -> bool {
        self.promise.is_none()
    }
}
