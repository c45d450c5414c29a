//! Operators that pause: a sink takes one chunk at a time, stops, fails or is cancelled at any of them, and nobody has made many more, or holds anything afterwards.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::{
        Arc, Condvar, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, ListArray, cast::AsArray, types::Int64Type};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ogee_exec::{
    ChunksSource, EmptyLists, ExecContext, ExecError, ExecSettings, Expr, Flow, Limit, OpenPipeline, Operator,
    OperatorLocal, OperatorProfile, OperatorStep, Query, RowsExpected, RunningQuery, Sink, SinkLocal, UnionSource,
    Unnest,
    join::{JoinColumn, JoinKey, JoinKind, JoinSpec, hash_join},
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scheduler::{JobWaker, Scheduler, TaskContext};
use ogee_vector::Chunk;

/// What happens when the sink has taken so many chunks.
#[derive(Clone, Copy, Debug)]
enum End {
    Never,
    Stop(usize),
    Fail(usize),
    Cancel(usize),
}

/// Takes a chunk whenever it is opened.
struct Gate {
    end: End,
    is_open: AtomicBool,
    /// Chunks since it was opened.
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    chunks: AtomicUsize,
    rows: AtomicUsize,
    sum: AtomicUsize,
    waker: OnceLock<JobWaker>,
}

impl Gate {
    fn new(end: End) -> Arc<Self> {
        Arc::new(Self {
            end,
            is_open: AtomicBool::new(true),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            chunks: AtomicUsize::new(0),
            rows: AtomicUsize::new(0),
            sum: AtomicUsize::new(0),
            waker: OnceLock::new(),
        })
    }

    /// Opens it whenever it is closed, until `is_over`; cancels `query` when that is due.
    fn keep(&self, query: &RunningQuery, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            if matches!(self.end, End::Cancel(chunks) if self.chunks.load(Ordering::Acquire) >= chunks) {
                query.cancel();
            }
            if !self.is_open.load(Ordering::Acquire) {
                self.at_once.store(0, Ordering::Relaxed);
                self.is_open.store(true, Ordering::Release);
                self.waker.get().unwrap().wake();
            }
            thread::sleep(Duration::from_micros(20));
        }
    }
}

/// The sink that a pipeline has of it.
struct GateSink(Arc<Gate>);

impl Sink for GateSink {
    fn name(&self) -> &str {
        "gate"
    }

    fn attach(&self, waker: JobWaker) {
        assert!(self.0.waker.set(waker).is_ok());
    }

    fn ready(&self) -> bool {
        self.0.is_open.load(Ordering::Acquire)
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        Ok(Box::new(GateLocal(Arc::clone(&self.0))))
    }

    fn finish(&self, _ctx: &ExecContext, _task: &TaskContext) -> Result<(), ExecError> {
        Ok(())
    }
}

struct GateLocal(Arc<Gate>);

impl SinkLocal for GateLocal {
    fn consume(&mut self, chunk: Chunk, _task: &TaskContext) -> Result<Flow, ExecError> {
        let gate = &self.0;
        gate.is_open.store(false, Ordering::Release);
        gate.most_at_once.fetch_max(gate.at_once.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        gate.rows.fetch_add(chunk.len(), Ordering::Relaxed);
        let flat = chunk.flatten()?;
        let sum: i64 = flat.column(0).array.as_primitive::<Int64Type>().values().iter().sum();
        gate.sum.fetch_add(sum as usize, Ordering::Relaxed);
        let chunks = gate.chunks.fetch_add(1, Ordering::AcqRel) + 1;
        match gate.end {
            End::Stop(end) if chunks >= end => Ok(Flow::Stop),
            End::Fail(end) if chunks >= end => Err(ExecError::Foreign("the sink had enough".into())),
            _ => Ok(Flow::Continue),
        }
    }

    fn combine(self: Box<Self>, _task: &TaskContext) -> Result<(), ExecError> {
        Ok(())
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, true), Field::new("key", DataType::Int64, true)]))
}

/// `rows` rows, whose keys are numbers below `keys`.
fn rows(rows: i64, keys: i64) -> OpenPipeline {
    let chunk = |first: i64| {
        let end = rows.min(first + 100);
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first..end));
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((first..end).map(|value| value % keys)));
        Chunk::new(vec![values, keys], (end - first) as usize)
    };
    OpenPipeline::new(ChunksSource::new(schema(), (0..rows).step_by(100).map(chunk).collect()))
}

fn join(query: &mut Query, build: OpenPipeline, probe: OpenPipeline, kind: JoinKind) -> OpenPipeline {
    let key = JoinKey { build: Expr::Column(1), probe: Expr::Column(1), data_type: DataType::Int64 };
    let spec = JoinSpec {
        kind,
        keys: vec![key],
        nulls_equal: false,
        null_aware: false,
        residual: None,
        ranges: None,
        output: vec![JoinColumn::Probe(0), JoinColumn::Probe(1)],
        build: schema(),
        probe: schema(),
        build_domains: Vec::new(),
        build_rows: RowsExpected::new(|| u64::MAX),
        groups_wait: false,
        dropped: Arc::default(),
        schema: schema(),
    };
    hash_join(query, build, probe, spec).unwrap()
}

/// Lists of `length` elements, each a chunk of its own.
fn lists(count: i64, length: i64) -> OpenPipeline {
    let item = Arc::new(Field::new_list_field(DataType::Int64, true));
    let schema = Arc::new(Schema::new(vec![Field::new("list", DataType::List(Arc::clone(&item)), true)]));
    let list = |_| {
        let values = Arc::new(Int64Array::from_iter_values(0..length));
        let offsets = OffsetBuffer::from_lengths([length as usize]);
        let list: ArrayRef = Arc::new(ListArray::new(Arc::clone(&item), offsets, values, None));
        Chunk::new(vec![list], 1)
    };
    let mut open = OpenPipeline::new(ChunksSource::new(schema, (0..count).map(list).collect()));
    open.operators.push(Arc::new(Unnest::new(vec![0], EmptyLists::Drop)));
    open
}

/// Pipelines whose chunks become many, by what is paused in them, and how many rows they give.
const CASES: [(&str, usize); 6] = [
    // 400 build rows of one key, 200 probe rows of it.
    ("join", 80_000),
    // Each of them with 30 more.
    ("joins", 2_400_000),
    ("outer join", 80_000),
    ("union", 160_000),
    ("unnest", 150_000),
    ("limit", 50_000),
];

fn open(query: &mut Query, case: &str) -> OpenPipeline {
    match case {
        "join" => join(query, rows(400, 1), rows(200, 1), JoinKind::Inner),
        "joins" => {
            let inner = join(query, rows(400, 1), rows(200, 1), JoinKind::Inner);
            join(query, rows(30, 1), inner, JoinKind::Inner)
        }
        // Build rows of the second key are given in the end, with NULL.
        "outer join" => join(query, rows(800, 2), rows(200, 1), JoinKind::ProbeOuter),
        "union" => {
            let inputs = [(); 2].map(|()| join(query, rows(400, 1), rows(200, 1), JoinKind::Inner));
            UnionSource::open(schema(), inputs.into(), None)
        }
        "unnest" => lists(3, 50_000),
        _ => {
            let mut open = join(query, rows(400, 1), rows(200, 1), JoinKind::Inner);
            open.operators.push(Arc::new(Limit::new(10_000, Some(50_000))));
            open
        }
    }
}

/// Runs `case`; the gate, and how the query ended.
fn run(case: &str, threads: usize, end: End) -> (Arc<Gate>, Result<(), ExecError>) {
    run_open(case, threads, end, false, |query| open(query, case))
}

/// The same for what `open` leaves open.
fn run_open(
    case: &str,
    threads: usize,
    end: End,
    takes_times: bool,
    open: impl FnOnce(&mut Query) -> OpenPipeline,
) -> (Arc<Gate>, Result<(), ExecError>) {
    let config = MemoryConfig { limit: 32 << 20, counts_process: false, ..MemoryConfig::default() };
    let memory = BufferManager::new(config).unwrap();
    let settings = ExecSettings { threads, chunk_capacity: 256, ..ExecSettings::default() };
    let mut ctx = ExecContext::new(Arc::clone(&memory), settings);
    ctx.takes_times = takes_times;
    let mut query = Query::new(ctx);
    let open = open(&mut query);
    let gate = Gate::new(end);
    query.add(open, Arc::new(GateSink(Arc::clone(&gate))));
    let scheduler = Scheduler::new(threads);
    let running = query.start(&scheduler);
    let is_over = Arc::new(AtomicBool::new(false));
    let keeper = {
        let (gate, running, is_over) = (Arc::clone(&gate), running.clone(), Arc::clone(&is_over));
        thread::spawn(move || gate.keep(&running, &is_over))
    };
    let result = running.wait();
    is_over.store(true, Ordering::Release);
    keeper.join().unwrap();
    drop(running);
    // Jobs are dropped on their workers, at about the same time.
    drop(scheduler);
    let stats = memory.stats();
    assert_eq!((stats.pinned, stats.non_paged, stats.reserved), (0, 0, 0), "{case} {threads} {end:?}: {stats:?}");
    (gate, result)
}

#[test]
fn no_more_is_made_than_is_taken() {
    for (case, expected) in CASES {
        for threads in [1, 2, 8] {
            let (gate, result) = run(case, threads, End::Never);
            result.unwrap();
            assert_eq!(gate.rows.load(Ordering::Relaxed), expected, "{case} {threads}");
            // A lane may have found the gate open before another closed it, and before it was opened again.
            let most = gate.most_at_once.load(Ordering::Relaxed);
            assert!(most <= 2 * threads, "{case} {threads}: {most} chunks at once");
        }
    }
}

#[test]
fn rows_are_the_same_however_often_a_lane_pauses() {
    let sum = |case, threads| run(case, threads, End::Never).0.sum.load(Ordering::Relaxed);
    // Each of 200 probe rows as often as it has mates.
    let once: usize = (0..200).sum();
    for threads in [1, 4] {
        assert_eq!(sum("join", threads), once * 400);
        assert_eq!(sum("joins", threads), once * 400 * 30);
        assert_eq!(sum("union", threads), once * 400 * 2);
        assert_eq!(sum("unnest", threads), 3 * (0..50_000).sum::<usize>());
    }
}

#[test]
fn a_pipeline_ends_at_any_chunk() {
    for (case, expected) in CASES {
        for threads in [1, 2, 8] {
            for at in [1, 2, 3, 7, 50] {
                let (gate, result) = run(case, threads, End::Stop(at));
                result.unwrap();
                assert!(gate.rows.load(Ordering::Relaxed) < expected, "{case} {threads} {at}");
                let (_, result) = run(case, threads, End::Fail(at));
                assert!(result.unwrap_err().to_string().contains("had enough"), "{case} {threads} {at}");
                let (_, result) = run(case, threads, End::Cancel(at));
                assert!(matches!(result, Err(ExecError::Cancelled)), "{case} {threads} {at}: {result:?}");
            }
        }
    }
}

#[test]
fn what_passes_is_counted_whole_however_many_lanes_there_are() {
    for (threads, takes_times) in [(1, false), (1, true), (2, true), (8, false)] {
        let [build, probe, inner, both] = [(); 4].map(|()| Arc::new(OperatorProfile::default()));
        let opened = |query: &mut Query| {
            let joined = query.owned(&inner, |query| {
                let build = query.owned(&build, |_| Ok(rows(400, 1)))?;
                let probe = query.owned(&probe, |_| Ok(rows(200, 1)))?;
                Ok(join(query, build, probe, JoinKind::Inner))
            });
            query
                .owned(&both, |query| Ok(UnionSource::open(schema(), vec![joined?, rows(100, 1)], query.owner())))
                .unwrap()
        };
        let (gate, result) = run_open("counted", threads, End::Never, takes_times, opened);
        result.unwrap();
        let figures = |profile: &OperatorProfile| {
            let total = profile.total();
            assert_eq!(!total.time.is_zero(), takes_times, "{total:?}");
            assert!(profile.lanes().len() <= threads);
            (total.rows_in, total.chunks_in, total.rows_out)
        };
        assert_eq!(figures(&build), (0, 0, 400));
        assert_eq!(figures(&probe), (0, 0, 200));
        assert_eq!(figures(&inner), (600, 6, 80_000));
        assert_eq!(both.total().chunks_in, inner.total().chunks_out);
        let (rows_in, _, rows_out) = figures(&both);
        assert_eq!((rows_in, rows_out), (80_000, 80_100));
        assert_eq!(gate.rows.load(Ordering::Relaxed), 80_100);
        assert_eq!(gate.chunks.load(Ordering::Relaxed) as u64, both.total().chunks_out);
    }
}

/// A limit in which the lane that comes first waits between `begin` and `next` until another lane said that no more rows are wanted.
struct Overtaken {
    limit: Limit,
    turns: Arc<(Mutex<Turns>, Condvar)>,
}

#[derive(Default)]
struct Turns {
    begun: usize,
    is_over: bool,
}

impl Operator for Overtaken {
    fn name(&self) -> &str {
        "overtaken"
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Box<dyn OperatorLocal> {
        Box::new(OvertakenLocal { limit: self.limit.local(ctx, lane), turns: Arc::clone(&self.turns) })
    }
}

struct OvertakenLocal {
    limit: Box<dyn OperatorLocal>,
    turns: Arc<(Mutex<Turns>, Condvar)>,
}

impl OperatorLocal for OvertakenLocal {
    fn begin(&mut self, chunk: Chunk, cancelled: &dyn Fn() -> bool) -> Result<(), ExecError> {
        let (turns, changed) = &*self.turns;
        let mut turns = turns.lock().unwrap();
        self.limit.begin(chunk, cancelled)?;
        turns.begun += 1;
        if turns.begun == 1 {
            drop(changed.wait_while(turns, |turns| !turns.is_over).unwrap());
        }
        Ok(())
    }

    fn next(&mut self) -> Result<OperatorStep, ExecError> {
        let step = self.limit.next()?;
        if matches!(step, OperatorStep::Stop) {
            let (turns, changed) = &*self.turns;
            turns.lock().unwrap().is_over = true;
            changed.notify_all();
        }
        Ok(step)
    }
}

/// What a lane has counted as its own part of a limit it gives, though another lane has reached the end of the limit meanwhile.
#[test]
fn rows_within_a_limit_are_given_when_another_lane_reached_its_end() {
    let config = MemoryConfig { limit: 32 << 20, counts_process: false, ..MemoryConfig::default() };
    let memory = BufferManager::new(config).unwrap();
    let settings = ExecSettings { threads: 2, chunk_capacity: 256, ..ExecSettings::default() };
    let mut query = Query::new(ExecContext::new(memory, settings));
    let mut open = rows(1_000, 1);
    // Of chunks of 100 rows: the first lane's takes the limit's first 100 rows, the other lane's the other 20.
    open.operators.push(Arc::new(Overtaken { limit: Limit::new(0, Some(120)), turns: Arc::default() }));
    let gate = Gate::new(End::Never);
    query.add(open, Arc::new(GateSink(Arc::clone(&gate))));
    let scheduler = Scheduler::new(2);
    let running = query.start(&scheduler);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| gate.keep(&running, &is_over));
        running.wait().unwrap();
        is_over.store(true, Ordering::Release);
    });
    assert_eq!(gate.rows.load(Ordering::Relaxed), 120);
}
