//! Sorted runs of packed rows, one after the other on pages, which are destroyed as soon as nobody will read them any more.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use ogee_memory::{BufferManager, MemoryError, NeededAt, NonPaged, PAGE_SIZE, PageHandle, PinnedPage};
use parking_lot::Mutex;

use super::{super::CONSUMER, kernel};

/// A key range: where it begins, and before which row it ends; `None`: where the rows do.
#[derive(Clone, Copy)]
pub(super) struct KeyRange<'a> {
    pub(super) low: Option<&'a [u64]>,
    pub(super) high: Option<&'a [u64]>,
}

impl KeyRange<'_> {
    /// All rows.
    pub(super) const ALL: Self = Self { low: None, high: None };
}

/// Rows in order.
pub(super) struct PackedRun {
    pub(super) words: usize,
    pub(super) rows: usize,
    /// The first row of each page.
    firsts: Vec<u64>,
    pages: Vec<RunPage>,
}

struct RunPage {
    /// `None`: nobody needs it any more.
    page: Mutex<Option<PageHandle>>,
    /// How many are still to read it.
    readers: AtomicU32,
}

/// Rows of `words` words that a page has room for.
pub(super) fn rows_per_page(words: usize) -> usize {
    PAGE_SIZE / (8 * words)
}

impl PackedRun {
    pub(super) fn num_pages(&self) -> usize {
        self.pages.len()
    }

    /// The first row of page `page`.
    pub(super) fn first(&self, page: usize) -> &[u64] {
        &self.firsts[page * self.words..(page + 1) * self.words]
    }

    /// Rows before page `page`.
    pub(super) fn rows_until(&self, page: usize) -> usize {
        (page * rows_per_page(self.words)).min(self.rows)
    }

    /// The pages that have rows of `range`.
    pub(super) fn pages_of(&self, range: KeyRange<'_>) -> std::ops::Range<usize> {
        let before = |row| kernel::rows_before(&self.firsts, self.words, row, false);
        // Rows may begin on the page before the first that begins with one.
        let start = range.low.map_or(0, |low| before(low).saturating_sub(1));
        start..range.high.map_or(self.pages.len(), before).max(start)
    }

    /// Says who will read the pages: each of `ranges` once.
    pub(super) fn set_readers<'a>(&self, ranges: impl Iterator<Item = KeyRange<'a>>) {
        for range in ranges {
            for page in self.pages_of(range) {
                self.pages[page].readers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// One of those who were to read page `page` will not do so any more. It is destroyed after the last.
    pub(super) fn done_with(&self, page: usize) {
        let RunPage { page, readers } = &self.pages[page];
        if readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(page.lock().take());
        }
    }

    /// Pins page `page`, and has the next one read if it is before `end`.
    pub(super) fn pin(&self, page: usize, end: usize, memory: &Arc<BufferManager>) -> Result<PinnedRun, MemoryError> {
        let handle = |page: usize| self.pages[page].page.lock().clone();
        let pinned = handle(page).expect("kept for its readers").pin()?;
        if page + 1 < end {
            memory.prefetch(handle(page + 1));
        }
        let rows = self.rows_until(page + 1) - self.rows_until(page);
        Ok(PinnedRun { page: pinned, len: rows * self.words })
    }
}

/// A page of a run in memory.
pub(super) struct PinnedRun {
    page: PinnedPage,
    len: usize,
}

impl PinnedRun {
    pub(super) fn rows(&self) -> &[u64] {
        // SAFETY: so many words were written before the run was made, and pages are aligned and not written any more.
        unsafe { std::slice::from_raw_parts(self.page.as_ptr().cast(), self.len) }
    }
}

/// Writes rows in order.
pub(super) struct RunWriter<'a> {
    memory: &'a Arc<BufferManager>,
    run: PackedRun,
    /// Rows that will come.
    expected: usize,
    open: Option<PinnedPage>,
    /// Words on the open page.
    used: usize,
}

impl<'a> RunWriter<'a> {
    /// A run of `expected` rows of `words` words.
    pub(super) fn new(memory: &'a Arc<BufferManager>, words: usize, expected: usize) -> Self {
        let run = PackedRun { words, rows: 0, firsts: Vec::new(), pages: Vec::new() };
        Self { memory, run, expected, open: None, used: 0 }
    }

    /// Appends `rows`, which do not come before those so far.
    pub(super) fn append(&mut self, mut rows: &[u64]) -> Result<(), MemoryError> {
        let words = self.run.words;
        let room = rows_per_page(words) * words;
        self.run.rows += rows.len() / words;
        while !rows.is_empty() {
            if self.used == room {
                self.close();
            }
            if self.open.is_none() {
                self.open = Some(self.memory.allocate(CONSUMER)?);
                self.run.firsts.extend_from_slice(&rows[..words]);
            }
            let page = self.open.as_ref().expect("opened above");
            let (now, later) = rows.split_at(rows.len().min(room - self.used));
            // SAFETY: a page that nobody else knows, with room for so many words.
            unsafe {
                let target = page.as_ptr().cast::<u64>().add(self.used);
                std::ptr::copy_nonoverlapping(now.as_ptr(), target, now.len());
            }
            self.used += now.len();
            rows = later;
        }
        Ok(())
    }

    fn close(&mut self) {
        let Some(page) = self.open.take() else { return };
        self.used = 0;
        let count = self.expected.div_ceil(rows_per_page(self.run.words)).max(1);
        // All runs are read from their beginnings on.
        page.handle().set_needed(NeededAt::new(self.run.pages.len().min(count - 1), count));
        page.handle().seal();
        let page = Mutex::new(Some(page.into_handle()));
        self.run.pages.push(RunPage { page, readers: AtomicU32::new(0) });
    }

    pub(super) fn finish(mut self) -> PackedRun {
        self.close();
        self.run
    }
}

/// Rows in memory that is not paged.
pub(super) struct Buffer {
    memory: NonPaged,
}

impl Buffer {
    pub(super) fn new(memory: &Arc<BufferManager>, bytes: usize) -> Result<Self, MemoryError> {
        Ok(Self { memory: memory.allocate_non_paged(CONSUMER, bytes.next_multiple_of(8).max(8))? })
    }

    /// All of it.
    pub(super) fn words(&self) -> &[u64] {
        // SAFETY: initialized, aligned to 4 KiB, written only through `words_mut`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.memory.len() / 8) }
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        self.memory.as_u64_slice_mut()
    }
}
