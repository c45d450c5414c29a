//! Connections run statements.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use datafusion::common::ScalarValue;
use futures::{FutureExt, StreamExt, TryStreamExt};
use ogee_datafusion::{
    Error as StatementError, Outcome, Parameters, Statement, StatementContext, on_large_stack, parse, rows,
};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::{
    AsyncResult, Error, Params, ProgressHandle, QueryResult, Result, Statement as Prepared, Values,
    database::Inner,
    monitor::Monitor,
    result::{Event, Rows, Switch},
    settings::{Command, by_name, is_written},
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
pub(crate) type Running = Arc<Mutex<Vec<Weak<Switch>>>>;

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

/// The text of a statement, which may have been parsed.
pub(crate) struct Text {
    sql: String,
    parsed: Option<Option<Statement>>,
}

/// Bytes of a statement up to which it is dropped on any stack.
const SHALLOW_BYTES: usize = 8 << 10;

impl Text {
    fn new(sql: &str) -> Self {
        Self { sql: sql.to_owned(), parsed: None }
    }

    /// The one statement of `sql`, parsed. On a large stack.
    ///
    /// # Errors
    /// It is no SQL, or several statements.
    pub(crate) fn parsed(sql: &str) -> Result<Self> {
        let parsed = single(sql).map_err(|error| error.in_text(sql))?;
        Ok(Self { sql: sql.to_owned(), parsed: Some(parsed) })
    }

    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    /// Its parameters.
    ///
    /// # Errors
    /// It has some where there may be none.
    pub(crate) fn parameters(&self) -> Result<Parameters> {
        match &self.parsed {
            Some(Some(statement)) => Ok(Parameters::of(statement)?),
            _ => Ok(Parameters::Numbered(0)),
        }
    }

    /// The statement, to be planned. On a large stack.
    fn statement(&self) -> Result<Option<Statement>> {
        match &self.parsed {
            Some(statement) => Ok(statement.clone()),
            None => single(&self.sql),
        }
    }

    /// Drops it, as far as it is not in use.
    pub(crate) fn dropped(self: Arc<Self>) {
        if self.sql.len() <= SHALLOW_BYTES {
            return;
        }
        if let Some(text) = Arc::into_inner(self) {
            // Without a thread there is nothing better than this one.
            drop(on_large_stack(move || drop(text)));
        }
    }
}

/// A statement that is to run.
pub(crate) struct Request {
    text: Arc<Text>,
    given: Given,
}

/// Values of parameters.
enum Given {
    /// The parameters are not known yet.
    Unordered(Values),
    /// For these parameters.
    Ordered(Parameters, Vec<ScalarValue>),
}

impl Request {
    /// The statement of `sql`, with values for its parameters.
    pub(crate) fn new(sql: &str, values: Values) -> Self {
        Self { text: Arc::new(Text::new(sql)), given: Given::Unordered(values) }
    }

    /// A statement that was prepared, with values for `parameters`.
    pub(crate) fn prepared(text: Arc<Text>, parameters: Parameters, values: Vec<ScalarValue>) -> Self {
        Self { text, given: Given::Ordered(parameters, values) }
    }
}

impl Given {
    /// Has `statement` be planned with these values.
    ///
    /// A name without a value may be that of a variable, which `variable` gives.
    fn give(
        self,
        sql: &str,
        statement: &mut Statement,
        context: &StatementContext,
        variable: impl Fn(&str) -> Option<ScalarValue>,
    ) -> Result<()> {
        let (parameters, values) = match self {
            Self::Ordered(parameters, values) => (parameters, values),
            Self::Unordered(values) => {
                // Most statements have none.
                let parameters = match sql.contains(['?', '$']) {
                    true => Parameters::of(statement)?,
                    false => Parameters::Numbered(0),
                };
                let values = values.with_variables(&parameters, variable).in_order(&parameters)?;
                (parameters, values)
            }
        };
        if !parameters.is_empty() {
            parameters.mark(statement);
            context.give(values);
        }
        Ok(())
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
        self.run(Request::new(sql, Values::none()))
    }

    /// The same for a statement with parameters, written `?`, `$1` or `$name`, which have the values of `params`.
    ///
    /// ```
    /// # use ogee::{Config, Database, params};
    /// # let connection = Database::open_in_memory(Config::default())?.connect();
    /// connection.execute_with("CREATE TABLE t AS SELECT $1 AS a, $2 AS b", params![1, "one"])?;
    /// connection.execute_with("INSERT INTO t VALUES (?, ?)", params![2, None::<&str>])?;
    /// # Ok::<(), ogee::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`execute`](Self::execute), and values that are too few, too many, or for other names.
    pub fn execute_with(&self, sql: &str, params: impl Params) -> Result<QueryResult> {
        self.run(Request::new(sql, params.to_values()?))
    }

    /// The same as [`execute`](Self::execute) for asynchronous programs, on any executor. Dropping the future, or the result, ends the statement.
    ///
    /// # Errors
    /// Those of [`execute`](Self::execute).
    pub async fn execute_async(&self, sql: &str) -> Result<AsyncResult> {
        self.run_async(Request::new(sql, Values::none())).await
    }

    /// The same as [`execute_with`](Self::execute_with) for asynchronous programs.
    ///
    /// # Errors
    /// Those of [`execute_with`](Self::execute_with).
    pub fn execute_async_with<P: Params>(
        &self,
        sql: &str,
        params: P,
    ) -> impl Future<Output = Result<AsyncResult>> + Send {
        // The values are taken at once: they need not live, or be sent, with the future.
        let request = params.to_values().map(|values| Request::new(sql, values));
        async move { self.run_async(request?).await }
    }

    /// Parses one statement, which can then be run again and again with values for its parameters.
    ///
    /// ```
    /// # use ogee::{Config, Database, params};
    /// # let connection = Database::open_in_memory(Config::default())?.connect();
    /// connection.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")?;
    /// let insert = connection.prepare("INSERT INTO t VALUES ($a, $b)")?;
    /// assert_eq!(insert.parameters(), ["$a", "$b"]);
    /// insert.execute(params![1, "one"])?;
    /// insert.execute(ogee::named_params! { "b": "two", "a": 2 })?;
    /// # Ok::<(), ogee::Error>(())
    /// ```
    ///
    /// # Errors
    /// It is no SQL, or has parameters where there may be none. Names of tables and columns are looked up when it is run.
    pub fn prepare(&self, sql: &str) -> Result<Prepared<'_>> {
        Prepared::new(self, sql)
    }

    /// Sets a setting, by a name and to a value that `SET` takes, for all connections.
    ///
    /// ```
    /// # use ogee::{Config, Database};
    /// # let connection = Database::open_in_memory(Config::default())?.connect();
    /// connection.set("memory_limit", "1GB")?;
    /// assert_eq!(connection.setting("memory_limit")?, "1GB");
    /// # Ok::<(), ogee::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such setting, of which the error names one that is near, or it does not take the value.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        match by_name(name)? {
            Some(setting) => self.inner.settings.set(setting, Some(value), &self.inner),
            None => {
                let value = value.replace('\'', "''");
                self.execute(&format!("SET {} = '{value}'", in_statement(name)?)).map(drop)
            }
        }
    }

    /// Sets a setting to its default.
    ///
    /// # Errors
    /// There is no such setting.
    pub fn reset(&self, name: &str) -> Result<()> {
        match by_name(name)? {
            Some(setting) => self.inner.settings.set(setting, None, &self.inner),
            None => self.execute(&format!("RESET {}", in_statement(name)?)).map(drop),
        }
    }

    /// What a setting is set to, as [`set`](Self::set) takes it.
    ///
    /// # Errors
    /// There is no such setting, of which the error names one that is near.
    pub fn setting(&self, name: &str) -> Result<String> {
        if let Some(setting) = by_name(name)? {
            return Ok(self.inner.settings.value(setting, &self.inner));
        }
        let missing = || Error::setting(format!("there is no setting '{name}'; SHOW ALL lists them"));
        for batch in self.execute(&format!("SHOW {}", in_statement(name)?))? {
            let batch = batch?;
            // `SHOW` of a table shows its columns.
            if batch.num_rows() == 1 && batch.num_columns() >= 2 && batch.schema().field(0).name() == "name" {
                let value = ScalarValue::try_from_array(batch.column(1), 0).map_err(StatementError::from)?;
                return Ok(value.to_string());
            }
        }
        Err(missing())
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

    /// A handle that tells how far what this connection runs is.
    pub fn progress_handle(&self) -> ProgressHandle {
        ProgressHandle::new(Arc::clone(&self.running))
    }

    /// Starts `request`, and waits until it is known whether there are rows.
    pub(crate) fn run(&self, request: Request) -> Result<QueryResult> {
        let (monitor, rows) = self.begin(request)?;
        QueryResult::streaming(monitor, rows)
    }

    /// The same without a thread that waits.
    pub(crate) async fn run_async(&self, request: Request) -> Result<AsyncResult> {
        let (monitor, rows) = self.begin(request)?;
        AsyncResult::streaming(monitor, rows).await
    }

    /// Has a thread of its own run `request`.
    fn begin(&self, request: Request) -> Result<(Monitor, Rows)> {
        let monitor = Monitor::start(&self.inner);
        let context = monitor.context();
        context.of_connection(self.number);
        let switch = Arc::new(Switch::new(monitor.watched()));
        let interrupted = switch.watch();
        {
            let mut running = self.running.lock();
            running.retain(|switch| switch.strong_count() > 0);
            running.push(Arc::downgrade(&switch));
        }
        let (sender, receiver) = mpsc::channel(RESULT_CAPACITY);
        let (inner, bytes) = (Arc::clone(&self.inner), request.text.sql.len());
        let engine = self.inner.session.engine();
        let runtime = engine.start()?.clone();
        let waits_on = runtime.clone();
        let drive = move || runtime.block_on(drive(inner, request, context, sender, interrupted));
        engine.run_statement(bytes, drive)?;
        Ok((monitor, Rows::new(receiver, switch, waits_on)))
    }

    /// What `ask` gives, on a thread with a large stack, while the caller waits.
    pub(crate) fn asked<T: Send + 'static, F>(&self, ask: impl FnOnce(Arc<Inner>) -> F + Send + 'static) -> Result<T>
    where
        F: Future<Output = Result<T, StatementError>>,
    {
        let engine = self.inner.session.engine();
        let runtime = engine.start()?.clone();
        let inner = Arc::clone(&self.inner);
        let (sender, answer) = std::sync::mpsc::sync_channel(1);
        engine.run_statement(0, move || {
            let asked = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(ask(inner))));
            // Whoever asked waits for it.
            let _ = sender.send(asked.unwrap_or_else(|panic| Err(panicked(&*panic))));
        })?;
        let gone = || StatementError::Internal("a thread ended before its answer".to_owned());
        Ok(answer.recv().map_err(|_| gone())??)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Connection {
    /// A transaction that was not committed is put back.
    fn drop(&mut self) {
        self.inner.session.left(self.number);
    }
}

/// `name` of a setting of the planner's, as a statement has it.
fn in_statement(name: &str) -> Result<&str> {
    match is_written(name) {
        true => Ok(name),
        false => Err(Error::setting(format!("there is no setting '{name}'; SHOW ALL lists them"))),
    }
}

/// Runs the statement of `sql` to its end, whatever that is, and says so in the last event. On a thread with a large stack, where all of the statement is dropped, too.
async fn drive(
    inner: Arc<Inner>,
    request: Request,
    context: Arc<StatementContext>,
    sender: mpsc::Sender<Event>,
    mut interrupted: watch::Receiver<bool>,
) {
    let _planned = context.enter();
    let Request { text, given } = request;
    let result = tokio::select! {
        biased;
        _ = interrupted.wait_for(|interrupted| *interrupted) => Err(StatementError::Interrupted.into()),
        result = AssertUnwindSafe(produce(&inner, &text, given, &context, &sender)).catch_unwind() => {
            result.unwrap_or_else(|panic| Err(panicked(&*panic).into()))
        }
    };
    let result = result.map_err(|error| error.told(|message| inner.session.with_place(message, text.sql())));
    // What is no SQL has done nothing, and leaves a transaction as it is.
    if matches!(&result, Err(error) if error.code() != PARSE_CODE) {
        inner.session.failed(context.connection());
    }
    // The streams are gone, but lanes may still be in the middle of a chunk. The statement is over when they are not.
    context.settled().await;
    drop((inner, text));
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
    text: &Text,
    given: Given,
    context: &Arc<StatementContext>,
    sender: &mpsc::Sender<Event>,
) -> Result<()> {
    // Whoever reads the events may be gone; then there is nothing more to do.
    let Some(mut statement) = text.statement()? else {
        let _ = sender.send(Event::Done(None)).await;
        return Ok(());
    };
    given.give(text.sql(), &mut statement, context, |name| inner.session.variable(name))?;
    if let Some(command) = Command::of(&statement)? {
        let mut batches = inner.settings.run(&command, inner)?;
        if let Command::ShowAll = command {
            batches.extend(planner_settings(inner, context).await?);
        }
        let _ = sender.send(Event::Ready(batches)).await;
        return Ok(());
    }
    if statement.changes_setting() {
        inner.settings.check_lock()?;
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
