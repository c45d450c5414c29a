//! Casts to lists that Arrow does otherwise than SQL wants.
//!
//! Arrow makes a list of one element of anything that is none, of text too: `'[a, b]'` would be a list of that text. Text is taken apart instead, as DuckDB does: elements
//! between commas, in quotes where they have commas or brackets, `NULL` without quotes for NULL, lists in lists. Other values are no lists. Elements with a
//! fraction are rounded where they become whole numbers, and doubles that are too large to become floats are an error.
//!
//! Not here: casts of what is no list (`numbers`, `letters`), and of lists to text (`nested_text`).

use std::{iter::Peekable, str::Chars, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, ListArray, StringArray, new_null_array},
        buffer::{NullBuffer, OffsetBuffer},
        compute::{CastOptions, cast_with_options},
        datatypes::{DataType, FieldRef},
    },
    common::{Result, ScalarValue, exec_datafusion_err, plan_err},
    logical_expr::{
        ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction,
    },
};

use crate::numbers::{fitting, rounded};

/// `expr` of type `from` as a list of type `to`, if Arrow would make another one of it. `tries`: what is no such list becomes NULL.
///
/// # Errors
/// Where values of type `from` are no lists.
pub fn to_list(expr: &Expr, from: &DataType, to: &DataType, tries: bool) -> Result<Option<Expr>> {
    if !differs(from, to)? {
        return Ok(None);
    }
    let cast = ToList { to: to.clone(), tries, signature: Signature::any(1, Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(cast));
    Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr.clone()]))))
}

fn element(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => Some(field),
        _ => None,
    }
}

fn has_fraction(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, 1..))
}

/// Whether doubles become floats, which not all fit.
fn narrows(from: &DataType, to: &DataType) -> bool {
    (from, to) == (&DataType::Float64, &DataType::Float32)
}

/// Whether the cast is one that is done here.
fn differs(from: &DataType, to: &DataType) -> Result<bool> {
    let Some(of) = element(to) else { return Ok(to.is_integer() && has_fraction(from) || narrows(from, to)) };
    match element(from) {
        Some(inner) => differs(inner.data_type(), of.data_type()),
        None if from.is_string() => match to {
            DataType::List(_) => takes_text(of.data_type()).map(|()| true),
            _ => Ok(false),
        },
        None if from.is_null() => Ok(false),
        None => match from {
            DataType::Dictionary(..) | DataType::RunEndEncoded(..) => Ok(false),
            _ => plan_err!("values of type {from} cannot be cast to lists; write [value] for a list of one"),
        },
    }
}

fn takes_text(of: &DataType) -> Result<()> {
    match of {
        DataType::List(field) => takes_text(field.data_type()),
        of if of.is_nested() => plan_err!("text cannot be cast to lists of {of}"),
        _ => Ok(()),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToList {
    to: DataType,
    tries: bool,
    signature: Signature,
}

impl ScalarUDFImpl for ToList {
    fn name(&self) -> &str {
        "ogee_to_list"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    /// A cast does not show in names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(self.cast(array, &self.to)?),
            ColumnarValue::Scalar(scalar) => {
                let array = self.cast(&scalar.to_array_of_size(1)?, &self.to)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }
}

impl ToList {
    fn cast(&self, array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
        let options = CastOptions { safe: self.tries, ..CastOptions::default() };
        let from = array.data_type();
        match (to, from) {
            (DataType::List(field), from) if from.is_string() => self.taken_apart(array, field),
            (DataType::List(field), from) if element(from).is_some() && differs(from, to)? => {
                let lists = cast_with_options(array, &as_list(from), &options)?;
                let lists = lists.as_list::<i32>();
                let values = self.cast(lists.values(), field.data_type())?;
                let offsets = lists.offsets().clone();
                Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, lists.nulls().cloned())?))
            }
            (to, from) if to.is_integer() && has_fraction(from) => {
                Ok(cast_with_options(&rounded(array)?, to, &options)?)
            }
            (to, from) if narrows(from, to) => Ok(cast_with_options(&fitting(array, self.tries)?, to, &options)?),
            _ => Ok(cast_with_options(array, to, &options)?),
        }
    }

    /// The lists that the texts are.
    fn taken_apart(&self, texts: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let texts = cast_with_options(texts, &DataType::Utf8, &options)?;
        let (mut elements, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for text in texts.as_string::<i32>() {
            let list = match text.map(|text| (text, apart(text))) {
                Some((_, Some(list))) => Some(list),
                Some((text, None)) if !self.tries => {
                    return Err(exec_datafusion_err!("'{text}' is no list, as [1, 2] is"));
                }
                _ => None,
            };
            valid.push(list.is_some());
            let list = list.unwrap_or_default();
            lengths.push(list.len());
            elements.extend(list);
        }
        let values: ArrayRef = match elements.is_empty() {
            true => new_null_array(field.data_type(), 0),
            false => self.cast(&(Arc::new(StringArray::from(elements)) as ArrayRef), field.data_type())?,
        };
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, Some(NullBuffer::from(valid)))?))
    }
}

/// A list of the elements of `list`, of whichever kind it is.
fn as_list(list: &DataType) -> DataType {
    match element(list) {
        Some(field) => DataType::List(Arc::clone(field)),
        None => list.clone(),
    }
}

/// The elements of the list that `text` is, as text.
fn apart(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut elements = Vec::new();
    let mut chars = inner.chars().peekable();
    if inner.trim().is_empty() {
        return Some(elements);
    }
    loop {
        elements.push(next(&mut chars)?);
        match chars.next() {
            Some(',') => {}
            Some(_) => return None,
            None => return Some(elements),
        }
    }
}

/// The next element, up to a comma or the end.
fn next(chars: &mut Peekable<Chars<'_>>) -> Option<Option<String>> {
    while chars.next_if(|char| char.is_whitespace()).is_some() {}
    if let Some(quote) = chars.next_if(|char| matches!(char, '"' | '\'')) {
        let mut element = String::new();
        loop {
            match chars.next()? {
                '\\' => element.push(chars.next()?),
                char if char == quote => break,
                char => element.push(char),
            }
        }
        while chars.next_if(|char| char.is_whitespace()).is_some() {}
        return Some(Some(element));
    }
    // Brackets and quotes within are those of lists in the list, which are taken apart later.
    let mut element = String::new();
    let mut open = Vec::new();
    while let Some(&char) = chars.peek() {
        match char {
            ',' if open.is_empty() => break,
            '[' => open.push(']'),
            '{' => open.push('}'),
            '(' => open.push(')'),
            ']' | '}' | ')' if open.pop() != Some(char) => return None,
            '"' | '\'' if !open.is_empty() => {
                element.push(char);
                chars.next();
                loop {
                    let inner = chars.next()?;
                    element.push(inner);
                    match inner {
                        '\\' => element.push(chars.next()?),
                        inner if inner == char => break,
                        _ => {}
                    }
                }
                continue;
            }
            '\\' => {
                chars.next();
                if !open.is_empty() {
                    element.push('\\');
                }
                element.push(chars.next()?);
                continue;
            }
            _ => {}
        }
        element.push(char);
        chars.next();
    }
    if !open.is_empty() {
        return None;
    }
    let element = element.trim();
    Some((!element.eq_ignore_ascii_case("null")).then(|| element.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::apart;

    fn shown(text: &str) -> String {
        match apart(text) {
            None => "none".to_owned(),
            Some(list) => list.iter().map(|element| element.as_deref().unwrap_or("~")).collect::<Vec<_>>().join("|"),
        }
    }

    #[test]
    fn texts_are_taken_apart() {
        assert_eq!(shown("[a, b ,NULL]"), "a|b|~");
        assert_eq!(shown(r#" ["c, d", 'e"f', "g\"h", "NULL"] "#), "c, d|e\"f|g\"h|NULL");
        assert_eq!(shown("[[1, 2], [3], []]"), "[1, 2]|[3]|[]");
        assert_eq!(shown("[['a]', \"b\\\"]\"], x]"), "['a]', \"b\\\"]\"]|x");
        assert_eq!((shown("[]"), shown("[ ]")), (String::new(), String::new()));
        assert_eq!(["a", "[a", "a]", "[[a]", "[a]]", "['a' b]", "['a]"].map(shown), ["none"; 7]);
    }
}
