//! Marks in text: which bytes are one of a few, found 64 at a time.
//!
//! Not here: what they mean.

/// Bytes that are looked at together.
pub const BLOCK: usize = 64;

/// A bit for each of the bytes at the front of `text`, at most [`BLOCK`], that is one of `marks`.
#[inline(always)]
pub fn marks(text: &[u8], marks: [u8; 4]) -> u64 {
    match text.first_chunk::<BLOCK>() {
        Some(block) => of_block(block, marks),
        None => {
            let mut block = [0; BLOCK];
            block[..text.len()].copy_from_slice(text);
            of_block(&block, marks) & ((1 << text.len()) - 1)
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn of_block(block: &[u8; BLOCK], marks: [u8; 4]) -> u64 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};

    const LANES: usize = size_of::<__m128i>();
    // SAFETY: SSE2 is part of the architecture, and all bytes that are loaded are of the block.
    unsafe {
        let [a, b, c, d] = marks.map(|mark| _mm_set1_epi8(mark.cast_signed()));
        let mut found = 0;
        for part in 0..BLOCK / LANES {
            let bytes = _mm_loadu_si128(block.as_ptr().add(part * LANES).cast());
            let first = _mm_or_si128(_mm_cmpeq_epi8(bytes, a), _mm_cmpeq_epi8(bytes, b));
            let last = _mm_or_si128(_mm_cmpeq_epi8(bytes, c), _mm_cmpeq_epi8(bytes, d));
            let bits = _mm_movemask_epi8(_mm_or_si128(first, last)).cast_unsigned();
            found |= u64::from(bits) << (part * LANES);
        }
        found
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn of_block(block: &[u8; BLOCK], marks: [u8; 4]) -> u64 {
    plain(block, marks)
}

/// As the compiler has it.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain(block: &[u8; BLOCK], [a, b, c, d]: [u8; 4]) -> u64 {
    let is_mark = |byte: u8| (byte == a) | (byte == b) | (byte == c) | (byte == d);
    block.iter().enumerate().fold(0, |found, (bit, byte)| found | u64::from(is_mark(*byte)) << bit)
}

/// The marks of a text, one after the other.
#[derive(Debug)]
pub struct Marks<'t> {
    text: &'t [u8],
    marks: [u8; 4],
    /// Where the block begins whose marks are left in `found`.
    block: usize,
    found: u64,
}

impl<'t> Marks<'t> {
    /// Those of `text` from `at` on that are one of `of`.
    #[inline]
    pub fn new(text: &'t [u8], of: [u8; 4], at: usize) -> Self {
        Self { text, marks: of, block: at, found: marks(text.get(at..).unwrap_or_default(), of) }
    }

    /// Goes on with the first mark at `at` or behind it.
    #[inline(always)]
    pub fn seek(&mut self, at: usize) {
        // Within the block at hand, those before it are left out.
        match at.checked_sub(self.block) {
            Some(bits) if bits < BLOCK => self.found &= u64::MAX << bits,
            _ => (self.block, self.found) = (at, marks(self.text.get(at..).unwrap_or_default(), self.marks)),
        }
    }

    /// Where the next mark is; behind the last one, the length of the text.
    #[inline(always)]
    pub fn next_mark(&mut self) -> usize {
        while self.found == 0 {
            self.block += BLOCK;
            let Some(rest) = self.text.get(self.block..) else { return self.text.len() };
            self.found = marks(rest, self.marks);
        }
        let bit = self.found.trailing_zeros() as usize;
        self.found &= self.found - 1;
        self.block + bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_wherever_they_are() {
        let of = [b',', b'\n', b'"', 0xff];
        let text: Vec<u8> = (0..1000_usize).map(|at| of[at % 4].wrapping_mul(u8::from(at * at % 7 == 1))).collect();
        let places: Vec<usize> = (0..text.len()).filter(|&at| of.contains(&text[at])).collect();
        for from in [0, 1, 63, 64, 65, 200, 937, 999, 1000, 5000] {
            let mut marks = Marks::new(&text, of, from / 3);
            marks.seek(from);
            for at in places.iter().filter(|at| **at >= from) {
                assert_eq!(marks.next_mark(), *at, "from {from}");
            }
            assert_eq!((marks.next_mark(), marks.next_mark()), (text.len(), text.len()));
        }
        for (block, _) in text.as_chunks::<BLOCK>().0.iter().zip(0..) {
            assert_eq!(of_block(block, of), plain(block, of));
        }
        assert_eq!(marks(b",", [0, 0, 0, b',']), 1, "what is behind the text is no mark");
        assert_eq!(Marks::new(b"", of, 0).next_mark(), 0);
    }
}
