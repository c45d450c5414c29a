//! Loops over columns of integers that are compiled for several widths of vectors.

use crate::dispatch::Kernel;

/// Integers that are taken as 64 bits: those of wider types have no more.
pub trait Integer: Copy {
    /// The value with its sign, or the same bits where the type has none.
    fn wide(self) -> i64;

    /// Bits that are all zero if [`wide`](Self::wide) is the value.
    fn beyond(self) -> i64;
}

/// Unsigned integers that distances are stored in.
pub trait Offset: Copy + Default {
    /// The low bits.
    fn low_bits(distance: u64) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => {$(impl Integer for $t {
        #[inline(always)]
        fn wide(self) -> i64 { self as i64 }

        #[inline(always)]
        fn beyond(self) -> i64 { 0 }
    })*};
}
integers!(i8, u8, i16, u16, i32, u32, i64);

impl Integer for i128 {
    #[inline(always)]
    fn wide(self) -> i64 {
        self as i64
    }

    #[inline(always)]
    fn beyond(self) -> i64 {
        (self >> 64) as i64 ^ (self as i64 >> 63)
    }
}

impl Integer for u64 {
    #[inline(always)]
    fn wide(self) -> i64 {
        self as i64
    }

    #[inline(always)]
    fn beyond(self) -> i64 {
        (self as i64) >> 63
    }
}

macro_rules! offsets {
    ($($t:ty),*) => {$(impl Offset for $t {
        #[inline(always)]
        fn low_bits(distance: u64) -> Self { distance as $t }
    })*};
}
offsets!(u8, u16, u32);

/// Stores the distance of each value from `base`; the largest distance, which may not have fitted.
///
/// # Panics
/// When run, if there are not as many places as values.
#[derive(Debug)]
pub struct Distances<'a, S, T> {
    /// The values.
    pub values: &'a [S],
    /// What is subtracted, wrapping around.
    pub base: i64,
    /// Where the low bits of the distances go.
    pub stored: &'a mut [T],
}

impl<S: Integer, T: Offset> Kernel for Distances<'_, S, T> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        assert_eq!(self.values.len(), self.stored.len());
        let mut largest = 0;
        for (stored, value) in self.stored.iter_mut().zip(self.values) {
            let distance = value.wide().wrapping_sub(self.base) as u64;
            largest = largest.max(distance);
            *stored = T::low_bits(distance);
        }
        largest
    }
}

/// The bits that occur in any of the values; with `signed`, of negative ones those of the complement, so that few say that all values are near zero.
#[derive(Debug)]
pub struct BitsUsed<'a, S> {
    /// The values.
    pub values: &'a [S],
    /// Whether they have signs.
    pub signed: bool,
}

impl<S: Integer> Kernel for BitsUsed<'_, S> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let wide = self.values.iter().map(|value| value.wide());
        let bits = if self.signed {
            wide.fold(0, |bits, value| bits | (value ^ (value >> 63)))
        } else {
            wide.fold(0, |bits, value| bits | value)
        };
        bits as u64
    }
}

/// Stores each value in 64 bits with a sign; the bits that occur in any, of negative ones those of the complement, with the highest set if a value
/// has no room.
///
/// # Panics
/// When run, if there are not as many places as values.
#[derive(Debug)]
pub struct Widened<'a, S> {
    /// The values.
    pub values: &'a [S],
    /// Where they go.
    pub stored: &'a mut [i64],
}

impl<S: Integer> Kernel for Widened<'_, S> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        assert_eq!(self.values.len(), self.stored.len());
        let (mut bits, mut beyond) = (0, 0);
        for (stored, value) in self.stored.iter_mut().zip(self.values) {
            let wide = value.wide();
            *stored = wide;
            bits |= wide ^ (wide >> 63);
            beyond |= value.beyond();
        }
        bits as u64 | u64::from(beyond != 0) << 63
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{Level, dispatch_at};

    fn check<S: Integer, T: Offset + PartialEq + std::fmt::Debug>(values: &[S], base: i64) {
        let distances = |level| {
            let mut stored = vec![T::default(); values.len()];
            let largest = dispatch_at(level, Distances { values, base, stored: &mut stored });
            let bits = [true, false].map(|signed| dispatch_at(level, BitsUsed { values, signed }));
            (largest, stored, bits)
        };
        let expected: Vec<u64> = values.iter().map(|value| value.wide().wrapping_sub(base) as u64).collect();
        for level in Level::available() {
            let (largest, stored, bits) = distances(level);
            assert_eq!(largest, expected.iter().copied().max().unwrap_or(0), "{level:?}");
            assert!(
                stored.iter().zip(&expected).all(|(stored, distance)| *stored == T::low_bits(*distance)),
                "{level:?}"
            );
            let all = |map: fn(i64) -> i64| values.iter().fold(0, |bits, value| bits | map(value.wide()) as u64);
            assert_eq!(bits, [all(|v| if v < 0 { !v } else { v }), all(|v| v)], "{level:?}");
        }
    }

    #[test]
    fn all_widths_give_the_same() {
        let mut state = 3u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 7) as i64 ^ (state << 33) as i64
        };
        // All lengths up to more than a vector, and some vectors and a rest; random values, and alike ones from an end of the range.
        for len in (0..=70).chain([100, 2048, 2051]) {
            let random = [5, 31, 63].map(|bits| (0..len).map(|_| next() >> (63 - bits)).collect::<Vec<i64>>());
            let alike = [0, -1, i64::MIN, i64::MAX].map(|value| vec![value; len]);
            for values in random.into_iter().chain(alike) {
                for base in [0, -1 << 20, i64::MIN, i64::MAX] {
                    check::<i64, u8>(&values, base);
                    check::<i64, u32>(&values, base);
                    check::<i128, u16>(&values.iter().map(|&value| i128::from(value)).collect::<Vec<_>>(), base);
                    check::<i32, u16>(&values.iter().map(|&value| value as i32).collect::<Vec<_>>(), base);
                    check::<u16, u8>(&values.iter().map(|&value| value as u16).collect::<Vec<_>>(), base);
                }
            }
        }
    }

    fn check_widened<S: Integer>(values: &[S]) {
        let used = values.iter().fold(0, |bits, value| bits | value.wide() ^ (value.wide() >> 63)) as u64;
        let is_beyond = values.iter().any(|value| value.beyond() != 0);
        for level in Level::available() {
            let mut stored = vec![77; values.len()];
            let bits = dispatch_at(level, Widened { values, stored: &mut stored });
            assert_eq!(bits, used | u64::from(is_beyond) << 63, "{level:?}");
            assert!(stored.iter().zip(values).all(|(stored, value)| *stored == value.wide()), "{level:?}");
        }
    }

    #[test]
    fn all_widths_widen_alike() {
        let mut state = 5u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 7) as i64 ^ (state << 33) as i64
        };
        for len in (0..=70).chain([2051]) {
            let mut values: Vec<i128> = (0..len).map(|_| i128::from(next())).collect();
            check_widened(&values);
            check_widened(&values.iter().map(|&value| value as u64).collect::<Vec<_>>());
            check_widened(&values.iter().map(|&value| value as i32).collect::<Vec<_>>());
            check_widened(&values.iter().map(|&value| value as u8).collect::<Vec<_>>());
            for value in [0, 1 << 63, -1 << 63, (-1 << 63) - 1, i128::MAX, i128::MIN] {
                check_widened(&vec![value; len as usize]);
                // One among many, wherever it is in its vector.
                if let Some(last) = values.last_mut() {
                    *last = value;
                }
                check_widened(&values);
            }
        }
    }

    #[test]
    fn what_has_no_room_in_64_bits_is_told() {
        let widened = |values: &[i128]| {
            let mut stored = vec![0; values.len()];
            let bits = Level::available()
                .into_iter()
                .map(|level| dispatch_at(level, Widened { values, stored: &mut stored }))
                .collect::<Vec<_>>();
            assert!(bits.iter().all(|&other| other == bits[0]));
            (bits[0], stored)
        };
        let many = |value: i128| [[1, -2, 3].repeat(7), vec![value]].concat();
        assert_eq!(widened(&many(-1000)), (999, many(-1000).iter().map(|&value| value as i64).collect()));
        for (value, fits) in
            [(i64::MAX as i128, true), (i64::MIN as i128, true), (1 << 63, false), (-(1 << 63) - 1, false)]
        {
            let (bits, _) = widened(&many(value));
            assert_eq!(bits >> 63 == 0, fits, "{value}");
            assert!(bits >> 62 != 0);
        }
        let mut stored = [0; 2];
        assert_eq!(dispatch_at(Level::BASELINE, Widened { values: &[1, u64::MAX], stored: &mut stored }) >> 63, 1);
        assert_eq!(dispatch_at(Level::BASELINE, Widened { values: &[1, 6_u64], stored: &mut stored }), 7);
        assert_eq!(stored, [1, 6]);
    }
}
