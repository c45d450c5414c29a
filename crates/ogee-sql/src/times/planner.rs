//! Operators of times, where a statement becomes a plan: what DataFusion refuses there, or gives another type.
//!
//! Not here: what depends on the zone of the session (`zone_rule`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::{DFSchema, ExprSchema, Result, plan_err},
    logical_expr::{
        Expr, ExprSchemable, cast,
        expr::ScalarFunction,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};
use ogee_functions::times::{
    intervals::{INTERVAL, difference, divide, move_time, multiply, scale},
    parts::date_part,
};

/// Operators of intervals and moments.
#[derive(Debug, Default)]
pub(crate) struct TimePlanner;

impl ExprPlanner for TimePlanner {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Multiply, NotEq, Plus};
        if matches!(raw.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            return Ok(PlannerResult::Original(with_interval(raw, schema)));
        }
        if !matches!(raw.op, Plus | Minus | Multiply | Divide)
            || !may_be_time(&raw.left, schema) && !may_be_time(&raw.right, schema)
        {
            return Ok(PlannerResult::Original(raw));
        }
        let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        let is_interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
        let is_time = |data_type: &DataType| matches!(data_type, DataType::Time32(_) | DataType::Time64(_));
        let is_moment = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..));
        let is_day = |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Date64);
        let is_number = |data_type: &DataType| data_type.is_numeric() || data_type.is_null();
        let planned = match raw.op {
            Multiply if is_interval(&left) && is_number(&right) => product(raw.left, raw.right, &right),
            Multiply if is_number(&left) && is_interval(&right) => product(raw.right, raw.left, &left),
            Divide if is_interval(&left) && is_number(&right) => divide(raw.left, cast(raw.right, DataType::Float64)),
            Plus if is_time(&left) && is_interval(&right) => move_time(raw.left, raw.right, false),
            Plus if is_interval(&left) && is_time(&right) => move_time(raw.right, raw.left, false),
            Minus if is_time(&left) && is_interval(&right) => move_time(raw.left, raw.right, true),
            Minus if is_moment(&left) && (is_moment(&right) || is_day(&right)) => difference(raw.left, raw.right),
            Minus if is_day(&left) && is_moment(&right) => difference(raw.left, raw.right),
            Plus if is_day(&left) && right.is_null() => cast(raw.right, left),
            Plus if is_day(&right) && left.is_null() => cast(raw.left, right),
            Minus if is_day(&left) && right.is_null() => cast(raw.right, DataType::Int64),
            Plus | Minus if is_interval(&left) && right.is_numeric() || left.is_numeric() && is_interval(&right) => {
                return plan_err!("{} of an interval and a number; write a unit, as in INTERVAL '1 day'", raw.op);
            }
            _ => return Ok(PlannerResult::Original(raw)),
        };
        Ok(PlannerResult::Planned(planned))
    }

    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let function = Arc::new(date_part());
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
    }
}

/// Parts of an expression that are looked at before it is taken for one of numbers: sums may have thousands of terms.
const PARTS_MAX: usize = 64;

/// Whether `expr` may be of a type of times. Cheaper than its type, which sums of numbers need not be asked for at each of their terms.
pub(super) fn may_be_time(expr: &Expr, schema: &DFSchema) -> bool {
    fn within(expr: &Expr, schema: &DFSchema, parts: &mut usize) -> bool {
        let Some(left) = parts.checked_sub(1) else { return false };
        *parts = left;
        match expr {
            Expr::Column(column) => schema.data_type(column).map_or(true, DataType::is_temporal),
            Expr::Literal(value, _) => value.data_type().is_temporal(),
            Expr::Cast(cast) => cast.field.data_type().is_temporal(),
            Expr::TryCast(cast) => cast.field.data_type().is_temporal(),
            Expr::Alias(alias) => within(&alias.expr, schema, parts),
            Expr::Negative(inner) => within(inner, schema, parts),
            Expr::BinaryExpr(binary) => {
                binary.op.is_numerical_operators()
                    && (within(&binary.right, schema, parts) || within(&binary.left, schema, parts))
            }
            Expr::Like(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::Between(_)
            | Expr::InList(_) => false,
            // What functions and subqueries give is known by asking.
            _ => true,
        }
    }
    within(expr, schema, &mut { PARTS_MAX })
}

/// A constant text that is compared with an interval is one.
fn with_interval(mut raw: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
    let is_text = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.data_type().is_string());
    let is_interval =
        |expr: &Expr| may_be_time(expr, schema) && matches!(expr.get_type(schema), Ok(DataType::Interval(_)));
    if is_text(&raw.right) && is_interval(&raw.left) {
        raw.right = cast(raw.right, INTERVAL);
    } else if is_text(&raw.left) && is_interval(&raw.right) {
        raw.left = cast(raw.left, INTERVAL);
    }
    raw
}

fn product(interval: Expr, count: Expr, count_type: &DataType) -> Expr {
    if count_type.is_integer() || count_type.is_null() {
        multiply(interval, cast(count, DataType::Int64))
    } else {
        scale(interval, cast(count, DataType::Float64))
    }
}
