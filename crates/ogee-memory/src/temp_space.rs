//! The temporary space of a manager: where it is, how much may be in it, and the files in it.
//!
//! 1. Bytes are counted before they are written and uncounted when the slot or file is gone, or when writing failed; those in the page cache also
//!    there (`temp_cache`).
//! 2. Directory and cap change only while nothing is counted.
//!
//! Not here: which page goes there and when.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::PAGE_SIZE;
use crate::compression::SLOT_STEP;
use crate::error::MemoryError;
use crate::io::{Io, IoFile, TempAccess};
use crate::temp_cache::TempCache;
use crate::temp_file::SlotFile;

/// Of what is free when spilling begins, this much may be used.
const FREE_SPACE_PERCENT: u64 = 90;

/// Sizes of slots: multiples of 32 KiB up to a page.
const SLOT_CLASSES: usize = PAGE_SIZE / SLOT_STEP;

/// Files of pages that go through the page cache: whoever writes there has the file for itself meanwhile.
const CACHED_FILES: usize = 4;

/// Space is short when less than this is left of it, or less than an eighth.
const SHORT_BYTES: u64 = 16 * PAGE_SIZE as u64;

#[derive(Debug)]
struct Place {
    directory: PathBuf,
    bytes_max: Option<u64>,
    /// What `bytes_max` comes to, found when spilling begins; `None` after a change.
    cap: Option<u64>,
    /// A file for each size of slots that is needed.
    slots: [Option<Arc<SlotFile>>; SLOT_CLASSES],
    /// For pages that go through the page cache.
    cached: [Option<Arc<SlotFile>>; CACHED_FILES],
}

impl Place {
    fn close(&mut self) {
        self.slots = Default::default();
        self.cached = Default::default();
    }
}

/// The temporary space.
#[derive(Debug)]
pub(crate) struct TempSpace {
    io: Arc<dyn Io>,
    cache: TempCache,
    /// Which of the files in the page cache is next.
    next_cached: AtomicUsize,
    place: Mutex<Place>,
    held: AtomicU64,
    held_peak: AtomicU64,
}

/// A slot in the file it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) file: Arc<SlotFile>,
    pub(crate) number: u32,
}

impl Slot {
    /// The slot's number among all slots of its manager.
    pub(crate) fn id(&self) -> u64 {
        u64::from(self.file.number()) << 56 | (self.file.slot_bytes() as u64) << 32 | u64::from(self.number)
    }
}

/// A file with one page of variable size.
#[derive(Debug)]
pub(crate) struct OwnFile {
    pub(crate) file: Box<dyn IoFile>,
    pub(crate) access: TempAccess,
}

impl TempSpace {
    pub(crate) fn new(io: Arc<dyn Io>, directory: Option<PathBuf>, bytes_max: Option<u64>) -> Self {
        let directory = directory.unwrap_or_else(std::env::temp_dir);
        Self {
            cache: TempCache::new(Arc::clone(&io)),
            next_cached: AtomicUsize::new(0),
            io,
            place: Mutex::new(Place {
                directory,
                bytes_max,
                cap: None,
                slots: Default::default(),
                cached: Default::default(),
            }),
            held: AtomicU64::new(0),
            held_peak: AtomicU64::new(0),
        }
    }

    /// Bytes in the temporary space.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn held_peak(&self) -> u64 {
        self.held_peak.load(Ordering::Relaxed)
    }

    pub(crate) fn reset_peak(&self) {
        self.held_peak.store(self.held(), Ordering::Relaxed);
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.place.lock().directory.clone()
    }

    pub(crate) fn set_directory(&self, directory: Option<PathBuf>) -> Result<(), MemoryError> {
        let mut place = self.place.lock();
        let spilled = self.held();
        if spilled > 0 {
            return Err(MemoryError::InUse { setting: "temp_directory", spilled });
        }
        place.directory = directory.unwrap_or_else(std::env::temp_dir);
        place.close();
        Ok(())
    }

    /// From now on; below what is spilled already it lets nothing more be spilled.
    pub(crate) fn set_bytes_max(&self, bytes_max: Option<u64>) {
        let mut place = self.place.lock();
        place.bytes_max = bytes_max;
        place.cap = None;
    }

    /// What people should know about the directory.
    pub(crate) fn warning(&self) -> Option<String> {
        let directory = self.directory();
        self.io.is_in_memory(&directory).unwrap_or(false).then(|| {
            format!(
                "temporary directory '{}' lies in memory: what is spilled there still counts against the machine's and the \
                 container's memory. Set temp_directory to a disk",
                directory.display()
            )
        })
    }

    /// Counts `bytes` before they are written, and opens what is needed under the same lock, so that no setting changes in between.
    fn count<T>(&self, bytes: u64, open: impl FnOnce(&mut Place) -> io::Result<T>) -> Result<T, MemoryError> {
        let mut place = self.place.lock();
        let held = self.held();
        let cap = match place.cap {
            Some(cap) if held > 0 => cap,
            _ => place.bytes_max.unwrap_or_else(|| {
                // A directory whose free space cannot be told fails, or does not, when it is written to.
                self.io.free_space(&place.directory).map_or(u64::MAX, |free| {
                    let free = u128::from(free) + u128::from(held);
                    u64::try_from(free * u128::from(FREE_SPACE_PERCENT) / 100).unwrap_or(u64::MAX)
                })
            }),
        };
        place.cap = Some(cap);
        if held + bytes > cap {
            let directory = place.directory.clone();
            return Err(MemoryError::TempSpaceExhausted { requested: bytes, held, cap, directory });
        }
        let opened = open(&mut place).map_err(|error| io_error("open", place.directory.clone(), error))?;
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.held_peak.fetch_max(held, Ordering::Relaxed);
        Ok(opened)
    }

    /// Whether little is left of what may be used.
    pub(crate) fn is_short(&self) -> bool {
        // Before spilling begins nobody has looked.
        self.place.lock().cap.is_some_and(|cap| cap.saturating_sub(self.held()) < SHORT_BYTES.max(cap / 8))
    }

    /// The time by which transfers are measured.
    pub(crate) fn now(&self) -> Duration {
        self.io.now()
    }

    fn uncount(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more temporary space is given back than was counted");
    }

    /// Whether `bytes` may go to the page cache, by what this process may still take of its limit, its `claim`. Then they are counted there
    /// until the slot or file that is opened for them is given up, or could not be opened.
    pub(crate) fn may_cache(&self, bytes: usize, claim: usize) -> bool {
        self.cache.take(bytes as u64, claim as u64)
    }

    /// A slot in the page cache, for which [`may_cache`](Self::may_cache) was asked.
    ///
    /// # Errors
    /// As [`allocate_slot`](Self::allocate_slot).
    pub(crate) fn allocate_cached(&self) -> Result<Slot, MemoryError> {
        let index = self.next_cached.fetch_add(1, Ordering::Relaxed) % CACHED_FILES;
        let file = self.count(PAGE_SIZE as u64, |place| {
            let Place { directory, cached, .. } = place;
            if cached[index].is_none() {
                let file = self.io.open_temp(directory, TempAccess::PageCache)?;
                // The file of pages that are written as they are has number 0.
                let number = u8::try_from(1 + index).expect("a few files");
                cached[index] = Some(Arc::new(SlotFile::new(file, TempAccess::PageCache, number, PAGE_SIZE)));
            }
            Ok(Arc::clone(cached[index].as_ref().expect("opened above")))
        });
        let file = file.inspect_err(|_| self.give_cached(PAGE_SIZE, TempAccess::PageCache))?;
        let number = file.allocate();
        Ok(Slot { file, number })
    }

    /// A slot for `bytes` of a page of fixed size.
    ///
    /// # Errors
    /// The cap is reached, or the file cannot be opened.
    pub(crate) fn allocate_slot(&self, bytes: usize) -> Result<Slot, MemoryError> {
        let slot_bytes = bytes.next_multiple_of(SLOT_STEP);
        let file = self.count(slot_bytes as u64, |place| {
            let Place { directory, slots, .. } = place;
            let class = &mut slots[slot_bytes / SLOT_STEP - 1];
            if class.is_none() {
                let file = self.io.open_temp(directory, TempAccess::Direct)?;
                *class = Some(Arc::new(SlotFile::new(file, TempAccess::Direct, 0, slot_bytes)));
            }
            Ok(Arc::clone(class.as_ref().expect("opened above")))
        })?;
        let number = file.allocate();
        Ok(Slot { file, number })
    }

    /// Gives a slot up.
    pub(crate) fn free_slot(&self, slot: &Slot) {
        let bytes = slot.file.slot_bytes();
        slot.file.free(slot.number);
        self.give_cached(bytes, slot.file.access());
        self.uncount(bytes as u64);
    }

    /// A file of its own for a page of `bytes`; in the page cache if [`may_cache`](Self::may_cache) said so.
    ///
    /// # Errors
    /// The cap is reached, or the file cannot be opened.
    pub(crate) fn open_own(&self, bytes: usize, access: TempAccess) -> Result<OwnFile, MemoryError> {
        let file = self.count(bytes as u64, |place| self.io.open_temp(&place.directory, access));
        let file = file.inspect_err(|_| self.give_cached(bytes, access))?;
        Ok(OwnFile { file, access })
    }

    /// Gives such a file up.
    pub(crate) fn close_own(&self, file: OwnFile, bytes: usize) {
        let OwnFile { file, access } = file;
        drop(file);
        self.give_cached(bytes, access);
        self.uncount(bytes as u64);
    }

    fn give_cached(&self, bytes: usize, access: TempAccess) {
        if access == TempAccess::PageCache {
            self.cache.give(bytes as u64);
        }
    }

    /// Closes the slotted files if nothing is in them.
    pub(crate) fn trim(&self) {
        let mut place = self.place.lock();
        // A slot is allocated after `count` has let go of the lock, but is counted within it.
        if self.held() == 0
            && place.slots.iter().flatten().chain(place.cached.iter().flatten()).all(|slots| slots.is_empty())
        {
            place.close();
        }
    }

    /// The error for a failed transfer of `bytes`.
    pub(crate) fn transfer_error(&self, operation: &'static str, bytes: usize, error: io::Error) -> MemoryError {
        let full = error.kind() == io::ErrorKind::StorageFull || error.kind() == io::ErrorKind::QuotaExceeded;
        if full && operation == "write" {
            let held = self.held().saturating_sub(bytes as u64);
            return MemoryError::DiskFull { requested: bytes as u64, held, directory: self.directory() };
        }
        if error.kind() == io::ErrorKind::FileTooLarge && operation == "write" {
            return MemoryError::FileTooLarge { requested: bytes as u64, directory: self.directory() };
        }
        io_error(operation, self.directory(), error)
    }
}

fn io_error(operation: &'static str, directory: PathBuf, error: io::Error) -> MemoryError {
    MemoryError::TempIo { operation, directory, source: Arc::new(error) }
}
