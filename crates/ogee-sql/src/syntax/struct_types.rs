//! Types as DuckDB writes them, where the parser reads others: `STRUCT(a INT)` and `ROW(a INT)`, whose fields it has in angle brackets, `INT ARRAY[3]`, and types of
//! moments before a text, `TIMESTAMP_NS '2024-01-01'`.
//!
//! Not here: structs as values.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

/// `tokens`, in which the fields of struct types are in angle brackets.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens = moments(arrays(tokens));
    structs(tokens)
}

/// What is in a bracket that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// Fields of a struct type, which end in an angle bracket.
    Fields,
    /// Other types.
    Types,
    /// Anything else.
    Other,
}

fn structs(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_struct = |token: &Token| matches!(super::keyword(token), Keyword::STRUCT | Keyword::ROW);
    if !tokens.iter().any(|token| is_struct(&token.token)) {
        return tokens;
    }
    let significant = super::significant(&tokens);
    let mut open = Vec::new();
    for nth in 0..significant.len() {
        let token = |further: usize| significant.get(nth + further).map(|&at| &tokens[at].token);
        match token(0) {
            Some(Token::LParen) => {
                // A field is a name and a type: two words that no value has beside each other.
                let is_name = |token: Option<&Token>| matches!(token, Some(Token::Word(_)));
                let is_type = |token: Option<&Token>| match token {
                    Some(Token::Word(word)) => word.quote_style.is_some() || !joins_values(word.keyword),
                    _ => false,
                };
                let before = |by: usize| nth.checked_sub(by).map(|nth| &tokens[significant[nth]].token);
                let behind_struct = before(1).is_some_and(is_struct);
                // Behind a cast, the name of a column, or among types.
                let is_place = open.last().is_some_and(|open| *open != Open::Other)
                    || match before(2) {
                        Some(Token::DoubleColon) => true,
                        Some(Token::Word(word)) => {
                            word.quote_style.is_some() || word.keyword == Keyword::AS || !begins_value(word.keyword)
                        }
                        _ => false,
                    };
                let is_fields = behind_struct && is_place && is_name(token(1)) && is_type(token(2));
                let holds_types = is_place
                    && before(1).is_some_and(|token| {
                        matches!(super::keyword(token), Keyword::MAP | Keyword::TUPLE | Keyword::UNION)
                    });
                open.push(match (is_fields, holds_types) {
                    (true, _) => Open::Fields,
                    (_, true) => Open::Types,
                    _ => Open::Other,
                });
                if is_fields {
                    let at = significant[nth - 1];
                    tokens[at].token = Token::make_keyword("STRUCT");
                    tokens[significant[nth]].token = Token::Lt;
                }
            }
            Some(Token::RParen) if open.pop() == Some(Open::Fields) => tokens[significant[nth]].token = Token::Gt,
            _ => {}
        }
    }
    tokens
}

/// Whether the name of a type ends with `keyword`, which `ARRAY` may follow.
fn ends_type(keyword: Keyword) -> bool {
    use Keyword::{
        BIGINT, BLOB, BOOL, BOOLEAN, CHAR, DATE, DOUBLE, FLOAT, HUGEINT, INT, INT2, INT4, INT8, INTEGER, INTERVAL,
        JSON, NUMERIC, REAL, SMALLINT, STRING, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, TINYINT, UBIGINT, USMALLINT,
        UTINYINT, UUID, VARCHAR,
    };
    matches!(
        keyword,
        BIGINT
            | BLOB
            | BOOL
            | BOOLEAN
            | CHAR
            | DATE
            | DOUBLE
            | FLOAT
            | HUGEINT
            | INT
            | INT2
            | INT4
            | INT8
            | INTEGER
            | INTERVAL
            | JSON
            | Keyword::DECIMAL
            | NUMERIC
            | REAL
            | SMALLINT
            | STRING
            | TEXT
            | TIME
            | TIMESTAMP
            | TIMESTAMPTZ
            | TINYINT
            | UBIGINT
            | USMALLINT
            | UTINYINT
            | UUID
            | VARCHAR
    )
}

/// `INT ARRAY` as `INT[]`, and `INT ARRAY[3]` as `INT[3]`.
fn arrays(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_array = |token: &Token| super::keyword(token) == Keyword::ARRAY;
    if !tokens.iter().any(|token| is_array(&token.token)) {
        return tokens;
    }
    let significant = super::significant(&tokens);
    let mut dropped = vec![false; tokens.len()];
    let mut unsized_lists = vec![false; tokens.len()];
    for (nth, &at) in significant.iter().enumerate() {
        if !is_array(&tokens[at].token) || nth == 0 {
            continue;
        }
        let token = |nth: usize| &tokens[significant[nth]].token;
        // Behind digits of a decimal in parentheses, or the name itself.
        let name = match token(nth - 1) {
            Token::RParen => (0..nth).rev().take(6).find(|&before| *token(before) == Token::LParen),
            _ => Some(nth),
        };
        let name = name.and_then(|open| open.checked_sub(1)).map(token);
        if !name.is_some_and(|name| ends_type(super::keyword(name))) {
            continue;
        }
        match significant.get(nth + 1).map(|&at| &tokens[at].token) {
            Some(Token::LBracket) => dropped[at] = true,
            _ => unsized_lists[at] = true,
        }
    }
    let mut all = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.into_iter().enumerate() {
        if unsized_lists[at] {
            all.push(TokenWithSpan::new(Token::LBracket, token.span));
            all.push(TokenWithSpan::new(Token::RBracket, token.span));
        } else if !dropped[at] {
            all.push(token);
        }
    }
    all
}

/// `TIMESTAMP_NS 'text'` as `TIMESTAMP(9) 'text'`.
fn moments(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let digits = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => match word.value.to_ascii_uppercase().as_str() {
            "TIMESTAMP_S" => Some("0"),
            "TIMESTAMP_MS" => Some("3"),
            "TIMESTAMP_US" => Some("6"),
            "TIMESTAMP_NS" => Some("9"),
            _ => None,
        },
        _ => None,
    };
    if !tokens.iter().any(|token| digits(&token.token).is_some()) {
        return tokens;
    }
    let significant = super::significant(&tokens);
    let mut before_text = vec![false; tokens.len()];
    for pair in significant.windows(2) {
        before_text[pair[0]] = matches!(tokens[pair[1]].token, Token::SingleQuotedString(_));
    }
    let mut all = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.into_iter().enumerate() {
        match digits(&token.token).filter(|_| before_text[at]) {
            Some(digits) => all.extend(
                [
                    Token::make_keyword("TIMESTAMP"),
                    Token::LParen,
                    Token::Number(digits.to_owned(), false),
                    Token::RParen,
                ]
                .map(|made| TokenWithSpan::new(made, token.span)),
            ),
            None => all.push(token),
        }
    }
    all
}

/// Whether `keyword` stands between a value and another, so that it is no type.
fn joins_values(keyword: Keyword) -> bool {
    use Keyword::{AND, AS, AT, BETWEEN, COLLATE, ESCAPE, FILTER, ILIKE, IN, IS, LIKE, NOT, OR, OVER, SIMILAR};
    matches!(
        keyword,
        AND | AS | AT | BETWEEN | COLLATE | ESCAPE | FILTER | ILIKE | IN | IS | LIKE | NOT | OR | OVER | SIMILAR
    )
}

/// Whether a value follows `keyword`, in which `struct` is a function.
fn begins_value(keyword: Keyword) -> bool {
    use Keyword::{
        ALL, AND, ANY, BETWEEN, BY, CASE, DISTINCT, ELSE, FILTER, HAVING, IN, INTO, IS, LIKE, LIMIT, NOT, ON, OR,
        QUALIFY, RETURNING, SELECT, SET, THEN, UPDATE, VALUES, WHEN, WHERE,
    };
    matches!(
        keyword,
        ALL | AND
            | ANY
            | BETWEEN
            | BY
            | CASE
            | DISTINCT
            | ELSE
            | FILTER
            | HAVING
            | IN
            | INTO
            | IS
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
            | UPDATE
            | VALUES
            | WHEN
            | WHERE
    )
}
