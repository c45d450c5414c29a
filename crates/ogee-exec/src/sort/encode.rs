//! The values of one key column as bytes that order them, and values of such bytes.
//!
//! Narrowed as far as statistics allow: big-endian, the sign bit flipped, all bits inverted where the order is descending. Of such bytes an
//! integer comes back, so that its column need not be kept beside them. Of a string the first bytes are taken.
//!
//! Floats are ordered as numbers: -0.0 equals 0.0, all NaN are equal and greater than any number.
//!
//! Not here: keys of several columns (`key`).

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, Decimal128Array, PrimitiveArray, cast::AsArray, make_array, types,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, DataType};
use ogee_row::RowView;
use ogee_vector::PhysicalType;

use super::key::ENTRY_PREFIX;

/// Bytes of a string in the key: with the byte before it, if there is one, all that an entry holds of a key.
const VIEW_PREFIX: usize = ENTRY_PREFIX - 1;

/// Marks values that are not NULL.
pub(super) const VALID: u8 = 1;

/// How the values of a key column become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Of a physical type with a width of its own.
    Fixed(PhysicalType),
    /// Two halves of 32 bits: days, milliseconds.
    DayTime,
    /// The first bytes of a string; the rest is behind the view of a column of the row.
    Prefix,
}

/// One column of the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyColumn {
    /// Of the byte for NULLs, if it is `nullable`; the value comes after it.
    pub(super) offset: usize,
    pub(super) nullable: bool,
    pub(super) encoding: Encoding,
    pub(super) descending: bool,
    /// What NULL has in place of [`VALID`].
    pub(super) null: u8,
}

impl KeyColumn {
    /// Where its value is.
    fn value(&self) -> usize {
        self.offset + usize::from(self.nullable)
    }

    /// Whether [`values`](Self::values) gives what was written back as it was.
    pub(super) fn is_exact(&self) -> bool {
        use PhysicalType as P;
        // Floats that are equal are not always the same.
        let Encoding::Fixed(physical) = self.encoding else { return false };
        matches!(physical, P::I8 | P::I16 | P::I32 | P::I64 | P::U8 | P::U16 | P::U32 | P::U64 | P::ShortDecimal)
    }

    /// Writes the values of `array`, as many as `rows`, into keys that are `stride` bytes apart, the first at `keys`.
    ///
    /// # Safety
    /// There must be room for so many keys there, zeroed; `array` has so many rows.
    pub(super) unsafe fn write(&self, array: &ArrayRef, rows: usize, keys: *mut u8, stride: usize) {
        // SAFETY: the caller vouches for the room.
        let writer = unsafe { Writer { target: keys.add(self.offset), stride, rows, column: *self } };
        writer.write(array);
    }

    /// The values that `rows` have in their keys, which begin at byte `key`, of type `data_type` when they were written.
    ///
    /// # Safety
    /// They must be rows with such keys, on pinned pages; the column [`is_exact`](Self::is_exact).
    pub(super) unsafe fn values(
        &self,
        key: usize,
        data_type: &DataType,
        rows: &[*const u8],
    ) -> Result<ArrayRef, ArrowError> {
        use PhysicalType as P;
        let Encoding::Fixed(physical) = self.encoding else { unreachable!("an exact key") };
        let marker = key + self.offset;
        // SAFETY: here and below, the caller vouches for the rows; markers and values lie within their keys.
        let valid = |row: &*const u8| !self.nullable || unsafe { *row.add(marker) } == VALID;
        let nulls = (!rows.iter().all(valid))
            .then(|| NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |row| valid(&rows[row]))));
        let at = key + self.value();
        macro_rules! natives {
            ($t:ty, $bits:ty, $sign:expr) => {{
                let change: $bits = if self.descending { !$sign } else { $sign };
                let value = |row: &*const u8| {
                    // SAFETY: as above.
                    let bits = unsafe { row.add(at).cast::<$bits>().read_unaligned() };
                    <$bits>::from_be(bits) ^ change
                };
                primitive::<$t>(data_type, rows.iter().map(|row| value(row) as _).collect(), nulls)
            }};
        }
        match physical {
            P::I8 => natives!(types::Int8Type, u8, 1 << 7),
            P::I16 => natives!(types::Int16Type, u16, 1 << 15),
            P::I32 => natives!(types::Int32Type, u32, 1 << 31),
            P::I64 => natives!(types::Int64Type, u64, 1 << 63),
            P::ShortDecimal => {
                let change = if self.descending { i64::MAX } else { i64::MIN };
                let value = |row: &*const u8| {
                    // SAFETY: as above.
                    let bits = unsafe { row.add(at).cast::<i64>().read_unaligned() };
                    i128::from(i64::from_be(bits) ^ change)
                };
                let values: Vec<i128> = rows.iter().map(value).collect();
                Ok(Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(data_type.clone())))
            }
            P::U8 => natives!(types::UInt8Type, u8, 0),
            P::U16 => natives!(types::UInt16Type, u16, 0),
            P::U32 => natives!(types::UInt32Type, u32, 0),
            _ => natives!(types::UInt64Type, u64, 0),
        }
    }
}

/// An array of `data_type`, which is stored as values of `T`.
pub(super) fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let array = PrimitiveArray::<T>::new(values.into(), nulls);
    if *data_type == T::DATA_TYPE {
        return Ok(Arc::new(array));
    }
    Ok(make_array(array.into_data().into_builder().data_type(data_type.clone()).build()?))
}

/// A value in the bits that order it.
trait KeyBits: Copy {
    type Bytes;
    /// Big-endian; all bits inverted if `descending`.
    fn key_bytes(self, descending: bool) -> Self::Bytes;
}

macro_rules! key_bits {
    ($($t:ty)*) => {$(
        impl KeyBits for $t {
            type Bytes = [u8; size_of::<$t>()];
            #[inline(always)]
            fn key_bytes(self, descending: bool) -> Self::Bytes {
                (if descending { !self } else { self }).to_be_bytes()
            }
        }
    )*};
}
key_bits!(u8 u16 u32 u64 u128);

impl KeyBits for i256 {
    type Bytes = [u8; 32];
    #[inline(always)]
    fn key_bytes(self, descending: bool) -> [u8; 32] {
        let mut bytes = self.to_be_bytes();
        bytes[0] ^= 0x80;
        if descending {
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
        }
        bytes
    }
}

impl<const N: usize> KeyBits for [u8; N] {
    type Bytes = Self;
    #[inline(always)]
    fn key_bytes(mut self, descending: bool) -> Self {
        if descending {
            self.iter_mut().for_each(|byte| *byte = !*byte);
        }
        self
    }
}

/// Bits of a float, as an unsigned number with the order of the numbers: `sign` is the sign bit, `nan` the bits of the one NaN.
macro_rules! float_bits {
    ($bits:expr, $is_nan:expr, $t:ty, $nan:expr) => {{
        let sign: $t = 1 << (<$t>::BITS - 1);
        let bits: $t = if $is_nan {
            $nan
        } else if $bits == sign {
            0
        } else {
            $bits
        };
        if bits & sign == 0 { bits | sign } else { !bits }
    }};
}

/// Bits of a float that order it as [`float_bits`] says.
#[inline(always)]
pub(crate) fn f32_order(value: f32) -> u32 {
    float_bits!(value.to_bits(), value.is_nan(), u32, 0x7fc0_0000)
}

/// The same, of 64 bits.
#[inline(always)]
pub(crate) fn f64_order(value: f64) -> u64 {
    float_bits!(value.to_bits(), value.is_nan(), u64, 0x7ff8_0000_0000_0000)
}

/// Writes one column of the keys.
struct Writer {
    target: *mut u8,
    stride: usize,
    rows: usize,
    column: KeyColumn,
}

impl Writer {
    fn write(&self, array: &ArrayRef) {
        use PhysicalType as P;
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        match self.column.encoding {
            Encoding::Prefix if self.column.nullable => self.prefixes::<VIEW_PREFIX>(array, nulls),
            Encoding::Prefix => self.prefixes::<ENTRY_PREFIX>(array, nulls),
            Encoding::DayTime => {
                let values = array.as_primitive::<types::IntervalDayTimeType>().values();
                let flip = |half: i32| u64::from(half as u32 ^ 1 << 31);
                self.values(nulls, |row| flip(values[row].days) << 32 | flip(values[row].milliseconds));
            }
            Encoding::Fixed(physical) => match physical {
                P::Null => self.markers(&NullBuffer::new_null(self.rows)),
                P::Bool => {
                    let values = array.as_boolean().values();
                    self.values(nulls, |row| u8::from(values.value(row)));
                }
                P::I8 => self.natives::<i8, u8>(array, nulls, |value| value as u8 ^ 1 << 7),
                P::I16 => self.natives::<i16, u16>(array, nulls, |value| value as u16 ^ 1 << 15),
                P::I32 => self.natives::<i32, u32>(array, nulls, |value| value as u32 ^ 1 << 31),
                P::I64 => self.natives::<i64, u64>(array, nulls, |value| value as u64 ^ 1 << 63),
                P::I128 => self.natives::<i128, u128>(array, nulls, |value| value as u128 ^ 1 << 127),
                P::ShortDecimal => self.natives::<i128, u64>(array, nulls, |value| value as i64 as u64 ^ 1 << 63),
                P::U8 => self.natives::<u8, u8>(array, nulls, |value| value),
                P::U16 => self.natives::<u16, u16>(array, nulls, |value| value),
                P::U32 => self.natives::<u32, u32>(array, nulls, |value| value),
                P::U64 => self.natives::<u64, u64>(array, nulls, |value| value),
                P::I256 => {
                    let values = array.as_primitive::<types::Decimal256Type>().values();
                    self.values(nulls, |row| values[row]);
                }
                P::F16 => {
                    let values = array.as_primitive::<types::Float16Type>().values();
                    self.values(nulls, |row| {
                        let bits = values[row].to_bits();
                        float_bits!(bits, values[row].is_nan(), u16, 0x7e00)
                    });
                }
                P::F32 => self.natives::<f32, u32>(array, nulls, f32_order),
                P::F64 => self.natives::<f64, u64>(array, nulls, f64_order),
                P::MonthDayNano => {
                    let values = array.as_primitive::<types::IntervalMonthDayNanoType>().values();
                    let flip = |part: i32| u128::from(part as u32 ^ 1 << 31);
                    self.values(nulls, |row| {
                        let value = values[row];
                        let nanos = u128::from(value.nanoseconds as u64 ^ 1 << 63);
                        flip(value.months) << 96 | flip(value.days) << 64 | nanos
                    });
                }
                P::View | P::Nested => unreachable!("encoded as prefixes"),
            },
        }
    }

    fn natives<T: ArrowNativeType, B: KeyBits>(
        &self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        bits: impl Fn(T) -> B,
    ) {
        let data = array.to_data();
        let values: ScalarBuffer<T> = ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len());
        let values: &[T] = &values;
        self.values(nulls, |row| bits(values[row]));
    }

    fn prefixes<const N: usize>(&self, array: &ArrayRef, nulls: Option<&NullBuffer>) {
        let (views, buffers) = match array.data_type() {
            DataType::Utf8View => (array.as_string_view().views(), array.as_string_view().data_buffers()),
            _ => (array.as_binary_view().views(), array.as_binary_view().data_buffers()),
        };
        self.values(nulls, |row| {
            let view = RowView(views[row]);
            let mut prefix = [0; N];
            if view.is_long() {
                let offset = (view.0 >> 96) as usize;
                prefix.copy_from_slice(&buffers[(view.0 >> 64) as u32 as usize][offset..offset + N]);
            } else {
                // Inlined bytes are followed by zeroes.
                prefix.copy_from_slice(&view.0.to_le_bytes()[4..4 + N]);
            }
            prefix
        });
    }

    /// NULLs only.
    fn markers(&self, nulls: &NullBuffer) {
        for row in 0..nulls.len() {
            // SAFETY: `KeyColumn::write` was promised room for all rows.
            unsafe { *self.target.add(row * self.stride) = self.column.null };
        }
    }

    #[inline(always)]
    fn values<B: KeyBits>(&self, nulls: Option<&NullBuffer>, bits: impl Fn(usize) -> B) {
        if !self.column.nullable {
            assert!(nulls.is_none(), "values without NULLs");
            for row in 0..self.rows {
                let bytes = bits(row).key_bytes(self.column.descending);
                // SAFETY: `KeyColumn::write` was promised room for all rows; the column's width is that of the bytes.
                unsafe { self.target.add(row * self.stride).cast::<B::Bytes>().write_unaligned(bytes) };
            }
            return;
        }
        let write = |row: usize| {
            let bytes = bits(row).key_bytes(self.column.descending);
            // SAFETY: as above.
            unsafe {
                let target = self.target.add(row * self.stride);
                *target = VALID;
                target.add(1).cast::<B::Bytes>().write_unaligned(bytes);
            }
        };
        match nulls {
            None => (0..self.rows).for_each(write),
            Some(nulls) => {
                for row in 0..self.rows {
                    if nulls.is_valid(row) {
                        write(row);
                    } else {
                        // SAFETY: as above.
                        unsafe { *self.target.add(row * self.stride) = self.column.null };
                    }
                }
            }
        }
    }
}
