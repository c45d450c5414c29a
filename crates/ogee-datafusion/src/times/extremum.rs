//! `min` and `max` of intervals, by their length. Of those of one length it is the one with fewest months, then days: the answer does not depend on the order
//! of the rows.
//!
//! Not here: other aggregates of intervals (`order_rule`).

use std::{cmp::Ordering, sync::Arc};

use datafusion::{
    arrow::{
        array::ArrayRef,
        datatypes::{DataType, IntervalMonthDayNano},
    },
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility, function::AccumulatorArgs,
        utils::AggregateOrderSensitivity,
    },
};

use super::intervals::{INTERVAL, intervals, length};

/// `max` if `most`, else `min`.
pub(super) fn interval_extremum(most: bool) -> Arc<AggregateUDF> {
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
        if self.most { "max" } else { "min" }
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
