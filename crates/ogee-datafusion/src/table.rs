//! Tables in memory: rows in pages of the pool, which spill like everything else there.
//!
//! A table is a list of blocks; a block is an Arrow stream of some batches on a chain of pages, and the morsel of a scan. Blocks are added
//! by statements as a whole and never change, so that a scan sees the table as it was when it was planned, and a dropped table
//! is gone when its last scan is. A statement that takes rows away writes the blocks anew that have some of them, and puts these in the place of those (`changing`).
//!
//! Not here: persistence, which rows a statement changes (`session::changes`).
#![expect(unsafe_code, reason = "bytes that were written here are not validated again")]

use std::{
    fmt,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::{Array, Int64Array, RecordBatch, RecordBatchOptions},
        datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
        error::ArrowError,
        ipc::{reader::StreamReader, writer::StreamWriter},
    },
    catalog::{Session, TableProvider},
    common::{Constraints, exec_err, not_impl_err},
    datasource::{
        TableType,
        sink::{DataSink, DataSinkExec},
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::{Expr, dml::InsertOp},
    physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, stream::RecordBatchStreamAdapter},
};
use futures::StreamExt;
use ogee_exec::{ExecContext, ExecError, LaneOrder, RowOrder, Source, SourceLocal, SourceStep};
use ogee_memory::{BufferManager, PAGE_SIZE, Reservation};
use ogee_planner::table::{Batches, BlockScan, TableExec, TableScan};
use ogee_scheduler::TaskContext as WorkerContext;
use ogee_sql::changes::Definition;
use ogee_vector::{Chunk, normalize_array, normalize_schema};
use parking_lot::{Mutex, RwLock};

use crate::{
    coalesce::{Coalescer, bytes_of, dense},
    keys::Keys,
    page_chain::{ChainReader, PageChain},
};

/// The column of the numbers of rows, where they are wanted.
pub(crate) const ROW: &str = ogee_sql::changes::ROW;

/// Rows of a batch in a block: what decodes well.
const BATCH_ROWS: usize = 8192;

/// A block is closed at about the rows of a morsel, or before, so that wide tables have morsels of bounded size.
pub(crate) const BLOCK_ROWS: usize = 15 * BATCH_ROWS;
const BLOCK_BYTES: usize = 16 << 20;

/// Bytes of a batch, unless a row has more.
const BATCH_BYTES: usize = 4 << 20;

/// Puts rows of `schema` together into batches of a block.
pub(crate) fn coalescer(schema: &SchemaRef) -> Coalescer {
    Coalescer::new(schema, BATCH_ROWS, BATCH_BYTES)
}

/// Where blocks are to be shared out, one is closed at this part of the rows before it, if it fills a page: a small table has some for each thread too.
const BLOCK_PART: usize = 8;

/// A table whose rows are pages of the pool.
#[derive(Debug)]
pub(crate) struct PagedTable {
    schema: SchemaRef,
    memory: Arc<BufferManager>,
    keys: Option<Arc<Keys>>,
    constraints: Constraints,
    defaults: Vec<(String, Expr)>,
    definition: Definition,
    blocks: Arc<RwLock<Vec<Arc<Block>>>>,
    cte: Option<Arc<Cte>>,
}

/// The blocks that a table had at some time.
pub(crate) type Blocks = Arc<[Arc<Block>]>;

/// The common table expression whose rows a table has.
#[derive(Debug)]
struct Cte {
    name: String,
    /// How many rows are expected of it, if it is not run.
    planned_rows: Option<f64>,
}

/// Some batches of a table.
#[derive(Debug)]
pub(crate) struct Block {
    /// Told once: which rows a sample was taken of.
    number: u64,
    bytes: PageChain,
    rows: usize,
    /// Bytes of the largest batch when it is decoded.
    batch_bytes: usize,
}

impl Block {
    /// Which it is; no other has its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many rows it has.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the largest batch when it is decoded.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// All columns of its rows.
    pub(crate) fn batches(&self) -> Result<StreamReader<ChainReader>> {
        self.reader(None)
    }

    /// Some columns of its rows, in the order of the table.
    pub(crate) fn batches_of(&self, columns: &[usize]) -> Result<StreamReader<ChainReader>> {
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        self.reader(Some(columns))
    }

    /// Some columns of its rows, or all.
    fn reader(&self, projection: Option<Vec<usize>>) -> Result<StreamReader<ChainReader>> {
        let reader = StreamReader::try_new(self.bytes.reader(), projection)?;
        // SAFETY: `BlockWriter` wrote the bytes from arrays, which are valid, and they never change: pages that come back from the temporary space have
        // the checksum that they went with. To validate strings again took a third of the time of reading them.
        Ok(unsafe { reader.with_skip_validation(true) })
    }
}

impl PagedTable {
    /// A table without rows.
    pub(crate) fn new(schema: SchemaRef, memory: Arc<BufferManager>) -> Self {
        Self {
            schema,
            memory,
            keys: None,
            constraints: Constraints::default(),
            defaults: Vec::new(),
            definition: Definition::default(),
            blocks: Arc::default(),
            cte: None,
        }
    }

    /// A table of the rows in `blocks`.
    pub(crate) fn of_blocks(schema: SchemaRef, memory: Arc<BufferManager>, blocks: Vec<Arc<Block>>) -> Self {
        Self { blocks: Arc::new(RwLock::new(blocks)), ..Self::new(schema, memory) }
    }

    /// The same, with what its definition says of its columns and rows.
    pub(crate) fn with_definition(self, definition: Definition) -> Self {
        Self { definition, ..self }
    }

    /// The same, with the keys that `constraints` name, and values for columns that an `INSERT` leaves out.
    ///
    /// # Errors
    /// A key has a column that cannot be compared.
    pub(crate) fn with_keys(self, constraints: &Constraints, defaults: Vec<(String, Expr)>) -> Result<Self> {
        let keys = Keys::new(constraints, &self.schema, &self.memory)?;
        Ok(Self { keys, constraints: constraints.clone(), defaults, ..self })
    }

    /// The same rows and keys, of which other things are said: names, and what may be NULL.
    ///
    /// # Errors
    /// A key has a column that cannot be compared.
    pub(crate) fn said(
        &self,
        schema: SchemaRef,
        definition: Definition,
        defaults: Vec<(String, Expr)>,
    ) -> Result<Self> {
        Ok(Self {
            memory: Arc::clone(&self.memory),
            keys: self.keys.as_ref().map(|keys| keys.renamed(&schema)).transpose()?,
            constraints: self.constraints.clone(),
            blocks: Arc::clone(&self.blocks),
            cte: None,
            schema,
            definition,
            defaults,
        })
    }

    /// What its definition says of its columns and rows.
    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The keys that were declared.
    pub(crate) fn declared_keys(&self) -> &Constraints {
        &self.constraints
    }

    /// Values for columns that an `INSERT` leaves out.
    pub(crate) fn defaults(&self) -> &[(String, Expr)] {
        &self.defaults
    }

    /// Its columns.
    pub(crate) fn rows_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The pool that it is in.
    pub(crate) fn memory(&self) -> &Arc<BufferManager> {
        &self.memory
    }

    /// The blocks that it has now.
    pub(crate) fn blocks(&self) -> Blocks {
        self.blocks.read().clone().into()
    }

    /// Where its blocks are, for those who change them.
    pub(crate) fn current(&self) -> &Arc<RwLock<Vec<Arc<Block>>>> {
        &self.blocks
    }

    /// What its rows have once, if anything.
    pub(crate) fn keys(&self) -> Option<&Arc<Keys>> {
        self.keys.as_ref()
    }

    /// The table of common table expression `name`. `planned_rows`: how many rows are expected of it, if it is not run.
    pub(crate) fn of_cte(
        schema: SchemaRef,
        memory: Arc<BufferManager>,
        name: String,
        planned_rows: Option<f64>,
    ) -> Self {
        let cte = Some(Arc::new(Cte { name, planned_rows }));
        Self { cte, ..Self::new(schema, memory) }
    }

    /// The plan that appends the rows of `input`, or replaces the table's by them. Its one row is their number.
    pub(crate) fn sink(&self, input: Arc<dyn ExecutionPlan>, replaces: bool) -> Arc<dyn ExecutionPlan> {
        let sink = PagedSink {
            schema: Arc::clone(&self.schema),
            memory: Arc::clone(&self.memory),
            blocks: Arc::clone(&self.blocks),
            keys: self.keys.clone(),
            replaces,
        };
        Arc::new(DataSinkExec::new(input, Arc::new(sink), None))
    }
}

#[async_trait]
impl TableProvider for PagedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.iter().find(|(name, _)| name == column).map(|(_, default)| default)
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let blocks = self.blocks();
        let (schema, projection) = match projection {
            Some(columns) => (Arc::new(self.schema.project(columns)?), columns.clone()),
            None => (Arc::clone(&self.schema), (0..self.schema.fields().len()).collect()),
        };
        let scan = PagedScan {
            cte: self.cte.clone(),
            ..PagedScan::new(blocks, projection, Arc::clone(&schema), Arc::clone(&self.memory)).of_table(&self.schema)
        };
        Ok(Arc::new(TableExec::new(TableScan(Arc::new(scan)), Vec::new(), schema)))
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.definition.is_computed() || !self.definition.foreign_keys().is_empty() {
            return not_impl_err!(
                "a prepared INSERT into a table with CHECK, FOREIGN KEY or generated columns is not supported; write the INSERT as it is"
            );
        }
        match op {
            InsertOp::Append => Ok(self.sink(input, false)),
            InsertOp::Overwrite => Ok(self.sink(input, true)),
            InsertOp::Replace => not_impl_err!("REPLACE INTO tables in memory"),
        }
    }
}

/// The rows of a table as they were, each with its number as column [`ROW`] behind the others.
#[derive(Debug)]
pub(crate) struct NumberedRows {
    /// The columns of the table.
    table: SchemaRef,
    schema: SchemaRef,
    blocks: Blocks,
    memory: Arc<BufferManager>,
}

impl NumberedRows {
    /// The rows in `blocks`, of columns `table`.
    pub(crate) fn new(table: &SchemaRef, blocks: Blocks, memory: &Arc<BufferManager>) -> Self {
        let mut fields = table.fields().to_vec();
        fields.push(Arc::new(Field::new(ROW, DataType::Int64, false)));
        let schema = Arc::new(Schema::new(fields));
        Self { table: Arc::clone(table), schema, blocks, memory: Arc::clone(memory) }
    }
}

#[async_trait]
impl TableProvider for NumberedRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&columns)?);
        let number = self.table.fields().len();
        let at = columns.iter().position(|&column| column == number);
        let stored = columns.into_iter().filter(|&column| column != number).collect();
        let blocks = Arc::clone(&self.blocks);
        let scan = PagedScan::new(blocks, stored, Arc::clone(&schema), Arc::clone(&self.memory)).of_table(&self.table);
        let scan = match at {
            Some(at) => scan.with_numbers(at),
            None => scan,
        };
        Ok(Arc::new(TableExec::new(TableScan(Arc::new(scan)), Vec::new(), schema)))
    }
}

/// Writes rows into blocks, and hands them to the table when all are there.
#[derive(Debug)]
struct PagedSink {
    schema: SchemaRef,
    memory: Arc<BufferManager>,
    blocks: Arc<RwLock<Vec<Arc<Block>>>>,
    keys: Option<Arc<Keys>>,
    replaces: bool,
}

impl DisplayAs for PagedSink {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "OgeeTable")
    }
}

#[async_trait]
impl DataSink for PagedSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, mut rows: SendableRecordBatchStream, _context: &Arc<TaskContext>) -> Result<u64> {
        let mut writer = BlockWriter::sharing_out(&self.schema, &self.memory);
        let mut coalescer = coalescer(&self.schema);
        let mut keys = self.keys.as_ref().map(Keys::begin);
        while let Some(batch) = rows.next().await.transpose()? {
            // The input's field names and nullability may differ from the table's.
            let columns = batch.columns().to_vec();
            for (column, field) in columns.iter().zip(self.schema.fields()) {
                if !field.is_nullable() && column.null_count() > 0 {
                    return exec_err!("column '{}' is NOT NULL, and a row has NULL for it", field.name());
                }
            }
            let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
            if let Some(keys) = &mut keys {
                keys.add(&batch)?;
            }
            coalescer.push(&batch)?;
            while let Some(batch) = coalescer.next() {
                writer.write(&batch)?;
            }
        }
        coalescer.finish()?;
        while let Some(batch) = coalescer.next() {
            writer.write(&batch)?;
        }
        let new = writer.finish()?;
        let count = new.iter().map(|block| block.rows as u64).sum();
        let publish = || {
            let mut blocks = self.blocks.write();
            if self.replaces {
                blocks.clear();
            }
            blocks.extend(new);
            Ok(())
        };
        match keys {
            Some(keys) => keys.join(self.replaces, publish)?,
            None => publish()?,
        }
        Ok(count)
    }
}

/// A number that no block has.
pub(crate) fn new_block_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Writes rows into blocks.
pub(crate) struct BlockWriter {
    schema: SchemaRef,
    memory: Arc<BufferManager>,
    done: Vec<Arc<Block>>,
    /// Rows in those.
    rows: usize,
    shares_out: bool,
    open: Option<OpenBlock>,
}

struct OpenBlock {
    bytes: PageChain,
    stream: StreamWriter<crate::page_chain::ChainWriter>,
    rows: usize,
    batch_bytes: usize,
}

impl BlockWriter {
    /// A writer of rows of `schema`, into as few blocks as may be.
    pub(crate) fn new(schema: &SchemaRef, memory: &Arc<BufferManager>) -> Self {
        let (schema, memory) = (Arc::clone(schema), Arc::clone(memory));
        Self { schema, memory, done: Vec::new(), rows: 0, shares_out: false, open: None }
    }

    /// The same, but into several blocks also where rows are few, for several threads.
    pub(crate) fn sharing_out(schema: &SchemaRef, memory: &Arc<BufferManager>) -> Self {
        Self { shares_out: true, ..Self::new(schema, memory) }
    }

    /// Appends the rows of `batch`: who reads them has as many of them at once as are written at once.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let pieces = bytes_of(batch).div_ceil(BATCH_BYTES).min(batch.num_rows());
        if pieces <= 1 {
            return self.write_whole(batch);
        }
        let rows = batch.num_rows().div_ceil(pieces);
        for first in (0..batch.num_rows()).step_by(rows) {
            let piece = batch.slice(first, rows.min(batch.num_rows() - first));
            if piece.num_rows() > 1 && bytes_of(&piece) > 2 * BATCH_BYTES {
                // Some rows are much longer than others.
                self.write(&piece)?;
            } else {
                self.write_whole(&dense(&piece)?)?;
            }
        }
        Ok(())
    }

    fn write_whole(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut block = match self.open.take() {
            Some(block) => block,
            None => {
                let bytes = PageChain::new(&self.memory, "table");
                let stream = StreamWriter::try_new(bytes.writer(), &self.schema)?;
                OpenBlock { bytes, stream, rows: 0, batch_bytes: 0 }
            }
        };
        block.stream.write(batch)?;
        block.rows += batch.num_rows();
        block.batch_bytes = block.batch_bytes.max(bytes_of(batch));
        let bytes = block.bytes.len();
        let is_share = self.shares_out && bytes >= PAGE_SIZE && block.rows >= self.rows / BLOCK_PART;
        let full = is_share || block.rows >= BLOCK_ROWS || bytes >= BLOCK_BYTES;
        self.open = Some(block);
        if full { self.close() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<()> {
        if let Some(OpenBlock { bytes, mut stream, rows, batch_bytes }) = self.open.take() {
            stream.finish()?;
            stream.get_mut().flush()?;
            self.rows += rows;
            self.done.push(Arc::new(Block { number: new_block_number(), bytes, rows, batch_bytes }));
        }
        Ok(())
    }

    /// The blocks, none of which is empty if no batch was.
    pub(crate) fn finish(mut self) -> Result<Vec<Arc<Block>>> {
        self.close()?;
        Ok(self.done)
    }
}

/// Some columns of the rows that a table had when the scan was planned.
#[derive(Clone)]
pub(crate) struct PagedScan {
    blocks: Arc<[Arc<Block>]>,
    projection: Vec<usize>,
    schema: SchemaRef,
    memory: Arc<BufferManager>,
    cte: Option<Arc<Cte>>,
    /// The names that the columns of the blocks have now, if they may have others there.
    names: Option<SchemaRef>,
    numbers: Option<Numbers>,
}

/// Rows that are given their numbers.
#[derive(Clone)]
struct Numbers {
    /// Where the numbers are among the columns.
    at: usize,
    /// The number of the first row of each block.
    first: Arc<[u64]>,
}

/// The number of the first row of each of `blocks`.
pub(crate) fn first_rows(blocks: &[Arc<Block>]) -> Arc<[u64]> {
    let mut next = 0;
    let first = |block: &Arc<Block>| {
        let first = next;
        next += block.rows as u64;
        first
    };
    blocks.iter().map(first).collect()
}

/// The batches of a block, with the numbers of their rows if these are wanted.
struct BlockReader {
    batches: StreamReader<ChainReader>,
    /// Where the numbers are among the columns, and the next one.
    numbers: Option<(usize, u64)>,
}

impl Iterator for BlockReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.batches.next()? {
            Ok(batch) => batch,
            error => return Some(error),
        };
        let Some((at, next)) = &mut self.numbers else { return Some(Ok(batch)) };
        let first = *next;
        *next += batch.num_rows() as u64;
        let numbers: Int64Array = (first..*next).map(|row| row as i64).collect();
        let mut columns = batch.columns().to_vec();
        columns.insert(*at, Arc::new(numbers));
        let mut fields = batch.schema().fields().to_vec();
        fields.insert(*at, Arc::new(Field::new(ROW, DataType::Int64, false)));
        Some(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns))
    }
}

impl PagedScan {
    /// The same, in the columns of which is also the number of each row, as column `at`.
    pub(crate) fn with_numbers(self, at: usize) -> Self {
        Self { numbers: Some(Numbers { at, first: first_rows(&self.blocks) }), ..self }
    }

    /// The same, whose blocks have the columns of `table` by other names perhaps.
    pub(crate) fn of_table(self, table: &SchemaRef) -> Self {
        Self { names: Some(Arc::clone(table)), ..self }
    }

    /// Columns `projection`, which are those of `schema`, of the rows in `blocks`.
    pub(crate) fn new(
        blocks: Arc<[Arc<Block>]>,
        projection: Vec<usize>,
        schema: SchemaRef,
        memory: Arc<BufferManager>,
    ) -> Self {
        Self { blocks, projection, schema, memory, cte: None, names: None, numbers: None }
    }

    fn rows(&self) -> usize {
        self.blocks.iter().map(|block| block.rows).sum()
    }

    fn reader(&self, block: usize) -> Result<BlockReader> {
        let batches = self.blocks[block].reader(Some(self.projection.clone()))?;
        let numbers = self.numbers.as_ref().map(|numbers| (numbers.at, numbers.first[block]));
        Ok(BlockReader { batches, numbers })
    }
}

impl fmt::Debug for PagedScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PagedScan({self})")
    }
}

impl fmt::Display for PagedScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        if let Some(cte) = &self.cte {
            write!(f, "with={}, ", cte.name)?;
        }
        if self.planned_rows().is_none() {
            write!(f, "rows={}, blocks={}, ", self.rows(), self.blocks.len())?;
        }
        write!(f, "projection=[{}]", names.join(", "))
    }
}

impl BlockScan for PagedScan {
    fn blocks(&self) -> Vec<(u64, u64)> {
        self.blocks.iter().map(|block| (block.number, block.rows as u64)).collect()
    }

    fn block_bytes(&self, block: usize) -> u64 {
        self.blocks[block].bytes.len() as u64
    }

    fn batches(&self, block: usize, fields: &[FieldRef]) -> Result<Batches<'_>> {
        let schema = match &self.names {
            Some(names) => Arc::clone(names),
            None => self.blocks[block].batches()?.schema(),
        };
        let at = fields.iter().position(|field| self.numbers.is_some() && field.name() == ROW);
        let stored = fields.iter().enumerate().filter(|(column, _)| Some(*column) != at);
        let columns = stored.map(|(_, field)| schema.index_of(field.name())).collect::<Result<_, _>>()?;
        let batches = self.blocks[block].reader(Some(columns))?;
        let first = self.numbers.as_ref().map_or(0, |numbers| numbers.first[block]);
        Ok(Box::new(BlockReader { batches, numbers: at.map(|at| (at, first)) }))
    }

    fn planned_rows(&self) -> Option<f64> {
        self.cte.as_ref()?.planned_rows
    }

    fn source(&self) -> Arc<dyn Source> {
        Arc::new(TableSource {
            scan: self.clone(),
            schema: normalize_schema(&self.schema),
            taken: Arc::default(),
            stopped: Arc::default(),
        })
    }

    fn stream(&self) -> SendableRecordBatchStream {
        let scan = self.clone();
        let batches = (0..scan.blocks.len()).flat_map(move |block| match scan.reader(block) {
            Ok(reader) => {
                let schema = Arc::clone(&scan.schema);
                boxed(reader.map(move |batch| Ok(renamed(batch?, &schema)?)))
            }
            Err(error) => boxed(std::iter::once(Err(error))),
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(batches)))
    }
}

/// `batch` with the names of `schema`.
pub(crate) fn renamed(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)
}

fn boxed(
    batches: impl Iterator<Item = Result<RecordBatch>> + Send + 'static,
) -> Box<dyn Iterator<Item = Result<RecordBatch>> + Send> {
    Box::new(batches)
}

struct TableSource {
    scan: PagedScan,
    schema: SchemaRef,
    taken: Arc<Mutex<Taken>>,
    stopped: Arc<AtomicBool>,
}

/// What lanes have taken of a table.
#[derive(Default)]
struct Taken {
    /// The first block that no lane has taken.
    next: usize,
    order: Option<Arc<RowOrder>>,
}

impl Source for TableSource {
    fn name(&self) -> &str {
        "table"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows_estimate(&self) -> Option<u64> {
        Some(self.scan.rows() as u64)
    }

    fn has_order(&self) -> bool {
        true
    }

    fn keep_order(&self, order: &Arc<RowOrder>) {
        self.taken.lock().order = Some(Arc::clone(order));
    }

    fn lanes(&self, threads: usize) -> usize {
        let is_serial = self.taken.lock().order.as_ref().is_some_and(|order| order.is_serial());
        if is_serial { 1 } else { threads.min(self.scan.blocks.len()) }
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(TableLocal {
            scan: self.scan.clone(),
            taken: Arc::clone(&self.taken),
            order: LaneOrder::new(self.taken.lock().order.clone(), lane),
            stopped: Arc::clone(&self.stopped),
            capacity: ctx.settings.chunk_capacity,
            block: None,
            batch: None,
            reservation: None,
        }))
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

struct TableLocal {
    scan: PagedScan,
    taken: Arc<Mutex<Taken>>,
    order: LaneOrder,
    stopped: Arc<AtomicBool>,
    capacity: usize,
    block: Option<BlockReader>,
    /// A decoded batch and how many of its rows have been handed on.
    batch: Option<(Chunk, usize)>,
    reservation: Option<Reservation>,
}

impl SourceLocal for TableLocal {
    fn next(&mut self, _task: &WorkerContext) -> Result<SourceStep, ExecError> {
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(SourceStep::Exhausted);
            }
            if !self.order.may_emit() {
                return Ok(SourceStep::Blocked);
            }
            if let Some((batch, offset)) = &mut self.batch {
                let rows = self.capacity.min(batch.len() - *offset);
                if rows > 0 {
                    let chunk = batch.slice(*offset, rows);
                    *offset += rows;
                    return Ok(SourceStep::Chunk(chunk));
                }
                self.batch = None;
            }
            if let Some(reader) = &mut self.block {
                match reader.next().transpose().map_err(read_error)? {
                    Some(batch) => {
                        let columns = batch.columns().iter().map(normalize_array).collect::<Result<Vec<_>, _>>()?;
                        self.batch = Some((Chunk::new(columns, batch.num_rows()), 0));
                        continue;
                    }
                    None => {
                        self.block = None;
                        self.reservation = None;
                        self.order.leave();
                        return Ok(SourceStep::MorselEnd);
                    }
                }
            }
            let index = {
                let mut taken = self.taken.lock();
                if taken.next == self.scan.blocks.len() || !self.order.is_admitted() {
                    return Ok(SourceStep::Exhausted);
                }
                self.order.begin();
                taken.next += 1;
                taken.next - 1
            };
            let block = &self.scan.blocks[index];
            if let Some(following) = self.scan.blocks.get(index + 1) {
                following.bytes.prefetch();
            }
            // The batch and the bytes that it is decoded from.
            self.reservation = Some(self.scan.memory.reserve("table scan", 2 * block.batch_bytes)?);
            self.block = Some(self.scan.reader(index).map_err(ogee_functions::error::to_exec)?);
        }
    }
}

fn read_error(error: datafusion::arrow::error::ArrowError) -> ExecError {
    ExecError::Foreign(Box::new(error))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use datafusion::arrow::{
        array::{ArrayRef, AsArray, StringViewArray},
        compute::concat_batches,
        datatypes::{DataType, Field, Schema},
    };
    use ogee_memory::MemoryConfig;

    use super::*;

    /// Texts too long for a view; one in five is NULL.
    fn text(row: usize) -> Option<String> {
        (!row.is_multiple_of(5)).then(|| format!("text number {row}"))
    }

    fn write(mut writer: BlockWriter, schema: &SchemaRef, rows: usize) -> Vec<Arc<Block>> {
        for start in (0..rows).step_by(BATCH_ROWS) {
            let texts: StringViewArray = (start..rows.min(start + BATCH_ROWS)).map(text).collect();
            writer
                .write(&RecordBatch::try_new(Arc::clone(schema), vec![Arc::new(texts) as ArrayRef]).unwrap())
                .unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn blocks_of_small_tables_are_shared_out() {
        let config = MemoryConfig { limit: 256 << 20, counts_process: false, ..MemoryConfig::default() };
        let memory = BufferManager::new(config).unwrap();
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
        let blocks = |shares_out: bool, rows: usize| {
            let new = if shares_out { BlockWriter::sharing_out } else { BlockWriter::new };
            write(new(&schema, &memory), &schema, rows)
        };
        // 28 bytes for a row.
        assert_eq!(blocks(true, 2000).len(), 1, "less than a page");
        assert_eq!(
            blocks(true, 4 * BATCH_ROWS).iter().map(|block| block.rows()).collect::<Vec<_>>(),
            [2 * BATCH_ROWS; 2]
        );
        assert_eq!(blocks(false, 4 * BATCH_ROWS).len(), 1);
        let many = blocks(true, 100 * BATCH_ROWS);
        assert!((10..40).contains(&many.len()), "{} blocks", many.len());
        let last = many.len() - 2;
        assert!(many[last].rows() > 8 * BATCH_ROWS, "{} rows", many[last].rows());
        let mut row = 0;
        for block in &many {
            let batches = block.batches().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
            let batch = concat_batches(&schema, &batches).unwrap();
            for value in batch.column(0).as_string_view() {
                assert_eq!(value.map(str::to_owned), text(row));
                row += 1;
            }
        }
        assert_eq!(row, 100 * BATCH_ROWS);
    }
}
