//! Scans of CSV files.
//!
//! Not here: records and values.

use std::{collections::HashMap, fmt, sync::Arc};

use datafusion::{
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

use super::{
    format::{Reading, missing, shown},
    reader::{Column, Plan, Reader},
    sniff::Look,
    values::Kind,
};
use crate::Error;

/// Rows of a batch unless told otherwise.
const BATCH_ROWS: usize = 8192;

/// How the files of a table are scanned.
#[derive(Clone)]
pub(super) struct CsvSource {
    reading: Reading,
    table_schema: TableSchema,
    projection: SplitProjection,
    batch_rows: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl CsvSource {
    pub(super) fn new(reading: Reading, table_schema: TableSchema) -> Self {
        Self {
            reading,
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            batch_rows: BATCH_ROWS,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Where the columns that are read come from in a file that looks like `look`.
    fn columns(&self, look: &Look, file: &str) -> Result<Vec<Column>> {
        let schema = self.table_schema.file_schema();
        let found = self.reading.found.read();
        let places: HashMap<&str, usize> =
            look.names.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
        let by_name = |name: &str| places.get(name).copied();
        let kinds: HashMap<&str, Kind> = found.iter().flatten().map(|(name, kind)| (name.as_str(), *kind)).collect();
        // A declared table may name the columns otherwise than the file does.
        let by_position = found.is_none()
            && (!look.has_header || !schema.fields().iter().all(|field| by_name(field.name()).is_some()));
        if by_position && look.names.len() != schema.fields().len() && !self.reading.given.truncated {
            return Err(Error::Source(format!(
                "'{file}' has {} columns, and its table is declared with {}",
                look.names.len(),
                schema.fields().len()
            ))
            .into());
        }
        let column = |&column: &usize| {
            let field = schema.field(column);
            let index = if by_position { Some(column) } else { by_name(field.name()) };
            let index = index.ok_or_else(|| missing(field.name(), file, None))?;
            let kind = kinds.get(field.name().as_str()).copied().unwrap_or(Kind::Text);
            Ok(Column {
                index,
                name: field.name().clone(),
                kind: (kind.data_type() == *field.data_type()).then_some(kind),
                data_type: field.data_type().clone(),
            })
        };
        self.projection.file_indices.iter().map(column).collect()
    }
}

impl FileSource for CsvSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        _config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = Arc::new(CsvOpener { source: Arc::new(self.clone()), store });
        ProjectionOpener::try_new(self.projection.clone(), opener, self.table_schema.file_schema())
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_rows: batch_size, ..self.clone() })
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
        "csv"
    }

    fn supports_repartitioning(&self) -> bool {
        // Where a record begins is known only from the beginning on: quotes may hold ends of lines.
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

struct CsvOpener {
    source: Arc<CsvSource>,
    store: Arc<dyn ObjectStore>,
}

impl FileOpener for CsvOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (source, store) = (Arc::clone(&self.source), Arc::clone(&self.store));
        Ok(Box::pin(async move {
            let name = shown(&file.object_meta.location);
            let look = source.reading.look(&store, &file.object_meta, true).await?;
            if look.is_empty {
                return Ok(futures::stream::empty().boxed());
            }
            let columns = source.columns(&look, &name)?;
            let schema = source.table_schema.file_schema().project(&source.projection.file_indices)?;
            let input = source.reading.open(&store, &file.object_meta.location).await?;
            let plan = Plan {
                name,
                look,
                columns,
                schema: Arc::new(schema),
                batch_rows: source.batch_rows,
                truncated: source.reading.given.truncated,
                comment: source.reading.given.comment,
                memory: source.reading.memory(),
            };
            let mut reader = Reader::new(input, plan);
            let mut failed = false;
            let batches = std::iter::from_fn(move || {
                // Nothing comes after an error.
                let batch = if failed { None } else { reader.batch().transpose() };
                failed = batch.as_ref().is_some_and(Result::is_err);
                batch
            });
            Ok(futures::stream::iter(batches).boxed())
        }))
    }
}
