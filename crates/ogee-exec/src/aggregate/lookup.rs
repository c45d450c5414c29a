//! How the first phase finds the group of a row.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray, types::UInt8Type};
use ogee_memory::{BufferManager, MemoryError, NonPaged, optional};
use ogee_row::RowLayout;
use ogee_vector::{CHUNK_CAPACITY, PhysicalType};

use super::{
    table::{Found, LOCAL_ENTRIES, SaltedTable},
    totals::{FEW, FewGroups, UNKNOWN},
};

/// Entries that the table begins with: room for a chunk of groups, and no more memory to touch than most queries need.
const FIRST_ENTRIES: usize = 1 << 12;

/// How many times larger a table is that takes its place, up to [`LOCAL_ENTRIES`].
const GROWTH: usize = 8;

/// Entries that the table may grow to: more do not stay in the caches that lanes share, and rows are then better partitioned.
const GROWN_ENTRIES: usize = 1 << 19;

/// Groups that a table of so many entries takes before it is full: lookups must leave some empty.
const fn room(entries: usize) -> usize {
    entries / 3 * 2
}

/// How many groups there are if `rows` rows drawn from all of them alike were of `distinct` groups.
fn expected_groups(rows: u64, distinct: usize) -> f64 {
    // distinct = groups * (1 - exp(-rows / groups)), solved for the rows of each group.
    let ratio = distinct as f64 / rows.max(1) as f64;
    let (mut few, mut many) = (1e-6_f64, 1e6_f64);
    for _ in 0..60 {
        let middle = (few * many).sqrt();
        if -(-middle).exp_m1() / middle > ratio {
            few = middle;
        } else {
            many = middle;
        }
    }
    rows as f64 / few
}

/// Bytes of stored keys, validity included, that address a group directly.
const PERFECT_BYTES: usize = 2;

/// Where a lane looks rows up.
pub(crate) enum Lookup {
    /// By hash, in the thread-local table of paper B.
    Salted(SaltedTable),
    /// By the stored keys themselves: perfect aggregation of a small domain, no hash at all.
    Perfect(PerfectTable),
}

/// Groups by the bytes of their stored keys.
pub(crate) struct PerfectTable {
    /// Address of each group's row; 0: there is none.
    groups: NonPaged,
    /// Where in the row the keys are.
    offset: usize,
    bytes: usize,
    len: usize,
    /// The slot of each group, in the order in which they were found.
    found: Vec<u16>,
    /// The place in that order of the group of a slot, as long as they are few, or [`UNKNOWN`].
    numbers: Vec<u8>,
    /// Scratch: the slot of each row.
    slots: Vec<u16>,
}

impl Lookup {
    /// An empty table for rows of `layout`: a perfect one if `may_be_perfect` and the keys are few bytes.
    pub(crate) fn new(
        layout: &RowLayout,
        memory: &Arc<BufferManager>,
        consumer: &'static str,
        may_be_perfect: bool,
    ) -> Result<Self, MemoryError> {
        Ok(match layout.key_bytes().filter(|keys| may_be_perfect && keys.len() <= PERFECT_BYTES) {
            Some(keys) => {
                let bytes = keys.len();
                let mut groups = memory.allocate_non_paged(consumer, 8 << (8 * bytes))?;
                groups.as_u64_slice_mut().fill(0);
                let numbers = vec![UNKNOWN; 1 << (8 * bytes)];
                let (found, slots) = (Vec::new(), Vec::new());
                Self::Perfect(PerfectTable { groups, offset: keys.start, bytes, len: 0, found, numbers, slots })
            }
            None => {
                const { assert!(room(FIRST_ENTRIES) >= CHUNK_CAPACITY) };
                let mut table = SaltedTable::new(memory, consumer, FIRST_ENTRIES)?;
                // A page that is read before it is written is mapped twice, and the second time all processors are told.
                table.reset(FIRST_ENTRIES);
                Self::Salted(table)
            }
        })
    }

    /// Groups found so far.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Salted(table) => table.len(),
            Self::Perfect(table) => table.len,
        }
    }

    /// Whether `rows` rows may be looked up before the next reset.
    pub(crate) fn has_room_for(&self, rows: usize) -> bool {
        match self {
            Self::Salted(table) => table.len() + rows <= room(table.entries()),
            Self::Perfect(_) => true,
        }
    }

    /// Makes room for more groups; whether it did. A table that is not large yet grows as long as there is memory. Beyond that all groups that
    /// there seem to be must fit a table of `bytes` at most: `rows` rows were looked up since the table was empty, `None` if it is not to be.
    ///
    /// # Safety
    /// All rows in the table are on pinned pages.
    pub(crate) unsafe fn grow(
        &mut self,
        memory: &Arc<BufferManager>,
        consumer: &'static str,
        rows: Option<u64>,
        bytes: usize,
    ) -> Result<bool, MemoryError> {
        let Self::Salted(table) = self else { return Ok(false) };
        if table.entries() < LOCAL_ENTRIES {
            let entries = (GROWTH * table.entries()).min(LOCAL_ENTRIES);
            // SAFETY: the caller vouches for the rows.
            return match optional(|| unsafe { table.grown(memory, consumer, entries) }) {
                Ok(larger) => {
                    *table = larger;
                    Ok(true)
                }
                // The small one serves as well.
                Err(MemoryError::OutOfMemory { .. }) => Ok(false),
                Err(error) => Err(error),
            };
        }
        let Some(rows) = rows else { return Ok(false) };
        // A tenth more, since they are not drawn alike.
        let groups = expected_groups(rows, table.len()) * 1.1;
        let most = GROWN_ENTRIES.min(bytes / 8);
        let mut entries = 2 * table.entries();
        while groups > room(entries) as f64 && entries < most {
            entries *= 2;
        }
        if entries > most || groups > room(entries) as f64 {
            return Ok(false);
        }
        // SAFETY: the caller vouches for the rows.
        *table = unsafe { table.grown(memory, consumer, entries)? };
        Ok(true)
    }

    /// Forgets all groups.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::Salted(table) => table.reset(LOCAL_ENTRIES.min(table.capacity())),
            Self::Perfect(table) => {
                table.groups.as_u64_slice_mut().fill(0);
                table.len = 0;
                table.found.clear();
                table.numbers.fill(UNKNOWN);
            }
        }
    }

    /// Gives the groups claimed by the last lookup their rows' addresses.
    pub(crate) fn settle(&mut self, found: &mut Found, addresses: &[*mut u8]) {
        match self {
            Self::Salted(table) => table.settle(found, addresses),
            Self::Perfect(table) => {
                let groups = table.groups.as_u64_slice_mut();
                found.settle(addresses, |slot, address| groups[slot] = address);
            }
        }
    }

    /// Points the group of staged row `row` to `address`: it was materialized once more.
    ///
    /// # Safety
    /// As [`SaltedTable::redirect`].
    pub(crate) unsafe fn redirect(&mut self, layout: &RowLayout, row: *const u8, address: *mut u8) {
        match self {
            // SAFETY: the caller vouches for the rows.
            Self::Salted(table) => unsafe { table.redirect(layout, row, address) },
            Self::Perfect(table) => {
                // SAFETY: the caller vouches for the row.
                let slot = unsafe { table.slot(row) };
                table.groups.as_u64_slice_mut()[slot] = address as u64;
            }
        }
    }
}

impl PerfectTable {
    /// Slot of the group of `row`.
    ///
    /// # Safety
    /// `row` is a row of the table's layout.
    #[inline(always)]
    unsafe fn slot(&self, row: *const u8) -> usize {
        // SAFETY: the keys lie within the row, and two bytes can be read from where they begin: rows are multiples of 8.
        unsafe {
            match self.bytes {
                1 => usize::from(*row.add(self.offset)),
                2 => usize::from(row.add(self.offset).cast::<u16>().read_unaligned()),
                _ => 0,
            }
        }
    }

    /// Looks up the rows whose stored keys are `keys`, as [`SaltedTable::find_or_claim`] does; nothing has to be staged.
    pub(crate) fn find_or_claim(&mut self, layout: &RowLayout, keys: &[ArrayRef], rows: usize, found: &mut Found) {
        found.clear();
        found.groups.resize(rows, 0);
        if let Some(codes) = only_bytes(layout, keys, rows)
            && let Some(groups) = self.groups.as_u64_slice_mut().first_chunk::<{ 1 << 8 }>()
        {
            // One key of one byte is the slot already.
            if find_all(&mut found.groups, codes, |&code| groups[usize::from(code)], 0) {
                return;
            }
        }
        self.write_slots(layout, keys, rows);
        let groups = self.groups.as_u64_slice_mut();
        // As arrays, so that no slot needs a check.
        let complete = if let Some(groups) = groups.first_chunk::<{ 1 << 16 }>() {
            find_all(&mut found.groups, &self.slots, |&slot| groups[usize::from(slot)], 0)
        } else if let Some(groups) = groups.first_chunk::<{ 1 << 8 }>() {
            find_all(&mut found.groups, &self.slots, |&slot| groups[usize::from(slot as u8)], 0)
        } else {
            find_all(&mut found.groups, &self.slots, |_| groups[0], 0)
        };
        if complete {
            return;
        }
        for row in 0..rows {
            if found.groups[row] == 0 {
                let slot = usize::from(self.slots[row]);
                if groups[slot] == 0 {
                    groups[slot] = found.claim(row, slot);
                    if self.found.len() < FEW {
                        self.numbers[slot] = self.found.len() as u8;
                        self.found.push(slot as u16);
                    }
                }
                found.groups[row] = groups[slot];
            }
        }
        self.len += found.new.len();
    }

    /// Looks the same rows up where there are few groups in all and each of theirs is there: `few` groups then begin with them, by number, without
    /// a look at addresses. Whether it is so.
    pub(crate) fn find_few(&mut self, layout: &RowLayout, keys: &[ArrayRef], rows: usize, few: &mut FewGroups) -> bool {
        if !self.has_few(rows) {
            return false;
        }
        let codes = only_bytes(layout, keys, rows);
        if codes.is_none() {
            self.write_slots(layout, keys, rows);
        }
        self.number(codes, rows, few)
    }

    /// The same for rows that [`find_or_claim`](Self::find_or_claim) has just looked up: their slots are known.
    pub(crate) fn number_found(
        &mut self,
        layout: &RowLayout,
        keys: &[ArrayRef],
        rows: usize,
        few: &mut FewGroups,
    ) -> bool {
        self.has_few(rows) && self.number(only_bytes(layout, keys, rows), rows, few)
    }

    /// Whether there are so few groups that `rows` rows are better looked up by number.
    fn has_few(&self, rows: usize) -> bool {
        self.len > 0 && self.len <= self.found.len() && FewGroups::pays(rows, self.len)
    }

    /// Looks up by number the rows whose slots are `codes`, or were written.
    fn number(&mut self, codes: Option<&[u8]>, rows: usize, few: &mut FewGroups) -> bool {
        few.numbers.clear();
        few.numbers.resize(rows, 0);
        let numbers = self.numbers.as_slice();
        // As arrays, so that no slot needs a check.
        let complete = if let Some(numbers) = numbers.first_chunk::<{ 1 << 16 }>() {
            find_all(&mut few.numbers, &self.slots, |&slot| numbers[usize::from(slot)], UNKNOWN)
        } else if let Some(numbers) = numbers.first_chunk::<{ 1 << 8 }>() {
            match codes {
                Some(codes) => find_all(&mut few.numbers, codes, |&code| numbers[usize::from(code)], UNKNOWN),
                None => find_all(&mut few.numbers, &self.slots, |&slot| numbers[usize::from(slot as u8)], UNKNOWN),
            }
        } else {
            true
        };
        if !complete {
            return false;
        }
        if self.len == 1 {
            few.numbers.clear();
        }
        few.groups.clear();
        let groups = self.groups.as_u64_slice_mut();
        few.groups.extend(self.found.iter().map(|&slot| groups[usize::from(slot)]));
        few.begin(rows);
        true
    }

    /// Writes to `slots` the bytes that the keys of each row will have there.
    fn write_slots(&mut self, layout: &RowLayout, keys: &[ArrayRef], rows: usize) {
        self.slots.clear();
        self.slots.resize(rows, 0);
        for (index, array) in keys.iter().enumerate() {
            let column = layout.column(index);
            let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
            let valid = column.validity.map_or(0, |(byte, mask)| u16::from(mask) << (8 * (byte - self.offset)));
            // A column without bytes begins where the keys end.
            let shift = 8 * (column.offset - self.offset) as u32;
            let place = |value: u16| value.checked_shl(shift).unwrap_or(0) | valid;
            let mut write = |value: &dyn Fn(usize) -> u16| {
                for row in 0..rows {
                    if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                        self.slots[row] |= place(value(row));
                    }
                }
            };
            match column.physical {
                PhysicalType::Null => {}
                PhysicalType::Bool => {
                    let values = array.as_boolean().values();
                    write(&|row| u16::from(values.value(row)));
                }
                _ => {
                    let data = array.to_data();
                    let bytes = data.buffers()[0].as_slice();
                    if column.physical.row_width() == 1 {
                        let values = &bytes[data.offset()..][..rows];
                        match nulls {
                            None => {
                                for (slot, &value) in self.slots.iter_mut().zip(values) {
                                    *slot |= u16::from(value) << shift | valid;
                                }
                            }
                            Some(_) => write(&|row| u16::from(values[row])),
                        }
                    } else {
                        // The only column, without validity.
                        let values = &bytes[2 * data.offset()..][..2 * rows];
                        let float = column.physical == PhysicalType::F16;
                        for (slot, value) in self.slots.iter_mut().zip(values.chunks_exact(2)) {
                            *slot = match u16::from_le_bytes([value[0], value[1]]) {
                                // As rows have them: one zero, one NaN.
                                0x8000 if float => 0,
                                value if float && value & 0x7fff > 0x7c00 => 0x7e00,
                                value => value,
                            };
                        }
                    }
                }
            }
        }
    }
}

/// The values of the only key, if it is stored in one byte, as codes and short distances are, and is never NULL.
fn only_bytes<'a>(layout: &RowLayout, keys: &'a [ArrayRef], rows: usize) -> Option<&'a [u8]> {
    let [key] = keys else { return None };
    let column = layout.column(0);
    let is_plain = column.physical == PhysicalType::U8 && column.validity.is_none();
    is_plain.then(|| &key.as_primitive::<UInt8Type>().values()[..rows])
}

/// Writes the group of each slot to `groups`; whether all are there, which `none` is not.
#[inline(always)]
fn find_all<S, G: Copy + PartialEq>(groups: &mut [G], slots: &[S], group: impl Fn(&S) -> G, none: G) -> bool {
    for (found, slot) in groups.iter_mut().zip(slots) {
        *found = group(slot);
    }
    // Apart from the loop above, which is as short as it can be; this one is made of vectors.
    !groups.iter().fold(false, |missing, &found| missing | (found == none))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_expected_from_repeats() {
        for groups in [90_000.0_f64, 200_000.0, 5_000_000.0] {
            let rows = 230_000.0;
            let distinct = groups * -(-rows / groups).exp_m1();
            let expected = expected_groups(rows as u64, distinct as usize);
            assert!((expected / groups - 1.0).abs() < 0.01, "{expected} instead of {groups}");
        }
        assert!(expected_groups(1000, 1000) > 1e6, "no repeats, no end");
    }
}
