//! What a statement takes: time, rows, memory, temporary space.
//!
//! The resident memory of the process is sampled by a thread of its own, since nothing else sees its peaks.
//!
//! Not here: the account that the limit is kept by (`ogee-memory`).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ogee_datafusion::StatementContext;
use ogee_memory::{BufferManager, process_account};

use crate::{Progress, database::Inner};

/// Between two samples: a peak shorter than this is not one that the system acts on.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// Resident memory that nobody uses and a statement may leave to the next one, in bytes and as a part of the limit. Of what goes back, the next
/// one takes again what it needs as pages of 4 KiB, each of which is a fault: half a millisecond for a megabyte.
const KEPT_BYTES: usize = 16 << 20;
const KEPT_PART: usize = 64;

/// What a statement took. Pool and temporary space are those of the handle while the statement ran, also if others did.
#[derive(Clone, Debug, Default)]
pub struct StatementStats {
    /// From the call of `execute` to the last row.
    pub elapsed: Duration,
    /// Rows of the result, or rows written.
    pub rows: u64,
    /// Rows that pipelines began with: of scans, and groups of aggregations.
    pub rows_scanned: u64,
    /// Workers.
    pub threads: usize,
    /// Bytes that the process may hold.
    pub memory_limit_bytes: usize,
    /// The most bytes that the pool held.
    pub peak_pool_bytes: usize,
    /// The most anonymous and shared memory that the process had resident, as sampled.
    pub peak_rss_bytes: usize,
    /// Bytes of pages written to temporary files.
    pub spilled_bytes: u64,
    /// What was written for them: less where they were compressed.
    pub temp_written_bytes: u64,
    /// Of those, what went through the system's page cache, since the machine had memory to spare.
    pub temp_cached_bytes: u64,
    /// The most bytes that temporary files held.
    pub temp_peak_bytes: u64,
    /// Decisions that operators took, e.g. how an aggregation treated its rows.
    pub strategies: Vec<String>,
}

/// What can be seen of a statement while it is planned and runs, from any thread: counters that are there anyway.
pub(crate) struct Watched {
    context: Arc<StatementContext>,
    memory: Arc<BufferManager>,
    started: Instant,
    spilled_before: u64,
    /// Rows of the result that have been handed on.
    rows: AtomicU64,
    is_over: AtomicBool,
}

impl Watched {
    /// What islands report to.
    pub(crate) fn context(&self) -> &Arc<StatementContext> {
        &self.context
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        let memory = self.memory.stats();
        let (read, is_over) = (self.context.rows_scanned(), self.is_over());
        // Sources know about how many rows they have, and a pipeline in the middle counts its rows again.
        let expected = self.context.rows_expected().filter(|expected| *expected > 0);
        let fraction = match is_over {
            true => Some(1.0),
            false => expected.map(|expected| (read as f64 / expected as f64).min(1.0)),
        };
        Progress {
            elapsed: self.started.elapsed(),
            rows_read: read,
            rows: self.rows.load(Ordering::Relaxed),
            memory_bytes: memory.used,
            spilled_bytes: memory.spilled_bytes - self.spilled_before,
            fraction,
            is_over,
        }
    }
}

/// Watches one statement.
pub(crate) struct Monitor {
    inner: Arc<Inner>,
    watched: Arc<Watched>,
    written_before: u64,
    cached_before: u64,
    sampler: Option<Sampler>,
    finished: Option<StatementStats>,
}

impl Monitor {
    /// Starts to watch.
    pub(crate) fn start(inner: &Arc<Inner>) -> Self {
        inner.memory.reset_peaks();
        let memory = inner.memory.stats();
        let watched = Watched {
            context: Arc::default(),
            memory: Arc::clone(&inner.memory),
            started: Instant::now(),
            spilled_before: memory.spilled_bytes,
            rows: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        };
        Self {
            watched: Arc::new(watched),
            written_before: memory.temp_written_bytes,
            cached_before: memory.temp_cached_bytes,
            sampler: Some(Sampler::start()),
            finished: None,
            inner: Arc::clone(inner),
        }
    }

    /// What islands report to.
    pub(crate) fn context(&self) -> Arc<StatementContext> {
        Arc::clone(&self.watched.context)
    }

    /// What others may see.
    pub(crate) fn watched(&self) -> Arc<Watched> {
        Arc::clone(&self.watched)
    }

    pub(crate) fn add_rows(&mut self, rows: u64) {
        let before = self.watched.rows.fetch_add(rows, Ordering::Relaxed);
        if let Some(stats) = &mut self.finished {
            stats.rows = before + rows;
        }
    }

    /// The statement is over: memory goes back to the system, unless it is little.
    pub(crate) fn finish(&mut self) {
        self.end();
        self.give_back();
    }

    /// The statement is over, and takes nothing more.
    pub(crate) fn end(&mut self) {
        if self.finished.is_none() {
            self.watched.is_over.store(true, Ordering::Relaxed);
            self.finished = Some(self.measure());
        }
    }

    /// Memory goes back to the system, unless it is little. Takes milliseconds.
    fn give_back(&mut self) {
        if self.sampler.take().is_some() {
            self.inner.memory.trim();
            if kept_bytes() > (self.inner.memory.limit() / KEPT_PART).min(KEPT_BYTES) {
                (self.inner.release_memory)();
            }
        }
    }

    /// What it took so far, or in all.
    pub(crate) fn stats(&self) -> StatementStats {
        self.finished.clone().unwrap_or_else(|| self.measure())
    }

    fn measure(&self) -> StatementStats {
        let memory = self.inner.memory.stats();
        let watched = &self.watched;
        StatementStats {
            elapsed: watched.started.elapsed(),
            rows: watched.rows.load(Ordering::Relaxed),
            threads: self.inner.session.engine().settings().threads,
            memory_limit_bytes: self.inner.memory.limit(),
            peak_pool_bytes: memory.peak_used,
            peak_rss_bytes: self.sampler.as_ref().map_or(0, Sampler::peak),
            spilled_bytes: memory.spilled_bytes - watched.spilled_before,
            temp_written_bytes: memory.temp_written_bytes - self.written_before,
            temp_cached_bytes: memory.temp_cached_bytes - self.cached_before,
            temp_peak_bytes: memory.temp_peak,
            rows_scanned: watched.context.rows_scanned(),
            strategies: watched.context.strategies(),
        }
    }
}

/// Resident memory that nobody uses: stacks, and what the allocator keeps for later.
fn kept_bytes() -> usize {
    let account = process_account();
    account.anonymous_bytes().saturating_sub(account.pool_bytes() + account.allocator_bytes())
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A thread that looks at the resident memory while a statement runs.
struct Sampler {
    shared: Arc<Samples>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Samples {
    peak: AtomicUsize,
    done: AtomicBool,
}

impl Samples {
    fn take(&self) {
        self.peak.fetch_max(process_account().anonymous_bytes(), Ordering::Relaxed);
    }
}

impl Sampler {
    fn start() -> Self {
        let shared = Arc::new(Samples::default());
        shared.take();
        let samples = Arc::clone(&shared);
        let run = move || {
            while !samples.done.load(Ordering::Relaxed) {
                samples.take();
                thread::park_timeout(SAMPLE_EVERY);
            }
        };
        // Without the thread there are the samples of the beginning and the end.
        let thread = thread::Builder::new().name("ogee-sampler".to_owned()).stack_size(64 << 10).spawn(run).ok();
        Self { shared, thread }
    }

    fn peak(&self) -> usize {
        self.shared.take();
        self.shared.peak.load(Ordering::Relaxed)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It can only have ended.
            let _ = thread.join();
        }
    }
}
