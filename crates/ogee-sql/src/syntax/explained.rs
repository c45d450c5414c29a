//! `EXPLAIN (FORMAT json)`, which DataFusion knows by another name.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::{keyword, significant};

/// What DataFusion calls a plan in JSON.
const JSON: &str = "pgjson";

/// `tokens` with the names of formats that DataFusion knows.
pub(crate) fn in_tokens(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| keyword(&token.token) == Keyword::EXPLAIN) {
        return tokens;
    }
    let places = significant(&tokens);
    let (mut is_explain, mut in_options) = (false, false);
    for nth in 0..places.len() {
        let token = |nth: usize| places.get(nth).map(|&at| &tokens[at].token);
        let Some(this) = token(nth) else { continue };
        match (this, keyword(this)) {
            (_, Keyword::EXPLAIN) => is_explain = true,
            (_, Keyword::ANALYZE | Keyword::VERBOSE) if is_explain && !in_options => {}
            (_, Keyword::FORMAT) if is_explain => {
                let named = token(nth + 1).is_some_and(|name| match name {
                    Token::Word(word) => word.value.eq_ignore_ascii_case("json"),
                    Token::SingleQuotedString(name) => name.eq_ignore_ascii_case("json"),
                    _ => false,
                });
                if named {
                    tokens[places[nth + 1]].token = Token::make_word(JSON, None);
                }
                is_explain = in_options;
            }
            (Token::LParen, _) if is_explain && !in_options => in_options = true,
            (Token::RParen, _) => (is_explain, in_options) = (false, false),
            _ => is_explain = in_options,
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn json_has_its_name() {
        for sql in [
            "EXPLAIN (FORMAT json) SELECT 1",
            "EXPLAIN (ANALYZE, FORMAT 'JSON') SELECT 1",
            "EXPLAIN FORMAT json SELECT 1",
        ] {
            let statement = parse(sql).unwrap().pop().unwrap();
            let datafusion::sql::parser::Statement::Explain(explain) = &statement.0 else { panic!("{statement}") };
            assert_eq!(explain.options.format.as_ref().unwrap().to_string(), "pgjson", "{sql}");
        }
        let statement = parse("EXPLAIN SELECT format json FROM (SELECT 1 AS format)").unwrap().pop().unwrap();
        assert!(statement.to_string().contains("AS json"), "{statement}");
    }
}
