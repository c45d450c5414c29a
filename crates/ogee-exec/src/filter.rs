//! Filter: keeps the rows for which a predicate is true, by composing into selection vectors.

use std::sync::Arc;

use ogee_vector::Chunk;

use crate::{
    ExecContext, ExecError, Expr, Operator, OperatorLocal, OperatorStep,
    pipeline::{Map, Mapped},
};

/// Keeps the rows for which a predicate is true.
#[derive(Debug)]
pub struct Filter {
    predicate: Arc<Expr>,
}

impl Filter {
    /// A filter by `predicate`, a boolean expression.
    pub fn new(predicate: Expr) -> Self {
        Self { predicate: Arc::new(predicate) }
    }
}

impl Operator for Filter {
    fn name(&self) -> &str {
        "filter"
    }

    fn origin(&self, column: usize) -> Option<usize> {
        Some(column)
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn may_grow(&self) -> bool {
        self.predicate.may_grow()
    }

    fn is_light(&self) -> bool {
        true
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Mapped::local(FilterLocal { predicate: Arc::clone(&self.predicate), rows: Vec::new() })
    }
}

struct FilterLocal {
    predicate: Arc<Expr>,
    rows: Vec<u32>,
}

impl Map for FilterLocal {
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError> {
        self.predicate.select(&chunk, &mut self.rows)?;
        Ok(match self.rows.len() {
            0 => OperatorStep::Done,
            all if all == chunk.len() => OperatorStep::Chunk(chunk),
            _ => OperatorStep::Chunk(chunk.select(&self.rows)),
        })
    }
}
