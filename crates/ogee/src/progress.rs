//! How far a statement is, seen from any thread.
//!
//! Not here: what is counted (`monitor`).

use std::time::Duration;

use crate::connection::Running;

/// How far a statement is. Memory and temporary space are those of the handle, also if others run.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Since it began.
    pub elapsed: Duration,
    /// Rows that pipelines began with so far: of scans, and groups of aggregations.
    pub rows_read: u64,
    /// Rows of the result that were read so far, or rows written.
    pub rows: u64,
    /// Bytes that the pool holds.
    pub memory_bytes: usize,
    /// Bytes of pages written to temporary files since it began.
    pub spilled_bytes: u64,
    /// About which part of the rows has been read, from 0 to 1. `None` while it is planned, and where a source does not know how many rows it has.
    pub fraction: Option<f64>,
    /// Whether it has ended.
    pub is_over: bool,
}

/// Tells how far the statements of a connection are, from any thread. Asking costs next to nothing, and holds nothing up.
#[derive(Clone)]
pub struct ProgressHandle {
    running: Running,
}

impl ProgressHandle {
    pub(crate) fn new(running: Running) -> Self {
        Self { running }
    }

    /// How far the statement is that began last, if one runs.
    pub fn progress(&self) -> Option<Progress> {
        self.all().pop()
    }

    /// How far each statement that runs is, in the order in which they began.
    pub fn all(&self) -> Vec<Progress> {
        let running: Vec<_> = self.running.lock().iter().filter_map(std::sync::Weak::upgrade).collect();
        let running = running.iter().map(|switch| switch.watched()).filter(|watched| !watched.is_over());
        running.map(|watched| watched.progress()).collect()
    }
}
