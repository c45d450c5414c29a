//! Where the bits of keys and columns are in a packed row, and how values become bits.
//!
//! A row is a few words of 64 bits, compared as one number whose most significant word is the first. Fields follow one another without gaps, the
//! first key at the top: a bit for NULL where there may be one, then the value's distance from the least value of its column, or, descending, that
//! of the greatest value from it. A key is the value itself in another form, so a column that is a key is not kept twice.
//!
//! Ranges are hints ([`Domain`]): a value beyond one is a misfit, and the caller goes on with a layout that has room for every value of the types.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, cast::AsArray, types};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use ogee_vector::{Domain, PhysicalType, integer_values};

use super::super::encode::{f32_order, f64_order, primitive};

/// How a value becomes an integer of 64 bits with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// It is one.
    Integer(PhysicalType),
    /// Unsigned, of 64 bits: less 2^63.
    Unsigned,
    Bool,
    /// Bits of a float as they are.
    Bits32,
    Bits64,
    /// Bits of a float that order it, of which zeroes and NaN are all alike: they do not bring the value back.
    Order32,
    Order64,
}

impl Form {
    /// The form of values of `physical`, in the order of their numbers if they are `ordered`; `None`: they are not packed.
    fn of(physical: PhysicalType, ordered: bool) -> Option<Self> {
        use PhysicalType as P;
        Some(match physical {
            P::I8 | P::I16 | P::I32 | P::I64 | P::U8 | P::U16 | P::U32 | P::ShortDecimal => Self::Integer(physical),
            P::U64 => Self::Unsigned,
            P::Bool => Self::Bool,
            P::F32 if ordered => Self::Order32,
            P::F64 if ordered => Self::Order64,
            P::F32 => Self::Bits32,
            P::F64 => Self::Bits64,
            _ => return None,
        })
    }

    /// Whether the value comes back.
    fn is_exact(self) -> bool {
        !matches!(self, Self::Order32 | Self::Order64)
    }

    /// Least and greatest integer that there may be.
    fn range(self) -> (i64, i64) {
        use PhysicalType as P;
        match self {
            Self::Integer(P::I8) => (i8::MIN.into(), i8::MAX.into()),
            Self::Integer(P::I16) => (i16::MIN.into(), i16::MAX.into()),
            Self::Integer(P::I32) => (i32::MIN.into(), i32::MAX.into()),
            Self::Integer(P::U8) => (0, u8::MAX.into()),
            Self::Integer(P::U16) => (0, u16::MAX.into()),
            Self::Integer(P::U32) | Self::Bits32 | Self::Order32 => (0, u32::MAX.into()),
            Self::Bool => (0, 1),
            Self::Integer(_) | Self::Unsigned | Self::Bits64 | Self::Order64 => (i64::MIN, i64::MAX),
        }
    }
}

/// What a packed row is made of, without where it lies.
#[derive(Clone, Debug)]
pub(super) struct FieldSpec {
    data_type: DataType,
    form: Form,
    descending: bool,
    nulls_first: bool,
    domain: Domain,
}

impl FieldSpec {
    /// A key, in the order of its values; `None`: its type is not packed.
    pub(super) fn key(data_type: &DataType, descending: bool, nulls_first: bool, domain: Domain) -> Option<Self> {
        Self::new(data_type, true, descending, nulls_first, domain)
    }

    /// A column that is no key.
    pub(super) fn payload(data_type: &DataType, domain: Domain) -> Option<Self> {
        Self::new(data_type, false, false, false, domain)
    }

    fn new(data_type: &DataType, ordered: bool, descending: bool, nulls_first: bool, domain: Domain) -> Option<Self> {
        // Two numbers, of which the second orders as the first does not.
        if matches!(data_type, DataType::Interval(arrow_schema::IntervalUnit::DayTime)) {
            return None;
        }
        let form = Form::of(PhysicalType::of(data_type).ok()?, ordered)?;
        Some(Self { data_type: data_type.clone(), form, descending, nulls_first, domain })
    }

    /// Whether values come back from it.
    pub(super) fn is_exact(&self) -> bool {
        self.form.is_exact()
    }

    /// Least value, greatest value, and whether there may be NULLs; `hinted`: as statistics say.
    fn bounds(&self, hinted: bool) -> (i64, i64, bool) {
        let (least, greatest) = self.form.range();
        if !hinted {
            return (least, greatest, true);
        }
        let known = match self.form {
            Form::Integer(_) => self.domain.integers.filter(|(low, high)| low <= high),
            _ => None,
        };
        let (low, high) = match (known, &self.data_type) {
            (Some(known), _) => known,
            (None, &DataType::Decimal128(precision @ 0..=18, _)) => {
                let most = 10_i64.pow(u32::from(precision)) - 1;
                (-most, most)
            }
            _ => (least, greatest),
        };
        (low.max(least), high.min(greatest), self.domain.nulls)
    }
}

/// One field of a row.
#[derive(Clone, Debug)]
struct Field {
    spec: FieldSpec,
    /// The least value, and how far the greatest is from it.
    base: i64,
    span: u64,
    /// Where its bit for NULL is: word and bit.
    null: Option<(usize, u64)>,
    /// The word that its last bit is in, how far above the last bit of that it is, and whether it begins in the word before.
    word: usize,
    shift: u32,
    straddles: bool,
}

/// Fields of a row and their places.
#[derive(Clone, Debug)]
pub(super) struct PackedLayout {
    fields: Vec<Field>,
    words: usize,
}

/// A value that a layout has no room for.
#[derive(Debug)]
pub(super) struct Misfit;

impl PackedLayout {
    /// The layout of `specs`, most significant first. `hinted`: with room for what statistics promise only.
    pub(super) fn new(specs: &[FieldSpec], hinted: bool) -> Self {
        let mut at = 0;
        let mut fields = Vec::with_capacity(specs.len());
        for spec in specs {
            let (low, high, nulls) = spec.bounds(hinted);
            let span = high.wrapping_sub(low) as u64;
            let bits = (64 - span.leading_zeros()) as usize;
            let null = nulls.then(|| (at / 64, 1 << (63 - at % 64)));
            at += usize::from(nulls);
            let end = at + bits;
            // A field without bits is anywhere.
            let word = end.saturating_sub(1) / 64;
            let shift = if bits == 0 { 0 } else { (64 * (word + 1) - end) as u32 };
            let straddles = bits > 0 && at / 64 < word;
            fields.push(Field { spec: spec.clone(), base: low, span, null, word, shift, straddles });
            at = end;
        }
        let words = at.div_ceil(64).max(1);
        fields.iter_mut().for_each(|field| field.word = field.word.min(words - 1));
        Self { fields, words }
    }

    /// Words of a row.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// Writes `columns`, one for each field, to `rows`, which are zero.
    pub(super) fn encode(&self, columns: &[ArrayRef], rows: &mut [u64]) -> Result<(), Misfit> {
        for (field, column) in self.fields.iter().zip(columns) {
            assert_eq!(column.len() * self.words, rows.len(), "a row for each value");
            field.encode(column, rows, self.words)?;
        }
        Ok(())
    }

    /// Field `index` of `rows` as an array.
    pub(super) fn decode(&self, index: usize, rows: &[u64]) -> Result<ArrayRef, ArrowError> {
        self.fields[index].decode(rows, self.words)
    }

    /// Writes a row of `from`, a layout of the same fields, to `target`, which is zero. This has room for all values.
    pub(super) fn convert(&self, from: &Self, source: &[u64], target: &mut [u64]) {
        for (field, old) in self.fields.iter().zip(&from.fields) {
            if old.is_valid(source) {
                let distance = old.value(source).wrapping_sub(field.base) as u64;
                field.put_valid(target);
                field.put(target, distance);
            } else {
                field.put_null(target);
            }
        }
    }
}

impl Field {
    /// The bit for NULL is set for what comes last.
    #[inline(always)]
    fn put_valid(&self, row: &mut [u64]) {
        if let Some((word, bit)) = self.null
            && self.spec.nulls_first
        {
            row[word] |= bit;
        }
    }

    #[inline(always)]
    fn put_null(&self, row: &mut [u64]) {
        let (word, bit) = self.null.expect("a layout with room for NULL");
        if !self.spec.nulls_first {
            row[word] |= bit;
        }
    }

    #[inline(always)]
    fn is_valid(&self, row: &[u64]) -> bool {
        self.null.is_none_or(|(word, bit)| (row[word] & bit != 0) == self.spec.nulls_first)
    }

    /// Puts a value `distance` above the least one.
    #[inline(always)]
    fn put(&self, row: &mut [u64], distance: u64) {
        let bits = if self.spec.descending { self.span - distance } else { distance };
        row[self.word] |= bits << self.shift;
        if self.straddles {
            row[self.word - 1] |= bits >> (64 - self.shift);
        }
    }

    /// The value; nothing in particular if it is NULL.
    #[inline(always)]
    fn value(&self, row: &[u64]) -> i64 {
        let mut bits = row[self.word] >> self.shift;
        if self.straddles {
            bits |= row[self.word - 1] << (64 - self.shift);
        }
        if self.span == 0 {
            return self.base;
        }
        bits &= u64::MAX >> self.span.leading_zeros();
        let distance = if self.spec.descending { self.span.wrapping_sub(bits) } else { bits };
        self.base.wrapping_add(distance as i64)
    }

    fn encode(&self, column: &ArrayRef, rows: &mut [u64], words: usize) -> Result<(), Misfit> {
        macro_rules! natives {
            ($t:ty, $value:ident => $integer:expr) => {{
                let values: ScalarBuffer<$t> = integer_values(column);
                let values: &[$t] = &values;
                self.write(column, rows, words, |row| {
                    let $value = values[row];
                    $integer
                })
            }};
        }
        use PhysicalType as P;
        match self.spec.form {
            Form::Integer(P::I8) => natives!(i8, value => i64::from(value)),
            Form::Integer(P::I16) => natives!(i16, value => i64::from(value)),
            Form::Integer(P::I32) => natives!(i32, value => i64::from(value)),
            Form::Integer(P::U8) => natives!(u8, value => i64::from(value)),
            Form::Integer(P::U16) => natives!(u16, value => i64::from(value)),
            Form::Integer(P::U32) | Form::Bits32 => natives!(u32, value => i64::from(value)),
            // At most 18 digits.
            Form::Integer(P::ShortDecimal) => natives!(i128, value => value as i64),
            Form::Integer(_) | Form::Bits64 => natives!(i64, value => value),
            Form::Unsigned => natives!(u64, value => (value ^ 1 << 63) as i64),
            Form::Order32 => natives!(f32, value => i64::from(f32_order(value))),
            Form::Order64 => natives!(f64, value => (f64_order(value) ^ 1 << 63) as i64),
            Form::Bool => {
                let values = column.as_boolean().values();
                self.write(column, rows, words, |row| i64::from(values.value(row)))
            }
        }
    }

    #[inline(always)]
    fn write(
        &self,
        column: &ArrayRef,
        rows: &mut [u64],
        words: usize,
        value: impl Fn(usize) -> i64,
    ) -> Result<(), Misfit> {
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
        if nulls.is_some() && self.null.is_none() {
            return Err(Misfit);
        }
        let mut fits = true;
        let mut put = |number: usize, row: &mut [u64]| {
            let distance = value(number).wrapping_sub(self.base) as u64;
            fits &= distance <= self.span;
            self.put_valid(row);
            self.put(row, distance.min(self.span));
        };
        match nulls {
            None => rows.chunks_exact_mut(words).enumerate().for_each(|(number, row)| put(number, row)),
            Some(nulls) => {
                for (number, row) in rows.chunks_exact_mut(words).enumerate() {
                    if nulls.is_valid(number) {
                        put(number, row);
                    } else {
                        self.put_null(row);
                    }
                }
            }
        }
        if fits { Ok(()) } else { Err(Misfit) }
    }

    fn decode(&self, rows: &[u64], words: usize) -> Result<ArrayRef, ArrowError> {
        let len = rows.len() / words;
        let row = |number: usize| &rows[number * words..(number + 1) * words];
        let nulls = self.null.and_then(|_| {
            let valid = BooleanBuffer::collect_bool(len, |number| self.is_valid(row(number)));
            (valid.count_set_bits() < len).then(|| NullBuffer::new(valid))
        });
        let values = || rows.chunks_exact(words).map(|row| self.value(row));
        let data_type = &self.spec.data_type;
        macro_rules! natives {
            ($t:ty) => {
                primitive::<$t>(data_type, values().map(|value| value as _).collect(), nulls)
            };
        }
        use PhysicalType as P;
        match self.spec.form {
            Form::Integer(P::I8) => natives!(types::Int8Type),
            Form::Integer(P::I16) => natives!(types::Int16Type),
            Form::Integer(P::I32) => natives!(types::Int32Type),
            Form::Integer(P::U8) => natives!(types::UInt8Type),
            Form::Integer(P::U16) => natives!(types::UInt16Type),
            Form::Integer(P::U32) => natives!(types::UInt32Type),
            Form::Integer(P::ShortDecimal) => {
                let values: Vec<i128> = values().map(i128::from).collect();
                Ok(Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(data_type.clone())))
            }
            Form::Integer(_) => natives!(types::Int64Type),
            Form::Unsigned => {
                let values: Vec<u64> = values().map(|value| value as u64 ^ 1 << 63).collect();
                primitive::<types::UInt64Type>(data_type, values, nulls)
            }
            Form::Bits32 => {
                let values: Vec<f32> = values().map(|value| f32::from_bits(value as u32)).collect();
                primitive::<types::Float32Type>(data_type, values, nulls)
            }
            Form::Bits64 => {
                let values: Vec<f64> = values().map(|value| f64::from_bits(value as u64)).collect();
                primitive::<types::Float64Type>(data_type, values, nulls)
            }
            Form::Bool => {
                let values = BooleanBuffer::collect_bool(len, |number| self.value(row(number)) != 0);
                Ok(Arc::new(BooleanArray::new(values, nulls)))
            }
            Form::Order32 | Form::Order64 => unreachable!("such a key is no column"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{Float64Array, Int32Array, Int64Array};

    use super::*;

    fn packed(specs: &[FieldSpec], columns: &[ArrayRef], hinted: bool) -> Result<(PackedLayout, Vec<u64>), Misfit> {
        let layout = PackedLayout::new(specs, hinted);
        let mut rows = vec![0; columns[0].len() * layout.words()];
        layout.encode(columns, &mut rows)?;
        Ok((layout, rows))
    }

    #[test]
    fn values_come_back_from_every_width_and_place() {
        for bits in [0, 1, 7, 31, 33, 62, 63] {
            let span = ((1_u64 << bits) - 1) as i64;
            let low = -17_i64;
            let column: ArrayRef =
                Arc::new(Int64Array::from(vec![Some(low), None, Some(low.wrapping_add(span)), Some(low + span / 2)]));
            for (descending, nulls_first) in [(false, false), (true, false), (false, true), (true, true)] {
                let domain = Domain { nulls: true, integers: Some((low, low.saturating_add(span))) };
                let spec = FieldSpec::key(&DataType::Int64, descending, nulls_first, domain).unwrap();
                let before = FieldSpec::payload(&DataType::Int32, Domain::UNKNOWN).unwrap();
                let number: ArrayRef = Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(-1), Some(i32::MAX)]));
                let specs = [before, spec.clone(), spec];
                let columns = [number, Arc::clone(&column), Arc::clone(&column)];
                let (narrow, rows) = packed(&specs, &columns, true).unwrap();
                let (wide, wide_rows) = packed(&specs, &columns, false).unwrap();
                let mut converted = vec![0; wide_rows.len()];
                for (source, target) in rows.chunks(narrow.words()).zip(converted.chunks_mut(wide.words())) {
                    wide.convert(&narrow, source, target);
                }
                assert_eq!(converted, wide_rows);
                for (index, column) in columns.iter().enumerate() {
                    assert_eq!(*narrow.decode(index, &rows).unwrap(), **column, "{bits} bits");
                    assert_eq!(*wide.decode(index, &wide_rows).unwrap(), **column, "{bits} bits");
                }
            }
        }
    }

    #[test]
    fn a_value_or_a_null_beyond_the_hint_does_not_fit() {
        let spec = |nulls| {
            let domain = Domain { nulls, integers: Some((5, 9)) };
            [FieldSpec::key(&DataType::Int64, false, true, domain).unwrap()]
        };
        let column = |value: Option<i64>| [Arc::new(Int64Array::from(vec![Some(6), value])) as ArrayRef];
        assert!(packed(&spec(false), &column(Some(9)), true).is_ok());
        assert!(packed(&spec(false), &column(Some(4)), true).is_err());
        assert!(packed(&spec(false), &column(Some(10)), true).is_err());
        assert!(packed(&spec(false), &column(Some(i64::MIN)), true).is_err());
        assert!(packed(&spec(false), &column(None), true).is_err());
        assert!(packed(&spec(true), &column(None), true).is_ok());
        assert!(packed(&spec(false), &column(None), false).is_ok());
    }

    #[test]
    fn floats_come_back_bit_by_bit_where_they_are_no_keys() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::NEG_INFINITY]));
        let spec = [FieldSpec::payload(&DataType::Float64, Domain::UNKNOWN).unwrap()];
        let (layout, rows) = packed(&spec, &[Arc::clone(&column)], true).unwrap();
        let back = layout.decode(0, &rows).unwrap();
        let bits = |array: &ArrayRef| integer_values::<u64>(array).to_vec();
        assert_eq!(bits(&back), bits(&column));
        assert!(!FieldSpec::key(&DataType::Float64, false, false, Domain::UNKNOWN).unwrap().is_exact());
    }
}
