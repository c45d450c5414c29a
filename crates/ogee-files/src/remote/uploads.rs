//! A file that is written in parts, which is there when all are: what is not finished is given up, also where nobody says so.
//!
//! Not here: who cuts the parts.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use futures::FutureExt;
use ogee_memory::BufferManager;
use tokio::sync::Semaphore;

use super::{
    held::{self, File, noted},
    network::{in_time, run, run_alone, said},
    stores::{CONSUMER, Place},
};

/// Such a file.
pub(super) struct Upload {
    /// `None` when it is finished, or given up.
    upload: Option<Box<dyn MultipartUpload>>,
    place: Place,
    /// The number of the copy that finishes it.
    copy: Option<u64>,
    requests: Arc<Semaphore>,
    memory: Arc<BufferManager>,
}

impl Upload {
    pub(super) fn new(
        upload: Box<dyn MultipartUpload>,
        place: Place,
        copy: Option<u64>,
        requests: Arc<Semaphore>,
        memory: Arc<BufferManager>,
    ) -> Self {
        Self { upload: Some(upload), place, copy, requests, memory }
    }

    fn taken(&mut self) -> Result<Box<dyn MultipartUpload>> {
        self.upload.take().ok_or_else(|| said("a file was finished twice".to_owned()))
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let Some(upload) = &mut self.upload else {
            return futures::future::ready(Err(said("a file was finished before its last part".to_owned()))).boxed();
        };
        // Until the part has arrived.
        let memory = self.memory.reserve(CONSUMER, data.content_length());
        let memory = match memory {
            Ok(memory) => memory,
            Err(error) => {
                let source = Box::new(ogee_functions::Error::from(error));
                let error = noted(self.copy, datafusion::object_store::Error::Generic { store: "", source });
                return futures::future::ready(Err(error)).boxed();
            }
        };
        let (part, requests, place) = (upload.put_part(data), Arc::clone(&self.requests), self.place.clone());
        let copy = self.copy;
        async move {
            let permit = requests.acquire_owned().await.map_err(|_| said("requests have ended".to_owned()))?;
            let sent = run(async move {
                let _held = (permit, memory);
                in_time(part).await
            });
            sent.await.map_err(|error| noted(copy, place.told(error)))
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let mut upload = self.taken()?;
        if let Some(number) = self.copy {
            let (place, requests) = (self.place.clone(), Arc::clone(&self.requests));
            let whole = Self::new(upload, place, None, requests, Arc::clone(&self.memory));
            held::keep(number, File::Parts(whole))?;
            return Ok(PutResult { e_tag: None, version: None });
        }
        let finished = run(async move {
            let result = in_time(upload.complete()).await;
            if result.is_err() {
                // What is wrong is told already.
                let _ = in_time(upload.abort()).await;
            }
            result
        });
        finished.await.map_err(|error| self.place.told(error))
    }

    async fn abort(&mut self) -> Result<()> {
        let mut upload = self.taken()?;
        run(async move { in_time(upload.abort()).await }).await.map_err(|error| self.place.told(error))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            run_alone(async move {
                // Nobody is there to be told.
                let _ = upload.abort().await;
            });
        }
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("to", &self.place.address.url()).finish_non_exhaustive()
    }
}
