//! Expressions over the columns of a chunk.
//!
//! The common ones have kernels that follow selection vectors. Any other is a [`ForeignExpr`], evaluated as it is on the
//! columns it needs, compacted first.

use std::{fmt, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, Scalar, cast::AsArray, make_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use ogee_vector::{Chunk, Column, Domain, gather_array, normalize_array};

use crate::{DecimalArithmetic, ExecError};

/// An expression that the engine has no kernel for, brought by the front end.
pub trait ForeignExpr: Send + Sync + fmt::Debug {
    /// The chunk's columns it reads, by index.
    fn columns(&self) -> &[usize];

    /// Its value for each of `rows` rows of `columns` (those of [`Self::columns`], in that order).
    ///
    /// # Errors
    /// As the expression fails.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError>;
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by SQL's operators")]
pub enum CompareOp {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

/// An expression, evaluated once a chunk.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A column of the chunk, by index.
    Column(usize),
    /// A constant: an array of one row in normalized type.
    Literal(ArrayRef),
    /// A column against a constant of the same type.
    Compare {
        /// The comparison, column on the left.
        op: CompareOp,
        /// The column's index.
        column: usize,
        /// The constant: an array of one row.
        literal: ArrayRef,
    },
    /// Rows for which all are true. Only as (part of) a predicate.
    And(Vec<Expr>),
    /// A value, but NULL where a condition is not true.
    NullUnless {
        /// The value.
        value: Box<Expr>,
        /// A boolean.
        condition: Box<Expr>,
    },
    /// Decimals added, subtracted or multiplied.
    Decimal(Box<DecimalArithmetic>),
    /// Everything else.
    Foreign(Arc<dyn ForeignExpr>),
}

/// `array` with NULL wherever `keep` is not set.
pub(crate) fn null_unless(array: &ArrayRef, keep: &BooleanBuffer) -> ArrayRef {
    if *array.data_type() == DataType::Null {
        return ArrayRef::clone(array);
    }
    let nulls = array.nulls().map_or_else(|| keep.clone(), |nulls| nulls.inner() & keep);
    let data = array.to_data().into_builder().nulls(Some(NullBuffer::new(nulls)));
    // SAFETY: the same values with a null buffer of the same length that only hides more of them.
    make_array(unsafe { data.build_unchecked() })
}

impl Expr {
    /// The value of the expression for each row of `chunk`, in normalized type.
    ///
    /// # Errors
    /// As the expression fails.
    pub fn evaluate(&self, chunk: &Chunk) -> Result<Column, ExecError> {
        Ok(match self {
            Self::Column(index) => chunk.to_column(*index),
            Self::Literal(array) => Column {
                array: ArrayRef::clone(array),
                selection: Some(ogee_vector::Selection::new(&vec![0; chunk.len()])),
            },
            Self::Compare { .. } => Column::flat(Arc::new(self.compare(chunk)?)),
            Self::And(_) => {
                let mut rows = Vec::new();
                self.select(chunk, &mut rows)?;
                let mut bits = vec![false; chunk.len()];
                rows.iter().for_each(|&r| bits[r as usize] = true);
                Column::flat(Arc::new(BooleanArray::new(BooleanBuffer::from(bits), None)))
            }
            Self::NullUnless { value, condition } => {
                Column::flat(null_unless(&value.evaluate(chunk)?.flatten()?, &condition.truth(chunk)?))
            }
            Self::Decimal(arithmetic) => arithmetic.evaluate(chunk)?,
            Self::Foreign(foreign) => {
                let columns =
                    foreign.columns().iter().map(|&i| chunk.column(i).flatten()).collect::<Result<Vec<_>, _>>()?;
                Column::flat(normalize_array(&foreign.evaluate(&columns, chunk.len())?)?)
            }
        })
    }

    /// What is known of its values, given what is known of the columns.
    pub fn domain(&self, columns: &[Domain]) -> Domain {
        match self {
            Self::Column(index) => columns.get(*index).copied().unwrap_or(Domain::UNKNOWN),
            Self::NullUnless { value, .. } => Domain { nulls: true, ..value.domain(columns) },
            _ => Domain::UNKNOWN,
        }
    }

    /// One bit a row: whether the expression, a boolean, is true; neither false nor NULL.
    pub(crate) fn truth(&self, chunk: &Chunk) -> Result<BooleanBuffer, ExecError> {
        let array = self.evaluate(chunk)?.flatten()?;
        if *array.data_type() == DataType::Null {
            return Ok(BooleanBuffer::new_unset(array.len()));
        }
        let bools = array.as_boolean();
        Ok(bools.nulls().map_or_else(|| bools.values().clone(), |nulls| bools.values() & nulls.inner()))
    }

    /// The rows of `chunk` for which the predicate is true (neither false nor NULL), ascending, into `rows`.
    ///
    /// # Errors
    /// As the expression fails.
    pub fn select(&self, chunk: &Chunk, rows: &mut Vec<u32>) -> Result<(), ExecError> {
        rows.clear();
        if let Self::And(parts) = self {
            return Self::select_all(parts, chunk, rows);
        }
        rows.extend(self.truth(chunk)?.set_indices().map(|row| row as u32));
        Ok(())
    }

    /// Conjunctions narrow step by step: each part sees only the rows that passed the ones before.
    fn select_all(parts: &[Self], chunk: &Chunk, rows: &mut Vec<u32>) -> Result<(), ExecError> {
        let Some((first, rest)) = parts.split_first() else {
            rows.extend(0..chunk.len() as u32);
            return Ok(());
        };
        first.select(chunk, rows)?;
        let mut passed = Vec::new();
        for part in rest {
            if rows.is_empty() {
                break;
            }
            if rows.len() == chunk.len() {
                part.select(chunk, rows)?;
                continue;
            }
            part.select(&chunk.select(rows), &mut passed)?;
            passed.iter_mut().for_each(|row| *row = rows[*row as usize]);
            std::mem::swap(rows, &mut passed);
        }
        Ok(())
    }

    fn compare(&self, chunk: &Chunk) -> Result<BooleanArray, ExecError> {
        use arrow_ord::cmp;
        let Self::Compare { op, column, literal } = self else {
            unreachable!("called for comparisons only");
        };
        let column = chunk.column(*column);
        // Of few values, such as a dictionary's, each is compared once.
        let positions = column.selection.filter(|positions| column.array.len() < positions.len());
        let values = if positions.is_some() { ArrayRef::clone(column.array) } else { column.flatten()? };
        let literal = Scalar::new(ArrayRef::clone(literal));
        let result = match op {
            CompareOp::Eq => cmp::eq(&values, &literal),
            CompareOp::NotEq => cmp::neq(&values, &literal),
            CompareOp::Lt => cmp::lt(&values, &literal),
            CompareOp::LtEq => cmp::lt_eq(&values, &literal),
            CompareOp::Gt => cmp::gt(&values, &literal),
            CompareOp::GtEq => cmp::gt_eq(&values, &literal),
        }?;
        Ok(match positions {
            None => result,
            Some(positions) => gather_array(&result, positions)?.as_boolean().clone(),
        })
    }
}
