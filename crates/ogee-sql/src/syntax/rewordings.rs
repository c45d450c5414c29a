//! Functions that are other expressions of their arguments: `ago(i)` is `now() - i`, `quantile_cont(x, [0.25, 0.75])` a list of two quantiles.
//!
//! Not here: functions that have another name only, and those that are one operator.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::{
    ast::{
        Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
        Value, VisitorMut,
    },
    parser::Parser,
};

use super::{escapes, text};
use crate::{
    dialect::OgeeDialect,
    names::{base_name, call},
    visitors,
};

/// Functions by their names and how many arguments they have, as what they are of `$1`, `$2` and so on.
const SCALARS: &[(&str, usize, &str)] = &[
    ("add", 1, "+($1)"),
    ("ago", 1, "now() - ($1)"),
    ("array_push_front", 2, "array_prepend($2, $1)"),
    ("array_reverse_sort", 1, "array_sort($1, 'DESC', 'NULLS FIRST')"),
    ("array_reverse_sort", 2, "array_sort($1, 'DESC', $2)"),
    ("assert_true", 1, "CASE WHEN NOT coalesce($1, false) THEN error('Assertion failed') END"),
    ("assert_true", 2, "CASE WHEN NOT coalesce($1, false) THEN error($2) END"),
    // Of objects there are no comments in PostgreSQL's tables, and all of them can be seen.
    ("col_description", 2, "CAST(NULL AS VARCHAR)"),
    ("days_in_month", 1, "date_part('day', last_day($1))"),
    ("generate_subscripts", 2, "unnest(range(1, array_length($1, $2) + 1))"),
    (
        "format_type",
        2,
        "(SELECT CASE logical_type WHEN 'FLOAT' THEN 'float4' WHEN 'DOUBLE' THEN 'float8' WHEN 'DECIMAL' THEN 'numeric' WHEN 'ENUM' THEN lower(type_name) \
        WHEN 'BLOB' THEN 'bytea' WHEN 'TIMESTAMP WITH TIME ZONE' THEN 'timestamptz' WHEN 'TIME WITH TIME ZONE' THEN 'timetz' WHEN 'SMALLINT' THEN 'int2' \
        WHEN 'INTEGER' THEN 'int4' WHEN 'BIGINT' THEN 'int8' WHEN 'BOOLEAN' THEN 'bool' ELSE lower(logical_type) END \
        FROM ogee_system.duckdb_types AS ogee_types WHERE ogee_types.type_oid = ($1) LIMIT 1) \
        || CASE WHEN ($2) > 0 THEN '(' || CAST(trunc(($2) / 1000) AS INTEGER) || ',' || ($2) % 1000 || ')' ELSE '' END",
    ),
    // One user may do all.
    ("has_any_column_privilege", 2, "true"),
    ("has_any_column_privilege", 3, "true"),
    ("has_column_privilege", 3, "true"),
    ("has_column_privilege", 4, "true"),
    ("has_database_privilege", 2, "true"),
    ("has_database_privilege", 3, "true"),
    ("has_foreign_data_wrapper_privilege", 2, "true"),
    ("has_foreign_data_wrapper_privilege", 3, "true"),
    ("has_function_privilege", 2, "true"),
    ("has_function_privilege", 3, "true"),
    ("has_language_privilege", 2, "true"),
    ("has_language_privilege", 3, "true"),
    ("has_schema_privilege", 2, "true"),
    ("has_schema_privilege", 3, "true"),
    ("has_sequence_privilege", 2, "true"),
    ("has_sequence_privilege", 3, "true"),
    ("has_server_privilege", 2, "true"),
    ("has_server_privilege", 3, "true"),
    ("has_table_privilege", 2, "true"),
    ("has_table_privilege", 3, "true"),
    ("has_tablespace_privilege", 2, "true"),
    ("has_tablespace_privilege", 3, "true"),
    (
        "hive_partition_component",
        2,
        "url_encode($1) || '=' || coalesce(url_encode(CAST($2 AS VARCHAR)), '__HIVE_DEFAULT_PARTITION__')",
    ),
    ("list_reverse_sort", 1, "array_sort($1, 'DESC', 'NULLS FIRST')"),
    ("list_reverse_sort", 2, "array_sort($1, 'DESC', $2)"),
    ("map_contains_entry", 3, "list_contains(map_extract($1, $2), $3)"),
    ("map_extract_value", 2, "($1)[$2]"),
    // A value of the first argument's type, whatever both are compared as.
    ("nullif", 2, "CASE WHEN ($1) = ($2) THEN NULL ELSE ($1) END"),
    ("obj_description", 1, "CAST(NULL AS VARCHAR)"),
    ("obj_description", 2, "CAST(NULL AS VARCHAR)"),
    ("inet_client_addr", 0, "NULL"),
    ("inet_client_port", 0, "NULL"),
    ("inet_server_addr", 0, "NULL"),
    ("inet_server_port", 0, "NULL"),
    ("pg_collation_is_visible", 1, "true"),
    ("pg_conversion_is_visible", 1, "true"),
    ("pg_function_is_visible", 1, "true"),
    ("pg_opclass_is_visible", 1, "true"),
    ("pg_operator_is_visible", 1, "true"),
    ("pg_opfamily_is_visible", 1, "true"),
    ("pg_ts_config_is_visible", 1, "true"),
    ("pg_ts_dict_is_visible", 1, "true"),
    ("pg_ts_parser_is_visible", 1, "true"),
    ("pg_ts_template_is_visible", 1, "true"),
    ("pg_get_constraintdef", 1, CONSTRAINT_DEFINITION),
    ("pg_get_constraintdef", 2, CONSTRAINT_DEFINITION),
    ("pg_get_expr", 2, "$1"),
    ("pg_get_expr", 3, "$1"),
    ("pg_get_viewdef", 1, VIEW_DEFINITION),
    ("pg_get_viewdef", 2, VIEW_DEFINITION),
    ("pg_has_role", 2, "true"),
    ("pg_has_role", 3, "true"),
    ("pg_is_other_temp_schema", 1, "false"),
    ("pg_my_temp_schema", 0, "0"),
    ("pg_table_is_visible", 1, "true"),
    ("pg_type_is_visible", 1, "true"),
    ("pg_typeof", 1, "lower(typeof($1))"),
    ("regexp_split_to_table", 2, "unnest(regexp_split_to_array($1, $2))"),
    ("regexp_split_to_table", 3, "unnest(regexp_split_to_array($1, $2, $3))"),
    ("shobj_description", 2, "CAST(NULL AS VARCHAR)"),
    ("subtract", 1, "-($1)"),
    ("timezone", 1, "date_part('timezone', $1)"),
];

/// The text of the constraint `$1`, by its number in `pg_constraint`.
const CONSTRAINT_DEFINITION: &str = "(SELECT constraint_text FROM ogee_system.duckdb_constraints AS ogee_constraints \
    WHERE ogee_constraints.table_oid = (($1) - ($1) % 1000000) / 1000000 AND ogee_constraints.constraint_index = ($1) % 1000000)";

/// The statement that makes the view `$1`, by its number in `pg_class`.
const VIEW_DEFINITION: &str =
    "(SELECT sql FROM ogee_system.duckdb_views AS ogee_views WHERE ogee_views.view_oid = ($1))";

/// As [`SCALARS`], of aggregates, whose clauses go to those that they are made of.
const AGGREGATES: &[(&str, usize, &str)] = &[
    ("reservoir_quantile", 2, "quantile_disc($1, $2)"),
    ("reservoir_quantile", 3, "quantile_disc($1, $2)"),
    ("wavg", 2, "sum(CAST($1 AS DOUBLE) * ($2)) / sum(CASE WHEN ($1) IS NOT NULL THEN $2 END)"),
    ("weighted_avg", 2, "sum(CAST($1 AS DOUBLE) * ($2)) / sum(CASE WHEN ($1) IS NOT NULL THEN $2 END)"),
];

/// Aggregates that take a list of fractions for a list of quantiles.
const QUANTILES: &[&str] =
    &["approx_quantile", "percentile_cont", "quantile", "quantile_cont", "quantile_disc", "reservoir_quantile"];

/// What `function`, which is called `name`, is in other words, if it is such a one.
pub(super) fn in_function(name: &str, function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let args = super::unnamed(&list.args)?;
    if QUANTILES.contains(&name)
        && let [_, Expr::Array(fractions), ..] = args.as_slice()
    {
        return Some(quantiles(function, &args[0], &fractions.elem));
    }
    let find = |known: &[(&str, usize, &'static str)]| {
        known.iter().find(|(known, count, _)| *known == name && *count == args.len()).map(|(_, _, written)| *written)
    };
    if let Some(written) = find(AGGREGATES) {
        return with_clauses(filled(written, &args)?, function);
    }
    let is_plain = function.over.is_none() && function.filter.is_none() && list.duplicate_treatment.is_none();
    if !is_plain || !list.clauses.is_empty() {
        return None;
    }
    if let Some(written) = find(SCALARS) {
        return filled(written, &args).map(|expr| Expr::Nested(Box::new(expr)));
    }
    match (name, args.as_slice()) {
        ("alias", [of]) => Some(text(&match of {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => base_name(of),
            Expr::BinaryOp { .. } => format!("({of})"),
            of => of.to_string(),
        })),
        ("constant_or_null", [value, others @ ..]) if !others.is_empty() => {
            let condition =
                others.iter().map(|other| format!("({other}) IS NOT NULL")).collect::<Vec<_>>().join(" AND ");
            filled(&format!("CASE WHEN {condition} THEN $1 END"), std::slice::from_ref(value))
        }
        ("like_escape" | "not_like_escape" | "ilike_escape" | "not_ilike_escape", [of, pattern, escape]) => {
            let operator = name.trim_end_matches("_escape").replace('_', " ");
            like(of, &operator, pattern, escape)
        }
        ("decode", [bytes, manner]) if matches!(string(manner), Some("strict" | "replace" | "ignore")) => {
            Some(call(ogee_functions::codes::DECODE, vec![bytes.clone(), manner.clone()]))
        }
        ("regexp_extract", [of, pattern, flags]) if string(flags).is_some() => {
            let group = Expr::value(Value::Number("0".to_owned(), false));
            Some(call("regexp_extract", vec![of.clone(), pattern.clone(), group, flags.clone()]))
        }
        ("date_part" | "datepart", [Expr::Array(parts), of]) => date_parts(&parts.elem, of),
        ("regexp_extract", [of, pattern, Expr::Array(names), flags @ ..]) => groups(of, pattern, &names.elem, flags),
        ("regexp_extract_all", [of, pattern, Expr::Array(names), flags @ ..]) => {
            all_groups(of, pattern, &names.elem, flags)
        }
        _ => None,
    }
}

/// The text that `expr` is, if it is written out.
fn string(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// The expression that `written` is with `args` in the places of its parameters.
fn filled(written: &str, args: &[Expr]) -> Option<Expr> {
    struct Fill<'a>(&'a [Expr]);

    impl VisitorMut for Fill<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Value(value) = expr
                && let Value::Placeholder(name) = &value.value
                && let Some(arg) = name[1..].parse::<usize>().ok().and_then(|nth| self.0.get(nth.checked_sub(1)?))
            {
                *expr = arg.clone();
            }
            ControlFlow::Continue(())
        }
    }

    let mut expr = Parser::new(&OgeeDialect).try_with_sql(written).ok()?.parse_expr().ok()?;
    let visited = visitors::visit_mut(&mut expr, &mut Fill(args));
    debug_assert!(visited.is_continue(), "the visitor never stops");
    Some(expr)
}

/// `expr`, an aggregate or the quotient of two, with the clauses of `function`.
fn with_clauses(mut expr: Expr, function: &Function) -> Option<Expr> {
    match &mut expr {
        Expr::Function(of) => {
            of.filter.clone_from(&function.filter);
            of.over.clone_from(&function.over);
        }
        Expr::BinaryOp { left, right, .. } => {
            for side in [left, right] {
                **side = with_clauses((**side).clone(), function)?;
            }
            return Some(Expr::Nested(Box::new(expr)));
        }
        _ => return None,
    }
    Some(expr)
}

/// The list of the quantiles of `value` at `fractions`, NULL where there are no values.
fn quantiles(function: &Function, value: &Expr, fractions: &[Expr]) -> Expr {
    let (duplicates, clauses) = match &function.args {
        FunctionArguments::List(list) => (list.duplicate_treatment, list.clauses.clone()),
        _ => (None, Vec::new()),
    };
    let of = |name: &str, args: Vec<Expr>, duplicate_treatment, clauses| {
        let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
        let list = FunctionArgumentList { duplicate_treatment, args, clauses };
        let name = ObjectName::from(vec![Ident::new(name)]);
        Expr::Function(Function { name, args: FunctionArguments::List(list), ..function.clone() })
    };
    let name = function.name.to_string().to_ascii_lowercase();
    let name =
        if matches!(name.as_str(), "quantile_cont" | "percentile_cont") { "quantile_cont" } else { "quantile_disc" };
    let quantile = |fraction: &Expr| of(name, vec![value.clone(), fraction.clone()], duplicates, clauses.clone());
    let each = fractions.iter().map(quantile).collect();
    let args = [of("count", vec![value.clone()], None, Vec::new()), call("make_array", each)];
    let list = filled("CASE WHEN ($1) > 0 THEN $2 END", &args);
    list.unwrap_or_else(|| args[1].clone())
}

/// The comparison of `of` with a pattern that is written out.
fn like(of: &Expr, operator: &str, pattern: &Expr, escape: &Expr) -> Option<Expr> {
    string(pattern)?;
    string(escape)?;
    let written = format!("($1) {} {pattern} ESCAPE {escape}", operator.to_ascii_uppercase());
    let mut expr = filled(&written, std::slice::from_ref(of))?;
    escapes::in_expr(&mut expr);
    Some(Expr::Nested(Box::new(expr)))
}

/// A struct of the parts of a moment, called as they are.
fn date_parts(parts: &[Expr], of: &Expr) -> Option<Expr> {
    let mut fields = Vec::with_capacity(2 * parts.len());
    for part in parts {
        string(part)?;
        fields.extend([part.clone(), call("date_part", vec![part.clone(), of.clone()])]);
    }
    let args = [of.clone(), call("named_struct", fields)];
    filled("CASE WHEN ($1) IS NOT NULL THEN $2 END", &args).filter(|_| !parts.is_empty())
}

/// A list of structs of the groups of all matches, called by `names`.
fn all_groups(of: &Expr, pattern: &Expr, names: &[Expr], flags: &[Expr]) -> Option<Expr> {
    let mut fields = Vec::new();
    let mut lists = Vec::new();
    for (nth, name) in names.iter().enumerate() {
        fields.push(format!("{} VARCHAR", Ident::with_quote('"', string(name)?)));
        let group = Expr::value(Value::Number((nth + 1).to_string(), false));
        let args = [of.clone(), pattern.clone(), group].into_iter().chain(flags.iter().cloned()).collect();
        lists.push(call("regexp_extract_all", args));
    }
    let zipped = call("list_zip", lists);
    let cast = format!("CASE WHEN ($1) IS NOT NULL THEN CAST($2 AS STRUCT<{}>[]) END", fields.join(", "));
    filled(&cast, &[of.clone(), zipped]).filter(|_| !names.is_empty())
}

/// A struct of the groups of a match, called by `names`.
fn groups(of: &Expr, pattern: &Expr, names: &[Expr], flags: &[Expr]) -> Option<Expr> {
    let mut fields = Vec::with_capacity(2 * names.len());
    for (nth, name) in names.iter().enumerate() {
        string(name)?;
        let group = Expr::value(Value::Number((nth + 1).to_string(), false));
        let args = [of.clone(), pattern.clone(), group].into_iter().chain(flags.iter().cloned()).collect();
        fields.extend([name.clone(), call("regexp_extract", args)]);
    }
    let args = [of.clone(), pattern.clone(), call("named_struct", fields)];
    filled("CASE WHEN ($1) IS NOT NULL AND ($2) IS NOT NULL THEN $3 END", &args).filter(|_| !names.is_empty())
}
