//! Arithmetic of decimals, over selection vectors.
//!
//! Decimals are 128 bits wide in a vector, but most values are small. Operations on columns and constants are therefore done in 64 bits, vector by vector,
//! as long as the values of the chunk at hand show that nothing on the way can have more; that takes no statistics, which could be wrong. Otherwise two values
//! of at most 18 digits are multiplied by one instruction, and where the digits of both sides together fit the type nothing can overflow, and
//! nothing is checked.

use std::sync::Arc;

use arrow_array::{Array, Decimal128Array, cast::AsArray, types::Decimal128Type};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use ogee_vector::{Chunk, Column, Kernel, Widened, dispatch};

use crate::{ExecError, Expr};

/// Digits that any value of 128 bits can have, and of 64.
const DIGITS: u8 = 38;
const SHORT_DIGITS: u8 = 18;
/// The first value with a digit too many; 128 bits have room for some of them.
const LIMIT: u128 = 10u128.pow(DIGITS as u32);

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
    /// Below are columns and constants only, and operations on them.
    is_plain: bool,
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
        let is_plain = [&left.0, &right.0].into_iter().all(|side| match side {
            Expr::Column(_) | Expr::Literal(_) => true,
            Expr::Decimal(arithmetic) => arithmetic.is_plain,
            _ => false,
        });
        (exact == scale).then(|| Self {
            op,
            left: left.0,
            right: right.0,
            factors,
            is_short: p1 <= SHORT_DIGITS && p2 <= SHORT_DIGITS,
            is_safe: digits <= DIGITS,
            is_plain,
            output: output.clone(),
        })
    }

    pub(crate) fn may_grow(&self) -> bool {
        self.left.may_grow() || self.right.may_grow()
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
        if let Some(short) = self.short(chunk) {
            let values: Vec<i128> = match short.values {
                ShortValues::Same(value) => vec![value.into(); chunk.len()],
                ShortValues::Each(values) => values.into_iter().map(i128::from).collect(),
            };
            let array = Decimal128Array::new(values.into(), short.nulls).with_data_type(self.output.clone());
            return Ok(Column::flat(Arc::new(array)));
        }
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
                    checked(a, b).filter(|value| value.unsigned_abs() < LIMIT).unwrap_or_else(|| {
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

/// Values of 64 bits, and how far from zero they are at most.
struct Short {
    values: ShortValues,
    farthest: u64,
    nulls: Option<NullBuffer>,
}

enum ShortValues {
    Same(i64),
    Each(Vec<i64>),
}

impl DecimalArithmetic {
    /// The value for each row of `chunk`, if all that it is made of is columns and constants whose values, those of this chunk, are so small that nothing
    /// on the way has more than 64 bits.
    fn short(&self, chunk: &Chunk) -> Option<Short> {
        if !self.is_plain {
            return None;
        }
        let (left, right) = (Short::of(&self.left, chunk)?, Short::of(&self.right, chunk)?);
        let (f, g) = (i64::try_from(self.factors.0).ok()?, i64::try_from(self.factors.1).ok()?);
        let (a, b) = (u128::from(left.farthest), u128::from(right.farthest));
        let farthest = match self.op {
            DecimalOp::Multiply => a * b,
            _ => a.checked_mul(f as u128)?.checked_add(b.checked_mul(g as u128)?)?,
        };
        let farthest = u64::try_from(farthest).ok().filter(|&farthest| i64::try_from(farthest).is_ok())?;
        let g = if self.op == DecimalOp::Subtract { -g } else { g };
        use ShortValues::{Each, Same};
        let values = match (self.op, left.values, right.values) {
            (DecimalOp::Multiply, Same(a), Same(b)) => Same(a * b),
            (DecimalOp::Multiply, Each(values), Same(b)) | (DecimalOp::Multiply, Same(b), Each(values)) => {
                linear(values, b, 0)
            }
            (DecimalOp::Multiply, Each(mut values), Each(with)) => {
                dispatch(Product { values: &mut values, with: &with });
                Each(values)
            }
            (_, Same(a), Same(b)) => Same(a * f + b * g),
            (_, Each(values), Same(b)) => linear(values, f, b * g),
            (_, Same(a), Each(values)) => linear(values, g, a * f),
            (_, Each(mut values), Each(with)) => {
                dispatch(Sum { values: &mut values, with: &with, factors: (f, g) });
                Each(values)
            }
        };
        Some(Short { values, farthest, nulls: NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref()) })
    }
}

impl Short {
    fn of(expr: &Expr, chunk: &Chunk) -> Option<Self> {
        if let Expr::Decimal(arithmetic) = expr {
            return arithmetic.short(chunk);
        }
        let rows = chunk.len();
        let side = match expr {
            Expr::Literal(array) => Side { column: Column::flat(Arc::clone(array)), is_constant: true },
            Expr::Column(index) => Side { column: chunk.to_column(*index), is_constant: false },
            _ => return None,
        };
        let all = side.values();
        if side.is_constant {
            let value = i64::try_from(all[0]).ok()?;
            return Some(Self {
                values: ShortValues::Same(value),
                farthest: value.unsigned_abs(),
                nulls: side.nulls(rows),
            });
        }
        let mut values = vec![0; rows];
        let bits = match &side.column.selection {
            None => dispatch(Widened { values: &all[..rows], stored: &mut values }),
            Some(selection) => {
                let positions = &selection.positions()[..rows];
                let picked: Vec<i128> = positions.iter().map(|&position| all[position as usize]).collect();
                dispatch(Widened { values: &picked, stored: &mut values })
            }
        };
        // The complement of a negative value is one nearer to zero.
        let farthest = bits.checked_add(1).filter(|_| bits >> 63 == 0)?;
        Some(Self { values: ShortValues::Each(values), farthest, nulls: side.nulls(rows) })
    }
}

fn linear(mut values: Vec<i64>, factor: i64, addend: i64) -> ShortValues {
    dispatch(Linear { values: &mut values, factor, addend });
    ShortValues::Each(values)
}

/// Multiplies by a factor and adds.
struct Linear<'a> {
    values: &'a mut [i64],
    factor: i64,
    addend: i64,
}

impl Kernel for Linear<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.values.iter_mut().for_each(|value| *value = value.wrapping_mul(self.factor).wrapping_add(self.addend));
    }
}

/// Multiplies by the values of another column.
struct Product<'a> {
    values: &'a mut [i64],
    with: &'a [i64],
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.values.iter_mut().zip(self.with).for_each(|(value, with)| *value = value.wrapping_mul(*with));
    }
}

/// Adds the values of another column, both multiplied by a factor.
struct Sum<'a> {
    values: &'a mut [i64],
    with: &'a [i64],
    factors: (i64, i64),
}

impl Kernel for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (f, g) = self.factors;
        for (value, with) in self.values.iter_mut().zip(self.with) {
            *value = value.wrapping_mul(f).wrapping_add(with.wrapping_mul(g));
        }
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
    use ogee_vector::{Level, dispatch_at};

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
    fn small_values_and_large_ones_agree() {
        let literal = |value: i128| (Expr::Literal(decimals(&[Some(value)], 3, 1).0), DataType::Decimal128(3, 1));
        // (2.5 - a) * b and (a * b) * a, where neither, one or both have values that 64 bits cannot take on the way.
        for (small, large) in [(7, 11), (1 << 31, 1 << 32), (1 << 62, -3), (i128::from(i64::MIN), 2), (1 << 70, -5)] {
            let values: Vec<_> = [Some(small), None, Some(-3), Some(large), Some(0)].into_iter().collect();
            let (a, a_type) = decimals(&values, 38, 1);
            let mut reversed = values.clone();
            reversed.reverse();
            let (b, _) = decimals(&reversed, 38, 1);
            let (two, three) = (DataType::Decimal128(38, 2), DataType::Decimal128(38, 3));
            let new = |op, left, right, output| {
                Expr::Decimal(Box::new(DecimalArithmetic::new(op, left, right, output).unwrap()))
            };
            let columns = || ((Expr::Column(0), &a_type), (Expr::Column(1), &a_type));
            let (constant, constant_type) = literal(25);
            let difference = new(DecimalOp::Subtract, (constant, &constant_type), columns().0, &a_type);
            let product = new(DecimalOp::Multiply, columns().0, columns().1, &two);
            let exprs = [
                new(DecimalOp::Multiply, (difference, &a_type), columns().1, &two),
                new(DecimalOp::Multiply, (product, &two), columns().0, &three),
                new(DecimalOp::Add, columns().0, columns().1, &a_type),
            ];
            let chunk = Chunk::new(vec![a, b], 5);
            for (chunk, order) in [(chunk.clone(), [0, 1, 2, 3, 4]), (chunk.select(&[4, 1, 3, 0, 2]), [4, 1, 3, 0, 2])]
            {
                for (number, expr) in exprs.iter().enumerate() {
                    let expected: Option<Vec<Option<i128>>> = order
                        .iter()
                        .map(|&row: &usize| {
                            let (Some(a), Some(b)) = (values[row], reversed[row]) else { return Some(None) };
                            Some(Some(match number {
                                0 => (25 - a).checked_mul(b)?,
                                1 => a.checked_mul(b)?.checked_mul(a)?,
                                _ => a + b,
                            }))
                        })
                        .collect();
                    let found = expr.evaluate(&chunk).ok().map(|column| {
                        column.flatten().unwrap().as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>()
                    });
                    assert_eq!(found, expected, "{number} of {small} and {large}");
                }
            }
        }
    }

    #[test]
    fn kernels_of_all_widths_give_the_same() {
        let mut state = 11u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 7) as i64 ^ (state << 33) as i64
        };
        for rows in (0..=70).chain([2051]) {
            let mut column = || (0..rows).map(|_| next()).collect::<Vec<i64>>();
            let (left, right) = (column(), column());
            let alike = |value: i64| vec![value; rows];
            for (left, right) in [
                (left.clone(), right.clone()),
                (left, alike(0)),
                (alike(i64::MIN), alike(-1)),
                (alike(i64::MAX), right),
            ] {
                for (factor, other) in [(1, -1), (0, 1), (100, i64::MAX), (i64::MIN, 10)] {
                    let pairs = || left.iter().zip(&right);
                    let expected = [
                        left.iter().map(|a| a.wrapping_mul(factor).wrapping_add(other)).collect::<Vec<_>>(),
                        pairs().map(|(a, b)| a.wrapping_mul(*b)).collect(),
                        pairs().map(|(a, b)| a.wrapping_mul(factor).wrapping_add(b.wrapping_mul(other))).collect(),
                    ];
                    for level in Level::available() {
                        let mut found = [left.clone(), left.clone(), left.clone()];
                        let [linear, product, sum] = &mut found;
                        dispatch_at(level, Linear { values: linear, factor, addend: other });
                        dispatch_at(level, Product { values: product, with: &right });
                        dispatch_at(level, Sum { values: sum, with: &right, factors: (factor, other) });
                        assert_eq!(found, expected, "{level:?}, {rows} rows");
                    }
                }
            }
        }
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
