//! `LIKE 'a$%' ESCAPE '$'`: a pattern whose signs are taken as they are behind some character, as one with backslashes, which is what the planner knows.
//!
//! Without `ESCAPE` nothing is taken so in DuckDB, and a backslash is a letter. What was written out says that a backslash escapes, so that it is not written out twice.
//!
//! In patterns that are computed backslashes are doubled when they are.
//!
//! Not here: patterns that are computed and have another character, for which the planner knows none.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};

use super::text;
use crate::names::call;

/// Writes the escapes of `expr` as backslashes, if it is a comparison with a pattern that has others.
pub(super) fn in_expr(expr: &mut Expr) {
    in_words(expr);
    let (Expr::Like { pattern, escape_char: escape, .. } | Expr::ILike { pattern, escape_char: escape, .. }) = expr
    else {
        return;
    };
    let character = match escape.as_ref().map(|escape| &escape.value) {
        None => None,
        Some(Value::SingleQuotedString(character)) => {
            let mut characters = character.chars();
            let (character, None) = (characters.next(), characters.next()) else { return };
            character
        }
        Some(_) => return,
    };
    let mut written = &mut **pattern;
    while let Expr::Nested(inner) = written {
        written = inner;
    }
    let is_computed = match &*written {
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        _ => true,
    };
    if is_computed && escape.is_none() {
        let computed = std::mem::replace(&mut **pattern, Expr::value(Value::Null));
        **pattern = call("replace", vec![computed, text("\\"), text("\\\\")]);
        *escape = Some(Value::SingleQuotedString("\\".to_owned()).into());
        return;
    }
    let Expr::Value(value) = written else { return };
    let Value::SingleQuotedString(text) = &mut value.value else { return };
    if escape.is_none() && !text.contains('\\') {
        return;
    }
    let Some(written) = with_backslashes(text, character) else { return };
    let escapes = written.contains('\\');
    *text = written;
    *escape = escapes.then(|| Value::SingleQuotedString("\\".to_owned()).into());
}

/// Whether `op` compares with a pattern.
pub(super) fn is_operator(op: &BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(op, Op::PGLikeMatch | Op::PGNotLikeMatch | Op::PGILikeMatch | Op::PGNotILikeMatch)
}

/// `s ~~ p` is `s LIKE p`.
fn in_words(expr: &mut Expr) {
    use BinaryOperator as Op;
    let Expr::BinaryOp { left, op, right } = expr else { return };
    if !is_operator(op) {
        return;
    }
    let null = || Box::new(Expr::value(Value::Null));
    let (value, pattern) = (std::mem::replace(left, null()), std::mem::replace(right, null()));
    let negated = matches!(op, Op::PGNotLikeMatch | Op::PGNotILikeMatch);
    *expr = match op {
        Op::PGLikeMatch | Op::PGNotLikeMatch => {
            Expr::Like { negated, any: false, expr: value, pattern, escape_char: None }
        }
        _ => Expr::ILike { negated, any: false, expr: value, pattern, escape_char: None },
    };
}

/// `None` if the character stands at the end, where it escapes nothing.
fn with_backslashes(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut written = String::with_capacity(pattern.len() + 4);
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        if Some(char) == escape {
            written.extend(['\\', chars.next()?]);
        } else {
            written.extend((char == '\\').then_some('\\'));
            written.push(char);
        }
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::with_backslashes;

    #[test]
    fn any_character_may_escape() {
        for (pattern, escape, written) in [
            ("a$%", Some('$'), Some(r"a\%")),
            ("$$_", Some('$'), Some(r"\$_")),
            (r"a\b", Some('$'), Some(r"a\\b")),
            (r"a\%\\", Some('\\'), Some(r"a\%\\")),
            (r"\%", None, Some(r"\\%")),
            ("a$", Some('$'), None),
        ] {
            assert_eq!(with_backslashes(pattern, escape).as_deref(), written, "{pattern}");
        }
    }
}
