//! JSON beside other JSON: whether one has the other in it, and one changed by another.
//!
//! Not here: JSON of other values.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, BooleanBuilder, StringViewArray, StringViewBuilder},
        datatypes::{DataType, Field},
    },
    common::Result,
};
use ogee_memory::BufferManager;

use super::{
    building::documents,
    field, is_document,
    reading::{Kind, Place, is_key, unescaped},
    writing::{write_text, write_value},
};
use crate::{
    arguments::refused,
    function::{Call, Function},
};

/// The functions that statements may name.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    vec![
        Function::of_fields(
            CONTAINS,
            |given| match given {
                [whole, part] if is_document(whole) && is_document(part) => Ok(given.to_vec()),
                _ => refused(CONTAINS, given),
            },
            |_| Ok(Arc::new(Field::new("", DataType::Boolean, true))),
            contains,
            memory,
        ),
        Function::of_fields(
            MERGE_PATCH,
            |given| match given.len() >= 2 && given.iter().all(is_document) {
                true => Ok(given.to_vec()),
                false => refused(MERGE_PATCH, given),
            },
            |_| Ok(Arc::new(field(""))),
            merge_patch,
            memory,
        ),
    ]
}

const CONTAINS: &str = "json_contains";
const MERGE_PATCH: &str = "json_merge_patch";

fn contains(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let (wholes, parts) = (documents(call, 0)?, documents(call, 1)?);
    let mut found = BooleanBuilder::with_capacity(wholes.len());
    for (whole, part) in wholes.iter().zip(&parts) {
        let (Some(whole), Some(part)) = (whole, part) else {
            found.append_null();
            continue;
        };
        let (whole, part) = (Place::of(whole)?, Place::of_shallow(part, CONTAINS)?);
        found.append_value(whole.all().any(|place| has(place, part)));
    }
    Ok(Arc::new(found.finish()))
}

/// Whether the value at `place` itself has what `part` has: of a list each element, of an object each member, somewhere within its own. As deep as `part` is.
fn has(place: Place<'_>, part: Place<'_>) -> bool {
    match (place.kind(), part.kind()) {
        (Kind::List, Kind::List) => part.elements().all(|wanted| place.elements().any(|element| has(element, wanted))),
        (Kind::Object, Kind::Object) => part.members().all(|(raw, wanted)| {
            let key = unescaped(raw);
            let member = place.members().find(|(raw, _)| is_key(raw, &key));
            member.is_some_and(|(_, member)| has(member, wanted))
        }),
        (one, other) => one == other && is_same(place, part),
    }
}

/// Whether two values of one kind, which are no lists or objects, are the same.
fn is_same(one: Place<'_>, other: Place<'_>) -> bool {
    if one.kind() == Kind::Text {
        return one.unquoted() == other.unquoted();
    }
    let written = |place| {
        let mut text = String::new();
        write_value(place, &mut text);
        text
    };
    one.raw() == other.raw() || written(one) == written(other)
}

fn merge_patch(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let columns = (0..call.args.len()).map(|at| documents(call, at)).collect::<Result<Vec<StringViewArray>>>()?;
    let mut merged = StringViewBuilder::with_capacity(call.rows);
    for row in 0..call.rows {
        let mut known: Option<String> = None;
        for (nth, column) in columns.iter().enumerate() {
            if column.is_null(row) {
                known = None;
                continue;
            }
            let patch = Place::of_shallow(column.value(row), MERGE_PATCH)?;
            let mut text = String::new();
            match known.as_deref().map(Place::of_checked) {
                Some(value) if value.kind() == Kind::Object && patch.kind() == Kind::Object => {
                    patched(Some(value), patch, &mut text);
                }
                _ => write_value(patch, &mut text),
            }
            call.promises.add(row, if nth == 0 { 0 } else { text.len() as u128 })?;
            known = Some(text);
        }
        match known {
            Some(text) => merged.try_append_value(&text)?,
            None => merged.append_null(),
        }
    }
    Ok(Arc::new(merged.finish()))
}

/// Writes `value` with the members of `patch` in the place of its own, and without those that are null there (RFC 7396).
fn patched(value: Option<Place<'_>>, patch: Place<'_>, out: &mut String) {
    if patch.kind() != Kind::Object {
        return write_value(patch, out);
    }
    let value = value.filter(|value| value.kind() == Kind::Object);
    let keys: std::collections::HashSet<_> = patch.members().map(|(raw, _)| unescaped(raw)).collect();
    let mut is_first = true;
    let mut key = |raw: &str, out: &mut String| {
        out.push_str(if std::mem::take(&mut is_first) { "" } else { "," });
        write_text(&unescaped(raw), out);
        out.push(':');
    };
    out.push('{');
    for (raw, member) in value.into_iter().flat_map(Place::members) {
        if !keys.contains(&unescaped(raw)) {
            key(raw, out);
            write_value(member, out);
        }
    }
    for (raw, member) in patch.members().filter(|(_, member)| member.kind() != Kind::Null) {
        let name = unescaped(raw);
        let old = value.and_then(|value| value.members().find(|(raw, _)| is_key(raw, &name)));
        key(raw, out);
        patched(old.map(|(_, old)| old), member, out);
    }
    out.push('}');
}
