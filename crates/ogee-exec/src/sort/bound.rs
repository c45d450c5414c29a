//! Where ranges of an order are cut: between any two rows, be their prefixes equal, or their whole keys.
//!
//! The order of rows is that in which a merge gives them: by their keys, of equal keys by their runs, and within a run as they are there. A cut between
//! rows that only later bytes of their keys tell apart, or nothing but where they are, is named by the row behind it.

use std::cmp::Ordering;

use super::{plan::SortPlan, run::Run};

/// A cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Before all rows with this prefix, and greater ones.
    Prefix(u128),
    /// Before row `row` of run `run`, which is known without reading a page.
    Row { prefix: u128, run: usize, row: usize },
}

/// A row that a range may begin with.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) prefix: u128,
    pub(crate) run: usize,
    pub(crate) row: usize,
    /// Rows of its run until the next sample.
    pub(crate) stands_for: usize,
    /// Where it, or a copy, is; `None`: only its prefix is known.
    pub(crate) address: Option<*const u8>,
}

impl Bound {
    /// Whether the bound comes after the row at `address`, which has `prefix`, of run `run` of `runs`: another run than that of the bound, whose rows have
    /// numbers. `None`: this cannot be told without the row.
    ///
    /// # Safety
    /// `address` is a row of the plan's on a pinned page with its strings, or a copy to compare with.
    #[inline]
    pub(crate) unsafe fn is_after(
        self,
        plan: &SortPlan,
        runs: &[Run],
        run: usize,
        prefix: u128,
        address: Option<*const u8>,
    ) -> Option<bool> {
        let (bound, of, row) = match self {
            Self::Prefix(bound) => return Some(prefix < bound),
            Self::Row { prefix, run, row } => (prefix, run, row),
        };
        if prefix != bound {
            return Some(prefix < bound);
        }
        if plan.keys.fits_entry() {
            return Some(run < of);
        }
        let bound = runs[of].known_row(row).expect("only rows that are known make bounds");
        // SAFETY: the caller vouches for the row; the bound's is pinned as long as its run, or a copy.
        let order = unsafe { plan.keys.compare(address?, bound) };
        Some(order.then(run.cmp(&of)).is_lt())
    }
}

/// Cuts rows, of which these are `samples` in any order, into about `ranges` ranges of about equal length; ascending.
pub(crate) fn cut(plan: &SortPlan, mut samples: Vec<Sample>, ranges: usize) -> Vec<Bound> {
    let place = |sample: &Sample| (sample.run, sample.row);
    let whole_prefix = plan.keys.fits_entry();
    samples.sort_unstable_by(|a, b| {
        let by_key = a.prefix.cmp(&b.prefix).then_with(|| match (a.address, b.address) {
            _ if whole_prefix => Ordering::Equal,
            // SAFETY: rows that are pinned, or copies to compare with.
            (Some(x), Some(y)) => unsafe { plan.keys.compare(x, y) },
            // Those of which nothing else is known come first: no range begins with them.
            (x, y) => x.is_some().cmp(&y.is_some()),
        });
        by_key.then(place(a).cmp(&place(b)))
    });
    let rows: usize = samples.iter().map(|sample| sample.stands_for).sum();
    let wanted = rows.div_ceil(ranges.max(1)).max(1);
    let mut bounds = Vec::new();
    let (mut before, mut goal) = (0, wanted);
    // Where in the order the rows between two samples of a run are is not known: half of them are counted with either.
    let mut between = vec![0; samples.iter().map(|sample| sample.run + 1).max().unwrap_or(0)];
    let mut last = None;
    for Sample { prefix, run, row, stands_for, address } in samples {
        before += std::mem::replace(&mut between[run], stands_for - stands_for / 2);
        if before >= goal && rows - before >= wanted / 2 {
            let bound = match last == Some(prefix) {
                false => Some(Bound::Prefix(prefix)),
                true => (address.is_some() || whole_prefix).then_some(Bound::Row { prefix, run, row }),
            };
            if let Some(bound) = bound {
                bounds.push(bound);
                // A range that became longer makes the next one no shorter than half.
                goal = (goal + wanted).max(before + wanted.div_ceil(2));
            }
        }
        before += stands_for / 2;
        last = Some(prefix);
    }
    bounds
}
