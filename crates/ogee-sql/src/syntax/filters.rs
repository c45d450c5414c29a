//! `sum(x) FILTER (x > 1)`, which is `sum(x) FILTER (WHERE x > 1)`.
//!
//! Not here: what is filtered.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Whitespace},
};

/// `tokens`, in which every `FILTER` behind a call says `WHERE`.
pub(crate) fn with_where(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_filter = |token: &Token| super::keyword(token) == Keyword::FILTER;
    if !tokens.iter().any(|token| is_filter(&token.token)) {
        return tokens;
    }
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let significant: Vec<usize> = (0..tokens.len()).filter(|&at| !is_space(&tokens[at])).collect();
    // Where `WHERE` belongs: before the last of `) FILTER ( x`.
    let lacking = significant.windows(4).filter_map(|at| {
        let [call, filter, open, next] = [at[0], at[1], at[2], at[3]].map(|at| &tokens[at].token);
        let is_behind_call = *call == Token::RParen && is_filter(filter) && *open == Token::LParen;
        (is_behind_call && super::keyword(next) != Keyword::WHERE).then_some(at[3])
    });
    let mut lacking = lacking.peekable();
    let mut with = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        if lacking.next_if_eq(&at).is_some() {
            with.push(TokenWithSpan::new(Token::make_keyword("WHERE"), token.span));
            with.push(TokenWithSpan::new(Token::Whitespace(Whitespace::Space), token.span));
        }
        with.push(token.clone());
    }
    with
}
