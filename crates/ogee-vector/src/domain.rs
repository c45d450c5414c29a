//! What is known about the values of a column before they are seen.

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
