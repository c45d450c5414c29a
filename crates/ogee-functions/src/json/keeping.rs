//! Expressions that give JSON since they choose among JSON, or put it into lists and structs: DataFusion knows them by their types, which are those of texts.
//!
//! Not here: aggregates, which give texts where they choose among JSON.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, Fields},
    common::ExprSchema,
    logical_expr::{Expr, ExprSchemable, expr::ScalarFunction},
};

use super::{casting::has_json, field, is_json, list_of};

/// Functions that give one of their arguments.
const CHOOSING: &[&str] = &["coalesce", "greatest", "ifnull", "least", "nvl"];

/// Expressions within one another that are looked at, at most.
const DEPTH_MAX: usize = 8;

/// The field of `expr`, of which `schema` has the columns, with what it keeps of JSON.
pub(super) fn field_of(expr: &Expr, schema: &dyn ExprSchema) -> Option<Arc<Field>> {
    field_within(expr, schema, DEPTH_MAX)
}

/// The field of `expr`, if it keeps JSON that DataFusion does not know of, where it knows what is within.
pub(super) fn kept(expr: &Expr, schema: &dyn ExprSchema) -> Option<Field> {
    kept_within(expr, schema, 0)
}

fn field_within(expr: &Expr, schema: &dyn ExprSchema, depth: usize) -> Option<Arc<Field>> {
    let known = expr.to_field(schema).ok()?.1;
    if has_json(&known) {
        return Some(known);
    }
    let kept = depth.checked_sub(1).and_then(|depth| kept_within(expr, schema, depth));
    kept.map(Arc::new).or(Some(known))
}

/// Whether `expr` may have JSON in it, at a glance: most of what statements choose among has none.
fn may_have_json(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => may_have_json(&alias.expr),
        Expr::Cast(cast) => has_json(&cast.field),
        Expr::TryCast(cast) => has_json(&cast.field),
        Expr::Literal(_, metadata) => metadata.is_some(),
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarSubquery(_)
        | Expr::LambdaVariable(_)
        | Expr::ScalarFunction(_)
        | Expr::Case(_) => true,
        _ => false,
    }
}

fn kept_within(expr: &Expr, schema: &dyn ExprSchema, depth: usize) -> Option<Field> {
    let is_one =
        |part: &Expr| may_have_json(part) && field_within(part, schema, depth).is_some_and(|field| is_json(&field));
    match expr {
        Expr::Case(case) => {
            let is_any = case.when_then_expr.iter().any(|(_, then)| is_one(then))
                || case.else_expr.as_deref().is_some_and(is_one);
            is_any.then(|| field(""))
        }
        Expr::ScalarFunction(call) => match call.func.name() {
            name if CHOOSING.contains(&name) => call.args.iter().any(is_one).then(|| field("")),
            "nullif" => call.args.iter().take(1).any(is_one).then(|| field("")),
            "make_array" => {
                let is_any = call.args.iter().any(is_one);
                is_any.then(|| Field::new("", list_of(&Arc::new(field(""))), true))
            }
            "named_struct" => struct_of(call, schema, depth),
            "array_element" => {
                let list = call.args.first().filter(|list| may_have_json(list))?;
                match field_within(list, schema, depth)?.data_type() {
                    DataType::List(of) | DataType::LargeList(of) if has_json(of) => {
                        Some(of.as_ref().clone().with_name("").with_nullable(true))
                    }
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    }
}

fn struct_of(call: &ScalarFunction, schema: &dyn ExprSchema, depth: usize) -> Option<Field> {
    let values = || call.args.iter().skip(1).step_by(2);
    if !values().any(may_have_json) {
        return None;
    }
    let values: Vec<_> = values().map(|value| field_within(value, schema, depth)).collect::<Option<_>>()?;
    if !values.iter().any(|value| has_json(value)) {
        return None;
    }
    let whole = Expr::ScalarFunction(call.clone()).to_field(schema).ok()?.1;
    let DataType::Struct(fields) = whole.data_type() else { return None };
    let named = fields.iter().zip(&values).map(|(field, value)| value.as_ref().clone().with_name(field.name()));
    let fields: Fields = named.collect();
    Some(Field::new("", DataType::Struct(fields), true))
}
