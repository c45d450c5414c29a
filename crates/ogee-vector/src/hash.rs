//! Vectorized hashing of whole columns.
//!
//! 64 bits of which disjoint parts are used: slot from the low bits, radix partition from the middle, salt from the top.
//! Both steps are folded multiplications (the high half of the 128-bit product xor the low half), which spread every input
//! bit over all three parts. In-memory only: seeded, never written to a file that outlives the process.

use arrow_array::{Array, ArrayRef, cast::AsArray, types};
use arrow_schema::{DataType, IntervalUnit};

use crate::{ColumnRef, PhysicalType, VectorError};

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;
const NULL: u64 = 0xa076_1d64_78bd_642f;

/// Seed of a hash, and a mask that hostile tests narrow so that different keys collide.
#[derive(Clone, Copy, Debug)]
pub struct HashSeed {
    /// Mixed into every hash.
    pub seed: u64,
    /// Bits of the hash that are kept: all but in tests that force collisions.
    pub mask: u64,
}

impl Default for HashSeed {
    fn default() -> Self {
        Self { seed: 0x2545_f491_4f6c_dd1d, mask: u64::MAX }
    }
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline(always)]
fn mix(state: u64, value: u64) -> u64 {
    fold(fold(value ^ state, FIRST) ^ state.rotate_left(29), SECOND)
}

#[inline(always)]
fn mix128(state: u64, low: u64, high: u64) -> u64 {
    fold(fold(low ^ state, high ^ FIRST) ^ state.rotate_left(29) ^ low, SECOND)
}

/// Hash of the bytes of a string or binary value, mixed into `state`. Equal for equal bytes wherever they are stored.
#[inline]
pub fn hash_bytes(state: u64, bytes: &[u8]) -> u64 {
    if bytes.len() <= 12 {
        // As the 16 bytes of an inlined view: length, then the bytes padded with zeroes.
        let mut view = [0u8; 16];
        view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        view[4..4 + bytes.len()].copy_from_slice(bytes);
        return hash_inline(state, u128::from_le_bytes(view));
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let mut hash = state ^ (bytes.len() as u64).wrapping_mul(SECOND);
    let mut at = 0;
    while at + 16 < bytes.len() {
        hash = fold(word(at) ^ hash, word(at + 8) ^ FIRST);
        at += 16;
    }
    // The last one to sixteen bytes, read backwards from the end so that no byte loop is needed.
    let end = bytes.len();
    let tail = if end >= 16 { (word(end - 16), word(end - 8)) } else { (word(0), word(end - 8)) };
    mix128(hash, tail.0, tail.1)
}

#[inline(always)]
fn hash_inline(state: u64, view: u128) -> u64 {
    mix128(state, view as u64, (view >> 64) as u64)
}

/// Hashes `column`, row by row of the chunk, into `hashes`.
///
/// The first column of a key starts from the seed (`first`); the others are mixed into what is there. NULL has a hash of its own;
/// `-0.0` hashes as `0.0` and every NaN alike. `hashes` has one entry a row.
///
/// # Errors
/// [`VectorError::UnsupportedType`]; nested values must be encoded to bytes before.
pub fn hash_column(column: ColumnRef<'_>, seed: HashSeed, first: bool, hashes: &mut [u64]) -> Result<(), VectorError> {
    if first {
        hashes.fill(seed.seed);
    }
    let array = column.array;
    match PhysicalType::of(array.data_type())? {
        PhysicalType::Null => hashes.iter_mut().for_each(|h| *h = mix(*h, NULL)),
        PhysicalType::Bool => {
            let values = array.as_boolean().values();
            loop_rows(column, hashes, |i| u64::from(values.value(i)));
        }
        PhysicalType::View => hash_views(column, hashes),
        PhysicalType::Nested => return Err(VectorError::UnsupportedType(array.data_type().clone())),
        PhysicalType::MonthDayNano => {
            let values = array.as_primitive::<types::IntervalMonthDayNanoType>().values();
            loop_rows128(column, hashes, |i| {
                let v = values[i];
                ((v.months as u32 as u64) | ((v.days as u32 as u64) << 32), v.nanoseconds as u64)
            });
        }
        PhysicalType::I256 => {
            let values = array.as_primitive::<types::Decimal256Type>().values();
            loop_rows128(column, hashes, |i| {
                let (low, high) = values[i].to_parts();
                (low as u64 ^ (high as u64).rotate_left(17), (low >> 64) as u64 ^ (high >> 64) as u64)
            });
        }
        PhysicalType::I128 | PhysicalType::ShortDecimal => {
            // Decimals of one column have one scale, so that equal values are equal bits. Short ones hash as 64 bits.
            let values = array.as_primitive::<types::Decimal128Type>().values();
            if PhysicalType::of(array.data_type())? == PhysicalType::ShortDecimal {
                loop_rows(column, hashes, |i| values[i] as u64);
            } else {
                loop_rows128(column, hashes, |i| (values[i] as u64, (values[i] >> 64) as u64));
            }
        }
        PhysicalType::F16 => {
            let values = array.as_primitive::<types::Float16Type>().values();
            loop_rows(column, hashes, |i| float_bits(f64::from(values[i])));
        }
        PhysicalType::F32 => {
            let values = array.as_primitive::<types::Float32Type>().values();
            loop_rows(column, hashes, |i| float_bits(f64::from(values[i])));
        }
        PhysicalType::F64 => {
            let values = array.as_primitive::<types::Float64Type>().values();
            loop_rows(column, hashes, |i| float_bits(values[i]));
        }
        PhysicalType::I8 => hash_integers::<i8>(column, hashes),
        PhysicalType::U8 => hash_integers::<u8>(column, hashes),
        PhysicalType::I16 => hash_integers::<i16>(column, hashes),
        PhysicalType::U16 => hash_integers::<u16>(column, hashes),
        PhysicalType::I32 => hash_integers::<i32>(column, hashes),
        PhysicalType::U32 => hash_integers::<u32>(column, hashes),
        PhysicalType::I64 | PhysicalType::U64 => hash_integers::<i64>(column, hashes),
    }
    if seed.mask != u64::MAX {
        hashes.iter_mut().for_each(|h| *h &= seed.mask);
    }
    Ok(())
}

/// The bits of a float such that values that group together have the same.
#[inline(always)]
fn float_bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// Values of a fixed-width column as plain integers of the same width, whatever the SQL type; those that are NULL are any.
pub fn integer_values<T: arrow_buffer::ArrowNativeType>(array: &ArrayRef) -> arrow_buffer::ScalarBuffer<T> {
    let data = array.to_data();
    arrow_buffer::ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

fn hash_integers<T: arrow_buffer::ArrowNativeType + Widen>(column: ColumnRef<'_>, hashes: &mut [u64]) {
    debug_assert!(!matches!(column.array.data_type(), DataType::Interval(IntervalUnit::MonthDayNano)));
    let values = integer_values::<T>(column.array);
    let values: &[T] = &values;
    loop_rows(column, hashes, |i| values[i].widen());
}

trait Widen: Copy {
    fn widen(self) -> u64;
}
macro_rules! widen {
    ($($t:ty),*) => {$(impl Widen for $t {
        #[inline(always)]
        fn widen(self) -> u64 { i64::from(self) as u64 }
    })*};
}
widen!(i8, u8, i16, u16, i32, u32, i64);

#[inline(always)]
fn loop_rows(column: ColumnRef<'_>, hashes: &mut [u64], value: impl Fn(usize) -> u64) {
    match (column.array.nulls(), column.selection) {
        (None, None) => {
            assert!(hashes.len() <= column.array.len());
            hashes.iter_mut().enumerate().for_each(|(i, h)| *h = mix(*h, value(i)));
        }
        (None, Some(s)) => hashes.iter_mut().zip(s).for_each(|(h, &i)| *h = mix(*h, value(i as usize))),
        (Some(nulls), _) => hashes.iter_mut().enumerate().for_each(|(row, h)| {
            let i = column.position(row);
            *h = mix(*h, if nulls.is_null(i) { NULL } else { value(i) });
        }),
    }
}

#[inline(always)]
fn loop_rows128(column: ColumnRef<'_>, hashes: &mut [u64], value: impl Fn(usize) -> (u64, u64)) {
    let nulls = column.array.nulls();
    for (row, h) in hashes.iter_mut().enumerate() {
        let i = column.position(row);
        if nulls.is_some_and(|n| n.is_null(i)) {
            *h = mix(*h, NULL);
        } else {
            let (low, high) = value(i);
            *h = mix128(*h, low, high);
        }
    }
}

fn hash_views(column: ColumnRef<'_>, hashes: &mut [u64]) {
    let (views, buffers) = match column.array.data_type() {
        DataType::Utf8View => {
            let a = column.array.as_string_view();
            (a.views(), a.data_buffers())
        }
        _ => {
            let a = column.array.as_binary_view();
            (a.views(), a.data_buffers())
        }
    };
    let nulls = column.array.nulls();
    for (row, h) in hashes.iter_mut().enumerate() {
        let i = column.position(row);
        if nulls.is_some_and(|n| n.is_null(i)) {
            *h = mix(*h, NULL);
            continue;
        }
        let view = views[i];
        let len = view as u32 as usize;
        *h = if len <= 12 {
            hash_inline(*h, view)
        } else {
            let buffer = &buffers[(view >> 64) as u32 as usize];
            let offset = (view >> 96) as usize;
            // SAFETY: a valid view array's long views lie within their buffers; the array is borrowed here.
            hash_bytes(*h, unsafe { buffer.as_slice().get_unchecked(offset..offset + len) })
        };
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::{collections::HashSet, sync::Arc};

    use arrow_array::{Float64Array, Int32Array, Int64Array, StringViewArray};

    use super::*;
    use crate::Column;

    fn hash(array: ArrayRef) -> Vec<u64> {
        let mut hashes = vec![0; array.len()];
        hash_column(Column::flat(array).as_ref(), HashSeed::default(), true, &mut hashes).unwrap();
        hashes
    }

    #[test]
    fn every_part_of_the_hash_is_well_spread() {
        // Dense integers are the common key. Each part that is used on its own must look random: a chi-square over 256
        // bins of 2^16 keys stays near 255 and under 400 with overwhelming probability for a good hash.
        for step in [1i64, 7, 1 << 20, 1 << 32] {
            let hashes = hash(Arc::new(Int64Array::from_iter_values((0..1 << 16).map(|i| i * step))));
            for shift in [0, 17, 25, 40, 48, 56] {
                let mut bins = [0f64; 256];
                hashes.iter().for_each(|h| bins[(h >> shift) as usize & 255] += 1.0);
                let chi: f64 = bins.iter().map(|b| (b - 256.0).powi(2) / 256.0).sum();
                assert!(chi < 400.0, "step {step} shift {shift}: chi-square {chi}");
            }
            assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), 1 << 16);
        }
    }

    #[test]
    fn equal_values_hash_alike_and_null_is_a_value() {
        let floats = hash(Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0])));
        assert_eq!(floats[0], floats[1]);
        assert_eq!(floats[2], floats[3]);
        assert_ne!(floats[0], floats[4]);
        let nulls = hash(Arc::new(Int32Array::from(vec![None, Some(0), None])));
        assert_eq!(nulls[0], nulls[2]);
        assert_ne!(nulls[0], nulls[1]);
    }

    #[test]
    fn strings_hash_by_their_bytes() {
        let words: Vec<String> = (0..200).map(|n| "abcdefghij".repeat(7)[..n % 70].to_owned()).collect();
        let hashes = hash(Arc::new(StringViewArray::from_iter_values(&words)));
        for (word, hash) in words.iter().zip(&hashes) {
            assert_eq!(*hash, hash_bytes(HashSeed::default().seed, word.as_bytes()));
        }
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), 70);
    }

    #[test]
    fn selection_and_mask_apply() {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![5, 6, 7]));
        let column = Column { array: Arc::clone(&array), selection: Some(crate::Selection::new(&[2, 2, 0])) };
        let mut hashes = vec![0; 3];
        hash_column(column.as_ref(), HashSeed::default(), true, &mut hashes).unwrap();
        let flat = hash(array);
        assert_eq!(hashes, [flat[2], flat[2], flat[0]]);
        let narrow = HashSeed { mask: 3, ..HashSeed::default() };
        hash_column(column.as_ref(), narrow, true, &mut hashes).unwrap();
        assert!(hashes.iter().all(|h| *h < 4));
    }
}
