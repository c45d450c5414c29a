//! The groupings, at every limit and thread count that is asked for: answers, time, memory against the limit, spilled bytes.
//!
//! Without known answers every run is compared with the first one of its grouping; with them (from `compare.py answers`) with
//! those. A run fails when its answer is wrong, when the shell fails, or when memory passes limit + 64 MiB.
//!
//! Not here: other systems.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::Variant;
use crate::child::{self, Outcome};
use crate::groupings;
use crate::queries::Query;

/// What a process may use beyond its limit.
const TOLERANCE_BYTES: u64 = 64 << 20;

/// What is run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The check over all groups
    Check,
    /// The grouping itself, giving out its last row; needs `--answers` for the number of groups
    Time,
}

/// Flags of `groupings`.
#[derive(Args)]
pub struct Arguments {
    /// Directory with the tables
    #[arg(long)]
    data: PathBuf,
    /// The shell to run
    #[arg(long, default_value = "target/release/ogee")]
    ogee: PathBuf,
    /// Memory limits; `none` is the default of the shell
    #[arg(long, value_delimiter = ',', default_value = "none,4GB,1GB,512MB,256MB")]
    limits: Vec<String>,
    /// Thread counts
    #[arg(long, value_delimiter = ',', default_value = "1,2,8")]
    threads: Vec<usize>,
    /// Groupings, 1 to 13
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5,6,7,8,9,10,11,12,13")]
    numbers: Vec<usize>,
    /// Thin, wide, or both
    #[arg(long, value_delimiter = ',', value_enum, default_value = "thin,wide14,wide16")]
    variants: Vec<Variant>,
    /// Check or time
    #[arg(long, value_enum, default_value = "check")]
    mode: Mode,
    /// Runs of each, of which the fastest counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Known answers: a JSON object from grouping to the values of its check
    #[arg(long)]
    answers: Option<PathBuf>,
    /// Where to write one JSON object per run
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where spilled state goes (default: a directory of its own, which must be empty again after every run)
    #[arg(long)]
    temp_directory: Option<PathBuf>,
}

/// Bytes of a limit such as 512MB.
fn limit_bytes(limit: &str) -> Option<u64> {
    let split = limit.find(|c: char| !c.is_ascii_digit())?;
    let factor = match &limit[split..] {
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    Some(limit[..split].parse::<u64>().ok()? * factor)
}

struct Experiment<'a> {
    arguments: &'a Arguments,
    answers: HashMap<String, Vec<String>>,
    temporary: PathBuf,
    out: Option<File>,
    failures: usize,
    /// Worst memory beyond the limit, bytes.
    excess_max: i64,
}

impl Experiment<'_> {
    /// What is wrong with a run, if something is.
    fn judge(&mut self, grouping: &Query, limit: Option<u64>, outcome: &Outcome) -> Option<String> {
        if let Some(error) = &outcome.error {
            return Some(error.clone());
        }
        if self.arguments.mode == Mode::Check {
            let known = self.answers.entry(grouping.name.clone()).or_insert_with(|| outcome.values.clone());
            if *known != outcome.values {
                let pairs = known.iter().zip(&outcome.values).filter(|(want, have)| want != have);
                let different: Vec<_> = pairs.map(|(want, have)| format!("{have} instead of {want}")).collect();
                return Some(format!("wrong answer: {}", different.join(", ")));
            }
        }
        if let Some(limit) = limit {
            let peak = outcome.peak_bytes();
            self.excess_max = self.excess_max.max(peak as i64 - limit as i64);
            if peak > limit + TOLERANCE_BYTES {
                return Some(format!("{} MB used", peak / 1_000_000));
            }
        }
        let left = std::fs::read_dir(&self.temporary).map(Iterator::count).unwrap_or(0);
        (left > 0).then(|| format!("{left} entries left in the temporary directory"))
    }

    fn run(&mut self, grouping: &Query, limit: &str, threads: usize) -> io::Result<()> {
        let mut flags = vec!["--threads".to_owned(), threads.to_string()];
        flags.extend(["--temp-directory".to_owned(), self.temporary.display().to_string()]);
        if limit != "none" {
            flags.extend(["--memory-limit".to_owned(), limit.to_owned()]);
        }
        let sql = match self.arguments.mode {
            Mode::Check => grouping.check.clone(),
            Mode::Time => {
                let groups = self.answers.get(&grouping.name).and_then(|values| values.first()?.parse::<u64>().ok());
                let Some(groups) = groups else {
                    return Err(io::Error::other(format!("no answer known for {}", grouping.name)));
                };
                format!("{} OFFSET {}", grouping.sql, groups - 1)
            }
        };
        let bytes = limit_bytes(limit);
        let mut seconds = f64::INFINITY;
        let mut worst: Option<String> = None;
        for _ in 0..self.arguments.runs.max(1) {
            let outcome = child::run(&self.arguments.ogee, &sql, &flags)?;
            let wrong = self.judge(grouping, bytes, &outcome);
            seconds = seconds.min(outcome.number("elapsed_s"));
            println!(
                "{:<11} {:>6} {:>2} threads {:>8.2} s {:>7.0} MB peak {:>8.0} MB spilled  {}",
                grouping.name,
                limit,
                threads,
                outcome.number("elapsed_s"),
                outcome.peak_bytes() as f64 / 1e6,
                outcome.number("spilled_bytes") / 1e6,
                wrong.as_deref().unwrap_or("ok"),
            );
            if let Some(out) = &mut self.out {
                let line = json!({
                    "grouping": grouping.name, "limit": limit, "threads": threads,
                    "mode": if self.arguments.mode == Mode::Check { "check" } else { "time" },
                    "stats": outcome.stats, "sampled_rss_bytes": outcome.sampled_bytes,
                    "wall_s": outcome.wall.as_secs_f64(), "error": wrong,
                });
                writeln!(out, "{line}")?;
            }
            worst = worst.or(wrong);
        }
        self.failures += usize::from(worst.is_some());
        Ok(())
    }
}

/// Runs everything; false when something failed.
pub fn run(arguments: &Arguments) -> io::Result<bool> {
    if let Some(number) = arguments.numbers.iter().find(|number| !(1..=13).contains(*number)) {
        return Err(io::Error::other(format!("no grouping {number}; there are 1 to 13")));
    }
    if let Some(limit) = arguments.limits.iter().find(|limit| *limit != "none" && limit_bytes(limit).is_none()) {
        return Err(io::Error::other(format!("{limit:?} is no limit; write none, 512MB, 4GB, 64MiB or 1GiB")));
    }
    let answers = match &arguments.answers {
        None => HashMap::new(),
        Some(path) => {
            let text = std::fs::read_to_string(path)?;
            let values: HashMap<String, Vec<Value>> = serde_json::from_str(&text)?;
            let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            values.into_iter().map(|(name, values)| (name, values.into_iter().map(text).collect())).collect()
        }
    };
    let own = tempfile::tempdir()?;
    let mut experiment = Experiment {
        arguments,
        answers,
        temporary: arguments.temp_directory.clone().unwrap_or_else(|| own.path().to_owned()),
        out: arguments.out.as_ref().map(File::create).transpose()?,
        failures: 0,
        excess_max: i64::MIN,
    };
    let source = groupings::source(&arguments.data);
    let mut count = 0;
    for variant in &arguments.variants {
        for number in &arguments.numbers {
            let grouping = groupings::grouping(*number, *variant, &source);
            for limit in &arguments.limits {
                for threads in &arguments.threads {
                    experiment.run(&grouping, limit, *threads)?;
                    count += 1;
                }
            }
        }
    }
    println!("{count} groupings, {} failed", experiment.failures);
    if experiment.excess_max > i64::MIN {
        println!("memory beyond the limit at worst: {:.1} MiB", experiment.excess_max as f64 / f64::from(1 << 20));
    }
    Ok(experiment.failures == 0)
}
