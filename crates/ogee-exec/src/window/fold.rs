//! Aggregates from the partition's first row on: one running state, whose value is given to each row, or at the end of what its rows see.

use std::{marker::PhantomData, sync::Arc};

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, cast::AsArray, downcast_primitive, types};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;
use ogee_vector::is_less;

use super::{
    Extent, Frame, Which, WindowCall, WindowFunction as F,
    framed::{ChosenState, Framed},
    results::Results,
    sliding::Sliding,
    state::{Piece, WindowState, stretches},
    text::TextExtremum,
};
use crate::{ExecError, aggregate::average_of_decimals};

/// A running aggregate.
pub(super) trait Fold: Default + Clone + Send {
    type Output: ArrowPrimitiveType;
    /// What it reads of a piece.
    type Column<'a>;
    fn open(columns: &[ArrayRef]) -> Self::Column<'_>;
    fn add(&mut self, column: &Self::Column<'_>, row: usize) -> Result<(), ExecError>;
    fn value(&self) -> Result<Option<<Self::Output as ArrowPrimitiveType>::Native>, ExecError>;
    /// Of the values of both, this one's first.
    fn merge(&self, other: &Self) -> Result<Self, ExecError>;
}

/// The state for `call`, an aggregate; `None` if there is none for its types.
pub(crate) fn state(call: &WindowCall, extent: Extent) -> Option<Box<dyn WindowState>> {
    fn folded<T: Fold + 'static>(call: &WindowCall, extent: Extent) -> Option<Box<dyn WindowState>> {
        let data_type = call.output.clone();
        if let Extent::Rows { start, end } = extent {
            return Some(Box::new(Sliding::<T>::new(start, end, data_type)));
        }
        if let Extent::Frame(frame) = extent {
            return Some(Box::new(Framed::<T>::new(frame, data_type)));
        }
        Some(Box::new(Folded::<T> { extent, data_type, fold: T::default(), waiting: 0 }))
    }
    let arg = call.arg.as_ref().map_or(&DataType::Null, |(_, data_type)| data_type);
    match (&call.function, arg, &call.output) {
        (F::Count(_), _, DataType::Int64) => folded::<Count>(call, extent),
        (F::Sum(_), DataType::Int64, DataType::Int64) => folded::<SumInteger<types::Int64Type>>(call, extent),
        (F::Sum(_), DataType::UInt64, DataType::UInt64) => folded::<SumInteger<types::UInt64Type>>(call, extent),
        (F::Sum(_), DataType::Float64, DataType::Float64) => folded::<SumFloat>(call, extent),
        (F::Sum(_), DataType::Decimal128(_, from), DataType::Decimal128(_, to)) if from == to => {
            folded::<SumInteger<types::Decimal128Type>>(call, extent)
        }
        (F::Avg(_), DataType::Float64, DataType::Float64) => folded::<AvgFloat>(call, extent),
        (F::Avg(_), DataType::Decimal128(..), DataType::Float64) => folded::<AvgDecimal>(call, extent),
        (F::Min(_) | F::Max(_), arg, output) if arg == output => {
            let max = matches!(call.function, F::Max(_));
            let frame = match extent {
                Extent::Rows { start, end } => Some(Frame::of_rows(start, end)),
                Extent::Frame(frame) => Some(frame),
                _ => None,
            };
            match arg {
                DataType::Utf8View | DataType::BinaryView if let Some(frame) = frame => {
                    let which = if max { Which::Greatest } else { Which::Least };
                    return Some(Box::new(ChosenState::new(frame, which, true)));
                }
                DataType::Utf8View => return Some(Box::new(TextExtremum::<types::StringViewType>::new(extent, max))),
                DataType::BinaryView => return Some(Box::new(TextExtremum::<types::BinaryViewType>::new(extent, max))),
                _ => {}
            }
            macro_rules! extremum {
                ($t:ty) => {
                    if max {
                        folded::<Extremum<$t, true>>(call, extent)
                    } else {
                        folded::<Extremum<$t, false>>(call, extent)
                    }
                };
            }
            downcast_primitive! {
                arg => (extremum),
                _ => None
            }
        }
        _ => None,
    }
}

struct Folded<T> {
    extent: Extent,
    data_type: DataType,
    fold: T,
    /// Rows that are in the state and wait for its value.
    waiting: usize,
}

impl<T: Fold> WindowState for Folded<T> {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let column = T::open(columns);
        let values = |values: Vec<_>| -> ArrayRef {
            let values = PrimitiveArray::<T::Output>::from_iter(values);
            Arc::new(values.with_data_type(self.data_type.clone()))
        };
        if self.extent == Extent::Row {
            let mut all = Vec::with_capacity(piece.rows);
            for partition in stretches(piece.rows, piece.partitions, piece.last) {
                if partition.begins {
                    self.fold = T::default();
                }
                for row in partition.start..partition.end {
                    self.fold.add(&column, row)?;
                    all.push(self.fold.value()?);
                }
            }
            results.push(values(all));
            return Ok(());
        }
        // Others are `Sliding`.
        let starts = if self.extent == Extent::Peers { piece.peers } else { piece.partitions };
        let (mut all, mut counts) = (Vec::with_capacity(starts.len()), Vec::with_capacity(starts.len()));
        let mut partitions = piece.partitions.iter().peekable();
        for stretch in stretches(piece.rows, starts, piece.last) {
            if partitions.next_if(|&&start| start == stretch.start && stretch.begins).is_some() {
                self.fold = T::default();
            }
            for row in stretch.start..stretch.end {
                self.fold.add(&column, row)?;
            }
            self.waiting += stretch.end - stretch.start;
            if stretch.ends && self.waiting > 0 {
                all.push(self.fold.value()?);
                counts.push(std::mem::take(&mut self.waiting));
            }
        }
        results.push_runs(values(all), counts);
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Count(i64);

impl Fold for Count {
    type Output = types::Int64Type;
    type Column<'a> = Option<NullBuffer>;

    fn open(columns: &[ArrayRef]) -> Option<NullBuffer> {
        columns.first().and_then(|column| column.logical_nulls())
    }

    fn add(&mut self, column: &Option<NullBuffer>, row: usize) -> Result<(), ExecError> {
        self.0 += i64::from(column.as_ref().is_none_or(|nulls| nulls.is_valid(row)));
        Ok(())
    }

    fn value(&self) -> Result<Option<i64>, ExecError> {
        Ok(Some(self.0))
    }

    fn merge(&self, other: &Self) -> Result<Self, ExecError> {
        Ok(Self(self.0 + other.0))
    }
}

/// An integer that a sum of 128 bits is given out as.
trait Summand: ArrowPrimitiveType {
    const NAME: &'static str;
    fn widen(value: Self::Native) -> i128;
    fn narrow(sum: i128) -> Option<Self::Native>;
}

impl Summand for types::Int64Type {
    const NAME: &'static str = "Int64";
    fn widen(value: i64) -> i128 {
        value.into()
    }
    fn narrow(sum: i128) -> Option<i64> {
        sum.try_into().ok()
    }
}

impl Summand for types::UInt64Type {
    const NAME: &'static str = "UInt64";
    fn widen(value: u64) -> i128 {
        value.into()
    }
    fn narrow(sum: i128) -> Option<u64> {
        sum.try_into().ok()
    }
}

impl Summand for types::Decimal128Type {
    const NAME: &'static str = "Decimal128(38)";
    fn widen(value: i128) -> i128 {
        value
    }
    fn narrow(sum: i128) -> Option<i128> {
        (sum.unsigned_abs() < 10_u128.pow(38)).then_some(sum)
    }
}

struct SumInteger<T> {
    sum: i128,
    any: bool,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for SumInteger<T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T> Default for SumInteger<T> {
    fn default() -> Self {
        Self { sum: 0, any: false, of: PhantomData }
    }
}

fn overflow<T: Summand>() -> ExecError {
    ExecError::Overflow { operation: "sum", data_type: T::NAME.to_owned() }
}

impl<T: Summand> Fold for SumInteger<T> {
    type Output = T;
    type Column<'a> = &'a PrimitiveArray<T>;

    fn open(columns: &[ArrayRef]) -> &PrimitiveArray<T> {
        columns[0].as_primitive()
    }

    fn add(&mut self, column: &&PrimitiveArray<T>, row: usize) -> Result<(), ExecError> {
        if column.is_valid(row) {
            self.sum = self.sum.checked_add(T::widen(column.value(row))).ok_or_else(overflow::<T>)?;
            self.any = true;
        }
        Ok(())
    }

    fn value(&self) -> Result<Option<T::Native>, ExecError> {
        if self.any { T::narrow(self.sum).map(Some).ok_or_else(overflow::<T>) } else { Ok(None) }
    }

    fn merge(&self, other: &Self) -> Result<Self, ExecError> {
        let sum = self.sum.checked_add(other.sum).ok_or_else(overflow::<T>)?;
        Ok(Self { sum, any: self.any | other.any, of: PhantomData })
    }
}

#[derive(Clone, Default)]
struct SumFloat {
    sum: f64,
    count: u64,
}

impl Fold for SumFloat {
    type Output = types::Float64Type;
    type Column<'a> = &'a PrimitiveArray<types::Float64Type>;

    fn open(columns: &[ArrayRef]) -> &PrimitiveArray<types::Float64Type> {
        columns[0].as_primitive()
    }

    fn add(&mut self, column: &&PrimitiveArray<types::Float64Type>, row: usize) -> Result<(), ExecError> {
        if column.is_valid(row) {
            self.sum += column.value(row);
            self.count += 1;
        }
        Ok(())
    }

    fn value(&self) -> Result<Option<f64>, ExecError> {
        Ok((self.count > 0).then_some(self.sum))
    }

    fn merge(&self, other: &Self) -> Result<Self, ExecError> {
        Ok(Self { sum: self.sum + other.sum, count: self.count + other.count })
    }
}

#[derive(Clone, Default)]
struct AvgFloat(SumFloat);

impl Fold for AvgFloat {
    type Output = types::Float64Type;
    type Column<'a> = &'a PrimitiveArray<types::Float64Type>;

    fn open(columns: &[ArrayRef]) -> &PrimitiveArray<types::Float64Type> {
        SumFloat::open(columns)
    }

    fn add(&mut self, column: &&PrimitiveArray<types::Float64Type>, row: usize) -> Result<(), ExecError> {
        self.0.add(column, row)
    }

    fn value(&self) -> Result<Option<f64>, ExecError> {
        Ok((self.0.count > 0).then(|| self.0.sum / self.0.count as f64))
    }

    fn merge(&self, other: &Self) -> Result<Self, ExecError> {
        self.0.merge(&other.0).map(Self)
    }
}

/// As the aggregate of that name does, the exact sum is divided at the end.
#[derive(Clone, Default)]
struct AvgDecimal {
    sum: i256,
    count: u64,
    /// Of the values; 0 as long as there are none.
    scale: i8,
}

impl Fold for AvgDecimal {
    type Output = types::Float64Type;
    type Column<'a> = &'a PrimitiveArray<types::Decimal128Type>;

    fn open(columns: &[ArrayRef]) -> &PrimitiveArray<types::Decimal128Type> {
        columns[0].as_primitive()
    }

    fn add(&mut self, column: &&PrimitiveArray<types::Decimal128Type>, row: usize) -> Result<(), ExecError> {
        if column.is_valid(row) {
            self.sum = self.sum.wrapping_add(i256::from_i128(column.value(row)));
            self.count += 1;
            self.scale = column.scale();
        }
        Ok(())
    }

    fn value(&self) -> Result<Option<f64>, ExecError> {
        Ok((self.count > 0).then(|| average_of_decimals(self.sum, self.count, self.scale)))
    }

    fn merge(&self, other: &Self) -> Result<Self, ExecError> {
        let scale = if self.count > 0 { self.scale } else { other.scale };
        Ok(Self { sum: self.sum.wrapping_add(other.sum), count: self.count + other.count, scale })
    }
}

/// The greatest value, or the least.
struct Extremum<T: ArrowPrimitiveType, const MAX: bool>(Option<T::Native>);

impl<T: ArrowPrimitiveType, const MAX: bool> Clone for Extremum<T, MAX> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<T: ArrowPrimitiveType, const MAX: bool> Extremum<T, MAX> {
    fn take(&mut self, value: T::Native) {
        if self.0.is_none_or(|best| if MAX { is_less(best, value) } else { is_less(value, best) }) {
            self.0 = Some(value);
        }
    }
}

impl<T: ArrowPrimitiveType, const MAX: bool> Default for Extremum<T, MAX> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: ArrowPrimitiveType, const MAX: bool> Fold for Extremum<T, MAX> {
    type Output = T;
    type Column<'a> = &'a PrimitiveArray<T>;

    fn open(columns: &[ArrayRef]) -> &PrimitiveArray<T> {
        columns[0].as_primitive()
    }

    fn add(&mut self, column: &&PrimitiveArray<T>, row: usize) -> Result<(), ExecError> {
        if column.is_valid(row) {
            self.take(column.value(row));
        }
        Ok(())
    }

    fn value(&self) -> Result<Option<T::Native>, ExecError> {
        Ok(self.0)
    }
    fn merge(&self, other: &Self) -> Result<Self, ExecError> {
        let mut both = self.clone();
        if let Some(value) = other.0 {
            both.take(value);
        }
        Ok(both)
    }
}
