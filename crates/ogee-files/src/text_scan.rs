//! The source of a pipeline over files of text: CSV and JSON, of which lanes read pieces side by side.
//!
//! ```text
//!  lane: nothing ── cut a piece ──> piece ── batch ──> chunks … ── its end ──> MorselEnd
//!           ^         │ └ no file is open: open the next                          │
//!           │         └─> no file is left ──> Exhausted                           │
//!           └─────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A piece is a morsel ("Morsel-driven parallelism", section 3): of bytes, since how many rows they are is known when they are read. Pieces are cut under a lock, which reads them;
//! that takes a tenth of what reading their records does.
//!
//! Not here: what is cut and read (`pieces`).

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use datafusion::{
    arrow::{
        array::{ArrayRef, NullArray, UInt32Array},
        compute::take_record_batch,
        datatypes::{Schema, SchemaRef},
    },
    datasource::physical_plan::{FileGroup, FileScanConfig},
    error::DataFusionError,
    object_store::{ObjectMeta, ObjectStore, local::LocalFileSystem},
    physical_expr::projection::ProjectionExprs,
    scalar::ScalarValue,
};
use futures::executor::block_on;
use ogee_exec::{ExecContext, ExecError, Expr, LaneOrder, RowOrder, Source, SourceLocal, SourceStep};
use ogee_functions::error::{to_datafusion, to_exec};
use ogee_memory::BufferManager;
use ogee_scheduler::TaskContext;
use ogee_vector::{Chunk, Column, normalize_array, normalize_schema};
use parking_lot::Mutex;

use crate::{
    csv::Csv,
    json::Json,
    pieces::{Choice, PIECE_BYTES, Piece, PieceReader, Pieces, Taken},
    read_through::{self, InPieces, Scan, shown},
    text_memory::TextMemory,
};

/// Memory that a lane takes: a piece, a batch of it, and what is behind it.
const LANE_BYTES: usize = 8 << 20;

/// Whom the memory of pieces is promised to.
const CONSUMER: &str = "text scan";

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// Files of text on this machine, all of one table.
#[derive(Clone, Debug)]
pub struct TextFiles {
    format: &'static str,
    reading: Arc<dyn InPieces>,
    scan: Scan,
    files: Arc<[TextFile]>,
    projection: Option<ProjectionExprs>,
}

#[derive(Debug)]
struct TextFile {
    meta: ObjectMeta,
    /// What its directories say, an array of one row for each.
    partition_values: Vec<ScalarValue>,
}

impl TextFiles {
    /// What `config` scans, or `None` if that is not CSV or JSON on this machine's file systems, or asks for what is not done here.
    pub fn of(config: &FileScanConfig) -> Option<Self> {
        let source = config.file_source();
        let (format, reading, scan): (_, Arc<dyn InPieces>, _) =
            if let Some(csv) = source.downcast_ref::<read_through::Source<Csv>>() {
                ("csv", Arc::new(csv.reading.clone()), csv.scan.clone())
            } else if let Some(json) = source.downcast_ref::<read_through::Source<Json>>() {
                ("json", Arc::new(json.reading.clone()), json.scan.clone())
            } else {
                return None;
            };
        let is_foreign = !config.object_store_url.as_str().starts_with("file://")
            || config.expr_adapter_factory.is_some()
            || !config.output_ordering.is_empty()
            || !scan.table_schema().virtual_columns().is_empty();
        let listed = || config.file_groups.iter().flat_map(FileGroup::iter);
        if is_foreign || listed().any(|file| file.range.is_some() || file.arrow_schema.is_some()) {
            return None;
        }
        let files = listed()
            .map(|file| TextFile { meta: file.object_meta.clone(), partition_values: file.partition_values.clone() });
        let projection = source.projection().cloned();
        Some(Self { format, reading, scan, files: files.collect(), projection })
    }

    /// The columns of the table: those of files, and behind them those that directories name.
    pub fn table_schema(&self) -> &SchemaRef {
        self.scan.table_schema().table_schema()
    }

    /// What is wanted of them, in place of all as they are.
    pub fn projection(&self) -> Option<&ProjectionExprs> {
        self.projection.as_ref()
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The source of `columns` of the table, in the types that it declares, for a query of `ctx`.
    pub fn source(&self, ctx: &ExecContext, columns: &[usize]) -> Arc<dyn Source> {
        let of_files = self.scan.file_schema().fields().len();
        let table = self.table_schema();
        let mut read: Vec<usize> = columns.iter().copied().filter(|&column| column < of_files).collect();
        // As readers give them.
        read.sort_unstable();
        read.dedup();
        let places = columns.iter().map(|&column| match column.checked_sub(of_files) {
            None => From::File(read.iter().position(|&read| read == column).expect("it is read")),
            Some(partition) => From::Directory(partition),
        });
        let fields: Vec<_> = columns.iter().map(|&column| table.field(column).clone()).collect();
        let shared = Shared {
            places: places.collect(),
            schema: normalize_schema(&(Arc::new(Schema::new(fields)) as SchemaRef)),
            scan: self.scan.with_columns(read).with_batch_rows(BATCH_ROWS),
            reading: Arc::clone(&self.reading),
            files: Arc::clone(&self.files),
            store: Arc::new(LocalFileSystem::new()),
            memory: Arc::clone(&ctx.memory),
            state: Mutex::default(),
            order: Mutex::default(),
            filter: OnceLock::new(),
            bytes_left: AtomicU64::new(self.files.iter().map(|file| file.meta.size).sum()),
            is_stopped: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
        };
        Arc::new(TextSource { name: self.format, shared: Arc::new(shared) })
    }
}

impl std::fmt::Display for TextFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.files {
            [] => write!(f, "{}, no files", self.format),
            [file] => write!(f, "{} {}", self.format, shown(&file.meta.location)),
            [first, ..] => {
                write!(f, "{}, {} files from {} on", self.format, self.files.len(), shown(&first.meta.location))
            }
        }
    }
}

/// Where a column comes from.
#[derive(Clone, Copy, Debug)]
enum From {
    /// Among those read from the file.
    File(usize),
    /// Among those that directories name.
    Directory(usize),
}

struct TextSource {
    name: &'static str,
    shared: Arc<Shared>,
}

struct Shared {
    reading: Arc<dyn InPieces>,
    scan: Scan,
    places: Vec<From>,
    schema: SchemaRef,
    files: Arc<[TextFile]>,
    store: Arc<dyn ObjectStore>,
    memory: Arc<BufferManager>,
    state: Mutex<State>,
    order: Mutex<Option<Arc<RowOrder>>>,
    /// Which rows those who read the scan want.
    filter: OnceLock<Expr>,
    /// Of files that are not open yet; compressed ones have more.
    bytes_left: AtomicU64,
    /// No more rows are wanted.
    is_stopped: AtomicBool,
    /// All pieces were taken.
    is_done: AtomicBool,
}

/// What is cut.
#[derive(Default)]
struct State {
    next_file: usize,
    /// The open file and its number.
    open: Option<(usize, Box<dyn Pieces>)>,
}

impl Source for TextSource {
    fn name(&self) -> &str {
        self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.schema)
    }

    /// Columns that it reads are read first, the others of those rows for which it is true.
    fn filter(&self, predicate: &Expr) -> bool {
        let mut columns = Vec::new();
        predicate.columns(&mut columns);
        let of_files = columns.iter().all(|&column| matches!(self.shared.places[column], From::File(_)));
        !columns.is_empty() && of_files && !predicate.may_grow() && self.shared.filter.set(predicate.clone()).is_ok()
    }

    fn has_order(&self) -> bool {
        true
    }

    fn keep_order(&self, order: &Arc<RowOrder>) {
        *self.shared.order.lock() = Some(Arc::clone(order));
    }

    fn lanes(&self, threads: usize) -> usize {
        if self.shared.is_stopped() || self.shared.is_done.load(Ordering::Relaxed) {
            return 0;
        }
        if self.shared.order.lock().as_ref().is_some_and(|order| order.is_serial()) {
            return 1;
        }
        // A sixteenth of the memory is theirs.
        let memory = self.shared.memory.limit() / 16 / LANE_BYTES;
        let pieces = self.shared.bytes_left.load(Ordering::Relaxed) / PIECE_BYTES as u64 + 1;
        threads.min(memory.max(1)).min(usize::try_from(pieces).unwrap_or(usize::MAX))
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(TextLocal {
            capacity: ctx.settings.chunk_capacity.max(1),
            order: LaneOrder::new(self.shared.order.lock().clone(), lane),
            columns: Vec::new(),
            rows: 0,
            offset: 0,
            reader: None,
            has_piece: false,
            piece: Piece::default(),
            memory: TextMemory::new(&self.shared.memory, CONSUMER),
            filter: self.shared.filter.get().map(|filter| Filter::new(filter, &self.shared.places)),
            shared: Arc::clone(&self.shared),
        }))
    }

    fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// One lane.
struct TextLocal {
    shared: Arc<Shared>,
    capacity: usize,
    order: LaneOrder,
    /// The batch that is being handed out.
    columns: Vec<Column>,
    rows: usize,
    offset: usize,
    /// Of a file, by its number.
    reader: Option<(usize, Box<dyn PieceReader>)>,
    /// Whether the reader has one.
    has_piece: bool,
    piece: Piece,
    memory: TextMemory,
    filter: Option<Filter>,
}

/// A predicate that rows are chosen by.
struct Filter {
    predicate: Expr,
    /// The columns of the file that it reads.
    columns: Vec<usize>,
    /// For each column of the scan, which of those it is.
    places: Vec<Option<usize>>,
    rows: Vec<u32>,
}

impl Filter {
    fn new(predicate: &Expr, places: &[From]) -> Self {
        let (mut reads, mut columns) = (Vec::new(), Vec::new());
        predicate.columns(&mut reads);
        let place = |(column, from): (usize, &From)| match from {
            From::File(of_file) if reads.contains(&column) => {
                let known = columns.iter().position(|known| known == of_file);
                Some(known.unwrap_or_else(|| {
                    columns.push(*of_file);
                    columns.len() - 1
                }))
            }
            _ => None,
        };
        let places = places.iter().enumerate().map(place).collect();
        Self { predicate: predicate.clone(), columns, places, rows: Vec::new() }
    }
}

impl Choice for Filter {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn rows(&mut self, arrays: &[ArrayRef], rows: usize) -> Result<Option<&[u32]>, DataFusionError> {
        let arrays = arrays.iter().map(normalize_array).collect::<Result<Vec<_>, _>>().map_err(to_datafusion)?;
        // Nobody looks at the others.
        let nothing: ArrayRef = Arc::new(NullArray::new(rows));
        let column = |place: &Option<usize>| Arc::clone(place.map_or(&nothing, |place| &arrays[place]));
        let chunk = Chunk::new(self.places.iter().map(column).collect(), rows);
        self.predicate.select(&chunk, &mut self.rows).map_err(to_datafusion)?;
        Ok((self.rows.len() < rows).then_some(&self.rows))
    }
}

impl TextLocal {
    /// The next rows of the batch at hand.
    fn slice(&mut self) -> Option<Chunk> {
        let rows = self.capacity.min(self.rows - self.offset);
        if rows == 0 {
            return None;
        }
        let columns = if rows == self.rows {
            std::mem::take(&mut self.columns)
        } else {
            self.columns.iter().map(|column| column.slice(self.offset, rows)).collect()
        };
        self.offset += rows;
        Some(Chunk::from_columns(columns, rows))
    }

    /// The next batch of the piece; whether there was one.
    fn refill(&mut self) -> Result<bool, DataFusionError> {
        self.columns.clear();
        (self.rows, self.offset) = (0, 0);
        let Some((file, reader)) = &mut self.reader else { return Ok(false) };
        let choice = self.filter.as_mut().map(|filter| filter as &mut dyn Choice);
        let Some(Taken { batch, is_chosen }) = reader.next(choice)? else { return Ok(false) };
        let batch = match &mut self.filter {
            Some(filter) if !is_chosen => {
                let arrays: Vec<ArrayRef> =
                    filter.columns.iter().map(|&column| Arc::clone(batch.column(column))).collect();
                match filter.rows(&arrays, batch.num_rows())? {
                    Some(rows) => take_record_batch(&batch, &UInt32Array::from(rows.to_vec()))?,
                    None => batch,
                }
            }
            _ => batch,
        };
        let Shared { files, places, .. } = &*self.shared;
        let column = |from: &From| {
            let array: ArrayRef = match *from {
                From::File(column) => Arc::clone(batch.column(column)),
                From::Directory(partition) => {
                    files[*file].partition_values[partition].to_array_of_size(batch.num_rows())?
                }
            };
            Ok::<_, DataFusionError>(Column::flat(normalize_array(&array).map_err(to_datafusion)?))
        };
        self.columns = places.iter().map(column).collect::<Result<_, _>>()?;
        self.rows = batch.num_rows();
        Ok(true)
    }

    /// Takes a piece, or tells why there is none.
    fn take(&mut self) -> Result<Option<SourceStep>, DataFusionError> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        if shared.is_stopped() || !self.order.is_admitted() {
            return Ok(Some(SourceStep::Exhausted));
        }
        if !self.order.may_begin() {
            return Ok(Some(SourceStep::Blocked));
        }
        loop {
            if state.open.is_none() && !shared.open(&mut state)? {
                shared.is_done.store(true, Ordering::Relaxed);
                return Ok(Some(SourceStep::Exhausted));
            }
            let Some((file, pieces)) = &mut state.open else { continue };
            // Also where it cannot be read on: the error is of rows behind those of the pieces before.
            self.order.begin();
            if !pieces.next(&mut self.piece, &mut self.memory)? {
                state.open = None;
                continue;
            }
            let of_file = self.reader.take_if(|(of, _)| of == file);
            let mut reader = match of_file {
                Some((_, reader)) => reader,
                None => pieces.reader()?,
            };
            reader.take(&mut self.piece);
            self.reader = Some((*file, reader));
            self.has_piece = true;
            return Ok(None);
        }
    }

    fn step(&mut self) -> Result<SourceStep, DataFusionError> {
        loop {
            if let Some(chunk) = self.slice() {
                return Ok(SourceStep::Chunk(chunk));
            }
            if self.has_piece {
                if self.shared.is_stopped() {
                    return Ok(SourceStep::Exhausted);
                }
                if !self.order.may_emit() {
                    return Ok(SourceStep::Blocked);
                }
                if self.refill()? {
                    continue;
                }
                self.has_piece = false;
                if let Some((_, reader)) = &mut self.reader {
                    reader.give_back(&mut self.piece);
                }
                self.order.leave();
                return Ok(SourceStep::MorselEnd);
            }
            if let Some(step) = self.take()? {
                return Ok(step);
            }
        }
    }
}

impl SourceLocal for TextLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        if task.is_cancelled() {
            return Err(ExecError::Cancelled);
        }
        self.step().map_err(to_exec)
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Opens the next file that has anything in it; whether there is one.
    fn open(&self, state: &mut State) -> Result<bool, DataFusionError> {
        while let Some(file) = self.files.get(state.next_file) {
            state.next_file += 1;
            self.bytes_left.fetch_sub(file.meta.size, Ordering::Relaxed);
            // A store of local files waits for nobody.
            if let Some(pieces) = block_on(self.reading.pieces(&self.scan, &self.store, &file.meta))? {
                state.open = Some((state.next_file - 1, pieces));
                return Ok(true);
            }
        }
        Ok(false)
    }
}
