//! Window functions whose frames are without some rows around the current one: `EXCLUDE CURRENT ROW`, `GROUP` and `TIES`.
//!
//! What is left of a frame is at most three stretches of rows. Aggregates whose states can be merged in any order are computed from a tree over the partition, of which each node has the state of
//! [`FANOUT`] nodes below it (Leis et al., "Efficient processing of window functions in analytical SQL queries", PVLDB 2015, section 4: segment trees). All others look at every row of the
//! stretches.
//!
//! Not here: frames without exclusions, most of which have kernels (`ogee_exec::window`).

use std::{ops::Range, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, RecordBatch, UInt64Array},
        compute::{partition, take},
        datatypes::{DataType, Schema},
    },
    common::{Result, ScalarValue},
    logical_expr::{Accumulator, window_state::WindowFrameContext},
    physical_expr::{
        aggregate::AggregateFunctionExpr,
        window::{PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr},
    },
    physical_plan::windows::WindowUDFExpr,
};
use ogee_exec::{
    ExecError,
    window::{ForeignWindow, ForeignWindowStream},
};
use ogee_functions::{error::to_exec, exclusions::Exclusion};

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

/// A function over frames with exclusions.
#[derive(Debug)]
pub(super) struct Excluded {
    function: Arc<dyn WindowExpr>,
    exclusion: Exclusion,
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

impl Excluded {
    /// `function` without what `exclusion` says; `None` if it is not known what to do of it.
    pub(super) fn new(
        function: &Arc<dyn WindowExpr>,
        exclusion: Exclusion,
        input: &Schema,
        map: &[usize],
    ) -> Option<Self> {
        let value = match aggregate_of(function) {
            Some(aggregate) => {
                let is_plain = has_no_filter(function) && aggregate.order_bys().is_empty();
                is_plain.then_some(Value::Aggregate)?
            }
            None => chosen(function)?,
        };
        let (input, columns) = Arguments::of(function, input, map);
        Some(Self { function: Arc::clone(function), exclusion, value, columns, input })
    }

    /// What is left of `frame` for row `row`, of which `peers` are the peers.
    fn stretches(&self, frame: &Rows, row: usize, peers: &Rows) -> [Rows; 3] {
        let gone = match self.exclusion {
            Exclusion::CurrentRow => row..row + 1,
            Exclusion::Group | Exclusion::Ties => peers.clone(),
        };
        let is_tied = self.exclusion == Exclusion::Ties && frame.contains(&row);
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
        let mut last = 0..0;
        let mut group = 0;
        for row in 0..rows {
            while peers[group].end <= row {
                group += 1;
            }
            let frame = frames.calculate_range(&order, &last, rows, row)?;
            each(self.stretches(&frame, row, &peers[group]))?;
            last = frame;
        }
        Ok(())
    }

    fn evaluate_aggregate(&self, aggregate: &AggregateFunctionExpr, batch: &RecordBatch) -> Result<ArrayRef> {
        let args = self.function.evaluate_args(batch)?;
        let is_merged = MERGED.contains(&aggregate.fun().name()) && !aggregate.is_distinct();
        let tree = Tree::new(aggregate, args, is_merged)?;
        let mut values: Vec<ScalarValue> = Vec::with_capacity(batch.num_rows());
        let mut before = None;
        self.walk(batch, |stretches| {
            let value = match (&before, values.last()) {
                (Some(seen), Some(value)) if *seen == stretches => value.clone(),
                _ => tree.value(&stretches)?,
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

impl ForeignWindow for Excluded {
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
    /// From the bottom, the columns of states of each level.
    levels: Vec<Vec<ArrayRef>>,
}

impl<'a> Tree<'a> {
    /// `is_merged`: states can be merged in any order; there are none otherwise.
    fn new(aggregate: &'a AggregateFunctionExpr, args: Vec<ArrayRef>, is_merged: bool) -> Result<Self> {
        let mut tree = Self { aggregate, args, levels: Vec::new() };
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
        if level == 0 { sum.update_batch(&columns) } else { sum.merge_batch(&columns) }
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
