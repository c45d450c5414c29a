//! Joins by comparisons, without an equality: the rows of the build side sorted, so that the mates of a probe row lie side by side.
//!
//! Of the condition's comparisons two are used. One bounds a value of the build rows from above (`build.x <= probe.a`): they are sorted by it, and the mates
//! are among the first of them. The other bounds a value from below (`build.y >= probe.b`): if it is the same value, the mates are among the last. If it is
//! another one, the greatest of it up to each row ascends too, so that no row before the place where that reaches the bound is a mate; where rows are
//! intervals that hardly overlap, few are left. Both places are found by binary search.
//!
//! Values are compared by the first bytes of their normalized keys, so what lies between the places are candidates: the condition itself is checked
//! on each pair, as always.
//!
//! Not here: which comparisons there are (the front end), and making pairs (`matches`).

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, NullArray};
use arrow_schema::DataType;
use ogee_memory::{BufferManager, NonPaged};
use ogee_row::PinnedRows;
use ogee_vector::{Chunk, Column};

use super::{
    CONSUMER,
    spec::{JoinColumn, JoinPlan},
};
use crate::{
    ExecError, Expr,
    cancel::{Cancelled, obey},
    sort::{ENTRY_BYTES, PAGES_MAX, RowBases, prefixes},
};

/// A comparison of a value of the build rows with one of the probe rows. Equal values are candidates, whether the comparison takes them or not.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Over the columns that the condition reads; of the build side only.
    pub build: Expr,
    /// Of the probe side only.
    pub probe: Expr,
    /// The normalized type of both.
    pub data_type: DataType,
}

/// The comparisons that mates are looked up by, at least one.
#[derive(Clone, Debug, Default)]
pub struct RangeKeys {
    /// The value of the build row is not greater.
    pub upper: Option<Bound>,
    /// The value of the build row is not less.
    pub lower: Option<Bound>,
    /// Both are about the same value of the build row.
    pub same: bool,
}

/// Rows whose values are computed at once.
const BATCH_ROWS: usize = 2048;

/// Of an entry, the part that is a prefix of a key: the rest says where the row is.
fn key(entry: u128) -> u128 {
    entry >> 32
}

/// Entries have room for the numbers of so many pages: a larger one would be taken for that of another page.
fn check_pages(pages: usize) -> Result<(), ExecError> {
    if pages <= PAGES_MAX {
        return Ok(());
    }
    let message = "a join by comparisons takes at most 64 GiB of rows on its build side; filter them, or join by an equality as well";
    Err(ExecError::Foreign(message.into()))
}

/// Rows of the build side in order.
pub(crate) struct RangeTable {
    /// Entries in order; behind them, if there is another value that is bounded from below, the greatest prefix of it up to each.
    memory: Option<NonPaged>,
    len: usize,
    has_maxima: bool,
    /// The values are known; if not, all rows are candidates.
    is_known: bool,
    bases: RowBases,
}

/// The columns of the condition that are of one side, at their places; NULL takes those of the others.
fn side_columns(
    plan: &JoinPlan,
    rows: usize,
    mut column: impl FnMut(JoinColumn) -> Result<Option<Column>, ExecError>,
) -> Result<Chunk, ExecError> {
    let residual = plan.spec.residual.as_ref().expect("comparisons are part of a condition");
    let none = || Column::flat(Arc::new(NullArray::new(rows)));
    let columns = residual.columns.iter().map(|&index| Ok(column(index)?.unwrap_or_else(none)));
    Ok(Chunk::from_columns(columns.collect::<Result<_, ExecError>>()?, rows))
}

/// The values of `expr`. `None` if they cannot be computed: whether that is an error is for the condition to say, which may not come to it.
fn values(expr: &Expr, chunk: &Chunk) -> Option<ArrayRef> {
    expr.evaluate(chunk).and_then(|column| Ok(column.flatten()?)).ok()
}

impl RangeTable {
    /// The rows of `pages`, which stay pinned as long as the table.
    ///
    /// # Errors
    /// When memory runs out, or the query is to end.
    pub(crate) fn new(
        plan: &JoinPlan,
        memory: &Arc<BufferManager>,
        pages: &[PinnedRows],
        cancelled: Cancelled<'_>,
    ) -> Result<Self, ExecError> {
        let keys = plan.spec.ranges.as_ref().expect("a join by comparisons");
        check_pages(pages.len())?;
        let rows = pages.iter().map(PinnedRows::len).sum::<usize>();
        let bases = RowBases::new(pages, plan.build.layout.width());
        let has_maxima = keys.upper.is_some() && keys.lower.is_some() && !keys.same;
        let mut table = Self { memory: None, len: 0, has_maxima, is_known: true, bases };
        if rows == 0 {
            return Ok(table);
        }
        table.memory = Some(memory.allocate_non_paged(CONSUMER, rows * ENTRY_BYTES * if has_maxima { 2 } else { 1 })?);
        let order = keys.upper.as_ref().or(keys.lower.as_ref()).expect("there is one");
        for (number, page) in pages.iter().enumerate() {
            obey(cancelled)?;
            // SAFETY: rows of a pinned page.
            table.is_known = table.is_known && unsafe { table.add_page(plan, order, number, page)? };
        }
        if !table.is_known {
            let places = pages
                .iter()
                .enumerate()
                .flat_map(|(number, page)| (0..page.len()).map(move |row| u128::from(RowBases::place(number, row))));
            table.len = rows;
            table.words().iter_mut().zip(places).for_each(|(word, place)| *word = place);
            return Ok(table);
        }
        let len = table.len;
        table.words()[..len].sort_unstable();
        if let Some(lower) = keys.lower.as_ref().filter(|_| has_maxima) {
            table.add_maxima(plan, lower)?;
        }
        Ok(table)
    }

    /// Adds entries for the rows of page `number`, but for those where the value is NULL: that is neither less nor greater than anything. False if the
    /// values cannot be computed.
    ///
    /// # Safety
    /// It is pinned.
    unsafe fn add_page(
        &mut self,
        plan: &JoinPlan,
        order: &Bound,
        number: usize,
        page: &PinnedRows,
    ) -> Result<bool, ExecError> {
        let rows: Vec<*const u8> = (0..page.len()).map(|row| page.row(row).cast_const()).collect();
        // SAFETY: the caller vouches for the rows.
        let Some(array) = (unsafe { Self::values_of(plan, &order.build, &rows)? }) else { return Ok(false) };
        let mut prefix = Vec::new();
        prefixes(&order.data_type, &array, &mut prefix);
        for (row, &prefix) in prefix.iter().enumerate() {
            if array.is_valid(row) {
                let at = self.len;
                self.len += 1;
                self.words()[at] = prefix | u128::from(RowBases::place(number, row));
            }
        }
        Ok(true)
    }

    /// Notes the greatest value that is bounded from below up to each row.
    fn add_maxima(&mut self, plan: &JoinPlan, lower: &Bound) -> Result<(), ExecError> {
        let mut prefix = Vec::new();
        let mut of_rows = Vec::with_capacity(BATCH_ROWS);
        let (mut at, mut greatest) = (0, 0);
        while at < self.len {
            let end = self.len.min(at + BATCH_ROWS);
            of_rows.clear();
            of_rows.extend((at..end).map(|at| self.row(at)));
            // SAFETY: rows of pages that are pinned.
            let array = unsafe { Self::values_of(plan, &lower.build, &of_rows)? };
            let len = self.len;
            match &array {
                Some(array) => prefixes(&lower.data_type, array, &mut prefix),
                // Those that are not known may be as great as can be.
                None => greatest = u128::MAX,
            }
            for (row, word) in self.words()[len + at..len + end].iter_mut().enumerate() {
                // NULL is not greater than anything.
                if array.as_ref().is_some_and(|array| array.is_valid(row)) {
                    greatest = greatest.max(prefix[row]);
                }
                *word = greatest;
            }
            at = end;
        }
        Ok(())
    }

    /// The values of `expr`, over columns of the build side, of `rows`.
    ///
    /// # Safety
    /// `rows` are of the build side's layout, pinned with their strings.
    unsafe fn values_of(plan: &JoinPlan, expr: &Expr, rows: &[*const u8]) -> Result<Option<ArrayRef>, ExecError> {
        let chunk = side_columns(plan, rows.len(), |column| match column {
            // SAFETY: the caller vouches for the rows.
            JoinColumn::Build(index) => Ok(Some(Column::flat(unsafe { plan.build.gather(index, rows, None)? }))),
            _ => Ok(None),
        })?;
        Ok(values(expr, &chunk))
    }

    fn words(&mut self) -> &mut [u128] {
        let Some(memory) = &mut self.memory else { return &mut [] };
        let words = memory.as_u64_slice_mut();
        // SAFETY: the memory is aligned to a page of the system, was zeroed, and is nobody else's.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() / 2) }
    }

    fn shared_words(&self) -> &[u128] {
        let Some(memory) = &self.memory else { return &[] };
        let count = self.len * if self.has_maxima { 2 } else { 1 };
        // SAFETY: as for `words`; there is room for that many.
        unsafe { std::slice::from_raw_parts(memory.as_ptr().cast(), count) }
    }

    /// The row at place `at` of the order.
    #[inline(always)]
    pub(crate) fn row(&self, at: usize) -> *const u8 {
        self.bases.row(self.shared_words()[at])
    }

    /// For each row of the probe side that may have mates its number and the places from the first of them up to the last, excluded; into `spans`,
    /// which is cleared. `columns` gives a column of the probe side.
    pub(crate) fn look_up(
        &self,
        plan: &JoinPlan,
        rows: usize,
        columns: impl Fn(usize) -> Column,
        spans: &mut Vec<Span>,
    ) -> Result<(), ExecError> {
        spans.clear();
        let keys = plan.spec.ranges.as_ref().expect("a join by comparisons");
        let chunk = side_columns(plan, rows, |column| match column {
            JoinColumn::Probe(index) => Ok(Some(columns(index))),
            _ => Ok(None),
        })?;
        spans.extend((0..rows as u32).map(|row| Span { row, at: 0, end: self.len }));
        if !self.is_known {
            return Ok(());
        }
        let (entries, maxima) = self.shared_words().split_at(self.len);
        let ascending = if self.has_maxima { maxima } else { entries };
        let mut prefix = Vec::new();
        let mut narrow = |bound: &Bound, to: &dyn Fn(&mut Span, u128)| {
            let Some(array) = values(&bound.probe, &chunk) else { return };
            prefixes(&bound.data_type, &array, &mut prefix);
            for (span, (row, &prefix)) in spans.iter_mut().zip(prefix.iter().enumerate()) {
                match array.is_valid(row) {
                    true => to(span, key(prefix)),
                    false => span.end = 0,
                }
            }
        };
        if let Some(upper) = &keys.upper {
            narrow(upper, &|span, bound| {
                span.end = span.end.min(entries.partition_point(|&entry| key(entry) <= bound));
            });
        }
        if let Some(lower) = &keys.lower {
            narrow(lower, &|span, bound| span.at = ascending.partition_point(|&entry| key(entry) < bound));
        }
        spans.retain(|span| span.at < span.end);
        Ok(())
    }
}

/// A row of the probe side, and where its candidates are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) row: u32,
    pub(crate) at: usize,
    pub(crate) end: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_cannot_be_numbered_are_refused() {
        check_pages(PAGES_MAX).expect("the last has the highest number");
        assert!(check_pages(PAGES_MAX + 1).is_err_and(|error| error.to_string().contains("64 GiB")));
        assert_ne!(RowBases::place(PAGES_MAX - 1, 0), RowBases::place(0, 0));
    }
}
