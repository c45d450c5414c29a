//! Grouping below joins: an aggregation in two steps, of which the first groups the rows that a join takes by what the join and the
//! groups need to know of them.
//!
//! After Yan and Larson, "Eager aggregation and lazy aggregation" (VLDB 1995). All arguments are of one input of the join, and the join keeps or repeats
//! that input's rows by their keys alone (an inner join, or an outer, semi or anti join that it is the outer side of): rows that are
//! equal in all columns that anyone above looks at have the same fate, so that a state of them may go through the join in their place. What
//! the join repeats, it repeats with its state, which is then merged as often.
//!
//! Which rows an argument counts for may be up to the other input, as in `sum(CASE WHEN d_day = 'Sunday' THEN price END)`: that is one thing for all rows
//! of a combination and one row of the other input, so it is asked about states instead, and several such calls share one.
//!
//! Worth it where the input has many rows for each combination: string columns that come from the other input are then gathered and hashed once for
//! each combination, and not for each row. Rows and combinations are estimates; no answer depends on them.

use std::{collections::HashMap, fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    common::{
        JoinSide, JoinType,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        aggregate::AggregateFunctionExpr,
        expressions::{BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr},
        utils::collect_columns,
    },
    physical_expr_common::physical_expr::is_volatile,
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy},
        joins::{
            HashJoinExec, HashJoinExecBuilder, PartitionMode,
            utils::{ColumnIndex, JoinFilter, build_join_schema},
        },
        projection::{ProjectionExec, ProjectionExpr},
    },
};
use ogee_exec::aggregate::{AggregateCall, after_join, before_join, state_types};

use crate::{
    expr::translate_predicate,
    join_order::Estimates,
    node::{Node, Work},
    operators::{Aggregate, Join, described},
};

type Expr = Arc<dyn PhysicalExpr>;

/// Rows below which planning costs more than is saved.
const ROWS_MIN: f64 = 50_000.0;

/// How much of the cost must be saved, estimates being what they are.
const SAVED_MIN: f64 = 0.35;

/// One of the two steps.
#[derive(Debug)]
pub struct Step {
    /// What it does.
    pub aggregate: Aggregate,
    /// What it groups by.
    pub keys: PhysicalGroupBy,
}

/// A step as a node of a plan.
pub type StepExec = Node<Step>;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.aggregate.fmt(f)
    }
}

impl Work for Step {
    const NAME: &'static str = "StepExec";

    fn expressions(&self) -> Vec<Expr> {
        self.aggregate.expressions()
    }
}

/// A call's arguments and its filter, over the rows of the node that was reached.
#[derive(Clone)]
struct Arguments {
    exprs: Vec<Expr>,
    filter: Option<Expr>,
}

impl Arguments {
    fn all(&self) -> impl Iterator<Item = &Expr> {
        self.exprs.iter().chain(&self.filter)
    }

    /// With `replace` for each column.
    fn over(&self, replace: &dyn Fn(&Column) -> Option<Expr>) -> Option<Self> {
        let exprs = self.exprs.iter().map(|expr| substituted(expr, replace)).collect::<Option<_>>()?;
        let filter = match &self.filter {
            Some(filter) => Some(substituted(filter, replace)?),
            None => None,
        };
        Some(Self { exprs, filter })
    }
}

fn substituted(expr: &Expr, replace: &dyn Fn(&Column) -> Option<Expr>) -> Option<Expr> {
    let mut lost = false;
    let rewritten = Arc::clone(expr).transform_down(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        match replace(column) {
            // What is put in is not looked at again: its columns are those of another node.
            Some(expr) => Ok(Transformed::new(expr, true, TreeNodeRecursion::Jump)),
            None => {
                lost = true;
                Ok(Transformed::no(node))
            }
        }
    });
    rewritten.data().ok().filter(|_| !lost)
}

/// A node between the two steps, and which of its columns are looked at above it, ascending.
enum Above<'p> {
    Join { join: &'p HashJoinExec, grouped: JoinSide, needed: Vec<usize> },
    Project { exprs: &'p [ProjectionExpr], needed: Vec<usize> },
}

/// What a gathered or hashed value of a type costs, that of a number being 1.
fn weight(data_type: &DataType) -> f64 {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => 3.0,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => 3.0,
        data_type if data_type.is_nested() => 5.0,
        _ => 1.0,
    }
}

/// What handling a row costs beside its columns.
const ROW: f64 = 3.0;

fn weights(schema: &Schema, columns: &[usize]) -> f64 {
    columns.iter().map(|&column| weight(schema.field(column).data_type())).sum()
}

/// Whether equal values of this type are the same value to everyone: zeros of floats differ in their signs.
fn is_identified(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => false,
        data_type => !data_type.is_nested(),
    }
}

/// Digits of a number before its point, and after it.
fn digits(data_type: &DataType) -> Option<(i32, i32)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal128(precision, scale) => (i32::from(*precision) - i32::from(*scale), i32::from(*scale)),
        _ => return None,
    })
}

/// Whether `expr` cannot fail, whatever the rows: some that it is now evaluated on the join would have dropped.
fn is_infallible(expr: &Expr, schema: &Schema) -> bool {
    let infallible = |exprs: Vec<&Expr>| exprs.into_iter().all(|expr| is_infallible(expr, schema));
    let type_of = |expr: &Expr| expr.data_type(schema).unwrap_or(DataType::Null);
    if expr.is::<Column>() || expr.is::<Literal>() {
        return true;
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let (from, to) = (type_of(cast.expr()), cast.cast_type());
        let widens = match (digits(&from), digits(to)) {
            // 10 digits are more than 32 bits have.
            (Some(from), Some(to_digits)) => {
                from.0 <= to_digits.0
                    && from.1 <= to_digits.1
                    && (to.is_decimal() || from_integer(&from_type(cast, schema), to))
            }
            (Some(_), None) => *to == DataType::Float64,
            _ => from == DataType::Float32 && *to == DataType::Float64 || from == *to,
        };
        return widens && is_infallible(cast.expr(), schema);
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let of_type = type_of(expr);
        let fits = match (binary.op(), &of_type) {
            (Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide, DataType::Float64) => true,
            (Operator::Plus | Operator::Minus | Operator::Multiply, DataType::Decimal128(precision, _)) => {
                *precision < 38
            }
            (Operator::Divide, DataType::Decimal128(precision, _)) => {
                *precision < 38 && binary.right().downcast_ref::<Literal>().is_some_and(is_not_zero)
            }
            (op, _) => matches!(
                op,
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::And
                    | Operator::Or
            ),
        };
        return fits && infallible(vec![binary.left(), binary.right()]);
    }
    let coalesces = expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|function| function.name() == "coalesce");
    let passes = coalesces
        || expr.is::<CaseExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<NotExpr>();
    passes && infallible(expr.children())
}

fn from_type(cast: &CastExpr, schema: &Schema) -> DataType {
    cast.expr().data_type(schema).unwrap_or(DataType::Null)
}

/// Whether all values of the integer type `from` are some of `to`'s.
fn from_integer(from: &DataType, to: &DataType) -> bool {
    from.is_integer()
        && to.is_signed_integer()
        && from.is_signed_integer()
        && from.primitive_width() <= to.primitive_width()
}

fn is_not_zero(literal: &Literal) -> bool {
    let value = literal.value();
    let zero = datafusion::common::ScalarValue::new_zero(&value.data_type());
    !value.is_null() && zero.is_ok_and(|zero| zero != *value)
}

/// The columns of `exprs`, ascending.
fn columns_in<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<usize> {
    let mut columns: Vec<usize> = exprs.into_iter().flat_map(collect_columns).map(|column| column.index()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Where the columns that `join` gives come from.
fn origins(join: &HashJoinExec) -> Vec<ColumnIndex> {
    let (_, all) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
    match join.projection.as_deref() {
        Some(columns) => columns.iter().map(|&column| all[column].clone()).collect(),
        None => all,
    }
}

/// Whether a join of this type keeps and repeats rows of `side` by what it is told of each, and adds none without one.
fn may_group(join_type: JoinType, side: JoinSide) -> bool {
    use JoinType as T;
    match join_type {
        T::Inner => true,
        T::Left | T::LeftSemi | T::LeftAnti => side == JoinSide::Left,
        T::Right | T::RightSemi | T::RightAnti => side == JoinSide::Right,
        T::Full | T::LeftMark | T::RightMark => false,
    }
}

/// The aggregation that `first` begins and whose results are the columns of `schema`, with a step below joins; `None` if it cannot be had or is not worth it.
pub fn with_step_below(
    first: &AggregateExec,
    schema: &SchemaRef,
    estimates: &Arc<Estimates>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let groups = first.group_expr();
    if groups.expr().is_empty() || first.fetch().is_some() || *first.mode() == AggregateMode::PartialReduce {
        return None;
    }
    let whole = Aggregate::single(first, schema)?;
    if whole.spec().collected.is_some() || whole.spec().aggregates.iter().any(|call| before_join(call).is_none()) {
        return None;
    }
    let group_exprs: Vec<Expr> = groups.expr().iter().map(|(expr, _)| Arc::clone(expr)).collect();
    // Values of rows, and not of combinations.
    if group_exprs.iter().any(is_volatile) {
        return None;
    }
    let mut calls: Vec<Call> = first
        .aggr_expr()
        .iter()
        .zip(first.filter_expr())
        .map(|(call, filter)| {
            let exprs = match call.expressions() {
                // count(*)
                exprs if exprs.iter().all(|expr| expr.is::<Literal>()) => Vec::new(),
                exprs => exprs,
            };
            Call { before: Arguments { exprs, filter: filter.clone() }, after: None }
        })
        .collect();
    loop {
        match below_joins(first, &group_exprs, &calls, estimates) {
            Below::Nowhere => return None,
            Below::At(candidate, mut above) => {
                above.truncate(candidate.depth);
                return build(first, &whole, schema, candidate, &above, &calls, estimates);
            }
            Below::Divided(numbers) => {
                for number in numbers {
                    calls[number] = asked_later(&first.aggr_expr()[number], &calls[number].before)?;
                }
            }
        }
    }
}

/// A call in two steps, over the rows of the aggregation's input.
struct Call {
    /// What the first step reads.
    before: Arguments,
    /// Which states the second step takes.
    after: Option<Expr>,
}

/// `call`, of `arguments`, with its filter left to the second step; `None` if that cannot be.
fn asked_later(call: &AggregateFunctionExpr, arguments: &Arguments) -> Option<Call> {
    // A state of no rows is NULL for these, and NULLs are passed over.
    if !matches!(call.fun().name(), "sum" | "min" | "max") {
        return None;
    }
    let [expr] = &arguments.exprs[..] else { return None };
    let (expr, filter) = match &arguments.filter {
        Some(filter) => (Arc::clone(expr), Arc::clone(filter)),
        None => conditional(expr)?,
    };
    let before = Arguments { exprs: vec![expr], filter: None };
    (!is_volatile(&filter)).then_some(Call { before, after: Some(filter) })
}

/// The value of `expr` where it has one, and the condition on which it does: otherwise it is NULL.
fn conditional(expr: &Expr) -> Option<(Expr, Expr)> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let (value, condition) = conditional(cast.expr())?;
        return Some((Arc::clone(expr).with_new_children(vec![value]).ok()?, condition));
    }
    let case = expr.downcast_ref::<CaseExpr>().filter(|case| case.expr().is_none())?;
    let [(condition, value)] = case.when_then_expr() else { return None };
    let is_null = |expr: &Expr| expr.downcast_ref::<Literal>().is_some_and(|literal| literal.value().is_null());
    case.else_expr().is_none_or(is_null).then(|| (Arc::clone(value), Arc::clone(condition)))
}

/// Where the first step may go.
enum Below<'p> {
    Nowhere,
    At(Candidate<'p>, Vec<Above<'p>>),
    /// Anywhere at all only if these calls leave their filters to the second step.
    Divided(Vec<usize>),
}

/// Where the first step of the aggregation that `first` begins may go, for `calls`.
fn below_joins<'p>(
    first: &'p AggregateExec,
    group_exprs: &[Expr],
    calls: &[Call],
    estimates: &Arc<Estimates>,
) -> Below<'p> {
    let mut node = first.input();
    let mut needed = columns_in(group_exprs.iter().chain(calls.iter().filter_map(|call| call.after.as_ref())));
    let mut arguments: Vec<Arguments> = calls.iter().map(|call| call.before.clone()).collect();
    let key_weights: f64 =
        group_exprs.iter().map(|expr| expr.data_type(&node.schema()).map_or(1.0, |of| weight(&of))).sum();

    let mut above: Vec<Above<'p>> = Vec::new();
    let mut best: Option<(f64, Candidate)> = None;
    // Of all that is done above the node that was reached: with the rows that are there now.
    let mut cost_above = 0.0;
    let mut rows_top = None;
    loop {
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let exprs = projection.expr();
            let read = needed.iter().copied().chain(columns_in(arguments.iter().flat_map(Arguments::all)));
            if read.into_iter().any(|column| is_volatile(&exprs[column].expr)) {
                break;
            }
            let replace = |column: &Column| exprs.get(column.index()).map(|projected| Arc::clone(&projected.expr));
            let Some(moved) = arguments.iter().map(|call| call.over(&replace)).collect::<Option<_>>() else { break };
            arguments = moved;
            let below = columns_in(needed.iter().map(|&column| &exprs[column].expr));
            above.push(Above::Project { exprs, needed: std::mem::replace(&mut needed, below) });
            node = projection.input();
            continue;
        }
        let Some(join) = node.downcast_ref::<HashJoinExec>().filter(|join| !join.null_aware && join.fetch().is_none())
        else {
            break;
        };
        if join.filter().is_some_and(|filter| is_volatile(filter.expression())) {
            break;
        }
        let rows_out = estimates.rows_of(node);
        let rows_top = *rows_top.get_or_insert(rows_out);
        if rows_top < ROWS_MIN {
            break;
        }
        let origins = origins(join);
        let of_arguments = columns_in(arguments.iter().flat_map(Arguments::all));
        let sides = || of_arguments.iter().map(|&column| origins[column].side);
        let grouped = match sides().next() {
            Some(side) if sides().all(|other| other == side) => side,
            Some(_) => {
                let is_mixed = |call: &Arguments| {
                    let mut sides = columns_in(call.all()).into_iter().map(|column| origins[column].side);
                    let side = sides.next();
                    sides.any(|other| Some(other) != side)
                };
                let mixed = arguments.iter().zip(calls).enumerate();
                let mixed = mixed.filter(|(_, (moved, call))| call.after.is_none() && is_mixed(moved));
                let mixed: Vec<usize> = mixed.map(|(number, _)| number).collect();
                // Equal groups of several sets have their states merged where no filter is asked any more.
                if best.is_none() && !mixed.is_empty() && !first.group_expr().has_grouping_set() {
                    return Below::Divided(mixed);
                }
                break;
            }
            None if estimates.rows_of(join.left()) > estimates.rows_of(join.right()) => JoinSide::Left,
            None => JoinSide::Right,
        };
        if !may_group(*join.join_type(), grouped) {
            break;
        }
        let below = if grouped == JoinSide::Left { join.left() } else { join.right() };
        let of_side = |column: &Column| {
            let origin = &origins[column.index()];
            let column = Column::new(column.name(), origin.index);
            (origin.side == grouped).then(|| Arc::new(column) as Expr)
        };
        let Some(moved) = arguments.iter().map(|call| call.over(&of_side)).collect::<Option<Vec<_>>>() else { break };
        arguments = moved;
        let on = join.on().iter().map(|(left, right)| if grouped == JoinSide::Left { left } else { right });
        let mut columns = columns_in(on);
        let told = join.filter().into_iter().flat_map(JoinFilter::column_indices);
        columns.extend(told.filter(|column| column.side == grouped).map(|column| column.index));
        let from = |side: JoinSide| {
            let origins = &origins;
            needed
                .iter()
                .map(|&column| &origins[column])
                .filter(move |origin| origin.side == side)
                .map(|origin| origin.index)
        };
        columns.extend(from(grouped));
        columns.sort_unstable();
        columns.dedup();
        let (other, other_side) = match grouped {
            JoinSide::Left => (join.right(), JoinSide::Right),
            _ => (join.left(), JoinSide::Left),
        };
        cost_above += ROW + weights(&other.schema(), &from(other_side).collect::<Vec<_>>());
        above.push(Above::Join { join, grouped, needed: std::mem::replace(&mut needed, columns) });
        node = below;

        let schema = node.schema();
        let infallible = arguments.iter().flat_map(Arguments::all).all(|expr| is_infallible(expr, &schema));
        let identified = needed.iter().all(|&column| is_identified(schema.field(column).data_type()));
        if !infallible || !identified || needed.is_empty() {
            continue;
        }
        let keys: Vec<Expr> = needed.iter().map(|&column| column_of(&schema, column)).collect();
        let (rows, combinations) = estimates.combinations(node, &keys);
        let later = cost_above + ROW + key_weights;
        let without = rows_top * later;
        let with = rows * (ROW + weights(&schema, &needed)) + combinations * (rows_top / rows.max(1.0)) * later;
        if with < without * (1.0 - SAVED_MIN) && best.as_ref().is_none_or(|(cost, _)| with < *cost) {
            let candidate = Candidate {
                depth: above.len(),
                node,
                needed: needed.clone(),
                combinations,
                arguments: arguments.clone(),
            };
            best = Some((with, candidate));
        }
    }
    best.map_or(Below::Nowhere, |(_, candidate)| Below::At(candidate, above))
}

fn column_of(schema: &Schema, column: usize) -> Expr {
    Arc::new(Column::new(schema.field(column).name(), column))
}

/// A place for the first step.
struct Candidate<'p> {
    /// How many nodes are above it.
    depth: usize,
    node: &'p Arc<dyn ExecutionPlan>,
    needed: Vec<usize>,
    combinations: f64,
    arguments: Vec<Arguments>,
}

/// Where the columns of a node are in the node that takes its place, and where the states are.
struct Moved {
    plan: Arc<dyn ExecutionPlan>,
    columns: HashMap<usize, usize>,
    states: Vec<usize>,
    rows: f64,
}

impl Moved {
    fn expr(&self, expr: &Expr) -> Option<Expr> {
        substituted(expr, &|column: &Column| {
            Some(Arc::new(Column::new(column.name(), *self.columns.get(&column.index())?)) as Expr)
        })
    }
}

fn build(
    first: &AggregateExec,
    whole: &Aggregate,
    output: &SchemaRef,
    candidate: Candidate<'_>,
    above: &[Above<'_>],
    both: &[Call],
    estimates: &Arc<Estimates>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let Candidate { node, needed, arguments, combinations, .. } = candidate;
    let input = node.schema();
    let mut calls: Vec<AggregateCall> = Vec::with_capacity(arguments.len());
    // Of each call, the one that has its states, and where they are among all states.
    let mut states_of: Vec<(usize, usize)> = Vec::with_capacity(arguments.len());
    let mut num_states = 0;
    let mut fields: Vec<FieldRef> = needed.iter().map(|&column| Arc::clone(&input.fields()[column])).collect();
    let described = described(first);
    let mut described_first = Vec::with_capacity(arguments.len());
    let mut expressions: Vec<Expr> = needed.iter().map(|&column| column_of(&input, column)).collect();
    let keys = expressions.clone();
    for (number, (function, of_call)) in first.aggr_expr().iter().zip(&arguments).enumerate() {
        let is_same = |other: &usize| {
            first.aggr_expr()[*other].fun().name() == function.fun().name()
                && function.fun().name() != "first_value"
                && first.aggr_expr()[*other].field().data_type() == function.field().data_type()
                && arguments[*other].exprs == of_call.exprs
                && arguments[*other].filter == of_call.filter
        };
        if let Some(same) = (0..number).find(is_same) {
            states_of.push(states_of[same]);
            continue;
        }
        let call = before_join(&Aggregate::call(function, of_call.exprs.clone(), of_call.filter.as_ref(), &input)?)?;
        let types = state_types(&call)?;
        states_of.push((calls.len(), num_states));
        num_states += types.len();
        for (state, data_type) in types.into_iter().enumerate() {
            fields.push(Arc::new(Field::new(format!("{}[{state}]", function.name()), data_type, true)));
        }
        described_first.push(match (&both[number].after, &of_call.exprs[..]) {
            (Some(_), [expr]) => format!("{}({expr})", function.fun().name()),
            _ => described[number].clone(),
        });
        expressions.extend(of_call.all().cloned());
        calls.push(call);
    }
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let named =
        keys.iter().map(|key| (Arc::clone(key), key.downcast_ref::<Column>().map_or("", Column::name).to_owned()));
    let by = PhysicalGroupBy::new_single(named.collect());
    let aggregate = Aggregate::before_join(&by, calls.clone(), expressions, &described_first, &input, &schema)?;
    let states = needed.len()..schema.fields().len();
    let step = Step { aggregate, keys: by };
    let step = Arc::new(StepExec::new(step, vec![Arc::clone(node)], Arc::clone(&schema)));
    let columns = needed.iter().enumerate().map(|(at, &column)| (column, at)).collect();
    let mut moved = Moved { plan: step, columns, states: states.collect(), rows: combinations };
    for node in above.iter().rev() {
        moved = match node {
            Above::Project { exprs, needed } => project(moved, exprs, needed)?,
            Above::Join { join, grouped, needed } => joined(moved, join, *grouped, needed, estimates)?,
        };
    }
    let groups = first.group_expr();
    let exprs = groups.expr().iter().map(|(expr, name)| Some((moved.expr(expr)?, name.clone())));
    let by = PhysicalGroupBy::new(
        exprs.collect::<Option<_>>()?,
        groups.null_expr().to_vec(),
        groups.groups().to_vec(),
        groups.has_grouping_set(),
    );
    // States are side by side, in the order of their calls.
    let states = *moved.states.first().unwrap_or(&0);
    let mut merging = Vec::with_capacity(both.len());
    for ((call, of_call), &(number, state)) in whole.spec().aggregates.iter().zip(both).zip(&states_of) {
        let filter = of_call.after.as_ref().map(|filter| moved.expr(filter));
        let filter = match filter {
            Some(filter) => Some(translate_predicate(&filter?, &moved.plan.schema()).ok()?),
            None => None,
        };
        merging.push(AggregateCall { filter, ..after_join(call, &calls[number], states + state) });
    }
    let aggregate = Aggregate::after_join(whole, &by, merging, &described, &moved.plan.schema())?;
    Some(Arc::new(StepExec::new(Step { aggregate, keys: by }, vec![moved.plan], Arc::clone(output))))
}

fn project(moved: Moved, exprs: &[ProjectionExpr], needed: &[usize]) -> Option<Moved> {
    let schema = moved.plan.schema();
    let mut projected = Vec::with_capacity(needed.len() + moved.states.len());
    for &column in needed {
        projected.push(ProjectionExpr { expr: moved.expr(&exprs[column].expr)?, alias: exprs[column].alias.clone() });
    }
    for &state in &moved.states {
        projected.push(ProjectionExpr { expr: column_of(&schema, state), alias: schema.field(state).name().clone() });
    }
    let states = (needed.len()..projected.len()).collect();
    let columns = needed.iter().enumerate().map(|(at, &column)| (column, at)).collect();
    let plan = Arc::new(ProjectionExec::try_new(projected, moved.plan).ok()?);
    Some(Moved { plan, columns, states, rows: moved.rows })
}

/// The join of the groups, of which the smaller side is built if either may be.
fn joined(
    moved: Moved,
    join: &HashJoinExec,
    grouped: JoinSide,
    needed: &[usize],
    estimates: &Arc<Estimates>,
) -> Option<Moved> {
    let other = if grouped == JoinSide::Left { join.right() } else { join.left() };
    let swaps =
        *join.join_type() == JoinType::Inner && (moved.rows < estimates.rows_of(other)) != (grouped == JoinSide::Left);
    let (join_type, swap) = if swaps { (join.join_type().swap(), true) } else { (*join.join_type(), false) };
    let side_of = |side: JoinSide| if swap { side.negate() } else { side };
    let at = |origin: &ColumnIndex| -> Option<ColumnIndex> {
        let index = if origin.side == grouped { *moved.columns.get(&origin.index)? } else { origin.index };
        Some(ColumnIndex { index, side: side_of(origin.side) })
    };
    let mut on = Vec::with_capacity(join.on().len());
    for (left, right) in join.on() {
        let (left, right) = match grouped {
            JoinSide::Left => (moved.expr(left)?, Arc::clone(right)),
            _ => (Arc::clone(left), moved.expr(right)?),
        };
        on.push(if swap { (right, left) } else { (left, right) });
    }
    let filter = match join.filter() {
        Some(filter) => Some(JoinFilter::new(
            Arc::clone(filter.expression()),
            filter.column_indices().iter().map(at).collect::<Option<_>>()?,
            Arc::clone(filter.schema()),
        )),
        None => None,
    };
    let (left, right) = match side_of(grouped) {
        JoinSide::Left => (Arc::clone(&moved.plan), Arc::clone(other)),
        _ => (Arc::clone(other), Arc::clone(&moved.plan)),
    };
    let (_, given) = build_join_schema(&left.schema(), &right.schema(), &join_type);
    let place = |wanted: &ColumnIndex| given.iter().position(|column| column == wanted);
    let origins = origins(join);
    let mut projection = Vec::with_capacity(needed.len() + moved.states.len());
    for &column in needed {
        projection.push(place(&at(&origins[column])?)?);
    }
    for &state in &moved.states {
        projection.push(place(&ColumnIndex { index: state, side: side_of(grouped) })?);
    }
    let states = (needed.len()..projection.len()).collect();
    let columns = needed.iter().enumerate().map(|(at, &column)| (column, at)).collect();
    let plan = HashJoinExecBuilder::new(left, right, on, join_type)
        .with_filter(filter)
        .with_projection(Some(projection))
        .with_null_equality(join.null_equality())
        .with_partition_mode(PartitionMode::CollectLeft)
        .build_exec()
        .ok()?;
    Join::of(&plan)?;
    Some(Moved { rows: moved.rows, plan, columns, states })
}
