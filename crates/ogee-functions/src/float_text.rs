//! Floats as text, as DuckDB writes them: the fewest digits that are read as the same value.
//!
//! Rust and Arrow write exponents as they are (`1e20`, `1e-7`); here they have a sign and two digits, and numbers from `0.0001` up to `1e16` have none.
//!
//! Not here: decimals and whole numbers as text, which look alike everywhere.

use std::{
    fmt::Write,
    sync::{Arc, LazyLock},
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder},
        datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type},
    },
    common::{Result, ScalarValue, internal_err},
    logical_expr::{
        ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction,
    },
};

/// `expr`, a float, as text.
pub fn float_text(expr: Expr) -> Expr {
    static TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(FloatText { signature: Signature::any(1, Volatility::Immutable) }))
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&TEXT), vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatText {
    signature: Signature,
}

impl ScalarUDFImpl for FloatText {
    fn name(&self) -> &str {
        "ogee_float_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    /// A cast does not show in names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let floats = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let texts: ArrayRef = Arc::new(float_texts(&floats)?);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?),
            false => ColumnarValue::Array(texts),
        })
    }
}

/// The texts of `floats`.
pub fn float_texts(floats: &ArrayRef) -> Result<StringViewArray> {
    match floats.data_type() {
        DataType::Float32 => Ok(texts::<Float32Type>(floats, f64::from)),
        DataType::Float64 => Ok(texts::<Float64Type>(floats, |value| value)),
        other => internal_err!("{other} is no float"),
    }
}

fn texts<T: ArrowPrimitiveType<Native: ryu::Float>>(floats: &ArrayRef, wide: fn(T::Native) -> f64) -> StringViewArray {
    let floats = floats.as_primitive::<T>();
    let mut texts = StringViewBuilder::with_capacity(floats.len());
    let (mut digits, mut text) = (ryu::Buffer::new(), String::new());
    for value in floats {
        let Some(value) = value else {
            texts.append_null();
            continue;
        };
        text.clear();
        let size = wide(value);
        match size.is_finite() {
            true => write_finite(digits.format_finite(value), size, &mut text),
            false if size.is_nan() => text.push_str("nan"),
            false => text.push_str(if size > 0.0 { "inf" } else { "-inf" }),
        }
        texts.append_value(&text);
    }
    texts.finish()
}

/// Writes `value`, which has `shown` as its shortest digits, with an exponent or without.
fn write_finite(shown: &str, value: f64, text: &mut String) {
    // What the library writes without one is below 1e16.
    if (value == 0.0 || value.abs() >= 1e-4) && !shown.as_bytes().contains(&b'e') {
        text.push_str(shown);
        return;
    }
    let (sign, shown) = shown.strip_prefix('-').map_or(("", shown), |shown| ("-", shown));
    let (shown, exponent) = shown.split_once('e').unwrap_or((shown, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = shown.split_once('.').unwrap_or((shown, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    // Those before the point of the number as it is written without an exponent.
    let before = exponent + count(whole.len()) - count(all.len() - digits.len());
    let digits = digits.trim_end_matches('0');
    text.push_str(sign);
    if !(-4..16).contains(&(before - 1)) {
        let (first, rest) = digits.split_at(digits.len().min(1));
        let point = if rest.is_empty() { "" } else { "." };
        let of_exponent = if before < 1 { '-' } else { '+' };
        // A text takes what is written.
        let _ = write!(text, "{first}{point}{rest}e{of_exponent}{:02}", (before - 1).abs());
        return;
    }
    match usize::try_from(before) {
        Ok(before) if before >= digits.len() => {
            let _ = write!(text, "{digits:0<before$}.0");
        }
        Ok(before) if before > 0 => {
            let (whole, fraction) = digits.split_at(before);
            let _ = write!(text, "{whole}.{fraction}");
        }
        _ => {
            let zeros = usize::try_from(-before).unwrap_or(0);
            let _ = write!(text, "0.{:0<zeros$}{digits}", "");
        }
    }
}

fn count(digits: usize) -> i32 {
    i32::try_from(digits).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Float32Array, Float64Array};

    use super::*;

    fn shown(value: f64) -> String {
        float_texts(&(Arc::new(Float64Array::from(vec![value])) as _))
            .map(|texts| texts.value(0).to_owned())
            .unwrap_or_default()
    }

    #[test]
    fn floats_are_written_as_in_duckdb() {
        let cases = [
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-1.5e20, "-1.5e+20"),
            (0.0001, "0.0001"),
            (0.000012345, "1.2345e-05"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (100.0, "100.0"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(shown(value), expected);
        }
    }

    /// What Rust's own shortest digits give.
    fn expected(value: f64, plain: String, scientific: &str) -> String {
        let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if !value.is_finite() {
            return if value.is_nan() { "nan" } else { ["-inf", "inf"][usize::from(value > 0.0)] }.to_owned();
        }
        if !(-4..16).contains(&exponent) {
            let sign = if exponent < 0 { '-' } else { '+' };
            return format!("{digits}e{sign}{:02}", exponent.abs());
        }
        if plain.contains('.') { plain } else { format!("{plain}.0") }
    }

    #[test]
    fn digits_are_the_shortest_for_all_sizes() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let powers = (-330..310).map(|power: i32| format!("1e{power}").parse::<f64>().unwrap_or(0.0));
        let doubles: Vec<f64> = (0..20_000)
            .map(|_| f64::from_bits(random()))
            .chain(powers)
            .chain((0..20_000).map(|at| f64::from(at) / 1000.0 - 3.0))
            .collect();
        let singles: Vec<f32> = (0..20_000_u32)
            .map(|at| f32::from_bits(at * 214_748))
            .chain(doubles.iter().map(|value| value.to_string().parse().unwrap_or(0.0)))
            .collect();
        // Of two texts as long and as near, Rust takes the one away from zero, DuckDB the even one.
        let agrees = |text: Option<&str>, expected: &str, is_same: bool| {
            text.is_some_and(|text| text == expected || text.len() == expected.len() && is_same)
        };
        let texts =
            float_texts(&(Arc::new(Float64Array::from(doubles.clone())) as _)).unwrap_or_else(|_| unreachable!());
        for (value, text) in doubles.into_iter().zip(&texts) {
            let is_same = text.and_then(|text| text.parse().ok()) == Some(value);
            let expected = expected(value, value.to_string(), &format!("{value:e}"));
            assert!(agrees(text, &expected, is_same), "{text:?} where {expected} was expected");
        }
        let texts =
            float_texts(&(Arc::new(Float32Array::from(singles.clone())) as _)).unwrap_or_else(|_| unreachable!());
        for (value, text) in singles.into_iter().zip(&texts) {
            let is_same = text.and_then(|text| text.parse().ok()) == Some(value);
            let expected = expected(value.into(), value.to_string(), &format!("{value:e}"));
            assert!(agrees(text, &expected, is_same), "{text:?} where {expected} was expected");
        }
    }
}
