//! Normalized keys: bytes whose order, as `memcmp` has it, is the order of the rows.
//!
//! Each column is a byte that tells NULLs apart, if there may be some, then the value in bytes that order it (`encode`). Strings have only a
//! prefix of their bytes in the key. So a key is cut into *pieces*, each of which ends with at most one string: pieces are compared byte by
//! byte, and where one is equal up to its end, the strings themselves are.
//!
//! Not here: where rows are, and sorting them.

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{ArrowError, DataType, IntervalUnit};
use ogee_row::{Narrowing, RowLayout, RowView};
use ogee_vector::PhysicalType;

use super::{
    SortKey,
    encode::{Encoding, KeyColumn, VALID},
};
use crate::Expr;

/// Bytes of a key that an entry holds, see `entries`.
pub(crate) const ENTRY_PREFIX: usize = 12;

/// A string that tells apart keys that are equal so far.
#[derive(Clone, Copy, Debug)]
struct Tie {
    /// Column of the row layout that holds the view, and its offset in the row.
    column: usize,
    view: usize,
    /// Offset in the key of the string's byte for NULLs, if it has one.
    marker: Option<usize>,
    /// Bytes of the string that the key has.
    in_key: usize,
    descending: bool,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: usize,
    end: usize,
    tie: Option<Tie>,
}

/// A piece of a key, to those who sort by one after the other.
#[derive(Clone, Copy)]
pub(super) struct PieceRef<'a> {
    piece: &'a Piece,
    is_last: bool,
}

impl PieceRef<'_> {
    /// Where it ends in the key.
    pub(super) fn end(self) -> usize {
        self.piece.end
    }

    /// Of the string at its end: how many of its bytes the key has, and whether it is descending.
    pub(super) fn string(self) -> Option<(usize, bool)> {
        self.piece.tie.map(|tie| (tie.in_key, tie.descending))
    }

    pub(super) fn is_last(self) -> bool {
        self.is_last
    }
}

/// Layout of the normalized keys of rows.
#[derive(Debug)]
pub(crate) struct KeyLayout {
    columns: Vec<KeyColumn>,
    pieces: Vec<Piece>,
    /// Bytes of a key.
    len: usize,
    /// Bytes of the hash before the first column.
    hash: usize,
    /// Where the key is in the row, once the row's layout is known.
    offset: usize,
}

/// Whether values of normalized type `data_type` can be ordered.
pub(crate) fn is_sortable(data_type: &DataType) -> bool {
    PhysicalType::of(data_type)
        .is_ok_and(|physical| physical != PhysicalType::Nested || ogee_row::NestedCodec::supports(data_type))
}

impl KeyLayout {
    /// The layout for `keys`, whose values are narrowed as `forms` say, and of which strings (and nested values, as bytes) are in column
    /// `view_of(key)` of the row. `hashed`: the key begins with the row's hash.
    pub(crate) fn new(keys: &[SortKey], forms: &[Narrowing], hashed: bool, view_of: impl Fn(usize) -> usize) -> Self {
        let hash = if hashed { 4 } else { 0 };
        let mut columns = Vec::with_capacity(keys.len());
        let mut pieces = Vec::new();
        let mut len = hash;
        let mut start = 0;
        for (index, (key, form)) in keys.iter().zip(forms).enumerate() {
            let physical = PhysicalType::of(&form.stored_type()).expect("asked for by `is_sortable`");
            let encoding = match physical {
                PhysicalType::View | PhysicalType::Nested => Encoding::Prefix,
                PhysicalType::I64 if key.data_type == DataType::Interval(IntervalUnit::DayTime) => Encoding::DayTime,
                fixed => Encoding::Fixed(fixed),
            };
            // The encoding of nested values is descending by itself.
            let descending = key.descending && physical != PhysicalType::Nested;
            let null = if key.nulls_first { VALID - 1 } else { VALID + 1 };
            let nullable = form.nullable();
            columns.push(KeyColumn { offset: len, nullable, encoding, descending, null });
            let marker = nullable.then_some(len);
            len += usize::from(nullable);
            len += match encoding {
                Encoding::Prefix => ENTRY_PREFIX - usize::from(nullable),
                Encoding::DayTime => 8,
                Encoding::Fixed(physical) => physical.row_width(),
            };
            if encoding == Encoding::Prefix {
                let in_key = ENTRY_PREFIX - usize::from(nullable);
                let tie = Tie { column: view_of(index), view: 0, marker, in_key, descending };
                pieces.push(Piece { start, end: len, tie: Some(tie) });
                start = len;
            }
        }
        if start < len || pieces.is_empty() {
            pieces.push(Piece { start, end: len, tie: None });
        }
        Self { columns, pieces, len, hash, offset: 0 }
    }

    /// Bytes of a key; rows have room for at least [`ENTRY_PREFIX`].
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Tells the layout where keys are in rows of `layout`.
    pub(crate) fn bind(&mut self, layout: &RowLayout) {
        self.offset = layout.state_offset();
        for tie in self.pieces.iter_mut().filter_map(|piece| piece.tie.as_mut()) {
            tie.view = layout.column(tie.column).offset;
        }
    }

    /// Whether entries hold whole keys, so that they need no rows to be compared.
    pub(crate) fn fits_entry(&self) -> bool {
        self.len <= ENTRY_PREFIX && self.is_plain()
    }

    /// Piece `index` of the key, if there are so many.
    #[inline]
    pub(super) fn piece(&self, index: usize) -> Option<PieceRef<'_>> {
        let piece = self.pieces.get(index)?;
        Some(PieceRef { piece, is_last: index + 1 == self.pieces.len() })
    }

    /// The piece that has byte `at` of the key, and where it ends.
    pub(super) fn piece_after(&self, at: usize) -> Option<(usize, usize)> {
        let index = self.pieces.iter().position(|piece| piece.end > at)?;
        Some((index, self.pieces[index].end))
    }

    /// The string at the end of piece `piece` of a row's key; `None` if it is NULL.
    ///
    /// # Safety
    /// As [`compare`](Self::compare); the string is used only while it is pinned.
    #[inline(always)]
    pub(super) unsafe fn string<'a>(&self, row: *const u8, piece: usize) -> Option<&'a [u8]> {
        let tie = self.pieces[piece].tie.expect("a piece that ends with a string");
        // SAFETY: the caller vouches for the row and its string; an inlined string is read where it lies in the row.
        unsafe {
            let valid = tie.marker.is_none_or(|marker| *row.add(self.offset + marker) == VALID);
            let view = row.add(tie.view).cast::<RowView>().read_unaligned();
            let start = if view.is_long() { view.pointer() } else { row.add(tie.view + 4) };
            valid.then(|| std::slice::from_raw_parts(start, view.len()))
        }
    }

    /// Where the bytes of the first string of a row's key are, for fetching them; the row itself if it has none.
    ///
    /// # Safety
    /// As [`prefix`](Self::prefix).
    #[inline(always)]
    pub(super) unsafe fn string_start(&self, row: *const u8) -> *const u8 {
        let Some(tie) = self.pieces[0].tie else { return row };
        // SAFETY: the caller vouches for the row.
        let view = unsafe { row.add(tie.view).cast::<RowView>().read_unaligned() };
        if view.is_long() { view.pointer().wrapping_add(tie.in_key) } else { row }
    }

    /// Whether the bytes of keys order rows by themselves.
    pub(crate) fn is_plain(&self) -> bool {
        self.pieces.iter().all(|piece| piece.tie.is_none())
    }

    /// The first 12 bytes of a row's key, above 32 bits that are zero.
    ///
    /// # Safety
    /// `row` must be a row of the layout on a pinned page.
    #[inline(always)]
    pub(crate) unsafe fn prefix(&self, row: *const u8) -> u128 {
        // SAFETY: rows have room for at least 12 bytes of key.
        unsafe { prefix_at(row.add(self.offset)) }
    }

    /// The row's hash, above 8 bytes of its key from byte `start` on (zeroes where it ends), above 32 bits that are zero.
    ///
    /// # Safety
    /// As [`prefix`](Self::prefix).
    #[inline(always)]
    pub(crate) unsafe fn hash_and_part(&self, row: *const u8, start: usize) -> u128 {
        // SAFETY: the caller vouches for the row; a hash is what the key begins with.
        let (hash, part) = unsafe {
            let hash = row.add(self.offset).cast::<u32>().read_unaligned().swap_bytes();
            (hash, self.part_bits(row, start))
        };
        u128::from(hash) << 96 | u128::from(part) << 32
    }

    /// 8 bytes of a row's key from byte `start` on, where a column begins (zeroes where the key ends): of two rows that are equal before it, the one with
    /// the greater bits comes later.
    ///
    /// # Safety
    /// As [`prefix`](Self::prefix).
    #[inline(always)]
    pub(crate) unsafe fn part_bits(&self, row: *const u8, start: usize) -> u64 {
        let len = (self.len - start).min(8);
        // SAFETY: the caller vouches for the row; the part lies within its key.
        unsafe {
            let part = row.add(self.offset + start);
            if len == 8 {
                return part.cast::<u64>().read_unaligned().swap_bytes();
            }
            let mut bytes = [0; 8];
            std::ptr::copy_nonoverlapping(part, bytes.as_mut_ptr(), len);
            u64::from_be_bytes(bytes)
        }
    }

    /// Whether the bytes before byte `end` of the key, where a column begins, but for the hash, tell rows apart and fit into
    /// [`bits_until`](Self::bits_until).
    pub(crate) fn has_bits_until(&self, end: usize) -> bool {
        (8..=16).contains(&(end - self.hash)) && self.pieces.iter().all(|piece| piece.tie.is_none() || piece.end > end)
    }

    /// The bytes of a row's key between its hash and byte `end`, the last 8 of which may also be among the first.
    ///
    /// # Safety
    /// As [`prefix`](Self::prefix); [`has_bits_until`](Self::has_bits_until) holds.
    #[inline(always)]
    pub(crate) unsafe fn bits_until(&self, row: *const u8, end: usize) -> [u64; 2] {
        // SAFETY: the caller vouches for the row; both words lie within its key.
        unsafe {
            let key = row.add(self.offset);
            [key.add(self.hash).cast::<u64>().read_unaligned(), key.add(end - 8).cast::<u64>().read_unaligned()]
        }
    }

    /// Up to 12 bytes of a row's key from byte `depth` on, none from `end` on, above 32 bits that are zero.
    ///
    /// # Safety
    /// As [`prefix`](Self::prefix).
    #[inline(always)]
    pub(crate) unsafe fn part(&self, row: *const u8, depth: usize, end: usize) -> u128 {
        let mut bytes = [0_u8; 16];
        let len = ENTRY_PREFIX.min(end - depth);
        // SAFETY: within the key, which is within the row.
        unsafe { std::ptr::copy_nonoverlapping(row.add(self.offset + depth), bytes.as_mut_ptr(), len) };
        u128::from_be_bytes(bytes)
    }

    /// The order of two rows.
    ///
    /// # Safety
    /// As [`prefix`](Self::prefix), for both; their strings are pinned too.
    pub(crate) unsafe fn compare(&self, a: *const u8, b: *const u8) -> Ordering {
        // SAFETY: the caller vouches for both rows.
        unsafe { self.compare_until(a, b, self.len) }
    }

    /// The order of two rows by the columns before byte `end` of the key, where a column begins or the key ends.
    ///
    /// # Safety
    /// As [`compare`](Self::compare).
    #[inline]
    pub(crate) unsafe fn compare_until(&self, a: *const u8, b: *const u8, end: usize) -> Ordering {
        // SAFETY: the caller vouches for both rows.
        unsafe { self.compare_within(a, b, 0, end) }
    }

    /// The order of two rows by the columns between bytes `start` and `end` of the key, where columns begin or the key ends.
    ///
    /// # Safety
    /// As [`compare`](Self::compare).
    #[inline]
    pub(crate) unsafe fn compare_within(&self, a: *const u8, b: *const u8, start: usize, end: usize) -> Ordering {
        // SAFETY: the caller vouches for both rows.
        unsafe { self.compare_across(a, self, b, start, end) }
    }

    /// As [`compare_within`](Self::compare_within), for a row `b` of a layout for keys of the same types in the same order.
    ///
    /// # Safety
    /// As [`compare`](Self::compare), of either layout.
    #[inline(always)]
    pub(crate) unsafe fn compare_across(
        &self,
        a: *const u8,
        other: &Self,
        b: *const u8,
        start: usize,
        end: usize,
    ) -> Ordering {
        for (piece, of_other) in self.pieces.iter().zip(&other.pieces).skip_while(|(piece, _)| piece.end <= start) {
            if piece.start >= end {
                break;
            }
            let first = piece.start.max(start);
            let len = piece.end.min(end) - first;
            // SAFETY: the caller vouches for the rows; pieces lie within the key.
            let (x, y) = unsafe {
                let (a, b) = (a.add(self.offset + first), b.add(other.offset + first));
                (std::slice::from_raw_parts(a, len), std::slice::from_raw_parts(b, len))
            };
            let order = compare_bytes(x, y);
            if order.is_ne() {
                return order;
            }
            let Some((tie, of_other)) = piece.tie.zip(of_other.tie).filter(|_| piece.end <= end) else { continue };
            if tie.marker.is_some_and(|marker| x[marker - first] != VALID) {
                continue;
            }
            // SAFETY: the caller vouches for the rows and their strings.
            let order = unsafe {
                let x = a.add(tie.view).cast::<RowView>().read_unaligned();
                let y = b.add(of_other.view).cast::<RowView>().read_unaligned();
                x.compare(&y)
            };
            if order.is_ne() {
                return if tie.descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }

    /// A copy of a row of `width` bytes, for comparisons by the key; `None` if it would take more than `most` bytes.
    ///
    /// # Safety
    /// As [`compare`](Self::compare).
    pub(crate) unsafe fn copy(&self, row: *const u8, width: usize, most: usize) -> Option<KeyCopy> {
        if width > most {
            return None;
        }
        let mut left = most - width;
        // SAFETY: the caller vouches for the row, which has so many bytes.
        let mut copy: Box<[u8]> = unsafe { std::slice::from_raw_parts(row, width) }.into();
        let mut strings = Vec::new();
        for tie in self.pieces.iter().filter_map(|piece| piece.tie) {
            // SAFETY: the caller vouches for the row and its strings.
            let view = unsafe { row.add(tie.view).cast::<RowView>().read_unaligned() };
            // What a NULL has in the place of a value is not looked at.
            // SAFETY: as above.
            if !view.is_long() || tie.marker.is_some_and(|marker| unsafe { *row.add(self.offset + marker) } != VALID) {
                continue;
            }
            left = left.checked_sub(view.len())?;
            // SAFETY: as above.
            let string: Box<[u8]> = unsafe { view.bytes() }.into();
            copy[tie.view..tie.view + size_of::<RowView>()]
                .copy_from_slice(&view.with_pointer(string.as_ptr()).0.to_le_bytes());
            strings.push(string);
        }
        Some(KeyCopy { row: copy, _strings: strings })
    }

    /// Whether a column of a row's key is NULL.
    ///
    /// # Safety
    /// As [`prefix`](Self::prefix).
    #[inline]
    pub(crate) unsafe fn has_null(&self, row: *const u8) -> bool {
        // SAFETY: the caller vouches for the row; the bytes are within its key.
        self.columns.iter().any(|column| column.nullable && unsafe { *row.add(self.offset + column.offset) } != VALID)
    }

    /// Whether [`values`](Self::values) gives key `index` back as it was.
    pub(crate) fn is_exact(&self, index: usize) -> bool {
        self.columns[index].is_exact()
    }

    /// Key `index` of `rows`, of type `data_type` when it was written.
    ///
    /// # Safety
    /// As [`prefix`](Self::prefix), for all of them; the key [`is_exact`](Self::is_exact).
    pub(crate) unsafe fn values(
        &self,
        index: usize,
        data_type: &DataType,
        rows: &[*const u8],
    ) -> Result<ArrayRef, ArrowError> {
        // SAFETY: the caller vouches for the rows.
        unsafe { self.columns[index].values(self.offset, data_type, rows) }
    }

    /// Bytes of the key that the first `columns` columns take, the hash included.
    pub(crate) fn bytes_of(&self, columns: usize) -> usize {
        self.columns.get(columns).map_or(self.len, |column| column.offset)
    }

    /// Writes the keys of rows `0..rows` of `columns` (nested values as bytes), that of row `r` at `target + r * stride`.
    ///
    /// # Safety
    /// There must be room for `rows` keys at `target`, zeroed; `columns` have `rows` rows.
    pub(crate) unsafe fn write(
        &self,
        hashes: &[u32],
        columns: &[ArrayRef],
        rows: usize,
        target: *mut u8,
        stride: usize,
    ) {
        if self.hash > 0 {
            assert_eq!(hashes.len(), rows);
            for (row, hash) in hashes.iter().enumerate() {
                // SAFETY: the caller vouches for the room.
                unsafe { target.add(row * stride).cast::<[u8; 4]>().write_unaligned(hash.to_be_bytes()) };
            }
        }
        for (column, array) in self.columns.iter().zip(columns) {
            assert_eq!(array.len(), rows);
            // SAFETY: the caller vouches for the room.
            unsafe { column.write(array, rows, target, stride) };
        }
    }
}

/// The first 12 bytes of the normalized keys, ascending, of the values of `array`, each above 32 bits that are zero, into `prefixes`,
/// which is cleared.
pub(crate) fn prefixes(data_type: &DataType, array: &ArrayRef, prefixes: &mut Vec<u128>) {
    prefixes.clear();
    let rows = array.len();
    let column = Expr::Column(0);
    let key = SortKey { expr: column, data_type: data_type.clone(), descending: false, nulls_first: false };
    let layout = KeyLayout::new(&[key], &[Narrowing::plain(data_type.clone())], false, |_| 0);
    let stride = layout.len().max(ENTRY_PREFIX);
    let mut keys = vec![0_u8; rows * stride];
    // SAFETY: there is room for that many keys, zeroed.
    unsafe { layout.write(&[], std::slice::from_ref(array), rows, keys.as_mut_ptr(), stride) };
    // SAFETY: each key has at least as many bytes as a prefix.
    prefixes.extend((0..rows).map(|row| unsafe { prefix_at(keys.as_ptr().add(row * stride)) }));
}

/// The order of two strings of bytes of one length: word by word, as keys have a few, for which a call would cost more.
#[inline(always)]
fn compare_bytes(x: &[u8], y: &[u8]) -> Ordering {
    let word = |bytes: &[u8], at: usize| {
        let (word, _) = bytes[at..].split_first_chunk().expect("a whole word");
        u64::from_be_bytes(*word)
    };
    let len = x.len();
    if len < 8 || y.len() != len {
        return x.cmp(y);
    }
    let mut at = 0;
    loop {
        let (a, b) = (word(x, at), word(y, at));
        if a != b {
            return a.cmp(&b);
        }
        if at + 8 == len {
            return Ordering::Equal;
        }
        // The last word overlaps with what was equal before it.
        at = (at + 8).min(len - 8);
    }
}

/// A row that is there to be compared with, with copies of the strings of its key. Its other strings are not to be looked at.
pub(crate) struct KeyCopy {
    row: Box<[u8]>,
    _strings: Vec<Box<[u8]>>,
}

impl KeyCopy {
    /// The row.
    pub(crate) fn row(&self) -> *const u8 {
        self.row.as_ptr()
    }
}

/// The first 12 of at least 12 bytes at `key`, above 32 bits that are zero.
///
/// # Safety
/// They must be readable.
#[inline(always)]
pub(crate) unsafe fn prefix_at(key: *const u8) -> u128 {
    // SAFETY: the caller vouches for them.
    let (high, low) = unsafe { (key.cast::<u64>().read_unaligned(), key.add(8).cast::<u32>().read_unaligned()) };
    u128::from(high.swap_bytes()) << 64 | u128::from(low.swap_bytes()) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_compare_as_bytes_do() {
        for len in 0..40 {
            let x: Vec<u8> = (0..len).map(|i: u8| i.wrapping_mul(7)).collect();
            assert_eq!(compare_bytes(&x, &x), Ordering::Equal);
            for at in 0..usize::from(len) {
                for change in [1, 0x80, 0xff] {
                    let mut y = x.clone();
                    y[at] = y[at].wrapping_add(change);
                    assert_eq!(compare_bytes(&x, &y), x.cmp(&y), "byte {at} of {len}");
                }
            }
        }
    }
}
