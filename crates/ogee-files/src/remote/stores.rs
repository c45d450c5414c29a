//! The store of all files by URL: whose client a location is for, and what is promised to what is on its way.
//!
//! 1. Requests run on the runtime of `network`, and end with those who wait for them.
//! 2. No more than [`AT_ONCE`] requests wait for an answer.
//! 3. Bytes of a range are promised their memory before they are asked for, until the last reader of them is done.
//! 4. An error says which URL it is about, and nothing of what is secret.
//!
//! Not here: clients, and what their errors say.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use ogee_memory::{BufferManager, Reservation};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Address, Secrets,
    clients::{Client, connect, secret_kind},
    failures::{refused, told},
    held::{self, File, noted},
    network::{in_time, items, next, run, said},
    uploads::Upload,
};

/// Requests that wait for an answer at once.
const AT_ONCE: usize = 32;

/// Clients that are kept: each has connections to its server.
const CLIENTS_KEPT: usize = 32;

/// Whom memory is promised to.
pub(super) const CONSUMER: &str = "file by URL";

/// Which client: of the place, and the number of the secret, if there is one.
type Key = (Address, u64);

/// The store.
pub(super) struct Stores {
    secrets: Arc<Secrets>,
    memory: Arc<BufferManager>,
    /// The last used is the last.
    clients: Mutex<Vec<(Key, Arc<Client>)>>,
    requests: Arc<Semaphore>,
}

/// Whom to ask for a file, and by which name.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) client: Arc<Client>,
    pub(super) address: Address,
    /// The name that the client knows.
    pub(super) path: Path,
}

impl Place {
    /// `error` as users are told it.
    pub(super) fn told(&self, error: Error) -> Error {
        told(&self.address, &self.client, error)
    }
}

impl Stores {
    pub(super) fn new(memory: &Arc<BufferManager>, secrets: &Arc<Secrets>) -> Self {
        Self {
            secrets: Arc::clone(secrets),
            memory: Arc::clone(memory),
            clients: Mutex::default(),
            requests: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Where the file at `location` is.
    fn place(&self, location: &Path) -> Result<Place> {
        let Some(address) = Address::at(location.as_ref()) else {
            return Err(said(format!("'{location}' is no place of files by URL")));
        };
        let path = Path::parse(&address.key)?;
        let secret = self.secrets.of(&address.url(), secret_kind(address.scheme));
        let number = secret.as_ref().map_or(0, |secret| secret.number);
        let key = (Address { key: String::new(), ..address.clone() }, number);
        let mut clients = self.clients.lock();
        let client = match clients.iter().position(|(known, _)| *known == key) {
            Some(at) => clients.remove(at).1,
            None => Arc::new(connect(&address, secret.as_deref()).map_err(|error| refused(&address, error))?),
        };
        if clients.len() >= CLIENTS_KEPT {
            clients.remove(0);
        }
        clients.push((key, Arc::clone(&client)));
        drop(clients);
        Ok(Place { client, address, path })
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.requests).acquire_owned().await;
        permit.map_err(|_| said("requests have ended".to_owned()))
    }

    fn promise(&self, bytes: usize) -> Result<Reservation> {
        let promised = self.memory.reserve(CONSUMER, bytes);
        promised.map_err(|error| Error::Generic { store: "", source: Box::new(ogee_functions::Error::from(error)) })
    }
}

/// Bytes, and the promise of their memory.
struct Promised {
    bytes: Vec<u8>,
    _memory: Reservation,
}

impl AsRef<[u8]> for Promised {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes of a part of a file, `length` of them.
async fn part(place: &Place, options: GetOptions, length: usize) -> Result<(GetResult, Vec<u8>)> {
    let mut result = in_time(place.client.store.get_opts(&place.path, options)).await?;
    let taken = std::mem::replace(&mut result.payload, GetResultPayload::Stream(stream::empty().boxed()));
    let GetResultPayload::Stream(mut parts) = taken else {
        return Err(said("a client gave a file in place of its bytes".to_owned()));
    };
    let mut bytes = Vec::with_capacity(length);
    while let Some(part) = next(&mut parts).await? {
        bytes.extend_from_slice(&part);
    }
    Ok((result, bytes))
}

#[async_trait]
impl ObjectStore for Stores {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if let Some((number, location)) = held::of(location) {
            let place = self.place(&location).map_err(|error| noted(Some(number), error))?;
            let memory = self.promise(payload.content_length())?;
            held::keep(number, File::Whole { payload, options, place, _memory: memory })?;
            return Ok(PutResult { e_tag: None, version: None });
        }
        let place = self.place(location)?;
        let (permit, at) = (self.permit().await?, place.clone());
        let put = run(async move {
            let _permit = permit;
            in_time(at.client.store.put_opts(&at.path, payload, options)).await
        });
        put.await.map_err(|error| place.told(error))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (copy, location) = match held::of(location) {
            Some((number, location)) => (Some(number), location),
            None => (None, location.clone()),
        };
        let place = self.place(&location).map_err(|error| noted(copy, error))?;
        let (permit, at) = (self.permit().await?, place.clone());
        let begun = run(async move {
            let _permit = permit;
            in_time(at.client.store.put_multipart_opts(&at.path, options)).await
        });
        let upload = begun.await.map_err(|error| noted(copy, place.told(error)))?;
        Ok(Box::new(Upload::new(upload, place, copy, Arc::clone(&self.requests), Arc::clone(&self.memory))))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let place = self.place(location)?;
        let (permit, at) = (self.permit().await?, place.clone());
        let length = match &options.range {
            Some(GetRange::Bounded(range)) => range.end.saturating_sub(range.start),
            Some(GetRange::Suffix(length)) => *length,
            _ => 0,
        };
        let length = usize::try_from(length).map_err(|_| said("a range of a file is too long".to_owned()))?;
        let mut result = if options.head || length > 0 {
            let memory = self.promise(length)?;
            let asked = run(async move {
                let _permit = permit;
                part(&at, options, length).await
            });
            let (mut result, bytes) = asked.await.map_err(|error| place.told(error))?;
            let bytes = Bytes::from_owner(Promised { bytes, _memory: memory });
            result.payload = GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed());
            result
        } else {
            let asked = run(async move {
                let _permit = permit;
                in_time(at.client.store.get_opts(&at.path, options)).await
            });
            let mut result = asked.await.map_err(|error| place.told(error))?;
            let taken = std::mem::replace(&mut result.payload, GetResultPayload::Stream(stream::empty().boxed()));
            if let GetResultPayload::Stream(parts) = taken {
                let parts = items(move || parts).map_err(move |error| place.told(error));
                result.payload = GetResultPayload::Stream(parts.boxed());
            }
            result
        };
        result.meta.location = location.clone();
        Ok(result)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let none = |_| Err(said("files by URL are not removed".to_owned()));
        locations.and_then(move |location| futures::future::ready(none(location))).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let place = match prefix.map(|prefix| self.place(prefix)) {
            Some(Ok(place)) => place,
            Some(Err(error)) => return stream::iter([Err(error)]).boxed(),
            None => return stream::iter([Err(said("there is no list of all places of files".to_owned()))]).boxed(),
        };
        let at = place.clone();
        let found = items(move || at.client.store.list((!at.path.as_ref().is_empty()).then_some(&at.path)));
        found
            .map(move |meta| {
                let mut meta = meta.map_err(|error| place.told(error))?;
                meta.location = located(&place.address, &meta.location)?;
                Ok(meta)
            })
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let Some(prefix) = prefix else { return Err(said("there is no list of all places of files".to_owned())) };
        let place = self.place(prefix)?;
        let (permit, at) = (self.permit().await?, place.clone());
        let asked = run(async move {
            let _permit = permit;
            in_time(at.client.store.list_with_delimiter((!at.path.as_ref().is_empty()).then_some(&at.path))).await
        });
        let mut result = asked.await.map_err(|error| place.told(error))?;
        for meta in &mut result.objects {
            meta.location = located(&place.address, &meta.location)?;
        }
        for prefix in &mut result.common_prefixes {
            *prefix = located(&place.address, prefix)?;
        }
        Ok(result)
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        Err(said("files by URL are not copied in their store".to_owned()))
    }
}

/// Where `path` of the same place is in the store of all.
fn located(address: &Address, path: &Path) -> Result<Path> {
    address.location_of(path.as_ref()).map_err(|error| Error::Generic { store: "", source: error.to_string().into() })
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stores")
    }
}

impl fmt::Display for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("files by URL")
    }
}
