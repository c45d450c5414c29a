//! What is changed of a star, in the form that the parser knows: `* REPLACE a + 1 AS a` and `* RENAME (t.a AS b)` are `* REPLACE (a + 1 AS a)` and `* RENAME (a AS b)`.
//!
//! Not here: what it means, and stars that stand for columns of some names (`columns`).

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parts::Parts;

/// `tokens` with changes of stars in one form.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_one = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
            && ["replace", "rename"].iter().any(|known| word.value.eq_ignore_ascii_case(known)))
    };
    if !tokens.iter().any(|token| token.token == Token::Mul) || !tokens.iter().any(is_one) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced: Vec<(Range<usize>, Vec<Token>)> = Vec::new();
    for nth in 1..parts.len() {
        let renames = parts.is_word(nth, &["RENAME"]);
        if !parts.is(nth - 1, &Token::Mul) || !(renames || parts.is_word(nth, &["REPLACE"])) {
            continue;
        }
        let close = parts.is(nth + 1, &Token::LParen).then(|| parts.closing(nth + 1)).flatten();
        // What stands in brackets alone; `(a + 1) * 2 AS a` goes on behind them.
        let list = close.filter(|&close| !parts.is_word(close + 1, &["AS"]) && !is_operator(parts.token(close + 1)));
        match list {
            Some(close) if renames => {
                replaced.extend(parts.items(nth + 2..close).into_iter().filter_map(|item| qualifier(&parts, item)));
            }
            Some(_) => {}
            None => {
                let named = parts.find(nth + 1, |nth| parts.is_word(nth, &["AS"]));
                if !parts.is_word(named, &["AS"]) {
                    continue;
                }
                replaced.push((nth + 1..nth + 1, vec![Token::LParen]));
                replaced.extend(renames.then(|| qualifier(&parts, nth + 1..named)).flatten());
                replaced.push((named + 2..named + 2, vec![Token::RParen]));
            }
        }
    }
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}

/// The table's name in `item`, which a star of one table needs not.
fn qualifier(parts: &Parts<'_>, item: Range<usize>) -> Option<(Range<usize>, Vec<Token>)> {
    let begin = item.start;
    let is_name = |nth: usize| matches!(parts.token(nth), Some(Token::Word(_)));
    (is_name(begin) && parts.is(begin + 1, &Token::Period) && is_name(begin + 2))
        .then(|| (begin..begin + 2, Vec::new()))
}

fn is_operator(token: Option<&Token>) -> bool {
    use Token::{Caret, Div, Minus, Mod, Mul, Plus, StringConcat};
    matches!(token, Some(Plus | Minus | Mul | Div | Mod | Caret | StringConcat))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn changes_of_stars_are_in_brackets() {
        for (given, wanted) in [
            ("SELECT * REPLACE a + 1 AS a FROM t", "SELECT * REPLACE (a + 1 AS a) FROM t"),
            ("SELECT * REPLACE (a + 1) * 2 AS a, 3 FROM t", "SELECT * REPLACE ((a + 1) * 2 AS a), 3 FROM t"),
            ("SELECT * RENAME a AS b FROM t", "SELECT * RENAME (a AS b) FROM t"),
            ("SELECT * RENAME t.a AS b FROM t", "SELECT * RENAME (a AS b) FROM t"),
            ("SELECT * RENAME (t.a AS b, c AS d) FROM t", "SELECT * RENAME (a AS b, c AS d) FROM t"),
            ("SELECT 2 * replace(s, 'a', 'b') FROM t", "SELECT 2 * replace(s, 'a', 'b') FROM t"),
        ] {
            let text = |sql: &str| parse(sql).unwrap().pop().unwrap().to_string();
            assert_eq!(text(given), text(wanted), "{given}");
        }
    }
}
