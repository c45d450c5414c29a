//! Files that lie: Parquet of all types, encodings, codecs and page versions, mutated, and read by the engine.
//!
//! ```text
//! seed ──> what file (corpus) ──> bytes ──> mutations, headers first (mutate) ──> the engine, at a small limit (read) ──> rows, or an error of the file
//! ```
//!
//! A child process reads, so that a crash or a hang ends it and not the run; before each file it writes down the file's seed, which makes the file again. Files that are not
//! mutated have the rows that Arrow's reader finds in them, and so have those that both can read.
//!
//! Not here: CSV, JSON and Arrow files, and SQL over files.

mod corpus;
mod mutate;
mod read;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use clap::Args;

use self::corpus::{FEATURES, Form};
use crate::random::Random;

/// What kept files from being made or read.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Flags of `fuzz`.
#[derive(Args)]
pub struct Arguments {
    /// Seed of the first file
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Files to read; the seeds follow one another
    #[arg(long, default_value_t = 20_000)]
    files: u64,
    /// Ends earlier, after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Where files are kept that something is wrong with
    #[arg(long, default_value = "fuzz-found")]
    keep: PathBuf,
    /// A directory of files that were kept; the others are made of them, at times
    #[arg(long)]
    kept: Option<PathBuf>,
    /// Add files there for which the engine says what it says of none of them
    #[arg(long, requires = "kept")]
    collect: bool,
    /// Write the file of `seed`, and read it in this process
    #[arg(long)]
    only: bool,
    /// Read in this process, and note there which file
    #[arg(long, hide = true)]
    child: Option<PathBuf>,
}

/// What is noted where Arrow's reader is at work.
const JUDGE: &str = "judge";

/// A file that takes longer has the engine hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file that takes Arrow's reader longer has no judge.
const PATIENCE_WITH_JUDGE: Duration = Duration::from_secs(2);

/// Of so many files one is left as it was written.
const WHOLE: u64 = 50;
/// Of so many files one is made of one that was kept.
const AGAIN: u64 = 4;
/// Bytes of all files that are kept, at most.
const KEPT_BYTES: u64 = 2 << 20;

/// A file, and how it was made.
struct Made {
    form: String,
    /// What is counted of it.
    features: Vec<&'static str>,
    bytes: Vec<u8>,
    /// Nothing was done to it after it was written.
    is_whole: bool,
}

/// The file of `seed`, with `kept` that of which there may be more.
fn file(seed: u64, kept: &[Vec<u8>]) -> Result<Made, Failure> {
    let mut random = Random::new(seed);
    if !kept.is_empty() && random.below(AGAIN) == 0 {
        let number = random.below(kept.len() as u64) as usize;
        let mut bytes = kept[number].clone();
        if random.below(4) > 0 {
            bytes = mutate::mutated(bytes, &mut random);
        }
        return Ok(Made { form: format!("kept file {number}"), features: vec!["kept"], bytes, is_whole: false });
    }
    let form = Form::draw(&mut random);
    let bytes = form.write(&mut random)?;
    let is_whole = random.below(WHOLE) == 0;
    let bytes = if is_whole { bytes } else { mutate::mutated(bytes, &mut random) };
    Ok(Made { form: format!("{form:?}"), features: form.features().collect(), bytes, is_whole })
}

/// The files that were kept in `directory`, by name.
fn kept_files(directory: Option<&Path>) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(directory) = directory.filter(|directory| directory.exists()) else { return Ok(Vec::new()) };
    let mut paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Failure>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    paths.sort();
    paths.iter().map(|path| Ok(fs::read(path)?)).collect()
}

/// Keeps `bytes` in `directory`, unless there is a file for which the engine says the same, but for numbers, or there are many.
fn collect(directory: &Path, why: &str, bytes: &[u8]) -> Result<(), Failure> {
    let mut words: Vec<&str> = why.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect();
    words.truncate(40);
    let hash = words
        .iter()
        .flat_map(|word| word.bytes().chain([b' ']))
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    fs::create_dir_all(directory)?;
    let path = directory.join(format!("{hash:016x}.parquet"));
    if path.exists() {
        return Ok(());
    }
    let mut taken = bytes.len() as u64;
    for entry in fs::read_dir(directory)? {
        taken += entry?.metadata()?.len();
    }
    if taken <= KEPT_BYTES {
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// Reads files; whether nothing is wrong with any.
pub fn run(arguments: &Arguments) -> Result<bool, Failure> {
    match &arguments.child {
        Some(progress) => read_files(arguments, progress),
        None if arguments.only => {
            let made = file(arguments.seed, &kept_files(arguments.kept.as_deref())?)?;
            fs::create_dir_all(&arguments.keep)?;
            let path = arguments.keep.join(format!("{}.parquet", arguments.seed));
            fs::write(&path, made.bytes)?;
            println!("{}: {}, {}", path.display(), made.form, if made.is_whole { "whole" } else { "mutated" });
            println!("{:?}", read::read(&path, &made.form, made.is_whole, || Ok(()))?);
            Ok(true)
        }
        None => watch(arguments),
    }
}

/// Runs children until all files are read.
fn watch(arguments: &Arguments) -> Result<bool, Failure> {
    let directory = tempfile::tempdir()?;
    let progress = directory.path().join("progress");
    let started = Instant::now();
    let (mut next, end) = (arguments.seed, arguments.seed + arguments.files);
    let (mut totals, mut wrong) = (BTreeMap::new(), 0);
    while next < end && arguments.seconds.is_none_or(|seconds| started.elapsed().as_secs() < seconds) {
        fs::write(&progress, "")?;
        let left = arguments.seconds.map(|seconds| seconds.saturating_sub(started.elapsed().as_secs()).max(1));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("fuzz").arg("--seed").arg(next.to_string()).arg("--files").arg((end - next).to_string());
        command.arg("--child").arg(&progress).arg("--keep").arg(&arguments.keep);
        if let Some(directory) = &arguments.kept {
            command.arg("--kept").arg(directory);
        }
        if arguments.collect {
            command.arg("--collect");
        }
        if let Some(left) = left {
            command.arg("--seconds").arg(left.to_string());
        }
        let ended = wait(command.spawn()?, &progress)?;
        let (seed, counts) = noted(&progress)?;
        for (feature, count) in counts {
            *totals.entry(feature).or_insert(0) += count;
        }
        if ended.is_none() {
            break;
        }
        let what = ended.unwrap_or_default();
        *totals.entry("files".to_owned()).or_insert(0) += 1;
        next = seed + 1;
        if fs::read_to_string(&progress)?.lines().any(|line| line == JUDGE) {
            println!("seed {seed}: {what}, in Arrow's reader");
            continue;
        }
        wrong += 1;
        println!("seed {seed}: {what}");
        keep(arguments, seed, &what)?;
    }
    let count = |name: &str| totals.get(name).copied().unwrap_or(0);
    for feature in FEATURES {
        println!("{feature:24} {:8}", count(feature));
    }
    let found = wrong + count("wrong");
    println!(
        "{} files from seed {} on in {:.0} s: {} read, {} refused, {} of these since the library gave up; {found} wrong",
        count("files"),
        arguments.seed,
        started.elapsed().as_secs_f64(),
        count("read"),
        count("refused"),
        count("gave up"),
    );
    Ok(found == 0)
}

/// Keeps the file of `seed` and what is wrong with it.
fn keep(arguments: &Arguments, seed: u64, what: &str) -> Result<(), Failure> {
    let directory = &arguments.keep;
    fs::create_dir_all(directory)?;
    let made = file(seed, &kept_files(arguments.kept.as_deref())?)?;
    fs::write(directory.join(format!("{seed}.parquet")), made.bytes)?;
    fs::write(directory.join(format!("{seed}.txt")), format!("{what}\n{}\n", made.form))?;
    Ok(())
}

/// The seed of the file at hand, and what was counted so far.
fn noted(progress: &Path) -> Result<(u64, BTreeMap<String, u64>), Failure> {
    let text = fs::read_to_string(progress)?;
    let mut lines = text.lines();
    let seed = lines.next().unwrap_or_default().parse()?;
    let count =
        |line: &str| line.rsplit_once(' ').and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
    Ok((seed, lines.filter_map(count).collect()))
}

/// Waits for `child`; what it died of, if it did not come to its end.
fn wait(mut child: Child, progress: &Path) -> Result<Option<String>, Failure> {
    let (mut seen, mut since) = (String::new(), Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((!status.success()).then(|| format!("the process ended: {status}")));
        }
        thread::sleep(Duration::from_millis(20));
        let now = fs::read_to_string(progress).unwrap_or_default();
        if now != seen {
            (seen, since) = (now, Instant::now());
            continue;
        }
        let patience = if seen.lines().any(|line| line == JUDGE) { PATIENCE_WITH_JUDGE } else { PATIENCE };
        if since.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            return Ok(Some(format!("nothing happened for {} s", patience.as_secs())));
        }
    }
}

/// The child: reads files one after the other.
fn read_files(arguments: &Arguments, progress: &Path) -> Result<bool, Failure> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("file.parquet");
    read::note_panics();
    let kept = kept_files(arguments.kept.as_deref())?;
    let started = Instant::now();
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in arguments.seed..arguments.seed + arguments.files {
        if arguments.seconds.is_some_and(|seconds| started.elapsed().as_secs() >= seconds) {
            break;
        }
        let lines: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        fs::write(progress, format!("{seed}\n{}\n", lines.join("\n")))?;
        let made = file(seed, &kept)?;
        fs::write(&path, &made.bytes)?;
        let judges = || Ok(fs::write(progress, format!("{seed}\n{}\n{JUDGE}\n", lines.join("\n")))?);
        let outcome = read::read(&path, &made.form, made.is_whole, judges);
        *counts.entry("files").or_default() += 1;
        for feature in made.features {
            *counts.entry(feature).or_default() += 1;
        }
        match outcome {
            Ok(read::Outcome::Rows) => *counts.entry("read").or_default() += 1,
            Ok(read::Outcome::Refused { why, gave_up }) => {
                if let Some(directory) = arguments.kept.as_ref().filter(|_| arguments.collect) {
                    collect(directory, &why, &made.bytes)?;
                }
                *counts.entry("refused").or_default() += 1;
                *counts.entry("gave up").or_default() += u64::from(gave_up);
            }
            Ok(read::Outcome::Wrong(what)) => {
                *counts.entry("wrong").or_default() += 1;
                println!("seed {seed}: {what}");
                keep(arguments, seed, &what)?;
            }
            Err(error) => {
                *counts.entry("wrong").or_default() += 1;
                println!("seed {seed}: {error}");
                keep(arguments, seed, &error.to_string())?;
            }
        }
    }
    let lines: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    fs::write(progress, format!("0\n{}\n", lines.join("\n")))?;
    Ok(true)
}
