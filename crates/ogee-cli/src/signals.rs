//! Ctrl-C and SIGTERM: the running statement is cancelled, and the shell ends with the code that the signal asks for.
//!
//! A thread of its own waits for signals, so that nothing has to be safe inside a signal handler. The first Ctrl-C cancels the
//! statement; a second one before the shell has come back ends the process at once. While a pager or another command has the terminal,
//! Ctrl-C is for it alone. SIGTERM cancels too and gives the
//! shell five seconds to clean up.
//!
//! Not here: how a statement stops; that is `ogee::InterruptHandle`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// How long SIGTERM waits for the statement to stop.
const GRACE: Duration = Duration::from_secs(5);

/// What a signal does.
#[derive(Clone, Default)]
enum Action {
    /// Ends the process.
    #[default]
    End,
    /// The first one cancels what runs.
    Cancel(Arc<dyn Fn() + Send + Sync>),
    /// Nothing: it is for another process, which has the terminal.
    Ignore,
}

#[derive(Default)]
struct Shared {
    action: Mutex<Action>,
    /// Signals since the last call of [`Interrupts::take`].
    pending: AtomicUsize,
    signal: AtomicI32,
    /// Whether Ctrl-C does nothing while no statement runs.
    stays: AtomicBool,
}

/// What was asked for from outside, and whom to tell.
#[derive(Clone, Default)]
pub struct Interrupts {
    shared: Arc<Shared>,
}

impl Interrupts {
    /// Starts to listen for signals. Errors when the system refuses handlers.
    pub fn install() -> std::io::Result<Self> {
        let interrupts = Self::default();
        // A write beyond the largest size of a file (`ulimit -f`) would end the process. With a handler it is an error.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let listener = interrupts.clone();
        thread::Builder::new().name("ogee-signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                listener.raise(signal);
            }
        })?;
        Ok(interrupts)
    }

    fn raise(&self, signal: i32) {
        let shared = &self.shared;
        shared.signal.store(signal, Ordering::SeqCst);
        let before = shared.pending.fetch_add(1, Ordering::SeqCst);
        let action = shared.action.lock().clone();
        match action {
            Action::Ignore if signal == SIGINT => {
                shared.pending.store(before, Ordering::SeqCst);
            }
            Action::Cancel(cancel) if before == 0 => {
                cancel();
                if signal == SIGTERM {
                    thread::sleep(GRACE);
                    std::process::exit(exit_code(signal));
                }
            }
            // Nobody listens for the first one, or the first one was not heard.
            _ => std::process::exit(exit_code(signal)),
        }
    }

    /// From now on the first signal calls `cancel`.
    pub fn attach(&self, cancel: impl Fn() + Send + Sync + 'static) {
        self.shared.pending.store(0, Ordering::SeqCst);
        *self.shared.action.lock() = Action::Cancel(Arc::new(cancel));
    }

    /// From now on Ctrl-C does nothing.
    pub fn ignore(&self) {
        *self.shared.action.lock() = Action::Ignore;
    }

    /// From now on a signal ends the process, or, at a prompt, Ctrl-C does nothing.
    pub fn detach(&self) {
        let stays = self.shared.stays.load(Ordering::SeqCst);
        *self.shared.action.lock() = if stays { Action::Ignore } else { Action::End };
    }

    /// There is a prompt to come back to. A signal may be heard of late, when what it was for has ended.
    pub fn stay(&self) {
        self.shared.stays.store(true, Ordering::SeqCst);
        self.detach();
    }

    /// The signal that came since the last call, if one did.
    pub fn take(&self) -> Option<i32> {
        let count = self.shared.pending.swap(0, Ordering::SeqCst);
        (count > 0).then(|| self.shared.signal.load(Ordering::SeqCst))
    }
}

/// The exit code of a process that ends because of `signal`: 128 more than its number, as in every shell.
pub fn exit_code(signal: i32) -> i32 {
    128 + signal
}
