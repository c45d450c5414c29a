//! Execution: expressions, pipelines and the operators that run in them.
//!
//! A [`Query`] is a list of [`Pipeline`]s. Each goes from a [`Source`] through streaming [`Operator`]s to a [`Sink`] and is run by
//! the scheduler in morsels, on as many lanes as there are workers and memory for ("Morsel-driven parallelism", SIGMOD 2014,
//! section 2). Nothing in a plan is parallel: parallelism is a property of the run.
//!
//! 1. Dynamic dispatch happens once a chunk; loops over rows are typed.
//! 2. State that grows with the data lives in pages of the buffer manager (`ogee-row`), never in a `Vec`.
//! 3. An operator's local state belongs to a lane; lanes meet only in `Sink::combine` and `Sink::finish`.
//!
//! Not here: SQL, files, DataFusion.
#![expect(unsafe_code, reason = "aggregate kernels read and write row pages")]

pub mod aggregate;
pub mod asof;
mod cancel;
mod compare;
mod context;
mod decimal;
mod error;
mod expr;
mod filter;
pub mod join;
mod keys;
mod like;
mod limit;
mod order;
mod output;
mod parts;
mod pipeline;
mod places;
mod profile;
mod project;
mod query;
mod restriction;
mod scalar;
mod series;
pub mod sort;
mod source;
mod stages;
mod union;
mod unnest;
mod waiting;
pub mod window;

pub use compare::CompareOp;
pub use context::{AggregateStrategy, ExecContext, ExecSettings, JoinStrategy, KeyFilters, QueryCounters};
pub use decimal::{DecimalArithmetic, DecimalOp};
pub use error::ExecError;
pub use expr::{Expr, ForeignExpr};
pub use filter::Filter;
pub use like::Like;
pub use limit::Limit;
pub use order::{LaneOrder, RowOrder};
pub use output::{OutputStream, RangedOutput};
pub use parts::{Growth, PART_BYTES};
pub use pipeline::{
    Flow, Kept, Operator, OperatorLocal, OperatorStep, Pipeline, RowsExpected, Sink, SinkLocal, Source, SourceLocal,
    SourceStep,
};
pub use profile::{Counts, Mark, OperatorProfile};
pub use project::Project;
pub use query::{Groups, OpenPipeline, Query, RunningQuery};
pub use restriction::{Restriction, RestrictionLocal};
pub use scalar::ScalarSink;
pub use series::SeriesSource;
pub use source::{ChannelSender, ChannelSource, ChunksSource};
pub use union::UnionSource;
pub use unnest::{EmptyLists, Unnest, UnnestStructs};
pub use waiting::value_bytes;
