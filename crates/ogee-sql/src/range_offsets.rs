//! Distances in frames: `RANGE BETWEEN 1 PRECEDING AND ..` is a day over dates, a number over numbers.
//!
//! DataFusion reads the number as an interval of that many months over dates and timestamps, rounds it to the scale of a decimal, and takes some prefix of the rows over
//! texts, booleans and lists. It has no frames over times: they are ordered by a number of nanoseconds here, which does not begin again at midnight.
//!
//! Not here: the frames themselves (`ogee-exec`).

use datafusion::{
    arrow::datatypes::{DataType, IntervalUnit, TimeUnit},
    common::{
        DFSchema, Result, ScalarValue, plan_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{
        Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits, cast, expr::WindowFunction,
    },
    optimizer::AnalyzerRule,
};

use crate::{
    times::length_of_text,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RangeOffsets;

impl AnalyzerRule for RangeOffsets {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut any = false;
        plan.each_node(|node| {
            any |= matches!(node, LogicalPlan::Window(_));
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !any {
            return Ok(plan);
        }
        plan.nodes_up(|plan| {
            let LogicalPlan::Window(window) = &plan else { return Ok(Transformed::no(plan)) };
            let schema = std::sync::Arc::clone(window.input.schema());
            crate::kept_names::map_expressions(plan, |expr| {
                expr.up(|expr| {
                    let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
                    let frame = &call.params.window_frame;
                    if frame.units != WindowFrameUnits::Range {
                        return Ok(Transformed::no(Expr::WindowFunction(call)));
                    }
                    if text(&frame.start_bound).or(text(&frame.end_bound)).is_none() {
                        return in_groups(call, &schema);
                    }
                    let Some(key) = call.params.order_by.first_mut() else {
                        return Ok(Transformed::no(Expr::WindowFunction(call)));
                    };
                    let data_type = key.expr.get_type(&schema)?;
                    let frame = &mut call.params.window_frame;
                    frame.start_bound = of_key(frame.start_bound.clone(), &data_type)?;
                    frame.end_bound = of_key(frame.end_bound.clone(), &data_type)?;
                    if is_time(&data_type) {
                        key.expr = as_number(std::mem::take(&mut key.expr));
                    }
                    Ok(Transformed::yes(Expr::WindowFunction(call)))
                })
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "range_offsets"
    }
}

/// No times are further apart.
const NANOS_OF_DAY: i128 = 86_400_000_000_000;

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

/// The nanoseconds of `time` since midnight.
fn as_number(time: Expr) -> Expr {
    cast(cast(time, DataType::Time64(TimeUnit::Nanosecond)), DataType::Int64)
}

/// `call` with a frame of whole groups of peers where DataFusion has no distances between keys: without a distance, that is the same frame. Of times it has numbers.
fn in_groups(mut call: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut has_distances = true;
    let mut changed = false;
    for key in &mut call.params.order_by {
        let data_type = key.expr.get_type(schema)?;
        has_distances &= !data_type.is_nested() && !data_type.is_binary();
        if is_time(&data_type) {
            key.expr = as_number(std::mem::take(&mut key.expr));
            changed = true;
        }
    }
    let frame = &call.params.window_frame;
    if !has_distances {
        call.params.window_frame =
            WindowFrame::new_bounds(WindowFrameUnits::Groups, frame.start_bound.clone(), frame.end_bound.clone());
    }
    Ok(Transformed::new_transformed(Expr::WindowFunction(call), changed || !has_distances))
}

/// The distance of `bound`, as it was written.
fn text(bound: &WindowFrameBound) -> Option<&str> {
    match bound {
        WindowFrameBound::Preceding(ScalarValue::Utf8(distance))
        | WindowFrameBound::Following(ScalarValue::Utf8(distance)) => distance.as_deref(),
        _ => None,
    }
}

/// `bound`, in the words that DataFusion has for a distance between values of `key`.
fn of_key(bound: WindowFrameBound, key: &DataType) -> Result<WindowFrameBound> {
    let Some(distance) = text(&bound) else { return Ok(bound) };
    let number = distance.trim();
    let is_number = number.parse::<f64>().is_ok();
    let interval = ScalarValue::Utf8(Some(number.to_owned())).cast_to(&DataType::Interval(IntervalUnit::MonthDayNano));
    let is_negative = match interval {
        _ if is_number => number.starts_with('-'),
        Ok(ScalarValue::IntervalMonthDayNano(Some(interval))) => {
            interval.months < 0 || interval.days < 0 || interval.nanoseconds < 0
        }
        _ => false,
    };
    if is_negative {
        return plan_err!("the distance of a frame is not negative, as {number} is; use PRECEDING or FOLLOWING");
    }
    match key {
        DataType::Date32 | DataType::Date64 if is_number => {
            if number.parse::<i32>().is_err() {
                return plan_err!("RANGE over dates takes whole days or an INTERVAL, not {number}");
            }
            let days = ScalarValue::Utf8(Some(format!("{number} days")));
            return Ok(match bound {
                WindowFrameBound::Preceding(_) => WindowFrameBound::Preceding(days),
                _ => WindowFrameBound::Following(days),
            });
        }
        key if is_time(key) => {
            if is_number {
                return plan_err!("RANGE over times takes an INTERVAL, not {number}");
            }
            let nanos = ScalarValue::Utf8(Some(length_of_text(number)?.min(NANOS_OF_DAY).to_string()));
            return Ok(match bound {
                WindowFrameBound::Preceding(_) => WindowFrameBound::Preceding(nanos),
                _ => WindowFrameBound::Following(nanos),
            });
        }
        DataType::Timestamp(..) if is_number => {
            return plan_err!("RANGE over timestamps takes an INTERVAL, not {number}");
        }
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            let digits = number.split_once('.').map_or(0, |(_, digits)| digits.trim_end_matches('0').len());
            if digits > usize::try_from(*scale).unwrap_or(0) {
                return plan_err!("RANGE over {key} takes no {number}, which has more digits; order by a DOUBLE");
            }
        }
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::List(_)
        | DataType::LargeList(_)
        | DataType::Struct(_)
        | DataType::Map(..) => {
            return plan_err!(
                "RANGE with a distance is over numbers, dates and times, not over {key}; use ROWS or GROUPS"
            );
        }
        DataType::Interval(_) if is_number => {
            return plan_err!("RANGE over intervals takes an INTERVAL, not {number}");
        }
        _ => {}
    }
    Ok(bound)
}
