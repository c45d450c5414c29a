//! Results of asynchronous programs: batches as a stream, on any executor.
//!
//! A statement runs on threads of the engine. The executor's own are only woken when there is a batch, and nothing here holds one up.
//!
//! Not here: results that a thread waits for (`result`).

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use datafusion::arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use futures::{Stream, StreamExt, stream};
use tokio::runtime::Handle;

use crate::{
    Progress, Result, StatementStats,
    monitor::{Monitor, Watched},
    result::{Event, Rows},
};

/// The result of a statement: a stream of batches, which come no faster than they are asked for. Dropping it ends the statement.
pub struct AsyncResult {
    schema: SchemaRef,
    affected: Option<u64>,
    ready: VecDeque<RecordBatch>,
    rows: Option<Pin<Box<dyn Stream<Item = Event> + Send>>>,
    monitor: Ending,
}

/// A monitor whose end, which takes time, is left to the engine's threads.
struct Ending {
    watched: Arc<Watched>,
    monitor: Option<Monitor>,
    stats: StatementStats,
    runtime: Handle,
}

impl Ending {
    fn new(monitor: Monitor, runtime: Handle) -> Self {
        Self { watched: monitor.watched(), monitor: Some(monitor), stats: StatementStats::default(), runtime }
    }

    fn add_rows(&mut self, rows: usize) {
        match &mut self.monitor {
            Some(monitor) => monitor.add_rows(rows as u64),
            None => self.stats.rows += rows as u64,
        }
    }

    fn end(&mut self) {
        if let Some(mut monitor) = self.monitor.take() {
            monitor.end();
            self.stats = monitor.stats();
            self.runtime.spawn_blocking(move || drop(monitor));
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.end();
    }
}

impl AsyncResult {
    /// Of a statement that runs: waits until it is known whether there are rows.
    pub(crate) async fn streaming(monitor: Monitor, mut rows: Rows) -> Result<Self> {
        let monitor = Ending::new(monitor, rows.runtime().clone());
        let mut result =
            Self { schema: Arc::new(Schema::empty()), affected: None, ready: VecDeque::new(), rows: None, monitor };
        match rows.next().await {
            Event::Schema(schema) => {
                let events = stream::unfold(rows, |mut rows| async move { Some((rows.next().await, rows)) });
                result.schema = schema;
                result.rows = Some(events.boxed());
                return Ok(result);
            }
            Event::Done(affected) => {
                result.affected = affected;
                result.monitor.add_rows(affected.unwrap_or(0) as usize);
            }
            Event::Ready(batches) => {
                if let Some(first) = batches.first() {
                    result.schema = first.schema();
                }
                result.ready = batches.into();
            }
            Event::End(Err(error)) => return Err(error),
            Event::Batch(_) | Event::End(Ok(())) => unreachable!("a statement begins with its schema or its effect"),
        }
        if let Event::End(Err(error)) = rows.next().await {
            return Err(error);
        }
        result.monitor.end();
        Ok(result)
    }

    /// The columns; none for a statement without rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Rows that a statement without rows inserted or wrote, where that is known.
    pub fn affected_rows(&self) -> Option<u64> {
        self.affected
    }

    /// What it took, in full once all rows have been read.
    pub fn stats(&self) -> StatementStats {
        self.monitor.monitor.as_ref().map_or_else(|| self.monitor.stats.clone(), Monitor::stats)
    }

    /// How far the statement is.
    pub fn progress(&self) -> Progress {
        self.monitor.watched.progress()
    }
}

impl std::fmt::Debug for AsyncResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncResult")
            .field("schema", &self.schema)
            .field("affected", &self.affected)
            .finish_non_exhaustive()
    }
}

impl Stream for AsyncResult {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(batch) = self.ready.pop_front() {
            self.monitor.add_rows(batch.num_rows());
            return Poll::Ready(Some(Ok(batch)));
        }
        let Some(rows) = &mut self.rows else { return Poll::Ready(None) };
        let Poll::Ready(event) = rows.poll_next_unpin(context) else { return Poll::Pending };
        Poll::Ready(match event {
            Some(Event::Batch(batch)) => {
                self.monitor.add_rows(batch.num_rows());
                Some(Ok(batch))
            }
            Some(Event::End(result)) => {
                self.rows = None;
                self.monitor.end();
                result.err().map(Err)
            }
            Some(Event::Schema(_) | Event::Done(_) | Event::Ready(_)) | None => {
                unreachable!("sent once, at the beginning")
            }
        })
    }
}
