//! `fill(x) OVER (ORDER BY k)`: values that are NULL lie on the line through the values before and behind them.
//!
//! Where there is none on one side, it is the line through the two nearest of the other; where there is but one value, that is it. Rows whose key is NULL, and floats that are no finite numbers, are on no line.
//! Whole numbers, decimals, dates and times are computed exactly, and what lies between two values is the one before; a value that its type does not have is NULL.
//!
//! Not here: in which order rows are.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array},
        compute::{CastOptions, cast, cast_with_options},
        datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type},
    },
    common::{Result, exec_err, plan_err},
    logical_expr::{
        PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
        function::{PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
};

/// The name of the function, which takes the value and the key of the order.
pub const FILL: &str = "ogee_fill";

/// The function to register in a session.
pub fn function() -> WindowUDF {
    WindowUDF::from(Fill { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Fill {
    signature: Signature,
}

/// Whether values of the type lie on lines.
fn is_on_line(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || matches!(data_type, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_) | DataType::Null)
}

impl WindowUDFImpl for Fill {
    fn name(&self) -> &str {
        FILL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [of, by] if is_on_line(of) && is_on_line(by) => Ok(arg_types.to_vec()),
            [_, by] if !is_on_line(by) => {
                plan_err!("fill needs a key of its ORDER BY that can be subtracted: a number, a date or a time")
            }
            [_, _] => plan_err!("fill takes a number, a date or a time"),
            _ => plan_err!("fill takes one value, and one ORDER BY key: fill(x) OVER (ORDER BY k)"),
        }
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let Some(field) = args.get_input_field(0) else { return plan_err!("fill takes a value") };
        let data_type = if field.data_type().is_null() { DataType::Int32 } else { field.data_type().clone() };
        Ok(Arc::new(Field::new(args.name(), data_type, true).with_metadata(field.metadata().clone())))
    }

    fn partition_evaluator(&self, _args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Lines))
    }
}

/// Numbers on a line.
enum Numbers {
    Whole(Vec<Option<i128>>),
    Float(Vec<Option<f64>>),
}

impl Numbers {
    fn of(values: &ArrayRef) -> Result<Self> {
        let whole = |values: &ArrayRef| -> Result<Self> {
            let numbers = values.as_primitive::<Decimal128Type>();
            Ok(Self::Whole(numbers.iter().collect()))
        };
        match values.data_type() {
            DataType::Decimal128(..) => whole(values),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Self::floats(values),
            data_type if data_type.is_integer() => whole(&cast(values, &DataType::Decimal128(38, 0))?),
            data_type if data_type.is_temporal() => {
                let narrow =
                    if *data_type == DataType::Date32 { cast(values, &DataType::Int32)? } else { Arc::clone(values) };
                whole(&cast(&cast(&narrow, &DataType::Int64)?, &DataType::Decimal128(38, 0))?)
            }
            _ => Self::floats(values),
        }
    }

    fn floats(values: &ArrayRef) -> Result<Self> {
        let numbers = cast(values, &DataType::Float64)?;
        let numbers = numbers.as_primitive::<Float64Type>().iter();
        Ok(Self::Float(numbers.map(|number| number.filter(|number| number.is_finite())).collect()))
    }

    fn is_some(&self, row: usize) -> bool {
        match self {
            Self::Whole(numbers) => numbers[row].is_some(),
            Self::Float(numbers) => numbers[row].is_some(),
        }
    }

    fn float(&self, row: usize) -> f64 {
        match self {
            Self::Whole(numbers) => numbers[row].unwrap_or_default() as f64,
            Self::Float(numbers) => numbers[row].unwrap_or_default(),
        }
    }

    /// How far the key of `row` is from that of `a` on the way to that of `b`; `None` where these are one.
    fn share(&self, a: usize, b: usize, row: usize) -> Option<f64> {
        let (from, to) = (self.float(a), self.float(b));
        (from != to).then(|| (self.float(row) - from) / (to - from))
    }

    /// The same, of whole numbers.
    fn whole_share(&self, a: usize, b: usize, row: usize) -> Option<(i128, i128)> {
        let Self::Whole(numbers) = self else { return None };
        let (from, to, at) = (numbers[a]?, numbers[b]?, numbers[row]?);
        Some((at.checked_sub(from)?, to.checked_sub(from).filter(|&way| way != 0)?))
    }
}

/// `a / b`: of moments the one before, of others the one nearer to zero.
fn quotient(a: i128, b: i128, is_moment: bool) -> i128 {
    if is_moment && a % b != 0 && (a < 0) != (b < 0) { a / b - 1 } else { a / b }
}

#[derive(Debug)]
struct Lines;

impl PartitionEvaluator for Lines {
    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        let [of, by] = values else { return exec_err!("fill takes a value and a key") };
        if of.null_count() == 0 || of.data_type().is_null() {
            let data_type = if of.data_type().is_null() { &DataType::Int32 } else { of.data_type() };
            return Ok(cast(of, data_type)?);
        }
        let (numbers, keys) = (Numbers::of(of)?, Numbers::of(by)?);
        let usable: Vec<usize> = (0..num_rows).filter(|&row| numbers.is_some(row) && keys.is_some(row)).collect();
        // The two rows whose line goes through `row`, or one alone.
        let line = |row: usize| -> Option<(usize, usize)> {
            let behind = usable.partition_point(|&at| at < row);
            let before = behind.checked_sub(1).map(|at| usable[at]);
            match (before, usable.get(behind).copied()) {
                (Some(a), Some(b)) => Some((a, b)),
                (Some(a), None) => Some((behind.checked_sub(2).map_or(a, |at| usable[at]), a)),
                (None, Some(b)) => Some((b, usable.get(behind + 1).copied().unwrap_or(b))),
                (None, None) => None,
            }
        };
        let wanted = |row: usize| if of.is_null(row) && keys.is_some(row) { line(row) } else { None };
        let filled: ArrayRef = match &numbers {
            Numbers::Whole(numbers) => {
                let is_moment = of.data_type().is_temporal();
                let value = |row: usize| -> Option<i128> {
                    if of.is_valid(row) {
                        return numbers[row];
                    }
                    let (a, b) = wanted(row)?;
                    let (from, to) = (numbers[a]?, numbers[b]?);
                    let exact = keys.whole_share(a, b, row).and_then(|(part, way)| {
                        let on_way = to.checked_sub(from)?.checked_mul(part)?;
                        Some(quotient(from.checked_mul(way)?.checked_add(on_way)?, way, is_moment))
                    });
                    exact.or_else(|| match keys.share(a, b, row) {
                        Some(share) => {
                            let value = from as f64 + (to as f64 - from as f64) * share;
                            Some(if is_moment { value.floor() } else { value.trunc() } as i128)
                        }
                        None => Some(from),
                    })
                };
                let all: Vec<Option<i128>> = (0..num_rows).map(value).collect();
                return whole(all, of.data_type());
            }
            Numbers::Float(numbers) => {
                let given = cast(of, &DataType::Float64)?;
                let given = given.as_primitive::<Float64Type>();
                let value = |row: usize| -> Option<f64> {
                    if of.is_valid(row) {
                        return Some(given.value(row));
                    }
                    let (a, b) = wanted(row)?;
                    let (from, to) = (numbers[a]?, numbers[b]?);
                    Some(keys.share(a, b, row).map_or(from, |share| from + (to - from) * share))
                };
                Arc::new((0..num_rows).map(value).collect::<Float64Array>())
            }
        };
        Ok(cast(&filled, of.data_type())?)
    }
}

/// `numbers` as values of the type; those that it does not have are NULL.
fn whole(numbers: Vec<Option<i128>>, data_type: &DataType) -> Result<ArrayRef> {
    let safe = CastOptions { safe: true, ..CastOptions::default() };
    Ok(match data_type {
        DataType::Decimal128(precision, scale) => {
            Arc::new(Decimal128Array::from(numbers).with_precision_and_scale(*precision, *scale)?)
        }
        data_type if data_type.is_temporal() => {
            let numbers: ArrayRef =
                Arc::new(numbers.into_iter().map(|number| i64::try_from(number?).ok()).collect::<Int64Array>());
            let numbers = match data_type {
                DataType::Date32 => cast_with_options(&numbers, &DataType::Int32, &safe)?,
                _ => numbers,
            };
            cast_with_options(&numbers, data_type, &safe)?
        }
        data_type => {
            let numbers: ArrayRef = Arc::new(Decimal128Array::from(numbers).with_precision_and_scale(38, 0)?);
            cast_with_options(&numbers, data_type, &safe)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_two_values_is_the_one_before() {
        let of_numbers = [(7, 2), (-7, 2), (7, -2), (-8, 2)].map(|(a, b)| quotient(a, b, false));
        let of_moments = [(7, 2), (-7, 2), (7, -2), (-8, 2)].map(|(a, b)| quotient(a, b, true));
        assert_eq!((of_numbers, of_moments), ([3, -3, -3, -4], [3, -4, -4, -4]));
    }

    #[test]
    fn lines_go_on() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), None, Some(3), None]));
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2, 3, 4]));
        let filled = Lines.evaluate_all(&[values, keys], 5).expect("numbers are on lines");
        assert_eq!(filled.as_primitive::<datafusion::arrow::datatypes::Int64Type>().values().to_vec(), [0, 1, 2, 3, 4]);
    }
}
