//! Chunks that wait for a slow reader, or for a query that is slower than its feed: only as many as there is memory for.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ogee_exec::{
    ChannelSource, ExecContext, ExecError, ExecSettings, OpenPipeline, OutputStream, Query, Source, SourceLocal,
    SourceStep,
};
use ogee_memory::{BufferManager, MemoryConfig, Reservation};
use ogee_scheduler::{Scheduler, TaskContext};
use ogee_vector::Chunk;

const LIMIT: usize = 512 << 20;
const CHUNK_BYTES: usize = 4 << 20;
const CHUNKS: usize = 100;
const ROWS: usize = CHUNK_BYTES / 8;

fn context(threads: usize) -> ExecContext {
    let config = MemoryConfig { counts_process: false, limit: LIMIT, ..MemoryConfig::default() };
    let settings = ExecSettings { threads, chunk_capacity: ROWS, ..ExecSettings::default() };
    ExecContext::new(BufferManager::new(config).unwrap(), settings)
}

fn schema(data_type: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", data_type, false)]))
}

/// Large chunks, counted as they are made.
struct Large(Arc<AtomicUsize>);

impl Source for Large {
    fn name(&self) -> &str {
        "large"
    }

    fn schema(&self) -> SchemaRef {
        schema(DataType::Int64)
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        Ok(Box::new(LargeLocal(Arc::clone(&self.0))))
    }

    fn stop(&self) {}
}

struct LargeLocal(Arc<AtomicUsize>);

impl SourceLocal for LargeLocal {
    fn next(&mut self, _task: &TaskContext) -> Result<SourceStep, ExecError> {
        if self.0.fetch_add(1, Ordering::Relaxed) >= CHUNKS {
            return Ok(SourceStep::Exhausted);
        }
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        Ok(SourceStep::Chunk(Chunk::new(vec![numbers], ROWS)))
    }
}

/// What `made` comes to once it has not changed for a while.
fn settled(made: &AtomicUsize) -> usize {
    let (mut before, mut since) = (made.load(Ordering::Relaxed), Instant::now());
    while since.elapsed() < Duration::from_millis(200) {
        thread::sleep(Duration::from_millis(5));
        let now = made.load(Ordering::Relaxed);
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    before
}

/// Waits until `is_so`.
fn soon(is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "it takes a minute");
        thread::sleep(Duration::from_millis(1));
    }
}

fn rows_of(stream: &mut OutputStream) -> usize {
    let mut context = Context::from_waker(Waker::noop());
    let mut rows = 0;
    loop {
        match stream.poll_next(&mut context) {
            Poll::Ready(Some(chunk)) => rows += chunk.unwrap().len(),
            Poll::Ready(None) => return rows,
            Poll::Pending => thread::sleep(Duration::from_micros(50)),
        }
    }
}

/// Leaves `left` bytes of the memory of `ctx`.
fn occupied(ctx: &ExecContext, left: usize) -> Reservation {
    ctx.memory.reserve("test", LIMIT - left).unwrap()
}

#[test]
fn an_output_keeps_what_there_is_memory_for() {
    for threads in [1, 2, 8] {
        for (left, most) in [(0, 1), (3 * CHUNK_BYTES + CHUNK_BYTES / 2, 4)] {
            let (ctx, made) = (context(threads), Arc::default());
            let taken = occupied(&ctx, left);
            let scheduler = Scheduler::new(threads);
            let open = OpenPipeline::new(Arc::new(Large(Arc::clone(&made))));
            let mut stream = Query::new(ctx.clone()).stream(open, &scheduler, 16);
            // Each lane may have found room before the chunk came that there was no memory for.
            let kept = settled(&made);
            assert!(kept < most + threads, "{kept} chunks with {left} bytes left, {threads} threads");
            assert_eq!(rows_of(&mut stream), CHUNKS * ROWS);
            drop(taken);
            assert_eq!(ctx.memory.room(), LIMIT, "all promises are given back");
        }
    }
}

#[test]
fn an_output_that_nobody_reads_gives_its_memory_back() {
    let (ctx, made) = (context(2), Arc::default());
    let scheduler = Scheduler::new(2);
    let open = OpenPipeline::new(Arc::new(Large(Arc::clone(&made))));
    let stream = Query::new(ctx.clone()).stream(open, &scheduler, 8);
    // Those that wait are promised: eight, each of the megabyte that an output takes at a time.
    soon(|| ctx.memory.room() <= LIMIT - 8 * (1 << 20));
    drop(stream);
    soon(|| ctx.memory.room() == LIMIT);
}

#[test]
fn few_strings_do_not_keep_the_buffers_of_many() {
    let ctx = context(1);
    let texts: Vec<String> = (0..ROWS / 8).map(|row| format!("{row:0>64}")).collect();
    let array = StringViewArray::from_iter_values(&texts);
    let chunks = (0..8).map(|nth| Chunk::new(vec![Arc::new(array.slice(nth, 1)) as ArrayRef], 1)).collect();
    let source = ogee_exec::ChunksSource::new(schema(DataType::Utf8View), chunks);
    let scheduler = Scheduler::new(1);
    let mut stream = Query::new(ctx.clone()).stream(OpenPipeline::new(source), &scheduler, 16);
    thread::sleep(Duration::from_millis(50));
    assert!(ctx.memory.room() > LIMIT - (1 << 20), "{} bytes are left", ctx.memory.room());
    assert_eq!(rows_of(&mut stream), 8);
}

/// How many of `chunks` the sender is rid of before it has to wait, and whether all were wanted once `after` has been called.
fn sent(ctx: &ExecContext, chunks: usize, after: impl FnOnce(Arc<ChannelSource>, usize) + Send) -> bool {
    let (source, mut sender) = ChannelSource::new("feed", schema(DataType::Int64), 8, ctx);
    let count = AtomicUsize::new(0);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let rows = Chunk::new(vec![numbers], ROWS);
    let mut feed = pin!(async {
        for _ in 0..chunks {
            if !sender.send(&rows).await {
                return false;
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
        sender.finish(Ok(()));
        true
    });
    let mut context = Context::from_waker(Waker::noop());
    assert!(feed.as_mut().poll(&mut context).is_pending(), "a channel is bounded");
    thread::scope(|scope| {
        let sent = count.load(Ordering::Relaxed);
        let reader = scope.spawn(move || after(source, sent));
        let wanted = loop {
            match feed.as_mut().poll(&mut context) {
                Poll::Ready(wanted) => break wanted,
                Poll::Pending => thread::sleep(Duration::from_micros(50)),
            }
        };
        reader.join().unwrap();
        wanted
    })
}

#[test]
fn a_channel_keeps_what_there_is_memory_for() {
    for (left, most) in [(0, 1), (3 * CHUNK_BYTES + CHUNK_BYTES / 2, 3), (LIMIT, 8)] {
        let ctx = context(2);
        let taken = (left < LIMIT).then(|| occupied(&ctx, left));
        let wanted = sent(&ctx, CHUNKS, |source, sent| {
            assert_eq!(sent, most, "{left} bytes left");
            let scheduler = Scheduler::new(2);
            let mut stream = Query::new(ctx.clone()).stream(OpenPipeline::new(source), &scheduler, 4);
            assert_eq!(rows_of(&mut stream), CHUNKS * ROWS);
        });
        assert!(wanted);
        drop(taken);
        assert_eq!(ctx.memory.room(), LIMIT);
    }
}

#[test]
fn a_channel_that_is_stopped_takes_no_more() {
    let ctx = context(2);
    let wanted = sent(&ctx, CHUNKS, |source, _| source.stop());
    assert!(!wanted);
    assert_eq!(ctx.memory.room(), LIMIT);
}
