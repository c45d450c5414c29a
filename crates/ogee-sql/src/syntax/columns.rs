//! `COLUMNS(* EXCLUDE (a))`, `f(*COLUMNS('x'))` and `* LIKE 'x%'`, in words that the parser knows.
//!
//! A star with options becomes a query in brackets, `ogee_columns(EXISTS (SELECT * EXCLUDE (a)))`, one that is unpacked `ogee_unpack(COLUMNS('x'))`, and a condition on the names of columns a
//! lambda behind the star. `COLUMNS('x')`, of a list or of a lambda is a function to the parser.
//!
//! Not here: which columns they are (`crate::columns_of`).

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parts::{Parts, call_of, space};

pub(crate) const COLUMNS: &str = "ogee_columns";
pub(crate) const UNPACK: &str = "ogee_unpack";
/// What the name of a column is called in a condition on it.
pub(crate) const NAME: &str = "ogee_name";

/// `tokens` with stars within expressions in words that the parser knows.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // Both are written with a star, or with the word.
    let may_be_one = |token: &Token| match token {
        Token::Mul => true,
        Token::Word(word) => word.value.eq_ignore_ascii_case("columns"),
        _ => false,
    };
    if !tokens.iter().any(|token| may_be_one(&token.token)) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced: Vec<(Range<usize>, Vec<Token>)> = Vec::new();
    let mut end = 0;
    for nth in 0..parts.len() {
        if nth < end {
            continue;
        }
        let found = of_columns(&parts, nth).or_else(|| like(&parts, nth));
        if let Some((range, new)) = found {
            end = range.end;
            replaced.push((range, new));
        }
    }
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}

/// Where a star ends that begins at `nth`: `*`, or `t.*`.
fn star(parts: &Parts<'_>, nth: usize) -> Option<usize> {
    let mut at = nth;
    while matches!(parts.token(at), Some(Token::Word(_))) && parts.is(at + 1, &Token::Period) {
        at += 2;
    }
    parts.is(at, &Token::Mul).then_some(at + 1)
}

fn of_columns(parts: &Parts<'_>, nth: usize) -> Option<(Range<usize>, Vec<Token>)> {
    if parts.is_word(nth, &["UNPACK"]) && parts.is(nth + 1, &Token::LParen) && parts.is_word(nth + 2, &["COLUMNS"]) {
        let close = parts.closing(nth + 1)?;
        let (range, columns) = of_columns(parts, nth + 2).unwrap_or((nth + 2..close, parts.text(nth + 2..close)));
        return (range.end == close).then(|| (nth..close + 1, call_of(UNPACK, [columns])));
    }
    let is_unpacked = parts.is(nth, &Token::Mul);
    let name = nth + usize::from(is_unpacked);
    if !parts.is_word(name, &["COLUMNS"]) || !parts.is(name + 1, &Token::LParen) {
        return None;
    }
    let close = parts.closing(name + 1)?;
    let is_star = star(parts, name + 2).is_some();
    if !is_unpacked && matches!(parts.token(name + 2), Some(Token::Word(_))) && parts.is(name + 3, &Token::Arrow) {
        // `COLUMNS(c -> ..)`, which is JSON's operator elsewhere.
        let lambda = [Token::make_word("lambda", None), space()].into_iter().chain(parts.text(name + 2..name + 3));
        let lambda = lambda.chain([Token::Colon, space()]).chain(parts.text(name + 4..close)).collect();
        return Some((nth..close + 1, call_of("COLUMNS", [lambda])));
    }
    if !is_unpacked && !is_star {
        return None;
    }
    let before = nth.checked_sub(1).and_then(|before| parts.token(before));
    let is_argument = matches!(before, Some(Token::LParen | Token::Comma | Token::LBracket))
        || nth.checked_sub(1).is_some_and(|before| parts.is_word(before, &["SELECT"]));
    if is_unpacked && !is_argument {
        return None;
    }
    let columns =
        if is_star { call_of(COLUMNS, [exists(parts.text(name + 2..close))]) } else { parts.text(name..close + 1) };
    Some((nth..close + 1, if is_unpacked { call_of(UNPACK, [columns]) } else { columns }))
}

/// `EXISTS (SELECT star)`
fn exists(star: Vec<Token>) -> Vec<Token> {
    let mut tokens =
        vec![Token::make_keyword("EXISTS"), space(), Token::LParen, Token::make_keyword("SELECT"), space()];
    tokens.extend(star.into_iter().chain([Token::RParen]));
    tokens
}

/// `* EXCLUDE (a) NOT LIKE 'x%'` in a list of outputs.
fn like(parts: &Parts<'_>, nth: usize) -> Option<(Range<usize>, Vec<Token>)> {
    let begins = parts.is(nth.checked_sub(1)?, &Token::Comma) || parts.is_word(nth - 1, &["SELECT", "DISTINCT", "ALL"]);
    if !begins {
        return None;
    }
    let mut end = star(parts, nth)?;
    if parts.is_word(end, &["EXCLUDE"]) {
        end = match parts.is(end + 1, &Token::LParen) {
            true => parts.closing(end + 1)? + 1,
            false => end + 2,
        };
    }
    let mut at = end + usize::from(parts.is_word(end, &["NOT"]));
    let is_known = at == end && nth + 1 == end && parts.is_word(at, &["ILIKE"]);
    if !parts.is_word(at, &["LIKE", "ILIKE", "GLOB", "SIMILAR"]) || is_known {
        return None;
    }
    at += 1 + usize::from(parts.is_word(at, &["SIMILAR"]) && parts.is_word(at + 1, &["TO"]));
    if !matches!(parts.token(at), Some(Token::SingleQuotedString(_))) {
        return None;
    }
    let name = || Token::make_word(NAME, None);
    let mut lambda = vec![Token::make_word("lambda", None), space(), name(), Token::Colon, space()];
    let negates = parts.is_word(end, &["NOT"]);
    lambda.extend(if negates { vec![Token::make_keyword("NOT"), space(), Token::LParen] } else { Vec::new() });
    lambda.extend([name(), space()].into_iter().chain(parts.text(end + usize::from(negates)..at + 1)));
    lambda.extend(negates.then_some(Token::RParen));
    Some((nth..at + 1, call_of(COLUMNS, [exists(parts.text(nth..end)), lambda])))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn stars_within_expressions_are_calls() {
        for (sql, usual) in [
            (
                "SELECT COLUMNS(* EXCLUDE (a)), f(*COLUMNS('x')) FROM t",
                "SELECT ogee_columns(EXISTS (SELECT * EXCLUDE (a))), f(ogee_unpack(COLUMNS('x'))) FROM t",
            ),
            ("SELECT a * COLUMNS('x') FROM t", "SELECT a * COLUMNS('x') FROM t"),
            ("SELECT * ILIKE 'x' FROM t", "SELECT * ILIKE 'x' FROM t"),
        ] {
            assert_eq!(parse(sql).unwrap().pop().unwrap().to_string(), usual, "{sql}");
        }
    }
}
