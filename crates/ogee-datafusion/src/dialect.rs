//! The dialect of SQL: the parser's generic one, but for what `IS [NOT] DISTINCT FROM` takes on its right.
//!
//! The parser reads all that follows as the right operand, so that `a IS DISTINCT FROM b AND c` would be `a IS DISTINCT FROM (b AND c)`. As in
//! PostgreSQL and DuckDB, `NOT`, `AND` and `OR` bind less than it.
//!
//! Not here: what statements mean.

use std::any::TypeId;

use datafusion::sql::sqlparser::{
    ast::Expr,
    dialect::{Dialect, GenericDialect},
    keywords::Keyword,
    parser::{Parser, ParserError},
};

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

    fn parse_infix(&self, parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
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

    fn supports_order_by_all(&self) -> bool {
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
        supports_interval_options,
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
}
