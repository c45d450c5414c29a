//! `SIMILAR TO` and `~`, whose patterns are those of RE2.
//!
//! DataFusion's operators have patterns as the `regex` crate reads them, and make simpler comparisons of those that are written out. Computed ones are for our functions.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};
use ogee_functions::re2::in_words_of_the_crate;

use super::{null, text};
use crate::names::call;

/// `SIMILAR TO` is a regular expression for all of the text, as in DuckDB; DataFusion would look for it anywhere within.
pub(super) fn similar(whole: Expr, pattern: Expr, negated: bool) -> Expr {
    let like = match written(&pattern) {
        Some(pattern) => call("regexp_like", vec![whole, text(&format!("^(?:{})$", in_words_of_the_crate(pattern)))]),
        None => call("regexp_full_match", vec![whole, pattern]),
    };
    if negated { not(like) } else { like }
}

/// `expr`, a `~` or `!~`, in words that DataFusion reads as RE2 does.
pub(super) fn found(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else { return };
    if let Some(pattern) = written(right) {
        **right = text(&in_words_of_the_crate(pattern));
        return;
    }
    let negated = *op == BinaryOperator::PGRegexNotMatch;
    let [whole, pattern] = [left, right].map(|side| *std::mem::replace(side, null()));
    let matches = call("regexp_matches", vec![whole, pattern]);
    *expr = if negated { not(matches) } else { matches };
}

/// A pattern that is written out.
fn written(pattern: &Expr) -> Option<&str> {
    match pattern {
        Expr::Nested(inner) => written(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(pattern) => Some(pattern),
            _ => None,
        },
        _ => None,
    }
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}
