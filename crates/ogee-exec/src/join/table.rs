//! The table of a join: tagged pointers to chains of rows (SIGMOD 2014, section 4.2).
//!
//! A slot holds the address of the first row of a chain in 48 bits, and above it 16 bits of tag: one bit for each row of the chain, chosen by
//! its hash. A probe whose bit is not set has no mate and looks at no row. Rows know the next one of their chain, and the tags of all behind them:
//! who has found its only mate looks at no other row. Slots are filled by compare-and-swap; there are at least twice as many as rows.
//!
//! Which slot is chosen by the hash, or, for integers of a dense range, by the value of the key itself: rows that come in the order of their keys,
//! on either side, then find their slots side by side, where each hash would be a cache miss.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use ogee_memory::{Access, BufferManager, MemoryError, NonPaged};
use ogee_row::{HeapBuffers, PinnedRows, RadixBits, RowLayout, row_hash};
use ogee_vector::{Integer, PhysicalType};

use super::{
    CONSUMER,
    key_set::{with_integer, with_integers},
    ranges::RangeTable,
    side::Keys,
};
use crate::{
    ExecError,
    keys::{slots_for, spread},
};

/// The bits of a slot that are an address.
const ADDRESS: u64 = (1 << 48) - 1;

/// The tag's bit for a hash: four of the bits that do not choose the slot.
#[inline(always)]
fn tag(hash: u64) -> u64 {
    1 << (48 + (hash >> 60))
}

/// Rows among which the mates of probe rows are looked up.
#[derive(Clone, Copy)]
pub(crate) struct Mates<'a> {
    pub(crate) lookup: Lookup<'a>,
    /// Where their strings are, if arrays may refer to them.
    pub(crate) heap: Option<&'a HeapBuffers>,
}

/// How they are looked up.
#[derive(Clone, Copy)]
pub(crate) enum Lookup<'a> {
    /// By the hash of the keys.
    Hashed(&'a TaggedTable),
    /// By comparisons.
    Sorted(&'a RangeTable),
}

/// Keys that share a slot at most, as a power of two, where slots are chosen by the value of the key.
const SHARED_BITS: u32 = 2;
/// Rows ahead of the one at hand whose slot is fetched.
pub(super) const AHEAD: usize = 16;

/// Pieces of the slots, of 2 MiB each, that a lane touches at a time.
const PIECES_TOUCHED: usize = 8;

/// How slots follow the values of a key: an integer, which rows have at `offset`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyOrder {
    least: i64,
    /// Values from the least to the greatest, less one.
    span: u64,
    shift: u32,
    offset: usize,
    physical: PhysicalType,
}

impl KeyOrder {
    /// The order of `rows` rows, if the only key of `layout` is an integer without NULLs, whose values are in a `range` that is dense enough.
    pub(crate) fn of(layout: &RowLayout, range: Option<(i64, i64)>, rows: usize) -> Option<Self> {
        let (least, greatest) = range.filter(|range| range.0 <= range.1)?;
        let column = layout.column(0);
        if layout.num_keys() != 1 || !column.physical.is_integer() {
            return None;
        }
        let span = greatest.wrapping_sub(least) as u64;
        let slots = slots_for(rows) as u64;
        let shift = (0..=SHARED_BITS).find(|shift| span >> shift < slots)?;
        Some(Self { least, span, shift, offset: column.offset, physical: column.physical })
    }

    /// One slot for each of the values, and one that stays empty, for all others.
    fn slots(&self) -> usize {
        (self.span >> self.shift) as usize + 2
    }

    #[inline(always)]
    fn slot(&self, key: i64) -> usize {
        let distance = key.wrapping_sub(self.least) as u64;
        // Less than one beyond the last only if it is within the range, whatever is shifted out.
        (if distance <= self.span { distance >> self.shift } else { (self.span >> self.shift) + 1 }) as usize
    }
}

/// Which slot a row's chain begins at.
trait Place: Copy {
    /// How `table` chooses slots.
    fn of(table: &TaggedTable) -> Self;

    /// # Safety
    /// `row` is a row of the layout of the table's rows, or of another with the same keys.
    unsafe fn slot(self, row: *const u8) -> usize;
}

#[derive(Clone, Copy)]
struct ByHash {
    mask: u64,
}

impl ByHash {
    #[inline(always)]
    fn slot_of(self, stored: u32) -> usize {
        (spread(stored) & self.mask) as usize
    }
}

impl Place for ByHash {
    fn of(table: &TaggedTable) -> Self {
        Self { mask: table.len as u64 - 1 }
    }

    #[inline(always)]
    unsafe fn slot(self, row: *const u8) -> usize {
        // SAFETY: the caller vouches for the row.
        self.slot_of(unsafe { row_hash(row) })
    }
}

/// By a key that rows keep as a `T`.
#[derive(Clone, Copy)]
struct ByKey<T> {
    order: KeyOrder,
    stored: PhantomData<T>,
}

impl<T: Integer> Place for ByKey<T> {
    fn of(table: &TaggedTable) -> Self {
        Self { order: table.order.expect("a table without one goes by hashes"), stored: PhantomData }
    }

    #[inline(always)]
    unsafe fn slot(self, row: *const u8) -> usize {
        // SAFETY: the caller vouches for the row, whose key is a `T` at this offset.
        let key = unsafe { row.add(self.order.offset).cast::<T>().read_unaligned() };
        self.order.slot(key.wide())
    }
}

/// `$body` with `$place` being how `$table` chooses slots, a type that is [`Place`].
macro_rules! with_place {
    ($table:expr, $place:ident => $body:expr) => {
        match $table.order {
            None => {
                type $place = ByHash;
                $body
            }
            Some(order) => with_integer!(order.physical, i64, Stored => {
                type $place = ByKey<Stored>;
                $body
            }),
        }
    };
}

/// The table.
pub(crate) struct TaggedTable {
    slots: NonPaged,
    /// How many there are. The memory may have been that of a larger table.
    len: usize,
    /// Pieces of the slots that somebody touches or has touched.
    touched: AtomicUsize,
    order: Option<KeyOrder>,
    /// Offset in a row of the address and the tags of those behind it.
    next: usize,
}

impl TaggedTable {
    /// An empty table for `rows` rows.
    ///
    /// # Errors
    /// When memory runs out.
    pub(crate) fn new(
        memory: &Arc<BufferManager>,
        rows: usize,
        order: Option<KeyOrder>,
        next: usize,
    ) -> Result<Self, MemoryError> {
        let len = order.map_or_else(|| slots_for(rows), |order| order.slots());
        let slots = memory.allocate_non_paged(CONSUMER, len * size_of::<u64>())?;
        Ok(Self { slots, len, touched: AtomicUsize::new(0), order, next })
    }

    /// An empty table for `rows` rows that only this thread fills, in the memory of `before` if that is of about the size: memory that has been
    /// touched costs a fraction of new memory.
    ///
    /// # Errors
    /// When memory runs out.
    pub(crate) fn renewed(
        before: Option<Self>,
        memory: &Arc<BufferManager>,
        rows: usize,
        next: usize,
    ) -> Result<Self, MemoryError> {
        let len = slots_for(rows);
        let of_size = |table: &Self| (len..=len * 4).contains(&(table.slots.len() / size_of::<u64>()));
        if let Some(Self { mut slots, touched, order: None, .. }) = before.filter(of_size) {
            slots.as_u64_slice_mut()[..len].fill(0);
            return Ok(Self { slots, len, touched, order: None, next });
        }
        let table = Self::new(memory, rows, None, next)?;
        while table.touch_some() {}
        Ok(table)
    }

    /// Touches some of the slots before rows are put there; false if all have been.
    pub(crate) fn touch_some(&self) -> bool {
        let access = if self.order.is_some() { Access::InOrder } else { Access::Scattered };
        let first = self.touched.fetch_add(PIECES_TOUCHED, Ordering::Relaxed);
        let end = self.slots.num_pieces().min(first.saturating_add(PIECES_TOUCHED));
        (first..end).for_each(|piece| self.slots.touch(piece, access));
        first < end
    }

    /// Puts the rows of `page` at the heads of their chains. Any number of threads may do so at once.
    ///
    /// # Safety
    /// The rows are of the join's layout, on a page that stays pinned as long as anybody looks into the table, and nobody else inserts them.
    pub(crate) unsafe fn insert(&self, page: &PinnedRows) {
        let insert: unsafe fn(&Self, &PinnedRows) = with_place!(self, P => Self::insert_by::<P>);
        // SAFETY: the caller vouches for the rows.
        unsafe { insert(self, page) };
    }

    /// # Safety
    /// As [`insert`](Self::insert).
    unsafe fn insert_by<P: Place>(&self, page: &PinnedRows) {
        let place = P::of(self);
        for row in 0..page.len() {
            if row + AHEAD < page.len() {
                // SAFETY: a row of the page.
                self.prefetch_slot(unsafe { place.slot(page.row(row + AHEAD)) });
            }
            // SAFETY: the caller vouches for the rows.
            unsafe { self.insert_at(place.slot(page.row(row)), page.row(row)) };
        }
    }

    /// # Safety
    /// As [`insert`](Self::insert).
    #[inline(always)]
    unsafe fn insert_at(&self, slot: usize, row: *mut u8) {
        // SAFETY: the caller vouches for the row.
        let tag = tag(spread(unsafe { row_hash(row) }));
        let slot: &AtomicU64 = &self.slots.as_atomic_u64_slice()[slot];
        let mut head = slot.load(Ordering::Relaxed);
        loop {
            // SAFETY: the row has room for what a slot holds, and is not seen by others before the exchange below.
            unsafe { row.add(self.next).cast::<u64>().write_unaligned(head) };
            let new = row as u64 | (head & !ADDRESS) | tag;
            match slot.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// The slots of the rows that have `keys`, into `slots`. What a NULL has does not matter.
    pub(crate) fn slots_of(&self, keys: &Keys, slots: &mut Vec<usize>) -> Result<(), ExecError> {
        slots.clear();
        match &self.order {
            None => {
                let place = ByHash::of(self);
                slots.extend(keys.hashes.iter().map(|&hash| place.slot_of(RadixBits::stored_hash(hash))));
            }
            Some(order) => {
                let column = keys.columns[0].as_ref();
                with_integers!(column.array, values => match column.selection {
                    None => slots.extend(values.iter().map(|key| order.slot(key.wide()))),
                    Some(positions) => {
                        slots.extend(positions.iter().map(|&position| order.slot(values[position as usize].wide())));
                    }
                });
            }
        }
        Ok(())
    }

    /// The same for rows on pages.
    ///
    /// # Safety
    /// `rows` are pinned rows whose layout has the same keys as that of the table's rows.
    pub(crate) unsafe fn slots_of_rows(&self, rows: &[*const u8], slots: &mut Vec<usize>) {
        slots.clear();
        let extend: unsafe fn(&Self, &[*const u8], &mut Vec<usize>) =
            with_place!(self, P => Self::extend_slots_by::<P>);
        // SAFETY: the caller vouches for the rows.
        unsafe { extend(self, rows, slots) };
    }

    /// # Safety
    /// As [`slots_of_rows`](Self::slots_of_rows).
    unsafe fn extend_slots_by<P: Place>(&self, rows: &[*const u8], slots: &mut Vec<usize>) {
        let place = P::of(self);
        // SAFETY: the caller vouches for the rows.
        slots.extend(rows.iter().map(|&row| unsafe { place.slot(row) }));
    }

    /// The first row of the chain at `slot` that a row with this stored hash could be in, or null.
    #[inline(always)]
    pub(crate) fn first(&self, slot: usize, stored: u32) -> *const u8 {
        // Filling the table happened before: probes depend on the pipeline that did.
        let head = self.slots.as_atomic_u64_slice()[slot].load(Ordering::Relaxed);
        candidate(head, tag(spread(stored)))
    }

    /// Fetches the slot that [`first`](Self::first) will look at.
    #[inline(always)]
    pub(crate) fn prefetch_slot(&self, slot: usize) {
        prefetch(self.slots.as_ptr().wrapping_add(slot * size_of::<u64>()));
    }

    /// The next row behind `row` that a row with this stored hash could be equal to, or null.
    ///
    /// # Safety
    /// `row` is in the table.
    #[inline(always)]
    pub(crate) unsafe fn next(&self, row: *const u8, stored: u32) -> *const u8 {
        // SAFETY: the caller vouches for the row; `insert` has written what was in the slot.
        let behind = unsafe { row.add(self.next).cast::<u64>().read_unaligned() };
        candidate(behind, tag(spread(stored)))
    }

    /// Fetches what a comparison with `row` and [`next`](Self::next) will look at.
    #[inline(always)]
    pub(crate) fn prefetch_row(&self, row: *const u8) {
        prefetch(row);
        prefetch(row.wrapping_add(self.next));
    }
}

/// The row that a slot, or a row before it, names, if some row from there on has the tag.
#[inline(always)]
fn candidate(slot: u64, tag: u64) -> *const u8 {
    let hit = if slot & tag != 0 { ADDRESS } else { 0 };
    (slot & hit) as *const u8
}

#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which may name any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_schema::DataType;
    use ogee_row::RowLayoutBuilder;

    use super::*;

    fn order(data_type: DataType, range: (i64, i64), rows: usize) -> Option<KeyOrder> {
        let mut layout = RowLayoutBuilder::default();
        layout.key(data_type, false);
        KeyOrder::of(&layout.build().unwrap(), Some(range), rows)
    }

    #[test]
    fn slots_ascend_with_the_key_and_end_with_an_empty_one() {
        // Four values a slot at most: 2,048 slots for 1,000 rows.
        for (span, shift) in [(0, 0), (999, 0), (2_047, 0), (2_048, 1), (4_095, 1), (8_191, 2)] {
            for least in [0, i64::MIN, -1_000, i64::MAX - span] {
                let order = order(DataType::Int64, (least, least + span), 1_000).unwrap();
                assert_eq!(order.shift, shift);
                let slots: Vec<usize> = (0..=span).map(|at| order.slot(least + at)).collect();
                assert!(slots.iter().enumerate().all(|(at, &slot)| slot == at >> shift));
                assert_eq!(order.slots(), slots[span as usize] + 2);
                let beyond = [least.wrapping_sub(1), (least + span).wrapping_add(1), least ^ i64::MIN];
                assert!(beyond.iter().all(|&key| order.slot(key) == order.slots() - 1));
            }
        }
    }

    #[test]
    fn keys_without_a_dense_range_have_no_order() {
        assert!(order(DataType::Int64, (0, 8_192), 1_000).is_none());
        assert!(order(DataType::Int64, (i64::MIN, i64::MAX), 1_000).is_none());
        assert!(order(DataType::Int64, (i64::MAX, i64::MIN), 0).is_none());
        assert!(order(DataType::Float64, (0, 10), 1_000).is_none());
        assert!(order(DataType::Date32, (8_000, 10_000), 1_000).is_some());
    }
}
