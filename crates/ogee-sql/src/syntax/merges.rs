//! Clauses of `MERGE` that the parser does not know: `DO NOTHING`, `ERROR`, `UPDATE` and `INSERT` of all columns, `USING (k)`.
//!
//! The parser knows `UPDATE SET column = value` and `INSERT (column) VALUES (value)`, and gets these with names that nobody gives to a column, and `ON` with a call.
//!
//! Not here: what they mean (`changes::merges`).

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

/// Nothing is done.
pub(crate) const NOTHING: &str = "ogee_nothing";
/// The statement fails, and says the value.
pub(crate) const ERROR: &str = "ogee_error";
/// All columns of the source, by their positions.
pub(crate) const ALL: &str = "ogee_all";
/// All columns of the source, by their names.
pub(crate) const ALL_BY_NAME: &str = "ogee_all_by_name";
/// All columns have what the definition says.
pub(crate) const DEFAULTS: &str = "ogee_defaults";
/// The call that stands for `USING`.
pub(crate) const USING: &str = "ogee_using";

/// `tokens` with merges in words that the parser knows.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let significant = super::significant(&tokens);
    let keyword = |nth: usize| significant.get(nth).map_or(Keyword::NoKeyword, |&at| super::keyword(&tokens[at].token));
    let is_merge = |nth: usize| keyword(nth) == Keyword::MERGE && keyword(nth + 1) == Keyword::INTO;
    if !(0..significant.len()).any(is_merge) {
        return tokens;
    }
    let token = |nth: usize| significant.get(nth).map(|&at| &tokens[at].token);
    let word = |nth: usize, word: &str| match token(nth) {
        Some(Token::Word(found)) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    // Which of the significant tokens what stands for.
    let mut replaced: Vec<(std::ops::Range<usize>, Vec<Token>)> = Vec::new();
    let (mut within, mut usings, mut inserts, mut depth) = (false, 0, false, 0_usize);
    let mut nth = 0;
    while nth < significant.len() {
        match token(nth) {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth = depth.saturating_sub(1),
            Some(Token::SemiColon) => within = false,
            _ => {}
        }
        if is_merge(nth) {
            (within, usings, inserts, depth) = (true, 0, false, 0);
        }
        if !within || depth > 0 {
            nth += 1;
            continue;
        }
        match keyword(nth) {
            Keyword::USING => {
                usings += 1;
                if usings == 2 && token(nth + 1) == Some(&Token::LParen) {
                    replaced.push((nth..nth + 1, vec![Token::make_keyword("ON"), Token::make_word(USING, None)]));
                }
            }
            Keyword::WHEN => {
                let not = keyword(nth + 1) == Keyword::NOT;
                let by_source = keyword(nth + 3) == Keyword::BY && word(nth + 4, "source");
                inserts = not && !by_source;
            }
            Keyword::THEN => {
                let (end, mark, value) = action(nth + 1, &token, &keyword, &word);
                if let Some(mark) = mark {
                    replaced.push((nth + 1..end, stands_for(mark, value, inserts)));
                }
            }
            _ => {}
        }
        nth += 1;
    }
    let mut all = tokens;
    for (range, with) in replaced.into_iter().rev() {
        let (first, end) = (significant[range.start], significant[range.end - 1]);
        let span = all[first].span;
        all.splice(first..=end, with.into_iter().map(|token| TokenWithSpan::new(token, span)));
    }
    all
}

/// What is done by the tokens from `first` on, if the parser does not know it: where it ends, its mark, and its value.
fn action<'a>(
    first: usize,
    token: &dyn Fn(usize) -> Option<&'a Token>,
    keyword: &dyn Fn(usize) -> Keyword,
    word: &dyn Fn(usize, &str) -> bool,
) -> (usize, Option<&'static str>, Vec<Token>) {
    let none = || vec![Token::make_keyword("NULL")];
    if word(first, "do") && word(first + 1, "nothing") {
        return (first + 2, Some(NOTHING), none());
    }
    if word(first, "error") {
        let (mut end, mut depth) = (first + 1, 0_usize);
        let mut value = Vec::new();
        while let Some(next) = token(end) {
            match next {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                Token::SemiColon | Token::EOF => break,
                _ if depth == 0 && (keyword(end) == Keyword::WHEN || keyword(end) == Keyword::RETURNING) => break,
                _ => {}
            }
            value.push(next.clone());
            end += 1;
        }
        return (end, Some(ERROR), if value.is_empty() { none() } else { value });
    }
    let (is_update, is_insert) = (keyword(first) == Keyword::UPDATE, keyword(first) == Keyword::INSERT);
    if !is_update && !is_insert {
        return (first, None, Vec::new());
    }
    let star = |at: usize| usize::from(token(at) == Some(&Token::Mul));
    let next = first + 1;
    if keyword(next) == Keyword::BY && word(next + 1, "name") {
        return (next + 2 + star(next + 2), Some(ALL_BY_NAME), none());
    }
    if keyword(next) == Keyword::BY && word(next + 1, "position") {
        return (next + 2 + star(next + 2), Some(ALL), none());
    }
    if is_insert && keyword(next) == Keyword::DEFAULT && keyword(next + 1) == Keyword::VALUES {
        return (next + 2, Some(DEFAULTS), none());
    }
    if is_update && keyword(next) == Keyword::SET && star(next + 1) == 1 {
        return (next + 2, Some(ALL), none());
    }
    let ends = matches!(token(next), None | Some(Token::SemiColon | Token::EOF | Token::Mul))
        || matches!(keyword(next), Keyword::WHEN | Keyword::RETURNING);
    if ends { (next + star(next), Some(ALL), none()) } else { (first, None, Vec::new()) }
}

fn stands_for(mark: &str, value: Vec<Token>, inserts: bool) -> Vec<Token> {
    let name = Token::make_word(mark, Some('"'));
    let mut all = Vec::new();
    if inserts {
        all.extend([Token::make_keyword("INSERT"), Token::LParen, name, Token::RParen]);
        all.extend([Token::make_keyword("VALUES"), Token::LParen]);
        all.extend(value);
        all.push(Token::RParen);
    } else {
        all.extend([Token::make_keyword("UPDATE"), Token::make_keyword("SET"), name, Token::Eq]);
        all.extend(value);
    }
    all
}
