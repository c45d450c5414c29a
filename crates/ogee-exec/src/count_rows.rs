//! Counts the rows that pass, for those who compare them with estimates.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ogee_vector::Chunk;

use crate::{ExecContext, ExecError, Flow, Operator, OperatorLocal};

/// Passes chunks on and adds up their rows: one addition a chunk.
#[derive(Debug)]
pub struct CountRows {
    rows: Arc<AtomicU64>,
}

impl CountRows {
    /// Counts into `rows`.
    pub fn new(rows: Arc<AtomicU64>) -> Self {
        Self { rows }
    }
}

impl Operator for CountRows {
    fn name(&self) -> &str {
        "count rows"
    }

    fn origin(&self, column: usize) -> Option<usize> {
        Some(column)
    }

    fn keeps_rows(&self) -> bool {
        true
    }

    fn is_light(&self) -> bool {
        true
    }

    fn local(&self, _ctx: &ExecContext) -> Box<dyn OperatorLocal> {
        Box::new(CountRowsLocal { rows: Arc::clone(&self.rows) })
    }
}

struct CountRowsLocal {
    rows: Arc<AtomicU64>,
}

impl OperatorLocal for CountRowsLocal {
    fn push(
        &mut self,
        chunk: Chunk,
        emit: &mut dyn FnMut(Chunk) -> Result<Flow, ExecError>,
    ) -> Result<Flow, ExecError> {
        self.rows.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        emit(chunk)
    }
}
