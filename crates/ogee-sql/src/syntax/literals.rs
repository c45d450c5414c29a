//! Tokens that the parser takes for something else: numbers with underscores, `**`, and units of intervals.
//!
//! The parser has numbers keep their underscores, but for those of exponents, which it takes for names of outputs; DataFusion reads neither. Of some units it knows the singular only, and takes
//! `INTERVAL 3 DECADES` for an interval by that name.
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
    in_intervals(&mut kept);
    kept
}

/// Puts the singular in the place of units that the parser does not know otherwise.
fn in_intervals(tokens: &mut [TokenWithSpan]) {
    let singular = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => match word.value.to_ascii_uppercase().as_str() {
            "DECADES" => Some("DECADE"),
            "CENTURIES" => Some("CENTURY"),
            "MILLENNIA" | "MILLENNIUMS" => Some("MILLENNIUM"),
            "QUARTERS" => Some("QUARTER"),
            _ => None,
        },
        _ => None,
    };
    if !tokens.iter().any(|token| singular(&token.token).is_some()) {
        return;
    }
    let significant = super::significant(tokens);
    for nth in 2..significant.len() {
        let Some(unit) = singular(&tokens[significant[nth]].token) else { continue };
        // Behind a number with a sign, a text, or brackets.
        let mut at = nth - 1;
        match &tokens[significant[at]].token {
            Token::Number(..) | Token::SingleQuotedString(_) => {
                at -= usize::from(at > 0 && matches!(tokens[significant[at - 1]].token, Token::Minus));
            }
            Token::RParen => {
                let mut depth = 0_usize;
                let opens = (0..=at).rev().find(|&at| {
                    match tokens[significant[at]].token {
                        Token::RParen => depth += 1,
                        Token::LParen => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    depth == 0
                });
                at = opens.unwrap_or(at);
            }
            _ => continue,
        }
        let is_interval = at > 0
            && matches!(&tokens[significant[at - 1]].token, Token::Word(word) if word.value.eq_ignore_ascii_case("interval"));
        if is_interval {
            tokens[significant[nth]].token = Token::make_keyword(unit);
        }
    }
}

/// Whether `word` is more digits of the number before it.
fn goes_on(word: &str) -> bool {
    let groups = word.strip_prefix('_').map(|rest| rest.split('_'));
    groups.is_some_and(|mut groups| {
        groups.all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
    })
}
