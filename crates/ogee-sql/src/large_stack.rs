//! Threads on which statements are parsed, planned and run: their stacks are large enough for the deepest statement that is let in (`depth`).
//!
//! Trees of expressions and plans are walked, copied and dropped by recursion, by DataFusion and by the parser, which guard only some of that against the end of
//! the stack. A stack takes memory only where it was used. One that may have been used far down is not kept for later statements.
//!
//! Not here: how an interrupt is heard (`ogee::Connection`), and what ends a plan that nobody waits for any more (`checkpoint`).

use std::{
    io,
    sync::{Arc, Weak, mpsc},
    thread,
};

use ogee_functions::{Error, Result};
use parking_lot::Mutex;

/// The deepest statement takes about 60 MiB in a build without optimization.
const STACK_BYTES: usize = 256 << 20;

/// Threads that wait for a next statement.
const IDLE_MAX: usize = 2;

/// Bytes of a statement's text up to which it is not deep: a level is a character at least, and takes up to a kilobyte of stack.
const SHALLOW_BYTES: usize = 8 << 10;

/// The error of a thread that the system refuses.
pub fn no_thread(error: &io::Error) -> Error {
    Error::Resources(format!(
        "no thread for the statement: {error}; the number of threads (ulimit -u), or the addresses of the process (ulimit -v), are limited"
    ))
}

type Job = Box<dyn FnOnce() + Send>;

struct Message {
    job: Job,
    keeps_thread: bool,
    /// Where the thread takes its next message from. It holds none itself, so that it ends when nobody else does.
    home: mpsc::Sender<Message>,
}

/// The threads of an engine; they start when they are needed.
#[derive(Debug, Default)]
pub struct StatementThreads {
    idle: Mutex<Vec<mpsc::Sender<Message>>>,
}

impl StatementThreads {
    /// Has a thread do `job`, about a statement of so many bytes.
    ///
    /// # Errors
    /// The system has no room for one more thread.
    pub fn run(self: &Arc<Self>, statement_bytes: usize, job: Job) -> io::Result<()> {
        let keeps_thread = statement_bytes <= SHALLOW_BYTES;
        let idle = self.idle.lock().pop();
        let mut message = match idle {
            Some(home) => match home.send(Message { job, keeps_thread, home: home.clone() }) {
                Ok(()) => return Ok(()),
                // It ended in between.
                Err(mpsc::SendError(message)) => message,
            },
            None => Message { job, keeps_thread, home: mpsc::channel().0 },
        };
        let (home, messages) = mpsc::channel();
        message.home = home;
        let threads = Arc::downgrade(self);
        thread::Builder::new()
            .name("ogee-statement".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || work(&threads, message, &messages))?;
        Ok(())
    }
}

fn work(threads: &Weak<StatementThreads>, first: Message, messages: &mpsc::Receiver<Message>) {
    let mut next = Ok(first);
    while let Ok(Message { job, keeps_thread, home }) = next {
        job();
        if !keeps_thread {
            return;
        }
        {
            let Some(threads) = threads.upgrade() else { return };
            let mut idle = threads.idle.lock();
            if idle.len() >= IDLE_MAX {
                return;
            }
            idle.push(home);
        }
        next = messages.recv();
    }
}

/// What `work` gives, done on a large stack while the caller waits.
///
/// # Errors
/// [`ogee_functions::Error::Resources`] if the system has no room for a thread.
///
/// # Panics
/// If `work` does.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let done = thread.map_err(|error| no_thread(&error))?.join();
        Ok(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
