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
    let significant = super::significant(&tokens);
    let is_call = calls(&tokens, &significant);
    // Where `WHERE` belongs: before the last of `) FILTER ( x`.
    let lacking = (0..significant.len().saturating_sub(3)).filter_map(|nth| {
        let [filter, open, next] = [1, 2, 3].map(|further| &tokens[significant[nth + further]].token);
        let is_behind_call = is_call[nth] && is_filter(filter) && *open == Token::LParen;
        (is_behind_call && super::keyword(next) != Keyword::WHERE).then(|| significant[nth + 3])
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

/// Whether each of the `significant` tokens is the end of a call: a table in brackets may be called `filter`.
fn calls(tokens: &[TokenWithSpan], significant: &[usize]) -> Vec<bool> {
    use Keyword::{AS, FROM, IN, JOIN, LATERAL, NoKeyword, VALUES};
    let mut open = Vec::new();
    let mut ends = vec![false; significant.len()];
    for (nth, &at) in significant.iter().enumerate() {
        match tokens[at].token {
            Token::LParen => {
                let before = nth.checked_sub(1).map(|before| &tokens[significant[before]].token);
                let is_name = matches!(before, Some(Token::Word(_)));
                let keyword = before.map_or(NoKeyword, super::keyword);
                open.push(is_name && !matches!(keyword, AS | FROM | IN | JOIN | LATERAL | VALUES));
            }
            Token::RParen => ends[nth] = open.pop() == Some(true),
            _ => {}
        }
    }
    ends
}
