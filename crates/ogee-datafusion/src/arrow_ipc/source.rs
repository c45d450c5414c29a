//! Scans of Arrow files.
//!
//! Not here: messages and batches.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::array::RecordBatch,
    common::tree_node::TreeNodeRecursion,
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileOpenFuture, FileOpener, FileScanConfig, FileSource},
        projection::{ProjectionOpener, SplitProjection},
        table_schema::TableSchema,
    },
    error::Result,
    object_store::ObjectStore,
    physical_expr::{PhysicalExpr, projection::ProjectionExprs},
    physical_plan::{DisplayFormatType, metrics::ExecutionPlanMetricsSet},
};
use futures::StreamExt;
use ogee_memory::BufferManager;

use super::{format::path_of, reader::Reader};

/// Rows that are handed on at once, of batches that have more.
const BATCH_ROWS: usize = 8192;

/// How the files of a table are scanned.
#[derive(Clone)]
pub(super) struct ArrowSource {
    memory: Arc<BufferManager>,
    table_schema: TableSchema,
    projection: SplitProjection,
    metrics: ExecutionPlanMetricsSet,
}

impl ArrowSource {
    pub(super) fn new(memory: &Arc<BufferManager>, table_schema: TableSchema) -> Self {
        Self {
            memory: Arc::clone(memory),
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl FileSource for ArrowSource {
    fn create_file_opener(
        &self,
        _store: Arc<dyn ObjectStore>,
        _config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = ArrowOpener { memory: Arc::clone(&self.memory), columns: self.projection.file_indices.clone() };
        ProjectionOpener::try_new(self.projection.clone(), Arc::new(opener), self.table_schema.file_schema())
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, _batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let merged = self.projection.source.try_merge(projection)?;
        let projection = SplitProjection::new(self.table_schema.file_schema(), &merged);
        Ok(Some(Arc::new(Self { projection, ..self.clone() })))
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "arrow"
    }

    fn supports_repartitioning(&self) -> bool {
        // A batch is read as a whole, and its memory is reserved: one at a time.
        false
    }

    fn fmt_extra(&self, _: DisplayFormatType, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for projected in &self.projection.source {
            recursion = f(&projected.expr)?;
            if recursion == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(recursion)
    }
}

struct ArrowOpener {
    memory: Arc<BufferManager>,
    /// Of the file, those that are wanted.
    columns: Vec<usize>,
}

impl FileOpener for ArrowOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (memory, columns) = (Arc::clone(&self.memory), self.columns.clone());
        Ok(Box::pin(async move {
            let mut reader = Reader::open(&path_of(&file.object_meta), &memory, columns)?;
            let mut batch: Option<RecordBatch> = None;
            let mut failed = false;
            let mut next = move || -> Result<Option<RecordBatch>> {
                loop {
                    if let Some(rows) = &mut batch {
                        if rows.num_rows() > BATCH_ROWS {
                            let first = rows.slice(0, BATCH_ROWS);
                            *rows = rows.slice(BATCH_ROWS, rows.num_rows() - BATCH_ROWS);
                            return Ok(Some(first));
                        }
                        return Ok(batch.take());
                    }
                    batch = reader.batch()?;
                    if batch.is_none() {
                        return Ok(None);
                    }
                }
            };
            let batches = std::iter::from_fn(move || {
                // Nothing comes after an error.
                let batch = if failed { None } else { next().transpose() };
                failed = batch.as_ref().is_some_and(Result::is_err);
                batch
            });
            Ok(futures::stream::iter(batches).boxed())
        }))
    }
}
