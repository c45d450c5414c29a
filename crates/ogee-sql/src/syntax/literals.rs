//! Tokens that the parser takes for something else: numbers with underscores, `0xFF` and `0b11`, `**`, a dash for the end of a slice, and units of intervals.
//!
//! The tokenizer has `0xFF` as bytes, like `x'FF'`, which has one character more in the text, and `0b11` as 0 and a name.
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
    let mut brackets = 0_usize;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(mut token) = tokens.next() {
        match &token.token {
            Token::LBracket => brackets += 1,
            Token::RBracket => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        if let Some(number) = hexadecimal(&token) {
            token.token = Token::Number(number, false);
            kept.push(token);
            continue;
        }
        match (kept.last_mut().map(|last| &mut last.token), &mut token.token) {
            (Some(last @ Token::Mul), Token::Mul) => *last = Token::Caret,
            (Some(Token::Number(number, _)), Token::Word(word))
                if word.quote_style.is_none() && number.contains(['e', 'E']) && goes_on(&word.value) =>
            {
                number.extend(word.value.chars().filter(|char| *char != '_'));
            }
            (Some(Token::Number(zero, _)), Token::Word(word))
                if zero == "0" && word.quote_style.is_none() && binary(&word.value).is_some() =>
            {
                *zero = binary(&word.value).unwrap_or_default();
            }
            // A dash for the end of a slice that has a step.
            (Some(Token::Minus), Token::Colon)
                if brackets > 0 && tokens.peek().is_none_or(|next| next.token != Token::Minus) =>
            {
                kept.push(TokenWithSpan::new(Token::Number("1".to_owned(), false), token.span));
                kept.push(token);
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

/// The number that `token` is, if it is written `0xFF` and 128 bits have room for it.
fn hexadecimal(token: &TokenWithSpan) -> Option<String> {
    let Token::HexStringLiteral(digits) = &token.token else { return None };
    let (start, end) = (token.span.start, token.span.end);
    let length = end.column.checked_sub(start.column).filter(|_| start.line == end.line)?;
    let is_number = usize::try_from(length).is_ok_and(|length| length == digits.len() + 2);
    is_number.then(|| u128::from_str_radix(digits, 16).ok()).flatten().map(|number| number.to_string())
}

/// The number that `0` and `word` are, if that is written `0b11`.
fn binary(word: &str) -> Option<String> {
    let digits = word.strip_prefix(['b', 'B'])?;
    let is_number = digits.starts_with(['0', '1']);
    u128::from_str_radix(&digits.replace('_', ""), 2).ok().filter(|_| is_number).map(|number| number.to_string())
}

/// Whether `word` is more digits of the number before it.
fn goes_on(word: &str) -> bool {
    let groups = word.strip_prefix('_').map(|rest| rest.split('_'));
    groups.is_some_and(|mut groups| {
        groups.all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
    })
}
