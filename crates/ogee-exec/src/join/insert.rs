//! Second phase: the rows that stay in memory are pinned and put into the table, by all lanes at once.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use ogee_row::PinnedRows;
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;

use super::{
    key_set::KeyScratch,
    ranges::RangeTable,
    state::{Built, JoinState, build_rows, pinned},
};
use crate::{
    ExecContext, ExecError, Flow, Sink, SinkLocal, Source, SourceLocal, SourceStep,
    cancel::{Cancelled, obey, pin_all},
};

/// Pages of a morsel: at 24 bytes a row about as many rows as a morsel should have.
pub(crate) const MORSEL_PAGES: usize = 8;

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
        threads.min(resident.waiting.len() + resident.serial_pages.div_ceil(MORSEL_PAGES))
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
    /// Pins the pages of the next morsel, without the lock: those that have left memory are read by several lanes at once.
    fn take(&self, cancelled: Cancelled<'_>) -> Result<Vec<PinnedRows>, ExecError> {
        let mut resident = self.built.resident.lock();
        let waiting = resident.waiting.pop_front();
        let (part, pages) = if let Some(mut part) = waiting {
            drop(resident);
            let pages = pin_all(&mut part, cancelled)?;
            (part, pages)
        } else if let Some(mut serial) = resident.serial.pop() {
            resident.serial_pages -= serial.num_pages();
            drop(resident);
            let mut rows = build_rows(&self.state.ctx.memory, &self.state.plan, true);
            loop {
                obey(cancelled)?;
                if !rows.append_last_serial_page(&mut serial)? {
                    break;
                }
            }
            pinned(rows, cancelled)?
        } else {
            return Ok(Vec::new());
        };
        self.built.resident.lock().parts.push(part);
        Ok(pages)
    }
}

impl SourceLocal for InsertLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        if self.built.table.touch_some() {
            return Ok(SourceStep::MorselEnd);
        }
        let pages = self.take(&|| task.is_cancelled())?;
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

    fn finish(&self, ctx: &ExecContext, task: &TaskContext) -> Result<(), ExecError> {
        let cancelled: Cancelled<'_> = &|| task.is_cancelled();
        let built = self.state.built();
        if let Some(heap) = self.state.plan.heap_buffers(&built.resident.lock().pages) {
            assert!(built.heap.set(heap).is_ok(), "rows are pinned once");
        }
        if self.state.plan.spec.ranges.is_some() {
            let table = RangeTable::new(&self.state.plan, &ctx.memory, &built.resident.lock().pages, cancelled)?;
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

    fn combine(self: Box<Self>, _task: &TaskContext) -> Result<(), ExecError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::time::Duration;

    use arrow_array::{ArrayRef, Int64Array};
    use ogee_memory::{BufferManager, FaultPlan, FaultyIo, MemoryConfig, TempCompression};
    use ogee_scheduler::Cancellation;

    use super::*;
    use crate::{
        ChunksSource, ExecSettings, JoinStrategy, OpenPipeline, Query,
        cancel::{after, is_cancelled},
        join::{JoinKind, JoinSpec, build::BuildSink, reach::Reaches, spec::JoinPlan},
    };

    /// A build side of two lanes, each with the rows of one morsel, that is not complete yet.
    fn build(config: MemoryConfig, join_strategy: Option<JoinStrategy>) -> (Arc<JoinState>, BuildSink) {
        let memory = BufferManager::new(MemoryConfig { limit: 256 << 20, counts_process: false, ..config }).unwrap();
        let ctx = ExecContext::new(memory, ExecSettings { join_strategy, threads: 2, ..ExecSettings::default() });
        let plan = Arc::new(JoinPlan::new(JoinSpec::of_numbers(JoinKind::Inner)).unwrap());
        let probe = OpenPipeline::new(ChunksSource::new(Arc::clone(&plan.spec.probe), Vec::new()));
        let reaches = Reaches::of(&plan, &Query::new(ctx.clone()), &probe);
        let state = Arc::new(JoinState::new(plan, ctx.clone(), reaches));
        let cancelled = Cancellation::new(false);
        let task = TaskContext { worker: 0, cancelled: &cancelled };
        let sink = BuildSink::new(Arc::clone(&state));
        let page = ogee_memory::PAGE_SIZE / state.plan.build.layout.width();
        for _ in 0..2 {
            let mut lane = sink.local(&ctx, 0).unwrap();
            for _ in 0..MORSEL_PAGES {
                let keys: ArrayRef = Arc::new((0..page as i64).collect::<Int64Array>());
                lane.consume(Chunk::new(vec![keys], page), &task).unwrap();
            }
            lane.combine(&task).unwrap();
        }
        (state, sink)
    }

    fn finish(state: &JoinState, sink: &BuildSink, checks: u64) -> Result<(), ExecError> {
        sink.finish(&state.ctx, &TaskContext { worker: 0, cancelled: &Cancellation::after(checks) })
    }

    fn lane(state: &Arc<JoinState>) -> InsertLocal {
        InsertLocal { state: Arc::clone(state), built: state.built(), scratch: KeyScratch::default() }
    }

    #[test]
    fn each_page_of_the_build_side_is_an_occasion_to_end() {
        // All rows are divided when the side is complete.
        let pages = 2 * MORSEL_PAGES as u64;
        for checks in [0, 1, pages / 2, pages - 1] {
            let (state, sink) = build(MemoryConfig::default(), Some(JoinStrategy::Partitioned));
            assert!(is_cancelled(&finish(&state, &sink, checks)), "{checks}");
        }
        let (state, sink) = build(MemoryConfig::default(), Some(JoinStrategy::Partitioned));
        finish(&state, &sink, 10 * pages).unwrap();
        // They are put into the table, divided or not.
        for join_strategy in [None, Some(JoinStrategy::Hybrid)] {
            let (state, sink) = build(MemoryConfig::default(), join_strategy);
            finish(&state, &sink, 10 * pages).unwrap();
            let pages = match join_strategy {
                None => MORSEL_PAGES,
                Some(_) => state.built().resident.lock().serial.last().unwrap().num_pages(),
            };
            assert!(is_cancelled(&lane(&state).take(&after(pages - 1))), "{join_strategy:?}");
            assert!(!lane(&state).take(&after(10 * pages)).unwrap().is_empty());
        }
    }

    #[test]
    fn lanes_read_pages_of_the_build_side_at_the_same_time() {
        let io = FaultyIo::new(1);
        let config = MemoryConfig {
            // Pages leave memory as soon as nobody has them pinned, and are read by those who pin them.
            spill_always: true,
            io_threads: 0,
            temp_compression: TempCompression::Off,
            io: Arc::new(io.clone()),
            ..MemoryConfig::default()
        };
        let (state, sink) = build(config, None);
        finish(&state, &sink, 1000).unwrap();
        let source = InsertSource::new(Arc::clone(&state));
        assert_eq!(source.lanes(8), 2);
        io.set(FaultPlan { pair_reads: Some(Duration::from_secs(20)), ..FaultPlan::default() });
        let pages = std::thread::scope(|scope| {
            let lanes = [lane(&state), lane(&state)].map(|lane| scope.spawn(move || lane.take(&|| false)));
            lanes.map(|lane| lane.join().unwrap().unwrap().len())
        });
        assert_eq!((pages, io.reads_alone()), ([MORSEL_PAGES; 2], 0));
        assert!(lane(&state).take(&|| false).unwrap().is_empty());
        assert_eq!(source.lanes(8), 0);
    }
}
