//! Expressions over the columns of a chunk.
//!
//! The common ones have kernels that follow selection vectors. Any other is a [`ForeignExpr`], evaluated as it is on the
//! columns it needs, compacted first.

use std::{fmt, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, StringViewArray, cast::AsArray, make_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use ogee_vector::{Chunk, Column, Domain, keep_rows, normalize_array};

use crate::{DecimalArithmetic, ExecError, Like, compare, compare::CompareOp};

/// An expression that the engine has no kernel for, brought by the front end.
pub trait ForeignExpr: Send + Sync + fmt::Debug {
    /// The chunk's columns it reads, by index.
    fn columns(&self) -> &[usize];

    /// Whether equal arguments may give different values.
    fn is_volatile(&self) -> bool;

    /// Whether there may be values that it fails for.
    fn can_fail(&self) -> bool;

    /// Whether values may be larger than those of its arguments together, or as large. Where [`Growth::InParts`](crate::Growth) says so, it then makes no
    /// more than [`PART_BYTES`](crate::PART_BYTES) of several rows, but fails with [`ExecError::Grown`].
    fn may_grow(&self) -> bool {
        false
    }

    /// Its value for each of `rows` rows of `columns` (those of [`Self::columns`], in that order).
    ///
    /// # Errors
    /// As the expression fails.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError>;
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
    /// Rows for which any is true; none of them can fail. Only as (part of) a predicate.
    Or(Vec<Expr>),
    /// A value, but NULL where a condition is not true.
    NullUnless {
        /// The value.
        value: Box<Expr>,
        /// A boolean.
        condition: Box<Expr>,
    },
    /// Decimals added, subtracted or multiplied.
    Decimal(Box<DecimalArithmetic>),
    /// Strings that are like a pattern.
    Like(Box<Like>),
    /// Everything else.
    Foreign(Arc<dyn ForeignExpr>),
}

/// `array` with NULL wherever `keep` is not set.
pub(crate) fn null_unless(array: &ArrayRef, keep: &BooleanBuffer) -> ArrayRef {
    if *array.data_type() == DataType::Null {
        return ArrayRef::clone(array);
    }
    let nulls = array.nulls().map_or_else(|| keep.clone(), |nulls| nulls.inner() & keep);
    // The list of buffers, which may be thousands, is shared.
    if *array.data_type() == DataType::Utf8View {
        let (views, buffers, _) = array.as_string_view().clone().into_parts();
        // SAFETY: the same values, of which more are hidden.
        return Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, Some(NullBuffer::new(nulls))) });
    }
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
            Self::Compare { op, column, literal } => {
                Column::flat(Arc::new(compare::compare(chunk.column(*column), *op, literal)?))
            }
            Self::And(_) | Self::Or(_) => {
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
            Self::Like(like) => like.evaluate(chunk)?,
            Self::Foreign(foreign) => {
                if let Some(column) = of_few_values(foreign.as_ref(), chunk) {
                    return Ok(column);
                }
                let columns =
                    foreign.columns().iter().map(|&i| chunk.column(i).flatten()).collect::<Result<Vec<_>, _>>()?;
                Column::flat(normalize_array(&foreign.evaluate(&columns, chunk.len())?)?)
            }
        })
    }

    /// Appends the columns of the chunk that it reads.
    pub fn columns(&self, columns: &mut Vec<usize>) {
        match self {
            Self::Column(column) | Self::Compare { column, .. } => columns.push(*column),
            Self::Literal(_) => {}
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.columns(columns)),
            Self::NullUnless { value, condition } => {
                value.columns(columns);
                condition.columns(columns);
            }
            Self::Decimal(arithmetic) => arithmetic.columns(columns),
            Self::Like(like) => like.value.columns(columns),
            Self::Foreign(foreign) => columns.extend(foreign.columns()),
        }
    }

    /// Whether it may fail for some values, so that rows which another condition leaves out must not reach it.
    pub fn can_fail(&self) -> bool {
        match self {
            Self::Column(_) | Self::Literal(_) | Self::Compare { .. } => false,
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::can_fail),
            Self::NullUnless { value, condition } => value.can_fail() || condition.can_fail(),
            Self::Like(like) => like.value.can_fail(),
            Self::Decimal(_) => true,
            Self::Foreign(foreign) => foreign.can_fail(),
        }
    }

    /// Whether equal rows may have different values.
    pub fn is_volatile(&self) -> bool {
        match self {
            Self::Column(_) | Self::Literal(_) | Self::Compare { .. } => false,
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::is_volatile),
            Self::NullUnless { value, condition } => value.is_volatile() || condition.is_volatile(),
            Self::Like(like) => like.value.is_volatile(),
            Self::Decimal(arithmetic) => arithmetic.is_volatile(),
            Self::Foreign(foreign) => foreign.is_volatile(),
        }
    }

    /// Whether its values, or what is made on the way to them, may be large where those of the columns are not: see [`ForeignExpr::may_grow`].
    pub fn may_grow(&self) -> bool {
        match self {
            Self::Column(_) | Self::Literal(_) | Self::Compare { .. } => false,
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::may_grow),
            Self::NullUnless { value, condition } => value.may_grow() || condition.may_grow(),
            Self::Like(like) => like.value.may_grow(),
            Self::Decimal(arithmetic) => arithmetic.may_grow(),
            Self::Foreign(foreign) => foreign.may_grow(),
        }
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
        Ok(compare::truth(array.as_boolean()))
    }

    /// The rows of `chunk` for which the predicate is true (neither false nor NULL), ascending, into `rows`.
    ///
    /// # Errors
    /// As the expression fails.
    pub fn select(&self, chunk: &Chunk, rows: &mut Vec<u32>) -> Result<(), ExecError> {
        rows.clear();
        match self {
            Self::And(parts) => Self::select_all(parts, chunk, rows),
            Self::Or(parts) => Self::select_any(parts, chunk, rows),
            Self::Compare { op, column, literal } => compare::select(chunk.column(*column), *op, literal, rows),
            _ => {
                let column = self.evaluate(chunk)?;
                if *column.array.data_type() != DataType::Null {
                    compare::select_true(&column, rows);
                }
                Ok(())
            }
        }
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

    /// Disjunctions narrow too, by the rows that pass, where these are most: behind a selection vector kernels are slower. What can fail sees only rows that have not passed.
    fn select_any(parts: &[Self], chunk: &Chunk, rows: &mut Vec<u32>) -> Result<(), ExecError> {
        let mut passes = vec![false; chunk.len()];
        let (mut passed, mut passing) = (Vec::new(), 0);
        for part in parts {
            let left = chunk.len() - passing;
            if left == 0 {
                break;
            }
            if left < chunk.len() / NARROWED || passing > 0 && part.can_fail() {
                keep_rows(chunk.len(), rows, |row| !passes[row]);
                part.select(&chunk.select(rows), &mut passed)?;
                passed.iter_mut().for_each(|row| *row = rows[*row as usize]);
            } else {
                part.select(chunk, &mut passed)?;
            }
            for &row in &passed {
                passing += usize::from(!std::mem::replace(&mut passes[row as usize], true));
            }
        }
        keep_rows(chunk.len(), rows, |row| passes[row]);
        Ok(())
    }
}

/// Of so many rows, one in this many is left when the parts of a disjunction to come are evaluated for those only that are.
const NARROWED: usize = 4;

/// The value of an expression over one column that has fewer values than rows, such as a dictionary's, or over none: evaluated once for each value. `None` where
/// there is nothing to spare, or where a value that no row has may be what it fails for.
fn of_few_values(foreign: &dyn ForeignExpr, chunk: &Chunk) -> Option<Column> {
    if foreign.is_volatile() {
        return None;
    }
    let column = match foreign.columns() {
        [] if chunk.len() > 1 => {
            let array = normalize_array(&foreign.evaluate(&[], 1).ok()?).ok()?;
            return Some(Column { array, selection: Some(ogee_vector::Selection::new(&vec![0; chunk.len()])) });
        }
        [column] => column,
        _ => return None,
    };
    if !compare::has_few_values(chunk.column(*column)) {
        return None;
    }
    let Column { array, selection } = chunk.to_column(*column);
    let values = foreign.evaluate(std::slice::from_ref(&array), array.len()).ok()?;
    Some(Column { array: normalize_array(&values).ok()?, selection })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow_array::{Int32Array, types::Int32Type};

    use super::*;

    /// 100 over column 0, which fails for 0; counts the values that it was given.
    #[derive(Debug, Default)]
    struct Hundredth {
        seen: AtomicUsize,
        is_volatile: bool,
    }

    impl ForeignExpr for Hundredth {
        fn columns(&self) -> &[usize] {
            &[0]
        }

        fn is_volatile(&self) -> bool {
            self.is_volatile
        }

        fn can_fail(&self) -> bool {
            true
        }

        fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError> {
            self.seen.fetch_add(rows, Ordering::Relaxed);
            let quotient = |value: i32| 100i32.checked_div(value);
            let quotients = columns[0].as_primitive::<Int32Type>().values().iter().map(|&value| quotient(value));
            let failed = || ExecError::Overflow { operation: "/", data_type: "Int32".to_owned() };
            Ok(Arc::new(Int32Array::from(quotients.collect::<Option<Vec<_>>>().ok_or_else(failed)?)))
        }
    }

    /// The values over a column with these values and positions, and how many of them were evaluated.
    fn evaluate(values: Vec<i32>, positions: &[u32], is_volatile: bool) -> Result<(Vec<i32>, usize), ExecError> {
        let values: ArrayRef = Arc::new(Int32Array::from(values));
        let len = values.len();
        let chunk = Chunk::new(vec![values], len).select(positions);
        let foreign = Arc::new(Hundredth { is_volatile, ..Hundredth::default() });
        let result = Expr::Foreign(Arc::<Hundredth>::clone(&foreign)).evaluate(&chunk)?.flatten()?;
        Ok((result.as_primitive::<Int32Type>().values().to_vec(), foreign.seen.load(Ordering::Relaxed)))
    }

    #[test]
    fn any_part_of_a_disjunction_will_do() {
        let values: Vec<Option<i32>> = (0..100).map(|row| (row % 7 != 3).then_some(row)).collect();
        let values: ArrayRef = Arc::new(Int32Array::from(values));
        let chunk = Chunk::new(vec![values], 100);
        let compare = |op, literal: i32| Expr::Compare {
            op,
            column: 0,
            literal: Arc::new(Int32Array::from(vec![literal])) as ArrayRef,
        };
        let selected = |chunk: &Chunk, parts: Vec<Expr>| {
            let (mut rows, expr) = (vec![7], Expr::Or(parts));
            expr.select(chunk, &mut rows).unwrap();
            let truth = expr.truth(chunk).unwrap();
            assert_eq!(rows, (0..chunk.len() as u32).filter(|&row| truth.value(row as usize)).collect::<Vec<_>>());
            rows
        };
        let is = |value: u32| value % 7 != 3;
        // The first part leaves most rows, or few, to the second, or nothing but NULL.
        for bound in [5, 60, 90, 99] {
            let parts = vec![compare(CompareOp::Lt, bound), compare(CompareOp::Eq, 95), compare(CompareOp::Eq, 4)];
            let expected: Vec<u32> =
                (0..100).filter(|&row| is(row) && (row < bound as u32 || row == 95 || row == 4)).collect();
            assert_eq!(selected(&chunk, parts), expected, "{bound}");
        }
        let parts = || vec![compare(CompareOp::Gt, 50), compare(CompareOp::Eq, 20)];
        assert_eq!(selected(&chunk.select(&[20, 3, 51, 20, 50]), parts()), [0, 2, 3]);
        assert_eq!(selected(&chunk, Vec::new()), [0; 0]);
    }

    #[test]
    fn few_values_are_evaluated_once() {
        assert_eq!(evaluate(vec![4, 5], &[1, 0, 1], false).unwrap(), (vec![20, 25, 20], 2));
        assert_eq!(evaluate(vec![4, 5], &[1, 0], false).unwrap(), (vec![20, 25], 2));
        // Each row may have another value.
        assert_eq!(evaluate(vec![4, 5], &[1, 0, 1], true).unwrap(), (vec![20, 25, 20], 3));
        // A value that no row has must not fail the query; one that a row has must.
        assert_eq!(evaluate(vec![0, 5], &[1, 1, 1], false).unwrap(), (vec![20, 20, 20], 5));
        assert!(evaluate(vec![0, 5], &[1, 0, 1], false).is_err());
    }
}
