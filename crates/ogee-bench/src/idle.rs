//! What stays after a query: memory must fall back to within 64 MiB, and an idle handle must use no CPU.
//!
//! One shell is kept open and given statements through its standard input; each is over when its statistics arrive.
//!
//! Not here: the peak while a query runs (`experiment`).

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;

use crate::Variant;
use crate::child::resident_bytes;
use crate::groupings;

/// What may remain of a query.
const REMAINDER_BYTES: u64 = 64 << 20;
/// How long nothing is done.
const IDLE: Duration = Duration::from_secs(3);
/// Clock ticks of CPU that may pass meanwhile: a tick is 10 ms, and reading the clocks takes one.
const IDLE_TICKS_MAX: u64 = 1;

/// Flags of `idle`.
#[derive(Args)]
pub struct Arguments {
    /// Directory with the tables
    #[arg(long)]
    data: PathBuf,
    /// The shell to run
    #[arg(long, default_value = "target/release/ogee")]
    ogee: PathBuf,
    /// Memory limit
    #[arg(long)]
    memory_limit: Option<String>,
}

struct Shell {
    stdin: ChildStdin,
    stderr: BufReader<ChildStderr>,
}

impl Shell {
    fn statement(&mut self, sql: &str) -> io::Result<()> {
        writeln!(self.stdin, "{sql};")?;
        self.stdin.flush()?;
        let mut line = String::new();
        if self.stderr.read_line(&mut line)? == 0 || !line.starts_with('{') {
            return Err(io::Error::other(format!("the statement failed: {line}")));
        }
        Ok(())
    }
}

/// CPU time of a process in clock ticks, user and system.
fn cpu_ticks(pid: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the name in parentheses, which may hold blanks; user time is the 14th, system time the 15th.
    let after = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(fields.iter().sum())
}

/// Measures; false when something remained.
pub fn run(arguments: &Arguments) -> io::Result<bool> {
    let mut command = Command::new(&arguments.ogee);
    command.args(["--stats", "--format", "csv", "-o", "/dev/null"]);
    if let Some(limit) = &arguments.memory_limit {
        command.args(["--memory-limit", limit]);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let pid = child.id();
    let (Some(stdin), Some(stderr)) = (child.stdin.take(), child.stderr.take()) else {
        return Err(io::Error::other("the shell has no pipes"));
    };
    let mut shell = Shell { stdin, stderr: BufReader::new(stderr) };
    let source = groupings::source(&arguments.data);
    let resident = || resident_bytes(pid).ok_or_else(|| io::Error::other("the shell has gone"));
    shell.statement(&format!("SELECT count(*) FROM {source}"))?;
    thread::sleep(Duration::from_millis(200));
    let before = resident()?;
    let mut good = true;
    for (number, variant) in [(1, Variant::Thin), (13, Variant::Thin), (4, Variant::Wide16), (13, Variant::Wide16)] {
        let grouping = groupings::grouping(number, variant, &source);
        shell.statement(&grouping.check)?;
        thread::sleep(Duration::from_millis(200));
        let after = resident()?;
        let fine = after <= before + REMAINDER_BYTES;
        good &= fine;
        println!(
            "{:<11} resident before {:.1} MiB, after {:.1} MiB: {}",
            grouping.name,
            before as f64 / f64::from(1 << 20),
            after as f64 / f64::from(1 << 20),
            if fine { "ok" } else { "did not fall back" },
        );
    }
    let ticks = cpu_ticks(pid)?;
    thread::sleep(IDLE);
    let spent = cpu_ticks(pid)? - ticks;
    let quiet = spent <= IDLE_TICKS_MAX;
    println!("idle for {} s: {spent} ticks of CPU: {}", IDLE.as_secs(), if quiet { "ok" } else { "not idle" });
    drop(shell);
    child.wait()?;
    Ok(good && quiet)
}
