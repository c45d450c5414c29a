//! Lists, structs and maps in one order: a NULL within them is greatest, as where rows are sorted by them.
//!
//! DataFusion compares with NULL as the least element: `[1, NULL] < [1, 2]` was true, and `max` of lists chose the other one. Comparisons, `greatest` and `least` become
//! functions with the right order; `min`, `max` and those that choose by another value become the first value by it. Where rows are sorted, NULLs within go where NULLs as a
//! whole go: an order that has these at the other end is one of whether it is NULL, then one of values.
//!
//! Not here: equality, which has no order.

use std::{
    cmp::Ordering,
    sync::{Arc, LazyLock},
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, BooleanArray, DynComparator, make_comparator},
        compute::{SortOptions, interleave},
        datatypes::{DataType, Field, FieldRef},
    },
    common::{
        DFSchema, Result, ScalarValue, internal_err,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    functions_aggregate::first_last::first_value_udaf,
    logical_expr::{
        Between, BinaryExpr, ColumnarValue, Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, Operator,
        ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SortExpr, Volatility, lit, not,
        utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};

use crate::{kept_names, nested_extremes, order_keys, trees::Nodes};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct NestedOrder;

impl AnalyzerRule for NestedOrder {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up(rewrite_plan).data()
    }

    fn name(&self) -> &str {
        "nested_order"
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = merge_schema(&[&sort.input]);
            let is_split = split_keys(&mut sort.expr, &schema);
            let plan = LogicalPlan::Sort(sort);
            if is_split { Transformed::yes(plan) } else { Transformed::no(plan) }
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let schema = merge_schema(&[&on.input]);
            split_distinct(on, &schema)
        }
        plan => Transformed::no(plan),
    };
    plan.transform_data(|plan| kept_names::rewrite_where(plan, may_order, rewrite))
}

fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_nested())
}

/// `DISTINCT ON`, whose keys are those that its order begins with: what is split there is a key in both parts.
fn split_distinct(mut on: DistinctOn, schema: &DFSchema) -> Transformed<LogicalPlan> {
    let mut is_split = false;
    if let Some(order) = &mut on.sort_expr {
        let mut rest = order.split_off(on.on_expr.len().min(order.len()));
        is_split = split_keys(order, schema);
        if is_split {
            on.on_expr = order.iter().map(|key| key.expr.clone()).collect();
        }
        is_split |= split_keys(&mut rest, schema);
        order.append(&mut rest);
    }
    let plan = LogicalPlan::Distinct(Distinct::On(on));
    if is_split { Transformed::yes(plan) } else { Transformed::no(plan) }
}

/// Makes two of each key whose NULLs go to the other end than those within; whether there are any.
fn split_keys(keys: &mut Vec<SortExpr>, schema: &DFSchema) -> bool {
    let is_split = |key: &SortExpr| key.asc == key.nulls_first && is_nested(&key.expr, schema);
    if !keys.iter().any(is_split) {
        return false;
    }
    let split = |key: SortExpr| {
        if !is_split(&key) {
            return vec![key];
        }
        // Of TRUE and FALSE the latter is first.
        let whole = SortExpr::new(key.expr.clone().is_null(), !key.nulls_first, false);
        vec![whole, SortExpr { nulls_first: !key.nulls_first, ..key }]
    };
    *keys = std::mem::take(keys).into_iter().flat_map(split).collect();
    true
}

/// Whether [`rewrite`] has a look at types, which takes a walk through what is below.
fn may_order(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_order(binary.op),
        Expr::Between(_) => true,
        Expr::ScalarFunction(call) => is_extreme(call.func.name()),
        Expr::AggregateFunction(call) => is_chosen(call.func.name()) || !call.params.order_by.is_empty(),
        Expr::WindowFunction(call) => !call.params.order_by.is_empty() || is_chosen(call.fun.name()),
        _ => false,
    }
}

/// Whether the aggregate is the value for the least or the greatest of its last argument.
fn is_chosen(name: &str) -> bool {
    matches!(name, "max" | "min" | "arg_max" | "arg_min")
}

fn is_order(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_nested = |expr: &Expr| is_nested(expr, schema);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_order(op) && is_nested(&left) && is_nested(&right) => {
            Transformed::yes(ORDERED.call(vec![lit(op.to_string()), *left, *right]))
        }
        Expr::Between(Between { expr, negated, low, high })
            if is_nested(&expr) && is_nested(&low) && is_nested(&high) =>
        {
            let from = ORDERED.call(vec![lit(">="), (*expr).clone(), *low]);
            let within = from.and(ORDERED.call(vec![lit("<="), *expr, *high]));
            Transformed::yes(if negated { not(within) } else { within })
        }
        Expr::ScalarFunction(call) if is_extreme(call.func.name()) && call.args.iter().all(is_nested) => {
            let mut args = vec![lit(call.func.name())];
            args.extend(call.args);
            Transformed::yes(ORDERED.call(args))
        }
        Expr::AggregateFunction(mut call)
            if is_chosen(call.func.name()) && call.params.args.last().is_some_and(is_nested) =>
        {
            let params = &mut call.params;
            let least = call.func.name().ends_with("min");
            let counts = params.args.iter().map(|arg| arg.clone().is_not_null()).reduce(Expr::and);
            params.filter =
                params.filter.take().map(|filter| *filter).into_iter().chain(counts).reduce(Expr::and).map(Box::new);
            params.order_by =
                params.args.last().map(|by| SortExpr::new(by.clone(), least, !least)).into_iter().collect();
            params.order_by.iter_mut().for_each(|by| *by = order_keys::of(by.clone()));
            params.args.truncate(1);
            params.distinct = false;
            call.func = first_value_udaf();
            Transformed::yes(Expr::AggregateFunction(call))
        }
        Expr::AggregateFunction(mut call) => {
            let mut is_other = split_keys(&mut call.params.order_by, schema);
            // Of distinct values the order is by the values themselves.
            if !call.params.distinct {
                for by in call.params.order_by.iter_mut().filter(|by| is_nested(&by.expr)) {
                    *by = order_keys::of(by.clone());
                    is_other = true;
                }
            }
            let call = Expr::AggregateFunction(call);
            if is_other { Transformed::yes(call) } else { Transformed::no(call) }
        }
        Expr::WindowFunction(mut call) => {
            let is_split = split_keys(&mut call.params.order_by, schema);
            let is_extreme = is_chosen(call.fun.name()) && call.params.args.last().is_some_and(is_nested);
            if is_extreme {
                nested_extremes::in_order(&mut call);
            }
            let call = Expr::WindowFunction(call);
            if is_split || is_extreme { Transformed::yes(call) } else { Transformed::no(call) }
        }
        other => Transformed::no(other),
    }
}

fn is_extreme(name: &str) -> bool {
    matches!(name, "greatest" | "least")
}

static ORDERED: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(Ordered { signature: Signature::variadic_any(Volatility::Immutable) }))
});

/// `ogee_ordered(how, a, b ..)`: whether `a` and `b` are in an order, or which of all is the greatest or the least.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Ordered {
    signature: Signature,
}

impl ScalarUDFImpl for Ordered {
    fn name(&self) -> &str {
        "ogee_ordered"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("{} has the type of its arguments' values: {arg_types:?}", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let how = args.scalar_arguments[0].and_then(|how| how.try_as_str().flatten()).unwrap_or_default();
        let data_type = if is_extreme(how) { args.arg_fields[1].data_type().clone() } else { DataType::Boolean };
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let ColumnarValue::Scalar(how) = &args.args[0] else { return internal_err!("an order for each row") };
        let how = how.try_as_str().flatten().unwrap_or_default();
        let arrays = ColumnarValue::values_to_arrays(&args.args[1..])?;
        let found = match how {
            "greatest" => extreme(&arrays, Ordering::Greater)?,
            "least" => extreme(&arrays, Ordering::Less)?,
            op => Arc::new(in_order(op, &arrays[0], &arrays[1])?),
        };
        Ok(match all_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}

/// Of rows without NULL as a whole.
pub(crate) fn comparator(left: &ArrayRef, right: &ArrayRef) -> Result<DynComparator> {
    Ok(make_comparator(left, right, SortOptions { descending: false, nulls_first: false })?)
}

fn in_order(op: &str, left: &ArrayRef, right: &ArrayRef) -> Result<BooleanArray> {
    let compare = comparator(left, right)?;
    let is_so = |ordering: Ordering| match op {
        "<" => ordering.is_lt(),
        "<=" => ordering.is_le(),
        ">" => ordering.is_gt(),
        _ => ordering.is_ge(),
    };
    let both = |row: usize| left.is_valid(row) && right.is_valid(row);
    Ok((0..left.len()).map(|row| both(row).then(|| is_so(compare(row, row)))).collect())
}

/// The value of each row that compares as `wanted` to all others; those that are NULL do not count.
fn extreme(arrays: &[ArrayRef], wanted: Ordering) -> Result<ArrayRef> {
    let rows = arrays[0].len();
    let mut chosen: Vec<(usize, usize)> = (0..rows).map(|row| (0, row)).collect();
    for (index, array) in arrays.iter().enumerate().skip(1) {
        let compares = arrays[..index].iter().map(|before| comparator(array, before)).collect::<Result<Vec<_>>>()?;
        for (row, (best, _)) in chosen.iter_mut().enumerate() {
            if array.is_valid(row) && (arrays[*best].is_null(row) || compares[*best](row, row) == wanted) {
                *best = index;
            }
        }
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(interleave(&arrays, &chosen)?)
}
