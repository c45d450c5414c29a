//! Files as tables: `FROM 'sales/*.parquet'`.
//!
//! A name that no table has is taken for a path: a file, a glob or a directory, of one format, that of the first file whose extension is
//! known. Directories named `key=value` become columns (integers or dates if all of them are, else text).
//!
//! Not here: reading.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, Weak},
};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::DataType,
    catalog::{TableProvider, UrlTableFactory},
    common::{plan_datafusion_err, plan_err},
    datasource::{
        file_format::FileFormat,
        listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl},
    },
    error::{DataFusionError, Result},
    execution::SessionState,
    object_store::{ObjectMeta, path::Path},
};
use futures::TryStreamExt;
use parking_lot::RwLock;

use crate::Error;

/// Makes tables of paths.
#[derive(Debug, Default)]
pub(crate) struct FileTables {
    session: OnceLock<Weak<RwLock<SessionState>>>,
}

impl FileTables {
    /// Tells the factory which session it serves, once.
    pub(crate) fn serve(&self, session: Weak<RwLock<SessionState>>) {
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
        let Ok(location) = ListingTableUrl::parse(url) else { return Ok(None) };
        let state = self
            .session
            .get()
            .and_then(Weak::upgrade)
            .map(|session| session.read().clone())
            .ok_or_else(|| plan_datafusion_err!("the session of '{url}' has ended"))?;
        let store = state.runtime_env().object_store(&location)?;
        let files: Vec<ObjectMeta> = match location.list_all_files(&state, store.as_ref(), "").await {
            Ok(files) => files.try_collect().await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        if files.is_empty() {
            return plan_err!("no table and no file is named '{url}'");
        }
        let Some((format, extension)) = files.iter().find_map(|file| format_of(&file.location, &state)) else {
            return plan_err!(
                "'{url}' has an extension that is not known; use one of .parquet, .csv, .tsv, .json, .ndjson, .arrow"
            );
        };
        let files: Vec<&Path> =
            files.iter().map(|file| &file.location).filter(|path| path.as_ref().ends_with(&extension)).collect();
        let options = ListingOptions::new(format?).with_file_extension(extension);
        let partitions = partition_columns(&location, &files);
        let options = options.with_table_partition_cols(partitions);
        let config = ListingTableConfig::new(location).with_listing_options(options);
        // What DataFusion says of a broken file does not name it.
        let config = config.infer_schema(&state).await.map_err(|error| match Error::from(error) {
            Error::Source(message) => {
                DataFusionError::External(Box::new(Error::Source(format!("cannot read '{url}': {message}"))))
            }
            other => DataFusionError::External(Box::new(other)),
        })?;
        let cache = state.runtime_env().cache_manager.get_file_statistic_cache();
        Ok(Some(Arc::new(ListingTable::try_new(config)?.with_cache(cache))))
    }
}

/// The format that the file's name tells, and the end of the name that tells it.
fn format_of(path: &Path, state: &SessionState) -> Option<(Result<Arc<dyn FileFormat>>, String)> {
    let name = path.filename()?;
    let mut options = HashMap::new();
    let (stem, compression) = match name.rsplit_once('.')? {
        (stem, "gz" | "GZ") => (stem, Some(".gz")),
        (stem, "bz2") => (stem, Some(".bz2")),
        (stem, "xz") => (stem, Some(".xz")),
        (stem, "zst") => (stem, Some(".zst")),
        _ => (name, None),
    };
    let (_, extension) = stem.rsplit_once('.')?;
    let format = match extension.to_lowercase().as_str() {
        "parquet" | "pq" | "parq" => "parquet",
        "csv" => "csv",
        "tsv" => {
            options.insert("format.delimiter".to_owned(), "\t".to_owned());
            "csv"
        }
        "json" | "ndjson" | "jsonl" => "json",
        "arrow" | "ipc" | "feather" => "arrow",
        _ => return None,
    };
    if let Some(compression) = compression {
        options.insert("format.compression".to_owned(), compression[1..].to_owned());
    }
    let format = state.get_file_format_factory(format)?.create(state, &options);
    Some((format, format!(".{extension}{}", compression.unwrap_or_default())))
}

/// Columns of the directories `key=value` between the location and its files; none unless all files have the same keys.
fn partition_columns(location: &ListingTableUrl, files: &[&Path]) -> Vec<(String, DataType)> {
    let mut columns: Option<Vec<(String, Vec<String>)>> = None;
    for file in files {
        let Some(parts) = location.strip_prefix(file) else { return Vec::new() };
        let mut parts: Vec<&str> = parts.collect();
        parts.pop();
        let pairs: Vec<_> = parts.into_iter().filter_map(|part| part.split_once('=')).collect();
        let columns =
            columns.get_or_insert_with(|| pairs.iter().map(|(key, _)| ((*key).to_owned(), Vec::new())).collect());
        if columns.len() != pairs.len() || columns.iter().zip(&pairs).any(|(column, pair)| column.0 != pair.0) {
            return Vec::new();
        }
        for (column, (_, value)) in columns.iter_mut().zip(pairs) {
            column.1.push(value.to_owned());
        }
    }
    columns.unwrap_or_default().into_iter().map(|(key, values)| (key, value_type(&values))).collect()
}

fn value_type(values: &[String]) -> DataType {
    // What would not print as it was written (leading zeros, a plus sign) stays text.
    if values.iter().all(|value| value.parse::<i64>().is_ok_and(|number| number.to_string() == *value)) {
        DataType::Int64
    } else if values.iter().all(|value| is_date(value)) {
        DataType::Date32
    } else {
        DataType::Utf8
    }
}

fn is_date(value: &str) -> bool {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(value.split('-').collect::<Vec<_>>().as_slice(),
        [year, month, day] if year.len() == 4 && month.len() == 2 && day.len() == 2
            && digits(year) && digits(month) && digits(day)
            && month.parse().is_ok_and(|m: u8| (1..=12).contains(&m))
            && day.parse().is_ok_and(|d: u8| (1..=31).contains(&d)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_values_are_numbers_or_dates_only_if_all_are() {
        let typed = |values: &[&str]| value_type(&values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>());
        assert_eq!(typed(&["2020", "-7"]), DataType::Int64);
        assert_eq!(typed(&["2020", "07"]), DataType::Utf8);
        assert_eq!(typed(&["2020-01-31", "1999-12-01"]), DataType::Date32);
        assert_eq!(typed(&["2020-01-31", "2020-13-01"]), DataType::Utf8);
    }
}
