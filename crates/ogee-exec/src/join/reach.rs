//! What a join tells the scan of its probe side: which keys can have a mate at all.
//!
//! The least and greatest key of the build side are known before the probe side is opened, so that its scan can leave out what lies
//! beyond them, row groups of Parquet files as a whole.

use std::sync::Arc;

use ogee_vector::{PhysicalType, integer_range};

use super::{side::Keys, spec::JoinPlan};
use crate::{Expr, OpenPipeline, Restriction};

/// The ranges of the keys of one lane's rows, as far as they are integers.
#[derive(Clone, Default)]
pub(crate) struct KeyRanges {
    ranges: Vec<Option<(i64, i64)>>,
}

impl KeyRanges {
    /// Takes the keys of a chunk, none of which is NULL.
    pub(crate) fn add(&mut self, keys: &Keys) {
        self.ranges.resize(keys.columns.len(), None);
        for (range, column) in self.ranges.iter_mut().zip(&keys.columns) {
            *range = union(*range, integer_range(column.as_ref()));
        }
    }

    /// Takes the ranges of another lane.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.ranges.resize(self.ranges.len().max(other.ranges.len()), None);
        for (range, other) in self.ranges.iter_mut().zip(&other.ranges) {
            *range = union(*range, *other);
        }
    }
}

fn union(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// Restrictions of the scan at the source of `probe`, by key; none where a key is no column of it, or rows without a mate matter.
pub(crate) fn restrict(plan: &JoinPlan, probe: &OpenPipeline) -> Vec<Option<Arc<Restriction>>> {
    let spec = &plan.spec;
    let droppable = !spec.kind.keeps_probe() && !spec.null_aware && !spec.nulls_equal;
    let of_key = |key: &super::JoinKey| {
        let Expr::Column(column) = key.probe else { return None };
        if !droppable || !PhysicalType::of(&key.data_type).ok()?.is_integer() {
            return None;
        }
        let column = probe.operators.iter().rev().try_fold(column, |column, operator| operator.origin(column))?;
        let restriction = Arc::new(Restriction::default());
        probe.source.restrict(column, Arc::clone(&restriction)).then_some(restriction)
    };
    spec.keys.iter().map(of_key).collect()
}

/// Tells the scans, now that all keys are known.
pub(crate) fn tell(restrictions: &[Option<Arc<Restriction>>], ranges: &KeyRanges, rows: usize) {
    for (key, restriction) in restrictions.iter().enumerate() {
        let Some(restriction) = restriction else { continue };
        match ranges.ranges.get(key).copied().flatten() {
            Some((least, greatest)) => restriction.set(least, greatest),
            // Without rows nothing has a mate.
            None if rows == 0 => restriction.set(i64::MAX, i64::MIN),
            None => {}
        }
    }
}
