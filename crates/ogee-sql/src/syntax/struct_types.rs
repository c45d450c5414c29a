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
    let is_space = |token: &Token| matches!(token, Token::Whitespace(_));
    let significant: Vec<usize> = (0..tokens.len()).filter(|&at| !is_space(&tokens[at].token)).collect();
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
                let behind_struct = nth > 0 && is_struct(&tokens[significant[nth - 1]].token);
                let is_fields = behind_struct && is_name(token(1)) && is_type(token(2));
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
