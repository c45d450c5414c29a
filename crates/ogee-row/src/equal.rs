//! Equality of the keys of two rows: NULL equals NULL, bytes equal bytes.

use crate::{RowLayout, RowView};

/// The hash that a row begins with.
///
/// # Safety
/// `row` must point to a row on a pinned page, or staged.
#[inline(always)]
pub unsafe fn row_hash(row: *const u8) -> u32 {
    // SAFETY: the caller vouches for the row.
    unsafe { row.cast::<u32>().read_unaligned() }
}

/// Whether two rows have the same hash and key.
///
/// # Safety
/// Both must point to rows of `layout` on pinned pages (or staged), their long strings rebased.
#[inline(always)]
pub unsafe fn keys_equal(layout: &RowLayout, a: *const u8, b: *const u8) -> bool {
    let mut difference = 0;
    for word in 0..layout.key_words() {
        // SAFETY: the words are within the row.
        unsafe {
            difference |= a.cast::<u64>().add(word).read_unaligned() ^ b.cast::<u64>().add(word).read_unaligned();
        }
    }
    difference == 0
        && layout.key_views().iter().all(|&offset| {
            // SAFETY: views lie within the row; the caller vouches for the pointers.
            unsafe {
                let a = a.add(offset).cast::<RowView>().read_unaligned();
                let b = b.add(offset).cast::<RowView>().read_unaligned();
                a.equals(&b)
            }
        })
}

/// [`keys_equal`] for layouts of `WORDS` key words without views, the length known when it is compiled.
///
/// # Safety
/// As [`keys_equal`].
#[inline(always)]
pub unsafe fn keys_equal_words<const WORDS: usize>(a: *const u8, b: *const u8) -> bool {
    // SAFETY: the words are within the rows.
    unsafe { a.cast::<[u64; WORDS]>().read_unaligned() == b.cast::<[u64; WORDS]>().read_unaligned() }
}
