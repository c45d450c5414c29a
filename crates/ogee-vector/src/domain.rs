//! What is known about the values of a column before they are seen, and what they are.

use arrow_array::{Array, cast::AsArray, types::Decimal128Type};
use arrow_buffer::ArrowNativeType;

use crate::{ColumnRef, PhysicalType, integer_values};

/// What statistics say about the values of a column.
///
/// A hint, never a promise: statistics may be stale or wrong, so whoever builds on a domain must notice values outside it and go on
/// without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Whether there may be NULLs.
    pub nulls: bool,
    /// Least and greatest value of a column that is stored as integers (dates, timestamps and decimals of up to 18 digits
    /// included: days, ticks, unscaled digits).
    pub integers: Option<(i64, i64)>,
}

impl Domain {
    /// Of a column of which nothing is known.
    pub const UNKNOWN: Self = Self { nulls: true, integers: None };

    /// What holds for a column that has the values of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        let integers = self.integers.zip(other.integers).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
        Self { nulls: self.nulls || other.nulls, integers }
    }
}

/// Least and greatest of the values of `column` that are not NULL, as in [`Domain::integers`]; `None` if there are none, or they are no integers.
pub fn integer_range(column: ColumnRef<'_>) -> Option<(i64, i64)> {
    let physical = PhysicalType::of(column.array.data_type()).ok()?;
    macro_rules! range {
        ($t:ty) => {{
            let values = integer_values::<$t>(column.array);
            range(column, |at| i64::from(values[at]))
        }};
    }
    match physical {
        PhysicalType::I8 => range!(i8),
        PhysicalType::I16 => range!(i16),
        PhysicalType::I32 => range!(i32),
        PhysicalType::I64 => range!(i64),
        PhysicalType::U8 => range!(u8),
        PhysicalType::U16 => range!(u16),
        PhysicalType::U32 => range!(u32),
        PhysicalType::ShortDecimal => {
            let values = column.array.as_primitive::<Decimal128Type>().values();
            // At most 18 digits.
            range(column, |at| values[at] as i64)
        }
        _ => None,
    }
}

#[inline(always)]
fn range(column: ColumnRef<'_>, value: impl Fn(usize) -> i64) -> Option<(i64, i64)> {
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    let mut add = |at: usize| {
        let value = value(at);
        (least, greatest) = (least.min(value), greatest.max(value));
    };
    let nulls = column.array.nulls().filter(|nulls| nulls.null_count() > 0);
    let valid = |at: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*at));
    match column.selection {
        None if nulls.is_none() => (0..column.array.len()).for_each(&mut add),
        None => (0..column.array.len()).filter(valid).for_each(&mut add),
        Some(positions) => positions.iter().map(|&at| at.as_usize()).filter(valid).for_each(&mut add),
    }
    (least <= greatest).then_some((least, greatest))
}
