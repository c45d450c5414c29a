//! Lists, structs and maps as text, as DuckDB writes them: `[1, NULL]`, `{'a': 1}`, `(1, x)`, `{k=v}`.
//!
//! Arrow writes NULL in a list as nothing, and texts without quotes, so that a list of one text with a comma in it is written as one of two; structs and maps it does not
//! write. Here a value in another is written as it is alone, in quotes where it would be read as something else.
//!
//! Not here: texts as lists (`list_casts`), and values that are in no other (`letters`, `numbers`, `times`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder},
        buffer::{NullBuffer, OffsetBuffer},
        compute::{CastOptions, cast_with_options},
        datatypes::{DataType, FieldRef, Fields},
    },
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
    },
};

use crate::{
    arithmetic::as_nullable_as_args,
    blobs::{blob_texts, is_blob},
    float_text::float_texts,
    marks::Mark,
    numbers::moment_texts,
    times::{self, Zone},
};

/// `expr`, a list, struct or map, as text. Instants in it are shown in `zone`.
pub fn nested_text(expr: Expr, zone: Zone) -> Expr {
    let function = NestedText { zone, signature: Signature::any(1, Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

/// Whether values of the type are written here.
pub fn is_written(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().all(|field| is_part(field.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => fields.iter().all(|field| is_part(field.data_type())),
            _ => false,
        },
        other => element(other).is_some_and(|field| is_part(field.data_type())),
    }
}

fn is_part(data_type: &DataType) -> bool {
    !data_type.is_nested() || is_written(data_type)
}

fn element(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => Some(field),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NestedText {
    zone: Zone,
    signature: Signature,
}

impl ScalarUDFImpl for NestedText {
    fn name(&self) -> &str {
        "ogee_nested_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        as_nullable_as_args(self, &args)
    }

    /// A cast does not show in names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(written(array, &self.zone)?),
            ColumnarValue::Scalar(scalar) => {
                let text = written(&scalar.to_array_of_size(1)?, &self.zone)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&text, 0)?)
            }
        })
    }
}

/// The values of `array`, whatever they are, as text: as casts give it, instants as in `zone`, but for bytes, of which those that are no letters are written `\xFF`.
///
/// # Errors
/// A value that has no text.
pub fn texts(array: &ArrayRef, zone: &Zone) -> Result<StringViewArray> {
    if is_written(array.data_type()) {
        return Ok(written(array, zone)?.as_string_view().clone());
    }
    match array.data_type() {
        blob if is_blob(blob) => blob_texts(array),
        _ => singles(array, zone),
    }
}

/// The values of `array`, lists, structs or maps, as text.
pub(crate) fn written(array: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    let values = Values::of(array, zone)?;
    let mut texts = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    for row in 0..array.len() {
        if values.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        values.write(row, &mut text);
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// Values that are about to be written.
enum Values {
    /// Those with none in them, as their texts.
    Single(StringViewArray),
    /// Documents in a list, which are written as they are.
    Json(StringViewArray),
    List {
        offsets: OffsetBuffer<i32>,
        elements: Box<Self>,
        nulls: Option<NullBuffer>,
    },
    /// `names`: what is before the fields, if they have names.
    Struct {
        names: Option<Vec<String>>,
        fields: Vec<Self>,
        nulls: Option<NullBuffer>,
    },
    Map {
        offsets: OffsetBuffer<i32>,
        keys: Box<Self>,
        values: Box<Self>,
        nulls: Option<NullBuffer>,
    },
}

impl Values {
    fn of(array: &ArrayRef, zone: &Zone) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Struct(names) => {
                let array = array.as_struct();
                let fields = array.columns().iter().map(|column| Self::of(column, zone)).collect::<Result<_>>()?;
                Self::Struct { names: names_of(names), fields, nulls: array.nulls().cloned() }
            }
            DataType::Map(..) => {
                let array = array.as_map();
                let (offsets, from, len) = visible(array.offsets());
                let of = |side: &ArrayRef| Self::of(&side.slice(from, len), zone).map(Box::new);
                let (keys, values) = (of(array.keys())?, of(array.values())?);
                Self::Map { offsets, keys, values, nulls: array.nulls().cloned() }
            }
            other => match element(other) {
                Some(field) => {
                    let lists = cast_with_options(array, &DataType::List(Arc::clone(field)), &strict())?;
                    let lists = lists.as_list::<i32>();
                    let (offsets, from, len) = visible(lists.offsets());
                    let elements = lists.values().slice(from, len);
                    let elements = match Mark::of(field) {
                        Some(Mark::Json) => Box::new(Self::Json(singles(&elements, zone)?)),
                        _ => Box::new(Self::of(&elements, zone)?),
                    };
                    Self::List { offsets, elements, nulls: lists.nulls().cloned() }
                }
                None if is_blob(array.data_type()) => Self::Single(blob_texts(array)?),
                None => Self::Single(singles(array, zone)?),
            },
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Single(texts) | Self::Json(texts) => texts.is_null(row),
            Self::List { nulls, .. } | Self::Struct { nulls, .. } | Self::Map { nulls, .. } => {
                nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
            }
        }
    }

    /// Writes the value of `row`, which is in no other unless it is single.
    fn write(&self, row: usize, text: &mut String) {
        if self.is_null(row) {
            text.push_str("NULL");
            return;
        }
        match self {
            Self::Single(texts) => write_single(texts.value(row), text),
            Self::Json(texts) => text.push_str(texts.value(row)),
            Self::List { offsets, elements, .. } => {
                text.push('[');
                for (nth, element) in within(offsets, row).enumerate() {
                    text.push_str(if nth == 0 { "" } else { ", " });
                    elements.write(element, text);
                }
                text.push(']');
            }
            Self::Struct { names, fields, .. } => {
                text.push(if names.is_some() { '{' } else { '(' });
                for (nth, field) in fields.iter().enumerate() {
                    text.push_str(if nth == 0 { "" } else { ", " });
                    if let Some(name) = names.as_ref().map(|names| &names[nth]) {
                        text.push_str(name);
                    }
                    field.write(row, text);
                }
                text.push_str(match (names, fields.len()) {
                    (Some(_), _) => "}",
                    // Without the comma, brackets would be those of an expression.
                    (None, 1) => ",)",
                    (None, _) => ")",
                });
            }
            Self::Map { offsets, keys, values, .. } => {
                text.push('{');
                for (nth, entry) in within(offsets, row).enumerate() {
                    text.push_str(if nth == 0 { "" } else { ", " });
                    keys.write(entry, text);
                    text.push('=');
                    values.write(entry, text);
                }
                text.push('}');
            }
        }
    }
}

fn strict() -> CastOptions<'static> {
    CastOptions { safe: false, ..CastOptions::default() }
}

/// `offsets` from 0 on, and where the values that they are into begin and how many there are.
fn visible(offsets: &OffsetBuffer<i32>) -> (OffsetBuffer<i32>, usize, usize) {
    let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
    (OffsetBuffer::from_lengths(offsets.lengths()), first, last - first)
}

fn within(offsets: &OffsetBuffer<i32>, row: usize) -> std::ops::Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

/// `'name': ` for each of `fields`; `None` for those of a row, which have the names that DataFusion gives them.
fn names_of(fields: &Fields) -> Option<Vec<String>> {
    if fields.iter().enumerate().all(|(nth, field)| *field.name() == format!("c{nth}")) {
        return None;
    }
    let name = |field: &FieldRef| {
        let mut name = String::new();
        write_quoted(field.name(), &mut name);
        name.push_str(": ");
        name
    };
    Some(fields.iter().map(name).collect())
}

/// The texts of `array`'s values, each as it is alone.
pub(crate) fn singles(array: &ArrayRef, zone: &Zone) -> Result<StringViewArray> {
    let texts = match array.data_type() {
        DataType::Float32 | DataType::Float64 => return float_texts(array),
        DataType::Timestamp(_, None) | DataType::Date32 | DataType::Time32(_) | DataType::Time64(_) => {
            moment_texts(array)?
        }
        DataType::Timestamp(_, Some(_)) => times::instants::instant_texts(array, zone)?,
        DataType::Interval(_) => times::intervals::interval_texts(array)?,
        _ => Arc::clone(array),
    };
    Ok(cast_with_options(&texts, &DataType::Utf8View, &strict())?.as_string_view().clone())
}

fn write_single(value: &str, text: &mut String) {
    let is_space = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'..=b'\r'));
    let is_special = |byte: &u8| b"\"'(),:=[\\]{}".contains(byte);
    let bytes = value.as_bytes();
    let is_quoted = bytes.is_empty()
        || is_space(bytes.first())
        || is_space(bytes.last())
        || bytes.eq_ignore_ascii_case(b"null")
        || bytes.iter().any(is_special);
    if is_quoted { write_quoted(value, text) } else { text.push_str(value) }
}

fn write_quoted(value: &str, text: &mut String) {
    text.push('\'');
    for letter in value.chars() {
        if matches!(letter, '\'' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
    text.push('\'');
}

#[cfg(test)]
mod tests {
    use super::write_single;

    fn shown(value: &str) -> String {
        let mut text = String::new();
        write_single(value, &mut text);
        text
    }

    #[test]
    fn what_would_be_read_as_something_else_is_quoted() {
        let plain = ["a", "a b", "a\tb", "nulls", "1;2", "x|y", "ä", "\u{a0}x", "-1.5"];
        assert_eq!(plain.map(shown), plain);
        let quoted = ["", "Null", " a", "a\n", "a,b", "a:b", "a=b", "(a", "a]", "{", "\""];
        assert_eq!(quoted.map(shown), quoted.map(|value| format!("'{value}'")));
        assert_eq!(shown(r"it's \"), r"'it\'s \\'");
    }
}
