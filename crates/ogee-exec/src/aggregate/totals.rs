//! What the rows of a chunk come to in each of few groups.
//!
//! Where a state is changed once for each row, rows of one group wait for one another: a sum is loaded from where it was stored just before. Of few
//! groups values are therefore added up apart from the groups' rows, and what comes of a chunk is added to a state once. Of integers up to eight groups are
//! told apart by comparing their numbers, a vector of rows at a time; otherwise there are four copies of the sums, so that neighbours do not meet.
//!
//! Sums of integers are 64 bits: that they cannot overflow is seen from the values of the chunk, and of others there are none here.
//!
//! Not here: which group a row is of (`lookup`), and what a state does with a sum (`kernel`).

use std::ops::AddAssign;

use arrow_array::{Array, ArrayRef, cast::AsArray, types::Float64Type};
use arrow_schema::DataType;
use ogee_vector::{
    BitsUsed, Column, Integer, Kernel as Dispatched, PhysicalType, VectorError, Widened, dispatch, integer_values,
};

use super::kernel::Kernel;

/// Groups that a chunk is added up for: their numbers are bytes, and [`UNKNOWN`] is none of them.
pub(crate) const FEW: usize = UNKNOWN as usize;
/// The number of no group.
pub(crate) const UNKNOWN: u8 = u8::MAX;
/// Groups that are compared one after the other: four take about as long as it takes to find the place of a sum for each row.
const COMPARED: usize = 8;
/// Groups that are compared in one pass over the values.
const TOGETHER: usize = 4;
/// Sums that a loop adds to at once: a vector of the widest.
const WIDTH: usize = 8;
/// Copies of all sums for neighbours that may be of one group.
const COPIES: usize = 4;
/// A chunk has at least so many rows for each group, or the sums are more work than the rows.
const ROWS_MIN: usize = 8;
/// Where the count of rows begins in a number that has a sum below it.
const COUNT_SHIFT: u32 = 44;

/// What a kernel can do with all rows of a chunk that are of one group, none of them NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Only one value after the other.
    Values,
    /// Their number.
    Counts,
    /// Their number, and the sum of what are integers of some type.
    Integers,
    /// Their number, and the sum of floats.
    Floats,
}

/// Sums by number of the group.
pub(crate) enum Totals {
    None,
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

/// The groups of a chunk's rows, and what was added up for them.
#[derive(Default)]
pub(crate) struct FewGroups {
    /// The group of each row by number; none if there is only one.
    pub(crate) numbers: Vec<u8>,
    /// The address of each group's row.
    pub(crate) groups: Vec<u64>,
    rows: usize,
    /// Rows of each group, once somebody asked.
    counts: Vec<u64>,
    /// The address of each row's group, once somebody asked.
    addresses: Vec<u64>,
    /// The sums of an input of the plan; `None` if they may not fit.
    totals: Vec<(usize, Option<Totals>)>,
    wide: Vec<i64>,
}

impl FewGroups {
    /// Whether it is worth it for `rows` rows of `groups` groups.
    pub(crate) fn pays(rows: usize, groups: usize) -> bool {
        groups <= FEW && rows >= ROWS_MIN * groups
    }

    /// Begins with `rows` rows, whose groups are there.
    pub(crate) fn begin(&mut self, rows: usize) {
        self.rows = rows;
        self.totals.clear();
        self.counts.clear();
        self.addresses.clear();
    }

    /// The address of each row's group, of more than one.
    pub(crate) fn addresses(&mut self) -> &[u64] {
        if self.addresses.is_empty() {
            self.addresses.extend(self.numbers.iter().map(|&number| self.groups[usize::from(number)]));
        }
        &self.addresses
    }

    /// Sees that `counts` are there.
    fn count(&mut self) {
        if !self.counts.is_empty() {
            return;
        }
        self.counts.resize(self.groups.len(), 0);
        match self.groups.len() {
            1 => self.counts[0] = self.rows as u64,
            groups if groups <= COMPARED => {
                for (number, count) in self.counts.iter_mut().enumerate() {
                    *count = dispatch(Count { numbers: &self.numbers, number: number as u8 }).into();
                }
            }
            _ => scattered(&self.numbers, &self.numbers, |_| 1, &mut self.counts),
        }
    }

    /// Adds to the states of all groups what the rows come to, whose values are `column`, input `input` of the plan; whether it could.
    ///
    /// # Safety
    /// The groups' rows are of the layout that `kernel` was bound to, on pinned pages, owned by the caller.
    pub(crate) unsafe fn add(
        &mut self,
        kernel: &dyn Kernel,
        input: usize,
        column: &Column,
    ) -> Result<bool, VectorError> {
        let takes = kernel.takes();
        if takes == Takes::Values {
            return Ok(false);
        }
        if column.array.logical_null_count() > 0 {
            return Ok(false);
        }
        if takes != Takes::Counts && !self.totals.iter().any(|(known, _)| *known == input) {
            let totals = self.add_up(&column.flatten()?);
            self.totals.push((input, totals));
        }
        self.count();
        let totals = match takes {
            Takes::Counts => Some(&Totals::None),
            _ => self.totals.iter().find(|(known, _)| *known == input).and_then(|(_, totals)| totals.as_ref()),
        };
        let Some(totals) = totals else { return Ok(false) };
        // SAFETY: the caller vouches for the rows.
        unsafe { kernel.add_totals(totals, &self.counts, &self.groups) };
        Ok(true)
    }

    /// The sums of `array`, which has no NULLs.
    fn add_up(&mut self, array: &ArrayRef) -> Option<Totals> {
        use PhysicalType as P;
        let (numbers, groups) = (self.numbers.as_slice(), self.groups.len());
        if *array.data_type() == DataType::Float64 {
            let values = array.as_primitive::<Float64Type>().values();
            return Some(Totals::Floats(sums(numbers, values, groups)));
        }
        let wide = &mut self.wide;
        let in_place;
        let (bits, values) = match PhysicalType::of(array.data_type()).ok()? {
            P::I64 => {
                in_place = integer_values::<i64>(array);
                (dispatch(BitsUsed { values: &in_place, signed: true }), &*in_place)
            }
            P::I8 => widen::<i8>(array, wide),
            P::I16 => widen::<i16>(array, wide),
            P::I32 => widen::<i32>(array, wide),
            P::U8 => widen::<u8>(array, wide),
            P::U16 => widen::<u16>(array, wide),
            P::U32 => widen::<u32>(array, wide),
            P::U64 => widen::<u64>(array, wide),
            _ if matches!(array.data_type(), DataType::Decimal128(..)) => widen::<i128>(array, wide),
            _ => return None,
        };
        // No value is further from zero than this.
        let farthest = u128::from(bits) + 1;
        let largest = farthest * array.len() as u128;
        if groups > COMPARED && self.counts.is_empty() && largest < 1 << (COUNT_SHIFT - 1) {
            let (sums, counts) = counted_sums(numbers, values, groups);
            self.counts = counts;
            return Some(Totals::Integers(sums));
        }
        (largest <= i64::MAX as u128).then(|| Totals::Integers(integer_sums(numbers, values, groups)))
    }
}

/// The values of `array` in `wide`, and the bits that any of them uses.
fn widen<'a, S: Integer + arrow_buffer::ArrowNativeType>(array: &ArrayRef, wide: &'a mut Vec<i64>) -> (u64, &'a [i64]) {
    wide.resize(array.len(), 0);
    let bits = dispatch(Widened { values: &integer_values::<S>(array), stored: wide });
    (bits, wide)
}

/// The sums of `values` for `groups` groups and the number of values of each, in one pass: the count is above the sum, which has fewer than
/// [`COUNT_SHIFT`] bits, its sign included.
fn counted_sums(numbers: &[u8], values: &[i64], groups: usize) -> (Vec<i64>, Vec<u64>) {
    let mut sums = vec![0; groups];
    scattered(numbers, values, |value| value + (1 << COUNT_SHIFT), &mut sums);
    let take = |sum: &mut i64| {
        let count = (*sum + (1 << (COUNT_SHIFT - 1))) >> COUNT_SHIFT;
        *sum -= count << COUNT_SHIFT;
        count as u64
    };
    let counts = sums.iter_mut().map(take).collect();
    (sums, counts)
}

/// The sums of `values` for `groups` groups, which `numbers` tells apart.
fn integer_sums(numbers: &[u8], values: &[i64], groups: usize) -> Vec<i64> {
    if groups == 1 || groups > COMPARED {
        return sums(numbers, values, groups);
    }
    let mut sums = vec![0; groups.next_multiple_of(TOGETHER)];
    for (block, sums) in sums.chunks_exact_mut(TOGETHER).enumerate() {
        sums.copy_from_slice(&dispatch(Compared { numbers, values, first: (block * TOGETHER) as u8 }));
    }
    sums
}

/// The same for values whose order must not be changed for a loop to be made of vectors.
fn sums<T: Copy + Default + AddAssign>(numbers: &[u8], values: &[T], groups: usize) -> Vec<T> {
    if groups == 1 {
        return vec![dispatch(All { values })];
    }
    let mut sums = vec![T::default(); groups];
    scattered(numbers, values, |value| value, &mut sums);
    sums
}

/// Rows of group `number`.
struct Count<'a> {
    numbers: &'a [u8],
    number: u8,
}

impl Dispatched for Count<'_> {
    type Output = u32;

    #[inline(always)]
    fn run(self) -> u32 {
        self.numbers.iter().map(|&number| u32::from(number == self.number)).sum()
    }
}

/// The sum of all values.
struct All<'a, T> {
    values: &'a [T],
}

impl<T: Copy + Default + AddAssign> Dispatched for All<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run(self) -> T {
        let mut sums = [T::default(); WIDTH];
        let mut blocks = self.values.chunks_exact(WIDTH);
        for values in &mut blocks {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += *value;
            }
        }
        let mut all = T::default();
        sums.iter().chain(blocks.remainder()).for_each(|&sum| all += sum);
        all
    }
}

/// The sums of [`TOGETHER`] groups, from number `first` on.
struct Compared<'a> {
    numbers: &'a [u8],
    values: &'a [i64],
    first: u8,
}

impl Dispatched for Compared<'_> {
    type Output = [i64; TOGETHER];

    #[inline(always)]
    fn run(self) -> [i64; TOGETHER] {
        // Four sums of their own and no choice in the loop, or it is not made of vectors.
        let (mut a, mut b, mut c, mut d) = (0, 0, 0, 0);
        for (&number, &value) in self.numbers.iter().zip(self.values) {
            let group = number.wrapping_sub(self.first);
            a += value & -i64::from(group == 0);
            b += value & -i64::from(group == 1);
            c += value & -i64::from(group == 2);
            d += value & -i64::from(group == 3);
        }
        [a, b, c, d]
    }
}

/// Adds what `added` makes of each of `values` to the sum of its group.
fn scattered<V: Copy, T: Copy + Default + AddAssign>(
    numbers: &[u8],
    values: &[V],
    added: impl Fn(V) -> T,
    sums: &mut [T],
) {
    match sums.len() {
        0..=32 => scattered_among::<32, V, T>(numbers, values, added, sums),
        33..=128 => scattered_among::<128, V, T>(numbers, values, added, sums),
        _ => scattered_among::<256, V, T>(numbers, values, added, sums),
    }
}

/// The same for less than `N` groups: a power of two, so that no number needs a check.
#[inline(always)]
fn scattered_among<const N: usize, V: Copy, T: Copy + Default + AddAssign>(
    numbers: &[u8],
    values: &[V],
    added: impl Fn(V) -> T,
    sums: &mut [T],
) {
    const { assert!(N.is_power_of_two()) };
    let mut copies = [[T::default(); N]; COPIES];
    let mut add = |copy: usize, number: u8, value: V| copies[copy][usize::from(number) & (N - 1)] += added(value);
    let (numbers, last_numbers) = numbers.as_chunks::<COPIES>();
    let (values, last_values) = values.as_chunks::<COPIES>();
    for (numbers, values) in numbers.iter().zip(values) {
        for copy in 0..COPIES {
            add(copy, numbers[copy], values[copy]);
        }
    }
    last_numbers.iter().zip(last_values).for_each(|(&number, &value)| add(0, number, value));
    for copy in copies {
        sums.iter_mut().zip(copy).for_each(|(sum, part)| *sum += part);
    }
}

#[cfg(test)]
mod tests {
    use ogee_vector::{Level, dispatch_at};

    use super::*;

    #[test]
    fn kernels_of_all_widths_give_the_same() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state >> 33
        };
        for rows in (0..=70).chain([2048, 2051]) {
            let values: Vec<i64> = (0..rows).map(|_| next() as i64 - (1 << 30)).collect();
            let floats: Vec<f64> = values.iter().map(|&value| value as f64 / 3.0).collect();
            // Of several groups, all of one, and of none that is asked about.
            let several: Vec<u8> = (0..rows).map(|_| (next() % 6) as u8).collect();
            for numbers in [several, vec![2; rows], vec![255; rows]] {
                for level in Level::available() {
                    let sum_of = |number| {
                        let of_group = numbers.iter().zip(&values).filter(|&(&other, _)| other == number);
                        of_group.map(|(_, value)| value).sum::<i64>()
                    };
                    for number in [0, 2, 255] {
                        let count = numbers.iter().filter(|&&other| other == number).count();
                        let found = dispatch_at(level, Count { numbers: &numbers, number });
                        assert_eq!(found as usize, count, "{level:?}, {rows} rows");
                    }
                    for first in [0, 4] {
                        let expected: [i64; TOGETHER] = std::array::from_fn(|group| sum_of(first + group as u8));
                        let found = dispatch_at(level, Compared { numbers: &numbers, values: &values, first });
                        assert_eq!(found, expected, "{level:?}, {rows} rows");
                    }
                }
            }
            for level in Level::available() {
                assert_eq!(
                    dispatch_at(level, All { values: &values }),
                    values.iter().sum::<i64>(),
                    "{level:?}, {rows} rows"
                );
                let plain = All { values: &floats }.run();
                assert_eq!(dispatch_at(level, All { values: &floats }).to_bits(), plain.to_bits(), "{level:?}");
            }
        }
    }

    #[test]
    fn sums_are_those_of_each_group() {
        for groups in [1, 2, 4, 5, 8, 9, 32, 33, 128, 129, 200, 255] {
            for rows in [0, 1, 7, 8, 100, 2048] {
                let numbers: Vec<u8> = (0..rows).map(|row| (row * 7 % groups) as u8).collect();
                let values: Vec<i64> = (0..rows as i64).map(|row| row * row - 1000).collect();
                let mut expected = vec![0; groups];
                let mut counts = vec![0; groups];
                for (&number, value) in numbers.iter().zip(&values) {
                    expected[usize::from(number)] += value;
                    counts[usize::from(number)] += 1;
                }
                assert_eq!(integer_sums(&numbers, &values, groups)[..groups], expected, "{groups} groups, {rows} rows");
                let floats: Vec<f64> = values.iter().map(|&value| value as f64).collect();
                let expected: Vec<f64> = expected.iter().map(|&sum| sum as f64).collect();
                assert_eq!(sums(&numbers, &floats, groups)[..groups], expected);
                let mut few = FewGroups { numbers, groups: vec![0; groups], ..FewGroups::default() };
                few.begin(rows);
                few.count();
                assert_eq!(few.counts, counts);
                if groups > COMPARED {
                    let numbers = &few.numbers;
                    assert_eq!(
                        counted_sums(numbers, &values, groups),
                        (integer_sums(numbers, &values, groups), counts)
                    );
                }
            }
        }
    }

    #[test]
    fn sums_that_may_not_fit_are_none() {
        use arrow_array::{Decimal128Array, Int64Array};
        let mut few = FewGroups { groups: vec![0], ..FewGroups::default() };
        let mut fits = |array: ArrayRef| few.add_up(&array).is_some();
        assert!(fits(std::sync::Arc::new(Int64Array::from(vec![i64::MAX / 4, 1]))));
        assert!(!fits(std::sync::Arc::new(Int64Array::from(vec![i64::MAX, 1]))));
        assert!(!fits(std::sync::Arc::new(Int64Array::from(vec![i64::MIN, -1]))));
        assert!(fits(std::sync::Arc::new(Decimal128Array::from(vec![1 << 50; 100]))));
        assert!(!fits(std::sync::Arc::new(Decimal128Array::from(vec![1 << 60; 100]))));
        assert!(!fits(std::sync::Arc::new(Decimal128Array::from(vec![1 << 64, 1]))));
    }
}
