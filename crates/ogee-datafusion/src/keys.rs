//! Keys of a table in memory, `PRIMARY KEY` and `UNIQUE`: looked at by every statement that adds rows.
//!
//! A table keeps the keys that its rows have as bytes, in memory that the pool knows of. A statement collects its own, and compares them with the table's when all of its
//! rows are there: it adds all of them or none.
//!
//! 1. Keys and blocks change under one lock, so that a key in the table is in these sets.
//! 2. A key with a NULL in it is not compared, and a primary key has none.
//! 3. The optimizer is not told: DataFusion would take what depends on a key for granted behind outer joins too.
//! 4. Keys as they were at some time can be kept ([`Keys::as_now`]) and put back. While somebody keeps them, changes are noted beside the set that both have, and become part of it when
//!    nobody does any more: what is kept costs what has changed since.
//!
//! Not here: keys of other tables (`foreign`), and checks, which statements evaluate with the rows (`changes`).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, RecordBatch},
        datatypes::{DataType, Float32Type, Float64Type, SchemaRef},
        row::{RowConverter, SortField},
    },
    common::{Constraint, Constraints, exec_err},
    error::{DataFusionError, Result},
};
use ogee_memory::{BufferManager, Reservation};
use parking_lot::Mutex;

use crate::changing::named_value;

/// Bytes of a key in a set beside its own: the pointer and the row's number in a table that is seven eighths full at most and half at least, and what the allocator adds.
pub(crate) const ENTRY_BYTES: usize = 80;

/// Room is asked for in steps.
const STEP_BYTES: usize = 64 << 10;

/// Keys and the rows of the statement that have them.
type Rows = HashMap<Box<[u8]>, u64>;

/// Keys of rows that go.
type Gone = HashSet<Box<[u8]>>;

/// The keys of a table.
#[derive(Debug)]
pub(crate) struct Keys {
    keys: Vec<Key>,
    memory: Arc<BufferManager>,
    taken: Arc<Mutex<Taken>>,
}

/// The keys that the rows of a table have: `shared` without `gone`, and `added`.
#[derive(Debug, Default)]
struct Taken {
    shared: Arc<Vec<Gone>>,
    added: Vec<Gone>,
    gone: Vec<Gone>,
    /// What all of them take.
    bytes: usize,
    held: Option<Reservation>,
}

/// Keys as they were. They take no memory but for what has changed before and since.
#[derive(Debug)]
pub(crate) struct KeptKeys {
    shared: Arc<Vec<Gone>>,
    added: Vec<Gone>,
    gone: Vec<Gone>,
}

impl Taken {
    fn new(keys: usize) -> Self {
        let none = || vec![Gone::new(); keys];
        Self { shared: Arc::new(none()), added: none(), gone: none(), bytes: 0, held: None }
    }

    fn has(&self, key: usize, bytes: &[u8]) -> bool {
        self.added[key].contains(bytes) || self.shared[key].contains(bytes) && !self.gone[key].contains(bytes)
    }

    fn apply(&mut self, gone: &[Gone], new: Vec<Rows>) {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            for (key, shared) in shared.iter_mut().enumerate() {
                let mut remove = |bytes: &[u8]| {
                    if shared.remove(bytes) {
                        self.bytes = self.bytes.saturating_sub(bytes.len() + ENTRY_BYTES);
                    }
                };
                self.gone[key].drain().for_each(|bytes| remove(&bytes));
                shared.extend(self.added[key].drain());
                let mut remove = |bytes: &[u8]| {
                    if shared.remove(bytes) {
                        self.bytes = self.bytes.saturating_sub(bytes.len() + ENTRY_BYTES);
                    }
                };
                gone[key].iter().for_each(|bytes| remove(bytes));
            }
            for (shared, new) in shared.iter_mut().zip(new) {
                shared.extend(new.into_keys());
            }
            return;
        }
        for (key, new) in new.into_iter().enumerate() {
            for bytes in &gone[key] {
                if !self.added[key].remove(bytes) {
                    self.gone[key].insert(bytes.clone());
                }
            }
            for bytes in new.into_keys() {
                if !self.gone[key].remove(&bytes) {
                    self.added[key].insert(bytes);
                }
            }
        }
    }
}

#[derive(Debug)]
struct Key {
    names: Vec<String>,
    columns: Vec<usize>,
    primary: bool,
    converter: RowConverter,
}

impl Keys {
    /// What `constraints` ask of rows of `schema`; nothing if there are none.
    ///
    /// # Errors
    /// A column has a type that cannot be compared.
    pub(crate) fn new(
        constraints: &Constraints,
        schema: &SchemaRef,
        memory: &Arc<BufferManager>,
    ) -> Result<Option<Arc<Self>>> {
        let mut keys = Vec::new();
        for constraint in constraints.iter() {
            keys.push(match constraint {
                Constraint::PrimaryKey(columns) => Key::new(columns, true, schema)?,
                Constraint::Unique(columns) => Key::new(columns, false, schema)?,
            });
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let taken = Taken::new(keys.len());
        Ok(Some(Arc::new(Self { keys, memory: Arc::clone(memory), taken: Arc::new(Mutex::new(taken)) })))
    }

    /// The same keys of the same rows, whose columns have the names of `schema`.
    ///
    /// # Errors
    /// A column has a type that cannot be compared.
    pub(crate) fn renamed(&self, schema: &SchemaRef) -> Result<Arc<Self>> {
        let keys = self.keys.iter().map(|key| Key::new(&key.columns, key.primary, schema)).collect::<Result<_>>()?;
        Ok(Arc::new(Self { keys, memory: Arc::clone(&self.memory), taken: Arc::clone(&self.taken) }))
    }

    /// The columns of each key, and whether it is the primary one.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&[usize], bool)> {
        self.keys.iter().map(|key| (key.columns.as_slice(), key.primary))
    }

    /// Key number `key` of rows whose columns of it are these, in its order; nothing of a row with NULL in one.
    pub(crate) fn of(&self, key: usize, columns: &[ArrayRef]) -> Result<Vec<Option<Box<[u8]>>>> {
        let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
        let converted = self.keys[key].converter.convert_columns(&columns)?;
        let is_whole = |row: usize| columns.iter().all(|column| column.is_valid(row));
        let rows = converted.iter().enumerate();
        Ok(rows.map(|(row, bytes)| is_whole(row).then(|| bytes.as_ref().into())).collect())
    }

    /// Whether a row of the table has `bytes` for key number `key`.
    pub(crate) fn has(&self, key: usize, bytes: &[u8]) -> bool {
        self.taken.lock().has(key, bytes)
    }

    /// `id = 1`: what `bytes` are for key number `key`.
    pub(crate) fn shown(&self, key: usize, bytes: &[u8]) -> String {
        self.keys[key].shown(bytes)
    }

    /// A statement that adds rows begins.
    pub(crate) fn begin(self: &Arc<Self>) -> NewRows {
        NewRows {
            rows: vec![Rows::new(); self.keys.len()],
            gone: vec![Gone::new(); self.keys.len()],
            keys: Arc::clone(self),
            seen: 0,
            bytes: 0,
            held: None,
        }
    }

    /// Which of the rows of `batch` have a key among `which` that a row of the table has, or one of `seen`. Those of the others are in `seen` then: of several new rows with one key only
    /// the first has none.
    pub(crate) fn conflicts(&self, batch: &RecordBatch, which: &[usize], seen: &mut SeenKeys) -> Result<Vec<Conflict>> {
        let mut found = vec![Conflict::None; batch.num_rows()];
        let mut converted = Vec::new();
        for &key in which {
            let key = &self.keys[key];
            let columns = key.columns(batch);
            converted.push((key.converter.convert_columns(&columns)?, columns));
        }
        seen.keys.resize_with(which.len(), Gone::new);
        let taken = self.taken.lock();
        for (row, found) in found.iter_mut().enumerate() {
            let bytes = |at: usize| {
                let (converted, columns): &(_, Vec<ArrayRef>) = &converted[at];
                columns.iter().all(|column| column.is_valid(row)).then(|| converted.row(row))
            };
            for (at, &key) in which.iter().enumerate() {
                let Some(bytes) = bytes(at) else { continue };
                if seen.keys[at].contains(bytes.as_ref()) {
                    *found = Conflict::WithNew;
                    break;
                }
                if taken.has(key, bytes.as_ref()) {
                    *found = Conflict::WithTable;
                }
            }
            if *found != Conflict::WithNew {
                for (at, keys) in seen.keys.iter_mut().enumerate() {
                    if let Some(bytes) = bytes(at) {
                        let bytes: Box<[u8]> = bytes.as_ref().into();
                        seen.bytes += bytes.len() + ENTRY_BYTES;
                        keys.insert(bytes);
                    }
                }
            }
        }
        drop(taken);
        hold(&self.memory, &mut seen.held, seen.bytes)?;
        Ok(found)
    }

    /// The keys as they are, to be put back perhaps.
    pub(crate) fn as_now(&self) -> KeptKeys {
        let taken = self.taken.lock();
        KeptKeys { shared: Arc::clone(&taken.shared), added: taken.added.clone(), gone: taken.gone.clone() }
    }

    /// Puts `kept` back, together with what `publish` does.
    pub(crate) fn put_back(&self, kept: KeptKeys, publish: impl FnOnce()) {
        let mut taken = self.taken.lock();
        let KeptKeys { shared, added, gone } = kept;
        (taken.shared, taken.added, taken.gone) = (shared, added, gone);
        publish();
    }
}

impl Key {
    fn new(columns: &[usize], primary: bool, schema: &SchemaRef) -> Result<Self> {
        let types = columns.iter().map(|&column| SortField::new(schema.field(column).data_type().clone()));
        let converter = RowConverter::new(types.collect())?;
        let names = columns.iter().map(|&column| schema.field(column).name().clone()).collect();
        Ok(Self { names, columns: columns.to_vec(), primary, converter })
    }

    /// The columns of the key, in which values that are equal have the same bits.
    fn columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.columns.iter().map(|&column| canonical(batch.column(column))).collect()
    }

    /// `id = 1, name = x`
    fn shown(&self, key: &[u8]) -> String {
        let parser = self.converter.parser();
        let Ok(columns) = self.converter.convert_rows([parser.parse(key)]) else { return self.names.join(", ") };
        let values = self.names.iter().zip(&columns).map(|(name, column)| named_value(name, column, 0, ""));
        values.collect::<Vec<_>>().join(", ")
    }

    fn repeated<T>(&self, key: &[u8], row: u64, where_before: &str) -> Result<T> {
        let kind = if self.primary { "PRIMARY KEY" } else { "UNIQUE" };
        let names = self.names.join(", ");
        exec_err!("row {row} has the key {}, as {where_before}, and {kind} ({names}) allows it once", self.shown(key))
    }
}

/// Whether a new row has the key of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    None,
    /// Of one that the statement added before.
    WithNew,
    /// Of one of the table's.
    WithTable,
}

/// The keys of new rows that a statement has looked at.
#[derive(Default)]
pub(crate) struct SeenKeys {
    keys: Vec<Gone>,
    bytes: usize,
    held: Option<Reservation>,
}

/// The keys of the rows that a statement adds, and of those that it takes away.
pub(crate) struct NewRows {
    keys: Arc<Keys>,
    rows: Vec<Rows>,
    gone: Vec<Gone>,
    seen: u64,
    bytes: usize,
    held: Option<Reservation>,
}

impl NewRows {
    /// The keys of the table.
    pub(crate) fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Whether a row that comes has `bytes` for key number `key`.
    pub(crate) fn has_new(&self, key: usize, bytes: &[u8]) -> bool {
        self.rows[key].contains_key(bytes)
    }

    /// Whether a row that goes has it.
    pub(crate) fn has_gone(&self, key: usize, bytes: &[u8]) -> bool {
        self.gone[key].contains(bytes)
    }

    /// Whether any row goes that has key number `key`.
    pub(crate) fn has_any_gone(&self, key: usize) -> bool {
        !self.gone[key].is_empty()
    }

    /// Adds the rows of `batch`.
    ///
    /// # Errors
    /// Two rows have one key, a primary key is NULL, or there is no memory.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        for (key, rows) in self.keys.keys.iter().zip(&mut self.rows) {
            let columns = key.columns(batch);
            let converted = key.converter.convert_columns(&columns)?;
            for (at, bytes) in converted.iter().enumerate() {
                let row = self.seen + at as u64 + 1;
                if let Some(null) = columns.iter().position(|column| column.is_null(at)) {
                    if key.primary {
                        let name = &key.names[null];
                        return exec_err!("row {row} has NULL for column '{name}' of the PRIMARY KEY");
                    }
                    continue;
                }
                let bytes: Box<[u8]> = bytes.as_ref().into();
                self.bytes += bytes.len() + ENTRY_BYTES;
                if let Some(before) = rows.insert(bytes, row) {
                    let bytes = converted.row(at);
                    return key.repeated(bytes.as_ref(), row, &format!("row {before} has"));
                }
            }
        }
        self.seen += batch.num_rows() as u64;
        hold(&self.keys.memory, &mut self.held, self.bytes)
    }

    /// Adds the rows of `batch` to those that go.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn take_away(&mut self, batch: &RecordBatch) -> Result<()> {
        for (key, gone) in self.keys.keys.iter().zip(&mut self.gone) {
            let columns = key.columns(batch);
            let converted = key.converter.convert_columns(&columns)?;
            for (at, bytes) in converted.iter().enumerate() {
                if columns.iter().all(|column| column.is_valid(at)) {
                    let bytes: Box<[u8]> = bytes.as_ref().into();
                    self.bytes += bytes.len() + ENTRY_BYTES;
                    gone.insert(bytes);
                }
            }
        }
        hold(&self.keys.memory, &mut self.held, self.bytes)
    }

    /// Has the rows join the table's, or take the place of them, together with what `publish` does.
    ///
    /// # Errors
    /// A row of the table that does not go has the key of one of these; those of `publish`. Nothing has changed then.
    pub(crate) fn join(self, replaces: bool, publish: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut taken = self.keys.taken.lock();
        if replaces {
            publish()?;
            let added = self.rows.into_iter().map(|rows| rows.into_keys().collect()).collect();
            *taken = Taken {
                shared: Arc::new(added),
                bytes: self.bytes,
                held: self.held,
                ..Taken::new(self.keys.keys.len())
            };
            return Ok(());
        }
        for (at, (key, new)) in self.keys.keys.iter().zip(&self.rows).enumerate() {
            let is_taken = |bytes: &[u8]| taken.has(at, bytes) && !self.gone[at].contains(bytes);
            let repeated = new.iter().filter(|(bytes, _)| is_taken(bytes)).min_by_key(|(_, row)| **row);
            if let Some((bytes, row)) = repeated {
                return key.repeated(bytes, *row, "the table has");
            }
        }
        let bytes = taken.bytes + self.bytes;
        hold(&self.keys.memory, &mut taken.held, bytes)?;
        publish()?;
        taken.bytes = bytes;
        taken.apply(&self.gone, self.rows);
        Ok(())
    }
}

/// Has `held` be for `bytes` at least.
pub(crate) fn hold(memory: &Arc<BufferManager>, held: &mut Option<Reservation>, bytes: usize) -> Result<()> {
    let failed = |error| DataFusionError::External(Box::new(ogee_functions::Error::Memory(error)));
    match held {
        Some(held) if held.bytes() >= bytes => Ok(()),
        Some(held) => held.resize(bytes.next_multiple_of(STEP_BYTES)).map_err(failed),
        None => {
            *held = Some(memory.reserve("keys", bytes.next_multiple_of(STEP_BYTES)).map_err(failed)?);
            Ok(())
        }
    }
}

/// -0.0 is 0.0, and every NaN is the same.
fn canonical(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            let same = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(same))
        }
        DataType::Float32 => {
            let same = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(same))
        }
        _ => Arc::clone(column),
    }
}
