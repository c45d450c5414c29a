//! One statement while it is planned and runs: what its islands report to, and whether it was interrupted.
//!
//! Not here: who interrupts (crate `ogee`), and where planning asks (`checkpoint`).

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use datafusion::common::ScalarValue;
use ogee_exec::QueryCounters;
use parking_lot::Mutex;
use tokio::sync::watch;

/// One statement in execution: its islands report to it.
#[derive(Debug)]
pub struct StatementContext {
    islands: Mutex<Vec<Arc<QueryCounters>>>,
    /// How many islands still hold memory.
    live: Arc<watch::Sender<usize>>,
    interrupted: AtomicBool,
    analyzes: AtomicBool,
    /// Which connection runs it.
    connection: AtomicU64,
    /// Values of its parameters.
    parameters: OnceLock<Vec<ScalarValue>>,
}

impl Default for StatementContext {
    fn default() -> Self {
        Self {
            islands: Mutex::default(),
            live: Arc::new(watch::Sender::new(0)),
            interrupted: AtomicBool::new(false),
            analyzes: AtomicBool::new(false),
            connection: AtomicU64::new(0),
            parameters: OnceLock::new(),
        }
    }
}

/// Held for as long as an island runs.
#[derive(Debug)]
pub struct LiveIsland {
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
    pub fn unattended() -> Self {
        Self { live: None }
    }
}

impl StatementContext {
    /// An island that runs, and what it counts.
    pub fn register(&self, counters: &Arc<QueryCounters>) -> LiveIsland {
        self.islands.lock().push(Arc::clone(counters));
        self.live.send_modify(|islands| *islands += 1);
        LiveIsland { live: Some(Arc::clone(&self.live)) }
    }

    /// Connection `number` runs it.
    pub fn of_connection(&self, number: u64) {
        self.connection.store(number, Ordering::Relaxed);
    }

    /// The number of the connection that runs it.
    pub fn connection(&self) -> u64 {
        self.connection.load(Ordering::Relaxed)
    }

    /// Its parameters have these values, in the order of their numbers. Told once, before it is planned.
    pub fn give(&self, values: Vec<ScalarValue>) {
        let told = self.parameters.set(values);
        debug_assert!(told.is_ok(), "values are told once");
    }

    /// The value of parameter `number`, counted from 1.
    pub(crate) fn parameter(&self, number: usize) -> Option<ScalarValue> {
        self.parameters.get()?.get(number.checked_sub(1)?).cloned()
    }

    /// The statement is `EXPLAIN ANALYZE`: operators are to be timed.
    pub fn analyze(&self) {
        self.analyzes.store(true, Ordering::Relaxed);
    }

    /// Whether operators are to be timed.
    pub fn analyzes(&self) -> bool {
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

    /// Rows that the scans of the engine are expected to give, as far as they have been opened; `None` if one does not know.
    pub fn rows_expected(&self) -> Option<u64> {
        let islands = self.islands.lock();
        islands
            .iter()
            .map(|counters| counters.rows_expected())
            .try_fold(0_u64, |all, rows| Some(all.saturating_add(rows?)))
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
