//! Sizes of a page out of its header, before anything is allocated for it.
//!
//! A page header is a struct of Thrift's compact protocol. Its first three fields are required and in this order: type,
//! uncompressed size, compressed size; each is a 32-bit integer, written as a byte `0x15` (next field, integer) and a zigzag
//! varint. So the first 18 bytes at most tell the sizes, unless a later field has the number of one of them again: the library would believe the last.
//!
//! Not here: what the rest of the header says; the Parquet library decodes it.

/// Bytes that hold the three fields in any case: 3 × (1 + 5).
pub(crate) const SIZES_LEN_MAX: usize = 18;

/// Structs within one another, at most: a header has statistics within the header of a kind of page.
const DEPTH_MAX: usize = 8;

/// Whether `bytes` begin with a whole page header of which no field is there twice.
pub(crate) fn is_header(bytes: &[u8]) -> bool {
    pass_struct(&mut &*bytes, DEPTH_MAX).is_some()
}

/// Passes the fields of a struct, whose numbers must ascend, and its end.
fn pass_struct(bytes: &mut &[u8], depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let mut last = 0;
    loop {
        let header = pass(bytes, 1)?[0];
        let (delta, kind) = (i64::from(header >> 4), header & 0xf);
        if kind == 0 {
            return Some(());
        }
        let number = match delta {
            0 => {
                let zigzag = varint(bytes)?;
                (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed()
            }
            delta => i64::checked_add(last, delta)?,
        };
        if number <= last {
            return None;
        }
        last = number;
        pass_value(bytes, kind, false, depth)?;
    }
}

/// Passes a value of the type that the protocol has as `kind`. Of a field a boolean is a part of its header, in a list it is a byte.
fn pass_value(bytes: &mut &[u8], kind: u8, is_element: bool, depth: usize) -> Option<()> {
    match kind {
        1 | 2 => pass(bytes, usize::from(is_element)).map(|_| ()),
        3 => pass(bytes, 1).map(|_| ()),
        4..=6 => varint(bytes).map(|_| ()),
        7 => pass(bytes, 8).map(|_| ()),
        8 => {
            let len = usize::try_from(varint(bytes)?).ok()?;
            pass(bytes, len).map(|_| ())
        }
        9 | 10 => {
            let header = pass(bytes, 1)?[0];
            let count = if header >> 4 == 0xf { varint(bytes)? } else { u64::from(header >> 4) };
            let depth = depth.checked_sub(1)?;
            // Each takes a byte at least, so that a count that is made up ends with the bytes.
            (0..count).try_for_each(|_| pass_value(bytes, header & 0xf, true, depth))
        }
        12 => pass_struct(bytes, depth),
        // A header has no maps.
        _ => None,
    }
}

fn pass<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (passed, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(passed)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = pass(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
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
        assert!(is_header(&whole));
        assert!(is_header(&[&whole[..], b"the page"].concat()));
        for end in 0..whole.len() {
            assert!(!is_header(&whole[..end]), "cut off at {end}");
        }
        // The uncompressed size once more, with its number written out (2), or one that stands still (0).
        for number in [0x04, 0x00] {
            assert!(!is_header(&[&sizes[..], &page, &[0x05, number, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00]].concat()));
        }
        // A later field may have its number written out, too.
        assert!(is_header(&[&sizes[..], &page, &[0x05, 0x20, 0x02, 0x00]].concat()));
        // Structs within structs, and a list that is longer than the header.
        assert!(!is_header(&[0x1c; 100]));
        assert!(!is_header(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x02, 0x00]));
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
