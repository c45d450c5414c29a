//! `count(*)`, `count(x)`, `bool_and`, `bool_or`: aggregates that look at validity or single bits.

use std::{marker::PhantomData, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, UInt64Array,
    cast::AsArray,
    types::{Int64Type, UInt64Type},
};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;

use super::{
    kernel::{Kernel, Targets, for_each_valid},
    totals::{Takes, Totals},
};
use crate::ExecError;

/// Number of rows whose argument is not NULL; of all rows if there is no argument. `C` is the state: 32 bits for up to
/// [`SHORT_ROWS`](super::accumulators::SHORT_ROWS) rows.
pub(crate) struct CountKernel<C> {
    offset: usize,
    /// `Int64`, or `UInt64` for `regr_count`.
    output: DataType,
    state: PhantomData<C>,
}

impl<C: ArrowNativeType> CountKernel<C> {
    pub(crate) fn new(offset: usize, output: DataType) -> Self {
        Self { offset, output, state: PhantomData }
    }

    /// # Safety
    /// `row` is a row of the layout that the kernel was bound to, owned by the caller.
    #[inline(always)]
    unsafe fn add(&self, row: *mut u8, count: u64) {
        // SAFETY: the state lies within the row.
        unsafe {
            let place = row.add(self.offset).cast::<C>();
            place.write_unaligned(C::usize_as(place.read_unaligned().as_usize() + count as usize));
        }
    }
}

impl<C: ArrowNativeType> Kernel for CountKernel<C> {
    unsafe fn update(&self, args: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError> {
        let nulls = args[0].logical_nulls().filter(|n| n.null_count() > 0);
        // SAFETY: the caller vouches for the targets.
        unsafe {
            match (targets, nulls) {
                (Targets::One(row), nulls) => {
                    self.add(row, (args[0].len() - nulls.map_or(0, |n| n.null_count())) as u64);
                }
                (Targets::Each(rows), None) => rows.iter().for_each(|&row| self.add(row as usize as *mut u8, 1)),
                (Targets::Each(rows), Some(nulls)) => {
                    nulls.valid_indices().for_each(|i| self.add(rows[i] as usize as *mut u8, 1));
                }
            }
        }
        Ok(())
    }

    fn takes(&self) -> Takes {
        Takes::Counts
    }

    unsafe fn add_totals(&self, _totals: &Totals, counts: &[u64], groups: &[u64]) {
        for (&count, &row) in counts.iter().zip(groups) {
            // SAFETY: the caller vouches for the rows.
            unsafe { self.add(row as usize as *mut u8, count) };
        }
    }

    unsafe fn merge(&self, states: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError> {
        let add = |row: usize, count: u64| {
            let target = match targets {
                Targets::Each(rows) => rows[row] as usize as *mut u8,
                Targets::One(target) => target,
            };
            // SAFETY: the caller vouches for the targets.
            unsafe { self.add(target, count) };
        };
        match states[0].data_type() {
            DataType::UInt64 => for_each_valid(states[0].as_primitive::<UInt64Type>(), add),
            _ => for_each_valid(states[0].as_primitive::<Int64Type>(), |row, count| add(row, count as u64)),
        }
        Ok(())
    }

    unsafe fn combine(&self, sources: &[*const u8], targets: &[*mut u8]) {
        for (source, &target) in sources.iter().zip(targets) {
            // SAFETY: the caller vouches for both.
            unsafe { self.add(target, source.add(self.offset).cast::<C>().read_unaligned().as_usize() as u64) };
        }
    }

    unsafe fn results(&self, rows: &[*const u8]) -> Result<ArrayRef, ExecError> {
        // SAFETY: the caller vouches for the rows.
        let counts =
            rows.iter().map(|row| unsafe { row.add(self.offset).cast::<C>().read_unaligned() }.as_usize() as u64);
        Ok(match self.output {
            DataType::UInt64 => Arc::new(UInt64Array::from_iter_values(counts)),
            _ => Arc::new(Int64Array::from_iter_values(counts.map(|count| count as i64))),
        })
    }

    unsafe fn states(&self, rows: &[*const u8]) -> Result<Vec<ArrayRef>, ExecError> {
        // SAFETY: the caller vouches for the rows.
        Ok(vec![unsafe { self.results(rows)? }])
    }
}

/// `bool_and` and `bool_or`: one byte, bit 0 for "a value was seen", bit 1 for "one was seen that decides".
pub(crate) struct BooleanKernel {
    pub(crate) offset: usize,
    /// The value that decides: false for `bool_and`, true for `bool_or`.
    pub(crate) decides: bool,
}

impl BooleanKernel {
    /// Bytes of the state.
    pub(crate) const STATE: usize = 1;
}

impl Kernel for BooleanKernel {
    unsafe fn update(&self, args: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError> {
        let values = args[0].as_boolean();
        for (row, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let target = match targets {
                Targets::Each(rows) => rows[row] as usize as *mut u8,
                Targets::One(target) => target,
            };
            // SAFETY: the caller vouches for the targets; the state lies within the row.
            unsafe { *target.add(self.offset) |= 1 | u8::from(value == self.decides) << 1 };
        }
        Ok(())
    }

    unsafe fn merge(&self, states: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError> {
        // SAFETY: the caller vouches for the targets. The state as a column is the value so far.
        unsafe { self.update(states, targets) }
    }

    unsafe fn combine(&self, sources: &[*const u8], targets: &[*mut u8]) {
        for (source, &target) in sources.iter().zip(targets) {
            // SAFETY: the caller vouches for both.
            unsafe { *target.add(self.offset) |= *source.add(self.offset) };
        }
    }

    unsafe fn results(&self, rows: &[*const u8]) -> Result<ArrayRef, ExecError> {
        let result = |row: &*const u8| {
            // SAFETY: the caller vouches for the rows.
            let state = unsafe { *row.add(self.offset) };
            (state & 1 != 0).then_some((state & 2 != 0) == self.decides)
        };
        Ok(Arc::new(rows.iter().map(result).collect::<BooleanArray>()))
    }

    unsafe fn states(&self, rows: &[*const u8]) -> Result<Vec<ArrayRef>, ExecError> {
        // SAFETY: the caller vouches for the rows.
        Ok(vec![unsafe { self.results(rows)? }])
    }
}
