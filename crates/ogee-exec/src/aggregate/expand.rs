//! Expand: each row once for every grouping set, with the keys that the set leaves out set to NULL.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, new_null_array};
use ogee_vector::{Chunk, Column, Domain, Selection};

use crate::{ExecContext, ExecError, Expr, Operator, OperatorLocal, OperatorStep};

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

    fn may_grow(&self) -> bool {
        let grows = |column: &Appended| matches!(column, Appended::Value { expr, .. } if expr.may_grow());
        self.appended.iter().any(grows)
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Box::new(ExpandLocal {
            sets: self.sets,
            appended: Arc::clone(&self.appended),
            zeroes: Vec::new(),
            chunk: Chunk::default(),
            values: Vec::new(),
            set: self.sets,
        })
    }
}

struct ExpandLocal {
    sets: usize,
    appended: Arc<[Appended]>,
    /// Makes a constant column out of an array of one row.
    zeroes: Vec<u32>,
    chunk: Chunk,
    /// Of the columns that are appended: the values that depend on the row.
    values: Vec<Option<Column>>,
    /// The set that the chunk is given for next.
    set: usize,
}

impl OperatorLocal for ExpandLocal {
    fn begin(&mut self, chunk: Chunk, _cancelled: &dyn Fn() -> bool) -> Result<(), ExecError> {
        self.zeroes.resize(chunk.len(), 0);
        self.values.clear();
        for column in &*self.appended {
            self.values.push(match column {
                Appended::Value { expr, .. } => Some(expr.evaluate(&chunk)?),
                Appended::PerSet(_) => None,
            });
        }
        (self.chunk, self.set) = (chunk, 0);
        Ok(())
    }

    fn next(&mut self) -> Result<OperatorStep, ExecError> {
        let Self { sets, appended, zeroes, chunk, values, set } = self;
        if *set == *sets {
            *chunk = Chunk::default();
            values.clear();
            return Ok(OperatorStep::Done);
        }
        let constant = Selection::new(zeroes);
        let mut columns: Vec<Column> = (0..chunk.num_columns()).map(|i| chunk.to_column(i)).collect();
        for (column, value) in appended.iter().zip(&*values) {
            let one_row = |array: &ArrayRef| Column { array: Arc::clone(array), selection: Some(constant.clone()) };
            columns.push(match (column, value) {
                (Appended::Value { null, nulls, .. }, _) if nulls[*set] => one_row(null),
                (Appended::PerSet(values), _) => one_row(&values[*set]),
                (Appended::Value { .. }, value) => value.clone().expect("evaluated when the chunk came"),
            });
        }
        *set += 1;
        Ok(OperatorStep::Chunk(Chunk::from_columns(columns, chunk.len())))
    }
}
