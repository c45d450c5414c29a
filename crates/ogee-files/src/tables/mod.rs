//! Files as tables: `FROM 'sales/*.parquet'`.
//!
//! A name that no table has is taken for a path: a file, a pattern or a directory (`listing`), all of one format.
//! Directories named `key=value` become columns (`partitions`): integers or dates if all of them are, else text.
//!
//! Not here: reading.

mod caught;
mod checks;
mod listing;
mod partitions;
mod table;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock, Weak},
};

use async_trait::async_trait;
pub use caught::CaughtFormats;
pub use checks::CheckedTables;
use datafusion::{
    arrow::datatypes::{DataType, Field, Schema, SchemaRef},
    catalog::{TableProvider, UrlTableFactory},
    common::{plan_datafusion_err, plan_err},
    datasource::{file_format::FileFormat, listing::ListingTableUrl},
    error::Result,
    execution::{SessionState, object_store::ObjectStoreUrl},
    object_store::ObjectMeta,
};
use listing::{Found, list};
use ogee_functions::Error;
use ogee_memory::BufferManager;
use parking_lot::RwLock;
pub(crate) use partitions::NULL_VALUE;
use partitions::Partitions;
pub use table::FileTable;

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

#[async_trait]
impl UrlTableFactory for FileTables {
    async fn try_new(&self, url: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        // A misspelt table is not a missing file.
        if !url.contains(['.', '/', '\\', '*']) {
            return Ok(None);
        }
        let state = self
            .session
            .get()
            .and_then(Weak::upgrade)
            .map(|session| session.read().clone())
            .ok_or_else(|| plan_datafusion_err!("the session of '{url}' has ended"))?;
        let mut path = url.to_owned();
        if url.contains("://") {
            let Ok(location) = ListingTableUrl::parse(url) else { return Ok(None) };
            // Says which stores there are if it is another's.
            state.runtime_env().object_store(&location)?;
            path = format!("/{}", location.prefix());
        }
        let (kind, files) = files_of(&path, None)?;
        let format = kind.format(&state)?;
        let partitions = Partitions::of(&files.iter().collect::<Vec<_>>());
        let objects: Vec<ObjectMeta> =
            files.into_iter().map(|file| file.meta).filter(|file| file.size > 0 || kind.format == "csv").collect();
        let columns = if objects.is_empty() {
            // As DuckDB has it.
            Arc::new(Schema::new(vec![Field::new("json", DataType::Utf8View, true)]))
        } else {
            // What DataFusion says of a broken file does not name it.
            columns(&kind, &state, &self.memory, format.as_ref(), &objects).await.map_err(|error| match Error::from(
                error,
            ) {
                Error::Source(message) if !message.starts_with("'/") => {
                    Error::Source(format!("cannot read '{url}': {message}"))
                }
                other => other,
            })?
        };
        let statistics = state.runtime_env().cache_manager.get_file_statistic_cache();
        Ok(Some(Arc::new(FileTable::new(path, kind, format, &columns, partitions, statistics))))
    }
}

/// The columns of `files`.
async fn columns(
    kind: &Kind,
    state: &SessionState,
    memory: &Arc<BufferManager>,
    format: &dyn FileFormat,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    let store = state.runtime_env().object_store(ObjectStoreUrl::local_filesystem())?;
    let mut missing = HashSet::new();
    match kind.format {
        "parquet" => missing = checks::parquet_files(state, memory, files).await?,
        "arrow" => checks::arrow_files(memory, files)?,
        _ => {}
    }
    let schema = format.infer_schema(state, &store, files).await?;
    // What one of the files does not have is NULL there, whatever the others say.
    Ok(if missing.is_empty() { schema } else { Arc::new(checks::with_nulls(&schema, &missing)) })
}

/// What the names of files tell of their format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    format: &'static str,
    is_tabbed: bool,
    compression: Option<&'static str>,
}

impl Kind {
    /// `None` if the name tells nothing.
    fn of(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        let (stem, ending) = name.rsplit_once('.')?;
        let (stem, compression) = match ending {
            "gz" => (stem, Some("gz")),
            "bz2" => (stem, Some("bz2")),
            "xz" => (stem, Some("xz")),
            "zst" => (stem, Some("zst")),
            _ => (name.as_str(), None),
        };
        let (_, extension) = stem.rsplit_once('.')?;
        let format = match extension {
            "parquet" | "pq" | "parq" => "parquet",
            "csv" | "tsv" => "csv",
            "json" | "ndjson" | "jsonl" => "json",
            "arrow" | "ipc" | "feather" => "arrow",
            _ => return None,
        };
        Some(Self { format, is_tabbed: extension == "tsv", compression })
    }

    fn format(&self, state: &SessionState) -> Result<Arc<dyn FileFormat>> {
        let mut options = HashMap::new();
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

/// The files that `path` means, all of `kind` if that is known, and their kind.
fn files_of(path: &str, kind: Option<&Kind>) -> Result<(Kind, Vec<Found>)> {
    let listing = list(path)?;
    let is_asked_for = |name: &str| kind.is_none_or(|kind| Kind::of(name).as_ref() == Some(kind));
    let unreadable = listing.unreadable.iter().find(|other| {
        let name = other.path.to_string_lossy();
        // A directory that cannot be read may have anything in it.
        other.path.is_dir() || Kind::of(&name).is_some() && is_asked_for(&name)
    });
    if let Some(other) = unreadable {
        return Err(Error::Source(format!("cannot read '{}': {}", other.path.display(), other.why)).into());
    }
    if listing.files.is_empty() {
        return plan_err!("no table and no file is named '{path}'");
    }
    let known: Vec<(Kind, Found)> =
        listing.files.into_iter().filter_map(|file| Some((Kind::of(&file.given)?, file))).collect();
    let Some((first, example)) = known.first() else {
        return plan_err!(
            "'{path}' has an extension that is not known; use one of .parquet, .csv, .tsv, .json, .ndjson, .arrow"
        );
    };
    if let Some((other, file)) = known.iter().find(|(other, _)| other != first) {
        let what = match (first.format == other.format, first.compression == other.compression) {
            (false, _) => format!("{} and {} files", first.name(), other.name()),
            (true, false) => "compressed and other files".to_owned(),
            (true, true) => "files with tabs and with other delimiters".to_owned(),
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
        let kind = |format, is_tabbed, compression| Some(Kind { format, is_tabbed, compression });
        assert_eq!(Kind::of("a/b.PARQUET"), kind("parquet", false, None));
        assert_eq!(Kind::of("b.tsv.gz"), kind("csv", true, Some("gz")));
        assert_eq!(Kind::of("b.c.ndjson"), kind("json", false, None));
        assert_eq!(Kind::of("b.txt"), None);
        assert_eq!(Kind::of("csv"), None);
    }
}
