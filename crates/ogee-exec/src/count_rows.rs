//! Counts the rows that pass, for those who compare them with estimates.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ogee_vector::Chunk;

use crate::{
    ExecContext, ExecError, Operator, OperatorLocal, OperatorStep,
    pipeline::{Map, Mapped},
};

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
        Mapped::local(CountRowsLocal { rows: Arc::clone(&self.rows) })
    }
}

struct CountRowsLocal {
    rows: Arc<AtomicU64>,
}

impl Map for CountRowsLocal {
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError> {
        self.rows.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        Ok(OperatorStep::Chunk(chunk))
    }
}
