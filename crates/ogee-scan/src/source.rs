//! The source of a pipeline over Parquet files.
//!
//! ```text
//!  lane: nothing ── next work ──> footer: load ──> MorselEnd
//!           ^                 ├─> rows: admitted ──> reading ── batch ──> chunks … ── 122,880 rows ──> MorselEnd
//!           │                 │         └ refused: put back ──> Blocked          └ span at its end ──┐
//!           │                 ├─> another lane loads ──> Blocked                                     │
//!           └─────────────────┼───────────────────────── MorselEnd <────────────────────────────────-┘
//!                             └─> nothing is left ──> Exhausted
//! ```
//!
//! Not here: how bytes become batches (`reader`).

use std::{
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow_schema::SchemaRef;
use ogee_exec::{ExecContext, ExecError, Expr, LaneOrder, Restriction, RowOrder, Source, SourceLocal, SourceStep};
use ogee_scheduler::{JobWaker, TaskContext};
use ogee_vector::{Chunk, Column, Domain};
use parking_lot::Mutex;

use crate::{
    admission::Admission,
    columns::BATCH_ROWS_MAX,
    error::ScanError,
    estimate::Estimate,
    filter::{JoinKeys, LaneFilter, ScanFilter},
    footer,
    reader::{Read, Reader},
    restrict::RestrictedColumn,
    span::SPLIT_ROWS_MIN,
    spec::ParquetScanSpec,
    work::{Next, Work, WorkList},
};

/// Rows of a morsel: 15 full batches. The paper finds about 100,000 good (figure 6).
const MORSEL_ROWS: usize = 15 * BATCH_ROWS_MAX;

/// Parts for each lane that rows which come in order are cut into, if row groups are larger.
const PARTS: usize = 4;

/// Parquet files as the source of a pipeline.
pub struct ParquetSource {
    shared: Arc<Shared>,
}

struct Shared {
    spec: ParquetScanSpec,
    work: Arc<WorkList>,
    admission: Arc<Admission>,
    /// Rows that may still be produced.
    wanted: AtomicU64,
    /// What those who read the scan learnt before it began.
    restricted: Mutex<Vec<RestrictedColumn>>,
    /// The same for the rows that are read, by the columns of the scan that it is about.
    keys: Mutex<Vec<JoinKeys>>,
    /// Which rows those who read the scan want at all.
    filter: OnceLock<Arc<ScanFilter>>,
    order: Mutex<Option<Arc<RowOrder>>>,
    /// Of the rows in their order, those that are wanted.
    slice: Mutex<Option<Range<u64>>>,
    threads: usize,
}

impl ParquetSource {
    /// A source for what `spec` describes, which reserves the memory for reading in the pool of `ctx`. Opens no file yet.
    ///
    /// # Panics
    /// If the parts of `spec` do not fit together: a projected column that is neither in a file nor a partition column.
    pub fn new(ctx: &ExecContext, spec: ParquetScanSpec) -> Arc<Self> {
        assert_eq!(spec.projection.len(), spec.schema.fields().len(), "every projected column has a field");
        for file in &spec.files {
            let columns = spec.file_schema.fields().len() + file.partition_values.len();
            assert!(spec.projection.iter().all(|&column| column < columns), "only columns of the table are projected");
        }
        let shared = Shared {
            work: Arc::new(WorkList::new(spec.files.len())),
            admission: Admission::new(Arc::clone(&ctx.memory)),
            wanted: AtomicU64::new(spec.limit.unwrap_or(u64::MAX)),
            restricted: Mutex::default(),
            keys: Mutex::default(),
            filter: OnceLock::new(),
            order: Mutex::default(),
            slice: Mutex::default(),
            threads: ctx.settings.threads,
            spec,
        };
        Arc::new(Self { shared: Arc::new(shared) })
    }
}

impl Source for ParquetSource {
    fn name(&self) -> &str {
        "parquet scan"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.spec.schema)
    }

    fn rows_estimate(&self) -> Option<u64> {
        self.shared.spec.files.iter().map(|file| file.rows).sum()
    }

    fn domains(&self) -> Vec<Domain> {
        self.shared.spec.domains.clone()
    }

    fn restrict(&self, columns: &[usize], restriction: &Arc<Restriction>) -> bool {
        let Shared { spec, restricted, keys, .. } = &*self.shared;
        if spec.limit.is_some() || self.shared.slice.lock().is_some() {
            // Whoever wants any few rows is given the first.
            return false;
        }
        let column = |(number, &column): (usize, &usize)| {
            RestrictedColumn::new(&spec.file_schema, spec.projection[column], restriction, number)
        };
        restricted.lock().extend(columns.iter().enumerate().filter_map(column));
        keys.lock().push(JoinKeys { columns: columns.into(), restriction: Arc::clone(restriction) });
        true
    }

    fn filter(&self, predicate: &Expr) -> bool {
        // Those that a filter drops do not count for a limit.
        let is_limited = self.shared.spec.limit.is_some() || self.shared.slice.lock().is_some();
        !is_limited && self.shared.filter.set(Arc::new(ScanFilter::new(predicate))).is_ok()
    }

    fn has_order(&self) -> bool {
        true
    }

    fn keep_order(&self, order: &Arc<RowOrder>) {
        *self.shared.order.lock() = Some(Arc::clone(order));
        self.shared.begin_order(order);
    }

    /// In order it is known which rows of which row groups they are: others are not read.
    fn limit(&self, skip: u64, fetch: Option<u64>) -> bool {
        let Shared { spec, slice, order, keys, filter, .. } = &*self.shared;
        let order = order.lock();
        let Some(order) = order.as_ref().filter(|_| filter.get().is_none() && keys.lock().is_empty()) else {
            return false;
        };
        {
            let mut slice = slice.lock();
            let known = slice.take().unwrap_or(0..spec.limit.unwrap_or(u64::MAX));
            let start = known.start.saturating_add(skip).min(known.end);
            let end = fetch.map_or(known.end, |fetch| start.saturating_add(fetch).min(known.end));
            *slice = Some(start..end);
        }
        self.shared.begin_order(order);
        true
    }

    fn lanes(&self, threads: usize) -> usize {
        let is_serial = self.shared.order.lock().as_ref().is_some_and(|order| order.is_serial());
        let threads = if is_serial { 1 } else { threads };
        self.shared.admission.lanes(self.shared.work.lanes(threads))
    }

    fn attach(&self, waker: JobWaker) {
        self.shared.admission.attach(waker);
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        let filter = LaneFilter::new(self.shared.admission.memory(), self.shared.filter(), &self.shared.keys.lock());
        if filter.wants_nothing() {
            self.shared.stop();
        }
        Ok(Box::new(ParquetLocal {
            shared: Arc::clone(&self.shared),
            capacity: ctx.settings.chunk_capacity.max(1),
            order: LaneOrder::new(self.shared.order.lock().clone(), lane),
            filter,
            columns: Vec::new(),
            rows: 0,
            offset: 0,
            since_boundary: 0,
            reader: None,
        }))
    }

    fn stop(&self) {
        self.shared.stop();
    }
}

impl Shared {
    /// Has the rows that are wanted come in `order`.
    fn begin_order(&self, order: &RowOrder) {
        let files = self.spec.files.len().max(1);
        let wanted = self.slice.lock().clone().unwrap_or(0..self.spec.limit.unwrap_or(u64::MAX));
        let rows = wanted.end - wanted.start;
        if rows < SPLIT_ROWS_MIN as u64 {
            // They are not worth a second reader.
            order.serialize_source();
        }
        let parts = if order.is_serial() || self.threads < 2 { 1 } else { (PARTS * self.threads).div_ceil(files) };
        self.wanted.store(rows, Ordering::Relaxed);
        self.work.keep_order(parts, wanted);
    }

    fn stop(&self) {
        self.work.stop();
        self.admission.wake();
    }

    /// How many of `rows` rows are wanted, which are then produced.
    fn want(&self, rows: usize) -> usize {
        if self.spec.limit.is_none() && self.slice.lock().is_none() {
            return rows;
        }
        let take = |wanted: u64| wanted.min(rows as u64);
        let before =
            self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |wanted| Some(wanted - take(wanted)));
        let before = before.unwrap_or(0);
        if before <= rows as u64 {
            self.stop();
        }
        usize::try_from(take(before)).expect("at most `rows`")
    }

    /// Rows worth decoding at once.
    fn batch_rows(&self) -> usize {
        let wanted = usize::try_from(self.wanted.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        wanted.clamp(1, BATCH_ROWS_MAX)
    }

    fn filter(&self) -> Arc<ScanFilter> {
        self.filter.get().cloned().unwrap_or_default()
    }

    /// Loads the footer of a file, and tells the lanes that wait what there is to read in it.
    fn load(&self, file: usize) -> Result<(), ExecError> {
        let restricted = self.restricted.lock().clone();
        let work =
            footer::load(self.admission.memory(), &self.spec, &self.spec.files[file], &restricted, &self.filter())?;
        if let Some(work) = work.first()
            && !work.of.file.columns.is_empty()
        {
            let estimate = Estimate::new(&work.of.file, work.of.row_group, self.batch_rows());
            self.admission.expect(estimate.comfortable.bytes);
        }
        self.work.loaded(file, work);
        self.admission.wake();
        Ok(())
    }

    /// A reader for `work`; `None`: not now.
    fn open(&self, work: Work) -> Result<Option<Reader>, ExecError> {
        if work.of.file.columns.is_empty() {
            return Ok(Some(Reader::counting(&self.work, work)));
        }
        let estimate = Estimate::new(&work.of.file, work.of.row_group, self.batch_rows());
        let comfortable = estimate.comfortable.bytes.max(work.needed);
        let least = estimate.least.bytes.max(work.needed);
        let permit = match self.admission.admit(comfortable, least) {
            Ok(Some(permit)) => permit,
            Ok(None) => {
                self.work.put_back(work);
                return Ok(None);
            }
            Err(source) => {
                let (column, column_bytes) = estimate.largest;
                let error = ScanError::ReaderTooLarge {
                    path: work.of.file.path.clone(),
                    needed: least,
                    column,
                    column_bytes,
                    limit: self.admission.memory().limit(),
                    source: Box::new(source),
                };
                return Err(error.into());
            }
        };
        let plan = if permit.bytes() < comfortable { &estimate.least } else { &estimate.comfortable };
        Ok(Some(Reader::decoding(&self.work, work, permit, plan)?))
    }
}

/// One lane.
struct ParquetLocal {
    shared: Arc<Shared>,
    capacity: usize,
    /// The batch that is being handed out; before the reader, so that the memory for it goes last.
    columns: Vec<Column>,
    filter: LaneFilter,
    order: LaneOrder,
    rows: usize,
    offset: usize,
    /// Rows read since the last morsel ended.
    since_boundary: usize,
    reader: Option<Reader>,
}

impl ParquetLocal {
    /// The next piece of the batch at hand.
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

    fn clear(&mut self) {
        self.columns.clear();
        (self.rows, self.offset) = (0, 0);
    }

    /// Ends the reader of rows whose turn has not come if the memory for those before them may be what it holds.
    fn make_way(&mut self) {
        self.clear();
        if self.order.range().is_some_and(|range| self.shared.work.waits_before(range))
            && let Some(reader) = self.reader.take()
        {
            match reader.give_up() {
                true => self.order.set_aside(),
                false => self.order.leave(),
            }
            self.filter.end_row_group();
        }
    }

    /// Decodes the next batch; `Some` where there is none.
    fn refill(&mut self) -> Result<Option<SourceStep>, ExecError> {
        self.clear();
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        match reader.next(&mut self.filter, &mut self.columns)? {
            Read::Rows { read, passed } => {
                self.rows = self.shared.want(passed);
                self.since_boundary += read;
                if self.rows < passed {
                    self.columns.iter_mut().for_each(|column| *column = column.slice(0, self.rows));
                }
                Ok(None)
            }
            end @ (Read::End | Read::GaveUp) => {
                match end {
                    Read::End => self.order.leave(),
                    _ => self.order.set_aside(),
                }
                self.reader = None;
                self.filter.end_row_group();
                self.since_boundary = 0;
                Ok(Some(SourceStep::MorselEnd))
            }
        }
    }
}

impl SourceLocal for ParquetLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        loop {
            if let Some(chunk) = self.slice() {
                return Ok(SourceStep::Chunk(chunk));
            }
            if task.is_cancelled() {
                return Err(ExecError::Cancelled);
            }
            if self.shared.work.is_stopped() {
                self.clear();
                self.reader = None;
                return Ok(SourceStep::Exhausted);
            }
            if self.since_boundary >= MORSEL_ROWS {
                self.since_boundary = 0;
                return Ok(SourceStep::MorselEnd);
            }
            if self.reader.is_some() {
                if !self.order.may_emit() {
                    self.make_way();
                    return Ok(SourceStep::Blocked);
                }
                if let Some(step) = self.refill()? {
                    return Ok(step);
                }
                continue;
            }
            match self.shared.work.next(&mut self.order) {
                Next::Footer(file) => {
                    self.shared.load(file)?;
                    return Ok(SourceStep::MorselEnd);
                }
                Next::Read(work) if !self.order.may_emit() => {
                    self.order.set_aside();
                    self.shared.work.put_back(work);
                    return Ok(SourceStep::Blocked);
                }
                Next::Read(work) => match self.shared.open(work)? {
                    Some(reader) => self.reader = Some(reader),
                    None => {
                        self.order.set_aside();
                        return Ok(SourceStep::Blocked);
                    }
                },
                Next::Wait => return Ok(SourceStep::Blocked),
                Next::Done => return Ok(SourceStep::Exhausted),
            }
        }
    }
}
