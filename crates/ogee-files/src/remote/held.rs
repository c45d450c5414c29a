//! Files that were written and are not there yet: those of a `COPY` are finished when it is.
//!
//! Writers finish what they have begun, also where rows fail later. So the locations that a copy writes to have its number, and what is finished there waits until the copy is done, or is given up
//! with it.
//!
//! Not here: parts of files (`uploads`).

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use datafusion::object_store::{Error, MultipartUpload, PutOptions, PutPayload, Result, path::Path};
use ogee_memory::Reservation;
use parking_lot::Mutex;

use super::{
    network::{in_time, run, said},
    stores::Place,
    uploads::Upload,
};

/// What such locations begin with, before the number of the copy.
const HELD: &str = "held:";

/// What waits, and what went wrong first, by the numbers of copies.
static WAITING: Mutex<BTreeMap<u64, Waiting>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Waiting {
    files: Vec<File>,
    error: Option<String>,
}

/// A file that is written.
pub(super) enum File {
    /// It was short enough for one request.
    Whole { payload: PutPayload, options: PutOptions, place: Place, _memory: Reservation },
    /// All parts have arrived.
    Parts(Upload),
}

/// The files of one copy; those that have not been finished are given up.
#[derive(Debug)]
pub(crate) struct Held(u64);

impl Held {
    /// None yet.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        WAITING.lock().insert(number, Waiting::default());
        Self(number)
    }

    /// Where the file at `location` is written.
    pub(crate) fn location(&self, location: &Path) -> String {
        format!("{HELD}/{}/{location}", self.0)
    }

    /// What went wrong first with a server, since writers tell of it in their own words.
    pub(crate) fn error(&self) -> Option<String> {
        WAITING.lock().get(&self.0)?.error.clone()
    }

    /// Has the files be there.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) async fn finish(self) -> Result<()> {
        let files = WAITING.lock().get_mut(&self.0).map(|waiting| std::mem::take(&mut waiting.files));
        for file in files.unwrap_or_default() {
            match file {
                File::Whole { payload, options, place, _memory } => {
                    let at = place.clone();
                    let put = run(async move { in_time(at.client.store.put_opts(&at.path, payload, options)).await });
                    put.await.map_err(|error| place.told(error))?;
                }
                File::Parts(mut upload) => {
                    upload.complete().await?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Uploads that are dropped are given up.
        let waiting = WAITING.lock().remove(&self.0);
        drop(waiting);
    }
}

/// The number of the copy that writes to `location`, and where that is; `None` if it is none of a copy.
pub(super) fn of(location: &Path) -> Option<(u64, Path)> {
    let (number, rest) = location.as_ref().strip_prefix(HELD)?.strip_prefix('/')?.split_once('/')?;
    Some((number.parse().ok()?, Path::parse(rest).ok()?))
}

/// Keeps `file` until copy `number` is done.
///
/// # Errors
/// It has been given up.
pub(super) fn keep(number: u64, file: File) -> Result<()> {
    match WAITING.lock().get_mut(&number) {
        Some(waiting) => {
            waiting.files.push(file);
            Ok(())
        }
        None => Err(said("a copy was given up".to_owned())),
    }
}

/// `error`, which is noted as what went wrong with copy `number`, if it is the first.
pub(super) fn noted(number: Option<u64>, error: Error) -> Error {
    if let Some(number) = number
        && let Some(waiting) = WAITING.lock().get_mut(&number)
    {
        waiting.error.get_or_insert_with(|| super::failures::text(&error));
    }
    error
}
