//! One total order of floats in whatever DataFusion evaluates: NaN equals NaN and is greatest, `-0.0` equals `0.0` (`ogee_vector::canonical_floats`).
//!
//! Arrow's kernels compare bits, and `inf - inf` is a negative NaN on most processors. So values that are compared are brought into one form first: columns where an
//! expression is handed to the engine (`ogee_functions::floats`), constants by an analyzer rule, since they are compared while the statement is planned. Functions that compare their
//! arguments, and keys that aggregates choose or order values by, have them in that form from the rule, too, and so have values that aggregates count each of, and those of which windows
//! take the least or greatest. Others that come out are as they were.
//!
//! Not here: keys of groups, joins, sorts and windows, and comparisons of columns with constants, which the engine does in this order.

use datafusion::{
    common::{
        DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr, expr::WindowFunction,
        utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::floats::{canonical, counts_values, is_comparison};
use ogee_vector::has_floats;

use crate::{
    kept_names,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FloatOrder;

/// Functions of the library that compare their arguments, or values within them.
const COMPARING: &[&str] = &[
    "array_distinct",
    "array_except",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_intersect",
    "array_max",
    "array_min",
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_sort",
    "array_union",
    "greatest",
    "least",
];

impl AnalyzerRule for FloatOrder {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up(rewrite_plan).data()
    }

    fn name(&self) -> &str {
        "float_order"
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // Equal columns are keys of joins there, and compared by the engine.
    let finds_keys = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    let is_looked_at = |expr: &Expr| may_compare(expr) && !(finds_keys && is_of_columns(expr));
    if !kept_names::has_any(&plan, is_looked_at) {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    kept_names::map_expressions_where(plan, is_looked_at, |expr| {
        expr.up(
            |expr| if finds_keys && is_of_columns(&expr) { Ok(Transformed::no(expr)) } else { rewrite(expr, &schema) },
        )
    })
}

/// Whether [`rewrite`] has a look at types, which takes a walk through what is below.
fn may_compare(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_comparison(binary.op) && is_of_values(binary),
        Expr::Between(_) | Expr::InList(_) => true,
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(call) => COMPARING.contains(&call.func.name()),
        Expr::AggregateFunction(call) => {
            let params = &call.params;
            let name = call.func.name();
            params.distinct || !params.order_by.is_empty() || chooses(name) || counts_values(name)
        }
        Expr::WindowFunction(call) => is_extremum(call) || counts_values(call.fun.name()),
        Expr::Literal(value, _) => is_nan(value),
        _ => false,
    }
}

/// Whether `call` is the least or the greatest value of a frame, which DataFusion finds by bits where it runs the window.
fn is_extremum(call: &WindowFunction) -> bool {
    matches!(call.fun.name(), "min" | "max")
}

/// Whether a comparison may be made while the statement is planned, when columns have become what they are computed from, and not by the kernels that compare a column
/// with a constant.
fn is_of_values(binary: &BinaryExpr) -> bool {
    let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(..));
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(_));
    let (left, right) = (&*binary.left, &*binary.right);
    !(is_literal(left) && (is_literal(right) || is_column(right)) || is_literal(right) && is_column(left))
}

/// Whether `expr` compares two columns.
fn is_of_columns(expr: &Expr) -> bool {
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(_) | Expr::OuterReferenceColumn(..));
    matches!(expr, Expr::BinaryExpr(binary) if is_column(&binary.left) && is_column(&binary.right))
}

/// Whether the aggregate takes the value where another is least or greatest.
fn chooses(name: &str) -> bool {
    matches!(name, "arg_min" | "arg_max")
}

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float32(Some(value)) => value.is_nan(),
        ScalarValue::Float64(Some(value)) => value.is_nan(),
        _ => false,
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let floats = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| has_floats(&data_type));
    Ok(match expr {
        Expr::Literal(ScalarValue::Float64(value), metadata) if value.is_some_and(f64::is_nan) => {
            Transformed::yes(Expr::Literal(ScalarValue::Float64(Some(f64::NAN)), metadata))
        }
        Expr::Literal(ScalarValue::Float32(value), metadata) if value.is_some_and(f32::is_nan) => {
            Transformed::yes(Expr::Literal(ScalarValue::Float32(Some(f32::NAN)), metadata))
        }
        Expr::BinaryExpr(binary) if is_comparison(binary.op) && is_of_values(&binary) => {
            let BinaryExpr { mut left, op, mut right } = binary;
            let mut changed = false;
            for side in [&mut left, &mut right] {
                if !matches!(**side, Expr::Literal(..)) && floats(side) {
                    **side = canonical(std::mem::take(&mut **side));
                    changed = true;
                }
            }
            let binary = Expr::BinaryExpr(BinaryExpr { left, op, right });
            if changed { Transformed::yes(binary) } else { Transformed::no(binary) }
        }
        Expr::Between(mut between) => {
            let sides = [&mut *between.expr, &mut *between.low, &mut *between.high];
            let changed = in_place(sides.into_iter(), floats);
            let between = Expr::Between(between);
            if changed { Transformed::yes(between) } else { Transformed::no(between) }
        }
        Expr::InList(mut list) if list.list.iter().any(|value| !matches!(value, Expr::Literal(..))) => {
            let changed = in_place(std::iter::once(&mut *list.expr).chain(&mut list.list), floats);
            let list = Expr::InList(list);
            if changed { Transformed::yes(list) } else { Transformed::no(list) }
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr })
            if !operand.is_volatile() && floats(&operand) =>
        {
            let searched = when_then_expr.into_iter().map(|(value, then)| {
                let equal = rewrite(binary_expr((*operand).clone(), Operator::Eq, *value), schema)?.data;
                Ok((Box::new(equal), then))
            });
            let searched = searched.collect::<Result<Vec<_>>>()?;
            Transformed::yes(Expr::Case(Case { expr: None, when_then_expr: searched, else_expr }))
        }
        Expr::ScalarFunction(mut call) if COMPARING.contains(&call.func.name()) => {
            let changed = in_place(call.args.iter_mut(), floats);
            let call = Expr::ScalarFunction(call);
            if changed { Transformed::yes(call) } else { Transformed::no(call) }
        }
        Expr::AggregateFunction(mut call) => {
            let mut changed = in_place(call.params.order_by.iter_mut().map(|by| &mut by.expr), floats);
            if chooses(call.func.name()) {
                changed |= in_place(call.params.args.iter_mut().skip(1), floats);
            }
            if call.params.distinct || counts_values(call.func.name()) {
                changed |= in_place(call.params.args.iter_mut(), floats);
            }
            let call = Expr::AggregateFunction(call);
            if changed { Transformed::yes(call) } else { Transformed::no(call) }
        }
        Expr::WindowFunction(mut call) if is_extremum(&call) || counts_values(call.fun.name()) => {
            let changed = in_place(call.params.args.iter_mut(), floats);
            let call = Expr::WindowFunction(call);
            if changed { Transformed::yes(call) } else { Transformed::no(call) }
        }
        other => Transformed::no(other),
    })
}

/// Brings those of `exprs` into one form that are `floats`; whether there are any.
fn in_place<'a>(exprs: impl Iterator<Item = &'a mut Expr>, floats: impl Fn(&Expr) -> bool) -> bool {
    let mut changed = false;
    for expr in exprs.filter(|expr| !matches!(expr, Expr::Literal(..)) && floats(expr)) {
        *expr = canonical(std::mem::take(expr));
        changed = true;
    }
    changed
}
