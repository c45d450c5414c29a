//! Results: batches as they come, and what it took.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use datafusion::arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
};

use crate::{
    Error, Progress, Result, StatementStats,
    monitor::{Monitor, Watched},
    wait::wait_for,
};

/// What a running statement tells.
pub(crate) enum Event {
    /// There will be rows of these columns.
    Schema(SchemaRef),
    /// There are no rows, only an effect.
    Done(Option<u64>),
    /// All of the rows, or, without any, just an effect.
    Ready(Vec<RecordBatch>),
    /// Rows.
    Batch(RecordBatch),
    /// Nothing comes after this.
    End(Result<(), Error>),
}

/// How long one who waits for a statement that was interrupted goes on to wait: for all but a statement in the middle of planning it is over by then.
const GRACE: Duration = Duration::from_millis(300);

/// Ends a statement when it is thrown.
pub(crate) struct Switch {
    thrown: watch::Sender<bool>,
    watched: Arc<Watched>,
}

impl Switch {
    /// Of the statement that is watched.
    pub(crate) fn new(watched: Arc<Watched>) -> Self {
        Self { thrown: watch::Sender::new(false), watched }
    }

    /// Ends the statement.
    pub(crate) fn throw(&self) {
        self.watched.context().interrupt();
        self.thrown.send_replace(true);
    }

    /// Tells whether it was thrown.
    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.thrown.subscribe()
    }

    /// What can be seen of the statement.
    pub(crate) fn watched(&self) -> &Watched {
        &self.watched
    }
}

/// Rows of a running statement.
pub(crate) struct Rows {
    events: mpsc::Receiver<Event>,
    interrupted: watch::Receiver<bool>,
    /// Ends the statement when it is dropped or thrown.
    switch: Arc<Switch>,
    /// Keeps the time for who waits.
    runtime: Handle,
}

impl Rows {
    pub(crate) fn new(events: mpsc::Receiver<Event>, switch: Arc<Switch>, runtime: Handle) -> Self {
        Self { events, interrupted: switch.watch(), switch, runtime }
    }

    /// Where what is slow can be done.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Event {
        let event = tokio::select! {
            biased;
            event = self.events.recv() => Some(event),
            _ = self.interrupted.wait_for(|interrupted| *interrupted) => None,
        };
        let event = match event {
            Some(event) => event,
            None => self.last_event().await,
        };
        // The thread ended before the statement did: the handle was dropped.
        event.unwrap_or_else(interrupted)
    }

    /// What comes once the statement was interrupted. It ends by itself unless it is in the middle of a long computation, such as planning, of which nothing will
    /// be seen any more: its thread ends when it next asks.
    async fn last_event(&mut self) -> Option<Event> {
        // By the engine's own clock: whoever waits may have none.
        let grace = self.runtime.spawn(async { tokio::time::sleep(GRACE).await });
        tokio::select! {
            biased;
            event = self.events.recv() => event,
            _ = grace => None,
        }
    }
}

fn interrupted() -> Event {
    Event::End(Err(ogee_datafusion::Error::Interrupted.into()))
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.switch.throw();
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
        match wait_for(rows.next()) {
            Event::Schema(schema) => {
                Ok(Self { schema, affected: None, ready: VecDeque::new(), rows: Some(rows), monitor })
            }
            Event::Done(affected) => match wait_for(rows.next()) {
                Event::End(Err(error)) => Err(error),
                _ => Ok(Self::done(monitor, affected)),
            },
            Event::Ready(batches) => match wait_for(rows.next()) {
                Event::End(Err(error)) => Err(error),
                _ => Ok(Self::ready(monitor, batches)),
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

    /// How far the statement is.
    pub fn progress(&self) -> Progress {
        self.monitor.watched().progress()
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
        match wait_for(self.rows.as_mut()?.next()) {
            Event::Batch(batch) => {
                self.monitor.add_rows(batch.num_rows() as u64);
                Some(Ok(batch))
            }
            Event::End(result) => {
                self.rows = None;
                self.monitor.finish();
                result.err().map(Err)
            }
            Event::Schema(_) | Event::Done(_) | Event::Ready(_) => unreachable!("sent once, at the beginning"),
        }
    }
}
