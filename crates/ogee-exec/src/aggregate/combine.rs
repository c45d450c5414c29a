//! Combining equal groups of a partition's rows, in either phase.

use std::sync::Arc;

use ogee_memory::{BufferManager, MemoryError};
use ogee_row::{PinnedRows, RowPartition};

use super::{plan::AggregatePlan, table::SaltedTable};

use crate::{
    ExecError,
    cancel::{Cancelled, obey, pin_all},
    keys::{KeyEqual, slots_for, with_key_equal},
};

/// Rows that are combined into others; buffers that are reused.
#[derive(Default)]
pub(crate) struct Pairs {
    pub(crate) sources: Vec<*const u8>,
    pub(crate) targets: Vec<*mut u8>,
}

// SAFETY: the addresses are used only within calls that keep their pages pinned.
unsafe impl Send for Pairs {}

/// A bit for each row of each page, pages at multiples of 64 bits: whether the row stands for its group.
#[derive(Debug, Default)]
pub(crate) struct GroupMarks(Vec<u64>);

impl GroupMarks {
    /// The first marked row of `page`, whose bits begin at word `word`, from `row` on.
    #[inline(always)]
    pub(crate) fn next(&self, word: usize, page: &PinnedRows, mut row: usize) -> Option<usize> {
        while row < page.len() {
            let rest = self.0[word + row / 64] >> (row % 64);
            if rest != 0 {
                return Some(row + rest.trailing_zeros() as usize);
            }
            row = (row / 64 + 1) * 64;
        }
        None
    }

    /// Words that the bits of `page` take.
    pub(crate) fn words(page: &PinnedRows) -> usize {
        page.len().div_ceil(64)
    }
}

/// An empty table for `rows` rows in `kept`, whose memory is used again if it is enough.
pub(crate) fn table_for<'a>(
    kept: &'a mut Option<SaltedTable>,
    memory: &Arc<BufferManager>,
    consumer: &'static str,
    rows: usize,
) -> Result<&'a mut SaltedTable, MemoryError> {
    let capacity = slots_for(rows);
    if kept.as_ref().is_none_or(|table| table.capacity() < capacity) {
        *kept = None;
        *kept = Some(SaltedTable::new(memory, consumer, capacity)?);
    }
    let table = kept.as_mut().expect("made above");
    table.reset(capacity);
    Ok(table)
}

/// Pins all pages of `parts`.
pub(crate) fn pin_parts(parts: &mut [RowPartition], cancelled: Cancelled<'_>) -> Result<Vec<PinnedRows>, ExecError> {
    let mut pages = Vec::with_capacity(parts.iter().map(RowPartition::num_pages).sum());
    for part in parts {
        pages.append(&mut pin_all(part, cancelled)?);
    }
    Ok(pages)
}

/// Combines equal groups of the rows on `pages`; those marked are left.
///
/// # Errors
/// [`ExecError::Cancelled`] if the query is to end: groups are then counted in part, and of no use.
///
/// # Safety
/// The pages are of the plan's layout and the caller's alone, and the table is empty and has room for their rows.
pub(crate) unsafe fn combine_pages(
    plan: &AggregatePlan,
    table: &mut SaltedTable,
    pages: &[PinnedRows],
    pairs: &mut Pairs,
    cancelled: Cancelled<'_>,
) -> Result<GroupMarks, ExecError> {
    let rows: usize = pages.iter().map(PinnedRows::len).sum();
    let mut marks = Vec::with_capacity(rows / 64 + pages.len());
    for page in pages {
        obey(cancelled)?;
        // SAFETY: the caller vouches for pages and table.
        unsafe {
            with_key_equal!(&*plan.layout, equal => find_groups(equal, table, page, &mut marks, pairs));
            combine_rows(plan, pairs);
        }
    }
    Ok(GroupMarks(marks))
}

/// Enters the rows of `page` into the table. Those that stand for their group are marked; those of known groups are listed, to be
/// combined into them.
///
/// # Safety
/// As [`combine_pages`], and `equal` is for the pages' layout.
unsafe fn find_groups(
    equal: impl KeyEqual,
    table: &mut SaltedTable,
    page: &PinnedRows,
    marks: &mut Vec<u64>,
    pairs: &mut Pairs,
) {
    for first in (0..page.len()).step_by(64) {
        let mut mark = 0u64;
        for row in first..page.len().min(first + 64) {
            let address = page.row(row);
            // SAFETY: the caller vouches for the rows.
            let group = unsafe { table.find_or_insert(equal, address) };
            if group == address {
                mark |= 1 << (row - first);
            } else {
                pairs.sources.push(address);
                pairs.targets.push(group);
            }
        }
        marks.push(mark);
    }
}

/// Combines each source row into its target, and clears both lists.
///
/// # Safety
/// The rows are of the plan's layout, on pinned pages that are the caller's alone.
pub(crate) unsafe fn combine_rows(plan: &AggregatePlan, pairs: &mut Pairs) {
    if !pairs.sources.is_empty() {
        // SAFETY: the caller vouches for the rows.
        unsafe {
            for bound in &plan.kernels {
                bound.kernel.combine(&pairs.sources, &pairs.targets);
            }
            for extremum in &plan.extrema {
                extremum.combine(&plan.layout, &pairs.sources, &pairs.targets);
            }
            for pair in &plan.arg_extrema {
                pair.combine(&plan.layout, &pairs.sources, &pairs.targets);
            }
        }
    }
    pairs.sources.clear();
    pairs.targets.clear();
}
