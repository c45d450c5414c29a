//! Series of moments: `range` and `generate_series` of dates, timestamps and instants, as lists and as tables.
//!
//! Each moment is the one before moved by the step, as DuckDB has it: in months from the 31st of January on all behind February are the 29th. Days and months of instants are those that clocks of the
//! session's zone show. DataFusion counts in nanoseconds, which end in 2262, and in UTC.
//!
//! Not here: series of numbers (`crate::series`), and the memory that lists take (`crate::growing`).

use std::{any::Any, fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::{ArrayRef, ListArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewArray},
        buffer::{NullBuffer, OffsetBuffer},
        datatypes::{DataType, Field, IntervalMonthDayNano, Schema, SchemaRef, TimestampMicrosecondType},
    },
    catalog::{Session, TableProvider},
    common::{Result, ScalarValue, exec_err, plan_err},
    logical_expr::{Expr, TableType},
    physical_plan::{
        ExecutionPlan,
        memory::{LazyBatchGenerator, LazyMemoryExec},
    },
};
use parking_lot::RwLock;

use crate::text_casts::cast_texts;

use super::{
    Zone,
    infinite::is_infinite,
    instants::{LOCAL, instant, instant_array, is_instant, micros, moved_by},
    intervals::intervals,
};

const MICROS_OF_DAY: i64 = 86_400_000_000;

/// Moments in equal steps.
#[derive(Clone, Debug)]
struct Steps {
    next: Option<i64>,
    last: i64,
    step: IntervalMonthDayNano,
    /// Microseconds of a step that are as many each time.
    equal: Option<i64>,
    ascends: bool,
    zone: Zone,
}

impl Steps {
    /// Moments from `start` on up to `stop`, and itself if the series `includes` it; without a zone of their own they are in UTC. `None` if the step goes nowhere.
    ///
    /// # Errors
    /// A bound is infinite, or the step goes both ways.
    fn new(start: i64, stop: i64, step: IntervalMonthDayNano, includes: bool, zone: Zone) -> Result<Option<Self>> {
        if is_infinite(start) || is_infinite(stop) {
            return exec_err!("a series with an infinite bound is not supported: it would have no end");
        }
        let time = step.nanoseconds / 1000;
        let parts = [i64::from(step.months), i64::from(step.days), time];
        let (ascends, descends) = (parts.iter().any(|part| *part > 0), parts.iter().any(|part| *part < 0));
        let last = match (ascends, descends) {
            (true, true) => {
                return exec_err!("a step whose months, days and time are not all of one sign is not supported");
            }
            (false, false) => return Ok(None),
            _ if includes => stop,
            (true, false) => stop - 1,
            (false, true) => stop + 1,
        };
        let days = (zone == Zone::UTC && step.months == 0).then_some(i64::from(step.days));
        let equal = match step.days {
            0 if step.months == 0 => Some(time),
            _ => days.and_then(|days| days.checked_mul(MICROS_OF_DAY)?.checked_add(time)),
        };
        let next = (if ascends { start <= last } else { start >= last }).then_some(start);
        Ok(Some(Self { next, last, step, equal, ascends, zone }))
    }
}

impl Iterator for Steps {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let moment = self.next?;
        // Behind the last moment that there is a series ends.
        let next = match self.equal {
            Some(step) => moment.checked_add(step),
            None => moved_by(moment, self.step, false, &self.zone).ok(),
        };
        self.next = next.filter(|next| if self.ascends { *next <= self.last } else { *next >= self.last });
        Some(moment)
    }
}

/// Whether series of values of this type are of moments.
pub(crate) fn is_moment(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

/// What a series with these bounds is of.
pub(crate) fn moments_between(start: &DataType, stop: &DataType) -> DataType {
    if is_instant(start) || is_instant(stop) { instant() } else { LOCAL }
}

/// A list of the moments from each of `starts` to that of `stops` in that of `steps`; `name` is the function's, the zone the session's.
///
/// # Errors
/// As for `Steps::new`.
pub(crate) fn lists(args: &[ArrayRef], includes: bool, zone: &Zone) -> Result<ArrayRef> {
    let [starts, stops, steps] = args else { return exec_err!("a series of moments needs two bounds and a step") };
    let of = moments_between(starts.data_type(), stops.data_type());
    let zone = if is_instant(&of) { *zone } else { Zone::UTC };
    let bound = |bounds: &ArrayRef| {
        let counts = micros(bounds)?;
        if is_instant(bounds.data_type()) { Ok(counts) } else { instant_array(&counts, &zone) }
    };
    let (starts, stops, steps) = (bound(starts)?, bound(stops)?, intervals(steps)?);
    let (mut values, mut ends, mut valid) = (Vec::new(), vec![0], Vec::with_capacity(starts.len()));
    for ((start, stop), step) in starts.iter().zip(&stops).zip(&steps) {
        let series = match (start, stop, step) {
            (Some(start), Some(stop), Some(step)) => Some(Steps::new(start, stop, step, includes, zone)?),
            _ => None,
        };
        valid.push(series.is_some());
        values.extend(series.flatten().into_iter().flatten());
        match i32::try_from(values.len()) {
            Ok(end) => ends.push(end),
            Err(_) => return exec_err!("a batch of lists has at most 2147483647 elements; ask for shorter series"),
        }
    }
    let values = PrimitiveArray::<TimestampMicrosecondType>::from(values).with_data_type(of.clone());
    let element = Arc::new(Field::new_list_field(of, true));
    let valid = NullBuffer::from(valid);
    Ok(Arc::new(ListArray::new(element, OffsetBuffer::new(ends.into()), Arc::new(values), Some(valid))))
}

/// The rows of `range` or `generate_series` of moments.
#[derive(Debug)]
pub(crate) struct MomentTable {
    schema: SchemaRef,
    /// `None` if one of the arguments is NULL.
    steps: Option<Steps>,
}

impl MomentTable {
    /// Those of a function called `name`; `None` if no bound of `args` is a moment.
    ///
    /// # Errors
    /// These are no bounds and a step of such a series.
    pub(crate) fn of(name: &str, args: &[Expr], includes: bool, zone: Zone) -> Result<Option<Self>> {
        let constants = args.iter().map(|arg| match arg {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        });
        let Some(constants) = constants.collect::<Option<Vec<_>>>() else { return Ok(None) };
        if !constants.iter().take(2).any(|value| is_moment(&value.data_type())) {
            return Ok(None);
        }
        let [start, stop, step] = &constants[..] else {
            return plan_err!("{name} of dates or timestamps takes two of them and an interval");
        };
        let is_bound =
            |value: &ScalarValue| value.is_null() || is_moment(&value.data_type()) || value.data_type().is_string();
        let is_step = step.is_null() || matches!(step.data_type(), DataType::Interval(_));
        if !is_bound(start) || !is_bound(stop) || !is_step {
            return plan_err!(
                "{name} takes two dates or timestamps and an interval, not ({}, {}, {})",
                start.data_type(),
                stop.data_type(),
                step.data_type()
            );
        }
        let of = moments_between(&start.data_type(), &stop.data_type());
        let zone = if is_instant(&of) { zone } else { Zone::UTC };
        let bound = |value: &ScalarValue| -> Result<i64> {
            let moment = match value.try_as_str().flatten() {
                Some(text) => cast_texts(&StringViewArray::from_iter_values([text]), &LOCAL, false)?,
                None => value.to_array()?,
            };
            let count = micros(&moment)?.value(0);
            if is_instant(&value.data_type()) { Ok(count) } else { zone.to_instant(count) }
        };
        let steps = if constants.iter().any(|value| value.is_null()) {
            None
        } else {
            let step: IntervalMonthDayNano = intervals(&step.to_array()?)?.value(0);
            match Steps::new(bound(start)?, bound(stop)?, step, includes, zone)? {
                Some(steps) => Some(steps),
                None => return plan_err!("the step of {name} is an interval that goes nowhere"),
            }
        };
        let schema = Arc::new(Schema::new(vec![Field::new("value", of, false)]));
        Ok(Some(Self { schema, steps }))
    }
}

#[async_trait]
impl TableProvider for MomentTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = Rows {
            schema: Arc::clone(&self.schema),
            first: self.steps.clone(),
            left: self.steps.clone(),
            batch_rows: state.config().batch_size(),
        };
        let exec = LazyMemoryExec::try_new(self.schema(), vec![Arc::new(RwLock::new(rows))])?;
        Ok(Arc::new(exec.with_projection(projection.cloned())))
    }
}

/// Batches of a series.
#[derive(Debug)]
struct Rows {
    schema: SchemaRef,
    first: Option<Steps>,
    left: Option<Steps>,
    batch_rows: usize,
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "moments in steps")
    }
}

impl LazyBatchGenerator for Rows {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn generate_next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let values: Vec<i64> = self.left.iter_mut().flatten().take(self.batch_rows).collect();
        if values.is_empty() {
            return Ok(None);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(values.len()));
        let of = self.schema.field(0).data_type().clone();
        let values = PrimitiveArray::<TimestampMicrosecondType>::from(values).with_data_type(of);
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), vec![Arc::new(values)], &options)?))
    }

    fn reset_state(&self) -> Arc<RwLock<dyn LazyBatchGenerator>> {
        Arc::new(RwLock::new(Self {
            schema: Arc::clone(&self.schema),
            first: self.first.clone(),
            left: self.first.clone(),
            batch_rows: self.batch_rows,
        }))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn series(start: i64, stop: i64, step: (i32, i32, i64), includes: bool) -> Vec<i64> {
        let step = IntervalMonthDayNano::new(step.0, step.1, step.2 * 1000);
        Steps::new(start, stop, step, includes, Zone::UTC).unwrap().unwrap().collect()
    }

    #[test]
    fn ends_belong_to_one_of_the_functions() {
        assert_eq!(series(0, 10, (0, 0, 5), true), [0, 5, 10]);
        assert_eq!(series(0, 10, (0, 0, 5), false), [0, 5]);
        assert_eq!(series(10, 0, (0, 0, -5), true), [10, 5, 0]);
        assert_eq!(series(10, 0, (0, 0, -5), false), [10, 5]);
        assert!(series(10, 0, (0, 0, 5), true).is_empty());
        assert_eq!(series(7, 7, (0, 1, 0), true), [7]);
        assert!(series(7, 7, (0, 1, 0), false).is_empty());
        // Where moments end.
        assert_eq!(series(i64::MAX - 2, i64::MAX - 1, (0, 1, 0), true), [i64::MAX - 2]);
    }

    #[test]
    fn a_step_goes_one_way() {
        let both = IntervalMonthDayNano::new(1, -1, 0);
        assert!(Steps::new(0, 10, both, true, Zone::UTC).is_err());
        assert!(Steps::new(0, i64::MAX, IntervalMonthDayNano::new(1, 0, 0), true, Zone::UTC).is_err());
        assert!(Steps::new(0, 10, IntervalMonthDayNano::new(0, 0, 0), true, Zone::UTC).unwrap().is_none());
    }
}
