//! Hashes and keys of rows, as tables use them.

use ogee_row::{RowLayout, keys_equal, keys_equal_words};

/// A 64-bit hash out of the 32 bits that a row keeps.
#[inline(always)]
pub(crate) fn spread(stored: u32) -> u64 {
    let product = u64::from(stored).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 29)
}

/// Slots of a table for `rows` rows: a power of two, at most half of them in use.
pub(crate) fn slots_for(rows: usize) -> usize {
    (rows * 2).next_power_of_two().max(64)
}

/// Equality of keys, by a loop that fits the layout.
pub(crate) trait KeyEqual: Copy {
    /// # Safety
    /// As [`keys_equal`], for rows of the layout that the implementation was chosen for.
    unsafe fn equal(self, a: *const u8, b: *const u8) -> bool;
}

/// Keys of so many words and no views.
#[derive(Clone, Copy)]
pub(crate) struct Words<const N: usize>;

impl<const N: usize> KeyEqual for Words<N> {
    #[inline(always)]
    unsafe fn equal(self, a: *const u8, b: *const u8) -> bool {
        // SAFETY: the caller vouches for the rows.
        unsafe { keys_equal_words::<N>(a, b) }
    }
}

/// Keys of so many words with views among them. Most equal keys are equal in all words: short strings are in their views.
#[derive(Clone, Copy)]
pub(crate) struct WordsWithViews<'a, const N: usize>(pub(crate) &'a RowLayout);

impl<const N: usize> KeyEqual for WordsWithViews<'_, N> {
    #[inline(always)]
    unsafe fn equal(self, a: *const u8, b: *const u8) -> bool {
        // SAFETY: the caller vouches for the rows. Equal views of long strings point to the same bytes.
        unsafe { keys_equal_words::<N>(a, b) || keys_equal(self.0, a, b) }
    }
}

/// Any keys.
#[derive(Clone, Copy)]
pub(crate) struct AnyKeys<'a>(pub(crate) &'a RowLayout);

impl KeyEqual for AnyKeys<'_> {
    #[inline(always)]
    unsafe fn equal(self, a: *const u8, b: *const u8) -> bool {
        // SAFETY: the caller vouches for the rows.
        unsafe { keys_equal(self.0, a, b) }
    }
}

/// `$body` with `$equal` being the [`KeyEqual`] for `$layout`.
macro_rules! with_key_equal {
    ($layout:expr, $equal:ident => $body:expr) => {
        match ($layout.has_key_views(), $layout.key_span_words()) {
            (false, 1) => {
                let $equal = $crate::keys::Words::<1>;
                $body
            }
            (false, 2) => {
                let $equal = $crate::keys::Words::<2>;
                $body
            }
            (false, 3) => {
                let $equal = $crate::keys::Words::<3>;
                $body
            }
            (false, 4) => {
                let $equal = $crate::keys::Words::<4>;
                $body
            }
            (true, 3) => {
                let $equal = $crate::keys::WordsWithViews::<3>($layout);
                $body
            }
            (true, 4) => {
                let $equal = $crate::keys::WordsWithViews::<4>($layout);
                $body
            }
            (true, 5) => {
                let $equal = $crate::keys::WordsWithViews::<5>($layout);
                $body
            }
            _ => {
                let $equal = $crate::keys::AnyKeys($layout);
                $body
            }
        }
    };
}
pub(crate) use with_key_equal;
