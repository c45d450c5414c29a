//! Integer arithmetic that never wraps silently, put in the place of DataFusion's.
//!
//! An analyzer rule, after types are coerced, replaces operators on integers by functions that report overflow, everywhere in the statement: in what becomes
//! islands, in what stays DataFusion's, and before constants are folded.
//!
//! The same rule has casts to whole numbers round, those of doubles to floats fail where these would be infinite, those to text write it as DuckDB does, and floats compared with zero take the negative one for it, which has another place in Arrow's order. What makes
//! moments of moments leaves infinite ones as they are.
//!
//! Not here: the functions (`ogee_functions::arithmetic`, and `decimals` and `bits` there, which the rule puts in as well); floats, which Arrow treats as SQL wants.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        DFSchema, Result, ScalarValue, not_impl_err,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, TryCast, expr::ScalarFunction, lit,
        utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::{
    arithmetic,
    bits::shift_of,
    blobs, decimals,
    float_text::float_text,
    floats::is_comparison,
    marks::Casts,
    nested_text::{is_written, nested_text},
    numbers::{
        HUGEINT, as_double, fit_for_cast, is_beyond_quotients, is_narrowing, moment_text, opaque_cast, round_for_cast,
    },
    times::{
        Zone,
        infinite::{infinite_text, is_coarser, is_infinite_value},
        moved::{is_moment_cast, moment_cast, move_moment},
        parts::DATE_PART,
        session_zone,
    },
    tried::TRY,
};

use crate::{
    constants_last::is_constant,
    kept_names,
    marked_casts::is_condition,
    trees::{Nodes, Tree},
};

/// Replaces wrapping integer arithmetic by arithmetic that reports overflow.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic(pub(crate) Casts);

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = session_zone(config)?;
        plan.nodes_up(|plan| rewrite_plan(plan, zone, &self.0)).data()
    }

    fn name(&self) -> &str {
        "checked_arithmetic"
    }
}

fn rewrite_plan(plan: LogicalPlan, zone: Zone, casts: &Casts) -> Result<Transformed<LogicalPlan>> {
    if !kept_names::has_any(&plan, may_be_checked) {
        return Ok(Transformed::no(plan));
    }
    let of_conditions = is_condition(&plan).then(|| casts.of_conditions());
    let casts = of_conditions.as_ref().unwrap_or(casts);
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    kept_names::map_expressions_where(plan, may_be_checked, |expr| {
        expr.up(|expr| rewrite_expr(expr, &schema, zone, casts))
    })
}

/// Whether [`rewrite_expr`] has a look at more than what kind of expression it is.
fn may_be_checked(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => !binary.op.is_logic_operator(),
        Expr::Cast(_) | Expr::TryCast(_) | Expr::HigherOrderFunction(_) | Expr::Negative(_) => true,
        Expr::Between(_) | Expr::InList(_) => true,
        _ => false,
    }
}

fn rewrite_expr(expr: Expr, schema: &DFSchema, zone: Zone, casts: &Casts) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if let Some(compared) = compared_with_zero(&left, op, &right) {
                return Ok(Transformed::yes(compared));
            }
            if is_comparison(op) {
                let (mut left, mut right) = (left, right);
                let hide = |side: &mut Expr| hide_narrowing(side, schema) | (op != Operator::Eq && hide_part(side));
                let changed = is_constant(&right) && hide(&mut left) || is_constant(&left) && hide(&mut right);
                let compared = Expr::BinaryExpr(BinaryExpr { left, op, right });
                return Ok(if changed { Transformed::yes(compared) } else { Transformed::no(compared) });
            }
            // Shifts are those whose types were not known before.
            let shift = || shift_of(op).filter(|_| left.get_type(schema).is_ok_and(|left| left.is_integer()));
            let Some(function) = arithmetic::checked(op).or_else(shift) else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            // Both sides were coerced to one type, except for dates and intervals, which wrap nowhere. Outer references have types
            // that this plan's schema does not know; their subquery is planned again with them resolved.
            let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            if left_type == right_type && left_type.is_integer() {
                return Ok(call(function, vec![*left, *right]));
            }
            if let Some(moved) = moved(&left, op, &right, &left_type, &right_type) {
                return Ok(Transformed::yes(moved));
            }
            match decimals::checked(op, &left_type, &right_type) {
                Some(function) => call(function, vec![*left, *right]),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Cast(cast) if cast.field.data_type().is_nested() => {
            match cast
                .expr
                .to_field(schema)
                .map(|(_, from)| casts.cast_in(&zone, &cast.expr, &from, &cast.field, false))
            {
                Ok(done) => done?.map_or_else(|| Transformed::no(Expr::Cast(cast)), Transformed::yes),
                Err(_) => Transformed::no(Expr::Cast(cast)),
            }
        }
        Expr::TryCast(cast) if cast.field.data_type().is_nested() => {
            match cast.expr.to_field(schema).map(|(_, from)| casts.cast_in(&zone, &cast.expr, &from, &cast.field, true))
            {
                Ok(done) => done?.map_or_else(|| Transformed::no(Expr::TryCast(cast)), Transformed::yes),
                Err(_) => Transformed::no(Expr::TryCast(cast)),
            }
        }
        Expr::Cast(mut cast) if blobs::is_blob(cast.field.data_type()) && is_text(&cast.expr, schema) => {
            *cast.expr = blobs::of_text(std::mem::take(&mut *cast.expr));
            Transformed::yes(Expr::Cast(cast))
        }
        Expr::TryCast(mut cast) if blobs::is_blob(cast.field.data_type()) && is_text(&cast.expr, schema) => {
            *cast.expr = blobs::of_text(std::mem::take(&mut *cast.expr));
            Transformed::yes(Expr::TryCast(cast))
        }
        Expr::Cast(mut cast) if cast.field.data_type().is_string() => {
            let changed = shown(&mut cast.expr, schema, zone);
            let cast = Expr::Cast(cast);
            if changed { Transformed::yes(cast) } else { Transformed::no(cast) }
        }
        Expr::TryCast(mut cast) if cast.field.data_type().is_string() => {
            let changed = shown(&mut cast.expr, schema, zone);
            let cast = Expr::TryCast(cast);
            if changed { Transformed::yes(cast) } else { Transformed::no(cast) }
        }
        Expr::Cast(Cast { expr, field }) => match moment(&expr, field.data_type(), schema, false) {
            Some(moment) => Transformed::yes(moment),
            None => rewrite_number_cast(Expr::Cast(Cast { expr, field }), schema),
        },
        Expr::TryCast(TryCast { expr, field }) => match moment(&expr, field.data_type(), schema, true) {
            Some(moment) => Transformed::yes(moment),
            None => rewrite_number_cast(Expr::TryCast(TryCast { expr, field }), schema),
        },
        Expr::HigherOrderFunction(call) if call.func.name() == TRY && call.args.iter().any(varies) => {
            return not_impl_err!("a function in TRY whose answers vary is not supported; put TRY in its arguments");
        }
        Expr::Negative(inner) if matches!(&*inner, Expr::Literal(..)) => Transformed::no(Expr::Negative(inner)),
        Expr::Negative(inner) if inner.get_type(schema).is_ok_and(|t| t.is_signed_integer()) => {
            call(arithmetic::negate(), vec![*inner])
        }
        Expr::Between(mut between) => {
            let (low, high) = (zeros(&between.low), zeros(&between.high));
            let hidden = hide_narrowing(&mut between.expr, schema) | hide_part(&mut between.expr);
            let changed = hidden || low.is_some() || high.is_some();
            if let Some((negative, _)) = low {
                *between.low = negative;
            }
            if let Some((_, positive)) = high {
                *between.high = positive;
            }
            let between = Expr::Between(between);
            if changed { Transformed::yes(between) } else { Transformed::no(between) }
        }
        Expr::InList(mut list) => {
            let both: Vec<Expr> = list.list.iter().filter_map(zeros).flat_map(|(a, b)| [a, b]).collect();
            let changed = !both.is_empty() | hide_narrowing(&mut list.expr, schema);
            list.list.extend(both);
            let list = Expr::InList(list);
            if changed { Transformed::yes(list) } else { Transformed::no(list) }
        }
        other => Transformed::no(other),
    })
}

/// Hides the part of a moment that `side` of a comparison is: DataFusion asks whether the moment is behind the year's end, as infinite ones are, that have no year.
fn hide_part(side: &mut Expr) -> bool {
    match &mut *side {
        Expr::Cast(cast) => hide_part(&mut cast.expr),
        Expr::ScalarFunction(call) if call.func.name() == DATE_PART => {
            *side = opaque_cast(std::mem::take(side));
            true
        }
        _ => false,
    }
}

/// Hides the casts that `side` of a comparison is, where they may fail or round; around one there is often another, to the type of the other side.
fn hide_narrowing(side: &mut Expr, schema: &DFSchema) -> bool {
    let within = match &mut *side {
        Expr::Cast(cast) => hide_narrowing(&mut cast.expr, schema),
        Expr::TryCast(cast) => hide_narrowing(&mut cast.expr, schema),
        _ => return false,
    };
    if within {
        return true;
    }
    let (of, to) = match &*side {
        Expr::Cast(cast) => (&cast.expr, cast.field.data_type()),
        Expr::TryCast(cast) => (&cast.expr, cast.field.data_type()),
        _ => return false,
    };
    let hides = to.is_numeric()
        && !matches!(**of, Expr::Literal(..))
        && of.get_type(schema).is_ok_and(|from| is_narrowing(&from, to));
    if hides {
        *side = opaque_cast(std::mem::take(side));
    }
    hides
}

fn is_text(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_string())
}

/// Whether two evaluations of `expr` may differ.
fn varies(expr: &Expr) -> bool {
    match expr {
        Expr::Lambda(lambda) => varies(&lambda.body),
        other => other.is_volatile(),
    }
}

/// A cast to numbers, which rounds, and fails where it would be infinite.
fn rewrite_number_cast(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        // Casts cut off fractions.
        Expr::Cast(mut cast) if is_rounded(&cast.expr, cast.field.data_type(), schema) => {
            *cast.expr = round_for_cast(std::mem::take(&mut *cast.expr));
            Transformed::yes(Expr::Cast(cast))
        }
        Expr::TryCast(mut cast) if is_rounded(&cast.expr, cast.field.data_type(), schema) => {
            *cast.expr = round_for_cast(std::mem::take(&mut *cast.expr));
            Transformed::yes(Expr::TryCast(cast))
        }
        // Casts round the digits of long decimals, and then their quotient.
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })
            if *field.data_type() == DataType::Float64
                && expr.get_type(schema).is_ok_and(|from| is_beyond_quotients(&from)) =>
        {
            Transformed::yes(as_double(*expr))
        }
        // Arrow has no truth values of decimals.
        Expr::Cast(mut cast) if *cast.field.data_type() == DataType::Boolean && is_decimal(&cast.expr, schema) => {
            *cast.expr = datafusion::logical_expr::cast(std::mem::take(&mut *cast.expr), DataType::Float64);
            Transformed::yes(Expr::Cast(cast))
        }
        // Casts make the greatest doubles infinite.
        Expr::Cast(mut cast) if *cast.field.data_type() == DataType::Float32 && is_double(&cast.expr, schema) => {
            *cast.expr = fit_for_cast(std::mem::take(&mut *cast.expr), false);
            Transformed::yes(Expr::Cast(cast))
        }
        Expr::TryCast(mut cast) if *cast.field.data_type() == DataType::Float32 && is_double(&cast.expr, schema) => {
            *cast.expr = fit_for_cast(std::mem::take(&mut *cast.expr), true);
            Transformed::yes(Expr::TryCast(cast))
        }
        other => Transformed::no(other),
    }
}

/// The cast of `expr` to `to`, both dates or timestamps, which leaves infinite ones infinite. `None` if it is no such cast, or none is infinite.
fn moment(expr: &Expr, to: &DataType, schema: &DFSchema, tries: bool) -> Option<Expr> {
    // What is infinite stays so, and parts of a unit go to the nearest.
    let is_other = || {
        let from = expr.get_type(schema);
        from.is_ok_and(|from| is_moment_cast(&from, to) && (!is_finite(expr) || is_coarser(&from, to)))
    };
    (to.is_temporal() && is_other()).then(|| moment_cast(expr.clone(), to, tries))
}

/// A date or timestamp moved by an interval, which leaves infinite ones infinite. `None` if `left op right` is none, or not infinite.
fn moved(left: &Expr, op: Operator, right: &Expr, left_type: &DataType, right_type: &DataType) -> Option<Expr> {
    let is_moment = |of: &DataType| matches!(of, DataType::Date32 | DataType::Timestamp(_, None));
    let is_interval = |of: &DataType| matches!(of, DataType::Interval(_));
    // A time of a day is added to dates as that.
    let is_duration = matches!((left_type, right_type), (DataType::Timestamp(..), DataType::Duration(_)));
    let is_moved = is_moment(left_type) && (is_interval(right_type) || is_duration) && !is_finite(left);
    match op {
        Operator::Plus | Operator::Minus if is_moved => {
            Some(move_moment(left.clone(), right.clone(), op == Operator::Minus))
        }
        Operator::Plus
            if (is_interval(left_type)
                || matches!(left_type, DataType::Duration(_)) && *right_type != DataType::Date32)
                && is_moment(right_type)
                && !is_finite(right) =>
        {
            Some(move_moment(right.clone(), left.clone(), false))
        }
        _ => None,
    }
}

/// Whether a moment is made of constants that are finite, so that the rules of DataFusion may compute it.
fn is_finite(moment: &Expr) -> bool {
    match moment {
        Expr::Literal(value, _) => {
            !is_infinite_value(value) && value.try_as_str().flatten().is_none_or(|text| infinite_text(text).is_none())
        }
        Expr::Cast(cast) => is_finite(&cast.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
            is_finite(left) && is_finite(right)
        }
        _ => false,
    }
}

/// Both zeros of its type, if `expr` is a zero among floats: Arrow orders the negative one before the other.
fn zeros(expr: &Expr) -> Option<(Expr, Expr)> {
    let of_type = |data_type: &DataType| match data_type {
        DataType::Float64 => Some((lit(-0.0f64), lit(0.0f64))),
        DataType::Float32 => Some((lit(-0.0f32), lit(0.0f32))),
        _ => None,
    };
    let is_zero = |value: &ScalarValue| {
        !value.is_null() && ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| *value == zero)
    };
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(0.0)), _) => of_type(&DataType::Float64),
        Expr::Literal(ScalarValue::Float32(Some(0.0)), _) => of_type(&DataType::Float32),
        Expr::Cast(cast) => match &*cast.expr {
            Expr::Literal(value, _) if is_zero(value) => of_type(cast.field.data_type()),
            _ => None,
        },
        _ => None,
    }
}

/// `left op right`, if one of them is a zero among floats, so that both zeros are one.
fn compared_with_zero(left: &Expr, op: Operator, right: &Expr) -> Option<Expr> {
    let (value, op, (negative, positive)) = match (zeros(left), zeros(right)) {
        (None, Some(zeros)) => (left.clone(), op, zeros),
        (Some(zeros), None) => (right.clone(), op.swap()?, zeros),
        _ => return None,
    };
    Some(match op {
        Operator::Lt => value.lt(negative),
        Operator::LtEq => value.lt_eq(positive),
        Operator::Gt => value.gt(positive),
        Operator::GtEq => value.gt_eq(negative),
        Operator::Eq if matches!(value, Expr::Column(_)) => value.clone().gt_eq(negative).and(value.lt_eq(positive)),
        Operator::NotEq if matches!(value, Expr::Column(_)) => value.clone().lt(negative).or(value.gt(positive)),
        // The sum of both is the positive one.
        Operator::Eq => (value + positive.clone()).eq(positive),
        Operator::NotEq => (value + positive.clone()).not_eq(positive),
        _ => return None,
    })
}

/// Makes `expr`, which is cast to text, a text where Arrow would make another one of it. Gives whether that is so.
fn shown(expr: &mut Expr, schema: &DFSchema, zone: Zone) -> bool {
    let text = match expr.get_type(schema) {
        Ok(DataType::Float32 | DataType::Float64) => float_text,
        Ok(DataType::Timestamp(..) | DataType::Date32 | DataType::Time32(_) | DataType::Time64(_)) => moment_text,
        Ok(blob) if blobs::is_blob(&blob) => blobs::to_text,
        Ok(nested) if is_written(&nested) => {
            *expr = nested_text(std::mem::take(expr), zone);
            return true;
        }
        _ => return false,
    };
    *expr = text(std::mem::take(expr));
    true
}

fn is_decimal(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_decimal())
}

fn is_double(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Float64))
}

/// Whether `expr` is to be rounded before it is cast to `to`: casts to integers cut fractions off, and those of floats to HUGEINT, which is a decimal, round halves away from zero.
fn is_rounded(expr: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    let is_float = || expr.get_type(schema).is_ok_and(|from| from.is_floating());
    to.is_integer() && has_fraction(expr, schema) || *to == HUGEINT && is_float()
}

fn has_fraction(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::Decimal128(_, scale) => scale > 0,
        _ => false,
    })
}

fn call(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Transformed<Expr> {
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args)))
}
