//! How often rows meet the keys of a few rows that a filter picked out, by looking those keys up in a sample.
//!
//! That each value of a key is met as often as the others is far off where values are popular to different degrees, and who asks for one
//! keyword or one company by its name seldom asks for one that nobody uses. Where the filtered table is sampled whole, its keys are known, and the
//! sample of the other side tells how many of its rows have them: the popular ones are in it.
//!
//! Not here: what is estimated without looking at keys (`profile::Match`).

use datafusion::{
    arrow::{
        array::{Array, ArrayRef},
        datatypes::DataType,
    },
    common::{
        HashMap, HashSet,
        hash_utils::{RandomState, create_hashes},
    },
};

use super::{profile::Column, selectivity::smoothed};

/// Rows with so many keys have popular and unpopular ones among them.
const KEYS_MAX: usize = 16;

/// What is met by one row in so many or more often cannot be met much more often than that.
const RARE: f64 = 1.0 / 16.0;

/// Rows of the other side below which it does not matter.
const ROWS_MIN: f64 = 4096.0;

/// Pairs of rows that are equal, of all pairs, by looking up the keys of one side in the sample of the other, where the former are few and the
/// latter are many. `prior` is what else is known of it, which counts as much as one row of the sample that has one of the keys.
pub(super) fn selectivity(left: &Column, right: &Column, prior: f64) -> Option<f64> {
    of_keys(left, right, prior).or_else(|| of_keys(right, left, prior))
}

fn of_keys(keys: &Column, others: &Column, prior: f64) -> Option<f64> {
    // Partners of each of the others.
    let expected = prior * keys.leaf.rows;
    let matters = expected > 0.0 && expected <= RARE && others.leaf.rows >= ROWS_MIN && !others.is_unique();
    if !matters {
        return None;
    }
    let keys_of_all = keys.leaf.values_of_all(keys.index, KEYS_MAX)?;
    let draws = others.leaf.draws(others.index)?;
    if *keys_of_all.data_type() != draws.data_type {
        return None;
    }
    let mut partners: HashMap<u64, f64> = HashMap::default();
    for hash in hashes(&keys_of_all)?.into_iter().flatten() {
        *partners.entry(hash).or_default() += 1.0;
    }
    let met: f64 = draws.hashes.iter().filter_map(|hash| partners.get(hash)).sum();
    let rate = smoothed(met * draws.weight, draws.rows as f64 * draws.weight, expected);
    Some(rate / keys.leaf.rows)
}

/// Sampled values of a column, to look keys up in.
#[derive(Debug)]
pub(super) struct Draws {
    data_type: DataType,
    /// Of those that are not NULL.
    hashes: Vec<u64>,
    rows: usize,
    /// What a row counts: neighbours with the same value are one draw.
    weight: f64,
}

impl Draws {
    /// The draws that `values` are, each of the run with its number in `runs`.
    pub(super) fn new(values: &ArrayRef, runs: &[u32]) -> Option<Self> {
        let of_rows = hashes(values)?;
        let pairs: HashSet<(u32, u64)> =
            runs.iter().zip(&of_rows).filter_map(|(&run, hash)| Some((run, (*hash)?))).collect();
        let hashes: Vec<u64> = of_rows.iter().copied().flatten().collect();
        let weight = pairs.len() as f64 / f64::max(hashes.len() as f64, 1.0);
        Some(Self { data_type: values.data_type().clone(), hashes, rows: of_rows.len(), weight })
    }
}

/// A hash of each value, none of a NULL.
fn hashes(values: &ArrayRef) -> Option<Vec<Option<u64>>> {
    let mut hashes = vec![0; values.len()];
    create_hashes(std::slice::from_ref(values), &RandomState::with_seed(0), &mut hashes).ok()?;
    Some(hashes.into_iter().enumerate().map(|(row, hash)| values.is_valid(row).then_some(hash)).collect())
}
