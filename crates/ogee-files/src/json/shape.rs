//! What the values of a JSON file have in common: types of columns.
//!
//! As DuckDB has them: numbers are integers as long as all are, texts are dates or times if all are, what is now this
//! and now that is the text of the value. Keys are in the order in which they come first.
//!
//! Not here: reading values as what they are.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};

use super::parse::{Item, Value};
use ogee_functions::marks::Mark;

use crate::csv::values::{Kind, Kinds, integer, large_integer};

/// What the values of a column are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// There was none but NULL.
    Nothing,
    Boolean,
    Integer,
    LargeInteger,
    Double,
    Text(Kinds),
    List(Box<Shape>),
    Object(Keys),
    /// Different things.
    Json,
}

/// The keys of objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Keys {
    pub(super) fields: Vec<(String, Shape)>,
    /// Number of objects.
    objects: usize,
    /// Number of keys in all of them.
    keys: usize,
}

/// So many keys are looked through one by one.
const FEW_KEYS: usize = 16;

/// Objects with as many keys may be maps, as DuckDB has it.
const MAP_KEYS_MIN: usize = 200;

/// Objects of which each has one of so many keys may be maps, as DuckDB has it.
const MAP_KEYS_RARITY: usize = 10;

impl Keys {
    /// The shape of all values, if the keys are no names but values, too: many of them, most in few objects.
    pub(super) fn values(&self) -> Option<Shape> {
        let distinct = self.fields.len();
        let is_rare = self.keys.saturating_mul(MAP_KEYS_RARITY) < self.objects.saturating_mul(distinct);
        if distinct < MAP_KEYS_MIN || !is_rare {
            return None;
        }
        let shape = self.fields.iter().fold(Shape::Nothing, |all, (_, shape)| all.and(shape.clone()));
        (shape != Shape::Json).then_some(shape)
    }
}

impl Shape {
    /// Of one value.
    pub(super) fn of(item: &Item<'_>) -> Self {
        match &item.value {
            Value::Null => Self::Nothing,
            Value::Boolean(_) => Self::Boolean,
            Value::Number(digits) if integer(digits.as_bytes()).is_some() => Self::Integer,
            Value::Number(digits) if large_integer(digits.as_bytes()).is_some() => Self::LargeInteger,
            // Digits of a whole number are not given up for a float.
            Value::Number(digits)
                if digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && *digits != "-0" =>
            {
                Self::Json
            }
            Value::Number(_) => Self::Double,
            Value::Text(text) => {
                let mut kinds = Kinds::times();
                kinds.narrow(text.as_bytes());
                // Dates have dashes here.
                let is_other = matches!(text.trim().as_bytes().get(4), Some(b'/' | b'.' | b'\\' | b' '));
                Self::Text(if is_other { kinds.and(Kinds::none()) } else { kinds })
            }
            Value::List(items) => {
                Self::List(Box::new(items.iter().map(Self::of).fold(Self::Nothing, |all, shape| all.and(shape))))
            }
            Value::Object(fields) if fields.is_empty() => Self::Json,
            Value::Object(fields) => {
                let keys = fields.len();
                let fields = fields.iter().map(|(key, item)| (key.clone().into_owned(), Self::of(item))).collect();
                Self::Object(Keys { fields, objects: 1, keys })
            }
        }
    }

    /// Of the values of both.
    pub(super) fn and(self, other: Self) -> Self {
        use Shape as S;
        match (self, other) {
            (S::Nothing, shape) | (shape, S::Nothing) => shape,
            (S::Text(a), S::Text(b)) => S::Text(a.and(b)),
            (S::Double, S::Integer | S::LargeInteger) | (S::Integer | S::LargeInteger, S::Double) => S::Double,
            (S::LargeInteger, S::Integer) | (S::Integer, S::LargeInteger) => S::LargeInteger,
            (S::List(a), S::List(b)) => S::List(Box::new(a.and(*b))),
            (S::Object(mut all), S::Object(others)) => {
                merge(&mut all.fields, others.fields);
                all.objects += others.objects;
                all.keys += others.keys;
                S::Object(all)
            }
            (a, b) if a == b => a,
            _ => S::Json,
        }
    }

    /// The same, with JSON for what is more than `depth` deep.
    pub(super) fn limited(self, depth: usize) -> Self {
        let Some(below) = depth.checked_sub(1) else { return Self::Json };
        match self {
            Self::List(items) => Self::List(Box::new(items.limited(below))),
            Self::Object(mut keys) => {
                for (_, shape) in &mut keys.fields {
                    *shape = std::mem::replace(shape, Self::Nothing).limited(below);
                }
                Self::Object(keys)
            }
            other => other,
        }
    }

    pub(super) fn data_type(&self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::LargeInteger => DataType::Decimal128(38, 0),
            Self::Double => DataType::Float64,
            Self::Text(kinds) => kinds.kind().data_type(),
            Self::List(items) => DataType::List(field("item", items)),
            Self::Object(keys) => match keys.values() {
                Some(values) => map_type(&values),
                None => DataType::Struct(keys.fields.iter().map(|(key, shape)| field(key, shape)).collect::<Fields>()),
            },
            Self::Nothing | Self::Json => Kind::Text.data_type(),
        }
    }
}

/// Of texts to values of `values`.
fn map_type(values: &Shape) -> DataType {
    let key: FieldRef = Field::new("key", DataType::Utf8, false).into();
    let entries = Fields::from(vec![key, field("value", values)]);
    DataType::Map(Field::new("entries", DataType::Struct(entries), false).into(), false)
}

/// A column of `shape`, or a part of one.
pub(super) fn field(name: &str, shape: &Shape) -> FieldRef {
    match shape {
        Shape::Json => Mark::Json.field(name).into(),
        shape => Field::new(name, shape.data_type(), true).into(),
    }
}

/// Adds `others` to `fields`, by name.
pub(super) fn merge(fields: &mut Vec<(String, Shape)>, others: Vec<(String, Shape)>) {
    // Most objects have the same keys in the same order, but for a few that some do not have.
    let mut next = 0;
    let mut places: Option<HashMap<String, usize>> = None;
    for (key, shape) in others {
        let place = match fields.get(next) {
            Some((other, _)) if *other == key => Some(next),
            _ if fields.iter().skip(next).take(FEW_KEYS).any(|(other, _)| *other == key) => {
                fields.iter().skip(next).position(|(other, _)| *other == key).map(|ahead| next + ahead)
            }
            _ if fields.len() <= FEW_KEYS => fields.iter().position(|(other, _)| *other == key),
            _ => {
                let places = places.get_or_insert_with(|| {
                    fields.iter().enumerate().map(|(place, (key, _))| (key.clone(), place)).collect()
                });
                places.get(&key).copied()
            }
        };
        match place {
            Some(place) => {
                let known = std::mem::replace(&mut fields[place].1, Shape::Nothing);
                fields[place].1 = known.and(shape);
                next = place + 1;
            }
            None => {
                // Each key is in `others` once, so that this one is not asked for again.
                fields.push((key, shape));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::{super::parse::parse, *};

    fn of(values: &[&str]) -> DataType {
        let shape = |text: &&str| Shape::of(&parse(text.as_bytes(), true, usize::MAX).unwrap().0);
        values.iter().map(shape).fold(Shape::Nothing, Shape::and).data_type()
    }

    #[test]
    fn objects_with_ever_other_keys_are_maps() {
        let texts: Vec<String> = (0..300).map(|i| format!("{{\"k{i}\": {i}}}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert!(matches!(of(&texts), DataType::Map(..)));
        assert!(matches!(of(&texts[..100]), DataType::Struct(..)));
        let wide = format!("{{{}}}", (0..300).map(|i| format!("\"k{i}\": {i}")).collect::<Vec<_>>().join(", "));
        assert!(matches!(of(&[&wide, &wide]), DataType::Struct(..)));
    }

    #[test]
    fn shapes_take_all_values() {
        assert_eq!(of(&["1", "null", "-2"]), DataType::Int64);
        assert_eq!(of(&["1", "2.5"]), DataType::Float64);
        assert_eq!(of(&["12345678901234567890", "1"]), DataType::Decimal128(38, 0));
        assert_eq!(of(&["true", "1"]), DataType::Utf8View);
        assert_eq!(of(&["\"2024-01-05\"", "\"2024-01-06\""]), DataType::Date32);
        assert_eq!(of(&["\"2024-01-05\"", "\"x\""]), DataType::Utf8View);
        assert_eq!(of(&["\"12\"", "\"true\""]), DataType::Utf8View);
        assert_eq!(of(&["null"]), DataType::Utf8View);
        let DataType::Struct(fields) = of(&["{\"z\": 1}", "{\"a\": [], \"z\": 2}", "{\"a\": [1]}"]) else { panic!() };
        assert_eq!(fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["z", "a"]);
        assert_eq!(*fields[1].data_type(), DataType::List(Field::new("item", DataType::Int64, true).into()));
    }
}
