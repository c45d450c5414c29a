//! From the text to joins whose conditions are marked.
//!
//! To the parser a join's `GLOBAL` (ClickHouse's, which is refused here) may stand where `ASOF` may, so the one word takes the place of the other among
//! the tokens. In what is parsed such a join gets its condition wrapped in the function [`MARK`], and becomes an ordinary one.
//!
//! Not here: `USING`, which has become `ON` before (`syntax`), since DataFusion would take columns of one name for equal ones.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::{CopyToSource, Statement as Parsed},
    sqlparser::{
        ast::{Expr, Join, JoinConstraint, JoinOperator, Select, TableFactor, Value, VisitorMut},
        keywords::Keyword,
        parser::ParserError,
        tokenizer::{Token, TokenWithSpan, Tokenizer},
    },
};
use ogee_functions::{Error, Result};

use super::logical::MARK;
use crate::{dialect::OgeeDialect, names::call, visitors};

fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Whether a join begins with the `tokens` that follow a word before it.
fn is_join<'a>(tokens: impl Iterator<Item = &'a Token>) -> bool {
    use Keyword::{ANTI, FULL, INNER, JOIN, LEFT, OUTER, RIGHT, SEMI};
    let keywords = tokens.filter(|token| !matches!(token, Token::Whitespace(_))).map(keyword);
    let mut keywords = keywords.skip_while(|keyword| [INNER, LEFT, RIGHT, FULL, OUTER, SEMI, ANTI].contains(keyword));
    keywords.next() == Some(JOIN)
}

/// Whether a join without a condition begins with `tokens`.
fn is_cross_join(tokens: &[TokenWithSpan]) -> bool {
    let mut keywords =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).map(|token| keyword(&token.token));
    keywords.next() == Some(Keyword::CROSS) && keywords.next() == Some(Keyword::JOIN)
}

/// The tokens of `sql` for the parser, and how many `ASOF` joins there are among them.
///
/// # Errors
/// [`Error::Parse`] where there is no token, [`Error::Unsupported`] for `GLOBAL`.
pub(crate) fn tokens(sql: &str) -> Result<(Vec<TokenWithSpan>, usize)> {
    let found = Tokenizer::new(&OgeeDialect, sql).tokenize_with_location().map_err(ParserError::from);
    let all = found.map_err(datafusion::error::DataFusionError::from)?;
    let mut joins = 0;
    let mut kept = Vec::with_capacity(all.len());
    for (at, token) in all.iter().enumerate() {
        let word = keyword(&token.token);
        let before_join =
            matches!(word, Keyword::ASOF | Keyword::GLOBAL) && is_join(all[at + 1..].iter().map(|token| &token.token));
        match word {
            Keyword::ASOF if before_join => {
                joins += 1;
                kept.push(TokenWithSpan { token: Token::make_keyword("GLOBAL"), span: token.span });
            }
            Keyword::GLOBAL if before_join || is_cross_join(&all[at + 1..]) => {
                return Err(Error::Unsupported("GLOBAL JOIN is not supported; use JOIN".to_owned()));
            }
            _ => kept.push(token.clone()),
        }
    }
    Ok((kept, joins))
}

/// Marks the conditions of the joins of `statements`, which were parsed of [`tokens`], `joins` of them `ASOF`.
///
/// # Errors
/// [`Error::Plan`] where one has no condition that could be marked.
pub(crate) fn mark<'a>(statements: impl Iterator<Item = &'a mut Parsed>, joins: usize) -> Result<()> {
    let mut marks = Marks { joins: 0 };
    let broken = statements.map(|statement| in_parsed(&mut marks, statement)).find_map(ControlFlow::break_value);
    match broken {
        Some(error) => Err(error),
        None if marks.joins < joins => Err(Error::Plan("ASOF JOIN is not supported here".to_owned())),
        None => Ok(()),
    }
}

fn in_parsed(marks: &mut Marks, statement: &mut Parsed) -> ControlFlow<Error> {
    match statement {
        Parsed::Statement(statement) => visitors::visit_mut(statement, marks),
        Parsed::Explain(explain) => in_parsed(marks, &mut explain.statement),
        Parsed::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => visitors::visit_mut(query, marks),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => ControlFlow::Continue(()),
    }
}

struct Marks {
    /// Joins that were marked.
    joins: usize,
}

impl Marks {
    fn in_joins(&mut self, joins: &mut [Join]) -> ControlFlow<Error> {
        for join in joins.iter_mut().filter(|join| join.global) {
            join.global = false;
            self.joins += 1;
            let Some(JoinConstraint::On(condition)) = constraint(&mut join.join_operator) else {
                let message = "ASOF JOIN takes its condition with ON, such as ON a.k = b.k AND a.t >= b.t";
                return ControlFlow::Break(Error::Plan(message.to_owned()));
            };
            let arg = std::mem::replace(condition, Expr::value(Value::Null));
            *condition = call(MARK, vec![arg]);
        }
        ControlFlow::Continue(())
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator as J;
    match operator {
        J::Join(on) | J::Inner(on) | J::Left(on) | J::LeftOuter(on) | J::Right(on) | J::RightOuter(on) => Some(on),
        J::FullOuter(on) | J::LeftSemi(on) | J::LeftAnti(on) => Some(on),
        // DataFusion has these by other names only.
        J::Semi(_) | J::Anti(_) => {
            let (J::Semi(on) | J::Anti(on)) = &*operator else { unreachable!("matched above") };
            *operator = if matches!(operator, J::Semi(_)) { J::LeftSemi(on.clone()) } else { J::LeftAnti(on.clone()) };
            constraint(operator)
        }
        _ => None,
    }
}

impl VisitorMut for Marks {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for from in &mut select.from {
            self.in_joins(&mut from.joins)?;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => self.in_joins(&mut table_with_joins.joins),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn conditions_of_asof_joins_are_marked() {
        for (sql, marked) in [
            ("SELECT * FROM a ASOF JOIN b ON a.t >= b.t", "SELECT * FROM a JOIN b ON ogee_asof(a.t >= b.t)"),
            (
                "SELECT * FROM a AS x asof LEFT JOIN b y ON x.k = y.k AND x.t > y.t JOIN c ON true",
                "SELECT * FROM a AS x LEFT JOIN b y ON ogee_asof(x.k = y.k AND x.t > y.t) JOIN c ON true",
            ),
            (
                "SELECT * FROM (a ASOF ANTI JOIN b ON a.t < b.t) WHERE EXISTS (SELECT 1 FROM a ASOF JOIN b ON a.t < b.t)",
                "SELECT * FROM (a LEFT ANTI JOIN b ON ogee_asof(a.t < b.t)) WHERE EXISTS \
                 (SELECT 1 FROM a JOIN b ON ogee_asof(a.t < b.t))",
            ),
            ("SELECT asof, a.asof FROM a, b", "SELECT asof, a.asof FROM a, b"),
        ] {
            let statement = parse(sql).unwrap().pop().unwrap();
            let plain = parse(marked).unwrap().pop().unwrap();
            assert_eq!(statement.to_string(), plain.to_string(), "{sql}");
        }
    }

    #[test]
    fn an_asof_join_has_a_condition() {
        let error = parse("SELECT * FROM a ASOF LEFT JOIN b").unwrap_err();
        assert!(error.to_string().contains("takes its condition with ON"));
        assert!(parse("UPDATE a SET x = 1 FROM a ASOF JOIN b ON a.t > b.t").is_err());
    }
}
