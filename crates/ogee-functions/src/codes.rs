//! Numbers, texts and bytes in other writings: hexadecimal, binary, other bases, base64, as parts of a URL, as checksums.
//!
//! A function that makes a text of bytes takes texts as their bytes, in UTF-8; one that makes bytes of a text refuses what is no such writing.
//!
//! Not here: texts of types (`type_names`), casts (`list_casts`, `nested_text`).

use std::{fmt::Write, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, Int64Array, StringViewBuilder},
        compute::cast,
        datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type},
    },
    common::{Result, exec_datafusion_err, exec_err},
    logical_expr::ScalarUDF,
};
use ogee_memory::BufferManager;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::{
    arguments::{Argument, refused, taken, texts, wholes},
    function::{Function, Shown, Taken},
    growing::Promises,
    times::Zone,
};

type Body = fn(&[ArrayRef], &Zone) -> Result<ArrayRef>;
type Growing = fn(&[ArrayRef], &mut Promises<'_>) -> Result<ArrayRef>;

/// The functions that statements may name; what is longer than the arguments is promised memory of `memory`.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    fn text(name: &'static str, taken: Taken, body: Body) -> Function {
        Function::of(name, taken, |_| Ok(DataType::Utf8View), body)
    }
    let longer = |name: &'static str, taken: Taken, body: Growing| {
        Function::growing(name, taken, |_| Ok(DataType::Utf8View), body, memory)
    };
    fn blob(name: &'static str, taken: Taken, body: Body) -> Function {
        Function::of(name, taken, |_| Ok(DataType::BinaryView), body)
    }
    let functions = [
        text(DECODE, |given| blob_taken("decode", given), decode).shown(Shown::As("decode")),
        blob(ENCODE, |given| one_text("encode", given), |args, _| Ok(Arc::new(blobs(&args[0])?)))
            .shown(Shown::As("encode")),
        longer("hex", |given| number_or_bytes("hex", given), |args, promises| digits(&args[0], 4, promises))
            .also(&["to_hex"]),
        longer("bin", |given| number_or_bytes("bin", given), |args, promises| digits(&args[0], 1, promises))
            .also(&["to_binary"]),
        blob("unhex", |given| one_text("unhex", given), |args, _| from_digits(&args[0], "hex", 16)).also(&["from_hex"]),
        blob("unbin", |given| one_text("unbin", given), |args, _| from_digits(&args[0], "binary", 2))
            .also(&["from_binary"]),
        text("to_base", to_base_takes, to_base),
        longer(
            "base64",
            |given| one_of_bytes("base64", given),
            |args, promises| each_blob(&args[0], 2, |bytes, text| BASE64_STANDARD.encode_string(bytes, text), promises),
        )
        .also(&["to_base64"]),
        blob("from_base64", |given| one_text("from_base64", given), |args, _| from_base64(&args[0])),
        longer(
            "url_encode",
            |given| one_text("url_encode", given),
            |args, promises| each_blob(&args[0], 3, url_encode, promises),
        ),
        text("url_decode", |given| one_text("url_decode", given), |args, _| url_decode(&args[0])),
        longer(
            "sha1",
            |given| one_of_bytes("sha1", given),
            |args, promises| each_blob(&args[0], 0, checksum::<Sha1>, promises),
        ),
        longer(
            "sha256",
            |given| one_of_bytes("sha256", given),
            |args, promises| each_blob(&args[0], 0, checksum::<Sha256>, promises),
        ),
        Function::of(
            "strlen",
            |given| one_text("strlen", given),
            |_| Ok(DataType::Int64),
            |args, _| {
                let texts = texts(&args[0])?;
                let lengths: Int64Array = texts.iter().map(|text| Some(text?.len() as i64)).collect();
                Ok(Arc::new(lengths))
            },
        ),
    ];
    functions.into_iter().map(Function::registered).collect()
}

/// The function that `decode` of one argument becomes: bytes as the text that they are in UTF-8.
pub const DECODE: &str = "ogee_decode";
/// The function that `encode` of one argument becomes: the bytes of a text in UTF-8.
pub const ENCODE: &str = "ogee_encode";

fn blob_taken(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [of, ..] if of.is_string() => refused(name, given),
        _ => taken(name, &[Argument::TextOrBytes, Argument::Text], 1, given),
    }
}

/// `decode(bytes, 'replace')`: what is done with bytes that are no text is said, or they are an error.
fn decode(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (blobs, manners) = (blobs(&args[0])?, args.get(1).map(texts).transpose()?);
    let mut decoded = StringViewBuilder::with_capacity(blobs.len());
    for (row, blob) in blobs.iter().enumerate() {
        let manner = match &manners {
            Some(manners) => manners.is_valid(row).then(|| manners.value(row)),
            None => Some("strict"),
        };
        let Some((blob, manner)) = blob.zip(manner) else {
            decoded.append_null();
            continue;
        };
        let instead = match manner {
            "strict" => {
                decoded.append_value(std::str::from_utf8(blob).map_err(|_| {
                    exec_datafusion_err!(
                        "the bytes that decode is given are no text in UTF-8; write decode(b, 'replace')"
                    )
                })?);
                continue;
            }
            "replace" => "?",
            "ignore" => "",
            other => return exec_err!("decode does 'strict', 'replace' or 'ignore', not '{other}'"),
        };
        let mut text = String::with_capacity(blob.len());
        for chunk in blob.utf8_chunks() {
            text.push_str(chunk.valid());
            chunk.invalid().iter().for_each(|_| text.push_str(instead));
        }
        decoded.append_value(text);
    }
    Ok(Arc::new(decoded.finish()))
}

fn one_text(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    taken(name, &[Argument::Text], 0, given)
}

fn one_of_bytes(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    taken(name, &[Argument::TextOrBytes], 0, given)
}

fn number_or_bytes(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [DataType::UInt64] => Ok(vec![DataType::UInt64]),
        [given] if given.is_integer() => Ok(vec![DataType::Int64]),
        [huge @ DataType::Decimal128(38, 0)] => Ok(vec![huge.clone()]),
        _ => taken(name, &[Argument::TextOrBytes], 0, given),
    }
}

/// The bytes of texts, or of bytes.
fn blobs(array: &ArrayRef) -> Result<BinaryViewArray> {
    Ok(cast(array, &DataType::BinaryView)?.as_binary_view().clone())
}

/// The texts that `write` makes of bytes, of each byte `longer` at most.
fn each_blob(
    array: &ArrayRef,
    longer: usize,
    write: impl Fn(&[u8], &mut String),
    promises: &mut Promises<'_>,
) -> Result<ArrayRef> {
    let blobs = blobs(array)?;
    let mut written = StringViewBuilder::with_capacity(blobs.len());
    let mut text = String::new();
    for (row, blob) in blobs.iter().enumerate() {
        text.clear();
        if let Some(blob) = blob {
            promises.add(row, blob.len() as u128 * longer as u128)?;
            write(blob, &mut text);
        }
        written.append_option(blob.map(|_| text.as_str()));
    }
    Ok(Arc::new(written.finish()))
}

/// Digits of `bits` bits: of numbers without zeros before them, negative ones in two's complement; of bytes all.
fn digits(array: &ArrayRef, bits: u32, promises: &mut Promises<'_>) -> Result<ArrayRef> {
    let number = |value: u128| match bits {
        1 => format!("{value:b}"),
        _ => format!("{value:X}"),
    };
    let written: Vec<Option<String>> = match array.data_type() {
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>();
            values.iter().map(|value| value.map(|value| number(value.cast_unsigned().into()))).collect()
        }
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>();
            values.iter().map(|value| value.map(|value| number(value.into()))).collect()
        }
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>();
            values.iter().map(|value| value.map(|value| number(value.cast_unsigned()))).collect()
        }
        _ => return each_blob(array, 8 / bits as usize, |bytes, text| write_bytes(bytes, bits, text), promises),
    };
    let mut texts = StringViewBuilder::with_capacity(written.len());
    written.iter().for_each(|text| texts.append_option(text.as_deref()));
    Ok(Arc::new(texts.finish()))
}

fn write_bytes(bytes: &[u8], bits: u32, text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        for digit in (0..8 / bits).rev() {
            let value = byte >> (digit * bits) & ((1 << bits) - 1);
            text.push(DIGITS[usize::from(value)].into());
        }
    }
}

/// Bytes of their digits, of which the first byte may have fewer.
fn from_digits(array: &ArrayRef, name: &str, base: u32) -> Result<ArrayRef> {
    let (texts, width) = (texts(array)?, if base == 2 { 8 } else { 2 });
    let mut blobs = BinaryViewBuilder::with_capacity(texts.len());
    let mut bytes = Vec::new();
    for text in &texts {
        let Some(text) = text else {
            blobs.append_null();
            continue;
        };
        bytes.clear();
        // Where the digits of a byte end.
        let mut left = text.chars().count();
        let mut byte = 0;
        for letter in text.chars() {
            let digit = letter.to_digit(base);
            byte =
                byte * base + digit.ok_or_else(|| exec_datafusion_err!("Invalid input for {name} digit: {letter}"))?;
            left -= 1;
            if left % width == 0 {
                bytes.push(byte as u8);
                byte = 0;
            }
        }
        blobs.append_value(&bytes);
    }
    Ok(Arc::new(blobs.finish()))
}

fn to_base_takes(given: &[DataType]) -> Result<Vec<DataType>> {
    taken("to_base", &[Argument::Whole, Argument::Whole, Argument::Whole], 1, given)
}

/// `to_base(number, radix, min_length)`.
fn to_base(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (numbers, radixes) = (wholes(&args[0])?, wholes(&args[1])?);
    let lengths = args.get(2).map(wholes).transpose()?;
    let mut texts = StringViewBuilder::with_capacity(numbers.len());
    for (row, (number, radix)) in numbers.iter().zip(&radixes).enumerate() {
        let length = match &lengths {
            Some(lengths) => lengths.is_valid(row).then(|| lengths.value(row)),
            None => Some(0),
        };
        let (Some(number), Some(radix), Some(length)) = (number, radix, length) else {
            texts.append_null();
            continue;
        };
        let Ok(mut rest) = u64::try_from(number) else {
            return exec_err!("'to_base' number must be greater than or equal to 0");
        };
        if !(2..=36).contains(&radix) {
            return exec_err!("'to_base' radix must be between 2 and 36");
        }
        if !(0..=64).contains(&length) {
            return exec_err!("'to_base' min_length must be between 0 and 64");
        }
        let (radix, length) = (radix as u64, length as usize);
        let mut digits = Vec::new();
        loop {
            let digit = char::from_digit((rest % radix) as u32, radix as u32).unwrap_or('0');
            digits.push(digit.to_ascii_uppercase());
            rest /= radix;
            if rest == 0 {
                break;
            }
        }
        digits.resize(digits.len().max(length), '0');
        let text: String = digits.iter().rev().collect();
        texts.append_value(text);
    }
    Ok(Arc::new(texts.finish()))
}

fn from_base64(array: &ArrayRef) -> Result<ArrayRef> {
    let texts = texts(array)?;
    let mut blobs = BinaryViewBuilder::with_capacity(texts.len());
    for text in &texts {
        let Some(text) = text else {
            blobs.append_null();
            continue;
        };
        if text.len() % 4 != 0 {
            return exec_err!("Could not decode string \"{text}\" as base64: length must be a multiple of 4");
        }
        let blob = BASE64_STANDARD
            .decode(text)
            .map_err(|error| exec_datafusion_err!("Could not decode string \"{text}\" as base64: {error}"))?;
        blobs.append_value(blob);
    }
    Ok(Arc::new(blobs.finish()))
}

/// What RFC 3986 leaves as it is in each part of a URL, and `%` and two digits for every other byte.
fn url_encode(bytes: &[u8], text: &mut String) {
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(byte.into()),
            other => write!(text, "%{other:02X}").expect("a text takes what is written"),
        }
    }
}

/// A `%` without two digits stands for itself.
fn url_decode(array: &ArrayRef) -> Result<ArrayRef> {
    let texts = texts(array)?;
    let mut decoded = StringViewBuilder::with_capacity(texts.len());
    let mut bytes = Vec::new();
    for text in &texts {
        let Some(text) = text else {
            decoded.append_null();
            continue;
        };
        bytes.clear();
        let mut rest = text.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
            rest = match digit(0).zip(digit(1)).filter(|_| byte == b'%') {
                Some((high, low)) => {
                    bytes.push((high << 4 | low) as u8);
                    &after[2..]
                }
                None => {
                    bytes.push(byte);
                    after
                }
            };
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => decoded.append_value(text),
            Err(_) => {
                return exec_err!(
                    "Failed to decode string \"{text}\" using URL decoding - decoded value is invalid UTF8"
                );
            }
        }
    }
    Ok(Arc::new(decoded.finish()))
}

fn checksum<D: Digest>(bytes: &[u8], text: &mut String) {
    for byte in D::digest(bytes) {
        write!(text, "{byte:02x}").expect("a text takes what is written");
    }
}
