//! The keys of a build side as a set: asked about rows of the probe side long before they reach the join.
//!
//! Integers of a dense range are one bit each, which is exact. Anything else is a Bloom filter in blocks of one word (Putze, Sanders and Singler,
//! "Cache-, hash- and space-efficient Bloom filters", JEA 2009; "register-blocked" in Lang et al., "Performance-optimal filtering",
//! PVLDB 2019): four bits of one word for each key, so that a look at it is one access to memory, of an array an eighth as large as the
//! join's table or less. With 16 bits a key it lets 1 in 200 other keys pass, with 8 bits 1 in 30.
//!
//! Not here: which keys, and who is asked (`reach`).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ogee_memory::{BufferManager, NonPaged, optional};
use ogee_row::{RadixBits, RowLayout};
use ogee_vector::{Column, ColumnRef, HashSeed, Integer, PhysicalType, hash_column, keep_rows};

use super::{
    CONSUMER,
    table::{AHEAD, prefetch},
};
use crate::{ExecError, keys::spread};

/// A range is dense if it has at most so many values for each row: a bit for each is then at most eight times a filter of
/// eight bits a key, but needs no hash.
const DENSE: u64 = 64;
/// Or so few values that their bits stay in a core's cache: 512 KiB of them.
const SMALL: u64 = 1 << 22;
/// A filter for more keys than these, 256 KiB, competes for that cache with all else. Bits of a range are then as good, where they stay in the cache
/// that cores share: rows often come in the order of their keys, and those of neighbours share a line.
const CROWDED_KEYS: usize = 1 << 17;
/// The values of such a range: 16 MiB of bits.
const MEDIUM: u64 = 1 << 27;
/// Keys up to which there are 16 bits for each, 1 MiB, and beyond which 8: half of a cache of 2 MiB.
const SPARSE_KEYS: usize = 1 << 19;

/// Which keys there are.
pub(crate) enum KeySet {
    /// None.
    Empty,
    Bits(Bits),
    Bloom(Bloom),
}

/// A bit for each integer of a range.
pub(crate) struct Bits {
    least: i64,
    values: u64,
    words: NonPaged,
}

/// A Bloom filter of hashes as rows keep them.
pub(crate) struct Bloom {
    words: NonPaged,
    seed: HashSeed,
}

/// Scratch of whoever asks.
#[derive(Default)]
pub(crate) struct KeyScratch {
    hashes: Vec<u64>,
    rows: Vec<u32>,
    holds: Vec<bool>,
}

/// `$body` with `$integer` being the type of the values of `$physical`, which is [`PhysicalType::is_integer`]; that of short decimals, which rows and
/// arrays keep differently, is `$decimal`.
macro_rules! with_integer {
    ($physical:expr, $decimal:ty, $integer:ident => $body:expr) => {{
        use ogee_vector::PhysicalType as P;
        macro_rules! of {
            ($t:ty) => {{
                type $integer = $t;
                $body
            }};
        }
        match $physical {
            P::I8 => of!(i8),
            P::I16 => of!(i16),
            P::I32 => of!(i32),
            P::I64 => of!(i64),
            P::U8 => of!(u8),
            P::U16 => of!(u16),
            P::U32 => of!(u32),
            P::ShortDecimal => of!($decimal),
            other => unreachable!("{other:?} is no integer of 64 bits"),
        }
    }};
}

/// `$body` with `$values` being the integers of `$array`, whose type is [`PhysicalType::is_integer`].
macro_rules! with_integers {
    ($array:expr, $values:ident => $body:expr) => {
        with_integer!(PhysicalType::of($array.data_type())?, i128, Value => {
            let values = ogee_vector::integer_values::<Value>($array);
            let $values: &[Value] = &values;
            $body
        })
    };
}

pub(crate) use {with_integer, with_integers};

/// Sets bits of a word. Most are there already where keys repeat, and then the line stays shared.
#[inline(always)]
fn set(word: &AtomicU64, bits: u64) {
    if word.load(Ordering::Relaxed) & bits != bits {
        word.fetch_or(bits, Ordering::Relaxed);
    }
}

impl KeySet {
    /// An empty set for the integers from `least` to `greatest`, if there are few enough of them for `rows` keys and memory for them.
    pub(crate) fn bits(memory: &Arc<BufferManager>, (least, greatest): (i64, i64), rows: usize) -> Option<Self> {
        let values = (greatest.wrapping_sub(least) as u64).checked_add(1)?;
        let small = if rows > CROWDED_KEYS { MEDIUM } else { SMALL };
        if values > small.max(DENSE.saturating_mul(rows as u64)) {
            return None;
        }
        let words = allocate(memory, usize::try_from(values.div_ceil(64)).ok()?)?;
        Some(Self::Bits(Bits { least, values, words }))
    }

    /// An empty set for `keys` keys, if there is memory for it.
    pub(crate) fn bloom(memory: &Arc<BufferManager>, keys: usize, seed: HashSeed) -> Option<Self> {
        let per_word = if keys <= SPARSE_KEYS { 4 } else { 8 };
        Self::bloom_of(memory, keys.div_ceil(per_word), seed)
    }

    /// An empty set of `words` words of 64 bits, if there is memory for it.
    pub(crate) fn bloom_of(memory: &Arc<BufferManager>, words: usize, seed: HashSeed) -> Option<Self> {
        // Which word is chosen by 32 bits of the hash.
        let words = words.clamp(1, u32::MAX as usize);
        Some(Self::Bloom(Bloom { words: allocate(memory, words)?, seed }))
    }

    /// Whether so many keys are too many for the set to tell anything: less than 3 bits for each.
    pub(crate) fn is_crowded(&self, keys: usize) -> bool {
        matches!(self, Self::Bloom(bloom) if bloom.words.len() * 8 < keys.saturating_mul(3))
    }

    /// Whether a row without a mate is found by the join itself as quickly: the table for up to 16,384 keys has at most 512 KiB, and stays in a
    /// core's cache too.
    pub(crate) fn is_cheaper_to_find(&self) -> bool {
        matches!(self, Self::Bloom(bloom) if bloom.words.len() <= 8 * 4096)
    }

    /// Adds the keys of `rows`: all of them by the hashes that rows keep, or key `key` if the set is one of bits.
    ///
    /// # Safety
    /// `rows` are rows of `layout`, on pinned pages; `key` is one of its keys, and an integer that is not NULL, if the set is one of bits.
    pub(crate) unsafe fn add_rows(&self, layout: &RowLayout, key: usize, rows: impl Iterator<Item = *const u8>) {
        match self {
            Self::Empty => {}
            Self::Bits(bits) => {
                let column = layout.column(key);
                with_integer!(column.physical, i64, Stored => rows.for_each(|row| {
                    // SAFETY: the caller vouches for the rows; the column is of this type.
                    let value = unsafe { row.add(column.offset).cast::<Stored>().read_unaligned() };
                    bits.add(value.wide());
                }));
            }
            // SAFETY: as above.
            Self::Bloom(bloom) => rows.for_each(|row| bloom.add(unsafe { ogee_row::row_hash(row) })),
        }
    }

    /// Adds keys by their hashes, to a set that is none of bits.
    pub(crate) fn add_hashes(&self, hashes: &[u64]) {
        match self {
            Self::Empty => {}
            Self::Bits(_) => unreachable!("bits are of values"),
            Self::Bloom(bloom) => bloom.add_all(hashes),
        }
    }

    /// Adds keys, given as columns, none of whose values is NULL unless it is a key like others.
    pub(crate) fn add_columns(
        &self,
        columns: &[Column],
        rows: usize,
        scratch: &mut KeyScratch,
    ) -> Result<(), ExecError> {
        match self {
            Self::Empty => {}
            Self::Bits(bits) => {
                let column = columns[0].as_ref();
                with_integers!(column.array, values => {
                    (0..rows).for_each(|row| bits.add(values[column.position(row)].wide()));
                });
            }
            Self::Bloom(bloom) => {
                bloom.hash(columns, rows, scratch)?;
                self.add_hashes(&scratch.hashes);
            }
        }
        Ok(())
    }

    /// Which of `rows` rows, whose keys are `columns`, may be in the set: into `selected`, ascending. Rows with a NULL may be among them or not.
    pub(crate) fn select(
        &self,
        columns: &[Column],
        rows: usize,
        scratch: &mut KeyScratch,
        selected: &mut Vec<u32>,
    ) -> Result<(), ExecError> {
        // Of few values, such as a dictionary's, each is looked up once.
        if let [column] = columns
            && let Some(selection) = &column.selection
            && column.array.len() * 2 <= rows
        {
            let values = [Column::flat(Arc::clone(&column.array))];
            let mut held = std::mem::take(&mut scratch.rows);
            let known = self.select(&values, column.array.len(), scratch, &mut held);
            scratch.holds.clear();
            scratch.holds.resize(column.array.len(), false);
            held.iter().for_each(|&value| scratch.holds[value as usize] = true);
            scratch.rows = held;
            known?;
            let (positions, holds) = (selection.positions(), &scratch.holds);
            keep_rows(rows, selected, |row| holds[positions[row] as usize]);
            return Ok(());
        }
        match self {
            Self::Empty => selected.clear(),
            Self::Bits(bits) => bits.select(columns[0].as_ref(), rows, selected)?,
            Self::Bloom(bloom) => {
                bloom.hash(columns, rows, scratch)?;
                let words = bloom.words.as_atomic_u64_slice();
                let hashes = scratch.hashes.as_slice();
                keep_rows(rows, selected, |row| {
                    let (word, bits) = place(RadixBits::stored_hash(hashes[row]), words.len());
                    words[word].load(Ordering::Relaxed) & bits == bits
                });
            }
        }
        Ok(())
    }
}

/// Memory for a set: not more than a sixteenth of what there is.
fn allocate(memory: &Arc<BufferManager>, words: usize) -> Option<NonPaged> {
    let bytes = words.checked_mul(size_of::<u64>())?;
    if bytes > memory.available() / 16 {
        return None;
    }
    optional(|| memory.allocate_non_paged(CONSUMER, bytes)).ok()
}

impl Bits {
    #[inline(always)]
    fn add(&self, value: i64) {
        let at = value.wrapping_sub(self.least) as u64;
        // Only a value that statistics of the same rows do not cover could lie outside.
        assert!(at < self.values, "keys lie within their own range");
        set(&self.words.as_atomic_u64_slice()[(at / 64) as usize], 1 << (at % 64));
    }

    fn select(&self, column: ColumnRef<'_>, rows: usize, selected: &mut Vec<u32>) -> Result<(), ExecError> {
        let words = self.words.as_atomic_u64_slice();
        let holds = |value: i64| {
            let distance = value.wrapping_sub(self.least) as u64;
            let inside = distance < self.values;
            let at = if inside { distance } else { 0 };
            inside & (words[(at / 64) as usize].load(Ordering::Relaxed) >> (at % 64) & 1 != 0)
        };
        with_integers!(column.array, values => match column.selection {
            None => keep_rows(rows, selected, |row| holds(values[row].wide())),
            Some(positions) => keep_rows(rows, selected, |row| holds(values[positions[row] as usize].wide())),
        });
        Ok(())
    }
}

/// The word of `words` that a hash is in, and its four bits.
#[inline(always)]
fn place(stored: u32, words: usize) -> (usize, u64) {
    let hash = spread(stored);
    let bit = |shift: u32| 1_u64 << ((hash >> shift) & 63);
    let word = ((hash >> 32) * words as u64) >> 32;
    (word as usize, bit(0) | bit(6) | bit(12) | bit(18))
}

impl Bloom {
    fn add_all(&self, hashes: &[u64]) {
        let words = self.words.as_atomic_u64_slice();
        for (at, &hash) in hashes.iter().enumerate() {
            if let Some(&ahead) = hashes.get(at + AHEAD) {
                let (word, _) = place(RadixBits::stored_hash(ahead), words.len());
                prefetch(words[word].as_ptr().cast_const().cast());
            }
            self.add(RadixBits::stored_hash(hash));
        }
    }

    #[inline(always)]
    fn add(&self, stored: u32) {
        let words = self.words.as_atomic_u64_slice();
        let (word, bits) = place(stored, words.len());
        set(&words[word], bits);
    }

    fn hash(&self, columns: &[Column], rows: usize, scratch: &mut KeyScratch) -> Result<(), ExecError> {
        scratch.hashes.clear();
        scratch.hashes.resize(rows, self.seed.seed);
        for (index, column) in columns.iter().enumerate() {
            hash_column(column.as_ref(), self.seed, index == 0, &mut scratch.hashes)?;
        }
        Ok(())
    }
}
