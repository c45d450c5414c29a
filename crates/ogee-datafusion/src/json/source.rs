//! Scans of JSON files.
//!
//! Not here: values and arrays.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

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
    build::{Builder, Places},
    format::{Reading, shown},
    reader::{Column, Reader, Values},
    shape::Shape,
};

/// Rows of a batch unless told otherwise.
const BATCH_ROWS: usize = 8192;

/// How the files of a table are scanned.
#[derive(Clone)]
pub(super) struct JsonSource {
    reading: Reading,
    table_schema: TableSchema,
    projection: SplitProjection,
    batch_rows: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl JsonSource {
    pub(super) fn new(reading: Reading, table_schema: TableSchema) -> Self {
        Self {
            reading,
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            batch_rows: BATCH_ROWS,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The columns that the files have, those that are read in the order in which they are wanted.
    fn columns(&self) -> (Vec<Column>, bool, bool) {
        let schema = self.table_schema.file_schema();
        let found = self.reading.found.read();
        let shapes: HashMap<&str, &Shape> =
            found.iter().flat_map(|found| &found.columns).map(|(name, shape)| (name.as_str(), shape)).collect();
        let builder = |index: usize| {
            let field = schema.field(index);
            match shapes.get(field.name().as_str()).filter(|shape| shape.data_type() == *field.data_type()) {
                Some(shape) => Builder::of(shape),
                None => Builder::declared(field.data_type()),
            }
        };
        let read: HashSet<usize> = self.projection.file_indices.iter().copied().collect();
        let mut columns: Vec<Column> = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| Column {
                name: field.name().clone(),
                builder: read.contains(&index).then(|| builder(index)),
            })
            .collect();
        // A column that a directory names has another's value; the file's is passed over.
        if let Some(found) = found.as_ref() {
            let own: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let others = found.columns.iter().filter(|(name, _)| !own.contains(name.as_str()));
            columns.extend(others.map(|(name, _)| Column { name: name.clone(), builder: None }));
        }
        let is_whole = found.as_ref().is_some_and(|found| found.is_whole);
        (columns, found.is_none(), is_whole)
    }
}

impl FileSource for JsonSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        _config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = Arc::new(JsonOpener { source: Arc::new(self.clone()), store });
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
        "json"
    }

    fn supports_repartitioning(&self) -> bool {
        // Where a value begins is known only from the beginning on.
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

struct JsonOpener {
    source: Arc<JsonSource>,
    store: Arc<dyn ObjectStore>,
}

impl FileOpener for JsonOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (source, store) = (Arc::clone(&self.source), Arc::clone(&self.store));
        Ok(Box::pin(async move {
            let location = &file.object_meta.location;
            let input = source.reading.open(&store, location).await?;
            let (columns, is_declared, is_whole) = source.columns();
            let schema = source.table_schema.file_schema().project(&source.projection.file_indices)?;
            let mut reader = Reader {
                values: Values::new(input, shown(location), source.reading.memory()),
                places: Places::of(columns.iter().map(|column| &column.name)),
                columns,
                is_declared,
                is_whole,
                schema: Arc::new(schema),
                batch_rows: source.batch_rows,
            };
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
