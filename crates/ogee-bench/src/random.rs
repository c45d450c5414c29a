//! A reproducible source of numbers: SplitMix64, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.

/// A sequence that its seed decides.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly distributed below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Evenly distributed in [0, 1).
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Draws from 1 to `count` with probability proportional to rank to the power of minus `exponent`, by rejection-inversion: Hoermann and
/// Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996.
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// Integral of the density's bound at its ends.
    first: f64,
    last: f64,
    /// Draws this close above an integer need no test.
    sure: f64,
}

/// Integral of x^-exponent, up to a constant.
fn integral(exponent: f64, x: f64) -> f64 {
    x.powf(1.0 - exponent) / (1.0 - exponent)
}

fn inverse(exponent: f64, y: f64) -> f64 {
    ((1.0 - exponent) * y).powf(1.0 / (1.0 - exponent))
}

impl Zipf {
    /// `exponent` is not 1.
    pub fn new(count: u64, exponent: f64) -> Self {
        let count = count as f64;
        let sure = 2.0 - inverse(exponent, integral(exponent, 2.5) - 2.0_f64.powf(-exponent));
        Self { count, exponent, first: integral(exponent, 1.5) - 1.0, last: integral(exponent, count + 0.5), sure }
    }

    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let y = self.last + random.fraction() * (self.first - self.last);
            let x = inverse(self.exponent, y);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.sure || y >= integral(self.exponent, rank + 0.5) - rank.powf(-self.exponent) {
                return rank as u64;
            }
        }
    }
}
