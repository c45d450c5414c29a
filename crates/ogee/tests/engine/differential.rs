//! Groupings, sorts and windows against DataFusion's own execution of the same SQL over the same files, at random: data, queries, threads, limits,
//! chunk sizes. `OGEE_SEED` repeats a run, `OGEE_ROUNDS` makes it longer.
//!
//! Not here: joins (`differential_joins`).

use std::fmt::Write;

use crate::common::{batch, batch_rows, column, open, write_parquet};
use datafusion::{
    arrow::array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
        TimestampMicrosecondArray, UInt16Array,
    },
    execution::SessionStateBuilder,
    physical_optimizer::optimizer::PhysicalOptimizer,
    prelude::{ParquetReadOptions, SessionConfig, SessionContext},
};
use ogee::{AggregateStrategy, Config, JoinStrategy};

/// splitmix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Skewed: small values are frequent.
    fn skewed(&mut self, end: u64) -> u64 {
        let end = 1 + self.below(end);
        self.below(end)
    }

    fn column<V>(&mut self, rows: usize, nulls: u64, mut value: impl FnMut(&mut Self) -> V) -> Vec<Option<V>> {
        (0..rows).map(|_| (self.below(100) >= nulls).then(|| value(self))).collect()
    }
}

fn table(random: &mut Random, rows: usize) -> datafusion::arrow::array::RecordBatch {
    let groups = *random.pick(&[1, 10, 1000, 100_000]);
    let nulls = *random.pick(&[0, 5, 60]);
    let long = "a string that does not fit into a view ".repeat(2);
    let int = column(Int32Array::from(random.column(rows, nulls, |r| r.skewed(groups) as i32 - 3)));
    let big = column(Int64Array::from(random.column(rows, nulls, |r| r.below(1 << 40) as i64 - (1 << 39))));
    let small = column(UInt16Array::from(random.column(rows, nulls, |r| r.below(5) as u16)));
    let text = column(StringArray::from(random.column(rows, nulls, |r| match r.below(3) {
        0 => format!("{}", r.skewed(groups)),
        1 => format!("{long}{}", r.below(7)),
        _ => String::new(),
    })));
    let float = column(Float64Array::from(random.column(rows, nulls, |r| r.below(1 << 20) as f64 / 8.0 - 1000.0)));
    let decimal = Decimal128Array::from(random.column(rows, nulls, |r| i128::from(r.below(1 << 30)) - (1 << 29)));
    let decimal = column(decimal.with_precision_and_scale(15, 2).unwrap());
    let date = column(Date32Array::from(random.column(rows, nulls, |r| r.below(40) as i32 + 19_000)));
    let time = random.column(rows, nulls, |r| r.below(1 << 50) as i64);
    let time = column(TimestampMicrosecondArray::from(time));
    let flag = column(BooleanArray::from(random.column(rows, nulls, |r| r.below(4) == 0)));
    let columns: [(&str, ArrayRef); 9] = [
        ("i", int),
        ("b", big),
        ("s", small),
        ("t", text),
        ("f", float),
        ("d", decimal),
        ("day", date),
        ("ts", time),
        ("flag", flag),
    ];
    batch(columns)
}

/// A grouping: its keys come first in the output, so that rows can be told apart by them.
fn grouping(random: &mut Random) -> String {
    let keys = ["i", "s", "t", "day", "flag", "i % 7", "d", "upper(t)", "b % 13", "date_trunc('year', ts)", "s + 1"];
    let calls = [
        "count(*)",
        "count(t)",
        "count(DISTINCT s)",
        "sum(i)",
        "sum(b)",
        "sum(d)",
        "sum(f)",
        "sum(DISTINCT i % 5)",
        "avg(d)",
        "avg(f)",
        "avg(i)",
        "min(t)",
        "max(t)",
        "min(d)",
        "max(ts)",
        "min(day)",
        "max(f)",
        "min(flag)",
        "bool_and(flag)",
        "bool_or(flag)",
        "bit_and(b)",
        "bit_or(b)",
        "bit_xor(b)",
        "stddev(f)",
        "stddev_pop(i)",
        "var(f)",
        "var_pop(d)",
        "covar_samp(f, i)",
        "covar_pop(i, b)",
        // Of constants they are NaN, as in DuckDB, and NULL in DataFusion.
        "nullif(corr(f, i), CAST('NaN' AS DOUBLE))",
        "nullif(regr_slope(f, i), CAST('NaN' AS DOUBLE))",
        "regr_count(f, b)",
        "regr_avgx(f, i)",
        "count(*) FILTER (WHERE flag)",
        "sum(b) FILTER (WHERE s > 2 AND f < 5000)",
        "max(t) FILTER (WHERE day IS NULL)",
        "sum(i + s)",
        "max(length(t))",
        "median(i)",
    ];
    let filters = [
        "f > 0",
        "t <> ''",
        "s IN (1, 2)",
        "day >= DATE '2022-01-15'",
        "d < 100.5",
        "flag",
        "i IS NOT NULL",
        "b > 0 OR s = 1",
    ];
    let mut picked: Vec<&str> = Vec::new();
    for _ in 0..random.below(4) {
        let key = *random.pick(&keys);
        if !picked.contains(&key) {
            picked.push(key);
        }
    }
    let mut sql = "SELECT ".to_owned();
    for (n, key) in picked.iter().enumerate() {
        write!(sql, "{key} AS k{n}, ").unwrap();
    }
    let sets = !picked.is_empty() && random.below(4) == 0;
    if sets {
        let all: Vec<String> = picked.iter().map(|key| format!("grouping({key})")).collect();
        write!(sql, "{}, ", all.join(" + ")).unwrap();
    }
    for n in 0..=random.below(4) {
        write!(sql, "{}{} AS a{n}", if n > 0 { ", " } else { "" }, random.pick(&calls)).unwrap();
    }
    sql.push_str(" FROM t");
    for n in 0..random.below(3) {
        write!(sql, " {} {}", if n == 0 { "WHERE" } else { "AND" }, random.pick(&filters)).unwrap();
    }
    if !picked.is_empty() {
        let all = picked.join(", ");
        match (sets, random.below(3)) {
            (false, _) => write!(sql, " GROUP BY {all}").unwrap(),
            (true, 0) => write!(sql, " GROUP BY ROLLUP({all})").unwrap(),
            (true, 1) => write!(sql, " GROUP BY CUBE({all})").unwrap(),
            (true, _) => write!(sql, " GROUP BY GROUPING SETS({})", grouping_sets(random, &picked)).unwrap(),
        }
        if random.below(5) == 0 {
            sql.push_str(" HAVING count(*) > 1");
        } else if sets {
            // Over no rows, DataFusion has no group for an empty set.
            sql.push_str(" HAVING count(*) > 0");
        }
    }
    sql
}

/// Sets of some of `keys`, all of which are in one at least.
fn grouping_sets(random: &mut Random, keys: &[&str]) -> String {
    let mut sets: Vec<Vec<&str>> = Vec::new();
    for _ in 0..=random.below(4) {
        sets.push(keys.iter().copied().filter(|_| random.below(2) == 0).collect());
    }
    let missing: Vec<&str> = keys.iter().copied().filter(|key| !sets.iter().any(|set| set.contains(key))).collect();
    sets.push(missing);
    let sets: Vec<String> = sets.iter().map(|set| format!("({})", set.join(", "))).collect();
    sets.join(", ")
}

/// Some of `from`, each with a direction.
fn order_by(random: &mut Random, from: &[&str], most: u64) -> (Vec<String>, String) {
    let mut picked: Vec<String> = Vec::new();
    for _ in 0..=random.below(most) {
        let key = (*random.pick(from)).to_owned();
        if !picked.contains(&key) {
            picked.push(key);
        }
    }
    let sorts: Vec<String> = picked
        .iter()
        .map(|key| format!("{key} {} NULLS {}", random.pick(&["ASC", "DESC"]), random.pick(&["FIRST", "LAST"])))
        .collect();
    (picked, sorts.join(", "))
}

/// An order of which only the keys come out: rows that are equal in it look the same.
fn ordered(random: &mut Random) -> String {
    let keys = ["i", "b", "s", "t", "f", "d", "day", "ts", "flag", "i % 7", "upper(t)", "b + s", "substr(t, 30)"];
    let (picked, by) = order_by(random, &keys, 4);
    let mut sql = format!("SELECT {} FROM t", picked.join(", "));
    if random.below(3) == 0 {
        sql.push_str(" WHERE s > 1 OR flag");
    }
    write!(sql, " ORDER BY {by}").unwrap();
    if random.below(2) == 0 {
        write!(sql, " LIMIT {}", random.pick(&[1, 10, 2000, 8000])).unwrap();
        if random.below(2) == 0 {
            write!(sql, " OFFSET {}", random.pick(&[1, 100, 3000])).unwrap();
        }
    }
    sql
}

/// Window functions whose values no order of equal rows changes: of peers, or over an order by all columns.
fn windows(random: &mut Random) -> String {
    let all = "i NULLS FIRST, b DESC, s, t, f, d, day DESC NULLS LAST, ts, flag";
    let peers = [
        "rank() OVER ({w})",
        "dense_rank() OVER ({w})",
        "percent_rank() OVER ({w})",
        "cume_dist() OVER ({w})",
        "count(*) OVER ({w})",
        "count(t) OVER ({w})",
        "sum(b) OVER ({w})",
        "sum(d) OVER ({w})",
        "sum(f) OVER ({w})",
        "avg(f) OVER ({w})",
        "min(b) OVER ({w})",
        "max(t) OVER ({w})",
        "min(ts) OVER ({p})",
        "sum(i) OVER ({p})",
        "count(DISTINCT s) OVER ({p})",
        "sum(s) OVER ({w} GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
        "count(*) FILTER (WHERE flag) OVER ({w})",
        "stddev(s) OVER ({p})",
    ];
    let rows = [
        "row_number() OVER ({w})",
        "ntile(5) OVER ({w})",
        "lag(b) OVER ({w})",
        "lead(t, 3, 'none') OVER ({w})",
        "lag(i, 2000, -5) OVER ({w})",
        "lag(s) IGNORE NULLS OVER ({w})",
        "first_value(t) OVER ({w})",
        "last_value(d) OVER ({w} ROWS UNBOUNDED PRECEDING)",
        "last_value(day) OVER ({w} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "nth_value(b, 3) OVER ({w})",
        "sum(b) OVER ({w} ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING)",
        "max(i) OVER ({w} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        "sum(s) OVER ({w} ROWS UNBOUNDED PRECEDING)",
        "min(f) OVER ({w} ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING)",
    ];
    let partition = match random.below(4) {
        0 => String::new(),
        1 => "PARTITION BY t, s".to_owned(),
        _ => format!("PARTITION BY {}", random.pick(&["i", "s", "t", "flag", "i % 3", "day"])),
    };
    let mut values = Vec::new();
    for _ in 0..=random.below(3) {
        let (call, by) = match random.below(2) {
            0 => (*random.pick(&peers), order_by(random, &["i", "s", "t", "day", "b % 50"], 2).1),
            _ => (*random.pick(&rows), all.to_owned()),
        };
        values.push(call.replace("{w}", &format!("{partition} ORDER BY {by}")).replace("{p}", &partition));
    }
    let values: Vec<String> = values.iter().enumerate().map(|(n, value)| format!("{value} AS w{n}")).collect();
    format!("SELECT i, b, s, day, flag, {} FROM t", values.join(", "))
}

fn same(left: &str, right: &str) -> bool {
    if left == right {
        return true;
    }
    match (left.parse::<f64>(), right.parse::<f64>()) {
        // Only floats have a point and differ in their text; decimals of one type are written alike.
        (Ok(l), Ok(r)) => (l.is_nan() && r.is_nan()) || (l - r).abs() <= 1e-9 * l.abs().max(r.abs()).max(1e-3),
        _ => false,
    }
}

fn compare(sql: &str, context: &str, ours: &mut [String], theirs: &mut [String]) {
    if !sql.contains(" FROM t ORDER BY") && !sql.contains("OR flag ORDER BY") {
        ours.sort();
        theirs.sort();
    }
    assert_eq!(ours.len(), theirs.len(), "{context}\n{sql}");
    for (ours, theirs) in ours.iter().zip(theirs.iter()) {
        let equal = ours.split('|').count() == theirs.split('|').count()
            && ours.split('|').zip(theirs.split('|')).all(|(l, r)| same(l, r));
        assert!(equal, "{context}\n{sql}\nours   {ours}\ntheirs {theirs}");
    }
}

#[test]
fn groupings_agree_with_datafusion() {
    agree(20_241_121, &["t"], &[1, 500, 4000, 9000], |random| (0..10).map(|_| grouping(random)).collect());
}

#[test]
fn sorts_and_windows_agree_with_datafusion() {
    agree(20_251_122, &["t"], &[1, 500, 4000, 9000], |random| {
        let sorts: Vec<String> = (0..4).map(|_| ordered(random)).collect();
        sorts.into_iter().chain((0..6).map(|_| windows(random))).collect()
    });
}

/// Rows of a result that is compared; larger ones of joins would take the time of all others.
const ROWS_MAX: usize = 200_000;

/// Runs what `queries` makes in both, from `seed` on, over `tables` of files with at most as many rows as one of `sizes`.
pub fn agree(seed: u64, tables: &[&str], sizes: &[u64], queries: impl Fn(&mut Random) -> Vec<String>) {
    let seed = std::env::var("OGEE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(seed);
    let rounds = std::env::var("OGEE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for round in 0..rounds {
        let mut random = Random(seed + round);
        let directory = tempfile::tempdir().unwrap();
        let mut config = SessionConfig::new().with_target_partitions(1);
        config.options_mut().sql_parser.parse_float_as_decimal = true;
        // Its rule that pushes filters into scans takes one column for another where two have the same name.
        let mut rules = PhysicalOptimizer::new().rules;
        rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
        let state =
            SessionStateBuilder::new_with_default_features().with_config(config).with_physical_optimizer_rules(rules);
        let theirs = SessionContext::new_with_state(state.build());
        let mut locations = Vec::new();
        for name in tables {
            let files = 1 + random.below(3);
            for file in 0..files {
                let size = *random.pick(sizes);
                let rows = 1 + random.below(size) as usize;
                let path = directory.path().join(name).join(format!("{file}.parquet"));
                let group = *random.pick(&[100, 3000, 100_000]);
                write_parquet(&path, &table(&mut random, rows), group, None);
            }
            let location = format!("{}/{name}/", directory.path().display());
            runtime.block_on(theirs.register_parquet(*name, &location, ParquetReadOptions::default())).unwrap();
            locations.push(location);
        }

        let configs: Vec<(String, Config)> = (0..3)
            .map(|_| {
                let threads = *random.pick(&[1, 2, 8]);
                let chunk = *random.pick(&[1, 7, 1024, 2048]);
                let limit = *random.pick(&[24 << 20, 64 << 20, 1 << 30]);
                let spill = random.below(3) == 0;
                let mask = *random.pick(&[u64::MAX, u64::MAX, 0xf]);
                let strategy = *random.pick(&[
                    None,
                    Some(AggregateStrategy::PreAggregate),
                    Some(AggregateStrategy::PartitionOnly),
                    Some(AggregateStrategy::CombineEarly),
                ]);
                let join = *random.pick(&[None, None, Some(JoinStrategy::Hybrid), Some(JoinStrategy::Partitioned)]);
                let mut config = Config::default()
                    .threads(threads)
                    .chunk_capacity(chunk)
                    .memory_limit(limit)
                    .counts_process(false)
                    .spill_always(spill)
                    .hash_mask(mask);
                if let Some(strategy) = strategy {
                    config = config.aggregate_strategy(strategy);
                }
                if let Some(strategy) = join {
                    config = config.join_strategy(strategy);
                }
                let name = format!(
                    "seed {seed} round {round}: {threads} threads, chunks of {chunk}, limit {limit}, spill {spill}, mask {mask:x}, {strategy:?}, {join:?}"
                );
                (name, config)
            })
            .collect();
        let queries = queries(&mut random);
        let expected: Vec<Vec<String>> = queries
            .iter()
            .map(|sql| {
                let batches = runtime.block_on(async { theirs.sql(sql).await.unwrap().collect().await });
                batches.unwrap_or_else(|e| panic!("{sql}: {e}")).iter().flat_map(batch_rows).collect()
            })
            .collect();
        for (name, config) in configs {
            let database = open(config);
            let connection = database.connect();
            for (table, location) in tables.iter().zip(&locations) {
                let sql = format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{location}'");
                crate::common::query(&connection, &sql);
            }
            for (sql, expected) in queries.iter().zip(&expected).filter(|(_, rows)| rows.len() <= ROWS_MAX) {
                let rows = crate::common::try_query(&connection, sql);
                let mut rows = rows.unwrap_or_else(|e| panic!("{name}\n{sql}: [{}] {e}", e.code()));
                compare(sql, &name, &mut rows, &mut expected.clone());
            }
        }
    }
}
