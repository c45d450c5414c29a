//! Aggregation against a plain map, under hostile settings: small memory, everything spilled, tiny chunks, colliding hashes,
//! every strategy, one to eight lanes.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/drain.rs"]
mod drain;
#[path = "support/hinted.rs"]
mod hinted;
#[path = "support/random.rs"]
mod random;
#[path = "support/sampled.rs"]
mod sampled;

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray, cast::AsArray, types};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ogee_exec::{
    AggregateStrategy, ChunksSource, CompareOp, ExecContext, ExecSettings, Expr, OpenPipeline, Query,
    aggregate::{self, AggregateCall, AggregateFunction as F, AggregateMode, AggregateSpec, GroupKey, GroupingSet},
};
use ogee_memory::{BufferManager, MemoryConfig, TempCompression};
use ogee_vector::{Chunk, Domain, HashSeed};

use self::{drain::drain, hinted::Hinted, random::Random, sampled::is_sampled};

struct Data {
    schema: SchemaRef,
    rows: Vec<Row>,
    chunk: usize,
}

#[derive(Clone)]
struct Row {
    key: Option<i64>,
    word: Option<String>,
    value: Option<i64>,
    small: i32,
    float: Option<f64>,
}

fn data(seed: u64, rows: usize, groups: u64, chunk: usize) -> Data {
    let mut random = Random(seed);
    let rows = (0..rows)
        .map(|_| {
            let key = random.next(groups);
            let length = random.next(40) as usize;
            Row {
                key: (key % 17 != 3).then_some(key as i64 * 7 - 100),
                word: (random.next(20) > 0)
                    .then(|| format!("{}{}", "abcdefghij".repeat(4)[..length].to_owned(), key % 5)),
                value: (random.next(10) > 0).then(|| random.next(1 << 40) as i64 - (1 << 39)),
                small: random.next(1000) as i32,
                float: (random.next(10) > 0).then(|| random.next(1 << 20) as f64 / 8.0),
            }
        })
        .collect();
    let schema = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("word", DataType::Utf8View, true),
        Field::new("value", DataType::Int64, true),
        Field::new("small", DataType::Int32, true),
        Field::new("float", DataType::Float64, true),
    ]));
    Data { schema, rows, chunk }
}

impl Data {
    fn open(&self) -> OpenPipeline {
        let chunks = self
            .rows
            .chunks(self.chunk)
            .map(|rows| {
                let columns: Vec<ArrayRef> = vec![
                    Arc::new(rows.iter().map(|r| r.key).collect::<Int64Array>()),
                    Arc::new(rows.iter().map(|r| r.word.clone()).collect::<StringViewArray>()),
                    Arc::new(rows.iter().map(|r| r.value).collect::<Int64Array>()),
                    Arc::new(rows.iter().map(|r| Some(r.small)).collect::<Int32Array>()),
                    Arc::new(rows.iter().map(|r| r.float).collect::<Float64Array>()),
                ];
                Chunk::new(columns, rows.len())
            })
            .collect();
        OpenPipeline::new(ChunksSource::new(Arc::clone(&self.schema), chunks))
    }
}

struct Setup {
    name: &'static str,
    limit: usize,
    threads: usize,
    mask: u64,
    spill_always: bool,
    strategy: Option<AggregateStrategy>,
}

const SETUPS: [Setup; 9] = [
    Setup { name: "plain", limit: 1 << 30, threads: 2, mask: u64::MAX, spill_always: false, strategy: None },
    Setup { name: "one thread", limit: 1 << 30, threads: 1, mask: u64::MAX, spill_always: false, strategy: None },
    Setup { name: "eight threads", limit: 1 << 30, threads: 8, mask: u64::MAX, spill_always: false, strategy: None },
    Setup { name: "small", limit: 16 << 20, threads: 4, mask: u64::MAX, spill_always: false, strategy: None },
    Setup {
        name: "spill",
        limit: 32 << 20,
        threads: 2,
        mask: u64::MAX,
        spill_always: true,
        strategy: Some(AggregateStrategy::PartitionOnly),
    },
    Setup {
        name: "collide",
        limit: 64 << 20,
        threads: 2,
        mask: 0x0007_0000_0000_0007,
        spill_always: false,
        strategy: Some(AggregateStrategy::PreAggregate),
    },
    Setup {
        name: "partition only",
        limit: 64 << 20,
        threads: 2,
        mask: u64::MAX,
        spill_always: false,
        strategy: Some(AggregateStrategy::PartitionOnly),
    },
    Setup {
        name: "combine early",
        limit: 64 << 20,
        threads: 2,
        mask: u64::MAX,
        spill_always: false,
        strategy: Some(AggregateStrategy::CombineEarly),
    },
    Setup {
        name: "combine early, spilled",
        limit: 16 << 20,
        threads: 3,
        mask: u64::MAX,
        spill_always: true,
        strategy: Some(AggregateStrategy::CombineEarly),
    },
];

impl Setup {
    fn context(&self, chunk: usize) -> ExecContext {
        let memory = BufferManager::new(MemoryConfig {
            limit: self.limit,
            spill_always: self.spill_always,
            counts_process: false,
            ..MemoryConfig::default()
        })
        .unwrap();
        ExecContext::new(
            memory,
            ExecSettings {
                threads: self.threads,
                chunk_capacity: chunk,
                hash: HashSeed { mask: self.mask, ..HashSeed::default() },
                aggregate_strategy: self.strategy,
                ..ExecSettings::default()
            },
        )
    }
}

fn call(function: F, column: usize, arg: DataType, output: DataType) -> AggregateCall {
    AggregateCall {
        function,
        args: vec![Expr::Column(column)],
        arg_types: vec![arg],
        filter: None,
        distinct: false,
        output,
    }
}

fn keys() -> Vec<GroupKey> {
    vec![
        GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 },
        GroupKey { expr: Expr::Column(1), data_type: DataType::Utf8View },
    ]
}

fn schema_of(types: &[DataType]) -> SchemaRef {
    let fields: Vec<_> = types.iter().enumerate().map(|(i, t)| Field::new(format!("c{i}"), t.clone(), true)).collect();
    Arc::new(Schema::new(fields))
}

/// Every value of every row as text, rows sorted; floats to nine digits.
fn text(chunks: &[Chunk]) -> Vec<String> {
    let mut rows = Vec::new();
    for chunk in chunks {
        for row in 0..chunk.len() {
            let values: Vec<String> = (0..chunk.num_columns())
                .map(|c| {
                    let array = chunk.column(c).array;
                    if array.is_null(row) {
                        return "NULL".to_owned();
                    }
                    match array.data_type() {
                        DataType::Int64 => array.as_primitive::<types::Int64Type>().value(row).to_string(),
                        DataType::Int32 => array.as_primitive::<types::Int32Type>().value(row).to_string(),
                        DataType::Float64 => format!("{:.6}", array.as_primitive::<types::Float64Type>().value(row)),
                        _ => array.as_string_view().value(row).to_owned(),
                    }
                })
                .collect();
            rows.push(values.join("|"));
        }
    }
    rows.sort();
    rows
}

fn show<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |v| v.to_string())
}

#[test]
fn groups_equal_those_of_a_map_under_every_setup() {
    for (seed, rows, groups, chunk) in
        [(1, 0, 1, 100), (2, 1, 1, 100), (3, 5_000, 10, 7), (4, 60_000, 700, 2048), (5, 150_000, 1 << 40, 2048)]
    {
        let data = data(seed, rows, groups, chunk);
        let mut map: BTreeMap<(Option<i64>, Option<&str>), Vec<&Row>> = BTreeMap::new();
        data.rows.iter().for_each(|r| map.entry((r.key, r.word.as_deref())).or_default().push(r));
        let mut expected: Vec<String> = map
            .iter()
            .map(|((key, word), rows)| {
                let floats: Vec<f64> = rows.iter().filter_map(|r| r.float).collect();
                let average = floats.iter().sum::<f64>() / floats.len() as f64;
                let some_sum = |mut values: std::iter::Peekable<Box<dyn Iterator<Item = i64> + '_>>| {
                    values.peek().is_some().then(|| values.sum::<i64>())
                };
                let values: Box<dyn Iterator<Item = i64>> = Box::new(rows.iter().filter_map(|r| r.value));
                [
                    show(*key),
                    show(*word),
                    rows.len().to_string(),
                    rows.iter().filter(|r| r.value.is_some()).count().to_string(),
                    show(some_sum(values.peekable())),
                    show(rows.iter().map(|r| r.small).min()),
                    show(rows.iter().filter_map(|r| r.word.as_deref()).max()),
                    show((!floats.is_empty()).then(|| format!("{average:.6}"))),
                ]
                .join("|")
            })
            .collect();
        expected.sort();
        for (turn, setup) in SETUPS.iter().enumerate() {
            if setup.name == "collide" && rows > 60_000 {
                continue; // quadratic by design
            }
            if rows > 10_000 && !is_sampled(turn + seed as usize, 2) {
                continue;
            }
            let ctx = setup.context(chunk);
            let mut query = Query::new(ctx.clone());
            let spec = AggregateSpec {
                keys: keys(),
                grouping_sets: None,
                aggregates: vec![
                    AggregateCall {
                        function: F::CountStar,
                        args: vec![],
                        arg_types: vec![],
                        filter: None,
                        distinct: false,
                        output: DataType::Int64,
                    },
                    call(F::Count, 2, DataType::Int64, DataType::Int64),
                    call(F::Sum, 2, DataType::Int64, DataType::Int64),
                    call(F::Min, 3, DataType::Int32, DataType::Int32),
                    call(F::Max, 1, DataType::Utf8View, DataType::Utf8View),
                    call(F::Avg, 4, DataType::Float64, DataType::Float64),
                ],
                collected: None,
                mode: AggregateMode::Single,
                schema: schema_of(&[
                    DataType::Int64,
                    DataType::Utf8View,
                    DataType::Int64,
                    DataType::Int64,
                    DataType::Int64,
                    DataType::Int32,
                    DataType::Utf8View,
                    DataType::Float64,
                ]),
            };
            assert!(spec.aggregates.iter().all(|c| aggregate::supports(c, AggregateMode::Single)));
            let open = aggregate::aggregate(&mut query, data.open(), spec).unwrap();
            let got = text(&drain(query, open, setup.threads).unwrap());
            assert_eq!(got.len(), expected.len(), "{} seed {seed}: groups", setup.name);
            assert!(
                got == expected,
                "{} seed {seed}: {:?}",
                setup.name,
                got.iter().zip(&expected).find(|(a, b)| a != b)
            );
            let stats = ctx.memory.stats();
            assert_eq!((stats.pinned, stats.temp_bytes), (0, 0), "{} seed {seed}: all is given back", setup.name);
        }
    }
}

#[test]
fn strings_that_grow_and_shrink_keep_their_extremes() {
    // Few groups and many longer and shorter strings: states change in place, move, and go inline.
    let data = data(9, 40_000, 12, 512);
    for setup in &SETUPS {
        let ctx = setup.context(512);
        let mut query = Query::new(ctx);
        let spec = AggregateSpec {
            keys: vec![GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 }],
            grouping_sets: None,
            aggregates: vec![
                call(F::Min, 1, DataType::Utf8View, DataType::Utf8View),
                call(F::Max, 1, DataType::Utf8View, DataType::Utf8View),
            ],
            collected: None,
            mode: AggregateMode::Single,
            schema: schema_of(&[DataType::Int64, DataType::Utf8View, DataType::Utf8View]),
        };
        let open = aggregate::aggregate(&mut query, data.open(), spec).unwrap();
        let got = text(&drain(query, open, setup.threads).unwrap());
        let mut map: BTreeMap<Option<i64>, Vec<&str>> = BTreeMap::new();
        data.rows.iter().for_each(|r| map.entry(r.key).or_default().extend(r.word.as_deref()));
        let mut expected: Vec<String> = map
            .iter()
            .map(|(k, w)| format!("{}|{}|{}", show(*k), show(w.iter().min()), show(w.iter().max())))
            .collect();
        expected.sort();
        assert_eq!(got, expected, "{}", setup.name);
    }
}

#[test]
fn without_keys_there_is_one_group_even_of_no_rows() {
    for rows in [0, 1, 10_000] {
        let data = data(4, rows, 100, 300);
        for setup in &SETUPS {
            let mut query = Query::new(setup.context(300));
            let spec = AggregateSpec {
                keys: vec![],
                grouping_sets: None,
                aggregates: vec![
                    call(F::Count, 2, DataType::Int64, DataType::Int64),
                    call(F::Sum, 2, DataType::Int64, DataType::Int64),
                    call(F::Min, 1, DataType::Utf8View, DataType::Utf8View),
                    call(F::Max, 3, DataType::Int32, DataType::Int32),
                ],
                collected: None,
                mode: AggregateMode::Single,
                schema: schema_of(&[DataType::Int64, DataType::Int64, DataType::Utf8View, DataType::Int32]),
            };
            let open = aggregate::aggregate(&mut query, data.open(), spec).unwrap();
            let got = text(&drain(query, open, setup.threads).unwrap());
            let values: Vec<i64> = data.rows.iter().filter_map(|r| r.value).collect();
            let expected = format!(
                "{}|{}|{}|{}",
                values.len(),
                show((!values.is_empty()).then(|| values.iter().sum::<i64>())),
                show(data.rows.iter().filter_map(|r| r.word.as_deref()).min()),
                show(data.rows.iter().map(|r| r.small).max())
            );
            assert_eq!(got, [expected], "{} {rows} rows", setup.name);
        }
    }
}

#[test]
fn distinct_arguments_count_once_beside_plain_ones() {
    let data = data(6, 30_000, 50, 1000);
    let filter = Expr::Compare { op: CompareOp::Lt, column: 3, literal: Arc::new(Int32Array::from(vec![500])) };
    for setup in &SETUPS {
        let mut query = Query::new(setup.context(1000));
        let distinct = |column, arg, filter: Option<Expr>| AggregateCall {
            distinct: true,
            filter,
            ..call(F::Count, column, arg, DataType::Int64)
        };
        let spec = AggregateSpec {
            keys: vec![GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 }],
            grouping_sets: None,
            aggregates: vec![
                distinct(1, DataType::Utf8View, None),
                call(F::Sum, 3, DataType::Int32, DataType::Int64),
                distinct(3, DataType::Int32, Some(filter.clone())),
                call(F::Count, 2, DataType::Int64, DataType::Int64),
            ],
            collected: None,
            mode: AggregateMode::Single,
            schema: schema_of(&vec![DataType::Int64; 5]),
        };
        let open = aggregate::aggregate(&mut query, data.open(), spec).unwrap();
        let got = text(&drain(query, open, setup.threads).unwrap());
        let mut map: BTreeMap<Option<i64>, Vec<&Row>> = BTreeMap::new();
        data.rows.iter().for_each(|r| map.entry(r.key).or_default().push(r));
        let count = |values: Vec<String>| values.into_iter().collect::<std::collections::BTreeSet<_>>().len();
        let mut expected: Vec<String> = map
            .iter()
            .map(|(key, rows)| {
                let words = count(rows.iter().filter_map(|r| r.word.clone()).collect());
                let small = count(rows.iter().filter(|r| r.small < 500).map(|r| r.small.to_string()).collect());
                let sum: i64 = rows.iter().map(|r| i64::from(r.small)).sum();
                let values = rows.iter().filter(|r| r.value.is_some()).count();
                format!("{}|{words}|{sum}|{small}|{values}", show(*key))
            })
            .collect();
        expected.sort();
        assert_eq!(got, expected, "{}", setup.name);
    }
}

#[test]
fn grouping_sets_group_the_same_rows_several_times() {
    let data = data(7, 20_000, 20, 999);
    let set = |nulls: [bool; 2], id: i64| GroupingSet {
        nulls: nulls.to_vec(),
        id: Arc::new(Int64Array::from(vec![id])) as ArrayRef,
    };
    for setup in &SETUPS {
        let mut query = Query::new(setup.context(999));
        let spec = AggregateSpec {
            keys: keys(),
            grouping_sets: Some(vec![set([false, false], 0), set([false, true], 1), set([true, true], 3)]),
            aggregates: vec![call(F::Sum, 3, DataType::Int32, DataType::Int64)],
            collected: None,
            mode: AggregateMode::Single,
            schema: schema_of(&[DataType::Int64, DataType::Utf8View, DataType::Int64, DataType::Int64]),
        };
        let open = aggregate::aggregate(&mut query, data.open(), spec).unwrap();
        let got = text(&drain(query, open, setup.threads).unwrap());
        let mut map: BTreeMap<(Option<i64>, Option<&str>, i64), i64> = BTreeMap::new();
        for row in &data.rows {
            *map.entry((row.key, row.word.as_deref(), 0)).or_default() += i64::from(row.small);
            *map.entry((row.key, None, 1)).or_default() += i64::from(row.small);
            *map.entry((None, None, 3)).or_default() += i64::from(row.small);
        }
        let mut expected: Vec<String> =
            map.iter().map(|((k, w, id), sum)| format!("{}|{}|{id}|{sum}", show(*k), show(*w))).collect();
        expected.sort();
        assert_eq!(got, expected, "{}", setup.name);
    }
}

/// Sets of `key`, `word` and `small`, by what they leave out.
fn sets_of_three(nulls: &[[bool; 3]]) -> Vec<GroupingSet> {
    let id = |id: usize| Arc::new(Int64Array::from(vec![id as i64])) as ArrayRef;
    nulls.iter().enumerate().map(|(i, nulls)| GroupingSet { nulls: nulls.to_vec(), id: id(i) }).collect()
}

fn spec_of_sets(sets: Vec<GroupingSet>, aggregates: Vec<AggregateCall>) -> AggregateSpec {
    let mut keys = keys();
    keys.push(GroupKey { expr: Expr::Column(3), data_type: DataType::Int32 });
    let mut types = vec![DataType::Int64, DataType::Utf8View, DataType::Int32, DataType::Int64];
    types.extend(aggregates.iter().map(|call| call.output.clone()));
    AggregateSpec {
        keys,
        grouping_sets: Some(sets),
        aggregates,
        collected: None,
        mode: AggregateMode::Single,
        schema: schema_of(&types),
    }
}

#[test]
fn coarser_sets_are_made_of_the_groups_of_finer_ones() {
    const X: bool = true;
    const O: bool = false;
    // Two that are within no other, one within both, one twice, and the empty one twice.
    let nulls = [[X, X, X], [O, O, X], [O, X, X], [X, O, X], [X, O, O], [X, X, X], [O, X, X], [X, X, O]];
    let calls = vec![
        call(F::Count, 2, DataType::Int64, DataType::Int64),
        call(F::Sum, 2, DataType::Int64, DataType::Int64),
        call(F::Max, 1, DataType::Utf8View, DataType::Utf8View),
        call(F::Avg, 4, DataType::Float64, DataType::Float64),
        AggregateCall {
            args: vec![Expr::Column(1), Expr::Column(2)],
            arg_types: vec![DataType::Utf8View, DataType::Int64],
            ..call(F::ArgMin, 1, DataType::Utf8View, DataType::Utf8View)
        },
    ];
    let spec = spec_of_sets(sets_of_three(&nulls), calls);
    let of = aggregate::finer_sets(&spec);
    assert_eq!(of, [Some(2), None, Some(1), Some(1), None, Some(0), Some(2), Some(4)]);
    for (seed, rows, groups, chunk) in [(21, 0, 1, 100), (22, 15_000, 900, 2048), (23, 4_000, 1 << 40, 77)] {
        let data = data(seed, rows, groups, chunk);
        type Key<'a> = (Option<i64>, Option<&'a str>, Option<i32>, usize);
        let mut map: BTreeMap<Key<'_>, Vec<&Row>> = BTreeMap::new();
        for (id, [no_key, no_word, no_small]) in nulls.into_iter().enumerate() {
            if no_key && no_word && no_small {
                map.entry((None, None, None, id)).or_default();
            }
            for row in &data.rows {
                let key = row.key.filter(|_| !no_key);
                let word = row.word.as_deref().filter(|_| !no_word);
                map.entry((key, word, (!no_small).then_some(row.small), id)).or_default().push(row);
            }
        }
        let mut expected: Vec<String> = map
            .iter()
            .map(|((key, word, small, id), rows)| {
                let values: Vec<i64> = rows.iter().filter_map(|r| r.value).collect();
                let floats: Vec<f64> = rows.iter().filter_map(|r| r.float).collect();
                let average = floats.iter().sum::<f64>() / floats.len() as f64;
                let pairs = rows.iter().filter(|r| r.word.is_some() && r.value.is_some());
                [
                    show(*key),
                    show(*word),
                    show(*small),
                    id.to_string(),
                    values.len().to_string(),
                    show((!values.is_empty()).then(|| values.iter().sum::<i64>())),
                    show(rows.iter().filter_map(|r| r.word.as_deref()).max()),
                    show((!floats.is_empty()).then(|| format!("{average:.6}"))),
                    show(pairs.min_by_key(|r| r.value).and_then(|r| r.word.as_deref())),
                ]
                .join("|")
            })
            .collect();
        expected.sort();
        for setup in SETUPS.iter().filter(|setup| setup.name != "collide" || rows < 10_000) {
            let ctx = setup.context(chunk);
            let mut query = Query::new(ctx.clone());
            let open = aggregate::aggregate(&mut query, data.open(), spec.clone()).unwrap();
            let got = text(&drain(query, open, setup.threads).unwrap());
            let differs = got.iter().zip(&expected).find(|(a, b)| a != b);
            assert!(got == expected, "{} seed {seed}: {differs:?}", setup.name);
            let stats = ctx.memory.stats();
            assert_eq!((stats.pinned, stats.temp_bytes), (0, 0), "{} seed {seed}: all is given back", setup.name);
        }
    }
}

#[test]
fn states_that_cannot_be_merged_are_made_of_rows_for_every_set() {
    let nulls = [[false, false, false], [false, false, true], [true, true, true]];
    let distinct = AggregateCall { distinct: true, ..call(F::Count, 2, DataType::Int64, DataType::Int64) };
    let spec = spec_of_sets(sets_of_three(&nulls), vec![distinct]);
    assert_eq!(aggregate::finer_sets(&spec), [None; 3]);
    let data = data(31, 9_000, 40, 500);
    type Key = (Option<i64>, Option<String>, Option<i32>);
    let count = |of: &dyn Fn(&Row) -> Key| {
        let mut map: BTreeMap<_, std::collections::BTreeSet<i64>> = BTreeMap::new();
        data.rows.iter().for_each(|row| map.entry(of(row)).or_default().extend(row.value));
        map.into_iter().map(|((k, w, s), values)| (show(k), show(w), show(s), values.len())).collect::<Vec<_>>()
    };
    let by_set = [
        count(&|row| (row.key, row.word.clone(), Some(row.small))),
        count(&|row| (row.key, row.word.clone(), None)),
        count(&|_| (None, None, None)),
    ];
    let line = |id: usize| move |(k, w, s, n): &(String, String, String, usize)| format!("{k}|{w}|{s}|{id}|{n}");
    let mut expected: Vec<String> = by_set.iter().enumerate().flat_map(|(id, set)| set.iter().map(line(id))).collect();
    expected.sort();
    for setup in &SETUPS[..5] {
        let mut query = Query::new(setup.context(500));
        let open = aggregate::aggregate(&mut query, data.open(), spec.clone()).unwrap();
        assert_eq!(text(&drain(query, open, setup.threads).unwrap()), expected, "{}", setup.name);
    }
}

#[test]
fn a_sum_that_leaves_its_type_is_an_error_and_one_that_comes_back_is_not() {
    let schema = schema_of(&[DataType::Int64]);
    let run = |values: Vec<i64>| {
        let chunk = Chunk::new(vec![Arc::new(Int64Array::from(values.clone())) as ArrayRef], values.len());
        let mut query = Query::new(SETUPS[0].context(2048));
        let spec = AggregateSpec {
            keys: vec![],
            grouping_sets: None,
            aggregates: vec![call(F::Sum, 0, DataType::Int64, DataType::Int64)],
            collected: None,
            mode: AggregateMode::Single,
            schema: Arc::clone(&schema),
        };
        let open = OpenPipeline::new(ChunksSource::new(Arc::clone(&schema), vec![chunk]));
        let open = aggregate::aggregate(&mut query, open, spec).unwrap();
        drain(query, open, 2)
    };
    assert_eq!(text(&run(vec![i64::MAX, 1, -1]).unwrap()), [i64::MAX.to_string()]);
    let error = run(vec![i64::MAX, 1]).unwrap_err();
    assert_eq!(error.code(), "OGEE_X001", "{error}");
}

/// Rows whose later part breaks what the first rows and the statistics made believe: numbers beyond the range, NULLs, ever more and
/// ever longer words.
fn drifting(rows: usize, surprises: bool) -> Vec<(Option<i64>, Option<String>, Option<i32>)> {
    let mut random = Random(77);
    (0..rows)
        .map(|row| {
            let (late, later) = (surprises && row > rows / 2, surprises && row > rows / 4 * 3);
            let key = random.next(40) as i64 + if late { random.next(2) as i64 * (1 << 40) } else { 0 };
            let variety = if later { 500 } else { 6 };
            let word = format!("{}{}", "w".repeat(random.next(variety / 5 + 1) as usize), random.next(variety));
            let day = random.next(900) as i32 + 8000;
            (
                (!(late && random.next(9) == 0)).then_some(key),
                (!(later && random.next(7) == 0)).then_some(word),
                (!(late && random.next(5) == 0)).then_some(if later { day * 100_000 } else { day }),
            )
        })
        .collect()
}

#[test]
fn statistics_and_first_rows_are_only_hints() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("word", DataType::Utf8View, true),
        Field::new("day", DataType::Int32, true),
    ]));
    let hints = vec![
        Domain { nulls: false, integers: Some((0, 39)) },
        Domain { nulls: false, integers: None },
        Domain { nulls: false, integers: Some((8000, 8899)) },
    ];
    for (rows, surprises, with_word) in [(20_000, false, true), (20_000, true, true), (20_000, true, false)] {
        let data = drifting(rows, surprises);
        let mut map: BTreeMap<(Option<i64>, Option<&str>), Vec<_>> = BTreeMap::new();
        for (key, word, day) in &data {
            map.entry((*key, word.as_deref().filter(|_| with_word))).or_default().push((day, word));
        }
        let mut expected: Vec<String> = map
            .iter()
            .map(|((key, word), rows)| {
                let days = || rows.iter().filter_map(|(day, _)| **day);
                let words = || rows.iter().filter_map(|(_, word)| word.as_deref());
                let day_sum = days().next().map(|_| days().map(i64::from).sum::<i64>());
                let key_sum = key.map(|key| key * rows.len() as i64);
                let key = if with_word { format!("{}|{}", show(*key), show(*word)) } else { show(*key) };
                format!(
                    "{key}|{}|{}|{}|{}|{}|{}|{}",
                    rows.len(),
                    show(days().min()),
                    show(days().max()),
                    show(words().min()),
                    show(words().max()),
                    show(day_sum),
                    show(key_sum)
                )
            })
            .collect();
        expected.sort();
        for setup in &SETUPS {
            let ctx = setup.context(1000);
            let chunks = data
                .chunks(1000)
                .map(|rows| {
                    let columns: Vec<ArrayRef> = vec![
                        Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()),
                        Arc::new(rows.iter().map(|r| r.1.clone()).collect::<StringViewArray>()),
                        Arc::new(rows.iter().map(|r| r.2).collect::<Int32Array>()),
                    ];
                    Chunk::new(columns, rows.len())
                })
                .collect();
            let chunks = ChunksSource::new(Arc::clone(&schema), chunks);
            let mut query = Query::new(ctx.clone());
            let mut types = vec![DataType::Int64, DataType::Utf8View];
            types.truncate(1 + usize::from(with_word));
            types.extend([DataType::Int64, DataType::Int32, DataType::Int32, DataType::Utf8View, DataType::Utf8View]);
            types.extend([DataType::Int64, DataType::Int64]);
            let count = AggregateCall {
                args: vec![],
                arg_types: vec![],
                ..call(F::CountStar, 0, DataType::Int64, DataType::Int64)
            };
            let spec = AggregateSpec {
                keys: keys().into_iter().take(1 + usize::from(with_word)).collect(),
                grouping_sets: None,
                aggregates: vec![
                    count,
                    call(F::Min, 2, DataType::Int32, DataType::Int32),
                    call(F::Max, 2, DataType::Int32, DataType::Int32),
                    call(F::Min, 1, DataType::Utf8View, DataType::Utf8View),
                    call(F::Max, 1, DataType::Utf8View, DataType::Utf8View),
                    call(F::Sum, 2, DataType::Int32, DataType::Int64),
                    call(F::Sum, 0, DataType::Int64, DataType::Int64),
                ],
                collected: None,
                mode: AggregateMode::Single,
                schema: schema_of(&types),
            };
            let source = Arc::new(Hinted { chunks, domains: hints.clone() });
            let open = aggregate::aggregate(&mut query, OpenPipeline::new(source), spec).unwrap();
            let got = text(&drain(query, open, setup.threads).unwrap());
            assert!(
                got == expected,
                "{}, surprises {surprises}: {:?}",
                setup.name,
                got.iter().zip(&expected).find(|(a, b)| a != b)
            );
            let widened = ctx.counters.strategies().iter().any(|note| note.contains("widened"));
            assert_eq!(widened, surprises, "{}: rows are widened if they must be", setup.name);
        }
    }
}

#[test]
fn memory_follows_the_groups_not_the_rows() {
    // Each group comes as four rows together and again long after, for which the table grows; all groups once and then in no order, so that
    // lookups stop and partitions pile up repeats; one group among many; few groups whose rows are not combined before the second phase,
    // where they do not fit; and few groups after many, for which lookups stop and are resumed.
    const ROWS: usize = 1_600_000;
    for (name, note) in [
        ("clustered", "local"),
        ("random", "combined early"),
        ("heavy", "combined hot"),
        ("few", "combined in place"),
        ("later", "resumed"),
    ] {
        let mut random = Random(5);
        let rows = match name {
            "random" => 2 * ROWS,
            "later" => 4 * ROWS,
            _ => ROWS,
        };
        let keys: Vec<i64> = (0..rows)
            .map(|row| match name {
                "clustered" => (row / 4 % 100_000) as i64,
                "random" if row < 100_000 => row as i64,
                "random" => random.next(100_000) as i64,
                "few" => (row % 3) as i64 * 1_000_003,
                "later" if row < 200_000 => row as i64,
                "later" => -1 - (row % 1000) as i64,
                // Half of the rows are of one group, the others each of its own.
                _ if row % 2 == 0 => -1,
                _ => row as i64,
            })
            .collect();
        let schema = schema_of(&vec![DataType::Int64; 2]);
        let chunks = keys
            .chunks(2048)
            .enumerate()
            .map(|(chunk, keys)| {
                let values = (0..keys.len()).map(|row| Some((chunk * 2048 + row) as i64));
                let columns: Vec<ArrayRef> =
                    vec![Arc::new(Int64Array::from(keys.to_vec())), Arc::new(values.collect::<Int64Array>())];
                Chunk::new(columns, keys.len())
            })
            .collect();
        let (limit, aggregate_strategy) = match name {
            "random" => (160 << 20, None),
            "few" => (32 << 20, Some(AggregateStrategy::PartitionOnly)),
            _ => (1 << 30, None),
        };
        let memory = BufferManager::new(MemoryConfig { limit, counts_process: false, ..MemoryConfig::default() });
        let settings = ExecSettings { threads: 1, aggregate_strategy, ..ExecSettings::default() };
        let ctx = ExecContext::new(memory.unwrap(), settings);
        let mut query = Query::new(ctx.clone());
        let functions = [F::Min, F::Max, F::Sum, F::Count, F::BitXor];
        let spec = AggregateSpec {
            keys: vec![GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 }],
            grouping_sets: None,
            aggregates: functions.map(|f| call(f, 1, DataType::Int64, DataType::Int64)).to_vec(),
            collected: None,
            mode: AggregateMode::Single,
            schema: schema_of(&vec![DataType::Int64; 6]),
        };
        let open = OpenPipeline::new(ChunksSource::new(schema, chunks));
        let open = aggregate::aggregate(&mut query, open, spec).unwrap();
        let got = text(&drain(query, open, 1).unwrap());
        let mut expected: BTreeMap<i64, (i64, i64, i64, i64, i64)> = BTreeMap::new();
        for (row, key) in keys.iter().enumerate() {
            let row = row as i64;
            let group = expected.entry(*key).or_insert((row, row, 0, 0, 0));
            *group = (group.0.min(row), group.1.max(row), group.2 + row, group.3 + 1, group.4 ^ row);
        }
        let mut expected: Vec<String> =
            expected.iter().map(|(k, v)| format!("{k}|{}|{}|{}|{}|{}", v.0, v.1, v.2, v.3, v.4)).collect();
        expected.sort();
        assert!(got == expected, "{name}");
        assert!(ctx.counters.strategies().iter().any(|taken| taken.contains(note)), "{name}");
        // 100,000 groups of 72 bytes. Without, 3.2 million rows of those in no order would be kept, 230 MB, of which much would be spilled.
        // Of the heavy hitter's, 58 MB; the others' rows need theirs and pages that are half full.
        let stats = ctx.memory.stats();
        match name {
            "clustered" => assert!(stats.peak_used < 32 << 20, "{name}: {}", stats.peak_used),
            "random" => assert!(stats.spilled_bytes < 16 << 20, "{name}: {}", stats.spilled_bytes),
            // Two pages of each of 512 partitions, instead of 6.4 million rows.
            "later" => assert!(stats.peak_used < 300 << 20, "{name}: {}", stats.peak_used),
            _ => assert!(stats.peak_used < 112 << 20, "{name}: {}", stats.peak_used),
        }
    }
}

/// Where no group repeats, only what does not fit is written, once, and the first partitions are still there when their turn comes.
#[test]
fn later_partitions_leave_memory_first() {
    const ROWS: usize = 1_500_000;
    let schema = schema_of(&vec![DataType::Int64; 2]);
    let chunks = (0..ROWS as i64)
        .collect::<Vec<_>>()
        .chunks(2048)
        .map(|rows| {
            let keys = rows.iter().map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64));
            let columns: Vec<ArrayRef> =
                vec![Arc::new(keys.collect::<Int64Array>()), Arc::new(Int64Array::from(rows.to_vec()))];
            Chunk::new(columns, rows.len())
        })
        .collect();
    let config = MemoryConfig {
        limit: 32 << 20,
        counts_process: false,
        // Background threads write ahead of what is needed, as much as there is time for.
        io_threads: 0,
        temp_compression: TempCompression::Off,
        ..MemoryConfig::default()
    };
    let settings = ExecSettings { threads: 1, ..ExecSettings::default() };
    let ctx = ExecContext::new(BufferManager::new(config).unwrap(), settings);
    let mut query = Query::new(ctx.clone());
    let spec = AggregateSpec {
        keys: vec![GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 }],
        grouping_sets: None,
        aggregates: vec![call(F::Max, 1, DataType::Int64, DataType::Int64)],
        collected: None,
        mode: AggregateMode::Single,
        schema: schema_of(&vec![DataType::Int64; 2]),
    };
    let open = OpenPipeline::new(ChunksSource::new(schema, chunks));
    let open = aggregate::aggregate(&mut query, open, spec).unwrap();
    let groups: usize = drain(query, open, 1).unwrap().iter().map(Chunk::len).sum();
    assert_eq!(groups, ROWS);
    let stats = ctx.memory.stats();
    assert!(stats.spilled_bytes > 8 << 20, "{stats:?}");
    // The second phase makes room by finishing partitions, not by writing pages that it will read itself.
    assert_eq!((stats.spilled_bytes, stats.read_back_bytes), (stats.temp_peak, stats.temp_peak), "{stats:?}");
}
