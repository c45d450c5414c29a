//! Connections run statements.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{FutureExt, StreamExt, TryStreamExt};
use ogee_datafusion::{Error as StatementError, Outcome, Statement, StatementContext, on_large_stack, parse, rows};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::{
    QueryResult, Result,
    database::Inner,
    monitor::Monitor,
    result::{Event, Rows, Switch},
    settings::Command,
};

/// The code of errors of text that is no SQL.
const PARSE_CODE: &str = "OGEE_Q001";

/// Batches that may wait for whoever reads the result.
const RESULT_CAPACITY: usize = 4;

/// Runs statements, one after the other or several at once.
pub struct Connection {
    inner: Arc<Inner>,
    running: Running,
    /// Which it is: a transaction is of one.
    number: u64,
}

/// Switches of the statements that run. They are gone when the statements are.
type Running = Arc<Mutex<Vec<Weak<Switch>>>>;

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
                switch.throw();
            }
        }
    }
}

impl Connection {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { inner, running: Running::default(), number }
    }

    /// Starts one statement. Rows come as they are ready, no faster than they are read; a statement without rows is over when this returns.
    ///
    /// # Errors
    /// Those of parsing and planning, and of statements without rows.
    pub fn execute(&self, sql: &str) -> Result<QueryResult> {
        let monitor = Monitor::start(&self.inner);
        let context = monitor.context();
        context.of_connection(self.number);
        let switch = Arc::new(Switch::new(Arc::clone(&context)));
        let interrupted = switch.watch();
        {
            let mut running = self.running.lock();
            running.retain(|switch| switch.strong_count() > 0);
            running.push(Arc::downgrade(&switch));
        }
        let (sender, receiver) = mpsc::channel(RESULT_CAPACITY);
        let (inner, text) = (Arc::clone(&self.inner), sql.to_owned());
        let engine = self.inner.session.engine();
        let runtime = engine.start()?.clone();
        engine.run_statement(sql.len(), move || runtime.block_on(drive(inner, text, context, sender, interrupted)))?;
        QueryResult::streaming(monitor, Rows::new(receiver, switch))
    }

    /// Splits a script into its statements.
    ///
    /// # Errors
    /// If any of them does not parse.
    pub fn statements(sql: &str) -> Result<Vec<String>> {
        let statements =
            on_large_stack(|| Ok::<_, StatementError>(parse(sql)?.iter().map(ToString::to_string).collect()));
        Ok(statements??)
    }

    /// A handle that interrupts what this connection runs.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle { running: Arc::clone(&self.running) }
    }
}

impl Drop for Connection {
    /// A transaction that was not committed is put back.
    fn drop(&mut self) {
        self.inner.session.left(self.number);
    }
}

/// Runs the statement of `sql` to its end, whatever that is, and says so in the last event. On a thread with a large stack, where all of the statement is dropped, too.
async fn drive(
    inner: Arc<Inner>,
    sql: String,
    context: Arc<StatementContext>,
    sender: mpsc::Sender<Event>,
    mut interrupted: watch::Receiver<bool>,
) {
    let _planned = context.enter();
    let result = tokio::select! {
        biased;
        _ = interrupted.wait_for(|interrupted| *interrupted) => Err(StatementError::Interrupted.into()),
        result = AssertUnwindSafe(produce(&inner, &sql, &context, &sender)).catch_unwind() => {
            result.unwrap_or_else(|panic| Err(panicked(&*panic).into()))
        }
    };
    let result = result.map_err(|error| error.told(|message| inner.session.with_place(message, &sql)));
    // What is no SQL has done nothing, and leaves a transaction as it is.
    if matches!(&result, Err(error) if error.code() != PARSE_CODE) {
        inner.session.failed(context.connection());
    }
    // The streams are gone, but lanes may still be in the middle of a chunk. The statement is over when they are not.
    context.settled().await;
    drop(inner);
    let _ = sender.send(Event::End(result)).await;
}

/// The one statement of `sql`, if it has any.
fn single(sql: &str) -> Result<Option<Statement>> {
    let mut statements = parse(sql)?;
    let statement = statements.pop();
    match statements.len() {
        0 => Ok(statement),
        more => Err(StatementError::Parse(format!(
            "{} statements where one is expected; split them with Connection::statements",
            more + 1
        ))
        .into()),
    }
}

async fn produce(
    inner: &Arc<Inner>,
    sql: &str,
    context: &Arc<StatementContext>,
    sender: &mpsc::Sender<Event>,
) -> Result<()> {
    // Whoever reads the events may be gone; then there is nothing more to do.
    let Some(statement) = single(sql)? else {
        let _ = sender.send(Event::Done(None)).await;
        return Ok(());
    };
    if let Some(command) = Command::of(&statement)? {
        let mut batches = inner.settings.run(&command, inner)?;
        if let Command::ShowAll = command {
            batches.extend(planner_settings(inner, context).await?);
        }
        let _ = sender.send(Event::Ready(batches)).await;
        return Ok(());
    }
    let statement = statement.with_settings(|name| inner.settings.named(name, inner))?;
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

/// What `SHOW ALL` shows behind the engine's settings.
async fn planner_settings(
    inner: &Inner,
    context: &Arc<StatementContext>,
) -> Result<Vec<datafusion::arrow::array::RecordBatch>> {
    let all = parse("SHOW ALL")?.pop().expect("one statement");
    let Outcome::Rows(stream) = inner.session.run(all, context).await? else { return Ok(Vec::new()) };
    let batches: Vec<_> = rows(stream).try_collect().await?;
    batches.into_iter().map(|batch| crate::settings::show_batch(batch.columns()[..2].to_vec())).collect()
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> StatementError {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    StatementError::Internal(message)
}
