//! Intervals compared by their length, in all that compares: operators, groups, `DISTINCT`, joins, sorts, windows, aggregates.
//!
//! DataFusion compares months, then days, then the rest: a day comes after 30 hours, and 24 hours are not a day. What is compared here is `intervals::length_of`;
//! values stay as they were written. Of a group whose intervals are written in several ways, the one with fewest months, then days, is shown: it is the same
//! whatever the order of the rows.
//!
//! Not here: comparison of the lengths, which are decimals.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        Column, DFSchema, Result, ScalarValue, not_impl_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    functions_aggregate::min_max::min_udaf,
    logical_expr::{
        Aggregate, AggregateUDF, Distinct, DistinctOn, Expr, ExprSchemable, GroupingSet, Join, JoinConstraint,
        LogicalPlan, Operator, Projection, Window, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
        expr::{AggregateFunction, InSubquery, SetComparison, Sort as SortExpr, WindowFunction},
        expr_rewriter::NamePreserver,
        logical_plan::Subquery,
        utils::grouping_set_to_exprlist,
        when,
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::times::{
    extremum,
    intervals::{length, length_of, parse_interval},
};

use super::{
    literals::read,
    planner::may_be_time,
    zone_rule::{input_schema, rewrite_expressions},
};
use crate::{
    quantified::QUANTIFIED,
    trees::{Nodes, Tree},
};

/// Windows ordered or partitioned by intervals. Before types are coerced: DataFusion finds no type then for the ends of their frames.
#[derive(Debug, Default)]
pub(crate) struct IntervalWindows;

impl AnalyzerRule for IntervalWindows {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_window = |plan: &LogicalPlan| matches!(plan, LogicalPlan::Window(_));
        let mut any = false;
        plan.each_node(|node| {
            any |= is_window(node) && node.inputs().iter().any(|input| has_intervals(input.schema()));
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        // Keys may be computed in the window itself, of moments that have no interval among them.
        if !any && !window_keys_of_intervals(&plan)? {
            return Ok(plan);
        }
        plan.nodes_up(|plan| match plan {
            LogicalPlan::Window(window) => in_window(window),
            plan => Ok(Transformed::no(plan)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "interval_windows"
    }
}

fn window_keys_of_intervals(plan: &LogicalPlan) -> Result<bool> {
    let mut any = false;
    plan.each_node(|node| {
        if let LogicalPlan::Window(window) = node {
            let schema = window.input.schema();
            for expr in &window.window_expr {
                let mut expr = expr;
                while let Expr::Alias(alias) = expr {
                    expr = &alias.expr;
                }
                let Expr::WindowFunction(function) = expr else { continue };
                let mut keys = function.params.partition_by.iter();
                let mut order = function.params.order_by.iter().map(|sort| &sort.expr);
                any |= keys.any(|key| of_interval(key, schema)) || order.any(|key| of_interval(key, schema));
            }
        }
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

fn has_intervals(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| holds_intervals(field.data_type()))
}

/// Whether values of the type are intervals or have some within them.
fn holds_intervals(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(_) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => holds_intervals(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_intervals(field.data_type())),
        _ => false,
    }
}

/// Refuses to compare lists and structs with intervals in them: they would be compared by months first.
fn refuse_nested<'a>(exprs: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Result<()> {
    for expr in exprs {
        // Few expressions are nested; the type of a long sum is dear.
        if matches!(expr, Expr::BinaryExpr(_)) {
            continue;
        }
        let nested = expr.get_type(schema).ok().filter(DataType::is_nested);
        if nested.is_some_and(|data_type| holds_intervals(&data_type)) {
            return not_impl_err!("comparison of lists and structs of intervals; compare their elements");
        }
    }
    Ok(())
}

/// Functions that compare what they are given, or its elements.
const COMPARING: &[&str] = &[
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_position",
    "array_positions",
    "array_sort",
    "array_distinct",
    "array_remove",
    "array_remove_n",
    "array_remove_all",
    "array_replace",
    "array_replace_n",
    "array_replace_all",
    "array_intersect",
    "array_union",
    "array_except",
    "array_max",
    "array_min",
    "greatest",
    "least",
];

fn of_interval(expr: &Expr, schema: &DFSchema) -> bool {
    may_be_time(expr, schema) && expr.get_type(schema).is_ok_and(|data_type| is_interval(&data_type))
}

/// Puts the length in the place of an interval.
fn measure(expr: &mut Expr, schema: &DFSchema) -> bool {
    let measured = of_interval(expr, schema);
    if measured {
        *expr = length_of(std::mem::take(expr));
    }
    measured
}

fn measure_all<'a>(exprs: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    exprs.into_iter().fold(false, |any, expr| measure(expr, schema) | any)
}

fn in_window(window: Window) -> Result<Transformed<LogicalPlan>> {
    let plan = LogicalPlan::Window(window);
    let schema = input_schema(&plan)?;
    let names = NamePreserver::new(&plan);
    let rewritten = plan.with_expressions(|expr| {
        let name = names.save(&expr);
        let changed = expr.up(|expr| match expr {
            Expr::WindowFunction(mut function) => {
                let changed = in_window_function(&mut function, &schema)?;
                let function = Expr::WindowFunction(function);
                Ok(if changed { Transformed::yes(function) } else { Transformed::no(function) })
            }
            other => Ok(Transformed::no(other)),
        });
        changed.map(|changed| changed.update_data(|expr| name.restore(expr)))
    })?;
    if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
}

fn in_window_function(function: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let params = &mut function.params;
    refuse_nested(&params.partition_by, schema)?;
    refuse_nested(params.order_by.iter().map(|sort| &sort.expr), schema)?;
    let mut changed = measure_all(&mut params.partition_by, schema);
    let ordered = measure_all(params.order_by.iter_mut().map(|sort| &mut sort.expr), schema);
    changed |= ordered;
    if ordered && params.window_frame.units == WindowFrameUnits::Range && params.order_by.len() == 1 {
        let frame = &mut params.window_frame;
        for bound in [&mut frame.start_bound, &mut frame.end_bound] {
            let (WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value)) = bound else { continue };
            if value.is_null() {
                continue;
            }
            let known = match (&*value, value.try_as_str().flatten()) {
                (ScalarValue::IntervalMonthDayNano(Some(known)), _) => length(*known),
                (_, Some(text)) => length_of_text(text)?,
                (other, None) => {
                    return not_impl_err!("RANGE over intervals takes an INTERVAL for its ends, not {other}");
                }
            };
            *value = ScalarValue::Decimal128(Some(known), 38, 0);
        }
    }
    if let WindowFunctionDefinition::AggregateUDF(aggregate) = &mut function.fun {
        changed |= in_arguments(aggregate, &mut params.args, params.distinct, schema)?;
    }
    Ok(changed)
}

/// The length of the interval that `text` is: as it was written, or as a plan has it.
pub(crate) fn length_of_text(text: &str) -> Result<i128> {
    Ok(length(read(text).map_or_else(|| parse_interval(text), Ok)?))
}

/// Everything else that compares intervals, after types are coerced.
#[derive(Debug, Default)]
pub(crate) struct IntervalOrder;

impl AnalyzerRule for IntervalOrder {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !mentions_intervals(&plan)? {
            return Ok(plan);
        }
        plan.nodes_up(rewrite_plan).data()
    }

    fn name(&self) -> &str {
        "interval_order"
    }
}

/// Whether a column, a constant, a cast or a function in `plan` is of intervals.
fn mentions_intervals(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_node(|node| {
        found |= has_intervals(node.schema());
        node.each_expression(|expr| {
            expr.each(|expr| {
                found |= match expr {
                    Expr::Literal(value, _) => holds_intervals(&value.data_type()),
                    Expr::Cast(cast) => holds_intervals(cast.field.data_type()),
                    Expr::TryCast(cast) => holds_intervals(cast.field.data_type()),
                    // Differences of moments are the only intervals made of nothing else.
                    Expr::ScalarFunction(call) => call.func.name().ends_with("_difference"),
                    _ => false,
                };
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = input_schema(&plan)?;
    let rewritten = rewrite_expressions(plan, |expr| rewrite(expr, &schema))?;
    let changed = rewritten.transformed;
    let node = in_node(rewritten.data, &schema)?;
    Ok(if changed { Transformed::yes(node.data) } else { node })
}

fn in_node(plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Sort(mut sort) => {
            refuse_nested(sort.expr.iter().map(|key| &key.expr), schema)?;
            let changed = measure_all(sort.expr.iter_mut().map(|key| &mut key.expr), schema);
            let sort = LogicalPlan::Sort(sort);
            if changed { Transformed::yes(sort) } else { Transformed::no(sort) }
        }
        LogicalPlan::RecursiveQuery(query) if query.is_distinct && has_intervals(query.static_term.schema()) => {
            return not_impl_err!(
                "UNION in a recursive query of intervals; use UNION ALL, or extract(epoch FROM ..) of the intervals"
            );
        }
        // Those that rules made since `IntervalWindows`.
        LogicalPlan::Window(window) => in_window(window)?,
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            refuse_nested(join.on.iter().map(|(left, _)| left), join.left.schema())?;
            for (left, right) in &mut join.on {
                if of_interval(left, join.left.schema()) && of_interval(right, join.right.schema()) {
                    *left = length_of(std::mem::take(left));
                    *right = length_of(std::mem::take(right));
                    changed = true;
                }
            }
            if changed {
                // Which columns it joins by has been told.
                join = Join { join_constraint: JoinConstraint::On, ..join };
            }
            let join = LogicalPlan::Join(join);
            if changed { Transformed::yes(join) } else { Transformed::no(join) }
        }
        LogicalPlan::Distinct(Distinct::All(input)) if has_intervals(input.schema()) => {
            let all: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
            refuse_nested(&all, input.schema())?;
            let aggregate = Aggregate::try_new(Arc::clone(&input), all, Vec::new())?;
            Transformed::yes(by_length(aggregate, input.schema())?)
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            refuse_nested(&on.on_expr, schema)?;
            let mut changed = measure_all(&mut on.on_expr, schema);
            if let Some(sort) = &mut on.sort_expr {
                changed |= measure_all(sort.iter_mut().map(|key| &mut key.expr), schema);
            }
            match changed {
                true => {
                    let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = on;
                    let on = DistinctOn::try_new(on_expr, select_expr, sort_expr, input)?;
                    Transformed::yes(LogicalPlan::Distinct(Distinct::On(on)))
                }
                false => Transformed::no(LogicalPlan::Distinct(Distinct::On(on))),
            }
        }
        LogicalPlan::Aggregate(aggregate) => {
            let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
            refuse_nested(keys.iter().copied(), schema)?;
            if keys.iter().any(|key| of_interval(key, schema)) {
                Transformed::yes(by_length(aggregate, schema)?)
            } else {
                Transformed::no(LogicalPlan::Aggregate(aggregate))
            }
        }
        plan => Transformed::no(plan),
    })
}

/// Groups by lengths where keys are intervals, and shows an interval of each group.
fn by_length(aggregate: Aggregate, schema: &DFSchema) -> Result<LogicalPlan> {
    let keys: Vec<Expr> = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
    let is_measured: Vec<bool> = keys.iter().map(|key| of_interval(key, schema)).collect();
    let name_of = |key: &Expr| format!("ogee_length({})", key.schema_name());
    let measured = |key: Expr| {
        let name = name_of(&key);
        match of_interval(&key, schema) {
            true => length_of(key.unalias()).alias(name),
            false => key,
        }
    };
    let group_expr = aggregate.group_expr.iter().cloned().map(|expr| match expr {
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
            let sets = sets.into_iter().map(|set| set.into_iter().map(measured).collect()).collect();
            Expr::GroupingSet(GroupingSet::GroupingSets(sets))
        }
        Expr::GroupingSet(GroupingSet::Rollup(set)) => {
            Expr::GroupingSet(GroupingSet::Rollup(set.into_iter().map(measured).collect()))
        }
        Expr::GroupingSet(GroupingSet::Cube(set)) => {
            Expr::GroupingSet(GroupingSet::Cube(set.into_iter().map(measured).collect()))
        }
        key => measured(key),
    });
    let group_expr = group_expr.collect();
    let before = aggregate.schema.fields().len();
    let mut aggr_expr = aggregate.aggr_expr.clone();
    let mut shown = Vec::new();
    for (key, _) in keys.iter().zip(&is_measured).filter(|(_, measured)| **measured) {
        let args = vec![key.clone().unalias()];
        let any = AggregateFunction::new_udf(min_udaf(), args, false, None, Vec::new(), None);
        shown.push(before + shown.len());
        aggr_expr.push(Expr::AggregateFunction(any).alias(format!("ogee_interval({})", key.schema_name())));
    }
    let grouped = Aggregate::try_new(Arc::clone(&aggregate.input), group_expr, aggr_expr)?;
    let column = |at: usize| Expr::Column(Column::from(grouped.schema.qualified_field(at)));
    let mut shown = shown.into_iter();
    let mut outputs = Vec::with_capacity(before);
    for (at, (relation, field)) in aggregate.schema.iter().enumerate() {
        let interval = is_measured.get(at).is_some_and(|measured| *measured).then(|| shown.next()).flatten();
        outputs.push(match interval {
            // A key that is not in the grouping set has no length.
            Some(interval) => {
                when(column(at).is_not_null(), column(interval)).end()?.alias_qualified(relation.cloned(), field.name())
            }
            None => column(at),
        });
    }
    Ok(LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(LogicalPlan::Aggregate(grouped)))?))
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let when_changed = |changed: bool, expr: Expr| if changed { Transformed::yes(expr) } else { Transformed::no(expr) };
    Ok(match expr {
        Expr::BinaryExpr(mut binary) => {
            let compares = matches!(
                binary.op,
                Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
            ) || matches!(binary.op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
            if compares {
                refuse_nested([&*binary.left], schema)?;
            }
            let changed = compares && of_interval(&binary.left, schema) && of_interval(&binary.right, schema);
            if changed {
                measure_all([&mut *binary.left, &mut *binary.right], schema);
            }
            when_changed(changed, Expr::BinaryExpr(binary))
        }
        Expr::Between(mut between) => {
            refuse_nested([&*between.expr], schema)?;
            let changed = measure_all([&mut *between.expr, &mut *between.low, &mut *between.high], schema);
            when_changed(changed, Expr::Between(between))
        }
        Expr::InList(mut list) => {
            refuse_nested([&*list.expr], schema)?;
            let changed = measure(&mut list.expr, schema);
            if changed {
                measure_all(&mut list.list, schema);
            }
            when_changed(changed, Expr::InList(list))
        }
        Expr::InSubquery(InSubquery { mut expr, mut subquery, negated }) => {
            let changed = measure(&mut expr, schema);
            if changed {
                subquery = measured_output(subquery)?;
            }
            when_changed(changed, Expr::InSubquery(InSubquery { expr, subquery, negated }))
        }
        Expr::SetComparison(SetComparison { mut expr, mut subquery, op, quantifier }) => {
            let changed = measure(&mut expr, schema);
            if changed {
                subquery = measured_output(subquery)?;
            }
            when_changed(changed, Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }))
        }
        Expr::Case(mut case) => {
            refuse_nested(case.expr.as_deref(), schema)?;
            let changed = case.expr.as_mut().is_some_and(|operand| measure(operand, schema));
            if changed {
                measure_all(case.when_then_expr.iter_mut().map(|(value, _)| &mut **value), schema);
            }
            when_changed(changed, Expr::Case(case))
        }
        Expr::AggregateFunction(function) => in_aggregate(function, schema)?,
        Expr::ScalarFunction(call) => in_function(call, schema)?,
        other => Transformed::no(other),
    })
}

/// A subquery of one interval as one of its length.
fn measured_output(subquery: Subquery) -> Result<Subquery> {
    let plan = Arc::clone(&subquery.subquery);
    let outputs = plan.schema().columns().into_iter().map(|column| {
        let name = format!("ogee_length({})", column.name);
        length_of(Expr::Column(column)).alias(name)
    });
    let projection = Projection::try_new(outputs.collect(), plan.clone())?;
    Ok(subquery.with_plan(Arc::new(LogicalPlan::Projection(projection))))
}

fn in_aggregate(mut function: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let params = &mut function.params;
    refuse_nested(params.order_by.iter().map(|key| &key.expr), schema)?;
    let mut changed = measure_all(params.order_by.iter_mut().map(|key: &mut SortExpr| &mut key.expr), schema);
    changed |= in_arguments(&mut function.func, &mut params.args, params.distinct, schema)?;
    let function = Expr::AggregateFunction(function);
    Ok(if changed { Transformed::yes(function) } else { Transformed::no(function) })
}

/// Arguments of `function`, which becomes another where it compares intervals itself.
fn in_arguments(
    function: &mut Arc<AggregateUDF>,
    args: &mut [Expr],
    distinct: bool,
    schema: &DFSchema,
) -> Result<bool> {
    match function.name() {
        "min" | "max" | "mode" | "histogram" | "quantile_disc" | "median" | "approx_distinct" | "ogee_max_n"
        | "ogee_min_n" => {
            refuse_nested(&*args, schema)?;
        }
        _ if distinct => refuse_nested(&*args, schema)?,
        name if name.contains("arg_min") || name.contains("arg_max") => {
            refuse_nested(args.iter().skip(1), schema)?;
        }
        _ => {}
    }
    if !args.iter().any(|arg| of_interval(arg, schema)) {
        return Ok(false);
    }
    Ok(match function.name() {
        name @ ("min" | "max") => {
            *function = extremum::interval_extremum(name == "max");
            true
        }
        "count" if distinct => measure_all(args, schema),
        "approx_distinct" => measure_all(args, schema),
        // By which is measured; what is given stays.
        "arg_min" | "arg_max" => measure_all(args.iter_mut().skip(1), schema),
        name @ ("mode" | "histogram" | "percentile_cont" | "approx_percentile_cont") => {
            return not_impl_err!("{name} of intervals is not implemented; take it of extract(epoch FROM ..)");
        }
        name if distinct => {
            return not_impl_err!("{name}(DISTINCT ..) of intervals is not implemented; use SELECT DISTINCT below it");
        }
        _ => false,
    })
}

/// Functions that compare their arguments.
fn in_function(call: datafusion::logical_expr::expr::ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let name = call.func.name();
    if COMPARING.contains(&name) {
        refuse_nested(&call.args, schema)?;
    }
    // A list of intervals is compared with its elements, by their lengths.
    if name == QUANTIFIED {
        refuse_nested(call.args.iter().skip(1).take(1), schema)?;
    }
    if !matches!(name, "greatest" | "least") || !call.args.iter().any(|arg| of_interval(arg, schema)) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let of = |a: Expr, b: Expr, op: Operator| {
        let side = |expr: Expr| Box::new(length_of(expr));
        Expr::BinaryExpr(datafusion::logical_expr::BinaryExpr { left: side(a), op, right: side(b) })
    };
    let op = if name == "greatest" { Operator::GtEq } else { Operator::LtEq };
    let mut args = call.args.into_iter();
    let Some(mut best) = args.next() else { return not_impl_err!("{name} of nothing") };
    for arg in args {
        // NULL counts as absent.
        let keeps = arg.clone().is_null().or(of(best.clone(), arg.clone(), op));
        best = when(keeps, best).otherwise(arg)?;
    }
    Ok(Transformed::yes(best))
}
