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
    let words = ["STORED", "PARTITIONED", "OPTIONS"];
    if token(at).is_some_and(|token| words.iter().any(|word| is_word(token, word))) {
        return Ok(None);
    }
    if token(at).map(super::keyword) == Some(Keyword::WITH) {
        at += 1;
    }
    let given = match token(at) {
        Some(Token::LParen) => options(statement, &significant[at + 1..])?,
        None | Some(Token::SemiColon | Token::EOF) => Vec::new(),
        _ => older_options(statement, significant.get(at..).unwrap_or_default())?,
    };
    let span = statement[significant[0]].span;
    let said = |tokens: Vec<Token>| tokens.into_iter().map(move |token| TokenWithSpan::new(token, span));
    let end = statement.last().filter(|token| token.token == Token::SemiColon).cloned();
    let copied = &statement[significant[1]..significant[direction]];
    let made: Vec<TokenWithSpan> = if reads {
        let begin = said(vec![Token::make_keyword("INSERT"), Token::make_keyword("INTO")]);
        let into = into(copied);
        begin.chain(copied.iter().cloned()).chain(said(reading(path, &given, &into)?)).chain(end).collect()
    } else {
        let to = &statement[significant[direction]..=significant[direction + 1]];
        let head = statement[..significant[1]].iter().cloned().chain(with_columns(copied)).chain(to.iter().cloned());
        head.chain(said(writing(path, &given)?)).chain(end).collect()
    };
    Ok(Some(made))
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(Word { value, .. }) if value.eq_ignore_ascii_case(word))
}

/// The table that rows are copied into, by the parts of its name, and its columns, if they are listed.
struct Into {
    table: Vec<String>,
    columns: Vec<String>,
}

/// What `t (a, b)` names.
fn into(copied: &[TokenWithSpan]) -> Into {
    let words = |tokens: &[TokenWithSpan]| -> Vec<String> {
        let word = |token: &TokenWithSpan| match &token.token {
            Token::Word(Word { value, .. }) => Some(value.to_ascii_lowercase()),
            _ => None,
        };
        tokens.iter().filter_map(word).collect()
    };
    let open = copied.iter().position(|token| token.token == Token::LParen).unwrap_or(copied.len());
    Into { table: words(&copied[..open]), columns: words(&copied[open..]) }
}

/// The options of PostgreSQL before version 9, without brackets: `DELIMITER ',' NULL AS 'x' CSV HEADER FORCE NOT NULL a, b`.
fn older_options(statement: &[TokenWithSpan], significant: &[usize]) -> Result<Vec<Given>> {
    let mut given: Vec<Given> = Vec::new();
    let mut tokens = significant.iter().map(|&at| &statement[at].token).peekable();
    let wrong =
        |token: &Token| Error::Parse(format!("not understood as SQL: Expected: an option of COPY, found: {token}"));
    while let Some(token) = tokens.next() {
        let option = match token {
            Token::SemiColon | Token::EOF => break,
            Token::Word(Word { value, .. }) => value.to_ascii_lowercase(),
            other => return Err(wrong(other)),
        };
        let mut values = Vec::new();
        let name = match option.as_str() {
            "csv" => {
                values.push("csv".to_owned());
                "format".to_owned()
            }
            "header" => option,
            "delimiter" | "delimiters" | "null" | "quote" | "escape" | "encoding" => {
                tokens.next_if(|token| is_word(token, "AS"));
                match tokens.next() {
                    Some(Token::SingleQuotedString(value) | Token::EscapedStringLiteral(value)) => {
                        values.push(value.clone())
                    }
                    other => return Err(wrong(other.unwrap_or(&Token::EOF))),
                }
                if option == "delimiters" { "delimiter".to_owned() } else { option }
            }
            "force" => {
                let is_not = tokens.next_if(|token| is_word(token, "NOT")).is_some();
                let word = if is_not { "NULL" } else { "QUOTE" };
                if !tokens.next().is_some_and(|token| is_word(token, word)) {
                    return Err(wrong(token));
                }
                while let Some(Token::Word(Word { value, .. })) =
                    tokens.next_if(|token| matches!(token, Token::Word(_)))
                {
                    values.push(value.clone());
                    if tokens.next_if(|token| **token == Token::Comma).is_none() {
                        break;
                    }
                }
                if values.is_empty() && tokens.next_if(|token| **token == Token::Mul).is_some() {
                    values.push("*".to_owned());
                }
                if is_not { "force_not_null".to_owned() } else { "force_quote".to_owned() }
            }
            _ => return Err(wrong(token)),
        };
        given.push(Given { name, values });
    }
    Ok(given)
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
            (Token::LParen | Token::LBracket | Token::LBrace, Some(_)) if !within => within = true,
            (Token::RParen | Token::RBracket | Token::RBrace, _) if within => within = false,
            (Token::Comma | Token::Colon, _) if within => {}
            (Token::Comma, _) => given.extend(option.take()),
            (Token::RParen, _) => {
                given.extend(option.take());
                return Ok(given);
            }
            (Token::Word(Word { value, .. }), none @ None) => {
                *none = Some(Given { name: value.to_ascii_lowercase(), values: Vec::new() });
            }
            (Token::Number(digits, _), Some(Given { values, .. })) if values.last().is_some_and(|last| last == "-") => {
                values.pop();
                values.push(format!("-{digits}"));
            }
            (Token::Minus, Some(option)) => option.values.push("-".to_owned()),
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

    /// A whole number from one on.
    fn number(&self) -> Result<usize> {
        let value = self.value()?;
        let number = value.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| Error::Plan(format!("the option {} of COPY is a whole number, not '{value}'", self.name)))
    }

    /// A number of bytes: `1000`, `1kb`, `64MiB`.
    fn bytes(&self) -> Result<usize> {
        let value = self.value()?.trim().to_ascii_lowercase();
        let (digits, unit) = value.split_at(value.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(value.len()));
        let unit = match unit {
            "" | "b" | "byte" | "bytes" => Some(1.0),
            "k" | "kb" => Some(1e3),
            "m" | "mb" => Some(1e6),
            "g" | "gb" => Some(1e9),
            "kib" => Some(1024.0),
            "mib" => Some(1024.0 * 1024.0),
            "gib" => Some(1024.0 * 1024.0 * 1024.0),
            _ => None,
        };
        let bytes = digits.trim().parse::<f64>().ok().zip(unit).map(|(digits, unit)| digits * unit);
        let bytes = bytes.filter(|bytes| (1.0..1e18).contains(bytes)).map(|bytes| bytes as usize);
        bytes.ok_or_else(|| {
            Error::Plan(format!("the option {} of COPY is a size such as '64MB', not '{value}'", self.name))
        })
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

/// Rows of a row group where none are said.
const ROW_GROUP_ROWS: usize = 122_880;

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
    let (mut metadata, mut keeps): (Vec<(String, String)>, bool) = (Vec::new(), false);
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
            ("csv", "quote") if option.value()?.is_empty() => options.push(("ogee_no_quote", "true".to_owned())),
            ("csv", "quote") => options.push(("quote", option.value()?.to_owned())),
            ("csv", "escape") => options.push(("escape", option.value()?.to_owned())),
            ("csv", "null" | "nullstr") => options.push(("null_value", option.value()?.to_owned())),
            ("csv" | "json", "dateformat" | "date_format") => {
                options.push(("ogee_date_format", option.value()?.to_owned()));
            }
            ("csv" | "json", "timestampformat" | "timestamp_format") => {
                options.push(("ogee_timestamp_format", option.value()?.to_owned()));
            }
            ("csv", "prefix" | "suffix") => {
                if !(given.iter().any(|option| option.name == "prefix")
                    && given.iter().any(|option| option.name == "suffix"))
                {
                    return Err(Error::Plan("COPY takes both PREFIX and SUFFIX, or none of them".to_owned()));
                }
                let key = if option.name == "prefix" { "ogee_prefix" } else { "ogee_to_suffix" };
                options.push((key, option.value()?.to_owned()));
            }
            ("json", "array") if !option.is_false() => {
                options.push(("ogee_array", "true".to_owned()));
                options.push(("ogee_to_suffix", "\n]\n".to_owned()));
            }
            ("parquet", "compression" | "codec") => {
                let codec = option.value()?.to_ascii_lowercase();
                options.push((
                    "compression",
                    match (codec.as_str(), level) {
                        ("zstd", level) => format!("zstd({})", level.unwrap_or("3")),
                        ("gzip", level) => format!("gzip({})", level.unwrap_or("6")),
                        ("brotli", level) => format!("brotli({})", level.unwrap_or("5")),
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
            ("parquet", "row_group_size" | "chunk_size") => {
                options.push(("max_row_group_size", option.number()?.to_string()));
            }
            ("parquet", "row_group_size_bytes") => options.push(("ogee_to_group_bytes", option.bytes()?.to_string())),
            ("parquet", "row_groups_per_file") => {
                let size = given.iter().find(|option| matches!(option.name.as_str(), "row_group_size" | "chunk_size"));
                let rows = size.map_or(Ok(ROW_GROUP_ROWS), Given::number)?;
                options.push(("ogee_to_file_rows", rows.saturating_mul(option.number()?).to_string()));
            }
            ("parquet", "parquet_version") => match option.value()?.to_ascii_lowercase().as_str() {
                "v1" => options.push(("writer_version", "1.0".to_owned())),
                "v2" => options.push(("writer_version", "2.0".to_owned())),
                other => {
                    return Err(Error::Plan(format!("the option parquet_version of COPY is V1 or V2, not '{other}'")));
                }
            },
            ("parquet", "string_dictionary_page_size_limit") => {
                options.push(("dictionary_page_size_limit", option.bytes()?.to_string()));
            }
            ("parquet", "dictionary_size_limit") if option.is_false() => {
                options.push(("dictionary_enabled", "false".to_owned()));
            }
            ("parquet", "write_bloom_filter") => {
                options.push(("bloom_filter_on_write", (!option.is_false()).to_string()));
            }
            ("parquet", "bloom_filter_false_positive_ratio") => {
                options.push(("bloom_filter_on_write", "true".to_owned()));
                options.push(("bloom_filter_fpp", option.value()?.to_owned()));
            }
            ("parquet", "kv_metadata") => {
                for pair in option.values.chunks(2) {
                    let [key, value] = pair else { return option.refuse() };
                    metadata.push((format!("metadata::{key}"), value.clone()));
                }
            }
            (_, "overwrite" | "overwrite_or_ignore" | "append") if option.is_false() => {}
            (_, "overwrite" | "overwrite_or_ignore" | "append") => {
                if options.iter().any(|(name, _)| *name == "ogee_to_existing") {
                    return Err(Error::Plan("COPY takes one of OVERWRITE, OVERWRITE_OR_IGNORE and APPEND".to_owned()));
                }
                options.push(("ogee_to_existing", option.name.clone()));
            }
            (
                _,
                "per_thread_output"
                | "return_files"
                | "write_partition_columns"
                | "array"
                | "force_quote"
                | "return_stats",
            ) if option.is_false() => {}
            (_, "per_thread_output") => options.push(("ogee_to_per_thread", "true".to_owned())),
            (_, "return_files") => options.push(("ogee_to_list", "true".to_owned())),
            (_, "write_partition_columns") => keeps = true,
            (_, "filename_pattern") => options.push(("ogee_to_pattern", option.value()?.to_owned())),
            (_, "file_extension") => options.push(("ogee_to_extension", option.value()?.to_owned())),
            (_, "file_size_bytes") => options.push(("ogee_to_file_bytes", option.bytes()?.to_string())),
            // What is so anyway: files get their names when all is written, rows come in their order, and directories are called as Hive calls them.
            (_, "use_tmp_file" | "preserve_order") => {}
            (_, "hive_file_pattern") if !option.is_false() => {}
            ("csv" | "json", "encoding") if matches!(&*option.value()?.to_ascii_lowercase(), "utf-8" | "utf8") => {}
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
    let options = options.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(metadata);
    let options = options.map(|(name, value)| (format!("format.{name}"), value));
    let keeping = keeps.then(|| ("execution.keep_partition_by_columns".to_owned(), "true".to_owned()));
    let options: Vec<(String, String)> = options.chain(keeping).collect();
    if !options.is_empty() {
        tokens.extend([Token::make_keyword("OPTIONS"), Token::LParen]);
        for (nth, (name, value)) in options.into_iter().enumerate() {
            tokens.extend((nth > 0).then_some(Token::Comma));
            tokens.push(Token::SingleQuotedString(name));
            tokens.push(Token::SingleQuotedString(value));
        }
        tokens.push(Token::RParen);
    }
    // The words of the parser stand apart.
    Ok(tokens.into_iter().flat_map(|token| [space(), token]).collect())
}

/// The query of a copy from a file, whose values are read as the columns are that take them.
fn reading(path: &str, given: &[Given], into: &Into) -> Result<Vec<Token>> {
    let format = format(path, given)?;
    let mut options: Vec<(String, String)> = Vec::new();
    for option in given {
        let name = match option.name.as_str() {
            "format" | "file_format" => continue,
            "null" => "nullstr",
            "array" if format == "json" && !option.is_false() => {
                options.push(("format".to_owned(), "array".to_owned()));
                continue;
            }
            name => name,
        };
        match option.values.as_slice() {
            [] => options.push((name.to_owned(), "true".to_owned())),
            [value] => options.push((name.to_owned(), value.clone())),
            values => {
                options.extend(values.iter().enumerate().map(|(nth, value)| (format!("{name}.{nth}"), value.clone())));
            }
        }
    }
    if matches!(format.as_str(), "csv" | "json") {
        let parts = into.table.iter().enumerate().map(|(nth, part)| (format!("ogee_into.{nth}"), part.clone()));
        let columns = into.columns.iter().enumerate();
        let columns = columns.map(|(nth, column)| (format!("ogee_into_columns.{nth}"), column.clone()));
        options.extend(parts.chain(columns));
    }
    let word = |name: &str| Token::make_word(name, None);
    let mut tokens = ["SELECT"].map(Token::make_keyword).to_vec();
    tokens.extend([Token::Mul, Token::make_keyword("FROM"), word(&format!("read_{format}")), Token::LParen]);
    tokens.push(Token::SingleQuotedString(path.to_owned()));
    for (name, value) in options {
        let name = Token::make_word(&name, Some('"'));
        tokens.extend([Token::Comma, name, Token::Eq, Token::SingleQuotedString(value)]);
    }
    tokens.push(Token::RParen);
    Ok(tokens.into_iter().flat_map(|token| [space(), token]).collect())
}
