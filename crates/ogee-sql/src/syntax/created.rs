//! `CREATE SEQUENCE`, `CREATE TYPE`, `CREATE SECRET` and columns without a type (`b AS (a + 1)`) as DuckDB writes them, in the words of the parser.
//!
//! The parser takes the options of a sequence in one order. That a sequence takes the place of another is said by `TEMPORARY`, which has no other use.
//!
//! A column without a type has one of a name that nobody gives to a type.
//!
//! Not here: what they are (`ogee-datafusion`).

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Whitespace},
};
use ogee_functions::{Error, Result};

use super::parts::{Parts, space};

/// The options of a sequence, in the order in which the parser takes them.
const OPTIONS: &[&str] = &["INCREMENT", "MINVALUE", "MAXVALUE", "START", "CACHE", "CYCLE"];

/// The type of columns that have none.
pub(crate) const UNTYPED: &str = "ogee_untyped";

/// What a statement begins with that makes a type or a secret: DataFusion's parser has its own for what begins with `CREATE`.
pub(crate) const OWN_CREATE: &str = "ogee_create";

/// Whether a statement of these words makes a type or a secret.
fn is_own(word: &dyn Fn(usize) -> String) -> bool {
    let before = ["OR", "REPLACE", "TEMP", "TEMPORARY", "PERSISTENT"];
    let behind = (1..5).find(|&nth| !before.contains(&word(nth).as_str()));
    behind.is_some_and(|nth| matches!(word(nth).as_str(), "TYPE" | "SECRET"))
}

/// `tokens` with sequences in words that the parser knows.
///
/// # Errors
/// [`Error::Unsupported`] for `CREATE TEMPORARY SEQUENCE`.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if !tokens.iter().any(|token| super::keyword(&token.token) == Keyword::CREATE) {
        return Ok(tokens);
    }
    let tokens = without_compression(tokens)?;
    let mut all = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|token| token.token == Token::SemiColon) {
        match created(statement)? {
            Some(created) => all.extend(created),
            None => all.extend_from_slice(statement),
        }
    }
    Ok(all)
}

/// How DuckDB compresses columns.
const COMPRESSIONS: &[&str] = &[
    "alp",
    "alprd",
    "auto",
    "bitpacking",
    "chimp",
    "constant",
    "dict_fsst",
    "dictionary",
    "empty",
    "fsst",
    "patas",
    "pfor",
    "rle",
    "roaring",
    "uncompressed",
    "zstd",
];

/// `tokens` without `USING COMPRESSION rle` behind columns: how rows are kept is nobody's concern.
///
/// # Errors
/// There is no such compression.
fn without_compression(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let parts = Parts::new(&tokens);
    let mut replaced = Vec::new();
    for nth in 0..parts.len() {
        if !parts.is_word(nth, &["USING"]) || !parts.is_word(nth + 1, &["COMPRESSION"]) {
            continue;
        }
        let name = match parts.token(nth + 2) {
            Some(Token::Word(word)) => word.value.to_lowercase(),
            Some(Token::SingleQuotedString(text)) => text.to_lowercase(),
            _ => String::new(),
        };
        if !COMPRESSIONS.contains(&name.as_str()) {
            return Err(Error::Plan(format!("there is no compression '{name}'; leave USING COMPRESSION out")));
        }
        replaced.push((nth..nth + 3, vec![space()]));
    }
    Ok(if replaced.is_empty() { tokens } else { parts.replaced(replaced) })
}

/// `statement` in other words, if it is one of those.
fn created(statement: &[TokenWithSpan]) -> Result<Option<Vec<TokenWithSpan>>> {
    let significant = super::significant(statement);
    let word = |nth: usize| match significant.get(nth).map(|&at| &statement[at].token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    if word(0) != "CREATE" {
        return Ok(None);
    }
    let token = |nth: usize| statement[significant[nth]].clone();
    let said = |text: &str| TokenWithSpan::new(Token::make_keyword(text), statement[significant[0]].span);
    match (word(1).as_str(), word(2).as_str(), word(3).as_str()) {
        ("SEQUENCE", ..) => {
            let head = vec![said("CREATE"), said("SEQUENCE")];
            Ok(Some(head.into_iter().chain(in_order(2, significant.len(), &word, &token)).collect()))
        }
        ("OR", "REPLACE", "SEQUENCE") => {
            let head = vec![said("CREATE"), said("TEMPORARY"), said("SEQUENCE")];
            Ok(Some(head.into_iter().chain(in_order(4, significant.len(), &word, &token)).collect()))
        }
        ("TEMP" | "TEMPORARY", "SEQUENCE", _) => {
            Err(Error::Unsupported("CREATE TEMPORARY SEQUENCE is not supported; use CREATE SEQUENCE".to_owned()))
        }
        _ if is_own(&word) => {
            let mut all = statement.to_vec();
            all[significant[0]].token = Token::make_word(OWN_CREATE, None);
            Ok(Some(all))
        }
        _ if (1..6).any(|nth| word(nth) == "TABLE") => Ok(with_types(statement, &significant)),
        _ => Ok(None),
    }
}

/// `statement`, which makes a table, with types for columns that are computed and have none, and names in quotes for those that are keywords, if there are such.
fn with_types(statement: &[TokenWithSpan], significant: &[usize]) -> Option<Vec<TokenWithSpan>> {
    let token = |nth: usize| significant.get(nth).map(|&at| &statement[at].token);
    let keyword = |nth: usize| token(nth).map_or(Keyword::NoKeyword, super::keyword);
    let (mut untyped, mut named) = (Vec::new(), Vec::new());
    let mut depth = 0_usize;
    for nth in 0..significant.len() {
        match token(nth) {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth = depth.saturating_sub(1),
            // What is behind it is a query.
            Some(Token::Word(_)) if depth == 0 && keyword(nth) == Keyword::AS => break,
            _ => {}
        }
        let begins = depth == 1 && matches!(token(nth), Some(Token::LParen | Token::Comma));
        // The parser would take them for those of an index.
        if begins
            && matches!(keyword(nth + 1), Keyword::KEY | Keyword::INDEX | Keyword::FULLTEXT | Keyword::SPATIAL)
            && !matches!(token(nth + 2), Some(Token::LParen))
        {
            named.push(significant[nth + 1]);
        }
        let is_name = matches!(token(nth + 1), Some(Token::Word(_)));
        let is_computed = keyword(nth + 2) == Keyword::AS && token(nth + 3) == Some(&Token::LParen)
            || keyword(nth + 2) == Keyword::GENERATED;
        if begins && is_name && is_computed {
            untyped.push(significant[nth + 1]);
        }
    }
    if untyped.is_empty() && named.is_empty() {
        return None;
    }
    let mut all = statement.to_vec();
    for at in named {
        all[at].token = Token::make_word(&statement[at].token.to_string().to_lowercase(), Some('"'));
    }
    for at in untyped.into_iter().rev() {
        all.insert(at + 1, TokenWithSpan::new(Token::make_word(UNTYPED, None), statement[at].span));
        all.insert(at + 1, TokenWithSpan::new(Token::Whitespace(Whitespace::Space), statement[at].span));
    }
    Some(all)
}

/// The tokens from `first` on, in which the options of a sequence are in the order of the parser.
fn in_order(
    first: usize,
    end: usize,
    word: &dyn Fn(usize) -> String,
    token: &dyn Fn(usize) -> TokenWithSpan,
) -> Vec<TokenWithSpan> {
    // The name stands before them; a `NO` belongs to what is behind it.
    let rank = |nth: usize| {
        let named = if word(nth) == "NO" { word(nth + 1) } else { word(nth) };
        let is_behind_no = nth > first && word(nth - 1) == "NO";
        OPTIONS.iter().position(|option| *option == named && !is_behind_no)
    };
    let mut parts: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut name = Vec::new();
    for nth in first..end {
        if nth > first
            && let Some(rank) = rank(nth)
        {
            parts.push((rank, Vec::new()));
        }
        let ends = matches!(token(nth).token, Token::SemiColon | Token::EOF);
        if ends {
            parts.push((OPTIONS.len(), vec![token(nth)]));
            continue;
        }
        match parts.last_mut() {
            Some((_, part)) => part.push(token(nth)),
            None => name.push(token(nth)),
        }
    }
    parts.sort_by_key(|(rank, _)| *rank);
    name.into_iter().chain(parts.into_iter().flat_map(|(_, part)| part)).collect()
}
