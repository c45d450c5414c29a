//! Hash join that goes on when its build side does not fit into memory.
//!
//! After "Morsel-driven parallelism", SIGMOD 2014, sections 4.1 and 4.2, in the row format of all blocking operators:
//!
//! 1. `build`: every lane writes the rows of the build side to pages of its own; they may spill.
//! 2. `insert`: once their number is known, a table of exactly the right size is filled by all lanes, without a lock (`table`).
//! 3. `probe`: rows of the other side look for mates (`matches`) as they stream by, any number of joins in one pipeline. The tag of an entry
//!    spares most of those that have none a look at a row. Mates are gathered into full chunks across the steps of their chains: logical
//!    compaction, "Data chunk compaction in vectorized execution", SIGMOD 2025, section 4.
//!    What keys there are (`key_set`) is told to the scan of that side, and to a filter behind it (`reach`).
//! 4. `rest`: when all rows have been seen, rows of the build side that nothing matched.
//!
//! A build side that does not fit is divided by radix bits. Partitions that fit stay and are joined as above; rows of the probe side
//! that belong to the others, which are *absent*, are written to partitions too, and `rest` joins these one by one. One that is still too large is
//! divided further; where that does not help, since its rows have few keys, it is joined block by block (`blocks`).
//!
//! Without an equality all rows are one chain, unless the condition compares the sides: then mates are looked up among sorted rows (`ranges`).
//!
//! Not here: which side is built, which the front end decides.

mod blocks;
mod build;
mod insert;
mod key_set;
mod matches;
mod probe;
mod ranges;
mod reach;
mod rest;
mod side;
mod spec;
mod state;
mod table;

use std::sync::Arc;

pub(crate) use self::key_set::{KeyScratch, KeySet};
use self::{
    build::BuildSink,
    insert::{InsertSource, Inserted},
    probe::Probe,
    reach::Reaches,
    spec::JoinPlan,
    state::JoinState,
};
pub use self::{
    ranges::{Bound, RangeKeys},
    spec::{JoinColumn, JoinKey, JoinKind, JoinSpec, Residual},
};
use crate::{ExecError, OpenPipeline, Query};

pub(crate) const CONSUMER: &str = "hash join";

/// Adds the pipelines of a hash join; what comes back is the probe side's with the join in it.
///
/// # Errors
/// [`ExecError::Vector`] when a type has no row form; ask [`is_storable`](crate::aggregate::is_storable) first.
pub fn hash_join(
    query: &mut Query,
    build: OpenPipeline,
    mut probe: OpenPipeline,
    spec: JoinSpec,
) -> Result<OpenPipeline, ExecError> {
    let plan = Arc::new(JoinPlan::new(spec)?);
    let reaches = Reaches::of(&plan, query, &probe);
    let state = Arc::new(JoinState::new(plan, query.ctx().clone(), reaches));
    let built = query.add(build, Arc::new(BuildSink::new(Arc::clone(&state))));
    let mut rows = OpenPipeline::new(Arc::new(InsertSource::new(Arc::clone(&state))));
    rows.deps.push(built);
    let inserted = query.add(rows, Arc::new(Inserted::new(Arc::clone(&state))));
    probe.deps.push(inserted);
    state.reaches.place(query, &mut probe, inserted);
    probe.operators.push(Arc::new(Probe::new(state, built)));
    Ok(probe)
}
