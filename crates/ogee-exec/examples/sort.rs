//! Times a sort, the first rows of an order, or a window over columns in memory, without files: what the operators themselves cost.
//!
//! `cargo run --release -p ogee-exec --example sort -- ROWS THREADS LIMIT_MB sort|strings|top|window [COLUMNS]`
//! Prints seconds and nanoseconds of a row (wall time over rows), and what was spilled.
#![expect(clippy::unwrap_used, reason = "an example")]

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use ogee_exec::{
    ChunksSource, ExecContext, ExecSettings, Expr, OpenPipeline, Query,
    sort::{SortKey, SortSpec, sort},
    window::{Extent, WindowCall, WindowFunction, WindowSpec, window},
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scheduler::Scheduler;
use ogee_vector::Chunk;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<usize>().unwrap();
    let (rows, threads, limit, what) = (number(1), number(2), number(3), args[4].as_str());
    let columns = if args.len() > 5 { number(5) } else { 2 };
    let mut state = 88_172_645_463_325_252u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut arrays: Vec<ArrayRef> = (0..columns)
        .map(|_| Arc::new(Int64Array::from_iter_values((0..rows).map(|_| (random() >> 20) as i64))) as ArrayRef)
        .collect();
    if what == "strings" {
        let values = (0..rows).map(|_| format!("https://example.org/{:x}", random() >> 24));
        arrays[0] = Arc::new(StringViewArray::from_iter_values(values));
    }
    if what == "window" {
        arrays[0] =
            Arc::new(Int64Array::from_iter_values((0..rows).map(|_| (random() % (rows as u64 / 50 + 1)) as i64)));
    }
    let chunks: Vec<Chunk> = (0..rows)
        .step_by(2048)
        .map(|start| {
            let len = (rows - start).min(2048);
            Chunk::new(arrays.iter().map(|a| a.slice(start, len)).collect(), len)
        })
        .collect();
    let mut fields: Vec<Field> =
        arrays.iter().enumerate().map(|(i, a)| Field::new(format!("c{i}"), a.data_type().clone(), false)).collect();
    let input = Arc::new(Schema::new(fields.clone()));
    let key = |column: usize| SortKey {
        expr: Expr::Column(column),
        data_type: input.field(column).data_type().clone(),
        descending: false,
        nulls_first: false,
    };
    let call = |function, arg, output| WindowCall { function, arg, key: None, order_keys: 1, output };
    let calls = vec![
        call(WindowFunction::RowNumber, None, DataType::UInt64),
        call(WindowFunction::Sum(Extent::Peers), Some((Expr::Column(1), DataType::Int64)), DataType::Int64),
    ];
    fields.extend(calls.iter().map(|call| Field::new("w", call.output.clone(), true)));
    let memory =
        BufferManager::new(MemoryConfig { limit: limit << 20, counts_process: false, ..MemoryConfig::default() });
    let memory = memory.unwrap();
    let scheduler = Scheduler::new(threads);
    for round in 0..3 {
        let ctx = ExecContext::new(Arc::clone(&memory), ExecSettings { threads, ..ExecSettings::default() });
        let mut query = Query::new(ctx.clone());
        let open = OpenPipeline::new(ChunksSource::new(Arc::clone(&input), chunks.clone()));
        let start = Instant::now();
        let open = match what {
            "window" => {
                let spec = WindowSpec {
                    partition_by: vec![key(0)],
                    order_by: vec![key(1)],
                    calls: calls.clone(),
                    leading: None,
                    input: Arc::clone(&input),
                    schema: Arc::new(Schema::new(fields.clone())),
                };
                window(&mut query, open, spec)
            }
            _ => {
                let fetch = (what == "top").then_some(100);
                sort(&mut query, open, SortSpec { keys: vec![key(0)], fetch, schema: Arc::clone(&input) })
            }
        };
        let mut stream = query.stream(open.unwrap(), &scheduler, 16);
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
            "round {round}: {out} rows, {seconds:.3} s, {:.2} ns a row, peak {} MiB, spilled {} MiB in all, {:?}",
            seconds * 1e9 / rows as f64,
            stats.peak_used >> 20,
            stats.spilled_bytes >> 20,
            ctx.counters.strategies()
        );
    }
}
