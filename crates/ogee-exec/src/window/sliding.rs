//! Aggregates over rows at fixed distances from the current one.
//!
//! Values enter at one end and leave at the other: two stacks keep the aggregate of what is between, with two merges a row on average and without
//! taking anything out of a sum again, which would be wrong for floats and impossible for extrema (Tangwongsan et al., General incremental
//! sliding-window aggregation, PVLDB 2015, call it two-stacks).

use std::{collections::VecDeque, sync::Arc};

use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_schema::DataType;

use super::{
    fold::Fold,
    results::Results,
    state::{Piece, WindowState, stretches},
};
use crate::ExecError;

/// A queue of aggregates of one value each, and the aggregate of all of them.
#[derive(Default)]
pub(super) struct TwoStacks<T> {
    /// Each of its own value and of all below it, which are later ones.
    front: Vec<T>,
    back: Vec<T>,
    /// Of all in `back`.
    back_sum: T,
}

impl<T: Fold> TwoStacks<T> {
    pub(super) fn push(&mut self, value: T) -> Result<(), ExecError> {
        self.back_sum = self.back_sum.merge(&value)?;
        self.back.push(value);
        Ok(())
    }

    /// Adds a value that never leaves.
    pub(super) fn add(&mut self, value: &T) -> Result<(), ExecError> {
        self.back_sum = self.back_sum.merge(value)?;
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Result<(), ExecError> {
        if self.front.is_empty() {
            while let Some(value) = self.back.pop() {
                let sum = match self.front.last() {
                    Some(later) => value.merge(later)?,
                    None => value,
                };
                self.front.push(sum);
            }
            self.back_sum = T::default();
        }
        self.front.pop();
        Ok(())
    }

    pub(super) fn sum(&self) -> Result<T, ExecError> {
        match self.front.last() {
            Some(front) => front.merge(&self.back_sum),
            None => Ok(self.back_sum.clone()),
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        (self.front.capacity() + self.back.capacity()) * size_of::<T>()
    }

    pub(super) fn clear(&mut self) {
        self.front.clear();
        self.back.clear();
        self.back_sum = T::default();
    }
}

/// An aggregate over the rows from `start` to `end`, counted from the current one.
pub(super) struct Sliding<T> {
    start: Option<i64>,
    end: i64,
    data_type: DataType,
    /// Values within what the next row sees, but for those that it does not see any more.
    seen: TwoStacks<T>,
    /// The row that the first of them is of; rows count from the partition's first.
    first: i64,
    /// Values after those, of which no row sees any yet: where frames end before their row.
    held: VecDeque<T>,
    /// The partition's rows so far, and those that have their values.
    rows: i64,
    done: i64,
}

impl<T: Fold> Sliding<T> {
    pub(super) fn new(start: Option<i64>, end: i64, data_type: DataType) -> Self {
        Self { start, end, data_type, seen: TwoStacks::default(), first: 0, held: VecDeque::new(), rows: 0, done: 0 }
    }

    /// The aggregate for the next row: all that it sees of its partition has come.
    fn next(&mut self) -> Result<T, ExecError> {
        let end = self.done.saturating_add(self.end);
        let start = self.start.map_or(0, |start| self.done.saturating_add(start));
        // The first of `held` is of row `rows - held`.
        while self.rows - (self.held.len() as i64) <= end
            && let Some(value) = self.held.pop_front()
        {
            match self.start {
                Some(_) => self.seen.push(value)?,
                // Nothing ever leaves: the sum will do.
                None => self.seen.add(&value)?,
            }
        }
        while self.start.is_some() && self.first < start.min(self.rows - self.held.len() as i64) {
            self.seen.pop()?;
            self.first += 1;
        }
        self.done += 1;
        self.seen.sum()
    }
}

impl<T: Fold> WindowState for Sliding<T> {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let column = T::open(columns);
        let mut values = Vec::with_capacity(piece.rows);
        for partition in stretches(piece.rows, piece.partitions, piece.last) {
            if partition.begins {
                self.seen.clear();
                self.held.clear();
                (self.first, self.rows, self.done) = (0, 0, 0);
            }
            for row in partition.start..partition.end {
                let mut value = T::default();
                value.add(&column, row)?;
                self.held.push_back(value);
                self.rows += 1;
                // A row needs to be there itself, and what it sees after it.
                if self.done.saturating_add(self.end.max(0)) < self.rows {
                    values.push(self.next()?.value()?);
                }
            }
            while partition.ends && self.done < self.rows {
                values.push(self.next()?.value()?);
            }
        }
        let values = PrimitiveArray::<T::Output>::from_iter(values);
        results.push(Arc::new(values.with_data_type(self.data_type.clone())));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.seen.bytes() + self.held.capacity() * size_of::<T>()
    }
}
