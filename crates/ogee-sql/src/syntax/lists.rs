//! `x IN [1, 2]` and `x NOT IN l`, of lists, in words that the parser knows: `x = ANY([1, 2])`, `x <> ALL(l)`.
//!
//! Not here: `IN` with brackets, which the parser knows, and what `ANY` of a list is (`quantified`).

use std::ops::Range;

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::parts::{Parts, space};

/// `tokens` with comparisons with the elements of lists for `IN`.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| super::keyword(&token.token) == Keyword::IN) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced: Vec<(Range<usize>, Vec<Token>)> = Vec::new();
    for nth in 1..parts.len() {
        if !parts.is_word(nth, &["IN"]) {
            continue;
        }
        let Some(end) = list(&parts, nth + 1) else { continue };
        let negates = parts.is_word(nth - 1, &["NOT"]);
        let begin = nth - usize::from(negates);
        // Behind a value, and not the variable of `FOR x IN l` or the first word of anything.
        let is_behind_value = begin > 0
            && match parts.token(begin - 1) {
                Some(Token::Word(word)) => {
                    let is_variable =
                        (1..=3).any(|back| begin.checked_sub(1 + back).is_some_and(|at| parts.is_word(at, &["FOR"])));
                    (word.quote_style.is_some() || word.keyword == Keyword::NoKeyword) && !is_variable
                }
                Some(Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen | Token::RBracket) => true,
                _ => false,
            };
        // `position('a' IN s)` looks into a text.
        let is_position = begin > 2 && parts.is(begin - 2, &Token::LParen) && parts.is_word(begin - 3, &["POSITION"]);
        if !is_behind_value || is_position {
            continue;
        }
        let (compared, of) = if negates { (Token::Neq, "ALL") } else { (Token::Eq, "ANY") };
        let mut new = vec![compared, space(), Token::make_keyword(of), Token::LParen];
        new.extend(parts.text(nth + 1..end));
        new.push(Token::RParen);
        replaced.push((begin..end, new));
    }
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}

/// Where the list ends that begins at `nth`: elements in brackets, or a column, of which a part may be chosen.
fn list(parts: &Parts<'_>, nth: usize) -> Option<usize> {
    let mut at = match parts.token(nth)? {
        Token::LBracket => parts.closing(nth)? + 1,
        Token::Word(word) if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword => nth + 1,
        _ => return None,
    };
    loop {
        if parts.is(at, &Token::Period) && matches!(parts.token(at + 1), Some(Token::Word(_))) {
            at += 2;
        } else if parts.is(at, &Token::LBracket) || parts.is(at, &Token::LParen) {
            at = parts.closing(at)? + 1;
        } else {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn lists_are_compared_with() {
        for (given, wanted) in [
            ("SELECT 2 IN [1, 2]", "SELECT 2 = ANY([1, 2])"),
            ("SELECT a NOT IN t.l FROM t", "SELECT a <> ALL(t.l) FROM t"),
            ("SELECT a IN l FROM t WHERE b IN (1, 2)", "SELECT a = ANY(l) FROM t WHERE b IN (1, 2)"),
            ("SELECT position('a' IN s) FROM t", "SELECT position('a' IN s) FROM t"),
            ("SELECT a IN split(s, ',')[1:2] AND b FROM t", "SELECT a = ANY(split(s, ',')[1:2]) AND b FROM t"),
        ] {
            let text = |sql: &str| parse(sql).unwrap().pop().unwrap().to_string();
            assert_eq!(text(given), text(wanted), "{given}");
        }
    }
}
