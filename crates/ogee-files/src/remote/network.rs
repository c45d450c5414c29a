//! The runtime of requests: one thread, which nothing else runs on, so that nobody who waits for bytes keeps them from coming.
//!
//! What is requested ends when nobody waits for it any more, and when the server is silent for too long.
//!
//! Not here: what is requested.

use std::{io, sync::LazyLock, time::Duration};

use datafusion::object_store::{Error, Result};
use futures::{
    FutureExt, StreamExt,
    stream::{self, BoxStream},
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};

/// How long a request may take until it is answered, with all attempts.
const ANSWERED: Duration = Duration::from_secs(60);

/// How long a server may be silent in the middle of what it sends.
pub(super) const SILENT: Duration = Duration::from_secs(30);

/// Parts of an answer that wait for those who read them; of some kilobytes each.
const WAITING: usize = 8;

static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    // Names of hosts are looked up by threads that block.
    Builder::new_multi_thread().worker_threads(1).max_blocking_threads(4).thread_name("ogee-net").enable_all().build()
});

fn runtime() -> Result<&'static Handle> {
    match &*RUNTIME {
        Ok(runtime) => Ok(runtime.handle()),
        Err(error) => Err(said(format!("there is no thread for requests: {error}"))),
    }
}

/// An error that says `message`.
pub(super) fn said(message: String) -> Error {
    Error::Generic { store: "", source: message.into() }
}

/// A task that ends when nobody waits for it.
struct Awaited<T>(JoinHandle<T>);

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What `request` gives.
///
/// # Errors
/// Those of the request.
pub(super) async fn run<T: Send + 'static>(request: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let mut task = Awaited(runtime()?.spawn(request));
    match (&mut task.0).await {
        Ok(result) => result,
        Err(error) => Err(said(format!("a request ended: {error}"))),
    }
}

/// As [`run`], though nobody waits for it.
pub(super) fn run_alone(request: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = runtime() {
        drop(runtime.spawn(timeout(ANSWERED, request).map(drop)));
    }
}

/// What `request` gives, if it does in time. Call on the runtime.
///
/// # Errors
/// Those of the request, and that it takes too long.
pub(super) async fn in_time<T>(request: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || said(format!("the server has not answered for {} seconds", ANSWERED.as_secs()));
    timeout(ANSWERED, request).await.unwrap_or_else(|_| Err(late()))
}

/// The next of `items`, if it comes in time. Call on the runtime.
///
/// # Errors
/// Those of the items, and that none comes for too long.
pub(super) async fn next<T>(items: &mut BoxStream<'static, Result<T>>) -> Result<Option<T>> {
    match timeout(SILENT, items.next()).await {
        Ok(item) => item.transpose(),
        Err(_) => Err(said(format!("the server has sent nothing for {} seconds", SILENT.as_secs()))),
    }
}

/// What `make` gives, wherever it is waited for.
pub(super) fn items<T: Send + 'static>(
    make: impl FnOnce() -> BoxStream<'static, Result<T>> + Send + 'static,
) -> BoxStream<'static, Result<T>> {
    let start = async move {
        let (sender, receiver) = mpsc::channel(WAITING);
        let task = runtime()?.spawn(async move {
            let mut items = make();
            while let Some(item) = next(&mut items).await.transpose() {
                let failed = item.is_err();
                if sender.send(item).await.is_err() || failed {
                    return;
                }
            }
        });
        Ok((receiver, Awaited(task)))
    };
    let all = |(receiver, task)| {
        stream::unfold((receiver, task), |(mut receiver, task): (mpsc::Receiver<Result<T>>, _)| async move {
            let item = receiver.recv().await?;
            Some((item, (receiver, task)))
        })
    };
    stream::once(start)
        .flat_map(move |started: Result<_>| match started {
            Ok(started) => all(started).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        })
        .boxed()
}
