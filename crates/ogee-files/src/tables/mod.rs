//! Files as tables: `FROM 'sales/*.parquet'`.
//!
//! A name that no table has is taken for a path: a file, a pattern or a directory (`listing`), all of one format.
//! Directories named `key=value` become columns (`partitions`): integers or dates if all of them are, else text.
//!
//! Not here: reading.

mod caught;
mod checks;
mod contents;
mod drift;
mod facts;
mod listing;
mod marked;
mod one_state;
mod partitions;
mod reads;
mod sniffed;
mod table;

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
pub use caught::CaughtFormats;
pub use checks::CheckedTables;
use checks::Said;
use datafusion::{
    arrow::{
        array::{RecordBatch, StringViewArray},
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
    catalog::{TableProvider, UrlTableFactory},
    common::{plan_datafusion_err, plan_err},
    datasource::{MemTable, file_format::FileFormat, listing::ListingTableUrl},
    error::{DataFusionError, Result},
    execution::{SessionState, runtime_env::RuntimeEnv},
    object_store::ObjectMeta,
};
use listing::list;
pub(crate) use listing::{Found, Listing, is_pattern, matches_name};
use ogee_functions::{Error, marks::Mark};
use ogee_memory::BufferManager;
use parking_lot::RwLock;
use partitions::Partitions;
pub(crate) use partitions::{NULL_VALUE, decoded};
use reads::BETWEEN_PATHS;

pub use one_state::{state_of, with_one_state};
pub use reads::{Read, reads_files, reads_files_apart};
pub use table::FileTable;

use crate::{csv::CsvFormats, remote};

/// Whether statements may read and write files; an extension of a session's configuration.
#[derive(Debug, Default)]
pub struct ExternalAccess {
    is_denied: AtomicBool,
}

impl ExternalAccess {
    /// Whether they may.
    pub fn is_allowed(&self) -> bool {
        !self.is_denied.load(Ordering::Relaxed)
    }

    /// They may not from now on.
    pub fn deny(&self) {
        self.is_denied.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// If they may not.
    pub fn check(&self) -> ogee_functions::Result<()> {
        match self.is_allowed() {
            true => Ok(()),
            false => Err(Error::Plan("files are out of reach: enable_external_access is false".to_owned())),
        }
    }
}

/// Makes tables of paths.
#[derive(Debug)]
pub struct FileTables {
    session: OnceLock<Weak<RwLock<SessionState>>>,
    memory: Arc<BufferManager>,
}

impl FileTables {
    /// A factory that reserves memory for what it reads of files in `memory`.
    pub fn new(memory: &Arc<BufferManager>) -> Self {
        Self { session: OnceLock::new(), memory: Arc::clone(memory) }
    }

    /// Tells the factory which session it serves, once.
    pub fn serve(&self, session: Weak<RwLock<SessionState>>) {
        self.session.set(session).expect("a factory serves one session");
    }
}

impl FileTables {
    /// What the first of the files that `read` names looks like.
    async fn sniffed(&self, state: &SessionState, read: &Read, path: &str) -> Result<Arc<dyn TableProvider>> {
        let (_, files) = files_of(state.runtime_env(), path, Some(&read.kind()?)).await?;
        let Some(file) = files.first() else { return plan_err!("no file is named '{path}'") };
        let (options, columns) = read.options(state)?;
        let reading = CsvFormats::new(&self.memory).reading(state, &options)?;
        let store = remote::store_of(state.runtime_env(), path)?;
        let mut found = match remote::is_url(path) {
            true => {
                let meta = file.meta.clone();
                remote::apart(async move { reading.sniffed(&store, &meta).await }).await?
            }
            false => reading.sniffed(&store, &file.meta).await?,
        };
        let fields = found.columns.iter().map(|(name, data_type)| Field::new(name, data_type.clone(), true));
        let fields = Schema::new(fields.collect::<Vec<_>>());
        let given = columns.declared().map_or_else(|| columns.of(&fields), Ok)?;
        let field = |field: &Arc<Field>| (field.name().clone(), field.data_type().clone());
        found.columns = given.fields().iter().map(field).collect();
        sniffed::table(&found, path, read.said())
    }
}

#[async_trait]
impl UrlTableFactory for FileTables {
    async fn try_new(&self, url: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let read = Read::of(url);
        let url = read.as_ref().map_or(url, |read| read.path.as_str());
        let is_list = url.contains(BETWEEN_PATHS);
        // A misspelt table is not a missing file.
        if read.is_none() && !url.contains(['.', '/', '\\', '*']) {
            return Ok(None);
        }
        let state = self
            .session
            .get()
            .and_then(Weak::upgrade)
            .map(|session| state_of(&session))
            .ok_or_else(|| plan_datafusion_err!("the session of '{url}' has ended"))?;
        if let Some(access) = state.config().get_extension::<ExternalAccess>() {
            access.check().map_err(|error| DataFusionError::External(Box::new(error)))?;
        }
        let mut path = url.to_owned();
        let is_remote = is_remote(url)?;
        if url.contains("://") && !is_list && !is_remote {
            let Ok(location) = ListingTableUrl::parse(url) else { return Ok(None) };
            // Says which stores there are if it is another's.
            state.runtime_env().object_store(&location)?;
            path = format!("/{}", location.prefix());
        }
        if read.as_ref().is_some_and(Read::is_glob) {
            return Ok(Some(names_of(state.runtime_env(), &path).await?));
        }
        if let Some(read) = &read
            && read.is_sniff()
        {
            return Ok(Some(self.sniffed(&state, read, &path).await?));
        }
        if let Some(read) = &read
            && let Some(table) = read.of_files(state.runtime_env(), &self.memory).await?
        {
            return Ok(Some(table));
        }
        let given = read.as_ref().map(Read::kind).transpose()?;
        let (options, mut given_columns) =
            read.as_ref().map(|read| read.options(&state)).transpose()?.unwrap_or_default();
        if let Some(read) = &read {
            read.take_columns_of_table(&state, &mut given_columns).await?;
        }
        let (kind, files) = files_of(state.runtime_env(), &path, given.as_ref()).await?;
        if is_remote && kind.format == "arrow" {
            let why = format!("'{}': Arrow files are read from this machine only; copy it here", address_of(url));
            return Err(Error::Unsupported(why).into());
        }
        let format = kind.format(&state, &options)?;
        let mut partitions = match given_columns.ignores_directories {
            true => Partitions::default(),
            false => Partitions::of(&files.iter().collect::<Vec<_>>()),
        };
        partitions.cast(&given_columns.directory_types, given_columns.directories_are_text)?;
        if let Some(name) = &given_columns.file_name {
            partitions.add_file_names(name);
        }
        let objects: Vec<ObjectMeta> =
            files.into_iter().map(|file| file.meta).filter(|file| file.size > 0 || kind.format == "csv").collect();
        let columns = if let Some(declared) = given_columns.declared() {
            declared
        } else if objects.is_empty() {
            // As DuckDB has it.
            Arc::new(Schema::new(vec![Mark::Json.field("json")]))
        } else {
            // What DataFusion says of a broken file does not name it.
            columns(&kind, &state, &self.memory, &path, &format, &objects).await.map_err(|error| {
                match Error::from(error) {
                    Error::Source(message) if !message.starts_with("'/") && !message.contains("://") && !is_list => {
                        Error::Source(format!("cannot read '{}': {message}", address_of(url)))
                    }
                    other => other,
                }
            })?
        };
        // A format that has found columns reads those; one that has not, what it is told.
        let (format, columns) = match given_columns.are_given() {
            true if given_columns.declared().is_some() => (format, columns),
            true => (kind.format(&state, &options)?, given_columns.of(&columns)?),
            false => (format, columns),
        };
        let statistics = state.runtime_env().cache_manager.get_file_statistic_cache();
        if let Some(name) = &given_columns.file_name
            && columns.fields().iter().any(|field| field.name().eq_ignore_ascii_case(name))
        {
            return plan_err!(
                "the files have a column '{name}' already; give the one of their names another with filename = 'name'"
            );
        }
        let is_parquet = kind.format == "parquet";
        let table = Arc::new(FileTable::new(path, kind, format, &columns, partitions, statistics));
        if is_parquet { marked::table(table, &self.memory).map(Some) } else { Ok(Some(table)) }
    }
}

/// The columns of `files`.
async fn columns(
    kind: &Kind,
    state: &SessionState,
    memory: &Arc<BufferManager>,
    path: &str,
    format: &Arc<dyn FileFormat>,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    let store = remote::store_of(state.runtime_env(), path)?;
    let mut said = Said::default();
    match kind.format {
        "parquet" => said = checks::parquet_files(state, memory, &store, files).await?,
        "arrow" => checks::arrow_files(memory, files)?,
        _ => {}
    }
    let schema = match remote::is_url(path) {
        true => {
            let (format, state, files) = (Arc::clone(format), state.clone(), files.to_vec());
            remote::apart(async move { drift::columns(&*format, &state, &store, &files).await }).await?
        }
        false => drift::columns(&**format, state, &store, files).await?,
    };
    // What one of the files does not have is NULL there, whatever the others say.
    let schema = if said.missing.is_empty() { schema } else { Arc::new(checks::with_nulls(&schema, &said.missing)) };
    Ok(marked::schema(schema, &said))
}

/// The names of the files that `path` means, as a table.
async fn names_of(runtime: &RuntimeEnv, path: &str) -> Result<Arc<dyn TableProvider>> {
    // What matches nothing is no table of names, but no error either.
    let mut names: Vec<String> = list_any(runtime, path).await?.files.into_iter().map(|file| file.given).collect();
    names.sort();
    let schema = Arc::new(Schema::new(vec![Field::new("file", DataType::Utf8View, true)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(StringViewArray::from(names))])?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// Whether `name` ends as names of files do that can be read.
pub fn is_file_name(name: &str) -> bool {
    Kind::of(name).is_some()
}

/// What the names of files tell of their format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    format: &'static str,
    is_tabbed: bool,
    /// If it is said; else the name of each file tells.
    compression: Option<&'static str>,
    /// The format was given: names tell at most of compression.
    is_given: bool,
}

impl Kind {
    /// `None` if the name tells nothing.
    fn of(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        let stem = uncompressed(&name);
        let (_, extension) = stem.rsplit_once('.')?;
        let format = match extension {
            "parquet" | "pq" | "parq" => "parquet",
            "csv" | "tsv" => "csv",
            "json" | "ndjson" | "jsonl" => "json",
            "arrow" | "ipc" | "feather" => "arrow",
            _ => return None,
        };
        Some(Self { format, is_tabbed: extension == "tsv", compression: None, is_given: false })
    }

    /// What a file called `name` is, if it may be one of these.
    fn of_file(&self, name: &str) -> Option<Self> {
        if !self.is_given {
            return Self::of(name).filter(|kind| kind == self);
        }
        Some(self.clone())
    }

    fn format(&self, state: &SessionState, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let mut options = options.clone();
        if self.is_tabbed {
            options.insert("format.delimiter".to_owned(), "\t".to_owned());
        }
        if let Some(compression) = self.compression {
            options.insert("format.compression".to_owned(), compression.to_owned());
        }
        let factory = state.get_file_format_factory(self.format);
        let factory = factory.ok_or_else(|| plan_datafusion_err!("there is no format '{}'", self.format))?;
        factory.create(state, &options)
    }

    /// Whether no bytes are a table without rows.
    fn may_be_empty(&self) -> bool {
        matches!(self.format, "csv" | "json")
    }

    /// As users know it.
    fn name(&self) -> &'static str {
        match self.format {
            "parquet" => "Parquet",
            "csv" => "CSV",
            "json" => "JSON",
            _ => "Arrow",
        }
    }
}

/// `name` without the ending of a compression.
fn uncompressed(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, "gz" | "bz2" | "xz" | "zst")) => stem,
        _ => name,
    }
}

/// Whether `path` is a URL, or a list of some.
///
/// # Errors
/// Some files of a list are here and some are not.
fn is_remote(path: &str) -> Result<bool> {
    let (urls, others): (Vec<&str>, Vec<&str>) = path.split(BETWEEN_PATHS).partition(|path| remote::is_url(path));
    match (urls.first(), others.first()) {
        (Some(url), Some(other)) => plan_err!(
            "'{}' and '{other}' are not read as one table: some files are here and some are not; use UNION ALL BY NAME",
            address_of(url)
        ),
        (url, _) => Ok(url.is_some()),
    }
}

/// `path` as it may be told: what is secret in a URL is not.
fn address_of(path: &str) -> String {
    if remote::is_url(path) { remote::bare(path) } else { path.to_owned() }
}

/// The files that `path` means, here or behind a URL.
async fn list_any(runtime: &RuntimeEnv, path: &str) -> Result<Listing> {
    match remote::is_url(path) {
        true => remote::listing::list(&remote::store_of(runtime, path)?, path).await,
        false => Ok(list(path)?),
    }
}

/// The files that `path` means, all of `kind` if that is known, and their kind.
async fn files_of(runtime: &RuntimeEnv, path: &str, kind: Option<&Kind>) -> Result<(Kind, Vec<Found>)> {
    let mut listings = Vec::new();
    for path in path.split(BETWEEN_PATHS) {
        listings.push(list_any(runtime, path).await?);
    }
    files_in(path, listings, kind)
}

/// As [`files_of`], of files here.
fn files_here(path: &str, kind: Option<&Kind>) -> Result<(Kind, Vec<Found>)> {
    let listings = path.split(BETWEEN_PATHS).map(list).collect::<ogee_functions::Result<_>>()?;
    files_in(path, listings, kind)
}

/// As [`files_of`], where each of the paths in `path` means what is listed.
fn files_in(path: &str, listings: Vec<Listing>, kind: Option<&Kind>) -> Result<(Kind, Vec<Found>)> {
    let mut listing = Listing::default();
    for (path, found) in path.split(BETWEEN_PATHS).zip(listings) {
        let path = address_of(path);
        if found.files.is_empty() && found.unreadable.is_empty() {
            return plan_err!("no table and no file is named '{path}'");
        }
        // Files are read in the order of the list, also twice.
        listing.files.extend(found.files);
        listing.unreadable.extend(found.unreadable);
    }
    let path = path.split(BETWEEN_PATHS).map(address_of).collect::<Vec<_>>().join("', '");
    let kind_of = |name: &str| kind.map_or_else(|| Kind::of(name), |kind| kind.of_file(name));
    let unreadable = listing.unreadable.iter().find(|other| {
        // A directory that cannot be read may have anything in it.
        other.path.is_dir() || kind_of(&other.path.to_string_lossy()).is_some()
    });
    if let Some(other) = unreadable {
        return Err(Error::Source(format!("cannot read '{}': {}", other.path.display(), other.why)).into());
    }
    // A table of one kind is not to have others.
    let known_of = |name: &str| match kind {
        Some(kind) if kind.is_given => kind.of_file(name),
        _ => Kind::of(name),
    };
    if listing.files.is_empty() {
        return plan_err!("no table and no file is named '{path}'");
    }
    let known: Vec<(Kind, Found)> =
        listing.files.into_iter().filter_map(|file| Some((known_of(&file.given)?, file))).collect();
    let Some((first, example)) = known.first() else {
        return plan_err!(
            "'{path}' has an extension that is not known; use one of .parquet, .csv, .tsv, .json, .ndjson, .arrow"
        );
    };
    if let Some((other, file)) = known.iter().find(|(other, _)| other != first) {
        let what = match first.format == other.format {
            false => format!("{} and {} files", first.name(), other.name()),
            true => "files with tabs and with other delimiters".to_owned(),
        };
        return plan_err!(
            "'{path}' has {what} ('{}' and '{}'), and a table has files of one kind; \
             name them with a pattern such as '*.{}'",
            example.given,
            file.given,
            example.given.rsplit_once('.').map_or("", |(_, extension)| extension)
        );
    }
    let kind = first.clone();
    if let Some((_, empty)) = known.iter().find(|(kind, file)| file.meta.size == 0 && !kind.may_be_empty()) {
        let (given, name) = (&empty.given, kind.name());
        return Err(Error::Source(format!("'{given}' is no {name} file: it is empty")).into());
    }
    Ok((kind, known.into_iter().map(|(_, file)| file).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_format() {
        let kind = |format, is_tabbed| Some(Kind { format, is_tabbed, compression: None, is_given: false });
        assert_eq!(Kind::of("a/b.PARQUET"), kind("parquet", false));
        assert_eq!(Kind::of("b.tsv.gz"), kind("csv", true));
        assert_eq!(Kind::of("b.c.ndjson"), kind("json", false));
        assert_eq!(Kind::of("b.txt"), None);
        assert_eq!(Kind::of("csv"), None);
    }
}
