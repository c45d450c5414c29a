//! A partition's pages, and how they are pinned again.

use std::sync::Arc;

use ogee_memory::{MemoryError, NeededAt, PAGE_SIZE, PageHandle, PinnedPage};

use crate::{RowLayout, RowView, row_hash};

/// In place of the number of a heap page: the strings are on the page of their rows.
pub(crate) const OWN_PAGE: u32 = u32::MAX;
/// Such a page ends with the address that the pointers to its strings are right for. So a copy of it in the temporary file stays right, however
/// often the page is read back to another place.
pub(crate) const OWN_BASE_BYTES: usize = 8;

/// Where a page keeps the address that its own pointers are right for.
fn own_base(page: *mut u8) -> *mut u64 {
    page.wrapping_add(PAGE_SIZE - OWN_BASE_BYTES).cast()
}

/// Notes that the pointers of `page`, which is pinned and has strings of its own rows, are right.
pub(crate) fn write_own_base(page: *mut u8) {
    // SAFETY: the end of a page that the caller has pinned and writes alone.
    unsafe { own_base(page).write_unaligned(page as u64) };
}

/// Rows `first_row .. first_row + rows` of a row page have their long strings on heap page `heap_page`, which was at `base` when
/// the rows' pointers were last right.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) first_row: u32,
    pub(crate) rows: u32,
    pub(crate) heap_page: u32,
    pub(crate) base: usize,
}

/// A row page and the segments of its rows, in row order.
#[derive(Debug)]
pub(crate) struct RowPage {
    pub(crate) page: PageHandle,
    pub(crate) rows: u32,
    pub(crate) segments: Vec<Segment>,
}

impl RowPage {
    /// Books the strings of row `row`, the last one, on heap page `heap_page`, which is at `base`.
    #[inline(always)]
    pub(crate) fn extend(&mut self, row: u32, heap_page: u32, base: usize) {
        match self.segments.last_mut() {
            // Rows without long strings in between do not matter to any segment.
            Some(last) if last.heap_page == heap_page => last.rows = row + 1 - last.first_row,
            _ => self.segments.push(Segment { first_row: row, rows: 1, heap_page, base }),
        }
    }

    /// The heap pages that its rows' strings are on.
    fn heap_pages(&self) -> impl Iterator<Item = usize> + '_ {
        self.segments.iter().filter(|segment| segment.heap_page != OWN_PAGE).map(|segment| segment.heap_page as usize)
    }
}

/// Rows of one radix partition on pages that need not be in memory. Dropping it destroys the pages.
#[derive(Debug)]
pub struct RowPartition {
    pub(crate) layout: Arc<RowLayout>,
    pub(crate) row_pages: Vec<RowPage>,
    pub(crate) heap_pages: Vec<PageHandle>,
    pub(crate) rows: usize,
}

impl RowPartition {
    pub(crate) fn new(layout: Arc<RowLayout>) -> Self {
        Self { layout, row_pages: Vec::new(), heap_pages: Vec::new(), rows: 0 }
    }

    pub(crate) fn layout(&self) -> &Arc<RowLayout> {
        &self.layout
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of row pages.
    pub fn num_pages(&self) -> usize {
        self.row_pages.len()
    }

    /// Adds the rows of `other`, of the same layout; no row moves.
    pub fn absorb(&mut self, other: Self) {
        assert!(Arc::ptr_eq(&other.layout, &self.layout), "rows of one layout");
        let heap_before = self.heap_pages.len() as u32;
        self.row_pages.extend(other.row_pages.into_iter().map(|mut page| {
            let elsewhere = page.segments.iter_mut().filter(|segment| segment.heap_page != OWN_PAGE);
            elsewhere.for_each(|segment| segment.heap_page += heap_before);
            page
        }));
        self.heap_pages.extend(other.heap_pages);
        self.rows += other.rows;
    }

    /// Divides it into partitions of up to `pages` row pages, in their order, which several threads may pin at once; no row moves. A heap page that rows
    /// of several of them have strings on is destroyed with the last of these.
    ///
    /// # Panics
    /// If `pages` is 0.
    pub fn into_parts(self, pages: usize) -> Vec<Self> {
        let Self { layout, row_pages, heap_pages, .. } = self;
        let mut left = row_pages.into_iter();
        let mut parts = Vec::with_capacity(left.len().div_ceil(pages));
        while left.len() > 0 {
            let mut row_pages: Vec<RowPage> = left.by_ref().take(pages).collect();
            let used = || row_pages.iter().flat_map(RowPage::heap_pages);
            let first = used().min().unwrap_or(0);
            let heap_pages = heap_pages[first..used().max().map_or(first, |last| last + 1)].to_vec();
            let segments = row_pages.iter_mut().flat_map(|page| &mut page.segments);
            segments.filter(|s| s.heap_page != OWN_PAGE).for_each(|segment| segment.heap_page -= first as u32);
            let rows = row_pages.iter().map(|page| page.rows as usize).sum();
            parts.push(Self { layout: Arc::clone(&layout), row_pages, heap_pages, rows });
        }
        parts
    }

    /// Bytes that the partition takes when all of it is in memory.
    pub fn bytes(&self) -> usize {
        let row_pages = self.row_pages.iter().map(|p| p.page.len()).sum::<usize>();
        row_pages + self.heap_pages.iter().map(PageHandle::len).sum::<usize>()
    }

    /// Bytes that pinning row page `index` pins: its own and those of its strings' heap pages.
    pub fn page_bytes(&self, index: usize) -> usize {
        let row_page = &self.row_pages[index];
        let heap = row_page.heap_pages().map(|heap_page| self.heap_pages[heap_page].len());
        row_page.page.len() + heap.sum::<usize>()
    }

    /// Row page `index` and the heap pages of its strings: for reading ahead.
    pub fn pages_of(&self, index: usize) -> impl Iterator<Item = PageHandle> + '_ {
        let row_page = &self.row_pages[index];
        let heap = row_page.heap_pages().map(|heap_page| self.heap_pages[heap_page].clone());
        std::iter::once(row_page.page.clone()).chain(heap)
    }

    /// The pages, in the order in which they will be pinned: for reading ahead.
    pub fn pages(&self) -> impl Iterator<Item = PageHandle> + '_ {
        self.row_pages.iter().map(|p| p.page.clone()).chain(self.heap_pages.iter().cloned())
    }

    /// Says when its pages will be needed.
    pub fn set_needed(&self, needed: NeededAt) {
        self.row_pages
            .iter()
            .map(|row_page| &row_page.page)
            .chain(&self.heap_pages)
            .for_each(|page| page.set_needed(needed));
    }

    /// Bytes of its pages that are not in memory; may be outdated at once.
    pub fn bytes_evicted(&self) -> usize {
        let pages = self.row_pages.iter().map(|row_page| &row_page.page).chain(&self.heap_pages);
        pages.filter(|page| !page.is_resident()).map(PageHandle::len).sum()
    }

    /// Pins row page `index` with the heap pages of its rows, and makes the pointers of the rows right.
    ///
    /// # Errors
    /// When memory runs out or the pages cannot be read back.
    pub fn pin_page(&mut self, index: usize) -> Result<PinnedRows, MemoryError> {
        let layout = &*self.layout;
        let row_page = &mut self.row_pages[index];
        let page = row_page.page.pin()?;
        // What may fail comes first: pointers and the base they are right for are then changed together, or not at all.
        let mut heap: Vec<PinnedPage> = Vec::with_capacity(row_page.segments.len());
        for segment in row_page.segments.iter().filter(|segment| segment.heap_page != OWN_PAGE) {
            heap.push(self.heap_pages[segment.heap_page as usize].pin()?);
        }
        let has_own = row_page.segments.iter().any(|segment| segment.heap_page == OWN_PAGE);
        if has_own {
            // SAFETY: the page is pinned.
            let base = unsafe { own_base(page.as_ptr()).read_unaligned() } as usize;
            row_page.segments.iter_mut().filter(|s| s.heap_page == OWN_PAGE).for_each(|s| s.base = base);
        }
        let mut elsewhere = heap.iter();
        for segment in &mut row_page.segments {
            let strings = match segment.heap_page {
                OWN_PAGE => &page,
                _ => elsewhere.next().expect("a page was pinned for each of these segments"),
            };
            let base = strings.as_ptr() as usize;
            if base != segment.base {
                // SAFETY: both pages are pinned, the segment's rows lie on the row page, and `&mut self` keeps others away.
                unsafe { rebase(layout, page.as_ptr(), segment, base) };
                segment.base = base;
            }
        }
        // Not where it is right: a page that does not change is not written out again.
        // SAFETY: the page is pinned.
        if has_own && unsafe { own_base(page.as_ptr()).read_unaligned() } != page.as_ptr() as u64 {
            write_own_base(page.as_ptr());
        }
        Ok(PinnedRows { rows: row_page.rows as usize, width: layout.width(), page, heap })
    }

    /// Rows and strings do not change any more: what was spilled is not written again when it was read.
    pub fn seal(&self) {
        self.heap_pages.iter().for_each(PageHandle::seal);
        // Pointers to strings elsewhere are made right whenever these come back to another place.
        let plain = self.row_pages.iter().filter(|row_page| row_page.heap_pages().next().is_none());
        plain.for_each(|row_page| row_page.page.seal());
    }

    /// Whether all rows have the same hash, so that no bits tell them apart: `seen`, or, if nobody has seen one yet, that of the first row,
    /// which is left there. A page is the last that is looked at if it has two.
    ///
    /// # Errors
    /// As [`pin_page`](Self::pin_page).
    pub fn has_one_hash(&mut self, seen: &mut Option<u32>) -> Result<bool, MemoryError> {
        for index in 0..self.num_pages() {
            if !self.page_has_one_hash(index, seen)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same of page `index` alone.
    ///
    /// # Errors
    /// As [`pin_page`](Self::pin_page).
    pub fn page_has_one_hash(&mut self, index: usize, seen: &mut Option<u32>) -> Result<bool, MemoryError> {
        let page = self.pin_page(index)?;
        for row in 0..page.len() {
            // SAFETY: the page is pinned.
            let hash = unsafe { row_hash(page.row(row)) };
            if hash != *seen.get_or_insert(hash) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Leaves of row page `index` only the rows `kept`, whose numbers rise: they move to its beginning, and strings stay where they are.
    ///
    /// # Errors
    /// As [`pin_page`](Self::pin_page); not while the caller has the page pinned.
    pub fn keep_rows(&mut self, index: usize, kept: impl Iterator<Item = usize>) -> Result<(), MemoryError> {
        let page = self.pin_page(index)?;
        let row_page = &mut self.row_pages[index];
        let segments = std::mem::take(&mut row_page.segments);
        let mut segments = segments.iter().peekable();
        let mut left = 0;
        for row in kept {
            assert!(row >= left, "numbers of rows rise");
            // SAFETY: both rows are on the page, which is pinned; `&mut self` keeps others away. They do not overlap unless they are the same.
            unsafe { std::ptr::copy(page.row(row), page.row(left), page.width) };
            while segments.next_if(|segment| (segment.first_row + segment.rows) as usize <= row).is_some() {}
            if let Some(segment) = segments.peek().filter(|segment| segment.first_row as usize <= row) {
                row_page.extend(left as u32, segment.heap_page, segment.base);
            }
            left += 1;
        }
        self.rows -= row_page.rows as usize - left;
        row_page.rows = left as u32;
        Ok(())
    }

    /// Gives up row page `index`, which must be the last: its memory or slot is freed at once.
    pub fn pop_page(&mut self) {
        if let Some(page) = self.row_pages.pop() {
            self.rows -= page.rows as usize;
            if self.heap_pages.is_empty() {
                return;
            }
            // Heap pages beyond those that earlier rows use are not needed any more. Segments name them in rising order.
            let used = self.row_pages.iter().rev().find_map(|page| page.heap_pages().last());
            self.heap_pages.truncate(used.map_or(0, |last| last + 1));
        }
    }
}

/// Moves the pointers of a segment's long strings to where the heap page is now.
///
/// # Safety
/// `page` must be the start of the pinned row page of the segment; nobody else may read or write its rows.
unsafe fn rebase(layout: &RowLayout, page: *mut u8, segment: &Segment, base: usize) {
    let moved = base.wrapping_sub(segment.base);
    for row in segment.first_row..segment.first_row + segment.rows {
        for &offset in layout.views() {
            // SAFETY: the row lies on the page and the view within the row.
            unsafe {
                let place = page.add(row as usize * layout.width() + offset).cast::<RowView>();
                let view = place.read_unaligned();
                if view.is_long() {
                    let pointer = (view.pointer() as usize).wrapping_add(moved) as *const u8;
                    place.write_unaligned(view.with_pointer(pointer));
                }
            }
        }
    }
}

/// The rows of one row page, pinned with all they point to.
#[derive(Debug)]
pub struct PinnedRows {
    page: PinnedPage,
    heap: Vec<PinnedPage>,
    rows: usize,
    width: usize,
}

impl PinnedRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Address of row `row`, valid while `self` lives.
    #[inline(always)]
    pub fn row(&self, row: usize) -> *mut u8 {
        assert!(row < self.rows);
        // SAFETY: the page holds `rows` rows of `width` bytes.
        unsafe { self.page.as_ptr().add(row * self.width) }
    }

    /// The pages with strings of the rows, but for those that are on the page of the rows itself.
    pub(crate) fn heap_pages(&self) -> impl Iterator<Item = &PinnedPage> + Clone {
        self.heap.iter()
    }

    /// Addresses of all rows, appended to `addresses`; valid while `self` lives.
    pub fn addresses(&self, addresses: &mut Vec<*mut u8>) {
        let base = self.page.as_ptr();
        // SAFETY: as for `row`.
        addresses.extend((0..self.rows).map(|row| unsafe { base.add(row * self.width) }));
    }
}
