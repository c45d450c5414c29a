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
    logical_expr::{Case, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, Values, cast},
};

/// Functions that give one of their arguments, or a list of them.
const CHOOSING: &[&str] = &["coalesce", "greatest", "ifnull", "least", "make_array", "nullif", "nvl", "nvl2"];

/// Functions that look for their second argument in the list that is their first.
const SEEKING: &[&str] = &["array_has", "array_position", "array_positions", "array_remove", "array_remove_all"];

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
    let types =
        |column: usize| -> Vec<_> { union.inputs.iter().flat_map(|input| types_below(input, column)).collect() };
    let mixed: Vec<usize> = (0..columns).filter(|&column| are_mixed(types(column).iter())).collect();
    if mixed.is_empty() {
        return with_its_names(union);
    }
    let of_floats = |input: &Arc<LogicalPlan>| {
        let column = |(nth, (relation, field)): (usize, (Option<&_>, &Arc<_>))| {
            let column = Expr::Column((relation, field).into());
            match mixed.contains(&nth) && types_below(input, nth).iter().any(is_decimal) {
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

/// The types that a column of `plan` is made of: a union in a union has that of its first input until it is coerced.
fn types_below(plan: &LogicalPlan, column: usize) -> Vec<DataType> {
    match plan {
        LogicalPlan::Union(union) => union.inputs.iter().flat_map(|input| types_below(input, column)).collect(),
        LogicalPlan::Distinct(Distinct::All(input)) => types_below(input, column),
        plan => plan.schema().fields().get(column).map(|field| field.data_type().clone()).into_iter().collect(),
    }
}

/// `union` of inputs with its names: DataFusion moves what is cast above a union below it by them, where an input is another set operation with names of its own.
fn with_its_names(union: Union) -> Result<Transformed<LogicalPlan>> {
    let names: Vec<String> = union.schema.fields().iter().map(|field| field.name().clone()).collect();
    let is_named = |input: &Arc<LogicalPlan>| {
        let fields = input.schema().fields();
        matches!(**input, LogicalPlan::Projection(_))
            || fields.len() != names.len()
            || fields.iter().zip(&names).all(|(field, name)| field.name() == name)
    };
    if union.inputs.iter().all(is_named) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let named = |input: &Arc<LogicalPlan>| {
        if is_named(input) {
            return Ok(Arc::clone(input));
        }
        let columns = input.schema().columns().into_iter().zip(&names);
        let columns = columns.map(|(column, name)| Expr::Column(column).alias(name.clone()));
        Ok(Arc::new(LogicalPlanBuilder::from(Arc::clone(input)).project(columns)?.build()?))
    };
    let inputs = union.inputs.iter().map(named).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema: union.schema })))
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
            let changed = mix(call.args.iter_mut().collect(), schema);
            let call = Expr::ScalarFunction(call);
            Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
        }
        Expr::ScalarFunction(mut call) if SEEKING.contains(&call.func.name()) && call.args.len() > 1 => {
            let types = (type_of(&call.args[0]), type_of(&call.args[1]));
            match types {
                (DataType::List(item), sought) if is_decimal(item.data_type()) && is_float(&sought) => {
                    let floats = DataType::List(Arc::new(item.as_ref().clone().with_data_type(DataType::Float64)));
                    call.args[0] = cast(std::mem::take(&mut call.args[0]), floats);
                }
                (DataType::List(item), sought) if is_float(item.data_type()) && is_decimal(&sought) => {
                    call.args[1] = to_float(std::mem::take(&mut call.args[1]));
                }
                _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
            }
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        Expr::Case(mut case) => {
            let changed = mix(compared(&mut case), schema) | mix(results(&mut case), schema);
            let case = Expr::Case(case);
            Ok(if changed { Transformed::yes(case) } else { Transformed::no(case) })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Makes floats of the decimals among `exprs` if some are floats; whether there are any.
fn mix(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Vec<DataType> = exprs.iter().map(|expr| expr.get_type(schema).unwrap_or(DataType::Null)).collect();
    if !are_mixed(types.iter()) {
        return false;
    }
    for (expr, _) in exprs.into_iter().zip(&types).filter(|(_, data_type)| is_decimal(data_type)) {
        *expr = to_float(std::mem::take(expr));
    }
    true
}

/// What `CASE x WHEN y` compares.
fn compared(case: &mut Case) -> Vec<&mut Expr> {
    let Some(expr) = &mut case.expr else { return Vec::new() };
    std::iter::once(&mut **expr).chain(case.when_then_expr.iter_mut().map(|(when, _)| &mut **when)).collect()
}

fn results(case: &mut Case) -> Vec<&mut Expr> {
    let results = case.when_then_expr.iter_mut().map(|(_, then)| &mut **then);
    results.chain(case.else_expr.iter_mut().map(|other| &mut **other)).collect()
}
