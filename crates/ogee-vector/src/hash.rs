//! Vectorized hashing of whole columns.
//!
//! 64 bits of which disjoint parts are used: slot from the low bits, radix partition from the middle, salt from the top.
//! Both steps are folded multiplications (the high half of the 128-bit product xor the low half), which spread every input
//! bit over all three parts. Where both factors of a product come from the value, both are masked with what the seed decides: a factor that
//! somebody can choose can be made zero, or one, and then what the other was no longer counts, or cancels out, whatever the seed.
//! In-memory only: seeded, never written to a file that outlives the process.

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

/// What masks the second factor where `state` masks the first. An odd distance, so that hardly any two states have the same difference from it:
/// factors that are exchanged make the same product only if their masks differ as they do.
#[inline(always)]
fn second_mask(state: u64) -> u64 {
    state.rotate_left(29) ^ FIRST
}

#[inline(always)]
fn mix128(state: u64, low: u64, high: u64) -> u64 {
    mix_last(state, low, high, 0)
}

/// Mixes in the last 16 bytes of a value, and `len`, which no choice of these bytes can make up for.
#[inline(always)]
fn mix_last(state: u64, low: u64, high: u64, len: u64) -> u64 {
    fold(fold(low ^ state, high ^ second_mask(state)) ^ state.rotate_left(29) ^ low ^ len, SECOND)
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
    let (mut hash, mask) = (state, second_mask(state));
    let mut at = 0;
    while at + 16 < bytes.len() {
        hash = fold(word(at) ^ hash, word(at + 8) ^ mask);
        at += 16;
    }
    // The last one to sixteen bytes, read backwards from the end so that no byte loop is needed.
    let end = bytes.len();
    let tail = if end >= 16 { (word(end - 16), word(end - 8)) } else { (word(0), word(end - 8)) };
    mix_last(hash, tail.0, tail.1, (bytes.len() as u64).wrapping_mul(SECOND))
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
            loop_wide_rows(column, hashes, |h, i| {
                let v = values[i];
                mix128(h, (v.months as u32 as u64) | ((v.days as u32 as u64) << 32), v.nanoseconds as u64)
            });
        }
        PhysicalType::I256 => {
            let values = array.as_primitive::<types::Decimal256Type>().values();
            loop_wide_rows(column, hashes, |h, i| {
                let (low, high) = values[i].to_parts();
                let lower = fold(low as u64 ^ h, (low >> 64) as u64 ^ second_mask(h));
                mix128(lower, high as u64, (high >> 64) as u64)
            });
        }
        PhysicalType::I128 | PhysicalType::ShortDecimal => {
            // Decimals of one column have one scale, so that equal values are equal bits. Short ones hash as 64 bits.
            let values = array.as_primitive::<types::Decimal128Type>().values();
            if PhysicalType::of(array.data_type())? == PhysicalType::ShortDecimal {
                loop_rows(column, hashes, |i| values[i] as u64);
            } else {
                loop_wide_rows(column, hashes, |h, i| mix128(h, values[i] as u64, (values[i] >> 64) as u64));
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
fn loop_wide_rows(column: ColumnRef<'_>, hashes: &mut [u64], mixed: impl Fn(u64, usize) -> u64) {
    let nulls = column.array.nulls();
    for (row, h) in hashes.iter_mut().enumerate() {
        let i = column.position(row);
        *h = if nulls.is_some_and(|n| n.is_null(i)) { mix(*h, NULL) } else { mixed(*h, i) };
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

    use arrow_array::{
        BinaryViewArray, Decimal128Array, Decimal256Array, Float64Array, Int32Array, Int64Array, StringViewArray,
    };
    use arrow_buffer::i256;

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

    /// Values by a factor that was chosen to be 0, or 1, if nothing but constants masked it.
    const CHOSEN: [u64; 2] = [FIRST, FIRST ^ 1];

    fn collide_for_no_seed(array: &ArrayRef) {
        for seed in [0x2545_f491_4f6c_dd1d, 1, 0x0123_4567_89ab_cdef] {
            let mut hashes = vec![0; array.len()];
            let seed = HashSeed { seed, ..HashSeed::default() };
            hash_column(Column::flat(Arc::clone(array)).as_ref(), seed, true, &mut hashes).unwrap();
            assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), array.len(), "{seed:?} {}", array.data_type());
        }
    }

    #[test]
    fn strings_that_were_chosen_do_not_collide() {
        for chosen in CHOSEN {
            // One block of 16 bytes, the second half of which would make its product forget the first, and another block.
            let blocks = |i: u64| [i.to_le_bytes(), chosen.to_le_bytes(), [b'x'; 8], [b'y'; 8]].concat();
            collide_for_no_seed(&(Arc::new(BinaryViewArray::from_iter_values((0..1000).map(blocks))) as ArrayRef));
            // The last block alone.
            let last = |i: u64| [i.to_le_bytes(), chosen.to_le_bytes()].concat();
            collide_for_no_seed(&(Arc::new(BinaryViewArray::from_iter_values((0..1000).map(last))) as ArrayRef));
        }
    }

    #[test]
    fn lengths_that_were_made_up_for_do_not_collide() {
        // Where the length was mixed into the bytes themselves, these two of 20 and 24 bytes collided whatever the seed: their first words
        // differ as their lengths did, all later words that are looked at are the same.
        let difference = 20_u64.wrapping_mul(SECOND) ^ 24_u64.wrapping_mul(SECOND);
        let (lower, upper) = (difference as u32, (difference >> 32) as u32);
        let words = |first: [u32; 2], rest: &[u32]| -> Vec<u8> {
            first.iter().chain(rest).flat_map(|word| word.to_le_bytes()).collect()
        };
        // Bytes 4..20 of the short one are bytes 8..24 of the long one, and bytes 8..16 of both are the same: one word, repeated.
        let word = 0x6162_6364;
        let short = words([word ^ lower, word], &[word; 3]);
        let long = words([word, word ^ upper], &[word; 4]);
        assert_eq!((short.len(), long.len()), (20, 24));
        collide_for_no_seed(&(Arc::new(BinaryViewArray::from_iter_values([short, long])) as ArrayRef));
    }

    #[test]
    fn wide_decimals_that_were_chosen_do_not_collide() {
        for chosen in CHOSEN {
            let array = Decimal128Array::from_iter_values((0..1000).map(|i| i | i128::from(chosen as i64) << 64));
            collide_for_no_seed(&(Arc::new(array.with_precision_and_scale(38, 0).unwrap()) as ArrayRef));
            let wide = |i: u128| i256::from_parts(i | u128::from(chosen) << 64, 7);
            let array = Decimal256Array::from_iter_values((0..1000).map(wide));
            collide_for_no_seed(&(Arc::new(array.with_precision_and_scale(76, 0).unwrap()) as ArrayRef));
        }
        // Words that cancel out where words are joined before they are multiplied.
        let joined = |i: u64| i256::from_parts(u128::from(i.rotate_left(17)), i128::from(i));
        let array = Decimal256Array::from_iter_values((0..1000).map(joined));
        collide_for_no_seed(&(Arc::new(array.with_precision_and_scale(76, 0).unwrap()) as ArrayRef));
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
