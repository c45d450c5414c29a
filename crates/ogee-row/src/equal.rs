//! Equality of the keys of two rows: NULL equals NULL, bytes equal bytes.

use crate::{RowLayout, RowView};

/// Whether two rows have the same key.
///
/// # Safety
/// Both must point to rows of `layout` on pinned pages (or staged), their long strings rebased.
#[inline(always)]
pub unsafe fn keys_equal(layout: &RowLayout, a: *const u8, b: *const u8) -> bool {
    let words = layout.fixed_key_bytes() / 8;
    let mut difference = 0u64;
    for word in 0..words {
        // SAFETY: the fixed part of the key is within the row, and whole words.
        unsafe {
            difference |= a.cast::<u64>().add(word).read_unaligned() ^ b.cast::<u64>().add(word).read_unaligned();
        }
    }
    if difference != 0 {
        return false;
    }
    layout.key_views().iter().all(|&offset| {
        // SAFETY: views lie within the row; the caller vouches for the pointers.
        unsafe {
            let a = a.add(offset).cast::<RowView>().read_unaligned();
            let b = b.add(offset).cast::<RowView>().read_unaligned();
            a.equals(&b)
        }
    })
}
