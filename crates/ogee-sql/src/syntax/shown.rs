//! `SHOW`, `PRAGMA` and `CALL` where they stand for a query, which is written in their place: `SHOW TABLES`, `PRAGMA table_info(t)`, `CALL pragma_version()`, `FROM (SHOW TABLES)`.
//!
//! Not here: what the functions give (`crate::system`), `DESCRIBE` of a query and of a table, `PRAGMA` of settings (`upkeep`).

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parts::{Parts, call_of, space};

/// Pragmas that are functions of the catalog.
const PRAGMAS: [&str; 7] = [
    "database_list",
    "database_size",
    "show_databases",
    "show_tables",
    "show_tables_expanded",
    "table_info",
    "version",
];

/// `tokens` with such statements in other words.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_one = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => {
            ["SHOW", "DESCRIBE", "DESC", "PRAGMA", "CALL"].iter().any(|name| word.value.eq_ignore_ascii_case(name))
        }
        _ => false,
    };
    if !tokens.iter().any(is_one) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let replaced: Vec<_> = (0..parts.len()).filter_map(|nth| written(&parts, nth)).collect();
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}

/// What to write in the place of what begins at `nth`, if it is such a statement.
fn written(parts: &Parts<'_>, nth: usize) -> Option<(Range<usize>, Vec<Token>)> {
    let before = |back: usize| nth.checked_sub(back).and_then(|nth| parts.token(nth));
    let begins = matches!(before(1), None | Some(Token::SemiColon));
    let is_word = |back: usize, words: &[&str]| nth.checked_sub(back).is_some_and(|nth| parts.is_word(nth, words));
    let is_table = matches!(before(1), Some(Token::LParen))
        && (is_word(2, &["FROM", "JOIN", "AS"]) || matches!(before(2), Some(Token::Comma)));
    let ends = |nth: usize| match parts.token(nth) {
        None | Some(Token::SemiColon | Token::EOF) => begins,
        Some(Token::RParen) => is_table,
        _ => false,
    };
    if !begins && !is_table {
        return None;
    }
    let all = |function: &str, argument: Option<String>| {
        let argument = argument.map(|argument| vec![Token::SingleQuotedString(argument)]);
        let select =
            [Token::make_keyword("SELECT"), space(), Token::Mul, space(), Token::make_keyword("FROM"), space()];
        select.into_iter().chain(call_of(function, argument)).collect::<Vec<_>>()
    };
    // A query of this name may be what is described.
    let may_be_query = (0..parts.len()).any(|nth| parts.is_word(nth, &["WITH"]));
    if is_table
        && !may_be_query
        && parts.is_word(nth, &["SHOW", "DESCRIBE", "DESC"])
        && !parts.is_word(nth + 1, &["TABLES", "ALL", "DATABASES", "SCHEMAS", "VARIABLES"])
        && matches!(parts.token(nth + 1), Some(Token::Word(_)))
        && let Some((name, end)) = name_at(parts, nth + 1)
        && ends(end)
    {
        return Some((nth..end, all("pragma_show", Some(name))));
    }
    if parts.is_word(nth, &["SHOW"]) {
        let shown = |words: &[&str]| words.iter().enumerate().all(|(at, word)| parts.is_word(nth + 1 + at, &[word]));
        for (words, function) in [
            (&["TABLES"][..], "pragma_show_tables"),
            (&["ALL", "TABLES"], "pragma_show_tables_expanded"),
            (&["DATABASES"], "pragma_show_databases"),
            (&["SCHEMAS"], "pragma_show_schemas"),
            (&["VARIABLES"], "duckdb_variables"),
            (&[], "pragma_show_tables_expanded"),
        ] {
            let end = nth + 1 + words.len();
            if shown(words) && ends(end) {
                return Some((nth..end, all(function, None)));
            }
        }
        if shown(&["TABLES"]) && parts.is_word(nth + 2, &["FROM", "IN"]) {
            let (place, end) = name_at(parts, nth + 3)?;
            return ends(end).then(|| (nth..end, all("pragma_show_tables", Some(place))));
        }
        let is_query =
            parts.is_word(nth + 1, &["SELECT", "FROM", "VALUES", "WITH"]) || parts.is(nth + 1, &Token::LParen);
        if begins && is_query {
            return Some((nth..nth + 1, vec![Token::make_keyword("DESCRIBE")]));
        }
        if begins && shown(&["COLUMNS"]) && parts.is_word(nth + 2, &["FROM", "IN"]) {
            return Some((nth..nth + 3, vec![Token::make_keyword("DESCRIBE")]));
        }
        return None;
    }
    let describes = parts.is_word(nth, &["DESCRIBE", "DESC"]);
    if describes && begins && ends(nth + 1) {
        return Some((nth..nth + 1, all("pragma_show_tables_expanded", None)));
    }
    if describes && begins && parts.is_word(nth + 1, &["TABLE"]) && !ends(nth + 2) {
        return Some((nth..nth + 2, vec![Token::make_keyword("DESCRIBE")]));
    }
    if !begins {
        return None;
    }
    if parts.is_word(nth, &["PRAGMA"]) {
        let function = PRAGMAS.iter().find(|name| parts.is_word(nth + 1, &[&name.to_ascii_uppercase()]))?;
        let function = format!("pragma_{function}");
        if ends(nth + 2) {
            return Some((nth..nth + 2, all(&function, None)));
        }
        let close = parts.is(nth + 2, &Token::LParen).then(|| parts.closing(nth + 2)).flatten()?;
        let (name, end) = name_at(parts, nth + 3)?;
        return (end == close && ends(close + 1)).then(|| (nth..close + 1, all(&function, Some(name))));
    }
    let calls = parts.is_word(nth, &["CALL"])
        && matches!(parts.token(nth + 1), Some(Token::Word(_)))
        && parts.is(nth + 2, &Token::LParen);
    calls.then(|| {
        let select = [Token::make_keyword("SELECT"), space(), Token::Mul, space(), Token::make_keyword("FROM")];
        (nth..nth + 1, select.to_vec())
    })
}

/// The name at `nth`, as it is written, and where it ends: `s.t`, `'t'`.
fn name_at(parts: &Parts<'_>, nth: usize) -> Option<(String, usize)> {
    let (mut name, mut end) = (String::new(), nth);
    loop {
        match parts.token(end)? {
            Token::Word(word) => name.push_str(&word.to_string()),
            Token::SingleQuotedString(text) if name.is_empty() => return Some((text.clone(), end + 1)),
            _ => return None,
        }
        end += 1;
        if !parts.is(end, &Token::Period) {
            return Some((name, end));
        }
        name.push('.');
        end += 1;
    }
}
