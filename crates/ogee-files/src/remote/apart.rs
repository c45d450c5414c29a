//! Text that comes over a network, read by those who read files from their beginning to their end.
//!
//! A reader waits for bytes where it is, and who waits on a thread of the planner hears no interrupt. So readers of files by URL run on threads of their own, and end when
//! nobody wants what they read: what they wait for is then over ([`Stop`]).
//!
//! Not here: requests (`stores`).

use std::{
    cell::RefCell,
    io::{self, Read},
    thread,
};

use bytes::{Buf, Bytes};
use datafusion::{
    arrow::array::RecordBatch,
    error::{DataFusionError, Result},
    object_store,
};
use futures::{
    StreamExt,
    executor::block_on,
    future::{Either, select},
    stream::{self, BoxStream},
};
use ogee_functions::Error;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    task::unconstrained,
};

use crate::read_through::Batches;

thread_local! {
    /// When what this thread reads is not wanted any more.
    static STOP: RefCell<Option<watch::Receiver<()>>> = const { RefCell::new(None) };
}

/// Batches that wait for those who read them.
const WAITING: usize = 1;

/// Runs `job` on a thread of its own, where readers stop when nobody waits for it any more.
///
/// # Errors
/// Those of `job`, and that there is no thread.
pub(crate) async fn apart<T: Send + 'static>(job: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    // Dropped with this future.
    let _wanted = spawn(async move {
        // Who waited may be gone.
        let _ = sender.send(job.await);
    })?;
    receiver.await.map_err(|_| DataFusionError::from(Error::Internal("a reader of a file by URL ended".to_owned())))?
}

/// What the reader that `open` gives reads, on a thread of its own.
///
/// # Errors
/// There is no thread.
pub(crate) fn batches<R: Batches>(
    open: impl Future<Output = Result<Option<R>>> + Send + 'static,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let wanted = spawn(async move {
        let mut reader = match open.await {
            Ok(Some(reader)) => reader,
            Ok(None) => return,
            Err(error) => return drop(sender.send(Err(error)).await),
        };
        while let Some(batch) = reader.next().transpose() {
            let failed = batch.is_err();
            if sender.send(batch).await.is_err() || failed {
                return;
            }
        }
    })?;
    let batches = stream::unfold((receiver, wanted), |(mut receiver, wanted)| async move {
        let batch = receiver.recv().await?;
        Some((batch, (receiver, wanted)))
    });
    Ok(batches.boxed())
}

/// Runs `job` on a thread, which stops waiting for bytes when what this gives is dropped.
fn spawn(job: impl Future<Output = ()> + Send + 'static) -> Result<watch::Sender<()>> {
    let (wanted, stop) = watch::channel(());
    let runtime = Handle::current();
    let thread = thread::Builder::new().name("ogee-url".to_owned()).spawn(move || {
        STOP.set(Some(stop));
        // A reader waits within one poll of its job for as many parts as there are. Tokio's channels give no more than
        // 128 items a poll, and then ask for the next poll, which would never come.
        runtime.block_on(unconstrained(job));
    });
    match thread {
        Ok(_) => Ok(wanted),
        Err(error) => Err(Error::Resources(format!("there is no thread to read a file by URL: {error}")).into()),
    }
}

/// The bytes of a file, as they come.
pub(crate) struct Incoming {
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    bytes: Bytes,
    stop: Option<watch::Receiver<()>>,
}

impl Incoming {
    /// Those that `stream` gives.
    pub(crate) fn new(stream: BoxStream<'static, object_store::Result<Bytes>>) -> Self {
        Self { stream, bytes: Bytes::new(), stop: STOP.with_borrow(Clone::clone) }
    }

    /// More of them; `None` behind the last.
    fn more(&mut self) -> io::Result<Option<Bytes>> {
        let Some(stop) = &mut self.stop else { return block_on(self.stream.next()).transpose().map_err(failed) };
        // Nothing is ever sent: it ends with the sender.
        let (next, stopped) = (self.stream.next(), Box::pin(stop.changed()));
        match block_on(select(next, stopped)) {
            Either::Left((bytes, _)) => bytes.transpose().map_err(failed),
            Either::Right(_) => Err(io::Error::other(Error::Interrupted)),
        }
    }
}

fn failed(error: object_store::Error) -> io::Error {
    io::Error::other(Error::from(DataFusionError::from(error)))
}

impl Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.bytes.has_remaining() {
            match self.more()? {
                Some(bytes) => self.bytes = bytes,
                None => return Ok(0),
            }
        }
        let length = into.len().min(self.bytes.len());
        self.bytes.copy_to_slice(&mut into[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{sync::Arc, time::Duration};

    use datafusion::arrow::{array::RecordBatchOptions, datatypes::Schema};

    use super::*;

    #[test]
    fn bytes_come_in_their_order() {
        let parts = [&b"ab"[..], b"", b"cde"].map(|part| Ok(Bytes::from_static(part)));
        let mut text = String::new();
        Incoming::new(stream::iter(parts).boxed()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcde");
    }

    /// Reads all that comes before it gives anything.
    struct Whole(Option<Incoming>);

    impl Batches for Whole {
        fn next(&mut self) -> Result<Option<RecordBatch>> {
            let Some(mut incoming) = self.0.take() else { return Ok(None) };
            let mut bytes = Vec::new();
            incoming.read_to_end(&mut bytes).map_err(DataFusionError::IoError)?;
            let options = RecordBatchOptions::new().with_row_count(Some(bytes.len()));
            Ok(Some(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?))
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_batch_may_need_more_parts_than_tokio_gives_a_poll() {
        let parts = 1000;
        let (sender, receiver) = mpsc::channel(1);
        let sent = tokio::spawn(async move {
            for _ in 0..parts {
                sender.send(Ok(Bytes::from_static(b"x"))).await.unwrap();
            }
        });
        let incoming = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
        let read = batches(async move { Ok(Some(Whole(Some(Incoming::new(incoming.boxed()))))) }).unwrap();
        let read: Vec<_> = tokio::time::timeout(Duration::from_mins(1), read.collect()).await.unwrap();
        let rows: Vec<_> = read.into_iter().map(|batch| batch.unwrap().num_rows()).collect();
        assert_eq!(rows, [parts]);
        sent.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_waits_for_bytes_stops_when_nobody_wants_them() {
        let (ended, mut end) = mpsc::channel(1);
        let job = apart(async move {
            let never = Incoming::new(stream::pending().boxed()).read(&mut [0]);
            ended.send(never.map_err(|error| error.to_string())).await.unwrap();
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), job).await.is_err());
        let read = end.recv().await.unwrap();
        assert_eq!(read, Err(Error::Interrupted.to_string()));
    }
}
