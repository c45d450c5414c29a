//! Results: batches as they come, and what it took.

use std::{
    collections::VecDeque,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use datafusion::arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use futures::executor::block_on;
use ogee_datafusion::StatementContext;
use tokio::sync::{mpsc, watch};

use crate::{Error, Result, StatementStats, monitor::Monitor};

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
    context: Arc<StatementContext>,
}

impl Switch {
    /// Of the statement of `context`.
    pub(crate) fn new(context: Arc<StatementContext>) -> Self {
        Self { thrown: watch::Sender::new(false), context }
    }

    /// Ends the statement.
    pub(crate) fn throw(&self) {
        self.context.interrupt();
        self.thrown.send_replace(true);
    }

    /// What the statement reports to.
    pub(crate) fn context(&self) -> &StatementContext {
        &self.context
    }

    /// Tells whether it was thrown.
    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.thrown.subscribe()
    }
}

/// Rows of a running statement.
pub(crate) struct Rows {
    events: mpsc::Receiver<Event>,
    interrupted: watch::Receiver<bool>,
    /// Ends the statement when it is dropped or thrown.
    switch: Arc<Switch>,
}

impl Rows {
    pub(crate) fn new(events: mpsc::Receiver<Event>, switch: Arc<Switch>) -> Self {
        Self { events, interrupted: switch.watch(), switch }
    }

    fn next(&mut self) -> Event {
        let event = block_on(async {
            tokio::select! {
                biased;
                event = self.events.recv() => Some(event),
                _ = self.interrupted.wait_for(|interrupted| *interrupted) => None,
            }
        });
        // The thread ended before the statement did: the handle was dropped.
        event.unwrap_or_else(|| self.last_events()).unwrap_or_else(interrupted)
    }

    /// What comes once the statement was interrupted. It ends by itself unless it is in the middle of a long computation, such as planning, of which nothing will
    /// be seen any more: its thread ends when it next asks.
    fn last_events(&mut self) -> Option<Event> {
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            match self.events.try_recv() {
                Ok(event) => return Some(event),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
                Err(mpsc::error::TryRecvError::Empty) => thread::sleep(Duration::from_millis(1)),
            }
        }
        None
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
        match rows.next() {
            Event::Schema(schema) => {
                Ok(Self { schema, affected: None, ready: VecDeque::new(), rows: Some(rows), monitor })
            }
            Event::Done(affected) => match rows.next() {
                Event::End(Err(error)) => Err(error),
                _ => Ok(Self::done(monitor, affected)),
            },
            Event::Ready(batches) => match rows.next() {
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
            Event::Schema(_) | Event::Done(_) | Event::Ready(_) => unreachable!("sent once, at the beginning"),
        }
    }
}
