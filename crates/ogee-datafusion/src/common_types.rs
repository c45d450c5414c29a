//! Types that DataFusion coerces to others than SQL does, mended before it coerces.
//!
//! * It keeps the sum of a date and an interval a date, and drops the hours. The date becomes a timestamp where the interval has a time of day, or may have one. A sum
//!   with whole days, months and years stays a date: its value is the same, and files are pruned by it.
//! * It takes the number in `date + 31` for an interval of so many nanoseconds, of which 64 bits hold 292 years. It is a number of days.
//! * It compares a float with a decimal as decimals of 15 digits, which few floats are. The decimal becomes a float; so it does where one of both is chosen (`float_types`).
//! * It divides decimals as decimals (see `quotients`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, TimeUnit},
    common::{
        DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Subquery, cast, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};

use crate::{
    float_types::{self, of_choices},
    kept_names,
    lists::check_text,
    offsets,
    quotients::{divides_decimals, to_float},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct CommonTypes;

impl AnalyzerRule for CommonTypes {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        float_types::of_rows(plan)?.transform_up_with_subqueries(rewrite_plan).data()
    }

    fn name(&self) -> &str {
        "common_types"
    }
}

/// Whether `plan` computes anything. Most nodes of a statement with many tables do not, and have wide schemas.
pub(crate) fn has_expressions(plan: &LogicalPlan) -> Result<bool> {
    let mut any = false;
    plan.apply_expressions(|_| {
        any = true;
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(any)
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_expressions(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let rewritten = kept_names::map_expressions(plan, |expr| {
        expr.transform_up(|expr| {
            if let Expr::ScalarFunction(call) = &expr {
                check_text(call, &schema)?;
            }
            if let Expr::WindowFunction(mut call) = expr {
                let changed = offsets::checked(&mut call, &schema)?;
                let call = Expr::WindowFunction(call);
                return Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) });
            }
            rewrite(expr, &schema).transform_data(|expr| of_choices(expr, &schema))
        })
    })?;
    if !rewritten.transformed {
        return Ok(rewritten);
    }
    // Types of what is above follow.
    rewritten.map_data(LogicalPlan::recompute_schema)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let type_of = |expr: &Expr| expr.get_type(schema).ok();
    let is_float = |expr: &Expr| matches!(type_of(expr), Some(DataType::Float32 | DataType::Float64));
    let is_decimal = |expr: &Expr| matches!(type_of(expr), Some(DataType::Decimal128(..) | DataType::Decimal256(..)));
    // Of the width of the other side.
    let to_type_of = |expr: &mut Expr, other: &Expr| {
        let data_type = type_of(other).unwrap_or(DataType::Float64);
        *expr = cast(std::mem::take(expr), data_type);
    };
    match expr {
        // The type of a long condition is found by a walk through all of it, and says nothing here.
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            return Transformed::no(Expr::BinaryExpr(binary));
        }
        Expr::BinaryExpr(mut binary) if is_float(&binary.left) && is_decimal(&binary.right) => {
            to_type_of(&mut binary.right, &binary.left);
            return Transformed::yes(Expr::BinaryExpr(binary));
        }
        Expr::BinaryExpr(mut binary) if is_decimal(&binary.left) && is_float(&binary.right) => {
            to_type_of(&mut binary.left, &binary.right);
            return Transformed::yes(Expr::BinaryExpr(binary));
        }
        Expr::BinaryExpr(mut binary)
            if binary.op == Operator::Divide && divides_decimals(&binary.left, &binary.right, schema) =>
        {
            [&mut *binary.left, &mut *binary.right].into_iter().for_each(to_float);
            return Transformed::yes(Expr::BinaryExpr(binary));
        }
        Expr::Between(mut between) if is_float(&between.expr) => {
            let mut changed = false;
            for end in [&mut between.low, &mut between.high] {
                if is_decimal(end) {
                    to_type_of(end, &between.expr);
                    changed = true;
                }
            }
            let between = Expr::Between(between);
            return if changed { Transformed::yes(between) } else { Transformed::no(between) };
        }
        Expr::InList(mut list) if is_float(&list.expr) && list.list.iter().any(is_decimal) => {
            list.list.iter_mut().filter(|item| is_decimal(item)).for_each(|item| to_type_of(item, &list.expr));
            return Transformed::yes(Expr::InList(list));
        }
        Expr::InList(mut list)
            if list.list.iter().any(is_float) && std::iter::once(&*list.expr).chain(&list.list).any(is_decimal) =>
        {
            let decimals = std::iter::once(&mut *list.expr).chain(&mut list.list).filter(|item| is_decimal(item));
            decimals.for_each(to_float);
            return Transformed::yes(Expr::InList(list));
        }
        Expr::Between(mut between)
            if [&between.expr, &between.low, &between.high].into_iter().any(|side| is_decimal(side))
                && (is_float(&between.low) || is_float(&between.high)) =>
        {
            let sides = [&mut between.expr, &mut between.low, &mut between.high];
            sides.into_iter().filter(|side| is_decimal(side)).for_each(|side| to_float(side));
            return Transformed::yes(Expr::Between(between));
        }
        Expr::InSubquery(mut query) if are_mixed(&query.expr, &query.subquery, schema) => {
            (query.subquery, _) = (floats(query.subquery), to_float(&mut query.expr));
            return Transformed::yes(Expr::InSubquery(query));
        }
        Expr::SetComparison(mut query) if are_mixed(&query.expr, &query.subquery, schema) => {
            (query.subquery, _) = (floats(query.subquery), to_float(&mut query.expr));
            return Transformed::yes(Expr::SetComparison(query));
        }
        _ => {}
    }
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) = expr else {
        return Transformed::no(expr);
    };
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
    let is_count = |expr: &Expr| matches!(expr.get_type(schema), Ok(data_type) if data_type.is_integer());
    if is_date(&left) && is_count(&right) {
        return Transformed::yes(days_from(*left, op, *right));
    }
    if op == Operator::Plus && is_count(&left) && is_date(&right) {
        return Transformed::yes(days_from(*right, op, *left));
    }
    let to_moment = |expr: Expr| Box::new(cast(expr, DataType::Timestamp(TimeUnit::Microsecond, None)));
    let (left, right, changed) = if is_date(&left) && has_time(&right, schema) {
        (to_moment(*left), right, true)
    } else if op == Operator::Plus && is_date(&right) && has_time(&left, schema) {
        (left, to_moment(*right), true)
    } else {
        (left, right, false)
    };
    let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// Whether a float is looked for among decimals, or the other way around.
fn are_mixed(expr: &Expr, subquery: &Subquery, schema: &DFSchema) -> bool {
    let [field] = &subquery.subquery.schema().fields()[..] else { return false };
    let Ok(data_type) = expr.get_type(schema) else { return false };
    let is_decimal = |data_type: &DataType| matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..));
    let is_float = |data_type: &DataType| matches!(data_type, DataType::Float32 | DataType::Float64);
    is_float(&data_type) && is_decimal(field.data_type()) || is_decimal(&data_type) && is_float(field.data_type())
}

/// `subquery` with floats of its one column.
fn floats(subquery: Subquery) -> Subquery {
    let plan = Arc::clone(&subquery.subquery);
    let column = plan.schema().columns().into_iter().map(|column| {
        let name = column.name.clone();
        cast(Expr::Column(column), DataType::Float64).alias(name)
    });
    match Projection::try_new(column.collect(), Arc::clone(&plan)) {
        Ok(projection) => subquery.with_plan(Arc::new(LogicalPlan::Projection(projection))),
        Err(_) => subquery,
    }
}

/// The day that is `count` days after `date`, or before it.
fn days_from(date: Expr, op: Operator, count: Expr) -> Expr {
    let known = match &count {
        Expr::Literal(value, _) => value.cast_to(&DataType::Int32).ok(),
        _ => None,
    };
    if let Some(ScalarValue::Int32(Some(days))) = known {
        // Statistics of files are asked about dates and intervals.
        let interval = ScalarValue::new_interval_mdn(0, days, 0);
        return Expr::BinaryExpr(BinaryExpr::new(Box::new(date), op, Box::new(Expr::Literal(interval, None))));
    }
    let day = cast(cast(date, DataType::Int32), DataType::Int64);
    let moved = BinaryExpr::new(Box::new(day), op, Box::new(cast(count, DataType::Int64)));
    cast(cast(Expr::BinaryExpr(moved), DataType::Int32), DataType::Date32)
}

/// Whether `expr` is an interval that is not known to be one of whole days.
fn has_time(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(value), _) => value.is_some_and(|value| value.nanoseconds != 0),
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => false,
        Expr::Literal(ScalarValue::IntervalDayTime(value), _) => value.is_some_and(|value| value.milliseconds != 0),
        expr => matches!(expr.get_type(schema), Ok(DataType::Interval(_))),
    }
}
