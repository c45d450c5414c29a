//! Several groupings of the same rows: `GROUPING SETS`, `ROLLUP`, `CUBE`.
//!
//! A set whose keys are all keys of another one is computed of the other's groups: their states are merged, and there are
//! fewer groups than rows. The rows themselves are grouped by the sets that are within no other, of which `ROLLUP` and `CUBE` have one. If there
//! are several, each row comes once for each (`expand`), and the set's id is one more key. All other sets follow in the pipeline
//! of the groups (`coarsen`), each of the smallest set that it is within, those of a level together; at its end states become results (`finish`).
//!
//! States that cannot be had as columns (`states`) are not merged: then all sets are grouped from the rows.

use std::sync::{Arc, atomic::AtomicBool};

use arrow_array::new_null_array;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ogee_vector::Domain;

use super::{
    AggregateCall, AggregateFunction, AggregateMode, AggregateSpec, GroupKey, GroupingSet, aggregate_rows,
    coarsen::{Coarsen, Taken},
    distinct::is_over_values,
    empty_sets::EmptySets,
    expand::{Appended, Expand},
    finish::{Finish, Finished},
    generations::Generations,
    plan::{AggregatePlan, Forms},
    sink::AggregateSink,
    source::{AggregateSource, Partitions},
    states::{begins_with_result, kept_states, over_states},
};
use crate::{CompareOp, ExecError, Expr, OpenPipeline, Operator, Project, Query, Source, UnionSource};

/// For each grouping set of `spec`: the set of whose groups it is computed, or `None` if it is computed of rows.
pub fn finer_sets(spec: &AggregateSpec) -> Vec<Option<usize>> {
    let sets = spec.grouping_sets.as_deref().unwrap_or_default();
    let mut finer = vec![None; sets.len()];
    let merges = matches!(spec.mode, AggregateMode::Single | AggregateMode::Final)
        && spec.collected.is_none()
        && spec.aggregates.iter().all(|call| kept_states(call, spec.mode).is_some());
    if !merges {
        return finer;
    }
    let order = finest_first(sets);
    for (at, &set) in order.iter().enumerate() {
        let contains = |&&finer: &&usize| sets[finer].nulls.iter().zip(&sets[set].nulls).all(|(f, s)| !f || *s);
        finer[set] = order[..at].iter().filter(contains).min_by_key(|&&finer| num_keys(&sets[finer])).copied();
    }
    finer
}

fn num_keys(set: &GroupingSet) -> usize {
    set.nulls.iter().filter(|null| !**null).count()
}

/// The numbers of `sets`, those with most keys first.
fn finest_first(sets: &[GroupingSet]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|&set| std::cmp::Reverse(num_keys(&sets[set])));
    order
}

/// How many sets lie between each of `sets` and the rows. All sets of a level are filled at the same time, from those of the level before.
fn levels(sets: &[GroupingSet], finer: &[Option<usize>]) -> Vec<usize> {
    let mut levels = vec![0; sets.len()];
    for set in finest_first(sets) {
        levels[set] = finer[set].map_or(0, |finer| levels[finer] + 1);
    }
    levels
}

/// Adds the pipelines of an aggregation by several sets.
pub(crate) fn aggregate_sets(
    query: &mut Query,
    input: OpenPipeline,
    mut spec: AggregateSpec,
) -> Result<OpenPipeline, ExecError> {
    let finer = finer_sets(&spec);
    let sets = spec.grouping_sets.take().unwrap_or_default();
    if finer.iter().all(Option::is_none) {
        return of_rows(query, input, spec, &sets);
    }
    let rows_estimate = input.source.rows_estimate();
    let flow = GroupColumns::of(&spec);

    // The finest sets, of rows.
    let finest: Vec<_> =
        sets.iter().zip(&finer).filter(|(_, finer)| finer.is_none()).map(|(set, _)| set.clone()).collect();
    let finest = Grouping::new(&flow, &spec.keys, input.columns(), &finest);
    let mode = if spec.mode == AggregateMode::Final { AggregateMode::Merge } else { AggregateMode::Partial };
    let first = AggregateSpec { mode, ..finest.spec(&flow, spec.aggregates.clone()) };
    let mut input = input;
    input.operators.extend(finest.expand.clone());
    let mut groups = aggregate_rows(query, input, first)?;
    groups.operators.push(finest.shape);
    // A group without some of its rows would not be the same in coarser sets.
    groups.groups = None;

    // The others, of their groups.
    let domains = groups.domains();
    let keys: Vec<GroupKey> = flow.keys.iter().enumerate().map(|(i, t)| key(i, t)).collect();
    let at_once = Arc::new(AtomicBool::new(true));
    let mut begun = vec![at_once; sets.len()];
    let levels = levels(&sets, &finer);
    for level in 1..=levels.iter().copied().max().unwrap_or(0) {
        let made = (0..sets.len()).filter(|&set| levels[set] == level);
        // The empty set by itself: it has a group even if there are no others.
        let (empty, made): (Vec<usize>, Vec<usize>) = made.partition(|&set| num_keys(&sets[set]) == 0);
        for made in [made, empty].into_iter().filter(|made| !made.is_empty()) {
            let of = |set: usize| finer[set].expect("only sets of rows are of level 0");
            let named = |made: &[usize]| made.iter().map(|&set| sets[set].clone()).collect::<Vec<_>>();
            let coarser = Grouping::new(&flow, &keys, flow.columns(), &named(&made));
            let domains = coarser.expand.iter().fold(domains.clone(), |domains, expand| expand.domains(domains));
            let calls = flow.over_states(&spec.aggregates);
            let merging = AggregateSpec { mode: AggregateMode::Merge, ..coarser.spec(&flow, calls) };
            let (sink, rest) = by_itself(query, merging, &domains, rows_estimate, coarser.shape, flow.schema())?;
            let mut taken: Vec<usize> = made.iter().map(|&set| of(set)).collect();
            taken.sort_unstable();
            taken.dedup();
            let inputs = taken.iter().map(|&finer| Taken {
                is: Expr::Compare { op: CompareOp::Eq, column: flow.keys.len(), literal: Arc::clone(&sets[finer].id) },
                expand: coarser.expand.is_some().then(|| {
                    let of_finer: Vec<usize> = made.iter().copied().filter(|&set| of(set) == finer).collect();
                    expand(&flow, &keys, &coarser.used, flow.columns(), &named(&of_finer))
                }),
            });
            let coarsen = Coarsen::new(inputs.collect(), Arc::clone(&begun[taken[0]]), sink, rest, flow.keys.len());
            made.into_iter().for_each(|set| begun[set] = coarsen.finished());
            groups.operators.push(Arc::new(coarsen));
        }
    }
    groups.operators.push(flow.finish(&spec)?);
    Ok(groups)
}

/// Groups rows by all of `sets`.
fn of_rows(
    query: &mut Query,
    mut input: OpenPipeline,
    spec: AggregateSpec,
    sets: &[GroupingSet],
) -> Result<OpenPipeline, ExecError> {
    let flow = GroupColumns { states: results(&spec), ..GroupColumns::of(&spec) };
    let grouping = Grouping::new(&flow, &spec.keys, input.columns(), sets);
    let grouped = AggregateSpec {
        collected: spec.collected.clone(),
        mode: spec.mode,
        ..grouping.spec(&flow, spec.aggregates.clone())
    };
    input.operators.extend(grouping.expand);
    let has_keys = !grouped.keys.is_empty();
    let mut groups = aggregate_rows(query, input, grouped)?;
    groups.operators.push(grouping.shape);
    // A set of its own has its group in any case.
    if has_keys && spec.mode != AggregateMode::Partial {
        let mut seen = None;
        for set in sets.iter().filter(|set| num_keys(set) == 0) {
            let empty = Grouping::new(&flow, &spec.keys, 0, std::slice::from_ref(set));
            // Of no values the different ones are all, and the mode is the first one.
            let mut calls = spec.aggregates.clone();
            for call in calls.iter_mut().filter(|call| is_over_values(call)) {
                call.distinct = false;
                if call.function == AggregateFunction::Mode {
                    call.function = AggregateFunction::AnyValue;
                }
            }
            let of_none =
                AggregateSpec { collected: spec.collected.clone(), mode: spec.mode, ..empty.spec(&flow, calls) };
            let (sink, rest) = by_itself(query, of_none, &[], None, empty.shape, flow.schema())?;
            let empty = EmptySets::new(sink, rest, seen);
            seen = Some(empty.seen());
            groups.operators.push(Arc::new(empty));
        }
    }
    Ok(groups)
}

/// The two ends of an aggregation that is part of an operator: what comes out is in the shape of [`GroupColumns`].
fn by_itself(
    query: &Query,
    spec: AggregateSpec,
    domains: &[Domain],
    rows_estimate: Option<u64>,
    shape: Arc<dyn Operator>,
    schema: SchemaRef,
) -> Result<(AggregateSink, Arc<dyn Source>), ExecError> {
    let ctx = query.ctx().clone();
    let generations = Arc::new(Generations::new(spec, domains)?);
    let partitions = Arc::new(Partitions::default());
    let mut groups =
        OpenPipeline::new(Arc::new(AggregateSource::new(&generations, ctx.clone(), Arc::clone(&partitions))));
    groups.operators.push(shape);
    let sink = AggregateSink::new(generations, ctx, rows_estimate, partitions);
    Ok((sink, UnionSource::open(schema, vec![groups], None).source))
}

fn key(column: usize, data_type: &DataType) -> GroupKey {
    GroupKey { expr: Expr::Column(column), data_type: data_type.clone() }
}

/// Types of what `spec` computes.
fn results(spec: &AggregateSpec) -> Vec<DataType> {
    spec.schema.fields()[spec.keys.len() + 1..].iter().map(|field| field.data_type().clone()).collect()
}

/// The columns in which groups of all sets move: all keys, NULL where a set lacks them, the set's id, states or results.
struct GroupColumns {
    keys: Vec<DataType>,
    id: DataType,
    states: Vec<DataType>,
    /// Of the aggregation.
    mode: AggregateMode,
}

impl GroupColumns {
    /// Of `spec`, with states.
    fn of(spec: &AggregateSpec) -> Self {
        Self {
            keys: spec.keys.iter().map(|key| key.data_type.clone()).collect(),
            id: spec.schema.field(spec.keys.len()).data_type().clone(),
            mode: spec.mode,
            states: spec.aggregates.iter().filter_map(|call| kept_states(call, spec.mode)).flatten().collect(),
        }
    }

    fn columns(&self) -> usize {
        self.keys.len() + 1 + self.states.len()
    }

    fn schema(&self) -> SchemaRef {
        schema_of(self.keys.iter().chain([&self.id]).chain(&self.states))
    }

    /// `calls`, which have states, over them.
    fn over_states(&self, calls: &[AggregateCall]) -> Vec<AggregateCall> {
        let mut next = self.keys.len() + 1;
        let mut over = Vec::with_capacity(calls.len());
        for call in calls {
            let types = kept_states(call, self.mode).expect("asked before sets are merged");
            over.push(over_states(call, &types, next));
            next += types.len();
        }
        over
    }

    /// Makes the results of `spec` of the states.
    fn finish(&self, spec: &AggregateSpec) -> Result<Arc<dyn Operator>, ExecError> {
        let mut columns: Vec<Finished> = (0..=self.keys.len()).map(Finished::Column).collect();
        let mut computed = Vec::new();
        let mut next = columns.len();
        for (call, over) in spec.aggregates.iter().zip(self.over_states(&spec.aggregates)) {
            let states = over.args.len();
            if begins_with_result(call) {
                columns.push(Finished::Column(next));
            } else {
                columns.push(Finished::Result(computed.len()));
                computed.push(over);
            }
            next += states;
        }
        let moved = |column: &Finished| match column {
            Finished::Column(column) => Some(Expr::Column(*column)),
            Finished::Result(_) => None,
        };
        if let Some(exprs) = columns.iter().map(moved).collect() {
            return Ok(Arc::new(Project::new(exprs)));
        }
        let forms = Forms { columns: Vec::new(), short: vec![false; computed.len()] };
        let row_by_row = AggregateSpec {
            keys: Vec::new(),
            grouping_sets: None,
            schema: schema_of(computed.iter().map(|call| &call.output)),
            aggregates: computed,
            collected: None,
            mode: AggregateMode::Final,
        };
        Ok(Arc::new(Finish::new(AggregatePlan::new(&row_by_row, forms)?, columns)))
    }
}

fn schema_of<'a>(types: impl Iterator<Item = &'a DataType>) -> SchemaRef {
    let field = |(i, t): (usize, &DataType)| Field::new(format!("c{i}"), t.clone(), true);
    Arc::new(Schema::new(types.enumerate().map(field).collect::<Vec<_>>()))
}

/// Gives rows of `columns` columns once for each of `sets`, with those of `keys` that are `used` and the set's id behind them.
fn expand(
    flow: &GroupColumns,
    keys: &[GroupKey],
    used: &[usize],
    columns: usize,
    sets: &[GroupingSet],
) -> Arc<dyn Operator> {
    let value = |&i: &usize| {
        let nulls = sets.iter().map(|set| set.nulls[i]).collect();
        Appended::value(keys[i].expr.clone(), &flow.keys[i], nulls)
    };
    let mut appended: Vec<Appended> = used.iter().map(value).collect();
    appended.push(Appended::PerSet(sets.iter().map(|set| Arc::clone(&set.id)).collect()));
    Arc::new(Expand::new(sets.len(), columns, appended))
}

/// A grouping by one set or several.
struct Grouping {
    /// What gives rows once for each set, if there are several.
    expand: Option<Arc<dyn Operator>>,
    /// Which keys are in one of its sets.
    used: Vec<usize>,
    keys: Vec<GroupKey>,
    /// Puts its groups into the columns of a [`GroupColumns`].
    shape: Arc<dyn Operator>,
}

impl Grouping {
    /// Of rows of `columns` columns, of which `keys` are the keys of all sets, by `sets`.
    fn new(flow: &GroupColumns, keys: &[GroupKey], columns: usize, sets: &[GroupingSet]) -> Self {
        let has = |i: usize| sets.iter().any(|set| !set.nulls[i]);
        let used: Vec<usize> = (0..keys.len()).filter(|&i| has(i)).collect();
        let mut shape: Vec<Expr> = (0..keys.len())
            .map(|i| match used.iter().position(|&key| key == i) {
                Some(at) => Expr::Column(at),
                None => Expr::Literal(new_null_array(&flow.keys[i], 1)),
            })
            .collect();
        if let [set] = sets {
            shape.push(Expr::Literal(Arc::clone(&set.id)));
            shape.extend((0..flow.states.len()).map(|state| Expr::Column(used.len() + state)));
            let keys = used.iter().map(|&i| keys[i].clone()).collect();
            return Self { expand: None, used, keys, shape: Arc::new(Project::new(shape)) };
        }
        let types = used.iter().map(|&i| &flow.keys[i]).chain([&flow.id]);
        let named = types.enumerate().map(|(i, data_type)| key(columns + i, data_type)).collect();
        shape.extend((used.len()..=used.len() + flow.states.len()).map(Expr::Column));
        let expand = Some(expand(flow, keys, &used, columns, sets));
        Self { expand, used, keys: named, shape: Arc::new(Project::new(shape)) }
    }

    /// What computes `calls` for it; its columns are its keys and those of `flow` behind the id.
    fn spec(&self, flow: &GroupColumns, calls: Vec<AggregateCall>) -> AggregateSpec {
        AggregateSpec {
            keys: self.keys.clone(),
            grouping_sets: None,
            aggregates: calls,
            collected: None,
            mode: AggregateMode::Single,
            schema: schema_of(self.keys.iter().map(|key| &key.data_type).chain(&flow.states)),
        }
    }
}
