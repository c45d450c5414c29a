//! `COPY t TO 'file' (FORMAT parquet, COMPRESSION zstd)` and `COPY t FROM 'file' (HEADER)`, as DuckDB and PostgreSQL write them.
//!
//! The parser knows `STORED AS`, `PARTITIONED BY` and `OPTIONS`, which take the place of the options in brackets. A `COPY .. FROM` inserts what a table function reads.
//! An option that is not known, or not supported, is refused by its name.
//!
//! Not here: what is written and read (`ogee_files`).

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};
use ogee_functions::{Error, Result};

use super::parts::space;

/// An option: its name, in lower case, and what stands behind it.
struct Given {
    name: String,
    values: Vec<String>,
}

/// `tokens` with copies in words that the parser knows.
///
/// # Errors
/// [`Error::Unsupported`] or [`Error::Plan`] for options that are not taken.
pub(crate) fn in_usual_words(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if !tokens.iter().any(|token| super::keyword(&token.token) == Keyword::COPY) {
        return Ok(tokens);
    }
    let mut all = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|token| token.token == Token::SemiColon) {
        match copy(statement)? {
            Some(copy) => all.extend(copy),
            None => all.extend_from_slice(statement),
        }
    }
    Ok(all)
}

/// `statement` in other words, if it is such a copy.
fn copy(statement: &[TokenWithSpan]) -> Result<Option<Vec<TokenWithSpan>>> {
    let significant = super::significant(statement);
    let token = |nth: usize| significant.get(nth).map(|&at| &statement[at].token);
    if token(0).map(super::keyword) != Some(Keyword::COPY) {
        return Ok(None);
    }
    // What is copied may be a query in brackets.
    let mut open = 0_usize;
    let direction = (1..significant.len()).find(|&nth| {
        match token(nth) {
            Some(Token::LParen) => open += 1,
            Some(Token::RParen) => open = open.saturating_sub(1),
            _ => {}
        }
        open == 0 && token(nth).is_some_and(|token| matches!(super::keyword(token), Keyword::TO | Keyword::FROM))
    });
    let Some(direction) = direction else { return Ok(None) };
    let Some(Token::SingleQuotedString(path)) = token(direction + 1) else { return Ok(None) };
    let reads = token(direction).map(super::keyword) == Some(Keyword::FROM);
    let mut at = direction + 2;
    let is_with = |at: usize| token(at).map(super::keyword) == Some(Keyword::WITH);
    if is_with(at) && token(at + 1) == Some(&Token::LParen) {
        at += 1;
    }
    let given = match token(at) {
        Some(Token::LParen) => options(statement, &significant[at + 1..])?,
        None | Some(Token::SemiColon | Token::EOF) => Vec::new(),
        _ => return Ok(None),
    };
    let span = statement[significant[0]].span;
    let said = |tokens: Vec<Token>| tokens.into_iter().map(move |token| TokenWithSpan::new(token, span));
    let end = statement.last().filter(|token| token.token == Token::SemiColon).cloned();
    let copied = &statement[significant[1]..significant[direction]];
    let made: Vec<TokenWithSpan> = if reads {
        let begin = said(vec![Token::make_keyword("INSERT"), Token::make_keyword("INTO")]);
        begin.chain(copied.iter().cloned()).chain(said(reading(path, &given)?)).chain(end).collect()
    } else {
        let to = &statement[significant[direction]..=significant[direction + 1]];
        let head = statement[..significant[1]].iter().cloned().chain(with_columns(copied)).chain(to.iter().cloned());
        head.chain(said(writing(path, &given)?)).chain(end).collect()
    };
    Ok(Some(made))
}

/// `t (a, b)`, of a table, as a query of these columns.
fn with_columns(copied: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let open = copied.iter().position(|token| token.token == Token::LParen).filter(|&open| open > 0);
    let Some(open) = open else { return copied.to_vec() };
    let close = copied.iter().rposition(|token| token.token == Token::RParen).unwrap_or(copied.len());
    let span = copied[0].span;
    let said = |words: &[&str]| -> Vec<TokenWithSpan> {
        let tokens = words.iter().flat_map(|word| [space(), Token::make_keyword(word), space()]);
        tokens.map(|token| TokenWithSpan { token, span }).collect()
    };
    let bracket = |token: Token| TokenWithSpan { token, span };
    let columns = copied.get(open + 1..close).unwrap_or_default();
    let parts = [
        vec![bracket(Token::LParen)],
        said(&["SELECT"]),
        columns.to_vec(),
        said(&["FROM"]),
        copied[..open].to_vec(),
        vec![bracket(Token::RParen), bracket(space())],
    ];
    parts.concat()
}

/// The options in brackets, of which `significant` are the places behind the first bracket.
fn options(statement: &[TokenWithSpan], significant: &[usize]) -> Result<Vec<Given>> {
    let wrong =
        |token: &Token| Error::Parse(format!("not understood as SQL: Expected: an option of COPY, found: {token}"));
    let (mut given, mut option): (Vec<Given>, Option<Given>) = (Vec::new(), None);
    let mut within = false;
    for &at in significant {
        match (&statement[at].token, &mut option) {
            (Token::LParen, Some(_)) if !within => within = true,
            (Token::RParen, _) if within => within = false,
            (Token::Comma, _) if within => {}
            (Token::Comma, _) => given.extend(option.take()),
            (Token::RParen, _) => {
                given.extend(option.take());
                return Ok(given);
            }
            (Token::Word(Word { value, .. }), none @ None) => {
                *none = Some(Given { name: value.to_ascii_lowercase(), values: Vec::new() });
            }
            (
                Token::Word(Word { value, .. })
                | Token::SingleQuotedString(value)
                | Token::EscapedStringLiteral(value)
                | Token::Number(value, _),
                Some(option),
            ) => {
                option.values.push(value.clone());
            }
            (Token::Mul, Some(option)) => option.values.push("*".to_owned()),
            (Token::Eq, Some(_)) => {}
            (token, _) => return Err(wrong(token)),
        }
    }
    Err(Error::Parse("not understood as SQL: Expected: ) behind the options of COPY".to_owned()))
}

impl Given {
    /// The one value; `true` where the name is all.
    fn value(&self) -> Result<&str> {
        match self.values.as_slice() {
            [] => Ok("true"),
            [value] => Ok(value),
            _ => Err(Error::Plan(format!("the option {} of COPY takes one value", self.name))),
        }
    }

    fn is_false(&self) -> bool {
        self.values.first().is_some_and(|value| value.eq_ignore_ascii_case("false") || value == "0")
    }

    fn refuse<T>(&self) -> Result<T> {
        Err(Error::Unsupported(format!("the option {} of COPY is not supported; leave it out", self.name)))
    }
}

/// The format of a copy: the one that is given, or that the name of the file tells; CSV otherwise.
fn format(path: &str, given: &[Given]) -> Result<String> {
    if let Some(format) = given.iter().find(|option| matches!(option.name.as_str(), "format" | "file_format")) {
        return match format.value()?.to_ascii_lowercase().as_str() {
            known @ ("parquet" | "csv" | "json" | "arrow") => Ok(known.to_owned()),
            "ndjson" => Ok("json".to_owned()),
            other => Err(Error::Plan(format!("COPY knows no format '{other}'; it knows parquet, csv, json and arrow"))),
        };
    }
    let name = path.to_ascii_lowercase();
    let name = [".gz", ".zst", ".bz2", ".xz"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    Ok(match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "parquet" | "pq" | "parq" => "parquet",
        "json" | "ndjson" | "jsonl" => "json",
        "arrow" | "ipc" | "feather" => "arrow",
        _ => "csv",
    }
    .to_owned())
}

/// What stands between names of columns in an option.
const BETWEEN_NAMES: char = '\u{1d}';

/// How the name of a file of text says that it is compressed.
fn compression_of(path: &str) -> Option<&'static str> {
    let name = path.to_ascii_lowercase();
    [(".gz", "gzip"), (".zst", "zstd")].into_iter().find_map(|(ending, codec)| name.ends_with(ending).then_some(codec))
}

/// What follows the path of a copy to a file.
fn writing(path: &str, given: &[Given]) -> Result<Vec<Token>> {
    let format = format(path, given)?;
    let (mut options, mut columns): (Vec<(&str, String)>, Vec<&str>) = (Vec::new(), Vec::new());
    if matches!(format.as_str(), "csv" | "json")
        && !given.iter().any(|option| option.name == "compression")
        && let Some(codec) = compression_of(path)
    {
        options.push(("compression", codec.to_owned()));
    }
    let level = given.iter().find(|option| option.name == "compression_level").map(Given::value).transpose()?;
    for option in given {
        match (format.as_str(), option.name.as_str()) {
            (_, "format" | "file_format" | "compression_level") => {}
            (_, "partition_by") => columns.extend(option.values.iter().map(String::as_str)),
            ("csv", "header") => {
                let value = option.value()?.to_ascii_lowercase();
                let value = match value.as_str() {
                    "1" | "on" | "yes" => "true".to_owned(),
                    "0" | "off" | "no" => "false".to_owned(),
                    _ => value,
                };
                options.push(("has_header", value));
            }
            ("csv", "force_quote") if !option.is_false() => {
                options.push(("ogee_force_quote", option.values.join(&BETWEEN_NAMES.to_string())));
            }
            ("csv", "delimiter" | "delim" | "sep") => options.push(("delimiter", option.value()?.replace("\\t", "\t"))),
            ("csv", "quote") => options.push(("quote", option.value()?.to_owned())),
            ("csv", "escape") => options.push(("escape", option.value()?.to_owned())),
            ("csv", "null" | "nullstr") => options.push(("null_value", option.value()?.to_owned())),
            ("csv", "dateformat" | "date_format") => options.push(("date_format", option.value()?.to_owned())),
            ("csv", "timestampformat" | "timestamp_format") => {
                options.push(("timestamp_format", option.value()?.to_owned()));
            }
            ("parquet", "compression" | "codec") => {
                let codec = option.value()?.to_ascii_lowercase();
                options.push((
                    "compression",
                    match (codec.as_str(), level) {
                        ("zstd", level) => format!("zstd({})", level.unwrap_or("3")),
                        ("gzip", level) => format!("gzip({})", level.unwrap_or("6")),
                        ("lz4", _) => "lz4_raw".to_owned(),
                        ("none", _) => "uncompressed".to_owned(),
                        (other, _) => other.to_owned(),
                    },
                ));
            }
            ("csv" | "json", "compression") => {
                let codec = option.value()?.to_ascii_lowercase();
                if !matches!(codec.as_str(), "none" | "uncompressed" | "auto") {
                    options.push(("compression", codec));
                }
            }
            ("parquet", "row_group_size") => options.push(("max_row_group_size", option.value()?.to_owned())),
            // Files beside others of a directory keep those.
            (_, "overwrite_or_ignore" | "append") if option.is_false() => {}
            (_, "overwrite_or_ignore" | "append") => options.push(("ogee_beside", "true".to_owned())),
            (_, "overwrite" | "per_thread_output" | "array" | "force_quote" | "use_tmp_file") if option.is_false() => {}
            (_, "use_tmp_file") => {}
            _ => return option.refuse(),
        }
    }
    let mut tokens = vec![Token::make_keyword("STORED"), Token::make_keyword("AS"), Token::make_keyword(&format)];
    if !columns.is_empty() {
        tokens.extend([Token::make_keyword("PARTITIONED"), Token::make_keyword("BY"), Token::LParen]);
        for (nth, column) in columns.iter().enumerate() {
            tokens.extend((nth > 0).then_some(Token::Comma));
            // With quotes they would be part of the name.
            tokens.push(Token::make_word(column, None));
        }
        tokens.push(Token::RParen);
    }
    if !options.is_empty() {
        tokens.extend([Token::make_keyword("OPTIONS"), Token::LParen]);
        for (nth, (name, value)) in options.into_iter().enumerate() {
            tokens.extend((nth > 0).then_some(Token::Comma));
            tokens.push(Token::SingleQuotedString(format!("format.{name}")));
            tokens.push(Token::SingleQuotedString(value));
        }
        tokens.push(Token::RParen);
    }
    // The words of the parser stand apart.
    Ok(tokens.into_iter().flat_map(|token| [space(), token]).collect())
}

/// The query of a copy from a file, whose values the table's columns take as they can.
fn reading(path: &str, given: &[Given]) -> Result<Vec<Token>> {
    let format = format(path, given)?;
    let mut options: Vec<(String, String)> = Vec::new();
    for option in given {
        match (format.as_str(), option.name.as_str()) {
            (_, "format" | "file_format") => {}
            ("csv", "null") => options.push(("nullstr".to_owned(), option.value()?.to_owned())),
            ("csv" | "json", name) => options.push((name.to_owned(), option.value()?.to_owned())),
            _ => return option.refuse(),
        }
    }
    // Texts become what the columns are, and not what they look like.
    if format == "csv" {
        options.push(("all_varchar".to_owned(), "true".to_owned()));
    }
    let word = |name: &str| Token::make_word(name, None);
    let mut tokens = ["SELECT"].map(Token::make_keyword).to_vec();
    tokens.extend([Token::Mul, Token::make_keyword("FROM"), word(&format!("read_{format}")), Token::LParen]);
    tokens.push(Token::SingleQuotedString(path.to_owned()));
    for (name, value) in options {
        tokens.extend([Token::Comma, word(&name), Token::Eq, Token::SingleQuotedString(value)]);
    }
    tokens.push(Token::RParen);
    Ok(tokens.into_iter().flat_map(|token| [space(), token]).collect())
}
