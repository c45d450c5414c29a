//! The queries of all suites, for those who run them.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::{blocking, groupings, h2o, job, ssb, sums, tpcds, tpch};

/// A query over files and its check: an aggregate over all of its rows, the first column their number.
pub struct Query {
    /// Short name, such as `g13-wide16`.
    pub name: String,
    /// The query itself.
    pub sql: String,
    /// The check over it.
    pub check: String,
}

/// The standards' queries by suite, each with its name. They refer to tables by name.
pub mod texts {
    include!(concat!(env!("OUT_DIR"), "/queries.rs"));
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
    /// Joins, sorts, windows and distinct values, to be run with little memory
    Blocking,
    /// TPC-H, 22 queries
    Tpch,
    /// TPC-DS, 99 queries
    Tpcds,
    /// Star Schema Benchmark, 13 queries
    Ssb,
    /// Join Order Benchmark, 113 queries
    Job,
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

/// Tables and queries of a standard.
type Standard = (&'static [&'static str], &'static [(&'static str, &'static str)]);

fn standard(suite: Suite) -> Option<Standard> {
    match suite {
        Suite::Groupings | Suite::H2o | Suite::Sums | Suite::Blocking => None,
        Suite::Tpch => Some((&tpch::TABLES, texts::TPCH)),
        Suite::Tpcds => Some((&tpcds::TABLES, texts::TPCDS)),
        Suite::Ssb => Some((&ssb::TABLES, texts::SSB)),
        Suite::Job => Some((&job::TABLES, texts::JOB)),
    }
}

fn over_files(suite: Suite, data: &Path) -> Vec<Query> {
    match suite {
        Suite::Groupings => groupings::all(data),
        Suite::H2o => h2o::queries(data),
        Suite::Sums => sums::queries(data),
        Suite::Blocking => blocking::queries(data),
        Suite::Tpch | Suite::Tpcds | Suite::Ssb | Suite::Job => Vec::new(),
    }
}

/// Prints them, one JSON object a line: queries over files with their checks, those over tables with the directory of each table.
pub fn print(Arguments { data, suite }: &Arguments) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for Query { name, sql, check } in over_files(*suite, data) {
        writeln!(out, "{}", json!({ "name": name, "sql": sql, "check": check }))?;
    }
    let Some((tables, texts)) = standard(*suite) else { return Ok(()) };
    let directories: serde_json::Map<_, _> =
        tables.iter().map(|table| ((*table).to_owned(), json!(data.join(table)))).collect();
    for (name, text) in texts {
        let sql = text.trim().trim_end_matches(';');
        writeln!(out, "{}", json!({ "name": name, "sql": sql, "tables": directories }))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_of_the_standards_is_there_in_order() {
        let names = |texts: &[(&'static str, &str)]| texts.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(names(texts::TPCH), (1..=22).map(|number| format!("q{number:02}")).collect::<Vec<_>>());
        assert_eq!(names(texts::TPCDS), (1..=99).map(|number| format!("q{number:02}")).collect::<Vec<_>>());
        assert_eq!(names(texts::SSB)[..4], ["q1.1", "q1.2", "q1.3", "q2.1"]);
        assert_eq!(texts::SSB.len(), 13);
        assert_eq!(names(texts::JOB)[..5], ["1a", "1b", "1c", "1d", "2a"]);
        assert_eq!(texts::JOB.len(), 113);
    }

    #[test]
    fn a_text_is_one_statement() {
        for (name, text) in [texts::TPCH, texts::TPCDS, texts::SSB, texts::JOB].concat() {
            let sql = text.trim().trim_end_matches(';');
            // None of them has a semicolon in a string.
            assert!(!sql.contains(';') && !sql.is_empty(), "{name}");
            assert_eq!(sql.matches('(').count(), sql.matches(')').count(), "{name}");
        }
    }
}
