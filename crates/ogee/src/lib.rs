//! Ogee: an embedded analytical SQL engine that keeps a stated memory limit for the whole process.
//!
//! ```
//! use ogee::{Config, Database};
//!
//! let database = Database::open_in_memory(Config::default().memory_limit(512 << 20))?;
//! let connection = database.connect();
//! connection.execute("CREATE TABLE t AS SELECT value % 10 AS k, value AS v FROM generate_series(1, 1000)")?;
//! for batch in connection.execute("SELECT k, sum(v) FROM t GROUP BY k ORDER BY k")? {
//!     println!("{} rows", batch?.num_rows());
//! }
//! # Ok::<(), ogee::Error>(())
//! ```
//!
//! A [`Database`] is a handle: one pool of memory, one set of workers, one catalog. Its [`Connection`]s run statements, whose results are
//! streams of Arrow batches ([`QueryResult`]). Nothing is shared between handles but the process's memory account.
//!
//! Not here: SQL (`ogee-datafusion`), execution (`ogee-exec`), memory (`ogee-memory`).

mod config;
mod connection;
mod database;
mod error;
mod monitor;
mod progress;
mod read_only;
mod release;
mod result;
mod settings;
mod size;

pub use config::Config;
pub use connection::{Connection, InterruptHandle};
pub use database::Database;
pub use error::{Error, Result};
pub use monitor::StatementStats;
pub use ogee_datafusion::is_reading;
pub use ogee_exec::{AggregateStrategy, JoinStrategy, KeyFilters};
pub use ogee_memory::{MemoryStats, TempCompression};
pub use progress::{Progress, ProgressHandle};
pub use read_only::only_reads;
pub use result::QueryResult;
pub use size::{format_size, parse_memory_limit, parse_size};

/// The Arrow that results are in.
pub use datafusion::arrow;
