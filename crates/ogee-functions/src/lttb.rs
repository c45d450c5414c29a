//! `lttb(x, y, n)`: about `n` points of a line that looks like the line of all points: the first, the last, and of each stretch between them the one with the largest triangle.
//!
//! The points are in the order of the rows. Those with a NULL do not count (Steinarsson, "Downsampling time series for visual representation", 2013, calls it largest-triangle-three-buckets).

use std::{mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, StructArray, UInt32Array, new_empty_array},
        compute::{and, cast, concat, filter, is_not_null, take},
        datatypes::{DataType, Field, FieldRef, Fields, Int64Type, TimeUnit},
    },
    common::{Result, ScalarValue, exec_err, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

use crate::{
    aggregates::{elements, state_list},
    arguments::{doubles, refused},
};

const NAME: &str = "lttb";

/// The function to register in a session.
pub(crate) fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(Line { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Line {
    signature: Signature,
}

fn fields(x: &DataType, y: &DataType) -> Fields {
    Fields::from(vec![Field::new("x", x.clone(), true), Field::new("y", y.clone(), true)])
}

/// The type that a coordinate is taken in.
fn coordinate(given: &DataType, may_be_moment: bool) -> Option<DataType> {
    Some(match given {
        DataType::Float16 | DataType::Float32 => DataType::Float32,
        DataType::Timestamp(..) if may_be_moment => given.clone(),
        DataType::Date32 | DataType::Date64 if may_be_moment => DataType::Timestamp(TimeUnit::Nanosecond, None),
        given if given.is_numeric() || given.is_null() => DataType::Float64,
        _ => return None,
    })
}

impl AggregateUDFImpl for Line {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [x, y, count] if count.is_integer() || count.is_null() => {
                match (coordinate(x, true), coordinate(y, false)) {
                    (Some(x), Some(y)) => Ok(vec![x, y, DataType::Int64]),
                    _ => refused(NAME, arg_types),
                }
            }
            _ => refused(NAME, arg_types),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let point = DataType::Struct(fields(&arg_types[0], &arg_types[1]));
        Ok(state_list("", &point).data_type().clone())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let of = |name, nth: usize| state_list(name, args.input_fields[nth].data_type());
        Ok(vec![of("xs", 0), of("ys", 1), Arc::new(Field::new("n", DataType::Int64, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let types = [0, 1].map(|nth: usize| args.expr_fields[nth].data_type().clone());
        Ok(Box::new(Points { types, count: None, points: Vec::new() }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::HardRequirement
    }
}

/// The points of a group.
#[derive(Debug)]
struct Points {
    types: [DataType; 2],
    count: Option<usize>,
    points: Vec<[ArrayRef; 2]>,
}

impl Points {
    fn set_count(&mut self, counts: &ArrayRef) -> Result<()> {
        for count in counts.as_primitive::<Int64Type>() {
            let Some(count) = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count >= 2) else {
                return exec_err!(
                    "{NAME} gives 2 points or more, not {}",
                    count.map_or("NULL".to_owned(), |c| c.to_string())
                );
            };
            if *self.count.get_or_insert(count) != count {
                return exec_err!("{NAME} gives as many points for all rows of a group");
            }
        }
        Ok(())
    }

    fn add(&mut self, x: &ArrayRef, y: &ArrayRef) -> Result<()> {
        let known = and(&is_not_null(x)?, &is_not_null(y)?)?;
        if known.true_count() > 0 {
            self.points.push([filter(x, &known)?, filter(y, &known)?]);
        }
        Ok(())
    }

    fn all(&self, nth: usize) -> Result<ArrayRef> {
        Ok(match self.points.is_empty() {
            true => new_empty_array(&self.types[nth]),
            false => concat(&self.points.iter().map(|points| points[nth].as_ref()).collect::<Vec<_>>())?,
        })
    }
}

/// Which `count` of the points stand for all.
fn chosen(xs: &[f64], ys: &[f64], count: usize) -> Vec<u32> {
    let all = xs.len();
    if all <= count {
        return (0..all as u32).collect();
    }
    let mut kept = vec![0];
    if count > 2 {
        let stretch = (all - 2) as f64 / (count - 2) as f64;
        let begin = |nth: usize| (nth as f64 * stretch) as usize + 1;
        let mut last = 0;
        for nth in 0..count - 2 {
            let next = begin(nth + 1).min(all - 1)..begin(nth + 2).min(all);
            let mean = |of: &[f64]| of[next.clone()].iter().sum::<f64>() / next.len() as f64;
            let (x, y) = (mean(xs), mean(ys));
            let area =
                |at: usize| ((xs[last] - x) * (ys[at] - ys[last]) - (xs[last] - xs[at]) * (y - ys[last])).abs() / 2.0;
            let mut best = begin(nth);
            for at in begin(nth)..begin(nth + 1).min(all - 1) {
                if area(at) > area(best) {
                    best = at;
                }
            }
            last = best;
            kept.push(best as u32);
        }
    }
    kept.push(all as u32 - 1);
    kept
}

impl Accumulator for Points {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.set_count(&values[2])?;
        self.add(&values[0], &values[1])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let fields = fields(&self.types[0], &self.types[1]);
        let (Some(count), false) = (self.count, self.points.is_empty()) else {
            return ScalarValue::try_from(state_list("", &DataType::Struct(fields)).data_type());
        };
        let (xs, ys) = (self.all(0)?, self.all(1)?);
        let numbers = match xs.data_type() {
            DataType::Timestamp(..) => cast(&xs, &DataType::Int64)?,
            _ => Arc::clone(&xs),
        };
        let (x, y) = (doubles(&numbers)?, doubles(&ys)?);
        let rows = UInt32Array::from(chosen(x.values(), y.values(), count));
        let points = StructArray::new(fields, vec![take(&xs, &rows, None)?, take(&ys, &rows, None)?], None);
        Ok(SingleRowListArrayBuilder::new(Arc::new(points)).build_list_scalar())
    }

    /// Twice: they are copied where points are chosen.
    fn size(&self) -> usize {
        let points = self.points.iter().flatten().map(|array| array.get_array_memory_size());
        size_of_val(self) + 2 * points.sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = |array| SingleRowListArrayBuilder::new(array).build_list_scalar();
        let count = self.count.map(|count| count as i64);
        Ok(vec![list(self.all(0)?), list(self.all(1)?), ScalarValue::Int64(count)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (row, (xs, ys)) in elements(&states[0]).iter().zip(elements(&states[1])).enumerate() {
            if states[2].is_valid(row) {
                self.set_count(&states[2].slice(row, 1))?;
            }
            self.add(xs, &ys)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_that_stick_out_stay() {
        let xs: Vec<f64> = (0..9).map(f64::from).collect();
        let ys = [0.0, 0.0, 9.0, 0.0, 0.0, 0.0, -9.0, 0.0, 0.0];
        assert_eq!(chosen(&xs, &ys, 4), [0, 2, 6, 8]);
        assert_eq!(chosen(&xs, &ys, 2), [0, 8]);
        assert_eq!(chosen(&xs, &ys, 20).len(), 9);
    }
}
