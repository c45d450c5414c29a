//! Statements that share memory, and who of them waits for whom.
//!
//! A request that finds all memory pinned waits, if others may give some up: a statement that holds some, and that has a thread at work. Threads
//! say whose work they do ([`run`]); what they pin, promise or allocate then counts as held by that statement.
//!
//! ```text
//!            nothing to evict            memory released            granted
//!  at work ---------------------> waiting -----------------> looks again ------> at work
//!                                  |  ^                        |
//!                                  |  +------ still nothing ---+
//!                                  +--> refused: nobody else holds any, or cancelled, or nobody else at work for a while, or waited too long
//! ```
//!
//! 1. A thread that waits holds no lock of this crate, and is not at work: if all others wait as well, nobody is.
//! 2. Where nobody else is at work, the statement that began last is refused first. It ends then and gives up what it holds, so the others go on.
//!    They are patient for ten times as long, since a thread of it may be blocked by something else.
//!
//! Not here: memory. The pool asks [`Patience`] each time that it has found nothing.
#![expect(unsafe_code, reason = "the scope of a thread lies on its stack")]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::counter::ShardedCounter;

/// A waiting thread looks at least so often, whether it was woken or not.
pub(crate) const LOOK: Duration = Duration::from_millis(4);
/// When nobody else has been at work for so long, the youngest of those who wait is refused. Between two morsels nobody is for microseconds.
const IDLE_MAX: Duration = Duration::from_millis(100);
/// The same for the others.
const IDLE_MAX_ELDER: Duration = Duration::from_secs(1);
/// A request waits no longer than that in all: the others may be at work for hours, and keep what they hold.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// All statements that share memory: those of a manager, or of all managers that count the process.
#[derive(Debug, Default)]
pub(crate) struct Statements(Mutex<Vec<Arc<Statement>>>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Statement {
    /// Later ones have larger numbers.
    number: u64,
    /// Bytes that it pins, was promised or holds otherwise.
    held: ShardedCounter,
    /// Threads that are at work for it.
    at_work: AtomicUsize,
    /// Times that a thread began to.
    began: AtomicU64,
    /// Threads that wait for memory.
    waiting: AtomicUsize,
}

impl Statements {
    /// Those of all managers that count the process.
    pub(crate) fn of_process() -> Arc<Self> {
        static PROCESS: OnceLock<Arc<Statements>> = OnceLock::new();
        Arc::clone(PROCESS.get_or_init(Arc::default))
    }

    /// A statement that holds nothing and has no thread.
    pub(crate) fn add(&self) -> Arc<Statement> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let statement = Arc::new(Statement {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            held: ShardedCounter::new(),
            at_work: AtomicUsize::new(0),
            began: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
        });
        self.0.lock().push(Arc::clone(&statement));
        statement
    }

    /// Nobody waits for it any more.
    pub(crate) fn remove(&self, statement: &Arc<Statement>) {
        self.0.lock().retain(|other| !Arc::ptr_eq(other, statement));
    }
}

impl Statement {
    pub(crate) fn add_held(&self, bytes: usize) {
        self.held.add(bytes as isize);
    }

    pub(crate) fn sub_held(&self, bytes: usize) {
        self.held.add(-(bytes as isize));
    }
}

/// Whose work the thread does.
struct Scope<'a> {
    statement: &'a Arc<Statement>,
    is_cancelled: &'a dyn Fn() -> bool,
}

thread_local! {
    /// The scope that the thread is in, on its stack, or null.
    static SCOPE: Cell<*const Scope<'static>> = const { Cell::new(std::ptr::null()) };
    /// How many of its callers would rather do without memory than wait for it.
    static OPTIONAL: Cell<usize> = const { Cell::new(0) };
}

/// Does `work` for `statement`, which need not wait for memory once it `is_cancelled`.
pub(crate) fn run<T>(statement: &Arc<Statement>, is_cancelled: &dyn Fn() -> bool, work: impl FnOnce() -> T) -> T {
    /// Leaves the scope, on unwinding too.
    struct Left<'a>(*const Scope<'static>, &'a Statement);
    impl Drop for Left<'_> {
        fn drop(&mut self) {
            SCOPE.set(self.0);
            self.1.at_work.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let scope = Scope { statement, is_cancelled };
    statement.at_work.fetch_add(1, Ordering::SeqCst);
    statement.began.fetch_add(1, Ordering::SeqCst);
    let _left = Left(SCOPE.replace(std::ptr::from_ref(&scope).cast()), statement);
    work()
}

/// Does `work`, whose requests for memory are refused rather than waited for: it can be done without.
pub fn optional<T>(work: impl FnOnce() -> T) -> T {
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            OPTIONAL.set(OPTIONAL.get() - 1);
        }
    }
    OPTIONAL.set(OPTIONAL.get() + 1);
    let _left = Left;
    work()
}

/// Calls `look` with the scope of the thread, if it is in one.
fn with_scope<T>(look: impl FnOnce(&Scope<'_>) -> T) -> Option<T> {
    let scope = SCOPE.get();
    // SAFETY: `run` sets the address of a scope on its stack and takes it back before it returns; only this thread reads it, in calls from there.
    (!scope.is_null()).then(|| look(unsafe { &*scope }))
}

/// The statement whose work the thread does.
pub(crate) fn current() -> Option<Arc<Statement>> {
    with_scope(|scope| Arc::clone(scope.statement))
}

/// While it lives, the thread is not at work, since another must do something first.
pub(crate) struct Idle(Arc<Statement>);

impl Idle {
    pub(crate) fn of_current() -> Option<Self> {
        let statement = current()?;
        statement.at_work.fetch_sub(1, Ordering::SeqCst);
        Some(Self(statement))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.at_work.fetch_add(1, Ordering::SeqCst);
    }
}

/// A thread that waits for memory.
struct Waiting(Idle);

impl Waiting {
    fn new() -> Option<Self> {
        let idle = Idle::of_current()?;
        idle.0.waiting.fetch_add(1, Ordering::SeqCst);
        Some(Self(idle))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How long a request has waited, and what it saw.
#[derive(Default)]
pub(crate) struct Patience {
    waiting: Option<Waiting>,
    since: Option<Instant>,
    /// When somebody else was last seen at work.
    busy_at: Option<Instant>,
    /// How often threads of others had begun to work at the last look.
    began: u64,
    /// Nobody else held anything at the last look.
    alone: bool,
}

impl Patience {
    /// Whether the request that found nothing should look again, after it has waited. It must have looked since the last call.
    pub(crate) fn lasts(&mut self, statements: &Statements) -> bool {
        let is_cancelled = with_scope(|scope| (scope.is_cancelled)());
        if OPTIONAL.get() > 0 || is_cancelled != Some(false) {
            return false;
        }
        if self.waiting.is_none() {
            self.waiting = Waiting::new();
        }
        let Some(Waiting(Idle(own))) = &self.waiting else { return false };
        let (mut held, mut at_work, mut began, mut is_youngest) = (0, 0, 0_u64, true);
        for other in statements.0.lock().iter().filter(|other| !Arc::ptr_eq(other, own)) {
            let holds = other.held.sum();
            held += holds;
            if holds > 0 {
                at_work += other.at_work.load(Ordering::SeqCst);
                began = began.wrapping_add(other.began.load(Ordering::SeqCst));
            }
            is_youngest &= other.waiting.load(Ordering::SeqCst) == 0 || other.number < own.number;
        }
        if held == 0 {
            // What was released between the caller's look and this one is still to be seen.
            return !std::mem::replace(&mut self.alone, true);
        }
        self.alone = false;
        let now = Instant::now();
        if at_work > 0 || began != self.began {
            self.busy_at = Some(now);
        }
        self.began = began;
        let idle_max = if is_youngest { IDLE_MAX } else { IDLE_MAX_ELDER };
        now - *self.busy_at.get_or_insert(now) < idle_max && now - *self.since.get_or_insert(now) < WAIT_MAX
    }
}
