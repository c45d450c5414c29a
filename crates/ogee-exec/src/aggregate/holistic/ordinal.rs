//! Values as unsigned integers of the same order.

use std::{hash::Hash, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray,
    cast::AsArray,
    types::{
        Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    },
};
use arrow_schema::DataType;
use ogee_vector::PhysicalType;

use crate::ExecError;

/// The physical types whose values have an order of their own and 64 bits at most.
pub(super) fn is_ranked_short(data_type: &DataType) -> bool {
    use PhysicalType as P;
    let ordered = !matches!(data_type, DataType::Interval(_));
    let physical = PhysicalType::of(data_type);
    let short =
        matches!(physical, Ok(P::I8 | P::I16 | P::I32 | P::I64 | P::U8 | P::U16 | P::U32 | P::U64 | P::F32 | P::F64));
    ordered && short
}

/// The same for 128 bits.
pub(super) fn is_ranked_long(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..))
}

/// An unsigned integer that stands for a value and orders like it.
pub trait Ordinal: Copy + Default + Ord + Hash + Send + Sync + 'static {
    /// Its width.
    const BITS: u32;

    /// The ordinals of all rows of `values`; anything where a row is NULL.
    fn of(values: &dyn Array) -> Vec<Self>;

    /// Values of `data_type` for `ordinals`.
    fn values(ordinals: &[Option<Self>], data_type: &DataType) -> Result<ArrayRef, ExecError>;

    /// A value as floating point.
    fn to_f64(self, data_type: &DataType) -> f64;

    /// The nearest value.
    fn from_f64(value: f64, data_type: &DataType) -> Self;

    /// Half-way between two decimals or integers, towards zero.
    fn midpoint(self, other: Self) -> Self;

    /// The bits above the lowest `shift`.
    fn above(self, shift: u32) -> Self;

    /// 16 bits, above the lowest `shift`.
    fn digit(self, shift: u32) -> usize;

    /// `self` followed by 16 bits.
    fn with_digit(self, digit: usize) -> Self;

    /// Well mixed bits.
    fn mixed(self) -> u64;
}

/// Integers of up to 64 bits and floating point, by type.
pub(super) trait WithType: ArrowPrimitiveType {
    fn to_ordinal(value: Self::Native) -> u64;
    fn from_ordinal(ordinal: u64) -> Self::Native;
}

const SIGN: u64 = 1 << 63;

macro_rules! signed {
    ($($arrow:ty),*) => {$(
        impl WithType for $arrow {
            fn to_ordinal(value: Self::Native) -> u64 {
                i64::from(value) as u64 ^ SIGN
            }
            fn from_ordinal(ordinal: u64) -> Self::Native {
                (ordinal ^ SIGN) as Self::Native
            }
        }
    )*};
}

macro_rules! unsigned {
    ($($arrow:ty),*) => {$(
        impl WithType for $arrow {
            fn to_ordinal(value: Self::Native) -> u64 {
                u64::from(value)
            }
            fn from_ordinal(ordinal: u64) -> Self::Native {
                ordinal as Self::Native
            }
        }
    )*};
}

signed!(Int8Type, Int16Type, Int32Type, Int64Type);
unsigned!(UInt8Type, UInt16Type, UInt32Type, UInt64Type);

impl WithType for Float64Type {
    fn to_ordinal(value: f64) -> u64 {
        // One NaN and one zero.
        let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
        // Negative numbers order the other way round.
        if bits & SIGN == 0 { bits | SIGN } else { !bits }
    }

    fn from_ordinal(ordinal: u64) -> f64 {
        f64::from_bits(if ordinal & SIGN == 0 { !ordinal } else { ordinal ^ SIGN })
    }
}

impl WithType for Float32Type {
    fn to_ordinal(value: f32) -> u64 {
        let bits = if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() };
        u64::from(if bits >> 31 == 0 { bits | 1 << 31 } else { !bits })
    }

    fn from_ordinal(ordinal: u64) -> f32 {
        let bits = ordinal as u32;
        f32::from_bits(if bits >> 31 == 0 { !bits } else { bits ^ 1 << 31 })
    }
}

/// Calls `$name::<T>` with the type that `$data_type` is stored as.
macro_rules! by_type {
    ($data_type:expr, $name:ident ($($arg:expr),*)) => {
        match PhysicalType::of($data_type) {
            Ok(PhysicalType::I8) => $name::<Int8Type>($($arg),*),
            Ok(PhysicalType::I16) => $name::<Int16Type>($($arg),*),
            Ok(PhysicalType::I32) => $name::<Int32Type>($($arg),*),
            Ok(PhysicalType::I64) => $name::<Int64Type>($($arg),*),
            Ok(PhysicalType::U8) => $name::<UInt8Type>($($arg),*),
            Ok(PhysicalType::U16) => $name::<UInt16Type>($($arg),*),
            Ok(PhysicalType::U32) => $name::<UInt32Type>($($arg),*),
            Ok(PhysicalType::U64) => $name::<UInt64Type>($($arg),*),
            Ok(PhysicalType::F32) => $name::<Float32Type>($($arg),*),
            Ok(PhysicalType::F64) => $name::<Float64Type>($($arg),*),
            _ => unreachable!("asked for types that are ranked only"),
        }
    };
}

/// The values as those of the type they are stored as.
fn stored<T: ArrowPrimitiveType>(values: &dyn Array) -> PrimitiveArray<T> {
    let data = values.to_data();
    let (len, nulls, offset) = (data.len(), data.nulls().cloned(), data.offset());
    let buffer = arrow_buffer::ScalarBuffer::new(data.buffers()[0].clone(), offset, len);
    PrimitiveArray::new(buffer, nulls)
}

fn ordinals_of<T: WithType>(values: &dyn Array) -> Vec<u64> {
    stored::<T>(values).values().iter().map(|&value| T::to_ordinal(value)).collect()
}

fn values_of<T: WithType>(ordinals: &[Option<u64>], data_type: &DataType) -> Result<ArrayRef, ExecError> {
    let stored: PrimitiveArray<T> = ordinals.iter().map(|ordinal| ordinal.map(T::from_ordinal)).collect();
    let data = stored.into_data().into_builder().data_type(data_type.clone()).build()?;
    Ok(arrow_array::make_array(data))
}

impl Ordinal for u64 {
    const BITS: u32 = 64;

    fn of(values: &dyn Array) -> Vec<Self> {
        by_type!(values.data_type(), ordinals_of(values))
    }

    fn values(ordinals: &[Option<Self>], data_type: &DataType) -> Result<ArrayRef, ExecError> {
        by_type!(data_type, values_of(ordinals, data_type))
    }

    fn to_f64(self, data_type: &DataType) -> f64 {
        match data_type {
            DataType::Float32 => f64::from(Float32Type::from_ordinal(self)),
            DataType::Float64 => Float64Type::from_ordinal(self),
            _ => (self ^ SIGN) as i64 as f64,
        }
    }

    fn from_f64(value: f64, data_type: &DataType) -> Self {
        match data_type {
            DataType::Float32 => Float32Type::to_ordinal(value as f32),
            DataType::Float64 => Float64Type::to_ordinal(value),
            _ => value as i64 as u64 ^ SIGN,
        }
    }

    fn midpoint(self, other: Self) -> Self {
        let (a, b) = ((self ^ SIGN) as i64, (other ^ SIGN) as i64);
        ((i128::from(a) + i128::from(b)) / 2) as i64 as u64 ^ SIGN
    }

    fn above(self, shift: u32) -> Self {
        self.checked_shr(shift).unwrap_or(0)
    }

    fn digit(self, shift: u32) -> usize {
        (self >> shift) as usize & 0xffff
    }

    fn with_digit(self, digit: usize) -> Self {
        self << 16 | digit as u64
    }

    fn mixed(self) -> u64 {
        let product = u128::from(self ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        product as u64 ^ (product >> 64) as u64
    }
}

const LONG_SIGN: u128 = 1 << 127;

impl Ordinal for u128 {
    const BITS: u32 = 128;

    fn of(values: &dyn Array) -> Vec<Self> {
        values.as_primitive::<Decimal128Type>().values().iter().map(|&value| value as u128 ^ LONG_SIGN).collect()
    }

    fn values(ordinals: &[Option<Self>], data_type: &DataType) -> Result<ArrayRef, ExecError> {
        let value = |ordinal: &Option<u128>| ordinal.map(|ordinal| (ordinal ^ LONG_SIGN) as i128);
        let values: PrimitiveArray<Decimal128Type> = ordinals.iter().map(value).collect();
        Ok(Arc::new(values.with_data_type(data_type.clone())))
    }

    fn to_f64(self, _data_type: &DataType) -> f64 {
        (self ^ LONG_SIGN) as i128 as f64
    }

    fn from_f64(value: f64, _data_type: &DataType) -> Self {
        value as i128 as u128 ^ LONG_SIGN
    }

    fn midpoint(self, other: Self) -> Self {
        // Decimals have 38 digits, so that the sum of two fits.
        let (a, b) = ((self ^ LONG_SIGN) as i128, (other ^ LONG_SIGN) as i128);
        ((a + b) / 2) as u128 ^ LONG_SIGN
    }

    fn above(self, shift: u32) -> Self {
        self.checked_shr(shift).unwrap_or(0)
    }

    fn digit(self, shift: u32) -> usize {
        (self >> shift) as usize & 0xffff
    }

    fn with_digit(self, digit: usize) -> Self {
        self << 16 | digit as u128
    }

    fn mixed(self) -> u64 {
        (self as u64).mixed() ^ ((self >> 64) as u64).mixed().rotate_left(32)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array};

    use super::*;

    #[test]
    fn ordinals_order_like_values_and_lead_back() {
        let arrays: [ArrayRef; 4] = [
            Arc::new(Float64Array::from(vec![f64::NEG_INFINITY, -2.5, 0.0, 1e-300, 7.0, f64::INFINITY])),
            Arc::new(Float32Array::from(vec![-3.5, -1.0, 0.0, 0.5, 2.0])),
            Arc::new(Int16Array::from(vec![i16::MIN, -1, 0, 1, i16::MAX])),
            Arc::new(Date32Array::from(vec![-5, 0, 20_000])),
        ];
        for array in arrays {
            let ordinals = u64::of(&array);
            assert!(ordinals.is_sorted_by(|a, b| a < b), "{array:?}");
            let back: Vec<Option<u64>> = ordinals.into_iter().map(Some).collect();
            assert_eq!(&u64::values(&back, array.data_type()).unwrap(), &array);
            let sliced = array.slice(1, 2);
            assert_eq!(u64::of(&sliced), back[1..3].iter().flatten().copied().collect::<Vec<_>>());
        }
        let decimals = Decimal128Array::from(vec![-10_i128.pow(37), -1, 0, 5]).with_precision_and_scale(38, 3).unwrap();
        let ordinals = u128::of(&decimals);
        assert!(ordinals.is_sorted_by(|a, b| a < b));
        assert_eq!((ordinals[1].midpoint(ordinals[3]) ^ LONG_SIGN) as i128, 2);
    }
}
