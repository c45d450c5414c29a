//! Aggregates that need all values of a group: quantiles, the mode, histograms, lists and joined strings.
//!
//! Values that fit into memory are sorted into their groups by counting and then ranked. Where a group is larger than memory its values are
//! seen in several passes over spilled pages, each of which narrows the question down; states then stay small whatever the number of values.

mod list;
mod mode;
mod ordinal;
mod quantile;
mod sorted;

use arrow_array::{Array, ArrayRef, BooleanArray};

use self::ordinal::{Ordinal, is_ranked_long, is_ranked_short};
pub use self::{
    list::Gather,
    mode::Mode,
    quantile::{DiscreteFraction, Quantile, QuantileKind},
    sorted::OfSorted,
};
use crate::ExecError;

/// States of one function for the groups of a partition.
pub trait HolisticStates: Send {
    /// Before the first value: how many rows there will be. A list that grows is copied, and touches twice the memory that it takes.
    fn expect(&mut self, rows: usize) {
        let _ = rows;
    }

    /// Adds the value of each row to the row's group, below `total_groups`. Rows that `filter` does not let pass do not count, nor do NULLs
    /// but in lists.
    ///
    /// # Errors
    /// [`ExecError::Arrow`].
    fn add(
        &mut self,
        values: &ArrayRef,
        filter: Option<&BooleanArray>,
        groups: &[usize],
        total_groups: usize,
    ) -> Result<(), ExecError>;

    /// Bytes that the states take.
    fn size(&self) -> usize;

    /// Before the first value: all values may come several times, and are too many to be kept. False: they have to be.
    fn begin_passes(&mut self) -> bool {
        false
    }

    /// Ends a pass. Whether another is needed.
    fn end_pass(&mut self) -> bool {
        false
    }

    /// One result for each group; the states are then empty.
    ///
    /// # Errors
    /// [`ExecError::Arrow`].
    fn evaluate(&mut self) -> Result<ArrayRef, ExecError>;
}

/// Values of groups as they come, with their groups.
#[derive(Default)]
struct Gathered<K> {
    values: Vec<K>,
    groups: Vec<u32>,
}

impl<K: Ordinal> Gathered<K> {
    fn expect(&mut self, rows: usize) {
        self.values.reserve_exact(rows);
        self.groups.reserve_exact(rows);
    }

    fn add(&mut self, values: &dyn Array, filter: Option<&BooleanArray>, groups: &[usize]) {
        let Self { values: all, groups: numbers } = self;
        for_each_value(values, filter, groups, |group, value| {
            all.push(value);
            numbers.push(group as u32);
        });
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<K>() + self.groups.capacity() * 4
    }

    /// The values of each of `total` groups, next to each other, and where each group's end.
    fn by_group(&mut self, total: usize) -> (Vec<K>, Vec<usize>) {
        let (values, groups) = (std::mem::take(&mut self.values), std::mem::take(&mut self.groups));
        if total == 1 {
            let end = values.len();
            return (values, vec![end]);
        }
        let mut sorted = vec![K::default(); values.len()];
        let ends = place_by_group(&groups, total, |row, place| sorted[place] = values[row]);
        (sorted, ends)
    }
}

/// Sorts rows by their `groups`, below `total`, by counting: calls `put` with each row and its place, and returns where each group ends. Rows of a
/// group stay in their order.
fn place_by_group(groups: &[u32], total: usize, mut put: impl FnMut(usize, usize)) -> Vec<usize> {
    let mut ends = vec![0_usize; total];
    for &group in groups {
        ends[group as usize] += 1;
    }
    let mut start = 0;
    for end in &mut ends {
        start += std::mem::replace(end, start);
    }
    // `ends` holds where the next row of each group goes, and so its end when all are there.
    for (row, &group) in groups.iter().enumerate() {
        let place = &mut ends[group as usize];
        put(row, *place);
        *place += 1;
    }
    ends
}

/// Calls `each` with the group and the value of each row that counts.
fn for_each_value<K: Ordinal>(
    values: &dyn Array,
    filter: Option<&BooleanArray>,
    groups: &[usize],
    mut each: impl FnMut(usize, K),
) {
    let ordinals = K::of(values);
    let nulls = values.nulls();
    if nulls.is_none() && filter.is_none() {
        for (&value, &group) in ordinals.iter().zip(groups) {
            each(group, value);
        }
        return;
    }
    for (row, (&value, &group)) in ordinals.iter().zip(groups).enumerate() {
        let passes = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        if passes && nulls.is_none_or(|nulls| nulls.is_valid(row)) {
            each(group, value);
        }
    }
}
