//! Errors as users are told them: with the place in the statement that they are about, and names that are near to those that are not there.
//!
//! The parser says where it stopped. Of a name that nothing has, the place is found in the text: its first token of that name, where one of its kind may stand.
//!
//! Not here: what is wrong.

use datafusion::{
    common::utils::datafusion_strsim::levenshtein,
    sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer},
};

use crate::{dialect::OgeeDialect, secrets};

/// Characters of a line that are shown.
const SHOWN: usize = 100;

/// What a name that is not there was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Column,
    Table,
    Function,
}

/// The name that `message` says is not there.
fn missing(message: &str) -> Option<(Kind, &str)> {
    let quoted = |behind: &'static str, before: &'static str| {
        let rest = message.strip_prefix(behind)?;
        Some(&rest[..rest.find(before)?])
    };
    if let Some(name) = quoted("No field named ", ".\n").or_else(|| quoted("No field named ", ". ")) {
        return Some((Kind::Column, name));
    }
    if let Some(name) = message.strip_prefix("No field named ").and_then(|name| name.strip_suffix('.')) {
        return Some((Kind::Column, name));
    }
    quoted("table function '", "' not found")
        .or_else(|| quoted("Invalid function '", "'"))
        .map(|name| (Kind::Function, name))
        .or_else(|| quoted("table '", "' not found").map(|name| (Kind::Table, name)))
}

/// The name without quotes of the last part of `name`.
fn last_part(name: &str) -> String {
    let mut parts = vec![String::new()];
    let mut is_open = false;
    for character in name.chars() {
        match character {
            '"' => is_open = !is_open,
            '.' if !is_open => parts.push(String::new()),
            other => parts.last_mut().expect("there is one").push(other),
        }
    }
    parts.pop().unwrap_or_default()
}

/// The name of `names` that is nearest to `name`, if one is near.
pub fn near<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let lower = name.to_lowercase();
    let most = (lower.chars().count() / 3).max(1);
    let near = names.into_iter().map(|other| (levenshtein(&lower, &other.to_lowercase()), other));
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, name)| name)
}

/// `message` of an error of the statement `sql`, with its place; `tables` are the names of all.
pub fn told(message: &str, sql: &str, tables: impl FnOnce() -> Vec<String>) -> String {
    if secrets::are_in(sql) {
        // Neither the text, nor what the parser found in it, nor the statement in an error of the planner's.
        if message.contains("CREATE ") {
            return "a statement that makes a secret stands by itself".to_owned();
        }
        let said = by_parser(message).map_or(message, |(said, ..)| said);
        return said.split(", found: ").next().unwrap_or_default().to_owned();
    }
    if let Some((said, line, column)) = by_parser(message) {
        return with_place(said, sql, line, column);
    }
    if message.ends_with(", found: EOF") {
        let last = sql.trim_end().lines().last().unwrap_or_default();
        let lines = sql.trim_end().lines().count() as u64;
        let said = format!("{}, found: the end", message.trim_end_matches(", found: EOF"));
        return with_place(&said, sql, lines, last.chars().count() as u64 + 1);
    }
    let Some((kind, name)) = missing(message) else { return message.to_owned() };
    let name = last_part(name);
    let mut said = message.to_owned();
    if kind == Kind::Table {
        said = format!("table '{name}' not found");
        let tables = tables();
        if let Some(other) = near(&name, tables.iter().map(String::as_str)) {
            said.push_str(&format!("; did you mean '{other}'?"));
        } else if name.contains(['/', '.']) {
            said.push_str("; a file is named with its path in single quotes");
        }
    }
    match place(sql, kind, &name) {
        Some((line, column)) => with_place(&said, sql, line, column),
        None => said,
    }
}

/// What the parser says without the place, and the place.
fn by_parser(message: &str) -> Option<(&str, u64, u64)> {
    let at = message.rfind(" at Line: ")?;
    let place = &message[at + " at Line: ".len()..];
    let (line, column) = place.split_once(", Column: ")?;
    Some((&message[..at], line.parse().ok()?, column.parse().ok()?))
}

/// Where `name`, which was to be of `kind`, stands in `sql`: line and column, from 1 on.
fn place(sql: &str, kind: Kind, name: &str) -> Option<(u64, u64)> {
    let tokens = Tokenizer::new(&OgeeDialect, sql).tokenize_with_location().ok()?;
    let tokens: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF)).collect();
    let is_name = |token: &Token| match token {
        Token::Word(word) => word.value.to_lowercase() == name.to_lowercase(),
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => kind == Kind::Table && text == name,
        _ => false,
    };
    let fits = |at: usize| {
        let before = at.checked_sub(1).map(|before| &tokens[before].token);
        let is_word = |words: &[&str]| match before {
            Some(Token::Word(word)) => words.iter().any(|known| word.value.eq_ignore_ascii_case(known)),
            _ => false,
        };
        let calls = matches!(tokens.get(at + 1).map(|token| &token.token), Some(Token::LParen));
        let is_part = before == Some(&Token::Period);
        match kind {
            Kind::Function => calls,
            Kind::Table => {
                is_part
                    || before == Some(&Token::Comma)
                    || is_word(&[
                        "FROM",
                        "JOIN",
                        "INTO",
                        "UPDATE",
                        "TABLE",
                        "VIEW",
                        "DESCRIBE",
                        "SUMMARIZE",
                        "PIVOT",
                        "UNPIVOT",
                        "COPY",
                        "EXISTS",
                    ])
            }
            Kind::Column => !calls && !is_word(&["FROM", "JOIN", "AS"]),
        }
    };
    let at = (0..tokens.len()).find(|&at| is_name(&tokens[at].token) && fits(at))?;
    let start = tokens[at].span.start;
    Some((start.line, start.column))
}

/// `said` with the line of `sql` and a mark below the column. Of a long line there is what is around it.
fn with_place(said: &str, sql: &str, line: u64, column: u64) -> String {
    let Some(text) = usize::try_from(line).ok().and_then(|line| sql.lines().nth(line.checked_sub(1)?)) else {
        return said.to_owned();
    };
    let text: Vec<char> = text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    let column = usize::try_from(column).unwrap_or(usize::MAX).saturating_sub(1).min(text.len());
    let begin = if text.len() <= SHOWN { 0 } else { column.saturating_sub(SHOWN / 2) };
    let end = text.len().min(begin + SHOWN);
    let (before, behind) = (if begin > 0 { ".." } else { "" }, if end < text.len() { ".." } else { "" });
    let head = format!("LINE {line}: {before}");
    let shown: String = text[begin..end].iter().collect();
    let blanks = head.chars().count() + column - begin;
    format!("{said}\n\n{head}{shown}{behind}\n{}^", " ".repeat(blanks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_names() {
        let tables = || vec!["orders".to_owned(), "lineitem".to_owned()];
        for (message, sql, expected) in [
            (
                "not understood as SQL: Expected: end, found: x at Line: 2, Column: 3",
                "select 1\n  x y",
                "not understood as SQL: Expected: end, found: x\n\nLINE 2:   x y\n          ^",
            ),
            (
                "No field named b.\nValid fields are a.",
                "select b(1) from b where \"B\" > 1",
                "No field named b.\nValid fields are a.\n\nLINE 1: select b(1) from b where \"B\" > 1\n                                 ^",
            ),
            (
                "table 'ogee.public.order' not found",
                "select order from order",
                "table 'order' not found; did you mean 'orders'?\n\nLINE 1: select order from order\n                          ^",
            ),
            (
                "Invalid function 'f'.\nDid you mean 'g'?",
                "select f, f(1)",
                "Invalid function 'f'.\nDid you mean 'g'?\n\nLINE 1: select f, f(1)\n                  ^",
            ),
            (
                "not understood as SQL: Expected: ), found: EOF",
                "select (\n 1 \n",
                "not understood as SQL: Expected: ), found: the end\n\nLINE 2:  1 \n          ^",
            ),
            ("something else", "select 1", "something else"),
            ("table 'x' not found", "select 1", "table 'x' not found"),
        ] {
            assert_eq!(told(message, sql, tables), expected);
        }
        let long = format!("select {} nope from t", "x, ".repeat(100));
        let shown = told("No field named nope.", &long, tables);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[2].chars().count() < 120 && lines[2].starts_with("LINE 1: .."), "{shown}");
        assert_eq!(lines[2].find("nope"), lines[3].find('^'));
    }

    #[test]
    fn near_names_are_few_letters_away() {
        let names = ["memory_limit", "threads", "temp_directory"];
        assert_eq!(near("memorylimit", names), Some("memory_limit"));
        assert_eq!(near("THREAD", names), Some("threads"));
        assert_eq!(near("colour", names), None);
        assert_eq!(near("", []), None);
    }
}
