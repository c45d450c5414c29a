//! `STRUCT(a INT, b VARCHAR)`, a type, which the parser reads with angle brackets only.
//!
//! Not here: structs as values.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

/// `tokens`, in which the fields of struct types are in angle brackets.
pub(crate) fn in_tokens(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_struct = |token: &Token| super::keyword(token) == Keyword::STRUCT;
    if !tokens.iter().any(|token| is_struct(&token.token)) {
        return tokens;
    }
    let significant = super::significant(&tokens);
    // For each bracket that is open, whether it is one of these.
    let mut open = Vec::new();
    for nth in 0..significant.len() {
        let token = |further: usize| significant.get(nth + further).map(|&at| &tokens[at].token);
        match token(0) {
            Some(Token::LParen) => {
                // A field is a name and a type: two words that no value has beside each other.
                let is_name = |token: Option<&Token>| matches!(token, Some(Token::Word(_)));
                let is_type = |token: Option<&Token>| match token {
                    Some(Token::Word(word)) => word.keyword != Keyword::AS && word.keyword != Keyword::OVER,
                    _ => false,
                };
                let before = |by: usize| nth.checked_sub(by).map(|nth| &tokens[significant[nth]].token);
                let behind_struct = before(1).is_some_and(is_struct);
                // Behind a cast, the name of a column, or among fields.
                let is_place = open.contains(&true)
                    || match before(2) {
                        Some(Token::DoubleColon) => true,
                        Some(Token::Word(word)) => word.keyword == Keyword::AS || !begins_value(word.keyword),
                        _ => false,
                    };
                let is_fields = behind_struct && is_place && is_name(token(1)) && is_type(token(2));
                open.push(is_fields);
                if is_fields {
                    tokens[significant[nth]].token = Token::Lt;
                }
            }
            Some(Token::RParen) if open.pop() == Some(true) => tokens[significant[nth]].token = Token::Gt,
            _ => {}
        }
    }
    tokens
}

/// Whether a value follows `keyword`, in which `struct` is a function.
fn begins_value(keyword: Keyword) -> bool {
    use Keyword::{
        ALL, AND, BETWEEN, BY, CASE, DISTINCT, ELSE, FILTER, HAVING, IN, LIKE, LIMIT, NOT, ON, OR, QUALIFY, RETURNING,
        SELECT, SET, THEN, VALUES, WHEN, WHERE,
    };
    matches!(
        keyword,
        ALL | AND
            | BETWEEN
            | BY
            | CASE
            | DISTINCT
            | ELSE
            | FILTER
            | HAVING
            | IN
            | LIKE
            | LIMIT
            | NOT
            | ON
            | OR
            | QUALIFY
            | RETURNING
            | SELECT
            | SET
            | THEN
            | VALUES
            | WHEN
            | WHERE
    )
}
