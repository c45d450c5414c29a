//! Structures: what JSON has in it, and the types that are told in the same way: `{"a": "INTEGER", "b": ["VARCHAR"]}`.
//!
//! Not here: values of these types (`transforming`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, StringViewBuilder},
        datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit},
    },
    common::{Result, plan_err},
};
use ogee_memory::BufferManager;

use super::{
    building::documents,
    field, is_document, list_of,
    reading::{Kind, Place, unescaped},
    writing::write_text,
};
use crate::{
    arguments::refused,
    function::{Call, Function},
};

/// The functions that statements may name.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    let takes = |given: &[DataType]| match given {
        [document] if is_document(document) => Ok(given.to_vec()),
        _ => refused(NAME, given),
    };
    vec![Function::of_fields(NAME, takes, |_| Ok(Arc::new(field(""))), structures, memory)]
}

const NAME: &str = "json_structure";

fn structures(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let documents = documents(call, 0)?;
    let mut structures = StringViewBuilder::with_capacity(documents.len());
    let mut text = String::new();
    for (row, document) in documents.iter().enumerate() {
        let Some(document) = document else {
            structures.append_null();
            continue;
        };
        text.clear();
        Shape::of(&mut Place::of_shallow(document, NAME)?).write(&mut text);
        call.promises.add(row, text.len() as u128)?;
        structures.try_append_value(&text)?;
    }
    Ok(Arc::new(structures.finish()))
}

/// What values have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Null,
    Boolean,
    Whole,
    Negative,
    /// Whole numbers with a minus and such as only fit without.
    Huge,
    Real,
    Text,
    /// Nothing.
    Json,
    List(Box<Self>),
    Object(Vec<(String, Self)>),
}

impl Shape {
    /// Of the value at `place`, behind which that is then.
    fn of(place: &mut Place<'_>) -> Self {
        let kind = place.kind();
        match kind {
            Kind::List => {
                let mut of = Self::Null;
                place.enter();
                while place.next() {
                    of = of.with(Self::of(place));
                }
                return Self::List(Box::new(of));
            }
            Kind::Object => {
                let mut members = Members::default();
                place.enter();
                while place.next() {
                    let key = unescaped(place.key()).into_owned();
                    members.add(key, Self::of(place));
                }
                return Self::Object(members.list);
            }
            _ => {}
        }
        place.skip();
        match kind {
            Kind::Boolean => Self::Boolean,
            Kind::Whole => Self::Whole,
            Kind::Negative => Self::Negative,
            Kind::Real => Self::Real,
            Kind::Text => Self::Text,
            _ => Self::Null,
        }
    }

    /// What `self` and `other` have in common.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Null, other) | (other, Self::Null) => other,
            (Self::Whole | Self::Negative | Self::Huge, Self::Whole | Self::Negative | Self::Huge) => Self::Huge,
            (Self::Whole | Self::Negative | Self::Huge, Self::Real)
            | (Self::Real, Self::Whole | Self::Negative | Self::Huge) => Self::Real,
            (Self::List(one), Self::List(other)) => Self::List(Box::new(one.with(*other))),
            (Self::Object(one), Self::Object(other)) => {
                let mut members = Members::of(one);
                other.into_iter().for_each(|(key, shape)| members.add(key, shape));
                Self::Object(members.list)
            }
            _ => Self::Json,
        }
    }

    fn write(&self, text: &mut String) {
        let name = match self {
            Self::Null => "NULL",
            Self::Boolean => "BOOLEAN",
            Self::Whole => "UBIGINT",
            Self::Negative => "BIGINT",
            Self::Huge => "HUGEINT",
            Self::Real => "DOUBLE",
            Self::Text => "VARCHAR",
            Self::Json => "JSON",
            Self::List(of) => {
                text.push('[');
                of.write(text);
                return text.push(']');
            }
            // Of which no member is known.
            Self::Object(members) if members.is_empty() => "JSON",
            Self::Object(members) => {
                for (nth, (key, shape)) in members.iter().enumerate() {
                    text.push(if nth == 0 { '{' } else { ',' });
                    write_text(key, text);
                    text.push(':');
                    shape.write(text);
                }
                return text.push('}');
            }
        };
        write_text(name, text);
    }
}

/// Members in the order in which they were met first.
#[derive(Default)]
struct Members {
    list: Vec<(String, Shape)>,
    places: std::collections::HashMap<String, usize>,
}

impl Members {
    fn of(list: Vec<(String, Shape)>) -> Self {
        let places = list.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
        Self { list, places }
    }

    fn add(&mut self, key: String, shape: Shape) {
        match self.places.get(&key) {
            Some(&at) => {
                let known = std::mem::replace(&mut self.list[at].1, Shape::Null);
                self.list[at].1 = known.with(shape);
            }
            None => {
                self.places.insert(key.clone(), self.list.len());
                self.list.push((key, shape));
            }
        }
    }
}

/// The field that `structure` tells.
///
/// # Errors
/// If it is no JSON, or names no types.
pub(super) fn parse_structure(structure: &str) -> Result<FieldRef> {
    told(Place::of_shallow(structure, "json_transform")?)
}

fn told(place: Place<'_>) -> Result<FieldRef> {
    match place.kind() {
        Kind::Text => parse_type(&place.unquoted()),
        Kind::List => {
            let elements: Vec<_> = place.elements().collect();
            match elements[..] {
                [of] => Ok(plain(list_of(&told(of)?))),
                _ => plan_err!("a list in a JSON structure has the type of its elements: [\"INTEGER\"]"),
            }
        }
        Kind::Object => {
            let mut fields: Vec<Field> = Vec::new();
            for (key, of) in place.members() {
                let key = unescaped(key);
                if fields.iter().any(|field| field.name().eq_ignore_ascii_case(&key)) {
                    return plan_err!("a JSON structure has the key {key:?} twice");
                }
                fields.push(told(of)?.as_ref().clone().with_name(key));
            }
            if fields.is_empty() {
                return plan_err!("an object in a JSON structure has members; any JSON is \"JSON\"");
            }
            Ok(plain(DataType::Struct(fields.into())))
        }
        _ => plan_err!("a JSON structure has names of types, as in {{\"a\": \"INTEGER\"}}, not {}", place.raw()),
    }
}

fn plain(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("", data_type, true))
}

/// The field of the type that is called `name` in SQL.
fn parse_type(name: &str) -> Result<FieldRef> {
    let mut parser = TypeParser { rest: name.trim(), depth: 0 };
    match parser.parse() {
        Some(field) if parser.rest.is_empty() => Ok(field),
        _ => plan_err!("a JSON structure names the type {name:?}, which does not exist"),
    }
}

/// Types within types, at most.
const TYPE_DEPTH_MAX: usize = 100;

struct TypeParser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> TypeParser<'a> {
    fn take(&mut self, token: char) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// The letters up to a bracket or comma.
    fn words(&mut self) -> &'a str {
        let end = self.rest.find(['(', ')', '[', ']', ',']).unwrap_or(self.rest.len());
        let (words, rest) = self.rest.split_at(end);
        self.rest = rest;
        words.trim_end()
    }

    /// The name of a field.
    fn name(&mut self) -> Option<String> {
        if let Some(quoted) = self.rest.strip_prefix('"') {
            let (name, rest) = quoted.split_once('"')?;
            self.rest = rest.trim_start();
            return Some(name.to_owned());
        }
        let (name, rest) = self.rest.split_once(' ')?;
        self.rest = rest.trim_start();
        Some(name.to_owned())
    }

    fn number(&mut self) -> Option<u32> {
        self.words().parse().ok()
    }

    fn parse(&mut self) -> Option<FieldRef> {
        self.depth += 1;
        if self.depth > TYPE_DEPTH_MAX {
            return None;
        }
        let words = self.words().to_ascii_uppercase();
        let has_arguments = self.take('(');
        let mut of = match (words.as_str(), has_arguments) {
            ("STRUCT" | "ROW", true) => {
                let mut fields = Vec::new();
                loop {
                    let name = self.name()?;
                    fields.push(self.parse()?.as_ref().clone().with_name(name));
                    if !self.take(',') {
                        break;
                    }
                }
                plain(DataType::Struct(fields.into()))
            }
            ("MAP", true) => {
                let key = self.parse()?.as_ref().clone().with_name("key").with_nullable(false);
                if !self.take(',') {
                    return None;
                }
                let value = self.parse()?.as_ref().clone().with_name("value");
                let entries = Field::new("entries", DataType::Struct(vec![key, value].into()), false);
                plain(DataType::Map(Arc::new(entries), false))
            }
            ("DECIMAL" | "NUMERIC" | "DEC", true) => {
                let digits = u8::try_from(self.number()?).ok()?;
                let scale = if self.take(',') { i8::try_from(self.number()?).ok()? } else { 0 };
                let fits = (1..=38).contains(&digits) && scale.unsigned_abs() <= digits;
                fits.then(|| plain(DataType::Decimal128(digits, scale)))?
            }
            ("VARCHAR" | "CHAR" | "TEXT" | "STRING", true) => {
                self.number()?;
                plain(DataType::Utf8View)
            }
            (_, true) => return None,
            ("JSON", false) => Arc::new(field("")),
            (word, false) => plain(simple_type(word)?),
        };
        if has_arguments && !self.take(')') {
            return None;
        }
        while self.take('[') {
            let length = self.words();
            if !self.take(']') {
                return None;
            }
            of = match length {
                "" => plain(list_of(&of)),
                length => {
                    let item = of.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME);
                    plain(DataType::FixedSizeList(Arc::new(item), length.parse().ok()?))
                }
            };
        }
        self.depth -= 1;
        Some(of)
    }
}

/// The type that one name stands for.
fn simple_type(name: &str) -> Option<DataType> {
    Some(match name {
        "BOOLEAN" | "BOOL" | "LOGICAL" => DataType::Boolean,
        "TINYINT" | "INT1" => DataType::Int8,
        "SMALLINT" | "INT2" | "INT16" | "SHORT" => DataType::Int16,
        "INTEGER" | "INT" | "INT4" | "INT32" | "SIGNED" => DataType::Int32,
        "BIGINT" | "INT8" | "INT64" | "LONG" => DataType::Int64,
        "UTINYINT" | "UINT8" => DataType::UInt8,
        "USMALLINT" | "UINT16" => DataType::UInt16,
        "UINTEGER" | "UINT32" => DataType::UInt32,
        "UBIGINT" | "UINT64" => DataType::UInt64,
        "HUGEINT" | "INT128" => DataType::Decimal128(38, 0),
        "DECIMAL" | "NUMERIC" | "DEC" => DataType::Decimal128(18, 3),
        "FLOAT" | "FLOAT4" | "REAL" => DataType::Float32,
        "DOUBLE" | "FLOAT8" | "DOUBLE PRECISION" => DataType::Float64,
        "VARCHAR" | "CHAR" | "BPCHAR" | "TEXT" | "STRING" => DataType::Utf8View,
        "BLOB" | "BYTEA" | "BINARY" | "VARBINARY" => DataType::Binary,
        "DATE" => DataType::Date32,
        "TIME" => DataType::Time64(TimeUnit::Nanosecond),
        "TIMESTAMP" | "DATETIME" | "TIMESTAMP_US" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "TIMESTAMP_S" => DataType::Timestamp(TimeUnit::Second, None),
        "TIMESTAMP_MS" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "TIMESTAMP_NS" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "TIMESTAMPTZ" | "TIMESTAMP WITH TIME ZONE" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "INTERVAL" => DataType::Interval(IntervalUnit::MonthDayNano),
        "NULL" => DataType::Null,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_names::sql_name;

    fn structure(json: &str) -> String {
        let mut text = String::new();
        Shape::of(&mut Place::of_checked(json)).write(&mut text);
        text
    }

    #[test]
    fn structures_are_those_of_duckdb() {
        for (json, expected) in [
            (
                "{\"a\":1,\"b\":[1,2.5,null],\"f\":[],\"g\":{},\"h\":null}",
                "{\"a\":\"UBIGINT\",\"b\":[\"DOUBLE\"],\"f\":[\"NULL\"],\"g\":\"JSON\",\"h\":\"NULL\"}",
            ),
            ("[{\"a\":1},{\"b\":-2}]", "[{\"a\":\"UBIGINT\",\"b\":\"BIGINT\"}]"),
            ("[[1],[\"a\"]]", "[[\"JSON\"]]"),
            ("[1,-1]", "[\"HUGEINT\"]"),
            ("[{},{\"a\":1}]", "[{\"a\":\"UBIGINT\"}]"),
            ("[[],{}]", "[\"JSON\"]"),
            ("{\"a\":1,\"a\":\"x\"}", "{\"a\":\"JSON\"}"),
            ("[1,123456789012345678901234567890]", "[\"DOUBLE\"]"),
        ] {
            assert_eq!(structure(json), expected, "{json}");
        }
    }

    #[test]
    fn types_are_told_as_in_sql() -> Result<()> {
        for (told, expected) in [
            ("\"int\"", "INTEGER"),
            ("[\"DECIMAL(5, 2)\"]", "DECIMAL(5,2)[]"),
            ("{\"a\":\"STRUCT(x INT, \\\"y z\\\" VARCHAR[])[]\"}", "STRUCT(a STRUCT(x INTEGER, \"y z\" VARCHAR[])[])"),
            ("\"MAP(VARCHAR, INT[3])\"", "MAP(VARCHAR, INTEGER[3])"),
            ("\"TIMESTAMP WITH TIME ZONE\"", "TIMESTAMP WITH TIME ZONE"),
            ("{\"j\":[\"JSON\"]}", "STRUCT(j JSON[])"),
        ] {
            assert_eq!(sql_name(parse_structure(told)?.data_type()), expected);
        }
        let deep = "[".repeat(5000) + "\"INT\"" + &"]".repeat(5000);
        for none in [
            "\"NOTYPE\"",
            "1",
            "[]",
            "{}",
            "[\"INT\",\"INT\"]",
            "\"INT(\"",
            "\"INT)\"",
            "\"STRUCT()\"",
            "\"STRUCT(a)\"",
            "\"INT[\"",
            &deep,
        ] {
            assert!(parse_structure(none).is_err(), "{none}");
        }
        Ok(())
    }
}
