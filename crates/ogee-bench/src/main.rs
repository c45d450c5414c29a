//! Generators, the papers' experiments, side-by-side runs.
//!
//! Ogee runs as its shell in a child process, so that what is measured is what a user gets, and the memory of the process is all
//! its own. Other systems run from `python/compare.py`, which takes its queries from here.
//!
//! Not here: anything that ships to users.

mod child;
mod data;
mod experiment;
mod groupings;
mod h2o;
mod idle;
mod queries;
mod random;
mod sums;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// Measures Ogee and checks its answers.
#[derive(Parser)]
#[command(name = "ogee-bench", version)]
enum Cli {
    /// Write a benchmark's tables as Parquet
    #[command(subcommand)]
    Generate(Generate),
    /// Run the 13 groupings of "Robust external hash aggregation in the solid state age" at several limits and thread counts
    Groupings(experiment::Arguments),
    /// Print the SQL of a suite, one JSON object a line
    Queries(queries::Arguments),
    /// See that memory falls back after a query and that an idle shell uses no CPU
    Idle(idle::Arguments),
}

#[derive(Subcommand)]
enum Generate {
    /// TPC-H
    Tpch(data::Arguments),
    /// The table of the H2O.ai group-by benchmark
    H2o(h2o::Arguments),
    /// Tables of a key and a value, with keys distributed as in "Global hash tables strike back"
    Sums(sums::Arguments),
}

/// How many columns a grouping gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// The keys
    Thin,
    /// All but l_shipinstruct and l_comment, as the paper ran it
    Wide14,
    /// All 16
    Wide16,
}

fn main() -> ExitCode {
    let result = match Cli::parse() {
        Cli::Generate(Generate::Tpch(arguments)) => data::generate(&arguments).map(|()| true),
        Cli::Generate(Generate::H2o(arguments)) => h2o::generate(&arguments).map(|()| true),
        Cli::Generate(Generate::Sums(arguments)) => sums::generate(&arguments).map(|()| true),
        Cli::Groupings(arguments) => experiment::run(&arguments),
        Cli::Queries(arguments) => {
            queries::print(&arguments);
            Ok(true)
        }
        Cli::Idle(arguments) => idle::run(&arguments),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}
