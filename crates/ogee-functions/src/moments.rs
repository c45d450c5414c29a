//! `avg` of dates, timestamps and times: the mean of what they are as numbers of microseconds, to the nearest.
//!
//! DataFusion has averages of numbers only. Dates have an average that is a timestamp.
//!
//! Not here: averages of intervals, and which arguments `avg` takes (`averages`).

use std::{collections::HashSet, mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray},
        compute::cast,
        datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type, TimeUnit, UInt64Type},
    },
    common::{Result, ScalarValue, internal_err},
    logical_expr::{Accumulator, utils::format_state_name},
};

/// Digits of a sum of moments.
const SUM: DataType = DataType::Decimal128(38, 0);

/// The type that moments of type `given` are averaged in, if they are moments.
pub(crate) fn taken(given: &DataType) -> Option<DataType> {
    Some(match given {
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        _ => return None,
    })
}

/// Whether values of type `data_type` are moments as they are averaged.
pub(crate) fn is_moment(data_type: &DataType) -> bool {
    taken(data_type).is_some_and(|taken| taken == *data_type)
}

/// Fields of the state of the average `name`.
pub(crate) fn state_fields(name: &str, is_distinct: bool) -> Vec<FieldRef> {
    if is_distinct {
        let item = Field::new_list_field(DataType::Int64, true);
        return vec![Arc::new(Field::new_list(format_state_name(name, "distinct"), item, true))];
    }
    let field = |part, data_type| Arc::new(Field::new(format_state_name(name, part), data_type, true));
    vec![field("count", DataType::UInt64), field("sum", SUM)]
}

/// The average of the moments of a group or a window.
#[derive(Debug)]
pub(crate) struct Moments {
    data_type: DataType,
    sum: i128,
    count: u64,
    /// Those that there were, if each counts once.
    seen: Option<HashSet<i64>>,
}

impl Moments {
    /// The average of none, of type `data_type`.
    pub(crate) fn new(data_type: &DataType, is_distinct: bool) -> Self {
        Self { data_type: data_type.clone(), sum: 0, count: 0, seen: is_distinct.then(HashSet::new) }
    }

    fn add(&mut self, value: i64) {
        if self.seen.as_mut().is_none_or(|seen| seen.insert(value)) {
            self.sum += i128::from(value);
            self.count += 1;
        }
    }
}

/// The whole number next to `sum / count`, of two the even one.
pub(crate) fn nearest(sum: i128, count: u64) -> i128 {
    let count = i128::from(count);
    let (down, rest) = (sum.div_euclid(count), sum.rem_euclid(count));
    let up = match (2 * rest).cmp(&count) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => down & 1,
        std::cmp::Ordering::Greater => 1,
    };
    down + up
}

impl Accumulator for Moments {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let numbers = cast(&values[0], &DataType::Int64)?;
        numbers.as_primitive::<Int64Type>().iter().flatten().for_each(|value| self.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let numbers = cast(&values[0], &DataType::Int64)?;
        for value in numbers.as_primitive::<Int64Type>().iter().flatten() {
            self.sum -= i128::from(value);
            self.count -= 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.seen.is_none()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // The mean of numbers of 64 bits is one.
        let mean = (self.count > 0).then(|| nearest(self.sum, self.count) as i64);
        ScalarValue::Int64(mean).cast_to(&self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.seen.as_ref().map_or(0, |seen| seen.capacity() * (size_of::<i64>() + 1))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(match &self.seen {
            Some(seen) => {
                let values: Vec<_> = seen.iter().map(|&value| ScalarValue::Int64(Some(value))).collect();
                vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Int64))]
            }
            None => vec![ScalarValue::UInt64(Some(self.count)), ScalarValue::Decimal128(Some(self.sum), 38, 0)],
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        match states {
            [seen] => {
                for values in seen.as_list::<i32>().iter().flatten() {
                    values.as_primitive::<Int64Type>().iter().flatten().for_each(|value| self.add(value));
                }
            }
            [counts, sums] => {
                let sums = sums.as_primitive::<Decimal128Type>();
                for (count, sum) in counts.as_primitive::<UInt64Type>().iter().zip(sums) {
                    self.count += count.unwrap_or(0);
                    self.sum += sum.unwrap_or(0);
                }
            }
            _ => return internal_err!("an average has one state or two"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_rounded_to_the_nearest() {
        for (sum, count, expected) in [(1, 2, 0), (3, 2, 2), (2, 3, 1), (-1, 2, 0), (-3, 2, -2), (-2, 3, -1), (7, 7, 1)]
        {
            assert_eq!(nearest(sum, count), expected, "{sum} / {count}");
        }
    }
}
