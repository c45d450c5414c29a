//! `GLOB`: patterns as those of file names, byte by byte as in DuckDB.
//!
//! `*` is any number of bytes, `?` is one, `[a-z]` one of some and `[!a-z]` one of the others; a backslash has the next stand for itself.
//!
//! Not here: patterns of files to read.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, BooleanArray},
        datatypes::DataType,
    },
    common::Result,
    logical_expr::ScalarUDF,
};

use crate::{
    arguments::{Argument, taken, texts},
    function::{Function, Shown},
    times::Zone,
};

/// The function that the operator becomes.
pub const GLOB: &str = "ogee_glob";

/// The function that statements may use.
pub fn function() -> ScalarUDF {
    let takes = |given: &[DataType]| taken("GLOB", &[Argument::Text, Argument::Text], 0, given);
    let function = Function::of(GLOB, takes, |_| Ok(DataType::Boolean), matches);
    function.shown(Shown::Operator("GLOB")).registered()
}

fn matches(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (values, patterns) = (texts(&args[0])?, texts(&args[1])?);
    let each = values.iter().zip(&patterns);
    let matches = each.map(|(text, pattern)| Some(is_match(text?.as_bytes(), pattern?.as_bytes())));
    Ok(Arc::new(matches.collect::<BooleanArray>()))
}

/// Whether all of `text` is like `pattern`. Time: the product of their lengths, at most.
fn is_match(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Where the last `*` ends, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        if pattern.get(place) == Some(&b'*') {
            place += 1;
            star = Some((place, at));
        } else if let Some(length) = one(text[at], &pattern[place..]) {
            place += length;
            at += 1;
        } else if let Some((behind, taken)) = &mut star {
            *taken += 1;
            (place, at) = (*behind, *taken);
        } else {
            return false;
        }
    }
    pattern[place..].iter().all(|byte| *byte == b'*')
}

/// How long the part of a pattern is that `byte` is like, with which `pattern` begins.
fn one(byte: u8, pattern: &[u8]) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let (negated, rest) = match rest {
                [b'!', rest @ ..] => (true, rest),
                rest => (false, rest),
            };
            // A bracket that comes first is one of them.
            let end = 1 + rest.iter().skip(1).position(|byte| *byte == b']')?;
            let mut members = &rest[..end];
            let mut is_member = false;
            loop {
                members = match members {
                    [from, b'-', to, others @ ..] => {
                        is_member |= (from..=to).contains(&&byte);
                        others
                    }
                    [member, others @ ..] => {
                        is_member |= *member == byte;
                        others
                    }
                    [] => break,
                };
            }
            (is_member != negated).then_some(pattern.len() - rest.len() + end + 1)
        }
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_file_names() {
        for (text, pattern, expected) in [
            ("abc", "a*", true),
            ("abc", "a?c", true),
            ("abc", "[a-b]bc", true),
            ("abc", "[!a]bc", false),
            ("a*c", r"a\*c", true),
            ("abc", r"a\*c", false),
            ("abc", "ab", false),
            ("a", "[", false),
            ("]", "[]]", true),
            ("a.c", "a.c", true),
            ("abc", "a.c", false),
            ("abcabcabd", "*abd", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaa", "*a*a*a*a*a*a*b", false),
            ("", "*", true),
            ("", "", true),
            ("a", "", false),
        ] {
            assert_eq!(is_match(text.as_bytes(), pattern.as_bytes()), expected, "{text} {pattern}");
        }
    }
}
