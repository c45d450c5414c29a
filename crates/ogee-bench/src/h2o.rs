//! The H2O.ai group-by benchmark: its table and its ten queries.
//!
//! `id1`, `id2` have K values, `id3` has rows / K, as strings; `id4`, `id5`, `id6` likewise as integers; `v1` is 1 to 5, `v2` 1 to 15, `v3` up
//! to 100 with six decimals. All are drawn independently.
//!
//! After the article "External aggregation in DuckDB", 2024, which runs it with 10^9 rows.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use clap::Args;

use crate::files::{Files, in_batches, share};
use crate::queries::Query;
use crate::random::Random;

/// Flags of `generate h2o`.
#[derive(Args)]
pub struct Arguments {
    /// Rows of the table
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// K: values of the columns that have few
    #[arg(long, default_value_t = 100)]
    values: u64,
    /// Directory to write to
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    files: Files,
}

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    let strings = ["id1", "id2", "id3"].map(|name| field(name, DataType::Utf8));
    let integers = ["id4", "id5", "id6", "v1", "v2"].map(|name| field(name, DataType::Int64));
    let fields: Vec<Field> = strings.into_iter().chain(integers).chain([field("v3", DataType::Float64)]).collect();
    Arc::new(Schema::new(fields))
}

fn batch(random: &mut Random, rows: u64, few: u64, many: u64) -> Result<RecordBatch, ArrowError> {
    let mut name = String::new();
    let mut strings = |values: u64, digits: usize| -> ArrayRef {
        let names = (0..rows).map(|_| {
            name.clear();
            // Writing to a string does not fail.
            let _ = write!(name, "id{:0digits$}", random.below(values) + 1);
            name.clone()
        });
        Arc::new(StringArray::from_iter_values(names))
    };
    let mut columns = vec![strings(few, 3), strings(few, 3), strings(many, 10)];
    for values in [few, few, many, 5, 15] {
        let numbers = (0..rows).map(|_| random.below(values) as i64 + 1);
        columns.push(Arc::new(Int64Array::from_iter_values(numbers)));
    }
    let measures = (0..rows).map(|_| (random.fraction() * 1e8).round() / 1e6);
    columns.push(Arc::new(Float64Array::from_iter_values(measures)));
    RecordBatch::try_new(schema(), columns)
}

/// Writes the table.
pub fn generate(arguments: &Arguments) -> io::Result<()> {
    let (rows, few) = (arguments.rows, arguments.values.max(1));
    let many = (rows / few).max(1);
    arguments.files.write_table(&arguments.out, "h2o", |number, count| {
        let own = share(rows, number, count);
        let mut random = Random::new(number as u64);
        (schema(), in_batches(own.end - own.start, move |next| batch(&mut random, next, few, many)))
    })
}

/// The ten queries over the table below `data`.
pub fn queries(data: &Path) -> Vec<Query> {
    let table = format!("'{}/*.parquet'", data.join("h2o").display());
    let group = |keys: &str, select: &str| format!("SELECT {keys}, {select} FROM {table} GROUP BY {keys}");
    let largest = "row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS place";
    let all = [
        (group("id1", "sum(v1) AS v1"), "sum(v1)"),
        (group("id1, id2", "sum(v1) AS v1"), "sum(v1)"),
        (group("id3", "sum(v1) AS v1, avg(v3) AS v3"), "sum(v1), sum(v3)"),
        (group("id4", "avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3"), "sum(v1), sum(v2), sum(v3)"),
        (group("id6", "sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3"), "sum(v1), sum(v2), sum(v3)"),
        (group("id4, id5", "median(v3) AS median, stddev(v3) AS deviation"), "sum(median), sum(deviation)"),
        (group("id3", "max(v1) - min(v2) AS range"), "sum(range)"),
        (format!("SELECT id6, v3 FROM (SELECT id6, v3, {largest} FROM {table}) AS placed WHERE place <= 2"), "sum(v3)"),
        (group("id2, id4", "power(corr(v1, v2), 2) AS r2"), "sum(r2)"),
        (group("id1, id2, id3, id4, id5, id6", "sum(v3) AS v3, count(*) AS rows"), "sum(v3), sum(rows)"),
    ];
    let query = |(number, (sql, sums)): (usize, (String, &str))| Query {
        name: format!("h{}", number + 1),
        check: format!("SELECT count(*) AS groups, {sums} FROM ({sql}) AS groups"),
        sql,
    };
    all.into_iter().enumerate().map(query).collect()
}
