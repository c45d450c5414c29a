//! Expand: each row once for every grouping set, with the keys that the set leaves out set to NULL.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, new_null_array};
use ogee_vector::{Chunk, Column, Domain, Selection};

use crate::{ExecContext, ExecError, Expr, Flow, Operator, OperatorLocal};

/// A column that [`Expand`] appends to the chunk's own.
#[derive(Debug)]
pub(crate) enum Appended {
    /// A value that depends on the row: the expression, or NULL (an array of one row) in the sets that leave it out.
    Value { expr: Expr, null: ArrayRef, nulls: Vec<bool> },
    /// A value that depends on the set: an array of one row for each.
    PerSet(Vec<ArrayRef>),
}

impl Appended {
    /// `expr`, of type `data_type`, NULL in the sets for which `nulls` says so.
    pub(crate) fn value(expr: Expr, data_type: &arrow_schema::DataType, nulls: Vec<bool>) -> Self {
        Self::Value { expr, null: new_null_array(data_type, 1), nulls }
    }
}

/// Emits each chunk once for every one of `sets` sets, with columns appended.
#[derive(Debug)]
pub(crate) struct Expand {
    sets: usize,
    input_columns: usize,
    appended: Arc<[Appended]>,
}

impl Expand {
    /// Over chunks of `input_columns` columns.
    pub(crate) fn new(sets: usize, input_columns: usize, appended: Vec<Appended>) -> Self {
        Self { sets, input_columns, appended: appended.into() }
    }
}

impl Operator for Expand {
    fn name(&self) -> &str {
        "expand"
    }

    fn columns(&self, input: usize) -> usize {
        input + self.appended.len()
    }

    fn domains(&self, mut input: Vec<Domain>) -> Vec<Domain> {
        let known = self.appended.iter().map(|column| match column {
            Appended::Value { expr, nulls, .. } => {
                let domain = expr.domain(&input);
                Domain { nulls: domain.nulls || nulls.contains(&true), ..domain }
            }
            Appended::PerSet(values) => {
                Domain { nulls: values.iter().any(|value| value.null_count() > 0), integers: None }
            }
        });
        let known: Vec<Domain> = known.collect();
        input.resize(self.input_columns, Domain::UNKNOWN);
        input.extend(known);
        input
    }

    fn origin(&self, column: usize) -> Option<usize> {
        (column < self.input_columns).then_some(column)
    }

    fn local(&self, _ctx: &ExecContext) -> Box<dyn OperatorLocal> {
        Box::new(ExpandLocal { sets: self.sets, appended: Arc::clone(&self.appended), zeroes: Vec::new() })
    }
}

struct ExpandLocal {
    sets: usize,
    appended: Arc<[Appended]>,
    /// Makes a constant column out of an array of one row.
    zeroes: Vec<u32>,
}

impl OperatorLocal for ExpandLocal {
    fn push(
        &mut self,
        chunk: Chunk,
        emit: &mut dyn FnMut(Chunk) -> Result<Flow, ExecError>,
    ) -> Result<Flow, ExecError> {
        self.zeroes.resize(chunk.len(), 0);
        let constant = Selection::new(&self.zeroes);
        let values = self
            .appended
            .iter()
            .map(|column| match column {
                Appended::Value { expr, .. } => Ok(Some(expr.evaluate(&chunk)?)),
                Appended::PerSet(_) => Ok(None),
            })
            .collect::<Result<Vec<_>, ExecError>>()?;
        for set in 0..self.sets {
            let mut columns: Vec<Column> = (0..chunk.num_columns()).map(|i| chunk.to_column(i)).collect();
            for (column, value) in self.appended.iter().zip(&values) {
                let one_row = |array: &ArrayRef| Column { array: Arc::clone(array), selection: Some(constant.clone()) };
                columns.push(match (column, value) {
                    (Appended::Value { null, nulls, .. }, _) if nulls[set] => one_row(null),
                    (Appended::PerSet(values), _) => one_row(&values[set]),
                    (Appended::Value { .. }, value) => value.clone().expect("evaluated above"),
                });
            }
            if emit(Chunk::from_columns(columns, chunk.len()))? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}
