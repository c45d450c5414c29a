//! What functions see of their rows, and what they are while they run.

use arrow_array::ArrayRef;

use super::{Extent, WindowCall, WindowFunction as F, fold, foreign, framed, frames, ranking, results::Results, shift};
use crate::{ExecContext, ExecError};

/// Some rows in order.
pub(crate) struct Piece<'a> {
    pub(crate) rows: usize,
    /// Rows at which a partition begins, ascending.
    pub(crate) partitions: &'a [usize],
    /// Rows at which peers begin, ascending: those at which a partition does among them.
    pub(crate) peers: &'a [usize],
    /// The last partition ends with these rows.
    pub(crate) last: bool,
}

/// Rows of a piece that are in one partition (or peers).
pub(crate) struct Stretch {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// They are its first.
    pub(crate) begins: bool,
    /// They are its last: others follow in the piece, or none at all. A partition whose end is seen only with the next piece ends with a stretch
    /// without rows there.
    pub(crate) ends: bool,
}

/// The stretches of rows `0..rows` that are cut at `starts`. The first goes on with what was open before unless it begins at 0.
pub(crate) fn stretches(rows: usize, starts: &[usize], last: bool) -> impl Iterator<Item = Stretch> + '_ {
    // What is open before the first start; without rows of its own it still ends there.
    let first = Stretch {
        start: 0,
        end: starts.first().copied().unwrap_or(rows),
        begins: false,
        ends: !starts.is_empty() || last,
    };
    let others = starts.iter().enumerate().map(move |(i, &start)| Stretch {
        start,
        end: starts.get(i + 1).copied().unwrap_or(rows),
        begins: true,
        ends: i + 1 < starts.len() || last,
    });
    std::iter::once(first).chain(others)
}

/// A function over the rows of one range.
pub(crate) trait WindowState: Send {
    /// Takes the next rows, and gives the values that are final by now, in order. `columns` are what the function reads.
    ///
    /// # Errors
    /// As the function fails.
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError>;

    /// Bytes that the state takes beyond a few.
    fn bytes(&self) -> usize {
        0
    }
}

/// Whether there is a state for `call`.
pub fn supports_call(call: &WindowCall) -> bool {
    let key = call.key.as_ref().map(|(_, data_type)| data_type);
    match &call.function {
        F::LastValue(extent) => !matches!(extent, Extent::Rows { .. } | Extent::Frame(_)),
        F::Chosen { frame, .. } => frames::supports(frame, key),
        F::Count(Extent::Frame(frame))
        | F::Sum(Extent::Frame(frame))
        | F::Avg(Extent::Frame(frame))
        | F::Min(Extent::Frame(frame))
        | F::Max(Extent::Frame(frame)) => {
            frames::supports(frame, key) && fold::state(call, Extent::Frame(*frame)).is_some()
        }
        F::Count(extent) | F::Sum(extent) | F::Avg(extent) | F::Min(extent) | F::Max(extent) => {
            fold::state(call, *extent).is_some()
        }
        _ => true,
    }
}

/// A new state for `call`. `budget`: bytes that it may keep before it had better do without.
pub(crate) fn state(call: &WindowCall, ctx: &ExecContext, budget: usize) -> Box<dyn WindowState> {
    match &call.function {
        F::RowNumber => Box::new(ranking::Numbers::new(ranking::Number::Row)),
        F::Rank => Box::new(ranking::Numbers::new(ranking::Number::Rank)),
        F::DenseRank => Box::new(ranking::Numbers::new(ranking::Number::DenseRank)),
        F::PercentRank => Box::new(ranking::Shares::new(ranking::Share::PercentRank)),
        F::CumeDist => Box::new(ranking::Shares::new(ranking::Share::CumeDist)),
        F::Ntile(buckets) => Box::new(ranking::Shares::new(ranking::Share::Ntile(*buckets))),
        F::Shift { offset, default } => shift::state(*offset, default),
        F::FirstValue => Box::new(shift::First::default()),
        F::LastValue(extent) => Box::new(shift::Last::new(*extent)),
        F::Count(extent) | F::Sum(extent) | F::Avg(extent) | F::Min(extent) | F::Max(extent) => {
            fold::state(call, *extent).expect("asked for by `supports_call`")
        }
        F::Chosen { which, frame, ignore_nulls } => Box::new(framed::ChosenState::new(*frame, *which, *ignore_nulls)),
        F::Foreign(function) => Box::new(foreign::Foreign::new(function, ctx, budget)),
    }
}
