//! Groups and windows on the probe side of a join: those without a mate are not made, and no answer depends on that.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/drain.rs"]
mod drain;

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, atomic::Ordering},
};

use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ogee_exec::{
    ChunksSource, ExecContext, ExecSettings, Expr, JoinStrategy, KeyFilters, Mark, OpenPipeline, OperatorProfile,
    Project, Query, RowsExpected, UnionSource,
    aggregate::{AggregateCall, AggregateFunction, AggregateMode, AggregateSpec, GroupKey, aggregate},
    join::{JoinColumn, JoinKey, JoinKind, JoinSpec, hash_join},
    sort::SortKey,
    window::{WindowCall, WindowFunction, WindowSpec, window},
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_vector::Chunk;

use self::drain::drain;

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
                    output: DataType::Int64,
                }],
                leading: None,
                input: numbers(&["k", "j", "v"]),
                schema: Arc::new(Schema::new(vec![
                    Field::new("k", DataType::Int64, true),
                    Field::new("j", DataType::Int64, true),
                    Field::new("v", DataType::Int64, true),
                    Field::new("n", DataType::Int64, false),
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
        build_rows: RowsExpected::new(|| u64::MAX),
        groups_wait,
        dropped: Arc::default(),
    }
}

/// The two numbers of a result.
type Row = (Option<i64>, Option<i64>);

/// The rows of the join, and how many rows were dropped before groups were made of them.
fn run(setup: Setup, kind: JoinKind, what: Below, keys: usize, wait: bool) -> (Vec<Row>, u64) {
    let mut query = Query::new(context(setup));
    let build = open(build_rows(), setup.chunk);
    let input = open((0..ROWS).map(row), setup.chunk);
    let probe = below(&mut query, what, input);
    let probe_columns = if what == Below::Window { probe.source.schema() } else { numbers(&["k", "j", "v"]) };
    let spec = spec(kind, keys, probe_columns, wait);
    let dropped = Arc::clone(&spec.dropped);
    let joined = hash_join(&mut query, build, probe, spec).unwrap();
    let pair = |row: &[Option<i64>]| match kind {
        JoinKind::BuildSemi | JoinKind::BuildAnti => (row[0], None),
        JoinKind::ProbeSemi | JoinKind::ProbeAnti => (None, row[0]),
        _ => (row[0], row[1]),
    };
    let rows = all_rows(query, joined, setup).iter().map(|row| pair(row)).collect();
    (rows, dropped.load(Ordering::Relaxed))
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

/// All rows of `open`, in order.
fn all_rows(query: Query, open: OpenPipeline, setup: Setup) -> Vec<Vec<Option<i64>>> {
    let columns = open.columns();
    let mut out = Vec::new();
    for chunk in drain(query, open, setup.threads).unwrap() {
        let value = |column: usize, row: usize| {
            let values = chunk.column(column).array.as_primitive::<Int64Type>();
            values.is_valid(row).then(|| values.value(row))
        };
        out.extend((0..chunk.len()).map(|row| (0..columns).map(|column| value(column, row)).collect::<Vec<_>>()));
    }
    out.sort_unstable();
    out
}

/// `open` with its columns in reverse order, and a count of the rows that come out of that.
fn reversed(mut open: OpenPipeline) -> (OpenPipeline, Arc<OperatorProfile>) {
    let count = Arc::new(OperatorProfile::default());
    open.operators.push(Arc::new(Project::new([2, 1, 0].map(Expr::Column).to_vec())));
    open.operators.push(Arc::new(Mark::new(Arc::clone(&count))));
    (open, count)
}

/// The keys of a few rows joined with column `column` of what a join of `kind` gives, which keeps all rows by their keys and is expected to keep
/// `expected`. What comes back is also how many rows were kept.
fn run_kept(setup: Setup, kind: JoinKind, column: usize, expected: u64) -> (Vec<Vec<Option<i64>>>, u64) {
    use JoinColumn::{Build, Probe};
    let mut query = Query::new(context(setup));
    let few = open(build_rows(), setup.chunk);
    let (kept, count) = reversed(open((0..ROWS).map(row), setup.chunk));
    let streamed = open((0..ROWS / 4).map(|at| row(at * 3)), setup.chunk);
    let inner = JoinSpec {
        keys: vec![JoinKey { build: Expr::Column(2), probe: Expr::Column(0), data_type: DataType::Int64 }],
        output: match kind {
            JoinKind::BuildSemi | JoinKind::BuildAnti => vec![Build(2), Build(2), Build(0), Build(0)],
            JoinKind::ProbeSemi | JoinKind::ProbeAnti => vec![Probe(0), Probe(0), Probe(2), Probe(2)],
            _ => vec![Build(2), Probe(0), Build(0), Probe(2)],
        },
        schema: numbers(&["a", "b", "c", "d"]),
        build_rows: RowsExpected::new(move || expected),
        ..spec(kind, 1, numbers(&["k", "j", "v"]), false)
    };
    let joined = hash_join(&mut query, kept, streamed, inner).unwrap();
    let outer = JoinSpec {
        keys: vec![JoinKey { build: Expr::Column(0), probe: Expr::Column(column), data_type: DataType::Int64 }],
        output: vec![Build(2), Probe(2), Probe(3)],
        schema: numbers(&["x", "y", "z"]),
        build_rows: RowsExpected::new(|| 41),
        ..spec(JoinKind::Inner, 1, numbers(&["a", "b", "c", "d"]), false)
    };
    let joined = hash_join(&mut query, few, joined, outer).unwrap();
    (all_rows(query, joined, setup), count.total().rows_out)
}

#[test]
fn rows_that_are_kept_for_those_without_a_mate_are_left_out() {
    use JoinKind as K;
    let plain = setups()[0];
    for kind in [K::Inner, K::BuildOuter, K::BuildSemi, K::BuildAnti, K::ProbeSemi].into_iter().chain(OUTER) {
        for column in [0, 1] {
            let never = Setup { filters: Some(KeyFilters::Never), ..plain };
            let (wanted, all) = run_kept(never, kind, column, 100_000);
            assert_eq!(all, ROWS as u64);
            for setup in setups() {
                let (rows, kept) = run_kept(setup, kind, column, 100_000);
                assert!(rows == wanted, "{kind:?}, column {column}, {setup:?}");
                // Rows of the one side that have lost their mates would come with NULLs.
                let keeps_others = match column {
                    0 => matches!(kind, K::ProbeOuter | K::FullOuter),
                    _ => matches!(kind, K::BuildOuter | K::FullOuter),
                };
                match setup.filters {
                    Some(KeyFilters::Bits | KeyFilters::Bloom) if !keeps_others => {
                        assert!(kept < ROWS as u64 / 4, "{kind:?}, column {column}, {setup:?}: {kept}");
                    }
                    _ if keeps_others => assert_eq!(kept, ROWS as u64),
                    _ => {}
                }
                let (rows, kept) = run_kept(setup, kind, column, 80);
                assert!(rows == wanted && kept == ROWS as u64, "few rows wait for nobody: {kind:?}, {setup:?}");
            }
        }
    }
}

#[test]
fn each_input_of_a_union_is_told() {
    let run = |setup: Setup| {
        let mut query = Query::new(context(setup));
        let few = open(build_rows(), setup.chunk);
        let (rows, of_rows) = reversed(open((0..ROWS).map(row), setup.chunk));
        let (before, of_groups) = reversed(open((0..ROWS).map(row), setup.chunk));
        let mut groups = group(&mut query, before, vec![key(2), key(1)], vec![call(AggregateFunction::Sum, 0, false)]);
        groups.operators.push(Arc::new(Project::new([2, 1, 0].map(Expr::Column).to_vec())));
        let (computed, of_computed) = reversed(open((0..100).map(row), setup.chunk));
        let inner = UnionSource::open(numbers(&["v", "j", "k"]), vec![groups, computed], None);
        let both = UnionSource::open(numbers(&["v", "j", "k"]), vec![rows, inner], None);
        let of_join = JoinSpec {
            keys: vec![JoinKey { build: Expr::Column(0), probe: Expr::Column(2), data_type: DataType::Int64 }],
            output: vec![JoinColumn::Build(2), JoinColumn::Probe(0)],
            ..spec(JoinKind::Inner, 1, numbers(&["v", "j", "k"]), true)
        };
        let joined = hash_join(&mut query, few, both, of_join).unwrap();
        let rows = all_rows(query, joined, setup);
        (rows, [of_rows, of_groups, of_computed].map(|count| count.total().rows_out))
    };
    let (wanted, all) = run(Setup { filters: Some(KeyFilters::Never), ..setups()[0] });
    assert_eq!(all, [ROWS as u64, ROWS as u64, 100]);
    for setup in setups() {
        let (rows, passed) = run(setup);
        assert!(rows == wanted, "{setup:?}");
        if matches!(setup.filters, Some(KeyFilters::Bits | KeyFilters::Bloom)) {
            assert!(passed.iter().zip(all).all(|(&passed, all)| passed < all / 4), "{setup:?}: {passed:?}");
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
    assert!(all_rows(query, joined, setup).is_empty(), "no row has a mate");
    let scanned = counters.rows_scanned.load(Ordering::Relaxed);
    assert!(scanned < ROWS as u64 / 2, "the source is stopped: {scanned} rows");
}
