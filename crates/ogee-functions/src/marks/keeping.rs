//! Expressions that give marked text since they choose among such, or put it into lists and structs, also by a lambda: DataFusion knows them by their types, which are those of texts.
//!
//! What stands beside JSON, a UUID or bits becomes that. Values of one `ENUM` stay such; beside others they are texts.
//!
//! Not here: aggregates, whose outputs are marked where they stand in a plan (`ogee-sql`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields},
    common::ExprSchema,
    logical_expr::{Expr, ExprSchemable, expr::ScalarFunction},
};

use super::{Mark, has_mark, is_alike, is_same};
use crate::{list_places, list_reductions, lists::element};

/// Functions that give one of their arguments.
const CHOOSING: &[&str] = &["coalesce", "greatest", "ifnull", "least", "nvl"];

/// Aggregates and functions over windows that give a value of their first argument.
pub const CHOOSING_AGGREGATES: &[&str] = &[
    "any_value",
    "arg_max",
    "arg_min",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "max",
    "min",
    "mode",
    "nth_value",
    "ordered_mode",
];

/// Expressions within one another that are looked at, at most.
const DEPTH_MAX: usize = 8;

/// The field of `expr`, of which `schema` has the columns, with the marks that it keeps.
pub(crate) fn field_of(expr: &Expr, schema: &dyn ExprSchema) -> Option<Arc<Field>> {
    field_within(expr, schema, DEPTH_MAX)
}

/// The field of `expr`, if it keeps marked text that DataFusion does not know of, where it knows what is within.
pub(super) fn kept(expr: &Expr, schema: &dyn ExprSchema) -> Option<Field> {
    kept_within(expr, schema, 0)
}

fn field_within(expr: &Expr, schema: &dyn ExprSchema, depth: usize) -> Option<Arc<Field>> {
    let known = expr.to_field(schema).ok()?.1;
    if has_mark(&known) {
        return Some(known);
    }
    let kept = depth.checked_sub(1).and_then(|depth| kept_within(expr, schema, depth));
    kept.map(Arc::new).or(Some(known))
}

/// Whether `expr` may have marked text in it, at a glance: most of what statements choose among has none.
fn may_have_mark(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => may_have_mark(&alias.expr),
        Expr::Cast(cast) => has_mark(&cast.field),
        Expr::TryCast(cast) => has_mark(&cast.field),
        Expr::Literal(_, metadata) => metadata.is_some(),
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarSubquery(_)
        | Expr::LambdaVariable(_)
        | Expr::ScalarFunction(_)
        | Expr::HigherOrderFunction(_)
        | Expr::Case(_) => true,
        _ => false,
    }
}

/// The field of what is chosen of `parts`, if it is marked.
fn chosen<'e>(parts: impl Iterator<Item = &'e Expr> + Clone, schema: &dyn ExprSchema, depth: usize) -> Option<Field> {
    if !parts.clone().any(may_have_mark) {
        return None;
    }
    let fields = parts.map(|part| field_within(part, schema, depth)).collect::<Option<Vec<FieldRef>>>()?;
    let marked = |mark: Mark| fields.iter().find(|field| Mark::of(field) == Some(mark));
    if let Some(field) = [Mark::Json, Mark::Uuid, Mark::Bit].into_iter().find_map(marked) {
        return Some(plain(field));
    }
    let first = marked(Mark::Enum)?;
    let are_same = fields.iter().all(|field| field.data_type().is_null() || is_same(field, first));
    are_same.then(|| plain(first))
}

/// A field like `of` that has no name.
fn plain(of: &Field) -> Field {
    of.clone().with_name("").with_data_type(DataType::Utf8View).with_nullable(true)
}

fn kept_within(expr: &Expr, schema: &dyn ExprSchema, depth: usize) -> Option<Field> {
    match expr {
        Expr::Case(case) => {
            let parts = case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
            chosen(parts, schema, depth)
        }
        Expr::ScalarFunction(call) => match call.func.name() {
            name if CHOOSING.contains(&name) => chosen(call.args.iter(), schema, depth),
            "make_array" => {
                let of = chosen(call.args.iter(), schema, depth)?;
                Some(Field::new("", super::list_of(&Arc::new(of)), true))
            }
            "named_struct" => struct_of(call, call.args.iter().skip(1).step_by(2), schema, depth),
            "struct" => struct_of(call, call.args.iter(), schema, depth),
            "array_concat" | "list_concat" | "||" => {
                let of = common_element(&call.args, schema, depth)?;
                Some(Field::new("", super::list_of(&of), true))
            }
            "list_where" | "list_select" => {
                let of = common_element(&call.args[..1], schema, depth)?;
                Some(Field::new("", super::list_of(&of), true))
            }
            "map" => {
                let [keys, values] = &call.args[..] else { return None };
                let side = |list| common_element(std::slice::from_ref(list), schema, depth);
                map_of(call, [side(keys), side(values)], schema)
            }
            "map_from_entries" => {
                let entry = common_element(&call.args, schema, depth)?;
                let DataType::Struct(sides) = entry.data_type() else { return None };
                let [key, value] = &sides[..] else { return None };
                map_of(call, [key, value].map(|side| Some(Arc::clone(side))), schema)
            }
            "map_concat" => {
                let [first, others @ ..] = &call.args[..] else { return None };
                let first = field_within(first, schema, depth).filter(|first| has_mark(first))?;
                let is_like = |other| field_within(other, schema, depth).is_some_and(|other| is_alike(&first, &other));
                others.iter().all(is_like).then(|| first.as_ref().clone().with_name("").with_nullable(true))
            }
            "map_extract" => {
                let map = call.args.first().filter(|map| may_have_mark(map))?;
                let map = field_within(map, schema, depth)?;
                let DataType::Map(entries, _) = map.data_type() else { return None };
                let DataType::Struct(sides) = entries.data_type() else { return None };
                let value = sides.get(1).filter(|value| has_mark(value))?;
                Some(Field::new("", super::list_of(value), true))
            }
            "array_element" => {
                let list = call.args.first().filter(|list| may_have_mark(list))?;
                let list = field_within(list, schema, depth)?;
                let of = element(list.data_type()).filter(|of| has_mark(of))?;
                Some(of.as_ref().clone().with_name("").with_nullable(true))
            }
            _ => None,
        },
        Expr::HigherOrderFunction(call) => {
            let lambda = call.args.iter().find_map(|arg| match arg {
                Expr::Lambda(lambda) => Some(lambda),
                _ => None,
            });
            let given = field_within(&lambda?.body, schema, depth).filter(|given| has_mark(given))?;
            match call.func.name() {
                "array_transform" | list_places::TRANSFORM => Some(Field::new("", super::list_of(&given), true)),
                list_reductions::NAME => Some(given.as_ref().clone().with_name("").with_nullable(true)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The elements of `lists`, if they are marked, and alike in all that have a type.
fn common_element(lists: &[Expr], schema: &dyn ExprSchema, depth: usize) -> Option<FieldRef> {
    if !lists.iter().any(may_have_mark) {
        return None;
    }
    let mut common: Option<FieldRef> = None;
    for list in lists {
        let field = field_within(list, schema, depth)?;
        if field.data_type().is_null() {
            continue;
        }
        let of = element(field.data_type())?;
        match &common {
            _ if of.data_type().is_null() => {}
            Some(common) if !is_alike(common, of) => return None,
            Some(_) => {}
            None => common = Some(Arc::clone(of)),
        }
    }
    common.filter(|of| has_mark(of))
}

/// The map that `call` makes, with these fields of its keys and values where they are marked.
fn map_of(call: &ScalarFunction, marked: [Option<FieldRef>; 2], schema: &dyn ExprSchema) -> Option<Field> {
    if !marked.iter().flatten().any(|side| has_mark(side)) {
        return None;
    }
    let whole = Expr::ScalarFunction(call.clone()).to_field(schema).ok()?.1;
    let DataType::Map(entries, is_sorted) = whole.data_type() else { return None };
    let DataType::Struct(sides) = entries.data_type() else { return None };
    let sides: Fields = sides
        .iter()
        .zip(marked)
        .map(|(side, of)| match of.filter(|of| has_mark(of)) {
            Some(of) => of.as_ref().clone().with_name(side.name()).with_nullable(side.is_nullable()),
            None => side.as_ref().clone(),
        })
        .collect();
    let entries = entries.as_ref().clone().with_data_type(DataType::Struct(sides));
    Some(Field::new("", DataType::Map(Arc::new(entries), *is_sorted), true))
}

/// The struct that `call` makes of `values`.
fn struct_of<'e>(
    call: &ScalarFunction,
    values: impl Iterator<Item = &'e Expr> + Clone,
    schema: &dyn ExprSchema,
    depth: usize,
) -> Option<Field> {
    if !values.clone().any(may_have_mark) {
        return None;
    }
    let values: Vec<_> = values.map(|value| field_within(value, schema, depth)).collect::<Option<_>>()?;
    if !values.iter().any(|value| has_mark(value)) {
        return None;
    }
    let whole = Expr::ScalarFunction(call.clone()).to_field(schema).ok()?.1;
    let DataType::Struct(fields) = whole.data_type() else { return None };
    let named = fields.iter().zip(&values).map(|(field, value)| value.as_ref().clone().with_name(field.name()));
    let fields: Fields = named.collect();
    Some(Field::new("", DataType::Struct(fields), true))
}
