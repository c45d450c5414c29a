//! Positioned reads of files, and the pages of one row group.
//!
//! The Parquet library reads a column chunk page by page: the header byte by byte, then the compressed bytes. Here each
//! projected column has a window of read-ahead bytes, so that headers cost no system call of their own: a large page is read
//! together with the header that follows it, and several small pages with one read. Bytes are handed out without being
//! copied out of the window.
//!
//! Before a page's bytes are read, and before the library allocates room to decompress them, its sizes are taken from its header and
//! granted ([`Grant`]).
//!
//! Not here: decoding; the estimate of what is needed.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    ops::Range,
    path::Path,
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use parquet::{
    arrow::arrow_reader::RowGroups,
    basic::{Compression, Type},
    column::page::{Page, PageIterator, PageMetadata, PageReader},
    errors::ParquetError,
    file::{
        metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData},
        reader::{ChunkReader, Length, SerializedPageReader},
    },
    schema::types::{ColumnDescPtr, ColumnDescriptor},
};

use crate::{
    codec::Codec,
    delta,
    error::ScanError,
    footer::OpenFile,
    grant::Grant,
    page_header::{PageSizes, SIZES_LEN_MAX, header_len},
};

/// Pages from this size on are read by themselves, into memory of their own; smaller ones share a window. At this size a
/// system call costs less than copying the page.
const OWN_READ_MIN: usize = 32 << 10;

/// Bytes read behind a large page: the next header, which has 20 to 60 bytes without statistics.
const HEADER_LEN: usize = 256;

/// Bytes of a header with statistics, at most: those of two values, which nobody needs whole.
const HEADER_LEN_MAX: usize = 16 << 20;

/// Bytes of a file at given positions, without a shared cursor.
#[derive(Clone, Debug)]
pub(crate) struct FileBytes {
    file: Arc<File>,
    len: u64,
}

impl FileBytes {
    pub(crate) fn open(path: &Path) -> Result<Self, ScanError> {
        let failed = |operation| move |source| ScanError::Io { path: path.to_owned(), operation, source };
        let file = File::open(path).map_err(failed("open the file"))?;
        let len = file.metadata().map_err(failed("read the size of the file"))?.len();
        Ok(Self { file: Arc::new(file), len })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The bytes at `start`: `len` of them, and at most `ahead` more as far as the file has them.
    fn read(&self, start: u64, len: usize, ahead: usize) -> io::Result<Bytes> {
        let mut bytes = Vec::with_capacity(len + ahead);
        while bytes.len() < len {
            let at = start + bytes.len() as u64;
            match rustix::io::pread(&*self.file, rustix::buffer::spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(bytes.into())
    }

    /// The same in the memory of `buffer`, as far as it is large enough. Only what it grows by is cleared first.
    fn read_into(&self, mut buffer: BytesMut, start: u64, len: usize, ahead: usize) -> io::Result<Bytes> {
        if buffer.capacity() < len + ahead {
            // The old one goes first, and is not copied.
            drop(std::mem::take(&mut buffer));
            buffer = BytesMut::zeroed(len + ahead);
        }
        buffer.resize(len + ahead, 0);
        let mut read = 0;
        while read < len {
            match rustix::io::pread(&*self.file, &mut buffer[read..], start + read as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => read += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        buffer.truncate(read);
        Ok(buffer.freeze())
    }

    /// The sizes in the page header at `start`, if there is one.
    pub(crate) fn page_sizes(&self, start: u64) -> Option<PageSizes> {
        PageSizes::parse(&self.read(start, 1, SIZES_LEN_MAX - 1).ok()?)
    }

    /// Lets the system read `range` in the background.
    #[cfg(target_os = "linux")]
    pub(crate) fn will_need(&self, range: &Range<u64>) {
        if let Some(len) = std::num::NonZeroU64::new(range.end - range.start) {
            // Only a hint: without it the same bytes are read, later.
            let _ = rustix::fs::fadvise(&*self.file, range.start, Some(len), rustix::fs::Advice::WillNeed);
        }
    }

    /// Lets the system read `range` in the background; nothing where it has no such call.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn will_need(&self, _range: &Range<u64>) {}
}

impl Length for FileBytes {
    fn len(&self) -> u64 {
        self.len
    }
}

/// Serves footers.
impl ChunkReader for FileBytes {
    type T = BufReader<FileCursor>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(FileCursor { file: Arc::clone(&self.file), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Checked first: a length out of a damaged footer must not be allocated.
        if start.saturating_add(length as u64) > self.len {
            return Err(past_the_end(start, length, self.len));
        }
        Ok(self.read(start, length, 0)?.slice(..length))
    }
}

fn past_the_end(start: u64, length: usize, len: u64) -> ParquetError {
    ParquetError::EOF(format!("{length} bytes wanted at position {start} of a file of {len} bytes"))
}

/// Reads on from a position.
#[derive(Debug)]
pub(crate) struct FileCursor {
    file: Arc<File>,
    at: u64,
}

impl Read for FileCursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = rustix::io::pread(&*self.file, buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Memory into which the pages of a reader's columns are read, one after the other. Empty while a page is in it.
type PageBuffer = Mutex<BytesMut>;

/// One column chunk and the window of bytes read ahead from it.
pub(crate) struct ColumnChunk {
    file: Arc<OpenFile>,
    grant: Arc<Grant>,
    /// Slot of the column among the projected ones.
    slot: usize,
    /// Where its bytes end.
    end: u64,
    read_ahead: usize,
    is_compressed: bool,
    /// Pages are found through the offset index and read with their header in front.
    indexed: bool,
    /// Bytes of a plain value; 0 if each has its length before it.
    pub(crate) plain_width: usize,
    buffer: Arc<PageBuffer>,
    state: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    start: u64,
    bytes: Bytes,
    /// What the header that was read last says.
    sizes: Option<PageSizes>,
    /// Bytes of the page that was loaded last, uncompressed.
    granted: usize,
}

impl ColumnChunk {
    /// Bytes that were granted for the page that was loaded last, uncompressed.
    pub(crate) fn granted(&self) -> usize {
        self.state.lock().granted
    }

    /// Takes back the bytes of a page of which nothing is needed any more, so that the next page is read into their memory.
    pub(crate) fn give_back(&self, page: Bytes) {
        if let Ok(page) = page.try_into_mut() {
            *self.buffer.lock() = page;
        }
    }

    /// The bytes at `start`, exactly `len`. Reads ahead if they are not in the window.
    fn fetch(&self, window: &mut Window, start: u64, len: usize) -> Result<Bytes, ParquetError> {
        let end = start.saturating_add(len as u64);
        if end > self.file.bytes.len() {
            return Err(past_the_end(start, len, self.file.bytes.len()));
        }
        if start >= window.start && end <= window.start + window.bytes.len() as u64 {
            let offset = usize::try_from(start - window.start).expect("within the window");
            return Ok(window.bytes.slice(offset..offset + len));
        }
        let left = usize::try_from(self.end.saturating_sub(end)).unwrap_or(usize::MAX);
        let (bytes, kept) = if len >= OWN_READ_MIN {
            let buffer = std::mem::take(&mut *self.buffer.lock());
            let bytes = self.file.bytes.read_into(buffer, start, len, left.min(HEADER_LEN))?;
            // Copied, so that the next header does not keep the page.
            let kept = Bytes::copy_from_slice(&bytes[len..]);
            (bytes, (end, kept))
        } else {
            let bytes = self.file.bytes.read(start, len, left.min(self.read_ahead.saturating_sub(len)))?;
            (bytes.clone(), (start, bytes))
        };
        (window.start, window.bytes) = kept;
        Ok(bytes.slice(..len))
    }

    /// Bytes that are at hand at `start`, at least `len` unless the column chunk ends before.
    fn at_hand(&self, window: &mut Window, start: u64, len: usize) -> Result<Bytes, ParquetError> {
        let left = usize::try_from(self.end.saturating_sub(start)).unwrap_or(usize::MAX);
        let bytes = self.fetch(window, start, left.min(len))?;
        let offset = start.checked_sub(window.start).and_then(|offset| usize::try_from(offset).ok());
        // A large one is not kept in the window.
        Ok(offset.filter(|&offset| offset < window.bytes.len()).map_or(bytes, |offset| window.bytes.slice(offset..)))
    }

    /// The whole page header at `start`, and nothing behind it; empty at the end of the column chunk.
    fn header(&self, window: &mut Window, start: u64) -> Result<Bytes, ParquetError> {
        let mut wanted = SIZES_LEN_MAX;
        loop {
            let bytes = self.at_hand(window, start, wanted)?;
            match header_len(&bytes) {
                Some(len) => return Ok(bytes.slice(..len)),
                None if bytes.is_empty() => return Ok(bytes),
                None if bytes.len() < wanted || wanted >= HEADER_LEN_MAX => return Err(not_understood()),
                // It has statistics, or the window ends within it.
                None => wanted = (2 * bytes.len()).clamp(HEADER_LEN, HEADER_LEN_MAX),
            }
        }
    }
}

fn not_understood() -> ParquetError {
    ParquetError::General("page header not understood".into())
}

/// The bytes of one column chunk, as the Parquet library asks for them.
pub(crate) struct ColumnBytes(Arc<ColumnChunk>);

impl Length for ColumnBytes {
    fn len(&self) -> u64 {
        self.0.file.bytes.len()
    }
}

impl ChunkReader for ColumnBytes {
    type T = HeaderRead;

    fn get_read(&self, start: u64) -> Result<HeaderRead, ParquetError> {
        Ok(HeaderRead { chunk: Arc::clone(&self.0), at: start, bytes: Bytes::new(), begun: false })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let chunk = &*self.0;
        let mut window = chunk.state.lock();
        if chunk.indexed {
            let header = chunk.at_hand(&mut window, start, SIZES_LEN_MAX)?;
            window.sizes = PageSizes::parse(&header);
        }
        let sizes = window.sizes.take().ok_or_else(not_understood)?;
        if !chunk.grant.load_page(chunk.slot, PageSizes { compressed: length, ..sizes }, chunk.is_compressed) {
            return Err(ParquetError::General("no memory for the page".into()));
        }
        window.granted = sizes.uncompressed;
        let page = chunk.fetch(&mut window, start, length)?;
        if chunk.indexed && header_len(&page).is_none() {
            return Err(not_understood());
        }
        Ok(page)
    }
}

/// Reads a page header through the window of its column, and nothing behind it.
pub(crate) struct HeaderRead {
    chunk: Arc<ColumnChunk>,
    at: u64,
    bytes: Bytes,
    begun: bool,
}

impl Read for HeaderRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Only now: the library also asks for a reader where it has the header already and there is none.
        if !self.begun {
            self.begun = true;
            let mut window = self.chunk.state.lock();
            self.bytes = self.chunk.header(&mut window, self.at).map_err(io::Error::other)?;
            window.sizes = PageSizes::parse(&self.bytes);
        }
        let read = buffer.len().min(self.bytes.len());
        // The library skips bytes that there are not without an error, as often as a list says that it has elements.
        if read == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer[..read].copy_from_slice(&self.bytes.split_to(read));
        Ok(read)
    }
}

/// The pages of one column chunk as they are in the file, where they come from, and what they are compressed by.
pub(crate) struct RawPages {
    pub(crate) pages: SerializedPageReader<ColumnBytes>,
    pub(crate) chunk: Arc<ColumnChunk>,
    pub(crate) codec: Option<Codec>,
}

/// The pages of one row group.
pub(crate) struct RowGroupPages {
    file: Arc<OpenFile>,
    row_group: usize,
    grant: Arc<Grant>,
    read_ahead: usize,
    buffer: Arc<PageBuffer>,
}

impl RowGroupPages {
    /// The pages of `row_group`, for which `grant` has room, read ahead by `read_ahead` bytes a column.
    pub(crate) fn new(file: Arc<OpenFile>, row_group: usize, grant: Arc<Grant>, read_ahead: usize) -> Self {
        Self { file, row_group, grant, read_ahead, buffer: Arc::default() }
    }

    fn meta(&self) -> &RowGroupMetaData {
        self.file.metadata.row_group(self.row_group)
    }

    /// Rows of the row group.
    pub(crate) fn rows(&self) -> usize {
        self.num_rows()
    }

    /// The pages of column `leaf`. Plain values take `plain_width` bytes, or 0 if each has its length before it.
    pub(crate) fn raw_pages(&self, leaf: usize, plain_width: usize) -> Result<RawPages, ParquetError> {
        let meta = self.meta().column(leaf);
        let codec = Codec::new(meta.compression())?;
        // To the library they are not compressed.
        let raw = meta.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        let (pages, chunk) = self.open(leaf, &raw, plain_width)?;
        Ok(RawPages { pages, chunk, codec })
    }

    fn open(
        &self,
        leaf: usize,
        read_as: &ColumnChunkMetaData,
        plain_width: usize,
    ) -> Result<(SerializedPageReader<ColumnBytes>, Arc<ColumnChunk>), ParquetError> {
        let meta = self.meta().column(leaf);
        let (start, len) = meta.byte_range();
        let index = self.file.metadata.offset_index().and_then(|index| index.get(self.row_group));
        let pages = index.and_then(|columns| columns.get(leaf)).map(|column| column.page_locations().clone());
        let slot = self.file.columns.leaves.iter().position(|l| l.index == leaf);
        let chunk = Arc::new(ColumnChunk {
            file: Arc::clone(&self.file),
            grant: Arc::clone(&self.grant),
            slot: slot.expect("only projected columns are read"),
            end: (start + len).min(self.file.bytes.len()),
            read_ahead: self.read_ahead,
            is_compressed: meta.compression() != Compression::UNCOMPRESSED,
            indexed: pages.is_some(),
            plain_width,
            buffer: Arc::clone(&self.buffer),
            state: Mutex::default(),
        });
        let bytes = Arc::new(ColumnBytes(Arc::clone(&chunk)));
        Ok((SerializedPageReader::new(bytes, read_as, self.num_rows(), pages)?, chunk))
    }
}

impl RowGroups for RowGroupPages {
    fn num_rows(&self) -> usize {
        usize::try_from(self.meta().num_rows()).expect("checked when the footer was loaded")
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let column = self.meta().column(leaf).column_descr_ptr();
        Ok(Box::new(OneChunk(Some(Box::new(Decompressed { pages: self.raw_pages(leaf, 0)?, column })))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.meta()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.file.metadata
    }
}

/// Pages for the library, each decompressed into memory of the size that was granted for it.
struct Decompressed {
    pages: RawPages,
    column: ColumnDescPtr,
}

/// Bytes of a plain value of `column`, at least; a length comes before those that have one.
fn value_bytes(column: &ColumnDescriptor) -> usize {
    match column.physical_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length()).unwrap_or(0).max(1),
    }
}

impl Decompressed {
    /// `bytes`, of which all from `plain` on are compressed.
    fn decompressed(&mut self, bytes: Bytes, plain: usize) -> Result<Bytes, ParquetError> {
        let RawPages { chunk, codec, .. } = &mut self.pages;
        let Some(codec) = codec else { return Ok(bytes) };
        let granted = chunk.granted();
        if plain > bytes.len() || plain > granted {
            return Err(ParquetError::General("levels are longer than their page".into()));
        }
        let mut page = vec![0; granted];
        page[..plain].copy_from_slice(&bytes[..plain]);
        codec.decompress(&bytes[plain..], &mut page[plain..])?;
        chunk.give_back(bytes);
        Ok(page.into())
    }
}

impl PageReader for Decompressed {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let Some(mut page) = self.pages.pages.get_next_page()? else { return Ok(None) };
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
                *buf = self.decompressed(std::mem::take(buf), 0)?;
            }
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, is_compressed, .. } => {
                if std::mem::take(is_compressed) {
                    let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                    *buf = self.decompressed(std::mem::take(buf), levels)?;
                }
            }
        }
        // The library has room for as many values as the header says before it looks for them.
        match &page {
            Page::DictionaryPage { buf, num_values, .. } => {
                if (*num_values as usize).saturating_mul(value_bytes(&self.column)) > buf.len() {
                    let said = format!("a dictionary of {num_values} values does not fit in its page");
                    return Err(ParquetError::General(said));
                }
            }
            Page::DataPage { .. } | Page::DataPageV2 { .. } => delta::check(&page, &self.column)?,
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.pages.pages.at_record_boundary()
    }
}

impl Iterator for Decompressed {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// The only column chunk of a column in one row group.
struct OneChunk(Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}
