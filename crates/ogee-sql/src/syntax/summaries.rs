//! `SUMMARIZE t`, `SUMMARIZE SELECT ..` and `FROM (DESCRIBE t)`, in words that the parser knows: a `SELECT` of one output, a call that says what is wanted, from what it is wanted of.
//!
//! Not here: what is selected in the place of the call, which depends on columns (`crate::summaries`), and `DESCRIBE` as a statement.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parts::{Parts, call_of, space};

/// What each column of a query has in its rows.
pub(crate) const SUMMARY: &str = "ogee_summary";
/// The columns of a query.
pub(crate) const DESCRIPTION: &str = "ogee_description";

/// `tokens` with summaries in words that the parser knows.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_one = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => {
            ["SUMMARIZE", "DESCRIBE", "DESC", "SHOW"].iter().any(|name| word.value.eq_ignore_ascii_case(name))
        }
        _ => false,
    };
    if !tokens.iter().any(is_one) {
        return tokens;
    }
    let mut tokens = tokens;
    // One within another is written out first: it is behind.
    loop {
        let parts = Parts::new(&tokens);
        let Some(new) = (0..parts.len()).rev().find_map(|nth| written(&parts, nth)) else { return tokens };
        tokens = parts.replaced(vec![new]);
    }
}

/// What to write in the place of the summary or description at `nth`, if there is one.
fn written(parts: &Parts<'_>, nth: usize) -> Option<(Range<usize>, Vec<Token>)> {
    let call = if parts.is_word(nth, &["SUMMARIZE"]) && parts.may_begin_query(nth) {
        SUMMARY
    } else if parts.is_word(nth, &["DESCRIBE", "DESC", "SHOW"]) && is_in_from(parts, nth) {
        // As a statement it shows more: keys and defaults of a table.
        DESCRIPTION
    } else {
        return None;
    };
    let mut tokens = vec![Token::make_keyword("SELECT"), space()];
    tokens.extend(call_of(call, []));
    tokens.extend([space(), Token::make_keyword("FROM"), space()]);
    // `FROM (DESCRIBE TABLE t)`
    let names_table = parts.is_word(nth + 1, &["TABLE"])
        && matches!(parts.token(nth + 2), Some(Token::Word(_) | Token::SingleQuotedString(_)));
    let mut end = nth + 1 + usize::from(names_table);
    if parts.is_word(end, &["SELECT", "FROM", "VALUES", "WITH"]) {
        end = parts.find(end, |_| false);
        tokens.push(Token::LParen);
        tokens.extend(parts.text(nth + 1..end));
        tokens.push(Token::RParen);
    }
    Some((nth..end, tokens))
}

/// Whether what begins at `nth` stands in brackets as a table does: `FROM (DESCRIBE t)`.
fn is_in_from(parts: &Parts<'_>, nth: usize) -> bool {
    let before = |back: usize| nth.checked_sub(back);
    let opens = before(1).is_some_and(|nth| parts.is(nth, &Token::LParen));
    // `FROM x, (DESCRIBE t)`; `f(DESC)` is no such place, and `(DESC ..` begins no expression.
    let from = before(2).is_some_and(|nth| parts.is_word(nth, &["FROM", "JOIN", "AS"]) || parts.is(nth, &Token::Comma));
    let of = matches!(parts.token(nth + 1), Some(Token::Word(_) | Token::LParen | Token::SingleQuotedString(_)));
    opens && from && of && !parts.is_word(nth + 1, &["TABLES", "ALL"])
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn summaries_are_calls() {
        for (sql, usual) in [
            ("SUMMARIZE t", "SELECT ogee_summary() FROM t"),
            ("SUMMARIZE s.t", "SELECT ogee_summary() FROM s.t"),
            ("SUMMARIZE SELECT 1 AS a", "SELECT ogee_summary() FROM (SELECT 1 AS a)"),
            ("SUMMARIZE FROM t", "SELECT ogee_summary() FROM (SELECT * FROM t)"),
            (
                "SELECT min FROM (SUMMARIZE t) WHERE min > '1'",
                "SELECT min FROM (SELECT ogee_summary() FROM t) WHERE min > '1'",
            ),
            ("CREATE TABLE x AS SUMMARIZE t", "CREATE TABLE x AS SELECT ogee_summary() FROM t"),
            ("EXPLAIN SUMMARIZE t", "EXPLAIN SELECT ogee_summary() FROM t"),
            (
                "SELECT * FROM (DESCRIBE SELECT 1 AS a)",
                "SELECT * FROM (SELECT ogee_description() FROM (SELECT 1 AS a))",
            ),
            (
                "SELECT * FROM (DESCRIBE SUMMARIZE t)",
                "SELECT * FROM (SELECT ogee_description() FROM (SELECT ogee_summary() FROM t))",
            ),
            ("SELECT summarize FROM t ORDER BY summarize DESC", "SELECT summarize FROM t ORDER BY summarize DESC"),
        ] {
            assert_eq!(parse(sql).unwrap().pop().unwrap().to_string(), usual, "{sql}");
        }
    }
}
