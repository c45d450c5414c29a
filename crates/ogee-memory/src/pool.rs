//! The pool: who gets memory, who has to give it up, and how pages go out and come back.
//!
//! A request is served, in this order, from a free frame, from room in the budget, from what other handles can spare (`neighbours`), from what is
//! given back by evicting the page that comes first in the queue: by waiting for a background write if one is on its way for each who waits, else by
//! writing one page oneself. When nothing can be evicted and nothing is in flight, it waits as long as other statements may release some
//! (`statements`), and is refused only then.
//!
//! Not here: threads of its own (`background`), the face to users (`manager`).
#![expect(unsafe_code, reason = "pages are written from and read into raw memory")]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::account::process_account;
use crate::background::Background;
use crate::checksum::checksum;
use crate::code_pages;
use crate::compression::{Compression, Direction, Packed, Way, padded};
use crate::config::{MemoryConfig, TempCompression};
use crate::consumers::Consumers;
use crate::error::MemoryError;
use crate::eviction_queue::EvictionQueue;
use crate::frame::FrameStore;
use crate::io::TempAccess;
use crate::ledger::Ledger;
use crate::page::{FinishedWrite, OwnedPage, Page, PageHandle, PageKind, PageMemory, Spilled, SpilledPlace};
use crate::page_count::PageCount;
use crate::page_state::Written;
use crate::progress::Progress;
use crate::statements::{Idle, LOOK, Patience, Statements};
use crate::temp_file::{read_all, write_all};
use crate::temp_space::TempSpace;
use crate::{PAGE_SIZE, PIECE_SIZE, variable_page};

/// Event counts for page loads; pages share one by address.
const PAGE_EVENTS: usize = 16;

/// A request that found nothing evictable and nothing in flight looks so many times more, since a page may have been
/// unpinned or freed between two looks.
const LAST_LOOKS: usize = 4;
/// Where memory outside of the pool is more than was promised, it may be a peak of other threads, which go on meanwhile: so many times more,
/// with a pause before each.
const PATIENT_LOOKS: usize = 50;
const PATIENCE: Duration = Duration::from_millis(4);

/// While the pool is over its budget, frames go back to the system as soon as there are so many: four pieces.
const GIVE_BACK_BYTES: usize = 4 * PIECE_SIZE;

/// What is needed, and how far the pool is from it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// A frame.
    Frame,
    /// So many bytes of budget.
    Bytes(usize),
    /// That the reservations already made fit.
    Promise,
}

/// What happened since the manager was made.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) evictions: AtomicU64,
    pub(crate) spilled_bytes: AtomicU64,
    pub(crate) temp_written_bytes: AtomicU64,
    pub(crate) temp_cached_bytes: AtomicU64,
    pub(crate) read_back_bytes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) ledger: Ledger,
    pub(crate) frames: FrameStore,
    pub(crate) temp: TempSpace,
    pub(crate) compression: Compression,
    pub(crate) consumers: Consumers,
    pub(crate) counts: Counts,
    pub(crate) background: Background,
    pub(crate) queue: EvictionQueue,
    spill_always: bool,
    /// Memory has run short since the last trim: from then on a reserve of free frames is kept.
    was_full: AtomicBool,
    /// Threads that hold an entry of the queue or a claimed page.
    in_flight: AtomicUsize,
    /// Pages in memory of which there is a good copy in the temporary space.
    copied: AtomicUsize,
    /// Bytes that requests which found nothing free wait for.
    demand: AtomicUsize,
    /// Moves when a thread leaves `in_flight`, and when memory is freed while somebody waits.
    freed: Progress,
    /// Moves when memory is freed or a page unpinned while a request waits for other statements.
    released: Progress,
    /// Those who share the memory.
    pub(crate) statements: Arc<Statements>,
    pub(crate) page_count: PageCount,
    page_events: [Progress; PAGE_EVENTS],
    /// The error of a background write, for a request that cannot be served.
    failure: Mutex<Option<MemoryError>>,
}

impl Pool {
    pub(crate) fn new(config: &MemoryConfig) -> Arc<Self> {
        Arc::new_cyclic(|pool: &Weak<Self>| Self {
            ledger: Ledger::new(config.limit, config.counts_process),
            frames: FrameStore::default(),
            temp: TempSpace::new(Arc::clone(&config.io), config.temp_directory.clone(), config.max_temp_bytes),
            compression: Compression::new(config.temp_compression, config.io_threads),
            consumers: Consumers::new(),
            counts: Counts::default(),
            background: Background::new(config.io_threads, Weak::clone(pool)),
            queue: EvictionQueue::new(),
            spill_always: config.spill_always,
            was_full: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            copied: AtomicUsize::new(0),
            demand: AtomicUsize::new(0),
            freed: Progress::new(),
            released: Progress::new(),
            statements: if config.counts_process { Statements::of_process() } else { Arc::default() },
            page_count: PageCount::default(),
            page_events: std::array::from_fn(|_| Progress::new()),
            failure: Mutex::new(None),
        })
    }

    // ---- getting memory

    /// Memory for a page of fixed size.
    pub(crate) fn take_frame(&self, consumer: &'static str) -> Result<PageMemory, MemoryError> {
        let frame = self.acquire(consumer, Need::Frame, PAGE_SIZE, || self.frames.take(&self.ledger))?;
        self.write_ahead();
        Ok(PageMemory::Frame(frame))
    }

    /// Memory for a page of `len` bytes.
    pub(crate) fn take_variable(&self, consumer: &'static str, len: usize) -> Result<PageMemory, MemoryError> {
        let map = || variable_page::map(&self.ledger, len);
        self.acquire(consumer, Need::Bytes(len), len, map).map(PageMemory::Mapping)
    }

    /// Calls `take` until it gives something, and evicts in between. `bytes` is what the error says was needed.
    pub(crate) fn acquire<T>(
        &self,
        consumer: &'static str,
        need: Need,
        bytes: usize,
        take: impl Fn() -> io::Result<Option<T>>,
    ) -> Result<T, MemoryError> {
        // Before it is full: what is resident then is the peak.
        if self.ledger.counts_process() && 2 * self.ledger.used() > self.ledger.budget() {
            code_pages::unmap_unused();
        }
        match take() {
            Ok(Some(taken)) => Ok(taken),
            Ok(None) => {
                /// Taken back on unwinding too: a reserve is kept for it.
                struct Demand<'a>(&'a AtomicUsize, usize);
                impl Drop for Demand<'_> {
                    fn drop(&mut self) {
                        self.0.fetch_sub(self.1, Ordering::Relaxed);
                    }
                }
                self.was_full.store(true, Ordering::Relaxed);
                self.demand.fetch_add(bytes, Ordering::Relaxed);
                let _demand = Demand(&self.demand, bytes);
                self.acquire_by_eviction(consumer, need, bytes, take)
            }
            Err(error) => Err(refused(consumer, bytes, error)),
        }
    }

    #[cold]
    fn acquire_by_eviction<T>(
        &self,
        consumer: &'static str,
        need: Need,
        bytes: usize,
        take: impl Fn() -> io::Result<Option<T>>,
    ) -> Result<T, MemoryError> {
        let mut looks = 0;
        let mut failure = None;
        let mut patience = Patience::default();
        loop {
            let released = self.released.epoch();
            self.revise_budget();
            if let Some(taken) = take().map_err(|error| refused(consumer, bytes, error))? {
                return Ok(taken);
            }
            if looks == 0 {
                self.background.kick();
            }
            let short = self.shortfall(need);
            if self.is_worth_giving_back(short) && self.frames.give_back(&self.ledger, short, true) > 0 {
                continue;
            }
            if self.take_from_others(need, false) {
                looks = 0;
                continue;
            }
            let epoch = self.freed.epoch();
            if self.background.writing() as u64 > self.freed.waiters() {
                self.freed.wait_past(epoch);
                continue;
            }
            match self.evict_one() {
                Ok(true) => {
                    looks = 0;
                    continue;
                }
                Ok(false) => {}
                Err(error) => failure = Some(error),
            }
            if self.take_from_others(need, true) {
                looks = 0;
                continue;
            }
            // Nothing could be evicted by us. What others have in flight may come free, or come back to the queue.
            let epoch = self.freed.epoch();
            if self.in_flight.load(Ordering::SeqCst) > 0 {
                self.freed.wait_past(epoch);
                continue;
            }
            looks += 1;
            if looks <= LAST_LOOKS {
                self.frames.settle();
                self.frames.give_back(&self.ledger, short, true);
                std::thread::yield_now();
                continue;
            }
            if looks <= LAST_LOOKS + PATIENT_LOOKS && self.ledger.is_beyond_promises() {
                std::thread::sleep(PATIENCE);
                continue;
            }
            if let Some(failure) = failure.take().or_else(|| self.failure.lock().take()) {
                return Err(failure);
            }
            if !patience.lasts(&self.statements) {
                return Err(self.out_of_memory(consumer, bytes));
            }
            self.released.wait_past_for(released, LOOK);
        }
    }

    /// Bytes that must go back to the system before the need can be met.
    pub(crate) fn shortfall(&self, need: Need) -> usize {
        match need {
            Need::Frame => self.ledger.used().saturating_sub(self.ledger.budget()),
            Need::Bytes(bytes) => (self.ledger.used() + bytes).saturating_sub(self.ledger.budget()),
            Need::Promise => self.ledger.excess(),
        }
    }

    /// Whether the free frames are enough to go back to the system: all that is short, since pieces then rather go whole; but when the pool
    /// is over its budget, bit by bit.
    fn is_worth_giving_back(&self, short: usize) -> bool {
        let over = self.ledger.used().saturating_sub(self.ledger.budget());
        let enough = if over > 0 { over.min(GIVE_BACK_BYTES) } else { short };
        short > 0 && self.frames.free_bytes() >= enough
    }

    pub(crate) fn out_of_memory(&self, consumer: &'static str, requested: usize) -> MemoryError {
        let Self { ledger, consumers, .. } = self;
        MemoryError::OutOfMemory {
            consumer,
            requested,
            held: ledger.used(),
            limit: ledger.limit(),
            outside: ledger.outside(),
            largest: consumers.describe(),
        }
    }

    // ---- the budget

    /// Has the budget follow resident memory, which is read if that is due.
    pub(crate) fn revise_budget(&self) {
        if self.ledger.counts_process() {
            process_account().refresh();
        }
    }

    /// Starts to bring the pool back under its budget, without waiting for writes if there are threads to do them.
    pub(crate) fn shrink(&self) {
        if !self.is_over_budget() {
            return;
        }
        self.give_back_excess();
        if self.is_over_budget() {
            self.was_full.store(true, Ordering::Relaxed);
            if self.background.is_available() {
                self.background.kick();
            } else {
                self.shrink_now();
            }
        }
    }

    /// Brings the pool back under its budget as far as pages can be evicted. An error of the disk is kept for a request that
    /// cannot be served.
    pub(crate) fn shrink_now(&self) {
        while self.is_over_budget() {
            self.give_back_excess();
            if !self.is_over_budget() {
                break;
            }
            match self.evict_one() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.keep_failure(error);
                    break;
                }
            }
        }
    }

    fn is_over_budget(&self) -> bool {
        self.ledger.used() > self.ledger.budget()
    }

    pub(crate) fn give_back_excess(&self) {
        let excess = self.ledger.used().saturating_sub(self.ledger.budget());
        if excess > 0 && self.frames.free_bytes() > 0 {
            self.frames.give_back(&self.ledger, excess, true);
        }
    }

    /// Gives free frames back to the system, but for `keep` bytes, and ends the keeping of a reserve.
    pub(crate) fn trim(&self, keep: usize) {
        self.was_full.store(false, Ordering::Relaxed);
        let surplus = |keep: usize| self.frames.free_bytes().saturating_sub(keep);
        self.frames.give_back(&self.ledger, surplus(keep), false);
        // What is left are free parts of huge pieces that are in use. Splitting makes their other pages slower to reach, so
        // a few are left alone.
        if surplus(3 * keep) > 0 {
            self.frames.give_back(&self.ledger, surplus(keep), true);
        }
        self.temp.trim();
        self.compression.trim();
    }

    // ---- writing ahead

    /// Bytes that are kept free once memory has run short: eight pages or 1/32 of the budget, but never more than 1/8.
    fn reserve_target(&self) -> usize {
        let budget = self.ledger.budget();
        (8 * PAGE_SIZE).max(budget / 32).min(budget / 8)
    }

    /// Bytes that could be had without evicting.
    pub(crate) fn room(&self) -> usize {
        (self.ledger.budget() + self.frames.free_bytes()).saturating_sub(self.ledger.used())
    }

    /// Whether the background threads should evict.
    pub(crate) fn wants_write_out(&self) -> bool {
        self.was_full.load(Ordering::Relaxed)
            && (self.is_over_budget() || self.room() < self.reserve_target() + self.demand.load(Ordering::Relaxed))
    }

    /// Wakes the background threads when half of the reserve is used up.
    #[inline]
    fn write_ahead(&self) {
        if self.was_full.load(Ordering::Relaxed) && self.room() < self.reserve_target() / 2 {
            self.background.kick();
        }
    }

    pub(crate) fn keep_failure(&self, error: MemoryError) {
        *self.failure.lock() = Some(error);
    }

    // ---- evicting

    /// The last pin of the page is gone.
    #[inline]
    pub(crate) fn unpinned(&self, page: &Arc<Page>, sequence: u64) {
        if self.spill_always {
            self.spill(page, sequence);
        } else {
            self.enqueue(page, sequence);
        }
    }

    fn enqueue(&self, page: &Arc<Page>, sequence: u64) {
        let is_overgrown = self.queue.push(Arc::clone(page), sequence);
        if self.released.waiters() > 0 {
            self.released.advance();
        }
        if is_overgrown {
            // A purge holds entries that others may look for.
            self.while_in_flight(|| self.queue.purge());
        }
    }

    #[cold]
    fn spill(&self, page: &Arc<Page>, sequence: u64) {
        self.while_in_flight(|| {
            if page.state.claim(sequence)
                && let Err(error) = self.write_back(page, sequence)
            {
                self.keep_failure(error);
            }
        });
    }

    fn while_in_flight<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Counted out on unwinding too: others wait for it.
        struct InFlight<'a>(&'a Pool);
        impl Drop for InFlight<'_> {
            fn drop(&mut self) {
                self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
                self.0.freed.advance();
            }
        }
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let _in_flight = InFlight(self);
        work()
    }

    /// Evicts the page that comes first in the queue. False if there is none that can be.
    ///
    /// # Errors
    /// The temporary space refuses; the page stays.
    pub(crate) fn evict_one(&self) -> Result<bool, MemoryError> {
        self.while_in_flight(|| {
            while let Some(entry) = self.queue.pop() {
                if !entry.page.state.claim(entry.sequence) {
                    continue;
                }
                match self.write_back(&entry.page, entry.sequence) {
                    Ok(false) => {}
                    Err(error) if error.is_full() && self.evict_copied() => return Ok(true),
                    result => return result,
                }
            }
            Ok(false)
        })
    }

    /// Evicts a page that takes no more temporary space, since a copy of it is there: no page is in both while there is no room. Whether one
    /// was. The caller is in flight.
    #[cold]
    fn evict_copied(&self) -> bool {
        for _ in 0..self.queue.len() {
            if self.copied.load(Ordering::Relaxed) == 0 {
                return false;
            }
            let Some(entry) = self.queue.pop() else { return false };
            if !entry.is_live() {
                continue;
            }
            if !entry.page.has_copy() {
                self.queue.push(entry.page, entry.sequence);
            } else if entry.page.state.claim(entry.sequence) && self.drop_copied(&entry.page, entry.sequence) {
                return true;
            }
        }
        false
    }

    /// Writes a claimed page out, unless that was done before. Whether its memory came free.
    fn write_back(&self, page: &Arc<Page>, sequence: u64) -> Result<bool, MemoryError> {
        if page.has_copy() {
            return Ok(self.drop_copied(page, sequence));
        }
        let mut claimed = Claimed { pool: self, page, place: None };
        let access = self.access_for(page);
        let (way, mut packed) = match access {
            TempAccess::PageCache => (None, None),
            TempAccess::Direct => self.pack(page),
        };
        let place = claimed.place.insert(self.place_for(page, access, packed.as_ref().map(Packed::len))?);
        let checksum = match &mut packed {
            Some(packed) => checksum(packed.padded_bytes(), place.id()),
            None => {
                // SAFETY: the page is ours, and the slice is gone before `begin_write`.
                let bytes = unsafe { page.claimed_bytes() };
                checksum(bytes, place.id())
            }
        };
        if !page.state.begin_write() {
            // Destroyed: memory and place are freed with the claim.
            return Ok(true);
        }
        self.page_event(page).advance();
        let bytes = match &mut packed {
            Some(packed) => packed.shared_bytes(),
            // SAFETY: the page is ours until `finish_write` or `abort_write`, and the bytes go to the system only.
            None => unsafe { page.changing_bytes() },
        };
        let written = self.measure(Direction::Write, access, way, || match &*place {
            SpilledPlace::Slot(slot) => slot.file.write(slot.number, bytes),
            SpilledPlace::Own(own) => write_all(&*own.file, bytes, 0),
        });
        let bytes = bytes.len();
        let packed = packed.map(|packed| packed.len());
        if let Err(error) = written {
            return Err(self.temp.transfer_error("write", page.len, error));
        }
        self.counts.spilled_bytes.fetch_add(page.len as u64, Ordering::Relaxed);
        self.counts.temp_written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if access == TempAccess::PageCache {
            self.counts.temp_cached_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        let place = claimed.written();
        Ok(self.end_eviction(page, page.finish_write(sequence, Spilled { checksum, packed, way, place })))
    }

    /// Whether a page goes through the page cache: there is room, and nobody asked for compressed pages.
    fn access_for(&self, page: &Page) -> TempAccess {
        let claim = self.ledger.budget().saturating_sub(self.ledger.used());
        let may = self.compression.mode() != TempCompression::Always && self.temp.may_cache(page.len, claim);
        if may { TempAccess::PageCache } else { TempAccess::Direct }
    }

    /// Decides how a claimed page goes, and compresses it if it is to be and shrinks. Pages of variable size go as they are.
    fn pack(&self, page: &Page) -> (Option<Way>, Option<Packed<'_>>) {
        if page.kind != PageKind::Fixed {
            return (None, None);
        }
        let way = self.compression.way(|| self.temp.is_short());
        let packed = (way == Way::Compressed).then(|| {
            // SAFETY: the page was claimed and stays so during this call.
            let bytes = unsafe { page.claimed_bytes() };
            self.compression.pack(bytes, || self.temp.now())
        });
        (Some(way), packed.flatten())
    }

    /// Does a transfer, and notes how long it took the device.
    fn measure(
        &self,
        direction: Direction,
        access: TempAccess,
        way: Option<Way>,
        transfer: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if access == TempAccess::PageCache {
            return transfer();
        }
        /// Ends on unwinding too, and says nothing then.
        struct Transfer<'a>(&'a Pool, Direction, Option<Way>);
        impl Drop for Transfer<'_> {
            fn drop(&mut self) {
                self.0.compression.end(self.1, self.0.temp.now(), self.2);
            }
        }
        self.compression.begin(direction, self.temp.now());
        let mut ended = Transfer(self, direction, None);
        let result = transfer();
        ended.2 = way.filter(|_| result.is_ok());
        result
    }

    /// Evicts a claimed page of which there is a good copy. Whether its memory came free.
    fn drop_copied(&self, page: &Arc<Page>, sequence: u64) -> bool {
        if !page.state.begin_write() {
            self.free_copy(page);
            self.free_memory(page);
            return true;
        }
        self.page_event(page).advance();
        let finished = page.finish_without_write(sequence);
        if finished.memory.is_some() {
            self.copied.fetch_sub(1, Ordering::Relaxed);
        }
        self.end_eviction(page, finished)
    }

    /// Frees what came free with an eviction. Whether the page's memory did.
    fn end_eviction(&self, page: &Arc<Page>, finished: FinishedWrite) -> bool {
        if let Some(spilled) = finished.spilled {
            self.free_place(page.len, spilled.place);
        }
        if let Written::Kept(Some(sequence)) = finished.written {
            self.enqueue(page, sequence);
        }
        let Some(memory) = finished.memory else { return false };
        if finished.written == Written::Evicted {
            self.counts.evictions.fetch_add(1, Ordering::Relaxed);
        }
        self.consumers.sub(page.consumer, page.len);
        self.give_memory(memory);
        true
    }

    /// Leaves a claimed page where it is, at the young end of the queue, so that another is tried next.
    fn abort_write(&self, page: &Arc<Page>) {
        match page.state.abort_write() {
            Written::Kept(Some(sequence)) => self.enqueue(page, sequence),
            Written::Kept(None) => {}
            Written::Destroyed => self.free_memory(page),
            Written::Evicted => unreachable!("an aborted write evicts nothing"),
        }
        self.page_event(page).advance();
    }

    // ---- reading back

    /// Reads back a page that the caller made Loading by pinning it.
    ///
    /// # Errors
    /// Out of memory, or the page cannot be read; it is evicted as before, and the pin is gone.
    pub(crate) fn load(&self, page: &Arc<Page>) -> Result<(), MemoryError> {
        let loading = Loading { pool: self, page };
        let consumer = self.consumers.name(page.consumer);
        let memory = match page.kind {
            PageKind::Fixed => self.take_frame(consumer),
            PageKind::Variable => self.take_variable(consumer, page.len),
        }?;
        self.read_back(page, memory)?;
        self.add_pinned(page);
        let requeue = loading.loaded();
        debug_assert!(requeue.is_none(), "the loader holds a pin");
        Ok(())
    }

    /// Reads an evicted page back, unpinned, if there is room without evicting another. False if there is no room, or it could not be
    /// read: whoever pins it will be told.
    pub(crate) fn load_ahead(&self, handle: &PageHandle) -> bool {
        let page = &handle.0.page;
        if page.state.is_resident() {
            return true;
        }
        // The reserve is for those who wait; pages needed later would be evicted to fill it up again.
        if self.was_full.load(Ordering::Relaxed) && self.room() < self.reserve_target() / 2 {
            return false;
        }
        let taken = match page.kind {
            PageKind::Fixed => self.frames.take(&self.ledger).map(|frame| frame.map(PageMemory::Frame)),
            PageKind::Variable => {
                variable_page::map(&self.ledger, page.len).map(|mapping| mapping.map(PageMemory::Mapping))
            }
        };
        let Ok(Some(memory)) = taken else { return false };
        if !page.state.load_ahead() {
            self.give_memory(memory);
            return true;
        }
        let loading = Loading { pool: self, page };
        if self.read_back(page, memory).is_err() {
            return false;
        }
        if let Some(sequence) = loading.loaded() {
            self.enqueue(page, sequence);
        }
        true
    }

    /// Fills `memory` with a page that is Loading and gives it to the page.
    fn read_back(&self, page: &Page, memory: PageMemory) -> Result<(), MemoryError> {
        let spilled = page.take_spilled().expect("an evicted page has a place");
        let mut filling = Filling { pool: self, page, parts: Some((memory, spilled)) };
        let (memory, spilled) = filling.parts.as_mut().expect("put in just now");
        // SAFETY: the memory is ours alone, `page.len` bytes long, and initialized: it came zeroed from the system.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.start().as_ptr(), page.len) };
        match self.read(spilled, bytes) {
            Ok(true) => {}
            Ok(false) => {
                return Err(MemoryError::Corrupt { file: self.temp.directory(), page: spilled.place.number() });
            }
            Err(error) => return Err(self.temp.transfer_error("read", page.len, error)),
        }
        let (memory, spilled) = filling.parts.take().expect("nobody took them");
        self.counts.read_back_bytes.fetch_add(page.len as u64, Ordering::Relaxed);
        self.consumers.add(page.consumer, page.len);
        page.put_memory(memory);
        if page.is_sealed() {
            self.copied.fetch_add(1, Ordering::Relaxed);
            page.put_spilled(spilled);
        } else {
            self.free_place(page.len, spilled.place);
        }
        Ok(())
    }

    /// Reads a page into `bytes`. False if it is not what was written.
    fn read(&self, spilled: &Spilled, bytes: &mut [u8]) -> io::Result<bool> {
        let id = spilled.place.id();
        let read_from = |bytes: &mut [u8]| {
            self.measure(Direction::Read, spilled.place.access(), spilled.way, || match &spilled.place {
                SpilledPlace::Slot(slot) => slot.file.read(slot.number, bytes),
                SpilledPlace::Own(own) => read_all(&*own.file, bytes, 0),
            })
        };
        let Some(packed) = spilled.packed else {
            read_from(bytes)?;
            return Ok(checksum(bytes, id) == spilled.checksum);
        };
        let mut packed = self.compression.unpacker(packed);
        read_from(packed.padded_bytes())?;
        // The decompressor sees only what the compressor wrote.
        Ok(checksum(packed.padded_bytes(), id) == spilled.checksum && packed.unpack(bytes, || self.temp.now()))
    }

    /// Waits until a page that another thread loads or claimed can be tried again.
    #[cold]
    pub(crate) fn wait_for(&self, page: &Arc<Page>) {
        // Whoever loads it may wait for memory, and then nobody is at work here.
        let _idle = Idle::of_current();
        let event = self.page_event(page);
        let epoch = event.epoch();
        if page.state.is_in_transition() {
            event.wait_past(epoch);
        }
    }

    fn page_event(&self, page: &Arc<Page>) -> &Progress {
        // Pages are allocated at multiples of 16 bytes; the bits above say more than those.
        &self.page_events[(Arc::as_ptr(page).addr() >> 7) % PAGE_EVENTS]
    }

    // ---- counting pins

    /// The first pin of a page is there.
    #[inline]
    pub(crate) fn add_pinned(&self, page: &Page) {
        self.ledger.add_pinned(page.len);
        if let Some(owner) = &page.owner {
            owner.add_held(page.len);
        }
    }

    /// The last pin of a page is gone.
    #[inline]
    pub(crate) fn sub_pinned(&self, page: &Page) {
        self.ledger.sub_pinned(page.len);
        if let Some(owner) = &page.owner {
            owner.sub_held(page.len);
        }
    }

    // ---- giving back

    /// Frees the memory of a page that the caller ended.
    pub(crate) fn free_memory(&self, page: &Page) {
        self.consumers.sub(page.consumer, page.len);
        self.give_memory(page.take_memory());
    }

    fn give_memory(&self, memory: PageMemory) {
        match memory {
            PageMemory::Frame(frame) => self.frames.release(frame),
            PageMemory::Mapping(mapping) => variable_page::unmap(&self.ledger, mapping),
        }
        self.memory_freed();
    }

    /// Wakes those who waited for a background write; unlike `memory_freed` also those who are just about to wait.
    pub(crate) fn write_finished(&self) {
        self.freed.advance();
    }

    /// Wakes those who wait for memory.
    pub(crate) fn memory_freed(&self) {
        for event in [&self.freed, &self.released] {
            if event.waiters() > 0 {
                event.advance();
            }
        }
    }

    /// Frees the place of an evicted page that the caller ended.
    pub(crate) fn free_spilled(&self, page: &Page) {
        let spilled = page.take_spilled().expect("an evicted page has a place");
        self.free_place(page.len, spilled.place);
    }

    /// Frees the copy, if there is one, of a page in memory that the caller ended.
    pub(crate) fn free_copy(&self, page: &Page) {
        if let Some(spilled) = page.take_spilled() {
            self.copied.fetch_sub(1, Ordering::Relaxed);
            self.free_place(page.len, spilled.place);
        }
    }

    /// A place for a page, or for the `packed` bytes that it was compressed to.
    fn place_for(&self, page: &Page, access: TempAccess, packed: Option<usize>) -> Result<SpilledPlace, MemoryError> {
        match (page.kind, access) {
            (PageKind::Fixed, TempAccess::PageCache) => self.temp.allocate_cached().map(SpilledPlace::Slot),
            (PageKind::Fixed, TempAccess::Direct) => {
                self.temp.allocate_slot(packed.map_or(page.len, padded)).map(SpilledPlace::Slot)
            }
            (PageKind::Variable, access) => self.temp.open_own(page.len, access).map(SpilledPlace::Own),
        }
    }

    fn free_place(&self, len: usize, place: SpilledPlace) {
        match place {
            SpilledPlace::Slot(slot) => self.temp.free_slot(&slot),
            SpilledPlace::Own(file) => self.temp.close_own(file, len),
        }
    }

    /// The handle's page, to be read ahead if it is still there by then.
    pub(crate) fn read_ahead(&self, handle: &PageHandle) {
        if !handle.is_resident() {
            let page: Weak<OwnedPage> = Arc::downgrade(&handle.0);
            self.background.read_ahead(page);
        }
    }
}

impl Drop for Pool {
    /// All frames are free: nobody has a page or memory of the pool. They go back, so that they count in nobody's way.
    fn drop(&mut self) {
        self.frames.give_back(&self.ledger, usize::MAX, true);
    }
}

/// A page that the owner claimed and is about to write. Dropped before it is [written](Self::written), by an error or a panic, it leaves the page
/// in memory, gives its place up and wakes those who wait for the page.
struct Claimed<'a> {
    pool: &'a Pool,
    page: &'a Arc<Page>,
    place: Option<SpilledPlace>,
}

impl Claimed<'_> {
    /// The copy is complete: the place is the caller's, who ends the write.
    fn written(mut self) -> SpilledPlace {
        let place = self.place.take().expect("it was written there");
        std::mem::forget(self);
        place
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.pool.free_place(self.page.len, place);
        }
        self.pool.abort_write(self.page);
    }
}

/// A page that the owner made Loading. Dropped before it is [loaded](Self::loaded), by an error or a panic, it leaves the page evicted, without
/// the loader's pin. Either way those who wait for the page are woken.
struct Loading<'a> {
    pool: &'a Pool,
    page: &'a Arc<Page>,
}

impl Loading<'_> {
    /// The bytes are in memory. The sequence to queue the page with if the loader holds no pin.
    fn loaded(self) -> Option<u64> {
        let requeue = self.page.state.finish_load();
        self.pool.page_event(self.page).advance();
        std::mem::forget(self);
        requeue
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.page.state.fail_load();
        self.pool.page_event(self.page).advance();
    }
}

/// The memory that a page is read into, and where the page is. Both go back if they are still there in the end.
struct Filling<'a> {
    pool: &'a Pool,
    page: &'a Page,
    parts: Option<(PageMemory, Spilled)>,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        if let Some((memory, spilled)) = self.parts.take() {
            self.page.put_spilled(spilled);
            self.pool.give_memory(memory);
        }
    }
}

fn refused(consumer: &'static str, requested: usize, error: io::Error) -> MemoryError {
    MemoryError::SystemRefused { consumer, requested, source: Arc::new(error) }
}
