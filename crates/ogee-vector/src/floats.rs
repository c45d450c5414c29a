//! One total order of floats: every NaN is equal to every other and greater than all numbers, and `-0.0` equals `0.0`.
//!
//! Arrow compares bits: `inf - inf`, which is a negative NaN, would be less than all numbers, and `-0.0` less than `0.0`. Keys of tables, sorts and joins bring floats into one form
//! of their own; what compares values of arrays asks here.
//!
//! Not here: the bytes of keys (`ogee-row`).

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, PrimitiveArray,
    cast::AsArray,
    make_array,
    types::{Float16Type, Float32Type, Float64Type},
};
use arrow_schema::DataType;

/// Whether `a` is NaN.
#[inline(always)]
pub fn is_nan<N: ArrowNativeTypeOp>(a: N) -> bool {
    a.partial_cmp(&a).is_none()
}

/// Whether `a` is less than `b` in the order of the module. What has no NaN is compared as it is.
#[inline(always)]
pub fn is_less<N: ArrowNativeTypeOp>(a: N, b: N) -> bool {
    a < b || is_nan(b) && !is_nan(a)
}

/// Whether `a` equals `b` in the order of the module.
#[inline(always)]
pub fn is_same<N: ArrowNativeTypeOp>(a: N, b: N) -> bool {
    a == b || is_nan(a) && is_nan(b)
}

/// Whether values of `data_type` are floats, or have floats within them.
pub fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_floats(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Dictionary(_, values) => has_floats(values),
        _ => false,
    }
}

/// `array` with one NaN, and `0.0` for `-0.0`, also within lists, structs and maps: values that are equal in the order of the module have equal bits, and Arrow orders
/// them so.
pub fn canonical_floats(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float16 => {
            // `half` has no sum that is known to clear the sign of zero.
            canonical::<Float16Type>(array, |value| match value.to_f32() {
                nan if nan.is_nan() => half(f32::NAN),
                0.0 => half(0.0),
                _ => value,
            })
        }
        DataType::Float32 => {
            canonical::<Float32Type>(array, |value| if value.is_nan() { f32::NAN } else { value + 0.0 })
        }
        DataType::Float64 => {
            canonical::<Float64Type>(array, |value| if value.is_nan() { f64::NAN } else { value + 0.0 })
        }
        nested if has_floats(nested) => {
            let data = array.to_data();
            let children = data.child_data().iter().map(|child| canonical_floats(&make_array(child.clone())).to_data());
            let children = children.collect();
            let data = data.into_builder().child_data(children);
            make_array(data.build().expect("the same lengths and types as before"))
        }
        _ => ArrayRef::clone(array),
    }
}

fn half(value: f32) -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::from_f32(value)
}

fn canonical<T: ArrowPrimitiveType>(array: &ArrayRef, of: impl Fn(T::Native) -> T::Native) -> ArrayRef {
    let canonical: PrimitiveArray<T> = array.as_primitive::<T>().unary(of);
    Arc::new(canonical)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, Float64Array, ListArray, StructArray};
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn one_total_order() {
        let ascending = [f64::NEG_INFINITY, -1.0, 0.0, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN];
        for (i, &a) in ascending.iter().enumerate() {
            for (j, &b) in ascending.iter().enumerate() {
                assert_eq!(is_less(a, b), i < j, "{a} {b}");
                assert_eq!(is_same(a, b), i == j, "{a} {b}");
            }
        }
        assert!(is_same(-0.0, 0.0) && !is_less(-0.0, 0.0) && !is_less(0.0, -0.0));
        assert!(is_same(-f64::NAN, f64::NAN) && !is_less(-f64::NAN, f64::NAN) && is_less(f64::INFINITY, -f64::NAN));
        assert!(is_less(1i32, 2) && is_same(2u64, 2));
    }

    #[test]
    fn equal_values_get_equal_bits() {
        let bits = |array: &dyn Array| {
            let values = array.as_primitive::<Float64Type>();
            values.iter().map(|value| value.map(f64::to_bits)).collect::<Vec<_>>()
        };
        let values = vec![Some(-f64::NAN), Some(-0.0), None, Some(-1.5), Some(f64::NAN)];
        let expected =
            [Some(f64::NAN), Some(0.0), None, Some(-1.5), Some(f64::NAN)].map(|value| value.map(f64::to_bits));
        let flat: ArrayRef = Arc::new(Float64Array::from(values));
        assert_eq!(bits(&canonical_floats(&flat)), expected);
        let list: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([Some(vec![Some(-0.0)]), None]));
        assert_eq!(bits(&canonical_floats(&list).as_list::<i32>().value(0)), [Some(0.0f64.to_bits())]);
        let short: ArrayRef = Arc::new(Float32Array::from(vec![-0.0f32]));
        let field = Arc::new(Field::new("a", DataType::Float32, true));
        let both: ArrayRef = Arc::new(StructArray::from(vec![(field, short)]));
        let canonical = canonical_floats(&both);
        let column = canonical.as_struct().column(0).as_primitive::<Float32Type>().value(0);
        assert_eq!(column.to_bits(), 0.0f32.to_bits());
    }
}
