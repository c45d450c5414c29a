//! Bytes where DataFusion's functions take texts only: how many there are, so many times, one after the other, a slice of them.
//!
//! Not here: bytes in other writings (`codes`).

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BinaryViewBuilder, Int64Array, StringViewArray},
        compute::cast,
        datatypes::{DataType, Field},
    },
    common::{Result, ScalarValue},
    functions::string,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
};

use ogee_memory::BufferManager;

use crate::{
    arguments::{Argument, taken, wholes},
    function::{Call, Function, Shown},
    lists::coerced,
    marks::Mark,
    times::Zone,
};

/// The functions that statements may name.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    fn bytes(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
        taken(name, &[Argument::TextOrBytes], 0, given)
    }
    let number = |_: &ReturnFieldArgs<'_>| Ok(Arc::new(Field::new("", DataType::Int64, true)));
    let lengths = [
        Function::of_fields(
            "octet_length",
            |given| bytes("octet_length", given),
            number,
            |call| lengths(call, |bits| bits.div_ceil(8), 1),
            memory,
        ),
        Function::of_fields(
            "bit_length",
            |given| bytes("bit_length", given),
            number,
            |call| lengths(call, |bits| bits, 8),
            memory,
        ),
    ];
    let signature = Signature::user_defined(Volatility::Immutable);
    let repeat = ScalarUDF::new_from_impl(Repeat { text: string::repeat(), signature });
    lengths.into_iter().map(Function::registered).chain([repeat]).collect()
}

/// Whether values of the type are bytes.
pub fn is_blob(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

/// The lengths of values, `of_byte` for each of their bytes; of bits what `of_bits` says of their number.
fn lengths(call: &mut Call<'_, '_>, of_bits: fn(usize) -> usize, of_byte: usize) -> Result<ArrayRef> {
    let is_bits = Mark::of(&call.fields[0]) == Some(Mark::Bit);
    let blobs = cast(&call.args[0], &DataType::BinaryView)?;
    let length = |bytes: usize| (if is_bits { of_bits(bytes) } else { bytes * of_byte }) as i64;
    let lengths = blobs.as_binary_view().iter().map(|blob| blob.map(|blob| length(blob.len())));
    Ok(Arc::new(lengths.collect::<Int64Array>()))
}

/// The bytes that `text` stands for, in which `\\xAA` is one.
pub fn of_text(text: Expr) -> Expr {
    static OF_TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let taken = |given: &[DataType]| Ok(vec![DataType::Utf8View; given.len()]);
        let function = Function::of("ogee_blob_of_text", taken, |_| Ok(DataType::BinaryView), of_texts);
        Arc::new(function.shown(Shown::Argument).registered())
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&OF_TEXT), vec![text]))
}

/// `expr`, bytes, as a text: `\\xAA` for those that are no letters.
pub fn to_text(expr: Expr) -> Expr {
    static TO_TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let taken = |given: &[DataType]| Ok(vec![DataType::BinaryView; given.len()]);
        let function = Function::of(
            "ogee_text_of_blob",
            taken,
            |_| Ok(DataType::Utf8View),
            |args, _| Ok(Arc::new(blob_texts(&args[0])?)),
        );
        Arc::new(function.shown(Shown::Argument).registered())
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&TO_TEXT), vec![expr]))
}

/// The texts of `blobs`.
pub fn blob_texts(blobs: &ArrayRef) -> Result<StringViewArray> {
    let blobs = cast(blobs, &DataType::BinaryView)?;
    Ok(blobs.as_binary_view().iter().map(|bytes| bytes.map(blob_text)).collect())
}

fn blob_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b' '..=b'~' if !b"\\'\"".contains(&byte) => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02X}")),
        }
    }
    text
}

fn of_texts(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let texts = cast(&args[0], &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    let mut blobs = BinaryViewBuilder::with_capacity(texts.len());
    for text in texts {
        blobs.append_option(text.map(|text| escaped_bytes(text.as_bytes())));
    }
    Ok(Arc::new(blobs.finish()))
}

fn escaped_bytes(text: &[u8]) -> Cow<'_, [u8]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let escaped = |rest: &[u8]| match rest {
        [b'\\', b'x' | b'X', high, low, ..] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    if !(0..text.len()).any(|at| escaped(&text[at..]).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let found = escaped(&text[at..]);
        bytes.push(found.unwrap_or(byte));
        at += if found.is_some() { 4 } else { 1 };
    }
    Cow::Owned(bytes)
}

/// `left || right` of bytes.
pub fn both(left: Expr, right: Expr) -> Expr {
    static BOTH: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let taken = |given: &[DataType]| Ok(vec![DataType::BinaryView; given.len()]);
        let function = Function::of("ogee_both_blobs", taken, |_| Ok(DataType::BinaryView), both_of);
        Arc::new(function.shown(Shown::Operator("||")).registered())
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&BOTH), vec![left, right]))
}

fn both_of(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (left, right) = (args[0].as_binary_view(), args[1].as_binary_view());
    let mut blobs = BinaryViewBuilder::with_capacity(left.len());
    for (left, right) in left.iter().zip(right) {
        blobs.append_option(left.zip(right).map(|(left, right)| [left, right].concat()));
    }
    Ok(Arc::new(blobs.finish()))
}

/// A text so many times, or bytes. How large that is, is looked at before (`growing`).
#[derive(Debug, PartialEq, Eq, Hash)]
struct Repeat {
    text: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Repeat {
    fn name(&self) -> &str {
        self.text.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [blob, count] if is_blob(blob) => {
                Ok([vec![DataType::BinaryView], taken("repeat", &[Argument::Whole], 0, std::slice::from_ref(count))?]
                    .concat())
            }
            _ => coerced(arg_types, &self.text),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if is_blob(&arg_types[0]) { Ok(DataType::BinaryView) } else { self.text.return_type(arg_types) }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.first().map(|arg| info.get_data_type(arg)).transpose()? {
            Some(blob) if is_blob(&blob) => Ok(ExprSimplifyResult::Original(args)),
            _ => self.text.simplify(args, info),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !is_blob(&args.args[0].data_type()) {
            return self.text.invoke_with_args(args);
        }
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let (blobs, counts) = (arrays[0].as_binary_view(), wholes(&arrays[1])?);
        let mut repeated = BinaryViewBuilder::with_capacity(rows);
        for (blob, count) in blobs.iter().zip(&counts) {
            let times = count.map(|count| usize::try_from(count).unwrap_or(0));
            repeated.append_option(blob.zip(times).map(|(blob, times)| blob.repeat(times)));
        }
        let repeated: ArrayRef = Arc::new(repeated.finish());
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&repeated, 0)?),
            false => ColumnarValue::Array(repeated),
        })
    }
}
