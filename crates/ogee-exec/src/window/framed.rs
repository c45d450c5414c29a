//! Functions over frames whose ends both move: aggregates, and values of certain rows.
//!
//! Aggregates keep the two stacks of `sliding`. The first, the last and the n-th value, with or without NULLs, are rows of the frame, and so are the least and the greatest
//! string: of these, the ones that may still become best wait in a queue, each better than all behind it. Arguments are kept from the first row that
//! any frame to come can ask for, and results copied out of them.

use std::{cmp::Ordering, collections::VecDeque, sync::Arc};

use arrow_array::{Array, ArrayRef, PrimitiveArray, cast::AsArray};
use arrow_schema::DataType;
use arrow_select::{interleave::interleave, take::take};

use super::{
    Bound, Frame, Which,
    fold::Fold,
    frames::{Frames, Seen},
    results::Results,
    sliding::TwoStacks,
    state::{Piece, WindowState, stretches},
};
use crate::ExecError;

/// Walks through the partitions of `piece`: hands each row to `add`, and each frame that is known to `known`.
fn walk<S>(
    state: &mut S,
    frames: fn(&mut S) -> &mut Frames,
    keys: Option<&ArrayRef>,
    piece: &Piece<'_>,
    mut begin: impl FnMut(&mut S),
    mut add: impl FnMut(&mut S, usize) -> Result<(), ExecError>,
    mut known: impl FnMut(&mut S, Seen) -> Result<(), ExecError>,
) -> Result<(), ExecError> {
    let mut peers = piece.peers;
    for partition in stretches(piece.rows, piece.partitions, piece.last) {
        if partition.begins {
            frames(state).clear();
            begin(state);
        }
        let within = peers.partition_point(|&start| start < partition.end);
        let (here, rest) = peers.split_at(within);
        peers = rest;
        let starts: Vec<usize> = here.iter().map(|&start| start - partition.start).collect();
        let keys = match keys {
            Some(keys) => {
                let at: arrow_array::UInt32Array = here.iter().map(|&start| start as u32).collect();
                Some(take(keys, &at, None)?)
            }
            None => None,
        };
        frames(state).push(partition.end - partition.start, &starts, keys.as_ref())?;
        for row in partition.start..partition.end {
            add(state, row)?;
        }
        if partition.ends {
            frames(state).end();
        }
        while let Some(seen) = frames(state).next() {
            known(state, seen)?;
        }
    }
    Ok(())
}

/// An aggregate of the rows of a frame.
pub(super) struct Framed<T> {
    frames: Frames,
    /// Nothing ever leaves.
    only_grows: bool,
    data_type: DataType,
    seen: TwoStacks<T>,
    /// Rows that have left, and that have entered.
    left: usize,
    entered: usize,
    /// Values of rows that no frame has reached yet.
    held: VecDeque<T>,
    /// Whether the key is the last of the columns.
    has_key: bool,
}

impl<T: Fold> Framed<T> {
    pub(super) fn new(frame: Frame, data_type: DataType) -> Self {
        Self {
            frames: Frames::new(frame),
            only_grows: matches!(frame.start, Bound::Unbounded),
            data_type,
            seen: TwoStacks::default(),
            left: 0,
            entered: 0,
            held: VecDeque::new(),
            has_key: frame.has_key(),
        }
    }

    fn value(&mut self, seen: &Seen) -> Result<T, ExecError> {
        while self.entered < seen.end {
            let value = self.held.pop_front().expect("a frame that is known has its rows");
            match self.only_grows {
                true => self.seen.add(&value)?,
                false => self.seen.push(value)?,
            }
            self.entered += 1;
        }
        while !self.only_grows && self.left < seen.start.min(self.entered) {
            self.seen.pop()?;
            self.left += 1;
        }
        self.seen.sum()
    }
}

impl<T: Fold> WindowState for Framed<T> {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let (keys, columns) = match self.has_key {
            true => columns.split_last().map(|(key, columns)| (Some(key), columns)).expect("a key is asked for"),
            false => (None, columns),
        };
        let column = T::open(columns);
        let (mut values, mut counts) = (Vec::new(), Vec::new());
        walk(
            self,
            |state| &mut state.frames,
            keys,
            piece,
            |state| {
                state.seen.clear();
                state.held.clear();
                (state.left, state.entered) = (0, 0);
            },
            |state, row| {
                let mut value = T::default();
                value.add(&column, row)?;
                state.held.push_back(value);
                Ok(())
            },
            |state, seen| {
                values.push(state.value(&seen)?.value()?);
                counts.push(seen.rows);
                Ok(())
            },
        )?;
        let values = PrimitiveArray::<T::Output>::from_iter(values);
        results.push_runs(Arc::new(values.with_data_type(self.data_type.clone())), counts);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.frames.bytes() + self.seen.bytes() + self.held.capacity() * size_of::<T>()
    }
}

/// The value in one row of the frame.
pub(super) struct Chosen {
    frames: Frames,
    which: Which,
    ignore_nulls: bool,
    only_grows: bool,
    has_key: bool,
    /// Arguments, with the number of their first row in the partition.
    kept: VecDeque<(usize, ArrayRef)>,
    /// Rows that have come.
    rows: usize,
    /// Rows that may be chosen, ascending, where not all rows may.
    candidates: VecDeque<usize>,
}

impl Chosen {
    pub(super) fn new(frame: Frame, which: Which, ignore_nulls: bool) -> Self {
        Self {
            frames: Frames::new(frame),
            which,
            ignore_nulls: ignore_nulls || matches!(which, Which::Least | Which::Greatest),
            only_grows: matches!(frame.start, Bound::Unbounded),
            has_key: frame.has_key(),
            kept: VecDeque::new(),
            rows: 0,
            candidates: VecDeque::new(),
        }
    }

    /// Where row `row` is kept.
    fn place(&self, row: usize) -> (usize, usize) {
        let array = self.kept.partition_point(|(first, _)| *first <= row) - 1;
        (array, row - self.kept[array].0)
    }

    fn bytes_at(&self, row: usize) -> &[u8] {
        let (array, at) = self.place(row);
        let array = &self.kept[array].1;
        match array.data_type() {
            DataType::BinaryView => array.as_binary_view().value(at),
            _ => array.as_string_view().value(at).as_bytes(),
        }
    }

    /// Row `row` has come, and is not NULL where that matters.
    fn enter(&mut self, row: usize) {
        let better = match self.which {
            Which::Least => Ordering::Less,
            Which::Greatest => Ordering::Greater,
            // Later ones are never the n-th.
            Which::Nth(n) if self.only_grows && self.candidates.len() >= n => return,
            _ => {
                self.candidates.push_back(row);
                return;
            }
        };
        while let Some(&last) = self.candidates.back()
            && self.bytes_at(row).cmp(self.bytes_at(last)) == better
        {
            self.candidates.pop_back();
        }
        self.candidates.push_back(row);
    }

    /// The row that is asked for. Rows in `waiting` have come, but are in no frame yet.
    fn choose(&mut self, seen: &Seen, waiting: &mut VecDeque<usize>) -> Option<usize> {
        let within = |row: &usize| *row >= seen.start && *row < seen.end;
        if !self.ignore_nulls {
            let row = match self.which {
                Which::Last => seen.end.checked_sub(1)?,
                Which::Nth(n) => seen.start.checked_add(n - 1)?,
                Which::Least | Which::Greatest => unreachable!("NULL is neither"),
            };
            return Some(row).filter(within);
        }
        while waiting.front().is_some_and(|&row| row < seen.end) {
            let row = waiting.pop_front().expect("there is one");
            self.enter(row);
        }
        while self.candidates.front().is_some_and(|&row| row < seen.start) {
            self.candidates.pop_front();
        }
        if self.which == Which::Last {
            while self.candidates.len() > 1 {
                self.candidates.pop_front();
            }
        }
        let chosen = match self.which {
            Which::Nth(n) => self.candidates.get(n - 1),
            _ => self.candidates.front(),
        };
        chosen.copied().filter(within)
    }

    /// Forgets arguments that no frame after one of `seen` asks for.
    fn forget(&mut self, seen: &Seen, waiting: &VecDeque<usize>) {
        let next = waiting.front().copied().unwrap_or(self.rows);
        let needed = match self.which {
            _ if self.ignore_nulls => self.candidates.front().copied().unwrap_or(next).min(next),
            Which::Last => seen.end.saturating_sub(1),
            _ => seen.start,
        };
        while self.kept.len() > 1 && self.kept[1].0 <= needed {
            self.kept.pop_front();
        }
    }
}

/// [`Chosen`] with what waits.
pub(super) struct ChosenState {
    chosen: Chosen,
    /// Rows without NULL that no frame has reached yet.
    waiting: VecDeque<usize>,
}

impl ChosenState {
    pub(super) fn new(frame: Frame, which: Which, ignore_nulls: bool) -> Self {
        Self { chosen: Chosen::new(frame, which, ignore_nulls), waiting: VecDeque::new() }
    }
}

impl WindowState for ChosenState {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let arg = &columns[0];
        let keys = self.chosen.has_key.then(|| &columns[1]);
        let nulls = arg.logical_nulls();
        let mut peers = piece.peers;
        // What values are chosen from: NULL, what was kept of the open partition, these rows.
        let null = arrow_array::new_null_array(arg.data_type(), 1);
        let kept_before: Vec<ArrayRef> = self.chosen.kept.iter().map(|(_, array)| Arc::clone(array)).collect();
        let mut places = Vec::new();
        let mut counts = Vec::new();
        for partition in stretches(piece.rows, piece.partitions, piece.last) {
            let chosen = &mut self.chosen;
            if partition.begins {
                chosen.frames.clear();
                chosen.kept.clear();
                chosen.candidates.clear();
                chosen.rows = 0;
                self.waiting.clear();
            }
            let (here, rest) = peers.split_at(peers.partition_point(|&start| start < partition.end));
            peers = rest;
            let starts: Vec<usize> = here.iter().map(|&start| start - partition.start).collect();
            let at: arrow_array::UInt32Array = here.iter().map(|&start| start as u32).collect();
            let keys = keys.map(|keys| take(keys, &at, None)).transpose()?;
            let rows = partition.end - partition.start;
            chosen.frames.push(rows, &starts, keys.as_ref())?;
            let before = chosen.kept.len();
            if rows > 0 {
                let never = matches!(chosen.which, Which::Nth(n) if chosen.only_grows && !chosen.ignore_nulls && chosen.rows >= n);
                if !never {
                    chosen.kept.push_back((chosen.rows, arg.slice(partition.start, rows)));
                }
                if chosen.ignore_nulls {
                    let valid = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
                    let first = chosen.rows;
                    let rows = (partition.start..partition.end).filter(valid);
                    self.waiting.extend(rows.map(|row| first + row - partition.start));
                }
                chosen.rows += rows;
            }
            if partition.ends {
                chosen.frames.end();
            }
            let mut last = None;
            while let Some(seen) = chosen.frames.next() {
                let row = chosen.choose(&seen, &mut self.waiting);
                places.push(row.map_or((0, 0), |row| match chosen.place(row) {
                    (array, at) if array < before => (1 + array, at),
                    (_, at) => (1 + kept_before.len(), partition.start + at),
                }));
                counts.push(seen.rows);
                last = Some(seen);
            }
            if let Some(seen) = last {
                chosen.forget(&seen, &self.waiting);
            }
        }
        if !places.is_empty() {
            let arrays: Vec<&dyn Array> =
                std::iter::once(&null).chain(&kept_before).chain([arg]).map(|array| &**array).collect();
            results.push_runs(interleave(&arrays, &places)?, counts);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let kept: usize = self.chosen.kept.iter().map(|(_, array)| array.get_array_memory_size()).sum();
        kept + self.chosen.frames.bytes() + 8 * (self.chosen.candidates.capacity() + self.waiting.capacity())
    }
}
