//! `generate_series` and `range` over integers.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef,
    functions_table::generate_series::GenericSeriesState,
    physical_plan::{ExecutionPlan, memory::LazyMemoryExec},
};
use ogee_exec::SeriesSource;

/// A series that the engine counts itself.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    first: i64,
    step: i64,
    count: u64,
}

impl Series {
    /// What `node` generates, if that is one series of integers.
    pub fn of(node: &LazyMemoryExec) -> Option<Self> {
        let [generator] = node.generators().as_slice() else { return None };
        if node.fetch().is_some() {
            return None;
        }
        let generator = generator.read();
        let series = generator.as_any().downcast_ref::<GenericSeriesState<i64>>()?;
        let (first, end, step) = (*series.start(), *series.end(), *series.step());
        let count = count(first, end, step, series.include_end())?;
        Some(Self { first, step, count })
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first and the last value.
    pub fn ends(&self) -> (i64, i64) {
        let steps = i128::from(self.count.saturating_sub(1)) * i128::from(self.step);
        // The last value is within the range that was asked for.
        (self.first, (i128::from(self.first) + steps) as i64)
    }

    /// The source, whose column is named by `schema`.
    pub fn source(&self, schema: SchemaRef) -> Arc<SeriesSource> {
        SeriesSource::new(schema, self.first, self.step, self.count)
    }
}

/// Values from `first` on in steps, up to `end`; `None` if they are too many to be counted.
fn count(first: i64, end: i64, step: i64, include_end: bool) -> Option<u64> {
    let (first, end, step) = (i128::from(first), i128::from(end), i128::from(step));
    let distance = if step > 0 { end - first } else { first - end };
    let steps = step.abs();
    let count = match include_end {
        _ if step == 0 => return None,
        true if distance >= 0 => distance / steps + 1,
        false if distance > 0 => (distance - 1) / steps + 1,
        _ => 0,
    };
    u64::try_from(count).ok().filter(|&count| count <= u64::MAX / 4)
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first={}, step={}, count={}", self.first, self.step, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_count_as_the_functions_say() {
        assert_eq!(count(1, 10, 1, true), Some(10));
        assert_eq!(count(1, 10, 1, false), Some(9));
        assert_eq!(count(1, 10, 4, true), Some(3));
        assert_eq!(count(1, 9, 4, false), Some(2));
        assert_eq!(count(10, 1, -3, true), Some(4));
        assert_eq!(count(10, 1, -3, false), Some(3));
        assert_eq!(count(5, 4, 1, true), Some(0));
        assert_eq!(count(5, 5, 1, false), Some(0));
        assert_eq!(count(5, 5, -1, true), Some(1));
        assert_eq!(count(i64::MIN, i64::MAX, 1, true), None);
        assert_eq!(count(i64::MIN, i64::MAX, i64::MAX, true), Some(3));
    }
}
