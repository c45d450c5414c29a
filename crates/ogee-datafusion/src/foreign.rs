//! Keys of other tables: each row of a table with a `FOREIGN KEY` has values that a row of the other has, or NULL.
//!
//! Both sides are looked at when the rows of a statement are there, right before everybody sees them: those that come need a row of the other table ([`Needed`]), and those that go may be needed by
//! none ([`Foreign::check`]). One statement at a time does that, so that nothing goes between a look and the change.
//!
//! Which rows need those that go is found by reading the tables that refer to them: there is no index of that.
//!
//! Not here: which tables refer to which (`session::foreign`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::array::{ArrayRef, RecordBatch},
    catalog::TableProvider,
    common::exec_err,
    error::Result,
};
use ogee_memory::{BufferManager, Reservation};

use crate::{
    keys::{ENTRY_BYTES, Keys, NewRows, hold},
    table::{Block, PagedTable},
};

/// What a table has to do with others.
#[derive(Default)]
pub(crate) struct Foreign {
    pub(crate) parents: Vec<Parent>,
    pub(crate) children: Vec<Child>,
    /// Held from a look at another table until the change.
    pub(crate) one_at_a_time: Arc<tokio::sync::Mutex<()>>,
}

/// A table that has the rows which columns refer to.
pub(crate) struct Parent {
    /// The columns that refer to it, in the order of its key.
    pub(crate) columns: Vec<usize>,
    pub(crate) names: Vec<String>,
    pub(crate) name: String,
    /// Which of its keys.
    pub(crate) key: usize,
    pub(crate) keys: Arc<Keys>,
    pub(crate) is_same: bool,
}

/// A table that refers to a key.
pub(crate) struct Child {
    pub(crate) columns: Vec<usize>,
    pub(crate) name: String,
    /// Which of the keys of the table that it refers to.
    pub(crate) key: usize,
    pub(crate) table: Arc<dyn TableProvider>,
    pub(crate) is_same: bool,
}

/// A table while it changes.
pub(crate) struct Rows<'a> {
    pub(crate) name: &'a str,
    pub(crate) memory: &'a Arc<BufferManager>,
    /// Its blocks, and a bit for each row that goes.
    pub(crate) blocks: &'a [Arc<Block>],
    pub(crate) gone: &'a [Option<Vec<u64>>],
    pub(crate) all_gone: bool,
    pub(crate) keys: Option<&'a NewRows>,
}

/// The values that new rows need a row of other tables for, and one of the rows that do.
#[derive(Default)]
pub(crate) struct Needed {
    of_parents: Vec<HashMap<Box<[u8]>, u64>>,
    bytes: usize,
    held: Option<Reservation>,
}

impl Needed {
    /// Adds those of `batch`, the first row of which is row `first` of the statement.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn add(
        &mut self,
        foreign: &Foreign,
        batch: &RecordBatch,
        first: u64,
        memory: &Arc<BufferManager>,
    ) -> Result<()> {
        self.of_parents.resize_with(foreign.parents.len(), HashMap::new);
        for (parent, needed) in foreign.parents.iter().zip(&mut self.of_parents) {
            let columns: Vec<ArrayRef> = parent.columns.iter().map(|&at| Arc::clone(batch.column(at))).collect();
            for (row, key) in parent.keys.of(parent.key, &columns)?.into_iter().enumerate() {
                let Some(key) = key else { continue };
                let bytes = key.len() + ENTRY_BYTES;
                needed.entry(key).or_insert_with(|| {
                    self.bytes += bytes;
                    first + row as u64
                });
            }
        }
        hold(memory, &mut self.held, self.bytes)
    }
}

impl Foreign {
    /// Whether there is anything to look at.
    pub(crate) fn is_any(&self) -> bool {
        !self.parents.is_empty() || !self.children.is_empty()
    }

    /// # Errors
    /// A row that comes needs one that there is not, or one that goes is needed.
    pub(crate) async fn check(&self, needed: &Needed, rows: &Rows<'_>) -> Result<()> {
        for (parent, needed) in self.parents.iter().zip(&needed.of_parents) {
            let is_new = |key: &[u8]| parent.is_same && rows.keys.is_some_and(|keys| keys.has_new(parent.key, key));
            // Keys that do not change are not told apart.
            let goes = |key: &[u8]| {
                parent.is_same && rows.keys.is_some_and(|keys| rows.all_gone || keys.has_gone(parent.key, key))
            };
            let is_missing = |key: &[u8]| !is_new(key) && (goes(key) || !parent.keys.has(parent.key, key));
            if let Some((key, row)) = needed.iter().filter(|(key, _)| is_missing(key)).min_by_key(|(_, row)| **row) {
                let names = parent.names.join(", ");
                return exec_err!(
                    "row {row} of table '{}' refers to {} of table '{}', which has no such row (FOREIGN KEY ({names}))",
                    rows.name,
                    parent.keys.shown(parent.key, key),
                    parent.name
                );
            }
        }
        let Some(keys) = rows.keys else { return Ok(()) };
        for child in &self.children {
            if !rows.all_gone && !keys.has_any_gone(child.key) {
                continue;
            }
            let breaks = |key: &[u8]| match rows.all_gone {
                true => !keys.has_new(child.key, key),
                false => keys.has_gone(child.key, key) && !keys.has_new(child.key, key),
            };
            let of_child = child.table.downcast_ref::<PagedTable>().map(PagedTable::blocks);
            let blocks: &[Arc<Block>] = match (&of_child, child.is_same) {
                (_, true) => rows.blocks,
                (Some(blocks), false) => blocks,
                (None, false) => continue,
            };
            for (at, block) in blocks.iter().enumerate() {
                let bytes = 2 * block.batch_bytes();
                let failed = |error| {
                    datafusion::error::DataFusionError::External(Box::new(ogee_functions::Error::Memory(error)))
                };
                let _held = rows.memory.reserve("rows that refer to others", bytes).map_err(failed)?;
                let gone = if child.is_same { rows.gone.get(at).and_then(Option::as_ref) } else { None };
                let mut first = 0;
                for batch in block.batches_of(&child.columns)? {
                    let batch = batch?;
                    // They are in the order of the table.
                    let mut sorted = child.columns.clone();
                    sorted.sort_unstable();
                    let place = |column: &usize| sorted.iter().position(|other| other == column).unwrap_or_default();
                    let columns: Vec<ArrayRef> =
                        child.columns.iter().map(|column| Arc::clone(batch.column(place(column)))).collect();
                    for (row, key) in keys.keys().of(child.key, &columns)?.into_iter().enumerate() {
                        let row = first + row;
                        // All of a block that goes as a whole.
                        let goes = gone.is_some_and(|bits| bits.is_empty() || bits[row / 64] & (1 << (row % 64)) != 0);
                        if let Some(key) = key
                            && !goes
                            && breaks(&key)
                        {
                            return exec_err!(
                                "a row of table '{}' refers to {} of table '{}' (FOREIGN KEY), which would be gone; change it before",
                                child.name,
                                keys.keys().shown(child.key, &key),
                                rows.name
                            );
                        }
                    }
                    first += batch.num_rows();
                    // Here the statement may be interrupted.
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(())
    }
}
