//! Rows as Parquet files, in row groups that memory has room for.
//!
//! DataFusion's writer holds a row group until it is whole. It ends one at a number of rows, and at a number of bytes where one task writes a file; tasks for each column know no bytes. How wide
//! rows are shows in the first of them: where row groups of such would not fit, one task writes each file.
//!
//! Not here: how many rows a row group has (`copy`), and where files go (`copy_target`).

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch},
        datatypes::{DataType, SchemaRef},
    },
    common::config::{MaxRowGroupBytes, TableParquetOptions},
    datasource::{
        file_format::parquet::ParquetSink,
        physical_plan::FileSink,
        sink::{DataSink, DataSinkExec},
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, stream::RecordBatchStreamAdapter},
};
use futures::{StreamExt, stream};
use ogee_memory::BufferManager;

use crate::copy::ROW_GROUP_SHARE;

/// `plan`, which writes Parquet files, so that their row groups fit into `memory`.
pub(crate) fn within_memory(plan: Arc<dyn ExecutionPlan>, memory: &Arc<BufferManager>) -> Arc<dyn ExecutionPlan> {
    let Some(exec) = plan.downcast_ref::<DataSinkExec>() else { return plan };
    let Some(sink) = exec.sink().downcast_ref::<ParquetSink>() else { return plan };
    let sink = Sink {
        sink: ParquetSink::new(sink.config().clone(), sink.parquet_options().clone()),
        memory: Arc::clone(memory),
    };
    Arc::new(DataSinkExec::new(Arc::clone(exec.input()), Arc::new(sink), exec.sort_order().clone()))
}

struct Sink {
    sink: ParquetSink,
    memory: Arc<BufferManager>,
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sink.fmt(f)
    }
}

impl DisplayAs for Sink {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sink.fmt_as(kind, f)
    }
}

#[async_trait]
impl DataSink for Sink {
    fn schema(&self) -> &SchemaRef {
        self.sink.schema()
    }

    async fn write_all(&self, mut data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let schema = data.schema();
        let first = data.next().await.transpose()?;
        let options = options(self.sink.parquet_options(), self.memory.limit(), first.as_ref());
        let data = stream::iter(first.map(Ok)).chain(data);
        let data = Box::pin(RecordBatchStreamAdapter::new(schema, data));
        DataSink::write_all(&ParquetSink::new(self.sink.config().clone(), options), data, context).await
    }
}

/// `options` for rows of which `first` are the first, so that a row group takes its share of `limit` bytes.
fn options(options: &TableParquetOptions, limit: usize, first: Option<&RecordBatch>) -> TableParquetOptions {
    let mut options = options.clone();
    let global = &mut options.global;
    if let Some(first) = first.filter(|first| first.num_rows() > 0) {
        let row = first.columns().iter().map(bytes_of).sum::<usize>() / first.num_rows();
        global.allow_single_file_parallelism &= row.saturating_mul(global.max_row_group_size) <= limit / 2;
    }
    // One that the statement asks for stays.
    if global.max_row_group_bytes.is_none() {
        global.max_row_group_bytes = MaxRowGroupBytes::try_new((limit / ROW_GROUP_SHARE).max(1)).ok();
    }
    options
}

/// Bytes of the values of `array`, about.
fn bytes_of(array: &ArrayRef) -> usize {
    let of_views = |views: &[u128]| views.iter().map(|view| size_of::<u128>() + *view as u32 as usize).sum();
    match array.data_type() {
        // What a view leads to may be shared with many other batches.
        DataType::Utf8View => of_views(array.as_string_view().views()),
        DataType::BinaryView => of_views(array.as_binary_view().views()),
        _ => array.to_data().get_slice_memory_size().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use datafusion::arrow::array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn wide_rows_are_written_by_one_task() {
        let given = TableParquetOptions::default();
        assert!(given.global.allow_single_file_parallelism && given.global.max_row_group_bytes.is_none());
        let batch = |text: String| {
            let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values([&text, &text]));
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values([1, 2]));
            RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap()
        };
        let limit = 1 << 30;
        for (text, at_once) in [("x".to_owned(), true), ("x".repeat(10_000), false)] {
            let options = options(&given, limit, Some(&batch(text)));
            assert_eq!(options.global.allow_single_file_parallelism, at_once);
            assert_eq!(options.global.max_row_group_bytes.unwrap().get(), limit / ROW_GROUP_SHARE);
        }
        let mut asked = given.clone();
        asked.global.max_row_group_bytes = MaxRowGroupBytes::try_new(7).ok();
        assert_eq!(options(&asked, limit, None).global.max_row_group_bytes.unwrap().get(), 7);
    }
}
