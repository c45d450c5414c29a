//! Serial rows: rows that wait to be read once, one behind the other, in as few bytes as their values need.
//!
//! ```text
//! [hash | validity | state | columns that do not shrink | widths | values, each string behind its length]
//! ```
//!
//! Both sides of an external join are written and read back as a whole, and the device bounds it. Nobody looks these rows up by address meanwhile, so
//! they need no fixed width and no pointers: an integer has the bytes that its value needs (how many stands among the *widths*, four bits each), a
//! string its length and its bytes. Rows of TPC-H's lineitem with key, price and comment take 42 bytes instead of 67, those of orders with key and
//! comment 60 instead of 89.
//!
//! 1. Every value tells its own width, so that nothing needs to be known of a column, and no value misfits.
//! 2. Where the next row begins is known when one has been read. Rows hold no addresses: a page is right wherever it comes back.
//! 3. To be used, rows are [read](PinnedSerial::read) into a [`RowStage`], some hundred at a time, where long strings still point to the page, or
//!    [appended](PartitionedRows::append_serial) to rows of fixed width.
//! 4. Values are moved by whole words, beyond their end: pages end with [`SLACK`].
//!
//! Not here: rows that tables point to ([`PartitionedRows`]), compression of pages (the buffer manager's business).

use std::sync::Arc;

use ogee_memory::{BufferManager, MemoryError, NeededAt, PAGE_SIZE, PageHandle, PinnedPage};
use ogee_vector::PhysicalType;

use crate::{
    PartitionedRows, RadixBits, RowLayout, RowPartition, RowStage, RowView, row_hash, rows::prefetch_for_write,
};

/// Bytes behind the last row of a page that may be read and written with it.
const SLACK: usize = 16;

/// Bits of a width.
const WIDTH_BITS: usize = 4;

/// Up to eight bytes that a row has as they are.
#[derive(Clone, Copy, Debug)]
struct Plain {
    /// Offset in the row, and in the serial row.
    offset: usize,
    serial: usize,
    mask: u64,
}

/// A value that takes the bytes that it needs.
#[derive(Clone, Copy, Debug)]
struct Field {
    offset: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// An integer of `64 - shift` bits.
    Integer { shift: u32, signed: bool },
    /// A signed integer of 128 bits: two widths, of its lower and its upper half.
    Wide,
    /// A string or binary value: the width of its length.
    View,
}

/// What is read next, in the order of the row.
#[derive(Clone, Copy, Debug)]
enum Step {
    Plain(Plain),
    Field(Field),
}

/// What serial rows of a layout look like.
#[derive(Debug)]
pub struct SerialForm {
    layout: Arc<RowLayout>,
    plain: Vec<Plain>,
    fields: Vec<Field>,
    steps: Vec<Step>,
    /// Where the widths begin in a serial row, and the values behind them.
    widths_at: usize,
    values_at: usize,
    /// Where the state begins.
    state_at: usize,
    /// Bytes of a serial row without its strings, at most.
    most: usize,
}

impl SerialForm {
    /// That of rows of `layout`.
    pub fn new(layout: Arc<RowLayout>) -> Self {
        let state_bytes = layout.state_bytes();
        Self::with_state(layout, state_bytes)
    }

    /// That of rows whose state is still all zero, and is so again when they are read.
    pub fn without_state(layout: Arc<RowLayout>) -> Self {
        Self::with_state(layout, 0)
    }

    fn with_state(layout: Arc<RowLayout>, state_bytes: usize) -> Self {
        // Hash, validity and state are found at fixed places.
        let mut as_they_are = vec![(0, size_of::<u32>())];
        let mut validity: Vec<usize> =
            layout.columns().iter().filter_map(|c| c.validity).map(|(byte, _)| byte).collect();
        validity.dedup();
        as_they_are.extend(validity.into_iter().map(|byte| (byte, 1)));
        let state = (layout.state_offset(), state_bytes);
        as_they_are.push(state);
        let mut fields = Vec::new();
        for column in layout.columns() {
            use PhysicalType as P;
            let width = column.physical.row_width();
            let kind = match column.physical {
                P::I16 | P::I32 | P::I64 | P::ShortDecimal => {
                    Kind::Integer { shift: 64 - 8 * width as u32, signed: true }
                }
                P::U16 | P::U32 | P::U64 => Kind::Integer { shift: 64 - 8 * width as u32, signed: false },
                P::I128 => Kind::Wide,
                P::View | P::Nested => Kind::View,
                P::Null | P::Bool | P::I8 | P::U8 | P::F16 | P::F32 | P::F64 | P::I256 | P::MonthDayNano => {
                    as_they_are.push((column.offset, width));
                    continue;
                }
            };
            fields.push(Field { offset: column.offset, kind });
        }
        as_they_are.sort_unstable();
        fields.sort_unstable_by_key(|field| field.offset);
        let mut plain: Vec<Plain> = Vec::new();
        let (mut serial, mut state_at) = (0, 0);
        for (start, bytes) in as_they_are {
            if (start, bytes) == state {
                state_at = serial;
            }
            for offset in (start..start + bytes).step_by(8) {
                let bytes = (start + bytes - offset).min(8);
                plain.push(Plain { offset, serial, mask: mask(bytes) });
                serial += bytes;
            }
        }
        let mut steps: Vec<Step> = plain.iter().copied().map(Step::Plain).collect();
        steps.extend(fields.iter().copied().map(Step::Field));
        steps.sort_by_key(|step| match step {
            Step::Plain(plain) => plain.offset,
            Step::Field(field) => field.offset,
        });
        let widths = fields.iter().map(|field| if let Kind::Wide = field.kind { 2 } else { 1 }).sum::<usize>();
        let values_at = serial + (widths * WIDTH_BITS).div_ceil(8);
        let most = values_at + 8 * widths;
        Self { layout, plain, fields, steps, widths_at: serial, values_at, state_at, most }
    }

    /// Bytes that the long strings of a row take, and those of all its strings.
    ///
    /// # Safety
    /// `row` must point to a row of the layout.
    #[inline(always)]
    unsafe fn strings(&self, row: *const u8) -> (usize, usize) {
        let (mut long, mut all) = (0, 0);
        for &offset in self.layout.views() {
            // SAFETY: views lie within the row.
            let len = unsafe { row.add(offset).cast::<u32>().read_unaligned() } as usize;
            all += len;
            long += if len > RowView::INLINED { len } else { 0 };
        }
        (long, all)
    }

    /// Writes a row; returns where it ends.
    ///
    /// # Safety
    /// `row` must point to a row of the layout, readable for eight bytes beyond its end, its long strings' pointers valid; `to` must be writable for
    /// `most` bytes, those of its [strings](Self::strings) and [`SLACK`].
    #[inline(always)]
    unsafe fn write(&self, row: *const u8, to: *mut u8) -> *mut u8 {
        // SAFETY: offsets are those of the layout; what is written is no longer than that, but for what a word overhangs.
        unsafe {
            for plain in &self.plain {
                let word = row.add(plain.offset).cast::<u64>().read_unaligned() & plain.mask;
                to.add(plain.serial).cast::<u64>().write_unaligned(word);
            }
            let mut widths = Widths { next: to.add(self.widths_at), byte: 0, half: false };
            let mut end = to.add(self.values_at);
            for field in &self.fields {
                let at = row.add(field.offset);
                match field.kind {
                    Kind::Integer { shift, signed } => {
                        let top = at.cast::<u64>().read_unaligned() << shift;
                        let value = if signed { folded(top.cast_signed() >> shift) } else { top >> shift };
                        end = widths.write(value, end);
                    }
                    Kind::Wide => {
                        let value = at.cast::<i128>().read_unaligned();
                        let folded = (value << 1 ^ value >> 127).cast_unsigned();
                        end = widths.write(folded as u64, end);
                        end = widths.write((folded >> 64) as u64, end);
                    }
                    Kind::View => {
                        let view = at.cast::<RowView>().read_unaligned();
                        end = widths.write(view.len() as u64, end);
                        if view.is_long() {
                            std::ptr::copy_nonoverlapping(view.pointer(), end, view.len());
                        } else {
                            end.cast::<u128>().write_unaligned(view.0 >> 32);
                        }
                        end = end.add(view.len());
                    }
                }
            }
            widths.end();
            end
        }
    }

    /// Reads the row at `from`, whose long strings stay where they are, into `row`, which is all zero; returns where it ends.
    ///
    /// # Safety
    /// At `from` there must be a row that [`write`](Self::write) wrote, and `row` must be writable for a row and eight bytes.
    #[inline(always)]
    unsafe fn read(&self, from: *mut u8, row: *mut u8) -> *mut u8 {
        // SAFETY: as the row was written. Words that overhang are zero there, and what they overwrite comes later.
        unsafe {
            let mut values = Values { widths: from.add(self.widths_at), half: false, next: from.add(self.values_at) };
            for step in &self.steps {
                match *step {
                    Step::Plain(plain) => {
                        let word = from.add(plain.serial).cast::<u64>().read_unaligned() & plain.mask;
                        row.add(plain.offset).cast::<u64>().write_unaligned(word);
                    }
                    Step::Field(Field { offset, kind: Kind::Integer { shift, signed } }) => {
                        let value = values.read();
                        let value = if signed { unfolded(value).cast_unsigned() << shift >> shift } else { value };
                        row.add(offset).cast::<u64>().write_unaligned(value);
                    }
                    Step::Field(Field { offset, kind: Kind::Wide }) => {
                        let folded = u128::from(values.read()) | u128::from(values.read()) << 64;
                        let value = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
                        row.add(offset).cast::<i128>().write_unaligned(value);
                    }
                    Step::Field(Field { offset, kind: Kind::View }) => {
                        let len = values.read() as usize;
                        let bytes = values.next;
                        let view = if len > RowView::INLINED {
                            let prefix = bytes.cast::<u32>().read_unaligned();
                            RowView(len as u128 | u128::from(prefix) << 32).with_pointer(bytes)
                        } else {
                            let inlined = bytes.cast::<u128>().read_unaligned() & ((1 << (8 * len)) - 1);
                            RowView(len as u128 | inlined << 32)
                        };
                        row.add(offset).cast::<RowView>().write_unaligned(view);
                        values.next = bytes.add(len);
                    }
                }
            }
            values.next
        }
    }

    /// Where the row at `from` ends, and the bytes of its long strings.
    ///
    /// # Safety
    /// At `from` there must be a row that [`write`](Self::write) wrote.
    #[inline(always)]
    unsafe fn end(&self, from: *mut u8) -> (*mut u8, usize) {
        let mut long = 0;
        // SAFETY: as the row was written.
        unsafe {
            let mut values = Values { widths: from.add(self.widths_at), half: false, next: from.add(self.values_at) };
            for field in &self.fields {
                let value = values.read() as usize;
                match field.kind {
                    Kind::Integer { .. } => {}
                    Kind::Wide => {
                        values.read();
                    }
                    Kind::View => {
                        values.next = values.next.add(value);
                        long += if value > RowView::INLINED { value } else { 0 };
                    }
                }
            }
            (values.next, long)
        }
    }
}

/// The lowest `bytes` bytes of a word.
#[inline(always)]
fn mask(bytes: usize) -> u64 {
    if bytes == 0 { 0 } else { u64::MAX >> (64 - 8 * bytes) }
}

/// A number whose sign is its lowest bit: small if the value is near zero.
#[inline(always)]
fn folded(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

#[inline(always)]
fn unfolded(folded: u64) -> i64 {
    (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed()
}

/// Where the next width is written.
struct Widths {
    next: *mut u8,
    byte: u8,
    half: bool,
}

impl Widths {
    /// Writes `value` to `to`, and its width here; returns where it ends.
    ///
    /// # Safety
    /// There must be room for the width, and at `to` for a word.
    #[inline(always)]
    unsafe fn write(&mut self, value: u64, to: *mut u8) -> *mut u8 {
        let bytes = (u64::BITS - value.leading_zeros()).div_ceil(8);
        // SAFETY: the caller vouches for the room.
        unsafe {
            if self.half {
                self.next.write(self.byte | (bytes << WIDTH_BITS) as u8);
                self.next = self.next.add(1);
            } else {
                self.byte = bytes as u8;
            }
            self.half = !self.half;
            to.cast::<u64>().write_unaligned(value);
            to.add(bytes as usize)
        }
    }

    /// # Safety
    /// There must be room for the last width.
    #[inline(always)]
    unsafe fn end(self) {
        if self.half {
            // SAFETY: the caller vouches for the room.
            unsafe { self.next.write(self.byte) };
        }
    }
}

/// Where the next value is read.
struct Values {
    widths: *const u8,
    half: bool,
    next: *mut u8,
}

impl Values {
    /// # Safety
    /// There must be one more.
    #[inline(always)]
    unsafe fn read(&mut self) -> u64 {
        // SAFETY: the caller vouches for the value; a word overhangs into what follows.
        unsafe {
            let byte = self.widths.read();
            let bytes = usize::from(if self.half { byte >> WIDTH_BITS } else { byte & 0xf });
            self.widths = self.widths.add(usize::from(self.half));
            self.half = !self.half;
            let value = self.next.cast::<u64>().read_unaligned() & mask(bytes);
            self.next = self.next.add(bytes);
            value
        }
    }
}

/// A page, how many rows it has, and how many bytes these take as rows of fixed width.
#[derive(Debug)]
struct SerialPage {
    page: PageHandle,
    rows: usize,
    loose: usize,
}

/// Serial rows of one radix partition on pages that need not be in memory. Dropping it destroys the pages.
#[derive(Debug)]
pub struct SerialPartition {
    form: Arc<SerialForm>,
    pages: Vec<SerialPage>,
    rows: usize,
    loose: usize,
}

impl SerialPartition {
    fn new(form: Arc<SerialForm>) -> Self {
        Self { form, pages: Vec::new(), rows: 0, loose: 0 }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that they take as rows of fixed width.
    pub fn loose_bytes(&self) -> usize {
        self.loose
    }

    /// Number of pages.
    pub fn num_pages(&self) -> usize {
        self.pages.len()
    }

    /// The pages, for reading ahead.
    pub fn pages(&self) -> impl Iterator<Item = PageHandle> + '_ {
        self.pages.iter().map(|page| page.page.clone())
    }

    /// Page `index`, for reading ahead.
    pub fn page(&self, index: usize) -> PageHandle {
        self.pages[index].page.clone()
    }

    /// Pins page `index`.
    ///
    /// # Errors
    /// When memory runs out or the page cannot be read back.
    pub fn pin_page(&self, index: usize) -> Result<PinnedSerial, MemoryError> {
        let SerialPage { page, rows, loose } = &self.pages[index];
        Ok(PinnedSerial { form: Arc::clone(&self.form), page: page.pin()?, rows: *rows, loose: *loose })
    }

    /// Gives up the last page: its memory or slot is freed at once.
    pub fn pop_page(&mut self) {
        if let Some(page) = self.pages.pop() {
            self.rows -= page.rows;
            self.loose -= page.loose;
        }
    }

    /// Rows do not change any more: what was spilled is not written again when it was read.
    pub fn seal(&self) {
        self.pages.iter().for_each(|page| page.page.seal());
    }

    /// Whether all rows have the same hash, so that no bits tell them apart: `seen`, or, if nobody has seen one yet, that of the first row,
    /// which is left there. A page is the last that is looked at if it has two.
    ///
    /// # Errors
    /// As [`pin_page`](Self::pin_page).
    pub fn has_one_hash(&self, seen: &mut Option<u32>) -> Result<bool, MemoryError> {
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
    pub fn page_has_one_hash(&self, index: usize, seen: &mut Option<u32>) -> Result<bool, MemoryError> {
        let page = self.pin_page(index)?;
        let mut from = page.page.as_ptr();
        for _ in 0..page.rows {
            // SAFETY: the rows are on the page, which is pinned.
            unsafe {
                let hash = row_hash(from);
                if hash != *seen.get_or_insert(hash) {
                    return Ok(false);
                }
                (from, _) = self.form.end(from);
            }
        }
        Ok(true)
    }
}

/// Where on a page the next row is.
#[derive(Clone, Copy, Debug, Default)]
pub struct SerialPlace {
    row: usize,
    offset: usize,
}

/// The serial rows of one page, pinned.
#[derive(Debug)]
pub struct PinnedSerial {
    form: Arc<SerialForm>,
    pub(crate) page: PinnedPage,
    rows: usize,
    loose: usize,
}

impl PinnedSerial {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that they take as rows of fixed width.
    pub fn loose_bytes(&self) -> usize {
        self.loose
    }

    pub(crate) fn has_strings(&self) -> bool {
        self.form.layout.has_heap()
    }

    /// Reads the rows from `place` on, at most `capacity`, into `stage`, and moves `place` behind them; false if there are none. Long strings of the
    /// staged rows stay on the page, so that it must be pinned as long as these are used. `states` is cleared, and gets the address of each row's
    /// state, which may be changed there while the page is pinned.
    ///
    /// # Safety
    /// `place` must be the default, or where the last call for this page left it.
    pub unsafe fn read(
        &self,
        place: &mut SerialPlace,
        capacity: usize,
        stage: &mut RowStage,
        states: &mut Vec<*mut u8>,
    ) -> bool {
        states.clear();
        let rows = self.rows.saturating_sub(place.row).min(capacity);
        stage.reset(&self.form.layout, rows);
        // SAFETY: the rows are on the page as they were written, and `place` is where one begins. Staged rows are followed by a word.
        unsafe {
            let mut from = self.page.as_ptr().add(place.offset);
            for row in 0..rows {
                states.push(from.add(self.form.state_at));
                from = self.form.read(from, stage.row_mut(row));
            }
            place.offset = from.offset_from_unsigned(self.page.as_ptr());
        }
        place.row += rows;
        rows > 0
    }
}

/// Rows that are moved from page to page at a time: few enough to stay in cache.
const BATCH: usize = 512;

impl PartitionedRows {
    /// Appends the rows of the last page of `partition`, of the same layout, which is destroyed; false if there is none.
    ///
    /// # Errors
    /// When memory runs out or the page cannot be read back.
    pub fn append_last_serial_page(&mut self, partition: &mut SerialPartition) -> Result<bool, MemoryError> {
        let Some(last) = partition.num_pages().checked_sub(1) else { return Ok(false) };
        self.append_serial(&partition.pin_page(last)?)?;
        partition.pop_page();
        Ok(true)
    }

    /// Appends the rows of `page`, of the same layout.
    ///
    /// # Errors
    /// When memory runs out; rows appended before stay.
    pub fn append_serial(&mut self, page: &PinnedSerial) -> Result<(), MemoryError> {
        assert!(Arc::ptr_eq(&page.form.layout, self.layout()), "rows of one layout");
        let (mut place, mut stage, mut states) = (SerialPlace::default(), RowStage::default(), Vec::new());
        // SAFETY: `place` is this page's.
        while unsafe { page.read(&mut place, BATCH, &mut stage, &mut states) } {
            // SAFETY: staged rows, whose strings are on the page.
            unsafe { self.scatter((0..stage.rows()).map(|row| stage.row(row)))? };
        }
        Ok(())
    }
}

/// Where the next row of a partition goes.
struct Cursor {
    /// The page being filled, its rows, and what these take as rows of fixed width.
    page: Option<PinnedPage>,
    rows: usize,
    loose: usize,
    next: *mut u8,
    /// Bytes for rows that are left.
    left: usize,
}

/// Serial rows of one lane, appended to the partition that their hash names. Each partition keeps one page pinned.
pub struct SerialRows {
    form: Arc<SerialForm>,
    memory: Arc<BufferManager>,
    consumer: &'static str,
    radix: RadixBits,
    needed: Option<NeededAt>,
    partitions: Vec<SerialPartition>,
    cursors: Vec<Cursor>,
}

// SAFETY: the raw pointers of the cursors point into pages that `self` keeps pinned; nobody else has them.
unsafe impl Send for SerialRows {}

impl SerialRows {
    /// Partitions without rows or pages. `needed` says when all of them will be looked at, one partition after the other, if that is known: full
    /// pages of the last then leave memory first.
    pub fn new(
        form: &Arc<SerialForm>,
        memory: Arc<BufferManager>,
        consumer: &'static str,
        radix: RadixBits,
        needed: Option<NeededAt>,
    ) -> Self {
        let partitions = (0..radix.fan_out()).map(|_| SerialPartition::new(Arc::clone(form))).collect();
        let cursors = (0..radix.fan_out()).map(|_| Cursor::closed()).collect();
        Self { form: Arc::clone(form), memory, consumer, radix, needed, partitions, cursors }
    }

    /// Pages that rows being appended to one partition keep pinned.
    pub const OPEN_PAGES: usize = 1;

    /// Appends the staged rows.
    ///
    /// # Errors
    /// When memory runs out; rows appended before stay.
    ///
    /// # Safety
    /// They must be rows of the layout with their hashes written and their long strings' pointers valid.
    pub unsafe fn scatter(&mut self, stage: &RowStage) -> Result<(), MemoryError> {
        // SAFETY: the caller vouches for the rows.
        unsafe { self.scatter_rows(stage, 0..stage.rows()) }
    }

    /// Appends `rows` of the staged rows.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    ///
    /// # Safety
    /// As [`scatter`](Self::scatter).
    pub unsafe fn scatter_rows(
        &mut self,
        stage: &RowStage,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<(), MemoryError> {
        for row in rows {
            assert!(row < stage.rows(), "rows are staged");
            // SAFETY: the caller vouches for the rows; staged rows are followed by a word.
            unsafe { self.push(stage.row(row))? };
        }
        Ok(())
    }

    /// # Safety
    /// `row` must be a row of the layout, readable for eight bytes beyond its end, its long strings' pointers valid.
    #[inline(always)]
    unsafe fn push(&mut self, row: *const u8) -> Result<(), MemoryError> {
        // SAFETY: the caller vouches for the row, and the page has room.
        unsafe {
            let partition = self.radix.partition(row_hash(row));
            let (long, all) = self.form.strings(row);
            let to = self.room(partition, self.form.most + all)?;
            let end = self.form.write(row, to);
            self.cursors[partition].advance(end, self.form.layout.width() + long);
        }
        Ok(())
    }

    /// Appends the rows of the last page of `partition`, of the same layout, which is destroyed; false if there is none.
    ///
    /// # Errors
    /// When memory runs out or the page cannot be read back.
    pub fn append_last_page_of_rows(&mut self, partition: &mut RowPartition) -> Result<bool, MemoryError> {
        assert!(Arc::ptr_eq(partition.layout(), &self.form.layout), "rows of one layout");
        let Some(last) = partition.num_pages().checked_sub(1) else { return Ok(false) };
        let width = self.form.layout.width();
        let mut stage = RowStage::default();
        stage.reset(&self.form.layout, 1);
        let page = partition.pin_page(last)?;
        for row in 0..page.len() {
            // The last row of a page ends where it does: a copy is followed by a word.
            // SAFETY: both are rows of that width; strings are pinned with the page.
            unsafe {
                std::ptr::copy_nonoverlapping(page.row(row).cast_const(), stage.row_mut(0), width);
                self.push(stage.row(0))?;
            }
        }
        drop(page);
        partition.pop_page();
        Ok(true)
    }

    /// Appends all rows of `partition`, of the same layout; its pages are destroyed on the way.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn append_partition(&mut self, mut partition: SerialPartition) -> Result<(), MemoryError> {
        while self.append_last_page(&mut partition)? {}
        Ok(())
    }

    /// Appends the rows of the last page of `partition`, of the same layout, which is destroyed; false if there is none.
    ///
    /// # Errors
    /// When memory runs out or the page cannot be read back.
    pub fn append_last_page(&mut self, partition: &mut SerialPartition) -> Result<bool, MemoryError> {
        assert!(Arc::ptr_eq(&partition.form, &self.form), "rows are moved among partitions of one layout");
        let Some(last) = partition.num_pages().checked_sub(1) else { return Ok(false) };
        let page = partition.pin_page(last)?;
        let mut from = page.page.as_ptr();
        for _ in 0..page.rows {
            // SAFETY: the row is on the page, and the other one has room for its bytes.
            unsafe {
                let (end, long) = self.form.end(from);
                let bytes = end.offset_from_unsigned(from);
                let partition = self.radix.partition(row_hash(from));
                let to = self.room(partition, bytes)?;
                std::ptr::copy_nonoverlapping(from, to, bytes);
                self.cursors[partition].advance(to.add(bytes), self.form.layout.width() + long);
                from = end;
            }
        }
        drop(page);
        partition.pop_page();
        Ok(true)
    }

    /// Where the next row of `partition` goes, of at most `bytes`.
    #[inline(always)]
    fn room(&mut self, partition: usize, bytes: usize) -> Result<*mut u8, MemoryError> {
        if self.cursors[partition].left < bytes {
            self.new_page(partition, bytes)?;
        }
        Ok(self.cursors[partition].next)
    }

    #[cold]
    fn new_page(&mut self, partition: usize, bytes: usize) -> Result<(), MemoryError> {
        let page = if bytes + SLACK > PAGE_SIZE {
            self.memory.allocate_variable(self.consumer, bytes + SLACK)?
        } else {
            self.memory.allocate(self.consumer)?
        };
        self.settle(partition);
        self.partitions[partition].pages.push(SerialPage { page: page.handle().clone(), rows: 0, loose: 0 });
        let (next, left) = (page.as_ptr(), page.len() - SLACK);
        self.cursors[partition] = Cursor { page: Some(page), next, left, ..Cursor::closed() };
        Ok(())
    }

    /// Counts the rows of the partition's last page, which is full.
    fn settle(&mut self, partition: usize) {
        let fan_out = self.partitions.len();
        let Cursor { page: Some(page), rows, loose, .. } = &mut self.cursors[partition] else { return };
        if let Some(needed) = self.needed {
            page.handle().set_needed(needed.split(partition, fan_out));
        }
        let (rows, loose) = (std::mem::take(rows), std::mem::take(loose));
        let partition = &mut self.partitions[partition];
        partition.rows += rows;
        partition.loose += loose;
        let page = partition.pages.last_mut().expect("the cursor is on it");
        page.rows += rows;
        page.loose += loose;
    }

    /// Ends appending: unpins everything and hands over the partitions, by number.
    pub fn into_partitions(mut self) -> Vec<SerialPartition> {
        (0..self.partitions.len()).for_each(|partition| self.settle(partition));
        self.partitions
    }
}

impl Cursor {
    fn closed() -> Self {
        Self { page: None, rows: 0, loose: 0, next: std::ptr::null_mut(), left: 0 }
    }

    /// Counts a row that was just written up to `end`, and is of `loose` bytes otherwise.
    ///
    /// # Safety
    /// The page has it.
    #[inline(always)]
    unsafe fn advance(&mut self, end: *mut u8, loose: usize) {
        // SAFETY: both are on the page.
        self.left -= unsafe { end.offset_from_unsigned(self.next) };
        self.next = end;
        self.rows += 1;
        self.loose += loose;
        prefetch_for_write(end.wrapping_add(64));
    }
}
