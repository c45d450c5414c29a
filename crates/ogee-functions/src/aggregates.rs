//! Aggregate functions that users of other engines expect and DataFusion does not bring: `arg_min`, `arg_max`, `mode`, `histogram`,
//! `quantile_disc`, and `quantile_cont` as a name of `percentile_cont`.
//!
//! They are ordinary DataFusion functions: the engine collects their arguments and hands them over by group.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt64Array},
        buffer::{NullBuffer, OffsetBuffer},
        compute::{SortOptions, and, concat, filter, is_not_null, sort_to_indices},
        datatypes::{DataType, Field, FieldRef, Fields, Float64Type, UInt64Type},
    },
    common::{
        Result, ScalarValue, exec_err, internal_err, plan_err,
        utils::{SingleRowListArrayBuilder, get_row_at_idx},
    },
    functions_aggregate::percentile_cont::percentile_cont_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};
use ogee_exec::aggregate::DiscreteFraction;

/// The functions to register in a session.
pub fn functions() -> Vec<AggregateUDF> {
    let arg = |name, aliases: &[&str], most| {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        AggregateUDF::new_from_impl(ArgExtremum { name, aliases, most, signature: two() })
    };
    let counting = |result| {
        AggregateUDF::new_from_impl(Counting { result, signature: Signature::user_defined(Volatility::Immutable) })
    };
    vec![
        arg("arg_min", &["argmin", "min_by"], false),
        arg("arg_max", &["argmax", "max_by"], true),
        counting(OfCounts::Histogram),
        counting(OfCounts::Mode),
        AggregateUDF::new_from_impl(QuantileDisc { signature: Signature::user_defined(Volatility::Immutable) }),
        percentile_cont_udaf().as_ref().clone().with_aliases(["quantile_cont"]),
    ]
}

fn two() -> Signature {
    Signature::any(2, Volatility::Immutable)
}

pub(crate) fn state_list(name: &str, data_type: &DataType) -> FieldRef {
    let item = Arc::new(Field::new_list_field(data_type.clone(), true));
    Arc::new(Field::new(name, DataType::List(item), true))
}

/// Elements of the lists in column `states`, one after the other.
pub(crate) fn elements(states: &ArrayRef) -> Vec<ArrayRef> {
    states.as_list::<i32>().iter().flatten().collect()
}

/// The first argument where the second is least, or greatest. Rows with a NULL in either do not count.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ArgExtremum {
    name: &'static str,
    aliases: Vec<String>,
    most: bool,
    signature: Signature,
}

impl AggregateUDFImpl for ArgExtremum {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, of: &FieldRef| Arc::new(Field::new(name, of.data_type().clone(), true));
        Ok(vec![field("value", &args.input_fields[0]), field("by", &args.input_fields[1])])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let by = args.exprs[1].data_type(args.schema)?;
        let (value, by) = (ScalarValue::try_from(args.return_field.data_type())?, ScalarValue::try_from(&by)?);
        Ok(Box::new(ArgExtremumState { value, by, most: self.most }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct ArgExtremumState {
    value: ScalarValue,
    by: ScalarValue,
    most: bool,
}

impl Accumulator for ArgExtremumState {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let valid = and(&is_not_null(&values[0])?, &is_not_null(&values[1])?)?;
        if valid.true_count() == 0 {
            return Ok(());
        }
        let (value, by) = (filter(&values[0], &valid)?, filter(&values[1], &valid)?);
        let best = sort_to_indices(&by, Some(SortOptions { descending: self.most, nulls_first: false }), Some(1))?;
        let row = best.value(0) as usize;
        let by = ScalarValue::try_from_array(&by, row)?;
        let wanted = if self.most { Ordering::Greater } else { Ordering::Less };
        if self.by.is_null() || by.partial_cmp(&self.by) == Some(wanted) {
            self.value = ScalarValue::try_from_array(&value, row)?;
            self.by = by;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() + self.by.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), self.by.clone()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// What is made of the counts of a group's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OfCounts {
    /// The most frequent value; of several, the least.
    Mode,
    /// How often each value occurs, as a map ordered by the values.
    Histogram,
}

/// A function of how often each value occurs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Counting {
    result: OfCounts,
    signature: Signature,
}

impl AggregateUDFImpl for Counting {
    fn name(&self) -> &str {
        match self.result {
            OfCounts::Mode => "mode",
            OfCounts::Histogram => "histogram",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match (arg_types, self.result) {
            // Keys of maps are never NULL, and have a type.
            ([DataType::Null], OfCounts::Histogram) => Ok(vec![DataType::Int64]),
            ([value], _) => Ok(vec![value.clone()]),
            _ => plan_err!("{} takes one argument, not {}", self.name(), arg_types.len()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.result {
            OfCounts::Mode => arg_types[0].clone(),
            OfCounts::Histogram => {
                let entries = DataType::Struct(entry_fields(&arg_types[0]));
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![state_list("values", args.input_fields[0].data_type()), state_list("counts", &DataType::UInt64)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.exprs[0].data_type(args.schema)?;
        Ok(Box::new(ValueCounts { data_type, counts: HashMap::new(), bytes: 0, result: self.result }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn entry_fields(value: &DataType) -> Fields {
    Fields::from(vec![Field::new("key", value.clone(), false), Field::new("value", DataType::UInt64, true)])
}

/// Counts of the values of a group, and what is made of them.
#[derive(Debug)]
struct ValueCounts {
    data_type: DataType,
    counts: HashMap<ScalarValue, u64>,
    /// Of the values, beyond the table itself.
    bytes: usize,
    result: OfCounts,
}

fn most_frequent(of: &ValueCounts) -> Result<ScalarValue> {
    let order = |a: &(&ScalarValue, &u64), b: &(&ScalarValue, &u64)| {
        a.1.cmp(b.1).then_with(|| b.0.partial_cmp(a.0).unwrap_or(Ordering::Equal))
    };
    match of.counts.iter().max_by(order) {
        Some((value, _)) => Ok(value.clone()),
        None => ScalarValue::try_from(&of.data_type),
    }
}

fn map_of_counts(of: &ValueCounts) -> Result<ScalarValue> {
    let mut entries: Vec<_> = of.counts.iter().collect();
    entries.sort_by(|a, b| a.0.partial_cmp(b.0).unwrap_or(Ordering::Equal));
    let counts = UInt64Array::from_iter_values(entries.iter().map(|(_, count)| **count));
    let values = match entries.is_empty() {
        true => datafusion::arrow::array::new_empty_array(&of.data_type),
        false => ScalarValue::iter_to_array(entries.iter().map(|(value, _)| (*value).clone()))?,
    };
    let fields = entry_fields(&of.data_type);
    // As DuckDB: no values, no map.
    let nulls = values.is_empty().then(|| NullBuffer::new_null(1));
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    let entries = StructArray::new(fields.clone(), vec![values, Arc::new(counts)], None);
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    Ok(ScalarValue::Map(Arc::new(MapArray::new(field, offsets, entries, nulls, false))))
}

impl ValueCounts {
    fn add(&mut self, value: ScalarValue, count: u64) {
        let Self { counts, bytes, .. } = self;
        *counts.entry(value).or_insert_with_key(|value| {
            *bytes += value.size();
            0
        }) += count;
    }
}

impl Accumulator for ValueCounts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in (0..values[0].len()).filter(|&row| values[0].is_valid(row)) {
            // Compacted: a value must not keep all of its batch alive.
            let mut value = ScalarValue::try_from_array(&values[0], row)?;
            value.compact();
            self.add(value, 1);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.result {
            OfCounts::Mode => most_frequent(self),
            OfCounts::Histogram => map_of_counts(self),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * (size_of::<(ScalarValue, u64)>() + 1) + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, counts): (Vec<ScalarValue>, Vec<u64>) = self.counts.drain().unzip();
        let values = match values.is_empty() {
            true => datafusion::arrow::array::new_empty_array(&self.data_type),
            false => ScalarValue::iter_to_array(values)?,
        };
        let list = |array| SingleRowListArrayBuilder::new(array).build_list_scalar();
        Ok(vec![list(values), list(Arc::new(UInt64Array::from(counts)))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (values, counts) in elements(&states[0]).into_iter().zip(elements(&states[1])) {
            let counts = counts.as_primitive::<UInt64Type>();
            for row in 0..values.len() {
                self.add(ScalarValue::try_from_array(&values, row)?, counts.value(row));
            }
        }
        Ok(())
    }
}

/// `quantile_disc(value, fraction)`: the first value in order that at least this fraction of the values does not exceed.
#[derive(Debug, PartialEq, Eq, Hash)]
struct QuantileDisc {
    signature: Signature,
}

impl AggregateUDFImpl for QuantileDisc {
    fn name(&self) -> &str {
        "quantile_disc"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [value, fraction] if fraction.is_numeric() => Ok(vec![value.clone(), DataType::Float64]),
            _ => plan_err!("quantile_disc takes a value and a fraction between 0 and 1"),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![
            state_list("values", args.input_fields[0].data_type()),
            Arc::new(Field::new("fraction", DataType::Float64, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type().clone();
        let descending = args.order_bys.first().is_some_and(|by| by.options.descending);
        Ok(Box::new(QuantileDiscState { data_type, values: Vec::new(), fraction: None, descending }))
    }

    /// Whether it descends is told only to a function that an order matters to; it sorts by itself.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

#[derive(Debug)]
struct QuantileDiscState {
    data_type: DataType,
    values: Vec<ArrayRef>,
    fraction: Option<f64>,
    descending: bool,
}

impl QuantileDiscState {
    fn set_fraction(&mut self, fractions: &ArrayRef) -> Result<()> {
        let fractions = fractions.as_primitive::<Float64Type>();
        for fraction in fractions.iter().flatten() {
            if !(0.0..=1.0).contains(&fraction) {
                return exec_err!("quantile_disc takes a fraction between 0 and 1, not {fraction}");
            }
            if *self.fraction.get_or_insert(fraction) != fraction {
                return exec_err!("quantile_disc takes the same fraction for all rows of a group");
            }
        }
        Ok(())
    }
}

impl Accumulator for QuantileDiscState {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.set_fraction(&values[1])?;
        let valid = filter(&values[0], &is_not_null(&values[0])?)?;
        if !valid.is_empty() {
            self.values.push(valid);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (Some(share), false) = (self.fraction, self.values.is_empty()) else {
            return ScalarValue::try_from(&self.data_type);
        };
        let all = concat(&self.values.iter().map(|array| array.as_ref()).collect::<Vec<_>>())?;
        let rank = DiscreteFraction { share, descending: self.descending }.rank(all.len() as u64) as usize;
        let options = SortOptions { descending: false, nulls_first: false };
        let sorted = sort_to_indices(&all, Some(options), Some(rank + 1))?;
        match get_row_at_idx(&[all], sorted.value(rank) as usize)?.pop() {
            Some(value) => Ok(value),
            None => internal_err!("a row has a value"),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.iter().map(|array| array.get_array_memory_size()).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let all = match self.values.is_empty() {
            true => datafusion::arrow::array::new_empty_array(&self.data_type),
            false => concat(&self.values.iter().map(|array| array.as_ref()).collect::<Vec<_>>())?,
        };
        Ok(vec![SingleRowListArrayBuilder::new(all).build_list_scalar(), ScalarValue::Float64(self.fraction)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.set_fraction(&states[1])?;
        self.values.extend(elements(&states[0]).into_iter().filter(|values| !values.is_empty()));
        Ok(())
    }
}
