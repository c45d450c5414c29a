//! Which bits of a hash choose the partition.

/// A run of bits of the hash that rows hold: partition `p` has the rows whose bits are `p`.
///
/// The first partitioning takes the top bits; a partition that is split takes the bits below its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadixBits {
    shift: u32,
    bits: u32,
}

impl RadixBits {
    /// Bits of a row's hash.
    const ALL: u32 = 32;

    /// What a row keeps of a 64-bit hash: its bits 16 to 47, so that partitions are chosen by other bits than the slots of a thread-local
    /// table (the low ones), and the salt (the top 16) matters to neither. 32 bits choose among 2^20 partitions of 2^12 groups
    /// each before they run out, and rows are 4 bytes narrower.
    #[inline(always)]
    pub fn stored_hash(hash: u64) -> u32 {
        (hash >> 16) as u32
    }

    /// The first `bits` bits.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn new(bits: u32) -> Self {
        assert!(bits < Self::ALL, "a row's hash has more bits than partitions are chosen by");
        Self { shift: Self::ALL - bits, bits }
    }

    /// The next `bits` bits below these, or as many as are left; `None` if there are none.
    pub fn below(self, bits: u32) -> Option<Self> {
        let bits = bits.min(self.shift);
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

    /// Partition of a row with this stored hash.
    #[inline(always)]
    pub fn partition(self, hash: u32) -> usize {
        (u64::from(hash) >> self.shift) as usize & (self.fan_out() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_take_fresh_bits_until_none_are_left() {
        let mut radix = RadixBits::new(10);
        let mut seen = 10;
        let hash = RadixBits::stored_hash(0x0123_4567_89ab_cdef);
        let mut joined = radix.partition(hash) as u64;
        while let Some(next) = radix.below(6) {
            joined = joined << next.bits() | next.partition(hash) as u64;
            seen += next.bits();
            radix = next;
        }
        assert_eq!(seen, 32);
        assert_eq!(joined, 0x4567_89ab, "together the bits between slots and salt, each once");
        assert_eq!(RadixBits::new(0).partition(hash), 0);
    }
}
