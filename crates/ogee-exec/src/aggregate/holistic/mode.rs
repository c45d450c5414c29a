//! The mode: the most frequent value of a group; of several, the least.

use std::{
    cmp::Reverse,
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::DataType;

use super::{Gathered, HolisticStates, Ordinal, for_each_value, is_ranked_long, is_ranked_short};
use crate::ExecError;

/// Different values that are counted in one pass, at most: as many as a table of 2^19 places takes.
const COUNTED_MAX: usize = (1 << 19) / 8 * 7 - 1;

/// The function.
#[derive(Clone, Debug)]
pub struct Mode {
    data_type: DataType,
}

impl Mode {
    /// The mode of values of normalized type `data_type`; `None` if this does not rank them.
    pub fn new(data_type: DataType) -> Option<Self> {
        (is_ranked_short(&data_type) || is_ranked_long(&data_type)).then_some(Self { data_type })
    }

    /// States for no groups yet.
    pub fn states(&self) -> Box<dyn HolisticStates> {
        match is_ranked_long(&self.data_type) {
            true => Box::new(States::<u128>::new(self.data_type.clone(), COUNTED_MAX)),
            false => Box::new(States::<u64>::new(self.data_type.clone(), COUNTED_MAX)),
        }
    }
}

/// How often a value occurs, and the value: greater is better.
type Candidate<K> = (u64, Reverse<K>);

/// Hashes what is mixed well below, without regard for those who choose values so that they collide: they would only wait.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(29) ^ value).mixed();
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }
}

/// Values of all groups counted, those of one part of all hashes in each pass.
struct Counted<K> {
    counts: HashMap<(u32, K), u64, BuildHasherDefault<Mixer>>,
    /// The part: hashes whose highest `bits` are `part`.
    part: u64,
    bits: u32,
    /// Different values in one pass, at most.
    most: usize,
}

impl<K: Ordinal> Counted<K> {
    fn is_in_part(group: u32, value: K, part: u64, bits: u32) -> bool {
        let hash = value.mixed() ^ u64::from(group).mixed();
        hash.checked_shr(64 - bits).unwrap_or(0) == part
    }

    fn add(&mut self, group: u32, value: K) {
        if !Self::is_in_part(group, value, self.part, self.bits) {
            return;
        }
        *self.counts.entry((group, value)).or_insert(0) += 1;
        while self.counts.len() > self.most && self.bits < 48 {
            // The first half of the part; the other half is for a later pass.
            (self.part, self.bits) = (self.part << 1, self.bits + 1);
            let (part, bits) = (self.part, self.bits);
            self.counts.retain(|&(group, value), _| Self::is_in_part(group, value, part, bits));
        }
    }
}

struct States<K> {
    data_type: DataType,
    total: usize,
    most: usize,
    gathered: Gathered<K>,
    counted: Option<Counted<K>>,
    best: Vec<Option<Candidate<K>>>,
}

impl<K: Ordinal> States<K> {
    fn new(data_type: DataType, most: usize) -> Self {
        Self { data_type, total: 0, most, gathered: Gathered::default(), counted: None, best: Vec::new() }
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
        match &mut self.counted {
            Some(counted) => {
                for_each_value(values, filter, groups, |group, value| counted.add(group as u32, value));
            }
            None => self.gathered.add(values, filter, groups),
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let counted =
            self.counted.as_ref().map_or(0, |counted| counted.counts.capacity() * (size_of::<((u32, K), u64)>() + 1));
        2 * self.gathered.size() + counted + self.best.capacity() * size_of::<Option<Candidate<K>>>()
    }

    fn begin_passes(&mut self) -> bool {
        // Not to grow: while it does, a table is there twice.
        let counts = HashMap::with_capacity_and_hasher(self.most + 1, BuildHasherDefault::default());
        self.counted = Some(Counted { counts, part: 0, bits: 0, most: self.most });
        true
    }

    fn end_pass(&mut self) -> bool {
        self.best.resize(self.total, None);
        let Some(counted) = &mut self.counted else { return false };
        for ((group, value), count) in counted.counts.drain() {
            let best = &mut self.best[group as usize];
            *best = (*best).max(Some((count, Reverse(value))));
        }
        counted.part += 1;
        counted.part >> counted.bits == 0
    }

    fn evaluate(&mut self) -> Result<ArrayRef, ExecError> {
        let mut results: Vec<Option<K>> = match self.counted.take() {
            Some(_) => self.best.iter().map(|best| best.map(|(_, Reverse(value))| value)).collect(),
            None => {
                let (mut values, ends) = self.gathered.by_group(self.total);
                let mut start = 0;
                let each = ends.into_iter().map(|end| {
                    let values = &mut values[std::mem::replace(&mut start, end)..end];
                    values.sort_unstable();
                    let runs = values.chunk_by(|a, b| a == b).map(|run| (run.len() as u64, Reverse(run[0])));
                    runs.max().map(|(_, Reverse(value))| value)
                });
                each.collect()
            }
        };
        results.resize(self.total, None);
        K::values(&results, &self.data_type)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use arrow_array::{Int64Array, cast::AsArray, types::Int64Type};

    use super::*;

    #[test]
    fn passes_find_what_memory_finds() {
        let values: Vec<Option<i64>> = (0..50_000_i64)
            .map(|row| match row % 10 {
                0 => Some(-5),
                1 => Some(-6),
                2 => None,
                _ => Some(row),
            })
            .collect();
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        let groups: Vec<usize> = (0..50_000).map(|row| row / 30_000).collect();
        let mut memory = Mode::new(DataType::Int64).unwrap().states();
        memory.add(&values, None, &groups, 3).unwrap();
        let expected = memory.evaluate().unwrap();
        assert_eq!(expected.as_primitive::<Int64Type>().value(0), -6);
        assert!(expected.is_null(2));
        let mut states = States::<u64>::new(DataType::Int64, 5000);
        states.begin_passes();
        let mut passes = 0;
        loop {
            states.add(&values, None, &groups, 3).unwrap();
            passes += 1;
            if !states.end_pass() {
                break;
            }
        }
        assert!(passes >= 8, "{passes}");
        assert_eq!(&states.evaluate().unwrap(), &expected);
    }
}
