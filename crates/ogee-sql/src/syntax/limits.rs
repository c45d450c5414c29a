//! `LIMIT 10%` and `LIMIT (SELECT ..) PERCENT`, in words that the parser knows: `LIMIT ogee_percent(10)`.
//!
//! Not here: how many rows that is (`crate::limits`).

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parts::{Parts, call_of, space};

pub(crate) const PERCENT: &str = "ogee_percent";

/// Words that may stand behind a limit.
const BEHIND: &[&str] = &["OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "FOR", "SETTINGS", "FORMAT"];

/// `tokens` with parts of all rows in words that the parser knows.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_limit =
        |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case("LIMIT"));
    let is_part = |token: &TokenWithSpan| match &token.token {
        Token::Mod => true,
        Token::Word(word) => word.value.eq_ignore_ascii_case("PERCENT"),
        _ => false,
    };
    if !tokens.iter().any(is_limit) || !tokens.iter().any(is_part) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced = Vec::new();
    // Those within brackets of another are found in the text that this is then.
    let mut within = 0;
    for nth in 0..parts.len() {
        if nth < within || !parts.is_word(nth, &["LIMIT"]) {
            continue;
        }
        let end = parts.find(nth + 1, |nth| parts.is_word(nth, BEHIND));
        let last = end.saturating_sub(1);
        if last <= nth + 1 || !(parts.is(last, &Token::Mod) || parts.is_word(last, &["PERCENT"])) {
            continue;
        }
        let amount = call_of(PERCENT, [parts.text(nth + 1..last)]);
        replaced.push((nth..end, [Token::make_keyword("LIMIT"), space()].into_iter().chain(amount).collect()));
        within = end;
    }
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn parts_of_all_rows_are_calls() {
        for (sql, usual) in [
            ("SELECT 1 FROM t LIMIT 10%", "SELECT 1 FROM t LIMIT ogee_percent(10)"),
            ("SELECT 1 FROM t LIMIT 2.5 PERCENT OFFSET 1", "SELECT 1 FROM t LIMIT ogee_percent(2.5) OFFSET 1"),
            ("SELECT 1 FROM t LIMIT 7 % 4", "SELECT 1 FROM t LIMIT 7 % 4"),
            (
                "SELECT 1 FROM (SELECT 2 FROM t LIMIT 10%) LIMIT 50%",
                "SELECT 1 FROM (SELECT 2 AS \"2\" FROM t LIMIT ogee_percent(10)) LIMIT ogee_percent(50)",
            ),
        ] {
            assert_eq!(parse(sql).unwrap().pop().unwrap().to_string(), usual, "{sql}");
        }
    }
}
