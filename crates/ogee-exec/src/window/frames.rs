//! Frames: which rows of its partition the current row sees, where both ends move with it.
//!
//! Neither end ever moves back. So both are found by going on from where they were: among rows, or among groups of peers, of which the first row and the key are kept from the
//! first that an end has yet to pass. A frame is known as soon as the row after its last has come.
//!
//! Not here: what is computed of the rows.

use std::{cmp::Ordering, collections::VecDeque};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, Date32Array, PrimitiveArray,
    cast::AsArray,
    timezone::Tz,
    types::{
        ArrowTimestampType, Date32Type, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNano,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
    },
};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};

use super::{Bound, Distance, Frame, Unit};
use crate::ExecError;

/// Microseconds of a day.
const DAY: i128 = 86_400_000_000;

/// A value of the key, or one at the end of a frame.
#[derive(Clone, Copy, Debug)]
enum Key {
    Null,
    Integer(i128),
    Float(f64),
}

/// Whether `frame` can be found among rows whose key, if it asks for distances, has type `key`.
pub(super) fn supports(frame: &Frame, key: Option<&DataType>) -> bool {
    let supported = |bound: &Bound| match (bound, key) {
        (Bound::At { unit: Unit::Values(distance), .. }, Some(key)) => match distance {
            Distance::Integer(_) => key.is_integer() || matches!(key, DataType::Decimal128(..)),
            Distance::Float(_) => matches!(key, DataType::Float32 | DataType::Float64),
            Distance::Interval(_) => matches!(key, DataType::Date32 | DataType::Timestamp(..)),
        },
        (Bound::At { unit: Unit::Values(_), .. }, None) => false,
        _ => true,
    };
    supported(&frame.start) && supported(&frame.end)
}

/// A group of peers.
struct Group {
    /// Its first row, counted from the partition's.
    start: usize,
    key: Key,
    /// Keys at which its rows' frames begin and end, where these ask for distances.
    from: Key,
    to: Key,
}

/// Rows that see the same rows.
pub(super) struct Seen {
    /// From `start` up to `end`, which is not among them; none where that is not after `start`.
    pub(super) start: usize,
    pub(super) end: usize,
    /// How many rows.
    pub(super) rows: usize,
}

/// The frames of one partition.
pub(super) struct Frames {
    frame: Frame,
    groups: VecDeque<Group>,
    /// The number of the first group that is kept.
    first: usize,
    /// The group of the row whose frame is next, and those where its frame begins and ends.
    current: usize,
    at: [usize; 2],
    /// Rows so far, and rows whose frames were told.
    rows: usize,
    done: usize,
    ended: bool,
}

impl Frames {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, groups: VecDeque::new(), first: 0, current: 0, at: [0; 2], rows: 0, done: 0, ended: false }
    }

    /// Begins a partition.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.frame);
    }

    /// Takes `rows` rows. `peers`: those among them at which peers begin, and, where distances are asked for, the keys there, in `keys`.
    ///
    /// # Errors
    /// [`ExecError::Overflow`] where an end lies beyond all values of the key's type.
    pub(super) fn push(&mut self, rows: usize, peers: &[usize], keys: Option<&ArrayRef>) -> Result<(), ExecError> {
        let nulls = || vec![Key::Null; peers.len()];
        let of = |bound: &Bound| match (bound, keys) {
            (Bound::At { unit: Unit::Values(distance), following }, Some(keys)) => {
                moved(keys, *distance, *following != self.frame.descending)
            }
            _ => Ok(nulls()),
        };
        let of_dates = [self.frame.start, self.frame.end]
            .iter()
            .any(|bound| matches!(bound, Bound::At { unit: Unit::Values(Distance::Interval(_)), .. }));
        let (from, to) = (of(&self.frame.start)?, of(&self.frame.end)?);
        let own = keys.map_or_else(|| Ok(nulls()), |keys| plain(keys, of_dates))?;
        for (((&start, key), from), to) in peers.iter().zip(own).zip(from).zip(to) {
            self.groups.push_back(Group { start: self.rows + start, key, from, to });
        }
        self.rows += rows;
        Ok(())
    }

    /// All rows of the partition have come.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    fn group(&self, number: usize) -> Option<&Group> {
        self.groups.get(number.checked_sub(self.first)?)
    }

    /// The first row of group `number`; where there is none, the end of the partition. `None` if it has not come yet.
    fn start_of(&self, number: usize) -> Option<usize> {
        match self.group(number) {
            Some(group) => Some(group.start),
            None => self.ended.then_some(self.rows),
        }
    }

    /// How two keys compare in the order of rows.
    fn compare(&self, a: Key, b: Key) -> Ordering {
        let null = if self.frame.nulls_first { Ordering::Less } else { Ordering::Greater };
        let ordering = match (a, b) {
            (Key::Null, Key::Null) => return Ordering::Equal,
            (Key::Null, _) => return null,
            (_, Key::Null) => return null.reverse(),
            (Key::Integer(a), Key::Integer(b)) => a.cmp(&b),
            (Key::Float(a), Key::Float(b)) => match (a.is_nan(), b.is_nan()) {
                (false, false) => a.partial_cmp(&b).expect("neither is NaN"),
                (a, b) => a.cmp(&b),
            },
            _ => unreachable!("keys of one type"),
        };
        if self.frame.descending { ordering.reverse() } else { ordering }
    }

    /// The row at which the frame of the next row begins (`end` = 0), or before which it ends (`end` = 1); `None` if that has not come yet.
    fn bound(&mut self, end: usize) -> Option<usize> {
        let bound = if end == 0 { self.frame.start } else { self.frame.end };
        match bound {
            Bound::Unbounded if end == 0 => Some(0),
            Bound::Unbounded => self.ended.then_some(self.rows),
            Bound::At { unit: Unit::Rows(rows), following } => {
                let row = match following {
                    true => self.done.saturating_add(rows),
                    false if rows > self.done => return Some(0),
                    false => self.done - rows,
                };
                let row = row.saturating_add(end);
                if row <= self.rows { Some(row) } else { self.ended.then_some(self.rows) }
            }
            Bound::At { unit: Unit::Groups(groups), following } => {
                let group = match following {
                    true => self.current.saturating_add(groups),
                    false if groups > self.current => return Some(0),
                    false => self.current - groups,
                };
                let group = group.saturating_add(end);
                self.at[end] = group;
                self.start_of(group)
            }
            Bound::At { unit: Unit::Values(_), .. } => {
                let limit = self.group(self.current).map(|group| if end == 0 { group.from } else { group.to })?;
                loop {
                    let Some(group) = self.group(self.at[end]) else { return self.ended.then_some(self.rows) };
                    let before = self.compare(group.key, limit);
                    if before == Ordering::Greater || end == 0 && before == Ordering::Equal {
                        return Some(group.start);
                    }
                    self.at[end] += 1;
                }
            }
        }
    }

    /// The frame of the next rows, if it is known.
    pub(super) fn next(&mut self) -> Option<Seen> {
        if self.done == self.rows {
            return None;
        }
        while self.group(self.current + 1).is_some_and(|next| next.start <= self.done) {
            self.current += 1;
        }
        let (start, end) = (self.bound(0)?, self.bound(1)?);
        let by_row = |bound| matches!(bound, Bound::At { unit: Unit::Rows(_), .. });
        let rows = if by_row(self.frame.start) || by_row(self.frame.end) {
            1
        } else {
            // All that have come of its peers.
            self.group(self.current + 1).map_or(self.rows, |next| next.start) - self.done
        };
        self.done += rows;
        let moves = |bound: Bound, at: usize| match bound {
            Bound::At { unit: Unit::Groups(_) | Unit::Values(_), .. } => at,
            _ => usize::MAX,
        };
        let needed = self.current.min(moves(self.frame.start, self.at[0])).min(moves(self.frame.end, self.at[1]));
        while self.first < needed && !self.groups.is_empty() {
            self.groups.pop_front();
            self.first += 1;
        }
        Some(Seen { start, end: end.max(start), rows })
    }

    /// Bytes of the groups.
    pub(super) fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Group>()
    }
}

/// The values of `keys`. Dates are moments where they are `of_dates` compared with intervals.
fn plain(keys: &ArrayRef, of_dates: bool) -> Result<Vec<Key>, ExecError> {
    fn integers<T: ArrowPrimitiveType>(keys: &ArrayRef) -> Vec<Key>
    where
        i128: From<T::Native>,
    {
        keys.as_primitive::<T>().iter().map(|key| key.map_or(Key::Null, |key| Key::Integer(key.into()))).collect()
    }
    Ok(match keys.data_type() {
        DataType::Decimal128(..) => integers::<Decimal128Type>(keys),
        DataType::UInt64 => integers::<UInt64Type>(keys),
        DataType::Date32 => {
            let unit = if of_dates { DAY } else { 1 };
            let day = |day: Option<i32>| day.map_or(Key::Null, |day| Key::Integer(i128::from(day) * unit));
            keys.as_primitive::<Date32Type>().iter().map(day).collect()
        }
        DataType::Float32 | DataType::Float64 => {
            let keys = cast(keys, &DataType::Float64)?;
            keys.as_primitive::<Float64Type>().iter().map(|key| key.map_or(Key::Null, Key::Float)).collect()
        }
        data_type if data_type.is_integer() || matches!(data_type, DataType::Timestamp(..)) => {
            integers::<Int64Type>(&cast(keys, &DataType::Int64)?)
        }
        // Peers are told apart before; only distances look at values.
        _ => vec![Key::Null; keys.len()],
    })
}

/// The values `distance` after those of `keys`, or before.
fn moved(keys: &ArrayRef, distance: Distance, after: bool) -> Result<Vec<Key>, ExecError> {
    let interval = match distance {
        Distance::Integer(distance) => {
            let distance = if after { distance } else { -distance };
            let moved = |key| match key {
                Key::Integer(key) => Key::Integer(key.saturating_add(distance)),
                other => other,
            };
            return Ok(plain(keys, false)?.into_iter().map(moved).collect());
        }
        Distance::Float(distance) => {
            let distance = if after { distance } else { -distance };
            let moved = |key| match key {
                // Infinity less infinity is where it was.
                Key::Float(key) if key.is_infinite() => Key::Float(key),
                Key::Float(key) => Key::Float(key + distance),
                other => other,
            };
            return Ok(plain(keys, false)?.into_iter().map(moved).collect());
        }
        Distance::Interval(interval) => interval,
    };
    macro_rules! moved {
        ($keys:expr, $t:ty) => {
            moments_moved(
                $keys.as_primitive::<$t>(),
                interval,
                if after { <$t>::add_month_day_nano } else { <$t>::subtract_month_day_nano },
            )
        };
    }
    match keys.data_type() {
        DataType::Date32 => {
            // Infinite days are no moments.
            let is_finite = |day: &i32| day.unsigned_abs() != i32::MAX.unsigned_abs();
            let days: Date32Array = keys.as_primitive::<Date32Type>().iter().map(|day| day.filter(is_finite)).collect();
            let moments = cast(&days, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            let moved = moved!(moments, TimestampMicrosecondType)?;
            let infinite = |(moved, key): (Key, Key)| if let Key::Null = moved { key } else { moved };
            Ok(moved.into_iter().zip(plain(keys, true)?).map(infinite).collect())
        }
        DataType::Timestamp(TimeUnit::Second, _) => moved!(keys, TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => moved!(keys, TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => moved!(keys, TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => moved!(keys, TimestampNanosecondType),
        other => unreachable!("{other} has no intervals: refused by `supports`"),
    }
}

fn moments_moved<T: ArrowTimestampType>(
    moments: &PrimitiveArray<T>,
    interval: IntervalMonthDayNano,
    by: fn(i64, IntervalMonthDayNano, Tz) -> Option<i64>,
) -> Result<Vec<Key>, ExecError> {
    let zone: Tz = match moments.data_type() {
        DataType::Timestamp(_, Some(zone)) => zone.parse()?,
        _ => "+00:00".parse()?,
    };
    let overflow = || ExecError::Overflow { operation: "RANGE", data_type: moments.data_type().to_string() };
    let moved = |moment: Option<i64>| {
        let Some(moment) = moment else { return Ok(Key::Null) };
        // The least and the greatest are infinite, and stay where they are.
        if moment.unsigned_abs() == i64::MAX.unsigned_abs() {
            return Ok(Key::Integer(moment.into()));
        }
        by(moment, interval, zone).map(|moved| Key::Integer(moved.into())).ok_or_else(overflow)
    };
    moments.iter().map(moved).collect()
}
