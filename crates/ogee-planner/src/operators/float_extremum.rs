//! `min` and `max` of floats over collected values, in the engine's order: NaN is greatest, whatever its sign.
//!
//! DataFusion's accumulator compares with the processor's `<`, for which NaN is neither less nor greater.
//!
//! Not here: `min` and `max` beside aggregates that need no collected values, which the engine keeps in rows.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray},
        compute::{not, nullif, prep_null_mask_filter},
        datatypes::{DataType, Float32Type, Float64Type},
    },
    error::Result,
    logical_expr::{EmitTo, GroupsAccumulator},
};
use ogee_vector::is_less;

/// The accumulator of `min` or `max`, by name, over values of `data_type`; `None` if that is no other than DataFusion's.
pub(super) fn accumulator(name: &str, data_type: &DataType) -> Option<Box<dyn GroupsAccumulator>> {
    let most = match name {
        "max" => true,
        "min" => false,
        _ => return None,
    };
    match data_type {
        DataType::Float32 => Some(Box::new(FloatExtremum::<Float32Type> { most, best: Vec::new() })),
        DataType::Float64 => Some(Box::new(FloatExtremum::<Float64Type> { most, best: Vec::new() })),
        _ => None,
    }
}

struct FloatExtremum<T: ArrowPrimitiveType> {
    most: bool,
    /// By group.
    best: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType> GroupsAccumulator for FloatExtremum<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.best.resize(total_groups, None);
        let values = values[0].as_primitive::<T>();
        for (row, &group) in groups.iter().enumerate() {
            let passes = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if !passes || values.is_null(row) {
                continue;
            }
            let (value, best) = (values.value(row), &mut self.best[group]);
            if best.is_none_or(|best| if self.most { is_less(best, value) } else { is_less(value, best) }) {
                *best = Some(value);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(states, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(PrimitiveArray::<T>::from_iter(emit_to.take_needed(&mut self.best))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(filter) = filter else { return Ok(vec![Arc::clone(&values[0])]) };
        let hidden = not(&prep_null_mask_filter(filter))?;
        Ok(vec![nullif(&values[0], &hidden)?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.best.capacity() * size_of::<Option<T::Native>>()
    }
}
