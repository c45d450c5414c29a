//! Tables of Arrow rows that a program has: batches in its memory, and readers.
//!
//! 1. Batches are not copied. They are blocks of rows that lanes take, as those of a table in the pool; a chunk is a slice of one, in normalized types.
//! 2. A reader is asked for rows by a thread of its own, which waits until they are wanted: at most two batches are on their way.
//! 3. What a reader gives is checked against its schema, and its errors and panics are those of the statement that reads it.
//!
//! Not here: the names of the tables (`session::registered`).

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::{RecordBatch, RecordBatchOptions, RecordBatchReader},
        datatypes::{FieldRef, Schema, SchemaRef},
        error::ArrowError,
    },
    catalog::{Session, TableProvider},
    datasource::TableType,
    error::Result as PlanResult,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::Expr,
    physical_plan::{
        ExecutionPlan,
        stream::RecordBatchStreamAdapter,
        streaming::{PartitionStream, StreamingTableExec},
    },
};
use ogee_exec::{ExecContext, ExecError, LaneOrder, RowOrder, Source, SourceLocal, SourceStep};
use ogee_files::spelling::fold;
use ogee_functions::{Error, Result, type_names::sql_name};
use ogee_planner::table::{Batches, BlockScan, TableExec, TableScan};
use ogee_scheduler::TaskContext as WorkerContext;
use ogee_vector::{Chunk, PhysicalType, normalize_array, normalize_schema, normalize_type};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::table::{BLOCK_ROWS, new_block_number};

/// A reader that is asked for rows from another thread.
pub type ArrowReader = Box<dyn RecordBatchReader + Send>;

/// Makes readers of the same rows, one for each scan.
pub type MakeReader = Box<dyn Fn() -> std::result::Result<ArrowReader, ArrowError> + Send + Sync>;

/// Batches that wait for whoever reads them.
const WAITING: usize = 1;

/// Rows of a batch that is handed on, so that one that is much larger is not held up in each operator.
const PIECE_ROWS: usize = 8192;

/// Arrow rows that become a table.
pub enum ArrowRows {
    /// Rows in memory.
    Batches(SchemaRef, Vec<RecordBatch>),
    /// Rows that can be read once.
    Reader(ArrowReader),
    /// Rows that can be read as often as somebody asks for a reader.
    Readers(SchemaRef, MakeReader),
}

impl ArrowRows {
    /// The table of these rows, called `name`.
    ///
    /// # Errors
    /// [`Error::Plan`] if a batch has other columns than the schema says; [`Error::Unsupported`] for types that the engine does not have.
    pub(crate) fn table(self, name: &str) -> Result<Arc<dyn TableProvider>> {
        Ok(match self {
            Self::Batches(schema, batches) => Arc::new(BatchTable::new(name, &schema, &batches)?),
            Self::Reader(reader) => {
                let schema = reader.schema();
                Arc::new(ReaderTable::new(name, &schema, Readers::Once(Mutex::new(Some(reader))))?)
            }
            Self::Readers(schema, make) => Arc::new(ReaderTable::new(name, &schema, Readers::Many(make))?),
        })
    }
}

impl fmt::Debug for ArrowRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batches(_, batches) => write!(f, "ArrowRows({} batches)", batches.len()),
            Self::Reader(_) => write!(f, "ArrowRows(a reader)"),
            Self::Readers(..) => write!(f, "ArrowRows(readers)"),
        }
    }
}

/// Whether `table` is one of a program's.
pub(crate) fn is_registered(table: &Arc<dyn TableProvider>) -> bool {
    table.downcast_ref::<BatchTable>().is_some() || table.downcast_ref::<ReaderTable>().is_some()
}

/// # Errors
/// A column is of a type that the engine does not have.
fn check_types(name: &str, schema: &Schema) -> Result<()> {
    for field in schema.fields() {
        if PhysicalType::of(&normalize_type(field.data_type())).is_err() {
            return Err(Error::Unsupported(format!(
                "column '{}' of '{name}' has the Arrow type {}, which is not supported; cast it before",
                field.name(),
                field.data_type()
            )));
        }
    }
    Ok(())
}

/// `batch`, number `number` of table `name`, as one of `schema`.
///
/// # Errors
/// [`Error::Plan`]: it has other columns.
fn in_schema(name: &str, number: usize, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let found = batch.schema();
    if found.fields().len() != schema.fields().len() {
        let (has, expected) = (found.fields().len(), schema.fields().len());
        return Err(Error::Plan(format!(
            "batch {number} of '{name}' has {has} columns, and its schema has {expected}"
        )));
    }
    for (found, field) in found.fields().iter().zip(schema.fields()) {
        if found.data_type() != field.data_type() {
            let (has, expected) = (sql_name(found.data_type()), sql_name(field.data_type()));
            return Err(Error::Plan(format!(
                "column '{}' of batch {number} of '{name}' is {has} ({}), and its schema says {expected} ({})",
                field.name(),
                found.data_type(),
                field.data_type()
            )));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options);
    batch.map_err(|error| Error::Plan(format!("batch {number} of '{name}': {error}")))
}

/// A table of batches in the memory of the program.
#[derive(Debug)]
struct BatchTable {
    schema: SchemaRef,
    blocks: Arc<[BatchBlock]>,
}

/// Some rows of a batch: a morsel.
#[derive(Clone, Debug)]
struct BatchBlock {
    number: u64,
    rows: RecordBatch,
}

impl BatchTable {
    fn new(name: &str, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Self> {
        check_types(name, schema)?;
        let schema = fold(schema);
        let mut blocks = Vec::with_capacity(batches.len());
        for (number, batch) in batches.iter().enumerate() {
            let batch = in_schema(name, number + 1, batch, &schema)?;
            for first in (0..batch.num_rows()).step_by(BLOCK_ROWS) {
                let rows = batch.slice(first, BLOCK_ROWS.min(batch.num_rows() - first));
                blocks.push(BatchBlock { number: new_block_number(), rows });
            }
        }
        Ok(Self { schema, blocks: blocks.into() })
    }
}

#[async_trait]
impl TableProvider for BatchTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&columns)?);
        let scan = BatchScan { blocks: Arc::clone(&self.blocks), columns, schema: Arc::clone(&schema) };
        Ok(Arc::new(TableExec::new(TableScan(Arc::new(scan)), Vec::new(), schema)))
    }
}

/// Some columns of the rows of batches.
#[derive(Clone, Debug)]
struct BatchScan {
    blocks: Arc<[BatchBlock]>,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl BatchScan {
    fn rows(&self) -> usize {
        self.blocks.iter().map(|block| block.rows.num_rows()).sum()
    }
}

impl fmt::Display for BatchScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "registered, rows={}, projection=[{}]", self.rows(), names.join(", "))
    }
}

impl BlockScan for BatchScan {
    fn blocks(&self) -> Vec<(u64, u64)> {
        self.blocks.iter().map(|block| (block.number, block.rows.num_rows() as u64)).collect()
    }

    fn block_bytes(&self, block: usize) -> u64 {
        self.blocks[block].rows.get_array_memory_size() as u64
    }

    fn batches(&self, block: usize, fields: &[FieldRef]) -> PlanResult<Batches<'_>> {
        let rows = &self.blocks[block].rows;
        let schema = rows.schema();
        let columns = fields.iter().map(|field| schema.index_of(field.name())).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(std::iter::once(rows.project(&columns))))
    }

    fn planned_rows(&self) -> Option<f64> {
        None
    }

    fn source(&self) -> Arc<dyn Source> {
        let schema = normalize_schema(&self.schema);
        Arc::new(BatchSource { scan: self.clone(), schema, taken: Arc::default(), stopped: Arc::default() })
    }

    fn stream(&self) -> SendableRecordBatchStream {
        let scan = self.clone();
        let pieces = (0..scan.blocks.len()).flat_map(move |block| {
            let rows = scan.blocks[block].rows.project(&scan.columns);
            pieces(rows).map(|piece| Ok(piece?))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(pieces)))
    }
}

/// `batch` in pieces of few rows.
fn pieces(batch: Result<RecordBatch, ArrowError>) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
    let (batch, error) = match batch {
        Ok(batch) => (Some(batch), None),
        Err(error) => (None, Some(Err(error))),
    };
    let pieces = batch.into_iter().flat_map(|batch| {
        let rows = batch.num_rows();
        (0..rows).step_by(PIECE_ROWS).map(move |first| Ok(batch.slice(first, PIECE_ROWS.min(rows - first))))
    });
    pieces.chain(error)
}

struct BatchSource {
    scan: BatchScan,
    schema: SchemaRef,
    taken: Arc<Mutex<Taken>>,
    stopped: Arc<AtomicBool>,
}

/// What lanes have taken.
#[derive(Default)]
struct Taken {
    /// The first block that no lane has taken.
    next: usize,
    order: Option<Arc<RowOrder>>,
}

impl Source for BatchSource {
    fn name(&self) -> &str {
        "registered"
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
        Ok(Box::new(BatchLocal {
            scan: self.scan.clone(),
            taken: Arc::clone(&self.taken),
            order: LaneOrder::new(self.taken.lock().order.clone(), lane),
            stopped: Arc::clone(&self.stopped),
            capacity: ctx.settings.chunk_capacity,
            block: None,
        }))
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

struct BatchLocal {
    scan: BatchScan,
    taken: Arc<Mutex<Taken>>,
    order: LaneOrder,
    stopped: Arc<AtomicBool>,
    capacity: usize,
    /// A block, and how many of its rows have been handed on.
    block: Option<(usize, usize)>,
}

impl SourceLocal for BatchLocal {
    fn next(&mut self, _task: &WorkerContext) -> Result<SourceStep, ExecError> {
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(SourceStep::Exhausted);
            }
            if !self.order.may_emit() {
                return Ok(SourceStep::Blocked);
            }
            if let Some((block, first)) = &mut self.block {
                let all = &self.scan.blocks[*block].rows;
                let rows = self.capacity.min(all.num_rows() - *first);
                if rows > 0 {
                    let columns = self
                        .scan
                        .columns
                        .iter()
                        .map(|&column| normalize_array(&all.column(column).slice(*first, rows)));
                    let chunk = Chunk::new(columns.collect::<Result<Vec<_>, _>>()?, rows);
                    *first += rows;
                    return Ok(SourceStep::Chunk(chunk));
                }
                self.block = None;
                self.order.leave();
                return Ok(SourceStep::MorselEnd);
            }
            let mut taken = self.taken.lock();
            if taken.next == self.scan.blocks.len() || !self.order.is_admitted() {
                return Ok(SourceStep::Exhausted);
            }
            self.order.begin();
            taken.next += 1;
            self.block = Some((taken.next - 1, 0));
        }
    }
}

/// Where readers come from.
enum Readers {
    Once(Mutex<Option<ArrowReader>>),
    Many(MakeReader),
}

/// A table of what readers give.
#[derive(Debug)]
struct ReaderTable {
    schema: SchemaRef,
    rows: Arc<ReaderRows>,
}

struct ReaderRows {
    expected: Expected,
    readers: Readers,
}

/// What is said of the rows of a reader.
#[derive(Clone, Debug)]
struct Expected {
    name: String,
    schema: SchemaRef,
}

impl fmt::Debug for ReaderRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReaderRows({})", self.expected.name)
    }
}

impl ReaderTable {
    fn new(name: &str, schema: &SchemaRef, readers: Readers) -> Result<Self> {
        check_types(name, schema)?;
        let schema = fold(schema);
        let expected = Expected { name: name.to_owned(), schema: Arc::clone(&schema) };
        Ok(Self { schema, rows: Arc::new(ReaderRows { expected, readers }) })
    }
}

#[async_trait]
impl TableProvider for ReaderTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let rows = vec![Arc::clone(&self.rows) as Arc<dyn PartitionStream>];
        let scan = StreamingTableExec::try_new(Arc::clone(&self.schema), rows, projection, [], false, None)?;
        Ok(Arc::new(scan))
    }
}

impl ReaderRows {
    /// A reader that nobody has read.
    fn take(&self) -> Result<ArrowReader> {
        match &self.readers {
            Readers::Once(reader) => reader.lock().take().ok_or_else(|| {
                Error::Execution(format!(
                    "the rows of '{}' have been read, and its reader gives them once; register one again, or CREATE TABLE .. AS SELECT * FROM it before",
                    self.expected.name
                ))
            }),
            Readers::Many(make) => {
                let made = catch_unwind(AssertUnwindSafe(make)).map_err(|panic| self.expected.panicked(&*panic))?;
                made.map_err(|error| self.expected.failed(&error))
            }
        }
    }
}

impl Expected {
    fn failed(&self, error: &ArrowError) -> Error {
        Error::Source(format!("the reader of '{}' failed: {error}", self.name))
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        Error::Execution(format!("the reader of '{}' panicked: {}", self.name, panic_message(panic)))
    }

    /// Hands on what `reader` gives until it ends, fails, or nobody wants more.
    fn read(&self, reader: ArrowReader, sender: &mpsc::Sender<Result<RecordBatch>>) -> Result<()> {
        // It is dropped here too, and may panic then.
        let read = catch_unwind(AssertUnwindSafe(move || {
            for (number, batch) in reader.enumerate() {
                let batch = batch.map_err(|error| self.failed(&error))?;
                let batch = in_schema(&self.name, number + 1, &batch, &self.schema)?;
                for piece in pieces(Ok(batch)) {
                    if sender.blocking_send(Ok(piece.map_err(|error| self.failed(&error))?)).is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        }));
        read.unwrap_or_else(|panic| Err(self.panicked(&*panic)))
    }
}

impl PartitionStream for ReaderRows {
    fn schema(&self) -> &SchemaRef {
        &self.expected.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (sender, receiver) = mpsc::channel(WAITING);
        let expected = self.expected.clone();
        let begun = self.take().and_then(|reader| {
            static NUMBER: AtomicUsize = AtomicUsize::new(0);
            let name = format!("ogee-reader-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
            let read = move || {
                if let Err(error) = expected.read(reader, &sender) {
                    // Whoever has left is told nothing.
                    let _ = sender.blocking_send(Err(error));
                }
            };
            thread::Builder::new().name(name).spawn(read).map_err(|error| ogee_sql::no_thread(&error))
        });
        let schema = Arc::clone(&self.expected.schema);
        match begun {
            Err(error) => {
                let failed = futures::stream::once(async move { Err(error.into()) });
                Box::pin(RecordBatchStreamAdapter::new(schema, failed))
            }
            Ok(_) => {
                let batches = futures::stream::unfold(receiver, |mut receiver| async move {
                    let batch = receiver.recv().await?;
                    Some((batch.map_err(Into::into), receiver))
                });
                Box::pin(RecordBatchStreamAdapter::new(schema, batches))
            }
        }
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}
