//! Second phase of aggregates whose states grow with their values.
//!
//! Their values are the payload of rows, one row for each input row, which spilled like all others. A lane numbers the groups of a
//! partition, hands the values over with those numbers, and gets results back. A partition that fits is pinned; one that does not, and that
//! no bits split, goes through page by page, as often as the functions ask for, and only a row of each group is kept. What the states take is
//! reserved as it grows.
//!
//! Groups are numbered by *ticketing*: a table from key to the next number, as in "Global hash tables strike back", PVLDB 2025, section 3,
//! but private to the lane.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array, UInt64Array, cast::AsArray, types::Int64Type};
use arrow_schema::DataType;
use ogee_memory::{BufferManager, MemoryError, NonPaged, PinnedPage, Reservation};
use ogee_row::{CodeCache, PartitionedRows, PinnedRows, RadixBits, RowPartition, row_hash, rows_of_chunk};
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;

use super::{Collected, GroupAccumulators, combine::pin_parts, plan::AggregatePlan, sink::CONSUMER};
use crate::{
    ExecContext, ExecError,
    cancel::{Cancelled, obey},
    keys::{AnyKeys, KeyEqual, slots_for, spread},
    value_bytes,
};

/// Bytes of what was made for `values`, without strings that are on pages.
fn made_bytes(values: &ArrayRef) -> usize {
    match values.data_type() {
        DataType::Utf8View | DataType::BinaryView => size_of::<u128>() * values.len(),
        _ => value_bytes(values),
    }
}

/// Rows whose values are handed over at once.
const BATCH_ROWS: usize = 8192;

const SALT: u64 = 0xffff << 48;
const TICKET: u64 = !SALT;

/// Numbers groups as they come. An entry is empty (0) or a salt over the group's number plus one.
struct Tickets {
    entries: NonPaged,
    mask: u64,
    /// A row of each group.
    groups: Vec<*const u8>,
}

impl Tickets {
    /// Room for `groups` groups before the first growth.
    fn new(memory: &Arc<BufferManager>, groups: usize) -> Result<Self, MemoryError> {
        let capacity = slots_for(groups);
        let mut entries = memory.allocate_non_paged(CONSUMER, capacity * 8)?;
        entries.as_u64_slice_mut().fill(0);
        Ok(Self { entries, mask: capacity as u64 - 1, groups: Vec::new() })
    }

    fn has_room(&self) -> bool {
        (self.groups.len() as u64 + 1) * 2 <= self.mask + 1
    }

    /// The same groups with room for twice as many.
    ///
    /// # Safety
    /// All rows of groups are on pinned pages.
    unsafe fn grow(&mut self, memory: &Arc<BufferManager>) -> Result<(), MemoryError> {
        let mut larger = Self::new(memory, self.mask as usize + 1)?;
        let entries = larger.entries.as_u64_slice_mut();
        for (ticket, &row) in self.groups.iter().enumerate() {
            // SAFETY: the caller vouches for the rows.
            let hash = spread(unsafe { row_hash(row) });
            let mut slot = hash & larger.mask;
            while entries[slot as usize] != 0 {
                slot = (slot + 1) & larger.mask;
            }
            entries[slot as usize] = hash & SALT | (ticket as u64 + 1);
        }
        larger.groups = std::mem::take(&mut self.groups);
        *self = larger;
        Ok(())
    }

    /// The number of the row's group; `Err` with the number of a new one, whose row the caller appends to `groups`.
    ///
    /// # Safety
    /// `row` and all rows of groups are on pinned pages and of the layout that `equal` is for; the table has room.
    unsafe fn find(&mut self, equal: impl KeyEqual, row: *const u8) -> Result<usize, usize> {
        // SAFETY: the caller vouches for the row.
        let hash = spread(unsafe { row_hash(row) });
        let entries = self.entries.as_u64_slice_mut();
        let mut slot = hash & self.mask;
        loop {
            let entry = &mut entries[slot as usize];
            if *entry == 0 {
                let ticket = self.groups.len();
                *entry = hash & SALT | (ticket as u64 + 1);
                return Err(ticket);
            }
            if *entry & SALT == hash & SALT {
                let ticket = (*entry & TICKET) as usize - 1;
                // SAFETY: the caller vouches for the rows.
                if unsafe { equal.equal(row, self.groups[ticket]) } {
                    return Ok(ticket);
                }
            }
            slot = (slot + 1) & self.mask;
        }
    }
}

/// Collects the values of one partition.
pub(crate) struct Collector<'a> {
    plan: &'a AggregatePlan,
    collected: &'a Collected,
    memory: &'a Arc<BufferManager>,
    tickets: Tickets,
    /// Rows of groups whose own pages do not stay.
    kept: PartitionedRows,
    accumulators: Box<dyn GroupAccumulators>,
    reservation: Reservation,
    numbers: Vec<usize>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(plan: &'a AggregatePlan, ctx: &'a ExecContext) -> Result<Self, ExecError> {
        let collected = plan.collected.as_ref().expect("made for plans that collect");
        let memory = &ctx.memory;
        let no_bits = RadixBits::new(0);
        Ok(Self {
            plan,
            collected,
            memory,
            tickets: Tickets::new(memory, 1 << 11)?,
            kept: PartitionedRows::new(Arc::clone(&plan.layout), Arc::clone(memory), CONSUMER, no_bits, true),
            accumulators: collected.aggregates.make()?,
            reservation: memory.reserve(CONSUMER, 0)?,
            numbers: Vec::new(),
        })
    }

    /// The groups of `parts` with their results. `fits`: all rows may be pinned at once.
    pub(crate) fn collect(
        mut self,
        mut parts: Vec<RowPartition>,
        fits: bool,
        task: &TaskContext,
        caches: &mut Vec<CodeCache>,
    ) -> Result<CollectedGroups, ExecError> {
        let cancelled: Cancelled<'_> = &|| task.is_cancelled();
        let mut pages = Vec::new();
        if !self.collected.order.is_empty() && (fits || self.collected.order_is_asked) {
            pages = pin_parts(&mut parts, cancelled)?;
            self.add_ordered(&pages, caches, cancelled)?;
        } else if fits {
            pages = pin_parts(&mut parts, cancelled)?;
            self.accumulators.expect(pages.iter().map(PinnedRows::len).sum());
            // Before what was allocated is touched.
            self.account()?;
            for page in &pages {
                obey(cancelled)?;
                self.add_page(page, false, caches)?;
            }
        } else if self.accumulators.begin_passes() {
            // Before what was allocated is touched.
            self.account()?;
            parts.iter().for_each(RowPartition::seal);
            loop {
                for part in &mut parts {
                    for page in 0..part.num_pages() {
                        obey(cancelled)?;
                        self.add_page(&part.pin_page(page)?, true, caches)?;
                    }
                }
                if !self.accumulators.end_pass() {
                    break;
                }
            }
            parts.clear();
        } else {
            for part in &mut parts {
                while part.num_pages() > 0 {
                    obey(cancelled)?;
                    let page = part.pin_page(part.num_pages() - 1)?;
                    self.add_page(&page, true, caches)?;
                    drop(page);
                    part.pop_page();
                }
            }
        }
        if self.total() > 0 && self.tickets.groups.is_empty() {
            // No rows and no keys: the states are those of one group without values.
            let none = self.empty_columns()?;
            self.accumulators.update(&none, &[], 1)?;
        }
        let total = self.total();
        let results = self.accumulators.evaluate()?;
        self.reservation.resize(results.iter().map(|array| array.get_array_memory_size()).sum())?;
        let (kept, kept_pages) = self.kept.into_retained();
        Ok(CollectedGroups {
            groups: self.tickets.groups,
            total,
            results,
            at: 0,
            _pages: pages,
            _parts: parts,
            _kept: kept,
            _kept_pages: kept_pages,
            _reservation: self.reservation,
        })
    }

    /// Groups so far; without keys there is always one.
    fn total(&self) -> usize {
        match self.plan.layout.num_keys() {
            0 => 1,
            _ => self.tickets.groups.len(),
        }
    }

    fn empty_columns(&self) -> Result<Vec<ArrayRef>, ExecError> {
        Ok(self.collected.columns.iter().map(|(_, data_type)| arrow_array::new_empty_array(data_type)).collect())
    }

    /// Numbers the groups of rows `first..` of `page`, at most [`BATCH_ROWS`], into `numbers`; their addresses. With `keep`, rows that stand for
    /// new groups are copied.
    fn number(&mut self, page: &PinnedRows, first: usize, keep: bool) -> Result<Vec<*const u8>, ExecError> {
        let end = page.len().min(first + BATCH_ROWS);
        let rows: Vec<*const u8> = (first..end).map(|row| page.row(row).cast_const()).collect();
        self.numbers.clear();
        let equal = AnyKeys(&self.plan.layout);
        let mut addresses = Vec::new();
        for &row in &rows {
            if self.plan.layout.num_keys() == 0 {
                self.numbers.push(0);
                continue;
            }
            // SAFETY: the page is pinned by the caller; rows of groups are on pages that are pinned as long, or retained.
            unsafe {
                if !self.tickets.has_room() {
                    self.tickets.grow(self.memory)?;
                }
                self.numbers.push(match self.tickets.find(equal, row) {
                    Ok(ticket) => ticket,
                    Err(ticket) => {
                        let mut group = row;
                        if keep {
                            self.kept.append(std::iter::once(row), &mut addresses)?;
                            group = addresses[0];
                        }
                        self.tickets.groups.push(group);
                        ticket
                    }
                });
            }
        }
        Ok(rows)
    }

    fn add_page(&mut self, page: &PinnedRows, keep: bool, caches: &mut Vec<CodeCache>) -> Result<(), ExecError> {
        for first in (0..page.len()).step_by(BATCH_ROWS) {
            let rows = self.number(page, first, keep)?;
            let (mut rows, mut done) = (&rows[..], 0);
            while !rows.is_empty() {
                // SAFETY: the page is pinned with its strings.
                let (count, columns) = unsafe {
                    let count = rows_of_chunk(&self.plan.layout, rows);
                    (count, self.plan.gather_payload(&rows[..count], caches)?)
                };
                self.accumulators.update(&columns, &self.numbers[done..done + count], self.total())?;
                self.account()?;
                (rows, done) = (&rows[count..], done + count);
            }
        }
        Ok(())
    }

    /// Hands over all rows of `pages` group by group, those of a group in their order.
    fn add_ordered(
        &mut self,
        pages: &[PinnedRows],
        caches: &mut Vec<CodeCache>,
        cancelled: Cancelled<'_>,
    ) -> Result<(), ExecError> {
        let mut numbers: Vec<u64> = Vec::new();
        let mut batches: Vec<Vec<ArrayRef>> = Vec::new();
        let mut bytes = 0;
        for page in pages {
            obey(cancelled)?;
            for first in (0..page.len()).step_by(BATCH_ROWS) {
                let rows = self.number(page, first, false)?;
                numbers.extend(self.numbers.iter().map(|&number| number as u64));
                // SAFETY: the page is pinned with its strings.
                let columns = unsafe { self.plan.gather_payload(&rows, caches)? };
                // Twice: once more when the batches become one. Strings stay on the pages.
                bytes += 2 * columns.iter().map(made_bytes).sum::<usize>() + 24 * rows.len();
                self.reservation.resize(bytes)?;
                batches.push(columns);
            }
        }
        if numbers.is_empty() {
            return Ok(());
        }
        let columns = (0..self.collected.columns.len())
            .map(|column| {
                let parts: Vec<&dyn arrow_array::Array> = batches.iter().map(|batch| &*batch[column]).collect();
                arrow_select::concat::concat(&parts)
            })
            .collect::<Result<Vec<_>, _>>()?;
        drop(batches);
        let numbers: ArrayRef = Arc::new(UInt64Array::from(numbers));
        let by = std::iter::once(arrow_ord::sort::SortColumn { values: Arc::clone(&numbers), options: None });
        let by_value = self.collected.order.iter().map(|&(column, options)| arrow_ord::sort::SortColumn {
            values: Arc::clone(&columns[column]),
            options: Some(options),
        });
        // Places, which no statement names, are read by nobody else.
        let place = self.collected.order.last().map(|&(column, _)| column).filter(|_| !self.collected.order_is_asked);
        let is_read = |column: usize| place != Some(column);
        let sorted = match self.by_integer(&columns) {
            Some(sorted) => sorted,
            None => arrow_ord::sort::lexsort_to_indices(&by.chain(by_value).collect::<Vec<_>>(), None)?,
        };
        let sorted_numbers = arrow_select::take::take(&numbers, &sorted, None)?;
        let sorted_numbers =
            arrow_array::cast::AsArray::as_primitive::<arrow_array::types::UInt64Type>(&sorted_numbers);
        for first in (0..sorted.len()).step_by(BATCH_ROWS) {
            let rows = BATCH_ROWS.min(sorted.len() - first);
            let indices = sorted.slice(first, rows);
            let batch = columns.iter().enumerate().map(|(column, values)| match is_read(column) {
                true => arrow_select::take::take(values, &indices, None),
                false => Ok(values.slice(first, rows)),
            });
            let batch = batch.collect::<Result<Vec<_>, _>>()?;
            self.numbers.clear();
            self.numbers.extend(sorted_numbers.values()[first..first + rows].iter().map(|&number| number as usize));
            self.accumulators.update(&batch, &self.numbers, self.total())?;
            let states = self.accumulators.size();
            self.reservation.resize(bytes + states)?;
        }
        self.account()
    }

    /// The rows of `columns` by the only column that they are ordered by, if that has ascending 64-bit integers: as places have. Those of a group need not follow each other.
    fn by_integer(&self, columns: &[ArrayRef]) -> Option<UInt32Array> {
        let &[(column, options)] = &self.collected.order[..] else { return None };
        let values = columns[column].as_primitive_opt::<Int64Type>()?;
        if options.descending || values.null_count() > 0 {
            return None;
        }
        let mut rows: Vec<(i64, u32)> = values.values().iter().copied().zip(0..).collect();
        // Stable, since rows come in a few runs, one of each lane, which that finds and merges.
        rows.sort_by_key(|&(value, _)| value);
        Some(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// Reserves what the states and the list of groups have grown to.
    fn account(&mut self) -> Result<(), ExecError> {
        let bytes = self.accumulators.size() + self.tickets.groups.capacity() * 8;
        // Small steps are not worth the trouble.
        if bytes > self.reservation.bytes() || bytes + (1 << 20) < self.reservation.bytes() {
            self.reservation.resize(bytes + bytes / 8)?;
        }
        Ok(())
    }
}

/// The groups of a partition with their results.
pub(crate) struct CollectedGroups {
    /// A row of each group.
    groups: Vec<*const u8>,
    total: usize,
    results: Vec<ArrayRef>,
    at: usize,
    _pages: Vec<PinnedRows>,
    _parts: Vec<RowPartition>,
    _kept: Vec<RowPartition>,
    _kept_pages: Vec<PinnedPage>,
    _reservation: Reservation,
}

// SAFETY: the addresses point into pages that are pinned here, and that nobody else has.
unsafe impl Send for CollectedGroups {}

impl CollectedGroups {
    /// The next groups, at most `limit`.
    pub(crate) fn next(
        &mut self,
        plan: &AggregatePlan,
        limit: usize,
        caches: &mut Vec<CodeCache>,
    ) -> Result<Option<Chunk>, ExecError> {
        let mut rows = limit.min(self.total - self.at);
        if rows == 0 {
            return Ok(None);
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(plan.schema.fields().len());
        if plan.layout.num_keys() > 0 {
            // SAFETY: the groups' rows are on pages that are pinned here.
            let keys = unsafe {
                rows = rows_of_chunk(&plan.layout, &self.groups[self.at..self.at + rows]);
                plan.gather(&self.groups[self.at..self.at + rows], caches)?
            };
            columns.extend((0..keys.num_columns()).map(|column| keys.column(column).array.clone()));
        }
        columns.extend(self.results.iter().map(|array| array.slice(self.at, rows)));
        self.at += rows;
        Ok(Some(Chunk::new(columns, rows)))
    }
}
