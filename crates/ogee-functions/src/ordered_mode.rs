//! `mode(x ORDER BY y)`: of the most frequent values the one that is met first in the order.
//!
//! No order of the rows is asked for: each value keeps the least of the keys that it was met with, as bytes of the same order.
//!
//! Not here: the mode without an order, of which the engine keeps the least (`aggregates`).

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BinaryArray, UInt64Array, new_empty_array},
        datatypes::{DataType, Field, FieldRef, UInt64Type},
        row::{RowConverter, SortField},
    },
    common::{Result, ScalarValue, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};
use ogee_vector::canonical_floats;

/// What `mode` becomes where it has an order (`syntax`).
pub const ORDERED_MODE: &str = "ogee_ordered_mode";

/// The function.
pub fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(OrderedMode { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedMode {
    signature: Signature,
}

impl AggregateUDFImpl for OrderedMode {
    fn name(&self) -> &str {
        ORDERED_MODE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    /// The values, how often each was met, and the least key.
    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list = |name: &str, of: &DataType| {
            let item = Arc::new(Field::new_list_field(of.clone(), true));
            Arc::new(Field::new(name, DataType::List(item), true))
        };
        let values = list("values", args.input_fields[0].data_type());
        Ok(vec![values, list("counts", &DataType::UInt64), list("keys", &DataType::Binary)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.exprs[0].data_type(args.schema)?;
        let by = args
            .order_bys
            .iter()
            .map(|by| Ok(SortField::new_with_options(by.expr.data_type(args.schema)?, by.options)));
        let order = RowConverter::new(by.collect::<Result<_>>()?)?;
        Ok(Box::new(Met { data_type, order, values: HashMap::new(), bytes: 0 }))
    }

    /// Its own keys are handed over only to a function that an order matters to.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

/// The values of a group, how often each was met, and its least key.
#[derive(Debug)]
struct Met {
    data_type: DataType,
    order: RowConverter,
    values: HashMap<ScalarValue, (u64, Box<[u8]>)>,
    /// Of values and keys, beyond the table itself.
    bytes: usize,
}

impl Met {
    fn add(&mut self, values: &ArrayRef, row: usize, count: u64, key: &[u8]) -> Result<()> {
        // Compacted: a value must not keep all of its batch alive.
        let mut value = ScalarValue::try_from_array(values, row)?;
        value.compact();
        let bytes = value.size() + key.len();
        let (counted, least) = self.values.entry(value).or_insert_with(|| {
            self.bytes += bytes;
            (0, key.into())
        });
        *counted += count;
        if *key < **least {
            *least = key.into();
        }
        Ok(())
    }
}

impl Accumulator for Met {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let values = canonical_floats(&columns[0]);
        let keys = self.order.convert_columns(&columns[1..])?;
        let mut valid = (0..values.len()).filter(|&row| values.is_valid(row));
        valid.try_for_each(|row| self.add(&values, row, 1, keys.row(row).as_ref()))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let first = self.values.iter().max_by_key(|(_, (count, key))| (*count, Reverse(key)));
        first.map_or_else(|| ScalarValue::try_from(&self.data_type), |(value, _)| Ok(value.clone()))
    }

    fn size(&self) -> usize {
        let entry = size_of::<(ScalarValue, (u64, Box<[u8]>))>() + 1;
        size_of_val(self) + self.values.capacity() * entry + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let counts = UInt64Array::from_iter_values(self.values.values().map(|(count, _)| *count));
        let keys = BinaryArray::from_iter_values(self.values.values().map(|(_, key)| key));
        let values = match self.values.is_empty() {
            true => new_empty_array(&self.data_type),
            false => ScalarValue::iter_to_array(self.values.keys().cloned())?,
        };
        let list = |array| SingleRowListArrayBuilder::new(array).build_list_scalar();
        Ok(vec![list(values), list(Arc::new(counts)), list(Arc::new(keys))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts, keys] = [0, 1, 2].map(|state| states[state].as_list::<i32>());
        for group in 0..values.len() {
            if values.is_null(group) {
                continue;
            }
            let (values, counts, keys) = (values.value(group), counts.value(group), keys.value(group));
            let (counts, keys) = (counts.as_primitive::<UInt64Type>(), keys.as_binary::<i32>());
            (0..values.len()).try_for_each(|row| self.add(&values, row, counts.value(row), keys.value(row)))?;
        }
        Ok(())
    }
}
