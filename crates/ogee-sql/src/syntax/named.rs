//! `CREATE TABLE u(x, y) AS ..`, `.. WITH NO DATA` and `CREATE RECURSIVE VIEW v(n) AS ..`, in words that the parser knows: a query around the one that is written.
//!
//! Not here: other `CREATE` statements (`created`).

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parts::{Parts, space};

/// What the query is called.
const NAMED: &str = "ogee_named";

/// `tokens` with such statements in other words.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_word = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
            && ["table", "recursive"].iter().any(|known| word.value.eq_ignore_ascii_case(known)))
    };
    if !tokens.iter().any(is_word) {
        return tokens;
    }
    let mut all = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|token| token.token == Token::SemiColon) {
        match written(statement) {
            Some(written) => all.extend(written),
            None => all.extend_from_slice(statement),
        }
    }
    all
}

/// `statement` in other words, if it is one of those.
fn written(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let parts = Parts::new(statement);
    if !parts.is_word(0, &["CREATE"]) {
        return None;
    }
    let kind = (1..6).find(|&nth| parts.is_word(nth, &["TABLE", "VIEW", "RECURSIVE"]))?;
    let is_view = parts.is_word(kind, &["RECURSIVE"]);
    let mut name = kind + 1 + usize::from(is_view);
    if is_view && !parts.is_word(kind + 1, &["VIEW"]) || !is_view && !parts.is_word(kind, &["TABLE"]) {
        return None;
    }
    if parts.is_word(name, &["IF"]) {
        name += 3;
    }
    let mut end = name + 1;
    while parts.is(end, &Token::Period) {
        end += 2;
    }
    let list = parts.is(end, &Token::LParen).then(|| parts.closing(end)).flatten().map(|close| end..close + 1);
    let is_name = |nth: usize| matches!(parts.token(nth), Some(Token::Word(_)));
    let are_names = |list: &std::ops::Range<usize>| {
        let items = parts.items(list.start + 1..list.end - 1);
        !items.is_empty() && items.iter().all(|item| item.len() == 1 && is_name(item.start))
    };
    if list.as_ref().is_some_and(|list| !are_names(list)) {
        return None;
    }
    let begin = list.as_ref().map_or(end, |list| list.end);
    if !parts.is_word(begin, &["AS"]) {
        return None;
    }
    let last = (begin..parts.len()).find(|&nth| matches!(parts.token(nth), Some(Token::SemiColon | Token::EOF)));
    let last = last.unwrap_or(parts.len());
    let word = |back: usize, word: &str| last.checked_sub(back).is_some_and(|nth| parts.is_word(nth, &[word]));
    let (query_end, without_rows) = if word(1, "DATA") && word(2, "WITH") {
        (last - 2, false)
    } else if word(1, "DATA") && word(2, "NO") && word(3, "WITH") {
        (last - 3, true)
    } else {
        (last, false)
    };
    if list.is_none() && query_end == last {
        return None;
    }
    let keyword = |text: &str| [Token::make_keyword(text), space()];
    let all = || [Token::make_keyword("SELECT"), space(), Token::Mul, space(), Token::make_keyword("FROM"), space()];
    let query = parts.text(begin + 1..query_end);
    let mut new = Vec::new();
    new.extend(keyword("AS"));
    if let (true, Some(list)) = (is_view, &list) {
        // Within itself it has the name of the view.
        let own = parts.text(end - 1..end);
        new.extend(keyword("WITH"));
        new.extend(keyword("RECURSIVE"));
        new.extend(own.clone());
        new.extend(parts.text(list.clone()));
        new.push(space());
        new.extend(keyword("AS"));
        new.push(Token::LParen);
        new.extend(query);
        new.extend([Token::RParen, space()]);
        new.extend(all());
        new.extend(own);
        return Some(parts.replaced(vec![(kind..kind + 1, Vec::new()), (end..last, new)]));
    }
    if is_view {
        return None;
    }
    new.extend(all());
    new.push(Token::LParen);
    new.extend(query);
    new.extend([Token::RParen, space()]);
    new.extend(keyword("AS"));
    new.push(Token::make_word(NAMED, None));
    if let Some(list) = list {
        new.extend(parts.text(list));
    }
    if without_rows {
        new.push(space());
        new.extend(keyword("LIMIT"));
        new.push(Token::Number("0".to_owned(), false));
    }
    Some(parts.replaced(vec![(end..last, new)]))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn names_are_those_of_a_query_around() {
        for (sql, usual) in [
            (
                "CREATE TABLE u(x, y) AS SELECT a, b FROM t",
                "CREATE TABLE u AS SELECT * FROM (SELECT a, b FROM t) AS ogee_named (x, y)",
            ),
            (
                "CREATE TABLE u AS FROM t WITH NO DATA",
                "CREATE TABLE u AS SELECT * FROM (SELECT * FROM t) AS ogee_named LIMIT 0",
            ),
            (
                "CREATE TABLE u AS SELECT a FROM t WITH DATA",
                "CREATE TABLE u AS SELECT * FROM (SELECT a FROM t) AS ogee_named",
            ),
            (
                "CREATE RECURSIVE VIEW v(n) AS SELECT a FROM t UNION ALL SELECT n + 1 FROM v WHERE n < 3",
                "CREATE VIEW v AS WITH RECURSIVE v (n) AS (SELECT a FROM t UNION ALL SELECT n + 1 FROM v WHERE n < 3) SELECT * FROM v",
            ),
            ("CREATE TABLE u AS SELECT a FROM t", "CREATE TABLE u AS SELECT a FROM t"),
        ] {
            assert_eq!(parse(sql).unwrap().pop().unwrap().to_string(), usual, "{sql}");
        }
    }
}
