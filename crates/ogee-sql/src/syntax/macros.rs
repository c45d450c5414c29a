//! `CREATE MACRO f(a, b := 5) AS a + b, (a, b, c) AS ..` and `DROP MACRO f`, in words that the parser knows.
//!
//! The parser takes one body for a macro. So the bodies become the arguments of one call, each with its parameters: `CREATE MACRO f() AS ogee_macro(ogee_body(a + b, a,
//! ogee_default(b, 5)), ..)`. The rows of a table are written as `EXISTS (SELECT ..)`. `CREATE FUNCTION` is the same; a `DROP MACRO TABLE` is to the parser a `DROP PROCEDURE`.
//!
//! Not here: what macros do (`crate::macros`).

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parts::{Parts, call_of, space};

/// All bodies of a macro; of one that is made only if there is none.
pub(crate) const MACRO: &str = "ogee_macro";
pub(crate) const MACRO_UNLESS_THERE: &str = "ogee_macro_unless_there";
/// A body and its parameters.
pub(crate) const BODY: &str = "ogee_body";
/// A parameter and what it is where nothing is given for it.
pub(crate) const DEFAULT: &str = "ogee_default";

/// `tokens` with macros in words that the parser knows.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_named = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.value.eq_ignore_ascii_case("MACRO") || word.value.eq_ignore_ascii_case("FUNCTION"),
        _ => false,
    };
    if !tokens.iter().any(is_named) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced = Vec::new();
    let mut begin = 0;
    while begin < parts.len() {
        let end = parts.find(begin, |_| false);
        replaced.extend(creation(&parts, begin, end).or_else(|| removal(&parts, begin)));
        begin = end + 1;
    }
    parts.replaced(replaced)
}

/// What to write in the place of a part of the statement, if it makes a macro.
fn creation(parts: &Parts<'_>, begin: usize, end: usize) -> Option<(Range<usize>, Vec<Token>)> {
    let mut at = begin;
    let mut eat = |words: &[&str]| {
        let there = parts.is_word(at, words);
        at += usize::from(there);
        there
    };
    if !eat(&["CREATE"]) {
        return None;
    }
    let replaces = eat(&["OR"]) && eat(&["REPLACE"]);
    eat(&["TEMP", "TEMPORARY"]);
    if !eat(&["MACRO", "FUNCTION"]) {
        return None;
    }
    let unless_there = eat(&["IF"]) && eat(&["NOT"]) && eat(&["EXISTS"]);
    let name = at;
    let open = parts.find(name, |nth| parts.is(nth, &Token::LParen));
    let mut bodies = Vec::new();
    let mut next = open;
    while next < end {
        let (body, behind) = body(parts, next, end)?;
        bodies.push(body);
        next = behind + 1;
    }
    if bodies.is_empty() || open == name {
        return None;
    }
    let word = |word: &str| [Token::make_keyword(word), space()];
    let mut tokens: Vec<Token> = word("CREATE").to_vec();
    tokens.extend(if replaces { [word("OR"), word("REPLACE")].concat() } else { Vec::new() });
    tokens.extend(word("MACRO"));
    tokens.extend(parts.text(name..open));
    tokens.extend([Token::LParen, Token::RParen, space()]);
    tokens.extend(word("AS"));
    tokens.extend(call_of(if unless_there { MACRO_UNLESS_THERE } else { MACRO }, bodies));
    Some((begin..end, tokens))
}

/// Whether parameters stand at `open`, and the body that belongs to them behind: where that begins, and whether it is of a table.
fn parameters(parts: &Parts<'_>, open: usize) -> Option<(Range<usize>, usize, bool)> {
    if !parts.is(open, &Token::LParen) {
        return None;
    }
    let close = parts.closing(open)?;
    if !parts.is_word(close + 1, &["AS"]) {
        return None;
    }
    let is_table = parts.is_word(close + 2, &["TABLE"]);
    Some((open + 1..close, close + 2 + usize::from(is_table), is_table))
}

/// The body whose parameters begin at `open`, and where it ends.
fn body(parts: &Parts<'_>, open: usize, end: usize) -> Option<(Vec<Token>, usize)> {
    let (given, begin, is_table) = parameters(parts, open)?;
    let is_next = |nth: usize| {
        parts.is(nth, &Token::Comma)
            && parameters(parts, nth + 1).is_some_and(|(_, _, next_is_table)| next_is_table == is_table)
    };
    let behind = parts.find(begin, is_next).min(end);
    let mut body = parts.text(begin..behind);
    if body.is_empty() {
        return None;
    }
    if is_table {
        let bracketed = parts.is(begin, &Token::LParen) && parts.closing(begin) == Some(behind - 1);
        let (open, close) = if bracketed { (None, None) } else { (Some(Token::LParen), Some(Token::RParen)) };
        body = [Token::make_keyword("EXISTS"), space()].into_iter().chain(open).chain(body).chain(close).collect();
    }
    let parameters = parts.items(given).into_iter().map(|item| parameter(parts, item));
    let args: Option<Vec<Vec<Token>>> = std::iter::once(Some(body)).chain(parameters).collect();
    Some((call_of(BODY, args?), behind))
}

/// `a`, `a INTEGER`, `a := 5`: as `a`, `CAST(a AS INTEGER)`, `ogee_default(a, 5)`.
fn parameter(parts: &Parts<'_>, item: Range<usize>) -> Option<Vec<Token>> {
    let is_given = |nth: usize| parts.is(nth, &Token::Assignment) || parts.is(nth, &Token::RArrow);
    let end = parts.find(item.start, is_given).min(item.end);
    let Some(name @ Token::Word(_)) = parts.token(item.start) else { return None };
    let mut parameter = vec![name.clone()];
    if item.start + 1 < end {
        parameter =
            vec![Token::make_keyword("CAST"), Token::LParen, name.clone(), space(), Token::make_keyword("AS"), space()];
        parameter.extend(parts.text(item.start + 1..end));
        parameter.push(Token::RParen);
    }
    if end < item.end {
        parameter = call_of(DEFAULT, [parameter, parts.text(end + 1..item.end)]);
    }
    Some(parameter)
}

/// `DROP MACRO TABLE f` as `DROP PROCEDURE f`, and without `TABLE` as `DROP FUNCTION f`.
fn removal(parts: &Parts<'_>, begin: usize) -> Option<(Range<usize>, Vec<Token>)> {
    if !parts.is_word(begin, &["DROP"]) || !parts.is_word(begin + 1, &["MACRO", "FUNCTION"]) {
        return None;
    }
    let is_table = parts.is_word(begin + 2, &["TABLE"]);
    let kind = if is_table { "PROCEDURE" } else { "FUNCTION" };
    let words = vec![Token::make_keyword("DROP"), space(), Token::make_keyword(kind)];
    Some((begin..begin + 2 + usize::from(is_table), words))
}
