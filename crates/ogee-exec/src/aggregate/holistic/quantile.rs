//! Quantiles: values of a given rank, and what lies between two.

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::DataType;

use super::{Gathered, HolisticStates, Ordinal, for_each_value, is_ranked_long, is_ranked_short};
use crate::ExecError;

/// Values that a group keeps before it counts them instead.
const FEW: usize = 1 << 15;
/// Values of one bucket that are gathered instead of being counted further.
const GATHERED_MAX: u64 = 1 << 18;
const DIGIT_BITS: u32 = 16;

/// What lies at a fraction of the values in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QuantileKind {
    /// Between the two nearest values, in proportion: `percentile_cont`.
    Continuous(f64),
    /// The value at the fraction itself: `quantile_disc`.
    Discrete(DiscreteFraction),
    /// The value in the middle, or the mean of two; of decimals with their scale.
    Median,
}

impl QuantileKind {
    /// Ranks, from 0, of the values that decide among `count` of them, and the weight of the second.
    fn ranks(self, count: u64) -> (u64, u64, f64) {
        let last = count.saturating_sub(1);
        match self {
            Self::Continuous(fraction) => {
                let place = fraction * last as f64;
                let low = (place.floor() as u64).min(last);
                (low, (place.ceil() as u64).min(last), place - place.floor())
            }
            Self::Discrete(fraction) => {
                let rank = fraction.rank(count);
                (rank, rank, 0.0)
            }
            Self::Median => (last / 2, count / 2, 0.5),
        }
    }
}

/// A share of values in order, which the first value that it does not exceed stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiscreteFraction {
    /// From 0 to 1.
    pub share: f64,
    /// The greatest value is the first.
    pub descending: bool,
}

impl DiscreteFraction {
    /// The rank of its value among `count` values: how many are less, of those that are equal in any order.
    pub fn rank(self, count: u64) -> u64 {
        // As DuckDB: subtracted twice, so that what multiplication adds to a whole number is rounded away.
        let all = count as f64;
        let rank = ((all - (all - all * self.share).floor()) as u64).clamp(1, count.max(1)) - 1;
        if self.descending { count.max(1) - 1 - rank } else { rank }
    }
}

/// The function.
#[derive(Clone, Debug)]
pub struct Quantile {
    kind: QuantileKind,
    data_type: DataType,
}

impl Quantile {
    /// The quantile of values of normalized type `data_type`; `None` if this does not rank them.
    pub fn new(kind: QuantileKind, data_type: DataType) -> Option<Self> {
        let ranked = is_ranked_short(&data_type) || is_ranked_long(&data_type);
        let between = data_type.is_floating() || matches!(kind, QuantileKind::Discrete(_));
        let median = matches!(kind, QuantileKind::Median) && data_type.is_decimal();
        (ranked && (between || median)).then_some(Self { kind, data_type })
    }

    /// States for no groups yet.
    pub fn states(&self) -> Box<dyn HolisticStates> {
        match is_ranked_long(&self.data_type) {
            true => Box::new(States::<u128>::new(self.clone())),
            false => Box::new(States::<u64>::new(self.clone())),
        }
    }

    fn between<K: Ordinal>(&self, low: K, high: K, weight: f64) -> K {
        if low == high || weight == 0.0 {
            return low;
        }
        if !self.data_type.is_floating() {
            return low.midpoint(high);
        }
        let (low, high) = (low.to_f64(&self.data_type), high.to_f64(&self.data_type));
        let value = match self.kind {
            // Halved first only where the sum is too large.
            QuantileKind::Median if (low + high).is_finite() || !(low.is_finite() && high.is_finite()) => {
                (low + high) / 2.0
            }
            QuantileKind::Median => low / 2.0 + high / 2.0,
            _ => low + (high - low) * weight,
        };
        K::from_f64(value, &self.data_type)
    }
}

struct States<K> {
    function: Quantile,
    total: usize,
    gathered: Gathered<K>,
    /// One for each group, when values come in passes.
    selections: Option<Vec<Selection<K>>>,
    /// The first pass is over: groups are known, and their sizes.
    counted: bool,
}

impl<K: Ordinal> States<K> {
    fn new(function: Quantile) -> Self {
        Self { function, total: 0, gathered: Gathered::default(), selections: None, counted: false }
    }
}

impl<K: Ordinal> HolisticStates for States<K> {
    fn expect(&mut self, rows: usize) {
        self.gathered.expect(rows);
    }

    fn add(
        &mut self,
        values: &ArrayRef,
        filter: Option<&BooleanArray>,
        groups: &[usize],
        total_groups: usize,
    ) -> Result<(), ExecError> {
        self.total = total_groups;
        let Some(selections) = &mut self.selections else {
            self.gathered.add(values, filter, groups);
            return Ok(());
        };
        selections.resize_with(total_groups.max(selections.len()), Selection::default);
        let counted = self.counted;
        for_each_value(values, filter, groups, |group, value| {
            let selection = &mut selections[group];
            selection.count += u64::from(!counted);
            selection.step.add(value);
        });
        Ok(())
    }

    fn size(&self) -> usize {
        // Twice: values are sorted into a second list.
        let selections = self.selections.iter().flatten();
        2 * self.gathered.size()
            + selections.map(|selection| size_of::<Selection<K>>() + selection.step.size()).sum::<usize>()
    }

    fn begin_passes(&mut self) -> bool {
        self.selections = Some(Vec::new());
        true
    }

    fn end_pass(&mut self) -> bool {
        self.counted = true;
        let mut again = false;
        for selection in self.selections.iter_mut().flatten() {
            let (low, high, _) = self.function.kind.ranks(selection.count);
            selection.narrow(low, high);
            again |= !matches!(selection.step, Step::Found(..) | Step::Few(_));
        }
        again
    }

    fn evaluate(&mut self) -> Result<ArrayRef, ExecError> {
        let mut results = Vec::with_capacity(self.total);
        if let Some(selections) = self.selections.take() {
            for selection in selections {
                let (_, _, weight) = self.function.kind.ranks(selection.count);
                results.push(match selection.step {
                    Step::Found(low, high) => Some(self.function.between(low, high, weight)),
                    _ => None,
                });
            }
        } else {
            let (mut values, ends) = self.gathered.by_group(self.total);
            let mut start = 0;
            for end in ends {
                let values = &mut values[start..end];
                start = end;
                let (low, high, weight) = self.function.kind.ranks(values.len() as u64);
                let found = (!values.is_empty()).then(|| select(values, low, high));
                results.push(found.map(|(low, high)| self.function.between(low, high, weight)));
            }
        }
        results.resize(self.total, None);
        K::values(&results, &self.function.data_type)
    }
}

/// The values of ranks `low` and `high`, which are the same or neighbours.
fn select<K: Ord + Copy>(values: &mut [K], low: u64, high: u64) -> (K, K) {
    let (_, &mut first, above) = values.select_nth_unstable(low as usize);
    match high > low {
        true => (first, above.iter().copied().min().unwrap_or(first)),
        false => (first, first),
    }
}

/// The search for two values of a group.
struct Selection<K> {
    /// Values of the group; known after the first pass.
    count: u64,
    /// Values less than those that the step looks at.
    below: u64,
    step: Step<K>,
}

impl<K> Default for Selection<K> {
    fn default() -> Self {
        Self { count: 0, below: 0, step: Step::Few(Vec::new()) }
    }
}

/// What is done with the values of a pass.
enum Step<K> {
    /// All of them are kept: there were few so far.
    Few(Vec<K>),
    /// Those that begin with `prefix` are counted by the 16 bits that follow, above the lowest `shift`.
    Count {
        prefix: K,
        shift: u32,
        counts: Vec<u64>,
    },
    /// Those that begin with `prefix`, up to the lowest `shift` bits, are kept.
    Gather {
        prefix: K,
        shift: u32,
        values: Vec<K>,
    },
    /// The largest that begins with one prefix and the smallest that begins with another.
    Neighbours {
        low: K,
        high: K,
        shift: u32,
        largest: K,
        smallest: Option<K>,
    },
    Found(K, K),
}

impl<K: Ordinal> Step<K> {
    fn count(prefix: K, shift: u32) -> Self {
        Self::Count { prefix, shift, counts: vec![0; 1 << DIGIT_BITS] }
    }

    fn add(&mut self, value: K) {
        match self {
            Self::Few(values) => {
                values.push(value);
                if values.len() > FEW {
                    let mut step = Self::count(K::default(), K::BITS - DIGIT_BITS);
                    values.iter().for_each(|&value| step.add(value));
                    *self = step;
                }
            }
            Self::Count { prefix, shift, counts } => {
                if value.above(*shift + DIGIT_BITS) == *prefix {
                    counts[value.digit(*shift)] += 1;
                }
            }
            Self::Gather { prefix, shift, values } => {
                if value.above(*shift) == *prefix {
                    values.push(value);
                }
            }
            Self::Neighbours { low, high, shift, largest, smallest } => {
                let above = value.above(*shift);
                if above == *low {
                    *largest = (*largest).max(value);
                } else if above == *high {
                    *smallest = Some(smallest.map_or(value, |known| known.min(value)));
                }
            }
            Self::Found(..) => {}
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Few(values) | Self::Gather { values, .. } => values.capacity() * size_of::<K>(),
            Self::Count { counts, .. } => counts.len() * 8,
            Self::Neighbours { .. } | Self::Found(..) => 0,
        }
    }
}

/// The bucket that has the value of `rank`, and how many values are in those before it.
fn bucket_of(counts: &[u64], rank: u64) -> (usize, u64) {
    let mut before = 0;
    let bucket = counts.iter().position(|&count| {
        before += count;
        before > rank
    });
    let bucket = bucket.expect("ranks are below the number of values");
    (bucket, before - counts[bucket])
}

impl<K: Ordinal> Selection<K> {
    /// Makes of a pass the next step towards the values of ranks `low` and `high`.
    fn narrow(&mut self, low: u64, high: u64) {
        if self.count == 0 {
            return;
        }
        let (low, high) = (low - self.below, high - self.below);
        match &mut self.step {
            Step::Few(values) | Step::Gather { values, .. } => {
                let (low, high) = select(values, low, high);
                self.step = Step::Found(low, high);
            }
            Step::Count { prefix, shift, counts } => {
                let (prefix, shift) = (*prefix, *shift);
                let (first, before) = bucket_of(counts, low);
                let count = counts[first];
                let low_prefix = prefix.with_digit(first);
                if high >= before + count {
                    let high_prefix = prefix.with_digit(bucket_of(counts, high).0);
                    self.step = match shift {
                        0 => Step::Found(low_prefix, high_prefix),
                        _ => Step::Neighbours {
                            low: low_prefix,
                            high: high_prefix,
                            shift,
                            largest: K::default(),
                            smallest: None,
                        },
                    };
                    return;
                }
                self.below += before;
                self.step = match shift {
                    0 => Step::Found(low_prefix, low_prefix),
                    _ if count <= GATHERED_MAX => {
                        Step::Gather { prefix: low_prefix, shift, values: Vec::with_capacity(count as usize) }
                    }
                    _ => Step::count(low_prefix, shift - DIGIT_BITS),
                };
            }
            Step::Neighbours { largest, smallest, .. } => {
                self.step = Step::Found(*largest, smallest.unwrap_or(*largest));
            }
            Step::Found(..) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int32Array};

    use super::*;

    fn in_memory(function: &Quantile, values: &ArrayRef, groups: &[usize], total: usize) -> ArrayRef {
        let mut states = function.states();
        states.add(values, None, groups, total).unwrap();
        states.evaluate().unwrap()
    }

    fn rising(share: f64) -> DiscreteFraction {
        DiscreteFraction { share, descending: false }
    }

    fn in_passes(function: &Quantile, values: &ArrayRef, groups: &[usize], total: usize) -> (ArrayRef, usize) {
        let mut states = function.states();
        states.begin_passes();
        let mut passes = 0;
        loop {
            for start in (0..values.len()).step_by(1000) {
                let rows = 1000.min(values.len() - start);
                states.add(&values.slice(start, rows), None, &groups[start..start + rows], total).unwrap();
            }
            passes += 1;
            if !states.end_pass() {
                return (states.evaluate().unwrap(), passes);
            }
        }
    }

    #[test]
    fn passes_find_what_memory_finds() {
        let scrambled = |row: u64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as f64;
        let spread: Vec<f64> = (0..1_200_000).map(scrambled).collect();
        let alike: Vec<f64> = (0..200_000_u64).map(|row| if row % 3 == 0 { 1.5 } else { 1.5 + 1e-12 }).collect();
        let two: Vec<f64> = (0..100_000_u64).map(|row| if row % 2 == 0 { -1e300 } else { 3.0 }).collect();
        for values in [spread, alike, two] {
            let groups: Vec<usize> = (0..values.len()).map(|row| usize::from(row % 1000 == 7)).collect();
            let values: ArrayRef = Arc::new(Float64Array::from(values));
            for kind in [
                QuantileKind::Median,
                QuantileKind::Continuous(0.0),
                QuantileKind::Continuous(0.123_456),
                QuantileKind::Continuous(1.0),
                QuantileKind::Discrete(rising(0.999)),
                QuantileKind::Discrete(rising(0.0)),
                QuantileKind::Discrete(DiscreteFraction { share: 0.25, descending: true }),
            ] {
                let function = Quantile::new(kind, DataType::Float64).unwrap();
                let (found, passes) = in_passes(&function, &values, &groups, 3);
                assert_eq!(&found, &in_memory(&function, &values, &groups, 3), "{kind:?}");
                assert!(found.is_null(2), "a group without values");
                assert!(passes > 1, "{kind:?}");
            }
        }
    }

    #[test]
    fn between_two_values() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![4.0, 1.0, 2.0, 10.0]));
        let of = |kind| {
            let function = Quantile::new(kind, DataType::Float64).unwrap();
            let found = in_memory(&function, &values, &[0; 4], 1);
            Float64Array::from(found.to_data()).value(0)
        };
        assert_eq!(of(QuantileKind::Median), 3.0);
        assert_eq!(of(QuantileKind::Continuous(0.25)), 1.75);
        assert_eq!(of(QuantileKind::Discrete(rising(0.5))), 2.0);
        assert_eq!(of(QuantileKind::Discrete(rising(0.51))), 4.0);
        assert_eq!(of(QuantileKind::Discrete(DiscreteFraction { share: 0.25, descending: true })), 10.0);
        assert_eq!(of(QuantileKind::Discrete(DiscreteFraction { share: 0.5, descending: true })), 4.0);
        assert!(Quantile::new(QuantileKind::Median, DataType::Int32).is_none(), "there is no integer between");
        let function = Quantile::new(QuantileKind::Discrete(rising(0.5)), DataType::Int32).unwrap();
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(-7), None, Some(3)]));
        let found = Int32Array::from(in_memory(&function, &values, &[0; 3], 1).to_data());
        assert_eq!(found.value(0), -7);
    }
}
