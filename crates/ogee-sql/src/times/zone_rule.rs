//! Puts the zone of the session into a plan: where instants become local times, dates or texts, or come from them.
//!
//! DataFusion's casts between timestamps with a zone and others take the numbers as they are, and its functions of times look at the zone of the type. This rule
//! comes after types are coerced, so that a `TIMESTAMP` that is compared with a `TIMESTAMPTZ` has its cast.
//!
//! Not here: the functions it puts in (`ogee_functions::times`).

use std::borrow::Cow;

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        DFSchema, Result, ScalarValue, not_impl_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, expr::ScalarFunction, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::{
    function::Function,
    text_casts::{Written, is_rounded, moment_of_text, truth_of_text},
    times::{
        TIMEZONE, Zone, far, formats,
        infinite::infinite_value,
        instants::{
            LOCAL, instant, instant_difference, instant_of_text, is_instant, move_instant, offset_part,
            text_of_instant, to_instant, to_local,
        },
        intervals::{DIFFERENCE, interval_of_text, text_of_interval},
        parts::{DATE_PART, part_named},
        session_zone,
    },
};

use super::planner::may_be_time;
use crate::{
    common_types::computes,
    kept_names,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ZoneRule;

impl AnalyzerRule for ZoneRule {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_times(&plan)? {
            return Ok(plan);
        }
        let zone = session_zone(config)?;
        plan.nodes_up(|plan| rewrite_plan(plan, &zone)).data()
    }

    fn name(&self) -> &str {
        "zones"
    }
}

/// Whether a type is of those that this module and `order_rule` are about.
pub(super) fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)) | DataType::Interval(_))
}

/// Whether anything in `plan` is an instant, an interval or a text that becomes a moment, or is a number written in a way of its own. Most statements have none.
fn has_times(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_node(|node| {
        found |= node.schema().fields().iter().any(|field| is_time(field.data_type()));
        let mut schema = None;
        node.each_expression(|expr| {
            expr.each(|expr| {
                found |= match expr {
                    Expr::Literal(value, _) => is_time(&value.data_type()),
                    Expr::Cast(cast) => is_rewritten(&cast.expr, cast.field.data_type(), node, &mut schema)?,
                    Expr::TryCast(cast) => is_rewritten(&cast.expr, cast.field.data_type(), node, &mut schema)?,
                    Expr::ScalarFunction(call) => gives_times(call),
                    _ => false,
                };
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether the cast of `expr`, of `node`, to `to` may have something put below it. `schema`: that of the node's expressions, once it was asked for.
fn is_rewritten(expr: &Expr, to: &DataType, node: &LogicalPlan, schema: &mut Option<DFSchema>) -> Result<bool> {
    if is_time(to) {
        return Ok(true);
    }
    let is_computed = matches!(expr, Expr::ScalarFunction(_) | Expr::BinaryExpr(_) | Expr::Case(_));
    if to.is_string() && is_computed {
        let schema = match schema {
            Some(schema) => schema,
            none => none.insert(input_schema(node)?),
        };
        return Ok(expr.get_type(schema).is_ok_and(|from| is_time(&from)));
    }
    if let Expr::Literal(value, _) = expr {
        if *to == DataType::Boolean {
            return Ok(value.data_type().is_string());
        }
        let Some(written) = Written::of(to) else { return Ok(false) };
        let is_other = |text: &str| {
            is_rounded(to) && text.contains('.')
                || matches!(written.usual(text), Cow::Owned(_))
                || infinite_value(text, to).is_some()
        };
        return Ok(value.try_as_str().flatten().is_some_and(is_other));
    }
    if *to != DataType::Boolean && Written::of(to).is_none() {
        return Ok(false);
    }
    let schema = match schema {
        Some(schema) => schema,
        none => none.insert(input_schema(node)?),
    };
    Ok(expr.get_type(schema).is_ok_and(|from| from.is_string()))
}

/// Whether a function may give an instant or an interval that it was not given, or asks for the zone.
fn gives_times(call: &ScalarFunction) -> bool {
    let name = call.func.name();
    matches!(name, "now" | "from_unixtime" | "strptime" | "try_strptime")
        || name == TIMEZONE
        || name.starts_with("to_timestamp")
        || call.func.inner().downcast_ref::<Function>().is_some_and(Function::is_zoned)
}

/// The columns that expressions of `plan` are over.
pub(crate) fn input_schema(plan: &LogicalPlan) -> Result<DFSchema> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    Ok(schema)
}

/// `plan` with `rewrite` done to all its expressions, from the leaves up; they keep their names.
pub(super) fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let rewritten = kept_names::map_expressions(plan, |expr| expr.up(&rewrite))?;
    if !rewritten.transformed {
        return Ok(rewritten);
    }
    // Types of what is above follow.
    rewritten.map_data(LogicalPlan::recompute_schema)
}

fn rewrite_plan(plan: LogicalPlan, zone: &Zone) -> Result<Transformed<LogicalPlan>> {
    if !computes(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let schema = input_schema(&plan)?;
    rewrite_expressions(plan, |expr| rewrite(expr, &schema, zone))
}

fn rewrite(expr: Expr, schema: &DFSchema, zone: &Zone) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Cast(mut inner) => {
            let (Ok(from), to) = (inner.expr.get_type(schema), inner.field.data_type().clone()) else {
                return Ok(Transformed::no(Expr::Cast(inner)));
            };
            match converted(&inner.expr, &from, &to, zone, false) {
                Some(converted) if to == converted.get_type(schema)? => Transformed::yes(converted),
                Some(converted) => {
                    *inner.expr = converted;
                    Transformed::yes(Expr::Cast(inner))
                }
                None => Transformed::no(Expr::Cast(inner)),
            }
        }
        Expr::TryCast(mut inner) => {
            let (Ok(from), to) = (inner.expr.get_type(schema), inner.field.data_type().clone()) else {
                return Ok(Transformed::no(Expr::TryCast(inner)));
            };
            match converted(&inner.expr, &from, &to, zone, true) {
                Some(converted) => {
                    *inner.expr = converted;
                    Transformed::yes(Expr::TryCast(inner))
                }
                None => Transformed::no(Expr::TryCast(inner)),
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            if !may_be_time(&left, schema) && !may_be_time(&right, schema) {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            let type_of = |expr: &Expr| expr.get_type(schema).ok();
            let (left_type, right_type) = (type_of(&left), type_of(&right));
            let is_instant = |data_type: &Option<DataType>| data_type.as_ref().is_some_and(is_instant);
            let is_interval = |data_type: &Option<DataType>| matches!(data_type, Some(DataType::Interval(_)));
            let result = if is_instant(&left_type) { left_type.clone() } else { right_type.clone() };
            let moved = if is_instant(&left_type) && is_interval(&right_type) {
                move_instant(*left, *right, op == Operator::Minus, zone)
            } else if op == Operator::Plus && is_interval(&left_type) && is_instant(&right_type) {
                move_instant(*right, *left, false, zone)
            } else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            Transformed::yes(of_type(moved, &instant(), result))
        }
        Expr::ScalarFunction(call) => of_function(call, schema, zone)?,
        other => Transformed::no(other),
    })
}

fn of_type(expr: Expr, is: &DataType, wanted: Option<DataType>) -> Expr {
    match wanted {
        Some(wanted) if wanted != *is => cast(expr, wanted),
        _ => expr,
    }
}

/// What the cast of `expr` to `to` is of, if not of `expr` itself.
fn converted(expr: &Expr, from: &DataType, to: &DataType, zone: &Zone, try_it: bool) -> Option<Expr> {
    use DataType::{Date32, Date64, Interval, Time32, Time64, Timestamp};
    Some(match (from, to) {
        (Timestamp(_, Some(_)), Timestamp(_, None) | Date32 | Date64 | Time32(_) | Time64(_)) => {
            to_local(expr.clone(), zone)
        }
        (Timestamp(_, Some(_)), to) if to.is_string() => text_of_instant(expr.clone(), zone),
        (Timestamp(_, None) | Date32 | Date64, Timestamp(_, Some(_))) => to_instant(expr.clone(), zone),
        (from, Timestamp(_, Some(_))) if from.is_string() => instant_of_text(expr.clone(), zone, try_it),
        (Interval(_), to) if to.is_string() => text_of_interval(expr.clone()),
        (from, Interval(_)) if from.is_string() => interval_of_text(expr.clone(), try_it),
        (from, DataType::Boolean) if from.is_string() => truth_of_text(expr.clone(), try_it),
        (from, to) if from.is_string() => {
            let written = Written::of(to)?;
            match expr {
                // What is a constant stays one where it is written the usual way.
                Expr::Literal(value, _) => {
                    let text = value.try_as_str().flatten()?;
                    if is_rounded(to) {
                        return moment_of_text(expr.clone(), to, try_it);
                    }
                    if let Some(infinite) = infinite_value(text, to) {
                        return Some(Expr::Literal(infinite, None));
                    }
                    let Cow::Owned(usual) = written.usual(text) else { return None };
                    if let Some(far) = far::value_of(&usual, to) {
                        return Some(Expr::Literal(far, None));
                    }
                    Expr::Literal(ScalarValue::Utf8(Some(usual)), None)
                }
                expr => {
                    let moment = moment_of_text(expr.clone(), to, try_it);
                    moment.unwrap_or_else(|| written.usual_expr(expr.clone()))
                }
            }
        }
        _ => return None,
    })
}

/// Calls of functions whose answer depends on the zone, of instants.
fn of_function(mut call: ScalarFunction, schema: &DFSchema, zone: &Zone) -> Result<Transformed<Expr>> {
    if let Some(function) = call.func.inner().downcast_ref::<Function>().filter(|function| function.is_zoned()) {
        let is_known = function.zone == *zone;
        let called = if is_known { Expr::ScalarFunction(call) } else { function.clone().in_zone(zone).call(call.args) };
        return Ok(if is_known { Transformed::no(called) } else { Transformed::yes(called) });
    }
    let name = call.func.name();
    let of_text = |arg: &Expr| arg.get_type(schema).is_ok_and(|data_type| data_type.is_string());
    if *zone != Zone::UTC && name.starts_with("to_timestamp") && call.args.first().is_some_and(of_text) {
        return not_impl_err!("{name} of a text reads it in UTC, whatever TimeZone is; cast it to TIMESTAMPTZ");
    }
    if !matches!(name, DATE_PART | "date_trunc" | "to_char" | "to_date" | "to_time" | "to_local_time" | DIFFERENCE)
        && name != formats::STRFTIME
    {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let is_zoned = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| is_instant(&data_type));
    if !call.args.iter().any(is_zoned) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let whole = Expr::ScalarFunction(call.clone());
    let local = |arg: &mut Expr| *arg = to_local(std::mem::take(arg), zone);
    Ok(Transformed::yes(match name {
        DATE_PART => {
            let part = match call.args.first() {
                Some(Expr::Literal(ScalarValue::Utf8(Some(part)) | ScalarValue::Utf8View(Some(part)), _)) => {
                    part_named(part)
                }
                _ => String::new(),
            };
            if let Some(offset) = offset_part(call.args[1].clone(), &part, zone) {
                return Ok(Transformed::yes(offset));
            }
            // Seconds since 1970 are the same everywhere.
            if part == "epoch" {
                return Ok(Transformed::no(Expr::ScalarFunction(call)));
            }
            local(&mut call.args[1]);
            Expr::ScalarFunction(call)
        }
        "date_trunc" if call.args.len() == 2 => {
            let result = whole.get_type(schema)?;
            local(&mut call.args[1]);
            of_type(to_instant(Expr::ScalarFunction(call), zone), &instant(), Some(result))
        }
        "to_local_time" => of_type(to_local(call.args.swap_remove(0), zone), &LOCAL, Some(whole.get_type(schema)?)),
        DIFFERENCE => {
            let mut sides = call.args.into_iter().map(|side| match is_zoned(&side) {
                true => side,
                false => to_instant(side, zone),
            });
            match (sides.next(), sides.next()) {
                (Some(left), Some(right)) => instant_difference(left, right, zone),
                _ => whole,
            }
        }
        formats::STRFTIME => formats::strftime_in_zone(call.args, zone),
        _ => {
            call.args.iter_mut().filter(|arg| is_zoned(arg)).for_each(local);
            Expr::ScalarFunction(call)
        }
    }))
}
