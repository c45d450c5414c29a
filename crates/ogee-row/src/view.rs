//! Strings in rows: 16 bytes, inlined or with a pointer to the rest.

use std::cmp::Ordering;

use arrow_buffer::Buffer;

/// A string or binary value as a row holds it: length, then 12 inlined bytes, or 4 of prefix and a pointer.
///
/// Inlined it has the same bits as an Arrow view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct RowView(pub u128);

impl RowView {
    /// Bytes that fit into the row.
    pub const INLINED: usize = 12;

    /// The view of `bytes`, to which it points if they are long.
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Self {
        let mut raw = [0u8; 16];
        raw[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        if bytes.len() <= Self::INLINED {
            raw[4..4 + bytes.len()].copy_from_slice(bytes);
            Self(u128::from_le_bytes(raw))
        } else {
            raw[4..8].copy_from_slice(&bytes[..4]);
            Self(u128::from_le_bytes(raw)).with_pointer(bytes.as_ptr())
        }
    }

    /// The value that a view of an array over `buffers` stands for: it points into them.
    ///
    /// # Panics
    /// If the view is none over these buffers: all its bytes must be there.
    #[inline(always)]
    pub fn of_array(view: u128, buffers: &[Buffer]) -> Self {
        let value = Self(view);
        if !value.is_long() {
            return value;
        }
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
        value.with_pointer(buffers[buffer][offset..][..value.len()].as_ptr())
    }

    /// Length of the value in bytes.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.0 as u32 as usize
    }

    /// Whether the value is the empty string.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether its bytes are elsewhere.
    #[inline(always)]
    pub fn is_long(self) -> bool {
        self.len() > Self::INLINED
    }

    /// A long value whose bytes are at `pointer`; keeps length and prefix.
    #[inline(always)]
    pub fn with_pointer(self, pointer: *const u8) -> Self {
        Self((self.0 & u128::from(u64::MAX)) | (pointer as usize as u128) << 64)
    }

    /// Where the bytes of a long value are.
    #[inline(always)]
    pub fn pointer(self) -> *const u8 {
        (self.0 >> 64) as u64 as usize as *const u8
    }

    /// The value's bytes; `self` must be where the borrow lives, since inlined bytes are within it.
    ///
    /// # Safety
    /// If the value is long, its pointer must be valid for the lifetime that the caller gives the result: the heap page pinned
    /// and the pointer rebased, or the Arrow buffer it came from alive.
    #[inline(always)]
    pub unsafe fn bytes(&self) -> &[u8] {
        let len = self.len();
        if len <= Self::INLINED {
            // SAFETY: the bytes after the length are within `self`, little-endian targets only.
            unsafe { std::slice::from_raw_parts(std::ptr::from_ref(&self.0).cast::<u8>().add(4), len) }
        } else {
            // SAFETY: the caller vouches for the pointer.
            unsafe { std::slice::from_raw_parts(self.pointer(), len) }
        }
    }

    /// Whether two values have the same bytes.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes), for both.
    #[inline(always)]
    pub unsafe fn equals(&self, other: &Self) -> bool {
        if self.0 as u64 != other.0 as u64 {
            return false;
        }
        // Length and prefix agree.
        if !self.is_long() {
            return self.0 == other.0;
        }
        // SAFETY: the caller vouches for both pointers.
        unsafe { self.bytes() == other.bytes() }
    }

    /// Byte order of two values.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes), for both.
    #[inline(always)]
    pub unsafe fn compare(&self, other: &Self) -> Ordering {
        let prefix = |view: &Self| ((view.0 >> 32) as u32).swap_bytes();
        prefix(self).cmp(&prefix(other)).then_with(|| {
            // SAFETY: the caller vouches for both pointers.
            unsafe { self.bytes().cmp(other.bytes()) }
        })
    }
}

const _: () = assert!(cfg!(target_endian = "little") && size_of::<usize>() == 8, "rows assume 64-bit little-endian");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_equality_are_those_of_the_bytes() {
        let values: Vec<&[u8]> =
            vec![b"", b"\0", b"a", b"a\0", b"ab", b"abcd", b"abcdefghijkl", b"abcdefghijklm", b"abcdefghijklmn", b"b"];
        for a in &values {
            for b in &values {
                let (x, y) = (RowView::of(a), RowView::of(b));
                // SAFETY: the bytes are static.
                unsafe {
                    assert_eq!(x.bytes(), *a);
                    assert_eq!(x.compare(&y), a.cmp(b), "{a:?} {b:?}");
                    assert_eq!(x.equals(&y), a == b);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_view_that_ends_beyond_its_buffer_is_refused() {
        let buffers = [Buffer::from(vec![b'x'; 20])];
        let view = |len: u128, offset: u128| len | offset << 96;
        assert_eq!(RowView::of_array(view(16, 4), &buffers).len(), 16);
        let _ = RowView::of_array(view(16, 5), &buffers);
    }
}
