//! Rows on their way to many partitions, combined into whole cache lines first.
//!
//! Where rows go to hundreds of partitions, the cache line that a row is written to has left the cache since the row before it: it is read from
//! memory to be changed, and written back, once for each row. So the rows of a partition are collected in a block of [`BLOCK_ROWS`], which stays
//! in the second-level cache, and a block that is full is written past the caches, without being read before (software write-combining; Balkesen
//! et al., "Main-memory hash joins on multi-core CPUs", ICDE 2013, section 5.1). Widths are multiples of 8 bytes, so a block of 8 rows is whole lines.
//!
//! A row has its place on the page while it is still in its block, but not its bytes: rows that somebody wants the address of are appended otherwise, and
//! whoever looks at a partition settles it first.

use ogee_memory::{BufferManager, MemoryError, NonPaged, optional};

use super::{Cursor, PartitionedRows};
use crate::row_hash;

/// Rows of a block.
const BLOCK_ROWS: usize = 8;
/// Partitions from which on it pays: the lines of fewer stay in the first-level cache (measured, `examples/append.rs`: with two lanes nothing up to 64
/// partitions, at 512 about 3 of 10 ns a row and lane).
const PARTITIONS_MIN: usize = 128;
/// The widest rows, in words: lines of wider ones are mostly theirs alone, and blocks of them leave the cache.
const WORDS_MAX: usize = 8;

/// A block for each partition.
pub(super) struct WriteCombining {
    bytes: NonPaged,
    blocks: Vec<Block>,
    /// Some block may have rows.
    is_dirty: bool,
}

/// Rows `first..next` of a block are not on their page yet.
#[derive(Clone, Copy)]
struct Block {
    first: u8,
    next: u8,
}

impl Block {
    /// No block: the next row of the partition begins one.
    const NONE: Self = Self { first: BLOCK_ROWS as u8, next: BLOCK_ROWS as u8 };

    fn rows(self) -> usize {
        usize::from(self.next - self.first)
    }
}

impl WriteCombining {
    /// Empty blocks for rows of `width` bytes that go to `partitions` partitions; `None` where they do not pay, or there is no memory for them.
    pub(super) fn new(
        memory: &std::sync::Arc<BufferManager>,
        consumer: &'static str,
        partitions: usize,
        width: usize,
    ) -> Result<Option<Self>, MemoryError> {
        if partitions < PARTITIONS_MIN || width > 8 * WORDS_MAX || !cfg!(target_arch = "x86_64") {
            return Ok(None);
        }
        match optional(|| memory.allocate_non_paged(consumer, partitions * BLOCK_ROWS * width)) {
            Ok(bytes) => Ok(Some(Self { bytes, blocks: vec![Block::NONE; partitions], is_dirty: false })),
            Err(MemoryError::OutOfMemory { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Rows of `partition` that are not on their page yet.
    pub(super) fn rows(&self, partition: usize) -> usize {
        self.blocks[partition].rows()
    }

    /// Writes the rows of `partition` to their page, to which `cursor` points; both agree then.
    pub(super) fn settle(&mut self, partition: usize, cursor: &mut Cursor, width: usize) {
        let block = std::mem::replace(&mut self.blocks[partition], Block::NONE);
        let at = (partition * BLOCK_ROWS + usize::from(block.first)) * width;
        let rows = block.rows();
        if rows > 0 {
            // SAFETY: the rows are within their block; the page is pinned, and a block is begun only where it has room for all of it.
            unsafe {
                std::ptr::copy_nonoverlapping(self.bytes.as_ptr().add(at), cursor.next_row, rows * width);
                cursor.advance(rows, width);
            }
        }
    }
}

impl PartitionedRows {
    /// Appends the rows at `sources` as [`append`](Self::append) does, but nobody is told where they are, which they need not be before the
    /// partitions are taken out: to many partitions that is quicker.
    ///
    /// # Errors
    /// When memory runs out; rows appended before stay.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    pub unsafe fn scatter(&mut self, sources: impl Iterator<Item = *const u8>) -> Result<(), MemoryError> {
        if self.layout.has_heap() {
            // SAFETY: the caller vouches for the sources.
            return unsafe { self.append_each(sources, |_| {}) };
        }
        if !std::mem::replace(&mut self.combining_tried, true) {
            let (fan_out, width) = (self.radix.fan_out(), self.layout.width());
            self.combining = WriteCombining::new(&self.memory, self.consumer, fan_out, width)?;
        }
        let Some(mut combining) = self.combining.take() else {
            // SAFETY: as above.
            return unsafe { self.append_each(sources, |_| {}) };
        };
        combining.is_dirty = true;
        // SAFETY: as above; the number of words is that of the layout.
        let appended = unsafe {
            match self.layout.width() / 8 {
                1 => self.scatter_words::<1>(&mut combining, sources),
                2 => self.scatter_words::<2>(&mut combining, sources),
                3 => self.scatter_words::<3>(&mut combining, sources),
                4 => self.scatter_words::<4>(&mut combining, sources),
                5 => self.scatter_words::<5>(&mut combining, sources),
                6 => self.scatter_words::<6>(&mut combining, sources),
                7 => self.scatter_words::<7>(&mut combining, sources),
                _ => self.scatter_words::<WORDS_MAX>(&mut combining, sources),
            }
        };
        self.combining = Some(combining);
        appended
    }

    /// # Safety
    /// As [`append`](Self::append), and rows have `WORDS` words.
    unsafe fn scatter_words<const WORDS: usize>(
        &mut self,
        combining: &mut WriteCombining,
        sources: impl Iterator<Item = *const u8>,
    ) -> Result<(), MemoryError> {
        debug_assert!(self.layout.width() == 8 * WORDS && combining.blocks.len() == self.radix.fan_out());
        let bytes = combining.bytes.as_mut_ptr().cast::<[u64; WORDS]>();
        let (mut rows, mut appended) = (0, Ok(()));
        for source in sources {
            // SAFETY: the caller vouches for the source; partition and place are within the blocks.
            unsafe {
                let partition = self.radix.partition(row_hash(source));
                if usize::from(combining.blocks.get_unchecked(partition).next) == BLOCK_ROWS {
                    appended = self.next_block::<WORDS>(combining, partition);
                    if appended.is_err() {
                        break;
                    }
                }
                let block = combining.blocks.get_unchecked_mut(partition);
                let place = bytes.add(partition * BLOCK_ROWS + usize::from(block.next));
                place.write(source.cast::<[u64; WORDS]>().read_unaligned());
                block.next += 1;
            }
            rows += 1;
        }
        self.rows += rows;
        // Nobody else reads the pages, nor do they go, before what was streamed is there.
        store_fence();
        appended
    }

    /// Writes the block of `partition` to its page, if there is one, and begins the next.
    ///
    /// # Safety
    /// Rows have `WORDS` words.
    #[inline(always)]
    unsafe fn next_block<const WORDS: usize>(
        &mut self,
        combining: &mut WriteCombining,
        partition: usize,
    ) -> Result<(), MemoryError> {
        let width = 8 * WORDS;
        let cursor = &mut self.cursors[partition];
        if combining.blocks[partition].first == 0 {
            // SAFETY: the block is full, its page is pinned and has room for it, as was seen when it was begun. It is as many rows from the beginning
            // of the page as make whole lines, and pages and blocks begin with lines.
            unsafe {
                let block = combining.bytes.as_ptr().add(partition * BLOCK_ROWS * width);
                stream(block, cursor.next_row, BLOCK_ROWS * width);
                cursor.advance(BLOCK_ROWS, width);
            }
            combining.blocks[partition] = Block::NONE;
        } else {
            combining.settle(partition, cursor, width);
        }
        let mut first = (cursor.page_rows - cursor.rows_left) % BLOCK_ROWS;
        if cursor.rows_left < BLOCK_ROWS - first {
            cursor.close_row_page();
            store_fence();
            self.new_row_page(partition)?;
            first = 0;
        }
        combining.blocks[partition] = Block { first: first as u8, next: first as u8 };
        Ok(())
    }

    /// Writes the rows of all partitions to their pages.
    pub(super) fn settle_all(&mut self) {
        let width = self.layout.width();
        if let Some(combining) = self.combining.as_mut().filter(|combining| combining.is_dirty) {
            combining.is_dirty = false;
            for (partition, cursor) in self.cursors.iter_mut().enumerate() {
                combining.settle(partition, cursor, width);
            }
        }
    }
}

/// Copies whole cache lines past the caches; [`store_fence`] before anybody reads them.
///
/// # Safety
/// `source` must be readable and `target` writable for `bytes`, which are whole lines, as both begin with one.
#[inline(always)]
unsafe fn stream(source: *const u8, target: *mut u8, bytes: usize) {
    debug_assert!((source as usize | target as usize | bytes).is_multiple_of(64));
    // Vectors of 16 bytes, which every x86-64 has: four of them fill a line of the write-combining buffers as well as one of 64 does (measured).
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(16) {
        use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
        // SAFETY: within both, which are aligned.
        unsafe {
            let value = _mm_load_si128(source.add(at).cast::<__m128i>());
            _mm_stream_si128(target.add(at).cast::<__m128i>(), value);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller vouches for both.
    unsafe {
        std::ptr::copy_nonoverlapping(source, target, bytes);
    }
}

/// Has what was [streamed](stream) be seen before anything that is written later.
#[inline(always)]
fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
