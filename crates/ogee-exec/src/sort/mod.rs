//! Sorting that does not care how much memory there is, and the first rows of an order.
//!
//! `key` makes keys that are compared byte by byte, `plan` binds a specification to a row layout, as narrow as `guesses` say. `entries` sorts
//! pinned rows, `ties` those whose keys begin alike. `sink` is the first
//! phase, in which each lane has a `maker` of runs: as large as the grant, or, of rows that are wanted only up to a limit, the best so far. `run` writes them, `merge` merges
//! them, `source` is the second phase: ranges of the order, merged side by side. What keeps them in order on their way out is
//! [`RowOrder`](crate::RowOrder). Narrow rows without strings are sorted by moving them, in `packed`.
//!
//! After "Morsel-driven parallelism", SIGMOD 2014, section 4.5, where runs are in memory; here their pages may spill, and the number of runs
//! merged at once follows from the grant.

mod bound;
mod encode;
mod entries;
mod guesses;
mod key;
mod maker;
mod merge;
mod packed;
mod plan;
mod run;
mod sink;
mod slice;
mod source;
mod ties;

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};

pub use self::run::Wanted;
use self::source::SortSource;
pub(crate) use self::{
    entries::{ENTRY_BYTES, PAGES_MAX, RowBases},
    guesses::SortPlans,
    key::prefixes,
    maker::RunMaker,
    merge::{Merge, Position},
    plan::SortPlan,
    run::{Leading, Run},
    sink::{Scratch, SortSink},
    slice::RowSlice,
    source::{Cut, SortedRows},
};
pub(crate) use crate::cancel::Cancelled;
use crate::{ExecError, Expr, OpenPipeline, Query, RowOrder};

pub(crate) const CONSUMER: &str = "sort";

/// Rows wanted from which on narrow rows are all sorted: dropping rows beyond a limit pays while those kept are few.
const PACKED_FETCH_MIN: usize = 1 << 18;

/// One column of an order.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// Its value.
    pub expr: Expr,
    /// The normalized type of the value.
    pub data_type: DataType,
    /// Greatest first.
    pub descending: bool,
    /// NULLs before all values, or after them; whatever the direction.
    pub nulls_first: bool,
}

/// What to sort by.
#[derive(Clone, Debug)]
pub struct SortSpec {
    /// The order, most significant first.
    pub keys: Vec<SortKey>,
    /// How many rows are wanted, or all.
    pub fetch: Option<usize>,
    /// The columns of the input, in normalized types.
    pub schema: SchemaRef,
}

/// Whether rows of `schema` can be sorted by `keys`.
pub fn supports(spec: &SortSpec) -> bool {
    let storable = |data_type: &DataType| key::is_sortable(data_type);
    spec.keys.iter().all(|key| storable(&key.data_type))
        && spec.schema.fields().iter().all(|field| storable(field.data_type()))
}

/// Adds the pipeline that sorts the rows of `input`; what comes back are the rows in order.
///
/// # Errors
/// [`ExecError::Vector`] when a type has no row form; ask [`supports`] first.
pub fn sort(query: &mut Query, input: OpenPipeline, spec: SortSpec) -> Result<OpenPipeline, ExecError> {
    if spec.fetch.is_none_or(|fetch| fetch >= PACKED_FETCH_MIN)
        && let Some(mut rows) = packed::sort(query, &input, &spec)
    {
        if let Some(fetch) = spec.fetch {
            rows.limit(0, Some(fetch as u64));
        }
        return Ok(rows);
    }
    let fetch = spec.fetch;
    // Keys of all lanes are compared with that of the last row within a limit, so they have one form.
    let plans = Arc::new(match fetch {
        Some(_) => SortPlans::fixed(Arc::new(SortPlan::new(spec.schema, &spec.keys, Vec::new())?)),
        None => SortPlans::new(spec, &input.domains())?,
    });
    let ctx = query.ctx().clone();
    let sorted = Arc::new(SortedRows::default());
    let sink = SortSink::new(Arc::clone(&plans), ctx.clone(), fetch, None, Arc::clone(&sorted));
    let first = query.add(input, Arc::new(sink));
    let order = Arc::new(RowOrder::default());
    let mut rows = OpenPipeline::new(Arc::new(SortSource::new(plans, ctx, sorted, Arc::clone(&order))));
    rows.deps.push(first);
    rows.order = Some(order);
    if let Some(fetch) = fetch {
        rows.limit(0, Some(fetch as u64));
    }
    Ok(rows)
}
