//! What islands run on: one pool, one scheduler, one runtime per handle.
//!
//! Not here: SQL.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use ogee_exec::{ExecContext, ExecSettings, QueryCounters};
use ogee_memory::BufferManager;
use ogee_scheduler::Scheduler;
use parking_lot::{Mutex, RwLock};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::watch,
};

use crate::{Error, Result, large_stack::StatementThreads};

/// Threads of the runtime on which DataFusion's own operators run.
const RUNTIME_THREADS: usize = 2;

/// Bytes of the stack of one.
const RUNTIME_STACK: usize = 8 << 20;

/// The error of a thread that the system refuses.
pub(crate) fn no_thread(error: &io::Error) -> Error {
    Error::Resources(format!(
        "no thread for the statement: {error}; the number of threads (ulimit -u), or the addresses of the process (ulimit -v), are limited"
    ))
}

/// The pool, the workers and the settings of a handle.
pub struct Engine {
    memory: Arc<BufferManager>,
    scheduler: Arc<Scheduler>,
    settings: RwLock<ExecSettings>,
    release: Option<fn()>,
    runtime: OnceLock<Runtime>,
    statements: Arc<StatementThreads>,
}

impl Engine {
    /// An engine on `memory`, with as many workers as `settings` say. Threads start with the first statement.
    /// `release`, if there is one, makes the allocator give memory back that nobody uses.
    pub fn new(memory: Arc<BufferManager>, settings: ExecSettings, release: Option<fn()>) -> Arc<Self> {
        let scheduler = Scheduler::new(settings.threads);
        let (settings, runtime, statements) = (RwLock::new(settings), OnceLock::new(), Arc::default());
        Arc::new(Self { memory, scheduler, settings, release, runtime, statements })
    }

    /// The pool.
    pub fn memory(&self) -> &Arc<BufferManager> {
        &self.memory
    }

    /// Makes the allocator give memory back that nobody uses.
    pub(crate) fn release(&self) -> Option<fn()> {
        self.release
    }

    /// The workers.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    /// The settings as they are now.
    pub fn settings(&self) -> ExecSettings {
        self.settings.read().clone()
    }

    /// Sets the number of workers; queries that run obey at their next morsels.
    pub fn set_threads(&self, threads: usize) {
        self.settings.write().threads = threads;
        self.scheduler.set_threads(threads);
    }

    /// The runtime, which is started if it has not been.
    ///
    /// # Errors
    /// [`Error::Resources`] if the system has no room for its threads.
    pub fn start(&self) -> Result<&Handle> {
        if self.runtime.get().is_none() {
            // The library gives up where there is none.
            let probes = (0..RUNTIME_THREADS).map(|_| thread::Builder::new().stack_size(RUNTIME_STACK).spawn(|| ()));
            let probes = probes.collect::<Vec<_>>().into_iter().collect::<io::Result<Vec<_>>>();
            probes.map_err(|error| no_thread(&error))?.into_iter().for_each(|probe| drop(probe.join()));
        }
        Ok(self.runtime())
    }

    /// The runtime of what is DataFusion's: threads named `ogee-df-…`, started when first asked for, idle without work.
    pub fn runtime(&self) -> &Handle {
        let start = || {
            Builder::new_multi_thread()
                .worker_threads(RUNTIME_THREADS)
                // Files are written by blocking tasks; more of them would only add memory.
                .max_blocking_threads(2 * RUNTIME_THREADS)
                .thread_name_fn(|| {
                    use std::sync::atomic::AtomicUsize;
                    static NUMBER: AtomicUsize = AtomicUsize::new(0);
                    format!("ogee-df-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
                })
                // Planning recurses over expressions; so do deep plans when they are polled.
                .thread_stack_size(RUNTIME_STACK)
                .enable_all()
                .build()
                .expect("the system has room for two threads")
        };
        self.runtime.get_or_init(start).handle()
    }

    /// Has a thread with a large stack do what is to be done about a statement of so many bytes.
    ///
    /// # Errors
    /// [`Error::Resources`] if the system has no room for a thread.
    pub fn run_statement(&self, statement_bytes: usize, job: impl FnOnce() + Send + 'static) -> Result<()> {
        self.statements.run(statement_bytes, Box::new(job)).map_err(|error| no_thread(&error))
    }

    /// What the operators of one island may use.
    pub(crate) fn context(&self) -> ExecContext {
        ExecContext::new(Arc::clone(&self.memory), self.settings())
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("settings", &*self.settings.read()).finish_non_exhaustive()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The last reference may be held by a task of the runtime itself, which must not wait for its own end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// One statement in execution: its islands report to it.
#[derive(Debug)]
pub struct StatementContext {
    islands: Mutex<Vec<Arc<QueryCounters>>>,
    /// How many islands still hold memory.
    live: Arc<watch::Sender<usize>>,
    interrupted: AtomicBool,
    analyzes: AtomicBool,
}

impl Default for StatementContext {
    fn default() -> Self {
        Self {
            islands: Mutex::default(),
            live: Arc::new(watch::Sender::new(0)),
            interrupted: AtomicBool::new(false),
            analyzes: AtomicBool::new(false),
        }
    }
}

/// Held for as long as an island runs.
pub(crate) struct LiveIsland {
    live: Option<Arc<watch::Sender<usize>>>,
}

impl Drop for LiveIsland {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.send_modify(|islands| *islands -= 1);
        }
    }
}

impl LiveIsland {
    /// An island that nobody waits for.
    pub(crate) fn unattended() -> Self {
        Self { live: None }
    }
}

impl StatementContext {
    pub(crate) fn register(&self, counters: &Arc<QueryCounters>) -> LiveIsland {
        self.islands.lock().push(Arc::clone(counters));
        self.live.send_modify(|islands| *islands += 1);
        LiveIsland { live: Some(Arc::clone(&self.live)) }
    }

    /// The statement is `EXPLAIN ANALYZE`: operators are to be timed.
    pub(crate) fn analyze(&self) {
        self.analyzes.store(true, Ordering::Relaxed);
    }

    pub(crate) fn analyzes(&self) -> bool {
        self.analyzes.load(Ordering::Relaxed)
    }

    /// Nobody waits for the statement any more: planning ends where it asks.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Waits until every island of the statement has given its memory back, also those that were left in the middle. Only a lane
    /// in the middle of a chunk is ever waited for.
    pub async fn settled(&self) {
        let settled = self.live.subscribe().wait_for(|islands| *islands == 0).await.is_ok();
        assert!(settled, "the sender is in this context");
    }

    /// Rows that pipelines of the engine began with so far.
    pub fn rows_scanned(&self) -> u64 {
        self.islands.lock().iter().map(|counters| counters.rows_scanned.load(Ordering::Relaxed)).sum()
    }

    /// Decisions that the operators took so far, e.g. the strategies of aggregations.
    pub fn strategies(&self) -> Vec<String> {
        let mut strategies = Vec::new();
        for counters in self.islands.lock().iter() {
            for decision in counters.strategies() {
                if !strategies.contains(&decision) {
                    strategies.push(decision);
                }
            }
        }
        strategies
    }
}
