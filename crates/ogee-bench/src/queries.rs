//! The queries of all suites, for those who run them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::{groupings, h2o, sums};

/// A query and its check: an aggregate over all of its rows, the first column their number.
pub struct Query {
    /// Short name, such as `g13-wide16`.
    pub name: String,
    /// The query itself.
    pub sql: String,
    /// The check over it.
    pub check: String,
}

/// Benchmarks that have queries here.
#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// The 13 groupings of paper B
    Groupings,
    /// The group-by benchmark of H2O.ai
    H2o,
    /// Sums by key
    Sums,
}

/// Flags of `queries`.
#[derive(Args)]
pub struct Arguments {
    /// Directory with the tables
    #[arg(long)]
    data: PathBuf,
    /// Which queries
    #[arg(long, value_enum, default_value = "groupings")]
    suite: Suite,
}

fn all(suite: Suite, data: &Path) -> Vec<Query> {
    match suite {
        Suite::Groupings => groupings::all(data),
        Suite::H2o => h2o::queries(data),
        Suite::Sums => sums::queries(data),
    }
}

/// Prints them, one JSON object a line.
pub fn print(arguments: &Arguments) {
    for Query { name, sql, check } in all(arguments.suite, &arguments.data) {
        println!("{}", json!({ "name": name, "sql": sql, "check": check }));
    }
}
