//! Whole files as values: `read_text('notes/*.md')` and `read_blob`.
//!
//! A file is a row, and is read when it is its turn, in memory that was reserved for it.
//!
//! Not here: which files a path means.

use std::{fmt, fs, io::Read, path::Path, sync::Arc};

use datafusion::{
    arrow::{
        array::{
            ArrayRef, BinaryViewBuilder, Int64Array, RecordBatch, StringViewArray, StringViewBuilder,
            TimestampMicrosecondArray,
        },
        datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
    },
    catalog::{TableProvider, streaming::StreamingTable},
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{stream::RecordBatchStreamAdapter, streaming::PartitionStream},
};
use futures::StreamExt;
use ogee_functions::Error;
use ogee_memory::{BufferManager, Reservation};

use super::listing::Found;
use crate::csv::values::UTC;

/// The files, one a row.
pub(super) struct Contents {
    files: Vec<Found>,
    is_text: bool,
    schema: SchemaRef,
    memory: Arc<BufferManager>,
}

impl Contents {
    /// A table of `files` with columns `filename`, `content`, `size` and `last_modified`; `is_text`: they have to be UTF-8.
    ///
    /// # Errors
    /// Those of the planner.
    pub(super) fn table(
        files: Vec<Found>,
        is_text: bool,
        memory: &Arc<BufferManager>,
    ) -> Result<Arc<dyn TableProvider>> {
        let content = if is_text { DataType::Utf8View } else { DataType::BinaryView };
        let moment = DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
        let columns = [
            ("filename", DataType::Utf8View),
            ("content", content),
            ("size", DataType::Int64),
            ("last_modified", moment),
        ];
        let fields = columns.map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let contents = Self { files, is_text, schema: Arc::clone(&schema), memory: Arc::clone(memory) };
        Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(contents)])?))
    }

    fn function(&self) -> &'static str {
        if self.is_text { "read_text" } else { "read_blob" }
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.function()).field("files", &self.files.len()).finish()
    }
}

impl PartitionStream for Contents {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (function, is_text) = (self.function(), self.is_text);
        let (schema, memory) = (Arc::clone(&self.schema), Arc::clone(&self.memory));
        let rows =
            futures::stream::iter(self.files.clone()).then(move |file| {
                let (schema, memory) = (Arc::clone(&schema), Arc::clone(&memory));
                let read = move || row(&file, is_text, function, schema, &memory);
                async move {
                    tokio::task::spawn_blocking(read).await.map_err(|error| DataFusionError::External(error.into()))?
                }
            });
        // What a file took is given back when the next one is read.
        let rows = rows.scan(None, |held: &mut Option<Reservation>, row| {
            let row = row.map(|(batch, reserved)| {
                *held = Some(reserved);
                batch
            });
            futures::future::ready(Some(row))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

/// The row of `file`, and the memory that was reserved for it.
fn row(
    file: &Found,
    is_text: bool,
    function: &'static str,
    schema: SchemaRef,
    memory: &Arc<BufferManager>,
) -> Result<(RecordBatch, Reservation)> {
    let failed = |why: &dyn fmt::Display| Error::Source(format!("cannot read '{}': {why}", file.given));
    let path = format!("/{}", file.meta.location);
    let size = u32::try_from(file.meta.size).map_err(|_| failed(&"values have 4 GiB at most"))?;
    let reserved = memory.reserve(function, size as usize).map_err(|error| failed(&error))?;
    let bytes = whole(Path::new(&path), u64::from(size)).map_err(|error| failed(&error))?;
    if bytes.len() != size as usize {
        return Err(failed(&"it changed while it was read").into());
    }
    let content: ArrayRef = if is_text {
        if std::str::from_utf8(&bytes).is_err() {
            return Err(failed(&"it is not UTF-8 text; use read_blob").into());
        }
        let mut content = StringViewBuilder::with_capacity(1);
        let block = content.append_block(bytes.into());
        content.try_append_view(block, 0, size)?;
        Arc::new(content.finish())
    } else {
        let mut content = BinaryViewBuilder::with_capacity(1);
        let block = content.append_block(bytes.into());
        content.try_append_view(block, 0, size)?;
        Arc::new(content.finish())
    };
    let modified = file.meta.last_modified.timestamp_micros();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from(vec![file.given.as_str()])),
        content,
        Arc::new(Int64Array::from(vec![i64::from(size)])),
        Arc::new(TimestampMicrosecondArray::from(vec![modified]).with_timezone(UTC)),
    ];
    Ok((RecordBatch::try_new(schema, columns)?, reserved))
}

/// The bytes of the file at `path`, one more than `size` at most.
fn whole(path: &Path, size: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(usize::MAX));
    fs::File::open(path)?.take(size.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
