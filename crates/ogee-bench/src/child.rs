//! The shell as a child process: what it answered, what it says about itself, and what the system says about its memory.
//!
//! Memory is anonymous plus shared-memory resident bytes, read from `/proc` every 10 ms beside the child's own figure; the peak
//! is the larger one.
//!
//! Not here: what is run.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How one run ended.
pub struct Outcome {
    /// Values of the first row, as text.
    pub values: Vec<String>,
    /// The statistics line of the shell, when the statement succeeded.
    pub stats: Option<Value>,
    /// What the shell said when it failed.
    pub error: Option<String>,
    /// Largest memory seen from outside, bytes.
    pub sampled_bytes: u64,
    /// Wall time of the whole process, with its start.
    pub wall: Duration,
}

impl Outcome {
    /// A number of the statistics.
    pub fn number(&self, key: &str) -> f64 {
        self.stats.as_ref().and_then(|stats| stats[key].as_f64()).unwrap_or(f64::NAN)
    }

    /// Largest memory known, bytes.
    pub fn peak_bytes(&self) -> u64 {
        let own = self.stats.as_ref().and_then(|stats| stats["peak_rss_bytes"].as_u64()).unwrap_or(0);
        own.max(self.sampled_bytes)
    }
}

/// Anonymous and shared-memory resident bytes of a process; none once it has gone.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some((field("RssAnon:")? + field("RssShmem:")?) * 1024)
}

fn drain(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // A child that dies in the middle leaves what it wrote.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs one statement and waits.
pub fn run(ogee: &Path, sql: &str, flags: &[String]) -> io::Result<Outcome> {
    let started = Instant::now();
    let mut child: Child = Command::new(ogee)
        .args(["--format", "line", "--stats", "-c", sql])
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let mut sampled_bytes = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        sampled_bytes = sampled_bytes.max(resident_bytes(child.id()).unwrap_or(0));
        thread::sleep(Duration::from_millis(10));
    };
    let wall = started.elapsed();
    let stdout = stdout.join().unwrap_or_default();
    let stderr = stderr.join().unwrap_or_default();
    let values = stdout
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(" = ").map(|(_, value)| value.to_owned()))
        .collect();
    let stats = stderr.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok().filter(Value::is_object));
    let error = (!status.success()).then(|| format!("{status}: {}", stderr.trim()));
    Ok(Outcome { values, stats, error, sampled_bytes, wall })
}
