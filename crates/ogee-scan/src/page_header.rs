//! Sizes of a page out of its header, before anything is allocated for it.
//!
//! A page header is a struct of Thrift's compact protocol. Its first three fields are required and in this order: type,
//! uncompressed size, compressed size; each is a 32-bit integer, written as a byte `0x15` (next field, integer) and a zigzag
//! varint. So the first 18 bytes at most tell the sizes, unless a later field has the number of one of them again: the library would believe the last.
//!
//! Not here: what the rest of the header says; the Parquet library decodes it.

use crate::{
    layouts::PAGE_HEADER,
    thrift::{self, Order},
};

/// Bytes that hold the three fields in any case: 3 × (1 + 5).
pub(crate) const SIZES_LEN_MAX: usize = 18;

/// Structs within one another, at most: a header has statistics within the header of a kind of page.
const DEPTH_MAX: usize = 8;

/// Bytes of the whole page header that `bytes` begin with, of which no field is there twice or of another type than it has; `None` if there is none.
pub(crate) fn header_len(bytes: &[u8]) -> Option<usize> {
    thrift::struct_len(bytes, DEPTH_MAX, PAGE_HEADER, Order::Ascending)
}

/// Type, and sizes in bytes without the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSizes {
    pub(crate) dictionary: bool,
    pub(crate) uncompressed: usize,
    pub(crate) compressed: usize,
}

impl PageSizes {
    /// The sizes, or `None` if `bytes` do not start with a page header.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        const DICTIONARY_PAGE: i32 = 2;
        let mut rest = bytes;
        let page_type = field(&mut rest)?;
        let uncompressed = usize::try_from(field(&mut rest)?).ok()?;
        let compressed = usize::try_from(field(&mut rest)?).ok()?;
        Some(Self { dictionary: page_type == DICTIONARY_PAGE, uncompressed, compressed })
    }
}

fn field(bytes: &mut &[u8]) -> Option<i32> {
    const NEXT_FIELD_I32: u8 = 0x15;
    let (&header, rest) = bytes.split_first()?;
    if header != NEXT_FIELD_I32 {
        return None;
    }
    *bytes = rest;
    let mut zigzag = 0u64;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        zigzag |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let zigzag = u32::try_from(zigzag).ok()?;
            return Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_first_three_fields() {
        // Data page, 300 bytes, 130 compressed; more fields follow.
        let sizes = PageSizes::parse(&[0x15, 0x00, 0x15, 0xd8, 0x04, 0x15, 0x84, 0x02, 0x2c]);
        assert_eq!(sizes, Some(PageSizes { dictionary: false, uncompressed: 300, compressed: 130 }));
        let sizes = PageSizes::parse(&[0x15, 0x04, 0x15, 0x02, 0x15, 0x02]);
        assert_eq!(sizes, Some(PageSizes { dictionary: true, uncompressed: 1, compressed: 1 }));
    }

    #[test]
    fn the_longest_sizes_fit() {
        let max = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        let bytes = [&[0x15, 0x00, 0x15][..], &max, &[0x15], &max].concat();
        let size = usize::try_from(i32::MAX).expect("positive");
        assert_eq!(
            PageSizes::parse(&bytes),
            Some(PageSizes { dictionary: false, uncompressed: size, compressed: size })
        );
        assert!(bytes.len() <= SIZES_LEN_MAX);
    }

    #[test]
    fn no_field_is_there_twice() {
        // Data page, 300 bytes, 130 compressed; its header: 10 values, plain, RLE, RLE, with statistics of a minimum and a bit.
        let sizes = [0x15, 0x00, 0x15, 0xd8, 0x04, 0x15, 0x84, 0x02];
        let page =
            [0x2c, 0x15, 0x14, 0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0x1c, 0x68, 0x02, 0x61, 0x62, 0x21, 0x00, 0x00];
        let whole = [&sizes[..], &page, &[0x00]].concat();
        assert_eq!(header_len(&whole), Some(whole.len()));
        assert_eq!(header_len(&[&whole[..], b"the page"].concat()), Some(whole.len()));
        for end in 0..whole.len() {
            assert_eq!(header_len(&whole[..end]), None, "cut off at {end}");
        }
        // The uncompressed size once more, with its number written out (2), or one that stands still (0).
        for number in [0x04, 0x00] {
            assert_eq!(
                header_len(&[&sizes[..], &page, &[0x05, number, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00]].concat()),
                None
            );
        }
        // A later field may have its number written out, too.
        assert!(header_len(&[&sizes[..], &page, &[0x05, 0x20, 0x02, 0x00]].concat()).is_some());
        // Structs within structs, and a list that is longer than the header.
        assert_eq!(header_len(&[0x1c; 100]), None);
        assert_eq!(header_len(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x02, 0x00]), None);
    }

    #[test]
    fn other_bytes_are_no_header() {
        assert_eq!(PageSizes::parse(&[]), None);
        assert_eq!(PageSizes::parse(b"PAR1"), None);
        // Negative size.
        assert_eq!(PageSizes::parse(&[0x15, 0x00, 0x15, 0x01, 0x15, 0x02]), None);
        // A varint that does not end.
        assert_eq!(PageSizes::parse(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
        // Cut off.
        assert_eq!(PageSizes::parse(&[0x15, 0x00, 0x15]), None);
    }
}
