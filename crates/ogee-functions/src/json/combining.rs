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
    writing::{Members, write_text, write_value},
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
            |call| merged(call, Merge::Patch),
            memory,
        ),
        Function::of_fields(
            DEEP_MERGE,
            |given| match given.len() >= 2 && given.iter().all(is_document) {
                true => Ok(given.to_vec()),
                false => refused(DEEP_MERGE, given),
            },
            |_| Ok(Arc::new(field(""))),
            |call| merged(call, Merge::Deep),
            memory,
        ),
        Function::of_fields(
            PATCH_DIFF,
            |given| match given {
                [old, new] if is_document(old) && is_document(new) => Ok(given.to_vec()),
                _ => refused(PATCH_DIFF, given),
            },
            |_| Ok(Arc::new(field(""))),
            patch_diff,
            memory,
        ),
    ]
}

const CONTAINS: &str = "json_contains";
const MERGE_PATCH: &str = "json_merge_patch";
const DEEP_MERGE: &str = "json_deep_merge";
const PATCH_DIFF: &str = "json_merge_patch_diff";

/// What a null does that is to be put into an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merge {
    /// It takes the member away (RFC 7396).
    Patch,
    /// It leaves what is there.
    Deep,
}

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

/// Each row's first document, changed by the others one after the other. One that is NULL makes NULL of those before it.
fn merged(call: &mut Call<'_, '_>, merge: Merge) -> Result<ArrayRef> {
    let name = if merge == Merge::Patch { MERGE_PATCH } else { DEEP_MERGE };
    let columns = (0..call.args.len()).map(|at| documents(call, at)).collect::<Result<Vec<StringViewArray>>>()?;
    let mut merged = StringViewBuilder::with_capacity(call.rows);
    for row in 0..call.rows {
        let mut known: Option<String> = None;
        for (nth, column) in columns.iter().enumerate() {
            if column.is_null(row) {
                known = None;
                continue;
            }
            let patch = Place::of_shallow(column.value(row), name)?;
            let mut text = String::new();
            match known.as_deref().map(Place::of_checked) {
                Some(value) if value.kind() == Kind::Object && patch.kind() == Kind::Object => match merge {
                    Merge::Patch => patched(Some(value), patch, &mut text),
                    Merge::Deep => deepened(value, patch, &mut text),
                },
                Some(value) if merge == Merge::Deep && patch.kind() == Kind::Null => write_value(value, &mut text),
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

/// Writes the object `value` with the members of `more`, of which those that are null count for nothing; objects in both are put together.
fn deepened(value: Place<'_>, more: Place<'_>, out: &mut String) {
    let added = || more.members().filter(|(_, member)| member.kind() != Kind::Null);
    let keys: std::collections::HashSet<_> = added().map(|(raw, _)| unescaped(raw)).collect();
    let mut members = Members::begin(out);
    for (raw, member) in value.members().filter(|(raw, _)| !keys.contains(&unescaped(raw))) {
        write_value(member, members.key(raw));
    }
    for (raw, member) in added() {
        let name = unescaped(raw);
        let old = value.members().find(|(raw, _)| is_key(raw, &name)).map(|(_, old)| old);
        let out = members.key(raw);
        match old.filter(|old| old.kind() == Kind::Object && member.kind() == Kind::Object) {
            Some(old) => deepened(old, member, out),
            None => write_value(member, out),
        }
    }
    members.end();
}

/// The patch that makes the second document of the first.
fn patch_diff(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let (olds, news) = (documents(call, 0)?, documents(call, 1)?);
    let mut patches = StringViewBuilder::with_capacity(call.rows);
    for (row, (old, new)) in olds.iter().zip(&news).enumerate() {
        let Some(new) = new.map(|new| Place::of_shallow(new, PATCH_DIFF)).transpose()? else {
            patches.append_null();
            continue;
        };
        let mut text = String::new();
        match old.map(|old| Place::of_shallow(old, PATCH_DIFF)).transpose()? {
            Some(old) if old.kind() == Kind::Object && new.kind() == Kind::Object => differing(old, new, &mut text),
            _ => write_value(new, &mut text),
        }
        call.promises.add(row, text.len() as u128)?;
        patches.try_append_value(&text)?;
    }
    Ok(Arc::new(patches.finish()))
}

/// Writes what the object `new` has other than `old`, with null for each member that it has not any more.
fn differing(old: Place<'_>, new: Place<'_>, out: &mut String) {
    let member = |of: Place<'_>, key: &str| of.members().any(|(raw, _)| is_key(raw, key));
    let mut members = Members::begin(out);
    for (raw, _) in old.members().filter(|(raw, _)| !member(new, &unescaped(raw))) {
        members.key(raw).push_str("null");
    }
    for (raw, value) in new.members() {
        let key = unescaped(raw);
        match old.members().find(|(raw, _)| is_key(raw, &key)).map(|(_, old)| old) {
            Some(old) if is_equal(old, value) => {}
            Some(old) if old.kind() == Kind::Object && value.kind() == Kind::Object => {
                differing(old, value, members.key(raw));
            }
            _ => write_value(value, members.key(raw)),
        }
    }
    members.end();
}

/// Whether two values are the same, whatever the order of members.
fn is_equal(one: Place<'_>, other: Place<'_>) -> bool {
    match (one.kind(), other.kind()) {
        (Kind::List, Kind::List) => {
            one.elements().count() == other.elements().count()
                && one.elements().zip(other.elements()).all(|(one, other)| is_equal(one, other))
        }
        (Kind::Object, Kind::Object) => {
            one.members().count() == other.members().count()
                && one.members().all(|(raw, value)| {
                    let key = unescaped(raw);
                    let same = other.members().find(|(raw, _)| is_key(raw, &key));
                    same.is_some_and(|(_, other)| is_equal(value, other))
                })
        }
        (kind, same) => kind == same && is_same(one, other),
    }
}
