//! Files whose columns no reader here understands, told apart before one is asked: Arrow's panics at a type that it
//! does not know, such as the 128-bit integers that Polars writes (arrow-ipc's `convert::get_data_type`).
//!
//! Not here: listing, reading.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use datafusion::{
    arrow::{
        datatypes::{
            DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION,
            Field, Schema,
        },
        ipc,
    },
    catalog::{Session, TableProvider, TableProviderFactory},
    // Another of this name, beside it, is no longer what footers are kept as.
    datasource::physical_plan::parquet::metadata::CachedParquetMetaData,
    error::{DataFusionError, Result},
    execution::{cache::cache_manager::CachedFileMetadataEntry, object_store::ObjectStoreUrl},
    logical_expr::CreateExternalTable,
    object_store::{ObjectMeta, ObjectStore},
    parquet::{
        arrow::ARROW_SCHEMA_META_KEY,
        basic::{ConvertedType, LogicalType},
        file::metadata::ParquetMetaData,
    },
};
use futures::{StreamExt, TryStreamExt};
use ogee_functions::Error;
use ogee_memory::BufferManager;
use ogee_scan::read_footer;

use super::{
    caught::{caught, of},
    listing::{Found, list},
    partitions::NULL_VALUE,
};
use crate::{
    arrow_ipc::look_at_columns,
    remote::{self, is_remote, parquet::footer, shown},
};

/// Footers that are read at once.
const AT_ONCE: usize = 32;

/// Within each other; Arrow's own check allows 64.
const DEPTH_MAX: usize = 64;

/// What footers say of columns, beyond their types.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Those that some of several files do not have.
    pub(super) missing: HashSet<String>,
    /// Those whose values of 16 bytes are UUIDs.
    pub(super) uuids: HashSet<String>,
    /// Those of JSON.
    pub(super) documents: HashSet<String>,
}

impl Said {
    /// Takes up what `metadata` says of the columns.
    fn add(&mut self, metadata: &ParquetMetaData) {
        let mut others = HashSet::new();
        for leaf in metadata.file_metadata().schema_descr().columns() {
            let Some(column) = leaf.path().parts().first() else { continue };
            let is_top = leaf.path().parts().len() == 1;
            match leaf.logical_type_ref() {
                Some(LogicalType::Uuid) => drop(self.uuids.insert(column.clone())),
                Some(LogicalType::Json) if is_top => drop(self.documents.insert(column.clone())),
                _ if leaf.converted_type() == ConvertedType::JSON && is_top => {
                    self.documents.insert(column.clone());
                }
                _ if leaf.type_length() == 16 => drop(others.insert(column.clone())),
                _ => {}
            }
        }
        self.uuids.retain(|column| !others.contains(column));
    }
}

/// Looks at the footers of Parquet `files`, which are kept for those who read them next.
pub(super) async fn parquet_files(
    state: &dyn Session,
    memory: &Arc<BufferManager>,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<Said> {
    let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
    let mut said = Said::default();
    let mut common: Option<HashSet<String>> = None;
    let look = |file: ObjectMeta| {
        let (memory, cache, store) = (Arc::clone(memory), Arc::clone(&cache), Arc::clone(store));
        async move {
            let path = shown(&file.location);
            let known = cache.get(&file.location).filter(|known| known.is_valid_for(&file)).and_then(|known| {
                let known = known.file_metadata.as_any().downcast_ref::<CachedParquetMetaData>()?;
                Some(Arc::clone(known.parquet_metadata()))
            });
            if let Some(known) = known {
                return Ok(known);
            }
            let is_remote = is_remote(&file.location);
            let metadata = if is_remote {
                of(&file, caught(footer(&store, &file, &cache)).await)?
            } else {
                let (place, size) = (PathBuf::from(&path), file.size);
                let read = move || read_footer(&memory, &place, size);
                let read = tokio::task::spawn_blocking(read).await;
                read.map_err(|error| DataFusionError::External(error.into()))?.map_err(Error::from)?
            };
            if let Some((column, kind)) = unknown_in_footer(&metadata) {
                cache.remove(&file.location);
                return Err(refusal(&path, &column, &kind).into());
            }
            if let Err(twice) = distinct(&path, columns_of(&metadata)) {
                cache.remove(&file.location);
                return Err(twice);
            }
            // Who finds it there does not look at it again.
            if !is_remote {
                let entry = Arc::new(CachedParquetMetaData::new(Arc::clone(&metadata)));
                cache.put(&file.location.clone(), CachedFileMetadataEntry::new(file, entry));
            }
            Ok::<_, DataFusionError>(metadata)
        }
    };
    let mut footers = futures::stream::iter(files.to_vec()).map(look).buffered(AT_ONCE).boxed();
    while let Some(metadata) = footers.try_next().await? {
        said.add(&metadata);
        if files.len() < 2 {
            continue;
        }
        let columns: HashSet<String> = columns_of(&metadata).map(str::to_owned).collect();
        let Some(known) = &mut common else {
            common = Some(columns);
            continue;
        };
        said.missing.extend(known.symmetric_difference(&columns).cloned());
        known.retain(|column| columns.contains(column));
    }
    Ok(said)
}

fn columns_of(metadata: &ParquetMetaData) -> impl Iterator<Item = &str> {
    metadata.file_metadata().schema_descr().root_schema().get_fields().iter().map(|column| column.name())
}

/// Columns are read by their names: of two with one name, all would read the first.
fn distinct<'a>(file: &str, columns: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut names = HashSet::new();
    for name in columns {
        if !names.insert(name) {
            let why = format!(
                "'{file}' has two columns named \"{name}\", which is not supported; write it with distinct names"
            );
            return Err(Error::Unsupported(why).into());
        }
    }
    Ok(())
}

/// `schema` in which `columns` may be NULL.
pub(super) fn with_nulls(schema: &Schema, columns: &HashSet<String>) -> Schema {
    let field = |field: &Arc<Field>| match columns.contains(field.name()) {
        true => Arc::new(field.as_ref().clone().with_nullable(true)),
        false => Arc::clone(field),
    };
    Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Vec<_>>(), schema.metadata().clone())
}

/// Looks at how Arrow files on this machine describe their columns. DataFusion reads them by their places.
pub(super) fn arrow_files(memory: &Arc<BufferManager>, files: &[ObjectMeta]) -> Result<()> {
    let mut first: Option<(String, Vec<String>)> = None;
    for file in files {
        let path = format!("/{}", file.location);
        // What is no Arrow file is told by those who read it.
        let Ok(Some(columns)) = look_at_columns(Path::new(&path), memory, described) else { continue };
        if let Some((column, Some(kind))) = columns.iter().find(|(_, kind)| kind.is_some()) {
            return Err(refusal(&path, column, kind).into());
        }
        distinct(&path, columns.iter().map(|(column, _)| column.as_str()))?;
        let names: Vec<String> = columns.into_iter().map(|(column, _)| column).collect();
        match &first {
            Some((other, known)) if *known != names => {
                return Err(Error::Unsupported(format!(
                    "'{path}' has not the columns of '{other}' in their order, which is not supported for Arrow files; \
                     read them apart and use UNION ALL BY NAME"
                ))
                .into());
            }
            Some(_) => {}
            None => first = Some((path, names)),
        }
    }
    Ok(())
}

/// The name of a column, and its type if nobody knows that.
type Described = (String, Option<String>);

fn refusal(file: &str, column: &str, kind: &str) -> Error {
    Error::Unsupported(format!(
        "column \"{column}\" of '{file}' is of the type {kind}, which is not supported; \
         write the file with another, e.g. Int64 or Decimal"
    ))
}

/// The column of a Parquet file whose Arrow type is unknown, and that type.
fn unknown_in_footer(metadata: &ParquetMetaData) -> Option<(String, String)> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let encoded = pairs.iter().find(|pair| pair.key == ARROW_SCHEMA_META_KEY)?.value.as_ref()?;
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    let message = if bytes.len() > 8 && bytes[..4] == [255; 4] { &bytes[8..] } else { &bytes[..] };
    let columns = columns_in_message(message)?;
    columns.into_iter().find_map(|(column, kind)| Some((column, kind?)))
}

fn columns_in_message(message: &[u8]) -> Option<Vec<Described>> {
    described(ipc::root_as_message(message).ok()?.header_as_schema()?)
}

fn described(schema: ipc::Schema<'_>) -> Option<Vec<Described>> {
    let column = |field: ipc::Field<'_>| (field.name().unwrap_or_default().to_owned(), unknown(field, 0));
    Some(schema.fields()?.iter().map(column).collect())
}

/// The type of `field`, or of a field in it, if Arrow has none of the kind.
fn unknown(field: ipc::Field<'_>, depth: usize) -> Option<String> {
    if depth > DEPTH_MAX {
        return Some("of too many types within each other".to_owned());
    }
    let children = field.children().map_or(0, |children| children.len());
    let own = match field.type_type() {
        ipc::Type::Int => field.type_as_int().and_then(|int| unknown_integer(int)),
        ipc::Type::FloatingPoint => {
            let precision = field.type_as_floating_point()?.precision();
            precision.variant_name().is_none().then(|| "float of an unknown width".to_owned())
        }
        ipc::Type::Date => field.type_as_date()?.unit().variant_name().is_none().then(|| "date".to_owned()),
        ipc::Type::Time => {
            let time = field.type_as_time()?;
            let known = matches!(
                (time.bitWidth(), time.unit()),
                (32, ipc::TimeUnit::SECOND | ipc::TimeUnit::MILLISECOND)
                    | (64, ipc::TimeUnit::MICROSECOND | ipc::TimeUnit::NANOSECOND)
            );
            (!known).then(|| format!("time of {} bits", time.bitWidth()))
        }
        ipc::Type::Timestamp => {
            field.type_as_timestamp()?.unit().variant_name().is_none().then(|| "timestamp".to_owned())
        }
        ipc::Type::Duration => field.type_as_duration()?.unit().variant_name().is_none().then(|| "duration".to_owned()),
        ipc::Type::Interval => field.type_as_interval()?.unit().variant_name().is_none().then(|| "interval".to_owned()),
        ipc::Type::Decimal => {
            let decimal = field.type_as_decimal()?;
            let known = matches!(decimal.bitWidth(), 32 | 64 | 128 | 256)
                && (1..=digits_max(decimal.bitWidth())).contains(&decimal.precision())
                && (-128..=127).contains(&decimal.scale());
            (!known).then(|| format!("decimal of {} bits and {} digits", decimal.bitWidth(), decimal.precision()))
        }
        ipc::Type::List | ipc::Type::LargeList | ipc::Type::ListView | ipc::Type::LargeListView => {
            (children != 1).then(|| "list without a type of its items".to_owned())
        }
        ipc::Type::FixedSizeList => {
            let known = children == 1 && field.type_as_fixed_size_list()?.listSize() >= 0;
            (!known).then(|| "list without a type of its items, or with less than none of them".to_owned())
        }
        ipc::Type::FixedSizeBinary => {
            (field.type_as_fixed_size_binary()?.byteWidth() < 0).then(|| "binary of less than no bytes".to_owned())
        }
        ipc::Type::Map => {
            let entries = field.children().filter(|children| children.len() == 1).map(|children| children.get(0));
            let are_pairs = |entries: ipc::Field<'_>| {
                entries.type_type() == ipc::Type::Struct_ && entries.children().is_some_and(|pair| pair.len() == 2)
            };
            (!entries.is_some_and(are_pairs)).then(|| "map whose entries are no pairs of key and value".to_owned())
        }
        ipc::Type::RunEndEncoded => {
            let ends = field.children().filter(|children| children.len() == 2).map(|children| children.get(0));
            let are_ends = |ends: ipc::Field<'_>| {
                ends.type_as_int().is_some_and(|int| int.is_signed() && matches!(int.bitWidth(), 16 | 32 | 64))
            };
            (!ends.is_some_and(are_ends)).then(|| "run-end encoded without ends or values".to_owned())
        }
        ipc::Type::Null
        | ipc::Type::Bool
        | ipc::Type::Binary
        | ipc::Type::BinaryView
        | ipc::Type::LargeBinary
        | ipc::Type::Utf8
        | ipc::Type::Utf8View
        | ipc::Type::LargeUtf8
        | ipc::Type::Struct_ => None,
        other => Some(other.variant_name().unwrap_or("of an unknown kind").to_owned()),
    };
    let index = field.dictionary().and_then(|dictionary| dictionary.indexType()).and_then(unknown_integer);
    own.or(index).or_else(|| field.children()?.iter().find_map(|child| unknown(child, depth + 1)))
}

/// Digits of a decimal of so many bits, at most.
fn digits_max(bits: i32) -> i32 {
    let digits = match bits {
        32 => DECIMAL32_MAX_PRECISION,
        64 => DECIMAL64_MAX_PRECISION,
        128 => DECIMAL128_MAX_PRECISION,
        _ => DECIMAL256_MAX_PRECISION,
    };
    i32::from(digits)
}

fn unknown_integer(int: ipc::Int<'_>) -> Option<String> {
    let prefix = if int.is_signed() { "Int" } else { "UInt" };
    (!matches!(int.bitWidth(), 8 | 16 | 32 | 64)).then(|| format!("{prefix}{}", int.bitWidth()))
}

/// Makes tables of `CREATE EXTERNAL TABLE`, after a look at their files.
#[derive(Debug)]
pub struct CheckedTables {
    /// Makes the tables.
    pub tables: Arc<dyn TableProviderFactory>,
    /// Where memory for reading footers is reserved.
    pub memory: Arc<BufferManager>,
}

#[async_trait]
impl TableProviderFactory for CheckedTables {
    async fn create(&self, state: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        for location in &command.locations {
            if remote::is_url(location) {
                let shown = remote::bare(location);
                let why = format!(
                    "CREATE EXTERNAL TABLE of '{shown}' is not supported; use CREATE VIEW name AS FROM '{shown}'"
                );
                return Err(Error::Unsupported(why).into());
            }
            // What cannot be listed here is told by those who read it.
            let Ok(listing) = list(location) else { continue };
            let extension = format!(".{}", command.file_type.to_lowercase());
            let is_null = |file: &&Found| {
                let names_null = |column: &String| file.given.contains(&format!("/{column}={NULL_VALUE}/"));
                command.table_partition_cols.iter().any(names_null)
            };
            // DataFusion takes it for a text.
            if let Some(file) = listing.files.iter().find(is_null) {
                return Err(Error::Unsupported(format!(
                    "'{}' has NULL in a column of its directories, which CREATE EXTERNAL TABLE does not support; \
                     use FROM '{location}'",
                    file.given
                ))
                .into());
            }
            let files: Vec<ObjectMeta> = listing
                .files
                .into_iter()
                .map(|file| file.meta)
                .filter(|file| file.size > 0 && (listing.is_file || file.location.as_ref().ends_with(&extension)))
                .collect();
            match command.file_type.to_lowercase().as_str() {
                "parquet" => {
                    let store = state.runtime_env().object_store(ObjectStoreUrl::local_filesystem())?;
                    parquet_files(state, &self.memory, &store, &files).await?;
                }
                "arrow" => arrow_files(&self.memory, &files)?,
                _ => {}
            }
        }
        self.tables.create(state, command).await
    }
}

#[cfg(test)]
mod tests {
    use datafusion::{
        arrow::array::{ArrayRef, Int64Array, RecordBatch},
        datasource::file_format::{FileFormat, parquet::ParquetFormat},
        execution::SessionStateBuilder,
        object_store::path::Path as Location,
        parquet::arrow::ArrowWriter,
    };
    use ogee_memory::MemoryConfig;

    use super::*;

    #[tokio::test]
    async fn footers_are_kept_for_datafusion_and_for_the_next_statement() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.parquet");
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("a", numbers)]).expect("a batch");
        let file = std::fs::File::create(&path).expect("a file");
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
        writer.write(&batch).expect("rows");
        writer.close().expect("a footer");
        let size = std::fs::metadata(&path).expect("a file").len();
        let location = Location::from_absolute_path(&path).expect("a location");
        let file =
            ObjectMeta { location, last_modified: std::time::UNIX_EPOCH.into(), size, e_tag: None, version: None };
        let state = SessionStateBuilder::new().with_default_features().build();
        let memory =
            BufferManager::new(MemoryConfig { limit: 64 << 20, counts_process: false, ..MemoryConfig::default() });
        let memory = memory.expect("memory");
        let store = state.runtime_env().object_store(ObjectStoreUrl::local_filesystem()).expect("a store");
        let files = [file];
        parquet_files(&state, &memory, &store, &files).await.expect("a footer");
        // What is asked of it from here on is answered without it.
        std::fs::remove_file(&path).expect("removed");
        for _ in 0..2 {
            let schema = ParquetFormat::default().infer_schema(&state, &store, &files).await.expect("a schema");
            assert_eq!(schema.field(0).name(), "a");
            parquet_files(&state, &memory, &store, &files).await.expect("a footer that is known");
        }
    }
}
