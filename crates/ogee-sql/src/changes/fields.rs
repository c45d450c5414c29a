//! Structs with a field more, one less, or one of another name, as expressions over the old ones.
//!
//! A field is found by names: those of fields, `element` of a list, and `key` and `value` of a map.
//!
//! Not here: columns (`alters`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields},
    sql::sqlparser::{ast::Expr, parser::Parser},
};
use ogee_functions::{Error, Result};

use crate::dialect::OgeeDialect;

/// What is done to a field.
pub enum FieldChange {
    /// There is one more, with a value; not if there is one already and that is no error.
    Add {
        /// The new field.
        field: Field,
        /// The text of its value.
        value: String,
        /// Whether it is no error that there is one.
        unless_exists: bool,
    },
    /// There is one less; it is no error that there is none.
    Drop(bool),
    /// It has another name.
    Rename(String),
}

/// The field that `field` becomes, and what is computed of `value`, the text of an expression, for it; `None` if nothing changes.
///
/// # Errors
/// There is no such field, or there is one already.
pub fn changed(field: &Field, value: &str, path: &[String], change: &FieldChange) -> Result<Option<(Field, String)>> {
    let Some((data_type, value)) = of_type(field.data_type(), value, path, change, 0)? else { return Ok(None) };
    Ok(Some((field.clone().with_data_type(data_type), value)))
}

/// The expression that `text` is.
///
/// # Errors
/// Only bugs.
pub fn parsed(text: &str) -> Result<Expr> {
    let parsed = Parser::new(&OgeeDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::Internal(format!("{text} is no expression: {error}")))
}

fn of_type(
    data_type: &DataType,
    value: &str,
    path: &[String],
    change: &FieldChange,
    depth: usize,
) -> Result<Option<(DataType, String)>> {
    let Some((name, rest)) = path.split_first() else { return Ok(None) };
    let within = |field: &FieldRef, value: &str| -> Result<Option<(FieldRef, String)>> {
        let changed = of_type(field.data_type(), value, rest, change, depth + 1)?;
        Ok(changed.map(|(of, value)| (Arc::new(field.as_ref().clone().with_data_type(of)), value)))
    };
    let variable = format!("ogee_x{depth}");
    match data_type {
        DataType::Struct(fields) => of_struct(fields, value, name, rest, change, depth),
        DataType::List(item) if name == "element" && !rest.is_empty() => {
            let changed = within(item, &variable)?;
            let list = |(item, of)| (DataType::List(item), format!("array_transform({value}, {variable} -> {of})"));
            Ok(changed.map(list))
        }
        DataType::Map(entries, sorted) if matches!(name.as_str(), "key" | "value") && !rest.is_empty() => {
            let DataType::Struct(sides) = entries.data_type() else { return no_field(name) };
            let [key, of_key] = [&sides[0], &sides[1]];
            let is_key = name == "key";
            let Some((side, of)) = within(if is_key { key } else { of_key }, &variable)? else { return Ok(None) };
            let each = |function: &str| format!("array_transform({function}({value}), {variable} -> {of})");
            let (sides, keys, values) = match is_key {
                true => ([side, Arc::clone(of_key)], each("map_keys"), format!("map_values({value})")),
                false => ([Arc::clone(key), side], format!("map_keys({value})"), each("map_values")),
            };
            let sides = DataType::Struct(sides.to_vec().into());
            let entries = Arc::new(entries.as_ref().clone().with_data_type(sides));
            let text = format!("CASE WHEN {value} IS NOT NULL THEN map({keys}, {values}) END");
            Ok(Some((DataType::Map(entries, *sorted), text)))
        }
        _ => no_field(name),
    }
}

fn no_field<T>(name: &str) -> Result<T> {
    Err(Error::Plan(format!(
        "there is no field '{name}', which is of structs; lists have 'element', and maps 'key' and 'value'"
    )))
}

fn of_struct(
    fields: &Fields,
    value: &str,
    name: &str,
    rest: &[String],
    change: &FieldChange,
    depth: usize,
) -> Result<Option<(DataType, String)>> {
    let place = |name: &str| fields.iter().position(|field| field.name().eq_ignore_ascii_case(name));
    let text = |name: &str| format!("'{}'", name.replace('\'', "''"));
    let own = |field: &FieldRef| (Arc::clone(field), format!("({value})[{}]", text(field.name())));
    let mut all: Vec<(FieldRef, String)> = fields.iter().map(own).collect();
    let at = place(name);
    let exists = |name: &str| Err(Error::Plan(format!("there is a field '{name}' already")));
    match (rest.is_empty(), change, at) {
        (false, _, Some(at)) => {
            let (field, of) = &all[at];
            let Some((data_type, of)) = of_type(field.data_type(), of, rest, change, depth)? else { return Ok(None) };
            all[at] = (Arc::new(field.as_ref().clone().with_data_type(data_type)), of);
        }
        (true, FieldChange::Add { unless_exists: true, .. }, Some(_)) => return Ok(None),
        (true, FieldChange::Add { .. }, Some(_)) => return exists(name),
        (true, FieldChange::Add { field, value, .. }, None) => {
            all.push((Arc::new(field.clone().with_name(name)), value.clone()));
        }
        (true, FieldChange::Drop(_), Some(_)) if all.len() == 1 => {
            return Err(Error::Plan(format!("'{name}' is the only field of the struct; drop that")));
        }
        (true, FieldChange::Drop(_), Some(at)) => drop(all.remove(at)),
        (_, FieldChange::Drop(true), None) => return Ok(None),
        (true, FieldChange::Rename(new), Some(at)) => {
            if place(new).is_some_and(|other| other != at) {
                return exists(new);
            }
            all[at].0 = Arc::new(all[at].0.as_ref().clone().with_name(new));
        }
        (_, _, None) => return Err(Error::Plan(format!("there is no field '{name}' in the struct"))),
    }
    let (fields, values): (Vec<FieldRef>, Vec<String>) = all.into_iter().unzip();
    let args: Vec<String> =
        fields.iter().zip(&values).map(|(field, value)| format!("{}, {value}", text(field.name()))).collect();
    let made = format!("CASE WHEN {value} IS NOT NULL THEN named_struct({}) END", args.join(", "));
    Ok(Some((DataType::Struct(fields.into()), made)))
}
