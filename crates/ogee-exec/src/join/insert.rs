//! Second phase: the rows that stay in memory are pinned and put into the table, by all lanes at once.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use ogee_row::{PinnedRows, SerialPartition};
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;

use super::{
    key_set::KeyScratch,
    ranges::RangeTable,
    state::{Built, JoinState, build_rows, pinned},
};
use crate::{ExecContext, ExecError, Flow, Sink, SinkLocal, Source, SourceLocal, SourceStep};

/// Pages of a morsel: at 24 bytes a row about as many rows as a morsel should have.
const MORSEL_PAGES: usize = 8;

/// Puts rows into the table. It has no rows to give.
pub(crate) struct InsertSource {
    state: Arc<JoinState>,
    schema: SchemaRef,
}

impl InsertSource {
    pub(crate) fn new(state: Arc<JoinState>) -> Self {
        Self { state, schema: Arc::new(Schema::empty()) }
    }
}

impl Source for InsertSource {
    fn name(&self) -> &str {
        "join insert"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn lanes(&self, threads: usize) -> usize {
        let built = self.state.built();
        let resident = built.resident.lock();
        let waiting = resident.waiting.iter().map(|(part, at)| part.num_pages() - at);
        let pages = waiting.chain(resident.serial.iter().map(SerialPartition::num_pages)).sum::<usize>();
        threads.min(pages.div_ceil(MORSEL_PAGES))
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(InsertLocal {
            state: Arc::clone(&self.state),
            built: self.state.built(),
            scratch: KeyScratch::default(),
        }))
    }
}

struct InsertLocal {
    state: Arc<JoinState>,
    built: Arc<Built>,
    scratch: KeyScratch,
}

impl InsertLocal {
    /// Pins the pages of the next morsel.
    fn take(&self) -> Result<Vec<PinnedRows>, ExecError> {
        let mut resident = self.built.resident.lock();
        let mut pages = Vec::with_capacity(MORSEL_PAGES);
        while pages.len() < MORSEL_PAGES {
            let Some((part, at)) = resident.waiting.front_mut() else { break };
            if *at < part.num_pages() {
                pages.push(part.pin_page(*at)?);
                *at += 1;
            } else if let Some((part, _)) = resident.waiting.pop_front() {
                resident.parts.push(part);
            }
        }
        if !pages.is_empty() {
            return Ok(pages);
        }
        let Some(serial) = resident.serial.pop() else { return Ok(pages) };
        drop(resident);
        let mut rows = build_rows(&self.state.ctx.memory, &self.state.plan, true);
        rows.append_serial_partition(serial)?;
        let (part, pages) = pinned(rows)?;
        self.built.resident.lock().parts.push(part);
        Ok(pages)
    }
}

impl SourceLocal for InsertLocal {
    fn next(&mut self, _task: &TaskContext) -> Result<SourceStep, ExecError> {
        if self.built.table.touch_some() {
            return Ok(SourceStep::MorselEnd);
        }
        let pages = self.take()?;
        if pages.is_empty() {
            return Ok(SourceStep::Exhausted);
        }
        let layout = &self.state.plan.build.layout;
        // Where rows are looked up in their order, they are sorted when all are there.
        let hashed = if self.state.plan.spec.ranges.is_none() { &pages[..] } else { &[] };
        for page in hashed {
            // SAFETY: the page is handed over with its pin below, to stay as long as the table; it was taken by this lane alone.
            unsafe { self.built.table.insert(page) };
        }
        for page in &pages {
            self.state.reaches.add_page(&self.built.key_sets, layout, page, &mut self.scratch)?;
        }
        self.built.resident.lock().pages.extend(pages);
        Ok(SourceStep::MorselEnd)
    }
}

/// The end of a pipeline that gives no rows.
pub(crate) struct Inserted {
    state: Arc<JoinState>,
}

impl Inserted {
    pub(crate) fn new(state: Arc<JoinState>) -> Self {
        Self { state }
    }
}

impl Sink for Inserted {
    fn name(&self) -> &str {
        "table"
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        Ok(Box::new(InsertedLocal))
    }

    fn finish(&self, ctx: &ExecContext) -> Result<(), ExecError> {
        let built = self.state.built();
        if let Some(heap) = self.state.plan.heap_buffers(&built.resident.lock().pages) {
            assert!(built.heap.set(heap).is_ok(), "rows are pinned once");
        }
        if self.state.plan.spec.ranges.is_some() {
            let table = RangeTable::new(&self.state.plan, &ctx.memory, &built.resident.lock().pages)?;
            assert!(built.sorted.set(table).is_ok(), "rows are sorted once");
            ctx.counters.note_strategy("join: by comparisons".to_owned());
        }
        Ok(())
    }
}

struct InsertedLocal;

impl SinkLocal for InsertedLocal {
    fn consume(&mut self, chunk: Chunk, _task: &TaskContext) -> Result<Flow, ExecError> {
        unreachable!("{} rows out of a source that has none", chunk.len());
    }

    fn combine(self: Box<Self>) -> Result<(), ExecError> {
        Ok(())
    }
}
