//! `PIVOT t ON a USING sum(x)`, `UNPIVOT t ON a, b` and `FROM t PIVOT (sum(x) FOR a IN ('v'))`, in words that the parser knows.
//!
//! Each becomes a `SELECT` of one output, a call that says what is wanted: `SELECT ogee_pivot(ogee_on(a, 'v'), ogee_using(sum(x), 'name'), ogee_group(g)) FROM t`.
//! Behind a table it is written within `PIVOT (.. FOR ogee IN (0))`, which the parser knows, and is taken out of there when it is parsed.
//!
//! Not here: what is selected in the place of the call, which depends on the columns of tables (`crate::pivots`).

use std::ops::Range;

use datafusion::sql::sqlparser::{
    ast::{Expr, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins},
    tokenizer::{Token, TokenWithSpan, Word},
};
use ogee_functions::{Error, Result};

use super::{
    parts::{Parts, call_of, space},
    summaries::{DESCRIPTION, SUMMARY},
};

pub(crate) const PIVOT: &str = "ogee_pivot";
pub(crate) const UNPIVOT: &str = "ogee_unpivot";
/// What rows are told apart by, and the values that are wanted; none, if all are.
pub(crate) const ON: &str = "ogee_on";
/// A value, or columns that become one row, and what they are called.
pub(crate) const NAMED: &str = "ogee_named";
/// Several expressions in brackets.
pub(crate) const TOGETHER: &str = "ogee_together";
/// An aggregate, and its name if it has one.
pub(crate) const USING: &str = "ogee_using";
/// A column that rows are grouped by.
pub(crate) const GROUP: &str = "ogee_group";
/// Names of columns that are made.
pub(crate) const NAMES: &str = "ogee_names";

/// Calls that stand for what is selected, which depends on the columns of tables.
pub(crate) const CALLS: [&str; 4] = [PIVOT, UNPIVOT, SUMMARY, DESCRIPTION];

/// Words that end a list of a `PIVOT`.
const CLAUSES: &[&str] = &[
    "USING",
    "GROUP",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "INTO",
    "FETCH",
    "HAVING",
    "WHERE",
    "QUALIFY",
];

/// `tokens` with pivots in words that the parser knows.
///
/// # Errors
/// [`Error::Parse`] or [`Error::Unsupported`] for those that are not understood.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let is_one = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.value.as_bytes().windows(5).any(|part| part.eq_ignore_ascii_case(b"pivot")),
        _ => false,
    };
    if !tokens.iter().any(is_one) {
        return Ok(tokens);
    }
    let mut tokens = tokens;
    // One within another is written out first: it is behind.
    loop {
        let parts = Parts::new(&tokens);
        let mut places = (0..parts.len()).rev().filter(|&nth| kind(&parts, nth).is_some());
        let Some(new) = places.find_map(|nth| written(&parts, nth).transpose()) else { return Ok(tokens) };
        tokens = parts.replaced(vec![new?]);
    }
}

/// Whether a word is `PIVOT`, with true, or `UNPIVOT`.
fn kind(parts: &Parts<'_>, nth: usize) -> Option<bool> {
    match parts.token(nth) {
        Some(Token::Word(Word { value, quote_style: None, .. })) => match value.to_ascii_uppercase().as_str() {
            "PIVOT" | "PIVOT_WIDER" => Some(true),
            "UNPIVOT" | "PIVOT_LONGER" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn wrong<T>(parts: &Parts<'_>, at: usize, expected: &str) -> Result<T> {
    let found = parts.token(at).map_or("the end".to_owned(), ToString::to_string);
    Err(Error::Parse(format!("not understood as SQL: Expected: {expected}, found: {found}")))
}

type Written = (Range<usize>, Vec<Token>);

/// What to write in the place of the pivot at `nth`; `None` where the word is none, or is written already.
fn written(parts: &Parts<'_>, nth: usize) -> Result<Option<Written>> {
    let is_pivot = kind(parts, nth) == Some(true);
    let nulls = parts.is_word(nth + 1, &["INCLUDE", "EXCLUDE"]) && parts.is_word(nth + 2, &["NULLS"]);
    let open = if nulls { nth + 3 } else { nth + 1 };
    if let (true, Some(close)) = (parts.is(open, &Token::LParen), parts.closing(open)) {
        let is_for = |nth: usize| parts.is_word(nth, &["FOR"]);
        let at = parts.find(open + 1, is_for);
        if at < close && is_for(at) {
            if parts.is_word(open + 1, &[PIVOT, UNPIVOT]) {
                return Ok(None);
            }
            let call = match is_pivot {
                true => behind_pivot(parts, open, at, close)?,
                false => behind_unpivot(parts, open, at, close, parts.is_word(nth + 1, &["INCLUDE"]))?,
            };
            let word = |word: &str| [space(), Token::make_word(word, None)];
            let mut tokens =
                vec![Token::make_keyword(if is_pivot { "PIVOT" } else { "UNPIVOT" }), space(), Token::LParen];
            tokens.extend(call);
            tokens.extend(word("FOR").into_iter().chain(word("ogee")).chain(word("IN")));
            let value = if is_pivot { Token::Number("0".to_owned(), false) } else { Token::make_word("ogee", None) };
            tokens.extend([space(), Token::LParen, value, Token::RParen, Token::RParen]);
            return Ok(Some((nth..close + 1, tokens)));
        }
    }
    if !parts.may_begin_query(nth) {
        return Ok(None);
    }
    statement(parts, nth, is_pivot)
}

/// `PIVOT source ON .. USING .. GROUP BY ..`, or an `UNPIVOT`.
fn statement(parts: &Parts<'_>, nth: usize, is_pivot: bool) -> Result<Option<Written>> {
    let until = |from: usize, words: &[&str]| parts.find(from, |nth| parts.is_word(nth, words));
    let source_end = until(nth + 1, &[&["ON"], CLAUSES].concat());
    let source = parts.text(nth + 1..source_end);
    let mut at = source_end;
    let mut args = Vec::new();
    if is_pivot {
        if !parts.is_word(at, &["ON", "USING", "GROUP"]) {
            return Ok(None);
        }
        if parts.is_word(at, &["ON"]) {
            let end = until(at + 1, CLAUSES);
            for item in parts.items(at + 1..end) {
                args.push(on(parts, item)?);
            }
            at = end;
        }
        if parts.is_word(at, &["USING"]) {
            let end = until(at + 1, &CLAUSES[1..]);
            args.extend(parts.items(at + 1..end).into_iter().map(|item| using(parts, item)));
            at = end;
        }
        if parts.is_word(at, &["GROUP"]) && parts.is_word(at + 1, &["BY"]) {
            let end = until(at + 2, &CLAUSES[2..]);
            args.extend(parts.items(at + 2..end).into_iter().map(|item| call_of(GROUP, [parts.text(item)])));
            at = end;
        }
    } else {
        if !parts.is_word(at, &["ON"]) {
            return Ok(None);
        }
        let end = until(at + 1, CLAUSES);
        let entries: Vec<Vec<Token>> = parts.items(at + 1..end).into_iter().map(|item| entry(parts, item)).collect();
        at = end;
        let (mut name, mut values) = (Some("name".to_owned()), vec!["value".to_owned()]);
        if parts.is_word(at, &["INTO"]) {
            if !parts.is_word(at + 1, &["NAME"]) {
                return wrong(parts, at + 1, "INTO NAME column VALUE column");
            }
            name = word(parts, at + 2);
            if name.is_none() || !parts.is_word(at + 3, &["VALUE"]) {
                return wrong(parts, at + 3, "INTO NAME column VALUE column");
            }
            let end = until(at + 4, CLAUSES);
            values = parts.items(at + 4..end).into_iter().filter_map(|item| word(parts, item.start)).collect();
            at = end;
        }
        args.push(names(name, &values, false));
        args.extend(entries);
    }
    if parts.is_word(at, &["HAVING", "WHERE", "QUALIFY", "USING", "INTO"]) {
        return wrong(parts, at, "ORDER BY, LIMIT or the end of PIVOT; a condition stands in FROM (PIVOT ..) WHERE");
    }
    let word = |word: &str| [Token::make_keyword(word), space()];
    let mut tokens: Vec<Token> = word("SELECT").to_vec();
    tokens.extend(call_of(if is_pivot { PIVOT } else { UNPIVOT }, args));
    tokens.extend([space()].into_iter().chain(word("FROM")).chain(source));
    // An order, and what else is behind it, is of what the pivot gives.
    if !matches!(parts.token(at), None | Some(Token::RParen | Token::SemiColon | Token::EOF)) {
        let outer = word("SELECT").into_iter().chain([Token::Mul, space()]).chain(word("FROM")).chain([Token::LParen]);
        tokens = outer.chain(tokens).chain([Token::RParen]).collect();
    }
    Ok(Some((nth..at, tokens)))
}

/// The name that token `nth` is.
fn word(parts: &Parts<'_>, nth: usize) -> Option<String> {
    match parts.token(nth)? {
        Token::Word(Word { value, .. }) | Token::SingleQuotedString(value) => Some(value.clone()),
        _ => None,
    }
}

fn text(value: &str) -> Vec<Token> {
    vec![Token::SingleQuotedString(value.to_owned())]
}

fn names(name: Option<String>, values: &[String], nulls: bool) -> Vec<Token> {
    let nulls = vec![Token::make_keyword(if nulls { "TRUE" } else { "FALSE" })];
    let texts = name.iter().chain(values).map(|name| text(name));
    call_of(NAMES, std::iter::once(nulls).chain(texts))
}

/// The name that stands behind what `item` has, and where that ends.
fn alias(parts: &Parts<'_>, item: &Range<usize>) -> (usize, Option<String>) {
    let (Some(last), Some(before)) = (item.end.checked_sub(1), item.end.checked_sub(2)) else {
        return (item.end, None);
    };
    if before < item.start {
        return (item.end, None);
    }
    if before > item.start && parts.is_word(before, &["AS"]) {
        return (before, word(parts, last));
    }
    let ends = matches!(
        parts.token(before),
        Some(Token::RParen | Token::RBracket | Token::Number(..) | Token::SingleQuotedString(_))
    );
    let is_name = matches!(parts.token(last), Some(Token::Word(_))) && !parts.is_word(last, &["END", "NULL"]);
    if ends && is_name { (last, word(parts, last)) } else { (item.end, None) }
}

/// `a`, `a IN ('x', 'y' AS z)`, `(a, b) IN ((1, 2))`
fn on(parts: &Parts<'_>, item: Range<usize>) -> Result<Vec<Token>> {
    let is_in = |nth: usize| parts.is_word(nth, &["IN"]) && !parts.is_word(nth.wrapping_sub(1), &["NOT"]);
    let at = parts.find(item.start, is_in);
    if at >= item.end {
        return Ok(call_of(ON, [together(parts, item.clone())]));
    }
    let close = parts.closing(at + 1).filter(|&close| parts.is(at + 1, &Token::LParen) && close + 1 == item.end);
    let Some(close) = close else {
        return wrong(parts, at + 1, "the values of PIVOT in brackets");
    };
    let values: Vec<Vec<Token>> = match parts.is_word(at + 2, &["SELECT", "FROM", "WITH", "VALUES"]) {
        true => vec![parts.text(at + 1..close + 1)],
        false => parts.items(at + 2..close).into_iter().map(|value| named(parts, value)).collect(),
    };
    if values.is_empty() {
        return wrong(parts, close, "a value of PIVOT");
    }
    Ok(call_of(ON, std::iter::once(together(parts, item.start..at)).chain(values)))
}

/// `(a, b)` as `ogee_together(a, b)`; everything else as it is.
fn together(parts: &Parts<'_>, item: Range<usize>) -> Vec<Token> {
    if parts.is(item.start, &Token::LParen) && parts.closing(item.start) == item.end.checked_sub(1) {
        let inner = parts.items(item.start + 1..item.end - 1);
        if inner.len() > 1 {
            return call_of(TOGETHER, inner.into_iter().map(|item| parts.text(item)));
        }
    }
    parts.text(item)
}

fn named(parts: &Parts<'_>, item: Range<usize>) -> Vec<Token> {
    let (end, name) = alias(parts, &item);
    let value = together(parts, item.start..end);
    match name {
        Some(name) => call_of(NAMED, [value, text(&name)]),
        None => value,
    }
}

fn using(parts: &Parts<'_>, item: Range<usize>) -> Vec<Token> {
    let (end, name) = alias(parts, &item);
    call_of(USING, std::iter::once(parts.text(item.start..end)).chain(name.map(|name| text(&name))))
}

/// What an `UNPIVOT` makes rows of: `a`, `a AS x`, `(a, b) AS y`, `COLUMNS(..)`, `* EXCLUDE (..)`
fn entry(parts: &Parts<'_>, item: Range<usize>) -> Vec<Token> {
    if parts.is(item.start, &Token::Mul) {
        return call_of("COLUMNS", [parts.text(item)]);
    }
    named(parts, item)
}

/// What stands in brackets behind `PIVOT`: `sum(x) FOR a IN (..) b IN (..) GROUP BY g`
fn behind_pivot(parts: &Parts<'_>, open: usize, at: usize, close: usize) -> Result<Vec<Token>> {
    let mut args: Vec<Vec<Token>> = Vec::new();
    let mut from = at + 1;
    while from < close && !parts.is_word(from, &["GROUP"]) {
        let values = parts.find(from, |nth| parts.is_word(nth, &["IN"]));
        let end = parts.closing(values + 1).filter(|&end| end < close && parts.is(values + 1, &Token::LParen));
        let Some(end) = end else { return wrong(parts, values.min(close), "FOR column IN (values of PIVOT)") };
        args.push(on(parts, from..end + 1)?);
        from = end + 1;
    }
    args.extend(parts.items(open + 1..at).into_iter().map(|item| using(parts, item)));
    if from < close {
        if !parts.is_word(from + 1, &["BY"]) {
            return wrong(parts, from + 1, "GROUP BY");
        }
        args.extend(parts.items(from + 2..close).into_iter().map(|item| call_of(GROUP, [parts.text(item)])));
    }
    Ok(call_of(PIVOT, args))
}

/// What stands in brackets behind `UNPIVOT`: `v FOR n IN (a, b AS 'x')`
fn behind_unpivot(parts: &Parts<'_>, open: usize, at: usize, close: usize, nulls: bool) -> Result<Vec<Token>> {
    let bracketed = parts.is(open + 1, &Token::LParen);
    let values = if bracketed { open + 2..at - 1 } else { open + 1..at };
    let values: Vec<String> = parts.items(values).into_iter().filter_map(|item| word(parts, item.start)).collect();
    let list = at + 3;
    let is_list = parts.is_word(at + 2, &["IN"]) && parts.is(list, &Token::LParen);
    if values.is_empty() || !is_list || parts.closing(list).map(|end| end + 1) != Some(close) {
        return wrong(parts, at + 1, "UNPIVOT (value FOR name IN (columns))");
    }
    let entries = parts.items(list + 1..close - 1).into_iter().map(|item| entry(parts, item));
    let names = names(word(parts, at + 1), &values, nulls);
    Ok(call_of(UNPIVOT, std::iter::once(names).chain(entries)))
}

/// The call that `select` is, if it is a pivot, a summary or a description.
pub(crate) fn marked(select: &Select) -> Option<&Expr> {
    let [SelectItem::UnnamedExpr(call) | SelectItem::ExprWithAlias { expr: call, .. }] = &select.projection[..] else {
        return None;
    };
    let Expr::Function(function) = call else { return None };
    let name = function.name.to_string();
    CALLS.contains(&name.as_str()).then_some(call)
}

/// Makes the pivots behind tables of `from` queries.
pub(super) fn as_queries(from: &mut [TableWithJoins]) {
    for table in from {
        for factor in std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation))
        {
            in_factor(factor);
        }
    }
}

fn in_factor(factor: &mut TableFactor) {
    if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
        as_queries(std::slice::from_mut(table_with_joins));
    }
    let (call, table, alias) = match factor {
        TableFactor::Pivot { aggregate_functions, table, alias, .. } => match &aggregate_functions[..] {
            [call] => (call.expr.clone(), table, alias.take()),
            _ => return,
        },
        TableFactor::Unpivot { value, table, alias, .. } => (value.clone(), table, alias.take()),
        _ => return,
    };
    let mut table = (**table).clone();
    in_factor(&mut table);
    if let Some(query) = selecting(call, table) {
        *factor = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None };
    }
}

/// `SELECT call FROM table`
fn selecting(call: Expr, table: TableFactor) -> Option<Query> {
    let mut query = super::query_of("SELECT 0 FROM ogee")?;
    if let SetExpr::Select(select) = &mut *query.body {
        select.projection = vec![SelectItem::UnnamedExpr(call)];
        select.from = vec![TableWithJoins { relation: table, joins: Vec::new() }];
    }
    Some(query)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn pivots_are_calls() {
        for (sql, usual) in [
            (
                "PIVOT t ON a USING sum(x) GROUP BY g ORDER BY g",
                "SELECT * FROM (SELECT ogee_pivot(ogee_on(a), ogee_using(sum(x)), ogee_group(g)) FROM t) ORDER BY g",
            ),
            (
                "UNPIVOT t ON a, (b, c) AS n INTO NAME k VALUE v, w",
                "SELECT ogee_unpivot(ogee_names(false, 'k', 'v', 'w'), a, ogee_named(ogee_together(b, c), 'n')) FROM t",
            ),
            (
                "SELECT * FROM t AS u PIVOT (max(x) AS m FOR a IN (1, 'v' AS z)) AS p",
                "SELECT * FROM (SELECT ogee_pivot(ogee_on(a, 1, ogee_named('v', 'z')), ogee_using(max(x), 'm')) \
                 FROM t AS u) AS p",
            ),
            ("INSERT INTO u PIVOT t ON a", "INSERT INTO u SELECT ogee_pivot(ogee_on(a)) FROM t"),
            ("SELECT pivot FROM t", "SELECT pivot FROM t"),
        ] {
            assert_eq!(parse(sql).unwrap().pop().unwrap().to_string(), usual, "{sql}");
        }
        for (sql, named) in [
            ("PIVOT t ON a USING sum(x) HAVING x", "a condition stands in FROM (PIVOT ..) WHERE"),
            ("PIVOT t ON a IN b USING sum(x)", "in brackets"),
            ("UNPIVOT t ON a INTO VALUE v", "INTO NAME column VALUE column"),
            ("SELECT * FROM t UNPIVOT (v FOR n)", "UNPIVOT (value FOR name IN (columns))"),
        ] {
            let Err(error) = parse(sql) else { panic!("{sql}") };
            assert!(error.to_string().contains(named), "{sql}: {error}");
        }
    }
}
