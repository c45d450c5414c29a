//! What the word at the cursor may become: keywords, tables, columns, functions, commands and their arguments, names of files.

use std::path::Path;

use rustyline::completion::Pair;

use super::keywords;
use super::names::Names;
use super::tokens::{Kind, Token, is_command, tokens};
use crate::dot::COMMANDS;
use crate::output::{Mode, identifier};

/// Table functions that have no row in the catalog.
const READERS: [&str; 7] =
    ["read_csv", "read_json", "read_parquet", "read_text", "read_blob", "parquet_schema", "parquet_metadata"];

/// Behind these words stands a table.
const BEFORE_TABLES: [&str; 8] = ["from", "join", "into", "update", "table", "describe", "summarize", "view"];

/// Where what is completed starts, and what it may become.
pub fn complete(text: &str, cursor: usize, names: &mut Names) -> (usize, Vec<Pair>) {
    let typed = &text[..cursor];
    if is_command(typed) {
        return command(typed, names);
    }
    let tokens = tokens(typed);
    match tokens.last() {
        Some(Token { kind: Kind::Text { closed: false }, place }) => {
            // The start of a quoted text: the name of a file.
            let start = place.start + 1;
            (start, files(&typed[start..]))
        }
        Some(Token { kind: Kind::Comment, .. }) => (cursor, Vec::new()),
        _ => word(typed, &tokens, names),
    }
}

fn pair(name: impl Into<String>) -> Pair {
    let name = name.into();
    Pair { display: name.clone(), replacement: name }
}

/// Whether `name` begins with what was typed, in any case.
fn begins(name: &str, typed: &str) -> bool {
    name.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed))
}

fn word(typed: &str, tokens: &[Token], names: &mut Names) -> (usize, Vec<Pair>) {
    let (before, start) = match tokens.split_last() {
        Some((last, before)) if matches!(last.kind, Kind::Word | Kind::Keyword) => (before, last.place.start),
        // What is typed in quotes is completed in quotes.
        Some((last, before)) if last.kind == Kind::Quoted && !typed[1 + last.place.start..].contains('"') => {
            (before, last.place.start)
        }
        _ => (tokens, typed.len()),
    };
    let prefix = typed[start..].trim_start_matches('"');
    let text = |token: &Token| &typed[token.place.clone()];
    let named = |name: &str| {
        let written = identifier(name);
        if typed[start..].starts_with('"') && !written.starts_with('"') { format!("\"{written}\"") } else { written }
    };
    if let [.., table, point] = before
        && text(point) == "."
    {
        let table = text(table).trim_matches('"').to_owned();
        let tables = names.tables();
        let of_table: Vec<_> = tables.iter().filter(|(name, _)| name.eq_ignore_ascii_case(&table)).collect();
        // What is no table is another name of one.
        let of_table = if of_table.is_empty() { tables.iter().collect() } else { of_table };
        let columns = of_table.iter().flat_map(|(_, columns)| columns);
        return (start, sorted(columns.filter(|name| begins(name, prefix)).map(|name| pair(named(name))).collect()));
    }
    let last = before.iter().rev().find(|token| !matches!(token.kind, Kind::Blank | Kind::Comment));
    let wants_table = last.is_some_and(|token| BEFORE_TABLES.iter().any(|word| text(token).eq_ignore_ascii_case(word)));
    let mut found: Vec<Pair> = Vec::new();
    found.extend(names.tables().iter().filter(|(name, _)| begins(name, prefix)).map(|(name, _)| pair(named(name))));
    if wants_table {
        found.extend(READERS.iter().filter(|name| begins(name, prefix)).map(|name| pair(format!("{name}("))));
        return (start, sorted(found));
    }
    for (_, columns) in names.tables() {
        found.extend(columns.iter().filter(|name| begins(name, prefix)).map(|name| pair(named(name))));
    }
    if prefix.is_empty() || typed[start..].starts_with('"') {
        return (start, sorted(found));
    }
    found.extend(names.functions().iter().filter(|name| begins(name, prefix)).map(|name| pair(format!("{name}("))));
    let is_capital = prefix.starts_with(|first: char| first.is_ascii_uppercase());
    let keyword = |word: &str| if is_capital { word.to_ascii_uppercase() } else { word.to_owned() };
    found.extend(keywords::all().filter(|word| begins(word, prefix)).map(|word| pair(keyword(word))));
    (start, sorted(found))
}

fn sorted(mut found: Vec<Pair>) -> Vec<Pair> {
    found.sort_by(|a, b| a.replacement.cmp(&b.replacement));
    found.dedup_by(|a, b| a.replacement == b.replacement);
    found
}

fn command(typed: &str, names: &mut Names) -> (usize, Vec<Pair>) {
    let start = typed.len() - typed.trim_start().len();
    let Some(end) = typed[start..].find(char::is_whitespace) else {
        let found = COMMANDS.iter().filter(|command| begins(command.name, &typed[start..]));
        return (start, found.map(|command| pair(command.name)).collect());
    };
    let name = &typed[start..start + end];
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else { return (typed.len(), Vec::new()) };
    let start = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let argument = &typed[start..];
    let of = |words: Vec<String>| {
        let begun = words.into_iter().filter(|word| begins(word, argument)).map(pair);
        (start, begun.collect())
    };
    match command.arguments {
        "on|off" | "?on|off|COMMAND?" => of(vec!["on".to_owned(), "off".to_owned()]),
        "?MODE? ?TABLE?" => of(Mode::names()),
        "?COMMAND?" => of(COMMANDS.iter().map(|command| command.name.to_owned()).collect()),
        "?PATTERN?" => of(names.tables().iter().map(|(name, _)| name.clone()).collect()),
        "FILE" | "?FILE?" | "DIRECTORY" | "?--csv? ?--skip N? FILE TABLE" => {
            let argument = argument.trim_start_matches(['\'', '"']);
            (typed.len() - argument.len(), files(argument))
        }
        _ => (typed.len(), Vec::new()),
    }
}

/// Files whose path begins with `typed`; directories end with a slash.
fn files(typed: &str) -> Vec<Pair> {
    let (directory, prefix) = typed.rfind('/').map_or(("", typed), |at| typed.split_at(at + 1));
    let place = match directory.strip_prefix("~/").zip(std::env::var("HOME").ok()) {
        Some((rest, home)) => format!("{home}/{rest}"),
        None => directory.to_owned(),
    };
    let Ok(entries) = std::fs::read_dir(if place.is_empty() { Path::new(".") } else { Path::new(&place) }) else {
        return Vec::new();
    };
    let pair = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let is_shown = name.starts_with(prefix) && (!name.starts_with('.') || prefix.starts_with('.'));
        let slash = if entry.path().is_dir() { "/" } else { "" };
        is_shown.then(|| Pair { display: format!("{name}{slash}"), replacement: format!("{directory}{name}{slash}") })
    };
    sorted(entries.filter_map(Result::ok).filter_map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut names = Names::default();
        complete(text, text.len(), &mut names).1.into_iter().map(|pair| pair.replacement).collect()
    }

    #[test]
    fn keywords_follow_the_case_that_was_typed() {
        assert_eq!(found("SELE"), ["SELECT"]);
        assert_eq!(found("select * fro"), ["from"]);
        assert!(found("SELECT 'SELE").is_empty() && found("-- SELE").is_empty());
    }

    #[test]
    fn commands_and_their_arguments() {
        assert_eq!(found(".hea"), [".headers"]);
        assert_eq!(found(".mode duc"), ["duckbox"]);
        assert_eq!(found(".timer o"), ["on", "off"]);
        assert!(found(".nothing x").is_empty());
    }

    #[test]
    fn behind_from_stands_a_table() {
        assert_eq!(found("FROM read_c"), ["read_csv("]);
    }
}
