//! `EXCLUDE CURRENT ROW`, `GROUP` and `TIES` behind the frame of a window, in words that the parser knows: a key of the window's partitions (`ogee_functions::exclusions`).
//!
//! Not here: `EXCLUDE NO OTHERS`, which says nothing, and what is left of a frame.

use datafusion::sql::sqlparser::{
    ast::{Expr, Function, WindowSpec, WindowType},
    tokenizer::{Token, TokenWithSpan},
};
use ogee_functions::exclusions::Exclusion;

use super::{
    for_each_outside_queries,
    ordered_windows::NOTHING,
    parts::{Parts, call_of, space},
};

/// `tokens` with a key of the partitions for each exclusion.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_one = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("exclude"))
    };
    if !tokens.iter().any(is_one) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    // The brackets that are open, and what replaces what: a key comes before the exclusion that it is of.
    let (mut open, mut replaced) = (Vec::new(), Vec::new());
    for nth in 0..parts.len() {
        match parts.token(nth) {
            Some(Token::LParen) => open.push(nth),
            Some(Token::RParen) => {
                open.pop();
            }
            _ => {}
        }
        let Some(&window) = open.last() else { continue };
        let Some((exclusion, words)) = exclusion(&parts, nth) else { continue };
        let has_frame = parts.find(window + 1, |nth| parts.is_word(nth, &["ROWS", "RANGE", "GROUPS"])) < nth;
        let is_window = window > 0
            && parts.is_word(window - 1, &["OVER", "AS"])
            && !parts.is_word(window + 1, &["SELECT", "FROM", "WITH"]);
        if !has_frame || !is_window {
            continue;
        }
        let begin = window + 1;
        let partition = parts.find(begin, |nth| parts.is_word(nth, &["PARTITION"]));
        let key = call_of(exclusion.function_name(), []);
        if partition < nth && parts.is_word(partition + 1, &["BY"]) {
            let key = key.into_iter().chain([Token::Comma]).collect();
            replaced.push((partition + 2..partition + 2, key));
        } else {
            // Behind the name of a window that this one goes on from.
            let is_named = !parts.is_word(begin, &["ORDER", "ROWS", "RANGE", "GROUPS"]);
            let at = begin + usize::from(is_named);
            let by = [Token::make_keyword("PARTITION"), space(), Token::make_keyword("BY"), space()];
            replaced.push((at..at, by.into_iter().chain(key).collect()));
        }
        replaced.push((nth..nth + words, Vec::new()));
    }
    replaced.sort_by_key(|(range, _)| (range.start, range.end));
    parts.replaced(replaced)
}

/// The exclusion that ends a window with the words from `nth` on, and how many these are.
fn exclusion(parts: &Parts<'_>, nth: usize) -> Option<(Exclusion, usize)> {
    if !parts.is_word(nth, &["EXCLUDE"]) {
        return None;
    }
    let found = if parts.is_word(nth + 1, &["CURRENT"]) && parts.is_word(nth + 2, &["ROW"]) {
        (Exclusion::CurrentRow, 3)
    } else if parts.is_word(nth + 1, &["GROUP"]) {
        (Exclusion::Group, 2)
    } else if parts.is_word(nth + 1, &["TIES"]) {
        (Exclusion::Ties, 2)
    } else {
        return None;
    };
    parts.is(nth + found.1, &Token::RParen).then_some(found)
}

/// The text of `expr`, with exclusions where they are written.
pub(crate) fn as_written(expr: &Expr) -> String {
    let text = expr.to_string();
    if !text.contains("ogee_") {
        return text;
    }
    let mut expr = expr.clone();
    let mut ends = Vec::new();
    for_each_outside_queries(&mut expr, |expr| {
        let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = expr else { return };
        let found = spec.partition_by.iter().find_map(|key| match key {
            Expr::Function(call) => Exclusion::named(&call.name.to_string()),
            _ => None,
        });
        if let Some(found) = found {
            spec.partition_by.retain(|key| !is_exclusion(key));
            ends.push((spec.to_string(), found));
        }
    });
    let mut text = expr.to_string();
    for (spec, exclusion) in ends {
        text = text.replacen(&format!("({spec})"), &format!("({spec} {})", exclusion.text()), 1);
    }
    text.replace(&format!("{NOTHING} "), "").replace(NOTHING, "")
}

/// Whether `key` of a window's partitions is an exclusion.
fn is_exclusion(key: &Expr) -> bool {
    matches!(key, Expr::Function(call) if Exclusion::named(&call.name.to_string()).is_some())
}

/// The keys of `spec` that divide rows.
pub(super) fn keys(spec: &WindowSpec) -> impl Iterator<Item = &Expr> {
    spec.partition_by.iter().filter(|key| !is_exclusion(key))
}

/// Puts the keys `base`, of the window that `spec` goes on from, among its own if it has none.
pub(super) fn with_keys(spec: &mut WindowSpec, base: Vec<Expr>) {
    if keys(spec).next().is_none() {
        spec.partition_by.extend(base);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::dialect::OgeeDialect;

    #[test]
    fn exclusions_are_keys_of_partitions() {
        for (given, wanted) in [
            (
                "SELECT sum(x) OVER (PARTITION BY g ORDER BY x ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM t",
                "SELECT sum(x) OVER (PARTITION BY ogee_exclude_current_row(), g ORDER BY x ROWS 1 PRECEDING ) FROM t",
            ),
            (
                "SELECT sum(x) OVER (ROWS UNBOUNDED PRECEDING exclude ties) FROM t",
                "SELECT sum(x) OVER ( PARTITION BY ogee_exclude_ties() ROWS UNBOUNDED PRECEDING ) FROM t",
            ),
            (
                "SELECT sum(x) OVER (w RANGE 1 PRECEDING EXCLUDE GROUP) FROM t WINDOW w AS (ORDER BY y)",
                "SELECT sum(x) OVER (w PARTITION BY ogee_exclude_group() RANGE 1 PRECEDING ) FROM t WINDOW w AS (ORDER BY y)",
            ),
            ("SELECT * EXCLUDE (a), count(*) OVER () FROM t", "SELECT * EXCLUDE (a), count(*) OVER () FROM t"),
            ("SELECT (SELECT * EXCLUDE ties) FROM t", "SELECT (SELECT * EXCLUDE ties) FROM t"),
        ] {
            let tokens = Tokenizer::new(&OgeeDialect, given).tokenize_with_location().expect("these are tokens");
            let words = |text: &str| {
                text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(" )", ")")
            };
            let text: String = in_tokens(tokens).iter().map(|token| token.token.to_string()).collect();
            assert_eq!(words(&text), words(wanted), "{given}");
        }
    }
}
