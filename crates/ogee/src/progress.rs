//! How far statements are, while they run.
//!
//! Not here: what they took once they are over (`monitor`).

use std::sync::Arc;

use crate::{connection::Running, database::Inner};

/// What a connection's statements did so far, and what the handle holds at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows that pipelines began with.
    pub rows_scanned: u64,
    /// Bytes that the pool holds.
    pub pool_bytes: usize,
    /// Bytes that the process may hold.
    pub memory_limit_bytes: usize,
    /// Bytes of pages written to temporary files since the handle was opened.
    pub spilled_bytes: u64,
}

/// Tells how far the statements of a connection are, from any thread.
#[derive(Clone)]
pub struct ProgressHandle {
    inner: Arc<Inner>,
    running: Running,
}

impl ProgressHandle {
    pub(crate) fn new(inner: Arc<Inner>, running: Running) -> Self {
        Self { inner, running }
    }

    /// How far they are now.
    pub fn now(&self) -> Progress {
        let rows_scanned =
            self.running.lock().iter().filter_map(|switch| Some(switch.upgrade()?.context().rows_scanned())).sum();
        let memory = self.inner.memory.stats();
        Progress {
            rows_scanned,
            pool_bytes: memory.used,
            memory_limit_bytes: memory.limit,
            spilled_bytes: memory.spilled_bytes,
        }
    }
}
