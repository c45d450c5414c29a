//! `UUID`: texts, bytes and random ones.
//!
//! A text is read without its dashes, of which there may be one behind each digit, and with braces around it or none.
//!
//! Not here: comparisons, which are those of texts in the form that all of them have.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BinaryViewBuilder, StringViewArray, StringViewBuilder, UInt32Array},
        compute::cast,
        datatypes::{DataType, Field, FieldRef},
    },
    common::{Result, exec_datafusion_err, exec_err, internal_err},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};
use ogee_memory::BufferManager;

use super::{Mark, is_text};
use crate::{
    arguments::{refused, texts},
    function::{Call, Function},
    times::instants::{Micros, instant, instants},
};

/// The functions that statements may name, but for those that give new ones.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    let one = |given: &[DataType]| match given {
        [given] if is_text(given) || given.is_null() => Ok(vec![DataType::Utf8View]),
        _ => refused("uuid_extract_version", given),
    };
    vec![
        Function::of_fields(
            "uuid_extract_version",
            one,
            |_| Ok(Arc::new(Field::new("", DataType::UInt32, true))),
            |call| {
                let versions = parsed(call)?.into_iter().map(|uuid| uuid.map(version));
                Ok(Arc::new(versions.collect::<UInt32Array>()))
            },
            memory,
        ),
        Function::of_fields(
            "uuid_extract_timestamp",
            one,
            |_| Ok(Arc::new(Field::new("", instant(), true))),
            |call| {
                let moments = parsed(call)?.into_iter().map(|uuid| uuid.map(made_at).transpose());
                Ok(instants(moments.collect::<Result<Vec<_>>>().map(Micros::from)?))
            },
            memory,
        ),
    ]
}

/// The functions that give new ones.
pub(crate) fn random_functions() -> [ScalarUDF; 2] {
    let new = |name, aliases: &[&str]| {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        let signature = Signature::nullary(Volatility::Volatile);
        ScalarUDF::new_from_impl(Random { name, aliases, signature, inner: datafusion::functions::string::uuid() })
    };
    [new("uuid", &["gen_random_uuid", "uuidv4"]), new(V7, &[])]
}

fn parsed(call: &Call<'_, '_>) -> Result<Vec<Option<u128>>> {
    texts(&call.args[0])?
        .iter()
        .map(|text| text.map(|text| parse(text).ok_or_else(|| none(text))).transpose())
        .collect()
}

fn none(text: &str) -> datafusion::error::DataFusionError {
    exec_datafusion_err!("'{text}' is no UUID; TRY_CAST gives NULL in its place")
}

fn version(uuid: u128) -> u32 {
    (uuid >> 76) as u32 & 0xf
}

/// Microseconds since 1970.
fn made_at(uuid: u128) -> Result<i64> {
    match version(uuid) {
        7 => Ok((uuid >> 80) as i64 * 1000),
        other => exec_err!("a UUID of version {other} does not say when it was made, only one of version 7"),
    }
}

/// The number that `text` is.
fn parse(text: &str) -> Option<u128> {
    let inner = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}')?,
        None => text,
    };
    let (mut number, mut digits) = (0_u128, 0);
    for char in inner.chars() {
        if char == '-' && digits > 0 {
            continue;
        }
        number = number << 4 | u128::from(char.to_digit(16)?);
        digits += 1;
        if digits > 32 {
            return None;
        }
    }
    (digits == 32).then_some(number)
}

/// Writes `uuid` in the form that all have.
fn write(uuid: u128, text: &mut String) {
    let digits = format!("{uuid:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    for (nth, part) in parts.into_iter().enumerate() {
        text.push_str(if nth == 0 { "" } else { "-" });
        text.push_str(&digits[part]);
    }
}

fn is_in_form(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match dashes.contains(&at) {
            true => byte == b'-',
            false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// Whether values of the type, which are no texts, may be UUIDs.
pub(super) fn takes(given: &DataType) -> bool {
    matches!(
        given,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) | DataType::Null
    )
}

/// The values of `array`, texts or bytes, as UUIDs. `tries`: those that are none are NULL.
pub(super) fn of_other(array: &ArrayRef, tries: bool) -> Result<ArrayRef> {
    if !is_text(array.data_type()) {
        let bytes = cast(array, &DataType::BinaryView)?;
        return of_bytes(bytes.as_binary_view().iter(), array.len(), tries);
    }
    let values = texts(array)?;
    if values.iter().flatten().all(is_in_form) {
        return Ok(Arc::new(values));
    }
    let mut made = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for value in &values {
        match value.map(|value| (value, parse(value))) {
            Some((value, None)) if !tries => return Err(none(value)),
            Some((_, Some(uuid))) => {
                text.clear();
                write(uuid, &mut text);
                made.append_value(&text);
            }
            _ => made.append_null(),
        }
    }
    Ok(Arc::new(made.finish()))
}

fn of_bytes<'b>(values: impl Iterator<Item = Option<&'b [u8]>>, rows: usize, tries: bool) -> Result<ArrayRef> {
    let mut made = StringViewBuilder::with_capacity(rows);
    let mut text = String::new();
    for value in values {
        match value.map(|value| (value, <[u8; 16]>::try_from(value))) {
            Some((value, Err(_))) if !tries => {
                return exec_err!("a UUID has 16 bytes, not {}", value.len());
            }
            Some((_, Ok(bytes))) => {
                text.clear();
                write(u128::from_be_bytes(bytes), &mut text);
                made.append_value(&text);
            }
            _ => made.append_null(),
        }
    }
    Ok(Arc::new(made.finish()))
}

/// UUIDs as bytes, if `to` is of these; `None` where they are cast as texts.
pub(super) fn to_other(values: &StringViewArray, to: &DataType, tries: bool) -> Result<Option<ArrayRef>> {
    match to {
        to if is_text(to) => Ok(None),
        to if takes(to) => {
            let mut bytes = BinaryViewBuilder::with_capacity(values.len());
            for value in values {
                bytes.append_option(value.and_then(parse).map(u128::to_be_bytes));
            }
            Ok(Some(cast(&bytes.finish(), to)?))
        }
        to if tries => Ok(Some(datafusion::arrow::array::new_null_array(to, values.len()))),
        to => exec_err!("UUID cannot be cast to {}", crate::type_names::sql_name(to)),
    }
}

/// The one whose first bits are the milliseconds since 1970.
const V7: &str = "uuidv7";

/// A function that gives a new one for each row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Random {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
    /// Gives random ones as texts.
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Random {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Mark::Uuid.field(self.name).with_nullable(false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let text = Arc::new(Field::new("", DataType::Utf8, true));
        let args = ScalarFunctionArgs { return_field: text, ..args };
        let values = texts(&self.inner.inner().invoke_with_args(args)?.into_array(rows)?)?;
        if self.name != V7 {
            return Ok(ColumnarValue::Array(Arc::new(values)));
        }
        let Ok(millis) = u128::try_from(chrono::Utc::now().timestamp_millis()) else {
            return internal_err!("the clock is before 1970");
        };
        let mut made = StringViewBuilder::with_capacity(rows);
        let mut text = String::new();
        for value in values.iter().flatten() {
            let random = parse(value).unwrap_or_default();
            text.clear();
            write(millis << 80 | random & !(!0 << 80) & !(0xf << 76) | 7 << 76, &mut text);
            made.append_value(&text);
        }
        Ok(ColumnarValue::Array(Arc::new(made.finish())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut shown = String::new();
        match parse(text) {
            Some(uuid) => write(uuid, &mut shown),
            None => shown.push_str("none"),
        }
        shown
    }

    #[test]
    fn texts_are_read_as_duckdb_does() {
        let same = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "a-0eebc99--9c0b4ef8bb6d6bb9bd380a11-",
        ] {
            assert_eq!(shown(text), same, "{text}");
        }
        for text in [
            "",
            " a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a1",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
        ] {
            assert_eq!(shown(text), "none", "{text}");
        }
        assert!(is_in_form(same) && !is_in_form("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"));
    }
}
