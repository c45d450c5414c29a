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
//! What else there is, each with an example (`examples`):
//!
//! * Statements that are prepared, with values for their parameters: [`Connection::prepare`], [`Connection::execute_with`], [`params!`], [`named_params!`].
//! * Arrow rows of the program as tables: [`Connection::register`].
//! * Rows appended without SQL for each: [`Connection::appender`].
//! * Functions of the program: [`ScalarFunction`], [`AggregateFunction`].
//! * Results as streams, on any executor: [`Connection::execute_async`].
//! * How far a statement is, and its end, from any thread: [`Connection::progress_handle`], [`Connection::interrupt_handle`].
//! * What there is: [`Connection::tables`], [`Connection::functions`], and settings by name: [`Connection::set`], [`Config::set`].
//!
//! Not here: SQL (`ogee-datafusion`), execution (`ogee-exec`), memory (`ogee-memory`).

mod appender;
mod catalog;
mod config;
mod connection;
mod database;
mod error;
mod functions;
mod monitor;
mod params;
mod prepared;
mod progress;
mod read_only;
mod register;
mod release;
mod result;
mod settings;
mod settings_known;
mod size;
mod stream;
mod wait;

pub use appender::Appender;
pub use catalog::{ColumnInfo, FunctionInfo, FunctionKind, SchemaInfo, TableInfo, TableKind};
pub use config::Config;
pub use connection::{Connection, InterruptHandle};
pub use database::Database;
pub use error::{Error, Result};
pub use functions::{AggregateFunction, AggregateState, Argument, Returned, ScalarFunction, UserError, binary, unary};
pub use monitor::StatementStats;
pub use ogee_datafusion::{Session, is_reading};
pub use ogee_exec::{AggregateStrategy, JoinStrategy, KeyFilters};
pub use ogee_memory::{MemoryStats, TempCompression};
pub use params::{Date, Decimal, Interval, Null, Params, Time, Timestamp, TimestampTz, ToValue, Values};
pub use prepared::Statement;
pub use progress::{Progress, ProgressHandle};
pub use read_only::only_reads;
pub use register::ArrowData;
pub use result::QueryResult;
pub use size::{format_size, parse_memory_limit, parse_size};
pub use stream::AsyncResult;

/// The Arrow that results are in.
pub use datafusion::arrow;
/// A value of any type that Arrow has.
pub use datafusion::common::ScalarValue;
/// What [`AsyncResult`] is.
pub use futures::Stream;

/// The planner that [`Session`] shows.
#[doc(no_inline)]
pub use datafusion;
