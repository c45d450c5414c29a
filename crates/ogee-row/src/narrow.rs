//! Narrowing: columns stored in fewer bytes than their type has, since their values need no more.
//!
//! Integers of a known range become offsets from its least value; strings with few distinct values become codes. Every byte of a row
//! is written, perhaps spilled and read back, and compared, so narrow rows are the cheapest way to be fast ("Robust external hash
//! aggregation", section on the page layout: rows are as narrow as statistics allow).
//!
//! The range is a hint ([`Domain`]): a value outside it is a [`Misfit`], upon which the caller goes on with a
//! [wider](Narrowing::widened) form.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, UInt8Array, UInt16Array, UInt32Array,
    cast::AsArray,
    make_array,
    types::{UInt8Type, UInt16Type, UInt32Type},
};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use ogee_vector::{BitsUsed, ColumnRef, Distances, Domain, Integer, Offset, PhysicalType, VectorError, dispatch};

use crate::dictionary::{CodeCache, Dictionary};

/// `$body` with `$values` being the values of `$array`, of a type that rows store as integers, as a slice.
macro_rules! with_integers {
    ($array:expr, $values:ident => $body:expr) => {{
        macro_rules! from {
            ($t:ty) => {{
                let data = $array.to_data();
                let values: ScalarBuffer<$t> = ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len());
                let $values: &[$t] = &values;
                $body
            }};
        }
        match PhysicalType::of($array.data_type()) {
            Ok(PhysicalType::I8) => from!(i8),
            Ok(PhysicalType::U8) => from!(u8),
            Ok(PhysicalType::I16) => from!(i16),
            Ok(PhysicalType::U16) => from!(u16),
            Ok(PhysicalType::I32) => from!(i32),
            Ok(PhysicalType::U32) => from!(u32),
            Ok(PhysicalType::ShortDecimal) => from!(i128),
            _ => from!(i64),
        }
    }};
}
/// Why values do not go into the narrow form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// A NULL in a column that was said to have none.
    Null,
    /// A value outside the range, or one more than the dictionary can hold.
    Value,
}

/// How a column's values are stored in rows.
#[derive(Clone, Debug)]
pub struct Narrowing {
    data_type: DataType,
    nullable: bool,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// As they are.
    Plain,
    /// As their distance from `base`, unsigned, at most `span`, in `bytes` bytes.
    Offset { base: i64, span: u64, bytes: usize },
    /// As codes of a dictionary.
    Code(Arc<Dictionary>),
}

impl Narrowing {
    /// Values as they are.
    pub fn plain(data_type: DataType) -> Self {
        Self { data_type, nullable: true, form: Form::Plain }
    }

    /// The narrowest form for values of `domain`.
    ///
    /// # Errors
    /// [`VectorError::UnsupportedType`].
    pub fn new(data_type: DataType, domain: Domain) -> Result<Self, VectorError> {
        let physical = PhysicalType::of(&data_type)?;
        let form = match domain.integers {
            Some((base, last)) if base <= last && is_integer(physical) => {
                let span = last.wrapping_sub(base) as u64;
                let bytes = match span {
                    0..=0xff => 1,
                    0x100..=0xffff => 2,
                    0x1_0000..=0xffff_ffff => 4,
                    _ => 8,
                };
                if bytes < physical.row_width() { Form::Offset { base, span, bytes } } else { Form::Plain }
            }
            _ => Form::Plain,
        };
        Ok(Self { data_type, nullable: domain.nulls, form })
    }

    /// The same column as codes of a new dictionary, if its values are strings.
    #[must_use]
    pub fn coded(&self) -> Option<Self> {
        let is_view = matches!(self.data_type, DataType::Utf8View | DataType::BinaryView);
        let form = || Form::Code(Arc::new(Dictionary::default()));
        (is_view && matches!(self.form, Form::Plain)).then(|| Self { form: form(), ..self.clone() })
    }

    /// A form that the values that did not fit go into.
    #[must_use]
    pub fn widened(&self, misfit: Misfit) -> Self {
        match misfit {
            Misfit::Null => Self { nullable: true, ..self.clone() },
            Misfit::Value => Self { form: Form::Plain, ..self.clone() },
        }
    }

    /// Whether two forms of one column are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.nullable == other.nullable
            && match (&self.form, &other.form) {
                (Form::Plain, Form::Plain) => true,
                (Form::Offset { base: a, span: c, .. }, Form::Offset { base: b, span: d, .. }) => a == b && c == d,
                (Form::Code(a), Form::Code(b)) => Arc::ptr_eq(a, b),
                _ => false,
            }
    }

    /// Whether values are stored as they are, NULL or not.
    pub fn is_plain(&self) -> bool {
        self.nullable && matches!(self.form, Form::Plain)
    }

    /// Type of the stored values.
    pub fn stored_type(&self) -> DataType {
        match &self.form {
            Form::Plain => self.data_type.clone(),
            Form::Offset { bytes: 1, .. } | Form::Code(_) => DataType::UInt8,
            Form::Offset { bytes: 2, .. } => DataType::UInt16,
            Form::Offset { .. } => DataType::UInt32,
        }
    }

    /// Whether NULLs can be stored.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// The dictionary that stored values are codes of.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        match &self.form {
            Form::Code(dictionary) => Some(dictionary),
            _ => None,
        }
    }

    /// The rows of `column` as they are stored, or why one does not fit.
    ///
    /// # Errors
    /// As [`ColumnRef::flatten`].
    pub fn narrow(
        &self,
        column: ColumnRef<'_>,
        cache: &mut CodeCache,
    ) -> Result<Result<ArrayRef, Misfit>, VectorError> {
        // Of a column with a selection it may be NULLs of other rows.
        if !self.nullable && column.array.null_count() > 0 {
            return Ok(Err(Misfit::Null));
        }
        Ok(match &self.form {
            Form::Plain => Ok(column.flatten()?),
            Form::Code(dictionary) => cache.encode_column(dictionary, column)?.ok_or(Misfit::Value),
            &Form::Offset { base, span, bytes } => {
                let array = &column.flatten()?;
                with_integers!(array, values => offsets(array, values, base, span, bytes))
            }
        })
    }

    /// Stored values as they were.
    pub fn widen(&self, stored: ArrayRef, cache: &mut CodeCache) -> ArrayRef {
        match &self.form {
            Form::Plain => stored,
            Form::Code(dictionary) => cache.decode(dictionary, &stored, &self.data_type),
            &Form::Offset { base, bytes, .. } => match bytes {
                1 => self.add_base(stored.as_primitive::<UInt8Type>(), base),
                2 => self.add_base(stored.as_primitive::<UInt16Type>(), base),
                _ => self.add_base(stored.as_primitive::<UInt32Type>(), base),
            },
        }
    }

    fn add_base<T: ArrowPrimitiveType<Native: Into<u64>>>(&self, offsets: &PrimitiveArray<T>, base: i64) -> ArrayRef {
        let values = offsets.values().iter().map(|&offset| base.wrapping_add(offset.into() as i64));
        macro_rules! into {
            ($t:ty) => {
                Buffer::from(ScalarBuffer::from(values.map(|v| v as $t).collect::<Vec<$t>>()))
            };
        }
        let buffer = match PhysicalType::of(&self.data_type) {
            Ok(PhysicalType::I16) => into!(i16),
            Ok(PhysicalType::U16) => into!(u16),
            Ok(PhysicalType::I32) => into!(i32),
            Ok(PhysicalType::U32) => into!(u32),
            Ok(PhysicalType::ShortDecimal) => into!(i128),
            _ => into!(i64),
        };
        let data = arrow_data::ArrayData::builder(self.data_type.clone())
            .len(offsets.len())
            .add_buffer(buffer)
            .nulls(offsets.nulls().cloned());
        // SAFETY: one buffer of as many values of the type's width, aligned as a vector of that width; any bits are a valid value,
        // and decimals came from values of this very type.
        make_array(unsafe { data.build_unchecked() })
    }
}

/// Whether all values of `array`, of a type that rows store as integers and without NULLs, fit into 32 bits with their sign.
pub fn all_fit_32_bits(array: &ArrayRef) -> bool {
    use PhysicalType as P;
    match PhysicalType::of(array.data_type()) {
        Ok(P::I8 | P::U8 | P::I16 | P::U16 | P::I32) => true,
        // Numbers of more than 63 bits look negative.
        Ok(P::U64) => {
            with_integers!(array, values => dispatch(BitsUsed { values, signed: false }) <= i32::MAX as u64)
        }
        // A number and its complement need as many bits. No comparison in the loop: wide ones are slow on old machines.
        _ => {
            with_integers!(array, values => dispatch(BitsUsed { values, signed: true }) <= i32::MAX as u64)
        }
    }
}

/// Whether values of this physical type are integers of at most 64 bits and have more than one byte.
fn is_integer(physical: PhysicalType) -> bool {
    use PhysicalType as P;
    matches!(physical, P::I16 | P::I32 | P::I64 | P::U16 | P::U32 | P::U64 | P::ShortDecimal)
}

/// Distances of `values`, those of `array`, from `base`, in `bytes` bytes.
fn offsets<S: Integer>(array: &ArrayRef, values: &[S], base: i64, span: u64, bytes: usize) -> Result<ArrayRef, Misfit> {
    fn stored<S: Integer, T: Offset + ArrowNativeType>(
        array: &ArrayRef,
        values: &[S],
        base: i64,
        span: u64,
    ) -> Result<(ScalarBuffer<T>, Option<NullBuffer>), Misfit> {
        let mut stored = vec![T::default(); values.len()];
        let largest = dispatch(Distances { values, base, stored: &mut stored });
        let fits = largest <= span
            || array.nulls().is_some_and(|nulls| {
                // What is under a NULL does not matter.
                let distance = |value: &S| value.wide().wrapping_sub(base) as u64;
                values.iter().zip(nulls).all(|(value, valid)| !valid || distance(value) <= span)
            });
        if fits { Ok((stored.into(), array.nulls().cloned())) } else { Err(Misfit::Value) }
    }
    Ok(match bytes {
        1 => stored(array, values, base, span).map(|(values, nulls)| Arc::new(UInt8Array::new(values, nulls)))?,
        2 => stored(array, values, base, span).map(|(values, nulls)| Arc::new(UInt16Array::new(values, nulls)))?,
        _ => stored(array, values, base, span).map(|(values, nulls)| Arc::new(UInt32Array::new(values, nulls)))?,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{Date32Array, Decimal128Array, Int64Array, StringViewArray, UInt64Array};

    use super::*;

    fn narrow(narrowing: &Narrowing, array: &ArrayRef, cache: &mut CodeCache) -> Result<ArrayRef, Misfit> {
        narrowing.narrow(ColumnRef { array, selection: None }, cache).unwrap()
    }

    fn round_trip(narrowing: &Narrowing, array: &ArrayRef, stored: &DataType) {
        let mut cache = CodeCache::default();
        let narrow = narrow(narrowing, array, &mut cache).unwrap();
        assert_eq!(narrow.data_type(), stored);
        assert_eq!(narrow.data_type(), &narrowing.stored_type());
        let mut other = CodeCache::default();
        assert_eq!(&narrowing.widen(Arc::clone(&narrow), &mut other), array);
        assert_eq!(&narrowing.widen(narrow, &mut cache), array);
    }

    #[test]
    fn integers_are_stored_by_their_range() {
        let domain = |low, high| Domain { nulls: true, integers: Some((low, high)) };
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-3), None, Some(252), Some(i64::from(0u8))]));
        for (high, stored) in [(252, DataType::UInt8), (253, DataType::UInt16), (70_000, DataType::UInt32)] {
            round_trip(&Narrowing::new(DataType::Int64, domain(-3, high)).unwrap(), &numbers, &stored);
        }
        for (low, high) in [(-3, 1 << 40), (i64::MIN, i64::MAX), (5, -5)] {
            round_trip(&Narrowing::new(DataType::Int64, domain(low, high)).unwrap(), &numbers, &DataType::Int64);
        }
        let days: ArrayRef = Arc::new(Date32Array::from(vec![8000, 10_000]));
        round_trip(&Narrowing::new(DataType::Date32, domain(8000, 10_526)).unwrap(), &days, &DataType::UInt16);
        let prices: ArrayRef =
            Arc::new(Decimal128Array::from(vec![-100, 90_000]).with_precision_and_scale(15, 2).unwrap());
        let narrowing = Narrowing::new(DataType::Decimal128(15, 2), domain(-100, 1_000_000)).unwrap();
        round_trip(&narrowing, &prices, &DataType::UInt32);
        // Far up in the unsigned range values look negative; distances are the same.
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 7]));
        round_trip(&Narrowing::new(DataType::UInt64, domain(-8, -1)).unwrap(), &large, &DataType::UInt8);
    }

    #[test]
    fn what_does_not_fit_is_told_and_fits_when_widened() {
        let domain = Domain { nulls: false, integers: Some((0, 10)) };
        let narrowing = Narrowing::new(DataType::Int64, domain).unwrap();
        let mut cache = CodeCache::default();
        for (values, misfit) in [
            (vec![Some(-1)], Misfit::Value),
            (vec![Some(11), Some(3)], Misfit::Value),
            (vec![Some(3), None], Misfit::Null),
        ] {
            let array: ArrayRef = Arc::new(Int64Array::from(values));
            assert_eq!(narrow(&narrowing, &array, &mut cache).unwrap_err(), misfit);
            let wide = narrowing.widened(misfit);
            assert!(!wide.is_same(&narrowing));
            assert_eq!(&wide.widen(narrow(&wide, &array, &mut cache).unwrap(), &mut cache), &array);
        }
    }

    #[test]
    fn numbers_that_fit_32_bits_are_told() {
        let signed = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let (low, high) = (i64::from(i32::MIN), i64::from(i32::MAX));
        assert!(all_fit_32_bits(&signed(vec![low, -1, 0, high])) && all_fit_32_bits(&signed(vec![])));
        for value in [low - 1, high + 1, i64::MIN, i64::MAX] {
            assert!(!all_fit_32_bits(&signed(vec![0, value, 0])), "{value}");
        }
        let unsigned = |value: u64| -> ArrayRef { Arc::new(UInt64Array::from(vec![value, 7])) };
        assert!(all_fit_32_bits(&unsigned(high as u64)));
        assert!(!all_fit_32_bits(&unsigned(u64::MAX - 4)), "beyond 63 bits, not minus five");
        let decimals = |value: i128| -> ArrayRef {
            Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(18, 2).unwrap())
        };
        assert!(all_fit_32_bits(&decimals(i128::from(low))) && !all_fit_32_bits(&decimals(i128::from(high) + 1)));
        assert!(!all_fit_32_bits(&(Arc::new(UInt32Array::from(vec![u32::MAX])) as ArrayRef)));
    }

    #[test]
    fn strings_are_coded_until_there_are_too_many() {
        let narrowing = Narrowing::plain(DataType::Utf8View).coded().unwrap();
        let words = |n: usize| -> ArrayRef {
            let word = |i: usize| (i % 7 != 3).then(|| format!("{}{}", "a long word, ".repeat(i % 2), i % 256));
            Arc::new((0..n).map(word).collect::<StringViewArray>())
        };
        round_trip(&narrowing, &words(2000), &DataType::UInt8);
        round_trip(&narrowing, &(Arc::new(StringViewArray::from(vec![None::<&str>; 3])) as ArrayRef), &DataType::UInt8);
        let mut cache = CodeCache::default();
        let more: ArrayRef = Arc::new((0..300).map(|i| Some(i.to_string())).collect::<StringViewArray>());
        assert_eq!(narrow(&narrowing, &more, &mut cache).unwrap_err(), Misfit::Value);
        let long: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(1000)]));
        let fresh = Narrowing::plain(DataType::Utf8View).coded().unwrap();
        assert_eq!(narrow(&fresh, &long, &mut CodeCache::default()).unwrap_err(), Misfit::Value);
        assert!(Narrowing::plain(DataType::Int64).coded().is_none());
    }

    #[test]
    fn values_that_rows_select_are_coded_once() {
        let narrowing = Narrowing::plain(DataType::Utf8View).coded().unwrap();
        let mut cache = CodeCache::default();
        // More values than codes, of which only some are selected, now and in later chunks.
        let word = |i: u32| (i != 5).then(|| format!("{}{i}", "a long word, ".repeat(i as usize % 2)));
        let values: ArrayRef = Arc::new((0..400).map(word).collect::<StringViewArray>());
        for round in 0..3u32 {
            let selection: Vec<u32> = (0..1000).map(|row| row * 7 % (40 * (round + 1)) + 200 * (row % 2)).collect();
            let column = ColumnRef { array: &values, selection: Some(&selection) };
            let codes = narrowing.narrow(column, &mut cache).unwrap().unwrap();
            let expected: StringViewArray = selection.iter().map(|&position| word(position)).collect();
            let expected: ArrayRef = Arc::new(expected);
            assert_eq!(&narrowing.widen(codes, &mut cache), &expected);
            // The same rows by themselves, and few rows of a larger array, have the same codes.
            let few = ColumnRef { array: &values, selection: Some(&selection[..10]) };
            for column in [ColumnRef { array: &expected.slice(0, 10), selection: None }, few] {
                let codes = narrowing.narrow(column, &mut CodeCache::default()).unwrap().unwrap();
                assert_eq!(&narrowing.widen(codes, &mut cache), &expected.slice(0, 10));
            }
        }
        let all: Vec<u32> = (0..400).collect();
        let column = ColumnRef { array: &values, selection: Some(&all) };
        assert_eq!(narrowing.narrow(column, &mut cache).unwrap().unwrap_err(), Misfit::Value);
        let required = Narrowing::new(DataType::Utf8View, Domain { nulls: false, integers: None }).unwrap();
        assert_eq!(required.narrow(column, &mut cache).unwrap().unwrap_err(), Misfit::Null);
    }

    #[test]
    fn all_codes_can_be_given_out() {
        // Too many for a hash without collisions, in an order in which values that share a place come in turns.
        let narrowing = Narrowing::plain(DataType::Utf8View).coded().unwrap();
        let words: ArrayRef =
            Arc::new((0..200_000).map(|i| Some(((i * 7) % 256).to_string())).collect::<StringViewArray>());
        round_trip(&narrowing, &words, &DataType::UInt8);
    }

    #[test]
    fn lanes_agree_on_codes() {
        let narrowing = Narrowing::plain(DataType::Utf8View).coded().unwrap();
        let stored: Vec<(ArrayRef, ArrayRef)> = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..4)
                .map(|lane| {
                    let narrowing = &narrowing;
                    scope.spawn(move || {
                        let words = (0..200).map(|i| Some(format!("word {}", (i * 7 + lane * 50) % 200)));
                        let array: ArrayRef = Arc::new(words.collect::<StringViewArray>());
                        (narrow(narrowing, &array, &mut CodeCache::default()).unwrap(), array)
                    })
                })
                .collect();
            lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
        });
        for (codes, array) in stored {
            assert_eq!(&narrowing.widen(codes, &mut CodeCache::default()), &array);
        }
    }
}
