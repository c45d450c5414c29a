//! How deep a statement is, told from its tokens: what is too deep is refused before there is a tree of it.
//!
//! Trees are as deep as brackets are nested and as operators of one precedence follow one another: `a + b + c` is `(a + b) + c`. Only chains of `AND` and `OR` do not
//! count, which the dialect makes balanced trees of. The depth told here is no less than that of the parser's tree: a part of a list, or of a
//! condition between `AND` and `OR`, is as deep as it has operators, and its deepest bracket.
//!
//! Not here: stacks, which have room for what is let in (`large_stack`).

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};
use ogee_functions::{Error, Result};

/// Levels of an expression. DuckDB has the same limit.
pub(crate) const DEPTH_MAX: usize = 1000;

/// Queries of a chain of `UNION`, `EXCEPT` and `INTERSECT`, whose plans are nested.
pub(crate) const SET_OPERATIONS_MAX: usize = 1000;

/// A bracket that is open, and the part of a list or condition that ends where it stands.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Operators of this part, and what is in its brackets.
    operators: usize,
    inner: usize,
    /// The deepest part so far.
    deepest: usize,
    set_operations: usize,
    /// Opened by `CASE`, closed by `END`.
    is_case: bool,
}

impl Level {
    fn end_part(&mut self) {
        self.deepest = self.deepest.max(self.operators + self.inner);
        (self.operators, self.inner) = (0, 0);
    }
}

/// # Errors
/// [`Error::Unsupported`] if the statements of `tokens` are nested too deep.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut levels = vec![Level::default()];
    // Whether what comes before could have a subscript.
    let mut after_value = false;
    for TokenWithSpan { token, .. } in tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))) {
        let top = levels.last_mut().expect("the statement's own is never closed");
        if *token == Token::LBracket && after_value {
            top.operators += 1;
        }
        after_value = matches!(token, Token::RBracket | Token::RParen | Token::Word(_) | Token::SingleQuotedString(_));
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => levels.push(Level::default()),
            Token::RParen | Token::RBracket | Token::RBrace => {
                // A CASE without its END is the parser's to refuse.
                while levels.len() > 1 && levels.last().is_some_and(|level| level.is_case) {
                    close(&mut levels);
                }
                close(&mut levels);
            }
            Token::Comma | Token::SemiColon => {
                top.end_part();
                if *token == Token::SemiColon {
                    top.set_operations = 0;
                }
            }
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::CASE => levels.push(Level { is_case: true, ..Level::default() }),
                Keyword::END if top.is_case => close(&mut levels),
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                    top.end_part();
                    top.set_operations += 1;
                    if top.set_operations >= SET_OPERATIONS_MAX {
                        return Err(Error::Unsupported(format!(
                            "more than {SET_OPERATIONS_MAX} queries in one chain of UNION, EXCEPT and INTERSECT; \
                             insert their rows into a table instead"
                        )));
                    }
                }
                keyword if ends_part(keyword) => top.end_part(),
                keyword if is_operator(keyword) => top.operators += 1,
                _ => {}
            },
            Token::Word(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::Period | Token::EOF => {}
            // Of all else it is enough that it may be an operator.
            _ => top.operators += 1,
        }
        let top = levels.last().expect("the statement's own is never closed");
        if levels.len() + top.operators + top.inner > DEPTH_MAX {
            return Err(Error::Unsupported(format!(
                "an expression is more than {DEPTH_MAX} levels deep: brackets in brackets, or operators after one another; \
                 compute a part of it in a subquery"
            )));
        }
    }
    Ok(())
}

/// Ends the bracket that was opened last, unless it is the statement.
fn close(levels: &mut Vec<Level>) {
    if levels.len() == 1 {
        return;
    }
    let Some(mut closed) = levels.pop() else { return };
    closed.end_part();
    if let Some(top) = levels.last_mut() {
        top.inner = top.inner.max(closed.deepest + 1);
    }
}

fn ends_part(keyword: Keyword) -> bool {
    use Keyword as K;
    matches!(
        keyword,
        K::AND
            | K::OR
            | K::WHEN
            | K::THEN
            | K::ELSE
            | K::SELECT
            | K::FROM
            | K::JOIN
            | K::ON
            | K::WHERE
            | K::GROUP
            | K::HAVING
            | K::ORDER
            | K::LIMIT
            | K::VALUES
    )
}

fn is_operator(keyword: Keyword) -> bool {
    use Keyword as K;
    matches!(
        keyword,
        K::NOT
            | K::IS
            | K::IN
            | K::LIKE
            | K::ILIKE
            | K::SIMILAR
            | K::RLIKE
            | K::REGEXP
            | K::BETWEEN
            | K::COLLATE
            | K::AT
            | K::DIV
            | K::XOR
            | K::INTERVAL
    )
}

#[cfg(test)]
mod tests {
    use crate::statement::parse;

    fn is_refused(sql: &str) -> bool {
        match crate::large_stack::on_large_stack(|| parse(sql).map(drop)).expect("the system has room for a thread") {
            Err(error) => {
                assert_eq!(error.code(), "OGEE_Q003", "{error}");
                true
            }
            Ok(()) => false,
        }
    }

    #[test]
    fn what_is_deep_is_refused_and_what_is_long_is_not() {
        for (repeated, few) in [("x + ", 900), ("x || ", 900), ("NOT ", 900), ("- ", 900), ("(", 900), ("abs(", 900)] {
            let of = |times: usize| {
                let closing = ")".repeat(repeated.matches('(').count() * times);
                format!("SELECT {}x{closing} FROM t", repeated.repeat(times))
            };
            assert!(!is_refused(&of(few)), "{repeated}");
            assert!(is_refused(&of(1100)), "{repeated}");
            assert!(is_refused(&of(100_000)), "{repeated}");
        }
        for repeated in ["x = 1 AND ", "x = 1 OR ", "x = 1 AND y = 2 OR "] {
            assert!(!is_refused(&format!("SELECT * FROM t WHERE {}true", repeated.repeat(5_000))), "{repeated}");
        }
        assert!(!is_refused(&format!("SELECT * FROM t WHERE x IN ({}1)", "1 + 1, ".repeat(5_000))));
        assert!(!is_refused(&format!("SELECT CASE {}END", "WHEN x = 1 THEN x + 1 ".repeat(5_000))));
        assert!(is_refused(&format!("SELECT {}1 {}", "CASE WHEN x THEN 1 ELSE ".repeat(1100), "END ".repeat(1100))));
        assert!(is_refused(&format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(1100))));
        // A chain whose first operand is a chain, and so on, is as deep as all of them.
        let nested = (0..100).fold("x".to_owned(), |inner, _| format!("({inner}){}", " + x".repeat(20)));
        assert!(is_refused(&format!("SELECT {nested}")));
    }
}
