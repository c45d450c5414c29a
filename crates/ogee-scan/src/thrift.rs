//! Structs of Thrift's compact protocol, walked from end to end before the Parquet library decodes them.
//!
//! The library skips what it does not know, and takes no bytes for the booleans of a list that it skips: a list that says it has
//! 2³¹ of them, or many such lists, keep it busy for hours. Here each element is a byte at least, so that a count that is made up ends with
//! the bytes. A list of booleans that the library may skip is refused, for the bytes of its elements would be fields to it; and so is a value that
//! it reads as another type than the file says, where that is known ([`Layout`]).
//!
//! Not here: what the fields mean (`layouts` knows their types).

/// The fields that the library reads of a struct, and what it reads them as; it skips others.
pub(crate) type Layout = &'static [(i64, Shape)];

/// What the library reads a value as.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Boolean,
    Byte,
    /// An integer of 16, 32 or 64 bits, which are written alike: writers mix them up.
    Integer,
    Double,
    /// Bytes or text.
    Binary,
    List(&'static Self),
    Struct(Layout),
}

impl Shape {
    /// Whether the protocol has it as `kind`; `true` and `false` are types of fields.
    fn is(self, kind: u8) -> bool {
        match self {
            Self::Boolean => matches!(kind, TRUE | FALSE),
            Self::Byte => kind == 3,
            Self::Integer => matches!(kind, 4..=6),
            Self::Double => kind == 7,
            Self::Binary => kind == 8,
            Self::List(_) => kind == 9,
            Self::Struct(_) => kind == 12,
        }
    }
}

/// Types of fields, and of the elements of a list of booleans.
const TRUE: u8 = 1;
const FALSE: u8 = 2;

/// In which order the fields of a struct may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Each with a greater number than the one before it, as they are written: none is there twice.
    Ascending,
    Any,
}

/// Bytes of the whole struct that `bytes` begin with; `None` if it does not end in them, has more than `depth` structs and lists within
/// one another, or is not what `layout` and `order` say.
pub(crate) fn struct_len(bytes: &[u8], depth: usize, layout: Layout, order: Order) -> Option<usize> {
    let mut walk = Walk { rest: bytes, order };
    walk.pass_struct(depth, layout)?;
    Some(bytes.len() - walk.rest.len())
}

struct Walk<'a> {
    rest: &'a [u8],
    order: Order,
}

impl Walk<'_> {
    /// Passes the fields of a struct and its end.
    fn pass_struct(&mut self, depth: usize, layout: Layout) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let mut last = 0;
        loop {
            let header = pass(&mut self.rest, 1)?[0];
            let (delta, kind) = (i64::from(header >> 4), header & 0xf);
            if kind == 0 {
                return Some(());
            }
            let number = match delta {
                0 => {
                    let zigzag = varint(&mut self.rest)?;
                    let number = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
                    // The library has the lower 16 bits.
                    i64::from(i16::try_from(number).ok()?)
                }
                delta => i64::checked_add(last, delta)?,
            };
            if self.order == Order::Ascending && number <= last {
                return None;
            }
            last = number;
            let shape = layout.iter().find(|(known, _)| *known == number).map(|(_, shape)| *shape);
            if shape.is_some_and(|shape| !shape.is(kind)) {
                return None;
            }
            self.pass_value(kind, shape, false, depth)?;
        }
    }

    /// Passes a value of the type that the protocol has as `kind`. Of a field a boolean is a part of its header, in a list it is a byte.
    fn pass_value(&mut self, kind: u8, shape: Option<Shape>, is_element: bool, depth: usize) -> Option<()> {
        match kind {
            TRUE | FALSE => pass(&mut self.rest, usize::from(is_element)).map(|_| ()),
            3 => pass(&mut self.rest, 1).map(|_| ()),
            4..=6 => varint(&mut self.rest).map(|_| ()),
            7 => pass(&mut self.rest, 8).map(|_| ()),
            8 => {
                let len = usize::try_from(varint(&mut self.rest)?).ok()?;
                pass(&mut self.rest, len).map(|_| ())
            }
            9 | 10 => self.pass_list(shape, depth),
            12 => {
                let layout = if let Some(Shape::Struct(layout)) = shape { layout } else { &[] };
                self.pass_struct(depth, layout)
            }
            // Parquet has no maps.
            _ => None,
        }
    }

    /// Passes the elements of a list.
    fn pass_list(&mut self, shape: Option<Shape>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let header = pass(&mut self.rest, 1)?[0];
        let kind = header & 0xf;
        let count = if header >> 4 == 0xf { varint(&mut self.rest)? } else { u64::from(header >> 4) };
        // Some say nothing of the type of no elements.
        if count == 0 {
            return Some(());
        }
        let element = if let Some(Shape::List(element)) = shape { Some(*element) } else { None };
        match element {
            Some(element) if !element.is(kind) => return None,
            None if matches!(kind, TRUE | FALSE) => return None,
            _ => {}
        }
        (0..count).try_for_each(|_| self.pass_value(kind, element, true, depth))
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

    const TRUTHS: Layout = &[(1, Shape::List(&Shape::Boolean))];

    #[test]
    fn counts_end_with_the_bytes() {
        let len = |bytes: &[u8], depth| struct_len(bytes, depth, TRUTHS, Order::Any);
        // A list of five booleans, which takes five bytes.
        let list = [0x19, 0x51, 1, 2, 1, 2, 1, 0];
        assert_eq!(len(&list, 3), Some(list.len()));
        assert_eq!(len(&list, 1), None, "a list within a struct");
        // The same that says it has 2³¹ - 1.
        assert_eq!(len(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 1, 2, 1, 0], 3), None);
        // A list of five bytes that nobody knows.
        let bytes = [0x29, 0x53, 1, 2, 1, 2, 1, 0];
        assert_eq!(len(&bytes, 3), Some(bytes.len()));
    }

    #[test]
    fn lists_of_booleans_are_not_skipped() {
        // Seven of them, which are the beginning of a list of 2³¹ - 1 to who takes no bytes for them.
        let list = [0x19, 0x71, 0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00];
        assert!(struct_len(&list, 3, TRUTHS, Order::Any).is_some());
        assert_eq!(struct_len(&list, 3, &[], Order::Any), None);
        let none = [0x19, 0x01, 0x00];
        assert_eq!(struct_len(&none, 3, &[], Order::Any), Some(none.len()));
        let none = [0x19, 0x00, 0x00];
        assert_eq!(struct_len(&none, 3, TRUTHS, Order::Any), Some(none.len()));
    }

    #[test]
    fn known_fields_have_their_types() {
        const WITHIN: Layout = &[(1, Shape::Boolean)];
        const LAYOUT: Layout =
            &[(1, Shape::Integer), (2, Shape::Struct(WITHIN)), (4, Shape::List(&Shape::Struct(WITHIN)))];
        let len = |bytes: &[u8]| struct_len(bytes, 4, LAYOUT, Order::Any);
        assert_eq!(len(&[0x15, 0x02, 0x1c, 0x11, 0x00, 0x00]), Some(6));
        assert_eq!(len(&[0x15, 0x02, 0x1c, 0x12, 0x00, 0x00]), Some(6));
        assert_eq!(len(&[0x16, 0x02, 0x1c, 0x12, 0x00, 0x00]), Some(6), "a wider number");
        assert_eq!(len(&[0x15, 0x02, 0x1c, 0x15, 0x02, 0x00, 0x00]), None, "a number for a boolean");
        assert_eq!(len(&[0x18, 0x01, 0x61, 0x00]), None, "text for a number");
        assert_eq!(len(&[0x38, 0x01, 0x61, 0x00]), Some(4), "a field that nobody knows");
        assert_eq!(len(&[0x49, 0x2c, 0x11, 0x00, 0x12, 0x00, 0x00]), Some(7));
        assert_eq!(len(&[0x49, 0x15, 0x02, 0x00]), None, "a list of numbers for one of structs");
        assert_eq!(len(&[0x49, 0x1c, 0x13, 0x02, 0x00, 0x00]), None, "a byte for a boolean, in a list");
        // The library takes the number 65537 for 1.
        assert_eq!(len(&[0x08, 0x82, 0x80, 0x08, 0x01, 0x61, 0x00]), None);
    }

    #[test]
    fn fields_may_be_in_any_order() {
        // The third, and the first after it.
        let fields = [0x35, 0x02, 0x05, 0x02, 0x02, 0x00];
        assert_eq!(struct_len(&fields, 1, &[], Order::Any), Some(fields.len()));
        assert_eq!(struct_len(&fields, 1, &[], Order::Ascending), None);
    }
}
