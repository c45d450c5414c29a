//! How many distinct values a column has, from a sample that came in runs of neighbouring rows.
//!
//! Rows of a run are no independent draws: a key that rises with the row repeats within a run and never in another. So what is drawn is
//! taken to be the distinct values of each run, and the estimator of Haas and Stokes ("Estimating the number of classes in a finite
//! population", JASA 1998, the first-order jackknife `Duj1`, also PostgreSQL's) is applied to those pairs of run and value: with `n` pairs
//! out of an extrapolated `N`, `d` values and `f` of them in one run only, `n·d / (n − f + f·n/N)`. A column without order within its file
//! has the same pairs as rows, and one that is ordered extrapolates linearly.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

/// The hash of what is a hash already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only numbers of 64 bits are hashed");
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The estimate for `rows` rows of which `values` were seen, the number of the run (ascending) and a hash of the value of each.
pub(super) fn estimate(values: impl Iterator<Item = (u32, u64)>, rows: f64) -> f64 {
    // The last run that a value was seen in, and whether in an earlier one too.
    let mut seen: HashMap<u64, (u32, bool), BuildHasherDefault<AsIs>> = HashMap::default();
    let (mut sampled, mut pairs) = (0_usize, 0_usize);
    let mut runs: HashSet<u32> = HashSet::new();
    let mut last = None;
    for (run, value) in values {
        sampled += 1;
        if last.replace(run) != Some(run) {
            runs.insert(run);
        }
        let entry = seen.entry(value).or_insert_with(|| {
            pairs += 1;
            (run, false)
        });
        if entry.0 != run {
            pairs += 1;
            *entry = (run, true);
        }
    }
    if sampled == 0 {
        return 0.0;
    }
    if sampled as f64 >= rows {
        return seen.len() as f64;
    }
    let pairs = pairs as f64;
    let single = seen.values().filter(|(_, repeats)| !repeats).count() as f64;
    let distinct = seen.len() as f64;
    // Each run begins with a value however long that goes on, so that only the others tell how often a value begins.
    let begun = pairs - runs.len() as f64 + 1.0;
    let pairs_all = (rows * begun / sampled as f64).max(pairs);
    let estimate = pairs * distinct / (pairs - single + single * pairs / pairs_all);
    estimate.clamp(distinct, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four runs of 1,024 rows of a table of `rows` rows whose row `i` has the value `value(i)`.
    fn sampled(rows: u64, value: impl Fn(u64) -> u64) -> f64 {
        let runs = (0..4_u64).flat_map(|run| {
            let start = (2 * run + 1) * rows / 8 - 512;
            (start..start + 1024).map(move |row| (run as u32, row))
        });
        estimate(runs.map(|(run, row)| (run, value(row))), rows as f64)
    }

    fn scatter(row: u64) -> u64 {
        let z = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20
    }

    fn within(estimate: f64, low: f64, high: f64) {
        assert!((low..=high).contains(&estimate), "{estimate} is not between {low} and {high}");
    }

    #[test]
    fn unique_ordered_and_scattered_columns_are_told_apart() {
        let rows = 6_000_000;
        within(sampled(rows, |row| row), 5.9e6, 6e6);
        // Four rows of a kind, next to each other.
        within(sampled(rows, |row| row / 4), 1.3e6, 1.7e6);
        // Longer than runs: at most one begins in all of them.
        within(sampled(rows, |row| row / 100_000), 8.0, 2000.0);
        within(sampled(rows, |row| scatter(row) % 7), 7.0, 7.0);
        within(sampled(rows, |row| scatter(row) % 1000), 950.0, 1100.0);
        within(sampled(rows, |row| scatter(row) % 100_000), 60_000.0, 160_000.0);
    }

    #[test]
    fn a_whole_table_is_counted() {
        assert_eq!(estimate((0..1000).map(|row| (0, row % 300)), 1000.0), 300.0);
        assert_eq!(estimate(std::iter::empty(), 1000.0), 0.0);
    }
}
