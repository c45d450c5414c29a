//! Projection: computes expressions; columns that only move share their arrays and selections.

use std::sync::Arc;

use ogee_vector::{Chunk, Domain};

use crate::{
    ExecContext, ExecError, Expr, Operator, OperatorLocal, OperatorStep,
    pipeline::{Map, Mapped},
};

/// Replaces the columns of each chunk by the values of expressions.
#[derive(Debug)]
pub struct Project {
    exprs: Arc<[Expr]>,
}

impl Project {
    /// A projection onto `exprs`.
    pub fn new(exprs: Vec<Expr>) -> Self {
        Self { exprs: exprs.into() }
    }
}

impl Operator for Project {
    fn name(&self) -> &str {
        "project"
    }

    fn columns(&self, _input: usize) -> usize {
        self.exprs.len()
    }

    fn domains(&self, input: Vec<Domain>) -> Vec<Domain> {
        self.exprs.iter().map(|expr| expr.domain(&input)).collect()
    }

    fn origin(&self, column: usize) -> Option<usize> {
        match self.exprs.get(column)? {
            Expr::Column(index) => Some(*index),
            _ => None,
        }
    }

    fn keeps_rows(&self) -> bool {
        true
    }

    fn may_grow(&self) -> bool {
        self.exprs.iter().any(Expr::may_grow)
    }

    fn is_light(&self) -> bool {
        self.exprs.iter().all(|expr| matches!(expr, Expr::Column(_)))
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Mapped::local(ProjectLocal(Arc::clone(&self.exprs)))
    }
}

struct ProjectLocal(Arc<[Expr]>);

impl Map for ProjectLocal {
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError> {
        let columns = self.0.iter().map(|expr| expr.evaluate(&chunk)).collect::<Result<Vec<_>, _>>()?;
        Ok(OperatorStep::Chunk(Chunk::from_columns(columns, chunk.len())))
    }
}
