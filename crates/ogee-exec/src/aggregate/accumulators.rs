//! States of fixed size over one argument: counts, sums, averages, booleans, bits, variances.
//!
//! Sums are kept wide enough that the order in which rows arrive cannot make them overflow; only a result that does not fit
//! its type is an error.

use std::{marker::PhantomData, sync::Arc};

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, PrimitiveArray, UInt64Array,
    cast::AsArray,
    types::{self, ArrowPrimitiveType, DecimalType, Float64Type, UInt64Type},
};
use arrow_buffer::i256;
use arrow_schema::DataType;

use super::{kernel::Accumulator, totals::Takes};
use crate::ExecError;

fn overflow(operation: &'static str, data_type: &DataType) -> ExecError {
    ExecError::Overflow { operation, data_type: data_type.to_string() }
}

/// Integers that can be summed without a loss: what arrives, as 128 bits.
pub(crate) trait WideInteger: ArrowPrimitiveType + Send + Sync {
    fn wide(value: Self::Native) -> i128;

    /// The value whose low bits are `bits`.
    fn narrow(bits: u64) -> Self::Native;
}
macro_rules! wide_integer {
    ($($t:ident),*) => {$(impl WideInteger for types::$t {
        #[inline(always)]
        fn wide(value: Self::Native) -> i128 { i128::from(value) }

        fn narrow(bits: u64) -> Self::Native { bits as Self::Native }
    })*};
}
wide_integer!(Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type, Decimal128Type);

/// Sum of integers of up to 64 bits, or of decimals of up to 18 digits. 2^64 rows fit.
#[repr(C, packed)]
pub(crate) struct SumInteger<T> {
    sum: i128,
    seen: bool,
    input: PhantomData<T>,
}

// Not derived: that would ask for a `T` that is `Copy`, of which there is no value here.
impl<T> Clone for SumInteger<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SumInteger<T> {}

impl<T: WideInteger> Accumulator for SumInteger<T> {
    type Input = T;

    #[inline(always)]
    fn add(&mut self, value: T::Native) {
        self.sum = self.sum.wrapping_add(T::wide(value));
        self.seen = true;
    }

    const TAKES: Takes = Takes::Integers;

    fn add_integers(&mut self, sum: i64, count: u64) {
        debug_assert!(count > 0);
        self.sum = self.sum.wrapping_add(i128::from(sum));
        self.seen = true;
    }

    #[inline(always)]
    fn merge(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.seen |= other.seen;
    }

    fn results(states: &[Self], output: &DataType) -> Result<ArrayRef, ExecError> {
        sums_as(states.iter().map(|s| s.seen.then_some(s.sum)), output)
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let column = &columns[0];
        let sum = column.is_valid(row).then(|| match column.data_type() {
            DataType::Int64 => i128::from(column.as_primitive::<types::Int64Type>().value(row)),
            DataType::UInt64 => i128::from(column.as_primitive::<UInt64Type>().value(row)),
            _ => column.as_primitive::<types::Decimal128Type>().value(row),
        })?;
        Some(Self { sum, seen: true, input: PhantomData })
    }
}

/// Sums as a column of type `output`; one that does not fit is an error.
fn sums_as(sums: impl Iterator<Item = Option<i128>>, output: &DataType) -> Result<ArrayRef, ExecError> {
    let misfit = |_| overflow("sum", output);
    Ok(match output {
        DataType::Int64 => Arc::new(
            sums.map(|sum| sum.map(i64::try_from).transpose().map_err(misfit)).collect::<Result<Int64Array, _>>()?,
        ),
        DataType::UInt64 => Arc::new(
            sums.map(|sum| sum.map(u64::try_from).transpose().map_err(misfit)).collect::<Result<UInt64Array, _>>()?,
        ),
        _ => decimal128(sums, output)?,
    })
}

/// Sums as a 128-bit decimal column of type `output`; a sum of more digits is an error.
fn decimal128(sums: impl Iterator<Item = Option<i128>>, output: &DataType) -> Result<ArrayRef, ExecError> {
    let DataType::Decimal128(precision, scale) = *output else {
        unreachable!("sums of integers and decimals are typed by `supports`");
    };
    let fits = |sum: i128| types::Decimal128Type::is_valid_decimal_precision(sum, precision);
    let sums = sums
        .map(|sum| match sum {
            Some(sum) if !fits(sum) => Err(overflow("sum", output)),
            sum => Ok(sum),
        })
        .collect::<Result<Decimal128Array, _>>()?;
    Ok(Arc::new(sums.with_precision_and_scale(precision, scale)?))
}

/// Least and greatest value that [`ShortSum`] and [`ShortAvg`] may be given: so many rows as [`SHORT_ROWS`] cannot overflow 64 bits.
pub(crate) const SHORT_VALUES: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);
/// Rows that may go into the short states of an aggregation, all groups together.
pub(crate) const SHORT_ROWS: u64 = u32::MAX as u64;

/// [`SumInteger`] in 8 bytes: of values within [`SHORT_VALUES`], none of them NULL.
#[repr(C, packed)]
pub(crate) struct ShortSum<T> {
    sum: i64,
    input: PhantomData<T>,
}

// Not derived: that would ask for a `T` that is `Copy`, of which there is no value here.
impl<T> Clone for ShortSum<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ShortSum<T> {}

impl<T: WideInteger> Accumulator for ShortSum<T> {
    type Input = T;

    #[inline(always)]
    fn add(&mut self, value: T::Native) {
        self.sum += T::wide(value) as i64;
    }

    const TAKES: Takes = Takes::Integers;

    fn add_integers(&mut self, sum: i64, count: u64) {
        debug_assert!(count > 0);
        self.sum += sum;
    }

    #[inline(always)]
    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
    }

    fn results(states: &[Self], output: &DataType) -> Result<ArrayRef, ExecError> {
        let wide = |s: &Self| SumInteger::<T> { sum: i128::from(s.sum), seen: true, input: PhantomData };
        SumInteger::results(&states.iter().map(wide).collect::<Vec<_>>(), output)
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let wide = SumInteger::<T>::from_columns(columns, row)?;
        Some(Self { sum: wide.sum as i64, input: PhantomData })
    }
}

/// Sum of 128-bit decimals of more than 18 digits.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(crate) struct SumDecimal {
    sum: i256,
    seen: bool,
}

impl Accumulator for SumDecimal {
    type Input = types::Decimal128Type;

    #[inline(always)]
    fn add(&mut self, value: i128) {
        self.sum = { self.sum }.wrapping_add(i256::from_i128(value));
        self.seen = true;
    }

    const TAKES: Takes = Takes::Integers;

    fn add_integers(&mut self, sum: i64, count: u64) {
        debug_assert!(count > 0);
        self.add(i128::from(sum));
    }

    fn merge(&mut self, other: &Self) {
        self.sum = { self.sum }.wrapping_add(other.sum);
        self.seen |= other.seen;
    }

    fn results(states: &[Self], output: &DataType) -> Result<ArrayRef, ExecError> {
        let narrow = |s: &Self| match (s.seen, { s.sum }.to_i128()) {
            (false, _) => Ok(None),
            (true, Some(sum)) => Ok(Some(sum)),
            (true, None) => Err(overflow("sum", output)),
        };
        let sums = states.iter().map(narrow).collect::<Result<Vec<_>, _>>()?;
        sums_as(sums.into_iter(), output)
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let column = columns[0].as_primitive::<types::Decimal128Type>();
        column.is_valid(row).then(|| Self { sum: i256::from_i128(column.value(row)), seen: true })
    }
}

/// Average of decimals as a float: the exact sum, divided at the end. In the place of its type stands that of the sum, of which it needs the scale.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(crate) struct AvgDecimal {
    sum: i256,
    count: u64,
}

impl Accumulator for AvgDecimal {
    type Input = types::Decimal128Type;

    #[inline(always)]
    fn add(&mut self, value: i128) {
        self.sum = { self.sum }.wrapping_add(i256::from_i128(value));
        self.count += 1;
    }

    const TAKES: Takes = Takes::Integers;

    fn add_integers(&mut self, sum: i64, count: u64) {
        self.sum = { self.sum }.wrapping_add(i256::from_i128(i128::from(sum)));
        self.count += count;
    }

    fn merge(&mut self, other: &Self) {
        self.sum = { self.sum }.wrapping_add(other.sum);
        self.count += other.count;
    }

    fn results(states: &[Self], summed: &DataType) -> Result<ArrayRef, ExecError> {
        let scale = scale_of(summed);
        let average = |s: &Self| (s.count > 0).then(|| average_of_decimals(s.sum, s.count, scale));
        Ok(Arc::new(states.iter().map(average).collect::<Float64Array>()))
    }

    fn to_columns(states: &[Self], summed: &DataType) -> Result<Vec<ArrayRef>, ExecError> {
        let counts = states.iter().map(|s| Some(s.count)).collect::<UInt64Array>();
        let sum = |s: &Self| { s.sum }.to_i128().ok_or_else(|| overflow("avg", summed));
        let sums = states.iter().map(|s| sum(s).map(Some)).collect::<Result<Decimal128Array, _>>()?;
        Ok(vec![Arc::new(counts), Arc::new(sums.with_data_type(summed.clone()))])
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let count = columns[0].as_primitive::<UInt64Type>();
        let sum = columns[1].as_primitive::<types::Decimal128Type>();
        sum.is_valid(row).then(|| Self { sum: i256::from_i128(sum.value(row)), count: count.value(row) })
    }
}

/// [`AvgDecimal`] in 16 bytes: of values within [`SHORT_VALUES`], none of them NULL.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(crate) struct ShortAvg {
    sum: i64,
    count: u64,
}

impl ShortAvg {
    fn wide(&self) -> AvgDecimal {
        AvgDecimal { sum: i256::from_i128(i128::from(self.sum)), count: self.count }
    }
}

impl Accumulator for ShortAvg {
    type Input = types::Decimal128Type;

    #[inline(always)]
    fn add(&mut self, value: i128) {
        self.sum += value as i64;
        self.count += 1;
    }

    const TAKES: Takes = Takes::Integers;

    fn add_integers(&mut self, sum: i64, count: u64) {
        self.sum += sum;
        self.count += count;
    }

    #[inline(always)]
    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    fn results(states: &[Self], summed: &DataType) -> Result<ArrayRef, ExecError> {
        AvgDecimal::results(&states.iter().map(Self::wide).collect::<Vec<_>>(), summed)
    }

    fn to_columns(states: &[Self], summed: &DataType) -> Result<Vec<ArrayRef>, ExecError> {
        let counts = states.iter().map(|s| Some(s.count)).collect::<UInt64Array>();
        let sums = states.iter().map(|s| Some(i128::from(s.sum))).collect::<Decimal128Array>();
        Ok(vec![Arc::new(counts), Arc::new(sums.with_data_type(summed.clone()))])
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let wide = AvgDecimal::from_columns(columns, row)?;
        Some(Self { sum: { wide.sum }.to_i128()? as i64, count: wide.count })
    }
}

/// Average of integers of up to 64 bits as a float: the exact sum, divided at the end. 2^64 rows fit.
#[repr(C, packed)]
pub(crate) struct AvgInteger<T> {
    sum: i128,
    count: u64,
    input: PhantomData<T>,
}

// Not derived: that would ask for a `T` that is `Copy`, of which there is no value here.
impl<T> Clone for AvgInteger<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for AvgInteger<T> {}

impl<T: WideInteger> Accumulator for AvgInteger<T> {
    type Input = T;

    #[inline(always)]
    fn add(&mut self, value: T::Native) {
        self.sum = self.sum.wrapping_add(T::wide(value));
        self.count += 1;
    }

    const TAKES: Takes = Takes::Integers;

    fn add_integers(&mut self, sum: i64, count: u64) {
        self.sum = self.sum.wrapping_add(i128::from(sum));
        self.count += count;
    }

    #[inline(always)]
    fn merge(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.count += other.count;
    }

    fn results(states: &[Self], _output: &DataType) -> Result<ArrayRef, ExecError> {
        let average = |s: &Self| (s.count > 0).then(|| s.sum as f64 / s.count as f64);
        Ok(Arc::new(states.iter().map(average).collect::<Float64Array>()))
    }

    fn to_columns(states: &[Self], _output: &DataType) -> Result<Vec<ArrayRef>, ExecError> {
        let counts = states.iter().map(|s| Some(s.count)).collect::<UInt64Array>();
        let sums = states.iter().map(|s| Some(s.sum)).collect::<Decimal128Array>();
        Ok(vec![Arc::new(counts), Arc::new(sums.with_data_type(SUMMED_INTEGERS))])
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let count = columns[0].as_primitive::<UInt64Type>();
        let sum = columns[1].as_primitive::<types::Decimal128Type>();
        sum.is_valid(row).then(|| Self { sum: sum.value(row), count: count.value(row), input: PhantomData })
    }
}

/// The type of the sum of which an average of integers is made.
pub(crate) const SUMMED_INTEGERS: DataType = DataType::Decimal128(38, 0);

/// The type of the sum of which an average of decimals of type `value` is made.
pub(crate) fn summed_decimals(value: &DataType) -> DataType {
    DataType::Decimal128(38, scale_of(value))
}

fn scale_of(data_type: &DataType) -> i8 {
    let DataType::Decimal128(_, scale) = *data_type else {
        unreachable!("averages of decimals are typed by `supports`");
    };
    scale
}

/// The average of `count` decimals with `scale` digits after the point, whose sum without the point is `sum`.
///
/// The divisor takes the point in: where the sum and it have at most 53 bits, the result is the float that is nearest to the average.
pub fn average_of_decimals(sum: i256, count: u64, scale: i8) -> f64 {
    let sum = match sum.to_i128() {
        Some(sum) => sum as f64,
        None => {
            let (low, high) = sum.to_parts();
            high as f64 * 2f64.powi(128) + low as f64
        }
    };
    sum / (count as f64 * 10f64.powi(i32::from(scale)))
}

/// Sum and average of 64-bit floats.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(crate) struct SumFloat<const AVG: bool> {
    sum: f64,
    count: u64,
}

impl<const AVG: bool> Accumulator for SumFloat<AVG> {
    type Input = Float64Type;

    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    const TAKES: Takes = Takes::Floats;

    fn add_floats(&mut self, sum: f64, count: u64) {
        self.sum += sum;
        self.count += count;
    }

    #[inline(always)]
    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    fn results(states: &[Self], _output: &DataType) -> Result<ArrayRef, ExecError> {
        let result = |s: &Self| (s.count > 0).then(|| if AVG { s.sum / s.count as f64 } else { s.sum });
        Ok(Arc::new(states.iter().map(result).collect::<Float64Array>()))
    }

    fn to_columns(states: &[Self], output: &DataType) -> Result<Vec<ArrayRef>, ExecError> {
        if !AVG {
            return Ok(vec![Self::results(states, output)?]);
        }
        let sums = states.iter().map(|s| (s.count > 0).then_some(s.sum)).collect::<Float64Array>();
        let counts = states.iter().map(|s| Some(s.count)).collect::<UInt64Array>();
        Ok(vec![Arc::new(counts), Arc::new(sums)])
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let sum = columns[usize::from(AVG)].as_primitive::<Float64Type>();
        let count = if AVG { columns[0].as_primitive::<UInt64Type>().value(row) } else { 1 };
        sum.is_valid(row).then(|| Self { sum: sum.value(row), count })
    }
}

/// [`SumFloat`] in 8 bytes: of values none of which is NULL.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(crate) struct ShortSumFloat {
    sum: f64,
}

impl Accumulator for ShortSumFloat {
    type Input = Float64Type;

    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.sum += value;
    }

    const TAKES: Takes = Takes::Floats;

    fn add_floats(&mut self, sum: f64, count: u64) {
        debug_assert!(count > 0);
        self.sum += sum;
    }

    #[inline(always)]
    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
    }

    fn results(states: &[Self], _output: &DataType) -> Result<ArrayRef, ExecError> {
        Ok(Arc::new(Float64Array::from_iter_values(states.iter().map(|state| state.sum))))
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let sum = columns[0].as_primitive::<Float64Type>();
        sum.is_valid(row).then(|| Self { sum: sum.value(row) })
    }
}

/// `bit_and`, `bit_or` and `bit_xor` of integers, as 64 bits.
#[repr(C, packed)]
pub(crate) struct Bits<T, const OP: u8> {
    bits: u64,
    seen: bool,
    input: PhantomData<T>,
}

// Not derived: that would ask for a `T` that is `Copy`, of which there is no value here.
impl<T, const OP: u8> Clone for Bits<T, OP> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const OP: u8> Copy for Bits<T, OP> {}

/// [`Bits`] that all values have.
pub(crate) const BITS_AND: u8 = 0;
/// [`Bits`] that some value has.
pub(crate) const BITS_OR: u8 = 1;
/// [`Bits`] that an odd number of values have.
pub(crate) const BITS_XOR: u8 = 2;

impl<T: WideInteger, const OP: u8> Bits<T, OP> {
    #[inline(always)]
    fn join(&mut self, bits: u64) {
        self.bits = match (OP, self.seen) {
            (_, false) => bits,
            (BITS_AND, _) => self.bits & bits,
            (BITS_OR, _) => self.bits | bits,
            _ => self.bits ^ bits,
        };
        self.seen = true;
    }
}

impl<T: WideInteger, const OP: u8> Accumulator for Bits<T, OP> {
    type Input = T;

    #[inline(always)]
    fn add(&mut self, value: T::Native) {
        self.join(T::wide(value) as u64);
    }

    fn merge(&mut self, other: &Self) {
        if other.seen {
            self.join(other.bits);
        }
    }

    fn results(states: &[Self], output: &DataType) -> Result<ArrayRef, ExecError> {
        // The low bits are those of the value, whatever its width and sign.
        let narrow = states.iter().map(|s| s.seen.then(|| T::narrow(s.bits)));
        Ok(Arc::new(narrow.collect::<PrimitiveArray<T>>().with_data_type(output.clone())))
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let column = columns[0].as_primitive::<T>();
        column.is_valid(row).then(|| Self { bits: T::wide(column.value(row)) as u64, seen: true, input: PhantomData })
    }
}

/// Mean and sum of squared deviations (Welford), merged by Chan's formula.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(crate) struct Variance<const KIND: u8> {
    count: u64,
    mean: f64,
    m2: f64,
}

/// [`Variance`] of a sample.
pub(crate) const VAR_SAMPLE: u8 = 0;
/// [`Variance`] of the population.
pub(crate) const VAR_POPULATION: u8 = 1;
/// Standard deviation of a sample.
pub(crate) const STDDEV_SAMPLE: u8 = 2;
/// Standard deviation of the population.
pub(crate) const STDDEV_POPULATION: u8 = 3;

impl<const KIND: u8> Accumulator for Variance<KIND> {
    type Input = Float64Type;

    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.m2 += delta * (value - self.mean);
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.count += other.count;
        self.mean += delta * b / (a + b);
        self.m2 += other.m2 + delta * delta * a * b / (a + b);
    }

    fn results(states: &[Self], _output: &DataType) -> Result<ArrayRef, ExecError> {
        let result = |s: &Self| {
            let freedom = match KIND {
                VAR_SAMPLE | STDDEV_SAMPLE => s.count.checked_sub(1)?,
                _ => s.count,
            };
            let variance = (freedom > 0).then(|| s.m2 / freedom as f64)?;
            Some(if matches!(KIND, STDDEV_SAMPLE | STDDEV_POPULATION) { variance.sqrt() } else { variance })
        };
        Ok(Arc::new(states.iter().map(result).collect::<Float64Array>()))
    }

    fn to_columns(states: &[Self], _output: &DataType) -> Result<Vec<ArrayRef>, ExecError> {
        Ok(vec![
            Arc::new(states.iter().map(|s| Some(s.count)).collect::<UInt64Array>()),
            Arc::new(states.iter().map(|s| Some(s.mean)).collect::<Float64Array>()),
            Arc::new(states.iter().map(|s| Some(s.m2)).collect::<Float64Array>()),
        ])
    }

    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self> {
        let count = columns[0].as_primitive::<UInt64Type>();
        let float = |c: usize| columns[c].as_primitive::<Float64Type>().value(row);
        (count.is_valid(row) && count.value(row) > 0).then(|| Self {
            count: count.value(row),
            mean: float(1),
            m2: float(2),
        })
    }
}
