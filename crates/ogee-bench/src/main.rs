//! Generators, the papers' experiments, side-by-side runs.
//!
//! Ogee runs as its shell in a child process, so that what is measured is what a user gets, and the memory of the process is all
//! its own. Other systems run from `python/compare.py`, which takes its queries from here.
//!
//! Not here: anything that ships to users.

mod blocking;
mod child;
mod experiment;
mod files;
mod fuzz;
mod groupings;
mod h2o;
mod idle;
mod job;
mod queries;
mod random;
mod rows;
mod ssb;
mod sums;
mod tpcds;
mod tpch;

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
    /// Read damaged Parquet files: no crash, no panic, no hang, no wrong rows, within the memory limit
    Fuzz(fuzz::Arguments),
}

#[derive(Subcommand)]
enum Generate {
    /// TPC-H
    Tpch(tpch::Arguments),
    /// TPC-DS
    Tpcds(tpcds::Arguments),
    /// The Star Schema Benchmark, derived from TPC-H
    Ssb(ssb::Arguments),
    /// The tables of the Join Order Benchmark: made, or from the files of the Internet Movie Database
    Job(job::Arguments),
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
        Cli::Generate(Generate::Tpch(arguments)) => tpch::generate(&arguments).map(|()| true),
        Cli::Generate(Generate::Tpcds(arguments)) => tpcds::generate(&arguments).map(|()| true),
        Cli::Generate(Generate::Ssb(arguments)) => ssb::generate(&arguments).map(|()| true),
        Cli::Generate(Generate::Job(arguments)) => job::generate(&arguments).map(|()| true),
        Cli::Generate(Generate::H2o(arguments)) => h2o::generate(&arguments).map(|()| true),
        Cli::Generate(Generate::Sums(arguments)) => sums::generate(&arguments).map(|()| true),
        Cli::Groupings(arguments) => experiment::run(&arguments),
        Cli::Queries(arguments) => queries::print(&arguments).map(|()| true),
        Cli::Idle(arguments) => idle::run(&arguments),
        Cli::Fuzz(arguments) => fuzz::run(&arguments).map_err(std::io::Error::other),
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
