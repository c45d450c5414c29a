//! Footers of Parquet files by URL.
//!
//! Not here: those of files here (`ogee-scan`), and reading pages, which DataFusion does.

use std::sync::Arc;

use datafusion::{
    datasource::physical_plan::parquet::metadata::DFParquetMetadata,
    error::Result,
    execution::cache::cache_manager::FileMetadataCache,
    object_store::{ObjectMeta, ObjectStore},
    parquet::file::metadata::{PageIndexPolicy, ParquetMetaData},
};

/// Bytes at the end of a file in which its footer is looked for: a request more is dearer than some bytes more.
const FOOTER_BYTES: usize = 256 << 10;

/// The footer of `file`, which is kept in `cache` for those who read it next.
///
/// # Errors
/// Those of the store, and of a file that is no Parquet.
pub(crate) async fn footer(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    cache: &Arc<FileMetadataCache>,
) -> Result<Arc<ParquetMetaData>> {
    let hint = FOOTER_BYTES.min(usize::try_from(file.size).unwrap_or(FOOTER_BYTES));
    DFParquetMetadata::new(store.as_ref(), file)
        .with_metadata_size_hint(Some(hint))
        .with_file_metadata_cache(Some(Arc::clone(cache)))
        .with_page_index_policy(Some(PageIndexPolicy::Skip))
        .fetch_metadata()
        .await
}
