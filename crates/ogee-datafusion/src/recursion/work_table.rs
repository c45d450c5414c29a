//! Rows of a recursive query that change from one iteration to the next: pages of the pool, and scans of them.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef, error::Result, execution::SendableRecordBatchStream, physical_plan::ExecutionPlan,
};
use ogee_memory::BufferManager;
use ogee_planner::{
    node::{Node, Work},
    table::BlockScan,
};
use parking_lot::RwLock;

use crate::table::{BLOCK_ROWS, Block, BlockWriter, PagedScan, coalescer};

/// Rows that change from one iteration to the next.
#[derive(Debug)]
pub(crate) struct WorkTable {
    name: String,
    schema: SchemaRef,
    memory: Arc<BufferManager>,
    blocks: RwLock<Vec<Arc<Block>>>,
}

impl WorkTable {
    pub(super) fn new(name: &str, schema: &SchemaRef, memory: &Arc<BufferManager>) -> Arc<Self> {
        let (schema, memory) = (Arc::clone(schema), Arc::clone(memory));
        Arc::new(Self { name: name.to_owned(), schema, memory, blocks: RwLock::default() })
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The columns of its rows.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What keeps the rows.
    pub(super) fn writer(&self) -> BlockWriter {
        BlockWriter::new(&self.schema, &self.memory)
    }

    /// All columns of the rows that are there now.
    pub(super) fn scan(self: &Arc<Self>) -> PagedScan {
        let projection = (0..self.schema.fields().len()).collect();
        WorkTableScan { table: Arc::clone(self), projection, schema: Arc::clone(&self.schema) }.now()
    }

    /// Has no rows any more.
    pub(super) fn clear(&self) {
        self.blocks.write().clear();
    }

    /// Has these rows and no others.
    pub(super) fn set(&self, blocks: Vec<Arc<Block>>) {
        *self.blocks.write() = blocks;
    }

    /// Adds `blocks`, and makes one of the last ones as long as the one before is not larger than those behind it.
    pub(super) fn add(&self, blocks: &[Arc<Block>]) -> Result<()> {
        let mut all = self.blocks.write();
        for block in blocks {
            let mut rows = block.rows();
            let mut first = all.len();
            while first > 0 && all[first - 1].rows() <= rows && rows + all[first - 1].rows() <= BLOCK_ROWS {
                first -= 1;
                rows += all[first].rows();
            }
            if first == all.len() {
                all.push(Arc::clone(block));
                continue;
            }
            let mut writer = BlockWriter::new(&self.schema, &self.memory);
            // Many small batches would take longer to read than their rows.
            let mut coalescer = coalescer(&self.schema);
            for block in all.drain(first..).chain([Arc::clone(block)]) {
                for batch in block.batches()? {
                    coalescer.push(&batch?)?;
                    while let Some(batch) = coalescer.next() {
                        writer.write(&batch)?;
                    }
                }
            }
            coalescer.finish()?;
            while let Some(batch) = coalescer.next() {
                writer.write(&batch)?;
            }
            all.extend(writer.finish()?);
        }
        Ok(())
    }
}

/// Some columns of a working table, whatever rows it has when it is read.
#[derive(Clone, Debug)]
pub(crate) struct WorkTableScan {
    table: Arc<WorkTable>,
    projection: Vec<usize>,
    schema: SchemaRef,
}

impl WorkTableScan {
    /// The scan of the rows that are there now.
    pub(crate) fn now(&self) -> PagedScan {
        let blocks = self.table.blocks.read().clone().into();
        PagedScan::new(blocks, self.projection.clone(), Arc::clone(&self.schema), Arc::clone(&self.table.memory))
    }
}

impl fmt::Display for WorkTableScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "name={}, projection=[{}]", self.table.name, names.join(", "))
    }
}

/// The scan as a node of a plan.
pub(crate) type WorkScanExec = Node<WorkTableScan>;

impl WorkTableScan {
    /// Whether it reads `table`.
    pub(super) fn is_of(&self, table: &Arc<WorkTable>) -> bool {
        Arc::ptr_eq(&self.table, table)
    }

    /// The scan of all columns.
    pub(super) fn all(table: &Arc<WorkTable>) -> Result<Arc<dyn ExecutionPlan>> {
        Self::node(table, &table.schema)
    }

    /// A node that reads the columns of `table` that `schema` has, found by name.
    pub(super) fn node(table: &Arc<WorkTable>, schema: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = schema.fields().iter().map(|field| table.schema.index_of(field.name()));
        let projection = columns.collect::<Result<_, _>>()?;
        let scan = Self { table: Arc::clone(table), projection, schema: Arc::clone(schema) };
        Ok(Arc::new(WorkScanExec::new(scan, Vec::new(), Arc::clone(schema))))
    }
}

impl Work for WorkTableScan {
    const NAME: &'static str = "WorkScanExec";

    fn run(&self) -> Result<SendableRecordBatchStream> {
        Ok(self.now().stream())
    }
}
