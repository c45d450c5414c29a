//! `min`, `max` and `avg` of intervals. The first two go by their length. Of those of one length it is the one with fewest months, then days: the answer does not depend on the order
//! of the rows.
//!
//! Not here: other aggregates of intervals (`ogee_sql`, `times::order_rule`).

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray},
        datatypes::{DataType, Decimal128Type, Field, FieldRef, IntervalMonthDayNano, UInt64Type},
    },
    common::{Result, ScalarValue, exec_datafusion_err, plan_err},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        expr::{AggregateFunctionParams, schema_name_from_exprs},
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

use super::intervals::{DAYS_OF_MONTH, INTERVAL, LENGTH, MICROS_OF_DAY, intervals, length};

/// The name of the average of intervals.
pub const INTERVAL_AVERAGE: &str = "ogee_interval_avg";

/// The average of intervals.
pub fn interval_average() -> AggregateUDF {
    AggregateUDF::new_from_impl(IntervalAverage { signature: Signature::any(1, Volatility::Immutable) })
}

/// `max` if `most`, else `min`. Not by those names: by them the engine has kernels, which compare months first.
pub fn interval_extremum(most: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(IntervalExtremum { most, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalExtremum {
    most: bool,
    signature: Signature,
}

impl AggregateUDFImpl for IntervalExtremum {
    fn name(&self) -> &str {
        if self.most { "ogee_interval_max" } else { "ogee_interval_min" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Extremum { most: self.most, best: None }))
    }

    fn create_sliding_accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(SlidingExtremum { most: self.most, counts: BTreeMap::new() }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct Extremum {
    most: bool,
    best: Option<IntervalMonthDayNano>,
}

/// The order of the intervals, and of those of one length.
fn compare(a: IntervalMonthDayNano, b: IntervalMonthDayNano, most: bool) -> Ordering {
    let by_length = length(a).cmp(&length(b));
    let by_parts = (a.months, a.days, a.nanoseconds).cmp(&(b.months, b.days, b.nanoseconds));
    by_length.then(if most { by_parts.reverse() } else { by_parts })
}

impl Accumulator for Extremum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = intervals(&values[0])?;
        let all = self.best.into_iter().chain(values.iter().flatten());
        let order = |a: &IntervalMonthDayNano, b: &IntervalMonthDayNano| compare(*a, *b, self.most);
        self.best = if self.most { all.max_by(order) } else { all.min_by(order) };
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.best))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// The intervals of a frame that moves, in order, and how often each is there.
#[derive(Debug)]
struct SlidingExtremum {
    most: bool,
    counts: BTreeMap<Place, (IntervalMonthDayNano, u64)>,
}

/// An interval's place among the others: its length, and of equal ones first that with the most months.
type Place = (i128, Reverse<(i32, i32, i64)>);

impl SlidingExtremum {
    fn key(value: IntervalMonthDayNano) -> Place {
        (length(value), Reverse((value.months, value.days, value.nanoseconds)))
    }
}

impl Accumulator for SlidingExtremum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in intervals(&values[0])?.iter().flatten() {
            self.counts.entry(Self::key(value)).or_insert((value, 0)).1 += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in intervals(&values[0])?.iter().flatten() {
            if let Entry::Occupied(mut entry) = self.counts.entry(Self::key(value)) {
                entry.get_mut().1 -= 1;
                if entry.get().1 == 0 {
                    entry.remove();
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // Of one length the last has fewest months.
        let best = match (self.most, self.counts.first_key_value()) {
            (true, _) | (_, None) => self.counts.values().next_back(),
            (false, Some(((least, _), _))) => self
                .counts
                .range(..=(*least, Reverse((i32::MIN, i32::MIN, i64::MIN))))
                .next_back()
                .map(|(_, value)| value),
        };
        Ok(ScalarValue::IntervalMonthDayNano(best.map(|(value, _)| *value)))
    }

    fn size(&self) -> usize {
        // A node of the tree is at least half full.
        size_of_val(self) + self.counts.len() * 2 * size_of::<(i128, IntervalMonthDayNano, u64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalAverage {
    signature: Signature,
}

impl AggregateUDFImpl for IntervalAverage {
    fn name(&self) -> &str {
        INTERVAL_AVERAGE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        Ok(format!("avg({})", schema_name_from_exprs(&params.args)?))
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match &arg_types[0] {
            DataType::Interval(_) => Ok(INTERVAL),
            other => plan_err!("avg of intervals and of {other} in one statement; put one of them into a subquery"),
        }
    }

    fn state_fields(&self, _args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name, data_type| Arc::new(Field::new(name, data_type, true));
        Ok(vec![
            field("months", LENGTH),
            field("days", LENGTH),
            field("micros", LENGTH),
            field("count", DataType::UInt64),
        ])
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Average::default()))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Sums of the parts, and of how many intervals.
#[derive(Debug, Default)]
struct Average {
    months: i128,
    days: i128,
    micros: i128,
    count: u64,
}

impl Accumulator for Average {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in intervals(&values[0])?.iter().flatten() {
            self.months += i128::from(value.months);
            self.days += i128::from(value.days);
            self.micros += i128::from(value.nanoseconds / 1000);
            self.count += 1;
        }
        Ok(())
    }

    /// What is left of months goes on into days, what is left of days into the time.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let count = i128::from(self.count);
        let days = self.days + self.months % count * i128::from(DAYS_OF_MONTH);
        let micros = self.micros + days % count * i128::from(MICROS_OF_DAY);
        let half = if micros < 0 { -count / 2 } else { count / 2 };
        let too_long = || exec_datafusion_err!("interval out of range");
        let short = |value: i128| i32::try_from(value).map_err(|_| too_long());
        let nanos = i64::try_from((micros + half) / count * 1000).map_err(|_| too_long())?;
        let average = IntervalMonthDayNano::new(short(self.months / count)?, short(days / count)?, nanos);
        Ok(ScalarValue::IntervalMonthDayNano(Some(average)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = |value| ScalarValue::Decimal128(Some(value), 38, 0);
        Ok(vec![sum(self.months), sum(self.days), sum(self.micros), ScalarValue::UInt64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sum = |at: usize| states[at].as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
        self.months += sum(0);
        self.days += sum(1);
        self.micros += sum(2);
        self.count += states[3].as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
        Ok(())
    }
}
