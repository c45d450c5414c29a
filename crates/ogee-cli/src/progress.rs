//! What a statement that takes longer than a second has done so far, below the prompt: time, rows, memory and spilled bytes.
//!
//! A thread of its own looks at the counters of the engine. The line is gone before anything else is written.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ogee::{Progress, ProgressHandle};
use parking_lot::{Condvar, Mutex};

use crate::output::one_line;
use crate::{sizes, terminal};

/// A statement that is over before this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks: often enough to seem alive.
const EVERY: Duration = Duration::from_millis(100);

/// Characters of the bar, which shows how much of the memory limit is held.
const BAR: usize = 20;

/// What turns before the line.
const TURNS: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Columns that stay free: for what turns before the line, and for the `^C` that a terminal writes behind it.
const RESERVED: usize = 6;

#[derive(Default)]
struct Shared {
    done: Mutex<bool>,
    changed: Condvar,
}

impl Shared {
    /// Waits for `patience`, or the end; tells whether that came.
    fn is_done_after(&self, patience: Duration) -> bool {
        let mut done = self.done.lock();
        let until = Instant::now() + patience;
        while !*done && !self.changed.wait_until(&mut done, until).timed_out() {}
        *done
    }
}

/// A line that is shown until this is dropped.
pub struct ProgressLine {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Watches the statements of `handle`, of which one is about to start.
    pub fn start(handle: ProgressHandle) -> Self {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let spilled_before = handle.now().spilled_bytes;
        let started = Instant::now();
        let show = move || {
            if watched.is_done_after(PATIENCE) {
                return;
            }
            for turn in TURNS.iter().cycle() {
                let now = handle.now();
                let line = line(started.elapsed(), &now, now.spilled_bytes - spilled_before);
                let room = terminal::size().map_or(line.len(), |(_, columns)| columns.saturating_sub(RESERVED));
                draw(&format!("{turn} {}", one_line(&line, room.max(1))));
                if watched.is_done_after(EVERY) {
                    break;
                }
            }
            draw("");
        };
        // Without the thread there is no line.
        let thread = thread::Builder::new().name("ogee-progress".to_owned()).spawn(show).ok();
        Self { shared, thread }
    }
}

impl Drop for ProgressLine {
    /// Returns when the line is gone.
    fn drop(&mut self) {
        *self.shared.done.lock() = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It can only have ended.
            let _ = thread.join();
        }
    }
}

/// Writes `text` in the place of the line of the cursor.
fn draw(text: &str) {
    let mut terminal = io::stderr().lock();
    // Who cannot be shown progress can do without.
    let _ = write!(terminal, "\r{text}\x1b[K").and_then(|()| terminal.flush());
}

/// The line, beginning with what matters most: the terminal may cut its end.
fn line(elapsed: Duration, now: &Progress, spilled: u64) -> String {
    let part = now.pool_bytes as f64 / now.memory_limit_bytes.max(1) as f64;
    let full = ((part * BAR as f64).round() as usize).min(BAR);
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR - full));
    format!(
        "{:.1} s  {} rows  memory {bar} {} of {}  {} spilled",
        elapsed.as_secs_f64(),
        grouped(now.rows_scanned),
        sizes::shown(now.pool_bytes as u64),
        sizes::shown(now.memory_limit_bytes as u64),
        sizes::shown(spilled),
    )
}

/// `number` with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_was_done() {
        let now =
            Progress { rows_scanned: 1_234_567, pool_bytes: 64 << 20, memory_limit_bytes: 256 << 20, spilled_bytes: 0 };
        assert_eq!(
            line(Duration::from_millis(1250), &now, 3 << 20),
            "1.2 s  1,234,567 rows  memory █████░░░░░░░░░░░░░░░ 64.0 MiB of 256.0 MiB  3.0 MiB spilled"
        );
        assert_eq!(grouped(12), "12");
    }
}
