//! Loops over pages that obey a cancellation: each page may have to be read from the device, or takes the rows of one to somewhere else.
//!
//! Between chunks the pipeline asks (`stages`); a loop over pages asks before each.

use ogee_row::{PartitionedRows, PinnedRows, RowPartition};

use crate::ExecError;

/// Asked in long loops: whether the query is to end.
pub(crate) type Cancelled<'a> = &'a dyn Fn() -> bool;

/// An error if the query is to end.
#[inline]
pub(crate) fn obey(cancelled: Cancelled<'_>) -> Result<(), ExecError> {
    if cancelled() { Err(ExecError::Cancelled) } else { Ok(()) }
}

/// All pages of `part`, pinned.
pub(crate) fn pin_all(part: &mut RowPartition, cancelled: Cancelled<'_>) -> Result<Vec<PinnedRows>, ExecError> {
    let pages = 0..part.num_pages();
    let pin = |page| {
        obey(cancelled)?;
        Ok(part.pin_page(page)?)
    };
    pages.map(pin).collect()
}

/// Appends all rows of `part` to `target`; the pages of `part` are destroyed on the way.
pub(crate) fn append_partition(
    target: &mut PartitionedRows,
    mut part: RowPartition,
    cancelled: Cancelled<'_>,
) -> Result<(), ExecError> {
    loop {
        obey(cancelled)?;
        if !target.append_last_page(&mut part)? {
            return Ok(());
        }
    }
}

/// A question that is answered with yes from the time after `checks` on.
#[cfg(test)]
pub(crate) fn after(checks: usize) -> impl Fn() -> bool {
    let left = std::cell::Cell::new(checks);
    move || left.replace(left.get().saturating_sub(1)) == 0
}

/// Whether `result` is the error of a query that was to end.
#[cfg(test)]
pub(crate) fn is_cancelled<T>(result: &Result<T, ExecError>) -> bool {
    matches!(result, Err(ExecError::Cancelled))
}
