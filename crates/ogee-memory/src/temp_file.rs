//! A temporary file of slots of one size, slot `i` at `i * slot_bytes`: one for all pages of fixed size that are written as they are (256 KiB),
//! one for those that go through the page cache, and one for each class of compressed ones.
//!
//! ```text
//! | slot 0 | slot 1 | hole | slot 3 | free | slot 5 |  end = 6
//! ```
//!
//! 1. A slot below `end` is in use, free (its space still allocated), a hole (its space given back), or in the hands of the one who
//!    punches it.
//! 2. The last slot below `end` is in use, or `end` is 0, except for slots being punched; the file is cut to `end` when that frees enough.
//! 3. The lowest slot that is not in use is taken first, so that the file empties from its tail.
//!
//! Not here: the classes of slots and the cap on temporary space (`temp_space`), checksums (`pool`).

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::io::{IoFile, TempAccess};

/// The tail is cut off when it has so many bytes, or the file is empty.
const TRUNCATE_BYTES: usize = 4 << 20;

/// So many bytes of free slots keep their space for reuse, or an eighth of those in use if that is more.
const KEEP_BYTES: usize = 16 << 20;

/// The file.
#[derive(Debug)]
pub(crate) struct SlotFile {
    file: Box<dyn IoFile>,
    access: TempAccess,
    /// Its number among the files of its manager with slots of this size.
    number: u8,
    slot_bytes: usize,
    slots: Mutex<Slots>,
    punches: AtomicBool,
}

/// Which slots are in use.
#[derive(Debug)]
struct Slots {
    slot_bytes: usize,
    end: u32,
    /// Slots the file is long, as far as it was cut; at least `end` after a write.
    length: u32,
    free: BTreeSet<u32>,
    holes: BTreeSet<u32>,
    punching: u32,
}

impl Slots {
    fn new(slot_bytes: usize) -> Self {
        Self { slot_bytes, end: 0, length: 0, free: BTreeSet::new(), holes: BTreeSet::new(), punching: 0 }
    }

    fn allocate(&mut self) -> u32 {
        let slot = match (self.free.first().copied(), self.holes.first().copied()) {
            (Some(free), Some(hole)) => free.min(hole),
            (Some(slot), None) | (None, Some(slot)) => slot,
            (None, None) => self.end,
        };
        if slot == self.end {
            self.end += 1;
            self.length = self.length.max(self.end);
        } else if !self.free.remove(&slot) {
            self.holes.remove(&slot);
        }
        slot
    }

    fn in_use(&self) -> usize {
        self.end as usize - self.free.len() - self.holes.len() - self.punching as usize
    }

    fn free(&mut self, slot: u32) {
        debug_assert!(slot < self.end && !self.free.contains(&slot) && !self.holes.contains(&slot));
        self.free.insert(slot);
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.end > 0 && (self.free.remove(&(self.end - 1)) || self.holes.remove(&(self.end - 1))) {
            self.end -= 1;
        }
    }

    /// The new length in slots, if the file should be cut.
    fn cut(&mut self) -> Option<u32> {
        let tail = self.length - self.end;
        (tail as usize * self.slot_bytes >= TRUNCATE_BYTES || (self.end == 0 && tail > 0)).then(|| {
            self.length = self.end;
            self.end
        })
    }

    /// The highest free slots, if too many keep their space; they are the caller's to punch.
    fn take_for_punching(&mut self) -> Vec<u32> {
        let keep = (KEEP_BYTES / self.slot_bytes).max(self.in_use() / 8);
        if self.free.len() <= keep {
            return Vec::new();
        }
        let slots: Vec<u32> = (keep / 2..self.free.len()).filter_map(|_| self.free.pop_last()).collect();
        self.punching += slots.len() as u32;
        slots
    }
}

impl SlotFile {
    pub(crate) fn new(file: Box<dyn IoFile>, access: TempAccess, number: u8, slot_bytes: usize) -> Self {
        Self {
            file,
            access,
            number,
            slot_bytes,
            slots: Mutex::new(Slots::new(slot_bytes)),
            punches: AtomicBool::new(true),
        }
    }

    /// How the file was opened.
    pub(crate) fn access(&self) -> TempAccess {
        self.access
    }

    /// The file's number among those of its manager with slots of this size.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// Bytes of a slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    fn offset(&self, slot: u32) -> u64 {
        u64::from(slot) * self.slot_bytes as u64
    }

    /// Takes the lowest slot that is not in use.
    pub(crate) fn allocate(&self) -> u32 {
        self.slots.lock().allocate()
    }

    /// Gives a slot up; its space goes back to the system when enough of them are free.
    pub(crate) fn free(&self, slot: u32) {
        let punch = {
            let mut slots = self.slots.lock();
            slots.free(slot);
            self.cut(&mut slots);
            if self.punches.load(Ordering::Relaxed) { slots.take_for_punching() } else { Vec::new() }
        };
        if !punch.is_empty() {
            self.punch(punch);
        }
    }

    /// Cuts the file under the lock: a slot taken meanwhile would lie beyond the new end.
    fn cut(&self, slots: &mut Slots) {
        if let Some(length) = slots.cut() {
            // A file that cannot be cut only keeps its space; it is reused or goes with the file.
            drop(self.file.truncate(self.offset(length)));
        }
    }

    /// Gives back the space of slots in the middle, in runs.
    #[cold]
    fn punch(&self, mut highest_first: Vec<u32>) {
        highest_first.reverse();
        for run in highest_first.chunk_by(|a, b| a + 1 == *b) {
            let result = self.file.punch(self.offset(run[0]), self.offset(run.len() as u32));
            if result.is_err() {
                // The space stays allocated and is reused; it is not tried again.
                self.punches.store(false, Ordering::Relaxed);
            }
        }
        let mut slots = self.slots.lock();
        slots.punching -= highest_first.len() as u32;
        slots.holes.extend(highest_first);
        slots.shrink();
        self.cut(&mut slots);
    }

    /// Whether no slot is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.lock().in_use() == 0
    }

    /// Writes a page, or what is left of it when it is compressed.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write(&self, slot: u32, bytes: &[AtomicU8]) -> io::Result<()> {
        assert!(bytes.len() <= self.slot_bytes, "the slot has room for it");
        write_all(&*self.file, bytes, self.offset(slot))
    }

    /// Reads back what was written.
    ///
    /// # Errors
    /// What the system says; `UnexpectedEof` if the file is too short.
    pub(crate) fn read(&self, slot: u32, bytes: &mut [u8]) -> io::Result<()> {
        assert!(bytes.len() <= self.slot_bytes, "the slot has room for it");
        read_all(&*self.file, bytes, self.offset(slot))
    }
}

/// Writes all of `bytes`, in several transfers if need be.
pub(crate) fn write_all(file: &dyn IoFile, bytes: &[AtomicU8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills all of `bytes`, in several transfers if need be.
pub(crate) fn read_all(file: &dyn IoFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::PAGE_SIZE;
    use crate::faulty_io::{FaultPlan, FaultyIo};
    use crate::io::Io;
    use proptest::prelude::*;

    fn open(io: &FaultyIo, directory: &std::path::Path) -> SlotFile {
        SlotFile::new(io.open_temp(directory, TempAccess::Direct).unwrap(), TempAccess::Direct, 0, PAGE_SIZE)
    }

    const SLOT_BYTES: u64 = PAGE_SIZE as u64;

    fn page(byte: u8) -> Vec<AtomicU8> {
        (0..PAGE_SIZE).map(|_| AtomicU8::new(byte)).collect()
    }

    #[test]
    fn the_lowest_slot_is_reused_and_the_tail_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let io = FaultyIo::new(1);
        let file = open(&io, directory.path());
        for slot in 0..40 {
            assert_eq!(file.allocate(), slot);
            file.write(slot, &page(slot as u8)).unwrap();
        }
        file.free(7);
        file.free(3);
        assert_eq!((file.allocate(), file.allocate(), file.allocate()), (3, 7, 40));
        (10..41).for_each(|slot| file.free(slot));
        assert_eq!(io.length(), 10 * SLOT_BYTES);
        let mut back = vec![0; PAGE_SIZE];
        file.read(9, &mut back).unwrap();
        assert!(back.iter().all(|&byte| byte == 9));
        (0..10).for_each(|slot| file.free(slot));
        assert!(file.is_empty());
        assert_eq!(io.length(), 0);
    }

    #[test]
    fn free_slots_in_the_middle_become_holes_where_that_is_possible() {
        for refuse_punch in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let io = FaultyIo::new(2);
            io.set(FaultPlan { refuse_punch, ..FaultPlan::default() });
            let file = open(&io, directory.path());
            (0..301).for_each(|slot| assert_eq!(file.allocate(), slot));
            file.write(300, &page(9)).unwrap();
            (0..200).for_each(|slot| file.free(slot));
            assert_eq!(io.punched_bytes() > 100 * SLOT_BYTES, !refuse_punch, "{}", io.punched_bytes());
            (0..200).for_each(|slot| assert_eq!(file.allocate(), slot));
            assert_eq!(file.allocate(), 301);
        }
    }

    #[test]
    fn short_transfers_are_completed() {
        let directory = tempfile::tempdir().unwrap();
        let io = FaultyIo::new(3);
        io.set(FaultPlan { short_transfers: true, ..FaultPlan::default() });
        let file = open(&io, directory.path());
        let mut back = vec![0; PAGE_SIZE];
        for byte in 1..20 {
            let slot = file.allocate();
            file.write(slot, &page(byte)).unwrap();
            file.read(slot, &mut back).unwrap();
            assert!(back.iter().all(|&read| read == byte));
        }
        assert!(io.writes() > 20 && io.reads() > 20, "no transfer was short");
    }

    proptest! {
        #[test]
        fn slots_are_handed_out_once_lowest_first(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..400)) {
            let mut slots = Slots::new(PAGE_SIZE);
            let mut used = BTreeSet::new();
            for (take, index) in steps {
                if take || used.is_empty() {
                    let lowest = (0..).find(|slot| !used.contains(slot)).unwrap();
                    prop_assert_eq!(slots.allocate(), lowest);
                    used.insert(lowest);
                } else {
                    let slot = *used.iter().nth(index.index(used.len())).unwrap();
                    used.remove(&slot);
                    slots.free(slot);
                    if let Some(length) = slots.cut() {
                        prop_assert!(used.iter().all(|&slot| slot < length));
                    }
                }
                prop_assert_eq!(slots.in_use(), used.len());
                prop_assert_eq!(slots.end, used.last().map_or(0, |last| last + 1));
            }
        }
    }
}
