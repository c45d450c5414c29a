//! What every operator of a query may use: memory, settings, counters.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use ogee_memory::{BufferManager, MemoryShare};
use ogee_vector::HashSeed;
use parking_lot::Mutex;

/// Bytes of the values of a chunk, as far as each has its place in a row: a chunk is there in a source, evaluated, staged and gathered, once
/// for each lane, and none of that is reserved.
const CHUNK_BYTES: usize = 2 << 20;

/// Rows of a chunk of however wide rows, at least.
const CHUNK_ROWS_MIN: usize = 16;

/// Settings that operators obey. The answer of a query depends on none of them, but for the order of its rows.
#[derive(Clone, Debug)]
pub struct ExecSettings {
    /// Workers that may run one pipeline at once.
    pub threads: usize,
    /// Rows of a chunk, at most; 2048 but in hostile tests.
    pub chunk_capacity: usize,
    /// Seed and mask of hashes; the mask is narrowed only by tests that force collisions.
    pub hash: HashSeed,
    /// Forces the strategy of aggregation; `None` decides while running.
    pub aggregate_strategy: Option<AggregateStrategy>,
    /// Forces how hash joins keep their build side; `None` decides by its size.
    pub join_strategy: Option<JoinStrategy>,
    /// Forces how hash joins filter the rows of their probe side before these come to them; `None` decides by the keys and what comes of it.
    pub key_filters: Option<KeyFilters>,
    /// Whether rows that nobody sorts come in the order in which they lie where they come from, and limits take the first in it.
    pub keeps_order: bool,
}

/// How the first phase of an aggregation treats its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateStrategy {
    /// Look every row up in the thread-local table, however little that reduces.
    PreAggregate,
    /// Append every row to its partition without looking it up.
    PartitionOnly,
    /// The same, but combine the rows of partitions as they grow, however little that reduces.
    CombineEarly,
}

/// Which partitions of its build side a hash join keeps in memory while it probes, whether the others would fit or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinStrategy {
    /// Every other one.
    Hybrid,
    /// None.
    Partitioned,
}

/// What rows of the probe side of a join are asked about before they have come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFilters {
    /// Nothing.
    Never,
    /// All of them, a Bloom filter, however few of them it drops.
    Bloom,
    /// All of them: a bit for each integer where keys are a range of integers, else a Bloom filter.
    Bits,
}

impl Default for ExecSettings {
    fn default() -> Self {
        Self {
            threads: ogee_memory::default_threads(),
            chunk_capacity: ogee_vector::CHUNK_CAPACITY,
            hash: HashSeed::default(),
            aggregate_strategy: None,
            join_strategy: None,
            key_filters: None,
            keeps_order: true,
        }
    }
}

/// What happened in a query, for `--stats` and `EXPLAIN ANALYZE`.
#[derive(Debug, Default)]
pub struct QueryCounters {
    /// Rows that sources produced.
    pub rows_scanned: AtomicU64,
    /// Rows that scans are expected to give; [`UNKNOWN`] if one does not know.
    rows_expected: AtomicU64,
    strategies: Mutex<Vec<String>>,
}

/// Stands for a number of rows that nobody knows.
const UNKNOWN: u64 = u64::MAX;

impl QueryCounters {
    /// Notes a decision that an operator took, e.g. `aggregate: partitioned (64 partitions)`.
    pub fn note_strategy(&self, decision: String) {
        let mut strategies = self.strategies.lock();
        if !strategies.contains(&decision) {
            strategies.push(decision);
        }
    }

    /// The decisions so far, in the order in which they were taken.
    pub fn strategies(&self) -> Vec<String> {
        self.strategies.lock().clone()
    }

    /// A scan will give so many rows, if that is known.
    pub fn expect_rows(&self, rows: Option<u64>) {
        // One that does not know makes the whole unknown, for good.
        let rows = rows.unwrap_or(UNKNOWN);
        let add = |known: u64| Some(known.saturating_add(rows));
        let _ = self.rows_expected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Rows that all scans together are expected to give, if each knows.
    pub fn rows_expected(&self) -> Option<u64> {
        Some(self.rows_expected.load(Ordering::Relaxed)).filter(|rows| *rows < UNKNOWN)
    }

    pub(crate) fn add_rows(&self, rows: u64) {
        self.rows_scanned.fetch_add(rows, Ordering::Relaxed);
    }
}

/// Shared by the operators of one query.
#[derive(Clone)]
pub struct ExecContext {
    /// The pool that all state lives in.
    pub memory: Arc<BufferManager>,
    /// Settings as they were when the query started.
    pub settings: Arc<ExecSettings>,
    /// What of the pool its operators may plan with.
    pub share: Arc<MemoryShare>,
    /// What happened.
    pub counters: Arc<QueryCounters>,
    /// Joins whose build sides are not complete: each gets its share of what memory there is then.
    pub(crate) pending_builds: Arc<AtomicUsize>,
    /// Whether operators are timed, which costs two looks at the clock for each of their chunks.
    pub takes_times: bool,
}

impl ExecContext {
    /// A context with counters of its own.
    pub fn new(memory: Arc<BufferManager>, settings: ExecSettings) -> Self {
        Self {
            share: Arc::new(MemoryShare::new(Arc::clone(&memory))),
            memory,
            settings: Arc::new(settings),
            counters: Arc::default(),
            pending_builds: Arc::default(),
            takes_times: false,
        }
    }

    /// Has chunks of fewer rows, as far as no operator has rows of more than `width` bytes, so that each takes a few megabytes.
    pub fn expect_rows_of(&mut self, width: usize) {
        let rows = (CHUNK_BYTES / width.max(1)).max(CHUNK_ROWS_MIN);
        if rows < self.settings.chunk_capacity {
            self.settings = Arc::new(ExecSettings { chunk_capacity: rows, ..(*self.settings).clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use ogee_memory::MemoryConfig;

    use super::*;

    #[test]
    fn chunks_of_wide_rows_have_fewer() {
        let rows = |width: usize, chunk_capacity: usize| {
            let memory = BufferManager::new(MemoryConfig { counts_process: false, ..MemoryConfig::default() }).unwrap();
            let mut ctx = ExecContext::new(memory, ExecSettings { chunk_capacity, ..ExecSettings::default() });
            ctx.expect_rows_of(width);
            ctx.settings.chunk_capacity
        };
        assert_eq!(rows(0, 2048), 2048);
        assert_eq!(rows(1024, 2048), 2048);
        assert_eq!(rows(16_000, 2048), 131);
        assert_eq!(rows(1 << 30, 2048), CHUNK_ROWS_MIN);
        assert_eq!(rows(1 << 30, 3), 3);
    }
}
