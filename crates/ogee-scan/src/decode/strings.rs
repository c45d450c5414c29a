//! Strings and other byte arrays that are no codes of a small dictionary: only those that are wanted are looked at, others are passed over by their lengths.
//!
//! ```text
//! plain page   [length, bytes] [length, bytes] …
//! column       views, the longer values copied one after the other; of a dictionary, views into its page's bytes
//! ```
//!
//! Of a dictionary of which few values are wanted, those are looked for in its page each time; about every 32nd is known where it is.
//!
//! Longer values are copied, so that a page's buffer is used again, and a few rows that stay do not keep it.
#![expect(unsafe_code, reason = "views are of bytes that were put there, and checked at once")]

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, ScalarBuffer};
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::DataType;
use ogee_vector::Column;
use parquet::errors::ParquetError;

use super::{
    cursor::{DictionaryPage, Values},
    fixed::check_codes,
    hybrid::Picks,
    values::{Decode, reused},
};

/// Number of the buffer with the dictionary's longer values among those of a column, and of that with the others.
const DICTIONARY: u32 = 0;
const PLAIN: u32 = 1;

/// The value that begins with its length at `at`, and where the next one begins.
#[inline(always)]
pub(super) fn byte_array(page: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let length = page.get(at..)?.first_chunk::<4>()?;
    let start = at + 4;
    let end = start.checked_add(u32::from_le_bytes(*length) as usize)?;
    Some((page.get(start..end)?, end))
}

fn ended() -> ParquetError {
    ParquetError::EOF("a page has fewer values than its header says".into())
}

/// Where the value begins that comes after `count` others from `at` on.
pub(super) fn pass(page: &[u8], mut at: usize, count: usize) -> Result<usize, ParquetError> {
    for _ in 0..count {
        (_, at) = byte_array(page, at).ok_or_else(ended)?;
    }
    Ok(at)
}

/// Views of byte arrays, and the bytes of those that are longer.
#[derive(Default)]
struct Bytes {
    long: Vec<u8>,
    /// Where the longer ones begin.
    starts: Vec<usize>,
    /// Whether a short one has a byte that is not ASCII.
    odd: bool,
}

impl Bytes {
    /// The view of `value` as one of buffer `buffer`, which its bytes are added to if it is longer than a view.
    #[inline(always)]
    fn view(&mut self, value: &[u8], buffer: u32) -> Result<u128, ParquetError> {
        let length = value.len();
        if length <= MAX_INLINE_VIEW_LEN as usize {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
            bytes[4..4 + length].copy_from_slice(value);
            // The length has no such bit.
            const HIGHEST: u128 = u128::from_le_bytes([0x80; 16]);
            let view = u128::from_le_bytes(bytes);
            self.odd |= view & HIGHEST != 0;
            return Ok(view);
        }
        let offset = self.long.len();
        self.starts.push(offset);
        self.long.extend_from_slice(value);
        if self.long.len() > i32::MAX as usize {
            return Err(ParquetError::General("the strings of a batch are too long".into()));
        }
        let prefix = u32::from_le_bytes(value[..4].try_into().expect("4 bytes"));
        Ok(ByteView { length: length as u32, prefix, buffer_index: buffer, offset: offset as u32 }.as_u128())
    }

    /// Checks that all values are UTF-8; `views` are those of the short ones, and maybe of others.
    fn check(&self, views: &[u128]) -> Result<(), ParquetError> {
        let not_text = || ParquetError::General("a string is not UTF-8".into());
        // Text one after the other is text each if none begins within a character.
        let text = std::str::from_utf8(&self.long).map_err(|_| not_text())?;
        if !self.starts.iter().all(|&start| text.is_char_boundary(start)) {
            return Err(not_text());
        }
        for view in views.iter().filter(|_| self.odd).map(|view| view.to_le_bytes()) {
            let length = u32::from_le_bytes(view[..4].try_into().expect("4 bytes")) as usize;
            if length <= MAX_INLINE_VIEW_LEN as usize {
                std::str::from_utf8(&view[4..4 + length]).map_err(|_| not_text())?;
            }
        }
        Ok(())
    }
}

/// Values from one that is known where it is to the next: a length takes about a nanosecond to pass.
const STEP: usize = 32;

/// A dictionary's page, of which few values are wanted.
struct Sparse {
    page: bytes::Bytes,
    values: usize,
    /// Where each [`STEP`]th value begins.
    marks: Vec<u32>,
}

impl Sparse {
    fn new(page: DictionaryPage<'_>) -> Result<Self, ParquetError> {
        let values = page.values;
        let page = page.keep();
        let mut marks = Vec::with_capacity(values.min(page.len()) / STEP + 1);
        let mut at = 0;
        for first in (0..values).step_by(STEP) {
            marks.push(u32::try_from(at).map_err(|_| ParquetError::General("a dictionary is too long".into()))?);
            at = pass(&page, at, STEP.min(values - first))?;
        }
        Ok(Self { page, values, marks })
    }

    fn value(&self, code: u32) -> Result<&[u8], ParquetError> {
        let code = code as usize;
        let at = pass(&self.page, self.marks[code / STEP] as usize, code % STEP)?;
        Ok(byte_array(&self.page, at).ok_or_else(ended)?.0)
    }
}

/// Byte arrays of type `Utf8View` or `BinaryView`.
pub(super) struct Strings {
    data_type: DataType,
    /// Whether few rows are wanted.
    few: bool,
    sparse: Option<Sparse>,
    dictionary: Vec<u128>,
    dictionary_bytes: Buffer,
    codes: Vec<u32>,
    plain: Bytes,
    /// The longer values of the last batch, and its views, whose memory is used again when nobody refers to them any more.
    last: Option<(Buffer, Buffer)>,
}

impl Strings {
    /// Values of `data_type`, of which `few` rows are wanted or most.
    pub(super) fn new(data_type: DataType, few: bool) -> Self {
        Self {
            data_type,
            few,
            sparse: None,
            dictionary: Vec::new(),
            dictionary_bytes: Buffer::from_vec(Vec::<u8>::new()),
            codes: Vec::new(),
            plain: Bytes::default(),
            last: None,
        }
    }

    fn is_text(&self) -> bool {
        self.data_type == DataType::Utf8View
    }
}

impl Decode for Strings {
    type Out = u128;

    fn set_dictionary(&mut self, page: DictionaryPage<'_>) -> Result<(), ParquetError> {
        if self.few {
            self.sparse = Some(Sparse::new(page)?);
            return Ok(());
        }
        let (values, page) = (page.values, page.bytes());
        // All that is needed at once: a vector that grows is copied, and touches more memory than it takes in the end. The memory of the
        // dictionary before is used again, unless rows still refer to it.
        let before = std::mem::replace(&mut self.dictionary_bytes, Buffer::from_vec(Vec::<u8>::new()));
        let mut long: Vec<u8> = reused(Some(before), 0);
        long.reserve_exact(page.len().saturating_sub(values.saturating_mul(size_of::<u32>())));
        let mut bytes = Bytes { long, ..Bytes::default() };
        self.dictionary.clear();
        self.dictionary.reserve(values.min(page.len() / size_of::<u32>()));
        let mut at = 0;
        for _ in 0..values {
            let (value, next) = byte_array(page, at).ok_or_else(ended)?;
            self.dictionary.push(bytes.view(value, DICTIONARY)?);
            at = next;
        }
        if self.is_text() {
            bytes.check(&self.dictionary)?;
        }
        self.dictionary_bytes = Buffer::from_vec(bytes.long);
        Ok(())
    }

    fn decode(
        &mut self,
        page: &[u8],
        values: &mut Values,
        count: usize,
        picks: Picks<'_>,
        out: &mut Vec<u128>,
    ) -> Result<(), ParquetError> {
        match values {
            Values::Plain(at) => {
                match picks {
                    Picks::All => {
                        for _ in 0..count {
                            let (value, next) = byte_array(page, *at).ok_or_else(ended)?;
                            out.push(self.plain.view(value, PLAIN)?);
                            *at = next;
                        }
                    }
                    Picks::At { rows, base } => {
                        let mut passed = 0;
                        for row in rows.iter().map(|&row| (row - base) as usize) {
                            *at = pass(page, *at, row - passed)?;
                            let (value, next) = byte_array(page, *at).ok_or_else(ended)?;
                            out.push(self.plain.view(value, PLAIN)?);
                            *at = next;
                            passed = row + 1;
                        }
                        *at = pass(page, *at, count - passed)?;
                    }
                }
                Ok(())
            }
            Values::Codes(codes) => {
                self.codes.clear();
                codes.read(page, count, picks, &mut self.codes)?;
                if let Some(sparse) = &self.sparse {
                    check_codes(&self.codes, sparse.values)?;
                    for &code in &self.codes {
                        out.push(self.plain.view(sparse.value(code)?, PLAIN)?);
                    }
                    return Ok(());
                }
                check_codes(&self.codes, self.dictionary.len())?;
                out.extend(self.codes.iter().map(|&code| self.dictionary[code as usize]));
                Ok(())
            }
        }
    }

    fn begin(&mut self, rows: usize) -> Vec<u128> {
        let (long, views) = self.last.take().unzip();
        self.plain.long = reused(long, 0);
        self.plain.starts.clear();
        self.plain.odd = false;
        reused(views, rows)
    }

    fn finish(&mut self, views: Vec<u128>, nulls: &mut NullBufferBuilder) -> Result<Column, ParquetError> {
        if self.is_text() {
            self.plain.check(&views)?;
        }
        let long = Buffer::from_vec(std::mem::take(&mut self.plain.long));
        let views = Buffer::from_vec(views);
        self.last = Some((long.clone(), views.clone()));
        let buffers = [self.dictionary_bytes.clone(), long];
        let views = ScalarBuffer::from(views);
        let nulls: Option<NullBuffer> = nulls.finish();
        // SAFETY: each view is of a value that is in it, or at that place of the buffer it names: the dictionary's buffer is set once, before the
        // first view of it, and the other one has grown with the views of this batch. Those that are NULL are empty. There are as many validity
        // bits as views. Text was checked.
        let array: ArrayRef = unsafe {
            match self.is_text() {
                true => Arc::new(StringViewArray::new_unchecked(views, buffers, nulls)),
                false => Arc::new(BinaryViewArray::new_unchecked(views, buffers, nulls)),
            }
        };
        Ok(Column::flat(array))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{Array, cast::AsArray};

    use super::*;

    fn page(values: &[&[u8]]) -> Vec<u8> {
        values.iter().flat_map(|value| [&(value.len() as u32).to_le_bytes(), *value].concat()).collect()
    }

    fn decode(data_type: DataType, values: &[&[u8]], picks: Picks<'_>) -> Result<ArrayRef, ParquetError> {
        let mut strings = Strings::new(data_type, false);
        let mut out = strings.begin(values.len());
        let mut at = Values::Plain(0);
        strings.decode(&page(values), &mut at, values.len(), picks, &mut out)?;
        let Values::Plain(end) = at else { unreachable!("it was plain") };
        assert_eq!(end, page(values).len(), "all are passed");
        let mut nulls = NullBufferBuilder::new(0);
        nulls.append_n_non_nulls(out.len());
        Ok(strings.finish(out, &mut nulls)?.array)
    }

    #[test]
    fn those_that_are_wanted_are_there() {
        let texts = ["", "twelve bytes", "thirteen bytes", "Grüße", "Grüße aus der Ferne", "x"];
        let values: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        let all = decode(DataType::Utf8View, &values, Picks::All).unwrap();
        assert!(all.as_string_view().iter().flatten().eq(texts));
        let picks = Picks::At { rows: &[11, 12, 14], base: 10 };
        let some = decode(DataType::Utf8View, &values, picks).unwrap();
        assert!(some.as_string_view().iter().flatten().eq([texts[1], texts[2], texts[4]]));
        let none = decode(DataType::BinaryView, &values, Picks::At { rows: &[], base: 0 }).unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn few_values_of_a_dictionary_are_found() {
        let values: Vec<Vec<u8>> = (0..3 * STEP + 5).map(|n| "ä".repeat(n % 9).into_bytes()).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let bytes = bytes::Bytes::from(page(&values));
        let sparse = Sparse::new(DictionaryPage::of(&bytes, values.len())).unwrap();
        for (code, value) in values.iter().enumerate() {
            assert_eq!(sparse.value(code as u32).unwrap(), *value);
        }
        // A page that ends too early, and one without values.
        let short = bytes.slice(..bytes.len() - 1);
        assert!(Sparse::new(DictionaryPage::of(&short, values.len())).is_err());
        assert!(Sparse::new(DictionaryPage::of(&bytes, values.len() + 1)).is_err());
        assert!(Sparse::new(DictionaryPage::of(&bytes, 0)).unwrap().marks.is_empty());
    }

    #[test]
    fn what_is_no_text_is_an_error_and_may_be_bytes() {
        let long = "a longer one é".as_bytes();
        // In a short one, in a long one, and a character of which two values have a part each.
        let wrong: [&[&[u8]]; 3] = [
            &[b"ok", b"\xff"],
            &[b"a value that is long \xff"],
            &[&long[..long.len() - 1], b"\xa9 and another that is long"],
        ];
        for values in wrong {
            assert!(decode(DataType::Utf8View, values, Picks::All).is_err());
            let bytes = decode(DataType::BinaryView, values, Picks::All).unwrap();
            assert!(bytes.as_binary_view().iter().flatten().eq(values.iter().copied()));
        }
    }

    #[test]
    fn lengths_beyond_the_page_are_errors() {
        let whole = page(&[b"first", b"second"]);
        for end in 0..whole.len() {
            assert!(pass(&whole[..end], 0, 2).is_err());
        }
        assert!(pass(&[0xff; 8], 0, 1).is_err());
    }
}
