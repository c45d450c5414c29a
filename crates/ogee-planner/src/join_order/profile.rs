//! What is known about the rows of a plan: how many, and about each column.
//!
//! A [`Profile`]'s columns refer to the [`Leaf`] that they come from, a table with its filter or whatever else joins were made of, so that
//! what is known of a column survives joins, and columns of one leaf can be looked at together.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, UInt32Array},
        buffer::NullBuffer,
        compute::{and, cast, concat, filter, take},
        datatypes::{DataType, Field, FieldRef, Float64Type, Schema},
    },
    common::{
        ColumnStatistics,
        hash_utils::{RandomState, create_hashes},
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column as ColumnExpr, utils::collect_columns},
    scalar::ScalarValue,
};
use ogee_vector::{Chunk, normalize_array};

use super::{
    distinct,
    lookup::{self, Draws},
    sample::{self, TableSample, some_of},
};
use crate::{expr::translate_predicate, operators::integer};

/// Sampled rows that a filter lets through, from which on these are looked at and not all.
const SELECTED_MIN: usize = 512;

/// Bytes of a string about which nothing is known, and those that a row has for each.
const UNKNOWN_BYTES: f64 = 16.0;
const VIEW_BYTES: f64 = 16.0;

/// What a plan gives.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) rows: f64,
    pub(super) columns: Vec<Column>,
}

/// A column of a leaf.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) leaf: Arc<Leaf>,
    pub(super) index: usize,
    /// What decides its value, where its leaf was joined by a key.
    pub(super) by: Option<Arc<Reference>>,
    /// The type that it was cast to above the leaf.
    pub(super) cast_to: Option<DataType>,
}

/// A column that refers to a key: it decides the values of all columns of the row that has the key.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) column: Column,
    /// How many of the rows with the column were left when they were joined with the key's, of one.
    pub(super) kept: f64,
}

/// Rows whose columns are known together.
#[derive(Debug)]
pub(super) struct Leaf {
    /// After the filter, if there is one.
    pub(super) rows: f64,
    facts: Vec<Facts>,
    view: Option<View>,
}

/// What is known of a column without looking at rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Distinct values, where somebody has counted or can bound them.
    pub(super) distinct: Option<f64>,
    /// The same, where those of other columns say it: nobody may ever ask, and these may have to be read for it.
    pub(super) derived: Option<Arc<Derived>>,
    /// The smallest and the largest value, of numbers, dates and times, as numbers.
    pub(super) range: Option<(f64, f64)>,
    /// Whether values within the range are whole numbers.
    pub(super) whole: bool,
    /// How many of the rows are NULL, of one.
    pub(super) nulls: f64,
    /// Bytes of a value, where its type does not say.
    pub(super) bytes: Option<f64>,
    /// Whether a filter has taken values away.
    pub(super) restricted: bool,
    pub(super) estimate: OnceLock<f64>,
    /// Sampled values, once somebody has looked keys up in them.
    pub(super) draws: OnceLock<Option<Arc<Draws>>>,
}

/// How many distinct values a column has, by those of the columns that its values come from; at most `limit`.
#[derive(Debug)]
pub(super) enum Derived {
    /// As many as the one that has most.
    Largest { of: Vec<Column>, limit: f64 },
    /// One for each combination.
    Combinations { of: Vec<Column>, limit: f64 },
}

impl Derived {
    fn distinct(&self) -> f64 {
        let (distinct, limit) = match self {
            Self::Largest { of, limit } => (of.iter().map(Column::distinct).fold(1.0, f64::max), limit),
            Self::Combinations { of, limit } => (of.iter().map(Column::distinct).product(), limit),
        };
        distinct.min(*limit).max(1.0)
    }
}

/// What a sample is to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// In which order to join: columns are read where that matters.
    Order,
    /// How often rows repeat, whoever asks.
    Repetitions,
}

/// Sampled rows of a leaf.
#[derive(Clone, Debug)]
struct View {
    table: Arc<TableSample>,
    /// The table's column of each column of the leaf.
    fields: Vec<Option<FieldRef>>,
    /// Sampled rows that the filter lets through.
    selected: Option<Arc<UInt32Array>>,
    /// Whether columns may be read that have not been.
    may_read: bool,
}

impl Facts {
    /// What the statistics of a column of so many rows say.
    pub(super) fn of(statistics: &ColumnStatistics, rows: f64) -> Self {
        let bound = |value: Option<&ScalarValue>| value.and_then(number);
        let (min, max) = (statistics.min_value.get_value(), statistics.max_value.get_value());
        let nulls = statistics.null_count.get_value().map_or(0.0, |&nulls| nulls as f64 / rows.max(1.0));
        Self {
            distinct: statistics.distinct_count.get_value().map(|&distinct| distinct as f64),
            range: bound(min).zip(bound(max)).filter(|(min, max)| min <= max),
            whole: min.is_some_and(|value| is_whole(&value.data_type())),
            nulls: nulls.clamp(0.0, 1.0),
            bytes: statistics.byte_size.get_value().map(|&bytes| bytes as f64 / rows.max(1.0)),
            ..Self::default()
        }
    }

    /// A column whose distinct values are derived from those of others.
    pub(super) fn derived(derived: Derived) -> Self {
        Self { derived: Some(Arc::new(derived)), ..Self::default() }
    }

    /// Distinct values, where they are known without looking at rows of the column itself.
    fn counted(&self) -> Option<f64> {
        self.distinct.or_else(|| Some(self.derived.as_ref()?.distinct()))
    }

    /// How many whole numbers there are in the range.
    fn width(&self) -> Option<f64> {
        self.range.filter(|_| self.whole).map(|(min, max)| max - min + 1.0)
    }

    /// Bytes of a value of `data_type` in a row: of a longer string also those elsewhere.
    pub(super) fn bytes(&self, data_type: &DataType) -> f64 {
        match data_type.primitive_width() {
            Some(width) => width.min(8) as f64,
            None if *data_type == DataType::Boolean => 1.0,
            None => {
                let bytes = self.bytes.unwrap_or(UNKNOWN_BYTES);
                VIEW_BYTES + if bytes > VIEW_BYTES { bytes } else { 0.0 }
            }
        }
    }

    /// A column with so many distinct values.
    pub(super) fn distinct(distinct: f64) -> Self {
        Self { distinct: Some(distinct.max(1.0)), ..Self::default() }
    }
}

fn is_whole(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Date32 | DataType::Boolean)
}

/// A value as a number, in the order of its type.
pub(super) fn number(value: &ScalarValue) -> Option<f64> {
    use ScalarValue as V;
    Some(match value {
        V::Boolean(v) => f64::from(u8::from((*v)?)),
        V::UInt64(v) => (*v)? as f64,
        V::Float32(v) => f64::from((*v)?),
        V::Float64(v) => (*v)?,
        V::Decimal128(v, _, scale) => (*v)? as f64 / 10.0_f64.powi(i32::from(*scale)),
        V::Dictionary(_, value) => number(value)?,
        value => integer(value)? as f64,
    })
}

/// A column as numbers, in the order of its type.
fn numbers(column: &ArrayRef) -> Option<ArrayRef> {
    let integers = match column.data_type() {
        DataType::Date32 | DataType::Time32(_) => DataType::Int32,
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) => DataType::Int64,
        _ => return cast(column, &DataType::Float64).ok(),
    };
    cast(&cast(column, &integers).ok()?, &DataType::Float64).ok()
}

impl Profile {
    /// Rows of a leaf of its own, about whose columns so much is known.
    pub(super) fn of_facts(rows: f64, facts: Vec<Facts>) -> Self {
        Self::of_leaf(Leaf { rows, facts, view: None })
    }

    /// Rows about whose columns nothing is known.
    pub(super) fn unknown(rows: f64, columns: usize) -> Self {
        Self::of_facts(rows, vec![Facts::default(); columns])
    }

    /// Rows of a table, whose columns are `fields` of its sample.
    pub(super) fn of_table(
        rows: f64,
        facts: Vec<Facts>,
        table: Arc<TableSample>,
        fields: Vec<Option<FieldRef>>,
        may_read: bool,
    ) -> Self {
        Self::of_leaf(Leaf { rows, facts, view: Some(View { table, fields, selected: None, may_read }) })
    }

    /// The sampled columns that `expr` reads, over the columns of this profile, if they are all of one table.
    pub(super) fn sampled(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<sample::Columns> {
        let mut columns = collect_columns(expr).into_iter().map(|column| &self.columns[column.index()]).peekable();
        let leaf = Arc::clone(&columns.peek()?.leaf);
        let view = leaf.view.as_ref()?;
        let field = |column: &Column| {
            let is_its = Arc::ptr_eq(&column.leaf, &leaf) && column.cast_to.is_none();
            view.fields[column.index].clone().filter(|_| is_its)
        };
        Some((Arc::clone(&view.table), columns.map(field).collect::<Option<_>>()?))
    }

    fn of_leaf(leaf: Leaf) -> Self {
        let (rows, leaf) = (leaf.rows, Arc::new(leaf));
        let columns =
            (0..leaf.facts.len()).map(|index| Column { leaf: Arc::clone(&leaf), index, by: None, cast_to: None });
        let columns = columns.collect();
        Self { rows, columns }
    }
}

/// What the sampled rows say about the parts of a predicate.
pub(super) struct Tested {
    /// Per part, the sampled rows that it is true for; `None` where that cannot be said.
    pub(super) parts: Vec<Option<BooleanArray>>,
    /// Sampled rows.
    pub(super) rows: usize,
    /// Whether these are all rows.
    pub(super) whole: bool,
}

impl Tested {
    /// The sampled rows that all parts are true for.
    pub(super) fn all(&self) -> Option<BooleanArray> {
        let mut all: Option<BooleanArray> = None;
        for part in self.parts.iter().flatten() {
            all = Some(match all {
                Some(all) => and(&all, part).ok()?,
                None => part.clone(),
            });
        }
        all
    }
}

impl Leaf {
    /// Evaluates predicates over columns of the leaf, given by index, on its sampled rows.
    pub(super) fn test(&self, parts: &[Arc<dyn PhysicalExpr>]) -> Option<Tested> {
        let view = self.view.as_ref()?;
        let evaluated = parts.iter().map(|part| view.rows_of(part)).collect();
        Some(Tested { parts: evaluated, rows: view.len(), whole: view.table.is_whole() })
    }

    /// The columns `kept` of those of `rows` rows that a filter on `filtered` columns lets through; of the sampled rows those in `passed`.
    pub(super) fn restrict(&self, rows: f64, filtered: &HashSet<usize>, passed: Option<&BooleanArray>) -> Arc<Self> {
        let facts = self.facts.iter().enumerate().map(|(index, facts)| Facts {
            restricted: facts.restricted || filtered.contains(&index),
            distinct: facts.distinct,
            derived: facts.derived.clone(),
            range: facts.range,
            whole: facts.whole,
            nulls: facts.nulls,
            bytes: facts.bytes,
            estimate: if filtered.contains(&index) { OnceLock::new() } else { facts.estimate.clone() },
            draws: OnceLock::new(),
        });
        let view = self
            .view
            .as_ref()
            .map(|view| passed.and_then(|passed| view.select(passed)).unwrap_or_else(|| view.clone()));
        Arc::new(Self { rows, facts: facts.collect(), view })
    }

    pub(super) fn facts(&self, column: usize) -> &Facts {
        &self.facts[column]
    }

    /// Rows with a value in column `column`: of the table, unless the filter is about the column itself.
    fn with_value(&self, column: usize) -> f64 {
        let facts = &self.facts[column];
        let rows = match &self.view {
            Some(view) if !facts.restricted => view.table.rows_all(),
            _ => self.rows,
        };
        (rows * (1.0 - facts.nulls)).max(1.0)
    }

    /// What column `column` has no more distinct values than, by what is known without looking at rows.
    fn distinct_bound(&self, column: usize) -> f64 {
        let facts = &self.facts[column];
        let width = facts.width().unwrap_or(f64::INFINITY);
        facts.counted().unwrap_or(f64::INFINITY).min(width).min(self.with_value(column)).max(1.0)
    }

    /// Whether column `column` numbers the rows of its table: whole numbers without NULL, whose range has as many as there are rows. That
    /// they are all different is a guess, and one that saves reading the keys of most tables.
    fn numbers_rows(&self, column: usize) -> bool {
        let facts = &self.facts[column];
        let Some(view) = self.view.as_ref().filter(|_| !facts.restricted && facts.nulls == 0.0) else { return false };
        facts.width() == Some(view.table.rows_all())
    }

    /// The values of column `column` in all rows of the leaf, if a filter picked at most `rows_max` of them out of a table that is sampled whole.
    pub(super) fn values_of_all(&self, column: usize, rows_max: usize) -> Option<ArrayRef> {
        let view = self.view.as_ref().filter(|view| view.table.is_whole())?;
        let few = view.selected.as_ref().is_some_and(|selected| (1..=rows_max).contains(&selected.len()));
        // Parts of the filter that the sample says nothing about leave fewer rows than it has.
        let all = (self.rows - view.len() as f64).abs() < 0.5;
        if few && all { view.column(column) } else { None }
    }

    /// Sampled values of column `column`: of rows that the filter lets through, unless these are too few to tell.
    pub(super) fn draws(&self, column: usize) -> Option<Arc<Draws>> {
        let draws = || {
            let view = self.view.as_ref()?;
            let enough = view.selected.as_ref().filter(|selected| selected.len() >= SELECTED_MIN);
            let values = View { selected: None, ..view.clone() }.column(column)?;
            let runs = view.table.run_numbers();
            let all = || (0..view.table.len() as u32).collect::<Vec<u32>>();
            let rows = enough.map_or_else(all, |selected| selected.values().to_vec());
            // Of a large sample, runs of it; those that are left of a run of the sample still are neighbours.
            let (rows, runs): (Vec<u32>, Vec<u32>) = match some_of(rows.len()) {
                Some(few) => few
                    .into_iter()
                    .enumerate()
                    .flat_map(|(run, of)| rows[of].iter().map(move |&row| (row, run as u32)))
                    .unzip(),
                None => rows.into_iter().map(|row| (row, runs[row as usize])).unzip(),
            };
            Some(Arc::new(Draws::new(&take(&values, &UInt32Array::from(rows), None).ok()?, &runs)?))
        };
        self.facts[column].draws.get_or_init(draws).clone()
    }

    /// Distinct values that column `column` may have: of the table, unless the filter is about the column itself.
    fn distinct(&self, column: usize) -> f64 {
        let facts = &self.facts[column];
        *facts.estimate.get_or_init(|| {
            let with_value = self.with_value(column);
            let bound = self.distinct_bound(column);
            if self.numbers_rows(column) {
                return bound;
            }
            let sampled = || {
                let distinct = self.view.as_ref()?.distinct(&[column], facts.restricted, with_value)?;
                Some(distinct).filter(|&distinct| distinct > 0.0)
            };
            let distinct = facts.counted().or_else(sampled);
            // Unknown: many, but not a key.
            distinct
                .unwrap_or_else(|| if bound < with_value { bound } else { with_value.powf(0.8) })
                .min(bound)
                .max(1.0)
        })
    }

    /// Distinct combinations of values of some columns, at most as many as there are rows.
    pub(super) fn distinct_together(&self, columns: &[usize]) -> f64 {
        // Of the table, unless the filter is about one of the columns.
        let restricted = columns.iter().any(|&column| self.facts[column].restricted);
        let of_table = self.view.as_ref().filter(|_| !restricted).map(|view| view.table.rows_all());
        let rows = of_table.unwrap_or(self.rows).max(1.0);
        let sampled = || self.view.as_ref()?.distinct(columns, restricted, rows);
        match sampled().filter(|&distinct| distinct > 0.0) {
            Some(distinct) => {
                let bound: f64 = columns.iter().map(|&column| self.distinct_bound(column)).product();
                distinct.min(bound).min(rows).max(1.0)
            }
            None => columns.iter().map(|&column| self.distinct(column)).product::<f64>().min(rows).max(1.0),
        }
    }

    /// How many of the rows have a value of column `column` between two numbers, of one.
    fn fraction_within(&self, column: usize, low: f64, high: f64) -> f64 {
        let facts = &self.facts[column];
        let sampled = || {
            let column = numbers(&self.view.as_ref()?.column(column)?)?;
            let column = column.as_primitive_opt::<Float64Type>()?;
            let inside = column.iter().flatten().filter(|value| (low..=high).contains(value)).count();
            // Too few to tell.
            (column.len() >= 8).then(|| inside as f64 / column.len() as f64)
        };
        let interpolated = || {
            let (min, max) = facts.range?;
            let unit = if facts.whole { 1.0 } else { 0.0 };
            let (inside, all) = (high.min(max) - low.max(min) + unit, max - min + unit);
            Some(if all > 0.0 { (inside / all).clamp(0.0, 1.0) } else { 1.0 } * (1.0 - facts.nulls))
        };
        let all_rows = self.view.as_ref().is_none_or(|view| view.selected.is_none());
        if all_rows && self.numbers_rows(column) {
            return interpolated().unwrap_or(1.0);
        }
        // Runs of a table that is ordered by the column may miss a narrow range.
        match (sampled(), interpolated()) {
            (Some(sampled), _) if self.view.as_ref().is_some_and(|view| view.table.is_whole()) => sampled,
            (Some(sampled), Some(interpolated)) => sampled.max(interpolated),
            (sampled, interpolated) => sampled.or(interpolated).unwrap_or(1.0 - facts.nulls),
        }
    }
}

impl View {
    fn len(&self) -> usize {
        self.selected.as_ref().map_or_else(|| self.table.len(), |selected| selected.len())
    }

    fn columns(&self, columns: &[usize]) -> Option<Vec<ArrayRef>> {
        let fields = columns.iter().map(|&column| self.fields[column].clone()).collect::<Option<Vec<_>>>()?;
        let columns = self.table.columns(&fields, self.may_read)?;
        match &self.selected {
            None => Some(columns),
            Some(selected) => columns.iter().map(|column| take(column, selected.as_ref(), None).ok()).collect(),
        }
    }

    fn column(&self, column: usize) -> Option<ArrayRef> {
        self.columns(&[column])?.pop()
    }

    /// The sampled rows for which `predicate`, over columns of the leaf, is true.
    fn rows_of(&self, predicate: &Arc<dyn PhysicalExpr>) -> Option<BooleanArray> {
        let mut columns: Vec<usize> = collect_columns(predicate).iter().map(ColumnExpr::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let arrays = self.columns(&columns)?;
        let fields = arrays.iter().zip(&columns).map(|(array, &column)| {
            let name = self.fields[column].as_ref().map_or("", |field| field.name().as_str());
            Field::new(name, array.data_type().clone(), true)
        });
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let predicate = reindexed(predicate, |index| columns.binary_search(&index).expect("collected above")).ok()?;
        // By the kernels that the query itself will use: a pattern takes them a tenth of the time.
        let predicate = translate_predicate(&predicate, &schema).ok()?;
        let arrays = arrays.iter().map(normalize_array).collect::<Result<Vec<_>, _>>().ok()?;
        let mut rows = Vec::new();
        predicate.select(&Chunk::new(arrays, self.len()), &mut rows).ok()?;
        let mut bits = BooleanBufferBuilder::new(self.len());
        bits.append_n(self.len(), false);
        rows.iter().for_each(|&row| bits.set_bit(row as usize, true));
        Some(BooleanArray::new(bits.finish(), None))
    }

    fn select(&self, passed: &BooleanArray) -> Option<Self> {
        let all = match &self.selected {
            Some(selected) => Arc::clone(selected),
            None => Arc::new(UInt32Array::from_iter_values(0..self.table.len() as u32)),
        };
        let selected = filter(all.as_ref(), passed).ok()?;
        let selected = Arc::new(selected.as_primitive::<datafusion::arrow::datatypes::UInt32Type>().clone());
        Some(Self { selected: Some(selected), ..self.clone() })
    }

    /// Distinct values of some columns together in `rows` rows like these; unless `selected`, like all of the sample.
    fn distinct(&self, columns: &[usize], selected: bool, rows: f64) -> Option<f64> {
        let count = || Some(distinct::estimate(self.hashes(columns, selected)?.into_iter(), rows));
        if selected && self.selected.is_some() {
            return count();
        }
        let name = |&column: &usize| Some(self.fields[column].as_ref()?.name().clone());
        self.table.distinct(columns.iter().map(name).collect::<Option<_>>()?, rows, count)
    }

    /// The run and a hash of some columns of each row in which none of them is NULL; unless `selected`, also of rows that the filter drops.
    fn hashes(&self, columns: &[usize], selected: bool) -> Option<Vec<(u32, u64)>> {
        let all = Self { selected: self.selected.clone().filter(|_| selected), ..self.clone() };
        let arrays = all.columns(columns)?;
        match &all.selected {
            Some(selected) => {
                let runs = self.table.run_numbers();
                hashes(&arrays, selected.values().iter().map(|&row| runs[row as usize]))
            }
            None => match self.table.runs_of_sample() {
                Some(few) => {
                    let slices = |array: &ArrayRef| -> Option<ArrayRef> {
                        let slices: Vec<ArrayRef> = few.iter().map(|&(start, rows)| array.slice(start, rows)).collect();
                        concat(&slices.iter().map(AsRef::as_ref).collect::<Vec<_>>()).ok()
                    };
                    let arrays = arrays.iter().map(slices).collect::<Option<Vec<_>>>()?;
                    let runs = few.iter().enumerate();
                    hashes(&arrays, runs.flat_map(|(run, &(_, rows))| std::iter::repeat_n(run as u32, rows)))
                }
                None => hashes(&arrays, self.table.run_numbers().into_iter()),
            },
        }
    }
}

/// The run and a hash of each row of `columns` in which none is NULL.
fn hashes(columns: &[ArrayRef], runs: impl Iterator<Item = u32>) -> Option<Vec<(u32, u64)>> {
    let mut hashes = vec![0; columns.first()?.len()];
    create_hashes(columns, &RandomState::with_seed(0), &mut hashes).ok()?;
    let nulls = columns.iter().fold(None, |nulls, column| NullBuffer::union(nulls.as_ref(), column.nulls()));
    let rows = runs.zip(hashes);
    Some(match nulls {
        None => rows.collect(),
        Some(nulls) => rows.zip(nulls.iter()).filter_map(|(row, valid)| valid.then_some(row)).collect(),
    })
}

/// `expr` with other numbers for its columns.
pub(super) fn reindexed(expr: &Arc<dyn PhysicalExpr>, index: impl Fn(usize) -> usize) -> Result<Arc<dyn PhysicalExpr>> {
    Arc::clone(expr)
        .transform_up(|node| {
            let Some(column) = node.downcast_ref::<ColumnExpr>() else { return Ok(Transformed::no(node)) };
            let moved = ColumnExpr::new(column.name(), index(column.index()));
            Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
        })
        .data()
}

impl Column {
    pub(super) fn facts(&self) -> &Facts {
        self.leaf.facts(self.index)
    }

    /// Distinct values that it may have.
    pub(super) fn distinct(&self) -> f64 {
        self.leaf.distinct(self.index)
    }

    /// The sampled column that it is, if it may be read for `purpose`.
    pub(super) fn sampled(&self, purpose: Purpose) -> Option<sample::Columns> {
        let view = self.leaf.view.as_ref().filter(|view| view.may_read || purpose == Purpose::Repetitions)?;
        Some((Arc::clone(&view.table), vec![view.fields[self.index].clone()?]))
    }

    /// Whether its distinct values are counted in the sample when somebody asks for them, now or later.
    pub(super) fn is_counted_in_sample(&self) -> bool {
        let facts = self.facts();
        facts.estimate.get().is_none()
            && facts.distinct.is_none()
            && facts.derived.is_none()
            && !self.leaf.numbers_rows(self.index)
    }

    /// Whether the sample is to tell how many of its values are in the range of `other`.
    pub(super) fn is_looked_into_for(&self, other: &Self) -> bool {
        let counted = self.leaf.view.as_ref().is_some_and(|view| view.selected.is_none());
        !(counted && self.leaf.numbers_rows(self.index)) && part_within(self.facts(), other.facts()) < 1.0
    }

    /// Whether no two rows of its table have the same value, as far as the footers tell.
    pub(super) fn is_unique(&self) -> bool {
        self.leaf.numbers_rows(self.index)
    }

    /// The columns that decide the values of `columns`, each once, and how many rows were left when these were joined with theirs, of one.
    pub(super) fn deciding(columns: &[Self]) -> (Vec<Self>, f64) {
        let (mut deciding, mut kept): (Vec<Self>, f64) = (Vec::new(), 1.0);
        let mut passed: Vec<&Arc<Leaf>> = Vec::new();
        for mut column in columns {
            while let Some(by) = &column.by {
                if !passed.iter().any(|leaf| Arc::ptr_eq(leaf, &column.leaf)) {
                    passed.push(&column.leaf);
                    kept *= by.kept;
                }
                column = &by.column;
            }
            let same = |other: &Self| Arc::ptr_eq(&other.leaf, &column.leaf) && other.index == column.index;
            if !deciding.iter().any(same) {
                deciding.push(column.clone());
            }
        }
        (deciding, kept)
    }

    /// Whether its values are taken to be among those of `key`: a column that numbers the rows of its table, in a range that has all of these.
    pub(super) fn refers_to(&self, key: &Self) -> bool {
        let covers = |((min, max), (key_min, key_max)): ((f64, f64), (f64, f64))| key_min <= min && max <= key_max;
        key.leaf.numbers_rows(key.index) && self.facts().range.zip(key.facts().range).is_some_and(covers)
    }

    /// Takes the values to be drawn at random from those of `key`, which it refers to, unless more is known of them.
    pub(super) fn draw_from(&self, key: &Self) {
        let facts = self.facts();
        let counted = facts.distinct.is_some() || facts.derived.is_some();
        if !counted && !facts.restricted && !self.leaf.numbers_rows(self.index) {
            let bound = self.leaf.distinct_bound(self.index);
            let rows = self.leaf.with_value(self.index);
            let domain = key.distinct().min(facts.width().unwrap_or(f64::INFINITY)).max(1.0);
            // Cardenas, CACM 1975.
            facts.estimate.get_or_init(|| (domain * (1.0 - (-rows / domain).exp())).min(bound).max(1.0));
        }
    }
}

/// Two columns compared for equality.
pub(super) struct Match {
    /// Pairs of rows that are equal, of all pairs.
    pub(super) selectivity: f64,
    /// Rows of the left that have a partner among so many rows of the right, of one: needs the rows of the right.
    left_within: f64,
    right_within: f64,
    domain: f64,
    right_domain: Domain,
}

/// The part of the range of `facts` that that of `other` overlaps; all where it is nearly all, or one of them is not known, or there is no overlap.
fn part_within(facts: &Facts, other: &Facts) -> f64 {
    let Some(((min, max), (other_min, other_max))) = facts.range.zip(other.range) else { return 1.0 };
    let (low, high) = (min.max(other_min), max.min(other_max));
    let unit = if facts.whole && other.whole { 1.0 } else { 0.0 };
    let part = if max - min + unit > 0.0 { (high - low + unit) / (max - min + unit) } else { 1.0 };
    if low <= high && part < 0.99 { part } else { 1.0 }
}

/// How many values there are that a column may have.
enum Domain {
    Known(f64),
    /// This part of the distinct values of a column, which nobody has counted yet.
    PartOf(Column, f64),
}

impl Domain {
    fn values(&self) -> f64 {
        match self {
            Self::Known(values) => *values,
            Self::PartOf(column, part) => (column.distinct() * part).max(1.0),
        }
    }
}

impl Match {
    /// What is known when the columns are not.
    pub(super) fn of_rows(left: f64, right: f64) -> Self {
        let domain = left.max(right).max(1.0);
        let right_domain = Domain::Known(right.max(1.0));
        Self { selectivity: 1.0 / domain, left_within: 1.0, right_within: 1.0, domain, right_domain }
    }

    /// Values of the one side are taken to be among those of the other, as far as the ranges of both overlap.
    pub(super) fn of_columns(left: &Column, right: &Column) -> Self {
        let (l, r) = (left.facts(), right.facts());
        let (mut left_part, mut right_part) = (1.0, 1.0);
        let (mut left_within, mut right_within) = (1.0 - l.nulls, 1.0 - r.nulls);
        if let (Some((left_min, left_max)), Some((right_min, right_max))) = (l.range, r.range) {
            let (low, high) = (left_min.max(right_min), left_max.min(right_max));
            if low > high {
                (left_within, right_within) = (0.0, 0.0);
            } else {
                (left_part, right_part) = (part_within(l, r), part_within(r, l));
                if left_part < 1.0 {
                    left_within = left.leaf.fraction_within(left.index, low, high);
                }
                if right_part < 1.0 {
                    right_within = right.leaf.fraction_within(right.index, low, high);
                }
            }
        }
        let right_domain = Domain::PartOf(right.clone(), right_part);
        let left_domain = || (left.distinct() * left_part).max(1.0);
        // Of a key and those that refer to it, the key has more values.
        let domain = if right.refers_to(left) {
            left_domain()
        } else if left.refers_to(right) {
            right_domain.values()
        } else {
            left_domain().max(right_domain.values())
        };
        let even = left_within * right_within / domain;
        let selectivity = lookup::selectivity(left, right, even).unwrap_or(even);
        Self { selectivity, left_within, right_within, domain, right_domain }
    }

    /// Rows of the left that have a partner among `rows` rows of the right, of one.
    pub(super) fn left_matched(&self, rows: f64) -> f64 {
        // Values that so many rows have, drawn at random (Cardenas, CACM 1975).
        let rows = rows * self.right_within;
        let right_domain = self.right_domain.values();
        let present = right_domain * (1.0 - (1.0 - 1.0 / right_domain.max(1.000_001)).powf(rows));
        (self.left_within * present / self.domain).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_distinct_values_follow_those_of_their_columns() {
        let of = |counts: &[f64]| {
            Profile::of_facts(1000.0, counts.iter().map(|&distinct| Facts::distinct(distinct)).collect()).columns
        };
        let distinct = |derived| Profile::of_facts(100.0, vec![Facts::derived(derived)]).columns[0].distinct();
        assert_eq!(distinct(Derived::Largest { of: of(&[7.0, 30.0, 2.0]), limit: f64::INFINITY }), 30.0);
        assert_eq!(distinct(Derived::Largest { of: of(&[30.0]), limit: 12.0 }), 12.0);
        assert_eq!(distinct(Derived::Combinations { of: of(&[7.0, 3.0]), limit: 1000.0 }), 21.0);
        assert_eq!(distinct(Derived::Combinations { of: of(&[70.0, 30.0]), limit: 1000.0 }), 100.0, "as many as rows");
        assert_eq!(distinct(Derived::Combinations { of: of(&[0.1]), limit: 0.0 }), 1.0);
    }
}
