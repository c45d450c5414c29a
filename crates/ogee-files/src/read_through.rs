//! Files that are read through, from their beginning to their end, in DataFusion's terms: formats, scans, openers. CSV, JSON and Arrow are.
//!
//! A file has one reader here: where a record begins is known only from the beginning on, or its memory is reserved for one reader at a time. Lanes of the engine read
//! files of text in pieces (`text_scan`).
//!
//! Not here: the readers, and what files look like.

use std::{
    fmt::{self, Debug},
    io::Read,
    sync::Arc,
};

use async_trait::async_trait;
use datafusion::{
    arrow::{array::RecordBatch, datatypes::SchemaRef},
    catalog::Session,
    common::{Statistics, config::ConfigOptions, parsers::CompressionTypeVariant, tree_node::TreeNodeRecursion},
    datasource::{
        file_format::{FileFormat, file_compression_type::FileCompressionType},
        listing::PartitionedFile,
        physical_plan::{
            FileOpenFuture, FileOpener, FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource,
        },
        projection::{ProjectionOpener, SplitProjection},
        source::DataSourceExec,
        table_schema::TableSchema,
    },
    error::Result,
    object_store::{GetOptions, GetResultPayload, ObjectMeta, ObjectStore, path::Path},
    physical_expr::{LexRequirement, PhysicalExpr, projection::ProjectionExprs},
    physical_plan::{DisplayFormatType, ExecutionPlan, metrics::ExecutionPlanMetricsSet},
};
use futures::StreamExt;
use ogee_functions::times::Zone;

use crate::{
    csv::compression::decompressed,
    pieces::Pieces,
    remote::{Incoming, batches, is_remote},
    text_sink::{RowText, writing},
};

/// Rows of a batch unless told otherwise.
pub(crate) const BATCH_ROWS: usize = 8192;

/// How the files of a table are read.
#[async_trait]
pub(crate) trait ReadThrough: Clone + Debug + Send + Sync + Unpin + 'static {
    /// What plans call it.
    const NAME: &'static str;
    /// Reads one file.
    type Reader: Batches;

    /// The columns of a table of `files`.
    async fn schema(&self, store: &Arc<dyn ObjectStore>, files: &[ObjectMeta]) -> Result<SchemaRef>;

    /// How files are compressed as a whole.
    fn compression(&self) -> CompressionTypeVariant {
        CompressionTypeVariant::UNCOMPRESSED
    }

    /// An error if files cannot be read as it was asked for.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// A reader of `file`; `None` if nothing is in it.
    async fn open(&self, scan: &Scan, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<Option<Self::Reader>>;
}

/// What is in a file.
pub(crate) trait Batches: Send + 'static {
    /// The next batch; `None` behind the last.
    fn next(&mut self) -> Result<Option<RecordBatch>>;
}

/// How files are read that can be cut into pieces.
#[async_trait]
pub(crate) trait InPieces: Debug + Send + Sync {
    /// The pieces of `file`; `None` if nothing is in it.
    async fn pieces(
        &self,
        scan: &Scan,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
    ) -> Result<Option<Box<dyn Pieces>>>;
}

/// What is wanted of the files of a table.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    table_schema: TableSchema,
    columns: Vec<usize>,
    pub(crate) batch_rows: usize,
}

impl Scan {
    /// The columns that the files have.
    pub(crate) fn file_schema(&self) -> &SchemaRef {
        self.table_schema.file_schema()
    }

    /// Those of them that are read, in the order that they have in a batch.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The same with `columns` of those that the files have.
    pub(crate) fn with_columns(&self, columns: Vec<usize>) -> Self {
        Self { columns, ..self.clone() }
    }

    /// The same in batches of so many rows.
    pub(crate) fn with_batch_rows(self, batch_rows: usize) -> Self {
        Self { batch_rows, ..self }
    }

    /// The columns of the table: those of files, and behind them those that directories name.
    pub(crate) fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    /// The columns of a batch.
    pub(crate) fn batch_schema(&self) -> Result<SchemaRef> {
        Ok(Arc::new(self.file_schema().project(self.columns())?))
    }
}

pub(crate) use crate::remote::shown;

/// The text of a file, which may be compressed.
pub(crate) async fn text(
    store: &Arc<dyn ObjectStore>,
    location: &Path,
    compression: CompressionTypeVariant,
) -> Result<Box<dyn Read + Send>> {
    let result = store.get_opts(location, GetOptions::default()).await?;
    match result.payload {
        GetResultPayload::File(file, _) => decompressed(file, compression, &shown(location)),
        GetResultPayload::Stream(stream) => decompressed(Incoming::new(stream), compression, &shown(location)),
    }
}

/// The zone that a session shows instants in.
pub(crate) fn known_zone(options: &ConfigOptions) -> Result<Zone> {
    match &options.execution.time_zone {
        Some(zone) => Zone::named(zone),
        None => Ok(Zone::UTC),
    }
}

/// How files of a format are written.
pub(crate) trait Writing: fmt::Debug + Send + Sync + 'static {
    /// What else is known of the format, which writes the files, too, unless they are text of rows.
    fn format(&self) -> &dyn FileFormat;

    /// The text of rows, and how that is compressed.
    fn rows(&self, state: &dyn Session) -> Result<Option<(Arc<dyn RowText>, CompressionTypeVariant)>>;
}

/// The format of the files of one table.
#[derive(Debug)]
pub(crate) struct Format<R, W> {
    pub(crate) reading: R,
    pub(crate) writer: W,
}

#[async_trait]
impl<R: ReadThrough, W: Writing> FileFormat for Format<R, W> {
    fn get_ext(&self) -> String {
        self.writer.format().get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.writer.format().get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.writer.format().compression_type()
    }

    async fn infer_schema(
        &self,
        _state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.reading.schema(store, files).await
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        _file: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&table_schema))
    }

    async fn create_physical_plan(&self, _state: &dyn Session, conf: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        self.reading.check()?;
        let compression = self.reading.compression().into();
        let config = FileScanConfigBuilder::from(conf).with_file_compression_type(compression).build();
        Ok(DataSourceExec::from_data_source(config))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self.writer.rows(state)? {
            Some((rows, compression)) => writing(input, conf, order, rows, compression),
            None => self.writer.format().create_writer_physical_plan(input, state, conf, order).await,
        }
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        let projection = SplitProjection::unprojected(&table_schema);
        let scan = Scan { table_schema, columns: projection.file_indices.clone(), batch_rows: BATCH_ROWS };
        Arc::new(Source { reading: self.reading.clone(), scan, projection, metrics: ExecutionPlanMetricsSet::new() })
    }
}

/// The files of a table, as they are scanned.
#[derive(Clone)]
pub(crate) struct Source<R> {
    pub(crate) reading: R,
    pub(crate) scan: Scan,
    projection: SplitProjection,
    metrics: ExecutionPlanMetricsSet,
}

impl<R: ReadThrough> FileSource for Source<R> {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        _config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = Opener { reading: self.reading.clone(), scan: Arc::new(self.scan.clone()), store };
        ProjectionOpener::try_new(self.projection.clone(), Arc::new(opener), self.scan.file_schema())
    }

    fn table_schema(&self) -> &TableSchema {
        &self.scan.table_schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        let scan = self.scan.clone().with_batch_rows(batch_size);
        Arc::new(Self { scan, ..self.clone() })
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let merged = self.projection.source.try_merge(projection)?;
        let projection = SplitProjection::new(self.scan.file_schema(), &merged);
        let scan = self.scan.with_columns(projection.file_indices.clone());
        Ok(Some(Arc::new(Self { scan, projection, ..self.clone() })))
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        R::NAME
    }

    fn supports_repartitioning(&self) -> bool {
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

struct Opener<R> {
    reading: R,
    scan: Arc<Scan>,
    store: Arc<dyn ObjectStore>,
}

impl<R: ReadThrough> FileOpener for Opener<R> {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (reading, scan, store) = (self.reading.clone(), Arc::clone(&self.scan), Arc::clone(&self.store));
        if is_remote(&file.object_meta.location) {
            let open = async move { reading.open(&scan, &store, &file.object_meta).await };
            return Ok(Box::pin(async move { batches(open) }));
        }
        Ok(Box::pin(async move {
            let Some(mut reader) = reading.open(&scan, &store, &file.object_meta).await? else {
                return Ok(futures::stream::empty().boxed());
            };
            let mut failed = false;
            let batches = std::iter::from_fn(move || {
                // Nothing comes after an error.
                let batch = if failed { None } else { reader.next().transpose() };
                failed = batch.as_ref().is_some_and(Result::is_err);
                batch
            });
            Ok(futures::stream::iter(batches).boxed())
        }))
    }
}
