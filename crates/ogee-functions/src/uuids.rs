//! UUIDs that have the moment of their making in them, and what UUIDs say of themselves.
//!
//! Not here: random ones, which DataFusion has (`uuid`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, PrimitiveArray, StringArray, UInt32Array},
        datatypes::{DataType, TimestampMicrosecondType},
    },
    common::{Result, exec_datafusion_err, exec_err},
    functions::string::uuid,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

use crate::{
    arguments::{Argument, taken, texts},
    function::Function,
    times::instants::{instant, instants},
};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    let version = Function::of(
        "uuid_extract_version",
        |given| taken("uuid_extract_version", &[Argument::Text], 0, given),
        |_| Ok(DataType::UInt32),
        |args, _| {
            let texts = texts(&args[0])?;
            let versions = texts.iter().map(|text| text.map(|text| Ok(version(parsed(text)?))).transpose());
            Ok(Arc::new(versions.collect::<Result<UInt32Array>>()?))
        },
    );
    let moment = Function::of(
        "uuid_extract_timestamp",
        |given| taken("uuid_extract_timestamp", &[Argument::Text], 0, given),
        |_| Ok(instant()),
        moments,
    );
    let signature = Signature::nullary(Volatility::Volatile);
    vec![ScalarUDF::new_from_impl(OfMoment { signature }), version.registered(), moment.registered()]
}

/// The number that `text` is, with or without hyphens.
fn parsed(text: &str) -> Result<u128> {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match u128::from_str_radix(&digits, 16) {
        Ok(number) if is_uuid => Ok(number),
        _ => exec_err!("Could not convert string '{text}' to UUID"),
    }
}

fn version(uuid: u128) -> u32 {
    (uuid >> 76 & 0xf) as u32
}

/// Of milliseconds since 1970, which are the first 48 bits.
fn moments(args: &[ArrayRef], _: &crate::times::Zone) -> Result<ArrayRef> {
    const VERSION: u32 = 7;
    let texts = texts(&args[0])?;
    let moment = |text: &str| {
        let uuid = parsed(text)?;
        match version(uuid) {
            VERSION => Ok((uuid >> 80) as i64 * 1000),
            other => exec_err!("Given UUID is with version {other}, not version 7."),
        }
    };
    let moments = texts.iter().map(|text| text.map(moment).transpose());
    Ok(instants(moments.collect::<Result<PrimitiveArray<TimestampMicrosecondType>>>()?))
}

/// `uuidv7()`: milliseconds since 1970, and random bits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfMoment {
    signature: Signature,
}

impl ScalarUDFImpl for OfMoment {
    fn name(&self) -> &str {
        "uuidv7"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    /// A random UUID with the moment and version put into it.
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_err(|_| exec_datafusion_err!("the clock is before 1970, for which uuidv7 has no number"))?;
        let millis = format!("{:012x}", now.as_millis());
        let random = texts(&uuid().invoke_with_args(args)?.into_array(rows)?)?;
        let made = random.iter().map(|random| {
            let random = random?;
            Some(format!("{}-{}-7{}", &millis[..8], &millis[8..12], &random[15..]))
        });
        Ok(ColumnarValue::Array(Arc::new(made.collect::<StringArray>())))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_uuid_is_32_digits() {
        assert_eq!(version(parsed("019482e4-1441-7aad-8127-eec99573b0a0").unwrap()), 7);
        for text in ["", "x", "019482e4", "+19482e414417aad8127eec99573b0a0", "é19482e414417aad8127eec99573b0a"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
