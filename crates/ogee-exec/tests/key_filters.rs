//! Groups and windows on the probe side of a join: those without a mate are not made, and no answer depends on that.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ogee_exec::{
    ChunksSource, ExecContext, ExecSettings, Expr, JoinStrategy, KeyFilters, OpenPipeline, Project, Query,
    aggregate::{AggregateCall, AggregateFunction, AggregateMode, AggregateSpec, GroupKey, aggregate},
    join::{JoinColumn, JoinKey, JoinKind, JoinSpec, hash_join},
    sort::SortKey,
    window::{WindowCall, WindowFunction, WindowSpec, window},
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scheduler::Scheduler;
use ogee_vector::Chunk;

const ROWS: i64 = 4_000;
const GROUPS: i64 = 500;

fn numbers(names: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>()))
}

/// Key, second key, value: the key is NULL in one row of 17.
fn row(row: i64) -> [Option<i64>; 3] {
    [(row % 17 != 0).then_some(row % GROUPS), Some(row % 3), Some(row)]
}

fn open(rows: impl Iterator<Item = [Option<i64>; 3]>, chunk: usize) -> OpenPipeline {
    let rows: Vec<_> = rows.collect();
    let column = |rows: &[[Option<i64>; 3]], at: usize| -> ArrayRef {
        Arc::new(rows.iter().map(|row| row[at]).collect::<Int64Array>())
    };
    let chunks =
        rows.chunks(chunk).map(|rows| Chunk::new((0..3).map(|at| column(rows, at)).collect(), rows.len())).collect();
    OpenPipeline::new(ChunksSource::new(numbers(&["k", "j", "v"]), chunks))
}

/// The keys that the build side has, with their second keys.
fn build_rows() -> impl Iterator<Item = [Option<i64>; 3]> {
    (0..40).map(|row| [Some(row * 10), Some(row % 3), Some(row)]).chain([[None, Some(0), Some(-1)]])
}

#[derive(Clone, Copy, Debug)]
struct Setup {
    threads: usize,
    chunk: usize,
    strategy: Option<JoinStrategy>,
    filters: Option<KeyFilters>,
    spill_always: bool,
}

fn setups() -> Vec<Setup> {
    let plain = Setup { threads: 2, chunk: 2048, strategy: None, filters: None, spill_always: false };
    let forced = [KeyFilters::Never, KeyFilters::Bloom, KeyFilters::Bits].map(|f| Setup { filters: Some(f), ..plain });
    let mut setups = vec![
        plain,
        Setup { threads: 1, chunk: 1, filters: Some(KeyFilters::Bits), ..plain },
        Setup { threads: 8, chunk: 33, filters: Some(KeyFilters::Bloom), spill_always: true, ..plain },
    ];
    setups.extend(forced);
    for strategy in [JoinStrategy::Hybrid, JoinStrategy::Partitioned] {
        setups.extend(forced.map(|setup| Setup { strategy: Some(strategy), ..setup }));
    }
    setups
}

fn context(setup: Setup) -> ExecContext {
    let config = MemoryConfig {
        limit: 64 << 20,
        spill_always: setup.spill_always,
        counts_process: false,
        ..MemoryConfig::default()
    };
    let settings = ExecSettings {
        threads: setup.threads,
        chunk_capacity: setup.chunk,
        join_strategy: setup.strategy,
        key_filters: setup.filters,
        ..ExecSettings::default()
    };
    ExecContext::new(BufferManager::new(config).unwrap(), settings)
}

/// What is below the join: groups, their counts and sums, or rows and the size of their partition.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Below {
    /// By both keys.
    Groups,
    /// By the second key only, so that none may be left out by the first.
    OtherGroups,
    /// Grouped twice: the sum is of distinct values.
    Distinct,
    /// Groups of groups, with a projection in between.
    Twice,
    Window,
}

fn key(column: usize) -> GroupKey {
    GroupKey { expr: Expr::Column(column), data_type: DataType::Int64 }
}

fn call(function: AggregateFunction, column: usize, distinct: bool) -> AggregateCall {
    AggregateCall {
        function,
        args: vec![Expr::Column(column)],
        arg_types: vec![DataType::Int64],
        filter: None,
        distinct,
        output: DataType::Int64,
    }
}

fn group(query: &mut Query, input: OpenPipeline, keys: Vec<GroupKey>, calls: Vec<AggregateCall>) -> OpenPipeline {
    let columns = keys.len() + calls.len();
    let spec = AggregateSpec {
        keys,
        grouping_sets: None,
        aggregates: calls,
        collected: None,
        mode: AggregateMode::Single,
        schema: numbers(&["a", "b", "c", "d", "e"][..columns]),
    };
    aggregate(query, input, spec).unwrap()
}

/// Columns k, j, a number, or for [`Below::OtherGroups`] the greatest k.
fn below(query: &mut Query, below: Below, input: OpenPipeline) -> OpenPipeline {
    use AggregateFunction as F;
    match below {
        Below::Groups => group(query, input, vec![key(0), key(1)], vec![call(F::Sum, 2, false)]),
        Below::OtherGroups => {
            let mut groups = group(query, input, vec![key(1)], vec![call(F::Max, 0, false), call(F::Sum, 2, false)]);
            groups.operators.push(Arc::new(Project::new([1, 0, 2].map(Expr::Column).to_vec())));
            groups
        }
        Below::Distinct => group(query, input, vec![key(0), key(1)], vec![call(F::Sum, 2, true)]),
        Below::Twice => {
            let mut inner = group(query, input, vec![key(1), key(0), key(2)], vec![]);
            inner.operators.push(Arc::new(Project::new([2, 1, 0].map(Expr::Column).to_vec())));
            let mut outer = group(query, inner, vec![key(1), key(2)], vec![call(F::Sum, 0, false)]);
            outer.operators.push(Arc::new(Project::new([0, 1, 2].map(Expr::Column).to_vec())));
            outer
        }
        Below::Window => {
            let by = |column| SortKey {
                expr: Expr::Column(column),
                data_type: DataType::Int64,
                descending: false,
                nulls_first: false,
            };
            let spec = WindowSpec {
                partition_by: vec![by(0), by(1)],
                order_by: vec![by(2)],
                calls: vec![WindowCall {
                    function: WindowFunction::RowNumber,
                    arg: None,
                    key: None,
                    order_keys: 1,
                    output: DataType::UInt64,
                }],
                leading: None,
                input: numbers(&["k", "j", "v"]),
                schema: Arc::new(Schema::new(vec![
                    Field::new("k", DataType::Int64, true),
                    Field::new("j", DataType::Int64, true),
                    Field::new("v", DataType::Int64, true),
                    Field::new("n", DataType::UInt64, false),
                ])),
            };
            window(query, input, spec).unwrap()
        }
    }
}

/// The same by hand: rows of k, j and the number.
fn below_by_hand(below: Below) -> Vec<[Option<i64>; 3]> {
    let rows = (0..ROWS).map(row);
    if below == Below::Window {
        return rows.collect();
    }
    if below == Below::OtherGroups {
        let mut groups: BTreeMap<_, (Option<i64>, i64)> = BTreeMap::new();
        for [k, j, v] in rows {
            let group = groups.entry(j).or_default();
            *group = (group.0.max(k), group.1 + v.unwrap());
        }
        return groups.into_iter().map(|(j, (k, sum))| [k, j, Some(sum)]).collect();
    }
    let mut groups: BTreeMap<_, i64> = BTreeMap::new();
    rows.for_each(|[k, j, v]| *groups.entry((k, j)).or_default() += v.unwrap());
    groups.into_iter().map(|((k, j), sum)| [k, j, Some(sum)]).collect()
}

const OUTER: [JoinKind; 3] = [JoinKind::ProbeOuter, JoinKind::ProbeAnti, JoinKind::FullOuter];

/// The rows that `kind` gives, as (value of the build side, number of the probe side), by `keys` keys.
fn expected(kind: JoinKind, below: Below, keys: usize) -> Vec<Row> {
    let probe = below_by_hand(below);
    let build: Vec<_> = build_rows().collect();
    let matches = |b: &[Option<i64>; 3], p: &[Option<i64>; 3]| (0..keys).all(|at| b[at].is_some() && b[at] == p[at]);
    let mut out = Vec::new();
    for p in &probe {
        let mates = build.iter().filter(|b| matches(b, p));
        let found = mates.clone().next().is_some();
        match kind {
            JoinKind::ProbeSemi if found => out.push((None, p[2])),
            JoinKind::ProbeAnti if !found => out.push((None, p[2])),
            JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::BuildSemi | JoinKind::BuildAnti => {}
            _ => out.extend(mates.map(|b| (b[2], p[2]))),
        }
        if !found && matches!(kind, JoinKind::ProbeOuter | JoinKind::FullOuter) {
            out.push((None, p[2]));
        }
    }
    for b in &build {
        let found = probe.iter().any(|p| matches(b, p));
        let given = match kind {
            JoinKind::BuildSemi => found,
            JoinKind::BuildAnti | JoinKind::BuildOuter | JoinKind::FullOuter => !found,
            _ => false,
        };
        if given {
            out.push((b[2], None));
        }
    }
    out.sort_unstable();
    out
}

fn spec(kind: JoinKind, keys: usize, probe: SchemaRef, groups_wait: bool) -> JoinSpec {
    let output = match kind {
        JoinKind::BuildSemi | JoinKind::BuildAnti => vec![JoinColumn::Build(2)],
        JoinKind::ProbeSemi | JoinKind::ProbeAnti => vec![JoinColumn::Probe(2)],
        _ => vec![JoinColumn::Build(2), JoinColumn::Probe(2)],
    };
    let key = |column| JoinKey { build: Expr::Column(column), probe: Expr::Column(column), data_type: DataType::Int64 };
    JoinSpec {
        kind,
        keys: (0..keys).map(key).collect(),
        nulls_equal: false,
        null_aware: false,
        residual: None,
        ranges: None,
        schema: numbers(&["x", "y"][..output.len()]),
        output,
        build: numbers(&["k", "j", "v"]),
        probe,
        build_domains: Vec::new(),
        groups_wait,
        dropped: Arc::default(),
    }
}

/// The two numbers of a result.
type Row = (Option<i64>, Option<i64>);

/// The rows of the join, and how many rows were dropped before groups were made of them.
fn run(setup: Setup, kind: JoinKind, what: Below, keys: usize, wait: bool) -> (Vec<Row>, u64) {
    let scheduler = Scheduler::new(setup.threads);
    let mut query = Query::new(context(setup));
    let build = open(build_rows(), setup.chunk);
    let input = open((0..ROWS).map(row), setup.chunk);
    let probe = below(&mut query, what, input);
    let probe_columns = if what == Below::Window { probe.source.schema() } else { numbers(&["k", "j", "v"]) };
    let spec = spec(kind, keys, probe_columns, wait);
    let dropped = Arc::clone(&spec.dropped);
    let joined = hash_join(&mut query, build, probe, spec).unwrap();
    let mut stream = query.stream(joined, &scheduler, 4);
    let mut out = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        let chunk = match stream.poll_next(&mut cx) {
            Poll::Ready(Some(chunk)) => chunk.unwrap().flatten().unwrap(),
            Poll::Ready(None) => break,
            Poll::Pending => {
                std::thread::sleep(Duration::from_micros(100));
                continue;
            }
        };
        let value = |column: usize, row: usize| {
            let values = chunk.column(column).array.as_primitive::<Int64Type>();
            values.is_valid(row).then(|| values.value(row))
        };
        out.extend((0..chunk.len()).map(|row| match kind {
            JoinKind::BuildSemi | JoinKind::BuildAnti => (value(0, row), None),
            JoinKind::ProbeSemi | JoinKind::ProbeAnti => (None, value(0, row)),
            _ => (value(0, row), value(1, row)),
        }));
    }
    out.sort_unstable();
    (out, dropped.load(Ordering::Relaxed))
}

#[test]
fn groups_without_a_mate_are_not_made() {
    use JoinKind as K;
    let kinds = [K::Inner, K::BuildOuter, K::BuildSemi, K::BuildAnti, K::ProbeSemi];
    for what in [Below::Groups, Below::OtherGroups, Below::Distinct, Below::Twice, Below::Window] {
        for keys in [1, 2] {
            for kind in kinds.into_iter().chain(OUTER) {
                let wanted = expected(kind, what, keys);
                for setup in setups() {
                    let (rows, dropped) = run(setup, kind, what, keys, true);
                    assert!(rows == wanted, "{kind:?}, {what:?}, {keys} keys, {setup:?}");
                    let reaches = !OUTER.contains(&kind) && what != Below::OtherGroups;
                    let lonely = (0..ROWS)
                        .map(row)
                        .filter(|p| !build_rows().any(|b| (0..keys).all(|at| b[at].is_some() && b[at] == p[at])));
                    // Of rows, not of groups: each row is asked about before it is in one.
                    match setup.filters {
                        Some(KeyFilters::Never) => assert_eq!(dropped, 0),
                        Some(_) if reaches => assert!(dropped > lonely.count() as u64 * 9 / 10, "{setup:?}: {dropped}"),
                        _ if !reaches => assert!(dropped < 10, "{kind:?}, {what:?}, {setup:?}: {dropped}"),
                        _ => {}
                    }
                }
            }
        }
    }
}

#[test]
fn groups_do_not_wait_unless_told_to() {
    let setup = Setup { filters: Some(KeyFilters::Bits), ..setups()[0] };
    let (rows, dropped) = run(setup, JoinKind::Inner, Below::Groups, 1, false);
    assert_eq!(rows, expected(JoinKind::Inner, Below::Groups, 1));
    let keys: HashSet<_> = build_rows().filter_map(|row| row[0]).collect();
    let lonely =
        below_by_hand(Below::Groups).iter().filter(|group| !group[0].is_some_and(|k| keys.contains(&k))).count();
    assert!((1..=lonely as u64).contains(&dropped), "groups are dropped, not rows: {dropped} of {lonely}");
}

#[test]
fn without_keys_nothing_is_grouped() {
    let setup = setups()[0];
    let mut query = Query::new(context(setup));
    let build = open(std::iter::empty(), 10);
    let probe = below(&mut query, Below::Groups, open((0..ROWS).map(row), 100));
    let counters = Arc::clone(&query.ctx().counters);
    let joined =
        hash_join(&mut query, build, probe, spec(JoinKind::Inner, 1, numbers(&["k", "j", "v"]), true)).unwrap();
    let scheduler = Scheduler::new(2);
    let mut stream = query.stream(joined, &scheduler, 4);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match stream.poll_next(&mut cx) {
            Poll::Ready(chunk) => {
                assert!(chunk.is_none(), "no row has a mate");
                break;
            }
            Poll::Pending => std::thread::sleep(Duration::from_micros(100)),
        }
    }
    let scanned = counters.rows_scanned.load(Ordering::Relaxed);
    assert!(scanned < ROWS as u64 / 2, "the source is stopped: {scanned} rows");
}
