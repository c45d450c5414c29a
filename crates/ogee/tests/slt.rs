//! The SQL suite of `tests/sql`, run under hostile profiles.
//!
//! Every file runs in a fresh handle under every profile: the answer may not depend on the limit, the threads, the chunk size
//! or the strategy. A file that needs a setting of its own sets it. Expected answers are DuckDB's wherever a record is not marked
//! `onlyif ogee`; `tests/sql/duckdb_answers.py` checks that.
//!
//! `EXPLAIN` gives one line per plan node, cut to its name, so that the shape of a plan can be expected without its details.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type, IntervalUnit};
use datafusion::arrow::datatypes::{IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use ogee::{AggregateStrategy, Config, Connection, Database, JoinStrategy, KeyFilters};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

/// As C's `%.10g`, but plain digits for exponents from -5 up to 15: enough to tell a wrong sum, too little to tell the order
/// of summation.
fn format_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.9e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    let strip = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if !(-5..15).contains(&exponent) {
        return format!("{}e{exponent}", strip(mantissa));
    }
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest.replace('.', "")),
        None => ("", mantissa.replace('.', "")),
    };
    let plain = if exponent < 0 {
        format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize))
    } else {
        let whole = exponent as usize + 1;
        let digits = format!("{digits:0<whole$}");
        format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
    };
    strip(&plain)
}

fn format_value(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    match array.data_type() {
        DataType::Null => "NULL".to_owned(),
        DataType::Float16 => format_float(f64::from(array.as_primitive::<Float16Type>().value(row))),
        DataType::Float32 => format_float(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => format_float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Dictionary(_, values) => format_value(cast(array, values).unwrap().as_ref(), row),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let text = cast(array, &DataType::Utf8View).unwrap();
            let text = text.as_string_view().value(row);
            if text.is_empty() { "(empty)".to_owned() } else { text.replace('\n', "\\n").replace('\t', "\\t") }
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let bytes = cast(array, &DataType::BinaryView).unwrap();
            let hex: String = bytes.as_binary_view().value(row).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\\x{hex}")
        }
        DataType::Interval(unit) => {
            let (months, days, nanos) = match unit {
                IntervalUnit::YearMonth => (array.as_primitive::<IntervalYearMonthType>().value(row), 0, 0),
                IntervalUnit::DayTime => {
                    let value = array.as_primitive::<IntervalDayTimeType>().value(row);
                    (0, value.days, i64::from(value.milliseconds) * 1_000_000)
                }
                IntervalUnit::MonthDayNano => {
                    let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                    (value.months, value.days, value.nanoseconds)
                }
            };
            format!("{months} mons {days} days {nanos} ns")
        }
        DataType::List(_) => format_list(array.as_list::<i32>().value(row).as_ref()),
        DataType::LargeList(_) => format_list(array.as_list::<i64>().value(row).as_ref()),
        DataType::FixedSizeList(_, _) => format_list(array.as_fixed_size_list().value(row).as_ref()),
        DataType::Struct(fields) => {
            let columns = array.as_struct();
            let parts: Vec<String> = fields
                .iter()
                .zip(columns.columns())
                .map(|(field, column)| format!("{}: {}", field.name(), format_value(column.as_ref(), row)))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
        DataType::Timestamp(_, zone) => {
            let plain = "%Y-%m-%d %H:%M:%S%.f";
            let options =
                FormatOptions::default().with_timestamp_format(Some(plain)).with_timestamp_tz_format(Some(plain));
            let text = ArrayFormatter::try_new(array, &options).unwrap().value(row).to_string();
            if zone.is_some() { format!("{text}+00") } else { text }
        }
        _ => ArrayFormatter::try_new(array, &FormatOptions::default()).unwrap().value(row).to_string(),
    }
}

fn format_list(items: &dyn Array) -> String {
    let items: Vec<String> = (0..items.len()).map(|item| format_value(items, item)).collect();
    format!("[{}]", items.join(", "))
}

fn rows_of(batch: &RecordBatch) -> impl Iterator<Item = Vec<String>> + '_ {
    (0..batch.num_rows()).map(|row| batch.columns().iter().map(|column| format_value(column.as_ref(), row)).collect())
}

/// The nodes of physical plans, one a row, indented by dots, without their details.
fn plan_shape(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut nodes = Vec::new();
    for row in batches.iter().flat_map(rows_of).filter(|row| row[0] == "physical_plan" || row[0].starts_with("with ")) {
        for line in row[1].split("\\n") {
            let depth = (line.len() - line.trim_start().len()) / 2;
            let name: String = line.trim_start().chars().take_while(|c| c.is_alphanumeric()).collect();
            if !name.is_empty() {
                nodes.push(vec![format!("{}{name}", "..".repeat(depth))]);
            }
        }
    }
    nodes
}

struct Suite {
    connection: Connection,
}

impl Suite {
    fn statement(&self, sql: &str) -> Result<DBOutput<DefaultColumnType>, ogee::Error> {
        let mut result = self.connection.execute(sql)?;
        let schema = result.schema();
        let batches = (&mut result).collect::<Result<Vec<_>, _>>()?;
        if schema.fields().is_empty() {
            return Ok(DBOutput::StatementComplete(result.affected_rows().unwrap_or(0)));
        }
        let rows = if sql.trim_start().to_uppercase().starts_with("EXPLAIN") {
            plan_shape(&batches)
        } else {
            batches.iter().flat_map(rows_of).collect()
        };
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; schema.fields().len()], rows })
    }
}

impl DB for Suite {
    type Error = ogee::Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, ogee::Error> {
        // The runner polls this within an executor of its own, in which another one may not block.
        std::thread::scope(|scope| scope.spawn(|| self.statement(sql)).join().unwrap())
    }

    fn engine_name(&self) -> &str {
        "ogee"
    }
}

/// Profiles that force a strategy of aggregates and joins.
const STRATEGIES: [&str; 6] =
    ["combine_early", "hash_collisions", "join_hybrid", "join_partitioned", "partition_only", "pre_aggregate"];

/// How the names of files begin whose records group, join, sort or compare rows: those that a strategy has anything to do with. `OGEE_SLT` names some of all files, `OGEE_SLT=` all.
const OF_ROWS: [&str; 43] = [
    "aggregate_",
    "asof",
    "coalesce_and",
    "computed_keys",
    "correlated",
    "dates_beside",
    "distinct",
    "filter",
    "float_types",
    "group",
    "guarded",
    "having",
    "intervals",
    "join",
    "key",
    "known_sums",
    "laterals",
    "lists_of_queries",
    "many_groups",
    "marks_of_queries",
    "mixed_types",
    "natural",
    "nested_",
    "null",
    "order_limits",
    "outer_",
    "pivots",
    "quantile_orders",
    "random_edges",
    "range_joins",
    "recursive",
    "samples",
    "set_",
    "sets",
    "sliding",
    "sort",
    "stored_order",
    "subquer",
    "topk",
    "union",
    "using",
    "wide",
    "windows",
];

/// Files of joins among [`OF_ROWS`].
const OF_JOINS: [&str; 7] = ["asof", "join", "key_filters", "laterals", "range_joins", "recursive", "subquery_edges"];

/// Files of groups and orders among [`OF_ROWS`].
const OF_GROUPS: [&str; 9] =
    ["aggregate_", "grouping_", "pivots", "quantile", "recursive", "sliding", "sort", "subquery_edges", "windows"];

/// Profiles that concern more than strategies.
const HOSTILE: [&str; 5] = ["spill_everything", "tiny_memory", "tiny_chunks", "one_thread", "eight_threads"];

/// Whether the sample that `make test` runs has this file, the `number`th of all, under the profile. Under the default it has all; of the
/// [`HOSTILE`] ones one for files [`OF_ROWS`] and for every third other; of the [`STRATEGIES`] every fourth for files that they have anything to do with.
fn is_sampled(profile: &str, number: usize, is_of_rows: bool) -> bool {
    let nth_of = |profiles: &[&str]| profiles.iter().position(|of| *of == profile);
    if let Some(nth) = nth_of(&HOSTILE) {
        let turn = nth + number;
        return turn.is_multiple_of(HOSTILE.len()) && (is_of_rows || (turn / HOSTILE.len()).is_multiple_of(3));
    }
    nth_of(&STRATEGIES).is_none_or(|nth| is_of_rows && (nth + number).is_multiple_of(4))
}

/// Runs the files under one profile and reports every failure, not only the first.
fn run_suite(profile: &str, config: impl Fn(&str) -> Config) {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut files: Vec<PathBuf> = std::fs::read_dir(suite).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "slt"));
    if let Ok(only) = std::env::var("OGEE_SLT") {
        files.retain(|path| path.file_name().unwrap().to_string_lossy().contains(&only));
    }
    files.sort();
    let is_whole = std::env::var_os("OGEE_SLT").is_some();
    let begins = |path: &Path, names: &[&str]| {
        let name = path.file_name().unwrap().to_string_lossy();
        names.iter().any(|begin| name.starts_with(begin))
    };
    if !is_whole {
        // Of strategies of the one those files are left out that take long and are of the other.
        let others: &[&str] = match profile {
            "combine_early" | "partition_only" | "pre_aggregate" => &OF_JOINS,
            "join_hybrid" | "join_partitioned" => &OF_GROUPS,
            _ => &[],
        };
        let mut number = 0;
        files.retain(|path| {
            number += 1;
            is_sampled(profile, number, begins(path, &OF_ROWS)) && !begins(path, others)
        });
    }
    assert!(!files.is_empty(), "no files to run");
    let mut failures = Vec::new();
    for file in &files {
        let database = Database::open_in_memory(config(&file.file_stem().unwrap().to_string_lossy())).unwrap();
        let mut runner = Runner::new(|| {
            let connection = database.connect();
            async move { Ok(Suite { connection }) }
        });
        if !is_whole {
            // `skipif` names a profile under which a record takes minutes, or `sampled` where it does under each.
            runner.add_label(profile);
            runner.add_label("sampled");
        }
        for record in sqllogictest::parse_file::<DefaultColumnType>(file).unwrap() {
            if let Err(error) = runner.run(record) {
                failures.push(error.display(false).to_string());
            }
        }
    }
    assert!(failures.is_empty(), "{profile}: {} records fail\n{}", failures.len(), failures.join("\n"));
}

/// Two threads, whatever the machine has: what a profile does not change is the same everywhere. The profiles run side by side in
/// one process, so what it holds outside a pool is nothing that one of them could be held to.
fn base() -> Config {
    Config::default().threads(2).counts_process(false)
}

#[test]
fn default_profile() {
    run_suite("default", |_| base());
}

#[test]
fn spill_everything() {
    run_suite("spill_everything", |_| base().spill_always(true));
}

#[test]
fn tiny_memory() {
    run_suite("tiny_memory", |_| base().memory_limit(48 << 20));
}

#[test]
fn tiny_chunks() {
    run_suite("tiny_chunks", |_| base().chunk_capacity(3).key_filters(KeyFilters::Bits));
}

#[test]
fn one_thread() {
    run_suite("one_thread", |_| base().threads(1));
}

#[test]
fn eight_threads() {
    run_suite("eight_threads", |_| base().threads(8));
}

#[test]
fn hash_collisions() {
    // Probing is quadratic when all hashes are equal; files with many groups keep 12 bits that spread over the table of each phase.
    let large = [
        "aggregate_decimals",
        "distinct",
        "files_parquet",
        "grouping_sets_many",
        "joins",
        "keys_wide",
        "many_groups",
        "predicates",
        "recursive",
        "sets",
        "tables",
        "views_ctes",
    ];
    run_suite("hash_collisions", |file| base().hash_mask(if large.contains(&file) { 0xfff1_ffe0 } else { 0 }));
}

#[test]
fn pre_aggregate() {
    run_suite("pre_aggregate", |_| base().aggregate_strategy(AggregateStrategy::PreAggregate));
}

#[test]
fn partition_only() {
    run_suite("partition_only", |_| base().aggregate_strategy(AggregateStrategy::PartitionOnly));
}

#[test]
fn combine_early() {
    run_suite("combine_early", |_| base().aggregate_strategy(AggregateStrategy::CombineEarly));
}

#[test]
fn join_hybrid() {
    run_suite("join_hybrid", |_| base().join_strategy(JoinStrategy::Hybrid).key_filters(KeyFilters::Bloom));
}

#[test]
fn join_partitioned() {
    run_suite("join_partitioned", |_| base().spill_always(true).join_strategy(JoinStrategy::Partitioned));
}

#[test]
fn floats_are_written_as_c_does() {
    let cases = [
        (1.0, "1"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (1e14, "100000000000000"),
        (1e15, "1e15"),
        (1.0 / 3.0, "0.3333333333"),
        (2e-5, "0.00002"),
        (2e-7, "2e-7"),
        (123456789.125, "123456789.1"),
        (-0.0, "0"),
    ];
    for (value, text) in cases {
        assert_eq!(format_float(value), text);
    }
}
