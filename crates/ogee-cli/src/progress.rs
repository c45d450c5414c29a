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
    /// Watches the statements of `handle`, of which one is about to start, and which may hold `limit` bytes.
    pub fn start(handle: ProgressHandle, limit: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let show = move || {
            if watched.is_done_after(PATIENCE) {
                return;
            }
            for turn in TURNS.iter().cycle() {
                if let Some(now) = handle.progress() {
                    let line = line(&now, limit);
                    let room = terminal::size().map_or(line.len(), |(_, columns)| columns.saturating_sub(RESERVED));
                    draw(&format!("{turn} {}", one_line(&line, room.max(1))));
                }
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
fn line(now: &Progress, limit: usize) -> String {
    let part = now.memory_bytes as f64 / limit.max(1) as f64;
    let full = ((part * BAR as f64).round() as usize).min(BAR);
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR - full));
    format!(
        "{:.1} s  {} rows{}  memory {bar} {} of {}  {} spilled",
        now.elapsed.as_secs_f64(),
        grouped(now.rows_read),
        now.fraction.map_or_else(String::new, |fraction| format!(" ({:.0} %)", fraction * 100.0)),
        sizes::shown(now.memory_bytes as u64),
        sizes::shown(limit as u64),
        sizes::shown(now.spilled_bytes),
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
        let now = Progress {
            elapsed: Duration::from_millis(1250),
            rows_read: 1_234_567,
            rows: 0,
            memory_bytes: 64 << 20,
            spilled_bytes: 3 << 20,
            fraction: Some(0.42),
            is_over: false,
        };
        assert_eq!(
            line(&now, 256 << 20),
            "1.2 s  1,234,567 rows (42 %)  memory █████░░░░░░░░░░░░░░░ 64.0 MiB of 256.0 MiB  3.0 MiB spilled"
        );
        assert_eq!(grouped(12), "12");
    }
}
