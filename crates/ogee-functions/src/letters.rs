//! `upper` and `lower` letter by letter, as DuckDB writes them.
//!
//! DataFusion's functions may make several letters of one (`SS` of `ß`), which changes lengths and places. Texts of ASCII stay theirs. `nfc_normalize`
//! puts letters and their accents together.

use std::{borrow::Cow, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray},
        compute::cast,
        datatypes::{DataType, Field, FieldRef},
    },
    common::{Result, ScalarValue},
    functions::string,
    logical_expr::{
        ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        type_coercion::functions::fields_with_udf,
    },
};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use crate::{
    arguments::{self, Argument},
    function::Function,
    times::Zone,
};

/// The functions to register in a session.
pub fn functions() -> Vec<ScalarUDF> {
    let function = |inner, upper| {
        ScalarUDF::new_from_impl(Case { inner, upper, signature: Signature::user_defined(Volatility::Immutable) })
    };
    vec![
        function(string::upper(), true),
        function(string::lower(), false),
        nfc_normalize(),
        strip_accents(),
        unicode(),
        split_part(),
    ]
}

/// `nfc_normalize(s)`: a text with letters and their accents as one character each, where there is such (Unicode's form NFC).
fn nfc_normalize() -> ScalarUDF {
    fn body(args: &[ArrayRef], _zone: &Zone) -> Result<ArrayRef> {
        let texts = args[0].as_string_view();
        let texts = texts.iter().map(|text| match text {
            Some(text) if text.is_ascii() => Some(Cow::Borrowed(text)),
            text => text.map(|text| Cow::Owned(text.nfc().collect::<String>())),
        });
        Ok(Arc::new(texts.collect::<StringViewArray>()))
    }
    let taken = |given: &[DataType]| arguments::taken("nfc_normalize", &[Argument::Text], 0, given);
    Function::of("nfc_normalize", taken, |_| Ok(DataType::Utf8View), body).registered()
}

/// `split_part(s, between, n)`: the part of that number, from 1 on or back from the end at -1. There is none of number 0, and where nothing is between them letters are the parts.
fn split_part() -> ScalarUDF {
    fn part<'t>(text: &'t str, between: &str, nth: i64) -> &'t str {
        let count = usize::try_from(nth.unsigned_abs()).unwrap_or(usize::MAX);
        let Some(before) = count.checked_sub(1) else { return "" };
        let found = match (between.is_empty(), nth > 0) {
            (false, true) => text.split(between).nth(before),
            (false, false) => text.rsplit(between).nth(before),
            (true, is_forward) => {
                let letter = |(at, letter): (usize, char)| &text[at..at + letter.len_utf8()];
                let mut letters = text.char_indices();
                if is_forward { letters.nth(before) } else { letters.nth_back(before) }.map(letter)
            }
        };
        found.unwrap_or_default()
    }
    fn body(args: &[ArrayRef], _zone: &Zone) -> Result<ArrayRef> {
        let (texts, between, nth) = (args[0].as_string_view(), args[1].as_string_view(), arguments::wholes(&args[2])?);
        let parts = texts.iter().zip(between).zip(&nth).map(|((text, between), nth)| Some(part(text?, between?, nth?)));
        Ok(Arc::new(parts.collect::<StringViewArray>()))
    }
    const TAKES: [Argument; 3] = [Argument::Text, Argument::Text, Argument::Whole];
    let taken = |given: &[DataType]| arguments::taken("split_part", &TAKES, 0, given);
    Function::of("split_part", taken, |_| Ok(DataType::Utf8View), body).registered()
}

/// `text` without the marks on its letters.
pub fn without_accents(text: &str) -> String {
    text.nfd().filter(|letter| !is_combining_mark(*letter)).nfc().collect()
}

/// `strip_accents(s)`: a text without the marks on its letters.
fn strip_accents() -> ScalarUDF {
    fn body(args: &[ArrayRef], _zone: &Zone) -> Result<ArrayRef> {
        let texts = args[0].as_string_view();
        let texts = texts.iter().map(|text| match text {
            Some(text) if text.is_ascii() => Some(Cow::Borrowed(text)),
            text => text.map(|text| Cow::Owned(without_accents(text))),
        });
        Ok(Arc::new(texts.collect::<StringViewArray>()))
    }
    let taken = |given: &[DataType]| arguments::taken("strip_accents", &[Argument::Text], 0, given);
    Function::of("strip_accents", taken, |_| Ok(DataType::Utf8View), body).registered()
}

/// `unicode(s)`: the number of a text's first letter, -1 if it has none.
fn unicode() -> ScalarUDF {
    fn body(args: &[ArrayRef], _zone: &Zone) -> Result<ArrayRef> {
        let number =
            |text: &str| text.chars().next().map_or(-1, |letter| i32::try_from(u32::from(letter)).unwrap_or(-1));
        let numbers = args[0].as_string_view().iter().map(|text| text.map(number));
        Ok(Arc::new(numbers.collect::<Int32Array>()))
    }
    let taken = |given: &[DataType]| arguments::taken("unicode", &[Argument::Text], 0, given);
    Function::of("unicode", taken, |_| Ok(DataType::Int32), body).also(&["ord"]).registered()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Case {
    inner: Arc<ScalarUDF>,
    upper: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Case {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let fields: Vec<FieldRef> =
            arg_types.iter().map(|data_type| Arc::new(Field::new("", data_type.clone(), true))).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let texts = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let is_ascii = match texts.data_type() {
            DataType::Utf8 => texts.as_string::<i32>().is_ascii(),
            DataType::LargeUtf8 => texts.as_string::<i64>().is_ascii(),
            DataType::Utf8View => texts.as_string_view().is_ascii(),
            _ => true,
        };
        if is_ascii {
            return self.inner.invoke_with_args(args);
        }
        let views = cast(&texts, &DataType::Utf8View)?;
        let changed = |text: &str| -> String { text.chars().map(|letter| other_case(letter, self.upper)).collect() };
        let changed: StringViewArray = views.as_string_view().iter().map(|text| text.map(changed)).collect();
        let changed = cast(&changed, args.return_field.data_type())?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&changed, 0)?),
            false => ColumnarValue::Array(changed),
        })
    }
}

/// The one letter that `letter` is in upper, or in lower case; itself if there is none.
fn other_case(letter: char, upper: bool) -> char {
    let only = |all: &mut dyn ExactSizeIterator<Item = char>| if all.len() == 1 { all.next() } else { None };
    let other = match (letter, upper) {
        ('ß', true) => Some('ẞ'),
        ('İ', false) => Some('i'),
        (letter, true) => only(&mut letter.to_uppercase()),
        (letter, false) => only(&mut letter.to_lowercase()),
    };
    other.unwrap_or(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stay_single() {
        let upper: String = "äßﬁŉǆıſ".chars().map(|letter| other_case(letter, true)).collect();
        let lower: String = "İÀẞΣ".chars().map(|letter| other_case(letter, false)).collect();
        assert_eq!((upper.as_str(), lower.as_str()), ("ÄẞﬁŉǄIS", "iàßσ"));
    }
}
