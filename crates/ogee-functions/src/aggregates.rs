//! Aggregate functions that users of other engines expect and DataFusion does not bring: `arg_min`, `arg_max`, `mode`, `histogram`.
//!
//! They are ordinary DataFusion functions: the engine collects their arguments and hands them over by group.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt64Array},
        buffer::{NullBuffer, OffsetBuffer},
        compute::{SortOptions, and, filter, is_not_null, sort_to_indices},
        datatypes::{DataType, Field, FieldRef, Fields, UInt64Type},
    },
    common::{Result, ScalarValue, plan_err, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};
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

pub(crate) fn entry_fields(value: &DataType) -> Fields {
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
