//! Aggregates whose frame leaves rows behind.
//!
//! DataFusion takes what a row added out of an aggregate again. `bit_xor` is then 0 of no values, and not NULL. Variances, correlations and regressions lose digits by that, and are NaN for ever after one infinity; the least struct is forgotten
//! with the greatest; and what nothing can be taken out of (`string_agg`, `arg_max`, `mode`, ..) is refused. An analyzer rule has these aggregates put together instead:
//!
//! * From two stacks, where rows may be merged in any order ([`Stacks`]): the rows that came last are one aggregate, those before have the aggregate of each and of all behind it, of every
//!   [`BLOCK`]th row only (Tangwongsan et al., "General incremental sliding-window aggregation", PVLDB 2015, call it two-stacks).
//! * From all rows of the frame otherwise ([`Frame`]).
//!
//! Lists and texts of a frame are in its order, whatever it leaves behind: DataFusion turns a window around that is beside one of the opposite order, and would turn them as well.
//!
//! Upstream: apache/datafusion#19612 is one of the kind.
//!
//! Not here: sums, counts and extrema, which are the engine's (`ogee_exec::window`).

use std::{
    collections::VecDeque,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef},
        compute::concat,
        datatypes::{DataType, FieldRef, Schema},
    },
    common::{
        Result, ScalarValue,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, LogicalPlan, ReversedUDAF,
        Signature, WindowFunctionDefinition,
        expr::AggregateFunctionParams,
        expr::WindowFunctionParams,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
    optimizer::AnalyzerRule,
    physical_expr::{PhysicalExpr, PhysicalSortExpr},
};

use ogee_exec::ExecError;
use ogee_functions::{error::to_datafusion, framed_rows::FramedRows};

use crate::{checkpoint, context::StatementContext, distinct_arguments, kept_names, trees::Nodes};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SlidingFrames;

impl AnalyzerRule for SlidingFrames {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(
            |node| matches!(node, LogicalPlan::Window(_)),
            |node| kept_names::map_expressions(node, |expr| Ok(in_call(expr))),
        )
        .data()
    }

    fn name(&self) -> &str {
        "sliding_frames"
    }
}

/// `expr` with its aggregate put together anew, if its frame leaves rows behind.
fn in_call(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Alias(mut alias) => in_call(std::mem::take(&mut *alias.expr)).update_data(|inner| {
            *alias.expr = inner;
            Expr::Alias(alias)
        }),
        Expr::WindowFunction(mut call) => {
            let WindowFunctionDefinition::AggregateUDF(function) = &call.fun else {
                return Transformed::no(Expr::WindowFunction(call));
            };
            // Put together by whoever knows what is left of the frame.
            let is_framed = FramedRows::is_among(&call.params.partition_by);
            let frame = &call.params.window_frame;
            let leaves_rows = !frame.start_bound.is_unbounded();
            // Turned around, with the window, a frame that ends before the last row leaves rows behind.
            let may_leave = !frame.end_bound.is_unbounded() && !matches!(function.name(), "min" | "max");
            let is_kept = matches!(function.name(), "array_agg" | "string_agg")
                || may_leave && Way::of(function.name()).is_some();
            let in_order = is_kept.then_some(Way::InOrder);
            let way = Way::of(function.name()).filter(|_| leaves_rows).or(in_order);
            // Of values that differ, nothing can be taken out of these.
            let is_distinct = call.params.distinct && leaves_rows && function.name() == "avg";
            let way = way.or(is_distinct.then_some(Way::Frame));
            let way = if is_framed { Some(Way::InOrder) } else { way };
            let Some(way) = way else { return Transformed::no(Expr::WindowFunction(call)) };
            let statement = Statement(checkpoint::current());
            let function = AggregateUDF::new_from_impl(Anew { inner: Arc::clone(function), way, statement });
            call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(function));
            Transformed::yes(Expr::WindowFunction(call))
        }
        other => Transformed::no(other),
    }
}

/// How an aggregate is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    Stacks,
    Frame,
    /// From all rows, unless the aggregate says that rows can be taken out of it.
    Unless,
    /// As the aggregate does it, from the first row to the last.
    InOrder,
}

impl Way {
    /// That of the aggregate `name`; `None` where DataFusion's is right.
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "var" | "var_pop" | "var_samp" | "stddev" | "stddev_pop" | "covar_samp" | "covar_pop" | "corr" | "min"
            | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or" | "bit_xor" | "nested_min" | "nested_max" => {
                Self::Stacks
            }
            "product" | "sem" | "skewness" | "kurtosis" | "kurtosis_pop" | "decimal_average" | "bitstring_agg" => {
                Self::Stacks
            }
            name if name.starts_with("regr_") || name.contains("arg_max_") || name.contains("arg_min_") => Self::Stacks,
            "ogee_max_n" | "ogee_min_n" | "ogee_histogram" | "histogram_exact" => Self::Stacks,
            name if name.starts_with(distinct_arguments::PREFIX) => Self::Frame,
            "arg_min"
            | "arg_max"
            | "nested_arg_min"
            | "nested_arg_max"
            | "mode"
            | "histogram"
            | "quantile_disc"
            | "percentile_cont"
            | "mad"
            | "string_agg"
            | "any_value"
            | "approx_distinct"
            | "approx_median"
            | "approx_percentile_cont" => Self::Frame,
            // DataFusion takes rows out of these, or looks at all of them.
            "count" | "sum" | "avg" | "first_value" | "last_value" | "nth_value" | "array_agg" => {
                return None;
            }
            _ => Self::Unless,
        })
    }
}

/// An aggregate that is put together for each frame.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Anew {
    inner: Arc<AggregateUDF>,
    way: Way,
    statement: Statement,
}

/// The statement that frames are of. It takes no part in comparisons.
#[derive(Clone)]
struct Statement(Option<Arc<StatementContext>>);

impl Statement {
    /// # Errors
    /// It was interrupted: DataFusion goes through the frames of a partition without a pause.
    fn check(&self) -> Result<()> {
        let is_interrupted = self.0.as_ref().is_some_and(|statement| statement.is_interrupted());
        if is_interrupted { Err(to_datafusion(ExecError::Cancelled)) } else { Ok(()) }
    }
}

impl PartialEq for Statement {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Statement {}

impl Hash for Statement {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("statement")
    }
}

impl AggregateUDFImpl for Anew {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arg_fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.statement.check()?;
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.way == Way::InOrder {
            return self.inner.create_sliding_accumulator(args);
        }
        let maker = Maker::new(&self.inner, &self.statement, &args);
        if self.way == Way::Unless
            && !args.is_distinct
            && let Ok(sliding) = self.inner.create_sliding_accumulator(args.clone())
            && sliding.supports_retract_batch()
        {
            return Ok(sliding);
        }
        Ok(match self.way {
            Way::Stacks if !args.is_distinct => {
                let last = maker.make()?;
                Box::new(Stacks { maker, last, last_rows: Rows::default(), first: Rows::default(), states: Vec::new() })
            }
            _ => Box::new(Frame { maker, rows: Rows::default() }),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        if self.way == Way::InOrder {
            return ReversedUDAF::NotSupported;
        }
        match self.inner.inner().reverse_expr() {
            ReversedUDAF::Identical => ReversedUDAF::Identical,
            _ => ReversedUDAF::NotSupported,
        }
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Makes accumulators of one aggregate.
#[derive(Debug)]
struct Maker {
    function: Arc<AggregateUDF>,
    statement: Statement,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Maker {
    fn new(function: &Arc<AggregateUDF>, statement: &Statement, args: &AccumulatorArgs<'_>) -> Self {
        Self {
            function: Arc::clone(function),
            statement: statement.clone(),
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_owned(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    /// # Errors
    /// The statement was interrupted.
    fn make(&self) -> Result<Box<dyn Accumulator>> {
        self.statement.check()?;
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

/// Arguments of rows that come at the end and leave at the front, in pieces.
#[derive(Default)]
struct Rows {
    pieces: VecDeque<Vec<ArrayRef>>,
    /// How many of the first piece have left.
    left: usize,
    len: usize,
}

/// So many rows are one piece at most.
const BLOCK: usize = 64;

impl Rows {
    fn push(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values[0].len();
        self.len += rows;
        for from in (0..rows).step_by(BLOCK) {
            self.pieces.push_back(values.iter().map(|array| array.slice(from, BLOCK.min(rows - from))).collect());
        }
        // Rows come one by one: every so many are put together, and these then again.
        while let Some(at) = self.pieces.len().checked_sub(2).filter(|&at| at > 0) {
            let (before, last) = (&self.pieces[at], &self.pieces[at + 1]);
            if before[0].len() > last[0].len() || before[0].len() + last[0].len() > BLOCK {
                break;
            }
            let both = before.iter().zip(last).map(|(before, last)| Ok(concat(&[before, last])?));
            let both = both.collect::<Result<Vec<_>>>()?;
            self.pieces.truncate(at);
            self.pieces.push_back(both);
        }
        Ok(())
    }

    fn pop(&mut self, mut rows: usize) {
        self.len -= rows;
        while rows > 0 {
            let piece = self.pieces[0][0].len() - self.left;
            if rows < piece {
                self.left += rows;
                return;
            }
            rows -= piece;
            self.left = 0;
            self.pieces.pop_front();
        }
    }

    /// The pieces, in order.
    fn each(&self) -> impl DoubleEndedIterator<Item = Vec<ArrayRef>> {
        self.pieces.iter().enumerate().map(|(at, piece)| {
            let from = if at == 0 { self.left } else { 0 };
            piece.iter().map(|array| array.slice(from, array.len() - from)).collect()
        })
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.len)
    }
}

/// All rows of a frame.
#[derive(Debug)]
struct Frame {
    maker: Maker,
    rows: Rows,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows.push(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows.pop(values[0].len());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut all = self.maker.make()?;
        self.rows.each().try_for_each(|piece| all.update_batch(&piece))?;
        all.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut all = self.maker.make()?;
        self.rows.each().try_for_each(|piece| all.update_batch(&piece))?;
        all.state()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        datafusion::common::internal_err!("frames are not merged")
    }
}

/// A frame in two parts: aggregates of the first from each row on, and one aggregate of the last.
#[derive(Debug)]
struct Stacks {
    maker: Maker,
    last: Box<dyn Accumulator>,
    last_rows: Rows,
    first: Rows,
    /// Of the pieces of `first` from each one on, the last one's first.
    states: Vec<Vec<ScalarValue>>,
}

impl Stacks {
    /// Makes the last part the first.
    fn turn(&mut self) -> Result<()> {
        self.first = std::mem::take(&mut self.last_rows);
        self.states.clear();
        let mut behind = self.maker.make()?;
        // The first piece is never asked for as a whole.
        for piece in self.first.each().rev().take(self.first.pieces.len().saturating_sub(1)) {
            behind.update_batch(&piece)?;
            self.states.push(behind.state()?);
        }
        self.last = self.maker.make()?;
        Ok(())
    }

    fn whole(&mut self) -> Result<Box<dyn Accumulator>> {
        let mut whole = self.maker.make()?;
        let merge = |whole: &mut Box<dyn Accumulator>, state: &[ScalarValue]| {
            let state: Vec<ArrayRef> = state.iter().map(|value| value.to_array()).collect::<Result<_>>()?;
            whole.merge_batch(&state)
        };
        if let Some(piece) = self.first.each().next() {
            whole.update_batch(&piece)?;
        }
        if let Some(behind) = self.states.last() {
            merge(&mut whole, behind)?;
        }
        if self.last_rows.len > 0 {
            let state = self.last.state()?;
            merge(&mut whole, &state)?;
        }
        Ok(whole)
    }
}

impl Accumulator for Stacks {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.last.update_batch(values)?;
        self.last_rows.push(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut rows = values[0].len();
        while rows > 0 {
            if self.first.len == 0 {
                self.turn()?;
            }
            let pieces = self.first.pieces.len();
            let of_first = rows.min(self.first.len);
            self.first.pop(of_first);
            rows -= of_first;
            let gone = pieces - self.first.pieces.len();
            self.states.truncate(self.states.len().saturating_sub(gone));
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.whole()?.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.whole()?.state()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        datafusion::common::internal_err!("frames are not merged")
    }
}
