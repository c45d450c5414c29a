//! The first rows of each partition, while rows come: a table of partitions, each with a heap of its best rows so far, on pages that are pinned.
//! A row that comes after as many rows as are wanted is dropped before it is written anywhere.
//!
//! What is in the table is bounded. It begins small, so that few partitions stay in the cache, and grows. A table that may not grow further hands
//! its rows over, to be sorted with all others, and begins anew; where it hardly drops any, rows go past it for a while. Rows that may be wanted only together with their peers are handed over at once.

use std::{cmp::Ordering, sync::Arc};

use ogee_memory::{BufferManager, MemoryError, NonPaged};
use ogee_row::{PartitionedRows, RadixBits, RowStage, row_hash};

use super::{CONSUMER, divide::Divided};
use crate::{
    ExecContext, ExecError,
    keys::spread,
    sort::{Leading, SortPlan, Wanted},
};

/// Partitions in the table at first, and at least for it to be worth having.
const GROUPS_FIRST: usize = 1 << 17;
const GROUPS_MIN: usize = 64;
/// Bytes of the table at most, without rows.
const TABLE_BYTES_MAX: usize = 256 << 20;
/// How many times as many partitions a table that is full has room for after it, if its bytes allow.
const GROWTH: usize = 8;
/// Groups of peers that are wanted of a partition, at most.
const PEER_GROUPS_MAX: usize = 64;
/// Rows that are dropped, of a hundred, for the table to be worth it: a lookup costs about a third of what sorting a row does.
const DROPPED_MIN: usize = 30;
/// Rows that go past the table when it was not.
const SKIP_ROWS: usize = 1 << 22;
/// Rows that were replaced and still take memory, at least, before the others are moved together.
const DEAD_ROWS_MIN: usize = 1 << 16;

/// Words of a partition in the table before its heap: the bits of its keys, where they tell it apart from all others (two words); the first bytes
/// of the order of its worst row, as many as a word has, if it has as many rows as are wanted; how many it has.
const KEY: usize = 0;
const BOUND: usize = 2;
const COUNT: usize = 3;
const HEAP: usize = 4;
/// Words of a cache line.
const LINE_WORDS: usize = 8;
/// What no row's order is beyond.
const NO_BOUND: u64 = u64::MAX;

/// The upper half of a slot is that of the hash, the lower the number of the partition, from 1; 0 is empty.
const SALT: u64 = u64::MAX << 32;

/// The first rows of the partitions that a lane has met.
pub(super) struct Firsts {
    plan: Arc<SortPlan>,
    memory: Arc<BufferManager>,
    leading: Leading,
    /// Bytes of the key up to which rows are compared.
    end: usize,
    slots: NonPaged,
    /// For each partition what most rows are dropped by, and the addresses of as many rows as are wanted, the worst first, as a heap.
    table: NonPaged,
    /// Words of a partition there.
    stride: usize,
    /// The bytes of the partition's keys tell it apart, and fit into [`KEY`].
    is_exact: bool,
    groups: usize,
    /// Partitions that it has room for now, and that its bytes would allow; powers of two.
    groups_max: usize,
    groups_limit: usize,
    rows: PartitionedRows,
    /// Bytes that the rows may take.
    rows_bytes_max: usize,
    /// Rows in heaps, and rows of which better ones took the place.
    live: usize,
    dead: usize,
    /// Rows since the table was empty, and those of them that were dropped.
    seen: usize,
    dropped: usize,
    skip: usize,
    hashes: Vec<u64>,
    /// Of each row the first bytes of its order.
    parts: Vec<u64>,
    address: Vec<*mut u8>,
}

// SAFETY: addresses are of rows on pages that `rows` keeps pinned.
unsafe impl Send for Firsts {}

fn new_rows(plan: &SortPlan, memory: &Arc<BufferManager>) -> PartitionedRows {
    PartitionedRows::new(Arc::clone(&plan.layout), Arc::clone(memory), CONSUMER, RadixBits::new(0), true)
}

impl Firsts {
    /// An empty table that takes at most about `bytes`; `None` if that is too little.
    pub(super) fn new(
        plan: &Arc<SortPlan>,
        ctx: &ExecContext,
        leading: Leading,
        bytes: usize,
    ) -> Result<Option<Self>, MemoryError> {
        // Two slots and an entry for each partition, in half of the memory; in the other half are rows. An entry is a cache line where it fits.
        let stride = leading.rows.saturating_add(HEAP).max(LINE_WORDS);
        let group_bytes = stride.saturating_add(2).saturating_mul(8);
        let groups_limit = (bytes / 2).min(TABLE_BYTES_MAX) / group_bytes;
        // Whether a row has peers is asked of all rows of a heap.
        let too_many = leading.wanted == Wanted::Groups && leading.rows > PEER_GROUPS_MAX;
        if groups_limit < GROUPS_MIN || too_many {
            return Ok(None);
        }
        let groups_limit = 1 << groups_limit.ilog2();
        let groups_max = groups_limit.min(GROUPS_FIRST);
        let memory = &ctx.memory;
        Ok(Some(Self {
            slots: memory.allocate_non_paged(CONSUMER, groups_max * 2 * 8)?,
            table: memory.allocate_non_paged(CONSUMER, groups_max * stride * 8)?,
            stride,
            is_exact: plan.keys.has_bits_until(leading.partition),
            groups: 0,
            groups_max,
            groups_limit,
            rows: new_rows(plan, memory),
            rows_bytes_max: bytes / 2,
            live: 0,
            dead: 0,
            seen: 0,
            dropped: 0,
            skip: 0,
            hashes: Vec::new(),
            parts: Vec::new(),
            address: Vec::new(),
            end: if leading.wanted == Wanted::Rows { plan.keys.len() } else { leading.peers },
            leading,
            plan: Arc::clone(plan),
            memory: Arc::clone(memory),
        }))
    }

    /// Whether the next `rows` rows are to be looked up.
    pub(super) fn is_worthwhile(&mut self, rows: usize) -> bool {
        let now = self.skip == 0;
        self.skip = self.skip.saturating_sub(rows);
        now
    }

    /// Takes the rows of `stage` that may be among the first of their partitions, or hands them over to `divided`; those that are to be are
    /// `selected`, for the caller to do so.
    ///
    /// # Safety
    /// Rows of the plan's layout are staged, with hashes, and their strings are there.
    pub(super) unsafe fn choose(
        &mut self,
        stage: &RowStage,
        rows: usize,
        selected: &mut Vec<u32>,
        divided: &mut Divided,
    ) -> Result<(), ExecError> {
        selected.clear();
        self.hashes.clear();
        self.parts.clear();
        for row in 0..rows {
            let row = stage.row(row);
            // SAFETY: staged rows begin with their hashes; the caller vouches for them.
            unsafe {
                self.hashes.push(spread(row_hash(row)));
                self.parts.push(self.plan.keys.part_bits(row, self.leading.partition));
            }
        }
        self.prefetch();
        for row in 0..rows {
            let (hash, part) = (self.hashes[row], self.parts[row]);
            let source = stage.row(row);
            // SAFETY: the caller vouches for the rows.
            unsafe {
                let group = match self.find(hash, source) {
                    Ok(group) => group,
                    Err(mut slot) => {
                        if self.groups == self.groups_max {
                            self.make_room(divided)?;
                            // Which may have emptied the table.
                            slot = self.find(hash, source).expect_err("not found before");
                        }
                        self.open_group(slot, hash, source)
                    }
                };
                if part > self.entry(group)[BOUND] {
                    self.dropped += 1;
                    continue;
                }
                match self.add(group, source, divided)? {
                    Place::Kept => self.set_bound(group),
                    Place::Dropped => self.dropped += 1,
                    Place::Peer => selected.push(row as u32),
                }
            }
        }
        self.seen += rows;
        if self.dead > DEAD_ROWS_MIN.max(4 * self.live) {
            self.compact()?;
        } else if self.rows.retained_bytes() > self.rows_bytes_max {
            self.make_room(divided)?;
        }
        Ok(())
    }

    /// Asks for what the rows of `hashes` will be compared with.
    fn prefetch(&mut self) {
        let mask = 2 * self.groups_max as u64 - 1;
        let slots = self.slots.as_u64_slice_mut();
        let table = self.table.as_ptr();
        for hash in &self.hashes {
            let slot = slots[(hash & mask) as usize];
            if slot != 0 && (slot ^ hash) & SALT == 0 {
                let entry = table.wrapping_add((slot as u32 as usize - 1) * self.stride * 8);
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a prefetch never faults.
                unsafe {
                    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                    _mm_prefetch::<_MM_HINT_T0>(entry.cast());
                }
                #[cfg(not(target_arch = "x86_64"))]
                let _ = entry;
            }
        }
    }

    /// The partition of `row`, or the slot where it would be.
    ///
    /// # Safety
    /// As [`choose`](Self::choose).
    #[inline(always)]
    unsafe fn find(&mut self, hash: u64, row: *const u8) -> Result<usize, usize> {
        let mask = 2 * self.groups_max - 1;
        let slots = self.slots.as_u64_slice_mut();
        let table = self.table.as_u64_slice_mut();
        let mut at = hash as usize & mask;
        loop {
            let slot = slots[at];
            if slot == 0 {
                return Err(at);
            }
            if (slot ^ hash) & SALT == 0 {
                let group = slot as u32 as usize - 1;
                let entry = &table[group * self.stride..][..HEAP + 1];
                let found = if self.is_exact {
                    // SAFETY: the caller vouches for the row.
                    let bits = unsafe { self.plan.keys.bits_until(row, self.leading.partition) };
                    entry[KEY..][..2] == bits
                } else {
                    let member = entry[HEAP] as *const u8;
                    // SAFETY: each partition in the table has a row, which is pinned.
                    unsafe { self.plan.keys.compare_until(member, row, self.leading.partition) }.is_eq()
                };
                if found {
                    return Ok(group);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// # Safety
    /// As [`choose`](Self::choose).
    unsafe fn open_group(&mut self, slot: usize, hash: u64, row: *const u8) -> usize {
        self.groups += 1;
        self.slots.as_u64_slice_mut()[slot] = hash & SALT | self.groups as u64;
        let group = self.groups - 1;
        let bits = match self.is_exact {
            // SAFETY: the caller vouches for the row.
            true => unsafe { self.plan.keys.bits_until(row, self.leading.partition) },
            false => [0; 2],
        };
        let entry = self.entry(group);
        entry[KEY..][..2].copy_from_slice(&bits);
        (entry[BOUND], entry[COUNT]) = (NO_BOUND, 0);
        group
    }

    /// What the table has of `group`.
    #[inline(always)]
    fn entry(&mut self, group: usize) -> &mut [u64] {
        &mut self.table.as_u64_slice_mut()[group * self.stride..][..self.stride]
    }

    /// Notes what rows of `group` are not to be beyond.
    ///
    /// # Safety
    /// Rows in heaps are pinned.
    unsafe fn set_bound(&mut self, group: usize) {
        let (most, start) = (self.leading.rows, self.leading.partition);
        let entry = self.entry(group);
        if entry[COUNT] == most as u64 {
            let worst = entry[HEAP] as *const u8;
            // SAFETY: the caller vouches for it.
            self.entry(group)[BOUND] = unsafe { self.plan.keys.part_bits(worst, start) };
        }
    }

    /// The order of two rows of a partition.
    ///
    /// # Safety
    /// Both are rows of the plan's layout, staged or pinned.
    unsafe fn compare(&self, a: *const u8, b: *const u8) -> Ordering {
        // SAFETY: the caller vouches for the rows.
        unsafe { self.plan.keys.compare_within(a, b, self.leading.partition, self.end) }
    }

    /// Adds `row` to its partition, if it is among the first there.
    ///
    /// # Safety
    /// As [`choose`](Self::choose).
    unsafe fn add(&mut self, group: usize, row: *const u8, divided: &mut Divided) -> Result<Place, ExecError> {
        let most = self.leading.rows;
        let count = self.entry(group)[COUNT] as usize;
        // SAFETY: the caller vouches for the row; those in heaps are pinned.
        unsafe {
            if count == most {
                let worst = self.heap(group, count)[0] as *const u8;
                match self.compare(row, worst) {
                    Ordering::Greater => return Ok(Place::Dropped),
                    Ordering::Equal if self.leading.wanted == Wanted::Rows => return Ok(Place::Dropped),
                    Ordering::Equal => return Ok(Place::Peer),
                    Ordering::Less => {}
                }
            }
            if self.leading.wanted == Wanted::Groups && self.has_peer(group, count, row) {
                return Ok(Place::Peer);
            }
            if count < most {
                let address = self.append(row)?;
                self.entry(group)[COUNT] += 1;
                self.live += 1;
                self.rise(group, count, address);
                return Ok(Place::Kept);
            }
            let worst = self.heap(group, count)[0] as *mut u8;
            if self.leading.wanted == Wanted::Rows && !self.plan.layout.has_heap() {
                // In its place.
                std::ptr::copy_nonoverlapping(row, worst, self.plan.layout.width());
                self.sink(group, count, worst as u64);
                self.dropped += 1;
                return Ok(Place::Kept);
            }
            let address = self.append(row)?;
            self.dead += 1;
            self.sink(group, count, address);
            let now_worst = self.heap(group, count)[0] as *const u8;
            if self.leading.wanted == Wanted::Peers && self.compare(worst, now_worst).is_eq() {
                divided.append(std::iter::once(worst.cast_const()))?;
            } else {
                self.dropped += 1;
            }
            Ok(Place::Kept)
        }
    }

    /// # Safety
    /// As [`choose`](Self::choose).
    unsafe fn append(&mut self, row: *const u8) -> Result<u64, MemoryError> {
        // SAFETY: the caller vouches for the row.
        unsafe { self.rows.append(std::iter::once(row), &mut self.address)? };
        Ok(self.address[0] as u64)
    }

    fn heap(&mut self, group: usize, count: usize) -> &mut [u64] {
        &mut self.entry(group)[HEAP..][..count]
    }

    /// Whether a row in the heap of `group` has the order of `row`.
    ///
    /// # Safety
    /// As [`choose`](Self::choose).
    unsafe fn has_peer(&mut self, group: usize, count: usize, row: *const u8) -> bool {
        (0..count).any(|at| {
            let member = self.heap(group, count)[at] as *const u8;
            // SAFETY: the caller vouches for the row; those in heaps are pinned.
            unsafe { self.compare(member, row) }.is_eq()
        })
    }

    /// Adds `row` to a heap that had `at` rows.
    ///
    /// # Safety
    /// All are pinned.
    unsafe fn rise(&mut self, group: usize, mut at: usize, row: u64) {
        let count = at + 1;
        while at > 0 {
            let above = self.heap(group, count)[(at - 1) / 2];
            // SAFETY: the caller vouches for them.
            if unsafe { self.compare(row as *const u8, above as *const u8) }.is_le() {
                break;
            }
            self.heap(group, count)[at] = above;
            at = (at - 1) / 2;
        }
        self.heap(group, count)[at] = row;
    }

    /// Has `row` take the place of the worst of a heap.
    ///
    /// # Safety
    /// All are pinned.
    unsafe fn sink(&mut self, group: usize, count: usize, row: u64) {
        let mut at = 0;
        loop {
            let mut below = 2 * at + 1;
            if below >= count {
                break;
            }
            let heap = self.heap(group, count);
            let (mut worse, other) = (heap[below], heap.get(below + 1).copied());
            // SAFETY: the caller vouches for them.
            let is_worse = |other: &u64| unsafe { self.compare(*other as *const u8, worse as *const u8) }.is_gt();
            if let Some(other) = other.filter(is_worse) {
                below += 1;
                worse = other;
            }
            // SAFETY: as above.
            if unsafe { self.compare(row as *const u8, worse as *const u8) }.is_ge() {
                break;
            }
            self.heap(group, count)[at] = worse;
            at = below;
        }
        self.heap(group, count)[at] = row;
    }

    /// Gives the table room for more partitions, which stay where they are.
    fn grow(&mut self) -> Result<(), MemoryError> {
        let groups_max = self.groups_limit.min(self.groups_max * GROWTH);
        let mut table = self.memory.allocate_non_paged(CONSUMER, groups_max * self.stride * 8)?;
        let mut slots = self.memory.allocate_non_paged(CONSUMER, groups_max * 2 * 8)?;
        let words = self.groups * self.stride;
        table.as_u64_slice_mut()[..words].copy_from_slice(&self.table.as_u64_slice_mut()[..words]);
        slots.as_u64_slice_mut().fill(0);
        let mask = 2 * groups_max - 1;
        for (group, entry) in table.as_u64_slice_mut()[..words].chunks_exact(self.stride).enumerate() {
            // SAFETY: each partition in the table has a row, which is pinned.
            let hash = spread(unsafe { row_hash(entry[HEAP] as *const u8) });
            let mut at = hash as usize & mask;
            while slots.as_u64_slice_mut()[at] != 0 {
                at = (at + 1) & mask;
            }
            slots.as_u64_slice_mut()[at] = hash & SALT | (group as u64 + 1);
        }
        (self.table, self.slots, self.groups_max) = (table, slots, groups_max);
        Ok(())
    }

    /// Room for more partitions or rows.
    fn make_room(&mut self, divided: &mut Divided) -> Result<(), ExecError> {
        if self.groups == self.groups_max && self.groups_max < self.groups_limit {
            return Ok(self.grow()?);
        }
        if self.groups < self.groups_max && self.dead > self.live {
            return Ok(self.compact()?);
        }
        if self.dropped * 100 < self.seen * DROPPED_MIN {
            self.skip = SKIP_ROWS;
        }
        self.settle(divided)
    }

    /// Moves the rows in heaps to new pages, and gives up those of which others took the place.
    fn compact(&mut self) -> Result<(), MemoryError> {
        let mut rows = new_rows(&self.plan, &self.memory);
        for group in 0..self.groups {
            let count = self.entry(group)[COUNT] as usize;
            let entry = &mut self.table.as_u64_slice_mut()[group * self.stride..];
            for member in &mut entry[HEAP..][..count] {
                // SAFETY: a row that is pinned, with its strings.
                unsafe { rows.append(std::iter::once(*member as *const u8), &mut self.address)? };
                *member = self.address[0] as u64;
            }
        }
        self.rows = rows;
        self.dead = 0;
        Ok(())
    }

    /// Hands all rows over, and begins anew.
    pub(super) fn settle(&mut self, divided: &mut Divided) -> Result<(), ExecError> {
        divided.expect(self.seen - self.dropped.min(self.seen), self.seen);
        for group in 0..self.groups {
            let count = self.entry(group)[COUNT] as usize;
            let members = self.heap(group, count);
            // SAFETY: rows that are pinned, with their strings.
            unsafe { divided.append(members.iter().map(|&member| member as *const u8))? };
        }
        self.slots.as_u64_slice_mut().fill(0);
        self.rows = new_rows(&self.plan, &self.memory);
        (self.groups, self.live, self.dead, self.seen, self.dropped) = (0, 0, 0, 0, 0);
        Ok(())
    }
}

/// Where a row went.
enum Place {
    /// Into the heap of its partition.
    Kept,
    /// It is not wanted.
    Dropped,
    /// It may be wanted with its peers in the heap.
    Peer,
}
