//! Files by URL: in S3 and what speaks its protocol, in Google Cloud Storage, in Azure, and on the web.
//!
//! ```text
//!  's3://b/d/*.parquet' ── address ──> prefix, pattern ── listing ──> 's3:/b/d/x.parquet' ──> readers, as of files here
//!                                                                          │ stores: whose client, with which secret
//!                                                                          └─> requests on a runtime of their own
//! ```
//!
//! What `COPY` writes is held until all of it is written.
//!
//! All of them are one store to the planner, in which the first part of a location is the scheme and the second the bucket or the host. So a plan needs no client, and two
//! files of one name in two buckets are told apart wherever something is kept of them. Which secret opens a file is looked up when it is read.
//!
//! What speaks to servers is compiled with the feature `remote` only. Addresses, patterns and secrets are known without it.
//!
//! Not here: what is in the files.

mod address;
mod apart;
#[cfg(feature = "remote")]
mod clients;
#[cfg(feature = "remote")]
mod failures;
#[cfg(feature = "remote")]
mod held;
pub(crate) mod listing;
#[cfg(feature = "remote")]
mod network;
pub(crate) mod parquet;
mod secrets;
#[cfg(feature = "remote")]
mod stores;
#[cfg(feature = "remote")]
mod uploads;

use std::sync::Arc;

use datafusion::{
    error::Result,
    execution::{object_store::ObjectStoreUrl, runtime_env::RuntimeEnv},
    object_store::{ObjectStore, path::Path},
};
use ogee_functions::Error;
use ogee_memory::BufferManager;

pub(crate) use address::{Address, bare};
pub(crate) use apart::{Incoming, apart, batches};
#[cfg(feature = "remote")]
pub(crate) use held::Held;
pub use secrets::{NewSecret, Secrets, ToldSecret};

/// What the store of all of them is called.
const STORE: &str = "remote://ogee";

/// Whether `path` is a URL of a kind that is known here.
pub fn is_url(path: &str) -> bool {
    address::scheme_of(path).is_some()
}

/// Whether a file of this location is here, or behind a URL.
pub(crate) fn is_remote(location: &Path) -> bool {
    address::url_of(location.as_ref()).is_some()
}

/// A file as users know it.
pub(crate) fn shown(location: &Path) -> String {
    address::url_of(location.as_ref()).unwrap_or_else(|| format!("/{location}"))
}

/// The part of a location that names the file.
pub(crate) fn without_query(location: &str) -> &str {
    location.split(address::QUERY).next().unwrap_or(location)
}

/// Where the planner finds the store that the files of `path` are in.
///
/// # Errors
/// None, for the names that there are.
pub(crate) fn store_url(path: &str) -> Result<ObjectStoreUrl> {
    if is_url(path) { ObjectStoreUrl::parse(STORE) } else { Ok(ObjectStoreUrl::local_filesystem()) }
}

/// The store that the files of `path` are in.
///
/// # Errors
/// The path is a URL, and this build cannot open any.
pub(crate) fn store_of(runtime: &RuntimeEnv, path: &str) -> Result<Arc<dyn ObjectStore>> {
    let url = store_url(path)?;
    match is_url(path) {
        true => runtime.object_store(&url).map_err(|_| none(path).into()),
        false => runtime.object_store(&url),
    }
}

/// The files of a copy that are written by URL: none, since this build opens none.
#[cfg(not(feature = "remote"))]
#[derive(Debug)]
pub(crate) struct Held;

#[cfg(not(feature = "remote"))]
impl Held {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn location(&self, location: &Path) -> String {
        location.to_string()
    }

    pub(crate) fn error(&self) -> Option<String> {
        None
    }

    #[expect(clippy::unused_async, reason = "as with the feature")]
    pub(crate) async fn finish(self) -> Result<()> {
        Ok(())
    }
}

/// What the planner calls the file of `address` that is written, as one of `copy`.
///
/// # Errors
/// Stores take no such name.
pub(crate) fn written(address: &Address, copy: &Held) -> Result<String> {
    let mut url = format!("{STORE}/");
    for byte in copy.location(&address.location()?).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'=' | b':' => url.push(byte.into()),
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    Ok(url)
}

/// Files by URL cannot be opened.
fn none(path: &str) -> Error {
    Error::Unsupported(format!(
        "'{}': this build of Ogee opens no files by URL; build it with the feature `remote`, or copy the file to this machine",
        path.split('?').next().unwrap_or(path)
    ))
}

/// Lets sessions of `runtime` open files by URL, with `secrets`, and memory of `memory` for what is on its way.
#[cfg(feature = "remote")]
pub fn register(
    runtime: &RuntimeEnv,
    memory: &Arc<BufferManager>,
    secrets: &Arc<Secrets>,
) -> ogee_functions::Result<()> {
    let url = ObjectStoreUrl::parse(STORE)?;
    let _ = runtime.register_object_store(url.as_ref(), Arc::new(stores::Stores::new(memory, secrets)));
    Ok(())
}

/// Nothing: this build opens no files by URL.
///
/// # Errors
/// None.
#[cfg(not(feature = "remote"))]
pub fn register(_: &RuntimeEnv, _: &Arc<BufferManager>, _: &Arc<Secrets>) -> ogee_functions::Result<()> {
    Ok(())
}
