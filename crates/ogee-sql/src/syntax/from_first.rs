//! `FROM` before `SELECT`, or without one: `FROM t` is `SELECT * FROM t`.
//!
//! The parser takes `FROM t` for a `SELECT` without outputs, takes nothing behind it (`FROM t WHERE ...`), and takes the `FROM` behind a `WITH` query for that
//! query's own. So `SELECT *` is put before the `FROM` among the tokens; a query that says `SELECT` later, behind `WITH`, gets brackets.
//!
//! Not here: what is selected.

use datafusion::sql::sqlparser::{
    ast::{Select, SelectFlavor, SelectItem, WildcardAdditionalOptions},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

/// One pair of brackets, or the statement.
#[derive(Default)]
struct Level {
    /// Keywords seen in this part of the level: a part ends with `UNION` and the like.
    words: usize,
    /// The part begins with `WITH`.
    with: bool,
    /// `SELECT` was seen in this part.
    selected: bool,
    /// The statement's first keyword.
    first: Option<Keyword>,
    /// Brackets within which `FROM` is a word of a function, such as `TRIM(FROM s)`.
    is_call: bool,
}

/// `TABLE t` is `FROM t`, also of a file.
fn tables_as_queries(tokens: &mut [TokenWithSpan]) {
    let significant = super::significant(tokens);
    for nth in 0..significant.len() {
        if super::keyword(&tokens[significant[nth]].token) != Keyword::TABLE {
            continue;
        }
        let before = nth.checked_sub(1).map(|nth| &tokens[significant[nth]].token);
        let begins = match before {
            None | Some(Token::SemiColon | Token::LParen | Token::RParen) => true,
            Some(before) => matches!(
                super::keyword(before),
                Keyword::AS | Keyword::UNION | Keyword::ALL | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::DISTINCT
            ),
        };
        let of = significant.get(nth + 1).map(|&at| &tokens[at].token);
        if begins && matches!(of, Some(Token::SingleQuotedString(_) | Token::Word(_))) {
            tokens[significant[nth]].token = Token::make_keyword("FROM");
        }
    }
}

/// `tokens`, in which every query begins with `SELECT`.
pub(crate) fn with_selects(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    tables_as_queries(&mut tokens);
    use Keyword::{
        ALL, AS, BY, DISTINCT, EXCEPT, EXPLAIN, FROM, INSERT, INTERSECT, MINUS, NAME, SELECT, TRIM, UNION, WITH,
    };
    let significant = super::significant(&tokens);
    let keyword = |nth: usize| significant.get(nth).map_or(Keyword::NoKeyword, |&at| super::keyword(&tokens[at].token));
    let mut levels = vec![Level::default()];
    // What to put before tokens.
    let mut insertions: Vec<(usize, Vec<Token>)> = Vec::new();
    for (nth, &at) in significant.iter().enumerate() {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        let previous = nth.checked_sub(1).map(|nth| significant[nth]);
        match &tokens[at].token {
            Token::LParen => {
                level.words += 1;
                let is_call = nth > 0 && keyword(nth - 1) == TRIM;
                levels.push(Level { is_call, ..Level::default() });
            }
            Token::RParen if depth > 1 => drop(levels.pop()),
            Token::SemiColon if depth == 1 => *level = Level::default(),
            Token::Word(_) => match keyword(nth) {
                UNION | EXCEPT | INTERSECT | MINUS if level.selected => {
                    (level.words, level.with, level.selected) = (0, false, false);
                }
                ALL | DISTINCT | BY | NAME if level.words == 0 && nth > 0 => {}
                FROM if !level.selected && !level.is_call => {
                    let after = previous.map(|at| &tokens[at].token);
                    let behind_as = matches!(after, Some(Token::Word(_))) && keyword(nth - 1) == AS;
                    let begins = level.words == 0
                        || level.with && matches!(after, Some(Token::RParen))
                        || depth == 1 && (behind_as || level.first == Some(INSERT))
                        || depth == 1
                            && level.first == Some(EXPLAIN)
                            && nth > 0
                            && is_of_explain(&tokens, &significant[..nth]);
                    level.words += 1;
                    if begins {
                        let (selects, end) = rest(&tokens, &significant[nth + 1..]);
                        level.selected = true;
                        if !selects {
                            insertions.push((at, vec![Token::make_keyword("SELECT"), Token::Mul]));
                        } else if level.with {
                            insertions.push((at, vec![Token::LParen]));
                            insertions.push((end.unwrap_or(tokens.len()), vec![Token::RParen]));
                        }
                    }
                }
                word => {
                    level.with |= word == WITH && level.words == 0;
                    level.selected |= word == SELECT;
                    level.first = level.first.or(Some(word));
                    level.words += 1;
                }
            },
            _ => level.words += 1,
        }
    }
    if insertions.is_empty() {
        return tokens;
    }
    insertions.sort_by_key(|(at, _)| *at);
    let mut insertions = insertions.into_iter().peekable();
    let mut all = Vec::with_capacity(tokens.len() + 8);
    let mut end = None;
    let space = Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space);
    for at in 0..=tokens.len() {
        let span = tokens.get(at).map(|token| token.span).or(end);
        while let Some((_, new)) = insertions.next_if(|(before, _)| *before == at)
            && let Some(span) = span
        {
            for token in new {
                all.push(TokenWithSpan { token: space.clone(), span });
                all.push(TokenWithSpan { token, span });
            }
            all.push(TokenWithSpan { token: space.clone(), span });
        }
        if let Some(token) = tokens.get(at) {
            end = Some(token.span);
            all.push(token.clone());
        }
    }
    all
}

/// Whether all words of the statement so far are those of `EXPLAIN`.
fn is_of_explain(tokens: &[TokenWithSpan], before: &[usize]) -> bool {
    use Keyword::{ANALYZE, EXPLAIN, VERBOSE};
    let last = before.last().map(|&at| &tokens[at].token);
    matches!(last, Some(Token::RParen))
        || last.is_some_and(|token| [EXPLAIN, ANALYZE, VERBOSE].contains(&super::keyword(token)))
}

/// Whether the query that goes on with the tokens at `rest` says `SELECT`, and where the level ends that it is in.
fn rest(tokens: &[TokenWithSpan], rest: &[usize]) -> (bool, Option<usize>) {
    let (mut depth, mut selects, mut first_part) = (0_usize, false, true);
    for &at in rest {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return (selects, Some(at)),
            Token::RParen => depth -= 1,
            Token::SemiColon if depth == 0 => return (selects, Some(at)),
            token if depth == 0 => match super::keyword(token) {
                Keyword::SELECT => selects |= first_part,
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => first_part = false,
                _ => {}
            },
            _ => {}
        }
    }
    (selects, None)
}

/// `FROM t SELECT x` is `SELECT x FROM t`.
pub(super) fn in_select(select: &mut Select) {
    if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
        select.projection.push(SelectItem::Wildcard(WildcardAdditionalOptions::default()));
    }
    select.flavor = SelectFlavor::Standard;
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn queries_may_begin_with_from() {
        for (sql, usual) in [
            ("FROM t", "SELECT * FROM t"),
            ("FROM t WHERE a > 1 ORDER BY a LIMIT 3", "SELECT * FROM t WHERE a > 1 ORDER BY a LIMIT 3"),
            ("FROM t SELECT a WHERE b", "SELECT a FROM t WHERE b"),
            ("FROM (FROM t JOIN u USING (k))", "SELECT * FROM (SELECT * FROM t JOIN u USING (k))"),
            ("FROM t UNION ALL FROM u", "SELECT * FROM t UNION ALL SELECT * FROM u"),
            ("FROM t SELECT a UNION FROM u EXCEPT SELECT 1", "SELECT a FROM t UNION SELECT * FROM u EXCEPT SELECT 1"),
            ("WITH c AS (FROM t) FROM c", "WITH c AS (SELECT * FROM t) SELECT * FROM c"),
            (
                "WITH c AS (FROM t), d AS (SELECT 1) FROM c, d WHERE x",
                "WITH c AS (SELECT * FROM t), d AS (SELECT 1) SELECT * FROM c, d WHERE x",
            ),
            (
                "WITH c AS (SELECT 1 AS x) FROM c SELECT x ORDER BY x",
                "WITH c AS (SELECT 1 AS x) (SELECT x FROM c ORDER BY x)",
            ),
            ("INSERT INTO t FROM u", "INSERT INTO t SELECT * FROM u"),
            ("INSERT INTO t (a, b) FROM u", "INSERT INTO t (a, b) SELECT * FROM u"),
            ("CREATE TABLE t AS FROM u", "CREATE TABLE t AS SELECT * FROM u"),
            ("EXPLAIN ANALYZE FROM t", "EXPLAIN ANALYZE SELECT * FROM t"),
            (
                "SELECT EXISTS (FROM t), extract(year FROM d) FROM u",
                "SELECT EXISTS (SELECT * FROM t), extract(year FROM d) FROM u",
            ),
            ("SELECT 1 IN (FROM t) FROM u; FROM v", "SELECT 1 IN (SELECT * FROM t) FROM u"),
            ("DELETE FROM t", "DELETE FROM t"),
            ("SELECT a IS DISTINCT FROM b FROM t", "SELECT a IS DISTINCT FROM b FROM t"),
        ] {
            let statements = parse(sql).unwrap();
            let plain = parse(usual).unwrap();
            assert_eq!(statements[0].to_string(), plain[0].to_string(), "{sql}");
        }
    }
}
