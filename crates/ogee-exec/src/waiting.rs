//! Chunks that wait between two sides of a query, and the memory that is promised for them: in an output that is read slowly, in a feed
//! that is faster than its query.
//!
//! Not here: who is woken when there is room.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use ogee_memory::{BufferManager, Reservation};
use ogee_vector::Chunk;

/// Bytes of the values of `chunk`: of what it refers to, the rest is somebody else's, such as that of the pages that its columns are slices of.
pub(crate) fn chunk_bytes(chunk: &Chunk) -> usize {
    let bytes = |values: &ArrayRef| match values.data_type() {
        DataType::Utf8View => size_of::<u128>() * values.len() + values.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => size_of::<u128>() * values.len() + values.as_binary_view().total_buffer_bytes_used(),
        other => match other.primitive_width() {
            Some(width) => width * values.len(),
            // Lists may share the elements of others: rather too much than too little.
            None => values.to_data().get_slice_memory_size().unwrap_or_else(|_| values.get_array_memory_size()),
        },
    };
    (0..chunk.num_columns()).map(|column| bytes(chunk.column(column).array)).sum()
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
