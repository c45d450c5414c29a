//! Hash joins against nested loops, under hostile settings: small memory, everything spilled, tiny chunks, colliding hashes, partitions
//! that are absent, one to eight lanes.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/drain.rs"]
mod drain;
#[path = "support/random.rs"]
mod random;
#[path = "support/sampled.rs"]
mod sampled;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, StringViewArray, cast::AsArray, types};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ogee_exec::{
    ChunksSource, ExecContext, ExecError, ExecSettings, Expr, ForeignExpr, JoinStrategy, KeyFilters, OpenPipeline,
    Query, RowsExpected,
    join::{JoinColumn, JoinKey, JoinKind, JoinSpec, Residual, hash_join},
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_vector::{Chunk, HashSeed};

use self::{drain::drain, random::Random, sampled::is_sampled};

#[derive(Clone, Debug)]
struct Row {
    key: Option<i64>,
    word: Option<String>,
    float: Option<f64>,
    value: i64,
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("word", DataType::Utf8View, true),
        Field::new("float", DataType::Float64, true),
        Field::new("value", DataType::Int64, false),
    ]))
}

/// `rows` rows with keys below `keys`, one in `hot` of them 5.
fn rows(seed: u64, rows: usize, keys: u64, hot: u64) -> Vec<Row> {
    let mut random = Random(seed);
    (0..rows)
        .map(|value| {
            let key = if random.next(hot) == 0 { 5 } else { random.next(keys) };
            let length = (key * 7 % 40) as usize;
            Row {
                key: (random.next(20) > 0).then_some(key as i64),
                word: (random.next(15) > 0).then(|| format!("{}{}", &"abcdefghij".repeat(4)[..length], key % 5)),
                float: (random.next(10) > 0).then(|| if key % 7 == 0 { -0.0 } else { key as f64 }),
                value: value as i64,
            }
        })
        .collect()
}

fn open(rows: &[Row], chunk: usize) -> OpenPipeline {
    let chunks = rows
        .chunks(chunk)
        .map(|rows| {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(rows.iter().map(|r| r.key).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|r| r.word.clone()).collect::<StringViewArray>()),
                Arc::new(rows.iter().map(|r| r.float).collect::<Float64Array>()),
                Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.value))),
            ];
            // Half of the rows of each chunk hidden behind a selection, as a filter leaves them.
            let doubled: Vec<u32> = (0..rows.len() as u32).collect();
            Chunk::new(columns, rows.len()).select(&doubled)
        })
        .collect();
    OpenPipeline::new(ChunksSource::new(schema(), chunks))
}

/// `value` of the build side plus `value` of the probe side is even.
#[derive(Debug)]
struct EvenSum;

impl ForeignExpr for EvenSum {
    fn columns(&self) -> &[usize] {
        &[0, 1]
    }

    fn is_volatile(&self) -> bool {
        false
    }

    fn can_fail(&self) -> bool {
        false
    }

    fn evaluate(&self, columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef, ExecError> {
        let [a, b] = [0, 1].map(|column: usize| columns[column].as_primitive::<types::Int64Type>());
        let even = a.values().iter().zip(b.values()).map(|(a, b)| Some((a + b) % 2 == 0));
        Ok(Arc::new(even.collect::<arrow_array::BooleanArray>()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    Number,
    Word,
    Float,
    NumberAndWord,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: JoinKind,
    keys: Keys,
    nulls_equal: bool,
    null_aware: bool,
    residual: bool,
}

impl Case {
    fn key_columns(self) -> Vec<(usize, DataType)> {
        let number = (0, DataType::Int64);
        let word = (1, DataType::Utf8View);
        match self.keys {
            Keys::Number => vec![number],
            Keys::Word => vec![word],
            Keys::Float => vec![(2, DataType::Float64)],
            Keys::NumberAndWord => vec![number, word],
        }
    }

    fn spec(self) -> JoinSpec {
        use JoinColumn::{Build, Mark, Probe};
        use JoinKind as K;
        let output = match self.kind {
            K::BuildSemi | K::BuildAnti => vec![Build(3), Build(1), Build(2)],
            K::BuildMark => vec![Build(3), Mark],
            K::ProbeSemi | K::ProbeAnti => vec![Probe(3), Probe(1), Probe(2)],
            K::ProbeMark => vec![Probe(3), Mark],
            _ => vec![Build(3), Probe(3), Build(1), Probe(0), Build(2)],
        };
        let field = |column: &JoinColumn| match *column {
            Build(index) | Probe(index) => schema().field(index).clone().with_nullable(true),
            Mark => Field::new("mark", DataType::Boolean, false),
        };
        let key = |(column, data_type)| JoinKey { build: Expr::Column(column), probe: Expr::Column(column), data_type };
        JoinSpec {
            kind: self.kind,
            keys: self.key_columns().into_iter().map(key).collect(),
            nulls_equal: self.nulls_equal,
            null_aware: self.null_aware,
            residual: self
                .residual
                .then(|| Residual { predicate: Expr::Foreign(Arc::new(EvenSum)), columns: vec![Build(3), Probe(3)] }),
            ranges: None,
            schema: Arc::new(Schema::new(output.iter().map(field).collect::<Vec<_>>())),
            output,
            build: schema(),
            probe: schema(),
            build_domains: Vec::new(),
            build_rows: RowsExpected::new(|| u64::MAX),
            groups_wait: true,
            dropped: Arc::default(),
        }
    }

    fn matches(self, build: &Row, probe: &Row) -> bool {
        fn equal<T: PartialEq>(a: &Option<T>, b: &Option<T>, nulls_equal: bool) -> bool {
            a == b && (a.is_some() || nulls_equal)
        }
        let nulls = self.nulls_equal;
        let keys = match self.keys {
            Keys::Number => equal(&build.key, &probe.key, nulls),
            Keys::Word => equal(&build.word, &probe.word, nulls),
            Keys::Float => equal(&build.float, &probe.float, nulls),
            Keys::NumberAndWord => equal(&build.key, &probe.key, nulls) && equal(&build.word, &probe.word, nulls),
        };
        keys && (!self.residual || (build.value + probe.value) % 2 == 0)
    }

    /// By nested loops.
    fn expected(self, build: &[Row], probe: &[Row]) -> Vec<String> {
        use JoinKind as K;
        let mut out = Vec::new();
        let pair = |b: Option<&Row>, p: Option<&Row>| {
            format!(
                "{:?} {:?} {:?} {:?} {:?}",
                b.map(|b| b.value),
                p.map(|p| p.value),
                b.and_then(|b| b.word.clone()),
                p.and_then(|p| p.key),
                b.and_then(|b| b.float)
            )
        };
        let alone = |r: &Row| format!("{:?} {:?} {:?}", Some(r.value), r.word, r.float);
        if self.kind == K::BuildAnti && self.null_aware {
            if probe.iter().any(|p| p.key.is_none()) {
                return out;
            }
            let given = |b: &&Row| probe.is_empty() || b.key.is_some() && !probe.iter().any(|p| self.matches(b, p));
            out.extend(build.iter().filter(given).map(alone));
            out.sort();
            return out;
        }
        let mut build_found = vec![false; build.len()];
        for p in probe {
            let mut found = false;
            for (at, b) in build.iter().enumerate() {
                if self.matches(b, p) {
                    (found, build_found[at]) = (true, true);
                    if matches!(self.kind, K::Inner | K::BuildOuter | K::ProbeOuter | K::FullOuter) {
                        out.push(pair(Some(b), Some(p)));
                    }
                }
            }
            match self.kind {
                K::ProbeOuter | K::FullOuter if !found => out.push(pair(None, Some(p))),
                K::ProbeSemi if found => out.push(alone(p)),
                K::ProbeAnti if !found => out.push(alone(p)),
                K::ProbeMark => out.push(format!("{:?} {:?}", Some(p.value), Some(found))),
                _ => {}
            }
        }
        for (b, found) in build.iter().zip(build_found) {
            match self.kind {
                K::BuildOuter | K::FullOuter if !found => out.push(pair(Some(b), None)),
                K::BuildSemi if found => out.push(alone(b)),
                K::BuildAnti if !found => out.push(alone(b)),
                K::BuildMark => out.push(format!("{:?} {:?}", Some(b.value), Some(found))),
                _ => {}
            }
        }
        out.sort();
        out
    }
}

fn show(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "None".to_owned();
    }
    match array.data_type() {
        DataType::Int64 => format!("Some({:?})", array.as_primitive::<types::Int64Type>().value(row)),
        DataType::Float64 => format!("Some({:?})", array.as_primitive::<types::Float64Type>().value(row)),
        DataType::Boolean => format!("Some({:?})", array.as_boolean().value(row)),
        _ => format!("Some({:?})", array.as_string_view().value(row)),
    }
}

#[derive(Clone, Copy, Debug)]
struct Setup {
    name: &'static str,
    limit: usize,
    threads: usize,
    mask: u64,
    spill_always: bool,
    chunk: usize,
    strategy: Option<JoinStrategy>,
    filters: Option<KeyFilters>,
}

const PLAIN: Setup = Setup {
    name: "plain",
    limit: 1 << 30,
    threads: 2,
    mask: u64::MAX,
    spill_always: false,
    chunk: 2048,
    strategy: None,
    filters: None,
};

const SETUPS: [Setup; 12] = [
    PLAIN,
    Setup { name: "one thread", threads: 1, ..PLAIN },
    Setup { name: "eight threads", threads: 8, chunk: 100, ..PLAIN },
    Setup { name: "tiny chunks", chunk: 3, ..PLAIN },
    Setup { name: "collide", mask: 0x0003_0000_0000_0007, ..PLAIN },
    Setup { name: "hybrid", strategy: Some(JoinStrategy::Hybrid), threads: 4, limit: 64 << 20, ..PLAIN },
    Setup { name: "spill", strategy: Some(JoinStrategy::Partitioned), spill_always: true, limit: 32 << 20, ..PLAIN },
    Setup {
        name: "collide and spill",
        strategy: Some(JoinStrategy::Partitioned),
        mask: 0x0003_0000_0000_0007,
        limit: 16 << 20,
        chunk: 500,
        filters: Some(KeyFilters::Bloom),
        ..PLAIN
    },
    Setup { name: "bloom filters", filters: Some(KeyFilters::Bloom), threads: 8, chunk: 1, ..PLAIN },
    Setup { name: "bits", filters: Some(KeyFilters::Bits), chunk: 7, ..PLAIN },
    Setup {
        name: "hybrid with filters",
        filters: Some(KeyFilters::Bits),
        strategy: Some(JoinStrategy::Hybrid),
        limit: 64 << 20,
        ..PLAIN
    },
    Setup { name: "no filters", filters: Some(KeyFilters::Never), ..PLAIN },
];

fn context(setup: &Setup) -> ExecContext {
    let config = MemoryConfig {
        limit: setup.limit,
        spill_always: setup.spill_always,
        counts_process: false,
        ..MemoryConfig::default()
    };
    let settings = ExecSettings {
        threads: setup.threads,
        chunk_capacity: setup.chunk,
        hash: HashSeed { mask: setup.mask, ..HashSeed::default() },
        join_strategy: setup.strategy,
        key_filters: setup.filters,
        ..ExecSettings::default()
    };
    ExecContext::new(BufferManager::new(config).unwrap(), settings)
}

fn run(setup: &Setup, case: Case, build: &[Row], probe: &[Row]) -> Vec<String> {
    run_counting(setup, case, build, probe).0
}

/// The rows, and how many rows of the probe side were dropped before they came to the join.
fn run_counting(setup: &Setup, case: Case, build: &[Row], probe: &[Row]) -> (Vec<String>, u64) {
    let ctx = context(setup);
    let memory = Arc::clone(&ctx.memory);
    let mut query = Query::new(ctx);
    let spec = case.spec();
    let dropped = Arc::clone(&spec.dropped);
    let joined = hash_join(&mut query, open(build, setup.chunk), open(probe, setup.chunk), spec).unwrap();
    let mut out = Vec::new();
    for chunk in drain(query, joined, setup.threads).unwrap() {
        assert!(chunk.len() <= setup.chunk, "chunks keep to the capacity");
        for row in 0..chunk.len() {
            let columns = (0..chunk.num_columns()).map(|column| show(chunk.column(column).array, row));
            out.push(columns.collect::<Vec<_>>().join(" "));
        }
    }
    // The output ends before the last worker has let go of its pages, and a page that is being written goes when it has been.
    for _ in 0..1000 {
        if memory.stats().temp_bytes == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(memory.stats().temp_bytes, 0, "nothing stays behind");
    out.sort();
    (out, dropped.load(Ordering::Relaxed))
}

const KINDS: [JoinKind; 10] = [
    JoinKind::Inner,
    JoinKind::BuildOuter,
    JoinKind::ProbeOuter,
    JoinKind::FullOuter,
    JoinKind::BuildSemi,
    JoinKind::BuildAnti,
    JoinKind::BuildMark,
    JoinKind::ProbeSemi,
    JoinKind::ProbeAnti,
    JoinKind::ProbeMark,
];

fn check(case: Case, build: &[Row], probe: &[Row], setups: &[Setup]) {
    let expected = case.expected(build, probe);
    for setup in setups {
        let got = run(setup, case, build, probe);
        assert!(got == expected, "{case:?}, {}: {} rows instead of {}", setup.name, got.len(), expected.len());
    }
}

#[test]
fn every_kind_equals_nested_loops() {
    let build = rows(1, 300, 100, 40);
    let probe = rows(2, 500, 130, 30);
    for kind in KINDS {
        for keys in [Keys::Number, Keys::Word, Keys::Float, Keys::NumberAndWord] {
            for (nulls_equal, residual) in [(false, false), (true, false), (false, true)] {
                check(Case { kind, keys, nulls_equal, null_aware: false, residual }, &build, &probe, &SETUPS);
            }
        }
    }
}

#[test]
fn empty_sides() {
    let some = rows(3, 200, 50, 10);
    for kind in KINDS {
        let case = Case { kind, keys: Keys::Number, nulls_equal: false, null_aware: false, residual: false };
        for (build, probe) in [(&some[..], &[][..]), (&[], &some), (&[], &[])] {
            check(case, build, probe, &SETUPS);
        }
    }
}

#[test]
fn not_in_knows_nulls() {
    let case =
        Case { kind: JoinKind::BuildAnti, keys: Keys::Number, nulls_equal: false, null_aware: true, residual: false };
    let build = rows(4, 300, 100, 10);
    let with_null = rows(5, 80, 60, 10);
    assert!(with_null.iter().any(|row| row.key.is_none()));
    let whole: Vec<Row> = with_null.iter().filter(|row| row.key.is_some()).cloned().collect();
    for probe in [&with_null[..], &whole[..], &[][..]] {
        check(case, &build, probe, &SETUPS);
    }
}

#[test]
fn keys_far_from_each_other_and_beyond() {
    let row = |at: usize, key: i64| Row { key: Some(key), word: None, float: None, value: at as i64 };
    let side = |keys: &[i64]| keys.iter().enumerate().map(|(at, &key)| row(at, key)).collect::<Vec<_>>();
    // From one slot for each value to several values for each, in no order, and beyond what slots could follow.
    for stride in [1, 2, 3, 4, 5, 9, 1 << 20, i64::MAX / 400] {
        for least in [0, -150 * stride, i64::MIN, i64::MAX - 299 * stride] {
            let Some(greatest) = least.checked_add(299 * stride) else { continue };
            let mut keys: Vec<i64> = (0..300).map(|at| least + (at * 7 % 300) * stride).collect();
            // Some keys twice.
            keys.extend_from_within(..40);
            let build = side(&keys);
            keys.extend([i64::MIN, i64::MAX, 0, -1, least.wrapping_sub(1), greatest.wrapping_add(1)]);
            keys.extend((0..100).map(|at| least.wrapping_add(at)));
            let probe = side(&keys);
            for kind in [JoinKind::Inner, JoinKind::FullOuter, JoinKind::BuildAnti, JoinKind::ProbeMark] {
                let case = Case { kind, keys: Keys::Number, nulls_equal: false, null_aware: false, residual: false };
                let setup = Setup { filters: Some(KeyFilters::Never), ..PLAIN };
                let setups = [PLAIN, setup, Setup { threads: 8, chunk: 10, ..setup }];
                check(case, &build, &probe, &setups);
            }
        }
    }
}

#[test]
fn build_side_larger_than_memory() {
    // About 15 MB of rows in a pool of 8: partitions wait, and are divided again.
    let build = rows(6, 120_000, 100_000, 1_000_000);
    let probe = rows(7, 150_000, 120_000, 1_000_000);
    let setups = [
        Setup { name: "small", limit: 8 << 20, ..PLAIN },
        Setup { name: "small, four threads", limit: 8 << 20, threads: 4, ..PLAIN },
    ];
    for kind in [JoinKind::Inner, JoinKind::FullOuter, JoinKind::BuildAnti, JoinKind::ProbeSemi] {
        let case = Case { kind, keys: Keys::Number, nulls_equal: false, null_aware: false, residual: false };
        let expected = run(&PLAIN, case, &build, &probe);
        for setup in &setups {
            assert!(run(setup, case, &build, &probe) == expected, "{case:?}, {}", setup.name);
        }
    }
}

#[test]
fn one_hot_key_larger_than_memory() {
    // All rows of the build side have one key, which no bits divide.
    let mut build = rows(8, 100_000, 1, 1);
    build.iter_mut().for_each(|row| row.key = Some(5));
    let probe = rows(9, 60, 12, 8);
    let small = Setup { name: "small", limit: 8 << 20, ..PLAIN };
    for (number, kind) in KINDS.into_iter().enumerate() {
        for residual in [false, true] {
            if !is_sampled(number + usize::from(residual), 2) {
                continue;
            }
            let case = Case { kind, keys: Keys::Number, nulls_equal: false, null_aware: false, residual };
            let expected = run(&PLAIN, case, &build, &probe);
            assert!(run(&small, case, &build, &probe) == expected, "{case:?}");
        }
    }
}

#[test]
fn many_probe_rows_meet_several_blocks() {
    // Pages of several lanes on the probe side, which pass by once for each block and go with the last.
    let mut build = rows(8, 100_000, 1, 1);
    build.iter_mut().for_each(|row| row.key = Some(5));
    let probe = rows(10, 120_000, 60_000, 1_000_000);
    let small = Setup { name: "small", limit: 8 << 20, filters: Some(KeyFilters::Never), threads: 2, ..PLAIN };
    for kind in [JoinKind::Inner, JoinKind::FullOuter, JoinKind::ProbeSemi, JoinKind::ProbeAnti, JoinKind::ProbeMark] {
        let case = Case { kind, keys: Keys::Number, nulls_equal: false, null_aware: false, residual: false };
        let expected = run(&PLAIN, case, &build, &probe);
        assert!(run(&small, case, &build, &probe) == expected, "{case:?}");
    }
}

#[test]
fn rows_without_a_mate_are_dropped_early() {
    let build = rows(10, 400, 1_000, 1_000_000);
    let probe = rows(11, 6_000, 10_000, 1_000_000);
    for (kind, keeps) in KINDS.map(|kind| {
        use JoinKind as K;
        (kind, matches!(kind, K::ProbeOuter | K::FullOuter | K::ProbeAnti | K::ProbeMark))
    }) {
        for keys in [Keys::Number, Keys::Float, Keys::NumberAndWord] {
            let case = Case { kind, keys, nulls_equal: false, null_aware: false, residual: false };
            let lonely = probe.iter().filter(|p| !build.iter().any(|b| case.matches(b, p))).count() as u64;
            assert!(lonely > 4_000, "{lonely}");
            // A partition that waits for its turn is asked about as well.
            for (strategy, filters) in [None, Some(JoinStrategy::Hybrid), Some(JoinStrategy::Partitioned)]
                .into_iter()
                .flat_map(|strategy| [KeyFilters::Never, KeyFilters::Bloom, KeyFilters::Bits].map(|f| (strategy, f)))
            {
                let setup = Setup { name: "counting", strategy, filters: Some(filters), ..PLAIN };
                let (_, dropped) = run_counting(&setup, case, &build, &probe);
                let least = if keeps || filters == KeyFilters::Never { 0 } else { lonely - lonely / 20 };
                let most = if least == 0 { 0 } else { lonely };
                assert!((least..=most).contains(&dropped), "{case:?}, {setup:?}: {dropped} of {lonely}");
                if filters == KeyFilters::Bits && keys == Keys::Number && strategy.is_none() && !keeps {
                    let nulls = probe.iter().filter(|p| p.key.is_none()).count() as u64;
                    assert!(dropped >= lonely - nulls, "bits are exact: {dropped} of {lonely}");
                }
            }
        }
    }
}

#[test]
fn asking_that_drops_nothing_ends() {
    // Rows that all have a mate are asked about once in a while, and so are those of a long run without one after them.
    let build = rows(12, 20_000, 20_000, 1_000_000);
    let known: Vec<Row> = build.iter().filter(|row| row.key.is_some()).cloned().collect();
    let mated: Vec<Row> = known.iter().cycle().take(1_200_000).cloned().collect();
    let lonely = Row { key: Some(-1), word: None, float: None, value: 0 };
    let probe: Vec<Row> = mated.into_iter().chain(std::iter::repeat_n(lonely, 40_000)).collect();
    let case =
        Case { kind: JoinKind::ProbeSemi, keys: Keys::Number, nulls_equal: false, null_aware: false, residual: false };
    let setup = Setup { name: "one thread", threads: 1, ..PLAIN };
    let (given, dropped) = run_counting(&setup, case, &build, &probe);
    assert_eq!(given.len(), 1_200_000);
    // Windows of 16,384 rows: the second is asked about after 64 times as many, and drops nothing; the rest of the pause covers the lonely rows.
    assert_eq!(dropped, 0);
    let forced = Setup { filters: Some(KeyFilters::Bits), ..setup };
    assert_eq!(run_counting(&forced, case, &build, &probe).1, 40_000);
}
