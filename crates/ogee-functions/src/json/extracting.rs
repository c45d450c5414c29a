//! What JSON has at paths: parts of it, texts, kinds, lengths, keys.
//!
//! With one path these give a value, with a list of paths, or a path with wildcards, a list. What a path gives must be known before a row is: a path that is no constant has no
//! wildcards.
//!
//! Not here: paths.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayBuilder, ArrayRef, AsArray, BooleanBuilder, Int64Array, ListArray, ListBuilder,
            StringViewArray, StringViewBuilder, UInt64Builder,
        },
        buffer::{NullBuffer, OffsetBuffer},
        compute::cast,
        datatypes::{DataType, Field, FieldRef},
    },
    common::{Result, exec_err},
    logical_expr::ReturnFieldArgs,
};
use ogee_memory::BufferManager;

use super::{
    building::documents,
    field, is_document, list_of,
    paths::Path,
    reading::{Kind, Place, unescaped},
    writing::write_value,
};
use crate::{
    arguments::{refused, texts, wholes},
    function::{Call, Function, Shown},
    growing::Promises,
};

/// The functions that statements may name, and operators.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    vec![
        Function::of_fields(EXTRACT, |given| with_path(EXTRACT, given), |args| at_paths(args, json()), extract, memory)
            .also(&["json_extract_path"]),
        Function::of_fields(
            EXTRACT_TEXT,
            |given| with_path(EXTRACT_TEXT, given),
            |args| at_paths(args, plain(DataType::Utf8View)),
            extract_text,
            memory,
        )
        .also(&["json_extract_path_text"]),
        Function::of_fields(ARROW, |given| with_path("->", given), |args| at_paths(args, json()), extract, memory)
            .shown(Shown::Operator("->")),
        Function::of_fields(
            LONG_ARROW,
            |given| with_path("->>", given),
            |args| at_paths(args, plain(DataType::Utf8View)),
            extract_text,
            memory,
        )
        .shown(Shown::Operator("->>")),
        Function::of_fields(FIELD, |given| with_path("[]", given), |_| Ok(json()), field_of, memory)
            .shown(Shown::Index),
        Function::of_fields(MEMBER, |given| with_path("[]", given), |_| Ok(json()), member_of, memory)
            .shown(Shown::Index),
        Function::of_fields(
            "json_value",
            |given| with_path("json_value", given),
            |args| at_paths(args, plain(DataType::Utf8View)),
            single,
            memory,
        ),
        Function::of_fields(
            "json_exists",
            |given| with_path("json_exists", given),
            |args| at_paths(args, plain(DataType::Boolean)),
            |call| each(call, Flags::default()),
            memory,
        ),
        Function::of_fields(
            "json_type",
            |given| may_have_path("json_type", given),
            |args| at_paths(args, plain(DataType::Utf8View)),
            |call| each(call, Written::new(|place, text| text.push_str(place.kind().name()), |_| false)),
            memory,
        ),
        Function::of_fields(
            "json_array_length",
            |given| may_have_path("json_array_length", given),
            |args| at_paths(args, plain(DataType::UInt64)),
            |call| each(call, Lengths::default()),
            memory,
        ),
        Function::of_fields(
            "json_keys",
            |given| may_have_path("json_keys", given),
            |args| at_paths(args, plain(list_of(&plain(DataType::Utf8View)))),
            |call| each(call, Keys::new()),
            memory,
        ),
    ]
}

/// What `->` is.
pub const ARROW: &str = "ogee_json_arrow";
/// What `->>` is.
pub const LONG_ARROW: &str = "ogee_json_long_arrow";
/// What `j['key']` and `j[0]` are, where no text is a path.
pub const FIELD: &str = "ogee_json_field";
/// What `j.key` is.
pub const MEMBER: &str = "ogee_json_member";

const EXTRACT: &str = "json_extract";
const EXTRACT_TEXT: &str = "json_extract_string";

fn json() -> FieldRef {
    Arc::new(field(""))
}

fn plain(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("", data_type, true))
}

fn is_path(given: &DataType) -> bool {
    match given {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            super::is_text(of.data_type()) || of.data_type().is_null()
        }
        given => super::is_text(given) || given.is_integer() || given.is_null(),
    }
}

fn with_path(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [document, path] if is_document(document) && is_path(path) => Ok(given.to_vec()),
        _ => refused(name, given),
    }
}

fn may_have_path(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [document] if is_document(document) => Ok(given.to_vec()),
        given => with_path(name, given),
    }
}

/// The field of a result that is `one` at each path.
fn at_paths(args: &ReturnFieldArgs<'_>, one: FieldRef) -> Result<FieldRef> {
    let Some(path) = args.arg_fields.get(1) else { return Ok(one) };
    let is_list = match args.scalar_arguments.get(1) {
        _ if path.data_type().is_nested() => true,
        Some(Some(path)) => match path.try_as_str() {
            Some(Some(path)) => Path::parse(path)?.has_wildcards(),
            _ => false,
        },
        _ => false,
    };
    Ok(if is_list { plain(list_of(&one)) } else { one })
}

/// What values at paths are collected in.
trait Values {
    /// Appends what is said of the value at `found`, or of none.
    fn append(&mut self, found: Option<Place<'_>>) -> Result<()>;
    /// Bytes of what was appended last.
    fn last_bytes(&self) -> usize {
        size_of::<u128>()
    }
    /// Appends NULL.
    fn append_null(&mut self);
    /// How many there are.
    fn len(&self) -> usize;
    /// The type of each.
    fn data_type(&self) -> DataType;
    fn finish(&mut self) -> ArrayRef;
}

/// The paths of a call.
enum Paths {
    /// The value itself.
    None,
    Texts(StringViewArray),
    Places(Int64Array),
    /// Of each row a list.
    Lists(ListArray, StringViewArray),
}

impl Paths {
    fn of(array: Option<&ArrayRef>) -> Result<Self> {
        let Some(array) = array else { return Ok(Self::None) };
        Ok(match array.data_type() {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let to = list_of(&plain(DataType::Utf8View));
                let lists = cast(array, &to)?.as_list::<i32>().clone();
                let values = texts(lists.values())?;
                Self::Lists(lists, values)
            }
            given if given.is_integer() => Self::Places(wholes(array)?),
            _ => Self::Texts(texts(array)?),
        })
    }
}

/// Paths of rows are often the same; each is parsed once in a row.
#[derive(Default)]
struct Parsed(Option<(String, Path)>);

impl Parsed {
    fn of(&mut self, text: &str) -> Result<&Path> {
        if self.0.as_ref().is_none_or(|(known, _)| known != text) {
            self.0 = Some((text.to_owned(), Path::parse(text)?));
        }
        Ok(&self.0.as_ref().expect("just set").1)
    }
}

fn extract(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    each(call, Written::new(write_value, |_| false))
}

/// Texts have no quotes, and null is NULL.
fn extract_text(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let write = |place: Place<'_>, text: &mut String| match place.kind() {
        Kind::Text => text.push_str(&place.unquoted()),
        _ => write_value(place, text),
    };
    each(call, Written::new(write, |kind| kind == Kind::Null))
}

/// What is no list, object or null.
fn single(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let is_none = |kind| matches!(kind, Kind::Null | Kind::List | Kind::Object);
    each(call, Written::new(write_value, is_none))
}

/// What is at the paths of each row.
fn each(call: &mut Call<'_, '_>, mut values: impl Values) -> Result<ArrayRef> {
    let documents = documents(call, 0)?;
    let paths = Paths::of(call.args.get(1))?;
    let gives_lists = *call.returns.data_type() != values.data_type();
    let mut parsed = Parsed::default();
    let mut lists = Lists::default();
    let promises = &mut call.promises;
    for row in 0..documents.len() {
        let document = documents.is_valid(row).then(|| documents.value(row));
        let is_known = match &paths {
            Paths::None => true,
            Paths::Texts(texts) => texts.is_valid(row),
            Paths::Places(places) => places.is_valid(row),
            Paths::Lists(lists, _) => lists.is_valid(row),
        };
        let Some(document) = document.filter(|_| is_known) else {
            if gives_lists {
                lists.push_null()
            } else {
                values.append_null()
            }
            continue;
        };
        let place = Place::of(document)?;
        match &paths {
            Paths::None => append(&mut values, Some(place), row, promises)?,
            Paths::Places(places) => append(&mut values, Path::element(places.value(row)).find(place), row, promises)?,
            Paths::Texts(texts) => {
                let path = parsed.of(texts.value(row))?;
                if !gives_lists {
                    if path.has_wildcards() {
                        return exec_err!(
                            "a JSON path with wildcards is a constant, and {} was given another",
                            promises.name()
                        );
                    }
                    append(&mut values, path.find(place), row, promises)?;
                    continue;
                }
                let before = values.len();
                path.find_all(place, &mut |found| append(&mut values, Some(found), row, promises))?;
                lists.push(values.len() - before);
            }
            Paths::Lists(of, texts) => {
                let (from, to) = (of.value_offsets()[row] as usize, of.value_offsets()[row + 1] as usize);
                for at in from..to {
                    if texts.is_null(at) {
                        return exec_err!("a JSON path in a list is NULL; leave it out");
                    }
                    let path = parsed.of(texts.value(at))?;
                    if path.has_wildcards() {
                        return exec_err!("a JSON path with wildcards stands alone, not in a list of paths");
                    }
                    append(&mut values, path.find(place), row, promises)?;
                }
                lists.push(to - from);
            }
        }
    }
    let values = values.finish();
    match call.returns.data_type() {
        DataType::List(of) if gives_lists => {
            let nulls = NullBuffer::from(lists.valid);
            let offsets = OffsetBuffer::from_lengths(lists.lengths);
            Ok(Arc::new(ListArray::try_new(Arc::clone(of), offsets, values, Some(nulls))?))
        }
        _ => Ok(values),
    }
}

fn append(values: &mut impl Values, found: Option<Place<'_>>, row: usize, promises: &mut Promises<'_>) -> Result<()> {
    values.append(found)?;
    promises.add(row, values.last_bytes() as u128)
}

#[derive(Default)]
struct Lists {
    lengths: Vec<usize>,
    valid: Vec<bool>,
}

impl Lists {
    fn push(&mut self, length: usize) {
        self.lengths.push(length);
        self.valid.push(true);
    }

    fn push_null(&mut self) {
        self.lengths.push(0);
        self.valid.push(false);
    }
}

/// Texts that are written of values, but of some kinds.
struct Written<W, N> {
    texts: StringViewBuilder,
    write: W,
    is_none: N,
    text: String,
}

impl<W: Fn(Place<'_>, &mut String), N: Fn(Kind) -> bool> Written<W, N> {
    fn new(write: W, is_none: N) -> Self {
        Self { texts: StringViewBuilder::new(), write, is_none, text: String::new() }
    }
}

impl<W: Fn(Place<'_>, &mut String), N: Fn(Kind) -> bool> Values for Written<W, N> {
    fn append(&mut self, found: Option<Place<'_>>) -> Result<()> {
        self.text.clear();
        match found.filter(|found| !(self.is_none)(found.kind())) {
            Some(found) => {
                (self.write)(found, &mut self.text);
                self.texts.try_append_value(&self.text)?;
            }
            None => self.texts.append_null(),
        }
        Ok(())
    }

    fn last_bytes(&self) -> usize {
        size_of::<u128>() + self.text.len()
    }

    fn append_null(&mut self) {
        self.texts.append_null();
    }

    fn len(&self) -> usize {
        self.texts.len()
    }

    fn data_type(&self) -> DataType {
        DataType::Utf8View
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.texts.finish())
    }
}

/// Whether there is a value.
#[derive(Default)]
struct Flags(BooleanBuilder);

impl Values for Flags {
    fn append(&mut self, found: Option<Place<'_>>) -> Result<()> {
        self.0.append_value(found.is_some());
        Ok(())
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn data_type(&self) -> DataType {
        DataType::Boolean
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// How many elements a list has; anything else has none.
#[derive(Default)]
struct Lengths(UInt64Builder);

impl Values for Lengths {
    fn append(&mut self, found: Option<Place<'_>>) -> Result<()> {
        self.0.append_option(found.map(|found| found.elements().count() as u64));
        Ok(())
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn data_type(&self) -> DataType {
        DataType::UInt64
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// The keys of objects, each as often as it is there; anything else has none.
struct Keys {
    lists: ListBuilder<StringViewBuilder>,
    /// Of the last.
    bytes: usize,
}

impl Keys {
    fn new() -> Self {
        Self { lists: ListBuilder::new(StringViewBuilder::new()), bytes: 0 }
    }
}

impl Values for Keys {
    fn append(&mut self, found: Option<Place<'_>>) -> Result<()> {
        let Some(found) = found else {
            self.append_null();
            return Ok(());
        };
        self.bytes = 0;
        for (key, _) in found.members() {
            let key = unescaped(key);
            self.lists.values().try_append_value(&key)?;
            self.bytes += size_of::<u128>() + key.len();
        }
        self.lists.append(true);
        Ok(())
    }

    fn last_bytes(&self) -> usize {
        self.bytes
    }

    fn append_null(&mut self) {
        self.lists.append(false);
        self.bytes = 0;
    }

    fn len(&self) -> usize {
        self.lists.len()
    }

    fn data_type(&self) -> DataType {
        list_of(&plain(DataType::Utf8View))
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.lists.finish())
    }
}

fn field_of(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    parts(call, |place, key| Path::member(key).find(place))
}

/// Of the member of that name, or else of one whose key has other letters of the same.
fn member_of(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    parts(call, |place, name| {
        let is_like = |raw: &str| unescaped(raw).eq_ignore_ascii_case(name);
        let like = || place.members().find(|(raw, _)| is_like(raw)).map(|(_, value)| value);
        Path::member(name).find(place).or_else(like)
    })
}

/// The member of a key that `member` finds, or the element at a place.
fn parts(call: &mut Call<'_, '_>, member: impl for<'a> Fn(Place<'a>, &str) -> Option<Place<'a>>) -> Result<ArrayRef> {
    let documents = documents(call, 0)?;
    let mut values = Written::new(write_value, |_| false);
    let paths = Paths::of(call.args.get(1))?;
    for row in 0..documents.len() {
        if documents.is_null(row) {
            values.append_null();
            continue;
        }
        let place = Place::of(documents.value(row))?;
        let found = match &paths {
            Paths::Texts(keys) if keys.is_valid(row) => member(place, keys.value(row)),
            Paths::Places(places) if places.is_valid(row) => Path::element(places.value(row)).find(place),
            _ => None,
        };
        append(&mut values, found, row, &mut call.promises)?;
    }
    Ok(values.finish())
}
