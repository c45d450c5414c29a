//! Times a grouping over columns in memory, without files: what the aggregation itself costs.
//!
//! `cargo run --release -p ogee-exec --example groupby -- ROWS GROUPS THREADS LIMIT_MB [wide]`
//! Prints seconds and nanoseconds of a row (wall time over rows), and what was spilled.
#![expect(clippy::unwrap_used, reason = "an example")]

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, Schema};
use ogee_exec::{
    ChunksSource, ExecContext, ExecSettings, Expr, OpenPipeline, Query,
    aggregate::{self, AggregateCall, AggregateFunction as F, AggregateMode, AggregateSpec, GroupKey},
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scheduler::Scheduler;
use ogee_vector::Chunk;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<u64>().unwrap();
    let (rows, groups, threads, limit) = (number(1), number(2), number(3) as usize, number(4) as usize);
    let wide = args.get(5).is_some();
    let columns = if wide { 12 } else { 3 };
    let mut state = 88_172_645_463_325_252u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let arrays: Vec<ArrayRef> = (0..columns)
        .map(|c| {
            let values = (0..rows).map(|_| if c == 0 { (random() >> 8) % groups } else { random() >> 40 } as i64);
            Arc::new(Int64Array::from_iter_values(values)) as ArrayRef
        })
        .collect();
    let chunks: Vec<Chunk> = (0..rows.div_ceil(2048))
        .map(|i| {
            let start = i as usize * 2048;
            let len = (rows as usize - start).min(2048);
            Chunk::new(arrays.iter().map(|a| a.slice(start, len)).collect(), len)
        })
        .collect();
    let memory =
        BufferManager::new(MemoryConfig { limit: limit << 20, counts_process: false, ..MemoryConfig::default() })
            .unwrap();
    let scheduler = Scheduler::new(threads);
    for round in 0..3 {
        let ctx = ExecContext::new(Arc::clone(&memory), ExecSettings { threads, ..ExecSettings::default() });
        let schema = |n: usize| {
            let fields: Vec<_> = (0..n).map(|i| Field::new(format!("c{i}"), DataType::Int64, false)).collect();
            Arc::new(Schema::new(fields))
        };
        let mut query = Query::new(ctx.clone());
        let open = OpenPipeline::new(ChunksSource::new(schema(columns), chunks.clone()));
        let spec = AggregateSpec {
            keys: vec![GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 }],
            grouping_sets: None,
            aggregates: (1..columns)
                .map(|c| AggregateCall {
                    function: if wide { F::Min } else { F::Sum },
                    args: vec![Expr::Column(c)],
                    arg_types: vec![DataType::Int64],
                    filter: None,
                    distinct: false,
                    output: DataType::Int64,
                })
                .collect(),
            collected: None,
            mode: AggregateMode::Single,
            schema: schema(columns),
        };
        let start = Instant::now();
        let open = aggregate::aggregate(&mut query, open, spec).unwrap();
        let mut stream = query.stream(open, &scheduler, 16);
        let mut context = Context::from_waker(Waker::noop());
        let mut out = 0;
        loop {
            match stream.poll_next(&mut context) {
                Poll::Ready(Some(chunk)) => out += chunk.unwrap().len(),
                Poll::Ready(None) => break,
                Poll::Pending => std::thread::sleep(Duration::from_micros(100)),
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let stats = memory.stats();
        println!(
            "round {round}: {out} groups, {seconds:.3} s, {:.2} ns a row, peak {} MiB, spilled {} MiB in all, {:?}",
            seconds * 1e9 / rows as f64,
            stats.peak_used >> 20,
            stats.spilled_bytes >> 20,
            ctx.counters.strategies()
        );
    }
}
