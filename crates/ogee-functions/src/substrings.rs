//! `substring` from a place that is counted from the end, that is before the text, or that only the rows tell: `substring(s, -3, 2)`.
//!
//! A negative place counts from behind the last letter, and a negative length goes back from the place. What lies before the text counts, and is nothing.
//!
//! Not here: constants that are places in the text, which are DataFusion's, and parts of the parts without a copy.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, StringViewArray},
        datatypes::DataType,
    },
    logical_expr::ScalarUDF,
};

use crate::{
    arguments::{Argument, taken, texts, wholes},
    function::{Function, Shown},
};

/// The function: of a text, a place and, perhaps, a length.
pub const SUBSTRING: &str = "ogee_substring";

/// See the module.
pub(crate) fn function() -> ScalarUDF {
    let takes = |given: &[DataType]| taken("substring", &[Argument::Text, Argument::Whole, Argument::Whole], 1, given);
    let function = Function::of(
        SUBSTRING,
        takes,
        |_| Ok(DataType::Utf8View),
        |args, _| {
            let (values, places) = (texts(&args[0])?, wholes(&args[1])?);
            let lengths = args.get(2).map(wholes).transpose()?;
            let part = |row: usize| {
                if values.is_null(row)
                    || places.is_null(row)
                    || lengths.as_ref().is_some_and(|lengths| lengths.is_null(row))
                {
                    return None;
                }
                let length = lengths.as_ref().map(|lengths| lengths.value(row));
                Some(substring(values.value(row), places.value(row), length))
            };
            Ok(Arc::new((0..values.len()).map(part).collect::<StringViewArray>()))
        },
    );
    function.shown(Shown::As("substring")).registered()
}

fn substring(text: &str, place: i64, length: Option<i64>) -> &str {
    let letters = text.chars().count() as i64;
    let start = match place {
        1.. => place - 1,
        0 => -1,
        _ => letters.saturating_add(place),
    };
    let (from, to) = match length {
        None => (start, letters),
        Some(length @ 0..) => (start, start.saturating_add(length)),
        Some(back) => (start.saturating_add(back), start),
    };
    let within = |place: i64| usize::try_from(place.clamp(0, letters)).unwrap_or(0);
    let (from, to) = (within(from), within(to));
    let at = |letter: usize| text.char_indices().nth(letter).map_or(text.len(), |(at, _)| at);
    if from < to { &text[at(from)..at(to)] } else { "" }
}

#[cfg(test)]
mod tests {
    use super::substring;

    #[test]
    fn places_are_counted_from_either_end() {
        for (text, place, length, part) in [
            ("abcdef", -3, Some(2), "de"),
            ("abc", -10, Some(9), "ab"),
            ("abc", 0, Some(2), "a"),
            ("abc", 0, None, "abc"),
            ("abcdef", -3, None, "def"),
            ("abcdef", 3, Some(-2), "ab"),
            ("abcdef", -2, Some(-2), "cd"),
            ("abcdef", 2, Some(0), ""),
            ("abcdef", 10, Some(2), ""),
            ("äöüß", -2, Some(1), "ü"),
            ("abcdef", -9, None, "abcdef"),
            ("abc", i64::MIN, Some(i64::MAX), "ab"),
            ("abc", 2, Some(i64::MAX), "bc"),
        ] {
            assert_eq!(substring(text, place, length), part, "{text} {place} {length:?}");
        }
    }
}
