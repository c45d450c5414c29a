//! Arrow as a format of files, in DataFusion's terms.
//!
//! Not here: reading (`source`).

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    catalog::Session,
    common::{GetExt, Statistics},
    datasource::{
        file_format::{
            FileFormat, FileFormatFactory,
            arrow::{ArrowFormat as ArrowWriter, ArrowFormatFactory},
            file_compression_type::FileCompressionType,
        },
        physical_plan::{FileScanConfig, FileSinkConfig, FileSource},
        source::DataSourceExec,
        table_schema::TableSchema,
    },
    error::Result,
    object_store::{ObjectMeta, ObjectStore},
    physical_expr::LexRequirement,
    physical_plan::ExecutionPlan,
};
use ogee_memory::BufferManager;

use super::{reader, source::ArrowSource};

/// Makes formats of Arrow files, whose readers reserve in the pool.
pub(crate) struct ArrowFormats(pub(crate) Arc<BufferManager>);

impl fmt::Debug for ArrowFormats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArrowFormats")
    }
}

impl FileFormatFactory for ArrowFormats {
    fn create(&self, _state: &dyn Session, _options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(FileFormatFactory::default(self))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(ArrowFormat { writer: ArrowWriter, memory: Arc::clone(&self.0) })
    }
}

impl GetExt for ArrowFormats {
    fn get_ext(&self) -> String {
        ArrowFormatFactory::new().get_ext()
    }
}

/// The format of the files of one table.
struct ArrowFormat {
    writer: ArrowWriter,
    memory: Arc<BufferManager>,
}

impl fmt::Debug for ArrowFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writer.fmt(f)
    }
}

/// Where a file is on this machine.
pub(super) fn path_of(file: &ObjectMeta) -> PathBuf {
    Path::new("/").join(file.location.as_ref())
}

#[async_trait]
impl FileFormat for ArrowFormat {
    fn get_ext(&self) -> String {
        self.writer.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.writer.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.writer.compression_type()
    }

    async fn infer_schema(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let schema = |file| reader::schema(&path_of(file), &self.memory).map(Arc::unwrap_or_clone);
        let schemas = objects.iter().map(schema).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Schema::try_merge(schemas)?))
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        _object: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&table_schema))
    }

    async fn create_physical_plan(&self, _state: &dyn Session, conf: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(DataSourceExec::from_data_source(conf))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.writer.create_writer_physical_plan(input, state, conf, order_requirements).await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(ArrowSource::new(&self.memory, table_schema))
    }
}
