//! Window functions: DataFusion's expressions as kernels of the engine, or evaluated as they are, partition by partition.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::new_null_array,
        compute::cast,
        datatypes::{DataType, FieldRef, Schema, SchemaRef},
    },
    common::{
        ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{Operator, WindowFrame, WindowFrameBound, WindowFrameUnits},
    physical_expr::{
        LexOrdering, PhysicalExpr, PhysicalSortExpr,
        expressions::{BinaryExpr, Column, Literal},
        split_conjunction,
        window::{PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr},
    },
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        projection::{ProjectionExec, ProjectionExpr},
        windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr},
    },
};
use ogee_exec::{
    Expr,
    sort::SortKey,
    window::{
        Bound, Distance, Extent, Frame, LeadingRows, Unit, Wanted, Which, WindowCall, WindowFunction, WindowSpec,
    },
};
use ogee_functions::framed_rows::FramedRows;
use ogee_vector::{normalize_array, normalize_schema, normalize_type};

use super::{evaluator::Foreign, framed::Framed, sort::sort_keys};
use crate::expr::translate;

/// Window functions over the same partitions in the same order.
#[derive(Debug)]
pub struct Window {
    spec: WindowSpec,
    schema: SchemaRef,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    description: String,
    /// Rows come in the order of the node that this replaces.
    makes_order: bool,
}

/// What a node of DataFusion's computes.
type Functions<'p> = &'p [Arc<dyn WindowExpr>];
/// The node that another one reads.
type Input<'p> = &'p Arc<dyn ExecutionPlan>;

/// The functions of `plan`, if it is a window of DataFusion's, and its input.
fn functions(plan: &Arc<dyn ExecutionPlan>) -> Option<(Functions<'_>, Input<'_>)> {
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return Some((window.window_expr(), window.input()));
    }
    let window = plan.downcast_ref::<BoundedWindowAggExec>()?;
    // Who watches states sees them only in DataFusion's.
    window.state_observer().is_none().then(|| (window.window_expr(), window.input()))
}

/// `expr` over other columns: `map` says where each is.
fn remapped(expr: &Arc<dyn PhysicalExpr>, map: &[usize]) -> Option<Arc<dyn PhysicalExpr>> {
    let moved = Arc::clone(expr).transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), map[column.index()])) as Arc<dyn PhysicalExpr>))
    });
    moved.data().ok()
}

/// The longest order of `functions`: one node may have some without any, and some that are ordered by keys of their partitions.
fn longest_order(functions: &[Arc<dyn WindowExpr>]) -> &[PhysicalSortExpr] {
    functions.iter().map(|function| function.order_by()).max_by_key(|order| order.len()).unwrap_or_default()
}

/// Whether the orders of all `functions` are what one of them begins with.
fn has_one_order(functions: &[Arc<dyn WindowExpr>]) -> bool {
    let longest = longest_order(functions);
    functions.iter().all(|function| longest.starts_with(function.order_by()))
}

/// The functions of one node of DataFusion's.
struct Level<'p> {
    functions: Functions<'p>,
    /// Where the columns of their input are in the input of the lowest node so far.
    map: Vec<usize>,
}

impl Level<'_> {
    fn partition_by(&self) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
        self.functions[0].partition_by().iter().map(|expr| remapped(expr, &self.map)).collect()
    }

    fn order_by(&self) -> Option<Vec<PhysicalSortExpr>> {
        let sorts = longest_order(self.functions).iter();
        sorts
            .map(|sort| Some(PhysicalSortExpr { expr: remapped(&sort.expr, &self.map)?, options: sort.options }))
            .collect()
    }

    /// Whether this and `lower`, over an input of `width` columns, are over the same partitions, the order of one goes on from that of the
    /// other, and no function reads a value of `lower`.
    fn shares_sort(&self, lower: &[Arc<dyn WindowExpr>], width: usize) -> bool {
        let (Some(partition_by), Some(order_by)) = (self.partition_by(), self.order_by()) else { return false };
        let reads_input = |function: &Arc<dyn WindowExpr>| {
            has_no_filter(function)
                && reads(function, self.map.len()).iter().all(|&column| self.map[column] < width)
                && columns_of(function.partition_by()).iter().all(|&column| self.map[column] < width)
        };
        // Of rows that one of them sorts, the other would have the order, where it wants that in which they lie.
        let is_free = |functions: &[Arc<dyn WindowExpr>]| {
            longest_order(functions).is_empty() && functions.iter().any(depends_on_order)
        };
        let sorts = !order_by.is_empty() || !longest_order(lower).is_empty();
        self.functions.iter().all(reads_input)
            && !(sorts && (is_free(self.functions) || is_free(lower)))
            && partition_by == lower[0].partition_by()
            && order_by.iter().zip(longest_order(lower)).all(|(a, b)| a == b)
    }
}

/// Where a column of the topmost node comes from.
#[derive(Clone, Copy)]
enum Slot {
    /// The input of the lowest node so far.
    Input(usize),
    /// A function: of which level, and which of it.
    Value(usize, usize),
}

/// The columns that `plan` passes on, if it does nothing else, and its input.
fn only_columns(plan: &Arc<dyn ExecutionPlan>) -> Option<(Vec<usize>, Input<'_>)> {
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let column = |expr: &ProjectionExpr| Some(expr.expr.downcast_ref::<Column>()?.index());
    Some((projection.expr().iter().map(column).collect::<Option<_>>()?, projection.input()))
}

/// The columns that `exprs` read, ascending.
pub(super) fn columns_of<'a>(exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Vec<usize> {
    let mut columns = Vec::new();
    for expr in exprs {
        // The visitor never fails.
        let _ = expr.apply(|node| {
            if let Some(column) = node.downcast_ref::<Column>() {
                columns.push(column.index());
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// What `function` reads: its arguments, its order, and, where there may be one, its filter, which it does not tell: all columns then.
pub(super) fn reads(function: &Arc<dyn WindowExpr>, columns: usize) -> Vec<usize> {
    if !has_no_filter(function) {
        return (0..columns).collect();
    }
    let mut exprs = function.expressions();
    exprs.extend(function.order_by().iter().map(|sort| Arc::clone(&sort.expr)));
    columns_of(&exprs)
}

/// Whether the values of `function`, which has no order, depend on which row of a partition comes first.
fn depends_on_order(function: &Arc<dyn WindowExpr>) -> bool {
    if let Some(standard) = function.as_any().downcast_ref::<StandardWindowExpr>() {
        let udwf = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>();
        let peers = ["rank", "dense_rank", "percent_rank", "cume_dist"];
        return udwf.is_none_or(|udwf| !peers.contains(&udwf.fun().name()));
    }
    let known = ["avg", "count", "max", "min", "sum"];
    let name = match function.as_any().downcast_ref::<PlainAggregateWindowExpr>() {
        Some(plain) => plain.get_aggregate_expr().fun().name().to_owned(),
        None => return true,
    };
    let frame = function.get_window_frame();
    let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
    !known.contains(&name.as_str()) || frame.units == WindowFrameUnits::Rows && !is_whole
}

/// Functions other than aggregates have no filter; of aggregates it is the last field.
pub(super) fn has_no_filter(function: &Arc<dyn WindowExpr>) -> bool {
    function.as_any().is::<StandardWindowExpr>() || format!("{function:?}").ends_with("filter: None }")
}

impl Window {
    /// What `plan` computes, the columns of that which it gives out (all, in order, if `None`), and the input that it does it to; `None` if it
    /// is no window, or the engine cannot keep its rows.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<(Self, Option<Vec<usize>>, Input<'_>)> {
        let (top, mut input) = functions(plan).filter(|(functions, _)| has_one_order(functions))?;
        let width = input.schema().fields().len();
        // Several nodes over one sort are one window.
        let mut levels = vec![Level { functions: top, map: (0..width).collect() }];
        let mut slots: Vec<Slot> = (0..width).map(Slot::Input).collect();
        slots.extend((0..top.len()).map(|function| Slot::Value(0, function)));
        loop {
            let (columns, node) = match only_columns(input) {
                Some((columns, node)) => (columns, node),
                None => ((0..input.schema().fields().len()).collect(), input),
            };
            let Some((lower, below)) = functions(node) else { break };
            let width = below.schema().fields().len();
            let moved: Vec<Level<'_>> = levels
                .iter()
                .map(|level| Level {
                    functions: level.functions,
                    map: level.map.iter().map(|&column| columns.get(column).copied().unwrap_or(usize::MAX)).collect(),
                })
                .collect();
            if !has_one_order(lower) || !moved.iter().all(|level| level.shares_sort(lower, width)) {
                break;
            }
            for slot in &mut slots {
                if let Slot::Input(column) = *slot {
                    *slot = match columns[column].checked_sub(width) {
                        Some(function) => Slot::Value(levels.len(), function),
                        None => Slot::Input(columns[column]),
                    };
                }
            }
            levels = moved;
            levels.push(Level { functions: lower, map: (0..width).collect() });
            input = below;
        }
        // Values of the lowest level come first.
        let schema = input.schema();
        let mut firsts = vec![0; levels.len()];
        let mut end = schema.fields().len();
        for (level, first) in levels.iter().zip(&mut firsts).rev() {
            *first = end;
            end += level.functions.len();
        }
        let columns: Vec<usize> = slots
            .iter()
            .map(|slot| match *slot {
                Slot::Input(column) => column,
                Slot::Value(level, function) => firsts[level] + function,
            })
            .collect();
        let whole = columns.iter().copied().eq(0..end);
        let longest = levels.iter().max_by_key(|level| longest_order(level.functions).len())?;
        let (framed, partition_by) = FramedRows::of(&longest.partition_by()?);
        let mut order_by = longest.order_by()?;
        let mut makes_order = false;
        // A sort below is by the keys that say something of frames, too.
        if partition_by.is_empty()
            && framed.is_empty()
            && let Some(order) = input.output_ordering()
            && order.len() >= order_by.len()
            && order.iter().zip(&order_by).all(|(a, b)| a == b)
        {
            order_by = order.to_vec();
            makes_order = true;
        }
        let options = Default::default();
        let partition_keys: Vec<PhysicalSortExpr> =
            partition_by.iter().map(|expr| PhysicalSortExpr { expr: Arc::clone(expr), options }).collect();
        let order_keys: Vec<SortKey> = sort_keys(&order_by, &schema)?;
        let mut calls = Vec::new();
        let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
        let mut names = Vec::new();
        let mut expressions = partition_by.clone();
        expressions.extend(order_by.iter().map(|sort| Arc::clone(&sort.expr)));
        for level in levels.iter().rev() {
            for function in level.functions {
                calls.push(call_of(function, &schema, &level.map)?);
                fields.push(function.field().ok()?);
                names.push(function.name());
                let args = function.expressions();
                expressions.extend(args.iter().map(|arg| remapped(arg, &level.map)).collect::<Option<Vec<_>>>()?);
            }
        }
        let declared = Arc::new(Schema::new(fields));
        let spec = WindowSpec {
            partition_by: sort_keys(&partition_keys, &schema)?,
            order_by: order_keys,
            calls,
            leading: None,
            input: normalize_schema(&schema),
            schema: normalize_schema(&declared),
        };
        let keys: Vec<_> = partition_by.iter().map(ToString::to_string).collect();
        let order = LexOrdering::new(order_by.iter().cloned()).map_or_else(String::new, |order| order.to_string());
        let description =
            format!("partition_by=[{}], order_by=[{order}], functions=[{}]", keys.join(", "), names.join(", "));
        let window = Self { spec, schema: declared, expressions, description, makes_order };
        window.spec.is_supported().then_some((window, (!whole).then_some(columns), input))
    }

    /// The columns that come out, in declared types.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The same, where only rows are wanted for which column `column` is at most `most`: if that is their number or rank, the others need not be
    /// kept while rows are sorted. `None` if it is not, or some function looks at rows that come later.
    pub fn limited(&self, column: usize, most: u64) -> Option<Self> {
        let call = self.spec.calls.get(column.checked_sub(self.spec.input.fields().len())?)?;
        let wanted = match call.function {
            WindowFunction::RowNumber => Wanted::Rows,
            WindowFunction::Rank => Wanted::Peers,
            WindowFunction::DenseRank => Wanted::Groups,
            _ => return None,
        };
        let looks_back = |other: &WindowCall| {
            use WindowFunction as W;
            matches!(other.function, W::RowNumber | W::Rank | W::DenseRank) && other.order_keys == call.order_keys
        };
        if most == 0 || self.spec.leading.is_some() || !self.spec.calls.iter().all(looks_back) {
            return None;
        }
        let rows = usize::try_from(most).ok()?;
        let spec = WindowSpec { leading: Some(LeadingRows { rows, wanted }), ..self.spec.clone() };
        let description = format!("{}, first={rows}", self.description);
        Some(Self {
            spec,
            schema: Arc::clone(&self.schema),
            expressions: self.expressions.clone(),
            description,
            makes_order: self.makes_order,
        })
    }

    /// The specification, for one run.
    pub fn spec(&self) -> WindowSpec {
        self.spec.clone()
    }

    /// Whether rows come in the order of the node that this replaces.
    pub fn makes_order(&self) -> bool {
        self.makes_order
    }

    /// The expressions over the input.
    pub fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.expressions.clone()
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

/// The columns that `predicate` bounds from above, each with the greatest value that passes.
pub fn upper_bounds(predicate: &Arc<dyn PhysicalExpr>) -> Vec<(usize, u64)> {
    let bound = |part: &Arc<dyn PhysicalExpr>| {
        let binary = part.downcast_ref::<BinaryExpr>()?;
        let (column, op, value) = match binary.left().downcast_ref::<Column>() {
            Some(column) => (column, *binary.op(), literal(Some(binary.right()))?),
            None => (binary.right().downcast_ref::<Column>()?, binary.op().swap()?, literal(Some(binary.left()))?),
        };
        let ScalarValue::Int64(Some(value)) = *value else { return None };
        // Of what counts from one, none is below.
        let value = u64::try_from(value).unwrap_or(0);
        match op {
            Operator::LtEq | Operator::Eq => Some((column.index(), value)),
            Operator::Lt => Some((column.index(), value.checked_sub(1)?)),
            _ => None,
        }
    };
    split_conjunction(predicate).into_iter().filter_map(bound).collect()
}

/// `function`, as the engine runs it. The columns of its input are those of `input` that `map` says.
fn call_of(function: &Arc<dyn WindowExpr>, input: &Schema, map: &[usize]) -> Option<WindowCall> {
    let output = normalize_type(function.field().ok()?.data_type());
    let call = |(function_kind, arg, key): Native| WindowCall {
        function: function_kind,
        arg,
        key,
        order_keys: function.order_by().len(),
        output: output.clone(),
    };
    let (framed, _) = FramedRows::of(function.partition_by());
    if !framed.is_empty() && has_frame(function) {
        let framed = Framed::new(function, framed, input, map)?;
        return Some(call((WindowFunction::Foreign(Arc::new(framed)), None, None)));
    }
    let native = native_of(function, input, map).map(call).filter(ogee_exec::window::supports_call);
    native.or_else(|| Some(call((WindowFunction::Foreign(Arc::new(Foreign::new(function, input, map))), None, None))))
}

/// Whether the value of `function` depends on its frame.
fn has_frame(function: &Arc<dyn WindowExpr>) -> bool {
    let Some(standard) = function.as_any().downcast_ref::<StandardWindowExpr>() else { return true };
    let udwf = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>();
    udwf.is_none_or(|udwf| {
        let name = udwf.fun().name();
        matches!(name, "first_value" | "last_value" | "nth_value") || name.starts_with("ogee_ordered_")
    })
}

/// An expression over the input, and its normalized type.
type Typed = (Expr, DataType);
/// A function with its argument, and the key of the order where its frame asks for distances.
type Native = (WindowFunction, Option<Typed>, Option<Typed>);

/// The extent of a frame that begins with its partition and ends where the engine has a kernel for it.
fn extent_of(frame: &WindowFrame) -> Option<Extent> {
    if !matches!(&frame.start_bound, bound @ WindowFrameBound::Preceding(_) if bound.is_unbounded()) {
        return None;
    }
    match (&frame.end_bound, frame.units) {
        (WindowFrameBound::CurrentRow, WindowFrameUnits::Rows) => Some(Extent::Row),
        (WindowFrameBound::CurrentRow, _) => Some(Extent::Peers),
        (bound @ WindowFrameBound::Following(_), _) if bound.is_unbounded() => Some(Extent::Partition),
        _ => None,
    }
}

/// The extent of a frame of rows at fixed distances from the current one.
fn rows_of(frame: &WindowFrame) -> Option<Extent> {
    if frame.units != WindowFrameUnits::Rows {
        return None;
    }
    let distance = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows))) => i64::try_from(*rows).ok().map(|rows| -rows),
        WindowFrameBound::Following(ScalarValue::UInt64(Some(rows))) => i64::try_from(*rows).ok(),
        _ => None,
    };
    let end = distance(&frame.end_bound)?;
    let start = match &frame.start_bound {
        WindowFrameBound::Preceding(_) if frame.start_bound.is_unbounded() => None,
        bound => Some(distance(bound).filter(|&start| start <= end)?),
    };
    Some(Extent::Rows { start, end })
}

/// The frame of `function`, whatever it is, if all in it is constant and of the order's types.
fn frame_of(function: &Arc<dyn WindowExpr>) -> Option<Frame> {
    let frame = function.get_window_frame();
    let options = function.order_by().first().map(|sort| sort.options).unwrap_or_default();
    let key = function.order_by().first();
    let count = |value: &ScalarValue| match value {
        ScalarValue::UInt64(Some(count)) => usize::try_from(*count).ok(),
        _ => None,
    };
    let unit = |value: &ScalarValue| {
        Some(match frame.units {
            WindowFrameUnits::Rows => Unit::Rows(count(value)?),
            WindowFrameUnits::Groups => Unit::Groups(count(value)?),
            WindowFrameUnits::Range => Unit::Values(distance(value)?),
        })
    };
    let bound = |bound: &WindowFrameBound| {
        Some(match bound {
            WindowFrameBound::CurrentRow if frame.units == WindowFrameUnits::Rows => {
                Bound::At { unit: Unit::Rows(0), following: false }
            }
            WindowFrameBound::CurrentRow => Bound::At { unit: Unit::Groups(0), following: false },
            bound if bound.is_unbounded() => Bound::Unbounded,
            WindowFrameBound::Preceding(value) => Bound::At { unit: unit(value)?, following: false },
            WindowFrameBound::Following(value) => Bound::At { unit: unit(value)?, following: true },
        })
    };
    let frame = Frame {
        start: bound(&frame.start_bound)?,
        end: bound(&frame.end_bound)?,
        descending: options.descending,
        nulls_first: options.nulls_first,
    };
    (!frame.has_key() || key.is_some()).then_some(frame)
}

fn distance(value: &ScalarValue) -> Option<Distance> {
    Some(match value {
        ScalarValue::Decimal128(Some(value), ..) => Distance::Integer(*value),
        ScalarValue::Float64(Some(value)) => Distance::Float(*value),
        ScalarValue::Float32(Some(value)) => Distance::Float((*value).into()),
        ScalarValue::IntervalMonthDayNano(Some(value)) => Distance::Interval(*value),
        value if value.data_type().is_integer() => match value.cast_to(&DataType::Decimal128(38, 0)).ok()? {
            ScalarValue::Decimal128(Some(value), ..) => Distance::Integer(value),
            _ => return None,
        },
        _ => return None,
    })
}

pub(super) fn literal(expr: Option<&Arc<dyn PhysicalExpr>>) -> Option<&ScalarValue> {
    expr.and_then(|expr| expr.downcast_ref::<Literal>()).map(Literal::value)
}

/// The kernel for `function` and its argument; `None` if there is none.
fn native_of(function: &Arc<dyn WindowExpr>, input: &Schema, map: &[usize]) -> Option<Native> {
    use WindowFunction as W;
    let arg_of = |expr: &Arc<dyn PhysicalExpr>| {
        let expr = remapped(expr, map)?;
        let data_type = normalize_type(&expr.data_type(input).ok()?);
        Some((translate(&expr, input).ok()?, data_type))
    };
    let frame = function.get_window_frame();
    let key_of = |frame: Frame| match function.order_by().first().filter(|_| frame.has_key()) {
        Some(sort) => arg_of(&sort.expr).map(Some),
        None => Some(None),
    };
    if let Some(standard) = function.as_any().downcast_ref::<StandardWindowExpr>() {
        let udwf = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
        // Neither is told in any other way.
        let told = format!("{udwf:?}");
        let ignore_nulls = told.ends_with("is_reversed: false, ignore_nulls: true }");
        if !ignore_nulls && !told.ends_with("is_reversed: false, ignore_nulls: false }") {
            return None;
        }
        let args = udwf.args();
        let chosen = |which| {
            let frame = frame_of(function)?;
            Some((W::Chosen { which, frame, ignore_nulls }, Some(arg_of(args.first()?)?), key_of(frame)?))
        };
        let (kernel, arg) = match udwf.fun().name() {
            "first_value" | "last_value" if ignore_nulls => {
                return chosen(if udwf.fun().name() == "last_value" { Which::Last } else { Which::Nth(1) });
            }
            "nth_value" => {
                let ScalarValue::Int64(Some(n)) = literal(args.get(1))?.cast_to(&DataType::Int64).ok()? else {
                    return None;
                };
                return chosen(Which::Nth(usize::try_from(n).ok().filter(|&n| n > 0)?));
            }
            _ if ignore_nulls => return None,
            "row_number" => (W::RowNumber, None),
            "rank" => (W::Rank, None),
            "dense_rank" => (W::DenseRank, None),
            "percent_rank" => (W::PercentRank, None),
            "cume_dist" => (W::CumeDist, None),
            "ntile" => {
                let ScalarValue::Int64(Some(buckets)) = literal(args.first())?.cast_to(&DataType::Int64).ok()? else {
                    return None;
                };
                (W::Ntile(u64::try_from(buckets).ok().filter(|&buckets| buckets > 0)?), None)
            }
            name @ ("lag" | "lead") => {
                let arg = arg_of(args.first()?)?;
                let offset = match args.get(1) {
                    None => 1,
                    offset => match literal(offset)?.cast_to(&DataType::Int64).ok()? {
                        ScalarValue::Int64(Some(offset)) => offset,
                        _ => return None,
                    },
                };
                let default = match args.get(2) {
                    None => new_null_array(&arg.1, 1),
                    default => {
                        let default = literal(default)?.to_array_of_size(1).ok()?;
                        cast(&normalize_array(&default).ok()?, &arg.1).ok()?
                    }
                };
                if arg.1 != normalize_type(function.field().ok()?.data_type()) {
                    return None;
                }
                let offset = if name == "lag" { offset } else { offset.checked_neg()? };
                (W::Shift { offset, default }, Some(arg))
            }
            "first_value" => {
                let sees_itself =
                    matches!(frame.end_bound, WindowFrameBound::CurrentRow | WindowFrameBound::Following(_));
                let from_start = extent_of(&WindowFrame::new_bounds(
                    frame.units,
                    frame.start_bound.clone(),
                    WindowFrameBound::CurrentRow,
                ));
                if from_start.is_none() || !sees_itself {
                    return chosen(Which::Nth(1));
                }
                (W::FirstValue, Some(arg_of(args.first()?)?))
            }
            "last_value" => match extent_of(frame) {
                Some(extent) => (W::LastValue(extent), Some(arg_of(args.first()?)?)),
                None => return chosen(Which::Last),
            },
            _ => return None,
        };
        return Some((kernel, arg, None));
    }
    let call = match function.as_any().downcast_ref::<PlainAggregateWindowExpr>() {
        Some(plain) => plain.get_aggregate_expr(),
        None => function.as_any().downcast_ref::<SlidingAggregateWindowExpr>()?.get_aggregate_expr(),
    };
    if !has_no_filter(function) || call.is_distinct() || !call.order_bys().is_empty() || call.ignore_nulls() {
        return None;
    }
    let extent = extent_of(frame).or_else(|| rows_of(frame)).or_else(|| frame_of(function).map(Extent::Frame))?;
    let key = match extent {
        Extent::Frame(frame) => key_of(frame)?,
        _ => None,
    };
    let args = call.expressions();
    let [arg] = args.as_slice() else { return None };
    if call.fun().name() == "count" && literal(Some(arg)).is_some_and(|value| !value.is_null()) {
        return Some((W::Count(extent), None, key));
    }
    let arg = arg_of(arg)?;
    let kernel = match call.fun().name() {
        "count" => W::Count(extent),
        "sum" => W::Sum(extent),
        "avg" => W::Avg(extent),
        "min" => W::Min(extent),
        "max" => W::Max(extent),
        _ => return None,
    };
    Some((kernel, Some(arg), key))
}
