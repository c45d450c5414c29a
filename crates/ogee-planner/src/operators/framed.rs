//! Window functions over frames that plans have no place for (`ogee_functions::framed_rows`): without some rows around the current one (`EXCLUDE CURRENT ROW`, `GROUP` and `TIES`), with bounds that are
//! computed for each row, with an order in which rows are taken.
//!
//! What is left of a frame is at most three stretches of rows. Aggregates whose states can be merged in any order are computed from a tree over the partition, of which each node has the state of
//! [`FANOUT`] nodes below it (Leis et al., "Efficient processing of window functions in analytical SQL queries", PVLDB 2015, section 4: segment trees). All others look at every row of the
//! stretches.
//!
//! Bounds by differences are places between keys: the key that far away was computed beside it, and is looked up among the keys, which are in order.
//!
//! Not here: frames that are as far from each row, most of which have kernels (`ogee_exec::window`).

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, DynComparator, RecordBatch, UInt64Array, make_comparator},
        buffer::NullBuffer,
        compute::{SortOptions, cast, filter, partition, take},
        datatypes::{DataType, Float64Type, Int64Type, Schema},
        row::{RowConverter, SortField},
    },
    common::{Result, ScalarValue, cast::as_boolean_array, exec_err},
    logical_expr::{Accumulator, window_state::WindowFrameContext},
    physical_expr::{
        PhysicalExpr,
        aggregate::AggregateFunctionExpr,
        window::{PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr},
    },
    physical_plan::windows::WindowUDFExpr,
};
use ogee_exec::{
    ExecError,
    window::{ForeignWindow, ForeignWindowStream},
};
use ogee_functions::{
    error::to_exec,
    exclusions::Exclusion,
    framed_rows::{Bounds, FramedRows, Order, Side, Units},
};

use super::{
    evaluator::Arguments,
    window::{has_no_filter, literal},
};

/// Nodes below a node of a tree.
const FANOUT: usize = 16;

/// Aggregates whose states can be merged in any order.
const MERGED: &[&str] = &[
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "max",
    "min",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
    "var_samp",
];

/// A function over frames of which something is said.
#[derive(Debug)]
pub(super) struct Framed {
    function: Arc<dyn WindowExpr>,
    rows: FramedRows,
    value: Value,
    /// The window's columns that it reads.
    columns: Vec<usize>,
    input: Arguments,
}

/// What is computed of the rows that are left.
#[derive(Debug)]
enum Value {
    Aggregate,
    /// The argument in the n-th row, counted from 1, or, if negative, from the last.
    Row {
        nth: i64,
        ignore_nulls: bool,
    },
}

/// Rows of a partition.
type Rows = Range<usize>;

impl Framed {
    /// `function` over frames of which `rows` says something; `None` if it is not known what to do of it.
    pub(super) fn new(function: &Arc<dyn WindowExpr>, rows: FramedRows, input: &Schema, map: &[usize]) -> Option<Self> {
        let value = match aggregate_of(function) {
            Some(aggregate) => {
                let is_plain = has_no_filter(function) && aggregate.order_bys().is_empty();
                is_plain.then_some(Value::Aggregate)?
            }
            None => chosen(function)?,
        };
        let (input, columns) = Arguments::beside(function, &rows.expressions(), input, map);
        Some(Self { function: Arc::clone(function), rows, value, columns, input })
    }

    /// What is left of `frame` for row `row`, of which `peers` are the peers.
    fn stretches(&self, frame: &Rows, row: usize, peers: &Rows) -> [Rows; 3] {
        let gone = match self.rows.exclusion {
            None => frame.end..frame.end,
            Some(Exclusion::CurrentRow) => row..row + 1,
            Some(Exclusion::Group | Exclusion::Ties) => peers.clone(),
        };
        let is_tied = self.rows.exclusion == Some(Exclusion::Ties) && frame.contains(&row);
        [
            frame.start..frame.end.min(gone.start).max(frame.start),
            if is_tied { row..row + 1 } else { row..row },
            frame.start.max(gone.end).min(frame.end)..frame.end,
        ]
    }

    /// Calls `each` with what is left for each of the rows of `batch`.
    fn walk(&self, batch: &RecordBatch, mut each: impl FnMut([Rows; 3]) -> Result<()>) -> Result<()> {
        let rows = batch.num_rows();
        let order: Vec<ArrayRef> =
            self.function.order_by_columns(batch)?.into_iter().map(|column| column.values).collect();
        let peers: Vec<Rows> = match order.is_empty() {
            true => std::iter::once(0..rows).collect(),
            false => partition(&order)?.ranges(),
        };
        let options = self.function.order_by().iter().map(|sort| sort.options).collect();
        let mut frames = WindowFrameContext::new(Arc::clone(self.function.get_window_frame()), options);
        let computed = self.rows.bounds.as_ref().map(|bounds| Computed::of(bounds, self.sorts(), batch)).transpose()?;
        let mut last = 0..0;
        let mut group = 0;
        for row in 0..rows {
            while peers[group].end <= row {
                group += 1;
            }
            let frame = match &computed {
                Some(computed) => computed.frame(row, &peers, group)?,
                None => frames.calculate_range(&order, &last, rows, row)?,
            };
            each(self.stretches(&frame, row, &peers[group]))?;
            last = frame;
        }
        Ok(())
    }

    /// How the window is sorted by its first key.
    fn sorts(&self) -> SortOptions {
        self.function.order_by().first().map(|sort| sort.options).unwrap_or_default()
    }

    /// Which rows count, if not all do.
    fn counted(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let Some(condition) = &self.rows.filter else { return Ok(None) };
        let values = condition.evaluate(batch)?.into_array(batch.num_rows())?;
        let values = as_boolean_array(&values)?;
        Ok(Some(values.iter().map(|value| Some(value == Some(true))).collect()))
    }

    fn evaluate_aggregate(&self, aggregate: &AggregateFunctionExpr, batch: &RecordBatch) -> Result<ArrayRef> {
        let args = self.function.evaluate_args(batch)?;
        let is_merged = MERGED.contains(&aggregate.fun().name()) && !aggregate.is_distinct();
        let ranks = self.rows.order.as_ref().filter(|_| !is_merged).map(|order| Ranks::of(order, batch)).transpose()?;
        let keys = self.rows.is_distinct.then(|| numbered(&args)).transpose()?;
        let tree = Tree::new(aggregate, args, self.counted(batch)?, is_merged)?;
        let mut values: Vec<ScalarValue> = Vec::with_capacity(batch.num_rows());
        let mut before = None;
        self.walk(batch, |stretches| {
            let value = match (&before, values.last()) {
                (Some(seen), Some(value)) if *seen == stretches => value.clone(),
                _ => match &ranks {
                    Some(ranks) => tree.value_in_order(&ranks.in_order(&stretches), keys.as_deref())?,
                    None => tree.value(&stretches)?,
                },
            };
            values.push(value);
            before = Some(stretches);
            Ok(())
        })?;
        ScalarValue::iter_to_array(values)
    }

    fn evaluate_row(&self, nth: i64, ignore_nulls: bool, batch: &RecordBatch) -> Result<ArrayRef> {
        let args = self.function.evaluate_args(batch)?;
        let arg = &args[0];
        // Rows that may be chosen, each with how many there are before it.
        let nulls = arg.logical_nulls().filter(|_| ignore_nulls);
        let ranks = self.rows.order.as_ref().map(|order| Ranks::of(order, batch)).transpose()?;
        if let Some(ranks) = &ranks {
            return self.evaluate_row_in_order(nth, nulls.as_ref(), arg, ranks, batch);
        }
        let valid: Option<Vec<usize>> = nulls.map(|nulls| nulls.valid_indices().collect());
        let mut chosen = Vec::with_capacity(batch.num_rows());
        self.walk(batch, |stretches| {
            let within = |stretch: &Rows| match &valid {
                None => stretch.clone(),
                Some(valid) => {
                    let at = |row: usize| valid.partition_point(|&valid| valid < row);
                    at(stretch.start)..at(stretch.end)
                }
            };
            let places = stretches.each_ref().map(within);
            let mut left = usize::try_from(nth.unsigned_abs() - 1).unwrap_or(usize::MAX);
            let mut find = |places: &Rows| match places.len().checked_sub(left + 1) {
                Some(_) if nth < 0 => Some(places.end - 1 - left),
                Some(_) => Some(places.start + left),
                None => {
                    left -= places.len();
                    None
                }
            };
            let place = if nth < 0 { places.iter().rev().find_map(find) } else { places.iter().find_map(&mut find) };
            chosen.push(place.map(|place| valid.as_ref().map_or(place, |valid| valid[place]) as u64));
            Ok(())
        })?;
        Ok(take(arg, &UInt64Array::from(chosen), None)?)
    }

    fn evaluate_row_in_order(
        &self,
        nth: i64,
        nulls: Option<&NullBuffer>,
        arg: &ArrayRef,
        ranks: &Ranks,
        batch: &RecordBatch,
    ) -> Result<ArrayRef> {
        let mut chosen = Vec::with_capacity(batch.num_rows());
        self.walk(batch, |stretches| {
            let mut rows = ranks.in_order(&stretches);
            rows.retain(|&row| nulls.is_none_or(|nulls| nulls.is_valid(row as usize)));
            let before = usize::try_from(nth.unsigned_abs() - 1).unwrap_or(usize::MAX);
            let place = if nth < 0 { rows.len().checked_sub(before.saturating_add(1)) } else { Some(before) };
            chosen.push(place.and_then(|place| rows.get(place).copied()));
            Ok(())
        })?;
        Ok(take(arg, &UInt64Array::from(chosen), None)?)
    }
}

/// The places of the rows of a partition in another order.
struct Ranks(Vec<u64>);

impl Ranks {
    fn of(order: &Order, batch: &RecordBatch) -> Result<Self> {
        let keys = order.keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let fields = keys.iter().zip(&order.options);
        let fields = fields.map(|(key, options)| SortField::new_with_options(key.data_type().clone(), *options));
        let rows = RowConverter::new(fields.collect())?.convert_columns(&keys)?;
        let mut by_rank: Vec<usize> = (0..batch.num_rows()).collect();
        by_rank.sort_by(|&a, &b| rows.row(a).cmp(&rows.row(b)));
        let mut ranks = vec![0; by_rank.len()];
        for (rank, row) in (0..).zip(by_rank) {
            ranks[row] = rank;
        }
        Ok(Self(ranks))
    }

    /// The rows of `stretches`.
    fn in_order(&self, stretches: &[Rows; 3]) -> Vec<u64> {
        let mut rows: Vec<usize> = stretches.iter().cloned().flatten().collect();
        rows.sort_unstable_by_key(|&row| self.0[row]);
        rows.into_iter().map(|row| row as u64).collect()
    }
}

/// The bounds of the frames of a partition.
struct Computed<'a> {
    bounds: &'a Bounds,
    rows: usize,
    start: Places,
    end: Places,
    /// The rows whose key is not NULL: all of them, if keys are not compared.
    known: Rows,
}

/// Where one of the bounds is.
enum Places {
    /// At all rows alike.
    Alike,
    /// So many rows or groups away.
    Away(Vec<usize>),
    /// At a key; how the key of one row is to that of another, moved. Where there is no such key, at the peers of the row.
    At { compare: DynComparator, moved: ArrayRef },
}

impl<'a> Computed<'a> {
    fn of(bounds: &'a Bounds, options: SortOptions, batch: &RecordBatch) -> Result<Self> {
        let rows = batch.num_rows();
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(rows);
        let (keys, mut known) = match bounds.units {
            Units::Range => {
                let keys = evaluate(&bounds.key)?;
                let nulls = keys.logical_nulls();
                let count = nulls.as_ref().map_or(0, NullBuffer::null_count);
                let is_first = nulls.is_some_and(|nulls| nulls.is_null(0));
                (Some(keys), if is_first { count..rows } else { 0..rows - count })
            }
            Units::Rows | Units::Groups => (None, 0..rows),
        };
        known.end = known.end.max(known.start);
        let places = |bound: &ogee_functions::framed_rows::Bound| {
            if matches!(bound.side, Side::Unbounded | Side::Current) {
                return Ok(Places::Alike);
            }
            let Some(keys) = &keys else {
                return away(&evaluate(&bound.distance)?, bounds.units, bound.side).map(Places::Away);
            };
            let moved = comparable(&evaluate(&bound.moved)?)?;
            let keys = comparable(&cast(keys, moved.data_type())?)?;
            let compare = make_comparator(&keys, &moved, options)?;
            let is_before = bound.side == Side::Preceding;
            for row in known.clone().filter(|&row| moved.is_valid(row)) {
                let order = compare(row, row);
                if if is_before { order.is_lt() } else { order.is_gt() } {
                    return exec_err!("the distance of a frame is not negative; use PRECEDING or FOLLOWING");
                }
            }
            Ok(Places::At { compare, moved })
        };
        let (start, end) = (places(&bounds.start)?, places(&bounds.end)?);
        Ok(Self { bounds, rows, start, end, known })
    }

    /// The frame of `row`, which is in group `group` of `peers`.
    fn frame(&self, row: usize, peers: &[Rows], group: usize) -> Result<Rows> {
        let start = self.place(row, peers, group, (self.bounds.start.side, &self.start), true);
        let end = self.place(row, peers, group, (self.bounds.end.side, &self.end), false);
        Ok(start.min(self.rows)..end.max(start).min(self.rows))
    }

    /// The first row from a bound on, or (not `is_start`) the first behind it.
    fn place(
        &self,
        row: usize,
        peers: &[Rows],
        group: usize,
        (side, places): (Side, &Places),
        is_start: bool,
    ) -> usize {
        let of_group = |peers: &Rows| if is_start { peers.start } else { peers.end };
        let follows = side == Side::Following;
        match places {
            Places::Alike if side == Side::Unbounded => {
                if is_start {
                    0
                } else {
                    self.rows
                }
            }
            Places::Alike if self.bounds.units == Units::Rows => row + usize::from(!is_start),
            Places::Alike => of_group(&peers[group]),
            Places::Away(by) if self.bounds.units == Units::Rows => {
                let behind = row + usize::from(!is_start);
                if follows { behind.saturating_add(by[row]) } else { behind.saturating_sub(by[row]) }
            }
            Places::Away(by) if follows => peers.get(group.saturating_add(by[row])).map_or(self.rows, of_group),
            Places::Away(by) => group.checked_sub(by[row]).map_or(0, |group| of_group(&peers[group])),
            Places::At { moved, .. } if !self.known.contains(&row) || moved.is_null(row) => of_group(&peers[group]),
            Places::At { compare, .. } => {
                let is_before = |other: usize| {
                    let order = compare(other, row);
                    if is_start { order.is_lt() } else { order.is_le() }
                };
                let (mut from, mut to) = (self.known.start, self.known.end);
                while from < to {
                    let middle = from + (to - from) / 2;
                    if is_before(middle) { from = middle + 1 } else { to = middle }
                }
                from
            }
        }
    }
}

/// A number for the values of each row, which is that of the other rows with these values.
fn numbered(values: &[ArrayRef]) -> Result<Vec<usize>> {
    let fields = values.iter().map(|value| SortField::new(value.data_type().clone()));
    let rows = RowConverter::new(fields.collect())?.convert_columns(values)?;
    let mut numbers = HashMap::new();
    Ok((0..rows.num_rows()).map(|row| *numbers.entry(rows.row(row)).or_insert(row)).collect())
}

/// How far away the bounds of each row are.
fn away(distances: &ArrayRef, units: Units, side: Side) -> Result<Vec<usize>> {
    let distances = cast(distances, &DataType::Int64)?;
    let words = || {
        let units = if units == Units::Rows { "ROWS" } else { "GROUPS" };
        let side = if side == Side::Preceding { "PRECEDING" } else { "FOLLOWING" };
        format!("the distance of {units} {side} of a frame")
    };
    let distance = |distance: Option<i64>| match distance {
        None => exec_err!("{} is not NULL", words()),
        Some(distance) => match usize::try_from(distance) {
            Ok(distance) => Ok(distance),
            Err(_) => exec_err!("{} is not negative, as {distance} is", words()),
        },
    };
    distances.as_primitive::<Int64Type>().iter().map(distance).collect()
}

/// `values` with one zero.
fn comparable(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let floats = cast(values, &DataType::Float64)?;
            Arc::new(floats.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| value + 0.0)) as ArrayRef
        }
        _ => Arc::clone(values),
    })
}

/// The aggregate that `function` is, if it is one.
fn aggregate_of(function: &Arc<dyn WindowExpr>) -> Option<&AggregateFunctionExpr> {
    let any = function.as_any();
    match any.downcast_ref::<PlainAggregateWindowExpr>() {
        Some(plain) => Some(plain.get_aggregate_expr()),
        None => any.downcast_ref::<SlidingAggregateWindowExpr>().map(SlidingAggregateWindowExpr::get_aggregate_expr),
    }
}

/// Which row `function` chooses.
fn chosen(function: &Arc<dyn WindowExpr>) -> Option<Value> {
    let standard = function.as_any().downcast_ref::<StandardWindowExpr>()?;
    let udwf = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
    // Neither is told in any other way.
    let told = format!("{udwf:?}");
    let ignore_nulls = told.ends_with("is_reversed: false, ignore_nulls: true }");
    if !ignore_nulls && !told.ends_with("is_reversed: false, ignore_nulls: false }") {
        return None;
    }
    let nth = match udwf.fun().name() {
        "first_value" => 1,
        "last_value" => -1,
        "nth_value" => match literal(udwf.args().get(1))?.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(Some(nth)) if nth > 0 => nth,
            _ => return None,
        },
        _ => return None,
    };
    Some(Value::Row { nth, ignore_nulls })
}

impl ForeignWindow for Framed {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError> {
        let batch = self.input.batch(columns, rows)?;
        let evaluated = match (&self.value, aggregate_of(&self.function)) {
            (Value::Row { nth, ignore_nulls }, _) => self.evaluate_row(*nth, *ignore_nulls, &batch),
            (Value::Aggregate, Some(aggregate)) => self.evaluate_aggregate(aggregate, &batch),
            (Value::Aggregate, None) => unreachable!("asked when it was made"),
        };
        evaluated.map_err(to_exec)
    }

    fn stream(&self) -> Result<Option<Box<dyn ForeignWindowStream>>, ExecError> {
        Ok(None)
    }
}

/// The rows of a partition, and states of all [`FANOUT`] of them, of all [`FANOUT`] of these, and so on.
struct Tree<'a> {
    aggregate: &'a AggregateFunctionExpr,
    args: Vec<ArrayRef>,
    /// Which of the rows count, if not all do.
    counted: Option<BooleanArray>,
    /// From the bottom, the columns of states of each level.
    levels: Vec<Vec<ArrayRef>>,
}

impl<'a> Tree<'a> {
    /// `is_merged`: states can be merged in any order; there are none otherwise.
    fn new(
        aggregate: &'a AggregateFunctionExpr,
        args: Vec<ArrayRef>,
        counted: Option<BooleanArray>,
        is_merged: bool,
    ) -> Result<Self> {
        let mut tree = Self { aggregate, args, counted, levels: Vec::new() };
        if !is_merged {
            return Ok(tree);
        }
        loop {
            let below = tree.columns(tree.levels.len());
            let nodes = below.first().map_or(0, |column| column.len());
            if nodes <= FANOUT {
                break;
            }
            let mut states: Vec<Vec<ScalarValue>> = Vec::new();
            for start in (0..nodes).step_by(FANOUT) {
                let mut node = aggregate.create_accumulator()?;
                tree.add(&mut node, tree.levels.len(), start..nodes.min(start + FANOUT))?;
                for (at, value) in node.state()?.into_iter().enumerate() {
                    if states.len() <= at {
                        states.push(Vec::new());
                    }
                    states[at].push(value);
                }
            }
            tree.levels.push(states.into_iter().map(ScalarValue::iter_to_array).collect::<Result<_>>()?);
        }
        Ok(tree)
    }

    /// The columns of level `level`, of which the lowest are the arguments.
    fn columns(&self, level: usize) -> &[ArrayRef] {
        match level.checked_sub(1) {
            None => &self.args,
            Some(level) => &self.levels[level],
        }
    }

    /// Adds the nodes `nodes` of level `level` to `sum`.
    fn add(&self, sum: &mut Box<dyn Accumulator>, level: usize, nodes: Range<usize>) -> Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let columns: Vec<ArrayRef> =
            self.columns(level).iter().map(|column| column.slice(nodes.start, nodes.len())).collect();
        if level > 0 {
            return sum.merge_batch(&columns);
        }
        match &self.counted {
            None => sum.update_batch(&columns),
            Some(counted) => {
                let counted = counted.slice(nodes.start, nodes.len());
                let columns = columns.iter().map(|column| Ok(filter(column, &counted)?));
                sum.update_batch(&columns.collect::<Result<Vec<_>>>()?)
            }
        }
    }

    /// The aggregate of `rows`, one after the other; of those with the same of the `numbers` of the first only.
    fn value_in_order(&self, rows: &[u64], numbers: Option<&[usize]>) -> Result<ScalarValue> {
        let mut seen = HashSet::new();
        let counts = |row: &&u64| {
            self.counted.as_ref().is_none_or(|counted| counted.value(**row as usize))
                && numbers.is_none_or(|numbers| seen.insert(numbers[**row as usize]))
        };
        let rows: UInt64Array = rows.iter().filter(counts).copied().map(Some).collect();
        let mut sum = self.aggregate.create_accumulator()?;
        if !rows.is_empty() {
            let columns = self.args.iter().map(|column| Ok(take(column, &rows, None)?));
            sum.update_batch(&columns.collect::<Result<Vec<_>>>()?)?;
        }
        sum.evaluate()
    }

    /// The aggregate of `stretches`.
    fn value(&self, stretches: &[Rows; 3]) -> Result<ScalarValue> {
        let mut sum = self.aggregate.create_accumulator()?;
        for stretch in stretches {
            let (mut start, mut end) = (stretch.start, stretch.end);
            for level in 0..=self.levels.len() {
                let (first, last) = (start.next_multiple_of(FANOUT), end / FANOUT * FANOUT);
                if level == self.levels.len() || first >= last {
                    self.add(&mut sum, level, start..end)?;
                    break;
                }
                self.add(&mut sum, level, start..first)?;
                self.add(&mut sum, level, last..end)?;
                (start, end) = (first / FANOUT, last / FANOUT);
            }
        }
        sum.evaluate()
    }
}
