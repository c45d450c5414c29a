//! Arithmetic of decimals, over selection vectors.
//!
//! Decimals are 128 bits wide in a vector, but most have at most 18 digits: two of these are multiplied by one instruction. Where the digits of
//! both sides together fit the type nothing can overflow, and nothing is checked.

use std::sync::Arc;

use arrow_array::{Array, Decimal128Array, cast::AsArray, types::Decimal128Type};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use ogee_vector::{Chunk, Column};

use crate::{ExecError, Expr};

/// Digits that any value of 128 bits can have, and of 64.
const DIGITS: u8 = 38;
const SHORT_DIGITS: u8 = 18;

/// An operation on decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by arithmetic")]
pub enum DecimalOp {
    Add,
    Subtract,
    Multiply,
}

impl DecimalOp {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
        }
    }
}

/// An operation on two decimal expressions.
#[derive(Clone, Debug)]
pub struct DecimalArithmetic {
    op: DecimalOp,
    left: Expr,
    right: Expr,
    /// What each side is multiplied by first, so that both have one scale.
    factors: (i128, i128),
    /// Both sides have values of at most 64 bits.
    is_short: bool,
    /// No result leaves 128 bits.
    is_safe: bool,
    output: DataType,
}

impl DecimalArithmetic {
    /// `left op right`, given the types of both and of the result; `None` where the result's scale is not that of the exact result, or a type is no
    /// decimal of 128 bits.
    pub fn new(op: DecimalOp, left: (Expr, &DataType), right: (Expr, &DataType), output: &DataType) -> Option<Self> {
        let decimal = |data_type: &DataType| match *data_type {
            DataType::Decimal128(precision, scale) if scale >= 0 => Some((precision, scale)),
            _ => None,
        };
        let ((p1, s1), (p2, s2), (_, scale)) = (decimal(left.1)?, decimal(right.1)?, decimal(output)?);
        let (factors, exact, digits) = match op {
            DecimalOp::Multiply => ((1, 1), s1 + s2, p1.checked_add(p2)?),
            _ => {
                let exact = s1.max(s2);
                let factor = |scale: i8| 10i128.checked_pow(u32::try_from(exact - scale).ok()?);
                let digits = |p: u8, s: i8| p + (exact - s) as u8;
                ((factor(s1)?, factor(s2)?), exact, digits(p1, s1).max(digits(p2, s2)).saturating_add(1))
            }
        };
        (exact == scale).then(|| Self {
            op,
            left: left.0,
            right: right.0,
            factors,
            is_short: p1 <= SHORT_DIGITS && p2 <= SHORT_DIGITS,
            is_safe: digits <= DIGITS,
            output: output.clone(),
        })
    }

    pub(crate) fn is_volatile(&self) -> bool {
        self.left.is_volatile() || self.right.is_volatile()
    }

    /// Appends the columns that both sides read.
    pub(crate) fn columns(&self, columns: &mut Vec<usize>) {
        self.left.columns(columns);
        self.right.columns(columns);
    }

    /// The value for each row of `chunk`.
    ///
    /// # Errors
    /// [`ExecError::Overflow`], and those of the sides.
    pub(crate) fn evaluate(&self, chunk: &Chunk) -> Result<Column, ExecError> {
        let (left, right) = (Side::new(&self.left, chunk)?, Side::new(&self.right, chunk)?);
        let rows = chunk.len();
        let nulls = NullBuffer::union(left.nulls(rows).as_ref(), right.nulls(rows).as_ref());
        let (f, g) = self.factors;
        let values = match self.op {
            // The low 64 bits are the value; a product of two has 128.
            DecimalOp::Multiply if self.is_short => {
                combine(&left, &right, rows, |a, b| i128::from(a as i64) * i128::from(b as i64))
            }
            DecimalOp::Multiply if self.is_safe => combine(&left, &right, rows, i128::wrapping_mul),
            DecimalOp::Add if self.is_safe => combine(&left, &right, rows, |a, b| a * f + b * g),
            DecimalOp::Subtract if self.is_safe => combine(&left, &right, rows, |a, b| a * f - b * g),
            op => {
                let checked = |a: i128, b: i128| match op {
                    DecimalOp::Multiply => a.checked_mul(b),
                    DecimalOp::Add => a.checked_mul(f)?.checked_add(b.checked_mul(g)?),
                    DecimalOp::Subtract => a.checked_mul(f)?.checked_sub(b.checked_mul(g)?),
                };
                let mut fits = true;
                let values = combine_rows(&left, &right, rows, |row, a, b| {
                    checked(a, b).unwrap_or_else(|| {
                        // What a NULL hides is nobody's value.
                        fits &= nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                        0
                    })
                });
                if !fits {
                    return Err(ExecError::Overflow { operation: op.name(), data_type: self.output.to_string() });
                }
                values
            }
        };
        let array = Decimal128Array::new(values.into(), nulls).with_data_type(self.output.clone());
        Ok(Column::flat(Arc::new(array)))
    }
}

/// The values of one side.
struct Side {
    column: Column,
    /// All rows have the value of the first.
    is_constant: bool,
}

impl Side {
    fn new(expr: &Expr, chunk: &Chunk) -> Result<Self, ExecError> {
        Ok(match expr {
            Expr::Literal(array) => Self { column: Column::flat(Arc::clone(array)), is_constant: true },
            expr => Self { column: expr.evaluate(chunk)?, is_constant: false },
        })
    }

    fn values(&self) -> &[i128] {
        self.column.array.as_primitive::<Decimal128Type>().values()
    }

    fn nulls(&self, rows: usize) -> Option<NullBuffer> {
        let nulls = self.column.array.nulls().filter(|nulls| nulls.null_count() > 0)?;
        if self.is_constant {
            return Some(NullBuffer::new_null(rows));
        }
        Some(match &self.column.selection {
            None => nulls.clone(),
            Some(selection) => {
                let positions = selection.positions();
                NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| nulls.is_valid(positions[row] as usize)))
            }
        })
    }
}

#[inline(always)]
fn combine(left: &Side, right: &Side, rows: usize, op: impl Fn(i128, i128) -> i128) -> Vec<i128> {
    combine_rows(left, right, rows, |_, a, b| op(a, b))
}

/// `op` of the values of each row, with a loop for each form that a side can have.
#[inline(always)]
fn combine_rows(left: &Side, right: &Side, rows: usize, mut op: impl FnMut(usize, i128, i128) -> i128) -> Vec<i128> {
    let (a, b) = (left.values(), right.values());
    let positions = |side: &Side| side.column.selection.clone();
    macro_rules! with {
        ($a:expr, $b:expr) => {
            (0..rows).map(|row| op(row, $a(row), $b(row))).collect()
        };
    }
    match (left.is_constant, positions(left), right.is_constant, positions(right)) {
        (true, _, true, _) => with!(|_| a[0], |_| b[0]),
        (true, _, false, None) => with!(|_| a[0], |row: usize| b[row]),
        (true, _, false, Some(q)) => with!(|_| a[0], |row: usize| b[q.positions()[row] as usize]),
        (false, None, true, _) => with!(|row: usize| a[row], |_| b[0]),
        (false, Some(p), true, _) => with!(|row: usize| a[p.positions()[row] as usize], |_| b[0]),
        (false, None, false, None) => with!(|row: usize| a[row], |row: usize| b[row]),
        (false, Some(p), false, None) => with!(|row: usize| a[p.positions()[row] as usize], |row: usize| b[row]),
        (false, None, false, Some(q)) => with!(|row: usize| a[row], |row: usize| b[q.positions()[row] as usize]),
        (false, Some(p), false, Some(q)) => {
            with!(|row: usize| a[p.positions()[row] as usize], |row: usize| b[q.positions()[row] as usize])
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::ArrayRef;

    use super::*;

    fn decimals(values: &[Option<i128>], precision: u8, scale: i8) -> (ArrayRef, DataType) {
        let data_type = DataType::Decimal128(precision, scale);
        let array = Decimal128Array::from(values.to_vec()).with_data_type(data_type.clone());
        (Arc::new(array), data_type)
    }

    fn result(
        op: DecimalOp,
        chunk: &Chunk,
        types: [&DataType; 2],
        output: (u8, i8),
    ) -> Result<Vec<Option<i128>>, ExecError> {
        let output = DataType::Decimal128(output.0, output.1);
        let sides = (Expr::Column(0), Expr::Column(1));
        let expr = DecimalArithmetic::new(op, (sides.0, types[0]), (sides.1, types[1]), &output).unwrap();
        let column = expr.evaluate(chunk)?.flatten()?;
        assert_eq!(*column.data_type(), output);
        Ok(column.as_primitive::<Decimal128Type>().iter().collect())
    }

    #[test]
    fn scales_are_aligned_and_selections_followed() {
        let (a, a_type) = decimals(&[Some(150), None, Some(-275)], 15, 2);
        let (b, b_type) = decimals(&[Some(3), Some(4), Some(5)], 20, 0);
        let chunk = Chunk::new(vec![a, b], 3);
        let types = [&a_type, &b_type];
        assert_eq!(result(DecimalOp::Add, &chunk, types, (23, 2)).unwrap(), [Some(450), None, Some(225)]);
        let chunk = chunk.select(&[2, 0, 1]);
        assert_eq!(result(DecimalOp::Subtract, &chunk, types, (23, 2)).unwrap(), [Some(-775), Some(-150), None]);
        assert_eq!(result(DecimalOp::Multiply, &chunk, types, (35, 2)).unwrap(), [Some(-1375), Some(450), None]);
    }

    #[test]
    fn short_and_long_products_agree() {
        let values = [999_999_999_999_999_999, -999_999_999_999_999_999, 0, 7].map(Some);
        let (short, short_type) = decimals(&values, 18, 0);
        let (long, long_type) = decimals(&values, 20, 0);
        let square = |array: &ArrayRef, data_type| {
            let chunk = Chunk::new(vec![Arc::clone(array), Arc::clone(array)], 4);
            result(DecimalOp::Multiply, &chunk, [data_type, data_type], (38, 0)).unwrap()
        };
        let expected: Vec<_> = values.iter().map(|value| value.map(|value: i128| value * value)).collect();
        assert_eq!(square(&short, &short_type), expected);
        assert_eq!(square(&long, &long_type), expected);
    }

    #[test]
    fn what_leaves_128_bits_is_an_error_unless_it_is_null() {
        let (a, a_type) = decimals(&[Some(10i128.pow(37)), Some(2)], 38, 0);
        let (b, b_type) = decimals(&[Some(100), Some(3)], 38, 0);
        let chunk = Chunk::new(vec![Arc::clone(&a), b], 2);
        let error = result(DecimalOp::Multiply, &chunk, [&a_type, &b_type], (38, 0)).unwrap_err();
        assert!(matches!(error, ExecError::Overflow { .. }), "{error}");
        let (none, _) = decimals(&[None, Some(3)], 38, 0);
        let chunk = Chunk::new(vec![a, none], 2);
        assert_eq!(result(DecimalOp::Multiply, &chunk, [&a_type, &b_type], (38, 0)).unwrap(), [None, Some(6)]);
    }
}
