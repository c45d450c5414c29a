//! Rows, branches and arguments of which some are floats and some decimals: floats.
//!
//! DataFusion makes decimals of 15 digits of both, which few floats are: `SELECT 1e-17 UNION ALL SELECT 1.5` lost the first to 0, and infinity was refused. An analyzer rule casts the
//! decimals, before DataFusion coerces: the columns of a union, of `VALUES`, of set operations and `USING`, and the arguments of functions that give one of several values.
//!
//! Not here: comparisons and arithmetic of a float and a decimal (`common_types`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, Values, cast},
};

/// Functions that give one of their arguments, or a list of them.
const CHOOSING: &[&str] = &["coalesce", "greatest", "ifnull", "least", "make_array", "nullif", "nvl", "nvl2"];

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64)
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// Whether floats and decimals are among `types`.
fn are_mixed<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> bool {
    types.clone().any(is_float) && types.clone().any(is_decimal)
}

/// `plan` with floats where its rows come from both; the types of all that is above follow.
pub(crate) fn of_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        any |= matches!(node, LogicalPlan::Union(_) | LogicalPlan::Values(_) | LogicalPlan::Join(_));
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !any {
        return Ok(plan);
    }
    let made = plan.transform_up_with_subqueries(in_node)?;
    if !made.transformed {
        return Ok(made.data);
    }
    made.data.transform_up_with_subqueries(|node| Ok(Transformed::yes(node.recompute_schema()?))).data()
}

fn in_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => in_union(union),
        LogicalPlan::Values(values) => in_values(values),
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            for (left, right) in &mut join.on {
                let types = (left.get_type(join.left.schema())?, right.get_type(join.right.schema())?);
                let side = match types {
                    (left, right_type) if is_float(&left) && is_decimal(&right_type) => right,
                    (left_type, right) if is_decimal(&left_type) && is_float(&right) => left,
                    _ => continue,
                };
                *side = to_float(std::mem::take(side));
                changed = true;
            }
            let join = LogicalPlan::Join(join);
            Ok(if changed { Transformed::yes(join) } else { Transformed::no(join) })
        }
        other => Ok(Transformed::no(other)),
    }
}

fn to_float(expr: Expr) -> Expr {
    cast(expr, DataType::Float64)
}

fn in_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    let types = |column: usize| union.inputs.iter().map(move |input| input.schema().field(column).data_type());
    let mixed: Vec<usize> = (0..columns).filter(|&column| are_mixed(types(column))).collect();
    if mixed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let of_floats = |input: &Arc<LogicalPlan>| {
        let column = |(nth, (relation, field)): (usize, (Option<&_>, &Arc<_>))| {
            let column = Expr::Column((relation, field).into());
            match mixed.contains(&nth) && is_decimal(input.schema().field(nth).data_type()) {
                true => to_float(column).alias_qualified(relation.cloned(), input.schema().field(nth).name()),
                false => column,
            }
        };
        let exprs: Vec<Expr> = input.schema().iter().enumerate().map(column).collect();
        Ok(Arc::new(LogicalPlanBuilder::from(Arc::clone(input)).project(exprs)?.build()?))
    };
    let inputs = union.inputs.iter().map(of_floats).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The values were cast when they were put together: from floats to decimals.
fn in_values(values: Values) -> Result<Transformed<LogicalPlan>> {
    let none = DFSchema::empty();
    let was_float = |expr: &Expr| match expr {
        Expr::Cast(cast) => cast.expr.get_type(&none).is_ok_and(|data_type| is_float(&data_type)),
        _ => false,
    };
    let mixed = |column: usize| {
        is_decimal(values.schema.field(column).data_type()) && values.values.iter().any(|row| was_float(&row[column]))
    };
    let mixed: Vec<bool> = (0..values.schema.fields().len()).map(mixed).collect();
    if !mixed.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    let uncast = |expr: Expr| match expr {
        Expr::Cast(cast) => to_float(*cast.expr),
        other => to_float(other),
    };
    let row =
        |row: Vec<Expr>| row.into_iter().zip(&mixed).map(|(expr, &mixed)| if mixed { uncast(expr) } else { expr });
    let rows = values.values.into_iter().map(|exprs| row(exprs).collect()).collect();
    Ok(Transformed::yes(LogicalPlanBuilder::values(rows)?.build()?))
}

/// `expr` with floats for decimals where it gives one of both.
pub(crate) fn of_choices(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let type_of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
    match expr {
        Expr::ScalarFunction(mut call) if CHOOSING.contains(&call.func.name()) => {
            let types: Vec<DataType> = call.args.iter().map(type_of).collect();
            if !are_mixed(types.iter()) {
                return Ok(Transformed::no(Expr::ScalarFunction(call)));
            }
            for (arg, _) in call.args.iter_mut().zip(&types).filter(|(_, data_type)| is_decimal(data_type)) {
                *arg = to_float(std::mem::take(arg));
            }
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        Expr::Case(mut case) => {
            let types: Vec<DataType> = results(&mut case).into_iter().map(|result| type_of(result)).collect();
            if !are_mixed(types.iter()) {
                return Ok(Transformed::no(Expr::Case(case)));
            }
            for (result, data_type) in results(&mut case).into_iter().zip(&types) {
                if is_decimal(data_type) {
                    *result = to_float(std::mem::take(result));
                }
            }
            Ok(Transformed::yes(Expr::Case(case)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn results(case: &mut Case) -> Vec<&mut Expr> {
    let results = case.when_then_expr.iter_mut().map(|(_, then)| &mut **then);
    results.chain(case.else_expr.iter_mut().map(|other| &mut **other)).collect()
}
