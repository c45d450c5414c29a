//! Rows that nobody sorts come in the order in which they lie where they come from, from however many lanes.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use arrow_array::{Array, ArrayRef, Int64Array, ListArray, StringViewArray, cast::AsArray, types::Int64Type};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ogee_exec::{
    ChannelSource, ChunksSource, CompareOp, EmptyLists, ExecContext, ExecError, ExecSettings, Expr, OpenPipeline,
    Operator, OperatorLocal, OperatorStep, Project, Query, SeriesSource, UnionSource, Unnest,
    aggregate::{AggregateCall, AggregateFunction, AggregateMode, AggregateSpec, GroupKey, aggregate},
    sort::{SortKey, SortSpec, sort},
    window::{WindowCall, WindowFunction, WindowSpec, window},
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scheduler::Scheduler;
use ogee_vector::Chunk;

const CHUNK: usize = 64;
/// Some morsels of a series.
const ROWS: i64 = 700_000;

fn context(threads: usize, limit: usize) -> ExecContext {
    let config = MemoryConfig { counts_process: false, limit, ..MemoryConfig::default() };
    let settings = ExecSettings { threads, chunk_capacity: CHUNK, ..ExecSettings::default() };
    ExecContext::new(BufferManager::new(config).unwrap(), settings)
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

/// `count` numbers from `first` on.
fn series(first: i64, count: i64) -> OpenPipeline {
    OpenPipeline::new(SeriesSource::new(schema(), first, 1, count as u64))
}

fn chunk(numbers: impl IntoIterator<Item = i64>) -> Chunk {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    let rows = numbers.len();
    Chunk::new(vec![numbers], rows)
}

/// The numbers that come out, read by somebody who sleeps after every so many chunks if there is a number.
fn numbers(query: Query, mut open: OpenPipeline, sleeps: Option<usize>) -> Result<Vec<i64>, ExecError> {
    query.keep_order(&mut open);
    let scheduler = Scheduler::new(query.ctx().settings.threads);
    let mut stream = query.stream(open, &scheduler, 4);
    let mut context = Context::from_waker(Waker::noop());
    let (mut found, mut chunks) = (Vec::new(), 0);
    loop {
        match stream.poll_next(&mut context) {
            Poll::Ready(Some(chunk)) => {
                found.extend_from_slice(chunk?.column(0).flatten()?.as_primitive::<Int64Type>().values());
                chunks += 1;
                if sleeps.is_some_and(|every| chunks % every == 0) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Poll::Ready(None) => return Ok(found),
            Poll::Pending => thread::sleep(Duration::from_micros(20)),
        }
    }
}

/// A number is at least `least`.
fn at_least(least: i64) -> Expr {
    Expr::Compare { op: CompareOp::GtEq, column: 0, literal: Arc::new(Int64Array::from(vec![least])) }
}

#[test]
fn lanes_give_a_series_in_its_order() {
    for threads in [1, 2, 5] {
        for sleeps in [None, Some(1000)] {
            let found = numbers(Query::new(context(threads, 256 << 20)), series(3, ROWS), sleeps).unwrap();
            assert!(found.into_iter().eq(3..3 + ROWS), "{threads} threads");
        }
    }
}

#[test]
fn little_memory_keeps_the_order_too() {
    let found = numbers(Query::new(context(4, 4 << 20)), series(0, ROWS), Some(500)).unwrap();
    assert!(found.into_iter().eq(0..ROWS));
}

#[test]
fn without_the_setting_nobody_waits() {
    let mut ctx = context(2, 256 << 20);
    ctx.settings = Arc::new(ExecSettings { keeps_order: false, ..(*ctx.settings).clone() });
    let query = Query::new(ctx);
    let mut open = series(0, ROWS);
    query.keep_order(&mut open);
    assert!(open.order.is_none());
}

#[test]
fn limits_take_the_first_rows() {
    for threads in [1, 3] {
        for (skip, fetch) in [(0, 5), (200_000, 3), (ROWS as u64 - 2, 10), (0, 0), (ROWS as u64, 1)] {
            let mut open = series(0, ROWS);
            open.filter(at_least(100));
            let query = Query::new(context(threads, 256 << 20));
            query.keep_order(&mut open);
            open.limit(skip, Some(fetch));
            let found = numbers(query, open, None).unwrap();
            let from = (100 + skip as i64).min(ROWS);
            assert!(found.into_iter().eq(from..(from + fetch as i64).min(ROWS)), "{skip} {fetch}");
        }
    }
}

/// Fails where a number is at least so many.
struct FailsFrom(i64);

impl Operator for FailsFrom {
    fn name(&self) -> &str {
        "fails"
    }

    fn keeps_rows(&self) -> bool {
        true
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Box::new(FailsFromLocal(self.0, None))
    }
}

struct FailsFromLocal(i64, Option<Chunk>);

impl OperatorLocal for FailsFromLocal {
    fn begin(&mut self, chunk: Chunk, _cancelled: &dyn Fn() -> bool) -> Result<(), ExecError> {
        let fails = chunk.column(0).flatten()?.as_primitive::<Int64Type>().values().iter().any(|&n| n >= self.0);
        self.1 = Some(chunk);
        if fails { Err(ExecError::Foreign("it fails".into())) } else { Ok(()) }
    }

    fn next(&mut self) -> Result<OperatorStep, ExecError> {
        Ok(self.1.take().map_or(OperatorStep::Done, OperatorStep::Chunk))
    }
}

#[test]
fn what_fails_behind_the_rows_that_are_wanted_is_no_error() {
    for threads in [1, 2, 4] {
        for from in [0, 1_000, 131_072, 140_000, 400_000] {
            let rows = |fetch| {
                let query = Query::new(context(threads, 256 << 20));
                let mut open = series(0, ROWS);
                open.filter(at_least(10));
                query.keep_order(&mut open);
                open.limit(0, Some(fetch));
                open.operators.push(Arc::new(FailsFrom(from)));
                numbers(query, open, None)
            };
            // Chunks are computed as a whole.
            let before = from - from % CHUNK as i64 - 10;
            if before > 0 {
                assert!(rows(before as u64).unwrap().into_iter().eq(10..10 + before), "{threads} {from}");
            }
            assert!(rows(from as u64).unwrap_err().to_string().contains("it fails"), "{threads} {from}");
        }
    }
}

#[test]
fn two_limits_and_a_filter_between_them() {
    let query = Query::new(context(3, 256 << 20));
    let mut open = series(0, ROWS);
    query.keep_order(&mut open);
    open.limit(10, Some(300_000));
    open.filter(at_least(150_000));
    open.limit(5, Some(7));
    assert_eq!(numbers(query, open, None).unwrap(), (150_005..150_012).collect::<Vec<_>>());
}

#[test]
fn the_inputs_of_a_union_follow_each_other() {
    for threads in [1, 2, 4] {
        let ctx = context(threads, 256 << 20);
        let mut query = Query::new(ctx);
        let by = SortKey { expr: Expr::Column(0), data_type: DataType::Int64, descending: true, nulls_first: false };
        let spec = SortSpec { keys: vec![by], fetch: None, schema: schema() };
        let sorted = sort(&mut query, series(0, 300_000), spec).unwrap();
        let chunks = (0..50).map(|first| chunk(first * 10..first * 10 + 10)).collect();
        let mut limited = series(0, ROWS);
        query.keep_order(&mut limited);
        limited.limit(3, Some(4));
        let inner = UnionSource::open(schema(), vec![series(7, 2), series(1, 200_000)], None);
        let inputs = vec![
            series(0, 400_000),
            sorted,
            OpenPipeline::new(ChunksSource::new(schema(), chunks)),
            limited,
            inner,
            series(-5, 2),
        ];
        let open = UnionSource::open(schema(), inputs, None);
        let found = numbers(query, open, None).unwrap();
        let expected = (0..400_000).chain((0..300_000).rev()).chain(0..500).chain(3..7).chain(7..9).chain(1..200_001);
        assert!(found.into_iter().eq(expected.chain(-5..-3)), "{threads} threads");
    }
}

#[test]
fn a_limit_above_a_union_and_a_filter_above_that() {
    let query = Query::new(context(3, 256 << 20));
    let mut open = UnionSource::open(schema(), vec![series(0, 300_000), series(0, 300_000)], None);
    query.keep_order(&mut open);
    open.limit(299_990, Some(20));
    open.filter(at_least(5));
    let expected: Vec<i64> = (299_990..300_000).chain(5..10).collect();
    assert_eq!(numbers(query, open, None).unwrap(), expected);
}

#[test]
fn elements_of_lists_stay_where_they_are() {
    let lists = (0..2_000).map(|row| {
        let values: Int64Array = (row * 3..row * 3 + 3).collect();
        let field = Arc::new(Field::new_list_field(DataType::Int64, true));
        let list: ArrayRef = Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([3]), Arc::new(values), None));
        Chunk::new(vec![list], 1)
    });
    let lists: Vec<Chunk> = lists.collect();
    let schema = Arc::new(Schema::new(vec![Field::new("l", lists[0].column(0).array.data_type().clone(), true)]));
    let mut open = OpenPipeline::new(ChunksSource::new(schema, lists));
    open.operators.push(Arc::new(Unnest::new(vec![0], EmptyLists::Drop)));
    assert!(numbers(Query::new(context(4, 64 << 20)), open, None).unwrap().into_iter().eq(0..6_000));
}

/// A column that is `ROWS / 1000` different keys, and one that is NULL, then a text that may be long, by the number of the row.
fn keyed(rows: std::ops::Range<i64>) -> Chunk {
    let keys: Int64Array = rows.clone().map(|row| row % (ROWS / 1_000)).collect();
    let count = keys.len();
    Chunk::new(vec![Arc::new(keys), Arc::new(StringViewArray::from_iter(rows.map(text)))], count)
}

fn text(row: i64) -> Option<String> {
    (row % 3 != 0).then(|| if row % 5 == 0 { format!("{row:040}") } else { format!("{row}") })
}

#[test]
fn first_values_are_those_of_the_first_rows() {
    let groups = ROWS / 1_000;
    let rows = 40 * groups;
    for (ignore_nulls, limit, threads) in [(false, 256 << 20, 3), (true, 256 << 20, 3), (false, 16 << 20, 2)] {
        let chunks = (0..rows).step_by(50).map(|row| keyed(row..row + 50)).collect();
        let column = |name, data_type| Field::new(name, data_type, true);
        let schema = Arc::new(Schema::new(vec![column("k", DataType::Int64), column("v", DataType::Utf8View)]));
        let call = |ignore_nulls| AggregateCall {
            function: AggregateFunction::FirstValue { ignore_nulls },
            args: vec![Expr::Column(1)],
            arg_types: vec![DataType::Utf8View],
            filter: None,
            distinct: false,
            output: DataType::Utf8View,
        };
        let spec = AggregateSpec {
            keys: vec![GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 }],
            grouping_sets: None,
            aggregates: vec![call(ignore_nulls)],
            collected: None,
            mode: AggregateMode::Single,
            schema: Arc::clone(&schema),
        };
        let mut query = Query::new(context(threads, limit));
        let open = aggregate(&mut query, OpenPipeline::new(ChunksSource::new(schema, chunks)), spec).unwrap();
        let scheduler = Scheduler::new(threads);
        let mut stream = query.stream(open, &scheduler, 4);
        let mut context = Context::from_waker(Waker::noop());
        let mut seen = 0;
        loop {
            let chunk = match stream.poll_next(&mut context) {
                Poll::Ready(Some(chunk)) => chunk.unwrap(),
                Poll::Ready(None) => break,
                Poll::Pending => {
                    thread::sleep(Duration::from_micros(20));
                    continue;
                }
            };
            let (keys, values) = (chunk.column(0).flatten().unwrap(), chunk.column(1).flatten().unwrap());
            for (key, value) in keys.as_primitive::<Int64Type>().values().iter().zip(values.as_string_view()) {
                let all = (*key..rows).step_by(groups as usize).map(text);
                let expected = if ignore_nulls { all.flatten().next() } else { text(*key) };
                assert_eq!(value, expected.as_deref(), "{key}");
                seen += 1;
            }
        }
        assert_eq!(seen, groups);
    }
}

#[test]
fn windows_count_rows_as_they_lie_there() {
    for threads in [1, 3] {
        let mut query = Query::new(context(threads, 256 << 20));
        let output = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("row_number", DataType::Int64, true),
        ]));
        let call = WindowCall {
            function: WindowFunction::RowNumber,
            arg: None,
            key: None,
            order_keys: 0,
            output: DataType::Int64,
        };
        let spec = WindowSpec {
            partition_by: Vec::new(),
            order_by: Vec::new(),
            calls: vec![call],
            leading: None,
            input: schema(),
            schema: output,
        };
        let mut open = window(&mut query, series(5, ROWS), spec).unwrap();
        open.operators.push(Arc::new(Project::new(vec![Expr::Column(1)])));
        assert!(numbers(query, open, None).unwrap().into_iter().eq(1..ROWS + 1), "{threads} threads");
    }
}

#[test]
fn what_is_fed_comes_as_it_was_fed() {
    for sleeps in [None, Some(3)] {
        let ctx = context(4, 64 << 20);
        let (source, mut sender) = ChannelSource::new("feed", schema(), 8, &ctx);
        let feeds = thread::spawn(move || {
            let mut context = Context::from_waker(Waker::noop());
            for first in 0..1_000 {
                let rows = chunk(first * 100..first * 100 + 100);
                let mut sent = pin!(sender.send(&rows));
                while sent.as_mut().poll(&mut context).is_pending() {
                    thread::sleep(Duration::from_micros(20));
                }
            }
            sender.finish(Ok(()));
        });
        let found = numbers(Query::new(ctx), OpenPipeline::new(source), sleeps).unwrap();
        feeds.join().unwrap();
        assert!(found.into_iter().eq(0..100_000));
    }
}
