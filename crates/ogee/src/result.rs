//! Results: batches as they come, and what it took.

use std::{collections::VecDeque, sync::Arc};

use datafusion::arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use futures::executor::block_on;
use tokio::sync::{mpsc, watch};

use crate::{Error, Result, StatementStats, monitor::Monitor};

/// What a running statement tells.
pub(crate) enum Event {
    /// There will be rows of these columns.
    Schema(SchemaRef),
    /// There are no rows, only an effect.
    Done(Option<u64>),
    /// Rows.
    Batch(RecordBatch),
    /// Nothing comes after this.
    End(Result<(), Error>),
}

/// Rows of a running statement.
pub(crate) struct Rows {
    events: mpsc::Receiver<Event>,
    /// Ends the statement when it is dropped or thrown.
    switch: Arc<watch::Sender<bool>>,
}

impl Rows {
    pub(crate) fn new(events: mpsc::Receiver<Event>, switch: Arc<watch::Sender<bool>>) -> Self {
        Self { events, switch }
    }

    fn next(&mut self) -> Event {
        block_on(self.events.recv()).unwrap_or_else(|| {
            // The runtime ended before the statement did: the handle was dropped.
            Event::End(Err(ogee_datafusion::Error::Interrupted.into()))
        })
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let _ = self.switch.send(true);
    }
}

/// The result of a statement: an iterator of batches. Dropping it ends the statement.
pub struct QueryResult {
    schema: SchemaRef,
    affected: Option<u64>,
    ready: VecDeque<RecordBatch>,
    rows: Option<Rows>,
    monitor: Monitor,
}

impl QueryResult {
    /// Of a statement that was an effect.
    pub(crate) fn done(monitor: Monitor, affected: Option<u64>) -> Self {
        let mut result =
            Self { schema: Arc::new(Schema::empty()), affected, ready: VecDeque::new(), rows: None, monitor };
        result.monitor.add_rows(affected.unwrap_or(0));
        result.monitor.finish();
        result
    }

    /// Of rows that are there, if any: an empty list is an effect.
    pub(crate) fn ready(monitor: Monitor, batches: Vec<RecordBatch>) -> Self {
        let Some(first) = batches.first() else { return Self::done(monitor, None) };
        let schema = first.schema();
        let mut result = Self { schema, affected: None, ready: batches.into(), rows: None, monitor };
        result.monitor.finish();
        result
    }

    /// Of a statement that runs: waits until it is known whether there are rows.
    pub(crate) fn streaming(monitor: Monitor, mut rows: Rows) -> Result<Self> {
        match rows.next() {
            Event::Schema(schema) => {
                Ok(Self { schema, affected: None, ready: VecDeque::new(), rows: Some(rows), monitor })
            }
            Event::Done(affected) => match rows.next() {
                Event::End(Err(error)) => Err(error),
                _ => Ok(Self::done(monitor, affected)),
            },
            Event::End(Err(error)) => Err(error),
            Event::Batch(_) | Event::End(Ok(())) => unreachable!("a statement begins with its schema or its effect"),
        }
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
        self.monitor.stats()
    }
}

impl Iterator for QueryResult {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(batch) = self.ready.pop_front() {
            self.monitor.add_rows(batch.num_rows() as u64);
            return Some(Ok(batch));
        }
        match self.rows.as_mut()?.next() {
            Event::Batch(batch) => {
                self.monitor.add_rows(batch.num_rows() as u64);
                Some(Ok(batch))
            }
            Event::End(result) => {
                self.rows = None;
                self.monitor.finish();
                result.err().map(Err)
            }
            Event::Schema(_) | Event::Done(_) => unreachable!("sent once, at the beginning"),
        }
    }
}
