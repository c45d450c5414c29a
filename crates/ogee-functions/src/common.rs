//! The type that has all values of several, where DataFusion knows none.
//!
//! * Truth values beside numbers are 0 and 1.
//! * Structs with other fields have those of both, by their names, and lists of such, and maps. The fields of rows, which have no names, are those at their places.
//! * A decimal beside a float is a float.
//! * A text beside a date, a timestamp, a time of a day or an interval is one: DataFusion has no list of both, and otherwise makes timestamps in nanoseconds of them. In rows of set
//!   operations those, and truth values, are texts.
//!
//! Not here: who asks (`choices`, and `mixed_types` of `ogee-sql`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields},
    logical_expr::type_coercion::binary::type_union_coercion,
};

use crate::{lists::element, marks::casting::is_row};

/// What values of several types stand beside each other for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// To be compared, or for one of them to be chosen: a text is read as the moment that it stands beside.
    Chosen,
    /// As rows of a set operation: all are texts where one is.
    Rows,
}

/// The type of values of `types`, one of which is chosen; `None` if there is none.
pub fn common_type<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Option<DataType> {
    Beside::Chosen.common_type(types)
}

/// Whether a common type of `types`, of which one is chosen, is found here and not by DataFusion: some are truth values beside numbers, or structs with other fields.
pub fn is_known_here<'a>(types: impl IntoIterator<Item = &'a DataType>) -> bool {
    Beside::Chosen.is_known_here(types)
}

impl Beside {
    /// The type of values of `types`; `None` if there is none.
    pub fn common_type<'a>(self, types: impl IntoIterator<Item = &'a DataType>) -> Option<DataType> {
        let mut types: Vec<&DataType> = types.into_iter().filter(|of| !of.is_null()).collect();
        if self == Self::Rows {
            // A number beside a moment has no type in common with it, but as a text.
            types.sort_by_key(|of| !of.is_string());
        }
        let (first, rest) = types.split_first()?;
        rest.iter().try_fold(DataType::clone(first), |common, of| self.of_two(&common, of))
    }

    /// Whether a common type of `types` is found here and not by DataFusion.
    pub fn is_known_here<'a>(self, types: impl IntoIterator<Item = &'a DataType>) -> bool {
        let types: Vec<&DataType> = types.into_iter().filter(|of| !of.is_null()).collect();
        let Some((first, rest)) = types.split_first() else { return false };
        rest.iter().any(|of| self.differ_here(first, of))
    }

    /// Whether it is known here what becomes of values of this type and texts.
    fn is_beside_text(self, data_type: &DataType) -> bool {
        is_moment(data_type) || self == Self::Rows && *data_type == DataType::Boolean
    }

    fn differ_here(self, a: &DataType, b: &DataType) -> bool {
        match (a, b) {
            (text, other) | (other, text) if text.is_string() && self.is_beside_text(other) => true,
            (DataType::Boolean, number) | (number, DataType::Boolean) => number.is_numeric(),
            (DataType::Struct(a), DataType::Struct(b)) => {
                a.len() != b.len()
                    || a.iter().zip(b).any(|(a, b)| {
                        !a.name().eq_ignore_ascii_case(b.name()) || self.differ_here(a.data_type(), b.data_type())
                    })
            }
            (DataType::Map(a, _), DataType::Map(b, _)) => self.differ_here(a.data_type(), b.data_type()),
            _ => match (element(a), element(b)) {
                (Some(a), Some(b)) => self.differ_here(a.data_type(), b.data_type()),
                _ => false,
            },
        }
    }

    fn of_two(self, a: &DataType, b: &DataType) -> Option<DataType> {
        let is_decimal = |of: &DataType| matches!(of, DataType::Decimal128(..) | DataType::Decimal256(..));
        match (a, b) {
            _ if a == b => Some(a.clone()),
            (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
            (DataType::Boolean, number) | (number, DataType::Boolean) if is_decimal(number) => {
                type_union_coercion(&DataType::Int8, number)
            }
            (DataType::Boolean, number) | (number, DataType::Boolean) if number.is_numeric() => Some(number.clone()),
            (float, decimal) | (decimal, float) if float.is_floating() && is_decimal(decimal) => Some(float.clone()),
            (text, other) | (other, text) if text.is_string() && self.is_beside_text(other) => match self {
                Self::Chosen => Some(other.clone()),
                Self::Rows => Some(DataType::Utf8View),
            },
            (DataType::Struct(a), DataType::Struct(b)) if is_row(a) != is_row(b) => {
                let (named, row) = if is_row(a) { (b, a) } else { (a, b) };
                if named.len() != row.len() {
                    return None;
                }
                let field = |(field, other): (&FieldRef, &FieldRef)| {
                    let common = self.of_two(field.data_type(), other.data_type())?;
                    Some(Arc::new(Field::clone(field).with_data_type(common).with_nullable(true)))
                };
                named
                    .iter()
                    .zip(row)
                    .map(field)
                    .collect::<Option<Vec<_>>>()
                    .map(|fields| DataType::Struct(fields.into()))
            }
            (DataType::Struct(a), DataType::Struct(b)) => Some(DataType::Struct(self.of_fields(a, b)?)),
            (DataType::Map(a, sorted), DataType::Map(b, _)) => {
                let entries = self.of_two(a.data_type(), b.data_type())?;
                Some(DataType::Map(Arc::new(a.as_ref().clone().with_data_type(entries)), *sorted))
            }
            _ => match (element(a), element(b)) {
                (Some(of_a), Some(of_b)) => {
                    let item = Arc::new(
                        of_a.as_ref().clone().with_data_type(self.of_two(of_a.data_type(), of_b.data_type())?),
                    );
                    match (a, b) {
                        (DataType::FixedSizeList(_, size), DataType::FixedSizeList(_, other)) if size == other => {
                            Some(DataType::FixedSizeList(item, *size))
                        }
                        _ => Some(DataType::List(item)),
                    }
                }
                _ => type_union_coercion(a, b),
            },
        }
    }

    /// The fields of both: those of `a`, and then what else `b` has.
    fn of_fields(self, a: &Fields, b: &Fields) -> Option<Fields> {
        let named =
            |fields: &'_ Fields, name: &str| fields.iter().position(|field| field.name().eq_ignore_ascii_case(name));
        let of_a = a.iter().map(|field| match named(b, field.name()).map(|at| &b[at]) {
            Some(other) => {
                let common = self.of_two(field.data_type(), other.data_type())?;
                Some(Arc::new(Field::clone(field).with_data_type(common).with_nullable(true)))
            }
            None => Some(Arc::new(Field::clone(field).with_nullable(true))),
        });
        let others = b.iter().filter(|field| named(a, field.name()).is_none());
        let others = others.map(|field| Some(Arc::new(Field::clone(field).with_nullable(true))));
        of_a.chain(others).collect::<Option<Vec<_>>>().map(Fields::from)
    }
}

/// Whether values of the type are moments, or spans of time.
fn is_moment(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(data_type, T::Date32 | T::Timestamp(..) | T::Time32(_) | T::Time64(_) | T::Interval(_))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    fn of(fields: &[(&str, DataType)]) -> DataType {
        DataType::Struct(fields.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect())
    }

    #[test]
    fn structs_have_the_fields_of_all() {
        let (a, b) = (of(&[("a", DataType::Int64)]), of(&[("b", DataType::Boolean), ("A", DataType::Float64)]));
        let both = of(&[("a", DataType::Float64), ("b", DataType::Boolean)]);
        assert_eq!(common_type([&a, &DataType::Null, &b]), Some(both.clone()));
        let lists = [&a, &b, &both].map(|of| DataType::new_list(of.clone(), true));
        assert_eq!(common_type(&lists[..2]), Some(lists[2].clone()));
        assert!(is_known_here([&a, &b]) && !is_known_here([&a, &a, &DataType::Null]));
    }

    #[test]
    fn texts_are_moments_beside_moments() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(common_type([&DataType::Utf8, &micros, &DataType::Null]), Some(micros.clone()));
        assert!(is_known_here([&micros, &DataType::Utf8View]) && !is_known_here([&micros, &micros]));
    }

    #[test]
    fn rows_beside_texts_are_texts() {
        let types = [DataType::Date32, DataType::Int64, DataType::Utf8, DataType::Boolean];
        assert!(Beside::Rows.common_type(&types).is_some_and(|of| of.is_string()));
        assert!(
            Beside::Rows.is_known_here([&types[2], &types[3]]) && !Beside::Rows.is_known_here([&types[2], &types[1]])
        );
        let lists = [&types[0], &types[2], &DataType::Utf8View].map(|of| DataType::new_list(of.clone(), true));
        assert_eq!(Beside::Rows.common_type(&lists[..2]), Some(lists[2].clone()));
    }

    #[test]
    fn truth_values_are_numbers_beside_numbers() {
        assert_eq!(common_type([&DataType::Boolean, &DataType::Int16]), Some(DataType::Int16));
        let decimal = common_type([&DataType::Decimal128(2, 1), &DataType::Boolean]);
        assert_eq!(decimal, Some(DataType::Decimal128(4, 1)));
        assert_eq!(common_type([&DataType::Boolean, &DataType::Boolean]), Some(DataType::Boolean));
    }
}
