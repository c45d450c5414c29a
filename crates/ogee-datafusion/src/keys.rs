//! Keys of a table in memory, `PRIMARY KEY` and `UNIQUE`: looked at by every statement that adds rows.
//!
//! A table keeps the keys that its rows have as bytes, in memory that the pool knows of. A statement collects its own, and compares them with the table's when all of its
//! rows are there: it adds all of them or none.
//!
//! 1. Keys and blocks change under one lock, so that a key in the table is in these sets.
//! 2. A key with a NULL in it is not compared, and a primary key has none.
//! 3. The optimizer is not told: DataFusion would take what depends on a key for granted behind outer joins too.
//!
//! Not here: foreign keys and checks, which are refused (`ogee_sql`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, RecordBatch},
        datatypes::{DataType, Float32Type, Float64Type, SchemaRef},
        row::{RowConverter, SortField},
        util::display::{ArrayFormatter, FormatOptions},
    },
    common::{Constraint, Constraints, exec_err},
    error::{DataFusionError, Result},
};
use ogee_memory::{BufferManager, Reservation};
use parking_lot::Mutex;

/// Bytes of a key in a set beside its own: the pointer and the row's number in a table that is seven eighths full at most and half at least, and what the allocator adds.
const ENTRY_BYTES: usize = 80;

/// Room is asked for in steps.
const STEP_BYTES: usize = 64 << 10;

/// One key and the rows that have it.
type Rows = HashMap<Box<[u8]>, u64>;

/// The keys of a table.
#[derive(Debug)]
pub(crate) struct Keys {
    keys: Vec<Key>,
    memory: Arc<BufferManager>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// For each key, those that rows of the table have.
    rows: Vec<Rows>,
    held: Option<Reservation>,
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
            let (columns, primary) = match constraint {
                Constraint::PrimaryKey(columns) => (columns.clone(), true),
                Constraint::Unique(columns) => (columns.clone(), false),
            };
            let types = columns.iter().map(|&column| SortField::new(schema.field(column).data_type().clone()));
            let converter = RowConverter::new(types.collect())?;
            let names = columns.iter().map(|&column| schema.field(column).name().clone()).collect();
            keys.push(Key { names, columns, primary, converter });
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let taken = Taken { rows: vec![Rows::new(); keys.len()], held: None };
        Ok(Some(Arc::new(Self { keys, memory: Arc::clone(memory), taken: Mutex::new(taken) })))
    }

    /// The columns of each key, and whether it is the primary one.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&[usize], bool)> {
        self.keys.iter().map(|key| (key.columns.as_slice(), key.primary))
    }

    /// A statement that adds rows begins.
    pub(crate) fn begin(self: &Arc<Self>) -> NewRows {
        NewRows { rows: vec![Rows::new(); self.keys.len()], keys: Arc::clone(self), seen: 0, bytes: 0, held: None }
    }
}

impl Key {
    /// The columns of the key, in which values that are equal have the same bits.
    fn columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.columns.iter().map(|&column| canonical(batch.column(column))).collect()
    }

    /// `id = 1, name = x`
    fn shown(&self, key: &[u8]) -> String {
        let parser = self.converter.parser();
        let Ok(columns) = self.converter.convert_rows([parser.parse(key)]) else { return self.names.join(", ") };
        let values = self.names.iter().zip(&columns).map(|(name, column)| {
            let value = ArrayFormatter::try_new(column, &FormatOptions::default());
            format!("{name} = {}", value.map_or_else(|_| "?".to_owned(), |value| value.value(0).to_string()))
        });
        values.collect::<Vec<_>>().join(", ")
    }

    fn repeated<T>(&self, key: &[u8], row: u64, where_before: &str) -> Result<T> {
        let kind = if self.primary { "PRIMARY KEY" } else { "UNIQUE" };
        let names = self.names.join(", ");
        exec_err!("row {row} has the key {}, as {where_before}, and {kind} ({names}) allows it once", self.shown(key))
    }
}

/// The keys of the rows that a statement adds.
pub(crate) struct NewRows {
    keys: Arc<Keys>,
    rows: Vec<Rows>,
    seen: u64,
    bytes: usize,
    held: Option<Reservation>,
}

impl NewRows {
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

    /// Has the rows join the table's, or take the place of them, together with what `publish` does.
    ///
    /// # Errors
    /// A row of the table has the key of one of these.
    pub(crate) fn join(self, replaces: bool, publish: impl FnOnce()) -> Result<()> {
        let mut taken = self.keys.taken.lock();
        if replaces {
            (taken.rows, taken.held) = (self.rows, self.held);
            publish();
            return Ok(());
        }
        for ((key, new), old) in self.keys.keys.iter().zip(&self.rows).zip(&taken.rows) {
            let repeated = new.iter().filter(|(bytes, _)| old.contains_key(*bytes)).min_by_key(|(_, row)| **row);
            if let Some((bytes, row)) = repeated {
                return key.repeated(bytes, *row, "the table has");
            }
        }
        let bytes = taken.held.as_ref().map_or(0, Reservation::bytes) + self.bytes;
        hold(&self.keys.memory, &mut taken.held, bytes)?;
        for (old, new) in taken.rows.iter_mut().zip(self.rows) {
            old.extend(new);
        }
        publish();
        Ok(())
    }
}

/// Has `held` be for `bytes` at least.
fn hold(memory: &Arc<BufferManager>, held: &mut Option<Reservation>, bytes: usize) -> Result<()> {
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
