//! Dictionaries of strings with few distinct values: rows hold one byte of code instead of a view and the bytes it points to.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, OnceLock},
};

use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray, UInt8Array, cast::AsArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::DataType;
use ogee_vector::{ColumnRef, VectorError, hash_bytes};

use crate::RowView;

/// Codes that one byte can tell apart.
const CODES: usize = 256;
/// Dictionaries of one layout, at most: none of what lanes keep of them is reserved, some hundred kilobytes each.
pub const DICTIONARIES_MAX: usize = 32;
/// Bytes of a value, at most, so that a dictionary stays below 64 KiB.
const VALUE_BYTES: usize = 255;

/// Up to 256 values, numbered as they come. Shared by all lanes of a query: values are only ever added, and read without a lock.
#[derive(Debug)]
pub struct Dictionary {
    values: [OnceLock<Box<[u8]>>; CODES],
    /// The order of the values, as of when there were so many.
    ranks: Mutex<(usize, Arc<[u8; CODES]>)>,
}

impl Default for Dictionary {
    fn default() -> Self {
        let ranks = Mutex::new((0, Arc::new([0; CODES])));
        Self { values: std::array::from_fn(|_| OnceLock::new()), ranks }
    }
}

impl Dictionary {
    /// The value that `code` stands for.
    ///
    /// # Panics
    /// If no value has this code.
    pub fn value(&self, code: u8) -> &[u8] {
        self.values[usize::from(code)].get().expect("codes are given out with their values")
    }

    /// For each code given out so far, how many of the values are less than its own.
    ///
    /// # Panics
    /// If another thread panicked here.
    pub fn ranks(&self) -> Arc<[u8; CODES]> {
        let mut known = self.ranks.lock().expect("nothing panics with the lock");
        let len = self.len();
        if known.0 != len {
            let mut codes: Vec<u8> = (0..len).map(|code| code as u8).collect();
            codes.sort_unstable_by_key(|&code| self.value(code));
            let mut ranks = [0; CODES];
            for (rank, &code) in codes.iter().enumerate() {
                ranks[usize::from(code)] = rank as u8;
            }
            *known = (len, Arc::new(ranks));
        }
        Arc::clone(&known.1)
    }

    /// The code of `value`, which is added if it is new; `None` if there is no room for it.
    fn code(&self, value: &[u8]) -> Option<u8> {
        if value.len() > VALUE_BYTES {
            return None;
        }
        // The first place that is free or has the value: of two lanes that add at once, one finds what the other has put there.
        let at = self.values.iter().position(|place| **place.get_or_init(|| value.into()) == *value)?;
        Some(at as u8)
    }

    /// Values so far.
    fn len(&self) -> usize {
        self.values.iter().take_while(|place| place.get().is_some()).count()
    }
}

/// Places for short values that a lane has seen: sixteen for each code, so that a hash without collisions is found soon.
const SHORT: usize = 16 * CODES;
/// Multipliers that are tried for that.
const TRIES: usize = 1000;
/// Rows that are encoded without a branch in between.
const BLOCK: usize = 64;
/// Views of long values that a lane has seen, direct-mapped.
const LONG: usize = 512;
/// An empty place: no value is as long as this view says.
const EMPTY: u128 = u128::MAX;

/// Hashes values as keys are: there are too few of them for collisions to matter, whoever chose them.
#[derive(Debug, Default)]
struct ValueHasher(u64);

impl Hasher for ValueHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(self.0, bytes);
    }

    /// The length, which the hash of the bytes has.
    fn write_usize(&mut self, _: usize) {}
}

/// Codes by value.
type Known = HashMap<Box<[u8]>, u8, BuildHasherDefault<ValueHasher>>;

/// What a lane keeps of a dictionary, so that a value costs a few cycles.
#[derive(Debug, Default)]
pub struct CodeCache {
    known: Known,
    /// Made with the first values that are encoded: most columns have no dictionary.
    short: Option<Short>,
    /// Values that are not in their views: a view means a value only within one array.
    long: Vec<Seen>,
    /// Number of the array at hand, from 1.
    array: u64,
    /// Values that rows refer to by position, chunk after chunk.
    selected: Selected,
    /// Views of the values, for output, with a buffer for the long ones.
    views: Vec<u128>,
    buffer: Option<Buffer>,
}

/// Codes of values that are in their views, by a hash that was chosen so that none collide.
#[derive(Debug)]
struct Short {
    views: Box<[u128; SHORT]>,
    codes: Box<[u8; SHORT]>,
    multipliers: (u64, u64),
    /// No hash without collisions was found for so many values: not to be tried again.
    gave_up: bool,
}

impl Default for Short {
    fn default() -> Self {
        let multipliers = (0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93);
        Self { views: Box::new([EMPTY; SHORT]), codes: Box::new([0; SHORT]), multipliers, gave_up: false }
    }
}

impl Short {
    /// The only place where `view` can be.
    #[inline(always)]
    fn place(&self, view: u128) -> usize {
        let (low, high) = self.multipliers;
        let mixed = (view as u64).wrapping_mul(low).wrapping_add(((view >> 64) as u64).wrapping_mul(high));
        (mixed >> (64 - SHORT.ilog2())) as usize
    }

    /// The codes of `views` into `codes`, without a branch between them; false if one is not there.
    #[inline(always)]
    fn encode(&self, views: &[u128], codes: &mut [u8]) -> bool {
        let mut missing = false;
        for (&view, code) in views.iter().zip(codes) {
            let place = self.place(view);
            *code = self.codes[place];
            missing |= self.views[place] != view;
        }
        !missing
    }

    fn find(&self, view: u128) -> Option<u8> {
        let place = self.place(view);
        (self.views[place] == view).then(|| self.codes[place])
    }

    #[cold]
    fn insert(&mut self, view: u128, code: u8) {
        if self.views[self.place(view)] != EMPTY && !self.gave_up {
            let places = self.views.iter().zip(self.codes.iter()).filter(|(view, _)| **view != EMPTY);
            let all: Vec<(u128, u8)> = places.map(|(&view, &code)| (view, code)).chain([(view, code)]).collect();
            for _ in 0..TRIES {
                let next = |multiplier: u64| multiplier.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(2) | 1;
                self.multipliers = (next(self.multipliers.0), next(self.multipliers.1));
                self.views.fill(EMPTY);
                let fits = all.iter().all(|&(view, code)| {
                    let place = self.place(view);
                    self.codes[place] = code;
                    std::mem::replace(&mut self.views[place], view) == EMPTY
                });
                if fits {
                    return;
                }
            }
            // From now on the last one stays, and others are looked up again when they come.
            self.gave_up = true;
            for &(view, code) in &all {
                let place = self.place(view);
                self.views[place] = view;
                self.codes[place] = code;
            }
        }
        let place = self.place(view);
        self.views[place] = view;
        self.codes[place] = code;
    }
}

/// Codes of the values of an array, as far as rows referred to them: a dictionary in the file then costs a lookup for each value.
#[derive(Debug, Default)]
struct Selected {
    array: Option<ArrayRef>,
    /// [`UNSEEN`] where none did.
    codes: Vec<u16>,
}

impl Selected {
    fn is_of(&self, array: &ArrayRef) -> bool {
        self.array.as_ref().is_some_and(|known| Arc::ptr_eq(known, array))
    }
}

/// More than any code.
const UNSEEN: u16 = 0x100;

/// A view and its code.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    view: u128,
    /// The array of the value; 0 in an empty place.
    array: u64,
    code: u8,
}

impl CodeCache {
    /// The codes of `array`, a view array; NULLs stay NULL. `None` if the dictionary has no room for all values.
    pub(crate) fn encode(&mut self, dictionary: &Dictionary, array: &ArrayRef) -> Option<ArrayRef> {
        let (views, buffers) = view_parts(array);
        let Self { known, short, long, array: number, .. } = self;
        let short = short.get_or_insert_with(Short::default);
        long.resize(LONG, Seen::default());
        *number += 1;
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        let mut codes = vec![0u8; views.len()];
        for (block, (views, codes)) in views.chunks(BLOCK).zip(codes.chunks_mut(BLOCK)).enumerate() {
            if short.encode(views, codes) {
                continue;
            }
            for (row, (&view, code)) in views.iter().zip(codes).enumerate() {
                let row = block * BLOCK + row;
                if RowView(view).is_long() {
                    let seen = &mut long[slot(view, LONG)];
                    if seen.view == view && seen.array == *number {
                        *code = seen.code;
                    } else if is_valid(row) {
                        *code = look_up(known, dictionary, view, buffers)?;
                        *seen = Seen { view, array: *number, code: *code };
                    }
                } else if let Some(found) = short.find(view) {
                    *code = found;
                } else if is_valid(row) {
                    *code = look_up(known, dictionary, view, buffers)?;
                    short.insert(view, *code);
                }
            }
        }
        Some(Arc::new(UInt8Array::new(ScalarBuffer::from(codes), array.nulls().cloned())))
    }

    /// Whether rows at `positions` of `array` are better encoded by their positions: these are fewer, or they were seen before.
    fn repeats(&self, array: &ArrayRef, positions: &[u32]) -> bool {
        array.len() <= positions.len() || self.selected.is_of(array)
    }

    /// The codes of `column`, of views, as [`encode`](Self::encode).
    pub(crate) fn encode_column(
        &mut self,
        dictionary: &Dictionary,
        column: ColumnRef<'_>,
    ) -> Result<Option<ArrayRef>, VectorError> {
        match column.selection {
            Some(positions) if self.repeats(column.array, positions) => {
                Ok(self.encode_selected(dictionary, column.array, positions))
            }
            _ => Ok(self.encode(dictionary, &column.flatten()?)),
        }
    }

    /// The codes of the values at `positions` of `array`; values that no position names are not added to the dictionary.
    fn encode_selected(&mut self, dictionary: &Dictionary, array: &ArrayRef, positions: &[u32]) -> Option<ArrayRef> {
        if !self.selected.is_of(array) {
            self.selected.array = Some(Arc::clone(array));
            self.selected.codes.clear();
            self.selected.codes.resize(array.len().max(CODES), UNSEEN);
        }
        let known = self.selected.codes.as_slice();
        let mut all = 0;
        let mut codes = vec![0; positions.len()];
        let mut place = |code: &mut u8, known: u16| {
            all |= known;
            *code = known as u8;
        };
        // As an array, so that no position needs a check.
        match known.first_chunk::<CODES>().filter(|_| array.len() <= CODES) {
            Some(known) => {
                for (code, &position) in codes.iter_mut().zip(positions) {
                    place(code, known[usize::from(position as u8)]);
                }
            }
            None => {
                for (code, &position) in codes.iter_mut().zip(positions) {
                    place(code, known[position as usize]);
                }
            }
        }
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        if all >= UNSEEN {
            let (views, buffers) = view_parts(array);
            for (code, &position) in codes.iter_mut().zip(positions) {
                let position = position as usize;
                if self.selected.codes[position] == UNSEEN {
                    let is_valid = nulls.is_none_or(|nulls| nulls.is_valid(position));
                    let new =
                        if is_valid { look_up(&mut self.known, dictionary, views[position], buffers)? } else { 0 };
                    self.selected.codes[position] = u16::from(new);
                }
                *code = self.selected.codes[position] as u8;
            }
        }
        let nulls = nulls.map(|nulls| positions.iter().map(|&position| nulls.is_valid(position as usize)).collect());
        Some(Arc::new(UInt8Array::new(ScalarBuffer::from(codes), nulls)))
    }

    /// The values of `codes` as a view array of type `data_type`.
    pub(crate) fn decode(&mut self, dictionary: &Dictionary, codes: &ArrayRef, data_type: &DataType) -> ArrayRef {
        let codes = codes.as_primitive::<arrow_array::types::UInt8Type>();
        let nulls = codes.nulls().cloned();
        let known = |code: u8| usize::from(code) < self.views.len();
        if !codes.values().iter().all(|&code| known(code)) {
            self.load(dictionary);
        }
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let code_views = codes.values().iter().enumerate();
        let views: Vec<u128> = match &nulls {
            None => codes.values().iter().map(|&code| self.views[usize::from(code)]).collect(),
            Some(_) => {
                code_views.map(|(row, &code)| if is_null(row) { 0 } else { self.views[usize::from(code)] }).collect()
            }
        };
        let buffers: Vec<Buffer> = self.buffer.iter().cloned().collect();
        // SAFETY: the views were made over this one buffer, and values of string columns came from valid string arrays.
        unsafe {
            match data_type {
                DataType::Utf8View => Arc::new(StringViewArray::new_unchecked(views.into(), buffers, nulls)),
                _ => Arc::new(BinaryViewArray::new_unchecked(views.into(), buffers, nulls)),
            }
        }
    }

    /// Makes views of all values that the dictionary has by now. NULLs may have any code: all codes get a view.
    fn load(&mut self, dictionary: &Dictionary) {
        let mut bytes: Vec<u8> = Vec::new();
        self.views.clear();
        for code in 0..dictionary.len() {
            let value = dictionary.value(code as u8);
            let mut raw = [0u8; 16];
            raw[..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
            if value.len() <= RowView::INLINED {
                raw[4..4 + value.len()].copy_from_slice(value);
            } else {
                raw[4..8].copy_from_slice(&value[..4]);
                raw[12..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
                bytes.extend_from_slice(value);
            }
            self.views.push(u128::from_le_bytes(raw));
        }
        self.buffer = (!bytes.is_empty()).then(|| Buffer::from(bytes));
        if self.views.is_empty() {
            // Only NULLs so far, which have code 0.
            self.views.push(0);
        }
    }
}

/// The code of a value that was not seen lately.
#[cold]
fn look_up(known: &mut Known, dictionary: &Dictionary, view: u128, buffers: &[Buffer]) -> Option<u8> {
    let inline = RowView(view);
    let value = if inline.is_long() {
        let start = (view >> 96) as usize;
        &buffers[(view >> 64) as u32 as usize][start..start + inline.len()]
    } else {
        // SAFETY: the bytes of a short value are in the view itself, which lives here.
        unsafe { inline.bytes() }
    };
    if let Some(&code) = known.get(value) {
        return Some(code);
    }
    let code = dictionary.code(value)?;
    known.insert(value.into(), code);
    Some(code)
}

/// Where a view is looked for first, of `places`, a power of two.
#[inline(always)]
fn slot(view: u128, places: usize) -> usize {
    let mixed = (view as u64 ^ ((view >> 64) as u64).rotate_left(23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - places.ilog2())) as usize
}

/// Views and data buffers of a view array.
pub(crate) fn view_parts(array: &ArrayRef) -> (&[u128], &[Buffer]) {
    match array.data_type() {
        DataType::Utf8View => {
            let array = array.as_string_view();
            (array.views(), array.data_buffers())
        }
        _ => {
            let array = array.as_binary_view();
            (array.views(), array.data_buffers())
        }
    }
}
