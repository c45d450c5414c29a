//! Window functions over sorted rows, in one pass and with bounded state wherever the function allows it.
//!
//! Rows are divided by the hash of the partition's keys (`divide`), and sorted by that hash, the keys themselves, and the order (`parts`). Without
//! partitions they are sorted as a whole (`sort`). A lane reads such a range in order, in pieces, and hands each piece to the state of every
//! function (`state`), which gives back the results that are final by then: those of the piece itself, of earlier rows, or none yet. Rows wait for their results; if too many of them
//! would, because a partition is larger than memory and a function needs to see its end, they are not kept but read once more (`source`).
//!
//! `ranking`, `shift`, `fold`, `text`, `sliding` and `framed` are the functions with kernels (`frames` finds what a row of the last sees); `foreign` are those that the front end brings, aggregates of users among them.

pub(crate) mod divide;
mod firsts;
mod fold;
mod foreign;
mod framed;
mod frames;
pub(crate) mod parts;
mod ranking;
mod results;
mod shift;
mod sliding;
mod source;
mod state;
mod text;

use std::sync::Arc;

use arrow_array::{ArrayRef, types::IntervalMonthDayNano};
use arrow_schema::{DataType, SchemaRef};

use self::{
    divide::DivideSink,
    parts::{Parts, Sorted},
    source::WindowSource,
};
pub use self::{
    foreign::{ForeignWindow, ForeignWindowStream},
    state::supports_call,
};
pub use crate::sort::Wanted;
use crate::{
    ExecError, Expr, Groups, OpenPipeline, Query, RowOrder, Sink,
    places::Places,
    sort::{Leading, SortKey, SortPlan, SortSink, SortSpec, SortedRows, supports},
};

pub(crate) const CONSUMER: &str = "window";

/// Which rows of its partition a function sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// From the first up to the current row.
    Row,
    /// From the first up to the last peer of the current row.
    Peers,
    /// All.
    Partition,
    /// Rows by their distance from the current one, negative before it: `start` (`None`: the first) up to and including `end`. Aggregates only.
    Rows {
        /// The first row, not after `end`.
        start: Option<i64>,
        /// The last row.
        end: i64,
    },
    /// Any others.
    Frame(Frame),
}

/// How far a value of the order's key is from another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distance {
    /// Between integers, or decimals of one scale.
    Integer(i128),
    /// Between floats.
    Float(f64),
    /// Between dates or timestamps.
    Interval(IntervalMonthDayNano),
}

/// What an end of a frame counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// Rows.
    Rows(usize),
    /// Groups of peers.
    Groups(usize),
    /// The distance of the only key of the order.
    Values(Distance),
}

/// An end of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// That of the partition.
    Unbounded,
    /// So far from the current row.
    At {
        /// How far.
        unit: Unit,
        /// After it, not before.
        following: bool,
    },
}

/// A frame whose ends both may move with the current row. Both belong to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Where it begins.
    pub start: Bound,
    /// Where it ends.
    pub end: Bound,
    /// The first key of the order descends.
    pub descending: bool,
    /// NULL comes first in it.
    pub nulls_first: bool,
}

impl Frame {
    /// Whether it looks at the values of the key.
    pub fn has_key(&self) -> bool {
        [self.start, self.end].iter().any(|bound| matches!(bound, Bound::At { unit: Unit::Values(_), .. }))
    }

    /// Rows at distances, as [`Extent::Rows`] has them.
    fn of_rows(start: Option<i64>, end: i64) -> Self {
        let bound = |distance: i64| Bound::At {
            unit: Unit::Rows(usize::try_from(distance.unsigned_abs()).expect("64-bit targets only")),
            following: distance > 0,
        };
        let start = start.map_or(Bound::Unbounded, bound);
        Self { start, end: bound(end), descending: false, nulls_first: false }
    }
}

/// Which row of a frame a value is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The n-th, from 1.
    Nth(usize),
    /// The last.
    Last,
    /// The one with the least string, or bytes.
    Least,
    /// The one with the greatest string, or bytes.
    Greatest,
}

/// What is computed for each row.
#[derive(Clone, Debug)]
pub enum WindowFunction {
    /// The row's number in its partition, from 1.
    RowNumber,
    /// The number of its first peer.
    Rank,
    /// The number of its group of peers.
    DenseRank,
    /// `(rank - 1) / (rows - 1)`.
    PercentRank,
    /// Rows up to its last peer, over all rows of the partition.
    CumeDist,
    /// The number of the bucket, of so many of equal size.
    Ntile(u64),
    /// The argument so many rows earlier (later, if negative), or the default (an array of one row, of the argument's type).
    Shift {
        /// Rows.
        offset: i64,
        /// Where there is no such row.
        default: ArrayRef,
    },
    /// The argument in the partition's first row.
    FirstValue,
    /// The argument in the last row of the extent.
    LastValue(Extent),
    /// Rows whose argument is not NULL, or all rows without one.
    Count(Extent),
    /// The sum of the argument.
    Sum(Extent),
    /// The mean of the argument, a 64-bit float.
    Avg(Extent),
    /// The least argument.
    Min(Extent),
    /// The greatest argument.
    Max(Extent),
    /// The argument in a row of the frame.
    Chosen {
        /// In which.
        which: Which,
        /// Of which.
        frame: Frame,
        /// Rows where it is NULL do not count.
        ignore_nulls: bool,
    },
    /// Anything else.
    Foreign(Arc<dyn ForeignWindow>),
}

/// A window function with its arguments.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// What is computed.
    pub function: WindowFunction,
    /// Its argument, over the input, and the normalized type of that.
    pub arg: Option<(Expr, DataType)>,
    /// The first key of the order, where the frame asks for distances.
    pub key: Option<(Expr, DataType)>,
    /// How many of the order's keys tell peers apart.
    pub order_keys: usize,
    /// The normalized type of its value.
    pub output: DataType,
}

impl WindowCall {
    /// Whether its values depend on which row of a partition comes first, where none of them has to.
    fn depends_on_order(&self) -> bool {
        use WindowFunction as F;
        match &self.function {
            F::Rank | F::DenseRank | F::PercentRank | F::CumeDist => false,
            F::Count(extent) | F::Sum(extent) | F::Avg(extent) | F::Min(extent) | F::Max(extent) => {
                !matches!(extent, Extent::Peers | Extent::Partition)
            }
            F::RowNumber
            | F::Ntile(_)
            | F::Shift { .. }
            | F::FirstValue
            | F::LastValue(_)
            | F::Chosen { .. }
            | F::Foreign(_) => true,
        }
    }
}

/// Window functions over the same partitions in the same order.
#[derive(Clone, Debug)]
pub struct WindowSpec {
    /// What tells partitions apart.
    pub partition_by: Vec<SortKey>,
    /// The order within partitions.
    pub order_by: Vec<SortKey>,
    /// The functions, whose values follow the columns of the input.
    pub calls: Vec<WindowCall>,
    /// Only rows that have few before them in their partition are wanted: rows beyond those may be missing. To be set only where no
    /// function of a row looks at rows after it, and all have the same peers.
    pub leading: Option<LeadingRows>,
    /// The columns of the input, in normalized types.
    pub input: SchemaRef,
    /// Those and the values.
    pub schema: SchemaRef,
}

/// Which rows of a partition are wanted.
#[derive(Clone, Copy, Debug)]
pub struct LeadingRows {
    /// How many, at least 1.
    pub rows: usize,
    /// Of what.
    pub wanted: Wanted,
}

impl WindowSpec {
    fn keys(&self) -> Vec<SortKey> {
        self.partition_by.iter().chain(&self.order_by).cloned().collect()
    }

    /// Whether the engine can run it.
    pub fn is_supported(&self) -> bool {
        supports(&SortSpec { keys: self.keys(), fetch: None, schema: Arc::clone(&self.input) })
            && self.calls.iter().all(supports_call)
    }
}

/// Adds the pipeline that sorts the rows of `input` for window functions; what comes back are the rows with the functions' values. Without
/// partitions they come in the order.
///
/// # Errors
/// [`ExecError::Vector`] when a type has no row form; ask [`WindowSpec::is_supported`] first.
pub fn window(query: &mut Query, mut input: OpenPipeline, mut spec: WindowSpec) -> Result<OpenPipeline, ExecError> {
    let settings = &query.ctx().settings;
    if settings.keeps_order
        && spec.order_by.is_empty()
        && spec.calls.iter().any(WindowCall::depends_on_order)
        && let Some(place) = input.number_rows(settings.threads)
    {
        // Nobody says which row comes first: the one that does where they come from. All of a partition are peers still.
        let (expr, data_type) = (Expr::Column(place), Places::TYPE);
        spec.order_by.push(SortKey { expr, data_type, descending: false, nulls_first: false });
    }
    let hashed = spec.partition_by.iter().map(|key| (key.expr.clone(), key.data_type.clone())).collect();
    let plan = Arc::new(SortPlan::new(Arc::clone(&spec.input), &spec.keys(), hashed)?);
    let ctx = query.ctx().clone();
    let partition = spec.partition_by.len();
    let is_key = |column| spec.partition_by.iter().any(|key| matches!(key.expr, Expr::Column(key) if key == column));
    let kept = (0..spec.schema.fields().len()).map(|column| is_key(column).then_some(column)).collect();
    let leading = spec.leading.map(|leading| Leading {
        partition: plan.keys.bytes_of(partition),
        peers: plan.keys.bytes_of(partition + spec.calls[0].order_keys),
        rows: leading.rows,
        wanted: leading.wanted,
    });
    let (sorted, order, sink): (_, _, Arc<dyn Sink>) = if partition == 0 {
        let sorted = Arc::new(SortedRows::default());
        let order = Arc::new(RowOrder::default());
        order.serialize();
        let sink = SortSink::fixed(&plan, ctx.clone(), leading, Arc::clone(&sorted));
        (Sorted::Whole(sorted), Some(order), Arc::new(sink))
    } else {
        let parts = Arc::new(Parts::new(&plan, plan.keys.bytes_of(partition), leading));
        let estimate = input.source.rows_estimate();
        let sink = DivideSink::new(&plan, &ctx, ("window", leading), estimate, Arc::default(), Arc::clone(&parts) as _);
        (Sorted::Parts(parts), None, Arc::new(sink))
    };
    let first = query.add(input, sink);
    let source = WindowSource::new(spec, plan, ctx, sorted, order.clone());
    let mut rows = OpenPipeline::new(Arc::new(source));
    rows.deps.push(first);
    rows.order = order;
    rows.groups = Some(Groups { pipeline: first, columns: kept });
    Ok(rows)
}
