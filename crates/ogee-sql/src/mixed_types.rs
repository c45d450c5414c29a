//! Rows, branches and arguments of which some are floats and some decimals: floats. Or some dates and some timestamps: timestamps as fine as those.
//!
//! DataFusion makes decimals of 15 digits of floats and decimals, which few floats are: `SELECT 1e-17 UNION ALL SELECT 1.5` lost the first to 0, and infinity was refused. It makes
//! timestamps in nanoseconds of dates and timestamps, of which 64 bits hold 292 years: `valid_to > now()` was refused for the date 9999-12-31. An analyzer rule casts before DataFusion
//! coerces: the columns of a union, of `VALUES`, of set operations and `USING`, what is compared, and the arguments of functions that give one of several values.
//!
//! Not here: arithmetic of dates and of decimals (`common_types`).

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit},
    common::{DFSchema, Result, plan_err, tree_node::Transformed},
    logical_expr::{
        Case, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, Values, cast,
        expr::ScalarFunction, type_coercion::binary::type_union_coercion,
    },
};

use ogee_functions::{
    common::{Beside, common_type, is_known_here},
    lists::element,
    type_names::sql_name,
};

use crate::set_operations::{in_common_types, is_set_operation};

/// Functions that give one of their arguments, or a list of them or of their elements, or that look for elements of one in another.
const CHOOSING: &[&str] = &[
    "||",
    "array_concat",
    "array_except",
    "array_has_all",
    "array_has_any",
    "array_intersect",
    "array_union",
    "coalesce",
    "greatest",
    "ifnull",
    "least",
    "make_array",
    "nvl",
    "nvl2",
];

/// What becomes of values of type `data_type` beside values of the types `beside`: where it has a decimal and one of them a float, within lists and structs too, it has a float
/// of that width, and where it has a date and one of them a timestamp, that timestamp. `None` if that is nowhere.
pub(crate) fn common_beside(data_type: &DataType, beside: &[&DataType]) -> Option<DataType> {
    let within = |field: &FieldRef, beside: &[&DataType]| {
        let of = common_beside(field.data_type(), beside)?;
        Some(Arc::new(field.as_ref().clone().with_data_type(of)))
    };
    let items = || -> Vec<&DataType> { beside.iter().filter_map(|other| item(other)).collect() };
    match data_type {
        decimal if is_decimal(decimal) => {
            let floats = beside.iter().filter(|other| other.is_floating());
            floats
                .reduce(|widest, float| if **widest == DataType::Float64 { widest } else { float })
                .map(|&float| float.clone())
        }
        // Truth values beside numbers are 0 and 1.
        DataType::Boolean if beside.iter().any(|other| other.is_numeric()) => common_type(beside.iter().copied()),
        DataType::Date32 => finest(beside),
        // Not in nanoseconds, in which there is no year 2300.
        text if text.is_string() => finest(beside),
        // Dates and timestamps that were cast when they were put together.
        DataType::Timestamp(TimeUnit::Nanosecond, _) if beside.contains(&&DataType::Date32) => {
            finest(beside).filter(|finest| finest != data_type)
        }
        DataType::List(field) => Some(DataType::List(within(field, &items())?)),
        DataType::LargeList(field) => Some(DataType::LargeList(within(field, &items())?)),
        DataType::FixedSizeList(field, size) => Some(DataType::FixedSizeList(within(field, &items())?, *size)),
        DataType::Struct(fields) => {
            let mut any = false;
            let field = |(at, field): (usize, &FieldRef)| {
                let others: Vec<&DataType> = beside.iter().filter_map(|other| nth_field(other, at)).collect();
                let common_beside = within(field, &others);
                any |= common_beside.is_some();
                common_beside.unwrap_or_else(|| Arc::clone(field))
            };
            let fields: Fields = fields.iter().enumerate().map(field).collect();
            any.then_some(DataType::Struct(fields))
        }
        _ => None,
    }
}

/// The timestamp of the finest unit among `types`.
fn finest(types: &[&DataType]) -> Option<DataType> {
    let unit = |of: &&&DataType| if let DataType::Timestamp(unit, _) = of { Some(*unit) } else { None };
    types.iter().filter(|of| unit(of).is_some()).max_by_key(unit).map(|&finest| finest.clone())
}

fn item(data_type: &DataType) -> Option<&DataType> {
    element(data_type).map(|of| of.data_type())
}

fn nth_field(data_type: &DataType, at: usize) -> Option<&DataType> {
    match data_type {
        DataType::Struct(fields) => fields.get(at).map(|field| field.data_type()),
        _ => None,
    }
}

/// Whether a value of type `data_type` is one of the `wanted` types, or has one within.
fn has_within(data_type: &DataType, wanted: fn(&DataType) -> bool) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_within(field.data_type(), wanted)),
        other => item(other).map_or_else(|| wanted(other), |item| has_within(item, wanted)),
    }
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// Whether some of `types` may have another beside others of them.
fn may_be_mixed(types: &[DataType]) -> bool {
    let any = |wanted| types.iter().any(|of| has_within(of, wanted));
    let is_timestamp = |of: &DataType| matches!(of, DataType::Timestamp(..));
    let is_other = |of: &DataType| *of == DataType::Date32 || of.is_string();
    any(is_decimal) && any(DataType::is_floating) || any(is_other) && any(is_timestamp)
}

/// The decimals that whole numbers and decimals of `types` are. DataFusion finds them after quotients of decimals have become such of floats, and would cut others off.
fn common_number(types: &[DataType]) -> Option<DataType> {
    let is_number = |of: &DataType| of.is_null() || of.is_integer() || is_decimal(of);
    if !types.iter().any(is_decimal) || !types.iter().any(DataType::is_integer) || !types.iter().all(is_number) {
        return None;
    }
    let (first, rest) = types.split_first()?;
    rest.iter().try_fold(first.clone(), |common, of| type_union_coercion(&common, of))
}

/// # Errors
/// Some of `types` are numbers, and some dates or timestamps: DataFusion would take a number for that of a day.
fn check<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Result<()> {
    let (mut number, mut moment) = (None, None);
    for of in types {
        match of {
            of if of.is_numeric() => number = number.or(Some(of)),
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => moment = moment.or(Some(of)),
            _ => {}
        }
    }
    match (number, moment) {
        (Some(number), Some(moment)) => {
            let (number, moment) = (sql_name(number), sql_name(moment));
            plan_err!("values of type {moment} and {number} stand beside each other: cast one of them")
        }
        _ => Ok(()),
    }
}

/// The same as [`mix`] of values that are compared, or of which one is chosen.
///
/// # Errors
/// They have no type in common.
pub(crate) fn mix_alike<'a>(exprs: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> Result<bool> {
    let exprs: Vec<&mut Expr> = exprs.into_iter().collect();
    let types = types_of(&exprs, schema);
    check(&types)?;
    Ok(mix_of(exprs, &types))
}

/// Casts those of `exprs`, the sides of an operator, that have another type [beside](common_beside) the others; whether there are any. A text is one there: `ts || '!'`.
pub(crate) fn mix<'a>(exprs: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let exprs: Vec<&mut Expr> = exprs.into_iter().collect();
    let types = types_of(&exprs, schema);
    !types.iter().any(DataType::is_string) && mix_of(exprs, &types)
}

fn types_of(exprs: &[&mut Expr], schema: &DFSchema) -> Vec<DataType> {
    exprs.iter().map(|expr| expr.get_type(schema).unwrap_or(DataType::Null)).collect()
}

fn mix_of(exprs: Vec<&mut Expr>, types: &[DataType]) -> bool {
    if is_known_here(types) {
        return unify(exprs, types);
    }
    if !may_be_mixed(types) {
        return false;
    }
    // Of thousands of values most are of one type.
    let beside: Vec<&DataType> = types.iter().collect::<HashSet<_>>().into_iter().collect();
    let mut any = false;
    for (expr, data_type) in exprs.into_iter().zip(types) {
        if let Some(floats) = common_beside(data_type, &beside) {
            *expr = cast(std::mem::take(expr), floats);
            any = true;
        }
    }
    any
}

/// Casts those of `exprs`, which are of `types`, to the type that all of them have; whether there is one.
fn unify(exprs: Vec<&mut Expr>, types: &[DataType]) -> bool {
    let Some(common) = common_type(types) else { return false };
    cast_others(exprs, types, &common);
    true
}

/// `plan` with floats where its rows come from both.
pub(crate) fn of_rows(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => in_union(union),
        LogicalPlan::Values(values) => in_values(values),
        LogicalPlan::Join(join) if is_set_operation(&join) => in_common_types(join)?.transform_data(in_keys),
        LogicalPlan::Join(_) => in_keys(plan),
        other => Ok(Transformed::no(other)),
    }
}

/// Keys of a join, of which one is a float and one a decimal.
fn in_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            for (left, right) in &mut join.on {
                let types = (left.get_type(join.left.schema())?, right.get_type(join.right.schema())?);
                for (side, of, beside) in [(left, &types.0, &types.1), (right, &types.1, &types.0)] {
                    if let Some(floats) = common_beside(of, &[beside]) {
                        *side = cast(std::mem::take(side), floats);
                        changed = true;
                    }
                }
            }
            let join = LogicalPlan::Join(join);
            Ok(if changed { Transformed::yes(join) } else { Transformed::no(join) })
        }
        other => Ok(Transformed::no(other)),
    }
}

fn in_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    // The types of its first input may have changed.
    let is_first = |(own, first): (&FieldRef, &FieldRef)| own.data_type() == first.data_type();
    let first = union.inputs.first().map(|input| Arc::clone(input.schema()));
    let is_stale = first.is_some_and(|first| {
        let (own, first) = (union.schema.fields(), first.fields());
        own.len() == first.len() && !own.iter().zip(first).all(is_first)
    });
    if is_stale {
        let union = Union::try_new_with_loose_types(union.inputs)?;
        return Ok(Transformed::yes(in_fresh_union(union)?.data));
    }
    in_fresh_union(union)
}

fn in_fresh_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    let types =
        |column: usize| -> Vec<_> { union.inputs.iter().flat_map(|input| types_below(input, column)).collect() };
    let types: Vec<Vec<DataType>> = (0..columns).map(types).collect();
    types.iter().filter(|types| !types.iter().any(DataType::is_string)).try_for_each(check)?;
    let unified =
        |types: &Vec<DataType>| Beside::Rows.is_known_here(types).then(|| Beside::Rows.common_type(types)).flatten();
    let unified: Vec<Option<DataType>> = types.iter().map(unified).collect();
    let of = |input: &LogicalPlan, column: usize| {
        let beside: Vec<&DataType> = types[column].iter().collect();
        let own = types_below(input, column);
        let is_other = |common: &DataType| own.iter().any(|of| of != common && !of.is_null());
        if let Some(common) = &unified[column] {
            return Some(common.clone()).filter(is_other);
        }
        own.iter()
            .find_map(|of| common_beside(of, &beside))
            .or_else(|| common_number(&types[column]).filter(|common| is_other(common)))
    };
    if !union.inputs.iter().any(|input| (0..columns).any(|column| of(input, column).is_some())) {
        return with_its_names(union);
    }
    let of_floats = |input: &Arc<LogicalPlan>| {
        let column = |(nth, (relation, field)): (usize, (Option<&_>, &Arc<_>))| {
            let column = Expr::Column((relation, field).into());
            match (nth < columns).then(|| of(input, nth)).flatten() {
                Some(floats) => {
                    let is_truth = *field.data_type() == DataType::Boolean && is_decimal(&floats);
                    let column = if is_truth { cast(column, DataType::Int8) } else { column };
                    cast(column, floats).alias_qualified(relation.cloned(), input.schema().field(nth).name())
                }
                None => column,
            }
        };
        let exprs: Vec<Expr> = input.schema().iter().enumerate().map(column).collect();
        Ok(Arc::new(LogicalPlanBuilder::from(Arc::clone(input)).project(exprs)?.build()?))
    };
    let inputs = union.inputs.iter().map(of_floats).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The types that a column of `plan` is made of: a union has that of its first input until it is coerced, and so has all that is above it.
pub(crate) fn types_below(plan: &LogicalPlan, column: usize) -> Vec<DataType> {
    let own = || plan.schema().fields().get(column).map(|field| field.data_type().clone()).into_iter().collect();
    match plan {
        LogicalPlan::Union(union) => union.inputs.iter().flat_map(|input| types_below(input, column)).collect(),
        LogicalPlan::Distinct(Distinct::All(input)) => types_below(input, column),
        LogicalPlan::SubqueryAlias(alias) => types_below(&alias.input, column),
        LogicalPlan::Filter(filter) => types_below(&filter.input, column),
        LogicalPlan::Sort(sort) => types_below(&sort.input, column),
        LogicalPlan::Limit(limit) => types_below(&limit.input, column),
        LogicalPlan::Projection(projection) => {
            let mut expr = projection.expr.get(column);
            while let Some(Expr::Alias(alias)) = expr {
                expr = Some(&alias.expr);
            }
            let below = match expr {
                Some(Expr::Column(of)) => projection.input.schema().maybe_index_of_column(of),
                _ => None,
            };
            below.map_or_else(own, |below| types_below(&projection.input, below))
        }
        _ => own(),
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

/// The values were cast when they were put together: from floats to decimals, from dates to nanoseconds.
fn in_values(values: Values) -> Result<Transformed<LogicalPlan>> {
    let none = DFSchema::empty();
    let before = |expr: &Expr| match expr {
        Expr::Cast(cast) => cast.expr.get_type(&none).unwrap_or(DataType::Null),
        Expr::Literal(value, _) if value.is_null() => DataType::Null,
        other => other.get_type(&none).unwrap_or(DataType::Null),
    };
    let common = |column: usize| {
        let of = values.schema.field(column).data_type();
        if !has_within(of, |of| is_decimal(of) || matches!(of, DataType::Timestamp(..))) {
            return None;
        }
        let types: HashSet<DataType> = values.values.iter().map(|row| before(&row[column])).collect();
        common_beside(of, &types.iter().collect::<Vec<_>>())
    };
    let common: Vec<Option<DataType>> = (0..values.schema.fields().len()).map(common).collect();
    if common.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    let uncast = |expr: Expr, common: &DataType| match expr {
        Expr::Cast(of) => cast(*of.expr, common.clone()),
        other => cast(other, common.clone()),
    };
    let row = |row: Vec<Expr>| {
        let value = |(expr, common): (Expr, &Option<DataType>)| match common {
            Some(common) => uncast(expr, common),
            None => expr,
        };
        row.into_iter().zip(&common).map(value).collect()
    };
    let rows = values.values.into_iter().map(row).collect();
    Ok(Transformed::yes(LogicalPlanBuilder::values(rows)?.build()?))
}

/// `expr` with floats for decimals where it gives one of both, or compares one with the other.
pub(crate) fn of_choices(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarFunction(mut call) if CHOOSING.contains(&call.func.name()) || joins_lists(&call, schema) => {
            let changed = mix_alike(&mut call.args, schema)?;
            let call = Expr::ScalarFunction(call);
            Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
        }
        Expr::ScalarFunction(mut call) if call.args.len() > 1 && list_of(call.func.name()).is_some() => {
            let (list, item) = if list_of(call.func.name()) == Some(0) { (0, 1) } else { (1, 0) };
            let types = (call.args[list].get_type(schema)?, call.args[item].get_type(schema)?);
            let items = DataType::List(Arc::new(Field::new_list_field(types.1.clone(), true)));
            let sought = self::item(&types.0).and_then(|items| common_beside(&types.1, &[items]));
            let mut changed = false;
            for (arg, floats) in [(list, common_beside(&types.0, &[&items])), (item, sought)] {
                if let Some(floats) = floats {
                    call.args[arg] = cast(std::mem::take(&mut call.args[arg]), floats);
                    changed = true;
                }
            }
            let call = Expr::ScalarFunction(call);
            Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
        }
        Expr::Case(mut case) => {
            let mut changed = mix_alike(compared(&mut case), schema)?;
            // Until DataFusion coerces, a CASE has the type of its first result, by which set operations and what reads it would be typed.
            if !is_of_one_type(&case, schema) {
                changed |= mix_alike(results(&mut case), schema)?;
                let types = types_of(&results(&mut case), schema);
                if let Some(common) = common_result(&types) {
                    changed |= cast_others(results(&mut case), &types, &common);
                }
            }
            let case = Expr::Case(case);
            Ok(if changed { Transformed::yes(case) } else { Transformed::no(case) })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Casts those of `exprs`, which are of `types`, to `common` that are of another type; whether there are any.
fn cast_others(exprs: Vec<&mut Expr>, types: &[DataType], common: &DataType) -> bool {
    let mut any = false;
    for (expr, of) in exprs.into_iter().zip(types).filter(|(_, of)| *of != common && !of.is_null()) {
        let given = std::mem::take(expr);
        let is_truth = *of == DataType::Boolean && is_decimal(common);
        *expr = cast(if is_truth { cast(given, DataType::Int8) } else { given }, common.clone());
        any = true;
    }
    any
}

/// The type that has all of `types`, which are of numbers and NULL.
fn common_result(types: &[DataType]) -> Option<DataType> {
    let mut numbers = types.iter().filter(|of| !of.is_null());
    let first = numbers.next().filter(|first| first.is_numeric())?;
    numbers.try_fold(first.clone(), |common, of| if of.is_numeric() { type_union_coercion(&common, of) } else { None })
}

/// Whether all results of `case` but NULL are of one type.
fn is_of_one_type(case: &Case, schema: &DFSchema) -> bool {
    let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let mut types = results.filter_map(|expr| expr.get_type(schema).ok()).filter(|of| !of.is_null());
    types.next().is_none_or(|one| types.all(|other| one == other))
}

/// Whether `call` joins lists, and not texts.
fn joins_lists(call: &ScalarFunction, schema: &DFSchema) -> bool {
    call.func.name() == "concat" && call.args.iter().any(|arg| arg.get_type(schema).is_ok_and(|of| item(&of).is_some()))
}

/// The argument that is a list, of which the other is an element, of those functions that have such.
fn list_of(name: &str) -> Option<usize> {
    match name {
        "array_has" | "array_position" | "array_positions" | "array_remove" | "array_remove_all" | "array_append" => {
            Some(0)
        }
        "array_prepend" => Some(1),
        _ => None,
    }
}

/// What `CASE x WHEN y` compares.
fn compared(case: &mut Case) -> Vec<&mut Expr> {
    let Some(expr) = &mut case.expr else { return Vec::new() };
    std::iter::once(&mut **expr).chain(case.when_then_expr.iter_mut().map(|(when, _)| &mut **when)).collect()
}

/// What `case` gives, what it gives otherwise first: structs have its fields first.
fn results(case: &mut Case) -> Vec<&mut Expr> {
    let others = case.else_expr.iter_mut().map(|other| &mut **other);
    others.chain(case.when_then_expr.iter_mut().map(|(_, then)| &mut **then)).collect()
}
