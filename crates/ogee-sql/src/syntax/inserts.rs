//! `INSERT INTO t BY NAME SELECT ..`: the outputs of the query are for the columns of their names. `INSERT INTO t TABLE u` is one of `SELECT * FROM u`.
//!
//! The parser takes a list of columns there, and gets one of a name that nobody gives to a column. `INSERT INTO t (VALUES ..)` has no brackets.
//!
//! Not here: which columns these are, since the names of outputs are known when the query is planned (`changes::inserts`).

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::parts::{Parts, space};

/// The list of columns that stands for `BY NAME`.
pub(crate) const BY_NAME: &str = "ogee_by_name";

/// The same for `BY POSITION`, which is how it is anyway.
pub(crate) const BY_POSITION: &str = "ogee_by_position";

/// `tokens` without the brackets around `VALUES`, behind which the parser would look for a list of columns.
fn without_brackets(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let parts = Parts::new(&tokens);
    let mut brackets = Vec::new();
    let mut in_insert = false;
    for nth in 0..parts.len() {
        if parts.is_word(nth, &["INTO"]) {
            in_insert = true;
        } else if parts.is_word(nth, &["SELECT", "VALUES", "SET", "AS"]) {
            in_insert = false;
        } else if in_insert
            && parts.is(nth, &Token::LParen)
            && parts.is_word(nth + 1, &["VALUES"])
            && let Some(close) = parts.closing(nth)
            // One with an order or a limit is a query.
            && !(nth..close).any(|nth| parts.is_word(nth, &["ORDER", "LIMIT", "UNION"]))
        {
            brackets.extend([nth, close].map(|bracket| (bracket..bracket + 1, vec![space()])));
        }
    }
    if brackets.is_empty() { tokens } else { parts.replaced(brackets) }
}

/// `tokens` without `OVERRIDING SYSTEM VALUE` and `OVERRIDING USER VALUE`: no column has values of the system's alone.
fn without_overriding(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let parts = Parts::new(&tokens);
    let is_one = |nth: &usize| {
        parts.is_word(*nth, &["OVERRIDING"])
            && parts.is_word(nth + 1, &["SYSTEM", "USER"])
            && parts.is_word(nth + 2, &["VALUE"])
    };
    let replaced: Vec<_> = (0..parts.len()).filter(is_one).map(|nth| (nth..nth + 3, vec![space()])).collect();
    if replaced.is_empty() { tokens } else { parts.replaced(replaced) }
}

/// `tokens` with lists of columns for `BY NAME` and `BY POSITION` of inserts.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| super::keyword(&token.token) == Keyword::INTO) {
        return tokens;
    }
    let tokens = without_overriding(without_brackets(tokens));
    let significant = super::significant(&tokens);
    let keyword = |nth: usize| significant.get(nth).map_or(Keyword::NoKeyword, |&at| super::keyword(&tokens[at].token));
    let word = |nth: usize, word: &str| {
        significant.get(nth).is_some_and(|&at| match &tokens[at].token {
            Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
            _ => false,
        })
    };
    let mut replaced = Vec::new();
    let mut tables = Vec::new();
    let mut in_insert = false;
    for nth in 0..significant.len() {
        match keyword(nth) {
            Keyword::INTO => in_insert = nth > 0 && !matches!(keyword(nth - 1), Keyword::MERGE),
            // The parser would take the word for an alias of the table.
            Keyword::TABLE if in_insert && keyword(nth - 1) != Keyword::INTO => {
                tables.push(significant[nth]);
                in_insert = false;
            }
            Keyword::SELECT | Keyword::VALUES | Keyword::SET => in_insert = false,
            Keyword::BY if in_insert && (word(nth + 1, "name") || word(nth + 1, "position")) => {
                let marker = if word(nth + 1, "name") { BY_NAME } else { BY_POSITION };
                replaced.push((significant[nth], significant[nth + 1], marker));
                in_insert = false;
            }
            _ => {}
        }
    }
    let mut all = tokens;
    for &table in tables.iter().rev() {
        let span = all[table].span;
        let select = ["SELECT", "*", "FROM"].map(|word| match word {
            "*" => Token::Mul,
            word => Token::make_keyword(word),
        });
        all.splice(table..=table, select.map(|token| TokenWithSpan::new(token, span)));
        // What is marked of other inserts lies behind it, or before.
        replaced.iter_mut().filter(|(by, ..)| *by > table).for_each(|(by, name, _)| {
            *by += 2;
            *name += 2;
        });
    }
    for (by, name, marker) in replaced.into_iter().rev() {
        let span = all[by].span;
        let list = [Token::LParen, Token::make_word(marker, Some('"')), Token::RParen];
        all.splice(by..=name, list.map(|token| TokenWithSpan::new(token, span)));
    }
    all
}
