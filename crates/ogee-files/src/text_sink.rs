//! Writing batches of rows as text, which DataFusion's writers of files hand to files.
//!
//! Each batch is compressed by itself: what follows another gzip member or zstd frame is read as one text with it.
//!
//! Not here: the text of a batch (`csv`, `json`).

use std::{fmt, io::Write, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::{
    arrow::{array::RecordBatch, datatypes::SchemaRef},
    common::{exec_datafusion_err, not_impl_err, parsers::CompressionTypeVariant, runtime::SpawnedTask},
    datasource::{
        file_format::{
            file_compression_type::FileCompressionType,
            write::{BatchSerializer, demux::DemuxedStreamReceiver, orchestration::spawn_writer_tasks_and_join},
        },
        physical_plan::{FileSink, FileSinkConfig},
        sink::{DataSink, DataSinkExec},
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::dml::InsertOp,
    object_store::ObjectStore,
    physical_expr::LexRequirement,
    physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, stream::RecordBatchStreamAdapter},
};
use futures::{StreamExt, TryStreamExt, future, stream};
use ogee_functions::Error;

/// How rows are written.
pub(crate) trait RowText: fmt::Debug + Send + Sync + 'static {
    /// What the format is called.
    fn name(&self) -> &'static str;

    /// Whether the batch that begins a file has rows, if the file has any.
    fn begins_with_rows(&self) -> bool {
        false
    }

    /// Writes the rows of `batch`, before which comes what begins a file if it is the `first`.
    fn write(&self, batch: &RecordBatch, first: bool, text: &mut Vec<u8>) -> Result<()>;
}

/// The plan that writes the rows of `input` as `rows` says, to the files that `config` says.
pub(crate) fn writing(
    input: Arc<dyn ExecutionPlan>,
    config: FileSinkConfig,
    order: Option<LexRequirement>,
    rows: Arc<dyn RowText>,
    compression: CompressionTypeVariant,
) -> Result<Arc<dyn ExecutionPlan>> {
    if config.insert_op != InsertOp::Append {
        return not_impl_err!("to overwrite {} files; write to others", rows.name());
    }
    if !matches!(
        compression,
        CompressionTypeVariant::UNCOMPRESSED | CompressionTypeVariant::GZIP | CompressionTypeVariant::ZSTD
    ) {
        let why = format!("COPY does not compress {} with {compression:?}; use gzip or zstd", rows.name());
        return Err(Error::Unsupported(why).into());
    }
    let sink = TextSink { config, rows, compression };
    Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
}

#[derive(Debug)]
struct TextSink {
    config: FileSinkConfig,
    rows: Arc<dyn RowText>,
    compression: CompressionTypeVariant,
}

impl DisplayAs for TextSink {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextSink: format={}, file={}", self.rows.name(), self.config.original_url)
    }
}

#[async_trait]
impl FileSink for TextSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let text = Text { rows: Arc::clone(&self.rows), compression: self.compression };
        let plain = FileCompressionType::UNCOMPRESSED;
        spawn_writer_tasks_and_join(context, Arc::new(text), plain, None, store, demux_task, files).await
    }
}

#[async_trait]
impl DataSink for TextSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        // A file without rows has what begins one, too.
        let none = RecordBatch::new_empty(data.schema());
        let schema = data.schema();
        let data: SendableRecordBatchStream = match self.config.table_partition_cols.is_empty() {
            true if self.rows.begins_with_rows() => {
                let mut rows = Box::pin(data.try_filter(|batch| future::ready(batch.num_rows() > 0)));
                let first = rows.next().await.unwrap_or(Ok(none));
                Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter([first]).chain(rows)))
            }
            true => Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter([Ok(none)]).chain(data))),
            false => data,
        };
        FileSink::write_all(self, data, context).await
    }
}

struct Text {
    rows: Arc<dyn RowText>,
    compression: CompressionTypeVariant,
}

impl BatchSerializer for Text {
    fn serialize(&self, batch: RecordBatch, initial: bool) -> Result<Bytes> {
        let mut text = Vec::new();
        self.rows.write(&batch, initial, &mut text)?;
        let failed = |error: std::io::Error| exec_datafusion_err!("cannot compress rows: {error}");
        let bytes = match self.compression {
            _ if text.is_empty() => text,
            CompressionTypeVariant::GZIP => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&text).map_err(failed)?;
                encoder.finish().map_err(failed)?
            }
            CompressionTypeVariant::ZSTD => zstd::stream::encode_all(&text[..], 0).map_err(failed)?,
            _ => text,
        };
        Ok(Bytes::from(bytes))
    }
}
