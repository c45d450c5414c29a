//! Hash aggregation in two phases that does not care how much memory there is.
//!
//! `sink` is the first phase, `source` the second, after "Robust external hash aggregation in the solid state age", ICDE 2024;
//! `lookup` is how the first phase finds groups, `table` the salted table of both. `plan` binds a specification to a row layout, whose
//! columns are as narrow as was guessed; `generations` replaces it when a guess was wrong. `collect` is the second phase of functions
//! over whole groups, `holistic` those of them that are the engine's own. `combine` combines equal groups of a
//! partition, for the second phase and, where rows repeat often, for the first (`early`). `accumulators`, `counts`, `pairs`,
//! `extremum` and `arg_extremum` are the functions' kernels. `expand` and `distinct` reduce `DISTINCT` and modes to plain aggregations,
//! `sets` does so with grouping sets: `states` leave the rows of groups as columns, `coarsen` makes groups of groups, `finish` results.
//! `empty_sets` is about groups of no rows.

mod accumulators;
mod arg_extremum;
mod coarsen;
mod collect;
mod combine;
mod counts;
mod distinct;
mod early;
mod empty_sets;
mod expand;
mod extremum;
mod finish;
mod function;
mod generations;
mod holistic;
mod kernel;
mod lookup;
mod pairs;
mod plan;
mod sets;
mod sink;
mod source;
mod states;
mod stored;
mod table;
mod totals;

use std::sync::Arc;

pub(crate) use self::generations::Coding;
pub use self::{
    accumulators::average_of_decimals,
    function::{
        AggregateCall, AggregateFunction, AggregateMode, AggregateSpec, Collected, CollectedAggregates,
        GroupAccumulators, GroupKey, GroupingSet, RegrKind,
    },
    holistic::{DiscreteFraction, Gather, HolisticStates, Mode, OfSorted, Quantile, QuantileKind},
    pairs::Moments,
    plan::{is_storable, supports},
    sets::finer_sets,
    states::{after_join, before_join, state_types},
};
use self::{
    generations::Generations,
    sink::AggregateSink,
    source::{AggregateSource, Partitions},
};
use crate::{ExecError, Expr, Groups, OpenPipeline, Query};

/// Adds the pipelines of a hash aggregation over `input`; what comes back are its groups.
///
/// # Errors
/// [`ExecError::Vector`] when a type has no row form; ask [`supports`] first.
pub fn aggregate(query: &mut Query, mut input: OpenPipeline, spec: AggregateSpec) -> Result<OpenPipeline, ExecError> {
    let spec = stored::by_places(spec, &mut input, query.ctx());
    aggregate_rows(query, input, spec)
}

/// The same, where results depend on no order that is not among the columns.
fn aggregate_rows(query: &mut Query, input: OpenPipeline, spec: AggregateSpec) -> Result<OpenPipeline, ExecError> {
    let columns = input.columns();
    if spec.grouping_sets.is_some() {
        return sets::aggregate_sets(query, input, spec);
    }
    if spec.aggregates.iter().any(distinct::is_over_values) {
        let steps = distinct::split(spec, columns);
        let mut input = input;
        input.operators.push(steps.expand);
        let inner = aggregate_rows(query, input, steps.inner)?;
        return aggregate_rows(query, inner, steps.outer);
    }
    let rows_estimate = input.source.rows_estimate();
    let kept = |key: &GroupKey| if let Expr::Column(column) = key.expr { Some(column) } else { None };
    let mut kept: Vec<Option<usize>> = spec.keys.iter().map(kept).collect();
    kept.resize(spec.schema.fields().len(), None);
    let generations = Arc::new(Generations::new(spec, &input.domains())?);
    let partitions = Arc::new(Partitions::default());
    let ctx = query.ctx().clone();
    let sink = AggregateSink::new(Arc::clone(&generations), ctx.clone(), rows_estimate, Arc::clone(&partitions));
    let first = query.add(input, Arc::new(sink));
    let mut groups = OpenPipeline::new(Arc::new(AggregateSource::new(&generations, ctx, partitions)));
    groups.deps.push(first);
    groups.groups = Some(Groups { pipeline: first, columns: kept });
    Ok(groups)
}
