//! `avg` of decimals as a float: the exact sum, divided once.
//!
//! DataFusion's average of decimals is a decimal of four more digits, and what is beyond them is cut off. This one stands in its place in the session. It is the
//! engine's, too, which has kernels for it; what is here is for the aggregates and windows that DataFusion runs. Moments are averaged by `moments`; all else about `avg` is DataFusion's.
//!
//! Not here: the engine's own averages.

use std::{collections::HashSet, mem::size_of_val, sync::Arc};

use datafusion::arrow::datatypes::i256;
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, Decimal256Array, Float64Array, PrimitiveArray, UInt64Array},
        datatypes::{DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field, FieldRef, UInt64Type},
    },
    common::{Result, ScalarValue, exec_datafusion_err, plan_err},
    functions_aggregate::average::avg_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
        Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::{AggregateOrderSensitivity, format_state_name},
    },
};
use ogee_exec::aggregate::average_of_decimals;

use crate::{
    moments::{self, Moments},
    type_names::sql_name,
};

/// The `avg` to register in a session.
pub fn average() -> AggregateUDF {
    AggregateUDF::new_from_impl(Average {
        inner: avg_udaf(),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

/// Digits after the point, if values of `data_type` are added up here.
fn scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    }
}

fn sum_type(scale: i8) -> DataType {
    DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale)
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [value] = arg_types else { return plan_err!("avg takes one argument, not {}", arg_types.len()) };
        Ok(vec![match value {
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                DataType::Decimal128(*precision, *scale)
            }
            DataType::Decimal128(..) | DataType::Duration(_) => value.clone(),
            value if value.is_numeric() || value.is_null() => DataType::Float64,
            DataType::Dictionary(_, values) => return self.coerce_types(&[values.as_ref().clone()]),
            value => match moments::taken(value) {
                Some(moment) => moment,
                None => {
                    return plan_err!("avg takes numbers, not values of type {}; cast the argument", sql_name(value));
                }
            },
        }])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Decimal128(..)] => Ok(DataType::Float64),
            [moment] if moments::is_moment(moment) => Ok(moment.clone()),
            _ => self.inner.return_type(arg_types),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if moments::is_moment(args.input_fields[0].data_type()) {
            return Ok(moments::state_fields(args.name, args.is_distinct));
        }
        let Some(scale) = scale(args.input_fields[0].data_type()) else { return self.inner.state_fields(args) };
        let sum = Field::new(format_state_name(args.name, "sum"), sum_type(scale), true);
        if args.is_distinct {
            let item = Field::new_list_field(DataType::Decimal128(38, scale), true);
            return Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "distinct"), item, true))]);
        }
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "count"), DataType::UInt64, true)), Arc::new(sum)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type();
        if moments::is_moment(data_type) {
            return Ok(Box::new(Moments::new(data_type, args.is_distinct)));
        }
        match (scale(args.expr_fields[0].data_type()), args.is_distinct) {
            (None, _) => self.inner.accumulator(args),
            (Some(scale), false) => Ok(Box::new(Decimals { sum: i256::ZERO, count: 0, scale })),
            (Some(scale), true) => Ok(Box::new(DistinctDecimals { values: HashSet::new(), scale })),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match scale(args.expr_fields[0].data_type()) {
            None if !moments::is_moment(args.expr_fields[0].data_type()) => {
                self.inner.inner().create_sliding_accumulator(args)
            }
            _ => self.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match scale(args.expr_fields[0].data_type()) {
            None if moments::is_moment(args.expr_fields[0].data_type()) => false,
            None => self.inner.groups_accumulator_supported(args),
            Some(_) => !args.is_distinct,
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match scale(args.expr_fields[0].data_type()) {
            None => self.inner.create_groups_accumulator(args),
            Some(scale) => Ok(Box::new(GroupsOfDecimals { sums: Vec::new(), counts: Vec::new(), scale })),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Calls `each` with the rows and values that are not NULL.
fn for_each(values: &ArrayRef, mut each: impl FnMut(usize, i128)) {
    let values: &PrimitiveArray<Decimal128Type> = values.as_primitive();
    values.iter().enumerate().for_each(|(row, value)| {
        if let Some(value) = value {
            each(row, value);
        }
    });
}

/// The average of all rows, or of a window that slides.
#[derive(Debug)]
struct Decimals {
    sum: i256,
    count: u64,
    scale: i8,
}

impl Accumulator for Decimals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_each(&values[0], |_, value| {
            self.sum = self.sum.wrapping_add(i256::from_i128(value));
            self.count += 1;
        });
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_each(&values[0], |_, value| {
            self.sum = self.sum.wrapping_sub(i256::from_i128(value));
            self.count -= 1;
        });
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let average = (self.count > 0).then(|| average_of_decimals(self.sum, self.count, self.scale));
        Ok(ScalarValue::Float64(average))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = ScalarValue::Decimal256(Some(self.sum), DECIMAL256_MAX_PRECISION, self.scale);
        Ok(vec![ScalarValue::UInt64(Some(self.count)), sum])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[0].as_primitive::<UInt64Type>();
        let sums = states[1].as_primitive::<Decimal256Type>();
        for (count, sum) in counts.iter().zip(sums) {
            self.count += count.unwrap_or(0);
            self.sum = self.sum.wrapping_add(sum.unwrap_or(i256::ZERO));
        }
        Ok(())
    }
}

/// The average of different values.
#[derive(Debug)]
struct DistinctDecimals {
    values: HashSet<i128>,
    scale: i8,
}

impl Accumulator for DistinctDecimals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_each(&values[0], |_, value| {
            self.values.insert(value);
        });
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.values.iter().fold(i256::ZERO, |sum, &value| sum.wrapping_add(i256::from_i128(value)));
        let count = self.values.len() as u64;
        Ok(ScalarValue::Float64((count > 0).then(|| average_of_decimals(sum, count, self.scale))))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * (size_of::<i128>() + 1)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let data_type = DataType::Decimal128(38, self.scale);
        let values: Vec<_> =
            self.values.iter().map(|&value| ScalarValue::Decimal128(Some(value), 38, self.scale)).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &data_type))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }
}

/// An average for each group.
#[derive(Debug)]
struct GroupsOfDecimals {
    sums: Vec<i256>,
    counts: Vec<u64>,
    scale: i8,
}

impl GroupsOfDecimals {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, i256::ZERO);
        self.counts.resize(groups, 0);
    }
}

impl GroupsAccumulator for GroupsOfDecimals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.resize(total);
        for_each(&values[0], |row, value| {
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                let group = groups[row];
                self.sums[group] = self.sums[group].wrapping_add(i256::from_i128(value));
                self.counts[group] += 1;
            }
        });
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let counts = emit_to.take_needed(&mut self.counts);
        let averages = sums
            .into_iter()
            .zip(counts)
            .map(|(sum, count)| (count > 0).then(|| average_of_decimals(sum, count, self.scale)));
        Ok(Arc::new(averages.collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = Decimal256Array::from(emit_to.take_needed(&mut self.sums)).with_data_type(sum_type(self.scale));
        let counts = UInt64Array::from(emit_to.take_needed(&mut self.counts));
        Ok(vec![Arc::new(counts), Arc::new(sums)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.resize(total);
        let counts = states[0].as_primitive::<UInt64Type>();
        let sums = states[1].as_primitive::<Decimal256Type>();
        for (row, (count, sum)) in counts.iter().zip(sums).enumerate() {
            let group = *groups.get(row).ok_or_else(|| exec_datafusion_err!("a state without a group"))?;
            self.counts[group] += count.unwrap_or(0);
            self.sums[group] = self.sums[group].wrapping_add(sum.unwrap_or(i256::ZERO));
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut rows = Self { sums: Vec::new(), counts: Vec::new(), scale: self.scale };
        let each: Vec<usize> = (0..values[0].len()).collect();
        rows.update_batch(values, &each, filter, each.len())?;
        rows.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i256>() + self.counts.capacity() * size_of::<u64>()
    }
}
