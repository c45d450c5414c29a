//! One statement while it is planned and runs: what its islands report to, and whether it was interrupted.
//!
//! Not here: who interrupts (crate `ogee`), and where planning asks (`checkpoint`).

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

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
}

impl Default for StatementContext {
    fn default() -> Self {
        Self {
            islands: Mutex::default(),
            live: Arc::new(watch::Sender::new(0)),
            interrupted: AtomicBool::new(false),
            analyzes: AtomicBool::new(false),
            connection: AtomicU64::new(0),
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
