//! Statements of upkeep, in words that the parser knows: `PRAGMA threads = 2` is `SET threads = 2`, and `CHECKPOINT` the pragma that DuckDB has for it.
//!
//! Not here: what is done then.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parts::{Parts, space};

/// Settings that have another name, too.
const OTHER_NAMES: [(&str, &str); 2] = [("max_memory", "memory_limit"), ("worker_threads", "threads")];

/// The pragma for which nothing is done.
fn nothing_to_do() -> Vec<Token> {
    vec![Token::make_keyword("PRAGMA"), space(), Token::make_word("force_checkpoint", None)]
}

/// `tokens` with such statements in other words.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_word = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
            && ["pragma", "checkpoint", "set", "reset", "vacuum", "analyze", "install", "extensions"].iter().any(|known| word.value.eq_ignore_ascii_case(known)))
    };
    if !tokens.iter().any(is_word) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced: Vec<(Range<usize>, Vec<Token>)> = Vec::new();
    for nth in 0..parts.len() {
        let begins = nth == 0 || parts.is(nth - 1, &Token::SemiColon);
        if !begins {
            continue;
        }
        let ends = |at: usize| matches!(parts.token(at), None | Some(Token::SemiColon | Token::EOF));
        let checkpoint = nth + usize::from(parts.is_word(nth, &["FORCE"]));
        let is_name = |nth: usize| matches!(parts.token(nth), Some(Token::Word(_)));
        let of_database = usize::from(is_name(checkpoint + 1));
        if parts.is_word(checkpoint, &["CHECKPOINT"]) && ends(checkpoint + 1 + of_database) {
            replaced.push((nth..checkpoint + 1 + of_database, nothing_to_do()));
            continue;
        }
        // Of a table, or of some of its columns: there is nothing to tidy up of either.
        if parts.is_word(nth, &["VACUUM", "ANALYZE"]) && !ends(nth + 1) && !parts.is_word(nth + 1, &["FULL", "VERBOSE"])
        {
            let table = nth + 1 + usize::from(parts.is_word(nth, &["VACUUM"]) && parts.is_word(nth + 1, &["ANALYZE"]));
            let mut end = table + 1;
            while parts.is(end, &Token::Period) {
                end += 2;
            }
            if parts.is(end, &Token::LParen) {
                end = parts.closing(end).map_or(end, |close| close + 1);
            }
            if is_name(table) && ends(end) {
                let name = parts.text(table..table + 1);
                let describe = [Token::make_keyword("ANALYZE"), space()];
                replaced.push((nth..end, describe.into_iter().chain(name).collect()));
                continue;
            }
        }
        // Extensions are built in, so it does not matter where they would come from.
        let install = nth + usize::from(parts.is_word(nth, &["FORCE"]));
        if parts.is_word(install, &["INSTALL"]) {
            if install > nth {
                replaced.push((nth..install, Vec::new()));
            }
            if parts.is_word(install + 2, &["FROM"]) && ends(install + 4) {
                replaced.push((install + 2..install + 4, Vec::new()));
            }
            continue;
        }
        if parts.is_word(nth, &["UPDATE"]) && parts.is_word(nth + 1, &["EXTENSIONS"]) {
            let end = if parts.is(nth + 2, &Token::LParen) { parts.closing(nth + 2) } else { Some(nth + 1) };
            if let Some(end) = end
                && ends(end + 1)
            {
                replaced.push((nth..end + 1, nothing_to_do()));
            }
            continue;
        }
        let is_pragma = parts.is_word(nth, &["PRAGMA"]);
        if is_pragma && parts.is(nth + 2, &Token::Eq) {
            replaced.push((nth..nth + 1, vec![Token::make_keyword("SET")]));
        } else if is_pragma || !parts.is_word(nth, &["SET", "RESET"]) {
            continue;
        }
        let scoped = parts.is_word(nth + 1, &["GLOBAL", "SESSION", "LOCAL"]);
        let name = nth + 1 + usize::from(scoped);
        // There is one of each, for all connections.
        if scoped && parts.is_word(nth, &["RESET"]) && matches!(parts.token(nth + 2), Some(Token::Word(_))) {
            replaced.push((nth + 1..nth + 2, Vec::new()));
        }
        let other = OTHER_NAMES.iter().find(|(other, _)| parts.is_word(name, &[&other.to_ascii_uppercase()]));
        if let Some((_, known)) = other {
            replaced.push((name..name + 1, vec![Token::make_word(known, None)]));
        }
    }
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}
