//! Slices of lists whose steps go back, `l[5:2:-1]`, or are longer than any list.
//!
//! Bounds beyond the list are its ends: one that goes back begins with the last element, and ends with the first.
//!
//! Not here: slices of other steps, which are DataFusion's.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, AsArray, ListArray, PrimitiveArray, UInt32Array},
        buffer::{NullBuffer, OffsetBuffer},
        compute::{cast, take},
        datatypes::{DataType, Int64Type},
    },
    common::{Result, exec_err, plan_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs},
};

/// The steps of slices if some of them go back, or further than 32 bits: DataFusion takes the bounds of the former for those of the others, and has none of the latter.
pub(crate) fn unusual(step: &ColumnarValue) -> Result<Option<PrimitiveArray<Int64Type>>> {
    let steps = cast(&step.to_array(1)?, &DataType::Int64)?;
    let steps = steps.as_primitive::<Int64Type>().clone();
    let is_unusual = |step: i64| step < 0 || i32::try_from(step).is_err();
    Ok(steps.iter().flatten().any(is_unusual).then_some(steps))
}

/// The slices of lists with these `steps`, of which there is one for all or one for each.
///
/// # Errors
/// A step is 0.
pub(crate) fn stepped(args: &ScalarFunctionArgs, steps: &PrimitiveArray<Int64Type>) -> Result<ColumnarValue> {
    let rows = args.number_rows;
    let arrays = args.args[..3].iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let lists = cast(&arrays[0], args.return_field.data_type())?;
    let Some(lists) = lists.as_list_opt::<i32>() else {
        return plan_err!("a slice is of a list of less than 2^31 elements");
    };
    let bounds = [1, 2].map(|at: usize| cast(&arrays[at], &DataType::Int64));
    let [begins, ends] = bounds;
    let (begins, ends) = (begins?, ends?);
    let (begins, ends) = (begins.as_primitive::<Int64Type>(), ends.as_primitive::<Int64Type>());
    let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::with_capacity(rows), Vec::with_capacity(rows));
    for row in 0..rows {
        let at = if steps.len() == 1 { 0 } else { row };
        let is_known = lists.is_valid(row) && begins.is_valid(row) && ends.is_valid(row) && steps.is_valid(at);
        valid.push(is_known);
        let before = places.len();
        if is_known {
            let (offset, length) = (lists.value_offsets()[row], i64::from(lists.value_length(row)));
            let from_end = |bound: i64| if bound < 0 { length.saturating_add(bound).saturating_add(1) } else { bound };
            let (begin, end, step) = (from_end(begins.value(row)), from_end(ends.value(row)), steps.value(at));
            let mut place = if step < 0 { begin.min(length) } else { begin.max(1) };
            let last = if step < 0 { end.max(1) } else { end.min(length) };
            if step == 0 {
                return exec_err!("the step of a slice is not 0");
            }
            while if step < 0 { place >= last } else { place <= last } {
                // Within the list, whose places 32 bits have room for.
                places.push(offset as u32 + (place - 1) as u32);
                let Some(next) = place.checked_add(step) else { break };
                place = next;
            }
        }
        lengths.push(places.len() - before);
    }
    let values = take(lists.values(), &UInt32Array::from(places), None)?;
    let DataType::List(field) = lists.data_type() else { return plan_err!("a slice is of a list") };
    let sliced = ListArray::try_new(
        Arc::clone(field),
        OffsetBuffer::from_lengths(lengths),
        values,
        Some(NullBuffer::from(valid)),
    )?;
    Ok(ColumnarValue::Array(Arc::new(sliced)))
}
