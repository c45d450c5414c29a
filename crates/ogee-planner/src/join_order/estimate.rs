//! Estimated rows of plans, from the leaves up.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use datafusion::{
    common::JoinType,
    datasource::{
        physical_plan::{FileGroup, FileScanConfig, FileSource, ParquetSource},
        source::DataSourceExec,
    },
    physical_expr::{
        PhysicalExpr,
        expressions::{CastExpr, Column as ColumnExpr, Literal},
        utils::collect_columns,
    },
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, PhysicalGroupBy},
        filter::FilterExec,
        joins::{
            CrossJoinExec, HashJoinExec, NestedLoopJoinExec,
            utils::{JoinFilter, JoinOnRef},
        },
        limit::{GlobalLimitExec, LocalLimitExec},
        memory::LazyMemoryExec,
        projection::ProjectionExec,
        sorts::sort::SortExec,
        statistics::{StatisticsArgs, StatisticsContext},
        union::UnionExec,
    },
};

use super::{
    profile::{Column, Derived, Facts, Match, Profile, Purpose, Reference},
    sample::Samples,
    selectivity::{Scope, filtered},
};
use crate::{eager::StepExec, operators::Series, table::TableExec};

/// Rows of what tells nothing about them.
pub const ROWS_UNKNOWN: f64 = 1000.0;

/// Rows from which on it is worth looking at samples to tell whether columns that come from different tables are independent.
const TOGETHER_MIN: f64 = 50_000.0;

/// Bytes of a line of a text file.
const LINE_BYTES: f64 = 100.0;

/// How many times smaller a compressed text file is.
const COMPRESSION: f64 = 4.0;

/// What plans give, by their addresses; with the plans themselves, so that the addresses stay theirs.
pub(super) type Known = HashMap<usize, (Arc<dyn ExecutionPlan>, Profile)>;

/// Estimates of the plans of one query; a plan asked for twice is looked at once.
pub struct Estimator<'s> {
    samples: &'s Samples,
    /// Whether columns of samples may be read, or only those used that have been.
    may_read: bool,
    known: &'s mut Known,
}

impl<'s> Estimator<'s> {
    /// An estimator over `samples`, which reads none unless it `may_read`, and adds to what is `known`.
    pub fn with(samples: &'s Samples, may_read: bool, known: &'s mut Known) -> Self {
        Self { samples, may_read, known }
    }

    /// About how many rows `plan` gives.
    pub fn rows(&mut self, plan: &Arc<dyn ExecutionPlan>) -> u64 {
        self.profile(plan).rows.round() as u64
    }

    /// About how many rows `plan` gives, and how many combinations of `keys` there are among them.
    pub fn combinations(&mut self, plan: &Arc<dyn ExecutionPlan>, keys: &[Arc<dyn PhysicalExpr>]) -> (f64, f64) {
        let input = self.profile(plan);
        let keys = computed(&input, keys).columns;
        if input.rows >= TOGETHER_MIN && keys.iter().any(|key| key.by.is_some()) {
            // One column of the sample after the other costs more than all at once.
            let deciding = Column::deciding(&keys).0;
            self.samples.read(deciding.iter().filter_map(|column| column.sampled(Purpose::Repetitions)).collect());
        }
        (input.rows, distinct_combinations(input.rows, &keys))
    }

    /// What `plan` gives.
    pub(super) fn profile(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Profile {
        let address = Arc::as_ptr(plan).cast::<()>() as usize;
        if let Some((_, profile)) = self.known.get(&address) {
            return profile.clone();
        }
        let profile = self.look_at(plan);
        debug_assert_eq!(profile.columns.len(), plan.schema().fields().len(), "{}", plan.name());
        self.known.insert(address, (Arc::clone(plan), profile.clone()));
        profile
    }

    fn look_at(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Profile {
        let columns = plan.schema().fields().len();
        let profile = if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
            self.source(source)
        } else if let Some(table) = plan.downcast_ref::<TableExec>() {
            self.table(table)
        } else if let Some(generators) = plan.downcast_ref::<LazyMemoryExec>() {
            Series::of(generators)
                .map_or_else(|| Profile::unknown(ROWS_UNKNOWN, columns), |series| of_series(&series, columns))
        } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let passed = filtered(&self.profile(filter.input()), filter.predicate());
            projected(passed, filter.projection().as_deref())
        } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let exprs: Vec<_> = projection.expr().iter().map(|expr| Arc::clone(&expr.expr)).collect();
            computed(&self.profile(projection.input()), &exprs)
        } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            grouped(&self.profile(aggregate.input()), aggregate.group_expr(), columns)
        } else if let Some(step) = plan.downcast_ref::<StepExec>() {
            grouped(&self.profile(&step.inputs()[0]), &step.work().keys, columns)
        } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let sides = (self.profile(join.left()), self.profile(join.right()));
            projected(joined(sides, join.on(), join.filter(), *join.join_type()), join.projection.as_deref())
        } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let sides = (self.profile(join.left()), self.profile(join.right()));
            projected(joined(sides, &[], join.filter(), *join.join_type()), join.projection().as_deref())
        } else if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
            joined((self.profile(join.left()), self.profile(join.right())), &[], None, JoinType::Inner)
        } else if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
            let mut profile = self.profile(limit.input());
            profile.rows = (profile.rows - limit.skip() as f64).max(0.0);
            profile.rows = limit.fetch().map_or(profile.rows, |fetch| profile.rows.min(fetch as f64));
            profile
        } else if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
            let mut profile = self.profile(limit.input());
            profile.rows = profile.rows.min(limit.fetch() as f64);
            profile
        } else if plan.is::<UnionExec>() {
            let inputs: Vec<Profile> = plan.children().into_iter().map(|child| self.profile(child)).collect();
            united(&inputs, columns)
        } else {
            self.other(plan, columns)
        };
        let fetch = plan.fetch().map_or(f64::INFINITY, |fetch| fetch as f64);
        Profile { rows: profile.rows.min(fetch), ..profile }
    }

    fn source(&self, source: &DataSourceExec) -> Profile {
        let schema = ExecutionPlan::schema(source);
        let columns = schema.fields().len();
        let statistics = StatisticsContext::new().compute(source, &StatisticsArgs::new());
        let Ok(statistics) = statistics else { return Profile::unknown(ROWS_UNKNOWN, columns) };
        let config = source.data_source().downcast_ref::<FileScanConfig>();
        let rows = match (statistics.num_rows.get_value(), config) {
            (Some(&rows), _) => rows as f64,
            (None, Some(config)) => {
                let files = config.file_groups.iter().flat_map(FileGroup::iter);
                let bytes: u64 = files.map(|file| file.object_meta.size).sum();
                let plain = if config.file_compression_type.is_compressed() { COMPRESSION } else { 1.0 };
                (bytes as f64 * plain / LINE_BYTES).max(1.0)
            }
            (None, None) => ROWS_UNKNOWN,
        };
        let facts: Vec<Facts> = statistics.column_statistics.iter().map(|column| Facts::of(column, rows)).collect();
        let facts = if facts.len() == columns { facts } else { vec![Facts::default(); columns] };
        let sampled = || {
            let config = config?;
            let parquet = config.file_source().downcast_ref::<ParquetSource>()?;
            let table = self.samples.of_files(config)?;
            let table_schema = parquet.table_schema().table_schema();
            let field = |expr: &Arc<dyn PhysicalExpr>| {
                Some(Arc::clone(&table_schema.fields()[expr.downcast_ref::<ColumnExpr>()?.index()]))
            };
            let fields = match parquet.projection() {
                Some(exprs) => exprs.iter().map(|projected| field(&projected.expr)).collect(),
                None => table_schema.fields().iter().map(|field| Some(Arc::clone(field))).collect(),
            };
            let all = table.rows_all().min(rows.max(1.0));
            Some(Profile::of_table(all, facts.clone(), table, fields, self.may_read))
        };
        sampled().unwrap_or_else(|| Profile::of_facts(rows, facts))
    }

    fn table(&self, table: &TableExec) -> Profile {
        let schema = ExecutionPlan::schema(table);
        let facts = vec![Facts::default(); schema.fields().len()];
        let fields = schema.fields().iter().map(|field| Some(Arc::clone(field))).collect();
        match self.samples.of_table(&table.work().0) {
            Some(sample) => Profile::of_table(sample.rows_all(), facts, sample, fields, self.may_read),
            None => Profile::of_facts(table.work().0.planned_rows().unwrap_or(ROWS_UNKNOWN), facts),
        }
    }

    /// A node that is not known: it passes its only input on, or says itself how many rows it gives.
    fn other(&mut self, plan: &Arc<dyn ExecutionPlan>, columns: usize) -> Profile {
        let children = plan.children();
        let input = children.first().map(|child| self.profile(child));
        let passes = matches!(
            plan.name(),
            "CoalescePartitionsExec"
                | "CooperativeExec"
                | "RepartitionExec"
                | "OutputRequirementExec"
                | "ScalarSubqueryExec"
                | "SortPreservingMergeExec"
                | "BufferExec"
        ) || plan.is::<SortExec>();
        match input {
            Some(input) if passes && input.columns.len() == columns => input,
            // Windows append columns.
            Some(input) if children.len() == 1 && plan.name().contains("Window") && input.columns.len() <= columns => {
                let mut all = Profile::unknown(input.rows, columns).columns;
                all[..input.columns.len()].clone_from_slice(&input.columns);
                Profile { rows: input.rows, columns: all }
            }
            input => {
                let said = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok();
                let said = said.and_then(|statistics| statistics.num_rows.get_value().copied());
                let rows = said.map(|rows| rows as f64).or(input.map(|input| input.rows));
                Profile::unknown(rows.unwrap_or(ROWS_UNKNOWN), columns)
            }
        }
    }
}

fn of_series(series: &Series, columns: usize) -> Profile {
    let rows = series.count() as f64;
    let (first, last) = series.ends();
    let facts = Facts {
        distinct: Some(rows.max(1.0)),
        range: Some((first.min(last) as f64, first.max(last) as f64)),
        whole: true,
        ..Facts::default()
    };
    Profile::of_facts(rows, vec![facts; columns])
}

fn projected(profile: Profile, projection: Option<&[usize]>) -> Profile {
    match projection {
        None => profile,
        Some(columns) => Profile {
            rows: profile.rows,
            columns: columns.iter().map(|&column| profile.columns[column].clone()).collect(),
        },
    }
}

/// The column that `expr` passes on, types aside: as many distinct values, and of numbers the same.
pub(super) fn passed_on(expr: &Arc<dyn PhysicalExpr>, columns: &[Column]) -> Option<Column> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => {
            let column = passed_on(cast.expr(), columns)?;
            Some(Column { cast_to: Some(cast.cast_type().clone()), ..column })
        }
        None => columns.get(expr.downcast_ref::<ColumnExpr>()?.index()).cloned(),
    }
}

/// Expressions over the columns of `input`.
fn computed(input: &Profile, exprs: &[Arc<dyn PhysicalExpr>]) -> Profile {
    let column = |expr: &Arc<dyn PhysicalExpr>| {
        passed_on(expr, &input.columns).unwrap_or_else(|| {
            let facts = if expr.is::<Literal>() {
                Facts::distinct(1.0)
            } else {
                let of = collect_columns(expr).iter().map(|column| input.columns[column.index()].clone()).collect();
                Facts::derived(Derived::Combinations { of, limit: input.rows })
            };
            Profile::of_facts(input.rows, vec![facts]).columns.swap_remove(0)
        })
    };
    Profile { rows: input.rows, columns: exprs.iter().map(column).collect() }
}

fn grouped(input: &Profile, keys: &PhysicalGroupBy, columns: usize) -> Profile {
    if keys.is_true_no_grouping() {
        return Profile::unknown(1.0, columns);
    }
    let exprs: Vec<_> = keys.expr().iter().map(|(expr, _)| Arc::clone(expr)).collect();
    let all = computed(input, &exprs);
    let sets = keys.groups().iter().map(|without| {
        let of_set = all.columns.iter().zip(without).filter(|(_, without)| !**without).map(|(column, _)| column);
        distinct_combinations(input.rows, &of_set.cloned().collect::<Vec<_>>())
    });
    let rows = sets.sum::<f64>().max(if input.rows > 0.0 { 1.0 } else { 0.0 });
    // Keys in the ranges that they had; each at most as often as there are groups.
    let key = |column: &Column| {
        let facts = column.facts();
        let known = if exprs.len() == 1 {
            Facts::distinct(rows)
        } else {
            Facts::derived(Derived::Largest { of: vec![column.clone()], limit: rows })
        };
        Facts { range: facts.range, whole: facts.whole, ..known }
    };
    let mut facts: Vec<Facts> = all.columns.iter().map(key).collect();
    facts.resize(columns, Facts::default());
    Profile::of_facts(rows, facts)
}

/// Groups of `rows` rows by some columns.
fn distinct_combinations(rows: f64, keys: &[Column]) -> f64 {
    let mut domain = domain(keys);
    if rows >= TOGETHER_MIN && domain * 4.0 > rows && keys.iter().any(|key| key.by.is_some()) {
        // Rows of one receipt have one customer and one day, which is seen only where both are columns of one table.
        let (deciding, kept) = Column::deciding(keys);
        domain = domain.min((self::domain(&deciding) * kept).max(1.0));
    }
    // Combinations that so many rows have, drawn at random (Cardenas, CACM 1975).
    (domain * (1.0 - (-rows / domain).exp())).min(rows).max(rows.min(1.0))
}

/// Combinations of values that some columns may have: columns of different leaves are taken to be independent.
fn domain(keys: &[Column]) -> f64 {
    let mut leaves: Vec<(&Column, Vec<usize>)> = Vec::new();
    for key in keys {
        match leaves.iter_mut().find(|(first, _)| Arc::ptr_eq(&first.leaf, &key.leaf)) {
            Some((_, indices)) => indices.push(key.index),
            None => leaves.push((key, vec![key.index])),
        }
    }
    let of_leaf = |(first, indices): &(&Column, Vec<usize>)| {
        let distinct = match indices.as_slice() {
            [_] => first.distinct(),
            indices => first.leaf.distinct_together(indices),
        };
        distinct.min(first.leaf.rows.max(1.0))
    };
    leaves.iter().map(of_leaf).product::<f64>().max(1.0)
}

fn united(inputs: &[Profile], columns: usize) -> Profile {
    let rows = inputs.iter().map(|input| input.rows).sum();
    let column = |index: usize| {
        let facts = || inputs.iter().map(|input| input.columns[index].facts());
        let bounds = facts().map(|facts| facts.range).collect::<Option<Vec<_>>>();
        let range = bounds.and_then(|bounds| bounds.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))));
        let of = inputs.iter().map(|input| input.columns[index].clone()).collect();
        let derived = Facts::derived(Derived::Largest { of, limit: f64::INFINITY });
        Facts { range, whole: facts().all(|facts| facts.whole), ..derived }
    };
    Profile::of_facts(rows, (0..columns).map(column).collect())
}

/// How selective equalities of pairs of columns are together, between sides of `rows` rows.
pub(super) fn keys_selectivity(
    matches: &[Match],
    (left, right): (&[Option<Column>], &[Option<Column>]),
    rows: (f64, f64),
) -> f64 {
    let product: f64 = matches.iter().map(|matched| matched.selectivity).product();
    if matches.len() < 2 || product == 0.0 {
        return product;
    }
    // Columns of a compound key are seldom independent: there are not more combinations than the side with more of them has.
    let together = |columns: &[Option<Column>]| {
        let columns = columns.iter().flatten().cloned().collect::<Vec<_>>();
        let leaf = &columns.first()?.leaf;
        let one = columns.len() == matches.len() && columns.iter().all(|column| Arc::ptr_eq(&column.leaf, leaf));
        let indices: HashSet<usize> = columns.iter().map(|column| column.index).collect();
        one.then(|| leaf.distinct_together(&indices.into_iter().collect::<Vec<_>>()))
    };
    // Columns of several tables: not more than there are rows, nor than each with each.
    let at_most = |columns: &[Option<Column>], rows: f64| {
        columns.iter().map(|column| column.as_ref().map_or(rows, Column::distinct)).product::<f64>().min(rows)
    };
    match (together(left), together(right)) {
        (Some(left), Some(right)) => product.max(1.0 / left.max(right)),
        (Some(left), None) => product.max(1.0 / left.max(at_most(right, rows.1))),
        (None, Some(right)) => product.max(1.0 / right.max(at_most(left, rows.0))),
        (None, None) => product,
    }
}

/// Two sides joined, with the columns that the type of join gives.
fn joined(
    (left, right): (Profile, Profile),
    on: JoinOnRef<'_>,
    filter: Option<&JoinFilter>,
    join_type: JoinType,
) -> Profile {
    let column = |expr: &Arc<dyn PhysicalExpr>, side: &Profile| passed_on(expr, &side.columns);
    let lefts: Vec<_> = on.iter().map(|(expr, _)| column(expr, &left)).collect();
    let rights: Vec<_> = on.iter().map(|(_, expr)| column(expr, &right)).collect();
    let matches: Vec<Match> = lefts
        .iter()
        .zip(&rights)
        .map(|pair| match pair {
            (Some(left), Some(right)) => Match::of_columns(left, right),
            _ => Match::of_rows(left.rows, right.rows),
        })
        .collect();
    let condition = filter.map_or(1.0, |filter| {
        let columns = filter.column_indices().iter().map(|column| match column.side {
            datafusion::common::JoinSide::Left => left.columns[column.index].clone(),
            _ => right.columns[column.index].clone(),
        });
        Scope { columns: &columns.collect::<Vec<_>>() }.selectivity(filter.expression())
    });
    let selectivity = keys_selectivity(&matches, (&lefts, &rights), (left.rows, right.rows)) * condition;
    let inner = left.rows * right.rows * selectivity;
    let matched = |matches: &[Match], rows: f64| partners(matches, rows, selectivity, condition);
    let left_matched = || matched(&matches, right.rows);
    let reversed = || {
        let matches: Vec<Match> = lefts
            .iter()
            .zip(&rights)
            .map(|pair| match pair {
                (Some(left), Some(right)) => Match::of_columns(right, left),
                _ => Match::of_rows(right.rows, left.rows),
            })
            .collect();
        matched(&matches, left.rows)
    };
    let rows = match join_type {
        JoinType::Inner => inner,
        JoinType::Left => inner.max(left.rows),
        JoinType::Right => inner.max(right.rows),
        JoinType::Full => inner.max(left.rows).max(right.rows),
        JoinType::LeftSemi => left.rows * left_matched(),
        JoinType::LeftAnti => left.rows * without(left_matched()),
        JoinType::LeftMark => left.rows,
        JoinType::RightSemi => right.rows * reversed(),
        JoinType::RightAnti => right.rows * without(reversed()),
        JoinType::RightMark => right.rows,
    };
    let mark = || Profile::of_facts(rows, vec![Facts::distinct(2.0)]).columns;
    let columns = match join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => left.columns,
        JoinType::RightSemi | JoinType::RightAnti => right.columns,
        JoinType::LeftMark => [left.columns, mark()].concat(),
        JoinType::RightMark => [right.columns, mark()].concat(),
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            let kept = |of: f64| if join_type == JoinType::Inner { (inner / of.max(1.0)).min(1.0) } else { 1.0 };
            let of_left = referring(left.columns, &lefts, &rights, kept(right.rows));
            [of_left, referring(right.columns, &rights, &lefts, kept(left.rows))].concat()
        }
    };
    Profile { rows, columns }
}

/// `columns` of a side that was joined by `keys` with rows that have `others`, of which it `kept` some: where a key numbers the rows of its table, what
/// refers to it decides all columns of the table.
fn referring(mut columns: Vec<Column>, keys: &[Option<Column>], others: &[Option<Column>], kept: f64) -> Vec<Column> {
    for (key, other) in keys.iter().zip(others) {
        let (Some(key), Some(other)) = (key, other) else { continue };
        if !key.is_unique() || other.is_unique() {
            continue;
        }
        let by = Arc::new(Reference { column: other.clone(), kept });
        for column in columns.iter_mut().filter(|column| Arc::ptr_eq(&column.leaf, &key.leaf)) {
            column.by = Some(Arc::clone(&by));
        }
    }
    columns
}

/// Rows of the left that have a partner among `rows` rows of the right, of one.
pub(super) fn partners(matches: &[Match], rows: f64, selectivity: f64, condition: f64) -> f64 {
    match matches {
        [matched] if condition >= 1.0 => matched.left_matched(rows),
        // So many partners on average: at least one of them, if they fall at random.
        matches => {
            let any = 1.0 - (-rows * selectivity).exp();
            matches.iter().map(|matched| matched.left_matched(rows)).fold(any, f64::min)
        }
    }
}

/// What an anti join leaves: estimates of what it takes away are no proof that nothing is left.
pub(super) fn without(matched: f64) -> f64 {
    (1.0 - matched).max(0.02)
}
