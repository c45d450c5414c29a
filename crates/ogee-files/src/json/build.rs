//! Arrays out of JSON values.
//!
//! Not here: types of columns (`shape`).

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use datafusion::arrow::{
    array::{
        ArrayRef, BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder, Int64Builder, ListArray, MapArray,
        NullBufferBuilder, StringBuilder, StringViewBuilder, StructArray, Time64MicrosecondBuilder,
        TimestampMicrosecondBuilder, TimestampNanosecondBuilder,
    },
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, FieldRef, Fields},
};
use memchr::memchr;
use ogee_functions::{marks::Mark, text_casts::cast_texts};

use super::{
    parse::{Item, Value},
    shape::Shape,
};
use crate::csv::values::{self, Kind, UTC};

/// The array of a column while it is built.
pub(super) enum Builder {
    Boolean(BooleanBuilder),
    Integer(Int64Builder),
    LargeInteger(Decimal128Builder),
    Double(Float64Builder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Nanoseconds(TimestampNanosecondBuilder),
    Instant(TimestampMicrosecondBuilder),
    Text(StringViewBuilder),
    /// Texts, and the text of other values.
    AnyText(StringViewBuilder),
    /// The text of values.
    Json(StringViewBuilder),
    /// Texts that become what a table declares.
    Cast(StringViewBuilder, DataType),
    List {
        field: FieldRef,
        ends: Vec<i32>,
        valid: NullBufferBuilder,
        items: Box<Builder>,
    },
    /// Objects whose keys are values.
    Map {
        entries: FieldRef,
        ends: Vec<i32>,
        valid: NullBufferBuilder,
        keys: StringBuilder,
        values: Box<Builder>,
    },
    Object {
        names: Fields,
        places: Places,
        fields: Vec<Builder>,
        valid: NullBufferBuilder,
    },
}

/// Bytes of a value in an array, or of what stands for one elsewhere, at most.
pub(super) const VALUE_BYTES: usize = 16;

/// Where keys are.
#[derive(Default)]
pub(super) struct Places(HashMap<String, usize>);

impl Places {
    /// Of the keys `names`, in their order.
    pub(super) fn of<'n>(names: impl Iterator<Item = &'n String>) -> Self {
        Self(names.enumerate().map(|(place, name)| (name.clone(), place)).collect())
    }

    /// The place of `key`, which is likely `next`, where `name` is.
    pub(super) fn find(&self, key: &str, next: usize, name: Option<&String>) -> Option<usize> {
        if name.is_some_and(|name| name == key) { Some(next) } else { self.0.get(key).copied() }
    }
}

/// Why a value has no place in its column.
#[derive(Debug)]
pub(super) enum Misfit {
    /// It is something else.
    Value(String, String),
    /// A key that nobody knows.
    Key(String),
}

impl Builder {
    /// For values of `shape`, with long texts in pieces of `block` bytes.
    pub(super) fn of(shape: &Shape, block: u32) -> Self {
        let texts = || StringViewBuilder::new().with_fixed_block_size(block);
        match shape {
            Shape::Boolean => Self::Boolean(BooleanBuilder::new()),
            Shape::Integer => Self::Integer(Int64Builder::new()),
            Shape::LargeInteger => {
                Self::LargeInteger(Decimal128Builder::new().with_data_type(DataType::Decimal128(38, 0)))
            }
            Shape::Double => Self::Double(Float64Builder::new()),
            Shape::Text(kinds) => match kinds.kind() {
                Kind::Date(_) | Kind::FormattedDate => Self::Date(Date32Builder::new()),
                Kind::Time => Self::Time(Time64MicrosecondBuilder::new()),
                Kind::Timestamp(_, false) | Kind::FormattedTimestamp => {
                    Self::Timestamp(TimestampMicrosecondBuilder::new())
                }
                Kind::Timestamp(_, true) => Self::Nanoseconds(TimestampNanosecondBuilder::new()),
                Kind::Instant => Self::Instant(TimestampMicrosecondBuilder::new().with_timezone(UTC)),
                _ => Self::Text(texts()),
            },
            Shape::Nothing | Shape::Json => Self::Json(texts()),
            Shape::List(items) => {
                let DataType::List(field) = shape.data_type() else { unreachable!("a list's type") };
                Self::list(field, Self::of(items, block))
            }
            Shape::Object(keys) => {
                if let (Some(values), DataType::Map(entries, _)) = (keys.values(), shape.data_type()) {
                    let values = Box::new(Self::of(&values, block));
                    let (ends, valid) = (vec![0], NullBufferBuilder::new(0));
                    return Self::Map { entries, ends, valid, keys: StringBuilder::new(), values };
                }
                let DataType::Struct(names) = shape.data_type() else { unreachable!("a struct's type") };
                let fields = keys.fields.iter().map(|(_, shape)| Self::of(shape, block)).collect();
                Self::object(names, fields)
            }
        }
    }

    /// For values of a column that was declared, or of a part of one, with long texts in pieces of `block` bytes.
    pub(super) fn declared(field: &Field, block: u32) -> Self {
        let texts = || StringViewBuilder::new().with_fixed_block_size(block);
        match field.data_type() {
            DataType::Utf8View if Mark::of(field) == Some(Mark::Json) => Self::Json(texts()),
            DataType::Boolean => Self::Boolean(BooleanBuilder::new()),
            DataType::Int64 => Self::Integer(Int64Builder::new()),
            DataType::Float64 => Self::Double(Float64Builder::new()),
            DataType::Utf8View => Self::AnyText(texts()),
            DataType::List(item) => Self::list(Arc::clone(item), Self::declared(item, block)),
            DataType::Struct(names) => {
                let fields = names.iter().map(|field| Self::declared(field, block)).collect();
                Self::object(names.clone(), fields)
            }
            other => Self::Cast(texts(), other.clone()),
        }
    }

    fn object(names: Fields, fields: Vec<Self>) -> Self {
        let places = Places::of(names.iter().map(|name| name.name()));
        Self::Object { names, places, fields, valid: NullBufferBuilder::new(0) }
    }

    /// Bytes that NULL takes in the arrays, at most.
    pub(super) fn null_bytes(&self) -> usize {
        match self {
            Self::Object { fields, .. } => 1 + fields.iter().map(Self::null_bytes).sum::<usize>(),
            _ => VALUE_BYTES,
        }
    }

    /// Bytes that `item` takes in the arrays, at most, if it has a place in them.
    pub(super) fn bytes(&self, item: &Item<'_>) -> usize {
        match (self, &item.value) {
            (_, Value::Null) => self.null_bytes(),
            (Self::List { items, .. }, Value::List(values)) => {
                VALUE_BYTES + values.iter().map(|value| items.bytes(value)).sum::<usize>()
            }
            (Self::Map { values, .. }, Value::Object(fields)) => {
                let entry = |(key, item): &(Cow<'_, str>, Item<'_>)| VALUE_BYTES + key.len() + values.bytes(item);
                VALUE_BYTES + fields.iter().map(entry).sum::<usize>()
            }
            (Self::Object { names, places, fields, .. }, Value::Object(values)) => {
                let (mut bytes, mut next, mut found) = (1, 0, 0);
                for (key, item) in values {
                    let Some(place) = places.find(key, next, names.get(next).map(|name| name.name())) else { continue };
                    bytes += fields[place].bytes(item);
                    (next, found) = (place + 1, found + 1);
                }
                if found < fields.len() {
                    bytes += self.null_bytes();
                }
                bytes
            }
            (Self::Text(_) | Self::AnyText(_) | Self::Json(_) | Self::Cast(..), _) => VALUE_BYTES + item.text.len(),
            _ => VALUE_BYTES,
        }
    }

    fn list(field: FieldRef, items: Self) -> Self {
        Self::List { field, ends: vec![0], valid: NullBufferBuilder::new(0), items: Box::new(items) }
    }

    pub(super) fn append_null(&mut self) {
        match self {
            Self::Boolean(builder) => builder.append_null(),
            Self::Integer(builder) => builder.append_null(),
            Self::LargeInteger(builder) => builder.append_null(),
            Self::Double(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Time(builder) => builder.append_null(),
            Self::Timestamp(builder) | Self::Instant(builder) => builder.append_null(),
            Self::Nanoseconds(builder) => builder.append_null(),
            Self::Text(builder) | Self::AnyText(builder) | Self::Json(builder) | Self::Cast(builder, _) => {
                builder.append_null();
            }
            Self::List { ends, valid, .. } | Self::Map { ends, valid, .. } => {
                ends.push(ends.last().copied().unwrap_or(0));
                valid.append_null();
            }
            Self::Object { fields, valid, .. } => {
                fields.iter_mut().for_each(Self::append_null);
                valid.append_null();
            }
        }
    }

    /// Appends a value that is written as `text`, if no more than its text has to be looked at; `None` if it has to be parsed.
    pub(super) fn append_plain(&mut self, text: &[u8]) -> Option<Result<(), Misfit>> {
        if text == b"null" {
            self.append_null();
            return Some(Ok(()));
        }
        let string = || text.strip_prefix(b"\"")?.strip_suffix(b"\"").filter(|text| memchr(b'\\', text).is_none());
        let is_number = text.first().is_some_and(|byte| *byte == b'-' || byte.is_ascii_digit());
        let appended = match self {
            Self::Integer(builder) => values::integer(text).map(|value| builder.append_value(value)),
            Self::Double(builder) if is_number => values::double(text).map(|value| builder.append_value(value)),
            Self::Text(builder) | Self::AnyText(builder) => {
                std::str::from_utf8(string()?).ok().map(|text| builder.append_value(text))
            }
            Self::Date(builder) => {
                values::date(string()?, values::Order::YearMonthDay).map(|value| builder.append_value(value))
            }
            Self::Timestamp(builder) => values::timestamp(string()?, values::Order::YearMonthDay)
                .map(|value| builder.append_value(values::microseconds(value))),
            _ => None,
        };
        appended.map(Ok)
    }

    pub(super) fn append(&mut self, item: &Item<'_>) -> Result<(), Misfit> {
        if matches!(item.value, Value::Null) {
            self.append_null();
            return Ok(());
        }
        let misfit = |kind: &str| Err(Misfit::Value(kind.to_owned(), String::from_utf8_lossy(item.text).into_owned()));
        let fits = |appended: Option<()>, kind: &str| appended.map_or_else(|| misfit(kind), Ok);
        let text = match &item.value {
            Value::Text(text) => Some(text.as_bytes()),
            _ => None,
        };
        let number = match &item.value {
            Value::Number(digits) => Some(*digits),
            _ => None,
        };
        match self {
            Self::Boolean(builder) => match item.value {
                Value::Boolean(value) => builder.append_value(value),
                _ => return misfit("BOOLEAN"),
            },
            Self::Integer(builder) => {
                let value = number.and_then(|digits| values::integer(digits.as_bytes()));
                return fits(value.map(|value| builder.append_value(value)), "BIGINT");
            }
            Self::LargeInteger(builder) => {
                let value = number.and_then(|digits| values::large_integer(digits.as_bytes()));
                return fits(value.map(|value| builder.append_value(value)), "HUGEINT");
            }
            Self::Double(builder) => {
                let value = number.and_then(|digits| digits.parse().ok());
                return fits(value.map(|value| builder.append_value(value)), "DOUBLE");
            }
            Self::Date(builder) => {
                let value = text.and_then(|text| values::date(text, values::Order::YearMonthDay));
                return fits(value.map(|value| builder.append_value(value)), "DATE");
            }
            Self::Time(builder) => {
                let value = text.and_then(values::time);
                return fits(value.map(|value| builder.append_value(value)), "TIME");
            }
            Self::Timestamp(builder) => {
                let value = text.and_then(|text| values::timestamp(text, values::Order::YearMonthDay));
                return fits(value.map(|value| builder.append_value(values::microseconds(value))), "TIMESTAMP");
            }
            Self::Nanoseconds(builder) => {
                let value = text.and_then(|text| values::timestamp(text, values::Order::YearMonthDay));
                let value = value.and_then(values::nanoseconds);
                return fits(value.map(|value| builder.append_value(value)), "TIMESTAMP");
            }
            Self::Instant(builder) => {
                let value = text.and_then(values::instant);
                return fits(value.map(|value| builder.append_value(value)), "TIMESTAMP WITH TIME ZONE");
            }
            Self::Text(builder) => match &item.value {
                Value::Text(text) => builder.append_value(text),
                _ => return misfit("VARCHAR"),
            },
            Self::AnyText(builder) => match (&item.value, std::str::from_utf8(item.text)) {
                (Value::Text(text), _) => builder.append_value(text),
                (_, Ok(text)) => builder.append_value(text),
                (_, Err(_)) => return misfit("VARCHAR"),
            },
            Self::Json(builder) => match std::str::from_utf8(item.text) {
                Ok(text) => builder.append_value(text),
                Err(_) => return misfit("JSON"),
            },
            Self::Cast(builder, data_type) => match &item.value {
                Value::Text(text) => builder.append_value(text),
                Value::Number(digits) => builder.append_value(digits),
                Value::Boolean(value) => builder.append_value(value.to_string()),
                _ => return misfit(&data_type.to_string()),
            },
            Self::List { ends, valid, items, .. } => {
                let Value::List(values) = &item.value else { return misfit("a list") };
                values.iter().try_for_each(|value| items.append(value))?;
                let end = ends.last().copied().unwrap_or(0);
                let more = i32::try_from(values.len()).ok().and_then(|more| end.checked_add(more));
                let Some(end) = more else { return misfit("a list that fits into memory") };
                ends.push(end);
                valid.append_non_null();
            }
            Self::Map { ends, valid, keys, values, .. } => {
                let Value::Object(fields) = &item.value else { return misfit("an object") };
                for (key, item) in fields {
                    keys.append_value(key);
                    values.append(item)?;
                }
                let end = ends.last().copied().unwrap_or(0);
                let more = i32::try_from(fields.len()).ok().and_then(|more| end.checked_add(more));
                let Some(end) = more else { return misfit("an object that fits into memory") };
                ends.push(end);
                valid.append_non_null();
            }
            Self::Object { names, places, fields, valid } => {
                let Value::Object(values) = &item.value else { return misfit("an object") };
                append_fields(names, places, fields, values)?;
                valid.append_non_null();
            }
        }
        Ok(())
    }

    /// The array; fails where a text is not what it was declared to be.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, String> {
        Ok(match self {
            Self::Boolean(builder) => Arc::new(builder.finish()),
            Self::Integer(builder) => Arc::new(builder.finish()),
            Self::LargeInteger(builder) => Arc::new(builder.finish()),
            Self::Double(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Time(builder) => Arc::new(builder.finish()),
            Self::Timestamp(builder) | Self::Instant(builder) => Arc::new(builder.finish()),
            Self::Nanoseconds(builder) => Arc::new(builder.finish()),
            Self::Text(builder) | Self::AnyText(builder) | Self::Json(builder) => Arc::new(builder.finish()),
            Self::Cast(builder, data_type) => {
                cast_texts(&builder.finish(), data_type, false).map_err(|error| error.to_string())?
            }
            Self::List { field, ends, valid, items } => {
                let items = items.finish()?;
                let ends = OffsetBuffer::new(std::mem::replace(ends, vec![0]).into());
                let list = ListArray::try_new(Arc::clone(field), ends, items, valid.finish());
                Arc::new(list.map_err(|error| error.to_string())?)
            }
            Self::Map { entries, ends, valid, keys, values } => {
                let DataType::Struct(fields) = entries.data_type() else { return Err("no map".to_owned()) };
                let arrays: Vec<ArrayRef> = vec![Arc::new(keys.finish()), values.finish()?];
                let array = StructArray::try_new(fields.clone(), arrays, None).map_err(|error| error.to_string())?;
                let ends = OffsetBuffer::new(std::mem::replace(ends, vec![0]).into());
                let map = MapArray::try_new(Arc::clone(entries), ends, array, valid.finish(), false);
                Arc::new(map.map_err(|error| error.to_string())?)
            }
            Self::Object { names, fields, valid, .. } => {
                let rows = valid.len();
                let arrays = fields.iter_mut().map(Self::finish).collect::<Result<Vec<_>, _>>()?;
                let array = match arrays.is_empty() {
                    true => Ok(StructArray::new_empty_fields(rows, valid.finish())),
                    false => StructArray::try_new(names.clone(), arrays, valid.finish()),
                };
                Arc::new(array.map_err(|error| error.to_string())?)
            }
        })
    }
}

/// Appends the values of an object to the builders of its keys.
fn append_fields(
    names: &Fields,
    places: &Places,
    fields: &mut [Builder],
    values: &[(Cow<'_, str>, Item<'_>)],
) -> Result<(), Misfit> {
    // Most objects have all keys, in the same order.
    let in_order = values.len() == names.len() && values.iter().zip(names).all(|((key, _), name)| key == name.name());
    if in_order {
        return fields.iter_mut().zip(values).try_for_each(|(field, (_, item))| field.append(item));
    }
    let mut given = vec![None; fields.len()];
    let mut next = 0;
    for (key, item) in values {
        let Some(place) = places.find(key, next, names.get(next).map(|name| name.name())) else {
            return Err(Misfit::Key(key.clone().into_owned()));
        };
        given[place] = Some(item);
        next = place + 1;
    }
    for (field, item) in fields.iter_mut().zip(given) {
        match item {
            Some(item) => field.append(item)?,
            None => field.append_null(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::text_memory::text_block_bytes;

    #[test]
    fn texts_take_as_much_in_the_last_batch_as_in_the_first() {
        let mut builder = Builder::declared(&Field::new("t", DataType::Utf8View, true), text_block_bytes(1000));
        let text = b"\"a text that is longer than a view\"";
        for _ in 0..30 {
            let item = Item { value: Value::Text("a text that is longer than a view".into()), text };
            (0..10).for_each(|_| builder.append(&item).unwrap());
            let bytes = builder.finish().unwrap().get_array_memory_size();
            assert!(bytes < 32 << 10, "{bytes} bytes for ten short texts");
        }
    }
}
