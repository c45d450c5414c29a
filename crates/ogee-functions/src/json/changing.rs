//! JSON with a value put where a path leads, or without it: `json_set`, `json_insert`, `json_replace`, `json_remove`, `json_strip_nulls`.
//!
//! `json_insert` changes nothing where there is a value, `json_replace` nothing where there is none. What a path leads through and is not there is made: an object for a key, a list
//! for its first element. A value that is no text is put in as the JSON that it is.
//!
//! Not here: JSON changed by other JSON (`combining`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, StringViewArray, StringViewBuilder},
        datatypes::DataType,
    },
    common::{Result, exec_err},
};
use ogee_memory::BufferManager;

use super::{
    building::{documents, written},
    field, is_document, is_text,
    paths::{Path, Step},
    reading::{Kind, Place, is_key},
    writing::{Members, write_text, write_value},
};
use crate::{
    arguments::{refused, texts},
    function::{Call, Function, Taken},
};

/// The functions that statements may name.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    type Body = fn(&mut Call<'_, '_>) -> Result<ArrayRef>;
    let json = |name: &'static str, taken: Taken, body: Body| {
        Function::of_fields(name, taken, |_| Ok(Arc::new(field(""))), body, memory).zoned()
    };
    vec![
        json("json_set", |given| value_taken("json_set", given), |call| changed(call, "json_set", Change::Set)),
        json(
            "json_insert",
            |given| value_taken("json_insert", given),
            |call| changed(call, "json_insert", Change::Insert),
        ),
        json(
            "json_replace",
            |given| value_taken("json_replace", given),
            |call| changed(call, "json_replace", Change::Replace),
        ),
        json(
            REMOVE,
            |given| match given {
                [document, path] if is_document(document) && is_path(path) => Ok(given.to_vec()),
                _ => refused(REMOVE, given),
            },
            |call| changed(call, REMOVE, Change::Remove),
        ),
        json(
            STRIP_NULLS,
            |given| match given {
                [document] if is_document(document) => Ok(given.to_vec()),
                _ => refused(STRIP_NULLS, given),
            },
            strip_nulls,
        ),
    ]
}

const REMOVE: &str = "json_remove";
const STRIP_NULLS: &str = "json_strip_nulls";

fn is_path(given: &DataType) -> bool {
    is_text(given) || given.is_null()
}

fn value_taken(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [document, path, _] if is_document(document) && is_path(path) => Ok(given.to_vec()),
        _ => refused(name, given),
    }
}

/// What is done at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// There is to be the value, whether or not there was one.
    Set,
    /// There is to be the value if there was none.
    Insert,
    /// There is to be the value if there was one.
    Replace,
    /// There is to be none.
    Remove,
}

fn changed(call: &mut Call<'_, '_>, name: &'static str, change: Change) -> Result<ArrayRef> {
    let (documents, paths) = (documents(call, 0)?, texts(&call.args[1])?);
    let values = (change != Change::Remove).then(|| values(call)).transpose()?;
    let mut json = StringViewBuilder::with_capacity(call.rows);
    let mut parsed: Option<(&str, Path)> = None;
    let (mut value, mut text) = (String::new(), String::new());
    for row in 0..call.rows {
        let has_value = values.as_ref().is_none_or(|values| values.is_valid(row));
        if !has_value || documents.is_null(row) || paths.is_null(row) {
            json.append_null();
            continue;
        }
        let path = paths.value(row);
        if parsed.as_ref().is_none_or(|(known, _)| *known != path) {
            parsed = Some((path, Path::parse(path)?));
        }
        let Some((_, path)) = &parsed else { continue };
        if path.has_wildcards() {
            return exec_err!("the path of {name} leads to one place; it has no wildcards");
        }
        let document = Place::of_shallow(documents.value(row), name)?;
        value.clear();
        if let Some(values) = &values {
            write_value(Place::of(values.value(row))?, &mut value);
        }
        if change == Change::Remove && path.steps().is_empty() {
            json.append_null();
            continue;
        }
        text.clear();
        write_changed(document, path.steps(), change, &value, &mut text);
        call.promises.add(row, text.len() as u128)?;
        json.try_append_value(&text)?;
    }
    Ok(Arc::new(json.finish()))
}

/// The third argument as JSON.
fn values(call: &mut Call<'_, '_>) -> Result<StringViewArray> {
    match is_document(call.args[2].data_type()) {
        true => documents(call, 2),
        false => written(call, 2),
    }
}

/// Writes the value at `place` with `change` made where `steps` lead. As deep as the value is.
fn write_changed(place: Place<'_>, steps: &[Step], change: Change, value: &str, out: &mut String) {
    let Some((step, behind)) = steps.split_first() else {
        match change {
            Change::Insert => write_value(place, out),
            _ => out.push_str(value),
        }
        return;
    };
    let goes = change == Change::Remove && behind.is_empty();
    let adds = matches!(change, Change::Set | Change::Insert);
    match (place.kind(), step) {
        (Kind::Object, Step::Key(key) | Step::Pointer(key)) => {
            let mut members = Members::begin(out);
            let mut is_there = false;
            for (raw, member) in place.members() {
                if !is_key(raw, key) {
                    write_value(member, members.key(raw));
                } else if !std::mem::replace(&mut is_there, true) && !goes {
                    write_changed(member, behind, change, value, members.key(raw));
                }
            }
            if let Some(new) = made(behind, value).filter(|_| adds && !is_there) {
                let mut quoted = String::new();
                write_text(key, &mut quoted);
                members.key(&quoted[1..quoted.len() - 1]).push_str(&new);
            }
            members.end();
        }
        (Kind::List, step) => {
            let length = place.elements().count();
            let Some(at) = element(step, length) else { return write_value(place, out) };
            out.push('[');
            let mut is_first = true;
            let mut comma = |out: &mut String| out.push_str(if std::mem::take(&mut is_first) { "" } else { "," });
            for (nth, part) in place.elements().enumerate() {
                if nth == at && goes {
                    continue;
                }
                comma(out);
                match nth == at {
                    true => write_changed(part, behind, change, value, out),
                    false => write_value(part, out),
                }
            }
            if let Some(new) = made(behind, value).filter(|_| adds && at == length) {
                comma(out);
                out.push_str(&new);
            }
            out.push(']');
        }
        _ => write_value(place, out),
    }
}

/// The element of a list of so many that `step` leads to, which may be the one behind the last.
fn element(step: &Step, length: usize) -> Option<usize> {
    match step {
        Step::Element(at) => Some(*at),
        Step::FromEnd(distance) => length.checked_sub(*distance),
        Step::Pointer(token) if token == "-" => Some(length),
        Step::Pointer(token) => token.parse().ok(),
        _ => None,
    }
}

/// `value` where `steps` lead from nothing, if they lead to members and to first elements only.
fn made(steps: &[Step], value: &str) -> Option<String> {
    let (mut before, mut after) = (String::new(), Vec::new());
    for step in steps {
        match step {
            Step::Element(0) | Step::FromEnd(0) => {
                before.push('[');
                after.push(']');
            }
            Step::Key(key) | Step::Pointer(key) => {
                before.push('{');
                write_text(key, &mut before);
                before.push(':');
                after.push('}');
            }
            _ => return None,
        }
    }
    before.push_str(value);
    before.extend(after.iter().rev());
    Some(before)
}

fn strip_nulls(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let documents = documents(call, 0)?;
    let mut json = StringViewBuilder::with_capacity(call.rows);
    let mut text = String::new();
    for (row, document) in documents.iter().enumerate() {
        let Some(document) = document else {
            json.append_null();
            continue;
        };
        text.clear();
        write_stripped(Place::of_shallow(document, STRIP_NULLS)?, &mut text);
        call.promises.add(row, text.len() as u128)?;
        json.try_append_value(&text)?;
    }
    Ok(Arc::new(json.finish()))
}

/// Writes the value at `place` without members that are null.
fn write_stripped(place: Place<'_>, out: &mut String) {
    match place.kind() {
        Kind::Object => {
            let mut members = Members::begin(out);
            for (raw, member) in place.members().filter(|(_, member)| member.kind() != Kind::Null) {
                write_stripped(member, members.key(raw));
            }
            members.end();
        }
        Kind::List => {
            out.push('[');
            for (nth, element) in place.elements().enumerate() {
                out.push_str(if nth == 0 { "" } else { "," });
                write_stripped(element, out);
            }
            out.push(']');
        }
        _ => write_value(place, out),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn changes_are_made_where_the_path_leads() {
        for (document, path, change, expected) in [
            (r#"{"a":1}"#, "$.b.c", Change::Set, r#"{"a":1,"b":{"c":9}}"#),
            (r#"{"a":1,"a":2}"#, "$.a", Change::Set, r#"{"a":9}"#),
            (r#"{"a":1}"#, "$.a", Change::Insert, r#"{"a":1}"#),
            (r#"{"a":1}"#, "$.b", Change::Replace, r#"{"a":1}"#),
            (r#"{"a":{"b":1,"c":2}}"#, "$.a.b", Change::Remove, r#"{"a":{"c":2}}"#),
            ("[1,2]", "$[2]", Change::Set, "[1,2,9]"),
            ("[1,2]", "$[5]", Change::Set, "[1,2]"),
            ("[1,2]", "$[#-1]", Change::Set, "[1,9]"),
            ("[1,2]", "/-", Change::Insert, "[1,2,9]"),
            ("[1,2]", "$[0]", Change::Remove, "[2]"),
            ("[]", "$[-1]", Change::Set, "[]"),
            (r#"{"a":1}"#, "$.a.b", Change::Set, r#"{"a":1}"#),
            (r#"{}"#, "$.b[0]", Change::Set, r#"{"b":[9]}"#),
            (r#"{}"#, "$.b[1]", Change::Set, "{}"),
        ] {
            let mut text = String::new();
            write_changed(Place::of(document).unwrap(), Path::parse(path).unwrap().steps(), change, "9", &mut text);
            assert_eq!(text, expected, "{document} {path} {change:?}");
        }
    }
}
