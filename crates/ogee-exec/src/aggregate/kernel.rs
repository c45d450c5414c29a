//! What an aggregate does to rows: one virtual call per chunk, typed loops inside.
//!
//! A state is a few bytes in the row, all zero when empty, read and written unaligned. `min`, `max` and `first_value` have no
//! such state: their value is a payload column of the row, set when the group's row is made (see `extremum`).

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, cast::AsArray};
use arrow_schema::DataType;

use super::totals::{Takes, Totals};
use crate::ExecError;

/// The rows whose states are changed: one for each value, or the same for all.
#[derive(Clone, Copy)]
pub(crate) enum Targets<'a> {
    /// Address of the row of each value's group.
    Each(&'a [u64]),
    /// All values belong to one group.
    One(*mut u8),
}

/// An aggregate bound to its place in the row.
pub(crate) trait Kernel: Send + Sync {
    /// Adds the values of `args` to the states of their groups; NULLs do not count.
    ///
    /// # Safety
    /// Targets are rows of the layout that the kernel was bound to, on pinned pages or staged, owned by the caller; in
    /// [`Targets::Each`] there is one for each value.
    unsafe fn update(&self, args: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError>;

    /// What it can do with many rows of a group at once.
    fn takes(&self) -> Takes {
        Takes::Values
    }

    /// Adds to the state of each of `groups`, which are addresses of rows, so many rows as `counts` says; if it takes sums, `totals` has those of their
    /// values, of that kind. Values it must not be given.
    ///
    /// # Safety
    /// As for [`update`](Self::update).
    unsafe fn add_totals(&self, totals: &Totals, counts: &[u64], groups: &[u64]) {
        let _ = (totals, counts, groups);
        unreachable!("it takes values");
    }

    /// Adds states that a partial aggregation put out.
    ///
    /// # Safety
    /// As for [`update`](Self::update).
    unsafe fn merge(&self, states: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError>;

    /// Adds the state of each source row to that of its target row.
    ///
    /// # Safety
    /// As for [`update`](Self::update), for both; no source is a target.
    unsafe fn combine(&self, sources: &[*const u8], targets: &[*mut u8]);

    /// The results of `rows`.
    ///
    /// # Safety
    /// As for [`update`](Self::update).
    unsafe fn results(&self, rows: &[*const u8]) -> Result<ArrayRef, ExecError>;

    /// The states of `rows`, as columns for a later [`merge`](Self::merge).
    ///
    /// # Safety
    /// As for [`update`](Self::update).
    unsafe fn states(&self, rows: &[*const u8]) -> Result<Vec<ArrayRef>, ExecError>;
}

/// A state of fixed size over values of one Arrow type.
pub(crate) trait Accumulator: Copy + Send + Sync + 'static {
    /// Arrow type of the values.
    type Input: ArrowPrimitiveType;

    /// Adds a value. Must leave the all-zero state behind only if that means empty.
    fn add(&mut self, value: <Self::Input as ArrowPrimitiveType>::Native);

    /// Which sums of values it can add at once.
    const TAKES: Takes = Takes::Values;

    /// Adds `count` values, at least one, whose sum is `sum`; only if it takes integers.
    fn add_integers(&mut self, sum: i64, count: u64) {
        unreachable!("{count} values are added one by one, not {sum}");
    }

    /// Adds `count` values, at least one, whose sum is `sum`; only if it takes floats.
    fn add_floats(&mut self, sum: f64, count: u64) {
        unreachable!("{count} values are added one by one, not {sum}");
    }

    /// Adds another state.
    fn merge(&mut self, other: &Self);

    /// The results of `states`, of type `output`.
    fn results(states: &[Self], output: &DataType) -> Result<ArrayRef, ExecError>;

    /// The states as columns, in the order and types in which the front end exchanges them: those of most are their results.
    fn to_columns(states: &[Self], output: &DataType) -> Result<Vec<ArrayRef>, ExecError> {
        Ok(vec![Self::results(states, output)?])
    }

    /// State `row` of columns made by [`to_columns`](Self::to_columns); `None`: nothing was counted.
    fn from_columns(columns: &[ArrayRef], row: usize) -> Option<Self>;
}

/// A kernel that keeps accumulator `A` at `offset` of the row.
pub(crate) struct StateKernel<A> {
    offset: usize,
    output: DataType,
    accumulator: std::marker::PhantomData<A>,
}

impl<A: Accumulator> StateKernel<A> {
    pub(crate) fn new(offset: usize, output: DataType) -> Self {
        Self { offset, output, accumulator: std::marker::PhantomData }
    }

    /// # Safety
    /// `row` is a row of the layout that the kernel was bound to, on a pinned page or staged.
    #[inline(always)]
    unsafe fn change(&self, row: *mut u8, change: impl FnOnce(&mut A)) {
        // SAFETY: the state lies within the row; the caller owns the row.
        unsafe {
            let place = row.add(self.offset).cast::<A>();
            let mut state = place.read_unaligned();
            change(&mut state);
            place.write_unaligned(state);
        }
    }

    /// # Safety
    /// As for [`Kernel::results`].
    unsafe fn read(&self, rows: &[*const u8]) -> Vec<A> {
        // SAFETY: the caller vouches for the rows.
        rows.iter().map(|row| unsafe { row.add(self.offset).cast::<A>().read_unaligned() }).collect()
    }
}

/// Calls `each(row of the array, value)` for the values that are not NULL.
#[inline(always)]
pub(crate) fn for_each_valid<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, mut each: impl FnMut(usize, T::Native)) {
    let values: &[T::Native] = array.values();
    match array.nulls().filter(|n| n.null_count() > 0) {
        None => values.iter().enumerate().for_each(|(row, &value)| each(row, value)),
        Some(nulls) => nulls.valid_indices().for_each(|row| each(row, values[row])),
    }
}

impl<A: Accumulator> Kernel for StateKernel<A> {
    unsafe fn update(&self, args: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError> {
        let array = args[0].as_primitive::<A::Input>();
        match targets {
            Targets::Each(rows) => {
                assert!(rows.len() >= array.len());
                for_each_valid(array, |row, value| {
                    // SAFETY: the caller vouches for the targets.
                    unsafe { self.change(rows[row] as usize as *mut u8, |state| state.add(value)) };
                });
            }
            // SAFETY: the caller vouches for the target.
            Targets::One(row) => unsafe {
                self.change(row, |state| {
                    // A local copy, so that the loop keeps it in registers.
                    let mut local = *state;
                    for_each_valid(array, |_, value| local.add(value));
                    *state = local;
                });
            },
        }
        Ok(())
    }

    fn takes(&self) -> Takes {
        A::TAKES
    }

    unsafe fn add_totals(&self, totals: &Totals, counts: &[u64], groups: &[u64]) {
        for (group, (&count, &row)) in counts.iter().zip(groups).enumerate().filter(|(_, (count, _))| **count > 0) {
            // SAFETY: the caller vouches for the rows.
            unsafe {
                self.change(row as usize as *mut u8, |state| match totals {
                    Totals::None => unreachable!("it takes sums"),
                    Totals::Integers(sums) => state.add_integers(sums[group], count),
                    Totals::Floats(sums) => state.add_floats(sums[group], count),
                });
            }
        }
    }

    unsafe fn merge(&self, states: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError> {
        for row in 0..states[0].len() {
            let target = match targets {
                Targets::Each(rows) => rows[row] as usize as *mut u8,
                Targets::One(target) => target,
            };
            if let Some(other) = A::from_columns(states, row) {
                // SAFETY: the caller vouches for the targets.
                unsafe { self.change(target, |state| state.merge(&other)) };
            }
        }
        Ok(())
    }

    unsafe fn combine(&self, sources: &[*const u8], targets: &[*mut u8]) {
        for (source, &target) in sources.iter().zip(targets) {
            // SAFETY: the caller vouches for both.
            unsafe {
                let other = source.add(self.offset).cast::<A>().read_unaligned();
                self.change(target, |state| state.merge(&other));
            }
        }
    }

    unsafe fn results(&self, rows: &[*const u8]) -> Result<ArrayRef, ExecError> {
        // SAFETY: the caller vouches for the rows.
        A::results(&unsafe { self.read(rows) }, &self.output)
    }

    unsafe fn states(&self, rows: &[*const u8]) -> Result<Vec<ArrayRef>, ExecError> {
        // SAFETY: the caller vouches for the rows.
        A::to_columns(&unsafe { self.read(rows) }, &self.output)
    }
}
