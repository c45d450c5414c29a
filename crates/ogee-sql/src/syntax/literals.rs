//! Tokens that the parser takes for something else: numbers with underscores, and `**`.
//!
//! The parser has numbers keep their underscores, but for those of exponents, which it takes for names of outputs; DataFusion reads neither.
//!
//! Not here: what numbers mean.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// `tokens` with numbers without underscores, and `**` as the one sign `^`.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Whitespace is a token: what follows another one here stands right behind it.
    for mut token in tokens {
        match (kept.last_mut().map(|last| &mut last.token), &mut token.token) {
            (Some(last @ Token::Mul), Token::Mul) => *last = Token::Caret,
            (Some(Token::Number(number, _)), Token::Word(word))
                if word.quote_style.is_none() && number.contains(['e', 'E']) && goes_on(&word.value) =>
            {
                number.extend(word.value.chars().filter(|char| *char != '_'));
            }
            (_, Token::Number(number, _)) => {
                number.retain(|char| char != '_');
                kept.push(token);
            }
            _ => kept.push(token),
        }
    }
    kept
}

/// Whether `word` is more digits of the number before it.
fn goes_on(word: &str) -> bool {
    let groups = word.strip_prefix('_').map(|rest| rest.split('_'));
    groups.is_some_and(|mut groups| {
        groups.all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
    })
}
