//! Pages and those who hold them.
//!
//! A [`PageHandle`] owns a page together with its clones; a [`PinnedPage`] keeps it in memory at one address. The last handle to go
//! destroys the page: its frame or its slot is free at once, also if an evictor is just looking at it.
//!
//! Not here: which page is evicted, and how (`pool`).
#![expect(unsafe_code, reason = "memory is kept as an address while a page owns it")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::PAGE_SIZE;
use crate::compression::Way;
use crate::consumers::ConsumerId;
use crate::error::MemoryError;
use crate::eviction_queue::{NeededAt, Position};
use crate::frame::Frame;
use crate::io::TempAccess;
use crate::mapping::Mapping;
use crate::page_state::{Destroy, PageState, Pin, Unpin, Written};
use crate::pool::Pool;
use crate::statements::{self, Statement};
use crate::temp_space::{OwnFile, Slot};

/// Where the bytes of pages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// A frame of [`PAGE_SIZE`].
    Fixed,
    /// A mapping of the page's own.
    Variable,
}

/// Memory on its way to a page or from it.
#[derive(Debug)]
pub(crate) enum PageMemory {
    Frame(Frame),
    Mapping(Mapping),
}

impl PageMemory {
    pub(crate) fn start(&self) -> NonNull<u8> {
        match self {
            Self::Frame(frame) => frame.start(),
            Self::Mapping(mapping) => mapping.start(),
        }
    }
}

/// Where an evicted page is.
#[derive(Debug)]
pub(crate) struct Spilled {
    /// Of what was written, compressed or not.
    pub(crate) checksum: u64,
    /// Bytes that it was compressed to; `None`: written as it is.
    pub(crate) packed: Option<usize>,
    /// For measuring; compressed, too, where it did not shrink. `None`: not a page of fixed size, or in the page cache.
    pub(crate) way: Option<Way>,
    pub(crate) place: SpilledPlace,
}

#[derive(Debug)]
pub(crate) enum SpilledPlace {
    Slot(Slot),
    Own(OwnFile),
}

impl SpilledPlace {
    /// Tells it from all other slots; 0 for a file of the page's own.
    pub(crate) fn id(&self) -> u64 {
        match self {
            Self::Slot(slot) => slot.id(),
            Self::Own(_) => 0,
        }
    }

    /// How its bytes get there and back.
    pub(crate) fn access(&self) -> TempAccess {
        match self {
            Self::Slot(slot) => slot.file.access(),
            Self::Own(file) => file.access,
        }
    }

    /// The slot's number in its file; 0 for a file of the page's own.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Slot(slot) => u64::from(slot.number),
            Self::Own(_) => 0,
        }
    }
}

/// What came of a write, and what the writer has to free.
#[derive(Debug)]
pub(crate) struct FinishedWrite {
    pub(crate) written: Written,
    pub(crate) memory: Option<PageMemory>,
    pub(crate) spilled: Option<Spilled>,
}

/// What evictors and loaders see of a page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) state: PageState,
    pub(crate) kind: PageKind,
    pub(crate) consumer: ConsumerId,
    pub(crate) len: usize,
    /// The statement that made it, which holds what is pinned of it.
    pub(crate) owner: Option<Arc<Statement>>,
    /// The address while the page has memory, else null. Written by the loader before it ends Loading, taken by whoever ended
    /// Resident for good.
    memory: AtomicPtr<u8>,
    /// Where the page is while it is evicted; a sealed page may also be there while it is in memory.
    spilled: Mutex<Option<Spilled>>,
    /// The bytes do not change any more.
    sealed: AtomicBool,
    /// When it is needed.
    pub(crate) position: Position,
}

impl Page {
    fn new(kind: PageKind, consumer: ConsumerId, len: usize, memory: PageMemory) -> Self {
        let page = Self {
            state: PageState::new_pinned(),
            kind,
            consumer,
            len,
            owner: statements::current(),
            memory: AtomicPtr::new(std::ptr::null_mut()),
            spilled: Mutex::new(None),
            sealed: AtomicBool::new(false),
            position: Position::untold(),
        };
        page.put_memory(memory);
        page
    }

    /// Gives the page memory; the caller made it Loading, or is making it.
    pub(crate) fn put_memory(&self, memory: PageMemory) {
        let start = match (memory, self.kind) {
            (PageMemory::Frame(frame), PageKind::Fixed) => frame.into_raw(),
            (PageMemory::Mapping(mapping), PageKind::Variable) => {
                assert_eq!(mapping.len(), self.len, "a page's mapping has its size");
                mapping.into_raw()
            }
            _ => unreachable!("memory of the other kind"),
        };
        let before = self.memory.swap(start.as_ptr(), Ordering::AcqRel);
        debug_assert!(before.is_null(), "the page has memory already");
    }

    /// Takes the memory from the page; the caller was told to free it by a transition of the page's state.
    pub(crate) fn take_memory(&self) -> PageMemory {
        let start = self.memory.swap(std::ptr::null_mut(), Ordering::AcqRel);
        let start = NonNull::new(start).expect("a transition told that the page has memory");
        match self.kind {
            // SAFETY: the address is that of the one `into_raw` in `put_memory`, and the swap gave it to nobody else.
            PageKind::Fixed => PageMemory::Frame(unsafe { Frame::from_raw(start) }),
            // SAFETY: as above; `put_memory` checked the length.
            PageKind::Variable => PageMemory::Mapping(unsafe { Mapping::from_raw(start, self.len) }),
        }
    }

    /// The address of a page that has memory.
    pub(crate) fn address(&self) -> NonNull<u8> {
        NonNull::new(self.memory.load(Ordering::Acquire)).expect("the caller saw to it that the page has memory")
    }

    /// The bytes of a page that is Evicting.
    ///
    /// # Safety
    /// The caller claimed the page, and drops the slice before it ends Evicting.
    pub(crate) unsafe fn claimed_bytes(&self) -> &[u8] {
        // SAFETY: a claimed page cannot be pinned, so nobody writes its bytes, and its memory stays until the claimer ends it.
        unsafe { std::slice::from_raw_parts(self.address().as_ptr(), self.len) }
    }

    /// The bytes of a page that is Writing, which those who pin it may change.
    ///
    /// # Safety
    /// The caller claimed the page, and drops the slice before it ends Writing; it hands it to the system only.
    pub(crate) unsafe fn changing_bytes(&self) -> &[AtomicU8] {
        // SAFETY: the memory stays until the claimer ends Writing; atomics may be changed by others.
        unsafe { std::slice::from_raw_parts(self.address().as_ptr().cast::<AtomicU8>(), self.len) }
    }

    /// Ends the Writing of a claimed page. The lock is held over the transition: whoever loads the page afterwards takes its place
    /// under the lock before giving it memory, and so finds the place and no memory; whoever evicts it again finds no place.
    pub(crate) fn finish_write(&self, sequence: u64, spilled: Spilled) -> FinishedWrite {
        let mut place = self.spilled.lock();
        let before = place.replace(spilled);
        debug_assert!(before.is_none(), "the page has a place in the temporary space already");
        let written = self.state.finish_write(sequence);
        match written {
            Written::Evicted => FinishedWrite { written, memory: Some(self.take_memory()), spilled: None },
            Written::Kept(_) => FinishedWrite { written, memory: None, spilled: place.take() },
            Written::Destroyed => FinishedWrite { written, memory: Some(self.take_memory()), spilled: place.take() },
        }
    }

    /// Ends the Writing of a claimed page that has a good copy already. The lock is held as in [`finish_write`](Self::finish_write).
    pub(crate) fn finish_without_write(&self, sequence: u64) -> FinishedWrite {
        let mut place = self.spilled.lock();
        let written = self.state.finish_write(sequence);
        let memory = (!matches!(written, Written::Kept(_))).then(|| self.take_memory());
        let spilled = if written == Written::Destroyed { place.take() } else { None };
        FinishedWrite { written, memory, spilled }
    }

    /// Whether a copy of the page is in the temporary space, and as good as the page: it is claimed, so nobody ends that.
    pub(crate) fn has_copy(&self) -> bool {
        self.spilled.lock().is_some()
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    pub(crate) fn put_spilled(&self, spilled: Spilled) {
        let before = self.spilled.lock().replace(spilled);
        debug_assert!(before.is_none(), "the page has a place in the temporary space already");
    }

    pub(crate) fn take_spilled(&self) -> Option<Spilled> {
        self.spilled.lock().take()
    }
}

/// The page as its handles own it together.
#[derive(Debug)]
pub(crate) struct OwnedPage {
    pub(crate) page: Arc<Page>,
    pub(crate) pool: Arc<Pool>,
}

impl Drop for OwnedPage {
    fn drop(&mut self) {
        match self.page.state.destroy() {
            Destroy::Memory => {
                self.pool.free_memory(&self.page);
                self.pool.free_copy(&self.page);
            }
            Destroy::Slot => self.pool.free_spilled(&self.page),
            Destroy::ByWriter => {}
        }
        self.pool.uncount_page();
    }
}

/// A page, resident or not. Clones own it together; the drop of the last one destroys it.
#[derive(Debug, Clone)]
pub struct PageHandle(pub(crate) Arc<OwnedPage>);

#[expect(clippy::len_without_is_empty, reason = "a page is never empty")]
impl PageHandle {
    /// Keeps the page in memory, reading it back first if it was evicted, which may evict others.
    ///
    /// # Errors
    /// Out of memory, or the page cannot be read back; it can be tried again.
    pub fn pin(&self) -> Result<PinnedPage, MemoryError> {
        let OwnedPage { page, pool } = &*self.0;
        loop {
            match page.state.pin() {
                Pin::Done { first } => {
                    if first {
                        pool.add_pinned(page);
                    }
                    break;
                }
                Pin::Load => {
                    pool.load(page)?;
                    break;
                }
                Pin::Wait => pool.wait_for(page),
            }
        }
        Ok(PinnedPage { start: page.address(), handle: self.clone() })
    }

    /// Bytes of the page.
    pub fn len(&self) -> usize {
        self.0.page.len
    }

    /// Promises that the bytes do not change any more. When the page is read back its copy in the temporary space then stays, and the page can
    /// leave memory again without being written; until it is destroyed it takes space in both.
    pub fn seal(&self) {
        self.0.page.sealed.store(true, Ordering::Release);
    }

    /// Says when the page will be needed: among pages that nobody has pinned those needed last leave memory first. It counts from the next unpin
    /// on; for a page that is unpinned now, only if it is needed sooner than was said.
    pub fn set_needed(&self, needed: NeededAt) {
        self.0.page.position.set(needed);
    }

    /// Whether pinning it would find it in memory; may be outdated at once.
    pub fn is_resident(&self) -> bool {
        self.0.page.state.is_resident()
    }
}

/// A page that stays in memory, at one address, until this is dropped. It may be used by several threads; who reads and writes
/// which bytes is up to them.
#[derive(Debug)]
pub struct PinnedPage {
    start: NonNull<u8>,
    handle: PageHandle,
}

// SAFETY: the address is that of the page, which is pinned as long as this lives; the bytes are accessed through raw pointers
// only, whose users see to exclusion themselves.
unsafe impl Send for PinnedPage {}
// SAFETY: as for `Send`; nothing here changes through a shared reference but the state, which is atomic.
unsafe impl Sync for PinnedPage {}

#[expect(clippy::len_without_is_empty, reason = "a page is never empty")]
impl PinnedPage {
    /// A new page with the creator's pin on it.
    pub(crate) fn create(pool: &Arc<Pool>, consumer: ConsumerId, len: usize, memory: PageMemory) -> Self {
        let kind = match memory {
            PageMemory::Frame(_) => PageKind::Fixed,
            PageMemory::Mapping(_) => PageKind::Variable,
        };
        debug_assert!(kind == PageKind::Variable || len == PAGE_SIZE);
        let start = memory.start();
        let page = Arc::new(Page::new(kind, consumer, len, memory));
        pool.consumers.add(consumer, len);
        pool.add_pinned(&page);
        Self { start, handle: PageHandle(Arc::new(OwnedPage { page, pool: Arc::clone(pool) })) }
    }

    /// The address of the first byte, valid for [`len`](Self::len) bytes and the same until this is dropped. The bytes of a new page are
    /// whatever they were before.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes of the page.
    #[inline]
    pub fn len(&self) -> usize {
        self.handle.len()
    }

    /// The page.
    #[inline]
    pub fn handle(&self) -> &PageHandle {
        &self.handle
    }

    /// Unpins and returns the page.
    pub fn into_handle(self) -> PageHandle {
        // The clone lives before the pin goes, so the page is queued for eviction.
        self.handle.clone()
    }
}

impl Clone for PinnedPage {
    /// Pins the page once more; never waits, since it is pinned.
    fn clone(&self) -> Self {
        self.handle.0.page.state.pin_again();
        Self { start: self.start, handle: self.handle.clone() }
    }
}

impl Drop for PinnedPage {
    fn drop(&mut self) {
        let OwnedPage { page, pool } = &*self.handle.0;
        match page.state.unpin() {
            Unpin::StillPinned => {}
            Unpin::Enqueue(sequence) => {
                pool.sub_pinned(page);
                // The last handle there is: the page is destroyed right after this, so it need not go through the queue. A
                // weak reference made strong meanwhile (read-ahead) only delays that.
                if Arc::strong_count(&self.handle.0) > 1 {
                    pool.unpinned(page, sequence);
                }
            }
            Unpin::WriterEnqueues => pool.sub_pinned(page),
        }
    }
}
