//! Rows that nobody wants any more: lanes that wait for them are told.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ogee_exec::{
    ExecContext, ExecError, ExecSettings, Expr, Limit, OpenPipeline, Query, Source, SourceLocal, SourceStep,
    UnionSource,
    sort::{SortKey, SortSpec, sort},
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;

#[path = "support/drain.rs"]
mod drain;
use drain::drain;

/// Lane 0 has a chunk once lane 1 waits for one, which never comes.
struct OneWaits {
    waits: Arc<AtomicBool>,
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

impl Source for OneWaits {
    fn name(&self) -> &str {
        "one waits"
    }

    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn local(&self, _ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(Local { lane, waits: Arc::clone(&self.waits) }))
    }

    fn stop(&self) {}
}

struct Local {
    lane: usize,
    waits: Arc<AtomicBool>,
}

impl SourceLocal for Local {
    fn next(&mut self, _task: &TaskContext) -> Result<SourceStep, ExecError> {
        if self.lane > 0 {
            self.waits.store(true, Ordering::Release);
            return Ok(SourceStep::Blocked);
        }
        while !self.waits.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        Ok(SourceStep::Chunk(Chunk::new(vec![numbers], 10)))
    }
}

/// The rows that a limit of 10 lets through, if they come within a minute.
fn limited(in_union: bool) -> usize {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let memory = BufferManager::new(MemoryConfig { counts_process: false, ..MemoryConfig::default() }).unwrap();
        let ctx = ExecContext::new(memory, ExecSettings { threads: 2, ..ExecSettings::default() });
        let mut query = Query::new(ctx);
        let mut open = OpenPipeline::new(Arc::new(OneWaits { waits: Arc::default() }));
        if in_union {
            open = UnionSource::open(schema(), vec![open], None);
        }
        open.operators.push(Arc::new(Limit::new(0, Some(10))));
        // Whoever reads rows of a query wakes its lanes; a sink that keeps them does not.
        let key = SortKey { expr: Expr::Column(0), data_type: DataType::Int64, descending: true, nulls_first: false };
        let spec = SortSpec { keys: vec![key], fetch: None, schema: schema() };
        let sorted = sort(&mut query, open, spec).unwrap();
        let chunks = drain(query, sorted, 2).unwrap();
        sender.send(chunks.iter().map(Chunk::len).sum()).unwrap();
    });
    receiver.recv_timeout(Duration::from_secs(60)).unwrap()
}

#[test]
fn lanes_that_wait_learn_that_no_more_rows_are_wanted() {
    assert_eq!(limited(false), 10);
    assert_eq!(limited(true), 10);
}
