//! Structs of Thrift's compact protocol, walked from end to end before the Parquet library decodes them.
//!
//! The library skips what it does not know, and takes no bytes for the booleans of a list that it skips: a list that says it has
//! 2³¹ of them, or many such lists, keep it busy for hours. Here each element is a byte at least, so that a count that is made up ends with
//! the bytes. A list of booleans that the library may skip is refused, for the bytes of its elements would be fields to it; and so is a field that
//! it reads as another type than the file says, where that is known ([`Layout`]).
//!
//! Not here: what the fields mean.

/// Which fields a struct may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fields {
    /// Those of a struct that is known, and others, each with a greater number than the field before it, as they are written: none is there twice.
    Known(Layout),
    /// Those of a struct that is skipped, with numbers that ascend, too.
    Ascend,
    /// Any, in any order, without lists of booleans.
    Any,
    /// Any, in any order.
    WithTruths,
}

/// The fields that the library reads of a struct: their numbers, types, and what those that are structs have.
pub(crate) type Layout = &'static [(i64, Kind, Fields)];

/// Types of values, as the protocol numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean = 1,
    I32 = 5,
    I64 = 6,
    Binary = 8,
    Struct = 12,
}

impl Kind {
    /// Whether it is what the protocol has as `number`; `true` and `false` are types of fields.
    fn is(self, number: u8) -> bool {
        number == self as u8 || self == Self::Boolean && number == 2
    }
}

/// Bytes of the whole struct that `bytes` begin with; `None` if it does not end in them, or has more than `depth` structs and lists within
/// one another.
pub(crate) fn struct_len(bytes: &[u8], depth: usize, fields: Fields) -> Option<usize> {
    let mut rest = bytes;
    pass_struct(&mut rest, depth, fields)?;
    Some(bytes.len() - rest.len())
}

/// Passes the fields of a struct and its end.
fn pass_struct(bytes: &mut &[u8], depth: usize, fields: Fields) -> Option<()> {
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
        if matches!(fields, Fields::Known(_) | Fields::Ascend) && number <= last {
            return None;
        }
        last = number;
        let within = match fields {
            Fields::Known(layout) => match layout.iter().find(|(known, ..)| *known == number) {
                Some((_, wanted, within)) if wanted.is(kind) => *within,
                Some(_) => return None,
                None => Fields::Ascend,
            },
            other => other,
        };
        pass_value(bytes, kind, false, depth, within)?;
    }
}

/// Passes a value of the type that the protocol has as `kind`. Of a field a boolean is a part of its header, in a list it is a byte.
fn pass_value(bytes: &mut &[u8], kind: u8, is_element: bool, depth: usize, fields: Fields) -> Option<()> {
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
            if matches!(header & 0xf, 1 | 2) && count > 0 && !matches!(fields, Fields::WithTruths) {
                return None;
            }
            (0..count).try_for_each(|_| pass_value(bytes, header & 0xf, true, depth, fields))
        }
        12 => pass_struct(bytes, depth, fields),
        // Parquet has no maps.
        _ => None,
    }
}

/// The next `count` bytes.
pub(crate) fn pass<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (passed, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(passed)
}

/// The next number of a variable length.
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_with_the_bytes() {
        // A list of five booleans, which takes five bytes.
        let list = [0x19, 0x51, 1, 2, 1, 2, 1, 0];
        assert_eq!(struct_len(&list, 3, Fields::WithTruths), Some(list.len()));
        assert_eq!(struct_len(&list, 1, Fields::WithTruths), None, "a list within a struct");
        // The same that says it has 2³¹ - 1.
        assert_eq!(struct_len(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 1, 2, 1, 0], 3, Fields::WithTruths), None);
        // A list of five bytes.
        let bytes = [0x19, 0x53, 1, 2, 1, 2, 1, 0];
        assert_eq!(struct_len(&bytes, 3, Fields::Ascend), Some(bytes.len()));
    }

    #[test]
    fn lists_of_booleans_are_not_skipped() {
        // Seven of them, which are the beginning of a list of 2³¹ - 1 to who takes no bytes for them.
        let list = [0x19, 0x71, 0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00];
        assert!(struct_len(&list, 3, Fields::WithTruths).is_some());
        for fields in [Fields::Ascend, Fields::Any] {
            assert_eq!(struct_len(&list, 3, fields), None);
        }
        let none = [0x19, 0x01, 0x00];
        assert_eq!(struct_len(&none, 3, Fields::Ascend), Some(none.len()));
    }

    #[test]
    fn known_fields_have_their_types() {
        const WITHIN: Layout = &[(1, Kind::Boolean, Fields::Ascend)];
        const LAYOUT: Layout = &[(1, Kind::I32, Fields::Ascend), (2, Kind::Struct, Fields::Known(WITHIN))];
        let len = |bytes: &[u8]| struct_len(bytes, 4, Fields::Known(LAYOUT));
        assert_eq!(len(&[0x15, 0x02, 0x1c, 0x11, 0x00, 0x00]), Some(6));
        assert_eq!(len(&[0x15, 0x02, 0x1c, 0x12, 0x00, 0x00]), Some(6));
        assert_eq!(len(&[0x15, 0x02, 0x1c, 0x15, 0x02, 0x00, 0x00]), None, "a number for a boolean");
        assert_eq!(len(&[0x18, 0x01, 0x61, 0x00]), None, "text for a number");
        assert_eq!(len(&[0x38, 0x01, 0x61, 0x00]), Some(4), "a field that nobody knows");
    }

    #[test]
    fn fields_may_be_in_any_order() {
        // The third, and the first after it.
        let fields = [0x35, 0x02, 0x05, 0x02, 0x02, 0x00];
        assert_eq!(struct_len(&fields, 1, Fields::Any), Some(fields.len()));
        assert_eq!(struct_len(&fields, 1, Fields::Ascend), None);
    }
}
