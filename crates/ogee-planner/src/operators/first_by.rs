//! The first or last value of each group in an order by lists, structs or maps, over collected values.
//!
//! DataFusion compares keys of different batches as `ScalarValue`s: a NULL within one is then least, whatever the order says, and lists of lists cannot be compared at all. Here keys are bytes
//! of the order that is asked for.
//!
//! Not here: orders by other types, which DataFusion's accumulators have right.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, new_empty_array},
        compute::SortOptions,
        datatypes::DataType,
        row::{RowConverter, Rows, SortField},
    },
    common::internal_err,
    error::Result,
    logical_expr::{EmitTo, GroupsAccumulator},
    physical_expr::aggregate::AggregateFunctionExpr,
    scalar::ScalarValue,
};
use ogee_vector::canonical_floats;

/// The accumulator of `first_value` or `last_value` by `keys`, what `expr` is ordered by; `None` if DataFusion's is right.
pub(super) fn accumulator(
    expr: &AggregateFunctionExpr,
    keys: &[(DataType, SortOptions)],
) -> Result<Option<Box<dyn GroupsAccumulator>>> {
    let last = match expr.fun().name() {
        "first_value" => false,
        "last_value" => true,
        _ => return Ok(None),
    };
    if !keys.iter().any(|(of, _)| of.is_nested()) {
        return Ok(None);
    }
    let fields = keys.iter().map(|(of, options)| SortField::new_with_options(of.clone(), *options)).collect();
    Ok(Some(Box::new(FirstBy {
        order: RowConverter::new(fields)?,
        last,
        ignores_nulls: expr.ignore_nulls(),
        data_type: expr.field().data_type().clone(),
        best: Vec::new(),
        bytes: 0,
    })))
}

struct FirstBy {
    order: RowConverter,
    last: bool,
    ignores_nulls: bool,
    data_type: DataType,
    /// Of each group: the least key, or the greatest, and the value that came with it.
    best: Vec<Option<(Box<[u8]>, ScalarValue)>>,
    /// What `best` refers to.
    bytes: usize,
}

impl FirstBy {
    /// The value, and what it is ordered by, as bytes.
    fn ordered<'a>(&self, values: &'a [ArrayRef]) -> Result<(&'a ArrayRef, Rows)> {
        let Some((value, keys)) = values.split_first() else {
            return internal_err!("a value and what it is ordered by");
        };
        let keys: Vec<ArrayRef> = keys.iter().map(canonical_floats).collect();
        Ok((value, self.order.convert_columns(&keys)?))
    }

    /// Whether the function takes row `row` into account.
    fn counts(&self, value: &ArrayRef, row: usize, filter: Option<&BooleanArray>) -> bool {
        let passes = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        passes && !(self.ignores_nulls && value.is_null(row))
    }

    /// Takes `value` for `group` if its key comes before what is there.
    fn offer(&mut self, group: usize, key: &[u8], value: impl FnOnce() -> Result<ScalarValue>) -> Result<()> {
        let best = &mut self.best[group];
        let is_better = match best {
            Some((known, _)) => {
                if self.last {
                    key > &**known
                } else {
                    key < &**known
                }
            }
            None => true,
        };
        if is_better {
            let value = value()?;
            let held = |(key, value): &(Box<[u8]>, ScalarValue)| key.len() + value.size();
            self.bytes -= best.as_ref().map_or(0, held);
            let best = best.insert((key.into(), value));
            self.bytes += held(best);
        }
        Ok(())
    }
}

impl GroupsAccumulator for FirstBy {
    /// `values`: the value, then what it is ordered by.
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.best.resize(total_groups, None);
        let (value, keys) = self.ordered(values)?;
        for (row, &group) in groups.iter().enumerate() {
            if self.counts(value, row, filter) {
                self.offer(group, keys.row(row).data(), || ScalarValue::try_from_array(value, row))?;
            }
        }
        Ok(())
    }

    /// `states`: values, and their keys as bytes.
    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.best.resize(total_groups, None);
        let keys = states[1].as_binary::<i32>();
        for (row, &group) in groups.iter().enumerate() {
            if keys.is_valid(row) {
                self.offer(group, keys.value(row), || ScalarValue::try_from_array(&states[0], row))?;
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let (value, keys) = self.ordered(values)?;
        let keys = (0..value.len()).map(|row| self.counts(value, row, filter).then(|| keys.row(row)));
        let keys: BinaryArray = keys.map(|key| key.map(|key| key.data().to_vec())).collect();
        Ok(vec![Arc::clone(value), Arc::new(keys)])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.state(emit_to)?.swap_remove(0))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let best = emit_to.take_needed(&mut self.best);
        let held = best.iter().flatten().map(|(key, value)| key.len() + value.size());
        self.bytes -= held.sum::<usize>();
        let none = ScalarValue::try_new_null(&self.data_type)?;
        let keys = best.iter().map(|best| best.as_ref().map(|(key, _)| &**key)).collect::<BinaryArray>();
        let values: Vec<_> =
            best.into_iter().map(|best| best.map_or_else(|| none.clone(), |(_, value)| value)).collect();
        let values = match values.is_empty() {
            true => new_empty_array(&self.data_type),
            false => ScalarValue::iter_to_array(values)?,
        };
        Ok(vec![values, Arc::new(keys)])
    }

    fn size(&self) -> usize {
        self.bytes + self.best.capacity() * size_of::<Option<(Box<[u8]>, ScalarValue)>>() + self.order.size()
    }
}
