//! Tables that the engine reads by itself, from blocks: what planning asks of one, and its scan as a node of a plan.
//!
//! Not here: where rows are kept.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{array::RecordBatch, datatypes::FieldRef, error::ArrowError},
    error::Result,
    execution::SendableRecordBatchStream,
};
use ogee_exec::Source;

use crate::node::{Node, Work};

/// Batches of a block.
pub type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + 'a>;

/// Some columns of the rows that a table had when its scan was planned. They are in blocks, none of which ever changes.
pub trait BlockScan: fmt::Debug + fmt::Display + Send + Sync {
    /// The number of each block, which no other block ever has, and its rows.
    fn blocks(&self) -> Vec<(u64, u64)>;

    /// Bytes of block `block`, counted from the first.
    fn block_bytes(&self, block: usize) -> u64;

    /// Some columns, found by name, of the batches of block `block`; also columns that the scan does not read.
    ///
    /// # Errors
    /// If there is no such column, or the block cannot be read.
    fn batches(&self, block: usize, fields: &[FieldRef]) -> Result<Batches<'_>>;

    /// Rows that are expected, where the table is of what is explained and not run; `None` where its rows are there.
    fn planned_rows(&self) -> Option<f64>;

    /// A source of the rows.
    fn source(&self) -> Arc<dyn Source>;

    /// The rows outside of an island.
    fn stream(&self) -> SendableRecordBatchStream;
}

/// The scan of such a table.
#[derive(Clone, Debug)]
pub struct TableScan(pub Arc<dyn BlockScan>);

/// The scan as a node of a plan. Where no island takes it over, it runs by itself.
pub type TableExec = Node<TableScan>;

impl fmt::Display for TableScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Work for TableScan {
    const NAME: &'static str = "TableExec";

    fn known_rows(&self) -> Option<usize> {
        let rows = || self.0.blocks().into_iter().map(|(_, rows)| rows as usize).sum();
        self.0.planned_rows().is_none().then(rows)
    }

    fn run(&self) -> Result<SendableRecordBatchStream> {
        Ok(self.0.stream())
    }
}
