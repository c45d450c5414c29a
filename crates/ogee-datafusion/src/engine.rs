//! What islands run on: one pool, one scheduler, one runtime per handle.
//!
//! Not here: SQL.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use ogee_exec::{ExecContext, ExecSettings};
use ogee_functions::Result;
use ogee_memory::BufferManager;
use ogee_scheduler::Scheduler;
use ogee_sql::{StatementThreads, no_thread};
use parking_lot::RwLock;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads of the runtime on which DataFusion's own operators run.
const RUNTIME_THREADS: usize = 2;

/// Bytes of the stack of one.
const RUNTIME_STACK: usize = 8 << 20;

/// The pool, the workers and the settings of a handle.
pub struct Engine {
    memory: Arc<BufferManager>,
    scheduler: Arc<Scheduler>,
    settings: Arc<RwLock<ExecSettings>>,
    release: Option<fn()>,
    runtime: OnceLock<Runtime>,
    statements: Arc<StatementThreads>,
}

impl Engine {
    /// An engine on `memory`, with as many workers as `settings` say. Threads start with the first statement.
    /// `release`, if there is one, makes the allocator give memory back that nobody uses.
    pub fn new(memory: Arc<BufferManager>, settings: ExecSettings, release: Option<fn()>) -> Arc<Self> {
        let scheduler = Scheduler::new(settings.threads);
        let (settings, runtime, statements) = (Arc::new(RwLock::new(settings)), OnceLock::new(), Arc::default());
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

    /// The settings as they will be whenever somebody looks.
    pub(crate) fn shared_settings(&self) -> &Arc<RwLock<ExecSettings>> {
        &self.settings
    }

    /// Sets the number of workers; queries that run obey at their next morsels.
    pub fn set_threads(&self, threads: usize) {
        self.settings.write().threads = threads;
        self.scheduler.set_threads(threads);
    }

    /// Sets whether rows that nobody sorts come in the order in which they lie where they come from, in statements that are planned from now on.
    pub fn set_keeps_order(&self, keeps_order: bool) {
        self.settings.write().keeps_order = keeps_order;
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
