//! Through the pages of a flat column, to the rows that are wanted.
//!
//! Rows that are passed over are counted first and skipped when a later row is wanted: pages of which no row is wanted are neither read nor
//! decompressed. Pages are decompressed into one buffer, which is not cleared in between, out of one that all columns of the reader share.
//!
//! ```text
//! page, version 1   [length, definition levels]  [width, codes | values]      compressed as a whole
//! page, version 2   [definition levels]          [width, codes | values]      compressed from the values on
//! ```
//!
//! Where few rows are wanted, the dictionary is decompressed when the first of them turns out to be a code: once a column has had more
//! values than a dictionary holds, its pages are plain.
//!
//! Not here: what the values are.

use std::sync::Arc;

use bytes::Bytes;
use parquet::{
    basic::Encoding,
    column::page::{Page, PageReader},
    errors::ParquetError,
    file::serialized_reader::SerializedPageReader,
};

use super::{hybrid::Hybrid, strings, validity::Validity};
use crate::{
    codec::Codec,
    pages::{ColumnBytes, ColumnChunk, RawPages},
};

/// Bytes after the values in the buffer, so that codes can be loaded 8 bytes at a time up to the last.
const SLACK: usize = 8;

/// A decompression buffer this many times as large as its page is given back.
const SLACK_TIMES: usize = 2;

/// The values of the page at hand.
pub(super) enum Values {
    /// One after the other, from this byte on.
    Plain(usize),
    /// Codes of the dictionary.
    Codes(Hybrid),
}

/// Which of some rows have a value.
pub(super) enum Valid {
    All,
    /// So many of them, those in [`PageCursor::validity`].
    Some(usize),
}

enum Held {
    /// In the cursor's buffer.
    Own,
    Shared(Bytes),
}

/// A position in the pages of one column chunk.
pub(super) struct PageCursor {
    pages: SerializedPageReader<ColumnBytes>,
    chunk: Arc<ColumnChunk>,
    /// Where the pages are compressed.
    codec: Option<Codec>,
    is_optional: bool,
    buffer: Vec<u8>,
    held: Held,
    /// Bytes of the page at hand; behind them the buffer has what an earlier page left.
    len: usize,
    /// Rows left in the page at hand.
    left: usize,
    levels_at: Option<Hybrid>,
    /// Of the rows that [`Self::valid`] was asked about.
    pub(super) validity: Validity,
    values: Values,
    /// Rows to pass before the next one that is wanted.
    behind: usize,
    /// Whether the dictionary waits for a page of codes.
    defers: bool,
    /// The column chunk's dictionary was met; it has one at most, and views into it are made.
    has_dictionary: bool,
    /// The dictionary's page as it was read, while it waits.
    waiting: Option<Waiting>,
}

/// A dictionary that nobody has looked at.
struct Waiting {
    bytes: Bytes,
    values: usize,
    /// Bytes that were granted for it, uncompressed.
    granted: usize,
}

/// A page that holds a dictionary.
pub(super) struct DictionaryPage<'a> {
    page: PageBytes<'a>,
    pub(super) values: usize,
}

enum PageBytes<'a> {
    /// So many bytes of the cursor's buffer.
    Own(&'a mut Vec<u8>, usize),
    Shared(&'a Bytes),
}

#[cfg(test)]
impl<'a> DictionaryPage<'a> {
    /// A page that was not compressed.
    pub(super) fn of(bytes: &'a Bytes, values: usize) -> Self {
        Self { page: PageBytes::Shared(bytes), values }
    }
}

impl DictionaryPage<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.page {
            PageBytes::Own(buffer, len) => &buffer[..*len],
            PageBytes::Shared(bytes) => bytes,
        }
    }

    /// The bytes, for those who look at them later.
    pub(super) fn keep(self) -> Bytes {
        match self.page {
            PageBytes::Own(buffer, len) => {
                let mut buffer = std::mem::take(buffer);
                buffer.truncate(len);
                buffer.into()
            }
            PageBytes::Shared(bytes) => bytes.clone(),
        }
    }
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.into())
}

impl PageCursor {
    /// A cursor over `pages`. `few` if most of its rows will be passed over.
    pub(super) fn new(pages: RawPages, is_optional: bool, few: bool) -> Self {
        let RawPages { pages, chunk, codec } = pages;
        Self {
            pages,
            chunk,
            codec,
            is_optional,
            buffer: Vec::new(),
            held: Held::Own,
            len: 0,
            left: 0,
            levels_at: None,
            validity: Validity::default(),
            values: Values::Plain(0),
            behind: 0,
            defers: few,
            has_dictionary: false,
            waiting: None,
        }
    }

    /// Passes over `rows` rows.
    pub(super) fn pass(&mut self, rows: usize) {
        self.behind += rows;
    }

    /// Goes to the next row that is not passed over; how many of `rows` rows from there on are in its page. `dictionary` is given the
    /// dictionary when it is met.
    pub(super) fn settle(
        &mut self,
        rows: usize,
        mut dictionary: impl FnMut(DictionaryPage<'_>) -> Result<(), ParquetError>,
    ) -> Result<usize, ParquetError> {
        loop {
            if self.behind < self.left {
                let behind = std::mem::take(&mut self.behind);
                self.skip(behind)?;
                return Ok(rows.min(self.left));
            }
            self.behind -= self.left;
            self.left = 0;
            let next =
                self.pages.peek_next_page()?.ok_or_else(|| damaged("a column has fewer rows than the footer says"))?;
            if next.is_dict {
                self.load_dictionary(&mut dictionary)?;
                continue;
            }
            // A column that is not nested has one level a row.
            let count = next.num_rows.or(next.num_levels).ok_or_else(|| damaged("a page does not tell its rows"))?;
            if count <= self.behind {
                self.pages.skip_next_page()?;
                self.behind -= count;
            } else {
                self.load(&mut dictionary)?;
                if self.left != count {
                    return Err(damaged("a page has other rows than the index of its column says"));
                }
            }
        }
    }

    /// Whether the next `rows` rows, all of the page at hand, have values.
    pub(super) fn valid(&mut self, rows: usize) -> Result<Valid, ParquetError> {
        let page = match &self.held {
            Held::Own => &self.buffer[..],
            Held::Shared(bytes) => bytes,
        };
        let Some(levels) = &mut self.levels_at else { return Ok(Valid::All) };
        if levels.repeated(page, rows)? == Some(1) {
            levels.skip(page, rows)?;
            return Ok(Valid::All);
        }
        self.validity.clear();
        levels.read_bits(page, rows, &mut self.validity)?;
        let values = self.validity.values();
        Ok(if values == rows { Valid::All } else { Valid::Some(values) })
    }

    /// The page at hand and the position among its values, to be moved by those of the `rows` rows that are read now.
    pub(super) fn values(&mut self, rows: usize) -> (&[u8], &mut Values) {
        self.left -= rows;
        let page = match (&self.held, &self.values) {
            // Of codes, words are read that may end behind the page; of values nothing is.
            (Held::Own, Values::Codes(_)) => &self.buffer[..],
            (Held::Own, Values::Plain(_)) => &self.buffer[..self.len],
            (Held::Shared(bytes), _) => bytes,
        };
        (page, &mut self.values)
    }

    /// Passes over rows of the page at hand. Values without a fixed width have their lengths before them.
    fn skip(&mut self, rows: usize) -> Result<(), ParquetError> {
        if rows == 0 {
            return Ok(());
        }
        let values = match self.valid(rows)? {
            Valid::All => rows,
            Valid::Some(values) => values,
        };
        let width = self.chunk.plain_width;
        let (page, at) = self.values(rows);
        match at {
            Values::Plain(next) if width == 0 => *next = strings::pass(page, *next, values)?,
            Values::Plain(next) => *next += values * width,
            Values::Codes(codes) => codes.skip(page, values)?,
        }
        Ok(())
    }

    fn load_dictionary(
        &mut self,
        dictionary: &mut impl FnMut(DictionaryPage<'_>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let Some(Page::DictionaryPage { buf, num_values, encoding, .. }) = self.pages.get_next_page()? else {
            return Err(damaged("a dictionary page was expected"));
        };
        if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
            return Err(damaged("a dictionary that is not plain"));
        }
        if std::mem::replace(&mut self.has_dictionary, true) {
            return Err(damaged("a column has a second dictionary in one row group"));
        }
        let page = Waiting { bytes: buf, values: num_values as usize, granted: self.chunk.granted() };
        if self.defers {
            self.left = 0;
            self.waiting = Some(page);
            return Ok(());
        }
        self.take_dictionary(page, dictionary)
    }

    fn take_dictionary(
        &mut self,
        page: Waiting,
        dictionary: &mut impl FnMut(DictionaryPage<'_>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let len = self.hold(page.bytes, 0, true, page.granted)?;
        let bytes = match &self.held {
            Held::Own => PageBytes::Own(&mut self.buffer, len),
            Held::Shared(bytes) => PageBytes::Shared(bytes),
        };
        dictionary(DictionaryPage { page: bytes, values: page.values })
    }

    /// Loads the next page, which holds values, and the dictionary if they are the first codes of it.
    fn load(
        &mut self,
        dictionary: &mut impl FnMut(DictionaryPage<'_>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let page = self.pages.get_next_page()?;
        let granted = self.chunk.granted();
        let is_codes = |encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        if page.as_ref().is_some_and(|page| is_codes(page.encoding()))
            && let Some(waiting) = self.waiting.take()
        {
            self.take_dictionary(waiting, dictionary)?;
        }
        let (encoding, rows, mut at, len) = match page {
            Some(Page::DataPage { buf, num_values, encoding, def_level_encoding, .. }) => {
                if self.is_optional && def_level_encoding != Encoding::RLE {
                    return Err(damaged(&format!("levels are encoded as {def_level_encoding}, which is not read")));
                }
                let len = self.hold(buf, 0, true, granted)?;
                let mut at = 0;
                if self.is_optional {
                    let page = self.page();
                    let bytes = page[..len].first_chunk::<4>().ok_or_else(|| damaged("a page is too short"))?;
                    let end = (u32::from_le_bytes(*bytes) as usize).checked_add(4).filter(|&end| end <= len);
                    let end = end.ok_or_else(|| damaged("levels are longer than their page"))?;
                    self.levels_at = Some(Hybrid::new(1, 4, end)?);
                    at = end;
                }
                (encoding, num_values, at, len)
            }
            Some(Page::DataPageV2 {
                buf,
                encoding,
                num_rows,
                num_values,
                num_nulls,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                ..
            }) => {
                if num_values != num_rows || num_nulls > num_values {
                    return Err(damaged("a page of a column that is not nested has other values than rows"));
                }
                let (repetition, definition) = (rep_levels_byte_len as usize, def_levels_byte_len as usize);
                let at = repetition + definition;
                if at > buf.len() {
                    return Err(damaged("levels are longer than their page"));
                }
                let len = self.hold(buf, at, is_compressed, granted)?;
                if self.is_optional {
                    self.levels_at = Some(Hybrid::new(1, repetition, at)?);
                }
                (encoding, num_rows, at, len)
            }
            _ => return Err(damaged("a page with values was expected")),
        };
        self.values = match encoding {
            Encoding::PLAIN => Values::Plain(at),
            encoding if is_codes(encoding) => {
                // A page of NULLs may end here.
                let width = self.page()[..len].get(at).copied().unwrap_or(0);
                at = (at + 1).min(len);
                Values::Codes(Hybrid::new(usize::from(width), at, len)?)
            }
            other => return Err(damaged(&format!("a page is encoded as {other}, which the footer does not say"))),
        };
        self.left = rows as usize;
        Ok(())
    }

    fn page(&self) -> &[u8] {
        match &self.held {
            Held::Own => &self.buffer,
            Held::Shared(bytes) => bytes,
        }
    }

    /// Takes the bytes of a page, of which all from `plain` on are compressed if `is_compressed`; how many it has then, which `granted` says too.
    fn hold(&mut self, bytes: Bytes, plain: usize, is_compressed: bool, granted: usize) -> Result<usize, ParquetError> {
        self.left = 0;
        let Some(codec) = self.codec.as_mut().filter(|_| is_compressed) else {
            self.len = bytes.len();
            self.held = Held::Shared(bytes);
            return Ok(self.len);
        };
        if granted < plain {
            return Err(damaged("a page does not have the size that its header says"));
        }
        let capacity = granted + SLACK;
        if (capacity..=capacity * SLACK_TIMES).contains(&self.buffer.capacity()) {
            self.buffer.resize(capacity, 0);
        } else {
            // The old one goes first.
            drop(std::mem::take(&mut self.buffer));
            self.buffer = vec![0; capacity];
        }
        self.buffer[..plain].copy_from_slice(&bytes[..plain]);
        codec.decompress(&bytes[plain..], &mut self.buffer[plain..granted])?;
        (self.held, self.len) = (Held::Own, granted);
        self.chunk.give_back(bytes);
        Ok(granted)
    }
}
