//! Finish: states that are columns become results.

use std::sync::Arc;

use ogee_row::{CodeCache, RowStage};
use ogee_vector::{Chunk, Column, Domain};

use super::{
    kernel::Targets,
    plan::{AggregatePlan, Evaluated},
    sink::{Updated, update_states},
};
use crate::{
    ExecContext, ExecError, Operator, OperatorLocal, OperatorStep,
    pipeline::{Map, Mapped},
};

/// Where a column of the output comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Finished {
    /// It is a column of the input.
    Column(usize),
    /// It is result `.0` of the plan.
    Result(usize),
}

/// Computes results of states, row by row.
pub(crate) struct Finish {
    /// An aggregation without keys, over states: each row by itself is one of its groups.
    plan: Arc<AggregatePlan>,
    columns: Arc<[Finished]>,
}

impl Finish {
    /// Puts out `columns`; `plan` has no keys and keeps no values.
    pub(crate) fn new(plan: AggregatePlan, columns: Vec<Finished>) -> Self {
        assert!(plan.layout.columns().is_empty(), "what is no state needs not be finished");
        Self { plan: Arc::new(plan), columns: columns.into() }
    }
}

impl Operator for Finish {
    fn name(&self) -> &str {
        "finish"
    }

    fn columns(&self, _input: usize) -> usize {
        self.columns.len()
    }

    fn domains(&self, input: Vec<Domain>) -> Vec<Domain> {
        let known = |column: &Finished| match column {
            Finished::Column(column) => input.get(*column).copied().unwrap_or(Domain::UNKNOWN),
            Finished::Result(_) => Domain::UNKNOWN,
        };
        self.columns.iter().map(known).collect()
    }

    fn origin(&self, column: usize) -> Option<usize> {
        match self.columns.get(column)? {
            Finished::Column(column) => Some(*column),
            Finished::Result(_) => None,
        }
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Mapped::local(FinishLocal {
            plan: Arc::clone(&self.plan),
            columns: Arc::clone(&self.columns),
            evaluated: Evaluated::default(),
            stage: RowStage::default(),
            targets: Vec::new(),
            rows: Vec::new(),
            caches: Vec::new(),
        })
    }
}

struct FinishLocal {
    plan: Arc<AggregatePlan>,
    columns: Arc<[Finished]>,
    evaluated: Evaluated,
    stage: RowStage,
    targets: Vec<u64>,
    rows: Vec<*const u8>,
    caches: Vec<CodeCache>,
}

// SAFETY: the addresses are those of the lane's own stage, and are not used across calls.
unsafe impl Send for FinishLocal {}

impl Map for FinishLocal {
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError> {
        let Self { plan, columns, evaluated, stage, targets, rows, caches } = self;
        plan.evaluate(&chunk, evaluated)?;
        stage.reset(&plan.layout, chunk.len());
        targets.clear();
        targets.extend((0..chunk.len()).map(|row| stage.row_mut(row) as u64));
        rows.clear();
        rows.extend((0..chunk.len()).map(|row| stage.row(row)));
        // SAFETY: the rows were staged just now, all states empty, and nobody else has them.
        let results = unsafe {
            update_states(plan, evaluated, Updated::Rows(Targets::Each(targets)))?;
            plan.gather(rows, caches)?
        };
        let column = |column: &Finished| -> Column {
            match *column {
                Finished::Column(column) => chunk.to_column(column),
                Finished::Result(result) => results.to_column(result),
            }
        };
        Ok(OperatorStep::Chunk(Chunk::from_columns(columns.iter().map(column).collect(), chunk.len())))
    }
}
