//! Connections run statements.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
};

use futures::{FutureExt, StreamExt};
use ogee_datafusion::{Error as StatementError, Outcome, Statement, StatementContext, parse, rows};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::{
    Error, QueryResult, Result,
    database::Inner,
    monitor::Monitor,
    result::{Event, Rows},
    settings::Command,
};

/// Batches that may wait for whoever reads the result.
const RESULT_CAPACITY: usize = 4;

/// Runs statements, one after the other or several at once.
pub struct Connection {
    inner: Arc<Inner>,
    running: Running,
}

/// Switches of the statements that run. They are gone when the statements are.
type Running = Arc<Mutex<Vec<Weak<watch::Sender<bool>>>>>;

/// Interrupts the statements of a connection, from any thread.
#[derive(Clone)]
pub struct InterruptHandle {
    running: Running,
}

impl InterruptHandle {
    /// Asks the statements that run now to end; their results end with an error of code `OGEE_X004`.
    pub fn interrupt(&self) {
        for switch in self.running.lock().drain(..) {
            if let Some(switch) = switch.upgrade() {
                // Nobody listens any more: the statement is over.
                let _ = switch.send(true);
            }
        }
    }
}

impl Connection {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, running: Running::default() }
    }

    /// Starts one statement. Rows come as they are ready, no faster than they are read; a statement without rows is over when this returns.
    ///
    /// # Errors
    /// Those of parsing and planning, and of statements without rows.
    pub fn execute(&self, sql: &str) -> Result<QueryResult> {
        let monitor = Monitor::start(&self.inner);
        let mut statements = parse(sql)?;
        let statement = match (statements.pop(), statements.len()) {
            (None, _) => return Ok(QueryResult::done(monitor, None)),
            (Some(statement), 0) => statement,
            (Some(_), more) => {
                return Err(StatementError::Parse(format!(
                    "{} statements where one is expected; split them with Connection::statements",
                    more + 1
                ))
                .into());
            }
        };
        match Command::of(&statement)? {
            Some(Command::ShowAll) => self.show_all(monitor),
            Some(command) => {
                let rows = self.inner.settings.run(&command, &self.inner)?;
                Ok(QueryResult::ready(monitor, rows))
            }
            None => self.start(statement, monitor),
        }
    }

    /// Splits a script into its statements.
    ///
    /// # Errors
    /// If any of them does not parse.
    pub fn statements(sql: &str) -> Result<Vec<String>> {
        Ok(parse(sql)?.iter().map(ToString::to_string).collect())
    }

    /// A handle that interrupts what this connection runs.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle { running: Arc::clone(&self.running) }
    }

    /// The engine's settings, then the planner's.
    fn show_all(&self, monitor: Monitor) -> Result<QueryResult> {
        let own = self.inner.settings.run(&Command::ShowAll, &self.inner)?;
        let mut batches = own;
        let all = parse("SHOW ALL")?.pop().expect("one statement");
        let planner = self.start(all, Monitor::start(&self.inner))?;
        for batch in planner {
            let columns = batch?.columns().to_vec();
            batches.push(crate::settings::show_batch(columns[..2].to_vec())?);
        }
        Ok(QueryResult::ready(monitor, batches))
    }

    fn start(&self, statement: Statement, monitor: Monitor) -> Result<QueryResult> {
        let (switch, interrupted) = watch::channel(false);
        let switch = Arc::new(switch);
        {
            let mut running = self.running.lock();
            running.retain(|switch| switch.strong_count() > 0);
            running.push(Arc::downgrade(&switch));
        }
        let (sender, receiver) = mpsc::channel(RESULT_CAPACITY);
        let context = monitor.context();
        let inner = Arc::clone(&self.inner);
        let runtime = self.inner.session.engine().runtime();
        runtime.spawn(drive(inner, statement, context, sender, interrupted));
        QueryResult::streaming(monitor, Rows::new(receiver, switch))
    }
}

/// Runs `statement` to its end, whatever that is, and says so in the last event.
async fn drive(
    inner: Arc<Inner>,
    statement: Statement,
    context: Arc<StatementContext>,
    sender: mpsc::Sender<Event>,
    mut interrupted: watch::Receiver<bool>,
) {
    let result = tokio::select! {
        biased;
        _ = interrupted.wait_for(|interrupted| *interrupted) => Err(StatementError::Interrupted),
        result = AssertUnwindSafe(produce(&inner, statement, &context, &sender)).catch_unwind() => {
            result.unwrap_or_else(|panic| Err(panicked(&*panic)))
        }
    };
    // The streams are gone, but lanes may still be in the middle of a chunk. The statement is over when they are not.
    context.settled().await;
    drop(inner);
    let _ = sender.send(Event::End(result.map_err(Error::from))).await;
}

async fn produce(
    inner: &Inner,
    statement: Statement,
    context: &Arc<StatementContext>,
    sender: &mpsc::Sender<Event>,
) -> ogee_datafusion::Result<()> {
    match inner.session.run(statement, context).await? {
        Outcome::Done(affected) => {
            let _ = sender.send(Event::Done(affected)).await;
        }
        Outcome::Rows(stream) => {
            if sender.send(Event::Schema(stream.schema())).await.is_err() {
                return Ok(());
            }
            let mut batches = std::pin::pin!(rows(stream));
            while let Some(batch) = batches.next().await.transpose()? {
                if batch.num_rows() > 0 && sender.send(Event::Batch(batch)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> StatementError {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    StatementError::Internal(message)
}
