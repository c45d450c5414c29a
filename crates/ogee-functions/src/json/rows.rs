//! Values in JSON as rows: `json_each` and `json_tree`, each the list of the rows of a document.
//!
//! Values are numbered in the order in which they begin, keys too.
//!
//! Not here: how a function in `FROM` becomes these lists.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, ListArray, StringViewBuilder, StructArray, UInt64Builder},
        buffer::{NullBuffer, OffsetBuffer},
        datatypes::{DataType, Field, FieldRef, Fields},
    },
    common::{Result, plan_err},
};
use ogee_memory::BufferManager;

use super::{
    building::documents,
    field, is_document, list_of,
    paths::{Path, with_backslashes, with_key},
    reading::{Kind, Place, unescaped},
    writing::write_value,
};
use crate::{
    arguments::{refused, texts},
    function::{Call, Function},
    growing::Promises,
};

/// What gives the rows of `json_each`.
pub const EACH: &str = "ogee_json_each";
/// What gives the rows of `json_tree`.
pub const TREE: &str = "ogee_json_tree";

/// The functions that are written for those in `FROM`.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    vec![
        Function::of_fields(EACH, |given| taken("json_each", given), |_| Ok(lists()), |call| rows(call, false), memory),
        Function::of_fields(TREE, |given| taken("json_tree", given), |_| Ok(lists()), |call| rows(call, true), memory),
    ]
}

fn taken(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [document] if is_document(document) => Ok(given.to_vec()),
        [document, path] if is_document(document) && (super::is_text(path) || path.is_null()) => Ok(given.to_vec()),
        _ => refused(name, given),
    }
}

fn columns() -> Fields {
    let text = |name: &str| Field::new(name, DataType::Utf8View, true);
    let number = |name: &str| Field::new(name, DataType::UInt64, true);
    let columns = [text("key"), field("value"), text("type"), field("atom"), number("id"), number("parent")];
    columns.into_iter().chain([text("fullkey"), text("path")]).collect()
}

fn lists() -> FieldRef {
    let row = Arc::new(Field::new("", DataType::Struct(columns()), true));
    Arc::new(Field::new("", list_of(&row), true))
}

/// The rows of each document; `deep`: with those within them.
fn rows(call: &mut Call<'_, '_>, deep: bool) -> Result<ArrayRef> {
    let name = if deep { "json_tree" } else { "json_each" };
    let documents = documents(call, 0)?;
    let paths = call.args.get(1).map(texts).transpose()?;
    let mut made = Rows::default();
    let mut lengths = Vec::with_capacity(documents.len());
    let mut valid = Vec::with_capacity(documents.len());
    for row in 0..documents.len() {
        let path = match &paths {
            Some(paths) => paths.is_valid(row).then(|| paths.value(row)),
            None => Some("$"),
        };
        let before = made.id.len();
        let path = path.filter(|_| documents.is_valid(row));
        if let Some(path) = path {
            made.add(Place::of_shallow(documents.value(row), name)?, path, deep, row, &mut call.promises)?;
        }
        valid.push(path.is_some());
        lengths.push(made.id.len() - before);
    }
    let rows: ArrayRef = Arc::new(made.finish()?);
    let DataType::List(of) = call.returns.data_type() else { return plan_err!("the rows of {name} are a list") };
    let nulls = Some(NullBuffer::from(valid));
    Ok(Arc::new(ListArray::try_new(Arc::clone(of), OffsetBuffer::from_lengths(lengths), rows, nulls)?))
}

#[derive(Default)]
struct Rows {
    key: StringViewBuilder,
    value: StringViewBuilder,
    kind: StringViewBuilder,
    atom: StringViewBuilder,
    id: Vec<u64>,
    parent: UInt64Builder,
    fullkey: StringViewBuilder,
    path: StringViewBuilder,
    text: String,
}

/// What a row says beside its value.
struct Row<'a> {
    key: Option<&'a str>,
    id: u64,
    parent: Option<u64>,
    fullkey: &'a str,
    path: &'a str,
}

impl Rows {
    /// Adds the rows of what `path` leads to in `document`.
    fn add(
        &mut self,
        document: Place<'_>,
        path: &str,
        deep: bool,
        row: usize,
        promises: &mut Promises<'_>,
    ) -> Result<()> {
        if path.starts_with('/') {
            return plan_err!("a path of json_each and json_tree begins with $ or is a key, not {path:?}");
        }
        let parsed = Path::parse(path)?;
        if parsed.has_wildcards() {
            return plan_err!("a path of json_each and json_tree has no wildcards, as {path:?} has");
        }
        let Some(mut place) = parsed.find(document) else { return Ok(()) };
        let full = match path {
            "" => "$".to_owned(),
            path if path.starts_with('$') => path.to_owned(),
            key => format!("$.\"{}\"", with_backslashes(key)),
        };
        let mut id = document.count_before(place);
        let is_container = matches!(place.kind(), Kind::List | Kind::Object);
        if deep || !is_container {
            self.push(place, &Row { key: None, id, parent: None, fullkey: &full, path: &full }, row, promises)?;
        }
        if is_container {
            self.within(&mut place, &mut id, &full, deep, row, promises)?;
        }
        Ok(())
    }

    /// Adds the rows within the list or object at `place`, behind which that is then; as deep as documents may be.
    fn within(
        &mut self,
        place: &mut Place<'_>,
        id: &mut u64,
        path: &str,
        deep: bool,
        row: usize,
        promises: &mut Promises<'_>,
    ) -> Result<()> {
        let parent = *id;
        let is_object = place.kind() == Kind::Object;
        let mut nth = 0_u64;
        place.enter();
        while place.next() {
            *id += 1;
            let (key, full) = if is_object {
                *id += 1;
                let key = unescaped(place.key()).into_owned();
                let full = with_key(path, &key);
                (key, full)
            } else {
                (nth.to_string(), format!("{path}[{nth}]"))
            };
            nth += 1;
            let said = Row { key: Some(&key), id: *id, parent: deep.then_some(parent), fullkey: &full, path };
            self.push(*place, &said, row, promises)?;
            let is_container = matches!(place.kind(), Kind::List | Kind::Object);
            if deep && is_container {
                self.within(place, id, &full, deep, row, promises)?;
            } else {
                *id += place.count_within();
                place.skip();
            }
        }
        Ok(())
    }

    fn push(&mut self, place: Place<'_>, said: &Row<'_>, row: usize, promises: &mut Promises<'_>) -> Result<()> {
        self.text.clear();
        write_value(place, &mut self.text);
        let texts = [said.key.map_or(0, str::len), 2 * self.text.len(), said.fullkey.len(), said.path.len()];
        promises.add(row, texts.iter().sum::<usize>() as u128 + 8 * size_of::<u128>() as u128)?;
        self.key.append_option(said.key);
        self.value.try_append_value(&self.text)?;
        self.kind.append_value(place.kind().name());
        match place.kind() {
            Kind::Null | Kind::List | Kind::Object => self.atom.append_null(),
            _ => self.atom.try_append_value(&self.text)?,
        }
        self.id.push(said.id);
        self.parent.append_option(said.parent);
        self.fullkey.try_append_value(said.fullkey)?;
        self.path.try_append_value(said.path)?;
        Ok(())
    }

    fn finish(&mut self) -> Result<StructArray> {
        let ids = datafusion::arrow::array::UInt64Array::from(std::mem::take(&mut self.id));
        let rows = ids.len();
        let columns_of: Vec<ArrayRef> = vec![
            Arc::new(self.key.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.atom.finish()),
            Arc::new(ids),
            Arc::new(self.parent.finish()),
            Arc::new(self.fullkey.finish()),
            Arc::new(self.path.finish()),
        ];
        Ok(StructArray::try_new_with_length(columns(), columns_of, None, rows)?)
    }
}
