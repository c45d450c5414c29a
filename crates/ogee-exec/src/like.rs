//! `LIKE` with constant patterns of `%` and literal text.
//!
//! Such a pattern is a prefix, pieces that follow each other anywhere, and a suffix. The first place of each piece is as good as any other, so
//! one search for each, one behind the other, decides. Patterns with `_` are left to the front end.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray, cast::AsArray};
use arrow_buffer::BooleanBuffer;
use memchr::memmem::Finder;
use ogee_vector::{Chunk, Column};

use crate::{ExecError, Expr};

/// `value LIKE pattern`, or `NOT LIKE`.
#[derive(Clone, Debug)]
pub struct Like {
    pub(crate) value: Expr,
    pattern: Pattern,
    negated: bool,
}

/// What a text must be like.
#[derive(Clone, Debug)]
enum Pattern {
    Exactly(Box<[u8]>),
    Pieces { prefix: Box<[u8]>, inner: Box<[Finder<'static>]>, suffix: Box<[u8]> },
}

impl Pattern {
    /// `None` where the pattern has `_`, or a backslash that escapes nothing.
    fn new(pattern: &str) -> Option<Self> {
        let mut pieces = vec![String::new()];
        let mut chars = pattern.chars();
        while let Some(char) = chars.next() {
            let literal = match char {
                '%' => {
                    pieces.push(String::new());
                    continue;
                }
                '_' => return None,
                '\\' => chars.next().filter(|next| matches!(next, '%' | '_' | '\\'))?,
                other => other,
            };
            pieces.last_mut().expect("begins with one").push(literal);
        }
        let bytes = |piece: String| piece.into_bytes().into_boxed_slice();
        let last = pieces.pop().map(bytes)?;
        let mut pieces = pieces.into_iter();
        Some(match pieces.next() {
            None => Self::Exactly(last),
            Some(prefix) => Self::Pieces {
                prefix: bytes(prefix),
                inner: pieces.filter(|piece| !piece.is_empty()).map(|piece| Finder::new(&piece).into_owned()).collect(),
                suffix: last,
            },
        })
    }

    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Exactly(literal) => *text == **literal,
            Self::Pieces { prefix, inner, suffix } => {
                // Not to compare nothing with nothing: that is a call, too, for each text.
                let rest = if prefix.is_empty() { Some(text) } else { text.strip_prefix(&**prefix) };
                let rest =
                    rest.and_then(|text| if suffix.is_empty() { Some(text) } else { text.strip_suffix(&**suffix) });
                let Some(rest) = rest else { return false };
                let behind = |rest: &'_ [u8], piece: &Finder<'_>| Some(piece.find(rest)? + piece.needle().len());
                inner.iter().try_fold(rest, |rest, piece| Some(&rest[behind(rest, piece)?..])).is_some()
            }
        }
    }
}

impl Like {
    /// `value LIKE pattern` for a value of strings (`Utf8View`); `None` for patterns that are more than literal text and `%`.
    pub fn new(value: Expr, pattern: &str, negated: bool) -> Option<Self> {
        Some(Self { value, pattern: Pattern::new(pattern)?, negated })
    }

    /// A boolean for each row of `chunk`.
    ///
    /// # Errors
    /// As the evaluation of the value fails.
    pub(crate) fn evaluate(&self, chunk: &Chunk) -> Result<Column, ExecError> {
        let value = self.value.evaluate(chunk)?;
        let strings = value.array.as_string_view();
        let is_like = |at: usize| self.pattern.matches(strings.value(at).as_bytes()) != self.negated;
        // Of few values, such as a dictionary's, each is looked at once.
        if let Some(selection) =
            value.selection.as_ref().filter(|selection| strings.len() > selection.positions().len())
        {
            let positions = selection.positions();
            let is_valid = |row: usize| strings.is_valid(positions[row] as usize);
            let nulls =
                (strings.null_count() > 0).then(|| BooleanBuffer::collect_bool(positions.len(), is_valid).into());
            let likes = BooleanBuffer::collect_bool(positions.len(), |row| is_like(positions[row] as usize));
            return Ok(Column::flat(Arc::new(BooleanArray::new(likes, nulls))));
        }
        let likes = BooleanBuffer::collect_bool(strings.len(), is_like);
        let array = Arc::new(BooleanArray::new(likes, strings.nulls().cloned()));
        Ok(Column { array, selection: value.selection })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{ArrayRef, StringViewArray};

    use super::*;

    #[test]
    fn pieces_follow_each_other() {
        for (pattern, likes, others) in [
            ("%a%b%", vec!["ab", "xaxbx", "aab"], vec!["ba", "a", ""]),
            ("a%", vec!["a", "ab"], vec!["ba", ""]),
            ("%a", vec!["a", "ba"], vec!["ab", ""]),
            ("ab%ba", vec!["abba", "abxba"], vec!["aba", "ab"]),
            ("%aa%aa%", vec!["aaaa", "aa-aa"], vec!["aaa"]),
            ("%", vec!["", "a"], vec![]),
            ("%%é%", vec!["é", "né"], vec!["e"]),
            ("", vec![""], vec!["a"]),
            (r"50\%%", vec!["50%", "50% off"], vec!["50", "500"]),
            (r"a\_b", vec!["a_b"], vec!["axb"]),
        ] {
            let pattern = Pattern::new(pattern).unwrap();
            assert!(likes.iter().all(|text| pattern.matches(text.as_bytes())), "{pattern:?}");
            assert!(!others.iter().any(|text| pattern.matches(text.as_bytes())), "{pattern:?}");
        }
        assert!(["a_b", r"a\b", r"a\"].iter().all(|pattern| Pattern::new(pattern).is_none()));
    }

    #[test]
    fn follows_selections() {
        let strings: ArrayRef = Arc::new(StringViewArray::from(vec![Some("xa"), None, Some("b"), Some("a")]));
        let chunk = Chunk::new(vec![strings], 4);
        let like = |negated| Expr::Like(Box::new(Like::new(Expr::Column(0), "%a%", negated).unwrap()));
        let values = |negated, chunk: &Chunk| {
            let array = like(negated).evaluate(chunk).unwrap().flatten().unwrap();
            array.as_boolean().iter().collect::<Vec<_>>()
        };
        assert_eq!(values(false, &chunk), [Some(true), None, Some(false), Some(true)]);
        assert_eq!(values(true, &chunk.select(&[3, 1])), [Some(false), None]);
        assert_eq!(
            values(false, &chunk.select(&[2, 3, 1, 3, 3])),
            [Some(false), Some(true), None, Some(true), Some(true)]
        );
    }
}
