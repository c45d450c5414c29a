//! Types that DataFusion coerces to others than SQL does, mended before it coerces.
//!
//! * It keeps the sum of a date and an interval a date, and drops the hours. The date becomes a timestamp where the interval has a time of day, or may have one. A sum
//!   with whole days, months and years stays a date: its value is the same, and files are pruned by it.
//! * It takes the number in `date + 31` for an interval of so many nanoseconds, of which 64 bits hold 292 years. It is a number of days.
//! * It compares a float with a decimal as decimals of 15 digits, which few floats are. The decimal becomes a float, also within lists and structs; so it does where one of both is
//!   chosen (`mixed_types`).
//! * It takes no numbers and texts for the operands of `AND` and `OR` and the conditions of joins. They are cast.
//! * It divides decimals as decimals (see `quotients`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, TimeUnit},
    common::{
        DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, Subquery, cast, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::{floats::is_comparison, lists::check_text, times::moved::move_days};

use crate::{
    kept_names,
    mixed_types::{self, common_beside, mix, mix_alike, of_choices},
    offsets,
    quotients::Division,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct CommonTypes(pub(crate) Arc<Division>);

impl AnalyzerRule for CommonTypes {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_retyped = false;
        plan.nodes_up(|plan| {
            // Types of what is above follow.
            let plan = if is_retyped { plan.recompute_schema()? } else { plan };
            let before = Arc::clone(plan.schema());
            let made = rewrite_plan(plan, &self.0)?.transform_data(mixed_types::of_rows)?;
            is_retyped |= made.transformed && *made.data.schema() != before;
            Ok(if is_retyped { Transformed::yes(made.data) } else { made })
        })
        .data()
    }

    fn name(&self) -> &str {
        "common_types"
    }
}

/// Whether `plan` computes anything of columns. Most nodes of a statement with many tables only hand them on, and have wide schemas.
pub(crate) fn computes(plan: &LogicalPlan) -> Result<bool> {
    fn is_column(expr: &Expr) -> bool {
        match expr {
            Expr::Column(_) => true,
            Expr::Alias(alias) => is_column(&alias.expr),
            _ => false,
        }
    }
    let mut any = false;
    plan.each_expression(|expr| {
        any = !is_column(expr);
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}

fn rewrite_plan(plan: LogicalPlan, division: &Division) -> Result<Transformed<LogicalPlan>> {
    // A column may be the condition of a join.
    let has_condition = matches!(&plan, LogicalPlan::Join(Join { filter: Some(_), .. }));
    if !has_condition && !computes(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let mut plan = plan;
    let mut is_cast = false;
    if let LogicalPlan::Join(Join { filter: Some(condition), .. }) = &mut plan {
        is_cast = as_condition(condition, &schema);
    }
    let rewritten = kept_names::map_expressions(plan, |expr| {
        expr.up(|expr| {
            if let Expr::ScalarFunction(call) = &expr {
                check_text(call, &schema)?;
            }
            if let Expr::WindowFunction(mut call) = expr {
                let changed = offsets::checked(&mut call, &schema)?;
                let call = Expr::WindowFunction(call);
                return Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) });
            }
            rewrite(expr, &schema, division)?.transform_data(|expr| of_choices(expr, &schema))
        })
    })?;
    if !rewritten.transformed {
        return Ok(if is_cast { Transformed::yes(rewritten.data) } else { rewritten });
    }
    rewritten.map_data(LogicalPlan::recompute_schema)
}

/// Casts a condition of another type, of those whose types are found at once.
fn as_condition(condition: &mut Expr, schema: &DFSchema) -> bool {
    let may_be = match condition {
        Expr::Column(_) | Expr::Literal(..) | Expr::Cast(_) | Expr::ScalarFunction(_) | Expr::ScalarSubquery(_) => true,
        Expr::BinaryExpr(binary) => matches!(
            binary.op,
            Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
        ),
        _ => false,
    };
    let castable = |data_type: &DataType| data_type.is_numeric() || data_type.is_string();
    let casts = may_be && condition.get_type(schema).is_ok_and(|data_type| castable(&data_type));
    if casts {
        *condition = cast(std::mem::take(condition), DataType::Boolean);
    }
    casts
}

fn rewrite(expr: Expr, schema: &DFSchema, division: &Division) -> Result<Transformed<Expr>> {
    let done = |expr: Expr, changed: bool| Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) });
    let expr = match expr {
        // The type of a long condition is found by a walk through all of it, and says nothing here.
        Expr::BinaryExpr(mut binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            let changed = as_condition(&mut binary.left, schema) | as_condition(&mut binary.right, schema);
            return done(Expr::BinaryExpr(binary), changed);
        }
        Expr::BinaryExpr(mut binary) => {
            let sides = [&mut *binary.left, &mut *binary.right];
            let mixed = if is_comparison(binary.op) { mix_alike(sides, schema)? } else { mix(sides, schema) };
            let divides = !mixed
                && binary.op == Operator::Divide
                && division.as_floats(&mut binary.left, &mut binary.right, schema);
            if mixed || divides {
                return done(Expr::BinaryExpr(binary), true);
            }
            Expr::BinaryExpr(binary)
        }
        Expr::Between(mut between) => {
            let mixed = mix_alike([&mut *between.expr, &mut *between.low, &mut *between.high], schema)?;
            return done(Expr::Between(between), mixed);
        }
        Expr::InList(mut list) => {
            let mixed = mix_alike(std::iter::once(&mut *list.expr).chain(&mut list.list), schema)?;
            return done(Expr::InList(list), mixed);
        }
        Expr::InSubquery(mut query) => {
            let mixed = mix_with_query(&mut query.expr, &mut query.subquery, schema);
            return done(Expr::InSubquery(query), mixed);
        }
        Expr::SetComparison(mut query) => {
            let mixed = mix_with_query(&mut query.expr, &mut query.subquery, schema);
            return done(Expr::SetComparison(query), mixed);
        }
        other => other,
    };
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) = expr else {
        return done(expr, false);
    };
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
    let is_count = |expr: &Expr| matches!(expr.get_type(schema), Ok(data_type) if data_type.is_integer());
    if is_date(&left) && is_count(&right) {
        return done(days_from(*left, op, *right), true);
    }
    if op == Operator::Plus && is_count(&left) && is_date(&right) {
        return done(days_from(*right, op, *left), true);
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
    done(expr, changed)
}

/// Makes floats of the decimals within `expr`, or the columns of `subquery`, that stand beside floats of the other; whether there are any.
fn mix_with_query(expr: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> bool {
    let plan = Arc::clone(&subquery.subquery);
    let [field] = &plan.schema().fields()[..] else { return false };
    let Ok(data_type) = expr.get_type(schema) else { return false };
    let mut mixed = false;
    if let Some(floats) = common_beside(field.data_type(), &[&data_type]) {
        let column = plan.schema().columns().swap_remove(0);
        let name = column.name.clone();
        let column = cast(Expr::Column(column), floats).alias(name);
        let Ok(projection) = Projection::try_new(vec![column], Arc::clone(&plan)) else { return false };
        *subquery = subquery.with_plan(Arc::new(LogicalPlan::Projection(projection)));
        mixed = true;
    }
    if let Some(floats) = common_beside(&data_type, &[field.data_type()]) {
        *expr = cast(std::mem::take(expr), floats);
        mixed = true;
    }
    mixed
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
    move_days(date, cast(count, DataType::Int64), op == Operator::Minus)
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
