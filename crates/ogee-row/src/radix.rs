//! Which bits of a hash choose the partition.

/// A run of hash bits below the salt: partition `p` holds the rows whose bits are `p`.
///
/// The salt is the top 16 bits and slots come from the low bits, so partitions take bits from 48 downwards; a partition that is
/// split takes the bits below its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadixBits {
    shift: u32,
    bits: u32,
}

impl RadixBits {
    /// Highest bit used for partitions, exclusive: the salt is above.
    const TOP: u32 = 48;
    /// Lowest bit used for partitions: below are slots of tables of up to 2^16 entries at least.
    const BOTTOM: u32 = 16;

    /// The first `bits` bits.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn new(bits: u32) -> Self {
        assert!(bits <= Self::TOP - Self::BOTTOM, "partition bits stay below the salt and above the slots");
        Self { shift: Self::TOP - bits, bits }
    }

    /// The next `bits` bits below these, or as many as are left; `None` if there are none.
    pub fn below(self, bits: u32) -> Option<Self> {
        let bits = bits.min(self.shift - Self::BOTTOM);
        (bits > 0).then(|| Self { shift: self.shift - bits, bits })
    }

    /// Number of bits.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Number of partitions.
    pub fn fan_out(self) -> usize {
        1 << self.bits
    }

    /// Partition of a row with this hash.
    #[inline(always)]
    pub fn partition(self, hash: u64) -> usize {
        (hash >> self.shift) as usize & (self.fan_out() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_take_fresh_bits_until_none_are_left() {
        let mut radix = RadixBits::new(10);
        let mut seen = 10;
        let hash = 0x0123_4567_89ab_cdef;
        let mut joined = radix.partition(hash) as u64;
        while let Some(next) = radix.below(6) {
            joined = joined << next.bits() | next.partition(hash) as u64;
            seen += next.bits();
            radix = next;
        }
        assert_eq!(seen, 32);
        assert_eq!(joined, (hash >> 16) & 0xffff_ffff, "together the bits below the salt, each once");
        assert_eq!(RadixBits::new(0).partition(hash), 0);
    }
}
