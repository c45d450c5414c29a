//! A column compared with a constant.
//!
//! What filters ask for is rows. Of columns without a selection vector Arrow's kernels make bits fastest, of which rows are read; behind a selection
//! vector, values are compared where they are. Floats have an order that Arrow's kernels do not know (`ogee_vector::is_less`).

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, Scalar,
    cast::AsArray,
    downcast_primitive_array,
    types::{Float32Type, Float64Type},
};
use arrow_buffer::BooleanBuffer;
use arrow_ord::cmp;
use arrow_schema::DataType;
use ogee_vector::{Column, ColumnRef, gather_array, is_less, is_same, keep_rows};

use crate::ExecError;

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

impl CompareOp {
    fn of_arrays(self, values: &ArrayRef, literal: &ArrayRef) -> Result<BooleanArray, ExecError> {
        match values.data_type() {
            DataType::Float32 => return Ok(self.of_floats::<Float32Type>(values, literal)),
            DataType::Float64 => return Ok(self.of_floats::<Float64Type>(values, literal)),
            _ => {}
        }
        let literal = Scalar::new(ArrayRef::clone(literal));
        Ok(match self {
            Self::Eq => cmp::eq(values, &literal),
            Self::NotEq => cmp::neq(values, &literal),
            Self::Lt => cmp::lt(values, &literal),
            Self::LtEq => cmp::lt_eq(values, &literal),
            Self::Gt => cmp::gt(values, &literal),
            Self::GtEq => cmp::gt_eq(values, &literal),
        }?)
    }

    fn of_floats<T: ArrowPrimitiveType>(self, values: &ArrayRef, literal: &ArrayRef) -> BooleanArray {
        let (values, literal) = (values.as_primitive::<T>(), literal.as_primitive::<T>().value(0));
        match self {
            Self::Eq => BooleanArray::from_unary(values, |value| is_same(value, literal)),
            Self::NotEq => BooleanArray::from_unary(values, |value| !is_same(value, literal)),
            Self::Lt => BooleanArray::from_unary(values, |value| is_less(value, literal)),
            Self::LtEq => BooleanArray::from_unary(values, |value| !is_less(literal, value)),
            Self::Gt => BooleanArray::from_unary(values, |value| is_less(literal, value)),
            Self::GtEq => BooleanArray::from_unary(values, |value| !is_less(value, literal)),
        }
    }
}

/// Whether the column has fewer values than rows, such as a dictionary's, so that each value is best looked at once.
pub(crate) fn has_few_values(column: ColumnRef<'_>) -> bool {
    column.selection.is_some_and(|positions| column.array.len() < positions.len())
}

/// `column op literal` for each row.
pub(crate) fn compare(column: ColumnRef<'_>, op: CompareOp, literal: &ArrayRef) -> Result<BooleanArray, ExecError> {
    if !has_few_values(column) {
        return op.of_arrays(&column.flatten()?, literal);
    }
    let of_values = op.of_arrays(column.array, literal)?;
    let positions = column.selection.expect("it has fewer values than positions");
    Ok(gather_array(&of_values, positions)?.as_boolean().clone())
}

/// The rows for which `column op literal` is true, ascending, into `rows`.
pub(crate) fn select(
    column: ColumnRef<'_>,
    op: CompareOp,
    literal: &ArrayRef,
    rows: &mut Vec<u32>,
) -> Result<(), ExecError> {
    let Some(positions) = column.selection else {
        select_true(&Column::flat(Arc::new(op.of_arrays(column.array, literal)?)), rows);
        return Ok(());
    };
    if has_few_values(column) {
        select_positions(&op.of_arrays(column.array, literal)?, positions, rows);
        return Ok(());
    }
    let array: &dyn Array = column.array;
    let literal_array: &dyn Array = literal;
    downcast_primitive_array!(
        (array, literal_array) => select_values(array, positions, op, literal_array.value(0), rows),
        _ => select_true(&Column::flat(Arc::new(op.of_arrays(&column.flatten()?, literal)?)), rows),
    );
    Ok(())
}

fn select_values<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    positions: &[u32],
    op: CompareOp,
    literal: T::Native,
    rows: &mut Vec<u32>,
) {
    let values = array.values();
    macro_rules! keep {
        ($is:expr) => {
            match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => keep_rows(positions.len(), rows, |row| $is(values[positions[row] as usize])),
                Some(nulls) => keep_rows(positions.len(), rows, |row| {
                    let position = positions[row] as usize;
                    nulls.is_valid(position) & $is(values[position])
                }),
            }
        };
    }
    match op {
        CompareOp::Eq => keep!(|value| is_same(value, literal)),
        CompareOp::NotEq => keep!(|value| !is_same(value, literal)),
        CompareOp::Lt => keep!(|value| is_less(value, literal)),
        CompareOp::LtEq => keep!(|value| !is_less(literal, value)),
        CompareOp::Gt => keep!(|value| is_less(literal, value)),
        CompareOp::GtEq => keep!(|value| !is_less(value, literal)),
    }
}

/// The rows whose boolean is true, neither false nor NULL, ascending, into `rows`.
pub(crate) fn select_true(column: &Column, rows: &mut Vec<u32>) {
    let booleans = column.array.as_boolean();
    match &column.selection {
        Some(selection) => select_positions(booleans, selection.positions(), rows),
        None => rows_of_bits(&truth(booleans), rows),
    }
}

/// The rows whose position has a boolean that is true.
fn select_positions(booleans: &BooleanArray, positions: &[u32], rows: &mut Vec<u32>) {
    let truth = truth(booleans);
    keep_rows(positions.len(), rows, |row| truth.value(positions[row] as usize));
}

/// The bits of values that are true.
pub(crate) fn truth(booleans: &BooleanArray) -> BooleanBuffer {
    booleans.nulls().map_or_else(|| booleans.values().clone(), |nulls| booleans.values() & nulls.inner())
}

/// The numbers of the bits that are set, ascending, into `rows`.
fn rows_of_bits(bits: &BooleanBuffer, rows: &mut Vec<u32>) {
    rows.resize(bits.count_set_bits(), 0);
    let mut count = 0;
    for (index, mut word) in bits.bit_chunks().iter_padded().enumerate() {
        let base = 64 * index as u32;
        while word != 0 {
            rows[count] = base + word.trailing_zeros();
            count += 1;
            word &= word - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{Float64Array, Int32Array, StringViewArray};
    use ogee_vector::Selection;

    use super::*;

    const OPS: [CompareOp; 6] =
        [CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::LtEq, CompareOp::Gt, CompareOp::GtEq];

    /// Rows are those for which the comparison, flattened first, is true: for arrays without a selection, with one, and with many repeats.
    #[test]
    fn rows_are_those_of_the_flat_column() {
        let arrays: [(ArrayRef, ArrayRef); 3] = [
            (
                Arc::new((0..200).map(|n| (n % 7 != 0).then_some(n % 5)).collect::<Int32Array>()),
                Arc::new(Int32Array::from(vec![2])),
            ),
            (
                Arc::new(Float64Array::from(vec![f64::NAN, 1.0, -0.0, 0.0, f64::INFINITY])),
                Arc::new(Float64Array::from(vec![0.0])),
            ),
            (
                Arc::new(StringViewArray::from(vec![Some("a"), None, Some("longer than an inline string"), Some("b")])),
                Arc::new(StringViewArray::from(vec!["b"])),
            ),
        ];
        for (array, literal) in arrays {
            let len = array.len() as u32;
            let some: Vec<u32> = (0..len).rev().step_by(2).collect();
            let repeated: Vec<u32> = (0..3 * len).map(|row| (row * 5) % len).collect();
            for selection in [None, Some(some), Some(repeated)] {
                let column =
                    Column { array: ArrayRef::clone(&array), selection: selection.map(|rows| Selection::new(&rows)) };
                for op in OPS {
                    let mut rows = vec![7; 3];
                    select(column.as_ref(), op, &literal, &mut rows).unwrap();
                    let flat = op.of_arrays(&column.flatten().unwrap(), &literal).unwrap();
                    let expected: Vec<u32> = truth(&flat).set_indices().map(|row| row as u32).collect();
                    assert_eq!(rows, expected, "{op:?} {:?}", array.data_type());
                    assert_eq!(compare(column.as_ref(), op, &literal).unwrap(), flat);
                }
            }
        }
    }
}
