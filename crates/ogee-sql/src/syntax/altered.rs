//! `ALTER TABLE` of fields of structs, and `SET TYPE`, in words that the parser knows: `ADD COLUMN s.a.b INTEGER` names one column, of which the name has a mark between its parts.
//!
//! Not here: what becomes of the table.

use std::ops::Range;

use datafusion::sql::sqlparser::{
    ast::Ident,
    tokenizer::{Token, TokenWithSpan, Word},
};

use super::parts::{Parts, space};

/// Between the parts of a name.
const BETWEEN: char = '\u{1f}';

/// `tokens` with such statements in other words.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_alter = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("alter"));
    if !tokens.iter().any(is_alter) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced: Vec<(Range<usize>, Vec<Token>)> = Vec::new();
    for nth in 0..parts.len() {
        let begins = nth == 0 || parts.is(nth - 1, &Token::SemiColon);
        if !begins || !parts.is_word(nth, &["ALTER"]) || !parts.is_word(nth + 1, &["TABLE"]) {
            continue;
        }
        let end = parts.find(nth, |_| false);
        // Behind the name of the table.
        let mut at = nth + 2;
        while parts.is_word(at, &["IF", "EXISTS", "ONLY"]) {
            at += 1;
        }
        at += 1;
        while parts.is(at, &Token::Period) {
            at += 2;
        }
        if let Some(of) = (at..end).find(|&of| parts.is_word(of, &["SET"]) && parts.is_word(of + 1, &["TYPE"])) {
            replaced.push((of + 1..of + 1, vec![Token::make_keyword("DATA"), space()]));
        }
        if !parts.is_word(at, &["ADD", "DROP", "RENAME"]) {
            continue;
        }
        at += 1;
        while parts.is_word(at, &["COLUMN", "IF", "NOT", "EXISTS"]) {
            at += 1;
        }
        let mut names = Vec::new();
        let mut last = at;
        while let Some(Token::Word(word)) = parts.token(last) {
            let name = if word.quote_style.is_some() { word.value.clone() } else { word.value.to_ascii_lowercase() };
            names.push(name);
            if !parts.is(last + 1, &Token::Period) {
                break;
            }
            last += 2;
        }
        if names.len() > 1 {
            let value = names.join(&BETWEEN.to_string());
            let word = Word {
                value,
                quote_style: Some('"'),
                keyword: datafusion::sql::sqlparser::keywords::Keyword::NoKeyword,
            };
            replaced.push((at..last + 1, vec![Token::Word(word)]));
        }
    }
    replaced.sort_by_key(|(range, _)| range.start);
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}

/// The column, and the field within it, that `name` names; `None` if it names a column.
pub fn field_of(name: &Ident) -> Option<(Ident, Vec<String>)> {
    let mut parts = name.value.split(BETWEEN).map(str::to_owned);
    let column = Ident::with_quote('"', parts.next()?);
    let fields: Vec<String> = parts.collect();
    (!fields.is_empty()).then_some((column, fields))
}
