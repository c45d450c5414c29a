//! Morsel-driven scheduling: workers, dispatcher, query state machine.
//!
//! A query is a passive state machine of [`Job`]s with dependencies. A job is a pipeline made executable; its
//! thread-local state belongs to *lanes*, not to threads, so that the number of workers on a job can change at any
//! morsel boundary. Workers, one per hardware thread, take morsels from the dispatcher, which has no thread of its own:
//! its code runs on the worker that asks, and the worker that finds no more morsels advances the query.
//!
//! ```text
//!            submit / last dependency finished         every lane exhausted            finish() returned
//!  Waiting ------------------------------> Executable ---------------------> Finishing -----------------> Finished
//!
//!             start                  Again, no one else waits
//!  Idle --------------> Running ----------------------------> Running
//!   ^  ^--- Again ---------|  \----- Exhausted -----> Exhausted
//!   |                      | Blocked
//!   |---- wake -------- Blocked          (a wake while Running makes RunningWoken, whose Blocked leads to Idle)
//! ```
//!
//! 1. A lane is run by at most one worker at a time; what one run wrote, the next run of the lane sees.
//! 2. At most `Job::lanes()` lanes of a job run at once, as that number was at the last morsel boundary.
//! 3. A job is finished once, after every lane that was started is exhausted, and before any job that depends on it runs.
//! 4. Active queries have equal shares: at each boundary the query with the fewest running lanes is served.
//! 5. A query ends once: all its jobs are dropped, then its `on_done` runs, then waiting handles are released.
//! 6. No code of a job runs under the dispatcher's lock, and a panic in it ends its query only.
//!
//! After "Morsel-driven parallelism: a NUMA-aware query evaluation framework for the many-core age", SIGMOD 2014,
//! sections 2 and 3.
//!
//! Not here: what a morsel holds and what a pipeline does with it; SQL and data are unknown to this crate. Neither are
//! sockets, priorities between queries, nor a trace of the morsels.

mod cancellation;
mod dispatcher;
mod error;
mod job;
mod lane;
mod morsel;
mod query;
mod scheduler;
mod sync;
mod worker;

pub use cancellation::Cancellation;
pub use error::{QueryError, SharedJobError};
pub use job::{Job, JobError, Step, TaskContext};
pub use morsel::MorselRanges;
pub use query::{JobId, JobWaker, QueryBuilder, QueryHandle};
pub use scheduler::Scheduler;
