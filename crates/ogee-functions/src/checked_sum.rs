//! `sum` of integers that never wraps silently, for the aggregates and windows that DataFusion runs.
//!
//! DataFusion's own `sum` adds with wrap-around. This one stands in its place in the session, adds in 128 bits and reports overflow
//! when the total is asked for, so that the answer does not depend on the order of the rows. All else about `sum` is DataFusion's.
//!
//! Not here: the engine's own `sum`.

use std::{mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, PrimitiveArray, UInt64Array},
        datatypes::{ArrowPrimitiveType, DataType, FieldRef, Int64Type, UInt64Type},
    },
    common::{Result, ScalarValue, not_impl_err, plan_err},
    functions_aggregate::sum::sum_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
        SetMonotonicity, Signature, StatisticsArgs, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};
use ogee_exec::ExecError;

use crate::{error::to_datafusion, type_names::sql_name};

/// The `sum` to register in a session.
pub fn checked_sum() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(CheckedSum {
        inner: sum_udaf(),
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

fn wraps(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64)
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [value] = arg_types else { return plan_err!("sum takes one argument, not {}", arg_types.len()) };
        Ok(vec![match value {
            DataType::Dictionary(_, values) => return self.coerce_types(&[values.as_ref().clone()]),
            DataType::Null | DataType::Boolean => DataType::Int64,
            value if value.is_unsigned_integer() => DataType::UInt64,
            value if value.is_integer() => DataType::Int64,
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
                value.clone()
            }
            DataType::Duration(_) | DataType::Interval(_) => value.clone(),
            value if value.is_floating() => DataType::Float64,
            value => return plan_err!("sum takes numbers, not values of type {}; cast the argument", sql_name(value)),
        }])
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type().clone();
        match (wraps(&data_type), args.is_distinct) {
            (false, _) => self.inner.accumulator(args),
            (true, false) => Ok(Box::new(Sum::new(data_type))),
            (true, true) => Ok(Box::new(DistinctSum { inner: self.inner.accumulator(args)?, data_type })),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type().clone();
        match (wraps(&data_type), args.is_distinct) {
            (false, _) => self.inner.inner().create_sliding_accumulator(args),
            (true, false) => Ok(Box::new(Sum::new(data_type))),
            (true, true) => {
                Ok(Box::new(DistinctSum { inner: self.inner.inner().create_sliding_accumulator(args)?, data_type }))
            }
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = args.return_field.data_type().clone();
        if wraps(&data_type) {
            Ok(Box::new(GroupSums { sums: Vec::new(), seen: Vec::new(), data_type }))
        } else {
            self.inner.create_groups_accumulator(args)
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.inner().value_from_stats(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

fn overflow(data_type: &DataType) -> datafusion::common::DataFusionError {
    to_datafusion(ExecError::Overflow { operation: "sum", data_type: data_type.to_string() })
}

fn to_scalar(sum: Option<i128>, data_type: &DataType) -> Result<ScalarValue> {
    let Some(sum) = sum else { return ScalarValue::try_from(data_type) };
    Ok(match data_type {
        DataType::Int64 => ScalarValue::Int64(Some(i64::try_from(sum).map_err(|_| overflow(data_type))?)),
        _ => ScalarValue::UInt64(Some(u64::try_from(sum).map_err(|_| overflow(data_type))?)),
    })
}

/// Calls `add` with each value that is not NULL and its row. 2^63 values of 64 bits fit into 128, so that additions need no check.
fn for_each(values: &ArrayRef, mut add: impl FnMut(usize, i128)) -> Result<()> {
    fn each<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, mut add: impl FnMut(usize, T::Native)) {
        if values.null_count() == 0 {
            values.values().iter().enumerate().for_each(|(row, &v)| add(row, v));
        } else {
            values.iter().enumerate().for_each(|(row, v)| {
                if let Some(v) = v {
                    add(row, v);
                }
            });
        }
    }
    match values.data_type() {
        DataType::Int64 => each(values.as_primitive::<Int64Type>(), |row, v| add(row, i128::from(v))),
        DataType::UInt64 => each(values.as_primitive::<UInt64Type>(), |row, v| add(row, i128::from(v))),
        other => return not_impl_err!("sum of {other} in 128 bits"),
    }
    Ok(())
}

/// The sum of all rows, or of a window that slides.
#[derive(Debug)]
struct Sum {
    sum: i128,
    /// Values that are not NULL.
    count: u64,
    data_type: DataType,
}

impl Sum {
    fn new(data_type: DataType) -> Self {
        Self { sum: 0, count: 0, data_type }
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_each(&values[0], |_, v| {
            self.sum += v;
            self.count += 1;
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_each(&values[0], |_, v| {
            self.sum -= v;
            self.count -= 1;
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        to_scalar((self.count > 0).then_some(self.sum), &self.data_type)
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

/// The sum of distinct values: DataFusion's accumulator keeps them, the total is taken anew.
#[derive(Debug)]
struct DistinctSum {
    inner: Box<dyn Accumulator>,
    data_type: DataType,
}

impl Accumulator for DistinctSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (mut sum, mut count) = (0, 0);
        for state in self.inner.state()? {
            let ScalarValue::List(list) = state else {
                return not_impl_err!("a state of distinct values that is no list");
            };
            for_each(list.values(), |_, v| {
                sum += v;
                count += 1;
            })?;
        }
        to_scalar((count > 0).then_some(sum), &self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }
}

/// A sum for each group.
#[derive(Debug)]
struct GroupSums {
    sums: Vec<i128>,
    /// Whether the group has a value that is not NULL.
    seen: Vec<bool>,
    data_type: DataType,
}

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, 0);
        self.seen.resize(total, false);
        for_each(&values[0], |row, v| {
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                self.sums[groups[row]] += v;
                self.seen[groups[row]] = true;
            }
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let seen = emit_to.take_needed(&mut self.seen);
        let sums = sums.into_iter().zip(seen).map(|(sum, seen)| seen.then_some(sum));
        let data_type = &self.data_type;
        Ok(match data_type {
            DataType::Int64 => Arc::new(
                sums.map(|sum| sum.map(i64::try_from).transpose().map_err(|_| overflow(data_type)))
                    .collect::<Result<Int64Array>>()?,
            ),
            _ => Arc::new(
                sums.map(|sum| sum.map(u64::try_from).transpose().map_err(|_| overflow(data_type)))
                    .collect::<Result<UInt64Array>>()?,
            ),
        })
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(filter) = filter else { return Ok(vec![Arc::clone(&values[0])]) };
        let mut rows = Self { sums: Vec::new(), seen: Vec::new(), data_type: self.data_type.clone() };
        let each: Vec<usize> = (0..values[0].len()).collect();
        rows.update_batch(values, &each, Some(filter), each.len())?;
        rows.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn totals_out_of_range_are_errors_and_ways_there_are_not() {
        let mut sum = Sum::new(DataType::Int64);
        let max: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(1)]));
        sum.update_batch(&[Arc::clone(&max)]).unwrap();
        assert!(sum.evaluate().unwrap_err().to_string().contains("sum overflows Int64"));
        let back: ArrayRef = Arc::new(Int64Array::from(vec![-1]));
        sum.update_batch(&[back]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX)));
        sum.retract_batch(&[max]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(-1)));
    }

    #[test]
    fn groups_without_a_value_are_null() {
        let mut sums = GroupSums { sums: Vec::new(), seen: Vec::new(), data_type: DataType::UInt64 };
        let values: ArrayRef = Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(2), Some(3)]));
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), None]);
        sums.update_batch(&[values], &[0, 1, 2, 2], Some(&filter), 3).unwrap();
        let totals = sums.evaluate(EmitTo::All).unwrap();
        let totals: Vec<_> = totals.as_primitive::<UInt64Type>().iter().collect();
        assert_eq!(totals, [Some(u64::MAX), None, Some(2)]);
    }
}
