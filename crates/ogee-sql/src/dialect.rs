//! The dialect of SQL: the parser's generic one, but for how operators bind, which is as in DuckDB.
//!
//! * The parser reads all that follows `IS [NOT] DISTINCT FROM` as its right operand, so that `a IS DISTINCT FROM b AND c` would be `a IS DISTINCT FROM
//!   (b AND c)`. As in PostgreSQL and DuckDB, `NOT`, `AND` and `OR` bind less than it.
//! * From least to most: comparisons; `LIKE`, `IN` and `BETWEEN`; `||` and operators of lists; `|`, `&`, `<<` and `>>`; `+` and `-`; `*`, `/`, `//` and `%`; powers;
//!   signs. To the parser `^` is an exclusive or, which binds less than `+`, and a sign less than it.
//! * `x IN ((SELECT a), b)` is a list. The parser would take what is behind two parentheses for the only query. `x IN l` asks whether the list `l` contains it, as in DuckDB.
//! * `->` and `->>` bind as `||` does, and what is behind `->` goes on over `||`. In DuckDB `->` binds less than all else, so that `j -> 'a' = 'b'` is refused: here it compares.
//! * `4!` is a factorial, and binds more than all else.
//! * `x ISNULL` and `x NOTNULL` are conditions. The parser would take the word for a name of the output.
//!
//! Not here: what statements mean.

use std::any::TypeId;

use datafusion::sql::sqlparser::{
    ast::{BinaryOperator, Expr, Statement, UnaryOperator},
    dialect::{Dialect, GenericDialect, Precedence},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use ogee_functions::{
    globs::GLOB,
    json::{ARROW, LONG_ARROW},
};

use crate::{
    chains, comprehensions,
    names::call,
    statements,
    syntax::{bare_calls, json},
};

/// Where operators are among the parser's precedences, of which those of comparisons are 20, of sums 30 and of products 40.
const CONDITIONS: u8 = 22;
const CONCATENATION: u8 = 24;
const BITS: u8 = 26;
const POWER: u8 = 42;
const TIME_ZONE: u8 = 43;
const FACTORIAL: u8 = 44;

/// See the module.
#[derive(Debug)]
pub(crate) struct OgeeDialect;

/// Answers questions as the generic dialect does.
macro_rules! as_generic {
    ($($question:ident,)*) => {
        $(fn $question(&self) -> bool {
            GenericDialect.$question()
        })*
    };
}

impl Dialect for OgeeDialect {
    fn dialect(&self) -> TypeId {
        GenericDialect.dialect()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Between | Precedence::Like => CONDITIONS,
            Precedence::Ampersand | Precedence::Caret | Precedence::Pipe => BITS,
            Precedence::AtTz => TIME_ZONE,
            other => GenericDialect.prec_value(other),
        }
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Caret => Some(Ok(POWER)),
            Token::StringConcat | Token::AtArrow | Token::ArrowAt | Token::Overlap | Token::CaretAt => {
                Some(Ok(CONCATENATION))
            }
            token if is_json_arrow(token) => Some(Ok(CONCATENATION)),
            token if null_test(token).is_some() => Some(Ok(self.prec_value(Precedence::Is))),
            token if is_glob(token) => Some(Ok(CONDITIONS)),
            Token::ExclamationMark => Some(Ok(FACTORIAL)),
            _ => None,
        }
    }

    fn parse_statement(&self, parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        statements::parse(parser)
    }

    /// Signs bind more than powers; a list may be made of another.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if let Some(list) = comprehensions::parse_prefix(parser) {
            return Some(list);
        }
        if parser.consume_token(&Token::Tilde) {
            // `~1 + 2` is `~(1 + 2)`.
            return Some(
                parser
                    .parse_subexpr(BITS)
                    .map(|expr| Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: Box::new(expr) }),
            );
        }
        if let Some(call) = bare_calls::parse_prefix(parser) {
            return Some(Ok(call));
        }
        let op = match &parser.peek_token_ref().token {
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            _ => return None,
        };
        parser.advance_token();
        Some(parser.parse_subexpr(POWER).map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    /// `SELECT sum(1) OVER w WINDOW w AS ()` names windows, and no output.
    fn is_select_item_alias(&self, explicit: bool, keyword: &Keyword, parser: &mut Parser) -> bool {
        let names_windows = || {
            let [name, named, open] = parser.peek_tokens_ref::<3>().map(|token| &token.token);
            let is_as = matches!(named, Token::Word(word) if word.keyword == Keyword::AS);
            matches!(name, Token::Word(_)) && is_as && *open == Token::LParen
        };
        if *keyword == Keyword::WINDOW && !explicit && names_windows() {
            return false;
        }
        // `SELECT 1 ON CONFLICT DO NOTHING`
        let is_conflict = *keyword == Keyword::ON
            && matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == Keyword::CONFLICT);
        explicit
            || !is_conflict && self.is_column_alias(keyword, parser)
            || (is_other_word(*keyword) && ends_item(parser))
    }

    /// Words of other dialects are names where what they begin there does not follow.
    fn is_table_factor_alias(&self, explicit: bool, keyword: &Keyword, parser: &mut Parser) -> bool {
        explicit || self.is_table_alias(keyword, parser) || (is_other_word(*keyword) && ends_item(parser))
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn parse_infix(&self, parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        if let Some(chain) = chains::parse_infix(parser, left, precedence) {
            return Some(chain);
        }
        if is_json_arrow(&parser.peek_token_ref().token) {
            return Some(parse_json_arrow(parser, left.clone(), precedence));
        }
        if let Some(is_null) = null_test(&parser.peek_token_ref().token) {
            parser.advance_token();
            let left = Box::new(left.clone());
            return Some(Ok(if is_null { Expr::IsNull(left) } else { Expr::IsNotNull(left) }));
        }
        if is_glob(&parser.peek_token_ref().token) {
            parser.advance_token();
            return Some(parser.parse_subexpr(precedence).map(|pattern| call(GLOB, vec![left.clone(), pattern])));
        }
        if parser.consume_token(&Token::ExclamationMark) {
            return Some(Ok(call("factorial", vec![left.clone()])));
        }
        if let Some(negated) = list_with_query(parser) {
            let expr = Box::new(left.clone());
            return Some(parse_list(parser).map(|list| Expr::InList { expr, list, negated }));
        }
        if let Some(negated) = list_as_value(parser) {
            let list = match parser.parse_subexpr(precedence) {
                Ok(list) => list,
                Err(error) => return Some(Err(error)),
            };
            let contains = call("list_contains", vec![list, left.clone()]);
            return Some(Ok(match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(contains) },
                false => contains,
            }));
        }
        let same = parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]);
        if !same && !parser.parse_keywords(&[IS, DISTINCT, FROM]) {
            return None;
        }
        let left = Box::new(left.clone());
        Some(parser.parse_subexpr(precedence).map(|right| match same {
            true => Expr::IsNotDistinctFrom(left, Box::new(right)),
            false => Expr::IsDistinctFrom(left, Box::new(right)),
        }))
    }

    fn supports_insert_table_alias(&self) -> bool {
        true
    }

    fn supports_alter_column_type_using(&self) -> bool {
        true
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_lambda_functions(&self) -> bool {
        true
    }

    // Those that the generic dialect answers otherwise than the trait does.
    as_generic! {
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_left_associative_joins_without_parens,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
    }
}

/// Whether `keyword` begins something in other dialects only, or elsewhere.
fn is_other_word(keyword: Keyword) -> bool {
    use Keyword as K;
    matches!(
        keyword,
        K::CLUSTER
            | K::DISTRIBUTE
            | K::EXPLAIN
            | K::FORMAT
            | K::MINUS
            | K::PREWHERE
            | K::SETTINGS
            | K::SORT
            | K::TOP
            | K::VALUES
            | K::VIEW
    )
}

/// Whether what is selected, or selected from, ends here.
fn ends_item(parser: &Parser) -> bool {
    use Keyword as K;
    match &parser.peek_token_ref().token {
        Token::Comma | Token::RParen | Token::SemiColon | Token::EOF => true,
        Token::Word(word) => matches!(
            word.keyword,
            K::FROM
                | K::WHERE
                | K::GROUP
                | K::ORDER
                | K::LIMIT
                | K::UNION
                | K::HAVING
                | K::JOIN
                | K::LEFT
                | K::RIGHT
                | K::FULL
                | K::INNER
                | K::CROSS
                | K::ON
        ),
        _ => false,
    }
}

/// Behind `[NOT] IN`, which is read, if a list follows that begins with a query in parentheses: whether there is a `NOT`.
fn list_with_query(parser: &mut Parser) -> Option<bool> {
    use Keyword::{EXCEPT, FETCH, INTERSECT, LIMIT, OFFSET, ORDER, UNION};
    let words = parser.peek_tokens_ref::<4>().map(|token| match &token.token {
        Token::Word(word) => Some(word.keyword),
        Token::LParen => None,
        _ => Some(Keyword::NoKeyword),
    });
    let negated = match words {
        [Some(Keyword::IN), None, None, _] => false,
        [Some(Keyword::NOT), Some(Keyword::IN), None, None] => true,
        _ => return None,
    };
    let mut open = 0_usize;
    let mut tokens = (0..).map(|nth| parser.peek_nth_token_no_skip(nth).token);
    for token in tokens.by_ref() {
        match token {
            Token::LParen => open += 1,
            Token::RParen if open == 2 => break,
            Token::RParen => open -= 1,
            Token::EOF => return None,
            _ => {}
        }
    }
    // What goes on behind the parentheses within goes on as a query, or is part of a list.
    match tokens.find(|token| !matches!(token, Token::Whitespace(_)))? {
        Token::RParen | Token::EOF => return None,
        Token::Word(word) if matches!(word.keyword, EXCEPT | FETCH | INTERSECT | LIMIT | OFFSET | ORDER | UNION) => {
            return None;
        }
        _ => {}
    }
    if negated {
        parser.advance_token();
    }
    parser.advance_token();
    Some(negated)
}

/// Behind `[NOT] IN`, which is read, if a list follows that is a value, `[1, 2]` or a column: whether there is a `NOT`.
fn list_as_value(parser: &mut Parser) -> Option<bool> {
    let [first, second, third] = parser.peek_tokens_ref::<3>().map(|token| &token.token);
    let keyword = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let (negated, list) = match (keyword(first), keyword(second)) {
        (Keyword::IN, _) => (false, second),
        (Keyword::NOT, Keyword::IN) => (true, third),
        _ => return None,
    };
    let begins = match list {
        Token::LBracket => true,
        Token::Word(word) => word.quote_style.is_some() || word.keyword == Keyword::NoKeyword,
        _ => false,
    };
    if !begins {
        return None;
    }
    if negated {
        parser.advance_token();
    }
    parser.advance_token();
    Some(negated)
}

fn parse_list(parser: &mut Parser) -> Result<Vec<Expr>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let list = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(list)
}

/// Whether `token` is an operator that takes a part of JSON.
fn is_json_arrow(token: &Token) -> bool {
    matches!(token, Token::LongArrow) || *token == json::arrow()
}

/// `left -> path`, or `left ->> path`.
fn parse_json_arrow(parser: &mut Parser, left: Expr, precedence: u8) -> Result<Expr, ParserError> {
    let is_long = parser.next_token().token == Token::LongArrow;
    let mut path = parser.parse_subexpr(precedence)?;
    while !is_long && parser.consume_token(&Token::StringConcat) {
        let right = Box::new(parser.parse_subexpr(precedence)?);
        path = Expr::BinaryOp { left: Box::new(path), op: BinaryOperator::StringConcat, right };
    }
    Ok(call(if is_long { LONG_ARROW } else { ARROW }, vec![left, path]))
}

/// Whether `token` is the operator of patterns as of file names.
fn is_glob(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("GLOB"))
}

/// Whether `token` asks for NULL, or for anything else.
fn null_test(token: &Token) -> Option<bool> {
    let Token::Word(word) = token else { return None };
    if word.quote_style.is_some() {
        return None;
    }
    match word.value.as_str() {
        value if value.eq_ignore_ascii_case("ISNULL") => Some(true),
        value if value.eq_ignore_ascii_case("NOTNULL") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// `sql` with a pair of parentheses around each binary operator.
    fn nested(sql: &str) -> String {
        fn show(expr: &Expr) -> String {
            match expr {
                Expr::BinaryOp { left, op, right } => format!("({} {op} {})", show(left), show(right)),
                Expr::IsDistinctFrom(left, right) => format!("({} <> {})", show(left), show(right)),
                Expr::IsNotDistinctFrom(left, right) => format!("({} == {})", show(left), show(right)),
                Expr::UnaryOp { op, expr } => format!("({op} {})", show(expr)),
                other => other.to_string(),
            }
        }
        show(&Parser::new(&OgeeDialect).try_with_sql(sql).unwrap().parse_expr().unwrap())
    }

    #[test]
    fn distinct_from_binds_more_than_and_and_less_than_comparisons() {
        assert_eq!(nested("a IS NOT DISTINCT FROM b AND c"), "((a == b) AND c)");
        assert_eq!(nested("x AND a IS DISTINCT FROM b OR c"), "((x AND (a <> b)) OR c)");
        assert_eq!(nested("NOT a IS DISTINCT FROM b AND c"), "((NOT (a <> b)) AND c)");
        assert_eq!(nested("a IS DISTINCT FROM b + 1 * c OR d"), "((a <> (b + (1 * c))) OR d)");
        assert_eq!(nested("a IS NOT DISTINCT FROM b = c"), "(a == (b = c))");
        assert_eq!(nested("a IS NULL AND b IS NOT TRUE"), "(a IS NULL AND b IS NOT TRUE)");
    }

    #[test]
    fn operators_bind_as_in_duckdb() {
        assert_eq!(nested("2 ^ 2 + 1"), "((2 ^ 2) + 1)");
        assert_eq!(nested("2 * 3 ^ 2 ^ 2 / 4"), "((2 * ((3 ^ 2) ^ 2)) / 4)");
        assert_eq!(nested("-2 ^ -2"), "((- 2) ^ (- 2))");
        assert_eq!(nested("-a::int ^ 2 - -1"), "(((- a::INT) ^ 2) - (- 1))");
        assert_eq!(nested("1 | 2 << 1 & 3"), "(((1 | 2) << 1) & 3)");
        assert_eq!(nested("1 | 2 + 3"), "(1 | (2 + 3))");
        assert_eq!(nested("'a' || 1 + 2 || 3 << 1"), "(('a' || (1 + 2)) || (3 << 1))");
        assert_eq!(nested("a @> b = c && d"), "((a @> b) = (c && d))");
        assert_eq!(nested("a LIKE b || c"), "a LIKE b || c");
        assert_eq!(nested("a LIKE b = c AND d"), "((a LIKE b = c) AND d)");
        assert_eq!(nested("a ISNULL AND b + 1 NOTNULL"), "(a IS NULL AND b + 1 IS NOT NULL)");
    }
}
