//! The Parquet format of DataFusion, whose panics over damaged footers are errors.
//!
//! Not here: reading pages, which the engine does.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::Session,
    common::{GetExt, Statistics},
    datasource::{
        file_format::{FileFormat, FileFormatFactory, FileMeta, file_compression_type::FileCompressionType},
        physical_plan::{FileScanConfig, FileSinkConfig, FileSource},
        table_schema::TableSchema,
    },
    error::{DataFusionError, Result},
    object_store::{ObjectMeta, ObjectStore},
    physical_expr::{LexOrdering, LexRequirement},
    physical_plan::ExecutionPlan,
};
use ogee_memory::BufferManager;

use crate::{parquet_sink::within_memory, remote::shown};

/// Makes formats of a library's.
#[derive(Debug)]
pub struct CaughtFormats {
    /// The library's.
    pub formats: Arc<dyn FileFormatFactory>,
    /// What has room for the row groups that are written.
    pub memory: Arc<BufferManager>,
}

impl CaughtFormats {
    fn caught(&self, format: Arc<dyn FileFormat>) -> Arc<dyn FileFormat> {
        Arc::new(CaughtFormat(format, Arc::clone(&self.memory)))
    }
}

impl FileFormatFactory for CaughtFormats {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        // What is said of the files of a copy is no matter of the format.
        let others = options.iter().filter(|(key, _)| !key.starts_with("format.ogee_"));
        let others = others.map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(self.caught(self.formats.create(state, &others)?))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        self.caught(self.formats.default())
    }
}

impl GetExt for CaughtFormats {
    fn get_ext(&self) -> String {
        self.formats.get_ext()
    }
}

/// A format of a library.
#[derive(Debug)]
struct CaughtFormat(Arc<dyn FileFormat>, Arc<BufferManager>);

#[async_trait]
impl FileFormat for CaughtFormat {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.0.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.0.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        caught(self.0.infer_schema(state, store, objects)).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        of(object, caught(self.0.infer_stats(state, store, table_schema, object)).await)
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        of(object, caught(self.0.infer_ordering(state, store, table_schema, object)).await)
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        of(object, caught(self.0.infer_stats_and_ordering(state, store, table_schema, object)).await)
    }

    async fn create_physical_plan(&self, state: &dyn Session, conf: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_physical_plan(state, conf).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(within_memory(self.0.create_writer_physical_plan(input, state, conf, order).await?, &self.1))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.0.file_source(table_schema)
    }
}

/// What `future` gives, or an error if it panics, after which it is not polled any more.
pub(super) async fn caught<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = pin!(future);
    poll_fn(|context| {
        let polled = ogee_scan::caught(|| Ok::<_, DataFusionError>(future.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panic)))
    })
    .await
}

/// `result` with the name of the file in its error.
pub(super) fn of<T>(object: &ObjectMeta, result: Result<T>) -> Result<T> {
    result.map_err(|error| match ogee_functions::Error::from(error) {
        ogee_functions::Error::Source(message) if !message.contains(&shown(&object.location)) => {
            ogee_functions::Error::Source(format!("cannot read '{}': {message}", shown(&object.location))).into()
        }
        other => other.into(),
    })
}
